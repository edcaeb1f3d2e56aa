/* storage/io_uv_op.c - the system calls of the real disk. Called by io_uv.c on the loop's thread or on one of libuv's
 * pool. Short reads and writes are gone on with; what a signal interrupted is tried again, but never an fsync: after a
 * failed one the kernel has dropped what it should have written, and the second would say OK. */
#include "storage/io_uv_op.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "storage/io_path.h"

#define LOCK_NAME      "lock"
#define PID_TEXT_BYTES 32
#define FILE_MODE      0600
#define DIR_MODE       0700
#define ZERO_BYTES     65536
#define IOV_PIECE      256 /* iovecs in one call: below IOV_MAX, and a small stack frame */

_Static_assert(IOV_PIECE <= IOV_MAX, "a piece must fit in one call");

/* The directory an op works in: "" is the root itself. */
static const char *dir_name(const char *path)
{
    return path[0] == '\0' ? "." : path;
}

/* ---- spare descriptors ---- */

static bool is_limit(int errnum)
{
    return errnum == EMFILE || errnum == ENFILE;
}

void lq_uv_spares_fill(const struct lq_uv_root *root)
{
    for (unsigned i = 0; i < LQ_UV_SPARES; i++) {
        int none = -1;
        if (atomic_load(&root->spares[i]) >= 0) {
            continue;
        }
        int fd = fcntl(root->fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0 && !atomic_compare_exchange_strong(&root->spares[i], &none, fd)) {
            close(fd);
        }
    }
}

void lq_uv_spares_close(const struct lq_uv_root *root)
{
    for (unsigned i = 0; i < LQ_UV_SPARES; i++) {
        int fd = atomic_exchange(&root->spares[i], -1);
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* Opens what is closed again at once. */
static int open_shortly(const struct lq_uv_root *root, const char *path, int flags)
{
    int fd = openat(root->fd, path, flags);
    for (unsigned i = 0; i < LQ_UV_SPARES && fd < 0 && is_limit(errno); i++) {
        int spare = atomic_exchange(&root->spares[i], -1);
        if (spare >= 0) {
            close(spare);
            fd = openat(root->fd, path, flags);
        }
    }
    return fd;
}

/* ---- slots ---- */

void lq_uv_slot_release(const struct lq_uv_root *root, struct lq_uv_slot *slot)
{
    if (atomic_fetch_sub(&slot->references, 1) > 1) {
        return;
    }
    close(slot->fd); /* its errors mean nothing: what matters was synced */
    lq_uv_spares_fill(root);
    free(slot->path);
    slot->path = NULL;
    atomic_store(&slot->is_used, false); /* last: from here on the loop's thread may take the slot */
}

void lq_uv_slot_close(const struct lq_uv_root *root, struct lq_uv_slot *slot)
{
    if (!atomic_exchange(&slot->is_closed, true)) {
        lq_uv_slot_release(root, slot);
    }
}

/* ---- root ---- */

/* Makes root->path a directory, and its name durable. */
static lightq_status root_create(const struct lq_uv_root *root, struct lq_err *err)
{
    if (mkdir(root->path, DIR_MODE) != 0) {
        return errno == EEXIST ? LIGHTQ_OK : lq_err_from_errno(err, errno, "create directory %s", root->path);
    }
    char *copy = strdup(root->path);
    if (copy == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "create directory %s: out of memory", root->path);
    }
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0) {
        return lq_err_from_errno(err, errno, "open the directory of %s", root->path);
    }
    lightq_status status = LIGHTQ_OK;
    if (fsync(fd) != 0) {
        status = lq_err_from_errno(err, errno, "sync the directory of %s", root->path);
    }
    close(fd);
    return status;
}

