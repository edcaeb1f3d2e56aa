/* storage/io_mem.c - the in-memory disk, as its test sees it: the fate of each call (faults, the order to crash), jobs,
 * power cuts, copies, tampering, counters and the trace. The vtable is in io_mem_ops.c, what is on the disk in
 * io_mem_tree.c and io_mem_file.c. The contract and the model are in storage/io_mem.h. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "storage/io_mem_state.h"

const char *lq_mem_verb_name(unsigned verb)
{
    static const char *const names[LQ_IO_MEM_VERBS] = {
        [LQ_IO_WRITE] = "write",       [LQ_IO_SYNC] = "sync",         [LQ_IO_ALLOCATE] = "allocate",
        [LQ_IO_TRUNCATE] = "truncate", [LQ_IO_RENAME] = "rename",     [LQ_IO_UNLINK] = "unlink",
        [LQ_IO_SYNC_DIR] = "sync_dir", [LQ_IO_READ] = "read",         [LQ_IO_CLOSE] = "close",
        [LQ_IO_MEM_OPEN] = "open",     [LQ_IO_MEM_CREATE] = "create", [LQ_IO_MEM_STAT] = "stat",
        [LQ_IO_MEM_SIZE] = "size",     [LQ_IO_MEM_MKDIR] = "mkdir",   [LQ_IO_MEM_RMDIR] = "rmdir",
        [LQ_IO_MEM_LIST] = "list",     [LQ_IO_MEM_SPACE] = "space",   [LQ_IO_MEM_LOCK] = "lock",
    };
    return verb < LQ_IO_MEM_VERBS ? names[verb] : "?";
}

static bool verb_changes(unsigned verb)
{
    switch (verb) {
    case LQ_IO_WRITE:
    case LQ_IO_SYNC:
    case LQ_IO_ALLOCATE:
    case LQ_IO_TRUNCATE:
    case LQ_IO_RENAME:
    case LQ_IO_UNLINK:
    case LQ_IO_SYNC_DIR:
    case LQ_IO_MEM_CREATE:
    case LQ_IO_MEM_MKDIR:
    case LQ_IO_MEM_RMDIR:
        return true;
    default:
        return false;
    }
}

/* ---- gate ---- */

static const struct lq_mem_fault *fault_find(struct lq_io_mem *mem, unsigned verb, const char *path)
{
    const struct lq_mem_fault *hit = NULL;
    for (size_t i = 0; i < mem->fault_count; i++) {
        struct lq_mem_fault *fault = &mem->faults[i];
        const struct lq_io_mem_fault *plan = &fault->fault;
        bool matches = (plan->verb == verb || plan->verb == LQ_IO_MEM_VERBS) &&
                       (plan->pattern == NULL || fnmatch(plan->pattern, path, 0) == 0);
        if (!matches) {
            continue;
        }
        fault->seen++;
        uint64_t first = plan->nth == 0 ? 1 : plan->nth;
        if (hit == NULL && fault->seen >= first && (plan->times == 0 || fault->seen - first < plan->times)) {
            hit = fault;
        }
    }
    return hit;
}

struct lq_mem_trace *lq_mem_trace_add(struct lq_io_mem *mem, unsigned verb, const char *path, uint64_t offset,
                                      uint64_t size)
{
    struct lq_mem_trace *trace = &mem->trace[mem->trace_count++ % LQ_IO_MEM_TRACE_MAX];
    *trace = (struct lq_mem_trace){.change = mem->changes, .verb = verb, .offset = offset, .size = size};
    size_t length = strlen(path);
    size_t skip =
        length >= LQ_MEM_TRACE_PATH_BYTES ? length - (LQ_MEM_TRACE_PATH_BYTES - 1) : 0; /* the end tells more */
    memcpy(trace->path, path + skip, length - skip + 1);
    return trace;
}

lightq_status lq_mem_crashed(struct lq_io_mem *mem, const char *path, struct lq_err *err)
{
    return lq_err_set(err, LIGHTQ_EIO, "%s: the disk has crashed at change %" PRIu64, path, mem->changes);
}

