/* raft/link.h - what the host needs of the network, as a vtable: frames to a node, and news of connections. The real
 * one is transport.c (TCP over libuv); the simulation has its own. A frame may be lost; frames of one connection arrive
 * in order. Loop thread only. */
#ifndef LQ_RAFT_LINK_H
#define LQ_RAFT_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/slab.h"
#include "storage/format.h"

#define LQ_FRAME_HEAD_MAX 2048 /* of a frame's own fields before its entries, configurations included */

enum lq_frame_type {
    LQ_FRAME_HELLO = 1,
    LQ_FRAME_HEARTBEATS = 2, /* heartbeats and their answers, of many groups */
    LQ_FRAME_APPEND = 3,
    LQ_FRAME_APPEND_RESULT = 4,
    LQ_FRAME_VOTE = 5,
    LQ_FRAME_VOTE_RESULT = 6,
    LQ_FRAME_INSTALL = 7, /* one piece of a checkpoint */
    LQ_FRAME_TIMEOUT_NOW = 8,
    LQ_FRAME_STATUS = 9, /* free space and load of a node, once a tick */
    LQ_FRAME_NODE = 10,  /* for the node layer: forming, forwarding to the controller */
};

/* What is sent: head bytes (copied inside the call), then body, then entries (referenced until written). */
struct lq_frame {
    enum lq_frame_type type;
    uint64_t group;
    const void *head;
    uint32_t head_size;
    struct lq_slab *body; /* or NULL; referenced */
    uint32_t body_offset, body_size;
    const struct lq_entry_ref *entries; /* each gets a reference of its own */
    size_t entry_count;
};

/* What is received: one slab holds the whole payload (head, then body or entries). Length-checked, head crc checked;
 * entries inside are not checked yet. */
struct lq_frame_in {
    enum lq_frame_type type;
    uint64_t group;
    struct lq_slab *slab; /* borrowed during the call: take a reference to keep it */
    uint32_t offset;      /* of the payload */
    uint32_t size;
    uint32_t head_size; /* as the sender gave it, checked to be <= size */
};

struct lq_link;

struct lq_link_events {
    /* OK: go on. EPROTO: the frame is malformed: the link closes the connection and counts it. */
    lightq_status (*receive)(void *owner, uint32_t node, const struct lq_frame_in *frame);
    /* Our connection to @node was accepted: connected() is true. */
    void (*up)(void *owner, uint32_t node);
    /* Lost: connected() is false. @refused: the connection was refused, reset or ended (its process is gone), not
     * merely silent; told once more, with @refused, when that only turns out later. */
    void (*down)(void *owner, uint32_t node, bool refused);
};

struct lq_link_ops {
    /* OK: it will be sent unless the connection breaks. ECONNECT: no connection (one is being tried). EBUSY: the bound
     * of that peer's queue is reached; dropped and counted. ENOMEM: dropped. EINVAL: no receiver would take it (only an
     * APPEND has entries, and it has no body; sizes by type: raft/frame.h). */
    lightq_status (*send)(struct lq_link *link, uint32_t node, const struct lq_frame *frame);
    /* Whether an identified connection exists. */
    bool (*connected)(struct lq_link *link, uint32_t node);
    /* Bytes waiting to be written to @node. */
    uint64_t (*queued)(struct lq_link *link, uint32_t node);
};

struct lq_link {
    const struct lq_link_ops *ops;
};

#endif
