/* storage/disk.c - blocking calls of the io vtable, and file names (storage/disk.h). Called by the other files of the
 * store on the loop thread; calls the io it is given. */
#include "storage/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/array.h"

lightq_status lq_disk_open(struct lq_io *io, const char *path, enum lq_open_mode mode, lq_file *file,
                           struct lq_err *err)
{
    return io->ops->open(io, path, mode, file, err);
}

lightq_status lq_disk_read(struct lq_io *io, lq_file file, uint64_t offset, void *bytes, size_t size, size_t *got,
                           struct lq_err *err)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct lq_io_op op = {
        .kind = LQ_IO_READ, .file = file, .offset = offset, .size = size, .iov = &iov, .iov_count = 1};
    *got = 0;
    lightq_status status = io->ops->run(io, &op, err);
    if (status == LIGHTQ_OK) {
        *got = op.result;
    }
    return status;
}

lightq_status lq_disk_write(struct lq_io *io, lq_file file, uint64_t offset, const void *bytes, size_t size,
                            struct lq_err *err)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct lq_io_op op = {
        .kind = LQ_IO_WRITE, .file = file, .offset = offset, .size = size, .iov = &iov, .iov_count = 1};
    return io->ops->run(io, &op, err);
}

lightq_status lq_disk_sync(struct lq_io *io, lq_file file, struct lq_err *err)
{
    struct lq_io_op op = {.kind = LQ_IO_SYNC, .file = file};
    return io->ops->run(io, &op, err);
}

lightq_status lq_disk_truncate(struct lq_io *io, lq_file file, uint64_t size, struct lq_err *err)
{
    struct lq_io_op op = {.kind = LQ_IO_TRUNCATE, .file = file, .offset = size};
    return io->ops->run(io, &op, err);
}

lightq_status lq_disk_allocate(struct lq_io *io, lq_file file, uint64_t offset, uint64_t size, struct lq_err *err)
{
    struct lq_io_op op = {.kind = LQ_IO_ALLOCATE, .file = file, .offset = offset, .size = size};
    return io->ops->run(io, &op, err);
}

lightq_status lq_disk_unlink(struct lq_io *io, const char *path, struct lq_err *err)
{
    struct lq_io_op op = {.kind = LQ_IO_UNLINK, .file = LQ_FILE_NONE, .path = path};
    return io->ops->run(io, &op, err);
}

lightq_status lq_disk_rename(struct lq_io *io, const char *from, const char *to, struct lq_err *err)
{
    struct lq_io_op op = {.kind = LQ_IO_RENAME, .file = LQ_FILE_NONE, .path = from, .path_to = to};
    return io->ops->run(io, &op, err);
}

void lq_disk_unlink_try(struct lq_io *io, const char *path)
{
    lightq_status ignored = lq_disk_unlink(io, path, NULL);
    (void)ignored;
}

void lq_disk_rename_try(struct lq_io *io, const char *from, const char *to)
{
    lightq_status ignored = lq_disk_rename(io, from, to, NULL);
    (void)ignored;
}

lightq_status lq_disk_sync_dir(struct lq_io *io, const char *path, struct lq_err *err)
{
    struct lq_io_op op = {.kind = LQ_IO_SYNC_DIR, .file = LQ_FILE_NONE, .path = path};
    return io->ops->run(io, &op, err);
}

lightq_status lq_disk_mkdir(struct lq_io *io, const char *path, bool *made, struct lq_err *err)
{
    lightq_status status = io->ops->mkdir(io, path, err);
    *made = status == LIGHTQ_OK;
    return status == LIGHTQ_EEXISTS ? LIGHTQ_OK : status;
}

