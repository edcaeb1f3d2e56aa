/* node/queue/lease_settle.c - what consumers and time say of leased messages: judged, gathered, proposed, and looked at
 * again when it is applied. See lease_internal.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/queue/command.h"
#include "node/queue/lease_internal.h"

#define US_PER_MS      1000u
#define FIRST_CAPACITY 64
#define LITTLE         4096 /* results: room kept when none is gathered */
#define HEAD_BYTES     32   /* of a SETTLE command before its results */

/* ---- gathering */

/* Room for @more elements of @size bytes behind @count. OK | ENOMEM. */
static lightq_status reserve(void **at, uint32_t *capacity, uint32_t count, uint64_t more, size_t size)
{
    uint64_t needed = count + more;
    if (needed <= *capacity) {
        return LIGHTQ_OK;
    }
    if (needed > UINT32_MAX / 2) {
        return LIGHTQ_ENOMEM;
    }
    uint64_t wanted = *capacity == 0 ? FIRST_CAPACITY : *capacity;
    while (wanted < needed) {
        wanted *= 2;
    }
    void *bigger = realloc(*at, wanted * size);
    if (bigger == NULL) {
        return LIGHTQ_ENOMEM;
    }
    *at = bigger;
    *capacity = (uint32_t)wanted;
    return LIGHTQ_OK;
}

static lightq_status reserve_ranges(struct lq_leases *leases, uint64_t more)
{
    return reserve((void **)&leases->ranges, &leases->range_capacity, leases->range_count, more,
                   sizeof *leases->ranges);
}

static lightq_status reserve_failures(struct lq_leases *leases, uint64_t more)
{
    lightq_status status = lq_lease_delay_reserve(leases, (uint32_t)more);
    return status != LIGHTQ_OK ? status
                               : reserve((void **)&leases->failures, &leases->failure_capacity, leases->failure_count,
                                         more, sizeof *leases->failures);
}

static void gather_range(struct lq_leases *leases, uint64_t first, uint64_t count)
{
    struct lq_settle_range *last = leases->range_count > 0 ? &leases->ranges[leases->range_count - 1] : NULL;
    if (last != NULL && last->first + last->count == first && last->count + count <= LQ_SETTLE_RANGE_MAX) {
        last->count += count;
        return;
    }
    leases->ranges[leases->range_count++] = (struct lq_settle_range){.first = first, .count = count};
}

/* The messages of @bits are settling now. */
static void gather_acks(struct lq_leases *leases, struct lq_lease_block *block, uint64_t bits)
{
    uint64_t base = block->number * LQ_LEASE_BLOCK;
    lq_lease_let_go(leases, block, bits);
    lq_lease_clear_ready(leases, block, bits);
    lq_lease_set_settling(leases, block, bits);
    while (bits != 0) {
        unsigned from = (unsigned)__builtin_ctzll(bits);
        uint64_t rest = ~(bits >> from);
        unsigned length = rest == 0 ? LQ_LEASE_BLOCK : (unsigned)__builtin_ctzll(rest);
        gather_range(leases, base + from, length);
        bits = from + length >= LQ_LEASE_BLOCK ? 0 : bits & UINT64_MAX << (from + length);
    }
}

static void gather_failure(struct lq_leases *leases, uint64_t offset, uint8_t reason, uint32_t delay_ms)
{
    struct lq_lease_block *block = lq_lease_block_make(leases, offset);
    uint64_t bit = UINT64_C(1) << offset % LQ_LEASE_BLOCK;
    lq_lease_let_go(leases, block, bit);
    lq_lease_clear_ready(leases, block, bit);
    lq_lease_set_settling(leases, block, bit);
    lq_lease_keys_wait(&leases->keys, offset); /* it keeps back those of its key from now on */
    lq_lease_keys_delay(&leases->keys, offset, true);
    leases->failing++;
    leases->failures[leases->failure_count++] =
        (struct lq_settle_failure){.offset = offset,
                                   .delivery = lq_cgroup_failed(leases->cgroup, offset) + 1,
                                   .delay_ms = delay_ms,
                                   .reason = reason};
}

