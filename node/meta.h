/* node/meta.h - the node's part in the cluster: its replica of the meta group with the catalog, the controller while it
 * leads that group, the replicas of partitions that the catalog puts here, the table of leaders, and the requests that
 * change the cluster, usable on any node.
 *
 * Made by node/shard_parts.c after identity, store and transport; called by node/front.c's side for reads and requests.
 * Its shard's loop thread only. With a fake clock, an in-memory link and io_mem it is deterministic.
 *
 * Each shard of a node has one. Only that of shard 0 has a replica of the meta group and can be the controller; the
 * others have a copy of its catalog, and what belongs elsewhere goes there by mail (node/neighbours.c, docs/adr/0009).
 *
 * One turn of the loop: take in what arrived; lq_meta_turn(); lq_host_turn(); once more while lq_meta_needs_turn().
 * lq_meta_deadline_us() says when lq_meta_tick() is due. */
#ifndef LQ_NODE_META_H
#define LQ_NODE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "node/catalog.h"
#include "node/endpoint.h"
#include "node/house.h"
#include "node/identity.h"
#include "node/queue/partition.h"
#include "raft/hello.h"
#include "raft/host.h"
#include "storage/io.h"
#include "storage/store.h"

struct lq_meta;
struct lq_letter_request;

/* ---- life ---- */

struct lq_meta_events {
    /* Who the peers are, from the catalog: told for each node but this one at start and whenever it changes. @node is
     * borrowed. A GONE or AWAITED node must not be connected to. A zero uuid: not known yet. What the transport needs.
     */
    void (*peer)(void *owner, const struct lq_catalog_node *node);
    /* Everything that was promised at start is there: the catalog names this node and is as new as the controller's,
     * and the meta group has a leader. Once. */
    void (*ready)(void *owner);
    /* The catalog changed (topics or nodes). May be NULL. */
    void (*catalog_changed)(void *owner);
    /* This data directory is no longer the cluster's node: it was replaced (EREPLACED). The process must end; @err says
     * why. Once. */
    void (*expelled)(void *owner, const struct lq_err *err);
};

struct lq_meta_options {
    struct lq_identity *identity; /* MEMBER; borrowed, and written again when its meta replica is rebuilt */
    struct lq_io *io;             /* where identity lies; borrowed */
    struct lq_clock *clock;       /* borrowed */
    struct lq_store *store;       /* borrowed */
    struct lq_link *link;         /* borrowed */
    struct lq_endpoint client;    /* advertised now: the catalog is told when it has others */
    struct lq_endpoint peer;
    unsigned tick_ms;              /* 0: 100 */
    unsigned groups_per_turn;      /* opened or closed in one turn; 0: 16 */
    unsigned transfer_after_ms;    /* how long a preferred replica must be fit before it is given the lead; 0: 5000 */
    unsigned transfers_per_second; /* by one node; 0: 50 */
    unsigned retain_ms;            /* how often each partition looks at its retention; 0: 10000 */
    unsigned shard, shards;        /* which one this is, of how many; shards 0: 1 */
    struct lq_house *house;        /* the way to the others; borrowed; NULL when there are none */
};

lightq_status lq_meta_new(const struct lq_meta_options *options, const struct lq_meta_events *events, void *owner,
                          struct lq_meta **out, struct lq_err *err) LQ_MUST_CHECK; /* OK | ENOMEM */
/* Give these to lq_host_new with owner = struct lq_meta *, then start. */
extern const struct lq_host_events lq_meta_host_events;
/* Opens the meta group and, a few in each turn, every replica that is here. OK | EDAMAGED | EIO | ENOMEM | ... */
lightq_status lq_meta_start(struct lq_meta *meta, struct lq_host *host, struct lq_err *err) LQ_MUST_CHECK;
/* Nothing new is taken from now on: requests still here are told ECLOSED, inside, those of other shards too. */
void lq_meta_close(struct lq_meta *meta);
/* Closed, and nothing of this shard is with another one: it can be freed. */
bool lq_meta_is_quiet(const struct lq_meta *meta);
/* Closes it, closes all groups (their logs stay) and frees. It must be quiet; without other shards it always is. Before
 * lq_host_free. NULL is allowed. */
