/* tests/unit/storage/test_flush.c - what a flush costs and tells: which files are synced, what one sync carries, who
 * fails when the disk does, journal files that come and go, groups made and destroyed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

#define MANY 20

static uint64_t syncs(struct fixture *f)
{
    return lq_io_mem_count(f->mem, LQ_IO_SYNC);
}

/* One flush, to its end. */
static void flush_once(struct fixture *f)
{
    lq_store_flush(f->store);
    (void)lq_io_mem_run_one(f->mem);
}

static void open_many(struct fixture *f, struct lq_rlog *logs[MANY], struct told told[MANY])
{
    fixture_open(f);
    for (unsigned i = 0; i < MANY; i++) {
        logs[i] = fixture_create(f, i + 1, &told[i]);
        assert_int_equal(append(logs[i], 1, 1, 100), LIGHTQ_OK);
    }
    fixture_settle(f);
}

static void test_flush_of_few_logs_syncs_their_segments(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    struct lq_store_counters before;
    struct lq_store_counters after;
    open_many(f, logs, told);
    flush_once(f);
    assert_int_equal(append(logs[0], 1, 1, 100), LIGHTQ_OK); /* its directory is synced with this one */
    assert_int_equal(append(logs[1], 1, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    lq_store_count_up(f->store, &before);
    uint64_t synced = syncs(f);

    assert_int_equal(append(logs[0], 3, 1, 100), LIGHTQ_OK);
    assert_int_equal(append(logs[1], 3, 1, 100), LIGHTQ_OK);
    flush_once(f);

    lq_store_count_up(f->store, &after);
    assert_int_equal(syncs(f) - synced, 2);
    assert_int_equal(after.segment_syncs - before.segment_syncs, 2);
    assert_int_equal(after.journal_syncs - before.journal_syncs, 0);
    assert_int_equal(after.flushes - before.flushes, 1);
    assert_int_equal(told[0].durable, 5);
    assert_int_equal(told[1].durable, 5);
}

static void test_flush_of_many_small_logs_syncs_only_the_journal(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    open_many(f, logs, told);
    uint64_t synced = syncs(f);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(append(logs[i], 2, 1, 100), LIGHTQ_OK);
    }

    flush_once(f);

    assert_int_equal(syncs(f) - synced, 1);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(told[i].durable, 3);
        assert_int_equal(told[i].durable_count, 2);
    }
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(lq_rlog_last(lq_store_find(f->store, i + 1)), 3);
        check_log(f, lq_store_find(f->store, i + 1));
    }
}

static void test_flush_of_large_entries_syncs_segments(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    struct lq_store_counters before;
    struct lq_store_counters after;
    f->options.journal_payload_max = 1000;
    open_many(f, logs, told);
    lq_store_count_up(f->store, &before);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(append(logs[i], 1, 1, 5000), LIGHTQ_OK);
    }

    flush_once(f);

    lq_store_count_up(f->store, &after);
    assert_int_equal(after.segment_syncs - before.segment_syncs, MANY);
    assert_true(after.journal_bytes_written - before.journal_bytes_written < 5000); /* no entries */
}

static void test_flush_of_many_votes_costs_one_sync(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    open_many(f, logs, told);
    uint64_t synced = syncs(f);
    for (unsigned i = 0; i < MANY; i++) {
        (void)lq_rlog_set_vote(logs[i], 2, i);
        (void)lq_rlog_set_vote(logs[i], 3, i + 1);
    }

    flush_once(f);

    assert_int_equal(syncs(f) - synced, 1);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(told[i].voted, 2);
    }
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t term = 0;
        uint64_t voted_for = 0;
        lq_rlog_vote(lq_store_find(f->store, i + 1), &term, &voted_for);
        assert_int_equal(term, 3);
        assert_int_equal(voted_for, i + 1);
    }
}

/* What comes while a flush is in flight gathers for one next flush. */
static void test_flush_gathers_while_one_is_in_flight(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct lq_store_counters counters;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, &told);
    fixture_settle(f);
    assert_int_equal(append(log, 1, 1, 10), LIGHTQ_OK);
    lq_store_flush(f->store);
    assert_int_equal(lq_io_mem_pending(f->mem), 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(append(log, 1, 1, 10), LIGHTQ_OK);
        lq_store_flush(f->store);
        f->clock.now_us += 100;
    }
    assert_int_equal(lq_io_mem_pending(f->mem), 1);
    lq_store_count_up(f->store, &counters);
    assert_in_range(counters.oldest_pending_us, 1000, 1001);
    assert_false(lq_store_idle(f->store));

    (void)lq_io_mem_run_one(f->mem);
    assert_int_equal(told.durable, 1);
    flush_once(f);

    assert_int_equal(told.durable, 11);
    fixture_settle(f);
    lq_store_count_up(f->store, &counters);
    assert_int_equal(counters.oldest_pending_us, 0);
    assert_int_equal(counters.entries_appended, 11);
}

