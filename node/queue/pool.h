/* node/queue/pool.h - elements of one size, named by small numbers: no allocation for each of them, and four bytes for
 * a link. An element's address is good until the next reserve. Called by the lease files. Pure memory. */
#ifndef LQ_NODE_QUEUE_POOL_H
#define LQ_NODE_QUEUE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"

#define LQ_POOL_NONE UINT32_MAX /* never an element */

struct lq_pool {
    uint8_t *at;
    size_t element; /* bytes; 4 at least */
    uint32_t count; /* in use */
    uint32_t high;  /* elements from here on were never used */
    uint32_t capacity;
    uint32_t free; /* the first that was given back; its first four bytes link the next */
};

void lq_pool_init(struct lq_pool *pool, size_t element);
void lq_pool_deinit(struct lq_pool *pool); /* nothing is in use any more; it may go on being used */
/* Room for @more elements, so that as many lq_pool_take calls cannot fail. OK | ENOMEM (nothing changed). */
lightq_status lq_pool_reserve(struct lq_pool *pool, uint32_t more) LQ_MUST_CHECK;
/* One whose room was reserved. Its content is not defined. */
uint32_t lq_pool_take(struct lq_pool *pool);
void lq_pool_give(struct lq_pool *pool, uint32_t number);

static inline void *lq_pool_at(const struct lq_pool *pool, uint32_t number)
{
    return pool->at + (size_t)number * pool->element;
}

#endif
