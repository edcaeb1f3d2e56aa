/* The checkers of replicas, leaders, terms and recovery: histories that each must find, and near misses that must
 * pass. */
#include "check_fixture.h"

/* One message, so that the history proves something. */
#define BASE "reader r subscriber\nattempt 1 p 0 t/0 a0\nok 2 p 0 t/0 0 5\nread 3 r t/0 0 p 0 a0\n"

/* replicas */

CHECK_CASE(replicas_other_digest_at_the_same_end_is_found, SET(replicas),
           BASE "digest 4 t/0 n1 8 aa\ndigest 4 t/0 n2 8 aa\ndigest 9 t/0 n3 8 ab\n")

CHECK_CASE(replicas_other_digest_long_ago_is_found, SET(replicas),
           BASE "digest 4 t/0 n1 8 aa\ndigest 5 t/0 n1 9 ac\ndigest 90 t/0 n3 9 ad\ndigest 99 t/0 n3 10 ae\n")

CHECK_CASE(replicas_one_node_that_changed_its_past_is_found, SET(replicas),
           BASE "digest 4 t/0 n1 8 aa\ndigest 5 t/0 n1 8 ab\n")

CHECK_CASE(replicas_other_ends_when_quiet_is_found, SET(replicas),
           BASE "quiet 5\ndigest 6 t/0 n1 8 aa\ndigest 6 t/0 n2 7 ab\n")

CHECK_CASE(replicas_other_ends_before_quiet_passes, 0,
           BASE "digest 4 t/0 n1 8 aa\ndigest 4 t/0 n2 7 ab\nquiet 5\ndigest 6 t/0 n1 8 aa\ndigest 6 t/0 n2 8 aa\n")

CHECK_CASE(replicas_other_ends_and_never_quiet_passes, 0, BASE "digest 4 t/0 n1 8 aa\ndigest 4 t/0 n2 7 ab\n")

CHECK_CASE(replicas_of_other_logs_may_differ, 0,
           BASE "quiet 1\ndigest 4 t/0 n1 8 aa\ndigest 4 t/1 n1 8 ab\ndigest 4 t/0 n2 8 AA\n")

/* leader */

CHECK_CASE(leader_two_in_one_term_is_found, SET(leader), BASE "leader 4 n1 t/0 5 n1\nleader 9 n2 t/0 5 n2\n")

CHECK_CASE(leader_two_by_one_observer_is_found, SET(leader), BASE "leader 4 n1 t/0 5 n1\nleader 9 n1 t/0 5 n2\n")

CHECK_CASE(leader_in_another_term_passes, 0, BASE "leader 4 n1 t/0 5 n1\nleader 9 n2 t/0 6 n2\n")

CHECK_CASE(leader_of_another_log_passes, 0, BASE "leader 4 n1 t/0 5 n1\nleader 4 n1 t/1 5 n2\n")

CHECK_CASE(leader_seen_by_many_passes, 0, BASE "leader 4 n1 t/0 5 n1\nleader 4 n2 t/0 5 n1\nleader 5 n2 t/0 5 n1\n")

/* term */

CHECK_CASE(term_of_an_observer_goes_back_is_found, SET(term), BASE "leader 4 n1 t/0 5 n1\nleader 9 n1 t/0 4 n2\n")

CHECK_CASE(term_of_an_observer_goes_back_by_its_clock_is_found, SET(term),
           BASE "leader 9 n1 t/0 4 n2\nleader 4 n1 t/0 5 n1\n")

CHECK_CASE(term_of_a_stale_observer_passes, 0, BASE "leader 4 n1 t/0 5 n1\nleader 9 n2 t/0 4 n2\n")

CHECK_CASE(term_of_another_log_passes, 0, BASE "leader 4 n1 t/0 5 n1\nleader 9 n1 t/1 4 n2\n")

CHECK_CASE(term_of_a_later_acknowledgement_is_lower_is_found, SET(term),
           BASE "attempt 4 p 1 t/0 a1\nok 5 p 1 t/0 1 4\nread 6 r t/0 1 p 1 a1\n")

CHECK_CASE(term_of_overlapping_acknowledgements_may_differ, 0,
           BASE "attempt 2 p 1 t/0 a1\nok 5 p 1 t/0 1 4\nread 6 r t/0 1 p 1 a1\n")

CHECK_CASE(term_of_acknowledgements_in_other_logs_passes, 0,
           BASE "attempt 4 p 1 t/1 a1\nok 5 p 1 t/1 0 4\nread 6 r t/1 0 p 1 a1\n")

