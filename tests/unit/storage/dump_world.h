/* tests/unit/storage/dump_world.h - a store on a disk in memory, and a workload that leaves every kind of file behind:
 * for the tests of lq_dump. */
#ifndef LQ_TESTS_DUMP_WORLD_H
#define LQ_TESTS_DUMP_WORLD_H

#include "client/base/clock.h"
#include "storage/dump.h"
#include "storage/io_mem.h"
#include "storage/store.h"

struct dump_world {
    struct lq_clock clock; /* first: the store gives it back to us */
    uint64_t now_us;
    uint64_t random;
    struct lq_io_mem *mem; /* NULL on a real disk */
    struct lq_io *io;
    size_t (*run)(struct dump_world *world); /* runs pending jobs: how many */
    void *data;                              /* of run */
    struct lq_store *store;                  /* NULL: none is open */
    const char *dir;                         /* of the next one that is opened; NULL: the root */
    struct lq_err err;
};

/* On a new disk in memory. Dies when out of memory. */
struct dump_world *dump_world_new(void);
/* On @io, which stays the caller's. */
struct dump_world *dump_world_new_on(struct lq_io *io, size_t (*run)(struct dump_world *world), void *data);
void dump_world_free(struct dump_world *world);

lightq_status dump_world_open(struct dump_world *world);
/* Orderly. */
void dump_world_close(struct dump_world *world);
/* As a crash does. */
void dump_world_abandon(struct dump_world *world);

/* Groups are created, written by segment and by journal, cut, checkpointed, trimmed, installed and destroyed. Goes on
 * whatever fails, so that a crash can be ordered at any change of it. */
void dump_world_work(struct dump_world *world);

/* Damage counted by lq_dump with --verify; what it printed is in *text (the caller frees it) unless @text is NULL. */
uint64_t dump_world_verify(struct dump_world *world, char **text, struct lq_dump_verdict *verdict);
/* Whether a store opens on this disk with all its logs healthy. The disk may be repaired by that. */
bool dump_world_is_healthy(struct dump_world *world);

#endif
