/* storage/flusher.c - runs flushes: one in flight, the next one gathers; on its end says what is durable, and on
 * failure who is finished. Called by storage/store.c and the io's callbacks on the loop thread; the program itself is
 * made by storage/flush_job.c. A failed write or sync is never tried again; only a full disk, which has taken nothing
 * that it does not have, is waited for: to those above it is a disk that hangs. */
#include <assert.h>
#include <inttypes.h>

#include "client/base/log.h"
#include "storage/flush.h"

#define RETRY_US     200000 /* of what waits for space or a descriptor */
#define GROWTH_SYNCS 2      /* of the journal, beside that of the frame */

static void on_flush_job(struct lq_io_job *job, lightq_status status);

static lightq_status submit_from(struct lq_flush *flush, size_t op)
{
    flush->op_next = op;
    flush->job.ops = op == 0 ? flush->ops : flush->ops + op; /* there may be none at all */
    flush->job.count = (unsigned)(flush->op_count - op);
    flush->job.cb = on_flush_job;
    flush->job.data = flush;
    return flush->store->io->ops->submit(flush->store->io, &flush->job);
}

/* ---- starting ---- */

static struct lq_flush *idle_flush(struct lq_store *store)
{
    for (int i = 0; i < 2; i++) {
        struct lq_flush *flush = store->flushes[i];
        if (flush->op_count == 0 && flush->part_count == 0 && flush->mark_count == 0 && !flush->is_telling) {
            return flush;
        }
    }
    return NULL;
}

static void begin(struct lq_store *store, struct lq_flush *flush)
{
    flush->has_waited = false;
    if (flush->out_of_memory || submit_from(flush, 0) != LIGHTQ_OK) {
        if (flush->new_file != LQ_FILE_NONE) {
            char path[LQ_PATH_BYTES];
            store->io->ops->close(store->io, flush->new_file);
            lq_path_journal(path, store->dir, store->options.shard, flush->new_number);
            store->journal.next_number++;
            lq_disk_unlink_try(store->io, path);
        }
        lq_flush_clear(flush);
        return; /* all is still pending: the next flush tries again */
    }
    lq_flush_commit(flush);
    if (flush->is_rotation) {
        store->journal.next_number++;
    }
    store->flushing = true;
    store->flight_since_us = store->pending_since_us;
    if (!flush->is_rotation) {
        store->pending_since_us = 0;
    }
}

/* Tries the job that waits for space again. */
static void retry_starved(struct lq_store *store)
{
    struct lq_flush *flush = store->starved;
    uint64_t now_us = lq_clock_monotonic_us(store->clock);
    if (flush == NULL || now_us < store->starved_until_us) {
        return;
    }
    store->starved = submit_from(flush, flush->op_next) == LIGHTQ_OK ? NULL : flush;
    store->starved_until_us = now_us + RETRY_US;
}

void lq_flush_end_wait(struct lq_store *store)
{
    struct lq_flush *flush = store->starved;
    store->starved = NULL;
    if (flush != NULL && submit_from(flush, flush->op_next) != LIGHTQ_OK) {
        on_flush_job(&flush->job, LIGHTQ_ECANCELED);
    }
}

void lq_store_short_of_files(struct lq_store *store, const struct lq_err *err)
{
    if (store->files_short_until_us == 0) {
        lq_log(ERROR, "no descriptor for a file: it is tried again", "shard", store->options.shard, "reason",
               err->text);
    }
    store->files_short_until_us = lq_clock_monotonic_us(store->clock) + LQ_FILES_RETRY_US;
}

/* A flush was built: had it met a want of descriptors, they would be short until later. */
static void note_files(struct lq_store *store)
{
    if (store->files_short_until_us != 0 && lq_clock_monotonic_us(store->clock) >= store->files_short_until_us) {
        lq_log(INFO, "there are descriptors again", "shard", store->options.shard);
        store->files_short_until_us = 0;
    }
}

void lq_store_flush(struct lq_store *store)
{
    struct lq_flush *flush = idle_flush(store);
    retry_starved(store);
    if (store->flushing || store->closing || flush == NULL) {
        lq_scrub_run(store);
        return;
    }
    bool something = false;
    if (!store->journal_failed && store->journal.position >= store->rotate_at) {
        something = lq_flush_build_rotation(flush);
        if (!something) {
            store->rotate_at = store->journal.position + store->options.journal_bytes / 8;
            lq_flush_clear(flush);
        }
    }
    if (!store->journal_failed && !something) {
        something = lq_flush_build(flush);
        note_files(store);
    }
    if (something || !TAILQ_EMPTY(&store->failures)) { /* telling needs a job, if only an empty one */
        begin(store, flush);
    } else {
        lq_flush_clear(flush);
    }
    lq_background_run(store);
    lq_scrub_run(store);
}

