/* client/wire/batch_read.c - checking and reading record batches. Called by the node, once per batch that comes in, by
 * the consumer of client/lib, by the digest and the tools. The format is drawn in batch.h. */
#include <lz4.h>
#include <stdlib.h>
#include <zstd.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/wire/batch.h"
#include "client/wire/batch_layout.h"

/* The readers below go from @at on, not past @end, and give where they stopped, or NULL when the bytes are not sound.
 * They are the broker's inner loop: pointers in registers, and varints of one or two bytes read in place. */

static const uint8_t *read_long_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    struct lq_reader reader = lq_reader_of(at, (size_t)(end - at));
    *value = lq_read_varint(&reader);
    return reader.failed ? NULL : at + reader.position;
}

static inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    if (end - at >= 2) {
        if (at[0] < 0x80) {
            *value = at[0];
            return at + 1;
        }
        if (at[1] < 0x80 && at[1] != 0) {
            *value = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
            return at + 2;
        }
    }
    uint64_t slow; /* so that *value may stay in a register */
    at = read_long_varint(at, end, &slow);
    *value = slow;
    return at;
}

/* A nullable span: signed length, then bytes; -1 is null, anything lower is not sound. */
static inline const uint8_t *read_span(const uint8_t *at, const uint8_t *end, struct lq_span *span)
{
    uint64_t zigzag;
    at = read_varint(at, end, &zigzag);
    if (at == NULL) {
        return NULL;
    }
    if ((zigzag & 1) != 0) {
        *span = lq_span_of(NULL, 0);
        return zigzag == 1 ? at : NULL;
    }
    uint64_t size = zigzag >> 1;
    if (size > (uint64_t)(end - at)) {
        return NULL;
    }
    *span = lq_span_of(at, size);
    return at + size;
}

/* A header's name: plain length, then bytes. */
static inline const uint8_t *read_name(const uint8_t *at, const uint8_t *end, struct lq_span *name)
{
    uint64_t size;
    at = read_varint(at, end, &size);
    if (at == NULL || size > (uint64_t)(end - at)) {
        return NULL;
    }
    *name = lq_span_of(at, size);
    return at + size;
}

static const uint8_t *read_header(const uint8_t *at, const uint8_t *end, struct lq_record_header *header)
{
    at = read_name(at, end, &header->name);
    return at == NULL ? NULL : read_span(at, end, &header->value);
}

/* The headers of a record, which end where it does; adds what they count as message. */
static inline bool read_headers(const uint8_t *at, const uint8_t *end, struct lq_record *record, size_t *message_size)
{
    uint64_t count;
    at = read_varint(at, end, &count);
    if (at == NULL || count > LQ_HEADERS_MAX) {
        return false;
    }
    record->header_count = (uint32_t)count;
    record->headers = lq_span_of(at, (size_t)(end - at));
    for (; count > 0; count--) {
        struct lq_record_header header;
        at = read_header(at, end, &header);
        if (at == NULL) {
            return false;
        }
        *message_size += header.name.size + header.value.size;
    }
    return at == end;
}

/* The next record. Its sequence, index and time are not filled in. */
static inline const uint8_t *read_record(const uint8_t *at, const uint8_t *end, struct lq_record *record,
                                         int64_t *delta_ms, size_t *message_size)
{
    uint64_t length;
    at = read_varint(at, end, &length);
    if (at == NULL || length > (uint64_t)(end - at) || length == 0 || *at != 0) {
        return NULL; /* *at: the flags */
    }
    end = at + length;
    uint64_t zigzag;
    at = read_varint(at + 1, end, &zigzag);
    at = at == NULL ? NULL : read_span(at, end, &record->key);
    at = at == NULL ? NULL : read_span(at, end, &record->value);
    if (at == NULL) {
        return NULL;
    }
    *delta_ms = (int64_t)(zigzag >> 1 ^ (0 - (zigzag & 1)));
    *message_size = record->key.size + record->value.size;
    return read_headers(at, end, record, message_size) ? end : NULL;
}

/* Whether base + delta is a time that a batch may have. */
static inline bool is_time(const struct lq_batch_head *head, int64_t delta_ms)
{
    int64_t limit = (int64_t)LQ_BATCH_TIMESTAMP_MAX;
    return delta_ms <= limit && delta_ms >= -limit && (int64_t)head->base_timestamp_ms + delta_ms >= 0 &&
           (int64_t)head->base_timestamp_ms + delta_ms <= limit;
}

