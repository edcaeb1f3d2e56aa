/* storage/io_mem.h - a file system in memory that fails on request: for unit tests, crash-point sweeps and the
 * simulator. It implements storage/io.h and models what a power cut leaves, no kinder than a disk:
 *
 * - File content and size are durable after LQ_IO_SYNC of the file. Until then a cut keeps or loses each of the
 * changes.
 * - Directory entries (creation, mkdir, rename, unlink, rmdir) are durable after LQ_IO_SYNC_DIR of their directory.
 * Until then a cut keeps or loses each of them; changes of one name stay in order; a rename is atomic. A rename between
 * two directories, and the moving of a directory, needs both synced. LQ_IO_SYNC of a file says nothing about its entry,
 * and an entry says nothing about the file's content: a synced name may hold an empty file.
 * - A sync of a file that fails (injected) drops what it should have written, as ext4 does: reads go on showing it,
 * later syncs say OK, and after a cut it is not there. One of a directory that fails leaves its changes as they were.
 *
 * Deterministic: no clock, no thread, no randomness but the seed given to a crash. Jobs do nothing by themselves: the
 * test runs them (lq_io_mem_run_one), or the simulator, one op at a time (lq_io_mem_step_job). A job's callback runs
 * inside these calls and may submit again. One thread. Calls storage/io_mem_tree.c and storage/io_mem_file.c. */
#ifndef LQ_STORAGE_IO_MEM_H
#define LQ_STORAGE_IO_MEM_H

#include <stdio.h>

#include "storage/io.h"

struct lq_io_mem;
struct lq_io_mem_image;

/* An empty disk of LQ_IO_MEM_DISK_BYTES_DEFAULT; NULL when out of memory. */
struct lq_io_mem *lq_io_mem_new(void);
/* Pending jobs are dropped without their callbacks, open files closed. NULL is allowed. */
void lq_io_mem_free(struct lq_io_mem *mem);
/* What the code under test is given. Lives as long as @mem, also across crashes. */
struct lq_io *lq_io_mem_io(struct lq_io_mem *mem);

/* ---- jobs ---- */

/* Called inside submit, once the job is queued: for the simulator, which then plans its steps. NULL turns it off. */
typedef void (*lq_io_mem_submitted_cb)(void *data, struct lq_io_job *job);
void lq_io_mem_set_submitted(struct lq_io_mem *mem, lq_io_mem_submitted_cb cb, void *data);

size_t lq_io_mem_pending(const struct lq_io_mem *mem);
/* The pending job number @i in order of submission; NULL when there are fewer. */
struct lq_io_job *lq_io_mem_job_at(struct lq_io_mem *mem, size_t i);

enum lq_io_mem_step {
    LQ_IO_MEM_MORE,    /* one op was done (or failed): step again */
    LQ_IO_MEM_DONE,    /* no op was left: the callback has run, the job is its owner's again */
    LQ_IO_MEM_STALLED, /* the disk hangs: nothing was done */
    LQ_IO_MEM_UNKNOWN, /* not a pending job (gone with a crash) */
};
/* A job of n ops takes n + 1 steps: each op, then its callback; after a failed op the next step is the callback. */
enum lq_io_mem_step lq_io_mem_step_job(struct lq_io_mem *mem, struct lq_io_job *job);
/* Runs the oldest pending job to its end. False when there is none, or the disk hangs. */
bool lq_io_mem_run_one(struct lq_io_mem *mem);
/* Runs jobs, also those submitted meanwhile, until none is left or the disk hangs. Gives the number run. */
size_t lq_io_mem_run_all(struct lq_io_mem *mem);
/* A hung disk: jobs make no step. Blocking calls are not held up. */
void lq_io_mem_set_stalled(struct lq_io_mem *mem, bool stalled);

/* ---- power cuts ---- */

/* Changes of the disk begun so far: every write, sync, allocation, truncation, rename, unlink, directory sync, file
 * creation, mkdir and rmdir, blocking or in a job. */
uint64_t lq_io_mem_changes(const struct lq_io_mem *mem);
/* The @n-th change from now (1: the next) is cut short and nothing happens after it: that call and every later one,
 * reads too, gives EIO ("crashed"), until lq_io_mem_crash. Of the change itself nothing is kept under KEEP and LOSE;
 * under TEAR any part of it. 0 takes the order back. */
void lq_io_mem_crash_after(struct lq_io_mem *mem, uint64_t n);
/* True from the moment the cut has come until lq_io_mem_crash. */
bool lq_io_mem_crashed(const struct lq_io_mem *mem);

enum lq_io_mem_crash_mode {
    LQ_IO_MEM_KEEP, /* all that was written is there, synced or not */
    LQ_IO_MEM_LOSE, /* only what was synced is there */
    LQ_IO_MEM_TEAR, /* of what was not synced: each 512-byte sector, size and directory entry by chance, in any of the
                       versions it had since the last sync */
};
/* The power cut, now. Then: jobs are gone without their callbacks, open files and the lock are gone, what is left is
 * durable, orders to crash and stalls are taken back (faults stay), and the io can be used by a new store.
 * @seed chooses under TEAR: equal seeds and equal histories leave equal disks. Out of memory is the only way to fail.
 */
lightq_status lq_io_mem_crash(struct lq_io_mem *mem, enum lq_io_mem_crash_mode mode, uint64_t seed) LQ_MUST_CHECK;

