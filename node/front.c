/* node/front.c - see front.h. */
#include "node/front.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "client/base/limits.h"
#include "client/base/log.h"
#include "node/listen.h"

#define TURN_MESSAGES_MAX    256                /* taken in before the rest of the loop has its turn */
#define TURN_BYTES_MAX       (4u * 1024 * 1024) /* the same, in bytes */
#define COPY_BYTES_MAX       1024               /* a smaller payload is copied: cheaper than counting references */
#define HANDSHAKE_MS         10000              /* who has not spoken ZMTP by then is closed */
#define PING_MS              5000               /* ZMTP pings of idle connections */
#define PING_TIMEOUT_MS      20000
#define BACKLOG              1024
#define LISTEN_RESUME_EIGHTH 7 /* connections are taken again at seven eighths of connections_max */
#define EIGHTHS              8
#define GOODBYE_MS           100 /* how long closing waits for what was sent last */
#define PEER_ID_BYTES        5   /* libzmq's own routing ids: a zero byte, then four */
#define PARTS_MAX            2   /* frame and payload */
#define MONITOR_EVENT_BYTES  6   /* u16 event, u32 value */
#define ENDPOINT_TEXT_BYTES  (LQ_ENDPOINT_TEXT_BYTES + 8)
#define MONITOR_EVENTS                                                                    \
    (ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | \
     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)

struct lq_front {
    struct lq_outlet outlet;
    uv_loop_t *loop;
    void *context, *socket, *monitor;
    uv_poll_t poll, monitor_poll;
    unsigned handles; /* of the two above that are open */
    int listener;     /* a descriptor of ours for the socket that libzmq accepts from */
    const struct lq_front_events *events;
    void *owner;
    struct lq_counters *counters;
    uint16_t port;
    bool listening;
    unsigned connections, connections_max;
    bool awake;      /* libzmq may have something for us that its descriptor does not tell any more */
    uint64_t queued; /* atomic: payload bytes libzmq has */
    void (*close_cb)(void *owner);
    void *close_owner;
};

/* What keeps a payload alive while libzmq has it. */
struct sent {
    struct lq_slab *slab;
    struct lq_account *account;
    uint64_t *queued;
    uint64_t size;
};

/* What is left to go wrong in libzmq. */
static lightq_status from_zmq(struct lq_err *err, const char *what)
{
    int error = zmq_errno();
    if (error == EMFILE || error == ENFILE) {
        return lq_err_set(err, LIGHTQ_ELIMIT, "%s: no descriptors left: raise the limit (ulimit -n)", what);
    }
    return lq_err_set(err, error == ENOMEM ? LIGHTQ_ENOMEM : LIGHTQ_EINTERNAL, "%s: %s", what, zmq_strerror(error));
}

static bool peer_of(zmq_msg_t *id, lq_peer *peer)
{
    const uint8_t *bytes = zmq_msg_data(id);
    if (zmq_msg_size(id) != PEER_ID_BYTES || bytes[0] != 0) {
        return false;
    }
    memcpy(peer, bytes + 1, sizeof *peer);
    return true;
}

/* ---- in */

static void on_payload_released(struct lq_slab *slab, void *context)
{
    (void)slab;
    zmq_msg_t *message = context;
    (void)zmq_msg_close(message);
    free(message);
}

/* The bytes of @message as a slab, without a copy; @message is empty afterwards. NULL: out of memory. */
static struct lq_slab *payload_of(zmq_msg_t *message)
{
    zmq_msg_t *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return NULL;
    }
    (void)zmq_msg_init(kept);
    (void)zmq_msg_move(kept, message);
    struct lq_slab *slab = lq_slab_wrap(zmq_msg_data(kept), zmq_msg_size(kept), on_payload_released, kept);
    if (slab == NULL) {
        (void)zmq_msg_close(kept);
        free(kept);
    }
    return slab;
}

