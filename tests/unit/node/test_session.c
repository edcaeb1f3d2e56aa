/* tests/unit/node/test_session.c - node/session.c: who is connected, and what each may have. */
#include "tests/unit/node/client_fixture.h"

#include "node/session.h"
#include "tests/lib/alloc_fail.h"

#define PEER 7

struct fixture {
    struct lq_options options;
    struct hand_clock clock;
    struct fake_outlet outlet;
    struct lq_counters counters;
    struct lq_sessions *sessions;
    unsigned ended, unblocked;
};

static void on_ended(void *owner, struct lq_session *session)
{
    struct fixture *f = owner;
    assert_int_not_equal(session->number, 0);
    f->ended++;
}

static void on_unblocked(void *owner, struct lq_session *session)
{
    struct fixture *f = owner;
    assert_int_not_equal(session->number, 0);
    f->unblocked++;
}

static const struct lq_sessions_events events = {.ended = on_ended, .unblocked = on_unblocked};
static const struct lq_id cluster = {{1, 2, 3}};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    lq_log_configure(LQ_LOG_OFF, 2);
    assert_int_equal(lq_options_init(&f->options), LIGHTQ_OK);
    assert_int_equal(lq_options_check(&f->options, NULL), LIGHTQ_OK);
    hand_clock_init(&f->clock);
    outlet_init(&f->outlet);
    assert_int_equal(
        lq_sessions_new(&f->options, &f->outlet.outlet, &f->clock.clock, &f->counters, &events, f, &f->sessions),
        LIGHTQ_OK);
    lq_sessions_serve(f->sessions, &cluster);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    outlet_forget(&f->outlet);
    lq_sessions_free(f->sessions);
    lq_options_deinit(&f->options);
    free(f);
    return 0;
}

static void say_hello(struct fixture *f, lq_peer peer)
{
    Lightq__Wire__Hello hello = LIGHTQ__WIRE__HELLO__INIT;
    hello.version_min = hello.version_max = 1;
    lq_sessions_hello(f->sessions, peer, 99, &hello);
}

static struct lq_session *open_session(struct fixture *f, lq_peer peer)
{
    say_hello(f, peer);
    const struct sent_message *sent = outlet_take(&f->outlet, peer, LQ_MESSAGE_HELLO_ANSWER);
    assert_int_equal(((Lightq__Wire__HelloAnswer *)sent->body)->status, LIGHTQ_OK);
    struct lq_session *session = lq_sessions_heard(f->sessions, peer);
    assert_non_null(session);
    return session;
}

/* An answer of about @size bytes. */
static void answer(struct fixture *f, struct lq_session *session, uint64_t correlation, size_t size)
{
    char text[4096];
    assert_true(size < sizeof text);
    memset(text, 'x', size);
    text[size] = '\0';
    lq_session_error(f->sessions, session, correlation, LIGHTQ_EBUSY, text);
}

static void advance_ms(struct fixture *f, uint64_t ms)
{
    f->clock.now_us += ms * 1000;
    lq_sessions_tick(f->sessions);
}

static void test_session_hello_opens_one_and_tells_limits(void **state)
{
    struct fixture *f = *state;

    say_hello(f, PEER);

    const struct sent_message *sent = outlet_take(&f->outlet, PEER, LQ_MESSAGE_HELLO_ANSWER);
    const Lightq__Wire__HelloAnswer *body = sent->body;
    struct lq_id id;
    assert_int_equal(sent->envelope.correlation, 99);
    assert_int_equal(body->status, LIGHTQ_OK);
    assert_int_equal(body->version, 1);
    assert_int_equal(body->node, 1);
    assert_int_equal(body->message_bytes_max, 1 << 20);
    assert_true(body->batch_bytes_max > body->message_bytes_max);
    assert_int_equal(body->heartbeat_ms * 3, 9999);
    assert_int_equal(lq_codec_id(&body->cluster, &id), LIGHTQ_OK);
    assert_true(lq_id_equal(&id, &cluster));
    assert_non_null(lq_sessions_find(f->sessions, body->session));
    assert_int_equal(f->counters.sessions, 1);
}

