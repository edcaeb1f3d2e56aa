/* client/lib/fetcher.c - the I/O thread's side of a consumer: makes the feeds of an intake when its topic is known,
 * follows leaders, takes the application's wishes. One feed's subscription is in fetcher_stream.c. See consumer.h. */
#include "client/lib/fetcher_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/error.h"

#define US_PER_MS    1000u
#define EXTEND_PARTS 3 /* leases of messages that wait are extended when a third of their time has passed */

void lq_fetcher_wake_at(struct lightq_consumer *consumer, uint64_t at_us)
{
    if (at_us < consumer->observer.deadline_us) {
        consumer->observer.deadline_us = at_us;
    }
}

void lq_fetcher_deliver(struct lightq_consumer *consumer, struct lq_parcel *parcel)
{
    parcel->next = NULL;
    if (consumer->turned_last != NULL) {
        consumer->turned_last->next = parcel;
    } else {
        consumer->turned_first = parcel;
    }
    consumer->turned_last = parcel;
}

/* What came in this turn goes to poll(). */
static void hand_over(struct lightq_consumer *consumer)
{
    if (consumer->turned_first == NULL) {
        return;
    }
    pthread_mutex_lock(&consumer->lock);
    if (consumer->ready_last != NULL) {
        consumer->ready_last->next = consumer->turned_first;
    } else {
        consumer->ready_first = consumer->turned_first;
    }
    consumer->ready_last = consumer->turned_last;
    if (!consumer->signaled) {
        uint64_t one = 1;
        consumer->signaled = true;
        ssize_t written = write(consumer->fd, &one, sizeof one);
        (void)written; /* cannot fail: it is 0 before */
    }
    pthread_mutex_unlock(&consumer->lock);
    consumer->turned_first = NULL;
    consumer->turned_last = NULL;
}

static void on_turn(struct lq_observer *observer)
{
    hand_over(lq_container(observer, struct lightq_consumer, observer));
}

/* ---- leases of what waits for the application */

void lq_fetcher_lease(struct lightq_consumer *consumer, struct lq_parcel *parcel, uint32_t ack_wait_ms)
{
    parcel->ack_wait_ms = ack_wait_ms;
    parcel->extend_us =
        ack_wait_ms == 0 ? UINT64_MAX : consumer->client->io.now_us + (uint64_t)ack_wait_ms * US_PER_MS / EXTEND_PARTS;
    if (parcel->extend_us < consumer->extend_us) {
        consumer->extend_us = parcel->extend_us;
        lq_fetcher_wake_at(consumer, parcel->extend_us);
    }
}

/* With the lock. Says that the messages of @parcel that were not given yet are still wanted. */
static void extend_parcel(struct lightq_consumer *consumer, struct lq_parcel *parcel)
{
    uint32_t given = atomic_load_explicit(&parcel->given, memory_order_relaxed);
    parcel->extend_us = consumer->client->io.now_us + (uint64_t)parcel->ack_wait_ms * US_PER_MS / EXTEND_PARTS;
    for (size_t i = 0; i < parcel->grant_count; i++) {
        const struct lq_grant *grant = &parcel->grants[i];
        uint32_t end = grant->first + grant->count;
        uint32_t first = grant->first > given ? grant->first : given;
        struct lq_settle_item item = {.kind = LIGHTQ__WIRE__SETTLE_KIND__SETTLE_EXTEND,
                                      .own = true,
                                      .first = (uint64_t)parcel->base_offset + first,
                                      .delivery = grant->delivery,
                                      .delay_ms = LIGHTQ_DELAY_DEFAULT,
                                      .generation = parcel->group_generation};
        if (first < end) {
            item.count = end - first;
            lightq_status status = lq_settle_append(&parcel->feed->settler.queue, &item);
            (void)status; /* no room now: at the next time */
        }
    }
}

/* Extends what is due, unless the application seems to be gone; finds out when the next is. */
static void extend_leases(struct lightq_consumer *consumer)
{
    struct lq_io *io = &consumer->client->io;
    if (io->now_us < consumer->extend_us) {
        return;
    }
    consumer->extend_us = UINT64_MAX;
    pthread_mutex_lock(&consumer->lock);
    bool alive = io->now_us - consumer->polled_us < io->options.max_poll_interval_ms * US_PER_MS ||
                 io->now_us < consumer->polled_us;
    struct lq_parcel *parcel = consumer->current != NULL ? consumer->current : consumer->ready_first;
    while (parcel != NULL && alive) {
        if (parcel->grant_count > 0 && !lq_parcel_is_stale(parcel)) {
            if (parcel->extend_us <= io->now_us) {
                extend_parcel(consumer, parcel);
            }
            consumer->extend_us = parcel->extend_us < consumer->extend_us ? parcel->extend_us : consumer->extend_us;
        }
        parcel = parcel == consumer->current ? consumer->ready_first : parcel->next;
    }
    pthread_mutex_unlock(&consumer->lock);
}

