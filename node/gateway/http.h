/* node/gateway/http.h - /health and /metrics over HTTP: libmicrohttpd with its epoll descriptor in the shard's loop, no
 * thread of its own. Called by node/server.c; loop thread only. Connections are bounded in number, memory and time. */
#ifndef LQ_NODE_GATEWAY_HTTP_H
#define LQ_NODE_GATEWAY_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "node/counters.h"
#include "node/endpoint.h"

struct lq_http;

struct lq_http_events {
    /* True: well. Otherwise not; either way a text for people goes into @out, a line a reason. */
    bool (*health)(void *owner, struct lq_writer *out);
    /* The text of /metrics, in Prometheus' format. */
    void (*metrics)(void *owner, struct lq_writer *out);
};

/* Listens at @address, as lq_listen does. @counters is borrowed.
 * OK | EINVAL | EADDRINUSE | EAUTH | ELIMIT | EIO | ENOMEM | EINTERNAL; @err says which address. */
lightq_status lq_http_new(uv_loop_t *loop, const struct lq_endpoint *address, struct lq_counters *counters,
                          const struct lq_http_events *events, void *owner, struct lq_http **http,
                          struct lq_err *err) LQ_MUST_CHECK;
/* Closes every connection at once. @cb runs once, later; then @http is gone. */
void lq_http_close(struct lq_http *http, void (*cb)(void *owner), void *owner);
uint16_t lq_http_port(const struct lq_http *http);

#endif