lightq_status lq_lease_fail_extent(struct lq_leases *leases, uint32_t extent, uint8_t reason)
{
    const struct lq_lease_extent *of = lq_lease_extent_at(leases, extent);
    uint64_t end = of->end;
    lightq_status status = reserve_failures(leases, of->remaining);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint32_t left = of->remaining;
    for (uint64_t base = of->first - of->first % LQ_LEASE_BLOCK; base < end && left > 0; base += LQ_LEASE_BLOCK) {
        const struct lq_lease_block *block = lq_lease_block_find(leases, base);
        uint64_t bits = block == NULL ? 0 : block->held;
        for (; bits != 0; bits &= bits - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(bits);
            if (block->extent[bit] == extent) {
                left--;
                gather_failure(leases, base + bit, reason, LQ_SETTLE_DELAY_DEFAULT);
            }
        }
    }
    assert(left == 0);
    return LIGHTQ_OK;
}

lightq_status lq_leases_tick(struct lq_leases *leases, uint64_t now_us)
{
    while (leases->first_extent != LQ_POOL_NONE &&
           lq_lease_extent_at(leases, leases->first_extent)->deadline_us <= now_us) {
        lightq_status status = lq_lease_fail_extent(leases, leases->first_extent, LQ_FAILURE_EXPIRED);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    lq_lease_take_due(leases, now_us);
    return LIGHTQ_OK;
}

uint64_t lq_leases_deadline_us(const struct lq_leases *leases)
{
    uint64_t due_us = lq_lease_delay_due(leases);
    uint64_t deadline_us = leases->first_extent == LQ_POOL_NONE
                               ? UINT64_MAX
                               : lq_lease_extent_at(leases, leases->first_extent)->deadline_us;
    return deadline_us < due_us ? deadline_us : due_us;
}

/* ---- what consumers say */

struct settling {
    struct lq_leases *leases;
    lq_lease_consumer consumer;
    const struct lq_settle_item *item;
    struct lq_settle_counts *counts;
};

static uint32_t count_of(uint64_t bits)
{
    return (uint32_t)__builtin_popcountll(bits);
}

/* Which of @bits are dead. */
static uint64_t dead_of(const struct lq_leases *leases, uint64_t base, uint64_t bits)
{
    uint64_t dead = 0;
    if (leases->cgroup->failures.count == 0) {
        return 0;
    }
    for (; bits != 0; bits &= bits - 1) {
        const struct lq_failure *failure =
            lq_failures_find(&leases->cgroup->failures, base + (unsigned)__builtin_ctzll(bits));
        dead |= failure != NULL && failure->dead ? bits & -bits : 0;
    }
    return dead;
}

/* An ACK of the messages of @bits in the block at @base. */
static lightq_status ack_bits(struct settling *settling, uint64_t base, uint64_t bits)
{
    struct lq_leases *leases = settling->leases;
    uint64_t open = bits & lq_settled_word(&leases->cgroup->settled, base);
    open &= ~dead_of(leases, base, open);
    settling->counts->settled += count_of(bits & ~open);
    if (open == 0) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_lease_block_reserve(leases, 1);
    if (status == LIGHTQ_OK) {
        status = reserve_ranges(leases, LQ_LEASE_BLOCK / 2);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_lease_block *block = lq_lease_block_make(leases, base);
    settling->counts->waiting += count_of(open & block->settling);
    open &= ~block->settling;
    settling->counts->taken += count_of(open);
    gather_acks(leases, block, open);
    return LIGHTQ_OK;
}

/* Is @offset the consumer's to say something of, as that delivery? One that this leader has not delivered may be
 * anybody's: another leader did. */
static bool is_its(const struct settling *settling, const struct lq_lease_block *block, uint64_t offset)
{
    const struct lq_leases *leases = settling->leases;
    uint32_t delivery = settling->item->delivery;
    unsigned bit = (unsigned)(offset % LQ_LEASE_BLOCK);
    bool is_held = block != NULL && (block->held >> bit & 1) != 0;
    if (is_held ? lq_lease_extent_at(leases, block->extent[bit])->consumer != settling->consumer
                : offset < leases->cursor || settling->item->kind == LQ_SETTLE_EXTEND ||
                      settling->item->kind == LQ_SETTLE_RETURN) {
        return false;
    }
    return delivery == 0 || delivery == lq_cgroup_failed(leases->cgroup, offset) + 1;
}

/* A NACK or REJECT of one message. Room for it was reserved. */
static void fail_one(struct settling *settling, uint64_t offset)
{
    const struct lq_settle_item *item = settling->item;
    bool rejected = item->kind == LQ_SETTLE_REJECT;
    gather_failure(settling->leases, offset, rejected ? LQ_FAILURE_REJECTED : LQ_FAILURE_NACK,
                   rejected ? 0 : item->delay_ms);
    settling->counts->taken++;
}

static lightq_status fail_bits(struct settling *settling, uint64_t base, uint64_t bits)
{
    struct lq_leases *leases = settling->leases;
    uint64_t open = bits & lq_settled_word(&leases->cgroup->settled, base);
    open &= ~dead_of(leases, base, open);
    settling->counts->settled += count_of(bits & ~open);
    lightq_status status = lq_lease_block_reserve(leases, 1);
    if (status == LIGHTQ_OK) {
        status = reserve_failures(leases, LQ_LEASE_BLOCK);
    }
    for (; status == LIGHTQ_OK && open != 0; open &= open - 1) {
        uint64_t offset = base + (unsigned)__builtin_ctzll(open);
        const struct lq_lease_block *block = lq_lease_block_find(leases, offset);
        if (block != NULL && (block->settling >> offset % LQ_LEASE_BLOCK & 1) != 0) {
            settling->counts->waiting++;
        } else if (is_its(settling, block, offset)) {
            fail_one(settling, offset);
        } else {
            settling->counts->not_held++;
        }
    }
    return status;
}

/* The messages of @bits that are the consumer's; the others are counted. */
static uint64_t its_bits(struct settling *settling, uint64_t base, uint64_t bits)
{
    const struct lq_lease_block *block = lq_lease_block_find(settling->leases, base);
    uint64_t open = bits & lq_settled_word(&settling->leases->cgroup->settled, base);
    uint64_t on_its_way = block == NULL ? 0 : open & block->settling;
    uint64_t its = 0;
    for (uint64_t left = open & ~on_its_way; left != 0; left &= left - 1) {
        its |= is_its(settling, block, base + (unsigned)__builtin_ctzll(left)) ? left & -left : 0;
    }
    settling->counts->settled += count_of(bits & ~open);
    settling->counts->waiting += count_of(on_its_way);
    settling->counts->not_held += count_of(open & ~on_its_way & ~its);
    settling->counts->taken += count_of(its);
    return its;
}

static void return_bits(struct settling *settling, uint64_t base, uint64_t bits)
{
    uint64_t its = its_bits(settling, base, bits);
    if (its != 0) {
        lq_lease_let_go(settling->leases, lq_lease_block_find(settling->leases, base), its);
        lq_lease_again(settling->leases, base, its);
    }
}

static lightq_status judge_item(const struct lq_settle_item *item)
{
    bool is_known = item->kind >= LQ_SETTLE_ACK && item->kind <= LQ_SETTLE_RETURN;
    bool delay_fits = item->kind != LQ_SETTLE_NACK || item->delay_ms <= LQ_CGROUP_DELAY_MS_MAX ||
                      item->delay_ms == LQ_SETTLE_DELAY_DEFAULT;
    return is_known && delay_fits && item->count >= 1 && item->count <= LQ_SETTLE_RANGE_MAX ? LIGHTQ_OK : LIGHTQ_EINVAL;
}

/* The end of what may be settled at all: the partition's, or where a group of this many holes would end. */
static uint64_t settle_end(const struct lq_leases *leases, uint64_t first, uint64_t end)
{
    const struct lq_settled *settled = &leases->cgroup->settled;
    uint64_t room = settled->holes < LQ_CGROUP_UNSETTLED_MAX ? LQ_CGROUP_UNSETTLED_MAX - settled->holes : 0;
    bool is_full = leases->settling >= LQ_CGROUP_UNSETTLED_MAX;
    if (is_full || (first > settled->ceiling && first - settled->ceiling > room)) {
        return first;
    }
    return end > first ? end : first;
}

lightq_status lq_leases_settle(struct lq_leases *leases, lq_lease_consumer consumer, const struct lq_settle_item *item,
                               uint64_t end, uint64_t now_us, struct lq_settle_counts *counts)
{
    struct settling settling = {.leases = leases, .consumer = consumer, .item = item, .counts = counts};
    lightq_status status = judge_item(item);
    if (status != LIGHTQ_OK || item->first > UINT64_MAX - item->count) {
        return LIGHTQ_EINVAL;
    }
    uint64_t stop = settle_end(leases, item->first, end);
    uint64_t last = item->first + item->count;
    stop = stop < last ? stop : last;
    counts->unknown += (uint32_t)(last - stop);
    uint32_t extent = LQ_POOL_NONE;
    if (item->kind == LQ_SETTLE_EXTEND && consumer != LQ_LEASE_NOBODY) {
        status = lq_pool_reserve(&leases->extents, 1);
        if (status != LIGHTQ_OK) {
            return status;
        }
        extent = lq_lease_extent_new(leases, consumer, item->first, last,
                                     now_us + (uint64_t)leases->cgroup->options.ack_wait_ms * US_PER_MS);
    }
    for (uint64_t base = item->first - item->first % LQ_LEASE_BLOCK; base < stop && status == LIGHTQ_OK;
         base += LQ_LEASE_BLOCK) {
        uint64_t bits = lq_lease_bits(base, item->first, stop);
        struct lq_lease_block *block;
        switch (item->kind) {
        case LQ_SETTLE_ACK:
            status = ack_bits(&settling, base, bits);
            break;
        case LQ_SETTLE_NACK:
        case LQ_SETTLE_REJECT:
            status = fail_bits(&settling, base, bits);
            break;
        case LQ_SETTLE_EXTEND:
            bits = its_bits(&settling, base, bits);
            block = bits == 0 ? NULL : lq_lease_block_find(leases, base);
            if (block != NULL) {
                lq_lease_let_go(leases, block, bits);
                lq_lease_hold(leases, block, bits, extent);
            }
            break;
        case LQ_SETTLE_RETURN:
            return_bits(&settling, base, bits);
            break;
        }
    }
    if (extent != LQ_POOL_NONE) {
        lq_lease_extent_release(leases, extent);
    }
    return status;
}

/* ---- proposing */

bool lq_leases_gathered(const struct lq_leases *leases)
{
    return leases->range_count > 0 || leases->failure_count > 0;
}

static int by_first(const void *a, const void *b)
{
    const struct lq_settle_range *left = a;
    const struct lq_settle_range *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

static int by_offset(const void *a, const void *b)
{
    const struct lq_settle_failure *left = a;
    const struct lq_settle_failure *right = b;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* Ascending, and neighbours in one. */
static void sort_ranges(struct lq_leases *leases)
{
    bool ascend = true;
    for (uint32_t i = 1; i < leases->range_count && ascend; i++) {
        ascend = leases->ranges[i - 1].first < leases->ranges[i].first;
    }
    if (!ascend) {
        qsort(leases->ranges, leases->range_count, sizeof *leases->ranges, by_first);
    }
    uint32_t count = leases->range_count;
    leases->range_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct lq_settle_range range = leases->ranges[i]; /* the place it goes to is this one or an earlier one */
        gather_range(leases, range.first, range.count);
    }
}

lightq_status lq_leases_propose(struct lq_leases *leases, size_t limit, struct lq_writer *writer)
{
    assert(limit >= LQ_SETTLE_BYTES_MIN && lq_leases_gathered(leases));
    sort_ranges(leases);
    if (leases->failure_count > 1) {
        qsort(leases->failures, leases->failure_count, sizeof *leases->failures, by_offset);
    }
    size_t room = limit - HEAD_BYTES;
    size_t failures = room / LQ_SETTLE_FAILURE_BYTES_MAX;
    failures = failures < leases->failure_count ? failures : leases->failure_count;
    size_t ranges = (room - failures * LQ_SETTLE_FAILURE_BYTES_MAX) / LQ_SETTLE_RANGE_BYTES_MAX;
    ranges = ranges < leases->range_count ? ranges : leases->range_count;

    struct lq_writer body;
    lq_writer_init(&body, room);
    lq_settle_write(leases->ranges, (uint32_t)ranges, leases->failures, (uint32_t)failures, &body);
    const struct lq_command command = {.type = LQ_COMMAND_SETTLE,
                                       .settle = {.group = leases->cgroup->number,
                                                  .generation = leases->generation,
                                                  .range_count = (uint32_t)ranges,
                                                  .failure_count = (uint32_t)failures,
                                                  .bytes = body.bytes,
                                                  .size = (uint32_t)body.size}};
    lightq_status status = body.status;
    if (status == LIGHTQ_OK) {
        lq_command_encode(&command, writer);
        status = writer->status;
    }
    lq_writer_deinit(&body);
    leases->ranges_written = status == LIGHTQ_OK ? (uint32_t)ranges : 0;
    leases->failures_written = status == LIGHTQ_OK ? (uint32_t)failures : 0;
    return status;
}

/* The first @written of @count elements go; gives how many are left. Room that is large is given back with the last. */
static uint32_t drop_written(void **at, uint32_t *capacity, uint32_t count, uint32_t written, size_t size)
{
    uint32_t left = count - written;
    if (left > 0) {
        memmove(*at, (uint8_t *)*at + written * size, left * size);
    } else if (*capacity > LITTLE) {
        free(*at);
        *at = NULL;
        *capacity = 0;
    }
    return left;
}

void lq_leases_proposed(struct lq_leases *leases)
{
    leases->range_count = drop_written((void **)&leases->ranges, &leases->range_capacity, leases->range_count,
                                       leases->ranges_written, sizeof *leases->ranges);
    leases->failure_count = drop_written((void **)&leases->failures, &leases->failure_capacity, leases->failure_count,
                                         leases->failures_written, sizeof *leases->failures);
    leases->ranges_written = 0;
    leases->failures_written = 0;
}

/* ---- applied */

/* A result of @bits was applied: what is settled now leaves everything; what is not, since the command was refused in
 * part, is delivered again. */
static void applied_bits(struct lq_leases *leases, uint64_t base, uint64_t bits)
{
    struct lq_lease_block *block = lq_lease_block_find(leases, base);
    uint64_t open = bits & lq_settled_word(&leases->cgroup->settled, base);
    uint64_t again = 0;
    if (block != NULL) {
        again = open & block->settling;
        lq_lease_clear_settling(leases, block, bits);
        lq_lease_let_go(leases, block, bits & ~open);
    }
    if (leases->keys.places.count > 0) {
        for (uint64_t left = bits & ~open; left != 0; left &= left - 1) {
            lq_lease_leave_line(leases, base + (unsigned)__builtin_ctzll(left));
        }
    }
    block = lq_lease_block_find(leases, base);
    if (block != NULL) { /* not before: one that leaves may wake one that leaves after it */
        lq_lease_clear_ready(leases, block, bits & ~open);
    }
    if (leases->cursor <= base) {
        again = 0; /* the cursor comes to it */
    } else if (leases->cursor - base < LQ_LEASE_BLOCK) {
        again &= ~(UINT64_MAX << (leases->cursor - base));
    }
    if (again != 0) {
        lq_lease_again(leases, base, again);
    }
    block = lq_lease_block_find(leases, base);
    if (block != NULL) {
        lq_lease_block_release(leases, block);
    }
}

/* A failure was applied: it is dead, or comes again, now or later. */
static void applied_failure(struct lq_leases *leases, uint64_t offset, uint64_t now_us)
{
    struct lq_lease_block *block = lq_lease_block_find(leases, offset);
    uint64_t base = offset - offset % LQ_LEASE_BLOCK;
    uint64_t bit = UINT64_C(1) << offset % LQ_LEASE_BLOCK;
    bool was_settling = block != NULL && (block->settling & bit) != 0;
    const struct lq_failure *failure = lq_failures_find(&leases->cgroup->failures, offset);
    bool is_dead = failure != NULL && failure->dead;
    leases->failing -= leases->failing > 0;
    if (was_settling) {
        lq_lease_clear_settling(leases, block, bit);
    }
    if (is_dead || lq_settled_has(&leases->cgroup->settled, offset)) {
        lq_lease_leave_line(leases, offset);
    } else if (was_settling && offset < leases->cursor) {
        if (failure != NULL && failure->delay_ms > 0) {
            lq_lease_keys_wait(&leases->keys, offset);
            lq_lease_delay(leases, offset, now_us + (uint64_t)failure->delay_ms * US_PER_MS);
            lq_lease_wake_line(leases, offset); /* others of its line may have waited for it to fail */
        } else {
            lq_lease_keys_delay(&leases->keys, offset, false);
            lq_lease_again(leases, base, bit);
        }
    }
    block = lq_lease_block_find(leases, offset);
    if (block != NULL) {
        lq_lease_block_release(leases, block);
    }
}

void lq_leases_applied(struct lq_leases *leases, const struct lq_cgroup_settle *settle, uint64_t now_us)
{
    struct lq_settle_reader reader = lq_settle_reader_of(settle);
    struct lq_settle_range range;
    struct lq_settle_failure failure;
    if (settle->generation != leases->generation) {
        return; /* the group was moved since: everything was looked at then */
    }
    while (lq_settle_next_range(&reader, &range)) {
        uint64_t end = range.first + range.count;
        for (uint64_t base = range.first - range.first % LQ_LEASE_BLOCK; base < end; base += LQ_LEASE_BLOCK) {
            applied_bits(leases, base, lq_lease_bits(base, range.first, end));
        }
    }
    while (lq_settle_next_failure(&reader, &failure)) {
        applied_failure(leases, failure.offset, now_us);
    }
}
