/* node/outlet.h - the way out to clients, as a vtable: node/front.c is the real one, tests have their own. Loop thread
 * only. */
#ifndef LQ_NODE_OUTLET_H
#define LQ_NODE_OUTLET_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/slab.h"

/* A connected client, by the number libzmq gave its connection. Never used again for another one. */
typedef uint32_t lq_peer;

/* Bytes handed to the network and not yet taken by it, of one client. Shared with libzmq's threads: all atomic. */
struct lq_account {
    uint32_t references;
    uint64_t bytes;
};

/* One reference; NULL when out of memory. */
struct lq_account *lq_account_new(void);
void lq_account_unref(struct lq_account *account); /* NULL is allowed */
uint64_t lq_account_bytes(const struct lq_account *account);
/* @bytes are on their way, and it lives as long as they do; they have gone. On any thread. */
void lq_account_take(struct lq_account *account, uint64_t bytes);
void lq_account_give(struct lq_account *account, uint64_t bytes);

/* What is sent: the frame (copied inside the call), then the payload (referenced until it is sent). */
struct lq_packet {
    const void *frame;
    size_t frame_size;
    struct lq_slab *payload; /* or NULL */
    uint32_t payload_offset, payload_size;
    struct lq_account *account; /* or NULL; charged with the payload's bytes until they are sent */
};

struct lq_outlet {
    /* OK: it will be sent unless the connection breaks. EBUSY: the connection's queue is full; nothing was taken.
     * ECLOSED: there is no such client any more. ENOMEM. */
    lightq_status (*send)(struct lq_outlet *outlet, lq_peer peer, const struct lq_packet *packet);
    /* Payload bytes on their way, over all clients. */
    uint64_t (*queued)(struct lq_outlet *outlet);
};

#endif
