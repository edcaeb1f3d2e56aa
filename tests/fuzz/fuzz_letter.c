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
    struct lq_writer first;
    struct lq_writer second;
    struct lq_letter again;
    lq_writer_init(&first, LQ_NODE_FRAME_BYTES_MAX);
    lq_writer_init(&second, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letter, &first);
    lightq_status status = lq_letter_decode(first.bytes, first.size, &again);
    assert(first.status == LIGHTQ_OK && status == LIGHTQ_OK);
    (void)status;
    lq_letter_encode(&again, &second);
    assert(first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0);
    lq_writer_deinit(&first);
    lq_writer_deinit(&second);
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