void lq_meta_free(struct lq_meta *meta);

/* The node is about to end: it is told to the others, so that they hand no leadership to it, and its own are handed
 * over (lq_host_drain). */
void lq_meta_drain(struct lq_meta *meta);

void lq_meta_turn(struct lq_meta *meta);
bool lq_meta_needs_turn(const struct lq_meta *meta);
uint64_t lq_meta_deadline_us(struct lq_meta *meta); /* monotonic; UINT64_MAX: none */
void lq_meta_tick(struct lq_meta *meta);

/* For the transport's identify: OK | EIDENTITY: not the data directory that the catalog has for that id | EREPLACED: it
 * was that node's, until it was replaced | ENOMEM; @err says what to do. A node the catalog does not know is OK while
 * it belongs to no cluster: it may be about to join. A directory that was let in after what the catalog here knows is
 * OK, and confined to the meta group until the catalog names it. */
lightq_status lq_meta_check_peer(struct lq_meta *meta, const struct lq_hello *hello, struct lq_err *err) LQ_MUST_CHECK;
/* For the transport's replaced: @node says, in @sentence, that this data directory was replaced or is an older copy of
 * itself, which is for good: the identity notes it. Tells expelled. */
void lq_meta_replaced(struct lq_meta *meta, uint32_t node, const char *sentence);

/* ---- reading ---- */

const struct lq_catalog *lq_meta_catalog(const struct lq_meta *meta);
/* Whether @group belongs to this shard, on whatever node. */
bool lq_meta_is_mine(const struct lq_meta *meta, uint64_t group);
/* The partition of @group, when this node has a replica that is open; else NULL. */
struct lq_partition *lq_meta_partition(const struct lq_meta *meta, uint64_t group);
/* Why the replica of @group that should be here is not: "opening", "damaged: ...", "being rebuilt"; "" when it is, or
 * none should be. Valid until the next turn. */
const char *lq_meta_replica_text(const struct lq_meta *meta, uint64_t group);

struct lq_leader {
    uint32_t node; /* 0: none known */
    uint64_t term;
};
/* As far as this node knows; of any group of the catalog, and of group 0 (its leader is the controller). */
struct lq_leader lq_meta_leader(const struct lq_meta *meta, uint64_t group);

struct lq_meta_node_load {
    bool up;             /* this node itself, or one heard from lately */
    uint64_t free_bytes; /* 0: not known */
    uint64_t total_bytes;
    uint32_t replicas;
    uint32_t leaders;
};
void lq_meta_node_load(const struct lq_meta *meta, uint32_t node, struct lq_meta_node_load *load);

/* Counts for metrics: partitions in the catalog, of them without a leader, replicas on this node (all shards), of them
 * not at work. */
struct lq_meta_counts {
    uint32_t topics, partitions, leaderless, replicas, replicas_stopped, leading, requests_waiting;
};
void lq_meta_count(const struct lq_meta *meta, struct lq_meta_counts *counts);

/* ---- changing the cluster ---- */

enum lq_meta_verb {
    LQ_META_TOPIC_CREATE = 1,
    LQ_META_TOPIC_DELETE = 2,
    LQ_META_NODE_REPLACE = 3,
    LQ_META_LEADER_TRANSFER = 4,
    LQ_META_TOPIC_ALTER = 5,
};

struct lq_meta_request;
typedef void (*lq_meta_cb)(struct lq_meta_request *request, lightq_status status);

