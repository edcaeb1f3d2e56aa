/* tests/unit/storage/test_scrub.c - the search for rot: what it finds, what it must not take for rot, how much it
 * reads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"
#include "store_model.h"

#define GROUP        7
#define RATE         (4u * 1024 * 1024)
#define INTERVAL_MS  60000u
#define TURNS_MAX    10000
#define RANDOM_SEEDS 40
#define RANDOM_STEPS 100

static struct lq_store_counters counters_of(struct fixture *f)
{
    struct lq_store_counters counters;
    lq_store_count_up(f->store, &counters);
    return counters;
}

static void small_segments(struct fixture *f)
{
    f->options.segment_bytes = 1024;
    f->options.index_stride = 256;
    f->options.cache_bytes = 1;
    f->options.scrub_bytes_per_second = RATE;
    f->options.scrub_interval_ms = INTERVAL_MS;
}

/* The search that a store begins with finds nothing yet. */
static void open_and_pass(struct fixture *f)
{
    fixture_open(f);
    f->clock.now_us += 1000000;
    fixture_settle(f);
    assert_int_equal(counters_of(f).scrub_passes, 1);
}

/* Turns of the loop, each 10 ms after the one before, until the pass that is next has ended. */
static void run_pass(struct fixture *f)
{
    uint64_t passes = counters_of(f).scrub_passes;
    f->clock.now_us += INTERVAL_MS * UINT64_C(1000);
    for (unsigned i = 0; i < TURNS_MAX && counters_of(f).scrub_passes == passes; i++) {
        f->clock.now_us += 10000;
        fixture_settle(f);
    }
    assert_true(counters_of(f).scrub_passes > passes);
    fixture_settle(f);
}

static uint64_t rot_at(struct lq_rlog *log, lightq_status status)
{
    uint64_t index = 0;
    const struct lq_err *rot = lq_rlog_rot(log, &index);
    assert_non_null(rot);
    assert_int_equal(rot->status, status);
    assert_true(rot->text[0] != '\0');
    return index;
}

static void assert_sound(struct lq_rlog *log)
{
    uint64_t index = 0;
    const struct lq_err *rot = lq_rlog_rot(log, &index);
    if (rot != NULL) {
        fail_msg("rot at %" PRIu64 ": %s", index, rot->text);
    }
}

/* Entries of 172 bytes (176 stored), five in a segment: the third segment begins with entry 11. */
static struct lq_rlog *filled(struct fixture *f, struct told *told)
{
    small_segments(f);
    open_and_pass(f);
    struct lq_rlog *log = fixture_create(f, GROUP, told);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    return log;
}

static void checkpoint_at(struct fixture *f, struct lq_rlog *log, uint64_t next_index)
{
    struct lq_checkpoint checkpoint = make_checkpoint(log, next_index - 1, 1, "the state of the queue");
    assert_int_equal(lq_rlog_checkpoint(log, &checkpoint), LIGHTQ_OK);
    fixture_settle(f);
}

static uint64_t file_size(struct fixture *f, const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(lq_io_mem_read_file(f->mem, path, &bytes, &size), LIGHTQ_OK);
    free(bytes);
    return size;
}

/* The first entries of the segments, from wants_checkpoint. */
static size_t borders(struct lq_rlog *log, uint64_t *out, size_t max)
{
    size_t count = 0;
    for (uint64_t i = 2; i <= lq_rlog_last(log) && count < max; i++) {
        if (lq_rlog_wants_checkpoint(log, i)) {
            out[count++] = i;
        }
    }
    return count;
}

/* ---- rot is found ---- */

