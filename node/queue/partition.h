/* node/queue/partition.h - one partition's replicated queue on this node: the deterministic state machine that its Raft
 * group drives, and, while this replica leads, the speculative tail over what is proposed and not yet applied.
 *
 * Made and freed by node/replicas.c. Called by node/produce.c, consume.c and metadata.c. Loop thread only. The commands
 * and the checkpoint are drawn in node/queue/command.h and docs/format/commands.md.
 *
 * What is deterministic and what is not: everything that lq_partition_save() writes follows from the entries applied,
 * and nothing else. The tail, the requests and the watchers are memory of this node. */
#ifndef LQ_NODE_QUEUE_PARTITION_H
#define LQ_NODE_QUEUE_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/slab.h"
#include "node/queue/table.h"
#include "node/queue/topic_config.h"
#include "raft/host.h"
#include "storage/format.h"

struct lq_partition;

#define LQ_OFFSET_ANY UINT64_MAX /* expected_offset: wherever the end is */

/* ---- producing ---- */

struct lq_partition_request;

/* Runs once, later, never inside lq_partition_produce; never after lq_partition_free. Then the request is the caller's
 * again. It may call anything of this header but lq_partition_free.
 *
 *   OK               applied here, so durable on a majority: base_offset, term, timestamp_ms and duplicate are set.
 *                    duplicate: it was stored by an earlier try and the values are that one's
 *   EDUPLICATE       all its messages are stored, so long ago that the offset is no longer known
 *   EOUTOFSEQUENCE   a gap, an overlap, or a producer that is not known here with a sequence other than 0; of a batch
 *                    that begins an epoch: it comes before what is stored, and nobody knows whether it is
 *   EFENCED          a newer epoch of this producer was seen
 *   EEXPECTED        the log's end is not expected_offset
 *   ELIMIT           not proposed: more message ids within dedup.window than are remembered; later there is room
 *   ENOTLEADER       not proposed: this replica stopped leading while it waited
 *   ELEADERSHIPLOST  proposed, and the outcome is not known; an idempotent producer may send it again
 *   ENOSPC | ETOOBIG | ENOMEM | ESTOPPED   not proposed
 *   ECLOSED          not proposed: the partition is being closed here */
typedef void (*lq_partition_cb)(struct lq_partition_request *request, lightq_status status);

/* One record batch. Belongs to the caller, pinned until cb. */
struct lq_partition_request {
    struct lq_slab *slab;     /* borrowed until cb; the batch was checked by the caller (lq_batch_check) */
    uint32_t offset, size;    /* of the batch in it */
    uint32_t batch_crc;       /* CRC32C that stands in the batch: goes into the digest */
    uint32_t message_count;   /* 1 to LQ_BATCH_RECORDS_MAX */
    uint32_t epoch;           /* of the producer; higher ones fence lower ones */
    bool begins_epoch;        /* what comes before it and is not stored was given up */
    uint64_t producer_id;     /* 0: not idempotent, nothing is checked */
    uint64_t base_sequence;   /* of the first message; sequences count messages, and go on over epochs */
    bool has_id;              /* of one message: not stored when another with this id is, within dedup.window */
    struct lq_id message_id;  /* digest: dedup.h */
    uint64_t expected_offset; /* LQ_OFFSET_ANY, or EEXPECTED unless the batch goes exactly there */
    lq_partition_cb cb;
    void *data;
    /* Given, with OK: */
    uint64_t base_offset, term, timestamp_ms;
    bool duplicate;
    bool same_id; /* base_offset, term and timestamp_ms are those of another message, stored under the same id */
    /* Internal. */
    struct lq_partition_request *next;
    struct lq_partition_request *next_of_producer; /* proposed after this one */
    struct lq_partition_request *retries;          /* of the same batch: they wait for this proposal */
    uint64_t index;                                /* of the entry it was proposed as */
    uint64_t proposed_term, known_ms;
    lightq_status result;
    UT_hash_handle hh; /* in the tail's table of ids, while it is proposed with one */
};

/* Hands in a batch. OK: request->cb runs once. Anything else: it never runs, nothing was proposed:
 *   ENOTLEADER | ESTOPPED | EINVAL (message_count or base_sequence out of range) | ETOOBIG | EBUSY (too much waits
 * here; the same batch may be sent again) | EOUTOFSEQUENCE | EFENCED | EEXPECTED | EDUPLICATE | ELIMIT | ENOSPC |
 * ENOMEM. */
lightq_status lq_partition_produce(struct lq_partition *partition, struct lq_partition_request *request) LQ_MUST_CHECK;

/* ---- what is there ---- */

struct lq_partition_status {
    uint64_t group;
    uint64_t start_offset; /* the first message consumers can have */
    uint64_t end_offset;   /* one behind the last applied message: nothing at or beyond it may be delivered */
    uint64_t applied_index;
    uint64_t applied_term;
    uint64_t timestamp_ms; /* highest stamp applied */
    uint64_t digest;       /* running XXH64 over (base offset, count, batch crc) of all applied batches */
    uint64_t bytes;        /* of the applied batches from start_offset on, about */
    uint64_t term;         /* as last told by Raft */
    lq_replica_id leader;  /* as last told by Raft; 0: none known */
    bool leading;          /* and ready to take batches */
    bool stopped;          /* for good, until restart or rebuild */
    lightq_status stopped_status;
    const char *stopped_text; /* why; "" when it has not */
    struct lq_id topic;       /* zero before the partition's first leader has told its configuration */
    uint32_t number;
    struct lq_topic_config config;
    size_t producers; /* remembered */
    size_t waiting;   /* requests proposed or queued */
};
/* Everything, for metadata, describe and metrics. */
void lq_partition_status(const struct lq_partition *partition, struct lq_partition_status *status);

