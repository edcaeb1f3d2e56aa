/* chaos/check/check_readers.c - whether readers go forward without gaps (skip, backward), and which offsets they have
 * passed. Called by check.c. */
#include <stdlib.h>

#include "chaos/check/checkers.h"

/* Where one reader is in one log. */
struct cursor {
    uint64_t first, next; /* of the run that it is in */
    bool running;         /* next is the offset that must come now */
};

static lightq_status add_interval(struct lq_check *check, uint32_t log, uint64_t first, uint64_t next)
{
    if (first >= next) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_array_reserve((void **)&check->intervals, &check->interval_capacity,
                                            check->interval_count, sizeof *check->intervals);
    if (status == LIGHTQ_OK) {
        check->intervals[check->interval_count++] = (struct lq_interval){.first = first, .next = next, .log = log};
    }
    return status;
}

static lightq_status end_run(struct lq_check *check, struct cursor *cursor, uint32_t log)
{
    if (!cursor->running) {
        return LIGHTQ_OK;
    }
    cursor->running = false;
    return add_interval(check, log, cursor->first, cursor->next);
}

static void start_run(struct cursor *cursor, uint64_t offset)
{
    *cursor = (struct cursor){.first = offset, .next = offset, .running = true};
}

/* Whether a reader that expects @next may get @offset because what lies between was trimmed. */
static bool was_trimmed(const struct lq_check *check, uint32_t log, uint64_t offset)
{
    return offset <= check->logs[log].trim;
}

static lightq_status on_read(struct lq_check *check, const struct lq_pair *track, struct cursor *cursor,
                             uint64_t offset)
{
    lightq_status status = LIGHTQ_OK;
    uint32_t log = track->second;
    if (cursor->running && offset != cursor->next) {
        const char *reader = lq_check_names_at(&check->history->readers, track->first);
        unsigned long long expected = cursor->next, got = offset;
        if (offset < cursor->next) {
            lq_check_found(check, LQ_CHECKER_backward, "reader %s in %s: offset %llu where %llu was next", reader,
                           lq_check_log_name(check, log), got, expected);
            status = end_run(check, cursor, log);
        } else if (was_trimmed(check, log, offset)) {
            status = end_run(check, cursor, log);
        } else {
            lq_check_found(check, LQ_CHECKER_skip, "reader %s in %s: offset %llu where %llu was next", reader,
                           lq_check_log_name(check, log), got, expected);
        }
    }
    if (!cursor->running) {
        start_run(cursor, offset);
    }
    cursor->next = offset + 1; /* over what was skipped, too: it was passed */
    lq_check_looked(check, LQ_CHECKER_skip, 1);
    lq_check_looked(check, LQ_CHECKER_backward, 1);
    return status;
}

static lightq_status walk_reads(struct lq_check *check, struct cursor *cursors)
{
    const struct lq_history *history = check->history;
    lightq_status status = LIGHTQ_OK;
    for (uint32_t i = 0; i < history->read_count && status == LIGHTQ_OK; i++) {
        const struct lq_read_event *read = &history->reads[i];
        const struct lq_pair *track = &history->tracks.at[read->track];
        struct cursor *cursor = &cursors[read->track];
        if (history->reader_kinds[track->first].kind == LQ_READER_PIPELINE) {
            continue;
        }
        if (read->message != LQ_HISTORY_NONE) {
            status = on_read(check, track, cursor, read->offset);
            continue;
        }
        status = end_run(check, cursor, track->second);
        if (read->offset != LQ_HISTORY_UNKNOWN) {
            start_run(cursor, read->offset);
        }
    }
    for (uint32_t i = 0; i < history->tracks.count && status == LIGHTQ_OK; i++) {
        status = end_run(check, &cursors[i], history->tracks.at[i].second);
    }
    for (uint32_t i = 0; i < history->drained_count && status == LIGHTQ_OK; i++) {
        const struct lq_drained *drained = &history->drained[i];
        status = add_interval(check, drained->log, drained->from, drained->end);
    }
    return status;
}

/* Sorts the intervals and joins those that touch. */
static lightq_status join_intervals(struct lq_check *check)
{
    struct lq_sort_item *order = lq_check_zeroed(check->interval_count, sizeof *order);
    struct lq_interval *joined = lq_check_zeroed(check->interval_count, sizeof *joined);
    lightq_status status = order == NULL || joined == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    for (uint32_t i = 0; i < check->interval_count && status == LIGHTQ_OK; i++) {
        order[i] =
            (struct lq_sort_item){.major = check->intervals[i].log, .minor = check->intervals[i].first, .value = i};
    }
    if (status == LIGHTQ_OK) {
        status = lq_sort(order, check->interval_count);
    }
    if (status != LIGHTQ_OK) {
        free(order);
        free(joined);
        return status;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < check->interval_count; i++) {
        const struct lq_interval *next = &check->intervals[order[i].value];
        struct lq_interval *last = count == 0 ? NULL : &joined[count - 1];
        if (last == NULL || last->log != next->log || last->next < next->first) {
            joined[count++] = *next;
        } else if (next->next > last->next) {
            last->next = next->next;
        }
    }
    free(order);
    free(check->intervals);
    check->intervals = joined;
    check->interval_count = count;
    return LIGHTQ_OK;
}

lightq_status lq_check_readers(struct lq_check *check)
{
    struct cursor *cursors = lq_check_zeroed(check->history->tracks.count, sizeof *cursors);
    if (cursors == NULL) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = walk_reads(check, cursors);
    free(cursors);
    return status == LIGHTQ_OK ? join_intervals(check) : status;
}
