/* chaos/check/check_messages.c - what became of each message: lost, unproven, unseen, unexpected, aborted. Called by
 * check.c after the readers' intervals are known. */
#include <inttypes.h>

#include "chaos/check/checkers.h"

/* Marks which messages were read, by a final reader, and with another payload than attempted. */
static bool mark_seen(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    bool any_final = false;
    for (uint32_t i = 0; i < history->readers.count; i++) {
        any_final = any_final || history->reader_kinds[i].kind == LQ_READER_FINAL;
    }
    for (uint32_t i = 0; i < history->read_count; i++) {
        const struct lq_read_event *read = &history->reads[i];
        if (read->message == LQ_HISTORY_NONE) {
            continue;
        }
        const struct lq_message *message = &history->messages[read->message];
        uint32_t reader = history->tracks.at[read->track].first;
        uint8_t bits = LQ_SEEN_READ;
        if (history->reader_kinds[reader].kind == LQ_READER_FINAL) {
            bits |= LQ_SEEN_FINAL;
        }
        if (message->has_crc && message->crc != read->crc) {
            bits |= LQ_SEEN_WRONG;
        }
        check->seen[read->message] |= bits;
        check->report->reads++;
    }
    return any_final;
}

/* The interval of @log that has @offset, or NULL. */
static const struct lq_interval *find_interval(const struct lq_check *check, uint32_t log, uint64_t offset)
{
    uint32_t low = 0, high = check->interval_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct lq_interval *interval = &check->intervals[middle];
        if (interval->log < log || (interval->log == log && interval->next <= offset)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == check->interval_count || check->intervals[low].log != log || check->intervals[low].first > offset) {
        return NULL;
    }
    return &check->intervals[low];
}

/* Whether a message that nobody read would have been read if it were where it was acknowledged to be. */
static bool was_looked_for(const struct lq_check *check, const struct lq_message *message)
{
    const struct lq_check_log *log = &check->logs[message->log];
    if (check->options->reads_are_complete) {
        return true;
    }
    if (message->offset == LQ_HISTORY_UNKNOWN) { /* anywhere: the whole log must have been read */
        const struct lq_interval *interval = find_interval(check, message->log, log->trim);
        bool empty = log->end != LQ_HISTORY_UNKNOWN && log->end <= log->trim;
        return log->end != LQ_HISTORY_UNKNOWN && log->end_time_us >= message->completed_us &&
               (empty || (interval != NULL && interval->next >= log->end));
    }
    if (log->end != LQ_HISTORY_UNKNOWN && log->end <= message->offset && log->end_time_us >= message->completed_us) {
        return true; /* the log ends before it */
    }
    return find_interval(check, message->log, message->offset) != NULL;
}

/* Whether retention may have dropped it. */
static bool may_be_trimmed(const struct lq_check *check, const struct lq_message *message)
{
    uint64_t trim = check->logs[message->log].trim;
    return message->offset == LQ_HISTORY_UNKNOWN ? trim > 0 : message->offset < trim;
}

static void found_missing(struct lq_check *check, enum lq_checker checker, uint32_t at, const char *what)
{
    char text[LQ_MESSAGE_TEXT_BYTES];
    const struct lq_message *message = &check->history->messages[at];
    const char *log = lq_check_log_name(check, message->log);
    lq_check_message_text(check, at, text);
    if (message->offset == LQ_HISTORY_UNKNOWN) {
        lq_check_found(check, checker, "%s acknowledged in %s %s", text, log, what);
    } else {
        lq_check_found(check, checker, "%s acknowledged at %s offset %" PRIu64 " %s", text, log, message->offset, what);
    }
}

static void check_acknowledged(struct lq_check *check, uint32_t at, bool any_final)
{
    const struct lq_message *message = &check->history->messages[at];
    bool trimmed = may_be_trimmed(check, message);
    uint8_t seen = check->seen[at];
    check->report->acknowledged++;
    if (any_final && !trimmed) {
        lq_check_looked(check, LQ_CHECKER_unseen, 1);
        if ((seen & LQ_SEEN_FINAL) == 0) {
            found_missing(check, LQ_CHECKER_unseen, at, "is not among the final reads");
        }
    }
    if ((seen & LQ_SEEN_READ) != 0) {
        lq_check_looked(check, LQ_CHECKER_lost, 1);
        lq_check_looked(check, LQ_CHECKER_unproven, 1);
    } else if (trimmed) {
        check->report->trimmed++;
    } else if (was_looked_for(check, message)) {
        lq_check_looked(check, LQ_CHECKER_lost, 1);
        lq_check_looked(check, LQ_CHECKER_unproven, 1);
        found_missing(check, LQ_CHECKER_lost, at, "and never read");
    } else {
        lq_check_looked(check, LQ_CHECKER_unproven, 1);
        found_missing(check, LQ_CHECKER_unproven, at, "and not looked for");
    }
}

static void check_read(struct lq_check *check, uint32_t at)
{
    const struct lq_message *message = &check->history->messages[at];
    bool wrong = (check->seen[at] & LQ_SEEN_WRONG) != 0;
    char text[LQ_MESSAGE_TEXT_BYTES];
    check->report->messages++;
    if (check->history->attempt_count != 0) {
        lq_check_looked(check, LQ_CHECKER_unexpected, 1);
        lq_check_looked(check, LQ_CHECKER_aborted, 1);
        if (!message->attempted || wrong) {
            lq_check_found(check, LQ_CHECKER_unexpected, "%s was read %s", lq_check_message_text(check, at, text),
                           wrong ? "with another payload than attempted" : "and never attempted");
        }
    }
    if (message->outcome == LQ_OUTCOME_FAILED) {
        lq_check_found(check, LQ_CHECKER_aborted, "%s was read, although its attempt failed",
                       lq_check_message_text(check, at, text));
    }
}

lightq_status lq_check_messages(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct lq_check_report *report = check->report;
    bool any_final = mark_seen(check);
    for (uint32_t i = 0; i < history->message_count; i++) {
        const struct lq_message *message = &history->messages[i];
        if (message->outcome == LQ_OUTCOME_OK) {
            check_acknowledged(check, i, any_final);
        } else if (message->outcome == LQ_OUTCOME_FAILED) {
            report->failed++;
        } else if (message->attempted) {
            report->unknown++;
        }
        report->attempted += message->attempted ? 1 : 0;
        if ((check->seen[i] & LQ_SEEN_READ) != 0) {
            check_read(check, i);
        }
    }
    return LIGHTQ_OK;
}
