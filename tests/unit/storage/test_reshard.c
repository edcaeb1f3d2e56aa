/* tests/unit/storage/test_reshard.c - another number of shards is taken over: damage, loss, retired groups and what was
 * set aside stay what they are; what does not belong together is refused by name. Power cuts and faults are in
 * test_reshard_sweep.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "reshard_world.h"
#include "storage/dump.h"
#include "storage/journal.h"
#include "storage/reshard_plan.h"

#define FIRST_JOURNAL "journal/s0-00000000000000000001.journal"
#define KEPT_JOURNAL  "removed/journal/s0-00000000000000000001.journal"

static void assert_refused(struct world *world, unsigned to, lightq_status status, const char *sentence)
{
    assert_int_equal(world_reshard(world, to), status);
    if (strstr(world->f->err.text, sentence) == NULL) {
        fail_msg("\"%s\" is not in: %s", sentence, world->f->err.text);
    }
    assert_int_equal(lq_io_mem_open_files(world->f->mem), 0);
}

/* Groups 1 to 4 with three entries each, closed in order. */
static void make(struct world *world, struct fixture *f, unsigned shards)
{
    world_init(world, f, shards);
    for (unsigned i = 0; i < shards; i++) {
        world_make(world, i, shards);
        for (uint64_t group = 1; group <= 4; group++) {
            if (group % shards == i) {
                struct lq_rlog *log = fixture_create(f, group, NULL);
                assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
                (void)lq_rlog_set_vote(log, 5, group);
            }
        }
        fixture_settle(f);
        fixture_close(f);
    }
    world_note(world, shards);
}

static struct lq_rlog *find(struct world *world, uint64_t group, unsigned shards)
{
    world_open(world, (unsigned)(group % shards), shards);
    struct lq_rlog *log = lq_store_find(world->f->store, group);
    assert_non_null(log);
    return log;
}

/* Sound ones are as they were made. */
static void check_sound(struct world *world, uint64_t group, unsigned shards)
{
    uint64_t term = 0;
    uint64_t voted_for = 0;
    struct lq_rlog *log = find(world, group, shards);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(log), 3);
    lq_rlog_vote(log, &term, &voted_for);
    assert_int_equal(term, 5);
    assert_int_equal(voted_for, group);
    check_log(world->f, log);
    fixture_close(world->f);
}

/* The change ends on the way, its plan being made. */
static void leave_unfinished(struct world *world, unsigned to)
{
    struct fixture *f = world->f;
    struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);
    for (uint64_t n = 1; !lq_io_mem_exists(f->mem, LQ_RESHARD_NAME); n++) {
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        lq_io_mem_kill_after(f->mem, n);
        assert_int_not_equal(world_reshard(world, to), LIGHTQ_OK);
        lq_io_mem_kill(f->mem);
    }
    lq_io_mem_image_free(image);
}

/* ---- damage ---- */

/* What is durable of group 3 is in the journal only, and rots there. */
static void damage_in_the_journal(struct world *world, struct fixture *f)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    uint64_t at = 0;
    world_init(world, f, 1);
    world_make(world, 0, 1);
    for (uint64_t group = 1; group <= 4; group++) {
        struct lq_rlog *log = fixture_create(f, group, NULL);
        assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
        (void)lq_rlog_set_vote(log, 5, group);
    }
    lq_store_flush(f->store);
    (void)lq_io_mem_run_one(f->mem);
    world_note(world, 1);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    assert_int_equal(lq_io_mem_read_file(f->mem, FIRST_JOURNAL, &bytes, &size), LIGHTQ_OK);
    for (uint64_t i = 0; i + 32 < size; i += 8) { /* the header of entry 2 of group 3 */
        if (lq_get_u64(bytes + i + 8) == 3 && lq_get_u64(bytes + i + 16) == 2 && lq_get_u32(bytes + i + 4) == 172) {
            at = i;
        }
    }
    free(bytes);
    assert_true(at > 0);
    assert_int_equal(lq_io_mem_flip(f->mem, FIRST_JOURNAL, at + 100, 3), LIGHTQ_OK);
}

