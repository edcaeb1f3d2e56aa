/* client/lib/conn_message.c - what goes over a connection: requests and their answers, heartbeats, deliveries. Takes
 * frames apart (client/wire) and hands them to who waits for them. See conn.h. I/O thread only. */
#include "client/lib/conn_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/meta.h"

#define US_PER_MS     1000u
#define PROBLEM_BYTES 1024 /* an address, and a sentence of the other side */

/* What every answer's struct begins with; checked below for one and true for all by lightq.proto's rule. */
struct answer_head {
    ProtobufCMessage base;
    uint32_t status;
    char *text;
};
_Static_assert(offsetof(struct answer_head, status) == offsetof(Lightq__Wire__ProduceAnswer, status) &&
                   offsetof(struct answer_head, text) == offsetof(Lightq__Wire__ProduceAnswer, text),
               "answers begin with status and text");

/* ---- sending */

/* Sends the frame put together in io->frame, and @payload. It goes out at the end of the turn. */
static lightq_status send_frames(struct lq_conn *conn, struct lq_slab *payload)
{
    struct lq_writer *frame = &conn->io->frame;
    if (!lq_link_is_open(&conn->link)) {
        return LIGHTQ_ECONNECT;
    }
    conn->sent_us = conn->io->now_us;
    return lq_link_send(&conn->link, frame->bytes, frame->size, payload);
}

static lightq_status put_together(struct lq_conn *conn, uint16_t type, uint64_t group, uint64_t correlation,
                                  const ProtobufCMessage *body, bool payload)
{
    struct lq_envelope envelope = {
        .type = type,
        .flags = payload ? LQ_ENVELOPE_FLAG_PAYLOAD : 0,
        .correlation = correlation,
        .group = group,
    };
    struct lq_writer *frame = &conn->io->frame;
    frame->size = 0;
    frame->status = LIGHTQ_OK;
    return lq_codec_frame(&envelope, body, frame);
}

/* Whatever the state: HELLO goes before READY. */
static lightq_status ask(struct lq_conn *conn, struct lq_request *request, uint16_t type, uint64_t group,
                         const ProtobufCMessage *body, struct lq_slab *payload, uint64_t timeout_us)
{
    struct lq_io *io = conn->io;
    request->correlation = ++io->next_correlation;
    request->type = type;
    lightq_status status = put_together(conn, type, group, request->correlation, body, payload != NULL);
    if (status != LIGHTQ_OK) {
        return status;
    }
    HASH_ADD(hh, conn->requests, correlation, sizeof request->correlation, request);
    if (request->hh.tbl == NULL) {
        return LIGHTQ_ENOMEM;
    }
    request->conn = conn;
    request->sent_us = io->now_us;
    request->deadline_us = io->now_us + timeout_us;
    status = send_frames(conn, payload);
    if (status != LIGHTQ_OK) {
        lq_request_cancel(request);
    }
    return status;
}

lightq_status lq_conn_request(struct lq_conn *conn, struct lq_request *request, uint16_t type, uint64_t group,
                              const ProtobufCMessage *body, struct lq_slab *payload, uint64_t timeout_us)
{
    if (conn->state != LQ_CONN_READY) {
        return LIGHTQ_ECONNECT;
    }
    return ask(conn, request, type, group, body, payload, timeout_us);
}

void lq_request_cancel(struct lq_request *request)
{
    if (request->conn != NULL) {
        HASH_DEL(request->conn->requests, request);
        request->conn = NULL;
    }
}

void lq_conn_push(struct lq_conn *conn, uint16_t type, uint64_t group, const ProtobufCMessage *body)
{
    if (conn->state == LQ_CONN_READY && put_together(conn, type, group, 0, body, false) == LIGHTQ_OK) {
        (void)send_frames(conn, NULL); /* a lost connection tells itself */
    }
}

void lq_stream_open(struct lq_conn *conn, struct lq_stream *stream)
{
    HASH_ADD(hh, conn->streams, id, sizeof stream->id, stream);
    stream->conn = stream->hh.tbl != NULL ? conn : NULL;
}

void lq_stream_close(struct lq_stream *stream)
{
    if (stream->conn != NULL) {
        HASH_DEL(stream->conn->streams, stream);
        stream->conn = NULL;
    }
}

/* ---- greeting and heartbeats */

