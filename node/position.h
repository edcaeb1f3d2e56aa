/* node/position.h - where a subscription begins. Called by consume.c. Pure functions over a partition. */
#ifndef LQ_NODE_POSITION_H
#define LQ_NODE_POSITION_H

#include "client/wire/codec.h"
#include "node/queue/partition_groups.h"

/* The offset that @start means, when it can be told at once. OK | ENOTREADY (it is a time) | EOUTOFRANGE |
 * EUNSUPPORTED, and *text. */
lightq_status lq_position_resolve(const struct lq_partition *partition, const Lightq__Wire__Start *start,
                                  uint64_t *offset, const char **text) LQ_MUST_CHECK;
/* The consumer group that @body names. OK | ENOTFOUND | EFENCED (of another generation), and *text. */
lightq_status lq_position_group(const struct lq_partition *partition, const Lightq__Wire__Subscribe *body,
                                const struct lq_cgroup **cgroup, const char **text) LQ_MUST_CHECK;
/* Where a subscriber group goes on. EOUTOFRANGE: what is there has been trimmed; *offset is filled all the same. */
lightq_status lq_position_resume(const struct lq_partition *partition, const struct lq_cgroup *cgroup, uint64_t *offset,
                                 const char **text) LQ_MUST_CHECK;

#endif
