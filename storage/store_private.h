/* storage/store_private.h - what the files behind storage/store.h share: the store, a log, and who does what.
 *
 *   store.c       open, close, finding logs           rlog.c        the log in memory: append, cut, votes, terms
 *   flusher.c     the flush: when, and what is told   flush_job.c   the flush's program of disk operations
 *   flush_plan.c  what goes with a flush              journal_need.c  which journal files are needed
 *   late.c        written to their segment later
 *   background.c  syncs, seals, checkpoints, removals read.c        reads from disk
 *   retain.c      checkpoints, trim, install          recover.c     judging a log at start; heal.c repairs it
 *   replay.c      reading the journal at start        scrub.c       searching for rot
 *   cache.c segment.c index.c checkpoint.c journal.c disk.c
 *
 * One loop thread. The states of a log on disk and who may change them are in docs/adr/0004. */
#ifndef LQ_STORAGE_STORE_PRIVATE_H
#define LQ_STORAGE_STORE_PRIVATE_H

#include <sys/queue.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "storage/cache.h"
#include "storage/checkpoint.h"
#include "storage/disk.h"
#include "storage/index.h"
#include "storage/journal.h"
#include "storage/segment.h"
#include "storage/store.h"

#define LQ_SEGMENT_BYTES_DEFAULT   (64u * 1024 * 1024)
#define LQ_JOURNAL_BYTES_DEFAULT   (64u * 1024 * 1024)
#define LQ_CACHE_BYTES_DEFAULT     (256u * 1024 * 1024)
#define LQ_INDEX_STRIDE_DEFAULT    (64u * 1024)
#define LQ_SYNC_FILES_DEFAULT      2u
#define LQ_JOURNAL_PAYLOAD_DEFAULT (64u * 1024)
#define LQ_LATE_BYTES_DEFAULT      (32u * 1024)
/* How the descriptors of a store are shared out, of options.files_max: files that nothing needs are closed, the least
 * recently used first, above a quarter (or LQ_SEGMENT_OPEN_MAX); a flush writes to a quarter at most, the rest goes
 * with the next; above a half that wait for their sync, a flush syncs what it writes at once and leaves no more behind,
 * and above a quarter the background begins to sync them; reads open none above three quarters. */
#define LQ_FILES_DEFAULT             4096u
#define LQ_FILES_MIN                 8u
#define LQ_FILES_RETRY_US            200000 /* between two tries to open what could not be opened */
#define LQ_SCRUB_INTERVAL_MS_DEFAULT (7ull * 24 * 3600 * 1000)
#define LQ_WATERMARK_FLUSHES_MAX     64             /* flushes until durable watermarks reach the journal */
#define LQ_WATERMARK_US_MAX          (1000u * 1000) /* the same in time */
#define LQ_CHANGES_KEPT_MAX          (16u * 16u)    /* LQ_SERVERS_MAX squared: configuration entries kept in memory */
#define LQ_READ_HINTS                4              /* where recent reads of a log ended */

/* How far a cut is. Each step is one flush, so that the one before it is durable. */
enum lq_cut_step {
    LQ_CUT_NONE,
    LQ_CUT_BEGIN, /* the journal is to say that it begins */
    LQ_CUT_DO,    /* the segments are to be cut, then the journal is to say that it is done */
};

enum lq_install_step {
    LQ_INSTALL_NONE,
    LQ_INSTALL_WRITE, /* background: the checkpoint is to be written under its temporary name */
    LQ_INSTALL_BEGIN, /* the journal is to say that it begins */
    LQ_INSTALL_DO,    /* rename, drop the old log, then the journal is to say that it is done */
};

/* Files of a log that are to go. */
struct lq_doomed {
    uint64_t number;
    bool segment;    /* .log and .idx */
    bool checkpoint; /* .ckpt */
};
struct lq_doomed_list {
    struct lq_doomed *at;
    size_t count;
    size_t capacity;
};

struct lq_read_hint {
    uint64_t index;
    uint64_t segment_first;
    uint64_t position;
};

