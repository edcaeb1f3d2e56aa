/* tests/unit/storage/io_contract.c - see io_contract.h. */
#include "io_contract.h"

#define MANY_IOVECS 3000 /* more than IOV_MAX */
#define ROOM        (64 * 1024)

/* ---- shorthands ---- */

lq_file io_create(struct io_fixture *f, const char *path)
{
    lq_file file = LQ_FILE_NONE;
    assert_int_equal(f->io->ops->open(f->io, path, LQ_OPEN_CREATE, &file, &f->err), LIGHTQ_OK);
    assert_true(file >= 0);
    return file;
}

static lq_file io_open(struct io_fixture *f, const char *path, enum lq_open_mode mode)
{
    lq_file file = LQ_FILE_NONE;
    assert_int_equal(f->io->ops->open(f->io, path, mode, &file, &f->err), LIGHTQ_OK);
    return file;
}

void io_write(struct io_fixture *f, lq_file file, uint64_t offset, const void *bytes, size_t size)
{
    struct iovec iov = {.iov_base = (void *)bytes, .iov_len = size};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .offset = offset, .iov = &iov, .iov_count = 1};
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);
}

static size_t io_read(struct io_fixture *f, lq_file file, uint64_t offset, void *bytes, size_t size)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct lq_io_op op = {.kind = LQ_IO_READ, .file = file, .offset = offset, .iov = &iov, .iov_count = 1};
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);
    return op.result;
}

void io_assert_content(struct io_fixture *f, const char *path, const void *bytes, size_t size)
{
    uint8_t found[ROOM];
    assert_true(size < sizeof found);
    lq_file file = io_open(f, path, LQ_OPEN_READ);
    size_t got = io_read(f, file, 0, found, sizeof found);
    f->io->ops->close(f->io, file);
    assert_int_equal(got, size);
    assert_memory_equal(found, bytes, size);
}

lightq_status io_op(struct io_fixture *f, enum lq_io_kind kind, lq_file file, uint64_t offset, uint64_t size)
{
    struct lq_io_op op = {.kind = kind, .file = file, .offset = offset, .size = size};
    return f->io->ops->run(f->io, &op, &f->err);
}

lightq_status io_name_op(struct io_fixture *f, enum lq_io_kind kind, const char *path, const char *path_to)
{
    struct lq_io_op op = {.kind = kind, .path = path, .path_to = path_to};
    return f->io->ops->run(f->io, &op, &f->err);
}

void io_mkdir(struct io_fixture *f, const char *path)
{
    assert_int_equal(f->io->ops->mkdir(f->io, path, &f->err), LIGHTQ_OK);
}

static void assert_exists(struct io_fixture *f, const char *path, bool exists)
{
    struct lq_io_stat stat;
    assert_int_equal(f->io->ops->stat(f->io, path, &stat, &f->err), exists ? LIGHTQ_OK : LIGHTQ_ENOTFOUND);
}

/* A failure's sentence is there and names @word. */
static void assert_told(const struct io_fixture *f, lightq_status status, const char *word)
{
    assert_int_equal(f->err.status, status);
    assert_non_null(strstr(f->err.text, word));
}

/* ---- open ---- */

void test_io_created_file_is_empty_and_found(void **state)
{
    struct io_fixture *f = *state;

    lq_file file = io_create(f, "a");

    struct lq_io_stat stat;
    assert_int_equal(f->io->ops->stat(f->io, "a", &stat, &f->err), LIGHTQ_OK);
    assert_false(stat.is_dir);
    assert_int_equal(stat.size, 0);
    uint64_t size = 1;
    assert_int_equal(f->io->ops->size(f->io, file, &size, &f->err), LIGHTQ_OK);
    assert_int_equal(size, 0);
    f->io->ops->close(f->io, file);
}

void test_io_create_of_existing_file_is_EEXISTS(void **state)
{
    struct io_fixture *f = *state;
    f->io->ops->close(f->io, io_create(f, "a"));
    lq_file file = 77;

    assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_CREATE, &file, &f->err), LIGHTQ_EEXISTS);

    assert_told(f, LIGHTQ_EEXISTS, "a");
    assert_int_equal(file, 77);
}