uint64_t lq_partition_start(const struct lq_partition *partition);
uint64_t lq_partition_end(const struct lq_partition *partition);
uint64_t lq_partition_applied(const struct lq_partition *partition); /* index */
bool lq_partition_leading(const struct lq_partition *partition);
uint64_t lq_partition_term(const struct lq_partition *partition);
lq_replica_id lq_partition_leader(const struct lq_partition *partition);
/* For lq_group_log() and lq_rlog_seek_offset, _seek_time, _peek, _read. Entries above lq_partition_applied() must not
 * be delivered. NULL while the group is not open here. */
struct lq_group *lq_partition_group(const struct lq_partition *partition);

/* The servers of its group as last committed; count 0 while they are not known here. */
const struct lq_servers *lq_partition_servers(const struct lq_partition *partition);

/* True when @entry holds a record batch: then *batch (inside the entry's payload) and *size are it. False for every
 * other entry: skip it. */
bool lq_partition_entry_batch(const struct lq_entry *entry, const uint8_t **batch, uint32_t *size);

/* ---- being told ---- */

enum lq_partition_event {
    LQ_PARTITION_APPLIED = 1,    /* the end moved */
    LQ_PARTITION_LEADERSHIP = 2, /* leading, leader, term or servers changed */
    LQ_PARTITION_TRIMMED = 4,    /* the start moved */
    LQ_PARTITION_CONFIGURED = 8,
    LQ_PARTITION_STOPPED = 16,
    LQ_PARTITION_RELOADED = 32,      /* the state was replaced by a checkpoint: start and end may have jumped */
    LQ_PARTITION_DEAD_LETTERS = 256, /* messages of a group were given up: who moves them has something to do */
    LQ_PARTITION_GROUPS = 128,       /* a consumer group was made, deleted, moved or altered */
    LQ_PARTITION_CLOSED = 64,        /* it is about to be freed; the watcher has been taken off the list already */
};

/* Told once in each lq_partition_turn() that follows something new, with all that happened since as a mask. Embedded
 * by the caller; may be removed (also by its own callback) at any time. */
struct lq_partition_watcher {
    void (*cb)(struct lq_partition_watcher *watcher, unsigned events);
    void *data;
    /* Internal. */
    struct lq_partition *partition; /* NULL: on no list */
    struct lq_partition_watcher *next, *previous;
};
void lq_partition_watch(struct lq_partition *partition, struct lq_partition_watcher *watcher);
void lq_partition_unwatch(struct lq_partition_watcher *watcher); /* harmless when it is not on a list */

/* ---- for node/replicas.c and tests ---- */

/* What the partition needs of its Raft group, as a vtable, so that it is tested without one. */
struct lq_partition_port {
    lightq_status (*submit)(void *owner, const struct lq_proposal *proposal, uint64_t *index);
    /* An index at or before the entry that holds queue offset @offset; 0 when not known. */
    uint64_t (*seek_offset)(void *owner, uint64_t offset);
    /* lq_partition_turn() is to be called in this turn of the loop. */
    void (*wake)(void *owner, struct lq_partition *partition);
};

struct lq_partition_options {
    uint64_t group;
    lq_replica_id self;
    struct lq_clock *clock;               /* borrowed; stamps */
    const struct lq_partition_port *port; /* borrowed */
    void *port_owner;
    size_t producers_max;       /* remembered; 0: LQ_PRODUCERS_MAX */
    size_t waiting_max;         /* requests waiting in all; 0: LQ_PARTITION_WAITING_MAX */
    uint64_t waiting_bytes_max; /* of the batches queued and not proposed; 0: LQ_PARTITION_WAITING_BYTES_MAX */
};

lightq_status lq_partition_new(const struct lq_partition_options *options,
                               struct lq_partition **out) LQ_MUST_CHECK; /* OK | ENOMEM */
/* Every request still here is told (ELEADERSHIPLOST when it was proposed, else ECLOSED) and every watcher CLOSED,
 * inside the call. The group must be closed already. NULL is allowed. */
void lq_partition_free(struct lq_partition *partition);

/* For lq_group_open; machine = struct lq_partition *. */
extern const struct lq_machine_ops lq_partition_machine_ops;
void lq_partition_set_group(struct lq_partition *partition, struct lq_group *group);

/* Does what must not be done inside a machine call: proposes what waits, tells requests that were decided at once, and
 * tells watchers. Cheap when there is nothing. */
void lq_partition_turn(struct lq_partition *partition);
bool lq_partition_needs_turn(const struct lq_partition *partition);

/* What the catalog says of it. While leading, a CONFIG command is proposed when the applied one differs. */
void lq_partition_set_config(struct lq_partition *partition, const struct lq_id *topic, uint32_t number,
                             const struct lq_topic_config *config);
/* Retention: proposes a TRIM when the applied configuration says so. To be called now and then while leading. */
void lq_partition_retain(struct lq_partition *partition);
/* Proposes dropping everything below @offset (LQ_OFFSET_ANY: all there is). OK: proposed. ENOTLEADER | EBUSY | ... */
lightq_status lq_partition_trim(struct lq_partition *partition, uint64_t offset) LQ_MUST_CHECK;

/* The machine's functions by name, for tests and the fuzz harness. */
lightq_status lq_partition_apply(struct lq_partition *partition, const struct lq_entry *entry) LQ_MUST_CHECK;
lightq_status lq_partition_save(struct lq_partition *partition, struct lq_writer *writer) LQ_MUST_CHECK;
/* OK | ECORRUPT | EVERSION | ENOMEM; on failure the state is as before. */
lightq_status lq_partition_load(struct lq_partition *partition, const uint8_t *bytes, size_t size) LQ_MUST_CHECK;

#endif
