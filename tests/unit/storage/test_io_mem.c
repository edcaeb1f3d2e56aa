/* tests/unit/storage/test_io_mem.c - the disk in memory: the contract of storage/io.h, and what a power cut leaves
 * (storage/io_mem.h). */
#include "io_mem_fixture.h"

#define SECTORS 16

/* ---- power cuts: content ---- */

static void test_io_mem_unsynced_write_is_kept_or_lost_as_told(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 10);
    struct lq_io_mem_image *image;
    io_write(f, reopen(f, "a"), 5, "NEWER+LONGER", 12);
    image = lq_io_mem_copy(f->disk); /* of what reads show: also the un-synced */
    assert_non_null(image);

    crash(f, LQ_IO_MEM_LOSE, 0);
    io_assert_content(f, "a", "oooooooooo", 10);

    io_write(f, reopen(f, "a"), 5, "NEWER+LONGER", 12);
    crash(f, LQ_IO_MEM_KEEP, 0);
    io_assert_content(f, "a", "oooooNEWER+LONGER", 17);

    crash(f, LQ_IO_MEM_LOSE, 0); /* what a cut left is durable */
    io_assert_content(f, "a", "oooooNEWER+LONGER", 17);
    assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    io_assert_content(f, "a", "oooooNEWER+LONGER", 17);
    lq_io_mem_image_free(image);
}

static void test_io_mem_synced_write_survives_every_cut(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 5000);
    lq_file file = reopen(f, "a");
    io_write(f, file, 4990, "synced, across the end", 22);
    sync_file(f, file);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    uint8_t expected[5012];
    memset(expected, 'o', sizeof expected);
    memcpy(expected + 4990, "synced, across the end", 22);

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        crash(f, seed == 0 ? LQ_IO_MEM_LOSE : LQ_IO_MEM_TEAR, seed);
        io_assert_content(f, "a", expected, sizeof expected);
        file = reopen(f, "a");
        io_write(f, file, 6000, "later", 5); /* un-synced: may come and go, also the size */
        crash(f, LQ_IO_MEM_TEAR, seed);
        size_t size;
        uint8_t *bytes = content(f, "a", &size);
        assert_true(size == 5012 || size == 6005);
        assert_memory_equal(bytes, expected, sizeof expected);
        free(bytes);
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }
    lq_io_mem_image_free(image);
}

static void test_io_mem_durable_has_what_a_cut_surely_leaves(void **state)
{
    struct io_fixture *f = *state;
    const char needle[] = "0123456789abcdefghijklmn";
    const size_t size = sizeof needle - 1;
    make_durable(f, "a", 'o', 2 * PAGE);
    assert_false(lq_io_mem_durable_has(f->disk, needle, size));

    for (size_t at = 0; at <= PAGE; at += at == 8 ? PAGE - 24 : 8) { /* ... also across the end of a page */
        crash(f, LQ_IO_MEM_LOSE, 0);
        lq_file file = reopen(f, "a");
        io_write(f, file, at, needle, size);
        assert_false(lq_io_mem_durable_has(f->disk, needle, size)); /* written only */
        sync_file(f, file);
        assert_true(lq_io_mem_durable_has(f->disk, needle, size));
        io_write(f, file, at + size - 1, "X", 1);
        assert_true(lq_io_mem_durable_has(f->disk, needle, size)); /* a cut may still leave it */
        sync_file(f, file);
        assert_false(lq_io_mem_durable_has(f->disk, needle, size));
    }

    crash(f, LQ_IO_MEM_LOSE, 0);
    lq_file file = reopen(f, "a");
    io_write(f, file, 2 * PAGE - 16, needle, 16); /* its begin alone, at the end of the file */
    sync_file(f, file);
    assert_false(lq_io_mem_durable_has(f->disk, needle, size));
    assert_true(lq_io_mem_durable_has(f->disk, needle, 16));
    crash(f, LQ_IO_MEM_LOSE, 0);
}

