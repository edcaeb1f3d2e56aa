/* client/base/slab.h - reference-counted bytes: what is received, stored, cached and sent without being copied.
 * Counts are atomic: in the client library threads of the application give slabs back. */
#ifndef LQ_BASE_SLAB_H
#define LQ_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

struct lq_slab {
    uint32_t references; /* atomic */
    uint32_t flags;
    size_t size; /* of bytes */
    uint8_t *bytes;
    void (*release)(struct lq_slab *slab, void *context); /* instead of free, when bytes are somebody else's */
    void *context;                                        /* of release; else the block that the slab lies in */
};

/* @size bytes, not cleared, 64-byte aligned, one reference; NULL when out of memory. */
struct lq_slab *lq_slab_new(size_t size);
/* Wraps foreign bytes; @release is called once, on whichever thread drops the last reference. NULL when out of memory
 * (then @release is not called). */
struct lq_slab *lq_slab_wrap(void *bytes, size_t size, void (*release)(struct lq_slab *slab, void *context),
                             void *context);
struct lq_slab *lq_slab_ref(struct lq_slab *slab);
void lq_slab_unref(struct lq_slab *slab); /* NULL is allowed */

#endif
