/* tests/unit/node/test_pipeline.c - node/pipeline.c, pipeline_deliver.c and settle.c on a real partition and store: who
 * is granted what, results, leases that end, and consumers that go, stand still or are moved. */
#include "tests/unit/node/group_fixture.h"

#include "node/pipeline.h"
#include "node/queue/partition_groups.h"

#define ACK_WAIT_MS 30000

static void test_pipeline_one_consumer_is_granted_all_and_settles_all(void **state)
{
    struct fixture *f = *state;
    store(f, 3);
    create(f, "g", PIPELINE);

    subscribe_ok(f, FIRST, "g", MUCH);
    for (uint64_t i = 0; i < 3; i++) {
        const Lightq__Wire__Deliver *deliver = delivered(f, FIRST);
        assert_granted(deliver, i * BATCH, BATCH, 1);
        assert_int_equal(deliver->ack_wait_ms, ACK_WAIT_MS);
    }
    assert_int_equal(settle(f, FIRST, ACK, 0, 3 * BATCH)->taken, 3 * BATCH);

    const Lightq__Wire__GroupDescribeAnswer *group = describe(f, "g");
    assert_int_equal(group->position, 3 * BATCH);
    assert_int_equal(group->lag, 0);
    assert_int_equal(group->held, 0);
    assert_int_equal(group->state, LIGHTQ__WIRE__GROUP_STATE__GROUP_DRAINED);
}

static void test_pipeline_two_consumers_share_and_no_message_goes_to_both(void **state)
{
    struct fixture *f = *state;
    lq_peer to[10 * BATCH] = {0};
    unsigned of_first = 0;
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    subscribe_ok(f, OTHER, "g", MUCH);

    for (unsigned i = 0; i < 10; i++) {
        (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(5, i * BATCH, BATCH, 100));
        solo_node_until_sent(&f->solo, 2);
        (void)outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
        (void)take_granted(f, to, 10 * BATCH);
    }

    for (unsigned i = 0; i < 10 * BATCH; i++) {
        assert_true(to[i] == FIRST || to[i] == OTHER);
        of_first += to[i] == FIRST;
    }
    assert_int_equal(of_first, 5 * BATCH); /* each in its turn */
}

static void test_pipeline_credit_bounds_what_is_granted_of_a_batch(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);

    subscribe_ok(f, FIRST, "g", 4);
    assert_granted(delivered(f, FIRST), 0, 4, 1);
    assert_silence(f);
    credit(f, FIRST, 2);
    assert_granted(delivered(f, FIRST), 4, 2, 1);
    subscribe_ok(f, OTHER, "g", MUCH);

    assert_granted(delivered(f, OTHER), 6, 4, 1);
}

static void test_pipeline_nack_is_delivered_again_and_counted(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);

    say_settle(f, FIRST, NACK, 3, 1);
    solo_node_until_sent(&f->solo, 2);

    const Lightq__Wire__SettleAnswer *answer = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(answer->taken, 1);
    assert_granted(delivered(f, FIRST), 3, 1, 2);
    const Lightq__Wire__GroupDescribeAnswer *group = describe(f, "g");
    assert_int_equal(group->failed, 1);
    assert_int_equal(group->redelivered, 1);
}

static void test_pipeline_results_that_come_late_or_twice_are_told_apart(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", 5);
    assert_granted(delivered(f, FIRST), 0, 5, 1);
    assert_int_equal(settle(f, FIRST, ACK, 4, 1)->taken, 1); /* out of order */

    assert_int_equal(settle(f, FIRST, ACK, 4, 1)->settled, 1);
    assert_int_equal(settle(f, OTHER, NACK, 2, 1)->not_held, 1); /* it is not its */
    assert_int_equal(settle(f, FIRST, ACK, 1000, 1)->unknown, 1);
    assert_int_equal(describe(f, "g")->position, 0);
    assert_int_equal(settle(f, FIRST, ACK, 0, 4)->taken, 4);
    assert_int_equal(describe(f, "g")->position, 5);
}

