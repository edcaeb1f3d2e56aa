/* tests/unit/chaos/check_fixture.c - see check_fixture.h. */
#include "check_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/check/history_text.h"

void load_text(struct lq_history *history, const char *text)
{
    static const char head[] = "lightq-history 1\n";
    size_t size = strlen(text) + sizeof head;
    char *whole = malloc(size);
    assert_non_null(whole);
    snprintf(whole, size, "%s%s", head, text);
    FILE *file = fmemopen(whole, strlen(whole), "r");
    assert_non_null(file);
    struct lq_err err = {.text = ""};
    lightq_status status = lq_history_load(history, file, "text", &err);
    fclose(file);
    free(whole);
    if (status != LIGHTQ_OK) {
        fail_msg("%s", err.text);
    }
}

unsigned violated(const struct lq_check_report *report)
{
    unsigned set = 0;
    for (unsigned i = 0; i < LQ_CHECKER_COUNT; i++) {
        set |= report->results[i].violations != 0 ? 1u << i : 0;
    }
    return set;
}

static void print_set(const char *what, unsigned set)
{
    print_error("%s:", what);
    for (unsigned i = 0; i < LQ_CHECKER_COUNT; i++) {
        if ((set & 1u << i) != 0) {
            print_error(" %s", lq_checker_name((enum lq_checker)i));
        }
    }
    print_error("\n");
}

void judge_history(const struct lq_history *history, const struct lq_check_options *options, unsigned expected,
                   struct lq_check_report *report, const char *what)
{
    static const struct lq_check_options none = {.examples = 3};
    struct lq_check_report *own = malloc(sizeof *own);
    struct lq_check_report *used = report != NULL ? report : own;
    assert_non_null(own);
    assert_int_equal(lq_check_run(history, options != NULL ? options : &none, used), LIGHTQ_OK);
    unsigned found = violated(used);
    if (found != expected) {
        print_error("%s\n", what);
        print_set("expected", expected);
        print_set("found", found);
        for (unsigned i = 0; i < LQ_CHECKER_COUNT; i++) {
            for (uint32_t k = 0; k < used->results[i].example_count; k++) {
                print_error("  %s: %s\n", lq_checker_name((enum lq_checker)i), used->results[i].examples[k]);
            }
        }
    }
    if (report == NULL) {
        lq_check_report_deinit(own);
    }
    free(own);
    assert_int_equal(found, expected);
}

void judge_text(const char *text, const struct lq_check_options *options, unsigned expected,
                struct lq_check_report *report)
{
    struct lq_history history;
    lq_history_init(&history);
    load_text(&history, text);
    judge_history(&history, options, expected, report, text);
    lq_history_deinit(&history);
}
