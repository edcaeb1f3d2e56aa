/* tests/unit/client/test_consumer.c - a consumer as a subscriber: every message once and in order, whatever the servers
 * do; errors instead of silent jumps (cases E1, H3, J1, J2). */
#include "tests/unit/client/client_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/wait.h"

struct reading {
    struct fixture *f;
    struct lightq_consumer *consumer;
};

static const struct lightq_start from_begin = {.kind = LIGHTQ_START_BEGIN};
static const struct lightq_start from_end = {.kind = LIGHTQ_START_END};

static int setup(void **state)
{
    struct reading *r = calloc(1, sizeof *r);
    void *fixture = NULL;
    if (r == NULL || fixture_setup(&fixture) != 0) {
        free(r);
        return -1;
    }
    r->f = fixture;
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct reading *r = *state;
    void *fixture = r->f;
    if (r->consumer != NULL && lightq_consumer_close(r->consumer, 0) != LIGHTQ_OK) {
        return -1;
    }
    free(r);
    return fixture_teardown(&fixture);
}

static void open_consumer(struct reading *r)
{
    fixture_open(r->f, false);
    assert_int_equal(lightq_consumer_new(r->f->client, &r->consumer, NULL), LIGHTQ_OK);
}

static void subscribe(struct reading *r, int32_t partition, const struct lightq_start *start)
{
    struct lightq_error error;
    open_consumer(r);
    lightq_status status = lightq_consumer_subscribe(r->consumer, "t", partition, start, WAIT_MS, &error);
    if (status != LIGHTQ_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, LIGHTQ_OK);
}

/* The next event that is no NONE. */
static void next_event(struct reading *r, struct lightq_event *event)
{
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    do {
        int left_ms = lq_deadline_left_ms(lq_clock_system(), deadline_us);
        assert_true(left_ms > 0);
        assert_int_equal(lightq_consumer_poll(r->consumer, left_ms, event), LIGHTQ_OK);
    } while (event->kind == LIGHTQ_EVENT_NONE);
}

/* The next message, over ends. */
static void next_message(struct reading *r, struct lightq_event *event)
{
    do {
        next_event(r, event);
    } while (event->kind == LIGHTQ_EVENT_END);
    if (event->kind == LIGHTQ_EVENT_ERROR) {
        print_error("%s\n", event->error->text);
    }
    assert_int_equal(event->kind, LIGHTQ_EVENT_MESSAGE);
}

/* The messages from @first on, @count of them, come with their offsets, one after the other. */
static void expect_offsets(struct reading *r, int64_t first, int64_t count)
{
    struct lightq_event event;
    for (int64_t offset = first; offset < first + count; offset++) {
        next_message(r, &event);
        assert_int_equal(event.record.offset, offset);
    }
}

static void append_batches(struct reading *r, unsigned batches, unsigned messages)
{
    for (unsigned i = 0; i < batches; i++) {
        fake_cluster_append(r->f->cluster, "t", 0, 77, "v", messages);
    }
}

static void test_consumer_reads_all_from_start(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    append_batches(r, 3, 5);
    subscribe(r, 0, &from_begin);

    next_message(r, &event);
    assert_string_equal(event.record.topic, "t");
    assert_int_equal(event.record.partition, 0);
    assert_int_equal(event.record.offset, 0);
    assert_int_equal(event.record.producer, 77);
    assert_int_equal(event.record.sequence, 0);
    assert_int_equal(event.record.timestamp_ms, 1000);
    assert_int_equal(event.record.deliveries, 1);
    assert_null(event.record.key);
    assert_int_equal(event.record.value_size, 2);
    assert_memory_equal(event.record.value, "v0", 2);
    expect_offsets(r, 1, 14);
    next_event(r, &event);

    assert_int_equal(event.kind, LIGHTQ_EVENT_END);
    assert_int_equal(event.record.offset, 15);
    assert_int_equal(lightq_consumer_poll(r->consumer, 0, &event), LIGHTQ_OK);
    assert_int_equal(event.kind, LIGHTQ_EVENT_NONE);
}

