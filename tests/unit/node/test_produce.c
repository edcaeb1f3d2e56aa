/* tests/unit/node/test_produce.c - node/produce.c on a real partition: verdicts, limits, time-outs. */
#include "tests/unit/node/solo_node.h"

#include "node/produce.h"

#define PEER 7

struct fixture {
    struct solo_node solo;
    struct lq_id topic;
};

static int setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    solo_node_init(&f->solo);
    solo_node_start(&f->solo);
    solo_node_hello(&f->solo, PEER);
    f->topic = solo_node_create(&f->solo, PEER, "t", 2);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    solo_node_deinit(&f->solo);
    free(f);
    return 0;
}

/* The next PRODUCE_ANSWER, which may take turns to come. */
static const Lightq__Wire__ProduceAnswer *take(struct fixture *f, uint64_t correlation)
{
    solo_node_until_sent(&f->solo, 1);
    const struct sent_message *sent = outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
    assert_int_equal(sent->envelope.correlation, correlation);
    return sent->body;
}

static const Lightq__Wire__ProduceAnswer *say(struct fixture *f, const Lightq__Wire__Produce *body,
                                              struct lq_slab *batch)
{
    uint64_t correlation = solo_node_say(&f->solo, PEER, LQ_MESSAGE_PRODUCE, &body->base, batch);
    lq_slab_unref(batch);
    return take(f, correlation);
}

static Lightq__Wire__Produce to(const struct lq_id *topic)
{
    Lightq__Wire__Produce body = LIGHTQ__WIRE__PRODUCE__INIT;
    body.topic = lq_codec_bytes_of(topic);
    return body;
}

static void test_produce_stores_batches_one_behind_the_other(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);

    const Lightq__Wire__ProduceAnswer *answer = say(f, &body, solo_batch(5, 0, 10, 100));
    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->base_offset, 0);
    assert_true(answer->term > 0);
    assert_true(answer->timestamp_ms >= UINT64_C(1700000000000));
    assert_false(answer->duplicate);
    answer = say(f, &body, solo_batch(5, 10, 3, 0));
    assert_int_equal(answer->base_offset, 10);
    assert_int_equal(answer->base_sequence, 10);
    body.partition = 1;
    answer = say(f, &body, solo_batch(6, 0, 1, 1));
    assert_int_equal(answer->base_offset, 0);
    assert_int_equal(f->solo.counters.messages_in, 14);
    assert_int_equal(f->solo.counters.produce_inflight, 0);
}

static void test_produce_same_batch_again_is_duplicate_at_its_offset(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);
    (void)say(f, &body, solo_batch(5, 0, 10, 100));
    (void)say(f, &body, solo_batch(5, 10, 10, 100));

    const Lightq__Wire__ProduceAnswer *answer = say(f, &body, solo_batch(5, 0, 10, 100));

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_true(answer->duplicate);
    assert_int_equal(answer->base_offset, 0);
    assert_int_equal(f->solo.counters.produce_duplicates, 1);
    assert_int_equal(f->solo.counters.messages_in, 20);
}

static void test_produce_gap_in_sequence_is_refused(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);
    (void)say(f, &body, solo_batch(5, 0, 10, 100));

    assert_int_equal(say(f, &body, solo_batch(5, 11, 1, 1))->status, LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(say(f, &body, solo_batch(8, 1, 1, 1))->status, LIGHTQ_EOUTOFSEQUENCE);

    assert_int_equal(say(f, &body, solo_batch(5, 10, 1, 1))->base_offset, 10);
}