static void test_pipeline_lease_that_ends_goes_to_another(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", BATCH);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
    subscribe_ok(f, OTHER, "g", MUCH);
    uint64_t due_us = lq_pipeline_deadline_us(f->solo.service.pipeline);
    assert_true(due_us > f->solo.clock.now_us && due_us <= f->solo.clock.now_us + ACK_WAIT_MS * 1000);

    f->solo.clock.now_us = due_us;
    assert_granted(delivered(f, OTHER), 0, BATCH, 2);

    assert_int_equal(describe(f, "g")->failed, BATCH);
    assert_int_equal(settle(f, FIRST, ACK, 0, 1)->taken, 1); /* done is done */
}

static void test_pipeline_extended_lease_lasts_longer(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", BATCH);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
    uint64_t first_us = lq_pipeline_deadline_us(f->solo.service.pipeline);

    f->solo.clock.now_us = first_us - 1000000;
    assert_int_equal(settle(f, FIRST, LIGHTQ__WIRE__SETTLE_KIND__SETTLE_EXTEND, 0, BATCH)->taken, BATCH);
    f->solo.clock.now_us = first_us + 1000000;
    subscribe_ok(f, OTHER, "g", MUCH);

    assert_silence(f);
    assert_int_equal(describe(f, "g")->failed, 0);
}

static void test_pipeline_unsubscribe_and_bye_return_without_a_failure(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__Bye bye = LIGHTQ__WIRE__BYE__INIT;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);

    unsubscribe(f, FIRST);
    subscribe_ok(f, OTHER, "g", MUCH);
    assert_granted(delivered(f, OTHER), 0, BATCH, 1);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)solo_node_say(&f->solo, OTHER, LQ_MESSAGE_BYE, &bye.base, NULL);

    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
    assert_int_equal(describe(f, "g")->failed, 0);
}

static void test_pipeline_connection_without_goodbye_counts_as_failure(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
    subscribe_ok(f, OTHER, "g", MUCH);

    lq_sessions_closed(f->solo.service.sessions, FIRST);

    assert_granted(delivered(f, OTHER), 0, BATCH, 2);
    assert_int_equal(describe(f, "g")->failed, BATCH);
}

static void test_pipeline_consumer_with_a_full_connection_is_sent_to_later(void **state)
{
    struct fixture *f = *state;
    lq_peer to[4 * BATCH] = {0};
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    f->solo.outlet.room = 0; /* its connection is full ... */
    (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(5, 0, BATCH, 100));
    solo_node_settle(&f->solo);
    assert_int_equal(outlet_left(&f->solo.outlet), 0);
    f->solo.outlet.room = SIZE_MAX; /* ... for a while */
    solo_node_settle(&f->solo);

    solo_node_until_sent(&f->solo, 2); /* the answer of the producer, and what had to wait */

    (void)outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
    assert_int_equal(take_granted(f, to, 4 * BATCH), BATCH);
    assert_int_equal(describe(f, "g")->failed, 0);
}

static void test_pipeline_consumer_that_takes_nothing_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    lq_peer to[4 * BATCH] = {0};
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    subscribe_ok(f, OTHER, "g", MUCH);
    lq_sessions_heard(f->solo.service.sessions, FIRST)->lost = true; /* nothing can be sent to it */
    for (unsigned i = 0; i < 4; i++) {
        (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(5, i * BATCH, BATCH, 100));
        solo_node_until_sent(&f->solo, 2);
        (void)outlet_take(&f->solo.outlet, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
        assert_int_equal(take_granted(f, to, 4 * BATCH), BATCH);
    }

    for (unsigned i = 0; i < 4 * BATCH; i++) {
        assert_int_equal(to[i], OTHER);
    }
}

