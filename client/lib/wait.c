/* client/lib/wait.c - see wait.h. */
#include "client/lib/wait.h"

#include <errno.h>
#include <limits.h>

#define US_PER_MS 1000u
#define US_PER_S  1000000u
#define NS_PER_US 1000u

void lq_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

uint64_t lq_deadline_in(struct lq_clock *clock, int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : lq_clock_monotonic_us(clock) + (uint64_t)timeout_ms * US_PER_MS;
}

int lq_deadline_left_ms(struct lq_clock *clock, uint64_t deadline_us)
{
    if (deadline_us == UINT64_MAX) {
        return -1;
    }
    uint64_t now_us = lq_clock_monotonic_us(clock);
    uint64_t left_ms = now_us >= deadline_us ? 0 : (deadline_us - now_us + US_PER_MS - 1) / US_PER_MS;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

bool lq_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_us)
{
    if (deadline_us == UINT64_MAX) {
        return pthread_cond_wait(condition, mutex) == 0;
    }
    struct timespec until = {.tv_sec = (time_t)(deadline_us / US_PER_S),
                             .tv_nsec = (long)(deadline_us % US_PER_S * NS_PER_US)};
    return pthread_cond_timedwait(condition, mutex, &until) != ETIMEDOUT;
}
