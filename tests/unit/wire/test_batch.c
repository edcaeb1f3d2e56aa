/* tests/unit/wire/test_batch.c - record batches: written, read back, and against the golden file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/wire/batch.h"
#include "client/wire/batch_layout.h"
#include "tests/lib/alloc_fail.h"

#define LIMIT         (256 * 1024)
#define BASE_MS       UINT64_C(1700000000000)
#define PRODUCER      UINT64_C(0x1122334455667788)
#define NULL_SPAN     ((struct lq_span){.bytes = NULL})
#define SPAN(literal) lq_span_of((literal), sizeof(literal) - 1)

static int set_up(void **state)
{
    struct lq_batch_writer *writer = malloc(sizeof *writer);
    if (writer == NULL) {
        return -1;
    }
    lq_batch_writer_init(writer, LIMIT);
    *state = writer;
    return 0;
}

static int tear_down(void **state)
{
    lq_batch_writer_deinit(*state);
    free(*state);
    return 0;
}

/* The four records of the golden file (tests/golden/make_batch_v1.py). */
static void add_golden(struct lq_batch_writer *writer)
{
    uint8_t bytes[512];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)i;
    }
    const struct lq_record_header headers[] = {
        {SPAN("trace"), SPAN("\x00\xff")}, {SPAN("empty"), SPAN("")}, {SPAN("null"), NULL_SPAN}};
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, SPAN("hello"), NULL, 0), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS + 5, SPAN("key"), SPAN(""), headers, 3), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS - 3, SPAN(""), NULL_SPAN, NULL, 0), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS + 70000, NULL_SPAN, lq_span_of(bytes, sizeof bytes), NULL, 0),
                     LIGHTQ_OK);
}

static void assert_span(struct lq_span span, const void *bytes, size_t size)
{
    assert_non_null(span.bytes);
    assert_int_equal(span.size, size);
    assert_memory_equal(span.bytes, bytes, size);
}

/* The same four records, read back. */
static void assert_golden(const uint8_t *bytes, size_t size)
{
    struct lq_batch batch;
    struct lq_record record;
    struct lq_err err;
    assert_int_equal(lq_batch_open(&batch, bytes, size, &err), LIGHTQ_OK);
    assert_true(batch.head.producer_id == PRODUCER);
    assert_int_equal(batch.head.epoch, 3);
    assert_int_equal(batch.head.base_sequence, 41);
    assert_int_equal(batch.head.record_count, 4);
    assert_int_equal(batch.head.max_timestamp_delta_ms, 70000);

    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_OK);
    assert_int_equal(record.index, 0);
    assert_int_equal(record.sequence, 41);
    assert_int_equal(record.timestamp_ms, BASE_MS);
    assert_null(record.key.bytes);
    assert_span(record.value, "hello", 5);
    assert_int_equal(record.header_count, 0);
    assert_int_equal(lq_batch_record_crc(&record), lq_crc32c(0, "hello", 5));

    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_OK);
    assert_int_equal(record.timestamp_ms, BASE_MS + 5);
    assert_span(record.key, "key", 3);
    assert_span(record.value, "", 0);
    assert_int_equal(lq_batch_record_crc(&record), 0);
    assert_int_equal(record.header_count, 3);
    struct lq_span headers = record.headers;
    struct lq_record_header header;
    assert_true(lq_record_header_next(&headers, &header));
    assert_span(header.name, "trace", 5);
    assert_span(header.value, "\x00\xff", 2);
    assert_true(lq_record_header_next(&headers, &header));
    assert_span(header.name, "empty", 5);
    assert_span(header.value, "", 0);
    assert_true(lq_record_header_next(&headers, &header));
    assert_span(header.name, "null", 4);
    assert_null(header.value.bytes);
    assert_false(lq_record_header_next(&headers, &header));

    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_OK);
    assert_int_equal(record.index, 2);
    assert_int_equal(record.timestamp_ms, BASE_MS - 3);
    assert_span(record.key, "", 0);
    assert_null(record.value.bytes);
    assert_int_equal(lq_batch_record_crc(&record), 0);

    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_OK);
    assert_int_equal(record.sequence, 44);
    assert_int_equal(record.timestamp_ms, BASE_MS + 70000);
    assert_int_equal(record.value.size, 512);
    assert_int_equal(record.value.bytes[511], 255);
    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_ENOTFOUND);
    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_ENOTFOUND);
    lq_batch_close(&batch);
}

