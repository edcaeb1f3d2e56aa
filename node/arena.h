/* node/arena.h - memory for the many small parts of one answer, given back at once. Bounded. Loop thread only. */
#ifndef LQ_NODE_ARENA_H
#define LQ_NODE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct lq_arena_block;

struct lq_arena {
    struct lq_arena_block *blocks;
    size_t left;  /* in the first block */
    size_t total; /* of all blocks */
    size_t limit;
    bool failed; /* no memory, or the limit was reached */
};

void lq_arena_init(struct lq_arena *arena, size_t limit);
void lq_arena_deinit(struct lq_arena *arena);
/* @size bytes, zero, aligned for anything; NULL on failure, and ever after. */
void *lq_arena_take(struct lq_arena *arena, size_t size);
/* A copy of @text; "" on failure, so that it can go into a message unseen. */
char *lq_arena_text(struct lq_arena *arena, const char *text);

#endif
