/* node/queue/cgroups.h - all consumer groups of one partition; part of its deterministic state. In the order of their
 * numbers, which is the order they were made in. Called by state.c; read by node/ through partition_groups.h. Pure
 * memory. */
#ifndef LQ_NODE_QUEUE_CGROUPS_H
#define LQ_NODE_QUEUE_CGROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "node/queue/cgroup.h"
#include "node/queue/topic_config.h"

struct lq_command;

struct lq_cgroups {
    struct lq_cgroup **at; /* by number, ascending */
    size_t count, capacity;
    uint64_t weight; /* holes and failures of all of them: what they take in memory and in a checkpoint */
};

void lq_cgroups_deinit(struct lq_cgroups *cgroups); /* zeroed is initialised; so is it afterwards */
struct lq_cgroup *lq_cgroups_find(const struct lq_cgroups *cgroups, uint64_t number);                    /* or NULL */
struct lq_cgroup *lq_cgroups_find_name(const struct lq_cgroups *cgroups, const char *name, size_t size); /* or NULL */

/* The number of the group that a command of groups is for; 0: it makes one. */
uint64_t lq_cgroups_number_of(const struct lq_command *command);
/* Applies a command of groups; @at->holes_max is not looked at. *result is what it came to, the same on every replica.
 * Given back is only what must stop the replica: ENOMEM. */
lightq_status lq_cgroups_apply(struct lq_cgroups *cgroups, const struct lq_command *command,
                               const struct lq_cgroup_at *at, struct lq_cgroup_result *result) LQ_MUST_CHECK;

/* The highest start that a trim to @wanted may set: it keeps every message whose dead letter is open. Every cause of
 * trimming is clamped by it. */
uint64_t lq_cgroups_clamp_trim(const struct lq_cgroups *cgroups, uint64_t wanted);
/* The partition starts at @start now. */
void lq_cgroups_trimmed(struct lq_cgroups *cgroups, uint64_t start);
/* The lowest offset that a group which counts for @retention still needs; @end when none does. What the word says of a
 * partition without such a group: 0 for workqueue and limits, @end for interest. */
uint64_t lq_cgroups_needed(const struct lq_cgroups *cgroups, enum lq_retention retention, uint64_t end);

/*   0 count u32 | then each by number (cgroup.h). OK | ENOMEM | ETOOBIG. */
lightq_status lq_cgroups_save(const struct lq_cgroups *cgroups, struct lq_writer *writer) LQ_MUST_CHECK;
/* @cgroups is empty; on failure deinit it. OK | ECORRUPT | ENOMEM. */
lightq_status lq_cgroups_load(struct lq_cgroups *cgroups, struct lq_reader *reader,
                              const struct lq_cgroup_at *at) LQ_MUST_CHECK;

#endif
