/* tests/unit/storage/test_index.c - .idx and .ckpt files as bytes: they come back, and each way to be wrong is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "storage/checkpoint.h"
#include "storage/index.h"
#include "store_fixture.h"

static const struct lq_checkpoint_owner OWNER = {.cluster = {.bytes = {1}}, .group = 7, .incarnation = 2};
static struct lq_index_run RUNS[] = {{.first = 11, .term = 2}, {.first = 15, .term = 4}};
static struct lq_index_change CHANGES[] = {{.index = 12, .position = 164}};
static struct lq_point POINTS[] = {{.index = 11, .position = 64, .base_offset = 100, .timestamp_ms = 1000},
                                   {.index = 16, .position = 564, .base_offset = 105, .timestamp_ms = 1005}};

static struct lq_index sample(void)
{
    return (struct lq_index){.first = 11,
                             .last = 20,
                             .prev_term = 1,
                             .last_term = 4,
                             .segment_length = 1064,
                             .tail_position = 964,
                             .next_offset = 110,
                             .last_timestamp_ms = 1009,
                             .tail_crc = 0x1234,
                             .runs = RUNS,
                             .run_count = 2,
                             .changes = CHANGES,
                             .change_count = 1,
                             .points = POINTS,
                             .point_count = 2};
}

/* Puts bytes at 7/11.idx and reads them. */
static lightq_status read_index(struct fixture *f, const struct lq_checkpoint_owner *owner, const uint8_t *bytes,
                                size_t size, struct lq_index *index)
{
    struct lq_io *io = lq_io_mem_io(f->mem);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    assert_int_equal(io->ops->mkdir(io, "d", &f->err), LIGHTQ_OK);
    fixture_put_file(f, "d/00000000000000000011.idx", bytes, size);
    lightq_status status = lq_index_read(io, owner, "d", 11, 100000, index, &f->err);
    assert_int_equal(lq_io_mem_open_files(f->mem), 0);
    return status;
}

static lightq_status encode_and_read(struct fixture *f, const struct lq_index *given, struct lq_index *index)
{
    uint8_t *blob = NULL;
    size_t size = 0;
    assert_int_equal(lq_index_encode(&OWNER, given, &blob, &size), LIGHTQ_OK);
    lightq_status status = read_index(f, &OWNER, blob, size, index);
    free(blob);
    return status;
}

static void test_index_comes_back(void **state)
{
    struct fixture *f = *state;
    const struct lq_index given = sample();
    struct lq_index index;

    assert_int_equal(encode_and_read(f, &given, &index), LIGHTQ_OK);

    assert_int_equal(index.first, 11);
    assert_int_equal(index.last, 20);
    assert_int_equal(index.segment_length, 1064);
    assert_int_equal(index.tail_crc, 0x1234);
    assert_int_equal(index.next_offset, 110);
    assert_int_equal(index.run_count, 2);
    assert_int_equal(index.runs[1].term, 4);
    assert_int_equal(index.change_count, 1);
    assert_int_equal(index.changes[0].position, 164);
    assert_int_equal(index.point_count, 2);
    assert_memory_equal(index.points, POINTS, sizeof POINTS);
    lq_index_deinit(&index);
}

static void test_index_that_contradicts_itself_is_ECORRUPT(void **state)
{
    struct fixture *f = *state;
    struct lq_index index;
    struct lq_index_run runs[2] = {RUNS[0], RUNS[1]};
    struct lq_index_change change = CHANGES[0];
    struct lq_point points[2] = {POINTS[0], POINTS[1]};
    struct lq_index wrong[12];
    for (int i = 0; i < 12; i++) {
        wrong[i] = sample();
    }
    wrong[0].last = 10;
    wrong[1].run_count = 0;
    wrong[2].point_count = 0;
    wrong[3].last_term = 5;
    runs[0].first = 12;
    wrong[4].runs = runs;
    wrong[5].tail_position = 2000;
    wrong[6].tail_position = 8;
    change.index = 21;
    wrong[7].changes = &change;
    points[1].position = 64;
    wrong[8].points = points;
    wrong[9].segment_length = 500;
    wrong[10].first = 12;
    struct lq_index_run backwards[2] = {RUNS[0], {.first = 11, .term = 4}};
    wrong[11].runs = backwards;

    for (int i = 0; i < 12; i++) {
        assert_int_equal(encode_and_read(f, &wrong[i], &index), LIGHTQ_ECORRUPT);
        assert_string_not_equal(f->err.text, "");
    }
}

static void test_index_of_another_owner_version_or_size_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct lq_index given = sample();
    struct lq_checkpoint_owner other = OWNER;
    struct lq_index index;
    uint8_t *blob = NULL;
    size_t size = 0;
    assert_int_equal(lq_index_encode(&OWNER, &given, &blob, &size), LIGHTQ_OK);
    other.group = 8;
    assert_int_equal(read_index(f, &other, blob, size, &index), LIGHTQ_ECORRUPT);
    other = OWNER;
    other.cluster.bytes[0] = 9;
    assert_int_equal(read_index(f, &other, blob, size, &index), LIGHTQ_EIDENTITY);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(read_index(f, &OWNER, blob, cut, &index), LIGHTQ_ECORRUPT);
    }
    lq_put_u32(blob + 8, 2);
    lq_put_u32(blob + 12, lq_crc32c(lq_crc32c(0, blob + 8, 4), blob + 16, size - 16));
    assert_int_equal(read_index(f, &OWNER, blob, size, &index), LIGHTQ_EVERSION);
    lq_put_u32(blob + 8, 1);
    lq_put_u32(blob + 120, 0xffffffff); /* counts beyond the file ask for no memory */
    lq_put_u32(blob + 12, lq_crc32c(lq_crc32c(0, blob + 8, 4), blob + 16, size - 16));
    assert_int_equal(read_index(f, &OWNER, blob, size, &index), LIGHTQ_ECORRUPT);
    assert_int_equal(lq_index_read(lq_io_mem_io(f->mem), &OWNER, "d", 12, 100000, &index, &f->err), LIGHTQ_ENOTFOUND);
    assert_int_equal(lq_index_read(lq_io_mem_io(f->mem), &OWNER, "d", 11, 10, &index, &f->err), LIGHTQ_ECORRUPT);
    free(blob);
}

