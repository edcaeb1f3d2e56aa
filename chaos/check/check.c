/* chaos/check/check.c - runs all checkers over a history and gives the verdict. See check.h. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "chaos/check/checkers.h"

static const struct {
    const char *name, *sentence;
} checkers[] = {
#define X(name, sentence) {#name, sentence},
    LQ_CHECKERS(X)
#undef X
};

const char *lq_checker_name(enum lq_checker checker)
{
    assert(checker < LQ_CHECKER_COUNT);
    return checkers[checker].name;
}

const char *lq_checker_sentence(enum lq_checker checker)
{
    assert(checker < LQ_CHECKER_COUNT);
    return checkers[checker].sentence;
}

void lq_check_found(struct lq_check *check, enum lq_checker checker, const char *format, ...)
{
    struct lq_checker_result *result = &check->report->results[checker];
    result->violations++;
    if (result->example_count >= check->options->examples || result->example_count >= LQ_CHECK_EXAMPLES_MAX) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(result->examples[result->example_count++], LQ_CHECK_EXAMPLE_BYTES, format, args);
    va_end(args);
}

void lq_check_looked(struct lq_check *check, enum lq_checker checker, uint64_t count)
{
    check->report->results[checker].checked += count;
}

const char *lq_check_message_text(const struct lq_check *check, uint32_t message, char text[LQ_MESSAGE_TEXT_BYTES])
{
    const struct lq_message *known = &check->history->messages[message];
    snprintf(text, LQ_MESSAGE_TEXT_BYTES, "%s %llu", lq_check_names_at(&check->history->producers, known->producer),
             (unsigned long long)known->sequence);
    return text;
}

const char *lq_check_log_name(const struct lq_check *check, uint32_t log)
{
    return lq_check_names_at(&check->history->logs, log);
}

void *lq_check_zeroed(size_t count, size_t size)
{
    return calloc(count == 0 ? 1 : count, size);
}

/* The starts and ends of logs that were told. */
static void collect_borders(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    for (uint32_t i = 0; i < history->logs.count; i++) {
        check->logs[i].end = LQ_HISTORY_UNKNOWN;
    }
    for (uint32_t i = 0; i < history->trim_count; i++) {
        struct lq_check_log *log = &check->logs[history->trims[i].log];
        if (history->trims[i].offset > log->trim) {
            log->trim = history->trims[i].offset;
        }
    }
    for (uint32_t i = 0; i < history->end_count; i++) {
        struct lq_check_log *log = &check->logs[history->ends[i].log];
        if (log->end == LQ_HISTORY_UNKNOWN || history->ends[i].time_us >= log->end_time_us) {
            log->end = history->ends[i].offset;
            log->end_time_us = history->ends[i].time_us;
        }
    }
}

static lightq_status run_all(struct lq_check *check)
{
    static lightq_status (*const steps[])(struct lq_check *) = {lq_check_readers, lq_check_places,   lq_check_messages,
                                                                lq_check_groups,  lq_check_recovery, lq_check_cluster};
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == LIGHTQ_OK; i++) {
        status = steps[i](check);
    }
    return status;
}

static void judge(const struct lq_check_options *options, struct lq_check_report *report)
{
    report->reason = report->acknowledged == 0 ? "nothing was acknowledged, so nothing is proven" : NULL;
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        bool tolerated = i == LQ_CHECKER_unproven && options->allow_unproven;
        if (report->results[i].violations != 0 && !tolerated) {
            report->reason = "promises were broken";
            if (i == LQ_CHECKER_unproven && report->results[LQ_CHECKER_lost].violations == 0) {
                report->reason = "not everything that was acknowledged was looked for";
            }
            break;
        }
    }
    report->passed = report->reason == NULL;
}

lightq_status lq_check_run(const struct lq_history *history, const struct lq_check_options *options,
                           struct lq_check_report *report)
{
    struct lq_check check = {.history = history, .options = options, .report = report};
    *report = (struct lq_check_report){.reads = 0};
    check.logs = lq_check_zeroed(history->logs.count, sizeof *check.logs);
    check.seen = lq_check_zeroed(history->message_count, sizeof *check.seen);
    lightq_status status = check.logs == NULL || check.seen == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    if (status == LIGHTQ_OK) {
        collect_borders(&check);
        status = run_all(&check);
    }
    free(check.logs);
    free(check.seen);
    free(check.intervals);
    free(check.places);
    if (status != LIGHTQ_OK) {
        lq_check_report_deinit(report);
        return status;
    }
    judge(options, report);
    return LIGHTQ_OK;
}

void lq_check_report_deinit(struct lq_check_report *report)
{
    free(report->faults);
    report->faults = NULL;
    report->fault_count = 0;
}
