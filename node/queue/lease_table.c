/* node/queue/lease_table.c - which message of a group is where: blocks, extents, what is ready and what is delayed. See
 * lease_internal.h. */
#include <assert.h>
#include <stdlib.h>

#include "node/queue/lease_internal.h"

#define TIDY_MIN 64 /* delays, below which nothing is tidied */

/* ---- blocks */

static struct lq_lease_block *block_at(const struct lq_leases *leases, uint32_t number)
{
    return lq_pool_at(&leases->blocks, number);
}

struct lq_lease_block *lq_lease_block_find(const struct lq_leases *leases, uint64_t offset)
{
    uint32_t number = lq_offset_map_find(&leases->block_of_number, offset / LQ_LEASE_BLOCK);
    return number == LQ_OFFSET_MAP_NONE ? NULL : block_at(leases, number);
}

lightq_status lq_lease_block_reserve(struct lq_leases *leases, uint64_t more)
{
    if (more >= LQ_POOL_NONE) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_pool_reserve(&leases->blocks, (uint32_t)more);
    if (status == LIGHTQ_OK) {
        status = lq_offset_map_reserve(&leases->block_of_number, (uint32_t)more);
    }
    if (status == LIGHTQ_OK && leases->ready_capacity < leases->blocks.capacity) {
        uint64_t *ready = realloc(leases->ready, leases->blocks.capacity * sizeof *ready);
        if (ready == NULL) {
            return LIGHTQ_ENOMEM;
        }
        leases->ready = ready;
        leases->ready_capacity = leases->blocks.capacity;
    }
    return status;
}

struct lq_lease_block *lq_lease_block_make(struct lq_leases *leases, uint64_t offset)
{
    struct lq_lease_block *block = lq_lease_block_find(leases, offset);
    if (block == NULL) {
        uint32_t number = lq_pool_take(&leases->blocks);
        block = block_at(leases, number);
        block->in_heap = false;
        block->number = offset / LQ_LEASE_BLOCK;
        block->held = block->ready = block->settling = 0;
        lq_offset_map_put(&leases->block_of_number, block->number, number);
    }
    return block;
}

void lq_lease_block_release(struct lq_leases *leases, struct lq_lease_block *block)
{
    if ((block->held | block->ready | block->settling) != 0 || block->in_heap) {
        return;
    }
    (void)lq_offset_map_remove(&leases->block_of_number, block->number);
    block->number = UINT64_MAX;
    lq_pool_give(&leases->blocks, (uint32_t)(block - block_at(leases, 0)));
}

/* ---- extents */

uint32_t lq_lease_extent_new(struct lq_leases *leases, uint32_t consumer, uint64_t first, uint64_t end,
                             uint64_t deadline_us)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, consumer);
    uint32_t number = lq_pool_take(&leases->extents);
    *lq_lease_extent_at(leases, number) = (struct lq_lease_extent){.earlier = leases->last_extent,
                                                                   .later = LQ_POOL_NONE,
                                                                   .previous = LQ_POOL_NONE,
                                                                   .next = place->extents,
                                                                   .consumer = consumer,
                                                                   .first = first,
                                                                   .end = end,
                                                                   .deadline_us = deadline_us};
    *(leases->last_extent == LQ_POOL_NONE ? &leases->first_extent
                                          : &lq_lease_extent_at(leases, leases->last_extent)->later) = number;
    leases->last_extent = number;
    if (place->extents != LQ_POOL_NONE) {
        lq_lease_extent_at(leases, place->extents)->previous = number;
    }
    place->extents = number;
    return number;
}

static void remove_extent(struct lq_leases *leases, uint32_t number)
{
    const struct lq_lease_extent *extent = lq_lease_extent_at(leases, number);
    struct lq_lease_place *place = lq_lease_place_at(leases, extent->consumer);
    *(extent->earlier == LQ_POOL_NONE ? &leases->first_extent : &lq_lease_extent_at(leases, extent->earlier)->later) =
        extent->later;
    *(extent->later == LQ_POOL_NONE ? &leases->last_extent : &lq_lease_extent_at(leases, extent->later)->earlier) =
        extent->earlier;
    *(extent->previous == LQ_POOL_NONE ? &place->extents : &lq_lease_extent_at(leases, extent->previous)->next) =
        extent->next;
    if (extent->next != LQ_POOL_NONE) {
        lq_lease_extent_at(leases, extent->next)->previous = extent->previous;
    }
    lq_pool_give(&leases->extents, number);
}

