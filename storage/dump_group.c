/* storage/dump_group.c - reads the directory of a replica log: its segments with their entries, indexes and
 * checkpoints, and judges whether the log holds what the journal says it must (docs/format/segment.md). Called by
 * storage/dump.c; blocking, one thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/array.h"
#include "storage/checkpoint.h"
#include "storage/dump_private.h"
#include "storage/index.h"
#include "storage/segment.h"

#define TERM_UNKNOWN   UINT64_MAX
#define OFFSET_UNKNOWN UINT64_MAX

/* A log being read: where it stands after the segments so far. */
struct log_reading {
    struct lq_dump *dump;
    const char *dir;
    struct lq_checkpoint_owner owner;
    const struct lq_dump_group *known; /* NULL: no journal knows it */
    uint64_t *firsts;                  /* of its segments, ascending */
    size_t first_count;
    size_t first_capacity;
    uint64_t watermark; /* entries up to here must be there */
    uint64_t next;      /* index that comes next; 0: no segment was read yet */
    uint64_t term;      /* of the entry before it */
    uint64_t offset;    /* queue offset that comes next; or OFFSET_UNKNOWN */
    uint64_t timestamp_ms;
    uint64_t begin; /* index of the first entry of the log; 0: not known */
    bool has_ended; /* what follows does not belong to the log */
};

/* One segment being read. */
struct segment_reading {
    struct lq_dump_file file;
    struct lq_scan scan;
    uint64_t number;
    uint64_t position;
    uint64_t entries;      /* in the file */
    uint64_t from_journal; /* that only a journal has */
    uint64_t next_first;   /* of the segment behind it; 0: it is the last */
    uint32_t tail_crc;
    uint64_t tail_position;
};

/* ---- entries ---- */

/* Why @entry cannot come next; false: it can. */
static bool does_not_follow(const struct log_reading *log, const struct lq_entry *entry, struct lq_err *why)
{
    if (entry->group != log->owner.group) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "an entry of group %" PRIu64, entry->group);
    } else if (entry->index != log->next) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "entry %" PRIu64 " where entry %" PRIu64 " comes next", entry->index,
                         log->next);
    } else if (log->term != TERM_UNKNOWN && entry->prev_term != log->term) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT,
                         "entry %" PRIu64 " says that the one before it is of term %" PRIu64
                         ", but that is of %" PRIu64,
                         entry->index, entry->prev_term, log->term);
    } else if (entry->term < entry->prev_term) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "entry %" PRIu64 " is of a lower term than the one before it",
                         entry->index);
    } else {
        return false;
    }
    return true;
}

/* The leader's stamps never go back. A sound entry with wrong ones is not the disk's fault, but says that something is.
 */
static void check_entry(const struct log_reading *log, struct segment_reading *segment, const struct lq_entry *entry)
{
    const struct lq_dump_view *view = log->known == NULL ? NULL : lq_dump_group_view(log->known, entry->index);
    if (view != NULL && view->crc != lq_get_u32(entry->payload - LQ_ENTRY_HEADER_BYTES)) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, segment->position,
                     "entry %" PRIu64 " is another one in the journal", entry->index);
    }
    if (entry->timestamp_ms < log->timestamp_ms) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, segment->position,
                     "entry %" PRIu64 " is stamped %" PRIu64 ", the one before it %" PRIu64, entry->index,
                     entry->timestamp_ms, log->timestamp_ms);
    }
    if (log->offset != OFFSET_UNKNOWN && entry->base_offset != log->offset) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, segment->position,
                     "entry %" PRIu64 " begins at offset %" PRIu64 ", expected %" PRIu64, entry->index,
                     entry->base_offset, log->offset);
    }
}

static void take_entry(struct log_reading *log, const struct lq_entry *entry)
{
    log->next = entry->index + 1;
    log->term = entry->term;
    log->offset = entry->base_offset + entry->message_count;
    log->timestamp_ms = entry->timestamp_ms;
}