/* Takes one part. False: there is none. */
static bool receive_part(struct lq_front *front, zmq_msg_t *part)
{
    while (zmq_msg_recv(part, front->socket, ZMQ_DONTWAIT) < 0) {
        if (zmq_errno() != EINTR) {
            return false;
        }
    }
    return true;
}

/* Takes one whole message and hands it on. False: there was none. */
static bool receive_one(struct lq_front *front, uint64_t *bytes)
{
    zmq_msg_t id, part, parts[PARTS_MAX];
    unsigned count = 0;
    (void)zmq_msg_init(&id);
    if (!receive_part(front, &id)) {
        (void)zmq_msg_close(&id);
        return false;
    }
    bool more = zmq_msg_more(&id) != 0;
    while (more) {
        (void)zmq_msg_init(&part);
        if (!receive_part(front, &part)) { /* cannot be: libzmq gives whole messages */
            (void)zmq_msg_close(&part);
            break;
        }
        more = zmq_msg_more(&part) != 0;
        *bytes += zmq_msg_size(&part);
        if (count < PARTS_MAX) {
            (void)zmq_msg_init(&parts[count]);
            (void)zmq_msg_move(&parts[count], &part);
        }
        count++;
        (void)zmq_msg_close(&part);
    }
    struct lq_front_message message = {.malformed = count == 0 || count > PARTS_MAX};
    unsigned held = count < PARTS_MAX ? count : PARTS_MAX;
    bool known = peer_of(&id, &message.peer);
    if (known && held > 0) {
        message.frame = zmq_msg_data(&parts[0]);
        message.frame_size = zmq_msg_size(&parts[0]);
    }
    if (known && held == PARTS_MAX) {
        message.payload = payload_of(&parts[1]);
        known = message.payload != NULL; /* out of memory: as if it had been lost */
    }
    front->counters->frames_in++;
    if (known) {
        front->events->receive(front->owner, &message);
    } else {
        front->counters->frames_bad++; /* a routing id that the client chose itself: never answered */
    }
    lq_slab_unref(message.payload);
    for (unsigned i = 0; i < held; i++) {
        (void)zmq_msg_close(&parts[i]);
    }
    (void)zmq_msg_close(&id);
    return true;
}

bool lq_front_readable(struct lq_front *front)
{
    int events = 0;
    size_t size = sizeof events;
    if (!front->awake) {
        return false;
    }
    /* Each of these questions is a system call or two inside libzmq, hence awake. */
    if (zmq_getsockopt(front->socket, ZMQ_EVENTS, &events, &size) == 0) {
        front->awake = (events & ZMQ_POLLIN) != 0;
    }
    return front->awake;
}

bool lq_front_turn(struct lq_front *front)
{
    uint64_t bytes = 0;
    for (unsigned count = 0; front->awake && count < TURN_MESSAGES_MAX && bytes < TURN_BYTES_MAX; count++) {
        front->awake = receive_one(front, &bytes);
    }
    front->counters->bytes_in += bytes;
    return front->awake;
}

/* ---- out */

/* On any thread: the payload is not needed any more. */
static void on_sent(void *data, void *hint)
{
    (void)data;
    struct sent *sent = hint;
    (void)__atomic_sub_fetch(sent->queued, sent->size, __ATOMIC_RELAXED);
    if (sent->account != NULL) {
        lq_account_give(sent->account, sent->size);
    }
    lq_slab_unref(sent->slab);
    free(sent);
}

/* Makes the payload's part. @sent: what was made for it, or NULL when it was copied. */
static lightq_status make_payload(struct lq_front *front, const struct lq_packet *packet, zmq_msg_t *part,
                                  struct sent **sent)
{
    uint8_t *bytes = packet->payload->bytes + packet->payload_offset;
    *sent = NULL;
    if (packet->payload_size <= COPY_BYTES_MAX) {
        if (zmq_msg_init_size(part, packet->payload_size) != 0) {
            return LIGHTQ_ENOMEM;
        }
        memcpy(zmq_msg_data(part), bytes, packet->payload_size);
        return LIGHTQ_OK;
    }
    struct sent *made = malloc(sizeof *made);
    if (made == NULL || zmq_msg_init_data(part, bytes, packet->payload_size, on_sent, made) != 0) {
        free(made);
        return LIGHTQ_ENOMEM;
    }
    *made = (struct sent){.slab = lq_slab_ref(packet->payload),
                          .account = packet->account,
                          .queued = &front->queued,
                          .size = packet->payload_size};
    (void)__atomic_add_fetch(&front->queued, made->size, __ATOMIC_RELAXED);
    if (made->account != NULL) {
        lq_account_take(made->account, made->size);
    }
    *sent = made;
    return LIGHTQ_OK;
}

