/* node/seeds.h - from the seeds' addresses to nodes the transport can talk to: each address is asked who is there,
 * again and again until the node serves and knows everybody from the catalog. Called by node/server.c; loop thread
 * only. */
#ifndef LQ_NODE_SEEDS_H
#define LQ_NODE_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "node/identity.h"
#include "node/options.h"
#include "raft/transport.h"

struct lq_seeds;

struct lq_seed {
    struct lq_seeds *seeds;
    struct lq_endpoint at;
    bool asking;
    uint32_t node;   /* who was found there last; 0: nobody yet */
    uint64_t due_us; /* when to ask next */
};

/* Embedded; pinned until the transport is closed, which ends what is being asked. */
struct lq_seeds {
    struct lq_transport *transport;
    struct lq_clock *clock;
    const struct lq_identity *identity;
    bool stopped;
    unsigned count;
    struct lq_seed seed[LQ_SEEDS_MAX];
};

/* All but @transport, @clock and @identity, which are borrowed, is copied. The seed that is @self is left out. */
void lq_seeds_init(struct lq_seeds *seeds, const struct lq_options *options, const struct lq_endpoint *self,
                   const struct lq_identity *identity, struct lq_clock *clock, struct lq_transport *transport);
/* Asks those that are due. To be called a few times a second. */
void lq_seeds_tick(struct lq_seeds *seeds);
/* Asks no more. */
void lq_seeds_stop(struct lq_seeds *seeds);

#endif