static struct lq_slab *seal(struct lq_batch_writer *writer, enum lq_codec_kind codec)
{
    struct lq_slab *batch;
    assert_int_equal(lq_batch_writer_seal(writer, PRODUCER, 3, 41, codec, &batch), LIGHTQ_OK);
    return batch;
}

static void test_batch_golden_file_is_written_and_read_byte_for_byte(void **state)
{
    struct lq_batch_writer *writer = *state;
    uint8_t golden[4096];
    FILE *file = fopen(LQ_GOLDEN_DIR "/batch-v1.bin", "rb");
    assert_non_null(file);
    size_t size = fread(golden, 1, sizeof golden, file);
    assert_int_equal(fclose(file), 0);
    add_golden(writer);

    struct lq_slab *batch = seal(writer, LQ_BATCH_PLAIN);

    assert_int_equal(batch->size, size);
    assert_memory_equal(batch->bytes, golden, size);
    assert_golden(golden, size);
    lq_slab_unref(batch);
}

static void test_batch_compressed_gives_the_same_records(void **state)
{
    struct lq_batch_writer *writer = *state;
    for (enum lq_codec_kind codec = LQ_BATCH_LZ4; codec <= LQ_BATCH_ZSTD; codec++) {
        add_golden(writer);
        size_t plain_size = lq_batch_writer_size(writer);

        struct lq_slab *batch = seal(writer, codec);

        assert_int_equal(batch->bytes[LQ_BATCH_AT_CODEC], codec);
        assert_true(batch->size < plain_size);
        assert_golden(batch->bytes, batch->size);
        lq_slab_unref(batch);
    }
}

static void test_batch_that_compression_does_not_shrink_stays_plain(void **state)
{
    struct lq_batch_writer *writer = *state;
    for (enum lq_codec_kind codec = LQ_BATCH_LZ4; codec <= LQ_BATCH_ZSTD; codec++) {
        assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, SPAN("q8$zL"), NULL, 0), LIGHTQ_OK);
        struct lq_slab *batch = seal(writer, codec);
        assert_int_equal(batch->bytes[LQ_BATCH_AT_CODEC], LQ_BATCH_PLAIN);
        lq_slab_unref(batch);
    }
}

static void test_batch_writer_is_empty_and_usable_after_seal(void **state)
{
    struct lq_batch_writer *writer = *state;
    assert_int_equal(lq_batch_writer_size(writer), 0);
    add_golden(writer);
    assert_int_equal(lq_batch_writer_count(writer), 4);
    lq_slab_unref(seal(writer, LQ_BATCH_PLAIN));
    assert_int_equal(lq_batch_writer_count(writer), 0);
    assert_int_equal(lq_batch_writer_size(writer), 0);

    add_golden(writer);
    struct lq_slab *batch = seal(writer, LQ_BATCH_PLAIN);

    assert_golden(batch->bytes, batch->size);
    lq_slab_unref(batch);
}

static void test_batch_seal_of_nothing_is_einval(void **state)
{
    struct lq_batch_writer *writer = *state;
    struct lq_slab *batch;
    assert_int_equal(lq_batch_writer_seal(writer, 1, 1, 1, LQ_BATCH_PLAIN, &batch), LIGHTQ_EINVAL);
    add_golden(writer);
    assert_int_equal(lq_batch_writer_seal(writer, 1, 1, 1, (enum lq_codec_kind)3, &batch), LIGHTQ_EINVAL);
    assert_int_equal(lq_batch_writer_count(writer), 4);
}

static void test_batch_small_and_large_slabs_have_exactly_its_size(void **state)
{
    struct lq_batch_writer *writer = *state;
    static uint8_t value[1000];
    static const unsigned counts[] = {1, 2, 10, 130, 200, 258};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (unsigned j = 0; j < counts[i]; j++) {
            assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, lq_span_of(value, sizeof value), NULL, 0),
                             LIGHTQ_OK);
        }
        size_t size = lq_batch_writer_size(writer);
        struct lq_slab *batch = seal(writer, LQ_BATCH_PLAIN);
        assert_int_equal(batch->size, size);
        struct lq_batch_summary summary;
        assert_int_equal(lq_batch_check(batch->bytes, batch->size, NULL, NULL, &summary, NULL), LIGHTQ_OK);
        assert_int_equal(summary.head.record_count, counts[i]);
        lq_slab_unref(batch);
    }
}

