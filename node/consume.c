/* node/consume.c - see consume.h. */
#include "node/consume.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "node/cursor.h"
#include "node/group_words.h"
#include "node/pipeline.h"
#include "node/position.h"
#include "node/queue/table.h"
#include "storage/store.h"

#define TURN_BYTES_MAX      (4u * 1024 * 1024) /* delivered in one turn of the loop, over all subscriptions */
#define TURN_ENTRIES_MAX    1024
#define QUANTUM_BYTES_MAX   (512u * 1024) /* delivered to one subscription before the next has its turn */
#define QUANTUM_ENTRIES_MAX 64
#define CREDIT_MAX          (INT64_MAX / 4)

enum subscription_state {
    LOCATING, /* looking for the first message of a time; not answered yet */
    RUNNING,
};

/* What finds a subscription: the session's number and the client's. */
struct subscription_key {
    uint64_t session, number;
};

/* A subscriber's position in one partition; or the look-up of a time for OFFSETS, which is never RUNNING. */
struct lq_subscription {
    struct lq_consume *consume;
    struct lq_session *session;  /* outlives it */
    struct subscription_key key; /* of a look-up: nothing */
    bool is_lookup;
    enum subscription_state state;
    uint64_t correlation; /* of the request, while LOCATING */
    uint64_t since_ms;    /* while LOCATING */
    uint64_t group;
    struct lq_partition *partition;
    struct lq_partition_watcher watcher;
    struct lq_cursor cursor;
    uint64_t cgroup, generation;                         /* of a subscriber group; 0: none */
    bool standby;                                        /* others of an exclusive group were there before */
    lq_consume_located located;                          /* of a look-up that is not a client's ... */
    void *located_data;                                  /* ... and its data */
    uint64_t next_offset;                                /* first message not delivered */
    int64_t credit_messages, credit_bytes;               /* a batch may bring them below 0 */
    enum { RESTING, READY, STARVED } place;              /* which list of lq_consume it is in */
    struct lq_subscription *prev, *next;                 /* of that list */
    struct lq_subscription *session_prev, *session_next; /* of the session's */
    UT_hash_handle hh;                                   /* by key; not of a look-up */
};

struct lq_consume {
    struct lq_service *service;
    struct lq_subscription *by_key;
    struct lq_subscription *ready;   /* can move, as far as is known */
    struct lq_subscription *starved; /* could, if there were memory for a read */
    size_t count;
};

static void set_place(struct lq_subscription *subscription, int place)
{
    struct lq_consume *consume = subscription->consume;
    if (subscription->place == READY) {
        DL_DELETE(consume->ready, subscription);
    } else if (subscription->place == STARVED) {
        DL_DELETE(consume->starved, subscription);
    }
    subscription->place = place;
    if (place == READY) {
        DL_APPEND(consume->ready, subscription);
    } else if (place == STARVED) {
        DL_APPEND(consume->starved, subscription);
    }
}

static void wake(struct lq_subscription *subscription)
{
    if (subscription->place != READY) {
        set_place(subscription, READY);
    }
}

static void on_cursor(void *subscription)
{
    wake(subscription);
}

static struct lq_subscription *find(const struct lq_consume *consume, const struct lq_session *session, uint64_t number)
{
    struct subscription_key key = {.session = session->number, .number = number};
    struct lq_subscription *subscription;
    HASH_FIND(hh, consume->by_key, &key, sizeof key, subscription);
    return subscription;
}

/* The consumer group of @subscription, or NULL. */
static const struct lq_cgroup *cgroup_of(const struct lq_subscription *subscription)
{
    return lq_cgroups_find(lq_partition_groups(subscription->partition), subscription->cgroup);
}

/* The one of the group that is there the longest, besides @other; NULL: there is none. */
static struct lq_subscription *first_of_group(const struct lq_consume *consume, uint64_t group, uint64_t cgroup,
                                              const struct lq_subscription *other)
{
    struct lq_subscription *subscription, *next;
    HASH_ITER(hh, consume->by_key, subscription, next)
    { /* in the order they were made */
        if (subscription->cgroup == cgroup && subscription->group == group && subscription != other) {
            return subscription;
        }
    }
    return NULL;
}

