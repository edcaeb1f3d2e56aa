/* tests/unit/client/test_cli_topic.c - the lightq command: topic alter, topic purge and peek, on pretended servers. */
#include "tests/unit/client/cli_fixture.h"

#include <lightq/producer.h>

static void test_cli_alter_says_what_there_is_then(void **state)
{
    struct fixture *f = *state;

    json_t *object = expect_json(f, "topic alter t --partitions 3 --config retention.ms=5000");

    assert_true(json_is_true(json_object_get(object, "altered")));
    assert_int_equal(integer_of(object, "partitions"), 3);
    json_decref(object);
    expect(f, "topic describe t", 0, "retention.ms=5000");
    expect(f, "topic describe t", 0, "online         first         last      durable    committed      applied");
    expect(f, "topic alter t --config retention.ms=1", 0, "topic t altered: 3 partitions");
    expect(f, "topic alter t --partitions 2", 1, "lightq: EINVAL: their number only grows");
    expect(f, "topic alter nope --partitions 2", 1, "lightq: ENOTFOUND: ");
}

static void test_cli_create_transient_is_refused_by_name(void **state)
{
    struct fixture *f = *state;

    expect(f, "topic create passing --transient", 1, "lightq: EUNSUPPORTED: transient: ");

    expect(f, "topic describe passing --timeout 300", 1, "ENOTFOUND");
    expect(f, "topic alter passing --transient", 2, "no option --transient here");
}

static void test_cli_purge_all_partitions_or_up_to_an_offset(void **state)
{
    struct fixture *f = *state;
    fake_cluster_grow(f->cluster, "t", 2);
    fake_cluster_append(f->cluster, "t", 0, 9, "a", 6);
    fake_cluster_append(f->cluster, "t", 1, 9, "b", 4);

    json_t *object = expect_json(f, "topic purge t --partition 0 --to 2");
    assert_int_equal(integer_of(object, "log_start"), 2);
    assert_int_equal(integer_of(object, "log_end"), 6);
    assert_false(json_is_true(json_object_get(object, "held")));
    json_decref(object);
    expect(f, "topic purge t --partition 0 --to 2", 0, "t/0 begins at offset 2 now and ends at 6"); /* again */
    expect(f, "topic purge t --partition 0 --to 9", 1, "lightq: EOUTOFRANGE: partition t/0: ");
    expect(f, "topic purge t --partition 0 --to start", 0, "t/0 begins at offset 2 now");
    expect(f, "topic purge t", 0,
           "t/0 begins at offset 6 now and ends at 6\nt/1 begins at offset 4 now and ends at 4\n");
    expect(f, "topic purge nope", 1, "ENOTFOUND");
    expect(f, "consume t --partition 0 --from 3", 1, "EOUTOFRANGE");
}

static void test_cli_peek_shows_all_about_a_message(void **state)
{
    struct fixture *f = *state;
    struct lightq_producer *producer;
    static const unsigned char odd[] = {0xff, 0, 'x'};
    const struct lightq_header headers[] = {{"kind", 4, "late", 4}, {"empty", 5, NULL, 0}};
    struct lightq_message message = {.topic = "t",
                                     .partition = 0,
                                     .timestamp_ms = 1769903999123,
                                     .key = "k\"1",
                                     .key_size = 3,
                                     .value = "hello\n",
                                     .value_size = 6,
                                     .headers = headers,
                                     .header_count = 2};
    fixture_open(f, true);
    producer = f->producer;
    assert_int_equal(lightq_producer_send(producer, &message), LIGHTQ_OK);
    message = (struct lightq_message){
        .topic = "t", .partition = 0, .timestamp_ms = 1769903999124, .value = odd, .value_size = sizeof odd};
    assert_int_equal(lightq_producer_send(producer, &message), LIGHTQ_OK);
    assert_int_equal(lightq_producer_flush(producer, FAKE_WAIT_MS), LIGHTQ_OK);

    expect(f, "peek t", 0,
           "t/0 0  2026-01-31T23:59:59.123Z  6 bytes  key \"k\\\"1\"  header \"kind\"=\"late\"  header "
           "\"empty\"=null  value \"hello\\x0a\"\n"
           "t/0 1  2026-01-31T23:59:59.124Z  3 bytes  value \"\\xff\\x00x\"\n");
    json_t *object = expect_json(f, "peek t --count 1");
    assert_int_equal(integer_of(object, "offset"), 0);
    assert_int_equal(integer_of(object, "time_ms"), 1769903999123);
    assert_int_equal(integer_of(object, "size"), 6);
    assert_string_equal(json_string_value(json_object_get(object, "key")), "k\"1");
    assert_string_equal(json_string_value(json_object_get(object, "value")), "hello\n");
    const json_t *first = json_array_get(json_object_get(object, "headers"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "kind");
    assert_string_equal(json_string_value(json_object_get(first, "value")), "late");
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(object, "headers"), 1), "value")));
    json_decref(object);
    object = expect_json(f, "peek t --partition 0 --from 1");
    assert_true(json_is_null(json_object_get(object, "key")));
    assert_string_equal(json_string_value(json_object_get(object, "value_base64")), "/wB4");
    json_decref(object);
}

static void test_cli_produce_expects_an_offset(void **state)
{
    struct fixture *f = *state;
    fake_cluster_append(f->cluster, "t", 0, 9, "a", 5);

    expect(f, "produce t --partition 0 --expected-offset 5 --count 3", 0, "3 messages acknowledged");
    expect(f, "produce t --partition 0 --expected-offset 5 --count 2", 1, "lightq: EEXPECTED: 2 messages were not");
    expect(f, "produce t --expected-offset 8 --count 1", 2, "--expected-offset goes with --partition");
    expect(f, "topic purge t --partition 0", 0, "ends at 8");
}

static void test_cli_peek_goes_through_partitions_and_ends(void **state)
{
    struct fixture *f = *state;
    struct run run;
    fake_cluster_grow(f->cluster, "t", 3);
    fake_cluster_append(f->cluster, "t", 0, 9, "a", 2);
    fake_cluster_append(f->cluster, "t", 2, 9, "c", 20);
    fake_cluster_trim(f->cluster, "t", 2, 3);

    run_cli(f, &run, "peek t --count 4");

    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.output, "t/0 0  "));
    assert_non_null(strstr(run.output, "t/0 1  "));
    assert_non_null(strstr(run.output, "t/2 3  "));
    assert_non_null(strstr(run.output, "t/2 4  "));
    assert_null(strstr(run.output, "t/2 5  "));
    expect(f, "peek t --from 1", 2, "--from OFFSET goes with --partition");
    expect(f, "peek t --partition 2 --from 1", 1, "EOUTOFRANGE");
    expect(f, "peek t --partition 9", 1, "ENOTFOUND");
    run_cli(f, &run, "peek t --from end");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.output, "");
    run_cli(f, &run, "peek t --partition 2 --from 18");
    assert_non_null(strstr(run.output, "t/2 19  "));
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_GROUP_CREATE), 0);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_COMMIT), 0);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_cli_alter_says_what_there_is_then),
        WITH_FIXTURE(test_cli_create_transient_is_refused_by_name),
        WITH_FIXTURE(test_cli_purge_all_partitions_or_up_to_an_offset),
        WITH_FIXTURE(test_cli_peek_shows_all_about_a_message),
        WITH_FIXTURE(test_cli_produce_expects_an_offset),
        WITH_FIXTURE(test_cli_peek_goes_through_partitions_and_ends),
    };
    return cmocka_run_group_tests_name("cli_topic", tests, NULL, NULL);
}
