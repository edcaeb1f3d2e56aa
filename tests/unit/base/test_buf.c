/* tests/unit/base/test_buf.c - the bounded reader and writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/buf.h"
#include "tests/lib/alloc_fail.h"

static void test_buf_fields_round_trip(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, 1000);
    lq_write_u8(&writer, 0xab);
    lq_write_u16(&writer, 0xabcd);
    lq_write_u32(&writer, 0xabcdef01);
    lq_write_u64(&writer, 0xabcdef0123456789);
    lq_write_bytes(&writer, "text", 4);
    lq_write_pad(&writer, 8);
    assert_int_equal(writer.status, LIGHTQ_OK);
    assert_int_equal(writer.size, 24);
    assert_int_equal(writer.bytes[1], 0xcd); /* little endian */

    struct lq_reader reader = lq_reader_of(writer.bytes, writer.size);

    assert_int_equal(lq_read_u8(&reader), 0xab);
    assert_int_equal(lq_read_u16(&reader), 0xabcd);
    assert_int_equal(lq_read_u32(&reader), 0xabcdef01);
    assert_true(lq_read_u64(&reader) == 0xabcdef0123456789);
    assert_memory_equal(lq_read_bytes(&reader, 4), "text", 4);
    assert_memory_equal(lq_read_bytes(&reader, 5), "\0\0\0\0\0", 5);
    assert_int_equal(lq_reader_left(&reader), 0);
    assert_false(reader.failed);
    lq_writer_deinit(&writer);
}

static void test_buf_varints_round_trip(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 127, 128, 300, 16383, 16384, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX};
    static const int64_t signed_values[] = {0, -1, 1, -64, 64, INT32_MIN, INT64_MAX, INT64_MIN};
    struct lq_writer writer;
    lq_writer_init(&writer, 1000);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        lq_write_varint(&writer, values[i]);
    }
    for (size_t i = 0; i < sizeof signed_values / sizeof signed_values[0]; i++) {
        lq_write_varint_signed(&writer, signed_values[i]);
    }

    struct lq_reader reader = lq_reader_of(writer.bytes, writer.size);

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(lq_read_varint(&reader) == values[i]);
    }
    for (size_t i = 0; i < sizeof signed_values / sizeof signed_values[0]; i++) {
        assert_true(lq_read_varint_signed(&reader) == signed_values[i]);
    }
    assert_false(reader.failed);
    assert_int_equal(lq_reader_left(&reader), 0);
    lq_writer_deinit(&writer);
}

static void test_buf_bad_varints_fail(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        {"", 0},                                             /* nothing */
        {"\x80", 1},                                         /* goes on behind the end */
        {"\x80\x00", 2},                                     /* overlong 0 */
        {"\xff\x80\x00", 3},                                 /* overlong 127 */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},    /* 2^64 and more */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11} /* 11 bytes */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lq_reader reader = lq_reader_of(bad[i].bytes, bad[i].size);
        assert_int_equal(lq_read_varint(&reader), 0);
        assert_true(reader.failed);
    }
}

static void test_buf_reader_past_the_end_fails_for_good(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3};
    struct lq_reader reader = lq_reader_of(bytes, sizeof bytes);
    assert_int_equal(lq_reader_left(&reader), 3);

    assert_int_equal(lq_read_u32(&reader), 0);

    assert_true(reader.failed);
    assert_int_equal(lq_reader_left(&reader), 0);
    assert_int_equal(lq_read_u8(&reader), 0); /* there is one, but the reader has failed */
    assert_int_equal(lq_read_u16(&reader), 0);
    assert_int_equal(lq_read_u64(&reader), 0);
    assert_int_equal(lq_read_varint_signed(&reader), 0);
    assert_null(lq_read_bytes(&reader, 1));
    assert_null(lq_read_bytes(&reader, 0));
}

static void test_buf_reader_huge_size_does_not_wrap(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3};
    struct lq_reader reader = lq_reader_of(bytes, sizeof bytes);
    (void)lq_read_u8(&reader);
    assert_null(lq_read_bytes(&reader, SIZE_MAX));
    assert_true(reader.failed);
}

