/* storage/read.c - entries read from segment files, for catch-up and for consumers that are behind the cache: found
 * through the sparse points, read in a job, every crc checked. Called by raft/ and node/ through storage/store.h; loop
 * thread only. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/limits.h"
#include "storage/array.h"
#include "storage/store_private.h"

struct lq_read_op {
    struct lq_store *store;
    struct lq_rlog *log; /* pinned */
    struct lq_rlog_read *read;
    struct lq_segment *segment; /* pinned; NULL for a read from memory */
    struct lq_io_job job;
    struct lq_io_op op;
    struct iovec iov;
    struct lq_slab *slab;
    struct lq_entry_ref *refs;
    size_t ref_count;
    size_t ref_capacity;
    uint64_t position; /* of the slab's bytes in the file */
    uint64_t next;     /* index of the entry at the slab's begin */
    uint64_t last;     /* no entry above it is wanted */
    TAILQ_ENTRY(lq_read_op) link;
};

static void read_op_free(struct lq_read_op *op)
{
    if (op->segment != NULL) {
        lq_segment_unpin(op->store, op->segment);
    }
    lq_slab_unref(op->slab);
    free(op->refs);
    free(op);
}

/* Tells the caller and ends the operation. */
static void finish(struct lq_read_op *op, lightq_status status)
{
    struct lq_store *store = op->store;
    struct lq_rlog_read *read = op->read;
    struct lq_rlog *log = op->log;
    if (log->destroyed || log->generation != read->generation || store->closing) {
        status = LIGHTQ_ECANCELED;
    }
    bool ok = status == LIGHTQ_OK;
    read->slab = ok ? op->slab : NULL;
    read->refs = ok ? op->refs : NULL;
    read->count = ok ? op->ref_count : 0;
    TAILQ_REMOVE(&store->reads, op, link);
    log->pins--;
    if (log->destroyed) {
        lq_rlog_mark_background(log);
    }
    read->cb(read, status);
    read_op_free(op);
    if (store->closing) {
        lq_store_maybe_closed(store);
    }
}

static bool add_ref(struct lq_read_op *op, uint32_t offset, uint32_t size)
{
    if (!lq_array_reserve((void **)&op->refs, &op->ref_capacity, op->ref_count + 1, sizeof *op->refs)) {
        return false;
    }
    op->refs[op->ref_count++] = (struct lq_entry_ref){.slab = op->slab, .offset = offset, .size = size};
    return true;
}

static void hint_set(struct lq_rlog *log, uint64_t index, uint64_t segment_first, uint64_t position)
{
    log->hints[log->next_hint] =
        (struct lq_read_hint){.index = index, .segment_first = segment_first, .position = position};
    log->next_hint = (log->next_hint + 1) % LQ_READ_HINTS;
}

/* The bytes that the entry at @at takes, as far as its length can be believed; 0: it cannot. */
static uint64_t size_at(const uint8_t *at, size_t available)
{
    if (available < LQ_ENTRY_HEADER_BYTES) {
        return LQ_ENTRY_HEADER_BYTES;
    }
    uint32_t length = lq_get_u32(at + 4);
    return length < LQ_ENTRY_HEADER_BYTES || length > LQ_ENTRY_BYTES_MAX
               ? 0
               : lq_entry_size(length - LQ_ENTRY_HEADER_BYTES);
}

