/* node/carry.h - stores a batch of this node's own in a partition, whoever leads it: here, or on another node, which
 * gets it over the connection between the two. Idempotent by the batch's producer and sequence, so that what failed is
 * just asked for again. Called by dead.c and shard.c; loop thread only.
 *
 * Frames (docs/format/letters.md has the others of their type), little endian:
 *
 *      0  kind u8: 64 CARRY, 65 CARRIED | version u8, 1 | reserved u16, 0 | correlation u64
 *     12  CARRY: group u64, then the batch      CARRIED: status u16 */
#ifndef LQ_NODE_CARRY_H
#define LQ_NODE_CARRY_H

#include "node/queue/partition.h"
#include "node/service.h"

struct lq_carry;
struct lq_carry_request;

/* OK | EDUPLICATE: stored. Anything else: not known, or not; it may be asked for again. */
typedef void (*lq_carry_cb)(struct lq_carry_request *request, lightq_status status);

/* Belongs to the caller, pinned until cb. */
struct lq_carry_request {
    uint64_t group;       /* of the partition */
    struct lq_slab *slab; /* of exactly the batch; borrowed until cb */
    lq_carry_cb cb;
    void *data;
    /* Internal. */
    struct lq_partition_request batch;
    uint64_t correlation, deadline_us;
    uint32_t node;
    struct lq_carry_request *prev, *next;
};

lightq_status lq_carry_new(struct lq_service *service, struct lq_carry **carry) LQ_MUST_CHECK; /* OK | ENOMEM */
/* What is under way is told ECLOSED. Every partition must be gone. */
void lq_carry_free(struct lq_carry *carry);
/* OK: cb runs once, later. Anything else: never: ENOLEADER | EPROTO (no batch) | EUNSUPPORTED (of another shard) | ...
 */
lightq_status lq_carry_store(struct lq_carry *carry, struct lq_carry_request *request) LQ_MUST_CHECK;
/* Gives up what has not been answered. To be called a few times a second. */
void lq_carry_tick(struct lq_carry *carry);

#endif
