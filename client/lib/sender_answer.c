/* client/lib/sender_answer.c - what the answer to a batch means for it and for those behind it. See sender.c for the
 * rules. I/O thread only. */
#include "client/lib/sender_private.h"

#include <string.h>

#include "client/wire/produced.h"

/* ---- a new epoch */

/* What is under way from @bundle on, which has numbers, is not waited for any more: it is sent again. */
static void recall(struct lq_bundle *bundle, bool certain)
{
    for (; bundle != NULL && bundle->numbered; bundle = bundle->next) {
        if (bundle->state == LQ_BUNDLE_RESOLVED) {
            continue;
        }
        if (bundle->state == LQ_BUNDLE_SENT) {
            lq_request_cancel(&bundle->request);
            bundle->state = LQ_BUNDLE_WAITING;
        }
        bundle->serial = 0;
        if (certain) {
            bundle->rejections = bundle->attempts;
        }
    }
}

/* An epoch begins with the first batch from @bundle on that has no outcome. @certain: what comes before @bundle is not
 * stored and never will be, and so was nothing from @bundle on. */
static void begin_epoch(struct lq_lane *lane, struct lq_bundle *bundle, bool certain)
{
    while (bundle != NULL && bundle->state == LQ_BUNDLE_RESOLVED) {
        bundle = bundle->next;
    }
    recall(bundle, certain);
    if (bundle == NULL || !bundle->numbered) {
        lane->begin_next = true;
        return;
    }
    bundle->begins = true;
    bundle->begun = false;
}

/* @bundle is given up. */
static void give_up(const struct lq_bundle *bundle)
{
    struct lq_lane *lane = bundle->lane;
    if (!bundle->numbered || bundle->producer == 0) {
        return;
    }
    if (!bundle->begins || bundle->begun) {
        begin_epoch(lane, bundle->next, !lq_bundle_in_doubt(bundle));
    } else if (bundle->next != NULL && bundle->next->numbered && bundle->next->state != LQ_BUNDLE_RESOLVED) {
        bundle->next->begins = true; /* nothing from it on is under way: many at once cost little */
        bundle->next->begun = false;
    } else {
        begin_epoch(lane, bundle->next, false);
    }
}

/* ---- outcomes */

void lq_sender_resolve(struct lq_bundle *bundle, lightq_status status, int64_t base_offset)
{
    struct lq_lane *lane = bundle->lane;
    bool stored = status == LIGHTQ_OK || status == LIGHTQ_EDUPLICATE;
    if (!stored) {
        give_up(bundle);
    }
    bundle->state = LQ_BUNDLE_RESOLVED;
    bundle->status = status;
    bundle->in_doubt = !stored && lq_bundle_in_doubt(bundle);
    bundle->base_offset = base_offset;
    lq_slab_unref(bundle->slab);
    bundle->slab = NULL;
    while (lane->batches.first != NULL && lane->batches.first->state == LQ_BUNDLE_RESOLVED) {
        struct lq_bundle *first = lane->batches.first;
        lane->batches.first = first->next;
        if (lane->batches.first == NULL) {
            lane->batches.last = NULL;
        }
        lq_bundles_append(&lane->route->producer->turned, first);
    }
}

/* ---- a batch with a message that is too big for the leader */

static struct lq_bundle *single(struct lq_lane *lane, const struct lq_bundle *whole, const struct lq_record *record,
                                const struct lq_record_header *headers)
{
    struct lq_bundle *bundle = lq_bundle_new(lane, whole->created_us);
    if (bundle == NULL) {
        return NULL;
    }
    lightq_status status = lq_batch_writer_add(&bundle->writer, record->timestamp_ms, record->key, record->value,
                                               headers, record->header_count);
    if (status != LIGHTQ_OK) {
        lq_bundle_free(bundle);
        return NULL;
    }
    bundle->opaques[0] = whole->opaques[record->index];
    bundle->count = 1;
    bundle->numbered = true;
    bundle->producer = whole->producer;
    bundle->base_sequence = record->sequence; /* a message keeps its own */
    bundle->bytes = lq_message_size(record->key, record->value, headers, record->header_count);
    return bundle;
}