bool lq_flush_final(struct lq_store *store)
{
    struct lq_flush *flush = idle_flush(store);
    assert(flush != NULL && !store->flushing);
    flush->is_final = true;
    if (store->journal_failed || !lq_flush_build(flush) || flush->out_of_memory) {
        lq_flush_clear(flush); /* an empty job then, so that the end is told later and not inside close */
        flush->is_final = true;
    }
    if (submit_from(flush, 0) != LIGHTQ_OK) {
        return false;
    }
    lq_flush_commit(flush);
    store->flushing = true;
    return true;
}

/* ---- failures ---- */

void lq_store_fail_all(struct lq_store *store, lightq_status status, const struct lq_err *err)
{
    store->journal_failed = true;
    lq_log(ERROR, "journal failed: every log of the shard stops", "shard", store->options.shard, "reason", err->text);
    for (size_t i = 0; i < store->log_count; i++) {
        lq_rlog_fail(store->logs[i], status, err);
    }
}

void lq_store_tell_failures(struct lq_store *store)
{
    struct lq_rlog *log;
    while ((log = TAILQ_FIRST(&store->failures)) != NULL) {
        TAILQ_REMOVE(&store->failures, log, failure_link);
        log->failure_untold = false;
        if (log->events != NULL && log->events->failed != NULL && log->reason != NULL) {
            const struct lq_err reason = *log->reason;
            log->events->failed(log->owner, reason.status, &reason);
        }
    }
}

/* True when the operation can be tried with less: an allocation ahead on a full disk. */
static bool shrink(struct lq_flush *flush, size_t op, lightq_status status)
{
    struct lq_note *note = &flush->notes[op];
    if (status != LIGHTQ_ENOSPC || !note->may_shrink || flush->ops[op].size == note->least) {
        return false;
    }
    flush->ops[op].size = note->least;
    if (note->part == LQ_NOTE_STORE) {
        lq_flush_tell_length(flush, flush->ops[op].offset + note->least);
    }
    return true;
}

/* True when the operation did not happen for want of space, or of a descriptor, and may later: it waits. What a write
 * has left behind is written again as it is. A sync that fails so has lost data, like any other; that of a directory
 * has not begun when the directory could not be opened. */
static bool wait_and_retry(struct lq_flush *flush, size_t op, lightq_status status)
{
    struct lq_store *store = flush->store;
    enum lq_io_kind kind = flush->ops[op].kind;
    bool no_space = status == LIGHTQ_ENOSPC && (kind == LQ_IO_WRITE || kind == LQ_IO_ALLOCATE);
    bool no_files = status == LIGHTQ_ELIMIT && kind == LQ_IO_SYNC_DIR;
    if (store->closing || (!no_space && !no_files)) {
        return false;
    }
    if (!flush->has_waited) {
        lq_log(ERROR,
               no_space ? "the disk is full: nothing is stored until there is space"
                        : "no descriptor for a directory: nothing is stored until there is one",
               "shard", store->options.shard, "reason", flush->job.err.text);
    }
    flush->has_waited = true;
    flush->op_next = op;
    store->starved = flush;
    store->starved_until_us = lq_clock_monotonic_us(store->clock) + RETRY_US;
    return true;
}

/* Goes on behind a failure that concerns one log only. True: a job is under way again, or will be. */
static bool recover_job(struct lq_flush *flush, lightq_status status)
{
    if (status == LIGHTQ_ECANCELED || flush->is_rotation || flush->job.failed >= flush->job.count) {
        return false;
    }
    size_t op = flush->op_next + flush->job.failed;
    int part = flush->notes[op].part;
    size_t next = op + 1;
    if (shrink(flush, op, status)) {
        next = flush->ops[op].size == 0 ? op + 1 : op;
    } else if (wait_and_retry(flush, op, status)) {
        return true;
    } else if (part != LQ_NOTE_STORE) {
        lq_rlog_fail(flush->parts[part].log, status, &flush->job.err);
        flush->op_next = op + 1;
        lq_flush_void_part(flush, part);
    } else {
        return false;
    }
    return submit_from(flush, next) == LIGHTQ_OK;
}

/* ---- what is done ---- */

