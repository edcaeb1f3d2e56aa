/* tests/unit/storage/test_io_mem.c - the disk in memory: the contract of storage/io.h, and each sentence of
 * storage/io_mem.h about power cuts, faults and tampering. */
#include "io_contract.h"
#include "storage/io_mem.h"

#define SEEDS   200
#define SECTOR  512
#define PAGE    4096
#define SECTORS 16

static void settle(struct io_fixture *f)
{
    lq_io_mem_run_all(f->disk);
    assert_int_equal(lq_io_mem_pending(f->disk), 0);
}

static int setup(void **state)
{
    struct io_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    struct lq_io_mem *mem = lq_io_mem_new();
    assert_non_null(mem);
    f->disk = mem;
    f->io = lq_io_mem_io(mem);
    f->settle = settle;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct io_fixture *f = *state;
    assert_int_equal(lq_io_mem_open_files(f->disk), 0);
    lq_io_mem_free(f->disk);
    free(f);
    return 0;
}

static void crash(struct io_fixture *f, enum lq_io_mem_crash_mode mode, uint64_t seed)
{
    assert_int_equal(lq_io_mem_crash(f->disk, mode, seed), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_open_files(f->disk), 0);
}

static void sync_file(struct io_fixture *f, lq_file file)
{
    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_OK);
}

static void sync_dir(struct io_fixture *f, const char *path)
{
    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, path, NULL), LIGHTQ_OK);
}

static void rename_to(struct io_fixture *f, const char *from, const char *to)
{
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, from, to), LIGHTQ_OK);
}

static bool exists(struct io_fixture *f, const char *path)
{
    return lq_io_mem_exists(f->disk, path);
}

static lq_file reopen(struct io_fixture *f, const char *path)
{
    lq_file file = LQ_FILE_NONE;
    assert_int_equal(f->io->ops->open(f->io, path, LQ_OPEN_WRITE, &file, &f->err), LIGHTQ_OK);
    return file;
}

/* A durable file of @size bytes, each @byte. Closed. */
static void make_durable(struct io_fixture *f, const char *path, char byte, size_t size)
{
    lq_file file = io_create(f, path);
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memset(bytes, byte, size);
    io_write(f, file, 0, bytes, size);
    free(bytes);
    sync_file(f, file);
    sync_dir(f, "");
    f->io->ops->close(f->io, file);
}

/* The file's content; the caller frees it. */
static uint8_t *content(struct io_fixture *f, const char *path, size_t *size)
{
    uint8_t *bytes = NULL;
    assert_int_equal(lq_io_mem_read_file(f->disk, path, &bytes, size), LIGHTQ_OK);
    return bytes;
}

static uint64_t size_of(struct io_fixture *f, const char *path)
{
    struct lq_io_stat stat;
    assert_int_equal(f->io->ops->stat(f->io, path, &stat, &f->err), LIGHTQ_OK);
    return stat.size;
}

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

/* ---- jobs ---- */

struct job {
    struct lq_io_job job;
    unsigned called;
    lightq_status status;
};

static void on_job(struct lq_io_job *lq_job, lightq_status status)
{
    struct job *job = lq_job->data;
    job->called++;
    job->status = status;
}

static void submit(struct io_fixture *f, struct job *job, struct lq_io_op *ops, unsigned count)
{
    *job = (struct job){.job = {.ops = ops, .count = count, .cb = on_job, .data = job}};
    assert_int_equal(f->io->ops->submit(f->io, &job->job), LIGHTQ_OK);
}

static void test_io_mem_job_takes_a_step_for_each_op_and_one_for_its_callback(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct lq_io_op ops[] = {{.kind = LQ_IO_TRUNCATE, .file = file, .offset = 1},
                             {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 2}};
    struct job job;
    submit(f, &job, ops, 2);
    assert_ptr_equal(lq_io_mem_job_at(f->disk, 0), &job.job);
    assert_null(lq_io_mem_job_at(f->disk, 1));

    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_MORE);
    assert_int_equal(size_of(f, "a"), 1);
    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_MORE);
    assert_int_equal(size_of(f, "a"), 2);
    assert_int_equal(job.called, 0);
    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_DONE);
    assert_int_equal(job.called, 1);
    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_UNKNOWN);
    assert_false(lq_io_mem_run_one(f->disk));
    f->io->ops->close(f->io, file);
}

