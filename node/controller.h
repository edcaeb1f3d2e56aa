/* node/controller.h - what a new topic must satisfy before it is proposed, as pure functions of the catalog: the
 * controller decides, the catalog only checks. Called by controller.c and tests. */
#ifndef LQ_NODE_CONTROLLER_H
#define LQ_NODE_CONTROLLER_H

#include <stdbool.h>

#include "node/catalog.h"
#include "node/placement.h"

/* Whether a node is up, as the controller sees it. */
typedef bool (*lq_up_cb)(const void *data, uint32_t node);

/* How many replicas each partition of a new topic gets: @wanted, or with 0 the smaller of 3 and the number of nodes,
 * made odd. OK | EINVAL (not 1, 3 or 5) | EUNAVAILABLE (more than there are nodes, or so few of them up that no leader
 * could be elected); @err says it. */
lightq_status lq_plan_replicas(const struct lq_catalog *catalog, uint32_t wanted, lq_up_cb up, const void *data,
                               uint8_t *replicas, struct lq_err *err) LQ_MUST_CHECK;

/* Node ids of 2 bytes, @partitions times @replicas, as the CREATE command takes them. OK: *placement is malloc'ed, the
 * caller frees it. ENOMEM. Only after lq_plan_replicas said OK. */
lightq_status lq_plan_placement(const struct lq_catalog *catalog, uint32_t partitions, uint8_t replicas, lq_up_cb up,
                                const void *data, uint8_t **placement) LQ_MUST_CHECK;

#endif
