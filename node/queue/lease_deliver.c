/* node/queue/lease_deliver.c - which message is next, and leasing it: lq_leases_next and lq_leases_take. See
 * lease_internal.h. */
#include <assert.h>

#include "node/queue/lease_internal.h"

#define US_PER_MS 1000u

/* ---- what is next */

void lq_lease_take_due(struct lq_leases *leases, uint64_t now_us)
{
    while (lq_lease_delay_due(leases) <= now_us && lq_lease_block_reserve(leases, 1) == LIGHTQ_OK) {
        uint64_t offset = lq_lease_delay_pop(leases).offset;
        const struct lq_failure *failure = lq_failures_find(&leases->cgroup->failures, offset);
        const struct lq_lease_block *block = lq_lease_block_find(leases, offset);
        uint64_t bit = UINT64_C(1) << offset % LQ_LEASE_BLOCK;
        bool is_elsewhere = block != NULL && ((block->held | block->ready | block->settling) & bit) != 0;
        lq_lease_keys_delay(&leases->keys, offset, false);
        if (failure == NULL || failure->dead || is_elsewhere) {
            continue; /* it was settled meanwhile, or is being */
        }
        if (!lq_leases_key_ordered(leases)) {
            (void)lq_lease_block_make(leases, offset);
        }
        lq_lease_again(leases, offset - offset % LQ_LEASE_BLOCK, bit);
    }
}

static void wake_one(void *data, uint64_t offset)
{
    lq_lease_wake_line(data, offset);
}

/* When a message that failed may be delivered again: now or earlier when its delay is over. Never later than its delay
 * from now, whatever the clocks of two leaders say. */
static uint64_t due_of(const struct lq_leases *leases, const struct lq_failure *failure, uint64_t now_us)
{
    uint64_t wall_ms = leases->began_wall_ms + (now_us - leases->began_us) / US_PER_MS;
    uint64_t left_ms = failure->not_before_ms > wall_ms ? failure->not_before_ms - wall_ms : 0;
    left_ms = left_ms > failure->delay_ms ? failure->delay_ms : left_ms;
    return now_us + left_ms * US_PER_MS;
}

/* The offset that the cursor must not pass: as many messages as max.unsettled allows lie between. */
static uint64_t window_end(const struct lq_leases *leases)
{
    const struct lq_settled *settled = &leases->cgroup->settled;
    uint64_t max_unsettled = leases->cgroup->options.max_unsettled;
    return settled->ceiling + (settled->holes < max_unsettled ? max_unsettled - settled->holes : 0);
}

static bool is_settling(const struct lq_leases *leases, uint64_t offset)
{
    const struct lq_lease_block *block = lq_lease_block_find(leases, offset);
    return block != NULL && (block->settling >> offset % LQ_LEASE_BLOCK & 1) != 0;
}

/* Moves the cursor to the next message that may be offered, and gives it; @end: there is none. In a key-ordered group
 * everything that is not settled is offered, so that its key is learnt. */
static uint64_t move_cursor(struct lq_leases *leases, uint64_t end, uint64_t now_us)
{
    bool key_ordered = lq_leases_key_ordered(leases);
    for (;;) {
        uint64_t at = lq_settled_next_hole(&leases->cgroup->settled, leases->cursor);
        if (at >= end) {
            return end;
        }
        leases->cursor = at;
        const struct lq_failure *failure = lq_failures_find(&leases->cgroup->failures, at);
        if (failure != NULL && failure->dead) {
            leases->cursor++;
            continue;
        }
        if (key_ordered || at >= window_end(leases)) {
            return at;
        }
        if (!is_settling(leases, at)) {
            uint64_t due_us = failure == NULL ? now_us : due_of(leases, failure, now_us);
            if (due_us <= now_us) {
                return at;
            }
            if (lq_lease_delay_reserve(leases, 1) != LIGHTQ_OK) {
                return end; /* without memory it is looked at again next time */
            }
            lq_lease_delay(leases, at, due_us);
        }
        leases->cursor++;
    }
}

