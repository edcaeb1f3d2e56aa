/* tests/unit/client/test_producer_faults.c - a producer whose servers redirect, lose leaders, die, hang, answer
 * garbage: what is acknowledged is stored once and in order, and doubt is called doubt (cases G1, G5). */
#include "tests/unit/client/client_fixture.h"

#include <stdlib.h>

#include "client/lib/wait.h"

#define MANY 2000

static void rule(struct fixture *f, unsigned after, unsigned times, enum fake_action action, lightq_status status)
{
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){
            .type = LQ_MESSAGE_PRODUCE, .after = after, .times = times, .action = action, .status = status});
}

/* All @count messages from 0 on were acknowledged with their true offsets, and lie in the log once, in order. */
static void assert_all_stored(struct fixture *f, size_t count)
{
    assert_int_equal(f->report_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(f->reports[i].status, LIGHTQ_OK);
        assert_int_equal((uintptr_t)f->reports[i].opaque, i);
        assert_int_equal(f->reports[i].offset, i);
    }
    fixture_assert_log(f, 0, 0, count);
}

static void send_small_batches(struct fixture *f)
{
    fixture_set(f, "window.messages", "100"); /* so that a batch has 25 messages, and several are under way */
    fixture_open(f, true);
}

static void test_producer_follows_redirect_to_leader(void **state)
{
    struct fixture *f = *state;
    fake_cluster_lead_secretly(f->cluster, "t", 0, 2); /* all servers still name node 1 */
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){
            .type = LQ_MESSAGE_PRODUCE, .node = 1, .action = FAKE_ANSWER, .status = LIGHTQ_ENOTLEADER, .leader = 2});
    fixture_open(f, true);

    fixture_send_many(f, 0, 0, 100);
    fixture_wait_reports(f, 100);

    assert_all_stored(f, 100);
}

static void test_producer_asks_again_when_nobody_is_named(void **state)
{
    struct fixture *f = *state;
    fake_cluster_lead_secretly(f->cluster, "t", 0, 2);
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .node = 1, .action = FAKE_ANSWER, .status = LIGHTQ_ENOTLEADER});
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 100);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 2));

    fake_cluster_tell(f->cluster);
    fixture_wait_reports(f, 100);

    assert_all_stored(f, 100);
}

static void test_producer_keeps_order_over_lost_answers(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "request.timeout.ms", "100");
    send_small_batches(f);
    rule(f, 3, 1, FAKE_STORE_DROP, LIGHTQ_OK);
    rule(f, 9, 2, FAKE_DROP, LIGHTQ_OK);
    rule(f, 20, 1, FAKE_STORE_DROP, LIGHTQ_OK);

    fixture_send_many(f, 0, 0, MANY);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
}

static void test_producer_keeps_order_over_lost_connections(void **state)
{
    struct fixture *f = *state;
    send_small_batches(f);
    rule(f, 2, 1, FAKE_STORE_CLOSE, LIGHTQ_OK);
    rule(f, 5, 1, FAKE_CLOSE, LIGHTQ_OK);
    rule(f, 17, 1, FAKE_STORE_CLOSE, LIGHTQ_OK);

    fixture_send_many(f, 0, 0, MANY);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
}

static void test_producer_keeps_order_over_refused_batches(void **state)
{
    static const lightq_status passing[] = {LIGHTQ_EBUSY,     LIGHTQ_ENOTREADY, LIGHTQ_ETIMEDOUT,
                                            LIGHTQ_ENOLEADER, LIGHTQ_ESTOPPED,  LIGHTQ_ELEADERSHIPLOST,
                                            LIGHTQ_EIO,       LIGHTQ_ENOTFOUND};
    struct fixture *f = *state;
    send_small_batches(f);
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        rule(f, 4, 1, i % 2 == 0 ? FAKE_ANSWER : FAKE_STORE_ANSWER, passing[i]);
    }

    fixture_send_many(f, 0, 0, MANY);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
}

static void test_producer_goes_on_when_leader_is_killed(void **state)
{
    struct fixture *f = *state;
    send_small_batches(f);
    fixture_send_many(f, 0, 0, MANY / 2);
    uint64_t began_us = lq_clock_monotonic_us(lq_clock_system());

    fake_cluster_kill(f->cluster, 1);
    fake_cluster_lead(f->cluster, "t", 0, 2);
    fixture_send_many(f, 0, MANY / 2, MANY / 2);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
    assert_true(lq_clock_monotonic_us(lq_clock_system()) - began_us < 5000000); /* by the loss, not by a time-out */
}

