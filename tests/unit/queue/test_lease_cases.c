/* test_lease_cases.c - single cases of leases (node/queue/lease*.c): who is given what, in which order, and what
 * becomes of it. The random histories are in test_lease.c. */
#include "node/queue/lease.h"
#include "node/queue/state.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/node/queue_fixture.h"

#define SECOND UINT64_C(1000000)

struct group {
    struct lq_queue_state state;
    struct lq_cgroup *cgroup;
    struct lq_leases *leases;
    uint64_t index, now_us;
    uint32_t batch; /* messages of one batch */
};

static void apply_bytes(struct group *g, const uint8_t *bytes, size_t size, uint32_t messages)
{
    const struct lq_entry entry = {.index = ++g->index,
                                   .term = 1,
                                   .base_offset = g->state.end_offset,
                                   .timestamp_ms = g->now_us / 1000,
                                   .type = LQ_ENTRY_COMMAND,
                                   .message_count = messages,
                                   .payload_size = (uint32_t)size,
                                   .payload = bytes};
    struct lq_command command;
    struct lq_err err;
    assert_int_equal(lq_queue_state_apply(&g->state, &entry, &command, &err), LIGHTQ_OK);
    if (g->leases != NULL && command.type == LQ_COMMAND_SETTLE) {
        lq_leases_applied(g->leases, &command.settle, g->now_us);
    } else if (g->leases != NULL) {
        lq_leases_changed(g->leases, g->now_us);
    }
}

static void apply(struct group *g, const struct lq_command *command, uint32_t messages)
{
    struct lq_writer writer;
    lq_writer_init(&writer, 1024);
    lq_command_encode(command, &writer);
    if (command->type == LQ_COMMAND_APPEND) {
        lq_write_u8(&writer, 1);
    }
    apply_bytes(g, writer.bytes, writer.size, messages);
    lq_writer_deinit(&writer);
}

/* A group over @messages messages in batches of @batch. */
static void group_init(struct group *g, const struct lq_cgroup_options *options, uint32_t messages, uint32_t batch)
{
    *g = (struct group){.now_us = 100 * SECOND, .batch = batch};
    lq_queue_state_init(&g->state);
    const struct lq_command create = {
        .type = LQ_COMMAND_GROUP_CREATE,
        .group_create = {.start = {.kind = LQ_CGROUP_START}, .options = *options, .name = "g", .name_size = 1}};
    const struct lq_command append = {.type = LQ_COMMAND_APPEND, .append = {.expected_offset = LQ_OFFSET_ANY}};
    apply(g, &create, 0);
    apply(g, &append, messages);
    g->cgroup = g->state.cgroups.at[0];
    assert_int_equal(lq_leases_new(g->cgroup, g->now_us, g->now_us / 1000, &g->leases), LIGHTQ_OK);
}

static void group_deinit(struct group *g)
{
    lq_leases_free(g->leases);
    lq_queue_state_deinit(&g->state);
}

/* Another leader begins, whose monotonic clock is another one. */
static void change_leader(struct group *g)
{
    lq_leases_free(g->leases);
    assert_int_equal(lq_leases_new(g->cgroup, g->now_us, g->now_us / 1000, &g->leases), LIGHTQ_OK);
}

static lq_lease_consumer join(struct group *g, uint64_t credit)
{
    lq_lease_consumer consumer;
    assert_int_equal(lq_leases_join(g->leases, NULL, &consumer), LIGHTQ_OK);
    lq_leases_credit(g->leases, consumer, credit, UINT32_MAX);
    return consumer;
}

struct given {
    enum lq_lease_state now;
    lq_lease_consumer consumer;
    struct lq_lease_grant grant;
    uint64_t due_us;
};

