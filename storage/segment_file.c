/* storage/segment_file.c - the open files of segments: opened when needed, the least recently used closed, never one
 * with bytes that are not synced (its error would be lost). Called by the other files of the store on the loop thread.
 */
#include <assert.h>
#include <inttypes.h>

#include "storage/store_private.h"

/* Closes files that nobody uses until at most @most are open; with the file of a sealed segment go its points. */
static void open_segments_shrink(struct lq_store *store, size_t most)
{
    struct lq_segment *segment = TAILQ_FIRST(&store->open_segments);
    while (segment != NULL && store->open_segment_count > most) {
        struct lq_segment *next = TAILQ_NEXT(segment, open_link);
        if (segment->pins == 0 && segment->indexed && segment->closed) {
            free(segment->points);
            free(segment->changes);
            segment->points = NULL;
            segment->point_count = 0;
            segment->point_capacity = 0;
            segment->changes = NULL;
            segment->change_count = 0;
            segment->change_capacity = 0;
            segment->points_dropped = true;
        }
        if (segment->pins == 0) {
            lq_segment_close(store, segment);
        }
        segment = next;
    }
}

/* Closes what nobody uses, down to what may stay open, less the one that is opened next. */
static void make_room(struct lq_store *store)
{
    size_t idle_max = store->options.files_max / 4;
    open_segments_shrink(store, (idle_max < LQ_SEGMENT_OPEN_MAX ? idle_max : LQ_SEGMENT_OPEN_MAX) - 1);
}

bool lq_segments_may_read(struct lq_store *store)
{
    make_room(store);
    return store->open_segment_count < store->options.files_max / 4 * 3;
}

/* Without a descriptor those that nobody uses are given up. */
static lightq_status open_file(struct lq_store *store, const char *path, enum lq_open_mode mode, lq_file *file,
                               struct lq_err *err)
{
    make_room(store);
    if (store->open_segment_count >= store->options.files_max) {
        return lq_err_set(err, LIGHTQ_ELIMIT, "%s: %zu files are open and in use, which is the most", path,
                          store->open_segment_count);
    }
    size_t before = store->open_segment_count;
    lightq_status status = lq_disk_open(store->io, path, mode, file, err);
    if (status == LIGHTQ_ELIMIT) {
        open_segments_shrink(store, 0);
        if (store->open_segment_count < before) {
            status = lq_disk_open(store->io, path, mode, file, err);
        }
    }
    return status;
}

lightq_status lq_segment_open(struct lq_rlog *log, struct lq_segment *segment, bool create, struct lq_err *err)
{
    struct lq_store *store = log->store;
    if (segment->file != LQ_FILE_NONE) {
        TAILQ_REMOVE(&store->open_segments, segment, open_link);
        TAILQ_INSERT_TAIL(&store->open_segments, segment, open_link);
        return LIGHTQ_OK;
    }
    char path[LQ_PATH_BYTES];
    lq_path_numbered(path, log->dir, segment->first, ".log");
    lightq_status status = open_file(store, path, create ? LQ_OPEN_CREATE : LQ_OPEN_WRITE, &segment->file, err);
    if (status != LIGHTQ_OK) {
        segment->file = LQ_FILE_NONE;
        return status;
    }
    if (create) {
        segment->on_disk = true;
        segment->allocated = 0;
        log->directory_dirty = true;
    }
    TAILQ_INSERT_TAIL(&store->open_segments, segment, open_link);
    store->open_segment_count++;
    return LIGHTQ_OK;
}

void lq_segment_close(struct lq_store *store, struct lq_segment *segment)
{
    if (segment->file == LQ_FILE_NONE) {
        return;
    }
    store->io->ops->close(store->io, segment->file);
    segment->file = LQ_FILE_NONE;
    TAILQ_REMOVE(&store->open_segments, segment, open_link);
    store->open_segment_count--;
}

void lq_segment_pin(struct lq_store *store, struct lq_segment *segment)
{
    (void)store;
    assert(segment->file != LQ_FILE_NONE);
    segment->pins++;
    segment->references++;
}

void lq_segment_unpin(struct lq_store *store, struct lq_segment *segment)
{
    assert(segment->pins > 0);
    segment->pins--;
    if (segment->references == 1) {
        lq_segment_close(store, segment); /* the log let it go meanwhile */
    }
    lq_segment_unref(segment);
}

void lq_segment_set_dirty(struct lq_rlog *log, struct lq_segment *segment, bool dirty)
{
    if (segment->dirty == dirty) {
        return;
    }
    segment->dirty = dirty;
    if (dirty) {
        log->dirty_count++;
        log->store->dirty_segment_count++;
        lq_segment_pin(log->store, segment);
    } else {
        log->dirty_count--;
        log->store->dirty_segment_count--;
        lq_segment_unpin(log->store, segment);
    }
}

