/* A history keeps what it is told, as text or by its functions, and refuses what contradicts itself or is not the
 * format. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_fixture.h"
#include "tests/lib/alloc_fail.h"

#include "chaos/check/history_text.h"

#define HEAD "lightq-history 1\n"

/* Every kind of line, once or twice. */
#define EVERYTHING                                                                                                     \
    HEAD                                                                                                               \
        "# a remark, with  any   spaces\n"                                                                             \
        "reader r subscriber\nreader f final\nreader w pipeline g\n"                                                   \
        "attempt 1 p 0 t/0 00000001\nok 2 p 0 t/0 0 1\nattempt 3 p 1 - -\nok 4 p 1 t/0 - -\n"                          \
        "attempt 5 p 2 t/0 2\nfailed 6 p 2\nattempt 7 p 3 t/0 3\nunknown 8 p 3\nattempt 9 q 4611686018427387904 - 4\n" \
        "seek 10 r t/0 0\nread 11 r t/0 0 p 0 1\nread 11 r t/0 1 p 1 9\nseek 12 r t/0 -\n"                             \
        "read 13 w t/0 0 p 0 1\nsettle 14 w t/0 0 ack ok\nsettle 15 w t/0 1 nack failed\n"                             \
        "settle 16 w t/0 2 reject unknown\ndrained 17 g t/0 0 1\ntrim 18 t/0 0\nend 19 t/0 2\n"                        \
        "leader 20 n1 t/0 1 n2\ndigest 21 t/0 n1 2 DEADBEEFdeadbeef\ndigest 22 t/0 n2 2 deadbeefdeadbeef\n"            \
        "read 22 f t/0 0 p 0 1\nread 22 f t/0 1 p 1 9\n"                                                               \
        "fault 23 f1 minority kill-leader:n1\nheal 24 f1\nfault 25 f2 majority power-all\nquiet 26\n"

static lightq_status load(struct lq_history *history, const char *text, struct lq_err *err)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(file);
    lightq_status status = lq_history_load(history, file, "h", err);
    fclose(file);
    return status;
}

static char *save(const struct lq_history *history)
{
    char *text = NULL;
    size_t size = 0;
    struct lq_err err;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(lq_history_save(history, file, &err), LIGHTQ_OK);
    fclose(file);
    return text;
}

static void test_history_every_kind_of_line_is_kept(void **state)
{
    (void)state;
    struct lq_history history;
    struct lq_err err = {.text = ""};
    lq_history_init(&history);

    lightq_status status = load(&history, EVERYTHING, &err);

    assert_string_equal(err.text, "");
    assert_int_equal(status, LIGHTQ_OK);
    assert_int_equal(history.message_count, 5);
    assert_int_equal(history.attempt_count, 5);
    assert_int_equal(history.messages[1].offset, LQ_HISTORY_UNKNOWN);
    assert_int_equal(history.messages[1].target, LQ_HISTORY_NONE);
    assert_false(history.messages[1].has_crc);
    assert_int_equal(history.messages[2].outcome, LQ_OUTCOME_FAILED);
    assert_int_equal(history.messages[3].outcome, LQ_OUTCOME_UNKNOWN);
    assert_int_equal(history.messages[4].outcome, LQ_OUTCOME_OPEN);
    assert_int_equal(history.messages[4].sequence, LQ_HISTORY_NUMBER_MAX);
    assert_int_equal(history.read_count, 7);
    assert_int_equal(history.settle_count, 3);
    assert_int_equal(history.settles[2].verdict, LQ_VERDICT_REJECT);
    assert_int_equal(history.settles[2].outcome, LQ_OUTCOME_UNKNOWN);
    assert_int_equal(history.digests[0].digest, 0xdeadbeefdeadbeef);
    assert_int_equal(history.fault_times[0].heal_us, 24);
    assert_int_equal(history.fault_times[1].heal_us, LQ_HISTORY_UNKNOWN);
    assert_int_equal(history.fault_times[1].scope, LQ_FAULT_MAJORITY);
    assert_int_equal(history.quiet_us, 26);
    lq_history_deinit(&history);
}