void lq_lease_extent_release(struct lq_leases *leases, uint32_t extent)
{
    if (lq_lease_extent_at(leases, extent)->remaining == 0) {
        remove_extent(leases, extent);
    }
}

void lq_lease_hold(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits, uint32_t extent)
{
    struct lq_lease_extent *of = lq_lease_extent_at(leases, extent);
    uint32_t count = (uint32_t)__builtin_popcountll(bits);
    assert((block->held & bits) == 0);
    block->held |= bits;
    of->remaining += count;
    lq_lease_place_at(leases, of->consumer)->held += count;
    leases->held += count;
    for (; bits != 0; bits &= bits - 1) {
        block->extent[__builtin_ctzll(bits)] = extent;
    }
}

void lq_lease_let_go(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits)
{
    bits &= block->held;
    block->held &= ~bits;
    while (bits != 0) {
        uint32_t number = block->extent[__builtin_ctzll(bits)];
        uint32_t count = 0;
        while (bits != 0 && block->extent[__builtin_ctzll(bits)] == number) { /* neighbours mostly have the same one */
            bits &= bits - 1;
            count++;
        }
        struct lq_lease_extent *extent = lq_lease_extent_at(leases, number);
        lq_lease_place_at(leases, extent->consumer)->held -= count;
        leases->held -= count;
        extent->remaining -= count;
        if (extent->remaining == 0) {
            remove_extent(leases, number);
        }
    }
}

/* ---- ready */

static void ready_push(struct lq_leases *leases, uint64_t number)
{
    uint32_t at = leases->ready_count++;
    assert(leases->ready_count <= leases->ready_capacity);
    while (at > 0 && leases->ready[(at - 1) / 2] > number) {
        leases->ready[at] = leases->ready[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    leases->ready[at] = number;
}

static void ready_pop(struct lq_leases *leases)
{
    uint64_t moved = leases->ready[--leases->ready_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= leases->ready_count) {
            break;
        }
        child += child + 1 < leases->ready_count && leases->ready[child + 1] < leases->ready[child];
        if (leases->ready[child] >= moved) {
            break;
        }
        leases->ready[at] = leases->ready[child];
        at = child;
    }
    leases->ready[at] = moved;
}

void lq_lease_set_ready(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits)
{
    assert((block->held & bits) == 0 && (block->ready & bits) == 0);
    block->ready |= bits;
    leases->returned += (uint32_t)__builtin_popcountll(bits);
    if (!block->in_heap) {
        block->in_heap = true;
        ready_push(leases, block->number);
    }
}

void lq_lease_clear_ready(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits)
{
    leases->returned -= (uint32_t)__builtin_popcountll(block->ready & bits);
    block->ready &= ~bits;
}

uint64_t lq_lease_first_ready(struct lq_leases *leases)
{
    while (leases->ready_count > 0) {
        struct lq_lease_block *block = lq_lease_block_find(leases, leases->ready[0] * LQ_LEASE_BLOCK);
        assert(block != NULL && block->in_heap); /* a block in the heap does not go */
        if (block->ready != 0) {
            return block->number * LQ_LEASE_BLOCK + (unsigned)__builtin_ctzll(block->ready);
        }
        ready_pop(leases);
        block->in_heap = false;
        lq_lease_block_release(leases, block);
    }
    return UINT64_MAX;
}

/* ---- settling */

void lq_lease_set_settling(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits)
{
    assert((block->settling & bits) == 0);
    block->settling |= bits;
    leases->settling += (uint32_t)__builtin_popcountll(bits);
}

void lq_lease_clear_settling(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits)
{
    leases->settling -= (uint32_t)__builtin_popcountll(block->settling & bits);
    block->settling &= ~bits;
}

/* ---- delays */

static void delay_down(struct lq_leases *leases, uint32_t at, struct lq_lease_delay moved)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= leases->delay_count) {
            break;
        }
        child += child + 1 < leases->delay_count && leases->delays[child + 1].due_us < leases->delays[child].due_us;
        if (leases->delays[child].due_us >= moved.due_us) {
            break;
        }
        leases->delays[at] = leases->delays[child];
        at = child;
    }
    leases->delays[at] = moved;
}

lightq_status lq_lease_delay_reserve(struct lq_leases *leases, uint32_t more)
{
    lq_lease_delay_tidy(leases);
    uint64_t needed = (uint64_t)leases->delay_count + leases->failing + more;
    if (needed <= leases->delay_capacity) {
        return LIGHTQ_OK;
    }
    uint64_t capacity = leases->delay_capacity == 0 ? TIDY_MIN : leases->delay_capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    struct lq_lease_delay *delays =
        capacity > UINT32_MAX / 2 ? NULL : realloc(leases->delays, capacity * sizeof *delays);
    if (delays == NULL) {
        return LIGHTQ_ENOMEM;
    }
    leases->delays = delays;
    leases->delay_capacity = (uint32_t)capacity;
    return LIGHTQ_OK;
}

