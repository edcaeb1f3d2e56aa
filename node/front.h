/* node/front.h - the client port: accepts connections, speaks ZMTP on them (node/zmtp.h), and makes messages of bytes.
 * It knows nothing of the protocol above: whole messages come out of it, and answers and deliveries go into it without
 * being copied. Called by node/shard.c; loop thread only. docs/adr/0008 says why it is not libzmq.
 *
 * Bounds: connections (connections_max, then none are accepted until there are fewer); what waits to be written to one
 * connection (queue_out messages, queue_out_bytes) and to all (queued_bytes_max), beyond it send says EBUSY, but one
 * message always goes to a connection that waits for none; and the memory of messages that have arrived in part, over
 * all connections (arriving_bytes_max, see node/front_internal.h). Who does not finish the
 * handshake in time, or is silent although it was asked for a sign of life, is closed. */
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
    bool malformed;          /* more frames than two; of these none is here */
};

/* Called from lq_front_turn and lq_front_flush only, never inside a call of the outlet. */
struct lq_front_events {
    void (*receive)(void *owner, const struct lq_front_message *message);
    /* @peer, which had finished its handshake, is gone, whoever closed it; nothing more comes of it. */
    void (*closed)(void *owner, lq_peer peer);
};

struct lq_front_options {
    struct lq_endpoint address;                 /* as of lq_listen */
    uint64_t frame_bytes_max;                   /* a larger frame closes its connection */
    uint64_t queue_out, queue_out_bytes;        /* waiting for one connection */
    uint64_t queued_bytes_max;                  /* the same, to all connections together */
    uint64_t arriving_bytes_max;                /* raised to what one message may need */
    unsigned connections_max;                   /* then the port takes no more */
    unsigned handshake_ms, ping_ms, silence_ms; /* 0: 10 s, 5 s, 20 s */
    struct lq_counters *counters;               /* borrowed */
};

/* Binds. OK | EADDRINUSE | EINVAL (not an address of this machine) | ENOMEM | ELIMIT; @err says which address. */
lightq_status lq_front_new(uv_loop_t *loop, const struct lq_front_options *options,
                           const struct lq_front_events *events, void *owner, struct lq_front **front,
                           struct lq_err *err) LQ_MUST_CHECK;
/* Closes the port; what was sent last has a tenth of a second to go out. No event comes any more. @cb runs once,
 * later; then @front is gone and no payload is referenced any more. */
void lq_front_close(struct lq_front *front, void (*cb)(void *owner), void *owner);

/* The port that was bound. */
uint16_t lq_front_port(const struct lq_front *front);
struct lq_outlet *lq_front_outlet(struct lq_front *front);
/* Bytes sent and not yet written, over all clients. */
uint64_t lq_front_queued_bytes(const struct lq_front *front);

/* Takes in messages, a bounded number, each connection in its turn. To be called once in every turn of the loop,
 * before it may sleep. True: there is more, so the loop must not sleep. */
bool lq_front_turn(struct lq_front *front);
/* Writes what was sent, in one system call for each connection. To be called at the end of every turn of the loop. */
void lq_front_flush(struct lq_front *front);

#endif
