/* tests/unit/client/test_group_consumer.c - consumers of groups: every message of a pipeline group is settled once in
 * the end, whatever the servers do; a subscriber group goes on where it is (cases E, G). */
#include "tests/unit/client/client_fixture.h"

#include <stdlib.h>

#include "client/base/limits.h"
#include "client/lib/wait.h"

struct grouped {
    struct fixture *f;
    struct lightq_consumer *consumer, *other;
};

static int setup(void **state)
{
    struct grouped *g = calloc(1, sizeof *g);
    void *fixture = NULL;
    if (g == NULL || fixture_setup(&fixture) != 0) {
        free(g);
        return -1;
    }
    g->f = fixture;
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct grouped *g = *state;
    void *fixture = g->f;
    lightq_consumer_close(g->consumer, 0);
    lightq_consumer_close(g->other, 0);
    free(g);
    return fixture_teardown(&fixture);
}

/* Joins "g" of "t" with a new consumer. */
static struct lightq_consumer *join(struct grouped *g)
{
    struct lightq_error error;
    struct lightq_consumer *consumer;
    if (g->f->client == NULL) {
        fixture_open(g->f, false);
    }
    assert_int_equal(lightq_consumer_new(g->f->client, &consumer, NULL), LIGHTQ_OK);
    lightq_status status = lightq_consumer_join(consumer, "t", "g", LIGHTQ_PARTITION_ANY, WAIT_MS, &error);
    if (status != LIGHTQ_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, LIGHTQ_OK);
    return consumer;
}

static void append(struct grouped *g, unsigned batches, unsigned messages)
{
    for (unsigned i = 0; i < batches; i++) {
        fake_cluster_append(g->f->cluster, "t", 0, 77, "v", messages);
    }
}

/* The next event that is neither NONE nor END. */
static void next_event(struct lightq_consumer *consumer, struct lightq_event *event)
{
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    do {
        int left_ms = lq_deadline_left_ms(lq_clock_system(), deadline_us);
        assert_true(left_ms > 0);
        assert_int_equal(lightq_consumer_poll(consumer, left_ms, event), LIGHTQ_OK);
    } while (event->kind == LIGHTQ_EVENT_NONE || event->kind == LIGHTQ_EVENT_END);
}

/* The next message; errors that the library mends by itself are passed over. */
static void next_message(struct lightq_consumer *consumer, struct lightq_event *event)
{
    do {
        next_event(consumer, event);
    } while (event->kind == LIGHTQ_EVENT_ERROR && event->error->retriable);
    if (event->kind != LIGHTQ_EVENT_MESSAGE) {
        print_error("event %d: %s\n", (int)event->kind, event->error->text);
    }
    assert_int_equal(event->kind, LIGHTQ_EVENT_MESSAGE);
}

static void ack_offsets(struct lightq_consumer *consumer, int64_t first, int64_t count)
{
    struct lightq_event event;
    for (int64_t offset = first; offset < first + count; offset++) {
        next_message(consumer, &event);
        assert_int_equal(event.record.offset, offset);
        assert_int_equal(lightq_consumer_ack(consumer, &event.record), LIGHTQ_OK);
    }
}

/* ---- pipeline groups */

static void test_group_pipeline_acks_settle_all(void **state)
{
    struct grouped *g = *state;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 5, 100);
    g->consumer = join(g);

    ack_offsets(g->consumer, 0, 500);

    assert_int_equal(lightq_consumer_flush(g->consumer, WAIT_MS), LIGHTQ_OK);
    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 500));
    assert_true(fake_cluster_seen(g->f->cluster, LQ_MESSAGE_SETTLE) < 250); /* they go together */
}

static void test_group_pipeline_ack_many_is_one_range(void **state)
{
    struct grouped *g = *state;
    struct lightq_record records[100];
    size_t count = 0;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 100);
    g->consumer = join(g);

    while (count == 0) {
        assert_int_equal(lightq_consumer_poll_many(g->consumer, WAIT_MS, records, 100, &count), LIGHTQ_OK);
    }
    assert_int_equal(count, 100);
    assert_int_equal(lightq_consumer_ack_many(g->consumer, records, count), LIGHTQ_OK);

    assert_int_equal(lightq_consumer_flush(g->consumer, WAIT_MS), LIGHTQ_OK);
    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 100));
    assert_int_equal(fake_cluster_seen(g->f->cluster, LQ_MESSAGE_SETTLE), 1);
}

