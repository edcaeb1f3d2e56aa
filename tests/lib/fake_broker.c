/* tests/lib/fake_broker.c - the life of the pretended servers: sockets, threads, and what a test asks of them. What
 * they answer is in fake_broker_answer.c. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "client/base/clock.h"
#include "client/base/limits.h"
#include "client/lib/wait.h"
#include "client/wire/batch.h"
#include "tests/lib/fake_broker_private.h"

#define POLL_MS     1 /* a node looks this often for what the test wants */
#define US_PER_MS   1000u
#define MESSAGE_MAX (1024u * 1024)

/* ---- a node's thread */

static void *open_router(struct fake_node *node)
{
    char bound[128] = "";
    size_t size = sizeof bound;
    int linger = 0, mandatory = 1, unlimited = 0;
    void *router = zmq_socket(node->cluster->zmq, ZMQ_ROUTER);
    assert(router != NULL);
    zmq_setsockopt(router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(router, ZMQ_SNDHWM, &unlimited,
                   sizeof unlimited); /* sending never fails, so it is never looked at */
    zmq_setsockopt(router, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "tcp://%s", node->address[0] != '\0' ? node->address : "127.0.0.1:*");
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), FAKE_WAIT_MS);
    while (zmq_bind(router, wanted) != 0) { /* the port is given free by another thread */
        assert(lq_deadline_left_ms(lq_clock_system(), deadline_us) > 0);
    }
    zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, bound, &size);
    if (node->address[0] == '\0') { /* it stays the same for ever */
        snprintf(node->address, sizeof node->address, "%.60s", bound + strlen("tcp://"));
    }
    return router;
}

static size_t find_session(struct fake_node *node, zmq_msg_t *routing)
{
    for (size_t i = 0; i < node->session_count; i++) {
        if (node->sessions[i].routing_size == zmq_msg_size(routing) &&
            memcmp(node->sessions[i].routing, zmq_msg_data(routing), zmq_msg_size(routing)) == 0) {
            return i;
        }
    }
    size_t place = 0;
    while (place < node->session_count && node->sessions[place].routing_size > 0) {
        place++;
    }
    node->session_count += place == node->session_count;
    assert(place < FAKE_SESSIONS_MAX && zmq_msg_size(routing) <= sizeof node->sessions[0].routing);
    struct fake_session *session = &node->sessions[place];
    *session = (struct fake_session){.routing_size = zmq_msg_size(routing)};
    memcpy(session->routing, zmq_msg_data(routing), zmq_msg_size(routing));
    return place;
}

static bool receive(struct fake_node *node)
{
    zmq_msg_t routing, frame, payload;
    zmq_msg_init(&routing);
    if (zmq_msg_recv(&routing, node->router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&routing);
        return false;
    }
    zmq_msg_init(&frame);
    zmq_msg_init(&payload);
    zmq_msg_recv(&frame, node->router, 0);
    if (zmq_msg_more(&frame)) {
        zmq_msg_recv(&payload, node->router, 0);
    }
    pthread_mutex_lock(&node->cluster->lock);
    fake_take(node, find_session(node, &routing), zmq_msg_data(&frame), zmq_msg_size(&frame), zmq_msg_data(&payload),
              zmq_msg_size(&payload));
    pthread_mutex_unlock(&node->cluster->lock);
    zmq_msg_close(&routing);
    zmq_msg_close(&frame);
    zmq_msg_close(&payload);
    return true;
}

static void *node_main(void *context)
{
    struct fake_node *node = context;
    bool stop = false;
    while (!stop) {
        zmq_pollitem_t item = {.socket = node->router, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, POLL_MS);
        pthread_mutex_lock(&node->cluster->lock);
        stop = node->stop;
        bool frozen = node->frozen;
        node->is_frozen = frozen;
        pthread_cond_broadcast(&node->cluster->changed);
        pthread_mutex_unlock(&node->cluster->lock);
        bool bounce = false;
        while (!stop && !frozen && !bounce && receive(node)) {
            pthread_mutex_lock(&node->cluster->lock);
            bounce = node->bounce;
            pthread_mutex_unlock(&node->cluster->lock);
        }
        pthread_mutex_lock(&node->cluster->lock);
        bounce = node->bounce;
        node->bounce = false;
        if (bounce) { /* all connections are closed, and may come again */
            for (size_t i = 0; i < node->stream_count; i++) {
                fake_group_leave(node, &node->streams[i], false);
            }
            node->session_count = 0;
            node->stream_count = 0;
        } else if (!stop && !frozen) {
            fake_push(node);
        }
        pthread_mutex_unlock(&node->cluster->lock);
        if (bounce) {
            zmq_close(node->router);
            node->router = open_router(node);
        }
    }
    zmq_close(node->router);
    return NULL;
}

