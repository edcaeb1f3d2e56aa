/* node/session.c - see session.h. */
#include "node/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/base/log.h"
#include "node/version.h"

#define FRAME_BYTES_MAX  (LQ_ENVELOPE_BYTES + LQ_CLIENT_BODY_BYTES_MAX)
#define HEARTBEATS       3  /* in one session.timeout.ms, so that one or two may be lost */
#define SIGNS_OF_LIFE    4  /* the same, from the node to a client that hears nothing else */
#define RETRIES_PER_TURN 64 /* blocked sessions looked at in one turn */
#define NOT_READY_BYTES  LQ_ERR_TEXT_BYTES
#define MICROS_PER_MILLI 1000

struct lq_waiting_answer {
    struct lq_waiting_answer *next;
    size_t size;
    uint8_t bytes[];
};

struct lq_sessions {
    const struct lq_options *options;
    struct lq_outlet *outlet;
    struct lq_clock *clock;
    struct lq_counters *counters;
    const struct lq_sessions_events *events;
    void *owner;
    struct lq_session *by_peer, *by_number;
    struct lq_session *open; /* all, the longest silent first */
    struct lq_session *blocked;
    size_t open_count, blocked_count;
    uint64_t waiting_bytes; /* answers of all sessions */
    uint64_t last_number;
    uint64_t ticked_us;
    bool serving;
    struct lq_id cluster;
    char not_ready[NOT_READY_BYTES];
    struct lq_writer frame; /* used again for every answer */
};

static void block(struct lq_sessions *sessions, struct lq_session *session)
{
    if (!session->blocked) {
        session->blocked = true;
        sessions->blocked_count++;
        DL_APPEND2(sessions->blocked, session, blocked_prev, blocked_next);
    }
}

static void unblock(struct lq_sessions *sessions, struct lq_session *session)
{
    if (session->blocked) {
        session->blocked = false;
        sessions->blocked_count--;
        DL_DELETE2(sessions->blocked, session, blocked_prev, blocked_next);
    }
}

static void drop_waiting(struct lq_sessions *sessions, struct lq_session *session)
{
    sessions->waiting_bytes -= session->waiting_bytes;
    while (session->waiting != NULL) {
        struct lq_waiting_answer *answer = session->waiting;
        session->waiting = answer->next;
        free(answer);
    }
    session->waiting_end = &session->waiting;
    session->waiting_bytes = 0;
}

/* It ends, and is no more. */
static void end(struct lq_sessions *sessions, struct lq_session *session)
{
    sessions->events->ended(sessions->owner, session);
    unblock(sessions, session);
    drop_waiting(sessions, session);
    HASH_DELETE(by_number, sessions->by_number, session);
    HASH_DELETE(by_peer, sessions->by_peer, session);
    DL_DELETE(sessions->open, session);
    sessions->open_count--;
    sessions->counters->sessions = sessions->open_count;
    free(session);
}

static struct lq_session *find_peer(struct lq_sessions *sessions, lq_peer peer)
{
    struct lq_session *session;
    HASH_FIND(by_peer, sessions->by_peer, &peer, sizeof peer, session);
    return session;
}

/* Makes the session of @peer. NULL: no memory, or too many. */
static struct lq_session *open_session(struct lq_sessions *sessions, lq_peer peer)
{
    struct lq_session *session = find_peer(sessions, peer);
    if (session != NULL) {
        end(sessions, session);
    }
    if (sessions->open_count >= sessions->options->sessions_max || (session = calloc(1, sizeof *session)) == NULL) {
        return NULL;
    }
    session->peer = peer;
    session->number = ++sessions->last_number;
    session->waiting_end = &session->waiting;
    session->heard_us = session->told_us = lq_clock_monotonic_us(sessions->clock);
    HASH_ADD(by_peer, sessions->by_peer, peer, sizeof session->peer, session);
    if (session->by_peer.tbl != NULL) {
        HASH_ADD(by_number, sessions->by_number, number, sizeof session->number, session);
        if (session->by_number.tbl == NULL) {
            HASH_DELETE(by_peer, sessions->by_peer, session);
        }
    }
    if (session->by_peer.tbl == NULL || session->by_number.tbl == NULL) {
        free(session);
        return NULL;
    }
    DL_APPEND(sessions->open, session);
    sessions->open_count++;
    sessions->counters->sessions = sessions->open_count;
    sessions->counters->sessions_opened++;
    return session;
}

