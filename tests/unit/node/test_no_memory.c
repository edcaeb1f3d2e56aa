/* tests/unit/node/test_no_memory.c - every request with each of its allocations failing in turn: the client gets an
 * answer or nothing, the node goes on, and the same request works afterwards. */
#include "tests/unit/node/solo_node.h"

#include "node/queue/partition_groups.h"
#include "tests/lib/alloc_fail.h"

#define PEER      7
#define SWEEP_MAX 400
#define CREDIT    100000

struct fixture {
    struct solo_node solo;
    struct lq_id topic;
    uint64_t sequence, number;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    solo_node_init(&f->solo);
    solo_node_start(&f->solo);
    solo_node_hello(&f->solo, PEER);
    f->topic = solo_node_create(&f->solo, PEER, "t", 2);
    (void)solo_node_stored(&f->solo, PEER, &f->topic, solo_batch(5, 0, 10, 100));
    f->sequence = 10;
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

/* One request with the @nth allocation of its handling failing. True: one did. */
static bool say_without_memory(struct fixture *f, uint16_t type, const ProtobufCMessage *message,
                               struct lq_slab *payload, unsigned nth)
{
    struct lq_writer writer;
    struct lq_envelope envelope = {
        .type = type, .correlation = nth, .flags = payload == NULL ? 0 : LQ_ENVELOPE_FLAG_PAYLOAD};
    lq_writer_init(&writer, 65536);
    assert_int_equal(lq_codec_frame(&envelope, message, &writer), LIGHTQ_OK);
    struct lq_front_message in = {.peer = PEER, .frame = writer.bytes, .frame_size = writer.size, .payload = payload};
    f->solo.outlet.blind = true;
    lq_alloc_fail_at(nth);
    lq_router_receive(&f->solo.service, &in);
    bool failed = lq_alloc_fail_end();
    lq_writer_deinit(&writer);
    solo_node_advance(&f->solo, 20);
    f->solo.outlet.blind = false;
    outlet_forget(&f->solo.outlet);
    assert_non_null(lq_sessions_heard(f->solo.service.sessions, PEER));
    return failed;
}

/* Sweeps a request that changes nothing. */
static void sweep(struct fixture *f, uint16_t type, const ProtobufCMessage *message, unsigned least)
{
    unsigned nth = 1;
    while (say_without_memory(f, type, message, NULL, nth)) {
        nth++;
        assert_true(nth < SWEEP_MAX);
    }
    assert_true(nth > least);
}

static void test_no_memory_metadata_and_lists(void **state)
{
    struct fixture *f = *state;
    char *names[] = {lq_codec_string("t"), lq_codec_string("none")};
    Lightq__Wire__Metadata metadata = LIGHTQ__WIRE__METADATA__INIT;
    Lightq__Wire__TopicList list = LIGHTQ__WIRE__TOPIC_LIST__INIT;
    Lightq__Wire__Stats stats = LIGHTQ__WIRE__STATS__INIT;
    metadata.names = names;
    metadata.n_names = 2;

    sweep(f, LQ_MESSAGE_METADATA, &metadata.base, 2);
    metadata.all = true;
    sweep(f, LQ_MESSAGE_METADATA, &metadata.base, 2);
    sweep(f, LQ_MESSAGE_TOPIC_LIST, &list.base, 2);
    sweep(f, LQ_MESSAGE_STATS, &stats.base, 1);
}

static void test_no_memory_describe_and_status(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__TopicDescribe describe = LIGHTQ__WIRE__TOPIC_DESCRIBE__INIT;
    Lightq__Wire__ClusterStatus status = LIGHTQ__WIRE__CLUSTER_STATUS__INIT;
    describe.name = lq_codec_string("t");

    sweep(f, LQ_MESSAGE_TOPIC_DESCRIBE, &describe.base, 2);
    sweep(f, LQ_MESSAGE_CLUSTER_STATUS, &status.base, 2);
}

static void test_no_memory_changes(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__TopicCreate create = LIGHTQ__WIRE__TOPIC_CREATE__INIT;
    Lightq__Wire__PartitionTransfer transfer = LIGHTQ__WIRE__PARTITION_TRANSFER__INIT;
    create.name = lq_codec_string("t"); /* exists */
    transfer.name = lq_codec_string("t");

    sweep(f, LQ_MESSAGE_TOPIC_CREATE, &create.base, 2);
    sweep(f, LQ_MESSAGE_PARTITION_TRANSFER, &transfer.base, 2);
}

static void test_no_memory_produce_stores_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Produce body = LIGHTQ__WIRE__PRODUCE__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        assert_true(nth < SWEEP_MAX);
        struct lq_slab *batch = solo_batch(5, f->sequence, 10, 100);

