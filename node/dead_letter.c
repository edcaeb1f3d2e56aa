/* node/dead_letter.c - see dead_letter.h. */
#include "node/dead_letter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/wire/batch.h"

#define OWN_HEADERS  7
#define NUMBER_BYTES 24

struct texts {
    char partition[NUMBER_BYTES], offset[NUMBER_BYTES], deliveries[NUMBER_BYTES], failed[NUMBER_BYTES];
};

static const char *reason_of(uint8_t reason)
{
    switch (reason) {
    case LQ_FAILURE_NACK:
        return "nack";
    case LQ_FAILURE_EXPIRED:
        return "expired";
    case LQ_FAILURE_REJECTED:
        return "rejected";
    case LQ_FAILURE_LOST:
        return "lost";
    default:
        return "unknown";
    }
}

static struct lq_record_header header(const char *name, const char *value)
{
    return (struct lq_record_header){.name = lq_span_of(name, strlen(name)), .value = lq_span_of(value, strlen(value))};
}

static void own_headers(const struct lq_dead_letter_origin *origin, struct texts *texts,
                        struct lq_record_header *headers)
{
    const struct lq_dead_letter *letter = origin->letter;
    (void)snprintf(texts->partition, sizeof texts->partition, "%" PRIu32, origin->partition);
    (void)snprintf(texts->offset, sizeof texts->offset, "%" PRIu64, letter->offset);
    (void)snprintf(texts->deliveries, sizeof texts->deliveries, "%" PRIu32, letter->count);
    (void)snprintf(texts->failed, sizeof texts->failed, "%" PRIu64, letter->failed_ms);
    headers[0] = header("lightq.topic", origin->topic);
    headers[1] = header("lightq.partition", texts->partition);
    headers[2] = header("lightq.offset", texts->offset);
    headers[3] = header("lightq.group", origin->group);
    headers[4] = header("lightq.reason", reason_of(letter->reason));
    headers[5] = header("lightq.deliveries", texts->deliveries);
    headers[6] = header("lightq.failed", texts->failed);
}

/* The record at @index. OK | EPROTO. */
static lightq_status find_record(struct lq_batch *batch, uint64_t index, struct lq_record *record)
{
    lightq_status status = LIGHTQ_OK;
    do {
        status = lq_batch_next(batch, record);
    } while (status == LIGHTQ_OK && record->index < index);
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_EPROTO : status;
}

lightq_status lq_dead_letter_pack(const struct lq_dead_letter_origin *origin, const uint8_t *bytes, uint32_t size,
                                  uint64_t base, uint64_t producer_id, uint64_t sequence, struct lq_slab **out)
{
    struct lq_batch batch;
    struct lq_record record;
    struct texts texts;
    struct lq_record_header headers[LQ_HEADERS_MAX];
    size_t count = OWN_HEADERS;
    lightq_status status = lq_batch_open(&batch, bytes, size, NULL);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = find_record(&batch, origin->letter->offset - base, &record);
    if (status == LIGHTQ_OK) {
        struct lq_batch_writer writer;
        struct lq_span left = record.headers;
        own_headers(origin, &texts, headers);
        while (count < LQ_HEADERS_MAX && lq_record_header_next(&left, &headers[count])) {
            count++; /* one that has too many loses its last ones */
        }
        lq_batch_writer_init(&writer, LQ_ENTRY_BYTES_MAX);
        status = lq_batch_writer_add(&writer, record.timestamp_ms, record.key, record.value, headers, count);
        if (status == LIGHTQ_OK) {
            status = lq_batch_writer_seal(&writer, producer_id, 0, sequence, LQ_BATCH_PLAIN, out);
        }
        lq_batch_writer_deinit(&writer);
    }
    lq_batch_close(&batch);
    return status;
}
