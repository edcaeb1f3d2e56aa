/* node/front_internal.h - what front.c (the port, and all connections' times and memory), front_conn.c (one
 * connection's reading) and front_write.c (its writing) share. Private to them.
 *
 * Reading. libuv only tells which connections can be read. lq_front_turn reads them one after the other, each once in a
 * round, into one buffer that all share, until its budget for the turn is used. Messages that are in the buffer
 * as a whole are handed on from there. A frame of which only a part has come gets memory for the whole of it, and the
 * rest is read to its place. That memory is bounded over all connections (options.arriving_bytes_max): a connection
 * that would go beyond it is not read until there is room. When one waits, connections whose message has been arriving
 * for more than a second are closed to make room: those who announce much and send little cannot keep the others out.
 *
 * Writing. What is sent gathers in the connection's list and goes out at the end of the turn. */
#ifndef LQ_NODE_FRONT_INTERNAL_H
#define LQ_NODE_FRONT_INTERNAL_H

#include "node/front.h"
#include "node/zmtp.h"

#define LQ_FRONT_BUFFER_BYTES (64u * 1024)

/* One message, or one of ZMTP's own, that waits to be written. */
struct outgoing {
    struct outgoing *next;
    struct lq_slab *slab; /* of the payload when it is not copied; else NULL */
    const uint8_t *payload;
    size_t payload_size;
    size_t head_size;
    uint8_t head[]; /* the frames' headers, the first frame, a payload that was copied */
};

enum conn_state {
    CONN_OPEN,
    CONN_LEAVING, /* closes when all is written and the other side has closed too, or at its deadline */
    CONN_DEAD,    /* the next reaping tells its owner */
};

struct conn {
    uv_poll_t poll;
    struct lq_front *front;
    struct conn *prev, *next; /* of all */
    lq_peer peer;
    int descriptor;
    int watched; /* UV_READABLE, UV_WRITABLE */
    enum conn_state state;
    bool hung;   /* an error is at the socket: read until it shows */
    bool shut;   /* LEAVING: we have said that nothing more comes */
    bool spoken; /* a message has come, not only what ZMTP itself says */
    uint64_t opened_ms, heard_ms, pinged_ms, deadline_ms;
    struct lq_zmtp zmtp;

    /* The message that is arriving. */
    bool first, last;     /* of the frame whose body is arriving */
    struct lq_slab *body; /* of that frame, when not all of it was in one read */
    size_t body_filled;
    const uint8_t *frame; /* the first frame, whole, when a second comes */
    size_t frame_size;
    struct lq_slab *head; /* holds the first frame; NULL: it is in what was read last */
    uint8_t *spill;       /* read, and not taken for want of memory */
    size_t spill_size;
    uint64_t arriving_bytes;                    /* memory of all that */
    uint64_t arriving_ms;                       /* since when */
    uint64_t wanted_bytes;                      /* STARVED: how much it waits for */
    bool readable, starved, dirty;              /* in which lists it is */
    struct conn *readable_prev, *readable_next; /* may be read */
    struct conn *starved_prev, *starved_next;   /* wait for memory; not read */
    struct conn *dirty_prev, *dirty_next;       /* to be written at the end of the turn */
    struct conn *dead_next;

    /* What is to be written. */
    struct outgoing *out, **out_end;
    uint64_t out_count, out_bytes;
    size_t out_written;  /* of the first */
    uint64_t written_ms; /* when something of it was written, or begun to wait, last */
};

struct lq_front {
    struct lq_outlet outlet; /* first: lq_outlet is cast to this */
    uv_loop_t *loop;
    struct lq_front_options options;
    const struct lq_front_events *events;
    void *owner;
    uv_poll_t listener;
    uv_timer_t timer;
    unsigned handles; /* open ones of libuv, connections' included */
    int descriptor;   /* of the listener; -1: closed */
    uint16_t port;
    bool accepting, closing;
    struct conn *conns;
    struct conn *readable, *starved, *dirty, *dead;
    unsigned conn_count;
    struct conn **slots; /* by the low bits of their numbers */
    uint32_t *free_slots;
    uint32_t slot_count, free_count;
    uint64_t serial; /* of the last connection */
    uint64_t arriving_bytes, queued;
    unsigned messages; /* taken in during this turn */
    uint64_t ticked_ms, accept_again_ms, log_again_ms, log_held_back;
    void (*close_cb)(void *owner);
    void *close_owner;
    uint8_t buffer[LQ_FRONT_BUFFER_BYTES];
};

/* ---- front.c */

/* It is over: nothing of it is read or written any more. Its owner is told by the next reaping. */
void lq_front_kill(struct conn *conn);
/* For a log line, at most one a second. */
void lq_front_warn(struct conn *conn, const char *why);
/* Has libuv tell what the connection can do: reading unless it is starved, writing when @writing. */
void lq_front_watch(struct conn *conn, bool writing);

/* ---- front_conn.c */

/* Reads once, and hands on what came. True: there may be more. */
bool lq_front_read(struct conn *conn);
/* Goes on where memory was missing. Still STARVED afterwards: it still is. */
void lq_front_feed(struct conn *conn);
/* Lets go of what has arrived. */
void lq_front_forget(struct conn *conn);

/* ---- front_write.c */

lightq_status lq_front_send(struct conn *conn, const struct lq_packet *packet);
/* Bytes of ZMTP's own. False: out of memory. */
bool lq_front_put(struct conn *conn, const void *bytes, size_t size);
/* Writes what the socket takes; kills the connection when it is broken, or when it was LEAVING and all is done. */
void lq_front_write(struct conn *conn);
/* Takes in nothing more, and closes when all is written. */
void lq_front_leave(struct conn *conn);
void lq_front_drop_outgoing(struct conn *conn);

#endif
