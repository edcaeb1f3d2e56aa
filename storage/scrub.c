/* storage/scrub.c - searches for rot that nobody reads: goes through the sealed segments, indexes and checkpoints of
 * every log, slowly, one read in flight, and checks each crc. Called by the other files of the store in every turn, and
 * by the io; loop thread only. Why: docs/adr/0011.
 *
 * Files change meanwhile. What was read counts only when afterwards the log still has that file, and was not cut or
 * replaced since the read began (its generation): a trimmed file is intact while it is open, and only cuts shorten one.
 * What looks bad is read once more, from its begin, before it is believed.
 *
 * What follows from a bad file: of a segment, or of the checkpoint that the log begins with, the log is told to be
 * rotten (lq_rlog_rot); another checkpoint is set aside, as a start would; an index is made again out of its segment,
 * which is read next anyway. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/base/log.h"
#include "storage/array.h"
#include "storage/store_private.h"

#define CHUNK_BYTES   (256u * 1024)
#define BURST_PARTS   4       /* of a second's bytes this part may be saved up */
#define WAIT_US       1000000 /* after what could not be tried for want of descriptors, memory or jobs */
#define MICROS        1000000
#define HEAD_MAX      LQ_INDEX_HEADER_BYTES
#define CRC_BYTES     4 /* of an entry: what its crc does not cover */
#define ENTRY_TYPE_AT 64
#define SUFFIXES_SIZE 3

_Static_assert(HEAD_MAX >= LQ_CHECKPOINT_HEADER_BYTES && HEAD_MAX >= LQ_SEGMENT_HEADER_BYTES &&
                   HEAD_MAX >= LQ_ENTRY_HEADER_BYTES,
               "a head must fit");

/* In the order in which those with one number are read: a bad index is made again while its segment is. */
enum kind {
    KIND_INDEX,
    KIND_SEGMENT,
    KIND_CHECKPOINT,
};
static const char *const SUFFIXES[SUFFIXES_SIZE] = {".idx", ".log", ".ckpt"};

/* Where a search is, in the order of groups, then numbers, then kinds. */
struct place {
    uint64_t group;
    uint64_t number;
    enum kind kind;
};

/* What comes next in a file. */
enum part {
    PART_HEAD, /* of the file */
    PART_BODY, /* of an index or a checkpoint */
    PART_ENTRY,
    PART_PAYLOAD,
    PART_PADDING,
};

struct lq_scrub {
    struct lq_store *store;
    struct lq_io_job job;
    struct lq_io_op op;
    struct iovec iov;
    bool busy;
    bool passing;
    bool has_passed;
    uint64_t begun_us; /* the pass */
    uint64_t wait_until_us;
    int64_t tokens; /* bytes that may be read; below 0: read already */
    uint64_t token_us;
    uint8_t *chunk; /* CHUNK_BYTES, while a pass goes on */
    struct place at;

    lq_file file; /* LQ_FILE_NONE between files */
    uint64_t size;
    uint64_t position;
    uint64_t generation; /* of the log when the file was opened */
    uint32_t incarnation;
    bool second_look;

    enum part part;
    uint8_t head[HEAD_MAX];
    size_t head_size, head_wanted;
    uint64_t left; /* of the payload or padding */
    uint64_t padding;
    uint32_t crc, crc_wanted;
    uint64_t entry_at; /* position of the entry being read */
    uint64_t index;
    uint64_t prev_term;

    bool collecting; /* the index of the segment @collect_number is bad: */
    uint64_t collect_number;
    struct lq_point *points;
    size_t point_count, point_capacity;
    struct lq_index_change *changes;
    size_t change_count, change_capacity;
};

/* ---- life ---- */

struct lq_scrub *lq_scrub_new(struct lq_store *store)
{
    struct lq_scrub *scrub = calloc(1, sizeof *scrub);
    if (scrub != NULL) {
        scrub->store = store;
        scrub->file = LQ_FILE_NONE;
    }
    return scrub;
}

