/* tests/unit/node/lone_node.c - see lone_node.h. */
#include "tests/unit/node/lone_node.h"

#define ROUNDS_MAX 8

/* ---- a link to nobody */

static lightq_status on_send(struct lq_link *link, uint32_t node, const struct lq_frame *frame)
{
    (void)link;
    (void)node;
    (void)frame;
    return LIGHTQ_ECONNECT;
}

static bool on_connected(struct lq_link *link, uint32_t node)
{
    (void)link;
    (void)node;
    return false;
}

static uint64_t on_queued(struct lq_link *link, uint32_t node)
{
    (void)link;
    (void)node;
    return 0;
}

const struct lq_link_ops lone_link_ops = {.send = on_send, .connected = on_connected, .queued = on_queued};

/* ---- forming */

static void on_formed(void *owner)
{
    *(bool *)owner = true;
}

static void on_err(void *owner, const struct lq_err *err)
{
    (void)owner;
    fail_msg("%s", err->text);
}

static const struct lq_forming_events forming_events = {.done = on_formed, .waiting = on_err, .failed = on_err};

void lone_form(struct hand_clock *clock, struct lq_io *io, struct lq_link *link, unsigned shards,
               const struct lq_endpoint *client, const struct lq_endpoint *peer, struct lq_identity *identity)
{
    struct lq_forming *forming;
    struct lq_err err;
    bool formed = false;
    const struct lq_forming_options options = {.identity = identity,
                                               .io = io,
                                               .clock = &clock->clock,
                                               .link = link,
                                               .expect = 1,
                                               .client = *client,
                                               .peer = *peer};
    lq_identity_make(1, shards, &clock->clock, identity);
    assert_int_equal(lq_identity_boot(io, identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_forming_new(&options, &forming_events, &formed, &forming, &err), LIGHTQ_OK);
    for (unsigned i = 0; i < LONE_STEPS_MAX && !formed; i++) {
        clock->now_us += LONE_STEP_US;
        lq_forming_tick(forming);
    }
    assert_true(formed);
    lq_forming_free(forming);
}

/* ---- the meta part */

static void on_peer(void *owner, const struct lq_catalog_node *node)
{
    (void)owner;
    (void)node;
}

static void on_ready(void *owner)
{
    *(bool *)owner = true;
}

static const struct lq_meta_events meta_events = {.peer = on_peer, .ready = on_ready, .expelled = on_err};

void lone_open(struct hand_clock *clock, struct lq_link *link, struct lq_meta_options *options, bool *ready,
               struct lq_meta **meta, struct lq_host **host)
{
    struct lq_err err;
    const struct lq_host_options host_options = {.node = 1};
    options->clock = &clock->clock;
    options->link = link;
    assert_int_equal(lq_meta_new(options, &meta_events, ready, meta, &err), LIGHTQ_OK);
    assert_int_equal(
        lq_host_new(&host_options, &clock->clock, options->store, link, &lq_meta_host_events, *meta, host, &err),
        LIGHTQ_OK);
    assert_int_equal(lq_meta_start(*meta, *host, &err), LIGHTQ_OK);
}

void lone_turn(const struct hand_clock *clock, struct lq_meta *meta, struct lq_host *host)
{
    if (clock->now_us >= lq_meta_deadline_us(meta)) {
        lq_meta_tick(meta);
    }
    if (clock->now_us >= lq_host_deadline_us(host)) {
        lq_host_tick(host);
    }
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        lq_meta_turn(meta);
        lq_host_turn(host);
        if (!lq_meta_needs_turn(meta)) {
            break;
        }
    }
}
