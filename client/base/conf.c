/* client/base/conf.c - setting options from text. Called by whoever has options: the node, topics, the client library,
 * the command line. Printing them is conf_print.c. */
#include "client/base/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"

#define NAME_BYTES_MAX  128 /* of an option's name or of its environment variable */
#define SHOWN_BYTES_MAX 64  /* how much of a bad value an error repeats */
#define NEAR_EDITS_MAX  3   /* a name further away than this is no suggestion */

extern char **environ;

/* A multiplier that may stand behind a number. */
struct suffix {
    const char *text;
    uint64_t factor;
};

static const struct suffix size_suffixes[] = {{"g", UINT64_C(1) << 30}, {"m", 1u << 20}, {"k", 1u << 10}, {"", 1}};
static const struct suffix duration_suffixes[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {"", 1}};
static const struct suffix no_suffixes[] = {{"", 1}};

static const struct suffix *suffixes_of(enum lq_conf_kind kind, size_t *count)
{
    if (kind == LQ_CONF_SIZE) {
        *count = sizeof size_suffixes / sizeof size_suffixes[0];
        return size_suffixes;
    }
    if (kind == LQ_CONF_DURATION) {
        *count = sizeof duration_suffixes / sizeof duration_suffixes[0];
        return duration_suffixes;
    }
    *count = 1;
    return no_suffixes;
}

/* @value with the largest suffix that divides it. */
static void format_number(enum lq_conf_kind kind, uint64_t value, char *text, size_t size)
{
    size_t count;
    const struct suffix *suffix = suffixes_of(kind, &count);
    while (value == 0 ? suffix->factor != 1 : value % suffix->factor != 0) {
        suffix++;
    }
    (void)snprintf(text, size, "%" PRIu64 "%s", value / suffix->factor, suffix->text);
}

static bool parse_number(enum lq_conf_kind kind, const char *text, uint64_t *value, bool *overflow)
{
    uint64_t number = 0;
    const char *at = text;
    *overflow = false;
    for (; *at >= '0' && *at <= '9'; at++) {
        *overflow |= __builtin_mul_overflow(number, 10, &number);
        *overflow |= __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number);
    }
    if (at == text) {
        return false;
    }
    size_t count;
    const struct suffix *suffix = suffixes_of(kind, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(at, suffix[i].text) == 0) {
            *overflow |= __builtin_mul_overflow(number, suffix[i].factor, value);
            return true;
        }
    }
    return false;
}

/* The place of @word in @words ("a|b|c"), or -1. */
static int word_place(const char *words, const char *word)
{
    size_t size = strlen(word);
    int place = 0;
    for (const char *at = words; size > 0; place++) {
        size_t length = strcspn(at, "|");
        if (length == size && strncasecmp(at, word, size) == 0) {
            return place;
        }
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    return -1;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be changed, added or taken away to make @b of @a (Levenshtein). */
static size_t edits(const char *a, const char *b)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t b_size = strnlen(b, NAME_BYTES_MAX);
    for (size_t j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_size];
}

/* ENOTFOUND, with the nearest name when one is near. */
static lightq_status unknown_name(const struct lq_conf_table *table, const char *name, struct lq_err *err)
{
    const char *nearest = NULL;
    size_t least = NEAR_EDITS_MAX + 1;
    for (size_t i = 0; i < table->count && strlen(name) < NAME_BYTES_MAX; i++) {
        size_t distance = edits(name, table->options[i].name);
        if (distance < least && distance < strlen(name)) {
            least = distance;
            nearest = table->options[i].name;
        }
    }
    if (nearest != NULL) {
        return lq_err_set(err, LIGHTQ_ENOTFOUND, "%.*s: no such %s option; did you mean %s?", SHOWN_BYTES_MAX, name,
                          table->title, nearest);
    }
    return lq_err_set(err, LIGHTQ_ENOTFOUND, "%.*s: no such %s option", SHOWN_BYTES_MAX, name, table->title);
}

static lightq_status set_string(const struct lq_conf_option *option, char **field, const char *value,
                                struct lq_err *err)
{
    size_t size = strlen(value);
    if (size < option->least || size > option->most) {
        return lq_err_set(err, LIGHTQ_EINVAL,
                          "%s: must be %" PRIu64 " to %" PRIu64 " characters long, and this has %zu", option->name,
                          option->least, option->most, size);
    }
    char *copy = strdup(value);
    if (copy == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "%s: out of memory", option->name);
    }
    free(*field);
    *field = copy;
    return LIGHTQ_OK;
}

