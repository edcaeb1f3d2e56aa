/* node/forming.h - how a node without a cluster comes to one: nodes that are all blank make one together, once; one
 * that meets a cluster joins it; one that is known there with another data directory is refused. Why it can never make
 * two clusters: docs/adr/0007-forming.md.
 *
 * Called by node/server.c when the identity is not MEMBER, with a transport and before there is a store. Speaks in
 * LQ_FRAME_NODE frames; node/meta.c of the nodes that have a cluster answers them. Loop thread only. */
#ifndef LQ_NODE_FORMING_H
#define LQ_NODE_FORMING_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "node/identity.h"
#include "raft/hello.h"
#include "raft/link.h"
#include "storage/io.h"

struct lq_forming;

struct lq_forming_options {
    struct lq_identity *identity; /* BLANK or PROMISED; borrowed; becomes MEMBER, durably, before done() */
    struct lq_io *io;             /* borrowed */
    struct lq_clock *clock;       /* borrowed */
    struct lq_link *link;         /* borrowed */
    uint32_t expect;              /* how many nodes make the cluster, this one included; 1 to LQ_FOUNDERS_MAX */
    unsigned seed_count;       /* other nodes' addresses it was given: all must be here before a cluster is made; 0 and
                                  expect 1: a cluster of one, at once */
    struct lq_endpoint client; /* advertised */
    struct lq_endpoint peer;
    unsigned probe_ms; /* how often it is said again; 0: 200 */
};

struct lq_forming_events {
    /* The identity is MEMBER: close this and go on with the store. Once, from lq_forming_tick or a link event. */
    void (*done)(void *owner);
    /* It cannot go on as things are; it keeps trying. @err says what to do. Told when the reason changes. */
    void (*waiting)(void *owner, const struct lq_err *err);
    /* The identity could not be made durable: the process must end. */
    void (*failed)(void *owner, const struct lq_err *err);
};

/* OK | EINVAL (expect out of range) | ENOMEM. */
lightq_status lq_forming_new(const struct lq_forming_options *options, const struct lq_forming_events *events,
                             void *owner, struct lq_forming **out, struct lq_err *err) LQ_MUST_CHECK;
void lq_forming_free(struct lq_forming *forming);

/* What to plug into the link while forming; owner = struct lq_forming *. */
extern const struct lq_link_events lq_forming_link_events;
uint64_t lq_forming_deadline_us(struct lq_forming *forming); /* of the next tick, monotonic */
void lq_forming_tick(struct lq_forming *forming);

/* For the transport's identify: OK | EIDENTITY (this node's own id or directory). */
lightq_status lq_forming_check_peer(const struct lq_forming *forming, const struct lq_hello *hello,
                                    struct lq_err *err) LQ_MUST_CHECK;
/* For the transport's rejected: @node does not want us. It is said through waiting(), and tried again. */
void lq_forming_rejected(struct lq_forming *forming, uint32_t node, lightq_status status, const char *sentence);

#endif
