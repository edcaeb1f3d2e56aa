/* The checkers of offsets, readers and groups: histories that each must find, and near misses that must pass. */
#include "check_fixture.h"

/* Producers p and q store p 0, q 0, p 1, q 1 at offsets 0 to 3 of t/0. */
#define STORED                                 \
    "attempt 1 p 0 t/0 a0\nok 2 p 0 t/0 0 1\n" \
    "attempt 1 q 0 t/0 b0\nok 2 q 0 t/0 1 1\n" \
    "attempt 3 p 1 t/0 a1\nok 4 p 1 t/0 2 1\n" \
    "attempt 3 q 1 t/0 b1\nok 4 q 1 t/0 3 1\n"
#define READ_0   "read 5 r t/0 0 p 0 a0\n"
#define READ_1   "read 5 r t/0 1 q 0 b0\n"
#define READ_2   "read 5 r t/0 2 p 1 a1\n"
#define READ_3   "read 5 r t/0 3 q 1 b1\n"
#define ALL_READ "reader r subscriber\n" READ_0 READ_1 READ_2 READ_3
#define SECOND   "reader s subscriber\n"

/* doubled */

CHECK_CASE(doubled_stored_again_behind_is_found, SET(doubled), STORED ALL_READ "read 6 r t/0 4 p 1 a1\n")

CHECK_CASE(doubled_in_another_log_is_found, SET(doubled), STORED ALL_READ "read 6 r t/1 0 p 1 a1\n")

CHECK_CASE(doubled_read_elsewhere_than_acknowledged_is_found, SET(doubled),
           "attempt 1 p 0 t/0 a0\nok 2 p 0 t/0 7 1\nreader r subscriber\nread 5 r t/0 0 p 0 a0\n")

CHECK_CASE(doubled_read_by_two_readers_passes, 0,
           STORED ALL_READ SECOND "read 5 s t/0 0 p 0 a0\nread 5 s t/0 1 q 0 b0\n")

CHECK_CASE(doubled_same_sequence_of_another_producer_passes, 0, STORED ALL_READ)

CHECK_CASE(doubled_unknown_attempt_stored_twice_is_found, SET(doubled),
           STORED ALL_READ "attempt 6 p 2 t/0 a2\nunknown 7 p 2\nread 8 r t/0 4 p 2 a2\nread 8 r t/0 5 p 2 a2\n")

static void test_check_doubled_thrice_counts_two(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text(STORED ALL_READ SECOND "read 6 r t/0 4 p 1 a1\nread 6 r t/0 5 p 1 a1\nread 7 s t/0 5 p 1 a1\n", NULL,
               SET(doubled), &report);

    assert_int_equal(report.results[LQ_CHECKER_doubled].violations, 2);
    assert_string_equal(report.results[LQ_CHECKER_doubled].examples[0], "p 1 at t/0 offset 2 and t/0 offset 4");
    lq_check_report_deinit(&report);
}

/* value */

CHECK_CASE(value_readers_disagree_about_the_message_is_found, SET(value) | SET(doubled),
           STORED ALL_READ SECOND "read 6 s t/0 2 q 1 b1\n")

CHECK_CASE(value_readers_disagree_about_the_payload_is_found, SET(value),
           "attempt 1 p 0 - -\nok 2 p 0 t/0 0 1\nreader r subscriber\nread 5 r t/0 0 p 0 a0\n" SECOND
           "read 5 s t/0 0 p 0 a1\n")

CHECK_CASE(value_other_message_than_acknowledged_is_found, SET(value) | SET(unexpected) | SET(lost),
           "attempt 1 p 0 t/0 a0\nok 2 p 0 t/0 0 1\nreader r subscriber\nread 5 r t/0 0 p 9 a9\n")

CHECK_CASE(value_two_acknowledged_at_one_offset_is_found, SET(value) | SET(unproven),
           "attempt 1 p 0 t/0 a0\nok 2 p 0 t/0 0 1\nattempt 3 p 1 t/0 a1\nok 4 p 1 t/0 0 1\n")

CHECK_CASE(value_same_offset_in_two_logs_passes, 0, STORED ALL_READ "read 6 r t/1 0 p 2 a2\nattempt 5 p 2 t/1 a2\n")

CHECK_CASE(value_read_again_alike_passes, 0, STORED ALL_READ SECOND "read 5 s t/0 3 q 1 b1\n")

