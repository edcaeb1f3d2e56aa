/* tests/unit/storage/test_reshard_sweep.c - another number of shards is taken over while the power goes after every
 * change of the disk, each operation fails, each allocation fails, or the disk is full. Whatever number the next start
 * has, it must find every log sound and as it was: nothing told durable is lost, no vote forgotten, nothing cut comes
 * back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "reshard_world.h"
#include "tests/lib/alloc_fail.h"

struct change {
    unsigned from, to;
};

static const struct change CHANGES[] = {{1, 4}, {4, 1}, {3, 2}, {2, 3}};

#define CHANGE_COUNT (sizeof CHANGES / sizeof CHANGES[0])

struct cut {
    enum lq_io_mem_crash_mode mode;
    uint64_t seed;
    const char *name;
    bool is_kill; /* the process goes, the power only after the next start */
    bool before;  /* the power also went before */
};

static const struct cut CUTS[] = {
    {LQ_IO_MEM_KEEP, 0, "keep", false, false},      {LQ_IO_MEM_LOSE, 0, "lose", false, false},
    {LQ_IO_MEM_TEAR, 1, "tear 1", false, false},    {LQ_IO_MEM_TEAR, 2, "tear 2", false, false},
    {LQ_IO_MEM_LOSE, 0, "kill, lose", true, false}, {LQ_IO_MEM_TEAR, 3, "kill, tear", true, false},
    {LQ_IO_MEM_LOSE, 0, "lose twice", false, true},
};

#define CUT_COUNT (sizeof CUTS / sizeof CUTS[0])

static void fresh(struct fixture *f)
{
    lq_io_mem_crash_after(f->mem, 0);
    assert_int_equal(lq_io_mem_crash(f->mem, LQ_IO_MEM_KEEP, 0), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
}

/* LIGHTQ_SWEEP_TRACE=<n> shows what led to point n, and what it left. */
static void show(struct fixture *f, uint64_t n)
{
    const char *wanted = getenv("LIGHTQ_SWEEP_TRACE");
    if (wanted != NULL && strtoull(wanted, NULL, 10) == n) {
        lq_io_mem_trace(f->mem, stderr);
        lq_io_mem_dump(f->mem, stderr);
    }
}

static void name_point(const struct change *change, const char *how, uint64_t n)
{
    if (getenv("LIGHTQ_SWEEP_VERBOSE") != NULL) {
        print_message("%u to %u, %s, point %" PRIu64 "\n", change->from, change->to, how, n);
    }
}

/* The number that the start after point @n has: that which was wanted, that which was there, or yet another. */
static unsigned number_then(const struct change *change, uint64_t n)
{
    const unsigned numbers[] = {change->to, change->from, 5};
    return numbers[n % 3];
}

static void must_reshard(struct world *world, unsigned to)
{
    lightq_status status = world_reshard(world, to);
    if (status != LIGHTQ_OK) {
        fail_msg("to %u shards: %s: %s", to, lightq_status_name(status), world->f->err.text);
    }
    assert_int_equal(world_number(world), to);
    assert_int_equal(lq_io_mem_open_files(world->f->mem), 0);
}

/* False: the change ended before the cut. */
static bool try_cut(struct world *world, const struct change *change, const struct cut *cut, uint64_t n)
{
    struct fixture *f = world->f;
    uint64_t seed = cut->seed * 1000003 + n;
    if (cut->before) {
        fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    }
    if (cut->is_kill) {
        lq_io_mem_kill_after(f->mem, n);
    } else {
        lq_io_mem_crash_after(f->mem, n);
    }
    lightq_status status = world_reshard(world, change->to);
    if (!lq_io_mem_crashed(f->mem)) {
        lq_io_mem_crash_after(f->mem, 0);
        assert_int_equal(status, LIGHTQ_OK);
        assert_int_equal(world_number(world), change->to);
        show(f, n);
        fixture_crash(f, cut->mode, seed);
        world_check(world);
        return false;
    }
    show(f, n);
    if (cut->is_kill) {
        lq_io_mem_kill(f->mem);
        must_reshard(world, number_then(change, n));
    }
    fixture_crash(f, cut->mode, seed);
    must_reshard(world, number_then(change, n));
    world_check(world);
    return true;
}

static void test_reshard_power_goes_after_every_change_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    for (size_t c = 0; c < CHANGE_COUNT * CUT_COUNT; c++) {
        const struct change *change = &CHANGES[c / CUT_COUNT];
        const struct cut *cut = &CUTS[c % CUT_COUNT];
        uint64_t points = 0;
        bool came = true;
        for (uint64_t n = 1 + c % LQ_SWEEP_STRIDE; came; n += LQ_SWEEP_STRIDE) {
            struct world world;
            fresh(f);
            name_point(change, cut->name, n);
            world_init(&world, f, change->from);
            world_build(&world);
            came = try_cut(&world, change, cut, n);
            points += came;
            world_deinit(&world);
        }
        assert_true(points >= 70 / LQ_SWEEP_STRIDE);
        print_message("[          ] %u to %u, %s: %" PRIu64 " crash points\n", change->from, change->to, cut->name,
                      points);
    }
    fresh(f);
}

