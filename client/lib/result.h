/* client/lib/result.h - memory of what administration gives: everything a result points to goes with it. Used by
 * admin.c; any thread, one at a time for each result. */
#ifndef LQ_LIB_RESULT_H
#define LQ_LIB_RESULT_H

#include <stddef.h>

#include "client/base/err.h"

/* A cleared object of @size bytes that owns what is allocated with it. Free with lightq_result_free. NULL: no memory.
 */
void *lq_result_new(size_t size);
/* Cleared memory that lives as long as @result; NULL: out of memory, or @count * @size overflows. */
void *lq_result_alloc(void *result, size_t count, size_t size);
/* A copy of @text that lives as long as @result; "" when it is NULL; NULL: out of memory. */
const char *lq_result_text(void *result, const char *text);

#endif
