/* node/queue/settled.c - see settled.h. */
#include "node/queue/settled.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"

#define NO_BLOCK       UINT32_MAX
#define FIRST_CAPACITY 4
#define LITTLE         1024 /* blocks: kept when there are no holes */
#define PROBES         16   /* block numbers looked for before the list is walked */
#define RUN_BYTES      2    /* the least a run of holes takes in a checkpoint */

_Static_assert(sizeof(struct lq_settled_block) == 64, "a block is one cache line");

void lq_settled_init(struct lq_settled *settled, uint64_t floor)
{
    *settled = (struct lq_settled){
        .floor = floor, .ceiling = floor, .free_block = NO_BLOCK, .first = NO_BLOCK, .last = NO_BLOCK};
}

void lq_settled_deinit(struct lq_settled *settled)
{
    lq_offset_map_deinit(&settled->by_number);
    free(settled->blocks);
    lq_settled_init(settled, settled->floor);
}

void lq_settled_reset(struct lq_settled *settled, uint64_t floor)
{
    lq_settled_deinit(settled);
    lq_settled_init(settled, floor);
}

/* ---- blocks */

static struct lq_settled_block *find_block(const struct lq_settled *settled, uint64_t number)
{
    uint32_t place = lq_offset_map_find(&settled->by_number, number);
    return place == LQ_OFFSET_MAP_NONE ? NULL : &settled->blocks[place];
}

/* Room for @more blocks. */
static lightq_status reserve_blocks(struct lq_settled *settled, uint64_t more)
{
    uint64_t needed = settled->by_number.count + more;
    if (needed >= NO_BLOCK) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_offset_map_reserve(&settled->by_number, (uint32_t)more);
    if (status != LIGHTQ_OK || needed <= settled->block_capacity) {
        return status;
    }
    uint64_t capacity = settled->block_capacity == 0 ? FIRST_CAPACITY : settled->block_capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    struct lq_settled_block *blocks = realloc(settled->blocks, capacity * sizeof *blocks);
    if (blocks == NULL) {
        return LIGHTQ_ENOMEM;
    }
    settled->blocks = blocks;
    for (uint64_t place = capacity; place-- > settled->block_capacity;) {
        blocks[place] = (struct lq_settled_block){.next = settled->free_block};
        settled->free_block = (uint32_t)place;
    }
    settled->block_capacity = (uint32_t)capacity;
    return LIGHTQ_OK;
}

/* The last block when it has that number, else a new one behind it. Its room was reserved. */
static struct lq_settled_block *last_block(struct lq_settled *settled, uint64_t number)
{
    if (settled->last != NO_BLOCK && settled->blocks[settled->last].number == number) {
        return &settled->blocks[settled->last];
    }
    uint32_t place = settled->free_block;
    assert(place != NO_BLOCK);
    struct lq_settled_block *block = &settled->blocks[place];
    settled->free_block = block->next;
    *block = (struct lq_settled_block){.number = number, .next = NO_BLOCK, .previous = settled->last};
    *(settled->last == NO_BLOCK ? &settled->first : &settled->blocks[settled->last].next) = place;
    settled->last = place;
    lq_offset_map_put(&settled->by_number, number, place);
    return block;
}

static void remove_block(struct lq_settled *settled, struct lq_settled_block *block)
{
    uint32_t place = (uint32_t)(block - settled->blocks);
    (void)lq_offset_map_remove(&settled->by_number, block->number);
    *(block->previous == NO_BLOCK ? &settled->first : &settled->blocks[block->previous].next) = block->next;
    *(block->next == NO_BLOCK ? &settled->last : &settled->blocks[block->next].previous) = block->previous;
    block->next = settled->free_block;
    settled->free_block = place;
}

/* The bits of word @word that stand for offsets of [first, end), of which the block holds some. */
static uint64_t bits_of(const struct lq_settled_block *block, unsigned word, uint64_t first, uint64_t end)
{
    uint64_t base = block->number * LQ_SETTLED_BLOCK + word * 64u;
    if (end <= base || first >= base + 64) {
        return 0;
    }
    uint64_t bits = first > base ? UINT64_MAX << (first - base) : UINT64_MAX;
    return end < base + 64 ? bits & ~(UINT64_MAX << (end - base)) : bits;
}

