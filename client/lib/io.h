/* client/lib/io.h - the one background thread of a client: its loop, its clock, its mailbox. The thread owns every
 * connection (conn.h), what is known of the cluster (meta.h) and the sending and fetching sides of producers and
 * consumers (sender.h, fetcher.h), which hang on it as observers. Other threads reach it by lq_io_post only.
 *
 * The mailbox is bounded by construction: a command is part of the object that posts it and is in the mailbox at most
 * once. Posting takes no lock, and a system call only when the thread sleeps. */
#ifndef LQ_LIB_IO_H
#define LQ_LIB_IO_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lightq/lightq.h>

#include "client/base/buf.h"
#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/lib/container.h"
#include "client/lib/options.h"

#define LQ_CONNS_MAX 4096 /* addresses a client remembers; a cluster that names more is not believed */

struct lq_io;
struct lq_conn;
struct lq_topic;

/* Work for the thread. Embedded in the object it is about; {.run = f} is a whole one. */
struct lq_command {
    struct lq_command *next;
    atomic_bool queued;
    /* On the thread. The command may be posted again, or freed, from here on. */
    void (*run)(struct lq_command *command, struct lq_io *io);
};

/* Who wants to hear what happens. All calls on the thread. Members may be NULL but on_tick, which is also the only one
 * inside which an observer may leave. */
struct lq_observer {
    struct lq_observer *next;
    uint64_t deadline_us; /* on_tick is due; UINT64_MAX: no time set. Besides, every observer gets each general tick. */
    void (*on_tick)(struct lq_observer *observer);
    void (*on_topic)(struct lq_observer *observer, struct lq_topic *topic); /* metadata of it came, or it is gone */
    void (*on_conn)(struct lq_observer *observer, struct lq_conn *conn);    /* it is ready */
    void (*on_trouble)(struct lq_observer *observer, const struct lightq_error *error); /* told once when it begins */
    /* The end of a turn of the loop: what gathered in it goes to the application at once, under one lock. */
    void (*on_turn)(struct lq_observer *observer);
};

struct lq_meta;

struct lq_io {
    struct lq_client_options options; /* a copy, which never changes */
    struct lq_clock *clock;
    int wake_fd;
    pthread_t thread;

    /* any thread */
    _Atomic(struct lq_command *) mailbox; /* the newest first */
    atomic_bool sleeping;
    atomic_bool stopping;
    atomic_int linger_ms;                    /* of the BYEs, at the end */
    atomic_uint_least64_t message_bytes_max; /* the least that a server or the settings allow */
    atomic_uint_least64_t batch_bytes_max;

    /* the state that lightq_wait_connected and lightq_cluster_id read */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool connected;              /* some server has greeted us since the start */
    struct lightq_error refusal; /* the last server refused us for good; status OK: none did */
    struct lightq_error trouble; /* what went wrong last */
    char cluster_text[LQ_ID_TEXT_BYTES];

    /* the thread only */
    uint64_t now_us;
    uint64_t next_tick_us;
    struct lq_id cluster;  /* zero until the first greeting */
    struct lq_conn *conns; /* hash by address */
    size_t conn_count;
    uint64_t next_correlation;
    struct lq_meta *meta;
    struct lq_observer *observers;
    struct lq_writer frame; /* where frames are put together */
    struct pollfd *polled;
    size_t polled_capacity;
    bool trouble_told;
};

/* Starts the thread with a copy of @options. OK: stop with lq_io_stop. ENOMEM | ELIMIT | EINVAL (an address). */
lightq_status lq_io_start(struct lq_io *io, const struct lq_client_options *options, struct lq_clock *clock,
                          struct lightq_error *error) LQ_MUST_CHECK;
/* Says BYE to the servers and joins the thread. @linger_ms bounds how long the BYEs may take to leave. Nobody may post
 * any more. */
void lq_io_stop(struct lq_io *io, int linger_ms);

/* Any thread. Runs @command on the I/O thread once; posting it while it waits changes nothing. */
void lq_io_post(struct lq_io *io, struct lq_command *command);

/* ---- on the thread */

void lq_io_observe(struct lq_io *io, struct lq_observer *observer);
void lq_io_forget(struct lq_io *io, struct lq_observer *observer);
/* Tells the observers. */
void lq_io_topic_changed(struct lq_io *io, struct lq_topic *topic);
/* Remembers what goes wrong with the connections, and tells the observers when it is news. */
void lq_io_trouble(struct lq_io *io, lightq_status status, const char *text);
/* @conn is ready: the cluster's identity is published and the observers are told. */
void lq_io_connected(struct lq_io *io, struct lq_conn *conn);
/* A server refused us for good: everybody waiting is told. */
void lq_io_refused(struct lq_io *io, lightq_status status, const char *text);
/* The next general tick comes soon. */
void lq_io_hurry(struct lq_io *io);

#endif
