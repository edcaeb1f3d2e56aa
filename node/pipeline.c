/* node/pipeline.c - see pipeline.h: feeds and their subscriptions, from SUBSCRIBE to their ends. */
#include "node/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "node/dead.h"
#include "node/group_words.h"
#include "node/pipeline_internal.h"

/* ---- feeds */

void lq_feed_set_place(struct lq_feed *feed, enum lq_feed_place place)
{
    struct lq_pipeline *pipeline = feed->pipeline;
    if (feed->place == LQ_FEED_READY) {
        DL_DELETE(pipeline->ready, feed);
    } else if (feed->place == LQ_FEED_STARVED) {
        DL_DELETE(pipeline->starved, feed);
    }
    feed->place = place;
    if (place == LQ_FEED_READY) {
        DL_APPEND(pipeline->ready, feed);
    } else if (place == LQ_FEED_STARVED) {
        DL_APPEND(pipeline->starved, feed);
    }
}

void lq_feed_wake(struct lq_feed *feed)
{
    if (feed->place != LQ_FEED_READY) {
        lq_feed_set_place(feed, LQ_FEED_READY);
    }
}

void lq_feed_note_deadline(struct lq_feed *feed)
{
    uint64_t deadline_us = lq_leases_deadline_us(feed->leases);
    if (deadline_us < feed->pipeline->deadline_us) {
        feed->pipeline->deadline_us = deadline_us;
    }
}

void lq_feed_count_bytes(struct lq_feed *feed)
{
    uint64_t bytes = lq_feed_is_alive(feed) ? lq_leases_bytes(feed->leases) : 0;
    feed->pipeline->bytes += bytes - feed->bytes;
    feed->bytes = bytes;
}

static void free_feed(struct lq_feed *feed)
{
    assert(feed->members == NULL);
    lq_feed_set_place(feed, LQ_FEED_RESTING);
    lq_partition_unwatch(&feed->watcher);
    lq_partition_group_unwatch(&feed->group_watcher);
    lq_cursor_deinit(&feed->fresh.cursor);
    lq_cursor_deinit(&feed->again.cursor);
    HASH_DELETE(hh, feed->pipeline->feeds, feed);
    feed->pipeline->bytes -= feed->bytes;
    free(feed->keys);
    free(feed);
}

static struct lq_feed *find_feed(const struct lq_pipeline *pipeline, uint64_t group, uint64_t number)
{
    struct lq_feed_key key = {.group = group, .number = number};
    struct lq_feed *feed;
    HASH_FIND(hh, pipeline->feeds, &key, sizeof key, feed);
    return feed;
}

static void on_group(struct lq_group_watcher *watcher)
{
    struct lq_feed *feed = watcher->data;
    lq_feed_note_deadline(feed);
    lq_feed_wake(feed);
}

static void on_partition(struct lq_partition_watcher *watcher, unsigned events)
{
    struct lq_feed *feed = watcher->data;
    const struct lq_service *service = feed->pipeline->service;
    const char *text = "";
    if ((events & LQ_PARTITION_DEAD_LETTERS) != 0) {
        lq_dead_hint(service->dead, feed->key.group);
    }
    if ((events & LQ_PARTITION_CLOSED) != 0) {
        bool deleted = lq_catalog_partition(lq_meta_catalog(service->meta), feed->key.group) == NULL;
        lq_feed_end(feed, deleted ? LIGHTQ_ENOTFOUND : LIGHTQ_ENOTLEADER,
                    deleted ? "the topic has been deleted" : "the partition is no longer on this node");
        return;
    }
    if (!lq_partition_leading(feed->partition)) {
        lightq_status status = lq_service_not_leading(service, feed->key.group, &text);
        lq_feed_end(feed, status, text);
        return;
    }
    const struct lq_cgroup *cgroup = lq_cgroups_find(lq_partition_groups(feed->partition), feed->key.number);
    if (cgroup == NULL) {
        lq_feed_end(feed, LIGHTQ_ENOTFOUND, "the consumer group has been deleted");
    } else if (cgroup->generation != feed->generation) {
        lq_feed_end(feed, LIGHTQ_EFENCED, "the consumer group has been moved: subscribe again");
    } else if (!lq_feed_is_alive(feed)) {
        lq_feed_end(feed, LIGHTQ_ENOTLEADER, "the partition's leader changed: subscribe again");
    } else {
        lq_feed_note_deadline(feed);
        lq_feed_wake(feed);
    }
}

static void fill_feed(struct lq_feed *feed, struct lq_pipeline *pipeline, struct lq_partition *partition,
                      const struct lq_cgroup *cgroup)
{
    feed->pipeline = pipeline;
    feed->partition = partition;
    feed->generation = cgroup->generation;
    feed->watcher = (struct lq_partition_watcher){.cb = on_partition, .data = feed};
    feed->group_watcher = (struct lq_group_watcher){.cb = on_group, .data = feed};
    lq_reader_place_init(&feed->fresh, feed);
    lq_reader_place_init(&feed->again, feed);
    lq_partition_watch(partition, &feed->watcher);
    lq_partition_group_watch(partition, cgroup->number, &feed->group_watcher);
}

