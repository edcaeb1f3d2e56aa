/* client/lib/consumer.h - what the two sides of a consumer share: consumer.c, which the application's thread runs,
 * takes parcels apart into messages; fetcher.c, on the I/O thread, subscribes, grants credit and checks that no offset
 * is missing or comes twice.
 *
 *     [I/O thread] DELIVER -> parcel -> ready list -> poll() -> messages -> credit back
 *
 * An intake is one lightq_consumer_subscribe or _join; a feed is one partition of it. What the application says of
 * messages of a group goes the other way: settle.c gathers it, settler.c sends it.
 *
 * A feed's parcels are worth nothing any more when the application seeks (generation), and, in a group, when the leases
 * they came under are lost or the group is moved (epoch): then the new leader delivers again what was not settled. */
#ifndef LQ_LIB_CONSUMER_H
#define LQ_LIB_CONSUMER_H

#include <pthread.h>
#include <stdatomic.h>

#include <lightq/consumer.h>

#include "client/lib/client.h"
#include "client/lib/conn.h"
#include "client/lib/meta.h"
#include "client/wire/batch.h"

#define LQ_POSITION_UNKNOWN (-1)

struct lq_intake;

/* What the application says of messages in a row. */
struct lq_settle_item {
    uint64_t first;
    uint64_t generation; /* of the group, when they were granted */
    uint32_t count, delivery;
    int64_t delay_ms; /* of a NACK; or LIGHTQ_DELAY_DEFAULT */
    uint8_t kind;     /* LIGHTQ__WIRE__SETTLE_KIND__... */
    bool own;         /* the library says it by itself: nobody is told when it has no effect */
    uint32_t alone;   /* not 0: somebody waits for its outcome by this number: in a request of its own */
};

struct lq_settle_items {
    struct lq_settle_item *items;
    size_t count, capacity;
};

/* Results and commits of a feed on their way. One request of each kind at a time: what is said meanwhile gathers, and
 * goes together in the next. */
struct lq_settler {
    /* under the consumer's lock */
    struct lq_settle_items queue;
    bool busy;          /* a request is on its way or shall be sent again */
    bool commit_wanted; /* commit_offset is to be committed */
    bool commit_busy;
    uint64_t commit_offset, commit_generation; /* the newest that was asked for */
    lightq_status commit_status;               /* of the commit that ended last */
    char commit_text[256];

    /* the I/O thread */
    struct lq_settle_items taken;  /* from the queue; below taken_at they have their outcome */
    size_t taken_at, flight_count; /* those of @request, from taken_at on */
    struct lq_request request, commit_request;
    uint64_t commit_flight, commit_flight_generation;
    uint64_t retry_us, backoff_us;
};

struct lq_feed {
    struct lq_feed *next;
    struct lq_intake *intake;
    uint32_t partition;

    /* under the consumer's lock */
    struct lightq_start start; /* where to begin, or to go on after a seek */
    uint64_t generation;       /* raised by every seek: parcels of an older one are dropped */
    bool restart;              /* the I/O thread shall begin at start */
    bool fixed;                /* the leader has said where start is, position holds */
    lightq_status status;      /* why it could not be fixed; OK: no reason yet */
    char text[256];
    uint64_t returned_messages, returned_bytes; /* given to the application and done with */
    bool pipeline;                              /* of a group: known when fixed */
    uint64_t group_generation;                  /* of a group: the newest one known; 0: not known */

    /* the application's thread, once fixed */
    int64_t position;          /* of the next message */
    unsigned damaged;          /* times in a row that the batch at position was not sound */
    uint64_t given_generation; /* of the group, that position belongs to */
    int64_t committed;         /* what was committed last by us; or unknown */
    int64_t handled;           /* position when the last poll began: messages before it are done with */

    /* the I/O thread */
    struct lq_stream stream;
    struct lq_request request;
    uint64_t io_generation;
    int64_t next_offset; /* the next that must come; unknown until the leader has said */
    struct lightq_start io_start;
    uint64_t term;   /* the highest heard of: a leader of a lower one was deposed and does not know it */
    bool stopped;    /* nothing is asked before the next seek */
    bool ended_told; /* END was told and nothing came since */
    int64_t credit_messages, credit_bytes;    /* what the server has left */
    uint64_t pending_messages, pending_bytes; /* delivered and not done with */
    uint64_t retry_us, backoff_us;
    uint64_t group_number;
    bool gone;        /* the topic or the group is */
    bool moved;       /* the group was moved: to be told with the new position */
    bool standby;     /* it is sent nothing until others are gone */
    bool started;     /* of a group: io_start was asked for by a seek of the consumer */
    uint64_t hold_us; /* after leases were lost: not subscribed again before what was settled is, or this time */
    unsigned misses;  /* times in a row that the group was not there */

    atomic_uint epoch; /* raised by the I/O thread: parcels of an older one are dropped */
    struct lq_settler settler;
};

enum lq_intake_state { LQ_INTAKE_ASKED, LQ_INTAKE_KNOWN, LQ_INTAKE_FAILED };

