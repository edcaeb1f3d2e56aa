/* tests/unit/raft/test_frame.c - cutting a stream into frames: any chunks, bounded memory, and each refusal; and the
 * bytes of a hello. */
#include <stdlib.h>

#include "client/base/crc.h"
#include "raft/hello.h"
#include "tests/unit/raft/rpc_fixture.h"

#include "raft/frame.h"

enum { SLAB = 4096 };

/* Writes a frame of @type with @size payload bytes, the first @head_size of them head. Returns its wire size. */
static size_t make_frame(uint8_t *at, enum lq_frame_type type, uint64_t group, uint32_t head_size, uint32_t size)
{
    struct lq_slab rest = {.size = size, .bytes = at + LQ_FRAME_HEADER_BYTES};
    uint8_t head[LQ_FRAME_HEAD_MAX];
    for (uint32_t i = 0; i < size; i++) {
        at[LQ_FRAME_HEADER_BYTES + i] = (uint8_t)(i * 31 + group);
    }
    memcpy(head, at + LQ_FRAME_HEADER_BYTES, head_size);
    struct lq_entry_ref entry = {.slab = &rest, .offset = head_size, .size = size - head_size};
    struct lq_frame frame = {.type = type, .group = group, .head = head, .head_size = head_size};
    if (type == LQ_FRAME_APPEND) {
        frame.entries = &entry;
        frame.entry_count = size == head_size ? 0 : 1;
    } else {
        frame.body = &rest;
        frame.body_offset = head_size;
        frame.body_size = size - head_size;
    }
    assert_int_equal(lq_frame_wire_size(&frame), LQ_FRAME_HEADER_BYTES + (uint64_t)size);
    lq_frame_put(at, &frame);
    return LQ_FRAME_HEADER_BYTES + size;
}

static void feed(struct lq_frame_stream *stream, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        uint8_t *at;
        size_t room;
        assert_int_equal(lq_frame_stream_room(stream, &at, &room), LIGHTQ_OK);
        size_t part = room < size ? room : size;
        memcpy(at, bytes, part);
        lq_frame_stream_fed(stream, part);
        bytes += part;
        size -= part;
    }
}

static void assert_frame(const struct lq_frame_in *frame, enum lq_frame_type type, uint64_t group, uint32_t size)
{
    assert_int_equal(frame->type, type);
    assert_int_equal(frame->group, group);
    assert_int_equal(frame->size, size);
    const uint8_t *at = frame->slab->bytes + frame->offset;
    for (uint32_t i = 0; i < size; i++) {
        if (at[i] != (uint8_t)(i * 31 + group)) {
            fail_msg("byte %u of a frame of group %llu is wrong", i, (unsigned long long)group);
        }
    }
}

/* ---- whole frames ---- */

static void test_frame_cut_at_every_byte_comes_out_the_same(void **state)
{
    (void)state;
    uint8_t bytes[2048];
    size_t size = make_frame(bytes, LQ_FRAME_VOTE, 1, 48, 48);
    size += make_frame(bytes + size, LQ_FRAME_NODE, 2, 0, 0);
    size += make_frame(bytes + size, LQ_FRAME_APPEND, 3, 64, 300);
    size += make_frame(bytes + size, LQ_FRAME_INSTALL, 4, 96, 500);

    for (size_t cut = 0; cut <= size; cut++) {
        struct lq_frame_stream stream;
        struct lq_frame_in frame;
        lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, 512); /* smaller than the last frame */
        const size_t parts[2] = {cut, size - cut};
        const uint32_t sizes[4] = {48, 0, 300, 500};
        const enum lq_frame_type types[4] = {LQ_FRAME_VOTE, LQ_FRAME_NODE, LQ_FRAME_APPEND, LQ_FRAME_INSTALL};
        unsigned found = 0;
        for (int part = 0; part < 2; part++) {
            feed(&stream, bytes + (part == 0 ? 0 : cut), parts[part]);
            while (lq_frame_stream_next(&stream, &frame, NULL) == LIGHTQ_OK) {
                assert_true(found < 4);
                assert_frame(&frame, types[found], found + 1, sizes[found]);
                found++;
            }
        }
        assert_int_equal(found, 4);
        assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_ENOTREADY);
        lq_frame_stream_deinit(&stream);
    }
}

