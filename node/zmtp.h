/* node/zmtp.h - ZMTP 3 at the side that accepts connections: a state machine over the bytes of one connection, without
 * I/O, memory or time. The bytes themselves are drawn, read and written in client/wire/zmtp.h. Called by
 * node/front_conn.c and by the fuzzer. Any thread.
 *
 * Served are peers of version 3 and later, with mechanism NULL, of the types that may talk to a ROUTER (DEALER, REQ,
 * ROUTER), and without a routing id of their own. Messages have one frame or two. Bytes may come in pieces of any size;
 * bodies of messages are the caller's business and never pass through here. */
#ifndef LQ_NODE_ZMTP_H
#define LQ_NODE_ZMTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/wire/zmtp.h"

#define LQ_ZMTP_REPLY_BYTES 256 /* of one reply, at most */

enum lq_zmtp_event {
    LQ_ZMTP_NO_NEWS,   /* everything was taken, and nothing came of it yet */
    LQ_ZMTP_GREETED,   /* the handshake is done: messages may be sent. The reply is our READY */
    LQ_ZMTP_FRAME,     /* a frame of a message begins: its body is the caller's to take */
    LQ_ZMTP_MALFORMED, /* the message has more than two frames: what is left of it is skipped */
    LQ_ZMTP_PINGED,    /* the reply is the PONG */
    LQ_ZMTP_REFUSED,   /* it is not ZMTP, or not served, see err. The reply, if any, says so; then close */
};

/* What came of the bytes. */
struct lq_zmtp_news {
    enum lq_zmtp_event event;
    uint64_t size;     /* FRAME: of the body */
    bool first, last;  /* FRAME: of its message */
    struct lq_err err; /* REFUSED */
    size_t reply_size; /* to be sent; 0: nothing */
    uint8_t reply[LQ_ZMTP_REPLY_BYTES];
};

enum lq_zmtp_state {
    LQ_ZMTP_IN_GREETING,
    LQ_ZMTP_IN_HEAD,
    LQ_ZMTP_IN_COMMAND,
    LQ_ZMTP_IN_BODY, /* of a frame of a message: the caller's */
    LQ_ZMTP_IN_REST, /* of a frame that nobody wants */
    LQ_ZMTP_BROKEN,  /* was REFUSED */
};

/* Members are private to zmtp.c. */
struct lq_zmtp {
    uint64_t frame_bytes_max;
    uint64_t left; /* bytes of the frame's body that were not taken */
    enum lq_zmtp_state state;
    bool ready;                              /* the handshake is done */
    bool more;                               /* the frame before was not the last of its message */
    bool skipping;                           /* the message is MALFORMED */
    uint16_t count;                          /* of held */
    uint8_t held[LQ_ZMTP_COMMAND_BYTES_MAX]; /* greeting, head or command, as far as it has come */
};

/* Frames above @frame_bytes_max are refused when their head has come. */
void lq_zmtp_init(struct lq_zmtp *zmtp, uint64_t frame_bytes_max);
/* Takes bytes until there is news or no byte is left; *used says how many it took. While a frame's body is not taken
 * (lq_zmtp_body_left is not 0) it takes none. */
void lq_zmtp_take(struct lq_zmtp *zmtp, const uint8_t *bytes, size_t size, size_t *used, struct lq_zmtp_news *news);
/* Bytes of a message's frame that the caller has still to take. */
static inline uint64_t lq_zmtp_body_left(const struct lq_zmtp *zmtp)
{
    return zmtp->state == LQ_ZMTP_IN_BODY ? zmtp->left : 0;
}
/* The caller took @size of them, at most lq_zmtp_body_left. */
void lq_zmtp_body_taken(struct lq_zmtp *zmtp, uint64_t size);
static inline bool lq_zmtp_is_ready(const struct lq_zmtp *zmtp)
{
    return zmtp->ready;
}

#endif
