/* tests/unit/node/front_fixture.h - a client port on loopback whose owner is the test, and a loop that is turned by
 * hand until what is waited for is there or a deadline passes. */
#ifndef LQ_TESTS_FRONT_FIXTURE_H
#define LQ_TESTS_FRONT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/clock.h"
#include "client/base/log.h"
#include "node/front_internal.h"

#define DEADLINE_US     (20u * 1000 * 1000)
#define FRAME_BYTES_MAX 100000
#define KEPT_MAX        4096

struct fixture {
    uv_loop_t loop;
    uv_timer_t pace; /* so that a turn of the loop never sleeps for long */
    struct lq_front *front;
    struct lq_counters counters;
    struct lq_front_options options;
    void *data; /* the test program's */
    /* What came in. */
    unsigned received, malformed, payloads, gone;
    lq_peer last_peer, last_gone;
    char last_frame[64];
    size_t last_payload_size;
    struct lq_slab *kept[KEPT_MAX];
    unsigned kept_count;
    unsigned most_in_turn;     /* messages taken in by one turn */
    bool keep, echo;           /* what is done with it */
    bool no_memory;            /* that may fail */
    bool answers, answers_now; /* it is told "no", and closed */
    unsigned closed;
};

static inline void front_on_receive(void *owner, const struct lq_front_message *message)
{
    struct fixture *f = owner;
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    f->received++;
    f->malformed += message->malformed;
    f->last_peer = message->peer;
    size_t size = message->frame_size < sizeof f->last_frame - 1 ? message->frame_size : sizeof f->last_frame - 1;
    if (message->frame != NULL) {
        memcpy(f->last_frame, message->frame, size);
    }
    f->last_frame[size] = '\0';
    f->last_payload_size = message->payload == NULL ? 0 : message->payload->size;
    f->payloads += message->payload != NULL;
    if (message->payload != NULL && f->keep && f->kept_count < KEPT_MAX) {
        f->kept[f->kept_count++] = lq_slab_ref(message->payload);
    }
    if (f->echo && message->frame != NULL) {
        struct lq_packet packet = {.frame = message->frame,
                                   .frame_size = message->frame_size,
                                   .payload = message->payload,
                                   .payload_size = message->payload == NULL ? 0 : (uint32_t)message->payload->size};
        lightq_status status = outlet->send(outlet, message->peer, &packet);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_EBUSY || (f->no_memory && status == LIGHTQ_ENOMEM));
        if (status == LIGHTQ_ENOMEM) {
            outlet->close(outlet, message->peer, LQ_CLOSE_NOW);
        }
    }
    if (f->answers) {
        struct lq_packet packet = {.frame = "no", .frame_size = 2};
        assert_int_equal(outlet->send(outlet, message->peer, &packet), LIGHTQ_OK);
        outlet->close(outlet, message->peer, f->answers_now ? LQ_CLOSE_NOW : LQ_CLOSE_WRITTEN);
        assert_int_equal(outlet->send(outlet, message->peer, &packet), LIGHTQ_ECLOSED);
        assert_int_equal(f->gone, 0); /* never inside the call */
    }
}

static inline void front_on_gone(void *owner, lq_peer peer)
{
    struct fixture *f = owner;
    struct lq_packet packet = {.frame = "x", .frame_size = 1};
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    f->gone++;
    f->last_gone = peer;
    assert_int_equal(outlet->send(outlet, peer, &packet), LIGHTQ_ECLOSED);
}

static const struct lq_front_events front_events = {.receive = front_on_receive, .closed = front_on_gone};

static inline void front_on_pace(uv_timer_t *timer)
{
    (void)timer;
}

static inline void open_front(struct fixture *f)
{
    struct lq_err err;
    lightq_status status = lq_front_new(&f->loop, &f->options, &front_events, f, &f->front, &err);
    if (status != LIGHTQ_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(status, LIGHTQ_OK);
}

static inline struct fixture *front_setup(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    lq_log_configure(LQ_LOG_OFF, 2);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->pace), 0);
    assert_int_equal(uv_timer_start(&f->pace, front_on_pace, 1, 1), 0);
    f->options = (struct lq_front_options){.address = {.host = "127.0.0.1", .port = 0},
                                           .frame_bytes_max = FRAME_BYTES_MAX,
                                           .queue_out = 16,
                                           .queue_out_bytes = 16 * FRAME_BYTES_MAX,
                                           .queued_bytes_max = 64 * FRAME_BYTES_MAX,
                                           .arriving_bytes_max = 1 << 20,
                                           .connections_max = 1000,
                                           .counters = &f->counters};
    return f;
}

/* A turn of the loop with a turn of the front before it, as the shard does. */
static inline void turn(struct fixture *f)
{
    unsigned before = f->received;
    bool more = lq_front_turn(f->front);
    f->most_in_turn = f->received - before > f->most_in_turn ? f->received - before : f->most_in_turn;
    lq_front_flush(f->front);
    assert_true(f->front->arriving_bytes <= 2 * f->front->options.arriving_bytes_max);
    (void)uv_run(&f->loop, more ? UV_RUN_NOWAIT : UV_RUN_ONCE);
}

#define UNTIL(f, condition)                                                       \
    do {                                                                          \
        uint64_t until_ = lq_clock_monotonic_us(lq_clock_system()) + DEADLINE_US; \
        while (!(condition)) {                                                    \
            turn(f);                                                              \
            if (lq_clock_monotonic_us(lq_clock_system()) > until_) {              \
                fail_msg("not in time: %s", #condition);                          \
            }                                                                     \
        }                                                                         \
    } while (0)

static inline void front_on_closed(void *owner)
{
    struct fixture *f = owner;
    f->closed++;
}

static inline void front_teardown(struct fixture *f)
{
    for (unsigned i = 0; i < f->kept_count; i++) {
        lq_slab_unref(f->kept[i]);
    }
    if (f->front != NULL) {
        lq_front_close(f->front, front_on_closed, f);
        assert_int_equal(f->closed, 0); /* never inside the call */
    }
    uv_close((uv_handle_t *)&f->pace, NULL);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->closed, f->front != NULL);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
}

/* A connection without a protocol. */
static inline int stranger(struct fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(lq_front_port(f->front))};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    assert_true(made >= 0);
    assert_int_equal(setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
    assert_int_equal(connect(made, (struct sockaddr *)&address, sizeof address), 0);
    return made;
}

/* Whether the other side has closed @descriptor. What it said is read and forgotten. */
static inline bool is_closed(int descriptor)
{
    char bytes[4096];
    ssize_t size;
    while ((size = recv(descriptor, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    }
    return size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

#endif