lightq_status lq_disk_read_file(struct lq_io *io, const char *path, uint64_t limit, uint8_t **bytes, size_t *size,
                                struct lq_err *err)
{
    lq_file file;
    lightq_status status = lq_disk_open(io, path, LQ_OPEN_READ, &file, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t file_size = 0;
    uint8_t *read = NULL;
    status = io->ops->size(io, file, &file_size, err);
    if (status == LIGHTQ_OK && file_size > limit) {
        status = lq_err_set(err, LIGHTQ_ETOOBIG, "%s: %" PRIu64 " bytes, more than the %" PRIu64 " it may have", path,
                            file_size, limit);
    }
    if (status == LIGHTQ_OK) {
        read = malloc(file_size > 0 ? file_size : 1);
        status = read != NULL ? lq_disk_read(io, file, 0, read, file_size, size, err)
                              : lq_err_set(err, LIGHTQ_ENOMEM, "%s: no memory for %" PRIu64 " bytes", path, file_size);
    }
    io->ops->close(io, file);
    if (status != LIGHTQ_OK) {
        free(read);
        return status;
    }
    *bytes = read;
    return LIGHTQ_OK;
}

static void on_name(void *data, const char *name, bool is_dir)
{
    struct lq_names *names = data;
    char *copy = names->out_of_memory ? NULL : strdup(name);
    if (copy == NULL || !lq_array_reserve((void **)&names->at, &names->capacity, names->count + 1, sizeof *names->at)) {
        free(copy);
        names->out_of_memory = true;
        return;
    }
    names->at[names->count++] = (struct lq_name){.name = copy, .is_dir = is_dir};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lq_name *)a)->name, ((const struct lq_name *)b)->name);
}

lightq_status lq_disk_list(struct lq_io *io, const char *path, struct lq_names *names, struct lq_err *err)
{
    *names = (struct lq_names){.at = NULL};
    lightq_status status = io->ops->list(io, path, on_name, names, err);
    if (status == LIGHTQ_OK && names->out_of_memory) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "no memory for the names in \"%s\"", path);
    }
    if (status != LIGHTQ_OK) {
        lq_names_deinit(names);
        return status;
    }
    if (names->count > 0) {
        qsort(names->at, names->count, sizeof *names->at, by_name);
    }
    return LIGHTQ_OK;
}

void lq_names_deinit(struct lq_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->at[i].name);
    }
    free(names->at);
    *names = (struct lq_names){.at = NULL};
}

void lq_path_join(char out[LQ_PATH_BYTES], const char *dir, const char *name)
{
    (void)snprintf(out, LQ_PATH_BYTES, "%s%s%s", dir, dir[0] == '\0' ? "" : "/", name);
}

void lq_path_numbered(char out[LQ_PATH_BYTES], const char *dir, uint64_t number, const char *suffix)
{
    (void)snprintf(out, LQ_PATH_BYTES, "%s/%020" PRIu64 "%s", dir, number, suffix);
}

void lq_path_group(char out[LQ_PATH_BYTES], const char *dir, uint64_t group, uint32_t incarnation)
{
    char name[64];
    (void)snprintf(name, sizeof name, "g%" PRIu64 "-%" PRIu32, group, incarnation);
    lq_path_join(out, dir, name);
}

void lq_path_journal(char out[LQ_PATH_BYTES], const char *dir, unsigned shard, uint64_t number)
{
    char name[64];
    (void)snprintf(name, sizeof name, "journal/s%u-%020" PRIu64 ".journal", shard, number);
    lq_path_join(out, dir, name);
}

void lq_path_parent(char out[LQ_PATH_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);
    if (size >= LQ_PATH_BYTES) {
        size = LQ_PATH_BYTES - 1;
    }
    memcpy(out, path, size);
    out[size] = '\0';
}

/* Decimal digits only; moves *@at behind them. */
static bool read_number(const char **at, uint64_t max, uint64_t *number)
{
    uint64_t value = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    return *at != start;
}

bool lq_name_numbered(const char *name, const char *suffix, uint64_t *number)
{
    const char *at = name;
    return read_number(&at, UINT64_MAX, number) && at - name == 20 && strcmp(at, suffix) == 0;
}

bool lq_name_group(const char *name, uint64_t *group, uint32_t *incarnation)
{
    const char *at = name + 1;
    uint64_t number = 0;
    if (name[0] != 'g' || !read_number(&at, UINT64_MAX, group) || *at++ != '-' ||
        !read_number(&at, UINT32_MAX, &number) || *at != '\0') {
        return false;
    }
    *incarnation = (uint32_t)number;
    return true;
}

bool lq_name_journal(const char *name, unsigned shard, uint64_t *number)
{
    const char *at = name + 1;
    uint64_t found = 0;
    return name[0] == 's' && read_number(&at, UINT32_MAX, &found) && found == shard && *at++ == '-' &&
           lq_name_numbered(at, ".journal", number);
}

bool lq_name_ends(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t suffix_size = strlen(suffix);
    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}
