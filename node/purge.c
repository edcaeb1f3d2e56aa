/* node/purge.c - see purge.h. */
#include "node/purge.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "node/queue/purge.h"

#define TIMEOUT_DEFAULT_MS 30000
#define TIMEOUT_MAX_MS     600000
#define MICROS_PER_MILLI   1000
#define TEXT_BYTES         128

/* One on its way. Pinned until its partition calls back, also when its client was answered or left before. How many
 * there can be is bounded by each partition. */
struct purge {
    struct lq_purge_request request;
    struct lq_purges *purges;
    bool answered;
    uint64_t session, correlation, group;
    uint64_t deadline_us;
    struct purge *prev, *next;
};

struct lq_purges {
    struct lq_service *service;
    struct purge *under_way;
};

static void answer(struct lq_service *service, struct lq_session *session, const struct purge *purge,
                   lightq_status status, const char *text)
{
    struct lq_leader_hint hint;
    Lightq__Wire__PartitionPurgeAnswer body = LIGHTQ__WIRE__PARTITION_PURGE_ANSWER__INIT;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    if (status == LIGHTQ_ENOTLEADER || status == LIGHTQ_ELEADERSHIPLOST) {
        lq_service_hint(service, purge->group, &hint);
        body.leader = &hint.leader;
    }
    if (status == LIGHTQ_OK) {
        body.log_start = purge->request.start_offset;
        body.log_end = purge->request.end_offset;
        body.term = purge->request.term;
    }
    lq_session_answer(service->sessions, session, LQ_MESSAGE_PARTITION_PURGE_ANSWER, purge->correlation, purge->group,
                      &body.base);
}

static void on_purged(struct lq_purge_request *request, lightq_status status)
{
    struct purge *purge = request->data;
    struct lq_purges *purges = purge->purges;
    struct lq_session *session = lq_sessions_find(purges->service->sessions, purge->session);
    DL_DELETE(purges->under_way, purge);
    if (session != NULL && !purge->answered) {
        answer(purges->service, session, purge, status, status == LIGHTQ_OK ? "" : lightq_status_text(status));
    }
    free(purge);
}

/* OK: it is answered later. */
static lightq_status hand_in(struct lq_purges *purges, const struct lq_request *in, struct lq_partition *partition,
                             const struct purge *with, char text[TEXT_BYTES])
{
    const Lightq__Wire__PartitionPurge *body = in->body;
    struct purge *purge = malloc(sizeof *purge);
    if (purge == NULL) {
        (void)snprintf(text, TEXT_BYTES, "%s", lightq_status_text(LIGHTQ_ENOMEM));
        return LIGHTQ_ENOMEM;
    }
    uint64_t wait_ms = body->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : body->timeout_ms;
    wait_ms = wait_ms < TIMEOUT_MAX_MS ? wait_ms : TIMEOUT_MAX_MS;
    *purge = *with;
    purge->purges = purges;
    purge->session = in->session->number;
    purge->deadline_us = lq_clock_monotonic_us(purges->service->clock) + wait_ms * MICROS_PER_MILLI;
    purge->request = (struct lq_purge_request){.offset = body->offset, .cb = on_purged, .data = purge};
    lightq_status status = lq_partition_purge(partition, &purge->request);
    if (status == LIGHTQ_OK) {
        DL_APPEND(purges->under_way, purge);
        return status;
    }
    free(purge);
    (void)snprintf(text, TEXT_BYTES, "%s", lightq_status_text(status));
    if (status == LIGHTQ_EOUTOFRANGE) {
        (void)snprintf(text, TEXT_BYTES, "the partition ends at offset %" PRIu64 ", and %" PRIu64 " is above it",
                       lq_partition_end(partition), body->offset);
    }
    return status;
}

void lq_purges_request(struct lq_purges *purges, const struct lq_request *in)
{
    const Lightq__Wire__PartitionPurge *body = in->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    const char *why = "";
    char text[TEXT_BYTES];
    struct purge with = {.correlation = in->envelope->correlation, .group = in->envelope->group};
    lightq_status status =
        lq_service_lead(purges->service, &body->topic, body->partition, in->envelope->group, &placed, &partition, &why);
    with.group = placed == NULL ? with.group : placed->group;
    (void)snprintf(text, sizeof text, "%s", why);
    if (status == LIGHTQ_OK) {
        status = hand_in(purges, in, partition, &with, text);
    }
    if (status != LIGHTQ_OK) {
        answer(purges->service, in->session, &with, status, text);
    }
}

void lq_purges_tick(struct lq_purges *purges)
{
    uint64_t now_us = lq_clock_monotonic_us(purges->service->clock);
    struct purge *purge;
    DL_FOREACH(purges->under_way, purge)
    {
        struct lq_session *session = lq_sessions_find(purges->service->sessions, purge->session);
        if (purge->answered || now_us < purge->deadline_us) {
            continue;
        }
        purge->answered = true;
        if (session != NULL) {
            answer(purges->service, session, purge, LIGHTQ_ETIMEDOUT,
                   "not durable on a majority within the request's time; it may still be");
        }
    }
}

lightq_status lq_purges_new(struct lq_service *service, struct lq_purges **out)
{
    struct lq_purges *purges = calloc(1, sizeof *purges);
    if (purges == NULL) {
        return LIGHTQ_ENOMEM;
    }
    purges->service = service;
    *out = purges;
    return LIGHTQ_OK;
}

void lq_purges_free(struct lq_purges *purges)
{
    assert(purges->under_way == NULL);
    free(purges);
}
