/* storage/io.h - the disk as a vtable. io_uv.c is the real one (the only file that calls the file system), io_mem.c a
 * fault-injecting one for tests and simulation. Nothing above this header knows which.
 *
 * Two ways to call it: at once (blocking: at start, and for small metadata work), and as a job: a short program of
 * writes, syncs, truncations, creations, renames and removals that runs in order on a pool thread and stops at its
 * first failure. The bytes a job writes are pinned until its callback. Loop thread only. Why: docs/architecture.md. */
#ifndef LQ_STORAGE_IO_H
#define LQ_STORAGE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "client/base/err.h"

struct lq_io;

/* An open file: a number given by the io (not a file descriptor), never given twice in short succession: a stale one is
 * refused with EIO. Closing a file that a pending job names makes the job's remaining ops on it fail so. */
typedef int32_t lq_file;
#define LQ_FILE_NONE (-1)

enum lq_open_mode {
    LQ_OPEN_READ,   /* must exist; for what is closed again at once: some are always to be had */
    LQ_OPEN_WRITE,  /* must exist; read and write */
    LQ_OPEN_CREATE, /* must not exist; read and write */
    LQ_OPEN_DIRECT, /* must exist; only to read, from the medium itself and not from the page cache where the file
                       system can: memory, offset and size of a read are multiples of LQ_IO_DIRECT_BYTES */
};

#define LQ_IO_DIRECT_BYTES 4096

enum lq_io_kind {
    LQ_IO_WRITE,    /* iovecs at offset, all of it (short writes are gone on with) */
    LQ_IO_SYNC,     /* fdatasync of file */
    LQ_IO_ALLOCATE, /* make [offset, offset+size) of the file real blocks, extending it with zeros (fallocate) */
    LQ_IO_TRUNCATE, /* to offset bytes */
    LQ_IO_RENAME,   /* path to path_to, replacing */
    LQ_IO_UNLINK,   /* path; a missing one is OK */
    LQ_IO_SYNC_DIR, /* fsync of the directory path */
    LQ_IO_READ,     /* into iovecs from offset; short at the file's end: result has the bytes read */
    LQ_IO_CLOSE,    /* file */
};

struct lq_io_op {
    enum lq_io_kind kind;
    lq_file file;
    uint64_t offset;
    uint64_t size;
    const struct iovec *iov; /* pinned until the job's callback */
    unsigned iov_count;      /* no bound: split into IOV_MAX pieces inside */
    const char *path;        /* relative to the io's root; pinned */
    const char *path_to;
    uint64_t result; /* bytes read */
};

/* Belongs to the caller and is pinned from submit to callback. */
struct lq_io_job {
    struct lq_io_op *ops;
    unsigned count;
    unsigned failed; /* the op that failed, when status is not OK */
    struct lq_err err;
    void (*cb)(struct lq_io_job *job, lightq_status status); /* OK | EIO | ENOSPC | ECANCELED | that of the failed op */
    void *data;
    void *internal[4];
};

struct lq_io_stat {
    bool is_dir;
    uint64_t size;
};

typedef void (*lq_io_list_cb)(void *data, const char *name, bool is_dir);

/* Paths are relative to the io's root, with single '/' between names; "" is the root itself; "." and ".." are refused
 * (EINVAL). Statuses come from errno values (client/base/err.h): ENOTFOUND, EEXISTS, ENOSPC, EAUTH, ENOMEM, ELIMIT (no
 * descriptor for an open, a list or a directory's sync: nothing was done), else EIO (a directory that is not empty, a
 * directory where a file should be, a handle that is not open). */
struct lq_io_ops {
    lightq_status (*open)(struct lq_io *io, const char *path, enum lq_open_mode mode, lq_file *file,
                          struct lq_err *err);
    void (*close)(struct lq_io *io, lq_file file);
    lightq_status (*stat)(struct lq_io *io, const char *path, struct lq_io_stat *stat, struct lq_err *err);
    lightq_status (*size)(struct lq_io *io, lq_file file, uint64_t *size, struct lq_err *err);
    lightq_status (*mkdir)(struct lq_io *io, const char *path, struct lq_err *err); /* EEXISTS when there */
    lightq_status (*rmdir)(struct lq_io *io, const char *path, struct lq_err *err);
    lightq_status (*list)(struct lq_io *io, const char *path, lq_io_list_cb cb, void *data, struct lq_err *err);
    /* Blocking: one op of the kinds above. */
    lightq_status (*run)(struct lq_io *io, struct lq_io_op *op, struct lq_err *err);
    /* Asynchronous. OK: job->cb runs once, later, never inside. Jobs run concurrently with one another. EBUSY: too many
     * are pending; ENOMEM; ECANCELED: the io is closing. */
    lightq_status (*submit)(struct lq_io *io, struct lq_io_job *job);
    /* Bytes free for us on the file system, and its size. */
    lightq_status (*space)(struct lq_io *io, uint64_t *free_bytes, uint64_t *total_bytes, struct lq_err *err);
    /* Exclusive lock on the root, held until the io closes: EBUSY when another process, or this one, has it. */
    lightq_status (*lock)(struct lq_io *io, struct lq_err *err);
};

struct lq_io {
    const struct lq_io_ops *ops;
};

#endif
