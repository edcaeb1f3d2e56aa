/* tests/unit/node/test_front.c - node/front.c against real libzmq clients. What strangers do to it is in
 * test_front_hostile.c. */
#include "tests/unit/node/front_fixture.h"

#include <zmq.h>

#define CLIENTS_MAX 64

struct clients {
    void *context;
    void *at[CLIENTS_MAX];
    unsigned count;
};

static int setup(void **state)
{
    struct fixture *f = front_setup();
    struct clients *clients = calloc(1, sizeof *clients);
    assert_non_null(clients);
    clients->context = zmq_ctx_new();
    assert_non_null(clients->context);
    f->data = clients;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct clients *clients = f->data;
    for (unsigned i = 0; i < clients->count; i++) {
        (void)zmq_close(clients->at[i]);
    }
    (void)zmq_ctx_term(clients->context);
    free(clients);
    front_teardown(f);
    return 0;
}

static void *new_socket(struct fixture *f, int type)
{
    struct clients *clients = f->data;
    int zero = 0, limit = 1000;
    void *client = zmq_socket(clients->context, type);
    assert_non_null(client);
    assert_true(clients->count < CLIENTS_MAX);
    clients->at[clients->count++] = client;
    assert_int_equal(zmq_setsockopt(client, ZMQ_LINGER, &zero, sizeof zero), 0);
    assert_int_equal(zmq_setsockopt(client, ZMQ_RCVHWM, &limit, sizeof limit), 0);
    return client;
}

