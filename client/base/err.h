/* client/base/err.h - how errors are carried: a status, and for the operator a sentence with path, offset and errno.
 * Used by every module, on any thread. Nothing here allocates. */
#ifndef LQ_BASE_ERR_H
#define LQ_BASE_ERR_H

#include <lightq/status.h>

#define LQ_MUST_CHECK               __attribute__((warn_unused_result))
#define LQ_PRINTF(format_at, first) __attribute__((format(printf, format_at, first)))
#define LQ_ERR_TEXT_BYTES           512

struct lq_err {
    lightq_status status;
    char text[LQ_ERR_TEXT_BYTES]; /* one sentence, zero-terminated, cut when too long */
};

/* Fill @err (may be NULL) with @status and the sentence; return @status, so that callers can return it at once. */
lightq_status lq_err_set(struct lq_err *err, lightq_status status, const char *format, ...) LQ_PRINTF(3, 4);

/* The same from an errno value: the sentence gets ": <errno name> (<strerror>)" behind it. Returns the status that
 * lq_status_from_errno gives. */
lightq_status lq_err_from_errno(struct lq_err *err, int errnum, const char *format, ...) LQ_PRINTF(3, 4);

/* ENOSPC, EDQUOT -> ENOSPC; ENOMEM -> ENOMEM; ENOENT -> ENOTFOUND; EEXIST -> EEXISTS; EADDRINUSE -> EADDRINUSE;
 * EACCES, EPERM -> EAUTH; 0 -> OK; anything else -> EIO. */
lightq_status lq_status_from_errno(int errnum);

#endif
