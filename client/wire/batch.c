/* client/wire/batch.c - writing record batches. Called by the producer of client/lib, by the gateways, the dead-letter
 * producer and tests. The format is drawn in batch.h. */
#include <assert.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/wire/batch.h"
#include "client/wire/batch_layout.h"

#define ZSTD_LEVEL 1 /* batches are small and a producer waits: speed before size */

/* Bytes of the fields of a record beside key, value and headers: length, flags, delta, two lengths, count. */
#define RECORD_FIELDS_MAX (5 + 1 + 10 + 5 + 5 + 2)
#define HEADER_FIELDS_MAX (5 + 5)

static size_t varint_size(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7) {
        size++;
    }
    return size;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

/* A span's length as it is written: -1 for null. */
static uint64_t span_length(struct lq_span span)
{
    return zigzag(span.bytes == NULL ? -1 : (int64_t)span.size);
}

static size_t span_size(struct lq_span span)
{
    return span.bytes == NULL ? 0 : span.size;
}

static uint8_t *put_bytes(uint8_t *at, struct lq_span span)
{
    size_t size = span_size(span);
    if (size > 0) {
        memcpy(at, span.bytes, size);
    }
    return at + size;
}

/* Bytes of @headers when written, their count included. */
static size_t headers_size(const struct lq_record_header *headers, size_t count)
{
    size_t size = varint_size(count);
    for (size_t i = 0; i < count; i++) {
        size += varint_size(headers[i].name.size) + headers[i].name.size;
        size += varint_size(span_length(headers[i].value)) + span_size(headers[i].value);
    }
    return size;
}

static uint8_t *put_headers(uint8_t *at, const struct lq_record_header *headers, size_t count)
{
    at = put_varint(at, count);
    for (size_t i = 0; i < count; i++) {
        at = put_varint(at, headers[i].name.size);
        at = put_bytes(at, headers[i].name);
        at = put_varint(at, span_length(headers[i].value));
        at = put_bytes(at, headers[i].value);
    }
    return at;
}

void lq_batch_writer_init(struct lq_batch_writer *writer, size_t limit)
{
    *writer = (struct lq_batch_writer){.record_count = 0};
    lq_writer_init(&writer->out, limit < LQ_ENTRY_BYTES_MAX ? limit : LQ_ENTRY_BYTES_MAX);
}

void lq_batch_writer_deinit(struct lq_batch_writer *writer)
{
    lq_writer_deinit(&writer->out);
    (void)ZSTD_freeCCtx(writer->zstd);
    writer->zstd = NULL;
    writer->record_count = 0;
}

size_t lq_message_size(struct lq_span key, struct lq_span value, const struct lq_record_header *headers,
                       size_t header_count)
{
    size_t size = span_size(key);
    bool overflow = __builtin_add_overflow(size, span_size(value), &size);
    for (size_t i = 0; i < header_count; i++) {
        overflow |= __builtin_add_overflow(size, headers[i].name.size, &size);
        overflow |= __builtin_add_overflow(size, span_size(headers[i].value), &size);
    }
    return overflow ? SIZE_MAX : size;
}

size_t lq_batch_size_bound(size_t message_size, size_t header_count)
{
    return LQ_BATCH_HEADER_BYTES + RECORD_FIELDS_MAX + header_count * HEADER_FIELDS_MAX + message_size;
}

static bool headers_are_good(const struct lq_record_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (headers[i].name.bytes == NULL) {
            return false;
        }
    }
    return true;
}

/* Room for @size bytes of a record, and for the header in front of the first one; not-OK changes nothing. */
static lightq_status make_room(struct lq_batch_writer *writer, size_t size, uint8_t **at)
{
    struct lq_writer *out = &writer->out;
    size_t head = out->size == 0 ? LQ_BATCH_HEADER_BYTES : 0;
    if (head + size > out->limit - out->size) {
        return LIGHTQ_ETOOBIG;
    }
    uint8_t *space = lq_write_space(out, head + size);
    if (space == NULL) {
        out->status = LIGHTQ_OK; /* what is in it may still be sealed */
        return LIGHTQ_ENOMEM;
    }
    *at = space + head;
    return LIGHTQ_OK;
}