/* The intakes there are now. The application's thread only ever adds in front; this thread takes off (end_intake). */
static struct lq_intake *intakes_of(struct lightq_consumer *consumer)
{
    pthread_mutex_lock(&consumer->lock);
    struct lq_intake *intakes = consumer->intakes;
    pthread_mutex_unlock(&consumer->lock);
    return intakes;
}

uint64_t lq_fetcher_share(const struct lightq_consumer *consumer, uint64_t whole, uint64_t least)
{
    uint64_t share = whole / (consumer->feed_count > 0 ? consumer->feed_count : 1);
    return share > least ? share : least < whole ? least : whole;
}

/* ---- feeds */

static lightq_status add_feed(struct lq_intake *intake, uint32_t partition, const struct lightq_start *start)
{
    struct lq_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL) {
        return LIGHTQ_ENOMEM;
    }
    feed->intake = intake;
    feed->partition = partition;
    feed->start = *start;
    feed->io_start = *start;
    feed->next_offset = LQ_POSITION_UNKNOWN;
    feed->committed = LQ_POSITION_UNKNOWN;
    feed->handled = LQ_POSITION_UNKNOWN;
    atomic_init(&feed->epoch, 0);
    pthread_mutex_lock(&intake->consumer->lock);
    feed->next = intake->feeds;
    intake->feeds = feed;
    pthread_mutex_unlock(&intake->consumer->lock);
    intake->consumer->feed_count++;
    return LIGHTQ_OK;
}

/* Makes the feeds that are not there yet. Partitions that a topic got later are read from their beginning. */
static lightq_status cover(struct lq_intake *intake)
{
    struct lq_topic *topic = intake->topic;
    const struct lightq_start beginning = {.kind = LIGHTQ_START_BEGIN};
    if (intake->partition != LIGHTQ_PARTITION_ANY) {
        if ((uint32_t)intake->partition >= topic->partition_count) {
            return LIGHTQ_ENOTFOUND;
        }
        lightq_status added = LIGHTQ_OK;
        if (intake->covered == 0) {
            added = add_feed(intake, (uint32_t)intake->partition, &intake->start);
            intake->covered = added == LIGHTQ_OK;
        }
        return added;
    }
    bool later = intake->state == LQ_INTAKE_KNOWN;
    lightq_status status = LIGHTQ_OK;
    while (status == LIGHTQ_OK && intake->covered < topic->partition_count) {
        status = add_feed(intake, intake->covered, later ? &beginning : &intake->start);
        intake->covered += status == LIGHTQ_OK;
    }
    return status;
}

static void set_intake(struct lq_intake *intake, enum lq_intake_state state, lightq_status status, const char *text)
{
    struct lightq_consumer *consumer = intake->consumer;
    pthread_mutex_lock(&consumer->lock);
    intake->state = state;
    intake->status = status;
    snprintf(intake->text, sizeof intake->text, "%s", text);
    pthread_cond_broadcast(&consumer->changed);
    pthread_mutex_unlock(&consumer->lock);
}

static void tell(struct lightq_consumer *consumer, const struct lightq_error *error)
{
    struct lq_parcel *parcel = calloc(1, sizeof *parcel);
    struct lightq_error *copy = parcel != NULL ? malloc(sizeof *copy) : NULL;
    if (copy == NULL) {
        free(parcel);
        return;
    }
    *copy = *error;
    parcel->kind = LQ_PARCEL_ERROR;
    parcel->error = copy;
    lq_fetcher_deliver(consumer, parcel);
}

/* The topic is not there, or may not be read. */
static void fail_intake(struct lq_intake *intake, lightq_status status, const char *text)
{
    struct lightq_error error;
    bool had_feeds = intake->feeds != NULL;
    bool again = intake->state == LQ_INTAKE_FAILED;
    pthread_mutex_lock(&intake->consumer->lock);
    bool quiet = intake->quiet;
    pthread_mutex_unlock(&intake->consumer->lock);
    for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        if (!feed->stopped) {
            lq_feed_fail(feed, status, text, 0, 0);
        }
    }
    if (!again) {
        set_intake(intake, LQ_INTAKE_FAILED, status, text);
    }
    if (!had_feeds && !again && !quiet) {
        lq_error_set(&error, status, "topic %s: %s", intake->name, text);
        tell(intake->consumer, &error);
    }
}

