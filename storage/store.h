/* storage/store.h - the durable state of one shard: a log for each Raft group, and the shard journal that holds terms,
 * votes, cuts, creations and (when many groups are dirty) entries. Called by raft/ only. Loop thread only.
 *
 * How durability is told: every change (append, cut, vote, install) is taken at once into what the calls below show,
 * and goes to disk with the next flush. lq_store_flush() is to be called at the end of every turn of the loop: it
 * starts one job that writes and syncs all that changed since the last one (one job in flight; later changes gather
 * for the next). What has become durable is told through the log's events. Events are never made inside a call.
 *
 * A failed write or sync is final: the log (or, when it was the journal, every log of the shard) fails and takes
 * nothing more until the process starts again. ENOSPC on an append fails nothing that was there: see lq_store_space.
 * Nor does a want of descriptors: what needs one waits and is tried again, to those above it is a disk that hangs.
 *
 * Why it is built so: docs/architecture.md, docs/format/. */
#ifndef LQ_STORAGE_STORE_H
#define LQ_STORAGE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "storage/format.h"
#include "storage/io.h"

struct lq_store;
struct lq_rlog; /* "replica log": named so beside the logger, lq_log() */

struct lq_store_options {
    bool must_exist;              /* a store was made here before: without its journal it is damaged, not new */
    const char *dir;              /* of the shard's groups and journal, relative to the io's root; "" is the root */
    struct lq_id cluster;         /* stamped into every file; another cluster's file is EIDENTITY */
    unsigned shard;               /* this shard's number, for names of journal files */
    unsigned shards;              /* of how many: a journal written for another number is EDAMAGED; 0: not checked */
    uint64_t segment_bytes;       /* 0: 64 MiB */
    uint64_t journal_bytes;       /* 0: 64 MiB */
    uint64_t cache_bytes;         /* of entries kept in memory, over all groups; 0: 256 MiB */
    uint64_t index_stride;        /* bytes between sparse index points; 0: 64 KiB */
    unsigned sync_files_max;      /* up to this many dirty segments are synced one by one, above it the journal; 0: 2 */
    uint64_t journal_payload_max; /* mean bytes a dirty group above which segments are synced instead; 0: 64 KiB */
    uint64_t late_bytes_max;      /* of a log that the journal carries, not written to its segment yet; 0: 32 KiB */
    unsigned files_max;           /* segment files open at a time; 0: 4096. See LQ_FILES_... in store_private.h */
    uint64_t scrub_bytes_per_second; /* read in search of rot, at most; 0: none is searched for */
    uint64_t scrub_interval_ms;      /* from the begin of one search to that of the next, at least; 0: 7 days */
};

/* Reads the journals and all logs, merges, judges torn tails and damage. Blocking. The store is returned also when some
 * logs are damaged or lost (lq_rlog_health); only what makes the whole shard unusable (EIDENTITY, EVERSION, EIO,
 * ENOMEM, EDAMAGED for a bad journal) fails. @io is borrowed until closed. On failure nothing on disk has changed. */
lightq_status lq_store_open(struct lq_io *io, struct lq_clock *clock, const struct lq_store_options *options,
                            struct lq_store **store, struct lq_err *err) LQ_MUST_CHECK;
/* Waits for the job in flight, flushes nothing more, then calls back once, later. Frees the store before calling. */
void lq_store_close(struct lq_store *store, void (*cb)(void *data), void *data);
/* Frees at once, as a crash would: for tests whose io is frozen. Jobs in flight must never complete afterwards. */
void lq_store_abandon(struct lq_store *store);

void lq_store_flush(struct lq_store *store);
/* True when nothing waits and nothing is in flight. */
bool lq_store_idle(const struct lq_store *store);

size_t lq_store_count(const struct lq_store *store);
struct lq_rlog *lq_store_at(struct lq_store *store, size_t i);
struct lq_rlog *lq_store_find(struct lq_store *store, uint64_t group); /* NULL when there is none */
/* True when the journal knows that the group existed here once, whatever became of it (also destroyed ones, with
 * the highest incarnation in *incarnation). */
