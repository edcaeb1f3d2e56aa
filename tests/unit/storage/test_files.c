/* tests/unit/storage/test_files.c - descriptors: how many a store uses, and that a want of them stops nothing for good.
 * test_fault_sweep.c takes them away at every point; here is what goes on meanwhile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

#define WAIT_US 200000

static void small_segments(struct fixture *f)
{
    f->options.segment_bytes = 1024;
    f->options.index_stride = 256;
    f->options.cache_bytes = 1;
}

static void no_files(struct fixture *f, unsigned verb, const char *pattern)
{
    const struct lq_io_mem_fault fault = {.verb = verb, .pattern = pattern, .nth = 1, .status = LIGHTQ_ELIMIT};
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
}

/* Turns, until nothing more happens in this moment. */
static void turns(struct fixture *f)
{
    for (unsigned i = 0; i < 200; i++) {
        lq_store_flush(f->store);
        (void)lq_io_mem_run_all(f->mem);
    }
}

static void wait_a_while(struct fixture *f)
{
    f->clock.now_us += WAIT_US;
    turns(f);
}

/* Faults are over: all goes on by itself. */
static void files_are_back(struct fixture *f)
{
    lq_io_mem_clear_faults(f->mem);
    for (unsigned i = 0; i < 20 && !lq_store_idle(f->store); i++) {
        wait_a_while(f);
    }
    assert_true(lq_store_idle(f->store));
}

static void test_files_new_segment_without_descriptors_waits_and_others_go_on(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct told other_told;
    small_segments(f);
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, &told);
    struct lq_rlog *other = fixture_create(f, 2, &other_told);
    assert_int_equal(append(log, 4, 1, 200), LIGHTQ_OK);
    assert_int_equal(append(other, 1, 1, 10), LIGHTQ_OK);
    fixture_settle(f);
    no_files(f, LQ_IO_MEM_CREATE, NULL);
    no_files(f, LQ_IO_MEM_OPEN, NULL);

    assert_int_equal(append(log, 4, 1, 200), LIGHTQ_OK); /* a segment is full on the way */
    uint64_t vote = lq_rlog_set_vote(log, 2, 5);
    assert_int_equal(append(other, 3, 1, 10), LIGHTQ_OK);
    for (unsigned i = 0; i < 10; i++) {
        wait_a_while(f);
    }

    assert_int_equal(other_told.durable, 4);
    assert_int_equal(told.durable, 4);
    assert_int_equal(told.voted, vote); /* it votes, or others could not elect */
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_true(lq_io_mem_faults_hit(f->mem) < 50); /* tries, and no more than some */
    files_are_back(f);
    assert_int_equal(told.durable, 8);
    assert_int_equal(told.failed_count, 0);
    check_log(f, log);
    fixture_reopen(f);
    check_log(f, lq_store_find(f->store, 1));
}

static void test_files_read_without_descriptors_is_EBUSY(void **state)
{
    struct fixture *f = *state;
    struct lq_entry entry;
    struct lq_slab *slab = NULL;
    small_segments(f);
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    fixture_reopen(f);
    log = lq_store_find(f->store, 1);
    no_files(f, LQ_IO_MEM_OPEN, NULL);

    assert_int_equal(read_one(f, log, 3, &entry, &slab), LIGHTQ_EBUSY);

    lq_io_mem_clear_faults(f->mem);
    assert_int_equal(read_one(f, log, 3, &entry, &slab), LIGHTQ_OK);
    lq_slab_unref(slab);
}

static void test_files_journal_without_descriptors_grows_on(void **state)
{
    static const unsigned verbs[] = {LQ_IO_MEM_CREATE, LQ_IO_SYNC_DIR};
    struct fixture *f = *state;
    f->options.journal_bytes = 4096;
    f->options.sync_files_max = 1;
    fixture_open(f);
    struct told told;
    struct lq_rlog *log = fixture_create(f, 1, &told);
    struct lq_rlog *other = fixture_create(f, 2, NULL);
    for (unsigned v = 0; v < 2; v++) {
        no_files(f, verbs[v], "journal*");
        uint64_t before = lq_io_mem_faults_hit(f->mem);
        for (unsigned i = 0; i < 30; i++) {
            assert_int_equal(append(log, 1, 1, 300), LIGHTQ_OK);
            assert_int_equal(append(other, 1, 1, 300), LIGHTQ_OK);
            turns(f);
            assert_int_equal(told.durable, lq_rlog_last(log));
        }
        assert_true(lq_io_mem_faults_hit(f->mem) > before);
        files_are_back(f);
    }

    assert_int_equal(told.failed_count, 0);
    fixture_reopen(f);
    assert_int_equal(lq_rlog_last(lq_store_find(f->store, 1)), 60);
}

