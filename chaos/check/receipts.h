/* chaos/check/receipts.h - what lightq produce --acked and lightq consume --log write, as a history. Both are lines of
 * words with one space between them:
 *
 *   --acked   cluster topic partition offset|- producer sequence term batch_crc
 *   --log     topic partition offset producer sequence payload_crc deliveries
 *
 * Numbers are decimal; a crc may be hexadecimal too, since it is only compared with others. "-" for an offset: stored
 * by an earlier try, and not known where. There are no times, attempts and failures in it, so only what needs none of
 * them is checked. */
#ifndef LQ_CHECK_RECEIPTS_H
#define LQ_CHECK_RECEIPTS_H

#include <stdio.h>

#include "chaos/check/history.h"

/* What is kept between files. Zero it before the first one; deinit at the end. */
struct lq_receipts {
    struct lq_check_names clusters; /* one, or the receipts do not belong together */
};

void lq_receipts_deinit(struct lq_receipts *receipts);

/* OK | ENOMEM | ELIMIT | EIO | EINVAL ("PATH:LINE: what"). After a failure @history holds what came before. */
lightq_status lq_receipts_load_acked(struct lq_receipts *receipts, struct lq_history *history, FILE *file,
                                     const char *path, struct lq_err *err) LQ_MUST_CHECK;
/* Everything in @file was read by a reader of its own, named log-1, log-2, ... @kind: SUBSCRIBER when it is one run of
 * one consumer that read in order, otherwise PIPELINE (then nothing is expected of the order). */
lightq_status lq_receipts_load_log(struct lq_history *history, enum lq_reader_kind kind, FILE *file, const char *path,
                                   struct lq_err *err) LQ_MUST_CHECK;

#endif