static void seek(struct lq_subscription *subscription);

/* It stood by, and is to go on from where its group is. */
static void activate(struct lq_subscription *subscription, const struct lq_cgroup *cgroup)
{
    subscription->standby = false;
    subscription->next_offset = cgroup->settled.floor;
    seek(subscription);
    wake(subscription);
}

static void destroy(struct lq_subscription *subscription)
{
    struct lq_consume *consume = subscription->consume;
    struct lq_session *session = subscription->session;
    const struct lq_cgroup *cgroup = subscription->cgroup == 0 ? NULL : cgroup_of(subscription);
    if (cgroup != NULL && cgroup->options.exclusive && !subscription->standby) {
        struct lq_subscription *heir = first_of_group(consume, subscription->group, subscription->cgroup, subscription);
        if (heir != NULL && heir->standby) {
            activate(heir, cgroup);
        }
    }
    set_place(subscription, RESTING);
    lq_partition_unwatch(&subscription->watcher);
    lq_cursor_deinit(&subscription->cursor);
    DL_DELETE2(session->subscriptions, subscription, session_prev, session_next);
    if (!subscription->is_lookup) {
        HASH_DELETE(hh, consume->by_key, subscription);
    }
    session->subscription_count--;
    consume->count--;
    consume->service->counters->subscriptions--;
    free(subscription);
}

/* ---- answers */

/* What an answer about a position says. */
struct position {
    uint64_t number, correlation, group;
    uint64_t offset, start, end, term;
    uint64_t cgroup; /* number; 0: none */
    bool is_lookup, standby;
    lq_consume_located located;
    void *located_data;
};

static struct position position_of(const struct lq_subscription *subscription)
{
    return (struct position){.number = subscription->key.number,
                             .correlation = subscription->correlation,
                             .group = subscription->group,
                             .offset = subscription->next_offset,
                             .start = lq_partition_start(subscription->partition),
                             .end = lq_partition_end(subscription->partition),
                             .term = lq_partition_term(subscription->partition),
                             .cgroup = subscription->cgroup,
                             .is_lookup = subscription->is_lookup,
                             .standby = subscription->standby,
                             .located = subscription->located,
                             .located_data = subscription->located_data};
}

static void answer(struct lq_consume *consume, struct lq_session *session, const struct position *position,
                   lightq_status status, const char *text)
{
    struct lq_sessions *sessions = consume->service->sessions;
    struct lq_leader_hint hint;
    Lightq__Wire__Leader *leader = NULL;
    if (position->located != NULL) {
        position->located(position->located_data, status, position->offset, text);
        return;
    }
    if (status == LIGHTQ_ENOTLEADER) {
        lq_service_hint(consume->service, position->group, &hint);
        leader = &hint.leader;
    }
    if (position->is_lookup) {
        Lightq__Wire__OffsetsAnswer body = LIGHTQ__WIRE__OFFSETS_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.leader = leader;
        body.offset = position->offset;
        body.log_start = position->start;
        body.log_end = position->end;
        body.term = position->term;
        lq_session_answer(sessions, session, LQ_MESSAGE_OFFSETS_ANSWER, position->correlation, position->group,
                          &body.base);
        return;
    }
    Lightq__Wire__SubscribeAnswer body = LIGHTQ__WIRE__SUBSCRIBE_ANSWER__INIT;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    body.leader = leader;
    body.subscription = position->number;
    body.offset = position->offset;
    body.log_start = position->start;
    body.log_end = position->end;
    body.term = position->term;
    const struct lq_partition *partition =
        position->cgroup == 0 ? NULL : lq_meta_partition(consume->service->meta, position->group);
    const struct lq_cgroup *cgroup =
        partition == NULL ? NULL : lq_cgroups_find(lq_partition_groups(partition), position->cgroup);
    struct lq_group_words words;
    if (cgroup != NULL) {
        lq_group_words_subscribed(&words, cgroup, &body);
        body.offset = position->offset;
        body.standby = position->standby;
    }
    lq_session_answer(sessions, session, LQ_MESSAGE_SUBSCRIBE_ANSWER, position->correlation, position->group,
                      &body.base);
}