static void test_scrub_of_sound_logs_reads_all_and_finds_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char path[64];
    struct lq_rlog *log = filled(f, NULL);
    size_t count = borders(log, at, 8);
    assert_true(count >= 4);
    checkpoint_at(f, log, at[1]);
    uint64_t sealed = 0;
    for (size_t i = 0; i < count; i++) { /* the last border begins the open segment */
        uint64_t first = i == 0 ? 1 : at[i - 1];
        sealed += file_size(f, group_path(path, sizeof path, GROUP, first, ".log"));
        sealed += file_size(f, group_path(path, sizeof path, GROUP, first, ".idx"));
    }
    sealed += file_size(f, group_path(path, sizeof path, GROUP, at[1], ".ckpt"));
    uint64_t before = counters_of(f).scrub_bytes;

    run_pass(f);

    assert_int_equal(counters_of(f).scrub_bytes - before, sealed);
    assert_int_equal(counters_of(f).scrub_errors, 0);
    assert_sound(log);
}

static void test_scrub_rot_in_a_sealed_segment_that_nobody_reads_is_found(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char path[64];
    struct told told;
    struct lq_rlog *log = filled(f, &told);
    (void)fixture_create(f, GROUP + 1, NULL);
    assert_int_equal(append(lq_store_find(f->store, GROUP + 1), 30, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_true(borders(log, at, 8) >= 4);
    group_path(path, sizeof path, GROUP, at[1], ".log");
    assert_int_equal(lq_io_mem_flip(f->mem, path, file_size(f, path) / 2, 3), LIGHTQ_OK);

    run_pass(f);

    uint64_t index = rot_at(log, LIGHTQ_ECORRUPT);
    assert_in_range(index, at[1] + 1, at[2] - 2);
    assert_int_equal(counters_of(f).scrub_errors, 1);
    assert_sound(lq_store_find(f->store, GROUP + 1));
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY); /* what follows is for the owner to say */
    assert_int_equal(told.failed_count, 0);
    assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_rlog_durable(log), 33);

    run_pass(f); /* once is enough */
    assert_int_equal(counters_of(f).scrub_errors, 1);
    assert_int_equal(lq_io_mem_flip(f->mem, path, file_size(f, path) / 2, 3), LIGHTQ_OK);
}

/* Every byte of the file matters. */
static void test_scrub_each_flipped_byte_of_a_segment_is_found(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char path[64];
    struct lq_rlog *log = filled(f, NULL);
    assert_true(borders(log, at, 8) >= 4);
    group_path(path, sizeof path, GROUP, at[1], ".log");
    uint64_t size = file_size(f, path);
    for (uint64_t i = 0; i < size; i++) {
        if (i >= 44 && i < 48) {
            continue; /* unused in the header, but covered by its crc: below */
        }
        assert_int_equal(lq_io_mem_flip(f->mem, path, i, (unsigned)(i * 5)), LIGHTQ_OK);

        run_pass(f);

        uint64_t index = rot_at(log, LIGHTQ_ECORRUPT);
        assert_in_range(index, at[1], at[2] - 1);
        assert_int_equal(lq_io_mem_flip(f->mem, path, i, (unsigned)(i * 5)), LIGHTQ_OK);
        fixture_reopen(f);
        log = lq_store_find(f->store, GROUP);
        assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    }
    assert_int_equal(lq_io_mem_flip(f->mem, path, 45, 1), LIGHTQ_OK);
    run_pass(f);
    (void)rot_at(log, LIGHTQ_ECORRUPT);
}

static void test_scrub_segment_that_is_short_or_gone_is_found(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char path[64];
    struct lq_rlog *log = filled(f, NULL);
    assert_true(borders(log, at, 8) >= 4);
    group_path(path, sizeof path, GROUP, at[1], ".log");
    assert_int_equal(lq_io_mem_cut_file(f->mem, path, file_size(f, path) - 8), LIGHTQ_OK);
    run_pass(f);
    assert_int_equal(rot_at(log, LIGHTQ_ECORRUPT), at[2] - 1);

    fixture_close(f);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    log = filled(f, NULL);
    assert_int_equal(lq_io_mem_remove(f->mem, path), LIGHTQ_OK);
    run_pass(f);
    assert_int_equal(rot_at(log, LIGHTQ_ECORRUPT), at[1]);
}

