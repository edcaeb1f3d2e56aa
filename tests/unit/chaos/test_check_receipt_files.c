/* Files of lightq produce --acked and lightq consume --log, as they are and damaged. */
#include <string.h>

#include "check_fixture.h"

#include "chaos/check/receipts.h"

struct fixture {
    struct lq_history history;
    struct lq_receipts receipts;
    struct lq_err err;
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){.err = {.text = ""}};
    lq_history_init(&f->history);
}

static void tear_down(struct fixture *f)
{
    lq_receipts_deinit(&f->receipts);
    lq_history_deinit(&f->history);
}

static FILE *open_text(const char *text)
{
    FILE *file = text[0] == '\0' ? fopen("/dev/null", "re") : fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(file);
    return file;
}

static lightq_status load_acked(struct fixture *f, const char *text)
{
    FILE *file = open_text(text);
    lightq_status status = lq_receipts_load_acked(&f->receipts, &f->history, file, "acked", &f->err);
    fclose(file);
    return status;
}

static lightq_status load_log(struct fixture *f, enum lq_reader_kind kind, const char *text)
{
    FILE *file = open_text(text);
    lightq_status status = lq_receipts_load_log(&f->history, kind, file, "log", &f->err);
    fclose(file);
    return status;
}

/* Judges receipts and a log as lightq-check does. */
static void judge(const char *acked, enum lq_reader_kind kind, const char *log, unsigned expected)
{
    struct lq_check_options options = {.examples = 3, .reads_are_complete = true};
    struct fixture f;
    set_up(&f);
    assert_int_equal(load_acked(&f, acked), LIGHTQ_OK);
    assert_int_equal(load_log(&f, kind, log), LIGHTQ_OK);
    judge_history(&f.history, &options, expected, NULL, acked);
    tear_down(&f);
}

#define ACKED "c t 0 0 77 0 1 11\nc t 0 1 77 1 1 11\nc t 1 0 77 0 1 12\n"
#define LOG   "t 0 0 77 0 aa 1\nt 0 1 77 1 ab 1\nt 1 0 77 0 ac 1\n"

static void test_receipts_all_read_pass(void **state)
{
    (void)state;
    judge(ACKED, LQ_READER_PIPELINE, LOG, 0);
    judge(ACKED, LQ_READER_SUBSCRIBER, LOG, 0);
}

static void test_receipts_sequences_count_in_each_partition(void **state)
{
    (void)state;
    judge("c t 0 0 77 0 1 11\nc t 1 0 77 0 1 12\n", LQ_READER_PIPELINE, "t 0 0 77 0 aa 1\n", SET(lost));
    judge("c t 0 0 77 0 1 11\nc u 0 0 77 0 1 12\n", LQ_READER_PIPELINE, "t 0 0 77 0 aa 1\nu 0 0 77 0 aa 1\n", 0);
}

static void test_receipts_each_damage_is_found(void **state)
{
    (void)state;
    judge(ACKED, LQ_READER_PIPELINE, "t 0 0 77 0 aa 1\nt 1 0 77 0 ac 1\n", SET(lost));
    judge(ACKED, LQ_READER_PIPELINE, LOG "t 0 2 77 1 ab 1\n", SET(doubled));
    judge(ACKED, LQ_READER_PIPELINE, LOG "t 0 1 77 1 ac 1\n", SET(value));
    judge(ACKED, LQ_READER_PIPELINE, LOG "t 0 2 77 3 ad 1\nt 0 3 77 2 ad 1\n", SET(order));
    judge("c t 0 - 77 5 1 11\n", LQ_READER_PIPELINE, LOG, SET(lost));
    judge("c t 0 - 77 1 1 11\n", LQ_READER_PIPELINE, LOG, 0);
    judge("c t 0 5 77 1 1 11\n", LQ_READER_PIPELINE, LOG, SET(doubled));
}

static void test_receipts_order_of_lines_counts_only_for_ordered_readers(void **state)
{
    (void)state;
    static const char swapped[] = "t 0 1 77 1 ab 1\nt 0 0 77 0 aa 1\nt 1 0 77 0 ac 1\n";
    judge(ACKED, LQ_READER_PIPELINE, swapped, 0);
    judge(ACKED, LQ_READER_SUBSCRIBER, swapped, SET(backward));
}

static void test_receipts_each_log_is_a_reader_of_its_own(void **state)
{
    (void)state;
    struct lq_check_options options = {.reads_are_complete = true};
    struct fixture f;
    set_up(&f);
    assert_int_equal(load_acked(&f, ACKED), LIGHTQ_OK);
    assert_int_equal(load_log(&f, LQ_READER_SUBSCRIBER, LOG), LIGHTQ_OK);
    assert_int_equal(load_log(&f, LQ_READER_SUBSCRIBER, LOG), LIGHTQ_OK);

    judge_history(&f.history, &options, 0, NULL, "the same log twice");

    tear_down(&f);
}

