/* tests/unit/client/test_producer.c - a producer on healthy servers: batches, reports, bounds, partitions. */
#include "tests/unit/client/client_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/base/limits.h"

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

static lightq_status send_expecting(struct fixture *f, uintptr_t opaque, int64_t offset)
{
    char value[32];
    snprintf(value, sizeof value, "m%zu", (size_t)opaque);
    const struct lightq_message message = {.topic = "t",
                                           .partition = 0,
                                           .value = value,
                                           .value_size = strlen(value),
                                           .opaque = (void *)opaque,
                                           .has_expected_offset = true,
                                           .expected_offset = offset};
    return lightq_producer_send(f->producer, &message);
}

static void test_producer_expected_offset_is_stored_there_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "linger.ms", "1000"); /* they would be gathered */
    fixture_open(f, true);

    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK);
    assert_int_equal(send_expecting(f, 1, 1), LIGHTQ_OK); /* behind what is under way */
    assert_int_equal(send_expecting(f, 9, 1), LIGHTQ_OK); /* taken */
    assert_int_equal(fixture_send(f, 0, 2), LIGHTQ_OK);   /* goes on behind the refused one */
    assert_int_equal(send_expecting(f, 3, 3), LIGHTQ_OK);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_OK);
    assert_int_equal(fixture_report(f, 1)->offset, 1);
    assert_int_equal(fixture_report(f, 9)->status, LIGHTQ_EEXPECTED);
    assert_false(fixture_report(f, 9)->in_doubt);
    assert_int_equal(fixture_report(f, 2)->offset, 2);
    assert_int_equal(fixture_report(f, 3)->offset, 3);
    fixture_assert_log(f, 0, 0, 4);
    assert_int_equal(send_expecting(f, 4, -1), LIGHTQ_EINVAL);
}

/* Each goes alone, and the id must be one. */
static void test_producer_message_id_goes_in_a_batch_of_its_own(void **state)
{
    struct fixture *f = *state;
    static const char id[LQ_MESSAGE_ID_BYTES_MAX + 1] = "order";
    struct lightq_message message = {.topic = "t", .partition = LIGHTQ_PARTITION_ANY, .message_id = id};
    fixture_set(f, "linger.ms", "1000");
    fixture_open(f, true);

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EINVAL); /* of no bytes */
    message.message_id_size = sizeof id;
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EINVAL);
    message.message_id_size = sizeof id - 1;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    }
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    assert_int_equal(f->report_count, 3);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_PRODUCE), 3);
    assert_false(f->reports[0].same_id);
}

/* Stored, and the answer lost: sent again it is not refused for what it has stored itself. */
static void test_producer_expected_offset_survives_a_lost_answer(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_STORE_CLOSE});

    assert_int_equal(send_expecting(f, 0, 0), LIGHTQ_OK);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    assert_int_equal(fixture_report(f, 0)->status, LIGHTQ_OK);
    assert_int_equal(fixture_report(f, 0)->offset, 0);
    fixture_assert_log(f, 0, 0, 1);
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

static void test_producer_full_window_says_busy_until_reports_ran(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "window.messages", "10");
    fixture_open(f, true);

    for (uintptr_t i = 0; i < 10; i++) {
        assert_int_equal(fixture_send(f, 0, i), LIGHTQ_OK);
    }
    assert_int_equal(fixture_send(f, 0, 10), LIGHTQ_EBUSY); /* nobody polled, so all ten still wait */
    assert_int_equal(lightq_producer_waiting(f->producer), 10);
    fixture_wait_reports(f, 1);

    assert_int_equal(fixture_send(f, 0, 10), LIGHTQ_OK);
    fixture_wait_reports(f, 11);
    fixture_assert_log(f, 0, 0, 11);
}

static void test_producer_full_buffer_says_busy(void **state)
{
    struct fixture *f = *state;
    char *value = calloc(1, 40000);
    struct lightq_message message = {.topic = "t", .value = value, .value_size = 40000};
    fixture_set(f, "buffer.bytes", "64k");
    fixture_open(f, true);

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EBUSY);
    fixture_wait_reports(f, 1);

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    fixture_wait_reports(f, 2);
    free(value);
}

