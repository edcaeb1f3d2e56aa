/* tests/unit/node/solo_node.c - see solo_node.h. */
#include "tests/unit/node/solo_node.h"

#include "node/admin.h"
#include "node/consume.h"
#include "node/dead.h"
#include "node/groups.h"
#include "node/pipeline.h"
#include "node/produce.h"
#include "node/purge.h"

#define TURNS_MAX     200000
#define FRAME_MAX     (2 * 1024 * 1024)
#define SETTLED_TURNS 16

/* ---- events */

static void on_session_ended(void *owner, struct lq_session *session)
{
    struct solo_node *solo = owner;
    lq_consume_session_ended(solo->service.consume, session);
    lq_pipeline_session_ended(solo->service.pipeline, session);
}

static void on_session_unblocked(void *owner, struct lq_session *session)
{
    struct solo_node *solo = owner;
    lq_consume_session_unblocked(solo->service.consume, session);
    lq_pipeline_session_unblocked(solo->service.pipeline, session);
}

static const struct lq_sessions_events sessions_events = {.ended = on_session_ended, .unblocked = on_session_unblocked};

static void on_store_closed(void *data)
{
    ((struct solo_node *)data)->store_closed = true;
}

/* ---- life */

void solo_node_init(struct solo_node *solo)
{
    memset(solo, 0, sizeof *solo);
    lq_log_configure(LQ_LOG_OFF, 2);
    hand_clock_init(&solo->clock);
    outlet_init(&solo->outlet);
    assert_int_equal(lq_options_init(&solo->options), LIGHTQ_OK);
    assert_int_equal(lq_options_check(&solo->options, NULL), LIGHTQ_OK);
    solo->link.ops = &lone_link_ops;
    solo->disk = lq_io_mem_new();
    assert_non_null(solo->disk);
    solo->store_options = (struct lq_store_options){.dir = "", .segment_bytes = 1 << 20};
}

static void open_groups(struct solo_node *solo)
{
    struct lq_err err;
    struct lq_io *io = lq_io_mem_io(solo->disk);
    struct lq_meta_options meta = {
        .identity = &solo->identity, .io = io, .client = solo->options.client_told, .peer = solo->options.peer_told};
    lone_form(&solo->clock, io, &solo->link, 1, &meta.client, &meta.peer, &solo->identity);
    solo->store_options.cluster = solo->identity.cluster;
    assert_int_equal(lq_store_open(io, &solo->clock.clock, &solo->store_options, &solo->store, &err), LIGHTQ_OK);
    meta.store = solo->store;
    lone_open(&solo->clock, &solo->link, &meta, &solo->ready, &solo->meta, &solo->host);
}

void solo_node_start(struct solo_node *solo)
{
    struct lq_service *service = &solo->service;
    open_groups(solo);
    *service = (struct lq_service){
        .options = &solo->options, .clock = &solo->clock.clock, .counters = &solo->counters, .meta = solo->meta};
    assert_int_equal(lq_sessions_new(&solo->options, &solo->outlet.outlet, &solo->clock.clock, &solo->counters,
                                     &sessions_events, solo, &service->sessions),
                     LIGHTQ_OK);
    assert_int_equal(lq_produce_new(service, &service->produce), LIGHTQ_OK);
    assert_int_equal(lq_consume_new(service, &service->consume), LIGHTQ_OK);
    assert_int_equal(lq_pipeline_new(service, &service->pipeline), LIGHTQ_OK);
    assert_int_equal(lq_groups_new(service, &service->groups), LIGHTQ_OK);
    assert_int_equal(lq_dead_new(service, &service->dead), LIGHTQ_OK);
    assert_int_equal(lq_purges_new(service, &service->purges), LIGHTQ_OK);
    assert_int_equal(lq_admin_new(service, &service->admin), LIGHTQ_OK);
    for (int i = 0; i < TURNS_MAX && !solo->ready; i++) {
        solo_node_advance(solo, 1);
    }
    assert_true(solo->ready);
    lq_sessions_serve(service->sessions, &solo->identity.cluster);
}

void solo_node_deinit(struct solo_node *solo)
{
    struct lq_service *service = &solo->service;
    lq_sessions_farewell(service->sessions, LIGHTQ_ECLOSED, "");
    lq_meta_free(solo->meta);
    lq_host_free(solo->host);
    lq_store_close(solo->store, on_store_closed, solo);
    (void)lq_io_mem_run_all(solo->disk);
    assert_true(solo->store_closed);
    outlet_forget(&solo->outlet);
    lq_produce_free(service->produce);
    lq_admin_free(service->admin);
    lq_sessions_free(service->sessions);
    lq_consume_free(service->consume);
    lq_dead_free(service->dead);
    lq_purges_free(service->purges);
    lq_groups_free(service->groups);
    lq_pipeline_free(service->pipeline);
    assert_int_equal(service->memory_used, 0);
    assert_int_equal(lq_io_mem_open_files(solo->disk), 0);
    lq_io_mem_free(solo->disk);
    lq_options_deinit(&solo->options);
}

/* ---- time */

void solo_node_turn_without_disk(struct solo_node *solo)
{
    lone_turn(&solo->clock, solo->meta, solo->host);
    (void)lq_sessions_turn(solo->service.sessions);
    (void)lq_consume_turn(solo->service.consume);
    (void)lq_pipeline_turn(solo->service.pipeline);
}

