/* test_aside.c - sound logs that are set aside for a successor: what is kept, for how long, and through a power cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/disk.h"
#include "tests/unit/storage/store_fixture.h"

#define SEGMENT "00000000000000000001.log"

static uint8_t *read_file(struct fixture *f, const char *path, size_t *size)
{
    uint8_t *bytes = NULL;
    assert_int_equal(lq_disk_read_file(lq_io_mem_io(f->mem), path, 1 << 20, &bytes, size, &f->err), LIGHTQ_OK);
    return bytes;
}

/* The disk in memory lets a moved directory be durable only when every earlier change of a name is; those of others may
 * still wait. */
static void sync_names(struct fixture *f)
{
    static const char *const dirs[] = {"g8-1", "journal", "removed", ""};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        assert_int_equal(lq_disk_sync_dir(lq_io_mem_io(f->mem), dirs[i], &f->err), LIGHTQ_OK);
    }
}

/* Two groups, so that what is dirty goes through the journal: the segments are not synced. */
static struct lq_rlog *fill(struct fixture *f, struct told *told)
{
    f->options.sync_files_max = 1;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 7, &told[0]);
    struct lq_rlog *other = fixture_create(f, 8, &told[1]);
    assert_int_equal(append(log, 20, 1, 300), LIGHTQ_OK);
    assert_int_equal(append(other, 20, 1, 300), LIGHTQ_OK);
    return log;
}

/* What only the journal has is written to the segments first. */
static lightq_status set_aside(struct fixture *f, struct lq_rlog *log)
{
    assert_int_equal(lq_rlog_set_aside(log, &f->err), LIGHTQ_EBUSY);
    fixture_settle(f);
    return lq_rlog_set_aside(log, &f->err);
}

static void test_aside_sound_log_is_kept_through_a_power_cut(void **state)
{
    struct fixture *f = *state;
    struct told told[3] = {{.f = f}, {.f = f}, {.f = f}};
    struct lq_rlog *log = fill(f, told);
    fixture_settle(f);
    size_t size = 0;
    size_t size_after = 0;
    assert_int_equal(lq_rlog_set_aside(log, &f->err), LIGHTQ_EBUSY); /* it has entries that only the journal has */
    fixture_settle(f);
    uint8_t *before = read_file(f, "g7-1/" SEGMENT, &size);

    assert_int_equal(lq_rlog_set_aside(log, &f->err), LIGHTQ_OK);
    assert_null(lq_store_find(f->store, 7));
    assert_int_equal(lq_rlog_create(f->store, 7, 2, &log, &f->err), LIGHTQ_OK);
    lq_rlog_set_events(log, &told_events, &told[2]);
    assert_int_equal(append(log, 3, 5, 10), LIGHTQ_OK);
    fixture_settle(f);
    sync_names(f);
    fixture_crash(f, LQ_IO_MEM_LOSE, 1);
    fixture_open(f);

    uint8_t *after = read_file(f, "removed/g7-1.sound.0/" SEGMENT, &size_after);
    assert_int_equal(size_after, size);
    assert_memory_equal(after, before, size);
    log = fixture_find(f, 7, &told[2]);
    assert_int_equal(lq_rlog_incarnation(log), 2);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(log), 3);
    free(before);
    free(after);
}

static void test_aside_power_cut_right_behind_it_loses_neither(void **state)
{
    struct fixture *f = *state;
    struct told told[2] = {{.f = f}, {.f = f}};
    struct lq_rlog *log = fill(f, told);
    fixture_settle(f);

    assert_int_equal(set_aside(f, log), LIGHTQ_OK);
    sync_names(f);
    fixture_crash(f, LQ_IO_MEM_LOSE, 1); /* the journal knows nothing of it */
    fixture_open(f);

    assert_true(lq_io_mem_exists(f->mem, "removed/g7-1.sound.0/" SEGMENT));
    log = fixture_find(f, 7, &told[0]);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_LOST); /* and a successor can be made */
    assert_int_equal(lq_rlog_set_aside(log, &f->err), LIGHTQ_OK);
    assert_int_equal(lq_rlog_create(f->store, 7, 2, &log, &f->err), LIGHTQ_OK);
    assert_true(lq_io_mem_exists(f->mem, "removed/g7-1.sound.0/" SEGMENT));
    fixture_settle(f);
}

static void test_aside_log_with_work_under_way_is_busy(void **state)
{
    struct fixture *f = *state;
    struct told told[2] = {{.f = f}, {.f = f}};
    struct lq_rlog *log = fill(f, told);

    assert_false(lq_rlog_is_quiet(log));
    assert_int_equal(lq_rlog_set_aside(log, &f->err), LIGHTQ_EBUSY);

    assert_ptr_equal(lq_store_find(f->store, 7), log);
    fixture_settle(f);
    assert_true(lq_rlog_is_quiet(log));
    check_log(f, log);
}

static void test_aside_failing_disk_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct told told[2] = {{.f = f}, {.f = f}};
    struct lq_rlog *log = fill(f, told);
    fixture_settle(f);
    fixture_put_file(f, "removed", (const uint8_t *)"x", 1); /* where the folder should be */

    assert_int_not_equal(set_aside(f, log), LIGHTQ_OK);

    assert_ptr_equal(lq_store_find(f->store, 7), log);
    check_log(f, log);
}

static void test_aside_only_sound_logs_of_that_group_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct told told[2] = {{.f = f}, {.f = f}};
    struct lq_rlog *log = fill(f, told);
    fixture_settle(f);
    struct lq_rlog *other = lq_store_find(f->store, 8);
    assert_int_equal(set_aside(f, log), LIGHTQ_OK);
    assert_int_equal(set_aside(f, other), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_io(f->mem)->ops->mkdir(lq_io_mem_io(f->mem), "removed/g7-1.0", &f->err), LIGHTQ_OK);
    fixture_put_file(f, "removed/g7-1.0/" SEGMENT, (const uint8_t *)"x", 1); /* damaged: never deleted */
    fixture_settle(f);

    lq_store_drop_aside(f->store, 7);

    assert_false(lq_io_mem_exists(f->mem, "removed/g7-1.sound.0"));
    assert_true(lq_io_mem_exists(f->mem, "removed/g7-1.0/" SEGMENT));
    assert_true(lq_io_mem_exists(f->mem, "removed/g8-1.sound.0/" SEGMENT));
    lq_store_drop_aside(f->store, 99); /* nothing of it is there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_aside_sound_log_is_kept_through_a_power_cut, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_aside_power_cut_right_behind_it_loses_neither, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_aside_log_with_work_under_way_is_busy, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_aside_failing_disk_changes_nothing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_aside_only_sound_logs_of_that_group_are_dropped, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests_name("aside", tests, NULL, NULL);
}