struct lq_rlog {
    struct lq_store *store;
    UT_hash_handle hh;
    uint64_t group;
    uint32_t incarnation;
    char *dir;
    enum lq_rlog_health health;
    struct lq_err *reason; /* NULL while healthy */
    struct lq_err *rot;    /* NULL: none found */
    uint64_t rot_index;
    const struct lq_rlog_events *events;
    void *owner;

    uint64_t first;
    uint64_t last;
    uint64_t durable;
    uint64_t submitted;      /* entries up to here are in a job or on disk */
    uint64_t written;        /* entries up to here are in the segment files; those above are late when durable */
    uint64_t flight_last;    /* of the entries in the job in flight, less what was cut meanwhile; 0: none */
    uint64_t flight_written; /* the same of those it writes to their segments */
    uint64_t first_offset;
    uint64_t next_offset;
    uint64_t generation;

    struct lq_rlog_run *runs;
    size_t run_count;
    size_t run_capacity;
    struct lq_rlog_change *changes; /* payloads are malloc'ed */
    size_t change_count;
    size_t change_capacity;
    struct lq_segment **segments;
    size_t segment_count;
    size_t segment_capacity;
    struct lq_checkpoint_file *checkpoints; /* ascending; the base, if there is one, is the first */
    size_t checkpoint_count;
    size_t checkpoint_capacity;
    struct lq_checkpoint_meta *base; /* of the checkpoint that the log begins after; NULL when it begins at 1 */
    struct lq_ring ring;
    struct lq_read_hint hints[LQ_READ_HINTS];
    unsigned next_hint;

    uint64_t term;
    uint64_t voted_for;
    uint64_t vote_sequence;  /* of the last set */
    uint64_t vote_submitted; /* in a job */
    uint64_t vote_durable;

    struct lq_journal_group journaled; /* as durable in the journal */
    bool created;                      /* the record is durable */
    bool destroyed;                    /* by the owner: a zombie until its files are gone */
    bool destroy_durable;
    bool trim_wanted;
    uint64_t trim_to;
    enum lq_cut_step cut_step;
    uint64_t cut_index;
    uint64_t cut_position; /* of that entry, in the segment that begins with cut_segment */
    uint64_t cut_segment;
    enum lq_install_step install_step;
    struct lq_checkpoint_file install; /* blob, until written */
    struct lq_doomed_list doomed;      /* go with the cut or install */
    struct lq_doomed_list trimmed;     /* go in the background, once the trim is in the journal */
    bool directory_dirty;              /* has entries not synced */

    size_t dirty_count;   /* segments with bytes not synced */
    uint64_t journal_low; /* lowest file whose entries are not synced in our segments; 0: none */
    bool released_dirty;  /* segments with such bytes were let go by a change that is not durable yet: keep the low */
    uint64_t journal_syncing; /* the same, of a sync under way */
    uint64_t late_low;        /* lowest file whose entries are not written to our segments; 0: none (late.c) */
    uint64_t late_bytes;      /* of such entries */
    uint64_t keep_low;        /* failed or damaged: the journal files that may hold what the segments lack */
    uint64_t keep_high;

    unsigned pins;          /* flush jobs and tellings that name this log */
    bool background_busy;   /* a background job works on it */
    bool is_dirty;          /* in store->dirty */
    bool watermark_dirty;   /* in store->watermarks */
    bool background_queued; /* in store->background_logs */
    bool failure_untold;    /* in store->failures */
    bool write_wanted;      /* late entries are to be written with the next flush */
    TAILQ_ENTRY(lq_rlog) dirty_link;
    TAILQ_ENTRY(lq_rlog) watermark_link;
    TAILQ_ENTRY(lq_rlog) background_link;
    TAILQ_ENTRY(lq_rlog) failure_link;
    TAILQ_ENTRY(lq_rlog) zombie_link;
    TAILQ_ENTRY(lq_rlog) late_link;
};

