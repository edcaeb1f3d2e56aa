/* node/zmtp.c - see zmtp.h. */
#include "node/zmtp.h"

#include <assert.h>
#include <string.h>

#define SOCKET_TYPE      "ROUTER"
#define REASON_BYTES_MAX 200 /* of what an ERROR says */

_Static_assert(LQ_ZMTP_COMMAND_BYTES_MAX >= LQ_ZMTP_GREETING_BYTES, "held has room for a greeting");
_Static_assert(LQ_ZMTP_REPLY_BYTES >= LQ_ZMTP_READY_BYTES && LQ_ZMTP_REPLY_BYTES >= LQ_ZMTP_PONG_BYTES,
               "a reply has room for each");

/* ---- refusing */

/* ERROR: a command with a reason, which has a length of one byte. */
static size_t put_error(uint8_t *at, const char *reason)
{
    static const uint8_t name[] = {5, 'E', 'R', 'R', 'O', 'R'};
    size_t size = strnlen(reason, REASON_BYTES_MAX);
    size_t used = lq_zmtp_head_write(at, LQ_ZMTP_COMMAND, sizeof name + 1 + size);
    memcpy(at + used, name, sizeof name);
    used += sizeof name;
    at[used++] = (uint8_t)size;
    memcpy(at + used, reason, size);
    return used + size;
}

/* Nothing more is taken. Who speaks ZMTP and waits for our READY is told why. */
static void refused(struct lq_zmtp *zmtp, struct lq_zmtp_news *news)
{
    if (zmtp->state != LQ_ZMTP_IN_GREETING && !zmtp->ready) {
        news->reply_size = put_error(news->reply, news->err.text);
    }
    zmtp->state = LQ_ZMTP_BROKEN;
    news->event = LQ_ZMTP_REFUSED;
}

static void refuse(struct lq_zmtp *zmtp, const char *why, struct lq_zmtp_news *news)
{
    (void)lq_err_set(&news->err, LIGHTQ_EPROTO, "%s", why);
    refused(zmtp, news);
}

/* ---- commands */

static void expect_head(struct lq_zmtp *zmtp)
{
    zmtp->state = LQ_ZMTP_IN_HEAD;
    zmtp->count = 0;
}

/* Whether a socket of @type may talk to a ROUTER. */
static bool is_served(const char *type)
{
    return strcmp(type, "DEALER") == 0 || strcmp(type, "REQ") == 0 || strcmp(type, "ROUTER") == 0;
}

static void end_handshake(struct lq_zmtp *zmtp, const uint8_t *properties, size_t size, struct lq_zmtp_news *news)
{
    struct lq_zmtp_ready ready;
    if (lq_zmtp_ready_read(properties, size, &ready, &news->err) != LIGHTQ_OK) {
        refused(zmtp, news);
    } else if (!is_served(ready.socket_type)) {
        refuse(zmtp, "only sockets of type DEALER, REQ or ROUTER are served", news);
    } else if (ready.identity_size > 0) {
        refuse(zmtp, "routing ids chosen by clients are not served", news);
    } else {
        zmtp->ready = true;
        news->event = LQ_ZMTP_GREETED;
        news->reply_size = lq_zmtp_ready_write(news->reply, SOCKET_TYPE);
        expect_head(zmtp);
    }
}

/* A whole command is held. */
static void end_command(struct lq_zmtp *zmtp, struct lq_zmtp_news *news)
{
    enum lq_zmtp_command command;
    const uint8_t *content;
    size_t size;
    if (lq_zmtp_command_read(zmtp->held, zmtp->count, &command, &content, &size, &news->err) != LIGHTQ_OK) {
        refused(zmtp, news);
    } else if (!zmtp->ready && command == LQ_ZMTP_READY) {
        end_handshake(zmtp, content, size, news);
    } else if (!zmtp->ready) {
        refuse(zmtp, "READY comes first", news);
    } else if (command == LQ_ZMTP_PING && (news->reply_size = lq_zmtp_pong_write(news->reply, content, size)) == 0) {
        refuse(zmtp, "a ZMTP PING that is too short or too long", news);
    } else { /* of a PONG, being heard is all there is to it; others are not for us */
        news->event = command == LQ_ZMTP_PING ? LQ_ZMTP_PINGED : LQ_ZMTP_NO_NEWS;
        expect_head(zmtp);
    }
}

static size_t take_command(struct lq_zmtp *zmtp, const uint8_t *bytes, size_t size, struct lq_zmtp_news *news)
{
    size_t part = size < zmtp->left ? size : (size_t)zmtp->left;
    memcpy(zmtp->held + zmtp->count, bytes, part);
    zmtp->count += (uint16_t)part;
    zmtp->left -= part;
    if (zmtp->left == 0) {
        end_command(zmtp, news);
    }
    return part;
}

/* ---- the greeting and frames */