/* The holes of @block in [first, end) are closed. Gives how many; a block without holes is gone. */
static uint32_t close_holes(struct lq_settled *settled, struct lq_settled_block *block, uint64_t first, uint64_t end)
{
    uint32_t closed = 0;
    for (unsigned word = 0; word < LQ_SETTLED_BLOCK_WORDS; word++) {
        uint64_t bits = block->holes[word] & bits_of(block, word, first, end);
        block->holes[word] &= ~bits;
        closed += (uint32_t)__builtin_popcountll(bits);
    }
    block->count -= closed;
    settled->holes -= closed;
    if (block->count == 0) {
        remove_block(settled, block);
    }
    return closed;
}

/* The first hole of @block at or above @from; UINT64_MAX when it has none there. */
static uint64_t first_hole(const struct lq_settled_block *block, uint64_t from)
{
    for (unsigned word = 0; word < LQ_SETTLED_BLOCK_WORDS; word++) {
        uint64_t bits = block->holes[word] & bits_of(block, word, from, UINT64_MAX);
        if (bits != 0) {
            return block->number * LQ_SETTLED_BLOCK + word * 64u + (unsigned)__builtin_ctzll(bits);
        }
    }
    return UINT64_MAX;
}

/* The floor is the first hole, or the ceiling. */
static void find_floor(struct lq_settled *settled)
{
    if (settled->holes > 0) {
        settled->floor = first_hole(&settled->blocks[settled->first], 0);
        return;
    }
    settled->floor = settled->ceiling;
    if (settled->block_capacity > LITTLE) {
        lq_settled_reset(settled, settled->ceiling);
    }
}

/* Everything of [ceiling, first) becomes a hole, and [first, end) settled. */
static lightq_status raise_ceiling(struct lq_settled *settled, uint64_t first, uint64_t end)
{
    if (first > settled->ceiling) {
        uint64_t from = settled->ceiling / LQ_SETTLED_BLOCK;
        uint64_t to = (first - 1) / LQ_SETTLED_BLOCK;
        lightq_status status = reserve_blocks(settled, to - from + 1);
        if (status != LIGHTQ_OK) {
            return status;
        }
        for (uint64_t number = from; number <= to; number++) {
            struct lq_settled_block *block = last_block(settled, number);
            uint32_t before = block->count;
            block->count = 0;
            for (unsigned word = 0; word < LQ_SETTLED_BLOCK_WORDS; word++) {
                block->holes[word] |= bits_of(block, word, settled->ceiling, first);
                block->count += (uint32_t)__builtin_popcountll(block->holes[word]);
            }
            settled->holes += block->count - before;
        }
    }
    settled->ceiling = end;
    return LIGHTQ_OK;
}

/* ---- reading */

bool lq_settled_has(const struct lq_settled *settled, uint64_t offset)
{
    if (offset >= settled->ceiling || offset < settled->floor) {
        return offset < settled->floor;
    }
    return (lq_settled_word(settled, offset & ~UINT64_C(63)) >> (offset & 63) & 1) == 0;
}

uint64_t lq_settled_word(const struct lq_settled *settled, uint64_t first)
{
    if (first >= settled->ceiling) {
        return UINT64_MAX;
    }
    uint64_t bits = 0;
    if (first + 64 > settled->floor && settled->holes > 0) {
        const struct lq_settled_block *block = find_block(settled, first / LQ_SETTLED_BLOCK);
        bits = block == NULL ? 0 : block->holes[first / 64 % LQ_SETTLED_BLOCK_WORDS];
    }
    return settled->ceiling - first < 64 ? bits | UINT64_MAX << (settled->ceiling - first) : bits;
}

/* The first block with a number above @number; NULL: there is none. */
static const struct lq_settled_block *block_after(const struct lq_settled *settled, uint64_t number)
{
    for (unsigned i = 1; i <= PROBES; i++) {
        const struct lq_settled_block *block = find_block(settled, number + i);
        if (block != NULL) {
            return block;
        }
    }
    uint32_t place = settled->first;
    while (place != NO_BLOCK && settled->blocks[place].number <= number) {
        place = settled->blocks[place].next;
    }
    return place == NO_BLOCK ? NULL : &settled->blocks[place];
}

