/* node/meta_internal.h - what the files of the node's part in the cluster share: meta.c (life, the meta group's
 * machine, letters), peers.c (other nodes, and who leads what), admission.c (which directory is which node), requests.c
 * (changes asked for on this node), neighbours.c (the other shards of this node), controller.c (changes executed while
 * this node leads the meta group), replicas.c (partitions that are here), members.c (servers of the groups led here)
 * and inspect.c (looking at replicas elsewhere). Nobody else includes it.
 *
 * Groups are only touched in lq_meta_turn() and lq_meta_tick(): letters and machine calls leave notes. */
#ifndef LQ_NODE_META_INTERNAL_H
#define LQ_NODE_META_INTERNAL_H

#include "node/catalog_command.h"
#include "node/letter.h"
#include "node/meta.h"
#include "node/meta_carrier.h"
#include "node/queue/table.h"

#define LQ_META_PEERS_MAX   64   /* nodes that are spoken with at the same time, guests included */
#define LQ_META_UP_MS       3000 /* a node that reported within it is up */
#define LQ_MICROS_PER_MILLI UINT64_C(1000)

/* ---- peers.c ---- */

/* Another node as this one sees it. */
struct lq_peer {
    uint32_t node;
    bool connected, draining;
    bool joining; /* it asked to be taken in, and is answered soon */
    struct lq_id joining_uuid;
    bool is_guest; /* the catalog does not have it (yet): told to the transport until then */
    bool full_report_due;
    /* A guest whose directory was let in after what the catalog here knows: admission.c. */
    bool is_later;
    uint32_t later_admission;
    struct lq_id later_uuid;
    uint64_t heard_us;       /* its last report; 0: never */
    struct lq_id named_uuid; /* the directory that the catalog has for it, */
    uint64_t named_us;       /* as this process found it first */
    uint64_t guest_until_us;
    uint64_t version; /* of its catalog, by its last report */
    struct lq_meta_node_load load;
    /* As last told through events.peer. */
    bool told;
    enum lq_node_state told_state;
    struct lq_id told_uuid;
    struct lq_endpoint told_endpoint;
};

/* Who leads a group, by report. */
struct lq_leader_row {
    uint64_t group;
    uint64_t term;
    uint32_t node;
    UT_hash_handle hh;
};

struct lq_peers {
    struct lq_peer at[LQ_META_PEERS_MAX];
    unsigned count;
    struct lq_leader_row *leaders;
    uint64_t report_us, full_report_us; /* when they are due */
};

struct lq_peer *lq_peers_find(struct lq_meta *meta, uint32_t node); /* or NULL */
struct lq_peer *lq_peers_note(struct lq_meta *meta, uint32_t node); /* NULL: too many */
bool lq_peers_up(const struct lq_meta *meta, uint32_t node);        /* this node itself is */
/* Whether the directory that the catalog has for @node may be at work, though it is not up: it was heard of a moment
 * ago, or was let in so lately that it need not have reported yet. Known for sure LQ_META_UP_MS later. */
bool lq_peers_in_doubt(const struct lq_meta *meta, const struct lq_catalog_node *node);
/* Whether every other node that is up has said that its catalog is at @version or beyond. */
bool lq_peers_have(const struct lq_meta *meta, uint64_t version);
void lq_peers_link_changed(struct lq_meta *meta, uint32_t node, bool up);
/* Tells the owner of nodes that are new or changed in the catalog, or in the founders before there is one. */
void lq_peers_tell(struct lq_meta *meta);
/* A node without a cluster is here: it can be answered for a while. */
void lq_peers_welcome(struct lq_meta *meta, const struct lq_node_card *card);
/* A member says where it is: of use when the catalog here does not know it yet. */
void lq_peers_meet(struct lq_meta *meta, const struct lq_node_card *card);
void lq_peers_keep_guest(const struct lq_meta *meta, struct lq_peer *peer);
void lq_peers_on_report(struct lq_meta *meta, uint32_t node, const struct lq_letter_report *report);
/* Reports of this node to the others; forgets guests. */
void lq_peers_tick(struct lq_meta *meta);
void lq_peers_report_now(struct lq_meta *meta);
void lq_peers_deinit(struct lq_meta *meta);

/* ---- admission.c ---- */

/* Whether @peer was let in after what the catalog knows, still. */
bool lq_admission_is_ahead(const struct lq_meta *meta, const struct lq_peer *peer);
/* No longer: what the catalog says of @node, the same one, holds. */
void lq_admission_settle(struct lq_meta *meta, struct lq_peer *peer, const struct lq_catalog_node *node);
/* The cluster does not take this directory for its node any more, for good: the identity notes it, and expelled is
 * told.
 */
void lq_admission_expel(struct lq_meta *meta, const struct lq_err *err);

/* ---- requests.c ---- */

struct lq_requests {
    struct lq_meta_request *first;
    size_t count;
    uint64_t next_correlation;
    uint32_t controller_hint; /* 0: none */
    unsigned round_robin;
    bool work; /* something was added or answered: a turn is wanted */
};