/* The subscription ends by itself: its client is told, and it is gone. */
static void end(struct lq_subscription *subscription, lightq_status status, const char *text)
{
    struct lq_consume *consume = subscription->consume;
    struct lq_session *session = subscription->session;
    struct position position = position_of(subscription);
    bool answered = subscription->state == RUNNING;
    destroy(subscription);
    if (!answered) {
        answer(consume, session, &position, status, text);
        return;
    }
    struct lq_leader_hint hint;
    Lightq__Wire__SubscriptionEnded body = LIGHTQ__WIRE__SUBSCRIPTION_ENDED__INIT;
    body.subscription = position.number;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    body.next_offset = position.offset;
    if (status == LIGHTQ_ENOTLEADER) {
        lq_service_hint(consume->service, position.group, &hint);
        body.leader = &hint.leader;
    }
    lq_session_answer(consume->service->sessions, session, LQ_MESSAGE_SUBSCRIPTION_ENDED, 0, position.group,
                      &body.base);
}

/* ---- moving */

/* The cursor goes to where next_offset is. */
static void seek(struct lq_subscription *subscription)
{
    struct lq_partition *partition = subscription->partition;
    struct lq_group *group = lq_partition_group(partition);
    uint64_t index = lq_partition_applied(partition) + 1;
    if (group != NULL && subscription->next_offset < lq_partition_end(partition)) {
        index = lq_rlog_seek_offset(lq_group_log(group), subscription->next_offset);
    }
    lq_cursor_seek(&subscription->cursor, index);
}

static void give_up(struct lq_subscription *subscription, lightq_status status)
{
    const char *why;
    lightq_status told = lq_cursor_give_up(&subscription->cursor, status, &why);
    end(subscription, told, why);
}

enum outcome {
    MOVED,  /* by one entry */
    STAYED, /* until something wakes it */
    ENDED,  /* it is gone, or may be */
};

/* There is no entry at the cursor: why, and what follows. */
static enum outcome no_entry(struct lq_subscription *subscription, lightq_status status)
{
    switch (status) {
    case LIGHTQ_ENOTFOUND:
    case LIGHTQ_EBUSY:
        return STAYED;
    case LIGHTQ_ENOMEM:
        set_place(subscription, STARVED);
        return STAYED;
    case LIGHTQ_EOUTOFRANGE:
        if (subscription->next_offset < lq_partition_start(subscription->partition)) {
            end(subscription, LIGHTQ_EOUTOFRANGE, "the messages from that offset on have been trimmed");
            return ENDED;
        }
        seek(subscription);
        wake(subscription);
        return STAYED;
    default:
        give_up(subscription, status);
        return ENDED;
    }
}

/* One step of the look for the first message stamped since_ms or later. */
static enum outcome locate(struct lq_subscription *subscription)
{
    struct lq_entry entry;
    struct lq_slab *slab;
    const uint8_t *batch;
    uint32_t size;
    lightq_status status = lq_cursor_next(&subscription->cursor, &entry, &slab);
    bool found = false;
    if (status == LIGHTQ_OK) {
        found = entry.timestamp_ms >= subscription->since_ms && lq_partition_entry_batch(&entry, &batch, &size);
        if (!found) {
            lq_cursor_step(&subscription->cursor);
            return MOVED;
        }
        subscription->next_offset = entry.base_offset;
    } else if (status == LIGHTQ_ENOTFOUND) {
        subscription->next_offset = lq_partition_end(subscription->partition);
    } else {
        return no_entry(subscription, status);
    }
    if (subscription->next_offset < lq_partition_start(subscription->partition)) {
        subscription->next_offset = lq_partition_start(subscription->partition);
    }
    struct lq_consume *consume = subscription->consume;
    struct lq_session *session = subscription->session;
    struct position position = position_of(subscription);
    if (subscription->is_lookup) {
        destroy(subscription);
    } else {
        subscription->state = RUNNING;
        wake(subscription);
    }
    answer(consume, session, &position, LIGHTQ_OK, "");
    return ENDED;
}

/* Its group is paused, or it stands by; or its end is told in the next turn. */
static bool must_wait(const struct lq_subscription *subscription)
{
    if (subscription->cgroup == 0) {
        return false;
    }
    const struct lq_cgroup *cgroup = cgroup_of(subscription);
    return cgroup == NULL || cgroup->options.paused || subscription->standby;
}