static lightq_status check_head(const struct lq_batch_head *head, const uint8_t *at, struct lq_err *err)
{
    if (head->codec > LQ_BATCH_ZSTD) {
        return lq_err_set(err, LIGHTQ_EVERSION, "a batch with the unknown codec %u", head->codec);
    }
    if (lq_get_u16(at + LQ_BATCH_AT_ATTRIBUTES) != 0 || lq_get_u32(at + LQ_BATCH_AT_RESERVED) != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a batch with attributes or reserved bytes that are not 0");
    }
    if (head->record_count == 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a batch without records");
    }
    if (head->record_count > LQ_BATCH_RECORDS_MAX) {
        return lq_err_set(err, LIGHTQ_ETOOBIG, "a batch of %u records, and %d are allowed", head->record_count,
                          LQ_BATCH_RECORDS_MAX);
    }
    if (head->records_size / LQ_RECORD_BYTES_MIN < head->record_count) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a batch of %u records in %u bytes", head->record_count,
                          head->records_size);
    }
    if (head->base_timestamp_ms > LQ_BATCH_TIMESTAMP_MAX || !is_time(head, head->max_timestamp_delta_ms) ||
        head->base_sequence > UINT64_MAX - head->record_count) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a batch with times or sequences out of range");
    }
    if (head->codec == LQ_BATCH_PLAIN && head->records_size != head->size - LQ_BATCH_HEADER_BYTES) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a batch of %u bytes with %u bytes of records", head->size,
                          head->records_size);
    }
    return LIGHTQ_OK;
}

lightq_status lq_batch_head_decode(const void *bytes, size_t size, struct lq_batch_head *head, struct lq_err *err)
{
    const uint8_t *at = bytes;
    if (size < LQ_BATCH_HEADER_BYTES) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%zu bytes are shorter than a batch's header", size);
    }
    if (lq_get_u32(at + LQ_BATCH_AT_MAGIC) != LQ_BATCH_MAGIC) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the batch does not begin with LQRB");
    }
    if (at[LQ_BATCH_AT_VERSION] != LQ_BATCH_VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION, "a batch of version %u, and only %d is known here",
                          at[LQ_BATCH_AT_VERSION], LQ_BATCH_VERSION);
    }
    uint32_t length = lq_get_u32(at + LQ_BATCH_AT_LENGTH);
    if (length != size) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a batch that calls itself %u bytes long in %zu bytes", length, size);
    }
    struct lq_batch_head read = {
        .crc = lq_get_u32(at + LQ_BATCH_AT_CRC),
        .codec = at[LQ_BATCH_AT_CODEC],
        .size = length,
        .producer_id = lq_get_u64(at + LQ_BATCH_AT_PRODUCER),
        .base_sequence = lq_get_u64(at + LQ_BATCH_AT_BASE_SEQUENCE),
        .base_timestamp_ms = lq_get_u64(at + LQ_BATCH_AT_BASE_TIMESTAMP),
        .epoch = lq_get_u32(at + LQ_BATCH_AT_EPOCH),
        .record_count = lq_get_u32(at + LQ_BATCH_AT_RECORD_COUNT),
        .max_timestamp_delta_ms = (int64_t)lq_get_u64(at + LQ_BATCH_AT_MAX_DELTA),
        .records_size = lq_get_u32(at + LQ_BATCH_AT_RECORDS_LENGTH),
    };
    lightq_status status = check_head(&read, at, err);
    if (status == LIGHTQ_OK) {
        *head = read;
    }
    return status;
}

/* Header, size limit and crc: all that is checked before a byte of the records is looked at. */
static lightq_status check_outside(const uint8_t *bytes, size_t size, uint64_t batch_bytes_max,
                                   struct lq_batch_head *head, struct lq_err *err)
{
    if (size > batch_bytes_max) {
        return lq_err_set(err, LIGHTQ_ETOOBIG, "a batch of %zu bytes is above the limit of %llu", size,
                          (unsigned long long)batch_bytes_max);
    }
    lightq_status status = lq_batch_head_decode(bytes, size, head, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if ((uint64_t)head->records_size + LQ_BATCH_HEADER_BYTES > batch_bytes_max) {
        return lq_err_set(err, LIGHTQ_ETOOBIG, "a batch of %u bytes of records is above the limit of %llu",
                          head->records_size, (unsigned long long)batch_bytes_max);
    }
    uint32_t crc = lq_crc32c(0, bytes + LQ_BATCH_AT_VERSION, size - LQ_BATCH_AT_VERSION);
    if (crc != head->crc) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the batch's crc is wrong: %08x is in it, %08x is right", head->crc, crc);
    }
    return LIGHTQ_OK;
}

