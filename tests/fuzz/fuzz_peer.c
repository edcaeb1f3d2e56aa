/* tests/fuzz/fuzz_peer.c - the stream decoder and the hello, fed with arbitrary bytes in arbitrary chunks. Input: a
 * flags byte, a chunk pattern byte, then the stream. With flag 1 the bytes are cut into frames with right headers first
 * (the fuzzer cannot guess a crc), and what comes out must be what went in. With flag 2 a hello is decoded, judged and
 * encoded again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/limits.h"
#include "raft/frame.h"
#include "raft/hello.h"

enum { FLAG_FRAMED = 1, FLAG_HELLO = 2, FLAG_SMALL = 4, FLAG_KEEP = 8, FRAMES_MAX = 64, SLAB_LEAST = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct expected {
    struct lq_frame_in frame[FRAMES_MAX];
    size_t at[FRAMES_MAX]; /* of the payload in the wire bytes */
    size_t count;
};

/* Frames out of @data: type u8, head size u8, rest size u16, then the payload. Returns the wire bytes. */
static size_t frame_up(const uint8_t *data, size_t size, uint8_t *wire, struct expected *expected)
{
    struct lq_reader reader = lq_reader_of(data, size);
    size_t used = 0;
    while (expected->count < FRAMES_MAX && lq_reader_left(&reader) >= 4) {
        enum lq_frame_type type = (enum lq_frame_type)(lq_read_u8(&reader) % LQ_FRAME_NODE + 1);
        uint32_t head_size = lq_read_u8(&reader);
        uint32_t rest_size = lq_read_u16(&reader);
        const uint8_t *head = lq_read_bytes(&reader, head_size);
        const uint8_t *rest = lq_read_bytes(&reader, rest_size);
        if (reader.failed || head_size + rest_size > lq_frame_payload_max(type)) {
            break;
        }
        struct lq_slab slab = {.size = rest_size, .bytes = (uint8_t *)(uintptr_t)rest};
        struct lq_entry_ref entry = {.slab = &slab, .size = rest_size};
        struct lq_frame frame = {.type = type, .group = head_size, .head = head, .head_size = head_size};
        if (type == LQ_FRAME_APPEND) {
            frame.entries = &entry;
            frame.entry_count = 1;
        } else {
            frame.body = &slab;
            frame.body_size = rest_size;
        }
        lq_frame_put(wire + used, &frame);
        memcpy(wire + used + LQ_FRAME_HEADER_BYTES + head_size, rest, rest_size);
        expected->frame[expected->count] = (struct lq_frame_in){
            .type = type, .group = head_size, .size = head_size + rest_size, .head_size = head_size};
        expected->at[expected->count++] = used + LQ_FRAME_HEADER_BYTES;
        used += LQ_FRAME_HEADER_BYTES + head_size + rest_size;
    }
    return used;
}

static void run_stream(const uint8_t *wire, size_t size, uint8_t flags, uint8_t pattern,
                       const struct expected *expected)
{
    struct lq_frame_stream stream;
    struct lq_slab *kept[FRAMES_MAX];
    size_t kept_count = 0, found = 0, position = 0;
    bool refused = false;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, (flags & FLAG_SMALL) != 0 ? SLAB_LEAST : 4096);
    while (position < size && !refused) {
        uint8_t *at;
        size_t room;
        if (lq_frame_stream_room(&stream, &at, &room) != LIGHTQ_OK) {
            break;
        }
        assert(room > 0 && stream.slab->size <= 4u * size + (1u << 20)); /* follows what arrives */
        size_t chunk = 1u + (pattern * (position + 1)) % 97;
        chunk = chunk < room ? chunk : room;
        chunk = chunk < size - position ? chunk : size - position;
        memcpy(at, wire + position, chunk);
        lq_frame_stream_fed(&stream, chunk);
        position += chunk;
        struct lq_frame_in frame;
        struct lq_err err;
        lightq_status status;
        while ((status = lq_frame_stream_next(&stream, &frame, &err)) == LIGHTQ_OK) {
            assert(frame.head_size <= frame.size && (uint64_t)frame.offset + frame.size <= frame.slab->size);
            if (expected != NULL) {
                assert(found < expected->count && frame.type == expected->frame[found].type);
                assert(frame.size == expected->frame[found].size && frame.group == expected->frame[found].group);
                assert(memcmp(frame.slab->bytes + frame.offset, wire + expected->at[found], frame.size) == 0);
            }
            found++;
            if ((flags & FLAG_KEEP) != 0 && kept_count < FRAMES_MAX) {
                kept[kept_count++] = lq_slab_ref(frame.slab);
            }
        }
        refused = status == LIGHTQ_EPROTO;
        assert(refused || status == LIGHTQ_ENOTREADY);
    }
    assert(expected == NULL || (!refused && found == expected->count));
    lq_frame_stream_deinit(&stream);
    for (size_t i = 0; i < kept_count; i++) {
        lq_slab_unref(kept[i]);
    }
}

static void run_hello(const uint8_t *data, size_t size)
{
    struct lq_hello self = {.version_min = 1, .version_max = 1, .shards = 1, .node = 1}, hello;
    struct lq_hello_seen seen = {.uuid_known = false};
    struct lq_err err;
    memset(self.uuid.bytes, 1, sizeof self.uuid.bytes);
    for (int kind = LQ_HELLO_ASK; kind <= LQ_HELLO_ANSWER; kind++) {
        if (lq_hello_get(data, size, (enum lq_hello_kind)kind, &hello, &err) != LIGHTQ_OK) {
            continue;
        }
        uint8_t bytes[LQ_HELLO_BYTES_MAX];
        uint32_t encoded = lq_hello_put(bytes, &hello);
        assert(encoded <= size);
        if (lq_hello_judge(&self, &hello, &err) == LIGHTQ_OK) {
            assert(lq_hello_version(&self, &hello) == 1);
            assert(lq_hello_compare(&seen, &hello, &err) == LIGHTQ_OK);
            lq_hello_remember(&seen, &hello);
            assert(lq_hello_compare(&seen, &hello, &err) == LIGHTQ_OK);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    uint8_t flags = data[0], pattern = data[1];
    data += 2;
    size -= 2;
    if ((flags & FLAG_HELLO) != 0) {
        static const uint8_t magic[8] = "LQPEER";
        uint8_t hello[LQ_HELLO_BYTES_MAX + 1];
        size_t part = size < sizeof hello ? size : sizeof hello;
        memcpy(hello, data, part);
        if (part > sizeof magic) {
            memcpy(hello, magic, sizeof magic);
        }
        run_hello(hello, part);
        return 0;
    }
    if ((flags & FLAG_FRAMED) == 0) {
        run_stream(data, size, flags, pattern, NULL);
        return 0;
    }
    uint8_t *wire = malloc(size + FRAMES_MAX * LQ_FRAME_HEADER_BYTES);
    struct expected *expected = calloc(1, sizeof *expected);
    if (wire != NULL && expected != NULL) {
        size_t used = frame_up(data, size, wire, expected);
        run_stream(wire, used, flags, pattern, expected);
    }
    free(expected);
    free(wire);
    return 0;
}