/* The feed of the group, made when there is none. */
static lightq_status get_feed(struct lq_pipeline *pipeline, uint64_t group, struct lq_partition *partition,
                              const struct lq_cgroup *cgroup, struct lq_feed **out)
{
    struct lq_leases *leases;
    struct lq_feed *feed = find_feed(pipeline, group, cgroup->number);
    if (feed != NULL) {
        *out = feed;
        bool same = lq_feed_is_alive(feed) && feed->generation == cgroup->generation;
        return same ? LIGHTQ_OK : LIGHTQ_ENOTREADY; /* its end is told in this turn */
    }
    lightq_status status = lq_partition_leases(partition, cgroup->number, &leases);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if ((feed = calloc(1, sizeof *feed)) == NULL) {
        return LIGHTQ_ENOMEM;
    }
    feed->key = (struct lq_feed_key){.group = group, .number = cgroup->number};
    HASH_ADD(hh, pipeline->feeds, key, sizeof feed->key, feed);
    if (feed->hh.tbl == NULL) {
        free(feed);
        return LIGHTQ_ENOMEM;
    }
    feed->leases = leases;
    if (cgroup->dead.next > cgroup->dead.done) {
        lq_dead_hint(pipeline->service->dead, group); /* left by another leader */
    }
    fill_feed(feed, pipeline, partition, cgroup);
    *out = feed;
    return LIGHTQ_OK;
}

/* ---- members */

struct lq_member *lq_pipeline_find(const struct lq_pipeline *pipeline, uint64_t session, uint64_t number)
{
    struct lq_member_key key = {.session = session, .number = number};
    struct lq_member *member;
    HASH_FIND(hh, pipeline->members, &key, sizeof key, member);
    return member;
}

/* It has left the leases, or they are gone. */
static void forget(struct lq_member *member)
{
    struct lq_pipeline *pipeline = member->feed->pipeline;
    HASH_DELETE(hh, pipeline->members, member);
    DL_DELETE(member->feed->members, member);
    DL_DELETE2(member->session->members, member, session_prev, session_next);
    member->session->subscription_count--;
    pipeline->count--;
    pipeline->service->counters->subscriptions--;
    free(member);
}

/* It leaves its group, whose feed goes with the last one. */
static void leave(struct lq_member *member, bool clean)
{
    struct lq_feed *feed = member->feed;
    if (lq_feed_is_alive(feed)) {
        uint64_t now_us = lq_clock_monotonic_us(feed->pipeline->service->clock);
        lightq_status status = lq_leases_leave(feed->leases, member->consumer, clean, now_us);
        (void)status; /* ENOMEM: it has left, and some failures are not counted */
        lq_partition_group_touch(feed->partition, feed->key.number);
    }
    forget(member);
    if (feed->members == NULL) {
        free_feed(feed);
    } else {
        lq_feed_wake(feed);
    }
}

static void tell_ended(struct lq_feed *feed, struct lq_session *session, uint64_t number, lightq_status status,
                       const char *text)
{
    struct lq_service *service = feed->pipeline->service;
    struct lq_leader_hint hint;
    Lightq__Wire__SubscriptionEnded body = LIGHTQ__WIRE__SUBSCRIPTION_ENDED__INIT;
    body.subscription = number;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    if (status == LIGHTQ_ENOTLEADER) {
        lq_service_hint(service, feed->key.group, &hint);
        body.leader = &hint.leader;
    }
    lq_session_answer(service->sessions, session, LQ_MESSAGE_SUBSCRIPTION_ENDED, 0, feed->key.group, &body.base);
}

void lq_feed_end(struct lq_feed *feed, lightq_status status, const char *text)
{
    bool last = false;
    while (!last) {
        struct lq_member *member = feed->members;
        struct lq_session *session = member->session;
        uint64_t number = member->key.number;
        last = member->next == NULL;
        tell_ended(feed, session, number, status, text);
        leave(member, true);
    }
}

