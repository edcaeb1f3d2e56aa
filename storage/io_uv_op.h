/* storage/io_uv_op.h - the system calls of io_uv.c, private to it. Functions that take only a root and a slot run on
 * any thread: the root does not change while the io lives, and a slot is held by a reference. */
#ifndef LQ_STORAGE_IO_UV_OP_H
#define LQ_STORAGE_IO_UV_OP_H

#include <stdatomic.h>

#include "storage/io.h"

#define LQ_UV_SPARES 2

struct lq_uv_root {
    int fd;
    char *path; /* for texts; owned by io_uv.c */
    bool without_fallocate;
    /* Descriptors held for when there are no others: what is opened and closed again at once then takes the place of
     * one, on any thread. -1: taken. */
    _Atomic int *spares; /* LQ_UV_SPARES; owned by io_uv.c */
};

/* An open file. All but the atomics are written on the loop's thread while the slot is not used, and do not change
 * while it is; generation only the loop's thread reads. */
struct lq_uv_slot {
    int fd;
    bool is_writable;
    uint16_t generation;
    char *path; /* owned */
    _Atomic uint32_t references;
    _Atomic bool is_closed; /* the handle is gone; jobs may still hold the file */
    _Atomic bool is_used;   /* until the descriptor is closed */
};

/* Ends the handle; a second time does nothing. */
void lq_uv_slot_close(const struct lq_uv_root *root, struct lq_uv_slot *slot);
void lq_uv_slot_release(const struct lq_uv_root *root, struct lq_uv_slot *slot);

/* Puts spare descriptors where some are missing, if there are any to be had. */
void lq_uv_spares_fill(const struct lq_uv_root *root);
void lq_uv_spares_close(const struct lq_uv_root *root);

lightq_status lq_uv_root_open(struct lq_uv_root *root, bool create, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_lock(const struct lq_uv_root *root, int *fd, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_is_locked(const struct lq_uv_root *root, bool *is_locked, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_open(const struct lq_uv_root *root, const char *path, enum lq_open_mode mode, int *fd,
                         struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_size(const struct lq_uv_slot *slot, uint64_t *size, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_stat(const struct lq_uv_root *root, const char *path, struct lq_io_stat *stat,
                         struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_mkdir(const struct lq_uv_root *root, const char *path, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_rmdir(const struct lq_uv_root *root, const char *path, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_list(const struct lq_uv_root *root, const char *path, lq_io_list_cb cb, void *data,
                         struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_uv_space(const struct lq_uv_root *root, uint64_t *free_bytes, uint64_t *total_bytes,
                          struct lq_err *err) LQ_MUST_CHECK;
/* @slot: of op->file, NULL when that is not open, or when the op has none. */
lightq_status lq_uv_op(const struct lq_uv_root *root, struct lq_uv_slot *slot, struct lq_io_op *op,
                       struct lq_err *err) LQ_MUST_CHECK;

#endif
