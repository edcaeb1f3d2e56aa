/* client/lib/wait.h - conditions that are waited for with a deadline on the monotonic clock, so that setting the wall
 * clock neither shortens nor lengthens a wait. Any thread. */
#ifndef LQ_LIB_WAIT_H
#define LQ_LIB_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "client/base/clock.h"

/* Destroy with pthread_cond_destroy. */
void lq_cond_init(pthread_cond_t *condition);

/* Monotonic microseconds @timeout_ms from now; UINT64_MAX when that is negative. */
uint64_t lq_deadline_in(struct lq_clock *clock, int timeout_ms);

/* Milliseconds until @deadline_us for poll(2), rounded up; -1 for UINT64_MAX. */
int lq_deadline_left_ms(struct lq_clock *clock, uint64_t deadline_us);

/* Waits on @condition until it is signaled or @deadline_us has passed. False: it has passed. */
bool lq_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_us);

#endif
