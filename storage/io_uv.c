/* storage/io_uv.c - the real disk as an io: open files, jobs and their life. What an op does to a file is in
 * io_uv_op.c, which runs on the loop's thread (blocking calls) or on one of libuv's pool (jobs). The contract is in
 * storage/io.h.
 *
 * An open file is a slot of a table. Slots are found, taken and reused on the loop's thread only. A slot counts who
 * needs its descriptor: the handle itself, and each op of a job that names it, from submit on. Whoever takes the count
 * to 0, on whichever thread, closes the descriptor; so a descriptor is never closed, and its number never used for
 * another file, under a job that is on its way to it. */
#include "storage/io_uv.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/io_path.h"
#include "storage/io_uv_op.h"

/* An lq_file is its slot and, above SLOT_BITS, the slot's generation, so that a stale one is known as stale. */
#define SLOT_BITS       16
#define GENERATION_MASK 0x7fff
#define CHUNK_SLOTS     256
#define CHUNKS          (LQ_IO_UV_FILES_MAX / CHUNK_SLOTS)

struct work {
    uv_work_t request;
    struct io_uv *uv;
    struct lq_io_job *job;
    unsigned valid; /* ops before this one have references to their files; at it the job fails */
    lightq_status status;
    struct work *next;
    struct work *previous;
};

struct io_uv {
    struct lq_io io;
    uv_loop_t *loop;
    uv_timer_t timer; /* never started: its closing makes the close callback come later */
    struct lq_uv_root root;
    _Atomic int spares[LQ_UV_SPARES];
    int lock_fd;

    struct lq_uv_slot *chunks[CHUNKS];
    size_t chunk_count;
    size_t next_slot; /* where the search for a free one begins */

    struct work *active;
    struct work *spare; /* singly linked */
    size_t work_count;  /* active */

    bool is_closing;
    bool is_timer_closing;
    void (*closed_cb)(void *data);
    void *closed_data;
};

static struct io_uv *uv_of(const struct lq_io *io)
{
    return (struct io_uv *)io; /* io is its first member */
}

/* ---- open files ---- */

static struct lq_uv_slot *slot_at(const struct io_uv *uv, size_t i)
{
    return &uv->chunks[i / CHUNK_SLOTS][i % CHUNK_SLOTS];
}

static struct lq_uv_slot *slot_find(const struct io_uv *uv, lq_file file)
{
    size_t i = (size_t)file & ((1u << SLOT_BITS) - 1);
    if (file < 0 || i >= uv->chunk_count * CHUNK_SLOTS) {
        return NULL;
    }
    struct lq_uv_slot *slot = slot_at(uv, i);
    bool is_open = slot->generation == (uint32_t)file >> SLOT_BITS && atomic_load(&slot->is_used) &&
                   !atomic_load(&slot->is_closed);
    return is_open ? slot : NULL;
}

static lightq_status slot_take(struct io_uv *uv, size_t *i, struct lq_err *err)
{
    size_t count = uv->chunk_count * CHUNK_SLOTS;
    for (size_t tried = 0; tried < count; tried++) {
        *i = (uv->next_slot + tried) % count; /* round robin: the search is short, and a stale handle stays stale */
        if (!atomic_load(&slot_at(uv, *i)->is_used)) {
            uv->next_slot = *i + 1;
            return LIGHTQ_OK;
        }
    }
    *i = count;
    if (uv->chunk_count == CHUNKS) {
        return lq_err_set(err, LIGHTQ_ELIMIT, "%d files are open under %s, which is the most", LQ_IO_UV_FILES_MAX,
                          uv->root.path);
    }
    struct lq_uv_slot *chunk = calloc(CHUNK_SLOTS, sizeof *chunk);
    if (chunk == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for open files");
    }
    uv->chunks[uv->chunk_count++] = chunk;
    return LIGHTQ_OK;
}

