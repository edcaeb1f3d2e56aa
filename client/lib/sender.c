/* client/lib/sender.c - the I/O thread's side of a producer: decides which batches go when and to whom. What the
 * answers mean is in sender_answer.c; producer.h draws the whole way.
 *
 * Order and once-only stand on three rules:
 * 1. A lane's batches are sent in the order of their sequences, at most inflight.max of them under way, and one that
 *    was refused is sent again only after the one before it.
 * 2. A batch that is sent again is the same bytes, so that the leader knows it, and numbers are never used for other
 *    messages.
 * 3. When a batch is given up, the next one begins a new epoch of the producer in that partition: it is sent when
 *    everything before it has its outcome, and says so. Once it is stored, the leader refuses what comes late of the
 *    epochs before; so what was given up is stored before it or never. What was under way behind is sent again in the
 *    new epoch, and stored once: docs/adr/0013-producer-epochs.md. */
#include "client/lib/sender_private.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/error.h"

#define RETRY_AFTER_MS_MAX 10000u /* a server is not waited for longer than that, whatever it says */
#define US_PER_MS          1000u
#define REDIRECTS_MAX      3 /* in a row that are followed without waiting */

_Static_assert(LQ_INFLIGHT_BATCHES_MAX <= LQ_PRODUCER_BATCHES_KEPT,
               "what is sent again in a new epoch is among the batches that the leader remembers");

static struct lightq_producer *producer_of(const struct lq_lane *lane)
{
    return lane->route->producer;
}

static struct lq_io *io_of(const struct lq_lane *lane)
{
    return &producer_of(lane)->client->io;
}

void lq_sender_wake_at(struct lightq_producer *producer, uint64_t at_us)
{
    if (at_us < producer->observer.deadline_us) {
        producer->observer.deadline_us = at_us;
    }
}

void lq_sender_back_off(struct lq_lane *lane, uint32_t least_ms)
{
    struct lq_io *io = io_of(lane);
    uint64_t least = io->options.retry_backoff_ms * US_PER_MS;
    uint64_t most = io->options.retry_backoff_max_ms * US_PER_MS;
    uint64_t told = least_ms < RETRY_AFTER_MS_MAX ? least_ms * US_PER_MS : RETRY_AFTER_MS_MAX * US_PER_MS;
    if (io->now_us < lane->retry_us) {
        return; /* one wait for the answers of all batches under way */
    }
    lane->backoff_us = lane->backoff_us == 0 ? least : lane->backoff_us * 2;
    lane->backoff_us = lane->backoff_us < most ? lane->backoff_us : most;
    lane->retry_us = io->now_us + (told > lane->backoff_us ? told : lane->backoff_us);
    lq_sender_wake_at(producer_of(lane), lane->retry_us);
}

/* ---- sending */

/* Sequences for @bundle, before which all have theirs. */
static void give_numbers(struct lq_lane *lane, struct lq_bundle *bundle)
{
    bundle->numbered = true;
    bundle->producer = io_of(lane)->options.idempotence ? lane->producer_id : 0;
    bundle->base_sequence = lane->next_sequence;
    bundle->begins = lane->begin_next;
    lane->begin_next = false;
    lane->next_sequence += bundle->count;
}

/* Makes the bytes of @bundle. False: no memory now. */
static bool seal(struct lq_lane *lane, struct lq_bundle *bundle)
{
    const struct lq_client_options *options = &io_of(lane)->options;
    struct lq_batch_head head;
    lightq_status status = lq_batch_writer_seal(&bundle->writer, bundle->producer, lane->epoch, bundle->base_sequence,
                                                (enum lq_codec_kind)options->compression, &bundle->slab);
    if (status != LIGHTQ_OK ||
        lq_batch_head_decode(bundle->slab->bytes, bundle->slab->size, &head, NULL) != LIGHTQ_OK) {
        return false;
    }
    bundle->crc = head.crc;
    return true;
}

