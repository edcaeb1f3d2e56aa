/* client/base/clock.h - time and randomness behind one vtable, so that a simulation can give its own.
 * The real ones are the only callers of the system's clocks and random source. Any thread. */
#ifndef LQ_BASE_CLOCK_H
#define LQ_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct lq_clock {
    uint64_t (*monotonic_us)(struct lq_clock *clock); /* never goes back; its zero means nothing */
    uint64_t (*wall_ms)(struct lq_clock *clock);      /* milliseconds since 1970, may jump */
    void (*random)(struct lq_clock *clock, void *out, size_t size);
};

/* The machine's own. Never freed. */
struct lq_clock *lq_clock_system(void);

/* Microseconds since 1970 by the machine's clock, for log lines only: what behaves by time asks a struct lq_clock. */
uint64_t lq_clock_system_wall_us(void);

static inline uint64_t lq_clock_monotonic_us(struct lq_clock *clock)
{
    return clock->monotonic_us(clock);
}

static inline uint64_t lq_clock_monotonic_ms(struct lq_clock *clock)
{
    return clock->monotonic_us(clock) / 1000;
}

static inline uint64_t lq_clock_wall_ms(struct lq_clock *clock)
{
    return clock->wall_ms(clock);
}

uint64_t lq_clock_random_u64(struct lq_clock *clock);
/* Uniform in [0, bound); 0 when bound is 0. */
uint64_t lq_clock_random_below(struct lq_clock *clock, uint64_t bound);

#endif