/* What is delivered next, one grant of it. Keys: the offset's last digit. */
static struct given next(struct group *g)
{
    struct given given = {.now = LQ_LEASE_END};
    struct lq_lease_offer offer;
    uint64_t keys[64];
    size_t count = 0;
    for (unsigned tries = 0; count == 0 && tries < 100; tries++) {
        given.now = lq_leases_next(g->leases, g->state.end_offset, g->now_us, &offer, &given.due_us);
        if (given.now != LQ_LEASE_OFFER) {
            return given;
        }
        struct lq_lease_batch batch = {.base = offer.offset - offer.offset % g->batch, .count = g->batch, .bytes = 1};
        for (uint32_t i = 0; i < g->batch; i++) {
            keys[i] = (batch.base + i) % 10;
        }
        batch.keys = g->cgroup->options.key_ordered ? keys : NULL;
        assert_int_equal(lq_leases_take(g->leases, &offer, &batch, g->now_us, &given.grant, 1, &count), LIGHTQ_OK);
        given.consumer = offer.consumer;
    }
    assert_int_equal(count, 1);
    return given;
}

static void assert_next(struct group *g, lq_lease_consumer consumer, uint64_t offset, uint32_t delivery)
{
    struct given given = next(g);
    assert_int_equal(given.now, LQ_LEASE_OFFER);
    assert_int_equal(given.consumer, consumer);
    assert_int_equal(given.grant.offset, offset);
    assert_int_equal(given.grant.delivery, delivery);
}

static void assert_nothing(struct group *g, enum lq_lease_state why)
{
    assert_int_equal(next(g).now, why);
}

static struct lq_settle_counts say(struct group *g, lq_lease_consumer consumer, enum lq_settle_kind kind,
                                   uint64_t first, uint32_t count, uint32_t delay_ms)
{
    struct lq_settle_counts counts = {.taken = 0};
    const struct lq_settle_item item = {.kind = kind, .first = first, .count = count, .delay_ms = delay_ms};
    assert_int_equal(lq_leases_settle(g->leases, consumer, &item, g->state.end_offset, g->now_us, &counts), LIGHTQ_OK);
    return counts;
}

static void commit(struct group *g)
{
    while (lq_leases_gathered(g->leases)) {
        struct lq_writer writer;
        lq_writer_init(&writer, LQ_SETTLE_BYTES_MAX);
        assert_int_equal(lq_leases_propose(g->leases, LQ_SETTLE_BYTES_MAX, &writer), LIGHTQ_OK);
        lq_leases_proposed(g->leases);
        apply_bytes(g, writer.bytes, writer.size, 0);
        lq_writer_deinit(&writer);
    }
}

static struct lq_cgroup_options usual(void)
{
    struct lq_cgroup_options options;
    lq_cgroup_options_init(&options, LQ_CGROUP_PIPELINE);
    return options;
}

/* ---- who is given what */

static void test_take_turns_goes_round_among_those_with_credit(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 20, 1);
    assert_nothing(&g, LQ_LEASE_NO_CONSUMER);
    lq_lease_consumer a = join(&g, 0);
    assert_nothing(&g, LQ_LEASE_NO_CREDIT);
    lq_lease_consumer b = join(&g, 5);
    lq_lease_consumer c = join(&g, 2);

    assert_next(&g, b, 0, 1);
    assert_next(&g, c, 1, 1);
    assert_next(&g, b, 2, 1);
    lq_leases_credit(g.leases, a, 10, 10);
    assert_next(&g, c, 3, 1);
    assert_next(&g, b, 4, 1);
    assert_next(&g, a, 5, 1);
    assert_next(&g, b, 6, 1);
    assert_next(&g, a, 7, 1);
    assert_next(&g, b, 8, 1); /* its last */
    assert_next(&g, a, 9, 1);
    assert_next(&g, a, 10, 1);
    group_deinit(&g);
}

