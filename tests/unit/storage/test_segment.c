/* tests/unit/storage/test_segment.c - the segment's header, its points, and what a scan says of the bytes it meets. */
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "storage/segment.h"
#include "store_fixture.h"

static const struct lq_segment_header HEADER = {
    .cluster = {.bytes = {1, 2, 3}}, .group = 7, .incarnation = 2, .first = 11, .journal = 5};

static void test_segment_header_comes_back(void **state)
{
    uint8_t bytes[LQ_SEGMENT_HEADER_BYTES];
    struct lq_segment_header header;
    (void)state;

    lq_segment_header_encode(bytes, &HEADER);

    assert_int_equal(lq_segment_header_decode(bytes, "x.log", &header, NULL), LIGHTQ_OK);
    assert_true(lq_id_equal(&header.cluster, &HEADER.cluster));
    assert_int_equal(header.group, 7);
    assert_int_equal(header.incarnation, 2);
    assert_int_equal(header.first, 11);
    assert_int_equal(header.journal, 5);
}

static void test_segment_header_with_any_flip_is_refused(void **state)
{
    struct lq_segment_header header;
    struct lq_err err;
    (void)state;
    for (size_t i = 0; i < LQ_SEGMENT_HEADER_BYTES * 8; i++) {
        uint8_t bytes[LQ_SEGMENT_HEADER_BYTES];
        lq_segment_header_encode(bytes, &HEADER);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);

        assert_int_equal(lq_segment_header_decode(bytes, "x.log", &header, &err), LIGHTQ_ECORRUPT);
        assert_non_null(strstr(err.text, "x.log"));
    }
}

static void test_segment_header_of_another_version_is_EVERSION(void **state)
{
    uint8_t bytes[LQ_SEGMENT_HEADER_BYTES];
    struct lq_segment_header header;
    (void)state;
    lq_segment_header_encode(bytes, &HEADER);
    lq_put_u32(bytes + 8, LQ_SEGMENT_VERSION + 1);
    lq_put_u32(bytes + 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, 48));

    assert_int_equal(lq_segment_header_decode(bytes, "x.log", &header, NULL), LIGHTQ_EVERSION);
}

static void test_segment_points_are_a_stride_apart(void **state)
{
    struct lq_segment *segment = lq_segment_new(5, 1);
    (void)state;
    assert_non_null(segment);
    assert_int_equal(lq_segment_point_before(segment, 9).position, LQ_SEGMENT_HEADER_BYTES);
    for (uint64_t i = 5; i < 25; i++) {
        const struct lq_entry entry = {.index = i, .term = 2, .base_offset = i * 3, .timestamp_ms = i * 10};
        assert_true(lq_segment_reserve_point(segment));
        lq_segment_take(segment, &entry, 0xabc, 100, 400);
    }

    assert_int_equal(segment->point_count, 5);
    assert_int_equal(lq_segment_point_before(segment, 5).index, 5);
    assert_int_equal(lq_segment_point_before(segment, 8).index, 5);
    assert_int_equal(lq_segment_point_before(segment, 9).index, 9);
    assert_int_equal(lq_segment_point_before(segment, 9).position, 64 + 400);
    assert_int_equal(lq_segment_point_before(segment, 9).base_offset, 27);
    assert_int_equal(lq_segment_point_before(segment, 100).index, 21);
    assert_int_equal(segment->last, 24);
    assert_int_equal(segment->length, 64 + 2000);
    lq_segment_cut(segment, 9, 464, 2);
    assert_int_equal(segment->point_count, 1);
    assert_int_equal(segment->last, 8);
    assert_int_equal(segment->tail_position, 0);
    lq_segment_unref(segment);
}

static void test_segment_zero_piece_is_a_part_of_one_sector(void **state)
{
    uint8_t bytes[2048];
    (void)state;
    memset(bytes, 1, sizeof bytes);
    assert_false(lq_scan_has_zero_piece(bytes, 100, sizeof bytes));
    memset(bytes + 412, 0, 511); /* sector 1 but for its last byte, when the range begins at 100 */
    assert_false(lq_scan_has_zero_piece(bytes, 100, sizeof bytes));
    bytes[412 + 511] = 0;
    assert_true(lq_scan_has_zero_piece(bytes, 100, sizeof bytes));
    assert_false(lq_scan_has_zero_piece(bytes, 0, sizeof bytes)); /* there it lies over two sectors */
    memset(bytes, 1, sizeof bytes);
    bytes[0] = 0;
    assert_true(lq_scan_has_zero_piece(bytes, 511, 100)); /* the last byte of a sector is a piece */
    assert_true(lq_scan_is_zero(bytes, 1));
    assert_false(lq_scan_is_zero(bytes, 2));
}

