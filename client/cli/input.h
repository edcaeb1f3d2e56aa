/* client/cli/input.h - lines of a file, a pipe or a terminal, with a bound and without blocking for long. */
#ifndef LQ_CLI_INPUT_H
#define LQ_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>

enum input_result {
    INPUT_LINE,
    INPUT_NOTHING, /* none came in time */
    INPUT_END,
    INPUT_TOO_LONG,
    INPUT_FAILED, /* reading failed, or no memory */
};

struct input {
    int fd;
    size_t line_max;
    char *bytes;
    size_t used, at, capacity;
    bool ended;
};

/* @fd is borrowed. */
void input_init(struct input *input, int fd, size_t line_max);
void input_deinit(struct input *input);
/* The next line without its newline, valid until the next call; the last one need not have a newline. */
enum input_result input_line(struct input *input, const char **line, size_t *size, int timeout_ms);

#endif
