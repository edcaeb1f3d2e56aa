/* raft/frame.c - see frame.h. */
#include "raft/frame.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/limits.h"

enum { AT_LENGTH = 0, AT_TYPE = 4, AT_ZERO = 5, AT_GROUP = 8, AT_HEAD_SIZE = 16, AT_CRC = 20 };

#define ROOM_LEAST_BYTES (4u * 1024)    /* a read into less is not worth its system call */
#define TRUSTED_BYTES    (1024u * 1024) /* what a length is believed without more; larger frames: */
#define GROWTH_FACTOR    4              /* times what has arrived of them */
#define PACKED_PART      4              /* of an ordinary slab is one for small APPENDs, */
#define SMALL_PART       8              /* which are those up to this part of it */
#define KEPT_FACTOR      4              /* a slab this much larger than needed is given back */

struct type_row {
    const char *name;
    uint32_t payload_max;
};

/* Indexed by type. HEARTBEATS: 64 is the larger of its two records. */
static const struct type_row types[] = {
    [LQ_FRAME_HELLO] = {"hello", LQ_HELLO_BYTES_MAX},
    [LQ_FRAME_HEARTBEATS] = {"heartbeats", LQ_FRAME_HEAD_MAX + LQ_PEER_HEARTBEATS_MAX * 64},
    [LQ_FRAME_APPEND] = {"append", LQ_PEER_FRAME_BYTES_MAX},
    [LQ_FRAME_APPEND_RESULT] = {"append result", LQ_FRAME_HEAD_MAX},
    [LQ_FRAME_VOTE] = {"vote", LQ_FRAME_HEAD_MAX},
    [LQ_FRAME_VOTE_RESULT] = {"vote result", LQ_FRAME_HEAD_MAX},
    [LQ_FRAME_INSTALL] = {"install", LQ_FRAME_HEAD_MAX + LQ_CHECKPOINT_PIECE_BYTES},
    [LQ_FRAME_TIMEOUT_NOW] = {"timeout now", LQ_FRAME_HEAD_MAX},
    [LQ_FRAME_STATUS] = {"status", LQ_FRAME_HEAD_MAX},
    [LQ_FRAME_NODE] = {"node", LQ_FRAME_HEAD_MAX + LQ_NODE_FRAME_BYTES_MAX},
};

static const struct type_row *row_of(enum lq_frame_type type)
{
    if ((size_t)type >= sizeof types / sizeof types[0] || types[type].name == NULL) {
        return NULL;
    }
    return &types[type];
}

const char *lq_frame_name(enum lq_frame_type type)
{
    const struct type_row *row = row_of(type);
    return row == NULL ? "unknown" : row->name;
}

uint32_t lq_frame_payload_max(enum lq_frame_type type)
{
    const struct type_row *row = row_of(type);
    return row == NULL ? 0 : row->payload_max;
}

/* ---- encoding ---- */

static uint64_t payload_size(const struct lq_frame *frame)
{
    uint64_t size = (uint64_t)frame->head_size + frame->body_size;
    for (size_t i = 0; i < frame->entry_count; i++) {
        size += frame->entries[i].size;
    }
    return size;
}

uint64_t lq_frame_wire_size(const struct lq_frame *frame)
{
    return LQ_FRAME_HEADER_BYTES + payload_size(frame);
}

void lq_frame_put(uint8_t *at, const struct lq_frame *frame)
{
    lq_put_u32(at + AT_LENGTH, (uint32_t)payload_size(frame));
    at[AT_TYPE] = (uint8_t)frame->type;
    memset(at + AT_ZERO, 0, AT_GROUP - AT_ZERO);
    lq_put_u64(at + AT_GROUP, frame->group);
    lq_put_u32(at + AT_HEAD_SIZE, frame->head_size);
    if (frame->head_size != 0) {
        memcpy(at + LQ_FRAME_HEADER_BYTES, frame->head, frame->head_size);
    }
    uint32_t crc = lq_crc32c(0, at, AT_CRC);
    crc = lq_crc32c(crc, at + LQ_FRAME_HEADER_BYTES, frame->head_size);
    if (frame->body_size != 0) {
        crc = lq_crc32c(crc, frame->body->bytes + frame->body_offset, frame->body_size);
    }
    lq_put_u32(at + AT_CRC, crc);
}