static void test_io_mem_torn_write_is_old_or_new_by_sector(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', SECTORS * SECTOR);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    char fresh[SECTORS * SECTOR];
    memset(fresh, 'n', sizeof fresh);
    unsigned all_old = 0, all_new = 0, mixed = 0;
    unsigned seen_new[SECTORS] = {0};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        io_write(f, reopen(f, "a"), 100, fresh, sizeof fresh - 100);
        crash(f, LQ_IO_MEM_TEAR, seed);
        size_t size;
        uint8_t *bytes = content(f, "a", &size);
        assert_int_equal(size, SECTORS * SECTOR);
        unsigned count = 0;
        for (size_t i = 0; i < SECTORS; i++) {
            uint8_t last = bytes[i * SECTOR + SECTOR - 1];
            assert_true(last == 'o' || last == 'n');
            for (size_t j = 0; j < SECTOR; j++) { /* whole sectors, and nothing outside the write */
                assert_int_equal(bytes[i * SECTOR + j], i == 0 && j < 100 ? 'o' : last);
            }
            count += last == 'n';
            seen_new[i] += last == 'n';
        }
        free(bytes);
        all_old += count == 0;
        all_new += count == SECTORS;
        mixed += count > 0 && count < SECTORS;
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(all_old > 0 && all_new > 0 && mixed > 0);
    for (size_t i = 0; i < SECTORS; i++) {
        assert_true(seen_new[i] > 0 && seen_new[i] < SEEDS);
    }
    lq_io_mem_image_free(image);
}

static void test_io_mem_torn_sector_shows_any_version_it_had(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", '0', SECTOR);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    unsigned seen[3] = {0};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        lq_file file = reopen(f, "a");
        io_write(f, file, 0, "1", 1);
        io_write(f, file, 1, "2", 1);
        crash(f, LQ_IO_MEM_TEAR, seed);
        size_t size;
        uint8_t *bytes = content(f, "a", &size);
        bool is_0 = memcmp(bytes, "00", 2) == 0;
        bool is_1 = memcmp(bytes, "10", 2) == 0;
        bool is_2 = memcmp(bytes, "12", 2) == 0;
        assert_true(is_0 || is_1 || is_2); /* never 02: the second was written on top of the first */
        seen[0] += is_0;
        seen[1] += is_1;
        seen[2] += is_2;
        free(bytes);
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
    lq_io_mem_image_free(image);
}

static void test_io_mem_torn_append_may_leave_zeros_in_a_longer_file(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', SECTOR);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    char fresh[4 * SECTOR];
    memset(fresh, 'n', sizeof fresh);
    unsigned zeros_then_new = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        io_write(f, reopen(f, "a"), SECTOR, fresh, sizeof fresh);
        crash(f, LQ_IO_MEM_TEAR, seed);
        size_t size;
        uint8_t *bytes = content(f, "a", &size);
        assert_true(size == SECTOR || size == 5 * SECTOR);
        for (size_t i = 1; i < size / SECTOR; i++) {
            assert_true(bytes[i * SECTOR] == 0 || bytes[i * SECTOR] == 'n');
        }
        zeros_then_new += size > SECTOR && bytes[SECTOR] == 0 && bytes[4 * SECTOR] == 'n';
        free(bytes);
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(zeros_then_new > 0); /* pages go to disk in any order */
    lq_io_mem_image_free(image);
}