static void test_io_mem_jobs_can_be_stepped_side_by_side(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct lq_io_op ops[2][2] = {
        {{.kind = LQ_IO_TRUNCATE, .file = file, .offset = 10}, {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 11}},
        {{.kind = LQ_IO_TRUNCATE, .file = file, .offset = 20}, {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 21}}};
    struct job first, second;
    submit(f, &first, ops[0], 2);
    submit(f, &second, ops[1], 2);

    assert_int_equal(lq_io_mem_step_job(f->disk, &first.job), LQ_IO_MEM_MORE);
    assert_int_equal(lq_io_mem_step_job(f->disk, &second.job), LQ_IO_MEM_MORE);
    assert_int_equal(size_of(f, "a"), 20);
    assert_int_equal(lq_io_mem_step_job(f->disk, &first.job), LQ_IO_MEM_MORE);
    assert_int_equal(size_of(f, "a"), 11);
    assert_int_equal(lq_io_mem_run_all(f->disk), 2);
    assert_int_equal(size_of(f, "a"), 21);
    f->io->ops->close(f->io, file);
}

static void test_io_mem_crash_between_ops_of_a_job_drops_it_without_callback(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 3);
    lq_file file = reopen(f, "a");
    struct lq_io_op ops[] = {{.kind = LQ_IO_TRUNCATE, .file = file, .offset = 1},
                             {.kind = LQ_IO_SYNC, .file = file},
                             {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 0}};
    struct job job;
    submit(f, &job, ops, 3);
    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_MORE);
    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_MORE);

    crash(f, LQ_IO_MEM_LOSE, 0);

    assert_int_equal(job.called, 0);
    assert_int_equal(lq_io_mem_pending(f->disk), 0);
    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_UNKNOWN);
    io_assert_content(f, "a", "o", 1);
    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_EIO); /* the old handle means nothing */
}

static void test_io_mem_job_of_a_crashed_disk_is_told_EIO(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct lq_io_op ops[] = {{.kind = LQ_IO_TRUNCATE, .file = file, .offset = 1}, {.kind = LQ_IO_SYNC, .file = file}};
    struct job job;
    submit(f, &job, ops, 2);
    lq_io_mem_crash_after(f->disk, 2);

    settle(f);

    assert_int_equal(job.called, 1);
    assert_int_equal(job.status, LIGHTQ_EIO);
    assert_int_equal(job.job.failed, 1);
    assert_true(lq_io_mem_crashed(f->disk));
    crash(f, LQ_IO_MEM_LOSE, 0);
}

static void test_io_mem_stalled_disk_makes_no_step(void **state)
{
    struct io_fixture *f = *state;
    struct lq_io_op op = {.kind = LQ_IO_SYNC_DIR, .path = ""};
    struct job job;
    submit(f, &job, &op, 1);
    lq_io_mem_set_stalled(f->disk, true);

    assert_int_equal(lq_io_mem_step_job(f->disk, &job.job), LQ_IO_MEM_STALLED);
    assert_false(lq_io_mem_run_one(f->disk));
    assert_int_equal(lq_io_mem_run_all(f->disk), 0);
    assert_int_equal(job.called, 0);
    lq_io_mem_set_stalled(f->disk, false);
    assert_true(lq_io_mem_run_one(f->disk));
    assert_int_equal(job.called, 1);
}

static void on_submitted(void *data, struct lq_io_job *job)
{
    struct lq_io_job **last = data;
    *last = job;
}

