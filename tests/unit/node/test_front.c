/* tests/unit/node/test_front.c - node/front.c against real libzmq clients, and against strangers, on loopback. The loop
 * is turned by hand until what is waited for is there or a deadline passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "client/base/clock.h"
#include "client/base/log.h"
#include "node/front.h"

#define DEADLINE_US     (20u * 1000 * 1000)
#define FRAME_BYTES_MAX 100000
#define CLIENTS_MAX     64
#define KEPT_MAX        4096

struct fixture {
    uv_loop_t loop;
    uv_timer_t pace; /* so that a turn of the loop never sleeps for long */
    struct lq_front *front;
    struct lq_counters counters;
    struct lq_front_options options;
    void *context;
    void *clients[CLIENTS_MAX];
    unsigned client_count;
    /* What came in. */
    unsigned received, malformed, payloads;
    lq_peer last_peer;
    char last_frame[64];
    size_t last_payload_size;
    struct lq_slab *kept[KEPT_MAX];
    unsigned kept_count;
    bool keep, echo;
    unsigned closed;
};

static void on_receive(void *owner, const struct lq_front_message *message)
{
    struct fixture *f = owner;
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
        struct lq_outlet *outlet = lq_front_outlet(f->front);
        assert_int_equal(outlet->send(outlet, message->peer, &packet), LIGHTQ_OK);
    }
}

static const struct lq_front_events events = {.receive = on_receive};

static void on_pace(uv_timer_t *timer)
{
    (void)timer;
}

static void open_front(struct fixture *f)
{
    struct lq_err err;
    lightq_status status = lq_front_new(&f->loop, &f->options, &events, f, &f->front, &err);
    if (status != LIGHTQ_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(status, LIGHTQ_OK);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    lq_log_configure(LQ_LOG_OFF, 2);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->pace), 0);
    assert_int_equal(uv_timer_start(&f->pace, on_pace, 1, 1), 0);
    f->options = (struct lq_front_options){.address = {.host = "127.0.0.1", .port = 0},
                                           .frame_bytes_max = FRAME_BYTES_MAX,
                                           .queue_in = 16,
                                           .queue_out = 16,
                                           .connections_max = 1000,
                                           .counters = &f->counters};
    f->context = zmq_ctx_new();
    assert_non_null(f->context);
    *state = f;
    return 0;
}

/* A turn of the loop with a turn of the front before it, as the shard does. */
static void turn(struct fixture *f)
{
    bool more = lq_front_turn(f->front) || lq_front_readable(f->front);
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

static void on_closed(void *owner)
{
    struct fixture *f = owner;
    f->closed++;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < f->client_count; i++) {
        (void)zmq_close(f->clients[i]);
    }
    for (unsigned i = 0; i < f->kept_count; i++) {
        lq_slab_unref(f->kept[i]);
    }
    if (f->front != NULL) {
        lq_front_close(f->front, on_closed, f);
        assert_int_equal(f->closed, 0); /* never inside the call */
    }
    uv_close((uv_handle_t *)&f->pace, NULL);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->closed, f->front != NULL);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    (void)zmq_ctx_term(f->context);
    free(f);
    return 0;
}

