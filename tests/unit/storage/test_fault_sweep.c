/* tests/unit/storage/test_fault_sweep.c - the nth operation of the disk fails, once or from then on, with EIO or
 * without space; the nth allocation fails; the nth opening of a file has no descriptor. Nothing that was told durable
 * may be lost, calls may fail but never hang, and the next start finds all logs sound. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_model.h"
#include "tests/lib/alloc_fail.h"

static const struct step STEPS[] = {
    {.kind = STEP_CREATE, .group = 1},
    {.kind = STEP_CREATE, .group = 2},
    {.kind = STEP_CREATE, .group = 3},
    {.kind = STEP_CREATE, .group = 4},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 1, .size = 100},
    {.kind = STEP_VOTE_ALL, .term = 1},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 1, .count = 4, .term = 1, .size = 400},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 2, .size = 150},
    {.kind = STEP_STEPS, .count = 4},
    {.kind = STEP_CUT, .group = 2, .count = 3},
    {.kind = STEP_APPEND, .group = 2, .count = 2, .term = 3, .size = 100},
    {.kind = STEP_SETTLE},
    {.kind = STEP_CHECKPOINT, .group = 1},
    {.kind = STEP_SETTLE},
    {.kind = STEP_INSTALL, .group = 3, .count = 5},
    {.kind = STEP_TRIM, .group = 1},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 4, .size = 200},
    {.kind = STEP_SETTLE},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 4, .size = 300},
    {.kind = STEP_VOTE_ALL, .term = 4},
    {.kind = STEP_DESTROY, .group = 4},
    {.kind = STEP_SETTLE},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 5, .size = 30},
    {.kind = STEP_SETTLE},
};

static const struct lq_store_options OPTIONS = {.dir = "",
                                                .cluster = {.bytes = {9}},
                                                .segment_bytes = 2048,
                                                .journal_bytes = 4096,
                                                .cache_bytes = 4096,
                                                .index_stride = 512};

#define RANDOM_STEPS 90
#define RANDOM_SEEDS 400

static void on_closed(void *data)
{
    *(bool *)data = true;
}

/* Ends the process in an orderly way, whatever failed in it. */
static void close_whatever(struct fixture *f)
{
    bool closed = false;
    if (f->store == NULL) {
        return;
    }
    lq_store_close(f->store, on_closed, &closed);
    f->store = NULL;
    (void)lq_io_mem_run_all(f->mem);
    assert_true(closed);
    assert_int_equal(lq_io_mem_open_files(f->mem), 0);
}

static void run_tolerant(struct fixture *f, struct model *model)
{
    f->options = OPTIONS;
    model_init(model, f);
    model->tolerant = true;
    if (fixture_try_open(f) == LIGHTQ_OK) {
        model_run(model, STEPS, sizeof STEPS / sizeof STEPS[0]);
    }
}

/* The disk works again: the next start finds all, also when the power goes right after it. */
static void check_next_start(struct fixture *f, struct model *model)
{
    model->tolerant = false;
    fixture_open(f);
    model_check(model);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0); /* what reads show after a failed sync must have been written again */
    fixture_open(f);
    model_check(model);
    model_go_on(model);
    fixture_close(f);
    model_deinit(model);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
}

static uint64_t sweep(struct fixture *f, lightq_status status, uint64_t times, bool partial)
{
    uint64_t n = 1;
    for (bool hit = true; hit; n++) {
        struct model model;
        const struct lq_io_mem_fault fault = {
            .verb = LQ_IO_MEM_VERBS, .nth = n, .times = times, .status = status, .partial = partial};
        if (getenv("LIGHTQ_SWEEP_VERBOSE") != NULL) {
            print_message("fault at operation %" PRIu64 "\n", n);
        }
        uint64_t before = lq_io_mem_faults_hit(f->mem);
        assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
        run_tolerant(f, &model);
        close_whatever(f);
        if (getenv("LIGHTQ_SWEEP_TRACE") != NULL && strtoull(getenv("LIGHTQ_SWEEP_TRACE"), NULL, 10) == n) {
            lq_io_mem_trace(f->mem, stderr);
        }
        hit = lq_io_mem_faults_hit(f->mem) > before;
        lq_io_mem_clear_faults(f->mem);
        check_next_start(f, &model);
    }
    return n - 2;
}

