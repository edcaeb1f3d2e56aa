/* raft/start_array.h - the array of entries that RAFT_START wants: one of 40 bytes for every entry of the log, of which
 * libraft reads the term, the type, and a change's payload. Small ones are plain memory; in large ones, whole blocks of
 * entries of one term are one block of memory mapped again and again, so that ten million entries cost a few megabytes
 * instead of four hundred. Called by start.c. */
#ifndef LQ_RAFT_START_ARRAY_H
#define LQ_RAFT_START_ARRAY_H

#include <raft.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "storage/store.h"

struct lq_start_array {
    struct raft_entry *entries; /* NULL when there are none */
    unsigned count;
    void *map; /* when mapped; else entries is raft_malloc'ed */
    size_t map_bytes;
    size_t shared_blocks; /* mapped again instead of being filled, for tests */
};

#define LQ_START_MAP_FROM_ENTRIES (256 * 1024) /* below it plain memory will do */

/* The entries [@first, @last] (none when @last is below) with the terms of @runs and @changes in between; from
 * @map_from entries on it is mapped. OK | ENOMEM | ELIMIT (more than libraft counts) | ECORRUPT (the runs do not cover
 * them). On failure nothing is held. */
lightq_status lq_start_array_fill(uint64_t first, uint64_t last, const struct lq_rlog_run *runs, size_t run_count,
                                  const struct lq_rlog_change *changes, size_t change_count, uint64_t map_from,
                                  struct lq_start_array *array) LQ_MUST_CHECK;
/* @freed_by_raft: RAFT_START failed, so that libraft has freed the array already (raft.c:352). */
void lq_start_array_free(struct lq_start_array *array, bool freed_by_raft);

#endif
