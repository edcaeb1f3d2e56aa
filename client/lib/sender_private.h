/* client/lib/sender_private.h - what sender.c (which batches go when) and sender_answer.c (what the answers mean) do
 * for each other. I/O thread only. */
#ifndef LQ_LIB_SENDER_PRIVATE_H
#define LQ_LIB_SENDER_PRIVATE_H

#include "client/lib/producer.h"

/* sender.c: sends what may be sent of @lane. */
void lq_sender_pump(struct lq_lane *lane);
/* sender.c: at the end of this turn, takes over what send() has gathered for @lane, and sends. */
void lq_sender_go_on(struct lq_lane *lane);
/* sender.c: nothing of @lane is sent before its backoff is over, and @least_ms have passed. */
void lq_sender_back_off(struct lq_lane *lane, uint32_t least_ms);
/* sender.c: a fresh producer id, numbers and epochs from 0. */
void lq_sender_new_identity(struct lq_lane *lane);
void lq_sender_wake_at(struct lightq_producer *producer, uint64_t at_us);

/* sender_answer.c: the callback of a bundle's request. */
void lq_sender_on_answer(struct lq_request *request, struct lq_reply *reply);
/* sender_answer.c: @bundle has its outcome. It is reported, and leaves its lane, when all before it have theirs. When
 * it has numbers and is not stored, an epoch begins with what comes behind it. */
void lq_sender_resolve(struct lq_bundle *bundle, lightq_status status, int64_t base_offset);

/* The oldest bundle of @lane whose outcome is not known, or NULL. */
static inline struct lq_bundle *lq_lane_oldest(const struct lq_lane *lane)
{
    struct lq_bundle *bundle = lane->batches.first;
    while (bundle != NULL && bundle->state == LQ_BUNDLE_RESOLVED) {
        bundle = bundle->next;
    }
    return bundle;
}

static inline bool lq_bundle_in_doubt(const struct lq_bundle *bundle)
{
    return bundle->attempts > bundle->rejections;
}

static inline struct lq_meta_partition *lq_lane_partition(const struct lq_lane *lane)
{
    struct lq_topic *topic = lane->route->topic;
    return topic != NULL && lane->partition < topic->partition_count ? &topic->partitions[lane->partition] : NULL;
}

#endif
