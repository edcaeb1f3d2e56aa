/* node/gateway/http.c - see http.h. */
#include "node/gateway/http.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/listen.h"

#define CONNECTIONS_MAX         256
#define CONNECTION_MEMORY_BYTES (32u * 1024) /* head of a request and what is read of it */
#define TIMEOUT_SECONDS         10           /* a connection that does nothing */
#define BODY_BYTES_MAX          (16u * 1024 * 1024)
#define BACKLOG                 64
#define RUN_MS_MAX              1000
#define TYPE_TEXT               "text/plain; charset=utf-8"
#define TYPE_METRICS            "text/plain; version=0.0.4; charset=utf-8"

struct lq_http {
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer; /* libmicrohttpd's time-outs */
    uv_prepare_t prepare;
    unsigned handles;
    uint16_t port;
    struct lq_counters *counters;
    const struct lq_http_events *events;
    void *owner;
    void (*close_cb)(void *owner);
    void *close_owner;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type,
                              struct lq_writer *body)
{
    /* The bytes go over to the response, which frees them. */
    struct MHD_Response *response = MHD_create_response_from_buffer(body->size, body->bytes, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        lq_writer_deinit(body);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static void write_text(struct lq_writer *out, const char *text)
{
    lq_write_bytes(out, text, strlen(text));
}

/* libmicrohttpd: the head is there (then *context is NULL), and again when all of the request is. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **context)
{
    static const char seen; /* only its address is used */
    struct lq_http *http = data;
    (void)version;
    (void)upload;
    if (*context == NULL) {
        *context = (void *)(uintptr_t)&seen;
        return MHD_YES;
    }
    if (*upload_size != 0) {
        *upload_size = 0; /* nothing here takes a body */
        return MHD_YES;
    }
    struct lq_writer body;
    unsigned code = MHD_HTTP_OK;
    const char *type = TYPE_TEXT;
    lq_writer_init(&body, BODY_BYTES_MAX);
    http->counters->http_requests++;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        code = MHD_HTTP_METHOD_NOT_ALLOWED;
        write_text(&body, "only GET and HEAD\n");
    } else if (strcmp(url, "/health") == 0) {
        code = http->events->health(http->owner, &body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    } else if (strcmp(url, "/metrics") == 0) {
        type = TYPE_METRICS;
        http->events->metrics(http->owner, &body);
    } else {
        code = MHD_HTTP_NOT_FOUND;
        write_text(&body, "there are /health and /metrics\n");
    }
    if (body.status != LIGHTQ_OK) {
        lq_writer_deinit(&body);
        return MHD_NO;
    }
    return answer(connection, code, type, &body);
}

/* How a request ended; told for each that got as far as on_request. */
static void on_completed(void *data, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct lq_http *http = data;
    (void)connection;
    (void)context;
    http->counters->http_bad += code == MHD_REQUEST_TERMINATED_WITH_ERROR || code == MHD_REQUEST_TERMINATED_READ_ERROR;
}

/* A connection that libmicrohttpd closes for what it sent is only told of as a log line. */
static void on_complaint(void *data, const char *format, va_list arguments)
{
    struct lq_http *http = data;
    (void)format;
    (void)arguments;
    http->counters->http_bad++;
}

static void run(struct lq_http *http)
{
    (void)MHD_run(http->daemon);
}

static void on_timer(uv_timer_t *timer)
{
    run(timer->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

/* Before the loop sleeps: when libmicrohttpd wants to be called again. At the latest after a while, because it asks for
 * nothing when it has stopped accepting at its limit and all connections have gone. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct lq_http *http = prepare->data;
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    if (MHD_get_timeout(http->daemon, &timeout_ms) != MHD_YES || timeout_ms > RUN_MS_MAX) {
        timeout_ms = RUN_MS_MAX;
        if (uv_is_active((uv_handle_t *)&http->timer)) {
            return;
        }
    }
    (void)uv_timer_start(&http->timer, on_timer, timeout_ms, 0);
}

/* ---- life */

static void start_handle(struct lq_http *http, uv_handle_t *handle)
{
    handle->data = http;
    http->handles++;
}

static lightq_status start_loop(struct lq_http *http, uv_loop_t *loop, struct lq_err *err)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int error = info == NULL ? UV_EINVAL : uv_poll_init(loop, &http->poll, info->epoll_fd);
    if (error != 0) {
        return lq_err_set(err, LIGHTQ_EINTERNAL, "watch the HTTP port: %s", uv_strerror(error));
    }
    start_handle(http, (uv_handle_t *)&http->poll);
    (void)uv_timer_init(loop, &http->timer);
    start_handle(http, (uv_handle_t *)&http->timer);
    (void)uv_prepare_init(loop, &http->prepare);
    start_handle(http, (uv_handle_t *)&http->prepare);
    error = uv_poll_start(&http->poll, UV_READABLE, on_readable);
    if (error == 0) {
        error = uv_prepare_start(&http->prepare, on_prepare);
    }
    return error == 0 ? LIGHTQ_OK : lq_err_set(err, LIGHTQ_EINTERNAL, "watch the HTTP port: %s", uv_strerror(error));
}

lightq_status lq_http_new(uv_loop_t *loop, const struct lq_endpoint *address, struct lq_counters *counters,
                          const struct lq_http_events *events, void *owner, struct lq_http **out, struct lq_err *err)
{
    struct lq_http *http = calloc(1, sizeof *http);
    int descriptor;
    if (http == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory");
    }
    http->counters = counters;
    http->events = events;
    http->owner = owner;
    lightq_status status = lq_listen(address, "HTTP port", "--http", BACKLOG, &descriptor, &http->port, err);
    if (status != LIGHTQ_OK) {
        free(http);
        return status;
    }
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_complaint,
        http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_LISTEN_SOCKET, descriptor,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)TIMEOUT_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_END);
    if (http->daemon == NULL) {
        (void)close(descriptor);
        free(http);
        return lq_err_set(err, LIGHTQ_EINTERNAL, "the HTTP server cannot be started");
    }
    status = start_loop(http, loop, err);
    if (status != LIGHTQ_OK) {
        lq_http_close(http, NULL, NULL);
        return status;
    }
    *out = http;
    return LIGHTQ_OK;
}

static void finish(struct lq_http *http)
{
    void (*cb)(void *owner) = http->close_cb;
    void *owner = http->close_owner;
    MHD_stop_daemon(http->daemon); /* closes the listening socket too */
    free(http);
    if (cb != NULL) {
        cb(owner);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct lq_http *http = handle->data;
    if (--http->handles == 0) {
        finish(http);
    }
}

static void close_handle(uv_handle_t *handle)
{
    if (handle->data != NULL) {
        uv_close(handle, on_handle_closed);
    }
}

void lq_http_close(struct lq_http *http, void (*cb)(void *owner), void *owner)
{
    http->close_cb = cb;
    http->close_owner = owner;
    if (http->handles == 0) { /* only from lq_http_new, which gives no callback */
        finish(http);
        return;
    }
    close_handle((uv_handle_t *)&http->poll);
    close_handle((uv_handle_t *)&http->timer);
    close_handle((uv_handle_t *)&http->prepare);
}

uint16_t lq_http_port(const struct lq_http *http)
{
    return http->port;
}
