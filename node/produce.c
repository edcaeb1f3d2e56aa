/* node/produce.c - see produce.h. */
#include "node/produce.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "client/wire/batch.h"
#include "node/queue/dedup.h"
#include "node/queue/partition.h"

#define TIMEOUT_DEFAULT_MS 30000
#define TIMEOUT_MAX_MS     600000
#define KEPT_MAX           256 /* finished requests kept for the next ones */
#define MICROS_PER_MILLI   1000
#define RETRY_CLIENT_MS    10 /* told with EBUSY: a client over its own limits ... */
#define RETRY_NODE_MS      50 /* ... and one of those that are too many together */

/* One batch on its way. Pinned until its partition calls back, also when its client was answered or left before. */
struct batch_request {
    struct lq_partition_request partition;
    struct lq_produce *produce;
    uint64_t session; /* number */
    uint64_t correlation;
    uint64_t group;
    uint64_t deadline_us;
    bool answered;
    struct batch_request *prev, *next; /* under way, oldest first; or kept */
};

struct lq_produce {
    struct lq_service *service;
    struct lq_batch_scratch scratch;
    struct batch_request *under_way;
    struct batch_request *kept;
    size_t kept_count;
};

/* What is answered, beside the status. */
struct verdict {
    lightq_status status;
    const char *text;
    const struct lq_leader_hint *hint;
    uint32_t retry_after_ms;
};

static void answer(struct lq_produce *produce, struct lq_session *session, uint64_t correlation, uint64_t group,
                   uint64_t base_sequence, const struct verdict *verdict, const struct lq_partition_request *given)
{
    Lightq__Wire__ProduceAnswer body = LIGHTQ__WIRE__PRODUCE_ANSWER__INIT;
    body.status = (uint32_t)verdict->status;
    body.text = lq_codec_string(verdict->text);
    body.base_sequence = base_sequence;
    body.retry_after_ms = verdict->retry_after_ms;
    if (verdict->hint != NULL) {
        body.leader = (Lightq__Wire__Leader *)(uintptr_t)&verdict->hint->leader;
    }
    if (given != NULL && verdict->status == LIGHTQ_OK) {
        body.term = given->term;
        body.base_offset = given->base_offset;
        body.timestamp_ms = given->timestamp_ms;
        body.duplicate = given->duplicate;
        body.same_id = given->same_id;
    }
    lq_session_answer(produce->service->sessions, session, LQ_MESSAGE_PRODUCE_ANSWER, correlation, group, &body.base);
}

/* How long who was told EBUSY shall wait: longer when it is everybody's memory that is short. */
static uint32_t retry_after_ms(const struct lq_service *service)
{
    return service->memory_used > service->options->memory.requests / 2 ? RETRY_NODE_MS : RETRY_CLIENT_MS;
}

/* Answers with a failure; with a hint when it is about the leader. */
static void refuse(struct lq_produce *produce, struct lq_session *session, uint64_t correlation, uint64_t group,
                   uint64_t base_sequence, lightq_status status, const char *text)
{
    struct lq_service *service = produce->service;
    struct lq_leader_hint hint;
    struct verdict verdict = {.status = status, .text = text};
    if (status == LIGHTQ_ENOTLEADER || status == LIGHTQ_ELEADERSHIPLOST) {
        lq_service_hint(service, group, &hint);
        verdict.hint = &hint;
    }
    service->counters->produce_refused++;
    service->counters->produce_busy += status == LIGHTQ_EBUSY;
    verdict.retry_after_ms = status == LIGHTQ_EBUSY ? retry_after_ms(service) : 0;
    answer(produce, session, correlation, group, base_sequence, &verdict, NULL);
}

static struct batch_request *take_request(struct lq_produce *produce)
{
    struct batch_request *request = produce->kept;
    if (request != NULL) {
        DL_DELETE(produce->kept, request);
        produce->kept_count--;
        *request = (struct batch_request){.produce = produce};
        return request;
    }
    request = calloc(1, sizeof *request);
    if (request != NULL) {
        request->produce = produce;
    }
    return request;
}

static void give_request(struct lq_produce *produce, struct batch_request *request)
{
    if (produce->kept_count >= KEPT_MAX) {
        free(request);
        return;
    }
    DL_PREPEND(produce->kept, request);
    produce->kept_count++;
}

