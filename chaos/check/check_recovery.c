/* chaos/check/check_recovery.c - how long after each fault the first message was acknowledged that had been asked for
 * after it. Called by check.c.
 *
 * From: the fault's begin, or its heal when it takes a majority. For each log by itself, because others may not have
 * noticed: the least time of completion among acknowledgements invoked since then, counted from the first attempt for
 * that log when that is known and later (before it nobody tried). A fault's recovery is the longest of all its logs. A
 * fault is held against limits only when no other one lasted meanwhile. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "chaos/check/checkers.h"

struct tries {
    struct lq_sort_item *acks;     /* by log and invoked; value: message */
    uint64_t *soonest;             /* beside acks: least completion from here to the end of the log's */
    struct lq_sort_item *targeted; /* attempts whose log was chosen, by log and invoked; value: message */
    size_t ack_count, targeted_count;
    uint64_t last_attempt_us; /* of all */
    bool any_attempt;
    uint64_t *begins, *heals; /* of all faults, sorted each; not healed is LQ_HISTORY_UNKNOWN */
};

static lightq_status collect(const struct lq_history *history, struct tries *tries)
{
    for (uint32_t i = 0; i < history->message_count; i++) {
        const struct lq_message *message = &history->messages[i];
        if (!message->attempted) {
            continue;
        }
        if (message->outcome == LQ_OUTCOME_OK) {
            tries->acks[tries->ack_count++] =
                (struct lq_sort_item){.major = message->log, .minor = message->invoked_us, .value = i};
        }
        if (message->target != LQ_HISTORY_NONE) {
            tries->targeted[tries->targeted_count++] =
                (struct lq_sort_item){.major = message->target, .minor = message->invoked_us, .value = i};
        }
        tries->any_attempt = true;
        if (message->invoked_us > tries->last_attempt_us) {
            tries->last_attempt_us = message->invoked_us;
        }
    }
    lightq_status status = lq_sort(tries->acks, tries->ack_count);
    if (status == LIGHTQ_OK) {
        status = lq_sort(tries->targeted, tries->targeted_count);
    }
    for (size_t i = tries->ack_count; status == LIGHTQ_OK && i-- > 0;) {
        const struct lq_message *message = &history->messages[tries->acks[i].value];
        bool last = i + 1 == tries->ack_count || tries->acks[i + 1].major != tries->acks[i].major;
        tries->soonest[i] = message->completed_us;
        if (!last && tries->soonest[i + 1] < tries->soonest[i]) {
            tries->soonest[i] = tries->soonest[i + 1];
        }
    }
    return status;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static void collect_faults(const struct lq_history *history, struct tries *tries)
{
    for (uint32_t i = 0; i < history->faults.count; i++) {
        tries->begins[i] = history->fault_times[i].begin_us;
        tries->heals[i] = history->fault_times[i].heal_us;
    }
    qsort(tries->begins, history->faults.count, sizeof *tries->begins, compare_times);
    qsort(tries->heals, history->faults.count, sizeof *tries->heals, compare_times);
}

/* How many of sorted @times are below @limit. */
static size_t count_below(const uint64_t *times, size_t count, uint64_t limit)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (times[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Whether another fault lasted at some moment of [@from, @to]. */
static bool overlaps(const struct tries *tries, size_t faults, uint64_t from, uint64_t to)
{
    size_t begun = count_below(tries->begins, faults, to + 1);
    size_t over = count_below(tries->heals, faults, from);
    assert(begun > over); /* itself */
    return begun - over > 1;
}

/* What a fault did to one log. False: it was never used again. */
static bool measure_log(const struct tries *tries, uint32_t log, uint64_t from, uint64_t *took, bool *never)
{
    size_t ack = lq_sort_lower(tries->acks, tries->ack_count, log, from);
    size_t aimed = lq_sort_lower(tries->targeted, tries->targeted_count, log, from);
    bool tried = aimed < tries->targeted_count && tries->targeted[aimed].major == log;
    if (ack == tries->ack_count || tries->acks[ack].major != log) {
        *never = tried;
        return tried;
    }
    uint64_t start =
        tried && tries->targeted[aimed].minor <= tries->acks[ack].minor ? tries->targeted[aimed].minor : from;
    *took = tries->soonest[ack] - start;
    *never = false;
    return true;
}

static void measure_fault(const struct lq_check *check, const struct tries *tries, const struct lq_fault *fault,
                          struct lq_fault_recovery *recovery)
{
    const struct lq_history *history = check->history;
    recovery->from_us = fault->scope == LQ_FAULT_MAJORITY ? fault->heal_us : fault->begin_us;
    recovery->state = LQ_RECOVERY_UNMEASURED;
    if (recovery->from_us == LQ_HISTORY_UNKNOWN) {
        return;
    }
    uint64_t until = recovery->from_us;
    bool used = false;
    for (uint32_t log = 0; log < history->logs.count; log++) {
        uint64_t took = 0;
        bool never;
        if (!measure_log(tries, log, recovery->from_us, &took, &never)) {
            continue;
        }
        if (never) {
            recovery->state = LQ_RECOVERY_NEVER;
            return;
        }
        used = true;
        size_t ack = lq_sort_lower(tries->acks, tries->ack_count, log, recovery->from_us);
        until = tries->soonest[ack] > until ? tries->soonest[ack] : until;
        recovery->recovery_us = took > recovery->recovery_us ? took : recovery->recovery_us;
    }
    if (!used) {
        bool tried = tries->any_attempt && tries->last_attempt_us >= recovery->from_us;
        recovery->state = tried ? LQ_RECOVERY_NEVER : LQ_RECOVERY_UNMEASURED;
        return;
    }
    recovery->state = overlaps(tries, history->faults.count, recovery->from_us, until) ? LQ_RECOVERY_OVERLAPPED
                                                                                       : LQ_RECOVERY_MEASURED;
}

static void judge_fault(struct lq_check *check, uint32_t at, const struct lq_fault_recovery *recovery)
{
    const struct lq_history *history = check->history;
    const char *name = lq_check_names_at(&history->faults, at);
    const char *kind = lq_check_names_at(&history->fault_kinds, history->fault_times[at].kind);
    uint64_t most = check->options->recovery_max_us;
    if (recovery->state != LQ_RECOVERY_UNMEASURED) {
        lq_check_looked(check, LQ_CHECKER_recovery, 1);
    }
    if (recovery->state == LQ_RECOVERY_NEVER) {
        lq_check_found(check, LQ_CHECKER_recovery, "fault %s (%s): nothing was acknowledged again", name, kind);
    } else if (recovery->state == LQ_RECOVERY_MEASURED && most != 0 && recovery->recovery_us > most) {
        lq_check_found(check, LQ_CHECKER_recovery, "fault %s (%s): %" PRIu64 " ms until an acknowledgement", name, kind,
                       recovery->recovery_us / 1000);
    }
}

/* The counts, the median and the longest. @times has room for one number a fault. */
static void summarise(struct lq_check *check, uint64_t *times)
{
    struct lq_check_report *report = check->report;
    uint32_t *counts[] = {&report->recovery_measured, &report->recovery_overlapped, &report->recovery_unmeasured,
                          &report->recovery_never};
    for (uint32_t i = 0; i < report->fault_count; i++) {
        const struct lq_fault_recovery *recovery = &report->faults[i];
        if (recovery->state == LQ_RECOVERY_MEASURED) {
            times[report->recovery_measured] = recovery->recovery_us;
        }
        (*counts[recovery->state])++;
    }
    if (report->recovery_measured == 0) {
        return;
    }
    qsort(times, report->recovery_measured, sizeof *times, compare_times);
    report->recovery_p50_us = times[(report->recovery_measured - 1) / 2];
    report->recovery_max_us = times[report->recovery_measured - 1];
    uint64_t most = check->options->recovery_median_us;
    if (most != 0 && report->recovery_p50_us > most) {
        lq_check_found(check, LQ_CHECKER_recovery,
                       "half of the faults took more than %" PRIu64 " ms: the median is %" PRIu64 " ms", most / 1000,
                       report->recovery_p50_us / 1000);
    }
}

lightq_status lq_check_recovery(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    uint32_t faults = history->faults.count;
    struct tries tries = {.ack_count = 0};
    tries.acks = lq_check_zeroed(history->message_count, sizeof *tries.acks);
    tries.soonest = lq_check_zeroed(history->message_count, sizeof *tries.soonest);
    tries.targeted = lq_check_zeroed(history->message_count, sizeof *tries.targeted);
    tries.begins = lq_check_zeroed(faults, sizeof *tries.begins);
    tries.heals = lq_check_zeroed(faults, sizeof *tries.heals);
    check->report->faults = lq_check_zeroed(faults, sizeof *check->report->faults);
    lightq_status status = LIGHTQ_ENOMEM;
    if (tries.acks != NULL && tries.soonest != NULL && tries.targeted != NULL && tries.begins != NULL &&
        tries.heals != NULL && check->report->faults != NULL) {
        status = faults == 0 ? LIGHTQ_OK : collect(history, &tries);
    }
    if (status == LIGHTQ_OK) {
        check->report->fault_count = faults;
        collect_faults(history, &tries);
        for (uint32_t i = 0; i < faults; i++) {
            measure_fault(check, &tries, &history->fault_times[i], &check->report->faults[i]);
            judge_fault(check, i, &check->report->faults[i]);
        }
        summarise(check, tries.begins); /* which nobody needs any more */
    }
    free(tries.acks);
    free(tries.soonest);
    free(tries.targeted);
    free(tries.begins);
    free(tries.heals);
    return status;
}