static void drop_collected(struct lq_scrub *scrub)
{
    free(scrub->points);
    free(scrub->changes);
    scrub->points = NULL;
    scrub->changes = NULL;
    scrub->point_count = scrub->point_capacity = 0;
    scrub->change_count = scrub->change_capacity = 0;
    scrub->collecting = false;
}

static void close_file(struct lq_scrub *scrub)
{
    if (scrub->file != LQ_FILE_NONE) {
        scrub->store->io->ops->close(scrub->store->io, scrub->file);
        scrub->file = LQ_FILE_NONE;
    }
}

void lq_scrub_free(struct lq_scrub *scrub, bool abandon)
{
    if (scrub == NULL) {
        return;
    }
    if (!abandon) {
        close_file(scrub);
    }
    drop_collected(scrub);
    free(scrub->chunk);
    free(scrub);
}

bool lq_scrub_busy(const struct lq_store *store)
{
    return store->scrub->busy;
}

/* ---- which file is next ---- */

static bool is_searched(const struct lq_rlog *log)
{
    return log->health == LQ_RLOG_HEALTHY && log->install_step == LQ_INSTALL_NONE && log->rot == NULL;
}

/* Full, and on disk as it is in memory: a cut that is not done yet has changed only one of them. */
static bool is_sealed(const struct lq_rlog *log, const struct lq_segment *segment)
{
    if (log->cut_step != LQ_CUT_NONE && segment->first >= log->cut_segment) {
        return false;
    }
    return segment->closed && segment->on_disk && !segment->dirty && segment->last >= segment->first &&
           segment->last <= log->durable && segment->last <= log->written;
}

static bool is_before(const struct place *a, const struct place *b)
{
    return a->number != b->number ? a->number < b->number : a->kind < b->kind;
}

static void offer(struct place *best, bool *found, const struct place *from, struct place candidate)
{
    if (!is_before(&candidate, from) && (!*found || is_before(&candidate, best))) {
        *best = candidate;
        *found = true;
    }
}

/* The first file of @log at or behind *at, into *at. */
static bool next_in_log(const struct lq_rlog *log, struct place *at)
{
    struct place best = *at;
    bool found = false;
    size_t from = 0;
    (void)lq_rlog_segment_at(log, at->number, &from);
    for (size_t i = from; i < log->segment_count && !found; i++) {
        const struct lq_segment *segment = log->segments[i];
        if (!is_sealed(log, segment)) {
            continue;
        }
        if (segment->indexed) {
            offer(&best, &found, at, (struct place){log->group, segment->first, KIND_INDEX});
        }
        offer(&best, &found, at, (struct place){log->group, segment->first, KIND_SEGMENT});
    }
    for (size_t i = 0; i < log->checkpoint_count; i++) {
        if (log->checkpoints[i].durable) {
            offer(&best, &found, at, (struct place){log->group, log->checkpoints[i].next_index, KIND_CHECKPOINT});
        }
    }
    *at = best;
    return found;
}

/* The log with the lowest group at or above @group; NULL when there is none. */
static struct lq_rlog *log_from(const struct lq_store *store, uint64_t group)
{
    struct lq_rlog *best = NULL;
    for (size_t i = 0; i < store->log_count; i++) {
        struct lq_rlog *log = store->logs[i];
        if (log->group >= group && is_searched(log) && (best == NULL || log->group < best->group)) {
            best = log;
        }
    }
    return best;
}

/* Behind the place's file. */
static void step_on(struct lq_scrub *scrub)
{
    struct place *at = &scrub->at;
    scrub->second_look = false;
    if (at->kind == KIND_CHECKPOINT) {
        at->number++; /* entry numbers do not come near the end of 64 bits */
        at->kind = KIND_INDEX;
    } else {
        at->kind++;
    }
}

/* The place becomes that of a file that is there. NULL: the search has been through all. */
static struct lq_rlog *find_next(struct lq_scrub *scrub)
{
    struct place *at = &scrub->at;
    struct lq_rlog *log;
    while ((log = log_from(scrub->store, at->group)) != NULL) {
        if (log->group != at->group) {
            *at = (struct place){.group = log->group};
        }
        if (next_in_log(log, at)) {
            return log;
        }
        if (log->group == UINT64_MAX) {
            return NULL;
        }
        *at = (struct place){.group = log->group + 1};
    }
    return NULL;
}

