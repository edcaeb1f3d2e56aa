/* storage/dump_journal.c - reads the journals of a data directory, frame by frame, and learns from them what the
 * groups' logs must hold (storage/dump_private.h; the bytes are drawn in storage/journal.h). Called by storage/dump.c;
 * blocking, one thread. It judges by the rules of docs/format/journal.md with code of its own: a check that shared the
 * reader of the node would share its mistakes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "storage/array.h"
#include "storage/dump_private.h"
#include "storage/journal.h"
#include "storage/segment.h"

#define FRAME_ALIGN 8

/* One shard's files, in order. */
struct shard {
    unsigned number;
    uint64_t sequence; /* of the last sound frame; 0: none yet */
    uint64_t newest;   /* number of the last file that counts */
    bool is_closed;    /* it says that there is a newer one */
    uint64_t size;     /* its bytes */
    uint64_t length;   /* and how many it has had, by what it says */
};

struct frame {
    uint64_t position;
    uint64_t size;
    uint64_t sequence;
    uint32_t records_size;
    uint32_t kind;
    uint8_t *records; /* malloc'ed */
};

/* The file being read. */
struct reading {
    struct lq_dump *dump;
    struct shard *shard;
    struct lq_dump_file file;
    struct lq_scan scan;
    struct lq_journal_header header;
    uint64_t frames;
};

/* ---- records ---- */

static const char *record_name(enum lq_record_type type)
{
    switch (type) {
#define X(name, number, fields) \
    case number:                \
        return #name;
        LQ_RECORD_TABLE(X)
#undef X
    }
    return "?";
}

static void print_record(struct lq_dump *dump, const struct lq_record *record)
{
    static const char *const labels[][LQ_RECORD_FIELDS_MAX] = {
        [LQ_RECORD_GROUP] = {"term", "vote", "watermark", "trim", "cut", "install-index", "install-number", "need"},
        [LQ_RECORD_VOTE] = {"term", "vote"},
        [LQ_RECORD_WATERMARK] = {"index"},
        [LQ_RECORD_CUT_BEGIN] = {"from"},
        [LQ_RECORD_CUT_DONE] = {"from"},
        [LQ_RECORD_INSTALL_BEGIN] = {"index", "number"},
        [LQ_RECORD_INSTALL_DONE] = {"index", "number"},
        [LQ_RECORD_TRIM] = {"to"},
        [LQ_RECORD_ENTRIES] = {"first", "count", "bytes"},
        [LQ_RECORD_LENGTH] = {"bytes"},
    };
    char text[512];
    size_t at = 0;
    for (int i = 0; i < lq_record_fields(record->type) && at < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, " %s %" PRIu64, labels[record->type][i], record->fields[i]);
    }
    lq_dump_detail(dump, "  %s group %" PRIu64 "-%" PRIu32 "%s%s", record_name(record->type), record->group,
                   record->incarnation, at > 0 ? text : "", record->is_void ? " (void)" : "");
}

/* What is wrong with a frame whose head is sound. */
struct check {
    bool makes_no_sense;
    enum lq_found worst; /* of its entries */
    uint64_t worst_at;
    struct lq_err why;
    struct lq_dump_view *views; /* the sound entries of all its records; malloc'ed */
    size_t view_count;
    size_t view_capacity;
};

static void check_bad_entry(struct check *check, enum lq_found found, uint64_t position, const struct lq_err *why)
{
    bool is_worse = check->worst == LQ_FOUND_ENTRY || (check->worst == LQ_FOUND_ROTTEN && found != LQ_FOUND_ROTTEN);
    if (is_worse) { /* torn is what a verdict hangs on: it is looked for */
        check->worst = found;
        check->worst_at = position;
        check->why = *why;
    }
}

static bool check_note(struct check *check, const struct reading *reading, const struct lq_entry *entry, uint64_t size)
{
    if (!lq_array_reserve((void **)&check->views, &check->view_capacity, check->view_count + 1, sizeof *check->views)) {
        return false;
    }
    struct lq_dump_view *view = &check->views[check->view_count++];
    *view = (struct lq_dump_view){.entry = *entry, .size = size, .number = reading->header.number};
    view->crc = lq_get_u32(entry->payload - LQ_ENTRY_HEADER_BYTES);
    view->entry.payload = NULL;
    return true;
}

/* The entries that @record announces, from @position on. One that is not sound hides those behind it. False: out of
 * memory. */
