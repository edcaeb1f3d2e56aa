/* tests/unit/raft/test_transport_hostile.c - strangers, impostors, copies, garbage and floods on the peer port. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tests/unit/raft/peer_fixture.h"

/* Node 1, which knows node 2 at an address where nobody is. */
static struct node *victim(struct net *net)
{
    struct node *a = net_node(net, 1);
    a->options.hello_timeout_ms = 10000; /* not to be seen but where a test says so */
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", 1, NULL), LIGHTQ_OK);
    return a;
}

/* ---- who it is ---- */

static void expect_refused(struct net *net, struct node *a, const struct lq_hello *hello, lightq_status status,
                           const char *text)
{
    uint64_t before = node_counters(a).refused_hellos;
    int fd = raw_connect(net, lq_transport_port(a->transport));
    struct lq_hello answer;

    raw_send_hello(fd, hello);
    raw_receive_hello(net, fd, LQ_HELLO_ANSWER, &answer);

    assert_int_equal(answer.status, status);
    if (strstr(answer.text, text) == NULL) {
        fail_msg("'%s' does not speak of '%s'", answer.text, text);
    }
    WAIT_UNTIL(net, raw_is_closed(fd));
    assert_int_equal(node_counters(a).refused_hellos, before + 1);
    assert_int_equal(node_counters(a).unidentified, 0);
    raw_close(net, fd);
}

static void test_transport_hello_of_another_cluster_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    struct lq_hello hello = raw_hello(2, 1);
    hello.cluster = id_of(8); /* case F9: two clusters joined by mistake */

    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY,
                   "node 2 belongs to cluster 08080808080808080808080808080808 and node 1 to cluster "
                   "07070707070707070707070707070707: check the seeds");
}

static void test_transport_hello_with_our_own_id_or_uuid_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);

    struct lq_hello hello = raw_hello(1, 1);
    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY, "two nodes say they are node 1");
    hello = raw_hello(2, 1), hello.uuid = a->options.uuid; /* a copied directory under another id */
    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY, "never start a copy of a data directory");
}

static void test_transport_hello_with_another_uuid_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    struct lq_hello hello = raw_hello(2, 1);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", 1, &hello.uuid), LIGHTQ_OK);
    hello.uuid = id_of(33); /* case F1: same id, emptied directory */

    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY, "run 'lightq node replace 2 2'");

    struct lq_id uuid = id_of(33); /* and after the replacement it is welcome */
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", 1, &uuid), LIGHTQ_OK);
    int fd = raw_connect(net, lq_transport_port(a->transport));
    struct lq_hello answer;
    raw_send_hello(fd, &hello);
    raw_receive_hello(net, fd, LQ_HELLO_ANSWER, &answer);
    assert_int_equal(answer.status, LIGHTQ_OK);
}

static void test_transport_hello_of_a_restored_or_copied_directory_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    int fd = raw_connect_as(net, a, 2); /* boot 5, nonce 2 */

    struct lq_hello hello = raw_hello(2, 1);
    hello.boot_count = 4;
    expect_refused(net, a, &hello, LIGHTQ_EREPLACED, "start number 4 of its data directory, but number 5 was seen");
    hello.boot_count = 5, hello.boot_nonce = 3;
    expect_refused(net, a, &hello, LIGHTQ_EREPLACED, "another process had that number");
    assert_false(raw_is_closed(fd)); /* the true one was not disturbed */

    hello.boot_count = 6; /* a real restart */
    int later = raw_connect(net, lq_transport_port(a->transport));
    raw_send_hello(later, &hello);
    WAIT_UNTIL(net, raw_is_closed(fd));
    hello.boot_count = 5, hello.boot_nonce = 2; /* and now even the first is too old */
    expect_refused(net, a, &hello, LIGHTQ_EREPLACED, "number 6 was seen");
}

