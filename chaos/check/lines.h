/* chaos/check/lines.h - reads a text file line by line and cuts lines into words, strictly and with a bound: a line is
 * printable ASCII, words are parted by one space, and every line ends with a line feed. Used by history_text.c and
 * receipts.c. */
#ifndef LQ_CHECK_LINES_H
#define LQ_CHECK_LINES_H

#include <stdio.h>

#include "chaos/check/names.h"

enum { LQ_LINE_BYTES_MAX = 2048, LQ_LINE_WORDS_MAX = 10 };

struct lq_lines {
    FILE *file;       /* borrowed */
    const char *path; /* borrowed: for errors */
    uint64_t number;  /* of the line that was read last, from 1 */
    char *buffer;     /* owned */
    size_t begin, end;
    bool at_end; /* of the file: what is in the buffer is all */
};

/* OK | ENOMEM. */
lightq_status lq_lines_init(struct lq_lines *lines, FILE *file, const char *path, struct lq_err *err) LQ_MUST_CHECK;
void lq_lines_deinit(struct lq_lines *lines);
/* The next line without its line feed, borrowed until the next call. OK | ENOTFOUND (there is none; @err is not
 * filled) | EINVAL (too long, not ended, a byte that is not printable ASCII) | EIO. */
lightq_status lq_lines_next(struct lq_lines *lines, struct lq_word *line, struct lq_err *err) LQ_MUST_CHECK;
/* Fills @err with "PATH:LINE: " and the sentence; returns @status. */
lightq_status lq_lines_error(const struct lq_lines *lines, lightq_status status, struct lq_err *err, const char *format,
                             ...) LQ_PRINTF(4, 5);

/* Cuts @line into @words; their number, or 0 when the line is empty, has more than LQ_LINE_WORDS_MAX words, or spaces
 * where none belong. */
size_t lq_line_words(struct lq_word line, struct lq_word *words);
bool lq_word_is(struct lq_word word, const char *text);
/* A decimal number of at most @most, without sign and leading zeros. */
bool lq_word_number(struct lq_word word, uint64_t most, uint64_t *number);
/* 1 to @digits hexadecimal digits (at most 16). */
bool lq_word_hex(struct lq_word word, size_t digits, uint64_t *number);

#endif
