/* storage/background.c - what has no hurry, one job at a time: syncing segments that the journal covers so that old
 * journal files can go, sealing full segments (.idx), checkpoints, removing trimmed files and destroyed groups. Called
 * by storage/flusher.c and storage/store.c on the loop thread. Does not begin on a log that is being cut or replaced; a
 * cut waits for the job that works on its log. Why: docs/adr/0004. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/array.h"
#include "storage/store_private.h"

enum task {
    TASK_NONE,
    TASK_DESTROY,    /* files of a destroyed group */
    TASK_INSTALL,    /* an installed checkpoint, under its temporary name */
    TASK_TRIM,       /* files below the trim point */
    TASK_CHECKPOINT, /* a checkpoint of our own */
    TASK_SEAL,       /* a full segment, then its index */
    TASK_SYNC,       /* segments that an old journal file covers */
    TASK_CLOSE,      /* the last frame of a full journal file */
    TASK_JOURNAL,    /* old journal files */
};

struct lq_background {
    struct lq_store *store;
    struct lq_io_job job;
    bool busy;
    enum task task;
    struct lq_rlog *log; /* NULL for TASK_CLOSE and TASK_JOURNAL */
    struct lq_io_op *ops;
    size_t op_count, op_capacity;
    char **paths;
    size_t path_count, path_capacity;
    struct lq_segment **held; /* pinned */
    size_t held_count, held_capacity;
    size_t hard_ops; /* a failure of one of these ends the log */
    bool out_of_memory;
    uint8_t *blob;
    struct iovec iov;
    uint8_t frame[LQ_FRAME_HEADER_BYTES];
    lq_file file;    /* of a temporary file */
    lq_file closing; /* a full journal file */
    uint64_t number;
    uint64_t install;
    size_t trim_count;
    bool synced_directory;
    bool no_index; /* TASK_SEAL: the segment is only synced */
    bool has_run;
    size_t op_next;         /* where the job that runs now begins */
    bool waits;             /* busy, but its directory could not be opened: it goes on with op_next */
    uint64_t wait_until_us; /* nothing is begun, or gone on with, before */
    bool told_short;
};

struct lq_background *lq_background_new(struct lq_store *store)
{
    struct lq_background *background = calloc(1, sizeof *background);
    if (background != NULL) {
        background->store = store;
        background->file = LQ_FILE_NONE;
    }
    return background;
}

static void clear(struct lq_background *bg)
{
    for (size_t i = 0; i < bg->held_count; i++) {
        lq_segment_unpin(bg->store, bg->held[i]);
    }
    for (size_t i = 0; i < bg->path_count; i++) {
        free(bg->paths[i]);
    }
    free(bg->blob);
    bg->blob = NULL;
    bg->op_count = 0;
    bg->path_count = 0;
    bg->held_count = 0;
    bg->hard_ops = 0;
    bg->out_of_memory = false;
    bg->file = LQ_FILE_NONE;
    bg->task = TASK_NONE;
    bg->log = NULL;
    bg->synced_directory = false;
    bg->no_index = false;
    bg->has_run = false;
    bg->op_next = 0;
}

void lq_background_free(struct lq_background *background)
{
    if (background == NULL) {
        return;
    }
    clear(background);
    free(background->ops);
    free(background->paths);
    free(background->held);
    free(background);
}

bool lq_background_busy(const struct lq_store *store)
{
    return store->background->busy;
}

/* ---- builders ---- */

static void add_op(struct lq_background *bg, struct lq_io_op op)
{
    if (!lq_array_reserve((void **)&bg->ops, &bg->op_capacity, bg->op_count + 1, sizeof *bg->ops)) {
        bg->out_of_memory = true;
        return;
    }
    bg->ops[bg->op_count++] = op;
}

static const char *add_path(struct lq_background *bg, const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL ||
        !lq_array_reserve((void **)&bg->paths, &bg->path_capacity, bg->path_count + 1, sizeof *bg->paths)) {
        free(copy);
        bg->out_of_memory = true;
        return NULL;
    }
    bg->paths[bg->path_count++] = copy;
    return copy;
}