static void test_credit_in_bytes_gives_at_least_one_message(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    struct lq_lease_offer offer;
    struct lq_lease_grant grant;
    uint64_t due_us;
    size_t count;
    group_init(&g, &options, 20, 10);
    lq_lease_consumer a;
    assert_int_equal(lq_leases_join(g.leases, NULL, &a), LIGHTQ_OK);
    lq_leases_credit(g.leases, a, 100, 1); /* the batch is larger by far */
    assert_int_equal(lq_leases_next(g.leases, 20, g.now_us, &offer, &due_us), LQ_LEASE_OFFER);
    const struct lq_lease_batch batch = {.base = 0, .count = 10, .bytes = 5000};
    assert_int_equal(lq_leases_take(g.leases, &offer, &batch, g.now_us, &grant, 1, &count), LIGHTQ_OK);

    assert_int_equal(grant.count, 10);
    assert_nothing(&g, LQ_LEASE_NO_CREDIT);
    lq_leases_credit(g.leases, a, 0, 4999);
    assert_nothing(&g, LQ_LEASE_NO_CREDIT);
    lq_leases_credit(g.leases, a, 0, 1);
    assert_next(&g, a, 10, 1);
    group_deinit(&g);
}

static void test_exclusive_goes_to_the_next_when_the_active_one_leaves(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    struct lq_lease_consumer_status status;
    options.exclusive = true;
    group_init(&g, &options, 20, 1);
    lq_lease_consumer a = join(&g, 3);
    lq_lease_consumer b = join(&g, 10);
    assert_next(&g, a, 0, 1);
    assert_next(&g, a, 1, 1);
    assert_next(&g, a, 2, 1);
    assert_nothing(&g, LQ_LEASE_NO_CREDIT); /* b stands by */
    assert_true(lq_leases_consumer(g.leases, b, &status) && !status.active);
    (void)say(&g, a, LQ_SETTLE_ACK, 1, 1, 0);

    assert_int_equal(lq_leases_leave(g.leases, a, true, g.now_us), LIGHTQ_OK);

    assert_true(lq_leases_consumer(g.leases, b, &status) && status.active);
    assert_next(&g, b, 0, 1); /* what was not settled comes first, in order */
    assert_next(&g, b, 2, 1);
    assert_next(&g, b, 3, 1);
    group_deinit(&g);
}

static void test_exclusive_with_expired_leases_somebody_stays_active(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    options.exclusive = true;
    group_init(&g, &options, 5, 1);
    lq_lease_consumer a = join(&g, 2);
    (void)join(&g, 2);
    assert_next(&g, a, 0, 1);
    g.now_us += 31 * SECOND;
    assert_int_equal(lq_leases_tick(g.leases, g.now_us), LIGHTQ_OK);
    commit(&g);

    assert_int_equal(say(&g, a, LQ_SETTLE_ACK, 0, 1, 0).taken, 1); /* late, and done all the same */
    commit(&g);
    assert_next(&g, a, 1, 1);
    group_deinit(&g);
}

/* ---- failing */

static void test_nack_with_delay_comes_not_before_its_time(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 10, 5);
    lq_lease_consumer a = join(&g, 6);
    assert_int_equal(next(&g).grant.count, 5);
    assert_int_equal(say(&g, a, LQ_SETTLE_NACK, 2, 1, 700).taken, 1);
    assert_next(&g, a, 5, 1); /* others go on */
    lq_leases_credit(g.leases, a, 10, 100);
    commit(&g);
    assert_int_equal(next(&g).grant.offset, 6);

    struct given given = next(&g);
    assert_int_equal(given.now, LQ_LEASE_DELAYED);
    assert_int_equal(given.due_us, g.now_us + 700000);
    assert_int_equal(lq_leases_deadline_us(g.leases), given.due_us);
    g.now_us += 699999;
    assert_nothing(&g, LQ_LEASE_DELAYED);
    g.now_us += 1;
    assert_next(&g, a, 2, 2);
    group_deinit(&g);
}

