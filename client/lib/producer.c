/* client/lib/producer.c - the application's side of a producer: records go into batches here, reports come out. See
 * producer.h for the other side and lightq/producer.h for the contract. Any thread. */
#include "client/lib/producer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/lib/error.h"
#include "client/lib/partitioner.h"
#include "client/lib/wait.h"

#define QUOTA_PARTS   4  /* a batch closes at a quarter of the window */
#define OPAQUES_FIRST 16 /* room in a new bundle */
#define WAIT_FOREVER  (-1)
#define HEADERS_LOCAL 16 /* of a message, without asking for memory */

/* ---- life */

lightq_status lightq_producer_new(struct lightq *client, const struct lightq_producer_options *options,
                                  struct lightq_producer **producer, struct lightq_error *error)
{
    if (lq_client_forked(client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    struct lightq_producer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->fd < 0) {
        free(made);
        return lq_error_set(error, LIGHTQ_ELIMIT, "cannot make an eventfd: %s", strerror(errno));
    }
    made->client = client;
    if (options != NULL) {
        made->callbacks = *options;
    }
    const struct lq_client_options *settings = &client->io.options;
    made->quota = settings->window_messages / QUOTA_PARTS > 0 ? settings->window_messages / QUOTA_PARTS : 1;
    made->random = lq_clock_random_u64(client->io.clock);
    lq_cond_init(&made->changed);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->done_lock, NULL);
    lq_sender_init(made);
    atomic_fetch_add(&client->users, 1);
    lq_io_post(&client->io, &made->command);
    *producer = made;
    return LIGHTQ_OK;
}

struct lq_bundle *lq_bundle_new(struct lq_lane *lane, uint64_t created_us)
{
    struct lq_bundle *bundle = calloc(1, sizeof *bundle);
    if (bundle == NULL) {
        return NULL;
    }
    bundle->opaques = malloc(OPAQUES_FIRST * sizeof *bundle->opaques);
    if (bundle->opaques == NULL) {
        free(bundle);
        return NULL;
    }
    bundle->opaque_capacity = OPAQUES_FIRST;
    bundle->lane = lane;
    bundle->created_us = created_us;
    lq_batch_writer_init(&bundle->writer, atomic_load(&lane->route->producer->client->io.batch_bytes_max));
    return bundle;
}

void lq_bundle_free(struct lq_bundle *bundle)
{
    lq_batch_writer_deinit(&bundle->writer);
    lq_slab_unref(bundle->slab);
    free(bundle->opaques);
    free(bundle->message_id);
    free(bundle);
}

static void free_routes(struct lightq_producer *producer)
{
    while (producer->routes != NULL) {
        struct lq_route *route = producer->routes;
        producer->routes = route->next;
        for (uint32_t i = 0; i < route->lane_count; i++) {
            free(route->lanes[i]);
        }
        free(route->lanes);
        free(route->name);
        free(route);
    }
}

/* ---- reports */

/* The descriptor becomes readable. With done_lock. */
static void signal_poll(struct lightq_producer *producer)
{
    if (!producer->signaled) {
        uint64_t one = 1;
        producer->signaled = true;
        ssize_t written = write(producer->fd, &one, sizeof one);
        (void)written; /* cannot fail: it is 0 before */
    }
}

void lq_producer_done(struct lightq_producer *producer, struct lq_bundles *bundles)
{
    pthread_mutex_lock(&producer->done_lock);
    lq_bundles_move(&producer->done, bundles);
    signal_poll(producer);
    pthread_mutex_unlock(&producer->done_lock);
}

void lq_producer_tell(struct lightq_producer *producer, const struct lightq_error *error)
{
    pthread_mutex_lock(&producer->done_lock);
    producer->trouble = *error;
    producer->has_trouble = true;
    signal_poll(producer);
    pthread_mutex_unlock(&producer->done_lock);
}

