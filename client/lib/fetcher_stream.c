/* client/lib/fetcher_stream.c - one feed's subscription: asked for at the partition's leader, checked delivery by
 * delivery, made again behind the last message whenever it ends. See consumer.h. I/O thread only. */
#include "client/lib/fetcher_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/error.h"
#include "client/lib/start.h"

#define US_PER_MS           1000u
#define FEED_BYTES_LEAST    65536u /* a feed may always fetch this much, however many there are */
#define FEED_MESSAGES_LEAST 1u
#define CREDIT_PARTS        4 /* credit is granted when a quarter of the share is free */
#define TEXT_BYTES          512

static struct lightq_consumer *consumer_of(const struct lq_feed *feed)
{
    return feed->intake->consumer;
}

static uint64_t share_messages(const struct lq_feed *feed)
{
    return lq_fetcher_share(consumer_of(feed), lq_feed_io(feed)->options.fetch_messages, FEED_MESSAGES_LEAST);
}

static uint64_t share_bytes(const struct lq_feed *feed)
{
    return lq_fetcher_share(consumer_of(feed), lq_feed_io(feed)->options.fetch_bytes, FEED_BYTES_LEAST);
}

static void back_off(struct lq_feed *feed)
{
    struct lq_io *io = lq_feed_io(feed);
    uint64_t least = io->options.retry_backoff_ms * US_PER_MS;
    uint64_t most = io->options.retry_backoff_max_ms * US_PER_MS;
    feed->backoff_us = feed->backoff_us == 0 ? least : feed->backoff_us * 2;
    feed->backoff_us = feed->backoff_us < most ? feed->backoff_us : most;
    feed->retry_us = io->now_us + feed->backoff_us;
    lq_fetcher_wake_at(consumer_of(feed), feed->retry_us);
}

/* ---- parcels */

static struct lq_parcel *new_parcel(struct lq_feed *feed, enum lq_parcel_kind kind)
{
    struct lq_parcel *parcel = calloc(1, sizeof *parcel);
    if (parcel != NULL) {
        parcel->kind = kind;
        parcel->feed = feed;
        parcel->generation = feed->io_generation;
    }
    return parcel;
}

static void tell_end(struct lq_feed *feed)
{
    struct lq_parcel *parcel = feed->ended_told ? NULL : new_parcel(feed, LQ_PARCEL_END);
    if (parcel != NULL) {
        parcel->base_offset = feed->next_offset;
        feed->ended_told = true;
        lq_fetcher_deliver(consumer_of(feed), parcel);
    }
}

void lq_feed_fail(struct lq_feed *feed, lightq_status status, const char *text, int64_t first, int64_t end)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    lq_feed_close(feed, true);
    feed->stopped = true;
    pthread_mutex_lock(&consumer->lock);
    bool quiet = feed->intake->quiet && !feed->fixed;
    feed->status = status;
    snprintf(feed->text, sizeof feed->text, "%s", text[0] != '\0' ? text : lightq_status_text(status));
    pthread_cond_broadcast(&consumer->changed);
    pthread_mutex_unlock(&consumer->lock);
    struct lq_parcel *parcel = quiet ? NULL : new_parcel(feed, LQ_PARCEL_ERROR);
    struct lightq_error *error = parcel != NULL ? malloc(sizeof *error) : NULL;
    if (error == NULL) {
        free(parcel);
        return;
    }
    lq_error_set(error, status, "topic %s partition %u: %s", feed->intake->name, feed->partition, feed->text);
    parcel->error = error;
    parcel->base_offset = feed->next_offset;
    parcel->first = first;
    parcel->end = end;
    lq_fetcher_deliver(consumer, parcel);
}

/* ---- credit */

void lq_feed_credit(struct lq_feed *feed, uint64_t messages, uint64_t bytes)
{
    feed->pending_messages -= messages < feed->pending_messages ? messages : feed->pending_messages;
    feed->pending_bytes -= bytes < feed->pending_bytes ? bytes : feed->pending_bytes;
    if (feed->stream.conn == NULL || feed->request.conn != NULL) {
        return; /* the next subscription begins with what is free then */
    }
    int64_t free_messages = (int64_t)share_messages(feed) - (int64_t)feed->pending_messages - feed->credit_messages;
    int64_t free_bytes = (int64_t)share_bytes(feed) - (int64_t)feed->pending_bytes - feed->credit_bytes;
    bool due = free_messages >= (int64_t)(share_messages(feed) / CREDIT_PARTS) ||
               free_bytes >= (int64_t)(share_bytes(feed) / CREDIT_PARTS) || feed->credit_messages <= 0 ||
               feed->credit_bytes <= 0;
    if (!due) {
        return;
    }
    Lightq__Wire__Credit credit = LIGHTQ__WIRE__CREDIT__INIT;
    credit.subscription = feed->stream.id;
    credit.messages = free_messages > 0 ? (uint64_t)free_messages : 0;
    credit.bytes = free_bytes > 0 ? (uint64_t)free_bytes : 0;
    if (credit.messages > 0 || credit.bytes > 0) {
        feed->credit_messages += (int64_t)credit.messages;
        feed->credit_bytes += (int64_t)credit.bytes;
        lq_conn_push(feed->stream.conn, LQ_MESSAGE_CREDIT, lq_feed_partition(feed)->group, &credit.base);
    }
}

