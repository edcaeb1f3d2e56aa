/* node/pipeline_internal.h - what pipeline.c (feeds, subscriptions, their ends), pipeline_deliver.c (finding and
 * sending) and settle.c (results) share. Nobody else includes it. */
#ifndef LQ_NODE_PIPELINE_INTERNAL_H
#define LQ_NODE_PIPELINE_INTERNAL_H

#include "node/cursor.h"
#include "node/pipeline.h"
#include "node/queue/table.h"

/* Goes through the batches of a partition. */
struct lq_reader_place {
    struct lq_cursor cursor;
    bool placed;
    uint64_t at;     /* the batches it comes to begin here or later, about */
    uint64_t sought; /* what it was placed for; UINT64_MAX: it has gone on since */
};

enum lq_feed_place { LQ_FEED_RESTING, LQ_FEED_READY, LQ_FEED_STARVED };

/* One group in one partition that has consumers here. */
struct lq_feed_key {
    uint64_t group, number; /* of the partition; of the consumer group there */
};

struct lq_feed {
    struct lq_feed_key key;
    struct lq_pipeline *pipeline;
    struct lq_partition *partition;
    uint64_t generation;
    struct lq_leases *leases; /* the partition's; see lq_feed_is_alive */
    struct lq_partition_watcher watcher;
    struct lq_group_watcher group_watcher;
    struct lq_reader_place fresh; /* for what was never delivered */
    struct lq_reader_place again; /* for what lies before that */
    uint64_t *keys;               /* key-ordered groups: of the messages of one batch ... */
    uint64_t keys_base;           /* ... that begins here ... */
    uint32_t keys_count;          /* ... and has so many; 0: of none */
    uint32_t keys_capacity;
    uint64_t bytes; /* of its leases, as counted in the pipeline's */
    enum lq_feed_place place;
    struct lq_member *members; /* in the order they came */
    struct lq_feed *prev, *next;
    UT_hash_handle hh;
};

struct lq_member_key {
    uint64_t session, number;
};

/* One subscription. */
struct lq_member {
    struct lq_member_key key;
    struct lq_session *session; /* outlives it */
    struct lq_feed *feed;
    lq_lease_consumer consumer;
    bool suspended;                                /* its client takes nothing at the moment */
    struct lq_member *prev, *next;                 /* of the feed */
    struct lq_member *session_prev, *session_next; /* of the session */
    UT_hash_handle hh;
};

struct lq_settling;

struct lq_pipeline {
    struct lq_service *service;
    struct lq_feed *feeds; /* by key */
    struct lq_member *members;
    struct lq_feed *ready, *starved;
    uint64_t deadline_us; /* no lease ends, and no delay, before it */
    size_t count;         /* of members */
    uint64_t bytes;       /* of the leases of all feeds; within memory.max's share for them */
    struct lq_settling *settling;
    struct lq_settle_item items[LQ_SETTLE_ITEMS_MAX];
    struct lq_lease_grant granted[LQ_DELIVER_GRANTS_MAX];
    Lightq__Wire__Grant grants[LQ_DELIVER_GRANTS_MAX];
    Lightq__Wire__Grant *grants_at[LQ_DELIVER_GRANTS_MAX]; /* of each in grants */
};

/* False: its leases were freed (leadership, state or group is gone), and it has not been told yet. */
static inline bool lq_feed_is_alive(const struct lq_feed *feed)
{
    return feed->group_watcher.hub != NULL;
}

/* pipeline.c */
void lq_feed_set_place(struct lq_feed *feed, enum lq_feed_place place);
void lq_feed_wake(struct lq_feed *feed);
/* Counts its leases' memory anew. */
void lq_feed_count_bytes(struct lq_feed *feed);
/* Something of it may be due earlier than what was known. */
void lq_feed_note_deadline(struct lq_feed *feed);
/* Its subscriptions end, their clients are told, and it is gone. */
void lq_feed_end(struct lq_feed *feed, lightq_status status, const char *text);
struct lq_member *lq_pipeline_find(const struct lq_pipeline *pipeline, uint64_t session, uint64_t number);

/* pipeline_deliver.c */
void lq_reader_place_init(struct lq_reader_place *reader, struct lq_feed *feed);

#endif
