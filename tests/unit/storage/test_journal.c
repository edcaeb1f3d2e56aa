/* tests/unit/storage/test_journal.c - records, frames and headers of the journal, as bytes. */
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "storage/journal.h"
#include "store_fixture.h"

static void test_journal_records_come_back(void **state)
{
    struct lq_writer writer;
    static const enum lq_record_type TYPES[] = {
#define X(name, number, fields) LQ_RECORD_##name,
        LQ_RECORD_TABLE(X)
#undef X
    };
    size_t count = sizeof TYPES / sizeof TYPES[0];
    (void)state;
    lq_writer_init(&writer, 100000);
    for (size_t i = 0; i < count; i++) {
        struct lq_record record = {
            .type = TYPES[i], .group = 100 + i, .incarnation = (uint32_t)i, .is_void = i % 2 == 1};
        for (unsigned k = 0; k < LQ_RECORD_FIELDS_MAX; k++) {
            record.fields[k] = i * 100 + k;
        }
        lq_record_write(&writer, &record);
    }
    struct lq_reader reader = lq_reader_of(writer.bytes, writer.size);

    for (size_t i = 0; i < count; i++) {
        struct lq_record record;
        assert_true(lq_record_read(&reader, &record));
        assert_int_equal(record.type, TYPES[i]);
        assert_int_equal(record.group, 100 + i);
        assert_int_equal(record.incarnation, i);
        assert_int_equal(record.is_void, i % 2 == 1);
        for (int k = 0; k < lq_record_fields(TYPES[i]); k++) {
            assert_int_equal(record.fields[k], i * 100 + (unsigned)k);
        }
    }
    assert_false(lq_record_read(&reader, &(struct lq_record){.group = 0}));
    assert_false(reader.failed);
    lq_writer_deinit(&writer);
}

static void test_journal_malformed_records_are_refused(void **state)
{
    uint8_t bytes[32] = {5}; /* a vote needs 32 bytes */
    struct lq_record record;
    (void)state;
    for (size_t size = 1; size < 32; size++) {
        struct lq_reader reader = lq_reader_of(bytes, size);
        assert_false(lq_record_read(&reader, &record));
        assert_true(reader.failed);
    }
    struct lq_reader whole = lq_reader_of(bytes, 32);
    assert_true(lq_record_read(&whole, &record));
    bytes[1] = 2; /* neither void nor not */
    struct lq_reader odd = lq_reader_of(bytes, 32);
    assert_false(lq_record_read(&odd, &record));
    bytes[1] = 0;
    bytes[0] = 99;
    struct lq_reader unknown = lq_reader_of(bytes, 32);
    assert_false(lq_record_read(&unknown, &record));
    assert_int_equal(lq_record_fields(0), -1);
    assert_int_equal(lq_record_fields(99), -1);
}

static void test_journal_frame_is_sealed_and_can_be_made_void_in_part(void **state)
{
    struct lq_writer writer;
    const struct lq_record vote = {.type = LQ_RECORD_VOTE, .group = 1, .fields = {2, 3}};
    const struct lq_record entries = {.type = LQ_RECORD_ENTRIES, .group = 2, .fields = {5, 1, 80}};
    struct lq_record record;
    (void)state;
    lq_writer_init(&writer, 100000);
    lq_frame_begin(&writer);
    size_t from = writer.size;
    lq_record_write(&writer, &entries);
    lq_record_write(&writer, &vote);
    size_t to = writer.size;
    lq_record_write(&writer, &vote);
    lq_frame_end(&writer);
    lq_frame_seal(&writer, 0, 80, 17, 0x5a17, LQ_JOURNAL_CHANGES);
    assert_int_equal(lq_get_u32(writer.bytes), LQ_FRAME_MAGIC);
    assert_int_equal(lq_get_u64(writer.bytes + 8), writer.size + 80);
    assert_int_equal(lq_get_u64(writer.bytes + 16), 17);
    assert_int_equal(lq_get_u64(writer.bytes + 24), 0x5a17);
    assert_int_equal(lq_get_u32(writer.bytes + 4), lq_crc32c(0, writer.bytes + 8, writer.size - 8));
    assert_int_not_equal(writer.bytes[writer.size - 1], 0); /* what is there in full can be seen */

    lq_frame_void(&writer, from, to);
    lq_frame_seal(&writer, 0, 80, 17, 0x5a17, LQ_JOURNAL_CHANGES);

    assert_int_equal(lq_get_u32(writer.bytes + 4), lq_crc32c(0, writer.bytes + 8, writer.size - 8));
    struct lq_reader reader = lq_reader_of(writer.bytes + from, writer.size - from);
    assert_true(lq_record_read(&reader, &record) && record.is_void && record.type == LQ_RECORD_ENTRIES);
    assert_true(lq_record_read(&reader, &record) && record.is_void && record.type == LQ_RECORD_VOTE);
    assert_true(lq_record_read(&reader, &record) && !record.is_void && record.type == LQ_RECORD_VOTE);
    assert_true(lq_record_read(&reader, &record) && record.type == LQ_RECORD_END);
    assert_false(lq_record_read(&reader, &record));
    lq_writer_deinit(&writer);
}

static void test_journal_closed_frame_is_whole(void **state)
{
    uint8_t bytes[LQ_FRAME_HEADER_BYTES];
    (void)state;

    lq_frame_closed(bytes, 9, 8);

    assert_int_equal(lq_get_u64(bytes + 8), sizeof bytes);
    assert_int_equal(lq_get_u32(bytes + 36), LQ_JOURNAL_CLOSED);
    assert_int_equal(lq_get_u32(bytes + 4), lq_crc32c(0, bytes + 8, sizeof bytes - 8));
}

static void test_journal_header_comes_back_and_refuses_flips(void **state)
{
    uint8_t bytes[LQ_JOURNAL_HEADER_BYTES];
    const struct lq_journal_header header = {.cluster = {.bytes = {4}}, .number = 5, .salt = 6, .shard = 7};
    struct lq_journal_header read;
    struct lq_err err;
    (void)state;
    lq_journal_header_encode(bytes, &header);
    assert_int_equal(lq_journal_header_decode(bytes, "j", &read, &err), LIGHTQ_OK);
    assert_int_equal(read.number, 5);
    assert_int_equal(read.salt, 6);
    assert_int_equal(read.shard, 7);
    assert_true(lq_id_equal(&read.cluster, &header.cluster));

    for (size_t i = 0; i < sizeof bytes * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(lq_journal_header_decode(bytes, "j", &read, &err), LIGHTQ_ECORRUPT);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    lq_put_u32(bytes + 8, 2);
    lq_put_u32(bytes + 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, 48));
    assert_int_equal(lq_journal_header_decode(bytes, "j", &read, &err), LIGHTQ_EVERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_journal_records_come_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_journal_malformed_records_are_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_journal_frame_is_sealed_and_can_be_made_void_in_part, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_journal_closed_frame_is_whole, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_journal_header_comes_back_and_refuses_flips, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
