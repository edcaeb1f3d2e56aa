/* storage/segment.c - segments in memory, their header, and reading them forward (storage/segment.h). Called by the
 * other files of the store on the loop thread; calls storage/disk.h and storage/format.h. */
#include "storage/segment.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "storage/array.h"
#include "storage/disk.h"

#define SCAN_WINDOW_BYTES (1024u * 1024)
#define SECTOR_BYTES      512u /* the unit in which a disk writes */
#define ENTRY_START_BYTES 8u   /* crc and length: entries are 8-aligned, so both are in one sector */

static const char MAGIC[8] = {'L', 'Q', 'S', 'E', 'G', 'M', 'T', '1'};

void lq_segment_header_encode(uint8_t at[LQ_SEGMENT_HEADER_BYTES], const struct lq_segment_header *header)
{
    memset(at, 0, LQ_SEGMENT_HEADER_BYTES);
    memcpy(at, MAGIC, sizeof MAGIC);
    lq_put_u32(at + 8, LQ_SEGMENT_VERSION);
    memcpy(at + 16, header->cluster.bytes, sizeof header->cluster.bytes);
    lq_put_u64(at + 32, header->group);
    lq_put_u32(at + 40, header->incarnation);
    lq_put_u64(at + 48, header->first);
    lq_put_u64(at + 56, header->journal);
    lq_put_u32(at + 12, lq_crc32c(lq_crc32c(0, at + 8, 4), at + 16, LQ_SEGMENT_HEADER_BYTES - 16));
}

lightq_status lq_segment_header_decode(const uint8_t at[LQ_SEGMENT_HEADER_BYTES], const char *path,
                                       struct lq_segment_header *header, struct lq_err *err)
{
    if (memcmp(at, MAGIC, sizeof MAGIC) != 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: not a segment: its header does not begin with %.8s", path, MAGIC);
    }
    if (lq_get_u32(at + 12) != lq_crc32c(lq_crc32c(0, at + 8, 4), at + 16, LQ_SEGMENT_HEADER_BYTES - 16)) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: the header's crc does not match", path);
    }
    if (lq_get_u32(at + 8) != LQ_SEGMENT_VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION, "%s: segment of format version %" PRIu32 ", this program reads %d",
                          path, lq_get_u32(at + 8), LQ_SEGMENT_VERSION);
    }
    memcpy(header->cluster.bytes, at + 16, sizeof header->cluster.bytes);
    header->group = lq_get_u64(at + 32);
    header->incarnation = lq_get_u32(at + 40);
    header->first = lq_get_u64(at + 48);
    header->journal = lq_get_u64(at + 56);
    return LIGHTQ_OK;
}

struct lq_segment *lq_segment_new(uint64_t first, uint64_t prev_term)
{
    struct lq_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) {
        return NULL;
    }
    segment->first = first;
    segment->last = first - 1;
    segment->prev_term = prev_term;
    segment->last_term = prev_term;
    segment->length = LQ_SEGMENT_HEADER_BYTES;
    segment->ahead = LQ_SEGMENT_AHEAD_FIRST;
    segment->file = LQ_FILE_NONE;
    segment->references = 1;
    return segment;
}

void lq_segment_unref(struct lq_segment *segment)
{
    assert(segment->references > 0);
    if (--segment->references > 0) {
        return;
    }
    free(segment->points);
    free(segment->changes);
    free(segment);
}

bool lq_segment_reserve_point(struct lq_segment *segment)
{
    return lq_array_reserve((void **)&segment->points, &segment->point_capacity, segment->point_count + 1,
                            sizeof *segment->points) &&
           lq_array_reserve((void **)&segment->changes, &segment->change_capacity, segment->change_count + 1,
                            sizeof *segment->changes);
}

