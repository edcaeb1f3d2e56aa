/* node/queue/lease_internal.h - what the lease files share: lease.c (life, consumers, looking), lease_table.c (which
 * message is where), lease_deliver.c and lease_settle.c. Nobody else includes it.
 *
 * A message that is not settled is in one of these places:
 *
 *     never delivered   at or above the cursor (its result may be on its way all the same: settling)
 *     held              leased: its block names the extent
 *     ready             to be delivered again now
 *     settling          a result of it is gathered or proposed
 *     delayed           to be delivered again later: in the heap of delays, in no block
 *     kept back         key-ordered groups: it waits in the line of its key, in no block
 *     dead              its dead letter is open, in no block
 *
 * Blocks of 64 offsets have a bit for each of held, ready and settling; a block without any goes. What one
 * lq_leases_take leased is an extent: a consumer, a deadline, how many messages of it are still held. Extents stand in
 * the order of their deadlines, which is the order they were made in, since every lease of a group has the same length.
 */
#ifndef LQ_NODE_QUEUE_LEASE_INTERNAL_H
#define LQ_NODE_QUEUE_LEASE_INTERNAL_H

#include "node/queue/lease.h"
#include "node/queue/lease_keys.h"
#include "node/queue/pool.h"

#define LQ_LEASE_BLOCK 64

struct lq_lease_block {
    uint32_t link; /* the pool's, when free */
    bool in_heap;  /* of blocks with ready messages */
    uint64_t number;
    uint64_t held, ready, settling;
    uint32_t extent[LQ_LEASE_BLOCK]; /* of those held */
};

struct lq_lease_extent {
    uint32_t earlier, later; /* by deadline; LQ_POOL_NONE: none */
    uint32_t previous, next; /* of the consumer */
    uint32_t consumer;
    uint32_t remaining;  /* messages of it that are held */
    uint64_t first, end; /* they lie in there */
    uint64_t deadline_us;
};

struct lq_lease_place {
    uint32_t link; /* the pool's, when free */
    bool in_use, suspended;
    void *owner;
    int64_t credit_messages, credit_bytes;
    uint32_t held;
    uint32_t extents;                     /* the first; LQ_POOL_NONE: none */
    uint32_t joined_before, joined_after; /* in the order they came */
    uint32_t turn_before, turn_after;     /* among those with credit, in a ring; LQ_POOL_NONE: has none */
};

struct lq_lease_delay {
    uint64_t due_us, offset;
};

struct lq_leases {
    const struct lq_cgroup *cgroup;  /* borrowed */
    uint64_t generation, missed_end; /* of the group, when it was looked at last */
    uint64_t began_us, began_wall_ms;
    uint64_t cursor;

    struct lq_pool blocks; /* struct lq_lease_block */
    struct lq_offset_map block_of_number;
    uint64_t *ready; /* heap of block numbers, lowest first; room for every block */
    uint32_t ready_count, ready_capacity;
    struct lq_lease_delay *delays; /* heap, first due first */
    uint32_t delay_count, delay_capacity;

    struct lq_pool extents;             /* struct lq_lease_extent */
    uint32_t first_extent, last_extent; /* by deadline */
    struct lq_pool consumers;           /* struct lq_lease_place */
    uint32_t first_joined, last_joined;
    uint32_t turn; /* whose it is; LQ_POOL_NONE: nobody has credit */
    struct lq_lease_keys keys;

    /* Results that are not proposed yet, and how many of them lq_leases_propose wrote. */
    struct lq_settle_range *ranges;
    uint32_t range_count, range_capacity, ranges_written;
    struct lq_settle_failure *failures;
    uint32_t failure_count, failure_capacity, failures_written;
    uint32_t failing; /* failures gathered or proposed: there is room for as many delays */

    uint32_t held, settling, returned;
    uint64_t redelivered;
    bool wake_all; /* a line was not woken for want of memory: look at all of them */
};

static inline bool lq_leases_key_ordered(const struct lq_leases *leases)
{
    return leases->cgroup->options.key_ordered;
}

/* The bits that stand for offsets of [first, end) in the block at @base. */
static inline uint64_t lq_lease_bits(uint64_t base, uint64_t first, uint64_t end)
{
    uint64_t bits = first > base ? UINT64_MAX << (first - base) : UINT64_MAX;
    return end - base < LQ_LEASE_BLOCK ? bits & ~(UINT64_MAX << (end - base)) : bits;
}

