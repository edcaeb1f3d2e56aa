/* client/base/log.h - logfmt lines on standard error (or a file). A constant message, then key/value pairs:
 *
 *     lq_log(INFO, "segment sealed", "partition", id, "offset", last);
 *     ts=2026-11-30T14:07:23.123456Z level=info module=segment at=storage/segment.c:88 thread=12 msg="segment sealed"
 * partition=7 offset=991
 *
 * Values may be any integer, bool, double, const char * or NULL; control bytes and quotes in them are escaped. At most
 * 8 pairs. A line is written by one write(2), so lines of threads do not mix. ERROR: someone must act; WARN: we coped;
 * INFO: state changed; DEBUG: off by default. */
#ifndef LQ_BASE_LOG_H
#define LQ_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lq_log_level { LQ_LOG_DEBUG, LQ_LOG_INFO, LQ_LOG_WARN, LQ_LOG_ERROR, LQ_LOG_OFF };

enum lq_log_kind { LQ_LOG_SIGNED, LQ_LOG_UNSIGNED, LQ_LOG_REAL, LQ_LOG_TEXT };

struct lq_log_field {
    const char *key;
    enum lq_log_kind kind;
    union {
        long long integer;
        unsigned long long natural;
        double real;
        const char *text;
    };
};

/* Process-wide (a log line has no owner): the least level written, and where to. Atomic. Default INFO, descriptor 2. */
void lq_log_configure(enum lq_log_level least, int descriptor);
bool lq_log_enabled(enum lq_log_level level);
void lq_log_write(enum lq_log_level level, const char *file, int line, const char *message,
                  const struct lq_log_field *fields, size_t count);

static inline struct lq_log_field lq_log_signed(const char *key, long long value)
{
    return (struct lq_log_field){.key = key, .kind = LQ_LOG_SIGNED, .integer = value};
}
static inline struct lq_log_field lq_log_unsigned(const char *key, unsigned long long value)
{
    return (struct lq_log_field){.key = key, .kind = LQ_LOG_UNSIGNED, .natural = value};
}
static inline struct lq_log_field lq_log_real(const char *key, double value)
{
    return (struct lq_log_field){.key = key, .kind = LQ_LOG_REAL, .real = value};
}
static inline struct lq_log_field lq_log_text(const char *key, const char *value)
{
    return (struct lq_log_field){.key = key, .kind = LQ_LOG_TEXT, .text = value};
}

#define LQ_LOG_FIELD(key, value) \
    _Generic((value), char *: lq_log_text, const char *: lq_log_text, float: lq_log_real, double: lq_log_real,         \
             bool: lq_log_unsigned, unsigned char: lq_log_unsigned, unsigned short: lq_log_unsigned,                   \
             unsigned int: lq_log_unsigned, unsigned long: lq_log_unsigned, unsigned long long: lq_log_unsigned,       \
             default: lq_log_signed)(key, value)
#define LQ_LOG_PAIRS_0()
#define LQ_LOG_PAIRS_2(k, v)                                                                              LQ_LOG_FIELD(k, v)
#define LQ_LOG_PAIRS_4(k, v, ...)                                                                         LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_2(__VA_ARGS__)
#define LQ_LOG_PAIRS_6(k, v, ...)                                                                         LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_4(__VA_ARGS__)
#define LQ_LOG_PAIRS_8(k, v, ...)                                                                         LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_6(__VA_ARGS__)
#define LQ_LOG_PAIRS_10(k, v, ...)                                                                        LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_8(__VA_ARGS__)
#define LQ_LOG_PAIRS_12(k, v, ...)                                                                        LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_10(__VA_ARGS__)
#define LQ_LOG_PAIRS_14(k, v, ...)                                                                        LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_12(__VA_ARGS__)
#define LQ_LOG_PAIRS_16(k, v, ...)                                                                        LQ_LOG_FIELD(k, v), LQ_LOG_PAIRS_14(__VA_ARGS__)
#define LQ_LOG_PICK(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, name, ...) name
#define LQ_LOG_PAIRS(...)                                                                                            \
    LQ_LOG_PICK(_, ##__VA_ARGS__, LQ_LOG_PAIRS_16, bad, LQ_LOG_PAIRS_14, bad, LQ_LOG_PAIRS_12, bad, LQ_LOG_PAIRS_10, \
                bad, LQ_LOG_PAIRS_8, bad, LQ_LOG_PAIRS_6, bad, LQ_LOG_PAIRS_4, bad, LQ_LOG_PAIRS_2, bad,             \
                LQ_LOG_PAIRS_0)                                                                                      \
    (__VA_ARGS__)

#define lq_log(level, message, ...)                                                                  \
    do {                                                                                             \
        if (lq_log_enabled(LQ_LOG_##level)) {                                                        \
            const struct lq_log_field lq_log_fields_[] = {{.key = NULL}, LQ_LOG_PAIRS(__VA_ARGS__)}; \
            lq_log_write(LQ_LOG_##level, __FILE__, __LINE__, message, lq_log_fields_ + 1,            \
                         sizeof lq_log_fields_ / sizeof lq_log_fields_[0] - 1);                      \
        }                                                                                            \
    } while (0)

#endif