/* Fills @parts with one bundle per message of @whole. False: no memory, or not sound; @parts is empty. */
static bool take_apart(struct lq_bundle *whole, struct lq_bundles *parts)
{
    struct lq_batch batch;
    struct lq_record record;
    struct lq_record_header headers[LQ_HEADERS_MAX];
    bool made = true;
    if (lq_batch_open(&batch, whole->slab->bytes, whole->slab->size, NULL) != LIGHTQ_OK) {
        return false;
    }
    while (made && lq_batch_next(&batch, &record) == LIGHTQ_OK) {
        struct lq_span left = record.headers;
        for (uint32_t i = 0; i < record.header_count; i++) {
            made = made && lq_record_header_next(&left, &headers[i]);
        }
        struct lq_bundle *part = made ? single(whole->lane, whole, &record, headers) : NULL;
        made = part != NULL;
        if (made) {
            lq_bundles_append(parts, part);
        }
    }
    lq_batch_close(&batch);
    while (!made && parts->first != NULL) {
        struct lq_bundle *part = parts->first;
        parts->first = part->next;
        lq_bundle_free(part);
    }
    return made;
}

/* One message alone shall fail, not those that happen to be in its batch: each goes again as a batch of its own. False:
 * it could not be done. */
static bool split(struct lq_bundle *whole)
{
    struct lq_bundles parts = {.first = NULL};
    struct lq_lane *lane = whole->lane;
    if (whole->count == 1 || whole->whole || lq_bundle_in_doubt(whole) || !take_apart(whole, &parts)) {
        return false;
    }
    struct lq_bundle *behind = whole->next;
    size_t bytes = whole->bytes;
    struct lq_bundle *previous = NULL;
    for (struct lq_bundle *at = lane->batches.first; at != whole; at = at->next) {
        previous = at;
    }
    *(previous != NULL ? &previous->next : &lane->batches.first) = parts.first;
    parts.last->next = behind;
    if (lane->batches.last == whole) {
        lane->batches.last = parts.last;
    }
    for (struct lq_bundle *part = parts.first; part != behind; part = part->next) {
        bytes -= part->bytes;
    }
    parts.first->bytes += bytes; /* nothing is counted twice or lost */
    parts.first->begins = whole->begins;
    parts.first->begun = whole->begun;
    lq_bundle_free(whole);
    return true;
}

/* ---- answers */

static void on_stored(struct lq_bundle *bundle, struct lq_conn *conn, const struct lq_reply *reply)
{
    const Lightq__Wire__ProduceAnswer *answer = reply->body;
    struct lq_lane *lane = bundle->lane;
    if (reply->status == LIGHTQ_OK && (answer == NULL || answer->base_sequence != bundle->base_sequence)) {
        bundle->state = LQ_BUNDLE_WAITING; /* it answers something else than was asked */
        lq_conn_lose(conn, LIGHTQ_EPROTO, "an answer to PRODUCE names another batch");
        return;
    }
    lane->backoff_us = 0;
    lane->retry_us = 0;
    lane->redirects = 0;
    bundle->term = answer != NULL ? answer->term : 0;
    bool known = reply->status == LIGHTQ_OK && answer->base_offset <= (uint64_t)INT64_MAX - bundle->count;
    bundle->same_id = reply->status == LIGHTQ_OK && answer->same_id;
    lq_sender_resolve(bundle, reply->status, known ? (int64_t)answer->base_offset : LIGHTQ_OFFSET_UNKNOWN);
}

/* Somebody else goes on under this producer id: all that was sent under it is refused. */
static void on_fenced(struct lq_lane *lane)
{
    struct lq_bundle *bundle;
    while ((bundle = lq_lane_oldest(lane)) != NULL && bundle->numbered) {
        lq_request_cancel(&bundle->request);
        lq_sender_resolve(bundle, LIGHTQ_EFENCED, LIGHTQ_OFFSET_UNKNOWN);
    }
    lq_sender_new_identity(lane);
}

