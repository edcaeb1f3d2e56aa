/* raft/rpc.h - Raft's messages as frames of the peer link: encoding, and decoding with every check that needs nothing
 * but the frame itself. Called by raft/group.c and raft/host.c (and the simulation); calls storage/format.h for the
 * entries. No state, no I/O; any thread. The bytes are drawn in rpc.c; docs/format/peer.md explains them.
 *
 * What decode promises about a frame it accepts: all fields are inside their ranges (terms and indexes at most
 * LQ_RPC_INDEX_MAX, so sums of them do not wrap), no reserved bit is set, nothing is left over, the sender's replica id
 * is on the node that the hello named, and the receiver's on this node. Entries are whole, their crcs hold, they belong
 * to the frame's group, follow prev index by index and term by term, and no term is 0, falls, or exceeds the message's.
 * A configuration is walked byte by byte before libraft may see it: libraft's own decoder reads past the end.
 *
 * What it cannot promise, because it needs the group's state, is the host's: whether the receiver's incarnation is the
 * present one, a message of our own term while we lead, clipping at the trim point (H1), a CHANGE that is not the first
 * entry (H3), results from outside the configuration, pieces that do not continue each other. */
#ifndef LQ_RAFT_RPC_H
#define LQ_RAFT_RPC_H

#include <raft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/limits.h"
#include "raft/host.h"
#include "raft/link.h"
#include "storage/format.h"
#include "storage/store.h"

#define LQ_RPC_INDEX_MAX (UINT64_C(1) << 60) /* of terms, indexes and queue offsets */

/* Where encode puts a frame's head; the frame borrows it until link->send has returned. */
struct lq_rpc_head {
    uint8_t bytes[LQ_FRAME_HEAD_MAX];
};

/* ---- one message of one group: APPEND, APPEND_RESULT, VOTE, VOTE_RESULT, INSTALL, TIMEOUT_NOW ---- */

/* VOTE, VOTE_RESULT, APPEND_RESULT, TIMEOUT_NOW. @from is our replica id, message->server_id the receiver's. libraft
 * leaves last_log_index of an answer to an old term unset: a value above LQ_RPC_INDEX_MAX is sent as 0 (see
 * lq_rpc.message). EINVAL: another type, or a field decode would refuse. */
lightq_status lq_rpc_encode(uint64_t group, lq_replica_id from, const struct raft_message *message,
                            struct lq_rpc_head *head, struct lq_frame *frame) LQ_MUST_CHECK;

/* AppendEntries with the entries @refs (borrowed until link->send has returned), which follow prev_log_index of
 * @message; its own entries and n_entries are not read, so that one message may be cut into several frames: give each a
 * copy of the message with its own prev. EINVAL: more than LQ_PEER_ENTRIES_MAX, or more bytes than
 * LQ_PEER_FRAME_BYTES_MAX allows, or as above. */
lightq_status lq_rpc_encode_append(uint64_t group, lq_replica_id from, const struct raft_message *message,
                                   const struct lq_entry_ref *refs, size_t count, struct lq_rpc_head *head,
                                   struct lq_frame *frame) LQ_MUST_CHECK;

/* One piece of a checkpoint. */
struct lq_rpc_piece {
    /* Its state_size is the size of the whole state, all pieces; state is not used. The configuration goes with the
     * first piece (offset 0); decoded later pieces have NULL and 0. */
    struct lq_checkpoint checkpoint;
    uint64_t offset;      /* of this piece in the state */
    uint32_t size;        /* 1 to LQ_CHECKPOINT_PIECE_BYTES; 0 only when the whole state is empty */
    bool last;            /* offset + size is state_size */
    const uint8_t *bytes; /* decoded: in the frame's slab; not used by encode */
};

/* InstallSnapshot: term, version and receiver from @message, the rest from @piece (size and last included); @body
 * holds the piece's bytes at @body_offset (referenced by link->send; NULL when piece->size is 0). EINVAL as above. */
lightq_status lq_rpc_encode_install(uint64_t group, lq_replica_id from, const struct raft_message *message,
                                    const struct lq_rpc_piece *piece, struct lq_slab *body, uint32_t body_offset,
                                    struct lq_rpc_head *head, struct lq_frame *frame) LQ_MUST_CHECK;

/* Arrays for the entries of a frame, used again from frame to frame. Grows to LQ_PEER_ENTRIES_MAX at most, and never
 * beyond what the bytes that arrived can hold. */
struct lq_rpc_scratch {
    struct lq_entry_ref *refs;
    struct raft_entry *entries;
    uint32_t capacity;
    void *batch; /* what each raft_entry's batch is set to */
};
void lq_rpc_scratch_init(struct lq_rpc_scratch *scratch, void *batch);
void lq_rpc_scratch_deinit(struct lq_rpc_scratch *scratch);

