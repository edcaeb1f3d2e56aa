/* node/metadata.h - METADATA, TOPIC_LIST and STATS: what this node knows, answered at once. Called by router.c; loop
 * thread only. */
#ifndef LQ_NODE_METADATA_H
#define LQ_NODE_METADATA_H

#include "node/arena.h"
#include "node/service.h"

void lq_metadata_request(const struct lq_service *service, const struct lq_request *request);
void lq_metadata_topic_list(const struct lq_service *service, const struct lq_request *request);
void lq_metadata_stats(const struct lq_service *service, const struct lq_request *request);

/* For other answers that speak of nodes and partitions. */
uint32_t lq_metadata_node_state(const struct lq_service *service, const struct lq_catalog_node *node);
uint32_t lq_metadata_partition_state(const struct lq_service *service, const struct lq_catalog_partition *placed);
/* The client endpoints of @node, one per shard; *count of them. NULL: the arena failed. */
char **lq_metadata_endpoints(const struct lq_service *service, struct lq_arena *arena,
                             const struct lq_catalog_node *node, size_t *count);

#endif