static void test_consumer_from_end_misses_nothing_sent_after(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    append_batches(r, 1, 10);
    subscribe(r, LIGHTQ_PARTITION_ANY, &from_end);

    append_batches(r, 2, 3);
    next_event(r, &event);
    assert_int_equal(event.kind, LIGHTQ_EVENT_END);
    assert_int_equal(event.record.offset, 10);

    expect_offsets(r, 10, 6);
}

static void test_consumer_from_offset_inside_batch_skips_what_is_before(void **state)
{
    struct reading *r = *state;
    const struct lightq_start start = {.kind = LIGHTQ_START_OFFSET, .offset = 7};
    append_batches(r, 3, 5);

    subscribe(r, 0, &start);

    expect_offsets(r, 7, 8);
}

static void test_consumer_empty_topic_gives_end_first(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    subscribe(r, 0, &from_begin);

    next_event(r, &event);

    assert_int_equal(event.kind, LIGHTQ_EVENT_END);
    assert_int_equal(event.record.offset, 0);
}

static void test_consumer_reads_all_partitions(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    int64_t next[3] = {0};
    fake_cluster_grow(r->f->cluster, "t", 3);
    for (unsigned p = 0; p < 3; p++) {
        fake_cluster_append(r->f->cluster, "t", p, 1, "x", 20);
    }
    subscribe(r, LIGHTQ_PARTITION_ANY, &from_begin);

    for (int i = 0; i < 60; i++) {
        next_message(r, &event);
        assert_int_equal(event.record.offset, next[event.record.partition]++);
    }

    for (int p = 0; p < 3; p++) {
        assert_int_equal(next[p], 20);
    }
}

static void test_consumer_new_partition_is_read_from_its_beginning(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    fixture_set(r->f, "metadata.max.age.ms", "100");
    subscribe(r, LIGHTQ_PARTITION_ANY, &from_end);

    fake_cluster_grow(r->f->cluster, "t", 2);
    fake_cluster_append(r->f->cluster, "t", 1, 1, "x", 3);
    next_message(r, &event);

    assert_int_equal(event.record.partition, 1);
    assert_int_equal(event.record.offset, 0);
}

static void test_consumer_poll_many_gives_views_of_one_batch(void **state)
{
    struct reading *r = *state;
    struct lightq_record records[8];
    struct lightq_event event;
    size_t count = 0, total = 0;
    append_batches(r, 2, 5);
    subscribe(r, 0, &from_begin);

    assert_int_equal(lightq_consumer_poll_many(r->consumer, 0, records, 0, &count), LIGHTQ_EINVAL);
    while (total < 10) {
        assert_int_equal(lightq_consumer_poll_many(r->consumer, WAIT_MS, records, 8, &count), LIGHTQ_OK);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(records[i].offset, total + i);
        }
        total += count;
        assert_true(count == 5 || count == 0);
        if (count == 0) { /* an end between the batches */
            assert_int_equal(lightq_consumer_poll(r->consumer, 0, &event), LIGHTQ_OK);
            assert_int_equal(event.kind, LIGHTQ_EVENT_END);
        }
    }
    lightq_consumer_release(r->consumer);

    next_event(r, &event);
    assert_int_equal(event.kind, LIGHTQ_EVENT_END);
}

static void test_consumer_descriptor_wakes_poller(void **state)
{
    struct reading *r = *state;
    struct pollfd polled = {.events = POLLIN};
    struct lightq_event event;
    subscribe(r, 0, &from_begin);
    next_event(r, &event); /* the end */
    assert_int_equal(lightq_consumer_fd(r->consumer, &polled.fd), LIGHTQ_OK);
    assert_int_equal(poll(&polled, 1, 0), 0);

    append_batches(r, 1, 1);

    assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
    expect_offsets(r, 0, 1);
}

/* Case J2: a message larger than the fetch size comes all the same. */
static void test_consumer_credit_is_kept_and_never_too_small(void **state)
{
    struct reading *r = *state;
    fixture_set(r->f, "fetch.messages", "50");
    fixture_set(r->f, "fetch.bytes", "1");
    append_batches(r, 100, 20);

    subscribe(r, 0, &from_begin);

    expect_offsets(r, 0, 2000);
    assert_true(fake_cluster_most_credit(r->f->cluster) <= 50);
}