static void test_history_saved_and_loaded_is_the_same(void **state)
{
    (void)state;
    struct lq_history history, copy;
    struct lq_err err;
    lq_history_init(&history);
    lq_history_init(&copy);
    assert_int_equal(load(&history, EVERYTHING, &err), LIGHTQ_OK);

    char *once = save(&history);
    assert_int_equal(load(&copy, once, &err), LIGHTQ_OK);
    char *twice = save(&copy);

    assert_string_equal(once, twice);
    judge_history(&copy, NULL, 0, NULL, once);
    free(once);
    free(twice);
    lq_history_deinit(&history);
    lq_history_deinit(&copy);
}

static void test_history_may_be_spread_over_files(void **state)
{
    (void)state;
    struct lq_history history;
    struct lq_err err;
    lq_history_init(&history);

    assert_int_equal(load(&history, HEAD "reader r subscriber\nread 5 r t/0 0 p 0 a\nend 6 t/0 1\n", &err), LIGHTQ_OK);
    assert_int_equal(load(&history, HEAD "attempt 1 p 0 t/0 a\nok 2 p 0 t/0 0 1\nreader r subscriber\n", &err),
                     LIGHTQ_OK);

    struct lq_check_report report;
    judge_history(&history, NULL, 0, &report, "two files");
    assert_true(report.passed);
    lq_check_report_deinit(&report);
    lq_history_deinit(&history);
}