static void start_node(struct fake_node *node)
{
    node->router = open_router(node);
    pthread_mutex_lock(&node->cluster->lock); /* the others tell whether it runs */
    node->stop = false;
    node->frozen = false;
    node->session_count = 0;
    node->stream_count = 0;
    node->running = true;
    pthread_mutex_unlock(&node->cluster->lock);
    int failed = pthread_create(&node->thread, NULL, node_main, node);
    assert(failed == 0);
}

static void stop_node(struct fake_node *node)
{
    if (!node->running) {
        return;
    }
    pthread_mutex_lock(&node->cluster->lock);
    node->stop = true;
    pthread_mutex_unlock(&node->cluster->lock);
    pthread_join(node->thread, NULL);
    pthread_mutex_lock(&node->cluster->lock);
    node->running = false;
    pthread_mutex_unlock(&node->cluster->lock);
}

/* ---- the cluster */

struct fake_cluster *fake_cluster_new(unsigned nodes)
{
    struct fake_cluster *cluster = calloc(1, sizeof *cluster);
    assert(cluster != NULL && nodes >= 1 && nodes <= FAKE_NODES_MAX);
    pthread_mutex_init(&cluster->lock, NULL);
    lq_cond_init(&cluster->changed);
    cluster->zmq = zmq_ctx_new();
    cluster->id = lq_id_random(lq_clock_system());
    cluster->node_count = nodes;
    cluster->message_max = MESSAGE_MAX;
    cluster->version = 1;
    for (unsigned id = 1; id <= nodes; id++) {
        cluster->nodes[id].cluster = cluster;
        cluster->nodes[id].id = id;
        start_node(&cluster->nodes[id]);
        size_t used = strlen(cluster->servers);
        snprintf(cluster->servers + used, sizeof cluster->servers - used, "%s%s", id > 1 ? "," : "",
                 cluster->nodes[id].address);
    }
    return cluster;
}

void fake_cluster_free(struct fake_cluster *cluster)
{
    for (unsigned id = 1; id <= cluster->node_count; id++) {
        stop_node(&cluster->nodes[id]);
    }
    zmq_ctx_term(cluster->zmq);
    while (cluster->held_count > 0) {
        lq_slab_unref(cluster->held[--cluster->held_count].slab);
    }
    for (size_t t = 0; t < cluster->topic_count; t++) {
        for (unsigned p = 0; p < FAKE_PARTITIONS_MAX; p++) {
            struct fake_partition *partition = &cluster->topics[t].partitions[p];
            for (size_t b = 0; b < partition->batch_count; b++) {
                lq_slab_unref(partition->batches[b].slab);
            }
            free(partition->batches);
        }
    }
    fake_groups_free(cluster);
    pthread_cond_destroy(&cluster->changed);
    pthread_mutex_destroy(&cluster->lock);
    free(cluster);
}

const char *fake_cluster_servers(const struct fake_cluster *cluster)
{
    return cluster->servers;
}

const char *fake_cluster_address(const struct fake_cluster *cluster, unsigned node)
{
    return cluster->nodes[node].address;
}

void fake_cluster_kill(struct fake_cluster *cluster, unsigned node)
{
    stop_node(&cluster->nodes[node]);
}

void fake_cluster_start(struct fake_cluster *cluster, unsigned node)
{
    start_node(&cluster->nodes[node]);
}

void fake_cluster_freeze(struct fake_cluster *cluster, unsigned node, bool frozen)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->nodes[node].frozen = frozen;
    while (frozen && !cluster->nodes[node].is_frozen) {
        lq_cond_wait(&cluster->changed, &cluster->lock, UINT64_MAX);
    }
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_password(struct fake_cluster *cluster, const char *password)
{
    pthread_mutex_lock(&cluster->lock);
    snprintf(cluster->password, sizeof cluster->password, "%s", password);
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_message_max(struct fake_cluster *cluster, uint64_t bytes)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->message_max = bytes;
    pthread_mutex_unlock(&cluster->lock);
}

