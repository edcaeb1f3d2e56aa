/* node/front_conn.c - what is read from one connection of the client port, and made into messages. See
 * front_internal.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <utlist.h>

#include "node/front_internal.h"

#define DIRECT_BYTES_MAX (1024u * 1024) /* of one body read at once, or one connection would have too long a turn */

/* ---- memory of what has arrived in part */

/* Counts @bytes more, unless all connections together would then have more than @bytes_max. */
static bool claim(struct conn *conn, uint64_t bytes, uint64_t bytes_max)
{
    struct lq_front *front = conn->front;
    if (front->arriving_bytes + bytes > bytes_max) {
        return false;
    }
    if (conn->arriving_bytes == 0) {
        conn->arriving_ms = uv_now(front->loop);
    }
    conn->arriving_bytes += bytes;
    front->arriving_bytes += bytes;
    return true;
}

static void give_back(struct conn *conn, uint64_t bytes)
{
    conn->arriving_bytes -= bytes;
    conn->front->arriving_bytes -= bytes;
}

/* What is as small as one read is not waited for, so that a connection never waits with bytes it has no place for. It
 * may go to twice the bound; beyond that the connection is closed. */
static bool claim_small(struct conn *conn, uint64_t bytes)
{
    if (claim(conn, bytes, 2 * conn->front->options.arriving_bytes_max)) {
        return true;
    }
    conn->front->options.counters->connections_evicted++;
    lq_front_kill(conn);
    return false;
}

/* NULL: there is no memory at the moment. */
static struct lq_slab *claim_slab(struct conn *conn, uint64_t size)
{
    if (!claim(conn, size, conn->front->options.arriving_bytes_max)) {
        return NULL;
    }
    struct lq_slab *slab = lq_slab_new((size_t)size);
    if (slab == NULL) {
        give_back(conn, size);
    }
    return slab;
}

void lq_front_forget(struct conn *conn)
{
    give_back(conn, conn->arriving_bytes);
    lq_slab_unref(conn->body);
    lq_slab_unref(conn->head);
    free(conn->spill);
    conn->body = conn->head = NULL;
    conn->frame = NULL;
    conn->spill = NULL;
    conn->spill_size = 0;
}

/* The first frame is in what was read last, and that will be overwritten. */
static void keep_frame(struct conn *conn)
{
    if (conn->frame == NULL || conn->head != NULL || !claim_small(conn, conn->frame_size)) {
        return;
    }
    conn->head = lq_slab_new(conn->frame_size);
    if (conn->head == NULL) {
        lq_front_kill(conn);
        return;
    }
    memcpy(conn->head->bytes, conn->frame, conn->frame_size);
    conn->frame = conn->head->bytes;
}

/* There is no memory for the frame whose body begins with these bytes: they are kept, and nothing more is read. */
static void starve(struct conn *conn, const uint8_t *bytes, size_t size)
{
    if (!claim_small(conn, size)) {
        return;
    }
    conn->spill = malloc(size);
    if (conn->spill == NULL) {
        lq_front_kill(conn);
        return;
    }
    memcpy(conn->spill, bytes, size);
    conn->spill_size = size;
    conn->wanted_bytes = lq_zmtp_body_left(&conn->zmtp);
    conn->starved = true;
    DL_APPEND2(conn->front->starved, conn, starved_prev, starved_next);
    lq_front_watch(conn, (conn->watched & UV_WRITABLE) != 0);
}

/* ---- messages */

/* Hands a message on. Afterwards the connection may be LEAVING or DEAD. */
static void deliver(struct conn *conn, struct lq_front_message *message)
{
    struct lq_front *front = conn->front;
    struct lq_slab *head = conn->head; /* message->frame may be in it */
    conn->head = NULL;
    conn->frame = NULL;
    give_back(conn, conn->arriving_bytes);
    conn->spoken = true;
    front->messages++;
    front->options.counters->frames_in++;
    message->peer = conn->peer;
    front->events->receive(front->owner, message);
    lq_slab_unref(head);
}

/* A frame is there: @slab (taken over) has it, or, when that is NULL, what was read last. */
static void end_frame(struct conn *conn, const uint8_t *bytes, size_t size, struct lq_slab *slab)
{
    if (conn->first && !conn->last) {
        conn->frame = bytes;
        conn->frame_size = size;
        conn->head = slab;
        return;
    }
    if (conn->first) {
        deliver(conn, &(struct lq_front_message){.frame = bytes, .frame_size = size});
        lq_slab_unref(slab);
        return;
    }
    if (slab == NULL) {
        slab = lq_slab_new(size);
        if (slab == NULL) {
            lq_front_kill(conn);
            return;
        }
        memcpy(slab->bytes, bytes, size);
    }
    deliver(conn, &(struct lq_front_message){.frame = conn->frame, .frame_size = conn->frame_size, .payload = slab});
    lq_slab_unref(slab);
}

/* @size more bytes of the body are at their place. */
static void fill_body(struct conn *conn, size_t size)
{
    conn->body_filled += size;
    lq_zmtp_body_taken(&conn->zmtp, size);
    if (conn->body_filled == conn->body->size) {
        struct lq_slab *slab = conn->body;
        conn->body = NULL;
        end_frame(conn, slab->bytes, slab->size, slab);
    }
}