/* Unpacks the records to @to, which has head->records_size bytes. @zstd may be NULL for lz4. */
static lightq_status decompress(const struct lq_batch_head *head, const uint8_t *batch, ZSTD_DCtx *zstd, uint8_t *to,
                                struct lq_err *err)
{
    const uint8_t *from = batch + LQ_BATCH_HEADER_BYTES;
    size_t size = head->size - LQ_BATCH_HEADER_BYTES;
    bool whole;
    if (head->codec == LQ_BATCH_LZ4) {
        int got = LZ4_decompress_safe((const char *)from, (char *)to, (int)size, (int)head->records_size);
        whole = got >= 0 && (uint32_t)got == head->records_size;
    } else {
        whole = ZSTD_decompressDCtx(zstd, to, head->records_size, from, size) == head->records_size;
    }
    if (!whole) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the batch's compressed records are not %u bytes when unpacked",
                          head->records_size);
    }
    return LIGHTQ_OK;
}

void lq_batch_scratch_deinit(struct lq_batch_scratch *scratch)
{
    free(scratch->bytes);
    (void)ZSTD_freeDCtx(scratch->zstd);
    *scratch = (struct lq_batch_scratch){.bytes = NULL};
}

/* Unpacks a compressed batch's records into the scratch. */
static lightq_status unpack_to_scratch(const struct lq_batch_head *head, const uint8_t *batch,
                                       struct lq_batch_scratch *scratch, struct lq_err *err)
{
    if (scratch == NULL) {
        return lq_err_set(err, LIGHTQ_EUNSUPPORTED, "a compressed batch is not taken here");
    }
    if (head->codec == LQ_BATCH_ZSTD && scratch->zstd == NULL) {
        scratch->zstd = ZSTD_createDCtx();
        if (scratch->zstd == NULL) {
            return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for unpacking a batch");
        }
    }
    if (scratch->capacity < head->records_size) {
        free(scratch->bytes); /* its content is of no use: no copy */
        scratch->capacity = 0;
        scratch->bytes = malloc(head->records_size);
        if (scratch->bytes == NULL) {
            return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for unpacking a batch of %u bytes",
                              head->records_size);
        }
        scratch->capacity = head->records_size;
    }
    return decompress(head, batch, scratch->zstd, scratch->bytes, err);
}

/* Walks all records: their borders, lengths and times; sums up their sizes. */
static lightq_status walk(const uint8_t *at, const uint8_t *end, struct lq_batch_summary *summary, struct lq_err *err)
{
    int64_t max_delta_ms = INT64_MIN;
    for (uint32_t i = 0; i < summary->head.record_count; i++) {
        struct lq_record record;
        int64_t delta_ms;
        size_t message_size;
        at = read_record(at, end, &record, &delta_ms, &message_size);
        if (at == NULL || !is_time(&summary->head, delta_ms)) {
            return lq_err_set(err, LIGHTQ_EPROTO, "record %u of the batch is not sound", i);
        }
        max_delta_ms = delta_ms > max_delta_ms ? delta_ms : max_delta_ms;
        summary->message_bytes += message_size;
        if (message_size > summary->largest_message_bytes) {
            summary->largest_message_bytes = message_size;
            summary->largest_index = i;
        }
    }
    if (at != end) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%zu bytes behind the last record of the batch", (size_t)(end - at));
    }
    if (max_delta_ms != summary->head.max_timestamp_delta_ms) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the batch's largest time is not that of its records");
    }
    return LIGHTQ_OK;
}

