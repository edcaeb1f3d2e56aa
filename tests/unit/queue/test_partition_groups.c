/* test_partition_groups.c - consumer groups through a partition: changes and results are proposed in turns, answered
 * when they are applied, and lost with leadership; leases follow what is applied. */
#include "node/queue/partition_groups.h"
#include "tests/unit/queue/groups_fixture.h"

struct delivery {
    struct lq_leases *leases;
    lq_lease_consumer consumer;
    struct lq_lease_grant grant;
    size_t count;
    enum lq_lease_state now;
};

/* One offer of a batch of 100 from @base. */
static void deliver(struct fixture *f, struct delivery *delivery, uint64_t base)
{
    struct lq_lease_offer offer;
    uint64_t due_us;
    uint64_t now_us = fake_monotonic_us(&f->clock.clock);
    delivery->now = lq_leases_next(delivery->leases, lq_partition_end(f->partition), now_us, &offer, &due_us);
    delivery->count = 0;
    if (delivery->now == LQ_LEASE_OFFER) {
        const struct lq_lease_batch batch = {.base = base, .count = 100, .bytes = 10};
        assert_int_equal(
            lq_leases_take(delivery->leases, &offer, &batch, now_us, &delivery->grant, 1, &delivery->count), LIGHTQ_OK);
    }
}

/* A pipeline group over 100 messages, with a consumer that has got the first 10. */
static uint64_t make_pipeline(struct fixture *f, struct delivery *delivery)
{
    fixture_lead(f);
    produce_some(f, 100);
    uint64_t group = create(f, "g", LQ_CGROUP_PIPELINE);
    assert_int_equal(lq_partition_leases(f->partition, group, &delivery->leases), LIGHTQ_OK);
    assert_int_equal(lq_leases_join(delivery->leases, NULL, &delivery->consumer), LIGHTQ_OK);
    lq_leases_credit(delivery->leases, delivery->consumer, 10, 1000);
    deliver(f, delivery, 0);
    assert_int_equal(delivery->count, 1);
    assert_int_equal(delivery->grant.count, 10);
    return group;
}

static const struct lq_cgroup *group_of(struct fixture *f, uint64_t number)
{
    return lq_cgroups_find(lq_partition_groups(f->partition), number);
}

static void test_change_is_answered_with_what_became_of_it(void **state)
{
    struct fixture *f = *state;
    struct changed changed;
    fixture_lead(f);
    produce_some(f, 5);
    uint64_t group = create(f, "s", LQ_CGROUP_SUBSCRIBER);
    const struct lq_command commit = {.type = LQ_COMMAND_COMMIT,
                                      .commit = {.group = group, .generation = group, .offset = 3}};
    const struct lq_command beyond = {.type = LQ_COMMAND_COMMIT,
                                      .commit = {.group = group, .generation = group, .offset = 6}};
    const struct lq_command unknown = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = 999}};

    assert_int_equal(change(f, &changed, &commit), LIGHTQ_OK);
    assert_int_equal(changed.answers, 0); /* never inside the call */
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_OK);
    assert_int_equal(changed.request.result.position, 3);
    assert_int_equal(change(f, &changed, &beyond), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_EOUTOFRANGE);
    assert_int_equal(change(f, &changed, &unknown), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_ENOTFOUND);
    assert_int_equal(group_of(f, group)->settled.floor, 3);
}

static void test_change_that_cannot_be_is_refused_at_once(void **state)
{
    struct fixture *f = *state;
    struct changed changed;
    struct lq_command command = {.type = LQ_COMMAND_GROUP_CREATE,
                                 .group_create = {.start = {.kind = LQ_CGROUP_START}, .name = "a/b", .name_size = 3}};
    lq_cgroup_options_init(&command.group_create.options, LQ_CGROUP_PIPELINE);
    assert_int_equal(change(f, &changed, &command), LIGHTQ_ENOTLEADER);
    fixture_lead(f);
    size_t entries = f->log.count;

    assert_int_equal(change(f, &changed, &command), LIGHTQ_ENAME);
    command.group_create.name = "ab";
    command.group_create.name_size = 2;
    command.group_create.options.mode = 7;
    assert_int_equal(change(f, &changed, &command), LIGHTQ_EINVAL);
    command.type = LQ_COMMAND_SETTLE;
    assert_int_equal(change(f, &changed, &command), LIGHTQ_EINVAL);
    command = (struct lq_command){.type = LQ_COMMAND_GROUP_SEEK, .group_seek = {.start = {.kind = 99}}};
    assert_int_equal(change(f, &changed, &command), LIGHTQ_OK); /* found when it is encoded */
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_EINVAL);
    assert_int_equal(f->log.count, entries);
}

