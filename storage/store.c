/* storage/store.c - opens and closes the store of a shard, finds its logs, makes and destroys groups. Called by raft/
 * (and the node, which gives the io) through storage/store.h; loop thread only. The states of files and the order of
 * everything here are explained in docs/adr/0004. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/array.h"
#include "storage/flush.h"
#include "storage/store_private.h"

/* ---- groups that ever were ---- */

struct lq_known *lq_store_known(const struct lq_store *store, uint64_t group)
{
    struct lq_known *known = NULL;
    HASH_FIND(hh, store->known, &group, sizeof group, known);
    return known;
}

lightq_status lq_store_note(struct lq_store *store, uint64_t group, uint32_t incarnation)
{
    struct lq_known *known = lq_store_known(store, group);
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        if (known == NULL) {
            return LIGHTQ_ENOMEM;
        }
        known->group = group;
        HASH_ADD(hh, store->known, group, sizeof known->group, known);
        if (known->hh.tbl == NULL) {
            free(known);
            return LIGHTQ_ENOMEM;
        }
    }
    known->incarnation = incarnation > known->incarnation ? incarnation : known->incarnation;
    return LIGHTQ_OK;
}

void lq_store_note_durable(struct lq_store *store, const struct lq_rlog *log)
{
    struct lq_known *known = lq_store_known(store, log->group);
    assert(known != NULL);
    known->durable = true;
    if (log->incarnation > known->durable_incarnation) {
        known->durable_incarnation = log->incarnation;
    }
}

bool lq_store_knows(const struct lq_store *store, uint64_t group, uint32_t *incarnation)
{
    const struct lq_known *known = lq_store_known(store, group);
    if (known != NULL && incarnation != NULL) {
        *incarnation = known->incarnation;
    }
    return known != NULL;
}

static void snapshot_group(const struct lq_rlog *log, struct lq_writer *writer, uint64_t need_from, uint64_t *lowest)
{
    if (!log->created || log->destroy_durable) {
        return;
    }
    struct lq_journal_group group = log->journaled;
    uint64_t need = log->keep_low != 0 ? log->keep_low : lq_rlog_need(log);
    group.need = need != 0 ? need : need_from;
    if (log->keep_low == 0 && group.need < *lowest) {
        *lowest = group.need;
    }
    lq_journal_group_write(writer, &group);
}

uint64_t lq_store_snapshot(struct lq_store *store, struct lq_writer *writer, uint64_t need_from, uint64_t *allocated)
{
    const struct lq_rlog *zombie;
    uint64_t lowest = need_from;
    lq_frame_begin(writer);
    for (const struct lq_known *known = store->known; known != NULL; known = known->hh.next) {
        if (known->durable) {
            const struct lq_record record = {
                .type = LQ_RECORD_KNOWN, .group = known->group, .incarnation = known->durable_incarnation};
            lq_record_write(writer, &record);
        }
    }
    for (size_t i = 0; i < store->log_count; i++) {
        snapshot_group(store->logs[i], writer, need_from, &lowest);
    }
    TAILQ_FOREACH(zombie, &store->zombies, zombie_link)
    {
        snapshot_group(zombie, writer, need_from, &lowest);
    }
    *allocated = writer->size + LQ_LENGTH_RECORDS_BYTES + LQ_SEGMENT_AHEAD_FIRST;
    const struct lq_record length = {.type = LQ_RECORD_LENGTH, .fields = {*allocated}};
    lq_record_write(writer, &length);
    lq_frame_end(writer);
    return lowest;
}

/* ---- looking ---- */

size_t lq_store_count(const struct lq_store *store)
{
    return store->log_count;
}

struct lq_rlog *lq_store_at(struct lq_store *store, size_t i)
{
    return store->logs[i];
}

struct lq_rlog *lq_store_find(struct lq_store *store, uint64_t group)
{
    struct lq_rlog *log = NULL;
    HASH_FIND(hh, store->by_group, &group, sizeof group, log);
    return log;
}

bool lq_store_idle(const struct lq_store *store)
{
    const struct lq_rlog *log;
    if (store->flushing || lq_background_busy(store) || lq_scrub_busy(store) || !TAILQ_EMPTY(&store->reads) ||
        !TAILQ_EMPTY(&store->failures) || !TAILQ_EMPTY(&store->background_logs)) {
        return false;
    }
    TAILQ_FOREACH(log, &store->dirty, dirty_link)
    {
        if (lq_rlog_has_pending(log)) {
            return false;
        }
    }
    return true;
}

static uint64_t used_bytes(const struct lq_store *store)
{
    uint64_t bytes = store->journal.allocated;
    for (size_t i = 0; i < store->journal.old_count; i++) {
        bytes += store->journal.old[i].bytes;
    }
    for (size_t i = 0; i < store->log_count; i++) {
        const struct lq_rlog *log = store->logs[i];
        for (size_t k = 0; k < log->segment_count; k++) {
            const struct lq_segment *segment = log->segments[k];
            bytes += segment->allocated > segment->length ? segment->allocated : segment->length;
        }
        for (size_t k = 0; k < log->checkpoint_count; k++) {
            bytes += log->checkpoints[k].meta != NULL ? log->checkpoints[k].meta->file_size : 0;
        }
    }
    return bytes;
}