CHECK_CASE(term_that_was_not_told_passes, 0,
           BASE "attempt 4 p 1 t/0 a1\nok 5 p 1 t/0 1 -\nread 6 r t/0 1 p 1 a1\n"
                "attempt 7 p 2 t/0 a2\nok 8 p 2 t/0 2 5\nread 9 r t/0 2 p 2 a2\n")

/* recovery */

#define STORE(time, done, sequence)                                                                      \
    "attempt " time " p " sequence " t/0 a" sequence "\nok " done " p " sequence " t/0 " sequence " 5\n" \
    "read 99000 r t/0 " sequence " p " sequence " a" sequence "\n"

static void test_check_recovery_is_the_first_acknowledgement_invoked_after(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text("reader r subscriber\n" STORE("1000", "2000", "0") STORE("9000", "30000", "1")
                   STORE("10000", "25000", "2") STORE("12000", "24000", "3")
                       STORE("26000", "27000", "4") "fault 10000 f1 minority kill-leader\nheal 50000 f1\n",
               NULL, 0, &report);

    assert_int_equal(report.fault_count, 1);
    assert_int_equal(report.faults[0].state, LQ_RECOVERY_MEASURED);
    assert_int_equal(report.faults[0].from_us, 10000);
    assert_int_equal(report.faults[0].recovery_us, 14000);
    assert_int_equal(report.recovery_p50_us, 14000);
    assert_int_equal(report.recovery_max_us, 14000);
    assert_int_equal(report.results[LQ_CHECKER_recovery].checked, 1);
    lq_check_report_deinit(&report);
}

static void test_check_recovery_of_a_majority_counts_from_its_heal(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text("reader r subscriber\n" STORE("1000", "2000", "0") STORE("11000", "23000", "1")
                   STORE("21000", "24000", "2") "fault 10000 f1 majority power-all\nheal 20000 f1\n",
               NULL, 0, &report);

    assert_int_equal(report.faults[0].from_us, 20000);
    assert_int_equal(report.faults[0].recovery_us, 3000); /* from the first attempt after it */
    lq_check_report_deinit(&report);
}

static void test_check_recovery_is_that_of_the_slowest_log(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text("reader r subscriber\n" STORE("1000", "2000", "0") STORE(
                   "10000", "11000", "1") "attempt 10000 q 0 t/1 b0\nok 40000 q 0 t/1 0 2\nread 99000 r t/1 0 q 0 b0\n"
                                          "fault 10000 f1 minority kill-leader\nheal 50000 f1\n",
               NULL, 0, &report);

    assert_int_equal(report.faults[0].recovery_us, 30000);
    lq_check_report_deinit(&report);
}

CHECK_CASE(recovery_never_acknowledged_again_is_found, SET(recovery),
           BASE "fault 10 f1 minority kill\nattempt 11 p 1 t/0 a1\nunknown 20 p 1\n")

CHECK_CASE(recovery_never_acknowledged_without_a_chosen_log_is_found, SET(recovery),
           BASE "fault 10 f1 minority kill\nattempt 11 p 1 - a1\nunknown 20 p 1\n")

CHECK_CASE(recovery_of_one_log_of_two_is_found, SET(recovery),
           BASE "fault 10 f1 minority kill\nattempt 11 p 1 t/0 a1\nok 12 p 1 t/0 1 5\nread 13 r t/0 1 p 1 a1\n"
                "attempt 11 q 0 t/1 b0\nunknown 20 q 0\n")

CHECK_CASE(recovery_by_what_was_invoked_before_is_none, SET(recovery),
           "reader r subscriber\nattempt 1 p 0 t/0 a0\nok 30 p 0 t/0 0 5\nread 31 r t/0 0 p 0 a0\n"
           "fault 10 f1 minority kill\nattempt 11 p 1 t/0 a1\nunknown 20 p 1\n")

static void test_check_recovery_without_attempts_is_not_measured(void **state)
{
    (void)state;
    struct lq_check_report report;

    judge_text(BASE "fault 10 f1 minority kill\nheal 20 f1\nfault 0 f2 majority power-all\n", NULL, 0, &report);

    assert_int_equal(report.recovery_unmeasured, 2);
    assert_int_equal(report.recovery_measured, 0);
    assert_int_equal(report.results[LQ_CHECKER_recovery].checked, 0);
    lq_check_report_deinit(&report);
}

#define THREE_FAULTS                                                                                             \
    "reader r subscriber\n" STORE("1000", "2000", "0") STORE("10000", "13000", "1") STORE("20000", "24000", "2") \
        STORE("30000", "35000",                                                                                  \
              "3") "fault 10000 f1 minority kill\nheal 15000 f1\nfault 20000 f2 minority pause\nheal 25000 f2\n" \
                   "fault 30000 f3 minority cut\nheal 36000 f3\n"

