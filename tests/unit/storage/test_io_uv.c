/* tests/unit/storage/test_io_uv.c - the real disk: the contract of storage/io.h, and what only a real disk can do
 * wrong. Each test has a temporary directory of its own. Those that need a small file system skip when it cannot be
 * mounted. */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io_contract.h"
#include "storage/io_uv.h"

#define MANY_JOBS        200
#define SMALL_DISK_BYTES (256 * 1024)
#define FEW_FDS          128

struct disk {
    uv_loop_t loop;
    char root[64];
    size_t fds; /* open in the process before */
    bool is_mounted;
    unsigned closed;
    unsigned called;
    unsigned canceled;
};

static size_t count_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

static void settle(struct io_fixture *f)
{
    struct disk *disk = f->disk;
    uv_run(&disk->loop, UV_RUN_DEFAULT); /* ends when no job is left */
    assert_int_equal(lq_io_uv_pending(f->io), 0);
}

static void open_io(struct io_fixture *f, const struct lq_io_uv_options *options)
{
    struct disk *disk = f->disk;
    assert_int_equal(lq_io_uv_new(&disk->loop, disk->root, options, &f->io, &f->err), LIGHTQ_OK);
}

static void on_closed(void *data)
{
    struct disk *disk = data;
    disk->closed++;
}

static void close_io(struct io_fixture *f)
{
    struct disk *disk = f->disk;
    unsigned closed = disk->closed;
    lq_io_uv_close(f->io, on_closed, disk);
    assert_int_equal(disk->closed, closed); /* never inside */
    uv_run(&disk->loop, UV_RUN_DEFAULT);
    assert_int_equal(disk->closed, closed + 1);
    f->io = NULL;
}

static int setup(void **state)
{
    struct io_fixture *f = calloc(1, sizeof *f);
    struct disk *disk = calloc(1, sizeof *disk);
    assert_true(f != NULL && disk != NULL);
    f->disk = disk;
    f->settle = settle;
    strcpy(disk->root, "/tmp/lightq-io-XXXXXX");
    assert_non_null(mkdtemp(disk->root));
    assert_int_equal(uv_loop_init(&disk->loop), 0);
    disk->fds = count_fds();
    open_io(f, &(struct lq_io_uv_options){.create = false});
    *state = f;
    return 0;
}

static int on_tree(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    if (f->io != NULL) {
        assert_int_equal(lq_io_uv_open_files(f->io), 0);
        close_io(f);
    }
    assert_int_equal(count_fds(), disk->fds);
    assert_int_equal(uv_loop_close(&disk->loop), 0);
    if (disk->is_mounted) {
        assert_int_equal(umount(disk->root), 0);
    }
    assert_int_equal(nftw(disk->root, on_tree, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(disk);
    free(f);
    return 0;
}

/* A file system of SMALL_DISK_BYTES in place of the directory; false when it cannot be had. */
static bool mount_small(struct io_fixture *f)
{
    struct disk *disk = f->disk;
    char options[32];
    snprintf(options, sizeof options, "size=%d", SMALL_DISK_BYTES);
    close_io(f);
    disk->is_mounted = mount("tmpfs", disk->root, "tmpfs", 0, options) == 0;
    open_io(f, &(struct lq_io_uv_options){.create = false});
    return disk->is_mounted;
}

/* ---- what fails ---- */

static void test_io_uv_full_disk_is_ENOSPC(void **state)
{
    struct io_fixture *f = *state;
    if (!mount_small(f)) {
        skip();
    }
    lq_file file = io_create(f, "a");
    uint8_t *bytes = calloc(1, SMALL_DISK_BYTES * 2);
    assert_non_null(bytes);
    struct iovec iov = {.iov_base = bytes, .iov_len = SMALL_DISK_BYTES * 2};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_ENOSPC);

    assert_non_null(strstr(f->err.text, "/a at offset"));
    assert_non_null(strstr(f->err.text, "ENOSPC"));
    uint64_t free_bytes = 1;
    uint64_t total_bytes = 0;
    assert_int_equal(f->io->ops->space(f->io, &free_bytes, &total_bytes, &f->err), LIGHTQ_OK);
    assert_int_equal(total_bytes, SMALL_DISK_BYTES);
    assert_int_equal(free_bytes, 0);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 0, 0), LIGHTQ_OK);
    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, SMALL_DISK_BYTES * 2), LIGHTQ_ENOSPC);
    assert_int_equal(io_op(f, LQ_IO_TRUNCATE, file, 0, 0), LIGHTQ_OK);
    io_write(f, file, 0, bytes, SMALL_DISK_BYTES / 2); /* space that came back is used */
    free(bytes);
    f->io->ops->close(f->io, file);
}

