/* raft/group.h - private to raft/: one Raft group of a shard, and what its files give one another. What others may call
 * is in raft/host.h.
 *
 *     start.c    opening: log, checkpoint, bootstrap entry, then RAFT_START
 *     group.c    the only caller of raft_step(): events in, updates taken in the order of docs/architecture.md
 *     receive.c  messages from peers: what the frame alone cannot tell (H1 clip, H2, H3 split)
 *     submit.c   proposals: window, reserve, stamping
 *     feed.c     AppendEntries to each peer, filled from the cache or from disk
 *     install.c  checkpoints to and from peers, in pieces
 *     apply.c    committed entries to the machine, checkpoints at borders, trimming
 *     watch.c    time: when a group is due, fast failover, transfer, stalled and failed disks
 *     member.c   changes of the servers
 *     status.c   what a group says of itself, and its end
 *     host.c     all groups: what the link gives, turn and tick
 *     schedule.c which group runs when; reads
 *     peers.c    what goes to other nodes, and their space
 *
 * Every event may make libraft's state change; what follows from it (a barrier, a configuration now committed, a
 * failure) is done by lq_group_settle, which each of the callers of a step calls when it is done. What may call the
 * machine is done in lq_group_turn only. */
#ifndef LQ_RAFT_GROUP_H
#define LQ_RAFT_GROUP_H

#include <raft.h>
#include <stdbool.h>

#define HASH_NONFATAL_OOM 1 /* HASH_ADD leaves hh.tbl NULL instead of ending the process */
#include <uthash.h>

/* Groups are far apart in memory, and each heartbeat looks one up: chains of one or two instead of ten. */
#undef HASH_BKT_CAPACITY_THRESH
#define HASH_BKT_CAPACITY_THRESH 3U

#include "raft/host.h"
#include "raft/rpc.h"
#include "raft/trace.h"

#define LQ_NEVER UINT64_MAX

/* A read of a log. It is pinned until its callback, and may outlive the group that asked for it. */
struct lq_read {
    struct lq_rlog_read read;
    struct lq_host *host;
    struct lq_group *group; /* NULL: nobody waits for it any more */
    void (*cb)(struct lq_group *group, struct lq_read *read, lightq_status status);
    lq_replica_id peer; /* of a feed's read */
    struct lq_read *prev, *next;
};

/* Entries still to be sent to a peer: [next, end]; none when next > end. */
struct lq_feed {
    uint64_t next, end;
    struct lq_read *read; /* from disk, in flight */
    bool paused;          /* the peer's queue is full enough: gone on with at the next tick */
};

/* A checkpoint being sent. */
struct lq_install_out {
    struct lq_slab *bytes; /* as loaded: configuration and state lie in it */
    struct lq_checkpoint checkpoint;
    uint64_t offset; /* of the next piece */
    uint64_t term;
    uint64_t done_ms; /* when the last piece went; 0: not yet */
};

/* What a leader knows of another server of its configuration, beside what libraft knows. */
struct lq_group_peer {
    lq_replica_id id;
    bool replicates;     /* not a spare */
    uint64_t emitted_ms; /* when libraft last made an AppendEntries for it, in the group's time */
    uint64_t sent_ms;    /* when one was last handed to the link, in the host's time */
    uint64_t heard_ms;   /* when it last answered in this term, in the host's time; 0: not yet */
    uint64_t expected;   /* the index after the last entry libraft gave for it */
    bool probing;        /* libraft looks for the place where the logs agree: one entry at a time */
    uint64_t probe_match;
    unsigned lost_count; /* rejections in a row that say it lost what it had */
    struct lq_feed feed;
    struct lq_install_out *install;
};

/* A checkpoint being received. */
struct lq_install_in {
    lq_replica_id from;
    uint64_t term;
    struct lq_checkpoint checkpoint; /* of its first piece; configuration points to the array below */
    uint8_t configuration[LQ_CONFIGURATION_BYTES_MAX];
    uint8_t *state; /* grows with what arrives */
    uint64_t size, capacity;
    uint64_t last_ms; /* when its last piece came */
};

enum lq_phase {
    LQ_PHASE_OPENING, /* waits until what START needs is durable */
    LQ_PHASE_RUNNING,
    LQ_PHASE_FAILING, /* the disk failed while leading: asks the best follower to take over */
    LQ_PHASE_STOPPED, /* for good */
};

/* What a raft_step is given beside its event, to find the entries it gives back. */
struct lq_step {
    const struct raft_entry *entries;
    const struct lq_entry_ref *refs;
    unsigned count;
};

struct lq_group {
    struct lq_host *host;
    uint64_t id;
    lq_replica_id self;
    UT_hash_handle hh;
    const struct lq_machine_ops *ops;
    void *machine;
    struct lq_rlog *log;
    struct raft raft;
    bool raft_open;
    bool stepping; /* inside raft_step */
    enum lq_phase phase;
    bool fresh; /* made by this open, as the founder that should lead first */

