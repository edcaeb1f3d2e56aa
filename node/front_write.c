/* node/front_write.c - what is written to one connection of the client port. See front_internal.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utlist.h>

#include "node/front_internal.h"

#define FAIR_PART      4    /* of what is free for all connections, for one */
#define COPY_BYTES_MAX 1024 /* a smaller payload is copied: cheaper than a slice of its own */
#define SLICES_MAX     128  /* of one write */
#define LEAVE_MS       2000 /* who is told why it is closed has so long to hear it */

static void mark_dirty(struct conn *conn)
{
    if (!conn->dirty) {
        conn->dirty = true;
        DL_APPEND2(conn->front->dirty, conn, dirty_prev, dirty_next);
    }
}

static uint64_t bytes_of(const struct outgoing *outgoing)
{
    return outgoing->head_size + outgoing->payload_size;
}

static void append(struct conn *conn, struct outgoing *outgoing)
{
    outgoing->next = NULL;
    *conn->out_end = outgoing;
    conn->out_end = &outgoing->next;
    if (conn->out_count++ == 0) {
        conn->written_ms = uv_now(conn->front->loop);
    }
    conn->out_bytes += bytes_of(outgoing);
    conn->front->queued += bytes_of(outgoing);
    mark_dirty(conn);
}

static void drop_first(struct conn *conn)
{
    struct outgoing *outgoing = conn->out;
    conn->out = outgoing->next;
    if (conn->out == NULL) {
        conn->out_end = &conn->out;
    }
    conn->out_count--;
    conn->out_bytes -= bytes_of(outgoing);
    conn->front->queued -= bytes_of(outgoing);
    conn->out_written = 0;
    lq_slab_unref(outgoing->slab);
    free(outgoing);
}

void lq_front_drop_outgoing(struct conn *conn)
{
    while (conn->out != NULL) {
        drop_first(conn);
    }
}

/* ---- sending */

bool lq_front_put(struct conn *conn, const void *bytes, size_t size)
{
    struct outgoing *outgoing = malloc(sizeof *outgoing + size);
    if (outgoing == NULL) {
        return false;
    }
    *outgoing = (struct outgoing){.head_size = size};
    memcpy(outgoing->head, bytes, size);
    append(conn, outgoing);
    return true;
}

/* The message as it goes over the wire; NULL when out of memory. */
static struct outgoing *pack(const struct lq_packet *packet)
{
    bool has_payload = packet->payload != NULL;
    bool copied = has_payload && packet->payload_size <= COPY_BYTES_MAX;
    size_t size = LQ_ZMTP_HEAD_BYTES_MAX + packet->frame_size + (has_payload ? LQ_ZMTP_HEAD_BYTES_MAX : 0) +
                  (copied ? packet->payload_size : 0);
    struct outgoing *outgoing = malloc(sizeof *outgoing + size);
    if (outgoing == NULL) {
        return NULL;
    }
    *outgoing = (struct outgoing){.slab = NULL};
    uint8_t *at = outgoing->head;
    at += lq_zmtp_head_write(at, has_payload ? LQ_ZMTP_MORE : 0, packet->frame_size);
    memcpy(at, packet->frame, packet->frame_size);
    at += packet->frame_size;
    if (has_payload) {
        const uint8_t *payload = packet->payload->bytes + packet->payload_offset;
        at += lq_zmtp_head_write(at, 0, packet->payload_size);
        if (copied) {
            memcpy(at, payload, packet->payload_size);
            at += packet->payload_size;
        } else {
            outgoing->slab = lq_slab_ref(packet->payload);
            outgoing->payload = payload;
            outgoing->payload_size = packet->payload_size;
        }
    }
    outgoing->head_size = (size_t)(at - outgoing->head);
    return outgoing;
}

/* Whether a message of @size bytes more would be too much. Of what is free for all a connection may take a part only:
 * however many do not read, something is left for each that does. */
