/* tests/unit/client/test_cli_receipts.c - lightq verify, --history, and topic describe --wait-equal: what proves that
 * acknowledged messages are there. */
#include "tests/unit/client/cli_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES 512
#define MESSAGES   1000

/* A file of receipts, one line each that is changed at will. */
struct file {
    char path[64];
    char lines[MESSAGES + 8][LINE_BYTES];
    size_t count;
};

static void load(struct file *file)
{
    FILE *in = fopen(file->path, "r");
    assert_non_null(in);
    file->count = 0;
    while (file->count < MESSAGES + 8 && fgets(file->lines[file->count], LINE_BYTES, in) != NULL) {
        file->count++;
    }
    fclose(in);
}

static void save(const struct file *file)
{
    FILE *out = fopen(file->path, "w");
    assert_non_null(out);
    for (size_t i = 0; i < file->count; i++) {
        fputs(file->lines[i], out);
    }
    fclose(out);
}

static struct file *new_file(void)
{
    struct file *file = calloc(1, sizeof *file);
    assert_non_null(file);
    snprintf(file->path, sizeof file->path, "/tmp/lightq-receipts-XXXXXX");
    close(mkstemp(file->path));
    return file;
}

static void free_file(struct file *file)
{
    unlink(file->path);
    free(file);
}

/* Produces to both partitions of "t", and gives the receipts. */
static struct file *produce(struct fixture *f)
{
    char arguments[LINE_BYTES];
    struct file *file = new_file();
    fake_cluster_grow(f->cluster, "t", 2);
    snprintf(arguments, sizeof arguments, "produce t --count %d --size 50 --window 50 --acked %s", MESSAGES,
             file->path);
    expect(f, arguments, 0, "1000 messages acknowledged");
    load(file);
    assert_int_equal(file->count, MESSAGES);
    return file;
}

static void expect_verify(struct fixture *f, const struct file *file, int exit_code, const char *part)
{
    char arguments[LINE_BYTES];
    snprintf(arguments, sizeof arguments, "verify --acked %s --timeout 5000", file->path);
    expect(f, arguments, exit_code, part);
}

/* Word @word, from 0, of line @line becomes @text. */
static void change(struct file *file, size_t line, unsigned word, const char *text)
{
    char changed[LINE_BYTES], *end = file->lines[line];
    for (unsigned i = 0; i < word; i++) {
        end = strchr(end, ' ') + 1;
    }
    size_t before = (size_t)(end - file->lines[line]);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)before, file->lines[line], text, end + strcspn(end, " \n"));
    memcpy(file->lines[line], changed, sizeof changed);
}

static void test_verify_all_stored_exits_0(void **state)
{
    struct fixture *f = *state;
    struct file *file = produce(f);

    expect_verify(f, file, 0, "1000 receipts: 1000 stored with their checksum, 0 different, 0 missing");
    change(file, 7, 3, "-"); /* an offset that was not told is looked for by producer and sequence */
    change(file, 500, 3, "-");
    memcpy(file->lines[file->count++], file->lines[3], LINE_BYTES); /* one receipt twice */
    save(file);
    expect_verify(f, file, 0, "1001 receipts: 1001 stored");
    free_file(file);
}

static void test_verify_each_wrong_receipt_is_named(void **state)
{
    static const struct {
        unsigned word;
        const char *text, *said;
    } wrong[] = {
        {3, "100000", "it is not stored; the log has offsets 0 to "},
        {4, "77", "there is the message of producer"},
        {5, "100000", "there is the message of producer"},
        {7, "1", "the checksum is "},
        {1, "gone", "there is no such topic or partition"},
        {2, "5", "there is no such topic or partition"},
    };
    struct fixture *f = *state;
    struct file *file = produce(f);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char good[LINE_BYTES];
        memcpy(good, file->lines[41], sizeof good);
        change(file, 41, wrong[i].word, wrong[i].text);
        save(file);

        expect_verify(f, file, 1, wrong[i].said);
        expect_verify(f, file, 1, "lightq: line 42: ");
        expect_verify(f, file, 1,
                      wrong[i].word == 4 || wrong[i].word == 5 || wrong[i].word == 7
                          ? "999 stored with their checksum, 1 different, 0 missing"
                          : "999 stored with their checksum, 0 different, 1 missing");
        memcpy(file->lines[41], good, sizeof good);
    }
    change(file, 41, 5, "100000"); /* neither offset nor sequence is there */
    change(file, 41, 3, "-");
    save(file);
    expect_verify(f, file, 1, "acknowledged at an offset not told of t/");
    free_file(file);
}

static void test_verify_trimmed_and_lost_messages_are_missing(void **state)
{
    struct fixture *f = *state;
    struct file *file = produce(f);
    fake_cluster_trim(f->cluster, "t", 0, 100);

    expect_verify(f, file, 1, "900 stored with their checksum, 0 different, 100 missing");
    expect_verify(f, file, 1, "lightq: and 90 more");

    fake_cluster_drop_topic(f->cluster, "t");
    fake_cluster_topic(f->cluster, "t", 2);
    expect_verify(f, file, 1, "0 stored with their checksum, 0 different, 1000 missing");
    free_file(file);
}

