/* tests/unit/storage/test_retain.c - checkpoints at segment borders, trimming, installs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

static struct lq_rlog *open_small(struct fixture *f, struct told *told)
{
    f->options.segment_bytes = 1024;
    f->options.index_stride = 256;
    f->options.cache_bytes = 1;
    fixture_open(f);
    return fixture_create(f, 7, told);
}

static void take_checkpoint(struct lq_rlog *log, uint64_t last_index, lightq_status wanted)
{
    char text[32];
    (void)snprintf(text, sizeof text, "state after %" PRIu64, last_index);
    struct lq_checkpoint checkpoint = make_checkpoint(log, last_index, lq_rlog_term_at(log, last_index), text);
    assert_int_equal(lq_rlog_checkpoint(log, &checkpoint), wanted);
}

/* The first indexes of segments 2, 3, ... as wants_checkpoint tells them. */
static size_t borders(struct lq_rlog *log, uint64_t *out, size_t max)
{
    size_t count = 0;
    for (uint64_t i = 0; i <= lq_rlog_last(log) + 1 && count < max; i++) {
        if (lq_rlog_wants_checkpoint(log, i)) {
            out[count++] = i;
        }
    }
    return count;
}

static void check_state(struct lq_rlog *log, uint64_t index_max, bool newest, uint64_t last_index)
{
    struct lq_checkpoint checkpoint;
    struct lq_err err = {.text = ""};
    uint8_t *bytes = NULL;
    char text[32];
    assert_int_equal(lq_rlog_load_checkpoint(log, index_max, newest, &checkpoint, &bytes, &err), LIGHTQ_OK);
    (void)snprintf(text, sizeof text, "state after %" PRIu64, last_index);
    assert_int_equal(checkpoint.last_index, last_index);
    assert_int_equal(checkpoint.state_size, strlen(text));
    assert_memory_equal(checkpoint.state, text, strlen(text));
    assert_int_equal(checkpoint.configuration_size, 13);
    assert_memory_equal(checkpoint.configuration, "configuration", 13);
    assert_int_equal(checkpoint.next_offset, entry_offset(last_index + 1));
    free(bytes);
}

static void test_retain_checkpoints_are_wanted_at_borders_once(void **state)
{
    struct fixture *f = *state;
    uint64_t at[32];
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    size_t count = borders(log, at, 32);
    assert_true(count >= 4);

    take_checkpoint(log, at[1] - 1, LIGHTQ_OK);

    assert_false(lq_rlog_wants_checkpoint(log, at[1])); /* pending */
    take_checkpoint(log, at[1] - 1, LIGHTQ_EEXISTS);
    fixture_settle(f);
    assert_false(lq_rlog_wants_checkpoint(log, at[1])); /* durable */
    assert_true(lq_rlog_wants_checkpoint(log, at[2]));
    fixture_reopen(f);
    log = lq_store_find(f->store, 7);
    assert_false(lq_rlog_wants_checkpoint(log, at[1]));
    assert_true(lq_rlog_wants_checkpoint(log, at[2]));
    check_state(log, UINT64_MAX, true, at[1] - 1);
}

static void test_retain_checkpoint_of_what_is_not_durable_is_EINVAL(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 20, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(append(log, 20, 1, 100), LIGHTQ_OK);

    take_checkpoint(log, 25, LIGHTQ_EINVAL);
    take_checkpoint(log, 50, LIGHTQ_EINVAL);
    struct lq_checkpoint other = make_checkpoint(log, 10, 9, "of another term");
    assert_int_equal(lq_rlog_checkpoint(log, &other), LIGHTQ_EINVAL);

    assert_int_equal(lq_rlog_load_checkpoint(log, 100, true, &other, &(uint8_t *){NULL}, NULL), LIGHTQ_ENOTFOUND);
}

static void test_retain_newest_checkpoint_below_an_index_is_loaded(void **state)
{
    struct fixture *f = *state;
    uint64_t at[32];
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    size_t count = borders(log, at, 32);
    for (size_t i = 0; i < count; i++) {
        take_checkpoint(log, at[i] - 1, LIGHTQ_OK);
    }
    fixture_settle(f);

    check_state(log, UINT64_MAX, true, at[count - 1] - 1);
    check_state(log, at[1] - 1, true, at[1] - 1);
    check_state(log, at[1] - 2, true, at[0] - 1);
}

static void test_retain_checkpoint_that_cannot_be_written_only_delays_trimming(void **state)
{
    struct fixture *f = *state;
    uint64_t at[32];
    struct told told;
    struct lq_checkpoint checkpoint;
    struct lq_rlog *log = open_small(f, &told);
    const struct lq_io_mem_fault fault = {
        .verb = LQ_IO_SYNC, .pattern = "*.ckpt.tmp", .times = 1, .status = LIGHTQ_EIO};
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_true(borders(log, at, 32) > 2);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    take_checkpoint(log, at[1] - 1, LIGHTQ_OK);
    fixture_settle(f);

    assert_int_equal(told.failed_count, 0);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_trim_point(log, 30, &checkpoint), 0);
    take_checkpoint(log, at[1] - 1, LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_rlog_trim_point(log, 30, &checkpoint), at[1] - 1);
}

