/* node/queue/lease.c - see lease.h: life of the leases of a group, its consumers, and looking at them. How the rest is
 * made is in lease_internal.h. */
#include "node/queue/lease.h"

#include <assert.h>
#include <stdlib.h>

#include "node/queue/lease_internal.h"

#define US_PER_MS  1000u
#define CREDIT_MAX (INT64_MAX / 4)

/* ---- life */

/* Nothing is leased, delayed or gathered. Consumers stay, with nothing. The group may be gone. */
static void clear(struct lq_leases *leases)
{
    while (leases->first_extent != LQ_POOL_NONE) {
        struct lq_lease_extent *extent = lq_lease_extent_at(leases, leases->first_extent);
        lq_lease_place_at(leases, extent->consumer)->held = 0;
        lq_lease_place_at(leases, extent->consumer)->extents = LQ_POOL_NONE;
        leases->first_extent = extent->later;
    }
    leases->last_extent = LQ_POOL_NONE;
    lq_pool_deinit(&leases->blocks);
    lq_pool_deinit(&leases->extents);
    lq_offset_map_deinit(&leases->block_of_number);
    lq_lease_keys_deinit(&leases->keys);
    leases->ready_count = leases->delay_count = leases->range_count = leases->failure_count = 0;
    leases->ranges_written = leases->failures_written = leases->failing = 0;
    leases->held = leases->settling = leases->returned = 0;
}

/* Delivery begins at the floor. */
static void begin(struct lq_leases *leases)
{
    clear(leases);
    leases->generation = leases->cgroup->generation;
    leases->missed_end = leases->cgroup->missed_end;
    leases->cursor = leases->cgroup->settled.floor;
}

lightq_status lq_leases_new(const struct lq_cgroup *cgroup, uint64_t now_us, uint64_t wall_ms,
                            struct lq_leases **leases)
{
    struct lq_leases *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return LIGHTQ_ENOMEM;
    }
    made->cgroup = cgroup;
    made->began_us = now_us;
    made->began_wall_ms = wall_ms;
    lq_pool_init(&made->blocks, sizeof(struct lq_lease_block));
    lq_pool_init(&made->extents, sizeof(struct lq_lease_extent));
    lq_pool_init(&made->consumers, sizeof(struct lq_lease_place));
    lq_lease_keys_init(&made->keys);
    made->first_extent = made->first_joined = made->last_joined = made->turn = LQ_POOL_NONE;
    begin(made);
    *leases = made;
    return LIGHTQ_OK;
}

void lq_leases_free(struct lq_leases *leases)
{
    if (leases == NULL) {
        return;
    }
    clear(leases);
    lq_pool_deinit(&leases->consumers);
    free(leases->ready);
    free(leases->delays);
    free(leases->ranges);
    free(leases->failures);
    free(leases);
}

uint64_t lq_leases_generation(const struct lq_leases *leases)
{
    return leases->generation;
}

/* ---- consumers */

static void leave_ring(struct lq_leases *leases, uint32_t consumer)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    if (place->turn_after == LQ_POOL_NONE) {
        return;
    }
    lq_lease_place_at(leases, place->turn_before)->turn_after = place->turn_after;
    lq_lease_place_at(leases, place->turn_after)->turn_before = place->turn_before;
    if (leases->turn == consumer) {
        leases->turn = place->turn_after == consumer ? LQ_POOL_NONE : place->turn_after;
    }
    place->turn_before = place->turn_after = LQ_POOL_NONE;
}

/* Behind all others that are in it. */
static void enter_ring(struct lq_leases *leases, uint32_t consumer)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    if (place->turn_after != LQ_POOL_NONE) {
        return;
    }
    if (leases->turn == LQ_POOL_NONE) {
        leases->turn = place->turn_before = place->turn_after = consumer;
        return;
    }
    struct lq_lease_place *after = lq_lease_place_at(leases, leases->turn);
    place->turn_after = leases->turn;
    place->turn_before = after->turn_before;
    lq_lease_place_at(leases, after->turn_before)->turn_after = consumer;
    after->turn_before = consumer;
}

