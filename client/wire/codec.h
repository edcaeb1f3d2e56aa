/* client/wire/codec.h - the protobuf bodies: packing them into frames, and unpacking bytes from strangers within
 * bounds.
 *
 * The structs are the generated ones of lightq.proto (build tree, client/wire/lightq.pb-c.h): users set their members
 * and give them here, and call nothing of protobuf-c themselves. For a message Produce:
 *
 *     Lightq__Wire__Produce produce = LIGHTQ__WIRE__PRODUCE__INIT;
 *     produce.partition = 7;
 *     struct lq_envelope envelope = {.type = LQ_MESSAGE_PRODUCE, .correlation = n, .group = g,
 *                                    .flags = LQ_ENVELOPE_FLAG_PAYLOAD};
 *     status = lq_codec_frame(&envelope, &produce.base, &writer);          envelope and body, ready for ZMQ frame 0
 *
 *     Lightq__Wire__Produce *in;
 *     status = lq_codec_unpack(LQ_MESSAGE_PRODUCE, body, size, (void **)&in, &err);   or lq_unpack_produce(...)
 *     ... in->partition ...
 *     lq_codec_free(in);
 *
 * Strings in unpacked messages are valid UTF-8 without a zero inside, never NULL (an absent one is ""). Absent messages
 * are NULL. Bytes fields are {len, data}: read 16-byte ids with lq_codec_id. Called by node/, client/lib and
 * client/cli; pure functions, any thread. */
#ifndef LQ_WIRE_CODEC_H
#define LQ_WIRE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/wire/frame.h"
#include "client/wire/lightq.pb-c.h" /* generated */

#define LQ_CODEC_STRING_BYTES_MAX  4096 /* of one string or bytes field */
#define LQ_CODEC_UNKNOWN_MAX       64   /* fields this version does not know, in one body */
#define LQ_CODEC_UNKNOWN_BYTES_MAX 65536

/* Appends to @out a whole ZMQ frame 0: the envelope (its body_size is filled in), then @message packed. @message must
 * be of the type that envelope->type has in LQ_MESSAGE_TABLE (asserted); its strings must not be NULL. OK | ETOOBIG
 * (body above LQ_CLIENT_BODY_BYTES_MAX, or @out's limit) | ENOMEM; then @out is as before. */
lightq_status lq_codec_frame(struct lq_envelope *envelope, const ProtobufCMessage *message,
                             struct lq_writer *out) LQ_MUST_CHECK;

/* Unpacks the @size bytes of @body as the message of @type. OK: *message is new, free it with lq_codec_free.
 * EPROTO: not protobuf, a field of another shape than the schema's, given twice, too many of them, a string that is not
 * UTF-8 or has a zero inside. ETOOBIG: above LQ_CLIENT_BODY_BYTES_MAX. EUNSUPPORTED: no such type. ENOMEM.
 * Nothing is allocated before all of it has been checked. */
lightq_status lq_codec_unpack(uint16_t type, const void *body, size_t size, void **message,
                              struct lq_err *err) LQ_MUST_CHECK;
/* Frees what lq_codec_unpack gave; NULL is allowed. */
void lq_codec_free(void *message);

/* The 16 bytes of an id. EPROTO when there are not 16. */
lightq_status lq_codec_id(const ProtobufCBinaryData *field, struct lq_id *id) LQ_MUST_CHECK;
/* A bytes field that points at @id (borrowed). */
static inline ProtobufCBinaryData lq_codec_bytes_of(const struct lq_id *id)
{
    return (ProtobufCBinaryData){.len = sizeof id->bytes, .data = (uint8_t *)(uintptr_t)id->bytes};
}
/* A string field that points at @text (borrowed; packing only reads it). */
static inline char *lq_codec_string(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* Typed forms: lq_unpack_produce(body, size, &produce, err). */
#define X(name, number, lower, message, elements)                                                                  \
    LQ_MUST_CHECK static inline lightq_status lq_unpack_##lower(const void *body, size_t size,                     \
                                                                Lightq__Wire__##message **out, struct lq_err *err) \
    {                                                                                                              \
        void *unpacked = NULL;                                                                                     \
        lightq_status status = lq_codec_unpack(LQ_MESSAGE_##name, body, size, &unpacked, err);                     \
        *out = (Lightq__Wire__##message *)unpacked;                                                                \
        return status;                                                                                             \
    }
LQ_MESSAGE_TABLE(X)
#undef X

#endif