static lightq_status uv_open(struct lq_io *io, const char *path, enum lq_open_mode mode, lq_file *file,
                             struct lq_err *err)
{
    struct io_uv *uv = uv_of(io);
    size_t i;
    lightq_status status = lq_io_path_check(path, false, err);
    if (status == LIGHTQ_OK) {
        status = slot_take(uv, &i, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "open %s: out of memory", path);
    }
    int fd;
    status = lq_uv_open(&uv->root, path, mode, &fd, err);
    if (status != LIGHTQ_OK) {
        free(copy);
        return status;
    }
    struct lq_uv_slot *slot = slot_at(uv, i);
    slot->fd = fd;
    slot->path = copy;
    slot->is_writable = mode == LQ_OPEN_WRITE || mode == LQ_OPEN_CREATE;
    slot->generation = (uint16_t)((slot->generation + 1) & GENERATION_MASK);
    atomic_store(&slot->is_closed, false);
    atomic_store(&slot->references, 1);
    atomic_store(&slot->is_used, true);
    *file = (lq_file)((uint32_t)slot->generation << SLOT_BITS | (uint32_t)i);
    return LIGHTQ_OK;
}

static void uv_close_file(struct lq_io *io, lq_file file)
{
    struct lq_uv_slot *slot = slot_find(uv_of(io), file);
    if (slot != NULL) {
        lq_uv_slot_close(&uv_of(io)->root, slot);
    }
}

static lightq_status uv_size(struct lq_io *io, lq_file file, uint64_t *size, struct lq_err *err)
{
    struct lq_uv_slot *slot = slot_find(uv_of(io), file);
    if (slot == NULL) {
        return lq_err_from_errno(err, EBADF, "file %" PRId32 " is not open", file);
    }
    return lq_uv_size(slot, size, err);
}

/* ---- blocking calls ---- */

static bool names_file(enum lq_io_kind kind)
{
    return kind != LQ_IO_RENAME && kind != LQ_IO_UNLINK && kind != LQ_IO_SYNC_DIR;
}

static lightq_status uv_run_op(struct lq_io *io, struct lq_io_op *op, struct lq_err *err)
{
    struct io_uv *uv = uv_of(io);
    struct lq_uv_slot *slot = names_file(op->kind) ? slot_find(uv, op->file) : NULL;
    return lq_uv_op(&uv->root, slot, op, err);
}

static lightq_status uv_stat(struct lq_io *io, const char *path, struct lq_io_stat *stat, struct lq_err *err)
{
    return lq_uv_stat(&uv_of(io)->root, path, stat, err);
}

static lightq_status uv_mkdir(struct lq_io *io, const char *path, struct lq_err *err)
{
    return lq_uv_mkdir(&uv_of(io)->root, path, err);
}

static lightq_status uv_rmdir(struct lq_io *io, const char *path, struct lq_err *err)
{
    return lq_uv_rmdir(&uv_of(io)->root, path, err);
}

static lightq_status uv_list(struct lq_io *io, const char *path, lq_io_list_cb cb, void *data, struct lq_err *err)
{
    return lq_uv_list(&uv_of(io)->root, path, cb, data, err);
}

static lightq_status uv_space(struct lq_io *io, uint64_t *free_bytes, uint64_t *total_bytes, struct lq_err *err)
{
    return lq_uv_space(&uv_of(io)->root, free_bytes, total_bytes, err);
}

static lightq_status uv_lock(struct lq_io *io, struct lq_err *err)
{
    struct io_uv *uv = uv_of(io);
    if (uv->lock_fd >= 0) {
        return lq_err_set(err, LIGHTQ_EBUSY, "%s is locked by this process already", uv->root.path);
    }
    return lq_uv_lock(&uv->root, &uv->lock_fd, err);
}

/* ---- jobs ---- */

/* In order: the slots that ops [0, valid) name have a reference each. Releases them. */
static void work_release(const struct work *work)
{
    for (unsigned i = 0; i < work->valid; i++) {
        const struct lq_io_op *op = &work->job->ops[i];
        if (names_file(op->kind)) {
            lq_uv_slot_release(&work->uv->root, slot_at(work->uv, (size_t)op->file & ((1u << SLOT_BITS) - 1)));
        }
    }
}

