/* tests/unit/raft/test_transport.c - transports that talk to each other: order, sizes, loss and return. */
#include <stdio.h>
#include <stdlib.h>

#include "client/base/crc.h"
#include "tests/unit/raft/peer_fixture.h"

static void pair_of(struct net *net, struct node **a, struct node **b)
{
    *a = net_node(net, 1);
    *b = net_node(net, 2);
    node_start(*a, 0);
    node_start(*b, 0);
    net_join(*a, *b);
    WAIT_UNTIL(net, (*a)->ups == 1 && (*b)->ups == 1);
}

static uint32_t crc_of_numbered(uint64_t sequence, uint32_t body_size)
{
    uint8_t head[16] = {0};
    lq_put_u64(head, sequence);
    uint32_t crc = lq_crc32c(0, head, sizeof head);
    uint8_t *body = malloc(body_size + 1u);
    assert_non_null(body);
    memset(body, (int)(sequence % 251), body_size);
    crc = lq_crc32c(crc, body, body_size);
    free(body);
    return crc;
}

/* ---- exchange ---- */

static void test_transport_frames_arrive_whole_in_both_directions(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);

    assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, 41, 1000), LIGHTQ_OK);
    assert_int_equal(send_numbered(b, 1, LQ_FRAME_VOTE, 42, 0), LIGHTQ_OK);
    WAIT_UNTIL(net, a->got_count == 1 && b->got_count == 1);

    assert_int_equal(b->got[0].type, LQ_FRAME_NODE);
    assert_int_equal(b->got[0].from, 1);
    assert_int_equal(b->got[0].group, 41 % 3);
    assert_int_equal(b->got[0].size, 1016);
    assert_int_equal(b->got[0].crc, crc_of_numbered(41, 1000));
    assert_int_equal(a->got[0].type, LQ_FRAME_VOTE);
    assert_int_equal(a->got[0].from, 2);
    assert_int_equal(a->got[0].crc, crc_of_numbered(42, 0));
    struct lq_transport_counters counters = node_counters(a);
    assert_int_equal(counters.frames_sent, 1);
    assert_int_equal(counters.bytes_sent, LQ_FRAME_HEADER_BYTES + 1016);
    assert_int_equal(counters.frames_received, 1);
    assert_int_equal(counters.unidentified, 0);
}

static void test_transport_three_nodes_reach_each_other(void **state)
{
    struct net *net = *state;
    struct node *nodes[3];
    for (uint32_t i = 0; i < 3; i++) {
        nodes[i] = net_node(net, i + 1);
        node_start(nodes[i], 0);
    }
    net_join(nodes[0], nodes[1]);
    net_join(nodes[0], nodes[2]);
    net_join(nodes[1], nodes[2]);
    WAIT_UNTIL(net, nodes[0]->ups == 2 && nodes[1]->ups == 2 && nodes[2]->ups == 2);

    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t to = 1; to <= 3; to++) {
            if (to != i + 1) {
                assert_int_equal(send_numbered(nodes[i], to, LQ_FRAME_NODE, 10 * (i + 1) + to, 10), LIGHTQ_OK);
            }
        }
    }
    WAIT_UNTIL(net, nodes[0]->got_count == 2 && nodes[1]->got_count == 2 && nodes[2]->got_count == 2);

    for (uint32_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(nodes[i]->got[k].sequence, 10 * nodes[i]->got[k].from + i + 1);
        }
    }
}