void solo_node_turn(struct solo_node *solo)
{
    solo_node_turn_without_disk(solo);
    (void)lq_io_mem_run_all(solo->disk);
}

void solo_node_settle(struct solo_node *solo)
{
    for (int i = 0; i < SETTLED_TURNS; i++) {
        solo_node_turn(solo);
    }
}

void solo_node_advance(struct solo_node *solo, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        solo->clock.now_us += LONE_STEP_US;
        lq_sessions_tick(solo->service.sessions);
        lq_produce_tick(solo->service.produce);
        solo_node_turn(solo);
    }
}

void solo_node_until_sent(struct solo_node *solo, size_t count)
{
    for (int i = 0; outlet_left(&solo->outlet) < count; i++) {
        if (i == TURNS_MAX) {
            fail_msg("only %zu of %zu messages were sent", outlet_left(&solo->outlet), count);
        }
        solo_node_turn(solo);
        if (outlet_left(&solo->outlet) < count) {
            solo->clock.now_us += LONE_STEP_US;
        }
    }
}

/* ---- clients */

void solo_node_say_bytes(struct solo_node *solo, lq_peer peer, const void *bytes, size_t size, struct lq_slab *payload)
{
    /* A copy of exactly that size, so that reading beyond it shows. */
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    struct lq_front_message message = {.peer = peer, .frame = copy, .frame_size = size, .payload = payload};
    lq_router_receive(&solo->service, &message);
    free(copy);
}

uint64_t solo_node_say(struct solo_node *solo, lq_peer peer, uint16_t type, const ProtobufCMessage *message,
                       struct lq_slab *payload)
{
    struct lq_writer writer;
    struct lq_envelope envelope = {
        .type = type, .correlation = ++solo->correlation, .flags = payload == NULL ? 0 : LQ_ENVELOPE_FLAG_PAYLOAD};
    lq_writer_init(&writer, FRAME_MAX);
    assert_int_equal(lq_codec_frame(&envelope, message, &writer), LIGHTQ_OK);
    solo_node_say_bytes(solo, peer, writer.bytes, writer.size, payload);
    lq_writer_deinit(&writer);
    return solo->correlation;
}

void solo_node_hello(struct solo_node *solo, lq_peer peer)
{
    Lightq__Wire__Hello hello = LIGHTQ__WIRE__HELLO__INIT;
    hello.version_min = hello.version_max = 1;
    (void)solo_node_say(solo, peer, LQ_MESSAGE_HELLO, &hello.base, NULL);
    const Lightq__Wire__HelloAnswer *answer = outlet_take(&solo->outlet, peer, LQ_MESSAGE_HELLO_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_OK);
}

struct lq_id solo_node_create(struct solo_node *solo, lq_peer peer, const char *name, uint32_t partitions)
{
    struct lq_id topic;
    Lightq__Wire__TopicCreate create = LIGHTQ__WIRE__TOPIC_CREATE__INIT;
    create.name = lq_codec_string(name);
    create.partitions = partitions;
    uint64_t correlation = solo_node_say(solo, peer, LQ_MESSAGE_TOPIC_CREATE, &create.base, NULL);
    solo_node_until_sent(solo, 1);
    const struct sent_message *sent = outlet_take(&solo->outlet, peer, LQ_MESSAGE_TOPIC_CREATE_ANSWER);
    const Lightq__Wire__TopicCreateAnswer *answer = sent->body;
    assert_int_equal(sent->envelope.correlation, correlation);
    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(lq_codec_id(&answer->topic, &topic), LIGHTQ_OK);
    return topic;
}

struct lq_slab *solo_batch(uint64_t producer, uint64_t base_sequence, uint32_t count, size_t size)
{
    struct lq_batch_writer writer;
    struct lq_slab *batch;
    uint8_t *value = malloc(size + 1);
    assert_non_null(value);
    memset(value, (int)('a' + base_sequence % 26), size);
    lq_batch_writer_init(&writer, LQ_ENTRY_BYTES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(
            lq_batch_writer_add(&writer, 1700000000000, (struct lq_span){0}, lq_span_of(value, size), NULL, 0),
            LIGHTQ_OK);
    }
    assert_int_equal(lq_batch_writer_seal(&writer, producer, 0, base_sequence, LQ_BATCH_PLAIN, &batch), LIGHTQ_OK);
    lq_batch_writer_deinit(&writer);
    free(value);
    return batch;
}

uint64_t solo_node_produce(struct solo_node *solo, lq_peer peer, const struct lq_id *topic, struct lq_slab *batch)
{
    Lightq__Wire__Produce produce = LIGHTQ__WIRE__PRODUCE__INIT;
    produce.topic = lq_codec_bytes_of(topic);
    uint64_t correlation = solo_node_say(solo, peer, LQ_MESSAGE_PRODUCE, &produce.base, batch);
    lq_slab_unref(batch);
    return correlation;
}

uint64_t solo_node_stored(struct solo_node *solo, lq_peer peer, const struct lq_id *topic, struct lq_slab *batch)
{
    uint64_t correlation = solo_node_produce(solo, peer, topic, batch);
    solo_node_until_sent(solo, 1);
    const struct sent_message *sent = outlet_take(&solo->outlet, peer, LQ_MESSAGE_PRODUCE_ANSWER);
    const Lightq__Wire__ProduceAnswer *answer = sent->body;
    assert_int_equal(sent->envelope.correlation, correlation);
    assert_int_equal(answer->status, LIGHTQ_OK);
    return answer->base_offset;
}