/* Takes the entries of the slab. OK: done. ENOTREADY: more must be read, from op->position on, *more bytes at least. */
static lightq_status parse(struct lq_read_op *op, size_t available, uint64_t *more)
{
    const uint8_t *bytes = op->slab->bytes;
    uint64_t taken = 0;
    size_t at = 0;
    while (op->next <= op->last && (op->ref_count == 0 || taken < op->read->bytes_max)) {
        struct lq_entry entry;
        uint64_t size = size_at(bytes + at, available - at);
        if (size == 0) {
            return LIGHTQ_ECORRUPT;
        }
        if (size > available - at) {
            *more = size;
            break;
        }
        bool wanted = op->next >= op->read->index;
        if (wanted && op->ref_count > 0 && taken + size > op->read->bytes_max) {
            break;
        }
        if (lq_entry_decode(bytes + at, available - at, wanted, &entry, &size, NULL) != LIGHTQ_OK ||
            entry.index != op->next || entry.group != op->log->group) {
            return LIGHTQ_ECORRUPT;
        }
        if (wanted && entry.term != lq_rlog_term_at(op->log, entry.index) && entry.index >= op->log->first) {
            return LIGHTQ_ECORRUPT;
        }
        if (wanted && !add_ref(op, (uint32_t)at, (uint32_t)size)) {
            return LIGHTQ_ENOMEM;
        }
        taken += wanted ? size : 0;
        at += size;
        op->next++;
    }
    op->position += at;
    return op->ref_count > 0 ? LIGHTQ_OK : LIGHTQ_ENOTREADY;
}

static void on_read_job(struct lq_io_job *job, lightq_status status);

static lightq_status submit(struct lq_read_op *op, uint64_t size)
{
    lq_slab_unref(op->slab);
    op->slab = lq_slab_new(size);
    if (op->slab == NULL) {
        return LIGHTQ_ENOMEM;
    }
    op->iov = (struct iovec){.iov_base = op->slab->bytes, .iov_len = size};
    op->op = (struct lq_io_op){.kind = LQ_IO_READ,
                               .file = op->segment->file,
                               .offset = op->position,
                               .size = size,
                               .iov = &op->iov,
                               .iov_count = 1};
    op->job = (struct lq_io_job){.ops = &op->op, .count = 1, .cb = on_read_job, .data = op};
    return op->store->io->ops->submit(op->store->io, &op->job);
}

static void on_read_job(struct lq_io_job *job, lightq_status status)
{
    struct lq_read_op *op = job->data;
    bool stale = op->log->generation != op->read->generation || op->log->destroyed || op->store->closing;
    if (status != LIGHTQ_OK || stale) {
        finish(op, status);
        return;
    }
    uint64_t before = op->position;
    uint64_t more = 0;
    status = parse(op, op->op.result, &more);
    if (status == LIGHTQ_OK) {
        hint_set(op->log, op->next, op->segment->first, op->position);
    }
    if (status == LIGHTQ_ENOTREADY) {
        bool stuck = op->position == before && more <= op->op.size;
        uint64_t size = more > op->read->bytes_max ? more : op->read->bytes_max;
        if (stuck || op->op.result < op->op.size) {
            status = LIGHTQ_ECORRUPT; /* the file ends before the entry does */
        } else {
            status = submit(op, size < LQ_ENTRY_HEADER_BYTES ? LQ_ENTRY_HEADER_BYTES : size);
            if (status == LIGHTQ_OK) {
                return;
            }
        }
    }
    finish(op, status);
}

/* ---- from memory ---- */

static void on_memory_job(struct lq_io_job *job, lightq_status status)
{
    finish(job->data, status);
}

/* Copies what peek would give: for callers that do not peek first. */
static lightq_status read_memory(struct lq_read_op *op)
{
    struct lq_rlog_read *read = op->read;
    uint64_t total = 0;
    uint64_t index = read->index;
    for (const struct lq_slot *slot; (slot = lq_ring_at(&op->log->ring, index)) != NULL; index++) {
        if (total > 0 && total + slot->size > read->bytes_max) {
            break;
        }
        total += slot->size;
    }
    op->slab = lq_slab_new(total);
    if (op->slab == NULL) {
        return LIGHTQ_ENOMEM;
    }
    uint64_t at = 0;
    for (uint64_t i = read->index; i < index; i++) {
        const struct lq_slot *slot = lq_ring_at(&op->log->ring, i);
        memcpy(op->slab->bytes + at, slot->slab->bytes + slot->offset, slot->size);
        if (!add_ref(op, (uint32_t)at, slot->size)) {
            return LIGHTQ_ENOMEM;
        }
        at += slot->size;
    }
    op->job = (struct lq_io_job){.ops = &op->op, .count = 0, .cb = on_memory_job, .data = op};
    return op->store->io->ops->submit(op->store->io, &op->job);
}

