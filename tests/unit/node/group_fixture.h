/* tests/unit/node/group_fixture.h - clients of consumer groups of one partition of a lone node. */
#ifndef LQ_TESTS_GROUP_FIXTURE_H
#define LQ_TESTS_GROUP_FIXTURE_H

#include "tests/unit/node/solo_node.h"

#define PEER  7 /* who makes groups and produces */
#define FIRST 8 /* consumers */
#define OTHER 9
#define BATCH 10 /* messages of a batch */
#define MUCH  1000000

#define PIPELINE   LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE
#define SUBSCRIBER LIGHTQ__WIRE__GROUP_MODE__GROUP_SUBSCRIBER
#define ACK        LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK
#define NACK       LIGHTQ__WIRE__SETTLE_KIND__SETTLE_NACK

struct fixture {
    struct solo_node solo;
    struct lq_id topic;
    uint64_t next_sequence;
    uint64_t number, generation; /* of the group made last */
};

static inline int group_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    solo_node_init(&f->solo);
    solo_node_start(&f->solo);
    for (lq_peer peer = PEER; peer <= OTHER; peer++) {
        solo_node_hello(&f->solo, peer);
    }
    f->topic = solo_node_create(&f->solo, PEER, "t", 1);
    *state = f;
    return 0;
}

static inline int group_teardown(void **state)
{
    struct fixture *f = *state;
    solo_node_deinit(&f->solo);
    free(f);
    return 0;
}

static inline void store(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)solo_node_stored(&f->solo, PEER, &f->topic, solo_batch(5, f->next_sequence, BATCH, 100));
        f->next_sequence += BATCH;
    }
}

/* The body of the next answer, which must be of @type and to @peer. */
static inline const void *answered(struct fixture *f, lq_peer peer, uint16_t type)
{
    solo_node_until_sent(&f->solo, 1);
    return outlet_take(&f->solo.outlet, peer, type)->body;
}

static inline const Lightq__Wire__GroupCreateAnswer *create_with(struct fixture *f, const char *name, uint8_t id,
                                                                 Lightq__Wire__GroupOptions *options,
                                                                 Lightq__Wire__Start *start)
{
    Lightq__Wire__GroupCreate body = LIGHTQ__WIRE__GROUP_CREATE__INIT;
    struct lq_id group_id = {.bytes = {id}};
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string(name);
    body.group_id = lq_codec_bytes_of(&group_id);
    body.options = options;
    body.start = start;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_CREATE, &body.base, NULL);
    const Lightq__Wire__GroupCreateAnswer *answer = answered(f, PEER, LQ_MESSAGE_GROUP_CREATE_ANSWER);
    if (answer->status == LIGHTQ_OK) {
        f->number = answer->group_number;
        f->generation = answer->generation;
    }
    return answer;
}

static inline void create(struct fixture *f, const char *name, Lightq__Wire__GroupMode mode)
{
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    options.mode = mode;
    assert_int_equal(create_with(f, name, 1, &options, NULL)->status, LIGHTQ_OK);
}

static inline const Lightq__Wire__SubscribeAnswer *subscribe(struct fixture *f, lq_peer peer, const char *name,
                                                             uint64_t messages)
{
    Lightq__Wire__Subscribe body = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.subscription = 1;
    body.credit_messages = messages;
    body.credit_bytes = MUCH;
    body.consumer_group = lq_codec_string(name);
    (void)solo_node_say(&f->solo, peer, LQ_MESSAGE_SUBSCRIBE, &body.base, NULL);
    return answered(f, peer, LQ_MESSAGE_SUBSCRIBE_ANSWER);
}

static inline void subscribe_ok(struct fixture *f, lq_peer peer, const char *name, uint64_t messages)
{
    assert_int_equal(subscribe(f, peer, name, messages)->status, LIGHTQ_OK);
}

static inline void credit(struct fixture *f, lq_peer peer, uint64_t messages)
{
    Lightq__Wire__Credit body = LIGHTQ__WIRE__CREDIT__INIT;
    body.subscription = 1;
    body.messages = messages;
    body.bytes = MUCH;
    (void)solo_node_say(&f->solo, peer, LQ_MESSAGE_CREDIT, &body.base, NULL);
}

static inline void unsubscribe(struct fixture *f, lq_peer peer)
{
    Lightq__Wire__Unsubscribe body = LIGHTQ__WIRE__UNSUBSCRIBE__INIT;
    body.subscription = 1;
    (void)solo_node_say(&f->solo, peer, LQ_MESSAGE_UNSUBSCRIBE, &body.base, NULL);
    const Lightq__Wire__UnsubscribeAnswer *answer = answered(f, peer, LQ_MESSAGE_UNSUBSCRIBE_ANSWER);
    assert_int_equal(answer->status, LIGHTQ_OK);
}