static void test_transport_keeps_order_over_sizes_of_every_kind(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    enum { FRAMES = 2000 };
    uint64_t seed = lq_clock_random_u64(lq_clock_system()), random = seed | 1;
    uint32_t *sizes = calloc(FRAMES, sizeof *sizes);
    assert_non_null(sizes);
    b->keep = true; /* slabs that stay referenced must not be written again */

    size_t sent = 0;
    while (sent < FRAMES) {
        for (int burst = 0; burst < 16 && sent < FRAMES; burst++, sent++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            sizes[sent] = (uint32_t)((random >> 33) % (random >> 63 ? 200u : 300000u));
            assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, sent, sizes[sent]), LIGHTQ_OK);
        }
        net_turn(net);
    }
    WAIT_UNTIL(net, b->got_count == FRAMES);

    for (size_t i = 0; i < FRAMES; i++) {
        if (b->got[i].sequence != i || b->got[i].crc != crc_of_numbered(i, sizes[i])) {
            fail_msg("frame %zu came as %llu or damaged (seed %llu)", i, (unsigned long long)b->got[i].sequence,
                     (unsigned long long)seed);
        }
    }
    assert_int_equal(node_link(a)->ops->queued(node_link(a), 2), 0);
    free(sizes);
}

static void test_transport_entries_go_out_by_reference_and_come_back(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    struct lq_slab *slab = lq_slab_new(8u * 1024 * 1024); /* more than socket buffers take at once */
    assert_non_null(slab);
    for (size_t i = 0; i < slab->size; i++) {
        slab->bytes[i] = (uint8_t)(i * 7);
    }
    struct lq_entry_ref refs[5] = {{.slab = slab, .offset = 0, .size = 80},
                                   {.slab = slab, .offset = 80, .size = 512},
                                   {.slab = slab, .offset = 592, .size = 520},
                                   {.slab = slab, .offset = 4096, .size = 4u * 1024 * 1024},
                                   {.slab = slab, .offset = 8, .size = 72}};
    const uint8_t head[4] = {1, 2, 3, 4};
    uint32_t crc = lq_crc32c(0, head, sizeof head);
    for (int i = 0; i < 5; i++) {
        crc = lq_crc32c(crc, slab->bytes + refs[i].offset, refs[i].size);
    }
    struct lq_frame frame = {
        .type = LQ_FRAME_APPEND, .group = 3, .head = head, .head_size = sizeof head, .entries = refs, .entry_count = 5};

    assert_int_equal(node_link(a)->ops->send(node_link(a), 2, &frame), LIGHTQ_OK);
    assert_true(slab->references > 1);
    assert_int_equal(node_link(a)->ops->queued(node_link(a), 2), lq_frame_wire_size(&frame));
    WAIT_UNTIL(net, b->got_count == 1 && slab->references == 1);

    assert_int_equal(b->got[0].crc, crc);
    assert_int_equal(node_link(a)->ops->queued(node_link(a), 2), 0);
    lq_slab_unref(slab);
}

static void test_transport_largest_entry_passes(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    struct lq_slab *slab = lq_slab_new(LQ_ENTRY_BYTES_MAX);
    assert_non_null(slab);
    memset(slab->bytes, 0x3c, slab->size);
    struct lq_entry_ref ref = {.slab = slab, .size = LQ_ENTRY_BYTES_MAX};
    const uint8_t head[64] = {9};
    uint32_t crc = lq_crc32c(lq_crc32c(0, head, sizeof head), slab->bytes, slab->size);
    struct lq_frame frame = {
        .type = LQ_FRAME_APPEND, .head = head, .head_size = sizeof head, .entries = &ref, .entry_count = 1};

    assert_int_equal(node_link(a)->ops->send(node_link(a), 2, &frame), LIGHTQ_OK); /* above the queue's bound, alone */
    assert_int_equal(node_link(a)->ops->send(node_link(a), 2, &frame), LIGHTQ_EBUSY);
    WAIT_UNTIL(net, b->got_count == 1);

    assert_int_equal(b->got[0].size, LQ_ENTRY_BYTES_MAX + sizeof head);
    assert_int_equal(b->got[0].crc, crc);
    assert_int_equal(node_counters(a).dropped_full, 1);
    lq_slab_unref(slab);
}

