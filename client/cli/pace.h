/* client/cli/pace.h - when each message of an open loop is due, and waiting for it. */
#ifndef LQ_CLI_PACE_H
#define LQ_CLI_PACE_H

#include <stdint.h>

struct pace {
    uint64_t start_us;
    uint64_t rate; /* per second; 0: no pace, everything is due at once */
};

uint64_t pace_now_us(void);
void pace_start(struct pace *pace, uint64_t rate);
/* When message number @index, from 0, is due. */
uint64_t pace_due_us(const struct pace *pace, uint64_t index);
/* Waits until @until_us or until @fd is readable, whatever comes first. */
void pace_wait(int fd, uint64_t until_us);

#endif