static void test_frame_bytes_one_by_one_come_out_the_same(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(40000);
    assert_non_null(bytes);
    size_t size = 0;
    uint64_t count = 0;
    for (; size < 30000; count++) {
        size +=
            make_frame(bytes + size, LQ_FRAME_NODE, count, (uint32_t)(count % 50), (uint32_t)(count * 37 % 900) + 50);
    }
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
    uint64_t found = 0;

    for (size_t i = 0; i < size; i++) {
        feed(&stream, bytes + i, 1);
        while (lq_frame_stream_next(&stream, &frame, NULL) == LIGHTQ_OK) {
            assert_frame(&frame, LQ_FRAME_NODE, found, (uint32_t)(found * 37 % 900) + 50);
            found++;
        }
    }

    assert_int_equal(found, count);
    lq_frame_stream_deinit(&stream);
    free(bytes);
}

static void test_frame_that_is_kept_is_not_written_over(void **state)
{
    (void)state;
    enum { FRAMES = 50 };
    struct lq_frame_stream stream;
    struct lq_frame_in kept[FRAMES];
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 700];

    for (uint64_t i = 0; i < FRAMES; i++) {
        feed(&stream, bytes, make_frame(bytes, LQ_FRAME_NODE, i, 8, 700));
        assert_int_equal(lq_frame_stream_next(&stream, &kept[i], NULL), LIGHTQ_OK);
        lq_slab_ref(kept[i].slab);
    }
    lq_frame_stream_deinit(&stream);

    for (uint64_t i = 0; i < FRAMES; i++) {
        assert_frame(&kept[i], LQ_FRAME_NODE, i, 700);
        lq_slab_unref(kept[i].slab);
    }
}

static void test_frame_slab_is_used_again_when_nobody_keeps_it(void **state)
{
    (void)state;
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 700];
    feed(&stream, bytes, make_frame(bytes, LQ_FRAME_NODE, 0, 8, 700));
    const struct lq_slab *first = stream.slab;
    assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);

    for (uint64_t i = 1; i < 100; i++) {
        size_t size = make_frame(bytes, LQ_FRAME_NODE, i, 8, 700);
        feed(&stream, bytes, size / 2); /* also with a beginning to be moved */
        feed(&stream, bytes + size / 2, size - size / 2);
        assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
        assert_frame(&frame, LQ_FRAME_NODE, i, 700);
    }

    assert_ptr_equal(stream.slab, first);
    lq_frame_stream_deinit(&stream);
}

/* ---- memory ---- */

/* Cases J9, L7: what a length claims is not allocated before it is there. */
static void test_frame_memory_follows_what_arrives_not_what_is_claimed(void **state)
{
    (void)state;
    enum { MIB = 1024 * 1024, CHUNK = 64 * 1024 };
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, 256 * 1024);
    uint8_t *chunk = calloc(1, CHUNK);
    assert_non_null(chunk);
    uint8_t header[LQ_FRAME_HEADER_BYTES] = {0};
    lq_put_u32(header, LQ_PEER_FRAME_BYTES_MAX);
    header[4] = LQ_FRAME_APPEND;
    lq_put_u32(header + 20, lq_crc32c(0, header, 20));

    feed(&stream, header, sizeof header);
    size_t arrived = sizeof header;
    while (arrived < sizeof header + LQ_PEER_FRAME_BYTES_MAX) {
        assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_ENOTREADY);
        uint8_t *at;
        size_t room;
        assert_int_equal(lq_frame_stream_room(&stream, &at, &room), LIGHTQ_OK);
        size_t most = 4 * arrived > MIB ? 4 * arrived : MIB;
        assert_true(stream.slab->size <= most);
        size_t left = sizeof header + LQ_PEER_FRAME_BYTES_MAX - arrived;
        size_t part = left < CHUNK ? left : CHUNK;
        feed(&stream, chunk, part);
        arrived += part;
    }
    assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
    assert_int_equal(frame.size, LQ_PEER_FRAME_BYTES_MAX);

    uint8_t *at; /* and the large slab does not stay */
    size_t room;
    assert_int_equal(lq_frame_stream_room(&stream, &at, &room), LIGHTQ_OK);
    assert_int_equal(stream.slab->size, 256 * 1024);
    lq_frame_stream_deinit(&stream);
    free(chunk);
}

