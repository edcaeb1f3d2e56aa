/* node/queue/cgroup_command.h - the commands of consumer groups: what follows the first four bytes (command.h). Little
 * endian. A group is named by its number, which is the index of the entry that made it, so what was meant for one that
 * is gone never hits another of the same name.
 *
 *   GROUP_CREATE  4 reserved u32, 0 | 8 id, 16 bytes | 24 start | options | name size u8, name
 *   GROUP_DELETE  4 reserved u32, 0 | 8 group u64
 *   GROUP_SEEK    4 reserved u32, 0 | 8 group u64 | 16 start
 *   GROUP_ALTER   4 mask u32        | 8 group u64 | 16 options: those named by the mask become the group's
 *   COMMIT        4 reserved u32, 0 | 8 group u64 | 16 generation u64 | 24 offset u64: of the next message to read
 *   SETTLE        4 reserved u32, 0 | 8 group u64 | 16 generation u64 | 24 ranges u32 | 28 failures u32 |
 *                 ranges times: offset varint (of the first the offset, then the distance to the end of the range
 *                 before), count varint (1 to LQ_SETTLE_RANGE_MAX): settled |
 *                 failures times: offset varint (of the first the offset, then the distance to the one before, at
 *                 least 1), reason u8, delivery varint (which delivery failed, from 1), delay varint (0: as the
 *                 group's backoff says, else one more than the milliseconds)
 *   DONE          4 reserved u32, 0 | 8 group u64 | 16 number u64: dead letters below it are in their topic
 *   GROUP_DLQ     4 epoch u32       | 8 group u64 | 16 topic, 16 bytes: dead letters go there, as this epoch
 *
 *   start:    kind u8 | 7 reserved bytes, 0 | offset u64 | time_ms u64
 *   options:  mode u8 | flags u8 (1 exclusive, 2 key ordered, 4 paused) | backoff count u16 | ack_wait_ms u32 |
 *             max_deliver u32 | max_unsettled u32 | backoff count times u32
 *
 * Called by command.c, cgroups.c and the lease files. Pure functions. */
#ifndef LQ_NODE_QUEUE_CGROUP_COMMAND_H
#define LQ_NODE_QUEUE_CGROUP_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/limits.h"

enum lq_cgroup_mode {
    LQ_CGROUP_SUBSCRIBER = 1, /* each consumer of it reads everything; one position */
    LQ_CGROUP_PIPELINE = 2,   /* a message goes to one consumer, under a lease, and is settled */
};

/* What can be set for a group. lq_cgroup_options_init gives the defaults. */
struct lq_cgroup_options {
    uint8_t mode;     /* enum lq_cgroup_mode; cannot be altered */
    bool exclusive;   /* one consumer is active, the others stand by; not together with key_ordered */
    bool key_ordered; /* pipeline only: messages of a key go to one consumer at a time, in order; cannot be altered */
    bool paused;      /* nothing is delivered; settling goes on */
    uint32_t ack_wait_ms;   /* a lease's length; 1 to LQ_CGROUP_ACK_WAIT_MS_MAX */
    uint32_t max_deliver;   /* deliveries that may fail before it is a dead letter; 0: no bound */
    uint32_t max_unsettled; /* delivered and not settled, above it delivery waits; 1 to LQ_CGROUP_UNSETTLED_MAX */
    uint32_t backoff_count; /* of the list; 0: redelivered at once */
    uint32_t
        backoff_ms[LQ_CGROUP_BACKOFF_MAX]; /* the delay after the 1st, 2nd, ... failure; the last one from then on */
};
void lq_cgroup_options_init(struct lq_cgroup_options *options, enum lq_cgroup_mode mode);
/* OK | EINVAL (out of range, or two that exclude each other). */
lightq_status lq_cgroup_options_check(const struct lq_cgroup_options *options) LQ_MUST_CHECK;

/* Which options a GROUP_ALTER names. */
enum {
    LQ_CGROUP_ALTER_PAUSED = 1,
    LQ_CGROUP_ALTER_ACK_WAIT = 2,
    LQ_CGROUP_ALTER_MAX_DELIVER = 4,
    LQ_CGROUP_ALTER_MAX_UNSETTLED = 8,
    LQ_CGROUP_ALTER_BACKOFF = 16,
    LQ_CGROUP_ALTER_EXCLUSIVE = 32,
    LQ_CGROUP_ALTER_ALL = 63,
};

