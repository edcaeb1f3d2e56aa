/* tests/unit/node/test_groups.c - node/groups.c, groups_describe.c and the subscriber groups of consume.c on a real
 * partition and store: making, changing and looking at groups, positions, and nonsense. */
#include "tests/unit/node/group_fixture.h"

#include "client/base/limits.h"
#include "node/groups.h"

static Lightq__Wire__GroupOptions options_of(Lightq__Wire__GroupMode mode)
{
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    options.mode = mode;
    return options;
}

static void test_groups_create_gives_what_is_there_with_defaults(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions options = options_of(PIPELINE);
    store(f, 1);

    const Lightq__Wire__GroupCreateAnswer *answer = create_with(f, "g", 3, &options, NULL);

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_true(answer->group_number > 0 && answer->generation == answer->group_number);
    assert_int_equal(answer->position, 0);
    assert_int_equal(answer->group_id.data[0], 3);
    assert_int_equal(answer->options->mode, PIPELINE);
    assert_int_equal(answer->options->ack_wait_ms, LQ_CGROUP_ACK_WAIT_MS_DEFAULT);
    assert_int_equal(answer->options->max_deliver, LQ_CGROUP_MAX_DELIVER_DEFAULT);
    assert_int_equal(answer->options->max_unsettled, LQ_CGROUP_UNSETTLED_DEFAULT);
}

static void test_groups_create_again_is_ok_with_the_same_id_only(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions options = options_of(PIPELINE);
    Lightq__Wire__GroupOptions others = options_of(SUBSCRIBER);
    assert_int_equal(create_with(f, "g", 3, &options, NULL)->status, LIGHTQ_OK);
    uint64_t number = f->number;

    assert_int_equal(create_with(f, "g", 3, &options, NULL)->group_number, number);
    const Lightq__Wire__GroupCreateAnswer *other = create_with(f, "g", 4, &others, NULL);

    assert_int_equal(other->status, LIGHTQ_EEXISTS);
    assert_int_equal(other->group_number, number);
    assert_int_equal(other->group_id.data[0], 3); /* to go on with */
    assert_int_equal(other->options->mode, PIPELINE);
}

static void test_groups_create_of_nonsense_is_refused(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions none = options_of(LIGHTQ__WIRE__GROUP_MODE__GROUP_MODE_NONE);
    Lightq__Wire__GroupOptions both = options_of(PIPELINE);
    Lightq__Wire__GroupOptions good = options_of(PIPELINE);
    Lightq__Wire__GroupOptions slow = options_of(PIPELINE);
    Lightq__Wire__GroupOptions many = options_of(PIPELINE);
    Lightq__Wire__Start beyond = LIGHTQ__WIRE__START__INIT;
    Lightq__Wire__Start odd = LIGHTQ__WIRE__START__INIT;
    uint32_t delays[LQ_CGROUP_BACKOFF_MAX + 1] = {1};
    both.exclusive = both.key_ordered = true;
    slow.ack_wait_ms = LQ_CGROUP_ACK_WAIT_MS_MAX + 1;
    many.backoff_ms = delays;
    many.n_backoff_ms = LQ_CGROUP_BACKOFF_MAX + 1;
    beyond.kind = LIGHTQ__WIRE__START_KIND__START_OFFSET;
    beyond.value = 7;
    odd.kind = (Lightq__Wire__StartKind)9;

    assert_int_equal(create_with(f, "g", 1, NULL, NULL)->status, LIGHTQ_EINVAL);
    assert_int_equal(create_with(f, "g", 1, &none, NULL)->status, LIGHTQ_EINVAL);
    assert_int_equal(create_with(f, "g", 1, &both, NULL)->status, LIGHTQ_EINVAL);
    assert_int_equal(create_with(f, "g", 1, &slow, NULL)->status, LIGHTQ_EINVAL);
    assert_int_equal(create_with(f, "g", 1, &many, NULL)->status, LIGHTQ_EINVAL);
    assert_int_equal(create_with(f, "g", 0, &good, NULL)->status, LIGHTQ_EINVAL);
    assert_int_equal(create_with(f, "", 1, &good, NULL)->status, LIGHTQ_ENAME);
    assert_int_equal(create_with(f, "a b", 1, &good, NULL)->status, LIGHTQ_ENAME);
    assert_int_equal(create_with(f, "g", 1, &good, &beyond)->status, LIGHTQ_EOUTOFRANGE);
    assert_int_equal(create_with(f, "g", 1, &good, &odd)->status, LIGHTQ_EUNSUPPORTED);
    assert_int_equal(describe(f, "g")->status, LIGHTQ_ENOTFOUND);
}