static bool check_entries(struct reading *reading, const struct lq_record *record, uint64_t position,
                          struct check *check)
{
    uint64_t end = position + record->fields[2];
    for (uint64_t i = 0; i < record->fields[1]; i++) {
        enum lq_found found = LQ_FOUND_ROTTEN;
        struct lq_entry entry;
        uint64_t size = 0;
        struct lq_err why;
        struct lq_err err;
        lightq_status status = lq_scan_entry(&reading->scan, position, &found, &entry, &size, &why, &err);
        if (status != LIGHTQ_OK) {
            lq_dump_fail(reading->dump, &reading->file, status, &err);
            return true;
        }
        bool is_announced = found == LQ_FOUND_ENTRY && entry.group == record->group &&
                            entry.index == record->fields[0] + i && size <= end - position;
        if (!is_announced) {
            if (found == LQ_FOUND_ENTRY) {
                found = LQ_FOUND_ROTTEN;
                (void)lq_err_set(&why, LIGHTQ_ECORRUPT, "an entry that its record does not announce");
            }
            check_bad_entry(check, found, position, &why);
            return true;
        }
        lq_dump_entry(reading->dump, &entry, size, position);
        if (!check_note(check, reading, &entry, size)) {
            return false;
        }
        position += size;
    }
    return true;
}

/* All records of @frame and their entries. False: out of memory. */
static bool check_records(struct reading *reading, const struct frame *frame, struct check *check)
{
    struct lq_reader reader = lq_reader_of(frame->records, frame->records_size);
    struct lq_record record;
    uint64_t position = frame->position + LQ_FRAME_HEADER_BYTES + frame->records_size;
    uint64_t end = frame->position + frame->size;
    while (lq_record_read(&reader, &record)) {
        print_record(reading->dump, &record);
        if (record.type != LQ_RECORD_ENTRIES) {
            continue;
        }
        if (record.fields[0] == 0 || record.fields[2] > end - position ||
            record.fields[1] > record.fields[2] / LQ_ENTRY_HEADER_BYTES) {
            check->makes_no_sense = true;
            return true;
        }
        if (!record.is_void && !check_entries(reading, &record, position, check)) {
            return false;
        }
        position += record.fields[2];
    }
    check->makes_no_sense = reader.failed || position != end;
    return true;
}

/* How many of the views from @at on are of @record. */
static size_t count_views(const struct check *check, size_t at, const struct lq_record *record)
{
    size_t count = 0;
    while (at + count < check->view_count && count < record->fields[1] &&
           check->views[at + count].entry.group == record->group &&
           check->views[at + count].entry.index == record->fields[0] + count) {
        count++;
    }
    return count;
}

/* False: out of memory. */
static bool take_records(struct reading *reading, const struct frame *frame, const struct check *check)
{
    struct lq_reader reader = lq_reader_of(frame->records, frame->records_size);
    struct lq_record record;
    size_t at = 0;
    bool is_snapshot = frame->kind == LQ_JOURNAL_SNAPSHOT;
    if (is_snapshot) {
        lq_dump_snapshot_begin(reading->dump);
    }
    while (lq_record_read(&reader, &record)) {
        if (record.is_void) {
            continue;
        }
        size_t count = record.type == LQ_RECORD_ENTRIES ? count_views(check, at, &record) : 0;
        if (record.type == LQ_RECORD_LENGTH) {
            reading->shard->length = record.fields[0];
        } else if (!lq_dump_take(reading->dump, reading->shard->number, &record, count > 0 ? check->views + at : NULL,
                                 count)) {
            return false;
        }
        at += count;
    }
    if (is_snapshot) {
        lq_dump_snapshot_end(reading->dump, reading->shard->number);
    }
    return true;
}

/* ---- frames ---- */

enum frame_found { FRAME_SOUND, FRAME_END, FRAME_BAD };

