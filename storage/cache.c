/* storage/cache.c - rings of entries under one bound (storage/cache.h). Called by storage/rlog.c and
 * storage/flusher.c on the loop thread; calls client/base/slab.h. */
#include "storage/cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RING_FIRST_CAPACITY 16
#define TURN_BYTES_MAX      (64u * 1024) /* appends of one log in a row share a turn up to this size */

/* A new array of the next power of two that holds @count, with the old items at its front. NULL: out of memory. */
static void *unwrap(const void *items, size_t item_size, size_t *capacity, size_t head, size_t held, size_t count)
{
    size_t wanted = *capacity == 0 ? RING_FIRST_CAPACITY : *capacity;
    while (wanted < count) {
        if (wanted > SIZE_MAX / 2 / item_size) {
            return NULL;
        }
        wanted *= 2;
    }
    char *fresh = malloc(wanted * item_size);
    if (fresh == NULL) {
        return NULL;
    }
    size_t to_end = *capacity - head;
    size_t front = held < to_end ? held : to_end;
    if (held > 0) {
        memcpy(fresh, (const char *)items + head * item_size, front * item_size);
        memcpy(fresh + front * item_size, items, (held - front) * item_size);
    }
    *capacity = wanted;
    return fresh;
}

bool lq_cache_reserve(struct lq_cache *cache, struct lq_ring *ring, size_t count)
{
    if (ring->count + count > ring->capacity) {
        void *fresh =
            unwrap(ring->slots, sizeof *ring->slots, &ring->capacity, ring->head, ring->count, ring->count + count);
        if (fresh == NULL) {
            return false;
        }
        free(ring->slots);
        ring->slots = fresh;
        ring->head = 0;
    }
    if (cache->count + 1 > cache->capacity) {
        void *fresh =
            unwrap(cache->turns, sizeof *cache->turns, &cache->capacity, cache->head, cache->count, cache->count + 1);
        if (fresh == NULL) {
            return false;
        }
        free(cache->turns);
        cache->turns = fresh;
        cache->head = 0;
    }
    return true;
}

static struct lq_cache_turn *turn_at(struct lq_cache *cache, size_t i)
{
    return &cache->turns[(cache->head + i) & (cache->capacity - 1)];
}

static void turn_take(struct lq_cache *cache, struct lq_ring *ring, uint64_t index, uint32_t size)
{
    struct lq_cache_turn *turn = cache->count > 0 ? turn_at(cache, cache->count - 1) : NULL;
    bool is_other = turn == NULL || turn->ring != ring; /* then the reserve has room for a turn */
    if (is_other || (turn->bytes >= TURN_BYTES_MAX && cache->count < cache->capacity)) {
        turn = turn_at(cache, cache->count++);
        *turn = (struct lq_cache_turn){.ring = ring};
    }
    turn->last = index;
    turn->bytes += size;
}

void lq_cache_push(struct lq_cache *cache, struct lq_ring *ring, uint64_t index, const struct lq_entry_ref *ref,
                   uint64_t position)
{
    assert(ring->count < ring->capacity);
    if (ring->count == 0) {
        ring->first = index;
    }
    assert(index == ring->first + ring->count);
    ring->slots[(ring->head + ring->count) & (ring->capacity - 1)] = (struct lq_slot){
        .slab = lq_slab_ref(ref->slab), .offset = ref->offset, .size = ref->size, .position = position};
    ring->count++;
    cache->bytes += ref->size;
    turn_take(cache, ring, index, ref->size);
}

static void slot_drop(struct lq_cache *cache, struct lq_slot *slot)
{
    cache->bytes -= slot->size;
    lq_slab_unref(slot->slab);
}

void lq_cache_cut(struct lq_cache *cache, struct lq_ring *ring, uint64_t index)
{
    while (ring->count > 0 && ring->first + ring->count > index) {
        slot_drop(cache, lq_ring_at(ring, ring->first + ring->count - 1));
        ring->count--;
    }
}

static void drop_first(struct lq_cache *cache, struct lq_ring *ring)
{
    slot_drop(cache, &ring->slots[ring->head]);
    ring->head = (ring->head + 1) & (ring->capacity - 1);
    ring->first++;
    ring->count--;
}

void lq_cache_trim(struct lq_cache *cache, struct lq_ring *ring, uint64_t index)
{
    while (ring->count > 0 && ring->first < index) {
        drop_first(cache, ring);
    }
}

void lq_cache_forget(struct lq_cache *cache, struct lq_ring *ring)
{
    lq_cache_cut(cache, ring, 0);
    free(ring->slots);
    ring->slots = NULL;
    ring->capacity = 0;
    ring->head = 0;
    for (size_t i = 0; i < cache->count; i++) {
        if (turn_at(cache, i)->ring == ring) {
            turn_at(cache, i)->ring = NULL;
        }
    }
}

void lq_cache_release(struct lq_ring *ring)
{
    static const uint64_t all = UINT64_MAX;
    ring->written = &all;
}

struct lq_ring *lq_cache_shrink(struct lq_cache *cache)
{
    while (cache->bytes > cache->bytes_max && cache->count > 0) {
        struct lq_cache_turn *turn = turn_at(cache, 0);
        struct lq_ring *ring = turn->ring;
        while (ring != NULL && ring->count > 0 && ring->first <= turn->last) {
            if (ring->first > *ring->written) {
                return ring;
            }
            drop_first(cache, ring);
        }
        if (ring != NULL && ring->count == 0) {
            free(ring->slots);
            ring->slots = NULL;
            ring->capacity = 0;
            ring->head = 0;
        }
        cache->head = (cache->head + 1) & (cache->capacity - 1);
        cache->count--;
    }
    return NULL;
}

void lq_cache_deinit(struct lq_cache *cache)
{
    free(cache->turns);
    *cache = (struct lq_cache){.bytes = 0};
}