static void test_produce_epoch_of_the_request_fences_lower_ones(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);
    (void)say(f, &body, solo_batch(5, 0, 10, 100));

    body.epoch = 1;
    assert_int_equal(say(f, &body, solo_batch(5, 12, 1, 1))->status, LIGHTQ_EOUTOFSEQUENCE);
    body.begins_epoch = true;
    assert_int_equal(say(f, &body, solo_batch(5, 12, 1, 1))->base_offset, 10);
    body.epoch = 0;
    assert_int_equal(say(f, &body, solo_batch(5, 10, 2, 1))->status, LIGHTQ_EFENCED);
    body.begins_epoch = false;
    assert_int_equal(say(f, &body, solo_batch(5, 13, 1, 1))->status, LIGHTQ_EFENCED);
    body.epoch = 1;
    const Lightq__Wire__ProduceAnswer *answer = say(f, &body, solo_batch(5, 0, 10, 100)); /* made in epoch 0 */
    assert_true(answer->status == LIGHTQ_OK && answer->duplicate && answer->base_offset == 0);
    assert_int_equal(say(f, &body, solo_batch(5, 13, 1, 1))->base_offset, 11);
}

static void test_produce_expected_offset_is_kept(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);
    body.has_expected_offset = true;
    body.expected_offset = 1;
    assert_int_equal(say(f, &body, solo_batch(0, 0, 1, 1))->status, LIGHTQ_EEXPECTED);
    body.expected_offset = 0;

    assert_int_equal(say(f, &body, solo_batch(0, 0, 1, 1))->status, LIGHTQ_OK);
}

static void test_produce_damaged_batch_is_refused(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);
    struct lq_slab *batch = solo_batch(5, 0, 10, 100);
    for (size_t i = 0; i < batch->size; i += 37) {
        batch->bytes[i] ^= 0x10;
        uint64_t correlation = solo_node_say(&f->solo, PEER, LQ_MESSAGE_PRODUCE, &body.base, batch);

        lightq_status status = (lightq_status)take(f, correlation)->status;

        assert_true(status == LIGHTQ_EPROTO || status == LIGHTQ_EVERSION || status == LIGHTQ_ETOOBIG);
        batch->bytes[i] ^= 0x10;
    }
    uint64_t correlation = solo_node_say(&f->solo, PEER, LQ_MESSAGE_PRODUCE, &body.base, batch);
    assert_int_equal(take(f, correlation)->status, LIGHTQ_OK);
    lq_slab_unref(batch);
}

static void test_produce_message_above_the_limit_is_too_big(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);

    assert_int_equal(say(f, &body, solo_batch(5, 0, 1, (1 << 20) + 1))->status, LIGHTQ_ETOOBIG);
    assert_int_equal(say(f, &body, solo_batch(5, 0, 1, 1 << 20))->status, LIGHTQ_OK);
}

static void test_produce_topic_limit_is_kept(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__TopicCreate create = LIGHTQ__WIRE__TOPIC_CREATE__INIT;
    Lightq__Wire__NameValue value = LIGHTQ__WIRE__NAME_VALUE__INIT, *list[] = {&value};
    struct lq_id topic;
    value.name = lq_codec_string("max.message.bytes");
    value.value = lq_codec_string("100");
    create.name = lq_codec_string("small");
    create.config = list;
    create.n_config = 1;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_TOPIC_CREATE, &create.base, NULL);
    solo_node_until_sent(&f->solo, 1);
    const Lightq__Wire__TopicCreateAnswer *created =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_TOPIC_CREATE_ANSWER)->body;
    assert_int_equal(lq_codec_id(&created->topic, &topic), LIGHTQ_OK);
    Lightq__Wire__Produce body = to(&topic);

    assert_int_equal(say(f, &body, solo_batch(5, 0, 3, 101))->status, LIGHTQ_ETOOBIG);
    assert_int_equal(say(f, &body, solo_batch(5, 0, 3, 100))->status, LIGHTQ_OK);
}

