/* tests/unit/storage/test_store.c - a store as its users see it: groups, entries, votes, durability told, reopening. */
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

static void test_store_new_disk_is_empty_and_idle(void **state)
{
    struct fixture *f = *state;

    fixture_open(f);

    assert_int_equal(lq_store_count(f->store), 0);
    assert_true(lq_store_idle(f->store));
    assert_null(lq_store_find(f->store, 1));
    assert_false(lq_store_knows(f->store, 1, NULL));
}

/* All of it is gone, directories of groups too: nothing but its owner can tell that there was something. */
static void test_store_that_must_exist_is_damaged_without_journal(void **state)
{
    struct fixture *f = *state;
    struct told told;
    fixture_open(f);
    (void)fixture_create(f, 5, &told);
    fixture_settle(f);
    f->options.must_exist = true;
    fixture_reopen(f);
    assert_non_null(lq_store_find(f->store, 5));
    fixture_close(f);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);

    assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);

    f->options.must_exist = false;
    assert_int_equal(fixture_try_open(f), LIGHTQ_OK);
}

static void test_store_append_is_told_durable_only_after_the_flush(void **state)
{
    struct fixture *f = *state;
    struct told told;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 5, &told);

    assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
    assert_int_equal(lq_rlog_last(log), 3);
    assert_int_equal(lq_rlog_durable(log), 0);
    lq_store_flush(f->store);
    assert_int_equal(told.durable, 0); /* never inside the call */
    fixture_settle(f);

    assert_int_equal(told.durable, 3);
    assert_int_equal(lq_rlog_durable(log), 3);
    check_log(f, log);
}

static void test_store_reopened_has_entries_and_vote(void **state)
{
    struct fixture *f = *state;
    struct told told;
    uint64_t term = 0;
    uint64_t voted_for = 0;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 5, &told);
    assert_int_equal(append(log, 10, 2, 33), LIGHTQ_OK);
    uint64_t sequence = lq_rlog_set_vote(log, 7, 42);
    fixture_settle(f);
    assert_int_equal(told.voted, sequence);

    fixture_reopen(f);
    log = fixture_find(f, 5, &told);

    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(log), 10);
    assert_int_equal(lq_rlog_durable(log), 10);
    assert_int_equal(lq_rlog_term_at(log, 10), 2);
    assert_int_equal(lq_rlog_term_at(log, 11), 0);
    lq_rlog_vote(log, &term, &voted_for);
    assert_int_equal(term, 7);
    assert_int_equal(voted_for, 42);
    check_log(f, log);
    assert_int_equal(append(log, 2, 7, 10), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(told.durable, 12);
    check_log(f, log);
}

/* Found by chaos/run disk-full-all: every replica had stopped for good, although nothing was lost. */
static void test_store_full_disk_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct told told;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 5, &told);
    assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    lq_io_mem_set_capacity(f->mem, 1);
    assert_int_equal(append(log, 3, 1, 100000), LIGHTQ_OK);

    for (unsigned i = 0; i < 100; i++) {
        f->clock.now_us += 100000;
        lq_store_flush(f->store);
        (void)lq_io_mem_run_all(f->mem);
    }
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(told.failed_count, 0);
    assert_int_equal(told.durable, 3);
    lq_io_mem_set_capacity(f->mem, LQ_IO_MEM_DISK_BYTES_DEFAULT);
    f->clock.now_us += 1000000;
    fixture_settle(f);

    assert_int_equal(told.durable, 6);
    check_log(f, log);
    fixture_reopen(f);
    log = fixture_find(f, 5, &told);
    assert_int_equal(lq_rlog_durable(log), 6);
    check_log(f, log);
}

static void test_store_closed_while_the_disk_is_full_ends(void **state)
{
    struct fixture *f = *state;
    struct told told;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 5, &told);
    assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    lq_io_mem_set_capacity(f->mem, 1);
    assert_int_equal(append(log, 3, 1, 100000), LIGHTQ_OK);
    lq_store_flush(f->store);
    (void)lq_io_mem_run_all(f->mem);

    fixture_close(f);
    lq_io_mem_set_capacity(f->mem, LQ_IO_MEM_DISK_BYTES_DEFAULT);
    fixture_open(f);

    log = fixture_find(f, 5, &told);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_in_range(lq_rlog_last(log), 3, 6);
    check_log(f, log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_store_new_disk_is_empty_and_idle, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_store_that_must_exist_is_damaged_without_journal, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_store_append_is_told_durable_only_after_the_flush, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_store_reopened_has_entries_and_vote, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_store_full_disk_is_waited_for, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_store_closed_while_the_disk_is_full_ends, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