/* A file size limit makes the kernel write short first, and fail when asked for the rest. */
static void test_io_uv_short_write_is_gone_on_with_and_its_failure_names_the_offset(void **state)
{
    struct io_fixture *f = *state;
    lq_file file = io_create(f, "a");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char bytes[3000];
    memset(bytes, 'b', sizeof bytes);
    struct iovec iov[2] = {{.iov_base = bytes, .iov_len = 700}, {.iov_base = bytes + 700, .iov_len = 2300}};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = iov, .iov_count = 2};

    lightq_status status = f->io->ops->run(f->io, &op, &f->err);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, LIGHTQ_EIO);
    assert_non_null(strstr(f->err.text, "/a at offset 1000"));
    assert_non_null(strstr(f->err.text, "EFBIG"));
    io_assert_content(f, "a", bytes, 1000);
    f->io->ops->close(f->io, file);
}

static void test_io_uv_missing_root_is_ENOTFOUND(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    char path[128];
    snprintf(path, sizeof path, "%s/missing", disk->root);
    struct lq_io *io = NULL;

    assert_int_equal(lq_io_uv_new(&disk->loop, path, &(struct lq_io_uv_options){.create = false}, &io, &f->err),
                     LIGHTQ_ENOTFOUND);

    assert_non_null(strstr(f->err.text, path));
    assert_null(io);
    snprintf(path, sizeof path, "%s/missing/deeper", disk->root);
    assert_int_equal(lq_io_uv_new(&disk->loop, path, &(struct lq_io_uv_options){.create = true}, &io, &f->err),
                     LIGHTQ_ENOTFOUND);
}

static void test_io_uv_root_that_is_a_file_is_EIO(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    f->io->ops->close(f->io, io_create(f, "file"));
    char path[128];
    snprintf(path, sizeof path, "%s/file", disk->root);
    struct lq_io *io = NULL;

    assert_int_equal(lq_io_uv_new(&disk->loop, path, &(struct lq_io_uv_options){.create = true}, &io, &f->err),
                     LIGHTQ_EIO);
    assert_non_null(strstr(f->err.text, "ENOTDIR"));
}

static void test_io_uv_root_is_created_when_asked(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    close_io(f);
    size_t size = strlen(disk->root);
    strcpy(disk->root + size, "/new");

    open_io(f, &(struct lq_io_uv_options){.create = true});
    f->io->ops->close(f->io, io_create(f, "a"));
    close_io(f);

    struct stat st;
    assert_int_equal(stat(disk->root, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    open_io(f, &(struct lq_io_uv_options){.create = true}); /* also when it is there */
    io_assert_content(f, "a", "", 0);
    close_io(f);
    disk->root[size] = '\0';
}

static void test_io_uv_symbolic_link_is_refused_as_a_file(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    char path[128];
    snprintf(path, sizeof path, "%s/link", disk->root);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    lq_file file;

    assert_int_equal(f->io->ops->open(f->io, "link", LQ_OPEN_READ, &file, &f->err), LIGHTQ_EIO);
    assert_non_null(strstr(f->err.text, "ELOOP"));
    assert_int_equal(f->io->ops->open(f->io, "link", LQ_OPEN_WRITE, &file, &f->err), LIGHTQ_EIO);
    assert_int_equal(f->io->ops->open(f->io, "link", LQ_OPEN_CREATE, &file, &f->err), LIGHTQ_EEXISTS);
}

static void test_io_uv_linked_directory_is_followed(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    char path[128];
    io_mkdir(f, "elsewhere");
    snprintf(path, sizeof path, "%s/journal", disk->root);
    assert_int_equal(symlink("elsewhere", path), 0);

    lq_file file = io_create(f, "journal/a");
    io_write(f, file, 0, "x", 1);
    f->io->ops->close(f->io, file);

    assert_int_equal(io_name_op(f, LQ_IO_SYNC_DIR, "journal", NULL), LIGHTQ_OK);
    io_assert_content(f, "elsewhere/a", "x", 1);
    struct lq_io_stat st;
    assert_int_equal(f->io->ops->stat(f->io, "journal", &st, &f->err), LIGHTQ_OK);
    assert_true(st.is_dir);
}

static void test_io_uv_fifo_is_refused_without_waiting(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    char path[128];
    snprintf(path, sizeof path, "%s/fifo", disk->root);
    assert_int_equal(mkfifo(path, 0600), 0);
    lq_file file;

    assert_int_equal(f->io->ops->open(f->io, "fifo", LQ_OPEN_READ, &file, &f->err), LIGHTQ_EIO);
    assert_non_null(strstr(f->err.text, "not a regular file"));
    assert_int_equal(f->io->ops->open(f->io, "fifo", LQ_OPEN_WRITE, &file, &f->err), LIGHTQ_EIO);
}

static void test_io_uv_files_and_handles_are_private(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    lq_file file = io_create(f, "a");
    char path[128];
    snprintf(path, sizeof path, "%s/a", disk->root);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    size_t inherited = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct stat other;
        bool is_ours = fstat(fd, &other) == 0 && other.st_ino == st.st_ino && other.st_dev == st.st_dev;
        inherited += is_ours && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
    }
    assert_int_equal(inherited, 0);
    f->io->ops->close(f->io, file);
}

static void test_io_uv_lock_of_another_process_is_EBUSY_with_its_pid(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
    struct lq_io *mine = f->io;
    open_io(f, &(struct lq_io_uv_options){.create = false}); /* as another process would */
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());

    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_EBUSY);

    assert_non_null(strstr(f->err.text, disk->root));
    assert_non_null(strstr(f->err.text, pid));
    assert_non_null(strstr(f->err.text, "stop that one"));
    struct lq_io *other = f->io;
    f->io = mine;
    close_io(f);
    f->io = other;
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK); /* free again */
}

