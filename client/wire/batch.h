/* client/wire/batch.h - the record batch: many messages packed by a producer, stored and delivered as the same bytes.
 * Little endian:
 *
 *      0  magic                   u32   "LQRB": 0x4c 0x51 0x52 0x42
 *      4  crc                     u32   CRC32C of byte 8 to the end of the batch
 *      8  version                 u8    1
 *      9  codec                   u8    of the records: 0 none, 1 lz4 (block), 2 zstd (one frame)
 *     10  attributes              u16   0 (kept for transactions and control batches)
 *     12  length                  u32   of the whole batch, these 64 bytes included
 *     16  producer_id             u64
 *     24  base_sequence           u64   the producer's sequence of the first record; sequences count messages
 *     32  base_timestamp_ms       u64   the producer's clock at the first record, milliseconds since 1970
 *     40  epoch                   u32   of the producer when it made the batch
 *     44  record_count            u32   1 to 65536
 *     48  max_timestamp_delta_ms  i64   the largest of the records' deltas
 *     56  records_length          u32   of the records when not compressed
 *     60  reserved                u32   0
 *     64  records, one after the other, compressed together when codec is not 0:
 *
 *     record: length              varint         of all that follows in this record
 *             flags               u8             0
 *             timestamp_delta_ms  signed varint  to base_timestamp_ms
 *             key_length          signed varint  -1: null, 0: empty
 *             key
 *             value_length        signed varint  -1: null, 0: empty
 *             value
 *             header_count        varint         at most 256, then for each:
 *                 name_length     varint         and name
 *                 value_length    signed varint  -1: null; and value
 *
 * A varint is LEB128 in its shortest form; a signed one is zigzag. A record ends exactly where its length says, and the
 * records end exactly at the end. A message's size, which max.message.bytes bounds, is that of its key, value, and
 * headers' names and values together.
 *
 * The producer writes batches (batch.c), the broker checks each once and stores it as it is, the consumer reads it
 * (batch_read.c). Pure functions, any thread, one at a time for each object. docs/format/batch.md explains it. */
#ifndef LQ_WIRE_BATCH_H
#define LQ_WIRE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/slab.h"

#define LQ_BATCH_MAGIC        0x4252514cu /* "LQRB" read as little endian */
#define LQ_BATCH_VERSION      1
#define LQ_BATCH_HEADER_BYTES 64

enum lq_codec_kind { LQ_BATCH_PLAIN = 0, LQ_BATCH_LZ4 = 1, LQ_BATCH_ZSTD = 2 };

/* Bytes of somebody else; null is a pointer of NULL, empty has a pointer and size 0. */
struct lq_span {
    const uint8_t *bytes;
    size_t size;
};

static inline struct lq_span lq_span_of(const void *bytes, size_t size)
{
    return (struct lq_span){.bytes = bytes, .size = size};
}

struct lq_record_header {
    struct lq_span name; /* never null */
    struct lq_span value;
};

/* The fixed part of a batch. */
struct lq_batch_head {
    uint32_t crc; /* what the acked files and answers call batch_crc */
    uint8_t codec;
    uint32_t size; /* of the whole batch */
    uint64_t producer_id;
    uint64_t base_sequence;
    uint64_t base_timestamp_ms;
    uint32_t epoch;
    uint32_t record_count;
    int64_t max_timestamp_delta_ms;
    uint32_t records_size; /* not compressed */
};

/* ---- writing */

struct lq_batch_writer {
    struct lq_writer out;     /* 64 bytes for the header, then records */
    struct ZSTD_CCtx_s *zstd; /* made when first needed */
    uint64_t base_timestamp_ms;
    int64_t max_timestamp_delta_ms;
    uint32_t record_count;
};

/* @limit (LQ_ENTRY_BYTES_MAX at most) bounds the whole batch, uncompressed, header included. No allocation before the
 * first record. */
void lq_batch_writer_init(struct lq_batch_writer *writer, size_t limit);
void lq_batch_writer_deinit(struct lq_batch_writer *writer);
/* Appends a record; all bytes are copied. A null value or key is a span with bytes NULL. Not-OK leaves the batch as it
 * was. OK | ETOOBIG (the limit would be passed: seal, and put it into the next batch) | EBUSY (LQ_BATCH_RECORDS_MAX
 * records are in: the same) | EINVAL (too many headers, a null header name, a time above 2^61 ms) | ENOMEM.
 */
lightq_status lq_batch_writer_add(struct lq_batch_writer *writer, uint64_t timestamp_ms, struct lq_span key,
                                  struct lq_span value, const struct lq_record_header *headers,
                                  size_t header_count) LQ_MUST_CHECK;
