/* client/lib/link.h - one TCP connection to a server, speaking ZMTP as a DEALER socket does (client/wire/zmtp.h),
 * without a thread of its own: the I/O thread polls its descriptor and calls. Messages of one or two frames in and out.
 * Used by conn.c (its life) and conn_message.c (what goes over it). I/O thread only; nothing blocks but the look-up of
 * a name.
 *
 *     CLOSED -> CONNECTING (the addresses of the name one after the other) -> GREETING -> READYING -> UP -> LOST
 *
 * What is sent before UP waits in the queue. A loss is told by lq_link_receive, after everything that had arrived. */
#ifndef LQ_LIB_LINK_H
#define LQ_LIB_LINK_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/slab.h"
#include "client/wire/zmtp.h"

enum lq_link_state {
    LQ_LINK_CLOSED,
    LQ_LINK_CONNECTING,
    LQ_LINK_GREETING, /* waits for the server's greeting */
    LQ_LINK_READYING, /* waits for its READY */
    LQ_LINK_UP,
    LQ_LINK_LOST, /* until it is closed */
};

#define LQ_LINK_HAND_BYTES (LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES)

struct lq_link_out;

/* Members are private to link.c; all zero is CLOSED. */
struct lq_link {
    enum lq_link_state state;
    int fd;
    const char *address; /* borrowed while it is open */
    size_t frame_bytes_max;
    struct addrinfo *addresses, *next_address;
    struct lq_err why; /* of the last failure */

    /* out: the handshake, then, when UP, the queue */
    uint8_t hand[LQ_LINK_HAND_BYTES];
    size_t hand_size, hand_sent;
    struct lq_link_out *out, **out_end;
    bool blocked;     /* the kernel takes no more at the moment */
    bool pong_queued; /* one is enough, however many PINGs come */
    bool unsendable;  /* the kernel says that it is lost; what has arrived is read first */

    /* in */
    uint8_t *in;
    size_t in_begin, in_end;
    struct lq_writer frame;  /* the first frame of the message */
    struct lq_slab *payload; /* the second */
    uint8_t *wanted;         /* where the rest of the frame under way goes, or NULL: it is not kept */
    size_t wanted_size;      /* bytes missing from it */
    unsigned frames;         /* begun, of the message under way; all beyond two count as one */
    bool in_frame;           /* one is under way */
    bool more;               /* it is not the last of its message */
    bool drained;            /* the last read emptied the socket */
};

/* What has arrived. */
struct lq_link_message {
    const uint8_t *frame; /* borrowed until the next call */
    size_t frame_size;
    struct lq_slab *payload; /* a reference that is the caller's; or NULL */
    bool too_many;           /* there were more than two frames */
};

enum lq_link_news { LQ_LINK_NOTHING, LQ_LINK_MESSAGE, LQ_LINK_IS_LOST };

/* Begins to connect to "host:port" (borrowed until it is closed). Frames above @frame_bytes_max end the connection.
 * What fails is told by lq_link_receive. */
void lq_link_open(struct lq_link *link, const char *address, size_t frame_bytes_max);
/* Lets everything go. What was not sent yet has until the monotonic time @deadline_us; 0: none. */
void lq_link_close(struct lq_link *link, uint64_t deadline_us);
static inline bool lq_link_is_open(const struct lq_link *link)
{
    return link->state != LQ_LINK_CLOSED;
}

/* Queues a message of @frame (copied) and, when not NULL, @payload (referenced). OK | ENOMEM: nothing is queued. */
lightq_status lq_link_send(struct lq_link *link, const void *frame, size_t size, struct lq_slab *payload) LQ_MUST_CHECK;
/* Hands what is queued to the kernel, as far as it takes it. True: lq_link_receive has news of a loss. */
bool lq_link_flush(struct lq_link *link);
/* Takes the next message out of what has arrived. LOST: link->why says why; close it. */
enum lq_link_news lq_link_receive(struct lq_link *link, struct lq_link_message *message);
/* What to poll link->fd for. */
short lq_link_events(const struct lq_link *link);

#endif