static bool is_full(const struct conn *conn, uint64_t size)
{
    const struct lq_front_options *options = &conn->front->options;
    uint64_t queued = conn->front->queued, most = options->queued_bytes_max;
    if (conn->out_count == 0) {
        return false;
    }
    uint64_t share = queued < most ? (most - queued) / FAIR_PART : 0;
    return conn->out_count >= options->queue_out || conn->out_bytes + size > options->queue_out_bytes ||
           queued + size > most || (conn->out_bytes + size > share && conn->out_bytes > 0);
}

lightq_status lq_front_send(struct conn *conn, const struct lq_packet *packet)
{
    struct lq_counters *counters = conn->front->options.counters;
    uint64_t size = packet->frame_size + (packet->payload == NULL ? 0 : packet->payload_size);
    if (is_full(conn, size) && (conn->watched & UV_WRITABLE) == 0) {
        lq_front_write(conn); /* the socket may have room for what gathered in this turn */
    }
    if (conn->state != CONN_OPEN) {
        return LIGHTQ_ECLOSED;
    }
    if (is_full(conn, size)) {
        return LIGHTQ_EBUSY;
    }
    struct outgoing *outgoing = pack(packet);
    if (outgoing == NULL) {
        return LIGHTQ_ENOMEM;
    }
    append(conn, outgoing);
    counters->frames_out++;
    counters->bytes_out += size;
    return LIGHTQ_OK;
}

/* ---- writing */

static size_t add_slice(struct iovec *slices, size_t count, const uint8_t *bytes, size_t size, size_t *skip)
{
    if (*skip >= size) {
        *skip -= size;
        return count;
    }
    slices[count] = (struct iovec){.iov_base = (void *)(uintptr_t)(bytes + *skip), .iov_len = size - *skip};
    *skip = 0;
    return count + 1;
}

/* The beginning of what waits, as far as it goes into one write. */
static size_t gather(const struct conn *conn, struct iovec slices[SLICES_MAX])
{
    size_t count = 0, skip = conn->out_written;
    for (const struct outgoing *at = conn->out; at != NULL && count + 2 <= SLICES_MAX; at = at->next) {
        count = add_slice(slices, count, at->head, at->head_size, &skip);
        count = add_slice(slices, count, at->payload, at->payload_size, &skip);
    }
    return count;
}

static void was_written(struct conn *conn, size_t size)
{
    conn->out_written += size;
    conn->written_ms = uv_now(conn->front->loop);
    while (conn->out != NULL && conn->out_written >= bytes_of(conn->out)) {
        size_t beyond = conn->out_written - bytes_of(conn->out);
        drop_first(conn);
        conn->out_written = beyond;
    }
}

/* Everything is written: what a LEAVING connection does then. */
static void say_end(struct conn *conn)
{
    if (conn->state == CONN_LEAVING && !conn->shut) {
        conn->shut = true;
        if (conn->front->closing || shutdown(conn->descriptor, SHUT_WR) != 0) {
            lq_front_kill(conn);
        }
    }
}

void lq_front_write(struct conn *conn)
{
    while (conn->out != NULL) {
        struct iovec slices[SLICES_MAX];
        struct msghdr message = {.msg_iov = slices, .msg_iovlen = gather(conn, slices)};
        ssize_t written = sendmsg(conn->descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) {
            lq_front_watch(conn, true);
            return;
        }
        if (written < 0) {
            lq_front_kill(conn);
            return;
        }
        was_written(conn, (size_t)written);
    }
    lq_front_watch(conn, false);
    say_end(conn);
}

void lq_front_leave(struct conn *conn)
{
    if (conn->state != CONN_OPEN) {
        return;
    }
    conn->state = CONN_LEAVING;
    conn->deadline_ms = uv_now(conn->front->loop) + LEAVE_MS;
    lq_front_forget(conn);
    mark_dirty(conn);
}
