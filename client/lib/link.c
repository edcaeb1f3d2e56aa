/* client/lib/link.c - see link.h. */
#include "client/lib/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/base/clock.h"
#include "client/wire/zmtp.h"

#define IN_BYTES             (64 * 1024)
#define OUT_IOVS             64   /* of one system call */
#define HOST_BYTES           256  /* of a name, with its zero */
#define FRAME_KEEP_MAX       4096 /* a larger buffer of the first frame is not kept for the next one */
#define US_PER_MS            1000
#define FRAMES_MORE_THAN_TWO 3

/* A message, or bytes of the handshake: what is copied, then the payload. */
struct lq_link_out {
    struct lq_link_out *next;
    struct lq_slab *payload; /* or NULL */
    size_t size;             /* of bytes */
    size_t sent;             /* of bytes, then of the payload */
    bool is_pong;
    uint8_t bytes[];
};

static lightq_status fail(struct lq_link *link, lightq_status status, const char *what, const char *reason)
{
    link->state = LQ_LINK_LOST;
    return lq_err_set(&link->why, status, "%s %s%s%s", what, link->address, reason[0] != '\0' ? ": " : "", reason);
}

static void lose(struct lq_link *link, int error)
{
    (void)fail(link, LIGHTQ_ECONNECT, "lost the connection to", error != 0 ? strerror(error) : "");
}

/* What the server sends is not what a LightQ server would. */
static void distrust(struct lq_link *link, const struct lq_err *err)
{
    (void)fail(link, LIGHTQ_EPROTO, "what listens is not a LightQ server at", err->text);
}

/* ---- connecting */

static void prepare_socket(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static void close_descriptor(struct lq_link *link)
{
    if (link->fd >= 0) {
        (void)close(link->fd);
        link->fd = -1;
    }
}

/* Begins with the next of the name's addresses that can be begun with. @error: of the one before. */
static lightq_status try_next_address(struct lq_link *link, int error)
{
    close_descriptor(link);
    while (link->next_address != NULL) {
        const struct addrinfo *at = link->next_address;
        link->next_address = at->ai_next;
        link->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (link->fd >= 0) {
            prepare_socket(link->fd);
            if (connect(link->fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS) {
                link->state = LQ_LINK_CONNECTING;
                return LIGHTQ_OK;
            }
        }
        error = errno;
        close_descriptor(link);
    }
    return fail(link, LIGHTQ_ECONNECT, "cannot connect to", strerror(error));
}

/* Splits "host:port" or "[v6]:port" and looks it up. */
static lightq_status look_up(struct lq_link *link)
{
    char host[HOST_BYTES];
    const char *colon = strrchr(link->address, ':');
    const char *begin = link->address[0] == '[' ? link->address + 1 : link->address;
    const char *end = colon != NULL && begin > link->address && colon[-1] == ']' ? colon - 1 : colon;
    if (end == NULL || end <= begin || (size_t)(end - begin) >= sizeof host) {
        return fail(link, LIGHTQ_ECONNECT, "cannot connect to", "that is not host:port");
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
    const struct addrinfo numeric = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};
    int error = getaddrinfo(host, colon + 1, &numeric, &link->addresses);
    if (error == EAI_NONAME) {
        error = getaddrinfo(host, colon + 1, &hints, &link->addresses);
    }
    if (error != 0) {
        link->addresses = NULL;
        return fail(link, LIGHTQ_ECONNECT, "cannot connect to", gai_strerror(error));
    }
    link->next_address = link->addresses;
    return LIGHTQ_OK;
}

void lq_link_open(struct lq_link *link, const char *address, size_t frame_bytes_max)
{
    *link = (struct lq_link){.fd = -1, .address = address, .frame_bytes_max = frame_bytes_max};
    link->out_end = &link->out;
    lq_writer_init(&link->frame, frame_bytes_max);
    lq_zmtp_greeting_write(link->hand);
    link->hand_size = LQ_ZMTP_GREETING_BYTES;
    link->in = malloc(IN_BYTES);
    lightq_status status =
        link->in == NULL ? fail(link, LIGHTQ_ENOMEM, "cannot connect to", "out of memory") : look_up(link);
    if (status == LIGHTQ_OK) {
        (void)try_next_address(link, 0);
    }
}

/* The kernel has an answer to connect(). */
static void end_connecting(struct lq_link *link)
{
    struct pollfd polled = {.fd = link->fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&polled, 1, 0) <= 0) {
        return;
    }
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)try_next_address(link, error);
        return;
    }
    link->state = LQ_LINK_GREETING;
    (void)lq_link_flush(link);
}

/* ---- out */

