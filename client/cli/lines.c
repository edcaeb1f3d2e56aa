/* client/cli/lines.c - see lines.h. */
#include "client/cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DIGITS_MAX 20
#define HEX_MAX    8
#define HEX_BITS   4
#define FILE_MODE  0644

void lines_use(struct lines *lines, int fd, const char *path)
{
    lines->fd = fd;
    lines->path = path;
    lines->error = 0;
    lines->used = 0;
}

bool lines_open(struct lines *lines, const char *path)
{
    lines_use(lines, -1, path);
    if (path == NULL) {
        return true;
    }
    lines->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    return lines->fd >= 0;
}

static void write_all(struct lines *lines, const char *bytes, size_t size)
{
    while (size > 0 && lines->error == 0) {
        ssize_t written = write(lines->fd, bytes, size);
        if (written < 0 && errno != EINTR) {
            lines->error = errno;
        } else if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
}

void lines_flush(struct lines *lines)
{
    if (lines->fd >= 0) {
        write_all(lines, lines->buffer, lines->used);
    }
    lines->used = 0;
}

bool lines_close(struct lines *lines)
{
    lines_flush(lines);
    if (lines->fd > STDERR_FILENO && close(lines->fd) != 0 && lines->error == 0) {
        lines->error = errno;
    }
    lines->fd = -1;
    return lines->error == 0;
}

void lines_bytes(struct lines *lines, const void *bytes, size_t size)
{
    if (lines->fd < 0 || size == 0) {
        return;
    }
    if (size > sizeof lines->buffer - lines->used) {
        lines_flush(lines);
    }
    if (size > sizeof lines->buffer) {
        write_all(lines, bytes, size);
        return;
    }
    memcpy(lines->buffer + lines->used, bytes, size);
    lines->used += size;
}

void lines_text(struct lines *lines, const char *text)
{
    lines_bytes(lines, text, strlen(text));
}

void lines_char(struct lines *lines, char c)
{
    lines_bytes(lines, &c, 1);
}

size_t lines_put_number(char *to, uint64_t number)
{
    char digits[DIGITS_MAX];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < count; i++) {
        to[i] = digits[count - 1 - i];
    }
    return count;
}

void lines_number(struct lines *lines, uint64_t number)
{
    char text[DIGITS_MAX];
    lines_bytes(lines, text, lines_put_number(text, number));
}

void lines_signed(struct lines *lines, int64_t number)
{
    if (number < 0) {
        lines_char(lines, '-');
    }
    lines_number(lines, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void lines_hex(struct lines *lines, uint32_t number)
{
    static const char digits[] = "0123456789abcdef";
    char text[HEX_MAX];
    size_t at = sizeof text;
    do {
        text[--at] = digits[number & ((1u << HEX_BITS) - 1)];
        number >>= HEX_BITS;
    } while (number > 0);
    lines_bytes(lines, text + at, sizeof text - at);
}