bool lq_store_knows(const struct lq_store *store, uint64_t group, uint32_t *incarnation);

struct lq_store_space {
    uint64_t free_bytes;
    uint64_t total_bytes;
    uint64_t used_bytes; /* by this shard's files */
};
lightq_status lq_store_space(struct lq_store *store, struct lq_store_space *space) LQ_MUST_CHECK;

struct lq_store_counters {
    uint64_t flushes, segment_syncs, journal_syncs, bytes_written, journal_bytes_written, entries_appended, cache_bytes,
        cache_hits, cache_misses, oldest_pending_us;  /* oldest_pending_us: 0 when nothing waits */
    uint64_t scrub_bytes, scrub_passes, scrub_errors; /* searched for rot; whole searches; files found bad */
};
void lq_store_count_up(const struct lq_store *store, struct lq_store_counters *counters);

/* ---- one group's log ---- */

enum lq_rlog_health {
    LQ_RLOG_HEALTHY,
    LQ_RLOG_DAMAGED, /* found at start: something durable is bad; the files were left or set aside, never deleted */
    LQ_RLOG_LOST,    /* found at start: the journal says it was created, and it is not there */
    LQ_RLOG_FAILED,  /* a write or sync failed while running */
};

struct lq_rlog_events {
    /* Entries up to @index are durable. Never tells of an index that was cut meanwhile; may leave out steps. */
    void (*durable)(void *owner, uint64_t index);
    /* All votes up to the one that lq_rlog_set_vote numbered @sequence are durable. */
    void (*voted)(void *owner, uint64_t sequence);
    /* The checkpoint installed last by lq_rlog_install is durable and the old log is gone. */
    void (*installed)(void *owner, uint64_t last_index);
    /* Final. @err borrowed during the call. */
    void (*failed)(void *owner, lightq_status status, const struct lq_err *err);
};

/* A new group. The journal record created(group, incarnation) is durable before anything else of it is told durable.
 * EEXISTS when the group is here; ECONFLICT when the journal knows it with this or a higher incarnation. */
lightq_status lq_rlog_create(struct lq_store *store, uint64_t group, uint32_t incarnation, struct lq_rlog **log,
                             struct lq_err *err) LQ_MUST_CHECK;
/* Removes the group's files, for good, once the journal says so durably. @log is gone after the call; a job in
 * flight is waited for inside. For damaged and lost logs too: their bad files are set aside into "removed/". */
void lq_rlog_destroy(struct lq_rlog *log);
/* Nothing of it waits or is under way. */
bool lq_rlog_is_quiet(const struct lq_rlog *log);
/* As destroy, for a replica that is made anew under a later incarnation: the files of a sound log are kept in
 * "removed/", synced, until lq_store_drop_aside. Blocking. OK: @log is gone | EBUSY: it is not quiet | EIO | ENOSPC:
 * nothing has changed. */
lightq_status lq_rlog_set_aside(struct lq_rlog *log, struct lq_err *err) LQ_MUST_CHECK;
/* The present replica of @group is as good as those whose sound logs were set aside: they are deleted. Blocking. */
void lq_store_drop_aside(struct lq_store *store, uint64_t group);

void lq_rlog_set_events(struct lq_rlog *log, const struct lq_rlog_events *events, void *owner);
enum lq_rlog_health lq_rlog_health(const struct lq_rlog *log);
/* Why it is not healthy; "" when it is. */
const char *lq_rlog_health_text(const struct lq_rlog *log);
/* What the search for rot found in files that nobody may have read since: entries, or the checkpoint that the log
 * begins with, are not as they were written (ECORRUPT), or cannot be read (EIO), and have been looked at twice. NULL:
 * nothing. *@index: of the first entry concerned. The log goes on, for the others may not do without it; it should not
 * lead, and is to be rebuilt when they can. */