static void test_produce_to_what_is_not_there_is_named(void **state)
{
    struct fixture *f = *state;
    struct lq_id other = {{9, 9}};
    Lightq__Wire__Produce body = to(&other);
    Lightq__Wire__TopicDelete gone = LIGHTQ__WIRE__TOPIC_DELETE__INIT;
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(f->solo.meta), "t");
    uint64_t group = topic->partitions[0].group;

    assert_int_equal(say(f, &body, solo_batch(0, 0, 1, 1))->status, LIGHTQ_ENOTREADY);
    body.topic.len = 15;
    assert_int_equal(say(f, &body, solo_batch(0, 0, 1, 1))->status, LIGHTQ_EPROTO);
    body = to(&f->topic);
    body.partition = 2;
    assert_int_equal(say(f, &body, solo_batch(0, 0, 1, 1))->status, LIGHTQ_ENOTFOUND);
    gone.name = lq_codec_string("t");
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_TOPIC_DELETE, &gone.base, NULL);
    solo_node_until_sent(&f->solo, 1);
    (void)outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_TOPIC_DELETE_ANSWER);

    /* The group tells that it was there once. */
    uint8_t frame[256];
    struct lq_writer writer;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_PRODUCE, .flags = LQ_ENVELOPE_FLAG_PAYLOAD, .group = group};
    struct lq_slab *batch = solo_batch(0, 0, 1, 1);
    body = to(&f->topic);
    lq_writer_init(&writer, sizeof frame);
    assert_int_equal(lq_codec_frame(&envelope, &body.base, &writer), LIGHTQ_OK);
    solo_node_say_bytes(&f->solo, PEER, writer.bytes, writer.size, batch);
    assert_int_equal(take(f, 0)->status, LIGHTQ_ENOTFOUND);
    lq_writer_deinit(&writer);
    lq_slab_unref(batch);
}

static void test_produce_message_id_is_stored_once(void **state)
{
    struct fixture *f = *state;
    uint8_t id[LQ_MESSAGE_ID_BYTES_MAX + 1] = {1, 2, 3};
    Lightq__Wire__Produce body = to(&f->topic);
    body.message_id = (ProtobufCBinaryData){.len = 3, .data = id};
    assert_false(say(f, &body, solo_batch(7, 0, 1, 1))->same_id);

    const Lightq__Wire__ProduceAnswer *answer = say(f, &body, solo_batch(8, 0, 1, 1)); /* another producer's */

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_true(answer->same_id && answer->duplicate);
    assert_int_equal(answer->base_offset, 0);
    body.message_id.len = 2; /* another id */
    answer = say(f, &body, solo_batch(8, 1, 1, 1));
    assert_false(answer->same_id);
    assert_int_equal(answer->base_offset, 1);
    assert_int_equal(say(f, &body, solo_batch(8, 2, 2, 1))->status, LIGHTQ_EINVAL); /* two messages */
    body.message_id.len = sizeof id;
    assert_int_equal(say(f, &body, solo_batch(8, 2, 1, 1))->status, LIGHTQ_EINVAL);
}

/* Sends @count batches while the disk does nothing, and gives how many are told to wait. */
static unsigned send_without_disk(struct fixture *f, unsigned count, size_t size)
{
    unsigned busy = 0;
    for (unsigned i = 0; i < count; i++) {
        (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(0, 0, 1, size));
        solo_node_turn_without_disk(&f->solo);
        while (outlet_left(&f->solo.outlet) > 0) {
            const Lightq__Wire__ProduceAnswer *answer =
                outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER)->body;
            assert_int_equal(answer->status, LIGHTQ_EBUSY);
            assert_in_range(answer->retry_after_ms, 1, 1000);
            busy++;
        }
    }
    return busy;
}

/* Case B3, a single replica acknowledges before its own write is durable: not here. */
static void test_produce_sole_replica_acknowledges_only_what_is_durable(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send_without_disk(f, 3, 100), 0);
    for (int i = 0; i < 300; i++) {
        f->solo.clock.now_us += 1000;
        solo_node_turn_without_disk(&f->solo);
    }
    assert_int_equal(outlet_left(&f->solo.outlet), 0);

    solo_node_until_sent(&f->solo, 3);

    for (int i = 0; i < 3; i++) {
        const Lightq__Wire__ProduceAnswer *answer = outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER)->body;
        assert_int_equal(answer->status, LIGHTQ_OK);
    }
}

static void test_produce_beyond_requests_of_session_is_told_to_wait(void **state)
{
    struct fixture *f = *state;
    f->solo.options.session_requests_max = 10;

    assert_int_equal(send_without_disk(f, 15, 10), 5);
    solo_node_until_sent(&f->solo, 10);

    for (int i = 0; i < 10; i++) {
        const Lightq__Wire__ProduceAnswer *answer = outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER)->body;
        assert_int_equal(answer->status, LIGHTQ_OK);
    }
    assert_int_equal(f->solo.service.memory_used, 0);
    assert_int_equal(f->solo.counters.produce_busy, 5);
}