static void follow_leader(struct lq_feed *feed)
{
    const struct lq_meta_partition *partition = lq_feed_partition(feed);
    if (partition != NULL && partition->leader_conn != NULL && feed->stream.conn != NULL &&
        feed->stream.conn != partition->leader_conn) {
        lq_feed_close(feed, true);
        feed->retry_us = 0;
    }
    lq_feed_pump(feed);
}

static void on_intake_topic(struct lq_intake *intake)
{
    struct lq_topic *topic = intake->topic;
    if (topic->status == LIGHTQ_ENOTREADY) {
        return;
    }
    if (topic->status != LIGHTQ_OK) {
        if (!lightq_status_retriable(topic->status)) {
            fail_intake(intake, topic->status, topic->text);
        }
        return;
    }
    bool known = intake->covered > 0;
    if (known && !lq_id_equal(&intake->id, &topic->id)) {
        fail_intake(intake, LIGHTQ_ENOTFOUND, "the topic was deleted; another one has its name now");
        return;
    }
    intake->id = topic->id;
    lightq_status status = cover(intake);
    if (status == LIGHTQ_ENOTFOUND) {
        fail_intake(intake, status, "the topic has no such partition");
        return;
    }
    if (status == LIGHTQ_OK && intake->state == LQ_INTAKE_ASKED) {
        set_intake(intake, LQ_INTAKE_KNOWN, LIGHTQ_OK, "");
    } else if (status != LIGHTQ_OK) {
        lq_meta_want(intake->consumer->client->io.meta, topic); /* no memory now: once more with the next answer */
    }
    for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        follow_leader(feed);
    }
}

/* ---- what happens */

static void on_topic(struct lq_observer *observer, struct lq_topic *topic)
{
    struct lightq_consumer *consumer = lq_container(observer, struct lightq_consumer, observer);
    for (struct lq_intake *intake = intakes_of(consumer); intake != NULL; intake = intake->next) {
        if (intake->topic == topic) {
            on_intake_topic(intake);
        }
    }
}

static void pump_all(struct lightq_consumer *consumer)
{
    for (struct lq_intake *intake = intakes_of(consumer); intake != NULL; intake = intake->next) {
        for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
            lq_feed_pump(feed);
        }
    }
}

static void on_conn(struct lq_observer *observer, struct lq_conn *conn)
{
    struct lightq_consumer *consumer = lq_container(observer, struct lightq_consumer, observer);
    (void)conn;
    pthread_mutex_lock(&consumer->lock);
    consumer->refusal = LIGHTQ_OK;
    pthread_mutex_unlock(&consumer->lock);
    pump_all(consumer);
}

static void on_trouble(struct lq_observer *observer, const struct lightq_error *error)
{
    struct lightq_consumer *consumer = lq_container(observer, struct lightq_consumer, observer);
    pthread_mutex_lock(&consumer->lock);
    if (error->fatal) {
        consumer->refusal = error->status;
        pthread_cond_broadcast(&consumer->changed);
    }
    pthread_mutex_unlock(&consumer->lock);
    tell(consumer, error);
}

static void on_tick(struct lq_observer *observer)
{
    struct lightq_consumer *consumer = lq_container(observer, struct lightq_consumer, observer);
    observer->deadline_us = UINT64_MAX;
    extend_leases(consumer);
    lq_fetcher_wake_at(consumer, consumer->extend_us);
    for (struct lq_intake *intake = intakes_of(consumer); intake != NULL; intake = intake->next) {
        for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
            lq_feed_pump(feed);
            if (feed->retry_us > consumer->client->io.now_us && feed->stream.conn == NULL) {
                lq_fetcher_wake_at(consumer, feed->retry_us);
            }
            if (feed->settler.retry_us > consumer->client->io.now_us) {
                lq_fetcher_wake_at(consumer, feed->settler.retry_us);
            }
        }
    }
}

/* ---- the application's wishes */

/* With the lock. The feed begins again at its new start. */
static void take_restart(struct lq_feed *feed)
{
    feed->restart = false;
    feed->io_generation = feed->generation;
    feed->io_start = feed->start;
    feed->next_offset = LQ_POSITION_UNKNOWN;
    feed->stopped = false;
    feed->gone = false;
    feed->started = feed->intake->group != NULL; /* the consumer's own seek: not where the group is */
    feed->ended_told = false;
    feed->pending_messages = 0;
    feed->pending_bytes = 0;
    feed->retry_us = 0;
    feed->backoff_us = 0;
}

