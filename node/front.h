/* node/front.h - the client port: a libzmq ROUTER socket in the shard's loop. It knows nothing of the protocol: whole
 * messages come out of it, and answers and deliveries go into it without being copied. The only file of the node that
 * calls libzmq. Called by node/shard.c; loop thread only, but payloads are let go on libzmq's threads.
 *
 * What ROUTER cannot do, and what is done instead: it does not tell of a lost connection (sessions end by silence; a
 * send then says ECLOSED), it cannot close one connection, and it bounds its queues in messages, not bytes (accounts,
 * node/outlet.h). Connections are counted by the socket's monitor; above the limit the port takes none until
 * there are fewer. */
#ifndef LQ_NODE_FRONT_H
#define LQ_NODE_FRONT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "client/base/err.h"
#include "client/base/slab.h"
#include "node/counters.h"
#include "node/endpoint.h"
#include "node/outlet.h"

struct lq_front;

/* A message that came in. Borrowed during the call; take a reference of the payload to keep it. */
struct lq_front_message {
    lq_peer peer;
    const uint8_t *frame;
    size_t frame_size;
    struct lq_slab *payload; /* NULL when there is none */
    bool malformed;          /* no frame, or more frames than two */
};

struct lq_front_events {
    void (*receive)(void *owner, const struct lq_front_message *message);
};

struct lq_front_options {
    struct lq_endpoint address;   /* as of lq_listen */
    uint64_t frame_bytes_max;     /* a larger frame closes its connection */
    uint64_t queue_in, queue_out; /* messages per connection */
    unsigned connections_max;     /* then the port takes no more */
    struct lq_counters *counters; /* borrowed */
};

/* Binds. OK | EADDRINUSE | EINVAL (not an address of this machine) | ENOMEM | EINTERNAL; @err says which address. */
lightq_status lq_front_new(uv_loop_t *loop, const struct lq_front_options *options,
                           const struct lq_front_events *events, void *owner, struct lq_front **front,
                           struct lq_err *err) LQ_MUST_CHECK;
/* Closes the socket; what was sent last has a tenth of a second to go out. @cb runs once, later; then @front is gone
 * and no payload is referenced any more. */
void lq_front_close(struct lq_front *front, void (*cb)(void *owner), void *owner);

/* The port that was bound. */
uint16_t lq_front_port(const struct lq_front *front);
struct lq_outlet *lq_front_outlet(struct lq_front *front);
/* Payload bytes given to libzmq and not yet sent, over all clients. */
uint64_t lq_front_queued_bytes(const struct lq_front *front);

/* Takes in messages, a bounded number. To be called in every turn before the loop may sleep, however it was woken:
 * libzmq's descriptor is edge-triggered. True: there is more, so the loop must not sleep. */
bool lq_front_turn(struct lq_front *front);
/* Whether there is something to take in: to be asked after the last send of a turn, which may have eaten the wake-up.
 */
bool lq_front_readable(struct lq_front *front);

#endif
