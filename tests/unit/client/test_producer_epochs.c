/* tests/unit/client/test_producer_epochs.c - a producer that gives messages up while their requests are still on their
 * way: it goes on at once, in a new epoch, and what comes late is stored before everything sent later or never. */
#include "tests/unit/client/client_fixture.h"

#include "client/lib/wait.h"

static void rule(struct fixture *f, unsigned times, enum fake_action action, lightq_status status)
{
    fake_cluster_rule(
        f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = times, .action = action, .status = status});
}

/* Each message is a batch, and is waited for so long. */
static void open_with_timeout(struct fixture *f, const char *delivery_timeout)
{
    fixture_set(f, "window.messages", "4");
    fixture_set(f, "request.timeout.ms", "60s");
    fixture_set(f, "delivery.timeout.ms", delivery_timeout);
    fixture_open(f, true);
}

/* The messages @first to @last are reported as stored where they lie, with their own numbers; the one before as
 * unknown. */
static void assert_reports(struct fixture *f, uintptr_t first, uintptr_t last, int64_t offset)
{
    const struct lightq_report *unknown = fixture_report(f, first - 1);
    assert_int_equal(unknown->status, LIGHTQ_ETIMEDOUT);
    assert_true(unknown->in_doubt);
    for (uintptr_t i = first; i <= last; i++) {
        const struct lightq_report *report = fixture_report(f, i);
        assert_int_equal(report->status, LIGHTQ_OK);
        assert_int_equal(report->offset, offset + (int64_t)(i - first));
        assert_int_equal(report->producer, unknown->producer);
        assert_int_equal(report->sequence, i);
    }
}

static void test_producer_late_batch_is_refused_once_it_went_on(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[8];
    open_with_timeout(f, "150");
    rule(f, 1, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    fixture_send_many(f, 0, 1, 5);
    fixture_wait_reports(f, 6);

    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_reports(f, 1, 5, 0);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 8), 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(stored[i].sequence, i + 1);
        assert_int_equal(stored[i].epoch, 1);
    }
}

static void test_producer_late_batch_before_it_went_on_is_in_order(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "150");
    rule(f, 1, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_OK);

    fixture_send_many(f, 0, 1, 5);
    fixture_wait_reports(f, 6);

    assert_reports(f, 1, 5, 1);
    fixture_assert_log(f, 0, 0, 6);
}

static void test_producer_epoch_that_never_began_is_fenced_too(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[4];
    open_with_timeout(f, "150");
    rule(f, 2, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);

    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);

    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_reports(f, 2, 3, 0);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 4), 2);
    assert_int_equal(stored[0].epoch, 2);
}

static void test_producer_late_batch_of_newer_epoch_fences_the_older(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "150");
    rule(f, 2, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);

    assert_int_equal(fake_cluster_late(f->cluster, 1), LIGHTQ_OK);
    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);

    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);
    assert_reports(f, 2, 3, 1);
    fixture_assert_log(f, 0, 1, 3);
}

/* The first is given up, and those behind it are not: they are asked for again in the new epoch, and stored once. */
static void test_producer_asks_again_in_new_epoch_for_what_is_stored(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[4];
    open_with_timeout(f, "1000");
    rule(f, 3, FAKE_STORE_DROP, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    for (int i = 0; i < 5; i++) { /* so that the others are younger */
        assert_int_equal(lightq_producer_poll(f->producer, 100, NULL), LIGHTQ_OK);
    }

    fixture_send_many(f, 0, 1, 2);
    fixture_wait_reports(f, 3);

    assert_reports(f, 1, 2, 1);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 4), 3);
    fixture_send_many(f, 0, 3, 1);
    fixture_wait_reports(f, 4);
    fixture_assert_log(f, 0, 0, 4);
}

/* The same, but nothing was stored, and the first comes late. */
static void test_producer_sends_again_in_new_epoch_what_is_not_stored(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "1000");
    rule(f, 1, FAKE_HOLD, LIGHTQ_OK);
    rule(f, 2, FAKE_DROP, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lightq_producer_poll(f->producer, 100, NULL), LIGHTQ_OK);
    }

    fixture_send_many(f, 0, 1, 2);
    fixture_wait_reports(f, 3);

    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_reports(f, 1, 2, 0);
    fixture_assert_log(f, 0, 1, 2);
}

/* A batch that says that nothing before it will come, and is refused as out of sequence all the same, fails alone. */
static void test_producer_refused_beginning_of_an_epoch_fails(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "60s");
    rule(f, 1, FAKE_ANSWER, LIGHTQ_ENOSPC);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    rule(f, 1, FAKE_ANSWER, LIGHTQ_EOUTOFSEQUENCE);

    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);
    fixture_send_many(f, 0, 2, 1);
    fixture_wait_reports(f, 3);

    assert_int_equal(fixture_report(f, 0)->status, LIGHTQ_ENOSPC);
    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_EOUTOFSEQUENCE);
    assert_false(fixture_report(f, 0)->in_doubt || fixture_report(f, 1)->in_doubt);
    assert_int_equal(fixture_report(f, 2)->status, LIGHTQ_OK);
    fixture_assert_log(f, 0, 2, 1);
}

static void test_producer_that_is_fenced_fails_what_was_sent_and_goes_on_under_new_id(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "60s");
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    rule(f, 1, FAKE_ANSWER, LIGHTQ_EFENCED);

    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);
    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_EFENCED);
    assert_false(fixture_report(f, 1)->in_doubt);
    assert_int_equal(fixture_report(f, 3)->status, LIGHTQ_OK);
    assert_true(fixture_report(f, 3)->producer != fixture_report(f, 0)->producer);
    assert_int_equal(fixture_report(f, 3)->sequence, 1);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_producer_late_batch_is_refused_once_it_went_on),
        WITH_FIXTURE(test_producer_late_batch_before_it_went_on_is_in_order),
        WITH_FIXTURE(test_producer_epoch_that_never_began_is_fenced_too),
        WITH_FIXTURE(test_producer_late_batch_of_newer_epoch_fences_the_older),
        WITH_FIXTURE(test_producer_asks_again_in_new_epoch_for_what_is_stored),
        WITH_FIXTURE(test_producer_sends_again_in_new_epoch_what_is_not_stored),
        WITH_FIXTURE(test_producer_refused_beginning_of_an_epoch_fails),
        WITH_FIXTURE(test_producer_that_is_fenced_fails_what_was_sent_and_goes_on_under_new_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
