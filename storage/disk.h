/* storage/disk.h - the io vtable as plain calls, and the names of a store's files. Called by the other files of the
 * store at start and for small metadata work; blocking. Loop thread only.
 *
 *     <dir>/journal/s<shard>-<number, 20 digits>.journal
 *     <dir>/g<group>-<incarnation>/<first index, 20 digits>.log | .idx | .ckpt, and .tmp behind a name being written
 *     <dir>/g<group>-<incarnation>/damaged    only its being there counts: the log is, the text says why
 *     <dir>/removed/...     directories set aside, never read again */
#ifndef LQ_STORAGE_DISK_H
#define LQ_STORAGE_DISK_H

#include "storage/io.h"

#define LQ_DAMAGED_NAME    "damaged"
#define LQ_PATH_BYTES      512 /* of any path of ours, with its zero */
#define LQ_STORE_DIR_BYTES 256 /* of options.dir, with its zero */

lightq_status lq_disk_open(struct lq_io *io, const char *path, enum lq_open_mode mode, lq_file *file,
                           struct lq_err *err) LQ_MUST_CHECK;
/* Reads up to @size bytes; *got is less only at the file's end. */
lightq_status lq_disk_read(struct lq_io *io, lq_file file, uint64_t offset, void *bytes, size_t size, size_t *got,
                           struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_disk_write(struct lq_io *io, lq_file file, uint64_t offset, const void *bytes, size_t size,
                            struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_disk_sync(struct lq_io *io, lq_file file, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_disk_truncate(struct lq_io *io, lq_file file, uint64_t size, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_disk_allocate(struct lq_io *io, lq_file file, uint64_t offset, uint64_t size,
                               struct lq_err *err) LQ_MUST_CHECK;
/* A missing file is OK. */
lightq_status lq_disk_unlink(struct lq_io *io, const char *path, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_disk_rename(struct lq_io *io, const char *from, const char *to, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_disk_sync_dir(struct lq_io *io, const char *path, struct lq_err *err) LQ_MUST_CHECK;
/* The same when the outcome does not matter. */
void lq_disk_unlink_try(struct lq_io *io, const char *path);
void lq_disk_rename_try(struct lq_io *io, const char *from, const char *to);
/* Makes @path unless it is there; the entry is durable only once the parent is synced. */
lightq_status lq_disk_mkdir(struct lq_io *io, const char *path, bool *made, struct lq_err *err) LQ_MUST_CHECK;
/* The whole file, at most @limit bytes (else ETOOBIG): *bytes is malloc'ed, the caller frees it. ENOTFOUND | ENOMEM |
 * EIO. */
lightq_status lq_disk_read_file(struct lq_io *io, const char *path, uint64_t limit, uint8_t **bytes, size_t *size,
                                struct lq_err *err) LQ_MUST_CHECK;

/* The names in a directory, sorted. */
struct lq_names {
    struct lq_name {
        char *name;
        bool is_dir;
    } * at;
    size_t count;
    size_t capacity;
    bool out_of_memory;
};
lightq_status lq_disk_list(struct lq_io *io, const char *path, struct lq_names *names,
                           struct lq_err *err) LQ_MUST_CHECK;
void lq_names_deinit(struct lq_names *names);

/* @dir and @name with '/' between, @name alone when @dir is "". */
void lq_path_join(char out[LQ_PATH_BYTES], const char *dir, const char *name);
/* @dir/<number, 20 digits><suffix> */
void lq_path_numbered(char out[LQ_PATH_BYTES], const char *dir, uint64_t number, const char *suffix);
void lq_path_group(char out[LQ_PATH_BYTES], const char *dir, uint64_t group, uint32_t incarnation);
void lq_path_journal(char out[LQ_PATH_BYTES], const char *dir, unsigned shard, uint64_t number);
/* What holds @path: "" for a path without '/'. */
void lq_path_parent(char out[LQ_PATH_BYTES], const char *path);

/* The inverse of the names above; false when @name is not of that form. */
bool lq_name_numbered(const char *name, const char *suffix, uint64_t *number);
bool lq_name_group(const char *name, uint64_t *group, uint32_t *incarnation);
bool lq_name_journal(const char *name, unsigned shard, uint64_t *number);
bool lq_name_ends(const char *name, const char *suffix);

#endif
