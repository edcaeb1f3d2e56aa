/* storage/rlog.c - one group's log in memory: its entries' terms, changes and segments; append, cut, vote. What it
 * takes is written by the flusher. Called by raft/ through storage/store.h, and by recovery; loop thread only. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/array.h"
#include "storage/store_private.h"

/* ---- life ---- */

struct lq_rlog *lq_rlog_new(struct lq_store *store, uint64_t group, uint32_t incarnation)
{
    char dir[LQ_PATH_BYTES];
    struct lq_rlog *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return NULL;
    }
    lq_path_group(dir, store->dir, group, incarnation);
    log->dir = strdup(dir);
    if (log->dir == NULL) {
        free(log);
        return NULL;
    }
    log->store = store;
    log->group = group;
    log->incarnation = incarnation;
    log->first = 1;
    log->ring.written = &log->written;
    log->journaled.group = group;
    log->journaled.incarnation = incarnation;
    return log;
}

static void runs_clear(struct lq_rlog *log)
{
    log->run_count = 0;
}

static void changes_clear(struct lq_rlog *log)
{
    for (size_t i = 0; i < log->change_count; i++) {
        free((void *)(uintptr_t)log->changes[i].payload);
    }
    log->change_count = 0;
}

void lq_rlog_clear(struct lq_rlog *log)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        lq_segment_release(log, log->segments[i]);
    }
    log->segment_count = 0;
    runs_clear(log);
    changes_clear(log);
    lq_cache_cut(&log->store->cache, &log->ring, 0);
    memset(log->hints, 0, sizeof log->hints);
}

static void lists_leave(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    if (log->is_dirty) {
        TAILQ_REMOVE(&store->dirty, log, dirty_link);
    }
    if (log->watermark_dirty) {
        TAILQ_REMOVE(&store->watermarks, log, watermark_link);
    }
    if (log->background_queued) {
        TAILQ_REMOVE(&store->background_logs, log, background_link);
    }
    if (log->failure_untold) {
        TAILQ_REMOVE(&store->failures, log, failure_link);
    }
    if (log->destroyed) {
        TAILQ_REMOVE(&store->zombies, log, zombie_link);
    }
    lq_late_leave(log);
}

void lq_rlog_free(struct lq_rlog *log, bool abandon)
{
    struct lq_store *store = log->store;
    for (size_t i = 0; i < log->segment_count && abandon; i++) {
        log->segments[i]->file = LQ_FILE_NONE;
    }
    lists_leave(log);
    lq_rlog_clear(log);
    lq_cache_forget(&store->cache, &log->ring);
    for (size_t i = 0; i < log->checkpoint_count; i++) {
        lq_checkpoint_file_deinit(&log->checkpoints[i]);
    }
    lq_checkpoint_file_deinit(&log->install);
    free(log->checkpoints);
    free(log->base);
    free(log->runs);
    free(log->changes);
    free(log->segments);
    free(log->doomed.at);
    free(log->trimmed.at);
    free(log->reason);
    lq_rlog_drop_rot(log, UINT64_MAX, 0);
    free(log->dir);
    free(log);
}

lightq_status lq_rlog_register(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    if (!lq_array_reserve((void **)&store->logs, &store->log_capacity, store->log_count + 1,
                          sizeof(struct lq_rlog *))) {
        return LIGHTQ_ENOMEM;
    }
    HASH_ADD(hh, store->by_group, group, sizeof log->group, log);
    if (log->hh.tbl == NULL) {
        return LIGHTQ_ENOMEM;
    }
    store->logs[store->log_count++] = log;
    return LIGHTQ_OK;
}

void lq_rlog_unregister(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    HASH_DELETE(hh, store->by_group, log);
    for (size_t i = 0; i < store->log_count; i++) {
        if (store->logs[i] == log) {
            memmove(&store->logs[i], &store->logs[i + 1], (store->log_count - i - 1) * sizeof(struct lq_rlog *));
            store->log_count--;
            return;
        }
    }
}

struct lq_checkpoint_owner lq_rlog_owner(const struct lq_rlog *log)
{
    return (struct lq_checkpoint_owner){
        .cluster = log->store->options.cluster, .group = log->group, .incarnation = log->incarnation};
}

/* ---- what it says of itself ---- */

void lq_rlog_set_events(struct lq_rlog *log, const struct lq_rlog_events *events, void *owner)
{
    log->events = events;
    log->owner = owner;
}