struct lq_rpc {
    enum lq_frame_type type;
    uint64_t group;
    lq_replica_id from;
    lq_replica_id to; /* on this node, but perhaps of an incarnation that is no more: the host drops it then */
    /* Ready for RAFT_RECEIVE but for server_address (NULL: set it) and what is said below. server_id is the sender.
     * APPEND: entries and n_entries are set, in the scratch. INSTALL: conf and data are empty, to be filled when all
     * pieces are there. APPEND_RESULT: last_log_index means nothing when the term is above ours. */
    struct raft_message message;
    /* APPEND */
    const struct lq_entry_ref *refs; /* in the scratch; they borrow the frame's reference of the slab */
    uint32_t entry_count;
    uint64_t first_index; /* prev_log_index + 1 */
    /* INSTALL */
    struct lq_rpc_piece piece;
};

/* Decodes @frame, which came from @node (as its hello said), on node @self. @scratch is needed for APPEND and holds the
 * entries until it is used again. OK | EPROTO (malformed: @err names what; close the connection) | ENOMEM (drop it).
 * EPROTO also for frames of other types. */
lightq_status lq_rpc_decode(const struct lq_frame_in *frame, uint32_t node, uint32_t self,
                            struct lq_rpc_scratch *scratch, struct lq_rpc *rpc, struct lq_err *err) LQ_MUST_CHECK;

/* Checks an encoded configuration: whole, 1 to LQ_SERVERS_MAX servers, ids valid and unique, addresses terminated,
 * unique and at most LQ_HOST_BYTES_MAX long, known roles, zero padding to a multiple of 8 and nothing behind, at most
 * LQ_CONFIGURATION_BYTES_MAX. OK (then raft_configuration_decode is safe, and *servers, when not NULL, is filled)
 * | EPROTO. */
lightq_status lq_rpc_check_configuration(const void *bytes, size_t size, struct lq_servers *servers,
                                         struct lq_err *err) LQ_MUST_CHECK;

/* ---- heartbeats and their answers, of all groups between two nodes ---- */

struct lq_heartbeat { /* an AppendEntries without entries */
    uint64_t group;
    lq_replica_id from, to;
    uint64_t term, prev_index, prev_term, commit;
    uint8_t version;
};
struct lq_heartbeat_result { /* an AppendEntries result */
    uint64_t group;
    lq_replica_id from, to;
    uint64_t term, rejected, last_index;
    uint16_t features, capacity;
    uint8_t version;
};

/* @beats and @results together at most LQ_PEER_HEARTBEATS_MAX. OK: frame->body is a new slab with one reference,
 * dropped by the caller after link->send. EINVAL: too many or none. ENOMEM. last_index is treated as in
 * lq_rpc_encode. */
lightq_status lq_rpc_encode_heartbeats(const struct lq_heartbeat *beats, size_t beat_count,
                                       const struct lq_heartbeat_result *results, size_t result_count,
                                       struct lq_rpc_head *head, struct lq_frame *frame) LQ_MUST_CHECK;

struct lq_heartbeats {
    const uint8_t *beats, *results; /* in the frame's slab */
    uint32_t beat_count, result_count;
};
/* Checks all of them. OK | EPROTO. */
lightq_status lq_rpc_decode_heartbeats(const struct lq_frame_in *frame, uint32_t node, uint32_t self,
                                       struct lq_heartbeats *heartbeats, struct lq_err *err) LQ_MUST_CHECK;
/* @i below the count. */
void lq_heartbeats_beat(const struct lq_heartbeats *heartbeats, uint32_t i, struct lq_heartbeat *beat);
void lq_heartbeats_result(const struct lq_heartbeats *heartbeats, uint32_t i, struct lq_heartbeat_result *result);

/* To and from libraft's messages. On sending, server_id is the receiver; on receiving, the sender. */
void lq_heartbeat_of(uint64_t group, lq_replica_id from, const struct raft_message *message, struct lq_heartbeat *beat);
void lq_heartbeat_result_of(uint64_t group, lq_replica_id from, const struct raft_message *message,
                            struct lq_heartbeat_result *result);
void lq_heartbeat_message(const struct lq_heartbeat *beat, struct raft_message *message);
void lq_heartbeat_result_message(const struct lq_heartbeat_result *result, struct raft_message *message);

/* ---- what a node says of itself, once a tick ---- */

struct lq_node_status {
    uint64_t free_bytes, total_bytes; /* of its data disk; free_bytes <= total_bytes */
    uint32_t groups;                  /* replicas open on this shard */
    uint32_t leading;                 /* of them, led from here; <= groups */
};
void lq_rpc_encode_status(const struct lq_node_status *status, struct lq_rpc_head *head, struct lq_frame *frame);
lightq_status lq_rpc_decode_status(const struct lq_frame_in *frame, struct lq_node_status *status,
                                   struct lq_err *err) LQ_MUST_CHECK;

#endif
