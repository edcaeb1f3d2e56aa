/* client/lib/settler.c - the I/O thread's side of settling: sends what the application said of messages of a group, and
 * its commits, to the partition's leader; again when the outcome is not known, which is harmless: an ack may come
 * twice. See consumer.h; settle.c is the other side. I/O thread only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/error.h"
#include "client/lib/fetcher_private.h"

#define US_PER_MS  1000u
#define TEXT_BYTES 512

static struct lightq_consumer *consumer_of(const struct lq_feed *feed)
{
    return feed->intake->consumer;
}

static void back_off(struct lq_feed *feed)
{
    struct lq_io *io = lq_feed_io(feed);
    struct lq_settler *settler = &feed->settler;
    uint64_t least = io->options.retry_backoff_ms * US_PER_MS;
    uint64_t most = io->options.retry_backoff_max_ms * US_PER_MS;
    settler->backoff_us = settler->backoff_us == 0 ? least : settler->backoff_us * 2;
    settler->backoff_us = settler->backoff_us < most ? settler->backoff_us : most;
    settler->retry_us = io->now_us + settler->backoff_us;
    lq_fetcher_wake_at(consumer_of(feed), settler->retry_us);
}

/* The request had no outcome: another try, at whoever leads. */
static void try_again(struct lq_feed *feed, const struct lq_reply *reply)
{
    struct lq_io *io = lq_feed_io(feed);
    back_off(feed);
    if (reply->status == LIGHTQ_EBUSY || reply->status == LIGHTQ_ELIMIT || feed->intake->topic == NULL) {
        return;
    }
    if (lq_meta_hint(io->meta, feed->intake->topic, feed->partition, reply->leader)) {
        feed->settler.retry_us = 0; /* news: no reason to wait */
    } else {
        lq_meta_doubt(io->meta, feed->intake->topic, feed->partition);
    }
}

/* Whether a reply leaves the outcome open, or says that nothing was done and that another try may do better. */
static bool is_open(const struct lq_reply *reply)
{
    return !reply->answered || lightq_status_retriable(reply->status) || reply->status == LIGHTQ_EIO ||
           reply->status == LIGHTQ_EDAMAGED;
}

/* ---- results */

/* The first of what is in flight. */
static const struct lq_settle_item *first_of(const struct lq_settler *settler)
{
    return &settler->taken.items[settler->taken_at];
}

/* Tells the application that some results of what is in flight had no effect. */
static void tell_unsettled(struct lq_feed *feed, lightq_status status, const char *text)
{
    const struct lq_settle_item *items = first_of(&feed->settler);
    struct lq_parcel *parcel = lq_feed_parcel(feed, LQ_PARCEL_UNSETTLED, 0);
    struct lightq_error *error = parcel != NULL ? malloc(sizeof *error) : NULL;
    if (error == NULL) {
        free(parcel);
        return;
    }
    lq_error_set(error, status, "topic %s partition %u: %s", feed->intake->name, feed->partition, text);
    parcel->error = error;
    parcel->first = (int64_t)items[0].first;
    parcel->end = parcel->first;
    for (size_t i = 0; i < feed->settler.flight_count; i++) {
        int64_t first = (int64_t)items[i].first;
        int64_t end = first + items[i].count;
        parcel->first = first < parcel->first ? first : parcel->first;
        parcel->end = end > parcel->end ? end : parcel->end;
    }
    parcel->base_offset = parcel->first;
    lq_fetcher_deliver(consumer_of(feed), parcel);
}

/* What is in flight has its outcome. */
static void finish(struct lq_feed *feed, lightq_status alone_status)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    struct lq_settler *settler = &feed->settler;
    uint32_t alone = first_of(settler)->alone;
    settler->taken_at += settler->flight_count;
    settler->flight_count = 0;
    settler->backoff_us = 0;
    pthread_mutex_lock(&consumer->lock);
    settler->busy = settler->taken_at < settler->taken.count;
    if (alone != 0 && consumer->alone_waits == alone) {
        consumer->alone_waits = 0;
        consumer->alone_status = alone_status;
    }
    pthread_cond_broadcast(&consumer->changed);
    pthread_mutex_unlock(&consumer->lock);
}

/* The results in flight are refused, all of them. */
static void refuse(struct lq_feed *feed, lightq_status status, const char *text)
{
    if (first_of(&feed->settler)->alone == 0 && !first_of(&feed->settler)->own) {
        tell_unsettled(feed, status, text != NULL && text[0] != '\0' ? text : lightq_status_text(status));
    }
    finish(feed, status);
}

