/* client/lib/partitioner.c - see partitioner.h. */
#include "client/lib/partitioner.h"

#include <xxhash.h>

uint32_t lq_partition_of_key(const void *key, size_t key_size, uint32_t count)
{
    return (uint32_t)(XXH64(key, key_size, 0) % count);
}

/* xorshift64 (Marsaglia, 2003): spreads load, nothing more. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state != 0 ? *state : 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

uint32_t lq_partition_next(enum lq_partitioner kind, uint64_t *random, uint32_t last, uint32_t count)
{
    if (kind == LQ_PARTITIONER_ROUND_ROBIN) {
        return last + 1 < count ? last + 1 : 0;
    }
    return (uint32_t)(next_random(random) % count);
}
