/* chaos/check/lines.c - lines and words of a text file. See lines.h. */
#include "chaos/check/lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 256 * 1024 };

lightq_status lq_lines_init(struct lq_lines *lines, FILE *file, const char *path, struct lq_err *err)
{
    *lines = (struct lq_lines){.file = file, .path = path, .buffer = malloc(BUFFER_BYTES)};
    if (lines->buffer == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory to read %s", path);
    }
    return LIGHTQ_OK;
}

void lq_lines_deinit(struct lq_lines *lines)
{
    free(lines->buffer);
    lines->buffer = NULL;
}

lightq_status lq_lines_error(const struct lq_lines *lines, lightq_status status, struct lq_err *err, const char *format,
                             ...)
{
    char text[LQ_ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return lq_err_set(err, status, "%s:%llu: %s", lines->path, (unsigned long long)lines->number, text);
}

/* Moves what is left to the front of the buffer and reads on behind it. */
static lightq_status fill(struct lq_lines *lines, struct lq_err *err)
{
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    size_t got = fread(lines->buffer + lines->end, 1, BUFFER_BYTES - lines->end, lines->file);
    lines->end += got;
    if (got == 0) {
        if (ferror(lines->file)) {
            return lq_err_from_errno(err, errno, "read %s", lines->path);
        }
        lines->at_end = true;
    }
    return LIGHTQ_OK;
}

static lightq_status check_bytes(const struct lq_lines *lines, struct lq_word line, struct lq_err *err)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.at[i] < ' ' || line.at[i] > '~') {
            return lq_lines_error(lines, LIGHTQ_EINVAL, err, "byte %zu is 0x%02x, not a printable character", i + 1,
                                  (unsigned char)line.at[i]);
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_lines_next(struct lq_lines *lines, struct lq_word *line, struct lq_err *err)
{
    size_t looked = 0;
    for (;;) {
        const char *start = lines->buffer + lines->begin;
        size_t left = lines->end - lines->begin;
        const char *feed = left > looked ? memchr(start + looked, '\n', left - looked) : NULL;
        if (feed != NULL || left > LQ_LINE_BYTES_MAX) {
            lines->number++;
            *line = (struct lq_word){.at = start, .size = feed != NULL ? (size_t)(feed - start) : left};
            if (line->size > LQ_LINE_BYTES_MAX) {
                return lq_lines_error(lines, LIGHTQ_EINVAL, err, "the line is longer than %d bytes", LQ_LINE_BYTES_MAX);
            }
            lines->begin += line->size + 1;
            return check_bytes(lines, *line, err);
        }
        if (lines->at_end) {
            lines->number++;
            return left == 0 ? LIGHTQ_ENOTFOUND
                             : lq_lines_error(lines, LIGHTQ_EINVAL, err, "the last line is not ended: it was cut");
        }
        looked = left;
        lightq_status status = fill(lines, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
}

size_t lq_line_words(struct lq_word line, struct lq_word *words)
{
    size_t count = 0, start = 0;
    for (size_t i = 0; i <= line.size; i++) {
        if (i < line.size && line.at[i] != ' ') {
            continue;
        }
        if (i == start || count == LQ_LINE_WORDS_MAX) {
            return 0;
        }
        words[count++] = (struct lq_word){.at = line.at + start, .size = i - start};
        start = i + 1;
    }
    return count;
}

bool lq_word_is(struct lq_word word, const char *text)
{
    return strlen(text) == word.size && memcmp(text, word.at, word.size) == 0;
}

bool lq_word_number(struct lq_word word, uint64_t most, uint64_t *number)
{
    if (word.size == 0 || (word.size > 1 && word.at[0] == '0')) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < word.size; i++) {
        unsigned digit = (unsigned)word.at[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    return value <= most;
}

bool lq_word_hex(struct lq_word word, size_t digits, uint64_t *number)
{
    if (word.size == 0 || word.size > digits) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < word.size; i++) {
        char c = word.at[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        } else {
            return false;
        }
        value = value << 4 | digit;
    }
    *number = value;
    return true;
}