static void test_transport_send_refuses_what_no_receiver_takes(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    struct lq_link *link = node_link(a);
    uint8_t head[LQ_FRAME_HEAD_MAX + 1] = {0};
    struct lq_slab *slab = lq_slab_new(LQ_CHECKPOINT_PIECE_BYTES + LQ_FRAME_HEAD_MAX + 1);
    assert_non_null(slab);
    memset(slab->bytes, 0, slab->size);
    struct lq_entry_ref ref = {.slab = slab, .size = 80};

    struct lq_frame frame = {.type = LQ_FRAME_HELLO, .head = head, .head_size = 8};
    assert_int_equal(link->ops->send(link, 2, &frame), LIGHTQ_EINVAL);
    frame.type = (enum lq_frame_type)11, frame.head_size = 0;
    assert_int_equal(link->ops->send(link, 2, &frame), LIGHTQ_EINVAL);
    frame.type = LQ_FRAME_VOTE, frame.head_size = LQ_FRAME_HEAD_MAX + 1;
    assert_int_equal(link->ops->send(link, 2, &frame), LIGHTQ_EINVAL);
    frame.head_size = 8, frame.entries = &ref, frame.entry_count = 1;
    assert_int_equal(link->ops->send(link, 2, &frame), LIGHTQ_EINVAL);
    frame = (struct lq_frame){.type = LQ_FRAME_APPEND, .head = head, .head_size = 8, .body = slab, .body_size = 8};
    assert_int_equal(link->ops->send(link, 2, &frame), LIGHTQ_EINVAL);
    frame.type = LQ_FRAME_INSTALL, frame.body_size = (uint32_t)slab->size;
    assert_int_equal(link->ops->send(link, 2, &frame), LIGHTQ_EINVAL);
    assert_int_equal(slab->references, 1);
    lq_slab_unref(slab);
}

/* ---- loss and return ---- */

static void test_transport_closed_peer_is_told_refused_and_comes_back(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    uint16_t port = lq_transport_port(b->transport);

    node_close(b);
    WAIT_UNTIL(net, a->downs == 1);
    assert_int_equal(a->refused_downs, 1);
    assert_int_equal(a->last_down, 2);
    assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, 1, 0), LIGHTQ_ECONNECT);
    assert_int_equal(node_link(a)->ops->queued(node_link(a), 2), 0);
    assert_true(node_counters(a).dropped_unconnected == 1);

    b->options.boot_count++, b->options.boot_nonce = 99;
    node_restart(b, port);
    assert_int_equal(lq_transport_set_peer(b->transport, 1, "127.0.0.1", lq_transport_port(a->transport), NULL),
                     LIGHTQ_OK);
    WAIT_UNTIL(net, a->ups == 2);
    assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, 2, 0), LIGHTQ_OK);
    WAIT_UNTIL(net, b->got_count == 1);

    assert_int_equal(b->got[0].sequence, 2);
    assert_int_equal(a->downs, 1); /* told once, however often it was refused */
}

static void test_transport_peer_that_is_not_there_yet_is_found_later(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1), *b = net_node(net, 2);
    node_start(b, 0);
    uint16_t port = lq_transport_port(b->transport);
    node_close(b); /* the port is free now */
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "localhost", port, &b->options.uuid), LIGHTQ_OK);
    uint64_t until = net_now_ms() + 50; /* some refused attempts */
    WAIT_UNTIL(net, net_now_ms() >= until);
    assert_int_equal(a->ups + a->downs, 0); /* never up, so nothing was lost */

    node_restart(b, port);
    assert_int_equal(lq_transport_set_peer(b->transport, 1, "127.0.0.1", lq_transport_port(a->transport), NULL),
                     LIGHTQ_OK);
    WAIT_UNTIL(net, a->ups == 1 && b->ups == 1);
}

static void test_transport_returning_peer_is_dialed_at_once(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1), *b = net_node(net, 2);
    a->options.retry_min_ms = a->options.retry_max_ms = 600000; /* a would wait five minutes at least */
    node_start(a, 0);
    node_start(b, 0);
    net_join(a, b);
    WAIT_UNTIL(net, a->ups == 1 && b->ups == 1);
    uint16_t port = lq_transport_port(b->transport), port_of_a = lq_transport_port(a->transport);
    node_close(b);
    WAIT_UNTIL(net, a->downs == 1);

    b->options.boot_count++;
    node_restart(b, port);
    assert_int_equal(lq_transport_set_peer(b->transport, 1, "127.0.0.1", port_of_a, NULL), LIGHTQ_OK);

    WAIT_UNTIL(net, a->ups == 2);
}

