/* node/shard.h - one event loop and what lives on it: the client port, the peer port, the disk, the Raft groups. A node
 * has `shards` of them, each on a thread of its own; that of shard 0 is the process's first, and has the meta group,
 * forming and HTTP beside. Made, started and taken apart by node/server.c. What belongs to a shard is touched by its
 * thread only; shards speak by mail (node/house.h, docs/adr/0009).
 *
 * One turn of the loop, always just before it may sleep: take in what clients sent; let the cluster part and the groups
 * do what follows (which sends to peers and starts the flush); deliver to subscribers; and do not sleep while any of
 * them has more to do. So what arrived together shares one write to each peer and one fdatasync.
 *
 * shard.c has the loop and its turn, shard_parts.c opens and closes what is on it, shard_thread.c the threads of shards
 * 1 and on, and the mail between shard 0 and them. */
#ifndef LQ_NODE_SHARD_H
#define LQ_NODE_SHARD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "node/counters.h"
#include "node/forming.h"
#include "node/front.h"
#include "node/house.h"
#include "node/identity.h"
#include "node/meta.h"
#include "node/options.h"
#include "node/service.h"
#include "node/shard_mail.h"
#include "node/totals.h"
#include "raft/host.h"
#include "raft/transport.h"
#include "storage/io.h"
#include "storage/store.h"

struct lq_shard;

/* What becomes of a shard, each once. */
enum lq_shard_news {
    LQ_SHARD_READY,   /* it knows the catalog and the controller: clients can be served */
    LQ_SHARD_FAILED,  /* it cannot go on: the node must end; see lq_shard.err */
    LQ_SHARD_DRAINED, /* it leads nothing that others could lead, or its time for that is over */
    LQ_SHARD_CLOSED,  /* all of it is closed but the way to tell so */
};

/* All on the thread of shard 0, which leaves notes there. */
struct lq_shard_events {
    void (*news)(void *owner, struct lq_shard *shard, enum lq_shard_news news);
    /* The rest: of shard 0 only. @on_tick: now and then. @on_turn: at the end of each turn; the only one that may take
     * parts away. @rejected: another node refuses this one, which has no cluster yet. */
    void (*tick)(void *owner);
    void (*turn)(void *owner);
    void (*rejected)(void *owner, uint32_t node, lightq_status status, const char *sentence);
};

/* What shard 0 tells the others, each once. */
enum lq_shard_order { LQ_ORDER_START, LQ_ORDER_DRAIN, LQ_ORDER_CLOSE, LQ_ORDER_END, LQ_ORDER_COUNT };

#define LQ_SHARD_NEWS_COUNT (LQ_SHARD_CLOSED + 1)

struct lq_shard {
    struct lq_house house; /* first: mail is opened with it */
    unsigned number, count;
    struct lq_shard *all; /* the node's shards, by number */
    struct lq_mailbox box;
    const struct lq_shard_events *events;
    void *owner;

    struct lq_options options; /* of the node, but for this shard's ports and its share of memory; texts are borrowed */
    struct lq_identity identity; /* of shard 0: the node's, as on disk; of others a copy made at the start */
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_idle_t idle;   /* active: the loop must not sleep */
    uv_timer_t timer; /* the earliest of all deadlines */
    uint64_t armed_us;
    uint64_t tick_us; /* when the next tick of the parts without a clock of their own is due */
    bool started, idling, stopped;
    struct lq_clock *clock;
    struct lq_counters counters;
    struct lq_service service; /* complete once the node is a member */
    struct lq_front *front;
    struct lq_io *io;
    struct lq_transport *transport;
    struct lq_forming *forming; /* shard 0, until the node belongs to a cluster */
    struct lq_store *store;     /* from then on */
    struct lq_host *host;
    struct lq_meta *meta;

    bool serving, draining, drained, closing, parts_closed;
    uint64_t drain_until_us;
    unsigned parts; /* that have not called back, while closing */
    lightq_status failed;
    struct lq_err err;

