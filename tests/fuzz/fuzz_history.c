/* tests/fuzz/fuzz_history.c - any bytes as a history, receipts or a consumer's log (chosen by the first byte). A
 * history is given its first line, so that the fuzzer need not find it. Must never crash, read outside, or pass the
 * memory limit that it runs with. What loads is judged without complaint; a history that loads is written, loads again,
 * and is judged alike. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/check/check.h"
#include "chaos/check/history_text.h"
#include "chaos/check/receipts.h"

enum { KINDS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *open_bytes(const void *bytes, size_t size)
{
    FILE *file = size == 0 ? fopen("/dev/null", "re") : fmemopen((void *)(uintptr_t)bytes, size, "r");
    assert(file != NULL);
    return file;
}

static lightq_status load_history(struct lq_history *history, const uint8_t *data, size_t size)
{
    static const char head[] = "lightq-history 1\n";
    struct lq_err err;
    char *text = malloc(sizeof head - 1 + size);
    assert(text != NULL);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + sizeof head - 1, data, size);
    FILE *file = open_bytes(text, sizeof head - 1 + size);
    lightq_status status = lq_history_load(history, file, "input", &err);
    assert(status == LIGHTQ_OK || (status == LIGHTQ_EINVAL && strncmp(err.text, "input:", 6) == 0));
    fclose(file);
    free(text);
    return status;
}

static lightq_status load_receipts(struct lq_history *history, const uint8_t *data, size_t size, unsigned kind)
{
    struct lq_receipts receipts = {.clusters = {.count = 0}};
    struct lq_err err;
    FILE *file = open_bytes(data, size);
    lightq_status status;
    if (kind == 1) {
        status = lq_receipts_load_acked(&receipts, history, file, "input", &err);
    } else {
        enum lq_reader_kind reader = kind == 2 ? LQ_READER_PIPELINE : LQ_READER_SUBSCRIBER;
        status = lq_receipts_load_log(history, reader, file, "input", &err);
    }
    assert(status == LIGHTQ_OK || (status == LIGHTQ_EINVAL && strncmp(err.text, "input:", 6) == 0));
    fclose(file);
    lq_receipts_deinit(&receipts);
    return status;
}

static void judge(const struct lq_history *history, struct lq_check_report *report)
{
    struct lq_check_options options = {.examples = 2, .recovery_max_us = 1, .recovery_median_us = 1};
    assert(lq_check_run(history, &options, report) == LIGHTQ_OK);
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        assert(report->results[i].violations == 0 || report->results[i].example_count > 0);
    }
}

static void judge_again(const struct lq_history *history, const struct lq_check_report *report)
{
    static struct lq_check_report again;
    struct lq_history copy;
    struct lq_err err;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert(file != NULL && lq_history_save(history, file, &err) == LIGHTQ_OK);
    fclose(file);
    lq_history_init(&copy);
    file = open_bytes(text, size);
    assert(lq_history_load(&copy, file, "saved", &err) == LIGHTQ_OK);
    fclose(file);
    free(text);
    judge(&copy, &again);
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        assert(report->results[i].checked == again.results[i].checked);
        assert((report->results[i].violations == 0) == (again.results[i].violations == 0));
    }
    lq_check_report_deinit(&again);
    lq_history_deinit(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lq_check_report report; /* large: not on the stack */
    struct lq_history history;
    if (size == 0) {
        return 0;
    }
    unsigned kind = data[0] % KINDS;
    lq_history_init(&history);
    lightq_status status =
        kind == 0 ? load_history(&history, data + 1, size - 1) : load_receipts(&history, data + 1, size - 1, kind);
    judge(&history, &report); /* also what came before a bad line */
    if (status == LIGHTQ_OK && kind == 0) {
        judge_again(&history, &report);
    }
    lq_check_report_deinit(&report);
    lq_history_deinit(&history);
    return 0;
}
