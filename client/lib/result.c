/* client/lib/result.c - see result.h. A result lies behind a head that chains the blocks it owns. */
#include "client/lib/result.h"

#include <stdlib.h>
#include <string.h>

#include <lightq/admin.h>

union block {
    struct {
        union block *next;
    } head;
    max_align_t alignment;
};

static union block *block_of(void *result)
{
    return (union block *)result - 1;
}

static void *new_block(size_t count, size_t size, union block **chain)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - sizeof(union block)) {
        return NULL;
    }
    union block *block = calloc(1, sizeof *block + bytes);
    if (block == NULL) {
        return NULL;
    }
    block->head.next = *chain;
    *chain = block;
    return block + 1;
}

void *lq_result_new(size_t size)
{
    union block *chain = NULL;
    return new_block(1, size, &chain);
}

void *lq_result_alloc(void *result, size_t count, size_t size)
{
    return new_block(count, size, &block_of(result)->head.next);
}

const char *lq_result_text(void *result, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return "";
    }
    size_t size = strlen(text) + 1;
    char *copy = lq_result_alloc(result, 1, size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void lightq_result_free(void *result)
{
    union block *block = result != NULL ? block_of(result) : NULL;
    while (block != NULL) {
        union block *next = block->head.next;
        free(block);
        block = next;
    }
}