/* Power cuts in the change, and again while the next start goes on with it. */
static void test_reshard_power_goes_twice_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    static const struct change change = {3, 2};
    uint64_t points = 0;
    bool came = true;
    for (uint64_t n = 1; came; n += 7) {
        bool came_again = true;
        for (uint64_t m = 1 + n % 5; came && came_again; m += 5) {
            struct world world;
            fresh(f);
            name_point(&change, "twice", n * 1000 + m);
            world_init(&world, f, change.from);
            world_build(&world);
            lq_io_mem_crash_after(f->mem, n);
            (void)world_reshard(&world, change.to);
            came = lq_io_mem_crashed(f->mem);
            if (came) {
                fixture_crash(f, n % 2 == 0 ? LQ_IO_MEM_LOSE : LQ_IO_MEM_TEAR, n);
                lq_io_mem_crash_after(f->mem, m);
                (void)world_reshard(&world, number_then(&change, m));
                came_again = lq_io_mem_crashed(f->mem);
                fixture_crash(f, m % 2 == 0 ? LQ_IO_MEM_LOSE : LQ_IO_MEM_TEAR, m);
                must_reshard(&world, number_then(&change, n + m));
                world_check(&world);
                points++;
            }
            world_deinit(&world);
        }
    }
    print_message("[          ] twice: %" PRIu64 " pairs of crash points\n", points);
    assert_true(points >= 100);
    fresh(f);
}

/* After a failure the disk works again: the next start, of any number, has everything, also after a power cut. */
static void check_after_failure(struct world *world, const struct change *change, uint64_t n)
{
    struct fixture *f = world->f;
    assert_int_equal(lq_io_mem_open_files(f->mem), 0);
    if (n % 2 == 0) {
        must_reshard(world, number_then(change, n / 2));
        fixture_crash(f, LQ_IO_MEM_LOSE, 0); /* what reads showed after a failed sync must have been made durable */
    } else {
        fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    }
    must_reshard(world, number_then(change, n / 2));
    world_check(world);
}