void lq_segment_release(struct lq_rlog *log, struct lq_segment *segment)
{
    struct lq_store *store = log->store;
    if (segment->file != LQ_FILE_NONE) {
        log->released_dirty = log->released_dirty || segment->dirty;
        lq_segment_set_dirty(log, segment, false);
    } else if (segment->dirty) { /* abandoned: the file is gone already */
        segment->dirty = false;
        segment->pins--;
        segment->references--;
    }
    if (segment->references == 1) {
        lq_segment_close(store, segment);
    }
    lq_segment_unref(segment);
}

lightq_status lq_segment_load_points(struct lq_rlog *log, struct lq_segment *segment, struct lq_err *err)
{
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    struct lq_index index;
    lightq_status status = lq_index_read(log->store->io, &owner, log->dir, segment->first,
                                         LQ_INDEX_HEADER_BYTES + segment->length, &index, err);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ENOTFOUND ? LIGHTQ_ECORRUPT : status;
    }
    if (index.segment_length != segment->length || index.last != segment->last) {
        lq_index_deinit(&index);
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: the index of segment %" PRIu64 " is of another segment", log->dir,
                          segment->first);
    }
    free(segment->points);
    segment->points = index.points;
    segment->point_count = index.point_count;
    segment->point_capacity = index.point_count;
    free(segment->changes);
    segment->changes = index.changes;
    segment->change_count = index.change_count;
    segment->change_capacity = index.change_count;
    segment->points_dropped = false;
    index.points = NULL;
    index.changes = NULL;
    lq_index_deinit(&index);
    return LIGHTQ_OK;
}

/* Reads forward from the point before @index. */
static lightq_status scan_to(struct lq_rlog *log, const struct lq_segment *segment, lq_file file, uint64_t index,
                             uint64_t *position, struct lq_entry *entry, struct lq_err *err)
{
    const struct lq_point point = lq_segment_point_before(segment, index);
    struct lq_scan scan;
    uint64_t at = point.position;
    lightq_status status = lq_scan_init(&scan, log->store->io, file, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (uint64_t i = point.index; status == LIGHTQ_OK; i++) {
        enum lq_found found;
        struct lq_err text;
        uint64_t size = 0;
        status = lq_scan_entry(&scan, at, &found, entry, &size, &text, err);
        if (status == LIGHTQ_OK && (found != LQ_FOUND_ENTRY || entry->index != i)) {
            status = lq_err_set(err, LIGHTQ_ECORRUPT, "%s/%020" PRIu64 ".log: entry %" PRIu64 " at %" PRIu64 ": %s",
                                log->dir, segment->first, i, at,
                                found == LQ_FOUND_ENTRY ? "another entry is there" : text.text);
        }
        if (status == LIGHTQ_OK && i == index) {
            *position = at;
            break;
        }
        at += size;
    }
    entry->payload = NULL;
    lq_scan_deinit(&scan);
    return status;
}

/* Through a file that is closed again at once: there are descriptors for those. */
static lightq_status locate_shortly(struct lq_rlog *log, const struct lq_segment *segment, uint64_t index,
                                    uint64_t *position, struct lq_entry *entry, struct lq_err *err)
{
    struct lq_io *io = log->store->io;
    char path[LQ_PATH_BYTES];
    lq_file file;
    lq_path_numbered(path, log->dir, segment->first, ".log");
    lightq_status status = lq_disk_open(io, path, LQ_OPEN_READ, &file, err);
    if (status == LIGHTQ_OK) {
        status = scan_to(log, segment, file, index, position, entry, err);
        io->ops->close(io, file);
    }
    return status;
}

lightq_status lq_segment_locate(struct lq_rlog *log, struct lq_segment *segment, uint64_t index, uint64_t *position,
                                struct lq_entry *entry, struct lq_err *err)
{
    const struct lq_slot *slot = lq_ring_at(&log->ring, index);
    if (slot != NULL) {
        uint64_t size = 0;
        *position = slot->position;
        lightq_status status = lq_entry_decode(slot->slab->bytes + slot->offset, slot->size, false, entry, &size, err);
        entry->payload = NULL;
        return status;
    }
    lightq_status status = segment->points_dropped ? lq_segment_load_points(log, segment, err) : LIGHTQ_OK;
    if (status == LIGHTQ_OK) {
        status = lq_segment_open(log, segment, false, err);
    }
    if (status == LIGHTQ_ELIMIT) { /* a cut cannot wait */
        return locate_shortly(log, segment, index, position, entry, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    lq_segment_pin(log->store, segment);
    status = scan_to(log, segment, segment->file, index, position, entry, err);
    lq_segment_unpin(log->store, segment);
    return status;
}
