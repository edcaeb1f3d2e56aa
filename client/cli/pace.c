/* client/cli/pace.c - see pace.h. */
#include "client/cli/pace.h"

#include <poll.h>
#include <time.h>

#include "client/base/clock.h"

#define US_PER_S  1000000u
#define NS_PER_US 1000u

uint64_t pace_now_us(void)
{
    return lq_clock_monotonic_us(lq_clock_system());
}

void pace_start(struct pace *pace, uint64_t rate)
{
    pace->start_us = pace_now_us();
    pace->rate = rate;
}

uint64_t pace_due_us(const struct pace *pace, uint64_t index)
{
    if (pace->rate == 0) {
        return pace->start_us;
    }
    return pace->start_us + index / pace->rate * US_PER_S + index % pace->rate * US_PER_S / pace->rate;
}

void pace_wait(int fd, uint64_t until_us)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    uint64_t now_us = pace_now_us();
    uint64_t wait_us = until_us > now_us ? until_us - now_us : 0;
    struct timespec wait = {.tv_sec = (time_t)(wait_us / US_PER_S), .tv_nsec = (long)(wait_us % US_PER_S * NS_PER_US)};
    (void)ppoll(&polled, 1, &wait, NULL);
}