static void test_session_hello_of_other_version_or_cluster_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lq_id other = {{9}};
    Lightq__Wire__Hello hello = LIGHTQ__WIRE__HELLO__INIT;

    hello.version_min = hello.version_max = LQ_PROTOCOL_VERSION_MAX + 1;
    lq_sessions_hello(f->sessions, PEER, 1, &hello);
    hello.version_min = 2;
    hello.version_max = 1;
    lq_sessions_hello(f->sessions, PEER, 1, &hello);
    hello.version_min = hello.version_max = 1;
    hello.cluster = lq_codec_bytes_of(&other);
    lq_sessions_hello(f->sessions, PEER, 1, &hello);
    hello.cluster.len = 3;
    lq_sessions_hello(f->sessions, PEER, 1, &hello);

    static const lightq_status expected[] = {LIGHTQ_EVERSION, LIGHTQ_EVERSION, LIGHTQ_EIDENTITY, LIGHTQ_EIDENTITY};
    for (size_t i = 0; i < 4; i++) {
        const struct sent_message *sent = outlet_take(&f->outlet, PEER, LQ_MESSAGE_HELLO_ANSWER);
        assert_int_equal(((Lightq__Wire__HelloAnswer *)sent->body)->status, expected[i]);
    }
    assert_null(lq_sessions_heard(f->sessions, PEER));
    assert_int_equal(f->counters.sessions_refused, 4);
}

static void test_session_hello_before_serving_says_why_not(void **state)
{
    struct fixture *f = *state;
    lq_sessions_refuse(f->sessions, "seed 3 does not answer");

    say_hello(f, PEER);

    const Lightq__Wire__HelloAnswer *body = outlet_take(&f->outlet, PEER, LQ_MESSAGE_HELLO_ANSWER)->body;
    assert_int_equal(body->status, LIGHTQ_ENOTREADY);
    assert_string_equal(body->text, "seed 3 does not answer");
    assert_int_equal(lq_sessions_count(f->sessions), 0);
}

static void test_session_second_hello_begins_anew(void **state)
{
    struct fixture *f = *state;
    uint64_t first = open_session(f, PEER)->number;

    uint64_t second = open_session(f, PEER)->number;

    assert_int_not_equal(first, second);
    assert_null(lq_sessions_find(f->sessions, first));
    assert_int_equal(f->ended, 1);
    assert_int_equal(lq_sessions_count(f->sessions), 1);
}

static void test_session_silent_one_is_told_bye_and_closed(void **state)
{
    struct fixture *f = *state;
    uint64_t number = open_session(f, PEER)->number;
    (void)open_session(f, 8);

    for (int i = 0; i < 11; i++) {
        advance_ms(f, 1000);
        (void)lq_sessions_heard(f->sessions, 8);
    }

    assert_null(lq_sessions_find(f->sessions, number));
    assert_null(lq_sessions_heard(f->sessions, PEER));
    assert_non_null(lq_sessions_heard(f->sessions, 8));
    assert_int_equal(f->ended, 1);
    assert_int_equal(f->counters.sessions_expired, 1);
    assert_int_equal(f->outlet.closed, 1);
    assert_int_equal(f->outlet.last_closed, PEER);
    assert_int_equal(f->outlet.last_close, LQ_CLOSE_WRITTEN);
    const struct sent_message *last = NULL;
    while (outlet_left(&f->outlet) > 0) {
        const struct sent_message *sent = &f->outlet.sent[f->outlet.seen++];
        last = sent->peer == PEER ? sent : last;
    }
    assert_non_null(last);
    assert_int_equal(last->envelope.type, LQ_MESSAGE_BYE);
    assert_int_equal(((Lightq__Wire__Bye *)last->body)->status, LIGHTQ_ETIMEDOUT);
}

static void test_session_none_expires_while_the_node_itself_was_stopped(void **state)
{
    struct fixture *f = *state;
    (void)open_session(f, PEER);

    advance_ms(f, 60000); /* nobody could be heard */
    assert_int_equal(lq_sessions_count(f->sessions), 1);
    for (int i = 0; i < 11; i++) {
        advance_ms(f, 1000);
    }

    assert_int_equal(lq_sessions_count(f->sessions), 0);
}

static void test_session_quiet_node_gives_signs_of_life(void **state)
{
    struct fixture *f = *state;
    uint64_t number = open_session(f, PEER)->number;

    for (int i = 0; i < 100; i++) {
        advance_ms(f, 100);
        (void)lq_sessions_heard(f->sessions, PEER);
    }

    const struct sent_message *sent = outlet_take(&f->outlet, PEER, LQ_MESSAGE_HEARTBEAT);
    assert_int_equal(((Lightq__Wire__Heartbeat *)sent->body)->session, number);
    assert_in_range(outlet_left(&f->outlet), 2, 3);
}

