/* node/listen.c - see listen.h. */
#include "node/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static lightq_status refuse(struct lq_err *err, int error, const char *what, const char *flag, const char *text)
{
    switch (error) {
    case EADDRINUSE:
        return lq_err_set(err, LIGHTQ_EADDRINUSE,
                          "the %s %s is in use: end the other process, or choose another with %s", what, text, flag);
    case EADDRNOTAVAIL:
        return lq_err_set(err, LIGHTQ_EINVAL, "the %s %s is not an address of this machine: correct %s", what, text,
                          flag);
    case EACCES:
        return lq_err_set(err, LIGHTQ_EAUTH, "the %s %s may not be used by this user: choose one above 1023 with %s",
                          what, text, flag);
    case EMFILE:
    case ENFILE:
        return lq_err_set(err, LIGHTQ_ELIMIT, "no descriptors left for the %s %s: raise the limit (ulimit -n)", what,
                          text);
    default:
        return lq_err_from_errno(err, error, "listen at the %s %s", what, text);
    }
}

/* The address as the kernel wants it; 0 when it is no number. */
static socklen_t to_kernel(const struct lq_endpoint *address, struct sockaddr_storage *storage)
{
    struct sockaddr_in *four = (struct sockaddr_in *)storage;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)storage;
    const char *host = address->host;
    memset(storage, 0, sizeof *storage);
    if (strcmp(host, "localhost") == 0) {
        host = "127.0.0.1";
    } else if (strcmp(host, "*") == 0) {
        host = "0.0.0.0";
    }
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(address->port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(address->port);
        return sizeof *six;
    }
    return 0;
}

lightq_status lq_listen(const struct lq_endpoint *address, const char *what, const char *flag, int backlog,
                        int *descriptor, uint16_t *port, struct lq_err *err)
{
    char text[LQ_ENDPOINT_TEXT_BYTES];
    struct sockaddr_storage storage;
    const int one = 1;
    lq_endpoint_format(address, text);
    socklen_t size = to_kernel(address, &storage);
    if (size == 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "the %s %s has no numeric address: correct %s", what, text, flag);
    }
    int made = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) {
        return refuse(err, errno, what, flag, text);
    }
    socklen_t named = sizeof storage;
    if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(made, (struct sockaddr *)&storage, size) != 0 || listen(made, backlog) != 0 ||
        getsockname(made, (struct sockaddr *)&storage, &named) != 0) {
        lightq_status status = refuse(err, errno, what, flag, text);
        (void)close(made);
        return status;
    }
    *port = ntohs(storage.ss_family == AF_INET ? ((struct sockaddr_in *)&storage)->sin_port
                                               : ((struct sockaddr_in6 *)&storage)->sin6_port);
    *descriptor = made;
    return LIGHTQ_OK;
}