/* Takes bytes of a body, @size at least 1. 0: there is no memory at the moment. */
static size_t take_body(struct conn *conn, const uint8_t *bytes, size_t size)
{
    uint64_t left = lq_zmtp_body_left(&conn->zmtp);
    size_t part = size < left ? size : (size_t)left;
    if (conn->body == NULL && part == left) {
        lq_zmtp_body_taken(&conn->zmtp, part);
        end_frame(conn, bytes, part, NULL);
        return part;
    }
    if (conn->body == NULL) {
        conn->body = claim_slab(conn, left);
        conn->body_filled = 0;
        if (conn->body == NULL) {
            return 0;
        }
    }
    memcpy(conn->body->bytes + conn->body_filled, bytes, part);
    fill_body(conn, part);
    return part;
}

/* ---- ZMTP */

static void refused(struct conn *conn, const struct lq_zmtp_news *news)
{
    struct lq_counters *counters = conn->front->options.counters;
    if (lq_zmtp_is_ready(&conn->zmtp)) {
        counters->connections_bad++;
    } else {
        counters->handshakes_bad++;
    }
    lq_front_warn(conn, news->err.text);
    if (news->reply_size > 0 && lq_front_put(conn, news->reply, news->reply_size)) {
        lq_front_leave(conn);
    } else {
        lq_front_kill(conn);
    }
}

static void take_news(struct conn *conn, const struct lq_zmtp_news *news)
{
    struct lq_front *front = conn->front;
    switch (news->event) {
    case LQ_ZMTP_NO_NEWS:
        return;
    case LQ_ZMTP_GREETED:
        if (!lq_front_put(conn, news->reply, news->reply_size)) {
            lq_front_kill(conn);
        }
        return;
    case LQ_ZMTP_PINGED:
        if (conn->out_count < front->options.queue_out) { /* else it has more to hear than that */
            (void)lq_front_put(conn, news->reply, news->reply_size);
        }
        return;
    case LQ_ZMTP_FRAME:
        conn->first = news->first;
        conn->last = news->last;
        if (news->size == 0) {
            end_frame(conn, front->buffer, 0, NULL);
        }
        return;
    case LQ_ZMTP_MALFORMED:
        lq_front_forget(conn);
        deliver(conn, &(struct lq_front_message){.malformed = true});
        return;
    case LQ_ZMTP_REFUSED:
        refused(conn, news);
        return;
    }
}

/* Takes what was read. */
static void take(struct conn *conn, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && conn->state == CONN_OPEN) {
        size_t used;
        if (lq_zmtp_body_left(&conn->zmtp) > 0) {
            used = take_body(conn, bytes + at, size - at);
            if (used == 0) {
                starve(conn, bytes + at, size - at);
                break;
            }
        } else {
            struct lq_zmtp_news news;
            lq_zmtp_take(&conn->zmtp, bytes + at, size - at, &used, &news);
            take_news(conn, &news);
        }
        at += used;
    }
    if (conn->state == CONN_OPEN) {
        keep_frame(conn);
    }
}

/* ---- reading */

/* Nothing could be read. */
static void read_failed(struct conn *conn, ssize_t size)
{
    bool nothing = size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (!nothing || conn->hung) {
        lq_front_kill(conn);
    }
}

bool lq_front_read(struct conn *conn)
{
    struct lq_front *front = conn->front;
    struct iovec places[2];
    int count = 0;
    size_t body_left = conn->body == NULL ? 0 : conn->body->size - conn->body_filled;
    size_t direct = body_left < DIRECT_BYTES_MAX ? body_left : DIRECT_BYTES_MAX, room = direct;
    if (direct > 0) {
        places[count++] = (struct iovec){.iov_base = conn->body->bytes + conn->body_filled, .iov_len = direct};
    }
    if (direct == body_left) {
        places[count++] = (struct iovec){.iov_base = front->buffer, .iov_len = sizeof front->buffer};
        room += sizeof front->buffer;
    }
    ssize_t size;
    do {
        size = readv(conn->descriptor, places, count);
    } while (size < 0 && errno == EINTR);
    if (size <= 0) {
        read_failed(conn, size);
        return false;
    }
    conn->heard_ms = uv_now(front->loop);
    front->options.counters->bytes_in += (uint64_t)size;
    if (conn->state == CONN_OPEN) { /* else nobody wants it */
        size_t part = (size_t)size < direct ? (size_t)size : direct;
        if (part > 0) {
            fill_body(conn, part);
        }
        take(conn, front->buffer, (size_t)size - part);
    }
    return (size_t)size == room && conn->state != CONN_DEAD && !conn->starved;
}

void lq_front_feed(struct conn *conn)
{
    uint8_t *spill = conn->spill; /* what follows may let go of the connection's */
    size_t size = conn->spill_size;
    conn->spill = NULL;
    conn->spill_size = 0;
    give_back(conn, size);
    take(conn, spill, size);
    free(spill);
}
