/* client/base/log.c - logfmt lines. Called by everyone, on any thread. A line is put together on the caller's stack and
 * leaves in one write(2); there is no lock and no buffer between. */
#include "client/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/base/clock.h"
#include "client/base/limits.h"

#define US_PER_S 1000000

struct line {
    char text[LQ_LOG_LINE_BYTES_MAX];
    size_t size;
};

/* Where lines go: process-wide, because a log line has no owner, and atomic. The only mutable statics of LightQ. */
static int least_level = LQ_LOG_INFO;
static int log_descriptor = STDERR_FILENO;

static void add_char(struct line *line, char c)
{
    if (line->size < sizeof line->text) {
        line->text[line->size++] = c;
    }
}

static void add_string(struct line *line, const char *string)
{
    while (*string != '\0') {
        add_char(line, *string++);
    }
}

static void add_format(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_format(struct line *line, const char *format, ...)
{
    size_t room = sizeof line->text - line->size;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line->text + line->size, room, format, arguments);
    va_end(arguments);
    if (length > 0) {
        line->size += (size_t)length < room ? (size_t)length : room;
    }
}

/* Whether @c needs no quotes in logfmt. */
static bool is_plain(unsigned char c)
{
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

static void add_quoted(struct line *line, const char *value)
{
    static const char digits[] = "0123456789abcdef";
    add_char(line, '"');
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\') {
            add_char(line, '\\');
            add_char(line, *value);
        } else if (c == '\n') {
            add_string(line, "\\n");
        } else if (c < ' ' || c >= 0x7f) {
            add_string(line, "\\x");
            add_char(line, digits[c >> 4]);
            add_char(line, digits[c & 15]);
        } else {
            add_char(line, *value);
        }
    }
    add_char(line, '"');
}

static void add_text(struct line *line, const char *value)
{
    if (value == NULL) {
        add_string(line, "null");
        return;
    }
    const char *at = value;
    while (is_plain((unsigned char)*at)) {
        at++;
    }
    if (*at != '\0' || at == value || strcmp(value, "null") == 0) {
        add_quoted(line, value);
    } else {
        add_string(line, value);
    }
}

static void add_field(struct line *line, const struct lq_log_field *field)
{
    add_char(line, ' ');
    add_string(line, field->key);
    add_char(line, '=');
    switch (field->kind) {
    case LQ_LOG_SIGNED:
        add_format(line, "%lld", field->integer);
        break;
    case LQ_LOG_UNSIGNED:
        add_format(line, "%llu", field->natural);
        break;
    case LQ_LOG_REAL:
        add_format(line, "%.9g", field->real);
        break;
    case LQ_LOG_TEXT:
        add_text(line, field->text);
        break;
    }
}

/* The path from the repository's root is what we want; of an absolute one, its last folder and the file. */
static const char *short_path(const char *path)
{
    if (path[0] != '/') {
        return path;
    }
    const char *file = strrchr(path, '/');
    while (file > path && file[-1] != '/') {
        file--;
    }
    return file;
}

static void add_head(struct line *line, enum lq_log_level level, const char *file, int line_number)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    uint64_t now_us = lq_clock_system_wall_us();
    time_t seconds = (time_t)(now_us / US_PER_S);
    struct tm utc;
    (void)gmtime_r(&seconds, &utc);
    add_format(line, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%06uZ level=%s", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
               utc.tm_hour, utc.tm_min, utc.tm_sec, (unsigned)(now_us % US_PER_S), names[level]);
    const char *base = strrchr(file, '/');
    base = base == NULL ? file : base + 1;
    add_format(line, " module=%.*s at=%s:%d thread=%d", (int)strcspn(base, "."), base, short_path(file), line_number,
               (int)gettid());
}

void lq_log_configure(enum lq_log_level least, int descriptor)
{
    __atomic_store_n(&least_level, (int)least, __ATOMIC_RELAXED);
    __atomic_store_n(&log_descriptor, descriptor, __ATOMIC_RELAXED);
}

bool lq_log_enabled(enum lq_log_level level)
{
    return (int)level >= __atomic_load_n(&least_level, __ATOMIC_RELAXED);
}

void lq_log_write(enum lq_log_level level, const char *file, int line, const char *message,
                  const struct lq_log_field *fields, size_t count)
{
    int saved_errno = errno;
    struct line out;
    out.size = 0;
    add_head(&out, level, file, line);
    add_string(&out, " msg=");
    add_quoted(&out, message);
    for (size_t i = 0; i < count; i++) {
        add_field(&out, &fields[i]);
    }
    if (out.size == sizeof out.text) {
        static const char cut[] = "...\"cut\n";
        memcpy(out.text + sizeof out.text - (sizeof cut - 1), cut, sizeof cut - 1);
    } else {
        add_char(&out, '\n');
    }
    /* A log that cannot be written must not stop the work: only an interruption is tried again. */
    int descriptor = __atomic_load_n(&log_descriptor, __ATOMIC_RELAXED);
    while (write(descriptor, out.text, out.size) < 0 && errno == EINTR) {
    }
    errno = saved_errno;
}