void lq_lease_delay(struct lq_leases *leases, uint64_t offset, uint64_t due_us)
{
    assert(leases->delay_count < leases->delay_capacity);
    uint32_t at = leases->delay_count++;
    while (at > 0 && leases->delays[(at - 1) / 2].due_us > due_us) {
        leases->delays[at] = leases->delays[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    leases->delays[at] = (struct lq_lease_delay){.due_us = due_us, .offset = offset};
    lq_lease_keys_delay(&leases->keys, offset, true);
}

uint64_t lq_lease_delay_due(const struct lq_leases *leases)
{
    return leases->delay_count == 0 ? UINT64_MAX : leases->delays[0].due_us;
}

struct lq_lease_delay lq_lease_delay_pop(struct lq_leases *leases)
{
    struct lq_lease_delay first = leases->delays[0];
    struct lq_lease_delay last = leases->delays[--leases->delay_count];
    if (leases->delay_count > 0) {
        delay_down(leases, 0, last);
    }
    return first;
}

void lq_lease_delay_tidy(struct lq_leases *leases)
{
    if (leases->delay_count < TIDY_MIN || leases->delay_count / 2 <= leases->cgroup->failures.count) {
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < leases->delay_count; i++) {
        const struct lq_failure *failure = lq_failures_find(&leases->cgroup->failures, leases->delays[i].offset);
        if (failure != NULL && !failure->dead) {
            leases->delays[kept++] = leases->delays[i];
        }
    }
    leases->delay_count = kept;
    for (uint32_t at = kept / 2; at-- > 0;) {
        delay_down(leases, at, leases->delays[at]);
    }
}

/* ---- again */

void lq_lease_again(struct lq_leases *leases, uint64_t base, uint64_t bits)
{
    if (!lq_leases_key_ordered(leases)) {
        lq_lease_set_ready(leases, lq_lease_block_find(leases, base), bits);
        return;
    }
    for (uint64_t left = bits; left != 0; left &= left - 1) {
        lq_lease_keys_wait(&leases->keys, base + (unsigned)__builtin_ctzll(left));
    }
    for (uint64_t left = bits; left != 0; left &= left - 1) {
        lq_lease_wake_line(leases, base + (unsigned)__builtin_ctzll(left));
    }
}

void lq_lease_wake_line(struct lq_leases *leases, uint64_t offset)
{
    uint64_t first;
    uint32_t holder;
    if (!lq_lease_keys_first(&leases->keys, offset, &first, &holder)) {
        return;
    }
    if (holder != LQ_KEY_NOBODY && !lq_lease_has_credit(lq_lease_place_at(leases, holder))) {
        return; /* woken when the last one that is held is done */
    }
    if (lq_lease_block_reserve(leases, 1) != LIGHTQ_OK) {
        leases->wake_all = true;
        return;
    }
    struct lq_lease_block *block = lq_lease_block_make(leases, first);
    uint64_t bit = UINT64_C(1) << first % LQ_LEASE_BLOCK;
    if (((block->held | block->ready | block->settling) & bit) == 0) {
        lq_lease_set_ready(leases, block, bit);
    }
    lq_lease_block_release(leases, block);
}

void lq_lease_leave_line(struct lq_leases *leases, uint64_t offset)
{
    uint64_t next;
    if (lq_lease_keys_leave(&leases->keys, offset, &next)) {
        lq_lease_wake_line(leases, next);
    }
}

/* ---- memory */

static uint64_t pool_bytes(const struct lq_pool *pool)
{
    return (uint64_t)pool->count * pool->element;
}

static uint64_t map_bytes(const struct lq_offset_map *map)
{
    return (uint64_t)map->count * (sizeof *map->keys + sizeof *map->values);
}

uint64_t lq_leases_bytes(const struct lq_leases *leases)
{
    const struct lq_lease_keys *keys = &leases->keys;
    return pool_bytes(&leases->blocks) + map_bytes(&leases->block_of_number) +
           (uint64_t)leases->ready_count * sizeof *leases->ready +
           (uint64_t)leases->delay_count * sizeof *leases->delays + pool_bytes(&leases->extents) +
           pool_bytes(&keys->places) + pool_bytes(&keys->lines) + map_bytes(&keys->place_of_offset) +
           map_bytes(&keys->line_of_key);
}
