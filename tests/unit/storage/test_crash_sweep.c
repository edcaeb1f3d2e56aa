/* tests/unit/storage/test_crash_sweep.c - the power goes after every single change of the disk, in every way a disk may
 * leave it: the store must open, no log may be judged damaged, all that was told durable is there and nothing else than
 * what was asked for; then it goes on. Then the same with a second power cut while the store recovers from the first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_model.h"

struct workload {
    const char *name;
    const struct step *steps;
    size_t count;
    struct lq_store_options options;
};

/* Few groups: the segments are synced one by one. */
static const struct step FEW[] = {
    {.kind = STEP_CREATE, .group = 1},
    {.kind = STEP_APPEND, .group = 1, .count = 3, .term = 1, .size = 40},
    {.kind = STEP_VOTE, .group = 1, .term = 1},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 1, .count = 4, .term = 1, .size = 300},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 1, .count = 1, .term = 1, .size = 1500},
    {.kind = STEP_FLUSH},
    {.kind = STEP_CREATE, .group = 2},
    {.kind = STEP_APPEND, .group = 2, .count = 2, .term = 2, .size = 0},
    {.kind = STEP_APPEND, .group = 1, .count = 5, .term = 2, .size = 200},
    {.kind = STEP_FLUSH},
    {.kind = STEP_TICK},
    {.kind = STEP_APPEND, .group = 1, .count = 2, .term = 2, .size = 700},
    {.kind = STEP_FLUSH},
    {.kind = STEP_CHECKPOINT, .group = 1},
    {.kind = STEP_CUT, .group = 1, .count = 3},
    {.kind = STEP_APPEND, .group = 1, .count = 3, .term = 3, .size = 600},
    {.kind = STEP_FLUSH},
    {.kind = STEP_FLUSH},
    {.kind = STEP_VOTE, .group = 2, .term = 4},
    {.kind = STEP_CUT, .group = 1, .count = 2},
    {.kind = STEP_APPEND, .group = 1, .count = 1, .term = 4, .size = 10},
    {.kind = STEP_SETTLE},
    {.kind = STEP_CHECKPOINT, .group = 1},
    {.kind = STEP_SETTLE},
    {.kind = STEP_TRIM, .group = 1},
    {.kind = STEP_APPEND, .group = 1, .count = 3, .term = 4, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_INSTALL, .group = 2, .count = 20},
    {.kind = STEP_FLUSH},
    {.kind = STEP_FLUSH},
    {.kind = STEP_SETTLE},
    {.kind = STEP_APPEND, .group = 2, .count = 3, .term = 5, .size = 100},
    {.kind = STEP_APPEND, .group = 1, .count = 3, .term = 5, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_REOPEN},
    {.kind = STEP_APPEND, .group = 1, .count = 6, .term = 5, .size = 400},
    {.kind = STEP_CUT, .group = 1, .count = 9},
    {.kind = STEP_APPEND, .group = 1, .count = 4, .term = 6, .size = 500},
    {.kind = STEP_SETTLE},
    {.kind = STEP_DESTROY, .group = 2},
    {.kind = STEP_APPEND, .group = 1, .count = 1, .term = 6, .size = 500},
    {.kind = STEP_FLUSH},
    {.kind = STEP_SETTLE},
    {.kind = STEP_CREATE, .group = 2},
    {.kind = STEP_APPEND, .group = 2, .count = 2, .term = 6, .size = 20},
    {.kind = STEP_SETTLE},
};

/* Many groups with small entries: the journal carries them; it is small, so its files change often. */
static const struct step MANY[] = {
    {.kind = STEP_CREATE, .group = 1},
    {.kind = STEP_CREATE, .group = 2},
    {.kind = STEP_CREATE, .group = 3},
    {.kind = STEP_CREATE, .group = 4},
    {.kind = STEP_CREATE, .group = 5},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 1, .size = 60},
    {.kind = STEP_VOTE_ALL, .term = 1},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 1, .size = 30},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 3, .count = 6, .term = 1, .size = 300},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 2, .size = 200},
    {.kind = STEP_FLUSH},
    {.kind = STEP_CUT, .group = 3, .count = 4},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 3, .size = 150},
    {.kind = STEP_FLUSH},
    {.kind = STEP_FLUSH},
    {.kind = STEP_CHECKPOINT, .group = 3},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 3, .size = 90},
    {.kind = STEP_CUT, .group = 1, .count = 2},
    {.kind = STEP_FLUSH},
    {.kind = STEP_SETTLE},
    {.kind = STEP_TRIM, .group = 3},
    {.kind = STEP_VOTE_ALL, .term = 5},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 5, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_INSTALL, .group = 4, .count = 10},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 5, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_DESTROY, .group = 5},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 6, .size = 250},
    {.kind = STEP_SETTLE},
    {.kind = STEP_CREATE, .group = 5},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 6, .size = 250},
    {.kind = STEP_FLUSH},
    {.kind = STEP_REOPEN},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 7, .size = 150},
    {.kind = STEP_FLUSH},
    {.kind = STEP_CUT, .group = 2, .count = 5},
    {.kind = STEP_SETTLE},
};

