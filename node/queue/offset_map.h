/* node/queue/offset_map.h - a table from offsets (or other numbers that are spread like them) to small numbers, for
 * what is looked up once or more for each message: open addressing, twelve bytes a slot, no memory of its own per key.
 *
 * Its order follows from the keys and their history, so nothing that must be deterministic may walk it: it cannot be
 * walked. Called by settled.c, failures.c and the lease files. Pure memory. */
#ifndef LQ_NODE_QUEUE_OFFSET_MAP_H
#define LQ_NODE_QUEUE_OFFSET_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"

#define LQ_OFFSET_MAP_NONE UINT32_MAX /* never a value */

struct lq_offset_map {
    uint64_t *keys;
    uint32_t *values;  /* LQ_OFFSET_MAP_NONE: the slot is free */
    uint32_t capacity; /* 0, or a power of two */
    uint32_t count;
};

void lq_offset_map_deinit(struct lq_offset_map *map); /* zeroed is initialised; so is it afterwards */
/* Room for @more keys, so that as many lq_offset_map_put calls cannot fail. OK | ENOMEM (nothing changed). */
lightq_status lq_offset_map_reserve(struct lq_offset_map *map, uint32_t more) LQ_MUST_CHECK;
/* The value of @key, or LQ_OFFSET_MAP_NONE. */
uint32_t lq_offset_map_find(const struct lq_offset_map *map, uint64_t key);
/* Adds @key, or gives it another value. A new key needs room that was reserved. */
void lq_offset_map_put(struct lq_offset_map *map, uint64_t key, uint32_t value);
/* False: it was not there. */
bool lq_offset_map_remove(struct lq_offset_map *map, uint64_t key);
/* Removes all keys; keeps the memory when it is little. */
void lq_offset_map_clear(struct lq_offset_map *map);

#endif