lightq_status lq_uv_root_open(struct lq_uv_root *root, bool create, struct lq_err *err)
{
    lightq_status status = create ? root_create(root, err) : LIGHTQ_OK;
    if (status != LIGHTQ_OK) {
        return status;
    }
    root->fd = open(root->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root->fd >= 0 ? LIGHTQ_OK : lq_err_from_errno(err, errno, "open directory %s", root->path);
}

static lightq_status lock_refused(const struct lq_uv_root *root, int fd, int errnum, struct lq_err *err)
{
    if (errnum != EWOULDBLOCK) {
        return lq_err_from_errno(err, errnum, "lock %s/" LOCK_NAME, root->path);
    }
    char text[PID_TEXT_BYTES] = {0};
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    bool is_pid = size > 0 && strspn(text, "0123456789") == (size_t)size;
    return lq_err_set(err, LIGHTQ_EBUSY,
                      "%s/" LOCK_NAME " is held by another process%s%s: stop that one, or use another data directory",
                      root->path, is_pid ? ", pid " : "", is_pid ? text : "");
}

lightq_status lq_uv_lock(const struct lq_uv_root *root, int *fd, struct lq_err *err)
{
    int lock = openat(root->fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
    if (lock < 0) {
        return lq_err_from_errno(err, errno, "open %s/" LOCK_NAME, root->path);
    }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        lightq_status status = lock_refused(root, lock, errno, err);
        close(lock);
        return status;
    }
    char text[PID_TEXT_BYTES];
    int size = snprintf(text, sizeof text, "%d", (int)getpid());
    /* Only to help whoever is refused: a failure here changes nothing. */
    bool is_told = ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)size, 0) == size;
    (void)is_told;
    *fd = lock;
    return LIGHTQ_OK;
}

lightq_status lq_uv_is_locked(const struct lq_uv_root *root, bool *is_locked, struct lq_err *err)
{
    *is_locked = false;
    int fd = openat(root->fd, LOCK_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT ? LIGHTQ_OK : lq_err_from_errno(err, errno, "open %s/" LOCK_NAME, root->path);
    }
    lightq_status status = LIGHTQ_OK;
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) { /* shared, and let go at once: nobody is held up */
        *is_locked = errno == EWOULDBLOCK;
        status = *is_locked ? LIGHTQ_OK : lq_err_from_errno(err, errno, "ask for the lock of %s", root->path);
    }
    close(fd);
    return status;
}

lightq_status lq_uv_space(const struct lq_uv_root *root, uint64_t *free_bytes, uint64_t *total_bytes,
                          struct lq_err *err)
{
    struct statvfs vfs;
    if (fstatvfs(root->fd, &vfs) != 0) {
        return lq_err_from_errno(err, errno, "ask for the space of %s", root->path);
    }
    *free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    *total_bytes = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    return LIGHTQ_OK;
}

/* ---- names ---- */

static int regular_check(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return errno;
    }
    if (S_ISDIR(st.st_mode)) {
        return EISDIR;
    }
    return S_ISREG(st.st_mode) ? 0 : EINVAL;
}

lightq_status lq_uv_open(const struct lq_uv_root *root, const char *path, enum lq_open_mode mode, int *fd,
                         struct lq_err *err)
{
    /* O_NONBLOCK: a FIFO in place of a file must not hold us up. */
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const char *verb = "open";
    switch (mode) {
    case LQ_OPEN_READ:
        flags |= O_RDONLY;
        break;
    case LQ_OPEN_WRITE:
        flags |= O_RDWR;
        break;
    case LQ_OPEN_CREATE:
        flags |= O_RDWR | O_CREAT | O_EXCL;
        verb = "create";
        break;
    case LQ_OPEN_DIRECT:
        flags |= O_RDONLY | O_DIRECT;
        break;
    }
    *fd = mode == LQ_OPEN_READ ? open_shortly(root, path, flags) : openat(root->fd, path, flags, FILE_MODE);
    if (*fd < 0 && errno == EINVAL && mode == LQ_OPEN_DIRECT) { /* as tmpfs says */
        *fd = openat(root->fd, path, flags & ~O_DIRECT, FILE_MODE);
    }
    if (*fd < 0) {
        return lq_err_from_errno(err, errno, "%s%s %s/%s",
                                 is_limit(errno) ? "raise the limit of open files (ulimit -n): " : "", verb, root->path,
                                 path);
    }
    int errnum = regular_check(*fd);
    if (errnum != 0) {
        close(*fd);
        return lq_err_from_errno(err, errnum, "%s %s/%s: not a regular file", verb, root->path, path);
    }
    return LIGHTQ_OK;
}