/* What is kept of a stream is the entries; heartbeats between them must not be kept with them. */
static void test_frame_small_appends_keep_little_more_than_themselves(void **state)
{
    (void)state;
    enum { APPENDS = 500, SLAB_BYTES = 256 * 1024 };
    struct lq_frame_stream stream;
    struct lq_frame_in frame, kept[APPENDS];
    uint8_t *bytes = malloc(70000);
    assert_non_null(bytes);
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB_BYTES);
    uint64_t kept_bytes = 0, slab_bytes = 0;

    for (uint64_t i = 0; i < APPENDS; i++) {
        feed(&stream, bytes, make_frame(bytes, LQ_FRAME_HEARTBEATS, 0, 8, 60000));
        assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
        feed(&stream, bytes, make_frame(bytes, LQ_FRAME_APPEND, i, 64, 400));
        assert_int_equal(lq_frame_stream_next(&stream, &kept[i], NULL), LIGHTQ_OK);
        lq_slab_ref(kept[i].slab);
        kept_bytes += kept[i].size;
        slab_bytes += i == 0 || kept[i].slab != kept[i - 1].slab ? kept[i].slab->size : 0;
    }
    lq_frame_stream_deinit(&stream);

    assert_true(slab_bytes < 2 * kept_bytes);
    for (uint64_t i = 0; i < APPENDS; i++) {
        assert_frame(&kept[i], LQ_FRAME_APPEND, i, 400);
        lq_slab_unref(kept[i].slab);
    }
    free(bytes);
}

static void test_frame_small_appends_that_are_not_kept_use_one_slab(void **state)
{
    (void)state;
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 500];
    const struct lq_slab *first = NULL;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
    for (uint64_t i = 0; i < 100; i++) {
        feed(&stream, bytes, make_frame(bytes, LQ_FRAME_APPEND, i, 64, 500));
        assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
        assert_frame(&frame, LQ_FRAME_APPEND, i, 500);
        first = first == NULL ? frame.slab : first;
        assert_ptr_equal(frame.slab, first);
    }
    lq_frame_stream_deinit(&stream);
}

static void test_frame_stream_that_is_not_read_still_gives_room(void **state)
{
    (void)state;
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, 128);
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 40];
    for (uint64_t i = 0; i < 100; i++) {
        feed(&stream, bytes, make_frame(bytes, LQ_FRAME_NODE, i, 8, 40));
    }
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
        assert_frame(&frame, LQ_FRAME_NODE, i, 40);
    }
    lq_frame_stream_deinit(&stream);
}

/* ---- refusals ---- */

static void expect_refused(const uint8_t *bytes, size_t size, uint32_t limit, const char *text)
{
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    struct lq_err err = {.text = ""};
    lq_frame_stream_init(&stream, limit, SLAB);
    feed(&stream, bytes, size);
    assert_int_equal(lq_frame_stream_next(&stream, &frame, &err), LIGHTQ_EPROTO);
    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' does not speak of '%s'", err.text, text);
    }
    lq_frame_stream_deinit(&stream);
}