static void test_reshard_damage_that_a_journal_showed_stays_damage(void **state)
{
    struct fixture *f = *state;
    struct world world;
    damage_in_the_journal(&world, f);

    assert_int_equal(world_reshard(&world, 2), LIGHTQ_OK);

    for (unsigned i = 0; i < 2; i++) { /* every start says so, and the next change of the number too */
        struct lq_rlog *log = find(&world, 3, 2);
        assert_int_equal(lq_rlog_health(log), LQ_RLOG_DAMAGED);
        assert_non_null(strstr(lq_rlog_health_text(log), "shard-1/g3-1: entry 2 is"));
        fixture_close(f);
    }
    assert_true(lq_io_mem_exists(f->mem, KEPT_JOURNAL));
    check_sound(&world, 1, 2);
    check_sound(&world, 4, 2);
    assert_int_equal(world_reshard(&world, 1), LIGHTQ_OK);
    struct lq_rlog *log = find(&world, 3, 1);
    uint64_t term = 0;
    uint64_t voted_for = 0;
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_DAMAGED);
    lq_rlog_vote(log, &term, &voted_for);
    assert_int_equal(voted_for, 3);
    lq_rlog_destroy(log);
    fixture_settle(f);
    assert_true(lq_io_mem_exists(f->mem, "removed/g3-1.0/" LQ_DAMAGED_NAME));
    assert_int_equal(lq_rlog_create(f->store, 3, 1, &log, &f->err), LIGHTQ_ECONFLICT);
    assert_int_equal(lq_rlog_create(f->store, 3, 2, &log, &f->err), LIGHTQ_OK);
    fixture_settle(f);
    fixture_close(f);
    world_deinit(&world);
}

static void test_reshard_damaged_segment_stays_damage(void **state)
{
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 2);
    for (unsigned i = 0; i < 2; i++) { /* until no journal has the entries any more */
        world_open(&world, 1, 2);
        fixture_settle(f);
        fixture_close(f);
    }
    assert_int_equal(lq_io_mem_flip(f->mem, "shard-1/g3-1/00000000000000000001.log", 64 + 100, 3), LIGHTQ_OK);

    assert_int_equal(world_reshard(&world, 3), LIGHTQ_OK);

    assert_int_equal(lq_rlog_health(find(&world, 3, 3)), LQ_RLOG_DAMAGED);
    fixture_close(f);
    check_sound(&world, 1, 3);
    check_sound(&world, 2, 3);
    world_deinit(&world);
}

static void test_reshard_lost_directory_stays_lost(void **state)
{
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 1);
    assert_int_equal(lq_io_mem_remove(f->mem, "g3-1"), LIGHTQ_OK);

    assert_int_equal(world_reshard(&world, 4), LIGHTQ_OK);

    assert_int_equal(lq_rlog_health(find(&world, 3, 4)), LQ_RLOG_LOST);
    fixture_close(f);
    check_sound(&world, 4, 4);
    world_deinit(&world);
}

static void test_reshard_damaged_journal_is_refused_and_nothing_begun(void **state)
{
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 2);
    assert_int_equal(
        lq_io_mem_flip(f->mem, "shard-1/journal/s1-00000000000000000001.journal", LQ_JOURNAL_HEADER_BYTES + 50, 1),
        LIGHTQ_OK);

    assert_refused(&world, 3, LIGHTQ_EDAMAGED, "shard-1: journal file 1 is damaged");

    assert_int_equal(world_number(&world), 2);
    assert_false(lq_io_mem_exists(f->mem, LQ_RESHARD_NAME));
    check_sound(&world, 4, 2);
    world_deinit(&world);
}

static void test_reshard_missing_journal_is_refused(void **state)
{
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 2);
    assert_int_equal(lq_io_mem_remove(f->mem, "shard-1"), LIGHTQ_OK);

    assert_refused(&world, 1, LIGHTQ_EDAMAGED, "shard-1: the journal is not there");

    assert_int_equal(world_number(&world), 2);
    world_deinit(&world);
}

