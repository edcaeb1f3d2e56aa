/* tests/unit/node/test_router.c - node/router.c, metadata.c, admin.c, describe.c: what each message is answered with,
 * and what is not the protocol. */
#include "tests/unit/node/solo_node.h"

#define PEER 7

static int setup(void **state)
{
    struct solo_node *solo = malloc(sizeof *solo);
    assert_non_null(solo);
    solo_node_init(solo);
    solo_node_start(solo);
    *state = solo;
    return 0;
}

static int teardown(void **state)
{
    struct solo_node *solo = *state;
    solo_node_deinit(solo);
    free(solo);
    return 0;
}

static const Lightq__Wire__Error *take_error(struct solo_node *solo, uint64_t correlation, lightq_status status)
{
    const struct sent_message *sent = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_ERROR);
    const Lightq__Wire__Error *error = sent->body;
    assert_int_equal(sent->envelope.correlation, correlation);
    assert_int_equal(error->status, status);
    return error;
}

/* Its connection is closed when it has heard why, and it has no session any more. */
static void assert_closed(struct solo_node *solo)
{
    assert_int_equal(solo->outlet.closed, 1);
    assert_int_equal(solo->outlet.last_closed, PEER);
    assert_int_equal(solo->outlet.last_close, LQ_CLOSE_WRITTEN);
    assert_null(lq_sessions_heard(solo->service.sessions, PEER));
    assert_int_equal(solo->counters.frames_bad, solo->counters.connections_bad);
    solo->outlet.closed = 0;
}

/* ---- the protocol */

static void test_router_anything_before_hello_is_refused_and_closed(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__Metadata metadata = LIGHTQ__WIRE__METADATA__INIT;

    uint64_t correlation = solo_node_say(solo, PEER, LQ_MESSAGE_METADATA, &metadata.base, NULL);

    (void)take_error(solo, correlation, LIGHTQ_EPROTO);
    assert_closed(solo);
}

static void test_router_bytes_that_are_no_frame_are_refused_and_closed(void **state)
{
    struct solo_node *solo = *state;
    uint8_t noise[200];
    for (size_t size = 0; size < sizeof noise; size += 33) {
        memset(noise, (int)size, sizeof noise);
        solo_node_hello(solo, PEER);

        solo_node_say_bytes(solo, PEER, noise, size, NULL);

        (void)take_error(solo, 0, LIGHTQ_EPROTO);
        assert_closed(solo);
    }
    assert_int_equal(lq_sessions_count(solo->service.sessions), 0);
}

static void test_router_malformed_message_is_refused_and_closed(void **state)
{
    struct solo_node *solo = *state;
    struct lq_front_message message = {.peer = PEER, .malformed = true};
    solo_node_hello(solo, PEER);

    lq_router_receive(&solo->service, &message);

    (void)take_error(solo, 0, LIGHTQ_EPROTO);
    assert_closed(solo);
}

static void test_router_frame_with_flipped_bits_never_harms(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__Hello hello = LIGHTQ__WIRE__HELLO__INIT;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_HELLO, .correlation = 1};
    struct lq_writer writer;
    hello.version_min = hello.version_max = 1;
    hello.user_agent = lq_codec_string("test");
    lq_writer_init(&writer, 4096);
    assert_int_equal(lq_codec_frame(&envelope, &hello.base, &writer), LIGHTQ_OK);
    for (size_t bit = 0; bit < writer.size * 8; bit++) {
        lq_peer peer = (lq_peer)(1000 + bit);
        writer.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);

        solo_node_say_bytes(solo, peer, writer.bytes, writer.size, NULL);

        const struct lq_session *session = lq_sessions_heard(solo->service.sessions, peer);
        assert_true(session == NULL || bit / 8 == 6 || bit / 8 == 7);
        writer.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        outlet_forget(&solo->outlet);
    }
    lq_writer_deinit(&writer);
}

/* A frame of a type without a body of ours. */
static void say_type(struct solo_node *solo, uint16_t type)
{
    uint8_t frame[LQ_ENVELOPE_BYTES];
    struct lq_envelope envelope = {.type = type, .correlation = 77};
    lq_frame_encode(frame, &envelope, NULL);
    solo_node_say_bytes(solo, PEER, frame, sizeof frame, NULL);
}

