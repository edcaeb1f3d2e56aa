/* tests/unit/client/test_producer_batch.c - batches that the application makes: all of it or nothing. */
#include "tests/unit/client/client_fixture.h"

#include <stdlib.h>

#include "client/base/limits.h"

#define FEW 3

/* "m<first>" and those behind it, for partition 0 of "t"; @texts holds the values. */
static void make_few(struct lightq_message messages[FEW], char texts[FEW][32], uintptr_t first)
{
    for (size_t i = 0; i < FEW; i++) {
        int size = snprintf(texts[i], sizeof texts[i], "m%zu", (size_t)(first + i));
        messages[i] = (struct lightq_message){
            .topic = "t", .value = texts[i], .value_size = (size_t)size, .opaque = (void *)(first + i)};
    }
}

static void test_producer_batch_is_one_batch_in_its_place(void **state)
{
    struct fixture *f = *state;
    struct lightq_message messages[FEW];
    char texts[FEW][32];
    fixture_set(f, "linger.ms", "1000"); /* what is sent singly would be gathered */
    fixture_open(f, true);

    make_few(messages, texts, 0);
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_OK);
    assert_int_equal(fixture_send(f, 0, 3), LIGHTQ_OK);
    make_few(messages, texts, 4);
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_OK);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    assert_int_equal(f->report_count, 7);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_PRODUCE), 3);
    for (uintptr_t i = 0; i < 7; i++) {
        assert_int_equal(fixture_report(f, i)->status, LIGHTQ_OK);
        assert_int_equal(fixture_report(f, i)->offset, i);
    }
    assert_int_equal(fixture_report(f, 4)->batch_crc, fixture_report(f, 6)->batch_crc);
    assert_true(fixture_report(f, 3)->batch_crc != fixture_report(f, 4)->batch_crc);
    fixture_assert_log(f, 0, 0, 7);
}

/* One that was gathered by the library would be sent again message by message; this one is refused as a whole. */
static void test_producer_batch_refused_as_too_big_is_not_taken_apart(void **state)
{
    struct fixture *f = *state;
    struct lightq_message messages[FEW];
    char texts[FEW][32];
    fixture_open(f, true);
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_ANSWER, .status = LIGHTQ_ETOOBIG});

    make_few(messages, texts, 10);
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_OK);
    fixture_wait_reports(f, FEW);
    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK); /* goes on behind it */
    fixture_wait_reports(f, FEW + 1);

    for (uintptr_t i = 10; i < 10 + FEW; i++) {
        assert_int_equal(fixture_report(f, i)->status, LIGHTQ_ETOOBIG);
        assert_false(fixture_report(f, i)->in_doubt);
    }
    fixture_assert_log(f, 0, 0, 1);
}

static void test_producer_batch_survives_a_lost_answer_once(void **state)
{
    struct fixture *f = *state;
    struct lightq_message messages[FEW];
    char texts[FEW][32];
    fixture_open(f, true);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_STORE_CLOSE});

    make_few(messages, texts, 0);
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_OK);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    fixture_assert_log(f, 0, 0, FEW);
}

static void test_producer_batch_that_cannot_be_one_takes_nothing(void **state)
{
    struct fixture *f = *state;
    struct lightq_message messages[FEW];
    char texts[FEW][32];
    char *huge = calloc(1, 2001);
    assert_non_null(huge);
    fake_cluster_grow(f->cluster, "t", 7);
    fake_cluster_message_max(f->cluster, 2000);
    fixture_open(f, true);
    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK);
    fixture_wait_reports(f, 1);

    make_few(messages, texts, 0);
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, 0), LIGHTQ_EINVAL);
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, LQ_BATCH_RECORDS_MAX + 1), LIGHTQ_ETOOBIG);
    messages[1].partition = 1;
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_EINVAL);
    messages[1] = messages[0];
    messages[1].topic = "other";
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_EINVAL);
    messages[1] = messages[0];
    messages[1].has_expected_offset = true;
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_EINVAL);
    messages[1] = messages[0];
    messages[2].header_count = LQ_HEADERS_MAX + 1;
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_EINVAL);
    messages[2] = messages[0];
    messages[2].value = huge;
    messages[2].value_size = 2001;
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_ETOOBIG);
    free(huge);

    assert_int_equal(lightq_producer_waiting(f->producer), 0);
    fixture_assert_log(f, 0, 0, 1);
}

/* XXH64 modulo 7: "abc" 0, "order-17" 1. */
static void test_producer_batch_goes_where_its_keys_say(void **state)
{
    struct fixture *f = *state;
    struct lightq_message messages[FEW];
    char texts[FEW][32];
    fake_cluster_grow(f->cluster, "t", 7);
    fixture_open(f, true);
    make_few(messages, texts, 0);
    for (size_t i = 0; i < FEW; i++) {
        messages[i].partition = LIGHTQ_PARTITION_ANY;
    }
    messages[1].key = "order-17";
    messages[1].key_size = 8;

    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_OK);
    fixture_wait_reports(f, FEW);
    messages[2].key = "abc";
    messages[2].key_size = 3;
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_EINVAL);

    fixture_assert_log(f, 1, 0, FEW);
}

static void test_producer_batch_waits_for_room(void **state)
{
    struct fixture *f = *state;
    struct lightq_message messages[FEW];
    char texts[FEW][32];
    fixture_set(f, "window.messages", "2");
    fixture_open(f, true);
    make_few(messages, texts, 0);

    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_OK); /* alone it always has room */
    assert_int_equal(lightq_producer_send_batch(f->producer, messages, FEW), LIGHTQ_EBUSY);
    fixture_wait_reports(f, FEW);

    fixture_assert_log(f, 0, 0, FEW);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_producer_batch_is_one_batch_in_its_place),
        WITH_FIXTURE(test_producer_batch_refused_as_too_big_is_not_taken_apart),
        WITH_FIXTURE(test_producer_batch_survives_a_lost_answer_once),
        WITH_FIXTURE(test_producer_batch_that_cannot_be_one_takes_nothing),
        WITH_FIXTURE(test_producer_batch_goes_where_its_keys_say),
        WITH_FIXTURE(test_producer_batch_waits_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