static void test_batch_add_above_the_limit_is_etoobig_and_changes_nothing(void **state)
{
    struct lq_batch_writer *writer = *state;
    static uint8_t value[LIMIT];
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, lq_span_of(value, LIMIT), NULL, 0),
                     LIGHTQ_ETOOBIG);
    assert_int_equal(lq_batch_writer_size(writer), 0);
    add_golden(writer);
    size_t size = lq_batch_writer_size(writer);

    assert_int_equal(lq_batch_writer_add(writer, BASE_MS + 99999, NULL_SPAN, lq_span_of(value, LIMIT - size), NULL, 0),
                     LIGHTQ_ETOOBIG);

    assert_int_equal(lq_batch_writer_size(writer), size);
    struct lq_slab *batch = seal(writer, LQ_BATCH_PLAIN);
    assert_golden(batch->bytes, batch->size);
    lq_slab_unref(batch);
    assert_int_equal(lq_batch_writer_add(writer, 0, NULL_SPAN, lq_span_of(value, LQ_MESSAGE_BYTES_MAX + 1), NULL, 0),
                     LIGHTQ_ETOOBIG);
    const struct lq_record_header huge = {{value, SIZE_MAX}, {value, 2}};
    assert_int_equal(lq_batch_writer_add(writer, 0, NULL_SPAN, NULL_SPAN, &huge, 1), LIGHTQ_ETOOBIG);
}

static void test_batch_exactly_at_the_limit_is_taken(void **state)
{
    struct lq_batch_writer *writer = *state;
    lq_batch_writer_deinit(writer);
    lq_batch_writer_init(writer, LQ_BATCH_HEADER_BYTES + 11);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, SPAN("123456"), NULL, 0), LIGHTQ_ETOOBIG);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, SPAN("12345"), NULL, 0), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_size(writer), LQ_BATCH_HEADER_BYTES + 11);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, NULL_SPAN, NULL, 0), LIGHTQ_ETOOBIG);
}

static void test_batch_add_of_bad_arguments_is_einval(void **state)
{
    struct lq_batch_writer *writer = *state;
    struct lq_record_header headers[LQ_HEADERS_MAX + 1];
    for (size_t i = 0; i <= LQ_HEADERS_MAX; i++) {
        headers[i] = (struct lq_record_header){SPAN("n"), SPAN("v")};
    }
    assert_int_equal(lq_batch_writer_add(writer, 1, NULL_SPAN, NULL_SPAN, headers, LQ_HEADERS_MAX + 1), LIGHTQ_EINVAL);
    assert_int_equal(lq_batch_writer_add(writer, 1, NULL_SPAN, NULL_SPAN, headers, LQ_HEADERS_MAX), LIGHTQ_OK);
    headers[1].name = NULL_SPAN;
    assert_int_equal(lq_batch_writer_add(writer, 1, NULL_SPAN, NULL_SPAN, headers, 2), LIGHTQ_EINVAL);
    assert_int_equal(lq_batch_writer_add(writer, LQ_BATCH_TIMESTAMP_MAX + 1, NULL_SPAN, NULL_SPAN, NULL, 0),
                     LIGHTQ_EINVAL);
    assert_int_equal(lq_batch_writer_count(writer), 1);
}

static void test_batch_extreme_times_go_there_and_back(void **state)
{
    struct lq_batch_writer *writer = *state;
    static const uint64_t times[] = {LQ_BATCH_TIMESTAMP_MAX, 0, LQ_BATCH_TIMESTAMP_MAX - 1, 1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(lq_batch_writer_add(writer, times[i], NULL_SPAN, NULL_SPAN, NULL, 0), LIGHTQ_OK);
    }
    struct lq_slab *slab = seal(writer, LQ_BATCH_PLAIN);
    struct lq_batch_summary summary;
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, NULL, &summary, NULL), LIGHTQ_OK);
    struct lq_batch batch;
    struct lq_record record;
    assert_int_equal(lq_batch_open(&batch, slab->bytes, slab->size, NULL), LIGHTQ_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_OK);
        assert_true(record.timestamp_ms == times[i]);
    }
    lq_batch_close(&batch);
    lq_slab_unref(slab);
}

