/* tests/unit/wire/test_batch_check.c - every way in which a batch can be wrong, before the broker and the reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/wire/batch.h"
#include "client/wire/batch_layout.h"
#include "tests/lib/alloc_fail.h"

#define BASE_MS       UINT64_C(1700000000000)
#define NULL_SPAN     ((struct lq_span){.bytes = NULL})
#define SPAN(literal) lq_span_of((literal), sizeof(literal) - 1)
#define VALUE_SIZE    300

struct fixture {
    uint8_t *bytes;
    size_t size;
    struct lq_batch_summary summary;
    struct lq_batch_scratch scratch;
    struct lq_err err;
};

/* A batch of three records: 3, 300 and 9 bytes as messages; the second has a key and a header. */
static struct lq_slab *good_batch(enum lq_codec_kind codec)
{
    uint8_t value[VALUE_SIZE - 7] = {1, 2, 3};
    const struct lq_record_header header = {SPAN("name"), SPAN("")};
    struct lq_batch_writer writer;
    struct lq_slab *slab;
    lq_batch_writer_init(&writer, 100000);
    assert_int_equal(lq_batch_writer_add(&writer, BASE_MS, NULL_SPAN, SPAN("abc"), NULL, 0), LIGHTQ_OK);
    assert_int_equal(
        lq_batch_writer_add(&writer, BASE_MS + 9, SPAN("key"), lq_span_of(value, sizeof value), &header, 1), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_add(&writer, BASE_MS + 1, NULL_SPAN, SPAN("123456789"), NULL, 0), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_seal(&writer, 7, 1, 100, codec, &slab), LIGHTQ_OK);
    lq_batch_writer_deinit(&writer);
    return slab;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct lq_slab *slab = good_batch(LQ_BATCH_PLAIN);
    f->size = slab->size;
    f->bytes = malloc(f->size);
    memcpy(f->bytes, slab->bytes, f->size);
    lq_slab_unref(slab);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    lq_batch_scratch_deinit(&f->scratch);
    free(f->bytes);
    free(f);
    return 0;
}

static void sign(struct fixture *f)
{
    lq_put_u32(f->bytes + LQ_BATCH_AT_CRC, lq_crc32c(0, f->bytes + 8, f->size - 8));
}

/* What the broker's check says; what the reader says must be the same sort of thing. */
static lightq_status check(struct fixture *f)
{
    lightq_status status = lq_batch_check(f->bytes, f->size, NULL, &f->scratch, &f->summary, &f->err);
    assert_int_equal(lq_batch_check(f->bytes, f->size, NULL, &f->scratch, &f->summary, NULL), status);
    struct lq_batch batch;
    lightq_status opened = lq_batch_open(&batch, f->bytes, f->size, NULL);
    if (opened == LIGHTQ_OK) {
        struct lq_record record;
        do {
            opened = lq_batch_next(&batch, &record);
        } while (opened == LIGHTQ_OK);
        assert_int_equal(lq_batch_next(&batch, &record), opened); /* it stays so */
        opened = opened == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : opened;
        lq_batch_close(&batch);
    }
    assert_int_equal(opened, status);
    return status;
}

/* Replaces the records by @size bytes of @records, @count of them as the header says, signed. */
static void set_records(struct fixture *f, const void *records, size_t size, uint32_t count, int64_t max_delta_ms)
{
    f->size = LQ_BATCH_HEADER_BYTES + size;
    f->bytes = realloc(f->bytes, f->size);
    memcpy(f->bytes + LQ_BATCH_HEADER_BYTES, records, size);
    lq_put_u32(f->bytes + LQ_BATCH_AT_LENGTH, (uint32_t)f->size);
    lq_put_u32(f->bytes + LQ_BATCH_AT_RECORDS_LENGTH, (uint32_t)size);
    lq_put_u32(f->bytes + LQ_BATCH_AT_RECORD_COUNT, count);
    lq_put_u64(f->bytes + LQ_BATCH_AT_MAX_DELTA, (uint64_t)max_delta_ms);
    sign(f);
}