/* What comes next is about to be cut: it is not looked at. */
static bool is_cut(const struct log_reading *log)
{
    return log->known != NULL && log->known->cut != 0 && log->next >= log->known->cut;
}

/* The entry that comes next, as a journal has it; NULL when none does. */
static const struct lq_dump_view *journal_entry(const struct log_reading *log)
{
    const struct lq_dump_view *view = log->known == NULL ? NULL : lq_dump_group_view(log->known, log->next);
    struct lq_err why;
    return view != NULL && !does_not_follow(log, &view->entry, &why) ? view : NULL;
}

/* The next entry is bad or missing in @segment: it may be in a journal, and then the log goes on. */
static bool take_from_journal(struct log_reading *log, struct segment_reading *segment, const struct lq_err *why)
{
    const struct lq_dump_view *view = journal_entry(log);
    if (view == NULL) {
        return false;
    }
    lq_dump_find(&segment->file, LQ_DUMP_TORN, segment->position, "%s; the journal has entry %" PRIu64, why->text,
                 log->next);
    take_entry(log, &view->entry);
    segment->position += view->size;
    segment->from_journal++;
    return true;
}

/* Reads entries until one is not whole, or does not follow, and no journal has it either; *found says what is there,
 * *why in words. */
static lightq_status read_entries(struct log_reading *log, struct segment_reading *segment, enum lq_found *found,
                                  struct lq_err *why, struct lq_err *err)
{
    while (!is_cut(log) && log->next != segment->next_first) {
        struct lq_entry entry;
        uint64_t size = 0;
        lightq_status status = lq_scan_entry(&segment->scan, segment->position, found, &entry, &size, why, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        if (*found == LQ_FOUND_ENTRY && does_not_follow(log, &entry, why)) {
            *found = LQ_FOUND_TORN; /* left over from an older history: not of this log */
        }
        if (*found == LQ_FOUND_ENTRY) {
            check_entry(log, segment, &entry);
            lq_dump_entry(log->dump, &entry, size, segment->position);
            take_entry(log, &entry);
            segment->tail_position = segment->position;
            segment->tail_crc = lq_get_u32(entry.payload - LQ_ENTRY_HEADER_BYTES);
            segment->position += size;
            segment->entries++;
        } else if (!take_from_journal(log, segment, why)) {
            return LIGHTQ_OK;
        }
    }
    *found = LQ_FOUND_END;
    return LIGHTQ_OK;
}

/* ---- the end of the entries ---- */

/* The log ends in, or before, @segment. */
static void judge_end(struct log_reading *log, struct segment_reading *segment, enum lq_found found,
                      const struct lq_err *why)
{
    log->has_ended = true;
    if (is_cut(log)) {
        return;
    }
    if (log->next <= log->watermark) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, segment->position,
                     "%s; the log must be whole up to entry %" PRIu64 " and ends at %" PRIu64, why->text,
                     log->watermark, log->next - 1);
    } else if (found == LQ_FOUND_ROTTEN) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, segment->position, "%s; no interrupted write leaves that",
                     why->text);
    } else if (found == LQ_FOUND_TORN) {
        lq_dump_find(&segment->file, LQ_DUMP_TORN, segment->position, "%s; the last flush was interrupted", why->text);
    }
}

/* ---- segments ---- */

static void check_owner(struct log_reading *log, struct segment_reading *segment,
                        const struct lq_segment_header *header)
{
    if (!lq_dump_check_cluster(log->dump, &segment->file, &header->cluster)) {
        return;
    }
    if (header->group != log->owner.group || header->incarnation != log->owner.incarnation ||
        header->first != segment->number) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, 32,
                     "its header is of group %" PRIu64 "-%" PRIu32 ", first entry %" PRIu64, header->group,
                     header->incarnation, header->first);
    } else if (log->known != NULL && header->journal > log->known->newest) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, 56,
                     "begun under journal file %" PRIu64 ", the newest there is %" PRIu64
                     ": every group of the shard may have forgotten a vote",
                     header->journal, log->known->newest);
    }
}