void lq_segment_take(struct lq_segment *segment, const struct lq_entry *entry, uint32_t crc, uint64_t size,
                     uint64_t stride)
{
    assert(entry->index == segment->last + 1);
    if (segment->point_count == 0 || segment->length - segment->points[segment->point_count - 1].position >= stride) {
        assert(segment->point_count < segment->point_capacity);
        segment->points[segment->point_count++] = (struct lq_point){.index = entry->index,
                                                                    .position = segment->length,
                                                                    .base_offset = entry->base_offset,
                                                                    .timestamp_ms = entry->timestamp_ms};
    }
    if (entry->type == LQ_ENTRY_CHANGE) {
        assert(segment->change_count < segment->change_capacity);
        segment->changes[segment->change_count++] =
            (struct lq_index_change){.index = entry->index, .position = segment->length};
    }
    if (segment->last < segment->first) {
        segment->first_offset = entry->base_offset;
        segment->first_timestamp_ms = entry->timestamp_ms;
    }
    segment->last = entry->index;
    segment->last_term = entry->term;
    segment->last_timestamp_ms = entry->timestamp_ms;
    segment->tail_position = segment->length;
    segment->tail_crc = crc;
    segment->length += size;
}

void lq_segment_cut(struct lq_segment *segment, uint64_t index, uint64_t position, uint64_t last_term)
{
    while (segment->point_count > 0 && segment->points[segment->point_count - 1].index >= index) {
        segment->point_count--;
    }
    while (segment->change_count > 0 && segment->changes[segment->change_count - 1].index >= index) {
        segment->change_count--;
    }
    segment->last = index - 1;
    segment->last_term = last_term;
    segment->length = position;
    segment->tail_position = 0;
    segment->closed = false;
    segment->index_failed = false;
}

struct lq_point lq_segment_point_before(const struct lq_segment *segment, uint64_t index)
{
    size_t low = 0;
    size_t high = segment->point_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (segment->points[middle].index <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return (struct lq_point){.index = segment->first,
                                 .position = LQ_SEGMENT_HEADER_BYTES,
                                 .base_offset = segment->first_offset,
                                 .timestamp_ms = segment->first_timestamp_ms};
    }
    return segment->points[low - 1];
}

/* ---- scanning ---- */

lightq_status lq_scan_init(struct lq_scan *scan, struct lq_io *io, lq_file file, struct lq_err *err)
{
    *scan = (struct lq_scan){.io = io, .file = file, .ahead = SCAN_WINDOW_BYTES};
    return io->ops->size(io, file, &scan->file_size, err);
}

void lq_scan_deinit(struct lq_scan *scan)
{
    free(scan->window);
    scan->window = NULL;
}

static lightq_status window_grow(struct lq_scan *scan, size_t size, struct lq_err *err)
{
    size_t capacity = size < scan->ahead ? scan->ahead : size;
    if (scan->file_size < capacity) {
        capacity = (size_t)scan->file_size;
    }
    if (capacity <= scan->capacity) {
        return LIGHTQ_OK;
    }
    uint8_t *window = malloc(capacity);
    if (window == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory to read %zu bytes of a segment", capacity);
    }
    free(scan->window);
    scan->window = window;
    scan->capacity = capacity;
    scan->window_size = 0;
    return LIGHTQ_OK;
}

lightq_status lq_scan_bytes(struct lq_scan *scan, uint64_t position, size_t size, const uint8_t **bytes,
                            size_t *available, struct lq_err *err)
{
    *bytes = scan->window;
    *available = 0;
    if (position >= scan->file_size) {
        return LIGHTQ_OK;
    }
    uint64_t left = scan->file_size - position;
    size_t wanted = left < size ? (size_t)left : size;
    if (position < scan->window_at || position + wanted > scan->window_at + scan->window_size) {
        lightq_status status = window_grow(scan, wanted, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        size_t chunk = wanted < scan->ahead ? scan->ahead : wanted;
        chunk = left < chunk ? (size_t)left : chunk;
        size_t got = 0;
        status = lq_disk_read(scan->io, scan->file, position, scan->window, chunk, &got, err);
        if (status != LIGHTQ_OK) {
            scan->window_size = 0;
            return status;
        }
        scan->window_at = position;
        scan->window_size = got;
    }
    size_t have = (size_t)(scan->window_at + scan->window_size - position);
    *bytes = scan->window + (position - scan->window_at);
    *available = have < size ? have : size;
    return LIGHTQ_OK;
}

bool lq_scan_is_zero(const uint8_t *bytes, uint64_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0); /* each equals the one before */
}