static void test_io_mem_equal_seeds_tear_equally(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', SECTORS * SECTOR);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    char fresh[SECTORS * SECTOR];
    memset(fresh, 'n', sizeof fresh);

    for (uint64_t seed = 0; seed < 20; seed++) {
        uint8_t *bytes[2];
        size_t sizes[2];
        for (int i = 0; i < 2; i++) {
            io_write(f, reopen(f, "a"), 0, fresh, sizeof fresh);
            f->io->ops->close(f->io, io_create(f, "b"));
            crash(f, LQ_IO_MEM_TEAR, seed);
            bytes[i] = content(f, "a", &sizes[i]);
            assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(bytes[0], bytes[1], sizes[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
    lq_io_mem_image_free(image);
}

/* Truncate to one page and write another after it. Either the truncation has happened, and the old bytes behind it are
 * gone, or it has not, and what was written later in new blocks is not seen. */
static void test_io_mem_torn_truncation_is_done_or_undone_as_a_whole(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 4 * PAGE);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    char fresh[PAGE];
    memset(fresh, 'n', sizeof fresh);
    unsigned done = 0, undone = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        lq_file file = reopen(f, "a");
        assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, PAGE, 0), LIGHTQ_OK);
        io_write(f, file, 2 * PAGE, fresh, sizeof fresh);
        crash(f, LQ_IO_MEM_TEAR, seed);
        size_t size;
        uint8_t *bytes = content(f, "a", &size);
        bool is_undone = size == 4 * PAGE;
        assert_true(is_undone || size == PAGE || size == 3 * PAGE);
        for (size_t i = 0; i < size; i++) {
            if (i < PAGE || is_undone) {
                assert_int_equal(bytes[i], 'o');
            } else if (i < 2 * PAGE) {
                assert_int_equal(bytes[i], 0);
            } else {
                assert_true(bytes[i] == 0 || bytes[i] == 'n');
            }
        }
        done += !is_undone;
        undone += is_undone;
        free(bytes);
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(done > 0 && undone > 0);
    lq_io_mem_image_free(image);
}

static void test_io_mem_allocation_is_durable_after_sync_only(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 10);
    lq_file file = reopen(f, "a");
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 10000), LIGHTQ_OK);
    crash(f, LQ_IO_MEM_LOSE, 0);
    assert_int_equal(size_of(f, "a"), 10);

    file = reopen(f, "a");
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 10000), LIGHTQ_OK);
    sync_file(f, file);
    crash(f, LQ_IO_MEM_LOSE, 0);

    uint8_t expected[10000] = "oooooooooo";
    io_assert_content(f, "a", expected, sizeof expected);
}

/* ---- power cuts: names ---- */

static void test_io_mem_synced_file_without_synced_directory_may_vanish(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "synced", 6);
    sync_file(f, file);

    crash(f, LQ_IO_MEM_LOSE, 0);

    assert_false(exists(f, "a"));
}

static void test_io_mem_synced_name_may_hold_an_empty_file(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "not synced", 10);
    sync_dir(f, "");

    crash(f, LQ_IO_MEM_LOSE, 0);

    io_assert_content(f, "a", "", 0);
}

static void test_io_mem_unsynced_names_come_and_go_by_chance(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "old", 'o', 3);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    unsigned combinations[4] = {0};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        f->io->ops->close(f->io, io_create(f, "new"));
        assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "old", NULL), LIGHTQ_OK);
        crash(f, LQ_IO_MEM_TEAR, seed);
        combinations[(exists(f, "new") ? 1 : 0) + (exists(f, "old") ? 2 : 0)]++;
        if (exists(f, "old")) {
            io_assert_content(f, "old", "ooo", 3);
        }
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    for (size_t i = 0; i < 4; i++) {
        assert_true(combinations[i] > 0); /* each change by itself */
    }
    lq_io_mem_image_free(image);
}

static void test_io_mem_unsynced_rename_is_old_or_new_never_neither(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 3);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    unsigned old = 0, new = 0, left_over = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        lq_file file = io_create(f, "a.tmp");
        io_write(f, file, 0, "new!", 4);
        sync_file(f, file);
        rename_to(f, "a.tmp", "a");
        crash(f, LQ_IO_MEM_TEAR, seed);
        assert_true(exists(f, "a"));
        if (size_of(f, "a") == 4) {
            io_assert_content(f, "a", "new!", 4);
            assert_false(exists(f, "a.tmp")); /* atomic */
            new ++;
        } else {
            io_assert_content(f, "a", "ooo", 3);
            left_over += exists(f, "a.tmp");
            old++;
        }
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(old > 0 && new > 0 && left_over > 0);
    lq_io_mem_image_free(image);
}

