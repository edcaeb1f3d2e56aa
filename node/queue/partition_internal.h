/* node/queue/partition_internal.h - what partition.c (the machine, watchers, life) and intake.c (requests and
 * proposals), purge.c and partition_groups.c (consumer groups) share. Nobody else includes it. */
#ifndef LQ_NODE_QUEUE_PARTITION_INTERNAL_H
#define LQ_NODE_QUEUE_PARTITION_INTERNAL_H

#include "node/queue/partition.h"
#include "node/queue/partition_groups.h"
#include "node/queue/purge.h"
#include "node/queue/state.h"
#include "node/queue/tail.h"

/* Requests in the order they came. */
struct lq_request_queue {
    struct lq_partition_request *first, *last;
};

struct lq_purge_queue {
    struct lq_purge_request *first, *last;
};

struct lq_group_request_queue {
    struct lq_group_request *first, *last;
};
struct lq_settle_request_queue {
    struct lq_settle_request *first, *last;
};

/* A pipeline group with leases here. */
struct lq_group_hub {
    uint64_t number;
    struct lq_leases *leases;                /* NULL: the group is gone, requests of it are not answered yet */
    struct lq_settle_request_queue gathered; /* their results are not all proposed */
    struct lq_settle_request_queue proposed; /* by index */
    uint64_t last_index;                     /* of the last SETTLE that was proposed */
    bool can_go_on;                          /* watchers have not been told */
    struct lq_group_watcher *watchers;
    struct lq_group_hub *next;
};

/* What consumer groups need beside the replicated state; see partition_groups.c. */
struct lq_group_desk {
    struct lq_group_request_queue queued, proposed, decided;
    struct lq_settle_request_queue settled; /* decided */
    struct lq_group_hub *hubs;
    struct lq_group_watcher *telling; /* whose turn is next while a hub's are told */
    size_t waiting;                   /* requests in all queues */
    uint64_t drops;                   /* how often all hubs went */
    bool dirty;                       /* some hub may have gathered results, or can go on */
};

struct lq_partition {
    struct lq_partition_options options;
    struct lq_group *group;
    struct lq_queue_state state;

    /* What Raft said last. */
    bool leading, stopped;
    uint64_t term;
    lq_replica_id leader;
    struct lq_servers servers;
    struct lq_err why; /* it stopped */

    /* While leading. */
    struct lq_tail tail;
    struct lq_request_queue proposed; /* in the log, not applied; by index */
    struct lq_request_queue queued; /* not judged yet: the group's window is full, or they came inside a machine call */
    struct lq_request_queue decided; /* to be told in the next turn */
    uint64_t queued_bytes;
    size_t waiting;      /* in all of them, retries included */
    bool blocked;        /* the window is full: wait for an apply */
    uint64_t trim_entry; /* of a TRIM not applied yet; 0: none */
    uint64_t config_entry;

    struct {
        struct lq_purge_queue queued, proposed, decided;
    } purges; /* purge.c */
    struct lq_group_desk desk;

    /* What the catalog wants. */
    bool has_wanted;
    struct lq_id wanted_topic;
    uint32_t wanted_number;
    struct lq_topic_config wanted_config;

    unsigned in_machine; /* > 0: inside a machine call: propose nothing */
    bool woken;
    unsigned events;                                 /* watchers have not been told of */
    struct lq_partition_watcher *watchers, *telling; /* telling: whose turn is next while they are told */

    uint64_t trim_index; /* entries up to it are below start_offset */
    bool trim_stale;
};

/* intake.c */
void lq_intake_lead(struct lq_partition *partition);
/* Leadership is gone: proposals get ELEADERSHIPLOST, the others @status. */
void lq_intake_drop(struct lq_partition *partition, lightq_status status);
/* @entry was applied and is @command: answers what was proposed as it. */
void lq_intake_applied(struct lq_partition *partition, const struct lq_entry *entry, const struct lq_command *command);
void lq_intake_turn(struct lq_partition *partition);
bool lq_intake_needs_turn(const struct lq_partition *partition);

/* Proposes a command without messages. As lq_partition_port.submit. */
lightq_status lq_intake_propose(struct lq_partition *partition, const uint8_t *bytes, size_t size,
                                uint64_t *index) LQ_MUST_CHECK;

/* The same of a TRIM. */
lightq_status lq_intake_trim(struct lq_partition *partition, uint64_t offset, enum lq_retention kept_for,
                             uint64_t *index) LQ_MUST_CHECK;

/* purge.c */
/* Leadership is gone: proposals get ELEADERSHIPLOST, the others @status. */
void lq_purge_desk_drop(struct lq_partition *partition, lightq_status status);
/* @entry was applied, the state shows it. */
void lq_purge_desk_applied(struct lq_partition *partition, const struct lq_entry *entry);
/* Proposes what waits, and tells what was decided. */
void lq_purge_desk_turn(struct lq_partition *partition);
bool lq_purge_desk_needs_turn(const struct lq_partition *partition);

/* partition_groups.c */
/* Leadership is gone: leases too; proposals get ELEADERSHIPLOST, other requests @status. */
void lq_group_desk_drop(struct lq_partition *partition, lightq_status status);
/* @entry was applied and is @command, the state shows it. */
void lq_group_desk_applied(struct lq_partition *partition, const struct lq_entry *entry,
                           const struct lq_command *command);
/* Proposes what waits, and tells what was decided. */
void lq_group_desk_turn(struct lq_partition *partition);
bool lq_group_desk_needs_turn(const struct lq_partition *partition);

/* partition.c */
void lq_partition_wake(struct lq_partition *partition);

#endif
