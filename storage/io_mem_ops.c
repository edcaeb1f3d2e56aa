/* storage/io_mem_ops.c - the in-memory disk's vtable: open files and what can be done with them and with names. Called
 * through storage/io.h; asks io_mem.c about the fate of every call, and io_mem_tree.c and io_mem_file.c to carry it
 * out. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "storage/io_mem_state.h"

/* ---- open files ---- */

static struct lq_mem_handle *handle_find(struct lq_io_mem *mem, lq_file file)
{
    if (file < 0) {
        return NULL;
    }
    size_t slot = (size_t)file & ((1u << LQ_MEM_SLOT_BITS) - 1);
    if (slot >= mem->handle_count || mem->handles[slot].node == NULL ||
        mem->handles[slot].generation != (uint32_t)file >> LQ_MEM_SLOT_BITS) {
        return NULL;
    }
    return &mem->handles[slot];
}

static lightq_status handle_use(struct lq_io_mem *mem, lq_file file, bool to_write, struct lq_mem_handle **handle,
                                struct lq_err *err)
{
    *handle = handle_find(mem, file);
    if (*handle == NULL) {
        return lq_err_from_errno(err, EBADF, "file %" PRId32 " is not open", file);
    }
    if (to_write && !(*handle)->is_writable) {
        return lq_err_from_errno(err, EBADF, "%s is open for reading only", (*handle)->path);
    }
    return LIGHTQ_OK;
}

static void handle_close(struct lq_mem_handle *handle)
{
    lq_mem_node_close(handle->node);
    free(handle->path);
    *handle = (struct lq_mem_handle){.generation = (uint16_t)((handle->generation + 1) & LQ_MEM_GENERATION_MASK)};
}

void lq_mem_handles_close(struct lq_io_mem *mem)
{
    for (size_t i = 0; i < mem->handle_count; i++) {
        if (mem->handles[i].node != NULL) {
            handle_close(&mem->handles[i]);
        }
    }
}

static lightq_status handle_slot(struct lq_io_mem *mem, size_t *slot, struct lq_err *err)
{
    for (size_t i = 0; i < mem->handle_count; i++) {
        if (mem->handles[i].node == NULL) {
            *slot = i;
            return LIGHTQ_OK;
        }
    }
    if (mem->handle_count == LQ_IO_MEM_FILES_MAX) {
        return lq_err_set(err, LIGHTQ_ELIMIT, "%d files are open, which is the most", LQ_IO_MEM_FILES_MAX);
    }
    size_t count = mem->handle_count == 0 ? 16 : mem->handle_count * 2;
    struct lq_mem_handle *handles = realloc(mem->handles, count * sizeof *handles);
    if (handles == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for open files");
    }
    memset(handles + mem->handle_count, 0, (count - mem->handle_count) * sizeof *handles);
    *slot = mem->handle_count;
    mem->handles = handles;
    mem->handle_count = count;
    return LIGHTQ_OK;
}

static void handles_renamed(struct lq_io_mem *mem, const struct lq_mem_node *node, const char *path)
{
    for (size_t i = 0; i < mem->handle_count; i++) {
        char *copy = mem->handles[i].node == node ? strdup(path) : NULL;
        if (copy != NULL) { /* without memory the old name stays in texts */
            free(mem->handles[i].path);
            mem->handles[i].path = copy;
        }
    }
}