/* Counts a request in or out, for its session and for the node. */
static void count(struct lq_produce *produce, struct lq_session *session, const struct batch_request *request, bool in)
{
    struct lq_service *service = produce->service;
    uint64_t size = request->partition.size;
    service->memory_used += in ? size : -size;
    service->counters->produce_inflight += in ? 1 : UINT64_MAX;
    if (session != NULL) {
        session->produce_count += in ? 1 : UINT64_MAX;
        session->produce_bytes += in ? size : -size;
    }
}

/* What a client is told of a partition's verdict: too many ids are a matter of time. */
static lightq_status told(lightq_status status, const char **text)
{
    if (status == LIGHTQ_ELIMIT) {
        *text = "as many message ids as a partition remembers came within dedup.window: send slower";
        return LIGHTQ_EBUSY;
    }
    *text = lightq_status_text(status);
    return status;
}

/* The partition has decided. */
static void on_decided(struct lq_partition_request *partition, lightq_status status)
{
    struct batch_request *request = (struct batch_request *)partition;
    struct lq_produce *produce = request->produce;
    struct lq_counters *counters = produce->service->counters;
    struct lq_session *session = lq_sessions_find(produce->service->sessions, request->session);
    DL_DELETE(produce->under_way, request);
    count(produce, session, request, false);
    lq_slab_unref(partition->slab);
    if (status == LIGHTQ_OK) {
        counters->produce_stored++;
        counters->produce_duplicates += partition->duplicate;
        counters->messages_in += partition->duplicate ? 0 : partition->message_count;
    }
    if (session != NULL && !request->answered) {
        if (status == LIGHTQ_OK) {
            struct verdict verdict = {.status = LIGHTQ_OK, .text = ""};
            answer(produce, session, request->correlation, request->group, partition->base_sequence, &verdict,
                   partition);
        } else {
            const char *text;
            status = told(status, &text);
            refuse(produce, session, request->correlation, request->group, partition->base_sequence, status, text);
        }
    }
    give_request(produce, request);
}

/* Whether the client may have one more batch of @size bytes under way. */
static const char *over_limit(const struct lq_produce *produce, const struct lq_session *session, uint64_t size)
{
    const struct lq_service *service = produce->service;
    const struct lq_options *options = service->options;
    if (session->produce_count >= options->session_requests_max) {
        return "too many requests of this client are under way (session.requests.max)";
    }
    /* One batch is always let through, or a large one would never be. */
    if (session->produce_count > 0 && session->produce_bytes + size > options->session_bytes_max) {
        return "too many bytes of this client are under way (session.bytes.max)";
    }
    if (service->memory_used + size > options->memory.requests) {
        return "too many bytes are under way on this node (memory.max)";
    }
    return NULL;
}

/* Checks the batch: OK, or what is wrong with it in @err. */
static lightq_status check(struct lq_produce *produce, const struct lq_catalog_partition *placed,
                           const struct lq_slab *payload, struct lq_batch_summary *summary, struct lq_err *err)
{
    const struct lq_options *options = produce->service->options;
    uint64_t message_bytes_max = placed->topic->config.max_message_bytes;
    if (message_bytes_max > options->max_message_bytes) {
        message_bytes_max = options->max_message_bytes;
    }
    struct lq_batch_limits limits = {.message_bytes_max = message_bytes_max,
                                     .batch_bytes_max = lq_options_batch_bytes_max(options)};
    err->text[0] = '\0';
    return lq_batch_check(payload->bytes, payload->size, &limits, &produce->scratch, summary, err);
}

static uint32_t timeout_ms(const Lightq__Wire__Produce *body)
{
    if (body->timeout_ms == 0) {
        return TIMEOUT_DEFAULT_MS;
    }
    return body->timeout_ms < TIMEOUT_MAX_MS ? body->timeout_ms : TIMEOUT_MAX_MS;
}

