/* node/router.c - see router.h. Rules, from docs/protocol.md: HELLO comes first. Who sends frames that are not the
 * protocol is told so, and its connection is closed; a sound frame with a wrong body costs only that request. */
#include "node/router.h"

#include "node/admin.h"
#include "node/consume.h"
#include "node/groups.h"
#include "node/metadata.h"
#include "node/pipeline.h"
#include "node/produce.h"
#include "node/purge.h"

static void on_bye(struct lq_service *service, const struct lq_request *request)
{
    lq_sessions_bye(service->sessions, request->session);
}

static void on_heartbeat(struct lq_service *service, const struct lq_request *request)
{
    const Lightq__Wire__Heartbeat *body = request->body;
    Lightq__Wire__HeartbeatAnswer answer = LIGHTQ__WIRE__HEARTBEAT_ANSWER__INIT;
    answer.status = body->session == 0 || body->session == request->session->number ? LIGHTQ_OK : LIGHTQ_ENOTFOUND;
    lq_session_answer(service->sessions, request->session, LQ_MESSAGE_HEARTBEAT_ANSWER, request->envelope->correlation,
                      0, &answer.base);
}

static void on_heartbeat_answer(struct lq_service *service, const struct lq_request *request)
{
    (void)service; /* being heard is all there is to it */
    (void)request;
}

static void on_metadata(struct lq_service *service, const struct lq_request *request)
{
    lq_metadata_request(service, request);
}

static void on_produce(struct lq_service *service, const struct lq_request *request)
{
    lq_produce_request(service->produce, request);
}

static void on_subscribe(struct lq_service *service, const struct lq_request *request)
{
    lq_consume_subscribe(service->consume, request);
}

static void on_unsubscribe(struct lq_service *service, const struct lq_request *request)
{
    lq_consume_unsubscribe(service->consume, request);
}

static void on_credit(struct lq_service *service, const struct lq_request *request)
{
    lq_consume_credit(service->consume, request);
}

static void on_offsets(struct lq_service *service, const struct lq_request *request)
{
    lq_consume_offsets(service->consume, request);
}

static void on_settle(struct lq_service *service, const struct lq_request *request)
{
    lq_pipeline_settle(service->pipeline, request);
}

static void on_group_change(struct lq_service *service, const struct lq_request *request)
{
    lq_groups_change(service->groups, request);
}

static void on_group_list(struct lq_service *service, const struct lq_request *request)
{
    lq_groups_list(service, request);
}

static void on_group_describe(struct lq_service *service, const struct lq_request *request)
{
    lq_groups_describe(service, request);
}

static void on_topic_create(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_topic_create(service->admin, request);
}

static void on_topic_alter(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_topic_alter(service->admin, request);
}

static void on_topic_list(struct lq_service *service, const struct lq_request *request)
{
    lq_metadata_topic_list(service, request);
}

static void on_topic_describe(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_describe(service->admin, request);
}

static void on_topic_delete(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_topic_delete(service->admin, request);
}

static void on_cluster_status(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_cluster_status(service->admin, request);
}

static void on_node_replace(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_node_replace(service->admin, request);
}

static void on_partition_transfer(struct lq_service *service, const struct lq_request *request)
{
    lq_admin_transfer(service->admin, request);
}

static void on_partition_purge(struct lq_service *service, const struct lq_request *request)
{
    lq_purges_request(service->purges, request);
}

static void on_stats(struct lq_service *service, const struct lq_request *request)
{
    lq_metadata_stats(service, request);
}