lightq_status lq_store_space(struct lq_store *store, struct lq_store_space *space)
{
    space->used_bytes = used_bytes(store);
    return store->io->ops->space(store->io, &space->free_bytes, &space->total_bytes, NULL);
}

void lq_store_count_up(const struct lq_store *store, struct lq_store_counters *counters)
{
    *counters = store->counters;
    counters->cache_bytes = store->cache.bytes;
    counters->cache_hits = store->cache.hits;
    counters->cache_misses = store->cache.misses;
    uint64_t since = store->flight_since_us != 0 ? store->flight_since_us : store->pending_since_us;
    uint64_t now = lq_clock_monotonic_us(store->clock);
    counters->oldest_pending_us = since == 0 ? 0 : now + 1 > since ? now + 1 - since : 1;
}

/* ---- making and destroying groups ---- */

lightq_status lq_rlog_create(struct lq_store *store, uint64_t group, uint32_t incarnation, struct lq_rlog **log,
                             struct lq_err *err)
{
    const struct lq_known *known = lq_store_known(store, group);
    if (lq_store_find(store, group) != NULL) {
        return lq_err_set(err, LIGHTQ_EEXISTS, "group %" PRIu64 " exists here", group);
    }
    if (known != NULL && known->incarnation >= incarnation) {
        return lq_err_set(err, LIGHTQ_ECONFLICT,
                          "group %" PRIu64 " was here as incarnation %" PRIu32
                          ": a new one must have a higher one than %" PRIu32,
                          group, known->incarnation, incarnation);
    }
    if (store->journal_failed || store->closing) {
        return lq_err_set(err, LIGHTQ_ESTOPPED, "the shard's journal has failed, or the store is closing");
    }
    struct lq_rlog *made = lq_rlog_new(store, group, incarnation);
    if (made == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory for group %" PRIu64, group);
    }
    bool fresh = false;
    lightq_status status = lq_disk_mkdir(store->io, made->dir, &fresh, err);
    if (status == LIGHTQ_OK && !fresh) {
        status = lq_err_set(err, LIGHTQ_EEXISTS, "%s is there already", made->dir);
    }
    if (status == LIGHTQ_OK &&
        (lq_store_note(store, group, incarnation) != LIGHTQ_OK || lq_rlog_register(made) != LIGHTQ_OK)) {
        (void)store->io->ops->rmdir(store->io, made->dir, NULL);
        status = lq_err_set(err, LIGHTQ_ENOMEM, "no memory for group %" PRIu64, group);
    }
    if (status != LIGHTQ_OK) {
        lq_rlog_free(made, false);
        return status;
    }
    store->root_dirty = true;
    lq_rlog_mark_dirty(made);
    *log = made;
    return LIGHTQ_OK;
}

/* The bad files of a damaged log are out of the way before the journal forgets it: from then on its directory is just
 * removed. False: it stays known, and damaged at the next start. */
static bool destroy_damaged(struct lq_rlog *log)
{
    struct lq_err err;
    if (log->health != LQ_RLOG_DAMAGED) {
        return true;
    }
    if (lq_store_set_aside(log->store, log->dir, "", &err) != LIGHTQ_OK) {
        lq_log(ERROR, "damaged log cannot be set aside: it stays", "directory", log->dir, "reason", err.text);
        return false;
    }
    log->health = LQ_RLOG_LOST;
    return true;
}

void lq_rlog_destroy(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    log->events = NULL;
    bool forget = destroy_damaged(log);
    if (log->failure_untold) {
        TAILQ_REMOVE(&store->failures, log, failure_link);
        log->failure_untold = false;
    }
    lq_rlog_unregister(log);
    log->destroyed = true;
    log->generation++;
    lq_rlog_mark_watermark(log);
    lq_rlog_clear(log);
    lq_late_keep_journal(log);
    lq_late_leave(log);
    TAILQ_INSERT_TAIL(&store->zombies, log, zombie_link);
    if (forget) {
        lq_rlog_mark_dirty(log);
    }
}

/* ---- life ---- */