static void test_flush_with_a_failing_segment_ends_that_log_only(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    static const unsigned verbs[] = {LQ_IO_WRITE, LQ_IO_ALLOCATE, LQ_IO_MEM_CREATE};
    f->options.segment_bytes = 1024 * 1024;
    f->options.late_bytes_max = 1; /* the segments are written at once */
    open_many(f, logs, told);
    for (unsigned v = 0; v < 3; v++) {
        char pattern[16];
        (void)snprintf(pattern, sizeof pattern, "g%u-*.log", v + 1);
        const struct lq_io_mem_fault fault = {
            .verb = verbs[v], .pattern = pattern, .times = 1, .status = LIGHTQ_EIO, .partial = true};
        assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
        for (unsigned i = v; i < MANY; i++) {
            assert_int_equal(append(logs[i], 1, 1, verbs[v] == LQ_IO_WRITE ? 100 : 300000), LIGHTQ_OK);
        }
        if (verbs[v] == LQ_IO_MEM_CREATE) {
            assert_int_equal(append(logs[v], 1, 1, 1100000), LIGHTQ_OK); /* needs another segment */
        }
        fixture_settle(f);
    }

    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(told[i].failed_count, i < 3);
        assert_int_equal(lq_rlog_health(logs[i]), i < 3 ? LQ_RLOG_FAILED : LQ_RLOG_HEALTHY);
        assert_int_equal(append(logs[i], 1, 1, 10), i < 3 ? LIGHTQ_ESTOPPED : LIGHTQ_OK);
    }
    assert_int_equal(told[0].failed_status, LIGHTQ_EIO);
    assert_string_not_equal(told[0].failed_text, "");
    assert_int_equal(lq_rlog_cut(logs[0], 1), LIGHTQ_ESTOPPED);
    assert_int_equal(lq_rlog_trim(logs[0], 1), LIGHTQ_ESTOPPED);
    fixture_settle(f);
    for (unsigned i = 3; i < MANY; i++) {
        assert_int_equal(lq_rlog_durable(logs[i]), lq_rlog_last(logs[i]));
    }
    fixture_reopen(f); /* what was durable of them is there again */
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(lq_rlog_health(lq_store_find(f->store, i + 1)), LQ_RLOG_HEALTHY);
    }
}

static void test_flush_with_a_failing_sync_is_never_tried_again(void **state)
{
    struct fixture *f = *state;
    struct told told;
    const struct lq_io_mem_fault fault = {.verb = LQ_IO_SYNC, .pattern = "g1-*.log", .times = 1, .status = LIGHTQ_EIO};
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, &told);
    assert_int_equal(append(log, 2, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(append(log, 1, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    assert_int_equal(append(log, 1, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    uint64_t synced = syncs(f);
    for (int i = 0; i < 5; i++) {
        flush_once(f);
    }

    assert_int_equal(syncs(f), synced);
    assert_int_equal(told.failed_count, 1);
    assert_int_equal(told.durable, 3);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);
    assert_int_equal(lq_rlog_health(lq_store_find(f->store, 1)), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(lq_store_find(f->store, 1)), 3);
}

static void test_flush_with_a_failing_journal_ends_all_logs(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    struct lq_rlog *other = NULL;
    const struct lq_io_mem_fault fault = {.verb = LQ_IO_SYNC, .pattern = "journal/*", .times = 1, .status = LIGHTQ_EIO};
    open_many(f, logs, told);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
    (void)lq_rlog_set_vote(logs[4], 9, 9);

    fixture_settle(f);

    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(told[i].failed_count, 1);
        assert_int_equal(told[i].voted, 0);
        assert_int_equal(append(logs[i], 1, 1, 1), LIGHTQ_ESTOPPED);
    }
    assert_int_equal(lq_rlog_create(f->store, 99, 1, &other, &f->err), LIGHTQ_ESTOPPED);
    fixture_reopen(f);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(lq_rlog_health(lq_store_find(f->store, i + 1)), LQ_RLOG_HEALTHY);
        check_log(f, lq_store_find(f->store, i + 1));
    }
}

static size_t journal_files(struct fixture *f)
{
    char path[64];
    size_t count = 0;
    for (unsigned i = 1; i < 200; i++) {
        (void)snprintf(path, sizeof path, "journal/s0-%020u.journal", i);
        count += lq_io_mem_exists(f->mem, path);
    }
    return count;
}

static void test_flush_begins_new_journal_files_and_drops_old_ones(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    f->options.journal_bytes = 8192;
    open_many(f, logs, told);
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            assert_int_equal(append(logs[i], 1, 1, 200), LIGHTQ_OK);
        }
        fixture_settle(f);
        assert_int_equal(journal_files(f), 1);
    }

    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);

    assert_true(lq_io_mem_exists(f->mem, "journal"));
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(lq_rlog_last(lq_store_find(f->store, i + 1)), 21);
        check_log(f, lq_store_find(f->store, i + 1));
    }
}

