/* The checkers of single messages: histories that each must find, and near misses that must pass. */
#include <stdlib.h>
#include <string.h>

#include "check_fixture.h"

/* Two messages of p, stored at offsets 0 and 1. */
#define TWO_STORED           \
    "attempt 1 p 0 t/0 a0\n" \
    "ok 2 p 0 t/0 0 1\n"     \
    "attempt 3 p 1 t/0 a1\n" \
    "ok 4 p 1 t/0 1 1\n"
#define READER "reader r subscriber\n"
#define FINAL  "reader f final\n"

CHECK_CASE(all_read_passes, 0, TWO_STORED READER "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\n")

/* lost: passed by a reader, or behind the end */

CHECK_CASE(lost_passed_between_reads_is_found, SET(lost) | SET(skip),
           TWO_STORED READER "attempt 5 p 2 t/0 a2\n"
                             "ok 6 p 2 t/0 2 1\n"
                             "read 7 r t/0 0 p 0 a0\n"
                             "read 8 r t/0 2 p 2 a2\n")

CHECK_CASE(lost_passed_by_one_and_read_by_another_is_only_skipped, SET(skip),
           TWO_STORED READER "reader s subscriber\n"
                             "attempt 5 p 2 t/0 a2\n"
                             "ok 6 p 2 t/0 2 1\n"
                             "read 7 r t/0 0 p 0 a0\n"
                             "read 8 r t/0 2 p 2 a2\n"
                             "read 9 s t/0 1 p 1 a1\n")

CHECK_CASE(lost_behind_the_recorded_end_is_found, SET(lost), TWO_STORED READER "read 5 r t/0 0 p 0 a0\nend 9 t/0 1\n")

CHECK_CASE(lost_everything_of_a_log_is_found, SET(lost), TWO_STORED READER "end 9 t/0 0\n")

CHECK_CASE(lost_end_told_before_the_acknowledgement_is_no_proof, SET(unproven),
           TWO_STORED READER "read 5 r t/0 0 p 0 a0\nend 3 t/0 1\n")

CHECK_CASE(lost_last_told_end_counts, 0,
           TWO_STORED READER "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\nend 9 t/0 2\nend 5 t/0 1\n")

CHECK_CASE(lost_unacknowledged_is_not_missed, 0,
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nunknown 6 p 2\n"
                             "attempt 7 p 3 t/0 a3\n"
                             "attempt 8 p 4 t/0 a4\nfailed 9 p 4\n"
                             "read 10 r t/0 0 p 0 a0\nread 11 r t/0 1 p 1 a1\nend 12 t/0 2\n")

CHECK_CASE(lost_trimmed_before_it_was_read_passes, 0,
           TWO_STORED READER "trim 5 t/0 1\nread 6 r t/0 1 p 1 a1\nend 7 t/0 2\n")

CHECK_CASE(lost_just_above_the_trim_is_found, SET(lost) | SET(skip),
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nok 6 p 2 t/0 2 1\ntrim 7 t/0 1\n"
                             "seek 8 r t/0 1\nread 8 r t/0 2 p 2 a2\nend 9 t/0 3\n")

CHECK_CASE(lost_at_unknown_offset_of_a_log_read_whole_is_found, SET(lost),
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nok 6 p 2 t/0 - 1\n"
                             "read 7 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nend 9 t/0 2\n")

CHECK_CASE(lost_at_unknown_offset_found_by_sequence_passes, 0,
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nok 6 p 2 t/0 - 1\n"
                             "read 7 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nread 8 r t/0 2 p 2 a2\nend 9 t/0 3\n")

CHECK_CASE(lost_at_unknown_offset_of_a_log_read_in_part_is_unproven, SET(unproven),
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nok 6 p 2 t/0 - 1\n"
                             "read 7 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nend 9 t/0 3\n")

CHECK_CASE(lost_at_unknown_offset_of_an_empty_log_is_found, SET(lost),
           "attempt 5 p 2 t/0 a2\nok 6 p 2 t/0 - 1\nend 9 t/0 0\n")

CHECK_CASE(lost_in_another_log_is_told_apart, SET(lost),
           TWO_STORED READER "attempt 5 p 2 t/1 a2\nok 6 p 2 t/1 0 1\n"
                             "read 7 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nend 9 t/0 2\nend 9 t/1 0\n")

CHECK_CASE(lost_for_a_pipeline_group_that_is_done_is_found, SET(lost) | SET(missed),
           TWO_STORED "reader r pipeline g\nread 5 r t/0 0 p 0 a0\ndrained 9 g t/0 0 2\n")

/* unproven: nobody looked */

CHECK_CASE(unproven_beyond_what_was_read_is_found, SET(unproven), TWO_STORED READER "read 5 r t/0 0 p 0 a0\n")

CHECK_CASE(unproven_before_the_first_read_is_found, SET(unproven), TWO_STORED READER "read 5 r t/0 1 p 1 a1\n")

CHECK_CASE(unproven_across_a_seek_is_found, SET(unproven),
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nok 6 p 2 t/0 2 1\n"
                             "read 7 r t/0 0 p 0 a0\nseek 8 r t/0 2\nread 9 r t/0 2 p 2 a2\n")