void test_io_open_of_missing_file_is_ENOTFOUND(void **state)
{
    struct io_fixture *f = *state;
    lq_file file;

    assert_int_equal(f->io->ops->open(f->io, "missing", LQ_OPEN_READ, &file, &f->err), LIGHTQ_ENOTFOUND);
    assert_told(f, LIGHTQ_ENOTFOUND, "missing");
    assert_int_equal(f->io->ops->open(f->io, "missing", LQ_OPEN_WRITE, &file, &f->err), LIGHTQ_ENOTFOUND);
    assert_exists(f, "missing", false);
}

void test_io_create_in_missing_directory_is_ENOTFOUND(void **state)
{
    struct io_fixture *f = *state;
    lq_file file;

    assert_int_equal(f->io->ops->open(f->io, "d/a", LQ_OPEN_CREATE, &file, &f->err), LIGHTQ_ENOTFOUND);
}

void test_io_open_of_directory_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    lq_file file;

    assert_int_equal(f->io->ops->open(f->io, "d", LQ_OPEN_READ, &file, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->open(f->io, "d", LQ_OPEN_WRITE, &file, &f->err), LIGHTQ_EIO);
}

void test_io_bad_paths_are_EINVAL(void **state)
{
    struct io_fixture *f = *state;
    char long_name[300];
    char long_path[1200];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    for (size_t i = 0; i < sizeof long_path - 1; i++) {
        long_path[i] = i % 100 == 99 ? '/' : 'p';
    }
    long_path[sizeof long_path - 1] = '\0';
    const char *bad[] = {"/etc/passwd", "..", "../a", "d/../a", ".", "./a", "d//a", "d/", long_name, long_path};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lq_file file;
        struct lq_io_stat stat;
        assert_int_equal(f->io->ops->open(f->io, bad[i], LQ_OPEN_CREATE, &file, &f->err), LIGHTQ_EINVAL);
        assert_int_equal(f->io->ops->stat(f->io, bad[i], &stat, &f->err), LIGHTQ_EINVAL);
        assert_int_equal(f->io->ops->mkdir(f->io, bad[i], &f->err), LIGHTQ_EINVAL);
        assert_int_equal(f->io->ops->rmdir(f->io, bad[i], &f->err), LIGHTQ_EINVAL);
        assert_int_equal(f->io->ops->list(f->io, bad[i], NULL, NULL, &f->err), LIGHTQ_EINVAL);
        assert_int_equal(io_name_op(f, LQ_IO_RENAME, bad[i], "b"), LIGHTQ_EINVAL);
        assert_int_equal(io_name_op(f, LQ_IO_RENAME, "b", bad[i]), LIGHTQ_EINVAL);
        assert_int_equal(io_name_op(f, LQ_IO_UNLINK, bad[i], NULL), LIGHTQ_EINVAL);
        assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, bad[i], NULL), LIGHTQ_EINVAL);
    }
    lq_file file;
    assert_int_equal(f->io->ops->open(f->io, "", LQ_OPEN_READ, &file, &f->err), LIGHTQ_EINVAL);
    assert_int_equal(f->io->ops->open(f->io, NULL, LQ_OPEN_READ, &file, &f->err), LIGHTQ_EINVAL);
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "", NULL), LIGHTQ_EINVAL);
}

/* ---- bytes ---- */

void test_io_written_bytes_are_read(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "hello", 5);
    io_write(f, file, 3, "LOW", 3);

    io_assert_content(f, "a", "helLOW", 6);

    char back[3];
    assert_int_equal(io_read(f, file, 2, back, sizeof back), 3);
    assert_memory_equal(back, "lLO", 3);
    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_OK);
    f->io->ops->close(f->io, file);
}

void test_io_write_beyond_end_leaves_zeros_between(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 9000, "x", 1);
    uint8_t expected[9001] = {0};
    expected[9000] = 'x';

    io_assert_content(f, "a", expected, sizeof expected);
    f->io->ops->close(f->io, file);
}

