/* raft/host.h - all Raft groups of one shard: their timers, storage and messages. Called by node/ and by the
 * simulation. Uses storage/store.h for the disk, raft/link.h for the network, a clock. No I/O of its own, no threads,
 * no global state: with a fake clock, an in-memory link and io_mem it is deterministic. Loop thread only.
 *
 * One turn: the owner gives events (frames via the link's events, store completions, submits), then calls
 * lq_host_turn(), which sends what gathered and starts the store's flush. lq_host_deadline_us() says when
 * lq_host_tick() is due next.
 *
 * The rules come from docs/architecture.md, chapter "The Raft host". */
#ifndef LQ_RAFT_HOST_H
#define LQ_RAFT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "raft/link.h"
#include "storage/store.h"

struct lq_host;
struct lq_group;

/* A replica's id in Raft: node id and incarnation, so that a rebuilt replica is a new server. */
typedef uint64_t lq_replica_id;
static inline lq_replica_id lq_replica_make(uint32_t node, uint32_t incarnation)
{
    return (uint64_t)incarnation << 20 | node;
}
static inline uint32_t lq_replica_node(lq_replica_id id)
{
    return (uint32_t)(id & 0xfffff);
}
static inline uint32_t lq_replica_incarnation(lq_replica_id id)
{
    return (uint32_t)(id >> 20);
}

enum lq_role { LQ_ROLE_STANDBY, LQ_ROLE_VOTER, LQ_ROLE_SPARE };
struct lq_server {
    lq_replica_id id;
    enum lq_role role;
};
struct lq_servers {
    struct lq_server at[16]; /* LQ_SERVERS_MAX */
    unsigned count;
};

/* The state machine a group drives. All calls on the loop thread, never inside a raft_step. */
struct lq_machine_ops {
    /* A committed and stored entry, in index order, each once since load(). Barriers and changes come too (a machine
     * ignores their payload). ECORRUPT (or any failure): this replica stops. */
    lightq_status (*apply)(void *machine, const struct lq_entry *entry, struct lq_slab *slab);
    /* This replica leads term @term and the barrier of that term is applied: lq_group_submit works from now on. */
    void (*lead)(void *machine, uint64_t term);
    /* It does not lead, or no longer: proposals not yet applied have unknown outcome. @leader 0: none known. */
    void (*follow)(void *machine, lq_replica_id leader, uint64_t term);
    /* The whole state, as bytes that load() takes. */
    lightq_status (*save)(void *machine, struct lq_writer *writer);
    /* Replace the state. @size 0: the empty state (a new group). */
    lightq_status (*load)(void *machine, const uint8_t *bytes, size_t size);
    /* How far trimming may go: entries at or below this index are not needed (0: keep all). Asked after applies. */
    uint64_t (*trim_to)(void *machine);
    /* The replica stopped for good (until restart or rebuild). @err borrowed. */
    void (*stopped)(void *machine, lightq_status status, const struct lq_err *err);
    /* The committed set of servers changed. May be NULL. */
    void (*servers)(void *machine, const struct lq_servers *servers);
};

struct lq_host_options {
    uint32_t node;                /* our node id */
    unsigned election_timeout_ms; /* 0: 1000 */
    unsigned heartbeat_ms;        /* 0: 100 */
    unsigned stall_ms;            /* 0: 1500: a leader whose oldest append waits longer hands over */
    uint64_t window_bytes;        /* 0: 4 MiB: proposed and not committed, per group; above it submit says EBUSY */
    uint64_t reserve_bytes;       /* free disk below which appends are refused; 0: 64 MiB */
    unsigned fast_failover_min_ms, fast_failover_max_ms; /* 0, 0: 20 and 120 */
    bool no_fast_failover;
};

struct lq_host_events {
    /* A frame of type LQ_FRAME_NODE. */
    lightq_status (*node_frame)(void *owner, uint32_t node, const struct lq_frame_in *frame);
    void (*link_changed)(void *owner, uint32_t node, bool up);
    /* A frame came for a group we do not have (after a restart or a creation still to come). May be NULL. */
    void (*unknown_group)(void *owner, uint32_t node, uint64_t group);
};

/* @store and @link and @clock are borrowed until close. */
lightq_status lq_host_new(const struct lq_host_options *options, struct lq_clock *clock, struct lq_store *store,
                          struct lq_link *link, const struct lq_host_events *events, void *owner, struct lq_host **host,
                          struct lq_err *err) LQ_MUST_CHECK;
/* Stops every group without a word to anybody (leaders should be handed over first: lq_host_drain) and frees all.
 * The store stays. No event or machine call is made afterwards. */
void lq_host_free(struct lq_host *host);

/* The same after lq_store_abandon, as a crash: no log is touched, and what was pinned for its reads is freed too. */
void lq_host_abandon(struct lq_host *host);

/* What to plug into the link's owner: receive, up, down. */
extern const struct lq_link_events lq_host_link_events; /* owner = struct lq_host * */

void lq_host_turn(struct lq_host *host);
/* Monotonic microseconds of the next tick; UINT64_MAX when none. */
uint64_t lq_host_deadline_us(struct lq_host *host);
void lq_host_tick(struct lq_host *host);

/* Hands leadership of every group over, and goes on doing so; done when lq_host_leading() is 0, which from then on
 * leaves out groups whose only voter is here. */
