/* client/lib/error.c - see error.h. */
#include "client/lib/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void begin(struct lightq_error *error, lightq_status status)
{
    error->status = status;
    error->retriable = lightq_status_retriable(status);
    error->fatal = lq_status_is_final_refusal(status);
    error->text[0] = '\0';
}

lightq_status lq_error_set(struct lightq_error *error, lightq_status status, const char *format, ...)
{
    if (error == NULL) {
        return status;
    }
    va_list arguments;
    va_start(arguments, format);
    begin(error, status);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

lightq_status lq_error_from_err(struct lightq_error *error, lightq_status status, const struct lq_err *err)
{
    if (error != NULL) {
        begin(error, status);
        memcpy(error->text, err->text, sizeof error->text);
        error->text[sizeof error->text - 1] = '\0';
    }
    return status;
}

lightq_status lq_error_plain(struct lightq_error *error, lightq_status status)
{
    return lq_error_set(error, status, "%s", lightq_status_text(status));
}

bool lq_status_is_final_refusal(lightq_status status)
{
    return status == LIGHTQ_EAUTH || status == LIGHTQ_EVERSION;
}