/* The frame's header and records; entries are not looked at. Records are malloc'ed when it is sound. */
static enum frame_found frame_read(struct reading *reading, uint64_t position, struct frame *frame, struct lq_err *why)
{
    const uint8_t *bytes;
    size_t available;
    struct lq_err err;
    *frame = (struct frame){.position = position};
    lightq_status status = lq_scan_bytes(&reading->scan, position, LQ_FRAME_HEADER_BYTES, &bytes, &available, &err);
    if (status != LIGHTQ_OK) {
        lq_dump_fail(reading->dump, &reading->file, status, &err);
        return FRAME_END;
    }
    if (available < 8 || lq_get_u64(bytes) == 0) {
        return FRAME_END;
    }
    (void)lq_err_set(why, LIGHTQ_ECORRUPT, "not a frame");
    if (available < LQ_FRAME_HEADER_BYTES || lq_get_u32(bytes) != LQ_FRAME_MAGIC ||
        lq_get_u64(bytes + 24) != reading->header.salt) {
        return FRAME_BAD;
    }
    uint32_t crc = lq_get_u32(bytes + 4);
    frame->size = lq_get_u64(bytes + 8);
    frame->sequence = lq_get_u64(bytes + 16);
    frame->records_size = lq_get_u32(bytes + 32);
    frame->kind = lq_get_u32(bytes + 36);
    uint64_t head = LQ_FRAME_HEADER_BYTES + (uint64_t)frame->records_size;
    if (frame->size < head || frame->size % FRAME_ALIGN != 0 || frame->size > reading->scan.file_size - position) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "a frame of %" PRIu64 " bytes, its records of %" PRIu32, frame->size,
                         frame->records_size);
        return FRAME_BAD;
    }
    status = lq_scan_bytes(&reading->scan, position, (size_t)head, &bytes, &available, &err);
    if (status == LIGHTQ_OK && available == head && crc != lq_crc32c(0, bytes + 8, (size_t)head - 8)) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "the crc of the frame's records does not match");
        return FRAME_BAD;
    }
    frame->records = status == LIGHTQ_OK && available == head ? malloc(frame->records_size + 1) : NULL;
    if (frame->records == NULL) {
        status = status == LIGHTQ_OK ? lq_err_set(&err, LIGHTQ_ENOMEM, "out of memory for a frame") : status;
        lq_dump_fail(reading->dump, &reading->file, status, &err);
        return FRAME_END;
    }
    memcpy(frame->records, bytes + LQ_FRAME_HEADER_BYTES, frame->records_size);
    return FRAME_SOUND;
}

/* Whether a frame that was written later lies behind @position: then what is at @position was synced once. */
static bool has_sound_frame(struct reading *reading, uint64_t position)
{
    for (position += FRAME_ALIGN; position + LQ_FRAME_HEADER_BYTES <= reading->scan.file_size;
         position += FRAME_ALIGN) {
        const uint8_t *bytes;
        size_t available;
        struct lq_err err;
        lightq_status status = lq_scan_bytes(&reading->scan, position, FRAME_ALIGN, &bytes, &available, &err);
        if (status != LIGHTQ_OK || available < FRAME_ALIGN) {
            return false;
        }
        if (lq_get_u32(bytes) != LQ_FRAME_MAGIC) {
            continue;
        }
        struct frame frame;
        struct lq_err why;
        bool is_sound = frame_read(reading, position, &frame, &why) == FRAME_SOUND;
        free(frame.records);
        if (is_sound) {
            return true;
        }
    }
    return false;
}

/* Whether the bytes at @position can be a frame's head that was not written in full: sectors that it should fill are
 * zeros, or it goes beyond the end of the file, which also the entries behind a sound head can do. */
static bool is_torn_head(struct reading *reading, uint64_t position)
{
    const uint8_t *bytes;
    size_t available;
    struct lq_err err;
    if (lq_scan_bytes(&reading->scan, position, LQ_FRAME_HEADER_BYTES, &bytes, &available, &err) != LIGHTQ_OK ||
        available < FRAME_ALIGN || lq_get_u32(bytes) != LQ_FRAME_MAGIC) {
        return false;
    }
    if (available < LQ_FRAME_HEADER_BYTES || lq_scan_has_zero_piece(bytes, position, LQ_FRAME_HEADER_BYTES)) {
        return true;
    }
    uint64_t size = lq_get_u64(bytes + 8);
    uint64_t head = LQ_FRAME_HEADER_BYTES + (uint64_t)lq_get_u32(bytes + 32);
    if (lq_get_u64(bytes + 24) != reading->header.salt || size < head || size % FRAME_ALIGN != 0) {
        return false; /* all there, and contradicts itself */
    }
    if (head > reading->scan.file_size - position) {
        return true;
    }
    if (lq_scan_bytes(&reading->scan, position, (size_t)head, &bytes, &available, &err) != LIGHTQ_OK ||
        available < head) {
        return false;
    }
    bool is_written = lq_get_u32(bytes + 4) == lq_crc32c(0, bytes + 8, (size_t)head - 8);
    return lq_scan_has_zero_piece(bytes, position, head) || (is_written && size > reading->scan.file_size - position);
}