static void free_out(struct lq_link *link)
{
    struct lq_link_out *out = link->out;
    link->out = out->next;
    if (link->out == NULL) {
        link->out_end = &link->out;
    }
    link->pong_queued = link->pong_queued && !out->is_pong;
    lq_slab_unref(out->payload);
    free(out);
}

static struct lq_link_out *add_out(struct lq_link *link, size_t room)
{
    struct lq_link_out *out = malloc(sizeof *out + room);
    if (out != NULL) {
        *out = (struct lq_link_out){.next = NULL};
        *link->out_end = out;
        link->out_end = &out->next;
    }
    return out;
}

lightq_status lq_link_send(struct lq_link *link, const void *frame, size_t size, struct lq_slab *payload)
{
    struct lq_link_out *out = add_out(link, size + 2 * LQ_ZMTP_HEAD_BYTES_MAX);
    if (out == NULL) {
        return LIGHTQ_ENOMEM;
    }
    out->size = lq_zmtp_head_write(out->bytes, payload != NULL ? LQ_ZMTP_MORE : 0, size);
    memcpy(out->bytes + out->size, frame, size);
    out->size += size;
    if (payload != NULL) {
        out->size += lq_zmtp_head_write(out->bytes + out->size, 0, payload->size);
        out->payload = lq_slab_ref(payload);
    }
    return LIGHTQ_OK;
}

/* What goes into one system call: the rest of the handshake, or of the queue. */
static unsigned gather(struct lq_link *link, struct iovec iovs[OUT_IOVS])
{
    unsigned count = 0;
    if (link->hand_sent < link->hand_size) {
        iovs[count++] =
            (struct iovec){.iov_base = link->hand + link->hand_sent, .iov_len = link->hand_size - link->hand_sent};
        return count;
    }
    for (struct lq_link_out *out = link->out; out != NULL && count + 2 <= OUT_IOVS; out = out->next) {
        size_t skip = out->sent;
        if (skip < out->size) {
            iovs[count++] = (struct iovec){.iov_base = out->bytes + skip, .iov_len = out->size - skip};
        }
        skip = skip > out->size ? skip - out->size : 0;
        if (out->payload != NULL && skip < out->payload->size) {
            iovs[count++] =
                (struct iovec){.iov_base = out->payload->bytes + skip, .iov_len = out->payload->size - skip};
        }
    }
    return count;
}

static void count_sent(struct lq_link *link, size_t sent)
{
    if (link->hand_sent < link->hand_size) {
        link->hand_sent += sent;
        return;
    }
    while (link->out != NULL) {
        size_t payload = link->out->payload != NULL ? link->out->payload->size : 0;
        size_t left = link->out->size + payload - link->out->sent;
        if (sent < left) {
            link->out->sent += sent;
            return;
        }
        sent -= left;
        free_out(link);
    }
}

/* Whether there is something that may go now. */
static bool has_out(const struct lq_link *link)
{
    return link->state > LQ_LINK_CONNECTING && link->state < LQ_LINK_LOST && !link->unsendable &&
           (link->hand_sent < link->hand_size || (link->state == LQ_LINK_UP && link->out != NULL));
}

bool lq_link_flush(struct lq_link *link)
{
    link->blocked = false;
    while (has_out(link)) {
        struct iovec iovs[OUT_IOVS];
        struct msghdr message = {.msg_iov = iovs, .msg_iovlen = gather(link, iovs)};
        ssize_t sent = sendmsg(link->fd, &message, MSG_NOSIGNAL);
        if (sent >= 0) {
            count_sent(link, (size_t)sent);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            link->blocked = true;
            break;
        } else if (errno != EINTR) {
            link->unsendable = true;
        }
    }
    return link->unsendable;
}

/* ---- in */

static size_t held(const struct lq_link *link)
{
    return link->in_end - link->in_begin;
}

/* Reads what there is: into the frame under way, and what is behind it into the buffer. False: there is nothing, or the
 * connection is lost. */
static bool read_more(struct lq_link *link)
{
    if (link->in_begin > 0) {
        memmove(link->in, link->in + link->in_begin, held(link));
        link->in_end -= link->in_begin;
        link->in_begin = 0;
    }
    if (link->drained) {
        link->drained = false; /* poll() tells when there is more */
        return false;
    }
    struct iovec iovs[2];
    int count = 0;
    size_t direct = held(link) == 0 && link->wanted != NULL ? link->wanted_size : 0;
    if (direct > 0) {
        iovs[count++] = (struct iovec){.iov_base = link->wanted, .iov_len = direct};
    }
    iovs[count++] = (struct iovec){.iov_base = link->in + link->in_end, .iov_len = IN_BYTES - link->in_end};
    ssize_t got;
    do {
        got = readv(link->fd, iovs, count);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        bool later = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        if (!later || link->unsendable) {
            lose(link, got < 0 && !later ? errno : 0);
        }
        return false;
    }
    link->drained = (size_t)got < direct + iovs[count - 1].iov_len;
    size_t taken = (size_t)got < direct ? (size_t)got : direct;
    link->wanted = direct > 0 ? link->wanted + taken : link->wanted;
    link->wanted_size -= taken;
    link->in_end += (size_t)got - taken;
    return true;
}

