/* tests/unit/node/test_front_hostile.c - node/front.c against bare sockets: those that do not speak ZMTP, that stop
 * half way, announce much, send too much, read nothing, or leave at any moment. Cases L1, L3, L5, L6, L7, L10. */
#include "tests/unit/node/front_fixture.h"

#include <fcntl.h>

#include "tests/lib/alloc_fail.h"

#define HUGE_BYTES 90000

static int setup(void **state)
{
    *state = front_setup();
    return 0;
}

static int teardown(void **state)
{
    front_teardown(*state);
    return 0;
}

/* ---- a client made by hand */

static void say(int descriptor, const void *bytes, size_t size)
{
    assert_int_equal(send(descriptor, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void say_head(int descriptor, unsigned flags, uint64_t size)
{
    uint8_t head[LQ_ZMTP_HEAD_BYTES_MAX];
    say(descriptor, head, lq_zmtp_head_write(head, flags, size));
}

static void say_frame(int descriptor, unsigned flags, const void *bytes, size_t size)
{
    say_head(descriptor, flags, size);
    say(descriptor, bytes, size);
}

static void say_greeting(int descriptor)
{
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    lq_zmtp_greeting_write(greeting);
    say(descriptor, greeting, sizeof greeting);
}

/* Waits until @size bytes were heard. */
static void hear(struct fixture *f, int descriptor, void *bytes, size_t size)
{
    size_t heard = 0;
    ssize_t part = 0;
    UNTIL(f, (part = recv(descriptor, (char *)bytes + heard, size - heard, MSG_DONTWAIT),
              heard += part > 0 ? (size_t)part : 0) == size);
}

/* A connection whose handshake is done. */
static int client(struct fixture *f)
{
    uint8_t ready[LQ_ZMTP_READY_BYTES], heard[LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES];
    int made = stranger(f);
    say_greeting(made);
    say(made, ready, lq_zmtp_ready_write(ready, "DEALER"));
    hear(f, made, heard, LQ_ZMTP_GREETING_BYTES + lq_zmtp_ready_write(ready, "ROUTER"));
    return made;
}

/* What of the node's frames says, up to 255 bytes. */
static size_t hear_frame(struct fixture *f, int descriptor, uint8_t bytes[256])
{
    uint8_t head[2];
    hear(f, descriptor, head, sizeof head);
    assert_int_equal(head[0] & LQ_ZMTP_LONG, 0);
    hear(f, descriptor, bytes, head[1]);
    return head[1];
}

static void do_not_wait(int descriptor)
{
    assert_int_equal(fcntl(descriptor, F_SETFL, O_NONBLOCK), 0);
}

/* ---- before the handshake is done */

static void test_front_noise_is_closed_at_once_and_counted(void **state)
{
    struct fixture *f = *state;
    static const char http[] = "GET / HTTP/1.0\r\n\r\n";
    uint8_t noise[4096];
    open_front(f);
    int first = stranger(f), second = stranger(f), third = stranger(f);
    memset(noise, 0xaa, sizeof noise);
    say(first, http, sizeof http - 1);
    say(second, noise, sizeof noise);
    say(third, "\xff\0\0\0\0\0\0\0\1\x7f\1", 11); /* ZMTP, but old */

    UNTIL(f, f->counters.handshakes_bad == 3);
    UNTIL(f, is_closed(first));
    UNTIL(f, is_closed(second));
    UNTIL(f, is_closed(third));

    assert_int_equal(f->received + f->gone, 0);
    int sound = client(f);
    say_frame(sound, 0, "sound", 5);
    UNTIL(f, f->received == 1);
    (void)close(first);
    (void)close(second);
    (void)close(third);
    (void)close(sound);
}

static void test_front_half_a_handshake_is_closed_in_time(void **state)
{
    struct fixture *f = *state;
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    int halves[4];
    f->options.handshake_ms = 100;
    open_front(f);
    lq_zmtp_greeting_write(greeting);
    for (int i = 0; i < 4; i++) {
        halves[i] = stranger(f);
    }
    say(halves[1], greeting, 10);
    say(halves[2], greeting, sizeof greeting);
    say(halves[3], greeting, sizeof greeting);
    say_head(halves[3], LQ_ZMTP_COMMAND, 40);
    say(halves[3], "\005READY", 6);
    int done = client(f);

    UNTIL(f, f->counters.handshakes_bad == 4);

    for (int i = 0; i < 4; i++) {
        UNTIL(f, is_closed(halves[i]));
        (void)close(halves[i]);
    }
    assert_false(is_closed(done));
    (void)close(done);
}

/* L10, and what ends libzmq 4.3.4: an id as libzmq's ROUTER makes them itself. */
static void test_front_forged_routing_id_is_told_and_closed(void **state)
{
    struct fixture *f = *state;
    static const char forged[] = "\005READY\013Socket-Type\0\0\0\006DEALER\010Identity\0\0\0\005\0\0\0\0\1";
    uint8_t heard[LQ_ZMTP_GREETING_BYTES], error[256];
    open_front(f);
    int other = client(f);
    for (int i = 0; i < 3; i++) {
        int forger = stranger(f);
        say_greeting(forger);
        say_frame(forger, LQ_ZMTP_COMMAND, forged, sizeof forged - 1);

        hear(f, forger, heard, sizeof heard);
        size_t size = hear_frame(f, forger, error);
        assert_memory_equal(error, "\005ERROR", 6);
        assert_int_equal(error[6], size - 7);
        assert_memory_equal(error + 7, "routing ids", 11);
        UNTIL(f, is_closed(forger));
        (void)close(forger);
    }
    assert_int_equal(f->counters.handshakes_bad, 3);
    say_frame(other, 0, "still", 5);
    UNTIL(f, f->received == 1);
    (void)close(other);
}

static void test_front_conversation_of_single_bytes_is_understood(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[256], *at = bytes, ready[LQ_ZMTP_READY_BYTES];
    open_front(f);
    int slow = stranger(f);
    lq_zmtp_greeting_write(at);
    at += LQ_ZMTP_GREETING_BYTES;
    size_t size = lq_zmtp_ready_write(ready, "DEALER");
    memcpy(at, ready, size);
    at += size;
    memcpy(at, "\1\3one\2\0\0\0\0\0\0\0\3two", 17);
    at += 17;
    for (const uint8_t *byte = bytes; byte < at; byte++) {
        say(slow, byte, 1);
        turn(f);
        turn(f);
    }

    UNTIL(f, f->received == 1);

    assert_string_equal(f->last_frame, "one");
    assert_int_equal(f->last_payload_size, 3);
    assert_int_equal(f->front->arriving_bytes, 0);
    (void)close(slow);
}

/* ---- frames */

static void test_front_frame_above_limit_is_closed_by_its_head(void **state)
{
    struct fixture *f = *state;
    static const uint64_t sizes[] = {FRAME_BYTES_MAX + 1, UINT64_C(1) << 31, UINT64_C(1) << 63, UINT64_MAX};
    open_front(f);
    for (uint64_t i = 0; i < 4; i++) {
        int large = client(f);
        say_head(large, i % 2 == 0 ? 0 : LQ_ZMTP_MORE, sizes[i]);

        UNTIL(f, is_closed(large));

        assert_int_equal(f->counters.connections_bad, i + 1);
        assert_int_equal(f->gone, i + 1);
        assert_int_equal(f->front->arriving_bytes, 0);
        (void)close(large);
    }
}

static void test_front_many_frames_are_malformed_once_and_not_kept(void **state)
{
    struct fixture *f = *state;
    static uint8_t large[HUGE_BYTES];
    open_front(f);
    int many = client(f);
    for (int i = 0; i < 50; i++) {
        say_head(many, LQ_ZMTP_MORE, sizeof large);
        for (size_t at = 0; at < sizeof large; at += sizeof large / 10) {
            say(many, large + at, sizeof large / 10);
            turn(f);
        }
    }
    UNTIL(f, f->malformed == 1);
    say_frame(many, 0, "end", 3);
    say_frame(many, 0, "sound", 5);
    UNTIL(f, f->received == 2);

    assert_int_equal(f->malformed, 1);
    assert_string_equal(f->last_frame, "sound");
    assert_int_equal(f->front->arriving_bytes, 0);
    (void)close(many);
}

static void test_front_ping_is_answered_also_inside_a_message(void **state)
{
    struct fixture *f = *state;
    uint8_t pong[256];
    open_front(f);
    int pinger = client(f);
    say_frame(pinger, LQ_ZMTP_MORE, "one", 3);
    say_frame(pinger, LQ_ZMTP_COMMAND, "\004PING\0\0context", 14);

    assert_int_equal(hear_frame(f, pinger, pong), 12);

    assert_memory_equal(pong, "\004PONGcontext", 12);
    assert_int_equal(f->received, 0);
    say_frame(pinger, 0, "two", 3);
    UNTIL(f, f->received == 1);
    assert_string_equal(f->last_frame, "one");
    (void)close(pinger);
}

static void test_front_silent_client_is_pinged_and_closed(void **state)
{
    struct fixture *f = *state;
    uint8_t ping[256];
    f->options.ping_ms = 50;
    f->options.silence_ms = 200;
    open_front(f);
    int silent = client(f);

    assert_int_equal(hear_frame(f, silent, ping), 7);
    assert_memory_equal(ping, "\004PING\0\0", 7);
    UNTIL(f, is_closed(silent));

    assert_int_equal(f->counters.connections_silent, 1);
    assert_int_equal(f->gone, 1);
    (void)close(silent);
}

static void test_front_client_that_only_answers_pings_is_closed(void **state)
{
    struct fixture *f = *state;
    uint8_t ping[256];
    f->options.ping_ms = 50;
    f->options.silence_ms = 400;
    open_front(f);
    int quiet = client(f), talker = client(f);
    say_frame(talker, 0, "hello", 5);
    UNTIL(f, f->received == 1);

    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(hear_frame(f, quiet, ping), 7);
        say(quiet, "\004\005\004PONG", 7);
        assert_int_equal(hear_frame(f, talker, ping), 7);
        say(talker, "\004\005\004PONG", 7);
    }
    while (f->gone == 0) { /* the talker goes on answering, and stays */
        ssize_t size = recv(talker, ping, sizeof ping, MSG_DONTWAIT);
        if (size > 0) {
            say(talker, "\004\005\004PONG", 7);
        }
        size = recv(quiet, ping, sizeof ping, MSG_DONTWAIT);
        if (size > 0) {
            (void)send(quiet, "\004\005\004PONG", 7, MSG_NOSIGNAL);
        }
        turn(f);
    }

    assert_true(is_closed(quiet));
    assert_false(is_closed(talker));
    assert_int_equal(f->counters.connections_silent, 1);
    (void)close(quiet);
    (void)close(talker);
}

/* ---- leaving */

static void test_front_lost_connection_is_told_at_once(void **state)
{
    struct fixture *f = *state;
    struct linger at_once = {.l_onoff = 1};
    open_front(f);
    for (unsigned i = 1; i <= 4; i++) {
        int leaving = client(f);
        say_frame(leaving, 0, "here", 4);
        UNTIL(f, f->received == i);
        if (i % 2 == 0) {
            assert_int_equal(setsockopt(leaving, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0); /* a reset */
        }
        if (i > 2) {
            say_head(leaving, 0, HUGE_BYTES); /* in the middle of a frame */
            say(leaving, "part", 4);
            turn(f);
        }
        (void)close(leaving);

        UNTIL(f, f->gone == i);

        assert_true(f->last_gone == f->last_peer);
        assert_int_equal(f->front->arriving_bytes, 0);
    }
}

/* What the owner said last is heard, also by one that goes on sending. */
static void test_front_closed_when_written_hears_why(void **state)
{
    struct fixture *f = *state;
    static uint8_t flood[HUGE_BYTES];
    uint8_t heard[4];
    f->answers = true;
    open_front(f);
    for (unsigned i = 1; i <= 3; i++) {
        int bad = client(f);
        say_frame(bad, 0, "bad", 3);
        say_frame(bad, 0, flood, sizeof flood);
        say_frame(bad, 0, "more", 4);
        f->gone = 0;

        hear(f, bad, heard, sizeof heard);
        assert_memory_equal(heard, "\0\2no", 4);
        UNTIL(f, is_closed(bad));
        assert_int_equal(f->received, i); /* of what came behind nothing was handed on */

        (void)close(bad);
        UNTIL(f, f->gone == 1);
    }
}

static void test_front_one_that_never_closes_is_closed(void **state)
{
    struct fixture *f = *state;
    f->answers = true;
    open_front(f);
    int stays = client(f);
    say_frame(stays, 0, "bad", 3);

    UNTIL(f, f->gone == 1); /* some seconds */

    (void)close(stays);
}

static void test_front_closed_now_is_gone(void **state)
{
    struct fixture *f = *state;
    f->answers = f->answers_now = true;
    open_front(f);
    int bad = client(f);
    say_frame(bad, 0, "bad", 3);
    say_frame(bad, 0, "more", 4);

    UNTIL(f, is_closed(bad));

    assert_int_equal(f->received, 1);
    assert_int_equal(f->gone, 1);
    assert_int_equal(lq_front_queued_bytes(f->front), 0);
    (void)close(bad);
}

/* ---- taking more than one's share */

/* Each connection is read once in a round, so a flood costs the others little. */
static void test_front_flood_leaves_room_for_others(void **state)
{
    struct fixture *f = *state;
    static uint8_t flood[HUGE_BYTES];
    int flooders[3];
    size_t flooded[3] = {0};
    uint8_t small[200] = {0}, heard[202];
    unsigned most_turns = 0;
    open_front(f);
    int worker = client(f);
    for (size_t at = 0; at < sizeof flood; at += 20) { /* many small messages */
        flood[at + 1] = 18;
    }
    for (int i = 0; i < 3; i++) {
        flooders[i] = client(f);
        do_not_wait(flooders[i]);
    }
    f->echo = true;
    for (int i = 0; i < 50; i++) {
        unsigned turns = 0;
        size_t had = 0;
        say_frame(worker, 0, small, sizeof small);
        while (had < sizeof heard) {
            for (int j = 0; j < 3; j++) {
                ssize_t size = send(flooders[j], flood + flooded[j], sizeof flood - flooded[j], MSG_NOSIGNAL);
                flooded[j] = (flooded[j] + (size > 0 ? (size_t)size : 0)) % sizeof flood;
                assert_false(is_closed(flooders[j])); /* which reads */
            }
            turn(f);
            turns++;
            ssize_t size = recv(worker, heard + had, sizeof heard - had, MSG_DONTWAIT);
            had += size > 0 ? (size_t)size : 0;
        }
        most_turns = turns > most_turns ? turns : most_turns;
    }

    assert_true(f->received > 100000);
    assert_in_range(most_turns, 1, 6);
    assert_in_range(f->most_in_turn, 1, 512 + LQ_FRONT_BUFFER_BYTES / 20 + 1);
    (void)close(worker);
    for (int i = 0; i < 3; i++) {
        (void)close(flooders[i]);
    }
}

static void test_front_slow_reader_is_bounded_and_harms_nobody(void **state)
{
    struct fixture *f = *state;
    uint8_t heard[7];
    open_front(f);
    int slow = client(f);
    say_frame(slow, 0, "hello", 5);
    UNTIL(f, f->received == 1);
    lq_peer peer = f->last_peer;
    int other = client(f);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_slab *slab = lq_slab_new(80000);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {.frame = "d", .frame_size = 1, .payload = slab, .payload_size = 80000};
    lightq_status status;
    while ((status = outlet->send(outlet, peer, &packet)) == LIGHTQ_OK) {
        turn(f);
    }
    assert_int_equal(status, LIGHTQ_EBUSY);
    assert_in_range(outlet->queued_to(outlet, peer), 1, 16 * 80100);

    f->echo = true;
    for (int i = 0; i < 20; i++) {
        say_frame(other, 0, "hello", 5);
        hear(f, other, heard, sizeof heard);
        assert_int_equal(outlet->send(outlet, peer, &packet), LIGHTQ_EBUSY);
    }

    (void)close(slow);
    UNTIL(f, f->gone == 1);
    assert_int_equal(lq_front_queued_bytes(f->front), 0);
    lq_slab_unref(slab);
    (void)close(other);
}

static void test_front_slow_readers_together_are_bounded(void **state)
{
    struct fixture *f = *state;
    uint8_t heard[7];
    int slow[3];
    f->options.queued_bytes_max = 500000;
    open_front(f);
    struct lq_outlet *outlet = lq_front_outlet(f->front);
    struct lq_slab *slab = lq_slab_new(80000);
    assert_non_null(slab);
    memset(slab->bytes, 'd', slab->size);
    struct lq_packet packet = {.frame = "d", .frame_size = 1, .payload = slab, .payload_size = 80000};
    for (unsigned i = 0; i < 3; i++) {
        slow[i] = client(f);
        say_frame(slow[i], 0, "hello", 5);
        UNTIL(f, f->received == i + 1);
        while (outlet->send(outlet, f->last_peer, &packet) == LIGHTQ_OK) {
            turn(f);
        }
        assert_in_range(lq_front_queued_bytes(f->front), 80000, 500000 + i * 80100);
    }

    int other = client(f);
    f->echo = true;
    for (int i = 0; i < 20; i++) {
        say_frame(other, 0, "hello", 5);
        hear(f, other, heard, sizeof heard);
    }

    for (int i = 0; i < 3; i++) {
        (void)close(slow[i]);
    }
    lq_slab_unref(slab);
    (void)close(other);
}

/* L7: who announces much and sends little holds no memory that others need. */
static void test_front_announced_frames_do_not_use_up_memory(void **state)
{
    struct fixture *f = *state;
    static uint8_t payload[HUGE_BYTES];
    int greedy[40];
    open_front(f); /* with room for ten of their frames */
    for (int i = 0; i < 40; i++) {
        greedy[i] = client(f);
        say_head(greedy[i], 0, FRAME_BYTES_MAX);
        turn(f);
    }
    turn(f);
    assert_int_equal(f->front->arriving_bytes, 0); /* of a frame nothing of which has come */
    for (int i = 0; i < 40; i++) {
        say(greedy[i], "part", 4);
    }
    uint64_t most = f->front->options.arriving_bytes_max;
    UNTIL(f, f->front->starved != NULL);
    assert_in_range(f->front->arriving_bytes, most - FRAME_BYTES_MAX, most + 40 * 4);

    int honest = client(f);
    do_not_wait(honest);
    say_frame(honest, LQ_ZMTP_MORE, "honest", 6);
    say_head(honest, 0, sizeof payload);
    for (size_t at = 0; at < sizeof payload;) {
        ssize_t size = send(honest, payload + at, sizeof payload - at, MSG_NOSIGNAL);
        at += size > 0 ? (size_t)size : 0;
        turn(f);
    }
    UNTIL(f, f->received == 1); /* after a second or a few */

    assert_string_equal(f->last_frame, "honest");
    assert_int_equal(f->last_payload_size, sizeof payload);
    assert_in_range(f->counters.connections_evicted, 1, 40);
    for (int i = 0; i < 40; i++) {
        (void)close(greedy[i]);
    }
    UNTIL(f, f->front->arriving_bytes == 0);
    assert_null(f->front->starved);
    (void)close(honest);
}

/* Honest ones that have to wait for memory lose nothing. */
static void test_front_waiting_for_memory_loses_nothing(void **state)
{
    struct fixture *f = *state;
    static uint8_t payload[HUGE_BYTES];
    int senders[30];
    size_t at[30] = {0};
    open_front(f);
    for (int i = 0; i < 30; i++) {
        senders[i] = client(f);
        do_not_wait(senders[i]);
        say_frame(senders[i], LQ_ZMTP_MORE, "honest", 6);
        say_head(senders[i], 0, sizeof payload);
    }
    bool starved = false;
    for (bool more = true; more;) { /* a bit of each in turn, so that all arrive together */
        more = false;
        for (int i = 0; i < 30; i++) {
            size_t left = sizeof payload - at[i], part = left < 9000 ? left : 9000;
            ssize_t size = send(senders[i], payload + at[i], part, MSG_NOSIGNAL);
            at[i] += size > 0 ? (size_t)size : 0;
            more |= at[i] < sizeof payload;
        }
        turn(f);
        starved |= f->front->starved != NULL;
    }

    UNTIL(f, f->received == 30);

    assert_true(starved);
    assert_int_equal(f->payloads, 30);
    assert_int_equal(f->counters.connections_evicted, 0);
    assert_int_equal(f->gone, 0);
    for (int i = 0; i < 30; i++) {
        (void)close(senders[i]);
    }
}

/* A connection, a message in two pieces, its echo. False: it was closed on the way. */
static bool converse(struct fixture *f)
{
    static uint8_t payload[HUGE_BYTES], heard[HUGE_BYTES + 1024];
    uint8_t ready[LQ_ZMTP_READY_BYTES];
    size_t expected = LQ_ZMTP_GREETING_BYTES + lq_zmtp_ready_write(ready, "ROUTER") + 2 + 3 + 9 + sizeof payload;
    size_t had = 0;
    ssize_t size = 0;
    int made = stranger(f);
    say_greeting(made);
    say(made, ready, lq_zmtp_ready_write(ready, "DEALER"));
    say_frame(made, LQ_ZMTP_MORE, "one", 3);
    say_head(made, 0, sizeof payload);
    say(made, payload, 1000);
    turn(f);
    turn(f);
    turn(f);
    (void)send(made, payload + 1000, sizeof payload - 1000, MSG_NOSIGNAL); /* fails when it was closed */
    UNTIL(f, had == expected || (size = recv(made, heard + had, sizeof heard - had, MSG_DONTWAIT)) == 0 ||
                 (size < 0 && errno != EAGAIN) || (had += size > 0 ? (size_t)size : 0) == expected);
    (void)close(made);
    UNTIL(f, f->front->conns == NULL);
    assert_int_equal(f->front->arriving_bytes, 0);
    assert_int_equal(lq_front_queued_bytes(f->front), 0);
    return had == expected;
}

static void test_front_without_memory_loses_connections_only(void **state)
{
    struct fixture *f = *state;
    open_front(f);
    f->echo = true;
    f->no_memory = true;
    bool failed = true;
    unsigned lost = 0;
    for (unsigned nth = 1; failed; nth++) {
        assert_true(nth < 100);
        lq_alloc_fail_at(nth);
        bool heard = converse(f);
        failed = lq_alloc_fail_end();

        assert_true(heard || failed);
        lost += !heard;
        assert_true(converse(f)); /* as if nothing had been */
    }

    assert_in_range(lost, 5, 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_front_noise_is_closed_at_once_and_counted),
        TEST(test_front_half_a_handshake_is_closed_in_time),
        TEST(test_front_forged_routing_id_is_told_and_closed),
        TEST(test_front_conversation_of_single_bytes_is_understood),
        TEST(test_front_frame_above_limit_is_closed_by_its_head),
        TEST(test_front_many_frames_are_malformed_once_and_not_kept),
        TEST(test_front_ping_is_answered_also_inside_a_message),
        TEST(test_front_silent_client_is_pinged_and_closed),
        TEST(test_front_client_that_only_answers_pings_is_closed),
        TEST(test_front_lost_connection_is_told_at_once),
        TEST(test_front_closed_when_written_hears_why),
        TEST(test_front_one_that_never_closes_is_closed),
        TEST(test_front_closed_now_is_gone),
        TEST(test_front_flood_leaves_room_for_others),
        TEST(test_front_slow_reader_is_bounded_and_harms_nobody),
        TEST(test_front_slow_readers_together_are_bounded),
        TEST(test_front_announced_frames_do_not_use_up_memory),
        TEST(test_front_waiting_for_memory_loses_nothing),
        TEST(test_front_without_memory_loses_connections_only),
    };
    return cmocka_run_group_tests_name("node front hostile", tests, NULL, NULL);
}