lightq_status lq_batch_writer_add(struct lq_batch_writer *writer, uint64_t timestamp_ms, struct lq_span key,
                                  struct lq_span value, const struct lq_record_header *headers, size_t header_count)
{
    if (header_count > LQ_HEADERS_MAX || timestamp_ms > LQ_BATCH_TIMESTAMP_MAX ||
        !headers_are_good(headers, header_count)) {
        return LIGHTQ_EINVAL;
    }
    if (lq_message_size(key, value, headers, header_count) > LQ_MESSAGE_BYTES_MAX) {
        return LIGHTQ_ETOOBIG;
    }
    if (writer->record_count == LQ_BATCH_RECORDS_MAX) {
        return LIGHTQ_EBUSY;
    }
    uint64_t base_ms = writer->record_count == 0 ? timestamp_ms : writer->base_timestamp_ms;
    int64_t delta_ms = (int64_t)timestamp_ms - (int64_t)base_ms;
    size_t length = 1 + varint_size(zigzag(delta_ms)) + varint_size(span_length(key)) + span_size(key) +
                    varint_size(span_length(value)) + span_size(value) + headers_size(headers, header_count);
    uint8_t *at;
    lightq_status status = make_room(writer, varint_size(length) + length, &at);
    if (status != LIGHTQ_OK) {
        return status;
    }
    at = put_varint(at, length);
    *at++ = 0; /* flags */
    at = put_varint(at, zigzag(delta_ms));
    at = put_varint(at, span_length(key));
    at = put_bytes(at, key);
    at = put_varint(at, span_length(value));
    at = put_bytes(at, value);
    at = put_headers(at, headers, header_count);
    assert(at == writer->out.bytes + writer->out.size);
    writer->base_timestamp_ms = base_ms;
    if (writer->record_count == 0 || delta_ms > writer->max_timestamp_delta_ms) {
        writer->max_timestamp_delta_ms = delta_ms;
    }
    writer->record_count++;
    return LIGHTQ_OK;
}

