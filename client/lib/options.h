/* client/lib/options.h - the settings of a client: one row each, from which the struct, the parser, --help-conf and
 * the manual come. Called by conf.c (the public face) and by everything in client/lib that reads a setting. Any
 * thread; a client's copy never changes after lightq_new. */
#ifndef LQ_LIB_OPTIONS_H
#define LQ_LIB_OPTIONS_H

#include <lightq/conf.h>

#include "client/base/conf.h"
#include "client/base/limits.h"

/* clang-format off */
/* X(kind, member, name, least, most, default, unit, reloadable, sentence) */
#define LQ_CLIENT_OPTIONS(X)                                                                                           \
    X(STRING, bootstrap_servers, "bootstrap.servers", 1, 8192, "127.0.0.1:5600", "host:port,...", false,               \
      "Servers to ask first. Any of a cluster will do; the others are learned from them.")                            \
    X(STRING, client_id, "client.id", 1, LQ_NAME_BYTES_MAX, "lightq-client", "text", false,                           \
      "A name for the servers' logs.")                                                                                 \
    X(STRING, username, "username", 1, LQ_NAME_BYTES_MAX, NULL, "text", false, "Who we are, when the cluster asks.")   \
    X(STRING, password, "password", 1, LQ_NAME_BYTES_MAX, NULL, "text", false, "The password of that user.")           \
    X(DURATION, linger_ms, "linger.ms", 0, 60000, "1ms", "milliseconds", false,                                        \
      "How long a batch that is not full waits for more messages while others of its partition are under way. With "   \
      "none under way it is sent at once.")                                                                            \
    X(SIZE, batch_bytes, "batch.bytes", 1024, 16u * 1024 * 1024, "256k", "bytes", false,                               \
      "A batch of this size is sent.")                                                                                 \
    X(U64, window_messages, "window.messages", 1, 100000000, "100000", "messages", false,                              \
      "Messages that may wait for their report; beyond it sending says EBUSY. A batch that holds a quarter of it is "  \
      "sent.")                                                                                                         \
    X(SIZE, buffer_bytes, "buffer.bytes", 65536, UINT64_C(1) << 40, "64m", "bytes", false,                             \
      "Bytes of messages that may wait for their report; beyond it sending says EBUSY.")                              \
    X(U64, inflight_max, "inflight.max", 1, LQ_INFLIGHT_BATCHES_MAX, "5", "batches", false,                            \
      "Batches of one partition that may be under way.")                                                               \
    X(SIZE, message_bytes_max, "message.bytes.max", 1, LQ_MESSAGE_BYTES_MAX, "1m", "bytes", false,                     \
      "The largest message that is taken for sending. The cluster has its own limit, max.message.bytes.")             \
    X(ENUM, compression, "compression", 0, 2, "none", "none|lz4|zstd", false, "How batches are compressed.")           \
    X(DURATION, request_timeout_ms, "request.timeout.ms", 10, 3600000, "10s", "milliseconds", false,                   \
      "How long an answer of a server is waited for.")                                                                 \
    X(DURATION, delivery_timeout_ms, "delivery.timeout.ms", 10, 86400000, "120s", "milliseconds", false,               \
      "How long a message may wait for its outcome, attempts included. After it the report is ETIMEDOUT.")            \
    X(DURATION, retry_backoff_ms, "retry.backoff.ms", 1, 60000, "20ms", "milliseconds", false,                         \
      "The wait before a second attempt; it doubles up to retry.backoff.max.ms.")                                      \
    X(DURATION, retry_backoff_max_ms, "retry.backoff.max.ms", 1, 60000, "1s", "milliseconds", false,                   \
      "The longest wait between attempts.")                                                                            \
    X(DURATION, reconnect_backoff_ms, "reconnect.backoff.ms", 1, 60000, "20ms", "milliseconds", false,                 \
      "The wait before a lost connection is made again; it doubles up to reconnect.backoff.max.ms.")                   \
    X(DURATION, reconnect_backoff_max_ms, "reconnect.backoff.max.ms", 1, 60000, "1s", "milliseconds", false,           \
      "The longest wait between attempts to connect.")                                                                 \
    X(DURATION, heartbeat_interval_ms, "heartbeat.interval.ms", 10, 60000, "500ms", "milliseconds", false,             \
      "A server that has been silent for this long is asked for a sign of life, and others for a newer leader.")       \
    X(DURATION, heartbeat_timeout_ms, "heartbeat.timeout.ms", 20, 600000, "5s", "milliseconds", false,                 \
      "A connection that has been silent for this long is given up and made again.")                                   \
    X(DURATION, metadata_max_age_ms, "metadata.max.age.ms", 100, 86400000, "60s", "milliseconds", false,               \
      "What is known of topics and leaders is asked for again after this long.")                                       \
    X(BOOL, idempotence, "enable.idempotence", 0, 1, "true", "true|false", false,                                      \
      "Number the messages, so that one that is sent again is stored once. Without it inflight.max is 1, and a "       \
      "message may be stored twice.")                                                                                  \
    X(ENUM, partitioner, "partitioner", 0, 2, "sticky", "sticky|random|round-robin", false,                            \
      "Where messages without key and partition go: to one partition until a batch is full, to any, or to each in "    \
      "turn. With a key it is always XXH64(key, seed 0) modulo the number of partitions.")                             \
    X(U64, fetch_messages, "fetch.messages", 1, 100000000, "200000", "messages", false,                                \
      "Messages that a consumer has fetched and not yet given to the application.")                                    \
    X(SIZE, fetch_bytes, "fetch.bytes", 1, UINT64_C(1) << 40, "16m", "bytes", false,                                   \
      "Bytes that a consumer has fetched and not yet given to the application. At least one message always comes.")    \
    X(STRING, group_id, "group.id", 1, LQ_NAME_BYTES_MAX, NULL, "text", false,                                         \
      "The consumer group that lightq_consumer_join joins when it is not told another one.")                           \
    X(ENUM, group_mode, "group.mode", 0, 2, "any", "any|subscriber|pipeline", false,                                   \
      "What a group must be to be joined.")                                                                            \
    X(BOOL, auto_commit, "enable.auto.commit", 0, 1, "true", "true|false", false,                                      \
      "Commit the position of a subscriber group behind what was given before the last poll.")                         \
    X(DURATION, auto_commit_interval_ms, "auto.commit.interval.ms", 1, 86400000, "5s", "milliseconds", false,          \
      "How often that is done; and when the consumer is closed.")                                                      \
    X(BOOL, auto_ack, "enable.auto.ack", 0, 1, "false", "true|false", false,                                           \
      "Ack a message of a pipeline group when the next one is polled for, and when the consumer is closed.")           \
    X(U64, prefetch_messages, "prefetch.messages", 1, LQ_CGROUP_UNSETTLED_MAX, "1000", "messages", false,              \
      "Messages of pipeline groups that a consumer holds and has not yet given to the application: the fewer, the "    \
      "evener they are spread over consumers.")                                                                        \
    X(DURATION, max_poll_interval_ms, "max.poll.interval.ms", 10, 86400000, "5m", "milliseconds", false,               \
      "Leases of messages that wait for the application are extended, as long as it has polled within this time.")
/* clang-format on */

enum lq_compression { LQ_COMPRESSION_NONE, LQ_COMPRESSION_LZ4, LQ_COMPRESSION_ZSTD };
enum lq_group_mode_wanted { LQ_GROUP_MODE_ANY, LQ_GROUP_MODE_SUBSCRIBER, LQ_GROUP_MODE_PIPELINE };
enum lq_partitioner { LQ_PARTITIONER_STICKY, LQ_PARTITIONER_RANDOM, LQ_PARTITIONER_ROUND_ROBIN };

struct lq_client_options {
    LQ_CLIENT_OPTIONS(LQ_CONF_MEMBER)
};

struct lightq_conf {
    struct lq_client_options options;
};

/* The rows, for printing and parsing. */
const struct lq_conf_table *lq_client_options_table(void);

/* A copy of @from in @to (any content). OK: undo with lq_conf_deinit. ENOMEM: nothing to undo. */
lightq_status lq_client_options_copy(struct lq_client_options *to, const struct lq_client_options *from) LQ_MUST_CHECK;

/* Whether the settings go together. OK | EINVAL (@err says which two do not). */
lightq_status lq_client_options_check(const struct lq_client_options *options, struct lq_err *err) LQ_MUST_CHECK;

#endif