static void add_unlink(struct lq_background *bg, const struct lq_rlog *log, uint64_t number, const char *suffix)
{
    char path[LQ_PATH_BYTES];
    lq_path_numbered(path, log->dir, number, suffix);
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_UNLINK, .path = add_path(bg, path)});
}

static void add_sync_dir(struct lq_background *bg, const char *path)
{
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_SYNC_DIR, .path = add_path(bg, path)});
}

static void hold(struct lq_background *bg, struct lq_segment *segment)
{
    if (!lq_array_reserve((void **)&bg->held, &bg->held_capacity, bg->held_count + 1, sizeof(struct lq_segment *))) {
        bg->out_of_memory = true;
        return;
    }
    lq_segment_pin(bg->store, segment);
    bg->held[bg->held_count++] = segment;
}

/* A new file <number><suffix>.tmp with @size bytes of @blob, synced; then, with @rename, under its name, durably. */
static lightq_status build_file(struct lq_background *bg, const char *suffix, size_t size, bool rename,
                                struct lq_err *err)
{
    struct lq_io *io = bg->store->io;
    char path[LQ_PATH_BYTES];
    char tmp[LQ_PATH_BYTES];
    char tmp_suffix[32];
    (void)snprintf(tmp_suffix, sizeof tmp_suffix, "%s.tmp", suffix);
    lq_path_numbered(path, bg->log->dir, bg->number, suffix);
    lq_path_numbered(tmp, bg->log->dir, bg->number, tmp_suffix);
    lightq_status status = lq_disk_unlink(io, tmp, err); /* of an earlier try */
    if (status == LIGHTQ_OK) {
        status = lq_disk_open(io, tmp, LQ_OPEN_CREATE, &bg->file, err);
    }
    if (status != LIGHTQ_OK) {
        bg->file = LQ_FILE_NONE;
        return status;
    }
    bg->iov = (struct iovec){.iov_base = bg->blob, .iov_len = size};
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_WRITE, .file = bg->file, .size = size, .iov = &bg->iov, .iov_count = 1});
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_SYNC, .file = bg->file});
    if (rename) {
        add_op(bg, (struct lq_io_op){.kind = LQ_IO_RENAME, .path = add_path(bg, tmp), .path_to = add_path(bg, path)});
        add_sync_dir(bg, bg->log->dir);
    }
    return LIGHTQ_OK;
}

/* ---- tasks: building. False: nothing of that kind is to be done ---- */

static bool build_trim(struct lq_background *bg, struct lq_rlog *log)
{
    size_t count = 0;
    while (count < log->trimmed.count && log->trimmed.at[count].number <= log->journaled.trim) {
        const struct lq_doomed *doomed = &log->trimmed.at[count++];
        if (doomed->segment) {
            add_unlink(bg, log, doomed->number, ".log");
            add_unlink(bg, log, doomed->number, ".idx");
        }
        if (doomed->checkpoint) {
            add_unlink(bg, log, doomed->number, ".ckpt");
        }
    }
    bg->task = TASK_TRIM;
    bg->trim_count = count;
    return count > 0;
}

static bool build_checkpoint(struct lq_background *bg, struct lq_rlog *log, lightq_status *status, struct lq_err *err)
{
    for (size_t i = 0; i < log->checkpoint_count; i++) {
        struct lq_checkpoint_file *file = &log->checkpoints[i];
        if (file->blob == NULL) {
            continue;
        }
        bg->task = TASK_CHECKPOINT;
        bg->number = file->next_index;
        bg->blob = file->blob;
        file->blob = NULL;
        *status = build_file(bg, ".ckpt", file->blob_size, true, err);
        return true;
    }
    return false;
}

static bool build_install(struct lq_background *bg, struct lq_rlog *log, lightq_status *status, struct lq_err *err)
{
    if (log->install_step != LQ_INSTALL_WRITE || log->install.blob == NULL) {
        return false;
    }
    bg->task = TASK_INSTALL;
    bg->number = log->install.next_index;
    bg->install = log->install.install;
    bg->blob = log->install.blob;
    log->install.blob = NULL;
    *status = build_file(bg, ".ckpt", log->install.blob_size, false, err);
    bg->hard_ops = bg->op_count;
    return true;
}

