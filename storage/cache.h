/* storage/cache.h - the entries kept in memory: per log a ring over its newest indexes, over all logs one bound in
 * bytes under which the oldest go first. An entry that is not written to its segment yet is never dropped. Called by
 * the log and the flusher. Loop thread only. */
#ifndef LQ_STORAGE_CACHE_H
#define LQ_STORAGE_CACHE_H

#include "storage/format.h"

struct lq_rlog;

struct lq_slot {
    struct lq_slab *slab;
    uint32_t offset;
    uint32_t size;
    uint64_t position; /* in its segment */
};

/* Entries [first, first + count) of one log. */
struct lq_ring {
    struct lq_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t head;
    size_t count;
    uint64_t first;
    const uint64_t *written; /* the log's: entries above it are not dropped */
};

/* Which log appended when, oldest first. */
struct lq_cache_turn {
    struct lq_ring *ring; /* NULL: the log is gone */
    uint64_t last;
    uint64_t bytes;
};

struct lq_cache {
    uint64_t bytes;
    uint64_t bytes_max;
    struct lq_cache_turn *turns;
    size_t capacity; /* a power of two, or 0 */
    size_t head;
    size_t count;
    uint64_t hits;
    uint64_t misses;
};

void lq_cache_deinit(struct lq_cache *cache);

/* Room for @count more entries of @ring. False: out of memory. */
bool lq_cache_reserve(struct lq_cache *cache, struct lq_ring *ring, size_t count);
/* Takes an entry behind the last (or as the first at @index); with a reference of its own. Needs the reserve. */
void lq_cache_push(struct lq_cache *cache, struct lq_ring *ring, uint64_t index, const struct lq_entry_ref *ref,
                   uint64_t position);
/* Drops the entries from @index on. */
void lq_cache_cut(struct lq_cache *cache, struct lq_ring *ring, uint64_t index);
/* Drops the entries below @index. */
void lq_cache_trim(struct lq_cache *cache, struct lq_ring *ring, uint64_t index);
/* Drops all of a ring and forgets it. */
void lq_cache_forget(struct lq_cache *cache, struct lq_ring *ring);
/* Drops the oldest entries until the bound holds, or what is oldest is not written yet: gives the ring that has it. */
struct lq_ring *lq_cache_shrink(struct lq_cache *cache);
/* Its entries may be dropped whether they are written or not: they never will be. */
void lq_cache_release(struct lq_ring *ring);

/* The slot of @index, NULL when it is not held. */
static inline struct lq_slot *lq_ring_at(const struct lq_ring *ring, uint64_t index)
{
    if (ring->count == 0 || index < ring->first || index - ring->first >= ring->count) {
        return NULL;
    }
    return &ring->slots[(ring->head + (size_t)(index - ring->first)) & (ring->capacity - 1)];
}

#endif