static void finish_cut(struct lq_flush *flush, struct lq_part *part)
{
    struct lq_rlog *log = part->log;
    log->journaled.cut = 0;
    log->doomed.count -= part->doomed_count;
    for (size_t i = 0; i < log->doomed.count; i++) {
        log->doomed.at[i] = log->doomed.at[i + part->doomed_count];
    }
    if (log->cut_step == LQ_CUT_DO && log->cut_index == part->cut_index) { /* else a later one goes further back */
        struct lq_segment *segment = lq_rlog_segment_at(log, log->cut_segment, NULL);
        if (segment != NULL && segment->on_disk && segment->first == log->cut_segment) {
            segment->indexed = false;
        }
        log->cut_step = LQ_CUT_NONE;
    }
    lq_rlog_mark_background(log);
    flush->store->follow_up = true;
}

static void finish_install(struct lq_part *part)
{
    struct lq_rlog *log = part->log;
    log->journaled.install_number = 0;
    log->journaled.install_index = 0;
    log->journaled.cut = 0;
    log->journaled.trim = part->install_index;
    log->journaled.watermark = part->install_index;
    if (log->install.install != part->install_number) {
        return; /* a newer one came meanwhile */
    }
    log->doomed.count = 0;
    log->install_step = LQ_INSTALL_NONE;
    log->durable = part->install_index;
    log->submitted = part->install_index;
    log->written = part->install_index;
    log->checkpoints[0].durable = true;
    lq_checkpoint_file_deinit(&log->install);
    log->install = (struct lq_checkpoint_file){.next_index = 1};
    log->store->follow_up = true;
}

/* What the journal carries is noted as not synced only now that it is written: a background sync that began before does
 * not cover it. */
static void finish_writes(struct lq_flush *flush, struct lq_part *part)
{
    struct lq_rlog *log = part->log;
    struct lq_store *store = flush->store;
    for (size_t i = part->held_from; i < part->held_to && part->journaled; i++) {
        struct lq_segment *segment = flush->held[i];
        log->journal_low = log->journal_low != 0 ? log->journal_low : store->journal.number;
        if (!log->destroyed && lq_rlog_segment_at(log, segment->first, NULL) == segment) {
            lq_segment_set_dirty(log, segment, true);
        } else {
            log->released_dirty = true; /* cut, trimmed or replaced meanwhile */
        }
    }
    if (!part->journaled) {
        for (size_t i = part->held_from; i < part->held_to; i++) {
            lq_segment_set_dirty(log, flush->held[i], false);
            store->counters.segment_syncs++;
        }
        lq_rlog_settle_need(log);
    }
    if (log->flight_written > log->written) {
        log->written = log->flight_written;
    }
    if (log->flight_written != 0 && part->journaled) {
        lq_late_keep_journal(log);
    }
    log->flight_written = 0;
}

/* The journal has them, less what was cut meanwhile, which it keeps until it has the cut too. (A destroyed log's: until
 * it has that.) */
static void finish_late(struct lq_part *part, uint64_t flight_last)
{
    struct lq_rlog *log = part->log;
    if (flight_last < part->last || log->destroyed) {
        log->journal_low = log->journal_low != 0 ? log->journal_low : log->store->journal.number;
        log->released_dirty = true;
    }
    if (flight_last >= part->first && !log->destroyed) {
        lq_late_join(log, flight_last == part->last ? part->bytes : 0);
    }
}

static void finish_entries(struct lq_flush *flush, struct lq_part *part)
{
    struct lq_rlog *log = part->log;
    const struct lq_store *store = flush->store;
    uint64_t flight_last = log->flight_last;
    finish_writes(flush, part);
    if (flight_last > log->durable) {
        log->durable = flight_last;
    }
    log->flight_last = 0;
    if (part->late) {
        finish_late(part, flight_last);
    }
    if (!part->late || flight_last < part->last) {
        lq_late_settle(log);
    }
    bool is_full = part->file_count > 1 || (part->held_to > part->held_from && flush->held[part->held_from]->closed);
    bool is_old = log->journal_low != 0 && log->journal_low < store->journal.number;
    if (is_full || is_old || store->dirty_segment_count > store->options.files_max / 4) {
        lq_rlog_mark_background(log); /* to be sealed, or synced so that its file or the journal's can be let go */
    }
}