lightq_status lq_uv_size(const struct lq_uv_slot *slot, uint64_t *size, struct lq_err *err)
{
    struct stat st;
    if (fstat(slot->fd, &st) != 0) {
        return lq_err_from_errno(err, errno, "ask for the size of %s", slot->path);
    }
    *size = (uint64_t)st.st_size;
    return LIGHTQ_OK;
}

lightq_status lq_uv_stat(const struct lq_uv_root *root, const char *path, struct lq_io_stat *stat, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(path, true, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct stat st;
    if (fstatat(root->fd, dir_name(path), &st, 0) != 0) {
        return lq_err_from_errno(err, errno, "stat %s/%s", root->path, path);
    }
    *stat = (struct lq_io_stat){.is_dir = S_ISDIR(st.st_mode), .size = S_ISDIR(st.st_mode) ? 0 : (uint64_t)st.st_size};
    return LIGHTQ_OK;
}

lightq_status lq_uv_mkdir(const struct lq_uv_root *root, const char *path, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(path, false, err);
    if (status == LIGHTQ_OK && mkdirat(root->fd, path, DIR_MODE) != 0) {
        status = lq_err_from_errno(err, errno, "create directory %s/%s", root->path, path);
    }
    return status;
}

lightq_status lq_uv_rmdir(const struct lq_uv_root *root, const char *path, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(path, false, err);
    if (status == LIGHTQ_OK && unlinkat(root->fd, path, AT_REMOVEDIR) != 0) {
        status = lq_err_from_errno(err, errno, "remove directory %s/%s", root->path, path);
    }
    return status;
}

static bool entry_is_dir(int dir_fd, const struct dirent *entry)
{
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG) {
        return entry->d_type == DT_DIR;
    }
    struct stat st;
    return fstatat(dir_fd, entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int list_entries(DIR *dir, lq_io_list_cb cb, void *data)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            return errno;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            cb(data, entry->d_name, entry_is_dir(dirfd(dir), entry));
        }
    }
}

lightq_status lq_uv_list(const struct lq_uv_root *root, const char *path, lq_io_list_cb cb, void *data,
                         struct lq_err *err)
{
    lightq_status status = lq_io_path_check(path, true, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    int fd = open_shortly(root, dir_name(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
        }
        return lq_err_from_errno(err, errnum, "list %s/%s", root->path, path);
    }
    int errnum = list_entries(dir, cb, data);
    closedir(dir);
    lq_uv_spares_fill(root);
    return errnum == 0 ? LIGHTQ_OK : lq_err_from_errno(err, errnum, "list %s/%s", root->path, path);
}

/* ---- bytes ---- */

/* Where in an op's iovecs the next byte comes from or goes to. */
struct cursor {
    const struct iovec *iov;
    unsigned left;
    size_t skip; /* of *iov */
};

/* The next iovecs that are not empty, at most IOV_PIECE. */
static int cursor_piece(const struct cursor *cursor, struct iovec *piece)
{
    int count = 0;
    size_t skip = cursor->skip;
    for (unsigned i = 0; i < cursor->left && count < IOV_PIECE; i++) {
        size_t size = cursor->iov[i].iov_len - skip;
        if (size > 0) {
            piece[count++] = (struct iovec){.iov_base = (char *)cursor->iov[i].iov_base + skip, .iov_len = size};
        }
        skip = 0;
    }
    return count;
}

static void cursor_advance(struct cursor *cursor, size_t size)
{
    while (cursor->left > 0 && size >= cursor->iov->iov_len - cursor->skip) {
        size -= cursor->iov->iov_len - cursor->skip;
        cursor->iov++;
        cursor->left--;
        cursor->skip = 0;
    }
    cursor->skip += size;
}

static lightq_status do_write(const struct lq_uv_root *root, const struct lq_uv_slot *slot, const struct lq_io_op *op,
                              struct lq_err *err)
{
    struct cursor cursor = {.iov = op->iov, .left = op->iov_count};
    struct iovec piece[IOV_PIECE];
    uint64_t offset = op->offset;
    for (int count; (count = cursor_piece(&cursor, piece)) > 0;) {
        ssize_t size = pwritev(slot->fd, piece, count, (off_t)offset);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return lq_err_from_errno(err, size < 0 ? errno : EIO, "write %s/%s at offset %" PRIu64, root->path,
                                     slot->path, offset);
        }
        offset += (uint64_t)size;
        cursor_advance(&cursor, (size_t)size);
    }
    return LIGHTQ_OK;
}

