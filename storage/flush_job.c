/* storage/flush_job.c - makes the program of a flush (storage/flush.h). Called by storage/flusher.c on the loop thread.
 * Nothing of a log changes here but that files are opened, so that a flush which runs out of memory is just tried
 * again. */
#include "storage/flush.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/array.h"

#define FRAME_BYTES_MAX (LQ_JOURNAL_RECORDS_MAX + LQ_FRAME_HEADER_BYTES + LQ_JOURNAL_HEADER_BYTES)

/* ---- life ---- */

struct lq_flush *lq_flush_new(struct lq_store *store)
{
    struct lq_flush *flush = calloc(1, sizeof *flush);
    if (flush != NULL) {
        flush->store = store;
        flush->new_file = LQ_FILE_NONE;
        lq_writer_init(&flush->frame, FRAME_BYTES_MAX);
    }
    return flush;
}

void lq_flush_clear(struct lq_flush *flush)
{
    for (size_t i = 0; i < flush->slab_count; i++) {
        lq_slab_unref(flush->slabs[i]);
    }
    for (size_t i = 0; i < flush->held_count; i++) {
        lq_segment_unpin(flush->store, flush->held[i]);
    }
    for (size_t i = 0; i < flush->path_count; i++) {
        free(flush->paths[i]);
    }
    flush->op_count = 0;
    flush->op_next = 0;
    flush->note_count = 0;
    flush->iov_count = 0;
    flush->part_count = 0;
    flush->mark_count = 0;
    flush->slab_count = 0;
    flush->held_count = 0;
    flush->path_count = 0;
    flush->frame.size = 0;
    flush->frame.status = LIGHTQ_OK;
    flush->frame_entry_bytes = 0;
    flush->length_bytes = 0;
    flush->has_frame = false;
    flush->use_journal = false;
    flush->left_out = false;
    flush->file_count = 0;
    flush->dirty_count = 0;
    flush->is_rotation = false;
    flush->is_final = false;
    flush->out_of_memory = false;
    flush->new_file = LQ_FILE_NONE;
}

void lq_flush_free(struct lq_flush *flush)
{
    if (flush == NULL) {
        return;
    }
    lq_flush_clear(flush);
    free(flush->ops);
    free(flush->notes);
    free(flush->iovs);
    free(flush->parts);
    free(flush->marks);
    free(flush->slabs);
    free(flush->held);
    free(flush->paths);
    lq_writer_deinit(&flush->frame);
    free(flush);
}

/* ---- small builders; each remembers a failed allocation ---- */

static struct lq_note *add_op(struct lq_flush *flush, int part, struct lq_io_op op)
{
    if (!lq_array_reserve((void **)&flush->ops, &flush->op_capacity, flush->op_count + 1, sizeof *flush->ops) ||
        !lq_array_reserve((void **)&flush->notes, &flush->note_capacity, flush->note_count + 1, sizeof *flush->notes)) {
        flush->out_of_memory = true;
        return NULL;
    }
    flush->ops[flush->op_count++] = op;
    flush->notes[flush->note_count] = (struct lq_note){.part = part, .iov_at = LQ_NO_IOV};
    return &flush->notes[flush->note_count++];
}

static const char *add_path(struct lq_flush *flush, const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL ||
        !lq_array_reserve((void **)&flush->paths, &flush->path_capacity, flush->path_count + 1, sizeof *flush->paths)) {
        free(copy);
        flush->out_of_memory = true;
        return NULL;
    }
    flush->paths[flush->path_count++] = copy;
    return copy;
}

static void add_file_op(struct lq_flush *flush, int part, const struct lq_rlog *log, enum lq_io_kind kind,
                        uint64_t number, const char *suffix)
{
    char path[LQ_PATH_BYTES];
    lq_path_numbered(path, log->dir, number, suffix);
    (void)add_op(flush, part, (struct lq_io_op){.kind = kind, .path = add_path(flush, path)});
}

static void add_sync_dir(struct lq_flush *flush, int part, const char *path)
{
    (void)add_op(flush, part, (struct lq_io_op){.kind = LQ_IO_SYNC_DIR, .path = add_path(flush, path)});
}

static void add_sync(struct lq_flush *flush, int part, lq_file file)
{
    (void)add_op(flush, part, (struct lq_io_op){.kind = LQ_IO_SYNC, .file = file});
}