/* As lq_io_mem_crash_after, for lq_io_mem_kill: the @n-th change does not begin. */
void lq_io_mem_kill_after(struct lq_io_mem *mem, uint64_t n);
/* The process dies, the machine does not: jobs are gone without their callbacks, open files and the lock are gone,
 * orders to crash are taken back; reads show what they did, and what was not durable still is not. */
void lq_io_mem_kill(struct lq_io_mem *mem);

/* ---- faults ---- */

/* What can be counted and made to fail: the values of enum lq_io_kind, and the blocking calls. */
enum lq_io_mem_verb {
    LQ_IO_MEM_OPEN = LQ_IO_CLOSE + 1, /* of a file that exists */
    LQ_IO_MEM_CREATE,
    LQ_IO_MEM_STAT,
    LQ_IO_MEM_SIZE,
    LQ_IO_MEM_MKDIR,
    LQ_IO_MEM_RMDIR,
    LQ_IO_MEM_LIST,
    LQ_IO_MEM_SPACE,
    LQ_IO_MEM_LOCK,
    LQ_IO_MEM_VERBS,
};

struct lq_io_mem_fault {
    unsigned verb;        /* enum lq_io_kind or enum lq_io_mem_verb; LQ_IO_MEM_VERBS: any */
    const char *pattern;  /* of the path, as fnmatch(3) without flags ("*" matches "/" too); NULL: any. Copied. */
    uint64_t nth;         /* the nth matching op from now on fails, 1 and 0: the next */
    uint64_t times;       /* how many fail from there on; 0: all */
    lightq_status status; /* EIO, ENOSPC, or any other */
    bool partial;         /* a write that fails has written its first half */
};
/* OK | ELIMIT (more than LQ_IO_MEM_FAULTS_MAX) | ENOMEM. */
lightq_status lq_io_mem_add_fault(struct lq_io_mem *mem, const struct lq_io_mem_fault *fault) LQ_MUST_CHECK;
void lq_io_mem_clear_faults(struct lq_io_mem *mem);
/* How many ops the faults, now set or cleared, have made fail. */
uint64_t lq_io_mem_faults_hit(const struct lq_io_mem *mem);

/* The size of the disk: what would grow beyond it gets ENOSPC (a write then has written what fitted). Files count with
 * their size, rounded up to pages, as long as they have a name or a handle. */
void lq_io_mem_set_capacity(struct lq_io_mem *mem, uint64_t bytes);

/* What rot and people do to a disk, durably, at once. OK | ENOTFOUND | EOUTOFRANGE | ENOMEM. */
lightq_status lq_io_mem_flip(struct lq_io_mem *mem, const char *path, uint64_t offset, unsigned bit) LQ_MUST_CHECK;
lightq_status lq_io_mem_overwrite(struct lq_io_mem *mem, const char *path, uint64_t offset, const void *bytes,
                                  size_t size) LQ_MUST_CHECK;
lightq_status lq_io_mem_cut_file(struct lq_io_mem *mem, const char *path, uint64_t size) LQ_MUST_CHECK;
/* A file, or a directory with all in it; "" empties the disk. */
lightq_status lq_io_mem_remove(struct lq_io_mem *mem, const char *path) LQ_MUST_CHECK;

/* ---- whole disks ---- */

/* A copy of what reads show now; NULL when out of memory. Cheap: pages are shared until written. */
struct lq_io_mem_image *lq_io_mem_copy(struct lq_io_mem *mem);
/* Makes the disk that of @image, all durable, after dropping jobs and handles as a crash does. @image stays the
 * caller's and can be restored again, also into another lq_io_mem of the same thread. OK | ENOMEM. */
lightq_status lq_io_mem_restore(struct lq_io_mem *mem, const struct lq_io_mem_image *image) LQ_MUST_CHECK;
void lq_io_mem_image_free(struct lq_io_mem_image *image);

/* ---- looking ---- */

/* Content of a file as reads show it: *bytes is malloc'ed, the caller frees it. OK | ENOTFOUND | ENOMEM. */
lightq_status lq_io_mem_read_file(struct lq_io_mem *mem, const char *path, uint8_t **bytes, size_t *size) LQ_MUST_CHECK;
/* Whether a power cut that loses everything that is not durable would leave a file with those @size bytes (8 to 64) in
 * it, from a multiple of 8 on. */
bool lq_io_mem_durable_has(const struct lq_io_mem *mem, const void *bytes, size_t size);
bool lq_io_mem_exists(struct lq_io_mem *mem, const char *path);
/* Ops of that verb begun so far, failed ones too. */
uint64_t lq_io_mem_count(const struct lq_io_mem *mem, unsigned verb);
/* Files open now: a test's tear-down compares it with 0. */
size_t lq_io_mem_open_files(const struct lq_io_mem *mem);
/* Every file with its size and what of it is not durable, directory changes that are not durable, handles and jobs. */
void lq_io_mem_dump(struct lq_io_mem *mem, FILE *to);
/* The last LQ_IO_MEM_TRACE_MAX ops, oldest first, a line each with the number of the change. */
void lq_io_mem_trace(const struct lq_io_mem *mem, FILE *to);

#define LQ_IO_MEM_DISK_BYTES_DEFAULT (4ull * 1024 * 1024 * 1024)
#define LQ_IO_MEM_FILE_BYTES_MAX     (1ull * 1024 * 1024 * 1024)
#define LQ_IO_MEM_FILES_MAX          16384 /* open at a time */
#define LQ_IO_MEM_JOBS_MAX           65536 /* pending at a time */
#define LQ_IO_MEM_FAULTS_MAX         16
#define LQ_IO_MEM_TRACE_MAX          512

#endif