/* 0 or libzmq's errno. */
static int send_part(struct lq_front *front, zmq_msg_t *part, int flags)
{
    while (zmq_msg_send(part, front->socket, flags | ZMQ_DONTWAIT) < 0) {
        if (zmq_errno() != EINTR) {
            return zmq_errno();
        }
    }
    return 0;
}

/* Everything that can fail is made before the first part goes: a message begun must be ended. */
static lightq_status front_send(struct lq_outlet *outlet, lq_peer peer, const struct lq_packet *packet)
{
    struct lq_front *front = (struct lq_front *)outlet;
    zmq_msg_t id, frame, payload;
    struct sent *sent = NULL;
    bool has_payload = packet->payload != NULL;
    if (zmq_msg_init_size(&frame, packet->frame_size) != 0) {
        return LIGHTQ_ENOMEM;
    }
    memcpy(zmq_msg_data(&frame), packet->frame, packet->frame_size);
    if (has_payload && make_payload(front, packet, &payload, &sent) != LIGHTQ_OK) {
        (void)zmq_msg_close(&frame);
        return LIGHTQ_ENOMEM;
    }
    (void)zmq_msg_init_size(&id, PEER_ID_BYTES); /* small enough to need no memory */
    uint8_t *bytes = zmq_msg_data(&id);
    bytes[0] = 0;
    memcpy(bytes + 1, &peer, sizeof peer);
    front->awake = true; /* sending takes in what libzmq has to say, and with it the wake-up */
    int error = send_part(front, &id, ZMQ_SNDMORE);
    if (error == 0) {
        /* From here on the connection has been chosen; if it breaks, libzmq drops the rest by itself. */
        (void)send_part(front, &frame, has_payload ? ZMQ_SNDMORE : 0);
        if (has_payload) {
            (void)send_part(front, &payload, 0);
        }
        front->counters->frames_out++;
        front->counters->bytes_out += packet->frame_size + (has_payload ? packet->payload_size : 0);
        return LIGHTQ_OK;
    }
    (void)zmq_msg_close(&id);
    (void)zmq_msg_close(&frame);
    if (has_payload) {
        (void)zmq_msg_close(&payload); /* which calls on_sent */
    }
    return error == EAGAIN ? LIGHTQ_EBUSY : LIGHTQ_ECLOSED;
}

static uint64_t front_queued(struct lq_outlet *outlet)
{
    return lq_front_queued_bytes((struct lq_front *)outlet);
}

/* ---- connections */

static void listen_or_not(struct lq_front *front)
{
    uint64_t few = (uint64_t)front->connections_max * LISTEN_RESUME_EIGHTH / EIGHTHS;
    if (front->listening && front->connections >= front->connections_max) {
        if (lq_listen_pause(front->listener) == LIGHTQ_OK) {
            front->listening = false;
            front->counters->connections_refused++;
            lq_log(WARN, "too many connections: the client port takes no more", "connections", front->connections,
                   "connections.max", front->connections_max);
        }
    } else if (!front->listening && front->connections <= few) {
        if (lq_listen_resume(front->listener) == LIGHTQ_OK) {
            front->listening = true;
            lq_log(INFO, "the client port takes connections again", "connections", front->connections);
        }
    }
}