static void test_transport_hello_of_a_foreign_version_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    struct lq_hello hello = raw_hello(2, 1);
    hello.version_min = 2, hello.version_max = 9;
    hello.shards = 0; /* what later versions put there is not looked at */

    expect_refused(net, a, &hello, LIGHTQ_EVERSION,
                   "node 2 speaks peer protocol versions 2 to 9 and node 1 1 to 1: upgrade the older one first");
}

static void test_transport_hello_for_another_place_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);

    struct lq_hello hello = raw_hello(2, 3);
    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY, "node 2 wants node 3 but reached node 1");
    hello = raw_hello(2, 1), hello.shards = 2;
    expect_refused(net, a, &hello, LIGHTQ_EUNSUPPORTED, "node 2 has 2 shards and node 1 has 1");
    struct node *b = net_node(net, 5);
    b->options.shards = 2, b->options.shard = 1;
    node_start(b, 0);
    hello = raw_hello(2, 5), hello.shards = 2;
    expect_refused(net, b, &hello, LIGHTQ_EUNSUPPORTED, "shard 0 of node 2 reached shard 1 of node 5");
}

static void test_transport_hello_of_a_stranger_is_refused(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    struct lq_hello hello = raw_hello(9, 1);

    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY, "node 9 is not known to node 1");
}

static void test_transport_identify_decides_about_everybody(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->use_identify = true;
    node_start(a, 0);

    int fd = raw_connect_as(net, a, 9); /* nobody but the catalog knows it */
    assert_int_equal(a->identified, 1);
    uint8_t head[8] = {1};
    raw_send_frame(fd, LQ_FRAME_NODE, 0, head, sizeof head);
    WAIT_UNTIL(net, a->got_count == 1);
    assert_int_equal(a->got[0].from, 9);

    a->identify_status = LIGHTQ_ENOTREADY;
    struct lq_hello hello = raw_hello(10, 1);
    expect_refused(net, a, &hello, LIGHTQ_ENOTREADY, "the catalog does not want node 10");
}

/* The catalog has read on: another directory is the node now, whatever was seen of the one before. */
static void test_transport_another_directory_that_identify_accepts_takes_its_place(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->use_identify = true;
    node_start(a, 0);
    int fd = raw_connect_as(net, a, 2);
    struct lq_hello hello = raw_hello(2, 1), answer;
    hello.uuid = id_of(33);
    hello.boot_count = 1; /* of its own count, lower than the other's */
    hello.admission = 4;

    int later = raw_connect(net, lq_transport_port(a->transport));
    raw_send_hello(later, &hello);
    raw_receive_hello(net, later, LQ_HELLO_ANSWER, &answer);
    assert_int_equal(answer.status, LIGHTQ_OK);
    WAIT_UNTIL(net, raw_is_closed(fd));

    a->identify_status = LIGHTQ_EIDENTITY;
    hello.uuid = id_of(34);
    expect_refused(net, a, &hello, LIGHTQ_EIDENTITY, "the catalog does not want node 2");
    a->identify_status = LIGHTQ_OK;
    hello.uuid = id_of(33), hello.boot_nonce++; /* and its starts are counted as any node's */
    expect_refused(net, a, &hello, LIGHTQ_EREPLACED, "another process had that number");
    assert_false(raw_is_closed(later));
}

/* Node 1 connects to a listener of ours and gets @answer. */
static void expect_rejected_as(struct net *net, struct lq_hello answer, lightq_status status, const char *text,
                               unsigned replacements)
{
    struct node *a = net_node(net, 1);
    uint16_t port;
    int listener = raw_listen(net, &port);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", port, NULL), LIGHTQ_OK);
    int fd = raw_accept(net, listener);
    struct lq_hello hello;
    raw_receive_hello(net, fd, LQ_HELLO_ASK, &hello);
    assert_int_equal(hello.node, 1);
    assert_int_equal(hello.to, 2);

    raw_send_hello(fd, &answer);
    WAIT_UNTIL(net, a->rejections == 1);

    assert_int_equal(a->rejected_status, status);
    assert_int_equal(a->replacements, replacements);
    if (strstr(a->rejected_text, text) == NULL) {
        fail_msg("'%s' does not speak of '%s'", a->rejected_text, text);
    }
    assert_int_equal(a->ups, 0);
    (void)raw_accept(net, listener); /* it tries again */
    node_close(a);
    net->count--; /* its place is used again */
    free(a->got);
}