static void test_router_unknown_type_is_unsupported_and_goes_on(void **state)
{
    struct solo_node *solo = *state;
    solo_node_hello(solo, PEER);

    say_type(solo, 1000);
    (void)take_error(solo, 77, LIGHTQ_EUNSUPPORTED);
    say_type(solo, LQ_MESSAGE_DELIVER);
    (void)take_error(solo, 77, LIGHTQ_EUNSUPPORTED);

    assert_int_equal(lq_sessions_count(solo->service.sessions), 1);
}

static void test_router_answer_from_client_is_refused_and_closed(void **state)
{
    struct solo_node *solo = *state;
    solo_node_hello(solo, PEER);

    say_type(solo, LQ_MESSAGE_METADATA_ANSWER);

    (void)take_error(solo, 77, LIGHTQ_EPROTO);
    assert_closed(solo);
}

static void test_router_missing_or_extra_payload_costs_the_request_only(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__Produce produce = LIGHTQ__WIRE__PRODUCE__INIT;
    Lightq__Wire__Metadata metadata = LIGHTQ__WIRE__METADATA__INIT;
    struct lq_slab *payload = lq_slab_new(10);
    assert_non_null(payload);
    solo_node_hello(solo, PEER);

    (void)take_error(solo, solo_node_say(solo, PEER, LQ_MESSAGE_PRODUCE, &produce.base, NULL), LIGHTQ_EPROTO);
    (void)take_error(solo, solo_node_say(solo, PEER, LQ_MESSAGE_METADATA, &metadata.base, payload), LIGHTQ_EPROTO);

    assert_int_equal(lq_sessions_count(solo->service.sessions), 1);
    lq_slab_unref(payload);
}

static void test_router_body_that_is_not_the_message_costs_the_request_only(void **state)
{
    struct solo_node *solo = *state;
    uint8_t frame[LQ_ENVELOPE_BYTES + 3] = {0};
    struct lq_envelope envelope = {.type = LQ_MESSAGE_METADATA, .correlation = 5, .body_size = 3};
    solo_node_hello(solo, PEER);
    memset(frame + LQ_ENVELOPE_BYTES, 0xff, 3);
    lq_frame_encode(frame, &envelope, frame + LQ_ENVELOPE_BYTES);

    solo_node_say_bytes(solo, PEER, frame, sizeof frame, NULL);

    (void)take_error(solo, 5, LIGHTQ_EPROTO);
    assert_int_equal(lq_sessions_count(solo->service.sessions), 1);
}

static void test_router_heartbeat_is_answered(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__Heartbeat beat = LIGHTQ__WIRE__HEARTBEAT__INIT;
    solo_node_hello(solo, PEER);
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_HEARTBEAT, &beat.base, NULL);
    const Lightq__Wire__HeartbeatAnswer *answer = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_HEARTBEAT_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_OK);

    beat.session = 12345; /* not that connection's */
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_HEARTBEAT, &beat.base, NULL);
    answer = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_HEARTBEAT_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_ENOTFOUND);
}

static void test_router_bye_ends_the_session(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__Bye bye = LIGHTQ__WIRE__BYE__INIT;
    solo_node_hello(solo, PEER);

    (void)solo_node_say(solo, PEER, LQ_MESSAGE_BYE, &bye.base, NULL);

    assert_int_equal(outlet_left(&solo->outlet), 0);
    assert_int_equal(lq_sessions_count(solo->service.sessions), 0);
}

/* ---- metadata */

static const Lightq__Wire__MetadataAnswer *ask_metadata(struct solo_node *solo, char **names, size_t count, bool all,
                                                        const char *after)
{
    Lightq__Wire__Metadata metadata = LIGHTQ__WIRE__METADATA__INIT;
    metadata.names = names;
    metadata.n_names = count;
    metadata.all = all;
    metadata.after = lq_codec_string(after);
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_METADATA, &metadata.base, NULL);
    return outlet_take(&solo->outlet, PEER, LQ_MESSAGE_METADATA_ANSWER)->body;
}

