/* tests/unit/base/test_log.c - the form of log lines, read back from a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/base/limits.h"
#include "client/base/log.h"

#define THREADS          4
#define LINES_PER_THREAD 50

struct fixture {
    int read_end;
    int write_end;
    char text[THREADS * LINES_PER_THREAD * 256];
};

static int set_up(void **state)
{
    int ends[2];
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -1;
    }
    if (pipe2(ends, O_NONBLOCK) != 0) {
        free(f);
        return -1;
    }
    f->read_end = ends[0];
    f->write_end = ends[1];
    lq_log_configure(LQ_LOG_INFO, f->write_end);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    lq_log_configure(LQ_LOG_INFO, STDERR_FILENO);
    int failed = close(f->read_end) | close(f->write_end);
    free(f);
    return failed;
}

/* What was logged since the last time. */
static const char *logged(struct fixture *f)
{
    size_t size = 0;
    ssize_t got;
    while ((got = read(f->read_end, f->text + size, sizeof f->text - 1 - size)) > 0) {
        size += (size_t)got;
    }
    f->text[size] = '\0';
    return f->text;
}

static void test_log_line_carries_head_message_and_pairs(void **state)
{
    struct fixture *f = *state;

    lq_log(INFO, "segment sealed", "partition", 7, "offset", UINT64_MAX, "ratio", 0.5, "open", true, "name", "a.b");
    int line = __LINE__ - 1;

    const char *text = logged(f);
    int year, month, day, hour, minute, second, micro, read = 0;
    assert_int_equal(
        sscanf(text, "ts=%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &year, &month, &day, &hour, &minute, &second, &micro, &read),
        7);
    assert_true(year >= 2024);
    char expected[512];
    (void)snprintf(expected, sizeof expected,
                   " level=info module=test_log at=tests/unit/base/test_log.c:%d thread=%d msg=\"segment sealed\""
                   " partition=7 offset=18446744073709551615 ratio=0.5 open=1 name=a.b\n",
                   line, (int)gettid());
    assert_string_equal(text + read, expected);
}

static void test_log_negative_and_null_values(void **state)
{
    struct fixture *f = *state;
    const char *nothing = NULL;

    lq_log(WARN, "m", "a", -5, "b", nothing, "c", "", "d", "null", "e", (unsigned char)200, "f", (short)-1);

    assert_non_null(strstr(logged(f), " level=warn "));
    assert_non_null(strstr(f->text, "msg=\"m\" a=-5 b=null c=\"\" d=\"null\" e=200 f=-1\n"));
}

static void test_log_without_pairs(void **state)
{
    struct fixture *f = *state;

    lq_log(ERROR, "stopped");

    assert_non_null(strstr(logged(f), " level=error "));
    assert_non_null(strstr(f->text, " msg=\"stopped\"\n"));
}

static void test_log_eight_pairs_are_written(void **state)
{
    struct fixture *f = *state;

    lq_log(INFO, "m", "a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", 6, "g", 7, "h", 8);

    assert_non_null(strstr(logged(f), " a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8\n"));
}

static void test_log_control_bytes_and_quotes_are_escaped(void **state)
{
    struct fixture *f = *state;

    lq_log(INFO, "m", "v", "a\nb\"c\\d\x1b[31m\xff e=f");

    assert_non_null(strstr(logged(f), " v=\"a\\nb\\\"c\\\\d\\x1b[31m\\xff e=f\"\n"));
    assert_ptr_equal(strchr(f->text, '\n'), f->text + strlen(f->text) - 1);
}

static void test_log_below_the_level_is_not_written(void **state)
{
    struct fixture *f = *state;

    lq_log(DEBUG, "not seen");
    assert_string_equal(logged(f), "");
    assert_false(lq_log_enabled(LQ_LOG_DEBUG));

    lq_log_configure(LQ_LOG_DEBUG, f->write_end);
    lq_log(DEBUG, "seen");
    assert_non_null(strstr(logged(f), " level=debug "));

    lq_log_configure(LQ_LOG_OFF, f->write_end);
    lq_log(ERROR, "not seen");
    assert_string_equal(logged(f), "");
}

static void test_log_too_long_is_cut_to_one_line(void **state)
{
    struct fixture *f = *state;
    static char value[2 * LQ_LOG_LINE_BYTES_MAX];
    memset(value, 'x', sizeof value - 1);

    lq_log(INFO, "m", "v", value);

    assert_int_equal(strlen(logged(f)), LQ_LOG_LINE_BYTES_MAX);
    assert_non_null(strstr(f->text, "xx...\"cut\n"));
}

static void test_log_to_a_full_or_closed_descriptor_does_no_harm(void **state)
{
    struct fixture *f = *state;
    lq_log_configure(LQ_LOG_INFO, -1);
    errno = ENOENT;

    lq_log(INFO, "nobody hears this");

    assert_int_equal(errno, ENOENT); /* logging keeps errno */
    assert_string_equal(logged(f), "");
}

static void *on_thread(void *argument)
{
    (void)argument;
    for (int i = 0; i < LINES_PER_THREAD; i++) {
        lq_log(INFO, "from a thread", "count", i, "text", "some text that is a little longer");
    }
    return NULL;
}

static void test_log_lines_of_threads_do_not_mix(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, on_thread, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }

    (void)logged(f);

    int lines = 0;
    for (char *line = strtok(f->text, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
        const char *end = " text=\"some text that is a little longer\"";
        assert_int_equal(strncmp(line, "ts=", 3), 0);
        assert_string_equal(line + strlen(line) - strlen(end), end);
    }
    assert_int_equal(lines, THREADS * LINES_PER_THREAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_log_line_carries_head_message_and_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_negative_and_null_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_without_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_eight_pairs_are_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_control_bytes_and_quotes_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_below_the_level_is_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_too_long_is_cut_to_one_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_to_a_full_or_closed_descriptor_does_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_lines_of_threads_do_not_mix, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