static void finish_part(struct lq_flush *flush, struct lq_part *part)
{
    struct lq_rlog *log = part->log;
    if (part->create) {
        log->created = true;
        log->journaled.need = flush->store->journal.number;
        lq_store_note_durable(flush->store, log);
    }
    if (part->vote_sequence != 0) {
        log->vote_durable = part->vote_sequence;
        log->journaled.term = part->term;
        log->journaled.voted_for = part->voted_for;
    }
    if (part->cut_begin) {
        log->journaled.cut = part->cut_index;
        if (log->journaled.watermark >= part->cut_index) {
            log->journaled.watermark = part->cut_index - 1;
        }
        if (log->cut_step == LQ_CUT_BEGIN && log->cut_index == part->cut_index) {
            log->cut_step = LQ_CUT_DO;
        }
        flush->store->follow_up = true;
    }
    if (part->cut_do) {
        finish_cut(flush, part);
    }
    if (part->install_begin) {
        log->journaled.install_index = part->install_index;
        log->journaled.install_number = part->install_number;
        if (log->install_step == LQ_INSTALL_BEGIN && log->install.install == part->install_number) {
            log->install_step = LQ_INSTALL_DO;
        }
        flush->store->follow_up = true;
    }
    if (part->synced_directory) {
        log->directory_dirty = false;
    }
    if (part->install_do) {
        finish_install(part);
    }
    if (part->trim) {
        log->journaled.trim = part->trim_to;
        lq_rlog_mark_background(log);
    }
    if (part->write_last >= part->write_first) {
        finish_entries(flush, part);
    }
    bool may_be_lost = log->trim_wanted || log->cut_step == LQ_CUT_BEGIN || log->install_step != LQ_INSTALL_NONE;
    if ((part->trim || part->cut_begin || part->install_do) && !may_be_lost) {
        log->released_dirty = false;
        lq_rlog_settle_need(log);
        lq_rlog_mark_background(log);
    }
    if (part->destroy) {
        log->destroy_durable = true;
        lq_store_note_durable(flush->store, log);
        lq_rlog_mark_background(log);
    }
    lq_rlog_mark_watermark(log);
}

/* Sizes that the operations gave to files; then the journal's end. */
static void finish_ops(struct lq_flush *flush)
{
    struct lq_store *store = flush->store;
    for (size_t i = 0; i < flush->op_count; i++) {
        const struct lq_io_op *op = &flush->ops[i];
        struct lq_segment *segment = flush->notes[i].segment;
        if (op->kind == LQ_IO_WRITE) {
            store->counters.bytes_written += op->size;
        }
        if (segment == NULL) {
            continue;
        }
        segment->allocated = op->kind == LQ_IO_TRUNCATE ? op->offset : op->offset + op->size;
        if (op->kind == LQ_IO_ALLOCATE && segment->ahead < LQ_SEGMENT_AHEAD_MAX) {
            segment->ahead *= 2;
        }
    }
    if (!flush->has_frame) {
        store->flushes_since_frame++;
        return;
    }
    struct lq_journal *journal = &store->journal;
    uint64_t size = flush->length_bytes + flush->frame.size + flush->frame_entry_bytes;
    store->counters.journal_syncs++;
    if (flush->length_bytes != 0) {
        journal->allocated = flush->new_allocated;
        journal->ahead = journal->ahead < LQ_SEGMENT_AHEAD_MAX ? journal->ahead * 2 : journal->ahead;
        store->counters.journal_syncs += GROWTH_SYNCS;
    }
    journal->position += size;
    journal->sequence = flush->sequence;
    store->flushes_since_frame = 0;
    store->counters.journal_bytes_written += size;
}

static void finish_marks(struct lq_flush *flush)
{
    for (size_t i = 0; i < flush->mark_count; i++) {
        struct lq_rlog *log = flush->marks[i].log;
        bool is_cut = log->journaled.cut != 0 && flush->marks[i].durable >= log->journaled.cut;
        log->journaled.watermark = is_cut ? log->journaled.cut - 1 : flush->marks[i].durable;
        lq_rlog_mark_watermark(log);
    }
    if (!TAILQ_EMPTY(&flush->store->watermarks)) {
        flush->store->watermark_since_us = lq_clock_monotonic_us(flush->store->clock);
    }
}

static void finish_rotation(struct lq_flush *flush)
{
    struct lq_store *store = flush->store;
    struct lq_journal *journal = &store->journal;
    if (journal->full.file != LQ_FILE_NONE) {
        store->io->ops->close(store->io, journal->full.file); /* the file after it says enough */
    }
    journal->full = (struct lq_journal_full){
        .file = journal->file, .position = journal->position, .sequence = journal->sequence + 1, .salt = journal->salt};
    journal->old[journal->old_count++] =
        (struct lq_old_journal){.number = journal->number, .bytes = journal->allocated};
    journal->file = flush->new_file;
    journal->number = flush->new_number;
    store->snapshot_need = flush->new_need;
    journal->salt = flush->new_salt;
    journal->sequence = flush->sequence;
    journal->position = flush->frame.size;
    journal->allocated = flush->new_allocated;
    journal->ahead = LQ_SEGMENT_AHEAD_FIRST * 2;
    store->rotate_at = journal->position + store->options.journal_bytes;
    store->counters.journal_syncs++;
    for (size_t i = 0; i < store->log_count; i++) {
        struct lq_rlog *log = store->logs[i];
        log->journaled.need = lq_rlog_need(log) != 0 ? lq_rlog_need(log) : journal->number;
        if (log->journal_low != 0) {
            lq_rlog_mark_background(log);
        }
    }
    lq_late_want_all(store);
    store->follow_up = true;
}