/* The content of a full segment's .idx. The arrays of @index are borrowed but for its runs. */
static lightq_status index_of(const struct lq_rlog *log, const struct lq_segment *segment, struct lq_index *index)
{
    uint64_t next_offset = log->next_offset;
    for (size_t i = log->segment_count; i > 0 && log->segments[i - 1] != segment; i--) {
        next_offset = log->segments[i - 1]->first_offset;
    }
    *index = (struct lq_index){
        .first = segment->first,
        .last = segment->last,
        .prev_term = segment->prev_term,
        .last_term = segment->last_term,
        .segment_length = segment->length,
        .tail_position = segment->tail_position,
        .next_offset = next_offset,
        .last_timestamp_ms = segment->last_timestamp_ms,
        .tail_crc = segment->tail_crc,
        .changes = segment->changes,
        .change_count = segment->change_count,
        .points = segment->points,
        .point_count = segment->point_count,
        .runs = calloc(log->run_count, sizeof *index->runs),
    };
    if (index->runs == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (size_t i = 0; i < log->run_count; i++) {
        const struct lq_rlog_run *run = &log->runs[i];
        if (run->last >= segment->first && run->first <= segment->last) {
            index->runs[index->run_count++] = (struct lq_index_run){
                .first = run->first > segment->first ? run->first : segment->first, .term = run->term};
        }
    }
    return LIGHTQ_OK;
}

static struct lq_segment *segment_to_seal(const struct lq_rlog *log)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        struct lq_segment *segment = log->segments[i];
        if (segment->closed && segment->on_disk && !segment->indexed && !segment->index_failed &&
            !segment->points_dropped && segment->last >= segment->first && segment->last <= log->written &&
            segment->last <= log->durable) {
            return segment;
        }
    }
    return NULL;
}

static bool build_seal(struct lq_background *bg, struct lq_rlog *log, lightq_status *status, struct lq_err *err)
{
    struct lq_segment *segment = segment_to_seal(log);
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    struct lq_index index;
    size_t size = 0;
    if (segment == NULL) {
        return false;
    }
    bg->task = TASK_SEAL;
    bg->number = segment->first;
    if (segment->tail_position == 0) {
        segment->index_failed = true; /* cut, then full without another entry: the next start makes its index */
        return true;
    }
    *status = lq_segment_open(log, segment, false, err);
    if (*status != LIGHTQ_OK) {
        bg->hard_ops = 1;
        return true;
    }
    hold(bg, segment);
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_TRUNCATE, .file = segment->file, .offset = segment->length});
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_SYNC, .file = segment->file});
    if (log->directory_dirty) {
        add_sync_dir(bg, log->dir);
    }
    bg->hard_ops = bg->op_count;
    bool has_index =
        index_of(log, segment, &index) == LIGHTQ_OK && lq_index_encode(&owner, &index, &bg->blob, &size) == LIGHTQ_OK;
    free(index.runs);
    lightq_status written = has_index ? build_file(bg, ".idx", size, true, err) : LIGHTQ_ENOMEM;
    if (written == LIGHTQ_ELIMIT) {
        *status = written; /* all of it later */
    } else if (written != LIGHTQ_OK) {
        bg->op_count = bg->hard_ops; /* it is synced, at least; the next start makes its index */
        bg->no_index = true;
    }
    return true;
}

static bool build_sync(struct lq_background *bg, struct lq_rlog *log, lightq_status *status, struct lq_err *err)
{
    const struct lq_store *store = bg->store;
    bool is_old = log->journal_low < store->journal.number;
    bool is_crowded = store->dirty_segment_count > store->options.files_max / 4;
    if (log->journal_low == 0 || (!is_old && !(is_crowded && log->dirty_count > 0)) || log->journal_syncing != 0 ||
        log->released_dirty) {
        return false;
    }
    bg->task = TASK_SYNC;
    for (size_t i = log->segment_count; i > 0 && *status == LIGHTQ_OK; i--) {
        struct lq_segment *segment = log->segments[i - 1];
        if (!segment->dirty) {
            continue;
        }
        *status = lq_segment_open(log, segment, false, err);
        if (*status == LIGHTQ_OK) {
            hold(bg, segment);
            add_op(bg, (struct lq_io_op){.kind = LQ_IO_SYNC, .file = segment->file});
        }
    }
    add_sync_dir(bg, log->dir);
    bg->hard_ops = bg->op_count;
    return true;
}

