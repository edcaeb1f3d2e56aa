/* storage/heal.c - repairs the files of one log at start (storage/recover.h): what only the journal has, or may be in
 * the page cache only, is written again and synced; torn tails and leftovers go. Called by storage/store.c on the loop
 * thread. A crash in between is harmless: the journal that says all this goes only afterwards. */
#include "storage/recover.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define CHUNK_BYTES   (1024u * 1024)
#define TAIL_READ_MAX (4u * 1024 * 1024) /* a longer tail is cut off without a look */

void lq_heal_deinit(struct lq_heal *heal)
{
    for (size_t i = 0; i < heal->temporary_count; i++) {
        free(heal->temporary[i]);
    }
    free(heal->temporary);
    free(heal->remove.at);
    *heal = (struct lq_heal){.log = NULL};
}

/* Collects what is contiguous, writes it in large pieces. */
struct rewriter {
    struct lq_io *io;
    lq_file file;
    uint8_t *bytes; /* CHUNK_BYTES */
    size_t size;
    uint64_t position; /* of bytes[0] */
};

static lightq_status rewriter_flush(struct rewriter *rewriter, struct lq_err *err)
{
    lightq_status status = LIGHTQ_OK;
    if (rewriter->size > 0) {
        status = lq_disk_write(rewriter->io, rewriter->file, rewriter->position, rewriter->bytes, rewriter->size, err);
    }
    rewriter->position += rewriter->size;
    rewriter->size = 0;
    return status;
}

