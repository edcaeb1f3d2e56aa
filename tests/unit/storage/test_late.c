/* test_late.c - entries that the journal carries and that are written to their segments later, many at once: how few
 * writes, who is written when, and that nothing depends on them being there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

#define MANY       20
#define GROWN_MAX  6   /* times that 100 frames make the journal longer; each tells of it with a write of its own */
#define ENTRY_SIZE 176 /* of an entry with a payload of 100 */

struct world {
    struct lq_rlog *logs[MANY];
    struct told told[MANY];
};

static void open_many(struct fixture *f, struct world *world)
{
    fixture_open(f);
    for (unsigned i = 0; i < MANY; i++) {
        world->told[i] = (struct told){.f = f};
        world->logs[i] = fixture_create(f, i + 1, &world->told[i]);
    }
    fixture_settle(f);
}

/* @rounds times one entry for each log, each round durable. */
static void append_all(struct fixture *f, struct world *world, unsigned rounds)
{
    for (unsigned r = 0; r < rounds; r++) {
        for (unsigned i = 0; i < MANY; i++) {
            assert_int_equal(append(world->logs[i], 1, 1, 100), LIGHTQ_OK);
        }
        fixture_settle(f);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(world->told[i].durable, lq_rlog_last(world->logs[i]));
    }
}

static uint64_t writes(struct fixture *f)
{
    return lq_io_mem_count(f->mem, LQ_IO_WRITE);
}

static uint64_t segment_bytes(struct fixture *f)
{
    struct lq_store_counters counters;
    lq_store_count_up(f->store, &counters);
    return counters.bytes_written - counters.journal_bytes_written;
}

static void check_all(struct fixture *f, struct world *world)
{
    for (unsigned i = 0; i < MANY; i++) {
        check_log(f, world->logs[i]);
    }
}

static void find_all(struct fixture *f, struct world *world, uint64_t last)
{
    for (unsigned i = 0; i < MANY; i++) {
        world->logs[i] = fixture_find(f, i + 1, &world->told[i]);
        assert_int_equal(lq_rlog_health(world->logs[i]), LQ_RLOG_HEALTHY);
        assert_int_equal(lq_rlog_last(world->logs[i]), last);
        check_log(f, world->logs[i]);
    }
}

static void test_late_entries_are_written_many_at_once(void **state)
{
    struct fixture *f = *state;
    struct world world;
    open_many(f, &world);
    append_all(f, &world, 1); /* makes the files */
    uint64_t written = writes(f);
    uint64_t bytes = segment_bytes(f);

    append_all(f, &world, 100);

    assert_in_range(writes(f) - written, 100, 100 + GROWN_MAX); /* the journal's */
    assert_int_equal(segment_bytes(f), bytes);
    append_all(f, &world, 100); /* more than 32 KiB each */
    assert_in_range(writes(f) - written, 200 + MANY, 200 + MANY + 2 * GROWN_MAX);
    assert_true(segment_bytes(f) - bytes >= (uint64_t)MANY * 30 * 1024);
    check_all(f, &world);
}

static void test_late_entries_survive_a_crash(void **state)
{
    struct fixture *f = *state;
    static const enum lq_io_mem_crash_mode modes[] = {LQ_IO_MEM_LOSE, LQ_IO_MEM_KEEP, LQ_IO_MEM_TEAR};
    struct world world;
    uint64_t last = 0;
    open_many(f, &world);
    for (unsigned m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        append_all(f, &world, 30);
        last += 30;
        fixture_crash(f, modes[m], m + 1);
        fixture_open(f);
        find_all(f, &world, last);
    }
}

/* What is cut was nowhere but in the journal; so is what is left before the cut, and what comes behind it. */
static void test_late_entries_that_are_cut_do_not_come_back(void **state)
{
    struct fixture *f = *state;
    struct world world;
    open_many(f, &world);
    append_all(f, &world, 20);

    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(lq_rlog_cut(world.logs[i], 11), LIGHTQ_OK);
        if (i % 2 == 0) {
            assert_int_equal(append(world.logs[i], 5, 2, 50), LIGHTQ_OK);
        }
    }
    fixture_settle(f);
    fixture_crash(f, LQ_IO_MEM_LOSE, 1);
    fixture_open(f);

    for (unsigned i = 0; i < MANY; i++) {
        struct lq_rlog *log = fixture_find(f, i + 1, &world.told[i]);
        assert_int_equal(lq_rlog_last(log), i % 2 == 0 ? 15 : 10);
        assert_int_equal(lq_rlog_term_at(log, 11), i % 2 == 0 ? 2 : 0);
        check_log(f, log);
    }
}