/* What the counts of the answer mean for those who wait, or want to be told. */
static void take_counts(struct lq_feed *feed, const Lightq__Wire__SettleAnswer *answer)
{
    const struct lq_settle_item *item = first_of(&feed->settler);
    char text[TEXT_BYTES];
    bool ack = item->kind == LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK;
    lightq_status status = answer->unknown > 0           ? LIGHTQ_EOUTOFRANGE
                           : answer->not_held > 0        ? LIGHTQ_ENOTHELD
                           : answer->settled > 0 && !ack ? LIGHTQ_ESETTLED
                           : answer->waiting > 0 && !ack ? LIGHTQ_ESETTLED
                                                         : LIGHTQ_OK;
    if (status != LIGHTQ_OK && item->alone == 0 && !item->own) {
        snprintf(text, sizeof text, "results of %u messages had no effect: %u were settled, %u not held, %u not there",
                 answer->unknown + answer->not_held + answer->settled + answer->waiting,
                 answer->settled + answer->waiting, answer->not_held, answer->unknown);
        tell_unsettled(feed, status, text);
    }
    finish(feed, status);
}

static void on_settled(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_settler *settler = lq_container(request, struct lq_settler, request);
    struct lq_feed *feed = lq_container(settler, struct lq_feed, settler);
    if (reply->status == LIGHTQ_OK && reply->body != NULL) {
        take_counts(feed, reply->body);
    } else if (is_open(reply)) {
        try_again(feed, reply);
    } else {
        refuse(feed, reply->status, reply->text);
    }
    lq_feed_pump(feed);
}

/* How many of the results that are taken go into the next request: of one kind of outcome (ACKs, or others; the
 * library's own, of which nobody is told), of one generation, and what is waited for alone. */
static size_t count_part(const struct lq_settler *settler)
{
    const struct lq_settle_item *first = &settler->taken.items[settler->taken_at];
    bool ack = first->kind == LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK;
    size_t left = settler->taken.count - settler->taken_at;
    size_t count = 1;
    while (first->alone == 0 && count < left && count < LQ_SETTLE_ITEMS_MAX && first[count].alone == 0 &&
           first[count].generation == first->generation && first[count].own == first->own &&
           (first[count].kind == LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK) == ack) {
        count++;
    }
    return count;
}

/* Finds what the next request has, when none is in flight: of what was taken, or else takes all that gathered. False:
 * there is nothing. */
static bool take_next(struct lq_feed *feed)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    struct lq_settler *settler = &feed->settler;
    if (settler->flight_count > 0) {
        return true;
    }
    if (settler->taken_at == settler->taken.count) {
        pthread_mutex_lock(&consumer->lock);
        struct lq_settle_items spare = settler->taken;
        settler->taken = settler->queue;
        settler->queue = (struct lq_settle_items){.items = spare.items, .capacity = spare.capacity};
        settler->busy = settler->taken.count > 0;
        pthread_mutex_unlock(&consumer->lock);
        settler->taken_at = 0;
    }
    settler->flight_count = settler->taken.count > 0 ? count_part(settler) : 0;
    return settler->flight_count > 0;
}

static void put_item(const struct lq_settle_item *item, Lightq__Wire__SettleItem *wire)
{
    lightq__wire__settle_item__init(wire);
    wire->kind = (Lightq__Wire__SettleKind)item->kind;
    wire->offset = item->first;
    wire->count = item->count;
    wire->delivery = item->delivery;
    wire->has_delay = item->delay_ms >= 0;
    wire->delay_ms = item->delay_ms >= 0 ? (uint32_t)item->delay_ms : 0;
}

static lightq_status send_flight(struct lq_feed *feed, struct lq_conn *conn)
{
    struct lq_settler *settler = &feed->settler;
    size_t count = settler->flight_count;
    Lightq__Wire__Settle body = LIGHTQ__WIRE__SETTLE__INIT;
    Lightq__Wire__SettleItem *items = calloc(count, sizeof *items);
    Lightq__Wire__SettleItem **pointers = calloc(count, sizeof *pointers);
    lightq_status status = LIGHTQ_ENOMEM;
    if (items != NULL && pointers != NULL) {
        for (size_t i = 0; i < count; i++) {
            put_item(&first_of(settler)[i], &items[i]);
            pointers[i] = &items[i];
        }
        body.topic = lq_codec_bytes_of(&feed->intake->id);
        body.partition = feed->partition;
        body.group_number = feed->group_number;
        body.generation = first_of(settler)->generation;
        body.subscription = feed->stream.id;
        body.items = pointers;
        body.n_items = count;
        settler->request.done = on_settled;
        status = lq_conn_request(conn, &settler->request, LQ_MESSAGE_SETTLE, lq_feed_partition(feed)->group, &body.base,
                                 NULL, lq_feed_io(feed)->options.request_timeout_ms * US_PER_MS);
    }
    free(items);
    free(pointers);
    return status;
}

/* ---- commits */