enum lq_rlog_health lq_rlog_health(const struct lq_rlog *log)
{
    return log->health;
}

const char *lq_rlog_health_text(const struct lq_rlog *log)
{
    if (log->health == LQ_RLOG_HEALTHY) {
        return "";
    }
    return log->reason != NULL ? log->reason->text : "not known: out of memory";
}

uint64_t lq_rlog_group(const struct lq_rlog *log)
{
    return log->group;
}

uint32_t lq_rlog_incarnation(const struct lq_rlog *log)
{
    return log->incarnation;
}

uint64_t lq_rlog_first(const struct lq_rlog *log)
{
    return log->first;
}

uint64_t lq_rlog_last(const struct lq_rlog *log)
{
    return log->last;
}

uint64_t lq_rlog_durable(const struct lq_rlog *log)
{
    return log->durable;
}

uint64_t lq_rlog_generation(const struct lq_rlog *log)
{
    return log->generation;
}

uint64_t lq_rlog_term_at(const struct lq_rlog *log, uint64_t index)
{
    if (index + 1 == log->first) {
        return log->base != NULL ? log->base->checkpoint.last_term : 0;
    }
    size_t low = 0;
    size_t high = log->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->runs[middle].last < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < log->run_count && log->runs[low].first <= index ? log->runs[low].term : 0;
}

uint64_t lq_rlog_bytes(const struct lq_rlog *log)
{
    uint64_t bytes = log->base != NULL ? log->base->file_size : 0;
    for (size_t i = 0; i < log->segment_count; i++) {
        bytes += log->segments[i]->length;
    }
    return bytes;
}

size_t lq_rlog_changes(const struct lq_rlog *log, const struct lq_rlog_change **changes)
{
    *changes = log->changes;
    return log->change_count;
}

size_t lq_rlog_runs(const struct lq_rlog *log, const struct lq_rlog_run **runs)
{
    *runs = log->runs;
    return log->run_count;
}

void lq_rlog_set_health(struct lq_rlog *log, enum lq_rlog_health health, const struct lq_err *reason)
{
    log->health = health;
    if (log->reason == NULL) {
        log->reason = malloc(sizeof *log->reason);
    }
    if (log->reason != NULL) {
        *log->reason = *reason;
    }
}

const struct lq_err *lq_rlog_rot(const struct lq_rlog *log, uint64_t *index)
{
    *index = log->rot_index;
    return log->rot;
}

size_t lq_store_rotten(const struct lq_store *store)
{
    return store->rotten;
}

void lq_rlog_set_rot(struct lq_rlog *log, uint64_t index, const struct lq_err *what)
{
    if (log->rot == NULL) {
        log->rot = malloc(sizeof *log->rot);
        log->store->rotten += log->rot != NULL;
    }
    if (log->rot != NULL) { /* else the next search finds it again */
        *log->rot = *what;
        log->rot_index = index;
    }
}

void lq_rlog_drop_rot(struct lq_rlog *log, uint64_t first, uint64_t last)
{
    if (log->rot != NULL && (log->rot_index < first || log->rot_index > last)) {
        free(log->rot);
        log->rot = NULL;
        log->store->rotten--;
    }
}

void lq_rlog_fail(struct lq_rlog *log, lightq_status status, const struct lq_err *err)
{
    if (log->health != LQ_RLOG_HEALTHY) {
        return;
    }
    struct lq_err reason;
    if (err != NULL && err->text[0] != '\0') {
        reason = *err;
    } else {
        (void)lq_err_set(&reason, status, "%s: %s", log->dir, lightq_status_text(status));
    }
    reason.status = status;
    lq_rlog_set_health(log, LQ_RLOG_FAILED, &reason);
    uint64_t need = lq_rlog_need(log);
    log->keep_low = need != 0 ? need : log->store->journal.number;
    log->keep_high = log->store->journal.number;
    lq_late_leave(log);
    lq_cache_release(&log->ring);
    lq_rlog_mark_watermark(log);
    lq_log(ERROR, "log failed", "group", log->group, "reason", reason.text);
    if (!log->destroyed && !log->failure_untold) {
        log->failure_untold = true;
        TAILQ_INSERT_TAIL(&log->store->failures, log, failure_link);
    }
}

/* ---- what waits ---- */