/* Byte by byte, so that a stranger is known by its first. */
static size_t take_greeting(struct lq_zmtp *zmtp, const uint8_t *bytes, size_t size, struct lq_zmtp_news *news)
{
    size_t room = LQ_ZMTP_GREETING_BYTES - zmtp->count;
    size_t part = size < room ? size : room;
    memcpy(zmtp->held + zmtp->count, bytes, part);
    zmtp->count += (uint16_t)part;
    if (lq_zmtp_greeting_check(zmtp->held, zmtp->count, &news->err) != LIGHTQ_OK) {
        refused(zmtp, news);
    } else if (zmtp->count == LQ_ZMTP_GREETING_BYTES) {
        expect_head(zmtp);
    }
    return part;
}

/* What follows a frame's head, or a part of its body. */
static void go_on(struct lq_zmtp *zmtp, enum lq_zmtp_state when_more)
{
    if (zmtp->left > 0) {
        zmtp->state = when_more;
    } else {
        expect_head(zmtp);
    }
}

/* A frame of a message. The second one that says there will be a third makes it malformed. */
static void begin_frame(struct lq_zmtp *zmtp, bool more, struct lq_zmtp_news *news)
{
    bool first = !zmtp->more;
    bool tell = !first && more && !zmtp->skipping;
    bool skip = zmtp->skipping || tell;
    zmtp->more = more;
    zmtp->skipping = skip && more;
    if (!skip) {
        news->event = LQ_ZMTP_FRAME;
        news->size = zmtp->left;
        news->first = first;
        news->last = !more;
    } else if (tell) {
        news->event = LQ_ZMTP_MALFORMED;
    }
    go_on(zmtp, skip ? LQ_ZMTP_IN_REST : LQ_ZMTP_IN_BODY);
}

static void end_head(struct lq_zmtp *zmtp, const struct lq_zmtp_head *head, struct lq_zmtp_news *news)
{
    zmtp->left = head->size;
    if ((head->flags & LQ_ZMTP_COMMAND) != 0) {
        zmtp->state = LQ_ZMTP_IN_COMMAND;
        zmtp->count = 0;
        if (zmtp->left == 0) {
            end_command(zmtp, news); /* which has no name */
        }
    } else if (!zmtp->ready) {
        refuse(zmtp, "READY comes first", news);
    } else if (zmtp->left > zmtp->frame_bytes_max) {
        refuse(zmtp, "a frame above the limit", news);
    } else {
        begin_frame(zmtp, (head->flags & LQ_ZMTP_MORE) != 0, news);
    }
}

static size_t take_head(struct lq_zmtp *zmtp, const uint8_t *bytes, size_t size, struct lq_zmtp_news *news)
{
    for (size_t i = 0; i < size; i++) {
        struct lq_zmtp_head head;
        zmtp->held[zmtp->count++] = bytes[i];
        if (lq_zmtp_head_read(zmtp->held, zmtp->count, &head, &news->err) != LIGHTQ_OK) {
            refused(zmtp, news);
            return i + 1;
        }
        if (head.head_size > 0) {
            end_head(zmtp, &head, news);
            return i + 1;
        }
    }
    return size;
}

static size_t take_rest(struct lq_zmtp *zmtp, size_t size)
{
    size_t part = size < zmtp->left ? size : (size_t)zmtp->left;
    zmtp->left -= part;
    go_on(zmtp, LQ_ZMTP_IN_REST);
    return part;
}

/* ---- public */

void lq_zmtp_init(struct lq_zmtp *zmtp, uint64_t frame_bytes_max)
{
    memset(zmtp, 0, sizeof *zmtp);
    zmtp->frame_bytes_max = frame_bytes_max;
}

void lq_zmtp_take(struct lq_zmtp *zmtp, const uint8_t *bytes, size_t size, size_t *used, struct lq_zmtp_news *news)
{
    size_t at = 0;
    news->event = LQ_ZMTP_NO_NEWS;
    news->reply_size = 0;
    while (at < size && news->event == LQ_ZMTP_NO_NEWS && zmtp->state != LQ_ZMTP_IN_BODY) {
        switch (zmtp->state) {
        case LQ_ZMTP_IN_GREETING:
            at += take_greeting(zmtp, bytes + at, size - at, news);
            break;
        case LQ_ZMTP_IN_HEAD:
            at += take_head(zmtp, bytes + at, size - at, news);
            break;
        case LQ_ZMTP_IN_COMMAND:
            at += take_command(zmtp, bytes + at, size - at, news);
            break;
        case LQ_ZMTP_IN_REST:
            at += take_rest(zmtp, size - at);
            break;
        case LQ_ZMTP_IN_BODY:
        case LQ_ZMTP_BROKEN:
            at = size;
            break;
        }
    }
    *used = at;
}

void lq_zmtp_body_taken(struct lq_zmtp *zmtp, uint64_t size)
{
    assert(zmtp->state == LQ_ZMTP_IN_BODY && size <= zmtp->left);
    zmtp->left -= size;
    go_on(zmtp, LQ_ZMTP_IN_BODY);
}