static void test_verify_bad_files_are_refused(void **state)
{
    static const char *const bad[] = {
        "x\n",
        "0123456789abcdef0123456789abcdef t 0 0 1 0 1\n",
        "0123456789abcdef0123456789abcdef t 0 0 1 0 1 2 3\n",
        "0123456789abcdef0123456789abcdef t 0 0 1 0 1 4294967296\n",
        "0123456789abcdef0123456789abcdef t -1 0 1 0 1 2\n",
        "0123456789abcdef0123456789abcdef t 0  1 0 1 2\n",
        "0123456789abcdef0123456789abcdef t 0 0 1 0 1 2 \n",
        "short t 0 0 1 0 1 2\n",
    };
    struct fixture *f = *state;
    struct file *file = new_file();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(file->lines[0], LINE_BYTES, "%s", bad[i]);
        file->count = 1;
        save(file);
        expect_verify(f, file, 1, "EINVAL");
        expect_verify(f, file, 1, ":1");
    }
    file->count = 0;
    save(file);
    expect_verify(f, file, 1, "has no receipts, so nothing is proven");
    expect(f, "verify --acked /nowhere/x", 1, "cannot open /nowhere/x");
    expect(f, "verify", 2, "needs --acked");
    free_file(file);
}

static void test_verify_other_clusters_receipts_are_refused(void **state)
{
    struct fixture *f = *state;
    struct file *file = produce(f);

    change(file, 3, 0, "0123456789abcdef0123456789abcdef");
    save(file);
    expect_verify(f, file, 1, "is of cluster 0123456789abcdef0123456789abcdef");
    memcpy(file->lines[0], file->lines[3], LINE_BYTES);
    file->count = 1;
    save(file);
    expect_verify(f, file, 1, "the receipts are of cluster 0123456789abcdef0123456789abcdef, and this is ");
    free_file(file);
}

/* How many lines begin with @event. */
static size_t count_events(const struct file *file, const char *event)
{
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        count += strncmp(file->lines[i], event, strlen(event)) == 0;
    }
    return count;
}

static void test_history_holds_attempts_outcomes_and_reads(void **state)
{
    struct fixture *f = *state;
    struct file *sent = new_file(), *got = new_file();
    char arguments[LINE_BYTES];
    fake_cluster_append(f->cluster, "t", 0, 5, "foreign", 1);
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){
            .type = LQ_MESSAGE_PRODUCE, .after = 2, .times = 1, .action = FAKE_ANSWER, .status = LIGHTQ_ENOSPC});
    snprintf(arguments, sizeof arguments, "produce t --partition 0 --count 10 --window 1 --history %s", sent->path);
    expect(f, arguments, 1, "1 not acknowledged, of which 0 may be stored");
    snprintf(arguments, sizeof arguments, "consume t --until-end --history %s", got->path);
    expect(f, arguments, 0, "10 messages consumed");
    load(sent);
    load(got);

    assert_string_equal(sent->lines[0], "lightq-history 1\n");
    assert_int_equal(count_events(sent, "attempt "), 10);
    assert_int_equal(count_events(sent, "ok "), 9);
    assert_int_equal(count_events(sent, "failed "), 1);
    assert_int_equal(count_events(got, "reader "), 1);
    assert_non_null(strstr(got->lines[1], " final\n"));
    assert_int_equal(count_events(got, "seek "), 1);
    assert_int_equal(count_events(got, "read "), 10);
    assert_non_null(strstr(got->lines[3], " t/0 0 unnamed 0 ")); /* nobody attempted it */
    assert_non_null(strstr(got->lines[4], " t/0 1 "));
    free_file(sent);
    free_file(got);
}

static void test_history_timed_out_message_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct file *sent = new_file();
    char arguments[LINE_BYTES];
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .action = FAKE_DROP});

    snprintf(arguments, sizeof arguments, "produce t --count 1 --timeout 2000 --history %s", sent->path);
    expect(f, arguments, 1, "of which 1 may be stored");

    load(sent);
    assert_int_equal(count_events(sent, "unknown "), 1);
    fake_cluster_no_rules(f->cluster);
    expect(f, "produce t --history /tmp/x", 2, "--history needs --count");
    expect(f, "produce t --count 1 --size 40 --history /tmp/x", 2, "--size of at least 41");
    expect(f, "produce t --count 1 --history /nowhere/x", 1, "cannot open /nowhere/x");
    expect(f, "consume t --history /nowhere/x", 1, "cannot open /nowhere/x");
    expect(f, "produce t --count 1 --history /dev/full", 1, "cannot write /dev/full");
    expect(f, "consume t --until-end --history /dev/full", 1, "cannot write /dev/full");
    free_file(sent);
}

static void test_describe_waits_until_replicas_are_equal(void **state)
{
    struct fixture *f = *state;

    expect(f, "topic describe t --wait-equal", 0, "topic t: 1 partitions");
    expect(f, "topic describe nope --wait-equal", 1, "ENOTFOUND");

    fake_cluster_kill(f->cluster, 3);
    expect(f, "topic describe t --wait-equal --timeout 500", 1, "ETIMEDOUT: the replicas of topic t are not equal");
    expect(f, "topic describe t --wait-equal --timeout 500", 1, "topic t: 1 partitions"); /* and shows them */
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_verify_all_stored_exits_0),
        WITH_FIXTURE(test_verify_each_wrong_receipt_is_named),
        WITH_FIXTURE(test_verify_trimmed_and_lost_messages_are_missing),
        WITH_FIXTURE(test_verify_bad_files_are_refused),
        WITH_FIXTURE(test_verify_other_clusters_receipts_are_refused),
        WITH_FIXTURE(test_history_holds_attempts_outcomes_and_reads),
        WITH_FIXTURE(test_history_timed_out_message_is_unknown),
        WITH_FIXTURE(test_describe_waits_until_replicas_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
