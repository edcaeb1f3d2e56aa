/* client/lib/client.c - lightq_new, lightq_close and what belongs to no producer or consumer. See lightq/lightq.h. */
#include "client/lib/client.h"

#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/lib/error.h"
#include "client/lib/wait.h"

#define CLOSE_MS_DEFAULT      30000
#define STRING_OF(x)          #x
#define VERSION_TEXT(a, b, c) STRING_OF(a) "." STRING_OF(b) "." STRING_OF(c)

const char *lightq_version(void)
{
    return VERSION_TEXT(LIGHTQ_VERSION_MAJOR, LIGHTQ_VERSION_MINOR, LIGHTQ_VERSION_PATCH);
}

lightq_status lq_topic_name_check(const char *name)
{
    size_t size = strnlen(name, LQ_NAME_BYTES_MAX + 1);
    if (size == 0 || size > LQ_NAME_BYTES_MAX || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return LIGHTQ_ENAME;
    }
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        bool fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
                    c == '_' || c == '-';
        if (!fine) {
            return LIGHTQ_ENAME;
        }
    }
    return LIGHTQ_OK;
}

lightq_status lightq_new(const struct lightq_conf *conf, struct lightq **client, struct lightq_error *error)
{
    struct lightq_conf *defaults = NULL;
    struct lq_err err;
    lightq_status status = LIGHTQ_OK;
    if (conf == NULL) {
        status = lightq_conf_new(&defaults);
        conf = defaults;
    }
    struct lightq *made = status == LIGHTQ_OK ? calloc(1, sizeof *made) : NULL;
    if (made == NULL) {
        lightq_conf_free(defaults);
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    status = lq_client_options_check(&conf->options, &err);
    if (status != LIGHTQ_OK) {
        lq_error_from_err(error, status, &err);
        goto err_after_alloc;
    }
    status = lq_guard_init(&made->guard);
    if (status != LIGHTQ_OK) {
        lq_error_plain(error, status);
        goto err_after_alloc;
    }
    status = lq_io_start(&made->io, &conf->options, lq_clock_system(), error);
    if (status != LIGHTQ_OK) {
        lq_guard_deinit(&made->guard);
        goto err_after_alloc;
    }
    lightq_conf_free(defaults);
    *client = made;
    return LIGHTQ_OK;

err_after_alloc:
    free(made);
    lightq_conf_free(defaults);
    return status;
}

lightq_status lightq_close(struct lightq *client, int timeout_ms)
{
    if (client == NULL) {
        return LIGHTQ_OK;
    }
    if (lq_client_forked(client)) {
        return LIGHTQ_EFORK;
    }
    if (atomic_load(&client->users) > 0) {
        return LIGHTQ_EBUSY;
    }
    lq_io_stop(&client->io, timeout_ms < 0 ? CLOSE_MS_DEFAULT : timeout_ms);
    lq_guard_deinit(&client->guard);
    free(client);
    return LIGHTQ_OK;
}

const char *lightq_cluster_id(const struct lightq *client)
{
    struct lightq *mutable_client = (struct lightq *)(uintptr_t)client; /* the lock is not part of what is const */
    if (lq_client_forked(client)) {
        return "";
    }
    pthread_mutex_lock(&mutable_client->io.lock);
    const char *text = client->io.cluster_text; /* written once, before it is not empty */
    bool known = text[0] != '\0';
    pthread_mutex_unlock(&mutable_client->io.lock);
    return known ? text : "";
}

lightq_status lq_client_trouble(struct lightq *client, lightq_status status, struct lightq_error *error)
{
    pthread_mutex_lock(&client->io.lock);
    struct lightq_error refusal = client->io.refusal;
    struct lightq_error trouble = client->io.trouble;
    pthread_mutex_unlock(&client->io.lock);
    if (refusal.status != LIGHTQ_OK) {
        return lq_error_set(error, refusal.status, "%s", refusal.text);
    }
    if (trouble.status == LIGHTQ_OK) {
        return lq_error_set(error, status, "no server answered; asked %s", client->io.options.bootstrap_servers);
    }
    return lq_error_set(error, status, "no server can be reached; the last try: %s", trouble.text);
}

lightq_status lightq_wait_connected(struct lightq *client, int timeout_ms, struct lightq_error *error)
{
    if (lq_client_forked(client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    struct lq_io *io = &client->io;
    uint64_t deadline_us = lq_deadline_in(io->clock, timeout_ms);
    bool in_time = true;
    pthread_mutex_lock(&io->lock);
    while (!io->connected && io->refusal.status == LIGHTQ_OK && in_time) {
        in_time = lq_cond_wait(&io->changed, &io->lock, deadline_us);
    }
    bool connected = io->connected;
    pthread_mutex_unlock(&io->lock);
    return connected ? LIGHTQ_OK : lq_client_trouble(client, LIGHTQ_ECONNECT, error);
}