/* What a session may send. */
static const struct route {
    uint16_t type;
    bool has_payload;
    void (*handle)(struct lq_service *service, const struct lq_request *request);
} routes[] = {
    {LQ_MESSAGE_PRODUCE, true, on_produce},
    {LQ_MESSAGE_CREDIT, false, on_credit},
    {LQ_MESSAGE_SETTLE, false, on_settle},
    {LQ_MESSAGE_COMMIT, false, on_group_change},
    {LQ_MESSAGE_HEARTBEAT, false, on_heartbeat},
    {LQ_MESSAGE_HEARTBEAT_ANSWER, false, on_heartbeat_answer},
    {LQ_MESSAGE_METADATA, false, on_metadata},
    {LQ_MESSAGE_SUBSCRIBE, false, on_subscribe},
    {LQ_MESSAGE_UNSUBSCRIBE, false, on_unsubscribe},
    {LQ_MESSAGE_OFFSETS, false, on_offsets},
    {LQ_MESSAGE_BYE, false, on_bye},
    {LQ_MESSAGE_GROUP_CREATE, false, on_group_change},
    {LQ_MESSAGE_GROUP_DELETE, false, on_group_change},
    {LQ_MESSAGE_GROUP_ALTER, false, on_group_change},
    {LQ_MESSAGE_GROUP_SEEK, false, on_group_change},
    {LQ_MESSAGE_GROUP_LIST, false, on_group_list},
    {LQ_MESSAGE_GROUP_DESCRIBE, false, on_group_describe},
    {LQ_MESSAGE_TOPIC_CREATE, false, on_topic_create},
    {LQ_MESSAGE_TOPIC_ALTER, false, on_topic_alter},
    {LQ_MESSAGE_TOPIC_LIST, false, on_topic_list},
    {LQ_MESSAGE_TOPIC_DESCRIBE, false, on_topic_describe},
    {LQ_MESSAGE_TOPIC_DELETE, false, on_topic_delete},
    {LQ_MESSAGE_CLUSTER_STATUS, false, on_cluster_status},
    {LQ_MESSAGE_NODE_REPLACE, false, on_node_replace},
    {LQ_MESSAGE_PARTITION_TRANSFER, false, on_partition_transfer},
    {LQ_MESSAGE_PARTITION_PURGE, false, on_partition_purge},
    {LQ_MESSAGE_STATS, false, on_stats},
};

static const struct route *find_route(uint16_t type)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (routes[i].type == type) {
            return &routes[i];
        }
    }
    return NULL;
}

/* It is not the protocol. */
static void break_off(struct lq_service *service, lq_peer peer, uint64_t correlation, lightq_status status,
                      const char *text)
{
    service->counters->frames_bad++;
    service->counters->connections_bad++;
    lq_sessions_break_off(service->sessions, peer, correlation, status, text);
}

static void hello(struct lq_service *service, lq_peer peer, const struct lq_envelope *envelope, const uint8_t *body)
{
    struct lq_err err;
    Lightq__Wire__Hello *message;
    lightq_status status = lq_unpack_hello(body, envelope->body_size, &message, &err);
    if (status != LIGHTQ_OK) {
        break_off(service, peer, envelope->correlation, status, err.text);
        return;
    }
    lq_sessions_hello(service->sessions, peer, envelope->correlation, message);
    lq_codec_free(message);
}

/* A message of a session. */
static void handle(struct lq_service *service, struct lq_session *session, const struct lq_envelope *envelope,
                   const uint8_t *body, struct lq_slab *payload)
{
    const struct route *route = find_route(envelope->type);
    struct lq_err err;
    void *message = NULL;
    if (route == NULL) {
        if (lq_message_is_answer(envelope->type)) {
            break_off(service, session->peer, envelope->correlation, LIGHTQ_EPROTO, "a client sends no answers");
        } else {
            lq_session_error(service->sessions, session, envelope->correlation, LIGHTQ_EUNSUPPORTED,
                             "this node does not know that type of message");
        }
        return;
    }
    bool flagged = (envelope->flags & LQ_ENVELOPE_FLAG_PAYLOAD) != 0;
    if (flagged != (payload != NULL) || flagged != route->has_payload) {
        service->counters->frames_bad++;
        lq_session_error(service->sessions, session, envelope->correlation, LIGHTQ_EPROTO,
                         "the payload frame is missing, or there is one where none belongs");
        return;
    }
    lightq_status status = lq_codec_unpack(envelope->type, body, envelope->body_size, &message, &err);
    if (status != LIGHTQ_OK) {
        service->counters->frames_bad += status != LIGHTQ_ENOMEM;
        lq_session_error(service->sessions, session, envelope->correlation, status, err.text);
        return;
    }
    struct lq_request request = {.session = session, .envelope = envelope, .body = message, .payload = payload};
    route->handle(service, &request);
    lq_codec_free(message);
}

void lq_router_receive(struct lq_service *service, const struct lq_front_message *in)
{
    struct lq_envelope envelope;
    struct lq_err err;
    const uint8_t *body;
    struct lq_session *session = lq_sessions_heard(service->sessions, in->peer);
    if (in->malformed) {
        break_off(service, in->peer, 0, LIGHTQ_EPROTO, "a message is one frame, or two");
        return;
    }
    lightq_status status = lq_frame_decode(in->frame, in->frame_size, &envelope, &body, &err);
    if (status != LIGHTQ_OK) {
        break_off(service, in->peer, 0, status, err.text);
    } else if (envelope.type == LQ_MESSAGE_HELLO) {
        hello(service, in->peer, &envelope, body);
    } else if (session == NULL) {
        break_off(service, in->peer, envelope.correlation, LIGHTQ_EPROTO, "HELLO comes first");
    } else {
        handle(service, session, &envelope, body, in->payload);
    }
}