/* A torn header is no matter where the entries can be had: it is written again. */
static void check_header(struct log_reading *log, struct segment_reading *segment)
{
    const uint8_t *bytes;
    size_t available;
    struct lq_err err;
    struct lq_segment_header header;
    lightq_status status = lq_scan_bytes(&segment->scan, 0, LQ_SEGMENT_HEADER_BYTES, &bytes, &available, &err);
    if (status != LIGHTQ_OK) {
        lq_dump_fail(log->dump, &segment->file, status, &err);
        return;
    }
    if (available < LQ_SEGMENT_HEADER_BYTES || lq_scan_has_zero_piece(bytes, 0, LQ_SEGMENT_HEADER_BYTES)) {
        bool is_durable = segment->number <= log->watermark && journal_entry(log) == NULL;
        lq_dump_find(&segment->file, is_durable ? LQ_DUMP_DAMAGED : LQ_DUMP_TORN, 0,
                     "the header was not written in full");
        return;
    }
    status = lq_segment_header_decode(bytes, segment->file.path, &header, &err);
    if (status == LIGHTQ_OK) {
        check_owner(log, segment, &header);
    } else if (status == LIGHTQ_EVERSION) {
        lq_dump_fail(log->dump, &segment->file, status, &err);
    } else {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, 0, "%s; no interrupted write leaves that", err.text);
    }
}

static void read_segment_entries(struct log_reading *log, struct segment_reading *segment)
{
    enum lq_found found = LQ_FOUND_TORN;
    struct lq_err why;
    struct lq_err err;
    if (log->next == 0) { /* no journal says where the log begins */
        log->begin = segment->number;
        log->next = segment->number;
    }
    if (segment->number < log->next) {
        lq_dump_find(&segment->file, LQ_DUMP_DAMAGED, 0,
                     "it begins before entry %" PRIu64 ", where the segment before it ends", log->next - 1);
        log->has_ended = true;
        return;
    }
    (void)lq_err_set(&why, LIGHTQ_ECORRUPT, "the segment before it ends with entry %" PRIu64, log->next - 1);
    if (segment->number == log->next) {
        segment->position = LQ_SEGMENT_HEADER_BYTES;
        check_header(log, segment);
        lightq_status status = read_entries(log, segment, &found, &why, &err);
        if (status != LIGHTQ_OK) {
            lq_dump_fail(log->dump, &segment->file, status, &err);
        }
    }
    if (segment->next_first != log->next || is_cut(log)) {
        judge_end(log, segment, found, &why);
    } /* else the next one goes on, whatever lies behind the last entry here */
}