static bool build_destroy(struct lq_background *bg, struct lq_rlog *log, lightq_status *status, struct lq_err *err)
{
    if (!log->destroy_durable || log->pins > 0) {
        return false;
    }
    bg->task = TASK_DESTROY;
    if (log->health == LQ_RLOG_LOST) {
        return true;
    }
    if (log->health == LQ_RLOG_DAMAGED) {
        *status = lq_store_set_aside(bg->store, log->dir, "", err);
        return true;
    }
    struct lq_names names;
    *status = lq_disk_list(bg->store->io, log->dir, &names, err);
    if (*status != LIGHTQ_OK) {
        return true;
    }
    for (size_t i = 0; i < names.count; i++) {
        char path[LQ_PATH_BYTES];
        lq_path_join(path, log->dir, names.at[i].name);
        add_op(bg, (struct lq_io_op){.kind = LQ_IO_UNLINK, .path = add_path(bg, path)});
    }
    lq_names_deinit(&names);
    return true;
}

/* What to do for @log next, built. False: nothing now. */
static bool build_task(struct lq_background *bg, struct lq_rlog *log, lightq_status *status, struct lq_err *err)
{
    bg->log = log;
    if (log->destroyed) {
        return build_destroy(bg, log, status, err);
    }
    if (log->health != LQ_RLOG_HEALTHY || bg->store->journal_failed) {
        return false;
    }
    if (log->install_step != LQ_INSTALL_NONE) {
        return build_install(bg, log, status, err);
    }
    if (log->cut_step != LQ_CUT_NONE) {
        return false;
    }
    return build_trim(bg, log) || build_checkpoint(bg, log, status, err) || build_seal(bg, log, status, err) ||
           build_sync(bg, log, status, err);
}

/* ---- the old journal files ---- */

/* Before any older file goes: then a file that is missing behind a closed one is missed. */
static bool build_close(struct lq_background *bg)
{
    const struct lq_journal_full *full = &bg->store->journal.full;
    if (full->file == LQ_FILE_NONE || bg->store->journal_failed) {
        return false;
    }
    bg->task = TASK_CLOSE;
    lq_frame_closed(bg->frame, full->sequence, full->salt);
    bg->iov = (struct iovec){.iov_base = bg->frame, .iov_len = sizeof bg->frame};
    bg->closing = full->file;
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_WRITE,
                                 .file = full->file,
                                 .offset = full->position,
                                 .size = sizeof bg->frame,
                                 .iov = &bg->iov,
                                 .iov_count = 1});
    add_op(bg, (struct lq_io_op){.kind = LQ_IO_SYNC, .file = full->file});
    return true;
}

/* One file, durably gone before the next one goes: a file may hold entries that a cut in a later file took back, so it
 * must not outlive that one. An older file that stays, for a damaged log, allows it only when the newest snapshot says
 * that no other log needs it. */
static bool build_journal(struct lq_background *bg)
{
    struct lq_store *store = bg->store;
    struct lq_journal *journal = &store->journal;
    if (store->journal_failed) {
        return false;
    }
    bool older_stays = false;
    for (size_t i = 0; i < journal->old_count; i++) {
        uint64_t number = journal->old[i].number;
        if (lq_journal_is_needed(store, number) || (older_stays && number >= store->snapshot_need)) {
            older_stays = true;
            continue;
        }
        char path[LQ_PATH_BYTES];
        bg->task = TASK_JOURNAL;
        bg->number = number;
        lq_path_journal(path, store->dir, store->options.shard, bg->number);
        add_op(bg, (struct lq_io_op){.kind = LQ_IO_UNLINK, .path = add_path(bg, path)});
        lq_path_join(path, store->dir, "journal");
        add_sync_dir(bg, path);
        return true;
    }
    return false;
}