static void count_event(struct lq_front *front, uint16_t event)
{
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
        front->connections++;
        break;
    case ZMQ_EVENT_DISCONNECTED:
        front->connections -= front->connections > 0;
        break;
    default:
        front->counters->handshakes_bad++;
        break;
    }
    front->counters->connections = front->connections;
}

/* The monitor's descriptor is edge-triggered too: all of it is read, and once before it is waited for at all. */
static void read_monitor(struct lq_front *front)
{
    zmq_msg_t part;
    (void)zmq_msg_init(&part);
    while (zmq_msg_recv(&part, front->monitor, ZMQ_DONTWAIT) >= 0 || zmq_errno() == EINTR) {
        if (zmq_msg_more(&part) && zmq_msg_size(&part) == MONITOR_EVENT_BYTES) {
            uint16_t event;
            memcpy(&event, zmq_msg_data(&part), sizeof event);
            count_event(front, event);
        }
    }
    (void)zmq_msg_close(&part);
    listen_or_not(front);
}

static void on_monitor(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    read_monitor(poll->data);
}

/* lq_front_turn, later in this turn of the loop, does the work. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    ((struct lq_front *)poll->data)->awake = true;
}

/* ---- life */

static bool set_int(struct lq_front *front, int option, int value)
{
    return zmq_setsockopt(front->socket, option, &value, sizeof value) == 0;
}

/* All of it before bind: libzmq takes most of these at that moment. */
static bool set_options(struct lq_front *front, const struct lq_front_options *options)
{
    int64_t frame_bytes_max = (int64_t)options->frame_bytes_max;
    return zmq_setsockopt(front->socket, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof frame_bytes_max) == 0 &&
           set_int(front, ZMQ_LINGER, 0) && set_int(front, ZMQ_ROUTER_MANDATORY, 1) &&
           set_int(front, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) && set_int(front, ZMQ_HEARTBEAT_IVL, PING_MS) &&
           set_int(front, ZMQ_HEARTBEAT_TIMEOUT, PING_TIMEOUT_MS) &&
           set_int(front, ZMQ_RCVHWM, (int)options->queue_in) && set_int(front, ZMQ_SNDHWM, (int)options->queue_out);
}