/* Belongs to the caller, pinned until cb; so is what it points at. */
struct lq_meta_request {
    enum lq_meta_verb verb;
    const char *name;                     /* of the topic: create, delete, transfer, alter */
    uint32_t partitions;                  /* create; 0: 1. alter: how many it is to have; 0: as many as now */
    uint32_t replicas;                    /* create: 1, 3 or 5; 0: min(3, nodes), made odd */
    const struct lq_topic_config *config; /* create; NULL: the defaults. alter: those of the mask are taken over */
    uint64_t mask;                        /* alter: lq_topic_config_bit of the options that change */
    uint32_t old_node, new_node;          /* replace */
    bool live;                            /* replace: also when the old node is up and sound */
    uint32_t partition, to;               /* transfer: its number; a node id, 0: whichever other is most caught up */
    uint32_t timeout_ms;                  /* 0: 30000; at most 600000 */
    lq_meta_cb cb;
    void *data;
    /* Given: */
    struct lq_err err;  /* a sentence when the status is not OK */
    struct lq_id topic; /* create, alter: its uuid */
    uint64_t version;   /* of the catalog that has the change */
    uint32_t count;     /* partitions (create, alter), replicas to rebuild (replace) */
    uint32_t replicas_given;
    /* Internal. */
    struct lq_meta_request *next;
    const struct lq_letter_request *letter; /* made by the node itself; NULL: to be made from the fields above */
    struct lq_id uuid;
    uint64_t deadline_us, retry_us, correlation;
    uint64_t spread_us; /* delete, alter: until when it is waited for that all nodes have it */
    uint32_t asked;     /* the node that was asked last */
    bool sent, done;
    struct lq_mail mail; /* to the shard that executes it */
    lq_meta_cb home_cb;
    struct lq_house *there;
};

/* OK: cb runs once, later, never inside:
 *   OK           done: of a create or an alter, every partition has a leader that this node knows of
 *   EEXISTS | ENOTFOUND | ENAME | EINVAL | ELIMIT | ECONFLICT | EUNAVAILABLE   refused, nothing changed; err says why
 *   ETIMEDOUT    not known whether it was done (of a create that was done: err says how many partitions have no leader)
 *   ECLOSED      lq_meta_free
 * EINVAL | ENAME | EBUSY (too many requests here): cb never runs. */
lightq_status lq_meta_submit(struct lq_meta *meta, struct lq_meta_request *request) LQ_MUST_CHECK;

/* ---- looking at replicas, wherever they are ---- */

enum lq_replica_role { LQ_REPLICA_UNKNOWN, LQ_REPLICA_LEADER, LQ_REPLICA_FOLLOWER, LQ_REPLICA_STANDBY };

struct lq_replica_report {
    uint64_t group;
    uint32_t node;
    uint32_t incarnation;
    bool answered; /* false: nothing below is known */
    enum lq_replica_role role;
    uint64_t term, first_index, last_index, durable_index, commit_index, applied_index;
    uint64_t start_offset, end_offset;
    uint64_t digest, digest_to; /* over every batch below offset digest_to */
    lightq_status status;       /* OK, or why it does not work */
    char text[128];
};

struct lq_meta_inspect;
/* Asks for the replicas of some groups. Belongs to the caller, pinned until cb, which runs once, later, with OK, also
 * when some did not answer; or ECLOSED. */
struct lq_meta_inspect {
    const uint64_t *groups; /* of the catalog, or 0 for the meta group; unknown ones give no reports */
    size_t group_count;     /* 1 to LQ_INSPECT_GROUPS_MAX */
    uint32_t timeout_ms;    /* 0: 1000 */
    void (*cb)(struct lq_meta_inspect *inspect, lightq_status status);
    void *data;
    /* Given: in the order of groups, then by node id. Valid during cb. */
    struct lq_replica_report *reports;
    size_t report_count;
    /* Internal. */
    struct lq_meta_inspect *next;
    uint64_t correlation, deadline_us;
    unsigned parts_away; /* groups that other shards look at */
    bool is_part;        /* of another shard's: the reports go with it */
};
lightq_status lq_meta_inspect(struct lq_meta *meta, struct lq_meta_inspect *inspect) LQ_MUST_CHECK;

#endif