static void add_iov(struct lq_flush *flush, void *bytes, size_t size)
{
    if (!lq_array_reserve((void **)&flush->iovs, &flush->iov_capacity, flush->iov_count + 1, sizeof *flush->iovs)) {
        flush->out_of_memory = true;
        return;
    }
    flush->iovs[flush->iov_count++] = (struct iovec){.iov_base = bytes, .iov_len = size};
}

static void hold_segment(struct lq_flush *flush, struct lq_segment *segment)
{
    if (!lq_array_reserve((void **)&flush->held, &flush->held_capacity, flush->held_count + 1,
                          sizeof(struct lq_segment *))) {
        flush->out_of_memory = true;
        return;
    }
    lq_segment_pin(flush->store, segment);
    flush->held[flush->held_count++] = segment;
}

static void hold_slab(struct lq_flush *flush, struct lq_slab *slab)
{
    if (!lq_array_reserve((void **)&flush->slabs, &flush->slab_capacity, flush->slab_count + 1,
                          sizeof(struct lq_slab *))) {
        flush->out_of_memory = true;
        return;
    }
    flush->slabs[flush->slab_count++] = lq_slab_ref(slab);
}

/* ---- operations of one log ---- */

static void build_doomed(struct lq_flush *flush, int number, const struct lq_rlog *log)
{
    for (size_t i = 0; i < log->doomed.count; i++) {
        const struct lq_doomed *doomed = &log->doomed.at[i];
        if (doomed->checkpoint) {
            add_file_op(flush, number, log, LQ_IO_UNLINK, doomed->number, ".ckpt");
        }
        if (doomed->segment) {
            add_file_op(flush, number, log, LQ_IO_UNLINK, doomed->number, ".idx");
            add_file_op(flush, number, log, LQ_IO_UNLINK, doomed->number, ".log");
        }
    }
    flush->parts[number].doomed_count = log->doomed.count;
}

/* The segment that the cut ends in, if it has a file. */
static struct lq_segment *cut_segment(const struct lq_rlog *log)
{
    struct lq_segment *segment = lq_rlog_segment_at(log, log->cut_segment, NULL);
    bool is_it = segment != NULL && segment->first == log->cut_segment && segment->on_disk;
    return is_it ? segment : NULL;
}