/* Delivers the entry at the cursor, or steps over it. */
static enum outcome deliver(struct lq_subscription *subscription, uint64_t *bytes)
{
    struct lq_entry entry;
    struct lq_slab *slab;
    const uint8_t *batch;
    uint32_t size;
    if (subscription->credit_messages <= 0 || subscription->credit_bytes <= 0 || must_wait(subscription)) {
        return STAYED;
    }
    lightq_status status = lq_cursor_next(&subscription->cursor, &entry, &slab);
    if (status != LIGHTQ_OK) {
        return no_entry(subscription, status);
    }
    uint64_t end_offset = entry.base_offset + entry.message_count;
    if (!lq_partition_entry_batch(&entry, &batch, &size) || end_offset <= subscription->next_offset) {
        lq_cursor_step(&subscription->cursor);
        return MOVED;
    }
    struct lq_service *service = subscription->consume->service;
    Lightq__Wire__Deliver body = LIGHTQ__WIRE__DELIVER__INIT;
    body.subscription = subscription->key.number;
    body.base_offset = entry.base_offset;
    body.message_count = entry.message_count;
    body.timestamp_ms = entry.timestamp_ms;
    body.log_end = lq_partition_end(subscription->partition);
    body.first_wanted = subscription->next_offset > entry.base_offset ? subscription->next_offset : entry.base_offset;
    body.term = lq_partition_term(subscription->partition);
    status = lq_session_deliver(service->sessions, subscription->session, &body, subscription->group, slab,
                                (uint32_t)(batch - slab->bytes), size);
    if (status != LIGHTQ_OK) {
        return STAYED; /* the session tells when it takes messages again */
    }
    service->counters->deliveries++;
    service->counters->messages_out += end_offset - body.first_wanted;
    subscription->credit_messages -= (int64_t)(end_offset - body.first_wanted);
    subscription->credit_bytes -= size;
    subscription->next_offset = end_offset;
    *bytes += size;
    lq_cursor_step(&subscription->cursor);
    return MOVED;
}

/* One quantum. @subscription may be gone afterwards. */
static unsigned move(struct lq_subscription *subscription, uint64_t *bytes)
{
    uint64_t moved_bytes = 0;
    unsigned entries = 0;
    enum outcome outcome = MOVED;
    set_place(subscription, RESTING);
    while (outcome == MOVED && entries < QUANTUM_ENTRIES_MAX && moved_bytes < QUANTUM_BYTES_MAX) {
        outcome = subscription->state == LOCATING ? locate(subscription) : deliver(subscription, &moved_bytes);
        entries++;
    }
    *bytes += moved_bytes;
    if (outcome == MOVED) {
        wake(subscription);
    } else if (outcome == STAYED) {
        lq_cursor_rest(&subscription->cursor);
    }
    return entries;
}

bool lq_consume_turn(struct lq_consume *consume)
{
    uint64_t bytes = 0;
    unsigned entries = 0;
    struct lq_subscription *starved = consume->starved;
    while (starved != NULL) {
        struct lq_subscription *next = starved->next;
        wake(starved);
        starved = next;
    }
    while (consume->ready != NULL && bytes < TURN_BYTES_MAX && entries < TURN_ENTRIES_MAX) {
        entries += move(consume->ready, &bytes);
    }
    return consume->ready != NULL;
}

/* ---- what happens to the partition */

/* The group of @subscription may have been changed. False: it ended. */
static bool look_at_group(struct lq_subscription *subscription)
{
    const struct lq_cgroup *cgroup = cgroup_of(subscription);
    if (cgroup == NULL) {
        end(subscription, LIGHTQ_ENOTFOUND, "the consumer group has been deleted");
        return false;
    }
    if (cgroup->generation != subscription->generation) {
        end(subscription, LIGHTQ_EFENCED, "the consumer group has been moved: subscribe again");
        return false;
    }
    if (subscription->standby && !cgroup->options.exclusive) {
        activate(subscription, cgroup);
    }
    return true;
}

