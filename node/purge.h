/* node/purge.h - PARTITION_PURGE: drops messages of a partition that this node leads, answered when that is durable.
 * Called by router.c and shard.c; loop thread only. */
#ifndef LQ_NODE_PURGE_H
#define LQ_NODE_PURGE_H

#include "node/service.h"

struct lq_purges;

/* OK | ENOMEM. @service is borrowed. */
lightq_status lq_purges_new(struct lq_service *service, struct lq_purges **purges) LQ_MUST_CHECK;
/* Every partition must be gone. */
void lq_purges_free(struct lq_purges *purges);

void lq_purges_request(struct lq_purges *purges, const struct lq_request *request);
/* Answers what has taken too long. To be called a few times a second. */
void lq_purges_tick(struct lq_purges *purges);

#endif