static void test_results_of_one_turn_are_one_entry(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled a;
    struct settled b;
    uint64_t group = make_pipeline(f, &delivery);
    size_t entries = f->log.count;

    assert_int_equal(settle(f, &a, group, delivery.consumer, LQ_SETTLE_ACK, 4, 2), LIGHTQ_OK);
    assert_int_equal(settle(f, &b, group, delivery.consumer, LQ_SETTLE_ACK, 0, 4), LIGHTQ_OK);
    assert_int_equal(a.request.counts.taken, 2);
    fixture_turn(f);
    assert_int_equal(f->log.count, entries + 1);
    assert_int_equal(a.answers + b.answers, 0); /* not before it is applied */
    settle_turns(f);

    assert_int_equal(a.status, LIGHTQ_OK);
    assert_int_equal(a.answers, 1);
    assert_int_equal(b.answers, 1);
    assert_int_equal(group_of(f, group)->settled.floor, 6);
}

static void test_second_ack_waits_for_the_first_and_then_is_known(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled first;
    struct settled second;
    struct settled third;
    uint64_t group = make_pipeline(f, &delivery);
    assert_int_equal(settle(f, &first, group, delivery.consumer, LQ_SETTLE_ACK, 0, 1), LIGHTQ_OK);
    fixture_turn(f);

    assert_int_equal(settle(f, &second, group, delivery.consumer, LQ_SETTLE_ACK, 0, 1), LIGHTQ_OK);
    assert_int_equal(second.request.counts.waiting, 1);
    fixture_turn(f);
    assert_int_equal(second.answers, 0);
    settle_turns(f);
    assert_int_equal(second.answers, 1);
    assert_int_equal(settle(f, &third, group, delivery.consumer, LQ_SETTLE_ACK, 0, 1), LIGHTQ_OK);
    assert_int_equal(third.request.counts.settled, 1);
    settle_turns(f);

    assert_int_equal(third.status, LIGHTQ_OK);
    assert_int_equal(group_of(f, group)->settled_count, 1);
}

static void test_leadership_lost_loses_proposals_and_leases(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled proposed;
    struct settled gathered;
    struct changed queued;
    uint64_t group = make_pipeline(f, &delivery);
    const struct lq_command delete = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = group}};
    assert_int_equal(settle(f, &proposed, group, delivery.consumer, LQ_SETTLE_ACK, 0, 1), LIGHTQ_OK);
    fixture_turn(f);
    assert_int_equal(settle(f, &gathered, group, delivery.consumer, LQ_SETTLE_ACK, 1, 1), LIGHTQ_OK);
    assert_int_equal(change(f, &queued, &delete), LIGHTQ_OK);

    lq_partition_machine_ops.follow(f->partition, 2, f->log.term + 1);
    fixture_turn(f);

    assert_int_equal(proposed.status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(gathered.status, LIGHTQ_ENOTLEADER);
    assert_int_equal(queued.status, LIGHTQ_ENOTLEADER);
    assert_int_equal(lq_partition_leases(f->partition, group, &delivery.leases), LIGHTQ_ENOTLEADER);
    assert_int_equal(settle(f, &gathered, group, 0, LQ_SETTLE_ACK, 1, 1), LIGHTQ_ENOTLEADER);
    assert_int_equal(lq_partition_groups_deadline_us(f->partition), UINT64_MAX);
    fixture_apply_all(f); /* it was committed all the same */
    assert_int_equal(group_of(f, group)->settled.floor, 1);
}

