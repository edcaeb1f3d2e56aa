/* A report as text and as JSON says the same as the struct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "check_fixture.h"

#include "chaos/check/report.h"

#define GOOD                                                                                        \
    "reader r subscriber\nattempt 1000 p 0 t/0 a0\nok 2000 p 0 t/0 0 1\nattempt 11000 p 1 t/0 a1\n" \
    "ok 14500 p 1 t/0 1 1\nread 20000 r t/0 0 p 0 a0\nread 20000 r t/0 1 p 1 a1\n"                  \
    "fault 10000 f1 minority kill-leader\nheal 12000 f1\nfault 90000 f2 majority power-all\n"
#define BROKEN GOOD "end 99000 t/0 2\nattempt 3 q 0 t/1 b0\nok 4 q 0 t/1 0 1\nend 5 t/1 0\n"

struct fixture {
    struct lq_history history;
    struct lq_check_report report;
    char *text;
};

static void run(struct fixture *f, const char *text, bool json)
{
    struct lq_check_options options = {.examples = 2};
    size_t size = 0;
    *f = (struct fixture){.text = NULL};
    lq_history_init(&f->history);
    load_text(&f->history, text);
    assert_int_equal(lq_check_run(&f->history, &options, &f->report), LIGHTQ_OK);
    FILE *file = open_memstream(&f->text, &size);
    assert_non_null(file);
    if (json) {
        assert_int_equal(lq_report_print_json(&f->report, &f->history, file), LIGHTQ_OK);
    } else {
        lq_report_print(&f->report, file);
    }
    fclose(file);
}

static void tear_down(struct fixture *f)
{
    free(f->text);
    lq_check_report_deinit(&f->report);
    lq_history_deinit(&f->history);
}

static void assert_has(const struct fixture *f, const char *line)
{
    if (strstr(f->text, line) == NULL) {
        fail_msg("no \"%s\" in:\n%s", line, f->text);
    }
}

static void test_report_text_of_a_good_history_passes(void **state)
{
    (void)state;
    struct fixture f;

    run(&f, GOOD, false);

    assert_has(&f, "\nlost                   2            0\n");
    assert_has(&f, "\nreplicas         nothing            -\n"); /* not looked at is not 0 found */
    assert_has(
        &f, "\nfaults 2: 1 measured, recovery p50 3 ms, max 3 ms; 0 overlapped, 1 not measured, 0 never recovered\n");
    assert_has(&f, "\npassed: attempted 2, acknowledged 2, failed 0, unknown 0, read 2, trimmed 0: lost 0, doubled 0, "
                   "unexpected 0\n");
    tear_down(&f);
}

static void test_report_text_of_a_broken_history_says_what(void **state)
{
    (void)state;
    struct fixture f;

    run(&f, BROKEN, false);

    assert_has(&f, "\nlost                   3            1\n");
    assert_has(&f, "\nlost: acknowledged, never read, and its log was read past it or ends before it\n"
                   "    q 0 acknowledged at t/1 offset 0 and never read\n");
    assert_has(&f, "\nFAILED: promises were broken: attempted 3, acknowledged 3, ");
    tear_down(&f);
}

static void test_report_json_has_every_figure(void **state)
{
    (void)state;
    struct fixture f;
    run(&f, BROKEN, true);

    json_t *root = json_loads(f.text, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(root);
    assert_true(json_is_false(json_object_get(root, "passed")));
    assert_string_equal(json_string_value(json_object_get(root, "reason")), "promises were broken");
    assert_int_equal(json_integer_value(json_object_get(root, "attempted")), 3);
    assert_int_equal(json_integer_value(json_object_get(root, "acknowledged")), 3);
    json_t *checkers = json_object_get(root, "checkers");
    assert_int_equal(json_object_size(checkers), LQ_CHECKER_COUNT);
    json_t *lost = json_object_get(checkers, "lost");
    assert_int_equal(json_integer_value(json_object_get(lost, "checked")), 3);
    assert_int_equal(json_integer_value(json_object_get(lost, "violations")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(lost, "examples"), 0)),
                        "q 0 acknowledged at t/1 offset 0 and never read");
    json_t *recovery = json_object_get(root, "recovery");
    assert_int_equal(json_integer_value(json_object_get(recovery, "measured")), 1);
    assert_int_equal(json_integer_value(json_object_get(recovery, "max_us")), 3500);
    json_t *fault = json_array_get(json_object_get(recovery, "faults"), 0);
    assert_string_equal(json_string_value(json_object_get(fault, "kind")), "kill-leader");
    assert_string_equal(json_string_value(json_object_get(fault, "state")), "measured");
    assert_int_equal(json_integer_value(json_object_get(fault, "heal_us")), 12000);
    assert_int_equal(json_integer_value(json_object_get(fault, "recovery_us")), 3500);
    fault = json_array_get(json_object_get(recovery, "faults"), 1);
    assert_string_equal(json_string_value(json_object_get(fault, "scope")), "majority");
    assert_string_equal(json_string_value(json_object_get(fault, "state")), "unmeasured");
    assert_true(json_is_null(json_object_get(fault, "heal_us")));
    assert_true(json_is_null(json_object_get(fault, "recovery_us")));
    json_decref(root);
    tear_down(&f);
}

static void test_report_json_of_a_good_history_has_no_reason(void **state)
{
    (void)state;
    struct fixture f;
    run(&f, "reader r subscriber\nattempt 1 p 0 t/0 a0\nok 2 p 0 t/0 0 1\nread 3 r t/0 0 p 0 a0\n", true);

    json_t *root = json_loads(f.text, 0, NULL);

    assert_non_null(root);
    assert_true(json_is_true(json_object_get(root, "passed")));
    assert_true(json_is_null(json_object_get(root, "reason")));
    assert_true(json_is_null(json_object_get(json_object_get(root, "recovery"), "p50_us")));
    assert_null(strchr(f.text, '\n') + 1 == f.text + strlen(f.text) ? NULL : f.text); /* one line */
    json_decref(root);
    tear_down(&f);
}

static void test_report_json_to_a_full_disk_fails(void **state)
{
    (void)state;
    struct fixture f;
    run(&f, GOOD, true);
    FILE *file = fopen("/dev/full", "we");
    assert_non_null(file);

    assert_int_equal(lq_report_print_json(&f.report, &f.history, file), LIGHTQ_EIO);

    fclose(file);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_text_of_a_good_history_passes),
        cmocka_unit_test(test_report_text_of_a_broken_history_says_what),
        cmocka_unit_test(test_report_json_has_every_figure),
        cmocka_unit_test(test_report_json_of_a_good_history_has_no_reason),
        cmocka_unit_test(test_report_json_to_a_full_disk_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
