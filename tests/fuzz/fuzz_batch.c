/* tests/fuzz/fuzz_batch.c - any bytes as a record batch. Length and crc are made right first (no fuzzer guesses them),
 * and the broker's check and the consumer's reader must agree on what is sound. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/wire/batch.h"
#include "client/wire/batch_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BATCH_BYTES_MAX (4u << 20) /* so that a run is not spent in clearing huge buffers */

/* Reads all records. What they come to is added to @bytes. */
static lightq_status read_all(const uint8_t *bytes, size_t size, uint64_t *message_bytes, uint32_t *count)
{
    struct lq_batch batch;
    struct lq_err err;
    lightq_status status = lq_batch_open(&batch, bytes, size, &err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_record record;
    while ((status = lq_batch_next(&batch, &record)) == LIGHTQ_OK) {
        ++*count;
        (void)lq_batch_record_crc(&record);
        *message_bytes += record.key.size + record.value.size;
        struct lq_span headers = record.headers;
        struct lq_record_header header;
        uint32_t header_count = 0;
        for (; lq_record_header_next(&headers, &header); header_count++) {
            *message_bytes += header.name.size + header.value.size;
        }
        assert(header_count == record.header_count);
    }
    lq_batch_close(&batch);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    assert(bytes != NULL);
    memcpy(bytes, data, size);
    if (size >= LQ_BATCH_HEADER_BYTES) {
        lq_put_u32(bytes + LQ_BATCH_AT_MAGIC, LQ_BATCH_MAGIC);
        bytes[LQ_BATCH_AT_VERSION] = LQ_BATCH_VERSION;
        lq_put_u32(bytes + LQ_BATCH_AT_LENGTH, (uint32_t)size);
        if (bytes[LQ_BATCH_AT_CODEC] == LQ_BATCH_PLAIN) {
            lq_put_u32(bytes + LQ_BATCH_AT_RECORDS_LENGTH, (uint32_t)(size - LQ_BATCH_HEADER_BYTES));
        }
        lq_put_u32(bytes + LQ_BATCH_AT_CRC, lq_crc32c(0, bytes + LQ_BATCH_AT_VERSION, size - LQ_BATCH_AT_VERSION));
    }
    const struct lq_batch_limits limits = {.batch_bytes_max = BATCH_BYTES_MAX};
    struct lq_batch_scratch scratch = {.bytes = NULL};
    struct lq_batch_summary summary;
    struct lq_err err;
    lightq_status checked = lq_batch_check(bytes, size, &limits, &scratch, &summary, &err);
    assert(checked == LIGHTQ_OK || err.text[0] != '\0');
    if (checked == LIGHTQ_OK || summary.head.records_size <= BATCH_BYTES_MAX) {
        uint64_t message_bytes = 0;
        uint32_t count = 0;
        lightq_status status = read_all(bytes, size, &message_bytes, &count);
        if (checked == LIGHTQ_OK) {
            assert(status == LIGHTQ_ENOTFOUND && count == summary.head.record_count);
            assert(message_bytes == summary.message_bytes);
        }
    }
    lq_batch_scratch_deinit(&scratch);
    free(bytes);
    return 0;
}
