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

/* One replica of a partition as it sees itself. Offsets and indexes of a node that did not answer are 0 and @known is
 * false. */
struct lightq_replica_info {
    uint32_t node;
    uint32_t incarnation; /* raised whenever it was rebuilt */
    bool known;
    const char *role;     /* "leader", "follower", "standby", "stopped", "damaged", ... */
    uint64_t first_index; /* of the log: first kept, last, on disk, known to be on a majority, applied */
    uint64_t last_index;
    uint64_t durable_index;
    uint64_t commit_index;
    uint64_t applied_index;
    int64_t start_offset; /* of the messages: first kept */
    int64_t end_offset;   /* one behind the last applied */
    uint64_t digest;      /* over the messages before end_offset: equal on replicas whose end_offset is equal */
};

struct lightq_partition_info {
    uint32_t partition;
    uint64_t group;  /* its Raft group */
    uint32_t leader; /* node id, or 0: none is known */
    uint64_t term;
    const struct lightq_replica_info *replicas;
    size_t replica_count;
};

struct lightq_topic_info {
    const char *name;
    const char *id; /* 32 hexadecimal digits: another topic of the same name has another one */
    uint32_t partition_count;
    uint32_t replicas;
    const struct lightq_pair *config;
    size_t config_count;
    const struct lightq_partition_info *partitions; /* NULL in a list */
};

struct lightq_node_info {
    uint32_t node;
    const char *id; /* 32 hexadecimal digits */
    const char *client_endpoint;
    const char *peer_endpoint;
    const char *state;
    const char *version;
    bool online;
    uint64_t free_bytes; /* of the disk its data is on; 0: not known */
    uint32_t leading;    /* partitions it leads */
};

/* Results own all they point to; free them with lightq_result_free. */
struct lightq_topic_list {
    const struct lightq_topic_info *topics;
    size_t count;
};
struct lightq_cluster_info {
    const char *id;      /* 32 hexadecimal digits */
    uint32_t controller; /* node id, or 0: none is known */
    const struct lightq_node_info *nodes;
    size_t node_count;
    const struct lightq_topic_info *topics; /* with their partitions */
    size_t topic_count;
};

/* Makes a topic and waits until each of its partitions has a leader. @options may be NULL.
 * OK | ENAME | EEXISTS | EINVAL (an option: @error says which) | ELIMIT (more replicas than nodes). */
lightq_status lightq_topic_create(struct lightq *client, const char *topic, const struct lightq_topic_options *options,
                                  int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Deletes a topic and its messages for good. OK | ENAME | ENOTFOUND. */
lightq_status lightq_topic_delete(struct lightq *client, const char *topic, int timeout_ms,
                                  struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* All topics, without their partitions. OK: free *list with lightq_result_free. */
lightq_status lightq_topic_list(struct lightq *client, int timeout_ms, struct lightq_topic_list **list,
                                struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* A topic with its partitions and what each replica says of itself. OK: free *info with lightq_result_free. ENAME |
 * ENOTFOUND. */
lightq_status lightq_topic_describe(struct lightq *client, const char *topic, int timeout_ms,
                                    struct lightq_topic_info **info, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* The nodes, and the topics as lightq_topic_describe gives them. OK: free *info with lightq_result_free. */
lightq_status lightq_cluster_status(struct lightq *client, int timeout_ms, struct lightq_cluster_info **info,
                                    struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Lets node @new_node take the place of @old_node: everything that one had is rebuilt there. The two may be equal: a
 * node that was wiped or damaged comes back as a new one. OK: it is under way. ENOTFOUND | ECONFLICT | EINVAL. */
lightq_status lightq_node_replace(struct lightq *client, uint32_t old_node, uint32_t new_node, int timeout_ms,
                                  struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Asks the leader of @partition to hand its leadership to @node, a replica of it. OK: @node leads. ENOTFOUND |
 * EINVAL (not a replica) | ENOTREADY (it is too far behind). */
lightq_status lightq_partition_transfer(struct lightq *client, const char *topic, int32_t partition, uint32_t node,
                                        int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Frees a struct lightq_topic_list, _topic_info or _cluster_info that a function above gave. NULL is allowed. */
void lightq_result_free(void *result);

#ifdef __cplusplus
}
#endif

#endif