static lightq_status build_cut(struct lq_flush *flush, int number, struct lq_err *err)
{
    struct lq_rlog *log = flush->parts[number].log;
    struct lq_segment *segment = cut_segment(log);
    if (segment != NULL && segment->indexed) { /* durably gone before the segment is cut */
        add_file_op(flush, number, log, LQ_IO_UNLINK, segment->first, ".idx");
        add_sync_dir(flush, number, log->dir);
    }
    build_doomed(flush, number, log);
    if (segment != NULL) {
        lightq_status status = lq_segment_open(log, segment, false, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        hold_segment(flush, segment);
        struct lq_note *note =
            add_op(flush, number,
                   (struct lq_io_op){.kind = LQ_IO_TRUNCATE, .file = segment->file, .offset = log->cut_position});
        if (note != NULL) {
            note->segment = segment;
        }
        note = add_op(flush, number,
                      (struct lq_io_op){.kind = LQ_IO_ALLOCATE,
                                        .file = segment->file,
                                        .offset = log->cut_position,
                                        .size = LQ_SEGMENT_AHEAD_FIRST});
        if (note != NULL) {
            note->segment = segment;
            note->may_shrink = true;
        }
        add_sync(flush, number, segment->file);
    }
    add_sync_dir(flush, number, log->dir);
    flush->parts[number].synced_directory = true;
    return LIGHTQ_OK;
}

static void build_install(struct lq_flush *flush, int number)
{
    const struct lq_rlog *log = flush->parts[number].log;
    char from[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    lq_path_numbered(from, log->dir, log->install.next_index, ".ckpt.tmp");
    lq_path_numbered(to, log->dir, log->install.next_index, ".ckpt");
    (void)add_op(
        flush, number,
        (struct lq_io_op){.kind = LQ_IO_RENAME, .path = add_path(flush, from), .path_to = add_path(flush, to)});
    add_sync_dir(flush, number, log->dir);
    build_doomed(flush, number, log);
    add_sync_dir(flush, number, log->dir);
    flush->parts[number].synced_directory = true;
}

static void build_allocate(struct lq_flush *flush, int number, struct lq_segment *segment, uint64_t end)
{
    if (end <= segment->allocated) {
        return;
    }
    uint64_t wanted = segment->allocated + segment->ahead;
    if (wanted > flush->store->options.segment_bytes) {
        wanted = flush->store->options.segment_bytes;
    }
    if (wanted < end) {
        wanted = end;
    }
    struct lq_note *note = add_op(flush, number,
                                  (struct lq_io_op){.kind = LQ_IO_ALLOCATE,
                                                    .file = segment->file,
                                                    .offset = segment->allocated,
                                                    .size = wanted - segment->allocated});
    if (note != NULL) {
        note->segment = segment;
        note->may_shrink = true;
        note->least = end - segment->allocated;
    }
}

static void build_header(struct lq_flush *flush, int number, struct lq_segment *segment)
{
    const struct lq_rlog *log = flush->parts[number].log;
    const struct lq_segment_header header = {.cluster = flush->store->options.cluster,
                                             .group = log->group,
                                             .incarnation = log->incarnation,
                                             .first = segment->first,
                                             .journal = flush->store->journal.number};
    lq_segment_header_encode(segment->header, &header);
    segment->header_iov = (struct iovec){.iov_base = segment->header, .iov_len = sizeof segment->header};
    (void)add_op(flush, number,
                 (struct lq_io_op){.kind = LQ_IO_WRITE,
                                   .file = segment->file,
                                   .size = sizeof segment->header,
                                   .iov = &segment->header_iov,
                                   .iov_count = 1});
}

/* Entries [first, last] (none when last < first) as iovecs of their own: what is contiguous in memory becomes one.
 * Gives their bytes. */
static uint64_t add_entries(struct lq_flush *flush, const struct lq_rlog *log, uint64_t first, uint64_t last)
{
    uint64_t bytes = 0;
    struct lq_slab *slab = NULL;
    uint8_t *end = NULL;
    for (uint64_t i = first; i <= last && !flush->out_of_memory; i++) {
        const struct lq_slot *slot = lq_ring_at(&log->ring, i);
        uint8_t *at = slot->slab->bytes + slot->offset;
        if (slot->slab != slab) {
            hold_slab(flush, slot->slab);
        }
        if (slot->slab == slab && at == end) {
            flush->iovs[flush->iov_count - 1].iov_len += slot->size;
        } else {
            add_iov(flush, at, slot->size);
        }
        slab = slot->slab;
        end = at + slot->size;
        bytes += slot->size;
    }
    return bytes;
}

/* One write of the entries [first, last], which lie in @segment one behind the other. */
static void build_write(struct lq_flush *flush, int number, struct lq_segment *segment, uint64_t first, uint64_t last)
{
    struct lq_part *part = &flush->parts[number];
    uint64_t fresh = part->last >= part->first ? part->first : last + 1; /* those before were late */
    uint64_t old_last = last < fresh ? last : fresh - 1;
    uint64_t position = lq_ring_at(&part->log->ring, first)->position;
    size_t iov_at = flush->iov_count;
    uint64_t bytes = add_entries(flush, part->log, first, old_last);
    if (first <= fresh && fresh <= last) {
        part->iov_from = flush->iov_count;
    }
    bytes += add_entries(flush, part->log, first > fresh ? first : fresh, last);
    build_allocate(flush, number, segment, position + bytes);
    struct lq_note *note = add_op(flush, number,
                                  (struct lq_io_op){.kind = LQ_IO_WRITE,
                                                    .file = segment->file,
                                                    .offset = position,
                                                    .size = bytes,
                                                    .iov_count = (unsigned)(flush->iov_count - iov_at)});
    if (note != NULL) {
        note->iov_at = iov_at;
    }
}

/* Whether what was written last may stay without a sync of its own: its file must then stay open, for the error of a
 * sync is told to files that were open when it happened. */
static bool may_leave_dirty(const struct lq_flush *flush)
{
    return flush->store->dirty_segment_count + flush->dirty_count <= flush->store->options.files_max / 2;
}

/* @segment is open, has a header, and will be worked on. */
static lightq_status take_segment(struct lq_flush *flush, int number, struct lq_segment *segment, struct lq_err *err)
{
    struct lq_part *part = &flush->parts[number];
    lightq_status status = lq_segment_open(part->log, segment, !segment->on_disk, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    hold_segment(flush, segment);
    flush->dirty_count += !segment->dirty;
    if (segment->allocated == 0) {
        build_header(flush, number, segment);
    }
    return LIGHTQ_OK;
}

/* Only the journal gets the entries; the segment gets room for them. */
static lightq_status build_late(struct lq_flush *flush, int number, struct lq_err *err)
{
    struct lq_part *part = &flush->parts[number];
    const struct lq_slot *slot = lq_ring_at(&part->log->ring, part->last);
    struct lq_segment *segment = lq_rlog_segment_at(part->log, part->last, NULL);
    lightq_status status = LIGHTQ_OK;
    if (slot->position + slot->size > segment->allocated) {
        status = take_segment(flush, number, segment, err);
    }
    if (status == LIGHTQ_OK) {
        build_allocate(flush, number, segment, slot->position + slot->size);
        (void)add_entries(flush, part->log, part->first, part->last);
    }
    return status;
}

static lightq_status build_writes(struct lq_flush *flush, int number, struct lq_err *err)
{
    struct lq_part *part = &flush->parts[number];
    struct lq_rlog *log = part->log;
    size_t at = 0;
    (void)lq_rlog_segment_at(log, part->write_first, &at);
    for (uint64_t first = part->write_first; first <= part->write_last && !flush->out_of_memory; at++) {
        struct lq_segment *segment = log->segments[at];
        lightq_status status = take_segment(flush, number, segment, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        uint64_t last = segment->last < part->write_last ? segment->last : part->write_last;
        build_write(flush, number, segment, first, last);
        first = last + 1;
    }
    return LIGHTQ_OK;
}

static lightq_status build_entries(struct lq_flush *flush, int number, struct lq_err *err)
{
    struct lq_part *part = &flush->parts[number];
    bool is_fresh = part->last >= part->first;
    part->iov_from = flush->iov_count;
    part->held_from = flush->held_count;
    part->late = part->late && may_leave_dirty(flush);
    lightq_status status = part->late ? build_late(flush, number, err) : build_writes(flush, number, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    part->iov_from = is_fresh ? part->iov_from : flush->iov_count;
    part->iov_to = flush->iov_count;
    part->held_to = flush->held_count;
    part->journaled = part->late || ((flush->use_journal || !is_fresh) && may_leave_dirty(flush));
    return LIGHTQ_OK;
}

/* After all writes, so that the sync of one log does not hold up the writes of the next. */
static void build_syncs(struct lq_flush *flush, int number)
{
    struct lq_part *part = &flush->parts[number];
    for (size_t i = part->held_from; i < part->held_to && !part->journaled; i++) {
        add_sync(flush, number, flush->held[i]->file);
    }
    bool by_segments = part->write_last >= part->write_first && !part->journaled;
    if ((by_segments || part->trim) && part->log->directory_dirty && !part->synced_directory) {
        add_sync_dir(flush, number, part->log->dir);
        part->synced_directory = true;
    }
}

static void build_part(struct lq_flush *flush, int number)
{
    struct lq_part *part = &flush->parts[number];
    struct lq_err err = {.status = LIGHTQ_OK};
    size_t ops = flush->op_count;
    size_t notes = flush->note_count;
    lightq_status status = LIGHTQ_OK;
    if (part->write_last >= part->write_first) {
        status = build_entries(flush, number, &err);
    }
    if (part->cut_do && status == LIGHTQ_OK) {
        status = build_cut(flush, number, &err);
    }
    if (part->install_do) {
        build_install(flush, number);
    }
    if (status == LIGHTQ_OK) {
        return;
    }
    flush->op_count = ops; /* its file cannot be opened: only this log is concerned */
    flush->note_count = notes;
    if (status == LIGHTQ_ELIMIT) {
        part->cut_do = false; /* votes and the like go all the same */
        part->synced_directory = false;
        part->first = part->write_first = 1;
        part->last = part->write_last = 0;
        lq_store_short_of_files(flush->store, &err);
    } else {
        part->failed = true;
        lq_rlog_fail(part->log, status, &err);
    }
}

/* ---- the frame ---- */

static void add_record(struct lq_flush *flush, const struct lq_rlog *log, enum lq_record_type type, uint64_t a,
                       uint64_t b, uint64_t c)
{
    const struct lq_record record = {
        .type = type, .group = log->group, .incarnation = log->incarnation, .fields = {a, b, c}};
    lq_record_write(&flush->frame, &record);
}

static void build_records(struct lq_flush *flush, int number)
{
    struct lq_part *part = &flush->parts[number];
    const struct lq_rlog *log = part->log;
    part->records_from = flush->frame.size;
    if (part->create) {
        add_record(flush, log, LQ_RECORD_CREATED, 0, 0, 0);
    }
    if (part->vote_sequence != 0) {
        add_record(flush, log, LQ_RECORD_VOTE, part->term, part->voted_for, 0);
    }
    if (part->cut_begin) {
        add_record(flush, log, LQ_RECORD_CUT_BEGIN, part->cut_index, 0, 0);
    }
    if (part->cut_do) {
        add_record(flush, log, LQ_RECORD_CUT_DONE, part->cut_index, 0, 0);
    }
    if (part->install_begin) {
        add_record(flush, log, LQ_RECORD_INSTALL_BEGIN, part->install_index, part->install_number, 0);
    }
    if (part->install_do) {
        add_record(flush, log, LQ_RECORD_INSTALL_DONE, part->install_index, part->install_number, 0);
    }
    if (part->trim) {
        add_record(flush, log, LQ_RECORD_TRIM, part->trim_to, 0, 0);
    }
    if (part->journaled && part->last >= part->first) {
        add_record(flush, log, LQ_RECORD_ENTRIES, part->first, part->last - part->first + 1, part->bytes);
    }
    if (part->destroy) {
        add_record(flush, log, LQ_RECORD_DESTROYED, 0, 0, 0);
    }
    part->records_to = flush->frame.size;
}

static void build_marks(struct lq_flush *flush)
{
    struct lq_rlog *log;
    TAILQ_FOREACH(log, &flush->store->watermarks, watermark_link)
    {
        if (!log->created || log->install_step != LQ_INSTALL_NONE) {
            continue; /* nothing of it is in the journal yet, or it is about to be another log */
        }
        if (!lq_array_reserve((void **)&flush->marks, &flush->mark_capacity, flush->mark_count + 1,
                              sizeof *flush->marks)) {
            flush->out_of_memory = true;
            return;
        }
        add_record(flush, log, LQ_RECORD_WATERMARK, log->durable, 0, 0);
        flush->marks[flush->mark_count++] = (struct lq_mark){.log = log, .durable = log->durable};
    }
}

void lq_flush_tell_length(struct lq_flush *flush, uint64_t bytes)
{
    const struct lq_journal *journal = &flush->store->journal;
    lq_frame_length(flush->length_frame, bytes, journal->sequence + 1, journal->salt);
    flush->new_allocated = bytes;
}

/* The journal file becomes longer, and says so within its length of before, before @size bytes are written. */
static void build_growth(struct lq_flush *flush, uint64_t size)
{
    const struct lq_journal *journal = &flush->store->journal;
    uint64_t least = journal->position + LQ_LENGTH_FRAME_BYTES + size + LQ_LENGTH_FRAME_BYTES; /* the next one's too */
    uint64_t wanted = journal->allocated + journal->ahead > least ? journal->allocated + journal->ahead : least;
    struct lq_note *note = add_op(flush, LQ_NOTE_STORE,
                                  (struct lq_io_op){.kind = LQ_IO_ALLOCATE,
                                                    .file = journal->file,
                                                    .offset = journal->allocated,
                                                    .size = wanted - journal->allocated});
    if (note != NULL) {
        note->may_shrink = true;
        note->least = least - journal->allocated;
    }
    add_sync(flush, LQ_NOTE_STORE, journal->file);
    lq_flush_tell_length(flush, wanted);
    flush->length_bytes = LQ_LENGTH_FRAME_BYTES;
    size_t iov_at = flush->iov_count;
    add_iov(flush, flush->length_frame, LQ_LENGTH_FRAME_BYTES);
    note = add_op(flush, LQ_NOTE_STORE,
                  (struct lq_io_op){.kind = LQ_IO_WRITE,
                                    .file = journal->file,
                                    .offset = journal->position,
                                    .size = LQ_LENGTH_FRAME_BYTES,
                                    .iov_count = 1});
    if (note != NULL) {
        note->iov_at = iov_at;
    }
    add_sync(flush, LQ_NOTE_STORE, journal->file);
}

static void build_frame(struct lq_flush *flush)
{
    struct lq_journal *journal = &flush->store->journal;
    lq_frame_begin(&flush->frame);
    for (size_t i = 0; i < flush->part_count; i++) {
        if (!flush->parts[i].failed) {
            build_records(flush, (int)i);
        }
    }
    build_marks(flush);
    lq_frame_end(&flush->frame);
    size_t iov_at = flush->iov_count;
    add_iov(flush, NULL, 0); /* the records; where they lie is known at the end */
    for (size_t i = 0; i < flush->part_count && !flush->out_of_memory; i++) {
        const struct lq_part *part = &flush->parts[i];
        for (size_t k = part->iov_from; k < part->iov_to && part->journaled && !part->failed; k++) {
            add_iov(flush, flush->iovs[k].iov_base, flush->iovs[k].iov_len);
            flush->frame_entry_bytes += flush->iovs[k].iov_len;
        }
    }
    if (flush->out_of_memory || flush->frame.status != LIGHTQ_OK) {
        flush->out_of_memory = true;
        return;
    }
    flush->iovs[iov_at] = (struct iovec){.iov_base = flush->frame.bytes, .iov_len = flush->frame.size};
    uint64_t size = flush->frame.size + flush->frame_entry_bytes;
    unsigned iov_count = (unsigned)(flush->iov_count - iov_at);
    flush->sequence = journal->sequence + 1;
    if (journal->position + size + LQ_LENGTH_FRAME_BYTES > journal->allocated) {
        build_growth(flush, size);
        flush->sequence++;
    }
    lq_frame_seal(&flush->frame, 0, flush->frame_entry_bytes, flush->sequence, journal->salt, LQ_JOURNAL_CHANGES);
    struct lq_note *note = add_op(flush, LQ_NOTE_STORE,
                                  (struct lq_io_op){.kind = LQ_IO_WRITE,
                                                    .file = journal->file,
                                                    .offset = journal->position + flush->length_bytes,
                                                    .size = size,
                                                    .iov_count = iov_count});
    if (note != NULL) {
        note->iov_at = iov_at;
    }
    add_sync(flush, LQ_NOTE_STORE, journal->file);
}

static void patch_iovs(struct lq_flush *flush)
{
    for (size_t i = 0; i < flush->op_count && !flush->out_of_memory; i++) {
        if (flush->notes[i].iov_at != LQ_NO_IOV) {
            flush->ops[i].iov = flush->iovs + flush->notes[i].iov_at;
        }
    }
}

bool lq_flush_build(struct lq_flush *flush)
{
    lq_flush_plan(flush);
    if (flush->out_of_memory) {
        return true;
    }
    lq_flush_choose_path(flush);
    if (flush->part_count == 0 && (!flush->has_frame || TAILQ_EMPTY(&flush->store->watermarks))) {
        return false;
    }
    if (flush->store->root_dirty) {
        add_sync_dir(flush, LQ_NOTE_STORE, flush->store->dir);
    }
    for (size_t i = 0; i < flush->part_count && !flush->out_of_memory; i++) {
        build_part(flush, (int)i);
    }
    for (size_t i = 0; i < flush->part_count && !flush->out_of_memory; i++) {
        if (!flush->parts[i].failed) {
            build_syncs(flush, (int)i);
        }
    }
    if (flush->has_frame && !flush->out_of_memory) {
        build_frame(flush);
    }
    patch_iovs(flush);
    return true;
}

/* ---- a new journal file ---- */

bool lq_flush_build_rotation(struct lq_flush *flush)
{
    struct lq_store *store = flush->store;
    struct lq_journal *journal = &store->journal;
    char path[LQ_PATH_BYTES];
    struct lq_err err;
    flush->is_rotation = true;
    flush->new_number = journal->next_number;
    flush->new_salt = lq_clock_random_u64(store->clock);
    flush->sequence = journal->sequence + 1;
    if (!lq_array_reserve((void **)&journal->old, &journal->old_capacity, journal->old_count + 1,
                          sizeof *journal->old)) {
        flush->out_of_memory = true;
        return true;
    }
    uint8_t *header = lq_write_space(&flush->frame, LQ_JOURNAL_HEADER_BYTES);
    if (header != NULL) {
        const struct lq_journal_header fields = {.cluster = store->options.cluster,
                                                 .number = flush->new_number,
                                                 .salt = flush->new_salt,
                                                 .shard = store->options.shard,
                                                 .shards = store->options.shards};
        lq_journal_header_encode(header, &fields);
    }
    flush->new_need = lq_store_snapshot(store, &flush->frame, flush->new_number, &flush->new_allocated);
    lq_frame_seal(&flush->frame, LQ_JOURNAL_HEADER_BYTES, 0, flush->sequence, flush->new_salt, LQ_JOURNAL_SNAPSHOT);
    if (flush->frame.status != LIGHTQ_OK) {
        flush->out_of_memory = true;
        return true;
    }
    lq_path_journal(path, store->dir, store->options.shard, flush->new_number);
    lightq_status status = lq_disk_open(store->io, path, LQ_OPEN_CREATE, &flush->new_file, &err);
    if (status != LIGHTQ_OK) {
        flush->new_file = LQ_FILE_NONE;
        lq_log(WARN, "no new journal file: the old one grows on", "reason", err.text);
        return false;
    }
    add_iov(flush, flush->frame.bytes, flush->frame.size);
    (void)add_op(flush, LQ_NOTE_STORE,
                 (struct lq_io_op){.kind = LQ_IO_ALLOCATE, .file = flush->new_file, .size = flush->new_allocated});
    add_sync(flush, LQ_NOTE_STORE, flush->new_file);
    struct lq_note *note = add_op(
        flush, LQ_NOTE_STORE,
        (struct lq_io_op){.kind = LQ_IO_WRITE, .file = flush->new_file, .size = flush->frame.size, .iov_count = 1});
    if (note != NULL) {
        note->iov_at = 0;
    }
    add_sync(flush, LQ_NOTE_STORE, flush->new_file);
    lq_path_join(path, store->dir, "journal");
    add_sync_dir(flush, LQ_NOTE_STORE, path);
    patch_iovs(flush);
    return true;
}

/* ---- taking it out of what waits ---- */

/* @left_out: those that had their turn wait behind those that had not. */
static void commit_part(struct lq_part *part, bool left_out)
{
    struct lq_rlog *log = part->log;
    if (left_out && log->is_dirty && part->last >= part->first) {
        TAILQ_REMOVE(&log->store->dirty, log, dirty_link);
        TAILQ_INSERT_TAIL(&log->store->dirty, log, dirty_link);
    }
    if (part->vote_sequence != 0) {
        log->vote_submitted = part->vote_sequence;
    }
    if (part->trim) {
        log->trim_wanted = false;
    }
    if (part->last >= part->first) {
        log->submitted = part->last;
        log->flight_last = part->last;
    }
    if (part->write_last >= part->write_first && !part->late) {
        log->flight_written = part->write_last;
    }
}

void lq_flush_commit(struct lq_flush *flush)
{
    if (!flush->is_rotation) {
        flush->store->root_dirty = false; /* the program began with its sync */
    }
    for (size_t i = 0; i < flush->part_count; i++) {
        flush->parts[i].log->pins++;
        if (!flush->parts[i].failed) {
            commit_part(&flush->parts[i], flush->left_out);
        }
    }
    for (size_t i = 0; i < flush->mark_count; i++) {
        flush->marks[i].log->pins++;
    }
    if (flush->left_out) {
        flush->store->follow_up = true;
    }
}

void lq_flush_void_part(struct lq_flush *flush, int part)
{
    struct lq_part *failed = &flush->parts[part];
    failed->failed = true;
    if (flush->has_frame) {
        lq_frame_void(&flush->frame, failed->records_from, failed->records_to);
        lq_frame_seal(&flush->frame, 0, flush->frame_entry_bytes, flush->sequence, flush->store->journal.salt,
                      LQ_JOURNAL_CHANGES);
    }
    size_t kept = flush->op_next;
    for (size_t i = flush->op_next; i < flush->op_count; i++) {
        if (flush->notes[i].part != part) {
            flush->ops[kept] = flush->ops[i];
            flush->notes[kept++] = flush->notes[i];
        }
    }
    flush->op_count = kept;
    flush->note_count = kept;
}