/* Numbers of this version only; one of a newer server is an error that we cannot name. */
static lightq_status status_of(uint32_t number)
{
    switch (number) {
#define X(name, value, retriable, text) case (value):
        LIGHTQ_STATUS_TABLE(X)
#undef X
        return (lightq_status)number;
    default:
        return LIGHTQ_EINTERNAL;
    }
}

static void lower(atomic_uint_least64_t *limit, uint64_t value)
{
    if (value > 0 && value < atomic_load(limit)) {
        atomic_store(limit, value);
    }
}

static void on_greeted(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_conn *conn = lq_container(request, struct lq_conn, hello);
    const Lightq__Wire__HelloAnswer *answer = reply->body;
    struct lq_io *io = conn->io;
    struct lq_id cluster;
    if (!reply->answered) {
        if (conn->state == LQ_CONN_CONNECTING) {
            lq_conn_lose(conn, reply->status, reply->text);
        }
        return;
    }
    if (reply->status != LIGHTQ_OK || answer == NULL) {
        lq_conn_refuse(conn, reply->status != LIGHTQ_OK ? reply->status : LIGHTQ_EPROTO, reply->text);
        return;
    }
    if (answer->version < LQ_PROTOCOL_VERSION_MIN || answer->version > LQ_PROTOCOL_VERSION_MAX) {
        lq_conn_refuse(conn, LIGHTQ_EVERSION, "it speaks a protocol version that was not offered");
        return;
    }
    if (lq_codec_id(&answer->cluster, &cluster) != LIGHTQ_OK || lq_id_is_zero(&cluster)) {
        lq_conn_refuse(conn, LIGHTQ_EPROTO, "it does not say which cluster it is of");
        return;
    }
    if (!lq_id_is_zero(&io->cluster) && !lq_id_equal(&io->cluster, &cluster)) {
        lq_conn_refuse(conn, LIGHTQ_EIDENTITY, "it is of another cluster");
        return;
    }
    io->cluster = cluster;
    conn->node = answer->node;
    conn->session = answer->session;
    conn->session_silence_us = answer->heartbeat_ms > 0 ? answer->heartbeat_ms * (uint64_t)US_PER_MS : UINT64_MAX;
    lower(&io->message_bytes_max, answer->message_bytes_max);
    lower(&io->batch_bytes_max, answer->batch_bytes_max);
    lq_conn_ready(conn);
}

void lq_conn_hello(struct lq_conn *conn)
{
    struct lq_io *io = conn->io;
    char agent[64];
    Lightq__Wire__Hello hello = LIGHTQ__WIRE__HELLO__INIT;
    snprintf(agent, sizeof agent, "liblightq/%s", lightq_version());
    hello.version_min = LQ_PROTOCOL_VERSION_MIN;
    hello.version_max = LQ_PROTOCOL_VERSION_MAX;
    hello.user_agent = agent;
    hello.client_id = lq_codec_string(io->options.client_id);
    hello.user = lq_codec_string(io->options.username != NULL ? io->options.username : "");
    hello.password = lq_codec_string(io->options.password != NULL ? io->options.password : "");
    if (!lq_id_is_zero(&io->cluster)) {
        hello.cluster = lq_codec_bytes_of(&io->cluster);
    }
    conn->hello.done = on_greeted;
    lightq_status status =
        ask(conn, &conn->hello, LQ_MESSAGE_HELLO, 0, &hello.base, NULL, io->options.request_timeout_ms * US_PER_MS);
    if (status != LIGHTQ_OK) {
        lq_conn_lose(conn, status, "cannot send HELLO");
    }
}

static void on_heartbeat(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_conn *conn = lq_container(request, struct lq_conn, heartbeat);
    char text[PROBLEM_BYTES];
    if (conn->state != LQ_CONN_READY || reply->status == LIGHTQ_OK) {
        return;
    }
    if (reply->answered) {
        snprintf(text, sizeof text, "%s does not know our session any more", conn->address);
    } else {
        snprintf(text, sizeof text, "%s has been silent for %llu ms", conn->address,
                 (unsigned long long)conn->io->options.heartbeat_timeout_ms);
    }
    lq_conn_lose(conn, LIGHTQ_ECONNECT, text);
}

void lq_conn_heartbeat(struct lq_conn *conn)
{
    Lightq__Wire__Heartbeat heartbeat = LIGHTQ__WIRE__HEARTBEAT__INIT;
    heartbeat.session = conn->session;
    conn->heartbeat.done = on_heartbeat;
    lightq_status status = lq_conn_request(conn, &conn->heartbeat, LQ_MESSAGE_HEARTBEAT, 0, &heartbeat.base, NULL,
                                           conn->io->options.heartbeat_timeout_ms * US_PER_MS);
    (void)status; /* not sent: it is tried again at the next tick */
}