CHECK_CASE(unproven_without_any_reader_is_found, SET(unproven), TWO_STORED)

static void test_check_unproven_allowed_by_option_passes(void **state)
{
    (void)state;
    struct lq_check_options options = {.allow_unproven = true};
    struct lq_check_report report;

    judge_text(TWO_STORED, &options, SET(unproven), &report);

    assert_true(report.passed);
    assert_null(report.reason);
    lq_check_report_deinit(&report);
}

static void test_check_unproven_when_reads_are_complete_is_lost(void **state)
{
    (void)state;
    struct lq_check_options options = {.reads_are_complete = true};

    judge_text(TWO_STORED READER "read 5 r t/0 0 p 0 a0\n", &options, SET(lost), NULL);
}

/* unseen: the final reads */

CHECK_CASE(unseen_by_the_final_reader_is_found, SET(unseen),
           TWO_STORED READER FINAL "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\n"
                                   "read 7 f t/0 0 p 0 a0\nend 8 t/0 1\n")

CHECK_CASE(unseen_first_message_by_the_final_reader_is_found, SET(unseen),
           TWO_STORED READER FINAL "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\nread 7 f t/0 1 p 1 a1\n")

CHECK_CASE(unseen_final_reader_that_never_read_is_found, SET(unseen),
           TWO_STORED READER FINAL "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\n")

CHECK_CASE(unseen_read_only_by_the_final_reader_passes, 0,
           TWO_STORED READER FINAL "read 7 f t/0 0 p 0 a0\nread 8 f t/0 1 p 1 a1\n")

CHECK_CASE(unseen_trimmed_before_the_final_reads_passes, 0,
           TWO_STORED READER FINAL "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\n"
                                   "trim 7 t/0 1\nread 8 f t/0 1 p 1 a1\n")

CHECK_CASE(unseen_by_one_of_two_final_readers_passes, 0,
           TWO_STORED FINAL "reader g final\nread 7 f t/0 0 p 0 a0\nread 8 g t/0 1 p 1 a1\n")

/* unexpected: never attempted, or another payload */

CHECK_CASE(unexpected_never_attempted_is_found, SET(unexpected),
           TWO_STORED READER "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\nread 7 r t/0 2 p 2 a2\n")

CHECK_CASE(unexpected_other_producer_is_found, SET(unexpected),
           TWO_STORED READER "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a1\nread 7 r t/0 2 q 1 a1\n")

CHECK_CASE(unexpected_other_payload_is_found, SET(unexpected),
           TWO_STORED READER "read 5 r t/0 0 p 0 a0\nread 6 r t/0 1 p 1 a2\n")

CHECK_CASE(unexpected_unknown_outcome_may_be_read, 0,
           TWO_STORED READER
           "attempt 5 p 2 t/0 a2\nunknown 6 p 2\nattempt 7 p 3 t/0 a3\n"
           "read 8 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nread 8 r t/0 2 p 2 a2\nread 8 r t/0 3 p 3 a3\n")

CHECK_CASE(unexpected_payload_that_was_not_recorded_passes, 0,
           "attempt 1 p 0 - -\nok 2 p 0 t/0 0 1\n" READER "read 5 r t/0 0 p 0 1234\n")

CHECK_CASE(unexpected_attempt_in_a_later_line_passes, 0,
           READER "read 5 r t/0 0 p 0 a0\nattempt 1 p 0 t/0 a0\nok 2 p 0 t/0 0 1\n")

/* aborted: read though failed */

CHECK_CASE(aborted_read_of_a_failed_attempt_is_found, SET(aborted),
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nfailed 6 p 2\n"
                             "read 7 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nread 9 r t/0 2 p 2 a2\n")

CHECK_CASE(aborted_read_of_an_unknown_attempt_passes, 0,
           TWO_STORED READER "attempt 5 p 2 t/0 a2\nunknown 6 p 2\n"
                             "read 7 r t/0 0 p 0 a0\nread 8 r t/0 1 p 1 a1\nread 9 r t/0 2 p 2 a2\n")

/* figures and the verdict */

static void test_check_figures_count_each_outcome(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text(TWO_STORED READER "attempt 5 p 2 t/0 a2\nunknown 6 p 2\nattempt 7 p 3 t/0 a3\n"
                                 "attempt 8 p 4 t/0 a4\nfailed 9 p 4\n"
                                 "seek 9 r t/0 0\nread 10 r t/0 0 p 0 a0\nread 11 r t/0 1 p 1 a1\n"
                                 "reader s subscriber\nread 12 s t/0 1 p 1 a1\n",
               NULL, 0, &report);

    assert_int_equal(report.attempted, 5);
    assert_int_equal(report.acknowledged, 2);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.unknown, 2);
    assert_int_equal(report.reads, 3);
    assert_int_equal(report.messages, 2);
    assert_int_equal(report.trimmed, 0);
    assert_int_equal(report.results[LQ_CHECKER_lost].checked, 2);
    assert_int_equal(report.results[LQ_CHECKER_unseen].checked, 0);
    assert_int_equal(report.results[LQ_CHECKER_unexpected].checked, 2);
    assert_true(report.passed);
    lq_check_report_deinit(&report);
}