static void test_produce_beyond_memory_is_told_to_wait(void **state)
{
    struct fixture *f = *state;
    f->solo.options.memory.requests = 1 << 20;

    unsigned busy = send_without_disk(f, 20, 100000);

    assert_int_equal(busy, 10);
    assert_true(f->solo.service.memory_used <= 1 << 20);
    solo_node_until_sent(&f->solo, 10);
    assert_int_equal(f->solo.service.memory_used, 0);
}

static void test_produce_one_batch_is_taken_whatever_the_sessions_bytes(void **state)
{
    struct fixture *f = *state;
    f->solo.options.session_bytes_max = 10;

    assert_int_equal(send_without_disk(f, 2, 1000), 1);
    solo_node_until_sent(&f->solo, 1);

    assert_int_equal(take(f, f->solo.correlation - 1)->status, LIGHTQ_OK);
}

static void test_produce_time_out_is_answered_once(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = to(&f->topic);
    body.timeout_ms = 500;
    struct lq_slab *batch = solo_batch(5, 0, 1, 1);
    uint64_t correlation = solo_node_say(&f->solo, PEER, LQ_MESSAGE_PRODUCE, &body.base, batch);
    lq_slab_unref(batch);
    for (int i = 0; i < 600; i++) { /* the disk hangs, but not long enough for the leader to step back */
        f->solo.clock.now_us += 1000;
        lq_produce_tick(f->solo.service.produce);
        solo_node_turn_without_disk(&f->solo);
    }

    const Lightq__Wire__ProduceAnswer *answer = take(f, correlation);
    assert_int_equal(answer->status, LIGHTQ_ETIMEDOUT);
    solo_node_settle(&f->solo);

    assert_int_equal(outlet_left(&f->solo.outlet), 0);
    assert_int_equal(f->solo.counters.messages_in, 1);
    assert_int_equal(f->solo.counters.produce_inflight, 0);
}

static void test_produce_client_that_leaves_does_no_harm(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send_without_disk(f, 5, 1000), 0);
    lq_sessions_bye(f->solo.service.sessions, lq_sessions_heard(f->solo.service.sessions, PEER));

    solo_node_settle(&f->solo);

    assert_int_equal(outlet_left(&f->solo.outlet), 0);
    assert_int_equal(f->solo.counters.messages_in, 5);
    assert_int_equal(f->solo.service.memory_used, 0);
}

static void test_produce_node_that_ends_tells_nobody_twice(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send_without_disk(f, 5, 1000), 0); /* the tear-down ends the node with these under way */
    assert_int_equal(f->solo.counters.produce_inflight, 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_produce_stores_batches_one_behind_the_other),
        TEST(test_produce_same_batch_again_is_duplicate_at_its_offset),
        TEST(test_produce_gap_in_sequence_is_refused),
        TEST(test_produce_epoch_of_the_request_fences_lower_ones),
        TEST(test_produce_expected_offset_is_kept),
        TEST(test_produce_damaged_batch_is_refused),
        TEST(test_produce_message_above_the_limit_is_too_big),
        TEST(test_produce_topic_limit_is_kept),
        TEST(test_produce_to_what_is_not_there_is_named),
        TEST(test_produce_message_id_is_stored_once),
        TEST(test_produce_sole_replica_acknowledges_only_what_is_durable),
        TEST(test_produce_beyond_requests_of_session_is_told_to_wait),
        TEST(test_produce_beyond_memory_is_told_to_wait),
        TEST(test_produce_one_batch_is_taken_whatever_the_sessions_bytes),
        TEST(test_produce_time_out_is_answered_once),
        TEST(test_produce_client_that_leaves_does_no_harm),
        TEST(test_produce_node_that_ends_tells_nobody_twice),
    };
    return cmocka_run_group_tests_name("node produce", tests, NULL, NULL);
}
