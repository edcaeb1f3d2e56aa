/* client/lib/partitioner.h - which partition a message goes to. Pure functions; any thread.
 *
 * The rule for keys is part of the contract with other clients: XXH64 of the key's bytes with seed 0, modulo the number
 * of partitions. When that number grows, keys move. */
#ifndef LQ_LIB_PARTITIONER_H
#define LQ_LIB_PARTITIONER_H

#include <stddef.h>
#include <stdint.h>

#include "client/lib/options.h"

/* @count: partitions, at least 1. */
uint32_t lq_partition_of_key(const void *key, size_t key_size, uint32_t count);

/* Where keyless messages go next, after @last. @random: the state of a generator, any value to begin with. */
uint32_t lq_partition_next(enum lq_partitioner kind, uint64_t *random, uint32_t last, uint32_t count);

#endif