/* ---- tasks: done ---- */

static void done_checkpoint(struct lq_background *bg, struct lq_rlog *log, lightq_status status)
{
    for (size_t i = 0; i < log->checkpoint_count; i++) {
        struct lq_checkpoint_file *file = &log->checkpoints[i];
        if (file->next_index != bg->number || file->durable || file->install != 0) {
            continue;
        }
        file->durable = status == LIGHTQ_OK;
        if (!file->durable) { /* it only delays trimming */
            lq_checkpoint_file_deinit(file);
            memmove(file, file + 1, (log->checkpoint_count - i - 1) * sizeof *file);
            log->checkpoint_count--;
        }
        return;
    }
}

static void done_install(struct lq_background *bg, struct lq_rlog *log, lightq_status status)
{
    if (status == LIGHTQ_OK && log->install_step == LQ_INSTALL_WRITE && log->install.install == bg->install) {
        log->install_step = LQ_INSTALL_BEGIN;
        lq_rlog_mark_dirty(log);
        log->store->follow_up = true;
    }
}

static void done_seal(struct lq_background *bg, struct lq_rlog *log, lightq_status status)
{
    if (bg->held_count == 0 || !bg->has_run) {
        return;
    }
    struct lq_segment *segment = bg->held[0];
    segment->indexed = status == LIGHTQ_OK && !bg->no_index;
    segment->index_failed = !segment->indexed;
    segment->allocated = bg->ops[0].offset;
    lq_segment_set_dirty(log, segment, false);
    lq_rlog_settle_need(log);
}

static void done_trim(struct lq_background *bg, struct lq_rlog *log)
{
    size_t count = bg->trim_count < log->trimmed.count ? bg->trim_count : log->trimmed.count;
    memmove(log->trimmed.at, log->trimmed.at + count, (log->trimmed.count - count) * sizeof *log->trimmed.at);
    log->trimmed.count -= count;
}

static void done_journal(struct lq_background *bg)
{
    struct lq_journal *journal = &bg->store->journal;
    for (size_t i = 0; i < journal->old_count; i++) {
        if (journal->old[i].number == bg->number) {
            memmove(&journal->old[i], &journal->old[i + 1], (journal->old_count - i - 1) * sizeof *journal->old);
            journal->old_count--;
            return;
        }
    }
}

static void done_destroy(struct lq_background *bg, struct lq_rlog *log)
{
    struct lq_err err = {.text = ""};
    if (log->health != LQ_RLOG_DAMAGED && log->health != LQ_RLOG_LOST &&
        bg->store->io->ops->rmdir(bg->store->io, log->dir, &err) != LIGHTQ_OK) {
        lq_log(WARN, "directory of a destroyed group is left", "directory", log->dir, "reason", err.text);
    }
    lq_rlog_free(log, false);
}

/* A temporary file that did not become a real one. */
static void drop_temporary(struct lq_background *bg, lightq_status status)
{
    if (bg->file == LQ_FILE_NONE) {
        return;
    }
    bg->store->io->ops->close(bg->store->io, bg->file);
    bg->file = LQ_FILE_NONE;
    if (status != LIGHTQ_OK) {
        char path[LQ_PATH_BYTES];
        lq_path_numbered(path, bg->log->dir, bg->number, bg->task == TASK_SEAL ? ".idx.tmp" : ".ckpt.tmp");
        lq_disk_unlink_try(bg->store->io, path);
    }
}

/* Not the disk's word: it can be tried again. */
static bool is_soft(lightq_status status)
{
    return status == LIGHTQ_ENOMEM || status == LIGHTQ_EBUSY || status == LIGHTQ_ECANCELED || status == LIGHTQ_ELIMIT;
}

/* Whether it is tried again from the beginning: it could not be begun for want of a descriptor, or a checkpoint that
 * came from another replica found no space. Its temporary file is gone, so what frees space meanwhile has its turn. */