static void rotation_failed(struct lq_flush *flush, lightq_status status)
{
    struct lq_store *store = flush->store;
    char path[LQ_PATH_BYTES];
    store->io->ops->close(store->io, flush->new_file);
    lq_path_journal(path, store->dir, store->options.shard, flush->new_number);
    lq_disk_unlink_try(store->io, path);
    if (status == LIGHTQ_ENOSPC || status == LIGHTQ_ELIMIT) {
        lq_log(WARN, "no space, or no descriptor, for a new journal file: the old one grows on", "shard",
               store->options.shard);
        store->rotate_at = store->journal.position + store->options.journal_bytes / 8;
    } else if (status != LIGHTQ_ECANCELED) {
        lq_store_fail_all(store, status, &flush->job.err);
    }
}

/* ---- telling ---- */

static void tell_part(struct lq_part *part)
{
    struct lq_rlog *log = part->log;
    const struct lq_rlog_events *events = log->events;
    if (part->failed || log->health != LQ_RLOG_HEALTHY) {
        return;
    }
    if (part->vote_sequence != 0 && !log->destroyed && events != NULL && events->voted != NULL) {
        events->voted(log->owner, part->vote_sequence);
    }
    events = log->events;
    if (part->last >= part->first && !log->destroyed && events != NULL && events->durable != NULL &&
        log->install_step == LQ_INSTALL_NONE && log->durable >= part->first) {
        events->durable(log->owner, log->durable);
    }
    events = log->events;
    if (part->install_do && !log->destroyed && events != NULL && events->installed != NULL &&
        log->install_step == LQ_INSTALL_NONE) {
        events->installed(log->owner, part->install_index);
    }
}

static void unpin(struct lq_flush *flush)
{
    for (size_t i = 0; i < flush->part_count; i++) {
        struct lq_rlog *log = flush->parts[i].log;
        log->pins--;
        if (lq_rlog_has_pending(log)) {
            lq_rlog_mark_dirty(log);
        }
        if (log->destroyed) {
            lq_rlog_mark_background(log);
        }
    }
    for (size_t i = 0; i < flush->mark_count; i++) {
        flush->marks[i].log->pins--;
    }
}

static void finish(struct lq_flush *flush)
{
    struct lq_store *store = flush->store;
    finish_ops(flush);
    for (size_t i = 0; i < flush->part_count; i++) {
        if (!flush->parts[i].failed && flush->parts[i].log->health == LQ_RLOG_HEALTHY) {
            finish_part(flush, &flush->parts[i]);
        } else if (flush->parts[i].destroy && !flush->parts[i].failed) {
            finish_part(flush, &flush->parts[i]);
        }
    }
    if (flush->has_frame) {
        finish_marks(flush);
    }
    store->counters.flushes++;
}

static void on_flush_job(struct lq_io_job *job, lightq_status status)
{
    struct lq_flush *flush = job->data;
    struct lq_store *store = flush->store;
    if (status != LIGHTQ_OK && recover_job(flush, status)) {
        return;
    }
    store->flushing = false;
    store->flight_since_us = 0;
    bool failed_here = status != LIGHTQ_OK; /* the journal, or nothing more can be submitted */
    if (flush->is_rotation) {
        if (status == LIGHTQ_OK) {
            finish_rotation(flush);
        } else {
            rotation_failed(flush, status);
        }
    } else if (status == LIGHTQ_OK) {
        if (flush->has_waited) {
            lq_log(INFO, "what waited is stored", "shard", store->options.shard);
        }
        finish(flush);
    } else {
        lq_store_fail_all(store, status, &job->err);
    }
    flush->is_telling = true;
    for (size_t i = 0; i < flush->part_count && !failed_here; i++) {
        tell_part(&flush->parts[i]);
    }
    lq_store_tell_failures(store);
    unpin(flush);
    flush->is_telling = false;
    lq_flush_clear(flush);
    lq_store_shrink_cache(store);
    if (store->closing) {
        lq_store_maybe_closed(store);
        return;
    }
    if (store->follow_up) {
        store->follow_up = false;
        lq_store_flush(store);
    }
    lq_background_run(store);
}