static void test_frame_header_that_is_bad_is_refused_before_the_payload(void **state)
{
    (void)state;
    uint8_t good[LQ_FRAME_HEADER_BYTES + 100], bad[sizeof good];
    make_frame(good, LQ_FRAME_VOTE, 1, 48, 100);
    const uint32_t limit = LQ_PEER_FRAME_BYTES_MAX;
#define TAMPERED(...) (memcpy(bad, good, sizeof good), __VA_ARGS__, bad)
    expect_refused(TAMPERED(bad[4] = 0), LQ_FRAME_HEADER_BYTES, limit, "0 is not a type");
    expect_refused(TAMPERED(bad[4] = 11), LQ_FRAME_HEADER_BYTES, limit, "11 is not a type");
    expect_refused(TAMPERED(bad[4] = 255), LQ_FRAME_HEADER_BYTES, limit, "255 is not a type");
    expect_refused(TAMPERED(bad[5] = 1), LQ_FRAME_HEADER_BYTES, limit, "reserved");
    expect_refused(TAMPERED(bad[7] = 1), LQ_FRAME_HEADER_BYTES, limit, "reserved");
    expect_refused(TAMPERED(lq_put_u32(bad, LQ_FRAME_HEAD_MAX + 1)), LQ_FRAME_HEADER_BYTES, limit,
                   "2049 bytes, above the limit of 2048");
    expect_refused(TAMPERED(lq_put_u32(bad, UINT32_MAX)), LQ_FRAME_HEADER_BYTES, limit, "4294967295 bytes, above");
    expect_refused(TAMPERED(lq_put_u32(bad, 1u << 31)), LQ_FRAME_HEADER_BYTES, limit, "2147483648 bytes, above");
    expect_refused(TAMPERED(lq_put_u32(bad + 16, 101)), LQ_FRAME_HEADER_BYTES, limit, "a head of 101 bytes");
    expect_refused(TAMPERED(lq_put_u32(bad + 16, UINT32_MAX)), LQ_FRAME_HEADER_BYTES, limit, "a head of 4294967295");
    expect_refused(good, LQ_FRAME_HEADER_BYTES, 99, "100 bytes, above the limit of 99");
    expect_refused(TAMPERED(bad[4] = LQ_FRAME_APPEND, lq_put_u32(bad, LQ_PEER_FRAME_BYTES_MAX + 1)),
                   LQ_FRAME_HEADER_BYTES, UINT32_MAX, "above the limit");
#undef TAMPERED
}