static void test_pipeline_paused_group_delivers_when_it_goes_on(void **state)
{
    struct fixture *f = *state;
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    say_pause(f, "g", true);
    const Lightq__Wire__GroupAlterAnswer *answer = answered(f, PEER, LQ_MESSAGE_GROUP_ALTER_ANSWER);
    assert_int_equal(answer->status, LIGHTQ_OK);
    assert_true(answer->options->paused);
    store(f, 1);
    assert_silence(f);
    assert_int_equal(describe(f, "g")->state, LIGHTQ__WIRE__GROUP_STATE__GROUP_PAUSED);

    say_pause(f, "g", false);
    solo_node_until_sent(&f->solo, 2);

    (void)answered(f, PEER, LQ_MESSAGE_GROUP_ALTER_ANSWER);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
}

static void test_pipeline_moved_group_ends_subscriptions_and_fences_results(void **state)
{
    struct fixture *f = *state;
    store(f, 2);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)delivered(f, FIRST);
    (void)delivered(f, FIRST);
    (void)settle(f, FIRST, ACK, 0, 2 * BATCH);

    say_seek(f, "g", LIGHTQ__WIRE__START_KIND__START_OFFSET, BATCH);
    solo_node_until_sent(&f->solo, 2);

    const Lightq__Wire__GroupSeekAnswer *moved = NULL;
    const Lightq__Wire__SubscriptionEnded *ended = NULL;
    for (int i = 0; i < 2; i++) { /* in any order */
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        moved = sent->envelope.type == LQ_MESSAGE_GROUP_SEEK_ANSWER ? sent->body : moved;
        ended = sent->envelope.type == LQ_MESSAGE_SUBSCRIPTION_ENDED ? sent->body : ended;
    }
    assert_true(moved != NULL && ended != NULL);
    assert_int_equal(moved->status, LIGHTQ_OK);
    assert_int_equal(moved->position, BATCH);
    assert_true(moved->generation > f->generation);
    assert_int_equal(ended->status, LIGHTQ_EFENCED);
    say_settle(f, FIRST, ACK, BATCH, 1);
    const Lightq__Wire__SettleAnswer *late = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(late->status, LIGHTQ_EFENCED);
    subscribe_ok(f, FIRST, "g", MUCH);
    assert_granted(delivered(f, FIRST), BATCH, BATCH, 1);
}

static void test_pipeline_deleted_group_ends_subscriptions(void **state)
{
    struct fixture *f = *state;
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);

    remove_group(f, "g");
    solo_node_until_sent(&f->solo, 2);

    for (int i = 0; i < 2; i++) { /* in any order */
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        if (sent->envelope.type == LQ_MESSAGE_SUBSCRIPTION_ENDED) {
            const Lightq__Wire__SubscriptionEnded *ended = sent->body;
            assert_int_equal(ended->status, LIGHTQ_ENOTFOUND);
        } else {
            const Lightq__Wire__GroupDeleteAnswer *gone = sent->body;
            assert_int_equal(sent->envelope.type, LQ_MESSAGE_GROUP_DELETE_ANSWER);
            assert_int_equal(gone->status, LIGHTQ_OK);
        }
    }
    say_settle(f, FIRST, ACK, 0, 1);
    const Lightq__Wire__SettleAnswer *late = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(late->status, LIGHTQ_ENOTFOUND);
    assert_int_equal(subscribe(f, FIRST, "g", MUCH)->status, LIGHTQ_ENOTFOUND);
}

static void test_pipeline_exclusive_group_goes_to_the_next_when_the_first_leaves(void **state)
{
    struct fixture *f = *state;
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    options.mode = PIPELINE;
    options.exclusive = true;
    assert_int_equal(create_with(f, "g", 1, &options, NULL)->status, LIGHTQ_OK);
    assert_false(subscribe(f, FIRST, "g", MUCH)->standby);
    assert_true(subscribe(f, OTHER, "g", MUCH)->standby);
    (void)solo_node_produce(&f->solo, PEER, &f->topic, solo_batch(5, 0, BATCH, 100));
    solo_node_until_sent(&f->solo, 2);
    (void)answered(f, PEER, LQ_MESSAGE_PRODUCE_ANSWER);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
    assert_silence(f);

    unsubscribe(f, FIRST);

    assert_granted(delivered(f, OTHER), 0, BATCH, 1);
}