struct lq_intake {
    struct lq_intake *next;
    struct lightq_consumer *consumer;
    char *name;
    char *group;       /* NULL: none */
    int32_t partition; /* or LIGHTQ_PARTITION_ANY */
    struct lightq_start start;
    bool quiet; /* somebody waits for the outcome: failures are not events */

    /* under the consumer's lock */
    enum lq_intake_state state;
    lightq_status status;
    char text[256];
    bool leave, gone; /* the application wants it to end; the I/O thread is done with it */
    struct lq_feed *feeds;

    /* the I/O thread */
    struct lq_topic *topic;
    struct lq_id id;
    uint32_t covered; /* partitions below this have their feed */
};

enum lq_parcel_kind { LQ_PARCEL_BATCH, LQ_PARCEL_END, LQ_PARCEL_ERROR, LQ_PARCEL_MOVED, LQ_PARCEL_UNSETTLED };

/* Messages of a batch, by their place in it, that are ours. */
struct lq_grant {
    uint32_t first, count, delivery;
};

/* Something for poll(). */
struct lq_parcel {
    struct lq_parcel *next;
    enum lq_parcel_kind kind;
    struct lq_feed *feed; /* NULL: an error of the whole client */
    uint64_t generation;
    struct lq_slab *payload; /* BATCH; a reference */
    int64_t base_offset;     /* BATCH; END: the end; ERROR: where */
    int64_t wanted;          /* messages below this are skipped */
    uint32_t count;
    int64_t first, end; /* ERROR */
    struct lightq_error *error;
    unsigned epoch;
    uint64_t group_generation; /* BATCH, MOVED */
    size_t grant_count;        /* BATCH of a pipeline group; else 0 */
    uint64_t extend_us;        /* under the lock: when its leases are to be extended */
    uint32_t ack_wait_ms;
    atomic_uint given; /* messages of the batch below this place were given, or are not ours */
    struct lq_grant grants[];
};

/* Messages that are acked when more are asked for. */
struct lq_given {
    struct lq_feed *feed;
    struct lq_settle_item item;
};

struct lightq_consumer {
    struct lightq *client;
    int fd; /* readable when ready is not empty */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct lq_intake *intakes;
    struct lq_parcel *ready_first, *ready_last;
    struct lq_parcel *current; /* taken apart by the application's thread, the only one that sets it */
    uint64_t polled_us;        /* when the application polled last */
    bool signaled;
    bool closed;
    lightq_status refusal;
    uint32_t alone_waits; /* lightq_consumer_ack_sync waits for the item of this number; 0: it does not */
    lightq_status alone_status;

    /* the application's thread */
    struct lq_batch batch;       /* open while current is a BATCH */
    struct lightq_error error;   /* of the event given last */
    struct lightq_event stashed; /* found by poll_many, for poll to give */
    bool has_stashed;
    size_t grant_at;         /* in the current parcel */
    uint32_t alone_last;     /* the number that was used last */
    bool grouped;            /* it has joined some group */
    uint64_t next_commit_us; /* enable.auto.commit */
    struct lq_given *given;  /* enable.auto.ack: given by the last poll */
    size_t given_count, given_capacity;

    /* the I/O thread */
    struct lq_command command, close_command;
    struct lq_observer observer;
    uint64_t extend_us; /* when some parcel's leases are to be extended; UINT64_MAX: none */
    size_t feed_count;
    struct lq_parcel *turned_first, *turned_last; /* parcels of this turn */
};

/* consumer.c */
void lq_parcel_free(struct lq_parcel *parcel);
/* With the lock: the I/O thread shall begin again at @start; what came before is not given. */
void lq_feed_restart(struct lq_feed *feed, const struct lightq_start *start);
/* Parcels of feeds of @intake (NULL: all) are dropped. The application's thread. */
void lq_consumer_drop(struct lightq_consumer *consumer, const struct lq_intake *intake);

/* consumer_subscribe.c, with the lock: the intake that reads @partition of @topic; with @exactly the one that was
 * subscribed so. NULL: none. */
struct lq_intake *lq_consumer_find(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                   bool exactly);
struct lq_feed *lq_intake_feed(const struct lq_intake *intake, uint32_t partition);

/* settle.c, with the lock: adds @item, or makes the last range longer. OK | EBUSY | ENOMEM. */
lightq_status lq_settle_append(struct lq_settle_items *list, const struct lq_settle_item *item) LQ_MUST_CHECK;
/* consumer.c: a seek, or the loss of what it was granted under, has made @parcel (of a feed) worthless. */
bool lq_parcel_is_stale(const struct lq_parcel *parcel);
/* settle.c, the application's thread: a poll begins, so what the last one gave is done with. */
void lq_settle_polled(struct lightq_consumer *consumer);
/* settle.c: @record was given, from the current parcel. */
void lq_settle_given(struct lightq_consumer *consumer, const struct lightq_record *record);
/* settle.c: acks and commits what was given, as the settings say, and waits. OK | ETIMEDOUT. */
lightq_status lq_settle_finish(struct lightq_consumer *consumer, int timeout_ms) LQ_MUST_CHECK;

/* fetcher.c, on the I/O thread */
void lq_fetcher_init(struct lightq_consumer *consumer);

#endif