    /* Shards 1 and on. */
    uv_thread_t thread;
    bool threaded; /* it runs on it */
    bool told_to_close;
    struct lq_mail orders[LQ_ORDER_COUNT];
    struct {
        struct lq_mail mail;
        enum lq_shard_news news;
    } notices[LQ_SHARD_NEWS_COUNT];
    struct {
        struct lq_mail mail;
        struct lq_totals totals;
        bool away;
    } report;
    struct lq_totals totals; /* as last reported; shard 0's */
};

/* ---- shard.c */

/* Makes the loop, opens the client port (the node's, plus @number), and makes the parts that serve clients (who are
 * told ENOTREADY until lq_sessions_serve). @all has @options->shards shards, all zero before the first is made.
 * @options,
 * @clock and @events are borrowed. On failure too: close what is there, then lq_shard_deinit.
 * OK | EADDRINUSE | EINVAL | ELIMIT | ENOMEM. */
lightq_status lq_shard_init(struct lq_shard *all, unsigned number, const struct lq_options *options,
                            struct lq_clock *clock, const struct lq_shard_events *events, void *owner,
                            struct lq_err *err) LQ_MUST_CHECK;
/* Begins to take turns. */
void lq_shard_start(struct lq_shard *shard);
/* Closes the loop's own handles; the loop ends when all else is closed too. */
void lq_shard_stop(struct lq_shard *shard);
/* Frees the rest. Everything else must be closed, and the loop must have ended. */
void lq_shard_deinit(struct lq_shard *shard);

/* ---- shard_parts.c */

/* The peer port: the node's, plus the shard's number. Its identity must be there. @nonce is the same for all shards. */
lightq_status lq_shard_open_peer_port(struct lq_shard *shard, uint64_t nonce, struct lq_err *err) LQ_MUST_CHECK;
/* What its store is opened with, but for the directory's name: that is the caller's. */
void lq_shard_store_options(const struct lq_shard *shard, struct lq_store_options *store);
/* Adds to @err, an EDAMAGED of a store, what is to be done. Returns its status. */
lightq_status lq_shard_advise(const struct lq_shard *shard, struct lq_err *err);
/* The node is a member: blocking; before its thread runs. */
lightq_status lq_shard_open_store(struct lq_shard *shard, struct lq_err *err) LQ_MUST_CHECK;
/* Its replicas come up. @client and @peer are what the node tells others: of shard 0. */
lightq_status lq_shard_open_groups(struct lq_shard *shard, const struct lq_endpoint *client,
                                   const struct lq_endpoint *peer, struct lq_err *err) LQ_MUST_CHECK;
/* It cannot go on. The first reason counts. */
void lq_shard_fail(struct lq_shard *shard, const struct lq_err *err);
/* Leaderships are handed over; LQ_SHARD_DRAINED tells when. */
void lq_shard_drain(struct lq_shard *shard);
/* Closes everything; LQ_SHARD_CLOSED tells when. From the end of a turn, or before the first. */
void lq_shard_close(struct lq_shard *shard);
/* At the end of each turn: goes on with draining and closing. */
void lq_shard_look_after(struct lq_shard *shard);

/* ---- shard_thread.c */

extern const struct lq_house_ops lq_shard_house_ops;
/* Gives @shard a thread of its own, which waits for LQ_ORDER_START. OK | ELIMIT. */
lightq_status lq_shard_run(struct lq_shard *shard, struct lq_err *err) LQ_MUST_CHECK;
/* On the thread of shard 0. A shard that has no thread is closed inside; it needs no other orders. */
void lq_shard_order(struct lq_shard *shard, enum lq_shard_order order);
/* Tells shard 0's owner. */
void lq_shard_tell(struct lq_shard *shard, enum lq_shard_news news);
/* At the end of each turn, and now and then, of a shard beyond 0. */
void lq_shard_thread_turn(struct lq_shard *shard);
void lq_shard_thread_tick(struct lq_shard *shard);
/* Waits for its thread, when it has one. */
void lq_shard_join(struct lq_shard *shard);

#endif
