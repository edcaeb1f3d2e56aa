/* storage/dump.h - prints or checks a data directory, offline. Called by the program lightq-dump and by tests;
 * blocking, on one thread; reads through the io it is given and changes nothing. What its output means:
 * docs/man/lightq-dump.1. */
#ifndef LQ_STORAGE_DUMP_H
#define LQ_STORAGE_DUMP_H

#include <stdio.h>

#include "storage/io.h"

struct lq_dump_verdict {
    uint64_t files;   /* looked at */
    uint64_t stale;   /* that mean nothing any more */
    uint64_t torn;    /* with an interrupted write at their end */
    uint64_t damaged; /* files, or logs that are missing */
    uint64_t entries; /* sound ones, each time they are stored */
};

/* Prints to @out all that the io's root holds, or with @verify a line for each file. It does not stop at damage.
 * OK: all was read; *verdict says what was found. ENOTFOUND: the root is not a LightQ data directory; nothing was
 * printed. EIO, ENOMEM: something could not be read (it counts as damaged, and the rest was still looked at). */
lightq_status lq_dump(struct lq_io *io, bool verify, FILE *out, struct lq_dump_verdict *verdict,
                      struct lq_err *err) LQ_MUST_CHECK;

#endif