static void test_groups_start_at_end_and_at_a_time_is_found(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions options = options_of(PIPELINE);
    Lightq__Wire__Start start = LIGHTQ__WIRE__START__INIT;
    store(f, 3);
    solo_node_advance(&f->solo, 5000);
    outlet_forget(&f->solo.outlet); /* signs of life */
    start.kind = LIGHTQ__WIRE__START_KIND__START_TIME;
    start.value = lq_clock_wall_ms(&f->solo.clock.clock) - 1000;
    store(f, 2);

    const Lightq__Wire__GroupCreateAnswer *timed = create_with(f, "timed", 1, &options, &start);
    assert_int_equal(timed->status, LIGHTQ_OK);
    assert_int_equal(timed->position, 3 * BATCH);
    assert_int_equal(describe(f, "timed")->start->value, start.value);
    start.kind = LIGHTQ__WIRE__START_KIND__START_END;

    assert_int_equal(create_with(f, "late", 1, &options, &start)->position, 5 * BATCH);
}

static void test_groups_seek_to_a_time_of_a_client_that_leaves_is_dropped(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);

    say_seek(f, "g", LIGHTQ__WIRE__START_KIND__START_TIME, 1);
    lq_sessions_closed(f->solo.service.sessions, PEER);

    assert_silence(f);
    solo_node_hello(&f->solo, PEER);
    assert_int_equal(describe(f, "g")->generation, f->generation);
}

static void test_groups_commit_moves_the_position_forward_only(void **state)
{
    struct fixture *f = *state;
    store(f, 2);
    create(f, "g", SUBSCRIBER);

    assert_int_equal(commit(f, FIRST, 7)->status, LIGHTQ_OK);
    const Lightq__Wire__CommitAnswer *back = commit(f, FIRST, 5);
    assert_int_equal(back->status, LIGHTQ_ESETTLED);
    assert_int_equal(back->position, 7);
    assert_int_equal(commit(f, FIRST, 2 * BATCH + 1)->status, LIGHTQ_EOUTOFRANGE);
    f->generation++;
    assert_int_equal(commit(f, FIRST, 9)->status, LIGHTQ_EFENCED);
    f->number++;
    assert_int_equal(commit(f, FIRST, 9)->status, LIGHTQ_ENOTFOUND);

    const Lightq__Wire__GroupDescribeAnswer *group = describe(f, "g");
    assert_int_equal(group->position, 7);
    assert_int_equal(group->lag, 2 * BATCH - 7);
}

static void test_groups_subscribers_each_get_all_from_the_position(void **state)
{
    struct fixture *f = *state;
    store(f, 2);
    create(f, "g", SUBSCRIBER);
    assert_int_equal(commit(f, FIRST, BATCH)->status, LIGHTQ_OK);

    const Lightq__Wire__SubscribeAnswer *answer = subscribe(f, FIRST, "g", MUCH);
    assert_int_equal(answer->offset, BATCH);
    assert_int_equal(answer->group_number, f->number);
    assert_int_equal(answer->options->mode, SUBSCRIBER);
    assert_int_equal(delivered(f, FIRST)->first_wanted, BATCH);
    subscribe_ok(f, OTHER, "g", MUCH);

    const Lightq__Wire__Deliver *deliver = delivered(f, OTHER);
    assert_int_equal(deliver->first_wanted, BATCH);
    assert_int_equal(deliver->n_grants, 0);
    assert_int_equal(describe(f, "g")->consumer_count, 2);
}

static void test_groups_position_is_kept_over_a_change_of_the_leader(void **state)
{
    struct fixture *f = *state;
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(f->solo.meta), "t");
    struct lq_partition *partition = lq_meta_partition(f->solo.meta, topic->partitions[0].group);
    store(f, 2);
    create(f, "g", SUBSCRIBER);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)delivered(f, FIRST);
    (void)delivered(f, FIRST);
    assert_int_equal(commit(f, FIRST, 13)->status, LIGHTQ_OK);

    lq_partition_machine_ops.follow(partition, lq_partition_leader(partition), lq_partition_term(partition));
    const Lightq__Wire__SubscriptionEnded *ended = answered(f, FIRST, LQ_MESSAGE_SUBSCRIPTION_ENDED);
    assert_true(ended->status == LIGHTQ_ENOLEADER || ended->status == LIGHTQ_ENOTLEADER);
    const Lightq__Wire__CommitAnswer *early = commit(f, FIRST, 20);
    assert_true(early->status == LIGHTQ_ENOLEADER || early->status == LIGHTQ_ENOTLEADER);
    lq_partition_machine_ops.lead(partition, lq_partition_term(partition));

    assert_int_equal(subscribe(f, FIRST, "g", MUCH)->offset, 13);
    assert_int_equal(delivered(f, FIRST)->first_wanted, 13);
    assert_int_equal(commit(f, FIRST, 20)->position, 20);
}

