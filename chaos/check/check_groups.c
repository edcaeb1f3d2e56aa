/* chaos/check/check_groups.c - pipeline groups: nothing that a group is done with was missed by it, and how often
 * messages came again. Called by check.c after the places are known. */
#include <inttypes.h>
#include <stdlib.h>

#include "chaos/check/checkers.h"

/* What a group's readers got or confirmed, sorted by group in log (a place in scopes) and offset. */
struct deliveries {
    struct lq_pairs scopes;
    struct lq_sort_item *reads, *acks; /* value: place in the history's reads or settles */
    size_t read_count, ack_count;
};

/* The scope of a track's group, or LQ_INDEX_NONE when its reader has none. */
static lightq_status scope_of(const struct lq_history *history, struct deliveries *deliveries, uint32_t track,
                              uint32_t *scope)
{
    const struct lq_pair *pair = &history->tracks.at[track];
    const struct lq_reader_kind_of *reader = &history->reader_kinds[pair->first];
    *scope = LQ_INDEX_NONE;
    if (reader->kind != LQ_READER_PIPELINE) {
        return LIGHTQ_OK;
    }
    return lq_pairs_put(&deliveries->scopes, reader->group, pair->second, scope);
}

static lightq_status collect_reads(const struct lq_history *history, struct deliveries *deliveries)
{
    lightq_status status = LIGHTQ_OK;
    for (uint32_t i = 0; i < history->read_count && status == LIGHTQ_OK; i++) {
        const struct lq_read_event *read = &history->reads[i];
        uint32_t scope;
        status = scope_of(history, deliveries, read->track, &scope);
        if (status == LIGHTQ_OK && scope != LQ_INDEX_NONE && read->message != LQ_HISTORY_NONE) {
            deliveries->reads[deliveries->read_count++] =
                (struct lq_sort_item){.major = scope, .minor = read->offset, .value = i};
        }
    }
    return status == LIGHTQ_OK ? lq_sort(deliveries->reads, deliveries->read_count) : status;
}

static lightq_status collect_acks(const struct lq_history *history, struct deliveries *deliveries)
{
    lightq_status status = LIGHTQ_OK;
    for (uint32_t i = 0; i < history->settle_count && status == LIGHTQ_OK; i++) {
        const struct lq_settle *settle = &history->settles[i];
        uint32_t scope;
        status = scope_of(history, deliveries, settle->track, &scope);
        if (status == LIGHTQ_OK && scope != LQ_INDEX_NONE && settle->verdict == LQ_VERDICT_ACK &&
            settle->outcome == LQ_OUTCOME_OK) {
            deliveries->acks[deliveries->ack_count++] =
                (struct lq_sort_item){.major = scope, .minor = settle->offset, .value = i};
        }
    }
    return status == LIGHTQ_OK ? lq_sort(deliveries->acks, deliveries->ack_count) : status;
}

static int compare(const struct lq_sort_item *a, const struct lq_sort_item *b)
{
    if (a->major != b->major) {
        return a->major < b->major ? -1 : 1;
    }
    return a->minor == b->minor ? 0 : a->minor < b->minor ? -1 : 1;
}

/* Counts what came again, and what came again later than the first confirmed ack. */
static void count_redelivered(struct lq_check *check, const struct deliveries *deliveries)
{
    const struct lq_history *history = check->history;
    struct lq_check_report *report = check->report;
    size_t ack = 0;
    for (size_t i = 0; i < deliveries->read_count; i++) {
        const struct lq_sort_item *item = &deliveries->reads[i];
        if (i > 0 && compare(item, &deliveries->reads[i - 1]) == 0) {
            report->redelivered++;
        }
        while (ack < deliveries->ack_count && compare(&deliveries->acks[ack], item) < 0) {
            ack++;
        }
        if (ack < deliveries->ack_count && compare(&deliveries->acks[ack], item) == 0 &&
            history->reads[item->value].time_us > history->settles[deliveries->acks[ack].value].time_us) {
            report->redelivered_after_ack++;
        }
    }
    report->settled = deliveries->ack_count;
}

/* The first place of @log whose offset is not below @offset. */
static uint32_t find_place(const struct lq_check *check, uint32_t log, uint64_t offset)
{
    uint32_t low = 0, high = check->place_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct lq_place *place = &check->places[middle];
        if (place->log < log || (place->log == log && place->offset < offset)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Everything known to lie in what @drained names, and not trimmed, must be among the group's deliveries. */
static void check_drained(struct lq_check *check, const struct deliveries *deliveries, uint32_t scope,
                          const struct lq_drained *drained)
{
    uint64_t trim = check->logs[drained->log].trim;
    uint64_t from = drained->from > trim ? drained->from : trim;
    size_t read = lq_sort_lower(deliveries->reads, deliveries->read_count, scope, from);
    for (uint32_t at = find_place(check, drained->log, from); at < check->place_count; at++) {
        const struct lq_place *place = &check->places[at];
        if (place->log != drained->log || place->offset >= drained->end) {
            break;
        }
        struct lq_sort_item wanted = {.major = scope, .minor = place->offset};
        while (read < deliveries->read_count && compare(&deliveries->reads[read], &wanted) < 0) {
            read++;
        }
        lq_check_looked(check, LQ_CHECKER_missed, 1);
        if (read == deliveries->read_count || compare(&deliveries->reads[read], &wanted) != 0) {
            char text[LQ_MESSAGE_TEXT_BYTES];
            lq_check_found(
                check, LQ_CHECKER_missed, "group %s is done with %s offset %" PRIu64 " (%s) but never got it",
                lq_check_names_at(&check->history->groups, drained->group), lq_check_log_name(check, drained->log),
                place->offset, lq_check_message_text(check, place->message, text));
        }
    }
}

/* Of each group in each log, what was told last. */
static lightq_status check_all_drained(struct lq_check *check, struct deliveries *deliveries)
{
    const struct lq_history *history = check->history;
    for (uint32_t i = 0; i < history->drained_count; i++) {
        uint32_t scope;
        lightq_status status =
            lq_pairs_put(&deliveries->scopes, history->drained[i].group, history->drained[i].log, &scope);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    const struct lq_drained **last = lq_check_zeroed(deliveries->scopes.count, sizeof(void *));
    if (last == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < history->drained_count; i++) {
        const struct lq_drained *drained = &history->drained[i];
        uint32_t scope = lq_pairs_find(&deliveries->scopes, drained->group, drained->log);
        if (last[scope] == NULL || drained->time_us >= last[scope]->time_us) {
            last[scope] = drained;
        }
    }
    for (uint32_t i = 0; i < deliveries->scopes.count; i++) {
        if (last[i] != NULL) {
            check_drained(check, deliveries, i, last[i]);
        }
    }
    free(last);
    return LIGHTQ_OK;
}

lightq_status lq_check_groups(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct deliveries deliveries = {.read_count = 0};
    deliveries.reads = lq_check_zeroed(history->read_count, sizeof *deliveries.reads);
    deliveries.acks = lq_check_zeroed(history->settle_count, sizeof *deliveries.acks);
    lightq_status status = deliveries.reads == NULL || deliveries.acks == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    if (status == LIGHTQ_OK) {
        status = collect_reads(history, &deliveries);
    }
    if (status == LIGHTQ_OK) {
        status = collect_acks(history, &deliveries);
    }
    if (status == LIGHTQ_OK) {
        count_redelivered(check, &deliveries);
        status = check_all_drained(check, &deliveries);
    }
    free(deliveries.reads);
    free(deliveries.acks);
    lq_pairs_deinit(&deliveries.scopes);
    return status;
}
