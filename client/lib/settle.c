/* client/lib/settle.c - the application's side of settling: what it says of messages of a group is checked, gathered
 * into ranges, and left for the I/O thread (settler.c); and commits, and waiting for both. See consumer.h for the two
 * sides and lightq/consumer.h for the contract. One thread at a time. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/consumer.h"
#include "client/lib/error.h"
#include "client/lib/wait.h"

#define ITEMS_FIRST 64u /* room in a new list */
#define US_PER_MS   1000u

enum { ACK = LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK };

/* ---- gathering. With the lock. */

static lightq_status reserve(struct lq_settle_items *list)
{
    if (list->count < list->capacity) {
        return LIGHTQ_OK;
    }
    if (list->count >= LQ_SETTLE_QUEUED_MAX) {
        return LIGHTQ_EBUSY;
    }
    size_t capacity = list->capacity > 0 ? list->capacity * 2 : ITEMS_FIRST;
    struct lq_settle_item *items = realloc(list->items, capacity * sizeof *items);
    if (items == NULL) {
        return LIGHTQ_ENOMEM;
    }
    list->items = items;
    list->capacity = capacity;
    return LIGHTQ_OK;
}

/* Whether @item only makes the range of @last longer. */
static bool goes_on(const struct lq_settle_item *last, const struct lq_settle_item *item)
{
    return last->kind == item->kind && last->own == item->own && last->generation == item->generation &&
           last->alone == 0 && item->alone == 0 && last->first + last->count == item->first &&
           last->delay_ms == item->delay_ms && (item->kind == ACK || last->delivery == item->delivery) &&
           (uint64_t)last->count + item->count <= LQ_SETTLE_RANGE_MAX;
}

lightq_status lq_settle_append(struct lq_settle_items *list, const struct lq_settle_item *item)
{
    if (list->count > 0 && goes_on(&list->items[list->count - 1], item)) {
        list->items[list->count - 1].count += item->count;
        return LIGHTQ_OK;
    }
    lightq_status status = reserve(list);
    if (status == LIGHTQ_OK) {
        list->items[list->count++] = *item;
    }
    return status;
}

/* The feed that @record came from, or NULL. */
static struct lq_feed *feed_of(struct lightq_consumer *consumer, const char *topic, int32_t partition)
{
    const struct lq_intake *intake = lq_consumer_find(consumer, topic, partition, false);
    return intake != NULL && partition >= 0 ? lq_intake_feed(intake, (uint32_t)partition) : NULL;
}

/* With the lock. *kick: the I/O thread must be told. */
static lightq_status settle_locked(struct lightq_consumer *consumer, const struct lightq_record *record,
                                   struct lq_settle_item *item, bool *kick)
{
    struct lq_feed *feed = feed_of(consumer, record->topic, record->partition);
    if (feed == NULL || feed->intake->group == NULL) {
        return LIGHTQ_ENOTFOUND;
    }
    if (record->offset < 0 || record->grant == 0) {
        return LIGHTQ_EINVAL; /* not of a pipeline group */
    }
    if (feed->group_generation != 0 && record->grant != feed->group_generation) {
        return LIGHTQ_EFENCED;
    }
    item->generation = record->grant;
    item->first = (uint64_t)record->offset;
    item->count = 1;
    item->delivery = record->deliveries;
    *kick = *kick || (feed->settler.queue.count == 0 && !feed->settler.busy);
    return lq_settle_append(&feed->settler.queue, item);
}

static lightq_status settle(struct lightq_consumer *consumer, const struct lightq_record *record, size_t count,
                            uint8_t kind, int64_t delay_ms)
{
    bool kick = false;
    lightq_status status = LIGHTQ_OK;
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < count && status == LIGHTQ_OK; i++) {
        struct lq_settle_item item = {.kind = kind, .delay_ms = delay_ms};
        status = settle_locked(consumer, &record[i], &item, &kick);
    }
    pthread_mutex_unlock(&consumer->lock);
    if (kick) {
        lq_io_post(&consumer->client->io, &consumer->command);
    }
    return status;
}

lightq_status lightq_consumer_ack(struct lightq_consumer *consumer, const struct lightq_record *record)
{
    return settle(consumer, record, 1, ACK, LIGHTQ_DELAY_DEFAULT);
}

lightq_status lightq_consumer_ack_many(struct lightq_consumer *consumer, const struct lightq_record *records,
                                       size_t count)
{
    return settle(consumer, records, count, ACK, LIGHTQ_DELAY_DEFAULT);
}