/* ---- lease_table.c */

/* The block that holds @offset, or NULL. Good until the next reserve or release. */
struct lq_lease_block *lq_lease_block_find(const struct lq_leases *leases, uint64_t offset);
/* Room for @more blocks. OK | ENOMEM. */
lightq_status lq_lease_block_reserve(struct lq_leases *leases, uint64_t more) LQ_MUST_CHECK;
/* The block that holds @offset; a new one has room reserved. */
struct lq_lease_block *lq_lease_block_make(struct lq_leases *leases, uint64_t offset);
/* A block without bits goes. */
void lq_lease_block_release(struct lq_leases *leases, struct lq_lease_block *block);

/* A new extent of @consumer, last by deadline. OK: room for one was reserved in leases->extents. */
uint32_t lq_lease_extent_new(struct lq_leases *leases, uint32_t consumer, uint64_t first, uint64_t end,
                             uint64_t deadline_us);
/* It goes, when nothing of it is held. */
void lq_lease_extent_release(struct lq_leases *leases, uint32_t extent);
static inline struct lq_lease_extent *lq_lease_extent_at(const struct lq_leases *leases, uint32_t number)
{
    return lq_pool_at(&leases->extents, number);
}
/* The messages of @bits, none of them held, are held by @extent now. */
void lq_lease_hold(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits, uint32_t extent);
/* Those of @bits that are held are not any more; extents that are empty go. */
void lq_lease_let_go(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits);

/* Those of @bits are ready; none of them was, or is held. */
void lq_lease_set_ready(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits);
void lq_lease_clear_ready(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits);
/* The lowest message that is ready; UINT64_MAX: none is. */
uint64_t lq_lease_first_ready(struct lq_leases *leases);
void lq_lease_set_settling(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits);
void lq_lease_clear_settling(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits);

/* Room for @more delays, beside those of the failures on their way. OK | ENOMEM. */
lightq_status lq_lease_delay_reserve(struct lq_leases *leases, uint32_t more) LQ_MUST_CHECK;
/* It is to be delivered again at @due_us. Its room was reserved. */
void lq_lease_delay(struct lq_leases *leases, uint64_t offset, uint64_t due_us);
/* When the first of them is due; UINT64_MAX: none is delayed. */
uint64_t lq_lease_delay_due(const struct lq_leases *leases);
struct lq_lease_delay lq_lease_delay_pop(struct lq_leases *leases);
/* Messages in the heap that were settled since are taken out, when they have become many. */
void lq_lease_delay_tidy(struct lq_leases *leases);

/* The messages of @bits in the block at @base (there is one, but in key-ordered groups), not settled, not dead, held by
 * nobody and below the cursor, can be delivered again: they are ready, or wait in the lines of their keys. Blocks may
 * have moved afterwards.
 */
void lq_lease_again(struct lq_leases *leases, uint64_t base, uint64_t bits);
/* Key-ordered: the first message that waits in the line of @offset becomes ready, when it may. */
void lq_lease_wake_line(struct lq_leases *leases, uint64_t offset);
/* Key-ordered: @offset is settled or dead, and leaves its line. */
void lq_lease_leave_line(struct lq_leases *leases, uint64_t offset);

/* ---- lease.c */

static inline struct lq_lease_place *lq_lease_place_at(const struct lq_leases *leases, uint32_t consumer)
{
    return lq_pool_at(&leases->consumers, consumer);
}
static inline bool lq_lease_has_credit(const struct lq_lease_place *place)
{
    return !place->suspended && place->credit_messages > 0 && place->credit_bytes > 0;
}
/* Takes from @consumer's credit, and the turn goes to the next. */
void lq_lease_charge(struct lq_leases *leases, uint32_t consumer, uint64_t messages, uint64_t bytes);

/* ---- lease_deliver.c */

/* What was delayed and is due becomes ready. Without memory it stays delayed, and is looked at again next time. */
void lq_lease_take_due(struct lq_leases *leases, uint64_t now_us);

/* ---- lease_settle.c */

/* What is still held of @extent failed: gathered; the extent is gone. ENOMEM: some of it is, and some is still held. */
lightq_status lq_lease_fail_extent(struct lq_leases *leases, uint32_t extent, uint8_t reason) LQ_MUST_CHECK;

#endif