static lightq_status mem_open(struct lq_io *io, const char *path, enum lq_open_mode mode, lq_file *file,
                              struct lq_err *err)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    lightq_status status = lq_io_path_check(path, false, err);
    size_t slot = 0;
    if (status == LIGHTQ_OK) {
        status = handle_slot(mem, &slot, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    unsigned verb = mode == LQ_OPEN_CREATE ? LQ_IO_MEM_CREATE : LQ_IO_MEM_OPEN;
    struct lq_mem_gate gate;
    status = lq_mem_gate_pass(mem, verb, path, &gate, err);
    struct lq_mem_node *node = NULL;
    if (status == LIGHTQ_OK && !gate.fails) {
        if (mode == LQ_OPEN_CREATE) {
            status = lq_mem_tree_create(mem->tree, path, false, gate.cut_short, &node, err);
        } else {
            node = lq_mem_tree_find(mem->tree, path);
            status = node == NULL ? lq_err_from_errno(err, ENOENT, "open %s", path) : LIGHTQ_OK;
        }
        if (status == LIGHTQ_OK && node->is_dir) {
            status = lq_err_from_errno(err, EISDIR, "open %s", path);
        }
    }
    if (status == LIGHTQ_OK) {
        status = lq_mem_gate_leave(mem, &gate, status, path, err);
    }
    char *copy = status == LIGHTQ_OK ? strdup(path) : NULL;
    if (status == LIGHTQ_OK && copy == NULL) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "open %s: out of memory", path);
    }
    lq_mem_trace_add(mem, verb, path, 0, 0)->status = status;
    if (status != LIGHTQ_OK) {
        return status;
    }
    lq_mem_node_open(node);
    struct lq_mem_handle *handle = &mem->handles[slot];
    handle->node = node;
    handle->path = copy;
    handle->is_writable = mode == LQ_OPEN_WRITE || mode == LQ_OPEN_CREATE;
    *file = (lq_file)((uint32_t)handle->generation << LQ_MEM_SLOT_BITS | (uint32_t)slot);
    return LIGHTQ_OK;
}

static void mem_close(struct lq_io *io, lq_file file)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    struct lq_mem_handle *handle = handle_find(mem, file);
    mem->counts[LQ_IO_CLOSE]++;
    if (handle != NULL) {
        lq_mem_trace_add(mem, LQ_IO_CLOSE, handle->path, 0, 0);
        handle_close(handle);
    }
}

/* ---- ops on an open file ---- */

static uint64_t growth_allowed(const struct lq_io_mem *mem, const struct lq_mem_node *node)
{
    uint64_t others = mem->tree->used_bytes - node->charged_bytes;
    uint64_t left = mem->capacity_bytes > others ? mem->capacity_bytes - others : 0;
    return left / LQ_MEM_PAGE_BYTES * LQ_MEM_PAGE_BYTES;
}

/* How far @node may reach when it is to reach @end: less than @end when the disk, or the largest file, is full. */
static lightq_status end_check(struct lq_io_mem *mem, const struct lq_mem_handle *handle, uint64_t offset,
                               uint64_t size, uint64_t *end_allowed, struct lq_err *err)
{
    uint64_t current = handle->node->file.live.size;
    *end_allowed = 0;
    if (offset > LQ_IO_MEM_FILE_BYTES_MAX || size > LQ_IO_MEM_FILE_BYTES_MAX - offset) {
        return lq_err_from_errno(err, EFBIG, "grow %s to %" PRIu64 " bytes and %" PRIu64, handle->path, offset, size);
    }
    *end_allowed = offset + size;
    if (*end_allowed <= current) {
        return LIGHTQ_OK;
    }
    uint64_t allowed = growth_allowed(mem, handle->node);
    if (*end_allowed > allowed) {
        *end_allowed = allowed > current ? allowed : current;
        return lq_err_from_errno(err, ENOSPC, "grow %s to %" PRIu64 " bytes", handle->path, offset + size);
    }
    return LIGHTQ_OK;
}

static uint64_t iov_size(const struct lq_io_op *op)
{
    uint64_t size = 0;
    for (unsigned i = 0; i < op->iov_count; i++) {
        size += op->iov[i].iov_len;
    }
    return size;
}

/* Writes the part of the iovecs that lies before @end in the file. */
static lightq_status write_until(struct lq_mem_node *node, const struct lq_io_op *op, uint64_t end, bool cut_short)
{
    uint64_t at = op->offset;
    lightq_status status = LIGHTQ_OK;
    for (unsigned i = 0; i < op->iov_count && at < end && status == LIGHTQ_OK; i++) {
        size_t size = op->iov[i].iov_len < end - at ? op->iov[i].iov_len : (size_t)(end - at);
        status = lq_mem_file_write(&node->file, at, op->iov[i].iov_base, size, cut_short);
        at += size;
    }
    lq_mem_node_charge(node);
    return status;
}

