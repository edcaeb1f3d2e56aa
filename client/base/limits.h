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
#define LQ_PEER_UNIDENTIFIED_MAX       64            /* accepted peer connections without a hello yet */
#define LQ_HELLO_BYTES_MAX             1024          /* the hello of a peer connection, a refusal's sentence included */
#define LQ_CONFIGURATION_BYTES_MAX     1536          /* an encoded Raft configuration; fits in a frame's head */
#define LQ_PEER_QUEUE_BYTES_MAX        (64u * 1024 * 1024) /* waiting for one peer; beyond it frames are dropped */
#define LQ_CHECKPOINT_BYTES_MAX        (256u * 1024 * 1024)
#define LQ_CHECKPOINT_PIECE_BYTES      (1024u * 1024)
#define LQ_RECEIVING_BYTES_MAX         (2ull * LQ_CHECKPOINT_BYTES_MAX) /* of checkpoints being received by a shard */
#define LQ_INSTALL_TIMEOUT_MS          5000 /* without a piece or an answer, a checkpoint is begun again */
#define LQ_INSTALL_RETRY_MS            1000 /* after its last piece it is not sent again for so long */
#define LQ_FEED_PAUSE_BYTES            (8u * 1024 * 1024) /* waiting for a peer; above it catching up pauses */
#define LQ_FEED_READ_BYTES             (1024u * 1024)     /* read from disk at once to feed a follower */
#define LQ_INFLIGHT_ENTRIES_MIN        16                 /* unacknowledged entries to one follower */
#define LQ_INFLIGHT_ENTRIES_START      1024
#define LQ_INFLIGHT_ENTRIES_MAX        16384
#define LQ_GROUP_HELD_MESSAGES_MAX     256 /* of one group, behind a vote that is not durable yet */
#define LQ_PROMOTE_LAG_ENTRIES         128 /* a standby this near to the end may become a voter */
#define LQ_PEER_LOST_REJECTIONS        5   /* in a row below its match: that replica lost data */
#define LQ_FAILOVER_TRIES_MAX          10  /* early elections after a leader's process is gone */
#define LQ_FAILOVER_SPLITS_MAX         3   /* of them after a split vote */
#define LQ_TRANSFER_TRIES_MAX          3
#define LQ_CLIENT_BODY_BYTES_MAX       (1024u * 1024) /* the protobuf body of one client frame */
#define LQ_INFLIGHT_BATCHES_MAX        5              /* per producer and partition */
#define LQ_PRODUCERS_MAX               65536          /* remembered per partition */
#define LQ_DEDUP_IDS_MAX               131072         /* message ids remembered per partition */
#define LQ_MESSAGE_ID_BYTES_MAX        255
#define LQ_DEDUP_WINDOW_MS_MAX         86400000 /* of dedup.window: a day */
#define LQ_PRODUCER_BATCHES_KEPT       5        /* whose offsets are known to a retry, per producer and partition */
#define LQ_PARTITION_WAITING_MAX       8192     /* produce requests of one partition that wait for an answer */
#define LQ_PARTITION_WAITING_BYTES_MAX (64u * 1024 * 1024) /* batches of one partition that wait to be proposed */
#define LQ_PARTITION_MARKS_MAX         256                 /* retention marks of one partition */
#define LQ_CGROUPS_MAX                 1024                /* consumer groups of one partition */
#define LQ_CGROUP_UNSETTLED_DEFAULT    100000              /* max.unsettled */
#define LQ_CGROUP_UNSETTLED_MAX        (1024u * 1024)      /* the most it can be set to; holes of one group */
#define LQ_PARTITION_UNSETTLED_MAX     (4u * 1024 * 1024)  /* holes of all groups of one partition */
#define LQ_CGROUP_BACKOFF_MAX          16                  /* delays in a group's backoff list */
#define LQ_CGROUP_DELAY_MS_MAX         2592000000u         /* of a nack or a backoff: 30 days */
#define LQ_CGROUP_ACK_WAIT_MS_DEFAULT  30000               /* ack.wait */
#define LQ_CGROUP_ACK_WAIT_MS_MAX      86400000u           /* a day */
#define LQ_CGROUP_MAX_DELIVER_DEFAULT  5                   /* max.deliver */
#define LQ_CGROUP_SEEK_LETTERS_MAX     65536               /* with more dead letters open a group cannot be moved */
#define LQ_CGROUP_CONSUMERS_MAX        65536               /* of one group in one partition */
#define LQ_CGROUP_REQUESTS_MAX         8192                /* changes and settles of one partition that wait */
#define LQ_DELIVER_GRANTS_MAX          1024                /* in one DELIVER; more make more DELIVERs */
#define LQ_SETTLE_ITEMS_MAX            4096                /* in one SETTLE of a client */
#define LQ_SETTLE_MESSAGES_MAX         (4u * 1024 * 1024)  /* in all items of one */
#define LQ_SETTLE_RANGE_MAX            (1024u * 1024)      /* messages in one range of a settle */
#define LQ_SETTLE_QUEUED_MAX           (1024u * 1024)      /* results of one partition that wait in a client */
#define LQ_SETTLE_BYTES_MIN            64                  /* a SETTLE command with one result */
#define LQ_SETTLE_BYTES_MAX            (64u * 1024)        /* one SETTLE command; more results make more commands */
#define LQ_SHARDS_MAX                  16                  /* event loops of one node */
#define LQ_MAIL_WAITING_MAX            1024                /* asked of one shard by the others and not looked at yet */
#define LQ_FOUNDERS_MAX                15                  /* nodes that make a cluster together */
#define LQ_META_VOTERS_MAX             5                   /* of the meta group; every other node is a standby */
#define LQ_TOPICS_MAX                  65536               /* in one catalog */
#define LQ_CLUSTER_PARTITIONS_MAX      (1024u * 1024)      /* of all topics of one catalog */
#define LQ_META_REQUESTS_MAX           1024                /* changes of the cluster waiting on one node */
#define LQ_INSPECT_GROUPS_MAX          4096                /* whose replicas are looked at by one request */
#define LQ_NODE_FRAME_BYTES_MAX        LQ_PEER_FRAME_BYTES_MAX /* of one frame between the node layers */
#define LQ_SESSIONS_MAX                65536
#define LQ_SUBSCRIPTIONS_MAX           65536 /* of one node */
#define LQ_LOG_LINE_BYTES_MAX          4096  /* a longer log line is cut */
#define LQ_CONF_TEXT_BYTES_MAX         4096  /* the text of one option's value */

#endif