/* A sealed segment was durable to its last byte before its index was written. */
static void check_index(struct log_reading *log, struct segment_reading *segment)
{
    struct lq_dump_file file;
    struct lq_index index;
    struct lq_err err;
    char path[LQ_PATH_BYTES];
    lq_path_numbered(path, log->dir, segment->number, ".idx");
    lightq_status status = lq_index_read(log->dump->io, &log->owner, log->dir, segment->number,
                                         LQ_INDEX_HEADER_BYTES + segment->scan.file_size, &index, &err);
    if (status == LIGHTQ_ENOTFOUND) {
        return;
    }
    lq_dump_begin(log->dump, &file, path);
    if (status != LIGHTQ_OK) {
        bool is_unread = status == LIGHTQ_EIO || status == LIGHTQ_ENOMEM || status == LIGHTQ_EVERSION;
        if (is_unread) {
            lq_dump_fail(log->dump, &file, status, &err);
        }
        lq_dump_find(&file, status == LIGHTQ_EIDENTITY ? LQ_DUMP_DAMAGED : LQ_DUMP_STALE, LQ_DUMP_NOWHERE,
                     "%s; it will be made again", err.text);
        lq_dump_end(log->dump, &file, "%s", "");
        return;
    }
    lq_dump_detail(log->dump,
                   "index of entries %" PRIu64 " to %" PRIu64 ", %" PRIu64 " bytes, last term %" PRIu64
                   ", next offset %" PRIu64,
                   index.first, index.last, index.segment_length, index.last_term, index.next_offset);
    for (size_t i = 0; i < index.run_count; i++) {
        lq_dump_detail(log->dump, "term %" PRIu64 " from entry %" PRIu64, index.runs[i].term, index.runs[i].first);
    }
    for (size_t i = 0; i < index.change_count; i++) {
        lq_dump_detail(log->dump, "change %" PRIu64 " at %" PRIu64, index.changes[i].index, index.changes[i].position);
    }
    for (size_t i = 0; i < index.point_count; i++) {
        lq_dump_detail(log->dump, "point %" PRIu64 " at %" PRIu64 " offset %" PRIu64 " time %" PRIu64,
                       index.points[i].index, index.points[i].position, index.points[i].base_offset,
                       index.points[i].timestamp_ms);
    }
    bool fits = index.segment_length == segment->position && index.segment_length == segment->scan.file_size &&
                index.last == segment->number + segment->entries - 1 && index.tail_crc == segment->tail_crc &&
                index.tail_position == segment->tail_position;
    if (!fits) {
        lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE,
                     "its segment does not end with entry %" PRIu64 " at byte %" PRIu64, index.last,
                     index.segment_length);
    }
    lq_dump_end(log->dump, &file, "entries %" PRIu64 " to %" PRIu64 ", %zu points", index.first, index.last,
                index.point_count);
    lq_index_deinit(&index);
}

/* An index is written only when its segment is durable: what it says must be there. */
static void take_index_watermark(struct log_reading *log, struct segment_reading *segment)
{
    struct lq_index index;
    struct lq_err err;
    lightq_status status = lq_index_read(log->dump->io, &log->owner, log->dir, segment->number,
                                         LQ_INDEX_HEADER_BYTES + segment->scan.file_size, &index, &err);
    if (status == LIGHTQ_EIO || status == LIGHTQ_ENOMEM) {
        lq_dump_fail(log->dump, &segment->file, status, &err);
    }
    if (status != LIGHTQ_OK) {
        return; /* it has a line of its own */
    }
    bool is_to_be_cut = log->known != NULL && log->known->cut != 0 && log->known->cut <= index.last;
    if (!is_to_be_cut && index.last > log->watermark) {
        log->watermark = index.last;
    }
    lq_index_deinit(&index);
}

static void read_open_segment(struct log_reading *log, struct segment_reading *segment)
{
    uint64_t first = segment->number;
    if (log->has_ended) {
        lq_dump_find(&segment->file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE,
                     "behind the end of the log, which is entry %" PRIu64, log->next - 1);
    } else {
        take_index_watermark(log, segment);
        read_segment_entries(log, segment);
    }
    uint64_t ahead = segment->scan.file_size > segment->position ? segment->scan.file_size - segment->position : 0;
    lq_dump_end(log->dump, &segment->file,
                "%" PRIu64 " entries, %" PRIu64 " to %" PRIu64 ", %" PRIu64 " bytes and %" PRIu64 " ahead",
                segment->entries, first, first + segment->entries - 1, segment->position, ahead);
    if (!log->has_ended || segment->entries > 0) {
        check_index(log, segment);
    }
}

