/* raft/transport.c - the peers, the timer and the link. See transport.h; one connection's life is in
 * transport_conn.c. */
#include "raft/transport.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/base/log.h"
#include "raft/transport_internal.h"

#define HELLO_TIMEOUT_MS  5000
#define RETRY_MIN_MS      20
#define RETRY_MAX_MS      1000
#define SILENCE_MS        10000
#define ACCEPT_AGAIN_MS   1000
#define LOG_EVERY_US      1000000
#define LISTEN_BACKLOG    128
#define PEERS_AT_ONCE     16
#define IPV4_LOOPBACK_TOP 127 /* 127.0.0.0/8 */

/* ---- peers ---- */

/* Where @node is, or would be, among the peers. */
static size_t place_of(const struct lq_transport *transport, uint32_t node)
{
    size_t low = 0, high = transport->peer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (transport->peers[middle]->node < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct peer *lq_transport_find(const struct lq_transport *transport, uint32_t node)
{
    size_t place = place_of(transport, node);
    bool found = place < transport->peer_count && transport->peers[place]->node == node;
    return found ? transport->peers[place] : NULL;
}

struct peer *lq_transport_obtain(struct lq_transport *transport, uint32_t node)
{
    struct peer *peer = lq_transport_find(transport, node);
    if (peer != NULL) {
        return peer;
    }
    if (transport->peer_count == transport->peer_capacity) {
        size_t larger = transport->peer_capacity + PEERS_AT_ONCE;
        struct peer **moved = realloc(transport->peers, larger * sizeof *moved);
        if (moved == NULL) {
            return NULL;
        }
        transport->peers = moved;
        transport->peer_capacity = larger;
    }
    peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    peer->node = node;
    peer->told_gone = true; /* nothing to tell before it was up once */
    size_t place = place_of(transport, node);
    memmove(transport->peers + place + 1, transport->peers + place,
            (transport->peer_count - place) * sizeof *transport->peers);
    transport->peers[place] = peer;
    transport->peer_count++;
    return peer;
}

static void close_both(struct peer *peer)
{
    if (peer->out != NULL) {
        lq_conn_close(peer->out);
    }
    if (peer->in != NULL) {
        lq_conn_close(peer->in);
    }
}

lightq_status lq_transport_set_peer(struct lq_transport *transport, uint32_t node, const char *host, uint16_t port,
                                    const struct lq_id *uuid)
{
    size_t host_size = strlen(host);
    if (node == 0 || node > LQ_NODES_MAX || node == transport->self.node || host_size == 0 ||
        host_size > LQ_HOST_BYTES_MAX || port == 0) {
        return LIGHTQ_EINVAL;
    }
    struct peer *peer = lq_transport_obtain(transport, node);
    if (peer == NULL) {
        return LIGHTQ_ENOMEM;
    }
    bool another_uuid = uuid != NULL && peer->seen.uuid_known && !lq_id_equal(uuid, &peer->seen.uuid);
    bool another_place = !peer->dialed || peer->port != port || strcmp(peer->host, host) != 0;
    if (another_uuid) {
        peer->seen = (struct lq_hello_seen){.boot_known = false};
        close_both(peer);
    }
    if (uuid != NULL) {
        peer->seen.uuid = *uuid;
        peer->seen.uuid_known = true;
    }
    if (another_place) {
        peer->dialed = true;
        memcpy(peer->host, host, host_size + 1);
        peer->port = port;
        if (peer->out != NULL) {
            lq_conn_close(peer->out);
        }
    }
    if (another_place || another_uuid) {
        peer->redial = true;
        peer->backoff_ms = 0;
        if (peer->out == NULL) {
            lq_transport_retry(transport, peer, NULL);
        }
    }
    return LIGHTQ_OK;
}

void lq_transport_remove_peer(struct lq_transport *transport, uint32_t node)
{
    struct peer *peer = lq_transport_find(transport, node);
    if (peer == NULL) {
        return;
    }
    close_both(peer);
    for (struct conn *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (conn->peer == peer) {
            conn->peer = NULL; /* a replaced one may still be closing */
        }
    }
    size_t place = place_of(transport, node);
    memmove(transport->peers + place, transport->peers + place + 1,
            (transport->peer_count - place - 1) * sizeof *transport->peers);
    transport->peer_count--;
    free(peer);
}

void lq_transport_set_admission(struct lq_transport *transport, uint32_t admission)
{
    transport->self.admission = admission;
}

void lq_transport_set_cluster(struct lq_transport *transport, const struct lq_id *cluster)
{
    transport->self.cluster = *cluster;
    for (struct conn *conn = transport->conns; conn != NULL; conn = conn->next) {
        bool begun = conn->state == CONN_UP || conn->state == CONN_ASKED;
        if (conn->restricted && begun && conn->kind != CONN_PROBE) {
            if (conn->kind == CONN_OUT) {
                conn->peer->redial = true;
            }
            lq_conn_close(conn);
        }
    }
}

/* ---- the timer ---- */

static void dial_when_due(struct lq_transport *transport, struct peer *peer, uint64_t now)
{
    if (peer->retry_at_ms == 0 || peer->retry_at_ms > now || peer->out != NULL) {
        return;
    }
    peer->retry_at_ms = 0;
    if (lq_conn_dial(transport, peer) != LIGHTQ_OK) {
        lq_transport_retry(transport, peer, NULL);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct lq_transport *transport = timer->data;
    const uint64_t now = uv_now(transport->loop);
    for (struct conn *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (conn->deadline_ms != 0 && conn->deadline_ms <= now && conn->state != CONN_CLOSING) {
            lq_conn_expire(conn);
        }
    }
    for (size_t i = 0; i < transport->peer_count; i++) {
        dial_when_due(transport, transport->peers[i], now);
    }
    if (transport->accept_owed) {
        transport->accept_owed = false;
        lq_conn_on_connection((uv_stream_t *)&transport->listener, 0);
    }
    lq_transport_arm(transport);
}

static void sooner(uint64_t *next, uint64_t candidate)
{
    if (candidate != 0 && candidate < *next) {
        *next = candidate;
    }
}

void lq_transport_arm(struct lq_transport *transport)
{
    if (!transport->listening || transport->closing) {
        return;
    }
    const uint64_t now = uv_now(transport->loop);
    uint64_t next = UINT64_MAX;
    for (const struct conn *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (conn->state != CONN_CLOSING) {
            sooner(&next, conn->deadline_ms);
        }
    }
    for (size_t i = 0; i < transport->peer_count; i++) {
        if (transport->peers[i]->out == NULL) {
            sooner(&next, transport->peers[i]->retry_at_ms);
        }
    }
    if (transport->accept_owed) {
        sooner(&next, now + ACCEPT_AGAIN_MS);
    }
    if (next == UINT64_MAX) {
        (void)uv_timer_stop(&transport->timer);
    } else {
        (void)uv_timer_start(&transport->timer, on_timer, next > now ? next - now : 0, 0);
    }
}

void lq_transport_retry(struct lq_transport *transport, struct peer *peer, const struct conn *conn)
{
    const unsigned least = transport->options.retry_min_ms, most = transport->options.retry_max_ms;
    if (!peer->dialed) {
        return;
    }
    if (conn != NULL && conn->hopeless) {
        peer->backoff_ms = most;
    } else if (peer->backoff_ms == 0) { /* it was up, or was never tried */
        peer->backoff_ms = least;
    } else {
        peer->backoff_ms = peer->backoff_ms < most / 2 ? peer->backoff_ms * 2 : most;
    }
    /* Between half and all of it, so that nodes that were cut at the same moment do not come back at the same moment.
     */
    uint64_t wait = peer->backoff_ms - lq_clock_random_below(transport->clock, peer->backoff_ms / 2 + 1);
    if (peer->redial) {
        peer->redial = false;
        peer->backoff_ms = 0;
        wait = 0;
    }
    peer->retry_at_ms = uv_now(transport->loop) + wait;
    if (peer->retry_at_ms == 0) {
        peer->retry_at_ms = 1;
    }
    lq_transport_arm(transport);
}

bool lq_transport_may_log(struct lq_transport *transport, uint64_t *held_back)
{
    uint64_t now = lq_clock_monotonic_us(transport->clock);
    if (now < transport->log_again_us) {
        transport->log_held_back++;
        return false;
    }
    transport->log_again_us = now + LOG_EVERY_US;
    *held_back = transport->log_held_back;
    transport->log_held_back = 0;
    return true;
}

/* ---- the link ---- */

static struct lq_transport *of_link(struct lq_link *link)
{
    return (struct lq_transport *)(void *)link;
}

/* The connection frames to @node go out on; NULL when there is none. */
static struct conn *way_to(struct lq_transport *transport, uint32_t node)
{
    const struct peer *peer = lq_transport_find(transport, node);
    return peer != NULL && peer->out != NULL && peer->out->state == CONN_UP ? peer->out : NULL;
}

static bool is_sendable(const struct lq_frame *frame, uint64_t size)
{
    bool has_place_for_both = frame->type == LQ_FRAME_APPEND ? frame->body_size == 0 : frame->entry_count == 0;
    uint32_t most = lq_frame_payload_max(frame->type);
    return most != 0 && frame->type != LQ_FRAME_HELLO && has_place_for_both && frame->head_size <= LQ_FRAME_HEAD_MAX &&
           size <= LQ_FRAME_HEADER_BYTES + (uint64_t)most;
}

static lightq_status link_send(struct lq_link *link, uint32_t node, const struct lq_frame *frame)
{
    struct lq_transport *transport = of_link(link);
    uint64_t size = lq_frame_wire_size(frame);
    if (!is_sendable(frame, size)) {
        return LIGHTQ_EINVAL;
    }
    struct conn *conn = way_to(transport, node);
    if (conn == NULL || (conn->restricted && frame->type != LQ_FRAME_NODE)) {
        transport->counters.dropped_unconnected++;
        return LIGHTQ_ECONNECT;
    }
    uint64_t queued = lq_sender_queued(&conn->sender);
    /* One frame always fits: the largest is a little larger than the bound. */
    if (queued != 0 && queued + size > transport->options.queue_bytes_max) {
        transport->counters.dropped_full++;
        return LIGHTQ_EBUSY;
    }
    lightq_status status = lq_sender_add(&conn->sender, frame);
    if (status == LIGHTQ_OK) {
        transport->counters.frames_sent++;
        transport->counters.bytes_sent += size;
    }
    return status;
}

static bool link_connected(struct lq_link *link, uint32_t node)
{
    return way_to(of_link(link), node) != NULL;
}

static uint64_t link_queued(struct lq_link *link, uint32_t node)
{
    const struct conn *conn = way_to(of_link(link), node);
    return conn == NULL ? 0 : lq_sender_queued(&conn->sender);
}

static const struct lq_link_ops link_ops = {.send = link_send, .connected = link_connected, .queued = link_queued};

struct lq_link *lq_transport_link(struct lq_transport *transport)
{
    return &transport->link;
}

void lq_transport_turn(struct lq_transport *transport)
{
    for (size_t i = 0; i < transport->peer_count; i++) {
        struct conn *conn = transport->peers[i]->out;
        if (conn != NULL && conn->state == CONN_UP) {
            lq_conn_flush(conn);
        }
    }
}

/* ---- life ---- */

static unsigned or_default(unsigned value, unsigned otherwise)
{
    return value != 0 ? value : otherwise;
}

static void take_options(struct lq_transport *transport, const struct lq_transport_options *given)
{
    struct lq_transport_options *options = &transport->options;
    *options = *given;
    options->hello_timeout_ms = or_default(given->hello_timeout_ms, HELLO_TIMEOUT_MS);
    options->retry_min_ms = or_default(given->retry_min_ms, RETRY_MIN_MS);
    options->retry_max_ms = or_default(given->retry_max_ms, RETRY_MAX_MS);
    options->unidentified_max = or_default(given->unidentified_max, LQ_PEER_UNIDENTIFIED_MAX);
    options->silence_ms = or_default(given->silence_ms, SILENCE_MS);
    if (options->queue_bytes_max == 0) {
        options->queue_bytes_max = LQ_PEER_QUEUE_BYTES_MAX;
    }
    transport->self = (struct lq_hello){.version_min = LQ_PEER_VERSION_MIN,
                                        .version_max = LQ_PEER_VERSION_MAX,
                                        .shard = given->shard,
                                        .shards = given->shards,
                                        .node = given->node,
                                        .cluster = given->cluster,
                                        .uuid = given->uuid,
                                        .admission = given->admission,
                                        .boot_count = given->boot_count,
                                        .boot_nonce = given->boot_nonce};
}

lightq_status lq_transport_new(const struct lq_transport_options *options, uv_loop_t *loop, struct lq_clock *clock,
                               struct lq_transport **transport, struct lq_err *err)
{
    if (options->node == 0 || options->node > LQ_NODES_MAX || lq_id_is_zero(&options->uuid) ||
        options->shard >= options->shards) {
        return lq_err_set(err, LIGHTQ_EINVAL, "peer links: node %" PRIu32 ", shard %u of %u", options->node,
                          options->shard, options->shards);
    }
    struct lq_transport *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "peer links: out of memory");
    }
    made->link.ops = &link_ops;
    made->loop = loop;
    made->clock = clock;
    take_options(made, options);
    *transport = made;
    return LIGHTQ_OK;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == IPV4_LOOPBACK_TOP;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IPV4_LOOPBACK_TOP);
}

