/* chaos/check/index.c - open addressing with linear steps, at most three quarters full. See index.h. */
#include "chaos/check/index.h"

#include <assert.h>
#include <stdlib.h>

#include <xxhash.h>

enum { FIRST_CAPACITY = 16 };

static uint32_t start_of(const struct lq_check_index *index, uint32_t hash)
{
    return hash & (index->capacity - 1);
}

static void put(struct lq_check_index *index, struct lq_check_index_slot slot)
{
    uint32_t at = start_of(index, slot.hash);
    while (index->slots[at].place != LQ_INDEX_NONE) {
        at = (at + 1) & (index->capacity - 1);
    }
    index->slots[at] = slot;
}

uint32_t lq_check_index_find(const struct lq_check_index *index, uint64_t hash, lq_check_index_equal equal,
                             const void *context, const void *key)
{
    if (index->capacity == 0) {
        return LQ_INDEX_NONE;
    }
    uint32_t at = start_of(index, (uint32_t)hash);
    while (index->slots[at].place != LQ_INDEX_NONE) {
        const struct lq_check_index_slot *slot = &index->slots[at];
        if (slot->hash == (uint32_t)hash && equal(context, slot->place, key)) {
            return slot->place;
        }
        at = (at + 1) & (index->capacity - 1);
    }
    return LQ_INDEX_NONE;
}

lightq_status lq_check_index_reserve(struct lq_check_index *index)
{
    if (index->count >= LQ_INDEX_ELEMENTS_MAX) {
        return LIGHTQ_ELIMIT;
    }
    if (index->count < index->capacity / 4 * 3) {
        return LIGHTQ_OK;
    }
    uint32_t capacity = index->capacity == 0 ? FIRST_CAPACITY : index->capacity * 2;
    struct lq_check_index bigger = {.capacity = capacity, .count = index->count};
    bigger.slots = malloc((size_t)capacity * sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < capacity; i++) {
        bigger.slots[i].place = LQ_INDEX_NONE;
    }
    for (uint32_t i = 0; i < index->capacity; i++) {
        if (index->slots[i].place != LQ_INDEX_NONE) {
            put(&bigger, index->slots[i]);
        }
    }
    free(index->slots);
    *index = bigger;
    return LIGHTQ_OK;
}

void lq_check_index_add(struct lq_check_index *index, uint64_t hash, uint32_t place)
{
    assert(index->count < index->capacity / 4 * 3);
    put(index, (struct lq_check_index_slot){.place = place, .hash = (uint32_t)hash});
    index->count++;
}

void lq_check_index_deinit(struct lq_check_index *index)
{
    free(index->slots);
    *index = (struct lq_check_index){.slots = NULL};
}

uint64_t lq_check_index_hash(uint64_t first, uint64_t second)
{
    uint64_t both[2] = {first, second};
    return XXH3_64bits(both, sizeof both);
}

uint64_t lq_check_index_hash_bytes(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

lightq_status lq_array_reserve(void **array, uint32_t *capacity, uint32_t count, size_t element_size)
{
    if (count < *capacity) {
        return LIGHTQ_OK;
    }
    if (count >= LQ_INDEX_ELEMENTS_MAX) {
        return LIGHTQ_ELIMIT;
    }
    uint32_t wanted = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
    void *moved = realloc(*array, (size_t)wanted * element_size);
    if (moved == NULL) {
        return LIGHTQ_ENOMEM;
    }
    *array = moved;
    *capacity = wanted;
    return LIGHTQ_OK;
}