void test_io_many_iovecs_are_written_and_read(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct iovec *iov = calloc(MANY_IOVECS, sizeof *iov);
    uint8_t *bytes = malloc((size_t)MANY_IOVECS * 7);
    uint8_t *back = calloc(MANY_IOVECS, 7);
    assert_true(iov != NULL && bytes != NULL && back != NULL);
    size_t size = 0;
    for (size_t i = 0; i < MANY_IOVECS; i++) { /* of 0 to 6 bytes */
        iov[i] = (struct iovec){.iov_base = bytes + size, .iov_len = i % 7};
        memset(bytes + size, (int)(i % 251), i % 7);
        size += i % 7;
    }
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .offset = 5, .iov = iov, .iov_count = MANY_IOVECS};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);

    assert_int_equal(io_read(f, file, 5, back, (size_t)MANY_IOVECS * 7), size);
    assert_memory_equal(back, bytes, size);
    memset(bytes, 0, size);
    op.kind = LQ_IO_READ;
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);
    assert_int_equal(op.result, size);
    assert_memory_equal(back, bytes, size);
    f->io->ops->close(f->io, file);
    free(iov);
    free(bytes);
    free(back);
}

void test_io_empty_write_changes_nothing(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct iovec iov = {.iov_base = NULL, .iov_len = 0};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .offset = 10, .iov = &iov, .iov_count = 1};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);
    op.iov_count = 0;
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);

    io_assert_content(f, "a", "", 0);
    f->io->ops->close(f->io, file);
}

void test_io_read_stops_at_end(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "0123456789", 10);
    char back[8] = "........";

    assert_int_equal(io_read(f, file, 7, back, sizeof back), 3);
    assert_memory_equal(back, "789.....", 8);
    assert_int_equal(io_read(f, file, 10, back, sizeof back), 0);
    assert_int_equal(io_read(f, file, 1000000, back, sizeof back), 0);
    f->io->ops->close(f->io, file);
}

void test_io_write_to_read_handle_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    f->io->ops->close(f->io, io_create(f, "a"));
    lq_file file = io_open(f, "a", LQ_OPEN_READ);
    struct iovec iov = {.iov_base = (void *)"x", .iov_len = 1};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_EIO);
    assert_told(f, LIGHTQ_EIO, "reading only");
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 0, 0), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 10), LIGHTQ_EIO);
    io_assert_content(f, "a", "", 0);
    f->io->ops->close(f->io, file);
}

void test_io_closed_handle_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    f->io->ops->close(f->io, file);
    f->io->ops->close(f->io, file);         /* harmless */
    f->io->ops->close(f->io, LQ_FILE_NONE); /* harmless */

    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_EIO);
    assert_told(f, LIGHTQ_EIO, "not open");
    assert_int_equal(io_op(f, LQ_IO_CLOSE, file, 0, 0), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_SYNC, LQ_FILE_NONE, 0, 0), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_SYNC, INT32_MAX, 0, 0), LIGHTQ_EIO);
    uint64_t size;
    assert_int_equal(f->io->ops->size(f->io, file, &size, &f->err), LIGHTQ_EIO);
}

void test_io_stale_handle_is_not_the_new_file(void **state)
{
    struct io_fixture *f = *state;
    lq_file stale = io_create(f, "a");
    f->io->ops->close(f->io, stale);
    lq_file fresh = io_create(f, "b");

    assert_int_not_equal(stale, fresh);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, stale, 100, 0), LIGHTQ_EIO);
    io_assert_content(f, "b", "", 0);
    f->io->ops->close(f->io, stale);
    assert_int_equal(io_op(f, LQ_IO_SYNC, fresh, 0, 0), LIGHTQ_OK);
    f->io->ops->close(f->io, fresh);
}

void test_io_huge_offset_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct iovec iov = {.iov_base = (void *)"x", .iov_len = 1};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .offset = UINT64_MAX - 10, .iov = &iov, .iov_count = 1};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, UINT64_MAX, 0), LIGHTQ_EIO);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, UINT64_MAX - 10, 100), LIGHTQ_EIO);
    io_assert_content(f, "a", "", 0);
    f->io->ops->close(f->io, file);
}

void test_io_allocate_extends_with_zeros_and_keeps_bytes(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "keep", 4);
    uint8_t expected[20000] = "keep";

    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, sizeof expected), LIGHTQ_OK);
    io_assert_content(f, "a", expected, sizeof expected);

    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 100, 1000), LIGHTQ_OK); /* inside: nothing to do */
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 0), LIGHTQ_OK);
    io_assert_content(f, "a", expected, sizeof expected);
    f->io->ops->close(f->io, file);
}