static void test_retain_trim_drops_whole_segments_and_keeps_the_rest(void **state)
{
    struct fixture *f = *state;
    uint64_t at[32];
    char path[128];
    struct lq_checkpoint checkpoint;
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 10, 1, 100), LIGHTQ_OK);
    assert_int_equal(append(log, 20, 2, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_true(borders(log, at, 32) > 3);
    take_checkpoint(log, at[0] - 1, LIGHTQ_OK);
    take_checkpoint(log, at[2] - 1, LIGHTQ_OK);
    assert_int_equal(lq_rlog_trim_point(log, 30, &checkpoint), 0); /* not durable yet */
    fixture_settle(f);
    uint64_t bytes = lq_rlog_bytes(log);

    assert_int_equal(lq_rlog_trim_point(log, at[2] - 1, &checkpoint), at[0] - 1);
    assert_int_equal(lq_rlog_trim_point(log, at[2], &checkpoint), at[2] - 1);
    assert_int_equal(checkpoint.last_term, lq_rlog_term_at(log, at[2] - 1));
    assert_int_equal(lq_rlog_trim(log, at[1] - 1), LIGHTQ_EINVAL); /* no checkpoint there */
    assert_int_equal(lq_rlog_trim(log, at[2]), LIGHTQ_EINVAL);
    assert_int_equal(lq_rlog_trim(log, at[2] - 1), LIGHTQ_OK);

    for (int reopened = 0; reopened < 2; reopened++) {
        fixture_settle(f);
        assert_int_equal(lq_rlog_first(log), at[2]);
        assert_int_equal(lq_rlog_last(log), 30);
        assert_int_equal(lq_rlog_first_offset(log), entry_offset(at[2]));
        assert_int_equal(lq_rlog_seek_offset(log, 0), at[2]);
        assert_int_equal(lq_rlog_term_at(log, at[2] - 1), checkpoint.last_term);
        assert_int_equal(lq_rlog_term_at(log, 1), 0);
        assert_true(lq_rlog_first_checkpoint(log, &checkpoint));
        assert_int_equal(checkpoint.last_index, at[2] - 1);
        check_state(log, 0, false, at[2] - 1);
        assert_false(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, 1, ".log")));
        assert_false(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, 1, ".idx")));
        assert_false(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, at[0], ".ckpt")));
        assert_true(lq_rlog_bytes(log) < bytes);
        check_log(f, log);
        fixture_reopen(f);
        log = lq_store_find(f->store, 7);
    }
}

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    *(lightq_status *)read->data = status;
    assert_int_equal(read->count, 1);
}

static void test_retain_trim_during_a_read_lets_it_finish(void **state)
{
    struct fixture *f = *state;
    uint64_t at[32];
    struct lq_checkpoint checkpoint;
    lightq_status status = LIGHTQ_EINTERNAL;
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_true(borders(log, at, 32) > 3);
    take_checkpoint(log, at[2] - 1, LIGHTQ_OK);
    fixture_settle(f);
    uint64_t point = lq_rlog_trim_point(log, 30, &checkpoint);
    struct lq_rlog_read read = {.index = 1, .bytes_max = 1, .cb = on_read, .data = &status};
    assert_int_equal(lq_rlog_read(log, &read), LIGHTQ_OK);

    assert_int_equal(lq_rlog_trim(log, point), LIGHTQ_OK);
    (void)lq_io_mem_run_all(f->mem);

    assert_int_equal(status, LIGHTQ_OK);
    assert_int_equal(lq_rlog_read(log, &read), LIGHTQ_EOUTOFRANGE);
    fixture_settle(f);
    check_log(f, log);
}

static void install(struct lq_rlog *log, uint64_t last_index, uint64_t term, lightq_status wanted)
{
    char text[32];
    (void)snprintf(text, sizeof text, "state after %" PRIu64, last_index);
    struct lq_checkpoint checkpoint = make_checkpoint(log, last_index, term, text);
    assert_int_equal(lq_rlog_install(log, &checkpoint), wanted);
}

static void test_retain_install_replaces_the_log(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct told told;
    struct lq_rlog *log = open_small(f, &told);
    const struct lq_rlog_run *runs;
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    uint64_t generation = lq_rlog_generation(log);

    install(log, 100, 5, LIGHTQ_OK);

    assert_int_equal(lq_rlog_first(log), 101);
    assert_int_equal(lq_rlog_last(log), 100);
    assert_int_equal(lq_rlog_durable(log), 0);
    assert_true(lq_rlog_generation(log) > generation);
    assert_int_equal(append(log, 1, 5, 10), LIGHTQ_EBUSY);
    assert_int_equal(lq_rlog_cut(log, 101), LIGHTQ_EBUSY);
    fixture_settle(f);
    assert_int_equal(told.installed, 100);
    assert_int_equal(lq_rlog_durable(log), 100);
    assert_int_equal(append(log, 3, 5, 10), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(told.durable, 103);
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(lq_rlog_first(log), 101);
        assert_int_equal(lq_rlog_last(log), 103);
        assert_int_equal(lq_rlog_term_at(log, 100), 5);
        assert_int_equal(lq_rlog_runs(log, &runs), 1);
        assert_int_equal(lq_rlog_first_offset(log), entry_offset(101));
        check_state(log, 0, false, 100);
        check_log(f, log);
        assert_false(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, 1, ".log")));
        fixture_reopen(f);
        log = lq_store_find(f->store, 7);
    }
}