/* The log, when what was read of the place's file still says something about it; else NULL. */
static struct lq_rlog *still_there(const struct lq_scrub *scrub)
{
    struct lq_rlog *log = lq_store_find(scrub->store, scrub->at.group);
    struct place at = scrub->at;
    bool same = log != NULL && log->incarnation == scrub->incarnation && log->generation == scrub->generation &&
                is_searched(log) && next_in_log(log, &at) && at.number == scrub->at.number && at.kind == scrub->at.kind;
    return same ? log : NULL;
}

static struct lq_segment *place_segment(const struct lq_scrub *scrub, const struct lq_rlog *log)
{
    return lq_rlog_segment_at(log, scrub->at.number, NULL);
}

static void place_path(const struct lq_scrub *scrub, const struct lq_rlog *log, char out[LQ_PATH_BYTES])
{
    lq_path_numbered(out, log->dir, scrub->at.number, SUFFIXES[scrub->at.kind]);
}

/* ---- a bad file ---- */

/* The index is not trusted any more; its segment is about to be read, and gives a new one. */
static void index_is_bad(struct lq_scrub *scrub, struct lq_rlog *log)
{
    struct lq_segment *segment = place_segment(scrub, log);
    if (segment->points_dropped) {
        drop_collected(scrub);
        scrub->collecting = true;
        scrub->collect_number = segment->first;
    } else {
        segment->indexed = false;
        lq_rlog_mark_background(log);
    }
}

static void act(struct lq_scrub *scrub, struct lq_rlog *log, const struct lq_err *what)
{
    struct lq_checkpoint_file *file = lq_rlog_checkpoint_at(log, scrub->at.number);
    scrub->store->counters.scrub_errors++;
    switch (scrub->at.kind) {
    case KIND_INDEX:
        lq_log(WARN, "index damaged: it is made again", "group", log->group, "reason", what->text);
        index_is_bad(scrub, log);
        break;
    case KIND_SEGMENT:
        lq_log(ERROR, "stored entries damaged", "group", log->group, "index", scrub->index, "reason", what->text);
        lq_rlog_set_rot(log, scrub->index, what);
        break;
    case KIND_CHECKPOINT:
        if (log->base != NULL && scrub->at.number == log->first) {
            lq_log(ERROR, "the checkpoint that the log begins with is damaged", "group", log->group, "reason",
                   what->text);
            lq_rlog_set_rot(log, log->first - 1, what);
        } else {
            lq_rlog_set_checkpoint_aside(log, file, what);
        }
        break;
    }
}

/* The place's file is bad, or cannot be read: looked at again, then believed. */
static void suspect(struct lq_scrub *scrub, struct lq_rlog *log, const struct lq_err *what)
{
    close_file(scrub);
    if (!scrub->second_look) {
        scrub->second_look = true;
        return;
    }
    act(scrub, log, what);
    step_on(scrub);
}

/* ---- checking what was read ---- */

static lightq_status bad(const struct lq_scrub *scrub, const struct lq_rlog *log, struct lq_err *err, const char *what)
{
    char path[LQ_PATH_BYTES];
    place_path(scrub, log, path);
    if (scrub->at.kind != KIND_SEGMENT) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: %s", path, what);
    }
    return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: entry %" PRIu64 " at %" PRIu64 ": %s", path, scrub->index,
                      scrub->entry_at, what);
}

static void expect_head(struct lq_scrub *scrub, enum part part, size_t size)
{
    scrub->part = part;
    scrub->head_size = 0;
    scrub->head_wanted = size;
}

