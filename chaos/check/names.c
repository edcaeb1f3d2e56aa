/* chaos/check/names.c - words and pairs kept once. See names.h. */
#include "chaos/check/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1024 };

static bool word_equals(const void *context, uint32_t place, const void *key)
{
    const struct lq_check_names *names = context;
    const struct lq_word *word = key;
    const char *known = names->bytes + names->starts[place];
    return memcmp(known, word->at, word->size) == 0 && known[word->size] == '\0';
}

static bool word_is_good(struct lq_word word)
{
    if (word.size == 0 || word.size > LQ_WORD_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < word.size; i++) {
        if (word.at[i] <= ' ' || word.at[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Room for the longest word and its zero, so that a comparison may look LQ_WORD_BYTES_MAX bytes far. */
static lightq_status reserve_bytes(struct lq_check_names *names)
{
    size_t needed = names->size + 2 * (LQ_WORD_BYTES_MAX + 1);
    if (needed <= names->capacity) {
        return LIGHTQ_OK;
    }
    size_t capacity = names->capacity == 0 ? FIRST_BYTES : names->capacity * 2;
    char *moved = realloc(names->bytes, capacity);
    if (moved == NULL) {
        return LIGHTQ_ENOMEM;
    }
    memset(moved + names->capacity, 0, capacity - names->capacity);
    names->bytes = moved;
    names->capacity = capacity;
    return LIGHTQ_OK;
}

lightq_status lq_check_names_put(struct lq_check_names *names, struct lq_word word, uint32_t *place)
{
    if (!word_is_good(word)) {
        return LIGHTQ_EINVAL;
    }
    uint64_t hash = lq_check_index_hash_bytes(word.at, word.size);
    *place = lq_check_index_find(&names->index, hash, word_equals, names, &word);
    if (*place != LQ_INDEX_NONE) {
        return LIGHTQ_OK;
    }
    lightq_status status = reserve_bytes(names);
    if (status == LIGHTQ_OK) {
        status = lq_array_reserve((void **)&names->starts, &names->starts_capacity, names->count, sizeof(size_t));
    }
    if (status == LIGHTQ_OK) {
        status = lq_check_index_reserve(&names->index);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    memcpy(names->bytes + names->size, word.at, word.size);
    names->bytes[names->size + word.size] = '\0';
    names->starts[names->count] = names->size;
    names->size += word.size + 1;
    *place = names->count++;
    lq_check_index_add(&names->index, hash, *place);
    return LIGHTQ_OK;
}

uint32_t lq_check_names_find(const struct lq_check_names *names, struct lq_word word)
{
    if (!word_is_good(word)) {
        return LQ_INDEX_NONE;
    }
    return lq_check_index_find(&names->index, lq_check_index_hash_bytes(word.at, word.size), word_equals, names, &word);
}

const char *lq_check_names_at(const struct lq_check_names *names, uint32_t place)
{
    assert(place < names->count);
    return names->bytes + names->starts[place];
}

void lq_check_names_deinit(struct lq_check_names *names)
{
    free(names->bytes);
    free(names->starts);
    lq_check_index_deinit(&names->index);
    *names = (struct lq_check_names){.bytes = NULL};
}

static bool pair_equals(const void *context, uint32_t place, const void *key)
{
    const struct lq_pairs *pairs = context;
    const struct lq_pair *pair = key;
    return pairs->at[place].first == pair->first && pairs->at[place].second == pair->second;
}

lightq_status lq_pairs_put(struct lq_pairs *pairs, uint32_t first, uint32_t second, uint32_t *place)
{
    struct lq_pair pair = {.first = first, .second = second};
    uint64_t hash = lq_check_index_hash(first, second);
    *place = lq_check_index_find(&pairs->index, hash, pair_equals, pairs, &pair);
    if (*place != LQ_INDEX_NONE) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_array_reserve((void **)&pairs->at, &pairs->capacity, pairs->count, sizeof pair);
    if (status == LIGHTQ_OK) {
        status = lq_check_index_reserve(&pairs->index);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    pairs->at[pairs->count] = pair;
    *place = pairs->count++;
    lq_check_index_add(&pairs->index, hash, *place);
    return LIGHTQ_OK;
}

uint32_t lq_pairs_find(const struct lq_pairs *pairs, uint32_t first, uint32_t second)
{
    struct lq_pair pair = {.first = first, .second = second};
    return lq_check_index_find(&pairs->index, lq_check_index_hash(first, second), pair_equals, pairs, &pair);
}

void lq_pairs_deinit(struct lq_pairs *pairs)
{
    free(pairs->at);
    lq_check_index_deinit(&pairs->index);
    *pairs = (struct lq_pairs){.at = NULL};
}