/* Short: for the sweep with two power cuts. */
static const struct step SHORT[] = {
    {.kind = STEP_CREATE, .group = 1},
    {.kind = STEP_CREATE, .group = 2},
    {.kind = STEP_CREATE, .group = 3},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 1, .size = 200},
    {.kind = STEP_VOTE_ALL, .term = 1},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 2, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 1, .count = 4, .term = 2, .size = 400},
    {.kind = STEP_FLUSH},
    {.kind = STEP_CHECKPOINT, .group = 1},
    {.kind = STEP_CUT, .group = 2, .count = 3},
    {.kind = STEP_APPEND, .group = 2, .count = 2, .term = 3, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_INSTALL, .group = 3, .count = 7},
    {.kind = STEP_SETTLE},
    {.kind = STEP_TRIM, .group = 1},
    {.kind = STEP_APPEND_ALL, .count = 1, .term = 4, .size = 100},
    {.kind = STEP_FLUSH},
    {.kind = STEP_DESTROY, .group = 3},
    {.kind = STEP_FLUSH},
    {.kind = STEP_SETTLE},
};

#define OPTIONS_SMALL                                                                                            \
    {                                                                                                            \
        .dir = "", .cluster = {.bytes = {9}}, .segment_bytes = 2048, .journal_bytes = 4096, .cache_bytes = 4096, \
        .index_stride = 512                                                                                      \
    }

/* The journal has entries for long that no segment has; else the small cache has them written soon. */
#define OPTIONS_LATE                                                                                              \
    {                                                                                                             \
        .dir = "", .cluster = {.bytes = {9}}, .segment_bytes = 2048, .journal_bytes = 4096, .cache_bytes = 65536, \
        .index_stride = 512                                                                                       \
    }

static const struct workload WORKLOADS[] = {
    {.name = "few groups", .steps = FEW, .count = sizeof FEW / sizeof FEW[0], .options = OPTIONS_SMALL},
    {.name = "many groups", .steps = MANY, .count = sizeof MANY / sizeof MANY[0], .options = OPTIONS_SMALL},
    {.name = "many groups, late", .steps = MANY, .count = sizeof MANY / sizeof MANY[0], .options = OPTIONS_LATE},
};
static const struct workload WORKLOAD_SHORT = {
    .name = "short", .steps = SHORT, .count = sizeof SHORT / sizeof SHORT[0], .options = OPTIONS_SMALL};

#define RANDOM_STEPS  90
#define RANDOM_SEEDS  12
#define RANDOM_STRIDE 11 /* of the crash points of a made-up workload one in so many is tried */

struct cut {
    enum lq_io_mem_crash_mode mode;
    uint64_t seed;
    const char *name;
    bool is_kill; /* the process goes, the power only after the next start */
};

static const struct cut CUTS[] = {
    {LQ_IO_MEM_KEEP, 0, "keep", false},      {LQ_IO_MEM_LOSE, 0, "lose", false},
    {LQ_IO_MEM_TEAR, 1, "tear 1", false},    {LQ_IO_MEM_TEAR, 2, "tear 2", false},
    {LQ_IO_MEM_TEAR, 3, "tear 3", false},    {LQ_IO_MEM_LOSE, 0, "kill, lose", true},
    {LQ_IO_MEM_TEAR, 4, "kill, tear", true},
};

#define CUT_COUNT (sizeof CUTS / sizeof CUTS[0])

/* LIGHTQ_SWEEP_TRACE=<n> shows what led to crash point n, and what it left. */
static void show(struct fixture *f, uint64_t n)
{
    const char *wanted = getenv("LIGHTQ_SWEEP_TRACE");
    if (wanted != NULL && strtoull(wanted, NULL, 10) == n) {
        lq_io_mem_trace(f->mem, stderr);
        lq_io_mem_dump(f->mem, stderr);
    }
}