static void test_metadata_names_topics_nodes_and_leaders(void **state)
{
    struct solo_node *solo = *state;
    solo_node_hello(solo, PEER);
    struct lq_id topic = solo_node_create(solo, PEER, "orders", 3), given;
    char *names[] = {lq_codec_string("orders"), lq_codec_string("nothing"), lq_codec_string("a b")};

    const Lightq__Wire__MetadataAnswer *answer = ask_metadata(solo, names, 3, false, "");

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->controller, 1);
    assert_int_equal(answer->n_nodes, 1);
    assert_string_equal(answer->nodes[0]->endpoints[0], "127.0.0.1:5600");
    assert_int_equal(answer->nodes[0]->state, LIGHTQ__WIRE__NODE_STATE__NODE_UP);
    assert_int_equal(answer->n_topics, 3);
    assert_int_equal(answer->topics[0]->status, LIGHTQ_OK);
    assert_int_equal(answer->topics[0]->n_partitions, 3);
    assert_int_equal(lq_codec_id(&answer->topics[0]->topic, &given), LIGHTQ_OK);
    assert_true(lq_id_equal(&given, &topic));
    for (uint32_t i = 0; i < 3; i++) {
        const Lightq__Wire__PartitionInfo *partition = answer->topics[0]->partitions[i];
        assert_int_equal(partition->partition, i);
        assert_int_equal(partition->leader->node, 1);
        assert_string_equal(partition->leader->endpoint, "127.0.0.1:5600");
        assert_int_equal(partition->n_replicas, 1);
        assert_int_equal(partition->state, LIGHTQ__WIRE__PARTITION_STATE__PARTITION_OK);
    }
    assert_int_equal(answer->topics[1]->status, LIGHTQ_ENOTFOUND);
    assert_int_equal(answer->topics[2]->status, LIGHTQ_ENAME);
}

static void test_metadata_all_goes_on_behind_a_name(void **state)
{
    struct solo_node *solo = *state;
    solo_node_hello(solo, PEER);
    (void)solo_node_create(solo, PEER, "a", 1);
    (void)solo_node_create(solo, PEER, "b", 1);
    (void)solo_node_create(solo, PEER, "c", 1);

    const Lightq__Wire__MetadataAnswer *answer = ask_metadata(solo, NULL, 0, true, "");
    assert_int_equal(answer->n_topics, 3);
    assert_false(answer->more);
    answer = ask_metadata(solo, NULL, 0, true, "a");
    assert_int_equal(answer->n_topics, 2);
    assert_string_equal(answer->topics[0]->name, "b");
    answer = ask_metadata(solo, NULL, 0, true, "bb");
    assert_int_equal(answer->n_topics, 1);
    assert_string_equal(answer->topics[0]->name, "c");
    answer = ask_metadata(solo, NULL, 0, true, "c");
    assert_int_equal(answer->n_topics, 0);
}

static void test_metadata_stats_name_every_counter(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__Stats stats = LIGHTQ__WIRE__STATS__INIT;
    solo_node_hello(solo, PEER);

    (void)solo_node_say(solo, PEER, LQ_MESSAGE_STATS, &stats.base, NULL);

    const Lightq__Wire__StatsAnswer *answer = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_STATS_ANSWER)->body;
    assert_int_equal(answer->node, 1);
    assert_int_equal(answer->n_counters, sizeof(struct lq_counters) / sizeof(uint64_t));
    for (size_t i = 0; i < answer->n_counters; i++) {
        if (strcmp(answer->counters[i]->name, "sessions") == 0) {
            assert_int_equal(answer->counters[i]->value, 1);
            return;
        }
    }
    fail_msg("no counter of sessions");
}

/* ---- administration */

static const Lightq__Wire__TopicCreateAnswer *create(struct solo_node *solo, Lightq__Wire__TopicCreate *body)
{
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_CREATE, &body->base, NULL);
    solo_node_until_sent(solo, 1);
    return outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_CREATE_ANSWER)->body;
}