/* ---- topics */

struct fake_topic *fake_find_topic(struct fake_cluster *cluster, const char *name)
{
    for (size_t i = 0; i < cluster->topic_count; i++) {
        if (strcmp(cluster->topics[i].name, name) == 0) {
            return &cluster->topics[i];
        }
    }
    return NULL;
}

static void init_partition(struct fake_cluster *cluster, struct fake_partition *partition, unsigned number)
{
    partition->leader = partition->told_leader = 1 + number % cluster->node_count;
    partition->term = partition->told_term = 1;
}

void fake_cluster_topic(struct fake_cluster *cluster, const char *name, unsigned partitions)
{
    pthread_mutex_lock(&cluster->lock);
    assert(cluster->topic_count < FAKE_TOPICS_MAX && partitions <= FAKE_PARTITIONS_MAX);
    struct fake_topic *topic = &cluster->topics[cluster->topic_count++];
    snprintf(topic->name, sizeof topic->name, "%s", name);
    topic->id = lq_id_random(lq_clock_system());
    topic->partition_count = partitions;
    for (unsigned i = 0; i < partitions; i++) {
        init_partition(cluster, &topic->partitions[i], i);
    }
    cluster->version++;
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_drop_topic(struct fake_cluster *cluster, const char *name)
{
    pthread_mutex_lock(&cluster->lock);
    struct fake_topic *topic = fake_find_topic(cluster, name);
    assert(topic != NULL);
    topic->name[0] = '\0';
    topic->id = (struct lq_id){{0}};
    cluster->version++;
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_grow(struct fake_cluster *cluster, const char *name, unsigned partitions)
{
    pthread_mutex_lock(&cluster->lock);
    struct fake_topic *topic = fake_find_topic(cluster, name);
    while (topic->partition_count < partitions) {
        init_partition(cluster, &topic->partitions[topic->partition_count], topic->partition_count);
        topic->partition_count++;
    }
    cluster->version++;
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_lead_secretly(struct fake_cluster *cluster, const char *name, unsigned partition, unsigned node)
{
    pthread_mutex_lock(&cluster->lock);
    struct fake_partition *found = &fake_find_topic(cluster, name)->partitions[partition];
    found->leader = node;
    found->term++;
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_tell(struct fake_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    for (size_t t = 0; t < cluster->topic_count; t++) {
        for (unsigned p = 0; p < cluster->topics[t].partition_count; p++) {
            struct fake_partition *partition = &cluster->topics[t].partitions[p];
            partition->told_leader = partition->leader;
            partition->told_term = partition->term;
        }
    }
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_lead(struct fake_cluster *cluster, const char *name, unsigned partition, unsigned node)
{
    fake_cluster_lead_secretly(cluster, name, partition, node);
    fake_cluster_tell(cluster);
}

void fake_cluster_rule(struct fake_cluster *cluster, struct fake_rule rule)
{
    pthread_mutex_lock(&cluster->lock);
    assert(cluster->rule_count < FAKE_RULES_MAX);
    cluster->rules[cluster->rule_count++] = rule;
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_no_rules(struct fake_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->rule_count = 0;
    pthread_mutex_unlock(&cluster->lock);
}

lightq_status fake_cluster_late(struct fake_cluster *cluster, size_t which)
{
    Lightq__Wire__ProduceAnswer answer = LIGHTQ__WIRE__PRODUCE_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    answer.status = LIGHTQ_ENOTFOUND;
    pthread_mutex_lock(&cluster->lock);
    if (which < cluster->held_count) {
        struct fake_produce produce = cluster->held[which];
        cluster->held_count--;
        memmove(cluster->held + which, cluster->held + which + 1, (cluster->held_count - which) * sizeof produce);
        fake_produce(cluster, 0, &produce, &answer, &leader);
        lq_slab_unref(produce.slab);
    }
    pthread_mutex_unlock(&cluster->lock);
    return (lightq_status)answer.status;
}

void fake_cluster_forget_producers(struct fake_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    for (size_t t = 0; t < cluster->topic_count; t++) {
        for (unsigned p = 0; p < cluster->topics[t].partition_count; p++) {
            cluster->topics[t].partitions[p].forgotten = cluster->topics[t].partitions[p].batch_count;
        }
    }
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_trim(struct fake_cluster *cluster, const char *name, unsigned partition, uint64_t start)
{
    pthread_mutex_lock(&cluster->lock);
    fake_find_topic(cluster, name)->partitions[partition].start = start;
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_append(struct fake_cluster *cluster, const char *name, unsigned partition, uint64_t producer,
                         const char *prefix, unsigned count)
{
    struct lq_batch_writer writer;
    struct lq_slab *slab;
    lq_batch_writer_init(&writer, LQ_ENTRY_BYTES_MAX);
    for (unsigned i = 0; i < count; i++) {
        char value[64];
        int size = snprintf(value, sizeof value, "%s%u", prefix, i);
        lightq_status status =
            lq_batch_writer_add(&writer, 1000 + i, lq_span_of(NULL, 0), lq_span_of(value, (size_t)size), NULL, 0);
        assert(status == LIGHTQ_OK);
    }
    lightq_status status = lq_batch_writer_seal(&writer, producer, 0, 0, LQ_BATCH_PLAIN, &slab);
    assert(status == LIGHTQ_OK);
    pthread_mutex_lock(&cluster->lock);
    fake_store(&fake_find_topic(cluster, name)->partitions[partition], slab->bytes, slab->size, 0);
    pthread_mutex_unlock(&cluster->lock);
    lq_slab_unref(slab);
    lq_batch_writer_deinit(&writer);
}

/* ---- what a test looks at */

static size_t copy_batch(const struct fake_batch *batch, struct fake_message *messages, size_t count, size_t capacity)
{
    struct lq_batch open;
    struct lq_record record;
    lightq_status status = lq_batch_open(&open, batch->slab->bytes, batch->slab->size, NULL);
    assert(status == LIGHTQ_OK);
    while (lq_batch_next(&open, &record) == LIGHTQ_OK) {
        if (count < capacity) {
            struct fake_message *to = &messages[count];
            *to = (struct fake_message){.offset = batch->base_offset + record.index,
                                        .producer = batch->producer,
                                        .sequence = record.sequence,
                                        .epoch = batch->epoch,
                                        .value_size = record.value.size};
            size_t kept = record.value.size < sizeof to->value ? record.value.size : sizeof to->value - 1;
            if (kept > 0) {
                memcpy(to->value, record.value.bytes, kept);
            }
        }
        count++;
    }
    lq_batch_close(&open);
    return count;
}

size_t fake_cluster_log(struct fake_cluster *cluster, const char *name, unsigned partition,
                        struct fake_message *messages, size_t capacity)
{
    size_t count = 0;
    pthread_mutex_lock(&cluster->lock);
    const struct fake_partition *found = &fake_find_topic(cluster, name)->partitions[partition];
    for (size_t i = 0; i < found->batch_count; i++) {
        count = copy_batch(&found->batches[i], messages, count, capacity);
    }
    pthread_mutex_unlock(&cluster->lock);
    return count;
}

void fake_count(struct fake_cluster *cluster, uint16_t type)
{
    if (type < FAKE_TYPES_MAX) {
        cluster->seen[type]++;
        pthread_cond_broadcast(&cluster->changed);
    }
}

unsigned fake_cluster_seen(struct fake_cluster *cluster, uint16_t type)
{
    pthread_mutex_lock(&cluster->lock);
    unsigned seen = cluster->seen[type];
    pthread_mutex_unlock(&cluster->lock);
    return seen;
}

bool fake_cluster_wait_seen(struct fake_cluster *cluster, uint16_t type, unsigned count)
{
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), FAKE_WAIT_MS);
    bool in_time = true;
    pthread_mutex_lock(&cluster->lock);
    while (cluster->seen[type] < count && in_time) {
        in_time = lq_cond_wait(&cluster->changed, &cluster->lock, deadline_us);
    }
    bool reached = cluster->seen[type] >= count;
    pthread_mutex_unlock(&cluster->lock);
    return reached;
}

int64_t fake_cluster_most_credit(struct fake_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    int64_t most = cluster->most_credit;
    pthread_mutex_unlock(&cluster->lock);
    return most;
}