static void test_files_checkpoint_without_descriptors_is_written_later(void **state)
{
    static const unsigned verbs[] = {LQ_IO_MEM_CREATE, LQ_IO_SYNC_DIR};
    struct fixture *f = *state;
    char path[64];
    for (unsigned v = 0; v < 2; v++) {
        uint64_t next = 2;
        small_segments(f);
        fixture_open(f);
        struct told told;
        struct lq_rlog *log = fixture_create(f, 1, &told);
        assert_int_equal(append(log, 12, 1, 200), LIGHTQ_OK);
        fixture_settle(f);
        while (!lq_rlog_wants_checkpoint(log, next)) {
            next++;
        }
        struct lq_checkpoint checkpoint = make_checkpoint(log, next - 1, 1, "state");
        no_files(f, verbs[v], NULL);
        assert_int_equal(lq_rlog_checkpoint(log, &checkpoint), LIGHTQ_OK);
        wait_a_while(f);
        assert_int_equal(lq_rlog_trim_point(log, next, &checkpoint), 0);

        files_are_back(f);

        assert_int_equal(lq_rlog_trim_point(log, next, &checkpoint), next - 1);
        assert_true(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 1, next, ".ckpt")));
        assert_int_equal(told.failed_count, 0);
        fixture_close(f);
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    }
}

static void test_files_directory_without_descriptors_holds_up_the_flush_only(void **state)
{
    struct fixture *f = *state;
    struct told told;
    small_segments(f);
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, &told);
    no_files(f, LQ_IO_SYNC_DIR, NULL);
    assert_int_equal(append(log, 4, 1, 20), LIGHTQ_OK);
    wait_a_while(f);
    assert_int_equal(told.durable, 0);
    struct lq_store_counters counters;
    lq_store_count_up(f->store, &counters);
    assert_true(counters.oldest_pending_us > 0); /* it shows as a disk that hangs */

    files_are_back(f);

    assert_int_equal(told.durable, 4);
    assert_int_equal(told.failed_count, 0);
    assert_int_equal(append(log, 4, 1, 20), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(told.durable, 8);
}

static void test_files_cut_opens_a_file_for_a_moment(void **state)
{
    struct fixture *f = *state;
    small_segments(f);
    fixture_open(f);
    struct told told;
    struct lq_rlog *log = fixture_create(f, 1, &told);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    fixture_reopen(f);
    log = fixture_find(f, 1, &told);
    const struct lq_io_mem_fault fault = {
        .verb = LQ_IO_MEM_OPEN, .pattern = "*.log", .nth = 1, .times = 1, .status = LIGHTQ_ELIMIT};
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    assert_int_equal(lq_rlog_cut(log, 8), LIGHTQ_OK);

    assert_int_equal(lq_io_mem_faults_hit(f->mem), 1);
    lq_io_mem_clear_faults(f->mem);
    no_files(f, LQ_IO_MEM_OPEN, NULL);
    assert_int_equal(append(log, 5, 2, 100), LIGHTQ_OK);
    wait_a_while(f);
    assert_int_equal(lq_rlog_durable(log), 7);
    files_are_back(f);
    assert_int_equal(lq_rlog_durable(log), 12);
    assert_int_equal(told.failed_count, 0);
    check_log(f, log);
}

static void test_files_start_without_descriptors_is_ELIMIT_and_no_damage(void **state)
{
    struct fixture *f = *state;
    small_segments(f);
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    fixture_close(f);
    for (uint64_t nth = 1; nth < 100; nth++) {
        const struct lq_io_mem_fault fault = {.verb = LQ_IO_MEM_OPEN, .nth = nth, .status = LIGHTQ_ELIMIT};
        assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
        lightq_status status = fixture_try_open(f);
        lq_io_mem_clear_faults(f->mem);
        if (status == LIGHTQ_OK) {
            assert_true(nth > 3);
            assert_int_equal(lq_rlog_health(lq_store_find(f->store, 1)), LQ_RLOG_HEALTHY);
            break;
        }
        assert_int_equal(status, LIGHTQ_ELIMIT);
    }
    check_log(f, lq_store_find(f->store, 1));
}