lightq_status lq_leases_join(struct lq_leases *leases, void *owner, lq_lease_consumer *consumer)
{
    if (leases->consumers.count >= LQ_CGROUP_CONSUMERS_MAX) {
        return LIGHTQ_ELIMIT;
    }
    lightq_status status = lq_pool_reserve(&leases->consumers, 1);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint32_t number = lq_pool_take(&leases->consumers);
    *lq_lease_place_at(leases, number) = (struct lq_lease_place){.in_use = true,
                                                                 .owner = owner,
                                                                 .extents = LQ_POOL_NONE,
                                                                 .joined_before = leases->last_joined,
                                                                 .joined_after = LQ_POOL_NONE,
                                                                 .turn_before = LQ_POOL_NONE,
                                                                 .turn_after = LQ_POOL_NONE};
    *(leases->last_joined == LQ_POOL_NONE ? &leases->first_joined
                                          : &lq_lease_place_at(leases, leases->last_joined)->joined_after) = number;
    leases->last_joined = number;
    *consumer = number;
    return LIGHTQ_OK;
}

/* What is held of the extent is to be delivered again; the extent is gone. */
static void return_extent(struct lq_leases *leases, uint32_t number)
{
    const struct lq_lease_extent *extent = lq_lease_extent_at(leases, number);
    uint64_t end = extent->end;
    uint32_t left = extent->remaining;
    for (uint64_t base = extent->first - extent->first % LQ_LEASE_BLOCK; base < end && left > 0;
         base += LQ_LEASE_BLOCK) {
        struct lq_lease_block *block = lq_lease_block_find(leases, base);
        uint64_t its = 0;
        for (uint64_t bits = block == NULL ? 0 : block->held; bits != 0; bits &= bits - 1) {
            its |= block->extent[__builtin_ctzll(bits)] == number ? bits & -bits : 0;
        }
        if (its != 0) {
            left -= (uint32_t)__builtin_popcountll(its);
            lq_lease_let_go(leases, block, its);
            lq_lease_again(leases, base, its);
        }
    }
    assert(left == 0);
}

lightq_status lq_leases_leave(struct lq_leases *leases, lq_lease_consumer consumer, bool clean, uint64_t now_us)
{
    (void)now_us;
    lightq_status status = LIGHTQ_OK;
    leave_ring(leases, consumer);
    lq_lease_place_at(leases, consumer)->credit_messages = 0; /* nothing of its lines is for it any more */
    while (lq_lease_place_at(leases, consumer)->extents != LQ_POOL_NONE) {
        uint32_t extent = lq_lease_place_at(leases, consumer)->extents;
        if (clean || lq_lease_fail_extent(leases, extent, LQ_FAILURE_LOST) != LIGHTQ_OK) {
            status = clean ? status : LIGHTQ_ENOMEM;
            return_extent(leases, extent);
        }
    }
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    *(place->joined_before == LQ_POOL_NONE ? &leases->first_joined
                                           : &lq_lease_place_at(leases, place->joined_before)->joined_after) =
        place->joined_after;
    *(place->joined_after == LQ_POOL_NONE ? &leases->last_joined
                                          : &lq_lease_place_at(leases, place->joined_after)->joined_before) =
        place->joined_before;
    place->in_use = false;
    lq_pool_give(&leases->consumers, consumer);
    return status;
}

static int64_t add_credit(int64_t credit, uint64_t more)
{
    int64_t sum = credit + (int64_t)(more < CREDIT_MAX ? more : CREDIT_MAX);
    return sum < CREDIT_MAX ? sum : CREDIT_MAX;
}

void lq_leases_credit(struct lq_leases *leases, lq_lease_consumer consumer, uint64_t messages, uint64_t bytes)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    place->credit_messages = add_credit(place->credit_messages, messages);
    place->credit_bytes = add_credit(place->credit_bytes, bytes);
    if (lq_lease_has_credit(place)) {
        enter_ring(leases, consumer);
    }
}

void lq_leases_suspend(struct lq_leases *leases, lq_lease_consumer consumer, bool suspended)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    place->suspended = suspended;
    if (lq_lease_has_credit(place)) {
        enter_ring(leases, consumer);
    } else {
        leave_ring(leases, consumer);
    }
}

void lq_lease_charge(struct lq_leases *leases, uint32_t consumer, uint64_t messages, uint64_t bytes)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    place->credit_messages -= (int64_t)messages;
    place->credit_bytes -= (int64_t)(bytes < CREDIT_MAX ? bytes : CREDIT_MAX);
    if (leases->turn == consumer) {
        leases->turn = place->turn_after;
    }
    if (!lq_lease_has_credit(place)) {
        leave_ring(leases, consumer);
    }
}

uint32_t lq_leases_consumer_limit(const struct lq_leases *leases)
{
    return leases->consumers.high;
}