static void test_transport_silent_loss_is_not_refused_until_the_process_is_gone(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->options.silence_ms = 200;
    a->options.queue_bytes_max = 64u * 1024 * 1024;
    uint16_t port;
    int listener = raw_listen(net, &port);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", port, NULL), LIGHTQ_OK);
    int out = raw_accept(net, listener);
    struct lq_hello hello;
    raw_receive_hello(net, out, LQ_HELLO_ASK, &hello);
    hello = raw_hello(2, 1), hello.kind = LQ_HELLO_ANSWER;
    raw_send_hello(out, &hello);
    int in = raw_connect_as(net, a, 2);
    WAIT_UNTIL(net, a->ups == 1);

    /* It reads nothing any more: what is sent is never taken, as with a machine that is gone from the network. */
    for (uint64_t i = 0; send_numbered(a, 2, LQ_FRAME_NODE, i, 900000) == LIGHTQ_OK; i++) {
        net_turn(net);
    }
    raw_close(net, listener); /* so that a retry cannot succeed; it is refused, which is news */
    WAIT_UNTIL(net, a->downs >= 1);
    assert_int_equal(a->refused_downs, a->downs - 1); /* the first was silence */
    WAIT_UNTIL(net, a->refused_downs == 1);

    raw_close(net, in);
    net_turn(net);
    assert_int_equal(a->downs, 2);
}

static void test_transport_end_of_the_other_direction_tells_refused(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->options.silence_ms = 200;
    a->options.retry_min_ms = a->options.retry_max_ms = 600000; /* no attempt that could be refused */
    uint16_t port;
    int listener = raw_listen(net, &port);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", port, NULL), LIGHTQ_OK);
    int out = raw_accept(net, listener);
    struct lq_hello hello;
    raw_receive_hello(net, out, LQ_HELLO_ASK, &hello);
    hello = raw_hello(2, 1), hello.kind = LQ_HELLO_ANSWER;
    raw_send_hello(out, &hello);
    int in = raw_connect_as(net, a, 2);
    WAIT_UNTIL(net, a->ups == 1);
    for (uint64_t i = 0; send_numbered(a, 2, LQ_FRAME_NODE, i, 900000) == LIGHTQ_OK; i++) {
        net_turn(net);
    }
    WAIT_UNTIL(net, a->downs == 1);
    assert_int_equal(a->refused_downs, 0);

    raw_close(net, in);
    WAIT_UNTIL(net, a->refused_downs == 1);
    assert_int_equal(a->downs, 2);
}

static void test_transport_later_connection_of_a_node_replaces_the_earlier(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", 1, NULL), LIGHTQ_OK);
    int first = raw_connect_as(net, a, 2);
    uint8_t head[8] = {1};
    raw_send_frame(first, LQ_FRAME_NODE, 0, head, sizeof head);
    WAIT_UNTIL(net, a->got_count == 1);

    int second = raw_connect_as(net, a, 2);
    WAIT_UNTIL(net, raw_is_closed(first));
    head[0] = 2;
    raw_send_frame(second, LQ_FRAME_NODE, 0, head, sizeof head);
    WAIT_UNTIL(net, a->got_count == 2);

    assert_int_equal(a->got[1].sequence, 2);
    assert_int_equal(node_counters(a).replaced, 1);
    assert_false(raw_is_closed(second));
}