lightq_status lq_store_take_options(struct lq_store *store, const struct lq_store_options *options, struct lq_err *err)
{
    struct lq_store_options *own = &store->options;
    if (strlen(options->dir) >= sizeof store->dir) {
        return lq_err_set(err, LIGHTQ_EINVAL, "the store's directory name is longer than %zu bytes",
                          sizeof store->dir - 1);
    }
    *own = *options;
    (void)snprintf(store->dir, sizeof store->dir, "%s", options->dir);
    own->dir = store->dir;
    own->segment_bytes = own->segment_bytes != 0 ? own->segment_bytes : LQ_SEGMENT_BYTES_DEFAULT;
    own->journal_bytes = own->journal_bytes != 0 ? own->journal_bytes : LQ_JOURNAL_BYTES_DEFAULT;
    own->cache_bytes = own->cache_bytes != 0 ? own->cache_bytes : LQ_CACHE_BYTES_DEFAULT;
    own->index_stride = own->index_stride != 0 ? own->index_stride : LQ_INDEX_STRIDE_DEFAULT;
    own->sync_files_max = own->sync_files_max != 0 ? own->sync_files_max : LQ_SYNC_FILES_DEFAULT;
    own->journal_payload_max = own->journal_payload_max != 0 ? own->journal_payload_max : LQ_JOURNAL_PAYLOAD_DEFAULT;
    own->late_bytes_max = own->late_bytes_max != 0 ? own->late_bytes_max : LQ_LATE_BYTES_DEFAULT;
    own->files_max = own->files_max != 0 ? own->files_max : LQ_FILES_DEFAULT;
    own->files_max = own->files_max > LQ_FILES_MIN ? own->files_max : LQ_FILES_MIN;
    own->scrub_interval_ms = own->scrub_interval_ms != 0 ? own->scrub_interval_ms : LQ_SCRUB_INTERVAL_MS_DEFAULT;
    store->cache.bytes_max = own->cache_bytes;
    return LIGHTQ_OK;
}

struct lq_store *lq_store_new(struct lq_io *io, struct lq_clock *clock)
{
    struct lq_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    store->io = io;
    store->clock = clock;
    store->journal.file = LQ_FILE_NONE;
    store->journal.full.file = LQ_FILE_NONE;
    TAILQ_INIT(&store->open_segments);
    TAILQ_INIT(&store->dirty);
    TAILQ_INIT(&store->watermarks);
    TAILQ_INIT(&store->background_logs);
    TAILQ_INIT(&store->failures);
    TAILQ_INIT(&store->zombies);
    TAILQ_INIT(&store->late);
    TAILQ_INIT(&store->reads);
    store->flushes[0] = lq_flush_new(store);
    store->flushes[1] = lq_flush_new(store);
    store->background = lq_background_new(store);
    store->scrub = lq_scrub_new(store);
    if (store->flushes[0] == NULL || store->flushes[1] == NULL || store->background == NULL || store->scrub == NULL) {
        lq_scrub_free(store->scrub, false);
        lq_flush_free(store->flushes[0]);
        lq_flush_free(store->flushes[1]);
        lq_background_free(store->background);
        free(store);
        return NULL;
    }
    return store;
}

void lq_store_free(struct lq_store *store, bool abandon)
{
    struct lq_segment *segment;
    struct lq_rlog *zombie;
    struct lq_known *known;
    while (abandon && (segment = TAILQ_FIRST(&store->open_segments)) != NULL) {
        TAILQ_REMOVE(&store->open_segments, segment, open_link);
        segment->file = LQ_FILE_NONE;
    }
    lq_read_abandon_all(store);
    lq_flush_free(store->flushes[0]);
    lq_flush_free(store->flushes[1]);
    lq_background_free(store->background);
    lq_scrub_free(store->scrub, abandon);
    while (store->log_count > 0) {
        struct lq_rlog *log = store->logs[store->log_count - 1];
        lq_rlog_unregister(log);
        lq_rlog_free(log, abandon);
    }
    while ((zombie = TAILQ_FIRST(&store->zombies)) != NULL) {
        lq_rlog_free(zombie, abandon);
    }
    known = store->known;
    HASH_CLEAR(hh, store->known);
    while (known != NULL) {
        struct lq_known *next = known->hh.next;
        free(known);
        known = next;
    }
    if (store->journal.file != LQ_FILE_NONE && !abandon) {
        store->io->ops->close(store->io, store->journal.file);
    }
    if (store->journal.full.file != LQ_FILE_NONE && !abandon) {
        store->io->ops->close(store->io, store->journal.full.file);
    }
    lq_cache_deinit(&store->cache);
    free(store->journal.old);
    free(store->logs);
    free(store);
}

/* ---- closing ---- */

/* The only place that ends a store's life (but for abandon): nothing is in flight any more. */
void lq_store_maybe_closed(struct lq_store *store)
{
    if (!store->closing || store->flushing || lq_background_busy(store) || lq_scrub_busy(store) ||
        !TAILQ_EMPTY(&store->reads)) {
        return;
    }
    if (!store->close_final) {
        store->close_final = true;
        if (lq_flush_final(store)) {
            return;
        }
    }
    void (*cb)(void *data) = store->close_cb;
    void *data = store->close_data;
    lq_store_free(store, false);
    cb(data);
}

void lq_store_close(struct lq_store *store, void (*cb)(void *data), void *data)
{
    assert(!store->closing);
    store->closing = true;
    store->close_cb = cb;
    store->close_data = data;
    lq_flush_end_wait(store);
    lq_background_end_wait(store);
    lq_store_maybe_closed(store);
}

void lq_store_abandon(struct lq_store *store)
{
    lq_store_free(store, true);
}