static void test_producer_message_over_limit_fails_alone(void **state)
{
    struct fixture *f = *state;
    char *value = calloc(1, 2001);
    struct lightq_message message = {.topic = "t", .value = value, .value_size = 2001};
    fake_cluster_message_max(f->cluster, 2000); /* learned when greeted */
    fixture_open(f, true);
    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK);
    fixture_wait_reports(f, 1);

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_ETOOBIG);
    message.value_size = 2000;

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    fixture_wait_reports(f, 2);
    assert_int_equal(f->reports[1].status, LIGHTQ_OK);
    free(value);
}

/* Case J1: an empty message is a message, and null is not empty. */
static void test_producer_empty_and_null_values_arrive_as_they_are(void **state)
{
    struct fixture *f = *state;
    struct lightq_message empty = {.topic = "t", .value = "", .value_size = 0};
    struct lightq_message null = {.topic = "t", .value = NULL};
    struct fake_message stored[2];
    fixture_open(f, true);

    assert_int_equal(lightq_producer_send(f->producer, &empty), LIGHTQ_OK);
    assert_int_equal(lightq_producer_send(f->producer, &null), LIGHTQ_OK);
    fixture_wait_reports(f, 2);

    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 2), 2);
    assert_int_equal(stored[0].value_size, 0);
    assert_int_equal(stored[1].value_size, 0);
}

static void test_producer_refuses_what_is_not_a_message(void **state)
{
    struct fixture *f = *state;
    struct lightq_message message = {.topic = "a b"};
    fixture_open(f, true);

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_ENAME);
    message.topic = "nope";
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_ENOTFOUND);
    message.topic = "t";
    message.partition = 1;
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_ENOTFOUND);
    message.partition = -2;
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EINVAL);
    message.partition = 0;
    message.timestamp_ms = -1;
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EINVAL);
    message.timestamp_ms = 0;
    message.header_count = LQ_HEADERS_MAX + 1;
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EINVAL);
    assert_int_equal(lightq_producer_waiting(f->producer), 0);
}

static void test_producer_topic_made_later_is_found_by_next_send(void **state)
{
    struct fixture *f = *state;
    struct lightq_message message = {.topic = "later"};
    fixture_open(f, false);
    struct lightq_producer *producer;
    assert_int_equal(lightq_producer_new(f->client, NULL, &producer, NULL), LIGHTQ_OK);
    assert_int_equal(lightq_producer_send(producer, &message), LIGHTQ_ENOTFOUND);

    fake_cluster_topic(f->cluster, "later", 1);

    assert_int_equal(lightq_producer_send(producer, &message), LIGHTQ_OK);
    assert_int_equal(lightq_producer_close(producer, WAIT_MS), LIGHTQ_OK);
}

static void test_producer_key_decides_partition(void **state)
{
    struct fixture *f = *state;
    struct lightq_message message = {.topic = "t", .partition = LIGHTQ_PARTITION_ANY, .key = "abc", .key_size = 3};
    fake_cluster_grow(f->cluster, "t", 7);
    fixture_open(f, true);

    for (int i = 0; i < 5; i++) {
        assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    }
    fixture_wait_reports(f, 5);

    /* XXH64("abc", seed 0) is 0x44bc2cf5ad770999: a rule between clients, so its value is written here. */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(f->reports[i].partition, UINT64_C(0x44bc2cf5ad770999) % 7);
    }
}

static void test_producer_keyless_messages_stick_to_a_batch(void **state)
{
    struct fixture *f = *state;
    unsigned per_partition[4] = {0};
    fake_cluster_grow(f->cluster, "t", 4);
    fixture_set(f, "window.messages", "400");
    fixture_open(f, true);

    fixture_send_many(f, LIGHTQ_PARTITION_ANY, 0, 4000);
    fixture_wait_reports(f, 4000);

    for (size_t i = 0; i < 4000; i++) {
        per_partition[f->reports[i].partition]++;
    }
    for (int p = 0; p < 4; p++) {
        assert_true(per_partition[p] > 0);
    }
    assert_true(fake_cluster_seen(f->cluster, LQ_MESSAGE_PRODUCE) < 4000 / 4); /* not one batch per message */
}

static void test_producer_round_robin_spreads_evenly(void **state)
{
    struct fixture *f = *state;
    unsigned per_partition[4] = {0};
    fake_cluster_grow(f->cluster, "t", 4);
    fixture_set(f, "partitioner", "round-robin");
    fixture_open(f, true);

    fixture_send_many(f, LIGHTQ_PARTITION_ANY, 0, 400);
    fixture_wait_reports(f, 400);

    for (size_t i = 0; i < 400; i++) {
        per_partition[f->reports[i].partition]++;
    }
    for (int p = 0; p < 4; p++) {
        assert_int_equal(per_partition[p], 100);
    }
}