static void test_producer_goes_on_when_leader_hangs(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "heartbeat.interval.ms", "50");
    fixture_set(f, "heartbeat.timeout.ms", "60s"); /* the connection is not given up: others are asked */
    send_small_batches(f);
    fixture_send_many(f, 0, 0, MANY / 2);
    fixture_wait_reports(f, MANY / 2);

    fake_cluster_freeze(f->cluster, 1, true);
    assert_int_equal(fixture_send(f, 0, MANY / 2), LIGHTQ_OK);
    fake_cluster_lead(f->cluster, "t", 0, 3);
    fixture_send_many(f, 0, MANY / 2 + 1, MANY / 2 - 1);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
    fake_cluster_freeze(f->cluster, 1, false);
}

/* Polls until the application is told of trouble. */
static void wait_error(struct fixture *f)
{
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    while (f->error_count == 0) {
        int left_ms = lq_deadline_left_ms(lq_clock_system(), deadline_us);
        assert_true(left_ms > 0);
        assert_int_equal(lightq_producer_poll(f->producer, left_ms, NULL), LIGHTQ_OK);
    }
}

static void test_producer_gives_up_silent_connection(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "heartbeat.interval.ms", "20");
    fixture_set(f, "heartbeat.timeout.ms", "100");
    fixture_set(f, "bootstrap.servers", fake_cluster_address(f->cluster, 1));
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    fake_cluster_freeze(f->cluster, 1, true);
    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK);
    wait_error(f);
    fake_cluster_freeze(f->cluster, 1, false);
    fixture_wait_reports(f, 2);

    assert_non_null(strstr(f->errors[0].text, "silent"));
    assert_true(fake_cluster_seen(f->cluster, LQ_MESSAGE_HELLO) >= 2);
    assert_all_stored(f, 2);
}

/* Cases G1, G5: leadership goes round while messages flow. */
static void test_producer_moving_leader_doubles_and_reorders_nothing(void **state)
{
    struct fixture *f = *state;
    send_small_batches(f);

    for (unsigned i = 0; i < 40; i++) {
        fixture_send_many(f, 0, i * 50, 50);
        fake_cluster_lead(f->cluster, "t", 0, 1 + (i + 1) % 3);
    }
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
}

static void test_producer_reconnects_to_restarted_server(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 10);
    fixture_wait_reports(f, 10);

    fake_cluster_kill(f->cluster, 1);
    assert_int_equal(fixture_send(f, 0, 10), LIGHTQ_OK);
    fake_cluster_start(f->cluster, 1);
    fixture_wait_reports(f, 11);

    assert_all_stored(f, 11);
}

/* A node that was away becomes leader: its word counts more than the wait after the tries that failed. */
static void test_producer_new_leader_is_called_at_once(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "reconnect.backoff.ms", "1m");
    fixture_set(f, "reconnect.backoff.max.ms", "1m");
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fake_cluster_kill(f->cluster, 2);
    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);

    fake_cluster_start(f->cluster, 2);
    fake_cluster_lead(f->cluster, "t", 0, 2);
    fixture_send_many(f, 0, 2, 1);
    fixture_wait_reports(f, 3);

    assert_all_stored(f, 3);
}

static void test_producer_garbage_answers_do_not_count(void **state)
{
    static const enum fake_action actions[] = {FAKE_GARBAGE, FAKE_OTHER_TYPE, FAKE_MANY_FRAMES};
    struct fixture *f = *state;
    send_small_batches(f);
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        rule(f, 3, 1, actions[i], LIGHTQ_OK);
    }

    fixture_send_many(f, 0, 0, MANY);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
}

static void test_producer_duplicate_without_offset_counts_as_stored(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    rule(f, 0, 1, FAKE_STORE_ANSWER, LIGHTQ_EDUPLICATE);

    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK);
    fixture_wait_reports(f, 1);

    assert_int_equal(f->reports[0].status, LIGHTQ_EDUPLICATE);
    assert_int_equal(f->reports[0].offset, LIGHTQ_OFFSET_UNKNOWN);
    assert_false(f->reports[0].in_doubt);
    fixture_assert_log(f, 0, 0, 1);
}