static void serve_feed(struct lightq_consumer *consumer, struct lq_feed *feed)
{
    pthread_mutex_lock(&consumer->lock);
    bool restart = feed->restart;
    if (restart) {
        take_restart(feed);
    }
    uint64_t messages = feed->returned_messages;
    uint64_t bytes = feed->returned_bytes;
    feed->returned_messages = 0;
    feed->returned_bytes = 0;
    pthread_mutex_unlock(&consumer->lock);
    if (restart) {
        lq_feed_close(feed, true);
    } else if (messages > 0) {
        lq_feed_credit(feed, messages, bytes);
    }
    lq_feed_pump(feed);
}

static void begin_intake(struct lq_intake *intake, struct lq_io *io)
{
    intake->topic = lq_meta_hold(io->meta, intake->name);
    if (intake->topic == NULL) {
        set_intake(intake, LQ_INTAKE_FAILED, LIGHTQ_ENOMEM, lightq_status_text(LIGHTQ_ENOMEM));
    } else if (intake->topic->status == LIGHTQ_OK) {
        on_intake_topic(intake); /* somebody else has asked before */
    }
}

static void end_intake(struct lq_intake *intake, struct lq_io *io)
{
    struct lightq_consumer *consumer = intake->consumer;
    hand_over(consumer); /* who waits for the intake to be gone drops what came for it */
    for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        lq_settler_close(feed);
        lq_feed_close(feed, true);
        feed->stopped = true;
        consumer->feed_count--;
    }
    if (intake->topic != NULL) {
        lq_meta_release(io->meta, intake->topic);
        intake->topic = NULL;
    }
    pthread_mutex_lock(&consumer->lock);
    for (struct lq_intake **at = &consumer->intakes; *at != NULL; at = &(*at)->next) {
        if (*at == intake) {
            *at = intake->next; /* whoever waits for it to be gone frees it */
            break;
        }
    }
    intake->gone = true;
    pthread_cond_broadcast(&consumer->changed);
    pthread_mutex_unlock(&consumer->lock);
}

static void serve_intake(struct lq_intake *intake, struct lq_io *io)
{
    struct lightq_consumer *consumer = intake->consumer;
    pthread_mutex_lock(&consumer->lock);
    bool leave = intake->leave;
    bool gone = intake->gone;
    pthread_mutex_unlock(&consumer->lock);
    if (gone) {
        return;
    }
    if (leave) {
        end_intake(intake, io);
        return;
    }
    if (intake->topic == NULL) {
        begin_intake(intake, io);
    }
    for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        serve_feed(consumer, feed);
    }
}

static void serve(struct lq_command *command, struct lq_io *io)
{
    struct lightq_consumer *consumer = lq_container(command, struct lightq_consumer, command);
    struct lq_intake *intake = intakes_of(consumer);
    while (intake != NULL) {
        struct lq_intake *next = intake->next; /* the application may free one that is gone */
        serve_intake(intake, io);
        intake = next;
    }
}

/* A command of its own: when it runs, the other one is not in the mailbox any more, and the consumer may be freed. */
static void close_it(struct lq_command *command, struct lq_io *io)
{
    struct lightq_consumer *consumer = lq_container(command, struct lightq_consumer, close_command);
    hand_over(consumer);
    lq_io_forget(io, &consumer->observer);
    pthread_mutex_lock(&consumer->lock);
    consumer->closed = true;
    pthread_cond_broadcast(&consumer->changed);
    pthread_mutex_unlock(&consumer->lock);
}

static void begin(struct lq_command *command, struct lq_io *io)
{
    struct lightq_consumer *consumer = lq_container(command, struct lightq_consumer, command);
    consumer->command.run = serve;
    lq_io_observe(io, &consumer->observer);
    serve(command, io);
}

void lq_fetcher_init(struct lightq_consumer *consumer)
{
    consumer->command.run = begin;
    consumer->extend_us = UINT64_MAX;
    consumer->close_command.run = close_it;
    consumer->observer = (struct lq_observer){.deadline_us = UINT64_MAX,
                                              .on_tick = on_tick,
                                              .on_topic = on_topic,
                                              .on_conn = on_conn,
                                              .on_trouble = on_trouble,
                                              .on_turn = on_turn};
}
