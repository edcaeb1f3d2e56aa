/* lightq/admin.h - looks at a cluster and changes it. Every function waits for its answer, at most @timeout_ms (a
 * negative one: request.timeout.ms). Any thread.
 *
 * Statuses of all of them, beside those named at each: ECONNECT, EUNAVAILABLE (no server answered, or no majority can),
 * ETIMEDOUT (a change may have been made or still be), EAUTH, EVERSION, ENOMEM, EFORK. @error (may be NULL) says what
 * went wrong in a sentence. */
#ifndef LIGHTQ_ADMIN_H
#define LIGHTQ_ADMIN_H

#include <lightq/lightq.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* A setting of a topic, as text. */
struct lightq_pair {
    const char *key;
    const char *value;
};

struct lightq_topic_options {
    uint32_t partitions;              /* 0: 1 */
    uint32_t replicas;                /* 0: 3, or the number of nodes when those are fewer */
    const struct lightq_pair *config; /* retention.ms, retention.bytes, ... */
    size_t config_count;
};

/* One replica of a partition as it sees itself. */
struct lightq_replica_info {
    uint32_t node;
    uint32_t incarnation; /* raised whenever it was rebuilt */
    const char *role;     /* "leader", "follower", "candidate", "standby", "unknown" */
    bool online;          /* it answered; otherwise the numbers below are the last ones known, or 0 */
    const char *health;   /* "ok", or a sentence */
    uint64_t first_index; /* of the Raft log: first kept, last, on disk, known to be on a majority, applied */
    uint64_t last_index;
    uint64_t durable_index;
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t start_offset; /* of the messages: the first that is kept */
    uint64_t end_offset;   /* one behind the last */
    uint64_t digest;       /* over the messages before digest_offset: equal on replicas where that is equal */
    uint64_t digest_offset;
};

struct lightq_partition_info {
    uint32_t partition;
    uint64_t group;  /* its Raft group */
    uint32_t leader; /* node id, or 0: there is none */
    uint64_t term;
    const char *state; /* "ok", "degraded", "unavailable", "unknown" */
    const struct lightq_replica_info *replicas;
    size_t replica_count;
};

struct lightq_topic_info {
    const char *name;
    char id[33]; /* 32 hexadecimal digits: another topic of the same name has another one */
    uint32_t partition_count;
    uint32_t replica_count;
    const struct lightq_pair *config; /* NULL in a list */
    size_t config_count;
    const struct lightq_partition_info *partitions; /* NULL in a list */
};

struct lightq_node_info {
    uint32_t node;
    char id[33];                  /* 32 hexadecimal digits */
    const char *const *endpoints; /* host:port for clients, one per shard */
    size_t endpoint_count;
    const char *peer_endpoint;
    const char *state; /* "up", "down", "draining", "gone", "unknown" */
    const char *version;
    uint64_t free_bytes, total_bytes; /* of the disk its data is on; 0: not known */
    uint32_t partitions;              /* replicas it holds */
    uint32_t leaders;                 /* partitions it leads */
};

/* A replica that does not do its work. */
struct lightq_unhealthy {
    const char *topic; /* "" for the group that holds the catalog */
    uint32_t partition;
    uint64_t group;
    uint32_t node;
    const char *text;
};

/* Results own all they point to; free them with lightq_result_free. */
struct lightq_topic_list {
    const struct lightq_topic_info *topics;
    size_t count;
};
struct lightq_cluster_info {
    char id[33];         /* 32 hexadecimal digits */
    uint32_t controller; /* node id, or 0: none is known */
    uint64_t term;       /* of the controller */
    uint64_t version;    /* of the catalog */
    const struct lightq_node_info *nodes;
    size_t node_count;
    uint32_t topic_count, partition_count, leaderless_count; /* partitions in all, and those without a leader */
    const struct lightq_unhealthy *unhealthy;
    size_t unhealthy_count;
    const struct lightq_partition_info *catalog; /* the group that holds the catalog; NULL: not known */
};