static void sweep_and_say(struct fixture *f, const char *name, lightq_status status, uint64_t times, bool partial,
                          uint64_t least)
{
    uint64_t points = sweep(f, status, times, partial);
    assert_true(points > least);
    print_message("[          ] %s: %" PRIu64 " points\n", name, points);
}

/* Cases A12, D10: a sync fails once, is tried again, and the data is gone. */
static void test_fault_sweep_one_operation_fails_nothing_durable_is_lost(void **state)
{
    sweep_and_say(*state, "EIO once", LIGHTQ_EIO, 1, true, 150);
}

static void test_fault_sweep_disk_breaks_nothing_durable_is_lost(void **state)
{
    sweep_and_say(*state, "EIO from then on", LIGHTQ_EIO, 0, false, 100);
}

static void test_fault_sweep_no_space_once_nothing_durable_is_lost(void **state)
{
    sweep_and_say(*state, "ENOSPC once", LIGHTQ_ENOSPC, 1, true, 150);
}

static void assert_all_durable(struct fixture *f, const struct model *model)
{
    for (unsigned i = 0; i < 200 && !lq_store_idle(f->store); i++) {
        f->clock.now_us += 200000;
        lq_store_flush(f->store);
        (void)lq_io_mem_run_all(f->mem);
    }
    assert_true(lq_store_idle(f->store));
    for (unsigned g = 0; g < MODEL_GROUPS; g++) {
        assert_false(model->groups[g].failed);
    }
    for (size_t i = 0; i < lq_store_count(f->store); i++) {
        const struct lq_rlog *log = lq_store_at(f->store, i);
        assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
        assert_int_equal(lq_rlog_durable(log), lq_rlog_last(log));
    }
}

/* What the @verb needs a descriptor for has none, @times in a row: nothing stops, and all becomes durable. */
static void sweep_files(struct fixture *f, const char *name, unsigned verb, uint64_t times, uint64_t least)
{
    uint64_t n = 1;
    for (bool hit = true; hit; n++) {
        struct model model;
        const struct lq_io_mem_fault fault = {.verb = verb, .nth = n, .times = times, .status = LIGHTQ_ELIMIT};
        uint64_t before = lq_io_mem_faults_hit(f->mem);
        if (getenv("LIGHTQ_SWEEP_VERBOSE") != NULL) {
            print_message("no descriptor for %s %" PRIu64 "\n", name, n);
        }
        assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
        f->options = OPTIONS;
        model_init(&model, f);
        model.tolerant = true;
        lightq_status status = fixture_try_open(f);
        if (status == LIGHTQ_OK) {
            model_run(&model, STEPS, sizeof STEPS / sizeof STEPS[0]);
            assert_all_durable(f, &model);
            close_whatever(f);
        } else {
            assert_int_equal(status, LIGHTQ_ELIMIT);
        }
        hit = lq_io_mem_faults_hit(f->mem) > before;
        lq_io_mem_clear_faults(f->mem);
        check_next_start(f, &model);
    }
    assert_true(n - 2 >= least);
    print_message("[          ] no descriptor for %s, %" PRIu64 " times: %" PRIu64 " points\n", name, times, n - 2);
}

static void test_fault_sweep_without_descriptors_nothing_stops(void **state)
{
    for (uint64_t times = 1; times <= 7; times += 3) {
        sweep_files(*state, "an open", LQ_IO_MEM_OPEN, times, 0);
        sweep_files(*state, "a creation", LQ_IO_MEM_CREATE, times, 10);
        sweep_files(*state, "a directory's sync", LQ_IO_SYNC_DIR, times, 10);
        sweep_files(*state, "a list", LQ_IO_MEM_LIST, times, 1);
    }
}

