/* tests/lib/sure.h - allocations of test helpers under lq_alloc_fail, which makes one allocation fail: the helper is
 * not what is tested, so it asks again. */
#ifndef LQ_TESTS_SURE_H
#define LQ_TESTS_SURE_H

#include <assert.h>
#include <stdlib.h>

#include "client/base/slab.h"

static inline void *sure_malloc(size_t size)
{
    void *block = malloc(size);
    block = block == NULL ? malloc(size) : block;
    assert(block != NULL);
    return block;
}

static inline void *sure_calloc(size_t count, size_t size)
{
    void *block = calloc(count, size);
    block = block == NULL ? calloc(count, size) : block;
    assert(block != NULL);
    return block;
}

static inline void *sure_realloc(void *old, size_t size)
{
    void *block = realloc(old, size);
    block = block == NULL ? realloc(old, size) : block;
    assert(block != NULL);
    return block;
}

static inline struct lq_slab *sure_slab(size_t size)
{
    struct lq_slab *slab = lq_slab_new(size);
    slab = slab == NULL ? lq_slab_new(size) : slab;
    assert(slab != NULL);
    return slab;
}

#endif
