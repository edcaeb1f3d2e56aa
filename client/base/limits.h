/* client/base/limits.h - the bound of every queue, buffer, count and size that bytes from outside can make grow.
 * What an operator may change is in the option tables; these are the hard limits behind them. */
#ifndef LQ_BASE_LIMITS_H
#define LQ_BASE_LIMITS_H

#define LQ_NAME_BYTES_MAX              249                 /* a topic's name */
#define LQ_HOST_BYTES_MAX              255                 /* a host name or address in text */
#define LQ_NODES_MAX                   65535               /* node ids are 1 to this */
#define LQ_PARTITIONS_MAX              65536               /* of one topic */
#define LQ_REPLICAS_MAX                5                   /* of one partition */
#define LQ_SEEDS_MAX                   16                  /* addresses a node is given to find its cluster */
#define LQ_SERVERS_MAX                 16                  /* in one Raft configuration, standbys included */
#define LQ_MESSAGE_BYTES_DEFAULT       (1024u * 1024)      /* max.message.bytes */
#define LQ_MESSAGE_BYTES_MAX           (64u * 1024 * 1024) /* the most it can be set to */
#define LQ_BATCH_BYTES_DEFAULT         (256u * 1024)       /* batch.bytes of the producer */
#define LQ_BATCH_OVERHEAD_BYTES        (64u * 1024)        /* batch header and record heads beside the messages */
#define LQ_BATCH_RECORDS_MAX           65536               /* records in one batch */
#define LQ_HEADERS_MAX                 256                 /* headers of one record */
#define LQ_ENTRY_BYTES_MAX             (LQ_MESSAGE_BYTES_MAX + LQ_BATCH_OVERHEAD_BYTES)
#define LQ_PEER_FRAME_BYTES_MAX        (LQ_ENTRY_BYTES_MAX + 64u * 1024)
#define LQ_PEER_FRAME_BYTES_SOFT       (256u * 1024) /* one AppendEntries frame, unless one entry alone is larger */
#define LQ_PEER_ENTRIES_MAX            16384         /* in one AppendEntries frame */
#define LQ_PEER_HEARTBEATS_MAX         4096          /* heartbeats and answers in one frame */
#define LQ_CONFIGURATION_BYTES_MAX     1536          /* an encoded Raft configuration; fits in a frame's head */
#define LQ_PEER_QUEUE_BYTES_MAX        (64u * 1024 * 1024) /* waiting for one peer; beyond it frames are dropped */
#define LQ_CHECKPOINT_BYTES_MAX        (256u * 1024 * 1024)
#define LQ_CHECKPOINT_PIECE_BYTES      (1024u * 1024)
#define LQ_CLIENT_BODY_BYTES_MAX       (1024u * 1024) /* the protobuf body of one client frame */
#define LQ_INFLIGHT_BATCHES_MAX        5              /* per producer and partition */
#define LQ_PRODUCERS_MAX               65536          /* remembered per partition */
#define LQ_PRODUCER_BATCHES_KEPT       5    /* whose offsets are known to a retry, per producer and partition */
#define LQ_PARTITION_WAITING_MAX       8192 /* produce requests of one partition that wait for an answer */
#define LQ_PARTITION_WAITING_BYTES_MAX (64u * 1024 * 1024) /* batches of one partition that wait to be proposed */
#define LQ_PARTITION_MARKS_MAX         256                 /* retention marks of one partition */
#define LQ_FOUNDERS_MAX                15                  /* nodes that make a cluster together */
#define LQ_META_VOTERS_MAX             5                   /* of the meta group; every other node is a standby */
#define LQ_TOPICS_MAX                  65536               /* in one catalog */
#define LQ_CLUSTER_PARTITIONS_MAX      (1024u * 1024)      /* of all topics of one catalog */
#define LQ_META_REQUESTS_MAX           1024                /* changes of the cluster waiting on one node */
#define LQ_INSPECT_GROUPS_MAX          4096                /* whose replicas are looked at by one request */
#define LQ_NODE_FRAME_BYTES_MAX        (1024u * 1024)      /* of one frame between the node layers */
#define LQ_SESSIONS_MAX                65536
#define LQ_SUBSCRIPTIONS_MAX           65536 /* of one node */
#define LQ_LOG_LINE_BYTES_MAX          4096  /* a longer log line is cut */
#define LQ_CONF_TEXT_BYTES_MAX         4096  /* the text of one option's value */

#endif