static bool transmit(struct lq_lane *lane, struct lq_bundle *bundle)
{
    struct lq_io *io = io_of(lane);
    const struct lq_meta_partition *partition = lq_lane_partition(lane);
    if (bundle->begins && !bundle->begun) {
        lane->epoch++;
        bundle->begun = true;
    }
    if (bundle->slab == NULL && !seal(lane, bundle)) {
        lq_sender_back_off(lane, 0);
        return false;
    }
    Lightq__Wire__Produce body = LIGHTQ__WIRE__PRODUCE__INIT;
    body.topic = lq_codec_bytes_of(&lane->route->id);
    body.partition = lane->partition;
    body.timeout_ms = (uint32_t)io->options.request_timeout_ms;
    body.epoch = lane->epoch;
    body.begins_epoch = bundle->begins;
    body.has_expected_offset = bundle->has_expected_offset;
    body.expected_offset = bundle->expected_offset;
    body.message_id = (ProtobufCBinaryData){.len = bundle->message_id_size, .data = bundle->message_id};
    bundle->request.done = lq_sender_on_answer;
    lightq_status status = lq_conn_request(lane->conn, &bundle->request, LQ_MESSAGE_PRODUCE, partition->group,
                                           &body.base, bundle->slab, io->options.request_timeout_ms * US_PER_MS);
    if (status != LIGHTQ_OK) {
        lq_sender_back_off(lane, 0);
        return false;
    }
    bundle->state = LQ_BUNDLE_SENT;
    bundle->serial = ++lane->serial;
    bundle->attempts++;
    return true;
}

/* Whether @bundle may go now that everything before it, @previous the last, is under way or has its outcome. */
static bool is_sendable(const struct lq_bundle *bundle, const struct lq_bundle *previous)
{
    return bundle->state == LQ_BUNDLE_WAITING &&
           (previous == NULL || previous->state == LQ_BUNDLE_RESOLVED || bundle->serial < previous->serial);
}

/* The leader's connection when it is ready; otherwise whatever leads there has been set going. */
static bool has_leader(struct lq_lane *lane)
{
    struct lq_io *io = io_of(lane);
    const struct lq_meta_partition *partition = lq_lane_partition(lane);
    if (partition == NULL) {
        return false;
    }
    lane->conn = partition->leader_conn;
    if (lane->conn == NULL) {
        if (!partition->doubted) {
            lq_meta_doubt(io->meta, lane->route->topic, lane->partition);
        }
        return false;
    }
    return lq_conn_want(lane->conn);
}

/* Batches of a lane that may be under way at once. */
static uint64_t under_way_max(const struct lq_lane *lane)
{
    const struct lq_client_options *options = &io_of(lane)->options;
    return options->idempotence ? options->inflight_max : 1;
}

void lq_sender_pump(struct lq_lane *lane)
{
    struct lq_io *io = io_of(lane);
    if (lane->batches.first == NULL || io->now_us < lane->retry_us || !has_leader(lane)) {
        return;
    }
    const struct lq_bundle *previous = NULL;
    uint64_t most = under_way_max(lane);
    uint64_t under_way = 0;
    bool all_known = true; /* of those before it */
    for (struct lq_bundle *bundle = lane->batches.first; bundle != NULL && under_way < most; bundle = bundle->next) {
        if (!bundle->numbered) {
            give_numbers(lane, bundle);
        }
        if (bundle->begins && bundle->state == LQ_BUNDLE_WAITING && !all_known) {
            return;
        }
        if (is_sendable(bundle, previous) && !transmit(lane, bundle)) {
            return;
        }
        if (bundle->state == LQ_BUNDLE_WAITING) {
            return;
        }
        all_known = all_known && bundle->state == LQ_BUNDLE_RESOLVED;
        previous = bundle;
        under_way++;
    }
}

/* ---- taking over what send() has gathered */

static void activate(struct lq_lane *lane)
{
    struct lightq_producer *producer = producer_of(lane);
    if (!lane->active) {
        lane->active = true;
        lane->next_active = producer->active;
        producer->active = lane;
    }
}

/* Whether one batch more could be sent at once. */
static bool has_room(const struct lq_lane *lane)
{
    uint64_t left = under_way_max(lane);
    for (const struct lq_bundle *bundle = lane->batches.first; bundle != NULL && left > 0; bundle = bundle->next) {
        left--;
    }
    return left > 0;
}

/* With the lock. An open batch goes when it has nothing to wait for: no other is under way, or it has lingered and may
 * be sent at once. While it may not, it grows. */
static void take_over(struct lq_lane *lane, bool flush)
{
    struct lightq_producer *producer = producer_of(lane);
    struct lq_io *io = io_of(lane);
    uint64_t linger_us = io->options.linger_ms * US_PER_MS;
    lq_bundles_move(&lane->batches, &lane->closed);
    if (lane->open != NULL) {
        bool lingered = io->now_us >= lane->open->created_us + linger_us && has_room(lane);
        if (lane->batches.first == NULL || lingered || flush || atomic_load(&producer->flushing) > 0) {
            lq_bundles_append(&lane->batches, lane->open);
            lane->open = NULL;
        }
    }
    lane->attended = lane->batches.first != NULL || lane->open != NULL;
    if (lane->attended) {
        activate(lane);
    }
    if (lane->attended && linger_us > 0) { /* without lingering send() asks for every batch it opens */
        lq_sender_wake_at(producer, io->now_us + linger_us);
    }
}