static void test_consumer_slow_application_stops_deliveries(void **state)
{
    struct reading *r = *state;
    fixture_set(r->f, "fetch.messages", "40");
    append_batches(r, 50, 10);
    subscribe(r, 0, &from_begin);

    assert_true(fake_cluster_wait_seen(r->f->cluster, LQ_MESSAGE_DELIVER, 4));
    assert_int_equal(fake_cluster_seen(r->f->cluster, LQ_MESSAGE_DELIVER), 4); /* nobody polls */
    expect_offsets(r, 0, 500);

    assert_true(fake_cluster_most_credit(r->f->cluster) <= 40);
}

static void test_consumer_position_and_seek(void **state)
{
    struct reading *r = *state;
    int64_t position = -2;
    const struct lightq_start back = {.kind = LIGHTQ_START_OFFSET, .offset = 2};
    append_batches(r, 4, 5);
    subscribe(r, 0, &from_begin);
    assert_int_equal(lightq_consumer_position(r->consumer, "t", 0, &position), LIGHTQ_OK);
    assert_int_equal(position, 0);
    expect_offsets(r, 0, 8);
    assert_int_equal(lightq_consumer_position(r->consumer, "t", 0, &position), LIGHTQ_OK);
    assert_int_equal(position, 8);

    assert_int_equal(lightq_consumer_seek(r->consumer, "t", 0, &back, WAIT_MS, NULL), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_position(r->consumer, "t", 0, &position), LIGHTQ_OK);
    assert_int_equal(position, 2);
    expect_offsets(r, 2, 18);
    assert_int_equal(lightq_consumer_seek(r->consumer, "t", LIGHTQ_PARTITION_ANY, &from_begin, 0, NULL), LIGHTQ_OK);
    expect_offsets(r, 0, 20);
    assert_int_equal(lightq_consumer_seek(r->consumer, "t", 0, &from_end, WAIT_MS, NULL), LIGHTQ_OK);
    append_batches(r, 1, 1);

    expect_offsets(r, 20, 1);
    assert_int_equal(lightq_consumer_position(r->consumer, "t", 1, &position), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_seek(r->consumer, "t", 1, &from_end, 0, NULL), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_seek(r->consumer, "t", LIGHTQ_PARTITION_ANY, &back, 0, NULL), LIGHTQ_EINVAL);
}

static void test_consumer_subscribe_refuses_what_is_wrong(void **state)
{
    struct reading *r = *state;
    const struct lightq_start beyond = {.kind = LIGHTQ_START_OFFSET, .offset = 100};
    const struct lightq_start negative = {.kind = LIGHTQ_START_OFFSET, .offset = -1};
    struct lightq_error error;
    append_batches(r, 1, 3);
    open_consumer(r);

    assert_int_equal(lightq_consumer_subscribe(r->consumer, "a/b", 0, &from_begin, 0, &error), LIGHTQ_ENAME);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", -2, &from_begin, 0, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &negative, 0, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "nope", 0, &from_begin, WAIT_MS, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 5, &from_begin, WAIT_MS, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &beyond, WAIT_MS, &error), LIGHTQ_EOUTOFRANGE);
    assert_non_null(strstr(error.text, "0 to 3"));

    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &from_begin, WAIT_MS, &error), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", LIGHTQ_PARTITION_ANY, &from_begin, 0, &error),
                     LIGHTQ_EEXISTS);
    expect_offsets(r, 0, 3);
}

static void test_consumer_unsubscribe_stops_and_lets_subscribe_again(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    append_batches(r, 2, 5);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 3);

    assert_int_equal(lightq_consumer_unsubscribe(r->consumer, "t", 0), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_poll(r->consumer, 0, &event), LIGHTQ_OK);
    assert_int_equal(event.kind, LIGHTQ_EVENT_NONE);
    assert_int_equal(lightq_consumer_unsubscribe(r->consumer, "t", 0), LIGHTQ_ENOTFOUND);

    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &from_begin, WAIT_MS, NULL), LIGHTQ_OK);
    expect_offsets(r, 0, 10);
}

static void test_consumer_without_wait_tells_failures_as_events(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    open_consumer(r);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "nope", 0, &from_begin, 0, NULL), LIGHTQ_OK);

    next_event(r, &event);

    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_ENOTFOUND);
}

/* ---- faults */