lightq_status lightq_consumer_nack(struct lightq_consumer *consumer, const struct lightq_record *record,
                                   int64_t delay_ms)
{
    if (delay_ms < LIGHTQ_DELAY_DEFAULT || delay_ms > (int64_t)LQ_CGROUP_DELAY_MS_MAX) {
        return LIGHTQ_EINVAL;
    }
    return settle(consumer, record, 1, LIGHTQ__WIRE__SETTLE_KIND__SETTLE_NACK, delay_ms);
}

lightq_status lightq_consumer_reject(struct lightq_consumer *consumer, const struct lightq_record *record)
{
    return settle(consumer, record, 1, LIGHTQ__WIRE__SETTLE_KIND__SETTLE_REJECT, LIGHTQ_DELAY_DEFAULT);
}

lightq_status lightq_consumer_extend(struct lightq_consumer *consumer, const struct lightq_record *record)
{
    return settle(consumer, record, 1, LIGHTQ__WIRE__SETTLE_KIND__SETTLE_EXTEND, LIGHTQ_DELAY_DEFAULT);
}

lightq_status lightq_consumer_return(struct lightq_consumer *consumer, const struct lightq_record *record)
{
    return settle(consumer, record, 1, LIGHTQ__WIRE__SETTLE_KIND__SETTLE_RETURN, LIGHTQ_DELAY_DEFAULT);
}

/* ---- waiting for an ack */