static void begin_checks(struct lq_scrub *scrub, const struct lq_rlog *log)
{
    const struct lq_segment *segment;
    scrub->crc = 0;
    switch (scrub->at.kind) {
    case KIND_INDEX:
        expect_head(scrub, PART_HEAD, LQ_INDEX_HEADER_BYTES);
        break;
    case KIND_CHECKPOINT:
        expect_head(scrub, PART_HEAD, LQ_CHECKPOINT_HEADER_BYTES);
        break;
    case KIND_SEGMENT:
        segment = place_segment(scrub, log);
        expect_head(scrub, PART_HEAD, LQ_SEGMENT_HEADER_BYTES);
        scrub->index = segment->first;
        scrub->prev_term = segment->prev_term;
        scrub->entry_at = 0;
        scrub->point_count = scrub->change_count = 0;
        scrub->collecting = scrub->collecting && scrub->collect_number == segment->first;
        break;
    }
}

static lightq_status on_file_head(struct lq_scrub *scrub, const struct lq_rlog *log, struct lq_err *err)
{
    const struct lq_checkpoint_owner owner = lq_rlog_owner(log);
    const struct lq_segment *segment = place_segment(scrub, log);
    struct lq_segment_header header;
    struct lq_index index;
    char path[LQ_PATH_BYTES];
    lightq_status status = LIGHTQ_OK;
    place_path(scrub, log, path);
    switch (scrub->at.kind) {
    case KIND_INDEX:
        status = lq_index_check_head(&owner, scrub->at.number, path, scrub->head, &index, &scrub->crc_wanted, err);
        if (status == LIGHTQ_OK && (index.last != segment->last || index.segment_length != segment->length)) {
            return bad(scrub, log, err, "it is of another segment");
        }
        scrub->crc = lq_index_crc_begin(scrub->head);
        scrub->part = PART_BODY;
        break;
    case KIND_CHECKPOINT:
        status =
            lq_checkpoint_check_head(&owner, scrub->at.number, path, scrub->head, scrub->size, &scrub->crc_wanted, err);
        scrub->part = PART_BODY;
        break;
    case KIND_SEGMENT:
        status = lq_segment_header_decode(scrub->head, path, &header, err);
        if (status == LIGHTQ_OK && (!lq_id_equal(&header.cluster, &owner.cluster) || header.group != log->group ||
                                    header.incarnation != log->incarnation || header.first != segment->first)) {
            return bad(scrub, log, err, "its header is of another file");
        }
        scrub->entry_at = LQ_SEGMENT_HEADER_BYTES;
        expect_head(scrub, PART_ENTRY, LQ_ENTRY_HEADER_BYTES);
        break;
    }
    return status;
}

/* As lq_segment_take would: an index needs them. */
static lightq_status collect(struct lq_scrub *scrub, struct lq_err *err)
{
    const uint8_t *at = scrub->head;
    if (!lq_array_reserve((void **)&scrub->points, &scrub->point_capacity, scrub->point_count + 1,
                          sizeof *scrub->points) ||
        !lq_array_reserve((void **)&scrub->changes, &scrub->change_capacity, scrub->change_count + 1,
                          sizeof *scrub->changes)) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory for a new index");
    }
    const struct lq_point *last = scrub->point_count > 0 ? &scrub->points[scrub->point_count - 1] : NULL;
    if (last == NULL || scrub->entry_at - last->position >= scrub->store->options.index_stride) {
        scrub->points[scrub->point_count++] = (struct lq_point){.index = scrub->index,
                                                                .position = scrub->entry_at,
                                                                .base_offset = lq_get_u64(at + 40),
                                                                .timestamp_ms = lq_get_u64(at + 48)};
    }
    if (at[ENTRY_TYPE_AT] == LQ_ENTRY_CHANGE) {
        scrub->changes[scrub->change_count++] =
            (struct lq_index_change){.index = scrub->index, .position = scrub->entry_at};
    }
    return LIGHTQ_OK;
}

static lightq_status on_entry_head(struct lq_scrub *scrub, const struct lq_rlog *log, struct lq_err *err)
{
    uint32_t length = lq_get_u32(scrub->head + 4);
    if (length < LQ_ENTRY_HEADER_BYTES || length > LQ_ENTRY_BYTES_MAX) {
        return bad(scrub, log, err, "its length is impossible");
    }
    scrub->crc_wanted = lq_get_u32(scrub->head);
    scrub->crc = lq_crc32c(0, scrub->head + CRC_BYTES, LQ_ENTRY_HEADER_BYTES - CRC_BYTES);
    scrub->left = length - LQ_ENTRY_HEADER_BYTES;
    scrub->padding = lq_entry_size(scrub->left) - length;
    scrub->part = PART_PAYLOAD;
    return LIGHTQ_OK;
}