static void find_torn(struct reading *reading, uint64_t position, const struct lq_err *why)
{
    lq_dump_find(&reading->file, LQ_DUMP_TORN, position, "%s; the last flush was interrupted", why->text);
}

static void find_damaged(struct reading *reading, uint64_t position, const struct lq_err *why)
{
    lq_dump_find(&reading->file, LQ_DUMP_DAMAGED, position, "%s; it had been synced", why->text);
    reading->dump->has_bad_journal = true;
}

/* What the file ends with, at @position. */
static void judge_end(struct reading *reading, uint64_t position, enum frame_found found, const struct lq_err *why)
{
    if (has_sound_frame(reading, position) || (found == FRAME_BAD && !is_torn_head(reading, position))) {
        find_damaged(reading, position, why);
    } else if (found == FRAME_BAD || reading->frames == 0) {
        find_torn(reading, position, why);
    }
}

/* Whether its place in the sequence is right. The first file there may begin anywhere. */
static bool is_in_sequence(const struct reading *reading, const struct frame *frame, struct lq_err *why)
{
    bool is_first = reading->frames == 0;
    if (is_first != (frame->kind == LQ_JOURNAL_SNAPSHOT)) {
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "a frame of kind %" PRIu32 " where the %s is", frame->kind,
                         is_first ? "snapshot" : "next change");
        return false;
    }
    if (!is_first && frame->sequence != reading->shard->sequence + 1) { /* files in between may be gone */
        (void)lq_err_set(why, LIGHTQ_ECORRUPT, "frame %" PRIu64 " follows frame %" PRIu64, frame->sequence,
                         reading->shard->sequence);
        return false;
    }
    return true;
}

/* Looks at the entries of a frame with a sound head, and takes what it says. False: it is the end. */
static bool read_frame(struct reading *reading, const struct frame *frame)
{
    struct check check = {.worst = LQ_FOUND_ENTRY};
    struct lq_err err;
    lq_dump_detail(reading->dump, "frame %" PRIu64 " at %" PRIu64 ": %s, %" PRIu64 " bytes", frame->sequence,
                   frame->position, frame->kind == LQ_JOURNAL_SNAPSHOT ? "snapshot" : "changes", frame->size);
    bool goes_on = true;
    bool has_memory = check_records(reading, frame, &check);
    if (check.makes_no_sense) {
        (void)lq_err_set(&check.why, LIGHTQ_ECORRUPT, "a frame with a good crc makes no sense");
        find_damaged(reading, frame->position, &check.why);
        goes_on = false;
    } else if (check.worst == LQ_FOUND_TORN || check.worst == LQ_FOUND_END) {
        goes_on = has_sound_frame(reading, frame->position);
        if (!goes_on) {
            find_torn(reading, check.worst_at, &check.why);
        }
    }
    if (goes_on && check.worst != LQ_FOUND_ENTRY) { /* the records stand; these entries may be in their segments */
        lq_dump_find(&reading->file, LQ_DUMP_DAMAGED, check.worst_at, "%s; it had been synced", check.why.text);
    }
    if (goes_on && has_memory) {
        has_memory = take_records(reading, frame, &check);
    }
    if (!has_memory) {
        lightq_status status = lq_err_set(&err, LIGHTQ_ENOMEM, "out of memory for what the journal says");
        lq_dump_fail(reading->dump, &reading->file, status, &err);
    }
    free(check.views);
    return goes_on && has_memory;
}

/* True: the file was begun, given up, and is older than what came after. */
static bool is_out_of_date(struct reading *reading, const struct frame *frame)
{
    if (reading->frames > 0 || frame->sequence > reading->shard->sequence) {
        return false;
    }
    lq_dump_find(&reading->file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "given up: the file before it went on");
    return true;
}

/* Its first frame counts: this file is the newest so far. */
static void shard_begin_file(struct reading *reading)
{
    if (reading->frames == 0) {
        reading->shard->size = reading->scan.file_size;
        reading->shard->length = 0;
    }
}