static void test_io_mem_synced_rename_survives_every_cut(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 3);
    lq_file file = io_create(f, "a.tmp");
    io_write(f, file, 0, "new!", 4);
    sync_file(f, file);
    rename_to(f, "a.tmp", "a");
    sync_dir(f, "");
    f->io->ops->close(f->io, io_create(f, "later"));

    crash(f, LQ_IO_MEM_LOSE, 0);

    io_assert_content(f, "a", "new!", 4);
    assert_false(exists(f, "a.tmp"));
    assert_false(exists(f, "later"));
}

/* Unlink and make again: the new file is there only if the old one is gone. */
static void test_io_mem_changes_of_one_name_stay_in_order(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 3);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    unsigned seen[3] = {0};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "a", NULL), LIGHTQ_OK);
        lq_file file = io_create(f, "a");
        io_write(f, file, 0, "again", 5);
        sync_file(f, file);
        crash(f, LQ_IO_MEM_TEAR, seed);
        seen[!exists(f, "a") ? 0 : size_of(f, "a") == 3 ? 1 : 2]++;
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
    lq_io_mem_image_free(image);
}

static void test_io_mem_unsynced_directory_takes_its_files_with_it(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    lq_file file = io_create(f, "d/a");
    io_write(f, file, 0, "x", 1);
    sync_file(f, file);
    sync_dir(f, "d"); /* but not the root */

    crash(f, LQ_IO_MEM_LOSE, 0);
    assert_false(exists(f, "d"));

    io_mkdir(f, "d");
    file = io_create(f, "d/a");
    sync_dir(f, "");
    crash(f, LQ_IO_MEM_LOSE, 0);
    assert_true(exists(f, "d"));
    assert_false(exists(f, "d/a"));
}

static void test_io_mem_unsynced_rmdir_comes_back_with_its_files(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    f->io->ops->close(f->io, io_create(f, "d/a"));
    sync_dir(f, "d");
    sync_dir(f, "");
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "d/a", NULL), LIGHTQ_OK);
    assert_int_equal(f->io->ops->rmdir(f->io, "d", &f->err), LIGHTQ_OK);

    crash(f, LQ_IO_MEM_LOSE, 0);

    assert_true(exists(f, "d/a"));
}

static void test_io_mem_rename_between_directories_needs_both_synced(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    io_mkdir(f, "e");
    f->io->ops->close(f->io, io_create(f, "d/a"));
    sync_dir(f, "d");
    sync_dir(f, "");

    rename_to(f, "d/a", "e/a");
    sync_dir(f, "e");
    crash(f, LQ_IO_MEM_LOSE, 0);
    assert_true(exists(f, "d/a"));
    assert_false(exists(f, "e/a"));

    rename_to(f, "d/a", "e/a");
    sync_dir(f, "e");
    sync_dir(f, "d");
    crash(f, LQ_IO_MEM_LOSE, 0);
    assert_false(exists(f, "d/a"));
    assert_true(exists(f, "e/a"));
}

/* A later synced change of a name waits for the earlier one that is not: else it would show a state it never had. */
static void test_io_mem_synced_change_waits_for_the_earlier_of_its_name(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    io_mkdir(f, "e");
    f->io->ops->close(f->io, io_create(f, "d/a"));
    sync_dir(f, "d");
    sync_dir(f, "");
    rename_to(f, "d/a", "e/a"); /* d is not synced */
    rename_to(f, "e/a", "e/b");
    sync_dir(f, "e");

    crash(f, LQ_IO_MEM_LOSE, 0);

    assert_true(exists(f, "d/a"));
    assert_false(exists(f, "e/a"));
    assert_false(exists(f, "e/b"));
}

static void test_io_mem_directories_moved_into_one_another_are_never_lost(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "a");
    io_mkdir(f, "b");
    sync_dir(f, "");
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        rename_to(f, "b", "a/b");
        rename_to(f, "a/b", "b");
        rename_to(f, "a", "b/a"); /* kept without the second, a and b would hold each other */
        crash(f, LQ_IO_MEM_TEAR, seed);
        assert_true(exists(f, "a") || exists(f, "b"));
        assert_true((exists(f, "a") && exists(f, "b")) || exists(f, "a/b") || exists(f, "b/a"));
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }
    lq_io_mem_image_free(image);
}

/* ---- crash after n changes ---- */

