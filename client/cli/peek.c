/* client/cli/peek.c - lightq peek: shows messages with all that is known of them. It reads as a subscriber without a
 * name, one partition after the other, each up to where it ended when that one was begun: no group and no place in the
 * cluster is touched. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "client/cli/cli.h"
#include "client/cli/pace.h"
#include "client/cli/print.h"

#define COUNT_DEFAULT   10
#define WAIT_MS_DEFAULT 30000
#define POLL_MS         100 /* at a time, so that a signal is seen */
#define US_PER_MS       1000u
#define MS_PER_S        1000
#define TIME_BYTES      40
#define LEAST_SHOWN     0x20
#define DELETE          0x7f
#define YEAR_ZERO       1900
#define COUNT_BYTES     24
#define FETCHED_MOST    UINT64_C(100000)

struct peek {
    struct cli *cli;
    struct lightq_consumer *consumer;
    struct lightq_start from;
    uint64_t left; /* messages to be shown */
};

/* ---- how a message looks */

static const char *time_text(int64_t ms, char text[TIME_BYTES])
{
    struct tm tm;
    time_t seconds = (time_t)(ms / MS_PER_S);
    if (ms < 0 || gmtime_r(&seconds, &tm) == NULL) {
        snprintf(text, TIME_BYTES, "%" PRId64, ms);
        return text;
    }
    snprintf(text, TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + YEAR_ZERO, tm.tm_mon + 1, tm.tm_mday,
             tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % MS_PER_S));
    return text;
}

/* In quotes; what a terminal must not get is \xNN, so is what is not text; null when there is none. */
static void put_quoted(const void *bytes, size_t size)
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

static void print_text(const struct lightq_record *record)
{
    char time[TIME_BYTES];
    struct lightq_header header;
    printf("%s/%d %" PRId64 "  %s  %zu bytes", record->topic, record->partition, record->offset,
           time_text(record->timestamp_ms, time), record->value_size);
    if (record->key != NULL) {
        fputs("  key ", stdout);
        put_quoted(record->key, record->key_size);
    }
    for (size_t i = 0; i < record->header_count && lightq_record_header(record, i, &header) == LIGHTQ_OK; i++) {
        fputs("  header ", stdout);
        put_quoted(header.name, header.name_size);
        putchar('=');
        put_quoted(header.value, header.value_size);
    }
    fputs("  value ", stdout);
    put_quoted(record->value, record->value_size);
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

/* Sets @name of @object, or, when it is not UTF-8, @name_base64. */
static void set_bytes(json_t *object, const char *name, const char *name_base64, const void *bytes, size_t size)
{
    json_t *text = bytes == NULL ? json_null() : json_stringn(bytes, size);
    if (text != NULL) {
        json_object_set_new(object, name, text);
    } else {
        json_object_set_new(object, name_base64, base64(bytes, size));
    }
}

static void print_json(const struct lightq_record *record)
{
    char time[TIME_BYTES];
    struct lightq_header header;
    json_t *headers = json_array();
    for (size_t i = 0; i < record->header_count && lightq_record_header(record, i, &header) == LIGHTQ_OK; i++) {
        json_t *object = json_object();
        set_bytes(object, "name", "name_base64", header.name, header.name_size);
        set_bytes(object, "value", "value_base64", header.value, header.value_size);
        json_array_append_new(headers, object);
    }
    json_t *object = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:o, s:I}", "topic", record->topic, "partition",
                               (json_int_t)record->partition, "offset", (json_int_t)record->offset, "time",
                               time_text(record->timestamp_ms, time), "time_ms", (json_int_t)record->timestamp_ms,
                               "producer", (json_int_t)record->producer, "sequence", (json_int_t)record->sequence,
                               "headers", headers, "size", (json_int_t)record->value_size);
    set_bytes(object, "key", "key_base64", record->key, record->key_size);
    set_bytes(object, "value", "value_base64", record->value, record->value_size);
    print_object(object);
}