/* ---- the bound ---- */

#define MANY_GROUPS 300
#define FILES_MAX   40
#define OTHER_FILES 4 /* journals, and what is read or written for a moment */

/* Every flush, read, sync and start of many groups with little each stays below the bound, and nobody is left out. */
static void test_files_of_many_groups_stay_below_the_bound(void **state)
{
    struct fixture *f = *state;
    struct told *told = calloc(MANY_GROUPS, sizeof *told);
    assert_non_null(told);
    f->options.files_max = FILES_MAX;
    f->options.cache_bytes = 1;
    f->options.segment_bytes = 4096;
    fixture_open(f);
    for (unsigned g = 0; g < MANY_GROUPS; g++) {
        (void)fixture_create(f, g + 1, &told[g]);
    }
    for (unsigned round = 1; round <= 30; round++) {
        for (unsigned g = 0; g < MANY_GROUPS; g++) {
            assert_int_equal(append(lq_store_find(f->store, g + 1), 1, 1, 200), LIGHTQ_OK);
        }
        for (unsigned i = 0; i < 5000; i++) {
            lq_store_flush(f->store);
            assert_true(lq_io_mem_open_files(f->mem) <= FILES_MAX + OTHER_FILES);
            if (!lq_io_mem_run_one(f->mem) && lq_store_idle(f->store)) {
                break;
            }
        }
        for (unsigned g = 0; g < MANY_GROUPS; g++) {
            assert_int_equal(told[g].durable, round);
            assert_int_equal(told[g].failed_count, 0);
        }
    }
    for (unsigned g = 0; g < MANY_GROUPS; g++) {
        check_log(f, lq_store_find(f->store, g + 1));
        assert_true(lq_io_mem_open_files(f->mem) <= FILES_MAX + OTHER_FILES);
    }

    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);

    assert_true(lq_io_mem_open_files(f->mem) <= FILES_MAX + OTHER_FILES);
    for (unsigned g = 0; g < MANY_GROUPS; g++) {
        struct lq_rlog *log = lq_store_find(f->store, g + 1);
        assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
        assert_int_equal(lq_rlog_last(log), 30);
        check_log(f, log);
    }
    free(told);
}

/* While some groups always have more to write, the others have their turn. */
static void test_files_of_busy_groups_leave_room_for_the_others(void **state)
{
    struct fixture *f = *state;
    struct told *told = calloc(MANY_GROUPS, sizeof *told);
    assert_non_null(told);
    f->options.files_max = FILES_MAX;
    fixture_open(f);
    for (unsigned g = 0; g < MANY_GROUPS; g++) {
        (void)fixture_create(f, g + 1, &told[g]);
        assert_int_equal(append(lq_store_find(f->store, g + 1), 1, 1, 50), LIGHTQ_OK);
    }
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned g = 0; g < 100; g++) {
            assert_int_equal(append(lq_store_find(f->store, g + 1), 1, 1, 50), LIGHTQ_OK);
        }
        lq_store_flush(f->store);
        (void)lq_io_mem_run_one(f->mem);
    }
    for (unsigned g = 100; g < MANY_GROUPS; g++) {
        assert_int_equal(told[g].durable, 1);
    }
    fixture_settle(f);
    free(told);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_files_new_segment_without_descriptors_waits_and_others_go_on),
        TEST(test_files_read_without_descriptors_is_EBUSY),
        TEST(test_files_journal_without_descriptors_grows_on),
        TEST(test_files_checkpoint_without_descriptors_is_written_later),
        TEST(test_files_directory_without_descriptors_holds_up_the_flush_only),
        TEST(test_files_cut_opens_a_file_for_a_moment),
        TEST(test_files_start_without_descriptors_is_ELIMIT_and_no_damage),
        TEST(test_files_of_many_groups_stay_below_the_bound),
        TEST(test_files_of_busy_groups_leave_room_for_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
