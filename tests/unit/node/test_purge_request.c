/* test_purge_request.c - PARTITION_PURGE, from the client's message to the store: what it answers, what it does to
 * those who read below. */
#include "tests/unit/node/solo_node.h"

#include "node/purge.h"

#define PEER  7
#define BATCH 10
#define MUCH  1000000

struct fixture {
    struct solo_node solo;
    struct lq_id topic;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    solo_node_init(&f->solo);
    solo_node_start(&f->solo);
    solo_node_hello(&f->solo, PEER);
    f->topic = solo_node_create(&f->solo, PEER, "t", 1);
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

static void store(struct fixture *f, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        (void)solo_node_stored(&f->solo, PEER, &f->topic, solo_batch(5, (uint64_t)i * BATCH, BATCH, 10));
    }
}

static Lightq__Wire__PartitionPurge below(const struct fixture *f, uint64_t offset)
{
    Lightq__Wire__PartitionPurge body = LIGHTQ__WIRE__PARTITION_PURGE__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.offset = offset;
    return body;
}

static const Lightq__Wire__PartitionPurgeAnswer *say(struct fixture *f, const Lightq__Wire__PartitionPurge *body)
{
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_PARTITION_PURGE, &body->base, NULL);
    solo_node_until_sent(&f->solo, 1);
    return outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PARTITION_PURGE_ANSWER)->body;
}

static const Lightq__Wire__SubscribeAnswer *subscribe(struct fixture *f, uint64_t number, Lightq__Wire__StartKind kind,
                                                      uint64_t value)
{
    Lightq__Wire__Subscribe body = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    Lightq__Wire__Start start = LIGHTQ__WIRE__START__INIT;
    start.kind = kind;
    start.value = value;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.subscription = number;
    body.start = &start;
    body.credit_bytes = MUCH;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_SUBSCRIBE, &body.base, NULL);
    solo_node_until_sent(&f->solo, 1);
    return outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_SUBSCRIBE_ANSWER)->body;
}

static void test_purge_moves_the_start_inside_a_batch(void **state)
{
    struct fixture *f = *state;
    store(f, 3);
    Lightq__Wire__PartitionPurge body = below(f, 13);

    const Lightq__Wire__PartitionPurgeAnswer *answer = say(f, &body);

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->log_start, 13);
    assert_int_equal(answer->log_end, 30);
    assert_true(answer->term > 0);
    assert_int_equal(subscribe(f, 1, LIGHTQ__WIRE__START_KIND__START_END, 0)->log_start, 13);
    const Lightq__Wire__SubscribeAnswer *too_low = subscribe(f, 2, LIGHTQ__WIRE__START_KIND__START_OFFSET, 12);
    assert_int_equal(too_low->status, LIGHTQ_EOUTOFRANGE);
    assert_int_equal(too_low->log_start, 13);
    assert_int_equal(say(f, &body)->log_start, 13); /* sent again */
    body.offset = 30;
    assert_int_equal(say(f, &body)->log_start, 30);                                          /* all of it */
    assert_int_equal(subscribe(f, 3, LIGHTQ__WIRE__START_KIND__START_FIRST, 0)->offset, 30); /* where it goes on */
}

static void test_purge_tells_who_reads_below(void **state)
{
    struct fixture *f = *state;
    store(f, 3);
    assert_int_equal(subscribe(f, 1, LIGHTQ__WIRE__START_KIND__START_OFFSET, 5)->status, LIGHTQ_OK); /* no credit */
    assert_int_equal(subscribe(f, 2, LIGHTQ__WIRE__START_KIND__START_OFFSET, 25)->status, LIGHTQ_OK);
    Lightq__Wire__PartitionPurge body = below(f, 20);

    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_PARTITION_PURGE, &body.base, NULL);
    solo_node_until_sent(&f->solo, 2);

    assert_int_equal(((const Lightq__Wire__PartitionPurgeAnswer *)outlet_take(&f->solo.outlet, PEER,
                                                                              LQ_MESSAGE_PARTITION_PURGE_ANSWER)
                          ->body)
                         ->log_start,
                     20);
    const Lightq__Wire__SubscriptionEnded *ended =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_SUBSCRIPTION_ENDED)->body;
    assert_int_equal(ended->subscription, 1);
    assert_int_equal(ended->status, LIGHTQ_EOUTOFRANGE);
    assert_int_equal(ended->next_offset, 5); /* the first one it has not had */
    assert_int_equal(subscribe(f, 3, LIGHTQ__WIRE__START_KIND__START_OFFSET, 5)->log_start, 20);
    assert_int_equal(f->solo.counters.subscriptions, 1); /* the other goes on */
}

static void test_purge_refuses_by_name(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    Lightq__Wire__PartitionPurge body = below(f, 11);

    const Lightq__Wire__PartitionPurgeAnswer *answer = say(f, &body);
    assert_int_equal(answer->status, LIGHTQ_EOUTOFRANGE);
    assert_string_equal(answer->text, "the partition ends at offset 10, and 11 is above it");
    body.offset = UINT64_MAX;
    assert_int_equal(say(f, &body)->status, LIGHTQ_EOUTOFRANGE);
    body.offset = 0;
    assert_int_equal(say(f, &body)->status, LIGHTQ_OK); /* nothing is below it */
    body.partition = 1;
    assert_int_equal(say(f, &body)->status, LIGHTQ_ENOTFOUND);
    body.partition = 0;
    body.topic.len = 3;
    assert_int_equal(say(f, &body)->status, LIGHTQ_EPROTO);
}

static void test_purge_time_out_is_answered_once(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    Lightq__Wire__PartitionPurge body = below(f, 10);
    body.timeout_ms = 500;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_PARTITION_PURGE, &body.base, NULL);
    for (int i = 0; i < 600; i++) { /* the disk hangs, but not long enough for the leader to step back */
        f->solo.clock.now_us += 1000;
        lq_purges_tick(f->solo.service.purges);
        solo_node_turn_without_disk(&f->solo);
    }

    const Lightq__Wire__PartitionPurgeAnswer *answer =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PARTITION_PURGE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_ETIMEDOUT);
    solo_node_settle(&f->solo);

    assert_int_equal(say(f, &body)->log_start, 10); /* it was done all the same */
    assert_int_equal(f->solo.outlet.count, f->solo.outlet.seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_purge_moves_the_start_inside_a_batch),
        TEST(test_purge_tells_who_reads_below),
        TEST(test_purge_refuses_by_name),
        TEST(test_purge_time_out_is_answered_once),
    };
    return cmocka_run_group_tests_name("purge_request", tests, NULL, NULL);
}
