/* client/base/clock.c - the machine's clocks and random source: the only file that asks the system for them.
 * Called by everyone through the vtable, on any thread. */
#include "client/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>
#include <time.h>

#define NS_PER_US      1000
#define NS_PER_MS      1000000
#define US_PER_S       1000000
#define MS_PER_S       1000
#define RANDOM_AT_ONCE 256 /* getrandom gives this much whole, whatever signals come */

static uint64_t system_monotonic_us(struct lq_clock *clock)
{
    (void)clock;
    struct timespec now;
    int failed = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(failed == 0);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / NS_PER_US;
}

static uint64_t system_wall_ms(struct lq_clock *clock)
{
    (void)clock;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    assert(failed == 0);
    return (uint64_t)now.tv_sec * MS_PER_S + (uint64_t)now.tv_nsec / NS_PER_MS;
}

static void system_random(struct lq_clock *clock, void *out, size_t size)
{
    (void)clock;
    uint8_t *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size < RANDOM_AT_ONCE ? size : RANDOM_AT_ONCE, 0);
        if (got < 0) {
            assert(errno == EINTR); /* every other failure means a kernel without getrandom */
            continue;
        }
        at += got;
        size -= (size_t)got;
    }
}

struct lq_clock *lq_clock_system(void)
{
    /* Not const because a vtable's owner may have state; this one has none and is never written. */
    static struct lq_clock clock = {
        .monotonic_us = system_monotonic_us, .wall_ms = system_wall_ms, .random = system_random};
    return &clock;
}

uint64_t lq_clock_system_wall_us(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    assert(failed == 0);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / NS_PER_US;
}

uint64_t lq_clock_random_u64(struct lq_clock *clock)
{
    uint64_t value;
    clock->random(clock, &value, sizeof value);
    return value;
}

uint64_t lq_clock_random_below(struct lq_clock *clock, uint64_t bound)
{
    if (bound == 0) {
        return 0;
    }
    /* Values below 2^64 mod bound would make small results more likely than others: they are drawn again. */
    uint64_t unfair = (0 - bound) % bound;
    uint64_t value;
    do {
        value = lq_clock_random_u64(clock);
    } while (value < unfair);
    return value % bound;
}