static void test_seek_refuses_results_of_before(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled late;
    struct settled proposed;
    struct changed moved;
    uint64_t group = make_pipeline(f, &delivery);
    uint64_t generation = group_of(f, group)->generation;
    const struct lq_command seek = {.type = LQ_COMMAND_GROUP_SEEK,
                                    .group_seek = {.group = group, .start = {.kind = LQ_CGROUP_START}}};
    assert_int_equal(change(f, &moved, &seek), LIGHTQ_OK);
    assert_int_equal(settle(f, &proposed, group, delivery.consumer, LQ_SETTLE_ACK, 0, 5), LIGHTQ_OK);

    settle_turns(f); /* the seek goes first, the results behind it */

    assert_int_equal(moved.status, LIGHTQ_OK);
    assert_int_equal(proposed.status, LIGHTQ_EFENCED);
    late = (struct settled){.request = {.group = group, .generation = generation, .cb = on_settled}};
    assert_int_equal(lq_partition_settle(f->partition, &late.request), LIGHTQ_EFENCED);
    assert_int_equal(group_of(f, group)->settled.floor, 0);
    lq_leases_credit(delivery.leases, delivery.consumer, 100, 1000); /* the consumer stays */
    deliver(f, &delivery, 0);
    assert_int_equal(delivery.grant.offset, 0);
    assert_int_equal(delivery.grant.delivery, 1);
}

static void count_told(struct lq_group_watcher *watcher)
{
    ++*(unsigned *)watcher->data;
}

static void test_delete_answers_what_was_handed_in(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled behind;
    struct changed deleted;
    unsigned told = 0;
    struct lq_group_watcher watcher = {.cb = count_told, .data = &told};
    uint64_t group = make_pipeline(f, &delivery);
    const struct lq_command delete = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = group}};
    lq_partition_group_watch(f->partition, group, &watcher);
    assert_int_equal(change(f, &deleted, &delete), LIGHTQ_OK);
    assert_int_equal(settle(f, &behind, group, delivery.consumer, LQ_SETTLE_ACK, 0, 5), LIGHTQ_OK);

    settle_turns(f);

    assert_int_equal(deleted.status, LIGHTQ_OK);
    assert_int_equal(behind.status, LIGHTQ_ENOTFOUND);
    assert_null(watcher.hub);
    assert_int_equal(lq_partition_leases(f->partition, group, &delivery.leases), LIGHTQ_ENOTFOUND);
    assert_null(f->partition->desk.hubs);
}

static void note_events(struct lq_partition_watcher *watcher, unsigned events)
{
    *(unsigned *)watcher->data |= events;
}