/* What was begun at the cut is gone in one of the ways; then the store is opened again, and holds what it must. */
static void cut_and_check(struct fixture *f, struct model *model, const struct cut *cut, uint64_t seed)
{
    if (cut->is_kill) {
        if (f->store != NULL) {
            lq_store_abandon(f->store);
            f->store = NULL;
        }
        lq_io_mem_kill(f->mem);
        fixture_open(f);
        model_check(model);
        (void)lq_io_mem_run_all(f->mem); /* some of the background work */
        if (seed % 2 == 0) {             /* and once more */
            lq_store_abandon(f->store);
            f->store = NULL;
            lq_io_mem_kill(f->mem);
            fixture_open(f);
            model_check(model);
        }
    }
    fixture_crash(f, cut->mode, seed);
    fixture_open(f);
    model_check(model);
    model_go_on(model);
}

/* Names the point before it is tried, so that a failure says where it is. */
static void name_point(const struct workload *workload, const struct cut *cut, uint64_t n, uint64_t m)
{
    const char *only = getenv("LIGHTQ_SWEEP_VERBOSE");
    if (only != NULL) {
        print_message("%s, %s, cut at change %" PRIu64 ", then %" PRIu64 "\n", workload->name, cut->name, n, m);
    }
}

static void order_cut(struct fixture *f, const struct cut *cut, uint64_t n)
{
    if (cut->is_kill) {
        lq_io_mem_kill_after(f->mem, n);
    } else {
        lq_io_mem_crash_after(f->mem, n);
    }
}

/* Runs the workload with a power cut at change @n. False: it ended before. */
static bool run_to_cut(struct fixture *f, struct model *model, const struct workload *workload, const struct cut *cut,
                       uint64_t n)
{
    f->options = workload->options;
    model_init(model, f);
    order_cut(f, cut, n);
    lightq_status status = fixture_try_open(f);
    if (status == LIGHTQ_OK && !lq_io_mem_crashed(f->mem)) {
        model_run(model, workload->steps, workload->count);
    }
    return lq_io_mem_crashed(f->mem);
}

