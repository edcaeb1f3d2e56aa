/* storage/retain.c - checkpoints, trimming and installs of a log: what they change in memory, and what they leave for
 * the flusher and the background to do on disk. Called by raft/ through storage/store.h; loop thread only. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/base/log.h"
#include "storage/array.h"
#include "storage/store_private.h"

void lq_checkpoint_file_deinit(struct lq_checkpoint_file *file)
{
    free(file->meta);
    free(file->blob);
    file->meta = NULL;
    file->blob = NULL;
}

struct lq_checkpoint_file *lq_rlog_checkpoint_at(const struct lq_rlog *log, uint64_t next_index)
{
    for (size_t i = log->checkpoint_count; i > 0; i--) {
        if (log->checkpoints[i - 1].next_index == next_index) {
            return &log->checkpoints[i - 1];
        }
    }
    return NULL;
}

static bool begins_segment(const struct lq_rlog *log, uint64_t index)
{
    const struct lq_segment *segment = lq_rlog_segment_at(log, index, NULL);
    return segment != NULL && segment->first == index;
}

bool lq_rlog_wants_checkpoint(const struct lq_rlog *log, uint64_t index)
{
    return log->health == LQ_RLOG_HEALTHY && index > log->first && index <= log->last && begins_segment(log, index) &&
           lq_rlog_checkpoint_at(log, index) == NULL;
}

lightq_status lq_rlog_checkpoint(struct lq_rlog *log, const struct lq_checkpoint *checkpoint)
{
    uint64_t next = checkpoint->last_index + 1;
    if (log->health != LQ_RLOG_HEALTHY) {
        return LIGHTQ_ESTOPPED;
    }
    if (log->install_step != LQ_INSTALL_NONE) {
        return LIGHTQ_EBUSY;
    }
    if (next <= log->first || next > log->durable + 1 ||
        lq_rlog_term_at(log, checkpoint->last_index) != checkpoint->last_term) {
        return LIGHTQ_EINVAL;
    }
    if (lq_rlog_checkpoint_at(log, next) != NULL) {
        return LIGHTQ_EEXISTS;
    }
    if (!lq_array_reserve((void **)&log->checkpoints, &log->checkpoint_capacity, log->checkpoint_count + 1,
                          sizeof *log->checkpoints)) {
        return LIGHTQ_ENOMEM;
    }
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    struct lq_checkpoint_file file = {.next_index = next};
    lightq_status status = lq_checkpoint_encode(&owner, checkpoint, 0, &file.blob, &file.blob_size);
    if (status != LIGHTQ_OK) {
        return status;
    }
    file.meta = lq_checkpoint_meta_new(checkpoint, 0);
    if (file.meta == NULL) {
        lq_checkpoint_file_deinit(&file);
        return LIGHTQ_ENOMEM;
    }
    size_t at = log->checkpoint_count;
    while (at > 0 && log->checkpoints[at - 1].next_index > next) {
        at--;
    }
    memmove(&log->checkpoints[at + 1], &log->checkpoints[at], (log->checkpoint_count - at) * sizeof file);
    log->checkpoints[at] = file;
    log->checkpoint_count++;
    lq_rlog_mark_background(log);
    return LIGHTQ_OK;
}

bool lq_rlog_first_checkpoint(const struct lq_rlog *log, struct lq_checkpoint *checkpoint)
{
    if (log->base == NULL) {
        return false;
    }
    *checkpoint = log->base->checkpoint;
    return true;
}

void lq_rlog_set_checkpoint_aside(struct lq_rlog *log, struct lq_checkpoint_file *file, const struct lq_err *reason)
{
    char from[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    lq_log(WARN, "checkpoint damaged: an older one is used", "group", log->group, "reason", reason->text);
    lq_path_numbered(from, log->dir, file->next_index, ".ckpt");
    lq_path_numbered(to, log->dir, file->next_index, ".ckpt.bad");
    lq_disk_rename_try(log->store->io, from, to);
    lq_checkpoint_file_deinit(file);
    size_t at = (size_t)(file - log->checkpoints);
    memmove(file, file + 1, (log->checkpoint_count - at - 1) * sizeof *file);
    log->checkpoint_count--;
}

lightq_status lq_rlog_load_checkpoint(struct lq_rlog *log, uint64_t index_max, bool newest,
                                      struct lq_checkpoint *checkpoint, uint8_t **bytes, struct lq_err *err)
{
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    struct lq_err reason = {.text = ""};
    for (size_t i = log->checkpoint_count; i > 0; i--) {
        struct lq_checkpoint_file *file = &log->checkpoints[i - 1];
        bool is_base = log->base != NULL && file->next_index == log->first;
        uint64_t install = 0;
        if (!file->durable || (newest ? file->next_index - 1 > index_max : !is_base)) {
            continue;
        }
        lightq_status status = lq_checkpoint_read(log->store->io, &owner, log->dir, file->next_index, checkpoint,
                                                  &install, bytes, &reason);
        if (status == LIGHTQ_OK) {
            return LIGHTQ_OK;
        }
        if (is_base || (status != LIGHTQ_ECORRUPT && status != LIGHTQ_ENOTFOUND)) {
            return lq_err_set(err, status == LIGHTQ_ENOTFOUND ? LIGHTQ_ECORRUPT : status, "%s", reason.text);
        }
        lq_rlog_set_checkpoint_aside(log, file, &reason);
    }
    return lq_err_set(err, LIGHTQ_ENOTFOUND, "%s: no checkpoint at or below %" PRIu64, log->dir, index_max);
}

/* Its metadata, read from the file when it is not in memory. NULL: it cannot be had. */
static const struct lq_checkpoint_meta *meta_of(struct lq_rlog *log, struct lq_checkpoint_file *file)
{
    if (file->meta != NULL) {
        return file->meta;
    }
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    struct lq_checkpoint checkpoint;
    struct lq_err err;
    uint8_t *bytes = NULL;
    lightq_status status = lq_checkpoint_read(log->store->io, &owner, log->dir, file->next_index, &checkpoint,
                                              &file->install, &bytes, &err);
    if (status == LIGHTQ_OK) {
        file->meta = lq_checkpoint_meta_new(&checkpoint, file->install);
        free(bytes);
        return file->meta;
    }
    if (status == LIGHTQ_ECORRUPT || status == LIGHTQ_ENOTFOUND) {
        lq_rlog_set_checkpoint_aside(log, file, &err);
    }
    return NULL;
}