/* ---- sending */

/* The frame of @message in sessions->frame. */
static lightq_status pack(struct lq_sessions *sessions, uint16_t type, uint16_t flags, uint64_t correlation,
                          uint64_t group, const ProtobufCMessage *message)
{
    struct lq_envelope envelope = {.type = type, .flags = flags, .correlation = correlation, .group = group};
    sessions->frame.size = 0;
    sessions->frame.status = LIGHTQ_OK;
    return lq_codec_frame(&envelope, message, &sessions->frame);
}

void lq_sessions_tell(struct lq_sessions *sessions, lq_peer peer, uint16_t type, uint64_t correlation,
                      const ProtobufCMessage *message)
{
    if (pack(sessions, type, 0, correlation, 0, message) == LIGHTQ_OK) {
        struct lq_packet packet = {.frame = sessions->frame.bytes, .frame_size = sessions->frame.size};
        (void)sessions->outlet->send(sessions->outlet, peer, &packet); /* who takes no answers does without this one */
    }
}

static void tell_error(struct lq_sessions *sessions, lq_peer peer, uint64_t correlation, lightq_status status,
                       const char *text)
{
    Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
    error.status = (uint32_t)status;
    error.text = lq_codec_string(text);
    lq_sessions_tell(sessions, peer, LQ_MESSAGE_ERROR, correlation, &error.base);
}

/* It does not take what it is sent, or is not there any more. */
static void lose(struct lq_sessions *sessions, struct lq_session *session)
{
    session->lost = true;
    unblock(sessions, session);
    drop_waiting(sessions, session);
    sessions->outlet->close(sessions->outlet, session->peer, LQ_CLOSE_NOW);
}

/* The frame in sessions->frame waits. */
static void queue_answer(struct lq_sessions *sessions, struct lq_session *session)
{
    size_t size = sessions->frame.size;
    struct lq_waiting_answer *answer = NULL;
    if (session->waiting_bytes + size <= sessions->options->session_bytes_max &&
        sessions->waiting_bytes + size <= sessions->options->memory.waiting) {
        answer = malloc(sizeof *answer + size);
    }
    if (answer == NULL) {
        lq_log(WARN, "a client does not take its answers: its connection is closed", "session", session->number,
               "waiting_bytes", session->waiting_bytes);
        sessions->counters->sessions_dropped++;
        lose(sessions, session);
        return;
    }
    answer->next = NULL;
    answer->size = size;
    memcpy(answer->bytes, sessions->frame.bytes, size);
    *session->waiting_end = answer;
    session->waiting_end = &answer->next;
    session->waiting_bytes += size;
    sessions->waiting_bytes += size;
    block(sessions, session);
}

void lq_session_answer(struct lq_sessions *sessions, struct lq_session *session, uint16_t type, uint64_t correlation,
                       uint64_t group, const ProtobufCMessage *message)
{
    if (session->lost) {
        return;
    }
    lightq_status status = pack(sessions, type, 0, correlation, group, message);
    if (status != LIGHTQ_OK) {
        if (type != LQ_MESSAGE_ERROR) {
            lq_session_error(sessions, session, correlation, status, "the answer does not fit into one frame");
        }
        return;
    }
    if (session->waiting != NULL) {
        queue_answer(sessions, session);
        return;
    }
    struct lq_packet packet = {.frame = sessions->frame.bytes, .frame_size = sessions->frame.size};
    switch (sessions->outlet->send(sessions->outlet, session->peer, &packet)) {
    case LIGHTQ_OK:
        session->told_us = lq_clock_monotonic_us(sessions->clock);
        return;
    case LIGHTQ_EBUSY:
    case LIGHTQ_ENOMEM:
        queue_answer(sessions, session);
        return;
    default:
        lose(sessions, session);
    }
}