/* With the lock. Everything, whatever it waits for. */
static void take_over_all(struct lq_lane *lane)
{
    lq_bundles_move(&lane->batches, &lane->closed);
    if (lane->open != NULL) {
        lq_bundles_append(&lane->batches, lane->open);
        lane->open = NULL;
    }
}

void lq_sender_go_on(struct lq_lane *lane)
{
    struct lightq_producer *producer = producer_of(lane);
    if (!lane->is_answered) {
        lane->is_answered = true;
        lane->next_answered = producer->answered;
        producer->answered = lane;
    }
}

static void hand_over(struct lightq_producer *producer)
{
    if (producer->turned.first != NULL) {
        lq_producer_done(producer, &producer->turned);
    }
}

/* The application may go on with what was answered while the next batches are sent. */
static void on_turn(struct lq_observer *observer)
{
    struct lightq_producer *producer = lq_container(observer, struct lightq_producer, observer);
    struct lq_lane *answered = producer->answered;
    hand_over(producer);
    if (answered == NULL) {
        return;
    }
    producer->answered = NULL;
    pthread_mutex_lock(&producer->lock);
    for (struct lq_lane *lane = answered; lane != NULL; lane = lane->next_answered) {
        take_over(lane, false);
    }
    pthread_mutex_unlock(&producer->lock);
    for (struct lq_lane *lane = answered, *next; lane != NULL; lane = next) {
        next = lane->next_answered; /* sending may fail, and then it is in the next turn's list */
        lane->is_answered = false;
        lq_sender_pump(lane);
    }
    hand_over(producer);
}

/* ---- time passing */

/* Reports what has waited longer than delivery.timeout.ms. The first of a lane is always the oldest. */
static void expire(struct lq_lane *lane)
{
    struct lq_io *io = io_of(lane);
    uint64_t timeout_us = io->options.delivery_timeout_ms * US_PER_MS;
    struct lq_bundle *bundle;
    while ((bundle = lq_lane_oldest(lane)) != NULL && io->now_us >= bundle->created_us + timeout_us) {
        lq_request_cancel(&bundle->request);
        lq_sender_resolve(bundle, LIGHTQ_ETIMEDOUT, LIGHTQ_OFFSET_UNKNOWN);
    }
}

/* Lanes without work leave the list of active ones; the others get their turn. */
static void on_tick(struct lq_observer *observer)
{
    struct lightq_producer *producer = lq_container(observer, struct lightq_producer, observer);
    observer->deadline_us = UINT64_MAX;
    pthread_mutex_lock(&producer->lock);
    for (struct lq_lane **at = &producer->active; *at != NULL;) {
        struct lq_lane *lane = *at;
        take_over(lane, false);
        if (lane->attended) {
            at = &lane->next_active;
        } else {
            *at = lane->next_active;
            lane->active = false;
        }
    }
    pthread_mutex_unlock(&producer->lock);
    for (struct lq_lane *lane = producer->active; lane != NULL; lane = lane->next_active) {
        expire(lane);
        lq_sender_pump(lane);
        if (lane->retry_us > producer->client->io.now_us) {
            lq_sender_wake_at(producer, lane->retry_us);
        }
    }
}

/* ---- topics */

/* Reports everything in @lane with @status. True: there was something. */
static bool resolve_all(struct lq_lane *lane, lightq_status status)
{
    pthread_mutex_lock(&producer_of(lane)->lock);
    take_over_all(lane);
    pthread_mutex_unlock(&producer_of(lane)->lock);
    bool some = lane->batches.first != NULL;
    struct lq_bundle *bundle;
    while ((bundle = lq_lane_oldest(lane)) != NULL) {
        lq_request_cancel(&bundle->request);
        lq_sender_resolve(bundle, status, LIGHTQ_OFFSET_UNKNOWN);
    }
    return some;
}

void lq_sender_new_identity(struct lq_lane *lane)
{
    lane->producer_id = lq_clock_random_u64(io_of(lane)->clock);
    lane->producer_id += lane->producer_id == 0; /* 0 says: not numbered */
    lane->next_sequence = 0;
    lane->epoch = 0;
    lane->begin_next = false;
}