static void test_backoff_grows_with_the_failures(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    options.max_deliver = 0;
    options.backoff_count = 2;
    options.backoff_ms[0] = 100;
    options.backoff_ms[1] = 900;
    group_init(&g, &options, 1, 1);
    lq_lease_consumer a = join(&g, 100);
    static const uint64_t delays_ms[] = {100, 900, 900, 900};
    for (uint32_t i = 0; i < 4; i++) {
        assert_next(&g, a, 0, i + 1);
        (void)say(&g, a, LQ_SETTLE_NACK, 0, 1, LQ_SETTLE_DELAY_DEFAULT);
        commit(&g);
        struct given given = next(&g);
        assert_int_equal(given.now, LQ_LEASE_DELAYED);
        assert_int_equal(given.due_us - g.now_us, delays_ms[i] * 1000);
        g.now_us = given.due_us;
    }
    group_deinit(&g);
}

static void test_leave_without_goodbye_is_a_failure_with_one_it_is_none(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 10, 1);
    lq_lease_consumer a = join(&g, 1);
    lq_lease_consumer b = join(&g, 1);
    assert_next(&g, a, 0, 1);
    assert_next(&g, b, 1, 1);

    assert_int_equal(lq_leases_leave(g.leases, a, true, g.now_us), LIGHTQ_OK);
    assert_int_equal(lq_leases_leave(g.leases, b, false, g.now_us), LIGHTQ_OK);
    commit(&g);

    lq_lease_consumer c = join(&g, 5);
    assert_next(&g, c, 0, 1);
    assert_next(&g, c, 1, 2);
    assert_next(&g, c, 2, 1);
    assert_int_equal(lq_cgroup_failed(g.cgroup, 0), 0);
    assert_int_equal(lq_failures_find(&g.cgroup->failures, 1)->reason, LQ_FAILURE_LOST);
    group_deinit(&g);
}

static void test_reject_is_dead_at_once_and_acks_of_it_are_too_late(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 2, 1);
    lq_lease_consumer a = join(&g, 5);
    assert_next(&g, a, 0, 1);
    assert_int_equal(say(&g, a, LQ_SETTLE_REJECT, 0, 1, 0).taken, 1);
    assert_int_equal(say(&g, a, LQ_SETTLE_ACK, 0, 1, 0).waiting, 1);
    commit(&g);

    assert_int_equal(g.cgroup->dead.next, 1);
    assert_int_equal(say(&g, a, LQ_SETTLE_ACK, 0, 1, 0).settled, 1);
    assert_next(&g, a, 1, 1);
    assert_nothing(&g, LQ_LEASE_END);
    change_leader(&g);
    a = join(&g, 5);
    assert_next(&g, a, 1, 1); /* nor does another leader deliver it */
    group_deinit(&g);
}

static void test_expired_lease_late_answers_are_precise(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 2, 1);
    lq_lease_consumer a = join(&g, 1);
    assert_next(&g, a, 0, 1);
    g.now_us += 30 * SECOND;
    assert_int_equal(lq_leases_deadline_us(g.leases), g.now_us);
    assert_int_equal(lq_leases_tick(g.leases, g.now_us), LIGHTQ_OK);
    commit(&g);
    lq_lease_consumer b = join(&g, 5);
    assert_next(&g, b, 0, 2);

    assert_int_equal(say(&g, a, LQ_SETTLE_NACK, 0, 1, 0).not_held, 1);
    assert_int_equal(say(&g, a, LQ_SETTLE_EXTEND, 0, 1, 0).not_held, 1);
    assert_int_equal(say(&g, a, LQ_SETTLE_RETURN, 0, 1, 0).not_held, 1);
    assert_int_equal(say(&g, a, LQ_SETTLE_ACK, 0, 1, 0).taken, 1);
    assert_int_equal(say(&g, b, LQ_SETTLE_ACK, 0, 1, 0).waiting, 1);
    commit(&g);
    assert_int_equal(say(&g, b, LQ_SETTLE_ACK, 0, 1, 0).settled, 1);
    assert_int_equal(say(&g, b, LQ_SETTLE_ACK, 2, 3, 0).unknown, 3); /* not there at all */
    assert_int_equal(g.cgroup->settled_count, 1);
    group_deinit(&g);
}

