/* tests/unit/raft/peer_fixture.c - see peer_fixture.h. */
#include "tests/unit/raft/peer_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/crc.h"
#include "client/base/log.h"

enum { TICK_MS = 2, CLUSTER = 7, BOOT = 5 };

struct lq_id id_of(uint8_t byte)
{
    struct lq_id id;
    memset(id.bytes, byte, sizeof id.bytes);
    return id;
}

uint64_t net_now_ms(void)
{
    return lq_clock_monotonic_ms(lq_clock_system());
}

/* ---- events ---- */

static lightq_status on_receive(void *owner, uint32_t from, const struct lq_frame_in *frame)
{
    struct node *node = owner;
    assert_true(node->got_count < GOT_MAX);
    const uint8_t *at = frame->slab->bytes + frame->offset;
    node->got[node->got_count++] = (struct got){.type = frame->type,
                                                .group = frame->group,
                                                .from = from,
                                                .size = frame->size,
                                                .crc = lq_crc32c(0, at, frame->size),
                                                .sequence = frame->head_size >= 8 ? lq_get_u64(at) : 0};
    if (node->keep) {
        lq_slab_unref(node->kept);
        node->kept = lq_slab_ref(frame->slab);
    }
    return node->receive_status;
}

static void on_up(void *owner, uint32_t peer)
{
    struct node *node = owner;
    node->ups++;
    node->last_up = peer;
    assert_true(node_link(node)->ops->connected(node_link(node), peer));
}

static void on_down(void *owner, uint32_t peer, bool refused)
{
    struct node *node = owner;
    node->downs++;
    node->refused_downs += refused;
    node->last_down = peer;
    assert_false(node_link(node)->ops->connected(node_link(node), peer));
}

static lightq_status on_identify(void *owner, const struct lq_hello *hello, struct lq_err *err)
{
    struct node *node = owner;
    node->identified++;
    if (node->identify_status != LIGHTQ_OK) {
        return lq_err_set(err, node->identify_status, "the catalog does not want node %u", hello->node);
    }
    return LIGHTQ_OK;
}

static void on_rejected(void *owner, uint32_t peer, lightq_status status, const char *sentence)
{
    (void)peer;
    struct node *node = owner;
    node->rejections++;
    node->rejected_status = status;
    strncpy(node->rejected_text, sentence, sizeof node->rejected_text - 1);
}

static void on_replaced(void *owner, uint32_t peer, const char *sentence)
{
    (void)peer;
    (void)sentence;
    ((struct node *)owner)->replacements++;
}

static void on_node_closed(void *data)
{
    struct node *node = data;
    node->closed = true;
    node->transport = NULL;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* ---- the net ---- */

int net_setup(void **state)
{
    lq_log_configure(LQ_LOG_OFF, STDERR_FILENO);
    struct net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    assert_int_equal(uv_loop_init(&net->loop), 0);
    assert_int_equal(uv_timer_init(&net->loop, &net->tick), 0);
    assert_int_equal(uv_timer_start(&net->tick, on_tick, TICK_MS, TICK_MS), 0);
    *state = net;
    return 0;
}

int net_teardown(void **state)
{
    struct net *net = *state;
    for (size_t i = 0; i < net->count; i++) {
        struct node *node = &net->nodes[i];
        if (node->transport != NULL) {
            node_close(node);
        }
        lq_slab_unref(node->kept);
        free(node->got);
    }
    for (size_t i = 0; i < net->socket_count; i++) {
        if (net->sockets[i] >= 0) {
            close(net->sockets[i]);
        }
    }
    uv_close((uv_handle_t *)&net->tick, NULL);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&net->loop), 0); /* EBUSY when a handle is left */
    free(net);
    return 0;
}

struct node *net_node(struct net *net, uint32_t id)
{
    assert_true(net->count < NODES_MAX);
    struct node *node = &net->nodes[net->count++];
    *node = (struct node){.net = net,
                          .options = {.node = id,
                                      .uuid = id_of((uint8_t)(100 + id)),
                                      .cluster = id_of(CLUSTER),
                                      .boot_count = BOOT,
                                      .boot_nonce = id,
                                      .shards = 1,
                                      .retry_min_ms = 5,
                                      .retry_max_ms = 20}};
    node->got = calloc(GOT_MAX, sizeof *node->got);
    assert_non_null(node->got);
    return node;
}

void node_start(struct node *node, uint16_t port)
{
    struct lq_err err = {.text = ""};
    struct lq_transport_events events = {
        .link = {.receive = on_receive, .up = on_up, .down = on_down},
        .link_owner = node,
        .identify = node->use_identify ? on_identify : NULL,
        .rejected = on_rejected,
        .replaced = on_replaced,
        .owner = node,
    };
    assert_int_equal(lq_transport_new(&node->options, &node->net->loop, lq_clock_system(), &node->transport, &err),
                     LIGHTQ_OK);
    if (lq_transport_listen(node->transport, "127.0.0.1", port, false, &events, &err) != LIGHTQ_OK) {
        fail_msg("%s", err.text);
    }
    node->closed = false;
}

void node_close(struct node *node)
{
    lq_transport_close(node->transport, on_node_closed, node);
    assert_false(node->closed); /* never inside the call */
    WAIT_UNTIL(node->net, node->closed);
}

void node_restart(struct node *node, uint16_t port)
{
    assert_null(node->transport);
    node_start(node, port);
}