/* Cases A6, D1, D3: after a full disk the node cannot go on, or cannot start. */
static void test_fault_sweep_disk_full_nothing_durable_is_lost(void **state)
{
    struct fixture *f = *state;
    for (uint64_t capacity = 0; capacity < 600 * 1024; capacity += 8 * 1024) {
        struct model model;
        lq_io_mem_set_capacity(f->mem, capacity);
        run_tolerant(f, &model);
        close_whatever(f);
        lq_io_mem_set_capacity(f->mem, LQ_IO_MEM_DISK_BYTES_DEFAULT);
        check_next_start(f, &model);
    }
}

static void test_fault_sweep_one_allocation_fails_nothing_durable_is_lost(void **state)
{
    struct fixture *f = *state;
    unsigned n = 1;
    for (bool hit = true; hit; n++) {
        struct model model;
        if (getenv("LIGHTQ_SWEEP_VERBOSE") != NULL) {
            print_message("allocation %u fails\n", n);
        }
        lq_alloc_fail_at(n);
        run_tolerant(f, &model);
        hit = lq_alloc_fail_end();
        close_whatever(f);
        check_next_start(f, &model);
    }
    assert_true(n > 300);
    print_message("[          ] allocations: %u points\n", n - 2);
}

/* Made-up workloads with one to three faults somewhere. */
static void test_fault_sweep_of_random_workloads_nothing_durable_is_lost(void **state)
{
    struct fixture *f = *state;
    const char *seeds_text = getenv("LIGHTQ_SWEEP_SEEDS");
    const char *first_text = getenv("LIGHTQ_SWEEP_FIRST_SEED");
    uint64_t first = first_text != NULL ? strtoull(first_text, NULL, 10) : 1;
    uint64_t seeds = seeds_text != NULL ? strtoull(seeds_text, NULL, 10) : RANDOM_SEEDS;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct model model;
        char text[32];
        if (getenv("LIGHTQ_SWEEP_VERBOSE") != NULL) {
            print_message("seed %" PRIu64 "\n", seed);
        }
        f->options = OPTIONS;
        f->options.sync_files_max = seed % 2 == 0 ? 8 : 2;
        f->options.cache_bytes = seed % 3 == 0 ? 65536 : f->options.cache_bytes;
        model_init(&model, f);
        model.tolerant = true;
        model.random += seed * 0x9e3779b97f4a7c15u;
        uint64_t place = seed * 0x2545f4914f6cdd1du;
        for (uint64_t i = 0; i < 1 + seed % 3; i++) {
            place = place * 6364136223846793005u + 1442695040888963407u;
            const struct lq_io_mem_fault fault = {.verb = LQ_IO_MEM_VERBS,
                                                  .nth = 1 + (place >> 33) % 500,
                                                  .times = 1,
                                                  .status = (place >> 20) % 3 == 0 ? LIGHTQ_ENOSPC : LIGHTQ_EIO,
                                                  .partial = (place >> 25) % 2 == 0};
            assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
        }
        model.step = text;
        if (fixture_try_open(f) == LIGHTQ_OK) {
            for (unsigned i = 0; i < RANDOM_STEPS; i++) {
                const struct step step = model_random_step(&model);
                (void)snprintf(text, sizeof text, "random step %u", i);
                model_step(&model, &step);
            }
        }
        close_whatever(f);
        if (getenv("LIGHTQ_SWEEP_TRACE") != NULL) {
            lq_io_mem_trace(f->mem, stderr);
        }
        lq_io_mem_clear_faults(f->mem);
        check_next_start(f, &model);
    }
    print_message("[          ] random workloads: %" PRIu64 " seeds\n", seeds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fault_sweep_one_operation_fails_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fault_sweep_disk_breaks_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fault_sweep_no_space_once_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fault_sweep_without_descriptors_nothing_stops, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fault_sweep_disk_full_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fault_sweep_one_allocation_fails_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fault_sweep_of_random_workloads_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