/* Counts the call and decides its fate. Not OK: it goes no further. */
lightq_status lq_mem_gate_pass(struct lq_io_mem *mem, unsigned verb, const char *path, struct lq_mem_gate *gate,
                               struct lq_err *err)
{
    *gate = (struct lq_mem_gate){0};
    mem->counts[verb]++;
    if (mem->is_crashed) {
        return lq_mem_crashed(mem, path, err);
    }
    if (verb_changes(verb)) {
        mem->changes++;
        if (mem->changes == mem->crash_at) {
            mem->is_crashed = true;
            if (mem->is_kill) {
                return lq_mem_crashed(mem, path, err);
            }
            gate->cut_short = true;
        }
    }
    const struct lq_mem_fault *fault = fault_find(mem, verb, path);
    if (fault != NULL && !gate->cut_short) {
        mem->faults_hit++;
        gate->fails = true;
        gate->partial = fault->fault.partial;
        gate->status = lq_err_set(err, fault->fault.status, "%s %s: injected fault", lq_mem_verb_name(verb), path);
    }
    return LIGHTQ_OK;
}

/* The end of a call that was let through: @status is that of the change, or of its being remembered. */
lightq_status lq_mem_gate_leave(struct lq_io_mem *mem, const struct lq_mem_gate *gate, lightq_status status,
                                const char *path, struct lq_err *err)
{
    if (gate->cut_short) {
        return lq_mem_crashed(mem, path, err);
    }
    return gate->fails ? gate->status : status;
}

/* ---- jobs ---- */

lightq_status lq_mem_submit(struct lq_io *io, struct lq_io_job *job)
{
    struct lq_io_mem *mem = lq_mem_of(io);
    if (mem->job_count == LQ_IO_MEM_JOBS_MAX) {
        return LIGHTQ_EBUSY;
    }
    if (mem->job_count == mem->job_capacity) {
        size_t capacity = mem->job_capacity == 0 ? 16 : mem->job_capacity * 2;
        struct lq_mem_pending *jobs = realloc(mem->jobs, capacity * sizeof *jobs);
        if (jobs == NULL) {
            return LIGHTQ_ENOMEM;
        }
        mem->jobs = jobs;
        mem->job_capacity = capacity;
    }
    mem->jobs[mem->job_count++] = (struct lq_mem_pending){.job = job};
    job->failed = 0;
    job->err = (struct lq_err){0};
    if (mem->submitted != NULL) {
        mem->submitted(mem->submitted_data, job);
    }
    return LIGHTQ_OK;
}

static struct lq_mem_pending *pending_find(struct lq_io_mem *mem, const struct lq_io_job *job)
{
    for (size_t i = 0; i < mem->job_count; i++) {
        if (mem->jobs[i].job == job) {
            return &mem->jobs[i];
        }
    }
    return NULL;
}

static void pending_complete(struct lq_io_mem *mem, struct lq_mem_pending *pending)
{
    struct lq_mem_pending ended = *pending;
    size_t i = (size_t)(pending - mem->jobs);
    mem->job_count--;
    memmove(mem->jobs + i, mem->jobs + i + 1, (mem->job_count - i) * sizeof *mem->jobs);
    ended.job->cb(ended.job, ended.status); /* may submit, and free the job */
}

enum lq_io_mem_step lq_io_mem_step_job(struct lq_io_mem *mem, struct lq_io_job *job)
{
    struct lq_mem_pending *pending = pending_find(mem, job);
    if (pending == NULL) {
        return LQ_IO_MEM_UNKNOWN;
    }
    if (mem->is_stalled) {
        return LQ_IO_MEM_STALLED;
    }
    if (pending->is_ended || pending->next == job->count) {
        pending_complete(mem, pending);
        return LQ_IO_MEM_DONE;
    }
    pending->status = mem->io.ops->run(&mem->io, &job->ops[pending->next], &job->err);
    if (pending->status != LIGHTQ_OK) {
        job->failed = pending->next;
        pending->is_ended = true;
    }
    pending->next++;
    return LQ_IO_MEM_MORE;
}

