/* tests/unit/client/test_cli_tools.c - what the lightq command is made of: histogram, lines, payloads, pace, input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/histogram.h"
#include "client/cli/input.h"
#include "client/cli/lines.h"
#include "client/cli/pace.h"
#include "client/cli/payload.h"

static void test_histogram_percentiles_are_right_to_one_percent(void **state)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);
    (void)state;
    for (uint64_t value = 1; value <= 100000; value++) {
        histogram_add(histogram, value);
    }

    assert_in_range(histogram_per_mille(histogram, 500), 50000, 50500);
    assert_in_range(histogram_per_mille(histogram, 990), 99000, 99990);
    assert_in_range(histogram_per_mille(histogram, 999), 99900, 100000);
    assert_int_equal(histogram_per_mille(histogram, 1000), 100000);
    assert_int_equal(histogram->most, 100000);
    free(histogram);
}

static void test_histogram_takes_every_value(void **state)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);
    (void)state;
    assert_int_equal(histogram_per_mille(histogram, 500), 0);

    histogram_add(histogram, 0);
    assert_int_equal(histogram_per_mille(histogram, 999), 0);
    for (unsigned shift = 0; shift < 64; shift++) {
        histogram_add(histogram, UINT64_C(1) << shift);
    }
    histogram_add(histogram, UINT64_MAX);

    assert_int_equal(histogram->count, 66);
    assert_true(histogram_per_mille(histogram, 1000) == UINT64_MAX);
    free(histogram);
}

/* What @lines wrote to the file @path. Free it. */
static char *written(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *content = malloc(4 * LINES_BUFFER_BYTES);
    assert_non_null(file);
    assert_non_null(content);
    *size = fread(content, 1, 4 * LINES_BUFFER_BYTES - 1, file);
    content[*size] = '\0';
    fclose(file);
    return content;
}

static void test_lines_numbers_and_long_texts_come_out_whole(void **state)
{
    char path[] = "/tmp/lightq-lines-XXXXXX";
    struct lines *lines = malloc(sizeof *lines);
    char *big = malloc(LINES_BUFFER_BYTES + 1);
    size_t size;
    (void)state;
    close(mkstemp(path));
    memset(big, 'b', LINES_BUFFER_BYTES + 1);
    assert_true(lines_open(lines, path));

    lines_number(lines, 0);
    lines_char(lines, ' ');
    lines_number(lines, UINT64_MAX);
    lines_char(lines, ' ');
    lines_signed(lines, INT64_MIN);
    lines_char(lines, ' ');
    lines_hex(lines, 0);
    lines_char(lines, ' ');
    lines_hex(lines, UINT32_C(0xdeadbeef));
    lines_text(lines, " text\n");
    lines_bytes(lines, big, LINES_BUFFER_BYTES + 1);
    lines_bytes(lines, big, LINES_BUFFER_BYTES - 3);
    lines_bytes(lines, "end", 3);
    assert_true(lines_close(lines));

    char *content = written(path, &size);
    static const char first[] = "0 18446744073709551615 -9223372036854775808 0 deadbeef text\n";
    assert_memory_equal(content, first, sizeof first - 1);
    assert_int_equal(size, sizeof first - 1 + 2 * LINES_BUFFER_BYTES + 1);
    assert_memory_equal(content + size - 3, "end", 3);
    free(content);
    free(big);
    free(lines);
    unlink(path);
}

static void test_lines_without_file_write_nothing_and_full_disk_is_told(void **state)
{
    struct lines *lines = malloc(sizeof *lines);
    (void)state;
    assert_true(lines_open(lines, NULL));
    lines_text(lines, "nothing");
    assert_true(lines_close(lines));
    assert_false(lines_open(lines, "/nowhere/at/all"));

    assert_true(lines_open(lines, "/dev/full"));
    lines_text(lines, "something");

    assert_false(lines_close(lines));
    free(lines);
}

static void test_payload_is_unique_and_padded(void **state)
{
    struct payload payload;
    (void)state;
    assert_true(payload_init(&payload, 12345, 12));

    payload_make(&payload, 7);
    assert_memory_equal(payload.bytes, "12345-7.....", 12);
    payload_make(&payload, 123456);
    assert_memory_equal(payload.bytes, "12345-123456", 12);
    payload_make(&payload, 12345678);
    assert_memory_equal(payload.bytes, "345-12345678", 12); /* too long: the end is what differs */
    payload_make(&payload, 1);
    assert_memory_equal(payload.bytes, "12345-1.....", 12);
    payload_deinit(&payload);

    assert_true(payload_init(&payload, 1, 0));
    payload_make(&payload, 99); /* an empty message */
    payload_deinit(&payload);
}

static void test_pace_messages_are_due_at_even_times(void **state)
{
    struct pace pace = {.start_us = 1000, .rate = 3};
    (void)state;

    assert_int_equal(pace_due_us(&pace, 0), 1000);
    assert_int_equal(pace_due_us(&pace, 1), 1000 + 333333);
    assert_int_equal(pace_due_us(&pace, 3), 1000 + 1000000);
    assert_int_equal(pace_due_us(&pace, 3000000003), 1000 + UINT64_C(1000000001000000));
    pace.rate = 0;
    assert_int_equal(pace_due_us(&pace, 5), 1000);
}

static void expect_line(struct input *input, const char *wanted)
{
    const char *line;
    size_t size;
    assert_int_equal(input_line(input, &line, &size, 1000), INPUT_LINE);
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(line, wanted, size);
}

static void test_input_lines_come_apart_at_newlines(void **state)
{
    int ends[2];
    struct input input;
    const char *line;
    size_t size;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    input_init(&input, ends[0], 100);
    assert_int_equal(input_line(&input, &line, &size, 0), INPUT_NOTHING);

    assert_int_equal(write(ends[1], "one\n\ntw", 7), 7);
    expect_line(&input, "one");
    expect_line(&input, "");
    assert_int_equal(input_line(&input, &line, &size, 0), INPUT_NOTHING);
    assert_int_equal(write(ends[1], "o\nlast", 6), 6);
    close(ends[1]);
    expect_line(&input, "two");
    expect_line(&input, "last");

    assert_int_equal(input_line(&input, &line, &size, 1000), INPUT_END);
    input_deinit(&input);
    close(ends[0]);
}

static void test_input_line_over_bound_is_refused(void **state)
{
    int ends[2];
    struct input input;
    const char *line;
    char text[200];
    size_t size;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    input_init(&input, ends[0], 100);
    memset(text, 'a', sizeof text);

    assert_int_equal(write(ends[1], text, sizeof text), sizeof text);
    assert_int_equal(input_line(&input, &line, &size, 1000), INPUT_TOO_LONG);

    input_deinit(&input);
    close(ends[0]);
    close(ends[1]);
    input_init(&input, -1, 100);
    input.fd = ends[0]; /* closed: reading fails */
    assert_int_equal(input_line(&input, &line, &size, 1000), INPUT_FAILED);
    input_deinit(&input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histogram_percentiles_are_right_to_one_percent),
        cmocka_unit_test(test_histogram_takes_every_value),
        cmocka_unit_test(test_lines_numbers_and_long_texts_come_out_whole),
        cmocka_unit_test(test_lines_without_file_write_nothing_and_full_disk_is_told),
        cmocka_unit_test(test_payload_is_unique_and_padded),
        cmocka_unit_test(test_pace_messages_are_due_at_even_times),
        cmocka_unit_test(test_input_lines_come_apart_at_newlines),
        cmocka_unit_test(test_input_line_over_bound_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
