/* node/endpoint.h - "host:port" as people write it, taken apart: 127.0.0.1:5600, [::1]:5600, broker-1.example:5600.
 * Called by node/options.c and whoever hands addresses to sockets. No I/O, no name resolution. Any thread. */
#ifndef LQ_NODE_ENDPOINT_H
#define LQ_NODE_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/limits.h"

#define LQ_ENDPOINT_TEXT_BYTES (LQ_HOST_BYTES_MAX + 9) /* "[" host "]:65535" and the zero */

struct lq_endpoint {
    char host[LQ_HOST_BYTES_MAX + 1]; /* without brackets */
    uint16_t port;
};

/* OK | EINVAL: @text is not host:port; @err says what is wrong, beginning with @what ("listen"). Port 0 is taken only
 * when @port_zero (a socket is to choose one). */
lightq_status lq_endpoint_parse(const char *text, const char *what, bool port_zero, struct lq_endpoint *endpoint,
                                struct lq_err *err) LQ_MUST_CHECK;
/* host:port, with brackets around a host that has colons. */
void lq_endpoint_format(const struct lq_endpoint *endpoint, char text[LQ_ENDPOINT_TEXT_BYTES]);
/* 127.0.0.0/8, ::1, localhost. A name is not looked up. */
bool lq_endpoint_is_loopback(const struct lq_endpoint *endpoint);
/* 0.0.0.0, ::, *: every address of the machine; nothing that can be told to others. */
bool lq_endpoint_is_any(const struct lq_endpoint *endpoint);

#endif