/* A group the journal has ever known. */
struct lq_known {
    uint64_t group;
    uint32_t incarnation; /* the highest */
    bool durable;         /* the journal has it: */
    uint32_t durable_incarnation;
    UT_hash_handle hh;
};

TAILQ_HEAD(lq_rlog_list, lq_rlog);
TAILQ_HEAD(lq_segment_list, lq_segment);

struct lq_flush;
struct lq_background;
struct lq_scrub;
struct lq_read_op;
TAILQ_HEAD(lq_read_list, lq_read_op);

struct lq_store {
    struct lq_io *io;
    struct lq_clock *clock;
    struct lq_store_options options;
    char dir[LQ_STORE_DIR_BYTES];
    struct lq_rlog **logs;
    size_t log_count;
    size_t log_capacity;
    struct lq_rlog *by_group;
    struct lq_known *known;
    struct lq_journal journal;
    struct lq_cache cache;
    struct lq_segment_list open_segments; /* least recently used first */
    size_t open_segment_count;
    size_t dirty_segment_count;    /* of them, with bytes not synced */
    uint64_t files_short_until_us; /* no descriptors: what needs one waits until then; 0: there are some */

    struct lq_rlog_list dirty;
    struct lq_rlog_list watermarks; /* durable further than the journal says */
    struct lq_rlog_list background_logs;
    struct lq_rlog_list failures;
    struct lq_rlog_list zombies;
    struct lq_rlog_list late;    /* logs with late entries, those first that have them longest */
    uint64_t late_bytes;         /* of all */
    struct lq_flush *flushes[2]; /* one in flight while the other one's news are told */
    bool flushing;
    struct lq_flush *starved; /* of flushes: its job waits for space, and goes on with op_next */
    uint64_t starved_until_us;
    struct lq_background *background;
    struct lq_scrub *scrub;
    struct lq_read_list reads;
    size_t rotten; /* logs in which rot was found */
    unsigned flushes_since_frame;
    uint64_t watermark_since_us; /* when the first of watermarks joined */
    uint64_t pending_since_us;   /* the oldest change that no job has; 0: none */
    uint64_t flight_since_us;    /* the same for the job in flight */
    uint64_t install_count;
    bool journal_failed;
    bool follow_up;         /* a step is done whose next one waits for a flush */
    bool root_dirty;        /* a group's directory was made and not synced */
    uint64_t snapshot_need; /* lowest file that the snapshot of the current one says a sound log needs */
    uint64_t rotate_at;     /* journal position from which a new file is begun */
    struct lq_store_counters counters;

    void (*close_cb)(void *data);
    void *close_data;
    bool closing;
    bool close_final; /* the last job is under way */
};

/* ---- rlog.c ---- */

struct lq_rlog *lq_rlog_new(struct lq_store *store, uint64_t group, uint32_t incarnation);
/* Frees it and what it holds; files are closed unless @abandon. */
void lq_rlog_free(struct lq_rlog *log, bool abandon);
/* Puts it into, and takes it out of, store->logs and by_group. ENOMEM. */
lightq_status lq_rlog_register(struct lq_rlog *log) LQ_MUST_CHECK;
void lq_rlog_unregister(struct lq_rlog *log);
/* Takes an entry at the end of the log, into @segment (its last). Used by append and by recovery. False: out of memory,
 * nothing was taken. */
bool lq_rlog_take(struct lq_rlog *log, struct lq_segment *segment, const struct lq_entry *entry, uint32_t crc,
                  uint64_t size) LQ_MUST_CHECK;
