/* client/wire/frame.h - the envelope of the client protocol, and the types of messages.
 *
 * A message between a client and a node is one or two ZMQ frames: [envelope, then protobuf body] [payload]. The payload
 * frame is there exactly when the flag PAYLOAD is set; it is a record batch (batch.h). Little endian:
 *
 *      0  magic          u16   "LQ": 0x4c 0x51
 *      2  version        u8    1: of this envelope
 *      3  header_length  u8    32; a newer peer may send more (up to 255), which is skipped
 *      4  type           u16   enum lq_message_type; an answer is its request + 1
 *      6  flags          u16   bit 0 PAYLOAD; others are sent as 0 and not looked at
 *      8  correlation    u64   chosen by who asks, repeated in the answer; 0 in what is pushed
 *     16  group          u64   Raft group id of the partition it is about; 0 when none
 *     24  body_length    u32   bytes of the body; the frame is header_length + body_length bytes, exactly
 *     28  crc            u32   CRC32C of bytes 0..27 and of everything from byte 32 to the end of the frame
 *     32  (more header when header_length > 32), then the body
 *
 * Called by node/front.c and session.c, client/lib and the gateways. Pure functions; any thread. The protocol's rules
 * are in docs/protocol.md. */
#ifndef LQ_WIRE_FRAME_H
#define LQ_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/limits.h"

#define LQ_ENVELOPE_BYTES        32
#define LQ_ENVELOPE_BYTES_MAX    255
#define LQ_ENVELOPE_MAGIC        0x514cu /* "LQ" read as little endian */
#define LQ_ENVELOPE_VERSION      1
#define LQ_ENVELOPE_FLAG_PAYLOAD 0x0001u

/* Versions of the protocol, negotiated by HELLO (the envelope's own version is another number). */
#define LQ_PROTOCOL_VERSION_MIN 1
#define LQ_PROTOCOL_VERSION_MAX 1

/* X(NAME, number, name, Message of lightq.proto, most elements): every type. "Elements" bounds what all repeated
 * fields of one body hold together (codec.c). Requests are even, their answers the next odd number; what is pushed or
 * not answered is even and leaves the odd number free. A number is never used again.
 *
 * Reserved, not yet spoken:  46, 48, 52..62 more of consumer groups    72 TOPIC_CONFIG  74 TOPIC_PURGE
 *     76 TOPIC_GROW  78 USER_*..94    102 NODE_LIST  104 NODE_ADD  106 NODE_DRAIN  108 NODE_UNDRAIN
 *     110 NODE_DECOMMISSION  112 NODE_REMOVE  114 CONFIG_GET  116 CONFIG_SET  118..126 more of the cluster */
