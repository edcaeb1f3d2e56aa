/* tests/unit/node/test_consume.c - node/consume.c and cursor.c on a real partition and store: positions, credit, what
 * is read from memory and from disk, and how subscriptions end. */
#include "tests/unit/node/solo_node.h"

#include "node/consume.h"

#define PEER  7
#define OTHER 8
#define BATCH 10 /* messages of a batch */
#define MUCH  1000000

struct fixture {
    struct solo_node solo;
    struct lq_id topic;
    uint64_t next_sequence;
};

static int start(void **state, uint64_t cache_bytes)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    solo_node_init(&f->solo);
    f->solo.store_options.cache_bytes = cache_bytes;
    solo_node_start(&f->solo);
    solo_node_hello(&f->solo, PEER);
    f->topic = solo_node_create(&f->solo, PEER, "t", 1);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return start(state, 0);
}

/* So little memory for entries that old ones must be read from disk. */
static int setup_small_cache(void **state)
{
    return start(state, 64 << 10);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    solo_node_deinit(&f->solo);
    free(f);
    return 0;
}

/* Stores @count batches of BATCH messages of @size bytes each. */
static void store(struct fixture *f, unsigned count, size_t size)
{
    for (unsigned i = 0; i < count; i++) {
        (void)solo_node_stored(&f->solo, PEER, &f->topic, solo_batch(5, f->next_sequence, BATCH, size));
        f->next_sequence += BATCH;
    }
}

struct subscribe {
    lq_peer peer;
    uint64_t number;
    Lightq__Wire__StartKind kind;
    uint64_t value, messages, bytes;
};

static void say_subscribe(struct fixture *f, const struct subscribe *with)
{
    Lightq__Wire__Subscribe body = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    Lightq__Wire__Start start_at = LIGHTQ__WIRE__START__INIT;
    start_at.kind = with->kind;
    start_at.value = with->value;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.subscription = with->number;
    body.start = &start_at;
    body.credit_messages = with->messages;
    body.credit_bytes = with->bytes;
    (void)solo_node_say(&f->solo, with->peer, LQ_MESSAGE_SUBSCRIBE, &body.base, NULL);
}

static const Lightq__Wire__SubscribeAnswer *subscribe(struct fixture *f, const struct subscribe *with)
{
    say_subscribe(f, with);
    solo_node_until_sent(&f->solo, 1);
    const Lightq__Wire__SubscribeAnswer *answer =
        outlet_take(&f->solo.outlet, with->peer, LQ_MESSAGE_SUBSCRIBE_ANSWER)->body;
    assert_int_equal(answer->subscription, with->number);
    return answer;
}

static void subscribe_ok(struct fixture *f, uint64_t number, Lightq__Wire__StartKind kind, uint64_t value,
                         uint64_t messages, uint64_t bytes)
{
    struct subscribe with = {
        .peer = PEER, .number = number, .kind = kind, .value = value, .messages = messages, .bytes = bytes};
    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_OK);
}

static void give_credit(struct fixture *f, uint64_t number, uint64_t messages, uint64_t bytes)
{
    Lightq__Wire__Credit body = LIGHTQ__WIRE__CREDIT__INIT;
    body.subscription = number;
    body.messages = messages;
    body.bytes = bytes;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_CREDIT, &body.base, NULL);
}

/* The next delivery; its payload is a sound batch of its messages. */
static const Lightq__Wire__Deliver *take_delivery(struct fixture *f, lq_peer peer)
{
    struct lq_batch_summary summary;
    solo_node_until_sent(&f->solo, 1);
    const struct sent_message *sent = outlet_take(&f->solo.outlet, peer, LQ_MESSAGE_DELIVER);
    const Lightq__Wire__Deliver *deliver = sent->body;
    assert_int_equal(
        lq_batch_check(sent->payload->bytes + sent->payload_offset, sent->payload_size, NULL, NULL, &summary, NULL),
        LIGHTQ_OK);
    assert_int_equal(summary.head.record_count, deliver->message_count);
    assert_int_equal(summary.head.base_sequence, deliver->base_offset); /* as store() made them */
    return deliver;
}