/* Larger than a read of the search; the entries too. */
static void test_scrub_rot_in_a_large_entry_is_found(void **state)
{
    struct fixture *f = *state;
    char path[64];
    f->options.segment_bytes = 1 << 20;
    f->options.cache_bytes = 1;
    f->options.scrub_bytes_per_second = RATE;
    f->options.scrub_interval_ms = INTERVAL_MS;
    open_and_pass(f);
    struct lq_rlog *log = fixture_create(f, GROUP, NULL);
    assert_int_equal(append(log, 8, 1, 300001), LIGHTQ_OK);
    fixture_settle(f);
    run_pass(f);
    assert_sound(log);
    assert_true(counters_of(f).scrub_bytes > 1800000);

    group_path(path, sizeof path, GROUP, 1, ".log");
    assert_int_equal(lq_io_mem_flip(f->mem, path, 700000, 0), LIGHTQ_OK);
    run_pass(f);

    assert_int_equal(rot_at(log, LIGHTQ_ECORRUPT), 3);
}

static void test_scrub_bad_index_is_made_again(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char path[64];
    uint8_t *was = NULL;
    uint8_t *is = NULL;
    size_t was_size = 0;
    size_t is_size = 0;
    struct lq_rlog *log = filled(f, NULL);
    assert_true(borders(log, at, 8) >= 4);
    group_path(path, sizeof path, GROUP, at[1], ".idx");
    assert_int_equal(lq_io_mem_read_file(f->mem, path, &was, &was_size), LIGHTQ_OK);
    for (unsigned round = 0; round < 4; round++) {
        if (round % 2 == 1) { /* after a start nothing of it is in memory */
            fixture_reopen(f);
            log = lq_store_find(f->store, GROUP);
        }
        uint64_t errors = counters_of(f).scrub_errors;
        if (round < 2) {
            assert_int_equal(lq_io_mem_flip(f->mem, path, round == 0 ? 60 : was_size - 3, 1), LIGHTQ_OK);
        } else {
            assert_int_equal(lq_io_mem_remove(f->mem, path), LIGHTQ_OK);
        }

        run_pass(f);

        assert_int_equal(counters_of(f).scrub_errors, errors + 1);
        assert_sound(log);
        assert_int_equal(lq_io_mem_read_file(f->mem, path, &is, &is_size), LIGHTQ_OK);
        assert_int_equal(is_size, was_size);
        assert_memory_equal(is, was, was_size);
        free(is);
    }
    free(was);
    check_log(f, log);
}

static void test_scrub_index_of_a_rotten_segment_is_not_made(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char idx[64];
    char path[64];
    struct lq_rlog *log = filled(f, NULL);
    assert_true(borders(log, at, 8) >= 4);
    fixture_reopen(f);
    log = lq_store_find(f->store, GROUP);
    group_path(idx, sizeof idx, GROUP, at[1], ".idx");
    group_path(path, sizeof path, GROUP, at[1], ".log");
    assert_int_equal(lq_io_mem_remove(f->mem, idx), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_flip(f->mem, path, 500, 1), LIGHTQ_OK);

    run_pass(f);

    (void)rot_at(log, LIGHTQ_ECORRUPT);
    assert_int_equal(counters_of(f).scrub_errors, 2);
    assert_false(lq_io_mem_exists(f->mem, idx));
}

static void test_scrub_bad_checkpoint_is_set_aside_but_the_first_is_rot(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    char path[64];
    char aside[64];
    struct lq_checkpoint point;
    struct lq_rlog *log = filled(f, NULL);
    assert_true(borders(log, at, 8) >= 4);
    checkpoint_at(f, log, at[0]);
    checkpoint_at(f, log, at[1]);
    assert_int_equal(lq_rlog_trim_point(log, at[0], &point), at[0] - 1);
    assert_int_equal(lq_rlog_trim(log, at[0] - 1), LIGHTQ_OK);
    fixture_settle(f);
    group_path(path, sizeof path, GROUP, at[1], ".ckpt");
    group_path(aside, sizeof aside, GROUP, at[1], ".ckpt.bad");
    assert_int_equal(lq_io_mem_flip(f->mem, path, file_size(f, path) - 2, 1), LIGHTQ_OK);

    run_pass(f);

    assert_sound(log);
    assert_int_equal(counters_of(f).scrub_errors, 1);
    assert_true(lq_io_mem_exists(f->mem, aside));
    assert_false(lq_io_mem_exists(f->mem, path));
    assert_int_equal(lq_rlog_trim_point(log, at[2], &point), 0);

    group_path(path, sizeof path, GROUP, at[0], ".ckpt");
    assert_int_equal(lq_io_mem_flip(f->mem, path, 70, 1), LIGHTQ_OK);
    run_pass(f);

    assert_int_equal(rot_at(log, LIGHTQ_ECORRUPT), at[0] - 1);
    assert_int_equal(counters_of(f).scrub_errors, 2);
    assert_int_equal(lq_io_mem_flip(f->mem, path, 70, 1), LIGHTQ_OK);
}