/* A log that cannot be read once is not condemned for it; one that never can is damaged, as at any start. */
static void test_reshard_log_that_cannot_be_read_is_looked_at_twice(void **state)
{
    struct fixture *f = *state;
    struct world world;
    struct lq_io_mem_fault fault = {
        .verb = LQ_IO_MEM_LIST, .pattern = "g3-1", .nth = 1, .times = 1, .status = LIGHTQ_EIO};
    make(&world, f, 1);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    assert_int_equal(world_reshard(&world, 2), LIGHTQ_OK);
    check_sound(&world, 3, 2);

    fault.pattern = "shard-1/g3-1";
    fault.times = 0;
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);
    assert_int_equal(world_reshard(&world, 1), LIGHTQ_OK);
    lq_io_mem_clear_faults(f->mem);
    assert_int_equal(lq_rlog_health(find(&world, 3, 1)), LQ_RLOG_DAMAGED);
    fixture_close(f);
    world_deinit(&world);
}

/* ---- what goes along ---- */

static void test_reshard_retired_groups_stay_known(void **state)
{
    struct fixture *f = *state;
    struct world world;
    struct lq_rlog *log = NULL;
    uint32_t incarnation = 0;
    make(&world, f, 1);
    lq_rlog_destroy(find(&world, 3, 1));
    fixture_settle(f);
    fixture_close(f);

    assert_int_equal(world_reshard(&world, 2), LIGHTQ_OK);

    world_open(&world, 1, 2);
    assert_null(lq_store_find(f->store, 3));
    assert_true(lq_store_knows(f->store, 3, &incarnation));
    assert_int_equal(incarnation, 1);
    assert_int_equal(lq_rlog_create(f->store, 3, 1, &log, &f->err), LIGHTQ_ECONFLICT);
    fixture_close(f);
    world_deinit(&world);
}

static void test_reshard_what_was_set_aside_goes_with_its_group(void **state)
{
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 1);
    assert_int_equal(lq_rlog_set_aside(find(&world, 1, 1), &f->err), LIGHTQ_OK);
    fixture_settle(f);
    fixture_close(f);
    assert_true(lq_io_mem_exists(f->mem, "removed/g1-1.sound.0"));

    assert_int_equal(world_reshard(&world, 2), LIGHTQ_OK);

    assert_false(lq_io_mem_exists(f->mem, "removed/g1-1.sound.0"));
    assert_true(lq_io_mem_exists(f->mem, "shard-1/removed/g1-1.sound.0"));
    world_open(&world, 1, 2);
    lq_store_drop_aside(f->store, 1);
    assert_false(lq_io_mem_exists(f->mem, "shard-1/removed/g1-1.sound.0"));
    fixture_close(f);
    world_deinit(&world);
}

static void test_reshard_set_aside_under_a_name_that_is_taken_keeps_both(void **state)
{
    struct fixture *f = *state;
    struct lq_io *io = lq_io_mem_io(f->mem);
    struct world world;
    const char *dirs[] = {"removed", "removed/g1-1.0", "shard-1/removed", "shard-1/removed/g1-1.0"};
    make(&world, f, 2);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(io->ops->mkdir(io, dirs[i], &f->err), LIGHTQ_OK);
    }
    fixture_put_file(f, "removed/g1-1.0/a", (const uint8_t *)"a", 1);
    fixture_put_file(f, "shard-1/removed/g1-1.0/b", (const uint8_t *)"b", 1);

    assert_int_equal(world_reshard(&world, 1), LIGHTQ_OK);

    assert_true(lq_io_mem_exists(f->mem, "removed/g1-1.0/a"));
    assert_true(lq_io_mem_exists(f->mem, "removed/g1-1.1/b"));
    assert_false(lq_io_mem_exists(f->mem, "shard-1"));
    world_deinit(&world);
}

/* ---- what does not belong together ---- */