static void test_transport_queue_is_bounded_and_says_so(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->options.queue_bytes_max = 1024 * 1024;
    uint16_t port;
    int listener = raw_listen(net, &port);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", port, NULL), LIGHTQ_OK);
    int out = raw_accept(net, listener);
    struct lq_hello hello;
    raw_receive_hello(net, out, LQ_HELLO_ASK, &hello);
    hello = raw_hello(2, 1), hello.kind = LQ_HELLO_ANSWER;
    raw_send_hello(out, &hello);
    WAIT_UNTIL(net, a->ups == 1);

    lightq_status status = LIGHTQ_OK;
    uint64_t sent = 0;
    while (status == LIGHTQ_OK) { /* nobody reads at the other end */
        status = send_numbered(a, 2, LQ_FRAME_NODE, sent, 100000);
        sent += status == LIGHTQ_OK;
        net_turn(net);
        assert_true(sent < 10000);
    }
    assert_int_equal(status, LIGHTQ_EBUSY);
    uint64_t queued = node_link(a)->ops->queued(node_link(a), 2);
    assert_true(queued > 900000 && queued <= a->options.queue_bytes_max);
    assert_int_equal(node_counters(a).dropped_full, 1);

    uint8_t *sink = malloc(sent * 100040); /* and now it reads: everything that was taken comes */
    assert_non_null(sink);
    raw_receive(net, out, sink, sent * 100040);
    for (uint64_t i = 0; i < sent; i++) {
        assert_int_equal(lq_get_u64(sink + i * 100040 + LQ_FRAME_HEADER_BYTES), i);
    }
    free(sink);
    WAIT_UNTIL(net, node_link(a)->ops->queued(node_link(a), 2) == 0);
}

static void test_transport_close_with_data_in_flight_drops_it(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    struct lq_slab *slab = lq_slab_new(16u * 1024 * 1024);
    assert_non_null(slab);
    memset(slab->bytes, 1, slab->size);
    struct lq_entry_ref ref = {.slab = slab, .size = (uint32_t)slab->size};
    struct lq_frame frame = {
        .type = LQ_FRAME_APPEND, .head = "12345678", .head_size = 8, .entries = &ref, .entry_count = 1};
    assert_int_equal(node_link(a)->ops->send(node_link(a), 2, &frame), LIGHTQ_OK);
    lq_transport_turn(a->transport); /* a part of it is in the socket, a part in libuv */
    assert_int_equal(node_link(a)->ops->send(node_link(a), 2, &frame), LIGHTQ_OK);

    uint64_t begin = net_now_ms();
    node_close(a);

    assert_true(net_now_ms() - begin < 1000);
    assert_int_equal(slab->references, 1);
    assert_int_equal(a->downs, 0); /* no event after close */
    lq_slab_unref(slab);
    WAIT_UNTIL(net, b->refused_downs == 1);
    assert_int_equal(b->got_count, 0);
}

/* ---- peers ---- */

static void test_transport_set_peer_moves_and_remove_forgets(void **state)
{
    struct net *net = *state;
    struct node *a, *b;
    pair_of(net, &a, &b);
    struct node *other = net_node(net, 3);
    other->options.node = 2; /* node 2 moved to another machine, same directory, next start */
    other->options.uuid = b->options.uuid;
    other->options.boot_count = b->options.boot_count + 1;
    node_start(other, 0);
    assert_int_equal(lq_transport_set_peer(other->transport, 1, "127.0.0.1", lq_transport_port(a->transport), NULL),
                     LIGHTQ_OK);

    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", lq_transport_port(other->transport), NULL),
                     LIGHTQ_OK);
    WAIT_UNTIL(net, a->ups == 2 && a->downs == 1);
    assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, 5, 0), LIGHTQ_OK);
    WAIT_UNTIL(net, other->got_count == 1);
    assert_int_equal(b->got_count, 0);

    lq_transport_remove_peer(a->transport, 2);
    assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, 6, 0), LIGHTQ_ECONNECT);
    WAIT_UNTIL(net, a->downs == 2);
    lq_transport_remove_peer(a->transport, 2); /* nothing */
}

