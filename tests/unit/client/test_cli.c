/* tests/unit/client/test_cli.c - the lightq command as a program, on pretended servers: exit codes, one sentence on
 * standard error, JSON, and the files of produce and consume. */
#include "tests/unit/client/cli_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void test_cli_wrong_usage_exits_2(void **state)
{
    static const char *const wrong[] = {
        "",
        "nonsense",
        "topic",
        "topic nonsense",
        "topic create",
        "topic create a b",
        "topic create a --nope 1",
        "topic create a --partitions x",
        "topic create a --partitions 0",
        "topic create a --config novalue",
        "topic alter t",
        "topic alter t --config novalue",
        "topic alter t --partitions 0",
        "topic alter t --replicas 3",
        "topic purge",
        "topic purge t --to 5",
        "topic purge t --to middle",
        "peek",
        "peek t --from middle",
        "--format xml topic list",
        "topic list --print",
        "produce",
        "produce t --size 5",
        "produce t --window 0",
        "produce t --count 1 --file x",
        "produce t --count",
        "consume t --from middle",
        "consume t --until-end=1",
        "node replace 1 x",
        "partition transfer-leader t --to 1",
        "partition transfer-leader t/0",
        "bench",
        "bench end-to-end t --size 4 --count 1",
        "--servers nowhere topic list",
        "--set nope=1 topic list",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect(f, wrong[i], 2, "lightq: ");
    }
}

static void test_cli_help_needs_no_cluster(void **state)
{
    struct fixture *f = *state;
    for (unsigned node = 1; node <= 3; node++) {
        fake_cluster_kill(f->cluster, node);
    }

    expect(f, "--help", 0, "partition transfer-leader");
    expect(f, "produce --help", 0, "--acked FILE");
    expect(f, "--help topic create", 0, "--partitions P");
    expect(f, "--help-settings", 0, "linger.ms");
    expect(f, "--version", 0, "lightq 0.1.0");
}

static void test_cli_failure_names_status_and_remedy(void **state)
{
    struct fixture *f = *state;

    expect(f, "topic create t", 1, "lightq: EEXISTS: it is there; choose another name");
    expect(f, "topic describe nope", 1, "lightq: ENOTFOUND: ");
    expect(f, "topic create 'a b'", 1, "ENAME");
    expect(f, "produce nope --count 1", 1, "ENOTFOUND");
    expect(f, "consume nope --until-end", 1, "ENOTFOUND");
    expect(f, "consume t --partition 4", 1, "partitions 0 to 0");
    expect(f, "consume t --from 5", 1, "EOUTOFRANGE");
    expect(f, "consume t --timeout 2000", 1, "ETIMEDOUT");
    expect(f, "produce t --count 1 --acked /nowhere/x", 1, "cannot open /nowhere/x");
    expect(f, "produce t --file /nowhere/y", 1, "cannot open /nowhere/y");
    expect(f, "--servers 127.0.0.1:1 topic list --timeout 100", 1, "ECONNECT");
}

/* Case K7: a wrong password ends the command at once. */
static void test_cli_wrong_password_is_told(void **state)
{
    struct fixture *f = *state;
    fake_cluster_password(f->cluster, "secret");

    expect(f, "produce t --count 1 --set username=me --set password=wrong", 1, "EAUTH");
    expect(f, "produce t --count 1 --set username=me --set password=secret", 0, "1 messages acknowledged");
}

static void test_cli_topics_in_json(void **state)
{
    struct fixture *f = *state;
    json_t *object = expect_json(f, "topic create fresh --partitions 2");
    assert_true(json_is_true(json_object_get(object, "created")));
    json_decref(object);

    object = expect_json(f, "topic list");
    assert_string_equal(json_string_value(json_object_get(object, "topic")), "fresh");
    assert_int_equal(integer_of(object, "partitions"), 2);
    json_decref(object);

    object = expect_json(f, "topic describe t");
    const json_t *partition = json_array_get(json_object_get(object, "partitions"), 0);
    assert_int_equal(integer_of(partition, "partition"), 0);
    assert_int_equal(integer_of(partition, "leader"), 1);
    assert_int_equal(integer_of(partition, "term"), 1);
    const json_t *replica = json_array_get(json_object_get(partition, "replicas"), 0);
    assert_string_equal(json_string_value(json_object_get(replica, "role")), "leader");
    assert_string_equal(json_string_value(json_object_get(replica, "digest")), "ffffffffffffffff");
    json_decref(object);

    object = expect_json(f, "cluster status");
    assert_int_equal(json_array_size(json_object_get(object, "nodes")), 1);
    assert_int_equal(json_array_size(json_object_get(object, "topics")), 2);
    json_decref(object);
}

