/* client/lib/consumer_subscribe.c - subscribing, seeking, leaving: what the application's thread asks of the I/O thread
 * and waits for. See consumer.h and lightq/consumer.h. */
#include "client/lib/consumer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/error.h"
#include "client/lib/start.h"
#include "client/lib/wait.h"

struct lq_intake *lq_consumer_find(struct lightq_consumer *consumer, const char *topic, int32_t partition, bool exactly)
{
    for (struct lq_intake *intake = consumer->intakes; intake != NULL; intake = intake->next) {
        bool same = intake->partition == partition;
        bool overlap = intake->partition == LIGHTQ_PARTITION_ANY || partition == LIGHTQ_PARTITION_ANY;
        if (strcmp(intake->name, topic) == 0 && (same || (!exactly && overlap))) {
            return intake;
        }
    }
    return NULL;
}

struct lq_feed *lq_intake_feed(const struct lq_intake *intake, uint32_t partition)
{
    for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        if (feed->partition == partition) {
            return feed;
        }
    }
    return NULL;
}

static struct lq_intake *new_intake(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                    const struct lightq_start *start, const char *group)
{
    struct lq_intake *intake = calloc(1, sizeof *intake);
    if (intake == NULL || (intake->name = strdup(topic)) == NULL ||
        (group != NULL && (intake->group = strdup(group)) == NULL)) {
        free(intake != NULL ? intake->name : NULL);
        free(intake);
        return NULL;
    }
    intake->consumer = consumer;
    intake->partition = partition;
    intake->start = *start;
    intake->state = LQ_INTAKE_ASKED;
    return intake;
}

static void free_intake(struct lq_intake *intake)
{
    while (intake->feeds != NULL) {
        struct lq_feed *feed = intake->feeds;
        intake->feeds = feed->next;
        free(feed->settler.queue.items);
        free(feed->settler.taken.items);
        free(feed);
    }
    free(intake->group);
    free(intake->name);
    free(intake);
}

/* ---- waiting for positions */

enum settled { OPEN, SETTLED, FAILED };

/* Whether the positions of @intake (of @partition, or all) are known. With the lock. Fills @error when FAILED. */
static enum settled look(const struct lq_intake *intake, int32_t partition, struct lightq_error *error)
{
    enum settled settled = SETTLED;
    if (intake->state == LQ_INTAKE_FAILED) {
        lq_error_set(error, intake->status, "topic %s: %s", intake->name, intake->text);
        return FAILED;
    }
    if (intake->state == LQ_INTAKE_ASKED) {
        return OPEN;
    }
    for (const struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        if (partition != LIGHTQ_PARTITION_ANY && feed->partition != (uint32_t)partition) {
            continue;
        }
        if (feed->status != LIGHTQ_OK) {
            lq_error_set(error, feed->status, "topic %s partition %u: %s", intake->name, feed->partition, feed->text);
            return FAILED;
        }
        settled = feed->fixed ? settled : OPEN;
    }
    return settled;
}

/* With the lock, given up while waiting. OK, or why the positions are not known. */
static lightq_status wait_settled(struct lightq_consumer *consumer, struct lq_intake *intake, int32_t partition,
                                  int timeout_ms, struct lightq_error *error)
{
    struct lightq_error local;
    struct lightq_error *said = error != NULL ? error : &local;
    uint64_t deadline_us = lq_deadline_in(consumer->client->io.clock, timeout_ms);
    bool in_time = true;
    for (;;) {
        enum settled settled = look(intake, partition, said);
        if (settled == SETTLED) {
            return LIGHTQ_OK;
        }
        if (settled == FAILED) {
            return said->status;
        }
        if (consumer->refusal != LIGHTQ_OK) {
            return lq_client_trouble(consumer->client, consumer->refusal, error);
        }
        if (!in_time) {
            return intake->state == LQ_INTAKE_ASKED
                       ? lq_client_trouble(consumer->client, LIGHTQ_EUNAVAILABLE, error)
                       : lq_error_set(error, LIGHTQ_ETIMEDOUT,
                                      "topic %s: the leader of some partition did not answer in time", intake->name);
        }
        in_time = lq_cond_wait(&consumer->changed, &consumer->lock, deadline_us);
    }
}

/* ---- leaving */

/* Lets the I/O thread take @intake off the consumer, and frees it. */
static void leave(struct lightq_consumer *consumer, struct lq_intake *intake)
{
    pthread_mutex_lock(&consumer->lock);
    intake->leave = true;
    lq_io_post(&consumer->client->io, &consumer->command);
    while (!intake->gone) {
        lq_cond_wait(&consumer->changed, &consumer->lock, UINT64_MAX);
    }
    pthread_mutex_unlock(&consumer->lock);
    lq_consumer_drop(consumer, intake);
    free_intake(intake);
}

