/* client/cli/history.h - what produce and consume did and saw, with times, in the format that lightq-check judges
 * (chaos/check/history_text.c). A message is the producer and the number that its payload names (payload.h). One
 * thread. */
#ifndef LQ_CLI_HISTORY_H
#define LQ_CLI_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include <lightq/consumer.h>
#include <lightq/producer.h>

#include "client/cli/lines.h"

#define HISTORY_SIZE_LEAST 41 /* bytes of a payload that always holds producer and number */

struct history {
    struct lines *lines; /* owned; NULL: nothing is written */
    uint64_t self;       /* the producer's name, or a part of the reader's */
    bool final;          /* reader: from the start to the end of when it began */
};

/* Opens @path (borrowed; NULL: all the rest does nothing) and writes the first line. False: errno says why. */
bool history_open(struct history *history, const char *path);
void history_flush(struct history *history);
/* False: something could not be written; *error is the errno. */
bool history_close(struct history *history, int *error);

/* Message @number is about to be sent. @partition: the application's choice, or LIGHTQ_PARTITION_ANY. */
void history_attempt(struct history *history, uint64_t number, const char *topic, int32_t partition, const void *value,
                     size_t size);
/* Its outcome. */
void history_report(struct history *history, uint64_t number, const struct lightq_report *report);
/* It was not taken for sending. */
void history_refused(struct history *history, uint64_t number);

/* This reader begins: @final when it reads all that is there, from the start. */
void history_reader(struct history *history, bool final);
/* It goes on at @offset of @partition. */
void history_seek(struct history *history, const char *topic, int32_t partition, int64_t offset);
void history_read(struct history *history, const struct lightq_record *record);

#endif
