/* node/outlet.h - the way out to clients, as a vtable: node/front.c is the real one, tests have their own. Loop thread
 * only. */
#ifndef LQ_NODE_OUTLET_H
#define LQ_NODE_OUTLET_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/slab.h"

/* A connection, by a number that is never used again for another one; 0 is none. */
typedef uint64_t lq_peer;

/* What is sent: the frame (copied inside the call), then the payload (referenced until it is sent). */
struct lq_packet {
    const void *frame;
    size_t frame_size;
    struct lq_slab *payload; /* or NULL */
    uint32_t payload_offset, payload_size;
};

#define LQ_ADDRESS_TEXT_BYTES 80
struct lq_address_text {
    char text[LQ_ADDRESS_TEXT_BYTES]; /* host:port */
};

enum lq_outlet_close {
    LQ_CLOSE_WRITTEN, /* when what was sent to it has been written, or takes too long */
    LQ_CLOSE_NOW,     /* what it was sent and has not been written is lost */
};

struct lq_outlet {
    /* OK: it will be sent unless the connection breaks. EBUSY: the connection's queue is full; nothing was taken.
     * ECLOSED: there is no such client any more. ENOMEM. */
    lightq_status (*send)(struct lq_outlet *outlet, lq_peer peer, const struct lq_packet *packet);
    /* From now on nothing of @peer is received and nothing can be sent to it. One that is gone is no mistake. */
    void (*close)(struct lq_outlet *outlet, lq_peer peer, enum lq_outlet_close how);
    /* Bytes on their way to @peer; over all clients. */
    uint64_t (*queued_to)(struct lq_outlet *outlet, lq_peer peer);
    uint64_t (*queued)(struct lq_outlet *outlet);
    /* Where it is connected from, for people; "" when that is not known. NULL: never known. */
    void (*address)(struct lq_outlet *outlet, lq_peer peer, struct lq_address_text *text);
};

#endif
