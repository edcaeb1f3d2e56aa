/* node/front.c - see front.h. The port, and what concerns all connections: their numbers, times and memory. */
#include "node/front.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "client/base/log.h"
#include "node/front_internal.h"
#include "node/listen.h"

/* Taken in before the rest of the loop has its turn; both may be passed by one read. So little, because what was taken
 * in goes to disks and peers at the end of the turn, while the next is read. */
#define TURN_MESSAGES_MAX    512
#define TURN_BYTES_MAX       (256u * 1024)
#define ACCEPTS_MAX          64    /* in one turn */
#define HANDSHAKE_MS         10000 /* who has not finished it by then is closed */
#define PING_MS              5000  /* one not heard for so long is asked for a sign of life */
#define SILENCE_MS           20000 /* one not heard for so long is closed */
#define TICK_MS              1000
#define TICKS_PER_TIME       4            /* of the shortest of the times above */
#define UNSENT_BYTES         (256 * 1024) /* taken by the system for one connection and not sent */
#define STALLED_MS           2000         /* a connection may take nothing for so long when others wait for memory */
#define ARRIVING_MS          1000         /* a message may arrive so long when others wait for its memory */
#define STARVED_MS           5000         /* nobody waits for memory longer */
#define ARRIVING_FRAMES_MIN  4            /* of the largest size: there is always memory for so many */
#define GOODBYE_MS           100          /* how long closing waits for what was sent last */
#define KEEPALIVE_SECONDS    30
#define BACKLOG              1024
#define LISTEN_RESUME_EIGHTH 7 /* connections are taken again at seven eighths of connections_max */
#define EIGHTHS              8
#define SLOT_BITS            20 /* of a connection's number; the rest never comes again */
#define SLOT_MASK            ((1u << SLOT_BITS) - 1)
#define SLOTS_FIRST          64
#define ADDRESS_TEXT_BYTES   64
#define LOG_EVERY_MS         1000

/* ---- connections by number */

static struct conn *find(const struct lq_front *front, lq_peer peer)
{
    uint32_t slot = (uint32_t)(peer & SLOT_MASK);
    struct conn *conn = slot < front->slot_count ? front->slots[slot] : NULL;
    return conn != NULL && conn->peer == peer && conn->state == CONN_OPEN ? conn : NULL;
}

static bool grow_slots(struct lq_front *front)
{
    uint32_t larger = front->slot_count == 0 ? SLOTS_FIRST : front->slot_count * 2;
    if (larger > SLOT_MASK + 1) {
        return false;
    }
    struct conn **slots = realloc(front->slots, larger * sizeof(struct conn *));
    front->slots = slots == NULL ? front->slots : slots;
    uint32_t *free_slots = realloc(front->free_slots, larger * sizeof *free_slots);
    front->free_slots = free_slots == NULL ? front->free_slots : free_slots;
    if (slots == NULL || free_slots == NULL) {
        return false;
    }
    for (uint32_t slot = larger; slot > front->slot_count; slot--) {
        front->slots[slot - 1] = NULL;
        front->free_slots[front->free_count++] = slot - 1;
    }
    front->slot_count = larger;
    return true;
}

/* ---- the life of a connection */

static void address_text(const struct conn *conn, char text[LQ_ADDRESS_TEXT_BYTES])
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    memcpy(text, "?", 2);
    if (getpeername(conn->descriptor, (struct sockaddr *)&address, &size) != 0) {
        return;
    }
    char host[ADDRESS_TEXT_BYTES];
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *ip4 = (const struct sockaddr_in *)(const void *)&address;
        (void)uv_ip4_name(ip4, host, sizeof host);
        (void)snprintf(text, LQ_ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(ip4->sin_port));
    } else {
        const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)(const void *)&address;
        (void)uv_ip6_name(ip6, host, sizeof host);
        (void)snprintf(text, LQ_ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(ip6->sin6_port));
    }
}

void lq_front_warn(struct conn *conn, const char *why)
{
    struct lq_front *front = conn->front;
    char text[LQ_ADDRESS_TEXT_BYTES];
    if (uv_now(front->loop) < front->log_again_ms) {
        front->log_held_back++;
        return;
    }
    address_text(conn, text);
    lq_log(WARN, "client connection closed", "why", why, "address", text, "held_back", front->log_held_back);
    front->log_again_ms = uv_now(front->loop) + LOG_EVERY_MS;
    front->log_held_back = 0;
}

static void on_poll(uv_poll_t *poll, int status, int events);

