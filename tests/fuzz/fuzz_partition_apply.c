/* fuzz_partition_apply.c - a partition's state machine with arbitrary checkpoints and arbitrary entries: it refuses or
 * takes them, never crashes, and what it took can be saved and loaded again, to the same bytes.
 *
 * Input: u16 size of a checkpoint, the checkpoint (its crc is made to fit), then entries: u8 type and stamps that fit
 * or not, u8 message count, u16 payload size, payload. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/base/log.h"
#include "node/queue/partition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lightq_status no_submit(void *owner, const struct lq_proposal *proposal, uint64_t *index)
{
    (void)owner;
    (void)proposal;
    (void)index;
    return LIGHTQ_ENOTLEADER;
}

static uint64_t no_seek(void *owner, uint64_t offset)
{
    (void)owner;
    return offset;
}

static void no_wake(void *owner, struct lq_partition *partition)
{
    (void)owner;
    (void)partition;
}

static const struct lq_partition_port port = {.submit = no_submit, .seek_offset = no_seek, .wake = no_wake};

static struct lq_partition *make(void)
{
    const struct lq_partition_options options = {.group = 1, .self = 1, .port = &port};
    struct lq_partition *partition;
    lightq_status status = lq_partition_new(&options, &partition);
    assert(status == LIGHTQ_OK);
    (void)status;
    return partition;
}

static void load(struct lq_partition *partition, struct lq_reader *reader)
{
    size_t wanted = lq_read_u16(reader);
    size_t size = wanted < lq_reader_left(reader) ? wanted : lq_reader_left(reader);
    const uint8_t *bytes = lq_read_bytes(reader, size);
    if (bytes == NULL || size < 4) {
        return;
    }
    uint8_t *copy = malloc(size);
    assert(copy != NULL);
    memcpy(copy, bytes, size);
    lq_put_u32(copy + size - 4, lq_crc32c(0, copy, size - 4));
    lightq_status status = lq_partition_load(partition, copy, size);
    assert(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION);
    free(copy);
}

static lightq_status apply(struct lq_partition *partition, struct lq_reader *reader)
{
    struct lq_partition_status now;
    lq_partition_status(partition, &now);
    uint8_t how = lq_read_u8(reader);
    struct lq_entry entry = {.group = 1,
                             .index = now.applied_index + (how & 1 ? 0 : 1),
                             .term = now.applied_term + (how >> 1 & 1),
                             .base_offset = now.end_offset + (how >> 2 & 1),
                             .timestamp_ms = now.timestamp_ms + (how >> 3 & 1) * 3000,
                             .type = (enum lq_entry_type)(how >> 4 & 1 ? LQ_ENTRY_BARRIER : LQ_ENTRY_COMMAND),
                             .message_count = lq_read_u8(reader)};
    size_t wanted = lq_read_u16(reader);
    entry.payload_size = (uint32_t)(wanted < lq_reader_left(reader) ? wanted : lq_reader_left(reader));
    entry.payload = lq_read_bytes(reader, entry.payload_size);
    if (entry.payload == NULL) {
        return LIGHTQ_ECORRUPT;
    }
    const uint8_t *batch;
    uint32_t batch_size;
    if (lq_partition_entry_batch(&entry, &batch, &batch_size)) {
        assert(batch >= entry.payload && batch + batch_size == entry.payload + entry.payload_size);
    }
    lightq_status status = lq_partition_apply(partition, &entry);
    lq_partition_status(partition, &now);
    assert(now.start_offset <= now.end_offset);
    return status;
}

static void check_round_trip(struct lq_partition *partition)
{
    struct lq_writer first;
    struct lq_writer second;
    lq_writer_init(&first, LQ_CHECKPOINT_BYTES_MAX);
    lq_writer_init(&second, LQ_CHECKPOINT_BYTES_MAX);
    lightq_status status = lq_partition_save(partition, &first);
    assert(status == LIGHTQ_OK);
    struct lq_partition *other = make();
    status = lq_partition_load(other, first.bytes, first.size);
    assert(status == LIGHTQ_OK);
    status = lq_partition_save(other, &second);
    assert(status == LIGHTQ_OK && first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0);
    (void)status;
    lq_partition_free(other);
    lq_writer_deinit(&first);
    lq_writer_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    struct lq_reader reader = lq_reader_of(data, size);
    struct lq_partition *partition = make();
    load(partition, &reader);
    lightq_status status = LIGHTQ_OK;
    while (status == LIGHTQ_OK && lq_reader_left(&reader) > 0) {
        status = apply(partition, &reader);
    }
    if (status == LIGHTQ_OK) {
        check_round_trip(partition);
    }
    lq_partition_free(partition);
    return 0;
}
