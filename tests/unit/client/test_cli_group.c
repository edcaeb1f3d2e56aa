/* tests/unit/client/test_cli_group.c - the verbs of consumer groups and consume --group, on pretended servers. */
#include "tests/unit/client/cli_fixture.h"

#include <stdlib.h>
#include <unistd.h>

static void test_cli_group_wrong_usage_exits_2(void **state)
{
    static const char *const wrong[] = {
        "group",
        "group create t",
        "group create t g",
        "group create t g --mode queue",
        "group create t g --mode pipeline --exclusive --key-ordered",
        "group create t g --mode subscriber --key-ordered",
        "group create t g --mode subscriber --ack-wait 5",
        "group create t g --mode pipeline --ack-wait 0",
        "group create t g --mode pipeline --backoff 1,,2",
        "group create t g --mode pipeline --backoff ''",
        "group create t g --mode pipeline --from yesterday",
        "group create t g --mode pipeline --from 2026-02-30",
        "group alter t g",
        "group seek t g",
        "group seek t g --to 12:00",
        "topic purge t --group g --to 4",
        "explain",
        "explain /0",
        "explain t/",
        "explain t/x",
        "consume t --ack none",
        "consume t --group g --ack maybe",
        "consume t --group g --from start",
        "consume t --group g --until-end",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect(f, wrong[i], 2, "lightq: ");
    }
}

static void test_cli_group_life(void **state)
{
    struct fixture *f = *state;
    fake_cluster_append(f->cluster, "t", 0, 1, "v", 10);

    expect(f, "group create t g --mode pipeline --ack-wait 5000 --max-deliver 3 --backoff 10,20", 0,
           "group g of topic t created");
    expect(f, "group create t g --mode pipeline", 1, "lightq: EEXISTS: topic t has a group g, of other options");
    expect(f, "group create t h --mode subscriber --from end", 0, "created");
    expect(f, "group create t i --mode pipeline --from 11", 1, "EOUTOFRANGE");
    expect(f, "group create t i --mode pipeline --from 2026-01-31T23:59:59Z", 0, "created");
    expect(f, "group list t", 0, "g\tpipeline\t1 partitions");
    expect(f, "group list t", 0, "h\tsubscriber\t1 partitions");
    expect(f, "group pause t g", 0, "paused");
    expect(f, "group list t", 0, "g\tpipeline\t1 partitions\tpaused");
    expect(f, "group resume t g", 0, "resumed");
    expect(f, "group alter t g --ack-wait 9", 0, "altered");
    expect(f, "group seek t g --to 4", 0, "moved");
    expect(f, "group seek t g --to 40", 1, "EOUTOFRANGE");
    expect(f, "topic purge t --group g", 0, "group g of topic t purged");
    expect(f, "topic purge t --group nobody", 1, "ENOTFOUND");
    expect(f, "group delete t g", 0, "deleted");
    expect(f, "group delete t g", 1, "ENOTFOUND: topic t has no group g");
    expect(f, "group describe t g", 1, "ENOTFOUND");
    expect(f, "group pause t g", 1, "ENOTFOUND");
    expect(f, "group list nope", 1, "ENOTFOUND");
    expect(f, "group create t 'a b' --mode pipeline", 1, "ENAME");
}

/* Made in every partition with one id; what somebody else did not finish is finished. */
static void test_cli_group_of_many_partitions(void **state)
{
    struct fixture *f = *state;
    fake_cluster_grow(f->cluster, "t", 3);
    expect(f, "group create t g --mode pipeline --from 5", 1, "an offset is no place in all of them");
    expect(f, "group create t g --mode pipeline", 0, "created");
    expect(f, "group list t", 0, "g\tpipeline\t3 partitions");

    fake_cluster_group_drop(f->cluster, "t", "g", 2);
    expect(f, "group list t", 0, "g\tpipeline\t2 partitions");
    expect(f, "group create t g --mode pipeline", 0, "created");
    expect(f, "group list t", 0, "g\tpipeline\t3 partitions");
    expect(f, "group create t g --mode pipeline", 1, "EEXISTS");

    fake_cluster_lead(f->cluster, "t", 1, 0);
    json_t *object = expect_json(f, "group describe t g --timeout 900");
    const json_t *partitions = json_object_get(object, "partitions");
    assert_int_equal(json_array_size(partitions), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(partitions, 0), "status")), "OK");
    assert_string_equal(json_string_value(json_object_get(json_array_get(partitions, 1), "status")), "EUNAVAILABLE");
    assert_string_equal(json_string_value(json_object_get(json_array_get(partitions, 2), "status")), "OK");
    json_decref(object);
}