/* One the node makes itself, freed after its callback. @letter is copied. */
typedef void (*lq_errand_cb)(struct lq_meta *meta, void *data, const struct lq_letter_reply *reply);
/* OK | EBUSY | ENOMEM. @cb runs once, later; with ECLOSED never. */
lightq_status lq_requests_errand(struct lq_meta *meta, const struct lq_letter_request *letter, uint32_t timeout_ms,
                                 lq_errand_cb cb, void *data) LQ_MUST_CHECK;
void lq_requests_on_reply(struct lq_meta *meta, uint32_t node, const struct lq_letter_reply *reply);
void lq_requests_turn(struct lq_meta *meta);
void lq_requests_tick(struct lq_meta *meta);
void lq_requests_close(struct lq_meta *meta);

/* Takes over what another shard was asked for; EBUSY | ECLOSED when it cannot. */
lightq_status lq_requests_take(struct lq_meta *meta, struct lq_meta_request *request) LQ_MUST_CHECK;

/* ---- neighbours.c ---- */

/* What a shard tells the others, and whether it is due or with them. */
struct lq_bulletin {
    struct lq_mail mail;
    struct lq_slab *news, *catalog; /* catalog: NULL when it is known there */
    uint64_t catalog_version;       /* the newest it was sent */
    bool due, away, taken;
};

/* The other shards of this node. With one shard none of it is used. */
struct lq_neighbours {
    struct lq_bulletin bulletins[LQ_SHARDS_MAX];
    struct lq_slab *heard[LQ_SHARDS_MAX]; /* the newest news of each; NULL: none yet */
    struct lq_slab *news;                 /* our own, as last told */
    struct lq_slab *catalog;              /* shard 0: its bytes */
    uint64_t catalog_version;
    bool stale; /* the news may be others now */
    uint64_t next_us;
    size_t away; /* mails of ours that others have */
};

/* News from this shard go to the others when there are any. */
void lq_neighbours_turn(struct lq_meta *meta);
void lq_neighbours_tick(struct lq_meta *meta);
bool lq_neighbours_need_turn(const struct lq_meta *meta);
/* Who leads a group of another shard, by its news; on other shards than 0 the meta group too. */
struct lq_leader lq_neighbours_leader(const struct lq_meta *meta, uint64_t group);
/* The oldest catalog that a shard of this node has. */
uint64_t lq_neighbours_version(const struct lq_meta *meta);
/* Adds the replicas of the other shards. */
void lq_neighbours_count(const struct lq_meta *meta, struct lq_meta_counts *counts);
/* Hands a request to shard @to. OK: it comes back, and its cb is called here. EBUSY: it was not taken. */
lightq_status lq_neighbours_send(struct lq_meta *meta, struct lq_meta_request *request, unsigned to) LQ_MUST_CHECK;
void lq_neighbours_deinit(struct lq_meta *meta);

/* ---- controller.c ---- */

struct lq_job;

struct lq_controller {
    struct lq_job *first, *last; /* waiting to be judged; one is in flight at a time */
    struct lq_job *proposed;     /* in the log, not applied */
    uint64_t proposed_index;
    struct lq_job *settled, *settled_last; /* to be answered in the next turn */
    size_t count;
    bool blocked;        /* the log takes nothing now: after the next apply */
    uint64_t grow_index; /* of the last GROW that is proposed and not applied; 0: none */
    size_t grow_topic;   /* where the search for partitions that lack replicas goes on */
};

/* Takes in a request from @node (this node itself too): a copy. The answer goes back as a reply, once, later. */
void lq_controller_take(struct lq_meta *meta, uint32_t node, const struct lq_letter_request *request);
void lq_controller_applied(struct lq_meta *meta, uint64_t index);
/* This node leads the meta group no more: everything is answered with ENOTLEADER, and asked again elsewhere. */
void lq_controller_drop(struct lq_meta *meta);
void lq_controller_turn(struct lq_meta *meta);
bool lq_controller_needs_turn(const struct lq_meta *meta);
void lq_controller_tick(struct lq_meta *meta);
void lq_controller_deinit(struct lq_meta *meta);

/* ---- replicas.c ---- */

/* A replica of a partition on this node. Legal moves:
 *     WAITING  -> OPEN (opened) | BROKEN (cannot be)      OPEN     -> BROKEN (stopped) | RETIRING | REMOVING
 *     BROKEN   -> WAITING (tried again, or rebuilt) | REMOVING (damaged) | RETIRING (its log is not)
 *     RETIRING -> REMOVING (the others say it is out) | OPEN, WAITING, BROKEN (the catalog read on, and wants it)
 *     REMOVING -> WAITING (a new incarnation is wanted) | gone */
enum lq_replica_state {
    LQ_REPLICA_WAITING, /* to be opened, or made */
    LQ_REPLICA_OPEN,
    LQ_REPLICA_BROKEN,   /* damaged, lost, or stopped */
    LQ_REPLICA_RETIRING, /* open, but the catalog has a newer incarnation here, or none */
    LQ_REPLICA_REMOVING, /* its files are to go */
};

