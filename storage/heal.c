/* storage/heal.c - repairs the files of one log at start (storage/recover.h): what only the journal has, or may be in
 * the page cache only, is written again and synced; torn tails and leftovers go. Called by storage/store.c on the loop
 * thread. A crash in between is harmless: the journal that says all this goes only afterwards. */
#include "storage/recover.h"

#include <inttypes.h>
#include <string.h>

#define CHUNK_BYTES (1024u * 1024)

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

/* The bytes of entry @index: the journal's when it has them, else those at @position. */
static lightq_status entry_bytes(struct lq_replay *replay, struct lq_heal *heal, struct lq_scan *scan,
                                 uint64_t position, uint64_t index, const uint8_t **bytes, uint64_t *size,
                                 struct lq_err *err)
{
    const struct lq_view_entry *view = lq_view_find(heal->group, index);
    struct lq_entry entry;
    struct lq_err text;
    enum lq_found found;
    if (view != NULL && !view->bad) {
        *size = view->size;
        return lq_view_read(replay, view, &entry, bytes, err);
    }
    lightq_status status = lq_scan_entry(scan, position, &found, &entry, size, &text, err);
    if (status == LIGHTQ_OK && (found != LQ_FOUND_ENTRY || entry.index != index)) {
        status =
            lq_err_set(err, LIGHTQ_ECORRUPT, "%s: entry %" PRIu64 " changed while it was read", heal->log->dir, index);
    }
    if (status == LIGHTQ_OK) {
        *bytes = entry.payload - LQ_ENTRY_HEADER_BYTES;
    }
    return status;
}

static lightq_status rewrite_entries(struct lq_replay *replay, struct lq_heal *heal, struct lq_segment *segment,
                                     struct rewriter *rewriter, struct lq_err *err)
{
    struct lq_scan scan;
    uint64_t from = heal->rewrite_from > segment->first ? heal->rewrite_from : segment->first;
    const struct lq_point point = lq_segment_point_before(segment, from);
    uint64_t position = point.position;
    lightq_status status = lq_scan_init(&scan, rewriter->io, segment->file, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (from == segment->first) {
        const struct lq_segment_header header = {.cluster = replay->store->options.cluster,
                                                 .group = heal->log->group,
                                                 .incarnation = heal->log->incarnation,
                                                 .first = segment->first,
                                                 .journal = replay->oldest};
        lq_segment_header_encode(segment->header, &header);
        status = rewriter_add(rewriter, segment->header, LQ_SEGMENT_HEADER_BYTES, err);
    }
    for (uint64_t index = point.index; index <= segment->last && status == LIGHTQ_OK; index++) {
        const uint8_t *bytes;
        uint64_t size = 0;
        status = entry_bytes(replay, heal, &scan, position, index, &bytes, &size, err);
        if (index == from && rewriter->size == 0) {
            rewriter->position = position;
        }
        if (index >= from && status == LIGHTQ_OK) {
            status = rewriter_add(rewriter, bytes, size, err);
        }
        position += size;
    }
    if (status == LIGHTQ_OK) {
        status = rewriter_flush(rewriter, err);
    }
    lq_scan_deinit(&scan);
    return status;
}

static lightq_status heal_segment(struct lq_replay *replay, struct lq_heal *heal, struct lq_segment *segment,
                                  uint8_t *chunk, bool *changed, struct lq_err *err)
{
    struct lq_store *store = replay->store;
    bool is_empty = segment->last < segment->first; /* then it has only a header */
    bool rewrite = (is_empty ? segment->first : segment->last) >= heal->rewrite_from;
    bool shorten = segment->on_disk && segment->allocated != segment->length;
    bool was_cut = heal->is_unfinished && segment == heal->log->segments[heal->log->segment_count - 1];
    if (!rewrite && !shorten && !was_cut) {
        return LIGHTQ_OK;
    }
    *changed = true;
    lightq_status status = lq_segment_open(heal->log, segment, !segment->on_disk, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    lq_segment_pin(store, segment);
    if (rewrite) {
        struct rewriter rewriter = {.io = store->io, .file = segment->file, .bytes = chunk};
        status = rewrite_entries(replay, heal, segment, &rewriter, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_truncate(store->io, segment->file, segment->length, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync(store->io, segment->file, err);
    }
    segment->allocated = segment->length;
    lq_segment_unpin(store, segment);
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
    if (status == LIGHTQ_OK && changed) {
        status = lq_disk_sync_dir(replay->store->io, log->dir, err);
        log->directory_dirty = false;
    }
    return status;
}