static void test_frame_with_any_bit_flipped_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 60];
    const size_t size = make_frame(bytes, LQ_FRAME_NODE, 1, 20, 60);
    for (size_t bit = 0; bit < size * 8; bit++) {
        struct lq_frame_stream stream;
        struct lq_frame_in frame;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
        feed(&stream, bytes, size);
        lightq_status status = lq_frame_stream_next(&stream, &frame, NULL);
        bool longer = bit < 32 && lq_get_u32(bytes) > 60; /* it waits for more */
        assert_int_equal(status, longer && lq_get_u32(bytes) <= lq_frame_payload_max(LQ_FRAME_NODE) ? LIGHTQ_ENOTREADY
                                                                                                    : LIGHTQ_EPROTO);
        lq_frame_stream_deinit(&stream);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_frame_crc_leaves_out_the_entries(void **state)
{
    (void)state;
    uint8_t bytes[LQ_FRAME_HEADER_BYTES + 200];
    size_t size = make_frame(bytes, LQ_FRAME_APPEND, 1, 64, 200);
    bytes[LQ_FRAME_HEADER_BYTES + 63] ^= 1;
    expect_refused(bytes, size, LQ_PEER_FRAME_BYTES_MAX, "append frame: its crc is wrong");
    bytes[LQ_FRAME_HEADER_BYTES + 63] ^= 1;
    bytes[LQ_FRAME_HEADER_BYTES + 64] ^= 1; /* the entry's own crc is for that */

    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    lq_frame_stream_init(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
    feed(&stream, bytes, size);
    assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
    lq_frame_stream_deinit(&stream);
}

static void test_frame_limits_widen_after_the_hello(void **state)
{
    (void)state;
    uint8_t bytes[8192];
    struct lq_frame_stream stream;
    struct lq_frame_in frame;
    lq_frame_stream_init(&stream, 100, 128);
    size_t size = make_frame(bytes, LQ_FRAME_HELLO, 0, 100, 100);
    size += make_frame(bytes + size, LQ_FRAME_NODE, 7, 10, 5000);
    feed(&stream, bytes, size); /* both came at once */

    assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);
    lq_frame_stream_widen(&stream, LQ_PEER_FRAME_BYTES_MAX, SLAB);
    assert_int_equal(lq_frame_stream_next(&stream, &frame, NULL), LIGHTQ_OK);

    assert_frame(&frame, LQ_FRAME_NODE, 7, 5000);
    lq_frame_stream_deinit(&stream);
}

static void test_frame_names_and_limits_cover_every_type(void **state)
{
    (void)state;
    for (int type = LQ_FRAME_HELLO; type <= LQ_FRAME_NODE; type++) {
        assert_string_not_equal(lq_frame_name((enum lq_frame_type)type), "unknown");
        assert_true(lq_frame_payload_max((enum lq_frame_type)type) > 0);
    }
    assert_string_equal(lq_frame_name((enum lq_frame_type)0), "unknown");
    assert_string_equal(lq_frame_name((enum lq_frame_type)11), "unknown");
    assert_int_equal(lq_frame_payload_max((enum lq_frame_type)99), 0);
}

/* ---- hello ---- */

static struct lq_hello sample_hello(void)
{
    struct lq_hello hello = {.kind = LQ_HELLO_ANSWER,
                             .version_min = 1,
                             .version_max = 1,
                             .status = LIGHTQ_EIDENTITY,
                             .shard = 2,
                             .shards = 3,
                             .node = 65535,
                             .to = 4,
                             .boot_count = UINT64_MAX,
                             .boot_nonce = 5,
                             .admission = 0xcccccccc,
                             .text = "not you"};
    memset(hello.cluster.bytes, 0xaa, sizeof hello.cluster.bytes);
    memset(hello.uuid.bytes, 0xbb, sizeof hello.uuid.bytes);
    return hello;
}

static void test_hello_comes_out_the_same(void **state)
{
    (void)state;
    struct lq_hello hello = sample_hello(), back;
    memset(hello.text, 't', sizeof hello.text - 1); /* the longest */
    uint8_t bytes[LQ_HELLO_BYTES_MAX];

    uint32_t size = lq_hello_put(bytes, &hello);
    assert_int_equal(lq_hello_get(bytes, size, LQ_HELLO_ANSWER, &back, NULL), LIGHTQ_OK);

    assert_int_equal(size, LQ_HELLO_FIXED_BYTES + LQ_ERR_TEXT_BYTES - 1 + 4);
    assert_int_equal(back.admission, 0xcccccccc);
    assert_int_equal(back.kind, hello.kind);
    assert_int_equal(back.status, hello.status);
    assert_int_equal(back.shard, 2);
    assert_int_equal(back.shards, 3);
    assert_int_equal(back.node, 65535);
    assert_int_equal(back.to, 4);
    assert_true(lq_id_equal(&back.cluster, &hello.cluster));
    assert_true(lq_id_equal(&back.uuid, &hello.uuid));
    assert_int_equal(back.boot_count, hello.boot_count);
    assert_int_equal(back.boot_nonce, 5);
    assert_string_equal(back.text, hello.text);

    memset(bytes + size, 0xcc, sizeof bytes - size); /* what a later version may add */
    assert_int_equal(lq_hello_get(bytes, sizeof bytes, LQ_HELLO_ANSWER, &back, NULL), LIGHTQ_OK);
    assert_string_equal(back.text, hello.text);
}

static void expect_hello_refused(const uint8_t *bytes, size_t size, enum lq_hello_kind kind, const char *text)
{
    struct lq_hello hello;
    struct lq_err err = {.text = ""};
    uint8_t *exact = malloc(size == 0 ? 1 : size); /* so that a sanitizer sees a read past the end */
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    assert_int_equal(lq_hello_get(exact, size, kind, &hello, &err), LIGHTQ_EPROTO);
    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' does not speak of '%s'", err.text, text);
    }
    free(exact);
}