static void test_io_uv_is_locked_tells_without_locking(void **state)
{
    struct io_fixture *f = *state;
    bool is_locked = true;
    assert_int_equal(lq_io_uv_is_locked(f->io, &is_locked, &f->err), LIGHTQ_OK);
    assert_false(is_locked);
    struct lq_io_stat stat;
    assert_int_equal(f->io->ops->stat(f->io, "lock", &stat, &f->err), LIGHTQ_ENOTFOUND);

    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
    assert_int_equal(lq_io_uv_is_locked(f->io, &is_locked, &f->err), LIGHTQ_OK);
    assert_true(is_locked);

    close_io(f);
    open_io(f, &(struct lq_io_uv_options){.create = false});
    assert_int_equal(lq_io_uv_is_locked(f->io, &is_locked, &f->err), LIGHTQ_OK);
    assert_false(is_locked);
    assert_int_equal(f->io->ops->lock(f->io, &f->err), LIGHTQ_OK);
}

static void test_io_uv_without_loop_takes_blocking_calls_only(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    struct lq_io *alone = NULL;
    assert_int_equal(lq_io_uv_new(NULL, disk->root, &(struct lq_io_uv_options){.create = false}, &alone, &f->err),
                     LIGHTQ_OK);
    struct lq_io *with_loop = f->io;
    struct lq_io_job job = {.count = 0};
    f->io = alone;

    io_write(f, io_create(f, "a"), 0, "alone", 5);
    io_assert_content(f, "a", "alone", 5);
    assert_int_equal(alone->ops->submit(alone, &job), LIGHTQ_EUNSUPPORTED);

    lq_io_uv_free(alone); /* with its open file: the tear-down counts descriptors */
    f->io = with_loop;
}