static void test_producer_refused_batch_fails_and_next_ones_are_stored(void **state)
{
    static const lightq_status refusals[] = {LIGHTQ_ENOSPC, LIGHTQ_EAUTH, LIGHTQ_EINVAL, LIGHTQ_EUNSUPPORTED};
    struct fixture *f = *state;
    fixture_set(f, "window.messages", "4"); /* a message is a batch */
    fixture_open(f, true);

    for (size_t i = 0; i < 4; i++) {
        fake_cluster_no_rules(f->cluster);
        rule(f, 0, 1, FAKE_ANSWER, refusals[i]);
        fixture_send_many(f, 0, i * 4, 4);
        fixture_wait_reports(f, (i + 1) * 4);
    }

    unsigned failed = 0;
    for (size_t i = 0; i < 16; i++) {
        failed += f->reports[i].status != LIGHTQ_OK;
        assert_false(f->reports[i].in_doubt);
    }
    assert_int_equal(failed, 4);
    struct fake_message stored[16];
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 16), 12);
    for (size_t i = 0; i < 12; i++) { /* in order, each once, over the new epochs, with the numbers they had */
        assert_int_equal(stored[i].producer, stored[0].producer);
        assert_int_equal(stored[i].sequence, (uint64_t)atoi(stored[i].value + 1));
        assert_true(i == 0 || (stored[i - 1].sequence < stored[i].sequence && stored[i - 1].epoch <= stored[i].epoch));
    }
    assert_int_equal(stored[11].epoch, 4);
}

static void test_producer_forgotten_by_leader_goes_on_in_new_epoch(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 10);
    fixture_wait_reports(f, 10);

    fake_cluster_forget_producers(f->cluster);
    fixture_send_many(f, 0, 10, 10);
    fixture_wait_reports(f, 20);

    assert_all_stored(f, 20);
    assert_int_equal(f->reports[0].producer, f->reports[19].producer);
    assert_int_equal(f->reports[19].sequence, 19);
}

/* The first batch may be stored (its answer was lost), and the leader does not know the producer any more: sending it
 * again could store it twice, so it is in doubt; what was certainly not stored goes on. */
static void test_producer_forgotten_with_doubt_reports_doubt(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[4];
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    rule(f, 0, 1, FAKE_STORE_CLOSE, LIGHTQ_OK);
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE,
                                                     .times = 1,
                                                     .action = FAKE_ANSWER,
                                                     .status = LIGHTQ_EOUTOFSEQUENCE});

    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);
    fixture_send_many(f, 0, 2, 1);
    fixture_wait_reports(f, 3);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_ETIMEDOUT);
    assert_true(fixture_report(f, 1)->in_doubt);
    assert_int_equal(fixture_report(f, 2)->status, LIGHTQ_OK);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 4), 3); /* it was stored, and once */
}

static void test_producer_delivery_timeout_of_sent_message_is_doubt(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "delivery.timeout.ms", "1000"); /* enough for it to be sent, and for the others to be stored */
    fixture_open(f, true);
    rule(f, 0, 1, FAKE_STORE_DROP, LIGHTQ_OK);

    assert_int_equal(fixture_send(f, 0, 0), LIGHTQ_OK);
    fixture_wait_reports(f, 1);
    fixture_send_many(f, 0, 1, 5);
    fixture_wait_reports(f, 6);

    assert_int_equal(fixture_report(f, 0)->status, LIGHTQ_ETIMEDOUT);
    assert_true(fixture_report(f, 0)->in_doubt);
    assert_int_equal(fixture_report(f, 5)->status, LIGHTQ_OK);
    fixture_assert_log(f, 0, 0, 6);
}

static void test_producer_delivery_timeout_without_leader_is_no_doubt(void **state)
{
    struct fixture *f = *state;
    fake_cluster_lead(f->cluster, "t", 0, 0);
    fixture_set(f, "delivery.timeout.ms", "100");
    fixture_open(f, true);

    fixture_send_many(f, 0, 0, 3);
    fixture_wait_reports(f, 3);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->reports[i].status, LIGHTQ_ETIMEDOUT);
        assert_false(f->reports[i].in_doubt);
    }
    fixture_assert_log(f, 0, 0, 0);
}

static void test_producer_waits_for_leader_that_comes_later(void **state)
{
    struct fixture *f = *state;
    fake_cluster_lead(f->cluster, "t", 0, 0);
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 3);
    unsigned asked = fake_cluster_seen(f->cluster, LQ_MESSAGE_METADATA);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_METADATA, asked + 3));

    fake_cluster_lead(f->cluster, "t", 0, 3);
    fixture_wait_reports(f, 3);

    assert_all_stored(f, 3);
}