static void test_scrub_rot_that_is_trimmed_or_replaced_is_forgotten(void **state)
{
    struct fixture *f = *state;
    uint64_t at[8];
    uint64_t index = 0;
    char path[64];
    struct lq_checkpoint point;
    struct lq_rlog *log = filled(f, NULL);
    assert_true(borders(log, at, 8) >= 4);
    checkpoint_at(f, log, at[1]);
    assert_int_equal(lq_io_mem_flip(f->mem, group_path(path, sizeof path, GROUP, at[0], ".log"), 300, 1), LIGHTQ_OK);
    run_pass(f);
    (void)rot_at(log, LIGHTQ_ECORRUPT);

    assert_int_equal(lq_rlog_trim_point(log, at[1], &point), at[1] - 1);
    assert_int_equal(lq_rlog_trim(log, at[1] - 1), LIGHTQ_OK);

    assert_null(lq_rlog_rot(log, &index));
    fixture_settle(f);
    assert_int_equal(lq_io_mem_flip(f->mem, group_path(path, sizeof path, GROUP, at[2], ".log"), 300, 1), LIGHTQ_OK);
    run_pass(f);
    (void)rot_at(log, LIGHTQ_ECORRUPT);
    struct lq_checkpoint other = make_checkpoint(log, 50, 2, "another");
    assert_int_equal(lq_rlog_install(log, &other), LIGHTQ_OK);
    assert_null(lq_rlog_rot(log, &index));
    fixture_settle(f);
}

/* ---- what is no rot ---- */

static void test_scrub_read_that_fails_once_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = filled(f, NULL);
    const struct lq_io_mem_fault once = {
        .verb = LQ_IO_READ, .pattern = "g*.log", .nth = 1, .times = 1, .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(f->mem, &once), LIGHTQ_OK);

    run_pass(f);

    assert_int_equal(lq_io_mem_faults_hit(f->mem), 1);
    assert_sound(log);
    assert_int_equal(counters_of(f).scrub_errors, 0);
}

static void test_scrub_segment_that_cannot_be_read_is_EIO(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = filled(f, NULL);
    const struct lq_io_mem_fault always = {.verb = LQ_IO_READ, .pattern = "g*.log", .nth = 1, .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(f->mem, &always), LIGHTQ_OK);

    run_pass(f);

    assert_int_equal(rot_at(log, LIGHTQ_EIO), 1);
    assert_int_equal(counters_of(f).scrub_errors, 1);
    lq_io_mem_clear_faults(f->mem);
}

static void test_scrub_without_descriptors_waits_and_goes_on(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = filled(f, NULL);
    const struct lq_io_mem_fault none = {.verb = LQ_IO_MEM_OPEN, .nth = 3, .status = LIGHTQ_ELIMIT};
    assert_int_equal(lq_io_mem_add_fault(f->mem, &none), LIGHTQ_OK);
    f->clock.now_us += INTERVAL_MS * UINT64_C(1000);
    for (unsigned i = 0; i < 500; i++) { /* five seconds */
        f->clock.now_us += 10000;
        fixture_settle(f);
    }
    assert_in_range(lq_io_mem_faults_hit(f->mem), 4, 6); /* a try a second */
    assert_int_equal(counters_of(f).scrub_passes, 1);

    lq_io_mem_clear_faults(f->mem);
    f->clock.now_us += 2000000;
    for (unsigned i = 0; i < 100; i++) {
        f->clock.now_us += 10000;
        fixture_settle(f);
    }

    assert_int_equal(counters_of(f).scrub_passes, 2);
    assert_int_equal(counters_of(f).scrub_errors, 0);
    assert_sound(log);
}