void lq_session_error(struct lq_sessions *sessions, struct lq_session *session, uint64_t correlation,
                      lightq_status status, const char *text)
{
    Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
    error.status = (uint32_t)status;
    error.text = lq_codec_string(text);
    lq_session_answer(sessions, session, LQ_MESSAGE_ERROR, correlation, 0, &error.base);
}

/* Whether what is on its way to it, or to all clients, is as much as may be. */
static bool is_choked(const struct lq_sessions *sessions, const struct lq_session *session)
{
    uint64_t own = sessions->outlet->queued_to(sessions->outlet, session->peer);
    uint64_t all = sessions->outlet->queued(sessions->outlet), most = sessions->options->memory.answers;
    /* Who has taken everything gets one more, of as much again, until those that take nothing are closed. */
    return own >= sessions->options->session_bytes_max || all >= (own > 0 ? most : most * 2);
}

bool lq_session_takes(struct lq_sessions *sessions, struct lq_session *session)
{
    if (session->lost) {
        return false;
    }
    if (session->blocked || is_choked(sessions, session)) {
        block(sessions, session);
        return false;
    }
    return true;
}

lightq_status lq_session_deliver(struct lq_sessions *sessions, struct lq_session *session,
                                 const Lightq__Wire__Deliver *deliver, uint64_t group, struct lq_slab *slab,
                                 uint32_t offset, uint32_t size)
{
    if (!lq_session_takes(sessions, session)) {
        return LIGHTQ_EBUSY;
    }
    lightq_status status = pack(sessions, LQ_MESSAGE_DELIVER, LQ_ENVELOPE_FLAG_PAYLOAD, 0, group, &deliver->base);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_packet packet = {.frame = sessions->frame.bytes,
                               .frame_size = sessions->frame.size,
                               .payload = slab,
                               .payload_offset = offset,
                               .payload_size = size};
    status = sessions->outlet->send(sessions->outlet, session->peer, &packet);
    if (status == LIGHTQ_OK) {
        session->told_us = lq_clock_monotonic_us(sessions->clock);
        return LIGHTQ_OK;
    }
    if (status == LIGHTQ_ECLOSED) {
        lose(sessions, session);
    } else {
        block(sessions, session);
    }
    return LIGHTQ_EBUSY;
}

void lq_session_address(struct lq_sessions *sessions, const struct lq_session *session, struct lq_address_text *text)
{
    text->text[0] = '\0';
    if (sessions->outlet->address != NULL) {
        sessions->outlet->address(sessions->outlet, session->peer, text);
    }
}

/* ---- the life of a session */

lightq_status lq_sessions_new(const struct lq_options *options, struct lq_outlet *outlet, struct lq_clock *clock,
                              struct lq_counters *counters, const struct lq_sessions_events *events, void *owner,
                              struct lq_sessions **out)
{
    struct lq_sessions *sessions = calloc(1, sizeof *sessions);
    if (sessions == NULL) {
        return LIGHTQ_ENOMEM;
    }
    *sessions = (struct lq_sessions){
        .options = options, .outlet = outlet, .clock = clock, .counters = counters, .events = events, .owner = owner};
    /* Numbers of an earlier start must not come again: a late request of its would mean another session. */
    sessions->last_number = lq_clock_random_u64(clock) >> 2;
    lq_writer_init(&sessions->frame, FRAME_BYTES_MAX);
    sessions->ticked_us = lq_clock_monotonic_us(clock);
    lq_sessions_refuse(sessions, "the node is starting");
    *out = sessions;
    return LIGHTQ_OK;
}

void lq_sessions_free(struct lq_sessions *sessions)
{
    while (sessions->open != NULL) {
        end(sessions, sessions->open);
    }
    lq_writer_deinit(&sessions->frame);
    free(sessions);
}

void lq_sessions_serve(struct lq_sessions *sessions, const struct lq_id *cluster)
{
    sessions->serving = true;
    sessions->cluster = *cluster;
}

void lq_sessions_refuse(struct lq_sessions *sessions, const char *why)
{
    sessions->serving = false;
    (void)snprintf(sessions->not_ready, sizeof sessions->not_ready, "%s", why);
}

