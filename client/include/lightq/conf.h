/* lightq/conf.h - settings of a client, as names and values in text. The names, their bounds and their defaults are
 * listed by lightq_conf_describe(), by `lightq --help-conf` and in liblightq(3). Any thread, one at a time for each
 * object. */
#ifndef LIGHTQ_CONF_H
#define LIGHTQ_CONF_H

#include <stddef.h>

#include <lightq/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#if defined(__GNUC__)
#define LIGHTQ_MUST_CHECK __attribute__((warn_unused_result))
#else
#define LIGHTQ_MUST_CHECK
#endif

#define LIGHTQ_ERROR_TEXT_BYTES 512
#define LIGHTQ_CONF_VALUE_BYTES 8200 /* room for any value as text */

/* What went wrong, for programs and for people. Filled by the functions that take one (it may be NULL there). */
struct lightq_error {
    lightq_status status;
    bool retriable;                     /* the same request may succeed later without anybody changing anything */
    bool fatal;                         /* the object that reported it will not work again: close it */
    char text[LIGHTQ_ERROR_TEXT_BYTES]; /* one sentence, zero-terminated */
};

/* Settings. They are copied by whoever takes them, so they may be changed or freed afterwards. */
struct lightq_conf;

/* One setting, as lightq_conf_describe() gives it. All memory is static. */
struct lightq_conf_option {
    const char *name;     /* "linger.ms" */
    const char *initial;  /* the default in text, or NULL: not set */
    const char *unit;     /* "milliseconds", or the words it can be: "none|lz4|zstd" */
    const char *sentence; /* what it does */
};

/* Makes settings that hold the defaults. OK: free with lightq_conf_free. ENOMEM: nothing was made. */
lightq_status lightq_conf_new(struct lightq_conf **conf) LIGHTQ_MUST_CHECK;

/* NULL is allowed. */
void lightq_conf_free(struct lightq_conf *conf);

/* Sets the option @name from text. Sizes take k, m and g behind the number, durations ms, s, m and h.
 * OK | ENOTFOUND (no option has that name) | EINVAL (not a value of that option: @error says why) | ENOMEM. On failure
 * @conf is as it was. */
lightq_status lightq_conf_set(struct lightq_conf *conf, const char *name, const char *value,
                              struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Writes the value of @name as text, zero-terminated, into @value of @capacity bytes; an option that is not set is "".
 * OK | ENOTFOUND | ETOOBIG (it was cut). */
lightq_status lightq_conf_get(const struct lightq_conf *conf, const char *name, char *value,
                              size_t capacity) LIGHTQ_MUST_CHECK;

/* The option number @index, from 0. OK | ENOTFOUND (@index is past the last one). */
lightq_status lightq_conf_describe(size_t index, struct lightq_conf_option *option) LIGHTQ_MUST_CHECK;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
