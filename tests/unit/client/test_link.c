/* tests/unit/client/test_link.c - the client's ZMTP connection against a server made of plain sockets in the same
 * thread: every byte of the handshake alone, everything a server can get wrong, full kernel buffers, losses. That it
 * talks to real ZeroMQ sockets is seen in the tests of the client, whose pretended servers are such. */
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
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/clock.h"
#include "client/lib/link.h"

#define FRAME_BYTES_MAX (256 * 1024)
#define WAIT_MS         10000
#define READY_BYTES     43 /* of ours */
#define GREETED_BYTES   (LQ_ZMTP_GREETING_BYTES + READY_BYTES)

struct fixture {
    int listener, server;
    char address[64];
    struct lq_link link;
    struct lq_link_message message;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    f->server = -1;
    f->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(f->listener, 4), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&at, &size), 0);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%u", ntohs(at.sin_port));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    lq_link_close(&f->link, 0);
    close(f->listener);
    if (f->server >= 0) {
        close(f->server);
    }
    free(f);
    return 0;
}

/* Sleeps until the link has something to do, as the I/O thread does. */
static void wait_for_link(const struct lq_link *link)
{
    struct pollfd polled = {.fd = link->fd, .events = lq_link_events(link)};
    assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
}

/* What lq_link_receive says when it has something to say. */
static enum lq_link_news news_of(struct fixture *f)
{
    enum lq_link_news news;
    while ((news = lq_link_receive(&f->link, &f->message)) == LQ_LINK_NOTHING) {
        wait_for_link(&f->link);
    }
    return news;
}

static void server_sends(struct fixture *f, const void *bytes, size_t size)
{
    assert_int_equal(send(f->server, bytes, size, MSG_NOSIGNAL), size);
}

/* Takes exactly @size bytes at the server; the link goes on meanwhile. */
static void server_takes(struct fixture *f, uint8_t *bytes, size_t size)
{
    for (size_t taken = 0; taken < size;) {
        ssize_t got = recv(f->server, bytes + taken, size - taken, MSG_DONTWAIT);
        if (got > 0) {
            taken += (size_t)got;
            continue;
        }
        (void)lq_link_receive(&f->link, &f->message);
        (void)lq_link_flush(&f->link);
        struct pollfd polled[2] = {{.fd = f->server, .events = POLLIN},
                                   {.fd = f->link.fd, .events = lq_link_events(&f->link)}};
        assert_true(poll(polled, 2, WAIT_MS) > 0);
    }
}

static void connect_link(struct fixture *f)
{
    lq_link_open(&f->link, f->address, FRAME_BYTES_MAX);
    f->server = accept(f->listener, NULL, NULL);
    assert_true(f->server >= 0);
}

static size_t greet_as(uint8_t bytes[LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES], const char *type)
{
    lq_zmtp_greeting_write(bytes);
    return LQ_ZMTP_GREETING_BYTES + lq_zmtp_ready_write(bytes + LQ_ZMTP_GREETING_BYTES, type);
}

/* A link that is UP, and its handshake taken by the server. */
static void bring_up(struct fixture *f)
{
    uint8_t bytes[LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES], taken[GREETED_BYTES];
    connect_link(f);
    server_sends(f, bytes, greet_as(bytes, "ROUTER"));
    server_takes(f, taken, sizeof taken);
    while (f->link.state != LQ_LINK_UP) {
        assert_int_equal(lq_link_receive(&f->link, &f->message), LQ_LINK_NOTHING);
    }
}

static void expect_lost(struct fixture *f, lightq_status status, const char *why)
{
    assert_int_equal(news_of(f), LQ_LINK_IS_LOST);
    assert_int_equal(f->link.why.status, status);
    if (strstr(f->link.why.text, why) == NULL || strstr(f->link.why.text, f->address) == NULL) {
        fail_msg("'%s' does not name '%s' and %s", f->link.why.text, why, f->address);
    }
}

/* ---- the handshake */