/* The consumer joins the feed. */
static lightq_status join(struct lq_feed *feed, const struct lq_request *request, struct lq_member **out)
{
    const Lightq__Wire__Subscribe *body = request->body;
    struct lq_pipeline *pipeline = feed->pipeline;
    struct lq_member *member = calloc(1, sizeof *member);
    if (member == NULL) {
        return LIGHTQ_ENOMEM;
    }
    member->key = (struct lq_member_key){.session = request->session->number, .number = body->subscription};
    HASH_ADD(hh, pipeline->members, key, sizeof member->key, member);
    if (member->hh.tbl == NULL) {
        free(member);
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_leases_join(feed->leases, member, &member->consumer);
    if (status != LIGHTQ_OK) {
        HASH_DELETE(hh, pipeline->members, member);
        free(member);
        return status;
    }
    member->session = request->session;
    member->feed = feed;
    DL_APPEND(feed->members, member);
    DL_APPEND2(request->session->members, member, session_prev, session_next);
    request->session->subscription_count++;
    pipeline->count++;
    pipeline->service->counters->subscriptions++;
    lq_leases_credit(feed->leases, member->consumer, body->credit_messages, body->credit_bytes);
    *out = member;
    return LIGHTQ_OK;
}

/* ---- requests */

static bool stands_by(const struct lq_member *member)
{
    struct lq_lease_consumer_status status;
    return lq_leases_consumer(member->feed->leases, member->consumer, &status) && !status.active;
}

void lq_pipeline_subscribe(struct lq_pipeline *pipeline, const struct lq_request *request,
                           const struct lq_catalog_partition *placed, struct lq_partition *partition,
                           const struct lq_cgroup *cgroup)
{
    const Lightq__Wire__Subscribe *body = request->body;
    struct lq_feed *feed = NULL;
    struct lq_member *member = NULL;
    struct lq_group_words words;
    Lightq__Wire__SubscribeAnswer answer = LIGHTQ__WIRE__SUBSCRIBE_ANSWER__INIT;
    lightq_status status = get_feed(pipeline, placed->group, partition, cgroup, &feed);
    if (status == LIGHTQ_OK) {
        status = join(feed, request, &member);
        if (status != LIGHTQ_OK && feed->members == NULL) {
            free_feed(feed);
        }
    }
    answer.status = (uint32_t)status;
    answer.text = lq_codec_string(status == LIGHTQ_OK ? "" : lightq_status_text(status));
    answer.subscription = body->subscription;
    answer.log_start = lq_partition_start(partition);
    answer.log_end = lq_partition_end(partition);
    answer.term = lq_partition_term(partition);
    lq_group_words_fill(&words, cgroup);
    lq_group_words_subscribed(&words, cgroup, &answer);
    answer.standby = member != NULL && stands_by(member);
    if (member != NULL) {
        lq_feed_wake(feed);
    }
    lq_session_answer(pipeline->service->sessions, request->session, LQ_MESSAGE_SUBSCRIBE_ANSWER,
                      request->envelope->correlation, placed->group, &answer.base);
}

bool lq_pipeline_has(const struct lq_pipeline *pipeline, const struct lq_session *session, uint64_t subscription)
{
    return lq_pipeline_find(pipeline, session->number, subscription) != NULL;
}

bool lq_pipeline_unsubscribe(struct lq_pipeline *pipeline, struct lq_session *session, uint64_t subscription)
{
    struct lq_member *member = lq_pipeline_find(pipeline, session->number, subscription);
    if (member == NULL) {
        return false;
    }
    leave(member, true);
    return true;
}

bool lq_pipeline_credit(struct lq_pipeline *pipeline, const struct lq_session *session,
                        const Lightq__Wire__Credit *credit)
{
    struct lq_member *member = lq_pipeline_find(pipeline, session->number, credit->subscription);
    if (member == NULL) {
        return false;
    }
    if (lq_feed_is_alive(member->feed)) {
        lq_leases_credit(member->feed->leases, member->consumer, credit->messages, credit->bytes);
        lq_feed_wake(member->feed);
    }
    return true;
}

size_t lq_pipeline_count(const struct lq_pipeline *pipeline)
{
    return pipeline->count;
}

/* ---- sessions */

void lq_pipeline_session_ended(struct lq_pipeline *pipeline, struct lq_session *session)
{
    (void)pipeline;
    while (session->members != NULL) {
        leave(session->members, session->said_bye);
    }
}

void lq_pipeline_session_unblocked(struct lq_pipeline *pipeline, struct lq_session *session)
{
    (void)pipeline;
    struct lq_member *member;
    DL_FOREACH2(session->members, member, session_next)
    {
        if (member->suspended && lq_feed_is_alive(member->feed)) {
            member->suspended = false;
            lq_leases_suspend(member->feed->leases, member->consumer, false);
            lq_feed_wake(member->feed);
        }
    }
}

/* ---- for people */

struct lq_leases *lq_pipeline_leases(const struct lq_pipeline *pipeline, uint64_t group, uint64_t number)
{
    struct lq_feed *feed = find_feed(pipeline, group, number);
    return feed == NULL || !lq_feed_is_alive(feed) ? NULL : feed->leases;
}

const struct lq_session *lq_member_session(const struct lq_member *member)
{
    return member->session;
}

uint64_t lq_member_subscription(const struct lq_member *member)
{
    return member->key.number;
}

/* ---- life */

lightq_status lq_pipeline_new(struct lq_service *service, struct lq_pipeline **out)
{
    struct lq_pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL) {
        return LIGHTQ_ENOMEM;
    }
    pipeline->service = service;
    pipeline->deadline_us = UINT64_MAX;
    for (size_t i = 0; i < LQ_DELIVER_GRANTS_MAX; i++) {
        lightq__wire__grant__init(&pipeline->grants[i]);
        pipeline->grants_at[i] = &pipeline->grants[i];
    }
    *out = pipeline;
    return LIGHTQ_OK;
}

void lq_pipeline_free(struct lq_pipeline *pipeline)
{
    assert(pipeline->count == 0 && pipeline->feeds == NULL && pipeline->settling == NULL);
    free(pipeline);
}