uint64_t lq_rlog_trim_point(const struct lq_rlog *log, uint64_t index, struct lq_checkpoint *checkpoint)
{
    /* Reads a checkpoint's header when it is not in memory: that is a memory of the file only. */
    struct lq_rlog *readable = (struct lq_rlog *)(uintptr_t)log;
    if (log->health != LQ_RLOG_HEALTHY || log->install_step != LQ_INSTALL_NONE) {
        return 0;
    }
    for (size_t i = log->checkpoint_count; i > 0; i--) {
        struct lq_checkpoint_file *file = &log->checkpoints[i - 1];
        if (!file->durable || file->next_index > index || file->next_index <= log->first ||
            !begins_segment(log, file->next_index)) {
            continue;
        }
        const struct lq_checkpoint_meta *meta = meta_of(readable, file);
        if (meta != NULL) {
            *checkpoint = meta->checkpoint;
            return meta->checkpoint.last_index;
        }
    }
    return 0;
}

static void trim_runs(struct lq_rlog *log, uint64_t first)
{
    size_t gone = 0;
    while (gone < log->run_count && log->runs[gone].last < first) {
        gone++;
    }
    memmove(log->runs, log->runs + gone, (log->run_count - gone) * sizeof *log->runs);
    log->run_count -= gone;
    if (log->run_count > 0 && log->runs[0].first < first) {
        log->runs[0].first = first;
    }
    while (log->change_count > 0 && log->changes[0].index < first) {
        lq_rlog_drop_first_change(log);
    }
}

/* Takes what lies below @next out of the log into the trimmed list, which has room. */
static void trim_files(struct lq_rlog *log, uint64_t next)
{
    size_t gone = 0;
    while (gone < log->segment_count && log->segments[gone]->first < next) {
        bool added = lq_doomed_add(&log->trimmed, log->segments[gone]->first, true, false);
        assert(added);
        (void)added;
        lq_segment_release(log, log->segments[gone]);
        gone++;
    }
    memmove(log->segments, log->segments + gone, (log->segment_count - gone) * sizeof(struct lq_segment *));
    log->segment_count -= gone;
    gone = 0;
    while (gone < log->checkpoint_count && log->checkpoints[gone].next_index < next) {
        bool added = lq_doomed_add(&log->trimmed, log->checkpoints[gone].next_index, false, true);
        assert(added);
        (void)added;
        lq_checkpoint_file_deinit(&log->checkpoints[gone]);
        gone++;
    }
    memmove(log->checkpoints, log->checkpoints + gone, (log->checkpoint_count - gone) * sizeof *log->checkpoints);
    log->checkpoint_count -= gone;
}

