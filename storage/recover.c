/* storage/recover.c - judges one log at start (storage/recover.h). Called by storage/store.c on the loop thread; reads
 * only, the repair is in storage/heal.c.
 *
 * The walk goes from entry to entry. Each is taken from its segment, or, where the segment does not have it, from the
 * journal; where neither has it the log ends. If the journal or an .idx promised more (the watermark), or the bytes
 * there are such as no torn write leaves, the log is damaged. */
#include "storage/recover.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/array.h"

struct walk {
    struct lq_replay *replay;
    struct lq_replay_group *group;
    struct lq_rlog *log;
    struct lq_heal *heal;
    struct lq_checkpoint_owner owner;
    uint64_t *firsts; /* the segments on disk, ascending */
    size_t first_count;
    size_t first_capacity;
    uint64_t *checkpoints;
    size_t checkpoint_count;
    size_t checkpoint_capacity;
    size_t next;                /* of firsts: the next to enter */
    struct lq_segment *segment; /* being scanned; NULL: none is open */
    struct lq_scan scan;
    bool scanning;
    bool is_marked; /* damaged already when it was found the time before */
    uint64_t watermark;
    struct lq_err *err;
};

/* The log's own verdict, told by its health: the walk ends, the store opens. */
static lightq_status judge_damaged(struct walk *walk, const char *format, ...) LQ_PRINTF(2, 3);
static lightq_status judge_damaged(struct walk *walk, const char *format, ...)
{
    struct lq_err reason;
    char text[LQ_ERR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)lq_err_set(&reason, LIGHTQ_EDAMAGED, "%s: %s", walk->log->dir, text);
    lq_rlog_set_health(walk->log, LQ_RLOG_DAMAGED, &reason);
    return LIGHTQ_EDAMAGED;
}

static lightq_status no_memory(struct walk *walk)
{
    return lq_err_set(walk->err, LIGHTQ_ENOMEM, "%s: no memory to read it", walk->log->dir);
}

/* Of a file of this log: what is wrong with the whole shard stays an error, the rest is this log's damage. */
static lightq_status of_file(struct walk *walk, lightq_status status, const struct lq_err *reason)
{
    if (status == LIGHTQ_EVERSION || status == LIGHTQ_EIDENTITY || status == LIGHTQ_ENOMEM || status == LIGHTQ_ELIMIT) {
        return lq_err_set(walk->err, status, "%s", reason->text);
    }
    if (status == LIGHTQ_OK) {
        return LIGHTQ_OK;
    }
    lightq_status verdict = judge_damaged(walk, "%s", reason->text);
    if (status == LIGHTQ_EIO && walk->log->reason != NULL) {
        walk->log->reason->status = status; /* it could not be read, which may be otherwise the next time */
    }
    return verdict;
}

/* ---- the directory ---- */

static bool push_number(uint64_t **items, size_t *count, size_t *capacity, uint64_t number)
{
    if (!lq_array_reserve((void **)items, capacity, *count + 1, sizeof **items)) {
        return false;
    }
    (*items)[(*count)++] = number;
    return true;
}

static bool push_temporary(struct lq_heal *heal, const char *name)
{
    char *copy = strdup(name);
    if (copy == NULL || !lq_array_reserve((void **)&heal->temporary, &heal->temporary_capacity,
                                          heal->temporary_count + 1, sizeof *heal->temporary)) {
        free(copy);
        return false;
    }
    heal->temporary[heal->temporary_count++] = copy;
    return true;
}