/* ---- checkpoints ---- */

static void test_index_checkpoint_comes_back_and_refuses_flips(void **state)
{
    struct fixture *f = *state;
    uint8_t *blob = NULL;
    size_t size = 0;
    uint64_t install = 0;
    struct lq_checkpoint read;
    struct lq_checkpoint given = make_checkpoint(NULL, 10, 3, "the state");
    assert_int_equal(lq_checkpoint_encode(&OWNER, &given, 77, &blob, &size), LIGHTQ_OK);
    assert_int_equal(lq_checkpoint_decode(&OWNER, 11, "c", blob, size, &read, &install, &f->err), LIGHTQ_OK);
    assert_int_equal(read.last_index, 10);
    assert_int_equal(read.last_term, 3);
    assert_int_equal(read.next_offset, given.next_offset);
    assert_int_equal(read.timestamp_ms, given.timestamp_ms);
    assert_int_equal(read.configuration_index, 1);
    assert_int_equal(read.configuration_size, 13);
    assert_memory_equal(read.configuration, "configuration", 13);
    assert_int_equal(read.state_size, 9);
    assert_memory_equal(read.state, "the state", 9);
    assert_int_equal(install, 77);

    for (size_t i = 0; i < size * 8; i += 3) {
        blob[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(lq_checkpoint_decode(&OWNER, 11, "c", blob, size, &read, &install, &f->err), LIGHTQ_ECORRUPT);
        blob[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(lq_checkpoint_decode(&OWNER, 11, "c", blob, cut, &read, &install, &f->err), LIGHTQ_ECORRUPT);
    }
    assert_int_equal(lq_checkpoint_decode(&OWNER, 12, "c", blob, size, &read, &install, &f->err), LIGHTQ_ECORRUPT);
    struct lq_checkpoint_owner other = OWNER;
    other.cluster.bytes[3] = 1;
    assert_int_equal(lq_checkpoint_decode(&other, 11, "c", blob, size, &read, &install, &f->err), LIGHTQ_EIDENTITY);
    lq_put_u32(blob + 8, 2);
    lq_put_u32(blob + 12, lq_crc32c(lq_crc32c(0, blob + 8, 4), blob + 16, 112));
    assert_int_equal(lq_checkpoint_decode(&OWNER, 11, "c", blob, size, &read, &install, &f->err), LIGHTQ_EVERSION);
    free(blob);
}

static void test_index_checkpoint_without_state_is_sound(void **state)
{
    struct fixture *f = *state;
    uint8_t *blob = NULL;
    size_t size = 0;
    uint64_t install = 0;
    struct lq_checkpoint read;
    const struct lq_checkpoint given = {.last_index = 1, .last_term = 1};

    assert_int_equal(lq_checkpoint_encode(&OWNER, &given, 0, &blob, &size), LIGHTQ_OK);

    assert_int_equal(size, LQ_CHECKPOINT_HEADER_BYTES);
    assert_int_equal(lq_checkpoint_decode(&OWNER, 2, "c", blob, size, &read, &install, &f->err), LIGHTQ_OK);
    assert_int_equal(read.state_size, 0);
    assert_int_equal(read.configuration_size, 0);
    free(blob);
}

/* Sound, of a segment with that name, length and last entry's index, but not of these entries: as one would be that a
 * cut left behind. */
static void test_index_of_the_entries_before_a_cut_is_not_trusted(void **state)
{
    struct fixture *f = *state;
    char path[128];
    uint8_t *old = NULL;
    size_t size = 0;
    f->options.segment_bytes = 1024;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 7, NULL);
    assert_int_equal(append(log, 12, 1, 200), LIGHTQ_OK);
    fixture_settle(f);
    group_path(path, sizeof path, 7, 1, ".idx");
    assert_int_equal(lq_io_mem_read_file(f->mem, path, &old, &size), LIGHTQ_OK);
    assert_int_equal(lq_rlog_cut(log, 3), LIGHTQ_OK);
    assert_int_equal(append(log, 10, 2, 200), LIGHTQ_OK);
    fixture_settle(f);
    fixture_close(f);
    assert_int_equal(lq_io_mem_overwrite(f->mem, path, 0, old, size), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_cut_file(f->mem, path, size), LIGHTQ_OK);
    free(old);

    fixture_open(f);

    log = lq_store_find(f->store, 7);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(log), 12);
    assert_int_equal(lq_rlog_term_at(log, 2), 1);
    assert_int_equal(lq_rlog_term_at(log, 3), 2);
    check_log(f, log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_index_comes_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_that_contradicts_itself_is_ECORRUPT, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_of_another_owner_version_or_size_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_checkpoint_comes_back_and_refuses_flips, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_checkpoint_without_state_is_sound, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_of_the_entries_before_a_cut_is_not_trusted, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