void lq_consumer_drop(struct lightq_consumer *consumer, const struct lq_intake *intake)
{
    if (consumer->current != NULL &&
        (intake == NULL || (consumer->current->feed != NULL && consumer->current->feed->intake == intake))) {
        if (consumer->current->kind == LQ_PARCEL_BATCH) {
            lq_batch_close(&consumer->batch);
        }
        struct lq_parcel *current = consumer->current;
        pthread_mutex_lock(&consumer->lock);
        consumer->current = NULL;
        pthread_mutex_unlock(&consumer->lock);
        lq_parcel_free(current);
    }
    consumer->has_stashed = false;
    pthread_mutex_lock(&consumer->lock);
    struct lq_parcel *last = NULL;
    for (struct lq_parcel **at = &consumer->ready_first; *at != NULL;) {
        struct lq_parcel *parcel = *at;
        if (intake != NULL && (parcel->feed == NULL || parcel->feed->intake != intake)) {
            last = parcel;
            at = &parcel->next;
            continue;
        }
        *at = parcel->next;
        lq_parcel_free(parcel);
    }
    consumer->ready_last = last;
    pthread_mutex_unlock(&consumer->lock);
}

/* ---- public */

/* Begins to read, from @start or as one of @group, and waits when there is time. */
static lightq_status begin_intake(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                  const struct lightq_start *start, const char *group, int timeout_ms,
                                  struct lightq_error *error)
{
    lightq_status status = LIGHTQ_OK;
    struct lq_intake *intake = new_intake(consumer, topic, partition, start, group);
    if (intake == NULL) {
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    pthread_mutex_lock(&consumer->lock);
    if (lq_consumer_find(consumer, topic, partition, false) != NULL) {
        pthread_mutex_unlock(&consumer->lock);
        free_intake(intake);
        return lq_error_set(error, LIGHTQ_EEXISTS, "this consumer reads topic %s already", topic);
    }
    intake->quiet = timeout_ms != 0;
    intake->next = consumer->intakes;
    consumer->intakes = intake;
    lq_io_post(&consumer->client->io, &consumer->command);
    if (timeout_ms != 0) {
        status = wait_settled(consumer, intake, LIGHTQ_PARTITION_ANY, timeout_ms, error);
        intake->quiet = false;
    }
    pthread_mutex_unlock(&consumer->lock);
    if (status != LIGHTQ_OK) {
        leave(consumer, intake);
    }
    return status;
}

lightq_status lightq_consumer_subscribe(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                        const struct lightq_start *start, int timeout_ms, struct lightq_error *error)
{
    if (lq_client_forked(consumer->client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    lightq_status status = lq_topic_name_check(topic);
    if (status != LIGHTQ_OK) {
        return lq_error_plain(error, status);
    }
    if (partition < LIGHTQ_PARTITION_ANY || !lq_start_is_good(start)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "not a partition, or not a place to start at");
    }
    return begin_intake(consumer, topic, partition, start, NULL, timeout_ms, error);
}

lightq_status lightq_consumer_join(struct lightq_consumer *consumer, const char *topic, const char *group,
                                   int32_t partition, int timeout_ms, struct lightq_error *error)
{
    const struct lightq_start start = {.kind = LIGHTQ_START_BEGIN}; /* not looked at: where the group is */
    if (lq_client_forked(consumer->client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    group = group != NULL ? group : consumer->client->io.options.group_id;
    if (group == NULL || partition < LIGHTQ_PARTITION_ANY) {
        return lq_error_set(error, LIGHTQ_EINVAL, group == NULL ? "group.id is not set" : "not a partition");
    }
    if (lq_topic_name_check(topic) != LIGHTQ_OK || lq_topic_name_check(group) != LIGHTQ_OK) {
        return lq_error_plain(error, LIGHTQ_ENAME);
    }
    pthread_mutex_lock(&consumer->lock);
    consumer->polled_us = lq_clock_monotonic_us(consumer->client->io.clock);
    pthread_mutex_unlock(&consumer->lock);
    consumer->grouped = true;
    return begin_intake(consumer, topic, partition, &start, group, timeout_ms, error);
}

lightq_status lightq_consumer_unsubscribe(struct lightq_consumer *consumer, const char *topic, int32_t partition)
{
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    bool found = false;
    struct lq_intake *intake;
    lightq_status finished = lq_settle_finish(consumer, (int)consumer->client->io.options.request_timeout_ms);
    (void)finished; /* what has no outcome by now is delivered again */
    do {
        pthread_mutex_lock(&consumer->lock);
        intake = lq_consumer_find(consumer, topic, partition, partition != LIGHTQ_PARTITION_ANY);
        pthread_mutex_unlock(&consumer->lock);
        if (intake != NULL) {
            leave(consumer, intake);
            found = true;
        }
    } while (intake != NULL && partition == LIGHTQ_PARTITION_ANY);
    return found ? LIGHTQ_OK : LIGHTQ_ENOTFOUND;
}

lightq_status lightq_consumer_position(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                       int64_t *offset)
{
    lightq_status status = LIGHTQ_ENOTFOUND;
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    pthread_mutex_lock(&consumer->lock);
    struct lq_intake *intake = lq_consumer_find(consumer, topic, partition, false);
    struct lq_feed *feed = intake != NULL ? lq_intake_feed(intake, (uint32_t)partition) : NULL;
    if (feed != NULL) {
        status = feed->fixed ? LIGHTQ_OK : LIGHTQ_ENOTREADY;
        *offset = feed->fixed ? feed->position : LIGHTQ_OFFSET_UNKNOWN;
    } else if (intake != NULL && intake->state == LQ_INTAKE_ASKED) {
        status = LIGHTQ_ENOTREADY;
    }
    pthread_mutex_unlock(&consumer->lock);
    return status;
}

/* Restarts the feeds of @partition (or all) of @intake. With the lock. True: there was one. */
static bool restart_feeds(struct lq_intake *intake, int32_t partition, const struct lightq_start *start)
{
    bool some = false;
    for (struct lq_feed *feed = intake->feeds; feed != NULL; feed = feed->next) {
        if ((partition == LIGHTQ_PARTITION_ANY || feed->partition == (uint32_t)partition) && !feed->pipeline) {
            lq_feed_restart(feed, start);
            feed->damaged = 0;
            some = true;
        }
    }
    return some;
}

/* With the lock. Restarts, and waits for the positions when there is time. */
static lightq_status seek_locked(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                 const struct lightq_start *start, int timeout_ms, struct lightq_error *error)
{
    bool some = false;
    lightq_status status = LIGHTQ_OK;
    for (struct lq_intake *intake = consumer->intakes; intake != NULL; intake = intake->next) {
        if (strcmp(intake->name, topic) == 0 && restart_feeds(intake, partition, start)) {
            intake->quiet = timeout_ms != 0;
            some = true;
        }
    }
    if (!some) {
        return lq_error_set(error, LIGHTQ_ENOTFOUND, "this consumer does not read topic %s partition %d", topic,
                            partition);
    }
    lq_io_post(&consumer->client->io, &consumer->command);
    for (struct lq_intake *intake = consumer->intakes; intake != NULL && timeout_ms != 0; intake = intake->next) {
        if (strcmp(intake->name, topic) == 0 && status == LIGHTQ_OK) {
            status = wait_settled(consumer, intake, partition, timeout_ms, error);
        }
        intake->quiet = false;
    }
    return status;
}

lightq_status lightq_consumer_seek(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                   const struct lightq_start *start, int timeout_ms, struct lightq_error *error)
{
    if (lq_client_forked(consumer->client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    if (partition < LIGHTQ_PARTITION_ANY || !lq_start_is_good(start) ||
        (partition == LIGHTQ_PARTITION_ANY && start->kind == LIGHTQ_START_OFFSET)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "not a partition, or not a place to go on at");
    }
    pthread_mutex_lock(&consumer->lock);
    lightq_status status = seek_locked(consumer, topic, partition, start, timeout_ms, error);
    pthread_mutex_unlock(&consumer->lock);
    consumer->has_stashed = false;
    return status;
}

static struct lq_intake *any_intake(struct lightq_consumer *consumer)
{
    pthread_mutex_lock(&consumer->lock);
    struct lq_intake *intake = consumer->intakes;
    pthread_mutex_unlock(&consumer->lock);
    return intake;
}

lightq_status lightq_consumer_close(struct lightq_consumer *consumer, int timeout_ms)
{
    if (consumer == NULL) {
        return LIGHTQ_OK;
    }
    if (lq_client_forked(consumer->client)) {
        return LIGHTQ_EFORK;
    }
    lightq_status finished = lq_settle_finish(consumer, timeout_ms);
    struct lq_intake *intake;
    while ((intake = any_intake(consumer)) != NULL) {
        leave(consumer, intake);
    }
    lq_io_post(&consumer->client->io, &consumer->close_command);
    pthread_mutex_lock(&consumer->lock);
    while (!consumer->closed) {
        lq_cond_wait(&consumer->changed, &consumer->lock, UINT64_MAX);
    }
    pthread_mutex_unlock(&consumer->lock);
    lq_consumer_drop(consumer, NULL);
    atomic_fetch_sub(&consumer->client->users, 1);
    pthread_cond_destroy(&consumer->changed);
    pthread_mutex_destroy(&consumer->lock);
    close(consumer->fd);
    free(consumer->given);
    free(consumer);
    return finished;
}