/* ---- decoding ---- */

void lq_frame_stream_init(struct lq_frame_stream *stream, uint32_t size_limit, size_t slab_size)
{
    assert(slab_size >= 64);
    *stream = (struct lq_frame_stream){.size_limit = size_limit, .slab_size = slab_size};
}

void lq_frame_stream_deinit(struct lq_frame_stream *stream)
{
    lq_slab_unref(stream->slab);
    lq_slab_unref(stream->packed);
    stream->slab = stream->packed = NULL;
    stream->begin = stream->end = stream->packed_used = 0;
}

void lq_frame_stream_widen(struct lq_frame_stream *stream, uint32_t size_limit, size_t slab_size)
{
    stream->size_limit = size_limit;
    stream->slab_size = slab_size;
}

static size_t arrived(const struct lq_frame_stream *stream)
{
    return stream->end - stream->begin;
}

/* How many bytes there should be room for, from stream->begin on, for the frame that has begun to arrive; 0 when its
 * length has not arrived yet. What it claims beyond what is believed is asked for later, when more of it is there. */
static size_t bytes_needed(const struct lq_frame_stream *stream)
{
    if (arrived(stream) < LQ_FRAME_HEADER_BYTES) {
        return 0;
    }
    uint64_t needed = LQ_FRAME_HEADER_BYTES + (uint64_t)lq_get_u32(stream->slab->bytes + stream->begin + AT_LENGTH);
    uint64_t most = LQ_FRAME_HEADER_BYTES + (uint64_t)stream->size_limit; /* _next refuses more */
    uint64_t believed = (uint64_t)arrived(stream) * GROWTH_FACTOR;
    if (believed < TRUSTED_BYTES) {
        believed = TRUSTED_BYTES;
    }
    needed = needed < most ? needed : most;
    return (size_t)(needed < believed ? needed : believed);
}

/* True when no frame that was given is still referenced, so that the slab's bytes may be moved. */
static bool is_sole_owner(const struct lq_slab *slab)
{
    return __atomic_load_n(&slab->references, __ATOMIC_ACQUIRE) == 1;
}

/* Moves what has arrived of the next frame to the beginning of a slab of at least @size bytes. */
static lightq_status move_to_front(struct lq_frame_stream *stream, size_t size)
{
    size_t keep = arrived(stream);
    struct lq_slab *old = stream->slab;
    bool reusable = old != NULL && old->size >= size && old->size / KEPT_FACTOR <= size && is_sole_owner(old);
    if (reusable) {
        memmove(old->bytes, old->bytes + stream->begin, keep);
    } else {
        struct lq_slab *slab = lq_slab_new(size);
        if (slab == NULL) {
            return LIGHTQ_ENOMEM;
        }
        if (keep != 0) {
            memcpy(slab->bytes, old->bytes + stream->begin, keep);
        }
        lq_slab_unref(old);
        stream->slab = slab;
    }
    stream->begin = 0;
    stream->end = keep;
    return LIGHTQ_OK;
}

/* Whether the bytes that have arrived must be moved before more can come. */
static bool must_move(const struct lq_frame_stream *stream, size_t needed)
{
    const struct lq_slab *slab = stream->slab;
    if (slab == NULL || slab->size == stream->end) {
        return true;
    }
    if (needed != 0) {
        return needed > slab->size - stream->begin;
    }
    if (arrived(stream) == 0 && stream->end != 0 && is_sole_owner(slab)) {
        return true; /* begin again at the front: nothing is copied */
    }
    return slab->size - stream->end < ROOM_LEAST_BYTES && stream->begin != 0;
}