static void test_flush_without_space_for_a_journal_file_goes_on_in_the_old_one(void **state)
{
    struct fixture *f = *state;
    struct told told;
    const struct lq_io_mem_fault fault = {
        .verb = LQ_IO_MEM_CREATE, .pattern = "journal/*", .times = 3, .status = LIGHTQ_ENOSPC};
    f->options.journal_bytes = 1024;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, &told);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    for (uint64_t i = 1; i < 200; i++) {
        (void)lq_rlog_set_vote(log, i, 1);
        fixture_settle(f);
        assert_int_equal(told.voted, i);
    }

    assert_int_equal(told.failed_count, 0);
    assert_int_equal(lq_io_mem_faults_hit(f->mem), 3);
    assert_int_equal(journal_files(f), 1);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);
    uint64_t term = 0;
    uint64_t voted_for = 0;
    lq_rlog_vote(lq_store_find(f->store, 1), &term, &voted_for);
    assert_int_equal(term, 199);
}

/* A background sync that fails ends its log and keeps the journal for it. */
static void test_flush_background_sync_that_fails_keeps_the_journal(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
    const struct lq_io_mem_fault fault = {.verb = LQ_IO_SYNC, .pattern = "g3-*.log", .times = 1, .status = LIGHTQ_EIO};
    f->options.journal_bytes = 8192;
    open_many(f, logs, told);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
    for (int round = 0; round < 10; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            if (lq_rlog_health(logs[i]) == LQ_RLOG_HEALTHY) {
                assert_int_equal(append(logs[i], 1, 1, 200), LIGHTQ_OK);
            }
        }
        fixture_settle(f);
    }
    uint64_t durable = told[2].durable;
    assert_int_equal(told[2].failed_count, 1);
    assert_true(durable > 1);
    assert_in_range(journal_files(f), 2, 6); /* those that cover it, not all since */

    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);

    assert_int_equal(lq_rlog_health(lq_store_find(f->store, 3)), LQ_RLOG_HEALTHY);
    assert_true(lq_rlog_last(lq_store_find(f->store, 3)) >= durable);
    check_log(f, lq_store_find(f->store, 3));
    fixture_settle(f);
    assert_int_equal(journal_files(f), 1);
}

/* ---- groups ---- */

static void test_flush_create_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = NULL;
    uint32_t incarnation = 0;
    fixture_open(f);
    (void)fixture_create(f, 5, NULL);

    assert_int_equal(lq_rlog_create(f->store, 5, 2, &log, &f->err), LIGHTQ_EEXISTS);
    lq_rlog_destroy(lq_store_find(f->store, 5));
    assert_int_equal(lq_rlog_create(f->store, 5, 1, &log, &f->err), LIGHTQ_ECONFLICT);
    assert_int_equal(lq_rlog_create(f->store, 5, 2, &log, &f->err), LIGHTQ_OK);

    fixture_settle(f);
    assert_true(lq_store_knows(f->store, 5, &incarnation));
    assert_int_equal(incarnation, 2);
    assert_false(lq_io_mem_exists(f->mem, "g5-1"));
    fixture_reopen(f);
    assert_int_equal(lq_rlog_incarnation(lq_store_find(f->store, 5)), 2);
}

