/* tests/fuzz/fuzz_codec.c - any bytes as the body of every type of message: the first byte picks the type. What unpacks
 * must pack, and unpack again to the same bytes. */
#include <assert.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint16_t types[] = {
#define X(name, number, lower, message, elements) LQ_MESSAGE_##name,
    LQ_MESSAGE_TABLE(X)
#undef X
};

/* Packs @message, unpacks it and packs that: both must be the same frame. */
static void go_around(uint16_t type, const void *message)
{
    struct lq_writer first, second;
    lq_writer_init(&first, 2 * LQ_CLIENT_BODY_BYTES_MAX);
    lq_writer_init(&second, 2 * LQ_CLIENT_BODY_BYTES_MAX);
    struct lq_envelope envelope = {.type = type};
    lightq_status status = lq_codec_frame(&envelope, message, &first);
    assert(status == LIGHTQ_OK || status == LIGHTQ_ETOOBIG);
    if (status == LIGHTQ_OK) {
        struct lq_err err;
        void *again;
        status = lq_codec_unpack(type, first.bytes + LQ_ENVELOPE_BYTES, envelope.body_size, &again, &err);
        assert(status == LIGHTQ_OK);
        status = lq_codec_frame(&envelope, again, &second);
        assert(status == LIGHTQ_OK);
        assert(first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0);
        lq_codec_free(again);
    }
    lq_writer_deinit(&first);
    lq_writer_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    uint16_t type = types[data[0] % (sizeof types / sizeof types[0])];
    struct lq_err err;
    void *message;
    lightq_status status = lq_codec_unpack(type, data + 1, size - 1, &message, &err);
    assert(status == LIGHTQ_OK || status == LIGHTQ_EPROTO || status == LIGHTQ_ETOOBIG);
    if (status == LIGHTQ_OK) {
        go_around(type, message);
        lq_codec_free(message);
    }
    return 0;
}