    /* the shard's dirty list; a closed group is freed by the turn that runs it */
    struct lq_group *dirty_next;
    bool dirty, in_turn, closed, destroy;

    /* time: host milliseconds, libraft's are shift_ms ahead */
    uint64_t shift_ms, step_ms;
    size_t heap_at;    /* in the host's heap of times, 1-based; 0: not in it */
    uint64_t retry_ms; /* when entries or pieces that a full queue held up are tried again; LQ_NEVER: none are */

    /* what must be durable before anything may be said */
    uint64_t vote_sequence, vote_durable;
    struct raft_message *held;
    unsigned held_count, held_capacity;

    /* commit and apply */
    uint64_t committed, applied;
    struct lq_read *apply_read;
    struct lq_entry_ref *ready; /* read from disk, to be applied: [ready_at, ready_count), each with a reference */
    size_t ready_at, ready_count;
    uint64_t trim_asked; /* applied, when the machine was last asked how far trimming may go */
    uint64_t applied_offset, applied_timestamp_ms; /* after the last applied entry */
    uint64_t applied_term;
    uint64_t configuration_index; /* of the configuration in force after the last applied entry */
    uint8_t *configuration;
    uint32_t configuration_size;
    bool servers_changed; /* to be told */

    /* the end of the log, for what the host itself appends */
    uint64_t tail_offset, tail_timestamp_ms;
    uint64_t tail_commit; /* what its leader had committed when it made the last entry: committed for certain */
    struct lq_read *tail_read;
    bool tail_known;

    /* role */
    uint64_t leader_term;   /* the term this replica leads; 0: it does not */
    uint64_t barrier_index; /* of that term; 0: none yet */
    uint64_t told_lead;     /* term of the last lead(), 0: follow() since */
    bool told_follow;
    lq_replica_id told_leader;
    uint64_t told_term;
    uint64_t leader_heard_ms; /* when a leader last spoke; 0: never, or its process is gone */

    /* leading */
    struct lq_group_peer *peers;
    unsigned peer_count;
    uint64_t peers_index;      /* of the configuration they are those of */
    lq_replica_id rejected_by; /* during a step: the peer whose rejection it takes */
    uint32_t *window_sizes;    /* ring by index */
    uint32_t window_mask;
    uint64_t window_low, window_bytes; /* entries above window_low count */
    uint64_t entry_bytes_mean;
    bool short_of_space;
    uint64_t space_epoch;

    /* watch */
    uint64_t stall_index, stall_since_ms; /* the oldest entry not durable, and how long that has been so; 0: none */
    bool stalled, muted;
    uint64_t stalled_at_ms;
    uint64_t words;       /* messages taken from other replicas */
    uint64_t stood_words; /* of them, when it last stood for election in earnest */
    uint64_t stood_ms;    /* when it did, or last asked for votes again */
    uint64_t failover_ms; /* LQ_NEVER: none */
    unsigned failover_tries;
    bool failover_patient; /* the leader is only silent: tried again at the pace of heartbeats */
    uint32_t failover_node;
    struct raft_message timeout_now; /* sent again until it works; type 0: none */
    uint64_t timeout_now_ms;
    lq_replica_id transfer_to;
    unsigned transfer_tries;
    uint64_t failing_until_ms;
    lightq_status failed; /* why it stops */
    struct lq_err failed_err;
    bool told_stopped;

    /* install */
    struct lq_install_in *receiving;
    struct lq_install_in *installing; /* given to the log; its state is loaded when durable */
    uint64_t installed;               /* told by the log, not yet by us to libraft; 0: none */
};

/* ---- group.c ---- */

/* Each is one raft_step with its update taken; a failure has stopped the group already. */
lightq_status lq_group_step_start(struct lq_group *group, struct raft_event *event) LQ_MUST_CHECK;
void lq_group_step_timeout(struct lq_group *group);
/* @step: the entries of an AppendEntries; NULL for other messages. */
void lq_group_step_receive(struct lq_group *group, struct raft_message *message, const struct lq_step *step);
/* One sealed entry. OK | ENOTLEADER | ECONFLICT (a change that libraft refuses) | ESTOPPED. */
lightq_status lq_group_step_submit(struct lq_group *group, const struct lq_entry_ref *ref,
                                   enum lq_entry_type type) LQ_MUST_CHECK;
