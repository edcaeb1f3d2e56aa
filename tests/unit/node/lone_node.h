/* tests/unit/node/lone_node.h - what tests of a node that is a cluster by itself share: a link to nobody, forming
 * alone, and the turns of a shard's loop. solo_node.h has one shard with clients, test_neighbours.c several. */
#ifndef LQ_TESTS_LONE_NODE_H
#define LQ_TESTS_LONE_NODE_H

#include "tests/unit/node/client_fixture.h"

#include "node/forming.h"
#include "node/meta.h"

#define LONE_STEP_US   1000
#define LONE_STEPS_MAX 200000 /* that anything is waited for */

extern const struct lq_link_ops lone_link_ops;

/* Makes @identity and forms its cluster, which is fast as nobody else is waited for. */
void lone_form(struct hand_clock *clock, struct lq_io *io, struct lq_link *link, unsigned shards,
               const struct lq_endpoint *client, const struct lq_endpoint *peer, struct lq_identity *identity);
/* A meta part with its host. @ready is set when it is. Options: identity, io, store, endpoints and what else is wanted;
 * clock and link are set here. Caller frees both. */
void lone_open(struct hand_clock *clock, struct lq_link *link, struct lq_meta_options *options, bool *ready,
               struct lq_meta **meta, struct lq_host **host);
/* A turn: what is due, and what follows. */
void lone_turn(const struct hand_clock *clock, struct lq_meta *meta, struct lq_host *host);

#endif
