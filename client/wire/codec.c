/* client/wire/codec.c - packing and unpacking the protobuf bodies. The only caller of protobuf-c's functions (with
 * scan.c, which checks bodies before they are unpacked). */
#include "client/wire/codec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/wire/scan.h"

/* What LQ_MESSAGE_TABLE says of a type; descriptor NULL when it is not in there. */
struct kind {
    const ProtobufCMessageDescriptor *descriptor;
    size_t elements_max;
};

static struct kind kind_of(uint16_t type)
{
    switch (type) {
#define X(name, number, lower, message, elements) \
    case LQ_MESSAGE_##name:                       \
        return (struct kind){&lightq__wire__##lower##__descriptor, (elements)};
        LQ_MESSAGE_TABLE(X)
#undef X
    default:
        return (struct kind){NULL, 0};
    }
}

static void *on_alloc(void *context, size_t size)
{
    (void)context;
    return malloc(size);
}

static void on_free(void *context, void *pointer)
{
    (void)context;
    free(pointer);
}

/* malloc and free, but called from here, where the tests can make them fail. By value: it has no state. */
static ProtobufCAllocator allocator(void)
{
    return (ProtobufCAllocator){.alloc = on_alloc, .free = on_free};
}

lightq_status lq_codec_frame(struct lq_envelope *envelope, const ProtobufCMessage *message, struct lq_writer *out)
{
    assert(message->descriptor != NULL && message->descriptor == kind_of(envelope->type).descriptor);
    size_t body_size = protobuf_c_message_get_packed_size(message);
    if (body_size > LQ_CLIENT_BODY_BYTES_MAX) {
        return LIGHTQ_ETOOBIG;
    }
    if (out->status == LIGHTQ_OK && LQ_ENVELOPE_BYTES + body_size > out->limit - out->size) {
        return LIGHTQ_ETOOBIG;
    }
    uint8_t *at = lq_write_space(out, LQ_ENVELOPE_BYTES + body_size);
    if (at == NULL) {
        return out->status;
    }
    size_t packed = protobuf_c_message_pack(message, at + LQ_ENVELOPE_BYTES);
    assert(packed == body_size);
    envelope->body_size = (uint32_t)body_size;
    lq_frame_encode(at, envelope, at + LQ_ENVELOPE_BYTES);
    return LIGHTQ_OK;
}

lightq_status lq_codec_unpack(uint16_t type, const void *body, size_t size, void **message, struct lq_err *err)
{
    *message = NULL;
    struct kind kind = kind_of(type);
    if (kind.descriptor == NULL) {
        return lq_err_set(err, LIGHTQ_EUNSUPPORTED, "messages of type %u are not known here", type);
    }
    if (size > LQ_CLIENT_BODY_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_ETOOBIG, "a body of %zu bytes is above the limit of %u", size,
                          LQ_CLIENT_BODY_BYTES_MAX);
    }
    static const uint8_t nothing[1];
    const uint8_t *bytes = size == 0 ? nothing : body;
    lightq_status status = lq_scan_message(kind.descriptor, bytes, size, kind.elements_max, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    /* The scan is stricter than the unpacking, so only memory can be missing now. */
    ProtobufCAllocator memory = allocator();
    *message = protobuf_c_message_unpack(kind.descriptor, &memory, size, bytes);
    if (*message == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for a message of type %s", lq_message_name(type));
    }
    return LIGHTQ_OK;
}

void lq_codec_free(void *message)
{
    if (message != NULL) {
        ProtobufCAllocator memory = allocator();
        protobuf_c_message_free_unpacked(message, &memory);
    }
}

lightq_status lq_codec_id(const ProtobufCBinaryData *field, struct lq_id *id)
{
    if (field->len != sizeof id->bytes) {
        return LIGHTQ_EPROTO;
    }
    memcpy(id->bytes, field->data, sizeof id->bytes);
    return LIGHTQ_OK;
}