static void test_check_recovery_limits_are_inclusive(void **state)
{
    (void)state;
    struct lq_check_options options = {.recovery_max_us = 5000, .recovery_median_us = 4000};
    struct lq_check_report report;

    judge_text(THREE_FAULTS, &options, 0, &report);

    assert_int_equal(report.recovery_measured, 3);
    assert_int_equal(report.recovery_p50_us, 4000);
    assert_int_equal(report.recovery_max_us, 5000);
    lq_check_report_deinit(&report);
}

static void test_check_recovery_over_the_longest_is_found(void **state)
{
    (void)state;
    struct lq_check_options options = {.recovery_max_us = 4999, .examples = 1};
    struct lq_check_report report;

    judge_text(THREE_FAULTS, &options, SET(recovery), &report);

    assert_int_equal(report.results[LQ_CHECKER_recovery].violations, 1);
    assert_string_equal(report.results[LQ_CHECKER_recovery].examples[0],
                        "fault f3 (cut): 5 ms until an acknowledgement");
    lq_check_report_deinit(&report);
}

static void test_check_recovery_over_the_median_is_found(void **state)
{
    (void)state;
    struct lq_check_options options = {.recovery_max_us = 5000, .recovery_median_us = 3999};

    judge_text(THREE_FAULTS, &options, SET(recovery), NULL);
}

static void test_check_recovery_while_another_fault_lasts_is_not_held_against_limits(void **state)
{
    (void)state;
    struct lq_check_options options = {.recovery_max_us = 1};
    struct lq_check_report report;

    judge_text(
        "reader r subscriber\n" STORE("1000", "2000", "0")
            STORE("10000", "13000",
                  "1") "fault 5000 f0 majority power-all\nheal 11000 f0\nfault 10000 f1 minority kill\nheal 12000 f1\n",
        &options, 0, &report);

    assert_int_equal(report.faults[1].state, LQ_RECOVERY_OVERLAPPED);
    assert_int_equal(report.recovery_overlapped, 1);
    assert_int_equal(report.recovery_unmeasured, 1);
    lq_check_report_deinit(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_replicas_other_digest_at_the_same_end_is_found),
        cmocka_unit_test(test_check_replicas_other_digest_long_ago_is_found),
        cmocka_unit_test(test_check_replicas_one_node_that_changed_its_past_is_found),
        cmocka_unit_test(test_check_replicas_other_ends_when_quiet_is_found),
        cmocka_unit_test(test_check_replicas_other_ends_before_quiet_passes),
        cmocka_unit_test(test_check_replicas_other_ends_and_never_quiet_passes),
        cmocka_unit_test(test_check_replicas_of_other_logs_may_differ),
        cmocka_unit_test(test_check_leader_two_in_one_term_is_found),
        cmocka_unit_test(test_check_leader_two_by_one_observer_is_found),
        cmocka_unit_test(test_check_leader_in_another_term_passes),
        cmocka_unit_test(test_check_leader_of_another_log_passes),
        cmocka_unit_test(test_check_leader_seen_by_many_passes),
        cmocka_unit_test(test_check_term_of_an_observer_goes_back_is_found),
        cmocka_unit_test(test_check_term_of_an_observer_goes_back_by_its_clock_is_found),
        cmocka_unit_test(test_check_term_of_a_stale_observer_passes),
        cmocka_unit_test(test_check_term_of_another_log_passes),
        cmocka_unit_test(test_check_term_of_a_later_acknowledgement_is_lower_is_found),
        cmocka_unit_test(test_check_term_of_overlapping_acknowledgements_may_differ),
        cmocka_unit_test(test_check_term_of_acknowledgements_in_other_logs_passes),
        cmocka_unit_test(test_check_term_that_was_not_told_passes),
        cmocka_unit_test(test_check_recovery_is_the_first_acknowledgement_invoked_after),
        cmocka_unit_test(test_check_recovery_of_a_majority_counts_from_its_heal),
        cmocka_unit_test(test_check_recovery_is_that_of_the_slowest_log),
        cmocka_unit_test(test_check_recovery_never_acknowledged_again_is_found),
        cmocka_unit_test(test_check_recovery_never_acknowledged_without_a_chosen_log_is_found),
        cmocka_unit_test(test_check_recovery_of_one_log_of_two_is_found),
        cmocka_unit_test(test_check_recovery_by_what_was_invoked_before_is_none),
        cmocka_unit_test(test_check_recovery_without_attempts_is_not_measured),
        cmocka_unit_test(test_check_recovery_limits_are_inclusive),
        cmocka_unit_test(test_check_recovery_over_the_longest_is_found),
        cmocka_unit_test(test_check_recovery_over_the_median_is_found),
        cmocka_unit_test(test_check_recovery_while_another_fault_lasts_is_not_held_against_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
