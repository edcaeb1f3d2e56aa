/* node/queue/tail.h - the leader's speculative tail: what the partition will be once everything proposed is applied.
 * Verdicts are made here when a batch is handed in, so that they and its stamps follow from the log alone: the entries
 * before the proposal, applied or not yet. Apply judges again from the log and comes to the same.
 *
 * It holds only what differs from the applied state: producers with a batch in flight. It is memory of one leader in
 * one term: dropped when leadership ends. Called by partition.c. Pure memory. */
#ifndef LQ_NODE_QUEUE_TAIL_H
#define LQ_NODE_QUEUE_TAIL_H

#include <stdint.h>

#include "node/queue/partition.h"
#include "node/queue/state.h"

struct lq_tail_producer {
    uint64_t id;
    struct lq_progress progress;               /* once all that is in flight is applied */
    struct lq_partition_request *first, *last; /* proposed and not applied, in order; NULL: idle, kept for the next */
    UT_hash_handle hh;
};

struct lq_tail {
    uint64_t next_offset;
    uint64_t timestamp_ms;
    size_t producer_count; /* remembered once all is applied */
    uint64_t forget_index; /* a FORGET was proposed for this index: such producers count as unknown */
    uint64_t forget_entry; /* the entry it was proposed as; 0: none in flight */
    struct lq_tail_producer *table;
    struct lq_partition_request *ids; /* proposed with a message id, by it */
};

enum lq_tail_verdict {
    LQ_TAIL_NEXT,      /* propose it */
    LQ_TAIL_PROPOSED,  /* it is proposed already: wait for *proposed */
    LQ_TAIL_STORED,    /* it is stored already, at *place */
    LQ_TAIL_FORGOTTEN, /* it is stored already, nobody knows where */
    LQ_TAIL_GAP,
    LQ_TAIL_FENCED,
    LQ_TAIL_FULL, /* a new producer, and no room: lq_tail_forget_below first */
};

/* The tail of a leader that has proposed nothing yet. */
void lq_tail_start(struct lq_tail *tail, const struct lq_queue_state *state);
/* Forgets all; the requests are the caller's business. */
void lq_tail_drop(struct lq_tail *tail);

enum lq_tail_verdict lq_tail_judge(const struct lq_tail *tail, const struct lq_queue_state *state,
                                   const struct lq_partition_request *request, size_t producers_max,
                                   struct lq_partition_request **proposed, const struct lq_batch_place **place);

/* Before proposing a batch that was judged NEXT: room for its producer. OK | ENOMEM. lq_tail_release gives back what
 * was proposal that failed is given back. */
lightq_status lq_tail_reserve(struct lq_tail *tail, const struct lq_partition_request *request,
                              struct lq_tail_producer **producer) LQ_MUST_CHECK;
void lq_tail_release(struct lq_tail *tail, struct lq_tail_producer *producer);
/* @request was proposed, stamped with request->timestamp_ms. @producer is what lq_tail_reserve gave; NULL for producer
 * id 0. */
void lq_tail_proposed(struct lq_tail *tail, const struct lq_queue_state *state, struct lq_tail_producer *producer,
                      struct lq_partition_request *request);
/* The proposal that is to be stored under @request's message id, or NULL. */
const struct lq_partition_request *lq_tail_find_id(const struct lq_tail *tail,
                                                   const struct lq_partition_request *request);
/* Before proposing it: nobody else is to store under its id. OK | ENOMEM. */
lightq_status lq_tail_add_id(struct lq_tail *tail, struct lq_partition_request *request) LQ_MUST_CHECK;
void lq_tail_remove_id(struct lq_tail *tail, struct lq_partition_request *request);
size_t lq_tail_id_count(const struct lq_tail *tail);
/* @request, the oldest proposal, is applied now (@state shows it). */
void lq_tail_applied(struct lq_tail *tail, struct lq_partition_request *request);

/* Which index to forget up to, so that about @count idle producers go, and how many that are (*forgotten); 0: none can
 * go. */
uint64_t lq_tail_forget_below(const struct lq_tail *tail, const struct lq_queue_state *state, size_t count,
                              size_t *forgotten);
void lq_tail_forget_proposed(struct lq_tail *tail, uint64_t index, uint64_t entry, size_t forgotten);
void lq_tail_forget_applied(struct lq_tail *tail, uint64_t entry);

#endif
