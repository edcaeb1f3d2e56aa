/* node/listen.h - listening sockets, for node/front.c, and for libmicrohttpd to accept from (node/gateway/http.c). Made
 * here so that errors are named alike. Any thread. */
#ifndef LQ_NODE_LISTEN_H
#define LQ_NODE_LISTEN_H

#include <stdint.h>

#include "client/base/err.h"
#include "node/endpoint.h"

/* Binds and listens at @address, whose host is a number, "localhost" or "*" (all IPv4 ones); port 0: one is chosen, and
 * *port says which. @what and @flag are for people: "client port", "--listen".
 * OK: *descriptor is not blocking, and the caller closes it. EINVAL: not an address of this machine. EADDRINUSE | EAUTH
 * | ELIMIT (no descriptors) | EIO. */
lightq_status lq_listen(const struct lq_endpoint *address, const char *what, const char *flag, int backlog,
                        int *descriptor, uint16_t *port, struct lq_err *err) LQ_MUST_CHECK;

#endif
