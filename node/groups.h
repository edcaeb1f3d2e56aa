/* node/groups.h - GROUP_CREATE, _DELETE, _ALTER, _SEEK and COMMIT: changes of the consumer groups of a partition that
 * this node leads, answered when they are durable (groups.c); and GROUP_LIST and GROUP_DESCRIBE (groups_describe.c).
 * Called by router.c and shard.c; loop thread only. */
#ifndef LQ_NODE_GROUPS_H
#define LQ_NODE_GROUPS_H

#include "node/service.h"

struct lq_groups;

/* OK | ENOMEM. @service is borrowed. */
lightq_status lq_groups_new(struct lq_service *service, struct lq_groups **groups) LQ_MUST_CHECK;
/* Every session must have ended and every partition be gone. */
void lq_groups_free(struct lq_groups *groups);

/* One of the five. */
void lq_groups_change(struct lq_groups *groups, const struct lq_request *request);
/* Answers what has taken too long. To be called a few times a second. */
void lq_groups_tick(struct lq_groups *groups);

void lq_groups_list(struct lq_service *service, const struct lq_request *request);
void lq_groups_describe(struct lq_service *service, const struct lq_request *request);

#endif