static void test_group_pipeline_shares_between_consumers(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    uint64_t seen[2] = {0};
    fixture_set(g->f, "prefetch.messages", "10");
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    g->consumer = join(g);
    g->other = join(g);
    append(g, 10, 10);

    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    while (seen[0] + seen[1] < 100 && lq_deadline_left_ms(lq_clock_system(), deadline_us) > 0) {
        for (int i = 0; i < 2; i++) {
            struct lightq_consumer *consumer = i == 0 ? g->consumer : g->other;
            assert_int_equal(lightq_consumer_poll(consumer, 1, &event), LIGHTQ_OK);
            if (event.kind == LIGHTQ_EVENT_MESSAGE) {
                seen[i]++;
                assert_int_equal(event.record.deliveries, 1);
                assert_int_equal(lightq_consumer_ack(consumer, &event.record), LIGHTQ_OK);
            }
        }
    }

    assert_int_equal(seen[0] + seen[1], 100); /* each once */
    assert_true(seen[0] > 0 && seen[1] > 0);
    assert_int_equal(lightq_consumer_flush(g->consumer, WAIT_MS), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_flush(g->other, WAIT_MS), LIGHTQ_OK);
    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 100));
}

static void test_group_pipeline_nack_comes_again_counted(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 1);
    g->consumer = join(g);

    for (uint32_t delivery = 1; delivery <= 3; delivery++) {
        next_message(g->consumer, &event);
        assert_int_equal(event.record.deliveries, delivery);
        assert_int_equal(lightq_consumer_nack(g->consumer, &event.record, delivery == 1 ? 5 : LIGHTQ_DELAY_DEFAULT),
                         LIGHTQ_OK);
    }
    next_message(g->consumer, &event);
    assert_int_equal(event.record.deliveries, 4);
    assert_int_equal(lightq_consumer_ack(g->consumer, &event.record), LIGHTQ_OK);

    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 1));
    assert_int_equal(fake_cluster_outcome(g->f->cluster, "t", "g", 0, 0).failed, 3);
}

static void test_group_pipeline_reject_is_dead_and_return_has_not_failed(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 2);
    g->consumer = join(g);

    next_message(g->consumer, &event);
    assert_int_equal(lightq_consumer_reject(g->consumer, &event.record), LIGHTQ_OK);
    next_message(g->consumer, &event);
    assert_int_equal(lightq_consumer_extend(g->consumer, &event.record), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_return(g->consumer, &event.record), LIGHTQ_OK);
    next_message(g->consumer, &event);

    assert_int_equal(event.record.offset, 1);
    assert_int_equal(event.record.deliveries, 1);
    assert_true(fake_cluster_outcome(g->f->cluster, "t", "g", 0, 0).dead);
    assert_int_equal(fake_cluster_outcome(g->f->cluster, "t", "g", 0, 1).failed, 0);
}

static void test_group_pipeline_ack_sync_says_what_is_stored(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    struct lightq_error error;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 2);
    g->consumer = join(g);
    next_message(g->consumer, &event);
    struct lightq_record nowhere = event.record;
    nowhere.offset = 1000;

    assert_int_equal(lightq_consumer_ack_sync(g->consumer, &event.record, WAIT_MS, &error), LIGHTQ_OK);
    assert_true(fake_cluster_outcome(g->f->cluster, "t", "g", 0, 0).settled);
    assert_int_equal(lightq_consumer_ack_sync(g->consumer, &event.record, WAIT_MS, &error), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_ack_sync(g->consumer, &nowhere, WAIT_MS, &error), LIGHTQ_EOUTOFRANGE);
    fake_cluster_rule(g->f->cluster, (struct fake_rule){.type = LQ_MESSAGE_SETTLE, .action = FAKE_DROP});
    next_message(g->consumer, &event);
    assert_int_equal(lightq_consumer_ack_sync(g->consumer, &event.record, 50, &error), LIGHTQ_ETIMEDOUT);
    assert_true(error.retriable);
}

/* The answer to the settle is lost with the connection: it is sent again. */
static void test_group_pipeline_settle_is_sent_again_after_lost_answer(void **state)
{
    struct grouped *g = *state;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 10);
    g->consumer = join(g);
    fake_cluster_rule(g->f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_SETTLE, .times = 1, .action = FAKE_STORE_CLOSE});
    fake_cluster_rule(g->f->cluster, (struct fake_rule){.type = LQ_MESSAGE_SETTLE, .times = 1, .action = FAKE_CLOSE});

    struct lightq_event event;
    next_message(g->consumer, &event);
    assert_int_equal(lightq_consumer_ack(g->consumer, &event.record), LIGHTQ_OK);

    assert_int_equal(lightq_consumer_flush(g->consumer, WAIT_MS), LIGHTQ_OK);
    assert_true(fake_cluster_outcome(g->f->cluster, "t", "g", 0, 0).settled);
}

