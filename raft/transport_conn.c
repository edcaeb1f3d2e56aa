/* raft/transport_conn.c - one connection: made or accepted, identified, used, closed. See transport.h and
 * transport_internal.h. */
#include <assert.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/base/limits.h"
#include "client/base/log.h"
#include "raft/transport_internal.h"

#define SLAB_SMALL_BYTES   2048u         /* before the other side is known, and where only an answer comes */
#define SLAB_BYTES         (256u * 1024) /* what one read can take in */
#define KEEPALIVE_SECONDS  5
#define ADDRESS_TEXT_BYTES 64

/* A name being looked up in libuv's pool. It cannot be stopped, so it outlives a connection that is closed meanwhile.
 */
struct resolve {
    uv_getaddrinfo_t request;
    struct conn *conn; /* NULL: nobody waits any more */
};

/* ---- small things ---- */

static void move_to(struct conn *conn, enum conn_state state)
{
    static const bool legal[CONN_STATES][CONN_STATES] = {
        [CONN_RESOLVING] = {[CONN_CONNECTING] = true, [CONN_CLOSING] = true},
        [CONN_CONNECTING] = {[CONN_ASKED] = true, [CONN_CLOSING] = true},
        [CONN_ASKED] = {[CONN_UP] = true, [CONN_CLOSING] = true},
        [CONN_EXPECTING] = {[CONN_UP] = true, [CONN_ANSWERED] = true, [CONN_CLOSING] = true},
        [CONN_ANSWERED] = {[CONN_CLOSING] = true},
        [CONN_UP] = {[CONN_CLOSING] = true},
    };
    assert(legal[conn->state][state]);
    if (conn->kind == CONN_IN && conn->state == CONN_EXPECTING) {
        conn->transport->counters.unidentified--;
    }
    conn->state = state;
}

static bool is_gone(int rv)
{
    return rv == UV_EOF || rv == UV_ECONNRESET || rv == UV_ECONNREFUSED || rv == UV_EPIPE || rv == UV_ECONNABORTED;
}

static void address_text(const struct conn *conn, char text[ADDRESS_TEXT_BYTES])
{
    struct sockaddr_storage address;
    int size = sizeof address;
    memcpy(text, "?", 2);
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &size) != 0) {
        return;
    }
    if (address.ss_family == AF_INET) {
        uv_ip4_name((const struct sockaddr_in *)(const void *)&address, text, ADDRESS_TEXT_BYTES);
    } else {
        uv_ip6_name((const struct sockaddr_in6 *)(const void *)&address, text, ADDRESS_TEXT_BYTES);
    }
}

static void warn(struct conn *conn, const char *what, const char *sentence)
{
    uint64_t held_back = 0;
    if (lq_transport_may_log(conn->transport, &held_back)) {
        char address[ADDRESS_TEXT_BYTES];
        address_text(conn, address);
        lq_log(WARN, "peer connection closed", "why", what, "node", conn->node, "address", address, "detail", sentence,
               "held_back", held_back);
    }
}

/* It sent what is not the protocol. */
static void close_malformed(struct conn *conn, const struct lq_err *err)
{
    conn->transport->counters.malformed++;
    warn(conn, "malformed", err->text);
    lq_conn_close(conn);
}

/* Failures here are not worth the connection. */
static void set_socket_options(struct conn *conn)
{
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    (void)uv_tcp_keepalive(&conn->tcp, 1, KEEPALIVE_SECONDS);
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&conn->tcp, &fd) == 0) {
        unsigned silence_ms = conn->transport->options.silence_ms;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    }
}

/* ---- life ---- */

/* libuv says that the connection does not work (any more). */
static void close_broken(struct conn *conn, int rv)
{
    if (conn->state != CONN_CLOSING) { /* else this is only libuv's ECANCELED */
        conn->gone = is_gone(rv);
        lq_conn_close(conn);
    }
}

static void on_sender_written(struct lq_sender *sender, lightq_status status)
{
    if (status != LIGHTQ_OK) {
        close_broken(sender->data, sender->error);
    }
}