static void *new_client(struct fixture *f, const char *id)
{
    int zero = 0, limit = 1000;
    char address[64];
    void *client = zmq_socket(f->context, ZMQ_DEALER);
    assert_non_null(client);
    assert_true(f->client_count < CLIENTS_MAX);
    f->clients[f->client_count++] = client;
    assert_int_equal(zmq_setsockopt(client, ZMQ_LINGER, &zero, sizeof zero), 0);
    assert_int_equal(zmq_setsockopt(client, ZMQ_RCVHWM, &limit, sizeof limit), 0);
    if (id != NULL) {
        assert_int_equal(zmq_setsockopt(client, ZMQ_ROUTING_ID, id, strlen(id)), 0);
    }
    (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", (unsigned)lq_front_port(f->front));
    assert_int_equal(zmq_connect(client, address), 0);
    return client;
}

/* Sends @frame, and a payload of @payload_size bytes when that is not 0. */
static void say(void *client, const char *frame, size_t payload_size)
{
    assert_true(zmq_send(client, frame, strlen(frame), payload_size > 0 ? ZMQ_SNDMORE : 0) >= 0);
    if (payload_size > 0) {
        char *payload = malloc(payload_size);
        assert_non_null(payload);
        memset(payload, 'p', payload_size);
        assert_true(zmq_send(client, payload, payload_size, 0) >= 0);
        free(payload);
    }
}

/* Whether a message is there for @client; its first part goes to @text, the size of the second to *payload_size. */
static bool hears(void *client, char text[64], size_t *payload_size)
{
    int size = zmq_recv(client, text, 63, ZMQ_DONTWAIT);
    int more = 0;
    size_t option_size = sizeof more;
    *payload_size = 0;
    if (size < 0) {
        return false;
    }
    text[size] = '\0';
    assert_int_equal(zmq_getsockopt(client, ZMQ_RCVMORE, &more, &option_size), 0);
    if (more) {
        zmq_msg_t part;
        assert_int_equal(zmq_msg_init(&part), 0);
        assert_true(zmq_msg_recv(&part, client, 0) >= 0);
        *payload_size = zmq_msg_size(&part);
        assert_int_equal(zmq_msg_more(&part), 0);
        assert_int_equal(zmq_msg_close(&part), 0);
    }
    return true;
}

static int stranger(struct fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(lq_front_port(f->front))};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
    assert_int_equal(connect(made, (struct sockaddr *)&address, sizeof address), 0);
    return made;
}