static const struct {
    const char *text, *error;
} bad[] = {
    {"", "h:1: the first line is not \"lightq-history 1\""},
    {"lightq-history 2\n", "h:1: the first line is not \"lightq-history 1\""},
    {"lightq-history 1", "h:1: the last line is not ended: it was cut"},
    {HEAD "quiet 1\nquiet 2", "h:3: the last line is not ended: it was cut"},
    {HEAD "\n", "h:2: not words with one space between them"},
    {HEAD "quiet  1\n", "h:2: not words with one space between them"},
    {HEAD "quiet 1 \n", "h:2: not words with one space between them"},
    {HEAD "quiet\t1\n", "h:2: byte 6 is 0x09, not a printable character"},
    {HEAD "silence 1\n", "h:2: \"silence\" is no kind of line"},
    {HEAD "QUIET 1\n", "h:2: \"QUIET\" is no kind of line"},
    {HEAD "quiet\n", "h:2: 1 words, and quiet has 2"},
    {HEAD "quiet 1 2\n", "h:2: 3 words, and quiet has 2"},
    {HEAD "quiet -1\n", "h:2: word 2, \"-1\", is not a time in microseconds"},
    {HEAD "quiet 01\n", "h:2: word 2, \"01\", is not a time in microseconds"},
    {HEAD "quiet 4611686018427387905\n", "h:2: word 2, \"4611686018427387905\", is not a time in microseconds"},
    {HEAD "attempt 1 p x t/0 a\n", "h:2: word 4, \"x\", is not a sequence"},
    {HEAD "attempt 1 p - t/0 a\n", "h:2: word 4, \"-\", is not a sequence"},
    {HEAD "attempt 1 p 0 t a\n", "h:2: 't' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t/ a\n", "h:2: 't/' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 /0 a\n", "h:2: '/0' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t/00 a\n", "h:2: 't/00' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t/65536 a\n", "h:2: 't/65536' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t/0/0 a\n", "h:2: 't/0/0' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t=t/0 a\n", "h:2: 't=t/0' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t/0 123456789\n", "h:2: word 6, \"123456789\", is not a crc or -"},
    {HEAD "attempt 1 p 0 t/0 a\nattempt 2 p 0 t/0 a\n", "h:3: p 0 was attempted before"},
    {HEAD "ok 2 p 0 t/0 0 1\n", "h:2: p 0 has an outcome but was not attempted"},
    {HEAD "failed 2 p 0\n", "h:2: p 0 has an outcome but was not attempted"},
    {HEAD "attempt 1 p 0 t/0 a\nok 2 p 0 t/0 0 1\nfailed 3 p 0\n", "h:4: p 0 has two outcomes"},
    {HEAD "attempt 1 p 0 t/0 a\nunknown 2 p 0\nok 2 p 0 t/0 0 1\n", "h:4: p 0 has two outcomes"},
    {HEAD "attempt 3 p 0 t/0 a\nok 2 p 0 t/0 0 1\n", "h:3: p 0 has its outcome before its attempt"},
    {HEAD "attempt 1 p 0 t/0 a\nok 2 p 0 t/1 0 1\n", "h:3: p 0 is acknowledged in another log than it was for"},
    {HEAD "attempt 1 p 0 t/0 a\nok 2 p 0 - 0 1\n", "h:3: '-' is not TOPIC/PARTITION"},
    {HEAD "attempt 1 p 0 t/0 a\nok 2 p 0 t/0 x 1\n", "h:3: word 6, \"x\", is not an offset or -"},
    {HEAD "attempt 1 p 0 t/0 a\nok 2 p 0 t/0 0 x\n", "h:3: word 7, \"x\", is not a term or -"},
    {HEAD "read 1 r t/0 0 p 0 a\n", "h:2: word 3, \"r\", is not a reader that was named by a reader line"},
    {HEAD "reader r subscriber\nread 1 r t/0 - p 0 a\n", "h:3: word 5, \"-\", is not an offset"},
    {HEAD "reader r subscriber\nread 1 r t/0 0 p 0 -\n", "h:3: word 8, \"-\", is not a crc"},
    {HEAD "reader r subscriber\nseek 1 r t/0 x\n", "h:3: word 5, \"x\", is not an offset or -"},
    {HEAD "seek 1 r t/0 0\n", "h:2: word 3, \"r\", is not a reader that was named by a reader line"},
    {HEAD "reader r consumer\n", "h:2: word 3, \"consumer\", is not subscriber, final or pipeline"},
    {HEAD "reader r pipeline\n", "h:2: word 3, \"pipeline\", is not \"pipeline GROUP\", or another kind and no group"},
    {HEAD "reader r final g\n", "h:2: word 3, \"final\", is not \"pipeline GROUP\", or another kind and no group"},
    {HEAD "reader r final\nreader r subscriber\n", "h:3: reader r is known as another kind of reader"},
    {HEAD "reader r pipeline g\nreader r pipeline h\n", "h:3: reader r is known as another kind of reader"},
    {HEAD "reader r pipeline g\nsettle 1 r t/0 0 acked ok\n", "h:3: word 6, \"acked\", is not ack, nack or reject"},
    {HEAD "reader r pipeline g\nsettle 1 r t/0 0 ack yes\n", "h:3: word 7, \"yes\", is not ok, failed or unknown"},
    {HEAD "drained 1 g t/0 5 4\n", "h:2: drained from 5 to 4, which is before it"},
    {HEAD "trim 1 t/0 x\n", "h:2: word 4, \"x\", is not an offset"},
    {HEAD "end 1 t/0 x\n", "h:2: word 4, \"x\", is not an offset"},
    {HEAD "leader 1 n1 t/0 0 n1\n", "h:2: nobody leads in term 0"},
    {HEAD "leader 1 n1 t/0 x n1\n", "h:2: word 5, \"x\", is not a term"},
    {HEAD "digest 1 t/0 n1 5 0123456789abcdef0\n", "h:2: word 6, \"0123456789abcdef0\", is not a digest"},
    {HEAD "fault 1 f some kill\n", "h:2: word 4, \"some\", is not minority or majority"},
    {HEAD "fault 1 f minority kill\nfault 2 f minority kill\n", "h:3: fault f has begun before"},
    {HEAD "heal 1 f\n", "h:2: fault f is healed but has not begun"},
    {HEAD "fault 5 f minority kill\nheal 4 f\n", "h:3: fault f is healed before it has begun"},
    {HEAD "fault 5 f minority kill\nheal 6 f\nheal 7 f\n", "h:4: fault f is healed twice"},
};