static void test_retain_install_drops_completions_of_the_old_log(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct lq_rlog *log = open_small(f, &told);
    assert_int_equal(append(log, 5, 1, 100), LIGHTQ_OK);
    lq_store_flush(f->store); /* in flight */

    install(log, 50, 2, LIGHTQ_OK);
    (void)lq_io_mem_run_one(f->mem);

    assert_int_equal(told.durable_count, 0);
    fixture_settle(f);
    assert_int_equal(told.durable_count, 0);
    assert_int_equal(told.installed, 50);
}

static void test_retain_install_twice_the_later_one_holds(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct lq_rlog *log = open_small(f, &told);
    assert_int_equal(append(log, 5, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    install(log, 50, 2, LIGHTQ_OK);
    lq_store_flush(f->store);
    (void)lq_io_mem_run_one(f->mem);

    install(log, 60, 3, LIGHTQ_OK);
    fixture_settle(f);

    assert_int_equal(told.installed, 60);
    fixture_reopen(f);
    log = lq_store_find(f->store, 7);
    assert_int_equal(lq_rlog_first(log), 61);
    check_state(log, 0, false, 60);
}

static void test_retain_install_of_nothing_is_EINVAL(void **state)
{
    struct lq_rlog *log = open_small(*state, NULL);

    install(log, 0, 1, LIGHTQ_EINVAL);
    install(log, 5, 0, LIGHTQ_EINVAL);

    assert_int_equal(lq_rlog_first(log), 1);
}

static void test_retain_install_that_cannot_be_written_ends_the_log(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct lq_rlog *log = open_small(f, &told);
    const struct lq_io_mem_fault fault = {
        .verb = LQ_IO_SYNC, .pattern = "*.ckpt.tmp", .times = 1, .status = LIGHTQ_EIO};
    assert_int_equal(append(log, 5, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    install(log, 50, 2, LIGHTQ_OK);
    fixture_settle(f);

    assert_int_equal(told.failed_count, 1);
    assert_int_equal(told.failed_status, LIGHTQ_EIO);
    fixture_reopen(f);
    log = lq_store_find(f->store, 7); /* the install never was */
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(log), 5);
    check_log(f, log);
}

/* A full disk is waited for; what frees space has its turn meanwhile. */
static void test_retain_install_without_space_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct lq_rlog *log = open_small(f, &told);
    const struct lq_io_mem_fault fault = {
        .verb = LQ_IO_WRITE, .pattern = "*.ckpt.tmp", .times = 3, .status = LIGHTQ_ENOSPC, .partial = true};
    assert_int_equal(append(log, 5, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
    struct lq_rlog *other = fixture_create(f, 8, NULL);

    install(log, 50, 2, LIGHTQ_OK);
    for (unsigned i = 0; i < 20 && told.installed == 0; i++) {
        assert_int_equal(append(other, 1, 1, 10), LIGHTQ_OK);
        lq_store_flush(f->store);
        (void)lq_io_mem_run_all(f->mem);
        f->clock.now_us += 100000;
    }

    assert_int_equal(lq_io_mem_faults_hit(f->mem), 3);
    assert_int_equal(told.failed_count, 0);
    assert_int_equal(told.installed, 50);
    fixture_settle(f);
    assert_int_equal(lq_rlog_durable(other), lq_rlog_last(other));
    fixture_reopen(f);
    log = lq_store_find(f->store, 7);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    check_state(log, 0, false, 50);
}

static void test_retain_checkpoint_too_large_is_ETOOBIG(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_small(f, NULL);
    struct lq_checkpoint checkpoint = make_checkpoint(log, 50, 2, "x");
    checkpoint.configuration_size = 100000;
    assert_int_equal(lq_rlog_install(log, &checkpoint), LIGHTQ_ETOOBIG);
    checkpoint = make_checkpoint(log, 50, 2, "x");
    checkpoint.state_size = UINT64_MAX;

    assert_int_equal(lq_rlog_install(log, &checkpoint), LIGHTQ_ETOOBIG);

    assert_int_equal(lq_rlog_first(log), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_retain_checkpoints_are_wanted_at_borders_once, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_checkpoint_of_what_is_not_durable_is_EINVAL, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_newest_checkpoint_below_an_index_is_loaded, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_checkpoint_that_cannot_be_written_only_delays_trimming,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_trim_drops_whole_segments_and_keeps_the_rest, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_trim_during_a_read_lets_it_finish, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_install_replaces_the_log, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_install_drops_completions_of_the_old_log, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_install_twice_the_later_one_holds, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_install_of_nothing_is_EINVAL, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_install_that_cannot_be_written_ends_the_log, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_install_without_space_is_tried_again, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retain_checkpoint_too_large_is_ETOOBIG, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