/* Compresses @records to @to, which has one byte less than they: OK and *size 0 when they do not become smaller. */
static lightq_status compress(struct lq_batch_writer *writer, enum lq_codec_kind codec, const uint8_t *records,
                              size_t records_size, uint8_t *to, size_t *size)
{
    *size = 0;
    if (codec == LQ_BATCH_LZ4) {
        int written = LZ4_compress_default((const char *)records, (char *)to, (int)records_size, (int)records_size - 1);
        *size = written > 0 ? (size_t)written : 0;
        return LIGHTQ_OK;
    }
    if (writer->zstd == NULL) {
        writer->zstd = ZSTD_createCCtx();
        if (writer->zstd == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    size_t written = ZSTD_compressCCtx(writer->zstd, to, records_size - 1, records, records_size, ZSTD_LEVEL);
    if (ZSTD_isError(written)) {
        /* The usual one is that the result would not have been smaller. Whatever it was, plain records are right. */
        return LIGHTQ_OK;
    }
    *size = written;
    return LIGHTQ_OK;
}

/* The batch compressed, in a new slab without its header; *batch is NULL when compression does not pay. */
static lightq_status compressed_slab(struct lq_batch_writer *writer, enum lq_codec_kind codec, struct lq_slab **batch)
{
    const uint8_t *records = writer->out.bytes + LQ_BATCH_HEADER_BYTES;
    size_t records_size = writer->out.size - LQ_BATCH_HEADER_BYTES;
    *batch = NULL;
    uint8_t *compressed = malloc(records_size);
    if (compressed == NULL) {
        return LIGHTQ_ENOMEM;
    }
    size_t size;
    lightq_status status = compress(writer, codec, records, records_size, compressed, &size);
    if (status == LIGHTQ_OK && size > 0) {
        *batch = lq_slab_new(LQ_BATCH_HEADER_BYTES + size);
        status = *batch == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
        if (*batch != NULL) {
            memcpy((*batch)->bytes + LQ_BATCH_HEADER_BYTES, compressed, size);
        }
    }
    free(compressed);
    return status;
}

static void on_release(struct lq_slab *slab, void *context)
{
    (void)context;
    free(slab->bytes);
}

/* The batch as it is: the writer's own buffer when it is used well, a copy of the right size when it is not. */
static struct lq_slab *plain_slab(struct lq_batch_writer *writer)
{
    struct lq_writer *out = &writer->out;
    struct lq_slab *slab;
    if (out->size >= out->capacity / 2) {
        slab = lq_slab_wrap(out->bytes, out->size, on_release, NULL);
        if (slab != NULL) {
            lq_writer_init(out, out->limit);
        }
        return slab;
    }
    slab = lq_slab_new(out->size);
    if (slab != NULL) {
        memcpy(slab->bytes, out->bytes, out->size);
    }
    return slab;
}

static void write_header(const struct lq_batch_writer *writer, uint8_t *at, uint32_t size, uint32_t records_size,
                         enum lq_codec_kind codec)
{
    memset(at, 0, LQ_BATCH_HEADER_BYTES);
    lq_put_u32(at + LQ_BATCH_AT_MAGIC, LQ_BATCH_MAGIC);
    at[LQ_BATCH_AT_VERSION] = LQ_BATCH_VERSION;
    at[LQ_BATCH_AT_CODEC] = (uint8_t)codec;
    lq_put_u32(at + LQ_BATCH_AT_LENGTH, size);
    lq_put_u64(at + LQ_BATCH_AT_BASE_TIMESTAMP, writer->base_timestamp_ms);
    lq_put_u32(at + LQ_BATCH_AT_RECORD_COUNT, writer->record_count);
    lq_put_u64(at + LQ_BATCH_AT_MAX_DELTA, (uint64_t)writer->max_timestamp_delta_ms);
    lq_put_u32(at + LQ_BATCH_AT_RECORDS_LENGTH, records_size);
}

/* What its producer calls it, and the crc over all. */
static void write_numbers(uint8_t *batch, uint32_t size, uint64_t producer_id, uint32_t epoch, uint64_t base_sequence)
{
    lq_put_u64(batch + LQ_BATCH_AT_PRODUCER, producer_id);
    lq_put_u64(batch + LQ_BATCH_AT_BASE_SEQUENCE, base_sequence);
    lq_put_u32(batch + LQ_BATCH_AT_EPOCH, epoch);
    lq_put_u32(batch + LQ_BATCH_AT_CRC, lq_crc32c(0, batch + LQ_BATCH_AT_VERSION, size - LQ_BATCH_AT_VERSION));
}

lightq_status lq_batch_writer_seal(struct lq_batch_writer *writer, uint64_t producer_id, uint32_t epoch,
                                   uint64_t base_sequence, enum lq_codec_kind codec, struct lq_slab **batch)
{
    if (writer->record_count == 0 || codec > LQ_BATCH_ZSTD) {
        return LIGHTQ_EINVAL;
    }
    uint32_t records_size = (uint32_t)(writer->out.size - LQ_BATCH_HEADER_BYTES);
    struct lq_slab *slab = NULL;
    if (codec != LQ_BATCH_PLAIN) {
        lightq_status status = compressed_slab(writer, codec, &slab);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    if (slab == NULL) {
        codec = LQ_BATCH_PLAIN;
        slab = plain_slab(writer);
        if (slab == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    write_header(writer, slab->bytes, (uint32_t)slab->size, records_size, codec);
    write_numbers(slab->bytes, (uint32_t)slab->size, producer_id, epoch, base_sequence);
    writer->out.size = 0;
    writer->record_count = 0;
    writer->max_timestamp_delta_ms = 0;
    *batch = slab;
    return LIGHTQ_OK;
}
