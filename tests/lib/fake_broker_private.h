/* tests/lib/fake_broker_private.h - shared by fake_broker.c (life, sockets) and fake_broker_answer.c (what is
 * answered). Everything below is guarded by cluster->lock; a node's socket belongs to its thread. */
#ifndef LQ_TESTS_FAKE_BROKER_PRIVATE_H
#define LQ_TESTS_FAKE_BROKER_PRIVATE_H

#include <pthread.h>

#include "client/base/id.h"
#include "client/base/slab.h"
#include "client/wire/codec.h"
#include "tests/lib/fake_broker.h"

#define FAKE_RULES_MAX    16
#define FAKE_TOPICS_MAX   8
#define FAKE_SESSIONS_MAX 4096
#define FAKE_STREAMS_MAX  1024
#define FAKE_TYPES_MAX    256
#define FAKE_KEPT         5 /* batches of a producer whose offsets are known */
#define FAKE_HELD_MAX     16

struct fake_batch {
    struct lq_slab *slab;
    uint64_t base_offset, producer, base_sequence;
    uint32_t count, epoch;
};

/* A request to store a batch. */
struct fake_produce {
    struct lq_id topic;
    uint32_t partition, epoch;
    bool begins;
    struct lq_slab *slab; /* of a held one: a reference */
};

struct fake_partition {
    struct fake_batch *batches;
    size_t batch_count;
    uint64_t start, end;
    unsigned leader, told_leader;
    uint64_t term, told_term;
    uint64_t forgotten; /* batches below this index are not known to be of a producer */
};

struct fake_topic {
    char name[64];
    struct lq_id id;
    unsigned partition_count;
    struct fake_partition partitions[FAKE_PARTITIONS_MAX];
};

struct fake_session {
    uint8_t routing[64];
    size_t routing_size;
    bool greeted;
};

struct fake_stream {
    size_t session;
    uint64_t id;
    struct lq_id topic;
    unsigned partition;
    uint64_t next;
    int64_t messages, bytes;
    bool open;
};

struct fake_node {
    struct fake_cluster *cluster;
    unsigned id;
    char address[64];
    pthread_t thread;
    bool running, stop, frozen, is_frozen, bounce;
    bool mute;    /* what is sent now is not */
    void *router; /* the thread's */
    struct fake_session sessions[FAKE_SESSIONS_MAX];
    size_t session_count;
    struct fake_stream streams[FAKE_STREAMS_MAX];
    size_t stream_count;
};

struct fake_cluster {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *zmq;
    struct lq_id id;
    unsigned node_count;
    struct fake_node nodes[FAKE_NODES_MAX + 1]; /* by id, from 1 */
    char servers[512];
    struct fake_topic topics[FAKE_TOPICS_MAX];
    size_t topic_count;
    struct fake_rule rules[FAKE_RULES_MAX];
    size_t rule_count;
    unsigned seen[FAKE_TYPES_MAX];
    char password[64];
    uint64_t message_max;
    uint64_t version;
    int64_t most_credit;
    struct fake_produce held[FAKE_HELD_MAX]; /* the oldest first */
    size_t held_count;
};

struct fake_topic *fake_find_topic(struct fake_cluster *cluster, const char *name);
void fake_count(struct fake_cluster *cluster, uint16_t type);
/* The rule for a message of @type at @node; FAKE_PASS when there is none. */
struct fake_rule fake_take_rule(struct fake_node *node, uint16_t type);
/* Takes one message that came; all frames are borrowed. With the lock. */
void fake_take(struct fake_node *node, size_t session, const void *frame, size_t frame_size, const void *payload,
               size_t payload_size);
/* Delivers what there is credit for. With the lock. */
void fake_push(struct fake_node *node);
void fake_send(struct fake_node *node, size_t session, const struct lq_envelope *envelope, const ProtobufCMessage *body,
               struct lq_slab *payload);
void fake_store(struct fake_partition *partition, const void *bytes, size_t size, uint32_t epoch);
/* As the leader of the partition does: *answer is filled. With the lock. */
void fake_produce(struct fake_cluster *cluster, unsigned node, const struct fake_produce *produce,
                  Lightq__Wire__ProduceAnswer *answer, Lightq__Wire__Leader *leader);

#endif
