/* client/cli/lines.h - writes lines of fields to a file fast: a buffer, and formatting by hand. Used for --acked, --log
 * and --print, where a million lines must not be what takes the time. One thread. */
#ifndef LQ_CLI_LINES_H
#define LQ_CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_BUFFER_BYTES (256u * 1024)

struct lines {
    int fd; /* -1: nothing is written */
    const char *path;
    int error; /* errno of the first write that failed; 0: none */
    size_t used;
    char buffer[LINES_BUFFER_BYTES];
};

/* Opens @path (borrowed; NULL: writes nothing) and cuts it to nothing. False: errno says why. */
bool lines_open(struct lines *lines, const char *path);
/* Writes to @fd, which stays open. */
void lines_use(struct lines *lines, int fd, const char *path);
/* Writes what is in the buffer. */
void lines_flush(struct lines *lines);
/* Flushes and closes. False: something could not be written; lines->error says why. */
bool lines_close(struct lines *lines);

void lines_bytes(struct lines *lines, const void *bytes, size_t size);
void lines_text(struct lines *lines, const char *text);
void lines_number(struct lines *lines, uint64_t number);
void lines_signed(struct lines *lines, int64_t number);
/* Hexadecimal, without leading zeros. */
void lines_hex(struct lines *lines, uint32_t number);
void lines_char(struct lines *lines, char c);

/* Writes @number in decimal to @to, not terminated; returns how many digits, 20 at most. */
size_t lines_put_number(char *to, uint64_t number);

#endif