static void fresh(struct fixture *f)
{
    if (f->store != NULL) {
        lq_store_abandon(f->store);
        f->store = NULL;
    }
    lq_io_mem_crash_after(f->mem, 0);
    assert_int_equal(lq_io_mem_crash(f->mem, LQ_IO_MEM_KEEP, 0), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
}

/* Every LQ_SWEEP_STRIDEth change: each one in the plain build, fewer where a sanitizer makes each one ten times as dear
 * (tests/unit/storage/CMakeLists.txt). */
static uint64_t sweep(struct fixture *f, const struct workload *workload, const struct cut *cut)
{
    uint64_t points = 0;
    bool cut_came = true;
    for (uint64_t n = 1 + cut->seed % LQ_SWEEP_STRIDE; cut_came; n += LQ_SWEEP_STRIDE) {
        struct model model;
        fresh(f);
        name_point(workload, cut, n, 0);
        cut_came = run_to_cut(f, &model, workload, cut, n);
        if (cut_came) {
            show(f, n);
            cut_and_check(f, &model, cut, cut->seed * 1000003 + n);
            points++;
        }
        model_deinit(&model);
    }
    return points;
}

/* Cases A5, A7, B2, B4: a crash in the middle of a cut, of a segment's end, of anything. */
static void test_crash_sweep_after_every_change_nothing_durable_is_lost(void **state)
{
    struct fixture *f = *state;
    for (size_t w = 0; w < sizeof WORKLOADS / sizeof WORKLOADS[0]; w++) {
        for (size_t c = 0; c < CUT_COUNT; c++) {
            uint64_t points = sweep(f, &WORKLOADS[w], &CUTS[c]);
            assert_true(points > 100 / LQ_SWEEP_STRIDE);
            print_message("[          ] %s, %s: %" PRIu64 " crash points\n", WORKLOADS[w].name, CUTS[c].name, points);
        }
    }
    fresh(f);
}

/* Power cuts at change @n of the workload and at every change of the recovery after it. */
static bool sweep_twice(struct fixture *f, const struct cut *first, const struct cut *second, uint64_t n,
                        uint64_t *points)
{
    for (uint64_t m = 1;; m++) {
        struct model model;
        fresh(f);
        name_point(&WORKLOAD_SHORT, first, n, m);
        if (!run_to_cut(f, &model, &WORKLOAD_SHORT, first, n)) {
            model_deinit(&model);
            return false;
        }
        if (first->is_kill && f->store != NULL) {
            lq_store_abandon(f->store);
            f->store = NULL;
        }
        if (first->is_kill) {
            lq_io_mem_kill(f->mem);
        } else {
            fixture_crash(f, first->mode, first->seed * 7919 + n);
        }
        lq_io_mem_crash_after(f->mem, m);
        lightq_status status = fixture_try_open(f);
        if (!lq_io_mem_crashed(f->mem)) {
            lq_io_mem_crash_after(f->mem, 0);
            assert_int_equal(status, LIGHTQ_OK);
            model_check(&model);
            model_deinit(&model);
            return true;
        }
        fixture_crash(f, second->mode, second->seed * 104729 + n * 64 + m);
        fixture_open(f);
        model_check(&model);
        model_go_on(&model);
        model_deinit(&model);
        (*points)++;
    }
}

static void test_crash_sweep_during_recovery_nothing_durable_is_lost(void **state)
{
    struct fixture *f = *state;
    for (size_t c = 0; c < CUT_COUNT; c++) {
        uint64_t points = 0;
        uint64_t n = 1 + c % LQ_SWEEP_STRIDE;
        while (sweep_twice(f, &CUTS[c], &CUTS[(c + n) % CUT_COUNT], n, &points)) {
            n += LQ_SWEEP_STRIDE;
        }
        assert_true(points > 100 / LQ_SWEEP_STRIDE);
        print_message("[          ] recovery, %s: %" PRIu64 " pairs of crash points\n", CUTS[c].name, points);
    }
    fresh(f);
}

/* Made-up workloads whose jobs run in turns, so that a power cut finds several at work. */
static uint64_t sweep_random(struct fixture *f, uint64_t seed, const struct cut *cut, uint64_t stride)
{
    static const struct lq_store_options options = OPTIONS_SMALL;
    uint64_t points = 0;
    bool cut_came = true;
    for (uint64_t n = 1 + seed % stride; cut_came; n += stride) {
        struct model model;
        fresh(f);
        if (getenv("LIGHTQ_SWEEP_VERBOSE") != NULL) {
            print_message("seed %" PRIu64 ", %s, cut at change %" PRIu64 "\n", seed, cut->name, n);
        }
        f->options = options;
        f->options.sync_files_max = seed % 3 == 0 ? 8 : 2;
        f->options.files_max = seed % 4 == 1 ? 8 : 0;
        f->options.cache_bytes = seed % 2 == 0 ? 65536 : 4096;
        f->options.late_bytes_max = seed % 5 == 0 ? 300 : 0;
        f->options.scrub_bytes_per_second = seed % 2 == 0 ? 1 << 20 : 0;
        f->options.scrub_interval_ms = 1;
        model_init(&model, f);
        model.random += seed * 0x9e3779b97f4a7c15u;
        order_cut(f, cut, n);
        lightq_status status = fixture_try_open(f);
        if (status == LIGHTQ_OK && !lq_io_mem_crashed(f->mem)) {
            char text[32];
            model.step = text;
            for (unsigned i = 0; i < RANDOM_STEPS && !model.broken; i++) {
                const struct step step = model_random_step(&model);
                (void)snprintf(text, sizeof text, "random step %u", i);
                model_step(&model, &step);
            }
        }
        cut_came = lq_io_mem_crashed(f->mem);
        if (cut_came) {
            show(f, n);
            cut_and_check(f, &model, cut, cut->seed * 1000003 + n);
            points++;
        }
        model_deinit(&model);
    }
    return points;
}

static void test_crash_sweep_of_random_workloads_nothing_durable_is_lost(void **state)
{
    struct fixture *f = *state;
    const char *seeds_text = getenv("LIGHTQ_SWEEP_SEEDS");
    const char *first_text = getenv("LIGHTQ_SWEEP_FIRST_SEED");
    uint64_t seeds = seeds_text != NULL ? strtoull(seeds_text, NULL, 10) : RANDOM_SEEDS;
    uint64_t first = first_text != NULL ? strtoull(first_text, NULL, 10) : 1;
    uint64_t points = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        for (size_t c = 0; c < CUT_COUNT; c++) {
            points += sweep_random(f, seed, &CUTS[c], RANDOM_STRIDE);
        }
    }
    assert_true(points > 10 * seeds);
    print_message("[          ] random workloads, seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " crash points\n", first,
                  first + seeds - 1, points);
    fresh(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_crash_sweep_after_every_change_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_crash_sweep_during_recovery_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_crash_sweep_of_random_workloads_nothing_durable_is_lost, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