static void expect_rejected(struct net *net, struct lq_hello answer, lightq_status status, const char *text)
{
    expect_rejected_as(net, answer, status, text, 0);
}

static void test_transport_only_its_own_cluster_can_say_that_a_node_was_replaced(void **state)
{
    struct net *net = *state;
    struct lq_hello answer = raw_hello(2, 1);
    answer.kind = LQ_HELLO_ANSWER;
    answer.status = LIGHTQ_EREPLACED;
    strcpy(answer.text, "node 1 was replaced");

    expect_rejected_as(net, answer, LIGHTQ_EREPLACED, "was replaced", 1);
    answer.cluster = id_of(8);
    expect_rejected_as(net, answer, LIGHTQ_EREPLACED, "was replaced", 0);
    answer.cluster = (struct lq_id){.bytes = {0}};
    expect_rejected_as(net, answer, LIGHTQ_EREPLACED, "was replaced", 0);
}

static void test_transport_answer_is_judged_like_a_hello(void **state)
{
    struct net *net = *state;
    struct lq_hello good = raw_hello(2, 1), bad;
    good.kind = LQ_HELLO_ANSWER;

    bad = good, bad.cluster = id_of(8);
    expect_rejected(net, bad, LIGHTQ_EIDENTITY, "belongs to cluster 08");
    bad = good, bad.node = 3;
    expect_rejected(net, bad, LIGHTQ_EIDENTITY, "node 3 answers at the address of node 2");
    bad = good, bad.version_min = bad.version_max = 7;
    expect_rejected(net, bad, LIGHTQ_EVERSION, "versions 7 to 7");
    bad = good, bad.status = LIGHTQ_EIDENTITY;
    strcpy(bad.text, "go away\n\x01");
    expect_rejected(net, bad, LIGHTQ_EIDENTITY, "go away");
}

/* ---- what it sends ---- */

static void expect_malformed(struct net *net, struct node *a, int fd, const void *bytes, size_t size)
{
    uint64_t before = node_counters(a).malformed;
    raw_send(fd, bytes, size);
    WAIT_UNTIL(net, raw_is_closed(fd));
    assert_int_equal(node_counters(a).malformed, before + 1);
    raw_close(net, fd);
}

static void test_transport_bytes_that_are_no_hello_close_the_connection(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    const uint16_t port = lq_transport_port(a->transport);
    const char *const greetings[] = {
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03..............................",
        "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL............................",
        "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
    };
    for (size_t i = 0; i < sizeof greetings / sizeof greetings[0]; i++) {
        char bytes[64] = {0}; /* with what a telnet would leave in a longer read */
        memcpy(bytes, greetings[i], 24);
        expect_malformed(net, a, raw_connect(net, port), bytes, sizeof bytes);
    }
    for (int round = 0; round < 50; round++) { /* case L3: random bytes from a stranger */
        uint8_t bytes[256];
        lq_clock_system()->random(lq_clock_system(), bytes, sizeof bytes);
        expect_malformed(net, a, raw_connect(net, port), bytes, sizeof bytes);
    }
    assert_int_equal(node_counters(a).unidentified, 0);
    assert_int_equal(a->got_count, 0);
}

