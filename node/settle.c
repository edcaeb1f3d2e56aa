/* node/settle.c - SETTLE: what became of messages of a pipeline group; see pipeline.h. Answered once, when all of it
 * that was taken is durable. */
#include <stdlib.h>
#include <utlist.h>

#include "node/pipeline_internal.h"

/* One SETTLE under way. Pinned until its partition calls back, also when its client has left. */
struct lq_settling {
    struct lq_settle_request request;
    struct lq_pipeline *pipeline;
    uint64_t session, correlation, group;
    struct lq_settling *prev, *next;
};

static void answer(struct lq_pipeline *pipeline, struct lq_session *session, const struct lq_settling *settling,
                   lightq_status status, const char *text)
{
    const struct lq_settle_counts *counts = &settling->request.counts;
    struct lq_leader_hint hint;
    Lightq__Wire__SettleAnswer body = LIGHTQ__WIRE__SETTLE_ANSWER__INIT;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    if (status == LIGHTQ_ENOTLEADER || status == LIGHTQ_ELEADERSHIPLOST) {
        lq_service_hint(pipeline->service, settling->group, &hint);
        body.leader = &hint.leader;
    }
    body.taken = counts->taken;
    body.waiting = counts->waiting;
    body.settled = counts->settled;
    body.not_held = counts->not_held;
    body.unknown = counts->unknown;
    lq_session_answer(pipeline->service->sessions, session, LQ_MESSAGE_SETTLE_ANSWER, settling->correlation,
                      settling->group, &body.base);
}

static void on_settled(struct lq_settle_request *request, lightq_status status)
{
    struct lq_settling *settling = request->data;
    struct lq_pipeline *pipeline = settling->pipeline;
    struct lq_session *session = lq_sessions_find(pipeline->service->sessions, settling->session);
    DL_DELETE(pipeline->settling, settling);
    if (session != NULL) {
        session->group_requests--;
        answer(pipeline, session, settling, status, status == LIGHTQ_OK ? "" : lightq_status_text(status));
    }
    free(settling);
}

/* The items of @body in pipeline->items. */
static lightq_status read_items(struct lq_pipeline *pipeline, const Lightq__Wire__Settle *body, const char **text)
{
    if (body->n_items == 0 || body->n_items > LQ_SETTLE_ITEMS_MAX) {
        *text = "a SETTLE has 1 to 4096 items";
        return LIGHTQ_EINVAL;
    }
    uint64_t messages = 0;
    for (size_t i = 0; i < body->n_items; i++) {
        const Lightq__Wire__SettleItem *in = body->items[i];
        messages += in->count;
        if (in->kind < LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK || in->kind > LIGHTQ__WIRE__SETTLE_KIND__SETTLE_RETURN) {
            *text = "a result of a kind that this node does not know";
            return LIGHTQ_EINVAL;
        }
        if (in->count > LQ_SETTLE_RANGE_MAX || (in->has_delay && in->delay_ms > LQ_CGROUP_DELAY_MS_MAX)) {
            *text = "a result is for at most 1048576 messages, and its delay at most 30 days";
            return LIGHTQ_EINVAL;
        }
        if (messages > LQ_SETTLE_MESSAGES_MAX) {
            *text = "the results of one SETTLE are for at most 4194304 messages";
            return LIGHTQ_EINVAL;
        }
        pipeline->items[i] =
            (struct lq_settle_item){.kind = (enum lq_settle_kind)in->kind,
                                    .first = in->offset,
                                    .count = in->count == 0 ? 1 : in->count,
                                    .delivery = in->delivery,
                                    .delay_ms = in->has_delay ? in->delay_ms : LQ_SETTLE_DELAY_DEFAULT};
    }
    return LIGHTQ_OK;
}

/* Who it is that settles, in its group. */
static lq_lease_consumer consumer_of(const struct lq_pipeline *pipeline, const struct lq_session *session,
                                     const Lightq__Wire__Settle *body, uint64_t group)
{
    const struct lq_member *member = lq_pipeline_find(pipeline, session->number, body->subscription);
    bool its = member != NULL && member->feed->key.group == group && member->feed->key.number == body->group_number &&
               lq_feed_is_alive(member->feed);
    return its ? member->consumer : LQ_LEASE_NOBODY;
}

/* Hands it in. OK: it is answered later. */
static lightq_status hand_in(struct lq_settling *settling, const struct lq_request *in, struct lq_partition *partition,
                             const char **text)
{
    const Lightq__Wire__Settle *body = in->body;
    struct lq_pipeline *pipeline = settling->pipeline;
    if (in->session->group_requests >= pipeline->service->options->session_requests_max) {
        *text = "too many requests of this client are under way (session.requests.max)";
        return LIGHTQ_EBUSY;
    }
    lightq_status status = read_items(pipeline, body, text);
    if (status != LIGHTQ_OK) {
        return status;
    }
    settling->request =
        (struct lq_settle_request){.group = body->group_number,
                                   .generation = body->generation,
                                   .consumer = consumer_of(pipeline, in->session, body, settling->group),
                                   .items = pipeline->items,
                                   .item_count = body->n_items,
                                   .cb = on_settled,
                                   .data = settling};
    status = lq_partition_settle(partition, &settling->request);
    if (status == LIGHTQ_OK) {
        settling->request.items = NULL;
        in->session->group_requests++;
        DL_APPEND(pipeline->settling, settling);
    } else {
        *text = lightq_status_text(status);
    }
    return status;
}

void lq_pipeline_settle(struct lq_pipeline *pipeline, const struct lq_request *in)
{
    const Lightq__Wire__Settle *body = in->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    const char *text = "";
    pipeline->service->counters->settles++;
    struct lq_settling refused = {.correlation = in->envelope->correlation, .group = in->envelope->group};
    lightq_status status = lq_service_lead(pipeline->service, &body->topic, body->partition, in->envelope->group,
                                           &placed, &partition, &text);
    refused.group = placed == NULL ? refused.group : placed->group;
    struct lq_settling *settling = status == LIGHTQ_OK ? malloc(sizeof *settling) : NULL;
    if (status == LIGHTQ_OK && settling == NULL) {
        status = LIGHTQ_ENOMEM;
        text = lightq_status_text(status);
    }
    if (status == LIGHTQ_OK) {
        *settling = refused;
        settling->pipeline = pipeline;
        settling->session = in->session->number;
        status = hand_in(settling, in, partition, &text);
    }
    if (status != LIGHTQ_OK) {
        free(settling);
        answer(pipeline, in->session, &refused, status, text);
    }
}
