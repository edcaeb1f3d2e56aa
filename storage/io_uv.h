/* storage/io_uv.h - the real disk as an io (storage/io.h): blocking calls at once, jobs in libuv's pool. The only code
 * of ours that calls the file system. Owned by the shard that owns the loop; everything here on the loop's thread.
 *
 * Everything is relative to the root directory, which is held open. A file that is a symbolic link, or no regular file,
 * is refused; a directory may be a link (so an operator can put the journal on another disk). A failed fsync is never
 * tried again. Why: docs/architecture.md. */
#ifndef LQ_STORAGE_IO_UV_H
#define LQ_STORAGE_IO_UV_H

#include <uv.h>

#include "storage/io.h"

struct lq_io_uv_options {
    bool create;            /* make the root directory (its parent must exist), durably, when it is not there */
    bool without_fallocate; /* LQ_IO_ALLOCATE writes zeros, as on file systems without fallocate(2) */
};

/* @loop is borrowed until closed; NULL: only blocking calls are made, submit gives EUNSUPPORTED, and lq_io_uv_free ends
 * it. OK | ENOTFOUND | EAUTH | EIO | ENOSPC | ENOMEM. */
lightq_status lq_io_uv_new(uv_loop_t *loop, const char *root, const struct lq_io_uv_options *options, struct lq_io **io,
                           struct lq_err *err) LQ_MUST_CHECK;

/* Jobs that have not begun are told ECANCELED, running ones finish; then files still open and the lock are let go, the
 * io is freed, and @cb runs once, later. To be called once. */
void lq_io_uv_close(struct lq_io *io, void (*cb)(void *data), void *data);

/* Ends an io that has no loop. */
void lq_io_uv_free(struct lq_io *io);

/* Whether a process holds the root's lock, without taking it and without making its file. OK | EIO. */
lightq_status lq_io_uv_is_locked(struct lq_io *io, bool *is_locked, struct lq_err *err) LQ_MUST_CHECK;

/* Jobs not yet called back. */
size_t lq_io_uv_pending(const struct lq_io *io);
/* Files open now. */
size_t lq_io_uv_open_files(const struct lq_io *io);

#define LQ_IO_UV_FILES_MAX 16384 /* open at a time: beyond it open gives ELIMIT */
#define LQ_IO_UV_JOBS_MAX  4096  /* pending at a time: beyond it submit gives EBUSY */

#endif