static void test_session_bye_forgets_it(void **state)
{
    struct fixture *f = *state;
    struct lq_session *session = open_session(f, PEER);

    lq_sessions_bye(f->sessions, session);

    assert_null(lq_sessions_heard(f->sessions, PEER));
    assert_int_equal(f->ended, 1);
}

static void test_session_of_closed_connection_ends(void **state)
{
    struct fixture *f = *state;
    (void)open_session(f, PEER);
    (void)open_session(f, 8);

    lq_sessions_closed(f->sessions, PEER);
    lq_sessions_closed(f->sessions, PEER);
    lq_sessions_closed(f->sessions, 9); /* never said HELLO */

    assert_null(lq_sessions_heard(f->sessions, PEER));
    assert_non_null(lq_sessions_heard(f->sessions, 8));
    assert_int_equal(f->ended, 1);
}

static void test_session_broken_off_is_told_and_closed(void **state)
{
    struct fixture *f = *state;
    (void)open_session(f, PEER);

    lq_sessions_break_off(f->sessions, PEER, 5, LIGHTQ_EPROTO, "no");
    assert_int_equal(f->outlet.last_closed, PEER);
    lq_sessions_break_off(f->sessions, 9, 0, LIGHTQ_EPROTO, "stranger");

    const struct sent_message *sent = outlet_take(&f->outlet, PEER, LQ_MESSAGE_ERROR);
    assert_int_equal(((Lightq__Wire__Error *)sent->body)->status, LIGHTQ_EPROTO);
    assert_int_equal(sent->envelope.correlation, 5);
    (void)outlet_take(&f->outlet, 9, LQ_MESSAGE_ERROR);
    assert_null(lq_sessions_heard(f->sessions, PEER));
    assert_null(lq_sessions_heard(f->sessions, 9));
    assert_int_equal(f->outlet.closed, 2);
    assert_int_equal(f->outlet.last_closed, 9);
    assert_int_equal(f->outlet.last_close, LQ_CLOSE_WRITTEN);
    assert_int_equal(f->ended, 1);
}

static void test_session_beyond_the_most_is_refused(void **state)
{
    struct fixture *f = *state;
    f->options.sessions_max = 2;
    (void)open_session(f, 1);
    (void)open_session(f, 2);

    say_hello(f, 3);
    assert_int_equal(((Lightq__Wire__HelloAnswer *)outlet_take(&f->outlet, 3, LQ_MESSAGE_HELLO_ANSWER)->body)->status,
                     LIGHTQ_ELIMIT);

    (void)open_session(f, 2); /* in place of the one it had */
    lq_sessions_closed(f->sessions, 1);
    (void)open_session(f, 3);
}

static void test_session_answers_wait_in_order_while_connection_is_full(void **state)
{
    struct fixture *f = *state;
    struct lq_session *session = open_session(f, PEER);
    f->outlet.room = 1;

    for (uint64_t i = 0; i < 5; i++) {
        answer(f, session, i, 10);
    }
    assert_true(lq_sessions_turn(f->sessions));
    f->outlet.room = 2;
    assert_true(lq_sessions_turn(f->sessions));
    assert_int_equal(f->unblocked, 0);
    f->outlet.room = SIZE_MAX;
    assert_false(lq_sessions_turn(f->sessions));

    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(outlet_take(&f->outlet, PEER, LQ_MESSAGE_ERROR)->envelope.correlation, i);
    }
    assert_int_equal(f->unblocked, 1);
}

/* Its connection is being closed: nothing is sent, and it ends when that is told. */
static void assert_lost(struct fixture *f, struct lq_session *session)
{
    size_t sent = f->outlet.count;
    assert_true(session->lost);
    assert_int_equal(f->outlet.closed, 1);
    assert_int_equal(f->outlet.last_closed, PEER);
    assert_int_equal(f->outlet.last_close, LQ_CLOSE_NOW);
    assert_int_equal(f->ended, 0);
    assert_int_equal(session->waiting_bytes, 0);
    assert_false(lq_sessions_turn(f->sessions));
    f->outlet.status = LIGHTQ_OK;
    f->outlet.room = SIZE_MAX;
    answer(f, session, 1, 10);
    assert_int_equal(f->outlet.count, sent);
    lq_sessions_closed(f->sessions, PEER);
    assert_int_equal(f->ended, 1);
}

