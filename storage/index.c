/* storage/index.c - encodes and checks .idx files (storage/index.h draws them). Called by storage/background.c,
 * storage/recover.c and storage/rlog.c on the loop thread. */
#include "storage/index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "storage/disk.h"

#define CRC_FROM     16
#define RUN_BYTES    16
#define CHANGE_BYTES 16
#define POINT_BYTES  32

static const char MAGIC[8] = {'L', 'Q', 'I', 'N', 'D', 'E', 'X', '1'};

void lq_index_deinit(struct lq_index *index)
{
    free(index->runs);
    free(index->changes);
    free(index->points);
    *index = (struct lq_index){.first = 0};
}

static void encode_arrays(const struct lq_index *index, uint8_t *at)
{
    for (size_t i = 0; i < index->run_count; i++, at += RUN_BYTES) {
        lq_put_u64(at, index->runs[i].first);
        lq_put_u64(at + 8, index->runs[i].term);
    }
    for (size_t i = 0; i < index->change_count; i++, at += CHANGE_BYTES) {
        lq_put_u64(at, index->changes[i].index);
        lq_put_u64(at + 8, index->changes[i].position);
    }
    for (size_t i = 0; i < index->point_count; i++, at += POINT_BYTES) {
        lq_put_u64(at, index->points[i].index);
        lq_put_u64(at + 8, index->points[i].position);
        lq_put_u64(at + 16, index->points[i].base_offset);
        lq_put_u64(at + 24, index->points[i].timestamp_ms);
    }
}

lightq_status lq_index_encode(const struct lq_checkpoint_owner *owner, const struct lq_index *index, uint8_t **blob,
                              size_t *size)
{
    size_t total = LQ_INDEX_HEADER_BYTES + index->run_count * RUN_BYTES + index->change_count * CHANGE_BYTES +
                   index->point_count * POINT_BYTES;
    uint8_t *at = calloc(1, total);
    if (at == NULL) {
        return LIGHTQ_ENOMEM;
    }
    memcpy(at, MAGIC, sizeof MAGIC);
    lq_put_u32(at + 8, LQ_INDEX_VERSION);
    memcpy(at + 16, owner->cluster.bytes, sizeof owner->cluster.bytes);
    lq_put_u64(at + 32, owner->group);
    lq_put_u32(at + 40, owner->incarnation);
    lq_put_u32(at + 44, index->tail_crc);
    lq_put_u64(at + 48, index->first);
    lq_put_u64(at + 56, index->last);
    lq_put_u64(at + 64, index->prev_term);
    lq_put_u64(at + 72, index->last_term);
    lq_put_u64(at + 80, index->segment_length);
    lq_put_u64(at + 88, index->tail_position);
    lq_put_u64(at + 96, index->next_offset);
    lq_put_u64(at + 104, index->last_timestamp_ms);
    lq_put_u32(at + 112, (uint32_t)index->run_count);
    lq_put_u32(at + 116, (uint32_t)index->change_count);
    lq_put_u32(at + 120, (uint32_t)index->point_count);
    encode_arrays(index, at + LQ_INDEX_HEADER_BYTES);
    lq_put_u32(at + 12, lq_crc32c(lq_crc32c(0, at + 8, 4), at + CRC_FROM, total - CRC_FROM));
    *blob = at;
    *size = total;
    return LIGHTQ_OK;
}

uint32_t lq_index_crc_begin(const uint8_t at[LQ_INDEX_HEADER_BYTES])
{
    return lq_crc32c(lq_crc32c(0, at + 8, 4), at + CRC_FROM, LQ_INDEX_HEADER_BYTES - CRC_FROM);
}

static struct lq_index decode_head(const uint8_t *at)
{
    return (struct lq_index){
        .first = lq_get_u64(at + 48),
        .last = lq_get_u64(at + 56),
        .prev_term = lq_get_u64(at + 64),
        .last_term = lq_get_u64(at + 72),
        .segment_length = lq_get_u64(at + 80),
        .tail_position = lq_get_u64(at + 88),
        .next_offset = lq_get_u64(at + 96),
        .last_timestamp_ms = lq_get_u64(at + 104),
        .tail_crc = lq_get_u32(at + 44),
    };
}

/* Of bytes whose crc is right. */
static lightq_status head_check(const struct lq_checkpoint_owner *owner, uint64_t first, const char *path,
                                const uint8_t *bytes, struct lq_err *err)
{
    if (lq_get_u32(bytes + 8) != LQ_INDEX_VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION, "%s: index of format version %" PRIu32 ", this program reads %d", path,
                          lq_get_u32(bytes + 8), LQ_INDEX_VERSION);
    }
    if (memcmp(bytes + 16, owner->cluster.bytes, sizeof owner->cluster.bytes) != 0) {
        return lq_err_set(err, LIGHTQ_EIDENTITY, "%s: of another cluster", path);
    }
    if (lq_get_u64(bytes + 32) != owner->group || lq_get_u32(bytes + 40) != owner->incarnation ||
        lq_get_u64(bytes + 48) != first || lq_get_u64(bytes + 56) < first) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: its header is of another file", path);
    }
    return LIGHTQ_OK;
}

