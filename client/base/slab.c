/* client/base/slab.c - reference-counted bytes. Called wherever bytes are received, stored, cached or sent; references
 * are dropped on any thread, a slab's bytes are written only while one thread holds its only reference. */
#include "client/base/slab.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#define ALIGNMENT_BYTES 64                                        /* a cache line; also enough for vector loads */
#define SLACK_BYTES     (ALIGNMENT_BYTES - _Alignof(max_align_t)) /* what aligning malloc's block may cost */

_Static_assert(sizeof(struct lq_slab) <= ALIGNMENT_BYTES, "the head fits in front of the bytes");

struct lq_slab *lq_slab_new(size_t size)
{
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    /* Not aligned_alloc: glibc's (before 2.38) looks for a larger place than it then takes, so that a slab does not fit
     * where one of its size was freed, and every batch would touch fresh memory. */
    size_t rounded = (size + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    uint8_t *block = malloc(SLACK_BYTES + ALIGNMENT_BYTES + rounded);
    if (block == NULL) {
        return NULL;
    }
    uint8_t *at = block + (ALIGNMENT_BYTES - (uintptr_t)block % ALIGNMENT_BYTES) % ALIGNMENT_BYTES;
    struct lq_slab *slab = (struct lq_slab *)(void *)at;
    *slab = (struct lq_slab){.references = 1, .size = size, .bytes = at + ALIGNMENT_BYTES, .context = block};
    return slab;
}

struct lq_slab *lq_slab_wrap(void *bytes, size_t size, void (*release)(struct lq_slab *slab, void *context),
                             void *context)
{
    assert(release != NULL);
    struct lq_slab *slab = malloc(sizeof *slab);
    if (slab == NULL) {
        return NULL;
    }
    *slab = (struct lq_slab){.references = 1, .size = size, .bytes = bytes, .release = release, .context = context};
    return slab;
}

struct lq_slab *lq_slab_ref(struct lq_slab *slab)
{
    /* Relaxed: who makes a reference holds one, so nothing can be freed meanwhile. */
    uint32_t before = __atomic_fetch_add(&slab->references, 1, __ATOMIC_RELAXED);
    assert(before > 0 && before < UINT32_MAX);
    return slab;
}

void lq_slab_unref(struct lq_slab *slab)
{
    if (slab == NULL) {
        return;
    }
    /* Release orders our uses before the drop; acquire orders the drops of others before the free. */
    uint32_t before = __atomic_fetch_sub(&slab->references, 1, __ATOMIC_ACQ_REL);
    assert(before > 0);
    if (before > 1) {
        return;
    }
    void *block = slab; /* of one that was wrapped */
    if (slab->release != NULL) {
        slab->release(slab, slab->context);
    } else {
        block = slab->context;
    }
    free(block);
}