        failed = say_without_memory(f, LQ_MESSAGE_PRODUCE, &body.base, batch, nth);

        /* The same batch again is stored now, or was: at its one offset. */
        solo_node_say_bytes(&f->solo, PEER, "", 0, NULL); /* not a frame: ends the session */
        outlet_forget(&f->solo.outlet);
        assert_null(lq_sessions_heard(f->solo.service.sessions, PEER));
        solo_node_hello(&f->solo, PEER);
        assert_int_equal(solo_node_stored(&f->solo, PEER, &f->topic, batch), f->sequence);
        f->sequence += 10;
        assert_int_equal(f->solo.service.memory_used, 0);
        assert_int_equal(f->solo.counters.produce_inflight, 0);
    }
}

static void test_no_memory_subscribe(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Subscribe body = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    Lightq__Wire__Start start = LIGHTQ__WIRE__START__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.start = &start;
    body.credit_messages = body.credit_bytes = CREDIT;
    static const Lightq__Wire__StartKind kinds[] = {LIGHTQ__WIRE__START_KIND__START_FIRST,
                                                    LIGHTQ__WIRE__START_KIND__START_TIME};
    for (size_t i = 0; i < 2; i++) {
        bool failed = true;
        start.kind = kinds[i];
        for (unsigned nth = 1; failed; nth++) {
            assert_true(nth < SWEEP_MAX);
            body.subscription = ++f->number;
            failed = say_without_memory(f, LQ_MESSAGE_SUBSCRIBE, &body.base, NULL, nth);
        }
    }
    assert_true(f->solo.counters.subscriptions >= 2);
}

static void test_no_memory_offsets_of_a_time(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Offsets body = LIGHTQ__WIRE__OFFSETS__INIT;
    Lightq__Wire__Start at = LIGHTQ__WIRE__START__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.at = &at;
    at.kind = LIGHTQ__WIRE__START_KIND__START_TIME;

    sweep(f, LQ_MESSAGE_OFFSETS, &body.base, 2);

    assert_int_equal(f->solo.counters.subscriptions, 0);
}

/* Makes the group "g" (1 pipeline) of the first partition; gives its number. */
static uint64_t make_group(struct fixture *f, Lightq__Wire__GroupCreate *body, Lightq__Wire__GroupOptions *options)
{
    static const struct lq_id id = {.bytes = {1}};
    body->topic = lq_codec_bytes_of(&f->topic);
    body->consumer_group = lq_codec_string("g");
    body->group_id = lq_codec_bytes_of(&id);
    options->mode = LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE;
    body->options = options;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_CREATE, &body->base, NULL);
    solo_node_until_sent(&f->solo, 1);
    const Lightq__Wire__GroupCreateAnswer *answer =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_GROUP_CREATE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_OK);
    return answer->group_number;
}

