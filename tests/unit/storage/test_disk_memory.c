/* tests/unit/storage/test_disk_memory.c - the disks and lq_dump when an allocation fails, for each of them in turn:
 * ENOMEM is told, nothing leaks (sanitizers look), and nothing else comes to harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>
#include <uv.h>

#include "client/base/log.h"
#include "dump_world.h"
#include "storage/io_uv.h"
#include "tests/lib/alloc_fail.h"

/* Calls @attempt until no allocation of it fails any more; gives the number of those that did. */
static unsigned sweep(lightq_status (*attempt)(void *data), void *data)
{
    unsigned failures = 0;
    for (unsigned n = 1;; n++) {
        lq_alloc_fail_at(n);
        lightq_status status = attempt(data);
        bool has_failed = lq_alloc_fail_end();
        if (!has_failed) {
            assert_int_equal(status, LIGHTQ_OK);
            return failures;
        }
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
        failures += status == LIGHTQ_ENOMEM;
    }
}

/* ---- lq_dump ---- */

static lightq_status attempt_dump(void *data)
{
    struct dump_world *world = data;
    char *text = NULL;
    size_t size = 0;
    struct lq_dump_verdict verdict = {0};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    lightq_status status = lq_dump(world->io, true, out, &verdict, &world->err);
    fclose(out);
    free(text);
    if (status == LIGHTQ_OK) {
        assert_int_equal(verdict.damaged, 0); /* what could not be read is not called whole */
    }
    assert_int_equal(lq_io_mem_open_files(world->mem), 0);
    return status;
}

static void test_disk_memory_dump_without_memory_is_ENOMEM(void **state)
{
    (void)state;
    struct dump_world *world = dump_world_new();
    assert_int_equal(dump_world_open(world), LIGHTQ_OK);
    dump_world_work(world);
    dump_world_close(world);

    assert_true(sweep(attempt_dump, world) > 20);

    dump_world_free(world);
}

/* ---- io_mem ---- */

static lightq_status write_at(struct lq_io *io, lq_file file, uint64_t offset)
{
    struct iovec iov = {.iov_base = (void *)"0123456789", .iov_len = 10};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .offset = offset, .iov = &iov, .iov_count = 1};
    return io->ops->run(io, &op, NULL);
}

static lightq_status run_name(struct lq_io *io, enum lq_io_kind kind, const char *path, const char *path_to)
{
    struct lq_io_op op = {.kind = kind, .path = path, .path_to = path_to};
    return io->ops->run(io, &op, NULL);
}

/* Makes, writes, renames, syncs, copies and tears; stops at the first failure. */
static lightq_status use_mem(struct lq_io_mem *mem)
{
    struct lq_io *io = lq_io_mem_io(mem);
    lq_file file = LQ_FILE_NONE;
    lightq_status status = io->ops->mkdir(io, "d", NULL);
    status = status == LIGHTQ_OK ? io->ops->open(io, "d/a", LQ_OPEN_CREATE, &file, NULL) : status;
    for (uint64_t offset = 0; offset < 30000 && status == LIGHTQ_OK; offset += 3000) {
        status = write_at(io, file, offset);
    }
    struct lq_io_op sync = {.kind = LQ_IO_SYNC, .file = file};
    status = status == LIGHTQ_OK ? io->ops->run(io, &sync, NULL) : status;
    status = status == LIGHTQ_OK ? run_name(io, LQ_IO_SYNC_DIR, "", NULL) : status;
    status = status == LIGHTQ_OK ? run_name(io, LQ_IO_RENAME, "d/a", "d/b") : status;
    status = status == LIGHTQ_OK ? write_at(io, file, 100) : status;
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_io_mem_image *image = lq_io_mem_copy(mem);
    status = image == NULL ? LIGHTQ_ENOMEM : lq_io_mem_crash(mem, LQ_IO_MEM_TEAR, 7);
    status = status == LIGHTQ_OK ? lq_io_mem_restore(mem, image) : status;
    lq_io_mem_image_free(image);
    return status;
}

static lightq_status attempt_mem(void *data)
{
    (void)data;
    struct lq_io_mem *mem = lq_io_mem_new();
    if (mem == NULL) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = use_mem(mem);
    lq_io_mem_free(mem);
    return status;
}

static void test_disk_memory_io_mem_without_memory_is_ENOMEM(void **state)
{
    (void)state;
    assert_true(sweep(attempt_mem, NULL) > 20);
}

/* ---- io_uv ---- */

struct real {
    uv_loop_t loop;
    char root[64];
    unsigned called;
    bool is_closed;
};

static void on_job(struct lq_io_job *job, lightq_status status)
{
    struct real *real = job->data;
    real->called++;
    assert_int_equal(status, LIGHTQ_OK);
}

static void on_closed(void *data)
{
    ((struct real *)data)->is_closed = true;
}

static lightq_status use_real(struct real *real, struct lq_io *io)
{
    lq_file file = LQ_FILE_NONE;
    (void)run_name(io, LQ_IO_UNLINK, "a", NULL);
    lightq_status status = io->ops->open(io, "a", LQ_OPEN_CREATE, &file, NULL);
    status = status == LIGHTQ_OK ? write_at(io, file, 0) : status;
    struct lq_io_op sync = {.kind = LQ_IO_SYNC, .file = file};
    struct lq_io_job job = {.ops = &sync, .count = 1, .cb = on_job, .data = real};
    real->called = 0;
    status = status == LIGHTQ_OK ? io->ops->submit(io, &job) : status;
    uv_run(&real->loop, UV_RUN_DEFAULT);
    assert_int_equal(real->called, status == LIGHTQ_OK ? 1 : 0);
    io->ops->close(io, file);
    return status;
}

static lightq_status attempt_real(void *data)
{
    struct real *real = data;
    struct lq_io *io;
    lightq_status status = lq_io_uv_new(&real->loop, real->root, &(struct lq_io_uv_options){.create = true}, &io, NULL);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = use_real(real, io);
    real->is_closed = false;
    lq_io_uv_close(io, on_closed, real);
    uv_run(&real->loop, UV_RUN_DEFAULT);
    assert_true(real->is_closed);
    return status;
}

static void test_disk_memory_io_uv_without_memory_is_ENOMEM(void **state)
{
    (void)state;
    struct real real = {.root = "/tmp/lightq-memory-XXXXXX"};
    assert_non_null(mkdtemp(real.root));
    assert_int_equal(uv_loop_init(&real.loop), 0);

    assert_true(sweep(attempt_real, &real) >= 4);

    assert_int_equal(uv_loop_close(&real.loop), 0);
    char path[128];
    snprintf(path, sizeof path, "%s/a", real.root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(real.root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_memory_dump_without_memory_is_ENOMEM),
        cmocka_unit_test(test_disk_memory_io_mem_without_memory_is_ENOMEM),
        cmocka_unit_test(test_disk_memory_io_uv_without_memory_is_ENOMEM),
    };
    lq_log_configure(LQ_LOG_OFF, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