struct lq_replica {
    uint64_t group;
    uint32_t incarnation; /* of what is here */
    uint32_t wanted;      /* what the catalog wants here; 0: nothing, or not known */
    enum lq_replica_state state;
    struct lq_meta *meta;
    struct lq_partition *partition;
    struct lq_group *handle;
    struct lq_partition_watcher watcher;
    bool known;            /* the catalog has spoken of it */
    bool rebuild;          /* BROKEN for good, or OPEN and damaged: a new incarnation is needed */
    bool asked;            /* a rebuild or a retirement is asked for */
    bool reported_leading; /* what the others were told */
    uint64_t reported_term;
    bool changed;      /* leadership, since the last report */
    bool unsettled;    /* its servers may differ from the catalog: members.c */
    bool catching_up;  /* a standby of it is on its way to voter */
    uint64_t again_us; /* not before */
    uint64_t fit_us;   /* since when the replica that should lead is fit to; 0: it is not */
    uint64_t retain_us;
    char text[128];
    bool woken, queued;
    struct lq_replica *next_woken, *next_waiting;
    UT_hash_handle hh;
};

struct lq_replicas {
    struct lq_replica *table;
    struct lq_replica *woken;   /* partitions that want a turn */
    struct lq_replica *waiting; /* states that want work in a turn */
    bool scan;                  /* compare with the catalog in the next turn */
};

lightq_status lq_replicas_start(struct lq_meta *meta) LQ_MUST_CHECK; /* what the store has; OK | ENOMEM */
struct lq_replica *lq_replicas_find(const struct lq_meta *meta, uint64_t group);
void lq_replicas_turn(struct lq_meta *meta);
bool lq_replicas_need_turn(const struct lq_meta *meta);
void lq_replicas_tick(struct lq_meta *meta);
void lq_replicas_on_retire(struct lq_meta *meta, uint32_t node, const struct lq_letter_retire *retire);
void lq_replicas_on_retired(struct lq_meta *meta, const struct lq_letter_retire *retire);
void lq_replicas_close(struct lq_meta *meta);

/* ---- members.c ---- */

struct lq_members {
    uint64_t sweep_us;
    unsigned transfer_tokens; /* in tenths */
    uint64_t token_us;
};
/* Makes the servers of the groups led here agree with the catalog, one step each; hands leads to those preferred. */
void lq_members_tick(struct lq_meta *meta);
/* Whether a server with this id is out of the group that is led here, durably. */
bool lq_members_is_out(const struct lq_servers *committed, const struct lq_group_status *status, lq_replica_id id);

/* ---- inspect.c ---- */

struct lq_inspections {
    struct lq_meta_inspect *first;
    uint64_t next_correlation;
    bool work;
};
void lq_inspect_on_ask(struct lq_meta *meta, uint32_t node, const struct lq_letter_inspect *inspect);
void lq_inspect_on_answer(struct lq_meta *meta, uint32_t node, const struct lq_letter_inspected *inspected);
void lq_inspect_turn(struct lq_meta *meta);

/* ---- meta.c ---- */

/* The replica of the meta group here. */
enum lq_meta_state { LQ_META_CLOSED, LQ_META_OPEN, LQ_META_BROKEN };

struct lq_meta {
    struct lq_meta_options options;
    struct lq_meta_events events;
    void *owner;
    const struct lq_meta_carrier *carrier;
    struct lq_host *host;
    struct lq_catalog *catalog;

    enum lq_meta_state state;
    struct lq_group *group;
    uint32_t incarnation;
    bool leading, rebuild, asked;
    uint32_t renew_to; /* the replica here is out, and one of this incarnation is wanted; 0: no */
    bool renewing;     /* it is to be opened as soon as the one before it can be set aside */
    bool aside;        /* what was set aside is there still, for all we know */
    uint64_t term;
    lq_replica_id leader;
    struct lq_servers servers;
    struct lq_err why; /* it is broken */
    uint64_t again_us;
    bool unsettled, catching_up;

    bool catalog_changed; /* since the last turn */
    bool closing, ready, seen_self, expelled, draining, begin_asked, update_asked;
    uint64_t tick_us;
    uint64_t update_again_us;

    struct lq_peers peers;
    struct lq_requests requests;
    struct lq_controller controller;
    struct lq_replicas replicas;
    struct lq_members members;
    struct lq_inspections inspections;
    struct lq_neighbours neighbours;
};

uint64_t lq_meta_now_us(const struct lq_meta *meta);
uint32_t lq_meta_self(const struct lq_meta *meta);
void lq_meta_card(const struct lq_meta *meta, struct lq_node_card *card);
/* Whether the catalog has come as far as this directory's own entry: before that it is history. */
bool lq_meta_knows_nodes(const struct lq_meta *meta);
/* Proposes a catalog command, in a turn. As lq_group_submit. */
lightq_status lq_meta_propose(struct lq_meta *meta, const struct lq_catalog_command *command,
                              uint64_t *index) LQ_MUST_CHECK;

#endif
