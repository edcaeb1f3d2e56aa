/* client/cli/input.c - see input.h. */
#include "client/cli/input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_BYTES 65536u

void input_init(struct input *input, int fd, size_t line_max)
{
    *input = (struct input){.fd = fd, .line_max = line_max};
}

void input_deinit(struct input *input)
{
    free(input->bytes);
}

/* Room for more behind what is unread. False: no memory. */
static bool make_room(struct input *input)
{
    if (input->at > 0) {
        memmove(input->bytes, input->bytes + input->at, input->used - input->at);
        input->used -= input->at;
        input->at = 0;
    }
    if (input->used < input->capacity) {
        return true;
    }
    size_t capacity = input->capacity == 0 ? FIRST_BYTES : input->capacity * 2;
    char *grown = realloc(input->bytes, capacity);
    if (grown == NULL) {
        return false;
    }
    input->bytes = grown;
    input->capacity = capacity;
    return true;
}

static enum input_result fill(struct input *input, int timeout_ms)
{
    struct pollfd polled = {.fd = input->fd, .events = POLLIN};
    if (!make_room(input)) {
        return INPUT_FAILED;
    }
    if (poll(&polled, 1, timeout_ms) <= 0) {
        return INPUT_NOTHING;
    }
    ssize_t got = read(input->fd, input->bytes + input->used, input->capacity - input->used);
    if (got < 0) {
        return errno == EINTR || errno == EAGAIN ? INPUT_NOTHING : INPUT_FAILED;
    }
    input->used += (size_t)got;
    input->ended = got == 0;
    return INPUT_LINE;
}

enum input_result input_line(struct input *input, const char **line, size_t *size, int timeout_ms)
{
    size_t searched = 0; /* bytes behind input->at that hold no newline */
    for (;;) {
        size_t left = input->used - input->at;
        char *start = left > 0 ? input->bytes + input->at : NULL;
        char *newline = left > searched ? memchr(start + searched, '\n', left - searched) : NULL;
        if (newline != NULL || (input->ended && left > 0)) {
            *line = start;
            *size = newline != NULL ? (size_t)(newline - start) : left;
            input->at += *size + (newline != NULL);
            return INPUT_LINE;
        }
        if (input->ended) {
            return INPUT_END;
        }
        if (left > input->line_max) {
            return INPUT_TOO_LONG;
        }
        searched = left;
        enum input_result result = fill(input, timeout_ms);
        if (result != INPUT_LINE) {
            return result;
        }
    }
}