static inline void say_settle(struct fixture *f, lq_peer peer, Lightq__Wire__SettleKind kind, uint64_t offset,
                              uint32_t count)
{
    Lightq__Wire__SettleItem item = LIGHTQ__WIRE__SETTLE_ITEM__INIT;
    Lightq__Wire__SettleItem *items[] = {&item};
    Lightq__Wire__Settle body = LIGHTQ__WIRE__SETTLE__INIT;
    item.kind = kind;
    item.offset = offset;
    item.count = count;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.group_number = f->number;
    body.generation = f->generation;
    body.subscription = 1;
    body.n_items = 1;
    body.items = items;
    (void)solo_node_say(&f->solo, peer, LQ_MESSAGE_SETTLE, &body.base, NULL);
}

/* Its answer, which must be OK. */
static inline const Lightq__Wire__SettleAnswer *settle(struct fixture *f, lq_peer peer, Lightq__Wire__SettleKind kind,
                                                       uint64_t offset, uint32_t count)
{
    say_settle(f, peer, kind, offset, count);
    const Lightq__Wire__SettleAnswer *answer = answered(f, peer, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(answer->status, LIGHTQ_OK);
    return answer;
}

static inline const Lightq__Wire__CommitAnswer *commit(struct fixture *f, lq_peer peer, uint64_t offset)
{
    Lightq__Wire__Commit body = LIGHTQ__WIRE__COMMIT__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.group_number = f->number;
    body.generation = f->generation;
    body.offset = offset;
    (void)solo_node_say(&f->solo, peer, LQ_MESSAGE_COMMIT, &body.base, NULL);
    return answered(f, peer, LQ_MESSAGE_COMMIT_ANSWER);
}

static inline void remove_group(struct fixture *f, const char *name)
{
    Lightq__Wire__GroupDelete body = LIGHTQ__WIRE__GROUP_DELETE__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string(name);
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_DELETE, &body.base, NULL);
}

static inline void say_seek(struct fixture *f, const char *name, Lightq__Wire__StartKind kind, uint64_t value)
{
    Lightq__Wire__GroupSeek body = LIGHTQ__WIRE__GROUP_SEEK__INIT;
    Lightq__Wire__Start to = LIGHTQ__WIRE__START__INIT;
    to.kind = kind;
    to.value = value;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string(name);
    body.to = &to;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_SEEK, &body.base, NULL);
}

static inline void say_pause(struct fixture *f, const char *name, bool paused)
{
    Lightq__Wire__GroupAlter body = LIGHTQ__WIRE__GROUP_ALTER__INIT;
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    options.paused = paused;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string(name);
    body.mask = LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_PAUSED;
    body.options = &options;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_ALTER, &body.base, NULL);
}

static inline const Lightq__Wire__GroupDescribeAnswer *describe(struct fixture *f, const char *name)
{
    Lightq__Wire__GroupDescribe body = LIGHTQ__WIRE__GROUP_DESCRIBE__INIT;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string(name);
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_DESCRIBE, &body.base, NULL);
    return answered(f, PEER, LQ_MESSAGE_GROUP_DESCRIBE_ANSWER);
}

/* Takes one DELIVER to @peer. */
static inline const Lightq__Wire__Deliver *delivered(struct fixture *f, lq_peer peer)
{
    return answered(f, peer, LQ_MESSAGE_DELIVER);
}

/* Everything of @deliver is one grant of messages [first, first + count), the @delivery-th time. */
static inline void assert_granted(const Lightq__Wire__Deliver *deliver, uint64_t first, uint32_t count,
                                  uint32_t delivery)
{
    assert_int_equal(deliver->n_grants, 1);
    assert_int_equal(deliver->base_offset + deliver->grants[0]->skip, first);
    assert_int_equal(deliver->grants[0]->count, count);
    assert_int_equal(deliver->grants[0]->delivery, delivery);
    assert_int_equal(deliver->first_wanted, first);
}

/* What is granted by everything that was sent and not taken, and to whom: to each of the @count messages of @to. */
static inline unsigned take_granted(struct fixture *f, lq_peer to[], uint64_t count)
{
    unsigned granted = 0;
    solo_node_settle(&f->solo);
    while (outlet_left(&f->solo.outlet) > 0) {
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        assert_int_equal(sent->envelope.type, LQ_MESSAGE_DELIVER);
        const Lightq__Wire__Deliver *deliver = sent->body;
        uint64_t at = deliver->base_offset;
        for (size_t i = 0; i < deliver->n_grants; i++) {
            at += deliver->grants[i]->skip;
            for (uint32_t j = 0; j < deliver->grants[i]->count; j++, at++, granted++) {
                assert_true(at < count && to[at] == 0);
                to[at] = sent->peer;
            }
        }
    }
    return granted;
}

static inline void assert_silence(struct fixture *f)
{
    solo_node_settle(&f->solo);
    assert_int_equal(outlet_left(&f->solo.outlet), 0);
}

#endif