bool lq_rlog_has_pending(const struct lq_rlog *log)
{
    if (log->store->journal_failed) {
        return false; /* nothing can become durable any more */
    }
    if (log->destroyed) {
        return !log->destroy_durable;
    }
    if (log->health != LQ_RLOG_HEALTHY) {
        return false;
    }
    return !log->created || log->vote_sequence > log->vote_submitted || log->last > log->submitted ||
           log->cut_step != LQ_CUT_NONE || log->install_step != LQ_INSTALL_NONE || log->trim_wanted ||
           log->write_wanted;
}

void lq_rlog_mark_dirty(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    if (store->pending_since_us == 0) {
        store->pending_since_us = lq_clock_monotonic_us(store->clock) + 1;
    }
    if (!log->is_dirty) {
        log->is_dirty = true;
        TAILQ_INSERT_TAIL(&store->dirty, log, dirty_link);
    }
}

void lq_rlog_mark_watermark(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    bool differs = log->durable != log->journaled.watermark && log->health == LQ_RLOG_HEALTHY && !log->destroyed &&
                   log->install_step == LQ_INSTALL_NONE;
    if (differs == log->watermark_dirty) {
        return;
    }
    log->watermark_dirty = differs;
    if (!differs) {
        TAILQ_REMOVE(&store->watermarks, log, watermark_link);
        return;
    }
    if (TAILQ_EMPTY(&store->watermarks)) {
        store->watermark_since_us = lq_clock_monotonic_us(store->clock);
    }
    TAILQ_INSERT_TAIL(&store->watermarks, log, watermark_link);
}

void lq_rlog_mark_background(struct lq_rlog *log)
{
    if (!log->background_queued) {
        log->background_queued = true;
        TAILQ_INSERT_TAIL(&log->store->background_logs, log, background_link);
    }
}

bool lq_doomed_add(struct lq_doomed_list *list, uint64_t number, bool segment, bool checkpoint)
{
    if (!lq_array_reserve((void **)&list->at, &list->capacity, list->count + 1, sizeof *list->at)) {
        return false;
    }
    list->at[list->count++] = (struct lq_doomed){.number = number, .segment = segment, .checkpoint = checkpoint};
    return true;
}

/* ---- votes ---- */

void lq_rlog_vote(const struct lq_rlog *log, uint64_t *term, uint64_t *voted_for)
{
    *term = log->term;
    *voted_for = log->voted_for;
}

uint64_t lq_rlog_set_vote(struct lq_rlog *log, uint64_t term, uint64_t voted_for)
{
    log->term = term;
    log->voted_for = voted_for;
    log->vote_sequence++;
    if (log->health == LQ_RLOG_HEALTHY) {
        lq_rlog_mark_dirty(log);
    }
    return log->vote_sequence;
}

/* ---- append ---- */

bool lq_rlog_add_run(struct lq_rlog *log, uint64_t first, uint64_t last, uint64_t term)
{
    if (log->run_count > 0 && log->runs[log->run_count - 1].term == term) {
        log->runs[log->run_count - 1].last = last;
        return true;
    }
    if (!lq_array_reserve((void **)&log->runs, &log->run_capacity, log->run_count + 1, sizeof *log->runs)) {
        return false;
    }
    log->runs[log->run_count++] = (struct lq_rlog_run){.first = first, .last = last, .term = term};
    return true;
}

void lq_rlog_drop_first_change(struct lq_rlog *log)
{
    free((void *)(uintptr_t)log->changes[0].payload);
    memmove(log->changes, log->changes + 1, (log->change_count - 1) * sizeof *log->changes);
    log->change_count--;
}

bool lq_rlog_add_change(struct lq_rlog *log, uint64_t index, const uint8_t *payload, uint32_t size)
{
    if (log->change_count >= LQ_CHANGES_KEPT_MAX) {
        lq_rlog_drop_first_change(log);
    }
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL ||
        !lq_array_reserve((void **)&log->changes, &log->change_capacity, log->change_count + 1, sizeof *log->changes)) {
        free(copy);
        return false;
    }
    if (size > 0) {
        memcpy(copy, payload, size);
    }
    log->changes[log->change_count++] = (struct lq_rlog_change){.index = index, .payload = copy, .payload_size = size};
    return true;
}