/* A read in flight at every point of a pass while the log loses what is read. */
static void change(struct fixture *f, struct lq_rlog *log, unsigned kind, uint64_t border)
{
    struct lq_checkpoint checkpoint;
    switch (kind) {
    case 0:
        assert_int_equal(lq_rlog_trim_point(log, border, &checkpoint), border - 1);
        assert_int_equal(lq_rlog_trim(log, border - 1), LIGHTQ_OK);
        break;
    case 1:
        assert_int_equal(lq_rlog_cut(log, 3), LIGHTQ_OK);
        assert_int_equal(append(log, 20, 2, 60), LIGHTQ_OK);
        break;
    case 2:
        checkpoint = make_checkpoint(log, 100, 3, "another log");
        assert_int_equal(lq_rlog_install(log, &checkpoint), LIGHTQ_OK);
        break;
    default:
        lq_rlog_destroy(log);
        assert_int_equal(lq_rlog_create(f->store, GROUP, 2, &log, &f->err), LIGHTQ_OK);
        assert_int_equal(append(log, 20, 1, 60), LIGHTQ_OK);
        break;
    }
}

static void test_scrub_files_that_change_under_it_are_no_rot(void **state)
{
    struct fixture *f = *state;
    for (unsigned kind = 0; kind < 4; kind++) {
        for (unsigned jobs = 0;; jobs++) {
            uint64_t at[8];
            struct lq_rlog *log = filled(f, NULL);
            assert_true(borders(log, at, 8) >= 4);
            checkpoint_at(f, log, at[2]);
            f->clock.now_us += INTERVAL_MS * UINT64_C(1000);
            lq_store_flush(f->store);
            for (unsigned i = 0; i < jobs; i++) {
                (void)lq_io_mem_run_one(f->mem);
            }
            bool in_flight = lq_io_mem_pending(f->mem) > 0;

            change(f, log, kind, at[2]);
            run_pass(f);

            assert_int_equal(counters_of(f).scrub_errors, 0);
            assert_sound(lq_store_find(f->store, GROUP));
            fixture_close(f);
            assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
            if (!in_flight) {
                assert_true(jobs > 10);
                break;
            }
        }
    }
}

static void test_scrub_close_in_the_middle_of_a_read_waits_for_it(void **state)
{
    struct fixture *f = *state;
    (void)filled(f, NULL);
    f->clock.now_us += INTERVAL_MS * UINT64_C(1000);
    lq_store_flush(f->store);
    assert_true(lq_io_mem_pending(f->mem) > 0);
    assert_false(lq_store_idle(f->store));

    fixture_close(f); /* the tear-down counts files */
}

/* Whatever happens to logs, in any order with the search's reads, and through crashes: nothing is called rot. */
static void test_scrub_random_work_and_crashes_are_no_rot(void **state)
{
    static const enum lq_io_mem_crash_mode modes[] = {LQ_IO_MEM_KEEP, LQ_IO_MEM_LOSE, LQ_IO_MEM_TEAR};
    struct fixture *f = *state;
    uint64_t passes = 0;
    uint64_t bytes = 0;
    for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++) {
        struct model *model = calloc(1, sizeof *model);
        assert_non_null(model);
        small_segments(f);
        f->options.scrub_interval_ms = 1;
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
        fixture_open(f);
        model_init(model, f);
        model->random = seed;
        for (unsigned i = 0; i < RANDOM_STEPS; i++) {
            struct step step = model_random_step(model);
            f->clock.now_us += 5000;
            model_step(model, &step);
            assert_int_equal(counters_of(f).scrub_errors, 0);
        }
        struct lq_store_counters counters = counters_of(f);
        passes += counters.scrub_passes;
        bytes += counters.scrub_bytes;
        fixture_crash(f, modes[seed % 3], seed);
        fixture_open(f);
        model_check(model);
        run_pass(f);
        assert_int_equal(counters_of(f).scrub_errors, 0);
        model_go_on(model);
        model_deinit(model);
        free(model);
        fixture_close(f);
    }
    assert_true(passes > RANDOM_SEEDS);
    assert_true(bytes > 100000);
}

