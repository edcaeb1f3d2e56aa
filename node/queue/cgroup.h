/* node/queue/cgroup.h - one consumer group of one partition, as all replicas have it: where it is, what is settled,
 * what failed. ("cgroup": a group without more is a Raft group.) Deterministic: no clock, no randomness; times are the
 * stamps of the log.
 *
 * A subscriber group has a position, settled.floor, and nothing else of it. A pipeline group has the floor, the holes
 * above it, failures and dead letters. Who holds what at the moment is memory of the leader: lease.h.
 *
 * Promises, whatever is applied: the floor is never above a message that is not settled; the count of failed deliveries
 * of a message never goes down before it is settled or the group seeks; a message is settled, or a hole, or above the
 * ceiling, never two of them; an open dead letter holds its message (trimming stops there).
 *
 * Called by cgroups.c. Read by lease.c and node/. Pure memory. */
#ifndef LQ_NODE_QUEUE_CGROUP_H
#define LQ_NODE_QUEUE_CGROUP_H

#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/limits.h"
#include "node/queue/cgroup_command.h"
#include "node/queue/dead_letters.h"
#include "node/queue/failures.h"
#include "node/queue/settled.h"

struct lq_cgroup {
    uint64_t number;     /* index of the entry that made it: who it is, in commands and to clients */
    uint64_t generation; /* index of the entry that made it or moved it last (seek): a COMMIT or SETTLE that was meant
                            for the time before that is refused */
    struct lq_id id;     /* given by its maker; the same on all partitions of the topic */
    char name[LQ_NAME_BYTES_MAX + 1];
    struct lq_cgroup_options options;
    struct lq_cgroup_start start; /* of its making or last seek */

    struct lq_settled settled;
    struct lq_failures failures;
    struct lq_dead_letters dead;

    /* Since it was made; for people and for consumers that are told. */
    uint64_t settled_count; /* messages acked or dead-lettered; of a subscriber group those committed */
    uint64_t failed_count;  /* deliveries */
    uint64_t missed_count;  /* messages trimmed away before they were settled */
    uint64_t missed_first;  /* of the last trim that did: the first such message ... */
    uint64_t missed_end;    /* ... and the first message that was there after it; 0: none ever */
    uint64_t progress_ms;   /* stamp of the last entry that settled something, or made it: for the lag in time */
};

/* What became of a command, for who asked. */
struct lq_cgroup_result {
    /* OK
     * ENOTFOUND    no such group (any more)
     * EFENCED      it was moved by a seek since: subscribe again
     * EEXISTS      of CREATE: another group of that name; @number and @generation are that one's
     * EOUTOFRANGE  an offset that is not there; of CREATE and SEEK by offset, COMMIT, SETTLE
     * EINVAL       not for a group of this mode
     * ESETTLED     of COMMIT: the position is further already
     * ELIMIT       too many groups, messages that are not settled, or dead letters. Of SETTLE and DONE: what the counts
     *              say is done, the rest is not. A range that makes no hole (at the floor, say) is always taken */
    lightq_status status;
    uint64_t number, generation;
    uint64_t position; /* the floor afterwards */
    uint64_t settled;  /* messages that this command settled */
    uint32_t failed;   /* failures it counted */
    uint32_t dead;     /* of those that are dead letters now */
    uint32_t stale; /* failures that had no effect: settled already, dead, of an earlier delivery, or over the limit */
};

/* Where in the log a command is applied. */
struct lq_cgroup_at {
    uint64_t index, timestamp_ms;
    uint64_t start_offset, end_offset; /* of the partition */
    uint32_t holes_max; /* holes, and failures, this group may have, so that the partition's stay within bounds */
};

/* The group that @create makes; its number is @at->index. OK: free it with lq_cgroup_free. ENOMEM | EOUTOFRANGE. */
lightq_status lq_cgroup_new(const struct lq_cgroup_create *create, const struct lq_cgroup_at *at,
                            struct lq_cgroup **cgroup) LQ_MUST_CHECK;
void lq_cgroup_free(struct lq_cgroup *cgroup); /* NULL is allowed */

/* Each fills *result. Given back is only what must stop the replica: ENOMEM. */
lightq_status lq_cgroup_seek(struct lq_cgroup *cgroup, const struct lq_cgroup_seek *seek, const struct lq_cgroup_at *at,
                             struct lq_cgroup_result *result) LQ_MUST_CHECK;
lightq_status lq_cgroup_settle(struct lq_cgroup *cgroup, const struct lq_cgroup_settle *settle,
                               const struct lq_cgroup_at *at, struct lq_cgroup_result *result) LQ_MUST_CHECK;
lightq_status lq_cgroup_done(struct lq_cgroup *cgroup, uint64_t number, const struct lq_cgroup_at *at,
                             struct lq_cgroup_result *result) LQ_MUST_CHECK;
void lq_cgroup_commit(struct lq_cgroup *cgroup, const struct lq_cgroup_commit *commit, const struct lq_cgroup_at *at,
                      struct lq_cgroup_result *result);
void lq_cgroup_alter(struct lq_cgroup *cgroup, const struct lq_cgroup_alter *alter, struct lq_cgroup_result *result);
/* The messages below @start are gone. A pipeline group goes on from there, and counts what it missed; a subscriber
 * group's position stays: its consumers are told EOUTOFRANGE and how much. */
void lq_cgroup_trimmed(struct lq_cgroup *cgroup, uint64_t start);

/* A message's failed deliveries so far; 0: none, or settled. */
uint32_t lq_cgroup_failed(const struct lq_cgroup *cgroup, uint64_t offset);

/*   0 number u64 | 8 generation u64 | 16 id, 16 bytes | 32 start (24 bytes) | 56 settled_count, failed_count,
 *   missed_count, missed_first, missed_end, progress_ms, each u64 | 104 options | name size u8, name | settled
 *   (settled.h) | failures (failures.h) | dead letters (dead_letters.h) */
lightq_status lq_cgroup_save(const struct lq_cgroup *cgroup, struct lq_writer *writer) LQ_MUST_CHECK;
/* OK | ECORRUPT | ENOMEM. Refuses what lies beyond @at->index and @at->end_offset, or has more than @at->holes_max. */
lightq_status lq_cgroup_load(struct lq_reader *reader, const struct lq_cgroup_at *at,
                             struct lq_cgroup **cgroup) LQ_MUST_CHECK;

#endif