/* Payload and padding are read. */
static lightq_status on_entry(struct lq_scrub *scrub, const struct lq_rlog *log, struct lq_err *err)
{
    uint64_t term = lq_get_u64(scrub->head + 24);
    if (scrub->crc != scrub->crc_wanted) {
        return bad(scrub, log, err, "the crc does not match");
    }
    if (lq_get_u64(scrub->head + 8) != log->group || lq_get_u64(scrub->head + 16) != scrub->index ||
        term != lq_rlog_term_at(log, scrub->index) || lq_get_u64(scrub->head + 32) != scrub->prev_term) {
        return bad(scrub, log, err, "another entry is there");
    }
    lightq_status status = scrub->collecting ? collect(scrub, err) : LIGHTQ_OK;
    scrub->prev_term = term;
    scrub->entry_at += lq_entry_size(lq_get_u32(scrub->head + 4) - LQ_ENTRY_HEADER_BYTES);
    scrub->index++;
    expect_head(scrub, PART_ENTRY, LQ_ENTRY_HEADER_BYTES);
    return status;
}

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* Takes the next bytes, at most @size of them: how many, in *took. */
static lightq_status take_bytes(struct lq_scrub *scrub, const struct lq_rlog *log, const uint8_t *bytes, size_t size,
                                size_t *took, struct lq_err *err)
{
    switch (scrub->part) {
    case PART_HEAD:
    case PART_ENTRY:
        *took = least(scrub->head_wanted - scrub->head_size, size);
        memcpy(scrub->head + scrub->head_size, bytes, *took);
        scrub->head_size += *took;
        if (scrub->head_size < scrub->head_wanted) {
            return LIGHTQ_OK;
        }
        return scrub->part == PART_HEAD ? on_file_head(scrub, log, err) : on_entry_head(scrub, log, err);
    case PART_BODY:
        *took = size;
        scrub->crc = lq_crc32c(scrub->crc, bytes, size);
        return LIGHTQ_OK;
    case PART_PAYLOAD:
        *took = least(scrub->left, size);
        scrub->crc = lq_crc32c(scrub->crc, bytes, *took);
        scrub->left -= *took;
        if (scrub->left == 0) {
            scrub->left = scrub->padding;
            scrub->part = PART_PADDING;
        }
        return LIGHTQ_OK;
    case PART_PADDING:
        *took = least(scrub->left, size);
        scrub->left -= *took;
        return lq_scan_is_zero(bytes, *took) ? LIGHTQ_OK : bad(scrub, log, err, "its padding is not zero");
    }
    return LIGHTQ_OK;
}

static lightq_status check(struct lq_scrub *scrub, const struct lq_rlog *log, const uint8_t *bytes, size_t size,
                           struct lq_err *err)
{
    lightq_status status = LIGHTQ_OK;
    while (status == LIGHTQ_OK) {
        if (scrub->part == PART_PADDING && scrub->left == 0) {
            status = on_entry(scrub, log, err);
            continue;
        }
        if (size == 0 && !(scrub->part == PART_PAYLOAD && scrub->left == 0)) {
            break;
        }
        size_t took = 0;
        status = take_bytes(scrub, log, bytes, size, &took, err);
        bytes += took;
        size -= took;
    }
    return status;
}

