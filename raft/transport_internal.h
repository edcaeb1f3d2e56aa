/* raft/transport_internal.h - what transport.c (peers, timers, the link) and transport_conn.c (one connection's life)
 * share. Private to them. */
#ifndef LQ_RAFT_TRANSPORT_INTERNAL_H
#define LQ_RAFT_TRANSPORT_INTERNAL_H

#include "raft/frame.h"
#include "raft/sender.h"
#include "raft/transport.h"

struct peer;
struct resolve;

enum conn_kind {
    CONN_OUT,   /* we opened it, to send */
    CONN_IN,    /* we accepted it, to receive */
    CONN_PROBE, /* we opened it, to ask who is there */
};

enum conn_state {
    CONN_RESOLVING,  /* OUT, PROBE: the name is being looked up */
    CONN_CONNECTING, /* OUT, PROBE */
    CONN_ASKED,      /* OUT, PROBE: our hello is sent; the answer must come */
    CONN_EXPECTING,  /* IN: the hello must come */
    CONN_ANSWERED,   /* IN: an answer is being written after which it is closed (refused, or a probe) */
    CONN_UP,         /* OUT, IN: identified; frames flow */
    CONN_CLOSING,    /* until libuv has called back; then it is freed */
    CONN_STATES,
};

struct probe {
    lq_transport_probe_cb cb;
    void *data;
    lightq_status status;
    struct lq_hello hello;
    struct lq_err err;
};

struct conn {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t hello_write;
    struct resolve *resolve; /* while RESOLVING */
    struct lq_transport *transport;
    struct conn *previous, *next;
    struct peer *peer; /* OUT: until removed; IN: when identified */
    struct probe *probe;
    enum conn_kind kind;
    enum conn_state state;
    uint32_t node;        /* OUT: from the start; IN: when identified */
    uint16_t port;        /* OUT, PROBE: to connect to */
    uint64_t deadline_ms; /* loop time by which it must be UP (or written, when ANSWERED); 0: none */
    bool restricted;      /* only NODE frames */
    bool was_up;
    bool gone;     /* the process at the other end is gone */
    bool hopeless; /* refused for good: trying again soon is of no use */
    struct lq_frame_stream stream;
    struct lq_sender sender; /* OUT */
    uint8_t hello[LQ_FRAME_HEADER_BYTES + LQ_HELLO_BYTES_MAX];
};

/* A node that was given by set_peer, or that identify accepted. */
struct peer {
    uint32_t node;
    bool dialed; /* given by set_peer: host and port are set */
    char host[LQ_HOST_BYTES_MAX + 1];
    uint16_t port;
    struct lq_hello_seen seen;
    struct conn *out, *in; /* may be CLOSING */
    uint64_t retry_at_ms;  /* loop time; 0: not scheduled */
    unsigned backoff_ms;   /* of the next retry; 0: none failed since it was up */
    bool redial;           /* the next retry is due at once */
    bool told_gone;        /* since it was up: down() with refused was called */
};

struct lq_transport {
    struct lq_link link; /* first: lq_link is cast to this */
    struct lq_transport_options options;
    struct lq_hello self; /* what we say of ourselves, but for kind, to and status */
    uv_loop_t *loop;
    struct lq_clock *clock;
    struct lq_transport_events events;
    uv_tcp_t listener;
    uv_timer_t timer; /* one for all deadlines and retries */
    unsigned open_handles;
    bool listening, closing;
    bool accept_owed; /* a connection waits in libuv that there was no memory for */
    uint16_t port;
    struct conn *conns;
    struct peer **peers; /* sorted by node */
    size_t peer_count, peer_capacity;
    struct lq_transport_counters counters;
    uint64_t log_again_us; /* before that no warning is logged */
    uint64_t log_held_back;
    void (*close_cb)(void *data);
    void *close_data;
};

/* ---- transport.c ---- */

struct peer *lq_transport_find(const struct lq_transport *transport, uint32_t node); /* NULL when not known */
/* Finds or makes; NULL when out of memory. */
struct peer *lq_transport_obtain(struct lq_transport *transport, uint32_t node);
/* Sets the timer to the next deadline or retry. */
void lq_transport_arm(struct lq_transport *transport);
/* After an OUT connection of @peer was closed. */
void lq_transport_retry(struct lq_transport *transport, struct peer *peer, const struct conn *conn);
/* True at most once a second; *held_back is how many were not logged since. */
bool lq_transport_may_log(struct lq_transport *transport, uint64_t *held_back);
/* Frees the transport when it is closing and nothing of it is left. */
void lq_transport_maybe_closed(struct lq_transport *transport);

/* ---- transport_conn.c ---- */

/* Turns an address in text into a socket address, without asking anybody. False: it is a name. */
bool lq_transport_parse_address(const char *host, uint16_t port, struct sockaddr_storage *address);
/* Begins to connect to @peer, whose out is NULL; what fails at once ends in lq_transport_retry all the same. ENOMEM. */
lightq_status lq_conn_dial(struct lq_transport *transport, struct peer *peer) LQ_MUST_CHECK;
lightq_status lq_conn_probe(struct lq_transport *transport, const char *host, uint16_t port,
                            struct probe *probe) LQ_MUST_CHECK;
void lq_conn_on_connection(uv_stream_t *listener, int status);
/* Idempotent. What must be told is told from libuv's close callback. */
void lq_conn_close(struct conn *conn);
/* The transport closes: a probe is told so. */
void lq_conn_cancel(struct conn *conn);
/* The deadline has passed. */
void lq_conn_expire(struct conn *conn);
/* Writes what is queued; a broken connection is closed. */
void lq_conn_flush(struct conn *conn);

#endif