static lightq_status set_number(const struct lq_conf_option *option, uint64_t *field, const char *value,
                                struct lq_err *err)
{
    static const char *const forms[] = {[LQ_CONF_U64] = "a whole number",
                                        [LQ_CONF_SIZE] = "a size as 4096, 64k, 16m or 1g",
                                        [LQ_CONF_DURATION] = "a duration as 250ms, 10s, 5m or 2h"};
    uint64_t number = 0;
    bool overflow;
    if (!parse_number(option->kind, value, &number, &overflow)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: \"%.*s\" is not %s", option->name, SHOWN_BYTES_MAX, value,
                          forms[option->kind]);
    }
    char bound[32];
    if (overflow || number > option->most) {
        format_number(option->kind, option->most, bound, sizeof bound);
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: %.*s is above the maximum of %s", option->name, SHOWN_BYTES_MAX,
                          value, bound);
    }
    if (number < option->least) {
        format_number(option->kind, option->least, bound, sizeof bound);
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: %.*s is below the minimum of %s", option->name, SHOWN_BYTES_MAX,
                          value, bound);
    }
    *field = number;
    return LIGHTQ_OK;
}

static lightq_status set_bool(const struct lq_conf_option *option, bool *field, const char *value, struct lq_err *err)
{
    if (word_place("true|yes|on|1", value) >= 0) {
        *field = true;
    } else if (word_place("false|no|off|0", value) >= 0) {
        *field = false;
    } else {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: \"%.*s\" is neither true nor false", option->name, SHOWN_BYTES_MAX,
                          value);
    }
    return LIGHTQ_OK;
}

static lightq_status set_enum(const struct lq_conf_option *option, uint64_t *field, const char *value,
                              struct lq_err *err)
{
    int place = word_place(option->unit, value);
    if (place < 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: \"%.*s\" is none of %s", option->name, SHOWN_BYTES_MAX, value,
                          option->unit);
    }
    *field = (uint64_t)place;
    return LIGHTQ_OK;
}

static lightq_status set_option(const struct lq_conf_option *option, void *conf, const char *value, struct lq_err *err)
{
    void *field = (char *)conf + option->field;
    if (strnlen(value, LQ_CONF_TEXT_BYTES_MAX) == LQ_CONF_TEXT_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: the value is longer than %d characters", option->name,
                          LQ_CONF_TEXT_BYTES_MAX - 1);
    }
    switch (option->kind) {
    case LQ_CONF_STRING:
        return set_string(option, field, value, err);
    case LQ_CONF_BOOL:
        return set_bool(option, field, value, err);
    case LQ_CONF_ENUM:
        return set_enum(option, field, value, err);
    case LQ_CONF_U64:
    case LQ_CONF_SIZE:
    case LQ_CONF_DURATION:
        return set_number(option, field, value, err);
    }
    return lq_err_set(err, LIGHTQ_EINTERNAL, "%s: an option of an unknown kind", option->name);
}

lightq_status lq_conf_init(const struct lq_conf_table *table, void *conf)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct lq_conf_option *option = &table->options[i];
        if (option->kind == LQ_CONF_STRING) {
            char *none = NULL;
            memcpy((char *)conf + option->field, &none, sizeof none);
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct lq_conf_option *option = &table->options[i];
        if (option->initial == NULL) {
            assert(option->kind == LQ_CONF_STRING);
            continue;
        }
        lightq_status status = set_option(option, conf, option->initial, NULL);
        assert(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
        if (status != LIGHTQ_OK) {
            lq_conf_deinit(table, conf);
            return status;
        }
    }
    return LIGHTQ_OK;
}

void lq_conf_deinit(const struct lq_conf_table *table, void *conf)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->options[i].kind == LQ_CONF_STRING) {
            char **field = (void *)((char *)conf + table->options[i].field);
            free(*field);
            *field = NULL;
        }
    }
}