static lightq_status out_of_memory(const char *path, lightq_status status, struct lq_err *err)
{
    return status == LIGHTQ_OK ? status : lq_err_set(err, status, "%s: out of memory", path);
}

static lightq_status do_write(struct lq_io_mem *mem, struct lq_mem_handle *handle, const struct lq_io_op *op,
                              const struct lq_mem_gate *gate, struct lq_err *err)
{
    uint64_t size = iov_size(op);
    uint64_t end = op->offset + size / 2;
    lightq_status status = LIGHTQ_OK;
    if (!gate->fails) {
        status = end_check(mem, handle, op->offset, size, &end, err);
    } else if (!gate->partial) {
        return gate->status;
    }
    lightq_status written = write_until(handle->node, op, end, gate->cut_short);
    return written == LIGHTQ_OK ? status : out_of_memory(handle->path, written, err);
}

static lightq_status do_resize(struct lq_io_mem *mem, struct lq_mem_handle *handle, const struct lq_io_op *op,
                               const struct lq_mem_gate *gate, struct lq_err *err)
{
    if (gate->fails) {
        return gate->status;
    }
    uint64_t end;
    uint64_t size = op->kind == LQ_IO_ALLOCATE ? op->size : 0;
    lightq_status status = end_check(mem, handle, op->offset, size, &end, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_mem_file *file = &handle->node->file;
    if (op->kind == LQ_IO_TRUNCATE) {
        status = lq_mem_file_truncate(file, end, gate->cut_short);
    } else {
        status = end > file->live.size ? lq_mem_file_extend(file, end, gate->cut_short) : LIGHTQ_OK;
    }
    lq_mem_node_charge(handle->node);
    return out_of_memory(handle->path, status, err);
}

static lightq_status do_sync(struct lq_mem_handle *handle, const struct lq_mem_gate *gate, struct lq_err *err)
{
    if (gate->fails) {
        lq_mem_file_sync_lost(&handle->node->file);
        return gate->status;
    }
    return gate->cut_short ? LIGHTQ_OK : out_of_memory(handle->path, lq_mem_file_sync(&handle->node->file), err);
}

static lightq_status do_read(struct lq_mem_handle *handle, struct lq_io_op *op, const struct lq_mem_gate *gate)
{
    op->result = 0;
    if (gate->fails) {
        return gate->status;
    }
    for (unsigned i = 0; i < op->iov_count; i++) {
        size_t got =
            lq_mem_file_read(&handle->node->file, op->offset + op->result, op->iov[i].iov_base, op->iov[i].iov_len);
        op->result += got;
        if (got < op->iov[i].iov_len) {
            break;
        }
    }
    return LIGHTQ_OK;
}

static lightq_status run_file_op(struct lq_io_mem *mem, struct lq_io_op *op, struct lq_err *err)
{
    struct lq_mem_handle *handle = NULL;
    bool to_write = op->kind == LQ_IO_WRITE || op->kind == LQ_IO_ALLOCATE || op->kind == LQ_IO_TRUNCATE;
    lightq_status status =
        mem->is_crashed ? lq_mem_crashed(mem, "file", err) : handle_use(mem, op->file, to_write, &handle, err);
    struct lq_mem_gate gate;
    if (status == LIGHTQ_OK) {
        status = lq_mem_gate_pass(mem, op->kind, handle->path, &gate, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t size = op->kind == LQ_IO_WRITE || op->kind == LQ_IO_READ ? iov_size(op) : op->size;
    struct lq_mem_trace *trace = lq_mem_trace_add(mem, op->kind, handle->path, op->offset, size);
    const char *path = handle->path;
    switch (op->kind) {
    case LQ_IO_WRITE:
        status = do_write(mem, handle, op, &gate, err);
        break;
    case LQ_IO_ALLOCATE:
    case LQ_IO_TRUNCATE:
        status = do_resize(mem, handle, op, &gate, err);
        break;
    case LQ_IO_SYNC:
        status = do_sync(handle, &gate, err);
        break;
    case LQ_IO_READ:
        status = do_read(handle, op, &gate);
        break;
    default: /* LQ_IO_CLOSE: closed, whatever close(2) says */
        path = "closed file";
        handle_close(handle);
        break;
    }
    trace->status = lq_mem_gate_leave(mem, &gate, status, path, err);
    return trace->status;
}

/* ---- ops on names ---- */

static lightq_status do_unlink(struct lq_io_mem *mem, const char *path, const struct lq_mem_gate *gate,
                               struct lq_err *err)
{
    lightq_status status = lq_mem_tree_unlink(mem->tree, path, false, gate->cut_short, err);
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
}

static lightq_status do_rename(struct lq_io_mem *mem, const struct lq_io_op *op, const struct lq_mem_gate *gate,
                               struct lq_err *err)
{
    const struct lq_mem_node *node = lq_mem_tree_find(mem->tree, op->path);
    lightq_status status = lq_mem_tree_rename(mem->tree, op->path, op->path_to, gate->cut_short, err);
    if (status == LIGHTQ_OK && !gate->cut_short) {
        handles_renamed(mem, node, op->path_to);
    }
    return status;
}

static lightq_status run_name_op(struct lq_io_mem *mem, const struct lq_io_op *op, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(op->path, op->kind == LQ_IO_SYNC_DIR, err);
    if (status == LIGHTQ_OK && op->kind == LQ_IO_RENAME) {
        status = lq_io_path_check(op->path_to, false, err);
    }
    struct lq_mem_gate gate;
    if (status == LIGHTQ_OK) {
        status = lq_mem_gate_pass(mem, op->kind, op->path, &gate, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (!gate.fails && op->kind == LQ_IO_RENAME) {
        status = do_rename(mem, op, &gate, err);
    } else if (!gate.fails && op->kind == LQ_IO_UNLINK) {
        status = do_unlink(mem, op->path, &gate, err);
    } else if (!gate.fails && !gate.cut_short) {
        status = lq_mem_tree_sync_dir(mem->tree, op->path, err);
    }
    status = lq_mem_gate_leave(mem, &gate, status, op->path, err);
    lq_mem_trace_add(mem, op->kind, op->path, 0, 0)->status = status;
    return status;
}

static lightq_status mem_run(struct lq_io *io, struct lq_io_op *op, struct lq_err *err)
{
    switch (op->kind) {
    case LQ_IO_WRITE:
    case LQ_IO_SYNC:
    case LQ_IO_ALLOCATE:
    case LQ_IO_TRUNCATE:
    case LQ_IO_READ:
    case LQ_IO_CLOSE:
        return run_file_op(lq_mem_of(io), op, err);
    case LQ_IO_RENAME:
    case LQ_IO_UNLINK:
    case LQ_IO_SYNC_DIR:
        return run_name_op(lq_mem_of(io), op, err);
    }
    return lq_err_set(err, LIGHTQ_EINVAL, "unknown operation %d", (int)op->kind);
}

static lightq_status make_or_remove_dir(struct lq_io_mem *mem, unsigned verb, const char *path, struct lq_err *err)
{
    lightq_status status = lq_io_path_check(path, false, err);
    struct lq_mem_gate gate;
    if (status == LIGHTQ_OK) {
        status = lq_mem_gate_pass(mem, verb, path, &gate, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (!gate.fails) {
        status = verb == LQ_IO_MEM_MKDIR ? lq_mem_tree_create(mem->tree, path, true, gate.cut_short, NULL, err)
                                         : lq_mem_tree_unlink(mem->tree, path, true, gate.cut_short, err);
    }
    status = lq_mem_gate_leave(mem, &gate, status, path, err);
    lq_mem_trace_add(mem, verb, path, 0, 0)->status = status;
    return status;
}

static lightq_status mem_mkdir(struct lq_io *io, const char *path, struct lq_err *err)
{
    return make_or_remove_dir(lq_mem_of(io), LQ_IO_MEM_MKDIR, path, err);
}

static lightq_status mem_rmdir(struct lq_io *io, const char *path, struct lq_err *err)
{
    return make_or_remove_dir(lq_mem_of(io), LQ_IO_MEM_RMDIR, path, err);
}

/* ---- looking, through the vtable ---- */

/* The gate of a call that changes nothing. */
static lightq_status look(struct lq_io_mem *mem, unsigned verb, const char *path, struct lq_err *err)
{
    struct lq_mem_gate gate;
    lightq_status status = lq_mem_gate_pass(mem, verb, path, &gate, err);
    return status == LIGHTQ_OK && gate.fails ? gate.status : status;
}

static lightq_status mem_stat(struct lq_io *io, const char *path, struct lq_io_stat *stat, struct lq_err *err)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    lightq_status status = lq_io_path_check(path, true, err);
    if (status == LIGHTQ_OK) {
        status = look(mem, LQ_IO_MEM_STAT, path, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct lq_mem_node *node = lq_mem_tree_find(mem->tree, path);
    if (node == NULL) {
        return lq_err_from_errno(err, ENOENT, "stat %s", path);
    }
    *stat = (struct lq_io_stat){.is_dir = node->is_dir, .size = node->file.live.size};
    return LIGHTQ_OK;
}

static lightq_status mem_size(struct lq_io *io, lq_file file, uint64_t *size, struct lq_err *err)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    struct lq_mem_handle *handle;
    lightq_status status =
        mem->is_crashed ? lq_mem_crashed(mem, "file", err) : handle_use(mem, file, false, &handle, err);
    if (status == LIGHTQ_OK) {
        status = look(mem, LQ_IO_MEM_SIZE, handle->path, err);
    }
    if (status == LIGHTQ_OK) {
        *size = handle->node->file.live.size;
    }
    return status;
}

static lightq_status mem_list(struct lq_io *io, const char *path, lq_io_list_cb cb, void *data, struct lq_err *err)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    lightq_status status = lq_io_path_check(path, true, err);
    if (status == LIGHTQ_OK) {
        status = look(mem, LQ_IO_MEM_LIST, path, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_mem_node *node = lq_mem_tree_find(mem->tree, path);
    if (node == NULL || !node->is_dir) {
        return lq_err_from_errno(err, node == NULL ? ENOENT : ENOTDIR, "list %s", path);
    }
    for (size_t i = 0; i < node->live.count; i++) {
        cb(data, node->live.at[i].name, node->live.at[i].node->is_dir);
    }
    return LIGHTQ_OK;
}

static lightq_status mem_space(struct lq_io *io, uint64_t *free_bytes, uint64_t *total_bytes, struct lq_err *err)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    lightq_status status = look(mem, LQ_IO_MEM_SPACE, "", err);
    if (status == LIGHTQ_OK) {
        uint64_t used = mem->tree->used_bytes;
        *total_bytes = mem->capacity_bytes;
        *free_bytes = mem->capacity_bytes > used ? mem->capacity_bytes - used : 0;
    }
    return status;
}

static lightq_status mem_lock(struct lq_io *io, struct lq_err *err)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    lightq_status status = look(mem, LQ_IO_MEM_LOCK, "lock", err);
    if (status == LIGHTQ_OK && mem->is_locked) {
        return lq_err_set(err, LIGHTQ_EBUSY, "the disk in memory is locked already");
    }
    mem->is_locked = mem->is_locked || status == LIGHTQ_OK;
    return status;
}

const struct lq_io_ops lq_mem_ops = {
    .open = mem_open,
    .close = mem_close,
    .stat = mem_stat,
    .size = mem_size,
    .mkdir = mem_mkdir,
    .rmdir = mem_rmdir,
    .list = mem_list,
    .run = mem_run,
    .submit = lq_mem_submit,
    .space = mem_space,
    .lock = mem_lock,
};