/* On a pool thread. Of the io it reads only what does not change while jobs are pending. */
static void on_work(uv_work_t *request)
{
    struct work *work = request->data;
    struct lq_io_job *job = work->job;
    work->status = LIGHTQ_OK;
    for (unsigned i = 0; i < job->count && work->status == LIGHTQ_OK; i++) {
        struct lq_io_op *op = &job->ops[i];
        struct lq_uv_slot *slot = NULL;
        if (names_file(op->kind) && i < work->valid) {
            slot = slot_at(work->uv, (size_t)op->file & ((1u << SLOT_BITS) - 1));
        }
        work->status = lq_uv_op(&work->uv->root, slot, op, &job->err);
        if (work->status != LIGHTQ_OK) {
            job->failed = i;
        }
    }
    work_release(work); /* here, so that freeing a removed file's blocks is not the loop's business */
}

/* Lets go of all that @uv holds, open files too. */
static void destroy(struct io_uv *uv)
{
    for (size_t i = 0; i < uv->chunk_count * CHUNK_SLOTS; i++) {
        if (atomic_load(&slot_at(uv, i)->is_used)) {
            lq_uv_slot_close(&uv->root, slot_at(uv, i));
        }
    }
    for (size_t i = 0; i < uv->chunk_count; i++) {
        free(uv->chunks[i]);
    }
    while (uv->spare != NULL) {
        struct work *work = uv->spare;
        uv->spare = work->next;
        free(work);
    }
    if (uv->lock_fd >= 0) {
        close(uv->lock_fd);
    }
    lq_uv_spares_close(&uv->root);
    close(uv->root.fd);
    free(uv->root.path);
    free(uv);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct io_uv *uv = handle->data;
    void (*cb)(void *data) = uv->closed_cb;
    void *data = uv->closed_data;
    destroy(uv);
    cb(data);
}

/* The only place that ends the life of @uv: no job may be left. */
static void maybe_closed(struct io_uv *uv)
{
    if (uv->is_closing && uv->work_count == 0 && !uv->is_timer_closing) {
        uv->is_timer_closing = true;
        uv_close((uv_handle_t *)&uv->timer, on_timer_closed);
    }
}

static void on_after_work(uv_work_t *request, int uv_status)
{
    struct work *work = request->data;
    struct io_uv *uv = work->uv;
    struct lq_io_job *job = work->job;
    lightq_status status = work->status;
    if (uv_status == UV_ECANCELED) {
        work_release(work);
        job->failed = 0;
        status = lq_err_set(&job->err, LIGHTQ_ECANCELED, "%s: closed before the job began", uv->root.path);
    }
    if (work->previous != NULL) {
        work->previous->next = work->next;
    } else {
        uv->active = work->next;
    }
    if (work->next != NULL) {
        work->next->previous = work->previous;
    }
    work->next = uv->spare;
    uv->spare = work;
    job->cb(job, status); /* may submit again or close; the job may be gone */
    uv->work_count--;
    maybe_closed(uv);
}

/* Takes a reference to the file of each op, up to the first that names none. */
static unsigned job_hold_files(struct io_uv *uv, const struct lq_io_job *job)
{
    for (unsigned i = 0; i < job->count; i++) {
        if (!names_file(job->ops[i].kind)) {
            continue;
        }
        struct lq_uv_slot *slot = slot_find(uv, job->ops[i].file);
        if (slot == NULL) {
            return i;
        }
        atomic_fetch_add(&slot->references, 1);
    }
    return job->count;
}