lightq_status lightq_consumer_ack_sync(struct lightq_consumer *consumer, const struct lightq_record *record,
                                       int timeout_ms, struct lightq_error *error)
{
    bool kick = false;
    struct lq_settle_item item = {.kind = ACK, .delay_ms = LIGHTQ_DELAY_DEFAULT};
    if (lq_client_forked(consumer->client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    uint64_t deadline_us = lq_deadline_in(consumer->client->io.clock, timeout_ms);
    bool in_time = true;
    pthread_mutex_lock(&consumer->lock);
    consumer->alone_last += consumer->alone_last == UINT32_MAX ? 2 : 1; /* never 0 */
    item.alone = consumer->alone_last;
    lightq_status status = settle_locked(consumer, record, &item, &kick);
    if (status != LIGHTQ_OK) {
        pthread_mutex_unlock(&consumer->lock);
        return lq_error_plain(error, status);
    }
    consumer->alone_waits = item.alone;
    consumer->alone_status = LIGHTQ_ETIMEDOUT;
    lq_io_post(&consumer->client->io, &consumer->command);
    while (consumer->alone_waits != 0 && in_time) {
        in_time = lq_cond_wait(&consumer->changed, &consumer->lock, deadline_us);
    }
    status = consumer->alone_status;
    if (consumer->alone_waits == 0) {
        pthread_mutex_unlock(&consumer->lock);
        return status == LIGHTQ_OK ? status : lq_error_plain(error, status);
    }
    consumer->alone_waits = 0; /* it goes on without anybody who waits */
    pthread_mutex_unlock(&consumer->lock);
    return lq_error_set(error, LIGHTQ_ETIMEDOUT, "the ack is not known to be stored yet");
}

/* ---- committing */

/* With the lock. False: there is nothing to do. */
static bool want_commit(struct lq_feed *feed, int64_t offset)
{
    struct lq_settler *settler = &feed->settler;
    bool same = settler->commit_generation == feed->given_generation && feed->committed >= offset;
    if (same || feed->given_generation == 0) {
        return false;
    }
    settler->commit_offset = (uint64_t)offset;
    settler->commit_generation = feed->given_generation;
    settler->commit_wanted = true;
    settler->commit_status = LIGHTQ_OK;
    feed->committed = offset;
    return true;
}

/* With the lock. Asks for what @feed's application is done with. */
static bool commit_handled(struct lq_feed *feed)
{
    return feed->fixed && !feed->pipeline && feed->handled > 0 && want_commit(feed, feed->handled);
}

/* With the lock: every feed of a subscriber group, of @intake or all. True: the I/O thread has something to do. */
static bool commit_all(struct lightq_consumer *consumer, const struct lq_intake *only)
{
    bool some = false;
    for (struct lq_intake *intake = consumer->intakes; intake != NULL; intake = intake->next) {
        for (struct lq_feed *feed = intake->feeds;
             feed != NULL && intake->group != NULL && (only == NULL || intake == only); feed = feed->next) {
            some = commit_handled(feed) || some;
        }
    }
    return some;
}

/* With the lock, given up while waiting: until no commit of @intake (of @partition, or all) is under way. */
static lightq_status wait_commits(struct lightq_consumer *consumer, const struct lq_intake *intake, int32_t partition,
                                  uint64_t deadline_us, struct lightq_error *error)
{
    bool in_time = true;
    for (;;) {
        bool open = false;
        for (const struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
            const struct lq_settler *settler = &feed->settler;
            if (partition != LIGHTQ_PARTITION_ANY && feed->partition != (uint32_t)partition) {
                continue;
            }
            open = open || settler->commit_wanted || settler->commit_busy;
            if (settler->commit_status != LIGHTQ_OK) {
                return lq_error_set(error, settler->commit_status, "topic %s partition %u: %s", intake->name,
                                    feed->partition, settler->commit_text);
            }
        }
        if (!open) {
            return LIGHTQ_OK;
        }
        if (!in_time) {
            return lq_error_set(error, LIGHTQ_ETIMEDOUT, "topic %s: a commit is not known to be stored yet",
                                intake->name);
        }
        in_time = lq_cond_wait(&consumer->changed, &consumer->lock, deadline_us);
    }
}

/* With the lock. */
static lightq_status commit_locked(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                   int64_t offset, int timeout_ms, struct lightq_error *error)
{
    struct lq_intake *intake = lq_consumer_find(consumer, topic, partition, false);
    if (intake == NULL || intake->group == NULL) {
        return lq_error_set(error, LIGHTQ_ENOTFOUND, "this consumer has not joined a group of topic %s", topic);
    }
    struct lq_feed *feed = partition != LIGHTQ_PARTITION_ANY ? lq_intake_feed(intake, (uint32_t)partition) : NULL;
    if (partition != LIGHTQ_PARTITION_ANY && feed == NULL) {
        return lq_error_set(error, LIGHTQ_ENOTFOUND, "topic %s partition %d is not read", topic, partition);
    }
    for (struct lq_feed *at = intake->feeds; at != NULL; at = at->next) {
        if (at->pipeline) {
            return lq_error_set(error, LIGHTQ_EINVAL, "group %s is a pipeline: its messages are acked", intake->group);
        }
        at->settler.commit_status = LIGHTQ_OK;
    }
    bool some = feed != NULL ? want_commit(feed, offset) : false;
    if (feed == NULL) {
        for (struct lq_feed *at = intake->feeds; at != NULL; at = at->next) {
            at->handled = at->fixed ? at->position : at->handled;
        }
        some = commit_all(consumer, intake);
    }
    if (some) {
        lq_io_post(&consumer->client->io, &consumer->command);
    }
    return timeout_ms == 0 ? LIGHTQ_OK
                           : wait_commits(consumer, intake, partition,
                                          lq_deadline_in(consumer->client->io.clock, timeout_ms), error);
}

lightq_status lightq_consumer_commit(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                     int64_t offset, int timeout_ms, struct lightq_error *error)
{
    if (lq_client_forked(consumer->client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    if (partition < LIGHTQ_PARTITION_ANY || (partition != LIGHTQ_PARTITION_ANY && offset < 0)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "not a partition, or not an offset");
    }
    pthread_mutex_lock(&consumer->lock);
    lightq_status status = commit_locked(consumer, topic, partition, offset, timeout_ms, error);
    pthread_mutex_unlock(&consumer->lock);
    return status;
}

/* ---- what the library does by itself */

void lq_settle_given(struct lightq_consumer *consumer, const struct lightq_record *record)
{
    if (!consumer->client->io.options.auto_ack || record->grant == 0) {
        return;
    }
    struct lq_settle_item item = {.kind = ACK,
                                  .delay_ms = LIGHTQ_DELAY_DEFAULT,
                                  .first = (uint64_t)record->offset,
                                  .count = 1,
                                  .delivery = record->deliveries,
                                  .generation = record->grant};
    struct lq_given *last = consumer->given_count > 0 ? &consumer->given[consumer->given_count - 1] : NULL;
    if (last != NULL && last->feed == consumer->current->feed && goes_on(&last->item, &item)) {
        last->item.count++;
        return;
    }
    if (consumer->given_count == consumer->given_capacity) {
        size_t capacity = consumer->given_capacity > 0 ? consumer->given_capacity * 2 : ITEMS_FIRST;
        struct lq_given *given = realloc(consumer->given, capacity * sizeof *given);
        if (given == NULL) {
            return; /* it is not acked, and so comes again */
        }
        consumer->given = given;
        consumer->given_capacity = capacity;
    }
    consumer->given[consumer->given_count++] = (struct lq_given){.feed = consumer->current->feed, .item = item};
}

/* Acks what was given. */
static void ack_given(struct lightq_consumer *consumer)
{
    bool kick = false;
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < consumer->given_count; i++) {
        struct lq_settler *settler = &consumer->given[i].feed->settler;
        kick = kick || (settler->queue.count == 0 && !settler->busy);
        if (lq_settle_append(&settler->queue, &consumer->given[i].item) != LIGHTQ_OK) {
            break; /* those are not acked, and so come again */
        }
    }
    pthread_mutex_unlock(&consumer->lock);
    consumer->given_count = 0;
    if (kick) {
        lq_io_post(&consumer->client->io, &consumer->command);
    }
}

/* Whatever was given until now is done with. With the lock. */
static void mark_handled(struct lightq_consumer *consumer)
{
    for (struct lq_intake *intake = consumer->intakes; intake != NULL; intake = intake->next) {
        for (struct lq_feed *feed = intake->feeds; feed != NULL && intake->group != NULL; feed = feed->next) {
            feed->handled = feed->fixed ? feed->position : feed->handled;
        }
    }
}

static void commit_given(struct lightq_consumer *consumer, uint64_t now_us)
{
    const struct lq_client_options *options = &consumer->client->io.options;
    if (now_us < consumer->next_commit_us) {
        return;
    }
    bool first = consumer->next_commit_us == 0;
    consumer->next_commit_us = now_us + options->auto_commit_interval_ms * US_PER_MS;
    if (first) {
        return;
    }
    pthread_mutex_lock(&consumer->lock);
    mark_handled(consumer);
    bool some = commit_all(consumer, NULL);
    pthread_mutex_unlock(&consumer->lock);
    if (some) {
        lq_io_post(&consumer->client->io, &consumer->command);
    }
}

void lq_settle_polled(struct lightq_consumer *consumer)
{
    if (!consumer->grouped) {
        return;
    }
    uint64_t now_us = lq_clock_monotonic_us(consumer->client->io.clock);
    pthread_mutex_lock(&consumer->lock);
    consumer->polled_us = now_us;
    pthread_mutex_unlock(&consumer->lock);
    if (consumer->given_count > 0) {
        ack_given(consumer);
    }
    if (consumer->client->io.options.auto_commit) {
        commit_given(consumer, now_us);
    }
}

/* ---- waiting for all */

static bool is_open(const struct lightq_consumer *consumer)
{
    for (const struct lq_intake *intake = consumer->intakes; intake != NULL; intake = intake->next) {
        for (const struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
            const struct lq_settler *settler = &feed->settler;
            if (settler->queue.count > 0 || settler->busy || settler->commit_wanted || settler->commit_busy) {
                return true;
            }
        }
    }
    return false;
}

lightq_status lightq_consumer_flush(struct lightq_consumer *consumer, int timeout_ms)
{
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    uint64_t deadline_us = lq_deadline_in(consumer->client->io.clock, timeout_ms);
    bool in_time = true;
    pthread_mutex_lock(&consumer->lock);
    while (is_open(consumer) && in_time) {
        in_time = lq_cond_wait(&consumer->changed, &consumer->lock, deadline_us);
    }
    bool open = is_open(consumer);
    pthread_mutex_unlock(&consumer->lock);
    return open ? LIGHTQ_ETIMEDOUT : LIGHTQ_OK;
}

lightq_status lq_settle_finish(struct lightq_consumer *consumer, int timeout_ms)
{
    if (!consumer->grouped) {
        return LIGHTQ_OK;
    }
    ack_given(consumer);
    if (consumer->client->io.options.auto_commit) {
        pthread_mutex_lock(&consumer->lock);
        mark_handled(consumer);
        bool some = commit_all(consumer, NULL);
        pthread_mutex_unlock(&consumer->lock);
        if (some) {
            lq_io_post(&consumer->client->io, &consumer->command);
        }
    }
    return lightq_consumer_flush(consumer, timeout_ms);
}
