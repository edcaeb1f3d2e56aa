/* client/cli/print_record.c - see print_record.h. */
#include "client/cli/print_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/cli/print.h"

#define MS_PER_S    1000
#define LEAST_SHOWN 0x20
#define DELETE      0x7f
#define YEAR_ZERO   1900

const char *print_time(int64_t ms, char text[PRINT_TIME_BYTES])
{
    struct tm tm;
    time_t seconds = (time_t)(ms / MS_PER_S);
    if (ms < 0 || gmtime_r(&seconds, &tm) == NULL) {
        snprintf(text, PRINT_TIME_BYTES, "%" PRId64, ms);
        return text;
    }
    snprintf(text, PRINT_TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + YEAR_ZERO, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % MS_PER_S));
    return text;
}

void print_quoted(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    json_t *text = at == NULL ? NULL : json_stringn((const char *)at, size); /* NULL: it is not UTF-8 */
    if (at == NULL) {
        fputs("null", stdout);
        return;
    }
    putchar('"');
    for (size_t i = 0; i < size; i++) {
        if (at[i] == '"' || at[i] == '\\') {
            printf("\\%c", at[i]);
        } else if (at[i] < LEAST_SHOWN || at[i] == DELETE || (at[i] > DELETE && text == NULL)) {
            printf("\\x%02x", at[i]);
        } else {
            putchar(at[i]);
        }
    }
    putchar('"');
    json_decref(text);
}

static void print_as_text(const struct lightq_record *record)
{
    char time[PRINT_TIME_BYTES];
    struct lightq_header header;
    printf("%s/%d %" PRId64 "  %s  %zu bytes", record->topic, record->partition, record->offset,
           print_time(record->timestamp_ms, time), record->value_size);
    if (record->key != NULL) {
        fputs("  key ", stdout);
        print_quoted(record->key, record->key_size);
    }
    for (size_t i = 0; i < record->header_count && lightq_record_header(record, i, &header) == LIGHTQ_OK; i++) {
        fputs("  header ", stdout);
        print_quoted(header.name, header.name_size);
        putchar('=');
        print_quoted(header.value, header.value_size);
    }
    fputs("  value ", stdout);
    print_quoted(record->value, record->value_size);
    putchar('\n');
}

/* RFC 4648. NULL: out of memory. */
static json_t *base64(const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = (size + 2) / 3 * 4;
    char *text = malloc(length + 1);
    if (text == NULL) {
        return NULL;
    }
    char *at = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t there = size - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (there > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (there > 2 ? (uint32_t)bytes[i + 2] : 0);
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = there > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = there > 2 ? digits[three & 63] : '=';
    }
    json_t *result = json_stringn(text, length);
    free(text);
    return result;
}

void print_set_bytes(json_t *object, const char *name, const char *name_base64, const void *bytes, size_t size)
{
    json_t *text = bytes == NULL ? json_null() : json_stringn(bytes, size);
    if (text != NULL) {
        json_object_set_new(object, name, text);
    } else {
        json_object_set_new(object, name_base64, base64(bytes, size));
    }
}

json_t *print_record_object(const struct lightq_record *record)
{
    char time[PRINT_TIME_BYTES];
    struct lightq_header header;
    json_t *headers = json_array();
    for (size_t i = 0; i < record->header_count && lightq_record_header(record, i, &header) == LIGHTQ_OK; i++) {
        json_t *object = json_object();
        print_set_bytes(object, "name", "name_base64", header.name, header.name_size);
        print_set_bytes(object, "value", "value_base64", header.value, header.value_size);
        json_array_append_new(headers, object);
    }
    json_t *object = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:o, s:I}", "topic", record->topic, "partition",
                               (json_int_t)record->partition, "offset", (json_int_t)record->offset, "time",
                               print_time(record->timestamp_ms, time), "time_ms", (json_int_t)record->timestamp_ms,
                               "producer", (json_int_t)record->producer, "sequence", (json_int_t)record->sequence,
                               "headers", headers, "size", (json_int_t)record->value_size);
    print_set_bytes(object, "key", "key_base64", record->key, record->key_size);
    print_set_bytes(object, "value", "value_base64", record->value, record->value_size);
    return object;
}

void print_record(bool json, const struct lightq_record *record)
{
    if (json) {
        print_object(print_record_object(record));
    } else {
        print_as_text(record);
    }
}