bool lq_rlog_take(struct lq_rlog *log, struct lq_segment *segment, const struct lq_entry *entry, uint32_t crc,
                  uint64_t size)
{
    if (!lq_segment_reserve_point(segment)) {
        return false;
    }
    if (entry->type == LQ_ENTRY_CHANGE && !lq_rlog_add_change(log, entry->index, entry->payload, entry->payload_size)) {
        return false;
    }
    if (!lq_rlog_add_run(log, entry->index, entry->index, entry->term)) {
        if (entry->type == LQ_ENTRY_CHANGE) {
            free((void *)(uintptr_t)log->changes[--log->change_count].payload);
        }
        return false;
    }
    if (log->last < log->first) {
        log->first_offset = entry->base_offset;
    }
    lq_segment_take(segment, entry, crc, size, log->store->options.index_stride);
    log->last = entry->index;
    log->next_offset = entry->base_offset + entry->message_count;
    return true;
}

struct lq_segment *lq_rlog_add_segment(struct lq_rlog *log)
{
    if (!lq_array_reserve((void **)&log->segments, &log->segment_capacity, log->segment_count + 1,
                          sizeof(struct lq_segment *))) {
        return NULL;
    }
    struct lq_segment *segment = lq_segment_new(log->last + 1, lq_rlog_term_at(log, log->last));
    if (segment == NULL) {
        return NULL;
    }
    segment->first_offset = log->next_offset;
    if (log->segment_count > 0) {
        log->segments[log->segment_count - 1]->closed = true;
    }
    log->segments[log->segment_count++] = segment;
    return segment;
}

struct lq_segment *lq_rlog_segment_at(const struct lq_rlog *log, uint64_t index, size_t *number)
{
    size_t low = 0;
    size_t high = log->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->segments[middle]->first <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return NULL;
    }
    if (number != NULL) {
        *number = low - 1;
    }
    return log->segments[low - 1];
}

/* The segment that takes an entry of @size bytes next: the last one, or a new one. */
static struct lq_segment *segment_for(struct lq_rlog *log, uint64_t size)
{
    struct lq_segment *segment = log->segment_count > 0 ? log->segments[log->segment_count - 1] : NULL;
    bool fits = segment != NULL && !segment->closed &&
                (segment->last < segment->first || segment->length + size <= log->store->options.segment_bytes);
    return fits ? segment : lq_rlog_add_segment(log);
}

static lightq_status append_check(const struct lq_rlog *log, const struct lq_entry_ref *refs, size_t count)
{
    uint64_t prev_term = lq_rlog_term_at(log, log->last);
    for (size_t i = 0; i < count; i++) {
        struct lq_entry entry;
        uint64_t size = 0;
        if (refs[i].offset > refs[i].slab->size || refs[i].size > refs[i].slab->size - refs[i].offset ||
            lq_entry_decode(lq_entry_ref_bytes(&refs[i]), refs[i].size, false, &entry, &size, NULL) != LIGHTQ_OK ||
            size != refs[i].size || entry.group != log->group || entry.index != log->last + 1 + i ||
            entry.prev_term != prev_term || entry.term < prev_term) {
            return LIGHTQ_EINVAL;
        }
        prev_term = entry.term;
    }
    return LIGHTQ_OK;
}

/* The log's end as it was before an append that ran out of memory. */
struct mark {
    uint64_t last;
    uint64_t first_offset;
    uint64_t next_offset;
    size_t segment_count;
    struct lq_segment tail; /* a copy of the last segment's fields */
};

static void mark_set(const struct lq_rlog *log, struct mark *mark)
{
    *mark = (struct mark){.last = log->last,
                          .first_offset = log->first_offset,
                          .next_offset = log->next_offset,
                          .segment_count = log->segment_count};
    if (log->segment_count > 0) {
        mark->tail = *log->segments[log->segment_count - 1];
    }
}

static void forget_after(struct lq_rlog *log, uint64_t last)
{
    lq_cache_cut(&log->store->cache, &log->ring, last + 1);
    while (log->run_count > 0 && log->runs[log->run_count - 1].first > last) {
        log->run_count--;
    }
    if (log->run_count > 0 && log->runs[log->run_count - 1].last > last) {
        log->runs[log->run_count - 1].last = last;
    }
    while (log->change_count > 0 && log->changes[log->change_count - 1].index > last) {
        free((void *)(uintptr_t)log->changes[--log->change_count].payload);
    }
    log->last = last;
}

