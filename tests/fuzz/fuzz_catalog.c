/* fuzz_catalog.c - the catalog with arbitrary checkpoints and commands: it refuses or takes them, never crashes, and
 * what it took can be saved and loaded again, to the same bytes.
 *
 * Input: u16 size of a checkpoint, the checkpoint (its crc is made to fit), then commands: u16 size, bytes. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/limits.h"
#include "node/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(struct lq_catalog *catalog, struct lq_reader *reader)
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
    lightq_status status = lq_catalog_load(catalog, copy, size);
    assert(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION);
    free(copy);
}

/* The tables agree with one another. */
static void check(const struct lq_catalog *catalog)
{
    for (size_t t = 0; t < lq_catalog_topic_count(catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, t);
        assert(lq_catalog_topic(catalog, topic->name) == topic);
        assert(lq_catalog_topic_by_id(catalog, &topic->uuid) == topic);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            assert(lq_catalog_partition(catalog, topic->partitions[p].group) == &topic->partitions[p]);
            assert(topic->partitions[p].group < lq_catalog_next_group(catalog));
        }
    }
}

static void check_round_trip(const struct lq_catalog *catalog)
{
    struct lq_writer first;
    struct lq_writer second;
    struct lq_catalog *other;
    lq_writer_init(&first, LQ_CHECKPOINT_BYTES_MAX);
    lq_writer_init(&second, LQ_CHECKPOINT_BYTES_MAX);
    lightq_status status = lq_catalog_new(&other);
    assert(status == LIGHTQ_OK);
    status = lq_catalog_save(catalog, &first);
    assert(status == LIGHTQ_OK);
    status = lq_catalog_load(other, first.bytes, first.size);
    assert(status == LIGHTQ_OK);
    status = lq_catalog_save(other, &second);
    assert(status == LIGHTQ_OK && first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0);
    (void)status;
    lq_catalog_free(other);
    lq_writer_deinit(&first);
    lq_writer_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lq_reader reader = lq_reader_of(data, size);
    struct lq_catalog *catalog;
    lightq_status status = lq_catalog_new(&catalog);
    assert(status == LIGHTQ_OK);
    load(catalog, &reader);
    check(catalog);
    uint64_t index = 0;
    while (status == LIGHTQ_OK && lq_reader_left(&reader) > 0) {
        size_t wanted = lq_read_u16(&reader);
        struct lq_entry entry = {.index = ++index, .term = 1, .type = LQ_ENTRY_COMMAND};
        entry.payload_size = (uint32_t)(wanted < lq_reader_left(&reader) ? wanted : lq_reader_left(&reader));
        entry.payload = lq_read_bytes(&reader, entry.payload_size);
        status = entry.payload == NULL ? LIGHTQ_ECORRUPT : lq_catalog_apply(catalog, &entry);
    }
    if (status == LIGHTQ_OK) {
        check(catalog);
        check_round_trip(catalog);
    }
    lq_catalog_free(catalog);
    return 0;
}