static void test_transport_lengths_beyond_the_limit_close_the_connection(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    const uint32_t lengths[] = {LQ_PEER_FRAME_BYTES_MAX + 1, 1u << 31,
                                UINT32_MAX}; /* case L7: a length that is trusted */
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t header[LQ_FRAME_HEADER_BYTES] = {0};
        lq_put_u32(header, lengths[i]);
        header[4] = LQ_FRAME_APPEND;
        expect_malformed(net, a, raw_connect_as(net, a, 2), header, sizeof header);
        header[4] = LQ_FRAME_HELLO;
        expect_malformed(net, a, raw_connect(net, lq_transport_port(a->transport)), header, sizeof header);
    }
    uint8_t header[LQ_FRAME_HEADER_BYTES] = {0};
    header[4] = LQ_FRAME_VOTE; /* length 0, and a crc that is wrong */
    expect_malformed(net, a, raw_connect_as(net, a, 2), header, sizeof header);
    lq_put_u32(header, 10), lq_put_u32(header + 16, 11); /* the head is longer than the payload */
    expect_malformed(net, a, raw_connect_as(net, a, 2), header, sizeof header);
    assert_int_equal(a->got_count, 0);
}

static void test_transport_frames_out_of_place_close_the_connection(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    uint8_t head[LQ_HELLO_BYTES_MAX];
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + LQ_HELLO_BYTES_MAX];

    struct lq_frame frame = {.type = LQ_FRAME_VOTE, .head = head, .head_size = 8};
    memset(head, 0, sizeof head);
    lq_frame_put(bytes, &frame); /* case L2: a vote before any hello */
    expect_malformed(net, a, raw_connect(net, lq_transport_port(a->transport)), bytes, LQ_FRAME_HEADER_BYTES + 8);

    struct lq_hello hello = raw_hello(2, 1);
    frame.type = LQ_FRAME_HELLO;
    frame.head_size = lq_hello_put(head, &hello);
    lq_frame_put(bytes, &frame); /* a second hello */
    expect_malformed(net, a, raw_connect_as(net, a, 2), bytes, LQ_FRAME_HEADER_BYTES + frame.head_size);

    hello.kind = LQ_HELLO_ANSWER; /* an answer that nobody asked for */
    frame.head_size = lq_hello_put(head, &hello);
    lq_frame_put(bytes, &frame);
    expect_malformed(net, a, raw_connect(net, lq_transport_port(a->transport)), bytes,
                     LQ_FRAME_HEADER_BYTES + frame.head_size);

    hello = raw_hello(2, 1), memset(&hello.cluster, 0, sizeof hello.cluster);
    int fd = raw_connect(net, lq_transport_port(a->transport));
    raw_send_hello(fd, &hello);
    raw_receive_hello(net, fd, LQ_HELLO_ANSWER, &hello);
    assert_int_equal(hello.status, LIGHTQ_OK);
    frame.type = LQ_FRAME_VOTE, frame.head_size = 8;
    lq_frame_put(bytes, &frame); /* who belongs to no cluster does not vote */
    expect_malformed(net, a, fd, bytes, LQ_FRAME_HEADER_BYTES + 8);
    assert_int_equal(a->got_count, 0);
}

static void test_transport_frame_that_its_receiver_calls_malformed_closes_the_connection(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    int fd = raw_connect_as(net, a, 2);
    a->receive_status = LIGHTQ_ENOMEM; /* not the sender's fault */
    uint8_t head[8] = {1};
    raw_send_frame(fd, LQ_FRAME_VOTE, 0, head, sizeof head);
    WAIT_UNTIL(net, a->got_count == 1);
    assert_false(raw_is_closed(fd));

    a->receive_status = LIGHTQ_EPROTO;
    raw_send_frame(fd, LQ_FRAME_VOTE, 0, head, sizeof head);
    raw_send_frame(fd, LQ_FRAME_VOTE, 0, head, sizeof head); /* never looked at */
    WAIT_UNTIL(net, raw_is_closed(fd));

    assert_int_equal(a->got_count, 2);
    assert_int_equal(node_counters(a).malformed, 1);
}