static void report(const struct lightq_producer *producer, const struct lq_bundle *bundle)
{
    struct lightq_report told = {
        .status = bundle->status,
        .in_doubt = bundle->in_doubt,
        .topic = bundle->lane->route->name,
        .partition = (int32_t)bundle->lane->partition,
        .offset = bundle->base_offset,
        .producer = bundle->producer,
        .sequence = bundle->base_sequence,
        .term = bundle->term,
        .batch_crc = bundle->crc,
        .same_id = bundle->same_id,
    };
    int64_t step = told.offset == LIGHTQ_OFFSET_UNKNOWN ? 0 : 1;
    for (uint32_t i = 0; i < bundle->count; i++) {
        told.opaque = bundle->opaques[i];
        producer->callbacks.on_report(producer->callbacks.owner, &told);
        told.offset += step;
        told.sequence++;
    }
}

/* Runs the callbacks of what is done. *reports (may be NULL): how many reports that were. True: some callback was due.
 */
static bool run_reports(struct lightq_producer *producer, size_t *reports)
{
    struct lightq_error trouble;
    pthread_mutex_lock(&producer->done_lock);
    struct lq_bundle *bundle = producer->done.first;
    producer->done = (struct lq_bundles){.first = NULL};
    bool has_trouble = producer->has_trouble;
    if (has_trouble) {
        trouble = producer->trouble;
        producer->has_trouble = false;
    }
    if (producer->signaled) {
        uint64_t drained;
        ssize_t got = read(producer->fd, &drained, sizeof drained);
        (void)got;
        producer->signaled = false;
    }
    pthread_mutex_unlock(&producer->done_lock);
    if (has_trouble && producer->callbacks.on_error != NULL) {
        producer->callbacks.on_error(producer->callbacks.owner, &trouble);
    }
    size_t count = 0, bytes = 0;
    while (bundle != NULL) {
        struct lq_bundle *next = bundle->next;
        if (producer->callbacks.on_report != NULL) {
            report(producer, bundle);
        }
        count += bundle->count;
        bytes += bundle->bytes;
        lq_bundle_free(bundle);
        bundle = next;
    }
    if (count > 0) {
        pthread_mutex_lock(&producer->lock);
        atomic_fetch_sub(&producer->waiting, count);
        producer->buffered -= bytes;
        pthread_mutex_unlock(&producer->lock);
    }
    if (reports != NULL) {
        *reports = count;
    }
    return count > 0 || has_trouble;
}

/* Waits for something to tell up to @timeout_ms and tells it. */
static void wait_and_run(struct lightq_producer *producer, int timeout_ms, size_t *count)
{
    if (run_reports(producer, count) || timeout_ms == 0) {
        return;
    }
    struct pollfd polled = {.fd = producer->fd, .events = POLLIN};
    if (poll(&polled, 1, timeout_ms) > 0) {
        run_reports(producer, count);
    }
}

lightq_status lightq_producer_poll(struct lightq_producer *producer, int timeout_ms, size_t *count)
{
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    wait_and_run(producer, timeout_ms, count);
    return LIGHTQ_OK;
}

lightq_status lightq_producer_flush(struct lightq_producer *producer, int timeout_ms)
{
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    struct lq_clock *clock = producer->client->io.clock;
    uint64_t deadline_us = lq_deadline_in(clock, timeout_ms);
    int left_ms = timeout_ms;
    pthread_mutex_lock(&producer->lock);
    producer->flush_now = true;
    pthread_mutex_unlock(&producer->lock);
    atomic_fetch_add(&producer->flushing, 1);
    lq_io_post(&producer->client->io, &producer->command);
    run_reports(producer, NULL);
    while (atomic_load(&producer->waiting) > 0 && left_ms != 0) {
        left_ms = lq_deadline_left_ms(clock, deadline_us);
        wait_and_run(producer, left_ms, NULL);
    }
    atomic_fetch_sub(&producer->flushing, 1);
    return atomic_load(&producer->waiting) == 0 ? LIGHTQ_OK : LIGHTQ_ETIMEDOUT;
}

