/* client/lib/conn.h - the connection to one server address: a link (link.h), whose life is that of one TCP
 * connection, so that nothing asked before a loss is ever sent again behind our back. I/O thread only.
 *
 *     IDLE -> CONNECTING (link opened, HELLO queued) -> READY -> lost -> WAITING (backoff) -> CONNECTING ...
 *
 * A connection is made when somebody wants it and given back when nobody has wanted it for a while. */
#ifndef LQ_LIB_CONN_H
#define LQ_LIB_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/hash.h"

#include "client/base/slab.h"
#include "client/lib/io.h"
#include "client/lib/link.h"
#include "client/wire/codec.h"

#define LQ_ADDRESS_BYTES 320 /* "host:port" with the zero */

enum lq_conn_state { LQ_CONN_IDLE, LQ_CONN_CONNECTING, LQ_CONN_READY, LQ_CONN_WAITING };

/* An answer, or why there is none. Everything is borrowed for the call. */
struct lq_reply {
    lightq_status status; /* the answer's; or ECONNECT (connection lost), ETIMEDOUT, EPROTO: without an answer */
    bool answered;        /* false: what became of the request is not known */
    const char *text;     /* a sentence, may be "" */
    const Lightq__Wire__Leader *leader; /* with ENOTLEADER, when the server named one; or NULL */
    void *body; /* the unpacked answer, NULL when it was ERROR or none; set it to NULL to keep it (lq_codec_free) */
};

/* A question on its way. Embedded; pinned until done() has run, which happens exactly once unless it is canceled. */
struct lq_request {
    uint64_t correlation;
    uint16_t type;
    struct lq_conn *conn; /* NULL: not on its way */
    uint64_t sent_us;
    uint64_t deadline_us;
    void (*done)(struct lq_request *request, struct lq_reply *reply);
    UT_hash_handle hh;
};

/* A subscription that deliveries are handed to. Embedded. */
struct lq_stream {
    uint64_t id;
    struct lq_conn *conn; /* NULL: not open */
    /* @payload (not NULL) is borrowed: take a reference to keep it. */
    void (*on_deliver)(struct lq_stream *stream, const Lightq__Wire__Deliver *deliver, struct lq_slab *payload);
    void (*on_ended)(struct lq_stream *stream, const Lightq__Wire__SubscriptionEnded *ended);
    void (*on_lost)(struct lq_stream *stream); /* the connection is lost, the stream is closed */
    UT_hash_handle hh;
};

struct lq_conn {
    struct lq_io *io;
    char address[LQ_ADDRESS_BYTES];
    enum lq_conn_state state;
    bool bootstrap;
    bool suspect;  /* silent although it owes an answer */
    uint32_t node; /* 0 until greeted */
    struct lq_link link;
    bool active;                 /* the link must be looked at before the thread sleeps */
    struct lq_request *requests; /* hash by correlation */
    struct lq_stream *streams;   /* hash by id */
    struct lq_request hello, heartbeat;
    uint64_t session;
    uint64_t session_silence_us; /* send something at least this often */
    uint64_t wanted_us;          /* when somebody last wanted it */
    uint64_t begun_us;           /* of CONNECTING */
    uint64_t retry_us;           /* of WAITING */
    uint64_t backoff_us;
    uint64_t received_us, sent_us;
    UT_hash_handle hh;
};

/* The connection of "host:port", made known when new; starts to connect when it is idle. NULL: not an address, out of
 * memory, or too many. */
struct lq_conn *lq_conn_get(struct lq_io *io, const char *address);
/* Somebody wants it. True: it is ready. */
bool lq_conn_want(struct lq_conn *conn);
/* Another server says that it leads, so it is there: a connection that waits before its next try does so now. */
void lq_conn_hasten(struct lq_conn *conn);
/* Some ready connection, the one after @last in turn and not suspect when there is another; NULL: none is ready. */
struct lq_conn *lq_conn_any(struct lq_io *io, const struct lq_conn *last);

/* Sends @body as a request of @type about @group, with @payload (NULL: none; a reference is taken).
 * OK: done() runs later, never inside. ECONNECT (not ready) | ETOOBIG | ENOMEM: it never runs. */
lightq_status lq_conn_request(struct lq_conn *conn, struct lq_request *request, uint16_t type, uint64_t group,
                              const ProtobufCMessage *body, struct lq_slab *payload, uint64_t timeout_us) LQ_MUST_CHECK;
/* The answer is not wanted any more. */
void lq_request_cancel(struct lq_request *request);
/* Sends without an answer. Failures are those of a lost connection and tell themselves. */
void lq_conn_push(struct lq_conn *conn, uint16_t type, uint64_t group, const ProtobufCMessage *body);

void lq_stream_open(struct lq_conn *conn, struct lq_stream *stream);
void lq_stream_close(struct lq_stream *stream);

/* Everything that has arrived. True: something had. */
bool lq_conn_receive(struct lq_conn *conn);
/* Times: connecting, requests, heartbeats, giving back. */
void lq_conn_tick(struct lq_conn *conn);
/* Gives it up now: requests and streams are told; with @retry it is made again after the backoff. */
void lq_conn_lose(struct lq_conn *conn, lightq_status status, const char *text);
/* What was sent in this turn goes out. */
void lq_conn_flush(struct lq_conn *conn);
/* BYE, and the link is closed; what was sent last has until @deadline_us (0: no time) to go out. */
void lq_conn_bye(struct lq_conn *conn, uint64_t deadline_us);
/* After the loop: frees all. Requests and streams must be gone. */
void lq_conns_free(struct lq_io *io);

#endif