struct lq_session *lq_sessions_heard(struct lq_sessions *sessions, lq_peer peer)
{
    struct lq_session *session = find_peer(sessions, peer);
    if (session == NULL) {
        return NULL;
    }
    session->heard_us = lq_clock_monotonic_us(sessions->clock);
    if (session->next != NULL) { /* not the last already */
        DL_DELETE(sessions->open, session);
        DL_APPEND(sessions->open, session);
    }
    return session;
}

struct lq_session *lq_sessions_find(const struct lq_sessions *sessions, uint64_t number)
{
    struct lq_session *session;
    HASH_FIND(by_number, sessions->by_number, &number, sizeof number, session);
    return session;
}

/* Whether @hello can be accepted; fills what the answer says when not. */
static lightq_status hello_check(const struct lq_sessions *sessions, const Lightq__Wire__Hello *hello,
                                 const char **text)
{
    struct lq_id cluster;
    if (!sessions->serving) {
        *text = sessions->not_ready;
        return LIGHTQ_ENOTREADY;
    }
    if (hello->version_min > LQ_PROTOCOL_VERSION_MAX || hello->version_max < LQ_PROTOCOL_VERSION_MIN ||
        hello->version_min > hello->version_max) {
        *text = "this node speaks version 1 of the protocol: use a client library of about its age";
        return LIGHTQ_EVERSION;
    }
    if (hello->cluster.len == 0) {
        return LIGHTQ_OK;
    }
    if (lq_codec_id(&hello->cluster, &cluster) != LIGHTQ_OK || !lq_id_equal(&cluster, &sessions->cluster)) {
        *text = "this node belongs to another cluster than the client expects: correct the list of servers";
        return LIGHTQ_EIDENTITY;
    }
    return LIGHTQ_OK;
}

void lq_sessions_hello(struct lq_sessions *sessions, lq_peer peer, uint64_t correlation,
                       const Lightq__Wire__Hello *hello)
{
    const struct lq_options *options = sessions->options;
    const char *text = "";
    struct lq_session *session = NULL;
    lightq_status status = hello_check(sessions, hello, &text);
    if (status == LIGHTQ_OK) {
        session = open_session(sessions, peer);
        if (session == NULL) {
            status = LIGHTQ_ELIMIT;
            text = "this node has as many clients as it may have (sessions.max)";
        } else {
            (void)snprintf(session->client_id, sizeof session->client_id, "%s", hello->client_id);
        }
    }
    Lightq__Wire__HelloAnswer answer = LIGHTQ__WIRE__HELLO_ANSWER__INIT;
    answer.status = (uint32_t)status;
    answer.text = lq_codec_string(text);
    answer.version = LQ_PROTOCOL_VERSION_MAX < hello->version_max ? LQ_PROTOCOL_VERSION_MAX : hello->version_max;
    answer.cluster = lq_codec_bytes_of(&sessions->cluster);
    answer.node = (uint32_t)options->node_id;
    answer.session = session == NULL ? 0 : session->number;
    answer.heartbeat_ms = (uint32_t)(options->session_timeout_ms / HEARTBEATS);
    answer.message_bytes_max = options->max_message_bytes;
    answer.batch_bytes_max = lq_options_batch_bytes_max(options);
    answer.inflight_batches_max = LQ_INFLIGHT_BATCHES_MAX;
    answer.version_text = lq_codec_string(LQ_VERSION_TEXT);
    if (session != NULL) {
        lq_session_answer(sessions, session, LQ_MESSAGE_HELLO_ANSWER, correlation, 0, &answer.base);
    } else {
        sessions->counters->sessions_refused++;
        lq_sessions_tell(sessions, peer, LQ_MESSAGE_HELLO_ANSWER, correlation, &answer.base);
    }
}

void lq_sessions_bye(struct lq_sessions *sessions, struct lq_session *session)
{
    session->said_bye = true;
    end(sessions, session);
}

void lq_sessions_closed(struct lq_sessions *sessions, lq_peer peer)
{
    struct lq_session *session = find_peer(sessions, peer);
    if (session != NULL) {
        end(sessions, session);
    }
}

void lq_sessions_break_off(struct lq_sessions *sessions, lq_peer peer, uint64_t correlation, lightq_status status,
                           const char *text)
{
    lq_sessions_closed(sessions, peer);
    tell_error(sessions, peer, correlation, status, text);
    sessions->outlet->close(sessions->outlet, peer, LQ_CLOSE_WRITTEN);
}