static void on_partition(struct lq_partition_watcher *watcher, unsigned events)
{
    struct lq_subscription *subscription = watcher->data;
    const struct lq_service *service = subscription->consume->service;
    const char *text = "";
    if ((events & LQ_PARTITION_CLOSED) != 0) {
        bool deleted = lq_catalog_partition(lq_meta_catalog(service->meta), subscription->group) == NULL;
        end(subscription, deleted ? LIGHTQ_ENOTFOUND : LIGHTQ_ENOTLEADER,
            deleted ? "the topic has been deleted" : "the partition is no longer on this node");
        return;
    }
    if (!lq_partition_leading(subscription->partition)) {
        lightq_status status = lq_service_not_leading(service, subscription->group, &text);
        end(subscription, status, text);
        return;
    }
    if (subscription->cgroup != 0 && (events & (LQ_PARTITION_RELOADED | LQ_PARTITION_GROUPS)) != 0 &&
        !look_at_group(subscription)) {
        return;
    }
    if ((events & LQ_PARTITION_RELOADED) != 0) {
        seek(subscription);
    }
    if (subscription->state == RUNNING && !subscription->standby &&
        subscription->next_offset < lq_partition_start(subscription->partition)) {
        end(subscription, LIGHTQ_EOUTOFRANGE, "the messages from that offset on have been trimmed");
        return;
    }
    wake(subscription);
}

/* ---- requests */

static int64_t add_credit(int64_t credit, uint64_t more)
{
    return more > (uint64_t)(CREDIT_MAX - credit) ? CREDIT_MAX : credit + (int64_t)more;
}

/* A new one in its session's list; @number NULL: a look-up. NULL: no memory. */
static struct lq_subscription *make(struct lq_consume *consume, const struct lq_request *request, uint64_t group,
                                    struct lq_partition *partition, const uint64_t *number)
{
    struct lq_subscription *subscription = calloc(1, sizeof *subscription);
    if (subscription == NULL) {
        return NULL;
    }
    subscription->is_lookup = number == NULL;
    if (number != NULL) {
        subscription->key = (struct subscription_key){.session = request->session->number, .number = *number};
        HASH_ADD(hh, consume->by_key, key, sizeof subscription->key, subscription);
        if (subscription->hh.tbl == NULL) {
            free(subscription);
            return NULL;
        }
    }
    subscription->consume = consume;
    subscription->session = request->session;
    subscription->correlation = request->envelope->correlation;
    subscription->group = group;
    subscription->partition = partition;
    subscription->watcher = (struct lq_partition_watcher){.cb = on_partition, .data = subscription};
    lq_cursor_init(&subscription->cursor, consume->service, partition, 0, on_cursor, subscription);
    lq_partition_watch(partition, &subscription->watcher);
    DL_APPEND2(request->session->subscriptions, subscription, session_prev, session_next);
    request->session->subscription_count++;
    consume->count++;
    consume->service->counters->subscriptions++;
    return subscription;
}

/* Goes to its start, which may have to be looked for; answers when it is known. */
static void begin(struct lq_subscription *subscription, const Lightq__Wire__Start *start, uint64_t offset, bool is_time)
{
    struct lq_consume *consume = subscription->consume;
    struct lq_session *session = subscription->session;
    subscription->next_offset = offset;
    if (is_time) {
        struct lq_group *group = lq_partition_group(subscription->partition);
        subscription->state = LOCATING;
        subscription->since_ms = start->value;
        lq_cursor_seek(&subscription->cursor, group == NULL ? 0 : lq_rlog_seek_time(lq_group_log(group), start->value));
        wake(subscription);
        return;
    }
    struct position position = position_of(subscription);
    subscription->state = RUNNING;
    seek(subscription);
    wake(subscription);
    answer(consume, session, &position, LIGHTQ_OK, "");
}

/* Whether the session may have one more. */
static lightq_status may_have_more(const struct lq_consume *consume, const struct lq_session *session,
                                   const char **text)
{
    if (session->subscription_count >= consume->service->options->session_subscriptions_max) {
        *text = "this client has as many subscriptions as it may have (session.subscriptions.max)";
        return LIGHTQ_ELIMIT;
    }
    if (consume->count + lq_pipeline_count(consume->service->pipeline) >= LQ_SUBSCRIPTIONS_MAX) {
        *text = "this node has as many subscriptions as it may have";
        return LIGHTQ_ELIMIT;
    }
    return LIGHTQ_OK;
}