static void test_expired_lease_counts_and_goes_to_the_dead_letters(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    unsigned told = 0;
    struct lq_group_watcher watcher = {.cb = count_told, .data = &told};
    uint64_t group = make_pipeline(f, &delivery);
    lq_partition_group_watch(f->partition, group, &watcher);
    unsigned events = 0;
    struct lq_partition_watcher partition_watcher = {.cb = note_events, .data = &events};
    lq_partition_watch(f->partition, &partition_watcher);
    lq_leases_credit(delivery.leases, delivery.consumer, 10, 1000);
    assert_int_equal(lq_partition_groups_deadline_us(f->partition), (f->clock.wall_ms + 30000) * 1000);

    for (unsigned failed = 1; failed <= 2; failed++) {
        f->clock.wall_ms += 30000;
        lq_partition_groups_tick(f->partition);
        settle_turns(f);
        assert_int_equal(lq_cgroup_failed(group_of(f, group), 0), failed);
        deliver(f, &delivery, 0);
        assert_int_equal(delivery.grant.offset,
                         failed == 1 ? 0 : 10); /* again; then it is dead, and the next ones come */
        assert_int_equal(delivery.grant.delivery, failed == 1 ? 2 : 1);
        lq_leases_credit(delivery.leases, delivery.consumer, 10, 1000);
    }

    assert_true(told >= 2);
    assert_true((events & LQ_PARTITION_DEAD_LETTERS) != 0);
    lq_partition_unwatch(&partition_watcher);
    const struct lq_cgroup *cgroup = group_of(f, group);
    assert_int_equal(cgroup->dead.next, 10);
    assert_int_equal(cgroup->settled.floor, 0); /* a dead letter holds its message until it is stored elsewhere */
    assert_int_equal(lq_partition_trim(f->partition, 50), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(lq_partition_start(f->partition), 0);
    struct changed done;
    const struct lq_command command = {.type = LQ_COMMAND_DONE, .done = {.group = group, .number = 10}};
    assert_int_equal(change(f, &done, &command), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(done.request.result.settled, 10);
    assert_int_equal(cgroup->settled.floor, 10);
    lq_partition_group_unwatch(&watcher);
}

static void test_trim_over_leases_lets_them_go(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct lq_leases_status status;
    uint64_t group = make_pipeline(f, &delivery);
    assert_int_equal(lq_partition_trim(f->partition, 7), LIGHTQ_OK);
    fixture_apply_all(f);

    lq_leases_status(delivery.leases, &status);
    assert_int_equal(status.held, 3);
    assert_int_equal(status.held_first, 7);
    assert_int_equal(group_of(f, group)->missed_count, 7);
    assert_int_equal(lq_partition_trim(f->partition, 60), LIGHTQ_OK);
    fixture_apply_all(f);
    lq_leases_credit(delivery.leases, delivery.consumer, 10, 1000);
    deliver(f, &delivery, 0);
    assert_int_equal(delivery.grant.offset, 60);
    lq_leases_status(delivery.leases, &status);
    assert_int_equal(status.held, 10);
}

static void test_window_full_proposes_after_the_next_apply(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled settled;
    struct changed changed;
    struct produced p;
    uint64_t group = make_pipeline(f, &delivery);
    const struct lq_command alter = {
        .type = LQ_COMMAND_GROUP_ALTER,
        .group_alter = {.mask = LQ_CGROUP_ALTER_PAUSED,
                        .group = group,
                        .options = {.mode = LQ_CGROUP_PIPELINE, .paused = true, .ack_wait_ms = 1, .max_unsettled = 1}}};
    f->log.window = 1;
    assert_int_equal(produce(f, &p, 0, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(settle(f, &settled, group, delivery.consumer, LQ_SETTLE_ACK, 0, 10), LIGHTQ_OK);
    assert_int_equal(change(f, &changed, &alter), LIGHTQ_OK);
    fixture_turn(f);
    assert_int_equal(settled.answers + changed.answers, 0);
    unsigned woken = f->log.woken;

    for (unsigned i = 0; i < 3; i++) {
        fixture_apply_all(f);
        assert_true(f->log.woken > woken);
        woken = f->log.woken;
        fixture_turn(f);
    }

    assert_int_equal(settled.status, LIGHTQ_OK);
    assert_int_equal(changed.status, LIGHTQ_OK);
    deliver(f, &delivery, 0);
    assert_int_equal(delivery.now, LQ_LEASE_PAUSED);
}

static void test_free_answers_everything(void **state)
{
    struct fixture *f = *state;
    struct delivery delivery;
    struct settled settled;
    struct changed changed;
    uint64_t group = make_pipeline(f, &delivery);
    const struct lq_command delete = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = group}};
    assert_int_equal(settle(f, &settled, group, delivery.consumer, LQ_SETTLE_ACK, 0, 10), LIGHTQ_OK);
    assert_int_equal(change(f, &changed, &delete), LIGHTQ_OK);

    lq_partition_free(f->partition);
    f->partition = NULL;

    assert_int_equal(settled.status, LIGHTQ_ECLOSED);
    assert_int_equal(changed.status, LIGHTQ_ECLOSED);
}

static void test_too_many_requests_are_ebusy(void **state)
{
    struct fixture *f = *state;
    struct changed *changed = calloc(LQ_CGROUP_REQUESTS_MAX + 1, sizeof *changed);
    const struct lq_command command = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = 999}};
    assert_non_null(changed);
    fixture_lead(f);
    for (unsigned i = 0; i < LQ_CGROUP_REQUESTS_MAX; i++) {
        assert_int_equal(change(f, &changed[i], &command), LIGHTQ_OK);
    }

    assert_int_equal(change(f, &changed[LQ_CGROUP_REQUESTS_MAX], &command), LIGHTQ_EBUSY);

    settle_turns(f);
    assert_int_equal(changed[LQ_CGROUP_REQUESTS_MAX - 1].status, LIGHTQ_ENOTFOUND);
    free(changed);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_change_is_answered_with_what_became_of_it),
        TEST(test_change_that_cannot_be_is_refused_at_once),
        TEST(test_results_of_one_turn_are_one_entry),
        TEST(test_second_ack_waits_for_the_first_and_then_is_known),
        TEST(test_leadership_lost_loses_proposals_and_leases),
        TEST(test_seek_refuses_results_of_before),
        TEST(test_delete_answers_what_was_handed_in),
        TEST(test_expired_lease_counts_and_goes_to_the_dead_letters),
        TEST(test_trim_over_leases_lets_them_go),
        TEST(test_window_full_proposes_after_the_next_apply),
        TEST(test_free_answers_everything),
        TEST(test_too_many_requests_are_ebusy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
