/* client/lib/consumer.c - the application's side of a consumer: parcels are taken apart into messages here. See
 * consumer.h for the other side and lightq/consumer.h for the contract. One thread at a time. */
#include "client/lib/consumer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/lib/error.h"
#include "client/lib/wait.h"

#define DAMAGED_MAX 3 /* times a damaged batch is fetched again before the application is told */

/* ---- life */

lightq_status lightq_consumer_new(struct lightq *client, struct lightq_consumer **consumer, struct lightq_error *error)
{
    if (lq_client_forked(client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    struct lightq_consumer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->fd < 0) {
        free(made);
        return lq_error_set(error, LIGHTQ_ELIMIT, "cannot make an eventfd: %s", strerror(errno));
    }
    made->client = client;
    pthread_mutex_init(&made->lock, NULL);
    lq_cond_init(&made->changed);
    lq_fetcher_init(made);
    atomic_fetch_add(&client->users, 1);
    lq_io_post(&client->io, &made->command);
    *consumer = made;
    return LIGHTQ_OK;
}

void lq_parcel_free(struct lq_parcel *parcel)
{
    lq_slab_unref(parcel->payload);
    free(parcel->error);
    free(parcel);
}

/* ---- parcels */

/* True when a seek, or the loss of what it was granted under, has made @parcel worthless. Of its generation only the
 * application's thread raises the newest. What a group's results came to is told whatever happened since. */
bool lq_parcel_is_stale(const struct lq_parcel *parcel)
{
    const struct lq_feed *feed = parcel->feed;
    return parcel->kind != LQ_PARCEL_UNSETTLED &&
           (parcel->generation != feed->generation || parcel->epoch != atomic_load(&feed->epoch));
}

/* The next parcel that is not of before a seek, or NULL. With the lock. */
static struct lq_parcel *take_ready(struct lightq_consumer *consumer, struct lq_parcel **stale)
{
    while (consumer->ready_first != NULL) {
        struct lq_parcel *parcel = consumer->ready_first;
        consumer->ready_first = parcel->next;
        if (consumer->ready_first == NULL) {
            consumer->ready_last = NULL;
        }
        if (parcel->feed == NULL || !lq_parcel_is_stale(parcel)) {
            return parcel;
        }
        parcel->next = *stale;
        *stale = parcel;
    }
    return NULL;
}

static void free_parcels(struct lq_parcel *parcel)
{
    while (parcel != NULL) {
        struct lq_parcel *next = parcel->next;
        lq_parcel_free(parcel);
        parcel = next;
    }
}

/* The next parcel becomes the current one. False: there is none. */
static bool next_parcel(struct lightq_consumer *consumer)
{
    struct lq_parcel *stale = NULL;
    pthread_mutex_lock(&consumer->lock);
    consumer->current = take_ready(consumer, &stale);
    if (consumer->ready_first == NULL && consumer->signaled) {
        uint64_t drained;
        ssize_t got = read(consumer->fd, &drained, sizeof drained);
        (void)got;
        consumer->signaled = false;
    }
    pthread_mutex_unlock(&consumer->lock);
    free_parcels(stale);
    return consumer->current != NULL;
}

/* The current parcel is done with: its memory goes, and its credit goes back. */
static void drop_current(struct lightq_consumer *consumer)
{
    struct lq_parcel *parcel = consumer->current;
    if (parcel == NULL) {
        return;
    }
    if (parcel->kind != LQ_PARCEL_BATCH) {
        pthread_mutex_lock(&consumer->lock);
        consumer->current = NULL;
        pthread_mutex_unlock(&consumer->lock);
    } else {
        lq_batch_close(&consumer->batch);
        pthread_mutex_lock(&consumer->lock);
        consumer->current = NULL;
        if (!lq_parcel_is_stale(parcel)) {
            parcel->feed->returned_messages += parcel->count;
            parcel->feed->returned_bytes += parcel->payload->size;
        }
        pthread_mutex_unlock(&consumer->lock);
        lq_io_post(&consumer->client->io, &consumer->command);
    }
    lq_parcel_free(parcel);
}

void lightq_consumer_release(struct lightq_consumer *consumer)
{
    if (!lq_client_forked(consumer->client) && consumer->current != NULL &&
        (consumer->current->kind != LQ_PARCEL_BATCH ||
         consumer->batch.next_index == consumer->batch.head.record_count)) {
        drop_current(consumer);
    }
}

/* ---- seeking */

void lq_feed_restart(struct lq_feed *feed, const struct lightq_start *start)
{
    feed->start = *start;
    feed->generation++;
    feed->restart = true;
    feed->fixed = false;
    feed->status = LIGHTQ_OK;
    feed->returned_messages = 0;
    feed->returned_bytes = 0;
}

/* The batch at the feed's position is not sound as it came: fetch it again. True: the application must be told. */
static bool refetch(struct lightq_consumer *consumer, struct lq_feed *feed)
{
    struct lightq_start start = {.kind = LIGHTQ_START_OFFSET, .offset = feed->position};
    if (++feed->damaged > DAMAGED_MAX) {
        return true;
    }
    pthread_mutex_lock(&consumer->lock);
    lq_feed_restart(feed, &start);
    pthread_mutex_unlock(&consumer->lock);
    lq_io_post(&consumer->client->io, &consumer->command);
    return false;
}

/* The current parcel is a damaged batch. True: @event tells of it. */
static bool on_damaged(struct lightq_consumer *consumer, const struct lq_err *err, struct lightq_event *event)
{
    struct lq_feed *feed = consumer->current->feed;
    bool tell = refetch(consumer, feed);
    if (tell) {
        lq_error_set(&consumer->error, LIGHTQ_ECORRUPT, "topic %s partition %u offset %lld: %s", feed->intake->name,
                     feed->partition, (long long)feed->position, err->text);
        *event = (struct lightq_event){.kind = LIGHTQ_EVENT_ERROR, .error = &consumer->error};
        event->record.topic = feed->intake->name;
        event->record.partition = (int32_t)feed->partition;
        event->record.offset = feed->position;
        pthread_mutex_lock(&consumer->lock);
        feed->generation++; /* what came behind it is not given: that would be a gap */
        pthread_mutex_unlock(&consumer->lock);
        feed->damaged = 0;
    }
    drop_current(consumer);
    return tell;
}

/* ---- messages */

/* Whether the message number @index of the current batch is ours, and which delivery. *over: none behind it is. */
static bool is_granted(struct lightq_consumer *consumer, uint32_t index, uint32_t *delivery, bool *over)
{
    const struct lq_parcel *parcel = consumer->current;
    while (consumer->grant_at < parcel->grant_count &&
           index >= parcel->grants[consumer->grant_at].first + parcel->grants[consumer->grant_at].count) {
        consumer->grant_at++;
    }
    *over = consumer->grant_at == parcel->grant_count;
    if (*over || index < parcel->grants[consumer->grant_at].first) {
        return false;
    }
    *delivery = parcel->grants[consumer->grant_at].delivery;
    return true;
}

/* The next wanted message of the current batch. OK | ENOTFOUND (no more) | EPROTO (not sound). */
static lightq_status next_message(struct lightq_consumer *consumer, struct lightq_record *out)
{
    struct lq_parcel *parcel = consumer->current;
    struct lq_feed *feed = parcel->feed;
    struct lq_record record;
    int64_t offset;
    uint32_t delivery = 1;
    bool over = false, wanted;
    do {
        lightq_status status = lq_batch_next(&consumer->batch, &record);
        if (status != LIGHTQ_OK) {
            return status;
        }
        offset = parcel->base_offset + record.index;
        wanted =
            parcel->grant_count == 0 ? offset >= parcel->wanted : is_granted(consumer, record.index, &delivery, &over);
    } while (!wanted && !over);
    if (over) {
        return LIGHTQ_ENOTFOUND;
    }
    *out = (struct lightq_record){
        .topic = feed->intake->name,
        .partition = (int32_t)feed->partition,
        .offset = offset,
        .timestamp_ms = (int64_t)record.timestamp_ms,
        .key = record.key.bytes,
        .key_size = record.key.size,
        .value = record.value.bytes,
        .value_size = record.value.size,
        .header_count = record.header_count,
        .headers = record.headers.bytes,
        .headers_size = record.headers.size,
        .producer = consumer->batch.head.producer_id,
        .batch_crc = consumer->batch.head.crc,
        .sequence = record.sequence,
        .deliveries = delivery,
        .grant = parcel->grant_count > 0 ? parcel->group_generation : 0,
    };
    feed->position = offset + 1;
    atomic_store_explicit(&parcel->given, record.index + 1, memory_order_relaxed);
    lq_settle_given(consumer, out);
    return LIGHTQ_OK;
}

static void fill_event(struct lightq_consumer *consumer, struct lightq_event *event)
{
    struct lq_parcel *parcel = consumer->current;
    *event = (struct lightq_event){.kind = LIGHTQ_EVENT_END, .first = parcel->first, .end = parcel->end};
    if (parcel->feed != NULL) {
        event->record.topic = parcel->feed->intake->name;
        event->record.partition = (int32_t)parcel->feed->partition;
        event->record.offset = parcel->base_offset;
    }
    if (parcel->kind == LQ_PARCEL_MOVED) {
        parcel->feed->position = parcel->base_offset;
        parcel->feed->handled = LQ_POSITION_UNKNOWN;
        parcel->feed->committed = parcel->base_offset;
        parcel->feed->given_generation = parcel->group_generation;
    }
    if (parcel->kind != LQ_PARCEL_END) {
        event->kind = parcel->kind == LQ_PARCEL_UNSETTLED ? LIGHTQ_EVENT_UNSETTLED : LIGHTQ_EVENT_ERROR;
        consumer->error = *parcel->error;
        event->error = &consumer->error;
    }
}

static bool is_current_stale(const struct lightq_consumer *consumer)
{
    const struct lq_parcel *parcel = consumer->current;
    return parcel != NULL && parcel->feed != NULL && lq_parcel_is_stale(parcel);
}

/* Gives the next message, end or error there is. False: nothing is there. */
static bool give(struct lightq_consumer *consumer, struct lightq_event *event)
{
    struct lq_err err;
    for (;;) {
        if (consumer->current != NULL && consumer->current->kind == LQ_PARCEL_BATCH && !is_current_stale(consumer)) {
            lightq_status status = next_message(consumer, &event->record);
            if (status == LIGHTQ_OK) {
                event->kind = LIGHTQ_EVENT_MESSAGE;
                return true;
            }
            lq_err_set(&err, LIGHTQ_ECORRUPT, "the records of the batch are not sound");
            if (status != LIGHTQ_ENOTFOUND && on_damaged(consumer, &err, event)) {
                return true;
            }
        }
        drop_current(consumer);
        if (!next_parcel(consumer)) {
            return false;
        }
        struct lq_parcel *parcel = consumer->current;
        if (parcel->kind != LQ_PARCEL_BATCH) {
            fill_event(consumer, event);
            return true;
        }
        consumer->grant_at = 0;
        lightq_status status = lq_batch_open(&consumer->batch, parcel->payload->bytes, parcel->payload->size, &err);
        if (status != LIGHTQ_OK) {
            consumer->batch = (struct lq_batch){.unpacked = NULL};
            if (on_damaged(consumer, &err, event)) {
                return true;
            }
        }
    }
}

static int wait_ready(const struct lightq_consumer *consumer, int timeout_ms)
{
    struct pollfd polled = {.fd = consumer->fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms);
}

lightq_status lightq_consumer_poll(struct lightq_consumer *consumer, int timeout_ms, struct lightq_event *event)
{
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    lq_settle_polled(consumer);
    if (consumer->has_stashed) {
        consumer->has_stashed = false;
        *event = consumer->stashed;
        return LIGHTQ_OK;
    }
    if (give(consumer, event)) {
        return LIGHTQ_OK;
    }
    event->kind = LIGHTQ_EVENT_NONE;
    if (timeout_ms != 0 && wait_ready(consumer, timeout_ms) > 0 && !give(consumer, event)) {
        event->kind = LIGHTQ_EVENT_NONE;
    }
    return LIGHTQ_OK;
}

/* True when the current parcel, or the next one, is a batch that can give messages. */
static bool has_messages(struct lightq_consumer *consumer)
{
    if (consumer->current != NULL && consumer->current->kind == LQ_PARCEL_BATCH && !is_current_stale(consumer) &&
        consumer->batch.next_index < consumer->batch.head.record_count) {
        return true;
    }
    pthread_mutex_lock(&consumer->lock);
    bool batch = consumer->ready_first != NULL && consumer->ready_first->kind == LQ_PARCEL_BATCH;
    pthread_mutex_unlock(&consumer->lock);
    return batch;
}

lightq_status lightq_consumer_poll_many(struct lightq_consumer *consumer, int timeout_ms, struct lightq_record *records,
                                        size_t capacity, size_t *count)
{
    struct lightq_event event = {.kind = LIGHTQ_EVENT_NONE};
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    if (capacity == 0) {
        return LIGHTQ_EINVAL;
    }
    *count = 0;
    lq_settle_polled(consumer);
    if (consumer->has_stashed) {
        return LIGHTQ_OK;
    }
    if (!has_messages(consumer) && (timeout_ms == 0 || wait_ready(consumer, timeout_ms) <= 0)) {
        return LIGHTQ_OK;
    }
    if (!has_messages(consumer) || !give(consumer, &event)) {
        return LIGHTQ_OK;
    }
    if (event.kind != LIGHTQ_EVENT_MESSAGE) {
        consumer->stashed = event; /* for lightq_consumer_poll */
        consumer->has_stashed = true;
        return LIGHTQ_OK;
    }
    records[(*count)++] = event.record;
    while (*count < capacity && next_message(consumer, &records[*count]) == LIGHTQ_OK) {
        (*count)++;
    }
    return LIGHTQ_OK;
}

lightq_status lightq_consumer_fd(struct lightq_consumer *consumer, int *fd)
{
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    *fd = consumer->fd;
    return LIGHTQ_OK;
}

lightq_status lightq_record_header(const struct lightq_record *record, size_t index, struct lightq_header *header)
{
    struct lq_span left = lq_span_of(record->headers, record->headers_size);
    struct lq_record_header found;
    if (index >= record->header_count) {
        return LIGHTQ_ENOTFOUND;
    }
    for (size_t i = 0; i <= index; i++) {
        if (!lq_record_header_next(&left, &found)) {
            return LIGHTQ_ECORRUPT;
        }
    }
    *header = (struct lightq_header){
        .name = (const char *)found.name.bytes,
        .name_size = found.name.size,
        .value = found.value.bytes,
        .value_size = found.value.size,
    };
    return LIGHTQ_OK;
}