static void test_transport_who_is_sent_to_has_nothing_to_say(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    uint16_t port;
    int listener = raw_listen(net, &port);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", port, NULL), LIGHTQ_OK);
    int fd = raw_accept(net, listener);
    struct lq_hello hello;
    raw_receive_hello(net, fd, LQ_HELLO_ASK, &hello);
    hello = raw_hello(2, 1), hello.kind = LQ_HELLO_ANSWER;
    raw_send_hello(fd, &hello);
    WAIT_UNTIL(net, a->ups == 1);

    uint8_t head[8] = {1};
    raw_send_frame(fd, LQ_FRAME_VOTE, 0, head, sizeof head);

    WAIT_UNTIL(net, node_counters(a).malformed == 1);
    assert_int_equal(a->got_count, 0);
}

/* ---- what it does not send ---- */

static void test_transport_silent_and_half_hellos_are_closed_in_time(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->options.hello_timeout_ms = 50;
    node_start(a, 0);
    int silent = raw_connect(net, lq_transport_port(a->transport));
    int half = raw_connect(net, lq_transport_port(a->transport));
    struct lq_frame frame = {.type = LQ_FRAME_HELLO, .head = "half a hello, and then nothing", .head_size = 30};
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 30];
    lq_frame_put(bytes, &frame);
    raw_send(half, bytes, sizeof bytes / 2);

    WAIT_UNTIL(net, raw_is_closed(silent) && raw_is_closed(half));

    assert_int_equal(node_counters(a).silent, 2);
    assert_int_equal(node_counters(a).unidentified, 0);
}

static void test_transport_identified_peer_may_be_silent(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->options.hello_timeout_ms = 50;
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", 1, NULL), LIGHTQ_OK);
    int fd = raw_connect_as(net, a, 2);
    int stranger = raw_connect(net, lq_transport_port(a->transport));
    WAIT_UNTIL(net, raw_is_closed(stranger)); /* came later, went earlier */

    assert_false(raw_is_closed(fd));
}

static void test_transport_peer_that_never_answers_is_tried_again(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    a->options.hello_timeout_ms = 50;
    uint16_t port;
    int listener = raw_listen(net, &port);
    node_start(a, 0);
    assert_int_equal(lq_transport_set_peer(a->transport, 2, "127.0.0.1", port, NULL), LIGHTQ_OK);

    int first = raw_accept(net, listener);
    int second = raw_accept(net, listener);

    assert_int_not_equal(first, second);
    assert_int_equal(a->ups, 0);
}

static void test_transport_flood_of_connections_is_bounded(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);
    enum { FLOOD = 1000, HELD = 200 };
    int held[HELD];
    for (int i = 0; i < FLOOD; i++) {
        if (i >= HELD) {
            raw_close(net, held[i % HELD]);
        }
        held[i % HELD] = raw_connect(net, lq_transport_port(a->transport));
        if (i % 50 == 0) {
            net_turn(net);
            assert_true(node_counters(a).unidentified <= LQ_PEER_UNIDENTIFIED_MAX);
        }
    }
    WAIT_UNTIL(net, node_counters(a).accepted == FLOOD);
    assert_true(node_counters(a).unidentified <= LQ_PEER_UNIDENTIFIED_MAX);
    assert_true(node_counters(a).evicted > 0);

    (void)raw_connect_as(net, a, 2); /* a peer still gets in */
}

/* ---- asking who is there ---- */

struct asked {
    unsigned calls;
    lightq_status status;
    struct lq_hello hello;
    char text[LQ_ERR_TEXT_BYTES];
};

static void on_probed(void *data, lightq_status status, const struct lq_hello *hello, const struct lq_err *err)
{
    struct asked *asked = data;
    asked->calls++;
    asked->status = status;
    asked->hello = *hello;
    strcpy(asked->text, err->text);
}