static uint64_t read_frames(struct reading *reading)
{
    uint64_t position = LQ_JOURNAL_HEADER_BYTES;
    for (bool goes_on = true; goes_on;) {
        struct frame frame;
        struct lq_err why;
        (void)lq_err_set(&why, LIGHTQ_ECORRUPT, "no frame is here");
        enum frame_found found = frame_read(reading, position, &frame, &why);
        if (found != FRAME_SOUND) {
            judge_end(reading, position, found, &why);
            goes_on = false;
        } else if (is_out_of_date(reading, &frame)) {
            goes_on = false;
        } else if (!is_in_sequence(reading, &frame, &why)) {
            find_damaged(reading, position, &why);
            goes_on = false;
        } else if (frame.kind == LQ_JOURNAL_CLOSED) {
            lq_dump_detail(reading->dump, "frame %" PRIu64 " at %" PRIu64 ": closed, the next file goes on",
                           frame.sequence, position);
            position += frame.size; /* the next file goes on with its sequence */
            reading->shard->is_closed = true;
            goes_on = false;
        } else {
            shard_begin_file(reading);
            goes_on = read_frame(reading, &frame);
            reading->shard->sequence = goes_on ? frame.sequence : reading->shard->sequence;
            reading->shard->newest = goes_on ? reading->header.number : reading->shard->newest;
            reading->shard->is_closed = reading->shard->is_closed && !goes_on;
            reading->frames += goes_on;
            position += goes_on ? frame.size : 0;
        }
        free(frame.records);
    }
    return position;
}

/* ---- files ---- */

/* A bad header: the file may have been begun and not finished. The header lies in one sector, so that it is there in
 * full or not at all. */
static void judge_header(struct reading *reading, bool is_blank, const struct lq_err *why)
{
    if (why->status == LIGHTQ_EVERSION) {
        lq_dump_fail(reading->dump, &reading->file, why->status, why);
    } else if (is_blank) {
        lq_dump_find(&reading->file, LQ_DUMP_TORN, 0, "a new file that was not finished");
        return;
    }
    lq_dump_find(&reading->file, LQ_DUMP_DAMAGED, 0, "%s", why->text);
    reading->dump->has_bad_journal = true;
}

/* False: the header is not good, and the file has its finding. */
static bool read_header(struct reading *reading, uint64_t number)
{
    const uint8_t *bytes;
    size_t available;
    struct lq_err err;
    lightq_status status = lq_scan_bytes(&reading->scan, 0, LQ_JOURNAL_HEADER_BYTES, &bytes, &available, &err);
    if (status != LIGHTQ_OK) {
        lq_dump_fail(reading->dump, &reading->file, status, &err);
        return false;
    }
    if (available < LQ_JOURNAL_HEADER_BYTES) {
        (void)lq_err_set(&err, LIGHTQ_ECORRUPT, "%zu bytes, less than a header", available);
        judge_header(reading, true, &err);
        return false;
    }
    bool is_blank = lq_scan_has_zero_piece(bytes, 0, LQ_JOURNAL_HEADER_BYTES);
    status = lq_journal_header_decode(bytes, reading->file.path, &reading->header, &err);
    if (status != LIGHTQ_OK) {
        judge_header(reading, is_blank, &err);
        return false;
    }
    if (reading->header.number != number || reading->header.shard != reading->shard->number) {
        lq_dump_find(&reading->file, LQ_DUMP_DAMAGED, 32, "its header is of file %" PRIu64 " of shard %u",
                     reading->header.number, reading->header.shard);
        reading->dump->has_bad_journal = true;
        return false;
    }
    if (reading->header.shards != 0 && reading->dump->shards != 0 && reading->header.shards != reading->dump->shards) {
        lq_dump_find(&reading->file, LQ_DUMP_DAMAGED, 52, "written for %u shards, the node's identity says %u",
                     reading->header.shards, reading->dump->shards);
        reading->dump->has_bad_journal = true;
        return false;
    }
    return lq_dump_check_cluster(reading->dump, &reading->file, &reading->header.cluster);
}