static void test_history_bad_lines_are_refused_with_file_and_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lq_history history;
        struct lq_err err = {.text = "it was accepted"};
        lq_history_init(&history);
        FILE *file = bad[i].text[0] == '\0' ? fopen("/dev/null", "re")
                                            : fmemopen((void *)(uintptr_t)bad[i].text, strlen(bad[i].text), "r");
        assert_non_null(file);

        lightq_status status = lq_history_load(&history, file, "h", &err);

        fclose(file);
        assert_string_equal(err.text, bad[i].error);
        assert_int_equal(status, LIGHTQ_EINVAL);
        lq_history_deinit(&history);
    }
}

static void test_history_unreadable_file_is_an_error(void **state)
{
    (void)state;
    struct lq_history history;
    struct lq_err err;
    lq_history_init(&history);
    FILE *file = fopen("/", "re"); /* a directory opens, and cannot be read */
    assert_non_null(file);

    assert_int_equal(lq_history_load(&history, file, "/", &err), LIGHTQ_EIO);

    assert_non_null(strstr(err.text, "read /: EISDIR"));
    fclose(file);
    lq_history_deinit(&history);
}

static void test_history_unwritable_file_is_an_error(void **state)
{
    (void)state;
    struct lq_history history;
    struct lq_err err;
    lq_history_init(&history);
    FILE *file = fopen("/dev/full", "we");
    assert_non_null(file);

    assert_int_equal(lq_history_save(&history, file, &err), LIGHTQ_ENOSPC);

    fclose(file);
    lq_history_deinit(&history);
}

