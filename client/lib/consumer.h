/* client/lib/consumer.h - what the two sides of a consumer share: consumer.c, which the application's thread runs,
 * takes parcels apart into messages; fetcher.c, on the I/O thread, subscribes, grants credit and checks that no offset
 * is missing or comes twice.
 *
 *     [I/O thread] DELIVER -> parcel -> ready list -> poll() -> messages -> credit back
 *
 * An intake is one lightq_consumer_subscribe; a feed is one partition of it. */
#ifndef LQ_LIB_CONSUMER_H
#define LQ_LIB_CONSUMER_H

#include <pthread.h>

#include <lightq/consumer.h>

#include "client/lib/client.h"
#include "client/lib/conn.h"
#include "client/lib/meta.h"
#include "client/wire/batch.h"

#define LQ_POSITION_UNKNOWN (-1)

struct lq_intake;

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

    /* the application's thread, once fixed */
    int64_t position; /* of the next message */
    unsigned damaged; /* times in a row that the batch at position was not sound */

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
};

enum lq_intake_state { LQ_INTAKE_ASKED, LQ_INTAKE_KNOWN, LQ_INTAKE_FAILED };

struct lq_intake {
    struct lq_intake *next;
    struct lightq_consumer *consumer;
    char *name;
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

enum lq_parcel_kind { LQ_PARCEL_BATCH, LQ_PARCEL_END, LQ_PARCEL_ERROR };

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
};

struct lightq_consumer {
    struct lightq *client;
    int fd; /* readable when ready is not empty */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct lq_intake *intakes;
    struct lq_parcel *ready_first, *ready_last;
    bool signaled;
    bool closed;
    lightq_status refusal;

    /* the application's thread */
    struct lq_parcel *current;   /* taken apart now */
    struct lq_batch batch;       /* open while current is a BATCH */
    struct lightq_error error;   /* of the event given last */
    struct lightq_event stashed; /* found by poll_many, for poll to give */
    bool has_stashed;

    /* the I/O thread */
    struct lq_command command, close_command;
    struct lq_observer observer;
    size_t feed_count;
    struct lq_parcel *turned_first, *turned_last; /* parcels of this turn */
};

/* consumer.c */
void lq_parcel_free(struct lq_parcel *parcel);
/* With the lock: the I/O thread shall begin again at @start; what came before is not given. */
void lq_feed_restart(struct lq_feed *feed, const struct lightq_start *start);
/* Parcels of feeds of @intake (NULL: all) are dropped. The application's thread. */
void lq_consumer_drop(struct lightq_consumer *consumer, const struct lq_intake *intake);

/* fetcher.c, on the I/O thread */
void lq_fetcher_init(struct lightq_consumer *consumer);

#endif