/* The fields of the first line of the file @path; returns how many lines it has. */
static size_t read_lines(const char *path, char first[8][64])
{
    char line[512];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (count++ == 0) {
            assert_int_equal(sscanf(line, "%63s %63s %63s %63s %63s %63s %63s %63s", first[0], first[1], first[2],
                                    first[3], first[4], first[5], first[6], first[7]) >= 7,
                             1);
        }
    }
    fclose(file);
    return count;
}

static void test_cli_produce_and_consume_files_agree(void **state)
{
    struct fixture *f = *state;
    char arguments[256], acked[8][64], got[8][64];
    char acked_path[] = "/tmp/lightq-acked-XXXXXX", log_path[] = "/tmp/lightq-log-XXXXXX";
    close(mkstemp(acked_path));
    close(mkstemp(log_path));

    snprintf(arguments, sizeof arguments, "produce t --count 5000 --size 50 --window 100 --acked %s", acked_path);
    json_t *object = expect_json(f, arguments);
    assert_int_equal(integer_of(object, "acked"), 5000);
    assert_int_equal(integer_of(object, "failed"), 0);
    json_decref(object);
    snprintf(arguments, sizeof arguments, "consume t --until-end --log %s", log_path);
    object = expect_json(f, arguments);
    assert_int_equal(integer_of(object, "consumed"), 5000);
    assert_int_equal(integer_of(object, "bytes"), 5000 * 50);
    json_decref(object);

    assert_int_equal(read_lines(acked_path, acked), 5000);
    assert_int_equal(read_lines(log_path, got), 5000);
    assert_int_equal(strlen(acked[0]), 32);        /* cluster */
    assert_string_equal(acked[1], got[0]);         /* topic */
    assert_string_equal(acked[2], got[1]);         /* partition */
    assert_string_equal(acked[3], got[2]);         /* offset */
    assert_string_equal(acked[4], got[3]);         /* producer */
    assert_string_equal(acked[5], got[4]);         /* sequence */
    assert_string_equal(acked[6], "1");            /* term */
    assert_true(strtoul(acked[7], NULL, 10) != 0); /* batch_crc */
    assert_string_equal(got[6], "1");              /* deliveries */
    unlink(acked_path);
    unlink(log_path);
}

static void test_cli_lines_of_input_become_messages(void **state)
{
    struct fixture *f = *state;
    char arguments[256];
    char path[] = "/tmp/lightq-lines-XXXXXX";
    close(mkstemp(path));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("one\n\nthree", file);
    fclose(file);

    snprintf(arguments, sizeof arguments, "produce t --key k < %s", path);
    expect(f, arguments, 0, "3 messages acknowledged");
    snprintf(arguments, sizeof arguments, "produce t --file %s --rate 1000", path);
    expect(f, arguments, 0, "3 messages acknowledged");

    expect(f, "consume t --until-end --print", 0, "one\n\nthree\none\n\nthree\n");
    expect(f, "consume t --from 2 --count 2 --print", 0, "three\none\n");
    expect(f, "--format json consume t --from 2 --count 1 --print", 0, "\"offset\":2,");
    expect(f, "--format json consume t --from 2 --count 1 --print", 0, "\"key\":\"k\",\"value\":\"three\"}\n");
    unlink(path);
}

static void test_cli_until_end_of_empty_topic_ends_at_once(void **state)
{
    struct fixture *f = *state;
    fake_cluster_grow(f->cluster, "t", 3);

    expect(f, "consume t --until-end", 0, "0 messages consumed");
    expect(f, "consume t --from end --until-end", 0, "0 messages consumed");
    fake_cluster_append(f->cluster, "t", 1, 1, "x", 4);

    expect(f, "consume t --until-end", 0, "4 messages consumed");
    expect(f, "consume t --partition 0 --until-end", 0, "0 messages consumed");
}

static void test_cli_failed_messages_exit_1(void **state)
{
    struct fixture *f = *state;
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_ANSWER, .status = LIGHTQ_ENOSPC});

    expect(f, "produce t --count 10 --window 1", 1, "ENOSPC: 1 messages were not acknowledged");

    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .action = FAKE_DROP});
    expect(f, "produce t --count 1 --timeout 2000", 1, "of which 1 may be stored");
}