static void test_io_mem_submission_is_told_to_the_simulator(void **state)
{
    struct io_fixture *f = *state;
    struct lq_io_job *last = NULL;
    lq_io_mem_set_submitted(f->disk, on_submitted, &last);
    struct lq_io_op op = {.kind = LQ_IO_SYNC_DIR, .path = ""};
    struct job job;

    submit(f, &job, &op, 1);
    assert_ptr_equal(last, &job.job);

    lq_io_mem_set_submitted(f->disk, NULL, NULL);
    settle(f);
}

static void test_io_mem_too_many_jobs_are_EBUSY(void **state)
{
    struct io_fixture *f = *state;
    struct job *jobs = calloc(LQ_IO_MEM_JOBS_MAX + 1, sizeof *jobs);
    assert_non_null(jobs);
    for (unsigned i = 0; i <= LQ_IO_MEM_JOBS_MAX; i++) {
        jobs[i].job = (struct lq_io_job){.cb = on_job, .data = &jobs[i]};
        assert_int_equal(f->io->ops->submit(f->io, &jobs[i].job), i < LQ_IO_MEM_JOBS_MAX ? LIGHTQ_OK : LIGHTQ_EBUSY);
    }
    crash(f, LQ_IO_MEM_LOSE, 0);
    free(jobs);
}

/* ---- faults ---- */

static void fault(struct io_fixture *f, struct lq_io_mem_fault plan)
{
    assert_int_equal(lq_io_mem_add_fault(f->disk, &plan), LIGHTQ_OK);
}

static void test_io_mem_fault_hits_the_nth_op_that_matches(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    lq_file match = io_create(f, "d/0001.log");
    lq_file other = io_create(f, "d/0001.idx");
    fault(f, (struct lq_io_mem_fault){
                 .verb = LQ_IO_TRUNCATE, .pattern = "*.log", .nth = 2, .times = 2, .status = LIGHTQ_ENOSPC});

    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, match, 1, 0), LIGHTQ_OK);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, other, 1, 0), LIGHTQ_OK);
    assert_int_equal(io_op(f, LQ_IO_SYNC, match, 0, 0), LIGHTQ_OK);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, match, 2, 0), LIGHTQ_ENOSPC);
    assert_non_null(strstr(f->err.text, "d/0001.log"));
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, other, 2, 0), LIGHTQ_OK);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, match, 3, 0), LIGHTQ_ENOSPC);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, match, 4, 0), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_faults_hit(f->disk), 2);
    assert_int_equal(size_of(f, "d/0001.log"), 4);
    f->io->ops->close(f->io, match);
    f->io->ops->close(f->io, other);
}

static void test_io_mem_fault_of_any_verb_lasts_until_cleared(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    fault(f, (struct lq_io_mem_fault){.verb = LQ_IO_MEM_VERBS, .status = LIGHTQ_EIO});
    lq_file other;
    struct lq_io_stat stat;
    uint64_t size, total;

    assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_READ, &other, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->open(f->io, "b", LQ_OPEN_CREATE, &other, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->stat(f->io, "a", &stat, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->size(f->io, file, &size, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->mkdir(f->io, "d", &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->rmdir(f->io, "d", &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->list(f->io, "", NULL, NULL, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->space(f->io, &size, &total, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 10), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_READ, file, 0, 0), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "a", "b"), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "a", NULL), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "", NULL), LIGHTQ_EIO);

    lq_io_mem_clear_faults(f->disk);
    io_assert_content(f, "a", "", 0); /* nothing has happened */
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
    f->io->ops->close(f->io, file);
}

static void test_io_mem_failed_write_has_written_nothing_or_half(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct iovec iov = {.iov_base = (void *)"12345678", .iov_len = 8};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};

    fault(f, (struct lq_io_mem_fault){.verb = LQ_IO_WRITE, .times = 1, .status = LIGHTQ_EIO});
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_EIO);
    io_assert_content(f, "a", "", 0);

    fault(f, (struct lq_io_mem_fault){.verb = LQ_IO_WRITE, .times = 1, .status = LIGHTQ_ENOSPC, .partial = true});
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_ENOSPC);
    io_assert_content(f, "a", "1234", 4);

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);
    io_assert_content(f, "a", "12345678", 8);
    f->io->ops->close(f->io, file);
}