static void mark_restore(struct lq_rlog *log, const struct mark *mark)
{
    forget_after(log, mark->last);
    while (log->segment_count > mark->segment_count) {
        lq_segment_unref(log->segments[--log->segment_count]);
    }
    if (log->segment_count > 0) {
        struct lq_segment *tail = log->segments[log->segment_count - 1];
        lq_segment_cut(tail, mark->last + 1, mark->tail.length, mark->tail.last_term);
        tail->tail_position = mark->tail.tail_position;
        tail->tail_crc = mark->tail.tail_crc;
        tail->closed = mark->tail.closed;
        tail->index_failed = mark->tail.index_failed;
    }
    log->first_offset = mark->first_offset;
    log->next_offset = mark->next_offset;
}

lightq_status lq_rlog_append(struct lq_rlog *log, const struct lq_entry_ref *refs, size_t count)
{
    if (log->health != LQ_RLOG_HEALTHY) {
        return LIGHTQ_ESTOPPED;
    }
    if (log->install_step != LQ_INSTALL_NONE) {
        return LIGHTQ_EBUSY;
    }
    lightq_status status = append_check(log, refs, count);
    if (status != LIGHTQ_OK || count == 0) {
        return status;
    }
    struct lq_cache *cache = &log->store->cache;
    if (!lq_cache_reserve(cache, &log->ring, count)) {
        return LIGHTQ_ENOMEM;
    }
    struct mark mark;
    mark_set(log, &mark);
    for (size_t i = 0; i < count; i++) {
        struct lq_entry entry;
        uint64_t size = 0;
        const uint8_t *bytes = lq_entry_ref_bytes(&refs[i]);
        status = lq_entry_decode(bytes, refs[i].size, false, &entry, &size, NULL);
        assert(status == LIGHTQ_OK); /* append_check saw it */
        struct lq_segment *segment = segment_for(log, size);
        uint64_t position = segment != NULL ? segment->length : 0;
        if (segment == NULL || !lq_rlog_take(log, segment, &entry, lq_get_u32(bytes), size)) {
            mark_restore(log, &mark);
            return LIGHTQ_ENOMEM;
        }
        lq_cache_push(cache, &log->ring, entry.index, &refs[i], position);
    }
    log->store->counters.entries_appended += count;
    lq_rlog_mark_dirty(log);
    lq_store_shrink_cache(log->store);
    return LIGHTQ_OK;
}

/* ---- cut ---- */

/* Takes the segments and checkpoints behind the cut out of the log, into the doomed list (which has room). */
static void doom_after(struct lq_rlog *log, uint64_t index, size_t keep_segments)
{
    while (log->segment_count > keep_segments) {
        struct lq_segment *segment = log->segments[--log->segment_count];
        if (segment->on_disk) {
            bool added = lq_doomed_add(&log->doomed, segment->first, true, false);
            assert(added);
            (void)added;
        }
        lq_segment_release(log, segment);
    }
    while (log->checkpoint_count > 0 && log->checkpoints[log->checkpoint_count - 1].next_index > index) {
        struct lq_checkpoint_file *file = &log->checkpoints[--log->checkpoint_count];
        bool added = lq_doomed_add(&log->doomed, file->next_index, false, true);
        assert(added);
        (void)added;
        lq_checkpoint_file_deinit(file);
    }
}

static bool doomed_reserve(struct lq_rlog *log)
{
    size_t wanted = log->doomed.count + log->segment_count + log->checkpoint_count + log->trimmed.count;
    return lq_array_reserve((void **)&log->doomed.at, &log->doomed.capacity, wanted, sizeof *log->doomed.at);
}

/* What was handed to the disk is cut there too, in steps (see enum lq_cut_step). */
static void cut_on_disk(struct lq_rlog *log, uint64_t index, uint64_t position, uint64_t segment_first)
{
    if (log->cut_step == LQ_CUT_NONE || index < log->cut_index) {
        log->cut_step = LQ_CUT_BEGIN;
        log->cut_index = index;
        log->cut_position = position;
        log->cut_segment = segment_first;
    }
    if (log->submitted >= index) {
        lq_late_let_go(log);
        log->submitted = index - 1;
    }
    if (log->written >= index) {
        log->written = index - 1;
    }
    if (log->flight_last >= index) {
        log->flight_last = index - 1;
    }
    if (log->flight_written >= index) {
        log->flight_written = index - 1;
    }
    if (log->durable >= index) {
        log->durable = index - 1;
    }
    lq_late_settle(log);
    lq_rlog_mark_dirty(log);
    lq_rlog_mark_watermark(log);
}

