/* node/queue/state.h - what a partition is after the entries applied so far, and nothing else: no clock, no randomness,
 * no order that depends on addresses. Two replicas that applied the same entries have the same bytes in
 * lq_queue_state_save(). Called by partition.c. The checkpoint, little endian:
 *
 *      0  magic          u32   "LQPS"
 *      4  version        u16   4 (read as well: 3, without message ids, 2, without consumer groups, 1, with other
 *                             producers)
 *      6  flags          u16   0
 *      8  start_offset   u64
 *     16  end_offset     u64
 *     24  applied_index  u64
 *     32  applied_term   u64
 *     40  timestamp_ms   u64   highest stamp applied
 *     48  digest         u64
 *     56  bytes          u64   of all batches ever applied
 *     64  start_bytes    u64   of those before start_offset, about
 *     72  append_ms      u64   stamp of the last batch
 *     80  topic          16 bytes
 *     96  partition      u32
 *    100  configuration  (topic_config.h), marks (marks.h), producers (producers.h), consumer groups (cgroups.h),
 *                        message ids (dedup.h)
 *  end-4  crc32c         u32   over all before it */
#ifndef LQ_NODE_QUEUE_STATE_H
#define LQ_NODE_QUEUE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "node/queue/cgroups.h"
#include "node/queue/command.h"
#include "node/queue/dedup.h"
#include "node/queue/marks.h"
#include "node/queue/producers.h"
#include "storage/format.h"

struct lq_queue_state {
    uint64_t start_offset, end_offset;
    uint64_t applied_index, applied_term;
    uint64_t timestamp_ms, append_ms;
    uint64_t digest;
    uint64_t bytes, start_bytes;
    struct lq_id topic;
    uint32_t partition;
    struct lq_topic_config config;
    struct lq_marks marks;
    struct lq_producers producers;
    struct lq_cgroups cgroups;
    struct lq_dedup dedup;
    struct lq_cgroup_result outcome; /* of the command of a group that was applied last; not saved */
};

void lq_queue_state_init(struct lq_queue_state *state);
void lq_queue_state_deinit(struct lq_queue_state *state);

/* The next entry. OK: *command is what it was; its type is 0 for entries that are not commands. ECORRUPT: it cannot
 * have been proposed by a leader that keeps the rules (index, stamp, offset or sequence do not follow); EVERSION;
 * ENOMEM: the replica must stop, and @state is not to be used again. @err gets a sentence. */
lightq_status lq_queue_state_apply(struct lq_queue_state *state, const struct lq_entry *entry,
                                   struct lq_command *command, struct lq_err *err) LQ_MUST_CHECK;

/* Where the limits of retention put the start when it is @now_ms: start_offset when nothing is to go. */
uint64_t lq_queue_state_retained(const struct lq_queue_state *state, uint64_t now_ms);
/* Up to where all is consumed that retention=workqueue or interest keeps for groups; it may be below start_offset. */
uint64_t lq_queue_state_consumed(const struct lq_queue_state *state);

/* OK | ETOOBIG | ENOMEM. */
lightq_status lq_queue_state_save(const struct lq_queue_state *state, struct lq_writer *writer) LQ_MUST_CHECK;
/* @state is initialised and empty. OK | ECORRUPT | EVERSION | ENOMEM; on failure deinit it. */
lightq_status lq_queue_state_load(struct lq_queue_state *state, const uint8_t *bytes, size_t size) LQ_MUST_CHECK;

#endif
