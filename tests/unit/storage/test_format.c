/* tests/unit/storage/test_format.c - entries: what is sealed is decoded, and everything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "storage/format.h"

#define PAYLOAD_BYTES 13
#define ROOM          256

struct fixture {
    uint8_t bytes[ROOM];
    struct lq_entry entry;
    uint64_t size;
    struct lq_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->entry = (struct lq_entry){
        .group = 0x1112131415161718,
        .index = 42,
        .term = 7,
        .prev_term = 6,
        .base_offset = 0xa1a2a3a4a5a6a7a8,
        .timestamp_ms = 1700000000123,
        .commit_index = 41,
        .type = LQ_ENTRY_COMMAND,
        .message_count = 3,
        .payload_size = PAYLOAD_BYTES,
    };
    memset(f->bytes, 0xee, sizeof f->bytes);
    memcpy(f->bytes + LQ_ENTRY_HEADER_BYTES, "hello, world!", PAYLOAD_BYTES);
    lq_entry_seal(f->bytes, &f->entry);
    f->size = lq_entry_size(PAYLOAD_BYTES);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* Makes the crc right again after a test has changed a field. */
static void reseal(uint8_t *bytes)
{
    lq_put_u32(bytes, lq_crc32c(0, bytes + 4, lq_get_u32(bytes + 4) - 4));
}

static void assert_refused(struct fixture *f, uint64_t available, bool check_crc, const char *because)
{
    struct lq_entry decoded;
    uint64_t size = 0;
    assert_int_equal(lq_entry_decode(f->bytes, available, check_crc, &decoded, &size, &f->err), LIGHTQ_ECORRUPT);
    assert_int_equal(f->err.status, LIGHTQ_ECORRUPT);
    assert_non_null(strstr(f->err.text, because));
    assert_int_equal(lq_entry_decode(f->bytes, available, check_crc, &decoded, &size, NULL), LIGHTQ_ECORRUPT);
}

static void test_format_sealed_entry_decodes_to_the_same(void **state)
{
    struct fixture *f = *state;
    struct lq_entry decoded;
    uint64_t size = 0;

    assert_int_equal(lq_entry_decode(f->bytes, f->size, true, &decoded, &size, &f->err), LIGHTQ_OK);

    assert_int_equal(size, f->size);
    assert_int_equal(size, 88);
    assert_int_equal(decoded.group, f->entry.group);
    assert_int_equal(decoded.index, f->entry.index);
    assert_int_equal(decoded.term, f->entry.term);
    assert_int_equal(decoded.prev_term, f->entry.prev_term);
    assert_int_equal(decoded.base_offset, f->entry.base_offset);
    assert_int_equal(decoded.timestamp_ms, f->entry.timestamp_ms);
    assert_int_equal(decoded.commit_index, f->entry.commit_index);
    assert_int_equal(decoded.type, LQ_ENTRY_COMMAND);
    assert_int_equal(decoded.flags, 0);
    assert_int_equal(decoded.message_count, 3);
    assert_int_equal(decoded.payload_size, PAYLOAD_BYTES);
    assert_ptr_equal(decoded.payload, f->bytes + LQ_ENTRY_HEADER_BYTES);
}

/* The bytes of version 1: a change here is a change of the format. */
static void test_format_sealed_bytes_are_those_of_version_1(void **state)
{
    struct fixture *f = *state;
    static const uint8_t expected[88] = {
        0,   0,   0,   0,   85,   0,    0,    0,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 42,   0,
        0,   0,   0,   0,   0,    0,    7,    0,    0,    0,    0,    0,    0,    0,    6,    0,    0,    0,
        0,   0,   0,   0,   0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 0x7b, 0x68, 0xe5, 0xcf, 0x8b, 0x01,
        0,   0,   41,  0,   0,    0,    0,    0,    0,    0,    1,    1,    0,    0,    3,    0,    0,    0,
        'h', 'e', 'l', 'l', 'o',  ',',  ' ',  'w',  'o',  'r',  'l',  'd',  '!',  0,    0,    0,
    };

    assert_memory_equal(f->bytes + 4, expected + 4, sizeof expected - 4);
    assert_int_equal(lq_get_u32(f->bytes), lq_crc32c(0, expected + 4, 81));
    assert_int_equal(f->bytes[88], 0xee); /* nothing is written behind it */
}

static void test_format_barrier_without_payload_decodes(void **state)
{
    struct fixture *f = *state;
    f->entry.type = LQ_ENTRY_BARRIER;
    f->entry.payload_size = 0;
    lq_entry_seal(f->bytes, &f->entry);
    struct lq_entry decoded;
    uint64_t size = 0;

    assert_int_equal(lq_entry_decode(f->bytes, LQ_ENTRY_HEADER_BYTES, true, &decoded, &size, &f->err), LIGHTQ_OK);

    assert_int_equal(size, LQ_ENTRY_HEADER_BYTES);
    assert_int_equal(decoded.type, LQ_ENTRY_BARRIER);
    assert_int_equal(decoded.payload_size, 0);
}