/* Hands the checked batch to its partition. */
static lightq_status hand_in(struct lq_produce *produce, const struct lq_request *in, struct lq_partition *partition,
                             uint64_t group, const struct lq_batch_summary *summary)
{
    const Lightq__Wire__Produce *body = in->body;
    struct batch_request *request = take_request(produce);
    if (request == NULL) {
        return LIGHTQ_ENOMEM;
    }
    request->session = in->session->number;
    request->correlation = in->envelope->correlation;
    request->group = group;
    request->deadline_us =
        lq_clock_monotonic_us(produce->service->clock) + (uint64_t)timeout_ms(body) * MICROS_PER_MILLI;
    request->partition.slab = lq_slab_ref(in->payload);
    request->partition.size = (uint32_t)in->payload->size;
    request->partition.batch_crc = summary->head.crc;
    request->partition.message_count = summary->head.record_count;
    request->partition.epoch = body->epoch > summary->head.epoch ? body->epoch : summary->head.epoch;
    request->partition.begins_epoch = body->begins_epoch;
    request->partition.producer_id = summary->head.producer_id;
    request->partition.base_sequence = summary->head.base_sequence;
    request->partition.expected_offset = body->has_expected_offset ? body->expected_offset : LQ_OFFSET_ANY;
    request->partition.has_id = body->message_id.len > 0;
    if (request->partition.has_id) {
        request->partition.message_id = lq_dedup_digest(body->message_id.data, body->message_id.len);
    }
    request->partition.cb = on_decided;
    lightq_status status = lq_partition_produce(partition, &request->partition);
    if (status != LIGHTQ_OK) {
        lq_slab_unref(request->partition.slab);
        give_request(produce, request);
        return status;
    }
    DL_APPEND(produce->under_way, request);
    count(produce, in->session, request, true);
    return LIGHTQ_OK;
}

void lq_produce_request(struct lq_produce *produce, const struct lq_request *in)
{
    struct lq_service *service = produce->service;
    const Lightq__Wire__Produce *body = in->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    struct lq_batch_summary summary = {0};
    struct lq_err err;
    const char *text = "";
    uint64_t group = in->envelope->group;
    service->counters->produce_requests++;
    lightq_status status =
        lq_service_lead(service, &body->topic, body->partition, in->envelope->group, &placed, &partition, &text);
    group = placed == NULL ? group : placed->group;
    if (status == LIGHTQ_OK && (text = over_limit(produce, in->session, in->payload->size)) != NULL) {
        status = LIGHTQ_EBUSY;
    }
    if (status == LIGHTQ_OK) {
        status = check(produce, placed, in->payload, &summary, &err);
        text = err.text[0] == '\0' ? lightq_status_text(status) : err.text;
    }
    if (status == LIGHTQ_OK && body->message_id.len > 0 &&
        (summary.head.record_count != 1 || body->message_id.len > LQ_MESSAGE_ID_BYTES_MAX)) {
        status = LIGHTQ_EINVAL;
        text = "a message id has up to 255 bytes, and goes with a batch of one message";
    }
    if (status == LIGHTQ_OK) {
        status = told(hand_in(produce, in, partition, group, &summary), &text);
    }
    if (status != LIGHTQ_OK) {
        refuse(produce, in->session, in->envelope->correlation, group, summary.head.base_sequence, status, text);
    }
}

void lq_produce_tick(struct lq_produce *produce)
{
    uint64_t now_us = lq_clock_monotonic_us(produce->service->clock);
    struct batch_request *request;
    DL_FOREACH(produce->under_way, request)
    {
        if (request->answered || now_us < request->deadline_us) {
            continue;
        }
        request->answered = true;
        produce->service->counters->produce_timed_out++;
        struct lq_session *session = lq_sessions_find(produce->service->sessions, request->session);
        if (session != NULL) {
            refuse(produce, session, request->correlation, request->group, request->partition.base_sequence,
                   LIGHTQ_ETIMEDOUT, "not stored by a majority within the request's time; it may still be");
        }
    }
}

lightq_status lq_produce_new(struct lq_service *service, struct lq_produce **out)
{
    struct lq_produce *produce = calloc(1, sizeof *produce);
    if (produce == NULL) {
        return LIGHTQ_ENOMEM;
    }
    produce->service = service;
    *out = produce;
    return LIGHTQ_OK;
}

void lq_produce_free(struct lq_produce *produce)
{
    assert(produce->under_way == NULL);
    while (produce->kept != NULL) {
        struct batch_request *request = produce->kept;
        DL_DELETE(produce->kept, request);
        free(request);
    }
    lq_batch_scratch_deinit(&produce->scratch);
    free(produce);
}
