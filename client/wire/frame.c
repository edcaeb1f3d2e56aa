/* client/wire/frame.c - encoding and decoding the envelope that frame.h draws. */
#include "client/wire/frame.h"

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/limits.h"

enum {
    AT_MAGIC = 0,
    AT_VERSION = 2,
    AT_HEADER_LENGTH = 3,
    AT_TYPE = 4,
    AT_FLAGS = 6,
    AT_CORRELATION = 8,
    AT_GROUP = 16,
    AT_BODY_LENGTH = 24,
    AT_CRC = 28,
};

void lq_frame_encode(uint8_t at[LQ_ENVELOPE_BYTES], const struct lq_envelope *envelope, const void *body)
{
    lq_put_u16(at + AT_MAGIC, LQ_ENVELOPE_MAGIC);
    at[AT_VERSION] = LQ_ENVELOPE_VERSION;
    at[AT_HEADER_LENGTH] = LQ_ENVELOPE_BYTES;
    lq_put_u16(at + AT_TYPE, envelope->type);
    lq_put_u16(at + AT_FLAGS, envelope->flags);
    lq_put_u64(at + AT_CORRELATION, envelope->correlation);
    lq_put_u64(at + AT_GROUP, envelope->group);
    lq_put_u32(at + AT_BODY_LENGTH, envelope->body_size);
    lq_put_u32(at + AT_CRC, lq_crc32c(lq_crc32c(0, at, AT_CRC), body, envelope->body_size));
}

lightq_status lq_frame_decode(const void *bytes, size_t size, struct lq_envelope *envelope, const uint8_t **body,
                              struct lq_err *err)
{
    const uint8_t *at = bytes;
    if (size < LQ_ENVELOPE_BYTES) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a frame of %zu bytes is shorter than an envelope", size);
    }
    if (lq_get_u16(at + AT_MAGIC) != LQ_ENVELOPE_MAGIC) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the frame does not begin with LQ");
    }
    if (at[AT_VERSION] != LQ_ENVELOPE_VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION, "an envelope of version %u, and only %d is spoken here", at[AT_VERSION],
                          LQ_ENVELOPE_VERSION);
    }
    size_t header_size = at[AT_HEADER_LENGTH];
    uint32_t body_size = lq_get_u32(at + AT_BODY_LENGTH);
    if (body_size > LQ_CLIENT_BODY_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_ETOOBIG, "a body of %u bytes is above the limit of %u", body_size,
                          LQ_CLIENT_BODY_BYTES_MAX);
    }
    if (header_size < LQ_ENVELOPE_BYTES || header_size + body_size != size) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a header of %zu and a body of %u bytes in a frame of %zu", header_size,
                          body_size, size);
    }
    uint32_t crc = lq_crc32c(lq_crc32c(0, at, AT_CRC), at + LQ_ENVELOPE_BYTES, size - LQ_ENVELOPE_BYTES);
    if (crc != lq_get_u32(at + AT_CRC)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the frame's crc is wrong: %08x is in it, %08x is right",
                          lq_get_u32(at + AT_CRC), crc);
    }
    *envelope = (struct lq_envelope){
        .type = lq_get_u16(at + AT_TYPE),
        .flags = lq_get_u16(at + AT_FLAGS),
        .correlation = lq_get_u64(at + AT_CORRELATION),
        .group = lq_get_u64(at + AT_GROUP),
        .body_size = body_size,
        .header_size = (uint8_t)header_size,
    };
    *body = at + header_size;
    return LIGHTQ_OK;
}

const char *lq_message_name(uint16_t type)
{
    switch (type) {
#define X(name, number, lower, message, elements) \
    case LQ_MESSAGE_##name:                       \
        return #name;
        LQ_MESSAGE_TABLE(X)
#undef X
    default:
        return "UNKNOWN";
    }
}

bool lq_message_is_answer(uint16_t type)
{
    switch (type) {
#define X(name, number, lower, message, elements) \
    case LQ_MESSAGE_##name:                       \
        return (number) % 2 == 1 || (number) == LQ_MESSAGE_ERROR;
        LQ_MESSAGE_TABLE(X)
#undef X
    default:
        return false;
    }
}