/* ---- from disk ---- */

/* Where to begin: the end of an earlier read, or the point before. */
static void start_position(struct lq_read_op *op)
{
    const struct lq_rlog *log = op->log;
    const struct lq_point point = lq_segment_point_before(op->segment, op->read->index);
    op->next = point.index;
    op->position = point.position;
    for (unsigned i = 0; i < LQ_READ_HINTS; i++) {
        const struct lq_read_hint *hint = &log->hints[i];
        if (hint->position != 0 && hint->segment_first == op->segment->first && hint->index <= op->read->index &&
            hint->index > op->next) {
            op->next = hint->index;
            op->position = hint->position;
        }
    }
}

static lightq_status read_disk(struct lq_read_op *op)
{
    struct lq_rlog *log = op->log;
    struct lq_segment *segment = lq_rlog_segment_at(log, op->read->index, NULL);
    assert(segment != NULL);
    if (op->read->index > log->written) {
        return LIGHTQ_ESTOPPED; /* the log failed before it was written */
    }
    if (segment->file == LQ_FILE_NONE && !lq_segments_may_read(op->store)) {
        return LIGHTQ_EBUSY;
    }
    lightq_status status = lq_segment_open(log, segment, false, NULL);
    if (status == LIGHTQ_OK && segment->points_dropped) {
        status = lq_segment_load_points(log, segment, NULL);
        if (status == LIGHTQ_ECORRUPT) { /* the index is gone or bad: from the segment's begin, then */
            status = LIGHTQ_OK;
        }
    }
    if (status == LIGHTQ_ELIMIT) {
        return LIGHTQ_EBUSY;
    }
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ENOTFOUND ? LIGHTQ_ECORRUPT : status;
    }
    lq_segment_pin(op->store, segment);
    op->segment = segment;
    op->last = segment->last < log->written ? segment->last : log->written;
    start_position(op);
    uint64_t stride = op->next == op->read->index ? 0 : op->store->options.index_stride;
    uint64_t wanted = op->read->bytes_max + stride + LQ_ENTRY_HEADER_BYTES;
    uint64_t left = segment->length - op->position;
    return submit(op, left < wanted ? left : wanted);
}

lightq_status lq_rlog_read(struct lq_rlog *log, struct lq_rlog_read *read)
{
    struct lq_store *store = log->store;
    if (log->health == LQ_RLOG_DAMAGED || log->health == LQ_RLOG_LOST) {
        return LIGHTQ_ESTOPPED;
    }
    if (read->index < log->first || read->index > log->last) {
        return LIGHTQ_EOUTOFRANGE;
    }
    struct lq_read_op *op = calloc(1, sizeof *op);
    if (op == NULL) {
        return LIGHTQ_ENOMEM;
    }
    op->store = store;
    op->log = log;
    op->read = read;
    read->generation = log->generation;
    lightq_status status = lq_ring_at(&log->ring, read->index) != NULL ? read_memory(op) : read_disk(op);
    if (status != LIGHTQ_OK) {
        read_op_free(op);
        return status;
    }
    log->pins++;
    TAILQ_INSERT_TAIL(&store->reads, op, link);
    return LIGHTQ_OK;
}

void lq_read_abandon_all(struct lq_store *store)
{
    struct lq_read_op *op;
    while ((op = TAILQ_FIRST(&store->reads)) != NULL) {
        TAILQ_REMOVE(&store->reads, op, link);
        op->log->pins--;
        read_op_free(op);
    }
}
