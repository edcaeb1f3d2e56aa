/* node/shard.h - one event loop, its thread's, and what lives on it: the client port, the peer port, the disk, the Raft
 * groups. A node has one for each thread (this version: one); shard 0 also has the meta group. Made and taken apart by
 * node/server.c, which alone writes its members; loop thread only.
 *
 * One turn of the loop, always just before it may sleep: take in what clients sent; let the cluster part and the groups
 * do what follows (which sends to peers and starts the flush); deliver to subscribers; and do not sleep while any of
 * them has more to do. So what arrived together shares one write to each peer and one fdatasync. */
#ifndef LQ_NODE_SHARD_H
#define LQ_NODE_SHARD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "node/counters.h"
#include "node/forming.h"
#include "node/front.h"
#include "node/meta.h"
#include "node/options.h"
#include "node/service.h"
#include "raft/host.h"
#include "raft/transport.h"
#include "storage/io.h"
#include "storage/store.h"

struct lq_shard {
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_idle_t idle;   /* active: the loop must not sleep */
    uv_timer_t timer; /* the earliest of all deadlines */
    uint64_t armed_us;
    bool idling;
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
    bool stopped;
    uint64_t tick_us;             /* when the next tick of the parts without a clock of their own is due */
    void (*on_tick)(void *owner); /* with each of those */
    void (*on_turn)(void *owner); /* at the end of each turn; the only one that may take parts away */
    void *owner;
};

/* Makes the loop, opens the client port, and makes the parts that serve clients (who are told ENOTREADY until
 * lq_sessions_serve). @options and @clock are borrowed. On failure too: close what is there, then lq_shard_deinit.
 * OK | EADDRINUSE | EINVAL | ELIMIT | ENOMEM. */
lightq_status lq_shard_init(struct lq_shard *shard, const struct lq_options *options, struct lq_clock *clock,
                            struct lq_err *err) LQ_MUST_CHECK;
/* Begins to take turns. */
void lq_shard_start(struct lq_shard *shard);
/* Closes the loop's own handles; the loop ends when all else is closed too. */
void lq_shard_stop(struct lq_shard *shard);
/* Frees the rest. Everything else must be closed, and the loop must have ended. */
void lq_shard_deinit(struct lq_shard *shard);

#endif
