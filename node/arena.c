/* node/arena.c - see arena.h. */
#include "node/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64u * 1024)

struct lq_arena_block {
    struct lq_arena_block *next;
    size_t size;
    alignas(max_align_t) uint8_t bytes[];
};

void lq_arena_init(struct lq_arena *arena, size_t limit)
{
    *arena = (struct lq_arena){.limit = limit};
}

void lq_arena_deinit(struct lq_arena *arena)
{
    while (arena->blocks != NULL) {
        struct lq_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
    *arena = (struct lq_arena){.limit = arena->limit};
}

void *lq_arena_take(struct lq_arena *arena, size_t size)
{
    const size_t alignment = alignof(max_align_t);
    if (arena->failed || size > arena->limit) {
        arena->failed = true;
        return NULL;
    }
    size = (size + alignment - 1) & ~(alignment - 1);
    if (size > arena->left || arena->blocks == NULL) { /* nothing of an empty arena is asked for too */
        size_t block_size = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        struct lq_arena_block *block = NULL;
        if (arena->total + block_size <= arena->limit) {
            block = malloc(sizeof *block + block_size);
        }
        if (block == NULL) {
            arena->failed = true;
            return NULL;
        }
        block->next = arena->blocks;
        block->size = block_size;
        arena->blocks = block;
        arena->left = block_size;
        arena->total += block_size;
    }
    uint8_t *at = arena->blocks->bytes + (arena->blocks->size - arena->left);
    arena->left -= size;
    memset(at, 0, size);
    return at;
}

char *lq_arena_text(struct lq_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = lq_arena_take(arena, size);
    if (copy == NULL) {
        return (char *)(uintptr_t) "";
    }
    return memcpy(copy, text, size);
}