bool lq_rlog_add_run(struct lq_rlog *log, uint64_t first, uint64_t last, uint64_t term);
bool lq_rlog_add_change(struct lq_rlog *log, uint64_t index, const uint8_t *payload, uint32_t size);
/* A new last segment that begins at log->last + 1; NULL: out of memory. */
struct lq_segment *lq_rlog_add_segment(struct lq_rlog *log);
/* The segment that holds @index, or would next; NULL when there is none at or before it. */
struct lq_segment *lq_rlog_segment_at(const struct lq_rlog *log, uint64_t index, size_t *number);
/* Forgets all entries in memory, segments and changes; what is on disk is the caller's to doom. */
void lq_rlog_clear(struct lq_rlog *log);
void lq_rlog_drop_first_change(struct lq_rlog *log);
/* The log is finished: EIO, ENOSPC. Told later. */
void lq_rlog_fail(struct lq_rlog *log, lightq_status status, const struct lq_err *err);
void lq_rlog_set_health(struct lq_rlog *log, enum lq_rlog_health health, const struct lq_err *reason);
/* See lq_rlog_rot. */
void lq_rlog_set_rot(struct lq_rlog *log, uint64_t index, const struct lq_err *what);
/* What was found outside [@first, @last] is gone. */
void lq_rlog_drop_rot(struct lq_rlog *log, uint64_t first, uint64_t last);
/* Something waits for the next flush. */
void lq_rlog_mark_dirty(struct lq_rlog *log);
/* durable differs from what the journal says. */
void lq_rlog_mark_watermark(struct lq_rlog *log);
void lq_rlog_mark_background(struct lq_rlog *log);
/* Whether anything of it waits for a flush. */
bool lq_rlog_has_pending(const struct lq_rlog *log);
bool lq_doomed_add(struct lq_doomed_list *list, uint64_t number, bool segment, bool checkpoint);
struct lq_checkpoint_owner lq_rlog_owner(const struct lq_rlog *log);

/* ---- the segments' files (segment_file.c) ---- */

/* Opens, or creates, the file unless it is open; may close others that nothing needs. ELIMIT: no descriptor. */
lightq_status lq_segment_open(struct lq_rlog *log, struct lq_segment *segment, bool create,
                              struct lq_err *err) LQ_MUST_CHECK;
/* Whether a read may open one more. */
bool lq_segments_may_read(struct lq_store *store);
void lq_segment_pin(struct lq_store *store, struct lq_segment *segment);
void lq_segment_unpin(struct lq_store *store, struct lq_segment *segment);
void lq_segment_close(struct lq_store *store, struct lq_segment *segment);
/* The log's reference goes; the file is closed when nobody else has it. */
void lq_segment_release(struct lq_rlog *log, struct lq_segment *segment);
/* A dirty segment is pinned. */
void lq_segment_set_dirty(struct lq_rlog *log, struct lq_segment *segment, bool dirty);
/* Loads the points of a sealed segment again. */
lightq_status lq_segment_load_points(struct lq_rlog *log, struct lq_segment *segment, struct lq_err *err) LQ_MUST_CHECK;
/* Where entry @index of @segment begins, and its header (the payload is not given); reads from disk (blocking) when it
 * is not in memory. ECORRUPT | EIO | ENOMEM. */
lightq_status lq_segment_locate(struct lq_rlog *log, struct lq_segment *segment, uint64_t index, uint64_t *position,
                                struct lq_entry *entry, struct lq_err *err) LQ_MUST_CHECK;

/* ---- flusher.c ---- */

/* The journal failed: every log of the shard has. */
void lq_store_fail_all(struct lq_store *store, lightq_status status, const struct lq_err *err);
void lq_store_tell_failures(struct lq_store *store);
/* There was no descriptor: what needs one waits a while. */
void lq_store_short_of_files(struct lq_store *store, const struct lq_err *err);
/* The last flush of a closing store: watermarks only. False when nothing was submitted. */
bool lq_flush_final(struct lq_store *store);
/* The store closes: what waits for space is tried once more, and fails this time. */
void lq_flush_end_wait(struct lq_store *store);
void lq_store_maybe_closed(struct lq_store *store);

/* ---- late.c ---- */