lightq_status lq_group_step_transfer(struct lq_group *group, lq_replica_id to) LQ_MUST_CHECK;
/* @configuration is taken. */
void lq_group_step_configuration(struct lq_group *group, uint64_t index);
void lq_group_step_snapshot(struct lq_group *group, const struct lq_checkpoint *checkpoint);
void lq_group_step_installed(struct lq_group *group, const struct lq_checkpoint *checkpoint);
/* Follow-ups of the steps before, and the time of the next event. Call it after each event from outside. */
void lq_group_settle(struct lq_group *group);
/* Everything that waits: durable news, applies, the machine's calls, entries to send. */
void lq_group_turn(struct lq_group *group);
void lq_group_free(struct lq_group *group);
extern const struct lq_rlog_events lq_group_log_events;

static inline bool lq_group_leads(const struct lq_group *group)
{
    return group->raft_open && group->raft.state == RAFT_LEADER;
}
/* A vote is not durable yet: nothing may be said. */
static inline bool lq_group_vote_pending(const struct lq_group *group)
{
    return group->vote_durable < group->vote_sequence;
}
static inline bool lq_group_installing(const struct lq_group *group)
{
    return group->raft_open && group->raft.snapshot.installing;
}
/* What libraft knows to be stored, as far as it may be applied. */
static inline uint64_t lq_group_stored(const struct lq_group *group)
{
    return !group->raft_open || lq_group_installing(group) ? 0 : group->raft.last_stored;
}
struct lq_group_peer *lq_group_peer(struct lq_group *group, lq_replica_id id);
/* Allocates and seals an entry of the host's own (barrier, change) to follow the last one. */
lightq_status lq_group_make_entry(struct lq_group *group, enum lq_entry_type type, const void *payload,
                                  uint32_t payload_size, struct lq_entry_ref *ref) LQ_MUST_CHECK;
/* Keeps what base_offset and timestamp the next entry has from the last one's header. */
void lq_group_take_tail(struct lq_group *group, const struct lq_entry *entry);
void lq_group_dirty(struct lq_group *group);
void lq_group_trace(struct lq_group *group, enum lq_trace_kind kind, uint64_t a, uint64_t b);

/* The only voter: it has nobody to hand over to. */
bool lq_group_alone(const struct lq_group *group);

/* ---- start.c ---- */
/* In phase OPENING: START when all it needs is durable. */
void lq_group_open_turn(struct lq_group *group);

/* ---- receive.c ---- */
void lq_group_receive(struct lq_group *group, struct lq_rpc *rpc);
void lq_group_receive_beat(struct lq_group *group, const struct lq_heartbeat *beat);
void lq_group_receive_result(struct lq_group *group, const struct lq_heartbeat_result *result);

/* ---- submit.c ---- */
void lq_group_window_open(struct lq_group *group);
lightq_status lq_group_window_add(struct lq_group *group, uint64_t index, uint32_t size) LQ_MUST_CHECK;
void lq_group_window_advance(struct lq_group *group);

/* ---- feed.c ---- */
/* Takes an AppendEntries that libraft made. */
void lq_feed_take(struct lq_group *group, const struct raft_message *message);
void lq_feed_flush(struct lq_group *group);
void lq_feed_drop(struct lq_group_peer *peer);

/* ---- install.c ---- */
void lq_install_begin(struct lq_group *group, const struct raft_message *message);
void lq_install_flush(struct lq_group *group);
void lq_install_drop(struct lq_group_peer *peer);
void lq_install_receive(struct lq_group *group, struct lq_rpc *rpc);
/* The update's snapshot is to be made the log's. */
void lq_install_take(struct lq_group *group, struct raft_update *update);
void lq_install_turn(struct lq_group *group);
void lq_install_forget(struct lq_group *group);
void lq_install_in_free(struct lq_group *group, struct lq_install_in **install);

