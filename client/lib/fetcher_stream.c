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
#define GROUP_MISSES        3 /* times in a row that the leader must not know a group before it is said to be gone */

static struct lightq_consumer *consumer_of(const struct lq_feed *feed)
{
    return feed->intake->consumer;
}

static uint64_t share_messages(const struct lq_feed *feed)
{
    const struct lq_client_options *options = &lq_feed_io(feed)->options;
    uint64_t fetch = options->fetch_messages;
    if (feed->intake->group != NULL && (feed->pipeline || feed->group_number == 0) &&
        options->prefetch_messages < fetch) {
        fetch = options->prefetch_messages; /* also as long as the group's mode is not known */
    }
    return lq_fetcher_share(consumer_of(feed), fetch, FEED_MESSAGES_LEAST);
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

struct lq_parcel *lq_feed_parcel(struct lq_feed *feed, enum lq_parcel_kind kind, size_t grants)
{
    struct lq_parcel *parcel = calloc(1, sizeof *parcel + grants * sizeof parcel->grants[0]);
    if (parcel != NULL) {
        parcel->kind = kind;
        parcel->feed = feed;
        parcel->generation = feed->io_generation;
        parcel->epoch = atomic_load(&feed->epoch);
        parcel->group_generation = feed->group_generation; /* this thread writes it */
    }
    return parcel;
}

static struct lq_parcel *new_parcel(struct lq_feed *feed, enum lq_parcel_kind kind)
{
    return lq_feed_parcel(feed, kind, 0);
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
    feed->gone = status == LIGHTQ_ENOTFOUND;
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

void lq_feed_forget(struct lq_feed *feed)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    pthread_mutex_lock(&consumer->lock);
    atomic_fetch_add(&feed->epoch, 1);
    feed->returned_messages = 0;
    feed->returned_bytes = 0;
    pthread_mutex_unlock(&consumer->lock);
    feed->pending_messages = 0;
    feed->pending_bytes = 0;
}

/* The leader that granted us messages does not any more: another one grants all that is not settled anew. */
static void lose_leases(struct lq_feed *feed)
{
    if (feed->pipeline) {
        struct lq_io *io = lq_feed_io(feed);
        lq_feed_forget(feed);
        feed->hold_us = io->now_us + io->options.request_timeout_ms * US_PER_MS;
    }
}

/* Somebody moved the group: what came before is not from there. */
static void on_moved(struct lq_feed *feed)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    lq_feed_forget(feed);
    pthread_mutex_lock(&consumer->lock);
    feed->group_generation = 0;
    pthread_mutex_unlock(&consumer->lock);
    feed->next_offset = LQ_POSITION_UNKNOWN;
    feed->started = false;
    feed->moved = true;
    feed->ended_told = false;
    feed->retry_us = 0;
}

void lq_feed_close(struct lq_feed *feed, bool say)
{
    struct lq_conn *conn = feed->stream.conn;
    lq_request_cancel(&feed->request);
    lq_stream_close(&feed->stream);
    if (conn != NULL) {
        lose_leases(feed);
    }
    if (conn != NULL && say) {
        Lightq__Wire__Unsubscribe body = LIGHTQ__WIRE__UNSUBSCRIBE__INIT;
        body.subscription = feed->stream.id;
        lq_conn_push(conn, LQ_MESSAGE_UNSUBSCRIBE, 0, &body.base);
    }
}

/* It ended, or could not be made: another try, at whoever leads. */
void lq_feed_try_again(struct lq_feed *feed, lightq_status status, const Lightq__Wire__Leader *leader)
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
    lose_leases(feed);
    if (feed->intake->group != NULL && ended->status == LIGHTQ_EFENCED) {
        on_moved(feed);
    } else {
        lq_feed_try_again(feed, (lightq_status)ended->status, ended->leader);
    }
    lq_feed_pump(feed);
}