/* As measured on ext4: after a failed fsync the data is marked clean, the next fsync says OK, and it is not on disk. */
static void test_io_mem_failed_sync_loses_its_data_though_later_syncs_say_OK(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 3);
    lq_file file = reopen(f, "a");
    io_write(f, file, 3, "lost", 4);
    fault(f, (struct lq_io_mem_fault){.verb = LQ_IO_SYNC, .times = 1, .status = LIGHTQ_EIO});
    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_EIO);

    io_assert_content(f, "a", "ooolost", 7); /* reads still show it */
    sync_file(f, file);
    io_write(f, file, 7, "later", 5);
    sync_file(f, file);
    io_assert_content(f, "a", "ooolostlater", 12);

    crash(f, LQ_IO_MEM_KEEP, 0);
    io_assert_content(f, "a", "ooo\0\0\0\0later", 12);
}

static void test_io_mem_too_many_faults_are_ELIMIT(void **state)
{
    struct io_fixture *f = *state;
    struct lq_io_mem_fault plan = {.verb = LQ_IO_SYNC, .pattern = "x", .status = LIGHTQ_EIO};
    for (unsigned i = 0; i < LQ_IO_MEM_FAULTS_MAX; i++) {
        fault(f, plan);
    }

    assert_int_equal(lq_io_mem_add_fault(f->disk, &plan), LIGHTQ_ELIMIT);
    lq_io_mem_clear_faults(f->disk);
    fault(f, plan);
}

/* ---- space ---- */

static void test_io_mem_full_disk_is_ENOSPC_after_what_fitted(void **state)
{
    struct io_fixture *f = *state;
    lq_io_mem_set_capacity(f->disk, 3 * PAGE);
    make_durable(f, "a", 'a', PAGE + 1); /* two pages */
    lq_file file = io_create(f, "b");
    char bytes[2 * PAGE];
    memset(bytes, 'b', sizeof bytes);
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_ENOSPC);
    io_assert_content(f, "b", bytes, PAGE);
    uint64_t free_bytes, total_bytes;
    assert_int_equal(f->io->ops->space(f->io, &free_bytes, &total_bytes, &f->err), LIGHTQ_OK);
    assert_int_equal(free_bytes, 0);
    assert_int_equal(total_bytes, 3 * PAGE);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 2 * PAGE), LIGHTQ_ENOSPC);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 2 * PAGE, 0), LIGHTQ_ENOSPC);
    op.offset = 10;
    iov.iov_len = 100;
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK); /* inside what it has */

    lq_file held = reopen(f, "a");
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "a", NULL), LIGHTQ_OK);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 2 * PAGE), LIGHTQ_ENOSPC); /* a handle keeps its blocks */
    f->io->ops->close(f->io, held);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 3 * PAGE), LIGHTQ_OK);
    f->io->ops->close(f->io, file);
}

/* ---- tampering ---- */

static void test_io_mem_flip_changes_one_bit_for_good(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 0, PAGE + 10);

    assert_int_equal(lq_io_mem_flip(f->disk, "a", PAGE + 2, 3), LIGHTQ_OK);
    crash(f, LQ_IO_MEM_LOSE, 0);

    uint8_t expected[PAGE + 10] = {0};
    expected[PAGE + 2] = 8;
    io_assert_content(f, "a", expected, sizeof expected);
    assert_int_equal(lq_io_mem_flip(f->disk, "a", PAGE + 10, 0), LIGHTQ_EOUTOFRANGE);
    assert_int_equal(lq_io_mem_flip(f->disk, "missing", 0, 0), LIGHTQ_ENOTFOUND);
    io_mkdir(f, "d");
    assert_int_equal(lq_io_mem_flip(f->disk, "d", 0, 0), LIGHTQ_ENOTFOUND);
}

