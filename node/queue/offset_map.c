/* node/queue/offset_map.c - see offset_map.h. */
#include "node/queue/offset_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16
#define LITTLE         1024 /* slots: not given back by a clear */
#define CAPACITY_MAX   (UINT32_C(1) << 31)
#define MIX            UINT64_C(0x9e3779b97f4a7c15)

void lq_offset_map_deinit(struct lq_offset_map *map)
{
    free(map->keys);
    free(map->values);
    *map = (struct lq_offset_map){.keys = NULL};
}

/* Where a key would be if it were alone: the upper bits of a product, so that neighbours are spread. */
static uint32_t home_of(const struct lq_offset_map *map, uint64_t key)
{
    return (uint32_t)((key * MIX) >> 32) & (map->capacity - 1);
}

/* The slot of @key, or the free one where it would go. */
static uint32_t slot_of(const struct lq_offset_map *map, uint64_t key)
{
    uint32_t slot = home_of(map, key);
    while (map->values[slot] != LQ_OFFSET_MAP_NONE && map->keys[slot] != key) {
        slot = (slot + 1) & (map->capacity - 1);
    }
    return slot;
}

static lightq_status grow(struct lq_offset_map *map, uint32_t capacity)
{
    struct lq_offset_map bigger = {.capacity = capacity, .count = map->count};
    bigger.keys = malloc(capacity * sizeof *bigger.keys);
    bigger.values = malloc(capacity * sizeof *bigger.values);
    if (bigger.keys == NULL || bigger.values == NULL) {
        free(bigger.keys);
        free(bigger.values);
        return LIGHTQ_ENOMEM;
    }
    memset(bigger.values, 0xff, capacity * sizeof *bigger.values);
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->values[i] != LQ_OFFSET_MAP_NONE) {
            uint32_t slot = slot_of(&bigger, map->keys[i]);
            bigger.keys[slot] = map->keys[i];
            bigger.values[slot] = map->values[i];
        }
    }
    free(map->keys);
    free(map->values);
    *map = bigger;
    return LIGHTQ_OK;
}

lightq_status lq_offset_map_reserve(struct lq_offset_map *map, uint32_t more)
{
    uint64_t needed = ((uint64_t)map->count + more) * 2; /* half of the slots are free at least */
    if (needed <= map->capacity) {
        return LIGHTQ_OK;
    }
    uint32_t capacity = map->capacity == 0 ? FIRST_CAPACITY : map->capacity;
    while (capacity < needed) {
        if (capacity == CAPACITY_MAX) {
            return LIGHTQ_ENOMEM;
        }
        capacity *= 2;
    }
    return grow(map, capacity);
}

uint32_t lq_offset_map_find(const struct lq_offset_map *map, uint64_t key)
{
    return map->count == 0 ? LQ_OFFSET_MAP_NONE : map->values[slot_of(map, key)];
}

void lq_offset_map_put(struct lq_offset_map *map, uint64_t key, uint32_t value)
{
    assert(map->capacity > 0 && value != LQ_OFFSET_MAP_NONE);
    uint32_t slot = slot_of(map, key);
    if (map->values[slot] == LQ_OFFSET_MAP_NONE) {
        map->count++;
        assert((uint64_t)map->count * 2 <= map->capacity); /* its room was reserved */
        map->keys[slot] = key;
    }
    map->values[slot] = value;
}

/* Closes the hole at @slot: keys behind it that would not be found any more move into it. */
static void close_up(struct lq_offset_map *map, uint32_t slot)
{
    uint32_t mask = map->capacity - 1;
    for (uint32_t at = (slot + 1) & mask; map->values[at] != LQ_OFFSET_MAP_NONE; at = (at + 1) & mask) {
        uint32_t home = home_of(map, map->keys[at]);
        if (((at - home) & mask) >= ((at - slot) & mask)) {
            map->keys[slot] = map->keys[at];
            map->values[slot] = map->values[at];
            slot = at;
        }
    }
    map->values[slot] = LQ_OFFSET_MAP_NONE;
}

bool lq_offset_map_remove(struct lq_offset_map *map, uint64_t key)
{
    if (map->count == 0) {
        return false;
    }
    uint32_t slot = slot_of(map, key);
    if (map->values[slot] == LQ_OFFSET_MAP_NONE) {
        return false;
    }
    close_up(map, slot);
    map->count--;
    return true;
}

void lq_offset_map_clear(struct lq_offset_map *map)
{
    if (map->capacity > LITTLE) {
        lq_offset_map_deinit(map);
        return;
    }
    if (map->count > 0) {
        memset(map->values, 0xff, map->capacity * sizeof *map->values);
        map->count = 0;
    }
}