static void sweep_faults(struct fixture *f, const char *name, lightq_status status, uint64_t times, bool partial)
{
    for (size_t c = 0; c < CHANGE_COUNT; c++) {
        const struct change *change = &CHANGES[c];
        uint64_t n = 1 + c % LQ_SWEEP_STRIDE;
        for (bool hit = true; hit; n += LQ_SWEEP_STRIDE) {
            struct world world;
            fresh(f);
            name_point(change, name, n);
            world_init(&world, f, change->from);
            world_build(&world);
            const struct lq_io_mem_fault fault = {
                .verb = LQ_IO_MEM_VERBS, .nth = n, .times = times, .status = status, .partial = partial};
            uint64_t before = lq_io_mem_faults_hit(f->mem);
            assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
            lightq_status given = world_reshard(&world, change->to);
            hit = lq_io_mem_faults_hit(f->mem) > before;
            lq_io_mem_clear_faults(f->mem);
            show(f, n);
            if (given != LIGHTQ_OK) {
                assert_true(hit);
                assert_true(f->err.text[0] != '\0');
            }
            check_after_failure(&world, change, n);
            world_deinit(&world);
        }
        assert_true(n > 100);
        print_message("[          ] %u to %u, %s: %" PRIu64 " operations\n", change->from, change->to, name, n - 2);
    }
    fresh(f);
}

static void test_reshard_one_operation_fails_nothing_is_lost(void **state)
{
    sweep_faults(*state, "EIO once", LIGHTQ_EIO, 1, true);
}

static void test_reshard_disk_breaks_nothing_is_lost(void **state)
{
    sweep_faults(*state, "EIO from then on", LIGHTQ_EIO, 0, false);
}

static void test_reshard_no_space_from_then_on_nothing_is_lost(void **state)
{
    sweep_faults(*state, "ENOSPC from then on", LIGHTQ_ENOSPC, 0, true);
}

static void test_reshard_no_descriptor_nothing_is_lost(void **state)
{
    sweep_faults(*state, "no descriptor", LIGHTQ_ELIMIT, 1, false);
}

static void test_reshard_disk_full_is_told_and_goes_on_when_there_is_space(void **state)
{
    struct fixture *f = *state;
    unsigned refused = 0;
    bool done = false;
    for (uint64_t capacity = 0; !done; capacity += 16384) {
        struct world world;
        fresh(f);
        world_init(&world, f, 3);
        world_build(&world);
        lq_io_mem_set_capacity(f->mem, capacity);
        lightq_status status = world_reshard(&world, 2);
        lq_io_mem_set_capacity(f->mem, LQ_IO_MEM_DISK_BYTES_DEFAULT);
        done = status == LIGHTQ_OK;
        if (!done) {
            assert_int_equal(status, LIGHTQ_ENOSPC);
            refused++;
        }
        check_after_failure(&world, &CHANGES[2], capacity / 16384);
        world_deinit(&world);
    }
    assert_true(refused > 0);
    fresh(f);
}

static void test_reshard_one_allocation_fails_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    unsigned n = 1;
    for (bool hit = true; hit; n += LQ_SWEEP_STRIDE) {
        struct world world;
        fresh(f);
        name_point(&CHANGES[2], "allocation", n);
        world_init(&world, f, 3);
        world_build(&world);
        lq_alloc_fail_at(n + 1); /* the test reads the number first */
        lightq_status status = world_reshard(&world, 2);
        hit = lq_alloc_fail_end();
        if (status != LIGHTQ_OK) {
            assert_true(hit);
        }
        check_after_failure(&world, &CHANGES[2], n);
        world_deinit(&world);
    }
    assert_true(n > 100);
    print_message("[          ] allocations: %u points\n", n);
    fresh(f);
}

/* From number to number and back, without anything in between. */
static void test_reshard_many_times_keeps_everything(void **state)
{
    struct fixture *f = *state;
    static const unsigned NUMBERS[] = {4, 4, 1, 16, 3, 5, 2, 16, 15, 1};
    struct world world;
    world_init(&world, f, 3);
    world_build(&world);

    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        must_reshard(&world, NUMBERS[i]);
    }

    world_check(&world);
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reshard_many_times_keeps_everything, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_power_goes_after_every_change_nothing_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_power_goes_twice_nothing_is_lost, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_one_operation_fails_nothing_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_disk_breaks_nothing_is_lost, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_no_space_from_then_on_nothing_is_lost, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_no_descriptor_nothing_is_lost, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_disk_full_is_told_and_goes_on_when_there_is_space, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reshard_one_allocation_fails_nothing_is_lost, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