/* Whether the other side has closed @descriptor. */
static bool is_closed(int descriptor)
{
    char bytes[256];
    ssize_t size = recv(descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
    return size == 0 || (size < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

static void test_front_message_and_payload_come_through_and_back(void **state)
{
    struct fixture *f = *state;
    char text[64];
    size_t size;
    f->echo = true;
    open_front(f);
    void *client = new_client(f, NULL);
    static const size_t sizes[] = {0, 1, 1024, 1025, 90000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        say(client, "hello", sizes[i]);

        UNTIL(f, hears(client, text, &size));

        assert_string_equal(text, "hello");
        assert_int_equal(size, sizes[i]);
        assert_int_equal(f->last_payload_size, sizes[i]);
    }
    assert_int_equal(f->malformed, 0);
    UNTIL(f, lq_front_queued_bytes(f->front) == 0);
}

static void test_front_payload_kept_outlives_the_message(void **state)
{
    struct fixture *f = *state;
    f->keep = true;
    open_front(f);
    void *client = new_client(f, NULL);
    say(client, "a", 50000);
    say(client, "b", 50000);

    UNTIL(f, f->kept_count == 2);

    assert_int_equal(f->kept[0]->size, 50000);
    assert_int_equal(f->kept[0]->bytes[49999], 'p');
}

static void test_front_burst_is_taken_in_completely(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *clients[4];
    for (int i = 0; i < 4; i++) {
        clients[i] = new_client(f, NULL);
        for (int j = 0; j < 500; j++) {
            say(clients[i], "x", j % 7 == 0 ? 2000 : 0);
        }
    }

    UNTIL(f, f->received == 2000);

    assert_int_equal(f->malformed, 0);
}

static void test_front_turn_is_bounded(void **state)
{
    struct fixture *f = *state;
    f->options.queue_in = 10000;
    open_front(f);
    void *client = new_client(f, NULL);
    for (int i = 0; i < 900; i++) {
        say(client, "x", 0);
    }
    uint64_t until_us = lq_clock_monotonic_us(lq_clock_system()) + DEADLINE_US;
    while (f->received < 900 && lq_clock_monotonic_us(lq_clock_system()) < until_us) {
        (void)uv_run(&f->loop, UV_RUN_NOWAIT);
        unsigned before = f->received;
        bool more = lq_front_turn(f->front);
        unsigned taken = f->received - before;
        assert_true(taken <= 256);
        assert_true(!more || taken > 0);
    }

    assert_int_equal(f->received, 900);
}

static void test_front_messages_of_three_parts_are_malformed(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *client = new_client(f, NULL);
    assert_true(zmq_send(client, "a", 1, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(client, "b", 1, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(client, "c", 1, 0) >= 0);
    say(client, "sound", 0);

    UNTIL(f, f->received == 2);

    assert_int_equal(f->malformed, 1);
    assert_string_equal(f->last_frame, "sound");
}

static void test_front_routing_id_of_client_is_not_served(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *chosen = new_client(f, "mine");
    void *made = new_client(f, NULL);
    say(chosen, "chosen", 0);
    UNTIL(f, f->counters.frames_bad == 1);
    say(made, "made", 0);

    UNTIL(f, f->received == 1);

    assert_string_equal(f->last_frame, "made");
}

static void test_front_frame_above_limit_closes_its_connection_only(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *large = new_client(f, NULL);
    void *other = new_client(f, NULL);
    say(other, "one", 0);
    UNTIL(f, f->received == 1);
    say(large, "large", FRAME_BYTES_MAX + 1);
    say(other, "two", FRAME_BYTES_MAX);

    UNTIL(f, f->received == 2);

    assert_string_equal(f->last_frame, "two");
    assert_int_equal(f->last_payload_size, FRAME_BYTES_MAX);
}

static void test_front_strangers_are_closed_and_counted(void **state)
{
    struct fixture *f = *state;
    static const char http[] = "GET / HTTP/1.0\r\n\r\n";
    open_front(f);
    int first = stranger(f), second = stranger(f);
    assert_int_equal(send(first, http, sizeof http - 1, 0), sizeof http - 1);
    char noise[256];
    memset(noise, 0xaa, sizeof noise);
    assert_int_equal(send(second, noise, sizeof noise, 0), sizeof noise);

    UNTIL(f, f->counters.handshakes_bad >= 2);
    UNTIL(f, is_closed(first));
    UNTIL(f, is_closed(second));

    assert_int_equal(f->received, 0);
    void *client = new_client(f, NULL);
    say(client, "sound", 0);
    UNTIL(f, f->received == 1);
    (void)close(first);
    (void)close(second);
}

static void test_front_full_connection_says_busy_and_recovers(void **state)
{
    struct fixture *f = *state;
    char text[64];
    size_t size;
    unsigned sent = 0, heard = 0;
    int little = 4096;
    f->options.queue_out = 4;
    open_front(f);
    void *client = zmq_socket(f->context, ZMQ_DEALER);
    assert_non_null(client);
    f->clients[f->client_count++] = client;
    int limit = 1, zero = 0;
    char address[64];
    assert_int_equal(zmq_setsockopt(client, ZMQ_RCVHWM, &limit, sizeof limit), 0);
    assert_int_equal(zmq_setsockopt(client, ZMQ_RCVBUF, &little, sizeof little), 0);
    assert_int_equal(zmq_setsockopt(client, ZMQ_LINGER, &zero, sizeof zero), 0);
    (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", (unsigned)lq_front_port(f->front));
    assert_int_equal(zmq_connect(client, address), 0);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_account *account = lq_account_new();
    struct lq_slab *slab = lq_slab_new(80000);
    assert_non_null(account);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {
        .frame = "d", .frame_size = 1, .payload = slab, .payload_size = 80000, .account = account};

    lightq_status status;
    while ((status = outlet->send(outlet, f->last_peer, &packet)) == LIGHTQ_OK) {
        sent++;
        assert_true(sent < 10000);
    }
    assert_int_equal(status, LIGHTQ_EBUSY);
    assert_true(lq_account_bytes(account) > 0);

    UNTIL(f, (heard += hears(client, text, &size)) == sent);
    assert_int_equal(size, 80000);
    UNTIL(f, lq_account_bytes(account) == 0);
    assert_int_equal(lq_front_queued_bytes(f->front), 0);
    UNTIL(f, outlet->send(outlet, f->last_peer, &packet) == LIGHTQ_OK);
    lq_slab_unref(slab);
    lq_account_unref(account);
}

static void test_front_send_to_unknown_or_gone_client_says_closed(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_packet packet = {.frame = "x", .frame_size = 1};
    assert_int_equal(outlet->send(outlet, 12345, &packet), LIGHTQ_ECLOSED);
    void *client = new_client(f, NULL);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    assert_int_equal(zmq_close(client), 0);
    f->client_count--;

    UNTIL(f, outlet->send(outlet, f->last_peer, &packet) == LIGHTQ_ECLOSED);
}

static void test_front_too_many_connections_stop_listening_until_fewer(void **state)
{
    struct fixture *f = *state;
    int strangers[16];
    f->options.connections_max = 16;
    open_front(f);
    void *client = new_client(f, NULL);
    say(client, "before", 0);
    UNTIL(f, f->received == 1);
    for (int i = 0; i < 15; i++) {
        strangers[i] = stranger(f);
    }
    UNTIL(f, f->counters.connections_refused == 1);
    say(client, "during", 0);
    UNTIL(f, f->received == 2);

    for (int i = 0; i < 15; i++) {
        (void)close(strangers[i]);
    }
    void *late = new_client(f, NULL);
    say(late, "after", 0);

    UNTIL(f, f->received == 3);
    assert_string_equal(f->last_frame, "after");
    UNTIL(f, f->counters.connections == 2);
}

static void test_front_port_in_use_or_wrong_address_is_named(void **state)
{
    struct fixture *f = *state;
    struct lq_front *second = NULL;
    struct lq_err err;
    char port[16];
    open_front(f);
    struct lq_front_options options = f->options;
    options.address.port = lq_front_port(f->front);
    (void)snprintf(port, sizeof port, "%u", (unsigned)options.address.port);

    assert_int_equal(lq_front_new(&f->loop, &options, &events, f, &second, &err), LIGHTQ_EADDRINUSE);
    assert_non_null(strstr(err.text, port));
    (void)snprintf(options.address.host, sizeof options.address.host, "203.0.113.1");
    assert_int_equal(lq_front_new(&f->loop, &options, &events, f, &second, &err), LIGHTQ_EINVAL);
    assert_non_null(strstr(err.text, "203.0.113.1"));
    assert_null(second);
}

static void test_front_ipv6_loopback_works(void **state)
{
    struct fixture *f = *state;
    int one = 1, zero = 0;
    char address[64];
    struct lq_err err;
    (void)snprintf(f->options.address.host, sizeof f->options.address.host, "::1");
    lightq_status status = lq_front_new(&f->loop, &f->options, &events, f, &f->front, &err);
    if (status == LIGHTQ_EINVAL) {
        skip(); /* a machine without IPv6 */
    }
    assert_int_equal(status, LIGHTQ_OK);
    void *client = zmq_socket(f->context, ZMQ_DEALER);
    assert_non_null(client);
    f->clients[f->client_count++] = client;
    assert_int_equal(zmq_setsockopt(client, ZMQ_IPV6, &one, sizeof one), 0);
    assert_int_equal(zmq_setsockopt(client, ZMQ_LINGER, &zero, sizeof zero), 0);
    (void)snprintf(address, sizeof address, "tcp://[::1]:%u", (unsigned)lq_front_port(f->front));
    assert_int_equal(zmq_connect(client, address), 0);
    say(client, "six", 0);

    UNTIL(f, f->received == 1);
}

static void test_front_close_lets_queued_payloads_go(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *client = new_client(f, NULL);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_slab *slab = lq_slab_new(80000);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {.frame = "d", .frame_size = 1, .payload = slab, .payload_size = 80000};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(outlet->send(outlet, f->last_peer, &packet), LIGHTQ_OK);
    }
    lq_slab_unref(slab); /* the tear-down closes: what is still referenced then is a leak */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_front_message_and_payload_come_through_and_back),
        TEST(test_front_payload_kept_outlives_the_message),
        TEST(test_front_burst_is_taken_in_completely),
        TEST(test_front_turn_is_bounded),
        TEST(test_front_messages_of_three_parts_are_malformed),
        TEST(test_front_routing_id_of_client_is_not_served),
        TEST(test_front_frame_above_limit_closes_its_connection_only),
        TEST(test_front_strangers_are_closed_and_counted),
        TEST(test_front_full_connection_says_busy_and_recovers),
        TEST(test_front_send_to_unknown_or_gone_client_says_closed),
        TEST(test_front_too_many_connections_stop_listening_until_fewer),
        TEST(test_front_port_in_use_or_wrong_address_is_named),
        TEST(test_front_ipv6_loopback_works),
        TEST(test_front_close_lets_queued_payloads_go),
    };
    return cmocka_run_group_tests_name("node front", tests, NULL, NULL);
}