static struct conn *conn_new(struct lq_transport *transport, enum conn_kind kind)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        return NULL;
    }
    if (uv_tcp_init(transport->loop, &conn->tcp) != 0) {
        free(conn);
        return NULL;
    }
    conn->tcp.data = conn;
    conn->transport = transport;
    conn->kind = kind;
    conn->state = kind == CONN_IN ? CONN_EXPECTING : CONN_RESOLVING;
    conn->deadline_ms = uv_now(transport->loop) + transport->options.hello_timeout_ms;
    lq_frame_stream_init(&conn->stream, LQ_HELLO_BYTES_MAX, SLAB_SMALL_BYTES);
    lq_sender_init(&conn->sender);
    conn->sender.stream = (uv_stream_t *)&conn->tcp;
    conn->sender.written = on_sender_written;
    conn->sender.data = conn;
    conn->next = transport->conns;
    if (conn->next != NULL) {
        conn->next->previous = conn;
    }
    transport->conns = conn;
    transport->open_handles++;
    return conn;
}

static void tell_lost_out(struct lq_transport *transport, struct conn *conn)
{
    struct peer *peer = conn->peer;
    bool tell = conn->was_up;
    if (peer != NULL && conn->gone && !peer->told_gone) {
        peer->told_gone = true;
        tell = true;
    }
    if (peer != NULL) {
        peer->out = NULL;
        lq_transport_retry(transport, peer, conn);
    }
    if (tell) {
        transport->events.link.down(transport->events.link_owner, conn->node, conn->gone);
    }
}

