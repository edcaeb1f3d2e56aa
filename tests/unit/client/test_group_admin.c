/* tests/unit/client/test_group_admin.c - making, changing and looking at consumer groups through lightq/group.h:
 * refused before anything is sent, and made once when answers are lost. What the command prints is in test_cli_group.c.
 */
#include "tests/unit/client/client_fixture.h"

#include <lightq/group.h>

static void test_group_create_refuses_options_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct lightq_group_options options, good;
    struct lightq_error error;
    const struct lightq_start nowhere = {.kind = LIGHTQ_START_OFFSET, .offset = -1};
    fixture_open(f, false);
    lightq_group_options_init(&good, LIGHTQ_GROUP_PIPELINE);
    assert_int_equal(good.ack_wait_ms, 30000);
    assert_int_equal(good.max_deliver, 5);

#define REFUSED(change)                                                                                             \
    do {                                                                                                            \
        options = good;                                                                                             \
        change;                                                                                                     \
        assert_int_equal(lightq_group_create(f->client, "t", "g", &options, NULL, WAIT_MS, &error), LIGHTQ_EINVAL); \
    } while (0)
    REFUSED(options.mode = 0);
    REFUSED(options.ack_wait_ms = 0);
    REFUSED(options.ack_wait_ms = 86400001);
    REFUSED(options.max_unsettled = 0);
    REFUSED(options.max_deliver = UINT32_MAX);
    REFUSED(options.backoff_count = LIGHTQ_BACKOFF_MAX + 1);
    REFUSED((options.exclusive = true, options.key_ordered = true));
    REFUSED((options.mode = LIGHTQ_GROUP_SUBSCRIBER, options.key_ordered = true));
#undef REFUSED
    assert_int_equal(lightq_group_create(f->client, "t", "g", &good, &nowhere, WAIT_MS, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_group_create(f->client, "t", "", &good, NULL, WAIT_MS, &error), LIGHTQ_ENAME);
    assert_int_equal(lightq_group_seek(f->client, "t", "g", -2, &nowhere, WAIT_MS, &error), LIGHTQ_EINVAL);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_GROUP_CREATE), 0);
}

/* The answer is lost, the same id goes again: that is no other group. */
static void test_group_create_after_lost_answer_is_made_once(void **state)
{
    struct fixture *f = *state;
    struct lightq_group_options options;
    struct lightq_group_list *list;
    struct lightq_error error;
    fake_cluster_grow(f->cluster, "t", 3);
    fixture_open(f, false);
    lightq_group_options_init(&options, LIGHTQ_GROUP_PIPELINE);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_GROUP_CREATE, .times = 1, .action = FAKE_STORE_CLOSE});
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_GROUP_CREATE,
                                                     .after = 1,
                                                     .times = 1,
                                                     .action = FAKE_STORE_ANSWER,
                                                     .status = LIGHTQ_ELEADERSHIPLOST});

    lightq_status status = lightq_group_create(f->client, "t", "g", &options, NULL, WAIT_MS, &error);

    if (status != LIGHTQ_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, LIGHTQ_OK);
    assert_int_equal(lightq_group_list(f->client, "t", WAIT_MS, &list, &error), LIGHTQ_OK);
    assert_int_equal(list->count, 1);
    assert_string_equal(list->groups[0].name, "g");
    assert_int_equal(list->groups[0].partition_count, 3);
    lightq_result_free(list);
}

static void test_group_delete_after_lost_answer_is_done(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fake_cluster_group(f->cluster, "t", "g", true, 0, 0);
    fixture_open(f, false);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_GROUP_DELETE, .times = 1, .action = FAKE_STORE_CLOSE});

    assert_int_equal(lightq_group_delete(f->client, "t", "g", WAIT_MS, &error), LIGHTQ_OK);
    assert_int_equal(lightq_group_delete(f->client, "t", "g", WAIT_MS, &error), LIGHTQ_ENOTFOUND);
}

static void test_group_describe_shows_who_holds_what(void **state)
{
    struct fixture *f = *state;
    struct lightq_group_info *info;
    struct lightq_consumer *consumer;
    struct lightq_event event = {.kind = LIGHTQ_EVENT_NONE};
    struct lightq_error error;
    fake_cluster_append(f->cluster, "t", 0, 1, "v", 10);
    fake_cluster_group(f->cluster, "t", "g", true, 0, 0);
    fixture_open(f, false);
    assert_int_equal(lightq_consumer_new(f->client, &consumer, NULL), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_join(consumer, "t", "g", LIGHTQ_PARTITION_ANY, WAIT_MS, &error), LIGHTQ_OK);
    while (event.kind != LIGHTQ_EVENT_MESSAGE) {
        assert_int_equal(lightq_consumer_poll(consumer, WAIT_MS, &event), LIGHTQ_OK);
    }
    assert_int_equal(lightq_consumer_ack_sync(consumer, &event.record, WAIT_MS, &error), LIGHTQ_OK);

    assert_int_equal(lightq_group_describe(f->client, "t", "g", WAIT_MS, &info, &error), LIGHTQ_OK);

    assert_int_equal(info->all_count, 1);
    assert_int_equal(info->options.mode, LIGHTQ_GROUP_PIPELINE);
    assert_int_equal(info->partitions[0].status, LIGHTQ_OK);
    assert_int_equal(info->partitions[0].position, 1);
    assert_int_equal(info->partitions[0].end, 10);
    assert_int_equal(info->partitions[0].lag, 9);
    assert_int_equal(info->partitions[0].unsettled, 9);
    assert_string_equal(info->partitions[0].state, "delivering");
    assert_int_equal(info->partitions[0].consumer_count, 1);
    assert_string_equal(info->partitions[0].consumers[0].client_id, "somebody");
    lightq_result_free(info);
    assert_int_equal(lightq_group_describe(f->client, "t", "h", WAIT_MS, &info, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_consumer_close(consumer, WAIT_MS), LIGHTQ_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_group_create_refuses_options_that_cannot_be, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_group_create_after_lost_answer_is_made_once, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_group_delete_after_lost_answer_is_done, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_group_describe_shows_who_holds_what, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
