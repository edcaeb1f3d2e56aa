/* client/lib/producer.h - what the two sides of a producer share: producer.c, which the application's threads run, puts
 * records into batches; sender.c, on the I/O thread, sends batches and learns what became of them.
 *
 *     send() -> lane.open -> lane.closed -> [I/O thread] lane.batches, sent, answered -> done -> reports in poll()
 *
 * The lock is held for one append, or to hand whole batches over; the done list has its own lock, so that answers do
 * not wait for appends. A lane is one partition of one topic. */
#ifndef LQ_LIB_PRODUCER_H
#define LQ_LIB_PRODUCER_H

#include <pthread.h>
#include <stdatomic.h>

#include <lightq/producer.h>

#include "client/lib/client.h"
#include "client/lib/conn.h"
#include "client/lib/meta.h"
#include "client/wire/batch.h"

struct lq_lane;
struct lq_route;

enum lq_bundle_state {
    LQ_BUNDLE_WAITING, /* to be sent, or to be sent again */
    LQ_BUNDLE_SENT,    /* its answer is waited for */
    LQ_BUNDLE_RESOLVED /* its outcome is known; it is reported after those before it */
};

/* A batch on its way from send() to the reports. */
struct lq_bundle {
    struct lq_bundle *next;
    struct lq_lane *lane;
    struct lq_batch_writer writer; /* until it is sealed */
    void **opaques;
    uint32_t opaque_capacity;
    uint32_t count;
    size_t bytes; /* what it counts against buffer.bytes */
    uint64_t created_us;
    bool has_expected_offset; /* it holds one message, which goes to @expected_offset or nowhere */
    uint64_t expected_offset;
    bool whole;       /* all of it is stored or nothing: it is never taken apart */
    void *message_id; /* of the one message that it holds; NULL: none */
    uint8_t message_id_size;

    /* the I/O thread */
    enum lq_bundle_state state;
    struct lq_slab *slab; /* sealed: the bytes that are sent, every time the same */
    bool numbered;        /* it has its sequences, for ever */
    bool begins;          /* an epoch begins with it: something before it was given up */
    bool begun;           /* that epoch is the lane's */
    struct lq_request request;
    uint64_t serial;     /* of its last transmission in the lane; 0: never */
    uint64_t attempts;   /* transmissions */
    uint64_t rejections; /* those of them that were answered and not stored */

    /* the outcome */
    lightq_status status;
    bool in_doubt;
    int64_t base_offset;
    bool same_id;
    uint64_t producer, base_sequence, term;
    uint32_t crc;
};

/* A list of bundles, oldest first. */
struct lq_bundles {
    struct lq_bundle *first, *last;
};

/* One partition of a topic as one producer sees it. */
struct lq_lane {
    struct lq_route *route;
    uint32_t partition;

    /* under the producer's lock */
    struct lq_bundle *open;
    struct lq_bundles closed;
    bool attended; /* the I/O thread looks at it without being asked */
    bool asking;   /* it is in the producer's list of lanes that want to be looked at */
    struct lq_lane *next_asking;

    /* the I/O thread */
    struct lq_bundles batches; /* in the order of their sequences */
    struct lq_conn *conn;      /* the leader that the batches were sent to */
    uint64_t producer_id;
    uint32_t epoch;
    bool begin_next; /* an epoch begins with the next batch that gets numbers */
    uint64_t next_sequence;
    uint64_t serial;
    bool active; /* it is in the producer's list of lanes with work */
    struct lq_lane *next_active;
    struct lq_lane *next_pumped; /* of one run of lq_sender_run */
    bool is_answered;            /* it is in the list of answered lanes */
    struct lq_lane *next_answered;
    uint64_t retry_us; /* nothing is sent before */
    uint64_t backoff_us;
    unsigned redirects; /* in a row */
};

enum lq_route_state { LQ_ROUTE_ASKED, LQ_ROUTE_KNOWN, LQ_ROUTE_FAILED };

/* A topic as one producer sees it. */
struct lq_route {
    struct lq_route *next;
    struct lightq_producer *producer;
    char *name;

    /* under the producer's lock */
    enum lq_route_state state;
    lightq_status status; /* of FAILED */
    bool resolve;         /* the I/O thread shall ask */
    struct lq_lane **lanes;
    uint32_t lane_count;
    uint32_t sticky; /* the lane of keyless messages */

    /* the I/O thread */
    struct lq_topic *topic;
    struct lq_id id;
};

struct lightq_producer {
    struct lightq *client;
    struct lightq_producer_options callbacks;
    int fd;       /* readable when done is not empty or there is trouble to tell */
    size_t quota; /* messages that close a batch */
    atomic_uint flushing;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a route's state, or closed */
    struct lq_route *routes;
    struct lq_route *recent; /* the one used last */
    struct lq_lane *asking;
    bool resolve;          /* some route's resolve is set */
    bool flush_now;        /* what is gathered shall be sent, once */
    atomic_size_t waiting; /* messages whose report has not run */
    size_t buffered;       /* their bytes */
    lightq_status refusal; /* OK, or why nothing can be sent */
    bool closing, closed;
    uint64_t random;

    pthread_mutex_t done_lock;
    struct lq_bundles done;
    struct lightq_error trouble;
    bool has_trouble;
    bool signaled; /* fd is readable */
    bool given_up; /* close() gave a message up */

    /* the I/O thread */
    struct lq_command command, close_command;
    struct lq_observer observer;
    struct lq_lane *active;
    struct lq_lane *answered; /* lanes that an answer of this turn was for */
    struct lq_bundles turned; /* bundles that got their outcome in this turn */
};

/* producer.c */
/* An empty one with room for a message; NULL: out of memory. */
struct lq_bundle *lq_bundle_new(struct lq_lane *lane, uint64_t created_us);
void lq_bundle_free(struct lq_bundle *bundle);
/* Moves all of @from behind those of @to. */
static inline void lq_bundles_move(struct lq_bundles *to, struct lq_bundles *from)
{
    if (from->first == NULL) {
        return;
    }
    if (to->last != NULL) {
        to->last->next = from->first;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    *from = (struct lq_bundles){.first = NULL};
}
static inline void lq_bundles_append(struct lq_bundles *list, struct lq_bundle *bundle)
{
    bundle->next = NULL;
    if (list->last != NULL) {
        list->last->next = bundle;
    } else {
        list->first = bundle;
    }
    list->last = bundle;
}
/* Hands bundles whose outcome is set to the reports. The I/O thread. */
void lq_producer_done(struct lightq_producer *producer, struct lq_bundles *bundles);
void lq_producer_tell(struct lightq_producer *producer, const struct lightq_error *error);

/* sender.c, on the I/O thread */
void lq_sender_run(struct lq_command *command, struct lq_io *io);
void lq_sender_close(struct lq_command *command, struct lq_io *io);
void lq_sender_init(struct lightq_producer *producer);

#endif
