/* client/cli/receipts.h - reads files of lightq produce --acked and keeps their lines sorted. Used by verify.c. One
 * thread. A line, words with one blank between them:
 *
 *   cluster topic partition offset|- producer sequence term batch_crc */
#ifndef LQ_CLI_RECEIPTS_H
#define LQ_CLI_RECEIPTS_H

#include <stddef.h>
#include <stdint.h>

#include "client/cli/cli.h"

enum receipt_state { RECEIPT_OPEN, RECEIPT_FOUND, RECEIPT_DIFFERENT, RECEIPT_MISSING };

struct receipt {
    uint32_t topic; /* place in topics */
    int32_t partition;
    int64_t offset; /* or LIGHTQ_OFFSET_UNKNOWN */
    uint64_t producer, sequence;
    uint64_t line; /* in the file, from 1 */
    uint32_t batch_crc;
    uint8_t state; /* enum receipt_state */
};

struct receipts {
    struct receipt *items;
    size_t count, capacity;
    char **topics;
    uint32_t topic_count, topic_capacity;
    char cluster[33]; /* of all lines; "" when there are none */
};

/* Loads @path. CLI_DONE, or CLI_FAILED after a sentence that names file and line. Then, too: receipts_deinit. */
enum cli_exit receipts_load(struct receipts *receipts, const char *path);
void receipts_deinit(struct receipts *receipts);
/* Sorts by topic, partition, whether the offset is known (unknown ones last), offset, producer and sequence. */
void receipts_sort(struct receipts *receipts);

#endif