static void test_reshard_group_beyond_the_number_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lq_io *io = lq_io_mem_io(f->mem);
    struct world world;
    make(&world, f, 2);
    assert_int_equal(io->ops->mkdir(io, "shard-3", &f->err), LIGHTQ_OK);
    assert_int_equal(io->ops->mkdir(io, "shard-3/g7-1", &f->err), LIGHTQ_OK);

    assert_refused(&world, 4, LIGHTQ_ECONFLICT, "shard-3/g7-1");

    assert_int_equal(world_number(&world), 2);
    assert_int_equal(io->ops->rmdir(io, "shard-3/g7-1", &f->err), LIGHTQ_OK);
    assert_int_equal(io->ops->mkdir(io, "shard-3/journal", &f->err), LIGHTQ_OK);
    fixture_put_file(f, "shard-3/journal/s3-00000000000000000001.journal", (const uint8_t *)"x", 1);
    assert_refused(&world, 4, LIGHTQ_ECONFLICT, "shard-3/journal");
    world_deinit(&world);
}

static void test_reshard_journal_of_another_number_is_damage(void **state)
{
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 2);

    f->options.dir = "";
    f->options.shard = 0;
    f->options.shards = 3;

    assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);
    assert_non_null(strstr(f->err.text, "it was written for 2 shards"));
    world_note(&world, 3); /* as an identity from another time */
    assert_refused(&world, 1, LIGHTQ_EDAMAGED, "it was written for 2 shards");
    world_deinit(&world);
}

/* Rewrites the plan with its crc made anew. */
static void change_plan(struct fixture *f, size_t at, uint32_t value)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(lq_io_mem_read_file(f->mem, LQ_RESHARD_NAME, &bytes, &size), LIGHTQ_OK);
    lq_put_u32(bytes + at, value);
    lq_put_u32(bytes + 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, size - 16));
    assert_int_equal(lq_io_mem_overwrite(f->mem, LQ_RESHARD_NAME, 0, bytes, size), LIGHTQ_OK);
    free(bytes);
}

static void test_reshard_plan_that_cannot_be_trusted_is_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
        lightq_status status;
        const char *sentence;
    } CASES[] = {
        {8, 2, LIGHTQ_EVERSION, "format version 2"},         {16, 77, LIGHTQ_EIDENTITY, "of another cluster"},
        {32, 0, LIGHTQ_EDAMAGED, "makes no sense"},          {36, 17, LIGHTQ_EDAMAGED, "makes no sense"},
        {32, 3, LIGHTQ_ECONFLICT, "of 3 or 4 shards"},       {60, 1, LIGHTQ_EDAMAGED, "makes no sense"},
        {60, 0x7fffffff, LIGHTQ_EDAMAGED, "makes no sense"}, {64, 0x3fffffff, LIGHTQ_EDAMAGED, "makes no sense"},
        {72, 3, LIGHTQ_EDAMAGED, "makes no sense"},
    };
    struct fixture *f = *state;
    struct world world;
    make(&world, f, 1);
    leave_unfinished(&world, 4);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);

    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        change_plan(f, CASES[i].at, CASES[i].value);
        assert_refused(&world, 4, CASES[i].status, CASES[i].sentence);
    }
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_read_file(f->mem, LQ_RESHARD_NAME, &bytes, &size), LIGHTQ_OK);
    free(bytes);
    for (size_t at = 0; at < size; at++) {
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        assert_int_equal(lq_io_mem_flip(f->mem, LQ_RESHARD_NAME, at, (unsigned)(at % 8)), LIGHTQ_OK);
        assert_refused(&world, 4, LIGHTQ_EDAMAGED, "is damaged");
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        assert_int_equal(lq_io_mem_cut_file(f->mem, LQ_RESHARD_NAME, at), LIGHTQ_OK);
        assert_refused(&world, 4, LIGHTQ_EDAMAGED, "is damaged");
    }
    assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
    lq_io_mem_image_free(image);
    assert_int_equal(world_reshard(&world, 4), LIGHTQ_OK);
    check_sound(&world, 3, 4);
    world_deinit(&world);
}