/* The library does not know this limit: the leader refuses the batch, and only the message itself shall fail. */
static void test_producer_batch_with_message_too_big_is_split(void **state)
{
    struct fixture *f = *state;
    char big[300];
    struct lightq_message message = {
        .topic = "t", .value = memset(big, 'b', sizeof big), .value_size = sizeof big, .opaque = (void *)2};
    fixture_set(f, "request.timeout.ms", "200");
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fake_cluster_message_max(f->cluster, 200);
    rule(f, 0, 1, FAKE_STORE_DROP, LIGHTQ_OK); /* keeps the lane busy, so that the next ones share a batch */
    fixture_send_many(f, 0, 1, 1);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 2));

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    fixture_send_many(f, 0, 3, 3);
    assert_int_equal(lightq_producer_flush(f->producer, 1), LIGHTQ_ETIMEDOUT);
    fixture_wait_reports(f, 6);

    assert_int_equal(fixture_report(f, 2)->status, LIGHTQ_ETOOBIG);
    for (uintptr_t i = 3; i < 6; i++) {
        assert_int_equal(fixture_report(f, i)->status, LIGHTQ_OK);
        assert_int_equal(fixture_report(f, i)->producer, fixture_report(f, 0)->producer);
        assert_int_equal(fixture_report(f, i)->sequence, i); /* a message keeps its number */
    }
    struct fake_message stored[8];
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 8), 5);
    assert_string_equal(stored[2].value, "m3");
    assert_string_equal(stored[4].value, "m5");
}

/* Two are in doubt, the one behind them is stored, the last is in doubt too, and then the leader knows none of them:
 * none of those in doubt is sent again. */
static void test_producer_doubt_around_a_known_outcome_stays_doubt(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "request.timeout.ms", "200");
    fixture_set(f, "window.messages", "4"); /* so that each message is a batch, and all are under way */
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    rule(f, 0, 2, FAKE_STORE_DROP, LIGHTQ_OK);
    rule(f, 1, 1, FAKE_STORE_DROP, LIGHTQ_OK);
    rule(f, 0, 1, FAKE_ANSWER, LIGHTQ_EOUTOFSEQUENCE);
    rule(f, 0, 2, FAKE_DROP, LIGHTQ_OK);

    fixture_send_many(f, 0, 1, 4);
    fixture_wait_reports(f, 5);
    fixture_send_many(f, 0, 5, 1);
    fixture_wait_reports(f, 6);

    for (uintptr_t i = 1; i < 6; i++) {
        bool known = i == 3 || i == 5;
        assert_int_equal(fixture_report(f, i)->status, known ? LIGHTQ_OK : LIGHTQ_ETIMEDOUT);
        assert_true(fixture_report(f, i)->in_doubt == !known);
    }
    fixture_assert_log(f, 0, 0, 6); /* each once */
}

/* The batch behind it was under way already: it must not overtake the messages that are sent again one by one. */
static void test_producer_split_batch_keeps_its_place(void **state)
{
    struct fixture *f = *state;
    char big[300];
    struct lightq_message message = {
        .topic = "t", .value = memset(big, 'b', sizeof big), .value_size = sizeof big, .opaque = (void *)2};
    fixture_set(f, "request.timeout.ms", "200");
    send_small_batches(f);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fake_cluster_message_max(f->cluster, 200);
    rule(f, 0, 1, FAKE_STORE_DROP, LIGHTQ_OK); /* keeps the lane busy, so that the next ones share a batch */
    fixture_send_many(f, 0, 1, 1);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 2));

    assert_int_equal(lightq_producer_send(f->producer, &message), LIGHTQ_OK);
    fixture_send_many(f, 0, 3, 60);
    assert_int_equal(lightq_producer_flush(f->producer, 1), LIGHTQ_ETIMEDOUT);
    fixture_wait_reports(f, 63);

    assert_int_equal(fixture_report(f, 2)->status, LIGHTQ_ETOOBIG);
    struct fake_message stored[64];
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 64), 62);
    for (unsigned i = 2; i < 62; i++) {
        char value[16];
        snprintf(value, sizeof value, "m%u", i + 1);
        assert_string_equal(stored[i].value, value);
        assert_int_equal(fixture_report(f, i + 1)->status, LIGHTQ_OK);
    }
}

