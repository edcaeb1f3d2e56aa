/* What the checkers stand on: the sort, names and pairs kept once, lines and words. */
#include <stdlib.h>
#include <string.h>

#include "check_fixture.h"

#include "chaos/check/lines.h"
#include "chaos/check/sort.h"

/* ---- sort */

static int compare_items(const void *a, const void *b)
{
    const struct lq_sort_item *x = a, *y = b;
    if (x->major != y->major) {
        return x->major < y->major ? -1 : 1;
    }
    if (x->minor != y->minor) {
        return x->minor < y->minor ? -1 : 1;
    }
    return x->value < y->value ? -1 : 1; /* stable */
}

static void test_sort_random_items_as_qsort(void **state)
{
    (void)state;
    enum { ITEMS = 3000 };
    struct lq_sort_item *items = calloc(ITEMS, sizeof *items), *wanted = calloc(ITEMS, sizeof *wanted);
    assert_non_null(items);
    assert_non_null(wanted);
    for (size_t count = 0; count <= ITEMS; count = count < 40 ? count + 1 : count * 5) {
        for (unsigned shape = 0; shape < 4; shape++) {
            for (uint32_t i = 0; i < count; i++) {
                uint64_t hash = lq_check_index_hash(i, count + shape);
                uint64_t masks[] = {UINT64_MAX, 0xff, 0x3, (uint64_t)0xff << 56};
                items[i] = (struct lq_sort_item){.minor = hash & masks[shape],
                                                 .major = (uint32_t)(hash >> 32) & (shape == 0 ? 7 : UINT32_MAX),
                                                 .value = i};
            }
            memcpy(wanted, items, count * sizeof *items);
            qsort(wanted, count, sizeof *wanted, compare_items);

            assert_int_equal(lq_sort(items, count), LIGHTQ_OK);

            assert_memory_equal(items, wanted, count * sizeof *items);
        }
    }
    free(items);
    free(wanted);
}

static void test_sort_lower_finds_the_first_not_below(void **state)
{
    (void)state;
    struct lq_sort_item items[] = {
        {.major = 1, .minor = 5}, {.major = 1, .minor = 5}, {.major = 1, .minor = 9}, {.major = 3, .minor = 0}};

    assert_int_equal(lq_sort_lower(items, 4, 0, 7), 0);
    assert_int_equal(lq_sort_lower(items, 4, 1, 5), 0);
    assert_int_equal(lq_sort_lower(items, 4, 1, 6), 2);
    assert_int_equal(lq_sort_lower(items, 4, 2, 0), 3);
    assert_int_equal(lq_sort_lower(items, 4, 3, 1), 4);
    assert_int_equal(lq_sort_lower(items, 0, 0, 0), 0);
}

/* ---- names */

static void test_names_same_word_has_one_place(void **state)
{
    (void)state;
    struct lq_check_names names = {.count = 0};
    char word[16];
    uint32_t place;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            snprintf(word, sizeof word, "w%u", i);
            assert_int_equal(lq_check_names_put(&names, lq_word_of(word), &place), LIGHTQ_OK);
            assert_int_equal(place, i);
            assert_string_equal(lq_check_names_at(&names, place), word);
        }
    }
    assert_int_equal(lq_check_names_find(&names, lq_word_of("w4999")), 4999);
    assert_int_equal(lq_check_names_find(&names, lq_word_of("w499")), 499);
    assert_int_equal(lq_check_names_find(&names, lq_word_of("w5000")), LQ_INDEX_NONE);
    lq_check_names_deinit(&names);
}

static void test_names_bad_words_are_refused(void **state)
{
    (void)state;
    struct lq_check_names names = {.count = 0};
    char longest[LQ_WORD_BYTES_MAX + 2];
    uint32_t place;
    memset(longest, 'x', sizeof longest);

    assert_int_equal(lq_check_names_put(&names, lq_word_of(""), &place), LIGHTQ_EINVAL);
    assert_int_equal(lq_check_names_put(&names, lq_word_of("a b"), &place), LIGHTQ_EINVAL);
    assert_int_equal(lq_check_names_put(&names, lq_word_of("a\x7f"), &place), LIGHTQ_EINVAL);
    assert_int_equal(lq_check_names_put(&names, lq_word_of("\xc3\xa9"), &place), LIGHTQ_EINVAL);
    assert_int_equal(lq_check_names_put(&names, (struct lq_word){"a\0b", 3}, &place), LIGHTQ_EINVAL);
    assert_int_equal(lq_check_names_put(&names, (struct lq_word){longest, LQ_WORD_BYTES_MAX + 1}, &place),
                     LIGHTQ_EINVAL);
    assert_int_equal(lq_check_names_put(&names, (struct lq_word){longest, LQ_WORD_BYTES_MAX}, &place), LIGHTQ_OK);
    assert_int_equal(names.count, 1);
    lq_check_names_deinit(&names);
}