lightq_status lightq_producer_fd(struct lightq_producer *producer, int *fd)
{
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    *fd = producer->fd;
    return LIGHTQ_OK;
}

size_t lightq_producer_waiting(const struct lightq_producer *producer)
{
    return atomic_load(&producer->waiting);
}

lightq_status lightq_producer_close(struct lightq_producer *producer, int timeout_ms)
{
    if (producer == NULL) {
        return LIGHTQ_OK;
    }
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    lightq_status flushed = lightq_producer_flush(producer, timeout_ms);
    (void)flushed; /* what is left is given up below */
    lq_io_post(&producer->client->io, &producer->close_command);
    pthread_mutex_lock(&producer->lock);
    producer->closing = true;
    while (!producer->closed) {
        pthread_cond_wait(&producer->changed, &producer->lock);
    }
    pthread_mutex_unlock(&producer->lock);
    run_reports(producer, NULL);
    lightq_status status = producer->given_up ? LIGHTQ_ECANCELED : LIGHTQ_OK;
    free_routes(producer);
    atomic_fetch_sub(&producer->client->users, 1);
    pthread_cond_destroy(&producer->changed);
    pthread_mutex_destroy(&producer->done_lock);
    pthread_mutex_destroy(&producer->lock);
    close(producer->fd);
    free(producer);
    return status;
}

/* ---- topics */

static struct lq_route *find_route(struct lightq_producer *producer, const char *name)
{
    if (producer->recent != NULL && strcmp(producer->recent->name, name) == 0) {
        return producer->recent;
    }
    for (struct lq_route *route = producer->routes; route != NULL; route = route->next) {
        if (strcmp(route->name, name) == 0) {
            producer->recent = route;
            return route;
        }
    }
    return NULL;
}

static struct lq_route *add_route(struct lightq_producer *producer, const char *name)
{
    struct lq_route *route = calloc(1, sizeof *route);
    if (route == NULL || (route->name = strdup(name)) == NULL) {
        free(route);
        return NULL;
    }
    route->producer = producer;
    route->state = LQ_ROUTE_FAILED;
    route->next = producer->routes;
    producer->routes = route;
    return route;
}

/* Asks the cluster about @route and waits. With the lock, which is given up while waiting. */
static lightq_status resolve(struct lightq_producer *producer, struct lq_route *route, int timeout_ms)
{
    const struct lq_io *io = &producer->client->io;
    uint64_t deadline_us = lq_deadline_in(io->clock, timeout_ms < 0 ? (int)io->options.request_timeout_ms : timeout_ms);
    if (route->state == LQ_ROUTE_FAILED) {
        route->state = LQ_ROUTE_ASKED;
        route->resolve = true;
        producer->resolve = true;
        lq_io_post(&producer->client->io, &producer->command);
    }
    bool in_time = true;
    while (route->state == LQ_ROUTE_ASKED && producer->refusal == LIGHTQ_OK && in_time) {
        in_time = lq_cond_wait(&producer->changed, &producer->lock, deadline_us);
    }
    if (route->state == LQ_ROUTE_KNOWN) {
        return LIGHTQ_OK;
    }
    if (route->state == LQ_ROUTE_FAILED) {
        return route->status;
    }
    return lq_client_trouble(producer->client, LIGHTQ_EUNAVAILABLE, NULL);
}