/* ---- the end of a subscription */

void lq_feed_close(struct lq_feed *feed, bool say)
{
    struct lq_conn *conn = feed->stream.conn;
    lq_request_cancel(&feed->request);
    lq_stream_close(&feed->stream);
    if (conn != NULL && say) {
        Lightq__Wire__Unsubscribe body = LIGHTQ__WIRE__UNSUBSCRIBE__INIT;
        body.subscription = feed->stream.id;
        lq_conn_push(conn, LQ_MESSAGE_UNSUBSCRIBE, 0, &body.base);
    }
}

/* It ended, or could not be made: another try, at whoever leads. */
static void try_again(struct lq_feed *feed, lightq_status status, const Lightq__Wire__Leader *leader)
{
    struct lq_io *io = lq_feed_io(feed);
    struct lq_topic *topic = feed->intake->topic;
    back_off(feed);
    if (status == LIGHTQ_EBUSY || status == LIGHTQ_ELIMIT) {
        return;
    }
    if (lq_meta_hint(io->meta, topic, feed->partition, leader)) {
        feed->retry_us = 0; /* news: no reason to wait */
    } else {
        lq_meta_doubt(io->meta, topic, feed->partition);
    }
}

static void on_ended(struct lq_stream *stream, const Lightq__Wire__SubscriptionEnded *ended)
{
    struct lq_feed *feed = lq_container(stream, struct lq_feed, stream);
    lq_request_cancel(&feed->request);
    try_again(feed, (lightq_status)ended->status, ended->leader);
    lq_feed_pump(feed);
}

static void on_lost(struct lq_stream *stream)
{
    struct lq_feed *feed = lq_container(stream, struct lq_feed, stream);
    lq_request_cancel(&feed->request);
    lq_feed_pump(feed);
}

/* The server does not keep to the protocol with us: begin again behind what is sure. */
static void distrust(struct lq_feed *feed)
{
    lq_feed_close(feed, true);
    back_off(feed);
}

/* ---- deliveries */

/* Whether the delivery is a batch and goes on where the last one ended. */
static bool is_sound(const struct lq_feed *feed, const Lightq__Wire__Deliver *deliver, const struct lq_slab *payload)
{
    struct lq_batch_head head;
    uint64_t next = (uint64_t)feed->next_offset;
    return lq_batch_head_decode(payload->bytes, payload->size, &head, NULL) == LIGHTQ_OK &&
           head.record_count == deliver->message_count &&
           deliver->base_offset <= (uint64_t)INT64_MAX - head.record_count && deliver->base_offset <= next &&
           deliver->first_wanted <= next && feed->credit_messages > -(int64_t)LQ_BATCH_RECORDS_MAX &&
           feed->credit_bytes > -(int64_t)LQ_ENTRY_BYTES_MAX;
}

static void on_deliver(struct lq_stream *stream, const Lightq__Wire__Deliver *deliver, struct lq_slab *payload)
{
    struct lq_feed *feed = lq_container(stream, struct lq_feed, stream);
    if (feed->next_offset == LQ_POSITION_UNKNOWN || !is_sound(feed, deliver, payload)) {
        distrust(feed);
        return;
    }
    int64_t behind = (int64_t)deliver->base_offset + deliver->message_count;
    size_t size = payload->size;
    feed->credit_messages -= deliver->message_count;
    feed->credit_bytes -= (int64_t)size;
    if (behind <= feed->next_offset) {
        lq_feed_credit(feed, 0, 0); /* a second time: not wanted */
        return;
    }
    struct lq_parcel *parcel = new_parcel(feed, LQ_PARCEL_BATCH);
    if (parcel == NULL) {
        distrust(feed); /* it comes again when there is memory */
        return;
    }
    parcel->payload = lq_slab_ref(payload);
    parcel->base_offset = (int64_t)deliver->base_offset;
    parcel->wanted = feed->next_offset;
    parcel->count = deliver->message_count;
    feed->pending_messages += deliver->message_count;
    feed->pending_bytes += size;
    feed->next_offset = behind;
    feed->ended_told = false;
    feed->term = deliver->term > feed->term ? deliver->term : feed->term;
    lq_fetcher_deliver(consumer_of(feed), parcel);
    if ((uint64_t)behind >= deliver->log_end) {
        tell_end(feed);
    }
}

/* ---- subscribing */

