/* client/lib/conf.c - lightq_conf_*: the public face of the options table. Called by applications; stands on
 * client/base/conf.h. Any thread. See lightq/conf.h. */
#include "client/lib/options.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/error.h"

#define X(...) LQ_CONF_ROW(struct lq_client_options, __VA_ARGS__)
static const struct lq_conf_option rows[] = {LQ_CLIENT_OPTIONS(X)};
#undef X
static const struct lq_conf_table table = LQ_CONF_TABLE("client", rows);

const struct lq_conf_table *lq_client_options_table(void)
{
    return &table;
}

static char **string_at(void *options, const struct lq_conf_option *row)
{
    return (char **)(void *)((char *)options + row->field);
}

lightq_status lq_client_options_copy(struct lq_client_options *to, const struct lq_client_options *from)
{
    *to = *from;
    for (size_t i = 0; i < table.count; i++) {
        if (rows[i].kind == LQ_CONF_STRING) {
            *string_at(to, &rows[i]) = NULL;
        }
    }
    for (size_t i = 0; i < table.count; i++) {
        if (rows[i].kind != LQ_CONF_STRING) {
            continue;
        }
        const char *text = *string_at((void *)(uintptr_t)from, &rows[i]);
        if (text == NULL) {
            continue;
        }
        char *copy = strdup(text);
        if (copy == NULL) {
            lq_conf_deinit(&table, to);
            return LIGHTQ_ENOMEM;
        }
        *string_at(to, &rows[i]) = copy;
    }
    return LIGHTQ_OK;
}

lightq_status lq_client_options_check(const struct lq_client_options *options, struct lq_err *err)
{
    if (options->password != NULL && options->username == NULL) {
        return lq_err_set(err, LIGHTQ_EINVAL, "password is set but username is not: set both or none");
    }
    if (options->heartbeat_timeout_ms < options->heartbeat_interval_ms) {
        return lq_err_set(err, LIGHTQ_EINVAL, "heartbeat.timeout.ms must not be less than heartbeat.interval.ms");
    }
    if (options->retry_backoff_max_ms < options->retry_backoff_ms) {
        return lq_err_set(err, LIGHTQ_EINVAL, "retry.backoff.max.ms must not be less than retry.backoff.ms");
    }
    if (options->reconnect_backoff_max_ms < options->reconnect_backoff_ms) {
        return lq_err_set(err, LIGHTQ_EINVAL, "reconnect.backoff.max.ms must not be less than reconnect.backoff.ms");
    }
    return LIGHTQ_OK;
}

lightq_status lightq_conf_new(struct lightq_conf **conf)
{
    struct lightq_conf *made = malloc(sizeof *made);
    if (made == NULL) {
        return LIGHTQ_ENOMEM;
    }
    lightq_status status = lq_conf_init(&table, &made->options);
    if (status != LIGHTQ_OK) {
        free(made);
        return status;
    }
    *conf = made;
    return LIGHTQ_OK;
}

void lightq_conf_free(struct lightq_conf *conf)
{
    if (conf != NULL) {
        lq_conf_deinit(&table, &conf->options);
        free(conf);
    }
}

lightq_status lightq_conf_set(struct lightq_conf *conf, const char *name, const char *value, struct lightq_error *error)
{
    struct lq_err err;
    lightq_status status = lq_conf_set(&table, &conf->options, name, value, &err);
    if (status != LIGHTQ_OK) {
        lq_error_from_err(error, status, &err);
    }
    return status;
}

lightq_status lightq_conf_get(const struct lightq_conf *conf, const char *name, char *value, size_t capacity)
{
    char text[LIGHTQ_CONF_VALUE_BYTES];
    const struct lq_conf_option *option = lq_conf_find(&table, name);
    if (option == NULL) {
        return LIGHTQ_ENOTFOUND;
    }
    if (capacity == 0) {
        return LIGHTQ_ETOOBIG;
    }
    lq_conf_format(option, &conf->options, text, sizeof text);
    size_t size = strlen(text);
    size_t kept = size < capacity ? size : capacity - 1;
    memcpy(value, text, kept);
    value[kept] = '\0';
    return kept == size ? LIGHTQ_OK : LIGHTQ_ETOOBIG;
}

lightq_status lightq_conf_describe(size_t index, struct lightq_conf_option *option)
{
    if (index >= table.count) {
        return LIGHTQ_ENOTFOUND;
    }
    *option = (struct lightq_conf_option){
        .name = rows[index].name,
        .initial = rows[index].initial,
        .unit = rows[index].unit,
        .sentence = rows[index].sentence,
    };
    return LIGHTQ_OK;
}