static void read_open_file(struct reading *reading, uint64_t number)
{
    if (!read_header(reading, number)) {
        lq_dump_end(reading->dump, &reading->file, "%s", "");
        return;
    }
    char cluster[LQ_ID_TEXT_BYTES];
    lq_id_format(&reading->header.cluster, cluster);
    lq_dump_detail(reading->dump, "journal %" PRIu64 " of shard %u, cluster %s, salt %016" PRIx64,
                   reading->header.number, reading->header.shard, cluster, reading->header.salt);
    uint64_t end = read_frames(reading);
    lq_dump_end(reading->dump, &reading->file, "%" PRIu64 " frames in %" PRIu64 " of %" PRIu64 " bytes",
                reading->frames, end, reading->scan.file_size);
}

static void path_of(const struct lq_dump *dump, const char *name, char path[LQ_PATH_BYTES])
{
    char journal[LQ_PATH_BYTES];
    lq_path_join(journal, dump->dir, "journal");
    lq_path_join(path, journal, name);
}

static void read_file(struct lq_dump *dump, struct shard *shard, const char *name, uint64_t number)
{
    struct reading reading = {.dump = dump, .shard = shard};
    char path[LQ_PATH_BYTES];
    lq_file file;
    struct lq_err err;
    path_of(dump, name, path);
    lq_dump_begin(dump, &reading.file, path);
    lightq_status status = lq_disk_open(dump->io, path, LQ_OPEN_READ, &file, &err);
    if (status == LIGHTQ_OK) {
        status = lq_scan_init(&reading.scan, dump->io, file, &err);
        if (status == LIGHTQ_OK) {
            read_open_file(&reading, number);
        }
        lq_scan_deinit(&reading.scan);
        dump->io->ops->close(dump->io, file);
    }
    if (status != LIGHTQ_OK) {
        lq_dump_fail(dump, &reading.file, status, &err);
        lq_dump_end(dump, &reading.file, "%s", "");
        dump->has_bad_journal = true;
    }
}

/* The shard and number in a journal's name. */
static bool name_parse(const struct lq_name *name, unsigned *shard, uint64_t *number)
{
    if (name->is_dir || name->name[0] != 's' || name->name[1] < '0' || name->name[1] > '9') {
        return false;
    }
    unsigned long value = strtoul(name->name + 1, NULL, 10);
    *shard = (unsigned)value;
    return *shard == value && lq_name_journal(name->name, *shard, number);
}

static void read_other(struct lq_dump *dump, const struct lq_name *name)
{
    struct lq_dump_file file;
    char path[LQ_PATH_BYTES];
    path_of(dump, name->name, path);
    lq_dump_begin(dump, &file, path);
    lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "%s",
                 lq_name_ends(name->name, ".tmp") ? "a write that was not finished" : "not of LightQ, not read");
    lq_dump_end(dump, &file, "%s", "");
}

/* What should follow the newest file's last frame, and does not. */
static void find_lost(struct lq_dump *dump, const struct shard *shard)
{
    struct lq_dump_file file;
    char path[LQ_PATH_BYTES];
    lq_path_join(path, dump->dir, "journal");
    lq_dump_begin(dump, &file, path);
    if (shard->is_closed) {
        lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE,
                     "file %" PRIu64 " of shard %u was followed by another one, which is missing", shard->newest,
                     shard->number);
    } else {
        lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE,
                     "file %" PRIu64 " of shard %u has lost its end: it is %" PRIu64 " bytes long, and was %" PRIu64,
                     shard->newest, shard->number, shard->size, shard->length);
    }
    lq_dump_end(dump, &file, "%s", "");
    dump->has_bad_journal = true;
}

static void end_shard(struct lq_dump *dump, const struct shard *shard)
{
    if (shard->is_closed || shard->size < shard->length) {
        find_lost(dump, shard);
    }
    dump->has_journal = dump->has_journal || shard->newest != 0;
    for (size_t i = 0; i < dump->group_count; i++) {
        if (dump->groups[i].shard == shard->number) {
            dump->groups[i].newest = shard->newest;
        }
    }
}

void lq_dump_journals(struct lq_dump *dump, const struct lq_names *names)
{
    struct shard shard = {.number = 0};
    for (size_t i = 0; i < names->count; i++) {
        unsigned number_of_shard;
        uint64_t number;
        if (!name_parse(&names->at[i], &number_of_shard, &number)) {
            read_other(dump, &names->at[i]);
            continue;
        }
        if (number_of_shard != shard.number) {
            end_shard(dump, &shard);
            shard = (struct shard){.number = number_of_shard};
        }
        read_file(dump, &shard, names->at[i].name, number);
    }
    end_shard(dump, &shard);
}