/* Case E1: the leader is killed; the consumer goes on without being restarted. */
static void test_consumer_goes_on_when_leader_is_killed(void **state)
{
    struct reading *r = *state;
    append_batches(r, 10, 10);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 55);

    fake_cluster_kill(r->f->cluster, 1);
    fake_cluster_lead(r->f->cluster, "t", 0, 3);
    append_batches(r, 10, 10);

    expect_offsets(r, 55, 145);
}

/* Case E3, "new only", and the leader goes before anything was delivered: what was sent since the subscription comes.
 */
static void test_consumer_from_end_keeps_its_start_when_the_leader_is_killed(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    append_batches(r, 1, 10);
    subscribe(r, 0, &from_end);
    next_event(r, &event);
    assert_int_equal(event.kind, LIGHTQ_EVENT_END);

    fake_cluster_kill(r->f->cluster, 1);
    append_batches(r, 2, 3);
    fake_cluster_lead(r->f->cluster, "t", 0, 3);

    expect_offsets(r, 10, 6);
}

static void test_consumer_follows_moving_leader(void **state)
{
    struct reading *r = *state;
    subscribe(r, 0, &from_begin);

    for (unsigned i = 0; i < 30; i++) {
        append_batches(r, 1, 10);
        if (i % 3 == 2) {
            fake_cluster_lead(r->f->cluster, "t", 0, 1 + (i / 3 + 1) % 3);
        }
        expect_offsets(r, i * 10, 10);
    }
}

static void test_consumer_goes_on_when_leader_hangs(void **state)
{
    struct reading *r = *state;
    fixture_set(r->f, "heartbeat.interval.ms", "50");
    append_batches(r, 1, 10);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 10);

    fake_cluster_freeze(r->f->cluster, 1, true);
    fake_cluster_lead(r->f->cluster, "t", 0, 2);
    append_batches(r, 1, 10);
    expect_offsets(r, 10, 10);

    fake_cluster_freeze(r->f->cluster, 1, false);
}

static void test_consumer_waits_for_leader(void **state)
{
    struct reading *r = *state;
    struct lightq_error error;
    append_batches(r, 1, 5);
    fake_cluster_lead(r->f->cluster, "t", 0, 0);
    open_consumer(r);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &from_begin, SHORT_MS, &error), LIGHTQ_ETIMEDOUT);
    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &from_begin, 0, &error), LIGHTQ_OK);

    fake_cluster_lead(r->f->cluster, "t", 0, 2);

    expect_offsets(r, 0, 5);
}

static void deliver_rule(struct reading *r, unsigned after, enum fake_action action)
{
    fake_cluster_rule(r->f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_DELIVER, .after = after, .times = 1, .action = action});
}

static void test_consumer_gap_and_repetition_never_reach_application(void **state)
{
    struct reading *r = *state;
    deliver_rule(r, 3, FAKE_SKIP);
    deliver_rule(r, 5, FAKE_TWICE);
    deliver_rule(r, 9, FAKE_SKIP);
    append_batches(r, 40, 5);

    subscribe(r, 0, &from_begin);

    expect_offsets(r, 0, 200);
}

static void test_consumer_damaged_delivery_is_fetched_again(void **state)
{
    struct reading *r = *state;
    deliver_rule(r, 2, FAKE_BAD_CRC);
    append_batches(r, 10, 5);

    subscribe(r, 0, &from_begin);

    expect_offsets(r, 0, 50);
}

static void test_consumer_damaged_batch_is_told_and_seek_goes_on(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    const struct lightq_start behind = {.kind = LIGHTQ_START_OFFSET, .offset = 10};
    append_batches(r, 1, 5);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 5);
    fake_cluster_rule(r->f->cluster, (struct fake_rule){.type = LQ_MESSAGE_DELIVER, .action = FAKE_BAD_CRC});
    append_batches(r, 1, 5);

    do {
        next_event(r, &event);
    } while (event.kind == LIGHTQ_EVENT_END);
    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_ECORRUPT);
    assert_int_equal(event.record.offset, 5);
    fake_cluster_no_rules(r->f->cluster);
    append_batches(r, 1, 5);
    assert_int_equal(lightq_consumer_poll(r->consumer, 20, &event), LIGHTQ_OK);
    assert_int_equal(event.kind, LIGHTQ_EVENT_NONE); /* nothing is skipped unasked */

    assert_int_equal(lightq_consumer_seek(r->consumer, "t", 0, &behind, WAIT_MS, NULL), LIGHTQ_OK);
    expect_offsets(r, 10, 5);
}