void test_io_truncate_cuts_and_extends(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    uint8_t bytes[10000];
    memset(bytes, 'z', sizeof bytes);
    io_write(f, file, 0, bytes, sizeof bytes);

    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 5000, 0), LIGHTQ_OK);
    io_assert_content(f, "a", bytes, 5000);

    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 8000, 0), LIGHTQ_OK);
    memset(bytes + 5000, 0, 3000); /* what was cut does not come back */
    io_assert_content(f, "a", bytes, 8000);
    f->io->ops->close(f->io, file);
}

/* ---- names ---- */

void test_io_rename_replaces(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a.tmp");
    io_write(f, file, 0, "new", 3);
    lq_file old = io_create(f, "a");
    io_write(f, old, 0, "older", 5);
    f->io->ops->close(f->io, old);

    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "a.tmp", "a"), LIGHTQ_OK);

    assert_exists(f, "a.tmp", false);
    io_assert_content(f, "a", "new", 3);
    io_write(f, file, 3, "er", 2); /* the handle follows its file */
    io_assert_content(f, "a", "newer", 5);
    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "", NULL), LIGHTQ_OK);
    f->io->ops->close(f->io, file);
}

void test_io_rename_of_missing_is_ENOTFOUND(void **state)
{
    struct io_fixture *f = *state;

    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "missing", "a"), LIGHTQ_ENOTFOUND);
    assert_told(f, LIGHTQ_ENOTFOUND, "missing");
    f->io->ops->close(f->io, io_create(f, "a"));
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "a", "no/a"), LIGHTQ_ENOTFOUND);
    assert_exists(f, "a", true);
}

void test_io_renamed_directory_keeps_its_files(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    io_mkdir(f, "e");
    lq_file file = io_create(f, "d/a");
    io_write(f, file, 0, "in d", 4);
    f->io->ops->close(f->io, file);

    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "d", "e/moved"), LIGHTQ_OK);

    assert_exists(f, "d", false);
    io_assert_content(f, "e/moved/a", "in d", 4);
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "e", "e/moved/e"), LIGHTQ_EIO); /* into itself */
}

void test_io_rename_over_full_directory_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    io_mkdir(f, "full");
    f->io->ops->close(f->io, io_create(f, "full/a"));
    f->io->ops->close(f->io, io_create(f, "b"));

    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "d", "full"), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "b", "full"), LIGHTQ_EIO);
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, "d", "b"), LIGHTQ_EIO);
    assert_exists(f, "full/a", true);
    assert_exists(f, "b", true);
}

void test_io_unlink_removes_and_missing_is_OK(void **state)
{
    struct io_fixture *f = *state;
    f->io->ops->close(f->io, io_create(f, "a"));

    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "a", NULL), LIGHTQ_OK);
    assert_exists(f, "a", false);
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "a", NULL), LIGHTQ_OK);
}

void test_io_unlink_of_directory_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");

    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "d", NULL), LIGHTQ_EIO);
    assert_exists(f, "d", true);
}

void test_io_unlinked_file_lives_while_open(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "still", 5);
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "a", NULL), LIGHTQ_OK);
    lq_file other = io_create(f, "a");
    char back[5];

    assert_int_equal(io_read(f, file, 0, back, sizeof back), 5);
    assert_memory_equal(back, "still", 5);
    io_assert_content(f, "a", "", 0);
    f->io->ops->close(f->io, file);
    f->io->ops->close(f->io, other);
}

void test_io_sync_dir_of_missing_is_ENOTFOUND(void **state)
{
    struct io_fixture *f = *state;

    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "d", NULL), LIGHTQ_ENOTFOUND);
    f->io->ops->close(f->io, io_create(f, "a"));
    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "a", NULL), LIGHTQ_EIO);
}

void test_io_mkdir_of_existing_is_EEXISTS(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");

    assert_int_equal(f->io->ops->mkdir(f->io, "d", &f->err), LIGHTQ_EEXISTS);
    assert_int_equal(f->io->ops->mkdir(f->io, "x/d", &f->err), LIGHTQ_ENOTFOUND);
    struct lq_io_stat stat;
    assert_int_equal(f->io->ops->stat(f->io, "d", &stat, &f->err), LIGHTQ_OK);
    assert_true(stat.is_dir);
    assert_int_equal(f->io->ops->stat(f->io, "", &stat, &f->err), LIGHTQ_OK);
    assert_true(stat.is_dir);
}