static lightq_status list_files(struct walk *walk)
{
    struct lq_names names;
    struct lq_err reason;
    lightq_status status = lq_disk_list(walk->replay->store->io, walk->log->dir, &names, &reason);
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    bool ok = true;
    for (size_t i = 0; i < names.count && ok; i++) {
        uint64_t number = 0;
        const char *name = names.at[i].name;
        if (lq_name_numbered(name, ".log", &number)) {
            ok = push_number(&walk->firsts, &walk->first_count, &walk->first_capacity, number);
        } else if (lq_name_numbered(name, ".ckpt", &number)) {
            ok = push_number(&walk->checkpoints, &walk->checkpoint_count, &walk->checkpoint_capacity, number);
        } else if (lq_name_ends(name, ".tmp")) {
            ok = push_temporary(walk->heal, name);
        } else if (strcmp(name, LQ_DAMAGED_NAME) == 0) {
            walk->is_marked = true;
        }
    }
    lq_names_deinit(&names);
    return ok ? LIGHTQ_OK : no_memory(walk);
}

/* The journal that showed the damage is gone with another number of shards (storage/reshard.c): the verdict is not. */
static lightq_status judge_marked(struct walk *walk)
{
    char path[LQ_PATH_BYTES];
    char text[LQ_ERR_TEXT_BYTES];
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct lq_err reason;
    lq_path_join(path, walk->log->dir, LQ_DAMAGED_NAME);
    lightq_status status = lq_disk_read_file(walk->replay->store->io, path, sizeof text - 1, &bytes, &size, &reason);
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    for (size_t i = 0; i < size; i++) {
        text[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? (char)bytes[i] : '?';
    }
    text[size] = '\0';
    free(bytes);
    return judge_damaged(walk, "%s", text);
}

/* A flush begins only when the one before it is done: what lies below the first entry of a frame was durable. */
static void raise_watermark(struct walk *walk)
{
    const struct lq_replay_group *group = walk->group;
    for (size_t i = 0; i < group->view_count; i++) {
        bool begins = i == 0 || group->view[i].index != group->view[i - 1].index + 1;
        if (begins && group->view[i].index - 1 > walk->watermark) {
            walk->watermark = group->view[i].index - 1;
        }
    }
}

/* ---- where the log begins ---- */

/* An install that was begun is completed when its checkpoint is there, and else never was. */
static lightq_status judge_install(struct walk *walk)
{
    struct lq_journal_group *journal = &walk->group->journal;
    struct lq_checkpoint checkpoint;
    struct lq_err reason;
    uint8_t *bytes = NULL;
    uint64_t install = 0;
    if (journal->install_number == 0) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_checkpoint_read(walk->replay->store->io, &walk->owner, walk->log->dir,
                                              journal->install_index + 1, &checkpoint, &install, &bytes, &reason);
    free(bytes);
    if (status == LIGHTQ_OK && install == journal->install_number) {
        journal->trim = journal->install_index;
        journal->watermark = journal->install_index;
        journal->cut = 0;
        walk->group->view_count = 0;
        for (size_t i = 0; i < walk->first_count; i++) {
            if (!lq_doomed_add(&walk->heal->remove, walk->firsts[i], true, false)) {
                return no_memory(walk);
            }
        }
        walk->first_count = 0;
        for (size_t i = 0; i < walk->checkpoint_count; i++) {
            bool is_it = walk->checkpoints[i] == journal->trim + 1;
            if (!is_it && !lq_doomed_add(&walk->heal->remove, walk->checkpoints[i], false, true)) {
                return no_memory(walk);
            }
        }
        walk->checkpoint_count = 1;
        walk->checkpoints[0] = journal->trim + 1;
    } else if (status == LIGHTQ_EVERSION || status == LIGHTQ_EIDENTITY || status == LIGHTQ_ENOMEM ||
               status == LIGHTQ_ELIMIT) {
        return of_file(walk, status, &reason);
    }
    journal->install_index = 0;
    journal->install_number = 0;
    return LIGHTQ_OK;
}

static lightq_status add_checkpoint(struct walk *walk, uint64_t next_index)
{
    struct lq_rlog *log = walk->log;
    if (!lq_array_reserve((void **)&log->checkpoints, &log->checkpoint_capacity, log->checkpoint_count + 1,
                          sizeof *log->checkpoints)) {
        return no_memory(walk);
    }
    log->checkpoints[log->checkpoint_count++] = (struct lq_checkpoint_file){.next_index = next_index, .durable = true};
    return LIGHTQ_OK;
}

static lightq_status read_base(struct walk *walk)
{
    struct lq_rlog *log = walk->log;
    uint64_t trim = walk->group->journal.trim;
    struct lq_checkpoint checkpoint;
    struct lq_err reason;
    uint8_t *bytes = NULL;
    uint64_t install = 0;
    log->first = trim + 1;
    log->last = trim;
    if (trim == 0) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_checkpoint_read(walk->replay->store->io, &walk->owner, log->dir, trim + 1, &checkpoint,
                                              &install, &bytes, &reason);
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    log->base = lq_checkpoint_meta_new(&checkpoint, install);
    free(bytes);
    if (log->base == NULL) {
        return no_memory(walk);
    }
    log->first_offset = log->base->checkpoint.next_offset;
    log->next_offset = log->base->checkpoint.next_offset;
    return LIGHTQ_OK;
}

/* Files below the beginning are left over from a trim or an install. */
static lightq_status drop_below(struct walk *walk)
{
    uint64_t first = walk->log->first;
    lightq_status status = LIGHTQ_OK;
    for (; walk->next < walk->first_count && walk->firsts[walk->next] < first; walk->next++) {
        if (!lq_doomed_add(&walk->heal->remove, walk->firsts[walk->next], true, false)) {
            return no_memory(walk);
        }
    }
    for (size_t i = 0; i < walk->checkpoint_count && status == LIGHTQ_OK; i++) {
        uint64_t next_index = walk->checkpoints[i];
        uint64_t cut = walk->group->journal.cut;
        if (next_index >= first && (next_index > first || walk->log->base != NULL)) {
            status = add_checkpoint(walk, next_index);
            bool is_cut = cut != 0 && next_index > cut;
            if (!is_cut && next_index - 1 > walk->watermark) {
                walk->watermark = next_index - 1; /* only what is durable is applied */
            }
        } else if (!lq_doomed_add(&walk->heal->remove, next_index, false, true)) {
            status = no_memory(walk);
        }
    }
    return status;
}

/* ---- entering a segment ---- */

static lightq_status leave_segment(struct walk *walk)
{
    if (walk->scanning) {
        lq_scan_deinit(&walk->scan);
        lq_segment_unpin(walk->replay->store, walk->segment);
        walk->scanning = false;
    }
    walk->segment = NULL;
    return LIGHTQ_OK;
}

static lightq_status check_header(struct walk *walk, const struct lq_segment_header *header, uint64_t first)
{
    const struct lq_store *store = walk->replay->store;
    if (!lq_id_equal(&header->cluster, &store->options.cluster)) {
        return lq_err_set(walk->err, LIGHTQ_EIDENTITY, "%s/%020" PRIu64 ".log: of another cluster", walk->log->dir,
                          first);
    }
    if (header->group != walk->log->group || header->incarnation != walk->log->incarnation || header->first != first) {
        return judge_damaged(walk,
                             "segment %" PRIu64 " has the header of group %" PRIu64 "-%" PRIu32 ", index %" PRIu64,
                             first, header->group, header->incarnation, header->first);
    }
    if (header->journal > walk->replay->newest) {
        return lq_err_set(walk->err, LIGHTQ_EDAMAGED,
                          "%s/%020" PRIu64 ".log was begun under journal file %" PRIu64 ", the newest there is %" PRIu64
                          ": every group of the shard may have forgotten a vote",
                          walk->log->dir, first, header->journal, walk->replay->newest);
    }
    return LIGHTQ_OK;
}

/* Reads the header. A torn one is written again when the segment has entries that are (@log says how far). */
static lightq_status read_header(struct walk *walk, uint64_t first)
{
    const uint8_t *at;
    size_t available = 0;
    struct lq_segment_header header;
    struct lq_err reason;
    char path[LQ_PATH_BYTES];
    lq_path_numbered(path, walk->log->dir, first, ".log");
    lightq_status status = lq_scan_bytes(&walk->scan, 0, LQ_SEGMENT_HEADER_BYTES, &at, &available, &reason);
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    bool torn = available < LQ_SEGMENT_HEADER_BYTES || lq_scan_has_zero_piece(at, 0, LQ_SEGMENT_HEADER_BYTES);
    if (!torn) {
        status = lq_segment_header_decode(at, path, &header, &reason);
        if (status == LIGHTQ_OK) {
            return check_header(walk, &header, first);
        }
        struct lq_err ignored;
        enum lq_found found = LQ_FOUND_ROTTEN;
        struct lq_entry entry;
        uint64_t size = 0;
        lightq_status scanned =
            lq_scan_entry(&walk->scan, LQ_SEGMENT_HEADER_BYTES, &found, &entry, &size, &ignored, &ignored);
        if (status != LIGHTQ_ECORRUPT || scanned != LIGHTQ_OK || found != LQ_FOUND_END) {
            return of_file(walk, status, &reason);
        } /* else the write of the header failed half-way, and nothing was written behind it */
    }
    if (first <= walk->watermark && lq_view_find(walk->group, first) == NULL) {
        return judge_damaged(walk, "segment %" PRIu64 " has no header, entries up to %" PRIu64 " were durable", first,
                             walk->watermark);
    }
    if (first < walk->heal->rewrite_from) {
        walk->heal->rewrite_from = first;
    }
    return LIGHTQ_OK;
}

/* Whether the segment is what @index says: its size, and its last entry. */
static lightq_status matches_index(struct walk *walk, struct lq_segment *segment, const struct lq_index *index,
                                   bool *matches)
{
    const uint8_t *at;
    size_t available = 0;
    struct lq_err reason;
    struct lq_scan *scan = &walk->scan;
    *matches = false;
    if (scan->file_size != index->segment_length || index->prev_term != lq_rlog_term_at(walk->log, walk->log->last)) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_scan_bytes(scan, index->tail_position, LQ_ENTRY_HEADER_BYTES, &at, &available, &reason);
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    *matches =
        available == LQ_ENTRY_HEADER_BYTES && lq_get_u32(at) == index->tail_crc && lq_get_u64(at + 16) == index->last &&
        lq_get_u64(at + 24) == index->last_term &&
        index->tail_position + lq_entry_size(lq_get_u32(at + 4) - LQ_ENTRY_HEADER_BYTES) == index->segment_length;
    (void)segment;
    return LIGHTQ_OK;
}

/* The configuration entries that the index names. *sound false: one is not there; the index is not trusted. */
static lightq_status read_changes(struct walk *walk, const struct lq_index *index, bool *sound)
{
    *sound = true;
    for (size_t i = 0; i < index->change_count && *sound; i++) {
        enum lq_found found;
        struct lq_entry entry;
        uint64_t size = 0;
        struct lq_err text;
        struct lq_err reason;
        lightq_status status =
            lq_scan_entry(&walk->scan, index->changes[i].position, &found, &entry, &size, &text, &reason);
        if (status != LIGHTQ_OK) {
            return of_file(walk, status, &reason);
        }
        *sound = found == LQ_FOUND_ENTRY && entry.index == index->changes[i].index && entry.type == LQ_ENTRY_CHANGE &&
                 entry.group == walk->log->group;
        if (*sound && !lq_rlog_add_change(walk->log, entry.index, entry.payload, entry.payload_size)) {
            return no_memory(walk);
        }
    }
    while (!*sound && walk->log->change_count > 0 &&
           walk->log->changes[walk->log->change_count - 1].index >= index->first) {
        free((void *)(uintptr_t)walk->log->changes[--walk->log->change_count].payload);
    }
    return LIGHTQ_OK;
}

static lightq_status take_index(struct walk *walk, struct lq_segment *segment, const struct lq_index *index)
{
    struct lq_rlog *log = walk->log;
    for (size_t i = 0; i < index->run_count; i++) {
        uint64_t last = i + 1 < index->run_count ? index->runs[i + 1].first - 1 : index->last;
        if (!lq_rlog_add_run(log, index->runs[i].first, last, index->runs[i].term)) {
            return no_memory(walk);
        }
    }
    if (log->last < log->first) {
        log->first_offset = index->points[0].base_offset;
    }
    segment->last = index->last;
    segment->last_term = index->last_term;
    segment->length = index->segment_length;
    segment->tail_position = index->tail_position;
    segment->tail_crc = index->tail_crc;
    segment->first_offset = index->points[0].base_offset;
    segment->first_timestamp_ms = index->points[0].timestamp_ms;
    segment->last_timestamp_ms = index->last_timestamp_ms;
    segment->indexed = true;
    segment->closed = true;
    segment->points_dropped = true;
    log->last = index->last;
    log->next_offset = index->next_offset;
    return LIGHTQ_OK;
}

/* With a trusted .idx the entries are not read. *trusted says whether it was. */
static lightq_status try_index(struct walk *walk, struct lq_segment *segment, bool *trusted)
{
    struct lq_index index;
    struct lq_err reason;
    const struct lq_journal_group *journal = &walk->group->journal;
    *trusted = false;
    lightq_status status = lq_index_read(walk->replay->store->io, &walk->owner, walk->log->dir, segment->first,
                                         LQ_INDEX_HEADER_BYTES + walk->scan.file_size, &index, &reason);
    if (status == LIGHTQ_ENOTFOUND || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EIO) {
        return LIGHTQ_OK; /* rebuilt by scanning */
    }
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    bool is_cut = journal->cut != 0 && journal->cut <= index.last;
    if (!is_cut && index.last > walk->watermark) {
        walk->watermark = index.last; /* it is written only when its segment is durable */
    }
    bool sound = false;
    if (!is_cut) {
        status = matches_index(walk, segment, &index, &sound);
    }
    if (status == LIGHTQ_OK && sound) {
        status = read_changes(walk, &index, &sound);
    }
    if (status == LIGHTQ_OK && sound) {
        status = take_index(walk, segment, &index);
        *trusted = true;
    }
    lq_index_deinit(&index);
    return status;
}

/* Opens the next segment, which begins with the entry wanted next. */
static lightq_status enter_segment(struct walk *walk)
{
    struct lq_store *store = walk->replay->store;
    struct lq_err reason;
    bool trusted = false;
    (void)leave_segment(walk);
    struct lq_segment *segment = lq_rlog_add_segment(walk->log);
    if (segment == NULL) {
        return no_memory(walk);
    }
    assert(walk->firsts != NULL && segment->first == walk->firsts[walk->next]);
    walk->next++;
    segment->on_disk = true;
    lightq_status status = lq_segment_open(walk->log, segment, false, &reason);
    if (status == LIGHTQ_OK) {
        status = lq_scan_init(&walk->scan, store->io, segment->file, &reason);
    }
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    lq_segment_pin(store, segment);
    walk->segment = segment;
    walk->scanning = true;
    segment->allocated = walk->scan.file_size;
    status = read_header(walk, segment->first);
    if (status == LIGHTQ_OK) {
        status = try_index(walk, segment, &trusted);
    }
    if (status == LIGHTQ_OK && trusted) {
        (void)leave_segment(walk);
        lq_segment_close(store, segment);
    }
    return status;
}

/* ---- the walk ---- */

/* Takes an entry; a segment for it is made when none is open (its file was never durable). */
static lightq_status take(struct walk *walk, const struct lq_entry *entry, uint32_t crc, uint64_t size)
{
    struct lq_rlog *log = walk->log;
    struct lq_segment *segment = log->segment_count > 0 ? log->segments[log->segment_count - 1] : NULL;
    if (segment == NULL || segment->closed) {
        segment = lq_rlog_add_segment(log);
    }
    return segment != NULL && lq_rlog_take(log, segment, entry, crc, size) ? LIGHTQ_OK : no_memory(walk);
}

static bool chains(const struct walk *walk, const struct lq_entry *entry)
{
    uint64_t prev_term = lq_rlog_term_at(walk->log, walk->log->last);
    return entry->group == walk->log->group && entry->index == walk->log->last + 1 && entry->prev_term == prev_term &&
           entry->term >= prev_term;
}

/* From the journal. *taken false: it is not there. */
static lightq_status take_from_view(struct walk *walk, bool *taken)
{
    const struct lq_view_entry *view = lq_view_find(walk->group, walk->log->last + 1);
    struct lq_entry entry;
    struct lq_err reason;
    const uint8_t *bytes;
    *taken = false;
    if (view == NULL || view->bad) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_view_read(walk->replay, view, &entry, &bytes, &reason);
    if (status != LIGHTQ_OK) {
        return of_file(walk, status, &reason);
    }
    if (!chains(walk, &entry)) {
        return judge_damaged(walk, "entry %" PRIu64 " in the journal does not follow the log", view->index);
    }
    *taken = true;
    return take(walk, &entry, view->crc, view->size);
}

/* The log ends here: as it may, or not. */
static lightq_status judge_end(struct walk *walk, enum lq_found found, const struct lq_err *text)
{
    uint64_t index = walk->log->last + 1;
    const struct lq_view_entry *view = lq_view_find(walk->group, index);
    if (index <= walk->watermark) {
        return judge_damaged(walk, "entry %" PRIu64 " is missing or bad (%s), entries up to %" PRIu64 " were durable",
                             index, text->text, walk->watermark);
    }
    if (view != NULL && view->bad) {
        return judge_damaged(walk, "entry %" PRIu64 " is damaged in the journal and missing in its segment", index);
    }
    if (found == LQ_FOUND_ROTTEN) {
        return judge_damaged(walk, "entry %" PRIu64 ": %s; it was written in full", index, text->text);
    }
    return LIGHTQ_OK;
}

/* One entry further. *end: the log ends here. */
static lightq_status step(struct walk *walk, bool *end)
{
    uint64_t index = walk->log->last + 1;
    enum lq_found found = LQ_FOUND_END;
    struct lq_entry entry;
    uint64_t size = 0;
    struct lq_err text = {.text = "no segment has it"};
    struct lq_err reason;
    uint64_t next_first = walk->next < walk->first_count ? walk->firsts[walk->next] : 0;
    if (walk->group->journal.cut != 0 && index >= walk->group->journal.cut) {
        *end = true; /* the cut is completed now */
        return LIGHTQ_OK;
    }
    if (next_first == index) {
        return enter_segment(walk);
    }
    if (next_first != 0 && next_first < index) {
        return judge_damaged(walk, "segment %" PRIu64 " begins before entry %" PRIu64 ", where the one before it ends",
                             next_first, index - 1);
    }
    if (walk->segment != NULL) {
        lightq_status status = lq_scan_entry(&walk->scan, walk->segment->length, &found, &entry, &size, &text, &reason);
        if (status != LIGHTQ_OK) {
            return of_file(walk, status, &reason);
        }
    }
    const struct lq_view_entry *view = lq_view_find(walk->group, index);
    if (found == LQ_FOUND_ENTRY && chains(walk, &entry)) {
        uint32_t crc = lq_get_u32(entry.payload - LQ_ENTRY_HEADER_BYTES);
        if (view == NULL || view->bad || view->crc == crc) {
            return take(walk, &entry, crc, size);
        }
        return judge_damaged(walk, "entry %" PRIu64 " is another one in the journal", index);
    }
    if (found == LQ_FOUND_ENTRY) {
        (void)lq_err_set(&text, LIGHTQ_ECORRUPT, "an entry is there that does not follow the one before");
    }
    bool taken = false;
    lightq_status status = take_from_view(walk, &taken);
    if (status != LIGHTQ_OK || taken) {
        return status;
    }
    *end = true;
    return judge_end(walk, found, &text);
}

/* What lies behind the end goes: segments, and checkpoints of a state that is not in the log. */
static lightq_status drop_above(struct walk *walk)
{
    struct lq_rlog *log = walk->log;
    for (; walk->next < walk->first_count; walk->next++) {
        if (!lq_doomed_add(&walk->heal->remove, walk->firsts[walk->next], true, false)) {
            return no_memory(walk);
        }
    }
    while (log->checkpoint_count > 0 && log->checkpoints[log->checkpoint_count - 1].next_index > log->last + 1) {
        uint64_t next_index = log->checkpoints[--log->checkpoint_count].next_index;
        if (!lq_doomed_add(&walk->heal->remove, next_index, false, true)) {
            return no_memory(walk);
        }
    }
    return LIGHTQ_OK;
}

static lightq_status run(struct walk *walk)
{
    lightq_status status = list_files(walk);
    if (status == LIGHTQ_OK && walk->is_marked) {
        status = judge_marked(walk);
    }
    if (status == LIGHTQ_OK) {
        status = judge_install(walk);
    }
    if (status == LIGHTQ_OK) {
        walk->watermark = walk->group->journal.watermark;
        uint64_t view_first = walk->group->view_count > 0 ? walk->group->view[0].index : UINT64_MAX;
        walk->heal->rewrite_from = view_first < walk->watermark + 1 ? view_first : walk->watermark + 1;
        raise_watermark(walk);
        status = read_base(walk);
    }
    if (status == LIGHTQ_OK) {
        status = drop_below(walk);
    }
    bool end = false;
    while (status == LIGHTQ_OK && !end) {
        status = step(walk, &end);
    }
    walk->heal->watermark = walk->watermark;
    (void)leave_segment(walk);
    if (status == LIGHTQ_OK) {
        status = drop_above(walk);
    }
    return status;
}

/* A damaged log shows nothing of its content; its files stay as they are. */
static void empty(struct lq_rlog *log)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        lq_segment_close(log->store, log->segments[i]);
    }
    lq_rlog_clear(log);
    for (size_t i = 0; i < log->checkpoint_count; i++) {
        lq_checkpoint_file_deinit(&log->checkpoints[i]);
    }
    log->checkpoint_count = 0;
    free(log->base);
    log->base = NULL;
    log->first = 1;
    log->last = 0;
    log->first_offset = 0;
    log->next_offset = 0;
}

lightq_status lq_recover_log(struct lq_replay *replay, struct lq_replay_group *group, struct lq_rlog *log,
                             struct lq_heal *heal, struct lq_err *err)
{
    const struct lq_journal_group journal = group->journal; /* what a damaged log keeps saying */
    struct walk walk = {
        .replay = replay, .group = group, .log = log, .heal = heal, .owner = lq_rlog_owner(log), .err = err};
    heal->log = log;
    heal->group = group;
    heal->is_unfinished = journal.cut != 0 || journal.install_number != 0;
    lightq_status status = run(&walk);
    free(walk.firsts);
    free(walk.checkpoints);
    if (status == LIGHTQ_EDAMAGED && log->health == LQ_RLOG_DAMAGED) {
        lq_log(ERROR, "log damaged: it does not take part until it is rebuilt", "group", log->group, "reason",
               lq_rlog_health_text(log));
        group->journal = journal;
        empty(log);
        return LIGHTQ_OK;
    }
    return status;
}
