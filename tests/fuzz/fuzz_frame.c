/* tests/fuzz/fuzz_frame.c - any bytes as ZMQ frame 0. What decodes must encode to the same again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *frame = malloc(size + 1);
    assert(frame != NULL);
    memcpy(frame, data, size);
    if (size >= LQ_ENVELOPE_BYTES) { /* no fuzzer guesses a crc; every second input has the right lengths too */
        if (size % 2 == 0 && size >= frame[3]) {
            lq_put_u32(frame + 24, (uint32_t)(size - frame[3]));
        }
        lq_put_u32(frame + 28, lq_crc32c(lq_crc32c(0, frame, 28), frame + 32, size - 32));
    }
    struct lq_envelope envelope;
    const uint8_t *body;
    struct lq_err err;
    if (lq_frame_decode(frame, size, &envelope, &body, &err) == LIGHTQ_OK) {
        assert(body >= frame + LQ_ENVELOPE_BYTES && body + envelope.body_size == frame + size);
        (void)lq_message_name(envelope.type);
        if (envelope.header_size == LQ_ENVELOPE_BYTES) {
            uint8_t again[LQ_ENVELOPE_BYTES];
            lq_frame_encode(again, &envelope, body);
            assert(memcmp(again, frame, sizeof again) == 0);
        }
    } else {
        assert(err.text[0] != '\0');
    }
    free(frame);
    return 0;
}