static void test_cli_group_describe_shows_the_columns(void **state)
{
    struct fixture *f = *state;
    fake_cluster_append(f->cluster, "t", 0, 1, "v", 10);
    expect(f, "group create t g --mode pipeline", 0, "created");

    expect(f, "group describe t g", 0, "GROUP ");
    expect(f, "group describe t g", 0, "LAG-TIME UNSETTLED REDELIVERED CONSUMER");
    json_t *object = expect_json(f, "group describe t g");
    const json_t *partition = json_array_get(json_object_get(object, "partitions"), 0);
    assert_string_equal(json_string_value(json_object_get(object, "mode")), "pipeline");
    assert_int_equal(integer_of(object, "max_deliver"), 5);
    assert_int_equal(integer_of(partition, "position"), 0);
    assert_int_equal(integer_of(partition, "end"), 10);
    assert_int_equal(integer_of(partition, "lag"), 10);
    assert_int_equal(integer_of(partition, "unsettled"), 0);
    json_decref(object);
}

static unsigned count_lines(const char *path)
{
    unsigned count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) {
        count += c == '\n';
    }
    fclose(file);
    return count;
}

static void test_cli_consume_group_settles_what_it_logged(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/lightq-test-group-XXXXXX";
    char command[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fake_cluster_append(f->cluster, "t", 0, 1, "v", 1000);
    fake_cluster_group(f->cluster, "t", "g", true, 0, 0);

    snprintf(command, sizeof command, "consume t --group g --count 600 --log %s", path);
    json_t *object = expect_json(f, command);
    assert_int_equal(integer_of(object, "consumed"), 600);
    assert_int_equal(integer_of(object, "redelivered"), 0);
    json_decref(object);
    assert_int_equal(count_lines(path), 600);
    assert_true(fake_cluster_wait_settled(f->cluster, "t", "g", 600));
    expect(f, "consume t --group g --idle-exit 200", 0, "400 messages consumed");
    unlink(path);

    assert_true(fake_cluster_wait_settled(f->cluster, "t", "g", 1000));
}

static void test_cli_consume_group_none_and_nack_leave_it_unsettled(void **state)
{
    struct fixture *f = *state;
    fake_cluster_append(f->cluster, "t", 0, 1, "v", 2);
    fake_cluster_group(f->cluster, "t", "g", true, 0, 2);

    expect(f, "consume t --group g --ack none --count 2", 0, "2 messages consumed");
    assert_int_equal(fake_cluster_outcome(f->cluster, "t", "g", 0, 0).failed, 0);
    expect(f, "consume t --group g --ack nack --idle-exit 300", 0, "4 messages consumed");

    assert_true(fake_cluster_outcome(f->cluster, "t", "g", 0, 0).dead);
    assert_int_equal(fake_cluster_outcome(f->cluster, "t", "g", 0, 1).failed, 2);
}

static void test_cli_consume_subscriber_group_commits(void **state)
{
    struct fixture *f = *state;
    fake_cluster_append(f->cluster, "t", 0, 1, "v", 10);
    fake_cluster_group(f->cluster, "t", "g", false, 0, 0);

    expect(f, "consume t --group g --ack none --count 10", 0, "10 messages consumed");
    expect(f, "consume t --group g --count 4", 0, "4 messages consumed");
    assert_true(fake_cluster_wait_settled(f->cluster, "t", "g", 4));
    expect(f, "consume t --group g --idle-exit 200", 0, "6 messages consumed");

    assert_true(fake_cluster_wait_settled(f->cluster, "t", "g", 10));
    expect(f, "consume t --group nope", 1, "there is no group nope");
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_cli_group_wrong_usage_exits_2),
        WITH_FIXTURE(test_cli_group_life),
        WITH_FIXTURE(test_cli_group_of_many_partitions),
        WITH_FIXTURE(test_cli_group_describe_shows_the_columns),
        WITH_FIXTURE(test_cli_consume_group_settles_what_it_logged),
        WITH_FIXTURE(test_cli_consume_group_none_and_nack_leave_it_unsettled),
        WITH_FIXTURE(test_cli_consume_subscriber_group_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