lightq_status lq_batch_check(const void *bytes, size_t size, const struct lq_batch_limits *limits,
                             struct lq_batch_scratch *scratch, struct lq_batch_summary *summary, struct lq_err *err)
{
    uint64_t message_max =
        limits == NULL || limits->message_bytes_max == 0 ? LQ_MESSAGE_BYTES_MAX : limits->message_bytes_max;
    uint64_t batch_max = limits == NULL || limits->batch_bytes_max == 0 ? LQ_ENTRY_BYTES_MAX : limits->batch_bytes_max;
    *summary = (struct lq_batch_summary){.message_bytes = 0};
    lightq_status status = check_outside(bytes, size, batch_max, &summary->head, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    const uint8_t *records = (const uint8_t *)bytes + LQ_BATCH_HEADER_BYTES;
    if (summary->head.codec != LQ_BATCH_PLAIN) {
        status = unpack_to_scratch(&summary->head, bytes, scratch, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        records = scratch->bytes;
    }
    status = walk(records, records + summary->head.records_size, summary, err);
    if (status == LIGHTQ_OK && summary->largest_message_bytes > message_max) {
        return lq_err_set(err, LIGHTQ_ETOOBIG, "message %u of the batch has %llu bytes, above the limit of %llu",
                          summary->largest_index, (unsigned long long)summary->largest_message_bytes,
                          (unsigned long long)message_max);
    }
    return status;
}

/* Unpacks a compressed batch's records into memory of its own. */
static lightq_status unpack_to_heap(struct lq_batch *batch, const uint8_t *bytes, struct lq_err *err)
{
    uint32_t size = batch->head.records_size;
    ZSTD_DCtx *zstd = batch->head.codec == LQ_BATCH_ZSTD ? ZSTD_createDCtx() : NULL;
    batch->unpacked = malloc(size > 0 ? size : 1);
    lightq_status status;
    if (batch->unpacked == NULL || (zstd == NULL && batch->head.codec == LQ_BATCH_ZSTD)) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for unpacking a batch of %u bytes", size);
    } else {
        status = decompress(&batch->head, bytes, zstd, batch->unpacked, err);
    }
    (void)ZSTD_freeDCtx(zstd);
    if (status != LIGHTQ_OK) {
        free(batch->unpacked);
        batch->unpacked = NULL;
        return status;
    }
    batch->at = batch->unpacked;
    batch->end = batch->at + size;
    return LIGHTQ_OK;
}

lightq_status lq_batch_open(struct lq_batch *batch, const void *bytes, size_t size, struct lq_err *err)
{
    *batch = (struct lq_batch){.next_index = 0};
    lightq_status status = check_outside(bytes, size, LQ_ENTRY_BYTES_MAX, &batch->head, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (batch->head.codec != LQ_BATCH_PLAIN) {
        return unpack_to_heap(batch, bytes, err);
    }
    batch->at = (const uint8_t *)bytes + LQ_BATCH_HEADER_BYTES;
    batch->end = (const uint8_t *)bytes + size;
    return LIGHTQ_OK;
}

lightq_status lq_batch_next(struct lq_batch *batch, struct lq_record *record)
{
    if (batch->at != NULL && batch->next_index == batch->head.record_count) {
        return batch->at == batch->end ? LIGHTQ_ENOTFOUND : LIGHTQ_EPROTO;
    }
    int64_t delta_ms;
    size_t message_size;
    if (batch->at != NULL) {
        batch->at = read_record(batch->at, batch->end, record, &delta_ms, &message_size);
    }
    if (batch->at == NULL || !is_time(&batch->head, delta_ms)) {
        batch->at = NULL;
        return LIGHTQ_EPROTO;
    }
    record->index = batch->next_index++;
    record->sequence = batch->head.base_sequence + record->index;
    record->timestamp_ms = (uint64_t)((int64_t)batch->head.base_timestamp_ms + delta_ms);
    return LIGHTQ_OK;
}

void lq_batch_close(struct lq_batch *batch)
{
    free(batch->unpacked);
    batch->unpacked = NULL;
}

bool lq_record_header_next(struct lq_span *headers, struct lq_record_header *header)
{
    if (headers->size == 0) {
        return false;
    }
    const uint8_t *end = headers->bytes + headers->size;
    const uint8_t *at = read_header(headers->bytes, end, header);
    if (at == NULL) {
        headers->size = 0; /* not the headers of a record that was read: end here */
        return false;
    }
    *headers = lq_span_of(at, (size_t)(end - at));
    return true;
}

uint32_t lq_batch_record_crc(const struct lq_record *record)
{
    return lq_crc32c(0, record->value.bytes, record->value.size);
}