static struct lq_partition *partition_of(struct fixture *f)
{
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(f->solo.meta), "t");
    return lq_meta_partition(f->solo.meta, topic->partitions[0].group);
}

static void lose_leadership(struct fixture *f)
{
    struct lq_partition *partition = partition_of(f);
    lq_partition_machine_ops.follow(partition, lq_partition_leader(partition), lq_partition_term(partition));
}

static void gain_leadership(struct fixture *f)
{
    struct lq_partition *partition = partition_of(f);
    lq_partition_machine_ops.lead(partition, lq_partition_term(partition));
}

static void test_pipeline_next_leader_delivers_what_is_not_settled_as_the_same_delivery(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", MUCH);
    assert_granted(delivered(f, FIRST), 0, BATCH, 1);
    (void)settle(f, FIRST, ACK, 0, 4);

    lose_leadership(f);
    const Lightq__Wire__SubscriptionEnded *ended = answered(f, FIRST, LQ_MESSAGE_SUBSCRIPTION_ENDED);
    assert_true(ended->status == LIGHTQ_ENOLEADER || ended->status == LIGHTQ_ENOTLEADER);
    say_settle(f, FIRST, ACK, 4, 1);
    const Lightq__Wire__SettleAnswer *early = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_true(early->status == LIGHTQ_ENOLEADER || early->status == LIGHTQ_ENOTLEADER);
    gain_leadership(f);

    assert_int_equal(settle(f, FIRST, ACK, 4, 1)->taken, 1); /* granted by the one before */
    subscribe_ok(f, OTHER, "g", MUCH);
    assert_granted(delivered(f, OTHER), 5, BATCH - 5, 1);
    assert_int_equal(describe(f, "g")->failed, 0);
}

/* Between losing it and being told, clients go on asking. */
static void test_pipeline_leadership_lost_and_won_in_one_turn_ends_subscriptions(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    create(f, "g", PIPELINE);
    subscribe_ok(f, FIRST, "g", 4);
    assert_granted(delivered(f, FIRST), 0, 4, 1);

    lose_leadership(f);
    gain_leadership(f);
    credit(f, FIRST, MUCH);
    say_settle(f, FIRST, ACK, 0, 1);
    assert_int_equal(subscribe(f, OTHER, "g", MUCH)->status, LIGHTQ_ENOTREADY);
    solo_node_until_sent(&f->solo, 2);

    for (int i = 0; i < 2; i++) { /* in any order */
        const struct sent_message *sent = &f->solo.outlet.sent[f->solo.outlet.seen++];
        if (sent->envelope.type == LQ_MESSAGE_SUBSCRIPTION_ENDED) {
            const Lightq__Wire__SubscriptionEnded *ended = sent->body;
            assert_int_equal(ended->status, LIGHTQ_ENOTLEADER);
        } else {
            const Lightq__Wire__SettleAnswer *settled = sent->body;
            assert_int_equal(sent->envelope.type, LQ_MESSAGE_SETTLE_ANSWER);
            assert_int_equal(settled->taken, 1);
        }
    }
    subscribe_ok(f, OTHER, "g", MUCH);
    assert_granted(delivered(f, OTHER), 1, BATCH - 1, 1);
}

/* Keys of solo_batch are none: each message stands for itself, and all go. */
static void test_pipeline_key_ordered_group_delivers_messages_without_keys(void **state)
{
    struct fixture *f = *state;
    lq_peer to[3 * BATCH] = {0};
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    options.mode = PIPELINE;
    options.key_ordered = true;
    store(f, 3);
    assert_int_equal(create_with(f, "g", 1, &options, NULL)->status, LIGHTQ_OK);

    subscribe_ok(f, FIRST, "g", MUCH);

    assert_int_equal(take_granted(f, to, 3 * BATCH), 3 * BATCH);
}