void net_join(struct node *a, struct node *b)
{
    assert_int_equal(
        lq_transport_set_peer(a->transport, b->options.node, "127.0.0.1", lq_transport_port(b->transport), NULL),
        LIGHTQ_OK);
    assert_int_equal(
        lq_transport_set_peer(b->transport, a->options.node, "127.0.0.1", lq_transport_port(a->transport), NULL),
        LIGHTQ_OK);
}

struct lq_link *node_link(struct node *node)
{
    return lq_transport_link(node->transport);
}

struct lq_transport_counters node_counters(const struct node *node)
{
    struct lq_transport_counters counters;
    lq_transport_count_up(node->transport, &counters);
    return counters;
}

void net_turn(struct net *net)
{
    uv_run(&net->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < net->count; i++) {
        if (net->nodes[i].transport != NULL && !net->nodes[i].closed) {
            lq_transport_turn(net->nodes[i].transport);
        }
    }
}

lightq_status send_numbered(struct node *node, uint32_t to, enum lq_frame_type type, uint64_t sequence,
                            uint32_t body_size)
{
    uint8_t head[16] = {0};
    lq_put_u64(head, sequence);
    struct lq_frame frame = {.type = type, .group = sequence % 3, .head = head, .head_size = sizeof head};
    if (body_size != 0) {
        frame.body = lq_slab_new(body_size);
        assert_non_null(frame.body);
        memset(frame.body->bytes, (int)(sequence % 251), body_size);
        frame.body_size = body_size;
    }
    lightq_status status = node_link(node)->ops->send(node_link(node), to, &frame);
    lq_slab_unref(frame.body);
    return status;
}

/* ---- plain sockets ---- */

static int keep_socket(struct net *net, int fd)
{
    assert_true(fd >= 0);
    assert_true(net->socket_count < sizeof net->sockets / sizeof net->sockets[0]);
    net->sockets[net->socket_count++] = fd;
    return fd;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int raw_connect(struct net *net, uint16_t port)
{
    int fd = keep_socket(net, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    struct sockaddr_in address = loopback(port);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

int raw_listen(struct net *net, uint16_t *port)
{
    int fd = keep_socket(net, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

int raw_accept(struct net *net, int listener)
{
    int fd = -1;
    WAIT_UNTIL(net, (fd = accept(listener, NULL, NULL)) >= 0);
    return keep_socket(net, fd);
}

void raw_close(struct net *net, int fd)
{
    for (size_t i = 0; i < net->socket_count; i++) {
        if (net->sockets[i] == fd) {
            net->sockets[i] = net->sockets[--net->socket_count];
            close(fd);
            return;
        }
    }
    fail_msg("not a socket of this test");
}

void raw_send(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0) { /* it closed already, which the test will see */
            assert_true(errno == EPIPE || errno == ECONNRESET);
            return;
        }
        at += sent;
        size -= (size_t)sent;
    }
}

void raw_receive(struct net *net, int fd, void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got = 0;
        WAIT_UNTIL(net, (got = recv(fd, at, size, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
        if (got <= 0) {
            fail_msg("the connection ended with %zu bytes to come", size);
        }
        at += got;
        size -= (size_t)got;
    }
}

bool raw_is_closed(int fd)
{
    uint8_t byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

struct lq_hello raw_hello(uint32_t id, uint32_t to)
{
    return (struct lq_hello){.kind = LQ_HELLO_ASK,
                             .version_min = LQ_PEER_VERSION_MIN,
                             .version_max = LQ_PEER_VERSION_MAX,
                             .shards = 1,
                             .node = id,
                             .to = to,
                             .cluster = id_of(CLUSTER),
                             .uuid = id_of((uint8_t)(100 + id)),
                             .boot_count = BOOT,
                             .boot_nonce = id};
}

void raw_send_frame(int fd, enum lq_frame_type type, uint64_t group, const void *head, uint32_t head_size)
{
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + LQ_FRAME_HEAD_MAX];
    struct lq_frame frame = {.type = type, .group = group, .head = head, .head_size = head_size};
    lq_frame_put(bytes, &frame);
    raw_send(fd, bytes, LQ_FRAME_HEADER_BYTES + head_size);
}

void raw_send_hello(int fd, const struct lq_hello *hello)
{
    uint8_t head[LQ_HELLO_BYTES_MAX];
    uint32_t size = lq_hello_put(head, hello);
    raw_send_frame(fd, LQ_FRAME_HELLO, 0, head, size);
}

void raw_receive_hello(struct net *net, int fd, enum lq_hello_kind kind, struct lq_hello *hello)
{
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + LQ_HELLO_BYTES_MAX];
    raw_receive(net, fd, bytes, LQ_FRAME_HEADER_BYTES);
    uint32_t size = lq_get_u32(bytes);
    assert_true(size <= LQ_HELLO_BYTES_MAX);
    assert_int_equal(bytes[4], LQ_FRAME_HELLO);
    raw_receive(net, fd, bytes + LQ_FRAME_HEADER_BYTES, size);
    struct lq_err err;
    if (lq_hello_get(bytes + LQ_FRAME_HEADER_BYTES, size, kind, hello, &err) != LIGHTQ_OK) {
        fail_msg("%s", err.text);
    }
}

int raw_connect_as(struct net *net, struct node *node, uint32_t id)
{
    int fd = raw_connect(net, lq_transport_port(node->transport));
    struct lq_hello hello = raw_hello(id, node->options.node), answer;
    raw_send_hello(fd, &hello);
    raw_receive_hello(net, fd, LQ_HELLO_ANSWER, &answer);
    if (answer.status != LIGHTQ_OK) {
        fail_msg("%s", answer.text);
    }
    return fd;
}