static void test_transport_set_peer_refuses_bad_arguments(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    node_start(a, 0);
    char long_host[LQ_HOST_BYTES_MAX + 2];
    memset(long_host, 'h', sizeof long_host - 1);
    long_host[sizeof long_host - 1] = 0;

    assert_int_equal(lq_transport_set_peer(a->transport, 0, "127.0.0.1", 1, NULL), LIGHTQ_EINVAL);
    assert_int_equal(lq_transport_set_peer(a->transport, 1, "127.0.0.1", 1, NULL), LIGHTQ_EINVAL); /* itself */
    assert_int_equal(lq_transport_set_peer(a->transport, LQ_NODES_MAX + 1, "127.0.0.1", 1, NULL), LIGHTQ_EINVAL);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "", 1, NULL), LIGHTQ_EINVAL);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, long_host, 1, NULL), LIGHTQ_EINVAL);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", 0, NULL), LIGHTQ_EINVAL);
}

static void test_transport_peer_given_by_name_is_found(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1), *b = net_node(net, 2);
    node_start(a, 0);
    node_start(b, 0);
    assert_int_equal(lq_transport_set_peer(b->transport, 1, "127.0.0.1", lq_transport_port(a->transport), NULL),
                     LIGHTQ_OK);
    /* Not an address in its usual form, so the resolver is asked, which needs no network for this one. */
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.1", lq_transport_port(b->transport), NULL), LIGHTQ_OK);

    WAIT_UNTIL(net, a->ups == 1);
}

static void test_transport_clusterless_nodes_exchange_node_frames_only(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1), *b = net_node(net, 2);
    memset(&a->options.cluster, 0, sizeof a->options.cluster);
    b->options.cluster = a->options.cluster;
    node_start(a, 0);
    node_start(b, 0);
    net_join(a, b);
    WAIT_UNTIL(net, a->ups == 1 && b->ups == 1);

    assert_int_equal(send_numbered(a, 2, LQ_FRAME_VOTE, 1, 0), LIGHTQ_ECONNECT);
    assert_int_equal(send_numbered(a, 2, LQ_FRAME_NODE, 2, 0), LIGHTQ_OK);
    WAIT_UNTIL(net, b->got_count == 1);

    struct lq_id cluster = id_of(7);
    lq_transport_set_cluster(a->transport, &cluster);
    WAIT_UNTIL(net, a->ups >= 2 && b->ups >= 2); /* made anew, still restricted: b belongs to none */
    assert_int_equal(send_numbered(a, 2, LQ_FRAME_VOTE, 3, 0), LIGHTQ_ECONNECT);
    lq_transport_set_cluster(b->transport, &cluster);
    WAIT_UNTIL(net, send_numbered(a, 2, LQ_FRAME_VOTE, 4, 0) == LIGHTQ_OK);
    WAIT_UNTIL(net, send_numbered(b, 1, LQ_FRAME_VOTE, 5, 0) == LIGHTQ_OK);
    WAIT_UNTIL(net, a->got_count == 1 && b->got_count == 2);
    assert_int_equal(b->got[1].sequence, 4);
    assert_int_equal(a->got[0].sequence, 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_transport_frames_arrive_whole_in_both_directions),
        TEST(test_transport_three_nodes_reach_each_other),
        TEST(test_transport_keeps_order_over_sizes_of_every_kind),
        TEST(test_transport_entries_go_out_by_reference_and_come_back),
        TEST(test_transport_largest_entry_passes),
        TEST(test_transport_send_refuses_what_no_receiver_takes),
        TEST(test_transport_closed_peer_is_told_refused_and_comes_back),
        TEST(test_transport_peer_that_is_not_there_yet_is_found_later),
        TEST(test_transport_returning_peer_is_dialed_at_once),
        TEST(test_transport_silent_loss_is_not_refused_until_the_process_is_gone),
        TEST(test_transport_end_of_the_other_direction_tells_refused),
        TEST(test_transport_later_connection_of_a_node_replaces_the_earlier),
        TEST(test_transport_queue_is_bounded_and_says_so),
        TEST(test_transport_close_with_data_in_flight_drops_it),
        TEST(test_transport_set_peer_moves_and_remove_forgets),
        TEST(test_transport_set_peer_refuses_bad_arguments),
        TEST(test_transport_peer_given_by_name_is_found),
        TEST(test_transport_clusterless_nodes_exchange_node_frames_only),
    };
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