/* ---- receiving */

/* The other side sent what is not the protocol: nothing of it can be trusted. */
static void spoiled(struct lq_conn *conn, const struct lq_err *err)
{
    char text[PROBLEM_BYTES];
    snprintf(text, sizeof text, "%s: %s", conn->address, err->text);
    lq_conn_lose(conn, err->status == LIGHTQ_EVERSION ? LIGHTQ_EVERSION : LIGHTQ_EPROTO, text);
}

static void take_error(struct lq_conn *conn, struct lq_request *request, const Lightq__Wire__Error *error)
{
    if (request == NULL) {
        char text[PROBLEM_BYTES];
        snprintf(text, sizeof text, "%s: %s", conn->address, error->text);
        lq_conn_lose(conn, status_of(error->status), text);
        return;
    }
    lightq_status status = status_of(error->status);
    request->done(request, &(struct lq_reply){
                               .status = status != LIGHTQ_OK ? status : LIGHTQ_EPROTO,
                               .answered = true,
                               .text = error->text,
                               .leader = error->leader,
                           });
}

/* Who the answer says leads, or is the controller. */
static const Lightq__Wire__Leader *leader_in(uint16_t type, const void *body)
{
    switch (type) {
    case LQ_MESSAGE_PRODUCE_ANSWER:
        return ((const Lightq__Wire__ProduceAnswer *)body)->leader;
    case LQ_MESSAGE_SUBSCRIBE_ANSWER:
        return ((const Lightq__Wire__SubscribeAnswer *)body)->leader;
    case LQ_MESSAGE_OFFSETS_ANSWER:
        return ((const Lightq__Wire__OffsetsAnswer *)body)->leader;
    case LQ_MESSAGE_SETTLE_ANSWER:
        return ((const Lightq__Wire__SettleAnswer *)body)->leader;
    case LQ_MESSAGE_COMMIT_ANSWER:
        return ((const Lightq__Wire__CommitAnswer *)body)->leader;
    case LQ_MESSAGE_GROUP_CREATE_ANSWER:
        return ((const Lightq__Wire__GroupCreateAnswer *)body)->leader;
    case LQ_MESSAGE_GROUP_DELETE_ANSWER:
        return ((const Lightq__Wire__GroupDeleteAnswer *)body)->leader;
    case LQ_MESSAGE_GROUP_ALTER_ANSWER:
        return ((const Lightq__Wire__GroupAlterAnswer *)body)->leader;
    case LQ_MESSAGE_GROUP_SEEK_ANSWER:
        return ((const Lightq__Wire__GroupSeekAnswer *)body)->leader;
    case LQ_MESSAGE_GROUP_LIST_ANSWER:
        return ((const Lightq__Wire__GroupListAnswer *)body)->leader;
    case LQ_MESSAGE_GROUP_DESCRIBE_ANSWER:
        return ((const Lightq__Wire__GroupDescribeAnswer *)body)->leader;
    case LQ_MESSAGE_PARTITION_TRANSFER_ANSWER:
        return ((const Lightq__Wire__PartitionTransferAnswer *)body)->leader;
    case LQ_MESSAGE_TOPIC_CREATE_ANSWER:
        return ((const Lightq__Wire__TopicCreateAnswer *)body)->controller;
    case LQ_MESSAGE_TOPIC_DELETE_ANSWER:
        return ((const Lightq__Wire__TopicDeleteAnswer *)body)->controller;
    case LQ_MESSAGE_NODE_REPLACE_ANSWER:
        return ((const Lightq__Wire__NodeReplaceAnswer *)body)->controller;
    default:
        return NULL;
    }
}

/* Returns what of @body is still to be freed. */
static void *take_answer(struct lq_conn *conn, const struct lq_envelope *envelope, void *body)
{
    struct lq_request *request;
    HASH_FIND(hh, conn->requests, &envelope->correlation, sizeof envelope->correlation, request);
    if (request == NULL && envelope->correlation != 0) {
        return body; /* canceled or timed out */
    }
    if (request != NULL) {
        if (envelope->type != LQ_MESSAGE_ERROR && envelope->type != request->type + 1) {
            struct lq_err err;
            lq_err_set(&err, LIGHTQ_EPROTO, "%s came as the answer to %s", lq_message_name(envelope->type),
                       lq_message_name(request->type));
            spoiled(conn, &err);
            return body;
        }
        lq_request_cancel(request);
    }
    if (envelope->type == LQ_MESSAGE_ERROR) {
        take_error(conn, request, body);
        return body;
    }
    if (request == NULL) {
        return body;
    }
    const struct answer_head *head = body;
    struct lq_reply reply = {
        .status = status_of(head->status),
        .answered = true,
        .text = head->text,
        .leader = leader_in(envelope->type, body),
        .body = body,
    };
    request->done(request, &reply);
    return reply.body;
}

