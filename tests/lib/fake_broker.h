/* tests/lib/fake_broker.h - a cluster of pretended servers for tests of client/lib: real ROUTER sockets in threads of
 * their own, logs in memory, producers' numbers checked as the real ones are, and faults on demand. Statements about
 * what came are waited for with a deadline; nothing sleeps.
 *
 *     struct fake_cluster *cluster = fake_cluster_new(3);
 *     fake_cluster_topic(cluster, "t", 1);                       led by node 1
 *     fake_cluster_rule(cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_DROP});
 *     ... a client on fake_cluster_servers(cluster) ...
 *     fake_cluster_lead(cluster, "t", 0, 2);
 *     fake_cluster_free(cluster);
 *
 * All functions may be called from the test's thread at any time. */
#ifndef LQ_TESTS_FAKE_BROKER_H
#define LQ_TESTS_FAKE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lightq/status.h>

#include "client/wire/frame.h"

#define FAKE_NODES_MAX      5
#define FAKE_PARTITIONS_MAX 16
#define FAKE_WAIT_MS        10000

enum fake_action {
    FAKE_PASS,         /* as a healthy server does */
    FAKE_ANSWER,       /* with .status, and nothing is stored */
    FAKE_STORE_ANSWER, /* stored, but the answer is .status */
    FAKE_DROP,         /* nothing is stored, no answer */
    FAKE_STORE_DROP,   /* stored, no answer */
    FAKE_HOLD,         /* PRODUCE: it is still on its way, until fake_cluster_late; no answer */
    FAKE_CLOSE,        /* nothing is stored, the node's connections are closed */
    FAKE_STORE_CLOSE,  /* stored, then the connections are closed */
    FAKE_GARBAGE,      /* the answer is bytes that are no frame */
    FAKE_OTHER_TYPE,   /* the answer is of another type */
    FAKE_MANY_FRAMES,  /* the answer has five frames */
    FAKE_BAD_CRC,      /* DELIVER: a bit of the payload is wrong */
    FAKE_SKIP,         /* DELIVER: one batch is left out */
    FAKE_TWICE,        /* DELIVER: it comes twice */
    FAKE_DEPOSED,      /* SUBSCRIBE: as the leader of term 1 with an empty log, who does not know that it was deposed */
};

/* What happens to the next messages of a type. DELIVER is what the node sends; all others are what comes to it. */
struct fake_rule {
    uint16_t type;
    unsigned node;  /* 0: any */
    unsigned after; /* this many pass before */
    unsigned times; /* 0: for ever */
    enum fake_action action;
    lightq_status status;
    unsigned leader;  /* with ENOTLEADER: the node named as leader; 0: none */
    uint32_t version; /* HELLO passes, but names this version */
};

struct fake_message {
    uint64_t offset, producer, sequence;
    uint32_t epoch;
    char value[64]; /* cut, zero-terminated */
    size_t value_size;
};

struct fake_cluster;

struct fake_cluster *fake_cluster_new(unsigned nodes);
void fake_cluster_free(struct fake_cluster *cluster);
const char *fake_cluster_servers(const struct fake_cluster *cluster);
/* "127.0.0.1:port" of one. */
const char *fake_cluster_address(const struct fake_cluster *cluster, unsigned node);

/* Partition p is led by node 1 + p % nodes. */
void fake_cluster_topic(struct fake_cluster *cluster, const char *name, unsigned partitions);
void fake_cluster_drop_topic(struct fake_cluster *cluster, const char *name);
void fake_cluster_grow(struct fake_cluster *cluster, const char *name, unsigned partitions);
/* A new term with @node as leader; 0: nobody. */
void fake_cluster_lead(struct fake_cluster *cluster, const char *name, unsigned partition, unsigned node);
/* Nobody but the leader itself knows that it leads, until fake_cluster_tell. */
void fake_cluster_lead_secretly(struct fake_cluster *cluster, const char *name, unsigned partition, unsigned node);
void fake_cluster_tell(struct fake_cluster *cluster);
void fake_cluster_kill(struct fake_cluster *cluster, unsigned node);
void fake_cluster_start(struct fake_cluster *cluster, unsigned node);
/* Stays connected, takes nothing and says nothing, until thawed. */
void fake_cluster_freeze(struct fake_cluster *cluster, unsigned node, bool frozen);
void fake_cluster_password(struct fake_cluster *cluster, const char *password);
void fake_cluster_rule(struct fake_cluster *cluster, struct fake_rule rule);
void fake_cluster_no_rules(struct fake_cluster *cluster);
/* A PRODUCE that was held, @which from the oldest, comes to the partition now, from a network that kept it. Its client
 * is long gone: what it would be told is returned. ENOTFOUND: none was held. */
lightq_status fake_cluster_late(struct fake_cluster *cluster, size_t which);
/* Forgets what producers have sent, as after a long time. */
void fake_cluster_forget_producers(struct fake_cluster *cluster);
void fake_cluster_trim(struct fake_cluster *cluster, const char *name, unsigned partition, uint64_t start);
void fake_cluster_message_max(struct fake_cluster *cluster, uint64_t bytes);
/* Appends a batch of @count messages "<prefix><i>" as producer @producer. */
void fake_cluster_append(struct fake_cluster *cluster, const char *name, unsigned partition, uint64_t producer,
                         const char *prefix, unsigned count);

/* Makes a group in every partition, from the start, as GROUP_CREATE does. */
void fake_cluster_group(struct fake_cluster *cluster, const char *topic, const char *group, bool pipeline,
                        uint32_t ack_wait_ms, uint32_t max_deliver);
/* Moves it to @offset. */
void fake_cluster_group_seek(struct fake_cluster *cluster, const char *topic, const char *group, unsigned partition,
                             uint64_t offset);
/* It is gone from @partition. */
void fake_cluster_group_drop(struct fake_cluster *cluster, const char *topic, const char *group, unsigned partition);
/* Waits until @count messages are settled (subscriber: the position is @count), in all partitions together. False:
 * FAKE_WAIT_MS passed. */
bool fake_cluster_wait_settled(struct fake_cluster *cluster, const char *topic, const char *group, uint64_t count);
/* What a group knows of one message: failed deliveries; whether it is settled, and as a dead letter; held by anybody.
 */
struct fake_outcome {
    uint32_t failed;
    bool settled, dead, held;
};
struct fake_outcome fake_cluster_outcome(struct fake_cluster *cluster, const char *topic, const char *group,
                                         unsigned partition, uint64_t offset);

/* The log of a partition, message by message. Returns how many there are; up to @capacity are written. */
size_t fake_cluster_log(struct fake_cluster *cluster, const char *name, unsigned partition,
                        struct fake_message *messages, size_t capacity);
/* Messages of @type that came (DELIVER: that went), on all nodes. */
unsigned fake_cluster_seen(struct fake_cluster *cluster, uint16_t type);
/* Waits until that is @count at least. False: FAKE_WAIT_MS passed. */
bool fake_cluster_wait_seen(struct fake_cluster *cluster, uint16_t type, unsigned count);
/* The most messages that any subscription was allowed to get at a time. */
int64_t fake_cluster_most_credit(struct fake_cluster *cluster);

#endif
