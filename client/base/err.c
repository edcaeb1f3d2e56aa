/* client/base/err.c - filling struct lq_err. Called by everyone, on any thread; calls nothing but libc's formatting. */
#include "client/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The sentence. Gives the length it has, or would have if there were room. */
static size_t set_text(struct lq_err *err, lightq_status status, const char *format, va_list arguments) LQ_PRINTF(3, 0);
static size_t set_text(struct lq_err *err, lightq_status status, const char *format, va_list arguments)
{
    err->status = status;
    int length = vsnprintf(err->text, sizeof err->text, format, arguments);
    if (length < 0) {
        err->text[0] = '\0';
    }
    return length < 0 ? 0 : (size_t)length;
}

lightq_status lq_err_set(struct lq_err *err, lightq_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)set_text(err, status, format, arguments);
        va_end(arguments);
    }
    return status;
}

lightq_status lq_err_from_errno(struct lq_err *err, int errnum, const char *format, ...)
{
    lightq_status status = lq_status_from_errno(errnum);
    if (err == NULL) {
        return status;
    }
    va_list arguments;
    va_start(arguments, format);
    size_t at = set_text(err, status, format, arguments);
    va_end(arguments);
    char reason[128];
    const char *name = strerrorname_np(errnum);
    char unknown[32];
    if (name == NULL) {
        (void)snprintf(unknown, sizeof unknown, "errno %d", errnum);
        name = unknown;
    }
    int reason_length = snprintf(reason, sizeof reason, ": %s (%s)", name,
                                 strerrordesc_np(errnum) ? strerrordesc_np(errnum) : "no description");
    /* The reason is what an operator needs most: when the sentence is too long, it is the sentence that is cut. */
    size_t reason_size = reason_length < 0 ? 0 : (size_t)reason_length;
    reason_size = reason_size < sizeof reason ? reason_size : sizeof reason - 1;
    if (at > sizeof err->text - 1 - reason_size) {
        at = sizeof err->text - 1 - reason_size;
    }
    memcpy(err->text + at, reason, reason_size);
    err->text[at + reason_size] = '\0';
    return status;
}

lightq_status lq_status_from_errno(int errnum)
{
    switch (errnum) {
    case 0:
        return LIGHTQ_OK;
    case ENOSPC:
    case EDQUOT:
        return LIGHTQ_ENOSPC;
    case ENOMEM:
        return LIGHTQ_ENOMEM;
    case ENOENT:
        return LIGHTQ_ENOTFOUND;
    case EEXIST:
        return LIGHTQ_EEXISTS;
    case EADDRINUSE:
        return LIGHTQ_EADDRINUSE;
    case EMFILE:
    case ENFILE:
        return LIGHTQ_ELIMIT;
    case EACCES:
    case EPERM:
        return LIGHTQ_EAUTH;
    default:
        return LIGHTQ_EIO;
    }
}
