/* node/consume.h - SUBSCRIBE, CREDIT, UNSUBSCRIBE and OFFSETS: applied batches of partitions that this node leads are
 * pushed to subscribers as they are stored, as far as their credit goes. Nothing is polled: a subscription moves when
 * entries are applied, credit comes, a read is done, or its client takes messages again; those that can move have their
 * turns one after the other. Called by router.c; loop thread only. */
#ifndef LQ_NODE_CONSUME_H
#define LQ_NODE_CONSUME_H

#include <stdbool.h>

#include "node/service.h"

/* OK | ENOMEM. @service is borrowed. */
lightq_status lq_consume_new(struct lq_service *service, struct lq_consume **consume) LQ_MUST_CHECK;
/* Every session must have ended, and the store have called back all reads. */
void lq_consume_free(struct lq_consume *consume);

void lq_consume_subscribe(struct lq_consume *consume, const struct lq_request *request);
void lq_consume_unsubscribe(struct lq_consume *consume, const struct lq_request *request);
void lq_consume_credit(struct lq_consume *consume, const struct lq_request *request);
void lq_consume_offsets(struct lq_consume *consume, const struct lq_request *request);

/* The first offset stamped @since_ms or later. Runs once, later; ECANCELED: the session has ended. */
typedef void (*lq_consume_located)(void *data, lightq_status status, uint64_t offset, const char *text);
/* OK: @located runs. ELIMIT | ENOMEM, and *text. */
lightq_status lq_consume_locate(struct lq_consume *consume, const struct lq_request *request, uint64_t group,
                                struct lq_partition *partition, uint64_t since_ms, lq_consume_located located,
                                void *data, const char **text) LQ_MUST_CHECK;

/* The subscriptions of one subscriber group (@cgroup 0: of all) of the partition @group, for people. */
struct lq_consume_view {
    const struct lq_session *session;
    uint64_t cgroup;
    uint64_t subscription, position;
    int64_t credit_messages, credit_bytes;
    bool standby;
};
void lq_consume_each(const struct lq_consume *consume, uint64_t group, uint64_t cgroup,
                     void (*cb)(void *data, const struct lq_consume_view *view), void *data);

/* The session ended: so do its subscriptions. */
void lq_consume_session_ended(struct lq_consume *consume, struct lq_session *session);
/* It takes deliveries again. */
void lq_consume_session_unblocked(struct lq_consume *consume, struct lq_session *session);

/* Delivers a bounded amount. To be called in each turn. True: there is more to do now. */
bool lq_consume_turn(struct lq_consume *consume);

#endif