/* The journal has @bytes more of entries that the segment lacks. */
void lq_late_join(struct lq_rlog *log, uint64_t bytes);
/* Late entries were written, cut or trimmed: how many are left. */
void lq_late_settle(struct lq_rlog *log);
/* None are left, or they do not count any more. */
void lq_late_leave(struct lq_rlog *log);
/* They are to be written with the next flush. */
void lq_late_want(struct lq_rlog *log);
void lq_late_want_all(struct lq_store *store);
/* They are written, and not synced: what kept the journal for them does so until they are. */
void lq_late_keep_journal(struct lq_rlog *log);
/* Some are let go by a change that is not durable yet: the same until it is. */
void lq_late_let_go(struct lq_rlog *log);
/* Drops from the cache what is over its bound; what cannot go because it is not written is wanted written. */
void lq_store_shrink_cache(struct lq_store *store);

/* ---- background.c ---- */

struct lq_background *lq_background_new(struct lq_store *store);
void lq_background_free(struct lq_background *background);
bool lq_background_busy(const struct lq_store *store);
/* Starts the next background job if none is under way. */
void lq_background_run(struct lq_store *store);
/* The store closes: what waits for a descriptor is tried once more, and ends this time. */
void lq_background_end_wait(struct lq_store *store);

/* ---- journal_need.c ---- */

/* Whether any log, destroyed ones too, needs the journal file @number. */
bool lq_journal_is_needed(const struct lq_store *store, uint64_t number);
/* Nothing in the segments needs the journal any more, unless a change that let segments go may still be lost. */
void lq_rlog_settle_need(struct lq_rlog *log);
/* The lowest journal number that is still needed by entries of @log. */
uint64_t lq_rlog_need(const struct lq_rlog *log);

/* ---- aside.c ---- */

/* What only the journal has durably is in the segments too then: it may forget the log. Blocking. */
lightq_status lq_rlog_sync_files(struct lq_rlog *log, struct lq_err *err) LQ_MUST_CHECK;
/* Renames a group's directory into removed/, durably; @mark goes into its name. */
lightq_status lq_store_set_aside(struct lq_store *store, const char *dir, const char *mark,
                                 struct lq_err *err) LQ_MUST_CHECK;

/* ---- scrub.c ---- */

struct lq_scrub *lq_scrub_new(struct lq_store *store);
/* @abandon: its file is not closed. */
void lq_scrub_free(struct lq_scrub *scrub, bool abandon);
bool lq_scrub_busy(const struct lq_store *store);
/* Reads on, as far as time allows: called in every turn. */
void lq_scrub_run(struct lq_store *store);

/* ---- retain.c, read.c ---- */

void lq_checkpoint_file_deinit(struct lq_checkpoint_file *file);
/* The checkpoint with this number; NULL when there is none. */
struct lq_checkpoint_file *lq_rlog_checkpoint_at(const struct lq_rlog *log, uint64_t next_index);
/* A checkpoint that does not read well: out of the list, and its name says so, so that it is not tried again. */
void lq_rlog_set_checkpoint_aside(struct lq_rlog *log, struct lq_checkpoint_file *file, const struct lq_err *reason);
void lq_read_abandon_all(struct lq_store *store);

/* ---- store.c ---- */

struct lq_store *lq_store_new(struct lq_io *io, struct lq_clock *clock);
lightq_status lq_store_take_options(struct lq_store *store, const struct lq_store_options *options,
                                    struct lq_err *err) LQ_MUST_CHECK;
/* @abandon: files are not closed. */
void lq_store_free(struct lq_store *store, bool abandon);

struct lq_known *lq_store_known(const struct lq_store *store, uint64_t group);
/* Notes that the group existed with this incarnation. ENOMEM. */
lightq_status lq_store_note(struct lq_store *store, uint64_t group, uint32_t incarnation) LQ_MUST_CHECK;
/* The journal says so now. */
void lq_store_note_durable(struct lq_store *store, const struct lq_rlog *log);
/* The snapshot frame of all groups into @writer, which holds what stands before it in the file, as they are durable
 * now; entries below file @need_from are not needed by logs that need none. @allocated: as long as it tells the file to
 * be. Gives the lowest file that a log which is neither failed nor damaged needs. */
uint64_t lq_store_snapshot(struct lq_store *store, struct lq_writer *writer, uint64_t need_from, uint64_t *allocated);

#endif