/* order */

CHECK_CASE(order_later_sequence_first_is_found, SET(order),
           "reader r subscriber\nattempt 1 p 0 t/0 a0\nattempt 2 p 1 t/0 a1\n"
           "ok 3 p 0 t/0 1 1\nok 3 p 1 t/0 0 1\nread 5 r t/0 0 p 1 a1\nread 5 r t/0 1 p 0 a0\n")

CHECK_CASE(order_unknown_attempt_stored_too_late_is_found, SET(order),
           STORED ALL_READ "attempt 5 p 2 t/0 a2\nunknown 6 p 2\nattempt 7 p 3 t/0 a3\nok 8 p 3 t/0 4 1\n"
                           "read 9 r t/0 4 p 3 a3\nread 9 r t/0 5 p 2 a2\n")

CHECK_CASE(order_by_acknowledgements_alone_is_found, SET(order) | SET(unproven),
           "attempt 1 p 0 t/0 a0\nattempt 2 p 1 t/0 a1\nok 3 p 0 t/0 8 1\nok 3 p 1 t/0 4 1\n")

CHECK_CASE(order_is_for_each_producer, 0, STORED ALL_READ)

CHECK_CASE(order_is_for_each_log, 0,
           STORED ALL_READ "attempt 5 p 2 t/1 a2\nok 6 p 2 t/1 0 1\nread 7 r t/1 0 p 2 a2\n"
                           "attempt 7 p 3 t/0 a3\nok 8 p 3 t/0 4 1\nread 9 r t/0 4 p 3 a3\n")

CHECK_CASE(order_with_a_gap_passes, 0,
           STORED ALL_READ "attempt 5 p 2 t/0 a2\nfailed 6 p 2\nattempt 7 p 3 t/0 a3\nok 8 p 3 t/0 4 1\n"
                           "read 9 r t/0 4 p 3 a3\n")

CHECK_CASE(order_of_a_double_is_no_second_finding, SET(doubled), STORED ALL_READ "read 6 r t/0 4 p 0 a0\n")

/* skip */

CHECK_CASE(skip_one_message_is_found, SET(skip),
           STORED ALL_READ SECOND "read 6 s t/0 0 p 0 a0\nread 6 s t/0 2 p 1 a1\n")

CHECK_CASE(skip_behind_a_seek_is_found, SET(skip), STORED ALL_READ SECOND "seek 6 s t/0 1\nread 6 s t/0 2 p 1 a1\n")

CHECK_CASE(skip_of_a_final_reader_is_found, SET(skip),
           STORED "reader r final\n" READ_0 READ_2 READ_3 SECOND "read 5 s t/0 1 q 0 b0\n"
                  "reader g final\nread 5 g t/0 1 q 0 b0\n")

CHECK_CASE(skip_by_a_seek_passes, 0,
           STORED ALL_READ SECOND "read 6 s t/0 0 p 0 a0\nseek 7 s t/0 2\nread 8 s t/0 2 p 1 a1\n")

CHECK_CASE(skip_by_a_seek_to_anywhere_passes, 0,
           STORED ALL_READ SECOND "read 6 s t/0 0 p 0 a0\nseek 7 s t/0 -\nread 8 s t/0 3 q 1 b1\n")

CHECK_CASE(skip_over_trimmed_messages_passes, 0,
           STORED ALL_READ SECOND "read 6 s t/0 0 p 0 a0\ntrim 7 t/0 2\nread 8 s t/0 2 p 1 a1\n")

CHECK_CASE(skip_farther_than_trimmed_is_found, SET(skip),
           STORED ALL_READ SECOND "read 6 s t/0 0 p 0 a0\ntrim 7 t/0 2\nread 8 s t/0 3 q 1 b1\n")

CHECK_CASE(skip_over_what_another_log_trimmed_is_found, SET(skip),
           STORED ALL_READ SECOND "read 6 s t/0 0 p 0 a0\ntrim 7 t/1 2\nread 8 s t/0 2 p 1 a1\n")

CHECK_CASE(skip_first_read_may_be_anywhere, 0, STORED ALL_READ SECOND "read 6 s t/0 3 q 1 b1\n")

CHECK_CASE(skip_is_for_each_reader_and_log, 0,
           STORED ALL_READ "attempt 5 p 7 t/1 a7\nread 6 r t/1 9 p 7 a7\n" SECOND "read 6 s t/0 3 q 1 b1\n")