static void finish_commit(struct lq_feed *feed, lightq_status status, const char *text)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    struct lq_settler *settler = &feed->settler;
    settler->backoff_us = 0;
    pthread_mutex_lock(&consumer->lock);
    settler->commit_busy = false;
    settler->commit_status = status;
    snprintf(settler->commit_text, sizeof settler->commit_text, "%s",
             text != NULL && text[0] != '\0' ? text : lightq_status_text(status));
    pthread_cond_broadcast(&consumer->changed);
    pthread_mutex_unlock(&consumer->lock);
}

static void on_committed(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_settler *settler = lq_container(request, struct lq_settler, commit_request);
    struct lq_feed *feed = lq_container(settler, struct lq_feed, settler);
    if (reply->status == LIGHTQ_OK || reply->status == LIGHTQ_ESETTLED) {
        finish_commit(feed, LIGHTQ_OK, NULL); /* it is there or further */
    } else if (is_open(reply)) {
        try_again(feed, reply);
    } else {
        finish_commit(feed, reply->status, reply->text);
    }
    lq_settler_pump(feed);
}

/* Takes the commit that is wanted when none is in flight. False: there is none. */
static bool take_commit(struct lq_feed *feed)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    struct lq_settler *settler = &feed->settler;
    pthread_mutex_lock(&consumer->lock);
    if (settler->commit_wanted) { /* also in the place of one that shall be sent again: it is newer */
        settler->commit_flight = settler->commit_offset;
        settler->commit_flight_generation = settler->commit_generation;
        settler->commit_wanted = false;
        settler->commit_busy = true;
    }
    bool busy = settler->commit_busy;
    pthread_mutex_unlock(&consumer->lock);
    return busy;
}

static lightq_status send_commit(struct lq_feed *feed, struct lq_conn *conn)
{
    struct lq_settler *settler = &feed->settler;
    Lightq__Wire__Commit body = LIGHTQ__WIRE__COMMIT__INIT;
    body.topic = lq_codec_bytes_of(&feed->intake->id);
    body.partition = feed->partition;
    body.group_number = feed->group_number;
    body.generation = settler->commit_flight_generation;
    body.offset = settler->commit_flight;
    body.timeout_ms = (uint32_t)lq_feed_io(feed)->options.request_timeout_ms;
    settler->commit_request.done = on_committed;
    return lq_conn_request(conn, &settler->commit_request, LQ_MESSAGE_COMMIT, lq_feed_partition(feed)->group,
                           &body.base, NULL, lq_feed_io(feed)->options.request_timeout_ms * US_PER_MS);
}

/* ---- */

/* The leader, when it can be asked now. */
static struct lq_conn *find_leader(struct lq_feed *feed)
{
    struct lq_io *io = lq_feed_io(feed);
    const struct lq_meta_partition *partition = lq_feed_partition(feed);
    if (partition == NULL || feed->group_number == 0 || io->now_us < feed->settler.retry_us) {
        return NULL;
    }
    if (partition->leader_conn == NULL) {
        if (!partition->doubted) {
            lq_meta_doubt(io->meta, feed->intake->topic, feed->partition);
        }
        return NULL;
    }
    return lq_conn_want(partition->leader_conn) ? partition->leader_conn : NULL;
}

void lq_settler_pump(struct lq_feed *feed)
{
    struct lq_settler *settler = &feed->settler;
    if (feed->intake->group == NULL) {
        return;
    }
    while (settler->request.conn == NULL && take_next(feed)) {
        if (feed->gone) {
            refuse(feed, LIGHTQ_ENOTFOUND, feed->text);
            continue;
        }
        struct lq_conn *conn = find_leader(feed);
        if (conn == NULL) {
            break;
        }
        lightq_status status = send_flight(feed, conn);
        if (status == LIGHTQ_ETOOBIG) {
            refuse(feed, status, NULL);
        } else if (status != LIGHTQ_OK) {
            back_off(feed);
            break;
        }
    }
    if (settler->commit_request.conn == NULL && take_commit(feed)) {
        struct lq_conn *conn = feed->gone ? NULL : find_leader(feed);
        if (feed->gone) {
            finish_commit(feed, LIGHTQ_ENOTFOUND, feed->text);
        } else if (conn != NULL && send_commit(feed, conn) != LIGHTQ_OK) {
            back_off(feed);
        }
    }
}

bool lq_settler_is_idle(const struct lq_feed *feed)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    pthread_mutex_lock(&consumer->lock);
    bool idle = feed->settler.queue.count == 0 && !feed->settler.busy;
    pthread_mutex_unlock(&consumer->lock);
    return idle;
}

void lq_settler_close(struct lq_feed *feed)
{
    lq_request_cancel(&feed->settler.request);
    lq_request_cancel(&feed->settler.commit_request);
}
