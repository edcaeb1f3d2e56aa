/* tests/unit/node/test_http.c - node/gateway/http.c over real sockets on loopback. */
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
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/clock.h"
#include "node/gateway/http.h"

#define DEADLINE_US  (20u * 1000 * 1000)
#define ANSWER_BYTES 65536
#define HTTP_COUNT   300

struct fixture {
    uv_loop_t loop;
    uv_timer_t pace;
    struct lq_http *http;
    struct lq_counters counters;
    bool well;
    unsigned closed;
    char answer[ANSWER_BYTES];
};

static bool on_health(void *owner, struct lq_writer *out)
{
    struct fixture *f = owner;
    lq_write_bytes(out, f->well ? "ok\n" : "sick\n", f->well ? 3 : 5);
    return f->well;
}

static void on_metrics(void *owner, struct lq_writer *out)
{
    (void)owner;
    lq_write_bytes(out, "lightq_x 1\n", 11);
}

static const struct lq_http_events events = {.health = on_health, .metrics = on_metrics};
static const struct lq_endpoint loopback = {.host = "127.0.0.1"};

static void on_pace(uv_timer_t *timer)
{
    (void)timer;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct lq_err err;
    assert_non_null(f);
    f->well = true;
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->pace), 0);
    assert_int_equal(uv_timer_start(&f->pace, on_pace, 1, 1), 0);
    assert_int_equal(lq_http_new(&f->loop, &loopback, &f->counters, &events, f, &f->http, &err), LIGHTQ_OK);
    *state = f;
    return 0;
}

static void on_closed(void *owner)
{
    struct fixture *f = owner;
    f->closed++;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lq_http_close(f->http, on_closed, f);
    assert_int_equal(f->closed, 0);
    uv_close((uv_handle_t *)&f->pace, NULL);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->closed, 1);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static int dial(struct fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(lq_http_port(f->http))};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
    assert_int_equal(connect(made, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(made, F_SETFL, O_NONBLOCK), 0);
    return made;
}

/* Turns the loop until the other side has closed; what it said is in f->answer. */
static void listen_to_end(struct fixture *f, int descriptor)
{
    uint64_t until_us = lq_clock_monotonic_us(lq_clock_system()) + DEADLINE_US;
    size_t size = 0;
    for (;;) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
        ssize_t got = recv(descriptor, f->answer + size, ANSWER_BYTES - 1 - size, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET)) {
            break;
        }
        size += got > 0 ? (size_t)got : 0;
        assert_true(lq_clock_monotonic_us(lq_clock_system()) < until_us);
    }
    f->answer[size] = '\0';
    (void)close(descriptor);
}

static void ask(struct fixture *f, const char *text)
{
    int descriptor = dial(f);
    assert_int_equal(send(descriptor, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    listen_to_end(f, descriptor);
}

static void get(struct fixture *f, const char *method, const char *path)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
    ask(f, text);
}

static void test_http_health_says_200_or_503_with_reasons(void **state)
{
    struct fixture *f = *state;

    get(f, "GET", "/health");
    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 200"), f->answer);
    assert_non_null(strstr(f->answer, "\r\n\r\nok\n"));
    f->well = false;
    get(f, "GET", "/health");

    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 503"), f->answer);
    assert_non_null(strstr(f->answer, "\r\n\r\nsick\n"));
    assert_int_equal(f->counters.http_requests, 2);
}

static void test_http_metrics_are_prometheus_text(void **state)
{
    struct fixture *f = *state;

    get(f, "GET", "/metrics");

    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 200"), f->answer);
    assert_non_null(strstr(f->answer, "version=0.0.4"));
    assert_non_null(strstr(f->answer, "lightq_x 1\n"));
}

static void test_http_other_paths_and_methods_are_refused(void **state)
{
    struct fixture *f = *state;

    get(f, "GET", "/nothing");
    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 404"), f->answer);
    get(f, "DELETE", "/health");
    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 405"), f->answer);
    ask(f, "POST /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 405"), f->answer);
}

static void test_http_head_has_no_body(void **state)
{
    struct fixture *f = *state;

    get(f, "HEAD", "/health");

    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 200"), f->answer);
    assert_null(strstr(f->answer, "ok\n"));
}

static void test_http_garbage_is_closed_and_counted(void **state)
{
    struct fixture *f = *state;
    char noise[40000];
    memset(noise, 'x', sizeof noise - 1);
    noise[sizeof noise - 1] = '\0';

    ask(f, "\x01\x02\x03 what is this\r\n\r\n");
    assert_null(strstr(f->answer, " 200 "));
    ask(f, noise); /* a request line that never ends */
    assert_null(strstr(f->answer, " 200 "));

    assert_true(f->counters.http_bad >= 1);
    get(f, "GET", "/health");
    assert_ptr_equal(strstr(f->answer, "HTTP/1.1 200"), f->answer);
}

static void test_http_connections_beyond_the_limit_do_not_stop_it(void **state)
{
    struct fixture *f = *state;
    int silent[HTTP_COUNT];
    for (int i = 0; i < HTTP_COUNT; i++) {
        silent[i] = dial(f);
        (void)uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    for (int i = 0; i < HTTP_COUNT; i++) {
        (void)close(silent[i]);
    }

    uint64_t until_us = lq_clock_monotonic_us(lq_clock_system()) + DEADLINE_US;
    do {
        get(f, "GET", "/health");
        assert_true(lq_clock_monotonic_us(lq_clock_system()) < until_us);
    } while (strstr(f->answer, "HTTP/1.1 200") != f->answer);
}

static void test_http_port_in_use_is_named(void **state)
{
    struct fixture *f = *state;
    struct lq_endpoint taken = loopback;
    struct lq_http *second = NULL;
    struct lq_err err;
    char port[16];
    taken.port = lq_http_port(f->http);
    (void)snprintf(port, sizeof port, "%u", (unsigned)taken.port);

    assert_int_equal(lq_http_new(&f->loop, &taken, &f->counters, &events, f, &second, &err), LIGHTQ_EADDRINUSE);

    assert_non_null(strstr(err.text, port));
    assert_non_null(strstr(err.text, "--http"));
    (void)snprintf(taken.host, sizeof taken.host, "no-number");
    assert_int_equal(lq_http_new(&f->loop, &taken, &f->counters, &events, f, &second, &err), LIGHTQ_EINVAL);
    assert_null(second);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_http_health_says_200_or_503_with_reasons),
        TEST(test_http_metrics_are_prometheus_text),
        TEST(test_http_other_paths_and_methods_are_refused),
        TEST(test_http_head_has_no_body),
        TEST(test_http_garbage_is_closed_and_counted),
        TEST(test_http_connections_beyond_the_limit_do_not_stop_it),
        TEST(test_http_port_in_use_is_named),
    };
    return cmocka_run_group_tests_name("node http", tests, NULL, NULL);
}