static void test_io_mem_overwrite_and_cut_change_a_file_for_good(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 10);

    assert_int_equal(lq_io_mem_overwrite(f->disk, "a", 8, "XY", 2), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_overwrite(f->disk, "a", 9, "XY", 2), LIGHTQ_EOUTOFRANGE);
    assert_int_equal(lq_io_mem_overwrite(f->disk, "b", 9, "XY", 2), LIGHTQ_ENOTFOUND);
    crash(f, LQ_IO_MEM_LOSE, 0);
    io_assert_content(f, "a", "ooooooooXY", 10);

    assert_int_equal(lq_io_mem_cut_file(f->disk, "a", 4), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_cut_file(f->disk, "a", 5), LIGHTQ_EOUTOFRANGE);
    assert_int_equal(lq_io_mem_cut_file(f->disk, "b", 5), LIGHTQ_ENOTFOUND);
    crash(f, LQ_IO_MEM_LOSE, 0);
    io_assert_content(f, "a", "oooo", 4);
}

static void test_io_mem_remove_takes_files_and_whole_directories(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", 'o', 10);
    io_mkdir(f, "d");
    io_mkdir(f, "d/e");
    f->io->ops->close(f->io, io_create(f, "d/e/x"));
    f->io->ops->close(f->io, io_create(f, "d/y"));

    assert_int_equal(lq_io_mem_remove(f->disk, "d"), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_remove(f->disk, "d"), LIGHTQ_ENOTFOUND);
    crash(f, LQ_IO_MEM_TEAR, 1);
    assert_false(exists(f, "d"));
    assert_true(exists(f, "a"));

    assert_int_equal(lq_io_mem_remove(f->disk, ""), LIGHTQ_OK);
    crash(f, LQ_IO_MEM_TEAR, 1);
    assert_false(exists(f, "a"));
}

/* ---- whole disks ---- */

static void test_io_mem_restored_copy_is_an_old_disk(void **state)
{
    struct io_fixture *f = *state;
    make_durable(f, "a", '1', 3);
    io_mkdir(f, "d");
    make_durable(f, "d/x", 'x', 5000);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->disk);
    assert_non_null(image);
    lq_file file = reopen(f, "a");
    io_write(f, file, 0, "222", 3);
    sync_file(f, file);
    assert_int_equal(lq_io_mem_remove(f->disk, "d"), LIGHTQ_OK);
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);

    assert_int_equal(lq_io_mem_restore(f->disk, image), LIGHTQ_OK);

    io_assert_content(f, "a", "111", 3);
    assert_int_equal(size_of(f, "d/x"), 5000);
    assert_int_equal(lq_io_mem_open_files(f->disk), 0);
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
    io_write(f, reopen(f, "a"), 0, "333", 3);
    crash(f, LQ_IO_MEM_LOSE, 0);
    io_assert_content(f, "a", "111", 3); /* all of it durable */

    struct lq_io_mem *other = lq_io_mem_new();
    assert_non_null(other);
    assert_int_equal(lq_io_mem_restore(other, image), LIGHTQ_OK);
    lq_io_mem_image_free(image);
    uint64_t used, free_bytes;
    assert_int_equal(lq_io_mem_io(other)->ops->space(lq_io_mem_io(other), &free_bytes, &used, &f->err), LIGHTQ_OK);
    assert_int_equal(used - free_bytes, 3 * PAGE);
    assert_true(lq_io_mem_exists(other, "d/x"));
    lq_io_mem_free(other);
}

static void test_io_mem_crash_lets_the_lock_go(void **state)
{
    struct io_fixture *f = *state;
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);

    crash(f, LQ_IO_MEM_KEEP, 0);

    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
}

/* ---- looking ---- */

static char *printed(struct lq_io_mem *mem, void (*print)(struct lq_io_mem *mem, FILE *to))
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    print(mem, to);
    fclose(to);
    return text;
}

static void print_trace(struct lq_io_mem *mem, FILE *to)
{
    lq_io_mem_trace(mem, to);
}