static void test_history_receipts_cannot_be_saved(void **state)
{
    (void)state;
    struct lq_history history;
    struct lq_err err;
    uint32_t producer, log;
    char sink[256];
    lq_history_init(&history);
    assert_int_equal(lq_history_producer(&history, lq_word_of("p"), &producer, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_log(&history, "t", 0, &log, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_receipt(&history, producer, 0, log, 0, 1, &err), LIGHTQ_OK);
    FILE *file = fmemopen(sink, sizeof sink, "w");
    assert_non_null(file);

    assert_int_equal(lq_history_save(&history, file, &err), LIGHTQ_EUNSUPPORTED);

    fclose(file);
    lq_history_deinit(&history);
}

static void test_history_functions_refuse_what_is_too_large(void **state)
{
    (void)state;
    const uint64_t large = LQ_HISTORY_NUMBER_MAX + 1;
    struct lq_history history;
    struct lq_err err;
    uint32_t p, log, node, reader, group;
    char topic[LQ_WORD_BYTES_MAX + 1] = "";
    lq_history_init(&history);
    assert_int_equal(lq_history_producer(&history, lq_word_of("p"), &p, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_log(&history, "t", 65535, &log, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_node(&history, lq_word_of("n"), &node, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_group(&history, lq_word_of("g"), &group, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_reader(&history, lq_word_of("r"), LQ_READER_PIPELINE, group, &reader, &err), LIGHTQ_OK);

    assert_int_equal(lq_history_attempt(&history, large, p, 0, log, NULL, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_attempt(&history, 0, p, large, log, NULL, &err), LIGHTQ_EINVAL);
    assert_string_equal(err.text, "the sequence 4611686018427387905 is too large");
    assert_int_equal(lq_history_read(&history, 0, reader, log, large, p, 0, 0, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_seek(&history, 0, reader, log, large, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_settle(&history, 0, reader, log, large, LQ_VERDICT_ACK, LQ_OUTCOME_OK, &err),
                     LIGHTQ_EINVAL);
    assert_int_equal(lq_history_drained(&history, 0, group, log, 0, large, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_trim(&history, 0, log, large, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_end(&history, large, log, 0, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_leader(&history, 0, node, log, large, node, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_digest(&history, 0, log, node, large, 0, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_fault(&history, large, lq_word_of("f"), LQ_FAULT_MINORITY, lq_word_of("k"), &err),
                     LIGHTQ_EINVAL);
    assert_int_equal(lq_history_quiet(&history, large, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_receipt(&history, p, 1, log, large, 0, &err), LIGHTQ_EINVAL);
    memset(topic, 'x', LQ_WORD_BYTES_MAX);
    assert_int_equal(lq_history_log(&history, topic, 0, &log, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_log(&history, "t", 65536, &log, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_log(&history, "", 0, &log, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_history_reader(&history, lq_word_of("s"), LQ_READER_FINAL, group, &reader, &err),
                     LIGHTQ_EINVAL);

    assert_int_equal(history.message_count + history.read_count + history.settle_count + history.trim_count, 0);
    lq_history_deinit(&history);
}

static void test_history_receipt_told_again_is_one(void **state)
{
    (void)state;
    struct lq_history history;
    struct lq_err err;
    uint32_t p, log;
    lq_history_init(&history);
    assert_int_equal(lq_history_producer(&history, lq_word_of("p"), &p, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_log(&history, "t", 0, &log, &err), LIGHTQ_OK);

    assert_int_equal(lq_history_receipt(&history, p, 0, log, LQ_HISTORY_UNKNOWN, 1, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_receipt(&history, p, 0, log, 7, 1, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_receipt(&history, p, 0, log, 7, 1, &err), LIGHTQ_OK);
    assert_int_equal(lq_history_receipt(&history, p, 0, log, LQ_HISTORY_UNKNOWN, 1, &err), LIGHTQ_OK);
    assert_int_equal(history.message_count, 1);
    assert_int_equal(history.messages[0].offset, 7);
    assert_int_equal(history.moved_count, 0);

    assert_int_equal(lq_history_receipt(&history, p, 0, log, 8, 1, &err), LIGHTQ_OK);
    assert_int_equal(history.moved_count, 1);
    struct lq_check_options options = {.allow_unproven = true};
    judge_history(&history, &options, SET(doubled) | SET(unproven), NULL, "a receipt with two offsets");
    lq_history_deinit(&history);
}

/* Every allocation of loading and judging may fail: ENOMEM, and nothing is leaked or half done. */
static void test_history_out_of_memory_is_told(void **state)
{
    (void)state;
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        struct lq_history history;
        struct lq_check_options options = {.examples = 1};
        struct lq_check_report *report = malloc(sizeof *report);
        struct lq_err err;
        assert_non_null(report);
        lq_history_init(&history);
        FILE *file = fmemopen((void *)(uintptr_t)EVERYTHING, strlen(EVERYTHING), "r");
        assert_non_null(file);

        lq_alloc_fail_at(nth);
        lightq_status status = lq_history_load(&history, file, "h", &err);
        if (status == LIGHTQ_OK) {
            status = lq_check_run(&history, &options, report);
        }
        failed = lq_alloc_fail_end();

        assert_int_equal(status, failed ? LIGHTQ_ENOMEM : LIGHTQ_OK);
        if (status == LIGHTQ_OK) {
            assert_true(report->passed);
            lq_check_report_deinit(report);
            assert_true(nth > 40);
        }
        fclose(file);
        free(report);
        lq_history_deinit(&history);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_every_kind_of_line_is_kept),
        cmocka_unit_test(test_history_saved_and_loaded_is_the_same),
        cmocka_unit_test(test_history_may_be_spread_over_files),
        cmocka_unit_test(test_history_bad_lines_are_refused_with_file_and_line),
        cmocka_unit_test(test_history_unreadable_file_is_an_error),
        cmocka_unit_test(test_history_unwritable_file_is_an_error),
        cmocka_unit_test(test_history_receipts_cannot_be_saved),
        cmocka_unit_test(test_history_functions_refuse_what_is_too_large),
        cmocka_unit_test(test_history_receipt_told_again_is_one),
        cmocka_unit_test(test_history_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