static void test_producer_learns_of_new_partitions(void **state)
{
    struct fixture *f = *state;
    int32_t count = 0;
    fixture_set(f, "metadata.max.age.ms", "100");
    fixture_open(f, true);
    assert_int_equal(lightq_producer_partitions(f->producer, "t", WAIT_MS, &count), LIGHTQ_OK);
    assert_int_equal(count, 1);

    fake_cluster_grow(f->cluster, "t", 3);
    unsigned seen = fake_cluster_seen(f->cluster, LQ_MESSAGE_METADATA);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_METADATA, seen + 2));

    assert_int_equal(lightq_producer_partitions(f->producer, "t", WAIT_MS, &count), LIGHTQ_OK);
    assert_int_equal(count, 3);
}

static void test_producer_compressed_batches_are_stored(void **state)
{
    static const char *const codecs[] = {"lz4", "zstd"};
    struct fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        fixture_set(f, "compression", codecs[i]);
        fixture_open(f, true);
        fixture_send_many(f, 0, i * 1000, 1000);
        assert_int_equal(lightq_producer_close(f->producer, WAIT_MS), LIGHTQ_OK);
        f->producer = NULL;
        assert_int_equal(lightq_close(f->client, 1000), LIGHTQ_OK);
        f->client = NULL;
    }
    fixture_assert_log(f, 0, 0, 2000);
}

static void test_producer_headers_travel(void **state)
{
    struct fixture *f = *state;
    struct lightq_header headers[20];
    struct lightq_message message = {.topic = "t", .headers = headers, .header_count = 20};
    for (size_t i = 0; i < 20; i++) {
        headers[i] = (struct lightq_header){.name = "name", .name_size = 4, .value = "v", .value_size = 1};
    }
    headers[3].name = NULL;
    fixture_open(f, true);

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_EINVAL); /* a header has a name */
    headers[3].name = "name";
    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    fixture_wait_reports(f, 1);

    assert_int_equal(f->reports[0].status, LIGHTQ_OK);
}

static void test_producer_descriptor_is_readable_when_reports_wait(void **state)
{
    struct fixture *f = *state;
    struct pollfd polled = {.events = POLLIN};
    fixture_open(f, true);
    assert_int_equal(lightq_producer_fd(f->producer, &polled.fd), LIGHTQ_OK);
    assert_int_equal(poll(&polled, 1, 0), 0);

    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK);
    assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
    fixture_wait_reports(f, 1);

    assert_int_equal(poll(&polled, 1, 0), 0);
}

static void test_producer_lingering_batch_goes_when_full_or_flushed(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "linger.ms", "60s");
    fixture_open(f, true);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_STORE_DROP});
    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK); /* goes at once, and stays under way */
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 1));

    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK); /* lingers behind it */
    assert_int_equal(lightq_producer_flush(f->producer, 0), LIGHTQ_ETIMEDOUT);

    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 2));
}

static void count_report(void *owner, const struct lightq_report *report)
{
    (void)report;
    (*(size_t *)owner)++;
}

/* What could not be sent at once anyway must not become many small batches that wait behind each other. */
static void test_producer_open_batch_grows_while_no_other_may_be_under_way(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "linger.ms", "0");
    fixture_set(f, "inflight.max", "1");
    fixture_set(f, "request.timeout.ms", "1s");
    fixture_open(f, true);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_STORE_DROP});
    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 1)); /* under way until the time-out */
    for (uintptr_t i = 1; i <= 20; i++) {
        struct lightq_topic_list *list = NULL;
        assert_int_equal(fixture_send(f, 0, i), LIGHTQ_OK);
        assert_int_equal(lightq_topic_list(f->client, WAIT_MS, &list, NULL),
                         LIGHTQ_OK); /* the I/O thread has been there */
        lightq_result_free(list);
    }
    fixture_wait_reports(f, 21);
    fixture_assert_log(f, 0, 0, 21);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_PRODUCE),
                     3); /* the first one twice, then all the others */
}