static void test_buf_reader_of_nothing_reads_nothing(void **state)
{
    (void)state;
    struct lq_reader reader = lq_reader_of(NULL, 0);
    assert_non_null(lq_read_bytes(&reader, 0));
    assert_false(reader.failed);
    assert_null(lq_read_bytes(&reader, 1));
    assert_true(reader.failed);
}

static void test_buf_writer_stops_at_its_limit(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, 10);
    lq_write_u64(&writer, 1);
    lq_write_u16(&writer, 2);
    assert_int_equal(writer.status, LIGHTQ_OK);

    lq_write_u8(&writer, 3);

    assert_int_equal(writer.status, LIGHTQ_ETOOBIG);
    assert_int_equal(writer.size, 10);
    assert_null(lq_write_space(&writer, 0)); /* nothing is written after a failure */
    lq_writer_deinit(&writer);
}

static void test_buf_writer_huge_size_does_not_wrap(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, SIZE_MAX);
    lq_write_u8(&writer, 1);
    assert_null(lq_write_space(&writer, SIZE_MAX));
    assert_int_equal(writer.status, LIGHTQ_ETOOBIG);
    lq_writer_deinit(&writer);
}

static void test_buf_writer_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, 1000000);
    for (uint32_t i = 0; i < 10000; i++) {
        lq_write_u32(&writer, i);
    }
    assert_int_equal(writer.status, LIGHTQ_OK);
    assert_int_equal(writer.size, 40000);
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(lq_get_u32(writer.bytes + 4 * (size_t)i), i);
    }
    lq_writer_deinit(&writer);
    assert_null(writer.bytes);
}

static void test_buf_writer_without_memory_keeps_what_it_has(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, 1000000);
    lq_write_u32(&writer, 7);

    lq_alloc_fail_at(1);
    uint8_t *space = lq_write_space(&writer, 100000);

    assert_true(lq_alloc_fail_end());
    assert_null(space);
    assert_int_equal(writer.status, LIGHTQ_ENOMEM);
    assert_int_equal(writer.size, 4);
    assert_int_equal(lq_get_u32(writer.bytes), 7);
    lq_write_u8(&writer, 1);
    assert_int_equal(writer.size, 4);
    lq_writer_deinit(&writer);
}

static void test_buf_pad_of_an_aligned_size_adds_nothing(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, 100);
    lq_write_pad(&writer, 8);
    assert_int_equal(writer.size, 0);
    lq_write_u8(&writer, 1);
    lq_write_pad(&writer, 4);
    assert_int_equal(writer.size, 4);
    lq_write_pad(&writer, 4);
    assert_int_equal(writer.size, 4);
    lq_writer_deinit(&writer);
}

static void test_buf_put_and_get_are_little_endian_and_unaligned(void **state)
{
    (void)state;
    uint8_t bytes[16] = {0};
    lq_put_u16(bytes + 1, 0x0201);
    lq_put_u32(bytes + 3, 0x06050403);
    lq_put_u64(bytes + 7, 0x0e0d0c0b0a090807);
    for (uint8_t i = 1; i < 15; i++) {
        assert_int_equal(bytes[i], i);
    }
    assert_int_equal(lq_get_u16(bytes + 1), 0x0201);
    assert_int_equal(lq_get_u32(bytes + 3), 0x06050403);
    assert_true(lq_get_u64(bytes + 7) == 0x0e0d0c0b0a090807);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf_fields_round_trip),
        cmocka_unit_test(test_buf_varints_round_trip),
        cmocka_unit_test(test_buf_bad_varints_fail),
        cmocka_unit_test(test_buf_reader_past_the_end_fails_for_good),
        cmocka_unit_test(test_buf_reader_huge_size_does_not_wrap),
        cmocka_unit_test(test_buf_reader_of_nothing_reads_nothing),
        cmocka_unit_test(test_buf_writer_stops_at_its_limit),
        cmocka_unit_test(test_buf_writer_huge_size_does_not_wrap),
        cmocka_unit_test(test_buf_writer_grows_and_keeps_its_bytes),
        cmocka_unit_test(test_buf_writer_without_memory_keeps_what_it_has),
        cmocka_unit_test(test_buf_pad_of_an_aligned_size_adds_nothing),
        cmocka_unit_test(test_buf_put_and_get_are_little_endian_and_unaligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