/* Case H3: what is trimmed away is an error, never a silent jump. */
static void test_consumer_trimmed_offset_is_an_error_until_seek(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    fixture_set(r->f, "fetch.messages", "5");
    append_batches(r, 4, 5);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 3);

    fake_cluster_trim(r->f->cluster, "t", 0, 15);
    do {
        next_event(r, &event);
    } while (event.kind == LIGHTQ_EVENT_MESSAGE); /* those fetched before */
    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_EOUTOFRANGE);
    assert_false(event.error->retriable);
    assert_int_equal(event.first, 15);
    assert_int_equal(event.end, 20);

    assert_int_equal(lightq_consumer_seek(r->consumer, "t", 0, &from_begin, WAIT_MS, NULL), LIGHTQ_OK);
    expect_offsets(r, 15, 5);
}

/* Case E5: a leader that does not know yet that it was deposed may end before what others have delivered. */
static void test_consumer_deposed_leader_is_not_believed_about_the_end(void **state)
{
    struct reading *r = *state;
    fake_cluster_lead(r->f->cluster, "t", 0, 1); /* not the first term any more */
    append_batches(r, 2, 5);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 10);
    unsigned asked = fake_cluster_seen(r->f->cluster, LQ_MESSAGE_SUBSCRIBE);

    fake_cluster_rule(r->f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_SUBSCRIBE, .times = 2, .action = FAKE_DEPOSED});
    fake_cluster_lead(r->f->cluster, "t", 0, 2);
    append_batches(r, 1, 5);

    expect_offsets(r, 10, 5); /* an error would end the test */
    assert_true(fake_cluster_seen(r->f->cluster, LQ_MESSAGE_SUBSCRIBE) >= asked + 3);
}

static void test_consumer_deleted_topic_is_told(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    append_batches(r, 1, 2);
    subscribe(r, 0, &from_begin);
    expect_offsets(r, 0, 2);

    fake_cluster_drop_topic(r->f->cluster, "t");
    do {
        next_event(r, &event);
    } while (event.kind == LIGHTQ_EVENT_END);

    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_ENOTFOUND);
}

static void test_consumer_refused_subscription_is_told(void **state)
{
    struct reading *r = *state;
    struct lightq_error error;
    fake_cluster_rule(
        r->f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_SUBSCRIBE, .times = 1, .action = FAKE_ANSWER, .status = LIGHTQ_EBUSY});
    fake_cluster_rule(
        r->f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_SUBSCRIBE, .times = 1, .action = FAKE_ANSWER, .status = LIGHTQ_EAUTH});
    open_consumer(r);

    assert_int_equal(lightq_consumer_subscribe(r->consumer, "t", 0, &from_begin, WAIT_MS, &error), LIGHTQ_EAUTH);

    assert_int_equal(fake_cluster_seen(r->f->cluster, LQ_MESSAGE_SUBSCRIBE), 2);
}

static void test_consumer_is_refused_after_fork(void **state)
{
    struct reading *r = *state;
    int exit_status = -1;
    subscribe(r, 0, &from_begin);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct lightq_event event;
        struct lightq_record record;
        struct lightq_consumer *consumer;
        int64_t offset;
        size_t count;
        int fd;
        bool refused = lightq_consumer_poll(r->consumer, 0, &event) == LIGHTQ_EFORK &&
                       lightq_consumer_poll_many(r->consumer, 0, &record, 1, &count) == LIGHTQ_EFORK &&
                       lightq_consumer_position(r->consumer, "t", 0, &offset) == LIGHTQ_EFORK &&
                       lightq_consumer_seek(r->consumer, "t", 0, &from_end, 0, NULL) == LIGHTQ_EFORK &&
                       lightq_consumer_subscribe(r->consumer, "u", 0, &from_end, 0, NULL) == LIGHTQ_EFORK &&
                       lightq_consumer_unsubscribe(r->consumer, "t", 0) == LIGHTQ_EFORK &&
                       lightq_consumer_fd(r->consumer, &fd) == LIGHTQ_EFORK &&
                       lightq_consumer_new(r->f->client, &consumer, NULL) == LIGHTQ_EFORK &&
                       lightq_consumer_close(r->consumer, 0) == LIGHTQ_EFORK;
        _exit(refused ? 0 : 1);
    }

    assert_int_equal(waitpid(child, &exit_status, 0), child);

    assert_int_equal(exit_status, 0);
}