void lq_front_watch(struct conn *conn, bool writing)
{
    int wanted = (conn->starved || conn->front->closing ? 0 : UV_READABLE) | (writing ? UV_WRITABLE : 0);
    if (wanted == conn->watched || conn->hung || conn->state == CONN_DEAD) {
        return;
    }
    conn->watched = wanted;
    if (wanted == 0) {
        (void)uv_poll_stop(&conn->poll);
    } else {
        (void)uv_poll_start(&conn->poll, wanted, on_poll);
    }
}

static void leave_lists(struct conn *conn)
{
    struct lq_front *front = conn->front;
    if (conn->readable) {
        DL_DELETE2(front->readable, conn, readable_prev, readable_next);
    }
    if (conn->starved) {
        DL_DELETE2(front->starved, conn, starved_prev, starved_next);
    }
    if (conn->dirty) {
        DL_DELETE2(front->dirty, conn, dirty_prev, dirty_next);
    }
    conn->readable = conn->starved = conn->dirty = false;
}

void lq_front_kill(struct conn *conn)
{
    struct lq_front *front = conn->front;
    if (conn->state == CONN_DEAD) {
        return;
    }
    conn->state = CONN_DEAD;
    (void)uv_poll_stop(&conn->poll);
    leave_lists(conn);
    lq_front_forget(conn);
    lq_front_drop_outgoing(conn);
    conn->dead_next = front->dead;
    front->dead = conn;
}

static void listen_or_not(struct lq_front *front);
static void maybe_closed(struct lq_front *front);

static void on_conn_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    struct lq_front *front = conn->front;
    free(conn);
    front->handles--;
    maybe_closed(front);
}

/* Tells the owner of those that died, and lets go of them. */
static void reap(struct lq_front *front)
{
    while (front->dead != NULL) {
        struct conn *conn = front->dead;
        front->dead = conn->dead_next;
        if (lq_zmtp_is_ready(&conn->zmtp) && !front->closing) {
            front->events->closed(front->owner, conn->peer);
        }
        uint32_t slot = (uint32_t)(conn->peer & SLOT_MASK);
        front->slots[slot] = NULL;
        front->free_slots[front->free_count++] = slot;
        DL_DELETE(front->conns, conn);
        front->conn_count--;
        uv_close((uv_handle_t *)&conn->poll, on_conn_closed);
        (void)close(conn->descriptor);
        front->options.counters->connections = front->conn_count;
    }
    listen_or_not(front);
}