/* The plan of a change that was finished, put back: it would take back what the journals know since. */
static void test_reshard_plan_from_another_time_is_refused(void **state)
{
    struct fixture *f = *state;
    struct world world;
    uint8_t *bytes = NULL;
    size_t size = 0;
    make(&world, f, 1);
    leave_unfinished(&world, 2);
    assert_int_equal(lq_io_mem_read_file(f->mem, LQ_RESHARD_NAME, &bytes, &size), LIGHTQ_OK);
    assert_int_equal(world_reshard(&world, 2), LIGHTQ_OK);
    check_sound(&world, 1, 2);
    fixture_put_file(f, LQ_RESHARD_NAME, bytes, size);
    free(bytes);

    assert_refused(&world, 2, LIGHTQ_EDAMAGED, "was begun after another number of shards was taken over");

    world_deinit(&world);
}

static void test_reshard_directory_at_both_places_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lq_io *io = lq_io_mem_io(f->mem);
    struct world world;
    make(&world, f, 1);
    leave_unfinished(&world, 2);
    (void)io->ops->mkdir(io, "shard-1", NULL);
    assert_int_equal(io->ops->mkdir(io, "shard-1/g3-1", &f->err), LIGHTQ_OK);

    assert_refused(&world, 2, LIGHTQ_ECONFLICT, "both g3-1 and shard-1/g3-1 are there");

    assert_int_equal(io->ops->rmdir(io, "shard-1/g3-1", &f->err), LIGHTQ_OK);
    assert_int_equal(world_reshard(&world, 1), LIGHTQ_OK); /* finished first, and then taken back */
    check_sound(&world, 3, 1);
    world_deinit(&world);
}

/* ---- what lightq-dump says ---- */

static char *verify(struct fixture *f, struct lq_dump_verdict *verdict)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(lq_dump(lq_io_mem_io(f->mem), true, out, verdict, &f->err), LIGHTQ_OK);
    fclose(out);
    return text;
}

static void test_reshard_is_understood_by_dump(void **state)
{
    struct fixture *f = *state;
    struct world world;
    struct lq_dump_verdict verdict;
    damage_in_the_journal(&world, f);
    leave_unfinished(&world, 2);

    char *text = verify(f, &verdict);
    assert_int_equal(verdict.damaged, 0);
    assert_non_null(strstr(text, "the node goes from 1 to 2 shards, and ended on the way"));
    free(text);
    assert_int_equal(lq_io_mem_flip(f->mem, LQ_RESHARD_NAME, 40, 1), LIGHTQ_OK);
    text = verify(f, &verdict);
    assert_int_equal(verdict.damaged, 1);
    free(text);
    assert_int_equal(lq_io_mem_flip(f->mem, LQ_RESHARD_NAME, 40, 1), LIGHTQ_OK);
    assert_int_equal(world_reshard(&world, 2), LIGHTQ_OK);
    text = verify(f, &verdict);

    assert_true(verdict.damaged >= 1);
    assert_non_null(strstr(text, "shard-1/g3-1/damaged"));
    assert_non_null(strstr(text, "the node found the log damaged: entry 2 is"));
    free(text);
    world_deinit(&world);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_reshard_damage_that_a_journal_showed_stays_damage),
        TEST(test_reshard_damaged_segment_stays_damage),
        TEST(test_reshard_lost_directory_stays_lost),
        TEST(test_reshard_damaged_journal_is_refused_and_nothing_begun),
        TEST(test_reshard_missing_journal_is_refused),
        TEST(test_reshard_log_that_cannot_be_read_is_looked_at_twice),
        TEST(test_reshard_retired_groups_stay_known),
        TEST(test_reshard_what_was_set_aside_goes_with_its_group),
        TEST(test_reshard_set_aside_under_a_name_that_is_taken_keeps_both),
        TEST(test_reshard_group_beyond_the_number_is_refused),
        TEST(test_reshard_journal_of_another_number_is_damage),
        TEST(test_reshard_plan_that_cannot_be_trusted_is_refused),
        TEST(test_reshard_plan_from_another_time_is_refused),
        TEST(test_reshard_directory_at_both_places_is_refused),
        TEST(test_reshard_is_understood_by_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