static void test_batch_of_the_most_records_is_full(void **state)
{
    struct lq_batch_writer *writer = *state;
    lq_batch_writer_deinit(writer);
    lq_batch_writer_init(writer, SIZE_MAX);
    for (uint32_t i = 0; i < LQ_BATCH_RECORDS_MAX; i++) {
        assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, NULL_SPAN, NULL, 0), LIGHTQ_OK);
    }
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, NULL_SPAN, NULL, 0), LIGHTQ_EBUSY);
    struct lq_slab *slab = seal(writer, LQ_BATCH_PLAIN);
    struct lq_batch_summary summary;
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, NULL, &summary, NULL), LIGHTQ_OK);
    assert_int_equal(summary.head.record_count, LQ_BATCH_RECORDS_MAX);
    lq_slab_unref(slab);
}

static void test_batch_sizes_are_those_of_messages(void **state)
{
    struct lq_batch_writer *writer = *state;
    const struct lq_record_header headers[] = {{SPAN("name"), SPAN("value")}, {SPAN("n"), NULL_SPAN}};
    size_t size = lq_message_size(SPAN("key"), SPAN("12345"), headers, 2);
    assert_int_equal(size, 3 + 5 + 4 + 5 + 1);
    assert_int_equal(lq_message_size(NULL_SPAN, NULL_SPAN, NULL, 0), 0);
    assert_int_equal(lq_message_size(lq_span_of("", SIZE_MAX), SPAN("1"), NULL, 0), SIZE_MAX);

    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, SPAN("key"), SPAN("12345"), headers, 2), LIGHTQ_OK);
    assert_true(lq_batch_writer_size(writer) <= lq_batch_size_bound(size, 2));
    struct lq_slab *slab = seal(writer, LQ_BATCH_PLAIN);
    struct lq_batch_summary summary;
    assert_int_equal(lq_batch_check(slab->bytes, slab->size, NULL, NULL, &summary, NULL), LIGHTQ_OK);
    assert_int_equal(summary.largest_message_bytes, size);
    lq_slab_unref(slab);
}

static void test_batch_without_memory_keeps_its_records(void **state)
{
    struct lq_batch_writer *writer = *state;
    lq_alloc_fail_at(1);
    assert_int_equal(lq_batch_writer_add(writer, BASE_MS, NULL_SPAN, SPAN("x"), NULL, 0), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    assert_int_equal(lq_batch_writer_count(writer), 0);
    for (enum lq_codec_kind codec = LQ_BATCH_PLAIN; codec <= LQ_BATCH_LZ4; codec++) {
        add_golden(writer);
        struct lq_slab *batch = NULL;
        unsigned nth = 1;
        for (;; nth++) {
            lq_alloc_fail_at(nth);
            lightq_status status = lq_batch_writer_seal(writer, PRODUCER, 3, 41, codec, &batch);
            if (!lq_alloc_fail_end()) {
                assert_int_equal(status, LIGHTQ_OK);
                break;
            }
            assert_int_equal(status, LIGHTQ_ENOMEM);
            assert_int_equal(lq_batch_writer_count(writer), 4);
        }
        assert_true(nth > 1);
        assert_golden(batch->bytes, batch->size);
        if (codec == LQ_BATCH_LZ4) {
            struct lq_batch reader;
            struct lq_err err;
            lq_alloc_fail_at(1);
            assert_int_equal(lq_batch_open(&reader, batch->bytes, batch->size, &err), LIGHTQ_ENOMEM);
            assert_true(lq_alloc_fail_end());
        }
        lq_slab_unref(batch);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_batch_golden_file_is_written_and_read_byte_for_byte),
        TEST(test_batch_compressed_gives_the_same_records),
        TEST(test_batch_that_compression_does_not_shrink_stays_plain),
        TEST(test_batch_writer_is_empty_and_usable_after_seal),
        TEST(test_batch_seal_of_nothing_is_einval),
        TEST(test_batch_small_and_large_slabs_have_exactly_its_size),
        TEST(test_batch_add_above_the_limit_is_etoobig_and_changes_nothing),
        TEST(test_batch_exactly_at_the_limit_is_taken),
        TEST(test_batch_add_of_bad_arguments_is_einval),
        TEST(test_batch_extreme_times_go_there_and_back),
        TEST(test_batch_of_the_most_records_is_full),
        TEST(test_batch_sizes_are_those_of_messages),
        TEST(test_batch_without_memory_keeps_its_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