static void test_link_greeting_byte_by_byte_comes_up(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES], taken[GREETED_BYTES];
    connect_link(f);
    size_t size = greet_as(bytes, "ROUTER");
    for (size_t i = 0; i < size; i++) {
        assert_int_not_equal(f->link.state, LQ_LINK_UP);
        server_sends(f, bytes + i, 1);
        do {
            wait_for_link(&f->link);
            assert_int_equal(lq_link_receive(&f->link, &f->message), LQ_LINK_NOTHING);
        } while (f->link.state == LQ_LINK_CONNECTING);
        (void)lq_link_receive(&f->link, &f->message);
    }
    while (f->link.state != LQ_LINK_UP) {
        wait_for_link(&f->link);
        assert_int_equal(lq_link_receive(&f->link, &f->message), LQ_LINK_NOTHING);
    }
    server_takes(f, taken, sizeof taken);
    assert_int_equal(lq_zmtp_greeting_check(taken, sizeof taken, NULL), LIGHTQ_OK);
    assert_memory_equal(taken + LQ_ZMTP_GREETING_BYTES + 2, "\5READY", 6);
}

static void test_link_message_sent_before_ready_goes_after_the_handshake(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES], taken[GREETED_BYTES + 7];
    connect_link(f);
    assert_int_equal(lq_link_send(&f->link, "hello", 5, NULL), LIGHTQ_OK);
    server_takes(f, taken, LQ_ZMTP_GREETING_BYTES); /* and no more comes before we greet */
    server_sends(f, bytes, greet_as(bytes, "ROUTER"));
    server_takes(f, taken, READY_BYTES);
    assert_memory_equal(taken + 2, "\5READY", 6);
    server_takes(f, taken, 7);
    assert_memory_equal(taken, "\0\5hello", 7);
}

static void expect_refused(void **state, const void *bytes, size_t size, const char *why)
{
    struct fixture *f = *state;
    connect_link(f);
    server_sends(f, bytes, size);
    expect_lost(f, LIGHTQ_EPROTO, why);
    assert_non_null(strstr(f->link.why.text, "not a LightQ server"));
}

static void test_link_server_that_speaks_http_is_named(void **state)
{
    expect_refused(state, "HTTP/1.1 400 Bad Request\r\n", 26, "does not speak ZMTP");
}

static void test_link_server_of_another_socket_type_is_refused(void **state)
{
    uint8_t bytes[LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES];
    size_t size = greet_as(bytes, "PUB");
    expect_refused(state, bytes, size, "another type than ROUTER");
}

static void test_link_server_that_sends_error_instead_of_ready_is_refused(void **state)
{
    uint8_t bytes[LQ_ZMTP_GREETING_BYTES + 16];
    lq_zmtp_greeting_write(bytes);
    memcpy(bytes + LQ_ZMTP_GREETING_BYTES, "\4\x0a\5ERROR\3no!", 12);
    expect_refused(state, bytes, LQ_ZMTP_GREETING_BYTES + 12, "it refuses us");
}

static void test_link_message_before_ready_is_refused(void **state)
{
    uint8_t bytes[LQ_ZMTP_GREETING_BYTES + 3];
    lq_zmtp_greeting_write(bytes);
    memcpy(bytes + LQ_ZMTP_GREETING_BYTES, "\0\1x", 3);
    expect_refused(state, bytes, sizeof bytes, "READY comes first");
}

/* ---- connecting */

static void test_link_nobody_listens_says_why(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    f->listener = -1;
    lq_link_open(&f->link, f->address, FRAME_BYTES_MAX);
    expect_lost(f, LIGHTQ_ECONNECT, "Connection refused");
}

static void test_link_name_that_does_not_exist_says_why(void **state)
{
    struct fixture *f = *state;
    snprintf(f->address, sizeof f->address, "%s", "no.such.name.invalid:1");
    lq_link_open(&f->link, f->address, FRAME_BYTES_MAX);
    expect_lost(f, LIGHTQ_ECONNECT, "cannot connect to");
    lq_link_close(&f->link, 0);
    snprintf(f->address, sizeof f->address, "%s", "nothing");
    lq_link_open(&f->link, f->address, FRAME_BYTES_MAX);
    expect_lost(f, LIGHTQ_ECONNECT, "not host:port");
}