void test_io_rmdir_of_full_directory_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    f->io->ops->close(f->io, io_create(f, "d/a"));

    assert_int_equal(f->io->ops->rmdir(f->io, "d", &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->rmdir(f->io, "d/a", &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->rmdir(f->io, "missing", &f->err), LIGHTQ_ENOTFOUND);
    assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "d/a", NULL), LIGHTQ_OK);
    assert_int_equal(f->io->ops->rmdir(f->io, "d", &f->err), LIGHTQ_OK);
    assert_exists(f, "d", false);
}

struct listed {
    unsigned a, d, others;
};

static void on_listed(void *data, const char *name, bool is_dir)
{
    struct listed *listed = data;
    if (strcmp(name, "a") == 0 && !is_dir) {
        listed->a++;
    } else if (strcmp(name, "d") == 0 && is_dir) {
        listed->d++;
    } else {
        listed->others++;
    }
}

void test_io_list_gives_each_entry_once(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    f->io->ops->close(f->io, io_create(f, "d/inner"));
    f->io->ops->close(f->io, io_create(f, "a"));
    struct listed root = {0};
    struct listed inner = {0};

    assert_int_equal(f->io->ops->list(f->io, "", on_listed, &root, &f->err), LIGHTQ_OK);
    assert_int_equal(f->io->ops->list(f->io, "d", on_listed, &inner, &f->err), LIGHTQ_OK);

    assert_int_equal(root.a, 1);
    assert_int_equal(root.d, 1);
    assert_int_equal(root.others, 0);
    assert_int_equal(inner.a + inner.d, 0);
    assert_int_equal(inner.others, 1);
}

void test_io_list_of_missing_is_ENOTFOUND(void **state)
{
    struct io_fixture *f = *state;
    struct listed listed = {0};

    assert_int_equal(f->io->ops->list(f->io, "missing", on_listed, &listed, &f->err), LIGHTQ_ENOTFOUND);
    f->io->ops->close(f->io, io_create(f, "a"));
    assert_int_equal(f->io->ops->list(f->io, "a", on_listed, &listed, &f->err), LIGHTQ_EIO);
    assert_int_equal(listed.a + listed.d + listed.others, 0);
}

void test_io_space_is_told(void **state)
{
    struct io_fixture *f = *state;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;

    assert_int_equal(f->io->ops->space(f->io, &free_bytes, &total_bytes, &f->err), LIGHTQ_OK);
    assert_true(free_bytes > 0);
    assert_true(free_bytes <= total_bytes);
}

void test_io_second_lock_is_EBUSY(void **state)
{
    struct io_fixture *f = *state;

    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_EBUSY);
    assert_told(f, LIGHTQ_EBUSY, "locked");
}

/* ---- jobs ---- */

struct job {
    struct lq_io_job job;
    struct io_fixture *f;
    unsigned called;
    lightq_status status;
    struct lq_io_job *then; /* submitted in the callback */
};

static void on_job(struct lq_io_job *lq_job, lightq_status status)
{
    struct job *job = lq_job->data;
    job->called++;
    job->status = status;
    if (job->then != NULL) {
        assert_int_equal(job->f->io->ops->submit(job->f->io, job->then), LIGHTQ_OK);
    }
}

static void job_submit(struct io_fixture *f, struct job *job, struct lq_io_op *ops, unsigned count)
{
    job->f = f;
    job->job = (struct lq_io_job){.ops = ops, .count = count, .cb = on_job, .data = job};
    assert_int_equal(f->io->ops->submit(f->io, &job->job), LIGHTQ_OK);
    assert_int_equal(job->called, 0); /* never inside */
}

