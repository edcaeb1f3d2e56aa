/* node/queue/purge.h - messages of a partition dropped below an offset because somebody said so: a TRIM like that of
 * retention, and an answer when it is applied. Called by node/purge.c; loop thread only. */
#ifndef LQ_NODE_QUEUE_PURGE_H
#define LQ_NODE_QUEUE_PURGE_H

#include "node/queue/partition.h"

struct lq_purge_request;

/* Runs once, later, never inside lq_partition_purge; never after lq_partition_free. Then the request is the caller's
 * again. It may call anything of partition.h but lq_partition_free.
 *
 *   OK               applied here, so durable on a majority: start_offset and end_offset are those of then. A
 *                    start_offset below what was asked for: open dead letters of a consumer group hold the rest
 *   ELEADERSHIPLOST  proposed, and the outcome is not known; it may be sent again
 *   ENOTLEADER | ENOSPC | ENOMEM | ESTOPPED | ECLOSED   not proposed */
typedef void (*lq_purge_cb)(struct lq_purge_request *request, lightq_status status);

/* Belongs to the caller, pinned until cb. */
struct lq_purge_request {
    uint64_t offset; /* of the first message that stays */
    lq_purge_cb cb;
    void *data;
    /* Given, with OK: */
    uint64_t start_offset, end_offset, term;
    /* Internal. */
    struct lq_purge_request *next;
    uint64_t index; /* of the entry it was proposed as */
    lightq_status result;
};

/* Hands it in. OK: request->cb runs once. Anything else: it never runs, nothing was proposed: ENOTLEADER | ESTOPPED |
 * EOUTOFRANGE (there is no such offset yet) | EBUSY (too much waits here). */
lightq_status lq_partition_purge(struct lq_partition *partition, struct lq_purge_request *request) LQ_MUST_CHECK;

#endif
