/* raft/frame.h - the frames of a peer connection: their header, and the decoder that cuts a stream of bytes into them.
 * Called by transport.c, and by the fuzzer; calls client/base only. No I/O. Loop thread only. docs/format/peer.md
 * explains the protocol.
 *
 * A frame, little endian:
 *
 *      0  length     u32   of the payload
 *      4  type       u8    enum lq_frame_type
 *      5  zero       u8
 *      6  zero       u16
 *      8  group      u64
 *     16  head_size  u32   of the payload's head; at most LQ_FRAME_HEAD_MAX
 *     20  crc32c     u32   over bytes 0 .. 19, then the head and, but for APPEND, the rest of the payload
 *     24  payload ...      head, then body or entries
 *
 * Entries carry crcs of their own, made once when they were proposed, so an APPEND's rest is not covered again. */
#ifndef LQ_RAFT_FRAME_H
#define LQ_RAFT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/slab.h"
#include "raft/link.h"

#define LQ_FRAME_HEADER_BYTES 24

/* The name in log lines: "append"; "unknown" for a type that is none. Static memory. */
const char *lq_frame_name(enum lq_frame_type type);

/* The most payload bytes of a frame of @type; 0 for a type that is none. */
uint32_t lq_frame_payload_max(enum lq_frame_type type);

/* All bytes of @frame on the wire, header included. */
uint64_t lq_frame_wire_size(const struct lq_frame *frame);

/* Writes the header and the head behind it to @at: LQ_FRAME_HEADER_BYTES + frame->head_size bytes. The body, or the
 * entries, must follow on the wire. */
void lq_frame_put(uint8_t *at, const struct lq_frame *frame);

/* The decoder. Bytes are read straight into its slab, and frames are given as views of it, so of larger frames nothing
 * is copied but a beginning whose end does not fit in the same slab. What a length claims is not allocated before a
 * good part of it has arrived. Entries are kept long after they came (in the store's cache), and each keeps its whole
 * slab: small APPENDs are therefore copied together into slabs of their own, so that what is kept is mostly entries. */
struct lq_frame_stream {
    struct lq_slab *slab;
    size_t begin, end; /* of what has arrived and was not given yet */
    struct lq_slab *packed;
    size_t packed_used;
    uint32_t size_limit; /* of a payload, besides that of its type */
    size_t slab_size;    /* of an ordinary slab */
};

/* Nothing is allocated before the first lq_frame_stream_room. @slab_size at least 64. */
void lq_frame_stream_init(struct lq_frame_stream *stream, uint32_t size_limit, size_t slab_size);
void lq_frame_stream_deinit(struct lq_frame_stream *stream);
/* Other limits from the next frame, and the next slab, on. */
void lq_frame_stream_widen(struct lq_frame_stream *stream, uint32_t size_limit, size_t slab_size);
/* Where the next bytes go, at least one. OK | ENOMEM. Frames given before are not touched. */
lightq_status lq_frame_stream_room(struct lq_frame_stream *stream, uint8_t **at, size_t *size) LQ_MUST_CHECK;
/* @size bytes were written there. */
void lq_frame_stream_fed(struct lq_frame_stream *stream, size_t size);
/* OK: the next frame, whose slab is the stream's (take a reference to keep it beyond the next call). ENOTREADY: more
 * bytes are needed. EPROTO: it is no frame; the connection must be closed. */
lightq_status lq_frame_stream_next(struct lq_frame_stream *stream, struct lq_frame_in *frame,
                                   struct lq_err *err) LQ_MUST_CHECK;

#endif