/* Where a group begins. It is resolved when the command is applied, against what is there then. */
enum lq_cgroup_start_kind {
    LQ_CGROUP_START = 1,  /* the first message there is */
    LQ_CGROUP_END = 2,    /* behind the last one */
    LQ_CGROUP_OFFSET = 3, /* that offset: EOUTOFRANGE when it is below the first message or beyond the end */
    LQ_CGROUP_TIME = 4,   /* time_ms, which the leader found to be at that offset; when that has been trimmed since, the
                             first message there is */
};
struct lq_cgroup_start {
    uint8_t kind;     /* enum lq_cgroup_start_kind */
    uint64_t offset;  /* of OFFSET and TIME; else 0 */
    uint64_t time_ms; /* of TIME: what was asked for; else 0 */
};

/* The bodies. Pointers go into the bytes that were decoded. */
struct lq_cgroup_create {
    struct lq_id id; /* made up by who asks: the same one again is a retry, and is answered as the first */
    struct lq_cgroup_start start;
    struct lq_cgroup_options options;
    const char *name; /* not ended by 0 */
    uint8_t name_size;
};
struct lq_cgroup_delete {
    uint64_t group;
};
struct lq_cgroup_seek {
    uint64_t group;
    struct lq_cgroup_start start;
};
struct lq_cgroup_alter {
    uint64_t group;
    uint32_t mask; /* LQ_CGROUP_ALTER_ */
    struct lq_cgroup_options options;
};
struct lq_cgroup_commit {
    uint64_t group, generation, offset;
};
struct lq_cgroup_settle {
    uint64_t group, generation;
    uint32_t range_count, failure_count;
    const uint8_t *bytes; /* of the ranges and failures, checked: read with lq_settle_reader_of */
    uint32_t size;
};
struct lq_cgroup_done {
    uint64_t group, number;
};
struct lq_cgroup_dlq {
    uint64_t group;
    uint32_t epoch;
    struct lq_id topic;
};

/* What a SETTLE says of one message that failed. */
#define LQ_SETTLE_DELAY_DEFAULT UINT32_MAX /* as the group's backoff says */
struct lq_settle_failure {
    uint64_t offset;
    uint32_t delivery; /* which one failed: applied only when it is one more than those that have failed already */
    uint32_t delay_ms; /* up to LQ_CGROUP_DELAY_MS_MAX, or LQ_SETTLE_DELAY_DEFAULT */
    uint8_t reason;    /* enum lq_failure_reason */
};
struct lq_settle_range {
    uint64_t first, count;
};

/* Reads a checked SETTLE: first all ranges, then all failures. */
struct lq_settle_reader {
    struct lq_reader reader;
    uint32_t ranges_left, failures_left;
    uint64_t at;
};
struct lq_settle_reader lq_settle_reader_of(const struct lq_cgroup_settle *settle);
bool lq_settle_next_range(struct lq_settle_reader *reader, struct lq_settle_range *range); /* false: no more */
/* Only after the last range. */
bool lq_settle_next_failure(struct lq_settle_reader *reader, struct lq_settle_failure *failure);

/* Writes ranges and failures as the body has them; both ascending and without overlap. */
void lq_settle_write(const struct lq_settle_range *ranges, uint32_t range_count,
                     const struct lq_settle_failure *failures, uint32_t failure_count, struct lq_writer *writer);
#define LQ_SETTLE_RANGE_BYTES_MAX   13 /* of one in the body */
#define LQ_SETTLE_FAILURE_BYTES_MAX 21

struct lq_command; /* command.h, which includes this */
/* The body of @command, whose type is one of a group: from byte 4 on. OK | ECORRUPT. Nothing may follow it. */
lightq_status lq_cgroup_command_decode(struct lq_reader *reader, struct lq_command *command) LQ_MUST_CHECK;
void lq_cgroup_command_encode(const struct lq_command *command, struct lq_writer *writer);

/* Options and start as in the commands; also in the checkpoint. OK | ECORRUPT. */
void lq_cgroup_options_encode(const struct lq_cgroup_options *options, struct lq_writer *writer);
lightq_status lq_cgroup_options_decode(struct lq_reader *reader, struct lq_cgroup_options *options) LQ_MUST_CHECK;
void lq_cgroup_start_encode(const struct lq_cgroup_start *start, struct lq_writer *writer);
lightq_status lq_cgroup_start_decode(struct lq_reader *reader, struct lq_cgroup_start *start) LQ_MUST_CHECK;

#endif
