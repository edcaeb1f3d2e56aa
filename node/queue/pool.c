/* node/queue/pool.c - see pool.h. */
#include "node/queue/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16
#define LITTLE         4096 /* elements: kept when nothing is in use */

void lq_pool_init(struct lq_pool *pool, size_t element)
{
    assert(element >= sizeof(uint32_t));
    *pool = (struct lq_pool){.element = element, .free = LQ_POOL_NONE};
}

void lq_pool_deinit(struct lq_pool *pool)
{
    free(pool->at);
    lq_pool_init(pool, pool->element);
}

lightq_status lq_pool_reserve(struct lq_pool *pool, uint32_t more)
{
    uint64_t needed = (uint64_t)pool->count + more;
    if (needed <= pool->capacity) {
        return LIGHTQ_OK;
    }
    if (needed >= LQ_POOL_NONE) {
        return LIGHTQ_ENOMEM;
    }
    uint64_t capacity = pool->capacity == 0 ? FIRST_CAPACITY : pool->capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    capacity = capacity < LQ_POOL_NONE ? capacity : LQ_POOL_NONE - 1;
    uint8_t *at = realloc(pool->at, capacity * pool->element);
    if (at == NULL) {
        return LIGHTQ_ENOMEM;
    }
    pool->at = at;
    pool->capacity = (uint32_t)capacity;
    return LIGHTQ_OK;
}

uint32_t lq_pool_take(struct lq_pool *pool)
{
    assert(pool->count < pool->capacity);
    uint32_t number = pool->free;
    pool->count++;
    if (number == LQ_POOL_NONE) {
        return pool->high++;
    }
    memcpy(&pool->free, lq_pool_at(pool, number), sizeof pool->free);
    return number;
}

void lq_pool_give(struct lq_pool *pool, uint32_t number)
{
    assert(pool->count > 0 && number < pool->high);
    pool->count--;
    if (pool->count == 0) {
        pool->free = LQ_POOL_NONE;
        pool->high = 0;
        if (pool->capacity > LITTLE) {
            lq_pool_deinit(pool);
        }
        return;
    }
    memcpy(lq_pool_at(pool, number), &pool->free, sizeof pool->free);
    pool->free = number;
}