static lightq_status rewriter_add(struct rewriter *rewriter, const uint8_t *bytes, size_t size, struct lq_err *err)
{
    if (rewriter->size + size > CHUNK_BYTES) {
        lightq_status status = rewriter_flush(rewriter, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    if (size > CHUNK_BYTES) {
        lightq_status status = lq_disk_write(rewriter->io, rewriter->file, rewriter->position, bytes, size, err);
        rewriter->position += size;
        return status;
    }
    memcpy(rewriter->bytes + rewriter->size, bytes, size);
    rewriter->size += size;
    return LIGHTQ_OK;
}

/* The bytes of entry @index: those at @position when they are the entry, else the journal's. *covered: the journal has
 * it. */
static lightq_status entry_bytes(struct lq_replay *replay, const struct lq_heal *heal, struct lq_scan *scan,
                                 uint64_t position, uint64_t index, const uint8_t **bytes, uint64_t *size,
                                 bool *covered, struct lq_err *err)
{
    const struct lq_view_entry *view = lq_view_find(heal->group, index);
    struct lq_entry entry;
    struct lq_err text;
    enum lq_found found;
    *covered = view != NULL && !view->bad;
    lightq_status status = lq_scan_entry(scan, position, &found, &entry, size, &text, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (found == LQ_FOUND_ENTRY && entry.index == index && entry.group == heal->log->group) {
        *bytes = entry.payload - LQ_ENTRY_HEADER_BYTES;
        if (!*covered || lq_get_u32(*bytes) == view->crc) {
            return LIGHTQ_OK;
        }
    }
    if (!*covered) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: entry %" PRIu64 " changed while it was read", heal->log->dir,
                          index);
    }
    *size = view->size;
    return lq_view_read(replay, view, &entry, bytes, err);
}

static lightq_status rewrite_header(struct lq_replay *replay, const struct lq_heal *heal, struct lq_segment *segment,
                                    struct rewriter *rewriter, struct lq_err *err)
{
    const struct lq_segment_header header = {.cluster = replay->store->options.cluster,
                                             .group = heal->log->group,
                                             .incarnation = heal->log->incarnation,
                                             .first = segment->first,
                                             .journal = replay->oldest};
    lq_segment_header_encode(segment->header, &header);
    return rewriter_add(rewriter, segment->header, LQ_SEGMENT_HEADER_BYTES, err);
}

/* *covered false: the segment has entries that no journal file covers, and that were not durable yet. */
static lightq_status rewrite_entries(struct lq_replay *replay, const struct lq_heal *heal, struct lq_segment *segment,
                                     struct rewriter *rewriter, bool *covered, struct lq_err *err)
{
    struct lq_scan scan;
    uint64_t from = heal->rewrite_from > segment->first ? heal->rewrite_from : segment->first;
    const struct lq_point point = lq_segment_point_before(segment, from);
    uint64_t position = point.position;
    *covered = true;
    lightq_status status = lq_scan_init(&scan, rewriter->io, segment->file, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (from == segment->first) {
        status = rewrite_header(replay, heal, segment, rewriter, err);
    }
    for (uint64_t index = point.index; index <= segment->last && status == LIGHTQ_OK; index++) {
        const uint8_t *bytes = NULL;
        uint64_t size = 0;
        bool is_covered = false;
        status = entry_bytes(replay, heal, &scan, position, index, &bytes, &size, &is_covered, err);
        if (index == from && rewriter->size == 0) {
            rewriter->position = position;
        }
        if (index >= from && status == LIGHTQ_OK) {
            assert(bytes != NULL);
            status = rewriter_add(rewriter, bytes, size, err);
        }
        *covered = *covered && (is_covered || index <= heal->watermark);
        position += size;
    }
    if (status == LIGHTQ_OK) {
        status = rewriter_flush(rewriter, err);
    }
    lq_scan_deinit(&scan);
    return status;
}

/* Whether what lies behind the last entry is as an allocation leaves it. */
static lightq_status has_clean_tail(struct lq_io *io, const struct lq_segment *segment, bool *clean, struct lq_err *err)
{
    struct lq_scan scan;
    uint64_t position = segment->length;
    *clean = false;
    if (segment->allocated < segment->length || segment->allocated - segment->length > TAIL_READ_MAX) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_scan_init(&scan, io, segment->file, err);
    *clean = status == LIGHTQ_OK;
    while (status == LIGHTQ_OK && *clean && position < segment->allocated) {
        const uint8_t *bytes;
        size_t available = 0;
        status = lq_scan_bytes(&scan, position, CHUNK_BYTES, &bytes, &available, err);
        *clean = status == LIGHTQ_OK && available > 0 && lq_scan_is_zero(bytes, available);
        position += available;
    }
    lq_scan_deinit(&scan);
    return status;
}

/* Makes the file what the segment says, to its exact length, durably. */
static lightq_status finish_segment(struct lq_replay *replay, struct lq_segment *segment, struct lq_err *err)
{
    struct lq_io *io = replay->store->io;
    lightq_status status = lq_disk_truncate(io, segment->file, segment->length, err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync(io, segment->file, err);
    }
    segment->allocated = segment->length;
    return status;
}

/* What the journal covers is only written, and synced later in the background, so that a start does not wait for as
 * many syncs as there are logs; what it does not cover, and what is cut off, is synced now. */
static lightq_status heal_open_segment(struct lq_replay *replay, struct lq_heal *heal, struct lq_segment *segment,
                                       uint8_t *chunk, bool *synced, struct lq_err *err)
{
    struct lq_store *store = replay->store;
    bool is_empty = segment->last < segment->first; /* then it has only a header */
    bool rewrite = (is_empty ? segment->first : segment->last) >= heal->rewrite_from;
    bool is_last = segment == heal->log->segments[heal->log->segment_count - 1];
    bool covered = true;
    bool clean = false;
    lightq_status status = has_clean_tail(store->io, segment, &clean, err);
    if (rewrite && status == LIGHTQ_OK) {
        struct rewriter rewriter = {.io = store->io, .file = segment->file, .bytes = chunk};
        status = rewrite_entries(replay, heal, segment, &rewriter, &covered, err);
        clean = clean || segment->allocated <= segment->length; /* it ends with what was written now */
        segment->allocated = segment->allocated > segment->length ? segment->allocated : segment->length;
    }
    bool many = store->dirty_segment_count >= store->options.files_max / 2;
    *synced = !covered || !clean || (heal->is_unfinished && is_last) || (rewrite && (is_empty || many));
    if (*synced && status == LIGHTQ_OK) {
        return finish_segment(replay, segment, err);
    }
    if (rewrite && status == LIGHTQ_OK) {
        lq_segment_set_dirty(heal->log, segment, true);
    }
    return status;
}

static lightq_status heal_segment(struct lq_replay *replay, struct lq_heal *heal, struct lq_segment *segment,
                                  uint8_t *chunk, bool *changed, struct lq_err *err)
{
    struct lq_store *store = replay->store;
    bool synced = false;
    lightq_status status = lq_segment_open(heal->log, segment, !segment->on_disk, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    lq_segment_pin(store, segment);
    status = heal_open_segment(replay, heal, segment, chunk, &synced, err);
    lq_segment_unpin(store, segment);
    *changed = *changed || synced;
    return status;
}

static lightq_status remove_files(struct lq_replay *replay, const struct lq_heal *heal, struct lq_err *err)
{
    static const char *const SUFFIXES[] = {".idx", ".log", ".ckpt"};
    char path[LQ_PATH_BYTES];
    lightq_status status = LIGHTQ_OK;
    for (size_t i = heal->remove.count; i > 0 && status == LIGHTQ_OK; i--) {
        const struct lq_doomed *doomed = &heal->remove.at[i - 1];
        for (size_t k = 0; k < 3 && status == LIGHTQ_OK; k++) {
            if (k < 2 ? doomed->segment : doomed->checkpoint) {
                lq_path_numbered(path, heal->log->dir, doomed->number, SUFFIXES[k]);
                status = lq_disk_unlink(replay->store->io, path, err);
            }
        }
    }
    for (size_t i = 0; i < heal->temporary_count && status == LIGHTQ_OK; i++) {
        lq_path_join(path, heal->log->dir, heal->temporary[i]);
        status = lq_disk_unlink(replay->store->io, path, err);
    }
    return status;
}

/* The .idx of a segment that takes entries again, or was cut, is durably gone first. */
static lightq_status remove_indexes(struct lq_replay *replay, const struct lq_heal *heal, bool *changed,
                                    struct lq_err *err)
{
    const struct lq_rlog *log = heal->log;
    char path[LQ_PATH_BYTES];
    struct lq_io_stat stat;
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; i < log->segment_count && status == LIGHTQ_OK; i++) {
        if (log->segments[i]->indexed) {
            continue;
        }
        lq_path_numbered(path, log->dir, log->segments[i]->first, ".idx");
        if (replay->store->io->ops->stat(replay->store->io, path, &stat, NULL) == LIGHTQ_OK) {
            status = lq_disk_unlink(replay->store->io, path, err);
            *changed = true;
        }
    }
    return status == LIGHTQ_OK && *changed ? lq_disk_sync_dir(replay->store->io, log->dir, err) : status;
}

/* The lowest journal file that covers entries of the dirty segments. */
static uint64_t lowest_file(const struct lq_replay *replay, const struct lq_heal *heal)
{
    const struct lq_replay_group *group = heal->group;
    return group->view_count > 0 ? replay->files[group->view[0].file].number : replay->newest;
}

lightq_status lq_heal_log(struct lq_replay *replay, struct lq_heal *heal, struct lq_err *err)
{
    struct lq_rlog *log = heal->log;
    bool changed = false;
    lightq_status status = remove_indexes(replay, heal, &changed, err);
    uint8_t *chunk = status == LIGHTQ_OK ? malloc(CHUNK_BYTES) : NULL;
    if (status == LIGHTQ_OK && chunk == NULL) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "%s: no memory to repair it", log->dir);
    }
    changed = changed || heal->remove.count > 0 || heal->temporary_count > 0 || heal->is_unfinished;
    if (status == LIGHTQ_OK) {
        status = remove_files(replay, heal, err);
    }
    for (size_t i = 0; i < log->segment_count && status == LIGHTQ_OK; i++) {
        if (!log->segments[i]->indexed) {
            status = heal_segment(replay, heal, log->segments[i], chunk, &changed, err);
        }
    }
    free(chunk);
    log->journal_low = log->dirty_count > 0 ? lowest_file(replay, heal) : 0;
    if (status == LIGHTQ_OK && changed) {
        status = lq_disk_sync_dir(replay->store->io, log->dir, err);
        log->directory_dirty = false;
    }
    return status;
}