#define LQ_MESSAGE_TABLE(X)                                                                                        \
    X(HELLO, 2, hello, Hello, 64)                                                                                  \
    X(HELLO_ANSWER, 3, hello_answer, HelloAnswer, 64)                                                              \
    X(BYE, 4, bye, Bye, 0)                   /* both ways; not answered */                                         \
    X(HEARTBEAT, 6, heartbeat, Heartbeat, 0) /* both ways */                                                       \
    X(HEARTBEAT_ANSWER, 7, heartbeat_answer, HeartbeatAnswer, 0)                                                   \
    X(ERROR, 8, error, Error, 0) /* instead of any answer, or pushed when no request can be named */               \
    X(METADATA, 16, metadata, Metadata, 4096)                                                                      \
    X(METADATA_ANSWER, 17, metadata_answer, MetadataAnswer, 262144)                                                \
    X(PRODUCE, 18, produce, Produce, 0) /* payload: a record batch */                                              \
    X(PRODUCE_ANSWER, 19, produce_answer, ProduceAnswer, 0)                                                        \
    X(SUBSCRIBE, 20, subscribe, Subscribe, 0)                                                                      \
    X(SUBSCRIBE_ANSWER, 21, subscribe_answer, SubscribeAnswer, 64)                                                 \
    X(UNSUBSCRIBE, 22, unsubscribe, Unsubscribe, 0)                                                                \
    X(UNSUBSCRIBE_ANSWER, 23, unsubscribe_answer, UnsubscribeAnswer, 0)                                            \
    X(CREDIT, 24, credit, Credit, 0)                                    /* not answered */                         \
    X(DELIVER, 26, deliver, Deliver, LQ_DELIVER_GRANTS_MAX)             /* pushed; payload: the batch as stored */ \
    X(SUBSCRIPTION_ENDED, 28, subscription_ended, SubscriptionEnded, 0) /* pushed */                               \
    X(OFFSETS, 30, offsets, Offsets, 0)                                                                            \
    X(OFFSETS_ANSWER, 31, offsets_answer, OffsetsAnswer, 0)                                                        \
    X(SETTLE, 32, settle, Settle, LQ_SETTLE_ITEMS_MAX)                                                             \
    X(SETTLE_ANSWER, 33, settle_answer, SettleAnswer, 0)                                                           \
    X(COMMIT, 34, commit, Commit, 0)                                                                               \
    X(COMMIT_ANSWER, 35, commit_answer, CommitAnswer, 0)                                                           \
    X(GROUP_CREATE, 36, group_create, GroupCreate, 64)                                                             \
    X(GROUP_CREATE_ANSWER, 37, group_create_answer, GroupCreateAnswer, 64)                                         \
    X(GROUP_LIST, 38, group_list, GroupList, 0)                                                                    \
    X(GROUP_LIST_ANSWER, 39, group_list_answer, GroupListAnswer, 1024)                                             \
    X(GROUP_DESCRIBE, 40, group_describe, GroupDescribe, 0)                                                        \
    X(GROUP_DESCRIBE_ANSWER, 41, group_describe_answer, GroupDescribeAnswer, 2048)                                 \
    X(GROUP_DELETE, 42, group_delete, GroupDelete, 0)                                                              \
    X(GROUP_DELETE_ANSWER, 43, group_delete_answer, GroupDeleteAnswer, 0)                                          \
    X(GROUP_SEEK, 44, group_seek, GroupSeek, 0)                                                                    \
    X(GROUP_SEEK_ANSWER, 45, group_seek_answer, GroupSeekAnswer, 0)                                                \
    X(GROUP_ALTER, 50, group_alter, GroupAlter, 64)                                                                \
    X(GROUP_ALTER_ANSWER, 51, group_alter_answer, GroupAlterAnswer, 64)                                            \
    X(TOPIC_CREATE, 64, topic_create, TopicCreate, 256)                                                            \
    X(TOPIC_CREATE_ANSWER, 65, topic_create_answer, TopicCreateAnswer, 0)                                          \
    X(TOPIC_LIST, 66, topic_list, TopicList, 0)                                                                    \
    X(TOPIC_LIST_ANSWER, 67, topic_list_answer, TopicListAnswer, 65536)                                            \
    X(TOPIC_DESCRIBE, 68, topic_describe, TopicDescribe, 0)                                                        \
    X(TOPIC_DESCRIBE_ANSWER, 69, topic_describe_answer, TopicDescribeAnswer, 65536)                                \
    X(TOPIC_DELETE, 70, topic_delete, TopicDelete, 0)                                                              \
    X(TOPIC_DELETE_ANSWER, 71, topic_delete_answer, TopicDeleteAnswer, 0)                                          \
    X(TOPIC_ALTER, 72, topic_alter, TopicAlter, 256)                                                               \
    X(TOPIC_ALTER_ANSWER, 73, topic_alter_answer, TopicAlterAnswer, 0)                                             \
    X(CLUSTER_STATUS, 96, cluster_status, ClusterStatus, 0)                                                        \
    X(CLUSTER_STATUS_ANSWER, 97, cluster_status_answer, ClusterStatusAnswer, 131072)                               \
    X(NODE_REPLACE, 98, node_replace, NodeReplace, 0)                                                              \
    X(NODE_REPLACE_ANSWER, 99, node_replace_answer, NodeReplaceAnswer, 0)                                          \
    X(PARTITION_TRANSFER, 100, partition_transfer, PartitionTransfer, 0)                                           \
    X(PARTITION_TRANSFER_ANSWER, 101, partition_transfer_answer, PartitionTransferAnswer, 0)                       \
    X(PARTITION_PURGE, 102, partition_purge, PartitionPurge, 0)                                                    \
    X(PARTITION_PURGE_ANSWER, 103, partition_purge_answer, PartitionPurgeAnswer, 0)                                \
    X(STATS, 128, stats, Stats, 0)                                                                                 \
    X(STATS_ANSWER, 129, stats_answer, StatsAnswer, 65536)

enum lq_message_type {
#define X(name, number, lower, message, elements) LQ_MESSAGE_##name = (number),
    LQ_MESSAGE_TABLE(X)
#undef X
};

struct lq_envelope {
    uint16_t type;  /* enum lq_message_type, or a number of a newer peer: answer those with ERROR, EUNSUPPORTED */
    uint16_t flags; /* LQ_ENVELOPE_FLAG_* */
    uint64_t correlation;
    uint64_t group;
    uint32_t body_size;
    uint8_t header_size; /* where the body begins; set by decode, encode always writes LQ_ENVELOPE_BYTES */
};

/* Writes the envelope of @body (envelope->body_size bytes; NULL when that is 0) to @at, which has LQ_ENVELOPE_BYTES.
 * @body usually lies right behind it; it is only read, for the crc. */
void lq_frame_encode(uint8_t at[LQ_ENVELOPE_BYTES], const struct lq_envelope *envelope, const void *body);

/* Decodes ZMQ frame 0 of @size bytes. OK: *body (borrowed) points at envelope->body_size bytes inside it. @err may be
 * NULL. EPROTO: shorter than an envelope, wrong magic, lengths that do not meet, or a wrong crc. EVERSION: an envelope
 * of another version. ETOOBIG: a body above LQ_CLIENT_BODY_BYTES_MAX. */
lightq_status lq_frame_decode(const void *bytes, size_t size, struct lq_envelope *envelope, const uint8_t **body,
                              struct lq_err *err) LQ_MUST_CHECK;

/* "PRODUCE_ANSWER"; "UNKNOWN" for a number that is not in the table. Static memory. */
const char *lq_message_name(uint16_t type);
/* Whether @type is an answer in the table (ERROR too). */
bool lq_message_is_answer(uint16_t type);

#endif
