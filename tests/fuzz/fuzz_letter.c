/* fuzz_letter.c - arbitrary bytes as a letter between node layers, and as an identity file: refused or understood,
 * never a crash; what a letter without a tail was understood as gives the same bytes again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "node/letter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tail(const struct lq_letter *letter)
{
    if (letter->kind == LQ_LETTER_REPORT) {
        for (uint32_t i = 0; i < letter->report.count; i++) {
            struct lq_report_entry entry;
            lq_letter_get_entry(&letter->report, i, &entry);
        }
    } else if (letter->kind == LQ_LETTER_INSPECTED) {
        struct lq_reader reader = lq_reader_of(letter->inspected.reports, letter->inspected.reports_size);
        for (uint32_t i = 0; i < letter->inspected.count; i++) {
            struct lq_replica_report report;
            lightq_status status = lq_letter_next_report(&reader, &report);
            assert(status == LIGHTQ_OK);
            (void)status;
        }
    }
}

static bool has_tail(const struct lq_letter *letter)
{
    return letter->kind == LQ_LETTER_REPORT || letter->kind == LQ_LETTER_INSPECT || letter->kind == LQ_LETTER_INSPECTED;
}

static void try_letter(const uint8_t *data, size_t size)
{
    struct lq_letter letter;
    if (lq_letter_decode(data, size, &letter) != LIGHTQ_OK) {
        return;
    }
    read_tail(&letter);
    if (has_tail(&letter)) {
        return;
    }
    struct lq_writer writer;
    struct lq_letter again;
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letter, &writer);
    lightq_status status = lq_letter_decode(writer.bytes, writer.size, &again);
    assert(writer.status == LIGHTQ_OK && status == LIGHTQ_OK);
    (void)status;
    assert(memcmp(&letter, &again, sizeof letter) == 0);
    lq_writer_deinit(&writer);
}

static void try_identity(const uint8_t *data, size_t size)
{
    struct lq_identity identity;
    uint8_t *copy = malloc(size + 1);
    assert(copy != NULL);
    memcpy(copy, data, size);
    if (size > 20) { /* a size and a crc that fit */
        lq_put_u32(copy + 12, (uint32_t)size);
        lq_put_u32(copy + size - 4, lq_crc32c(0, copy, size - 4));
    }
    lightq_status status = lq_identity_decode(copy, size, &identity);
    assert(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION);
    (void)status;
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'L') {
        try_identity(data, size);
    } else {
        try_letter(data, size);
    }
    return 0;
}