/* Who gets @offset; LQ_LEASE_NOBODY: nobody has credit. */
static lq_lease_consumer choose(const struct lq_leases *leases, uint64_t offset)
{
    if (leases->cgroup->options.exclusive) {
        return lq_lease_has_credit(lq_lease_place_at(leases, leases->first_joined)) ? leases->first_joined
                                                                                    : LQ_LEASE_NOBODY;
    }
    uint64_t first;
    uint32_t holder;
    if (lq_leases_key_ordered(leases) && lq_lease_keys_first(&leases->keys, offset, &first, &holder) &&
        holder != LQ_KEY_NOBODY && lq_lease_has_credit(lq_lease_place_at(leases, holder))) {
        return holder;
    }
    return leases->turn == LQ_POOL_NONE ? LQ_LEASE_NOBODY : leases->turn;
}

enum lq_lease_state lq_leases_next(struct lq_leases *leases, uint64_t end, uint64_t now_us,
                                   struct lq_lease_offer *offer, uint64_t *due_us)
{
    if (leases->wake_all) {
        leases->wake_all = false;
        lq_lease_keys_each_below(&leases->keys, UINT64_MAX, wake_one, leases);
    }
    lq_lease_take_due(leases, now_us);
    uint64_t offset = lq_lease_first_ready(leases);
    bool is_new = offset == UINT64_MAX;
    if (is_new) {
        offset = move_cursor(leases, end, now_us);
    }
    *due_us = lq_lease_delay_due(leases);
    if (leases->cgroup->options.paused) {
        return LQ_LEASE_PAUSED;
    }
    if (leases->consumers.count == 0) {
        return LQ_LEASE_NO_CONSUMER;
    }
    if (is_new && offset >= end) {
        return *due_us == UINT64_MAX ? LQ_LEASE_END : LQ_LEASE_DELAYED;
    }
    if (is_new && offset >= window_end(leases)) {
        return LQ_LEASE_WINDOW;
    }
    lq_lease_consumer consumer = choose(leases, offset);
    if (consumer == LQ_LEASE_NOBODY) {
        return LQ_LEASE_NO_CREDIT;
    }
    *offer = (struct lq_lease_offer){
        .offset = offset, .consumer = consumer, .owner = lq_lease_place_at(leases, consumer)->owner};
    return LQ_LEASE_OFFER;
}

/* ---- taking */

struct taking {
    struct lq_leases *leases;
    const struct lq_lease_batch *batch;
    lq_lease_consumer consumer;
    uint32_t extent;
    uint64_t now_us;
    uint64_t end;  /* messages from here on are not looked at */
    uint64_t left; /* messages the credit allows */
    struct lq_lease_grant *grants;
    size_t grants_max, count;
    uint64_t granted;
};

/* The grant that a message at @offset would go into; NULL: there is no room for it. */
static struct lq_lease_grant *grant_for(struct taking *taking, uint64_t offset, uint32_t delivery)
{
    struct lq_lease_grant *last = taking->count > 0 ? &taking->grants[taking->count - 1] : NULL;
    if (taking->left == 0) {
        return NULL;
    }
    if (last != NULL && last->offset + last->count == offset && last->delivery == delivery) {
        return last;
    }
    if (taking->count == taking->grants_max) {
        return NULL;
    }
    last = &taking->grants[taking->count++];
    *last = (struct lq_lease_grant){.offset = offset, .delivery = delivery};
    return last;
}

static void hold(struct taking *taking, struct lq_lease_block *block, struct lq_lease_grant *grant, uint64_t bits)
{
    uint32_t count = (uint32_t)__builtin_popcountll(bits);
    lq_lease_hold(taking->leases, block, bits, taking->extent);
    grant->count += count;
    taking->left -= count;
    taking->granted += count;
}

/* Grants messages that were never delivered before, from @bits, as many as go. Gives the offset behind the last one it
 * came to. Its block has room reserved. */