static void read_segment(struct log_reading *log, size_t i)
{
    struct segment_reading segment = {.number = log->firsts[i]};
    if (i + 1 < log->first_count) {
        segment.next_first = log->firsts[i + 1];
    }
    char path[LQ_PATH_BYTES];
    lq_file file;
    struct lq_err err;
    lq_path_numbered(path, log->dir, segment.number, ".log");
    lq_dump_begin(log->dump, &segment.file, path);
    if (segment.number < log->begin) {
        lq_dump_find(&segment.file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "trimmed: the log begins at entry %" PRIu64,
                     log->begin);
        lq_dump_end(log->dump, &segment.file, "%s", "");
        return;
    }
    lightq_status status = lq_disk_open(log->dump->io, path, LQ_OPEN_READ, &file, &err);
    if (status == LIGHTQ_OK) {
        status = lq_scan_init(&segment.scan, log->dump->io, file, &err);
        if (status == LIGHTQ_OK) {
            read_open_segment(log, &segment);
        }
        lq_scan_deinit(&segment.scan);
        log->dump->io->ops->close(log->dump->io, file);
    }
    if (status != LIGHTQ_OK) {
        lq_dump_fail(log->dump, &segment.file, status, &err);
        lq_dump_end(log->dump, &segment.file, "%s", "");
        log->has_ended = true;
    }
}

/* ---- checkpoints ---- */

static void read_checkpoint(struct log_reading *log, uint64_t number)
{
    struct lq_dump_file file;
    struct lq_checkpoint checkpoint;
    uint64_t install = 0;
    uint8_t *bytes = NULL;
    struct lq_err err;
    char path[LQ_PATH_BYTES];
    lq_path_numbered(path, log->dir, number, ".ckpt");
    lq_dump_begin(log->dump, &file, path);
    lightq_status status =
        lq_checkpoint_read(log->dump->io, &log->owner, log->dir, number, &checkpoint, &install, &bytes, &err);
    if (status != LIGHTQ_OK) {
        if (status == LIGHTQ_EIO || status == LIGHTQ_ENOMEM || status == LIGHTQ_EVERSION) {
            lq_dump_fail(log->dump, &file, status, &err);
        }
        lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE, "%s%s", err.text,
                     number == log->begin ? "" : "; the node uses an older one");
        lq_dump_end(log->dump, &file, "%s", "");
        return;
    }
    lq_dump_detail(log->dump,
                   "state after entry %" PRIu64 " of term %" PRIu64 ", next offset %" PRIu64 ", time %" PRIu64,
                   checkpoint.last_index, checkpoint.last_term, checkpoint.next_offset, checkpoint.timestamp_ms);
    lq_dump_detail(log->dump, "configuration of entry %" PRIu64 ", %" PRIu32 " bytes; install %" PRIu64,
                   checkpoint.configuration_index, checkpoint.configuration_size, install);
    if (number < log->begin) {
        lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "trimmed: the log begins at entry %" PRIu64, log->begin);
    } else if (log->next != 0 && number > log->next) {
        lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE,
                     "of a state behind the end of the log, which is entry %" PRIu64, log->next - 1);
    }
    lq_dump_end(log->dump, &file, "state of %" PRIu64 " bytes after entry %" PRIu64, checkpoint.state_size,
                checkpoint.last_index);
    free(bytes);
}

/* ---- the directory ---- */

static void say(struct log_reading *log, const char *path, enum lq_dump_kind kind, const char *text)
{
    struct lq_dump_file file;
    lq_dump_begin(log->dump, &file, path);
    lq_dump_find(&file, kind, LQ_DUMP_NOWHERE, "%s", text);
    lq_dump_end(log->dump, &file, "%s", "");
}

/* Segments are read in order; what else is there is looked at by itself. False: out of memory. */
static bool sort_names(struct log_reading *log, const struct lq_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        uint64_t number;
        if (!names->at[i].is_dir && lq_name_numbered(names->at[i].name, ".log", &number)) {
            if (!lq_array_reserve((void **)&log->firsts, &log->first_capacity, log->first_count + 1,
                                  sizeof *log->firsts)) {
                return false;
            }
            log->firsts[log->first_count++] = number;
        }
    }
    return true;
}

static bool has_segment(const struct log_reading *log, uint64_t number)
{
    for (size_t i = 0; i < log->first_count; i++) {
        if (log->firsts[i] == number) {
            return true;
        }
    }
    return false;
}

