/* client/lib/error.h - fills the public struct lightq_error. Any thread; nothing here allocates. */
#ifndef LQ_LIB_ERROR_H
#define LQ_LIB_ERROR_H

#include <lightq/conf.h>

#include "client/base/err.h"

_Static_assert(LIGHTQ_ERROR_TEXT_BYTES == LQ_ERR_TEXT_BYTES, "one sentence, one size");

/* Fills @error (may be NULL) with @status, whether it is retriable, and the sentence; returns @status. */
lightq_status lq_error_set(struct lightq_error *error, lightq_status status, const char *format, ...) LQ_PRINTF(3, 4);

/* The same from @err, which carries the sentence; @status is what counts. */
lightq_status lq_error_from_err(struct lightq_error *error, lightq_status status, const struct lq_err *err);

/* The same with the status's own sentence and nothing else to say. */
lightq_status lq_error_plain(struct lightq_error *error, lightq_status status);

/* True for a refusal after which no request of this client will be taken: EAUTH, EVERSION. */
bool lq_status_is_final_refusal(lightq_status status);

#endif