static void test_link_name_with_several_addresses_finds_the_one_that_answers(void **state)
{
    struct fixture *f = *state;
    char name[64];
    snprintf(name, sizeof name, "localhost:%s", strchr(f->address, ':') + 1); /* ::1 may be first, where nobody is */
    lq_link_open(&f->link, name, FRAME_BYTES_MAX);
    while (f->link.state == LQ_LINK_CONNECTING) {
        wait_for_link(&f->link);
        assert_int_equal(lq_link_receive(&f->link, &f->message), LQ_LINK_NOTHING);
    }
    assert_int_equal(f->link.state, LQ_LINK_GREETING);
    lq_link_close(&f->link, 0); /* the name is borrowed until here */
}

/* ---- messages */

static void test_link_message_of_two_frames_in_pieces_is_put_together(void **state)
{
    struct fixture *f = *state;
    static const uint8_t bytes[] = "\1\4head\0\7payload";
    bring_up(f);
    for (size_t i = 0; i + 1 < sizeof bytes; i++) {
        server_sends(f, bytes + i, 1);
        if (i + 2 < sizeof bytes) {
            wait_for_link(&f->link);
            assert_int_equal(lq_link_receive(&f->link, &f->message), LQ_LINK_NOTHING);
            (void)lq_link_receive(&f->link, &f->message);
        }
    }
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    assert_int_equal(f->message.frame_size, 4);
    assert_memory_equal(f->message.frame, "head", 4);
    assert_int_equal(f->message.payload->size, 7);
    assert_memory_equal(f->message.payload->bytes, "payload", 7);
    assert_false(f->message.too_many);
    lq_slab_unref(f->message.payload);
}

static void test_link_many_messages_in_one_read_come_one_by_one(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    for (int i = 0; i < 500; i++) {
        uint8_t bytes[3] = {0, 1, (uint8_t)i};
        server_sends(f, bytes, sizeof bytes);
    }
    for (int i = 0; i < 500; i++) {
        assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
        assert_int_equal(f->message.frame_size, 1);
        assert_int_equal(f->message.frame[0], (uint8_t)i);
        assert_null(f->message.payload);
    }
}

static void test_link_empty_frames_are_a_message(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    server_sends(f, "\1\0\0\0", 4);
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    assert_int_equal(f->message.frame_size, 0);
    assert_int_equal(f->message.payload->size, 0);
    lq_slab_unref(f->message.payload);
}

static void test_link_message_of_three_frames_is_told_and_the_next_one_is_sound(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    server_sends(f, "\1\1a\1\1b\1\1c\0\1d\0\1e", 15);
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    assert_true(f->message.too_many);
    lq_slab_unref(f->message.payload);
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    assert_false(f->message.too_many);
    assert_memory_equal(f->message.frame, "e", 1);
    assert_null(f->message.payload);
}