lightq_status lq_index_check_head(const struct lq_checkpoint_owner *owner, uint64_t first, const char *path,
                                  const uint8_t at[LQ_INDEX_HEADER_BYTES], struct lq_index *index, uint32_t *crc,
                                  struct lq_err *err)
{
    if (memcmp(at, MAGIC, sizeof MAGIC) != 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: not an index", path);
    }
    *index = decode_head(at);
    *crc = lq_get_u32(at + 12);
    return head_check(owner, first, path, at, err);
}

static lightq_status crc_check(const char *path, const uint8_t *bytes, size_t size, struct lq_err *err)
{
    if (size < LQ_INDEX_HEADER_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: not an index", path);
    }
    if (lq_get_u32(bytes + 12) !=
        lq_crc32c(lq_index_crc_begin(bytes), bytes + LQ_INDEX_HEADER_BYTES, size - LQ_INDEX_HEADER_BYTES)) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: the crc does not match", path);
    }
    return LIGHTQ_OK;
}

/* The arrays in order, inside the segment's bounds, and beginning with its first entry. */
static bool makes_sense(const struct lq_index *index)
{
    if (index->run_count == 0 || index->point_count == 0 || index->runs[0].first != index->first ||
        index->points[0].index != index->first || index->points[0].position != LQ_SEGMENT_HEADER_BYTES ||
        index->runs[index->run_count - 1].term != index->last_term) {
        return false;
    }
    for (size_t i = 0; i < index->run_count; i++) {
        if (index->runs[i].first > index->last || (i > 0 && index->runs[i].first <= index->runs[i - 1].first)) {
            return false;
        }
    }
    for (size_t i = 0; i < index->change_count; i++) {
        if (index->changes[i].index < index->first || index->changes[i].index > index->last ||
            index->changes[i].position >= index->segment_length ||
            (i > 0 && index->changes[i].index <= index->changes[i - 1].index)) {
            return false;
        }
    }
    for (size_t i = 1; i < index->point_count; i++) {
        if (index->points[i].index > index->last || index->points[i].index <= index->points[i - 1].index ||
            index->points[i].position <= index->points[i - 1].position ||
            index->points[i].position >= index->segment_length) {
            return false;
        }
    }
    return index->tail_position >= LQ_SEGMENT_HEADER_BYTES && index->tail_position < index->segment_length;
}

static void decode_arrays(struct lq_index *index, const uint8_t *at)
{
    for (size_t i = 0; i < index->run_count; i++, at += RUN_BYTES) {
        index->runs[i] = (struct lq_index_run){.first = lq_get_u64(at), .term = lq_get_u64(at + 8)};
    }
    for (size_t i = 0; i < index->change_count; i++, at += CHANGE_BYTES) {
        index->changes[i] = (struct lq_index_change){.index = lq_get_u64(at), .position = lq_get_u64(at + 8)};
    }
    for (size_t i = 0; i < index->point_count; i++, at += POINT_BYTES) {
        index->points[i] = (struct lq_point){.index = lq_get_u64(at),
                                             .position = lq_get_u64(at + 8),
                                             .base_offset = lq_get_u64(at + 16),
                                             .timestamp_ms = lq_get_u64(at + 24)};
    }
}

static lightq_status decode(const char *path, const uint8_t *bytes, size_t size, struct lq_index *index,
                            struct lq_err *err)
{
    uint64_t runs = lq_get_u32(bytes + 112);
    uint64_t changes = lq_get_u32(bytes + 116);
    uint64_t points = lq_get_u32(bytes + 120);
    if (LQ_INDEX_HEADER_BYTES + runs * RUN_BYTES + changes * CHANGE_BYTES + points * POINT_BYTES != size) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: %zu bytes long, its counts say otherwise", path, size);
    }
    *index = decode_head(bytes);
    index->runs = calloc((size_t)runs + 1, sizeof *index->runs);
    index->run_count = (size_t)runs;
    index->changes = calloc((size_t)changes + 1, sizeof *index->changes);
    index->change_count = (size_t)changes;
    index->points = calloc((size_t)points + 1, sizeof *index->points);
    index->point_count = (size_t)points;
    if (index->runs == NULL || index->changes == NULL || index->points == NULL) {
        lq_index_deinit(index);
        return lq_err_set(err, LIGHTQ_ENOMEM, "%s: no memory to read it", path);
    }
    decode_arrays(index, bytes + LQ_INDEX_HEADER_BYTES);
    if (!makes_sense(index)) {
        lq_index_deinit(index);
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: its content contradicts itself", path);
    }
    return LIGHTQ_OK;
}

lightq_status lq_index_read(struct lq_io *io, const struct lq_checkpoint_owner *owner, const char *dir, uint64_t first,
                            uint64_t limit, struct lq_index *index, struct lq_err *err)
{
    char path[LQ_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t size = 0;
    *index = (struct lq_index){.first = 0};
    lq_path_numbered(path, dir, first, ".idx");
    lightq_status status = lq_disk_read_file(io, path, limit, &bytes, &size, err);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ETOOBIG ? LIGHTQ_ECORRUPT : status;
    }
    status = crc_check(path, bytes, size, err);
    if (status == LIGHTQ_OK) {
        status = head_check(owner, first, path, bytes, err);
    }
    if (status == LIGHTQ_OK) {
        status = decode(path, bytes, size, index, err);
    }
    free(bytes);
    return status;
}
