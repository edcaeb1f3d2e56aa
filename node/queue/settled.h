/* node/queue/settled.h - which messages of a partition a consumer group is done with: all below the floor, none at or
 * above the ceiling, and between them those that are not holes.
 *
 *     0 ......... floor . . # # # . # ......... ceiling ............ end of the partition
 *     all settled       holes: . = not settled  nothing settled from here on
 *
 * Only holes take memory: blocks of 256 offsets that have one, 64 bytes each, found by number and linked in order. A
 * settled run costs nothing however long it is, so one message that is stuck holds up nobody's bookkeeping, and an ack
 * costs the same with one hole or a million. The floor is a hole, or it is the ceiling.
 *
 * Part of the deterministic state of a group (cgroup.c); lease.c reads it. Pure memory. */
#ifndef LQ_NODE_QUEUE_SETTLED_H
#define LQ_NODE_QUEUE_SETTLED_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "node/queue/offset_map.h"

#define LQ_SETTLED_BLOCK_WORDS 4
#define LQ_SETTLED_BLOCK       (64 * LQ_SETTLED_BLOCK_WORDS) /* offsets of one block */

/* One cache line: holes among the offsets number * 256 and so on. */
struct lq_settled_block {
    uint64_t number;
    uint64_t holes[LQ_SETTLED_BLOCK_WORDS];
    uint32_t next, previous; /* by number; UINT32_MAX: none. next also links free ones */
    uint32_t count;          /* of holes; 0: free */
    uint32_t reserved[3];
};

struct lq_settled {
    uint64_t floor, ceiling;
    uint64_t holes; /* in [floor, ceiling) */
    struct lq_settled_block *blocks;
    uint32_t block_capacity, free_block; /* UINT32_MAX: none */
    uint32_t first, last;                /* UINT32_MAX: none */
    struct lq_offset_map by_number;
};

/* Everything below @floor is settled, nothing else. */
void lq_settled_init(struct lq_settled *settled, uint64_t floor);
void lq_settled_deinit(struct lq_settled *settled);
/* As a new one, at another floor. */
void lq_settled_reset(struct lq_settled *settled, uint64_t floor);

/* True for what is settled; @offset may be any. */
bool lq_settled_has(const struct lq_settled *settled, uint64_t offset);
/* The bits of the 64 offsets from @first on (a multiple of 64) that are not settled. */
uint64_t lq_settled_word(const struct lq_settled *settled, uint64_t first);
/* The first offset at or above @from that is not settled. It may be the ceiling, or @from above it. Costs little when
 * @from lies in a block with holes or is the floor. */
uint64_t lq_settled_next_hole(const struct lq_settled *settled, uint64_t from);
/* How many of [first, end) are not settled. */
uint64_t lq_settled_unsettled(const struct lq_settled *settled, uint64_t first, uint64_t end);

/* Settles [first, first + count). OK: *added of them were not settled before. ELIMIT: there would be more than
 * @holes_max holes, or it is longer than LQ_SETTLE_RANGE_MAX. ENOMEM. When it fails nothing has changed. */
lightq_status lq_settled_add(struct lq_settled *settled, uint64_t first, uint64_t count, uint64_t holes_max,
                             uint64_t *added) LQ_MUST_CHECK;
/* The messages below @floor are gone: they count as settled. Gives how many of them were not, and the first such in
 * *first (when there is one). A lower floor than there is changes nothing. */
uint64_t lq_settled_raise(struct lq_settled *settled, uint64_t floor, uint64_t *first);

/*   0 floor u64 | 8 number of hole runs u32 | then of each: settled messages before it varint (0 for the first only),
 *   holes varint. The ceiling is one above the last message that is settled behind the runs: a last varint says how
 *   many there are (0 exactly when there are no runs). Bytes follow from what is settled and nothing else. */
void lq_settled_save(const struct lq_settled *settled, struct lq_writer *writer);
/* @settled is not initialised; on failure it needs no deinit. OK | ECORRUPT (runs that do not follow, ceiling beyond
 * @end, more than @holes_max holes) | ENOMEM. */
lightq_status lq_settled_load(struct lq_settled *settled, struct lq_reader *reader, uint64_t end,
                              uint64_t holes_max) LQ_MUST_CHECK;

#endif
