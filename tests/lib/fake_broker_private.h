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
#define FAKE_GROUPS_MAX   8
#define FAKE_FATES        65536 /* messages of a partition that a pipeline group can know */

struct fake_batch {
    struct lq_slab *slab;
    uint64_t base_offset, producer, base_sequence;
    uint32_t count, epoch;
};

/* A request to store a batch. */
struct fake_produce {
    struct lq_id topic;
    uint32_t partition, epoch;
    bool begins, has_expected;
    uint64_t expected;
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
    char set_name[64], set_value[64]; /* the setting that was altered last; empty: none */
    struct fake_partition partitions[FAKE_PARTITIONS_MAX];
};

struct fake_session {
    uint8_t routing[64];
    size_t routing_size;
    bool greeted;
};

/* One message, as a group sees it. */
struct fake_fate {
    bool settled, dead;
    uint32_t failed;
    unsigned node; /* who holds it: a subscription there; 0: nobody */
    uint64_t stream;
    uint64_t until_us;  /* of the lease */
    uint64_t before_us; /* not before this again */
};

/* A group in one partition. */
struct fake_share {
    bool there;
    struct fake_group *group;
    uint64_t number, generation, position, term, redelivered;
    struct fake_fate *fates; /* FAKE_FATES of them; of a pipeline */
};

struct fake_group {
    char name[64];
    struct lq_id topic, id;
    bool pipeline, paused;
    uint32_t ack_wait_ms, max_deliver;
    struct fake_share shares[FAKE_PARTITIONS_MAX];
};

struct fake_stream {
    size_t session;
    uint64_t id;
    struct lq_id topic;
    unsigned partition;
    uint64_t next;
    int64_t messages, bytes;
    struct fake_share *share; /* NULL: of no group */
    uint64_t generation;
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
    struct fake_group groups[FAKE_GROUPS_MAX];
    uint64_t group_number;                   /* of the group that was made last */
    struct fake_produce held[FAKE_HELD_MAX]; /* the oldest first */
    size_t held_count;
};

/* fake_broker_answer.c, for fake_broker_group.c; with the lock */
struct fake_partition *fake_find_partition(struct fake_cluster *cluster, const ProtobufCBinaryData *topic,
                                           uint32_t partition);
void fake_put_leader(const struct fake_cluster *cluster, const struct fake_partition *partition,
                     Lightq__Wire__Leader *leader);
uint64_t fake_resolve(const struct fake_partition *partition, const Lightq__Wire__Start *start);
void fake_end_stream(struct fake_node *node, struct fake_stream *stream, lightq_status status,
                     const struct fake_partition *partition);

/* fake_broker_group.c; with the lock */
/* Fills what @answer says of the group; its status is another one than OK when there is no such group. */
struct fake_share *fake_group_subscribe(struct fake_node *node, const struct fake_partition *partition,
                                        const Lightq__Wire__Subscribe *in, Lightq__Wire__SubscribeAnswer *answer,
                                        Lightq__Wire__GroupOptions *options);
void fake_group_leave(struct fake_node *node, struct fake_stream *stream, bool clean);
/* True: the stream is a pipeline's, or ended, or paused, and was seen to. */
bool fake_group_push(struct fake_node *node, struct fake_stream *stream, const struct fake_partition *partition);
void fake_group_answer(struct fake_node *node, size_t session, struct lq_envelope *answer, uint16_t type,
                       const void *body);
void fake_groups_free(struct fake_cluster *cluster);

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