/* Acks that the dead leader did not answer go to the new one before it grants anything, so none of them comes again. */
static void test_group_pipeline_leader_change_acks_all_once(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    unsigned times[200] = {0};
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 20, 10);
    g->consumer = join(g);

    ack_offsets(g->consumer, 0, 100);
    fake_cluster_kill(g->f->cluster, 1);
    fake_cluster_lead(g->f->cluster, "t", 0, 2);
    unsigned acked = 0;
    while (acked < 100) {
        next_message(g->consumer, &event);
        assert_true(event.record.offset >= 100);
        assert_int_equal(event.record.deliveries, 1); /* a change of leader is no failure */
        acked += times[event.record.offset]++ == 0;
        assert_int_equal(lightq_consumer_ack(g->consumer, &event.record), LIGHTQ_OK);
    }

    assert_int_equal(lightq_consumer_flush(g->consumer, WAIT_MS), LIGHTQ_OK);
    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 200));
}

static void test_group_pipeline_close_gives_back_what_is_not_settled(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 10);
    g->consumer = join(g);
    ack_offsets(g->consumer, 0, 3);

    assert_int_equal(lightq_consumer_close(g->consumer, WAIT_MS), LIGHTQ_OK);
    g->consumer = NULL;
    g->other = join(g);

    next_message(g->other, &event);
    assert_int_equal(event.record.offset, 3);
    assert_int_equal(event.record.deliveries, 1); /* it did not fail */
}

static void test_group_pipeline_expired_lease_comes_again_and_late_ack_counts(void **state)
{
    struct grouped *g = *state;
    struct lightq_event first, second;
    fake_cluster_group(g->f->cluster, "t", "g", true, 20, 0);
    append(g, 1, 1);
    g->consumer = join(g);

    next_message(g->consumer, &first);
    struct lightq_record late = first.record;
    next_message(g->consumer, &second);
    assert_int_equal(second.record.deliveries, 2);
    assert_int_equal(lightq_consumer_ack(g->consumer, &late), LIGHTQ_OK); /* done is done */

    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 1));
}

static void test_group_pipeline_late_nack_is_told(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 20, 0);
    append(g, 1, 1);
    g->consumer = join(g);

    next_message(g->consumer, &event);
    struct lightq_record late = event.record;
    next_message(g->consumer, &event);
    assert_int_equal(lightq_consumer_nack(g->consumer, &late, 0), LIGHTQ_OK);
    do {
        next_event(g->consumer, &event); /* perhaps it expires again meanwhile */
    } while (event.kind == LIGHTQ_EVENT_MESSAGE);

    assert_int_equal(event.kind, LIGHTQ_EVENT_UNSETTLED);
    assert_true(event.error->status == LIGHTQ_ENOTHELD || event.error->status == LIGHTQ_ESETTLED);
    assert_int_equal(event.first, 0);
    assert_int_equal(event.end, 1);
}

static void test_group_pipeline_auto_ack_settles_what_was_before(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fixture_set(g->f, "enable.auto.ack", "true");
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 3);
    g->consumer = join(g);

    next_message(g->consumer, &event);
    assert_int_equal(fake_cluster_seen(g->f->cluster, LQ_MESSAGE_SETTLE), 0); /* it is being worked on */
    next_message(g->consumer, &event);
    next_message(g->consumer, &event);
    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 2));
    assert_int_equal(lightq_consumer_close(g->consumer, WAIT_MS), LIGHTQ_OK);
    g->consumer = NULL;

    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 3));
}

static void test_group_pipeline_seek_fences_what_was_given(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 10);
    g->consumer = join(g);
    next_message(g->consumer, &event);
    struct lightq_record old = event.record;

    fake_cluster_group_seek(g->f->cluster, "t", "g", 0, 5);
    do {
        next_event(g->consumer, &event);
    } while (event.kind == LIGHTQ_EVENT_MESSAGE); /* what was there already */
    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_EFENCED);
    assert_true(event.error->retriable);

    assert_int_equal(lightq_consumer_ack(g->consumer, &old), LIGHTQ_EFENCED);
    ack_offsets(g->consumer, 5, 5);
}

