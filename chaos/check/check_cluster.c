/* chaos/check/check_cluster.c - replicas with the same content, one leader for each term, terms that never go back.
 * Called by check.c. */
#include <inttypes.h>
#include <stdlib.h>

#include "chaos/check/checkers.h"

typedef unsigned long long ull;

static void found_digest(struct lq_check *check, const struct lq_digest *first, const struct lq_digest *second,
                         const char *what)
{
    const struct lq_history *history = check->history;
    lq_check_found(
        check, LQ_CHECKER_replicas, "%s: node %s has digest %016llx below %llu, node %s has %016llx below %llu%s",
        lq_check_log_name(check, first->log), lq_check_names_at(&history->nodes, first->node), (ull)first->digest,
        (ull)first->end, lq_check_names_at(&history->nodes, second->node), (ull)second->digest, (ull)second->end, what);
}

/* Digests at the same end are equal, whenever they were taken. */
static void check_equal_ends(struct lq_check *check, const struct lq_sort_item *items, uint32_t count)
{
    const struct lq_digest *digests = check->history->digests;
    const struct lq_digest *first = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct lq_digest *digest = &digests[items[i].value];
        if (first == NULL || first->log != digest->log || first->end != digest->end) {
            first = digest;
            continue;
        }
        lq_check_looked(check, LQ_CHECKER_replicas, 1);
        if (first->digest != digest->digest) {
            found_digest(check, first, digest, "");
        }
    }
}

/* When all is quiet the replicas of a log also end at the same offset. @items are sorted by log and end. */
static void check_quiet_ends(struct lq_check *check, const struct lq_sort_item *items, uint32_t count)
{
    const struct lq_history *history = check->history;
    const struct lq_digest *first = NULL;
    for (uint32_t i = 0; i < count && history->quiet_us != LQ_HISTORY_UNKNOWN; i++) {
        const struct lq_digest *digest = &history->digests[items[i].value];
        if (digest->time_us < history->quiet_us) {
            continue;
        }
        if (first == NULL || first->log != digest->log) {
            first = digest;
            continue;
        }
        lq_check_looked(check, LQ_CHECKER_replicas, 1);
        if (first->end != digest->end) {
            found_digest(check, first, digest, ", though all is quiet");
        }
    }
}

static lightq_status check_replicas(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct lq_sort_item *items = lq_check_zeroed(history->digest_count, sizeof *items);
    if (items == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < history->digest_count; i++) {
        items[i] =
            (struct lq_sort_item){.major = history->digests[i].log, .minor = history->digests[i].end, .value = i};
    }
    lightq_status status = lq_sort(items, history->digest_count);
    if (status == LIGHTQ_OK) {
        check_equal_ends(check, items, history->digest_count);
        check_quiet_ends(check, items, history->digest_count);
    }
    free(items);
    return status;
}

static lightq_status check_leaders(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct lq_sort_item *items = lq_check_zeroed(history->leadership_count, sizeof *items);
    if (items == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < history->leadership_count; i++) {
        const struct lq_leadership *seen = &history->leaderships[i];
        items[i] =
            (struct lq_sort_item){.major = history->views.at[seen->view].second, .minor = seen->term, .value = i};
    }
    lightq_status status = lq_sort(items, history->leadership_count);
    for (uint32_t i = 0, first = 0; i < history->leadership_count && status == LIGHTQ_OK; i++) {
        if (items[i].major != items[first].major || items[i].minor != items[first].minor) {
            first = i;
        }
        uint32_t one = history->leaderships[items[first].value].node, two = history->leaderships[items[i].value].node;
        lq_check_looked(check, LQ_CHECKER_leader, 1);
        if (one != two) {
            lq_check_found(check, LQ_CHECKER_leader, "%s term %llu: nodes %s and %s lead",
                           lq_check_log_name(check, items[i].major), (ull)items[i].minor,
                           lq_check_names_at(&history->nodes, one), lq_check_names_at(&history->nodes, two));
        }
    }
    free(items);
    return status;
}

