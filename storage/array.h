/* storage/array.h - growing arrays. */
#ifndef LQ_STORAGE_ARRAY_H
#define LQ_STORAGE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define LQ_ARRAY_FIRST_CAPACITY 8

/* Room for @count items of @item_size bytes in *@items, whose room is *@capacity. False: out of memory, nothing
 * changed. */
static inline bool lq_array_reserve(void **items, size_t *capacity, size_t count, size_t item_size)
{
    if (count <= *capacity) {
        return true;
    }
    size_t wanted = *capacity < LQ_ARRAY_FIRST_CAPACITY ? LQ_ARRAY_FIRST_CAPACITY : *capacity * 2;
    if (wanted < count) {
        wanted = count;
    }
    if (wanted > SIZE_MAX / item_size) {
        return false;
    }
    void *grown = realloc(*items, wanted * item_size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

#endif