static lightq_status uv_submit(struct lq_io *io, struct lq_io_job *job)
{
    struct io_uv *uv = uv_of(io);
    if (uv->loop == NULL) {
        return LIGHTQ_EUNSUPPORTED;
    }
    if (uv->is_closing) {
        return LIGHTQ_ECANCELED;
    }
    if (uv->work_count == LQ_IO_UV_JOBS_MAX) {
        return LIGHTQ_EBUSY;
    }
    struct work *work = uv->spare;
    if (work != NULL) {
        uv->spare = work->next;
    } else {
        work = malloc(sizeof *work);
        if (work == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    job->failed = 0;
    job->err = (struct lq_err){0};
    *work = (struct work){.uv = uv, .job = job, .next = uv->active};
    work->request.data = work;
    work->valid = job_hold_files(uv, job);
    if (uv->active != NULL) {
        uv->active->previous = work;
    }
    uv->active = work;
    uv->work_count++;
    int result = uv_queue_work(uv->loop, &work->request, on_work, on_after_work);
    assert(result == 0); /* fails only without a work callback */
    return LIGHTQ_OK;
}

/* ---- life ---- */

static const struct lq_io_ops uv_ops = {
    .open = uv_open,
    .close = uv_close_file,
    .stat = uv_stat,
    .size = uv_size,
    .mkdir = uv_mkdir,
    .rmdir = uv_rmdir,
    .list = uv_list,
    .run = uv_run_op,
    .submit = uv_submit,
    .space = uv_space,
    .lock = uv_lock,
};

lightq_status lq_io_uv_new(uv_loop_t *loop, const char *root, const struct lq_io_uv_options *options, struct lq_io **io,
                           struct lq_err *err)
{
    struct io_uv *uv = calloc(1, sizeof *uv);
    if (uv == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "open %s: out of memory", root);
    }
    uv->io.ops = &uv_ops;
    uv->loop = loop;
    uv->lock_fd = -1;
    uv->root.without_fallocate = options->without_fallocate;
    uv->root.spares = uv->spares;
    for (unsigned i = 0; i < LQ_UV_SPARES; i++) {
        atomic_init(&uv->spares[i], -1);
    }
    lightq_status status = LIGHTQ_OK;
    uv->root.path = strdup(root);
    if (uv->root.path == NULL) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "open %s: out of memory", root);
    } else {
        status = lq_uv_root_open(&uv->root, options->create, err);
    }
    if (status != LIGHTQ_OK) {
        free(uv->root.path);
        free(uv);
        return status;
    }
    lq_uv_spares_fill(&uv->root);
    if (loop != NULL) {
        int result = uv_timer_init(loop, &uv->timer);
        assert(result == 0); /* it always is */
        uv->timer.data = uv;
    }
    *io = &uv->io;
    return LIGHTQ_OK;
}

void lq_io_uv_free(struct lq_io *io)
{
    struct io_uv *uv = uv_of(io);
    assert(uv->loop == NULL);
    destroy(uv);
}

void lq_io_uv_close(struct lq_io *io, void (*cb)(void *data), void *data)
{
    struct io_uv *uv = uv_of(io);
    assert(uv->loop != NULL && !uv->is_closing);
    uv->is_closing = true;
    uv->closed_cb = cb;
    uv->closed_data = data;
    for (struct work *work = uv->active; work != NULL; work = work->next) {
        (void)uv_cancel((uv_req_t *)&work->request); /* EBUSY: it runs, and will finish */
    }
    maybe_closed(uv);
}

lightq_status lq_io_uv_is_locked(struct lq_io *io, bool *is_locked, struct lq_err *err)
{
    return lq_uv_is_locked(&uv_of(io)->root, is_locked, err);
}

size_t lq_io_uv_pending(const struct lq_io *io)
{
    return uv_of(io)->work_count;
}

size_t lq_io_uv_open_files(const struct lq_io *io)
{
    const struct io_uv *uv = uv_of(io);
    size_t count = 0;
    for (size_t i = 0; i < uv->chunk_count * CHUNK_SLOTS; i++) {
        count += atomic_load(&slot_at(uv, i)->is_used) && !atomic_load(&slot_at(uv, i)->is_closed);
    }
    return count;
}