static void test_pipeline_settle_of_nonsense_is_refused(void **state)
{
    struct fixture *f = *state;
    create(f, "g", PIPELINE);
    Lightq__Wire__SettleKind kinds[] = {LIGHTQ__WIRE__SETTLE_KIND__SETTLE_NONE, (Lightq__Wire__SettleKind)77};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        say_settle(f, FIRST, kinds[i], 0, 1);
        const Lightq__Wire__SettleAnswer *answer = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
        assert_int_equal(answer->status, LIGHTQ_EINVAL);
    }
    say_settle(f, FIRST, ACK, 0, LQ_SETTLE_RANGE_MAX + 1);
    const Lightq__Wire__SettleAnswer *answer = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(answer->status, LIGHTQ_EINVAL);
    Lightq__Wire__SettleItem item = LIGHTQ__WIRE__SETTLE_ITEM__INIT;
    Lightq__Wire__SettleItem *items[] = {&item, &item, &item, &item, &item};
    Lightq__Wire__Settle body = LIGHTQ__WIRE__SETTLE__INIT;
    item.kind = ACK;
    item.count = LQ_SETTLE_RANGE_MAX;
    body.topic = lq_codec_bytes_of(&f->topic);
    body.group_number = f->number;
    body.generation = f->generation;
    body.items = items;
    body.n_items = 5; /* more messages than one may be about */
    (void)solo_node_say(&f->solo, FIRST, LQ_MESSAGE_SETTLE, &body.base, NULL);
    const Lightq__Wire__SettleAnswer *many = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(many->status, LIGHTQ_EINVAL);
    say_settle(f, FIRST, ACK, UINT64_MAX - 5, 100);
    const Lightq__Wire__SettleAnswer *over = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
    assert_int_equal(over->status, LIGHTQ_EINVAL);
    assert_int_equal(settle(f, FIRST, ACK, UINT64_MAX - 500, 100)->unknown, 100);
}

static void test_pipeline_many_settles_of_one_client_are_bounded(void **state)
{
    struct fixture *f = *state;
    unsigned busy = 0;
    store(f, 1);
    create(f, "g", PIPELINE);
    uint64_t more = f->solo.options.session_requests_max + 3;

    for (uint64_t i = 0; i < more; i++) {
        say_settle(f, FIRST, ACK, 0, 1);
    }
    solo_node_until_sent(&f->solo, more);

    for (uint64_t i = 0; i < more; i++) {
        const Lightq__Wire__SettleAnswer *answer = answered(f, FIRST, LQ_MESSAGE_SETTLE_ANSWER);
        busy += answer->status == LIGHTQ_EBUSY;
    }
    assert_int_equal(busy, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, group_setup, group_teardown)
        TEST(test_pipeline_one_consumer_is_granted_all_and_settles_all),
        TEST(test_pipeline_two_consumers_share_and_no_message_goes_to_both),
        TEST(test_pipeline_credit_bounds_what_is_granted_of_a_batch),
        TEST(test_pipeline_nack_is_delivered_again_and_counted),
        TEST(test_pipeline_results_that_come_late_or_twice_are_told_apart),
        TEST(test_pipeline_lease_that_ends_goes_to_another),
        TEST(test_pipeline_extended_lease_lasts_longer),
        TEST(test_pipeline_unsubscribe_and_bye_return_without_a_failure),
        TEST(test_pipeline_connection_without_goodbye_counts_as_failure),
        TEST(test_pipeline_consumer_with_a_full_connection_is_sent_to_later),
        TEST(test_pipeline_consumer_that_takes_nothing_holds_up_nobody),
        TEST(test_pipeline_paused_group_delivers_when_it_goes_on),
        TEST(test_pipeline_moved_group_ends_subscriptions_and_fences_results),
        TEST(test_pipeline_deleted_group_ends_subscriptions),
        TEST(test_pipeline_exclusive_group_goes_to_the_next_when_the_first_leaves),
        TEST(test_pipeline_next_leader_delivers_what_is_not_settled_as_the_same_delivery),
        TEST(test_pipeline_leadership_lost_and_won_in_one_turn_ends_subscriptions),
        TEST(test_pipeline_key_ordered_group_delivers_messages_without_keys),
        TEST(test_pipeline_settle_of_nonsense_is_refused),
        TEST(test_pipeline_many_settles_of_one_client_are_bounded),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