static void test_flush_destroyed_group_is_known_for_good(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 5, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    lq_store_flush(f->store); /* in flight */

    lq_rlog_destroy(log);
    assert_null(lq_store_find(f->store, 5));
    assert_int_equal(lq_store_count(f->store), 0);
    fixture_settle(f);

    assert_false(lq_io_mem_exists(f->mem, "g5-1"));
    for (int i = 0; i < 3; i++) {
        fixture_reopen(f);
        assert_null(lq_store_find(f->store, 5));
        assert_true(lq_store_knows(f->store, 5, NULL));
    }
}

/* An event may destroy its own log, or another one whose news are still to be told. */
static struct lq_rlog *destroy_other;

static void on_durable_destroy(void *owner, uint64_t index)
{
    (void)index;
    lq_rlog_destroy(owner);
    if (destroy_other != NULL) {
        lq_rlog_destroy(destroy_other);
        destroy_other = NULL;
    }
}

static void test_flush_event_may_destroy_logs(void **state)
{
    static const struct lq_rlog_events events = {.durable = on_durable_destroy};
    struct fixture *f = *state;
    fixture_open(f);
    struct lq_rlog *a = fixture_create(f, 1, NULL);
    struct lq_rlog *b = fixture_create(f, 2, NULL);
    lq_rlog_set_events(a, &events, a);
    lq_rlog_set_events(b, &events, b);
    destroy_other = b;
    assert_int_equal(append(a, 1, 1, 1), LIGHTQ_OK);
    assert_int_equal(append(b, 1, 1, 1), LIGHTQ_OK);

    fixture_settle(f);

    assert_int_equal(lq_store_count(f->store), 0);
    assert_false(lq_io_mem_exists(f->mem, "g1-1"));
    assert_false(lq_io_mem_exists(f->mem, "g2-1"));
}

static void test_flush_logs_are_listed_by_group_after_a_start(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    (void)fixture_create(f, 9, NULL);
    (void)fixture_create(f, 3, NULL);
    (void)fixture_create(f, 300, NULL);
    fixture_settle(f);

    fixture_reopen(f);

    assert_int_equal(lq_store_count(f->store), 3);
    assert_int_equal(lq_rlog_group(lq_store_at(f->store, 0)), 3);
    assert_int_equal(lq_rlog_group(lq_store_at(f->store, 1)), 9);
    assert_int_equal(lq_rlog_group(lq_store_at(f->store, 2)), 300);
}

static void test_flush_store_in_a_directory_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct lq_store_space space;
    f->options.dir = "a";
    f->options.shard = 3;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 5, NULL);
    assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
    fixture_settle(f);

    assert_true(lq_io_mem_exists(f->mem, "a/g5-1/00000000000000000001.log"));
    assert_true(lq_io_mem_exists(f->mem, "a/journal/s3-00000000000000000001.journal"));
    assert_int_equal(lq_store_space(f->store, &space), LIGHTQ_OK);
    assert_true(space.used_bytes >= 3 * 100 && space.used_bytes < space.total_bytes);
    assert_true(space.free_bytes < space.total_bytes);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    fixture_open(f);
    check_log(f, lq_store_find(f->store, 5));
    assert_int_equal(lq_rlog_last(lq_store_find(f->store, 5)), 3);
}

static void test_flush_directory_name_too_long_is_EINVAL(void **state)
{
    struct fixture *f = *state;
    char dir[400];
    memset(dir, 'x', sizeof dir - 1);
    dir[sizeof dir - 1] = '\0';
    f->options.dir = dir;

    assert_int_equal(fixture_try_open(f), LIGHTQ_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flush_of_few_logs_syncs_their_segments, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_of_many_small_logs_syncs_only_the_journal, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_of_large_entries_syncs_segments, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_of_many_votes_costs_one_sync, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_gathers_while_one_is_in_flight, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_with_a_failing_segment_ends_that_log_only, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_with_a_failing_sync_is_never_tried_again, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_with_a_failing_journal_ends_all_logs, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_begins_new_journal_files_and_drops_old_ones, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_without_space_for_a_journal_file_goes_on_in_the_old_one,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_background_sync_that_fails_keeps_the_journal, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_create_twice_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_destroyed_group_is_known_for_good, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_event_may_destroy_logs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_logs_are_listed_by_group_after_a_start, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_store_in_a_directory_of_its_own, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flush_directory_name_too_long_is_EINVAL, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
