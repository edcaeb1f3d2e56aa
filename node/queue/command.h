/* node/queue/command.h - the commands of a partition's log: the payload of its entries of type COMMAND. Little endian.
 * Drawn with examples in docs/format/commands.md.
 *
 *      0  type     u8    enum lq_command_type
 *      1  version  u8    APPEND 2 (3 with a message id), TRIM 1 (2 when kept for groups), others 1
 *      2  flags    u16   0
 *   APPEND             4 batch_crc u32 | 8 producer u64 | 16 sequence u64 | 24 expected_offset u64 (all ones: any) |
 *                     32 epoch u32 | 36 u32, bit 0: begins the epoch | 40 record batch ...
 *                     (version 1, which is read as well: 36 is 0; version 3: 40 digest of the message's id, 16 bytes
 *                     (dedup.h) | 56 record batch of one message)
 *   TRIM               4 kept_for u32, enum lq_retention, 0 in version 1 | 8 offset u64 (all ones: the end): drop every
 *                     message below it, but for what the groups that are there then need: of kept_for workqueue
 *                     pipeline groups, of interest any (version 2, written only then)
 *   CONFIG             4 partition u32 | 8 topic uuid, 16 bytes | 24 topic configuration (topic_config.h)
 *   FORGET             4 reserved u32, 0 | 8 index u64: forget producers whose last batch has this index or a lower one
 *   SKIP               4 epoch u32 | 8 producer u64 | 16 sequence u64 | 24 base_offset u64 | 32 term u64 |
 *                     40 timestamp_ms u64 | 48 count u32 | 52 u32, bit 0: begins the epoch. Messages of a producer that
 *                     are not stored, since others are there under their ids, at base_offset of then
 *   16 and above       consumer groups: cgroup_command.h
 *
 * Offset, stamp and message count of a batch are in the entry's header (storage/format.h). Other types are ECORRUPT,
 * other versions EVERSION: such a replica must stop, since others may know what to do with them.
 *
 * Called by partition.c and state.c, and by whoever reads the log for consumers. Pure functions. */
#ifndef LQ_NODE_QUEUE_COMMAND_H
#define LQ_NODE_QUEUE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "node/queue/cgroup_command.h"
#include "node/queue/topic_config.h"

/* A number is never used again. 21 is not used: what was to be INTENT comes about when a SETTLE is applied. */
enum lq_command_type {
    LQ_COMMAND_APPEND = 1,
    LQ_COMMAND_TRIM = 2,
    LQ_COMMAND_CONFIG = 3,
    LQ_COMMAND_FORGET = 4,
    LQ_COMMAND_SKIP = 5,
    LQ_COMMAND_GROUP_CREATE = 16,
    LQ_COMMAND_GROUP_DELETE = 17,
    LQ_COMMAND_GROUP_SEEK = 18,
    LQ_COMMAND_COMMIT = 19,
    LQ_COMMAND_SETTLE = 20,
    LQ_COMMAND_DONE = 22,
    LQ_COMMAND_GROUP_ALTER = 23,
    LQ_COMMAND_GROUP_DLQ = 24,
};

#define LQ_COMMAND_VERSION           1
#define LQ_COMMAND_APPEND_VERSION    2
#define LQ_COMMAND_APPEND_ID_VERSION 3 /* with a message id */
#define LQ_COMMAND_TRIM_KEPT_VERSION 2 /* kept_for groups */
#define LQ_COMMAND_APPEND_HEAD_BYTES 40
#define LQ_COMMAND_APPEND_HEAD_MOST  56  /* with a message id */
#define LQ_COMMAND_APPEND_BEGINS     1u  /* the bit at 36 */
#define LQ_COMMAND_BYTES_MAX         512 /* of every command but APPEND and SETTLE */

struct lq_command {
    enum lq_command_type type;
    union {
        struct {
            uint64_t producer_id, sequence, expected_offset;
            uint32_t epoch, batch_crc;
            bool begins_epoch;
            bool has_id;
            struct lq_id message_id; /* digest */
            const uint8_t *batch;    /* inside the payload */
            uint32_t batch_size;
        } append;
        struct {
            uint64_t offset;
            enum lq_retention kept_for;
        } trim;
        struct {
            struct lq_id topic;
            uint32_t partition;
            struct lq_topic_config config;
        } config;
        struct {
            uint64_t index;
        } forget;
        struct {
            uint64_t producer_id, sequence, base_offset, term, timestamp_ms;
            uint32_t epoch, count;
            bool begins_epoch;
        } skip;
        struct lq_cgroup_create group_create;
        struct lq_cgroup_delete group_delete;
        struct lq_cgroup_seek group_seek;
        struct lq_cgroup_alter group_alter;
        struct lq_cgroup_dlq group_dlq;
        struct lq_cgroup_commit commit;
        struct lq_cgroup_settle settle;
        struct lq_cgroup_done done;
    };
};

/* True for the commands of consumer groups. */
static inline bool lq_command_is_of_groups(enum lq_command_type type)
{
    return type >= LQ_COMMAND_GROUP_CREATE;
}

/* OK | ECORRUPT | EVERSION. Pointers of @command go into @payload. */
lightq_status lq_command_decode(const uint8_t *payload, uint32_t size, struct lq_command *command) LQ_MUST_CHECK;
/* Writes the whole command; of an APPEND the head without the batch. */
void lq_command_encode(const struct lq_command *command, struct lq_writer *writer);
/* The head of an APPEND, without a writer: what the way of a message uses. Gives its size. */
size_t lq_command_append_head(const struct lq_command *command, uint8_t head[LQ_COMMAND_APPEND_HEAD_MOST]);

#endif