const struct lq_err *lq_rlog_rot(const struct lq_rlog *log, uint64_t *index);
/* How many logs it says that of: to ask each only when there is one. */
size_t lq_store_rotten(const struct lq_store *store);
uint64_t lq_rlog_group(const struct lq_rlog *log);
uint32_t lq_rlog_incarnation(const struct lq_rlog *log);

/* Indexes. first is that of the first entry held (1, or last_index of the first checkpoint + 1); last is first - 1
 * when there is none; durable <= last. */
uint64_t lq_rlog_first(const struct lq_rlog *log);
uint64_t lq_rlog_last(const struct lq_rlog *log);
uint64_t lq_rlog_durable(const struct lq_rlog *log);
/* The term of an entry of the log, or of the entry just before the first (from the checkpoint); 0 when unknown. */
uint64_t lq_rlog_term_at(const struct lq_rlog *log, uint64_t index);
/* Counts cuts and installs: an asynchronous read begun under another generation is void. */
uint64_t lq_rlog_generation(const struct lq_rlog *log);
/* Bytes of the log's files. */
uint64_t lq_rlog_bytes(const struct lq_rlog *log);

/* Term and vote as last set (durable or not yet). */
void lq_rlog_vote(const struct lq_rlog *log, uint64_t *term, uint64_t *voted_for);
/* Returns this vote's number, for the voted event. */
uint64_t lq_rlog_set_vote(struct lq_rlog *log, uint64_t term, uint64_t voted_for);

/* Appends whole encoded entries, sealed (crc made), indexes last + 1 and on, prev_term chained; takes a reference of
 * its own to each slab. EINVAL when they do not follow; ESTOPPED when the log is not healthy; ENOMEM. Nothing is taken
 * unless all are. */
lightq_status lq_rlog_append(struct lq_rlog *log, const struct lq_entry_ref *refs, size_t count) LQ_MUST_CHECK;
/* Cuts the entries from @index on; @index > first - 1, <= last + 1 (then nothing happens). Durable before any entry
 * appended later is told durable. */
lightq_status lq_rlog_cut(struct lq_rlog *log, uint64_t index) LQ_MUST_CHECK;

/* Entries from @index on that are in memory: at most @count_max and about @bytes_max (at least one). Each ref given has
 * a reference that the caller drops with lq_slab_unref. 0 when entry @index is not in memory. */
size_t lq_rlog_peek(struct lq_rlog *log, uint64_t index, uint64_t bytes_max, size_t count_max,
                    struct lq_entry_ref *refs);

/* A read from disk. Belongs to the caller; pinned until cb. */
struct lq_rlog_read {
    uint64_t index;     /* first entry wanted */
    uint64_t bytes_max; /* about; at least one entry is given */
    void (*cb)(struct lq_rlog_read *read, lightq_status status);
    void *data;
    /* Given: one slab (the callback's caller keeps it alive during the call only: take refs) and the entries in it,
     * contiguous, crc checked, in order. */
    struct lq_slab *slab;
    struct lq_entry_ref *refs; /* valid during cb; each borrows the slab's reference */
    size_t count;
    uint64_t generation; /* of the log when it began */
    void *internal[8];
};
/* OK: cb runs once, later: OK | EIO | ECORRUPT (rot: the caller must stop this replica) | ECANCELED (log cut,
 * installed, destroyed or closed meanwhile) | ENOMEM. Else cb never runs: EOUTOFRANGE (index outside [first, last]),
 * ESTOPPED (damaged or lost), EIO, ECORRUPT, ENOMEM, EBUSY (too many reads at once, or no descriptor: later). */
lightq_status lq_rlog_read(struct lq_rlog *log, struct lq_rlog_read *read) LQ_MUST_CHECK;

/* An index at or before the entry that holds queue offset @offset, at most about index_stride bytes before it.
 * Clamped to [first, last + 1]. */