static void test_extend_begins_the_lease_anew(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    void *owner;
    uint64_t until_us;
    group_init(&g, &options, 10, 10);
    lq_lease_consumer a = join(&g, 10);
    assert_int_equal(next(&g).grant.count, 10);
    g.now_us += 20 * SECOND;
    assert_int_equal(say(&g, a, LQ_SETTLE_EXTEND, 3, 2, 0).taken, 2);
    assert_false(lq_leases_gathered(g.leases)); /* nothing of it is replicated */
    assert_true(lq_leases_holder(g.leases, 4, &owner, &until_us));
    assert_int_equal(until_us, g.now_us + 30 * SECOND);

    g.now_us += 10 * SECOND;
    assert_int_equal(lq_leases_tick(g.leases, g.now_us), LIGHTQ_OK);
    commit(&g);
    assert_int_equal(g.cgroup->failed_count, 8);
    assert_int_equal(lq_cgroup_failed(g.cgroup, 3), 0);
    g.now_us += 20 * SECOND;
    assert_int_equal(lq_leases_tick(g.leases, g.now_us), LIGHTQ_OK);
    commit(&g);
    assert_int_equal(lq_cgroup_failed(g.cgroup, 3), 1);
    group_deinit(&g);
}

/* ---- the window */

static void test_window_full_waits_and_flows_when_something_is_settled(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    options.max_unsettled = 10;
    group_init(&g, &options, 60, 60);
    lq_lease_consumer a = join(&g, 100);
    assert_int_equal(next(&g).grant.count, 10);
    assert_nothing(&g, LQ_LEASE_WINDOW);
    (void)say(&g, a, LQ_SETTLE_ACK, 4, 3, 0);
    assert_nothing(&g, LQ_LEASE_WINDOW); /* not settled before it is applied */
    commit(&g);

    struct given given = next(&g);
    assert_int_equal(given.grant.offset, 10);
    assert_int_equal(given.grant.count, 3);
    for (unsigned i = 0; i < 20; i++) { /* however often the leader changes, the window is no wider */
        change_leader(&g);
        a = join(&g, 100);
        uint64_t count = 0;
        for (given = next(&g); given.now == LQ_LEASE_OFFER; given = next(&g)) {
            count += given.grant.count;
        }
        assert_int_equal(given.now, LQ_LEASE_WINDOW);
        assert_int_equal(count, 10);
    }
    assert_int_equal(say(&g, a, LQ_SETTLE_ACK, 0, 13, 0).taken, 10);
    commit(&g);
    assert_int_equal(next(&g).grant.offset, 13);
    group_deinit(&g);
}

/* ---- leaders */

static void test_new_leader_keeps_counts_and_delays_and_takes_old_answers(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 10, 1);
    lq_lease_consumer a = join(&g, 3);
    assert_next(&g, a, 0, 1);
    assert_next(&g, a, 1, 1);
    assert_next(&g, a, 2, 1);
    (void)say(&g, a, LQ_SETTLE_NACK, 1, 1, 5000);
    commit(&g);
    g.now_us += SECOND;

    change_leader(&g);

    assert_int_equal(say(&g, LQ_LEASE_NOBODY, LQ_SETTLE_ACK, 2, 1, 0).taken, 1);
    assert_int_equal(say(&g, LQ_LEASE_NOBODY, LQ_SETTLE_NACK, 0, 1, 0).taken, 1);
    commit(&g);
    lq_lease_consumer b = join(&g, 100);
    assert_next(&g, b, 0, 2);
    assert_next(&g, b, 3, 1); /* 1 is delayed, 2 settled */
    g.now_us += 4 * SECOND - 1;
    assert_next(&g, b, 4, 1);
    g.now_us += 1;
    assert_next(&g, b, 1, 2);
    group_deinit(&g);
}