static void test_check_good_batch_gives_count_and_sizes(void **state)
{
    struct fixture *f = *state;
    for (enum lq_codec_kind codec = LQ_BATCH_PLAIN; codec <= LQ_BATCH_ZSTD; codec++) {
        struct lq_slab *slab = good_batch(codec);
        assert_int_equal(slab->bytes[LQ_BATCH_AT_CODEC], codec);
        assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, &f->scratch, &f->summary, &f->err), LIGHTQ_OK);
        assert_int_equal(f->summary.head.record_count, 3);
        assert_int_equal(f->summary.head.producer_id, 7);
        assert_int_equal(f->summary.head.base_sequence, 100);
        assert_int_equal(f->summary.head.size, slab->size);
        assert_int_equal(f->summary.head.crc, lq_get_u32(slab->bytes + 4));
        assert_int_equal(f->summary.message_bytes, 3 + VALUE_SIZE + 9);
        assert_int_equal(f->summary.largest_message_bytes, VALUE_SIZE);
        assert_int_equal(f->summary.largest_index, 1);
        lq_slab_unref(slab);
    }
}

static void test_check_plain_batch_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    lq_alloc_fail_at(1);
    lightq_status status = lq_batch_check(f->bytes, f->size, NULL, NULL, &f->summary, NULL);
    assert_false(lq_alloc_fail_end());
    assert_int_equal(status, LIGHTQ_OK);
}

static void test_check_with_any_bit_turned_is_refused(void **state)
{
    struct fixture *f = *state;
    for (size_t bit = 0; bit < f->size * 8; bit++) {
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(check(f), LIGHTQ_OK);
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(check(f), LIGHTQ_OK);
}

static void test_check_of_any_other_length_is_eproto(void **state)
{
    struct fixture *f = *state;
    size_t whole = f->size;
    for (f->size = 0; f->size < whole; f->size++) {
        uint8_t *bytes = f->bytes;
        f->bytes = malloc(f->size + 1);
        memcpy(f->bytes, bytes, f->size);
        assert_int_equal(check(f), LIGHTQ_EPROTO);
        free(f->bytes);
        f->bytes = bytes;
    }
    f->bytes = realloc(f->bytes, whole + 1);
    f->bytes[whole] = 0;
    f->size = whole + 1;
    assert_int_equal(check(f), LIGHTQ_EPROTO);
}

static void test_check_named_errors_of_the_header(void **state)
{
    struct fixture *f = *state;
    static const struct {
        size_t at;
        unsigned width;
        uint64_t value;
        lightq_status status;
        const char *text;
    } rows[] = {
        {LQ_BATCH_AT_MAGIC, 4, 0, LIGHTQ_EPROTO, "the batch does not begin with LQRB"},
        {LQ_BATCH_AT_VERSION, 1, 2, LIGHTQ_EVERSION, "a batch of version 2, and only 1 is known here"},
        {LQ_BATCH_AT_CODEC, 1, 3, LIGHTQ_EVERSION, "a batch with the unknown codec 3"},
        {LQ_BATCH_AT_ATTRIBUTES, 2, 1, LIGHTQ_EPROTO, "a batch with attributes or reserved bytes that are not 0"},
        {LQ_BATCH_AT_RESERVED, 4, 1, LIGHTQ_EPROTO, "a batch with attributes or reserved bytes that are not 0"},
        {LQ_BATCH_AT_RECORD_COUNT, 4, 0, LIGHTQ_EPROTO, "a batch without records"},
        {LQ_BATCH_AT_RECORD_COUNT, 4, 65537, LIGHTQ_ETOOBIG, "a batch of 65537 records, and 65536 are allowed"},
        {LQ_BATCH_AT_RECORD_COUNT, 4, 65536, LIGHTQ_EPROTO, "a batch of 65536 records in 334 bytes"},
        {LQ_BATCH_AT_BASE_SEQUENCE, 8, UINT64_MAX - 2, LIGHTQ_EPROTO, "a batch with times or sequences out of range"},
        {LQ_BATCH_AT_BASE_TIMESTAMP, 8, (UINT64_C(1) << 61) + 1, LIGHTQ_EPROTO,
         "a batch with times or sequences out of range"},
        {LQ_BATCH_AT_MAX_DELTA, 8, UINT64_C(1) << 61, LIGHTQ_EPROTO, "a batch with times or sequences out of range"},
        {LQ_BATCH_AT_MAX_DELTA, 8, UINT64_C(1) << 63, LIGHTQ_EPROTO, "a batch with times or sequences out of range"},
        {LQ_BATCH_AT_MAX_DELTA, 8, 10, LIGHTQ_EPROTO, "the batch's largest time is not that of its records"},
        {LQ_BATCH_AT_RECORDS_LENGTH, 4, 333, LIGHTQ_EPROTO, "a batch of 398 bytes with 333 bytes of records"},
    };
    uint8_t good[LQ_BATCH_HEADER_BYTES];
    memcpy(good, f->bytes, sizeof good);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memcpy(f->bytes + rows[i].at, &rows[i].value, rows[i].width);
        sign(f);
        lightq_status status = lq_batch_check(f->bytes, f->size, NULL, NULL, &f->summary, &f->err);
        assert_int_equal(status, rows[i].status);
        assert_string_equal(f->err.text, rows[i].text);
        memcpy(f->bytes, good, sizeof good);
    }
    f->bytes[f->size - 2] ^= 1; /* not signed */
    assert_int_equal(check(f), LIGHTQ_EPROTO);
    assert_non_null(strstr(f->err.text, "the batch's crc is wrong: "));
}