static void test_admin_topic_create_refuses_by_name(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__TopicCreate body = LIGHTQ__WIRE__TOPIC_CREATE__INIT;
    Lightq__Wire__NameValue value = LIGHTQ__WIRE__NAME_VALUE__INIT, *list[] = {&value};
    solo_node_hello(solo, PEER);
    (void)solo_node_create(solo, PEER, "there", 1);
    static const char *const bad[] = {"", ".", "..", "a b", "a/b", "../../../tmp/x", "\xc3\xa9", "a\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        body.name = lq_codec_string(bad[i]);
        assert_int_equal(create(solo, &body)->status, LIGHTQ_ENAME);
    }

    body.name = lq_codec_string("there");
    assert_int_equal(create(solo, &body)->status, LIGHTQ_EEXISTS);
    body.name = lq_codec_string("new");
    body.replicas = 3;
    assert_int_equal(create(solo, &body)->status, LIGHTQ_EUNAVAILABLE);
    body.replicas = 1;
    body.config = list;
    body.n_config = 1;
    value.name = lq_codec_string("no.such");
    value.value = lq_codec_string("1");
    const Lightq__Wire__TopicCreateAnswer *answer = create(solo, &body);
    assert_int_equal(answer->status, LIGHTQ_EINVAL);
    assert_non_null(strstr(answer->text, "no.such"));
    static const char *const unsupported[] = {"transient", "max.bytes", "full", "message.ttl.ms"};
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++) {
        value.name = lq_codec_string(unsupported[i]);
        answer = create(solo, &body);
        assert_int_equal(answer->status, LIGHTQ_EUNSUPPORTED);
        assert_non_null(strstr(answer->text, unsupported[i]));
        assert_null(lq_catalog_topic(lq_meta_catalog(solo->service.meta), "new"));
    }
    value.name = lq_codec_string("max.message.bytes");
    value.value = lq_codec_string("2m");
    assert_int_equal(create(solo, &body)->status, LIGHTQ_EINVAL);
    value.value = lq_codec_string("1k");
    assert_int_equal(create(solo, &body)->status, LIGHTQ_OK);
}

static const Lightq__Wire__TopicAlterAnswer *alter(struct solo_node *solo, Lightq__Wire__TopicAlter *body)
{
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_ALTER, &body->base, NULL);
    solo_node_until_sent(solo, 1);
    return outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_ALTER_ANSWER)->body;
}

static void test_admin_topic_alter_changes_what_is_named(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__TopicAlter body = LIGHTQ__WIRE__TOPIC_ALTER__INIT;
    Lightq__Wire__NameValue value = LIGHTQ__WIRE__NAME_VALUE__INIT, *list[] = {&value};
    solo_node_hello(solo, PEER);
    (void)solo_node_create(solo, PEER, "t", 1);
    body.name = lq_codec_string("t");
    body.config = list;
    body.n_config = 1;
    value.name = lq_codec_string("retention.messages");
    value.value = lq_codec_string("5");
    body.partitions = 3;

    const Lightq__Wire__TopicAlterAnswer *answer = alter(solo, &body);

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->partitions, 3);
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(solo->service.meta), "t");
    assert_int_equal(topic->partition_count, 3);
    assert_int_equal(topic->config.retention_messages, 5);
    assert_int_equal(answer->version, topic->version);
    for (uint32_t p = 0; p < 3; p++) { /* each can be used at once */
        struct lq_partition *partition = lq_meta_partition(solo->service.meta, topic->partitions[p].group);
        assert_non_null(partition);
        assert_true(lq_partition_leading(partition));
    }
}

static void test_admin_topic_alter_refuses_by_name(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__TopicAlter body = LIGHTQ__WIRE__TOPIC_ALTER__INIT;
    Lightq__Wire__NameValue value = LIGHTQ__WIRE__NAME_VALUE__INIT, *list[] = {&value};
    solo_node_hello(solo, PEER);
    (void)solo_node_create(solo, PEER, "t", 2);
    body.name = lq_codec_string("nope");
    body.partitions = 3;
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_ENOTFOUND);
    body.name = lq_codec_string("a b");
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_ENAME);
    body.name = lq_codec_string("t");
    body.partitions = 1;
    const Lightq__Wire__TopicAlterAnswer *answer = alter(solo, &body);
    assert_int_equal(answer->status, LIGHTQ_EINVAL);
    assert_non_null(strstr(answer->text, "2 partitions, and their number only grows"));
    body.partitions = LQ_PARTITIONS_MAX + 1;
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_EINVAL);
    body.partitions = 0;
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_EINVAL); /* nothing is said */
    body.config = list;
    body.n_config = 1;
    value.name = lq_codec_string("retention.moons");
    value.value = lq_codec_string("1");
    answer = alter(solo, &body);
    assert_int_equal(answer->status, LIGHTQ_EINVAL);
    assert_non_null(strstr(answer->text, "retention.moons"));
    value.name = lq_codec_string("max.message.bytes");
    value.value = lq_codec_string("2m");
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_EINVAL);
    value.value = lq_codec_string("-1");
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_EINVAL);

    body.partitions = 2; /* as many as there are */
    body.n_config = 0;
    assert_int_equal(alter(solo, &body)->status, LIGHTQ_OK);
    assert_int_equal(lq_catalog_topic(lq_meta_catalog(solo->service.meta), "t")->partition_count, 2);
}