static void test_transport_probe_tells_who_is_there(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net), *b = net_node(net, 2);
    b->options.cluster = id_of(8);
    node_start(b, 0);
    struct asked asked = {0}, self = {0};

    assert_int_equal(lq_transport_probe(a->transport, "127.1", lq_transport_port(b->transport), on_probed, &asked),
                     LIGHTQ_OK);
    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", lq_transport_port(a->transport), on_probed, &self),
                     LIGHTQ_OK);
    assert_int_equal(asked.calls, 0); /* never inside the call */
    WAIT_UNTIL(net, asked.calls == 1 && self.calls == 1);

    assert_int_equal(asked.status, LIGHTQ_OK); /* whatever cluster it is of */
    assert_int_equal(asked.hello.node, 2);
    assert_true(lq_id_equal(&asked.hello.uuid, &b->options.uuid));
    assert_true(lq_id_equal(&asked.hello.cluster, &b->options.cluster));
    assert_int_equal(self.status, LIGHTQ_OK);
    assert_int_equal(self.hello.node, 1);
    WAIT_UNTIL(net, node_counters(b).unidentified == 0 && node_counters(a).unidentified == 0);
    assert_int_equal(a->ups + b->ups, 0);
}

static void test_transport_probe_says_why_it_failed(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1), *b = net_node(net, 2);
    a->options.hello_timeout_ms = 50;
    node_start(a, 0);
    node_start(b, 0);
    uint16_t closed_port = lq_transport_port(b->transport), port;
    node_close(b);
    int listener = raw_listen(net, &port);
    struct asked refused = {0}, silent = {0}, garbage = {0}, ended = {0};

    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", closed_port, on_probed, &refused), LIGHTQ_OK);
    WAIT_UNTIL(net, refused.calls == 1);
    assert_int_equal(refused.status, LIGHTQ_ECONNECT);
    assert_non_null(strstr(refused.text, "refused"));

    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", port, on_probed, &silent), LIGHTQ_OK);
    WAIT_UNTIL(net, silent.calls == 1);
    assert_int_equal(silent.status, LIGHTQ_ETIMEDOUT);
    raw_close(net, raw_accept(net, listener));

    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", port, on_probed, &garbage), LIGHTQ_OK);
    raw_send(raw_accept(net, listener), "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    WAIT_UNTIL(net, garbage.calls == 1);
    assert_int_equal(garbage.status, LIGHTQ_EPROTO);

    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", port, on_probed, &ended), LIGHTQ_OK);
    raw_close(net, raw_accept(net, listener));
    WAIT_UNTIL(net, ended.calls == 1);
    assert_int_equal(ended.status, LIGHTQ_ECONNECT);
}

static void test_transport_probe_is_canceled_by_close(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    uint16_t port;
    (void)raw_listen(net, &port);
    struct asked connected = {0}, named = {0};
    node_start(a, 0);
    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", port, on_probed, &connected), LIGHTQ_OK);
    assert_int_equal(lq_transport_probe(a->transport, "127.1", port, on_probed, &named),
                     LIGHTQ_OK); /* in the resolver */
    assert_int_equal(lq_transport_probe(a->transport, "", port, on_probed, &named), LIGHTQ_EINVAL);
    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", 0, on_probed, &named), LIGHTQ_EINVAL);

    node_close(a);

    assert_int_equal(connected.calls, 1);
    assert_int_equal(connected.status, LIGHTQ_ECANCELED);
    assert_int_equal(named.calls, 1);
    assert_int_equal(named.status, LIGHTQ_ECANCELED);
}

/* ---- listening ---- */

static void test_transport_listens_on_loopback_only_without_tls(void **state)
{
    (void)state;
    struct lq_err err = {.text = ""};
    const char *const loopback[] = {"127.0.0.1", "127.9.8.7", "localhost", "::1", "::ffff:127.0.0.1"};
    const char *const open[] = {"0.0.0.0", "10.1.2.3", "::", "128.0.0.1", "::ffff:10.0.0.1", "fe80::1"};
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        assert_int_equal(lq_transport_check_address(loopback[i], false, &err), LIGHTQ_OK);
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        assert_int_equal(lq_transport_check_address(open[i], false, &err), LIGHTQ_EAUTH);
        assert_non_null(strstr(err.text, open[i]));
        assert_non_null(strstr(err.text, "peer.insecure=true"));
        assert_int_equal(lq_transport_check_address(open[i], true, &err), LIGHTQ_OK);
    }
    assert_int_equal(lq_transport_check_address("node-1.example", true, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_transport_check_address("", false, &err), LIGHTQ_EINVAL);
}

