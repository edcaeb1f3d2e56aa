/* chaos/check/history_text.h - a history as a text file. The format is drawn in history_text.c. */
#ifndef LQ_CHECK_HISTORY_TEXT_H
#define LQ_CHECK_HISTORY_TEXT_H

#include <stdio.h>

#include "chaos/check/history.h"

/* Adds all of @file to @history. @path names it in errors. OK | ENOMEM | ELIMIT | EIO | EINVAL (a line that is not
 * the format, or contradicts another: "PATH:LINE: what"). After a failure @history holds what came before. */
lightq_status lq_history_load(struct lq_history *history, FILE *file, const char *path,
                              struct lq_err *err) LQ_MUST_CHECK;
/* Writes @history so that lq_history_load gives the same one, which all checkers judge alike; the order of the lines
 * is by kind. Receipts cannot be written: EUNSUPPORTED. OK | EIO | ENOSPC. */
lightq_status lq_history_save(const struct lq_history *history, FILE *file, struct lq_err *err) LQ_MUST_CHECK;

#endif