/* All partitions have a message in flight that is never answered. The sanitizer sees to the stack of idle ones. */
static void test_cli_bench_interrupted_while_it_waits_for_a_partition_ends(void **state)
{
    struct fixture *f = *state;
    char command[1024], output[4096];
    int pid;
    fake_cluster_topic(f->cluster, "spread", FAKE_PARTITIONS_MAX);
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .action = FAKE_DROP});
    snprintf(command, sizeof command,
             "echo $$; LIGHTQ_SERVERS=%s exec %s bench produce spread --count 100 --spread 2>&1",
             fake_cluster_servers(f->cluster), LIGHTQ_CLI);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &pid), 1);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, FAKE_PARTITIONS_MAX));
    assert_int_equal(kill(pid, SIGINT), 0);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 1 << 8);
    assert_non_null(strstr(output, "16 messages were not acknowledged"));
}

static void test_cli_bench_gives_the_numbers(void **state)
{
    static const char *const keys[] = {"acked_per_s", "consumed_per_s", "mb_per_s"};
    struct fixture *f = *state;
    json_t *produced = expect_json(f, "bench produce t --count 2000 --window 100");
    json_t *paced = expect_json(f, "bench produce t --count 50 --rate 1000");
    json_t *consumed = expect_json(f, "bench consume t --count 1000");
    json_t *both = expect_json(f, "bench end-to-end t --count 2000 --size 20");

    assert_int_equal(integer_of(produced, "acked"), 2000);
    assert_true(integer_of(produced, "p50_us") > 0);
    assert_true(integer_of(produced, "p999_us") >= integer_of(produced, "p99_us"));
    assert_int_equal(integer_of(paced, "acked"), 50);
    assert_int_equal(integer_of(consumed, "consumed"), 1000);
    assert_int_equal(integer_of(both, "consumed"), 2000);
    assert_true(integer_of(both, "p50_us") > 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(json_is_real(json_object_get(both, keys[i])));
        assert_true(json_real_value(json_object_get(both, keys[i])) > 0);
    }
    json_decref(produced);
    json_decref(paced);
    json_decref(consumed);
    json_decref(both);
}

/* The whole of a file of the source tree. Free it. */
static char *read_source(const char *name)
{
    char path[1024];
    char *content = calloc(1, OUTPUT_BYTES);
    snprintf(path, sizeof path, "%s/%s", LIGHTQ_SOURCE, name);
    FILE *file = fopen(path, "r");
    assert_non_null(content);
    assert_non_null(file);
    size_t size = fread(content, 1, OUTPUT_BYTES - 1, file);
    content[size] = '\0';
    fclose(file);
    return content;
}

/* When this fails: lightq --man > docs/man/lightq.1, and the same for the settings in liblightq.3. */
static void test_cli_manual_pages_say_what_the_tables_say(void **state)
{
    struct fixture *f = *state;
    struct run *run = malloc(sizeof *run);
    char *command = read_source("docs/man/lightq.1");
    char *library = read_source("docs/man/liblightq.3");
    assert_non_null(run);

    run_cli(f, run, "--man");
    assert_string_equal(run->output, command);
    run_cli(f, run, "--man-settings");
    assert_non_null(strstr(library, run->output));

    free(run);
    free(command);
    free(library);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_cli_wrong_usage_exits_2),
        WITH_FIXTURE(test_cli_help_needs_no_cluster),
        WITH_FIXTURE(test_cli_failure_names_status_and_remedy),
        WITH_FIXTURE(test_cli_wrong_password_is_told),
        WITH_FIXTURE(test_cli_topics_in_json),
        WITH_FIXTURE(test_cli_produce_and_consume_files_agree),
        WITH_FIXTURE(test_cli_lines_of_input_become_messages),
        WITH_FIXTURE(test_cli_until_end_of_empty_topic_ends_at_once),
        WITH_FIXTURE(test_cli_failed_messages_exit_1),
        WITH_FIXTURE(test_cli_bench_gives_the_numbers),
        WITH_FIXTURE(test_cli_bench_interrupted_while_it_waits_for_a_partition_ends),
        WITH_FIXTURE(test_cli_manual_pages_say_what_the_tables_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