/* Moves bytes from the buffer into the frame under way. True: it is whole. */
static bool fill_frame(struct lq_link *link)
{
    size_t size = held(link) < link->wanted_size ? held(link) : link->wanted_size;
    if (link->wanted != NULL && size > 0) {
        memcpy(link->wanted, link->in + link->in_begin, size);
        link->wanted += size;
    }
    link->in_begin += size;
    link->wanted_size -= size;
    return link->wanted_size == 0;
}

/* A frame of a message begins: where its bytes go. */
static void begin_frame(struct lq_link *link, const struct lq_zmtp_head *head)
{
    struct lq_err err;
    if (head->size > link->frame_bytes_max) {
        (void)lq_err_set(&err, LIGHTQ_ETOOBIG, "a frame of %llu bytes", (unsigned long long)head->size);
        distrust(link, &err);
        return;
    }
    link->in_frame = true;
    link->more = (head->flags & LQ_ZMTP_MORE) != 0;
    link->wanted_size = (size_t)head->size;
    link->wanted = NULL;
    link->frames += link->frames < FRAMES_MORE_THAN_TWO;
    bool enough = true;
    if (link->frames == 1) {
        link->frame.size = 0;
        link->frame.status = LIGHTQ_OK;
        link->wanted = lq_write_space(&link->frame, link->wanted_size);
        enough = link->frame.status == LIGHTQ_OK;
    } else if (link->frames == 2) {
        link->payload = lq_slab_new(link->wanted_size);
        enough = link->payload != NULL;
        link->wanted = enough ? link->payload->bytes : NULL;
    }
    if (!enough) {
        (void)fail(link, LIGHTQ_ENOMEM, "lost the connection to", "out of memory");
    }
}

/* A whole frame of a message has come. True: it was the last one, and @message is whole. */
static bool end_frame(struct lq_link *link, struct lq_link_message *message)
{
    link->in_frame = false;
    if (link->more) {
        return false;
    }
    *message = (struct lq_link_message){.frame = link->frame.bytes,
                                        .frame_size = link->frame.size,
                                        .payload = link->payload,
                                        .too_many = link->frames > 2};
    link->payload = NULL;
    link->frames = 0;
    return true;
}

static void answer_ping(struct lq_link *link, const uint8_t *content, size_t size)
{
    struct lq_link_out *out = link->pong_queued ? NULL : add_out(link, LQ_ZMTP_PONG_BYTES);
    if (out == NULL) {
        return; /* one is queued, or it is not answered for want of memory: then the server asks again */
    }
    out->size = lq_zmtp_pong_write(out->bytes, content, size);
    out->is_pong = true;
    link->pong_queued = true;
}

static void end_handshake(struct lq_link *link, const uint8_t *content, size_t size)
{
    struct lq_zmtp_ready ready;
    struct lq_err err;
    if (lq_zmtp_ready_read(content, size, &ready, &err) != LIGHTQ_OK) {
        distrust(link, &err);
    } else if (strcmp(ready.socket_type, "ROUTER") != 0) {
        (void)lq_err_set(&err, LIGHTQ_EPROTO, "it is a ZeroMQ socket of another type than ROUTER");
        distrust(link, &err);
    } else {
        link->state = LQ_LINK_UP;
    }
}

static void take_command(struct lq_link *link, const uint8_t *bytes, size_t size)
{
    enum lq_zmtp_command command;
    const uint8_t *content;
    size_t content_size;
    struct lq_err err;
    if (lq_zmtp_command_read(bytes, size, &command, &content, &content_size, &err) != LIGHTQ_OK) {
        distrust(link, &err);
    } else if (link->state == LQ_LINK_READYING && command != LQ_ZMTP_READY) {
        (void)lq_err_set(&err, LIGHTQ_EPROTO, "%s", command == LQ_ZMTP_ERROR ? "it refuses us" : "READY comes first");
        distrust(link, &err);
    } else if (link->state == LQ_LINK_READYING) {
        end_handshake(link, content, content_size);
    } else if (command == LQ_ZMTP_PING) {
        answer_ping(link, content, content_size);
    }
}