/* A file system that took O_DIRECT and has stricter rules than LQ_IO_DIRECT_BYTES is read through the page cache. */
static bool stop_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static lightq_status do_read(const struct lq_uv_root *root, const struct lq_uv_slot *slot, struct lq_io_op *op,
                             struct lq_err *err)
{
    struct cursor cursor = {.iov = op->iov, .left = op->iov_count};
    struct iovec piece[IOV_PIECE];
    op->result = 0;
    for (int count; (count = cursor_piece(&cursor, piece)) > 0;) {
        ssize_t size = preadv(slot->fd, piece, count, (off_t)(op->offset + op->result));
        if (size < 0 && (errno == EINTR || (errno == EINVAL && stop_direct(slot->fd)))) {
            continue;
        }
        if (size < 0) {
            return lq_err_from_errno(err, errno, "read %s/%s at offset %" PRIu64, root->path, slot->path,
                                     op->offset + op->result);
        }
        if (size == 0) {
            break; /* the end of the file */
        }
        op->result += (uint64_t)size;
        cursor_advance(&cursor, (size_t)size);
    }
    return LIGHTQ_OK;
}

/* Instead of fallocate: zeros from the file's end to @end. */
static lightq_status write_zeros(const struct lq_uv_root *root, const struct lq_uv_slot *slot, uint64_t end,
                                 struct lq_err *err)
{
    static const uint8_t zeros[ZERO_BYTES];
    uint64_t at = 0;
    lightq_status status = lq_uv_size(slot, &at, err);
    while (status == LIGHTQ_OK && at < end) {
        size_t size = end - at < ZERO_BYTES ? (size_t)(end - at) : ZERO_BYTES;
        struct iovec iov = {.iov_base = (void *)zeros, .iov_len = size};
        struct lq_io_op op = {.kind = LQ_IO_WRITE, .offset = at, .iov = &iov, .iov_count = 1};
        status = do_write(root, slot, &op, err);
        at += size;
    }
    return status;
}

static lightq_status do_allocate(const struct lq_uv_root *root, const struct lq_uv_slot *slot,
                                 const struct lq_io_op *op, struct lq_err *err)
{
    if (op->size == 0) {
        return LIGHTQ_OK;
    }
    int result = root->without_fallocate ? -1 : 0;
    int errnum = EOPNOTSUPP;
    while (result == 0) {
        result = fallocate(slot->fd, 0, (off_t)op->offset, (off_t)op->size);
        errnum = errno;
        if (result == 0) {
            return LIGHTQ_OK;
        }
        result = errnum == EINTR ? 0 : -1;
    }
    if (errnum == EOPNOTSUPP || errnum == ENOSYS) {
        return write_zeros(root, slot, op->offset + op->size, err);
    }
    return lq_err_from_errno(err, errnum, "allocate %" PRIu64 " bytes of %s/%s at offset %" PRIu64, op->size,
                             root->path, slot->path, op->offset);
}