uint64_t lq_settled_next_hole(const struct lq_settled *settled, uint64_t from)
{
    if (from >= settled->ceiling) {
        return from;
    }
    if (from <= settled->floor) {
        return settled->floor;
    }
    uint64_t number = from / LQ_SETTLED_BLOCK;
    const struct lq_settled_block *block = find_block(settled, number);
    if (block != NULL) {
        uint64_t hole = first_hole(block, from);
        if (hole != UINT64_MAX) {
            return hole;
        }
        block = block->next == NO_BLOCK ? NULL : &settled->blocks[block->next];
    } else {
        block = block_after(settled, number);
    }
    return block == NULL ? settled->ceiling : first_hole(block, 0);
}

uint64_t lq_settled_unsettled(const struct lq_settled *settled, uint64_t first, uint64_t end)
{
    uint64_t count = end > settled->ceiling ? end - (first > settled->ceiling ? first : settled->ceiling) : 0;
    for (uint32_t place = settled->first; place != NO_BLOCK; place = settled->blocks[place].next) {
        const struct lq_settled_block *block = &settled->blocks[place];
        for (unsigned word = 0; word < LQ_SETTLED_BLOCK_WORDS; word++) {
            count += (uint64_t)__builtin_popcountll(block->holes[word] & bits_of(block, word, first, end));
        }
    }
    return count;
}

/* ---- changing */

/* Settles [first, end), which lies in one word and below the ceiling: what a single ack is. Gives how many were not. */
static uint64_t add_in_word(struct lq_settled *settled, uint64_t first, uint64_t end)
{
    struct lq_settled_block *block = find_block(settled, first / LQ_SETTLED_BLOCK);
    if (block == NULL) {
        return 0;
    }
    uint64_t bits = UINT64_MAX >> (64 - (end - first)) << first % 64;
    uint64_t *word = &block->holes[first / 64 % LQ_SETTLED_BLOCK_WORDS];
    uint32_t closed = (uint32_t)__builtin_popcountll(*word & bits);
    *word &= ~bits;
    block->count -= closed;
    settled->holes -= closed;
    if (block->count == 0) {
        remove_block(settled, block);
    }
    if (first <= settled->floor && settled->floor < end) {
        find_floor(settled);
    }
    return closed;
}

lightq_status lq_settled_add(struct lq_settled *settled, uint64_t first, uint64_t count, uint64_t holes_max,
                             uint64_t *added)
{
    *added = 0;
    if (count > LQ_SETTLE_RANGE_MAX || first > UINT64_MAX - count) {
        return LIGHTQ_ELIMIT;
    }
    uint64_t end = first + count;
    uint64_t old_ceiling = settled->ceiling;
    if (first < settled->floor) {
        first = settled->floor;
    }
    if (first >= end) {
        return LIGHTQ_OK;
    }
    if (end <= old_ceiling && first / 64 == (end - 1) / 64) {
        *added = add_in_word(settled, first, end);
        return LIGHTQ_OK;
    }
    if (end > old_ceiling) {
        uint64_t new_holes = first > old_ceiling ? first - old_ceiling : 0;
        if (new_holes > holes_max || settled->holes > holes_max - new_holes) {
            return LIGHTQ_ELIMIT;
        }
        lightq_status status = raise_ceiling(settled, first, end);
        if (status != LIGHTQ_OK) {
            return status;
        }
        *added = end - (first > old_ceiling ? first : old_ceiling);
    }
    uint64_t below = end < old_ceiling ? end : old_ceiling;
    for (uint64_t number = first / LQ_SETTLED_BLOCK; first < below && number <= (below - 1) / LQ_SETTLED_BLOCK;
         number++) {
        struct lq_settled_block *block = find_block(settled, number);
        *added += block == NULL ? 0 : close_holes(settled, block, first, below);
    }
    if (first == settled->floor) {
        find_floor(settled);
    }
    return LIGHTQ_OK;
}

uint64_t lq_settled_raise(struct lq_settled *settled, uint64_t floor, uint64_t *first)
{
    if (floor <= settled->floor) {
        return 0;
    }
    *first = settled->floor;
    uint64_t missed = 0;
    while (settled->first != NO_BLOCK && settled->blocks[settled->first].number * LQ_SETTLED_BLOCK < floor) {
        uint32_t place = settled->first;
        missed += close_holes(settled, &settled->blocks[place], 0, floor);
        if (settled->first == place) {
            break; /* it has holes above the floor */
        }
    }
    if (floor > settled->ceiling) {
        missed += floor - settled->ceiling;
        settled->ceiling = floor;
    }
    find_floor(settled);
    return missed;
}