CHECK_CASE(skip_of_a_pipeline_reader_passes, 0,
           STORED ALL_READ "reader w pipeline g\nread 6 w t/0 0 p 0 a0\nread 6 w t/0 3 q 1 b1\n")

/* backward */

CHECK_CASE(backward_by_one_is_found, SET(backward), STORED ALL_READ "read 6 r t/0 2 p 1 a1\n")

CHECK_CASE(backward_same_again_is_found, SET(backward), STORED ALL_READ "read 6 r t/0 3 q 1 b1\n")

CHECK_CASE(backward_behind_a_seek_is_found, SET(backward), STORED ALL_READ "seek 6 r t/0 3\nread 7 r t/0 2 p 1 a1\n")

CHECK_CASE(backward_after_a_seek_passes, 0,
           STORED ALL_READ "seek 6 r t/0 2\nread 7 r t/0 2 p 1 a1\nread 7 r t/0 3 q 1 b1\n")

CHECK_CASE(backward_of_a_pipeline_reader_passes, 0,
           STORED ALL_READ "reader w pipeline g\nread 6 w t/0 3 q 1 b1\nread 6 w t/0 0 p 0 a0\nread 7 w t/0 0 p 0 a0\n")

static void test_check_backward_once_counts_one(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text(STORED ALL_READ "read 6 r t/0 1 q 0 b0\nread 6 r t/0 2 p 1 a1\nread 6 r t/0 3 q 1 b1\n", NULL,
               SET(backward), &report);

    assert_int_equal(report.results[LQ_CHECKER_backward].violations, 1);
    assert_string_equal(report.results[LQ_CHECKER_backward].examples[0], "reader r in t/0: offset 1 where 4 was next");
    lq_check_report_deinit(&report);
}

/* missed */

#define WORKERS "reader v pipeline g\nreader w pipeline g\n"

CHECK_CASE(missed_by_every_worker_is_found, SET(missed),
           STORED ALL_READ WORKERS "read 6 v t/0 0 p 0 a0\nread 6 w t/0 1 q 0 b0\nread 7 v t/0 3 q 1 b1\n"
                                   "drained 9 g t/0 0 4\n")

CHECK_CASE(missed_got_by_another_group_is_found, SET(missed),
           STORED ALL_READ WORKERS "reader x pipeline h\nread 6 x t/0 0 p 0 a0\ndrained 9 g t/0 0 1\n")

CHECK_CASE(missed_last_one_below_the_end_is_found, SET(missed),
           STORED ALL_READ WORKERS "read 6 v t/0 0 p 0 a0\nread 6 v t/0 1 q 0 b0\nread 6 v t/0 2 p 1 a1\n"
                                   "drained 9 g t/0 0 4\n")

CHECK_CASE(missed_shared_among_workers_passes, 0,
           STORED ALL_READ WORKERS "read 6 w t/0 1 q 0 b0\nread 6 v t/0 0 p 0 a0\nread 7 v t/0 3 q 1 b1\n"
                                   "read 7 w t/0 2 p 1 a1\nread 8 w t/0 3 q 1 b1\ndrained 9 g t/0 0 4\n")

CHECK_CASE(missed_before_the_group_began_passes, 0,
           STORED ALL_READ WORKERS "read 6 w t/0 2 p 1 a1\nread 7 v t/0 3 q 1 b1\ndrained 9 g t/0 2 4\n")

CHECK_CASE(missed_beyond_the_end_passes, 0,
           STORED ALL_READ WORKERS "read 6 w t/0 0 p 0 a0\nread 7 v t/0 1 q 0 b0\ndrained 9 g t/0 0 2\n")

CHECK_CASE(missed_trimmed_passes, 0,
           STORED ALL_READ WORKERS "trim 5 t/0 3\nread 7 v t/0 3 q 1 b1\ndrained 9 g t/0 0 4\n")

CHECK_CASE(missed_what_was_told_last_counts, 0,
           STORED ALL_READ WORKERS "drained 9 g t/0 0 0\nread 6 w t/0 0 p 0 a0\ndrained 3 g t/0 0 2\n")

