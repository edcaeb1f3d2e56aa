/* storage/replay.c - reads the journal files in order and applies their frames (storage/replay.h; the format is drawn
 * in storage/journal.h). Called by storage/store.c on the loop thread; changes nothing on disk. */
#include "storage/replay.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/base/log.h"
#include "storage/array.h"

#define FRAME_ALIGN  8
#define SEARCH_BYTES 4096 /* looked through at a time for a frame */

/* ---- groups and their views ---- */

struct lq_replay_group *lq_replay_find(const struct lq_replay *replay, uint64_t group)
{
    struct lq_replay_group *found = NULL;
    HASH_FIND(hh, replay->groups, &group, sizeof group, found);
    return found;
}

static struct lq_replay_group *group_add(struct lq_replay *replay, uint64_t group, uint32_t incarnation)
{
    struct lq_replay_group *added = calloc(1, sizeof *added);
    if (added == NULL) {
        return NULL;
    }
    added->journal.group = group;
    added->journal.incarnation = incarnation;
    HASH_ADD(hh, replay->groups, journal.group, sizeof added->journal.group, added);
    if (added->hh.tbl == NULL) {
        free(added);
        return NULL;
    }
    return added;
}

static void group_remove(struct lq_replay *replay, struct lq_replay_group *group)
{
    HASH_DELETE(hh, replay->groups, group);
    free(group->view);
    free(group);
}

static bool known_note(struct lq_replay *replay, uint64_t group, uint32_t incarnation)
{
    struct lq_replay_known *known = NULL;
    HASH_FIND(hh, replay->known, &group, sizeof group, known);
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        if (known == NULL) {
            return false;
        }
        known->group = group;
        HASH_ADD(hh, replay->known, group, sizeof known->group, known);
        if (known->hh.tbl == NULL) {
            free(known);
            return false;
        }
    }
    known->incarnation = incarnation > known->incarnation ? incarnation : known->incarnation;
    return true;
}

