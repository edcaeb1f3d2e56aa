/* tests/unit/storage/io_mem_fixture.c - see io_mem_fixture.h. */
#include "io_mem_fixture.h"

static void mem_settle(struct io_fixture *f)
{
    lq_io_mem_run_all(f->disk);
    assert_int_equal(lq_io_mem_pending(f->disk), 0);
}

int mem_setup(void **state)
{
    struct io_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    struct lq_io_mem *mem = lq_io_mem_new();
    assert_non_null(mem);
    f->disk = mem;
    f->io = lq_io_mem_io(mem);
    f->settle = mem_settle;
    *state = f;
    return 0;
}

int mem_teardown(void **state)
{
    struct io_fixture *f = *state;
    assert_int_equal(lq_io_mem_open_files(f->disk), 0);
    lq_io_mem_free(f->disk);
    free(f);
    return 0;
}

void crash(struct io_fixture *f, enum lq_io_mem_crash_mode mode, uint64_t seed)
{
    assert_int_equal(lq_io_mem_crash(f->disk, mode, seed), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_open_files(f->disk), 0);
}

void sync_file(struct io_fixture *f, lq_file file)
{
    assert_int_equal(io_op(f, LQ_IO_SYNC, file, 0, 0), LIGHTQ_OK);
}

void sync_dir(struct io_fixture *f, const char *path)
{
    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, path, NULL), LIGHTQ_OK);
}

void rename_to(struct io_fixture *f, const char *from, const char *to)
{
    assert_int_equal(io_name_op(f, LQ_IO_RENAME, from, to), LIGHTQ_OK);
}

bool exists(struct io_fixture *f, const char *path)
{
    return lq_io_mem_exists(f->disk, path);
}

lq_file reopen(struct io_fixture *f, const char *path)
{
    lq_file file = LQ_FILE_NONE;
    assert_int_equal(f->io->ops->open(f->io, path, LQ_OPEN_WRITE, &file, &f->err), LIGHTQ_OK);
    return file;
}

/* A durable file of @size bytes, each @byte. Closed. */
void make_durable(struct io_fixture *f, const char *path, char byte, size_t size)
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
uint8_t *content(struct io_fixture *f, const char *path, size_t *size)
{
    uint8_t *bytes = NULL;
    assert_int_equal(lq_io_mem_read_file(f->disk, path, &bytes, size), LIGHTQ_OK);
    return bytes;
}

uint64_t size_of(struct io_fixture *f, const char *path)
{
    struct lq_io_stat stat;
    assert_int_equal(f->io->ops->stat(f->io, path, &stat, &f->err), LIGHTQ_OK);
    return stat.size;
}