/* With the lock. Makes the lanes of partitions that are new. */
static lightq_status grow_lanes(struct lq_route *route, uint32_t count)
{
    if (count <= route->lane_count) {
        return LIGHTQ_OK;
    }
    struct lq_lane **lanes = realloc(route->lanes, count * sizeof(struct lq_lane *));
    if (lanes == NULL) {
        return LIGHTQ_ENOMEM;
    }
    route->lanes = lanes;
    while (route->lane_count < count) {
        struct lq_lane *lane = calloc(1, sizeof *lane);
        if (lane == NULL) {
            return LIGHTQ_ENOMEM;
        }
        lane->route = route;
        lane->partition = route->lane_count;
        lq_sender_new_identity(lane);
        lanes[route->lane_count++] = lane;
    }
    return LIGHTQ_OK;
}

/* With the lock. Takes over what is known of the topic now. */
static void update_route(struct lq_route *route, struct lq_topic *topic)
{
    lightq_status status = topic->status == LIGHTQ_OK ? grow_lanes(route, topic->partition_count) : topic->status;
    route->state = status == LIGHTQ_OK ? LQ_ROUTE_KNOWN : LQ_ROUTE_FAILED;
    route->status = status;
    pthread_cond_broadcast(&route->producer->changed);
}

/* The leader of @lane may have changed: what was sent to another is sent again. */
static void relead(struct lq_lane *lane)
{
    const struct lq_meta_partition *partition = lq_lane_partition(lane);
    if (partition == NULL || partition->leader_conn == NULL) {
        return;
    }
    if (partition->leader_conn != lane->conn) {
        for (struct lq_bundle *bundle = lane->batches.first; bundle != NULL; bundle = bundle->next) {
            if (bundle->state == LQ_BUNDLE_SENT) {
                lq_request_cancel(&bundle->request);
                bundle->state = LQ_BUNDLE_WAITING;
            }
            bundle->serial = 0;
        }
        if (lane->redirects++ < REDIRECTS_MAX) {
            lane->retry_us = 0;
        }
    }
    lq_sender_pump(lane);
}

/* The topic was deleted and made again: what was meant for the old one is not for the new one. */
static void recreate(struct lq_route *route)
{
    for (uint32_t i = 0; i < route->lane_count; i++) {
        resolve_all(route->lanes[i], LIGHTQ_ENOTFOUND);
        lq_sender_new_identity(route->lanes[i]);
    }
}

static void on_route_topic(struct lq_route *route, struct lq_topic *topic)
{
    struct lightq_producer *producer = route->producer;
    if (topic->status == LIGHTQ_ENOTREADY) {
        return;
    }
    if (topic->status == LIGHTQ_OK && !lq_id_equal(&route->id, &topic->id)) {
        recreate(route);
        route->id = topic->id;
    }
    pthread_mutex_lock(&producer->lock);
    update_route(route, topic);
    pthread_mutex_unlock(&producer->lock);
    for (struct lq_lane *lane = producer->active; lane != NULL; lane = lane->next_active) {
        if (lane->route != route) {
            continue;
        }
        if (topic->status == LIGHTQ_OK) {
            relead(lane);
        } else if (!lightq_status_retriable(topic->status)) {
            resolve_all(lane, topic->status);
        }
    }
}

/* The routes there are now; send() only ever adds in front of them. */
static struct lq_route *routes_of(struct lightq_producer *producer)
{
    pthread_mutex_lock(&producer->lock);
    struct lq_route *routes = producer->routes;
    pthread_mutex_unlock(&producer->lock);
    return routes;
}

static void on_topic(struct lq_observer *observer, struct lq_topic *topic)
{
    struct lightq_producer *producer = lq_container(observer, struct lightq_producer, observer);
    for (struct lq_route *route = routes_of(producer); route != NULL; route = route->next) {
        if (route->topic == topic) {
            on_route_topic(route, topic);
        }
    }
}

static void on_conn(struct lq_observer *observer, struct lq_conn *conn)
{
    struct lightq_producer *producer = lq_container(observer, struct lightq_producer, observer);
    pthread_mutex_lock(&producer->lock);
    producer->refusal = LIGHTQ_OK;
    pthread_mutex_unlock(&producer->lock);
    for (struct lq_lane *lane = producer->active; lane != NULL; lane = lane->next_active) {
        if (lane->conn == conn) {
            lane->retry_us = 0;
            lq_sender_pump(lane);
        }
    }
}