/* Makes a file as careful code does. Stops at the first failure; gives the number of steps that said OK. */
static unsigned careful_write(struct io_fixture *f)
{
    lq_file file;
    if (f->io->ops->open(f->io, "a.tmp", LQ_OPEN_CREATE, &file, &f->err) != LIGHTQ_OK) {
        return 0;
    }
    struct iovec iov = {.iov_base = (void *)"content", .iov_len = 7};
    struct lq_io_op ops[] = {
        {.kind = LQ_IO_ALLOCATE, .file = file, .size = 7},
        {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1},
        {.kind = LQ_IO_SYNC, .file = file},
        {.kind = LQ_IO_RENAME, .path = "a.tmp", .path_to = "a"},
        {.kind = LQ_IO_SYNC_DIR, .path = ""},
    };
    unsigned done = 1;
    for (; done < 6 && f->io->ops->run(f->io, &ops[done - 1], &f->err) == LIGHTQ_OK; done++) {
    }
    f->io->ops->close(f->io, file);
    return done;
}

static void test_io_mem_crash_after_each_change_stops_exactly_there(void **state)
{
    struct io_fixture *f = *state;
    struct lq_io_mem_image *empty = lq_io_mem_copy(f->disk);
    assert_non_null(empty);
    assert_int_equal(careful_write(f), 6);
    assert_int_equal(lq_io_mem_changes(f->disk), 6);

    for (unsigned mode = LQ_IO_MEM_KEEP; mode <= LQ_IO_MEM_TEAR; mode++) {
        for (unsigned n = 1; n <= 7; n++) {
            assert_int_equal(lq_io_mem_restore(f->disk, empty), LIGHTQ_OK);
            lq_io_mem_crash_after(f->disk, n);
            assert_int_equal(careful_write(f), n - 1);
            assert_int_equal(lq_io_mem_crashed(f->disk), n <= 6);
            crash(f, (enum lq_io_mem_crash_mode)mode, n);
            assert_false(lq_io_mem_crashed(f->disk));
            if (exists(f, "a")) { /* renamed only after its sync: whole or not there */
                io_assert_content(f, "a", "content", 7);
                assert_true(n > 4 || mode == LQ_IO_MEM_TEAR);
            } else {
                assert_true(n < 7);
            }
        }
    }
    lq_io_mem_image_free(empty);
}

static void test_io_mem_everything_fails_once_crashed(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    lq_file file = io_create(f, "d/a");
    io_write(f, file, 0, "before", 6);
    lq_io_mem_crash_after(f->disk, 1);

    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_EIO);

    assert_true(lq_io_mem_crashed(f->disk));
    assert_non_null(strstr(f->err.text, "crashed"));
    lq_file other;
    struct lq_io_stat stat;
    uint64_t size, total;
    assert_int_equal(f->io->ops->open(f->io, "d/a", LQ_OPEN_READ, &other, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->open(f->io, "d/b", LQ_OPEN_CREATE, &other, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->stat(f->io, "d/a", &stat, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->size(f->io, file, &size, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->mkdir(f->io, "e", &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->rmdir(f->io, "d", &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->list(f->io, "", NULL, NULL, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->space(f->io, &size, &total, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_READ, file, 0, 0), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 0, 0), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "d/a", NULL), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "d", NULL), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "d/a", "d/b"), LIGHTQ_EIO);
    f->io->ops->close(f->io, file);
    assert_int_equal(lq_io_mem_count(f->disk, LQ_IO_SYNC), 1);
}

/* The change that the power cut falls into may be done, or half done, or not: each is seen. */
static void test_io_mem_crash_inside_a_write_leaves_any_part_of_it(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 4 * SECTOR);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    char fresh[4 * SECTOR];
    memset(fresh, 'n', sizeof fresh);
    struct iovec iov = {.iov_base = fresh, .iov_len = sizeof fresh};
    unsigned seen[16] = {0};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = reopen(f, "a"), .iov = &iov, .iov_count = 1};
        lq_io_mem_crash_after(f->disk, 1);
        assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_EIO);
        crash(f, seed == 0 ? LQ_IO_MEM_KEEP : LQ_IO_MEM_TEAR, seed);
        size_t size;
        uint8_t *bytes = content(f, "a", &size);
        unsigned bits = 0;
        for (unsigned i = 0; i < 4; i++) {
            bits |= (bytes[i * SECTOR] == 'n' ? 1u : 0) << i;
        }
        free(bytes);
        assert_true(seed > 0 || bits == 0); /* KEEP: of the change itself nothing */
        seen[bits]++;
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    unsigned kinds = 0;
    for (size_t i = 0; i < 16; i++) {
        kinds += seen[i] > 0;
    }
    assert_true(kinds > 8);
    assert_true(seen[0] > 0 && seen[15] > 0);
    lq_io_mem_image_free(image);
}