static void expect_not_listening(struct net *net, const char *host, uint16_t port, lightq_status status)
{
    struct node *b = net_node(net, 2);
    struct lq_transport_events events = {.link_owner = b};
    struct lq_err err;
    assert_int_equal(lq_transport_new(&b->options, &net->loop, lq_clock_system(), &b->transport, &err), LIGHTQ_OK);
    assert_int_equal(lq_transport_listen(b->transport, host, port, false, &events, &err), status);
    node_close(b);
}

static void test_transport_listen_failures_are_named(void **state)
{
    struct net *net = *state;
    struct node *a = victim(net);

    expect_not_listening(net, "127.0.0.1", lq_transport_port(a->transport), LIGHTQ_EADDRINUSE);
    expect_not_listening(net, "0.0.0.0", 0, LIGHTQ_EAUTH);
    expect_not_listening(net, "no address", 0, LIGHTQ_EINVAL);
}

static void test_transport_new_refuses_bad_options(void **state)
{
    struct net *net = *state;
    struct lq_transport *transport = NULL;
    const struct lq_transport_options good = net_node(net, 1)->options;
    struct lq_transport_options bad;

    bad = good, bad.node = 0;
    assert_int_equal(lq_transport_new(&bad, &net->loop, lq_clock_system(), &transport, NULL), LIGHTQ_EINVAL);
    bad = good, bad.node = LQ_NODES_MAX + 1;
    assert_int_equal(lq_transport_new(&bad, &net->loop, lq_clock_system(), &transport, NULL), LIGHTQ_EINVAL);
    bad = good, memset(&bad.uuid, 0, sizeof bad.uuid);
    assert_int_equal(lq_transport_new(&bad, &net->loop, lq_clock_system(), &transport, NULL), LIGHTQ_EINVAL);
    bad = good, bad.shard = 1;
    assert_int_equal(lq_transport_new(&bad, &net->loop, lq_clock_system(), &transport, NULL), LIGHTQ_EINVAL);
    assert_null(transport);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_transport_hello_of_another_cluster_is_refused),
        TEST(test_transport_hello_with_our_own_id_or_uuid_is_refused),
        TEST(test_transport_hello_with_another_uuid_is_refused),
        TEST(test_transport_hello_of_a_restored_or_copied_directory_is_refused),
        TEST(test_transport_hello_of_a_foreign_version_is_refused),
        TEST(test_transport_hello_for_another_place_is_refused),
        TEST(test_transport_hello_of_a_stranger_is_refused),
        TEST(test_transport_identify_decides_about_everybody),
        TEST(test_transport_another_directory_that_identify_accepts_takes_its_place),
        TEST(test_transport_only_its_own_cluster_can_say_that_a_node_was_replaced),
        TEST(test_transport_answer_is_judged_like_a_hello),
        TEST(test_transport_bytes_that_are_no_hello_close_the_connection),
        TEST(test_transport_lengths_beyond_the_limit_close_the_connection),
        TEST(test_transport_frames_out_of_place_close_the_connection),
        TEST(test_transport_frame_that_its_receiver_calls_malformed_closes_the_connection),
        TEST(test_transport_who_is_sent_to_has_nothing_to_say),
        TEST(test_transport_silent_and_half_hellos_are_closed_in_time),
        TEST(test_transport_identified_peer_may_be_silent),
        TEST(test_transport_peer_that_never_answers_is_tried_again),
        TEST(test_transport_flood_of_connections_is_bounded),
        TEST(test_transport_probe_tells_who_is_there),
        TEST(test_transport_probe_says_why_it_failed),
        TEST(test_transport_probe_is_canceled_by_close),
        TEST(test_transport_listens_on_loopback_only_without_tls),
        TEST(test_transport_listen_failures_are_named),
        TEST(test_transport_new_refuses_bad_options),
    };
    return cmocka_run_group_tests_name("transport_hostile", tests, NULL, NULL);
}