static void test_admin_topic_list_and_delete(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__TopicList list = LIGHTQ__WIRE__TOPIC_LIST__INIT;
    Lightq__Wire__TopicDelete gone = LIGHTQ__WIRE__TOPIC_DELETE__INIT;
    solo_node_hello(solo, PEER);
    (void)solo_node_create(solo, PEER, "x", 2);
    (void)solo_node_create(solo, PEER, "y", 1);

    gone.name = lq_codec_string("x");
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_DELETE, &gone.base, NULL);
    solo_node_until_sent(solo, 1);
    const Lightq__Wire__TopicDeleteAnswer *deleted =
        outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_DELETE_ANSWER)->body;
    assert_int_equal(deleted->status, LIGHTQ_OK);
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_DELETE, &gone.base, NULL);
    solo_node_until_sent(solo, 1);
    deleted = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_DELETE_ANSWER)->body;
    assert_int_equal(deleted->status, LIGHTQ_ENOTFOUND);
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_LIST, &list.base, NULL);

    const Lightq__Wire__TopicListAnswer *answer = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_LIST_ANSWER)->body;
    assert_int_equal(answer->n_topics, 1);
    assert_string_equal(answer->topics[0]->name, "y");
    assert_int_equal(answer->topics[0]->replicas, 1);
}

static void test_admin_describe_shows_replicas_with_digest(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__TopicDescribe body = LIGHTQ__WIRE__TOPIC_DESCRIBE__INIT;
    solo_node_hello(solo, PEER);
    struct lq_id topic = solo_node_create(solo, PEER, "t", 2);
    (void)solo_node_stored(solo, PEER, &topic, solo_batch(5, 0, 10, 20));

    body.name = lq_codec_string("t");
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_DESCRIBE, &body.base, NULL);
    solo_node_until_sent(solo, 1);

    const Lightq__Wire__TopicDescribeAnswer *answer =
        outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_DESCRIBE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->n_partitions, 2);
    assert_true(answer->n_config >= 4);
    const Lightq__Wire__PartitionDetail *first = answer->partitions[0];
    assert_int_equal(first->leader, 1);
    assert_int_equal(first->n_replicas, 1);
    assert_true(first->replicas[0]->online);
    assert_int_equal(first->replicas[0]->role, LIGHTQ__WIRE__REPLICA_ROLE__ROLE_LEADER);
    assert_string_equal(first->replicas[0]->health, "ok");
    assert_int_equal(first->replicas[0]->log_end, 10);
    assert_int_equal(first->replicas[0]->digest_to, 10);
    assert_int_not_equal(first->replicas[0]->digest, answer->partitions[1]->replicas[0]->digest);
    assert_true(first->replicas[0]->durable_index >= first->replicas[0]->commit_index);
    body.name = lq_codec_string("nothing");
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_DESCRIBE, &body.base, NULL);
    answer = outlet_take(&solo->outlet, PEER, LQ_MESSAGE_TOPIC_DESCRIBE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_ENOTFOUND);
}