static void on_subscribed(struct lq_feed *feed, const Lightq__Wire__SubscribeAnswer *answer)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    bool first = feed->next_offset == LQ_POSITION_UNKNOWN;
    if (answer->offset > INT64_MAX || (!first && answer->offset != (uint64_t)feed->next_offset)) {
        distrust(feed);
        return;
    }
    feed->backoff_us = 0;
    feed->next_offset = (int64_t)answer->offset;
    feed->term = answer->term > feed->term ? answer->term : feed->term;
    pthread_mutex_lock(&consumer->lock);
    if (!feed->restart && !feed->fixed) {
        feed->fixed = true;
        feed->position = feed->next_offset;
        pthread_cond_broadcast(&consumer->changed);
    }
    pthread_mutex_unlock(&consumer->lock);
    if (answer->offset >= answer->log_end) {
        tell_end(feed);
    }
    lq_feed_credit(feed, 0, 0);
}

/* It led until lately, and ends before what has been delivered since by others: of the end it knows nothing. */
static bool is_deposed(const struct lq_feed *feed, const Lightq__Wire__SubscribeAnswer *answer)
{
    return feed->next_offset != LQ_POSITION_UNKNOWN && answer->term < feed->term &&
           answer->log_end < (uint64_t)feed->next_offset;
}

static void on_answer(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_feed *feed = lq_container(request, struct lq_feed, request);
    const Lightq__Wire__SubscribeAnswer *answer = reply->body;
    if (reply->status == LIGHTQ_OK && answer != NULL) {
        on_subscribed(feed, answer);
        return;
    }
    lq_feed_close(feed, !reply->answered);
    if (reply->status == LIGHTQ_EOUTOFRANGE && answer != NULL && is_deposed(feed, answer)) {
        try_again(feed, LIGHTQ_ENOTLEADER, NULL);
        lq_feed_pump(feed);
        return;
    }
    if (reply->status == LIGHTQ_EOUTOFRANGE && answer != NULL) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "the offset is not there: the log holds %llu to %llu",
                 (unsigned long long)answer->log_start, (unsigned long long)answer->log_end);
        lq_feed_fail(feed, LIGHTQ_EOUTOFRANGE, text, (int64_t)answer->log_start, (int64_t)answer->log_end);
        return;
    }
    if (reply->answered && !lightq_status_retriable(reply->status) && reply->status != LIGHTQ_ENOTFOUND &&
        reply->status != LIGHTQ_EIO && reply->status != LIGHTQ_EDAMAGED) {
        lq_feed_fail(feed, reply->status, reply->text, 0, 0);
        return;
    }
    try_again(feed, reply->status, reply->leader); /* ENOTFOUND: metadata tells whether the topic is gone */
    lq_feed_pump(feed);
}

static void fill_start(const struct lq_feed *feed, Lightq__Wire__Start *wire)
{
    struct lightq_start start = feed->io_start;
    if (feed->next_offset != LQ_POSITION_UNKNOWN) {
        start = (struct lightq_start){.kind = LIGHTQ_START_OFFSET, .offset = feed->next_offset};
    }
    lq_start_put(&start, wire);
}

static int64_t left_of(uint64_t share, uint64_t pending)
{
    return share > pending ? (int64_t)(share - pending) : 0;
}

static void subscribe(struct lq_feed *feed, struct lq_conn *conn)
{
    struct lq_io *io = lq_feed_io(feed);
    Lightq__Wire__Subscribe body = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    Lightq__Wire__Start start = LIGHTQ__WIRE__START__INIT;
    fill_start(feed, &start);
    feed->credit_messages = left_of(share_messages(feed), feed->pending_messages);
    feed->credit_bytes = left_of(share_bytes(feed), feed->pending_bytes);
    feed->stream = (struct lq_stream){
        .id = ++io->next_correlation, .on_deliver = on_deliver, .on_ended = on_ended, .on_lost = on_lost};
    body.topic = lq_codec_bytes_of(&feed->intake->id);
    body.partition = feed->partition;
    body.subscription = feed->stream.id;
    body.start = &start;
    body.credit_messages = (uint64_t)feed->credit_messages;
    body.credit_bytes = (uint64_t)feed->credit_bytes;
    lq_stream_open(conn, &feed->stream);
    feed->request.done = on_answer;
    if (feed->stream.conn == NULL ||
        lq_conn_request(conn, &feed->request, LQ_MESSAGE_SUBSCRIBE, lq_feed_partition(feed)->group, &body.base, NULL,
                        io->options.request_timeout_ms * US_PER_MS) != LIGHTQ_OK) {
        lq_stream_close(&feed->stream);
        back_off(feed);
    }
}

void lq_feed_pump(struct lq_feed *feed)
{
    struct lq_io *io = lq_feed_io(feed);
    const struct lq_meta_partition *partition = lq_feed_partition(feed);
    if (feed->stopped || feed->stream.conn != NULL || partition == NULL || io->now_us < feed->retry_us) {
        return;
    }
    if (partition->leader_conn == NULL) {
        if (!partition->doubted) {
            lq_meta_doubt(io->meta, feed->intake->topic, feed->partition);
        }
        return;
    }
    if (lq_conn_want(partition->leader_conn)) {
        subscribe(feed, partition->leader_conn);
    }
}