/* What the node found when the journal that showed it was still there. */
static void read_damaged(struct log_reading *log, const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    char text[LQ_ERR_TEXT_BYTES];
    struct lq_err err;
    lightq_status status = lq_disk_read_file(log->dump->io, path, sizeof text - 1, &bytes, &size, &err);
    (void)snprintf(text, sizeof text, "the node found the log damaged: %.*s", (int)(status == LIGHTQ_OK ? size : 0),
                   status == LIGHTQ_OK ? (const char *)bytes : "");
    free(bytes);
    say(log, path, LQ_DUMP_DAMAGED, status == LIGHTQ_OK ? text : err.text);
}

static void read_others(struct log_reading *log, const struct lq_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct lq_name *name = &names->at[i];
        char path[LQ_PATH_BYTES];
        uint64_t number;
        lq_path_join(path, log->dir, name->name);
        if (!name->is_dir && lq_name_numbered(name->name, ".ckpt", &number)) {
            read_checkpoint(log, number);
        } else if (!name->is_dir && lq_name_numbered(name->name, ".idx", &number)) {
            if (!has_segment(log, number)) {
                say(log, path, LQ_DUMP_STALE, "an index without its segment");
            }
        } else if (!name->is_dir && strcmp(name->name, LQ_DAMAGED_NAME) == 0) {
            read_damaged(log, path);
        } else if (lq_name_ends(name->name, ".tmp")) {
            say(log, path, LQ_DUMP_STALE, "a write that was not finished");
        } else if (name->is_dir || !lq_name_numbered(name->name, ".log", &number)) {
            say(log, path, LQ_DUMP_STALE, "not of LightQ, not read");
        }
    }
}

/* What must be there and is in no segment at all. */
static void check_rest(struct log_reading *log)
{
    if (log->known == NULL || log->has_ended) {
        return;
    }
    const struct lq_dump_view *view;
    while (!is_cut(log) && (view = journal_entry(log)) != NULL) {
        take_entry(log, &view->entry);
    }
    if (log->next <= log->watermark && !is_cut(log)) {
        char text[LQ_ERR_TEXT_BYTES];
        (void)snprintf(text, sizeof text,
                       "no segment has entry %" PRIu64 "; the log must be whole up to entry %" PRIu64, log->next,
                       log->watermark);
        say(log, log->dir, LQ_DUMP_DAMAGED, text);
    }
}

/* Reads a checkpoint that says where the log begins; false when it cannot be had. It has a line of its own. */
static bool read_beginning(struct log_reading *log, uint64_t number, struct lq_checkpoint *checkpoint,
                           uint64_t *install)
{
    uint8_t *bytes = NULL;
    struct lq_err err;
    lightq_status status =
        lq_checkpoint_read(log->dump->io, &log->owner, log->dir, number, checkpoint, install, &bytes, &err);
    free(bytes);
    if (status == LIGHTQ_EIO || status == LIGHTQ_ENOMEM) {
        struct lq_dump_file file;
        lq_dump_begin(log->dump, &file, log->dir);
        lq_dump_fail(log->dump, &file, status, &err);
        lq_dump_end(log->dump, &file, "%s", "");
    }
    return status == LIGHTQ_OK;
}

/* An install that was begun counts when its checkpoint is there, and else never was. */
static void take_install(struct log_reading *log)
{
    struct lq_checkpoint checkpoint;
    uint64_t install = 0;
    if (log->known->install_number != 0 && read_beginning(log, log->known->install_index + 1, &checkpoint, &install) &&
        install == log->known->install_number) {
        log->begin = log->known->install_index + 1;
        log->watermark = log->known->install_index;
    }
}

static bool has_checkpoint(const struct lq_names *names, uint64_t wanted)
{
    for (size_t i = 0; i < names->count; i++) {
        uint64_t number;
        if (lq_name_numbered(names->at[i].name, ".ckpt", &number) && number == wanted) {
            return true;
        }
    }
    return false;
}