static void test_check_records_that_are_not_sound_are_eproto(void **state)
{
    struct fixture *f = *state;
#define BYTES(literal) (literal), sizeof(literal) - 1
    static const struct {
        const char *records;
        size_t size;
        const char *why;
    } rows[] = {
        {BYTES("\x06\0\0\x01\x01\0"), "the record is longer than the batch"},
        {BYTES("\x04\0\0\x01\x01\0"), "the record is shorter than its fields"},
        {BYTES("\x00\0\0\x01\x01\0"), "a record of no bytes"},
        {BYTES("\x05\1\0\x01\x01\0"), "flags that are not 0"},
        {BYTES("\x05\0\0\x01\x01\1"), "a header that is not there"},
        {BYTES("\x05\0\0\x03\x01\0"), "a key of length -2"},
        {BYTES("\x05\0\0\x01\x05\0"), "a value of length -3"},
        {BYTES("\x05\0\0\x08\x01\0"), "a key longer than the record"},
        {BYTES("\x05\0\0\x01\x04\0"), "a value longer than the record"},
        {BYTES("\x06\0\0\x01\x01\0\0"), "a byte behind the record's fields"},
        {BYTES("\x05\0\0\x01\x01\0\0"), "a byte behind the last record"},
        {BYTES("\x06\0\0\x01\x01\x80\x00"), "an overlong varint"},
        {BYTES("\x05\0\x80\x80\x80\x80\0"), "a varint that does not end in the record"},
        {BYTES("\x07\0\0\x01\x01\1\x02\0"), "a header's name longer than the record"},
        {BYTES("\x07\0\0\x01\x01\1\0\x03"), "a header's value of length -2"},
        {BYTES("\x10\0\0\x01\x01\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0"), "a header's name of 2^64 - 1 bytes"},
        {BYTES("\x0e\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\x01\0"), "a key of 2^63 - 1 bytes"},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\x01\x01\0"), "a record of 2^64 - 1 bytes"},
        {BYTES("\x0e\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x01\x01\0"), "a time of -2^63"},
        {BYTES("\x0b\0\xff\xff\xff\xff\xff\xff\x7f\x01\x01\0"), "a time before 1970"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_records(f, rows[i].records, rows[i].size, 1, 0);
        if (check(f) != LIGHTQ_EPROTO) {
            fail_msg("not refused: %s", rows[i].why);
        }
    }
    set_records(f, BYTES("\x05\0\0\x01\x01\0"), 1, 0);
    assert_int_equal(check(f), LIGHTQ_OK); /* what all of them are made from */
    set_records(f, BYTES("\x05\0\0\x01\x01\0\x05\0\0\x01\x03\0"), 2, 0);
    assert_int_equal(check(f), LIGHTQ_EPROTO);
    assert_string_equal(f->err.text, "record 1 of the batch is not sound");
}

static void test_check_too_many_headers_are_eproto(void **state)
{
    struct fixture *f = *state;
    uint8_t record[3 + 6 + 2 * (LQ_HEADERS_MAX + 1)] = {0};
    for (size_t count = LQ_HEADERS_MAX; count <= LQ_HEADERS_MAX + 1; count++) {
        size_t length = 6 + 2 * count; /* flags, delta, key, value, count in two bytes */
        size_t at = 0;
        record[at++] = (uint8_t)(length | 0x80);
        record[at++] = (uint8_t)(length >> 7);
        record[at++] = 0;
        record[at++] = 0;
        record[at++] = 1;
        record[at++] = 1;
        record[at++] = (uint8_t)(count | 0x80);
        record[at++] = (uint8_t)(count >> 7);
        set_records(f, record, 2 + length, 1, 0);
        assert_int_equal(check(f), count == LQ_HEADERS_MAX ? LIGHTQ_OK : LIGHTQ_EPROTO);
    }
}

static void test_check_message_above_the_limit_is_named(void **state)
{
    struct fixture *f = *state;
    struct lq_batch_limits limits = {.message_bytes_max = VALUE_SIZE};
    assert_int_equal(lq_batch_check(f->bytes, f->size, &limits, NULL, &f->summary, &f->err), LIGHTQ_OK);
    limits.message_bytes_max--;
    assert_int_equal(lq_batch_check(f->bytes, f->size, &limits, NULL, &f->summary, &f->err), LIGHTQ_ETOOBIG);
    assert_string_equal(f->err.text, "message 1 of the batch has 300 bytes, above the limit of 299");
    assert_int_equal(f->summary.largest_index, 1);
    assert_int_equal(f->summary.head.record_count, 3);
}

static void test_check_batch_above_the_limit_is_etoobig(void **state)
{
    struct fixture *f = *state;
    struct lq_batch_limits limits = {.batch_bytes_max = f->size};
    assert_int_equal(lq_batch_check(f->bytes, f->size, &limits, NULL, &f->summary, &f->err), LIGHTQ_OK);
    limits.batch_bytes_max--;
    assert_int_equal(lq_batch_check(f->bytes, f->size, &limits, NULL, &f->summary, &f->err), LIGHTQ_ETOOBIG);
    struct lq_slab *slab = good_batch(LQ_BATCH_ZSTD); /* small enough itself, but not unpacked */
    assert_true(slab->size < limits.batch_bytes_max);
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, &limits, &f->scratch, &f->summary, &f->err),
                     LIGHTQ_ETOOBIG);
    assert_int_equal(f->scratch.capacity, 0); /* nothing was allocated for it */
    lq_slab_unref(slab);
}