/* What a scan finds at @position of a file with these bytes. */
static enum lq_found found_at(struct fixture *f, const uint8_t *bytes, size_t size, uint64_t position)
{
    struct lq_scan scan;
    struct lq_entry entry;
    struct lq_err text;
    struct lq_err err;
    uint64_t entry_size = 0;
    enum lq_found found = LQ_FOUND_END;
    lq_file file;
    struct lq_io *io = lq_io_mem_io(f->mem);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    fixture_put_file(f, "x.log", bytes, size);
    assert_int_equal(io->ops->open(io, "x.log", LQ_OPEN_READ, &file, &err), LIGHTQ_OK);
    assert_int_equal(lq_scan_init(&scan, io, file, &err), LIGHTQ_OK);
    assert_int_equal(lq_scan_entry(&scan, position, &found, &entry, &entry_size, &text, &err), LIGHTQ_OK);
    if (found == LQ_FOUND_ENTRY) {
        assert_true(entry_is_good(&entry, 7, 1, 1));
        assert_int_equal(entry_size, lq_entry_size(entry.payload_size));
    } else {
        assert_string_not_equal(text.text, "");
    }
    lq_scan_deinit(&scan);
    io->ops->close(io, file);
    return found;
}

static void test_segment_scan_judges_what_is_there(void **state)
{
    struct fixture *f = *state;
    static uint8_t bytes[8192];
    struct lq_entry_ref ref = make_entry(7, 1, 1, 0, 1500, LQ_ENTRY_COMMAND);
    uint8_t *at = bytes + 200;
    memset(bytes, 0, sizeof bytes);
    memcpy(at, ref.slab->bytes, ref.size);
    uint32_t length = LQ_ENTRY_HEADER_BYTES + 1500;

    assert_int_equal(found_at(f, bytes, sizeof bytes, 200), LQ_FOUND_ENTRY);
    assert_int_equal(found_at(f, bytes, sizeof bytes, 200 + ref.size), LQ_FOUND_END);
    assert_int_equal(found_at(f, bytes, 200 + ref.size, 200 + ref.size), LQ_FOUND_END);
    assert_int_equal(found_at(f, bytes, 200, 500), LQ_FOUND_END);
    for (size_t size = 201; size < 200 + ref.size; size += 37) { /* a shorter file */
        enum lq_found found = found_at(f, bytes, size, 200);
        assert_int_equal(found, size < 208 ? LQ_FOUND_END : LQ_FOUND_TORN);
    }
    for (size_t i = 0; i < length; i += 13) { /* any flip: rot, but where it makes the length another possible one */
        at[i] ^= 0x10;
        enum lq_found found = found_at(f, bytes, sizeof bytes, 200);
        assert_true(found == LQ_FOUND_ROTTEN || (i / 4 == 1 && found == LQ_FOUND_TORN));
        at[i] ^= 0x10;
    }
    for (size_t sector = 512; sector < 200 + length; sector += 512) { /* sectors not written */
        uint8_t saved[512];
        memcpy(saved, bytes + sector, 512);
        memset(bytes + sector, 0, 512);
        assert_int_equal(found_at(f, bytes, sizeof bytes, 200), LQ_FOUND_TORN);
        memcpy(bytes + sector, saved, 512);
    }
    for (size_t kept = 0; kept < length; kept += 11) { /* a write that stopped */
        memset(at, 0, ref.size);
        memcpy(at, ref.slab->bytes, kept);
        assert_int_equal(found_at(f, bytes, sizeof bytes, 200), kept == 0 ? LQ_FOUND_END : LQ_FOUND_TORN);
    }
    memcpy(at, ref.slab->bytes, ref.size);
    lq_put_u32(at + 4, 0x7fffffff); /* no entry is that long */
    assert_int_equal(found_at(f, bytes, sizeof bytes, 200), LQ_FOUND_ROTTEN);
    lq_slab_unref(ref.slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_segment_header_comes_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_segment_header_with_any_flip_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_segment_header_of_another_version_is_EVERSION, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_segment_points_are_a_stride_apart, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_segment_zero_piece_is_a_part_of_one_sector, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_segment_scan_judges_what_is_there, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
