/* client/lib/conn.c - the life of a connection and its times. What goes over it is in conn_message.c. See conn.h.
 * I/O thread only. */
#include "client/lib/conn_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/meta.h"

#define CONNECT_TIMEOUT_MS    3000     /* TCP, ZMTP and HELLO together */
#define UNWANTED_US           60000000 /* a connection nobody wants is given back after this */
#define BACKOFF_JITTER_OF     4        /* up to a quarter is added, so that many clients do not come at once */
#define SUSPECT_NUM           3        /* a server that owes an answer is suspect after 3/2 heartbeat intervals */
#define SUSPECT_DEN           2
#define SESSION_SILENCE_PARTS 2 /* heartbeats twice as often as the server wants something */
#define PORT_MAX              65535
#define US_PER_MS             1000u

/* ---- addresses */

/* Whether @address is host:port or [v6]:port. */
static bool is_address(const char *address)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || strlen(address) >= LQ_ADDRESS_BYTES) {
        return false;
    }
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port == 0 || port > PORT_MAX) {
        return false;
    }
    for (const char *at = address; at < colon; at++) {
        if (*at <= ' ' || *at == '/' || *at == ',' || *at == ';' || (*at == ':' && address[0] != '[')) {
            return false;
        }
    }
    return true;
}

struct lq_conn *lq_conn_get(struct lq_io *io, const char *address)
{
    struct lq_conn *conn;
    HASH_FIND_STR(io->conns, address, conn);
    if (conn != NULL) {
        return conn;
    }
    if (!is_address(address) || io->conn_count >= LQ_CONNS_MAX) {
        return NULL;
    }
    conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        return NULL;
    }
    conn->io = io;
    memcpy(conn->address, address, strlen(address) + 1);
    HASH_ADD_STR(io->conns, address, conn);
    if (conn->hh.tbl == NULL) {
        free(conn);
        return NULL;
    }
    io->conn_count++;
    return conn;
}

/* ---- life */

static void close_link(struct lq_conn *conn, uint64_t deadline_us)
{
    lq_link_close(&conn->link, deadline_us);
    conn->active = false;
}

static void wait_before_retry(struct lq_conn *conn)
{
    struct lq_io *io = conn->io;
    uint64_t least = io->options.reconnect_backoff_ms * US_PER_MS;
    uint64_t most = io->options.reconnect_backoff_max_ms * US_PER_MS;
    uint64_t backoff = conn->backoff_us == 0 ? least : conn->backoff_us * 2;
    conn->backoff_us = backoff < most ? backoff : most;
    uint64_t jitter = lq_clock_random_below(io->clock, conn->backoff_us / BACKOFF_JITTER_OF + 1);
    conn->retry_us = io->now_us + conn->backoff_us + jitter;
    conn->state = LQ_CONN_WAITING;
    lq_io_hurry(io);
}

static void begin(struct lq_conn *conn)
{
    conn->begun_us = conn->io->now_us;
    conn->received_us = conn->begun_us;
    conn->state = LQ_CONN_CONNECTING;
    conn->suspect = false;
    lq_io_hurry(conn->io);
    lq_link_open(&conn->link, conn->address, (size_t)LQ_ENTRY_BYTES_MAX + LQ_ENVELOPE_BYTES_MAX);
    conn->active = true; /* it may have failed already */
    lq_conn_hello(conn);
}

bool lq_conn_want(struct lq_conn *conn)
{
    conn->wanted_us = conn->io->now_us;
    if (conn->state == LQ_CONN_IDLE) {
        begin(conn);
    }
    return conn->state == LQ_CONN_READY;
}

void lq_conn_hasten(struct lq_conn *conn)
{
    if (conn->state == LQ_CONN_WAITING) {
        conn->backoff_us = 0;
        conn->retry_us = conn->io->now_us;
        lq_io_hurry(conn->io);
    }
}

struct lq_conn *lq_conn_any(struct lq_io *io, const struct lq_conn *last)
{
    struct lq_conn *second_best = NULL;
    struct lq_conn *start = last != NULL && last->hh.next != NULL ? last->hh.next : io->conns;
    struct lq_conn *at = start;
    for (size_t i = 0; i < io->conn_count && at != NULL; i++) {
        if (at->state == LQ_CONN_READY) {
            if (!at->suspect) {
                return at;
            }
            second_best = second_best == NULL ? at : second_best;
        }
        at = at->hh.next != NULL ? at->hh.next : io->conns;
    }
    return second_best;
}

void lq_conn_ready(struct lq_conn *conn)
{
    conn->state = LQ_CONN_READY;
    conn->backoff_us = 0;
    lq_io_connected(conn->io, conn);
}

/* Everybody who waits for something of @conn learns that it will not come. They may ask others meanwhile. */
static void tell_lost(struct lq_conn *conn, lightq_status status, const char *text)
{
    while (conn->requests != NULL) {
        struct lq_request *request = conn->requests;
        lq_request_cancel(request);
        request->done(request, &(struct lq_reply){.status = status, .text = text});
    }
    while (conn->streams != NULL) {
        struct lq_stream *stream = conn->streams;
        lq_stream_close(stream);
        stream->on_lost(stream);
    }
}