/* Deliveries of everything in [from, to), in order; gives how many. */
static unsigned take_deliveries(struct fixture *f, lq_peer peer, uint64_t from, uint64_t to)
{
    unsigned count = 0;
    for (uint64_t next = from; next < to; count++) {
        const Lightq__Wire__Deliver *deliver = take_delivery(f, peer);
        assert_true(deliver->base_offset <= next);
        assert_int_equal(deliver->first_wanted, next);
        next = deliver->base_offset + deliver->message_count;
    }
    return count;
}

static void assert_silence(struct fixture *f)
{
    solo_node_settle(&f->solo);
    assert_int_equal(outlet_left(&f->solo.outlet), 0);
}

static void test_consume_first_gives_all_then_what_comes(void **state)
{
    struct fixture *f = *state;
    store(f, 5, 100);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, MUCH);
    (void)take_deliveries(f, PEER, 0, 50);
    assert_silence(f);
    (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(5, 50, BATCH, 100));
    solo_node_until_sent(&f->solo, 2);

    (void)outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
    const Lightq__Wire__Deliver *deliver = take_delivery(f, PEER);
    assert_int_equal(deliver->base_offset, 50);
    assert_int_equal(deliver->log_end, 60);
    assert_true(deliver->term > 0);
    assert_silence(f);
}

static void test_consume_end_gives_only_what_comes(void **state)
{
    struct fixture *f = *state;
    store(f, 5, 100);
    struct subscribe with = {
        .peer = PEER, .number = 1, .kind = LIGHTQ__WIRE__START_KIND__START_END, .messages = MUCH, .bytes = MUCH};

    assert_int_equal(subscribe(f, &with)->offset, 50);
    assert_silence(f);
    (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(5, 50, BATCH, 100));
    solo_node_until_sent(&f->solo, 2);

    (void)outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
    assert_int_equal(take_delivery(f, PEER)->base_offset, 50);
}

static void test_consume_offset_inside_a_batch_skips_what_is_before(void **state)
{
    struct fixture *f = *state;
    store(f, 5, 100);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_OFFSET, 23, MUCH, MUCH);

    const Lightq__Wire__Deliver *deliver = take_delivery(f, PEER);
    assert_int_equal(deliver->base_offset, 20);
    assert_int_equal(deliver->first_wanted, 23);
    (void)take_deliveries(f, PEER, 30, 50);
}

static void test_consume_offset_outside_is_out_of_range_with_borders(void **state)
{
    struct fixture *f = *state;
    store(f, 2, 100);
    struct subscribe with = {.peer = PEER,
                             .number = 1,
                             .kind = LIGHTQ__WIRE__START_KIND__START_OFFSET,
                             .value = 21,
                             .messages = MUCH,
                             .bytes = MUCH};

    const Lightq__Wire__SubscribeAnswer *answer = subscribe(f, &with);

    assert_int_equal(answer->status, LIGHTQ_EOUTOFRANGE);
    assert_int_equal(answer->log_start, 0);
    assert_int_equal(answer->log_end, 20);
    with.value = 20;
    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_OK);
}

static void test_consume_time_gives_first_stamped_then_or_later(void **state)
{
    struct fixture *f = *state;
    store(f, 3, 100);
    solo_node_advance(&f->solo, 5000);
    f->solo.outlet.seen = f->solo.outlet.count; /* signs of life */
    uint64_t between_ms = hand_wall_ms(&f->solo.clock.clock) - 1000;
    store(f, 3, 100);
    struct subscribe with = {.peer = PEER,
                             .number = 1,
                             .kind = LIGHTQ__WIRE__START_KIND__START_TIME,
                             .value = between_ms,
                             .messages = MUCH,
                             .bytes = MUCH};

    assert_int_equal(subscribe(f, &with)->offset, 30);
    (void)take_deliveries(f, PEER, 30, 60);
    with.number = 2;
    with.value = 0;
    assert_int_equal(subscribe(f, &with)->offset, 0);
    (void)take_deliveries(f, PEER, 0, 60);
    with.number = 3;
    with.value = UINT64_MAX;
    assert_int_equal(subscribe(f, &with)->offset, 60);
    assert_silence(f);
}

static void test_consume_credit_of_messages_is_kept(void **state)
{
    struct fixture *f = *state;
    store(f, 10, 100);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, 25, MUCH);
    assert_int_equal(take_deliveries(f, PEER, 0, 30), 3); /* the third batch goes over what is left */
    assert_silence(f);
    give_credit(f, 1, 5, 0);
    assert_silence(f); /* 5 too many were given before */
    give_credit(f, 1, 1, 0);
    assert_int_equal(take_deliveries(f, PEER, 30, 40), 1);

    assert_silence(f);
}