void test_io_job_runs_in_order_and_later(void **state)
{
    struct io_fixture *f = *state;
    io_mkdir(f, "d");
    lq_file file = io_create(f, "d/a.tmp");
    struct iovec iov[2] = {{.iov_base = (void *)"first ", .iov_len = 6}, {.iov_base = (void *)"second", .iov_len = 6}};
    char back[32];
    struct iovec back_iov = {.iov_base = back, .iov_len = sizeof back};
    struct lq_io_op ops[] = {
        {.kind = LQ_IO_ALLOCATE, .file = file, .size = 4096},
        {.kind = LQ_IO_WRITE, .file = file, .iov = iov, .iov_count = 2},
        {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 12},
        {.kind = LQ_IO_SYNC, .file = file},
        {.kind = LQ_IO_RENAME, .path = "d/a.tmp", .path_to = "d/a"},
        {.kind = LQ_IO_SYNC_DIR, .path = "d"},
        {.kind = LQ_IO_READ, .file = file, .iov = &back_iov, .iov_count = 1},
        {.kind = LQ_IO_UNLINK, .path = "d/missing"},
    };
    struct job job = {0};

    job_submit(f, &job, ops, sizeof ops / sizeof ops[0]);
    f->settle(f);

    assert_int_equal(job.called, 1);
    assert_int_equal(job.status, LIGHTQ_OK);
    assert_int_equal(ops[6].result, 12);
    assert_memory_equal(back, "first second", 12);
    io_assert_content(f, "d/a", "first second", 12);
    f->io->ops->close(f->io, file);
}

void test_io_job_stops_at_first_failure(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct iovec iov = {.iov_base = (void *)"x", .iov_len = 1};
    struct lq_io_op ops[] = {
        {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1},
        {.kind = LQ_IO_RENAME, .path = "missing", .path_to = "b"},
        {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 100},
    };
    struct job job = {0};

    job_submit(f, &job, ops, 3);
    f->settle(f);

    assert_int_equal(job.called, 1);
    assert_int_equal(job.status, LIGHTQ_ENOTFOUND);
    assert_int_equal(job.job.failed, 1);
    assert_int_equal(job.job.err.status, LIGHTQ_ENOTFOUND);
    assert_non_null(strstr(job.job.err.text, "missing"));
    io_assert_content(f, "a", "x", 1);
    f->io->ops->close(f->io, file);
}

void test_io_job_without_ops_calls_back(void **state)
{
    struct io_fixture *f = *state;
    struct job job = {0};

    job_submit(f, &job, NULL, 0);
    f->settle(f);

    assert_int_equal(job.called, 1);
    assert_int_equal(job.status, LIGHTQ_OK);
}

void test_io_job_close_ends_handle(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct lq_io_op ops[] = {
        {.kind = LQ_IO_SYNC, .file = file},
        {.kind = LQ_IO_CLOSE, .file = file},
        {.kind = LQ_IO_SYNC, .file = file},
    };
    struct job job = {0};

    job_submit(f, &job, ops, 3);
    f->settle(f);

    assert_int_equal(job.status, LIGHTQ_EIO);
    assert_int_equal(job.job.failed, 2);
    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_EIO);
}

void test_io_job_of_closed_handle_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    lq_file open = io_create(f, "b");
    f->io->ops->close(f->io, file);
    struct lq_io_op ops[] = {
        {.kind = LQ_IO_TRUNCATE, .file = open, .offset = 3},
        {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 3},
        {.kind = LQ_IO_TRUNCATE, .file = open, .offset = 5},
    };
    struct job job = {0};

    job_submit(f, &job, ops, 3);
    f->settle(f);

    assert_int_equal(job.status, LIGHTQ_EIO);
    assert_int_equal(job.job.failed, 1);
    io_assert_content(f, "b", "\0\0\0", 3);
    f->io->ops->close(f->io, open);
}

void test_io_job_callback_may_submit(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct lq_io_op ops[] = {{.kind = LQ_IO_TRUNCATE, .file = file, .offset = 1},
                             {.kind = LQ_IO_TRUNCATE, .file = file, .offset = 2}};
    struct job second = {.f = f};
    second.job = (struct lq_io_job){.ops = &ops[1], .count = 1, .cb = on_job, .data = &second};
    struct job first = {.then = &second.job};

    job_submit(f, &first, &ops[0], 1);
    f->settle(f);

    assert_int_equal(first.called, 1);
    assert_int_equal(second.called, 1);
    assert_int_equal(second.status, LIGHTQ_OK);
    io_assert_content(f, "a", "\0\0", 2);
    f->io->ops->close(f->io, file);
}

void test_io_unknown_kind_is_EINVAL(void **state)
{
    struct io_fixture *f = *state;

    assert_int_equal(io_op(f, (enum lq_io_kind)99, LQ_FILE_NONE, 0, 0), LIGHTQ_EINVAL);
}