uint64_t lq_rlog_seek_offset(const struct lq_rlog *log, uint64_t offset);
/* The same for the first entry stamped at or after @timestamp_ms. */
uint64_t lq_rlog_seek_time(const struct lq_rlog *log, uint64_t timestamp_ms);
/* base_offset of the first entry held (or the next offset when none is): where consumers can start. */
uint64_t lq_rlog_first_offset(const struct lq_rlog *log);

/* ---- checkpoints and trimming ---- */

struct lq_checkpoint {
    uint64_t last_index; /* the state is that after this entry */
    uint64_t last_term;
    uint64_t next_offset;
    uint64_t timestamp_ms;
    uint64_t configuration_index;
    const uint8_t *configuration; /* encoded; borrowed */
    uint32_t configuration_size;
    const uint8_t *state; /* borrowed */
    uint64_t state_size;
};

/* True when @index (> first) begins a segment that has no durable or pending checkpoint yet: before the entry is
 * applied, the state must be given to lq_rlog_checkpoint. */
bool lq_rlog_wants_checkpoint(const struct lq_rlog *log, uint64_t index);
/* Writes the .ckpt of the segment that begins at checkpoint->last_index + 1 (tmp, fsync, rename, fsync dir), with the
 * coming flushes. Copies what it is given. Not durable ones only delay trimming. EINVAL: last_index is not durable here
 * (so a checkpoint proves that the log once was), below first, or of another term; EEXISTS; ESTOPPED; EBUSY (an install
 * is under way); ETOOBIG; ENOMEM. */
lightq_status lq_rlog_checkpoint(struct lq_rlog *log, const struct lq_checkpoint *checkpoint) LQ_MUST_CHECK;
/* The .ckpt in force just before the first entry held: false when the log begins at index 1. Metadata in memory;
 * state and its size are NULL and 0. */
bool lq_rlog_first_checkpoint(const struct lq_rlog *log, struct lq_checkpoint *checkpoint);
/* Blocking read of a checkpoint with its state: of the first (to send to a replica) or the newest at or below
 * @index_max (to restart from). *bytes is malloc'ed, the caller frees it; the pointers of @checkpoint go into it. */
lightq_status lq_rlog_load_checkpoint(struct lq_rlog *log, uint64_t index_max, bool newest,
                                      struct lq_checkpoint *checkpoint, uint8_t **bytes,
                                      struct lq_err *err) LQ_MUST_CHECK;
/* How far the log can be trimmed when all before @index may go: the last_index of the checkpoint that would become the
 * first (its metadata in @checkpoint), or 0 when nothing can go. */
uint64_t lq_rlog_trim_point(const struct lq_rlog *log, uint64_t index, struct lq_checkpoint *checkpoint);
/* Drops whole segments so that the log begins at @last_index + 1; only with what lq_rlog_trim_point gave, and only
 * after Raft was told (RAFT_SNAPSHOT). */
lightq_status lq_rlog_trim(struct lq_rlog *log, uint64_t last_index) LQ_MUST_CHECK;
/* Replaces the whole log by a checkpoint received from the leader; the log then begins at last_index + 1. Copies.
 * Until installed() is told, appends are refused with EBUSY. */
lightq_status lq_rlog_install(struct lq_rlog *log, const struct lq_checkpoint *checkpoint) LQ_MUST_CHECK;

/* What Raft needs at start: each CHANGE entry held, in order (at most LQ_SERVERS_MAX^2 kept; the newest always). */
struct lq_rlog_change {
    uint64_t index;
    const uint8_t *payload; /* in memory of the log, until the next cut, trim or install */
    uint32_t payload_size;
};
size_t lq_rlog_changes(const struct lq_rlog *log, const struct lq_rlog_change **changes);

/* A run of entries of one term: [first, last]. In order. */
struct lq_rlog_run {
    uint64_t first, last, term;
};
size_t lq_rlog_runs(const struct lq_rlog *log, const struct lq_rlog_run **runs);
/* The type of an entry at start for RAFT_START: CHANGE for those in lq_rlog_changes, else COMMAND will do. */

#endif