static uint64_t grant_first(struct taking *taking, uint64_t base, uint64_t bits)
{
    struct lq_lease_block *block = bits != 0 ? lq_lease_block_make(taking->leases, base) : NULL;
    while (bits != 0) {
        unsigned from = (unsigned)__builtin_ctzll(bits);
        uint64_t rest = ~(bits >> from);
        uint64_t length = rest == 0 ? LQ_LEASE_BLOCK : (unsigned)__builtin_ctzll(rest);
        struct lq_lease_grant *grant = grant_for(taking, base + from, 1);
        if (grant == NULL) {
            lq_lease_block_release(taking->leases, block);
            return base + from;
        }
        length = length < taking->left ? length : taking->left;
        uint64_t run = (length == LQ_LEASE_BLOCK ? UINT64_MAX : (UINT64_C(1) << length) - 1) << from;
        hold(taking, block, grant, run);
        bits &= ~run;
    }
    return base + LQ_LEASE_BLOCK;
}

enum outcome { GRANTED, PASSED, FULL, NO_MEMORY };

/* One message that was delivered before, or may have to wait for its key. */
static enum outcome grant_one(struct taking *taking, uint64_t offset)
{
    struct lq_leases *leases = taking->leases;
    if (lq_leases_key_ordered(leases) && !lq_lease_keys_may(&leases->keys, offset, taking->consumer)) {
        return PASSED; /* kept back */
    }
    uint32_t delivery = lq_cgroup_failed(leases->cgroup, offset) + 1;
    struct lq_lease_grant *grant = grant_for(taking, offset, delivery);
    if (grant == NULL) {
        return FULL;
    }
    struct lq_lease_block *block = lq_lease_block_make(leases, offset);
    uint64_t bit = UINT64_C(1) << offset % LQ_LEASE_BLOCK;
    lq_lease_clear_ready(leases, block, bit);
    hold(taking, block, grant, bit);
    leases->redelivered += delivery > 1;
    if (lq_leases_key_ordered(leases)) {
        lq_lease_keys_hold(&leases->keys, offset, taking->consumer);
        lq_lease_wake_line(leases, offset);
    }
    return GRANTED;
}

/* One message at the cursor, where some failed or keys matter. */
static enum outcome pass_one(struct taking *taking, uint64_t offset)
{
    struct lq_leases *leases = taking->leases;
    bool key_ordered = lq_leases_key_ordered(leases);
    const struct lq_failure *failure = lq_failures_find(&leases->cgroup->failures, offset);
    if (failure != NULL && failure->dead) {
        return PASSED;
    }
    if (lq_lease_block_reserve(leases, 1) != LIGHTQ_OK || lq_lease_delay_reserve(leases, 1) != LIGHTQ_OK) {
        return NO_MEMORY;
    }
    bool settling = is_settling(leases, offset);
    uint64_t due_us = failure == NULL ? taking->now_us : due_of(leases, failure, taking->now_us);
    if (!settling && due_us <= taking->now_us && taking->left == 0) {
        return FULL;
    }
    if (key_ordered) {
        lq_lease_keys_pass(&leases->keys, offset, taking->batch->keys[offset - taking->batch->base]);
    }
    if (settling) {
        lq_lease_keys_delay(&leases->keys, offset, true); /* until its result is applied */
        return PASSED;
    }
    enum outcome outcome = PASSED;
    if (due_us > taking->now_us) {
        lq_lease_delay(leases, offset, due_us);
    } else {
        outcome = grant_one(taking, offset);
    }
    if (key_ordered && outcome == FULL) { /* it is looked at again: not passed yet */
        uint64_t next;
        (void)lq_lease_keys_leave(&leases->keys, offset, &next);
    }
    return outcome;
}