lightq_status lq_rlog_cut(struct lq_rlog *log, uint64_t index)
{
    if (log->health != LQ_RLOG_HEALTHY) {
        return LIGHTQ_ESTOPPED;
    }
    if (log->install_step != LQ_INSTALL_NONE) {
        return LIGHTQ_EBUSY;
    }
    if (index < log->first || index > log->last + 1) {
        return LIGHTQ_EINVAL;
    }
    if (index == log->last + 1) {
        return LIGHTQ_OK;
    }
    size_t number = 0;
    struct lq_segment *segment = lq_rlog_segment_at(log, index, &number);
    uint64_t position = 0;
    struct lq_entry entry;
    assert(segment != NULL);
    if (!doomed_reserve(log)) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_segment_locate(log, segment, index, &position, &entry, NULL);
    if (status == LIGHTQ_OK && segment->points_dropped) {
        status = lq_segment_load_points(log, segment, NULL); /* it takes entries again */
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    bool on_disk = index <= log->submitted;
    for (size_t i = number + 1; i < log->segment_count; i++) {
        on_disk = on_disk || log->segments[i]->on_disk;
    }
    doom_after(log, index, number + 1);
    forget_after(log, index - 1);
    lq_segment_cut(segment, index, position, lq_rlog_term_at(log, index - 1));
    log->next_offset = entry.base_offset;
    log->generation++;
    lq_rlog_drop_rot(log, 0, index - 1);
    memset(log->hints, 0, sizeof log->hints);
    if (on_disk || log->cut_step != LQ_CUT_NONE) {
        cut_on_disk(log, index, position, segment->first);
    }
    return LIGHTQ_OK;
}

/* ---- memory reads, seeks ---- */

size_t lq_rlog_peek(struct lq_rlog *log, uint64_t index, uint64_t bytes_max, size_t count_max,
                    struct lq_entry_ref *refs)
{
    size_t count = 0;
    uint64_t bytes = 0;
    while (count < count_max) {
        struct lq_slot *slot = lq_ring_at(&log->ring, index + count);
        if (slot == NULL || (count > 0 && bytes + slot->size > bytes_max)) {
            break;
        }
        refs[count++] =
            (struct lq_entry_ref){.slab = lq_slab_ref(slot->slab), .offset = slot->offset, .size = slot->size};
        bytes += slot->size;
    }
    if (count > 0) {
        log->store->cache.hits++;
    } else {
        log->store->cache.misses++;
    }
    return count;
}

uint64_t lq_rlog_first_offset(const struct lq_rlog *log)
{
    return log->last >= log->first ? log->first_offset : log->next_offset;
}

/* The last segment for which @is_before holds; NULL when it holds for none. */
static struct lq_segment *last_before(const struct lq_rlog *log, bool by_time, uint64_t value)
{
    size_t low = 0;
    size_t high = log->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct lq_segment *segment = log->segments[middle];
        bool holds = segment->last >= segment->first &&
                     (by_time ? segment->first_timestamp_ms < value : segment->first_offset <= value);
        if (holds) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? log->segments[low - 1] : NULL;
}

static uint64_t seek(const struct lq_rlog *log, bool by_time, uint64_t value)
{
    struct lq_segment *segment = last_before(log, by_time, value);
    if (segment == NULL) {
        return log->first;
    }
    if (segment->points_dropped) {
        struct lq_rlog *writable = (struct lq_rlog *)(uintptr_t)log; /* loads what is only a memory of the file */
        if (lq_segment_load_points(writable, segment, NULL) != LIGHTQ_OK) {
            return segment->first;
        }
    }
    size_t low = 0;
    size_t high = segment->point_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct lq_point *point = &segment->points[middle];
        if (by_time ? point->timestamp_ms < value : point->base_offset <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? segment->points[low - 1].index : segment->first;
}

uint64_t lq_rlog_seek_offset(const struct lq_rlog *log, uint64_t offset)
{
    return log->last < log->first || offset >= log->next_offset ? log->last + 1 : seek(log, false, offset);
}

uint64_t lq_rlog_seek_time(const struct lq_rlog *log, uint64_t timestamp_ms)
{
    return log->last < log->first ? log->last + 1 : seek(log, true, timestamp_ms);
}