bool lq_leases_consumer(const struct lq_leases *leases, lq_lease_consumer consumer,
                        struct lq_lease_consumer_status *status)
{
    const struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    if (!place->in_use) {
        return false;
    }
    *status = (struct lq_lease_consumer_status){.owner = place->owner,
                                                .credit_messages = place->credit_messages,
                                                .credit_bytes = place->credit_bytes,
                                                .held = place->held,
                                                .active = !leases->cgroup->options.exclusive ||
                                                          leases->first_joined == consumer};
    return true;
}

/* ---- the group was changed */

/* Whatever is below the floor is gone. */
static void forget_below(struct lq_leases *leases, uint64_t floor)
{
    for (uint32_t number = 0; number < leases->blocks.high; number++) {
        struct lq_lease_block *block = lq_pool_at(&leases->blocks, number);
        uint64_t base = block->number * LQ_LEASE_BLOCK;
        if (block->number == UINT64_MAX || base >= floor) { /* MAX: it is free */
            continue;
        }
        uint64_t bits = lq_lease_bits(base, base, floor);
        lq_lease_let_go(leases, block, bits);
        lq_lease_clear_ready(leases, block, bits);
        lq_lease_clear_settling(leases, block, bits);
        lq_lease_block_release(leases, block);
    }
}

static void leave_line(void *leases, uint64_t offset)
{
    lq_lease_leave_line(leases, offset);
}

void lq_leases_changed(struct lq_leases *leases, uint64_t now_us)
{
    const struct lq_cgroup *cgroup = leases->cgroup;
    if (cgroup->generation != leases->generation) {
        begin(leases);
        return;
    }
    if (cgroup->missed_end != leases->missed_end) {
        leases->missed_end = cgroup->missed_end;
        lq_lease_keys_each_below(&leases->keys, cgroup->settled.floor, leave_line, leases);
        forget_below(leases, cgroup->settled.floor); /* after that: leaving wakes others of the line */
        leases->cursor = leases->cursor < cgroup->settled.floor ? cgroup->settled.floor : leases->cursor;
    }
    uint64_t latest_us = now_us + (uint64_t)cgroup->options.ack_wait_ms * US_PER_MS;
    for (uint32_t number = leases->last_extent; number != LQ_POOL_NONE;) { /* ack.wait became shorter: so do leases */
        struct lq_lease_extent *extent = lq_lease_extent_at(leases, number);
        if (extent->deadline_us <= latest_us) {
            break;
        }
        extent->deadline_us = latest_us;
        number = extent->earlier;
    }
}

/* ---- looking */

void lq_leases_status(const struct lq_leases *leases, struct lq_leases_status *status)
{
    const struct lq_settled *settled = &leases->cgroup->settled;
    *status = (struct lq_leases_status){
        .cursor = leases->cursor,
        .unsettled = lq_settled_unsettled(settled, 0, leases->cursor),
        .held = leases->held,
        .settling = leases->settling,
        .returned = leases->returned,
        .delayed = leases->delay_count,
        .kept_back = leases->keys.waiting,
        .consumers = leases->consumers.count,
        .held_first = UINT64_MAX,
        .redelivered = leases->redelivered,
    };
    for (uint32_t number = 0; number < leases->blocks.high; number++) {
        const struct lq_lease_block *block = lq_pool_at(&leases->blocks, number);
        if (block->number == UINT64_MAX || block->held == 0) {
            continue;
        }
        uint64_t first = block->number * LQ_LEASE_BLOCK + (unsigned)__builtin_ctzll(block->held);
        status->held_first = first < status->held_first ? first : status->held_first;
    }
    if (status->held_first == UINT64_MAX ||
        !lq_leases_holder(leases, status->held_first, &status->held_by, &status->held_until_us)) {
        status->held_first = 0;
    }
}

bool lq_leases_holder(const struct lq_leases *leases, uint64_t offset, void **owner, uint64_t *until_us)
{
    const struct lq_lease_block *block = lq_lease_block_find(leases, offset);
    if (block == NULL || (block->held >> offset % LQ_LEASE_BLOCK & 1) == 0) {
        return false;
    }
    const struct lq_lease_extent *extent = lq_lease_extent_at(leases, block->extent[offset % LQ_LEASE_BLOCK]);
    *owner = lq_lease_place_at(leases, extent->consumer)->owner;
    *until_us = extent->deadline_us;
    return true;
}