/* Takes a frame's head, or a whole command. False: it is not all there yet. */
static bool take_head(struct lq_link *link)
{
    struct lq_zmtp_head head;
    struct lq_err err;
    const uint8_t *bytes = link->in + link->in_begin;
    if (lq_zmtp_head_read(bytes, held(link), &head, &err) != LIGHTQ_OK) {
        distrust(link, &err);
        return false;
    }
    if (head.head_size == 0) {
        return false;
    }
    if ((head.flags & LQ_ZMTP_COMMAND) == 0) {
        if (link->state != LQ_LINK_UP) {
            (void)lq_err_set(&err, LIGHTQ_EPROTO, "READY comes first");
            distrust(link, &err);
            return false;
        }
        link->in_begin += head.head_size;
        begin_frame(link, &head);
        return true;
    }
    if (held(link) - head.head_size < head.size) {
        return false;
    }
    link->in_begin += head.head_size + (size_t)head.size;
    take_command(link, bytes + head.head_size, (size_t)head.size);
    return true;
}

/* False: the greeting is not whole yet. */
static bool take_greeting(struct lq_link *link)
{
    struct lq_err err;
    size_t size = held(link) < LQ_ZMTP_GREETING_BYTES ? held(link) : LQ_ZMTP_GREETING_BYTES;
    if (lq_zmtp_greeting_check(link->in + link->in_begin, size, &err) != LIGHTQ_OK) {
        distrust(link, &err);
        return false;
    }
    if (size < LQ_ZMTP_GREETING_BYTES) {
        return false;
    }
    link->in_begin += size;
    link->state = LQ_LINK_READYING;
    link->hand_size += lq_zmtp_ready_write(link->hand + link->hand_size, "DEALER");
    return true;
}

/* Makes something of what has been read. True: try again; false: more must be read first, or *whole is true. */
static bool take_step(struct lq_link *link, struct lq_link_message *message, bool *whole)
{
    if (link->state == LQ_LINK_GREETING) {
        return take_greeting(link);
    }
    if (!link->in_frame) {
        return take_head(link);
    }
    if (!fill_frame(link)) {
        return false;
    }
    *whole = end_frame(link, message);
    return !*whole;
}

enum lq_link_news lq_link_receive(struct lq_link *link, struct lq_link_message *message)
{
    bool whole = false;
    if (link->frame.capacity > FRAME_KEEP_MAX && link->frames == 0) {
        lq_writer_deinit(&link->frame);
        lq_writer_init(&link->frame, link->frame_bytes_max);
    }
    if (link->state == LQ_LINK_CONNECTING) {
        end_connecting(link);
    }
    while (link->state > LQ_LINK_CONNECTING && link->state < LQ_LINK_LOST) {
        while (link->state < LQ_LINK_LOST && take_step(link, message, &whole)) {
        }
        if (whole) {
            return LQ_LINK_MESSAGE;
        }
        if (link->state == LQ_LINK_LOST || !read_more(link)) {
            break;
        }
    }
    (void)lq_link_flush(link); /* of the handshake, and PONGs */
    return link->state == LQ_LINK_LOST ? LQ_LINK_IS_LOST : LQ_LINK_NOTHING;
}

short lq_link_events(const struct lq_link *link)
{
    if (link->state == LQ_LINK_CONNECTING) {
        return POLLOUT;
    }
    return link->blocked ? POLLIN | POLLOUT : POLLIN;
}

/* ---- closing */

/* Waits for the kernel to take what is queued, until @deadline_us. */
static void drain(struct lq_link *link, uint64_t deadline_us)
{
    struct lq_clock *clock = lq_clock_system();
    while (has_out(link) && !lq_link_flush(link) && link->blocked) {
        uint64_t now_us = lq_clock_monotonic_us(clock);
        struct pollfd polled = {.fd = link->fd, .events = POLLOUT};
        if (now_us >= deadline_us || poll(&polled, 1, (int)((deadline_us - now_us) / US_PER_MS) + 1) <= 0) {
            return;
        }
    }
}

void lq_link_close(struct lq_link *link, uint64_t deadline_us)
{
    if (link->state == LQ_LINK_CLOSED) {
        return;
    }
    if (link->state == LQ_LINK_UP && deadline_us > 0) {
        drain(link, deadline_us);
    }
    while (link->out != NULL) {
        free_out(link);
    }
    close_descriptor(link);
    if (link->addresses != NULL) {
        freeaddrinfo(link->addresses);
    }
    lq_slab_unref(link->payload);
    lq_writer_deinit(&link->frame);
    free(link->in);
    *link = (struct lq_link){.fd = -1};
}