void lq_consume_subscribe(struct lq_consume *consume, const struct lq_request *request)
{
    const Lightq__Wire__Subscribe *body = request->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    struct position position = {
        .number = body->subscription, .correlation = request->envelope->correlation, .group = request->envelope->group};
    const char *text = "";
    bool is_time = false;
    lightq_status status = lq_service_lead(consume->service, &body->topic, body->partition, request->envelope->group,
                                           &placed, &partition, &text);
    position.group = placed == NULL ? position.group : placed->group;
    if (status == LIGHTQ_OK) {
        status = may_have_more(consume, request->session, &text);
    }
    if (status == LIGHTQ_OK && (find(consume, request->session, body->subscription) != NULL ||
                                lq_pipeline_has(consume->service->pipeline, request->session, body->subscription))) {
        status = LIGHTQ_EEXISTS;
        text = "this client has a subscription of that number already";
    }
    if (status == LIGHTQ_OK) {
        position.start = lq_partition_start(partition);
        position.end = lq_partition_end(partition);
        position.term = lq_partition_term(partition);
    }
    const struct lq_cgroup *cgroup = NULL;
    if (status == LIGHTQ_OK && body->consumer_group[0] != '\0') {
        status = lq_position_group(partition, body, &cgroup, &text);
    }
    if (status == LIGHTQ_OK && cgroup != NULL && cgroup->options.mode == LQ_CGROUP_PIPELINE) {
        lq_pipeline_subscribe(consume->service->pipeline, request, placed, partition, cgroup);
        return;
    }
    if (status == LIGHTQ_OK) {
        position.cgroup = cgroup == NULL ? 0 : cgroup->number;
        status = cgroup != NULL && body->start == NULL
                     ? lq_position_resume(partition, cgroup, &position.offset, &text)
                     : lq_position_resolve(partition, body->start, &position.offset, &text);
        is_time = status == LIGHTQ_ENOTREADY;
        status = is_time ? LIGHTQ_OK : status;
    }
    struct lq_subscription *subscription = NULL;
    if (status == LIGHTQ_OK &&
        (subscription = make(consume, request, placed->group, partition, &body->subscription)) == NULL) {
        status = LIGHTQ_ENOMEM;
        text = lightq_status_text(status);
    }
    if (status != LIGHTQ_OK) {
        answer(consume, request->session, &position, status, text);
        return;
    }
    subscription->credit_messages = add_credit(0, body->credit_messages);
    subscription->credit_bytes = add_credit(0, body->credit_bytes);
    if (cgroup != NULL) {
        subscription->cgroup = cgroup->number;
        subscription->generation = cgroup->generation;
        subscription->standby =
            cgroup->options.exclusive && first_of_group(consume, placed->group, cgroup->number, subscription) != NULL;
    }
    begin(subscription, body->start, position.offset, is_time);
}

void lq_consume_offsets(struct lq_consume *consume, const struct lq_request *request)
{
    const Lightq__Wire__Offsets *body = request->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    struct position position = {
        .correlation = request->envelope->correlation, .group = request->envelope->group, .is_lookup = true};
    const char *text = "";
    lightq_status status = lq_service_lead(consume->service, &body->topic, body->partition, request->envelope->group,
                                           &placed, &partition, &text);
    position.group = placed == NULL ? position.group : placed->group;
    bool is_time = false;
    if (status == LIGHTQ_OK) {
        position.start = lq_partition_start(partition);
        position.end = lq_partition_end(partition);
        position.term = lq_partition_term(partition);
        status = lq_position_resolve(partition, body->at, &position.offset, &text);
        is_time = status == LIGHTQ_ENOTREADY;
    }
    struct lq_subscription *lookup = NULL;
    if (is_time && (status = may_have_more(consume, request->session, &text)) == LIGHTQ_OK &&
        (lookup = make(consume, request, placed->group, partition, NULL)) == NULL) {
        status = LIGHTQ_ENOMEM;
    }
    if (lookup != NULL) {
        begin(lookup, body->at, position.offset, true);
    } else {
        answer(consume, request->session, &position, status, text);
    }
}