static lightq_status open_monitor(struct lq_front *front, struct lq_err *err)
{
    static const char address[] = "inproc://lightq-front-monitor"; /* of this context only */
    int unlimited = 0, linger = 0;                                 /* a full monitor would block libzmq's own thread */
    front->monitor = zmq_socket(front->context, ZMQ_PAIR);
    if (front->monitor == NULL || zmq_setsockopt(front->monitor, ZMQ_RCVHWM, &unlimited, sizeof unlimited) != 0 ||
        zmq_setsockopt(front->monitor, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_socket_monitor(front->socket, address, MONITOR_EVENTS) != 0 || zmq_connect(front->monitor, address) != 0) {
        return from_zmq(err, "watch the client port");
    }
    return LIGHTQ_OK;
}

/* The socket is ours, and libzmq accepts from it: so it can be told to take no more. */
static lightq_status bind_port(struct lq_front *front, const struct lq_endpoint *address, struct lq_err *err)
{
    char text[LQ_ENDPOINT_TEXT_BYTES], endpoint[ENDPOINT_TEXT_BYTES];
    int given;
    lightq_status status = lq_listen(address, "client port", "--listen", BACKLOG, &given, &front->port, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_endpoint bound = {.port = front->port};
    (void)snprintf(bound.host, sizeof bound.host, "%s", strchr(address->host, ':') != NULL ? address->host : "*");
    lq_endpoint_format(&bound, text);
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s", text);
    front->listener = dup(given);
    if (front->listener < 0) {
        (void)close(given);
        return lq_err_from_errno(err, errno, "listen at the client port");
    }
    if (!set_int(front, ZMQ_USE_FD, given) || zmq_bind(front->socket, endpoint) != 0) {
        (void)close(given);
        return from_zmq(err, "listen at the client port");
    }
    front->listening = true;
    return LIGHTQ_OK;
}

static int poll_socket(struct lq_front *front, void *socket, uv_poll_t *poll, uv_poll_cb cb)
{
    int descriptor;
    size_t size = sizeof descriptor;
    if (zmq_getsockopt(socket, ZMQ_FD, &descriptor, &size) != 0) {
        return UV_EINVAL;
    }
    int error = uv_poll_init(front->loop, poll, descriptor);
    if (error != 0) {
        return error;
    }
    poll->data = front;
    front->handles++;
    return uv_poll_start(poll, UV_READABLE, cb);
}

/* Everything but what the loop must let go of first. */
static void free_sockets(struct lq_front *front)
{
    if (front->socket != NULL) {
        (void)set_int(front, ZMQ_LINGER, GOODBYE_MS);
        (void)zmq_socket_monitor(front->socket, NULL, 0);
        (void)zmq_close(front->socket);
    }
    if (front->monitor != NULL) {
        (void)zmq_close(front->monitor);
    }
    if (front->listener >= 0) {
        (void)close(front->listener);
    }
    if (front->context != NULL) {
        while (zmq_ctx_term(front->context) != 0 && zmq_errno() == EINTR) {
        }
    }
    assert(__atomic_load_n(&front->queued, __ATOMIC_ACQUIRE) == 0); /* ctx_term has let every message go */
    free(front);
}

static lightq_status open_sockets(struct lq_front *front, const struct lq_front_options *options, struct lq_err *err)
{
    front->context = zmq_ctx_new();
    if (front->context == NULL || (front->socket = zmq_socket(front->context, ZMQ_ROUTER)) == NULL) {
        return from_zmq(err, "make a socket for clients");
    }
    if (!set_options(front, options)) {
        return from_zmq(err, "set up the socket for clients");
    }
    lightq_status status = open_monitor(front, err);
    return status == LIGHTQ_OK ? bind_port(front, &options->address, err) : status;
}

lightq_status lq_front_new(uv_loop_t *loop, const struct lq_front_options *options,
                           const struct lq_front_events *events, void *owner, struct lq_front **out, struct lq_err *err)
{
    struct lq_front *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory");
    }
    front->outlet = (struct lq_outlet){.send = front_send, .queued = front_queued};
    front->listener = -1;
    front->loop = loop;
    front->events = events;
    front->owner = owner;
    front->counters = options->counters;
    front->connections_max = options->connections_max;
    lightq_status status = open_sockets(front, options, err);
    if (status != LIGHTQ_OK) {
        free_sockets(front);
        return status;
    }
    int error = poll_socket(front, front->socket, &front->poll, on_readable);
    if (error == 0) {
        error = poll_socket(front, front->monitor, &front->monitor_poll, on_monitor);
    }
    if (error != 0) { /* cannot be but for want of memory; the handles go with the loop */
        lq_front_close(front, NULL, NULL);
        return lq_err_set(err, LIGHTQ_ENOMEM, "watch the client port: %s", uv_strerror(error));
    }
    read_monitor(front);
    front->awake = true; /* the first look makes the descriptor tell */
    *out = front;
    return LIGHTQ_OK;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct lq_front *front = handle->data;
    if (--front->handles > 0) {
        return;
    }
    void (*cb)(void *owner) = front->close_cb;
    void *owner = front->close_owner;
    free_sockets(front);
    if (cb != NULL) {
        cb(owner);
    }
}

void lq_front_close(struct lq_front *front, void (*cb)(void *owner), void *owner)
{
    front->close_cb = cb;
    front->close_owner = owner;
    if (front->handles == 0) { /* only from lq_front_new, which gives no callback */
        free_sockets(front);
        return;
    }
    if (front->poll.data != NULL) {
        uv_close((uv_handle_t *)&front->poll, on_handle_closed);
    }
    if (front->monitor_poll.data != NULL) {
        uv_close((uv_handle_t *)&front->monitor_poll, on_handle_closed);
    }
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
    return __atomic_load_n(&front->queued, __ATOMIC_RELAXED);
}