static bool is_passing(const struct lq_background *bg, lightq_status status)
{
    return (status == LIGHTQ_ELIMIT && !bg->has_run) || (status == LIGHTQ_ENOSPC && bg->task == TASK_INSTALL);
}

/* The content of such a task is wanted again. True: nothing else is to be done. */
static bool put_back(struct lq_background *bg, struct lq_rlog *log, lightq_status status)
{
    if (!is_passing(bg, status)) {
        return false;
    }
    struct lq_checkpoint_file *file = lq_rlog_checkpoint_at(log, bg->number);
    if (bg->task == TASK_CHECKPOINT && file != NULL) {
        file->blob = bg->blob;
        bg->blob = NULL;
    } else if (bg->task == TASK_INSTALL) {
        log->install.blob = bg->blob;
        bg->blob = NULL;
    }
    lq_rlog_mark_background(log);
    return true;
}

static void wait_a_while(struct lq_background *bg, const struct lq_err *err)
{
    if (!bg->told_short) {
        lq_log(WARN, "no descriptor, or no space, for background work: it is tried again", "reason", err->text);
    }
    bg->told_short = true;
    bg->wait_until_us = lq_clock_monotonic_us(bg->store->clock) + LQ_FILES_RETRY_US;
}

static void done(struct lq_background *bg, lightq_status status, bool hard, const struct lq_err *err)
{
    struct lq_rlog *log = bg->log;
    if (status == LIGHTQ_ELIMIT || is_passing(bg, status)) {
        wait_a_while(bg, err);
    } else if (status != LIGHTQ_OK) {
        lq_log(WARN, "background work failed", "directory", log != NULL ? log->dir : "journal", "reason", err->text);
    } else {
        bg->told_short = false;
    }
    drop_temporary(bg, status);
    if (bg->task == TASK_CLOSE) { /* not being closed is harmless too */
        if (bg->store->journal.full.file == bg->closing) {
            bg->store->io->ops->close(bg->store->io, bg->closing);
            bg->store->journal.full.file = LQ_FILE_NONE;
        }
        return;
    }
    if (bg->task == TASK_JOURNAL) {
        done_journal(bg); /* a file that cannot be removed is harmless: replay knows it is old */
        return;
    }
    log->background_busy = false;
    if (put_back(bg, log, status)) {
        return;
    }
    if (status != LIGHTQ_OK && hard && (!is_soft(status) || bg->task == TASK_INSTALL)) {
        lq_rlog_fail(log, status, err);
    }
    switch (bg->task) {
    case TASK_CHECKPOINT:
        done_checkpoint(bg, log, status);
        break;
    case TASK_INSTALL:
        done_install(bg, log, status);
        break;
    case TASK_SEAL:
        done_seal(bg, log, status);
        break;
    case TASK_TRIM:
        if (!is_soft(status)) {
            done_trim(bg, log);
        }
        break;
    case TASK_SYNC:
        log->journal_syncing = status == LIGHTQ_OK ? 0 : log->journal_syncing;
        break;
    case TASK_DESTROY:
        clear(bg);
        bg->task = TASK_DESTROY;
        done_destroy(bg, log);
        return;
    default:
        break;
    }
    if (bg->synced_directory && status == LIGHTQ_OK) {
        log->directory_dirty = false;
    }
    if (log->cut_step != LQ_CUT_NONE || log->install_step != LQ_INSTALL_NONE) {
        lq_rlog_mark_dirty(log);
        log->store->follow_up = true; /* it waited for us */
    }
    lq_rlog_mark_background(log);
}

/* True: a directory could not be opened, and what is left of the job waits for a descriptor. */
static bool wait_and_retry(struct lq_background *bg, lightq_status status)
{
    const struct lq_io_job *job = &bg->job;
    if (status != LIGHTQ_ELIMIT || bg->store->closing || job->failed >= job->count ||
        job->ops[job->failed].kind != LQ_IO_SYNC_DIR) {
        return false;
    }
    wait_a_while(bg, &job->err);
    bg->op_next += job->failed;
    bg->waits = true;
    return true;
}

