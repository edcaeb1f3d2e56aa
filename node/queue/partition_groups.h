/* node/queue/partition_groups.h - the consumer groups of a partition, as the node uses them: changing them, and, while
 * this replica leads, delivering to and settling for consumers of pipeline groups. What groups are is in cgroup.h, who
 * holds what in lease.h.
 *
 * Called by node/ (sessions, consumers, administration). Loop thread only. */
#ifndef LQ_NODE_QUEUE_PARTITION_GROUPS_H
#define LQ_NODE_QUEUE_PARTITION_GROUPS_H

#include "node/queue/cgroups.h"
#include "node/queue/command.h"
#include "node/queue/lease.h"
#include "node/queue/partition.h"

/* All groups as applied here; read only, valid until the next apply. On a replica that does not lead they may be old.
 * Open dead letters are in them (dead_letters.h): who moves them looks at all groups when this replica begins to lead,
 * and again when LQ_PARTITION_DEAD_LETTERS is told. */
const struct lq_cgroups *lq_partition_groups(const struct lq_partition *partition);

/* ---- changing */

struct lq_group_request;

/* Runs once, later, never inside the call; never after lq_partition_free. Then the request is the caller's again.
 *
 *   what cgroup.h, struct lq_cgroup_result names   applied here, so durable on a majority: result is set
 *   ENOTLEADER       not proposed: this replica stopped leading while it waited
 *   ELEADERSHIPLOST  proposed, and the outcome is not known. All changes but SEEK may be asked for again: they come to
 * the same; a second SEEK moves the group once more ESTOPPED | ENOMEM | ECLOSED   not proposed */
typedef void (*lq_group_request_cb)(struct lq_group_request *request, lightq_status status);

/* One change. Belongs to the caller, pinned until cb, and so is what the command points to. */
struct lq_group_request {
    struct lq_command command; /* GROUP_CREATE, _DELETE, _SEEK, _ALTER, _DLQ, COMMIT or DONE */
    lq_group_request_cb cb;
    void *data;
    struct lq_cgroup_result result; /* given */
    /* Internal. */
    struct lq_group_request *next;
    uint64_t index;
    lightq_status final; /* when it was decided */
};

/* Hands in a change. OK: request->cb runs once. Anything else: it never runs, nothing was proposed:
 *   ENOTLEADER | ESTOPPED | EINVAL (of another type, options or a name that cannot be) | EBUSY (too much waits here).
 */
lightq_status lq_partition_group_change(struct lq_partition *partition, struct lq_group_request *request) LQ_MUST_CHECK;

/* ---- pipeline groups, while leading */

/* The leases of group @number, made when they are not there. They are freed, before anybody is told, when this replica
 * stops leading (watchers of the partition are told LQ_PARTITION_LEADERSHIP), its state is replaced (_RELOADED), it is
 * freed (_CLOSED), or the group is deleted (_GROUPS): consumers forget them then and do not leave. OK | ENOTLEADER |
 * ESTOPPED | ENOTFOUND | EINVAL (not a pipeline group) | ENOMEM.
 *
 * The caller uses lq_leases_join, _leave, _credit, _next, _take, and the looking functions directly, and settles
 * through lq_partition_settle; ticking, proposing and applying is done here. After a seek (the group's generation is
 * another one) every lease is gone and consumers stay, with their credit. */
lightq_status lq_partition_leases(struct lq_partition *partition, uint64_t number,
                                  struct lq_leases **leases) LQ_MUST_CHECK;
/* After lq_leases_leave, which may have gathered failures: they are proposed in the next turn. */
void lq_partition_group_touch(struct lq_partition *partition, uint64_t number);

/* Told in lq_partition_turn() when messages of that group may be deliverable that were not before, for another reason
 * than new ones (LQ_PARTITION_APPLIED): results were applied, leases or delays have ended, the group was changed.
 * Embedded by the caller; may be removed at any time, also by its own callback, and is off the list by itself when the
 * leases are freed. */
struct lq_group_watcher {
    void (*cb)(struct lq_group_watcher *watcher);
    void *data;
    /* Internal. */
    struct lq_partition *partition;
    struct lq_group_hub *hub; /* NULL: on no list */
    struct lq_group_watcher *next, *previous;
};
/* @number's leases are there: lq_partition_leases gave them. */
void lq_partition_group_watch(struct lq_partition *partition, uint64_t number, struct lq_group_watcher *watcher);
void lq_partition_group_unwatch(struct lq_group_watcher *watcher); /* harmless when it is not on a list */

struct lq_settle_request;

/* As lq_group_request_cb. OK: what was taken is settled (or its failure counted) on a majority. EFENCED, ENOTFOUND: the
 * group was moved or deleted before all of it was applied. ELIMIT: some of it was refused, and is delivered again. */
typedef void (*lq_settle_request_cb)(struct lq_settle_request *request, lightq_status status);

/* Results of one consumer. Belongs to the caller, pinned until cb; the items only during the call. */
struct lq_settle_request {
    uint64_t group, generation; /* as given to the consumer when it subscribed */
    lq_lease_consumer consumer; /* or LQ_LEASE_NOBODY */
    const struct lq_settle_item *items;
    size_t item_count;
    lq_settle_request_cb cb;
    void *data;
    struct lq_settle_counts counts; /* given by the call: what was decided about each message, by number */
    /* Internal. */
    struct lq_settle_request *next;
    uint64_t index; /* of the entry it waits for */
    lightq_status result;
};
/* OK: request->cb runs once, later, when everything that was taken or waited for is applied (in the next turn when that
 * is nothing). Anything else: it never runs: ENOTLEADER | ESTOPPED | ENOTFOUND | EFENCED (another generation) | EINVAL
 * | ENOMEM (some items may have been taken; all may be sent again) | EBUSY (too much waits here). */
lightq_status lq_partition_settle(struct lq_partition *partition, struct lq_settle_request *request) LQ_MUST_CHECK;

/* Monotonic microseconds of the next lq_partition_groups_tick; UINT64_MAX: none. */
uint64_t lq_partition_groups_deadline_us(const struct lq_partition *partition);
/* Lets leases and delays end. */
void lq_partition_groups_tick(struct lq_partition *partition);

#endif
