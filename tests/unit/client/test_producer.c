/* tests/unit/client/test_producer.c - a producer on healthy servers: batches, reports, bounds, partitions. */
#include "tests/unit/client/client_fixture.h"

#include <poll.h>

#include "client/lib/partitioner.h"

static void test_producer_one_message_is_stored_and_reported(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);

    assert_int_equal(fixture_send(f, 0, 7), LIGHTQ_OK);
    fixture_wait_reports(f, 1);

    const struct lightq_report *report = fixture_report(f, 7);
    assert_int_equal(report->status, LIGHTQ_OK);
    assert_int_equal(report->partition, 0);
    assert_int_equal(report->offset, 0);
    assert_int_equal(report->sequence, 0);
    assert_int_equal(report->term, 1);
    assert_true(report->producer != 0);
    assert_true(report->batch_crc != 0);
    assert_int_equal(strlen(lightq_cluster_id(f->client)), 32);
    fixture_assert_log(f, 0, 7, 1);
}

static void test_producer_many_messages_are_batched_in_order(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "window.messages", "1000");
    fixture_open(f, true);

    fixture_send_many(f, 0, 0, 10000);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    assert_int_equal(f->report_count, 10000);
    for (size_t i = 0; i < f->report_count; i++) {
        assert_int_equal(f->reports[i].status, LIGHTQ_OK);
        assert_int_equal((uintptr_t)f->reports[i].opaque, i);
        assert_int_equal(f->reports[i].offset, i);
        assert_int_equal(f->reports[i].sequence, i);
    }
    fixture_assert_log(f, 0, 0, 10000);
    assert_true(fake_cluster_seen(f->cluster, LQ_MESSAGE_PRODUCE) < 10000 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_producer_one_message_is_stored_and_reported, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_producer_many_messages_are_batched_in_order, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