static void test_io_mem_crash_inside_a_rename_leaves_old_or_new(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 3);
    make_durable(f, "b", 'n', 3);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    unsigned renamed = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        lq_io_mem_crash_after(f->disk, 1);
        assert_int_equal(io_name_op(f, LQ_IO_RENAME, "b", "a"), LIGHTQ_EIO);
        crash(f, seed == 0 ? LQ_IO_MEM_KEEP : LQ_IO_MEM_TEAR, seed);
        assert_true(seed > 0 || exists(f, "b")); /* KEEP: of the change itself nothing */
        if (exists(f, "b")) {
            io_assert_content(f, "a", "ooo", 3);
        } else {
            io_assert_content(f, "a", "nnn", 3);
            renamed++;
        }
        assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);
    }

    assert_true(renamed > 0 && renamed < SEEDS);
    lq_io_mem_image_free(image);
}

static void test_io_mem_order_to_crash_can_be_taken_back(void **state)
{
    struct io_fixture *f = *state;
    lq_io_mem_crash_after(f->disk, 2);
    io_mkdir(f, "d");
    lq_io_mem_crash_after(f->disk, 0);

    io_mkdir(f, "e");

    assert_false(lq_io_mem_crashed(f->disk));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mem_setup, mem_teardown)
    const struct CMUnitTest tests[] = {
        IO_CONTRACT_TESTS(TEST),
        TEST(test_io_mem_unsynced_write_is_kept_or_lost_as_told),
        TEST(test_io_mem_synced_write_survives_every_cut),
        TEST(test_io_mem_durable_has_what_a_cut_surely_leaves),
        TEST(test_io_mem_torn_write_is_old_or_new_by_sector),
        TEST(test_io_mem_torn_sector_shows_any_version_it_had),
        TEST(test_io_mem_torn_append_may_leave_zeros_in_a_longer_file),
        TEST(test_io_mem_equal_seeds_tear_equally),
        TEST(test_io_mem_torn_truncation_is_done_or_undone_as_a_whole),
        TEST(test_io_mem_allocation_is_durable_after_sync_only),
        TEST(test_io_mem_synced_file_without_synced_directory_may_vanish),
        TEST(test_io_mem_synced_name_may_hold_an_empty_file),
        TEST(test_io_mem_unsynced_names_come_and_go_by_chance),
        TEST(test_io_mem_unsynced_rename_is_old_or_new_never_neither),
        TEST(test_io_mem_synced_rename_survives_every_cut),
        TEST(test_io_mem_changes_of_one_name_stay_in_order),
        TEST(test_io_mem_unsynced_directory_takes_its_files_with_it),
        TEST(test_io_mem_unsynced_rmdir_comes_back_with_its_files),
        TEST(test_io_mem_rename_between_directories_needs_both_synced),
        TEST(test_io_mem_synced_change_waits_for_the_earlier_of_its_name),
        TEST(test_io_mem_directories_moved_into_one_another_are_never_lost),
        TEST(test_io_mem_crash_after_each_change_stops_exactly_there),
        TEST(test_io_mem_everything_fails_once_crashed),
        TEST(test_io_mem_crash_inside_a_write_leaves_any_part_of_it),
        TEST(test_io_mem_crash_inside_a_rename_leaves_old_or_new),
        TEST(test_io_mem_order_to_crash_can_be_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