static void test_admin_cluster_status_shows_node_and_meta_group(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__ClusterStatus body = LIGHTQ__WIRE__CLUSTER_STATUS__INIT;
    solo_node_hello(solo, PEER);
    (void)solo_node_create(solo, PEER, "t", 2);

    (void)solo_node_say(solo, PEER, LQ_MESSAGE_CLUSTER_STATUS, &body.base, NULL);
    solo_node_until_sent(solo, 1);

    const Lightq__Wire__ClusterStatusAnswer *answer =
        outlet_take(&solo->outlet, PEER, LQ_MESSAGE_CLUSTER_STATUS_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->controller, 1);
    assert_int_equal(answer->topics, 1);
    assert_int_equal(answer->partitions, 2);
    assert_int_equal(answer->partitions_without_leader, 0);
    assert_int_equal(answer->n_nodes, 1);
    assert_int_equal(answer->nodes[0]->leaders, 2);
    assert_string_equal(answer->nodes[0]->peer_endpoint, "127.0.0.1:5700");
    assert_int_equal(answer->n_unhealthy, 0);
    assert_int_equal(answer->meta->group, 0);
    assert_int_equal(answer->meta->n_replicas, 1);
    assert_int_equal(answer->meta->replicas[0]->role, LIGHTQ__WIRE__REPLICA_ROLE__ROLE_LEADER);
}

static void test_admin_node_replace_and_transfer_refuse_by_name(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__NodeReplace replace = LIGHTQ__WIRE__NODE_REPLACE__INIT;
    Lightq__Wire__PartitionTransfer transfer = LIGHTQ__WIRE__PARTITION_TRANSFER__INIT;
    solo_node_hello(solo, PEER);
    replace.old_node = replace.new_node = 9;
    transfer.name = lq_codec_string("nothing");

    (void)solo_node_say(solo, PEER, LQ_MESSAGE_NODE_REPLACE, &replace.base, NULL);
    solo_node_until_sent(solo, 1);
    const Lightq__Wire__NodeReplaceAnswer *replaced =
        outlet_take(&solo->outlet, PEER, LQ_MESSAGE_NODE_REPLACE_ANSWER)->body;
    assert_int_equal(replaced->status, LIGHTQ_ENOTFOUND);
    assert_true(replaced->text[0] != '\0');
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_PARTITION_TRANSFER, &transfer.base, NULL);
    solo_node_until_sent(solo, 1);
    const Lightq__Wire__PartitionTransferAnswer *transferred =
        outlet_take(&solo->outlet, PEER, LQ_MESSAGE_PARTITION_TRANSFER_ANSWER)->body;
    assert_int_equal(transferred->status, LIGHTQ_ENOTFOUND);
}

static void test_admin_answer_to_client_that_left_is_dropped(void **state)
{
    struct solo_node *solo = *state;
    Lightq__Wire__TopicCreate body = LIGHTQ__WIRE__TOPIC_CREATE__INIT;
    solo_node_hello(solo, PEER);
    body.name = lq_codec_string("t");
    (void)solo_node_say(solo, PEER, LQ_MESSAGE_TOPIC_CREATE, &body.base, NULL);
    lq_sessions_bye(solo->service.sessions, lq_sessions_heard(solo->service.sessions, PEER));

    solo_node_advance(solo, 100);

    assert_int_equal(outlet_left(&solo->outlet), 0);
    assert_non_null(lq_catalog_topic(lq_meta_catalog(solo->meta), "t"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_router_anything_before_hello_is_refused_and_closed),
        TEST(test_router_bytes_that_are_no_frame_are_refused_and_closed),
        TEST(test_router_malformed_message_is_refused_and_closed),
        TEST(test_router_frame_with_flipped_bits_never_harms),
        TEST(test_router_unknown_type_is_unsupported_and_goes_on),
        TEST(test_router_answer_from_client_is_refused_and_closed),
        TEST(test_router_missing_or_extra_payload_costs_the_request_only),
        TEST(test_router_body_that_is_not_the_message_costs_the_request_only),
        TEST(test_router_heartbeat_is_answered),
        TEST(test_router_bye_ends_the_session),
        TEST(test_metadata_names_topics_nodes_and_leaders),
        TEST(test_metadata_all_goes_on_behind_a_name),
        TEST(test_metadata_stats_name_every_counter),
        TEST(test_admin_topic_create_refuses_by_name),
        TEST(test_admin_topic_alter_changes_what_is_named),
        TEST(test_admin_topic_alter_refuses_by_name),
        TEST(test_admin_topic_list_and_delete),
        TEST(test_admin_describe_shows_replicas_with_digest),
        TEST(test_admin_cluster_status_shows_node_and_meta_group),
        TEST(test_admin_node_replace_and_transfer_refuse_by_name),
        TEST(test_admin_answer_to_client_that_left_is_dropped),
    };
    return cmocka_run_group_tests_name("node router", tests, NULL, NULL);
}