const struct lq_conf_option *lq_conf_find(const struct lq_conf_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

lightq_status lq_conf_set(const struct lq_conf_table *table, void *conf, const char *name, const char *value,
                          struct lq_err *err)
{
    const struct lq_conf_option *option = lq_conf_find(table, name);
    if (option == NULL) {
        return unknown_name(table, name, err);
    }
    return set_option(option, conf, value, err);
}

lightq_status lq_conf_set_in(const struct lq_conf_table *table, void *conf, const char *section, const char *name,
                             const char *value, struct lq_err *err)
{
    if (section == NULL || section[0] == '\0') {
        return lq_conf_set(table, conf, name, value, err);
    }
    char full[NAME_BYTES_MAX];
    int length = snprintf(full, sizeof full, "%s.%s", section, name);
    if (length < 0 || (size_t)length >= sizeof full) {
        return lq_err_set(err, LIGHTQ_ENOTFOUND, "[%.*s] %.*s: no such %s option", SHOWN_BYTES_MAX, section,
                          SHOWN_BYTES_MAX, name, table->title);
    }
    return lq_conf_set(table, conf, full, value, err);
}

lightq_status lq_conf_set_pair(const struct lq_conf_table *table, void *conf, const char *pair, struct lq_err *err)
{
    const char *equals = strchr(pair, '=');
    if (equals == NULL) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%.*s: must be name=value", SHOWN_BYTES_MAX, pair);
    }
    char name[NAME_BYTES_MAX];
    size_t size = (size_t)(equals - pair);
    if (size >= sizeof name) {
        return lq_err_set(err, LIGHTQ_ENOTFOUND, "%.*s: no such %s option", SHOWN_BYTES_MAX, pair, table->title);
    }
    memcpy(name, pair, size);
    name[size] = '\0';
    return lq_conf_set(table, conf, name, equals + 1, err);
}

/* Whether the environment's name (@size bytes, without the prefix) is @option's. */
static bool is_variable_of(const char *variable, size_t size, const struct lq_conf_option *option)
{
    if (strlen(option->name) != size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = option->name[i];
        bool lower = c >= 'a' && c <= 'z';
        bool kept = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
        char expected = lower ? (char)(c - 'a' + 'A') : '_';
        if (variable[i] != (kept ? c : expected)) {
            return false;
        }
    }
    return true;
}

/* One variable that has the prefix: @rest is what comes behind it, "NAME=value". */
static lightq_status set_variable(const struct lq_conf_table *table, void *conf, const char *prefix, const char *rest,
                                  bool strict, struct lq_err *err)
{
    const char *equals = strchr(rest, '=');
    size_t size = equals == NULL ? 0 : (size_t)(equals - rest);
    for (size_t i = 0; i < table->count && size > 0; i++) {
        if (is_variable_of(rest, size, &table->options[i])) {
            return set_option(&table->options[i], conf, equals + 1, err);
        }
    }
    if (!strict) {
        return LIGHTQ_OK;
    }
    return lq_err_set(err, LIGHTQ_ENOTFOUND, "%s%.*s: no %s option has this environment variable", prefix,
                      (int)smaller(size, SHOWN_BYTES_MAX), rest, table->title);
}

lightq_status lq_conf_environment(const struct lq_conf_table *table, void *conf, const char *prefix, bool strict,
                                  struct lq_err *err)
{
    size_t prefix_size = strlen(prefix);
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (strncmp(*at, prefix, prefix_size) != 0) {
            continue;
        }
        lightq_status status = set_variable(table, conf, prefix, *at + prefix_size, strict, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return LIGHTQ_OK;
}

char *lq_conf_format(const struct lq_conf_option *option, const void *conf, char *text, size_t size)
{
    const void *field = (const char *)conf + option->field;
    if (size == 0) {
        return text;
    }
    text[0] = '\0';
    switch (option->kind) {
    case LQ_CONF_STRING: {
        const char *const *string = field;
        (void)snprintf(text, size, "%s", *string == NULL ? "" : *string);
        break;
    }
    case LQ_CONF_BOOL:
        (void)snprintf(text, size, "%s", *(const bool *)field ? "true" : "false");
        break;
    case LQ_CONF_ENUM: {
        const char *word = option->unit;
        for (uint64_t place = *(const uint64_t *)field; place > 0; place--) {
            word += strcspn(word, "|");
            word += *word == '|';
        }
        (void)snprintf(text, size, "%.*s", (int)strcspn(word, "|"), word);
        break;
    }
    case LQ_CONF_U64:
    case LQ_CONF_SIZE:
    case LQ_CONF_DURATION:
        format_number(option->kind, *(const uint64_t *)field, text, size);
        break;
    }
    return text;
}