/* ---- time */

/* Sends what waits. False: the session is blocked still, or was lost. */
static bool retry(struct lq_sessions *sessions, struct lq_session *session)
{
    while (session->waiting != NULL) {
        struct lq_waiting_answer *answer = session->waiting;
        struct lq_packet packet = {.frame = answer->bytes, .frame_size = answer->size};
        lightq_status status = sessions->outlet->send(sessions->outlet, session->peer, &packet);
        if (status == LIGHTQ_EBUSY || status == LIGHTQ_ENOMEM) {
            return false;
        }
        if (status != LIGHTQ_OK) {
            lose(sessions, session);
            return false;
        }
        session->waiting = answer->next;
        session->waiting_end = session->waiting == NULL ? &session->waiting : session->waiting_end;
        session->waiting_bytes -= answer->size;
        sessions->waiting_bytes -= answer->size;
        free(answer);
    }
    return !is_choked(sessions, session);
}

bool lq_sessions_turn(struct lq_sessions *sessions)
{
    size_t count = sessions->blocked_count < RETRIES_PER_TURN ? sessions->blocked_count : RETRIES_PER_TURN;
    for (; count > 0 && sessions->blocked != NULL; count--) {
        struct lq_session *session = sessions->blocked;
        unblock(sessions, session);
        if (retry(sessions, session)) {
            sessions->events->unblocked(sessions->owner, session);
        } else if (!session->lost) {
            block(sessions, session); /* at the end of the list: each has its turn */
        }
    }
    return sessions->blocked != NULL;
}

/* Its time is over. */
static void expire(struct lq_sessions *sessions, struct lq_session *session)
{
    lq_peer peer = session->peer;
    sessions->counters->sessions_expired++;
    end(sessions, session);
    Lightq__Wire__Bye bye = LIGHTQ__WIRE__BYE__INIT;
    bye.status = LIGHTQ_ETIMEDOUT;
    bye.text = lq_codec_string("the client was silent for too long");
    lq_sessions_tell(sessions, peer, LQ_MESSAGE_BYE, 0, &bye.base);
    sessions->outlet->close(sessions->outlet, peer, LQ_CLOSE_WRITTEN);
}

void lq_sessions_tick(struct lq_sessions *sessions)
{
    uint64_t now_us = lq_clock_monotonic_us(sessions->clock);
    uint64_t timeout_us = sessions->options->session_timeout_ms * MICROS_PER_MILLI;
    uint64_t late_us = now_us - sessions->ticked_us;
    struct lq_session *session, *next;
    sessions->ticked_us = now_us;
    if (late_us > timeout_us / HEARTBEATS) { /* the process was stopped, and has heard nobody */
        DL_FOREACH(sessions->open, session)
        {
            session->heard_us += late_us;
        }
    }
    while (sessions->open != NULL && now_us > sessions->open->heard_us + timeout_us) {
        expire(sessions, sessions->open);
    }
    DL_FOREACH_SAFE(sessions->open, session, next)
    {
        if (now_us - session->told_us > timeout_us / SIGNS_OF_LIFE) {
            Lightq__Wire__Heartbeat sign = LIGHTQ__WIRE__HEARTBEAT__INIT;
            sign.session = session->number;
            session->told_us = now_us;
            lq_sessions_tell(sessions, session->peer, LQ_MESSAGE_HEARTBEAT, 0, &sign.base);
        }
    }
}

void lq_sessions_farewell(struct lq_sessions *sessions, lightq_status status, const char *text)
{
    Lightq__Wire__Bye bye = LIGHTQ__WIRE__BYE__INIT;
    bye.status = (uint32_t)status;
    bye.text = lq_codec_string(text);
    lq_sessions_refuse(sessions, text);
    while (sessions->open != NULL) {
        lq_sessions_tell(sessions, sessions->open->peer, LQ_MESSAGE_BYE, 0, &bye.base);
        lq_sessions_bye(sessions, sessions->open);
    }
}

size_t lq_sessions_count(const struct lq_sessions *sessions)
{
    return sessions->open_count;
}