static void test_format_every_flipped_bit_is_refused(void **state)
{
    struct fixture *f = *state;
    for (size_t bit = 0; bit < f->size * 8; bit++) {
        struct lq_entry decoded;
        uint64_t size = 0;
        f->bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(lq_entry_decode(f->bytes, f->size, true, &decoded, &size, &f->err), LIGHTQ_ECORRUPT);
        f->bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

static void test_format_every_cut_is_refused(void **state)
{
    struct fixture *f = *state;
    for (uint64_t available = 0; available < f->size; available++) {
        /* Bytes that are exactly there, so that a sanitizer sees a read behind them. */
        uint8_t *bytes = malloc(available + 1);
        assert_non_null(bytes);
        memcpy(bytes, f->bytes, available);
        struct lq_entry decoded;
        uint64_t size = 0;
        lightq_status status = lq_entry_decode(bytes, available, true, &decoded, &size, &f->err);
        free(bytes);
        assert_int_equal(status, LIGHTQ_ECORRUPT);
        assert_non_null(strstr(f->err.text, "cut short"));
    }
}

static void test_format_wrong_crc_is_refused(void **state)
{
    struct fixture *f = *state;
    f->bytes[0] ^= 1;

    assert_refused(f, f->size, true, "crc mismatch");
}

static void test_format_wrong_crc_is_not_seen_when_not_asked(void **state)
{
    struct fixture *f = *state;
    f->bytes[0] ^= 1;
    struct lq_entry decoded;
    uint64_t size = 0;

    assert_int_equal(lq_entry_decode(f->bytes, f->size, false, &decoded, &size, &f->err), LIGHTQ_OK);
    assert_int_equal(decoded.index, 42);
}

static void test_format_length_below_header_is_refused(void **state)
{
    struct fixture *f = *state;
    lq_put_u32(f->bytes + 4, LQ_ENTRY_HEADER_BYTES - 1);
    reseal(f->bytes);

    assert_refused(f, f->size, true, "length 71");
}

static void test_format_length_above_limit_is_refused(void **state)
{
    struct fixture *f = *state;
    lq_put_u32(f->bytes + 4, LQ_ENTRY_BYTES_MAX + 1);

    assert_refused(f, UINT64_MAX, true, "length");
    lq_put_u32(f->bytes + 4, UINT32_MAX);
    assert_refused(f, UINT64_MAX, true, "length");
}

static void test_format_length_at_limit_needs_its_bytes(void **state)
{
    struct fixture *f = *state;
    lq_put_u32(f->bytes + 4, LQ_ENTRY_BYTES_MAX);

    assert_refused(f, f->size, true, "cut short");
}

static void test_format_unknown_version_is_refused(void **state)
{
    struct fixture *f = *state;
    f->bytes[65] = LQ_ENTRY_VERSION + 1;
    reseal(f->bytes);

    assert_refused(f, f->size, true, "version 2");
    assert_refused(f, f->size, false, "version 2");
}

static void test_format_unknown_type_is_refused(void **state)
{
    struct fixture *f = *state;
    static const uint8_t types[] = {0, LQ_ENTRY_CHANGE + 1, 255};
    for (size_t i = 0; i < sizeof types; i++) {
        f->bytes[64] = types[i];
        reseal(f->bytes);
        assert_refused(f, f->size, true, "unknown type");
    }
}

static void test_format_index_0_is_refused(void **state)
{
    struct fixture *f = *state;
    lq_put_u64(f->bytes + 16, 0);
    reseal(f->bytes);

    assert_refused(f, f->size, true, "index 0");
}

static void test_format_term_0_is_refused(void **state)
{
    struct fixture *f = *state;
    lq_put_u64(f->bytes + 24, 0);
    reseal(f->bytes);

    assert_refused(f, f->size, true, "term 0");
}

static void test_format_padding_not_zero_is_refused(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = LQ_ENTRY_HEADER_BYTES + PAYLOAD_BYTES; i < f->size; i++) {
        f->bytes[i] = 1;
        assert_refused(f, f->size, true, "padding");
        f->bytes[i] = 0;
    }
}

static void test_format_zeros_are_refused(void **state)
{
    struct fixture *f = *state;
    memset(f->bytes, 0, sizeof f->bytes);

    assert_refused(f, sizeof f->bytes, true, "length 0");
    assert_refused(f, sizeof f->bytes, false, "length 0");
}

static void test_format_size_is_padded_to_8(void **state)
{
    (void)state;
    assert_int_equal(lq_entry_size(0), 72);
    assert_int_equal(lq_entry_size(1), 80);
    assert_int_equal(lq_entry_size(8), 80);
    assert_int_equal(lq_entry_size(9), 88);
    assert_int_equal(lq_entry_size(UINT32_MAX), 4294967368ull);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_format_sealed_entry_decodes_to_the_same),
        TEST(test_format_sealed_bytes_are_those_of_version_1),
        TEST(test_format_barrier_without_payload_decodes),
        TEST(test_format_every_flipped_bit_is_refused),
        TEST(test_format_every_cut_is_refused),
        TEST(test_format_wrong_crc_is_refused),
        TEST(test_format_wrong_crc_is_not_seen_when_not_asked),
        TEST(test_format_length_below_header_is_refused),
        TEST(test_format_length_above_limit_is_refused),
        TEST(test_format_length_at_limit_needs_its_bytes),
        TEST(test_format_unknown_version_is_refused),
        TEST(test_format_unknown_type_is_refused),
        TEST(test_format_index_0_is_refused),
        TEST(test_format_term_0_is_refused),
        TEST(test_format_padding_not_zero_is_refused),
        TEST(test_format_zeros_are_refused),
        TEST(test_format_size_is_padded_to_8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
