/* client/cli/print_record.h - how a message looks: a line for people, or a JSON object; and the pieces of both. */
#ifndef LQ_CLI_PRINT_RECORD_H
#define LQ_CLI_PRINT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <lightq/consumer.h>

#define PRINT_TIME_BYTES 40

void print_record(bool json, const struct lightq_record *record);
/* Its JSON object, the caller's; NULL: out of memory. */
json_t *print_record_object(const struct lightq_record *record);

/* 2026-01-31T23:59:59.000Z */
const char *print_time(int64_t ms, char text[PRINT_TIME_BYTES]);
/* In quotes; what a terminal must not get is \xNN, so is what is not text; null when there is none. */
void print_quoted(const void *bytes, size_t size);
/* Sets @name of @object, or, when it is not UTF-8, @name_base64. */
void print_set_bytes(json_t *object, const char *name, const char *name_base64, const void *bytes, size_t size);

#endif
