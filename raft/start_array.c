/* raft/start_array.c - see start_array.h. Calls mmap and mremap for memory only. */
#include "raft/start_array.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "raft/heap.h"

enum {
    PAGE_BYTES = 4096,
    /* A whole number of entries and of pages; large, so that a log of a hundred million entries needs few mappings. */
    BLOCK_ENTRIES = 512 * 128,
};
#define BLOCK_BYTES ((size_t)BLOCK_ENTRIES * sizeof(struct raft_entry))
_Static_assert(BLOCK_ENTRIES * sizeof(struct raft_entry) % PAGE_BYTES == 0, "blocks are whole pages");

static void fill(struct raft_entry *entries, uint64_t count, uint64_t term)
{
    for (uint64_t i = 0; i < count; i++) {
        entries[i] = (struct raft_entry){.term = term, .type = RAFT_COMMAND, .batch = lq_raft_token()};
    }
}

static lightq_status allocate(struct lq_start_array *array, uint64_t map_from)
{
    if (array->count < map_from) {
        array->entries = raft_malloc(array->count * sizeof *array->entries);
        return array->entries == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    }
    /* One page in front, whose end is the head that tells libraft's free to leave the array alone. */
    array->map_bytes = PAGE_BYTES + (size_t)array->count * sizeof *array->entries;
    array->map =
        mmap(NULL, array->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (array->map == MAP_FAILED) {
        array->map = NULL;
        return LIGHTQ_ENOMEM;
    }
    lq_raft_heap_mark_foreign((uint8_t *)array->map + PAGE_BYTES - LQ_RAFT_HEAD_BYTES);
    array->entries = (struct raft_entry *)(void *)((uint8_t *)array->map + PAGE_BYTES);
    return LIGHTQ_OK;
}

/* Maps the pages of @block over the whole blocks [from, to) of the array. False: the caller fills them. */
static bool share(struct lq_start_array *array, uint64_t from, uint64_t to, uint64_t term)
{
    void *block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return false;
    }
    fill(block, BLOCK_ENTRIES, term);
    uint64_t at = from;
    for (; at < to; at += BLOCK_ENTRIES) {
        /* With an old size of 0, mremap makes another mapping of the same shared pages. */
        if (mremap(block, 0, BLOCK_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, &array->entries[at]) == MAP_FAILED) {
            break;
        }
        array->shared_blocks++;
    }
    munmap(block, BLOCK_BYTES);
    if (at < to) { /* too many mappings: plain memory for the rest, which may have lost its own */
        void *rest = &array->entries[at];
        size_t bytes = (size_t)(to - at) * sizeof *array->entries;
        if (mmap(rest, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
            MAP_FAILED) {
            return false;
        }
        fill(rest, to - at, term);
    }
    return true;
}

/* Entries [from, to) of the array are COMMANDs of @term. */
static void fill_run(struct lq_start_array *array, uint64_t from, uint64_t to, uint64_t term)
{
    uint64_t block_from = (from + BLOCK_ENTRIES - 1) / BLOCK_ENTRIES * BLOCK_ENTRIES;
    uint64_t block_to = to / BLOCK_ENTRIES * BLOCK_ENTRIES;
    if (array->map == NULL || block_from >= block_to || !share(array, block_from, block_to, term)) {
        fill(&array->entries[from], to - from, term);
        return;
    }
    fill(&array->entries[from], block_from - from, term);
    fill(&array->entries[block_to], to - block_to, term);
}

static void put_change(struct lq_start_array *array, uint64_t at, uint64_t term, const struct lq_rlog_change *change)
{
    union {
        const uint8_t *borrowed;
        void *given; /* libraft decodes it, no more */
    } payload = {.borrowed = change->payload};
    array->entries[at] = (struct raft_entry){.term = term,
                                             .type = RAFT_CHANGE,
                                             .buf = {.base = payload.given, .len = change->payload_size},
                                             .batch = lq_raft_token()};
}

/* Fills one run, with a gap at each change so that no shared block is written. */
static size_t fill_with_changes(struct lq_start_array *array, uint64_t first, const struct lq_rlog_run *run,
                                uint64_t run_first, uint64_t run_last, const struct lq_rlog_change *changes,
                                size_t change_count, size_t next)
{
    uint64_t from = run_first;
    while (next < change_count && changes[next].index < from) {
        next++;
    }
    for (; next < change_count && changes[next].index <= run_last; next++) {
        fill_run(array, from - first, changes[next].index - first, run->term);
        put_change(array, changes[next].index - first, run->term, &changes[next]);
        from = changes[next].index + 1;
    }
    fill_run(array, from - first, run_last + 1 - first, run->term);
    return next;
}

lightq_status lq_start_array_fill(uint64_t first, uint64_t last, const struct lq_rlog_run *runs, size_t run_count,
                                  const struct lq_rlog_change *changes, size_t change_count, uint64_t map_from,
                                  struct lq_start_array *array)
{
    *array = (struct lq_start_array){.count = 0};
    if (last < first) {
        return LIGHTQ_OK;
    }
    if (last - first + 1 > UINT_MAX) {
        return LIGHTQ_ELIMIT;
    }
    array->count = (unsigned)(last - first + 1);
    lightq_status status = allocate(array, map_from);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t covered = first;
    size_t next = 0;
    for (size_t i = 0; i < run_count && covered <= last; i++) {
        uint64_t run_first = runs[i].first > first ? runs[i].first : first;
        uint64_t run_last = runs[i].last < last ? runs[i].last : last;
        if (run_last < run_first) {
            continue;
        }
        if (run_first != covered || runs[i].term == 0) {
            break;
        }
        next = fill_with_changes(array, first, &runs[i], run_first, run_last, changes, change_count, next);
        covered = run_last + 1;
    }
    if (covered != last + 1) {
        lq_start_array_free(array, false);
        return LIGHTQ_ECORRUPT;
    }
    return LIGHTQ_OK;
}

void lq_start_array_free(struct lq_start_array *array, bool freed_by_raft)
{
    if (array->map != NULL) {
        munmap(array->map, array->map_bytes);
    } else if (!freed_by_raft) {
        raft_free(array->entries);
    }
    *array = (struct lq_start_array){.count = 0};
}