static void test_check_nothing_acknowledged_proves_nothing(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text("attempt 1 p 0 t/0 a0\nunknown 2 p 0\n" READER "read 3 r t/0 0 p 0 a0\n", NULL, 0, &report);

    assert_false(report.passed);
    assert_string_equal(report.reason, "nothing was acknowledged, so nothing is proven");
    lq_check_report_deinit(&report);
}

static void test_check_verdict_says_why(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text(TWO_STORED, NULL, SET(unproven), &report);
    assert_false(report.passed);
    assert_string_equal(report.reason, "not everything that was acknowledged was looked for");
    lq_check_report_deinit(&report);

    judge_text(TWO_STORED READER "end 9 t/0 0\n", NULL, SET(lost), &report);
    assert_false(report.passed);
    assert_string_equal(report.reason, "promises were broken");
    lq_check_report_deinit(&report);
}

static void test_check_examples_are_bounded_and_counted(void **state)
{
    (void)state;
    struct lq_check_options options = {.examples = 1};
    struct lq_check_report report;

    judge_text(TWO_STORED "end 9 t/0 0\n", &options, SET(lost), &report);

    assert_int_equal(report.results[LQ_CHECKER_lost].violations, 2);
    assert_int_equal(report.results[LQ_CHECKER_lost].example_count, 1);
    assert_string_equal(report.results[LQ_CHECKER_lost].examples[0], "p 0 acknowledged at t/0 offset 0 and never read");
    lq_check_report_deinit(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_all_read_passes),
        cmocka_unit_test(test_check_lost_passed_between_reads_is_found),
        cmocka_unit_test(test_check_lost_passed_by_one_and_read_by_another_is_only_skipped),
        cmocka_unit_test(test_check_lost_behind_the_recorded_end_is_found),
        cmocka_unit_test(test_check_lost_everything_of_a_log_is_found),
        cmocka_unit_test(test_check_lost_end_told_before_the_acknowledgement_is_no_proof),
        cmocka_unit_test(test_check_lost_last_told_end_counts),
        cmocka_unit_test(test_check_lost_unacknowledged_is_not_missed),
        cmocka_unit_test(test_check_lost_trimmed_before_it_was_read_passes),
        cmocka_unit_test(test_check_lost_just_above_the_trim_is_found),
        cmocka_unit_test(test_check_lost_at_unknown_offset_of_a_log_read_whole_is_found),
        cmocka_unit_test(test_check_lost_at_unknown_offset_found_by_sequence_passes),
        cmocka_unit_test(test_check_lost_at_unknown_offset_of_a_log_read_in_part_is_unproven),
        cmocka_unit_test(test_check_lost_at_unknown_offset_of_an_empty_log_is_found),
        cmocka_unit_test(test_check_lost_in_another_log_is_told_apart),
        cmocka_unit_test(test_check_lost_for_a_pipeline_group_that_is_done_is_found),
        cmocka_unit_test(test_check_unproven_beyond_what_was_read_is_found),
        cmocka_unit_test(test_check_unproven_before_the_first_read_is_found),
        cmocka_unit_test(test_check_unproven_across_a_seek_is_found),
        cmocka_unit_test(test_check_unproven_without_any_reader_is_found),
        cmocka_unit_test(test_check_unproven_allowed_by_option_passes),
        cmocka_unit_test(test_check_unproven_when_reads_are_complete_is_lost),
        cmocka_unit_test(test_check_unseen_by_the_final_reader_is_found),
        cmocka_unit_test(test_check_unseen_first_message_by_the_final_reader_is_found),
        cmocka_unit_test(test_check_unseen_final_reader_that_never_read_is_found),
        cmocka_unit_test(test_check_unseen_read_only_by_the_final_reader_passes),
        cmocka_unit_test(test_check_unseen_trimmed_before_the_final_reads_passes),
        cmocka_unit_test(test_check_unseen_by_one_of_two_final_readers_passes),
        cmocka_unit_test(test_check_unexpected_never_attempted_is_found),
        cmocka_unit_test(test_check_unexpected_other_producer_is_found),
        cmocka_unit_test(test_check_unexpected_other_payload_is_found),
        cmocka_unit_test(test_check_unexpected_unknown_outcome_may_be_read),
        cmocka_unit_test(test_check_unexpected_payload_that_was_not_recorded_passes),
        cmocka_unit_test(test_check_unexpected_attempt_in_a_later_line_passes),
        cmocka_unit_test(test_check_aborted_read_of_a_failed_attempt_is_found),
        cmocka_unit_test(test_check_aborted_read_of_an_unknown_attempt_passes),
        cmocka_unit_test(test_check_figures_count_each_outcome),
        cmocka_unit_test(test_check_nothing_acknowledged_proves_nothing),
        cmocka_unit_test(test_check_verdict_says_why),
        cmocka_unit_test(test_check_examples_are_bounded_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