static void mark_readable(struct conn *conn)
{
    if (!conn->readable) {
        conn->readable = true;
        DL_APPEND2(conn->front->readable, conn, readable_prev, readable_next);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    if (status != 0) { /* libuv does not watch it any more */
        conn->hung = true;
        conn->watched = 0;
        if (!conn->front->closing) {
            mark_readable(conn);
        } else {
            lq_front_kill(conn);
        }
    }
    if ((events & UV_WRITABLE) != 0) {
        lq_front_write(conn);
    }
    if ((events & UV_READABLE) != 0 && conn->state != CONN_DEAD && !conn->starved && !conn->front->closing) {
        mark_readable(conn);
    }
    if (conn->front->closing) {
        reap(conn->front);
    }
}

/* Failures here are not worth the connection. */
static void set_socket_options(int descriptor)
{
    const int one = 1, idle = KEEPALIVE_SECONDS, unsent = UNSENT_BYTES;
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

/* Takes over @descriptor; false (out of memory): not. */
static bool conn_new(struct lq_front *front, int descriptor)
{
    if (front->free_count == 0 && !grow_slots(front)) {
        return false;
    }
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        return false;
    }
    if (uv_poll_init(front->loop, &conn->poll, descriptor) != 0) {
        free(conn);
        return false;
    }
    uint32_t slot = front->free_slots[--front->free_count];
    conn->poll.data = conn;
    conn->front = front;
    conn->descriptor = descriptor;
    conn->peer = ++front->serial << SLOT_BITS | slot;
    conn->out_end = &conn->out;
    conn->opened_ms = conn->heard_ms = conn->pinged_ms = uv_now(front->loop);
    lq_zmtp_init(&conn->zmtp, front->options.frame_bytes_max);
    front->slots[slot] = conn;
    front->handles++;
    front->conn_count++;
    DL_APPEND(front->conns, conn);
    set_socket_options(descriptor);
    lq_front_watch(conn, false);
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    lq_zmtp_greeting_write(greeting);
    if (!lq_front_put(conn, greeting, sizeof greeting)) {
        lq_front_kill(conn);
    }
    return true;
}

/* ---- the port */

static void stop_accepting(struct lq_front *front)
{
    front->accepting = false;
    (void)uv_poll_stop(&front->listener);
    front->options.counters->connections_refused++;
}

static void on_connections(uv_poll_t *poll, int status, int events)
{
    struct lq_front *front = poll->data;
    (void)status;
    (void)events;
    for (unsigned i = 0; i < ACCEPTS_MAX && front->conn_count < front->options.connections_max; i++) {
        int descriptor = accept4(front->descriptor, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0 && (errno == ECONNABORTED || errno == EINTR)) {
            continue;
        }
        if (descriptor < 0 && errno != EAGAIN && errno != EWOULDBLOCK) { /* no descriptors: the next tick tries again */
            lq_log(WARN, "the client port cannot take a connection", "error",
                   uv_strerror(uv_translate_sys_error(errno)));
            front->accept_again_ms = uv_now(front->loop) + TICK_MS;
            stop_accepting(front);
            return;
        }
        if (descriptor < 0) {
            break;
        }
        if (!conn_new(front, descriptor)) {
            (void)close(descriptor);
        }
    }
    front->options.counters->connections = front->conn_count;
    listen_or_not(front);
}

/* Connections that are not accepted wait in the kernel. */
static void listen_or_not(struct lq_front *front)
{
    unsigned most = front->options.connections_max;
    uint64_t few = (uint64_t)most * LISTEN_RESUME_EIGHTH / EIGHTHS;
    if (front->closing) {
        return;
    }
    if (front->accepting && front->conn_count >= most) {
        stop_accepting(front);
        lq_log(WARN, "too many connections: the client port takes no more", "connections", front->conn_count,
               "connections.max", most);
    } else if (!front->accepting && front->conn_count <= few && uv_now(front->loop) >= front->accept_again_ms) {
        front->accepting = uv_poll_start(&front->listener, UV_READABLE, on_connections) == 0;
        lq_log(INFO, "the client port takes connections", "connections", front->conn_count);
    }
}

/* ---- turns */

static bool fits(const struct lq_front *front, const struct conn *starved)
{
    return front->arriving_bytes - starved->spill_size + starved->wanted_bytes <= front->options.arriving_bytes_max;
}

/* Goes on with those that waited for memory, each in its turn, as far as there is some. */
static void feed_starved(struct lq_front *front)
{
    for (unsigned i = front->conn_count; i > 0 && front->starved != NULL && fits(front, front->starved); i--) {
        struct conn *conn = front->starved;
        DL_DELETE2(front->starved, conn, starved_prev, starved_next);
        conn->starved = false;
        lq_front_feed(conn);
        if (conn->state != CONN_DEAD && !conn->starved) {
            lq_front_watch(conn, (conn->watched & UV_WRITABLE) != 0);
            mark_readable(conn);
        }
    }
}

bool lq_front_turn(struct lq_front *front)
{
    uint64_t begin = front->options.counters->bytes_in;
    front->messages = 0;
    feed_starved(front);
    while (front->readable != NULL && front->messages < TURN_MESSAGES_MAX &&
           front->options.counters->bytes_in - begin < TURN_BYTES_MAX) {
        struct conn *conn = front->readable;
        DL_DELETE2(front->readable, conn, readable_prev, readable_next);
        conn->readable = false;
        if (lq_front_read(conn) || (conn->hung && conn->state != CONN_DEAD && !conn->starved)) {
            mark_readable(conn);
        }
    }
    reap(front);
    return front->readable != NULL;
}

void lq_front_flush(struct lq_front *front)
{
    while (front->dirty != NULL) {
        struct conn *conn = front->dirty;
        DL_DELETE2(front->dirty, conn, dirty_prev, dirty_next);
        conn->dirty = false;
        if ((conn->watched & UV_WRITABLE) == 0) { /* else the socket says when */
            lq_front_write(conn);
        }
    }
    reap(front);
}

/* ---- time */

static void evict_one(struct conn *conn)
{
    conn->front->options.counters->connections_evicted++;
    lq_front_warn(conn, "its message takes long, and others wait for its memory");
    lq_front_kill(conn);
}

/* While as much waits for clients as may, those that have taken nothing for long give way to those that read. */
static void evict_stalled(struct lq_front *front, uint64_t now)
{
    struct conn *conn, *next;
    DL_FOREACH_SAFE(front->conns, conn, next)
    {
        if (front->queued < front->options.queued_bytes_max / 2) {
            break;
        }
        if (conn->out_count > 0 && conn->state != CONN_DEAD && now - conn->written_ms > STALLED_MS) {
            front->options.counters->connections_stalled++;
            lq_front_warn(conn, "it takes nothing, and others wait for the memory of what it was sent");
            lq_front_kill(conn);
        }
    }
}

/* Those that have been sending one message for long give way to those that wait for memory. */
static void evict(struct lq_front *front, uint64_t now)
{
    uint64_t wanted = 0, most = front->options.arriving_bytes_max;
    struct conn *conn, *next;
    DL_FOREACH2(front->starved, conn, starved_next)
    {
        wanted += conn->wanted_bytes;
    }
    DL_FOREACH_SAFE(front->conns, conn, next)
    {
        if (wanted == 0 || front->arriving_bytes + wanted <= most) {
            break;
        }
        if (conn->body != NULL && now - conn->arriving_ms > ARRIVING_MS) {
            evict_one(conn);
        }
    }
    /* When all that is held is held by those that wait. */
    while (front->starved != NULL && !fits(front, front->starved) && now - front->starved->arriving_ms > STARVED_MS) {
        evict_one(front->starved);
    }
}

static void check_times(struct conn *conn, uint64_t now)
{
    struct lq_front *front = conn->front;
    const struct lq_front_options *options = &front->options;
    if (conn->state == CONN_LEAVING) {
        if (now > conn->deadline_ms) {
            lq_front_kill(conn);
        }
        return;
    }
    if (!lq_zmtp_is_ready(&conn->zmtp)) {
        if (now - conn->opened_ms > options->handshake_ms) {
            options->counters->handshakes_bad++;
            lq_front_kill(conn);
        }
        return;
    }
    if (conn->starved || conn->readable) {
        return; /* it is we who do not listen */
    }
    uint64_t since = conn->spoken ? conn->heard_ms : conn->opened_ms; /* PONGs alone do not keep a place */
    if (now - since > options->silence_ms) {
        options->counters->connections_silent++;
        lq_front_kill(conn);
    } else if (now - conn->heard_ms >= options->ping_ms && now - conn->pinged_ms >= options->ping_ms) {
        uint8_t ping[LQ_ZMTP_PING_BYTES];
        lq_zmtp_ping_write(ping, 0);
        conn->pinged_ms = now;
        (void)lq_front_put(conn, ping, sizeof ping); /* no memory: the next one */
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct lq_front *front = timer->data;
    uint64_t now = uv_now(front->loop), late = now - front->ticked_ms;
    struct conn *conn, *next;
    if (front->closing) { /* the last of its time is over */
        DL_FOREACH_SAFE(front->conns, conn, next)
        {
            lq_front_kill(conn);
        }
        reap(front);
        return;
    }
    front->ticked_ms = now;
    DL_FOREACH_SAFE(front->conns, conn, next)
    {
        if (late > 2 * TICK_MS) { /* the process was stopped, and has heard nobody */
            conn->heard_ms = now;
        }
        if (conn->state != CONN_DEAD) {
            check_times(conn, now);
        }
    }
    evict(front, now);
    evict_stalled(front, now);
    listen_or_not(front);
}

/* ---- the outlet */

static lightq_status front_send(struct lq_outlet *outlet, lq_peer peer, const struct lq_packet *packet)
{
    struct conn *conn = find((struct lq_front *)outlet, peer);
    return conn == NULL ? LIGHTQ_ECLOSED : lq_front_send(conn, packet);
}

static void front_close_peer(struct lq_outlet *outlet, lq_peer peer, enum lq_outlet_close how)
{
    struct conn *conn = find((struct lq_front *)outlet, peer);
    if (conn != NULL && how == LQ_CLOSE_NOW) {
        lq_front_kill(conn);
    } else if (conn != NULL) {
        lq_front_leave(conn);
    }
}

static uint64_t front_queued_to(struct lq_outlet *outlet, lq_peer peer)
{
    const struct conn *conn = find((struct lq_front *)outlet, peer);
    return conn == NULL ? 0 : conn->out_bytes;
}

static void front_address(struct lq_outlet *outlet, lq_peer peer, struct lq_address_text *text)
{
    const struct conn *conn = find((struct lq_front *)outlet, peer);
    if (conn != NULL) {
        address_text(conn, text->text);
    }
}

static uint64_t front_queued(struct lq_outlet *outlet)
{
    return lq_front_queued_bytes((struct lq_front *)outlet);
}

/* ---- life */

static unsigned time_of(unsigned given_ms, unsigned usual_ms)
{
    return given_ms != 0 ? given_ms : usual_ms;
}

static void take_options(struct lq_front *front, const struct lq_front_options *given)
{
    struct lq_front_options *options = &front->options;
    *options = *given;
    options->handshake_ms = time_of(given->handshake_ms, HANDSHAKE_MS);
    options->ping_ms = time_of(given->ping_ms, PING_MS);
    options->silence_ms = time_of(given->silence_ms, SILENCE_MS);
    if (options->arriving_bytes_max < ARRIVING_FRAMES_MIN * options->frame_bytes_max) {
        options->arriving_bytes_max = ARRIVING_FRAMES_MIN * options->frame_bytes_max;
    }
    if (options->connections_max > SLOT_MASK) {
        options->connections_max = SLOT_MASK;
    }
}

static uint64_t tick_ms(const struct lq_front_options *options)
{
    uint64_t shortest = options->handshake_ms < options->ping_ms ? options->handshake_ms : options->ping_ms;
    shortest = options->silence_ms < shortest ? options->silence_ms : shortest;
    shortest = shortest / TICKS_PER_TIME > 0 ? shortest / TICKS_PER_TIME : 1;
    return shortest < TICK_MS ? shortest : TICK_MS;
}

lightq_status lq_front_new(uv_loop_t *loop, const struct lq_front_options *options,
                           const struct lq_front_events *events, void *owner, struct lq_front **out, struct lq_err *err)
{
    struct lq_front *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory");
    }
    front->outlet = (struct lq_outlet){.send = front_send,
                                       .close = front_close_peer,
                                       .queued_to = front_queued_to,
                                       .queued = front_queued,
                                       .address = front_address};
    front->loop = loop;
    front->events = events;
    front->owner = owner;
    take_options(front, options);
    lightq_status status =
        lq_listen(&options->address, "client port", "--listen", BACKLOG, &front->descriptor, &front->port, err);
    if (status != LIGHTQ_OK) {
        free(front);
        return status;
    }
    if (uv_poll_init(loop, &front->listener, front->descriptor) != 0) {
        (void)close(front->descriptor);
        free(front);
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory");
    }
    (void)uv_timer_init(loop, &front->timer);
    front->listener.data = front->timer.data = front;
    front->handles = 2;
    front->accepting = uv_poll_start(&front->listener, UV_READABLE, on_connections) == 0;
    front->ticked_ms = uv_now(loop);
    (void)uv_timer_start(&front->timer, on_tick, tick_ms(&front->options), tick_ms(&front->options));
    *out = front;
    return LIGHTQ_OK;
}

static void on_part_closed(uv_handle_t *handle)
{
    struct lq_front *front = handle->data;
    front->handles--;
    maybe_closed(front);
}

/* The timer is the last to go: it ends the wait for connections. */
static void maybe_closed(struct lq_front *front)
{
    if (!front->closing) {
        return;
    }
    if (front->handles == 1 && !uv_is_closing((uv_handle_t *)&front->timer)) {
        uv_close((uv_handle_t *)&front->timer, on_part_closed);
    }
    if (front->handles > 0) {
        return;
    }
    assert(front->conns == NULL && front->queued == 0 && front->arriving_bytes == 0);
    void (*cb)(void *owner) = front->close_cb;
    void *owner = front->close_owner;
    free(front->slots);
    free(front->free_slots);
    free(front);
    if (cb != NULL) {
        cb(owner);
    }
}

void lq_front_close(struct lq_front *front, void (*cb)(void *owner), void *owner)
{
    struct conn *conn, *next;
    front->close_cb = cb;
    front->close_owner = owner;
    front->closing = true;
    uv_close((uv_handle_t *)&front->listener, on_part_closed);
    (void)close(front->descriptor);
    DL_FOREACH_SAFE(front->conns, conn, next)
    {
        lq_front_leave(conn);
        if (conn->state != CONN_DEAD) {
            lq_front_write(conn);
        }
    }
    reap(front);
    (void)uv_timer_start(&front->timer, on_tick, GOODBYE_MS, 0);
}

uint16_t lq_front_port(const struct lq_front *front)
{
    return front->port;
}

struct lq_outlet *lq_front_outlet(struct lq_front *front)
{
    return &front->outlet;
}

uint64_t lq_front_queued_bytes(const struct lq_front *front)
{
    return front->queued;
}