lightq_status lq_rlog_trim(struct lq_rlog *log, uint64_t last_index)
{
    if (log->health != LQ_RLOG_HEALTHY) {
        return LIGHTQ_ESTOPPED;
    }
    struct lq_checkpoint_file *file = lq_rlog_checkpoint_at(log, last_index + 1);
    if (log->install_step != LQ_INSTALL_NONE || file == NULL || !file->durable || file->meta == NULL ||
        last_index < log->first || last_index > log->durable || !begins_segment(log, last_index + 1)) {
        return LIGHTQ_EINVAL;
    }
    struct lq_checkpoint_meta *base = lq_checkpoint_meta_new(&file->meta->checkpoint, file->install);
    size_t wanted = log->trimmed.count + log->segment_count + log->checkpoint_count;
    if (base == NULL ||
        !lq_array_reserve((void **)&log->trimmed.at, &log->trimmed.capacity, wanted, sizeof *log->trimmed.at)) {
        free(base);
        return LIGHTQ_ENOMEM;
    }
    base->file_size = file->meta->file_size;
    free(log->base);
    log->base = base;
    if (log->written < last_index) {
        lq_late_let_go(log);
        log->written = last_index;
    }
    lq_late_settle(log);
    lq_cache_trim(&log->store->cache, &log->ring, last_index + 1);
    trim_files(log, last_index + 1);
    trim_runs(log, last_index + 1);
    log->first = last_index + 1;
    lq_rlog_drop_rot(log, log->first, UINT64_MAX);
    log->first_offset = log->segment_count > 0 ? log->segments[0]->first_offset : log->next_offset;
    memset(log->hints, 0, sizeof log->hints);
    log->trim_wanted = true;
    log->trim_to = last_index;
    lq_rlog_mark_dirty(log);
    return LIGHTQ_OK;
}

/* ---- install ---- */

/* All files the log has now are to go with the install; the list has room. */
static void doom_all(struct lq_rlog *log, uint64_t keep_checkpoint)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i]->on_disk) {
            (void)lq_doomed_add(&log->doomed, log->segments[i]->first, true, false);
        }
    }
    for (size_t i = 0; i < log->checkpoint_count; i++) {
        (void)lq_doomed_add(&log->doomed, log->checkpoints[i].next_index, false, true);
        lq_checkpoint_file_deinit(&log->checkpoints[i]);
    }
    for (size_t i = 0; i < log->trimmed.count; i++) {
        (void)lq_doomed_add(&log->doomed, log->trimmed.at[i].number, log->trimmed.at[i].segment,
                            log->trimmed.at[i].checkpoint);
    }
    log->trimmed.count = 0;
    log->checkpoint_count = 0;
    for (size_t i = 0; i < log->doomed.count; i++) {
        if (log->doomed.at[i].number == keep_checkpoint) {
            log->doomed.at[i].checkpoint = false; /* replaced by the one installed */
        }
    }
}

static void install_take(struct lq_rlog *log, const struct lq_checkpoint *checkpoint, struct lq_checkpoint_file *file,
                         struct lq_checkpoint_meta *base)
{
    uint64_t last = checkpoint->last_index;
    lq_late_let_go(log);
    lq_late_leave(log);
    doom_all(log, file->next_index);
    lq_rlog_clear(log);
    lq_checkpoint_file_deinit(&log->install);
    log->install = *file;
    free(log->base);
    log->base = base;
    log->checkpoints[0] = (struct lq_checkpoint_file){.next_index = file->next_index, .install = file->install};
    log->checkpoint_count = 1;
    log->first = last + 1;
    log->last = last;
    log->durable = 0;
    log->submitted = last;
    log->written = last;
    log->flight_last = 0;
    log->flight_written = 0;
    log->first_offset = checkpoint->next_offset;
    log->next_offset = checkpoint->next_offset;
    log->generation++;
    lq_rlog_drop_rot(log, UINT64_MAX, 0);
    log->cut_step = LQ_CUT_NONE;
    log->trim_wanted = false;
    log->install_step = LQ_INSTALL_WRITE;
    lq_rlog_mark_watermark(log);
    lq_rlog_mark_dirty(log);
    lq_rlog_mark_background(log);
}

lightq_status lq_rlog_install(struct lq_rlog *log, const struct lq_checkpoint *checkpoint)
{
    if (log->health != LQ_RLOG_HEALTHY) {
        return LIGHTQ_ESTOPPED;
    }
    if (checkpoint->last_index == 0 || checkpoint->last_term == 0) {
        return LIGHTQ_EINVAL;
    }
    struct lq_store *store = log->store;
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    struct lq_checkpoint_file file = {.next_index = checkpoint->last_index + 1};
    /* No other install ever had this number: journal file numbers are not used twice. */
    file.install = (store->journal.number << 32) + ++store->install_count;
    size_t wanted = log->doomed.count + log->segment_count + log->checkpoint_count + log->trimmed.count;
    if (!lq_array_reserve((void **)&log->doomed.at, &log->doomed.capacity, wanted, sizeof *log->doomed.at) ||
        !lq_array_reserve((void **)&log->checkpoints, &log->checkpoint_capacity, 1, sizeof *log->checkpoints)) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_checkpoint_encode(&owner, checkpoint, file.install, &file.blob, &file.blob_size);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_checkpoint_meta *base = lq_checkpoint_meta_new(checkpoint, file.install);
    if (base == NULL) {
        lq_checkpoint_file_deinit(&file);
        return LIGHTQ_ENOMEM;
    }
    install_take(log, checkpoint, &file, base);
    return LIGHTQ_OK;
}