static inline uint32_t lq_batch_writer_count(const struct lq_batch_writer *writer)
{
    return writer->record_count;
}
/* What the batch has come to, uncompressed, header included; 0 when it is empty. */
static inline size_t lq_batch_writer_size(const struct lq_batch_writer *writer)
{
    return writer->out.size;
}
/* Finishes the batch: compresses (unless that does not make it smaller: then codec is 0), writes the header and the
 * crc. OK: *batch is a slab of exactly the batch, one reference, and the writer is empty and may be used again. EINVAL:
 * no record is in it. ENOMEM, EINTERNAL (the compressor failed): the writer keeps its records. */
lightq_status lq_batch_writer_seal(struct lq_batch_writer *writer, uint64_t producer_id, uint32_t epoch,
                                   uint64_t base_sequence, enum lq_codec_kind codec,
                                   struct lq_slab **batch) LQ_MUST_CHECK;

/* The size that max.message.bytes bounds. */
size_t lq_message_size(struct lq_span key, struct lq_span value, const struct lq_record_header *headers,
                       size_t header_count);
/* The most bytes a batch of one message of lq_message_size @message_size and @header_count headers takes, so that a
 * batch limit can be made to hold the largest message. */
size_t lq_batch_size_bound(size_t message_size, size_t header_count);

/* ---- checking: what the broker does once per batch */

struct lq_batch_limits {
    uint64_t message_bytes_max; /* 0: LQ_MESSAGE_BYTES_MAX */
    uint64_t batch_bytes_max;   /* of the batch, also uncompressed; 0: LQ_ENTRY_BYTES_MAX */
};

/* Where compressed records are unpacked to; kept by who checks many batches. Grows to batch_bytes_max at most. */
struct lq_batch_scratch {
    uint8_t *bytes;
    size_t capacity;
    struct ZSTD_DCtx_s *zstd; /* made when first needed */
};
void lq_batch_scratch_deinit(struct lq_batch_scratch *scratch); /* {0} is an empty one */

struct lq_batch_summary {
    struct lq_batch_head head;
    uint64_t message_bytes;         /* the sum of the messages' sizes */
    uint64_t largest_message_bytes; /* as lq_message_size counts */
    uint32_t largest_index;         /* which message that is */
};

/* Whether the @size bytes are one whole, sound batch within @limits (NULL: the hard ones). Walks the records' borders
 * and lengths, not the keys and values. No allocation for uncompressed batches; @scratch may be NULL when they only are
 * (a compressed one is then EUNSUPPORTED). @summary is filled as far as it came (head at least when OK or a message is
 * too big). @err may be NULL.
 * EPROTO: not a batch, lengths that do not meet, a wrong crc, flags or attributes that are not 0. EVERSION: of another
 * version, or an unknown codec. ETOOBIG: a message, the batch or its count above the limit. ENOMEM. */
lightq_status lq_batch_check(const void *bytes, size_t size, const struct lq_batch_limits *limits,
                             struct lq_batch_scratch *scratch, struct lq_batch_summary *summary,
                             struct lq_err *err) LQ_MUST_CHECK;

/* ---- reading */

/* Only the header, without the crc: for bytes that were checked when they came in.
 * OK | EPROTO | EVERSION | ETOOBIG as above; *head is filled when OK. */
lightq_status lq_batch_head_decode(const void *bytes, size_t size, struct lq_batch_head *head,
                                   struct lq_err *err) LQ_MUST_CHECK;

struct lq_record {
    uint32_t index;    /* in the batch, from 0: its offset is base_offset + index */
    uint64_t sequence; /* base_sequence + index */
    uint64_t timestamp_ms;
    struct lq_span key;
    struct lq_span value;
    uint32_t header_count;
    struct lq_span headers; /* encoded: read with lq_record_header_next */
};

struct lq_batch {
    struct lq_batch_head head;
    const uint8_t *at; /* of the next record; NULL after one that was not sound */
    const uint8_t *end;
    uint32_t next_index;
    uint8_t *unpacked; /* owned, when it was compressed */
};

/* Opens the batch of exactly @size bytes (borrowed until close, as are the records read from it): checks the header,
 * the limits of limits.h and the crc, and unpacks compressed records. OK: close with lq_batch_close; otherwise there is
 * nothing to close. EPROTO | EVERSION | ETOOBIG | ENOMEM. */
lightq_status lq_batch_open(struct lq_batch *batch, const void *bytes, size_t size, struct lq_err *err) LQ_MUST_CHECK;
/* The next record. OK | ENOTFOUND (that was the last) | EPROTO (the records are not sound; it stays so). */
lightq_status lq_batch_next(struct lq_batch *batch, struct lq_record *record) LQ_MUST_CHECK;
void lq_batch_close(struct lq_batch *batch);

/* The next of a record's headers; @headers is a copy of record->headers and moves on. False: no more. */
bool lq_record_header_next(struct lq_span *headers, struct lq_record_header *header);

/* CRC32C of the record's value (0 for null or empty): payload_crc of the consumers' logs and of the digests. */
uint32_t lq_batch_record_crc(const struct lq_record *record);

#endif