/* Makes a topic and waits until each of its partitions has a leader. @options may be NULL.
 * OK | ENAME | EEXISTS | EINVAL (an option: @error says which) | ELIMIT (more replicas than nodes). */
lightq_status lightq_topic_create(struct lightq *client, const char *topic, const struct lightq_topic_options *options,
                                  int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Changes what @options has: the settings in its config, others stay; and partitions, how many there are to be (0: as
 * many as now), which only grows and changes which partition a key goes to. replicas must be 0. All of it is done, or
 * nothing; waits until every node shows it and new partitions have leaders. *partitions (may be NULL): how many there
 * are then. OK | ENAME | ENOTFOUND | EINVAL (an option: @error says which) | ELIMIT. */
lightq_status lightq_topic_alter(struct lightq *client, const char *topic, const struct lightq_topic_options *options,
                                 int timeout_ms, uint32_t *partitions, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* What is left after a purge. */
struct lightq_purged {
    int64_t offset; /* of the first message that was to stay */
    int64_t start;  /* and that did. Below @offset: dead letters of a consumer group, that are not stored yet, hold what
                       is between; try again later */
    int64_t end;    /* of the partition */
};

/* Drops all messages of @partition below @to (NULL: all there are when this begins) for good: they are gone for every
 * consumer at once, and their files as soon as all in them is. Who reads there is told EOUTOFRANGE. Once more does no
 * harm. OK, on a majority: *purged (may be NULL) is filled. ENAME | ENOTFOUND | EINVAL | EOUTOFRANGE (@to is above the
 * end). */
lightq_status lightq_partition_purge(struct lightq *client, const char *topic, int32_t partition,
                                     const struct lightq_start *to, int timeout_ms, struct lightq_purged *purged,
                                     struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Deletes a topic and its messages for good. OK | ENAME | ENOTFOUND. */
lightq_status lightq_topic_delete(struct lightq *client, const char *topic, int timeout_ms,
                                  struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* All topics by name, without their partitions. OK: free *list with lightq_result_free. */
lightq_status lightq_topic_list(struct lightq *client, int timeout_ms, struct lightq_topic_list **list,
                                struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* A topic with its partitions and what each replica says of itself. OK: free *info with lightq_result_free. ENAME |
 * ENOTFOUND. */
lightq_status lightq_topic_describe(struct lightq *client, const char *topic, int timeout_ms,
                                    struct lightq_topic_info **info, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* The nodes, and what is not well. OK: free *info with lightq_result_free. */
lightq_status lightq_cluster_status(struct lightq *client, int timeout_ms, struct lightq_cluster_info **info,
                                    struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Of lightq_node_replace: also when the old node is up and sound. Its data is thrown away; what no other replica has is
 * lost. */
#define LIGHTQ_REPLACE_LIVE_NODE 1u

/* Lets node @new_node take the place of @old_node: everything that one had is rebuilt there. The two may be equal: a
 * node that was wiped or damaged comes back as a new one. @flags: 0 or LIGHTQ_REPLACE_LIVE_NODE. *replicas (may be
 * NULL): how many are rebuilt. OK: it is under way. ENOTFOUND | ECONFLICT (the new node is not up) | EINVAL (the old
 * one is). */
lightq_status lightq_node_replace(struct lightq *client, uint32_t old_node, uint32_t new_node, unsigned flags,
                                  int timeout_ms, uint32_t *replicas, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Asks the leader of @partition to hand its leadership to @node, a replica of it (0: any other one). OK: @node leads.
 * ENOTFOUND |
 * EINVAL (not a replica) | ENOTREADY (it is too far behind). */
lightq_status lightq_partition_transfer(struct lightq *client, const char *topic, int32_t partition, uint32_t node,
                                        int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Frees a struct lightq_topic_list, _topic_info or _cluster_info that a function above gave. NULL is allowed. */
void lightq_result_free(void *result);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