static void test_pairs_are_ordered_and_kept_once(void **state)
{
    (void)state;
    struct lq_pairs pairs = {.count = 0};
    uint32_t first, second, again;

    assert_int_equal(lq_pairs_put(&pairs, 1, 2, &first), LIGHTQ_OK);
    assert_int_equal(lq_pairs_put(&pairs, 2, 1, &second), LIGHTQ_OK);
    assert_int_equal(lq_pairs_put(&pairs, 1, 2, &again), LIGHTQ_OK);

    assert_int_equal(first, again);
    assert_int_not_equal(first, second);
    assert_int_equal(lq_pairs_find(&pairs, 2, 1), second);
    assert_int_equal(lq_pairs_find(&pairs, 2, 2), LQ_INDEX_NONE);
    lq_pairs_deinit(&pairs);
}

static void test_index_is_bounded(void **state)
{
    (void)state;
    struct lq_check_index index = {.count = LQ_INDEX_ELEMENTS_MAX};
    uint32_t capacity = LQ_INDEX_ELEMENTS_MAX;
    void *array = NULL;

    assert_int_equal(lq_check_index_reserve(&index), LIGHTQ_ELIMIT);
    assert_int_equal(lq_array_reserve(&array, &capacity, LQ_INDEX_ELEMENTS_MAX, 1), LIGHTQ_ELIMIT);
}

/* ---- lines and words */

struct text {
    FILE *file;
    struct lq_lines lines;
    struct lq_err err;
};

static void open_text(struct text *text, const void *bytes, size_t size)
{
    text->file = fmemopen((void *)(uintptr_t)bytes, size, "r");
    assert_non_null(text->file);
    assert_int_equal(lq_lines_init(&text->lines, text->file, "text", &text->err), LIGHTQ_OK);
}

static void close_text(struct text *text)
{
    lq_lines_deinit(&text->lines);
    fclose(text->file);
}

static void test_lines_are_cut_at_line_feeds(void **state)
{
    (void)state;
    struct text text;
    struct lq_word line;
    open_text(&text, "one\n\nthree 3\n", 13);

    assert_int_equal(lq_lines_next(&text.lines, &line, &text.err), LIGHTQ_OK);
    assert_true(lq_word_is(line, "one"));
    assert_int_equal(lq_lines_next(&text.lines, &line, &text.err), LIGHTQ_OK);
    assert_int_equal(line.size, 0);
    assert_int_equal(lq_lines_next(&text.lines, &line, &text.err), LIGHTQ_OK);
    assert_true(lq_word_is(line, "three 3"));
    assert_int_equal(text.lines.number, 3);
    assert_int_equal(lq_lines_next(&text.lines, &line, &text.err), LIGHTQ_ENOTFOUND);
    close_text(&text);
}

static void test_lines_longer_than_the_buffer_come_whole(void **state)
{
    (void)state;
    enum { LINES = 700, WIDTH = 1500 }; /* a megabyte, several buffers */
    char *bytes = malloc(LINES * WIDTH);
    struct text text;
    struct lq_word line;
    assert_non_null(bytes);
    for (size_t i = 0; i < LINES; i++) {
        memset(bytes + i * WIDTH, 'a' + (int)(i % 26), WIDTH);
        bytes[(i + 1) * WIDTH - 1] = '\n';
    }
    open_text(&text, bytes, LINES * WIDTH);

    for (size_t i = 0; i < LINES; i++) {
        assert_int_equal(lq_lines_next(&text.lines, &line, &text.err), LIGHTQ_OK);
        assert_int_equal(line.size, WIDTH - 1);
        assert_int_equal(line.at[0], 'a' + (int)(i % 26));
        assert_int_equal(line.at[WIDTH - 2], 'a' + (int)(i % 26));
    }
    assert_int_equal(lq_lines_next(&text.lines, &line, &text.err), LIGHTQ_ENOTFOUND);
    close_text(&text);
    free(bytes);
}

static void assert_bad_line(const void *bytes, size_t size, const char *wanted)
{
    struct text text;
    struct lq_word line;
    open_text(&text, bytes, size);
    lightq_status status = LIGHTQ_OK;
    while (status == LIGHTQ_OK) {
        status = lq_lines_next(&text.lines, &line, &text.err);
    }
    assert_int_equal(status, LIGHTQ_EINVAL);
    assert_string_equal(text.err.text, wanted);
    close_text(&text);
}

