/* node/queue/topic_config.h - what can be set for a topic: one row each; the struct, the parser, the catalog's bytes
 * and `topic create --config` all come from the rows. Called by the catalog, partitions and node/admin.c. Pure
 * functions. */
#ifndef LQ_NODE_QUEUE_TOPIC_CONFIG_H
#define LQ_NODE_QUEUE_TOPIC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/conf.h"
#include "client/base/err.h"
#include "client/base/limits.h"

/* The columns of client/base/conf.h. Every member is a uint64_t; the order is that of the encoding: add at the end. */
#define LQ_TOPIC_OPTIONS(X)                                                                                         \
    X(SIZE, retention_bytes, "retention.bytes", 0, UINT64_MAX, "0", "bytes", true,                                  \
      "Messages are dropped from the start when more bytes than this are kept behind them; 0 keeps all.")           \
    X(DURATION, retention_ms, "retention.ms", 0, UINT64_MAX, "0", "ms", true,                                       \
      "Messages older than this are dropped; 0 keeps them for ever.")                                               \
    X(U64, retention_messages, "retention.messages", 0, UINT64_MAX, "0", "messages", true,                          \
      "At most about this many messages are kept; 0 keeps all.")                                                    \
    X(SIZE, max_message_bytes, "max.message.bytes", 1, LQ_MESSAGE_BYTES_MAX, "1m", "bytes", true,                   \
      "The largest message that is taken.")                                                                         \
    X(DURATION, dedup_window_ms, "dedup.window", 0, LQ_DEDUP_WINDOW_MS_MAX, "2m", "ms", true,                       \
      "A message whose id was stored in its partition within this time is not stored again; 0: ids are not looked " \
      "at.")                                                                                                        \
    X(ENUM, retention, "retention", 0, LQ_RETENTION_INTEREST, "limits", "limits|workqueue|interest", true,          \
      "What else is dropped: nothing; what every pipeline group has settled; what no group needs any more.")

/* The words of "retention", in their order. The limits above hold in each. */
enum lq_retention {
    LQ_RETENTION_LIMITS = 0,
    LQ_RETENTION_WORKQUEUE = 1, /* without a pipeline group all is kept */
    LQ_RETENTION_INTEREST = 2,  /* without any group nothing is kept */
};

struct lq_topic_config {
    LQ_TOPIC_OPTIONS(LQ_CONF_MEMBER)
};

/* For lq_conf_set, lq_conf_format and the printers. */
extern const struct lq_conf_table lq_topic_config_table;

/* The defaults. */
void lq_topic_config_init(struct lq_topic_config *config);
/* The bit of an option in a mask: which of the options are meant. 0: no such option. */
uint64_t lq_topic_config_bit(const char *name);
/* Takes those of @mask over from @from. True: something is another value now. */
bool lq_topic_config_merge(struct lq_topic_config *config, const struct lq_topic_config *from, uint64_t mask);
/* Whether every bit of @mask is an option's. */
bool lq_topic_config_knows(uint64_t mask);
/* u8 count of values, then each as u64 in the order of the rows. */
void lq_topic_config_encode(const struct lq_topic_config *config, struct lq_writer *writer);
/* Fewer values than rows: the rest are the defaults; more (a newer node's): EVERSION. Out of bounds or cut short:
 * ECORRUPT. */
lightq_status lq_topic_config_decode(struct lq_reader *reader, struct lq_topic_config *config) LQ_MUST_CHECK;

#endif