static void on_refused(struct lq_bundle *bundle, lightq_status status)
{
    bundle->rejections++;
    bundle->state = LQ_BUNDLE_WAITING;
    if (status == LIGHTQ_EFENCED) {
        on_fenced(bundle->lane);
    } else if (status != LIGHTQ_ETOOBIG || !split(bundle)) {
        lq_sender_resolve(bundle, status, LIGHTQ_OFFSET_UNKNOWN);
    }
}

/* The oldest in @lane of which an attempt was not answered. */
static struct lq_bundle *oldest_in_doubt(const struct lq_lane *lane)
{
    struct lq_bundle *bundle = lane->batches.first;
    while (bundle != NULL && (bundle->state == LQ_BUNDLE_RESOLVED || !lq_bundle_in_doubt(bundle))) {
        bundle = bundle->next;
    }
    return bundle;
}

/* The leader does not know what comes before @bundle. */
static void on_gap(struct lq_bundle *bundle)
{
    struct lq_lane *lane = bundle->lane;
    bundle->rejections++;
    bundle->state = LQ_BUNDLE_WAITING;
    if (bundle != lq_lane_oldest(lane)) {
        return; /* the one before it decides */
    }
    if (bundle->begins || bundle->producer == 0) { /* it said that nothing does */
        lq_sender_resolve(bundle, LIGHTQ_EOUTOFSEQUENCE, LIGHTQ_OFFSET_UNKNOWN);
    } else if (!lq_bundle_in_doubt(bundle)) {
        begin_epoch(lane, bundle, true);
    } else {
        /* It may have forgotten the producer, and with it what is stored: sent again it could be stored twice. */
        while ((bundle = oldest_in_doubt(lane)) != NULL) {
            lq_request_cancel(&bundle->request);
            lq_sender_resolve(bundle, LIGHTQ_ETIMEDOUT, LIGHTQ_OFFSET_UNKNOWN);
        }
    }
}

static void on_not_stored(struct lq_bundle *bundle, const struct lq_reply *reply)
{
    struct lq_lane *lane = bundle->lane;
    struct lq_io *io = &lane->route->producer->client->io;
    bundle->state = LQ_BUNDLE_WAITING;
    if (reply->answered || reply->status == LIGHTQ_ETIMEDOUT) {
        const Lightq__Wire__ProduceAnswer *answer = reply->status == LIGHTQ_EBUSY ? reply->body : NULL;
        lq_sender_back_off(lane, answer == NULL ? 0 : answer->retry_after_ms);
    }
    if (reply->status == LIGHTQ_EBUSY || reply->status == LIGHTQ_ELIMIT) {
        return; /* the leader is right, and busy */
    }
    if (!lq_meta_hint(io->meta, lane->route->topic, lane->partition, reply->leader)) {
        lq_meta_doubt(io->meta, lane->route->topic, lane->partition);
    }
}

void lq_sender_on_answer(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_bundle *bundle = lq_container(request, struct lq_bundle, request);
    struct lq_lane *lane = bundle->lane;
    switch (reply->answered ? lq_produced_says(reply->status) : LQ_PRODUCED_NOT_KNOWN) {
    case LQ_PRODUCED_STORED:
        on_stored(bundle, lane->conn, reply);
        break;
    case LQ_PRODUCED_REFUSED:
        on_refused(bundle, reply->status);
        break;
    case LQ_PRODUCED_GAP:
        on_gap(bundle);
        break;
    case LQ_PRODUCED_NOT_NOW:
        bundle->rejections++;
        on_not_stored(bundle, reply);
        break;
    case LQ_PRODUCED_NOT_KNOWN:
        on_not_stored(bundle, reply);
        break;
    }
    lq_sender_go_on(lane);
}
