/* chaos/check/report.c - prints a report. See report.h. */
#include "chaos/check/report.h"

#include <inttypes.h>

#include <jansson.h>

static const char *const state_names[] = {
    [LQ_RECOVERY_MEASURED] = "measured",
    [LQ_RECOVERY_OVERLAPPED] = "overlapped",
    [LQ_RECOVERY_UNMEASURED] = "unmeasured",
    [LQ_RECOVERY_NEVER] = "never",
};

static void print_checkers(const struct lq_check_report *report, FILE *file)
{
    fprintf(file, "%-11s %12s %12s\n", "checker", "looked at", "violations");
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        const struct lq_checker_result *result = &report->results[i];
        if (result->checked == 0 && result->violations == 0) {
            fprintf(file, "%-11s %12s %12s\n", lq_checker_name((enum lq_checker)i), "nothing", "-");
        } else {
            fprintf(file, "%-11s %12" PRIu64 " %12" PRIu64 "\n", lq_checker_name((enum lq_checker)i), result->checked,
                    result->violations);
        }
    }
}

static void print_examples(const struct lq_check_report *report, FILE *file)
{
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        const struct lq_checker_result *result = &report->results[i];
        if (result->violations == 0) {
            continue;
        }
        fprintf(file, "%s: %s\n", lq_checker_name((enum lq_checker)i), lq_checker_sentence((enum lq_checker)i));
        for (uint32_t k = 0; k < result->example_count; k++) {
            fprintf(file, "    %s\n", result->examples[k]);
        }
        if (result->violations > result->example_count) {
            fprintf(file, "    and %" PRIu64 " more\n", result->violations - result->example_count);
        }
    }
}

static void print_recovery(const struct lq_check_report *report, FILE *file)
{
    if (report->fault_count == 0) {
        return;
    }
    fprintf(file, "faults %" PRIu32 ": %" PRIu32 " measured", report->fault_count, report->recovery_measured);
    if (report->recovery_measured != 0) {
        fprintf(file, ", recovery p50 %" PRIu64 " ms, max %" PRIu64 " ms", report->recovery_p50_us / 1000,
                report->recovery_max_us / 1000);
    }
    fprintf(file, "; %" PRIu32 " overlapped, %" PRIu32 " not measured, %" PRIu32 " never recovered\n",
            report->recovery_overlapped, report->recovery_unmeasured, report->recovery_never);
}

void lq_report_print(const struct lq_check_report *report, FILE *file)
{
    print_checkers(report, file);
    print_examples(report, file);
    print_recovery(report, file);
    if (report->settled != 0) {
        fprintf(file, "settled %" PRIu64 ", delivered again %" PRIu64 ", of them after a confirmed ack %" PRIu64 "\n",
                report->settled, report->redelivered, report->redelivered_after_ack);
    }
    if (report->passed) {
        fprintf(file, "passed: ");
    } else {
        fprintf(file, "FAILED: %s: ", report->reason);
    }
    fprintf(file,
            "attempted %" PRIu64 ", acknowledged %" PRIu64 ", failed %" PRIu64 ", unknown %" PRIu64 ", read %" PRIu64
            ", trimmed %" PRIu64 ": lost %" PRIu64 ", doubled %" PRIu64 ", unexpected %" PRIu64 "\n",
            report->attempted, report->acknowledged, report->failed, report->unknown, report->messages, report->trimmed,
            report->results[LQ_CHECKER_lost].violations, report->results[LQ_CHECKER_doubled].violations,
            report->results[LQ_CHECKER_unexpected].violations);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *number_or_null(uint64_t value, bool known)
{
    return known ? number(value) : json_null();
}

static json_t *checkers_json(const struct lq_check_report *report)
{
    json_t *all = json_object();
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        const struct lq_checker_result *result = &report->results[i];
        json_t *examples = json_array();
        for (uint32_t k = 0; k < result->example_count; k++) {
            json_array_append_new(examples, json_string(result->examples[k]));
        }
        json_object_set_new(all, lq_checker_name((enum lq_checker)i),
                            json_pack("{s:o, s:o, s:o}", "checked", number(result->checked), "violations",
                                      number(result->violations), "examples", examples));
    }
    return all;
}

static json_t *recovery_json(const struct lq_check_report *report, const struct lq_history *history)
{
    bool measured = report->recovery_measured != 0;
    json_t *faults = json_array();
    for (uint32_t i = 0; i < report->fault_count; i++) {
        const struct lq_fault *fault = &history->fault_times[i];
        const struct lq_fault_recovery *recovery = &report->faults[i];
        bool known = recovery->state == LQ_RECOVERY_MEASURED || recovery->state == LQ_RECOVERY_OVERLAPPED;
        json_array_append_new(
            faults,
            json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "fault", lq_check_names_at(&history->faults, i), "kind",
                      lq_check_names_at(&history->fault_kinds, fault->kind), "scope",
                      fault->scope == LQ_FAULT_MAJORITY ? "majority" : "minority", "begin_us", number(fault->begin_us),
                      "heal_us", number_or_null(fault->heal_us, fault->heal_us != LQ_HISTORY_UNKNOWN), "recovery_us",
                      number_or_null(recovery->recovery_us, known), "state", state_names[recovery->state]));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "measured", number(report->recovery_measured), "overlapped",
                     number(report->recovery_overlapped), "unmeasured", number(report->recovery_unmeasured), "never",
                     number(report->recovery_never), "p50_us", number_or_null(report->recovery_p50_us, measured),
                     "max_us", number_or_null(report->recovery_max_us, measured), "faults", faults);
}

lightq_status lq_report_print_json(const struct lq_check_report *report, const struct lq_history *history, FILE *file)
{
    json_t *root = json_pack(
        "{s:b, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "passed", (int)report->passed,
        "reason", report->reason, "attempted", number(report->attempted), "acknowledged", number(report->acknowledged),
        "failed", number(report->failed), "unknown", number(report->unknown), "reads", number(report->reads),
        "messages", number(report->messages), "trimmed", number(report->trimmed), "settled", number(report->settled),
        "redelivered", number(report->redelivered), "redelivered_after_ack", number(report->redelivered_after_ack),
        "checkers", checkers_json(report), "recovery", recovery_json(report, history));
    if (root == NULL) {
        return LIGHTQ_ENOMEM;
    }
    int failed = json_dumpf(root, file, JSON_COMPACT);
    json_decref(root);
    return failed != 0 || fputc('\n', file) == EOF || fflush(file) != 0 ? LIGHTQ_EIO : LIGHTQ_OK;
}
