/* node/produce.h - PRODUCE: a record batch from a client is checked once and handed to its partition; the answer goes
 * out when the partition has decided. Costs are per batch. Called by router.c; loop thread only. */
#ifndef LQ_NODE_PRODUCE_H
#define LQ_NODE_PRODUCE_H

#include "node/service.h"

/* OK | ENOMEM. @service is borrowed. */
lightq_status lq_produce_new(struct lq_service *service, struct lq_produce **produce) LQ_MUST_CHECK;
/* Every partition must be gone: no request is under way any more. */
void lq_produce_free(struct lq_produce *produce);

void lq_produce_request(struct lq_produce *produce, const struct lq_request *request);
/* Answers requests whose time is over with ETIMEDOUT. To be called a few times a second. */
void lq_produce_tick(struct lq_produce *produce);

#endif