bool lq_io_mem_run_one(struct lq_io_mem *mem)
{
    if (mem->job_count == 0) {
        return false;
    }
    struct lq_io_job *job = mem->jobs[0].job;
    enum lq_io_mem_step step;
    do {
        step = lq_io_mem_step_job(mem, job);
    } while (step == LQ_IO_MEM_MORE);
    return step == LQ_IO_MEM_DONE;
}

size_t lq_io_mem_run_all(struct lq_io_mem *mem)
{
    size_t count = 0;
    while (lq_io_mem_run_one(mem)) {
        count++;
    }
    return count;
}

size_t lq_io_mem_pending(const struct lq_io_mem *mem)
{
    return mem->job_count;
}

struct lq_io_job *lq_io_mem_job_at(struct lq_io_mem *mem, size_t i)
{
    return i < mem->job_count ? mem->jobs[i].job : NULL;
}

void lq_io_mem_set_submitted(struct lq_io_mem *mem, lq_io_mem_submitted_cb cb, void *data)
{
    mem->submitted = cb;
    mem->submitted_data = data;
}

void lq_io_mem_set_stalled(struct lq_io_mem *mem, bool stalled)
{
    mem->is_stalled = stalled;
}

/* ---- life ---- */

struct lq_io_mem *lq_io_mem_new(void)
{
    struct lq_io_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL) {
        return NULL;
    }
    mem->io.ops = &lq_mem_ops;
    mem->capacity_bytes = LQ_IO_MEM_DISK_BYTES_DEFAULT;
    mem->tree = lq_mem_tree_new();
    if (mem->tree == NULL) {
        free(mem);
        return NULL;
    }
    return mem;
}

void lq_io_mem_free(struct lq_io_mem *mem)
{
    if (mem == NULL) {
        return;
    }
    lq_io_mem_clear_faults(mem);
    lq_mem_handles_close(mem);
    lq_mem_tree_free(mem->tree);
    free(mem->handles);
    free(mem->jobs);
    free(mem);
}

struct lq_io *lq_io_mem_io(struct lq_io_mem *mem)
{
    return &mem->io;
}

/* ---- power cuts and whole disks ---- */

/* All that lives in the machine and not on the disk goes. */
static void power_off(struct lq_io_mem *mem)
{
    mem->job_count = 0;
    lq_mem_handles_close(mem);
    mem->is_locked = false;
    mem->is_stalled = false;
    mem->is_crashed = false;
    mem->crash_at = 0;
}

uint64_t lq_io_mem_changes(const struct lq_io_mem *mem)
{
    return mem->changes;
}

void lq_io_mem_crash_after(struct lq_io_mem *mem, uint64_t n)
{
    mem->crash_at = n == 0 ? 0 : mem->changes + n;
    mem->is_kill = false;
}

void lq_io_mem_kill_after(struct lq_io_mem *mem, uint64_t n)
{
    mem->crash_at = n == 0 ? 0 : mem->changes + n;
    mem->is_kill = true;
}

bool lq_io_mem_crashed(const struct lq_io_mem *mem)
{
    return mem->is_crashed;
}

lightq_status lq_io_mem_crash(struct lq_io_mem *mem, enum lq_io_mem_crash_mode mode, uint64_t seed)
{
    power_off(mem);
    struct lq_mem_random random = {.state = seed};
    return lq_mem_tree_crash(mem->tree, mode, &random);
}

void lq_io_mem_kill(struct lq_io_mem *mem)
{
    power_off(mem);
}

struct lq_io_mem_image {
    struct lq_mem_tree *tree;
};

struct lq_io_mem_image *lq_io_mem_copy(struct lq_io_mem *mem)
{
    struct lq_io_mem_image *image = malloc(sizeof *image);
    if (image == NULL) {
        return NULL;
    }
    image->tree = lq_mem_tree_copy(mem->tree);
    if (image->tree == NULL) {
        free(image);
        return NULL;
    }
    return image;
}

lightq_status lq_io_mem_restore(struct lq_io_mem *mem, const struct lq_io_mem_image *image)
{
    struct lq_mem_tree *tree = lq_mem_tree_copy(image->tree);
    if (tree == NULL) {
        return LIGHTQ_ENOMEM;
    }
    power_off(mem);
    lq_mem_tree_free(mem->tree);
    mem->tree = tree;
    return LIGHTQ_OK;
}