/* ---- how much it reads ---- */

static void test_scrub_reads_no_more_than_it_may_and_one_at_a_time(void **state)
{
    struct fixture *f = *state;
    f->options.segment_bytes = 1 << 20;
    f->options.scrub_bytes_per_second = 1 << 20;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, GROUP, NULL);
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(append(log, 1, 1, 900000), LIGHTQ_OK);
        fixture_settle(f);
    }
    uint64_t before = counters_of(f).scrub_bytes;
    for (unsigned i = 1; i <= 80; i++) { /* eight seconds */
        f->clock.now_us += 100000;
        lq_store_flush(f->store);
        while (lq_io_mem_pending(f->mem) > 0) {
            assert_int_equal(lq_io_mem_pending(f->mem), 1);
            (void)lq_io_mem_run_one(f->mem);
        }
        assert_true(counters_of(f).scrub_bytes - before <= i * (UINT64_C(1) << 20) / 10 + 2 * 256 * 1024);
    }
    assert_true(counters_of(f).scrub_bytes - before > UINT64_C(7) << 20);
    assert_int_equal(counters_of(f).scrub_passes, 0);
}

static void test_scrub_next_search_begins_after_the_interval(void **state)
{
    struct fixture *f = *state;
    (void)filled(f, NULL);
    run_pass(f);
    uint64_t bytes = counters_of(f).scrub_bytes;
    assert_true(bytes > 0);
    for (unsigned i = 0; i < 50; i++) {
        f->clock.now_us += INTERVAL_MS * UINT64_C(10);
        fixture_settle(f);
    }
    assert_int_equal(counters_of(f).scrub_bytes, bytes);

    run_pass(f);

    assert_int_equal(counters_of(f).scrub_bytes, 2 * bytes);
}

static void test_scrub_switched_off_reads_nothing(void **state)
{
    struct fixture *f = *state;
    small_segments(f);
    f->options.scrub_bytes_per_second = 0;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, GROUP, NULL);
    assert_int_equal(append(log, 30, 1, 100), LIGHTQ_OK);
    for (unsigned i = 0; i < 50; i++) {
        f->clock.now_us += INTERVAL_MS * UINT64_C(1000);
        fixture_settle(f);
    }

    assert_int_equal(counters_of(f).scrub_bytes, 0);
    assert_int_equal(counters_of(f).scrub_passes, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_scrub_of_sound_logs_reads_all_and_finds_nothing),
        TEST(test_scrub_rot_in_a_sealed_segment_that_nobody_reads_is_found),
        TEST(test_scrub_each_flipped_byte_of_a_segment_is_found),
        TEST(test_scrub_segment_that_is_short_or_gone_is_found),
        TEST(test_scrub_rot_in_a_large_entry_is_found),
        TEST(test_scrub_bad_index_is_made_again),
        TEST(test_scrub_index_of_a_rotten_segment_is_not_made),
        TEST(test_scrub_bad_checkpoint_is_set_aside_but_the_first_is_rot),
        TEST(test_scrub_rot_that_is_trimmed_or_replaced_is_forgotten),
        TEST(test_scrub_read_that_fails_once_is_tried_again),
        TEST(test_scrub_segment_that_cannot_be_read_is_EIO),
        TEST(test_scrub_without_descriptors_waits_and_goes_on),
        TEST(test_scrub_files_that_change_under_it_are_no_rot),
        TEST(test_scrub_close_in_the_middle_of_a_read_waits_for_it),
        TEST(test_scrub_random_work_and_crashes_are_no_rot),
        TEST(test_scrub_reads_no_more_than_it_may_and_one_at_a_time),
        TEST(test_scrub_next_search_begins_after_the_interval),
        TEST(test_scrub_switched_off_reads_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