static void test_hello_that_is_bad_is_refused(void **state)
{
    (void)state;
    struct lq_hello hello = sample_hello();
    hello.admission = 0; /* it may be left out */
    uint8_t good[LQ_HELLO_BYTES_MAX], bad[LQ_HELLO_BYTES_MAX];
    uint32_t size = lq_hello_put(good, &hello);

    for (size_t cut = 0; cut < size; cut++) {
        expect_hello_refused(good, cut, LQ_HELLO_ANSWER, "hello: ");
    }
    expect_hello_refused(good, size, LQ_HELLO_ASK, "of kind 2, not 1");
#define TAMPERED(...) (memcpy(bad, good, size), __VA_ARGS__, bad)
    expect_hello_refused(TAMPERED(bad[0] = 'X'), size, LQ_HELLO_ANSWER, "the port of another service");
    expect_hello_refused(TAMPERED(bad[9] = 0), size, LQ_HELLO_ANSWER, "versions 0 to 1");
    expect_hello_refused(TAMPERED(bad[9] = 2), size, LQ_HELLO_ANSWER, "versions 2 to 1");
    expect_hello_refused(TAMPERED(lq_put_u16(bad + 80, UINT16_MAX)), size, LQ_HELLO_ANSWER, "a text of 65535");
    expect_hello_refused(TAMPERED(lq_put_u32(bad + 20, 0)), size, LQ_HELLO_ANSWER, "0 is not a node id");
    expect_hello_refused(TAMPERED(lq_put_u32(bad + 20, 65536)), size, LQ_HELLO_ANSWER, "65536 is not a node id");
    expect_hello_refused(TAMPERED(memset(bad + 48, 0, 16)), size, LQ_HELLO_ANSWER, "has no uuid");
    expect_hello_refused(TAMPERED(lq_put_u16(bad + 14, 3)), size, LQ_HELLO_ANSWER, "shard 3 of 3");
    expect_hello_refused(TAMPERED(bad[8] = LQ_HELLO_ASK), size, LQ_HELLO_ASK, "status 21");
    expect_hello_refused(TAMPERED(bad[8] = LQ_HELLO_ASK, lq_put_u16(bad + 12, 0), bad[11] = 1), size, LQ_HELLO_ASK,
                         "to node 4"); /* a probe means nobody */
#undef TAMPERED
    memset(bad, 0, sizeof bad);
    expect_hello_refused(bad, sizeof bad, LQ_HELLO_ASK, "does not begin like one");
}

static void test_hello_version_is_the_highest_of_both(void **state)
{
    (void)state;
    struct lq_hello self = sample_hello(), other = sample_hello();
    self.version_min = 2, self.version_max = 5;
    other.node = 3, other.version_min = 1, other.version_max = 3;
    memset(other.uuid.bytes, 1, sizeof other.uuid.bytes);

    assert_int_equal(lq_hello_judge(&self, &other, NULL), LIGHTQ_OK);
    assert_int_equal(lq_hello_version(&self, &other), 3);
    other.version_max = 9;
    assert_int_equal(lq_hello_version(&self, &other), 5);
    other.version_max = 1;
    assert_int_equal(lq_hello_judge(&self, &other, NULL), LIGHTQ_EVERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_cut_at_every_byte_comes_out_the_same),
        cmocka_unit_test(test_frame_bytes_one_by_one_come_out_the_same),
        cmocka_unit_test(test_frame_that_is_kept_is_not_written_over),
        cmocka_unit_test(test_frame_slab_is_used_again_when_nobody_keeps_it),
        cmocka_unit_test(test_frame_memory_follows_what_arrives_not_what_is_claimed),
        cmocka_unit_test(test_frame_small_appends_keep_little_more_than_themselves),
        cmocka_unit_test(test_frame_small_appends_that_are_not_kept_use_one_slab),
        cmocka_unit_test(test_frame_stream_that_is_not_read_still_gives_room),
        cmocka_unit_test(test_frame_header_that_is_bad_is_refused_before_the_payload),
        cmocka_unit_test(test_frame_with_any_bit_flipped_is_refused),
        cmocka_unit_test(test_frame_crc_leaves_out_the_entries),
        cmocka_unit_test(test_frame_limits_widen_after_the_hello),
        cmocka_unit_test(test_frame_names_and_limits_cover_every_type),
        cmocka_unit_test(test_hello_comes_out_the_same),
        cmocka_unit_test(test_hello_that_is_bad_is_refused),
        cmocka_unit_test(test_hello_version_is_the_highest_of_both),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