bool lq_scan_has_zero_piece(const uint8_t *bytes, uint64_t position, uint64_t size)
{
    uint64_t done = 0;
    while (done < size) {
        uint64_t piece = SECTOR_BYTES - (position + done) % SECTOR_BYTES;
        if (piece > size - done) {
            piece = size - done;
        }
        if (lq_scan_is_zero(bytes + done, piece)) {
            return true;
        }
        done += piece;
    }
    return false;
}

/* An entry whose start is there: present in full or not, sound or not. A torn write leaves a sector as it was (zeros
 * behind what was written before) or as it should be, and one that failed half-way leaves zeros behind its begin; so
 * wrong bytes without a zero piece, and with a last byte that is not zero, are neither. */
static lightq_status judge_entry(struct lq_scan *scan, uint64_t position, uint32_t length, enum lq_found *found,
                                 struct lq_entry *entry, uint64_t *size, struct lq_err *text, struct lq_err *err)
{
    const uint8_t *bytes;
    size_t available;
    uint64_t padded = lq_entry_size(length - LQ_ENTRY_HEADER_BYTES);
    if (padded > scan->file_size - position) {
        (void)lq_err_set(text, LIGHTQ_ECORRUPT, "an entry of %" PRIu64 " bytes goes beyond the end of the file",
                         padded);
        *found = LQ_FOUND_TORN;
        return LIGHTQ_OK;
    }
    lightq_status status = lq_scan_bytes(scan, position, (size_t)padded, &bytes, &available, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (lq_entry_decode(bytes, available, true, entry, size, text) == LIGHTQ_OK) {
        *found = LQ_FOUND_ENTRY;
        return LIGHTQ_OK;
    }
    bool torn = available < length || bytes[length - 1] == 0 || lq_scan_has_zero_piece(bytes, position, length);
    *found = torn ? LQ_FOUND_TORN : LQ_FOUND_ROTTEN;
    return LIGHTQ_OK;
}

lightq_status lq_scan_entry(struct lq_scan *scan, uint64_t position, enum lq_found *found, struct lq_entry *entry,
                            uint64_t *size, struct lq_err *text, struct lq_err *err)
{
    const uint8_t *bytes;
    size_t available;
    *found = LQ_FOUND_END;
    lightq_status status = lq_scan_bytes(scan, position, ENTRY_START_BYTES, &bytes, &available, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (available < ENTRY_START_BYTES || lq_scan_is_zero(bytes, ENTRY_START_BYTES)) {
        (void)lq_err_set(text, LIGHTQ_ECORRUPT, "no entry is there");
        return LIGHTQ_OK;
    }
    uint32_t length = lq_get_u32(bytes + 4);
    if (length < LQ_ENTRY_HEADER_BYTES || length > LQ_ENTRY_BYTES_MAX) {
        (void)lq_err_set(text, LIGHTQ_ECORRUPT, "an entry with the impossible length %" PRIu32, length);
        status = lq_scan_bytes(scan, position, LQ_ENTRY_HEADER_BYTES, &bytes, &available, err);
        bool begun = status == LIGHTQ_OK && lq_scan_is_zero(bytes + ENTRY_START_BYTES, available - ENTRY_START_BYTES);
        *found = begun ? LQ_FOUND_TORN : LQ_FOUND_ROTTEN;
        return status;
    }
    return judge_entry(scan, position, length, found, entry, size, text, err);
}