static void connect_to_front(struct fixture *f, void *client)
{
    char address[64];
    (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", (unsigned)lq_front_port(f->front));
    assert_int_equal(zmq_connect(client, address), 0);
}

static void *new_client(struct fixture *f, const char *id)
{
    void *client = new_socket(f, ZMQ_DEALER);
    if (id != NULL) {
        assert_int_equal(zmq_setsockopt(client, ZMQ_ROUTING_ID, id, strlen(id)), 0);
    }
    connect_to_front(f, client);
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
    assert_int_equal(f->gone, 0);
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

static void test_front_turn_is_bounded(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *client = new_client(f, NULL);
    for (int i = 0; i < 900; i++) {
        say(client, "x", 2000);
    }

    UNTIL(f, f->received == 900);

    assert_in_range(f->most_in_turn, 1, 512 + LQ_FRONT_BUFFER_BYTES / 2000);
}

static void test_front_routing_id_of_client_is_not_served(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    (void)new_client(f, "mine");
    UNTIL(f, f->counters.handshakes_bad >= 1);
    void *made = new_client(f, NULL);
    say(made, "made", 0);

    UNTIL(f, f->received == 1);

    assert_string_equal(f->last_frame, "made");
    assert_int_equal(f->gone, 0); /* it never was there */
}

/* REQ puts an empty frame in front: for the protocol above it is a wrong message, here it is one of two frames. */
static void test_front_other_types_are_served_or_refused_as_a_router_does(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *req = new_socket(f, ZMQ_REQ);
    connect_to_front(f, req);
    assert_true(zmq_send(req, "asked", 5, 0) == 5);
    UNTIL(f, f->received == 1);
    assert_string_equal(f->last_frame, "");
    assert_int_equal(f->last_payload_size, 5);

    connect_to_front(f, new_socket(f, ZMQ_SUB));

    UNTIL(f, f->counters.handshakes_bad >= 1);
    assert_int_equal(f->received, 1);
}

static void test_front_frame_above_limit_closes_its_connection_only(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    void *large = new_client(f, NULL);
    void *other = new_client(f, NULL);
    say(other, "one", 0);
    UNTIL(f, f->received == 1);
    lq_peer peer = f->last_peer;
    say(large, "large", FRAME_BYTES_MAX + 1);
    UNTIL(f, f->counters.connections_bad >= 1);
    say(other, "two", FRAME_BYTES_MAX);

    UNTIL(f, f->received == 2);

    assert_string_equal(f->last_frame, "two");
    assert_int_equal(f->last_payload_size, FRAME_BYTES_MAX);
    assert_true(f->gone >= 1 && f->last_gone != peer);
}

static void test_front_full_connection_says_busy_and_recovers(void **state)
{
    struct fixture *f = *state;
    char text[64];
    size_t size;
    unsigned sent = 0, heard = 0;
    int little = 4096, limit = 1;
    f->options.queue_out = 4;
    open_front(f);
    void *client = new_socket(f, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(client, ZMQ_RCVHWM, &limit, sizeof limit), 0);
    assert_int_equal(zmq_setsockopt(client, ZMQ_RCVBUF, &little, sizeof little), 0);
    connect_to_front(f, client);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_slab *slab = lq_slab_new(80000);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {.frame = "d", .frame_size = 1, .payload = slab, .payload_size = 80000};

    lightq_status status;
    while ((status = outlet->send(outlet, f->last_peer, &packet)) == LIGHTQ_OK) {
        sent++;
        assert_true(sent < 10000);
    }
    assert_int_equal(status, LIGHTQ_EBUSY);
    assert_int_equal(outlet->queued_to(outlet, f->last_peer), lq_front_queued_bytes(f->front));
    assert_in_range(lq_front_queued_bytes(f->front), 3 * 80000, 4 * 80100);

    UNTIL(f, (heard += hears(client, text, &size)) == sent);
    assert_int_equal(size, 80000);
    assert_int_equal(outlet->queued_to(outlet, f->last_peer), 0);
    assert_int_equal(lq_front_queued_bytes(f->front), 0);
    assert_int_equal(outlet->send(outlet, f->last_peer, &packet), LIGHTQ_OK);
    lq_slab_unref(slab);
}

/* However much a connection is sent that it does not take, four fifths of what all may hold stay for the others. */
static void test_front_queue_of_one_leaves_room_for_others(void **state)
{
    struct fixture *f = *state;
    f->options.queue_out = 1000;
    f->options.queue_out_bytes = 1 << 30;
    f->options.queued_bytes_max = 5000000;
    open_front(f);
    lq_peer peers[2];
    for (unsigned i = 0; i < 2; i++) {
        say(new_client(f, NULL), "hello", 0);
        UNTIL(f, f->received == i + 1);
        peers[i] = f->last_peer;
    }
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_slab *slab = lq_slab_new(90000);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {.frame = "d", .frame_size = 1, .payload = slab, .payload_size = 90000};

    while (outlet->send(outlet, peers[0], &packet) == LIGHTQ_OK) {
        assert_true(lq_front_queued_bytes(f->front) <= 1000000);
    }
    uint64_t of_first = lq_front_queued_bytes(f->front);
    while (outlet->send(outlet, peers[1], &packet) == LIGHTQ_OK) {
    }

    assert_true(lq_front_queued_bytes(f->front) > of_first + packet.payload_size);
    assert_true(lq_front_queued_bytes(f->front) <= 2000000);
    lq_slab_unref(slab);
}

static void test_front_queue_is_bounded_in_bytes(void **state)
{
    struct fixture *f = *state;
    char text[64];
    size_t size;
    unsigned sent = 0, heard = 0;
    f->options.queue_out = 1000;
    f->options.queue_out_bytes = 500000;
    open_front(f);
    void *client = new_client(f, NULL);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_slab *slab = lq_slab_new(900000);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {.frame = "d", .frame_size = 1, .payload = slab, .payload_size = 90000};

    while (outlet->send(outlet, f->last_peer, &packet) == LIGHTQ_OK) {
        assert_true(lq_front_queued_bytes(f->front) <= 500100);
        sent++;
    }
    UNTIL(f, (heard += hears(client, text, &size)) == sent);
    assert_int_equal(lq_front_queued_bytes(f->front), 0);
    packet.payload_size = 900000; /* one always goes */
    assert_int_equal(outlet->send(outlet, f->last_peer, &packet), LIGHTQ_OK);
    lq_slab_unref(slab);
}

static void test_front_answers_of_a_turn_leave_together(void **state)
{
    struct fixture *f = *state;
    char text[64];
    size_t size;
    open_front(f);
    void *client = new_client(f, NULL);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_packet packet = {.frame = "answer", .frame_size = 6};

    for (int i = 0; i < 10; i++) {
        assert_int_equal(outlet->send(outlet, f->last_peer, &packet), LIGHTQ_OK);
        assert_false(hears(client, text, &size)); /* nothing is written before the end of the turn */
    }
    assert_int_equal(outlet->queued_to(outlet, f->last_peer), 10 * (2 + 6));
    lq_front_flush(f->front);
    assert_int_equal(outlet->queued_to(outlet, f->last_peer), 0);

    unsigned heard = 0;
    UNTIL(f, (heard += hears(client, text, &size)) == 10);
}

static void test_front_send_to_unknown_or_gone_client_says_closed(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_packet packet = {.frame = "x", .frame_size = 1};
    assert_int_equal(outlet->send(outlet, 0, &packet), LIGHTQ_ECLOSED);
    assert_int_equal(outlet->send(outlet, UINT64_MAX, &packet), LIGHTQ_ECLOSED);
    void *client = new_client(f, NULL);
    say(client, "hello", 0);
    UNTIL(f, f->received == 1);
    lq_peer peer = f->last_peer;
    struct clients *clients = f->data;
    assert_int_equal(zmq_close(client), 0);
    clients->count--;

    UNTIL(f, f->gone == 1);

    assert_int_equal(f->last_gone, peer);
    assert_int_equal(outlet->send(outlet, peer, &packet), LIGHTQ_ECLOSED);
    assert_int_equal(outlet->queued_to(outlet, peer), 0);
    outlet->close(outlet, peer, LQ_CLOSE_NOW); /* no harm */
    void *another = new_client(f, NULL);
    say(another, "hello", 0);
    UNTIL(f, f->received == 2);
    assert_int_not_equal(f->last_peer, peer); /* although it has its place */
    assert_int_equal(outlet->send(outlet, peer, &packet), LIGHTQ_ECLOSED);
}

static void test_front_too_many_connections_wait_until_fewer(void **state)
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
    void *late = new_client(f, NULL);
    say(late, "after", 0);
    say(client, "during", 0);
    UNTIL(f, f->received == 2);
    assert_string_equal(f->last_frame, "during");
    assert_int_equal(f->counters.connections, 16);

    (void)close(strangers[0]);
    UNTIL(f, f->counters.connections == 15);
    assert_false(f->front->accepting); /* not before there are clearly fewer */
    for (int i = 1; i < 15; i++) {
        (void)close(strangers[i]);
    }

    UNTIL(f, f->received == 3);
    assert_string_equal(f->last_frame, "after");
    UNTIL(f, f->counters.connections == 2);
}

static void test_front_ipv6_loopback_works(void **state)
{
    struct fixture *f = *state;
    int one = 1;
    char address[64];
    struct lq_err err;
    (void)snprintf(f->options.address.host, sizeof f->options.address.host, "::1");
    lightq_status status = lq_front_new(&f->loop, &f->options, &front_events, f, &f->front, &err);
    if (status == LIGHTQ_EINVAL) {
        skip(); /* a machine without IPv6 */
    }
    assert_int_equal(status, LIGHTQ_OK);
    void *client = new_socket(f, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(client, ZMQ_IPV6, &one, sizeof one), 0);
    (void)snprintf(address, sizeof address, "tcp://[::1]:%u", (unsigned)lq_front_port(f->front));
    assert_int_equal(zmq_connect(client, address), 0);
    say(client, "six", 0);

    UNTIL(f, f->received == 1);
}

/* The silent ones beside them say how much time has passed. */
static void test_front_idle_clients_answer_pings_and_stay(void **state)
{
    struct fixture *f = *state;
    int interval = 20;
    f->options.ping_ms = 50;
    f->options.silence_ms = 300;
    f->options.handshake_ms = 400;
    open_front(f);
    void *plain = new_client(f, NULL);
    void *beating = new_socket(f, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(beating, ZMQ_HEARTBEAT_IVL, &interval, sizeof interval), 0);
    interval = 200;
    assert_int_equal(zmq_setsockopt(beating, ZMQ_HEARTBEAT_TIMEOUT, &interval, sizeof interval), 0);
    connect_to_front(f, beating);
    say(plain, "hello", 0);
    say(beating, "hello", 0);
    UNTIL(f, f->received == 2);
    for (uint64_t i = 1; i <= 3; i++) {
        int silent = stranger(f);
        UNTIL(f, f->counters.handshakes_bad == i);
        (void)close(silent);
    }

    say(plain, "still", 0);
    say(beating, "still", 0);
    UNTIL(f, f->received == 4);

    assert_int_equal(f->gone, 0);
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

    assert_int_equal(lq_front_new(&f->loop, &options, &front_events, f, &second, &err), LIGHTQ_EADDRINUSE);
    assert_non_null(strstr(err.text, port));
    (void)snprintf(options.address.host, sizeof options.address.host, "203.0.113.1");
    assert_int_equal(lq_front_new(&f->loop, &options, &front_events, f, &second, &err), LIGHTQ_EINVAL);
    assert_non_null(strstr(err.text, "203.0.113.1"));
    assert_null(second);
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
        TEST(test_front_messages_of_three_parts_are_malformed),
        TEST(test_front_turn_is_bounded),
        TEST(test_front_routing_id_of_client_is_not_served),
        TEST(test_front_other_types_are_served_or_refused_as_a_router_does),
        TEST(test_front_frame_above_limit_closes_its_connection_only),
        TEST(test_front_full_connection_says_busy_and_recovers),
        TEST(test_front_queue_is_bounded_in_bytes),
        TEST(test_front_queue_of_one_leaves_room_for_others),
        TEST(test_front_answers_of_a_turn_leave_together),
        TEST(test_front_send_to_unknown_or_gone_client_says_closed),
        TEST(test_front_too_many_connections_wait_until_fewer),
        TEST(test_front_ipv6_loopback_works),
        TEST(test_front_idle_clients_answer_pings_and_stay),
        TEST(test_front_port_in_use_or_wrong_address_is_named),
        TEST(test_front_close_lets_queued_payloads_go),
    };
    return cmocka_run_group_tests_name("node front", tests, NULL, NULL);
}