static void test_groups_exclusive_subscriber_is_followed_by_the_next(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions options = options_of(SUBSCRIBER);
    options.exclusive = true;
    store(f, 2);
    assert_int_equal(create_with(f, "g", 1, &options, NULL)->status, LIGHTQ_OK);
    assert_false(subscribe(f, FIRST, "g", BATCH)->standby);
    assert_int_equal(delivered(f, FIRST)->first_wanted, 0);
    assert_true(subscribe(f, OTHER, "g", MUCH)->standby);
    assert_silence(f);
    assert_int_equal(commit(f, FIRST, 4)->status, LIGHTQ_OK);

    unsubscribe(f, FIRST);

    assert_int_equal(delivered(f, OTHER)->first_wanted, 4);
    assert_int_equal(delivered(f, OTHER)->first_wanted, BATCH);
}

static void test_groups_moved_subscriber_group_ends_subscriptions(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", SUBSCRIBER);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)delivered(f, FIRST);

    say_seek(f, "g", LIGHTQ__WIRE__START_KIND__START_END, 0);
    solo_node_until_sent(&f->solo, 2);

    for (int i = 0; i < 2; i++) { /* in any order */
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        if (sent->envelope.type == LQ_MESSAGE_SUBSCRIPTION_ENDED) {
            const Lightq__Wire__SubscriptionEnded *ended = sent->body;
            assert_int_equal(ended->status, LIGHTQ_EFENCED);
        } else {
            const Lightq__Wire__GroupSeekAnswer *moved = sent->body;
            assert_int_equal(sent->envelope.type, LQ_MESSAGE_GROUP_SEEK_ANSWER);
            assert_int_equal(moved->position, BATCH);
        }
    }
    assert_int_equal(commit(f, FIRST, BATCH)->status, LIGHTQ_EFENCED);
    assert_int_equal(subscribe(f, FIRST, "g", MUCH)->offset, BATCH);
}

static void test_groups_paused_subscriber_group_waits(void **state)
{
    struct fixture *f = *state;
    create(f, "g", SUBSCRIBER);
    subscribe_ok(f, FIRST, "g", MUCH);
    say_pause(f, "g", true);
    (void)answered(f, PEER, LQ_MESSAGE_GROUP_ALTER_ANSWER);
    store(f, 1);
    assert_silence(f);

    say_pause(f, "g", false);
    solo_node_until_sent(&f->solo, 2);

    (void)answered(f, PEER, LQ_MESSAGE_GROUP_ALTER_ANSWER);
    assert_int_equal(delivered(f, FIRST)->first_wanted, 0);
}

static void test_groups_alter_changes_what_the_mask_names(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupAlter body = LIGHTQ__WIRE__GROUP_ALTER__INIT;
    Lightq__Wire__GroupOptions options = options_of(PIPELINE);
    uint32_t delays[] = {10, 100};
    create(f, "g", PIPELINE);
    options.ack_wait_ms = 500;
    options.max_deliver = UINT32_MAX;
    options.backoff_ms = delays;
    options.n_backoff_ms = 2;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string("g");
    body.options = &options;
    body.mask = LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_MAX_DELIVER | LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_BACKOFF;

    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_ALTER, &body.base, NULL);
    const Lightq__Wire__GroupAlterAnswer *answer = answered(f, PEER, LQ_MESSAGE_GROUP_ALTER_ANSWER);

    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_int_equal(answer->options->ack_wait_ms, LQ_CGROUP_ACK_WAIT_MS_DEFAULT);
    assert_int_equal(answer->options->max_deliver, UINT32_MAX);
    assert_int_equal(answer->options->n_backoff_ms, 2);
    assert_int_equal(answer->options->backoff_ms[1], 100);
    body.mask = 1u << 20;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_ALTER, &body.base, NULL);
    answer = answered(f, PEER, LQ_MESSAGE_GROUP_ALTER_ANSWER);
    assert_int_equal(answer->status, LIGHTQ_EINVAL);
}