static unsigned journal_files(struct fixture *f)
{
    unsigned count = 0;
    for (unsigned i = 1; i < 200; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "journal/s0-%020u.journal", i);
        count += lq_io_mem_exists(f->mem, path);
    }
    return count;
}

static void test_late_entries_do_not_keep_old_journal_files(void **state)
{
    struct fixture *f = *state;
    struct world world;
    f->options.journal_bytes = 64 * 1024;
    open_many(f, &world);
    append_all(f, &world, 1);

    for (unsigned r = 0; r < 2000; r++) { /* one log is idle, and has a late entry all the time */
        for (unsigned i = 1; i < 5; i++) {
            assert_int_equal(append(world.logs[i], 1, 1, 100), LIGHTQ_OK);
        }
        fixture_settle(f);
    }

    assert_in_range(journal_files(f), 1, 2);
    check_all(f, &world);
    fixture_crash(f, LQ_IO_MEM_LOSE, 1);
    fixture_open(f);
    assert_int_equal(lq_rlog_last(fixture_find(f, 1, &world.told[0])), 1);
    check_log(f, lq_store_find(f->store, 1));
}

static uint64_t cache_bytes(struct fixture *f)
{
    struct lq_store_counters counters;
    lq_store_count_up(f->store, &counters);
    return counters.cache_bytes;
}

static void test_late_entries_do_not_hold_up_the_cache(void **state)
{
    struct fixture *f = *state;
    struct world world;
    f->options.cache_bytes = 64 * 1024;
    open_many(f, &world);
    append_all(f, &world, 1);

    for (unsigned r = 0; r < 500; r++) {
        for (unsigned i = 1; i < 5; i++) {
            assert_int_equal(append(world.logs[i], 1, 1, 100), LIGHTQ_OK);
        }
        fixture_settle(f);
    }

    assert_true(cache_bytes(f) <= 64 * 1024);
    check_all(f, &world); /* also what is out of the cache */
}

static void test_late_entries_of_a_failed_log_do_not_hold_up_the_cache(void **state)
{
    struct fixture *f = *state;
    struct world world;
    f->options.cache_bytes = 64 * 1024;
    open_many(f, &world);
    append_all(f, &world, 1);
    const struct lq_io_mem_fault fault = {
        .verb = LQ_IO_WRITE, .pattern = "g1-*.log", .times = 1, .status = LIGHTQ_EIO, .partial = true};
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    for (unsigned r = 0; r < 500; r++) {
        for (unsigned i = 1; i < 5; i++) {
            assert_int_equal(append(world.logs[i], 1, 1, 100), LIGHTQ_OK);
        }
        fixture_settle(f);
    }

    assert_int_equal(lq_rlog_health(world.logs[0]), LQ_RLOG_FAILED);
    assert_int_equal(world.told[0].failed_count, 1);
    assert_true(cache_bytes(f) <= 64 * 1024);
    fixture_crash(f, LQ_IO_MEM_LOSE, 1); /* the journal kept what its segment lacks */
    fixture_open(f);
    assert_int_equal(lq_rlog_last(fixture_find(f, 1, &world.told[0])), 1);
    check_log(f, lq_store_find(f->store, 1));
}

static void test_late_entries_have_their_space_already(void **state)
{
    struct fixture *f = *state;
    struct world world;
    struct lq_store_space space;
    open_many(f, &world);
    append_all(f, &world, 100);
    assert_int_equal(lq_store_space(f->store, &space), LIGHTQ_OK);
    lq_io_mem_set_capacity(f->mem, space.total_bytes - space.free_bytes); /* not a byte is left */

    fixture_close(f); /* which writes them */

    lq_io_mem_set_capacity(f->mem, space.total_bytes);
    f->closed = false;
    fixture_open(f);
    find_all(f, &world, 100);
}

static void test_late_entries_are_written_when_the_store_closes(void **state)
{
    struct fixture *f = *state;
    struct world world;
    open_many(f, &world);
    append_all(f, &world, 10);
    uint64_t written = writes(f);

    fixture_close(f);

    assert_int_equal(writes(f) - written, MANY + 1); /* and the journal's last words */
    fixture_open(f);
    find_all(f, &world, 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_late_entries_are_written_many_at_once),
        TEST(test_late_entries_survive_a_crash),
        TEST(test_late_entries_that_are_cut_do_not_come_back),
        TEST(test_late_entries_do_not_keep_old_journal_files),
        TEST(test_late_entries_do_not_hold_up_the_cache),
        TEST(test_late_entries_of_a_failed_log_do_not_hold_up_the_cache),
        TEST(test_late_entries_have_their_space_already),
        TEST(test_late_entries_are_written_when_the_store_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