lightq_status lq_transport_check_address(const char *host, bool insecure, struct lq_err *err)
{
    struct sockaddr_storage address;
    if (!lq_transport_parse_address(host, 0, &address)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "the peer address to listen on, '%s', is not an IP address", host);
    }
    if (!insecure && !is_loopback(&address)) {
        return lq_err_set(
            err, LIGHTQ_EAUTH,
            "the peer port would listen on %s, where without TLS anybody could speak as a node: listen on "
            "127.0.0.1, or set peer.insecure=true if only nodes can reach that network",
            host);
    }
    return LIGHTQ_OK;
}

static lightq_status bind_and_listen(struct lq_transport *transport, const char *host, uint16_t port,
                                     struct lq_err *err)
{
    struct sockaddr_storage address;
    int size = sizeof address;
    bool parsed = lq_transport_parse_address(host, port, &address);
    assert(parsed); /* checked before */
    uv_stream_t *listener = (uv_stream_t *)&transport->listener;
    int rv = uv_tcp_bind(&transport->listener, (const struct sockaddr *)&address, 0);
    if (rv == 0) {
        rv = uv_listen(listener, LISTEN_BACKLOG, lq_conn_on_connection);
    }
    if (rv == 0) {
        rv = uv_tcp_getsockname(&transport->listener, (struct sockaddr *)&address, &size);
    }
    if (rv != 0) {
        return lq_err_from_errno(err, -rv, "listen for peers on %s port %u", host, port);
    }
    transport->port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)(void *)&address)->sin_port
                                                         : ((struct sockaddr_in6 *)(void *)&address)->sin6_port);
    return LIGHTQ_OK;
}