static void on_trouble(struct lq_observer *observer, const struct lightq_error *error)
{
    struct lightq_producer *producer = lq_container(observer, struct lightq_producer, observer);
    if (error->fatal) { /* no server lets us in: waiting will not help */
        pthread_mutex_lock(&producer->lock);
        producer->refusal = error->status;
        pthread_cond_broadcast(&producer->changed);
        pthread_mutex_unlock(&producer->lock);
        for (struct lq_lane *lane = producer->active; lane != NULL; lane = lane->next_active) {
            resolve_all(lane, error->status);
        }
    }
    lq_producer_tell(producer, error);
}

/* ---- commands from the application's threads */

/* Asks for the topic of @route, or takes what is known already. */
static void resolve_route(struct lq_route *route, struct lq_io *io)
{
    struct lightq_producer *producer = route->producer;
    if (route->topic == NULL) {
        route->topic = lq_meta_hold(io->meta, route->name);
    } else {
        lq_meta_want(io->meta, route->topic);
    }
    if (route->topic == NULL) {
        pthread_mutex_lock(&producer->lock);
        route->state = LQ_ROUTE_FAILED;
        route->status = LIGHTQ_ENOMEM;
        pthread_cond_broadcast(&producer->changed);
        pthread_mutex_unlock(&producer->lock);
    } else if (route->topic->status == LIGHTQ_OK && !route->topic->wanted) {
        on_route_topic(route, route->topic); /* somebody else has asked before */
    }
}

static void resolve_routes(struct lightq_producer *producer, struct lq_io *io)
{
    for (struct lq_route *route = routes_of(producer); route != NULL; route = route->next) {
        pthread_mutex_lock(&producer->lock);
        bool resolve = route->resolve;
        route->resolve = false;
        pthread_mutex_unlock(&producer->lock);
        if (resolve) {
            resolve_route(route, io);
        }
    }
}

void lq_sender_run(struct lq_command *command, struct lq_io *io)
{
    struct lightq_producer *producer = lq_container(command, struct lightq_producer, command);
    struct lq_lane *pumped = NULL;
    pthread_mutex_lock(&producer->lock);
    bool resolve = producer->resolve;
    producer->resolve = false;
    bool flush = producer->flush_now;
    producer->flush_now = false;
    for (struct lq_lane *lane = producer->asking; lane != NULL; lane = lane->next_asking) {
        lane->asking = false;
        take_over(lane, flush);
        lane->next_pumped = pumped;
        pumped = lane;
    }
    producer->asking = NULL;
    for (struct lq_lane *lane = producer->active; lane != NULL && flush; lane = lane->next_active) {
        take_over(lane, true);
    }
    pthread_mutex_unlock(&producer->lock);
    if (resolve) {
        resolve_routes(producer, io);
    }
    for (struct lq_lane *lane = pumped; lane != NULL; lane = lane->next_pumped) {
        lq_sender_pump(lane);
    }
    for (struct lq_lane *lane = producer->active; lane != NULL && flush; lane = lane->next_active) {
        lq_sender_pump(lane);
    }
}

void lq_sender_close(struct lq_command *command, struct lq_io *io)
{
    struct lightq_producer *producer = lq_container(command, struct lightq_producer, close_command);
    for (struct lq_route *route = routes_of(producer); route != NULL; route = route->next) {
        for (uint32_t i = 0; i < route->lane_count; i++) {
            producer->given_up |= resolve_all(route->lanes[i], LIGHTQ_ECANCELED);
        }
        if (route->topic != NULL) {
            lq_meta_release(io->meta, route->topic);
        }
    }
    hand_over(producer);
    lq_io_forget(io, &producer->observer);
    pthread_mutex_lock(&producer->lock);
    producer->closed = true;
    pthread_cond_broadcast(&producer->changed);
    pthread_mutex_unlock(&producer->lock);
}

static void begin(struct lq_command *command, struct lq_io *io)
{
    struct lightq_producer *producer = lq_container(command, struct lightq_producer, command);
    producer->command.run = lq_sender_run;
    lq_io_observe(io, &producer->observer);
    lq_sender_run(command, io);
}

void lq_sender_init(struct lightq_producer *producer)
{
    producer->command.run = begin;
    producer->close_command.run = lq_sender_close;
    producer->observer = (struct lq_observer){.deadline_us = UINT64_MAX,
                                              .on_tick = on_tick,
                                              .on_topic = on_topic,
                                              .on_conn = on_conn,
                                              .on_trouble = on_trouble,
                                              .on_turn = on_turn};
}