static void test_groups_list_is_by_name_and_goes_on_behind_one(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupList body = LIGHTQ__WIRE__GROUP_LIST__INIT;
    create(f, "b", PIPELINE);
    create(f, "a", SUBSCRIBER);
    create(f, "c", PIPELINE);
    subscribe_ok(f, FIRST, "c", MUCH);
    subscribe_ok(f, OTHER, "a", MUCH);
    body.topic = lq_codec_bytes_of(&f->topic);

    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_LIST, &body.base, NULL);
    const Lightq__Wire__GroupListAnswer *all = answered(f, PEER, LQ_MESSAGE_GROUP_LIST_ANSWER);
    assert_int_equal(all->status, LIGHTQ_OK);
    assert_int_equal(all->n_groups, 3);
    assert_string_equal(all->groups[0]->name, "a");
    assert_string_equal(all->groups[2]->name, "c");
    assert_int_equal(all->groups[0]->consumers, 1);
    assert_int_equal(all->groups[1]->consumers, 0);
    assert_int_equal(all->groups[2]->consumers, 1);
    assert_false(all->more);
    body.after = lq_codec_string("b");

    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_LIST, &body.base, NULL);
    const Lightq__Wire__GroupListAnswer *rest = answered(f, PEER, LQ_MESSAGE_GROUP_LIST_ANSWER);
    assert_int_equal(rest->n_groups, 1);
    assert_string_equal(rest->groups[0]->name, "c");
}

static void test_groups_describe_shows_who_holds_what(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    const Lightq__Wire__GroupDescribeAnswer *group = describe(f, "g");
    assert_int_equal(group->state, LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CONSUMER);
    assert_int_equal(group->lag, BATCH);
    subscribe_ok(f, FIRST, "g", 4);
    (void)delivered(f, FIRST);
    solo_node_advance(&f->solo, 2000);

    group = describe(f, "g");

    assert_int_equal(group->state, LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CREDIT);
    assert_true(strlen(group->reason) > 0);
    assert_int_equal(group->held, 4);
    assert_int_equal(group->unsettled, 4);
    assert_int_equal(group->held_first, 0);
    assert_true(group->held_ms_left > 0 && group->held_ms_left <= LQ_CGROUP_ACK_WAIT_MS_DEFAULT - 2000);
    assert_true(group->lag_ms >= 2000);
    assert_int_equal(group->n_consumers, 1);
    assert_int_equal(group->consumers[0]->held, 4);
    assert_int_equal(group->consumers[0]->subscription, 1);
    assert_true(group->consumers[0]->session != 0);
}

static void test_groups_change_that_is_not_durable_in_time_is_told_so(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions options = options_of(PIPELINE);
    Lightq__Wire__GroupCreate body = LIGHTQ__WIRE__GROUP_CREATE__INIT;
    struct lq_id id = {.bytes = {1}};
    body.topic = lq_codec_bytes_of(&f->topic);
    body.consumer_group = lq_codec_string("g");
    body.group_id = lq_codec_bytes_of(&id);
    body.options = &options;
    body.timeout_ms = 50;
    (void)solo_node_say(&f->solo, PEER, LQ_MESSAGE_GROUP_CREATE, &body.base, NULL);
    solo_node_turn_without_disk(&f->solo);
    f->solo.clock.now_us += 60000;

    lq_groups_tick(f->solo.service.groups);

    const Lightq__Wire__GroupCreateAnswer *answer =
        outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_GROUP_CREATE_ANSWER)->body;
    assert_int_equal(answer->status, LIGHTQ_ETIMEDOUT);
    assert_silence(f); /* it is answered once */
    assert_int_equal(describe(f, "g")->status, LIGHTQ_OK);
}

static void test_groups_of_another_topic_or_partition_are_not_found(void **state)
{
    struct fixture *f = *state;
    create(f, "g", PIPELINE);
    f->topic.bytes[0] ^= 1;
    assert_int_not_equal(describe(f, "g")->status, LIGHTQ_OK);
    assert_int_not_equal(commit(f, FIRST, 0)->status, LIGHTQ_OK);
    say_settle(f, FIRST, ACK, 0, 1);
    const Lightq__Wire__SettleAnswer *answer = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_not_equal(answer->status, LIGHTQ_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, group_setup, group_teardown)
        TEST(test_groups_create_gives_what_is_there_with_defaults),
        TEST(test_groups_create_again_is_ok_with_the_same_id_only),
        TEST(test_groups_create_of_nonsense_is_refused),
        TEST(test_groups_start_at_end_and_at_a_time_is_found),
        TEST(test_groups_seek_to_a_time_of_a_client_that_leaves_is_dropped),
        TEST(test_groups_commit_moves_the_position_forward_only),
        TEST(test_groups_subscribers_each_get_all_from_the_position),
        TEST(test_groups_position_is_kept_over_a_change_of_the_leader),
        TEST(test_groups_exclusive_subscriber_is_followed_by_the_next),
        TEST(test_groups_moved_subscriber_group_ends_subscriptions),
        TEST(test_groups_paused_subscriber_group_waits),
        TEST(test_groups_alter_changes_what_the_mask_names),
        TEST(test_groups_list_is_by_name_and_goes_on_behind_one),
        TEST(test_groups_describe_shows_who_holds_what),
        TEST(test_groups_change_that_is_not_durable_in_time_is_told_so),
        TEST(test_groups_of_another_topic_or_partition_are_not_found),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