void lq_conn_lose(struct lq_conn *conn, lightq_status status, const char *text)
{
    char copy[LIGHTQ_ERROR_TEXT_BYTES]; /* @text may lie in what goes with the link */
    snprintf(copy, sizeof copy, "%s", text);
    close_link(conn, 0);
    conn->suspect = false;
    conn->session = 0;
    wait_before_retry(conn);
    tell_lost(conn, LIGHTQ_ECONNECT, copy);
    lq_meta_conn_doubt(conn->io->meta, conn);
    lq_io_trouble(conn->io, status, copy);
}

void lq_conn_refuse(struct lq_conn *conn, lightq_status status, const char *text)
{
    char copy[LIGHTQ_ERROR_TEXT_BYTES];
    snprintf(copy, sizeof copy, "%s: %s", conn->address, text[0] != '\0' ? text : lightq_status_text(status));
    conn->backoff_us = conn->io->options.reconnect_backoff_max_ms * US_PER_MS;
    lq_conn_lose(conn, status, copy);
    if (status == LIGHTQ_EAUTH || status == LIGHTQ_EVERSION) {
        lq_io_refused(conn->io, status, copy);
    }
}

void lq_conn_flush(struct lq_conn *conn)
{
    if (conn->link.out != NULL && lq_link_flush(&conn->link)) {
        conn->active = true;
    }
}

void lq_conn_bye(struct lq_conn *conn, uint64_t deadline_us)
{
    if (!lq_link_is_open(&conn->link)) {
        return;
    }
    if (conn->state == LQ_CONN_READY) {
        Lightq__Wire__Bye bye = LIGHTQ__WIRE__BYE__INIT;
        lq_conn_push(conn, LQ_MESSAGE_BYE, 0, &bye.base);
        (void)lq_link_flush(&conn->link);
    }
    close_link(conn, deadline_us);
    conn->state = LQ_CONN_IDLE;
}

void lq_conns_free(struct lq_io *io)
{
    while (io->conns != NULL) {
        struct lq_conn *conn = io->conns;
        while (conn->requests != NULL) {
            lq_request_cancel(conn->requests);
        }
        while (conn->streams != NULL) {
            lq_stream_close(conn->streams);
        }
        close_link(conn, 0);
        HASH_DEL(io->conns, conn);
        free(conn);
    }
    io->conn_count = 0;
}

/* ---- times */

/* The first request whose time has passed, or NULL. */
static struct lq_request *find_expired(const struct lq_conn *conn)
{
    for (struct lq_request *request = conn->requests; request != NULL; request = request->hh.next) {
        if (request->deadline_us <= conn->io->now_us) {
            return request;
        }
    }
    return NULL;
}

static void expire_requests(struct lq_conn *conn)
{
    struct lq_request *request;
    while ((request = find_expired(conn)) != NULL) {
        char text[LQ_ADDRESS_BYTES + 64];
        snprintf(text, sizeof text, "no answer from %s in time", conn->address);
        lq_request_cancel(request);
        request->done(request, &(struct lq_reply){.status = LIGHTQ_ETIMEDOUT, .text = text});
    }
}

static bool owes_answer(const struct lq_conn *conn)
{
    return conn->requests != NULL;
}

static void tick_ready(struct lq_conn *conn)
{
    struct lq_io *io = conn->io;
    uint64_t silent_us = io->now_us - conn->received_us;
    uint64_t interval_us = io->options.heartbeat_interval_ms * US_PER_MS;
    bool in_use = owes_answer(conn) || conn->streams != NULL;
    bool due = (in_use && silent_us >= interval_us) ||
               io->now_us - conn->sent_us >= conn->session_silence_us / SESSION_SILENCE_PARTS;
    if (due && conn->heartbeat.conn == NULL) {
        lq_conn_heartbeat(conn);
    }
    if (!conn->suspect && owes_answer(conn) && silent_us * SUSPECT_DEN >= interval_us * SUSPECT_NUM) {
        conn->suspect = true;
        lq_meta_conn_doubt(io->meta, conn);
    }
    expire_requests(conn);
    if (conn->state == LQ_CONN_READY && !conn->bootstrap && conn->requests == NULL && conn->streams == NULL &&
        io->now_us - conn->wanted_us > UNWANTED_US) {
        lq_conn_bye(conn, 0);
    }
}

void lq_conn_tick(struct lq_conn *conn)
{
    struct lq_io *io = conn->io;
    switch (conn->state) {
    case LQ_CONN_IDLE:
        if (conn->bootstrap || lq_conn_any(io, NULL) == NULL) {
            lq_conn_want(conn); /* any of those we know may be the one that answers */
        }
        break;
    case LQ_CONN_CONNECTING:
        if (io->now_us - conn->begun_us >= CONNECT_TIMEOUT_MS * US_PER_MS) {
            char text[LQ_ADDRESS_BYTES + 64];
            snprintf(text, sizeof text, "%s did not greet within %d ms", conn->address, CONNECT_TIMEOUT_MS);
            lq_conn_lose(conn, LIGHTQ_ECONNECT, text);
        }
        break;
    case LQ_CONN_READY:
        tick_ready(conn);
        break;
    case LQ_CONN_WAITING:
        if (io->now_us < conn->retry_us) {
            break;
        }
        conn->state = LQ_CONN_IDLE;
        if (conn->bootstrap || io->now_us - conn->wanted_us <= UNWANTED_US || lq_conn_any(io, NULL) == NULL) {
            begin(conn);
        }
        break;
    }
}