static void test_io_uv_too_many_descriptors_names_the_remedy(void **state)
{
    struct io_fixture *f = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit small = {.rlim_cur = FEW_FDS, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    int held[FEW_FDS];
    size_t count = 0;
    while ((held[count] = dup(0)) >= 0) {
        count++;
    }

    lq_file file;
    lightq_status status = f->io->ops->open(f->io, "a", LQ_OPEN_CREATE, &file, &f->err);

    for (size_t i = 0; i < count; i++) {
        close(held[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, LIGHTQ_ELIMIT);
    assert_non_null(strstr(f->err.text, "ulimit -n"));
    f->io->ops->close(f->io, io_create(f, "a"));
}

static void on_name(void *data, const char *name, bool is_dir)
{
    (void)name;
    (void)is_dir;
    (*(unsigned *)data)++;
}

/* What is closed again at once: a read, a list, the sync of a directory. */
static void test_io_uv_without_descriptors_short_work_goes_on(void **state)
{
    struct io_fixture *f = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit small = {.rlim_cur = FEW_FDS, .rlim_max = before.rlim_max};
    lq_file kept = io_create(f, "kept");
    f->io->ops->close(f->io, io_create(f, "a"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    int held[FEW_FDS];
    size_t count = 0;
    while ((held[count] = dup(0)) >= 0) {
        count++;
    }
    lightq_status statuses[5][4];
    unsigned names = 0;
    for (unsigned i = 0; i < 5; i++) {
        lq_file file = LQ_FILE_NONE;
        lq_file other = LQ_FILE_NONE;
        struct lq_io_op sync = {.kind = LQ_IO_SYNC_DIR, .path = ""};
        statuses[i][0] = f->io->ops->open(f->io, "a", LQ_OPEN_WRITE, &other, &f->err);
        statuses[i][1] = f->io->ops->open(f->io, "a", LQ_OPEN_READ, &file, &f->err);
        statuses[i][2] = f->io->ops->run(f->io, &sync, &f->err);
        f->io->ops->close(f->io, file);
        statuses[i][3] = f->io->ops->list(f->io, "", on_name, &names, &f->err);
    }
    f->io->ops->close(f->io, kept); /* now there is one */
    lq_file file = LQ_FILE_NONE;
    lightq_status last = f->io->ops->open(f->io, "a", LQ_OPEN_WRITE, &file, &f->err);

    for (size_t i = 0; i < count; i++) {
        close(held[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(statuses[i][0], LIGHTQ_ELIMIT);
        assert_int_equal(statuses[i][1], LIGHTQ_OK);
        assert_int_equal(statuses[i][2], LIGHTQ_OK);
        assert_int_equal(statuses[i][3], LIGHTQ_OK);
    }
    assert_int_equal(names, 10);
    assert_int_equal(last, LIGHTQ_OK);
    f->io->ops->close(f->io, file);
}

static void test_io_uv_direct_reads_see_what_is_written(void **state)
{
    struct io_fixture *f = *state;
    uint8_t *memory = aligned_alloc(LQ_IO_DIRECT_BYTES, 4 * LQ_IO_DIRECT_BYTES);
    assert_non_null(memory);
    lq_file file = io_create(f, "a");
    io_write(f, file, 0, "begin", 5);
    io_write(f, file, 10000, "end", 3);
    lq_file direct;
    assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_DIRECT, &direct, &f->err), LIGHTQ_OK);
    struct iovec iov = {.iov_base = memory, .iov_len = 4 * LQ_IO_DIRECT_BYTES};
    struct lq_io_op op = {.kind = LQ_IO_READ, .file = direct, .iov = &iov, .iov_count = 1, .size = iov.iov_len};

    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);

    assert_int_equal(op.result, 10003);
    assert_memory_equal(memory, "begin", 5);
    assert_memory_equal(memory + 10000, "end", 3);
    op.offset = 2 * LQ_IO_DIRECT_BYTES;
    iov.iov_len = LQ_IO_DIRECT_BYTES;
    assert_int_equal(f->io->ops->run(f->io, &op, &f->err), LIGHTQ_OK);
    assert_int_equal(op.result, 10003 - 2 * LQ_IO_DIRECT_BYTES);
    struct lq_io_op write = {.kind = LQ_IO_WRITE, .file = direct, .iov = &iov, .iov_count = 1, .size = iov.iov_len};
    assert_int_equal(f->io->ops->run(f->io, &write, &f->err), LIGHTQ_EIO); /* it is only to read */
    f->io->ops->close(f->io, direct);
    f->io->ops->close(f->io, file);
    free(memory);
}

static void test_io_uv_too_many_files_are_ELIMIT(void **state)
{
    struct io_fixture *f = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit large = {.rlim_cur = LQ_IO_UV_FILES_MAX + FEW_FDS, .rlim_max = before.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &large) != 0) {
        skip(); /* not allowed that many descriptors */
    }
    f->io->ops->close(f->io, io_create(f, "a"));
    lq_file *files = calloc(LQ_IO_UV_FILES_MAX, sizeof *files);
    assert_non_null(files);
    for (size_t i = 0; i < LQ_IO_UV_FILES_MAX; i++) {
        assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_READ, &files[i], &f->err), LIGHTQ_OK);
    }

    lq_file file;
    assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_READ, &file, &f->err), LIGHTQ_ELIMIT);

    f->io->ops->close(f->io, files[7]);
    assert_int_equal(f->io->ops->open(f->io, "a", LQ_OPEN_READ, &files[7], &f->err), LIGHTQ_OK);
    for (size_t i = 0; i < LQ_IO_UV_FILES_MAX; i++) {
        f->io->ops->close(f->io, files[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    free(files);
}

static void test_io_uv_allocate_without_fallocate_writes_zeros(void **state)
{
    struct io_fixture *f = *state;
    close_io(f);
    open_io(f, &(struct lq_io_uv_options){.without_fallocate = true});

    test_io_allocate_extends_with_zeros_and_keeps_bytes(state);

    struct disk *disk = f->disk;
    char path[128];
    snprintf(path, sizeof path, "%s/a", disk->root);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 >= 20000); /* real blocks, no hole */
}

static void test_io_uv_allocate_makes_real_blocks(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    lq_file file = io_create(f, "a");
    char path[128];
    snprintf(path, sizeof path, "%s/a", disk->root);

    assert_int_equal(io_op(f, LQ_IO_ALLOCATE, file, 0, 1 << 20), LIGHTQ_OK);

    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 1 << 20);
    assert_true((uint64_t)st.st_blocks * 512 >= 1 << 20);
    f->io->ops->close(f->io, file);
}