static lightq_status do_truncate(const struct lq_uv_root *root, const struct lq_uv_slot *slot,
                                 const struct lq_io_op *op, struct lq_err *err)
{
    int result;
    do {
        result = ftruncate(slot->fd, (off_t)op->offset);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? LIGHTQ_OK
                       : lq_err_from_errno(err, errno, "truncate %s/%s to %" PRIu64 " bytes", root->path, slot->path,
                                           op->offset);
}

static lightq_status file_op(const struct lq_uv_root *root, struct lq_uv_slot *slot, struct lq_io_op *op,
                             struct lq_err *err)
{
    bool to_write = op->kind == LQ_IO_WRITE || op->kind == LQ_IO_ALLOCATE || op->kind == LQ_IO_TRUNCATE;
    if (slot == NULL || atomic_load(&slot->is_closed)) {
        return lq_err_from_errno(err, EBADF, "file %" PRId32 " of %s is not open", op->file, root->path);
    }
    if (to_write && !slot->is_writable) {
        return lq_err_from_errno(err, EBADF, "%s/%s is open for reading only", root->path, slot->path);
    }
    switch (op->kind) {
    case LQ_IO_WRITE:
        return do_write(root, slot, op, err);
    case LQ_IO_READ:
        return do_read(root, slot, op, err);
    case LQ_IO_ALLOCATE:
        return do_allocate(root, slot, op, err);
    case LQ_IO_TRUNCATE:
        return do_truncate(root, slot, op, err);
    case LQ_IO_SYNC:
        return fdatasync(slot->fd) == 0 ? LIGHTQ_OK
                                        : lq_err_from_errno(err, errno, "sync %s/%s", root->path, slot->path);
    default: /* LQ_IO_CLOSE */
        lq_uv_slot_close(root, slot);
        return LIGHTQ_OK;
    }
}

/* ---- ops on names ---- */

static lightq_status do_rename(const struct lq_uv_root *root, const struct lq_io_op *op, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(op->path, false, err);
    if (status == LIGHTQ_OK) {
        status = lq_io_path_check(op->path_to, false, err);
    }
    if (status == LIGHTQ_OK && renameat(root->fd, op->path, root->fd, op->path_to) != 0) {
        status = lq_err_from_errno(err, errno, "rename %s/%s to %s", root->path, op->path, op->path_to);
    }
    return status;
}

static lightq_status do_unlink(const struct lq_uv_root *root, const struct lq_io_op *op, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(op->path, false, err);
    if (status == LIGHTQ_OK && unlinkat(root->fd, op->path, 0) != 0 && errno != ENOENT) {
        status = lq_err_from_errno(err, errno, "remove %s/%s", root->path, op->path);
    }
    return status;
}

static lightq_status do_sync_dir(const struct lq_uv_root *root, const struct lq_io_op *op, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(op->path, true, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    int fd = open_shortly(root, dir_name(op->path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return lq_err_from_errno(err, errno, "open directory %s/%s", root->path, op->path);
    }
    if (fsync(fd) != 0) {
        status = lq_err_from_errno(err, errno, "sync directory %s/%s", root->path, op->path);
    }
    close(fd);
    lq_uv_spares_fill(root);
    return status;
}

lightq_status lq_uv_op(const struct lq_uv_root *root, struct lq_uv_slot *slot, struct lq_io_op *op, struct lq_err *err)
{
    switch (op->kind) {
    case LQ_IO_WRITE:
    case LQ_IO_READ:
    case LQ_IO_ALLOCATE:
    case LQ_IO_TRUNCATE:
    case LQ_IO_SYNC:
    case LQ_IO_CLOSE:
        return file_op(root, slot, op, err);
    case LQ_IO_RENAME:
        return do_rename(root, op, err);
    case LQ_IO_UNLINK:
        return do_unlink(root, op, err);
    case LQ_IO_SYNC_DIR:
        return do_sync_dir(root, op, err);
    }
    return lq_err_set(err, LIGHTQ_EINVAL, "unknown operation %d", (int)op->kind);
}
