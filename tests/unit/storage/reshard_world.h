/* tests/unit/storage/reshard_world.h - a data directory of several shards on an in-memory disk, with a model of what it
 * may hold, for test_reshard.c and test_reshard_sweep.c. Its number of shards is in a file of its own, as a node has it
 * in its identity. */
#ifndef LQ_TESTS_RESHARD_WORLD_H
#define LQ_TESTS_RESHARD_WORLD_H

#include "store_model.h"

#include "client/base/limits.h"
#include "storage/reshard.h"

#define WORLD_SHARDS_MAX 5
#define WORLD_GROUPS     4 /* of each shard */

struct world {
    struct fixture *f;
    unsigned shards;                       /* at the begin */
    struct model models[WORLD_SHARDS_MAX]; /* by shard at the begin */
    char dir[LQ_SHARD_DIR_BYTES];
    struct lq_reshard_options options;
};

void world_init(struct world *world, struct fixture *f, unsigned shards);
void world_deinit(struct world *world);
/* Every shard gets a history of its own and ends in the middle of it, as a killed process leaves it. */
void world_build(struct world *world);
/* What is noted on the disk. */
unsigned world_number(struct world *world);
void world_note(struct world *world, unsigned shards);
/* As a start does: from the noted number to @to. */
lightq_status world_reshard(struct world *world, unsigned to);
/* The store of shard @i of @shards, opened with must_exist; or for the first time. */
void world_open(struct world *world, unsigned i, unsigned shards);
void world_make(struct world *world, unsigned i, unsigned shards);
/* All stores of the noted number hold what the models allow; then every log takes more, and has it after a power cut.
 */
void world_check(struct world *world);

#endif