static void test_io_mem_dump_and_trace_tell_what_is_not_durable(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 7, "x", 1);
    struct lq_io_op op = {.kind = LQ_IO_SYNC, .file = file};
    struct job job;
    submit(f, &job, &op, 1);

    char *dump = printed(f->disk, lq_io_mem_dump);
    char *trace = printed(f->disk, print_trace);

    assert_non_null(strstr(dump, "file a: 8 bytes, durable 0"));
    assert_non_null(strstr(dump, "not durable: write at 7"));
    assert_non_null(strstr(dump, "create"));
    assert_non_null(strstr(dump, "open: a"));
    assert_non_null(strstr(dump, "job 0: at op 0 of 1"));
    assert_non_null(strstr(trace, "change 1: create a"));
    assert_non_null(strstr(trace, "change 2: write a offset 7 size 1: OK"));
    free(dump);
    free(trace);
    settle(f);
    f->io->ops->close(f->io, file);
}

static void test_io_mem_trace_keeps_the_last_ops_only(void **state)
{
    struct io_fixture *f = *state;
    for (unsigned i = 0; i < LQ_IO_MEM_TRACE_MAX + 10; i++) {
        assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "", NULL), LIGHTQ_OK);
    }

    char *trace = printed(f->disk, print_trace);

    unsigned lines = 0;
    for (const char *at = trace; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, LQ_IO_MEM_TRACE_MAX);
    assert_int_equal(strncmp(trace, "change 11:", 10), 0);
    assert_int_equal(lq_io_mem_count(f->disk, LQ_IO_SYNC_DIR), LQ_IO_MEM_TRACE_MAX + 10);
    free(trace);
}

static void test_io_mem_too_many_open_files_are_ELIMIT(void **state)
{
    struct io_fixture *f = *state;
    f->io->ops->close(f->io, io_create(f, "a"));
    lq_file file;
    for (unsigned i = 0; i < LQ_IO_MEM_FILES_MAX; i++) {
        assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_READ, &file, &f->err), LIGHTQ_OK);
    }

    assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_READ, &file, &f->err), LIGHTQ_ELIMIT);
    crash(f, LQ_IO_MEM_LOSE, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        IO_CONTRACT_TESTS(TEST),
        TEST(test_io_mem_unsynced_write_is_kept_or_lost_as_told),
        TEST(test_io_mem_synced_write_survives_every_cut),
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
        TEST(test_io_mem_job_takes_a_step_for_each_op_and_one_for_its_callback),
        TEST(test_io_mem_jobs_can_be_stepped_side_by_side),
        TEST(test_io_mem_crash_between_ops_of_a_job_drops_it_without_callback),
        TEST(test_io_mem_job_of_a_crashed_disk_is_told_EIO),
        TEST(test_io_mem_stalled_disk_makes_no_step),
        TEST(test_io_mem_submission_is_told_to_the_simulator),
        TEST(test_io_mem_too_many_jobs_are_EBUSY),
        TEST(test_io_mem_fault_hits_the_nth_op_that_matches),
        TEST(test_io_mem_fault_of_any_verb_lasts_until_cleared),
        TEST(test_io_mem_failed_write_has_written_nothing_or_half),
        TEST(test_io_mem_failed_sync_loses_its_data_though_later_syncs_say_OK),
        TEST(test_io_mem_too_many_faults_are_ELIMIT),
        TEST(test_io_mem_full_disk_is_ENOSPC_after_what_fitted),
        TEST(test_io_mem_flip_changes_one_bit_for_good),
        TEST(test_io_mem_overwrite_and_cut_change_a_file_for_good),
        TEST(test_io_mem_remove_takes_files_and_whole_directories),
        TEST(test_io_mem_restored_copy_is_an_old_disk),
        TEST(test_io_mem_crash_lets_the_lock_go),
        TEST(test_io_mem_dump_and_trace_tell_what_is_not_durable),
        TEST(test_io_mem_trace_keeps_the_last_ops_only),
        TEST(test_io_mem_too_many_open_files_are_ELIMIT),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