/* As large as is allowed, both ways, through kernel buffers that are smaller. */
static void test_link_largest_frames_pass_both_ways(void **state)
{
    struct fixture *f = *state;
    uint8_t head[LQ_ZMTP_HEAD_BYTES_MAX];
    struct lq_slab *payload = lq_slab_new(FRAME_BYTES_MAX);
    uint8_t *taken = malloc(FRAME_BYTES_MAX + 1024);
    bring_up(f);
    for (size_t i = 0; i < payload->size; i++) {
        payload->bytes[i] = (uint8_t)(i * 7);
    }
    for (int i = 0; i < 20; i++) { /* more than the kernel holds */
        assert_int_equal(lq_link_send(&f->link, "head", 4, payload), LIGHTQ_OK);
    }
    assert_false(lq_link_flush(&f->link));
    assert_true(f->link.blocked);
    assert_int_equal(lq_link_events(&f->link), POLLIN | POLLOUT);
    for (int i = 0; i < 20; i++) {
        server_takes(f, taken, 6 + sizeof head + payload->size);
        assert_memory_equal(taken, "\1\4head", 6);
        assert_int_equal(lq_zmtp_head_write(head, 0, payload->size), sizeof head);
        assert_memory_equal(taken + 6, head, sizeof head);
        assert_memory_equal(taken + 6 + sizeof head, payload->bytes, payload->size);
    }
    assert_int_equal(payload->references, 1);
    server_sends(f, "\1\4head", 6);
    server_sends(f, head, sizeof head);
    for (size_t sent = 0; sent < payload->size;) {
        ssize_t some = send(f->server, payload->bytes + sent, payload->size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += some > 0 ? (size_t)some : 0;
        if (sent < payload->size) {
            assert_int_equal(lq_link_receive(&f->link, &f->message), LQ_LINK_NOTHING);
        }
    }
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    assert_int_equal(f->message.payload->size, payload->size);
    assert_memory_equal(f->message.payload->bytes, payload->bytes, payload->size);
    lq_slab_unref(f->message.payload);
    lq_slab_unref(payload);
    free(taken);
}

static void test_link_frame_above_the_limit_ends_it_before_memory_is_taken(void **state)
{
    struct fixture *f = *state;
    uint8_t head[LQ_ZMTP_HEAD_BYTES_MAX];
    bring_up(f);
    server_sends(f, head, lq_zmtp_head_write(head, 0, UINT64_MAX));
    expect_lost(f, LIGHTQ_EPROTO, "a frame of 18446744073709551615 bytes");
}

static void test_link_flags_that_do_not_exist_end_it(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    server_sends(f, "\x08\0", 2);
    expect_lost(f, LIGHTQ_EPROTO, "flags 0x08");
}

static void test_link_ping_is_answered_and_a_flood_of_them_queues_one_pong(void **state)
{
    struct fixture *f = *state;
    uint8_t taken[LQ_ZMTP_PONG_BYTES];
    bring_up(f);
    server_sends(f, "\4\x0b\4PING\0\1ctxt", 13);
    server_takes(f, taken, 11);
    assert_memory_equal(taken, "\4\x09\4PONGctxt", 11);
    for (int i = 0; i < 100; i++) {
        server_sends(f, "\4\7\4PING\0\1", 9);
    }
    server_sends(f, "\0\1m", 3);
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    size_t queued = 0;
    for (const void *const *out = (const void *const *)&f->link.out; *out != NULL; out = *out) {
        queued++; /* next is the first member */
    }
    assert_int_equal(queued, 1);
}

static void test_link_unknown_command_is_passed_over(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    server_sends(f, "\4\6\5HELLO\0\1m", 11);
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    assert_memory_equal(f->message.frame, "m", 1);
}

/* ---- losses */

static void test_link_answer_before_the_loss_is_given_first(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    server_sends(f, "\0\1m", 3);
    close(f->server);
    f->server = -1;
    assert_int_equal(news_of(f), LQ_LINK_MESSAGE);
    expect_lost(f, LIGHTQ_ECONNECT, "lost the connection to");
}

static void test_link_loss_in_the_middle_of_a_frame_lets_go_of_it(void **state)
{
    struct fixture *f = *state;
    bring_up(f);
    server_sends(f, "\1\1a\0\5hal", 8);
    close(f->server);
    f->server = -1;
    expect_lost(f, LIGHTQ_ECONNECT, "lost the connection to"); /* the sanitizer sees to the half payload */
}

static void test_link_reset_is_told_with_its_reason(void **state)
{
    struct fixture *f = *state;
    struct linger hard = {.l_onoff = 1};
    bring_up(f);
    setsockopt(f->server, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(f->server);
    f->server = -1;
    expect_lost(f, LIGHTQ_ECONNECT, "reset");
}

static void test_link_close_gives_what_was_sent_last_its_time(void **state)
{
    struct fixture *f = *state;
    uint8_t taken[7];
    bring_up(f);
    assert_int_equal(lq_link_send(&f->link, "adieu", 5, NULL), LIGHTQ_OK);
    lq_link_close(&f->link, lq_clock_monotonic_us(lq_clock_system()) + 1000000);
    assert_int_equal(recv(f->server, taken, sizeof taken, MSG_WAITALL), sizeof taken);
    assert_memory_equal(taken, "\0\5adieu", 7);
    assert_int_equal(recv(f->server, taken, 1, 0), 0);
}

static void test_link_close_does_not_wait_for_a_server_that_takes_nothing(void **state)
{
    struct fixture *f = *state;
    struct lq_slab *payload = lq_slab_new(FRAME_BYTES_MAX);
    memset(payload->bytes, 0, payload->size);
    bring_up(f);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(lq_link_send(&f->link, "x", 1, payload), LIGHTQ_OK);
    }
    uint64_t begin_us = lq_clock_monotonic_us(lq_clock_system());
    lq_link_close(&f->link, begin_us + 20000);
    uint64_t took_us = lq_clock_monotonic_us(lq_clock_system()) - begin_us;
    assert_true(took_us >= 20000 && took_us < WAIT_MS * 1000);
    assert_int_equal(payload->references, 1);
    lq_slab_unref(payload);
}

/* Whatever a server says after its READY, the link ends or gives messages; it never stands still with bytes unread. */
static void test_link_random_bytes_end_it_or_are_messages(void **state)
{
    struct fixture *f = *state;
    uint32_t random = 12345;
    for (int round = 0; round < 300; round++) {
        uint8_t bytes[600];
        bring_up(f);
        for (size_t i = 0; i < sizeof bytes; i++) {
            random = random * 1664525 + 1013904223;
            bytes[i] = (uint8_t)(random >> 24) & (random & 1 ? 7 : 255);
        }
        server_sends(f, bytes, sizeof bytes);
        close(f->server);
        f->server = -1;
        enum lq_link_news news;
        while ((news = news_of(f)) == LQ_LINK_MESSAGE) {
            assert_true(f->message.frame_size <= FRAME_BYTES_MAX);
            lq_slab_unref(f->message.payload);
        }
        assert_int_equal(news, LQ_LINK_IS_LOST);
        lq_link_close(&f->link, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_link_greeting_byte_by_byte_comes_up),
        TEST(test_link_message_sent_before_ready_goes_after_the_handshake),
        TEST(test_link_server_that_speaks_http_is_named),
        TEST(test_link_server_of_another_socket_type_is_refused),
        TEST(test_link_server_that_sends_error_instead_of_ready_is_refused),
        TEST(test_link_message_before_ready_is_refused),
        TEST(test_link_nobody_listens_says_why),
        TEST(test_link_name_that_does_not_exist_says_why),
        TEST(test_link_name_with_several_addresses_finds_the_one_that_answers),
        TEST(test_link_message_of_two_frames_in_pieces_is_put_together),
        TEST(test_link_many_messages_in_one_read_come_one_by_one),
        TEST(test_link_empty_frames_are_a_message),
        TEST(test_link_message_of_three_frames_is_told_and_the_next_one_is_sound),
        TEST(test_link_largest_frames_pass_both_ways),
        TEST(test_link_frame_above_the_limit_ends_it_before_memory_is_taken),
        TEST(test_link_flags_that_do_not_exist_end_it),
        TEST(test_link_ping_is_answered_and_a_flood_of_them_queues_one_pong),
        TEST(test_link_unknown_command_is_passed_over),
        TEST(test_link_answer_before_the_loss_is_given_first),
        TEST(test_link_loss_in_the_middle_of_a_frame_lets_go_of_it),
        TEST(test_link_reset_is_told_with_its_reason),
        TEST(test_link_close_gives_what_was_sent_last_its_time),
        TEST(test_link_close_does_not_wait_for_a_server_that_takes_nothing),
        TEST(test_link_random_bytes_end_it_or_are_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