/* ---- jobs and life ---- */

static void on_job(struct lq_io_job *job, lightq_status status)
{
    struct disk *disk = job->data;
    disk->called++;
    disk->canceled += status == LIGHTQ_ECANCELED;
    assert_true(status == LIGHTQ_OK || status == LIGHTQ_ECANCELED);
}

struct many {
    struct lq_io_job jobs[MANY_JOBS];
    struct lq_io_op ops[MANY_JOBS][3];
    struct iovec iov[MANY_JOBS];
    uint32_t values[MANY_JOBS];
};

/* Job i writes its number at place i of a file of i % 4. */
static struct many *many_submit(struct io_fixture *f, const lq_file files[4])
{
    struct many *many = calloc(1, sizeof *many);
    assert_non_null(many);
    for (unsigned i = 0; i < MANY_JOBS; i++) {
        lq_file file = files[i % 4];
        many->values[i] = i + 1;
        many->iov[i] = (struct iovec){.iov_base = &many->values[i], .iov_len = sizeof many->values[i]};
        many->ops[i][0] =
            (struct lq_io_op){.kind = LQ_IO_WRITE, .file = file, .offset = i * 4, .iov = &many->iov[i], .iov_count = 1};
        many->ops[i][1] = (struct lq_io_op){.kind = LQ_IO_SYNC, .file = file};
        many->jobs[i] = (struct lq_io_job){.ops = many->ops[i], .count = 2, .cb = on_job, .data = f->disk};
        assert_int_equal(f->io->ops->submit(f->io, &many->jobs[i]), LIGHTQ_OK);
    }
    return many;
}

static void test_io_uv_many_jobs_at_once_all_write_their_bytes(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    const char *names[4] = {"a", "b", "c", "d"};
    lq_file files[4];
    for (int i = 0; i < 4; i++) {
        files[i] = io_create(f, names[i]);
    }

    struct many *many = many_submit(f, files);
    assert_int_equal(lq_io_uv_pending(f->io), MANY_JOBS);
    settle(f);

    assert_int_equal(disk->called, MANY_JOBS);
    assert_int_equal(disk->canceled, 0);
    for (int i = 0; i < 4; i++) {
        uint32_t expected[MANY_JOBS] = {0};
        for (unsigned j = (unsigned)i; j < MANY_JOBS; j += 4) {
            expected[j] = j + 1;
        }
        io_assert_content(f, names[i], expected, (size_t)(MANY_JOBS - 3 + i) * 4);
        f->io->ops->close(f->io, files[i]);
    }
    free(many);
}

static void on_closed_file_job(struct lq_io_job *job, lightq_status status)
{
    struct disk *disk = job->data;
    disk->called++;
    assert_true(status == LIGHTQ_OK || status == LIGHTQ_EIO); /* whichever was first, the close or the job */
}