/* ---- reading */

static int wait_ms(const struct peek *peek)
{
    return cli_timeout_ms(peek->cli, WAIT_MS_DEFAULT);
}

/* Up to @end, or until enough was shown. */
static enum cli_exit show(struct peek *peek, int32_t partition, int64_t end)
{
    uint64_t until_us = pace_now_us() + (uint64_t)wait_ms(peek) * US_PER_MS;
    int64_t position = 0;
    while (peek->left > 0 && !cli_interrupted()) {
        struct lightq_event event;
        if (lightq_consumer_position(peek->consumer, peek->cli->args.words[0], partition, &position) == LIGHTQ_OK &&
            position >= end) {
            return CLI_DONE;
        }
        if (lightq_consumer_poll(peek->consumer, POLL_MS, &event) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_MESSAGE && event.record.offset < end) {
            (peek->cli->json ? print_json : print_text)(&event.record);
            peek->left--;
            until_us = pace_now_us() + (uint64_t)wait_ms(peek) * US_PER_MS;
        } else if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            return CLI_DONE; /* it came after we began */
        } else if (event.kind == LIGHTQ_EVENT_ERROR && !lightq_status_retriable(event.error->status)) {
            return cli_fail(event.error);
        } else if (pace_now_us() >= until_us) {
            return cli_fail_with(LIGHTQ_ETIMEDOUT, "nothing came of %s/%d", peek->cli->args.words[0], partition);
        }
    }
    return CLI_DONE;
}

static enum cli_exit peek_partition(struct peek *peek, int32_t partition)
{
    const struct lightq_start last = {.kind = LIGHTQ_START_END};
    const char *topic = peek->cli->args.words[0];
    struct lightq_error error;
    int64_t end;
    if (lightq_offset(peek->cli->client, topic, partition, &last, wait_ms(peek), &end, &error) != LIGHTQ_OK ||
        lightq_consumer_subscribe(peek->consumer, topic, partition, &peek->from, wait_ms(peek), &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    enum cli_exit result = show(peek, partition, end);
    lightq_status left = lightq_consumer_unsubscribe(peek->consumer, topic, partition);
    (void)left; /* it was read */
    return result;
}

static enum cli_exit peek_all(struct peek *peek)
{
    const struct cli_args *args = &peek->cli->args;
    struct lightq_error error;
    int32_t count;
    if (lightq_partition_count(peek->cli->client, args->words[0], wait_ms(peek), &count, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    if (cli_given(args->partition)) {
        return peek_partition(peek, (int32_t)args->partition);
    }
    if (peek->from.kind == LIGHTQ_START_OFFSET && count > 1) {
        return cli_usage("an offset is one of a partition: --from OFFSET goes with --partition P");
    }
    enum cli_exit result = CLI_DONE;
    for (int32_t i = 0; result == CLI_DONE && peek->left > 0 && i < count; i++) {
        result = peek_partition(peek, i);
    }
    return result;
}

enum cli_exit cli_peek(struct cli *cli)
{
    struct peek peek = {.cli = cli, .left = cli_or(cli->args.count, COUNT_DEFAULT)};
    char fetched[COUNT_BYTES]; /* no more than is shown, so that looking at a long topic costs little */
    const char *const extra[] = {"fetch.messages", fetched, NULL};
    struct lightq_error error;
    enum cli_exit result = cli_parse_place("from", cli->args.from, &peek.from);
    snprintf(fetched, sizeof fetched, "%" PRIu64,
             peek.left == 0             ? 1
             : peek.left < FETCHED_MOST ? peek.left
                                        : FETCHED_MOST);
    if (result == CLI_DONE) {
        result = cli_connect(cli, extra);
    }
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_consumer_new(cli->client, &peek.consumer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    cli_hold_signals();
    result = peek_all(&peek);
    lightq_status closed = lightq_consumer_close(peek.consumer, 0);
    (void)closed; /* nothing is kept by it */
    return result;
}