static void test_new_leader_with_a_slow_clock_waits_no_longer_than_the_delay(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    group_init(&g, &options, 1, 1);
    lq_lease_consumer a = join(&g, 1);
    assert_next(&g, a, 0, 1);
    (void)say(&g, a, LQ_SETTLE_NACK, 0, 1, 2000);
    commit(&g);

    lq_leases_free(g.leases);
    assert_int_equal(lq_leases_new(g.cgroup, g.now_us, 0, &g.leases), LIGHTQ_OK); /* it is 1970 there */
    a = join(&g, 1);

    struct given given = next(&g);
    assert_int_equal(given.now, LQ_LEASE_DELAYED);
    assert_int_equal(given.due_us, g.now_us + 2 * SECOND);
    group_deinit(&g);
}

/* ---- keys */

static void test_keys_failing_message_keeps_back_its_key_only(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    options.key_ordered = true;
    group_init(&g, &options, 40, 10); /* keys 0 to 9, each in every batch */
    lq_lease_consumer a = join(&g, 10);
    assert_int_equal(next(&g).grant.count, 10);
    (void)say(&g, a, LQ_SETTLE_NACK, 3, 1, 1000);
    (void)say(&g, a, LQ_SETTLE_ACK, 0, 3, 0);
    (void)say(&g, a, LQ_SETTLE_ACK, 4, 6, 0);
    commit(&g);
    lq_lease_consumer b = join(&g, 100);

    struct given first = next(&g);
    assert_int_equal(first.consumer, b);
    assert_int_equal(first.grant.offset, 10);
    assert_int_equal(first.grant.count, 3); /* 13 waits for 3 */
    struct lq_leases_status status;
    for (struct given given = first; given.now == LQ_LEASE_OFFER; given = next(&g)) {
        assert_true(given.grant.offset % 10 != 3);
    }
    lq_leases_status(g.leases, &status);
    assert_true(status.kept_back >= 1);
    g.now_us += SECOND;
    assert_next(&g, b, 3, 2);
    (void)say(&g, b, LQ_SETTLE_ACK, 3, 1, 0);
    commit(&g);
    assert_next(&g, b, 13, 1);
    group_deinit(&g);
}

static void test_keys_belong_to_one_consumer_at_a_time(void **state)
{
    (void)state;
    struct group g;
    struct lq_cgroup_options options = usual();
    options.key_ordered = true;
    group_init(&g, &options, 20, 1);
    lq_lease_consumer a = join(&g, 10);
    lq_lease_consumer b = join(&g, 10);
    for (uint64_t offset = 0; offset < 10; offset += 2) {
        assert_next(&g, a, offset, 1);
        assert_next(&g, b, offset + 1, 1);
    }

    (void)say(&g, a, LQ_SETTLE_ACK, 0, 1, 0);
    commit(&g);
    assert_int_equal(lq_leases_leave(g.leases, b, true, g.now_us), LIGHTQ_OK); /* its keys are free: 1, 3, 5, 7, 9 */
    lq_lease_consumer c = join(&g, 100);

    for (unsigned i = 0; i < 14; i++) {
        struct given given = next(&g);
        if (given.now != LQ_LEASE_OFFER) {
            break;
        }
        uint64_t key = given.grant.offset % 10;
        bool is_of_a = key == 2 || key == 4 || key == 6 || key == 8;
        assert_true(!is_of_a || given.consumer == a); /* it still holds the ones before */
        assert_true(given.consumer == a || given.consumer == c);
    }
    group_deinit(&g);
}

/* ---- memory */