const struct lq_view_entry *lq_view_find(const struct lq_replay_group *group, uint64_t index)
{
    size_t low = 0;
    size_t high = group->view_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (group->view[middle].index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < group->view_count && group->view[low].index == index ? &group->view[low] : NULL;
}

void lq_view_cut(struct lq_replay_group *group, uint64_t index)
{
    while (group->view_count > 0 && group->view[group->view_count - 1].index >= index) {
        group->view_count--;
    }
}

/* What lies in files below @need is in the synced segments. */
static void view_drop_files(const struct lq_replay *replay, struct lq_replay_group *group, uint64_t need)
{
    size_t kept = 0;
    for (size_t i = 0; i < group->view_count; i++) {
        if (replay->files[group->view[i].file].number >= need) {
            group->view[kept++] = group->view[i];
        }
    }
    group->view_count = kept;
}

lightq_status lq_view_read(struct lq_replay *replay, const struct lq_view_entry *view, struct lq_entry *entry,
                           const uint8_t **bytes, struct lq_err *err)
{
    size_t available = 0;
    uint64_t size = 0;
    lightq_status status =
        lq_scan_bytes(&replay->files[view->file].scan, view->position, view->size, bytes, &available, err);
    if (status == LIGHTQ_OK) {
        status = lq_entry_decode(*bytes, available, true, entry, &size, err);
    }
    return status;
}

/* ---- judging a frame ---- */

struct frame {
    uint64_t position;
    uint64_t size;
    uint64_t sequence;
    uint32_t records_size;
    enum lq_frame_kind kind;
};

/* Whether a whole, sound frame head (header and records) is at @position. */
static lightq_status frame_head(struct lq_replay_file *file, uint64_t position, uint64_t salt, bool any_salt,
                                struct frame *frame, bool *sound, struct lq_err *err)
{
    const uint8_t *at;
    size_t available = 0;
    *sound = false;
    lightq_status status = lq_scan_bytes(&file->scan, position, LQ_FRAME_HEADER_BYTES, &at, &available, err);
    if (status != LIGHTQ_OK || available < LQ_FRAME_HEADER_BYTES || lq_get_u32(at) != LQ_FRAME_MAGIC) {
        return status;
    }
    *frame = (struct frame){.position = position,
                            .size = lq_get_u64(at + 8),
                            .sequence = lq_get_u64(at + 16),
                            .records_size = lq_get_u32(at + 32),
                            .kind = (enum lq_frame_kind)lq_get_u32(at + 36)};
    uint64_t head = LQ_FRAME_HEADER_BYTES + (uint64_t)frame->records_size;
    if ((!any_salt && lq_get_u64(at + 24) != salt) || frame->size < head || frame->size % FRAME_ALIGN != 0 ||
        frame->size > file->size - position || head > file->size - position) {
        return LIGHTQ_OK;
    }
    status = lq_scan_bytes(&file->scan, position, (size_t)head, &at, &available, err);
    if (status == LIGHTQ_OK && available == head) {
        *sound = lq_get_u32(at + 4) == lq_crc32c(0, at + 8, (size_t)head - 8);
    }
    return status;
}

/* Whether a sound frame lies anywhere behind @position: then what is at @position was synced once. */
static lightq_status frame_follows(struct lq_replay_file *file, uint64_t position, uint64_t salt, bool any_salt,
                                   bool *follows, struct lq_err *err)
{
    uint64_t at = position + FRAME_ALIGN;
    *follows = false;
    while (at + LQ_FRAME_HEADER_BYTES <= file->size) {
        const uint8_t *bytes;
        size_t available = 0;
        size_t here = 0;
        struct frame frame;
        lightq_status status = lq_scan_bytes(&file->scan, at, SEARCH_BYTES, &bytes, &available, err);
        if (status != LIGHTQ_OK || available < LQ_FRAME_HEADER_BYTES) {
            return status;
        }
        while (here + LQ_FRAME_HEADER_BYTES <= available && lq_get_u32(bytes + here) != LQ_FRAME_MAGIC) {
            here += FRAME_ALIGN;
        }
        at += here;
        if (here + LQ_FRAME_HEADER_BYTES > available) {
            continue;
        }
        status = frame_head(file, at, salt, any_salt, &frame, follows, err);
        if (status != LIGHTQ_OK || *follows) {
            return status;
        }
        at += FRAME_ALIGN;
    }
    return LIGHTQ_OK;
}

/* A frame head that is not sound: nothing (the end), torn, or rotten (see storage/segment.h for the idea). */
static lightq_status judge_head(struct lq_replay_file *file, uint64_t position, uint64_t salt, bool any_salt,
                                enum lq_found *found, struct lq_err *err)
{
    const uint8_t *at;
    size_t available = 0;
    bool follows = false;
    lightq_status status = frame_follows(file, position, salt, any_salt, &follows, err);
    if (status == LIGHTQ_OK && follows) {
        *found = LQ_FOUND_ROTTEN;
        return LIGHTQ_OK;
    }
    if (status == LIGHTQ_OK) {
        status = lq_scan_bytes(&file->scan, position, LQ_FRAME_HEADER_BYTES, &at, &available, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    *found = LQ_FOUND_END;
    if (available < FRAME_ALIGN || lq_get_u64(at) == 0) {
        return LIGHTQ_OK; /* magic and crc are in one sector */
    }
    if (lq_get_u32(at) != LQ_FRAME_MAGIC) {
        bool begun = lq_scan_is_zero(at + FRAME_ALIGN, available - FRAME_ALIGN); /* the write failed half-way */
        *found = begun ? LQ_FOUND_TORN : LQ_FOUND_ROTTEN;
        return LIGHTQ_OK;
    }
    *found = LQ_FOUND_TORN;
    if (available < LQ_FRAME_HEADER_BYTES || lq_scan_has_zero_piece(at, position, LQ_FRAME_HEADER_BYTES)) {
        return LIGHTQ_OK;
    }
    uint64_t size = lq_get_u64(at + 8);
    if (lq_scan_is_zero(at + 16, LQ_FRAME_HEADER_BYTES - 16)) {
        return LIGHTQ_OK; /* half a header */
    }
    uint64_t head = LQ_FRAME_HEADER_BYTES + (uint64_t)lq_get_u32(at + 32);
    if (size < head || size % FRAME_ALIGN != 0) {
        *found = LQ_FOUND_ROTTEN; /* the header is all there, and contradicts itself */
        return LIGHTQ_OK;
    }
    if (head > file->size - position) {
        return LIGHTQ_OK; /* beyond the end of the file */
    }
    status = lq_scan_bytes(&file->scan, position, (size_t)head, &at, &available, err);
    if (status == LIGHTQ_OK && available == head && at[head - 1] != 0 && !lq_scan_has_zero_piece(at, position, head)) {
        /* As it was written, and its entries go beyond the end of the file: that was not made longer. */
        bool cut = size > file->size - position && lq_get_u32(at + 4) == lq_crc32c(0, at + 8, (size_t)head - 8);
        *found = cut ? LQ_FOUND_TORN : LQ_FOUND_ROTTEN;
    }
    return status;
}

/* ---- applying records ---- */

struct apply {
    struct lq_replay *replay;
    struct lq_replay_file *file;
    uint32_t file_index;
    struct lq_reader records;
    uint64_t entries_at;  /* position of the next record's entries */
    uint64_t entries_end; /* of the frame */
    bool dry;             /* only look at the entries */
    enum lq_found worst;  /* of the entries */
};

static bool view_push(struct lq_replay_group *group, const struct lq_view_entry *entry)
{
    if (!lq_array_reserve((void **)&group->view, &group->view_capacity, group->view_count + 1, sizeof *group->view)) {
        return false;
    }
    group->view[group->view_count++] = *entry;
    return true;
}

/* The entries of one record. One that is bad hides where the rest of its record is: they are all bad then. */
static lightq_status apply_entries(struct apply *apply, struct lq_replay_group *group, const struct lq_record *record,
                                   struct lq_err *err)
{
    uint64_t first = record->fields[0];
    uint64_t count = record->fields[1];
    uint64_t bytes = record->fields[2];
    uint64_t at = apply->entries_at;
    if (bytes > apply->entries_end - at || count > bytes / LQ_ENTRY_HEADER_BYTES) {
        return lq_err_set(err, LIGHTQ_EDAMAGED, "journal: a frame announces more entries than it has");
    }
    apply->entries_at += bytes;
    if (record->is_void) {
        return LIGHTQ_OK;
    }
    if (group != NULL && !apply->dry) {
        lq_view_cut(group, first);
    }
    bool bad = false;
    for (uint64_t i = 0; i < count; i++) {
        enum lq_found found = LQ_FOUND_ROTTEN;
        struct lq_entry entry;
        struct lq_err text;
        uint64_t size = 0;
        lightq_status status = LIGHTQ_OK;
        if (!bad) {
            status = lq_scan_entry(&apply->file->scan, at, &found, &entry, &size, &text, err);
            bad = status == LIGHTQ_OK && (found != LQ_FOUND_ENTRY || entry.group != record->group ||
                                          entry.index != first + i || at + size > apply->entries_at);
            apply->worst = bad && (found != LQ_FOUND_ROTTEN || apply->worst == LQ_FOUND_ENTRY) ? found : apply->worst;
        }
        if (status != LIGHTQ_OK) {
            return status;
        }
        const struct lq_view_entry view = {.index = first + i,
                                           .position = at,
                                           .size = bad ? 0 : (uint32_t)size,
                                           .crc = bad ? 0 : lq_get_u32(entry.payload - LQ_ENTRY_HEADER_BYTES),
                                           .file = apply->file_index,
                                           .bad = bad};
        if (group != NULL && !apply->dry && !view_push(group, &view)) {
            return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for its entries");
        }
        at += size;
    }
    return LIGHTQ_OK;
}

static lightq_status apply_group(struct apply *apply, const struct lq_record *record, struct lq_err *err)
{
    struct lq_replay_group *group = lq_replay_find(apply->replay, record->group);
    if (group == NULL) {
        group = group_add(apply->replay, record->group, record->incarnation);
    }
    if (group == NULL || !known_note(apply->replay, record->group, record->incarnation)) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for its groups");
    }
    if (group->journal.incarnation != record->incarnation) {
        group->view_count = 0;
    }
    group->seen = true;
    group->journal = (struct lq_journal_group){
        .group = record->group,
        .incarnation = record->incarnation,
        .term = record->fields[0],
        .voted_for = record->fields[1],
        .watermark = record->fields[2],
        .trim = record->fields[3],
        .cut = record->fields[4],
        .install_index = record->fields[5],
        .install_number = record->fields[6],
        .need = record->fields[7],
    };
    view_drop_files(apply->replay, group, group->journal.need);
    return LIGHTQ_OK;
}

static lightq_status apply_created(struct apply *apply, const struct lq_record *record, struct lq_err *err)
{
    struct lq_replay_group *group = lq_replay_find(apply->replay, record->group);
    if (group != NULL) {
        group_remove(apply->replay, group);
    }
    group = group_add(apply->replay, record->group, record->incarnation);
    if (group == NULL || !known_note(apply->replay, record->group, record->incarnation)) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for its groups");
    }
    group->journal.need = apply->file->number;
    return LIGHTQ_OK;
}

/* The records that change what is promised for a group. */
static void apply_change(struct lq_replay_group *group, const struct lq_record *record)
{
    struct lq_journal_group *journal = &group->journal;
    switch (record->type) {
    case LQ_RECORD_VOTE:
        journal->term = record->fields[0];
        journal->voted_for = record->fields[1];
        break;
    case LQ_RECORD_WATERMARK:
        journal->watermark = record->fields[0];
        break;
    case LQ_RECORD_CUT_BEGIN:
        journal->cut = record->fields[0];
        if (journal->watermark >= journal->cut) {
            journal->watermark = journal->cut - 1;
        }
        lq_view_cut(group, journal->cut);
        break;
    case LQ_RECORD_CUT_DONE:
        journal->cut = 0;
        break;
    case LQ_RECORD_INSTALL_BEGIN:
        journal->install_index = record->fields[0];
        journal->install_number = record->fields[1];
        break;
    case LQ_RECORD_INSTALL_DONE:
        journal->install_index = 0;
        journal->install_number = 0;
        journal->cut = 0;
        journal->trim = record->fields[0];
        journal->watermark = record->fields[0];
        group->view_count = 0;
        break;
    case LQ_RECORD_TRIM:
        journal->trim = record->fields[0];
        break;
    default:
        break;
    }
}

static lightq_status apply_record(struct apply *apply, const struct lq_record *record, struct lq_err *err)
{
    struct lq_replay_group *group = lq_replay_find(apply->replay, record->group);
    if (group != NULL && group->journal.incarnation != record->incarnation) {
        group = NULL;
    }
    if (record->type == LQ_RECORD_ENTRIES) {
        return apply_entries(apply, group, record, err);
    }
    if (record->is_void || apply->dry) {
        return LIGHTQ_OK;
    }
    switch (record->type) {
    case LQ_RECORD_LENGTH:
        apply->file->length = record->fields[0];
        return LIGHTQ_OK;
    case LQ_RECORD_GROUP:
        return apply_group(apply, record, err);
    case LQ_RECORD_CREATED:
        return apply_created(apply, record, err);
    case LQ_RECORD_KNOWN:
        if (!known_note(apply->replay, record->group, record->incarnation)) {
            return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for its groups");
        }
        return LIGHTQ_OK;
    case LQ_RECORD_DESTROYED:
        if (group != NULL) {
            group_remove(apply->replay, group);
        }
        if (!known_note(apply->replay, record->group, record->incarnation)) {
            return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for its groups");
        }
        return LIGHTQ_OK;
    default:
        if (group != NULL) {
            apply_change(group, record);
        }
        return LIGHTQ_OK;
    }
}

/* A snapshot replaces what was known of the groups; their entries in the files stay. */
static void snapshot_begin(struct lq_replay *replay)
{
    for (struct lq_replay_group *group = replay->groups; group != NULL; group = group->hh.next) {
        group->seen = false;
    }
}

static void snapshot_end(struct lq_replay *replay)
{
    struct lq_replay_group *next;
    for (struct lq_replay_group *group = replay->groups; group != NULL; group = next) {
        next = group->hh.next;
        if (!group->seen) {
            group_remove(replay, group);
        }
    }
}

/* One pass over a frame's records. They are copied first: the entries are read through the same window. */
static lightq_status frame_pass(struct apply *apply, const struct frame *frame, const uint8_t *records,
                                struct lq_err *err)
{
    apply->records = lq_reader_of(records, frame->records_size);
    apply->entries_at = frame->position + LQ_FRAME_HEADER_BYTES + frame->records_size;
    apply->entries_end = frame->position + frame->size;
    apply->worst = LQ_FOUND_ENTRY;
    lightq_status status = LIGHTQ_OK;
    struct lq_record record;
    while (status == LIGHTQ_OK && lq_record_read(&apply->records, &record)) {
        status = apply_record(apply, &record, err);
    }
    if (status == LIGHTQ_OK && (apply->records.failed || apply->entries_at != apply->entries_end)) {
        status = lq_err_set(err, LIGHTQ_EDAMAGED, "journal %" PRIu64 ": a sound frame at %" PRIu64 " makes no sense",
                            apply->file->number, frame->position);
    }
    return status;
}

/* Applies a frame with a sound head. *torn: its entries are not all there, and nothing comes behind it: it never was.
 */
static lightq_status frame_apply(struct lq_replay *replay, struct lq_replay_file *file, const struct frame *frame,
                                 uint64_t salt, bool *torn, struct lq_err *err)
{
    const uint8_t *at;
    size_t available = 0;
    size_t head = LQ_FRAME_HEADER_BYTES + (size_t)frame->records_size;
    *torn = false;
    lightq_status status = lq_scan_bytes(&file->scan, frame->position, head, &at, &available, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint8_t *records = malloc(frame->records_size > 0 ? frame->records_size : 1);
    if (records == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for a frame");
    }
    memcpy(records, at + LQ_FRAME_HEADER_BYTES, frame->records_size);
    struct apply apply = {.replay = replay, .file = file, .file_index = (uint32_t)(file - replay->files), .dry = true};
    bool follows = false;
    status = frame_pass(&apply, frame, records, err);
    if (status == LIGHTQ_OK && (apply.worst == LQ_FOUND_TORN || apply.worst == LQ_FOUND_END)) {
        status = frame_follows(file, frame->position, salt, false, &follows, err);
        *torn = !follows;
    }
    if (status == LIGHTQ_OK && !*torn) {
        apply.dry = false;
        if (frame->kind == LQ_JOURNAL_SNAPSHOT) {
            snapshot_begin(replay);
        }
        status = frame_pass(&apply, frame, records, err);
        if (status == LIGHTQ_OK && frame->kind == LQ_JOURNAL_SNAPSHOT) {
            snapshot_end(replay);
        }
    }
    free(records);
    return status;
}

/* ---- files ---- */

static lightq_status damaged(const struct lq_replay_file *file, uint64_t position, struct lq_err *err)
{
    return lq_err_set(err, LIGHTQ_EDAMAGED,
                      "journal file %" PRIu64 " is damaged at byte %" PRIu64
                      ": every group of the shard may have forgotten a vote",
                      file->number, position);
}

/* The file's head. *usable false: it was never completed (its begin is not there, or torn) and does not count. */
static lightq_status file_head(struct lq_replay *replay, struct lq_replay_file *file, struct lq_journal_header *header,
                               struct frame *first, bool *usable, struct lq_err *err)
{
    const struct lq_store_options *options = &replay->store->options;
    const uint8_t *at;
    size_t available = 0;
    char path[LQ_PATH_BYTES];
    *usable = false;
    lq_path_journal(path, replay->store->dir, options->shard, file->number);
    lightq_status status = lq_scan_bytes(&file->scan, 0, LQ_JOURNAL_HEADER_BYTES, &at, &available, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    bool zero = available < LQ_JOURNAL_HEADER_BYTES || lq_scan_has_zero_piece(at, 0, LQ_JOURNAL_HEADER_BYTES);
    status = zero ? LIGHTQ_ECORRUPT : lq_journal_header_decode(at, path, header, err);
    if (status == LIGHTQ_EVERSION) {
        return status;
    }
    bool sound = false;
    if (status == LIGHTQ_OK) {
        if (!lq_id_equal(&header->cluster, &options->cluster)) {
            return lq_err_set(err, LIGHTQ_EIDENTITY, "%s: of another cluster", path);
        }
        if (header->number != file->number || header->shard != options->shard) {
            return lq_err_set(err, LIGHTQ_EDAMAGED, "%s: its header is that of file %" PRIu64 " of shard %u", path,
                              header->number, header->shard);
        }
        if (header->shards != 0 && options->shards != 0 && header->shards != options->shards) {
            return lq_err_set(err, LIGHTQ_EDAMAGED,
                              "%s: it was written for %u shards, and the directory is one of %u: a part of it is from "
                              "another time",
                              path, header->shards, options->shards);
        }
        status = frame_head(file, LQ_JOURNAL_HEADER_BYTES, header->salt, false, first, &sound, err);
    } else {
        status = lq_scan_bytes(&file->scan, LQ_JOURNAL_HEADER_BYTES, FRAME_ALIGN, &at, &available, err);
        if (status == LIGHTQ_OK && !zero && !lq_scan_is_zero(at, available)) {
            return damaged(file, 0, err);
        }
        zero = true; /* not there, or half-way: with nothing behind it the file was never begun */
    }
    if (status != LIGHTQ_OK || sound) {
        *usable = sound && first->kind == LQ_JOURNAL_SNAPSHOT;
        return status == LIGHTQ_OK && sound && !*usable ? damaged(file, LQ_JOURNAL_HEADER_BYTES, err) : status;
    }
    enum lq_found found = LQ_FOUND_END;
    status = judge_head(file, LQ_JOURNAL_HEADER_BYTES, zero ? 0 : header->salt, zero, &found, err);
    if (status == LIGHTQ_OK && found == LQ_FOUND_ROTTEN) {
        return damaged(file, LQ_JOURNAL_HEADER_BYTES, err);
    }
    return status;
}

/* Applies the frames of one file up to its end. Only the last file may end in a torn frame. */
static lightq_status file_apply(struct lq_replay *replay, size_t number, const struct lq_journal_header *header,
                                const struct frame *first, struct lq_err *err)
{
    struct lq_replay_file *file = &replay->files[number];
    struct frame frame = *first;
    uint64_t position = LQ_JOURNAL_HEADER_BYTES;
    bool sound = true;
    while (sound) {
        bool torn = false;
        lightq_status status = frame_apply(replay, file, &frame, header->salt, &torn, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        if (torn) {
            return LIGHTQ_OK;
        }
        replay->sequence = frame.sequence;
        replay->newest_last = position;
        position += frame.size;
        replay->newest_end = position;
        status = frame_head(file, position, header->salt, false, &frame, &sound, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        if (sound && frame.sequence == replay->sequence + 1 && frame.kind == LQ_JOURNAL_CLOSED) {
            replay->closed = true;
            return LIGHTQ_OK;
        }
        if (sound && (frame.sequence != replay->sequence + 1 || frame.kind != LQ_JOURNAL_CHANGES)) {
            return damaged(file, position, err);
        }
    }
    enum lq_found found = LQ_FOUND_END;
    lightq_status status = judge_head(file, position, header->salt, false, &found, err);
    if (status == LIGHTQ_OK && found == LQ_FOUND_ROTTEN) {
        return damaged(file, position, err);
    }
    return status;
}

static lightq_status file_open(struct lq_replay *replay, uint64_t number, struct lq_err *err)
{
    struct lq_io *io = replay->store->io;
    char path[LQ_PATH_BYTES];
    if (!lq_array_reserve((void **)&replay->files, &replay->file_capacity, replay->file_count + 1,
                          sizeof *replay->files)) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "journal: no memory for its files");
    }
    struct lq_replay_file *file = &replay->files[replay->file_count];
    *file = (struct lq_replay_file){.number = number};
    lq_path_journal(path, replay->store->dir, replay->store->options.shard, number);
    lightq_status status = lq_disk_open(io, path, LQ_OPEN_READ, &file->file, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_scan_init(&file->scan, io, file->file, err);
    if (status != LIGHTQ_OK) {
        io->ops->close(io, file->file);
        return status;
    }
    file->size = file->scan.file_size;
    replay->file_count++;
    return LIGHTQ_OK;
}

static lightq_status files_open(struct lq_replay *replay, struct lq_err *err)
{
    char path[LQ_PATH_BYTES];
    struct lq_names names;
    lq_path_join(path, replay->store->dir, "journal");
    lightq_status status = lq_disk_list(replay->store->io, path, &names, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (size_t i = 0; i < names.count && status == LIGHTQ_OK; i++) {
        uint64_t number = 0;
        if (!names.at[i].is_dir && lq_name_journal(names.at[i].name, replay->store->options.shard, &number)) {
            status = file_open(replay, number, err);
            replay->max_number = number > replay->max_number ? number : replay->max_number;
        }
    }
    lq_names_deinit(&names);
    return status;
}

/* A full file is cut behind its last frame, which says that another one came; any other has the length it had. */
static lightq_status check_length(const struct lq_replay *replay, struct lq_err *err)
{
    if (replay->newest == 0 || replay->closed) {
        return LIGHTQ_OK;
    }
    const struct lq_replay_file *file = &replay->files[replay->newest_at];
    if (file->size >= file->length) {
        return LIGHTQ_OK;
    }
    return lq_err_set(err, LIGHTQ_EDAMAGED,
                      "journal file %" PRIu64 " has lost its end: it is %" PRIu64 " bytes long, and was %" PRIu64
                      ": every group of the shard may have forgotten a vote",
                      file->number, file->size, file->length);
}

lightq_status lq_replay_run(struct lq_replay *replay, struct lq_store *store, struct lq_err *err)
{
    *replay = (struct lq_replay){.store = store};
    lightq_status status = files_open(replay, err);
    for (size_t i = 0; i < replay->file_count && status == LIGHTQ_OK; i++) {
        struct lq_replay_file *file = &replay->files[i];
        struct lq_journal_header header = {.number = 0};
        struct frame first = {.size = 0};
        status = file_head(replay, file, &header, &first, &file->used, err);
        if (status != LIGHTQ_OK || !file->used) {
            continue;
        }
        if (first.sequence <= replay->sequence) { /* begun, given up, and older than what came after */
            lq_log(WARN, "journal file is out of date: not used", "file", file->number);
            file->used = false;
            continue;
        }
        replay->oldest = replay->oldest != 0 ? replay->oldest : file->number;
        replay->newest = file->number;
        replay->newest_at = i;
        replay->newest_salt = header.salt;
        replay->closed = false;
        status = file_apply(replay, i, &header, &first, err);
        file->scan.ahead = 0; /* from here on single entries are read */
    }
    return status == LIGHTQ_OK ? check_length(replay, err) : status;
}

void lq_replay_deinit(struct lq_replay *replay)
{
    struct lq_replay_group *group = replay->groups;
    struct lq_replay_known *known = replay->known;
    HASH_CLEAR(hh, replay->groups);
    HASH_CLEAR(hh, replay->known);
    while (group != NULL) {
        struct lq_replay_group *next = group->hh.next;
        free(group->view);
        free(group);
        group = next;
    }
    while (known != NULL) {
        struct lq_replay_known *next = known->hh.next;
        free(known);
        known = next;
    }
    for (size_t i = 0; i < replay->file_count; i++) {
        replay->store->io->ops->close(replay->store->io, replay->files[i].file);
        lq_scan_deinit(&replay->files[i].scan);
    }
    free(replay->files);
    *replay = (struct lq_replay){.store = replay->store};
}
