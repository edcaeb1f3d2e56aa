/* node/queue/failures.h - the messages of a consumer group that failed and are not settled: how often, why, and when
 * they may be delivered again. Part of the deterministic state of a group (cgroup.c); lease.c reads it. Pure memory. */
#ifndef LQ_NODE_QUEUE_FAILURES_H
#define LQ_NODE_QUEUE_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "node/queue/offset_map.h"

/* Why a delivery failed. Numbers are those of commands and checkpoints. */
enum lq_failure_reason {
    LQ_FAILURE_NACK = 1,     /* its consumer said so */
    LQ_FAILURE_EXPIRED = 2,  /* not settled within ack.wait */
    LQ_FAILURE_REJECTED = 3, /* its consumer wants it never again: it is dead at once */
    LQ_FAILURE_LOST = 4,     /* its consumer's connection ended without a goodbye */
};

struct lq_failure {
    uint64_t offset;
    uint64_t not_before_ms; /* by the stamps of the log: of the failure's entry, and delay_ms */
    uint32_t delay_ms;
    uint32_t count; /* failed deliveries, from 1 */
    uint8_t reason; /* of the last one */
    bool dead;      /* it goes to the dead letters: never delivered again */
};

struct lq_failures {
    struct lq_failure *at; /* in no order */
    uint32_t count, capacity;
    struct lq_offset_map by_offset;
};

void lq_failures_deinit(struct lq_failures *failures); /* zeroed is initialised; so is it afterwards */
/* That message's, or NULL. Valid until the next change. */
struct lq_failure *lq_failures_find(const struct lq_failures *failures, uint64_t offset);
/* A new one for @failure->offset, or its new content. OK | ENOMEM (nothing changed). */
lightq_status lq_failures_put(struct lq_failures *failures, const struct lq_failure *failure) LQ_MUST_CHECK;
/* Those of [first, end) are forgotten. */
void lq_failures_forget(struct lq_failures *failures, uint64_t first, uint64_t end);

/*   0 count u32 | then by offset: offset varint (the distance to the one before, less one; of the first the distance to
 *   @floor), not_before_ms varint, delay_ms varint, count varint, reason u8, dead u8. OK | ENOMEM | ETOOBIG. */
lightq_status lq_failures_save(const struct lq_failures *failures, uint64_t floor,
                               struct lq_writer *writer) LQ_MUST_CHECK;
/* @failures is zeroed; on failure deinit it. OK | ECORRUPT (an offset at or beyond @end, a count of 0, more than
 * @count_max) | ENOMEM. */
lightq_status lq_failures_load(struct lq_failures *failures, struct lq_reader *reader, uint64_t floor, uint64_t end,
                               uint32_t count_max) LQ_MUST_CHECK;

#endif
