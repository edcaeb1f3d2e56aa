/* tests/unit/storage/test_io_mem_faults.c - the disk in memory: jobs run by hand, faults, a full disk, tampering,
 * copies, and what it tells (storage/io_mem.h). */
#include "io_mem_fixture.h"

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

    f->settle(f);

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
    f->settle(f);
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

static void test_io_mem_directory_move_does_not_wait_for_names_in_a_removed_one(void **state)
{
    struct io_fixture *f = *state;
    struct lq_io_op unlink = {.kind = LQ_IO_UNLINK, .path = "gone/a"};
    const char *dirs[] = {"gone", "from", "to", "from/d"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(f->io->ops->mkdir(f->io, dirs[i], &f->err), LIGHTQ_OK);
    }
    f->io->ops->close(f->io, io_create(f, "gone/a")); /* nobody ever syncs this directory */
    assert_int_equal(f->io->ops->run(f->io, &unlink, &f->err), LIGHTQ_OK);
    assert_int_equal(f->io->ops->rmdir(f->io, "gone", &f->err), LIGHTQ_OK);
    rename_to(f, "from/d", "to/d");
    sync_dir(f, "");
    sync_dir(f, "from");
    sync_dir(f, "to");

    crash(f, LQ_IO_MEM_LOSE, 0);

    assert_true(exists(f, "to/d"));
    assert_false(exists(f, "from/d"));
    assert_false(exists(f, "gone"));
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
    f->settle(f);
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, mem_setup, mem_teardown)
    const struct CMUnitTest tests[] = {
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
        TEST(test_io_mem_directory_move_does_not_wait_for_names_in_a_removed_one),
        TEST(test_io_mem_crash_lets_the_lock_go),
        TEST(test_io_mem_dump_and_trace_tell_what_is_not_durable),
        TEST(test_io_mem_trace_keeps_the_last_ops_only),
        TEST(test_io_mem_too_many_open_files_are_ELIMIT),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