static void test_check_compressed_without_scratch_is_eunsupported(void **state)
{
    struct fixture *f = *state;
    struct lq_slab *slab = good_batch(LQ_BATCH_LZ4);
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, NULL, &f->summary, &f->err), LIGHTQ_EUNSUPPORTED);
    lq_slab_unref(slab);
}

static void test_check_compressed_that_does_not_unpack_is_eproto(void **state)
{
    struct fixture *f = *state;
    for (enum lq_codec_kind codec = LQ_BATCH_LZ4; codec <= LQ_BATCH_ZSTD; codec++) {
        struct lq_slab *slab = good_batch(codec);
        free(f->bytes);
        f->size = slab->size;
        f->bytes = malloc(f->size);
        memcpy(f->bytes, slab->bytes, f->size);
        lq_slab_unref(slab);
        assert_int_equal(check(f), LIGHTQ_OK);
        uint32_t records_size = lq_get_u32(f->bytes + LQ_BATCH_AT_RECORDS_LENGTH);
        static const int off[] = {-1, 1, 1000000};
        for (size_t i = 0; i < 3; i++) { /* another length than it unpacks to */
            lq_put_u32(f->bytes + LQ_BATCH_AT_RECORDS_LENGTH, records_size + (uint32_t)off[i]);
            sign(f);
            assert_int_equal(check(f), LIGHTQ_EPROTO);
            assert_non_null(strstr(f->err.text, "compressed records are not"));
        }
        lq_put_u32(f->bytes + LQ_BATCH_AT_RECORDS_LENGTH, UINT32_MAX); /* more than any batch may have */
        sign(f);
        assert_int_equal(check(f), LIGHTQ_ETOOBIG);
        lq_put_u32(f->bytes + LQ_BATCH_AT_RECORDS_LENGTH, records_size);
        memset(f->bytes + LQ_BATCH_HEADER_BYTES, 0xff, f->size - LQ_BATCH_HEADER_BYTES);
        sign(f);
        assert_int_equal(check(f), LIGHTQ_EPROTO);
    }
}

