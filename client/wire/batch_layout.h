/* client/wire/batch_layout.h - where the fields of a batch's header are (batch.h draws it). Only batch.c and
 * batch_read.c, and tests that damage batches, include it. */
#ifndef LQ_WIRE_BATCH_LAYOUT_H
#define LQ_WIRE_BATCH_LAYOUT_H

enum {
    LQ_BATCH_AT_MAGIC = 0,
    LQ_BATCH_AT_CRC = 4,
    LQ_BATCH_AT_VERSION = 8,
    LQ_BATCH_AT_CODEC = 9,
    LQ_BATCH_AT_ATTRIBUTES = 10,
    LQ_BATCH_AT_LENGTH = 12,
    LQ_BATCH_AT_PRODUCER = 16,
    LQ_BATCH_AT_BASE_SEQUENCE = 24,
    LQ_BATCH_AT_BASE_TIMESTAMP = 32,
    LQ_BATCH_AT_EPOCH = 40,
    LQ_BATCH_AT_RECORD_COUNT = 44,
    LQ_BATCH_AT_MAX_DELTA = 48,
    LQ_BATCH_AT_RECORDS_LENGTH = 56,
    LQ_BATCH_AT_RESERVED = 60,
};

/* Times above it (73 million years) are refused, so that differences and sums fit into 64 bits. */
#define LQ_BATCH_TIMESTAMP_MAX (UINT64_C(1) << 61)

/* The smallest record: length, flags, time, no key, no value, no headers, a byte each. */
#define LQ_RECORD_BYTES_MIN 6

#endif