/* All is read. */
static lightq_status check_end(struct lq_scrub *scrub, struct lq_rlog *log, struct lq_err *err)
{
    if (scrub->at.kind != KIND_SEGMENT) {
        bool whole = scrub->part == PART_BODY && scrub->crc == scrub->crc_wanted;
        return whole ? LIGHTQ_OK : bad(scrub, log, err, "the crc does not match");
    }
    struct lq_segment *segment = place_segment(scrub, log);
    if (scrub->part != PART_ENTRY || scrub->head_size != 0 || scrub->index != segment->last + 1) {
        return bad(scrub, log, err, "it is not where the segment ends");
    }
    if (scrub->collecting && segment->points_dropped) {
        segment->points = scrub->points;
        segment->point_count = scrub->point_count;
        segment->point_capacity = scrub->point_capacity;
        segment->changes = scrub->changes;
        segment->change_count = scrub->change_count;
        segment->change_capacity = scrub->change_capacity;
        segment->points_dropped = false;
        segment->indexed = false;
        scrub->points = NULL;
        scrub->changes = NULL;
        lq_rlog_mark_background(log);
    }
    drop_collected(scrub);
    return LIGHTQ_OK;
}

/* ---- reading ---- */

static bool is_passing_matter(lightq_status status)
{
    return status != LIGHTQ_EIO && status != LIGHTQ_ECORRUPT && status != LIGHTQ_ENOTFOUND &&
           status != LIGHTQ_EVERSION && status != LIGHTQ_EIDENTITY;
}

static void wait_a_while(struct lq_scrub *scrub)
{
    close_file(scrub);
    scrub->wait_until_us = lq_clock_monotonic_us(scrub->store->clock) + WAIT_US;
}

/* @status is bad: that of the file, or of the moment. */
static void on_bad_status(struct lq_scrub *scrub, struct lq_rlog *log, lightq_status status, const struct lq_err *err)
{
    if (is_passing_matter(status)) {
        wait_a_while(scrub);
        return;
    }
    struct lq_err what = *err;
    what.status = status == LIGHTQ_EIO ? LIGHTQ_EIO : LIGHTQ_ECORRUPT;
    suspect(scrub, log, &what);
}

static void open_file(struct lq_scrub *scrub, struct lq_rlog *log)
{
    struct lq_io *io = scrub->store->io;
    struct lq_err err = {.text = ""};
    char path[LQ_PATH_BYTES];
    place_path(scrub, log, path);
    scrub->generation = log->generation;
    scrub->incarnation = log->incarnation;
    scrub->position = 0;
    begin_checks(scrub, log);
    lightq_status status = lq_disk_open(io, path, LQ_OPEN_DIRECT, &scrub->file, &err);
    if (status != LIGHTQ_OK) {
        scrub->file = LQ_FILE_NONE;
    } else if (scrub->at.kind == KIND_SEGMENT) {
        scrub->size = place_segment(scrub, log)->length; /* what lies behind is nobody's */
    } else {
        status = io->ops->size(io, scrub->file, &scrub->size, &err);
        if (status == LIGHTQ_OK && scrub->size < scrub->head_wanted) {
            status = bad(scrub, log, &err, "it is too short");
        }
    }
    if (status != LIGHTQ_OK) {
        on_bad_status(scrub, log, status, &err);
    }
}