static void test_check_compressed_without_memory_is_enomem(void **state)
{
    struct fixture *f = *state;
    struct lq_slab *slab = good_batch(LQ_BATCH_LZ4);
    lq_alloc_fail_at(1);
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, &f->scratch, &f->summary, &f->err), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, &f->scratch, &f->summary, &f->err), LIGHTQ_OK);
    lq_alloc_fail_at(1); /* the scratch is large enough now */
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, &f->scratch, &f->summary, &f->err), LIGHTQ_OK);
    assert_false(lq_alloc_fail_end());
    lq_slab_unref(slab);
}

static void test_check_head_decode_does_not_read_the_records(void **state)
{
    struct fixture *f = *state;
    struct lq_batch_head head;
    memset(f->bytes + LQ_BATCH_HEADER_BYTES, 0, f->size - LQ_BATCH_HEADER_BYTES);
    assert_int_equal(lq_batch_head_decode(f->bytes, f->size, &head, NULL), LIGHTQ_OK);
    assert_int_equal(head.record_count, 3);
    assert_int_equal(head.max_timestamp_delta_ms, 9);
    assert_int_equal(lq_batch_head_decode(f->bytes, f->size - 1, &head, NULL), LIGHTQ_EPROTO);
}

static void test_check_headers_of_something_else_end_at_once(void **state)
{
    (void)state;
    struct lq_record_header header;
    struct lq_span headers = SPAN("\x09xy");
    assert_false(lq_record_header_next(&headers, &header));
    assert_int_equal(headers.size, 0);
    assert_false(lq_record_header_next(&headers, &header));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_check_good_batch_gives_count_and_sizes),
        TEST(test_check_plain_batch_allocates_nothing),
        TEST(test_check_with_any_bit_turned_is_refused),
        TEST(test_check_of_any_other_length_is_eproto),
        TEST(test_check_named_errors_of_the_header),
        TEST(test_check_records_that_are_not_sound_are_eproto),
        TEST(test_check_too_many_headers_are_eproto),
        TEST(test_check_message_above_the_limit_is_named),
        TEST(test_check_batch_above_the_limit_is_etoobig),
        TEST(test_check_compressed_without_scratch_is_eunsupported),
        TEST(test_check_compressed_that_does_not_unpack_is_eproto),
        TEST(test_check_compressed_without_memory_is_enomem),
        TEST(test_check_head_decode_does_not_read_the_records),
        TEST(test_check_headers_of_something_else_end_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