static void on_lost(struct lq_stream *stream)
{
    struct lq_feed *feed = lq_container(stream, struct lq_feed, stream);
    lq_request_cancel(&feed->request);
    lose_leases(feed);
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

/* The messages that are granted, and whether the grants lie in the batch, one after the other. */
static bool are_grants_sound(const Lightq__Wire__Deliver *deliver, uint64_t *messages)
{
    uint64_t at = 0;
    *messages = 0;
    for (size_t i = 0; i < deliver->n_grants; i++) {
        const Lightq__Wire__Grant *grant = deliver->grants[i];
        at += (uint64_t)grant->skip + grant->count;
        *messages += grant->count;
        if (grant->count == 0 || grant->delivery == 0) {
            return false;
        }
    }
    return deliver->n_grants > 0 && at <= deliver->message_count;
}

/* Messages of a batch that this consumer holds from now on. */
static void on_granted(struct lq_feed *feed, const Lightq__Wire__Deliver *deliver, struct lq_slab *payload)
{
    struct lq_batch_head head;
    uint64_t messages;
    bool sound = lq_batch_head_decode(payload->bytes, payload->size, &head, NULL) == LIGHTQ_OK &&
                 head.record_count == deliver->message_count &&
                 deliver->base_offset <= (uint64_t)INT64_MAX - head.record_count &&
                 are_grants_sound(deliver, &messages) && (int64_t)messages <= feed->credit_messages &&
                 feed->credit_bytes > -(int64_t)LQ_ENTRY_BYTES_MAX;
    struct lq_parcel *parcel = sound ? lq_feed_parcel(feed, LQ_PARCEL_BATCH, deliver->n_grants) : NULL;
    if (parcel == NULL) {
        distrust(feed); /* what was granted goes back, and comes again */
        return;
    }
    uint32_t at = 0;
    for (size_t i = 0; i < deliver->n_grants; i++) {
        const Lightq__Wire__Grant *grant = deliver->grants[i];
        parcel->grants[i] = (struct lq_grant){at + grant->skip, grant->count, grant->delivery};
        at += grant->skip + grant->count;
    }
    parcel->grant_count = deliver->n_grants;
    lq_fetcher_lease(consumer_of(feed), parcel, deliver->ack_wait_ms);
    parcel->payload = lq_slab_ref(payload);
    parcel->base_offset = (int64_t)deliver->base_offset;
    parcel->count = (uint32_t)messages;
    feed->credit_messages -= (int64_t)messages;
    feed->credit_bytes -= (int64_t)payload->size;
    feed->pending_messages += messages;
    feed->pending_bytes += payload->size;
    feed->term = deliver->term > feed->term ? deliver->term : feed->term;
    lq_fetcher_deliver(consumer_of(feed), parcel);
}

static void on_deliver(struct lq_stream *stream, const Lightq__Wire__Deliver *deliver, struct lq_slab *payload)
{
    struct lq_feed *feed = lq_container(stream, struct lq_feed, stream);
    if (feed->pipeline && feed->next_offset != LQ_POSITION_UNKNOWN) {
        on_granted(feed, deliver, payload);
        return;
    }
    if (feed->standby && deliver->first_wanted <= INT64_MAX) { /* it is our turn, from where the group is now */
        feed->standby = false;
        feed->next_offset = (int64_t)deliver->first_wanted;
    }
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

/* Whether the group is what it must be, and takes over what the answer says of it. */
static bool take_group(struct lq_feed *feed, const Lightq__Wire__SubscribeAnswer *answer)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    Lightq__Wire__GroupMode mode =
        answer->options != NULL ? answer->options->mode : LIGHTQ__WIRE__GROUP_MODE__GROUP_MODE_NONE;
    unsigned wanted = lq_feed_io(feed)->options.group_mode;
    bool pipeline = mode == LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE;
    if (mode == LIGHTQ__WIRE__GROUP_MODE__GROUP_MODE_NONE || answer->group_number == 0 || answer->generation == 0) {
        lq_feed_fail(feed, LIGHTQ_EUNSUPPORTED, "the server knows no consumer groups", 0, 0);
        return false;
    }
    if (wanted != LQ_GROUP_MODE_ANY && pipeline != (wanted == LQ_GROUP_MODE_PIPELINE)) {
        lq_feed_fail(feed, LIGHTQ_EINVAL, "the group's mode is not the one that group.mode asks for", 0, 0);
        return false;
    }
    feed->group_number = answer->group_number;
    feed->standby = answer->standby && !pipeline;
    feed->misses = 0;
    pthread_mutex_lock(&consumer->lock);
    feed->pipeline = pipeline;
    feed->group_generation = answer->generation;
    pthread_mutex_unlock(&consumer->lock);
    return true;
}

/* The application is told that it goes on elsewhere. */
static void tell_moved(struct lq_feed *feed)
{
    struct lq_parcel *parcel = new_parcel(feed, LQ_PARCEL_MOVED);
    struct lightq_error *error = parcel != NULL ? malloc(sizeof *error) : NULL;
    if (error == NULL) {
        free(parcel);
        return;
    }
    lq_error_set(error, LIGHTQ_EFENCED, "topic %s partition %u: group %s was moved, and goes on at offset %lld",
                 feed->intake->name, feed->partition, feed->intake->group, (long long)feed->next_offset);
    error->retriable = true; /* the library goes on by itself */
    parcel->error = error;
    parcel->base_offset = feed->next_offset;
    lq_fetcher_deliver(consumer_of(feed), parcel);
}

static void on_subscribed(struct lq_feed *feed, const Lightq__Wire__SubscribeAnswer *answer)
{
    struct lightq_consumer *consumer = consumer_of(feed);
    bool first = feed->next_offset == LQ_POSITION_UNKNOWN;
    if (feed->intake->group != NULL && !take_group(feed, answer)) {
        return;
    }
    if (answer->offset > INT64_MAX ||
        (!first && !feed->pipeline && !feed->standby && answer->offset != (uint64_t)feed->next_offset)) {
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
        feed->handled = LQ_POSITION_UNKNOWN;
        feed->committed = feed->intake->group != NULL ? feed->next_offset : LQ_POSITION_UNKNOWN;
        feed->given_generation = feed->group_generation;
        feed->moved = false;
        pthread_cond_broadcast(&consumer->changed);
    }
    pthread_mutex_unlock(&consumer->lock);
    if (feed->moved) {
        feed->moved = false;
        tell_moved(feed);
    }
    if (!feed->pipeline && !feed->standby && answer->offset >= answer->log_end) {
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

void lq_feed_fail_group(struct lq_feed *feed)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "there is no group %s", feed->intake->group);
    lq_feed_fail(feed, LIGHTQ_ENOTFOUND, text, 0, 0);
}

/* Whether the refusal is about the group and is taken care of: moved, or not there. */
static bool is_group_gone(struct lq_feed *feed, const struct lq_reply *reply)
{
    if (reply->status == LIGHTQ_EFENCED) {
        on_moved(feed);
        lq_feed_pump(feed);
        return true;
    }
    if (reply->status != LIGHTQ_ENOTFOUND || ++feed->misses < GROUP_MISSES) {
        return false; /* perhaps it is the topic that is gone: metadata tells meanwhile */
    }
    if (feed->partition > 0 && feed->group_number == 0) {
        lq_feed_adopt(feed);
    } else {
        lq_feed_fail_group(feed);
    }
    return true;
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
    if (feed->intake->group != NULL && reply->answered && is_group_gone(feed, reply)) {
        return;
    }
    if (reply->status == LIGHTQ_EOUTOFRANGE && answer != NULL && is_deposed(feed, answer)) {
        lq_feed_try_again(feed, LIGHTQ_ENOTLEADER, NULL);
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
    lq_feed_try_again(feed, reply->status, reply->leader); /* ENOTFOUND: metadata tells whether the topic is gone */
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
    if (feed->intake->group != NULL) {
        bool goes_on = !feed->pipeline && (feed->next_offset != LQ_POSITION_UNKNOWN || feed->started);
        body.start = goes_on ? &start : NULL; /* else where the group is */
        body.consumer_group = feed->intake->group;
        body.generation = feed->group_generation;
    }
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
    lq_settler_pump(feed); /* first, so that what is settled is not granted again */
    if (feed->stopped || feed->stream.conn != NULL || feed->request.conn != NULL || partition == NULL ||
        io->now_us < feed->retry_us) {
        return;
    }
    if (partition->leader_conn == NULL) {
        if (!partition->doubted) {
            lq_meta_doubt(io->meta, feed->intake->topic, feed->partition);
        }
        return;
    }
    if (io->now_us < feed->hold_us && !lq_settler_is_idle(feed)) {
        return; /* what is settled would be granted again */
    }
    if (lq_conn_want(partition->leader_conn)) {
        subscribe(feed, partition->leader_conn);
    }
}