static void test_producer_close_reports_everything_once(void **state)
{
    struct fixture *f = *state;
    size_t reports = 0;
    struct lightq_producer *producer;
    struct lightq_producer_options options = {.on_report = count_report, .owner = &reports};
    struct lightq_message message = {.topic = "t", .value = "x", .value_size = 1};
    fixture_open(f, false);
    assert_int_equal(lightq_producer_new(f->client, &options, &producer, NULL), LIGHTQ_OK);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(lightq_producer_send(producer, &message), LIGHTQ_OK);
    }

    assert_int_equal(lightq_close(f->client, 0), LIGHTQ_EBUSY); /* the producer first */
    assert_int_equal(lightq_producer_close(producer, WAIT_MS), LIGHTQ_OK);

    assert_int_equal(reports, 500);
}

/* A bound on close. Nobody answers, so what was sent is in doubt. */
static void test_producer_close_gives_up_in_time(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .action = FAKE_DROP});
    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 1));
    assert_int_equal(fixture_send(f, 0, 2), LIGHTQ_OK);

    assert_int_equal(lightq_producer_close(f->producer, 50), LIGHTQ_ECANCELED);
    f->producer = NULL;

    assert_int_equal(f->report_count, 2);
    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_ECANCELED);
    assert_true(fixture_report(f, 1)->in_doubt);
    assert_int_equal(fixture_report(f, 2)->status, LIGHTQ_ECANCELED);
}

static void test_producer_is_refused_after_fork(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    int exit_status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct lightq_message message = {.topic = "t"};
        struct lightq_error error;
        struct lightq_producer *producer;
        int fd;
        bool refused = lightq_producer_send(f->producer, &message) == LIGHTQ_EFORK &&
                       lightq_producer_poll(f->producer, 0, NULL) == LIGHTQ_EFORK &&
                       lightq_producer_flush(f->producer, 0) == LIGHTQ_EFORK &&
                       lightq_producer_fd(f->producer, &fd) == LIGHTQ_EFORK &&
                       lightq_producer_close(f->producer, 0) == LIGHTQ_EFORK &&
                       lightq_producer_new(f->client, NULL, &producer, &error) == LIGHTQ_EFORK &&
                       lightq_topic_delete(f->client, "t", 0, &error) == LIGHTQ_EFORK &&
                       lightq_wait_connected(f->client, 0, &error) == LIGHTQ_EFORK &&
                       lightq_close(f->client, 0) == LIGHTQ_EFORK;
        _exit(refused ? 0 : 1);
    }

    assert_int_equal(waitpid(child, &exit_status, 0), child);

    assert_int_equal(exit_status, 0);
    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK); /* the parent goes on */
    fixture_wait_reports(f, 1);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_producer_one_message_is_stored_and_reported),
        WITH_FIXTURE(test_producer_expected_offset_is_stored_there_or_not_at_all),
        WITH_FIXTURE(test_producer_expected_offset_survives_a_lost_answer),
        WITH_FIXTURE(test_producer_message_id_goes_in_a_batch_of_its_own),
        WITH_FIXTURE(test_producer_many_messages_are_batched_in_order),
        WITH_FIXTURE(test_producer_full_window_says_busy_until_reports_ran),
        WITH_FIXTURE(test_producer_full_buffer_says_busy),
        WITH_FIXTURE(test_producer_message_over_limit_fails_alone),
        WITH_FIXTURE(test_producer_empty_and_null_values_arrive_as_they_are),
        WITH_FIXTURE(test_producer_refuses_what_is_not_a_message),
        WITH_FIXTURE(test_producer_topic_made_later_is_found_by_next_send),
        WITH_FIXTURE(test_producer_key_decides_partition),
        WITH_FIXTURE(test_producer_keyless_messages_stick_to_a_batch),
        WITH_FIXTURE(test_producer_round_robin_spreads_evenly),
        WITH_FIXTURE(test_producer_learns_of_new_partitions),
        WITH_FIXTURE(test_producer_compressed_batches_are_stored),
        WITH_FIXTURE(test_producer_headers_travel),
        WITH_FIXTURE(test_producer_descriptor_is_readable_when_reports_wait),
        WITH_FIXTURE(test_producer_lingering_batch_goes_when_full_or_flushed),
        WITH_FIXTURE(test_producer_open_batch_grows_while_no_other_may_be_under_way),
        WITH_FIXTURE(test_producer_close_reports_everything_once),
        WITH_FIXTURE(test_producer_close_gives_up_in_time),
        WITH_FIXTURE(test_producer_is_refused_after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