/* Everything that may say ENOMEM, with the @nth allocation failing; it goes on afterwards. False: none failed. */
static bool run_without_memory(unsigned nth, bool key_ordered)
{
    struct group g;
    struct lq_cgroup_options options = usual();
    struct lq_lease_offer offer;
    struct lq_lease_grant grant;
    struct lq_settle_counts counts = {.taken = 0};
    uint64_t due_us;
    uint64_t keys[64];
    size_t count = 0;
    lq_lease_consumer a;
    options.key_ordered = key_ordered;
    group_init(&g, &options, 64, 64);
    for (unsigned i = 0; i < 64; i++) {
        keys[i] = i % 10;
    }

    lq_alloc_fail_at(nth);
    lightq_status status = lq_leases_join(g.leases, NULL, &a);
    if (status == LIGHTQ_OK) {
        lq_leases_credit(g.leases, a, 100, 100);
        if (lq_leases_next(g.leases, 64, g.now_us, &offer, &due_us) == LQ_LEASE_OFFER) {
            const struct lq_lease_batch batch = {.base = 0, .count = 64, .bytes = 1, .keys = key_ordered ? keys : NULL};
            status = lq_leases_take(g.leases, &offer, &batch, g.now_us, &grant, 1, &count);
            assert_true(status == LIGHTQ_OK || (status == LIGHTQ_ENOMEM && count == 0));
        }
        const struct lq_settle_item ack = {.kind = LQ_SETTLE_ACK, .first = 0, .count = 30};
        const struct lq_settle_item nack = {.kind = LQ_SETTLE_NACK, .first = 30, .count = 30, .delay_ms = 1};
        const struct lq_settle_item extend = {.kind = LQ_SETTLE_EXTEND, .first = 60, .count = 2};
        status = lq_leases_settle(g.leases, a, &ack, 64, g.now_us, &counts);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
        status = lq_leases_settle(g.leases, a, &nack, 64, g.now_us, &counts);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
        status = lq_leases_settle(g.leases, a, &extend, 64, g.now_us, &counts);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
        g.now_us += 40 * SECOND;
        status = lq_leases_tick(g.leases, g.now_us);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
        status = lq_leases_leave(g.leases, a, false, g.now_us);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM);
    }
    bool failed = lq_alloc_fail_end();

    commit(&g);
    a = join(&g, 10000);
    for (unsigned i = 0; g.cgroup->settled.floor < 64; i++) { /* nothing is lost, nothing is stuck */
        assert_true(i < 200);
        struct given given = next(&g);
        if (given.now == LQ_LEASE_OFFER) {
            (void)say(&g, a, LQ_SETTLE_ACK, given.grant.offset, given.grant.count, 0);
            commit(&g);
        } else {
            g.now_us += SECOND;
        }
    }
    group_deinit(&g);
    return failed;
}

static void test_leases_without_memory_lose_nothing(void **state)
{
    (void)state;
    unsigned nth = 1;
    while (run_without_memory(nth, false)) {
        nth++;
    }
    assert_true(nth > 6);
    nth = 1;
    while (run_without_memory(nth, true)) {
        nth++;
    }
    assert_true(nth > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_turns_goes_round_among_those_with_credit),
        cmocka_unit_test(test_credit_in_bytes_gives_at_least_one_message),
        cmocka_unit_test(test_exclusive_goes_to_the_next_when_the_active_one_leaves),
        cmocka_unit_test(test_exclusive_with_expired_leases_somebody_stays_active),
        cmocka_unit_test(test_nack_with_delay_comes_not_before_its_time),
        cmocka_unit_test(test_backoff_grows_with_the_failures),
        cmocka_unit_test(test_leave_without_goodbye_is_a_failure_with_one_it_is_none),
        cmocka_unit_test(test_reject_is_dead_at_once_and_acks_of_it_are_too_late),
        cmocka_unit_test(test_expired_lease_late_answers_are_precise),
        cmocka_unit_test(test_extend_begins_the_lease_anew),
        cmocka_unit_test(test_window_full_waits_and_flows_when_something_is_settled),
        cmocka_unit_test(test_new_leader_keeps_counts_and_delays_and_takes_old_answers),
        cmocka_unit_test(test_new_leader_with_a_slow_clock_waits_no_longer_than_the_delay),
        cmocka_unit_test(test_keys_failing_message_keeps_back_its_key_only),
        cmocka_unit_test(test_keys_belong_to_one_consumer_at_a_time),
        cmocka_unit_test(test_leases_without_memory_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