static void test_consume_credit_of_bytes_is_kept_and_one_batch_is_always_given(void **state)
{
    struct fixture *f = *state;
    store(f, 4, 10000);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, 1024);
    assert_int_equal(take_deliveries(f, PEER, 0, 10), 1); /* J2, J3 */
    assert_silence(f);
    give_credit(f, 1, 0, 250000);

    assert_int_equal(take_deliveries(f, PEER, 10, 30), 2);
    assert_silence(f);
}

static void test_consume_without_credit_gives_nothing_until_it_comes(void **state)
{
    struct fixture *f = *state;
    store(f, 1, 100);
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, 0, 0);
    assert_silence(f);

    give_credit(f, 1, UINT64_MAX, UINT64_MAX);
    give_credit(f, 1, UINT64_MAX, UINT64_MAX);
    give_credit(f, 99, 1, 1); /* of nobody: not an error */

    (void)take_deliveries(f, PEER, 0, 10);
}

static void test_consume_credit_for_skipped_messages_is_not_taken(void **state)
{
    struct fixture *f = *state;
    store(f, 3, 100);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_OFFSET, 9, 2, MUCH);

    assert_int_equal(take_deliveries(f, PEER, 9, 20), 2);
    assert_silence(f);
}

static void test_consume_old_entries_come_from_disk(void **state)
{
    struct fixture *f = *state;
    store(f, 100, 2000);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, 10000000);
    (void)take_deliveries(f, PEER, 0, 1000);

    assert_true(f->solo.counters.reads_disk > 0);
    assert_silence(f);
    outlet_forget(&f->solo.outlet);
    assert_int_equal(f->solo.service.memory_used, 0);
}

static void test_consume_read_ahead_waits_for_credit(void **state)
{
    struct fixture *f = *state;
    store(f, 100, 2000);
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, 10, MUCH);
    (void)take_deliveries(f, PEER, 0, 10);
    assert_silence(f);
    uint64_t reads = f->solo.counters.reads_disk;
    assert_true(f->solo.service.memory_used > 0);

    give_credit(f, 1, 20, MUCH);
    (void)take_deliveries(f, PEER, 10, 30);

    assert_int_equal(f->solo.counters.reads_disk, reads); /* it was there already */
}

static void test_consume_read_waits_while_memory_is_used_up(void **state)
{
    struct fixture *f = *state;
    store(f, 100, 2000);
    f->solo.service.memory_used += f->solo.options.memory.requests;
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, 10000000);
    assert_silence(f);

    f->solo.service.memory_used -= f->solo.options.memory.requests;

    (void)take_deliveries(f, PEER, 0, 1000);
}

static void test_consume_unreadable_entries_of_only_replica_end_it_with_the_reason(void **state)
{
    struct fixture *f = *state;
    store(f, 100, 2000);
    struct lq_io_mem_fault fault = {.verb = LQ_IO_READ, .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(f->solo.disk, &fault), LIGHTQ_OK);

    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, MUCH);
    solo_node_until_sent(&f->solo, 1);

    const Lightq__Wire__SubscriptionEnded *ended =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_SUBSCRIPTION_ENDED)->body;
    assert_int_equal(ended->status, LIGHTQ_EIO);
    assert_int_equal(ended->next_offset, 0);
    assert_int_equal(f->solo.counters.reads_failed, 1);
    assert_int_equal(f->solo.service.memory_used, 0);
    assert_int_equal(f->solo.counters.subscriptions, 0);
    lq_io_mem_clear_faults(f->solo.disk);
}

static void test_consume_unsubscribe_stops_it(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Unsubscribe body = LIGHTQ__WIRE__UNSUBSCRIBE__INIT;
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, MUCH);
    body.subscription = 1;

    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_UNSUBSCRIBE, &body.base, NULL);
    const Lightq__Wire__UnsubscribeAnswer *answer =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_UNSUBSCRIBE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_OK);
    store(f, 1, 10); /* the only thing sent is its answer */
    assert_silence(f);
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_UNSUBSCRIBE, &body.base, NULL);

    answer = outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_UNSUBSCRIBE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_ENOTFOUND);
}

