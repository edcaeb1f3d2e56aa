/* node/endpoint.c - see endpoint.h. */
#include "node/endpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PORT_MAX        65535
#define SHOWN_BYTES_MAX 64 /* how much of a bad address an error repeats */
#define PORT_DIGITS_MAX 5
#define IPV4_LOOPBACK   "127."
#define IPV6_LOOPBACK   "::1"
#define LOCALHOST       "localhost"

static bool host_byte_is_good(char c, bool bracketed)
{
    if (isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_') {
        return true;
    }
    return bracketed ? c == ':' || c == '%' : c == '*';
}

static bool parse_port(const char *text, bool port_zero, uint16_t *port)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > PORT_DIGITS_MAX || text[digits] != '\0') {
        return false;
    }
    unsigned value = 0;
    for (size_t i = 0; i < digits; i++) {
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value > PORT_MAX || (value == 0 && !port_zero)) {
        return false;
    }
    *port = (uint16_t)value;
    return true;
}

lightq_status lq_endpoint_parse(const char *text, const char *what, bool port_zero, struct lq_endpoint *endpoint,
                                struct lq_err *err)
{
    bool bracketed = text[0] == '[';
    const char *host = bracketed ? text + 1 : text;
    const char *host_end = bracketed ? strchr(host, ']') : strrchr(text, ':');
    const char *colon = bracketed && host_end != NULL ? host_end + 1 : host_end;
    if (host_end == NULL || host_end == host || *colon != ':') {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: \"%.*s\" is not host:port (as 127.0.0.1:5600 or [::1]:5600)", what,
                          SHOWN_BYTES_MAX, text);
    }
    size_t size = (size_t)(host_end - host);
    if (size > LQ_HOST_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: the host is longer than %d characters", what, LQ_HOST_BYTES_MAX);
    }
    for (size_t i = 0; i < size; i++) {
        if (!host_byte_is_good(host[i], bracketed)) {
            return lq_err_set(
                err, LIGHTQ_EINVAL,
                "%s: \"%.*s\" has a host that is no name and no address (IPv6 needs brackets: [::1]:5600)", what,
                SHOWN_BYTES_MAX, text);
        }
    }
    if (!parse_port(colon + 1, port_zero, &endpoint->port)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s: \"%.*s\" must end in a port from 1 to %d", what, SHOWN_BYTES_MAX,
                          text, PORT_MAX);
    }
    memcpy(endpoint->host, host, size);
    endpoint->host[size] = '\0';
    return LIGHTQ_OK;
}

void lq_endpoint_format(const struct lq_endpoint *endpoint, char text[LQ_ENDPOINT_TEXT_BYTES])
{
    bool brackets = strchr(endpoint->host, ':') != NULL;
    (void)snprintf(text, LQ_ENDPOINT_TEXT_BYTES, "%s%s%s:%u", brackets ? "[" : "", endpoint->host, brackets ? "]" : "",
                   (unsigned)endpoint->port);
}

bool lq_endpoint_is_loopback(const struct lq_endpoint *endpoint)
{
    return strncmp(endpoint->host, IPV4_LOOPBACK, sizeof IPV4_LOOPBACK - 1) == 0 ||
           strcmp(endpoint->host, IPV6_LOOPBACK) == 0 || strcmp(endpoint->host, LOCALHOST) == 0;
}

bool lq_endpoint_is_any(const struct lq_endpoint *endpoint)
{
    return strcmp(endpoint->host, "0.0.0.0") == 0 || strcmp(endpoint->host, "::") == 0 ||
           strcmp(endpoint->host, "*") == 0;
}