/* One observer's terms of one log do not go back in time. */
static lightq_status check_observed_terms(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct lq_sort_item *items = lq_check_zeroed(history->leadership_count, sizeof *items);
    if (items == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < history->leadership_count; i++) {
        const struct lq_leadership *seen = &history->leaderships[i];
        items[i] = (struct lq_sort_item){.major = seen->view, .minor = seen->time_us, .value = i};
    }
    lightq_status status = lq_sort(items, history->leadership_count);
    for (uint32_t i = 1; i < history->leadership_count && status == LIGHTQ_OK; i++) {
        const struct lq_leadership *before = &history->leaderships[items[i - 1].value];
        const struct lq_leadership *after = &history->leaderships[items[i].value];
        if (before->view != after->view) {
            continue;
        }
        lq_check_looked(check, LQ_CHECKER_term, 1);
        if (after->term < before->term) {
            const struct lq_pair *view = &history->views.at[after->view];
            lq_check_found(check, LQ_CHECKER_term, "%s: node %s told of term %llu, and then of term %llu",
                           lq_check_log_name(check, view->second), lq_check_names_at(&history->nodes, view->first),
                           (ull)before->term, (ull)after->term);
        }
    }
    free(items);
    return status;
}

/* @invoked and @completed: the acknowledged messages of all logs, sorted by log and by that time. */
static void walk_acknowledged_terms(struct lq_check *check, const struct lq_sort_item *invoked,
                                    const struct lq_sort_item *completed, uint32_t count)
{
    const struct lq_message *messages = check->history->messages;
    uint32_t done = 0, highest = LQ_INDEX_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const struct lq_message *message = &messages[invoked[i].value];
        if (i > 0 && invoked[i - 1].major != invoked[i].major) {
            highest = LQ_INDEX_NONE;
        }
        for (; done < count && (completed[done].major < message->log ||
                                (completed[done].major == message->log && completed[done].minor < message->invoked_us));
             done++) {
            uint32_t at = completed[done].value;
            bool here = completed[done].major == message->log;
            if (here && (highest == LQ_INDEX_NONE || messages[at].term > messages[highest].term)) {
                highest = at;
            }
        }
        if (highest == LQ_INDEX_NONE) {
            continue;
        }
        lq_check_looked(check, LQ_CHECKER_term, 1);
        if (message->term < messages[highest].term) {
            char one[LQ_MESSAGE_TEXT_BYTES], two[LQ_MESSAGE_TEXT_BYTES];
            lq_check_found(check, LQ_CHECKER_term, "%s: %s acknowledged in term %llu, asked after %s in term %llu",
                           lq_check_log_name(check, message->log), lq_check_message_text(check, invoked[i].value, one),
                           (ull)message->term, lq_check_message_text(check, highest, two), (ull)messages[highest].term);
        }
    }
}

/* What was asked for after an acknowledgement is not acknowledged in a lower term: a leader that was superseded cannot
 * reach a majority any more. */
static lightq_status check_acknowledged_terms(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct lq_sort_item *invoked = lq_check_zeroed(history->message_count, sizeof *invoked);
    struct lq_sort_item *completed = lq_check_zeroed(history->message_count, sizeof *completed);
    uint32_t count = 0;
    lightq_status status = invoked == NULL || completed == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    for (uint32_t i = 0; i < history->message_count && status == LIGHTQ_OK; i++) {
        const struct lq_message *message = &history->messages[i];
        if (message->attempted && message->outcome == LQ_OUTCOME_OK && message->term != 0) {
            invoked[count] = (struct lq_sort_item){.major = message->log, .minor = message->invoked_us, .value = i};
            completed[count++] =
                (struct lq_sort_item){.major = message->log, .minor = message->completed_us, .value = i};
        }
    }
    if (status == LIGHTQ_OK) {
        status = lq_sort(invoked, count);
    }
    if (status == LIGHTQ_OK) {
        status = lq_sort(completed, count);
    }
    if (status == LIGHTQ_OK) {
        walk_acknowledged_terms(check, invoked, completed, count);
    }
    free(invoked);
    free(completed);
    return status;
}

lightq_status lq_check_cluster(struct lq_check *check)
{
    static lightq_status (*const steps[])(struct lq_check *) = {check_replicas, check_leaders, check_observed_terms,
                                                                check_acknowledged_terms};
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == LIGHTQ_OK; i++) {
        status = steps[i](check);
    }
    return status;
}