static void test_consume_number_used_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct subscribe with = {.peer = PEER, .number = 1, .kind = LIGHTQ__WIRE__START_KIND__START_END};
    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_OK);

    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_EEXISTS);

    solo_node_hello(&f->solo, OTHER);
    with.peer = OTHER;
    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_OK);
    assert_int_equal(f->solo.counters.subscriptions, 2);
}

static void test_consume_too_many_subscriptions_are_refused(void **state)
{
    struct fixture *f = *state;
    struct subscribe with = {.peer = PEER, .kind = LIGHTQ__WIRE__START_KIND__START_END};
    f->solo.options.session_subscriptions_max = 3;
    for (with.number = 0; with.number < 3; with.number++) {
        assert_int_equal(subscribe(f, &with)->status, LIGHTQ_OK);
    }

    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_ELIMIT);
}

static void test_consume_unknown_topic_or_start_is_named(void **state)
{
    struct fixture *f = *state;
    struct lq_id topic = f->topic;
    struct subscribe with = {.peer = PEER, .number = 1, .kind = (Lightq__Wire__StartKind)9};
    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_EUNSUPPORTED);
    f->topic.bytes[0] ^= 1;
    with.kind = LIGHTQ__WIRE__START_KIND__START_END;

    assert_int_equal(subscribe(f, &with)->status, LIGHTQ_ENOTREADY);

    f->topic = topic;
}

static void test_consume_deleted_topic_ends_it(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__TopicDelete body = LIGHTQ__WIRE__TOPIC_DELETE__INIT;
    store(f, 1, 10);
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, MUCH);
    (void)take_deliveries(f, PEER, 0, 10);
    body.name = lq_codec_string("t");
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_TOPIC_DELETE, &body.base, NULL);
    solo_node_until_sent(&f->solo, 2);

    const Lightq__Wire__SubscriptionEnded *ended = NULL;
    for (int i = 0; i < 2; i++) {
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        ended = sent->envelope.type == LQ_MESSAGE_SUBSCRIPTION_ENDED ? sent->body : ended;
    }
    assert_non_null(ended);
    assert_int_equal(ended->status, LIGHTQ_ENOTFOUND);
    assert_int_equal(ended->next_offset, 10);
    assert_int_equal(f->solo.counters.subscriptions, 0);
}

static void test_consume_client_that_takes_nothing_is_waited_for(void **state)
{
    struct fixture *f = *state;
    store(f, 10, 100);
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, MUCH);
    f->solo.outlet.room = 3;
    solo_node_settle(&f->solo);
    (void)take_deliveries(f, PEER, 0, 30);
    assert_silence(f);

    f->solo.outlet.room = SIZE_MAX;

    (void)take_deliveries(f, PEER, 30, 100);
}

static void test_consume_subscriptions_have_turns(void **state)
{
    struct fixture *f = *state;
    store(f, 300, 10);
    solo_node_hello(&f->solo, OTHER);
    for (uint64_t i = 1; i <= 3; i++) {
        say_subscribe(f, &(struct subscribe){.peer = i == 1 ? OTHER : PEER,
                                             .number = i,
                                             .kind = LIGHTQ__WIRE__START_KIND__START_FIRST,
                                             .messages = MUCH,
                                             .bytes = MUCH});
    }
    f->solo.outlet.seen = f->solo.outlet.count;
    (void)lq_consume_turn(f->solo.service.consume);

    /* Nobody has had all before everybody has had something. */
    uint64_t given[4] = {0};
    bool all = false;
    while (!all && outlet_left(&f->solo.outlet) > 0) {
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        const Lightq__Wire__Deliver *deliver = sent->body;
        given[deliver->subscription] += deliver->message_count;
        all = given[1] > 0 && given[2] > 0 && given[3] > 0;
    }
    assert_true(all);
    assert_true(given[1] < 3000 && given[2] < 3000 && given[3] < 3000);
}

static void test_consume_client_that_leaves_does_no_harm(void **state)
{
    struct fixture *f = *state;
    store(f, 100, 2000);
    subscribe_ok(f, 1, LIGHTQ__WIRE__START_KIND__START_FIRST, 0, MUCH, MUCH);
    solo_node_turn_without_disk(&f->solo); /* a read is under way */
    lq_sessions_bye(f->solo.service.sessions, lq_sessions_heard(f->solo.service.sessions, PEER));
    outlet_forget(&f->solo.outlet);

    assert_silence(f);

    assert_int_equal(f->solo.counters.subscriptions, 0);
    assert_int_equal(f->solo.service.memory_used, 0);
}