static void test_producer_deleted_topic_fails_its_messages(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    fake_cluster_drop_topic(f->cluster, "t");
    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK);
    fixture_wait_reports(f, 2);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_ENOTFOUND);
    assert_int_equal(fixture_send(f, 0, 2), LIGHTQ_ENOTFOUND);
}

static void test_producer_topic_made_again_is_another_one(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    fake_cluster_drop_topic(f->cluster, "t");
    fake_cluster_topic(f->cluster, "t", 1);
    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK); /* for the one we knew */
    fixture_wait_reports(f, 2);
    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_ENOTFOUND);
    assert_int_equal(fixture_report(f, 3)->status, LIGHTQ_OK);
    fixture_assert_log(f, 0, 2, 2);
}

/* A server that does not know a topic yet is not believed while another one does. */
static void test_producer_server_behind_does_not_hide_topic(void **state)
{
    struct fixture *f = *state;
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_METADATA, .node = 2, .action = FAKE_ANSWER, .status = LIGHTQ_ENOTREADY});
    fixture_open(f, true);

    fixture_send_many(f, 0, 0, 5);
    fixture_wait_reports(f, 5);

    assert_all_stored(f, 5);
}

static void test_producer_without_idempotence_still_keeps_order(void **state)
{
    struct fixture *f = *state;
    fixture_set(f, "enable.idempotence", "false");
    send_small_batches(f);
    rule(f, 3, 1, FAKE_ANSWER, LIGHTQ_EBUSY);
    rule(f, 9, 1, FAKE_CLOSE, LIGHTQ_OK);

    fixture_send_many(f, 0, 0, MANY);
    fixture_wait_reports(f, MANY);

    assert_all_stored(f, MANY);
    assert_int_equal(f->reports[0].producer, 0);
}

static void test_producer_tells_when_no_server_is_left(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    for (unsigned node = 1; node <= 3; node++) {
        fake_cluster_kill(f->cluster, node);
    }
    wait_error(f);

    assert_int_equal(f->errors[0].status, LIGHTQ_ECONNECT);
    assert_true(f->errors[0].retriable);
    assert_false(f->errors[0].fatal);
    for (unsigned node = 1; node <= 3; node++) {
        fake_cluster_start(f->cluster, node);
    }
    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);
    assert_all_stored(f, 2);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_producer_follows_redirect_to_leader),
        WITH_FIXTURE(test_producer_asks_again_when_nobody_is_named),
        WITH_FIXTURE(test_producer_keeps_order_over_lost_answers),
        WITH_FIXTURE(test_producer_keeps_order_over_lost_connections),
        WITH_FIXTURE(test_producer_keeps_order_over_refused_batches),
        WITH_FIXTURE(test_producer_goes_on_when_leader_is_killed),
        WITH_FIXTURE(test_producer_goes_on_when_leader_hangs),
        WITH_FIXTURE(test_producer_gives_up_silent_connection),
        WITH_FIXTURE(test_producer_moving_leader_doubles_and_reorders_nothing),
        WITH_FIXTURE(test_producer_reconnects_to_restarted_server),
        WITH_FIXTURE(test_producer_new_leader_is_called_at_once),
        WITH_FIXTURE(test_producer_garbage_answers_do_not_count),
        WITH_FIXTURE(test_producer_duplicate_without_offset_counts_as_stored),
        WITH_FIXTURE(test_producer_refused_batch_fails_and_next_ones_are_stored),
        WITH_FIXTURE(test_producer_forgotten_by_leader_goes_on_in_new_epoch),
        WITH_FIXTURE(test_producer_forgotten_with_doubt_reports_doubt),
        WITH_FIXTURE(test_producer_delivery_timeout_of_sent_message_is_doubt),
        WITH_FIXTURE(test_producer_delivery_timeout_without_leader_is_no_doubt),
        WITH_FIXTURE(test_producer_waits_for_leader_that_comes_later),
        WITH_FIXTURE(test_producer_batch_with_message_too_big_is_split),
        WITH_FIXTURE(test_producer_split_batch_keeps_its_place),
        WITH_FIXTURE(test_producer_doubt_around_a_known_outcome_stays_doubt),
        WITH_FIXTURE(test_producer_deleted_topic_fails_its_messages),
        WITH_FIXTURE(test_producer_topic_made_again_is_another_one),
        WITH_FIXTURE(test_producer_server_behind_does_not_hide_topic),
        WITH_FIXTURE(test_producer_without_idempotence_still_keeps_order),
        WITH_FIXTURE(test_producer_tells_when_no_server_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