static void test_group_pipeline_deleted_group_is_told(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 1, 1);
    g->consumer = join(g);
    next_message(g->consumer, &event);
    struct lightq_record old = event.record;

    fake_cluster_group_drop(g->f->cluster, "t", "g", 0);
    next_event(g->consumer, &event);
    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_ack(g->consumer, &old), LIGHTQ_OK);
    next_event(g->consumer, &event);

    assert_int_equal(event.kind, LIGHTQ_EVENT_UNSETTLED);
    assert_int_equal(event.error->status, LIGHTQ_ENOTFOUND);
}

static void test_group_pipeline_credit_is_kept(void **state)
{
    struct grouped *g = *state;
    fixture_set(g->f, "prefetch.messages", "7");
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    append(g, 10, 10);
    g->consumer = join(g);

    ack_offsets(g->consumer, 0, 100);

    assert_true(fake_cluster_most_credit(g->f->cluster) <= 7);
}

/* A slow application: what waits for it does not fail, but the message that it has for too long does. */
static void test_group_pipeline_leases_of_waiting_messages_are_extended(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", true, 1200, 0);
    append(g, 3, 10);
    g->consumer = join(g);

    next_message(g->consumer, &event);
    assert_true(fake_cluster_wait_seen(g->f->cluster, LQ_MESSAGE_SETTLE, 4)); /* four thirds of the time */
    ack_offsets(g->consumer, 1, 29);
    next_message(g->consumer, &event);

    assert_int_equal(event.record.offset, 0);
    assert_int_equal(event.record.deliveries, 2);
    for (unsigned offset = 1; offset < 30; offset++) {
        assert_int_equal(fake_cluster_outcome(g->f->cluster, "t", "g", 0, offset).failed, 0);
    }
}

/* ---- joining and misuse */

static void test_group_join_refuses_what_cannot_be(void **state)
{
    struct grouped *g = *state;
    struct lightq_error error;
    struct lightq_record record = {.topic = "t", .offset = 0};
    const struct lightq_start begin = {.kind = LIGHTQ_START_BEGIN};
    fixture_set(g->f, "group.mode", "subscriber");
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    fixture_open(g->f, false);
    assert_int_equal(lightq_consumer_new(g->f->client, &g->consumer, NULL), LIGHTQ_OK);

    assert_int_equal(lightq_consumer_join(g->consumer, "t", NULL, 0, WAIT_MS, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_consumer_join(g->consumer, "t", "a b", 0, WAIT_MS, &error), LIGHTQ_ENAME);
    assert_int_equal(lightq_consumer_join(g->consumer, "t", "nope", 0, WAIT_MS, &error), LIGHTQ_ENOTFOUND);
    assert_non_null(strstr(error.text, "no group nope"));
    assert_int_equal(lightq_consumer_join(g->consumer, "nope", "g", 0, WAIT_MS, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_join(g->consumer, "t", "g", 0, WAIT_MS, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_consumer_ack(g->consumer, &record), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_commit(g->consumer, "t", 0, 1, WAIT_MS, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_subscribe(g->consumer, "t", 0, &begin, WAIT_MS, &error), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_ack(g->consumer, &record), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_nack(g->consumer, &record, -2), LIGHTQ_EINVAL);
    assert_int_equal(lightq_consumer_join(g->consumer, "t", "g", 0, WAIT_MS, &error), LIGHTQ_EEXISTS);
}

/* A partition that the topic got later does not have the group: who joins it makes it there. */
static void test_group_join_makes_it_in_later_partition(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fixture_set(g->f, "metadata.max.age.ms", "100");
    fake_cluster_group(g->f->cluster, "t", "g", true, 0, 0);
    g->consumer = join(g);

    fake_cluster_grow(g->f->cluster, "t", 3);
    fake_cluster_append(g->f->cluster, "t", 2, 77, "v", 5);
    for (int i = 0; i < 5; i++) {
        next_message(g->consumer, &event);
        assert_int_equal(event.record.partition, 2);
        assert_int_equal(event.record.offset, i);
        assert_int_equal(lightq_consumer_ack(g->consumer, &event.record), LIGHTQ_OK);
    }

    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 5));
}

/* ---- subscriber groups */

static void test_group_subscriber_goes_on_at_committed_position(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fixture_set(g->f, "group.id", "g");
    fixture_set(g->f, "enable.auto.commit", "false");
    fake_cluster_group(g->f->cluster, "t", "g", false, 0, 0);
    append(g, 2, 10);
    g->consumer = join(g);
    for (int64_t offset = 0; offset < 15; offset++) {
        next_message(g->consumer, &event);
        assert_int_equal(event.record.offset, offset);
        assert_int_equal(event.record.deliveries, 1);
    }
    assert_int_equal(lightq_consumer_ack(g->consumer, &event.record), LIGHTQ_EINVAL);

    assert_int_equal(lightq_consumer_commit(g->consumer, "t", 0, 12, WAIT_MS, NULL), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_commit(g->consumer, "t", 0, 5, WAIT_MS, NULL), LIGHTQ_OK); /* further already */
    assert_int_equal(lightq_consumer_commit(g->consumer, "t", 0, 500, WAIT_MS, NULL), LIGHTQ_EOUTOFRANGE);
    assert_int_equal(lightq_consumer_close(g->consumer, WAIT_MS), LIGHTQ_OK);
    g->consumer = NULL;
    g->other = join(g);

    next_message(g->other, &event);
    assert_int_equal(event.record.offset, 12);
}

static void test_group_subscriber_auto_commits_what_was_given(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fixture_set(g->f, "auto.commit.interval.ms", "1");
    fake_cluster_group(g->f->cluster, "t", "g", false, 0, 0);
    append(g, 1, 10);
    g->consumer = join(g);
    for (int i = 0; i < 7; i++) {
        next_message(g->consumer, &event);
    }

    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    while (fake_cluster_seen(g->f->cluster, LQ_MESSAGE_COMMIT) == 0 &&
           lq_deadline_left_ms(lq_clock_system(), deadline_us) > 0) {
        assert_int_equal(lightq_consumer_poll(g->consumer, 1, &event), LIGHTQ_OK);
    }
    assert_true(fake_cluster_seen(g->f->cluster, LQ_MESSAGE_COMMIT) > 0);
    assert_int_equal(lightq_consumer_close(g->consumer, WAIT_MS), LIGHTQ_OK);
    g->consumer = NULL;

    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 7) ||
                fake_cluster_wait_settled(g->f->cluster, "t", "g", 10)); /* as many as the last polls gave */
}