static void test_session_that_takes_no_answers_is_closed(void **state)
{
    struct fixture *f = *state;
    f->options.session_bytes_max = 10000;
    struct lq_session *session = open_session(f, PEER);
    f->outlet.room = 0;

    while (!session->lost) {
        assert_true(session->waiting_bytes <= 10000);
        answer(f, session, 1, 1000);
    }

    assert_int_equal(f->counters.sessions_dropped, 1);
    assert_lost(f, session);
}

static void test_session_answers_of_all_are_bounded_together(void **state)
{
    struct fixture *f = *state;
    f->options.session_bytes_max = 10000;
    f->options.memory.waiting = 15000;
    struct lq_session *first = open_session(f, 8), *second = open_session(f, PEER);
    f->outlet.room = 0;
    for (int i = 0; i < 9; i++) {
        answer(f, first, 1, 1000);
    }
    for (int i = 0; i < 6; i++) {
        answer(f, second, 1, 1000);
    }

    assert_false(first->lost);
    assert_true(second->lost);
    assert_int_equal(second->waiting_bytes, 0);
    assert_int_equal(f->outlet.last_closed, PEER);
    lq_sessions_closed(f->sessions, PEER);
    answer(f, first, 1, 100); /* there is room again */
    assert_false(first->lost);
    f->outlet.room = SIZE_MAX;
    assert_false(lq_sessions_turn(f->sessions));
}

static void test_session_answer_to_lost_connection_is_the_last(void **state)
{
    struct fixture *f = *state;
    struct lq_session *session = open_session(f, PEER);
    f->outlet.status = LIGHTQ_ECLOSED;

    answer(f, session, 1, 10);

    assert_lost(f, session);
}

static void test_session_answer_that_is_too_big_becomes_an_error(void **state)
{
    struct fixture *f = *state;
    struct lq_session *session = open_session(f, PEER);
    size_t count = 300;
    Lightq__Wire__StatsAnswer body = LIGHTQ__WIRE__STATS_ANSWER__INIT;
    Lightq__Wire__Counter counter = LIGHTQ__WIRE__COUNTER__INIT;
    Lightq__Wire__Counter *list[300];
    char *text = calloc(1, 4096);
    assert_non_null(text);
    memset(text, 'n', 4095);
    counter.name = text;
    for (size_t i = 0; i < count; i++) {
        list[i] = &counter;
    }
    body.counters = list;
    body.n_counters = count;

    lq_session_answer(f->sessions, session, LQ_MESSAGE_STATS_ANSWER, 3, 0, &body.base);

    const struct sent_message *sent = outlet_take(&f->outlet, PEER, LQ_MESSAGE_ERROR);
    assert_int_equal(((Lightq__Wire__Error *)sent->body)->status, LIGHTQ_ETOOBIG);
    assert_int_equal(sent->envelope.correlation, 3);
    free(text);
}

static lightq_status deliver(struct fixture *f, struct lq_session *session, struct lq_slab *slab)
{
    Lightq__Wire__Deliver body = LIGHTQ__WIRE__DELIVER__INIT;
    body.subscription = 1;
    return lq_session_deliver(f->sessions, session, &body, 4, slab, 0, (uint32_t)slab->size);
}

static void test_session_deliveries_stop_at_bytes_on_their_way(void **state)
{
    struct fixture *f = *state;
    f->options.session_bytes_max = 5000;
    struct lq_session *session = open_session(f, PEER);
    struct lq_slab *slab = lq_slab_new(2000);
    assert_non_null(slab);

    f->outlet.queued_to = 4999;
    assert_int_equal(deliver(f, session, slab), LIGHTQ_OK);
    f->outlet.queued_to = 5000;
    assert_int_equal(deliver(f, session, slab), LIGHTQ_EBUSY);
    assert_true(lq_sessions_turn(f->sessions));
    assert_int_equal(f->unblocked, 0);
    f->outlet.queued_to = 0;
    assert_false(lq_sessions_turn(f->sessions));

    assert_int_equal(f->unblocked, 1);
    assert_int_equal(deliver(f, session, slab), LIGHTQ_OK);
    lq_slab_unref(slab);
}