lightq_status lq_transport_listen(struct lq_transport *transport, const char *host, uint16_t port, bool insecure,
                                  const struct lq_transport_events *events, struct lq_err *err)
{
    assert(!transport->listening && transport->open_handles == 0);
    transport->events = *events;
    lightq_status status = lq_transport_check_address(host, insecure, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    int rv = uv_timer_init(transport->loop, &transport->timer);
    assert(rv == 0); /* it only fills the struct */
    rv = uv_tcp_init(transport->loop, &transport->listener);
    assert(rv == 0); /* likewise, without a socket */
    transport->timer.data = transport;
    transport->listener.data = transport;
    transport->open_handles = 2;
    status = bind_and_listen(transport, host, port, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    transport->listening = true;
    lq_log(INFO, "listening for peers", "host", host, "port", transport->port, "shard", transport->self.shard);
    lq_transport_arm(transport);
    return LIGHTQ_OK;
}

uint16_t lq_transport_port(const struct lq_transport *transport)
{
    return transport->port;
}

lightq_status lq_transport_probe(struct lq_transport *transport, const char *host, uint16_t port,
                                 lq_transport_probe_cb cb, void *data)
{
    size_t host_size = strlen(host);
    if (!transport->listening || host_size == 0 || host_size > LQ_HOST_BYTES_MAX || port == 0) {
        return LIGHTQ_EINVAL;
    }
    struct probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL) {
        return LIGHTQ_ENOMEM;
    }
    probe->cb = cb;
    probe->data = data;
    lightq_status status = lq_conn_probe(transport, host, port, probe);
    if (status != LIGHTQ_OK) {
        free(probe);
    }
    return status;
}

void lq_transport_count_up(const struct lq_transport *transport, struct lq_transport_counters *counters)
{
    *counters = transport->counters;
}

void lq_transport_maybe_closed(struct lq_transport *transport)
{
    if (!transport->closing || transport->open_handles != 0) {
        return;
    }
    void (*cb)(void *data) = transport->close_cb;
    void *data = transport->close_data;
    for (size_t i = 0; i < transport->peer_count; i++) {
        free(transport->peers[i]);
    }
    free(transport->peers);
    free(transport);
    cb(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct lq_transport *transport = handle->data;
    transport->open_handles--;
    lq_transport_maybe_closed(transport);
}

void lq_transport_close(struct lq_transport *transport, void (*cb)(void *data), void *data)
{
    assert(!transport->closing);
    transport->closing = true;
    transport->close_cb = cb;
    transport->close_data = data;
    for (struct conn *conn = transport->conns; conn != NULL; conn = conn->next) {
        lq_conn_cancel(conn);
    }
    if (transport->open_handles == 0) { /* it never listened: the callback still comes later */
        int rv = uv_timer_init(transport->loop, &transport->timer);
        assert(rv == 0);
        transport->timer.data = transport;
        transport->open_handles = 1;
        uv_close((uv_handle_t *)&transport->timer, on_handle_closed);
        return;
    }
    uv_close((uv_handle_t *)&transport->timer, on_handle_closed);
    uv_close((uv_handle_t *)&transport->listener, on_handle_closed);
}