/* ---- apply.c ---- */
/* Loads the newest checkpoint at or below the log's end. */
lightq_status lq_apply_load(struct lq_group *group, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_apply_checkpoint_taken(struct lq_group *group, const struct lq_checkpoint *checkpoint) LQ_MUST_CHECK;
void lq_apply_forget_ready(struct lq_group *group);
lightq_status lq_apply_set_configuration(struct lq_group *group, uint64_t index, const void *bytes,
                                         uint32_t size) LQ_MUST_CHECK;
void lq_apply_turn(struct lq_group *group);
void lq_apply_trim(struct lq_group *group);

/* ---- watch.c ---- */
uint64_t lq_group_due(const struct lq_group *group);
void lq_group_tick(struct lq_group *group);
void lq_group_link_down(struct lq_group *group, uint32_t node, bool refused);
/* Stops it: at once, or after asking another to lead. Call again with a failure changes nothing. */
void lq_group_fail(struct lq_group *group, lightq_status status, const char *format, ...) LQ_PRINTF(3, 4);
/* The second half, outside of a step. */
void lq_group_fail_settle(struct lq_group *group);
void lq_stall_appended(struct lq_group *group);
void lq_stall_durable(struct lq_group *group);
void lq_group_transfer_sent(struct lq_group *group, const struct raft_message *message);

/* ---- member.c ---- */
/* Encodes as libraft does; *bytes is raft_malloc'ed. EINVAL | ENOMEM. */
lightq_status lq_servers_encode(const struct lq_servers *servers, void **bytes, size_t *size) LQ_MUST_CHECK;
lightq_status lq_servers_configuration(const void *bytes, size_t size,
                                       struct raft_configuration *configuration) LQ_MUST_CHECK;
void lq_servers_of(const struct raft_configuration *configuration, struct lq_servers *servers);
bool lq_servers_sole_voter(const struct lq_servers *servers, lq_replica_id self);
unsigned lq_servers_voters(const struct lq_servers *servers);
const struct raft_server *lq_configuration_find(const struct raft_configuration *configuration, lq_replica_id id);
/* Of the configuration libraft goes by, committed or not. */
uint64_t lq_group_configuration_index(const struct lq_group *group);
/* Makes @group->peers those of libraft's configuration. */
lightq_status lq_group_sync_peers(struct lq_group *group) LQ_MUST_CHECK;
void lq_group_drop_peers(struct lq_group *group);

/* ---- host.c ---- */
struct lq_host_peer {
    uint32_t node;
    UT_hash_handle hh;
    struct lq_heartbeat *beats;
    struct lq_heartbeat_result *results;
    uint32_t beat_count, beat_capacity, result_count, result_capacity;
    bool gathering;
    struct lq_host_peer *gather_next;
    struct lq_node_status status;
    bool status_known;
    bool confined; /* to group 0 */
};

/* A group in the heap of those that wait for a time. */
struct lq_host_time {
    uint64_t due_ms; /* never later than the real one */
    struct lq_group *group;
};

struct lq_host {
    uint32_t node;
    unsigned election_ms, heartbeat_ms, stall_ms, tick_ms, failover_min_ms, failover_max_ms;
    bool fast_failover, draining;
    uint64_t window_bytes, reserve_bytes;
    struct lq_clock *clock;
    struct lq_store *store;
    struct lq_link *link;
    const struct lq_host_events *events;
    void *owner;

    struct lq_group *groups;
    struct lq_host_peer *peers, *gathering;
    struct lq_group *dirty_first, *dirty_last;
    struct lq_host_time *heap; /* 1-based */
    size_t heap_count, heap_capacity;
    struct lq_read *reads;
    struct lq_rpc_scratch scratch;
    struct lq_entry_ref *refs; /* LQ_PEER_ENTRIES_MAX, for peeks */
    uint64_t now_ms;
    uint64_t status_ms; /* of the next status round */
    uint64_t space_epoch;
    struct lq_store_space space;
    uint64_t receiving_bytes; /* of checkpoints being put together */
    struct lq_host_counters counters;
    lq_trace_cb trace;
    void *trace_data;
};

void lq_host_now(struct lq_host *host);
/* Send one frame or message to where it belongs. OK | ECONNECT | EBUSY. */
lightq_status lq_host_send(struct lq_host *host, uint32_t node, const struct lq_frame *frame);
void lq_host_message(struct lq_group *group, const struct raft_message *message);
void lq_host_beat(struct lq_host *host, const struct lq_heartbeat *beat);
void lq_host_result(struct lq_host *host, const struct lq_heartbeat_result *result);
/* Puts the group's time into the heap when it is earlier than what is there. */
void lq_host_rearm(struct lq_group *group);
/* Writes a later time than the one in the heap. */
void lq_host_put_off(struct lq_group *group, uint64_t due_ms);
/* Into the map and the heap, and out of all lists. */
lightq_status lq_host_remember(struct lq_group *group) LQ_MUST_CHECK;
void lq_host_forget(struct lq_group *group);
/* Below the reserve, as far as known. */
bool lq_host_short_of_space(const struct lq_host *host, uint32_t node);
bool lq_host_connected(struct lq_host *host, uint32_t node);
struct lq_host_peer *lq_host_find_peer(const struct lq_host *host, uint32_t node); /* NULL: not known */
struct lq_host_peer *lq_host_get_peer(struct lq_host *host, uint32_t node);        /* NULL: no memory */
void lq_host_flush_gathered(struct lq_host *host);
void lq_host_status_round(struct lq_host *host);
/* Reads in flight: nobody waits for them any more. @freed: they will never come back. */
void lq_host_leave_reads(struct lq_host *host, bool freed);
/* Starts a read for @group. On failure nothing runs. */
lightq_status lq_host_read(struct lq_group *group, uint64_t index, uint64_t bytes_max, lq_replica_id peer,
                           void (*cb)(struct lq_group *group, struct lq_read *read, lightq_status status),
                           struct lq_read **read) LQ_MUST_CHECK;

#endif