/* From the cursor on. OK | ENOMEM. */
static lightq_status take_new(struct taking *taking, uint64_t offset)
{
    struct lq_leases *leases = taking->leases;
    bool plain = leases->cgroup->failures.count == 0 && !lq_leases_key_ordered(leases);
    uint64_t at = offset;
    uint64_t blocks = (taking->end - at) / LQ_LEASE_BLOCK + 2;
    blocks = blocks < taking->left ? blocks : taking->left; /* each gets a message at least */
    lightq_status status = plain ? lq_lease_block_reserve(leases, blocks + 1) : LIGHTQ_OK;
    enum outcome outcome = PASSED;
    while (status == LIGHTQ_OK && at < taking->end && outcome != FULL && outcome != NO_MEMORY) {
        uint64_t base = at - at % LQ_LEASE_BLOCK;
        uint64_t bits = lq_settled_word(&leases->cgroup->settled, base) & lq_lease_bits(base, at, taking->end);
        if (plain) {
            const struct lq_lease_block *block = lq_lease_block_find(leases, base);
            at = taking->left == 0 ? at : grant_first(taking, base, block == NULL ? bits : bits & ~block->settling);
            outcome = at < base + LQ_LEASE_BLOCK ? FULL : PASSED;
            continue;
        }
        for (at = base + LQ_LEASE_BLOCK; bits != 0; bits &= bits - 1) {
            uint64_t one = base + (unsigned)__builtin_ctzll(bits);
            outcome = pass_one(taking, one);
            if (outcome == FULL || outcome == NO_MEMORY) {
                at = one;
                break;
            }
        }
    }
    leases->cursor = at < taking->end ? at : taking->end;
    return status != LIGHTQ_OK || (outcome == NO_MEMORY && taking->granted == 0) ? LIGHTQ_ENOMEM : LIGHTQ_OK;
}

/* What is ready from @offset on. OK | ENOMEM. */
static lightq_status take_ready(struct taking *taking, uint64_t offset)
{
    struct lq_leases *leases = taking->leases;
    for (uint64_t base = offset - offset % LQ_LEASE_BLOCK; base < taking->end; base += LQ_LEASE_BLOCK) {
        const struct lq_lease_block *block = lq_lease_block_find(leases, base);
        uint64_t bits = block == NULL ? 0 : block->ready & lq_lease_bits(base, offset, taking->end);
        for (; bits != 0; bits &= bits - 1) {
            uint64_t one = base + (unsigned)__builtin_ctzll(bits);
            if (lq_lease_block_reserve(leases, 1) != LIGHTQ_OK) {
                return taking->granted == 0 ? LIGHTQ_ENOMEM : LIGHTQ_OK;
            }
            switch (grant_one(taking, one)) {
            case FULL:
                return LIGHTQ_OK;
            case PASSED: /* kept back: woken when its line is free */
                lq_lease_clear_ready(leases, lq_lease_block_find(leases, one), UINT64_C(1) << one % LQ_LEASE_BLOCK);
                break;
            case GRANTED:
            case NO_MEMORY:
                break;
            }
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_leases_take(struct lq_leases *leases, const struct lq_lease_offer *offer,
                             const struct lq_lease_batch *batch, uint64_t now_us, struct lq_lease_grant *grants,
                             size_t grants_max, size_t *count)
{
    struct lq_lease_place *place = lq_lease_place_at(leases, offer->consumer);
    struct taking taking = {.leases = leases,
                            .batch = batch,
                            .consumer = offer->consumer,
                            .now_us = now_us,
                            .end = batch->base + batch->count,
                            .left = (uint64_t)place->credit_messages,
                            .grants = grants,
                            .grants_max = grants_max};
    assert(offer->offset >= batch->base && offer->offset < taking.end && lq_lease_has_credit(place) && grants_max > 0);
    assert(!lq_leases_key_ordered(leases) || batch->keys != NULL);
    *count = 0;
    lightq_status status = lq_pool_reserve(&leases->extents, 1);
    if (status == LIGHTQ_OK && lq_leases_key_ordered(leases)) {
        status = lq_lease_keys_reserve(&leases->keys, batch->count);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t deadline_us = now_us + (uint64_t)leases->cgroup->options.ack_wait_ms * US_PER_MS;
    taking.extent = lq_lease_extent_new(leases, offer->consumer, offer->offset, taking.end, deadline_us);
    if (offer->offset >= leases->cursor) {
        uint64_t window = window_end(leases);
        taking.end = taking.end < window ? taking.end : window;
        status = take_new(&taking, offer->offset);
    } else {
        status = take_ready(&taking, offer->offset);
    }
    lq_lease_extent_release(leases, taking.extent);
    if (taking.granted > 0) {
        lq_lease_charge(leases, offer->consumer, taking.granted, batch->bytes);
    }
    *count = taking.count;
    return status;
}