static void test_receipts_crc_is_decimal_or_hexadecimal(void **state)
{
    (void)state;
    judge(ACKED, LQ_READER_PIPELINE, "t 0 0 77 0 4294967295 1\nt 0 1 77 1 DEADBEEF 1\nt 1 0 77 0 0 1\n", 0);
    judge(ACKED, LQ_READER_PIPELINE, LOG "t 0 0 77 0 3735928559 1\n", SET(value));
}

static void test_receipts_bad_acked_lines_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"c t 0\n", "acked:1: not 8 words with one space between them"},
        {ACKED "c t 0 2 77 2 1 11 9\n", "acked:4: not 8 words with one space between them"},
        {"c t 0 -1 77 0 1 11\n", "acked:1: \"-1\" is not an offset"},
        {"c t 0 x 77 0 1 11\n", "acked:1: \"x\" is not an offset"},
        {"c t 0 0 77 x 1 11\n", "acked:1: \"x\" is not a sequence"},
        {"c t 0 0 77 0 x 11\n", "acked:1: \"x\" is not a term"},
        {"c t x 0 77 0 1 11\n", "acked:1: 't/x' is not TOPIC/PARTITION"},
        {"c t/t 0 0 77 0 1 11\n", "acked:1: 't/t/0' is not TOPIC/PARTITION"},
        {ACKED "d t 0 2 77 2 1 11\n", "acked:4: a receipt of cluster d among those of cluster c"},
        {"c t 0 0 77 0 1 11", "acked:1: the last line is not ended: it was cut"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fixture f;
        set_up(&f);

        assert_int_equal(load_acked(&f, bad[i][0]), LIGHTQ_EINVAL);

        assert_string_equal(f.err.text, bad[i][1]);
        tear_down(&f);
    }
}

static void test_receipts_bad_log_lines_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"t 0 0\n", "log:1: not 7 words with one space between them"},
        {"t 0 - 77 0 aa 1\n", "log:1: a message was read without an offset"},
        {"t 0 0 77 0 xx 1\n", "log:1: \"xx\" is not a crc"},
        {"t 0 0 77 0 4294967296 1\n", "log:1: \"4294967296\" is not a crc"},
        {"t 0 0 77 0 aa x\n", "log:1: \"x\" is not a count of deliveries"},
        {LOG "t 0 0 77 -1 aa 1\n", "log:4: \"-1\" is not a sequence"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fixture f;
        set_up(&f);

        assert_int_equal(load_log(&f, LQ_READER_PIPELINE, bad[i][0]), LIGHTQ_EINVAL);

        assert_string_equal(f.err.text, bad[i][1]);
        tear_down(&f);
    }
}

static void test_receipts_longest_names_fit_and_longer_are_refused(void **state)
{
    (void)state;
    char line[1024], producer[260];
    memset(producer, 'p', sizeof producer);
    for (int size = 249; size <= 252; size++) { /* with "@t/0": 255 at most */
        struct fixture f;
        set_up(&f);
        snprintf(line, sizeof line, "c t 0 0 %.*s 0 1 11\nc t 0 1 %.*s 1 1 11\n", size, producer, size, producer);

        lightq_status status = load_acked(&f, line);

        assert_int_equal(status, size <= 251 ? LIGHTQ_OK : LIGHTQ_EINVAL);
        assert_int_equal(f.history.message_count, size <= 251 ? 2 : 0);
        tear_down(&f);
    }
}

static void test_receipts_empty_files_hold_nothing(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);

    assert_int_equal(load_acked(&f, ""), LIGHTQ_OK);
    assert_int_equal(load_log(&f, LQ_READER_PIPELINE, ""), LIGHTQ_OK);

    assert_int_equal(f.history.message_count, 0);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receipts_all_read_pass),
        cmocka_unit_test(test_receipts_sequences_count_in_each_partition),
        cmocka_unit_test(test_receipts_each_damage_is_found),
        cmocka_unit_test(test_receipts_order_of_lines_counts_only_for_ordered_readers),
        cmocka_unit_test(test_receipts_each_log_is_a_reader_of_its_own),
        cmocka_unit_test(test_receipts_crc_is_decimal_or_hexadecimal),
        cmocka_unit_test(test_receipts_bad_acked_lines_are_refused),
        cmocka_unit_test(test_receipts_bad_log_lines_are_refused),
        cmocka_unit_test(test_receipts_longest_names_fit_and_longer_are_refused),
        cmocka_unit_test(test_receipts_empty_files_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