/* ---- OFFSETS */

static const Lightq__Wire__OffsetsAnswer *offsets(struct fixture *f, Lightq__Wire__StartKind kind, uint64_t value)
{
    Lightq__Wire__Offsets body = LIGHTQ__WIRE__OFFSETS__INIT;
    Lightq__Wire__Start at = LIGHTQ__WIRE__START__INIT;
    at.kind = kind;
    at.value = value;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.at = &at;
    uint64_t correlation = solo_node_say(&f->solo, PEER, LQ_MESSAGE_OFFSETS, &body.base, NULL);
    solo_node_until_sent(&f->solo, 1);
    const struct sent_message *sent = outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_OFFSETS_ANSWER);
    assert_int_equal(sent->envelope.correlation, correlation);
    return sent->body;
}

static void test_consume_offsets_of_every_kind(void **state)
{
    struct fixture *f = *state;
    store(f, 3, 100);
    solo_node_advance(&f->solo, 2000);
    f->solo.outlet.seen = f->solo.outlet.count;
    uint64_t now_ms = hand_wall_ms(&f->solo.clock.clock);
    store(f, 3, 100);

    const Lightq__Wire__OffsetsAnswer *answer = offsets(f, LIGHTQ__WIRE__START_KIND__START_FIRST, 0);
    assert_int_equal(answer->offset, 0);
    assert_int_equal(answer->log_end, 60);
    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_END, 0)->offset, 60);
    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_OFFSET, 7)->offset, 7);
    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_OFFSET, 61)->status, LIGHTQ_EOUTOFRANGE);
    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_TIME, 0)->offset, 0);
    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_TIME, now_ms - 1000)->offset, 30);
    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_TIME, now_ms + 100000)->offset, 60);
    assert_int_equal(f->solo.counters.subscriptions, 0);
}

static void test_consume_offsets_of_a_time_on_disk(void **state)
{
    struct fixture *f = *state;
    store(f, 100, 2000);

    assert_int_equal(offsets(f, LIGHTQ__WIRE__START_KIND__START_TIME, 0)->offset, 0);

    assert_true(f->solo.counters.reads_disk > 0);
    assert_int_equal(f->solo.service.memory_used, 0);
}

int main(void)
{
#define TEST(name)        cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SMALL_CACHE(name) cmocka_unit_test_setup_teardown(name, setup_small_cache, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_consume_first_gives_all_then_what_comes),
        TEST(test_consume_end_gives_only_what_comes),
        TEST(test_consume_offset_inside_a_batch_skips_what_is_before),
        TEST(test_consume_offset_outside_is_out_of_range_with_borders),
        TEST(test_consume_time_gives_first_stamped_then_or_later),
        TEST(test_consume_credit_of_messages_is_kept),
        TEST(test_consume_credit_of_bytes_is_kept_and_one_batch_is_always_given),
        TEST(test_consume_without_credit_gives_nothing_until_it_comes),
        TEST(test_consume_credit_for_skipped_messages_is_not_taken),
        SMALL_CACHE(test_consume_old_entries_come_from_disk),
        SMALL_CACHE(test_consume_read_ahead_waits_for_credit),
        SMALL_CACHE(test_consume_read_waits_while_memory_is_used_up),
        SMALL_CACHE(test_consume_unreadable_entries_of_only_replica_end_it_with_the_reason),
        TEST(test_consume_unsubscribe_stops_it),
        TEST(test_consume_number_used_twice_is_refused),
        TEST(test_consume_too_many_subscriptions_are_refused),
        TEST(test_consume_unknown_topic_or_start_is_named),
        TEST(test_consume_deleted_topic_ends_it),
        TEST(test_consume_client_that_takes_nothing_is_waited_for),
        TEST(test_consume_subscriptions_have_turns),
        SMALL_CACHE(test_consume_client_that_leaves_does_no_harm),
        TEST(test_consume_offsets_of_every_kind),
        SMALL_CACHE(test_consume_offsets_of_a_time_on_disk),
    };
    return cmocka_run_group_tests_name("node consume", tests, NULL, NULL);
}