static void tell_lost_in(struct lq_transport *transport, struct conn *conn)
{
    struct peer *peer = conn->peer;
    if (peer == NULL) {
        return;
    }
    bool is_present = peer->in == conn; /* not replaced by a later one */
    if (is_present) {
        peer->in = NULL;
    }
    if (!is_present || !conn->gone) {
        return;
    }
    struct conn *out = peer->out;
    if (out != NULL && out->was_up) {
        /* It sees the end of the process itself; when it is on its way out already, for whatever reason, that is it. */
        out->gone = out->gone || out->state == CONN_CLOSING;
    } else if (!peer->told_gone) {
        peer->told_gone = true;
        transport->events.link.down(transport->events.link_owner, conn->node, true);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    struct lq_transport *transport = conn->transport;
    if (conn->previous != NULL) {
        conn->previous->next = conn->next;
    } else {
        transport->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->previous = conn->previous;
    }
    lq_sender_deinit(&conn->sender);
    lq_frame_stream_deinit(&conn->stream);
    if (conn->was_up) {
        transport->counters.lost++;
    }
    if (!transport->closing && conn->kind == CONN_OUT) {
        tell_lost_out(transport, conn);
    }
    if (!transport->closing && conn->kind == CONN_IN) {
        tell_lost_in(transport, conn);
    }
    if (conn->probe != NULL) {
        struct probe *probe = conn->probe;
        probe->cb(probe->data, probe->status, &probe->hello, &probe->err);
        free(probe);
    }
    free(conn);
    transport->open_handles--;
    lq_transport_maybe_closed(transport);
}

void lq_conn_close(struct conn *conn)
{
    if (conn->state == CONN_CLOSING) {
        return;
    }
    if (conn->resolve != NULL) {
        conn->resolve->conn = NULL;
        conn->resolve = NULL;
    }
    if (conn->was_up && !conn->transport->closing) {
        lq_log(INFO, "peer connection lost", "node", conn->node, "direction", conn->kind == CONN_OUT ? "out" : "in",
               "process_gone", conn->gone);
    }
    move_to(conn, CONN_CLOSING);
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

static void probe_failed(struct conn *conn, lightq_status status, const char *sentence)
{
    if (conn->probe != NULL && conn->probe->status == LIGHTQ_ECONNECT) { /* nothing more precise is known yet */
        conn->probe->status = lq_err_set(&conn->probe->err, status, "%s", sentence);
    }
}

void lq_conn_cancel(struct conn *conn)
{
    probe_failed(conn, LIGHTQ_ECANCELED, "the transport was closed");
    lq_conn_close(conn);
}

void lq_conn_expire(struct conn *conn)
{
    if (conn->state == CONN_EXPECTING) {
        conn->transport->counters.silent++;
        warn(conn, "silent", "no hello in time");
    }
    probe_failed(conn, LIGHTQ_ETIMEDOUT, "no answer in time");
    lq_conn_close(conn);
}

void lq_conn_flush(struct conn *conn)
{
    if (lq_sender_flush(&conn->sender) != LIGHTQ_OK) {
        close_broken(conn, conn->sender.error);
    }
}

/* ---- hello ---- */

static void on_hello_written(uv_write_t *request, int rv)
{
    struct conn *conn = request->data;
    if (rv != 0) {
        close_broken(conn, rv);
    } else if (conn->state == CONN_ANSWERED) {
        lq_conn_close(conn);
    }
}

static void write_hello(struct conn *conn, const struct lq_hello *hello)
{
    uint8_t head[LQ_HELLO_BYTES_MAX];
    struct lq_frame frame = {.type = LQ_FRAME_HELLO, .head = head, .head_size = lq_hello_put(head, hello)};
    lq_frame_put(conn->hello, &frame);
    uv_buf_t slice = {.base = (char *)conn->hello, .len = LQ_FRAME_HEADER_BYTES + frame.head_size};
    conn->hello_write.data = conn;
    int rv = uv_write(&conn->hello_write, (uv_stream_t *)&conn->tcp, &slice, 1, on_hello_written);
    if (rv != 0) {
        close_broken(conn, rv);
    }
}

static void ask(struct conn *conn)
{
    struct lq_hello hello = conn->transport->self;
    hello.kind = LQ_HELLO_ASK;
    hello.to = conn->node;
    hello.probe = conn->kind == CONN_PROBE;
    conn->restricted = lq_id_is_zero(&hello.cluster);
    move_to(conn, CONN_ASKED);
    write_hello(conn, &hello);
}

static void answer(struct conn *conn, const struct lq_hello *question, lightq_status status, const struct lq_err *err)
{
    struct lq_hello hello = conn->transport->self;
    hello.kind = LQ_HELLO_ANSWER;
    hello.to = question->node;
    hello.probe = question->probe;
    hello.status = status;
    if (status == LIGHTQ_OK) {
        hello.version_min = hello.version_max = lq_hello_version(&conn->transport->self, question);
    } else {
        memcpy(hello.text, err->text, sizeof hello.text);
    }
    write_hello(conn, &hello);
}

/* Every rule there is, ours first. */
static lightq_status believe(struct lq_transport *transport, const struct lq_hello *hello, struct lq_err *err)
{
    lightq_status status = lq_hello_judge(&transport->self, hello, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct peer *peer = lq_transport_find(transport, hello->node);
    bool judged = transport->events.identify != NULL; /* by who knows which directory is the right one */
    if (peer != NULL && !(judged && lq_hello_is_another(&peer->seen, hello))) {
        status = lq_hello_compare(&peer->seen, hello, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    if (judged) {
        return transport->events.identify(transport->events.owner, hello, err);
    }
    if (peer == NULL) {
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "node %" PRIu32 " is not known to node %" PRIu32 ": it must join the cluster first",
                          hello->node, transport->self.node);
    }
    return LIGHTQ_OK;
}

/* Makes @conn the connection from its node, in place of one that may be there. */
static void welcome(struct conn *conn, struct peer *peer, const struct lq_hello *hello)
{
    struct lq_transport *transport = conn->transport;
    struct conn *old = peer->in;
    if (peer->out != NULL && lq_hello_is_another(&peer->seen, hello)) {
        peer->redial = true;
        lq_conn_close(peer->out); /* it goes to a directory that is not the node's any more */
    }
    conn->peer = peer;
    conn->node = peer->node;
    peer->in = conn;
    if (old != NULL && old->state != CONN_CLOSING) {
        transport->counters.replaced++;
        lq_conn_close(old);
    }
    lq_hello_remember(&peer->seen, hello);
    conn->restricted = lq_id_is_zero(&hello->cluster) || lq_id_is_zero(&transport->self.cluster);
    conn->deadline_ms = 0;
    conn->was_up = true;
    lq_frame_stream_widen(&conn->stream, LQ_PEER_FRAME_BYTES_MAX, SLAB_BYTES);
    move_to(conn, CONN_UP);
    if (peer->dialed && peer->out == NULL) { /* it is alive: no reason to wait */
        peer->retry_at_ms = uv_now(transport->loop);
        peer->backoff_ms = 0;
        lq_transport_arm(transport);
    }
}

static void on_question(struct conn *conn, const struct lq_hello *hello)
{
    struct lq_transport *transport = conn->transport;
    struct lq_err err = {.status = LIGHTQ_OK};
    lightq_status status =
        hello->probe ? lq_hello_judge(&transport->self, hello, &err) : believe(transport, hello, &err);
    if (conn->state != CONN_EXPECTING) {
        return; /* identify closed the transport or removed something */
    }
    struct peer *peer = NULL;
    if (status == LIGHTQ_OK && !hello->probe) {
        peer = lq_transport_obtain(transport, hello->node);
        if (peer == NULL) {
            status = lq_err_set(&err, LIGHTQ_ENOMEM, "node %" PRIu32 " is out of memory", transport->self.node);
        }
    }
    if (peer != NULL) {
        welcome(conn, peer, hello);
        answer(conn, hello, LIGHTQ_OK, NULL);
        char address[ADDRESS_TEXT_BYTES];
        address_text(conn, address);
        lq_log(INFO, "peer connected", "node", conn->node, "direction", "in", "address", address, "boot",
               hello->boot_count, "restricted", conn->restricted);
        return;
    }
    if (status != LIGHTQ_OK) {
        transport->counters.refused_hellos++;
        warn(conn, lightq_status_name(status), err.text);
    }
    move_to(conn, CONN_ANSWERED);
    answer(conn, hello, status, &err);
}

static void reject(struct conn *conn, lightq_status status, const char *sentence)
{
    struct lq_transport *transport = conn->transport;
    conn->hopeless = !lightq_status_retriable(status);
    warn(conn, lightq_status_name(status), sentence);
    lq_conn_close(conn);
    if (transport->events.rejected != NULL) {
        transport->events.rejected(transport->events.owner, conn->node, status, sentence);
    }
}

static void on_probe_answer(struct conn *conn, const struct lq_hello *hello)
{
    struct probe *probe = conn->probe;
    probe->hello = *hello;
    probe->status = hello->status;
    lq_err_set(&probe->err, hello->status, "%s", hello->text);
    lq_conn_close(conn);
}

static void on_answer(struct conn *conn, const struct lq_hello *hello)
{
    struct lq_transport *transport = conn->transport;
    if (conn->kind == CONN_PROBE) {
        on_probe_answer(conn, hello);
        return;
    }
    struct lq_err err = {.status = LIGHTQ_OK};
    if (hello->status != LIGHTQ_OK) { /* it refuses us */
        transport->counters.rejections++;
        bool ours = lq_id_equal(&hello->cluster, &transport->self.cluster) && !lq_id_is_zero(&hello->cluster);
        if (hello->status == LIGHTQ_EREPLACED && ours && transport->events.replaced != NULL) {
            transport->events.replaced(transport->events.owner, conn->node, hello->text);
        }
        reject(conn, hello->status, hello->text);
        return;
    }
    lightq_status status = LIGHTQ_OK;
    if (hello->node != conn->node) {
        status = lq_err_set(&err, LIGHTQ_EIDENTITY,
                            "node %" PRIu32 " answers at the address of node %" PRIu32 ": check the addresses",
                            hello->node, conn->node);
    }
    if (status == LIGHTQ_OK) {
        status = believe(transport, hello, &err);
    }
    if (conn->state != CONN_ASKED) {
        return; /* identify closed the transport or removed the peer */
    }
    if (status != LIGHTQ_OK) {
        transport->counters.refused_hellos++;
        reject(conn, status, err.text);
        return;
    }
    struct peer *peer = conn->peer;
    if (peer->in != NULL && lq_hello_is_another(&peer->seen, hello)) {
        lq_conn_close(peer->in);
    }
    lq_hello_remember(&peer->seen, hello);
    peer->backoff_ms = 0;
    peer->told_gone = false;
    conn->restricted = conn->restricted || lq_id_is_zero(&hello->cluster);
    conn->deadline_ms = 0;
    conn->was_up = true;
    move_to(conn, CONN_UP);
    transport->counters.connected++;
    lq_log(INFO, "peer connected", "node", conn->node, "direction", "out", "address", peer->host, "boot",
           hello->boot_count, "restricted", conn->restricted);
    transport->events.link.up(transport->events.link_owner, conn->node);
}

/* ---- reading ---- */

static void on_hello_frame(struct conn *conn, const struct lq_frame_in *frame)
{
    struct lq_err err;
    enum lq_hello_kind kind = conn->kind == CONN_IN ? LQ_HELLO_ASK : LQ_HELLO_ANSWER;
    struct lq_hello hello;
    lightq_status status = LIGHTQ_EPROTO;
    if (frame->type != LQ_FRAME_HELLO || frame->group != 0 || frame->head_size != frame->size) {
        (void)lq_err_set(&err, LIGHTQ_EPROTO, "%s frame before the hello", lq_frame_name(frame->type));
    } else {
        status = lq_hello_get(frame->slab->bytes + frame->offset, frame->size, kind, &hello, &err);
    }
    if (status != LIGHTQ_OK) {
        probe_failed(conn, status, err.text);
        close_malformed(conn, &err);
    } else if (kind == LQ_HELLO_ASK) {
        on_question(conn, &hello);
    } else {
        on_answer(conn, &hello);
    }
}

static void on_frame(struct conn *conn, const struct lq_frame_in *frame)
{
    struct lq_transport *transport = conn->transport;
    struct lq_err err;
    if (frame->type == LQ_FRAME_HELLO || (conn->restricted && frame->type != LQ_FRAME_NODE)) {
        (void)lq_err_set(&err, LIGHTQ_EPROTO, "%s frame from a node that %s", lq_frame_name(frame->type),
                         conn->restricted ? "belongs to no cluster yet" : "said hello already");
        close_malformed(conn, &err);
        return;
    }
    transport->counters.frames_received++;
    lightq_status status = transport->events.link.receive(transport->events.link_owner, conn->node, frame);
    if (status == LIGHTQ_EPROTO && conn->state != CONN_CLOSING) {
        (void)lq_err_set(&err, LIGHTQ_EPROTO, "%s frame of group %" PRIu64 " is malformed", lq_frame_name(frame->type),
                         frame->group);
        close_malformed(conn, &err);
    }
}

static void take_frames(struct conn *conn)
{
    for (;;) {
        struct lq_frame_in frame;
        struct lq_err err;
        lightq_status status = lq_frame_stream_next(&conn->stream, &frame, &err);
        if (status == LIGHTQ_ENOTREADY) {
            return;
        }
        if (status != LIGHTQ_OK) {
            probe_failed(conn, status, err.text);
            close_malformed(conn, &err);
            return;
        }
        if (conn->state == CONN_EXPECTING || conn->state == CONN_ASKED) {
            on_hello_frame(conn, &frame);
        } else if (conn->kind == CONN_IN && conn->state == CONN_UP) {
            on_frame(conn, &frame);
        } else { /* nothing is said to whom only listens, or after a refusal */
            (void)lq_err_set(&err, LIGHTQ_EPROTO, "%s frame behind the hello", lq_frame_name(frame.type));
            close_malformed(conn, &err);
        }
        if (conn->state == CONN_CLOSING) {
            return;
        }
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *slice)
{
    (void)suggested;
    struct conn *conn = handle->data;
    uint8_t *at = NULL;
    size_t size = 0;
    if (lq_frame_stream_room(&conn->stream, &at, &size) != LIGHTQ_OK) {
        size = 0; /* libuv reports UV_ENOBUFS */
    }
    *slice = (uv_buf_t){.base = (char *)at, .len = size};
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *slice)
{
    (void)slice;
    struct conn *conn = stream->data;
    if (size < 0) {
        probe_failed(conn, LIGHTQ_ECONNECT, "it closed the connection without an answer");
        close_broken(conn, (int)size);
        return;
    }
    conn->transport->counters.bytes_received += (uint64_t)size;
    lq_frame_stream_fed(&conn->stream, (size_t)size);
    take_frames(conn);
}

static void begin_reading(struct conn *conn)
{
    if (conn->state != CONN_CLOSING && uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) != 0) {
        lq_conn_close(conn);
    }
}

/* ---- connecting ---- */

bool lq_transport_parse_address(const char *host, uint16_t port, struct sockaddr_storage *address)
{
    const char *text = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    memset(address, 0, sizeof *address);
    return uv_ip4_addr(text, port, (struct sockaddr_in *)(void *)address) == 0 ||
           uv_ip6_addr(text, port, (struct sockaddr_in6 *)(void *)address) == 0;
}

static void on_connect(uv_connect_t *request, int rv)
{
    struct conn *conn = request->data;
    if (conn->state == CONN_CLOSING) {
        return;
    }
    if (rv != 0) {
        probe_failed(conn, LIGHTQ_ECONNECT, uv_strerror(rv));
        close_broken(conn, rv);
        return;
    }
    set_socket_options(conn);
    ask(conn);
    begin_reading(conn);
}

static void connect_to(struct conn *conn, const struct sockaddr *address)
{
    move_to(conn, CONN_CONNECTING);
    conn->connect.data = conn;
    int rv = uv_tcp_connect(&conn->connect, &conn->tcp, address, on_connect);
    if (rv != 0) {
        probe_failed(conn, LIGHTQ_ECONNECT, uv_strerror(rv));
        close_broken(conn, rv);
    }
}

/* One of a name's addresses by chance, so that retries get to all of them. */
static const struct addrinfo *pick(const struct addrinfo *list, struct lq_clock *clock)
{
    size_t count = 0;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        count++;
    }
    for (uint64_t skip = lq_clock_random_below(clock, count); skip > 0; skip--) {
        list = list->ai_next;
    }
    return list;
}

static void on_resolved(uv_getaddrinfo_t *request, int rv, struct addrinfo *list)
{
    struct resolve *resolve = request->data;
    struct conn *conn = resolve->conn;
    if (conn != NULL) {
        conn->resolve = NULL;
        if (rv != 0) {
            probe_failed(conn, LIGHTQ_ECONNECT, uv_strerror(rv));
            lq_conn_close(conn);
        } else {
            const struct addrinfo *chosen = pick(list, conn->transport->clock);
            struct sockaddr_storage address;
            memcpy(&address, chosen->ai_addr, chosen->ai_addrlen);
            if (address.ss_family == AF_INET) {
                ((struct sockaddr_in *)(void *)&address)->sin_port = htons(conn->port);
            } else {
                ((struct sockaddr_in6 *)(void *)&address)->sin6_port = htons(conn->port);
            }
            connect_to(conn, (const struct sockaddr *)&address);
        }
    }
    uv_freeaddrinfo(list);
    free(resolve);
}

static void resolve_name(struct conn *conn, const char *host)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct resolve *resolve = calloc(1, sizeof *resolve);
    if (resolve != NULL) {
        resolve->conn = conn;
        resolve->request.data = resolve;
        int rv = uv_getaddrinfo(conn->transport->loop, &resolve->request, on_resolved, host, NULL, &hints);
        if (rv == 0) {
            conn->resolve = resolve;
            return;
        }
        probe_failed(conn, LIGHTQ_ECONNECT, uv_strerror(rv));
        free(resolve);
    }
    lq_conn_close(conn);
}

static void begin_connecting(struct conn *conn, const char *host, uint16_t port)
{
    struct sockaddr_storage address;
    conn->port = port;
    lq_transport_arm(conn->transport);
    if (lq_transport_parse_address(host, port, &address)) {
        connect_to(conn, (const struct sockaddr *)&address);
    } else {
        resolve_name(conn, host);
    }
}

lightq_status lq_conn_dial(struct lq_transport *transport, struct peer *peer)
{
    struct conn *conn = conn_new(transport, CONN_OUT);
    if (conn == NULL) {
        return LIGHTQ_ENOMEM;
    }
    conn->peer = peer;
    conn->node = peer->node;
    peer->out = conn;
    begin_connecting(conn, peer->host, peer->port);
    return LIGHTQ_OK;
}

lightq_status lq_conn_probe(struct lq_transport *transport, const char *host, uint16_t port, struct probe *probe)
{
    struct conn *conn = conn_new(transport, CONN_PROBE);
    if (conn == NULL) {
        return LIGHTQ_ENOMEM;
    }
    probe->status = lq_err_set(&probe->err, LIGHTQ_ECONNECT, "cannot connect");
    conn->probe = probe;
    begin_connecting(conn, host, port);
    return LIGHTQ_OK;
}

/* ---- accepting ---- */

/* Room for one more: the one that has been silent longest goes. The list begins with the newest. */
static void evict_oldest(struct lq_transport *transport)
{
    struct conn *oldest = NULL;
    for (struct conn *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (conn->kind == CONN_IN && conn->state == CONN_EXPECTING) {
            oldest = conn;
        }
    }
    assert(oldest != NULL);
    transport->counters.evicted++;
    warn(oldest, "too many", "too many connections without a hello: the oldest goes");
    lq_conn_close(oldest);
}

void lq_conn_on_connection(uv_stream_t *listener, int status)
{
    struct lq_transport *transport = listener->data;
    if (status != 0) {
        uint64_t held_back = 0;
        if (lq_transport_may_log(transport, &held_back)) {
            lq_log(WARN, "peer connection not accepted", "error", uv_strerror(status), "held_back", held_back);
        }
        return;
    }
    struct conn *conn = conn_new(transport, CONN_IN);
    if (conn == NULL) {
        transport->accept_owed = true; /* libuv accepts no more before it; the timer tries again */
        lq_transport_arm(transport);
        return;
    }
    transport->counters.accepted++;
    transport->counters.unidentified++;
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0) {
        lq_conn_close(conn);
        return;
    }
    if (transport->counters.unidentified > transport->options.unidentified_max) {
        evict_oldest(transport);
    }
    set_socket_options(conn);
    lq_transport_arm(transport);
    begin_reading(conn);
}