void lq_host_drain(struct lq_host *host);
size_t lq_host_leading(const struct lq_host *host);

struct lq_host_counters {
    uint64_t messages_dropped; /* not sent: no connection, a full queue, no memory (Raft sends again) */
    uint64_t messages_refused; /* received and not given to Raft: another incarnation, a second leader, and the like */
    uint64_t frames_malformed; /* EPROTO */
    uint64_t groups_failed;    /* replicas that stopped */
    uint64_t stalls;           /* leaders that handed over for a disk that stores nothing */
    uint64_t peers_lost;       /* followers that lost entries they had acknowledged */
};
void lq_host_count_up(const struct lq_host *host, struct lq_host_counters *counters);

/* While @node is confined, only what it says of group 0 is taken; the rest is dropped and counted as refused. OK |
 * ENOMEM: it is not confined, so do not talk with it. */
lightq_status lq_host_confine(struct lq_host *host, uint32_t node, bool confined) LQ_MUST_CHECK;
bool lq_host_is_confined(const struct lq_host *host, uint32_t node);

/* Space as last reported by a node's heartbeat; 0 when not known. */
uint64_t lq_host_free_bytes(const struct lq_host *host, uint32_t node);

/* ---- groups ---- */

/* Starts the replica of @group found in the store, or makes it when the store does not have it.
 * @bootstrap: the first configuration when the group is new and this replica is one of its founders (every founder
 * gives the same one, and entry 1 is the same bytes on all); NULL when it joins a group that exists (it waits to be
 * added). Ignored when the log is there. A log of a lower incarnation is set aside (lq_rlog_set_aside): EBUSY when that
 * cannot be yet. EDAMAGED when the log is damaged, lost, or known with a higher incarnation.
 * The machine's load() is called inside, then apply() later. */
lightq_status lq_group_open(struct lq_host *host, uint64_t group, uint32_t incarnation,
                            const struct lq_servers *bootstrap, const struct lq_machine_ops *ops, void *machine,
                            struct lq_group **out, struct lq_err *err) LQ_MUST_CHECK;
/* Stops it; its log stays. @destroy: the files go too. No machine call is made afterwards. */
void lq_group_close(struct lq_group *group, bool destroy);

/* What a leader proposes. The payload is copied once, into the entry that is stored and sent. */
struct lq_proposal {
    const struct iovec *payload; /* concatenated */
    unsigned payload_count;
    uint32_t message_count;
    uint64_t base_offset;  /* stamped by the machine's speculative tail */
    uint64_t timestamp_ms; /* as given; the machine keeps it from going back */
    bool is_append;        /* refused with ENOSPC below the disk reserve; others are not */
};
/* OK: *index is where it will be applied if it is committed in this term. ENOTLEADER | EBUSY (window full: try after
 * the next apply) | ENOSPC | ESTOPPED | ETOOBIG | ENOMEM. */
lightq_status lq_group_submit(struct lq_group *group, const struct lq_proposal *proposal,
                              uint64_t *index) LQ_MUST_CHECK;

struct lq_replica_status {
    lq_replica_id id;
    enum lq_role role;
    uint64_t match; /* leader only: highest index known stored there */
    bool online;    /* leader only: heard from within an election timeout */
    bool lost_data; /* leader only: it lost entries it had acknowledged: rebuild it under a new incarnation */
};
struct lq_group_status {
    uint64_t group, term;
    lq_replica_id self, leader; /* leader 0: unknown */
    bool leading;               /* and the barrier applied */
    bool stopped;
    uint64_t first, last, durable, committed, applied;
    struct lq_replica_status replicas[16];
    unsigned replica_count;
};
void lq_group_status(const struct lq_group *group, struct lq_group_status *status);
struct lq_rlog *lq_group_log(struct lq_group *group);
/* Its owner read the log (lq_rlog_read) and was told EIO or ECORRUPT for the entries from @index on: this replica hands
 * leadership over and stops, as after a failed write; stopped() tells. Where the other voters cannot do without it
 * (they may have rot elsewhere) it only hands over: each serves what it can read. */
void lq_group_unreadable(struct lq_group *group, lightq_status status, uint64_t index);
uint64_t lq_group_id(const struct lq_group *group);
struct lq_group *lq_host_find(struct lq_host *host, uint64_t group);

/* Hand leadership to @to (0: whoever is most caught up). OK: started. ENOTLEADER | EUNAVAILABLE: it is no voter, or was
 * not heard from lately | EBUSY: it is behind, and would keep the group from writing until it is not | ECONFLICT. */
lightq_status lq_group_transfer(struct lq_group *group, lq_replica_id to) LQ_MUST_CHECK;

/* One-at-a-time membership, on the leader: one server added, removed, or of another role. ENOTLEADER | ECONFLICT (a
 * change is not committed yet) | EINVAL | ENOTREADY (promotion of a replica that is not caught up, or with a voter
 * offline) | ENOTFOUND | EEXISTS. Done when servers() tells of it. */
enum lq_change { LQ_CHANGE_ADD_STANDBY, LQ_CHANGE_PROMOTE, LQ_CHANGE_DEMOTE, LQ_CHANGE_REMOVE };
lightq_status lq_group_change(struct lq_group *group, enum lq_change change, lq_replica_id id) LQ_MUST_CHECK;

#endif