void lq_consume_unsubscribe(struct lq_consume *consume, const struct lq_request *request)
{
    const Lightq__Wire__Unsubscribe *body = request->body;
    struct lq_subscription *subscription = find(consume, request->session, body->subscription);
    Lightq__Wire__UnsubscribeAnswer given = LIGHTQ__WIRE__UNSUBSCRIBE_ANSWER__INIT;
    given.subscription = body->subscription;
    if (subscription != NULL) {
        destroy(subscription);
    } else if (!lq_pipeline_unsubscribe(consume->service->pipeline, request->session, body->subscription)) {
        given.status = LIGHTQ_ENOTFOUND;
    }
    lq_session_answer(consume->service->sessions, request->session, LQ_MESSAGE_UNSUBSCRIBE_ANSWER,
                      request->envelope->correlation, request->envelope->group, &given.base);
}

void lq_consume_credit(struct lq_consume *consume, const struct lq_request *request)
{
    const Lightq__Wire__Credit *body = request->body;
    struct lq_subscription *subscription = find(consume, request->session, body->subscription);
    if (subscription == NULL) {
        /* False: it ended, and the client has not heard yet. */
        (void)lq_pipeline_credit(consume->service->pipeline, request->session, body);
        return;
    }
    subscription->credit_messages = add_credit(subscription->credit_messages, body->messages);
    subscription->credit_bytes = add_credit(subscription->credit_bytes, body->bytes);
    wake(subscription);
}

lightq_status lq_consume_locate(struct lq_consume *consume, const struct lq_request *request, uint64_t group,
                                struct lq_partition *partition, uint64_t since_ms, lq_consume_located located,
                                void *data, const char **text)
{
    Lightq__Wire__Start start = LIGHTQ__WIRE__START__INIT;
    lightq_status status = may_have_more(consume, request->session, text);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_subscription *lookup = make(consume, request, group, partition, NULL);
    if (lookup == NULL) {
        *text = lightq_status_text(LIGHTQ_ENOMEM);
        return LIGHTQ_ENOMEM;
    }
    lookup->located = located;
    lookup->located_data = data;
    start.value = since_ms;
    begin(lookup, &start, lq_partition_start(partition), true);
    return LIGHTQ_OK;
}

void lq_consume_each(const struct lq_consume *consume, uint64_t group, uint64_t cgroup,
                     void (*cb)(void *data, const struct lq_consume_view *view), void *data)
{
    struct lq_subscription *subscription, *next;
    HASH_ITER(hh, consume->by_key, subscription, next)
    {
        bool asked_for = cgroup == 0 ? subscription->cgroup != 0 : subscription->cgroup == cgroup;
        if (asked_for && subscription->group == group) {
            const struct lq_consume_view view = {.session = subscription->session,
                                                 .cgroup = subscription->cgroup,
                                                 .subscription = subscription->key.number,
                                                 .position = subscription->next_offset,
                                                 .credit_messages = subscription->credit_messages,
                                                 .credit_bytes = subscription->credit_bytes,
                                                 .standby = subscription->standby};
            cb(data, &view);
        }
    }
}

/* ---- sessions */

void lq_consume_session_ended(struct lq_consume *consume, struct lq_session *session)
{
    (void)consume;
    while (session->subscriptions != NULL) {
        struct position position = position_of(session->subscriptions);
        destroy(session->subscriptions);
        if (position.located != NULL) {
            position.located(position.located_data, LIGHTQ_ECANCELED, 0, "");
        }
    }
}

void lq_consume_session_unblocked(struct lq_consume *consume, struct lq_session *session)
{
    (void)consume;
    struct lq_subscription *subscription;
    DL_FOREACH2(session->subscriptions, subscription, session_next)
    {
        wake(subscription);
    }
}

lightq_status lq_consume_new(struct lq_service *service, struct lq_consume **out)
{
    struct lq_consume *consume = calloc(1, sizeof *consume);
    if (consume == NULL) {
        return LIGHTQ_ENOMEM;
    }
    consume->service = service;
    *out = consume;
    return LIGHTQ_OK;
}

void lq_consume_free(struct lq_consume *consume)
{
    assert(consume->count == 0);
    free(consume);
}