static void on_background_job(struct lq_io_job *job, lightq_status status)
{
    struct lq_background *bg = job->data;
    struct lq_store *store = bg->store;
    if (wait_and_retry(bg, status)) {
        return;
    }
    bool hard = status != LIGHTQ_OK && job->failed < job->count &&
                (bg->op_next + job->failed < bg->hard_ops || job->ops[job->failed].kind == LQ_IO_SYNC_DIR);
    bg->busy = false;
    done(bg, status, hard, &job->err);
    clear(bg);
    if (store->closing) {
        lq_store_maybe_closed(store);
        return;
    }
    lq_store_tell_failures(store);
    if (store->follow_up) {
        store->follow_up = false;
        lq_store_flush(store);
    }
    lq_background_run(store);
}

/* ---- running ---- */

static void begin(struct lq_background *bg)
{
    struct lq_rlog *log = bg->log;
    if (log != NULL) {
        log->background_busy = true;
    }
    if (log != NULL && bg->task == TASK_SYNC) {
        log->journal_syncing = log->journal_low;
        log->journal_low = 0;
        for (size_t i = 0; i < bg->held_count; i++) {
            lq_segment_set_dirty(log, bg->held[i], false);
        }
    }
    bg->synced_directory = (bg->task == TASK_SYNC) || bg->task == TASK_CHECKPOINT || bg->task == TASK_SEAL;
    bg->busy = true;
    bg->has_run = true;
}

static bool submit(struct lq_background *bg)
{
    bg->job = (struct lq_io_job){.ops = bg->op_next == 0 ? bg->ops : bg->ops + bg->op_next,
                                 .count = (unsigned)(bg->op_count - bg->op_next),
                                 .cb = on_background_job,
                                 .data = bg};
    return bg->store->io->ops->submit(bg->store->io, &bg->job) == LIGHTQ_OK;
}

/* Builds and submits one task of @log, if it has one. False: nothing can be started now. */
static bool start_log(struct lq_background *bg, struct lq_rlog *log)
{
    lightq_status status = LIGHTQ_OK;
    struct lq_err err = {.text = ""};
    if (!build_task(bg, log, &status, &err)) {
        clear(bg);
        return true;
    }
    if (bg->out_of_memory) {
        status = lq_err_set(&err, LIGHTQ_ENOMEM, "%s: no memory for background work", log->dir);
    }
    if (status == LIGHTQ_OK) {
        if (submit(bg)) {
            begin(bg);
            return true;
        }
        status = lq_err_set(&err, LIGHTQ_EBUSY, "%s: the disk takes no more jobs", log->dir);
    }
    done(bg, status, bg->hard_ops > 0 || bg->task == TASK_SYNC || bg->task == TASK_INSTALL, &err);
    clear(bg);
    return !is_soft(status);
}

void lq_background_end_wait(struct lq_store *store)
{
    struct lq_background *bg = store->background;
    if (!bg->waits) {
        return;
    }
    bg->waits = false;
    if (!submit(bg)) { /* then it ends here: what it did is found at the next start */
        drop_temporary(bg, LIGHTQ_ECANCELED);
        bg->busy = false;
    }
}

void lq_background_run(struct lq_store *store)
{
    struct lq_background *bg = store->background;
    struct lq_rlog *log;
    if (bg->wait_until_us != 0) {
        if (lq_clock_monotonic_us(store->clock) < bg->wait_until_us) {
            return;
        }
        bg->wait_until_us = 0;
    }
    if (bg->waits && !store->closing) {
        bg->waits = !submit(bg);
        return;
    }
    while (!bg->busy && !store->closing && (log = TAILQ_FIRST(&store->background_logs)) != NULL) {
        TAILQ_REMOVE(&store->background_logs, log, background_link);
        log->background_queued = false;
        if (!start_log(bg, log)) {
            return;
        }
    }
    if (!bg->busy && !store->closing && (build_close(bg) || build_journal(bg))) {
        if (!bg->out_of_memory && submit(bg)) {
            begin(bg);
        } else {
            clear(bg);
        }
    }
}