static void test_io_uv_file_closed_under_a_job_is_never_another_file(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    for (unsigned round = 0; round < 100; round++) {
        lq_file old = io_create(f, "old");
        struct iovec iov = {.iov_base = (void *)"meant for the old file", .iov_len = 22};
        struct lq_io_op ops[] = {{.kind = LQ_IO_WRITE, .file = old, .iov = &iov, .iov_count = 1},
                                 {.kind = LQ_IO_SYNC, .file = old},
                                 {.kind = LQ_IO_WRITE, .file = old, .offset = 22, .iov = &iov, .iov_count = 1}};
        struct lq_io_job job = {.ops = ops, .count = 3, .cb = on_closed_file_job, .data = disk};
        assert_int_equal(f->io->ops->submit(f->io, &job), LIGHTQ_OK);

        f->io->ops->close(f->io, old);
        lq_file new = io_create(f, "new"); /* the descriptor's number is free for it now, if it was closed too early */
        settle(f);

        assert_int_equal(disk->called, round + 1);
        io_assert_content(f, "new", "", 0);
        f->io->ops->close(f->io, new);
        assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "old", NULL), LIGHTQ_OK);
        assert_int_equal(io_name_op(f, LQ_IO_UNLINK, "new", NULL), LIGHTQ_OK);
    }
}

static void test_io_uv_close_waits_for_running_and_cancels_waiting_jobs(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    lq_file files[4] = {io_create(f, "a"), io_create(f, "b"), io_create(f, "c"), io_create(f, "d")};
    struct many *many = many_submit(f, files);

    lq_io_uv_close(f->io, on_closed, disk);
    struct lq_io_job late = {.cb = on_job, .data = disk};
    assert_int_equal(f->io->ops->submit(f->io, &late), LIGHTQ_ECANCELED);
    assert_int_equal(disk->closed, 0);
    uv_run(&disk->loop, UV_RUN_DEFAULT);

    assert_int_equal(disk->called, MANY_JOBS);
    assert_true(disk->canceled > 0);
    assert_int_equal(disk->closed, 1);
    f->io = NULL; /* the files that were open are closed: the tear-down counts descriptors */
    free(many);
}

static void test_io_uv_too_many_jobs_are_EBUSY(void **state)
{
    struct io_fixture *f = *state;
    struct disk *disk = f->disk;
    struct lq_io_job *jobs = calloc(LQ_IO_UV_JOBS_MAX + 1, sizeof *jobs);
    assert_non_null(jobs);
    for (unsigned i = 0; i <= LQ_IO_UV_JOBS_MAX; i++) {
        jobs[i] = (struct lq_io_job){.cb = on_job, .data = disk};
        assert_int_equal(f->io->ops->submit(f->io, &jobs[i]), i < LQ_IO_UV_JOBS_MAX ? LIGHTQ_OK : LIGHTQ_EBUSY);
    }
    settle(f);

    assert_int_equal(disk->called, LQ_IO_UV_JOBS_MAX);
    assert_int_equal(f->io->ops->submit(f->io, &jobs[0]), LIGHTQ_OK);
    settle(f);
    free(jobs);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        IO_CONTRACT_TESTS(TEST),
        TEST(test_io_uv_full_disk_is_ENOSPC),
        TEST(test_io_uv_short_write_is_gone_on_with_and_its_failure_names_the_offset),
        TEST(test_io_uv_missing_root_is_ENOTFOUND),
        TEST(test_io_uv_root_that_is_a_file_is_EIO),
        TEST(test_io_uv_root_is_created_when_asked),
        TEST(test_io_uv_symbolic_link_is_refused_as_a_file),
        TEST(test_io_uv_linked_directory_is_followed),
        TEST(test_io_uv_fifo_is_refused_without_waiting),
        TEST(test_io_uv_files_and_handles_are_private),
        TEST(test_io_uv_lock_of_another_process_is_EBUSY_with_its_pid),
        TEST(test_io_uv_is_locked_tells_without_locking),
        TEST(test_io_uv_without_loop_takes_blocking_calls_only),
        TEST(test_io_uv_too_many_descriptors_names_the_remedy),
        TEST(test_io_uv_without_descriptors_short_work_goes_on),
        TEST(test_io_uv_direct_reads_see_what_is_written),
        TEST(test_io_uv_too_many_files_are_ELIMIT),
        TEST(test_io_uv_allocate_without_fallocate_writes_zeros),
        TEST(test_io_uv_allocate_makes_real_blocks),
        TEST(test_io_uv_many_jobs_at_once_all_write_their_bytes),
        TEST(test_io_uv_file_closed_under_a_job_is_never_another_file),
        TEST(test_io_uv_close_waits_for_running_and_cancels_waiting_jobs),
        TEST(test_io_uv_too_many_jobs_are_EBUSY),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