static void test_lines_bad_bytes_are_refused_with_their_place(void **state)
{
    (void)state;
    char longest[LQ_LINE_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\n';

    assert_bad_line("ok\ncut", 6, "text:2: the last line is not ended: it was cut");
    assert_bad_line("ok\na\tb\n", 7, "text:2: byte 2 is 0x09, not a printable character");
    assert_bad_line("\xff\n", 2, "text:1: byte 1 is 0xff, not a printable character");
    assert_bad_line("a\0b\n", 4, "text:1: byte 2 is 0x00, not a printable character");
    assert_bad_line("a\r\n", 3, "text:1: byte 2 is 0x0d, not a printable character");
    assert_bad_line(longest, sizeof longest, "text:1: the line is longer than 2048 bytes");
    assert_bad_line(longest, sizeof longest - 1, "text:1: the line is longer than 2048 bytes");
}

static void test_words_are_parted_by_one_space(void **state)
{
    (void)state;
    struct lq_word words[LQ_LINE_WORDS_MAX];

    assert_int_equal(lq_line_words(lq_word_of("a bc d"), words), 3);
    assert_true(lq_word_is(words[1], "bc"));
    assert_int_equal(lq_line_words(lq_word_of("1 2 3 4 5 6 7 8 9 10"), words), 10);
    assert_int_equal(lq_line_words(lq_word_of("1 2 3 4 5 6 7 8 9 10 11"), words), 0);
    assert_int_equal(lq_line_words(lq_word_of(""), words), 0);
    assert_int_equal(lq_line_words(lq_word_of(" a"), words), 0);
    assert_int_equal(lq_line_words(lq_word_of("a "), words), 0);
    assert_int_equal(lq_line_words(lq_word_of("a  b"), words), 0);
}

static void test_numbers_are_strict(void **state)
{
    (void)state;
    uint64_t number;

    assert_true(lq_word_number(lq_word_of("0"), 9, &number) && number == 0);
    assert_true(lq_word_number(lq_word_of("18446744073709551615"), UINT64_MAX, &number) && number == UINT64_MAX);
    assert_false(lq_word_number(lq_word_of("18446744073709551616"), UINT64_MAX, &number));
    assert_false(lq_word_number(lq_word_of("99999999999999999999"), UINT64_MAX, &number));
    assert_false(lq_word_number(lq_word_of("10"), 9, &number));
    assert_false(lq_word_number(lq_word_of("01"), 9, &number));
    assert_false(lq_word_number(lq_word_of("-1"), 9, &number));
    assert_false(lq_word_number(lq_word_of("+1"), 9, &number));
    assert_false(lq_word_number(lq_word_of("1x"), 99, &number));
    assert_false(lq_word_number(lq_word_of(""), 9, &number));
}

static void test_hexadecimal_numbers_are_strict(void **state)
{
    (void)state;
    uint64_t number;

    assert_true(lq_word_hex(lq_word_of("0"), 8, &number) && number == 0);
    assert_true(lq_word_hex(lq_word_of("DeadBeef"), 8, &number) && number == 0xdeadbeef);
    assert_true(lq_word_hex(lq_word_of("ffffffffffffffff"), 16, &number) && number == UINT64_MAX);
    assert_false(lq_word_hex(lq_word_of("123456789"), 8, &number));
    assert_false(lq_word_hex(lq_word_of("0x1"), 8, &number));
    assert_false(lq_word_hex(lq_word_of("g"), 8, &number));
    assert_false(lq_word_hex(lq_word_of("-"), 8, &number));
    assert_false(lq_word_hex(lq_word_of(""), 8, &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort_random_items_as_qsort),
        cmocka_unit_test(test_sort_lower_finds_the_first_not_below),
        cmocka_unit_test(test_names_same_word_has_one_place),
        cmocka_unit_test(test_names_bad_words_are_refused),
        cmocka_unit_test(test_pairs_are_ordered_and_kept_once),
        cmocka_unit_test(test_index_is_bounded),
        cmocka_unit_test(test_lines_are_cut_at_line_feeds),
        cmocka_unit_test(test_lines_longer_than_the_buffer_come_whole),
        cmocka_unit_test(test_lines_bad_bytes_are_refused_with_their_place),
        cmocka_unit_test(test_words_are_parted_by_one_space),
        cmocka_unit_test(test_numbers_are_strict),
        cmocka_unit_test(test_hexadecimal_numbers_are_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