static void test_group_subscriber_goes_on_behind_what_it_read_after_leader_change(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", false, 0, 0);
    append(g, 2, 10);
    g->consumer = join(g);
    for (int64_t offset = 0; offset < 20; offset++) {
        next_message(g->consumer, &event);
    }

    fake_cluster_kill(g->f->cluster, 1);
    fake_cluster_lead(g->f->cluster, "t", 0, 3);
    append(g, 1, 5);
    next_message(g->consumer, &event);
    assert_int_equal(event.record.offset, 20); /* not what is committed */
    assert_int_equal(lightq_consumer_commit(g->consumer, "t", LIGHTQ_PARTITION_ANY, 0, WAIT_MS, NULL), LIGHTQ_OK);

    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 21));
}

static void test_group_subscriber_seek_of_the_group_moves_its_consumers(void **state)
{
    struct grouped *g = *state;
    struct lightq_event event;
    fake_cluster_group(g->f->cluster, "t", "g", false, 0, 0);
    append(g, 2, 10);
    g->consumer = join(g);
    for (int i = 0; i < 20; i++) {
        next_message(g->consumer, &event);
    }

    fake_cluster_group_seek(g->f->cluster, "t", "g", 0, 3);
    next_event(g->consumer, &event);
    assert_int_equal(event.kind, LIGHTQ_EVENT_ERROR);
    assert_int_equal(event.error->status, LIGHTQ_EFENCED);
    next_message(g->consumer, &event);

    assert_int_equal(event.record.offset, 3);
    assert_int_equal(lightq_consumer_commit(g->consumer, "t", 0, 4, WAIT_MS, NULL), LIGHTQ_OK);
    assert_true(fake_cluster_wait_settled(g->f->cluster, "t", "g", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_group_pipeline_acks_settle_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_ack_many_is_one_range, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_shares_between_consumers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_nack_comes_again_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_reject_is_dead_and_return_has_not_failed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_ack_sync_says_what_is_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_settle_is_sent_again_after_lost_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_leader_change_acks_all_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_close_gives_back_what_is_not_settled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_expired_lease_comes_again_and_late_ack_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_late_nack_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_auto_ack_settles_what_was_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_seek_fences_what_was_given, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_deleted_group_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_credit_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_pipeline_leases_of_waiting_messages_are_extended, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_join_refuses_what_cannot_be, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_join_makes_it_in_later_partition, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_subscriber_goes_on_at_committed_position, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_subscriber_auto_commits_what_was_given, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_subscriber_goes_on_behind_what_it_read_after_leader_change, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_group_subscriber_seek_of_the_group_moves_its_consumers, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
