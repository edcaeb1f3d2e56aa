/* raft/sender.h - what waits to be written to one peer connection: frames gather in a list of slices that point into
 * slabs, and go out in one write a turn. Called by transport.c; calls libuv. Loop thread only. */
#ifndef LQ_RAFT_SENDER_H
#define LQ_RAFT_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "client/base/err.h"
#include "client/base/slab.h"
#include "raft/link.h"

/* Slices to be written, in order, and a reference to every slab they point into. */
struct lq_gather {
    uv_buf_t *slices;
    size_t slice_count, slice_capacity;
    struct lq_slab **slabs;
    size_t slab_count, slab_capacity;
    struct lq_slab *arena; /* headers, heads and small entries are copied here; also among the slabs */
    size_t arena_used;
    uint64_t bytes;
};

struct lq_sender {
    struct lq_gather waiting; /* frames of this turn, or all since the write that is under way */
    struct lq_gather flying;  /* given to libuv, not written yet */
    bool writing;
    int error; /* libuv's, of the write that broke the connection; 0: none did */
    uv_write_t request;
    uv_stream_t *stream; /* borrowed; set before the first flush */
    /* A write under way has ended: OK, or ECONNECT: the connection is broken. May be NULL. */
    void (*written)(struct lq_sender *sender, lightq_status status);
    void *data; /* the owner's */
};

void lq_sender_init(struct lq_sender *sender);
/* No write may be under way: after the stream's close callback. */
void lq_sender_deinit(struct lq_sender *sender);
static inline uint64_t lq_sender_queued(const struct lq_sender *sender)
{
    return sender->waiting.bytes + sender->flying.bytes;
}
/* Takes @frame into the list: its head is copied, its body and larger entries are referenced. OK | ENOMEM (then nothing
 * of it is taken). */
lightq_status lq_sender_add(struct lq_sender *sender, const struct lq_frame *frame) LQ_MUST_CHECK;
/* Writes what waits, unless a write is under way (then it follows that one). OK | ECONNECT (broken). */
lightq_status lq_sender_flush(struct lq_sender *sender) LQ_MUST_CHECK;

#endif