static void test_record_headers_are_found_by_index(void **state)
{
    struct reading *r = *state;
    struct lightq_event event;
    struct lightq_header header;
    struct lightq_header sent[] = {{"a", 1, "1", 1}, {"bc", 2, NULL, 0}, {"d", 1, "", 0}};
    struct lightq_message message = {.topic = "t", .key = "", .headers = sent, .header_count = 3};
    struct lightq_producer *producer;
    subscribe(r, 0, &from_begin);
    assert_int_equal(lightq_producer_new(r->f->client, NULL, &producer, NULL), LIGHTQ_OK);
    assert_int_equal(lightq_producer_send(producer, &message), LIGHTQ_OK);
    assert_int_equal(lightq_producer_close(producer, WAIT_MS), LIGHTQ_OK);

    next_message(r, &event);

    assert_non_null(event.record.key);
    assert_int_equal(event.record.key_size, 0);
    assert_null(event.record.value);
    assert_int_equal(event.record.header_count, 3);
    assert_int_equal(lightq_record_header(&event.record, 1, &header), LIGHTQ_OK);
    assert_memory_equal(header.name, "bc", 2);
    assert_null(header.value);
    assert_int_equal(lightq_record_header(&event.record, 2, &header), LIGHTQ_OK);
    assert_non_null(header.value);
    assert_int_equal(lightq_record_header(&event.record, 3, &header), LIGHTQ_ENOTFOUND);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_consumer_reads_all_from_start),
        WITH_FIXTURE(test_consumer_from_end_misses_nothing_sent_after),
        WITH_FIXTURE(test_consumer_from_offset_inside_batch_skips_what_is_before),
        WITH_FIXTURE(test_consumer_empty_topic_gives_end_first),
        WITH_FIXTURE(test_consumer_reads_all_partitions),
        WITH_FIXTURE(test_consumer_new_partition_is_read_from_its_beginning),
        WITH_FIXTURE(test_consumer_poll_many_gives_views_of_one_batch),
        WITH_FIXTURE(test_consumer_descriptor_wakes_poller),
        WITH_FIXTURE(test_consumer_credit_is_kept_and_never_too_small),
        WITH_FIXTURE(test_consumer_slow_application_stops_deliveries),
        WITH_FIXTURE(test_consumer_position_and_seek),
        WITH_FIXTURE(test_consumer_subscribe_refuses_what_is_wrong),
        WITH_FIXTURE(test_consumer_unsubscribe_stops_and_lets_subscribe_again),
        WITH_FIXTURE(test_consumer_without_wait_tells_failures_as_events),
        WITH_FIXTURE(test_consumer_goes_on_when_leader_is_killed),
        WITH_FIXTURE(test_consumer_from_end_keeps_its_start_when_the_leader_is_killed),
        WITH_FIXTURE(test_consumer_follows_moving_leader),
        WITH_FIXTURE(test_consumer_goes_on_when_leader_hangs),
        WITH_FIXTURE(test_consumer_waits_for_leader),
        WITH_FIXTURE(test_consumer_gap_and_repetition_never_reach_application),
        WITH_FIXTURE(test_consumer_damaged_delivery_is_fetched_again),
        WITH_FIXTURE(test_consumer_damaged_batch_is_told_and_seek_goes_on),
        WITH_FIXTURE(test_consumer_trimmed_offset_is_an_error_until_seek),
        WITH_FIXTURE(test_consumer_deposed_leader_is_not_believed_about_the_end),
        WITH_FIXTURE(test_consumer_deleted_topic_is_told),
        WITH_FIXTURE(test_consumer_refused_subscription_is_told),
        WITH_FIXTURE(test_consumer_is_refused_after_fork),
        WITH_FIXTURE(test_record_headers_are_found_by_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
