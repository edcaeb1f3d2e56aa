/* chaos/check/index.h - a growing hash index from keys to the place (0, 1, ...) of an element in an array that the
 * caller keeps, and the growing of such arrays. The element itself is the caller's: the index holds its place and 32
 * bits of its hash, so that it grows without asking for keys again. One thread at a time. */
#ifndef LQ_CHECK_INDEX_H
#define LQ_CHECK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"

#define LQ_INDEX_NONE UINT32_MAX /* no such element */
enum { LQ_INDEX_ELEMENTS_MAX = 1 << 30 };

struct lq_check_index_slot {
    uint32_t place; /* LQ_INDEX_NONE: empty */
    uint32_t hash;
};

struct lq_check_index {
    struct lq_check_index_slot *slots; /* owned */
    uint32_t capacity;                 /* 0 or a power of two */
    uint32_t count;
};

/* Whether the element at @place has @key. */
typedef bool (*lq_check_index_equal)(const void *context, uint32_t place, const void *key);

/* The place of the element with @key, whose hash is @hash; LQ_INDEX_NONE when there is none. */
uint32_t lq_check_index_find(const struct lq_check_index *index, uint64_t hash, lq_check_index_equal equal,
                             const void *context, const void *key);
/* Makes room for one more. OK | ENOMEM | ELIMIT (LQ_INDEX_ELEMENTS_MAX); then nothing has changed. */
lightq_status lq_check_index_reserve(struct lq_check_index *index) LQ_MUST_CHECK;
/* Adds @place, which is not in it; room was made with lq_check_index_reserve. */
void lq_check_index_add(struct lq_check_index *index, uint64_t hash, uint32_t place);
void lq_check_index_deinit(struct lq_check_index *index);

/* Numbers, mixed so that near ones fall far from each other. */
uint64_t lq_check_index_hash(uint64_t first, uint64_t second);
uint64_t lq_check_index_hash_bytes(const void *bytes, size_t size);

/* Makes room in @array (of @count elements of @element_size bytes each) for one more: it may move.
 * OK | ENOMEM | ELIMIT; then nothing has changed. */
lightq_status lq_array_reserve(void **array, uint32_t *capacity, uint32_t count, size_t element_size) LQ_MUST_CHECK;

#endif