static void test_session_deliveries_stop_at_memory_of_all_clients(void **state)
{
    struct fixture *f = *state;
    struct lq_session *session = open_session(f, PEER);
    struct lq_slab *slab = lq_slab_new(2000);
    assert_non_null(slab);
    f->outlet.queued = 2 * f->options.memory.answers;

    assert_int_equal(deliver(f, session, slab), LIGHTQ_EBUSY);
    assert_true(lq_sessions_turn(f->sessions));
    f->outlet.queued = 2 * f->options.memory.answers - 1;
    assert_false(lq_sessions_turn(f->sessions));

    assert_int_equal(f->unblocked, 1);
    assert_int_equal(deliver(f, session, slab), LIGHTQ_OK);
    lq_slab_unref(slab);
}

static void test_session_delivery_to_lost_connection_is_the_last(void **state)
{
    struct fixture *f = *state;
    struct lq_session *session = open_session(f, PEER);
    struct lq_slab *slab = lq_slab_new(10);
    assert_non_null(slab);
    f->outlet.status = LIGHTQ_ECLOSED;

    assert_int_equal(deliver(f, session, slab), LIGHTQ_EBUSY);
    f->outlet.status = LIGHTQ_OK;
    assert_int_equal(deliver(f, session, slab), LIGHTQ_EBUSY);

    assert_lost(f, session);
    lq_slab_unref(slab);
}

static void test_session_farewell_says_bye_to_all(void **state)
{
    struct fixture *f = *state;
    (void)open_session(f, 1);
    (void)open_session(f, 2);

    lq_sessions_farewell(f->sessions, LIGHTQ_ECLOSED, "the node is ending");

    (void)outlet_take(&f->outlet, 1, LQ_MESSAGE_BYE);
    (void)outlet_take(&f->outlet, 2, LQ_MESSAGE_BYE);
    assert_int_equal(f->ended, 2);
    say_hello(f, 3);
    assert_int_equal(((Lightq__Wire__HelloAnswer *)outlet_take(&f->outlet, 3, LQ_MESSAGE_HELLO_ANSWER)->body)->status,
                     LIGHTQ_ENOTREADY);
}

static void test_session_hello_without_memory_is_refused(void **state)
{
    struct fixture *f = *state;
    (void)open_session(f, 1); /* the answer's buffer is there from now on */
    f->outlet.blind = true;
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        uint64_t opened = f->counters.sessions_opened, refused = f->counters.sessions_refused;

        lq_alloc_fail_at(nth);
        say_hello(f, 100 + nth);
        failed = lq_alloc_fail_end();

        assert_int_equal(f->counters.sessions_opened + f->counters.sessions_refused, opened + refused + 1);
        assert_int_equal(lq_sessions_count(f->sessions), f->counters.sessions_opened);
    }

    assert_true(f->counters.sessions_refused >= 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_session_hello_opens_one_and_tells_limits),
        TEST(test_session_hello_of_other_version_or_cluster_is_refused),
        TEST(test_session_hello_before_serving_says_why_not),
        TEST(test_session_second_hello_begins_anew),
        TEST(test_session_silent_one_is_told_bye_and_closed),
        TEST(test_session_none_expires_while_the_node_itself_was_stopped),
        TEST(test_session_quiet_node_gives_signs_of_life),
        TEST(test_session_bye_forgets_it),
        TEST(test_session_of_closed_connection_ends),
        TEST(test_session_broken_off_is_told_and_closed),
        TEST(test_session_beyond_the_most_is_refused),
        TEST(test_session_answers_wait_in_order_while_connection_is_full),
        TEST(test_session_that_takes_no_answers_is_closed),
        TEST(test_session_answers_of_all_are_bounded_together),
        TEST(test_session_answer_to_lost_connection_is_the_last),
        TEST(test_session_answer_that_is_too_big_becomes_an_error),
        TEST(test_session_deliveries_stop_at_bytes_on_their_way),
        TEST(test_session_deliveries_stop_at_memory_of_all_clients),
        TEST(test_session_delivery_to_lost_connection_is_the_last),
        TEST(test_session_farewell_says_bye_to_all),
        TEST(test_session_hello_without_memory_is_refused),
    };
    return cmocka_run_group_tests_name("node session", tests, NULL, NULL);
}