/* Only what is durable is applied, and only what is applied is in a checkpoint. */
static void take_checkpoint_watermarks(struct log_reading *log, const struct lq_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        uint64_t number;
        bool is_checkpoint = !names->at[i].is_dir && lq_name_numbered(names->at[i].name, ".ckpt", &number);
        if (!is_checkpoint || number <= log->begin || (log->known->cut != 0 && number > log->known->cut)) {
            continue;
        }
        log->watermark = number - 1 > log->watermark ? number - 1 : log->watermark;
    }
}

/* A flush begins only when the one before it is done: what lies below the first entry of a frame was durable. */
static void take_journal_watermark(struct log_reading *log)
{
    const struct lq_dump_group *known = log->known;
    bool is_replaced = log->begin != known->trim + 1; /* by an install: the journal's entries are of the old log */
    for (size_t i = 0; i < known->view_count && !is_replaced; i++) {
        uint64_t index = known->views[i].entry.index;
        if ((i == 0 || index != known->views[i - 1].entry.index + 1) && index - 1 > log->watermark) {
            log->watermark = index - 1;
        }
    }
}

/* Where the log begins, and how far it must be whole. */
static void begin_log(struct log_reading *log, const struct lq_names *names)
{
    struct lq_dump_group *known = lq_dump_group_find(log->dump, log->owner.group, false);
    log->offset = OFFSET_UNKNOWN;
    if (known == NULL || log->dump->has_bad_journal) {
        log->term = TERM_UNKNOWN;
        return;
    }
    known->has_directory = true;
    log->known = known;
    log->watermark = known->watermark;
    log->begin = known->trim + 1;
    take_install(log);
    take_journal_watermark(log);
    take_checkpoint_watermarks(log, names);
    log->next = log->begin;
    if (log->begin == 1) {
        return;
    }
    struct lq_checkpoint checkpoint;
    uint64_t install;
    log->term = TERM_UNKNOWN;
    if (read_beginning(log, log->begin, &checkpoint, &install)) {
        log->term = checkpoint.last_term;
        log->offset = checkpoint.next_offset;
    } else if (!has_checkpoint(names, log->begin)) {
        char path[LQ_PATH_BYTES];
        lq_path_numbered(path, log->dir, log->begin, ".ckpt");
        say(log, path, LQ_DUMP_DAMAGED, "missing: nothing says what came before the first entry");
    }
}

static bool is_left_over(struct log_reading *log)
{
    const struct lq_dump_group *known = lq_dump_group_find(log->dump, log->owner.group, false);
    if (!log->dump->has_journal || log->dump->has_bad_journal) {
        return false; /* then nothing is known of groups */
    }
    return known == NULL || !known->alive || known->incarnation != log->owner.incarnation;
}

void lq_dump_group_directory(struct lq_dump *dump, const char *dir, uint64_t group, uint32_t incarnation)
{
    struct log_reading log = {
        .dump = dump, .dir = dir, .owner = {.cluster = dump->cluster, .group = group, .incarnation = incarnation}};
    struct lq_names names;
    struct lq_err err;
    if (is_left_over(&log)) {
        say(&log, dir, LQ_DUMP_STALE, "of a group, or an incarnation of it, that the journal does not have (any more)");
        return;
    }
    lightq_status status = lq_disk_list(dump->io, dir, &names, &err);
    if (status != LIGHTQ_OK || !sort_names(&log, &names)) {
        struct lq_dump_file file;
        lq_dump_begin(dump, &file, dir);
        if (status == LIGHTQ_OK) {
            lq_names_deinit(&names);
            status = lq_err_set(&err, LIGHTQ_ENOMEM, "out of memory for the names of %s", dir);
        }
        lq_dump_fail(dump, &file, status, &err);
        lq_dump_end(dump, &file, "%s", "");
        free(log.firsts);
        return;
    }
    begin_log(&log, &names);
    for (size_t i = 0; i < log.first_count; i++) {
        read_segment(&log, i);
    }
    check_rest(&log);
    read_others(&log, &names);
    free(log.firsts);
    lq_names_deinit(&names);
}