/* ---- checkpoint */

/* Writes the runs of holes as they are found; neighbours in two words or blocks are one run. */
struct run_writer {
    struct lq_writer *writer;
    uint64_t end; /* of the run written last, or the floor */
    uint64_t first, count;
    uint32_t runs;
};

static void write_run(struct run_writer *out)
{
    if (out->count > 0) {
        lq_write_varint(out->writer, out->first - out->end);
        lq_write_varint(out->writer, out->count);
        out->end = out->first + out->count;
        out->runs++;
    }
}

static void add_holes(struct run_writer *out, uint64_t first, uint64_t count)
{
    if (out->count > 0 && out->first + out->count == first) {
        out->count += count;
        return;
    }
    write_run(out);
    out->first = first;
    out->count = count;
}

static void add_word(struct run_writer *out, uint64_t base, uint64_t bits)
{
    while (bits != 0) {
        unsigned from = (unsigned)__builtin_ctzll(bits);
        uint64_t rest = ~(bits >> from);
        unsigned count = rest == 0 ? 64 : (unsigned)__builtin_ctzll(rest);
        add_holes(out, base + from, count);
        bits = from + count >= 64 ? 0 : bits & UINT64_MAX << (from + count);
    }
}

void lq_settled_save(const struct lq_settled *settled, struct lq_writer *writer)
{
    lq_write_u64(writer, settled->floor);
    size_t count_at = writer->size;
    lq_write_u32(writer, 0);
    struct run_writer out = {.writer = writer, .end = settled->floor};
    for (uint32_t place = settled->first; place != NO_BLOCK; place = settled->blocks[place].next) {
        const struct lq_settled_block *block = &settled->blocks[place];
        for (unsigned word = 0; word < LQ_SETTLED_BLOCK_WORDS; word++) {
            add_word(&out, block->number * LQ_SETTLED_BLOCK + word * 64u, block->holes[word]);
        }
    }
    write_run(&out);
    lq_write_varint(writer, settled->ceiling - out.end);
    if (writer->status == LIGHTQ_OK) {
        lq_put_u32(writer->bytes + count_at, out.runs);
    }
}

/* One run: the settled messages before it, then its holes. */
static lightq_status load_run(struct lq_settled *settled, struct lq_reader *reader, bool is_first, uint64_t end,
                              uint64_t holes_max)
{
    uint64_t gap = lq_read_varint(reader);
    uint64_t holes = lq_read_varint(reader);
    uint64_t at = settled->ceiling;
    if (reader->failed || (gap == 0) != is_first || gap > end - at || holes == 0 || holes > end - at - gap ||
        holes > holes_max - settled->holes) {
        return LIGHTQ_ECORRUPT;
    }
    settled->ceiling = at + gap;
    return raise_ceiling(settled, at + gap + holes, at + gap + holes);
}

static lightq_status load_runs(struct lq_settled *settled, struct lq_reader *reader, uint32_t runs, uint64_t end,
                               uint64_t holes_max)
{
    for (uint32_t i = 0; i < runs; i++) {
        lightq_status status = load_run(settled, reader, i == 0, end, holes_max);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    uint64_t behind = lq_read_varint(reader);
    if (reader->failed || (behind == 0) != (runs == 0) || behind > end - settled->ceiling) {
        return LIGHTQ_ECORRUPT;
    }
    settled->ceiling += behind;
    return LIGHTQ_OK;
}

lightq_status lq_settled_load(struct lq_settled *settled, struct lq_reader *reader, uint64_t end, uint64_t holes_max)
{
    uint64_t floor = lq_read_u64(reader);
    uint32_t runs = lq_read_u32(reader);
    if (reader->failed || floor > end || lq_reader_left(reader) < (uint64_t)runs * RUN_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    lq_settled_init(settled, floor);
    lightq_status status = load_runs(settled, reader, runs, end, holes_max);
    if (status != LIGHTQ_OK) {
        lq_settled_deinit(settled);
    }
    return status;
}