lightq_status lq_frame_stream_room(struct lq_frame_stream *stream, uint8_t **at, size_t *size)
{
    size_t needed = bytes_needed(stream);
    if (must_move(stream, needed)) {
        size_t least = needed > stream->slab_size ? needed : stream->slab_size;
        if (least <= arrived(stream)) { /* whole frames that were not taken out: make room all the same */
            least = arrived(stream) + ROOM_LEAST_BYTES;
        }
        lightq_status status = move_to_front(stream, least);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    *at = stream->slab->bytes + stream->end;
    *size = stream->slab->size - stream->end;
    assert(*size > 0);
    return LIGHTQ_OK;
}

void lq_frame_stream_fed(struct lq_frame_stream *stream, size_t size)
{
    assert(stream->slab != NULL && size <= stream->slab->size - stream->end);
    stream->end += size;
}

/* The header alone: everything that can be refused before the payload is there. */
static lightq_status check_header(const struct lq_frame_stream *stream, const uint8_t *at, struct lq_err *err)
{
    uint32_t length = lq_get_u32(at + AT_LENGTH);
    uint32_t head_size = lq_get_u32(at + AT_HEAD_SIZE);
    const struct type_row *row = row_of((enum lq_frame_type)at[AT_TYPE]);
    if (row == NULL) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%u is not a type of frame", at[AT_TYPE]);
    }
    if (at[AT_ZERO] != 0 || lq_get_u16(at + AT_ZERO + 1) != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s frame: reserved bits are set", row->name);
    }
    uint32_t limit = row->payload_max < stream->size_limit ? row->payload_max : stream->size_limit;
    if (length > limit) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s frame: %" PRIu32 " bytes, above the limit of %" PRIu32, row->name,
                          length, limit);
    }
    if (head_size > length || head_size > LQ_FRAME_HEAD_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s frame: a head of %" PRIu32 " bytes in a payload of %" PRIu32,
                          row->name, head_size, length);
    }
    return LIGHTQ_OK;
}

/* Moves a small APPEND's payload among others of its kind. Without memory for that it stays where it is. */
static void pack(struct lq_frame_stream *stream, struct lq_frame_in *frame)
{
    if (frame->type != LQ_FRAME_APPEND || frame->size > stream->slab_size / SMALL_PART) {
        return;
    }
    if (stream->packed != NULL && stream->packed->size - stream->packed_used < frame->size) {
        if (stream->packed->size >= frame->size && is_sole_owner(stream->packed)) {
            stream->packed_used = 0; /* nobody kept anything of it */
        } else {
            lq_slab_unref(stream->packed);
            stream->packed = NULL;
        }
    }
    if (stream->packed == NULL) {
        stream->packed = lq_slab_new(stream->slab_size / PACKED_PART);
        stream->packed_used = 0;
        if (stream->packed == NULL) {
            return;
        }
    }
    memcpy(stream->packed->bytes + stream->packed_used, frame->slab->bytes + frame->offset, frame->size);
    frame->slab = stream->packed;
    frame->offset = (uint32_t)stream->packed_used;
    stream->packed_used += frame->size;
}

lightq_status lq_frame_stream_next(struct lq_frame_stream *stream, struct lq_frame_in *frame, struct lq_err *err)
{
    if (arrived(stream) < LQ_FRAME_HEADER_BYTES) {
        return LIGHTQ_ENOTREADY;
    }
    const uint8_t *at = stream->slab->bytes + stream->begin;
    lightq_status status = check_header(stream, at, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint32_t length = lq_get_u32(at + AT_LENGTH);
    if (arrived(stream) - LQ_FRAME_HEADER_BYTES < length) {
        return LIGHTQ_ENOTREADY;
    }
    enum lq_frame_type type = (enum lq_frame_type)at[AT_TYPE];
    uint32_t head_size = lq_get_u32(at + AT_HEAD_SIZE);
    uint32_t crc =
        lq_crc32c(lq_crc32c(0, at, AT_CRC), at + LQ_FRAME_HEADER_BYTES, type == LQ_FRAME_APPEND ? head_size : length);
    if (crc != lq_get_u32(at + AT_CRC)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s frame: its crc is wrong", lq_frame_name(type));
    }
    *frame = (struct lq_frame_in){.type = type,
                                  .group = lq_get_u64(at + AT_GROUP),
                                  .slab = stream->slab,
                                  .offset = (uint32_t)(stream->begin + LQ_FRAME_HEADER_BYTES),
                                  .size = length,
                                  .head_size = head_size};
    stream->begin += LQ_FRAME_HEADER_BYTES + (size_t)length;
    pack(stream, frame);
    return LIGHTQ_OK;
}
