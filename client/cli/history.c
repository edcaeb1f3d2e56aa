/* client/cli/history.c - see history.h. */
#include "client/cli/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/clock.h"
#include "client/base/crc.h"
#include "client/cli/pace.h"

#define DECIMAL 10u

bool history_open(struct history *history, const char *path)
{
    *history = (struct history){.lines = NULL};
    if (path == NULL) {
        return true;
    }
    history->self = lq_clock_random_u64(lq_clock_system());
    history->lines = malloc(sizeof *history->lines);
    if (history->lines == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (!lines_open(history->lines, path)) {
        int error = errno;
        free(history->lines);
        history->lines = NULL;
        errno = error;
        return false;
    }
    lines_text(history->lines, "lightq-history 1\n");
    return true;
}

void history_flush(struct history *history)
{
    if (history->lines != NULL) {
        lines_flush(history->lines);
    }
}

bool history_close(struct history *history, int *error)
{
    bool written = true;
    if (history->lines != NULL) {
        written = lines_close(history->lines);
        *error = history->lines->error;
        free(history->lines);
        history->lines = NULL;
    }
    return written;
}

static uint32_t crc_of(const void *value, size_t size)
{
    return size > 0 ? lq_crc32c(0, value, size) : 0;
}

/* "EVENT TIME" */
static void put_event(struct lines *lines, const char *event)
{
    lines_text(lines, event);
    lines_char(lines, ' ');
    lines_number(lines, pace_now_us());
}

static void put_number(struct lines *lines, uint64_t number)
{
    lines_char(lines, ' ');
    lines_number(lines, number);
}

static void put_log(struct lines *lines, const char *topic, int32_t partition)
{
    lines_char(lines, ' ');
    lines_text(lines, topic);
    lines_char(lines, '/');
    lines_signed(lines, partition);
}

static void put_reader(const struct history *history)
{
    lines_text(history->lines, " r");
    lines_number(history->lines, history->self);
}

/* ---- producing */

void history_attempt(struct history *history, uint64_t number, const char *topic, int32_t partition, const void *value,
                     size_t size)
{
    struct lines *lines = history->lines;
    if (lines == NULL) {
        return;
    }
    put_event(lines, "attempt");
    put_number(lines, history->self);
    put_number(lines, number);
    if (partition == LIGHTQ_PARTITION_ANY) {
        lines_text(lines, " -");
    } else {
        put_log(lines, topic, partition);
    }
    lines_char(lines, ' ');
    lines_hex(lines, crc_of(value, size));
    lines_char(lines, '\n');
}

/* "EVENT TIME PRODUCER NUMBER" */
static void put_outcome(struct history *history, const char *event, uint64_t number)
{
    put_event(history->lines, event);
    put_number(history->lines, history->self);
    put_number(history->lines, number);
}

void history_report(struct history *history, uint64_t number, const struct lightq_report *report)
{
    struct lines *lines = history->lines;
    if (lines == NULL) {
        return;
    }
    if (report->status != LIGHTQ_OK && report->status != LIGHTQ_EDUPLICATE) {
        put_outcome(history, report->in_doubt ? "unknown" : "failed", number);
        lines_char(lines, '\n');
        return;
    }
    put_outcome(history, "ok", number);
    put_log(lines, report->topic, report->partition);
    if (report->offset == LIGHTQ_OFFSET_UNKNOWN) {
        lines_text(lines, " -");
    } else {
        put_number(lines, (uint64_t)report->offset);
    }
    if (report->term == 0) {
        lines_text(lines, " -");
    } else {
        put_number(lines, report->term);
    }
    lines_char(lines, '\n');
}

void history_refused(struct history *history, uint64_t number)
{
    if (history->lines != NULL) {
        put_outcome(history, "failed", number);
        lines_char(history->lines, '\n');
    }
}

/* ---- reading */

void history_reader(struct history *history, bool final)
{
    if (history->lines == NULL) {
        return;
    }
    lines_text(history->lines, "reader");
    put_reader(history);
    lines_text(history->lines, final ? " final\n" : " subscriber\n");
}

void history_seek(struct history *history, const char *topic, int32_t partition, int64_t offset)
{
    if (history->lines == NULL) {
        return;
    }
    put_event(history->lines, "seek");
    put_reader(history);
    put_log(history->lines, topic, partition);
    put_number(history->lines, (uint64_t)offset);
    lines_char(history->lines, '\n');
}

/* The decimal number at *at, which moves behind it. False: there is none. */
static bool take_number(const char **at, const char *end, uint64_t *number)
{
    const char *first = *at;
    for (*number = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        *number = *number * DECIMAL + (uint64_t)(**at - '0');
    }
    return *at > first;
}

/* What payload.h made. False: it is somebody else's. */
static bool take_name(const struct lightq_record *record, uint64_t *producer, uint64_t *number)
{
    const char *at = record->value;
    const char *end = at + record->value_size;
    if (record->value_size == 0 || !take_number(&at, end, producer) || at == end || *at != '-') {
        return false;
    }
    at++;
    return take_number(&at, end, number) && (at == end || *at == '.');
}

void history_read(struct history *history, const struct lightq_record *record)
{
    struct lines *lines = history->lines;
    uint64_t producer, number;
    if (lines == NULL) {
        return;
    }
    put_event(lines, "read");
    put_reader(history);
    put_log(lines, record->topic, record->partition);
    put_number(lines, (uint64_t)record->offset);
    if (take_name(record, &producer, &number)) {
        put_number(lines, producer);
        put_number(lines, number);
    } else {
        lines_text(lines, " unnamed"); /* nobody attempted that: lightq-check says so */
        put_number(lines, (uint64_t)record->offset);
    }
    lines_char(lines, ' ');
    lines_hex(lines, crc_of(record->value, record->value_size));
    lines_char(lines, '\n');
}