void lq_io_mem_image_free(struct lq_io_mem_image *image)
{
    if (image != NULL) {
        lq_mem_tree_free(image->tree);
        free(image);
    }
}

/* ---- faults ---- */

lightq_status lq_io_mem_add_fault(struct lq_io_mem *mem, const struct lq_io_mem_fault *fault)
{
    if (mem->fault_count == LQ_IO_MEM_FAULTS_MAX) {
        return LIGHTQ_ELIMIT;
    }
    struct lq_mem_fault *added = &mem->faults[mem->fault_count];
    *added = (struct lq_mem_fault){.fault = *fault};
    if (fault->pattern != NULL) {
        added->fault.pattern = strdup(fault->pattern);
        if (added->fault.pattern == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    mem->fault_count++;
    return LIGHTQ_OK;
}

void lq_io_mem_clear_faults(struct lq_io_mem *mem)
{
    for (size_t i = 0; i < mem->fault_count; i++) {
        free((char *)mem->faults[i].fault.pattern);
    }
    mem->fault_count = 0;
}

uint64_t lq_io_mem_faults_hit(const struct lq_io_mem *mem)
{
    return mem->faults_hit;
}

void lq_io_mem_set_capacity(struct lq_io_mem *mem, uint64_t bytes)
{
    mem->capacity_bytes = bytes;
}

/* ---- tampering ---- */

/* The file @path, with all it holds made durable. */
static lightq_status settled_file(struct lq_io_mem *mem, const char *path, struct lq_mem_node **node)
{
    *node = lq_mem_tree_find(mem->tree, path);
    if (*node == NULL || (*node)->is_dir) {
        return LIGHTQ_ENOTFOUND;
    }
    return lq_mem_file_sync(&(*node)->file);
}

lightq_status lq_io_mem_overwrite(struct lq_io_mem *mem, const char *path, uint64_t offset, const void *bytes,
                                  size_t size)
{
    struct lq_mem_node *node;
    lightq_status status = settled_file(mem, path, &node);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t end = node->file.live.size;
    if (offset > end || size > end - offset) {
        return LIGHTQ_EOUTOFRANGE;
    }
    status = lq_mem_file_write(&node->file, offset, bytes, size, false);
    return status == LIGHTQ_OK ? lq_mem_file_sync(&node->file) : status;
}

lightq_status lq_io_mem_flip(struct lq_io_mem *mem, const char *path, uint64_t offset, unsigned bit)
{
    const struct lq_mem_node *node = lq_mem_tree_find(mem->tree, path);
    uint8_t byte = 0;
    if (node == NULL || node->is_dir) {
        return LIGHTQ_ENOTFOUND;
    }
    if (lq_mem_file_read(&node->file, offset, &byte, 1) == 0) {
        return LIGHTQ_EOUTOFRANGE;
    }
    byte ^= (uint8_t)(1u << (bit % 8));
    return lq_io_mem_overwrite(mem, path, offset, &byte, 1);
}

lightq_status lq_io_mem_cut_file(struct lq_io_mem *mem, const char *path, uint64_t size)
{
    struct lq_mem_node *node;
    lightq_status status = settled_file(mem, path, &node);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (size > node->file.live.size) {
        return LIGHTQ_EOUTOFRANGE;
    }
    status = lq_mem_file_truncate(&node->file, size, false);
    if (status == LIGHTQ_OK) {
        status = lq_mem_file_sync(&node->file);
    }
    lq_mem_node_charge(node);
    return status;
}

/* Removes @node, which has the path @path, and first all below it. @path has room for LQ_IO_PATH_BYTES_MAX bytes. */
static lightq_status remove_below(struct lq_io_mem *mem, char *path, struct lq_mem_node *node)
{
    size_t size = strlen(path);
    lightq_status status = LIGHTQ_OK;
    while (status == LIGHTQ_OK && node->live.count > 0) {
        const struct lq_mem_entry *entry = &node->live.at[node->live.count - 1];
        if (size + 1 + strlen(entry->name) > LQ_IO_PATH_BYTES_MAX) {
            return LIGHTQ_ELIMIT;
        }
        snprintf(path + size, LQ_IO_PATH_BYTES_MAX + 1 - size, "%s%s", size == 0 ? "" : "/", entry->name);
        status = remove_below(mem, path, entry->node);
        path[size] = '\0';
    }
    if (status == LIGHTQ_OK && size > 0) {
        status = lq_mem_tree_unlink(mem->tree, path, node->is_dir, false, NULL);
    }
    return status;
}

lightq_status lq_io_mem_remove(struct lq_io_mem *mem, const char *path)
{
    struct lq_mem_node *node = lq_mem_tree_find(mem->tree, path);
    size_t size = strlen(path);
    if (node == NULL || size > LQ_IO_PATH_BYTES_MAX) {
        return LIGHTQ_ENOTFOUND;
    }
    char buffer[LQ_IO_PATH_BYTES_MAX + 1];
    memcpy(buffer, path, size + 1);
    lightq_status status = remove_below(mem, buffer, node);
    return status == LIGHTQ_OK ? lq_mem_tree_sync_all(mem->tree) : status;
}

/* ---- looking ---- */

lightq_status lq_io_mem_read_file(struct lq_io_mem *mem, const char *path, uint8_t **bytes, size_t *size)
{
    const struct lq_mem_node *node = lq_mem_tree_find(mem->tree, path);
    if (node == NULL || node->is_dir) {
        return LIGHTQ_ENOTFOUND;
    }
    *size = (size_t)node->file.live.size;
    *bytes = malloc(*size + 1);
    if (*bytes == NULL) {
        return LIGHTQ_ENOMEM;
    }
    *size = lq_mem_file_read(&node->file, 0, *bytes, *size);
    return LIGHTQ_OK;
}

bool lq_io_mem_durable_has(const struct lq_io_mem *mem, const void *bytes, size_t size)
{
    return lq_mem_tree_durable_has(mem->tree, bytes, size);
}

bool lq_io_mem_exists(struct lq_io_mem *mem, const char *path)
{
    return lq_mem_tree_find(mem->tree, path) != NULL;
}

uint64_t lq_io_mem_count(const struct lq_io_mem *mem, unsigned verb)
{
    return verb < LQ_IO_MEM_VERBS ? mem->counts[verb] : 0;
}

size_t lq_io_mem_open_files(const struct lq_io_mem *mem)
{
    size_t count = 0;
    for (size_t i = 0; i < mem->handle_count; i++) {
        count += mem->handles[i].node != NULL;
    }
    return count;
}

void lq_io_mem_dump(struct lq_io_mem *mem, FILE *to)
{
    lq_mem_tree_dump(mem->tree, to);
    for (size_t i = 0; i < mem->handle_count; i++) {
        if (mem->handles[i].node != NULL) {
            fprintf(to, "open: %s%s\n", mem->handles[i].path, mem->handles[i].is_writable ? "" : ", to read");
        }
    }
    for (size_t i = 0; i < mem->job_count; i++) {
        fprintf(to, "job %zu: at op %u of %u\n", i, mem->jobs[i].next, mem->jobs[i].job->count);
    }
    fprintf(to, "changes %" PRIu64 "%s%s\n", mem->changes, mem->is_crashed ? ", crashed" : "",
            mem->is_stalled ? ", stalled" : "");
}

void lq_io_mem_trace(const struct lq_io_mem *mem, FILE *to)
{
    uint64_t first = mem->trace_count > LQ_IO_MEM_TRACE_MAX ? mem->trace_count - LQ_IO_MEM_TRACE_MAX : 0;
    for (uint64_t i = first; i < mem->trace_count; i++) {
        const struct lq_mem_trace *trace = &mem->trace[i % LQ_IO_MEM_TRACE_MAX];
        fprintf(to, "change %" PRIu64 ": %s %s offset %" PRIu64 " size %" PRIu64 ": %s\n", trace->change,
                lq_mem_verb_name(trace->verb), trace->path, trace->offset, trace->size,
                lightq_status_name(trace->status));
    }
}