/* What is to come of the file in the next read. */
static size_t wanted(const struct lq_scrub *scrub)
{
    uint64_t left = scrub->size - scrub->position;
    return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

static lightq_status take_chunk(struct lq_scrub *scrub, struct lq_rlog *log, struct lq_err *err)
{
    size_t size = wanted(scrub);
    size_t got = least(scrub->op.result, size);
    scrub->store->counters.scrub_bytes += got;
    lightq_status status = check(scrub, log, scrub->chunk, got, err);
    if (status == LIGHTQ_OK && got < size) {
        return bad(scrub, log, err, "the file ends before it does");
    }
    scrub->position += got;
    if (status == LIGHTQ_OK && scrub->position == scrub->size) {
        status = check_end(scrub, log, err);
        if (status == LIGHTQ_OK) {
            close_file(scrub);
            step_on(scrub);
        }
    }
    return status;
}

static void on_scrub_job(struct lq_io_job *job, lightq_status status)
{
    struct lq_scrub *scrub = job->data;
    struct lq_store *store = scrub->store;
    struct lq_err err = job->err;
    scrub->busy = false;
    if (store->closing) {
        lq_store_maybe_closed(store);
        return;
    }
    struct lq_rlog *log = still_there(scrub);
    if (log == NULL) {
        close_file(scrub);
        step_on(scrub);
    } else {
        if (status == LIGHTQ_OK) {
            status = take_chunk(scrub, log, &err);
        }
        if (status != LIGHTQ_OK) {
            on_bad_status(scrub, log, status, &err);
        }
    }
    lq_background_run(store);
    lq_scrub_run(store);
}

/* One read. False: not now. */
static bool submit(struct lq_scrub *scrub)
{
    struct lq_io *io = scrub->store->io;
    size_t size = (wanted(scrub) + LQ_IO_DIRECT_BYTES - 1) / LQ_IO_DIRECT_BYTES * LQ_IO_DIRECT_BYTES;
    scrub->iov = (struct iovec){.iov_base = scrub->chunk, .iov_len = size};
    scrub->op = (struct lq_io_op){.kind = LQ_IO_READ,
                                  .file = scrub->file,
                                  .offset = scrub->position,
                                  .size = size,
                                  .iov = &scrub->iov,
                                  .iov_count = 1};
    scrub->job = (struct lq_io_job){.ops = &scrub->op, .count = 1, .cb = on_scrub_job, .data = scrub};
    if (io->ops->submit(io, &scrub->job) != LIGHTQ_OK) {
        wait_a_while(scrub);
        return false;
    }
    scrub->busy = true;
    scrub->tokens -= (int64_t)size;
    return true;
}

/* ---- when ---- */

static void earn(struct lq_scrub *scrub, uint64_t now_us)
{
    uint64_t rate = scrub->store->options.scrub_bytes_per_second;
    uint64_t elapsed_us = now_us - scrub->token_us;
    uint64_t most = rate / BURST_PARTS + 1;
    elapsed_us = elapsed_us < MICROS ? elapsed_us : MICROS; /* called far more often */
    uint64_t earned = rate / MICROS * elapsed_us + rate % MICROS * elapsed_us / MICROS;
    if (earned == 0) {
        return; /* the time counts on */
    }
    scrub->token_us = now_us;
    scrub->tokens += (int64_t)earned;
    scrub->tokens = scrub->tokens < (int64_t)most ? scrub->tokens : (int64_t)most;
}

static bool begin_pass(struct lq_scrub *scrub, uint64_t now_us)
{
    uint64_t interval_us = scrub->store->options.scrub_interval_ms * 1000;
    if (scrub->has_passed && now_us - scrub->begun_us < interval_us) {
        return false;
    }
    scrub->chunk = aligned_alloc(LQ_IO_DIRECT_BYTES, CHUNK_BYTES);
    if (scrub->chunk == NULL) {
        wait_a_while(scrub);
        return false;
    }
    scrub->passing = scrub->has_passed = true;
    scrub->begun_us = now_us;
    scrub->at = (struct place){.group = 0};
    scrub->second_look = false;
    return true;
}

static void end_pass(struct lq_scrub *scrub)
{
    scrub->passing = false;
    scrub->store->counters.scrub_passes++;
    drop_collected(scrub);
    free(scrub->chunk);
    scrub->chunk = NULL;
}

void lq_scrub_run(struct lq_store *store)
{
    struct lq_scrub *scrub = store->scrub;
    if (store->options.scrub_bytes_per_second == 0 || store->closing || store->journal_failed || scrub->busy) {
        return;
    }
    uint64_t now_us = lq_clock_monotonic_us(store->clock);
    earn(scrub, now_us);
    if (now_us < scrub->wait_until_us || (!scrub->passing && !begin_pass(scrub, now_us))) {
        return;
    }
    while (scrub->tokens > 0 && now_us >= scrub->wait_until_us) {
        struct lq_rlog *log = scrub->file != LQ_FILE_NONE ? still_there(scrub) : find_next(scrub);
        if (log == NULL && scrub->file == LQ_FILE_NONE) {
            end_pass(scrub);
            return;
        }
        if (log == NULL) { /* it went between two reads */
            close_file(scrub);
            step_on(scrub);
        } else if (scrub->file == LQ_FILE_NONE) {
            open_file(scrub, log);
        } else {
            (void)submit(scrub);
            return;
        }
    }
}