static void take_pushed(struct lq_conn *conn, const struct lq_envelope *envelope, void *body, struct lq_slab *payload)
{
    struct lq_stream *stream = NULL;
    switch (envelope->type) {
    case LQ_MESSAGE_DELIVER: {
        const Lightq__Wire__Deliver *deliver = body;
        HASH_FIND(hh, conn->streams, &deliver->subscription, sizeof deliver->subscription, stream);
        if (stream != NULL && payload != NULL) { /* otherwise it was closed meanwhile, or is no delivery */
            stream->on_deliver(stream, deliver, payload);
        }
        break;
    }
    case LQ_MESSAGE_SUBSCRIPTION_ENDED: {
        const Lightq__Wire__SubscriptionEnded *ended = body;
        HASH_FIND(hh, conn->streams, &ended->subscription, sizeof ended->subscription, stream);
        if (stream != NULL) {
            lq_stream_close(stream);
            stream->on_ended(stream, ended);
        }
        break;
    }
    case LQ_MESSAGE_HEARTBEAT: {
        Lightq__Wire__HeartbeatAnswer answer = LIGHTQ__WIRE__HEARTBEAT_ANSWER__INIT;
        if (put_together(conn, LQ_MESSAGE_HEARTBEAT_ANSWER, 0, envelope->correlation, &answer.base, false) ==
            LIGHTQ_OK) {
            (void)send_frames(conn, NULL);
        }
        break;
    }
    case LQ_MESSAGE_BYE: {
        char text[PROBLEM_BYTES];
        snprintf(text, sizeof text, "%s says good-bye: %s", conn->address, ((const Lightq__Wire__Bye *)body)->text);
        lq_conn_lose(conn, LIGHTQ_ECONNECT, text);
        break;
    }
    default:
        break; /* a request makes no sense to a client */
    }
}

static void take_message(struct lq_conn *conn, const struct lq_link_message *message)
{
    struct lq_err err;
    struct lq_envelope envelope;
    const uint8_t *bytes;
    void *body = NULL;
    lightq_status status = lq_frame_decode(message->frame, message->frame_size, &envelope, &bytes, &err);
    if (status == LIGHTQ_OK && ((envelope.flags & LQ_ENVELOPE_FLAG_PAYLOAD) != 0) != (message->payload != NULL)) {
        status = lq_err_set(&err, LIGHTQ_EPROTO, "the payload flag and the frames do not agree");
    }
    if (status == LIGHTQ_OK) {
        status = lq_codec_unpack(envelope.type, bytes, envelope.body_size, &body, &err);
    }
    if (status == LIGHTQ_EUNSUPPORTED) {
        return; /* something newer that is pushed: not for us */
    }
    if (status != LIGHTQ_OK) {
        spoiled(conn, &err);
        return;
    }
    if (lq_message_is_answer(envelope.type)) {
        body = take_answer(conn, &envelope, body);
    } else {
        take_pushed(conn, &envelope, body, message->payload);
    }
    lq_codec_free(body);
}

bool lq_conn_receive(struct lq_conn *conn)
{
    struct lq_link_message message;
    struct lq_err err;
    if (!lq_link_is_open(&conn->link)) {
        return false;
    }
    switch (lq_link_receive(&conn->link, &message)) {
    case LQ_LINK_NOTHING:
        return false;
    case LQ_LINK_IS_LOST:
        lq_conn_lose(conn, conn->link.why.status, conn->link.why.text);
        return false;
    case LQ_LINK_MESSAGE:
        break;
    }
    conn->received_us = conn->io->now_us;
    conn->suspect = false;
    if (message.too_many) {
        lq_err_set(&err, LIGHTQ_EPROTO, "a message of more than two frames");
        spoiled(conn, &err);
    } else {
        take_message(conn, &message);
    }
    lq_slab_unref(message.payload);
    return lq_link_is_open(&conn->link);
}