/* The route of @name, known. With the lock. */
static lightq_status get_route(struct lightq_producer *producer, const char *name, int timeout_ms,
                               struct lq_route **route)
{
    struct lq_route *found = find_route(producer, name);
    if (found == NULL) {
        lightq_status status = lq_topic_name_check(name);
        if (status != LIGHTQ_OK) {
            return status;
        }
        found = add_route(producer, name);
        if (found == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    *route = found;
    return found->state == LQ_ROUTE_KNOWN ? LIGHTQ_OK : resolve(producer, found, timeout_ms);
}

lightq_status lightq_producer_partitions(struct lightq_producer *producer, const char *topic, int timeout_ms,
                                         int32_t *count)
{
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    struct lq_route *route;
    pthread_mutex_lock(&producer->lock);
    lightq_status status = producer->refusal;
    if (status == LIGHTQ_OK) {
        status = get_route(producer, topic, timeout_ms, &route);
    }
    if (status == LIGHTQ_OK) {
        *count = (int32_t)route->lane_count;
    }
    pthread_mutex_unlock(&producer->lock);
    return status;
}

/* ---- sending */

/* Puts @lane on the list of those the I/O thread shall look at. With the lock. */
static void ask_for(struct lightq_producer *producer, struct lq_lane *lane)
{
    lane->attended = true;
    if (!lane->asking) {
        lane->asking = true;
        lane->next_asking = producer->asking;
        producer->asking = lane;
    }
}

static void close_bundle(struct lightq_producer *producer, struct lq_lane *lane)
{
    lq_bundles_append(&lane->closed, lane->open);
    lane->open = NULL;
    ask_for(producer, lane);
}

static bool grow_opaques(struct lq_bundle *bundle)
{
    uint32_t capacity = bundle->opaque_capacity * 2;
    void **grown = realloc(bundle->opaques, capacity * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    bundle->opaques = grown;
    bundle->opaque_capacity = capacity;
    return true;
}

/* What of a message the record format wants. */
struct parts {
    struct lq_span key, value;
    const struct lq_record_header *headers;
    size_t header_count;
    size_t size;
};

/* Appends to the lane's open bundle, or to a new one when there is none. ETOOBIG, EBUSY: it does not fit any more. */
static lightq_status append(struct lightq_producer *producer, struct lq_lane *lane,
                            const struct lightq_message *message, const struct parts *parts, uint64_t timestamp_ms)
{
    if (lane->open == NULL) {
        lane->open = lq_bundle_new(lane, lq_clock_monotonic_us(producer->client->io.clock));
    }
    struct lq_bundle *bundle = lane->open;
    if (bundle == NULL || (bundle->count == bundle->opaque_capacity && !grow_opaques(bundle))) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_batch_writer_add(&bundle->writer, timestamp_ms, parts->key, parts->value, parts->headers,
                                               parts->header_count);
    if (status != LIGHTQ_OK) {
        if (bundle->count == 0) {
            lane->open = NULL;
            lq_bundle_free(bundle);
        }
        return status;
    }
    bundle->opaques[bundle->count++] = message->opaque;
    bundle->bytes += parts->size;
    producer->buffered += parts->size;
    atomic_fetch_add_explicit(&producer->waiting, 1, memory_order_relaxed);
    return LIGHTQ_OK;
}

/* What holds for a bundle of one message. Takes ownership of @message_id, which may be NULL. */
static void stand_alone(struct lq_bundle *bundle, const struct lightq_message *message, void *message_id)
{
    bundle->has_expected_offset = message->has_expected_offset;
    bundle->expected_offset = message->has_expected_offset ? (uint64_t)message->expected_offset : 0;
    if (message_id != NULL) {
        memcpy(message_id, message->message_id, message->message_id_size);
        bundle->message_id = message_id;
        bundle->message_id_size = (uint8_t)message->message_id_size;
    }
}

/* With the lock: puts the message into its lane. *post: the I/O thread has something to do. */
static lightq_status put(struct lightq_producer *producer, struct lq_lane *lane, const struct lightq_message *message,
                         const struct parts *parts, bool *post)
{
    const struct lq_io *io = &producer->client->io;
    size_t batch_bytes = io->options.batch_bytes;
    uint64_t timestamp_ms = message->timestamp_ms == 0 ? lq_clock_wall_ms(io->clock) : (uint64_t)message->timestamp_ms;
    bool attended = lane->attended;
    bool fresh = lane->open == NULL;
    bool alone = message->has_expected_offset || message->message_id != NULL;
    void *message_id = NULL;
    if (message->message_id != NULL && (message_id = malloc(message->message_id_size)) == NULL) {
        return LIGHTQ_ENOMEM;
    }
    if (lane->open != NULL &&
        (alone || lq_batch_writer_size(&lane->open->writer) + lq_batch_size_bound(parts->size, parts->header_count) -
                          LQ_BATCH_HEADER_BYTES >
                      batch_bytes)) {
        close_bundle(producer, lane);
        *post = true;
    }
    lightq_status status = append(producer, lane, message, parts, timestamp_ms);
    if ((status == LIGHTQ_ETOOBIG || status == LIGHTQ_EBUSY) && lane->open != NULL) {
        close_bundle(producer, lane);
        *post = true;
        status = append(producer, lane, message, parts, timestamp_ms);
    }
    if (status != LIGHTQ_OK) {
        free(message_id);
        return status;
    }
    if (alone) {
        stand_alone(lane->open, message, message_id);
    }
    if (alone || lane->open->count >= producer->quota || lq_batch_writer_size(&lane->open->writer) >= batch_bytes) {
        close_bundle(producer, lane);
        *post = true;
    } else if (!attended || (fresh && io->options.linger_ms == 0)) {
        ask_for(producer, lane);
        *post = true;
    }
    return LIGHTQ_OK;
}

static lightq_status choose_lane(struct lightq_producer *producer, struct lq_route *route,
                                 const struct lightq_message *message, struct lq_lane **lane)
{
    if (message->partition >= 0) {
        if ((uint32_t)message->partition >= route->lane_count) {
            return LIGHTQ_ENOTFOUND;
        }
        *lane = route->lanes[message->partition];
        return LIGHTQ_OK;
    }
    if (message->key != NULL) {
        *lane = route->lanes[lq_partition_of_key(message->key, message->key_size, route->lane_count)];
        return LIGHTQ_OK;
    }
    if (message->message_id != NULL) {
        *lane = route->lanes[lq_partition_of_key(message->message_id, message->message_id_size, route->lane_count)];
        return LIGHTQ_OK;
    }
    enum lq_partitioner kind = (enum lq_partitioner)producer->client->io.options.partitioner;
    bool settled =
        kind == LQ_PARTITIONER_STICKY && route->sticky < route->lane_count && route->lanes[route->sticky]->open != NULL;
    if (!settled) {
        route->sticky = lq_partition_next(kind, &producer->random, route->sticky, route->lane_count);
    }
    *lane = route->lanes[route->sticky];
    return LIGHTQ_OK;
}

/* With the lock. */
static lightq_status send_locked(struct lightq_producer *producer, const struct lightq_message *message,
                                 const struct parts *parts, bool *post)
{
    const struct lq_client_options *settings = &producer->client->io.options;
    struct lq_route *route;
    struct lq_lane *lane;
    if (producer->refusal != LIGHTQ_OK) {
        return producer->refusal;
    }
    lightq_status status = get_route(producer, message->topic, WAIT_FOREVER, &route);
    if (status != LIGHTQ_OK) {
        return status;
    }
    size_t waiting = atomic_load_explicit(&producer->waiting, memory_order_relaxed);
    if (waiting >= settings->window_messages ||
        (waiting > 0 && producer->buffered + parts->size > settings->buffer_bytes)) {
        return LIGHTQ_EBUSY;
    }
    status = choose_lane(producer, route, message, &lane);
    return status == LIGHTQ_OK ? put(producer, lane, message, parts, post) : status;
}

static lightq_status send_parts(struct lightq_producer *producer, const struct lightq_message *message,
                                struct parts *parts)
{
    bool post = false;
    parts->key = lq_span_of(message->key, message->key_size);
    parts->value = lq_span_of(message->value, message->value_size);
    parts->size = lq_message_size(parts->key, parts->value, parts->headers, parts->header_count);
    if (parts->size > atomic_load_explicit(&producer->client->io.message_bytes_max, memory_order_relaxed)) {
        return LIGHTQ_ETOOBIG;
    }
    pthread_mutex_lock(&producer->lock);
    lightq_status status = send_locked(producer, message, parts, &post);
    pthread_mutex_unlock(&producer->lock);
    if (post) {
        lq_io_post(&producer->client->io, &producer->command);
    }
    return status;
}

/* The headers of @message as the record format wants them: in @local, or in memory that the caller frees. */
static lightq_status take_headers(const struct lightq_message *message, struct lq_record_header local[HEADERS_LOCAL],
                                  struct lq_record_header **headers)
{
    *headers = local;
    if (message->header_count > LQ_HEADERS_MAX) {
        return LIGHTQ_EINVAL;
    }
    if (message->header_count > HEADERS_LOCAL) {
        *headers = malloc(message->header_count * sizeof **headers);
        if (*headers == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    for (size_t i = 0; i < message->header_count; i++) {
        const struct lightq_header *header = &message->headers[i];
        (*headers)[i] = (struct lq_record_header){.name = lq_span_of(header->name, header->name_size),
                                                  .value = lq_span_of(header->value, header->value_size)};
    }
    return LIGHTQ_OK;
}

static lightq_status send_with_headers(struct lightq_producer *producer, const struct lightq_message *message)
{
    struct lq_record_header local[HEADERS_LOCAL];
    struct lq_record_header *headers;
    lightq_status taken = take_headers(message, local, &headers);
    if (taken != LIGHTQ_OK) {
        return taken;
    }
    struct parts parts = {.headers = headers, .header_count = message->header_count};
    lightq_status status = send_parts(producer, message, &parts);
    if (headers != local) {
        free(headers);
    }
    return status;
}

lightq_status lightq_producer_send(struct lightq_producer *producer, const struct lightq_message *message)
{
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    if (message->topic == NULL || message->partition < LIGHTQ_PARTITION_ANY || message->timestamp_ms < 0 ||
        (message->has_expected_offset && (message->partition < 0 || message->expected_offset < 0)) ||
        (message->message_id != NULL &&
         (message->message_id_size == 0 || message->message_id_size > LQ_MESSAGE_ID_BYTES_MAX))) {
        return LIGHTQ_EINVAL;
    }
    if (message->header_count > 0) {
        return send_with_headers(producer, message);
    }
    struct parts parts = {.headers = NULL};
    return send_parts(producer, message, &parts);
}

/* ---- batches that the application makes */

/* Whether the messages are for one partition, as far as can be said before it is known how many there are. */
static bool are_one_batch(const struct lightq_message *messages, size_t count)
{
    bool good = count > 0 && messages[0].topic != NULL && messages[0].partition >= LIGHTQ_PARTITION_ANY;
    for (size_t i = 0; good && i < count; i++) {
        const struct lightq_message *message = &messages[i];
        good = message->topic != NULL && strcmp(message->topic, messages[0].topic) == 0 &&
               message->partition == messages[0].partition && message->timestamp_ms >= 0 &&
               !message->has_expected_offset && message->message_id == NULL;
    }
    return good;
}

/* Appends one message to @bundle, which nobody else sees yet. */
static lightq_status fill_one(const struct lq_io *io, struct lq_bundle *bundle, const struct lightq_message *message)
{
    struct lq_record_header local[HEADERS_LOCAL];
    struct lq_record_header *headers;
    struct lq_span key = lq_span_of(message->key, message->key_size);
    struct lq_span value = lq_span_of(message->value, message->value_size);
    uint64_t timestamp_ms = message->timestamp_ms == 0 ? lq_clock_wall_ms(io->clock) : (uint64_t)message->timestamp_ms;
    if (bundle->count == bundle->opaque_capacity && !grow_opaques(bundle)) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = take_headers(message, local, &headers);
    if (status != LIGHTQ_OK) {
        return status;
    }
    size_t size = lq_message_size(key, value, headers, message->header_count);
    if (size > atomic_load_explicit(&io->message_bytes_max, memory_order_relaxed)) {
        status = LIGHTQ_ETOOBIG;
    } else {
        status = lq_batch_writer_add(&bundle->writer, timestamp_ms, key, value, headers, message->header_count);
    }
    if (headers != local) {
        free(headers);
    }
    if (status == LIGHTQ_OK) {
        bundle->opaques[bundle->count++] = message->opaque;
        bundle->bytes += size;
    }
    return status == LIGHTQ_EBUSY ? LIGHTQ_ETOOBIG : status; /* more messages than a batch holds */
}

/* A bundle of all the messages for @lane. Keys must be of that partition too. */
static lightq_status fill(const struct lightq_producer *producer, struct lq_lane *lane,
                          const struct lightq_message *messages, size_t count, struct lq_bundle **bundle)
{
    const struct lq_io *io = &producer->client->io;
    struct lq_bundle *made = lq_bundle_new(lane, lq_clock_monotonic_us(io->clock));
    lightq_status status = made == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    for (size_t i = 0; status == LIGHTQ_OK && i < count; i++) {
        const struct lightq_message *message = &messages[i];
        bool elsewhere =
            message->partition < 0 && message->key != NULL &&
            lq_partition_of_key(message->key, message->key_size, lane->route->lane_count) != lane->partition;
        status = elsewhere ? LIGHTQ_EINVAL : fill_one(io, made, message);
    }
    if (status != LIGHTQ_OK && made != NULL) {
        lq_bundle_free(made);
        return status;
    }
    *bundle = made;
    return status;
}

/* With the lock. The first message with a key says where all go. */
static lightq_status send_batch_locked(struct lightq_producer *producer, const struct lightq_message *messages,
                                       size_t count)
{
    const struct lq_client_options *settings = &producer->client->io.options;
    const struct lightq_message *leading = &messages[0];
    struct lq_route *route;
    struct lq_lane *lane;
    struct lq_bundle *bundle = NULL;
    for (size_t i = 0; i < count && leading->key == NULL; i++) {
        leading = messages[i].key != NULL ? &messages[i] : leading;
    }
    if (producer->refusal != LIGHTQ_OK) {
        return producer->refusal;
    }
    lightq_status status = get_route(producer, messages[0].topic, WAIT_FOREVER, &route);
    if (status == LIGHTQ_OK) {
        status = choose_lane(producer, route, leading, &lane);
    }
    if (status == LIGHTQ_OK) {
        status = fill(producer, lane, messages, count, &bundle);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    size_t waiting = atomic_load_explicit(&producer->waiting, memory_order_relaxed);
    if (waiting > 0 &&
        (waiting + count > settings->window_messages || producer->buffered + bundle->bytes > settings->buffer_bytes)) {
        lq_bundle_free(bundle);
        return LIGHTQ_EBUSY;
    }
    if (lane->open != NULL) {
        close_bundle(producer, lane);
    }
    bundle->whole = true;
    producer->buffered += bundle->bytes;
    atomic_fetch_add_explicit(&producer->waiting, count, memory_order_relaxed);
    lane->open = bundle;
    close_bundle(producer, lane);
    return LIGHTQ_OK;
}

lightq_status lightq_producer_send_batch(struct lightq_producer *producer, const struct lightq_message *messages,
                                         size_t count)
{
    if (lq_client_forked(producer->client)) {
        return LIGHTQ_EFORK;
    }
    if (count > LQ_BATCH_RECORDS_MAX) {
        return LIGHTQ_ETOOBIG;
    }
    if (!are_one_batch(messages, count)) {
        return LIGHTQ_EINVAL;
    }
    pthread_mutex_lock(&producer->lock);
    lightq_status status = send_batch_locked(producer, messages, count);
    pthread_mutex_unlock(&producer->lock);
    lq_io_post(&producer->client->io, &producer->command);
    return status;
}
