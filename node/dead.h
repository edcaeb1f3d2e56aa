/* node/dead.h - moves dead letters: messages that a pipeline group has given up go, once each, into
 * <topic>.<group>.dlq, which is made when the first one comes; then they are settled (queue/dead_letters.h). For
 * partitions that this node leads, one letter of a group after the other. What cannot be moved stays, and is tried
 * again, less and less often.
 *
 * The topic has as many partitions as a node has shards, and a partition's letters go to the one of their own shard.
 * Called by shard.c, pipeline.c and groups_describe.c; loop thread only. */
#ifndef LQ_NODE_DEAD_H
#define LQ_NODE_DEAD_H

#include "node/queue/partition_groups.h"
#include "node/service.h"

struct lq_dead;

lightq_status lq_dead_new(struct lq_service *service, struct lq_dead **dead) LQ_MUST_CHECK; /* OK | ENOMEM */
/* Every partition must be gone, and all reads called back. */
void lq_dead_free(struct lq_dead *dead);
/* Looks for letters, and goes on with them. To be called a few times a second. */
void lq_dead_tick(struct lq_dead *dead);
/* There may be some in the partition @group: they are looked for in the next tick. */
void lq_dead_hint(struct lq_dead *dead, uint64_t group);
/* Why the group's letters are not moved, in a sentence; "" when they are, or there are none. */
const char *lq_dead_reason(const struct lq_dead *dead, uint64_t group, uint64_t number);

#endif
