/* node/placement.h - which nodes get the replicas of new partitions, and which of them should lead. Pure and
 * deterministic: the same nodes, counts and partitions give the same answer everywhere. Called by controller.c (new
 * topics) and catalog_apply.c (a node replaced by another). */
#ifndef LQ_NODE_PLACEMENT_H
#define LQ_NODE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/limits.h"

struct lq_placement_node {
    uint32_t id;
    uint32_t replicas;      /* it has, and is given here */
    uint32_t leaders;       /* it should lead, and is given here */
    uint32_t shard_leaders; /* of them, those in the shard of the partition being placed; the caller keeps it */
    bool second_choice;     /* down: used only when the others are too few */
};

/* Chooses @replicas different nodes for one partition: those with the fewest replicas; the first in @chosen, which
 * should lead, is the one of them with the fewest to lead, in all and then in its shard. Counts them in @nodes. @seed
 * (the partition's number, say) spreads ties, so that two nodes do not share all their partitions. False: there are
 * fewer nodes than that. */
bool lq_place_partition(struct lq_placement_node *nodes, size_t node_count, unsigned replicas, uint64_t seed,
                        uint32_t chosen[LQ_REPLICAS_MAX]);

/* One more node for a partition that has @taken already, or 0 when there is none. Counts it. */
uint32_t lq_place_replica(struct lq_placement_node *nodes, size_t node_count, const uint32_t *taken,
                          unsigned taken_count, uint64_t seed);

#endif
