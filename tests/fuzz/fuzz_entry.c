/* tests/fuzz/fuzz_entry.c - any bytes as an entry. Must never read outside; what decodes lies inside the input and
 * seals again to the same bytes. The first byte says whether the crc is made right first, so that the checks behind it
 * are reached. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "storage/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void seal_again(const uint8_t *bytes, const struct lq_entry *entry, uint64_t size)
{
    uint8_t *copy = malloc(size);
    assert(copy != NULL);
    memset(copy, 0xff, size);
    memcpy(copy + LQ_ENTRY_HEADER_BYTES, entry->payload, entry->payload_size);
    lq_entry_seal(copy, entry);
    assert(memcmp(copy, bytes, size) == 0);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    bool is_sealed = (data[0] & 1) != 0;
    bool check_crc = (data[0] & 2) != 0;
    size_t available = size - 1;
    uint8_t *bytes = malloc(available + 1); /* not one byte more than there is, but for an empty one */
    assert(bytes != NULL);
    memcpy(bytes, data + 1, available);
    uint32_t length = available >= 8 ? lq_get_u32(bytes + 4) : 0;
    if (is_sealed && length > 4 && length <= available) {
        lq_put_u32(bytes, lq_crc32c(0, bytes + 4, length - 4));
    }
    struct lq_entry entry;
    uint64_t entry_size = 0;
    struct lq_err err;
    lightq_status status = lq_entry_decode(bytes, available, check_crc, &entry, &entry_size, &err);
    if (status == LIGHTQ_OK) {
        assert(entry_size <= available && entry_size == lq_entry_size(entry.payload_size));
        assert(entry.payload == bytes + LQ_ENTRY_HEADER_BYTES);
        assert(entry.index > 0 && entry.term > 0);
        if (check_crc) {
            seal_again(bytes, &entry, entry_size);
        }
    } else {
        assert(status == LIGHTQ_ECORRUPT && err.text[0] != '\0');
    }
    free(bytes);
    return 0;
}