static void test_no_memory_groups(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupCreate create = LIGHTQ__WIRE__GROUP_CREATE__INIT;
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    Lightq__Wire__GroupList list = LIGHTQ__WIRE__GROUP_LIST__INIT;
    Lightq__Wire__GroupDescribe describe = LIGHTQ__WIRE__GROUP_DESCRIBE__INIT;
    Lightq__Wire__GroupSeek move = LIGHTQ__WIRE__GROUP_SEEK__INIT;
    Lightq__Wire__Start to = LIGHTQ__WIRE__START__INIT;
    (void)make_group(f, &create, &options);
    list.topic = describe.topic = move.topic = lq_codec_bytes_of(&f->topic);
    describe.consumer_group = move.consumer_group = lq_codec_string("g");
    to.kind = LIGHTQ__WIRE__START_KIND__START_TIME;
    move.to = &to;

    sweep(f, LQ_MESSAGE_GROUP_CREATE, &create.base, 2); /* exists, with that id */
    sweep(f, LQ_MESSAGE_GROUP_LIST, &list.base, 2);
    sweep(f, LQ_MESSAGE_GROUP_DESCRIBE, &describe.base, 2);
    sweep(f, LQ_MESSAGE_GROUP_SEEK, &move.base, 2);
}

/* Subscriptions, deliveries and results; in the end each message is settled or a dead letter. */
static void test_no_memory_pipeline_loses_nothing(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupCreate create = LIGHTQ__WIRE__GROUP_CREATE__INIT;
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    Lightq__Wire__Subscribe subscribe = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    Lightq__Wire__Settle settle = LIGHTQ__WIRE__SETTLE__INIT;
    Lightq__Wire__SettleItem item = LIGHTQ__WIRE__SETTLE_ITEM__INIT;
    Lightq__Wire__SettleItem *items[] = {&item};
    settle.group_number = settle.generation = make_group(f, &create, &options);
    subscribe.topic = settle.topic = lq_codec_bytes_of(&f->topic);
    subscribe.consumer_group = lq_codec_string("g");
    subscribe.credit_messages = subscribe.credit_bytes = CREDIT;
    settle.items = items;
    settle.n_items = 1;
    item.kind = LIGHTQ__WIRE__SETTLE_KIND__SETTLE_NACK;
    item.count = 10;
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        assert_true(nth < SWEEP_MAX);
        subscribe.subscription = ++f->number;
        failed = say_without_memory(f, LQ_MESSAGE_SUBSCRIBE, &subscribe.base, NULL, nth);
    }
    for (unsigned nth = 1; nth < 40; nth++) { /* what follows: finding, leasing, sending */
        f->solo.outlet.blind = true;
        lq_alloc_fail_at(nth);
        solo_node_settle(&f->solo);
        (void)lq_alloc_fail_end();
        f->solo.outlet.blind = false;
        settle.subscription = 1 + nth % f->number;
        (void)say_without_memory(f, LQ_MESSAGE_SETTLE, &settle.base, NULL, nth);
    }
    item.kind = LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK;
    for (int i = 0; i < 2; i++) {
        (void)say_without_memory(f, LQ_MESSAGE_SETTLE, &settle.base, NULL, SWEEP_MAX);
    }

    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(f->solo.meta), "t");
    const struct lq_partition *partition = lq_meta_partition(f->solo.meta, topic->partitions[0].group);
    const struct lq_cgroup *cgroup = lq_cgroups_find_name(lq_partition_groups(partition), "g", 1);
    assert_int_equal(lq_settled_unsettled(&cgroup->settled, 0, 10), cgroup->dead.next - cgroup->dead.done);
    assert_true(f->solo.counters.settles > 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_no_memory_metadata_and_lists),
        TEST(test_no_memory_describe_and_status),
        TEST(test_no_memory_changes),
        TEST(test_no_memory_produce_stores_all_or_nothing),
        TEST(test_no_memory_subscribe),
        TEST(test_no_memory_offsets_of_a_time),
        TEST(test_no_memory_groups),
        TEST(test_no_memory_pipeline_loses_nothing),
    };
    return cmocka_run_group_tests_name("node without memory", tests, NULL, NULL);
}