static void test_check_groups_count_what_came_again(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text(STORED ALL_READ WORKERS "read 6 v t/0 0 p 0 a0\nsettle 7 v t/0 0 ack ok\n"
                                       "read 8 w t/0 0 p 0 a0\n"
                                       "read 6 v t/0 1 q 0 b0\nsettle 7 v t/0 1 nack ok\nread 8 w t/0 1 q 0 b0\n"
                                       "read 6 v t/0 2 p 1 a1\nsettle 7 v t/0 2 ack unknown\nread 8 w t/0 2 p 1 a1\n"
                                       "read 6 v t/0 3 q 1 b1\nread 7 w t/0 3 q 1 b1\nsettle 8 w t/0 3 ack ok\n",
               NULL, 0, &report);

    assert_int_equal(report.settled, 2);
    assert_int_equal(report.redelivered, 4);
    assert_int_equal(report.redelivered_after_ack, 1);
    lq_check_report_deinit(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_doubled_stored_again_behind_is_found),
        cmocka_unit_test(test_check_doubled_in_another_log_is_found),
        cmocka_unit_test(test_check_doubled_read_elsewhere_than_acknowledged_is_found),
        cmocka_unit_test(test_check_doubled_read_by_two_readers_passes),
        cmocka_unit_test(test_check_doubled_same_sequence_of_another_producer_passes),
        cmocka_unit_test(test_check_doubled_unknown_attempt_stored_twice_is_found),
        cmocka_unit_test(test_check_doubled_thrice_counts_two),
        cmocka_unit_test(test_check_value_readers_disagree_about_the_message_is_found),
        cmocka_unit_test(test_check_value_readers_disagree_about_the_payload_is_found),
        cmocka_unit_test(test_check_value_other_message_than_acknowledged_is_found),
        cmocka_unit_test(test_check_value_two_acknowledged_at_one_offset_is_found),
        cmocka_unit_test(test_check_value_same_offset_in_two_logs_passes),
        cmocka_unit_test(test_check_value_read_again_alike_passes),
        cmocka_unit_test(test_check_order_later_sequence_first_is_found),
        cmocka_unit_test(test_check_order_unknown_attempt_stored_too_late_is_found),
        cmocka_unit_test(test_check_order_by_acknowledgements_alone_is_found),
        cmocka_unit_test(test_check_order_is_for_each_producer),
        cmocka_unit_test(test_check_order_is_for_each_log),
        cmocka_unit_test(test_check_order_with_a_gap_passes),
        cmocka_unit_test(test_check_order_of_a_double_is_no_second_finding),
        cmocka_unit_test(test_check_skip_one_message_is_found),
        cmocka_unit_test(test_check_skip_behind_a_seek_is_found),
        cmocka_unit_test(test_check_skip_of_a_final_reader_is_found),
        cmocka_unit_test(test_check_skip_by_a_seek_passes),
        cmocka_unit_test(test_check_skip_by_a_seek_to_anywhere_passes),
        cmocka_unit_test(test_check_skip_over_trimmed_messages_passes),
        cmocka_unit_test(test_check_skip_farther_than_trimmed_is_found),
        cmocka_unit_test(test_check_skip_over_what_another_log_trimmed_is_found),
        cmocka_unit_test(test_check_skip_first_read_may_be_anywhere),
        cmocka_unit_test(test_check_skip_is_for_each_reader_and_log),
        cmocka_unit_test(test_check_skip_of_a_pipeline_reader_passes),
        cmocka_unit_test(test_check_backward_by_one_is_found),
        cmocka_unit_test(test_check_backward_same_again_is_found),
        cmocka_unit_test(test_check_backward_behind_a_seek_is_found),
        cmocka_unit_test(test_check_backward_after_a_seek_passes),
        cmocka_unit_test(test_check_backward_of_a_pipeline_reader_passes),
        cmocka_unit_test(test_check_backward_once_counts_one),
        cmocka_unit_test(test_check_missed_by_every_worker_is_found),
        cmocka_unit_test(test_check_missed_got_by_another_group_is_found),
        cmocka_unit_test(test_check_missed_last_one_below_the_end_is_found),
        cmocka_unit_test(test_check_missed_shared_among_workers_passes),
        cmocka_unit_test(test_check_missed_before_the_group_began_passes),
        cmocka_unit_test(test_check_missed_beyond_the_end_passes),
        cmocka_unit_test(test_check_missed_trimmed_passes),
        cmocka_unit_test(test_check_missed_what_was_told_last_counts),
        cmocka_unit_test(test_check_groups_count_what_came_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
