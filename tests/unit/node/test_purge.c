/* test_purge.c - messages dropped on order and by retention, as entries of the log: what is answered and when, and that
 * replicas whose clocks differ, leaders that follow one another, and a state from a checkpoint all come to the same. */
#include "tests/unit/node/queue_fixture.h"

struct purged {
    struct lq_purge_request request;
    unsigned answers;
    lightq_status status;
};

static void on_purged(struct lq_purge_request *request, lightq_status status)
{
    struct purged *purged = request->data;
    purged->answers++;
    purged->status = status;
}

static lightq_status purge(struct fixture *f, struct purged *purged, uint64_t offset)
{
    *purged = (struct purged){.request = {.offset = offset, .cb = on_purged, .data = purged}};
    return lq_partition_purge(f->partition, &purged->request);
}

static void fill(struct fixture *f, unsigned count, unsigned step_ms)
{
    for (unsigned i = 0; i < count; i++) {
        struct produced p;
        f->clock.wall_ms += step_ms;
        assert_int_equal(produce(f, &p, 0, 0, 0, 1), LIGHTQ_OK);
        fixture_apply_all(f);
    }
}

static void set_config(struct fixture *f, uint64_t ms, uint64_t messages)
{
    const struct lq_id topic = {.bytes = {9}};
    struct lq_topic_config config;
    lq_topic_config_init(&config);
    config.retention_ms = ms;
    config.retention_messages = messages;
    lq_partition_set_config(f->partition, &topic, 0, &config);
    fixture_turn(f);
    fixture_apply_all(f);
}

static void test_purge_is_answered_when_it_is_applied(void **state)
{
    struct fixture *f = *state;
    struct purged purged;
    fixture_lead(f);
    fill(f, 10, 1);
    uint64_t digest = f->partition->state.digest;

    assert_int_equal(purge(f, &purged, 4), LIGHTQ_OK);
    fixture_turn(f);
    assert_int_equal(purged.answers, 0);
    assert_int_equal(lq_partition_start(f->partition), 0);
    fixture_apply_all(f);

    assert_int_equal(purged.answers, 1);
    assert_int_equal(purged.status, LIGHTQ_OK);
    assert_int_equal(purged.request.start_offset, 4);
    assert_int_equal(purged.request.end_offset, 10);
    assert_int_equal(purged.request.term, 1);
    assert_int_equal(lq_partition_start(f->partition), 4);
    assert_int_equal(lq_partition_machine_ops.trim_to(f->partition), 5); /* files may go up to there */
    assert_int_equal(f->partition->state.digest, digest);                /* it is over all that ever was */
}

static void test_purge_again_writes_nothing(void **state)
{
    struct fixture *f = *state;
    struct purged purged;
    fixture_lead(f);
    fill(f, 10, 1);
    assert_int_equal(purge(f, &purged, 10), LIGHTQ_OK); /* all of it */
    fixture_turn(f);
    fixture_apply_all(f);
    assert_int_equal(purged.request.start_offset, 10);
    size_t before = f->log.count;

    assert_int_equal(purge(f, &purged, 10), LIGHTQ_OK);
    assert_int_equal(purged.answers, 0); /* never inside */
    fixture_turn(f);

    assert_int_equal(purged.answers, 1);
    assert_int_equal(purged.status, LIGHTQ_OK);
    assert_int_equal(purged.request.start_offset, 10);
    assert_int_equal(purge(f, &purged, 3), LIGHTQ_OK); /* nor does it go back */
    fixture_turn(f);
    assert_int_equal(purged.request.start_offset, 10);
    assert_int_equal(f->log.count, before);
}

static void test_purge_refuses_what_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct purged purged;
    assert_int_equal(purge(f, &purged, 0), LIGHTQ_ENOTLEADER);
    fixture_lead(f);
    fill(f, 3, 1);
    struct produced p;
    assert_int_equal(produce(f, &p, 0, 0, 0, 2), LIGHTQ_OK); /* proposed */

    assert_int_equal(purge(f, &purged, 6), LIGHTQ_EOUTOFRANGE);
    assert_int_equal(purge(f, &purged, 5), LIGHTQ_OK); /* it comes behind what is proposed */
    fixture_turn(f);
    fixture_apply_all(f);

    assert_int_equal(purged.request.start_offset, 5);
    const struct lq_err why = {.status = LIGHTQ_EIO, .text = "gone"};
    lq_partition_machine_ops.stopped(f->partition, LIGHTQ_EIO, &why);
    assert_int_equal(purge(f, &purged, 5), LIGHTQ_ESTOPPED);
}

static void test_purge_full_window_waits_and_goes_on(void **state)
{
    struct fixture *f = *state;
    struct purged first, second;
    fixture_lead(f);
    fill(f, 10, 1);
    f->log.window = 1;
    assert_int_equal(purge(f, &first, 2), LIGHTQ_OK);
    assert_int_equal(purge(f, &second, 4), LIGHTQ_OK);
    fixture_turn(f);
    size_t count = f->log.count;

    fixture_turn(f);
    assert_int_equal(f->log.count, count);
    fixture_apply_all(f);
    assert_int_equal(first.answers, 1);
    assert_int_equal(second.answers, 0);
    fixture_turn(f);
    fixture_apply_all(f);

    assert_int_equal(second.answers, 1);
    assert_int_equal(second.request.start_offset, 4);
    assert_int_equal(first.request.start_offset, 2);
}

static void test_purge_too_many_are_busy(void **state)
{
    struct fixture *f = *state;
    struct purged purged[3];
    lq_partition_free(f->partition);
    fixture_partition(f, 0, 2, 0);
    fixture_lead(f);
    fill(f, 10, 1);

    assert_int_equal(purge(f, &purged[0], 2), LIGHTQ_OK);
    assert_int_equal(purge(f, &purged[1], 3), LIGHTQ_OK);
    assert_int_equal(purge(f, &purged[2], 4), LIGHTQ_EBUSY);

    fixture_turn(f);
    fixture_apply_all(f);
    assert_int_equal(purged[0].answers + purged[1].answers, 2);
    assert_int_equal(purge(f, &purged[2], 4), LIGHTQ_OK);
    fixture_turn(f);
    fixture_apply_all(f);
    assert_int_equal(purged[2].request.start_offset, 4);
}

static void test_purge_lost_leader_tells_what_is_known(void **state)
{
    struct fixture *f = *state;
    struct purged proposed, queued;
    fixture_lead(f);
    fill(f, 10, 1);
    f->log.window = 1;
    assert_int_equal(purge(f, &proposed, 2), LIGHTQ_OK);
    assert_int_equal(purge(f, &queued, 4), LIGHTQ_OK);
    fixture_turn(f);

    lq_partition_machine_ops.follow(f->partition, 2, 2);

    assert_int_equal(proposed.status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(queued.status, LIGHTQ_ENOTLEADER);
    assert_int_equal(proposed.answers + queued.answers, 2);
    fixture_apply_all(f); /* the next leader had it: it is done, and nobody is told twice */
    assert_int_equal(lq_partition_start(f->partition), 2);
    assert_int_equal(proposed.answers + queued.answers, 2);
}

static void test_purge_refused_by_the_log_says_so(void **state)
{
    struct fixture *f = *state;
    struct purged purged;
    fixture_lead(f);
    fill(f, 3, 1);
    f->log.refuse = LIGHTQ_ENOSPC;

    assert_int_equal(purge(f, &purged, 2), LIGHTQ_OK);
    fixture_turn(f);

    assert_int_equal(purged.status, LIGHTQ_ENOSPC);
    assert_int_equal(lq_partition_start(f->partition), 0);
}

static void test_purge_free_answers_it(void **state)
{
    struct fixture *f = *state;
    struct purged proposed, queued;
    fixture_lead(f);
    fill(f, 10, 1);
    f->log.window = 1;
    assert_int_equal(purge(f, &proposed, 2), LIGHTQ_OK);
    assert_int_equal(purge(f, &queued, 4), LIGHTQ_OK);
    fixture_turn(f);

    lq_partition_free(f->partition);

    assert_int_equal(proposed.status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(queued.status, LIGHTQ_ECLOSED);
    fixture_partition(f, 0, 0, 0);
}

/* ---- replicas agree ---- */

/* Gives the whole log of @f to @other, which begins empty, from index @from + 1 on. */
static void replay(struct fixture *f, struct fixture *other, size_t from)
{
    for (size_t i = from; i < f->log.applied; i++) {
        assert_int_equal(lq_partition_apply(other->partition, &f->log.at[i].entry), LIGHTQ_OK);
    }
}

/* Three leaders, whose clocks are hours apart, one after the other; a replica that has another clock still, and one
 * that begins with a checkpoint from the middle. */
static void test_retention_replicas_with_other_clocks_agree(void **state)
{
    struct fixture *f = *state;
    struct fixture other, late;
    static const uint64_t clocks_ms[] = {10000000, 100, 90000000};
    uint64_t starts[3];
    size_t middle = 0;
    struct lq_writer checkpoint = {.bytes = NULL};
    fixture_init(&other);
    fixture_init(&late);
    other.clock.wall_ms = 5;
    late.clock.wall_ms = UINT64_MAX / 2;

    for (unsigned i = 0; i < 3; i++) {
        struct purged purged;
        fixture_lead(f);
        f->clock.wall_ms = clocks_ms[i];
        set_config(f, i == 1 ? 60000 : 0, i == 1 ? 0 : 40);
        fill(f, 60, 1000);
        lq_partition_retain(f->partition);
        fixture_apply_all(f);
        assert_int_equal(purge(f, &purged, lq_partition_start(f->partition) + 3), LIGHTQ_OK);
        fixture_turn(f);
        fixture_apply_all(f);
        assert_int_equal(purged.status, LIGHTQ_OK);
        starts[i] = lq_partition_start(f->partition);
        if (i == 1) {
            checkpoint = saved(f->partition);
            middle = f->log.applied;
        }
        lq_partition_machine_ops.follow(f->partition, 2, f->log.term);
    }
    replay(f, &other, 0);
    assert_int_equal(lq_partition_load(late.partition, checkpoint.bytes, checkpoint.size), LIGHTQ_OK);
    replay(f, &late, middle);

    assert_int_equal(starts[0], 60 - 40 + 3);
    assert_int_equal(starts[1], starts[0] + 3); /* its clock is behind: stamps stand still, so nothing is old */
    assert_int_equal(starts[2], 180 - 40 + 3);
    assert_same_state(f->partition, other.partition);
    assert_same_state(f->partition, late.partition);
    lq_writer_deinit(&checkpoint);
    fixture_deinit(&other);
    fixture_deinit(&late);
}

/* A leader falls while its TRIM is not committed: the entry is cut from the log, and retention begins anew under the
 * next one, by what that one's log says. */
static void test_retention_lost_trim_is_proposed_by_the_next_leader(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_config(f, 0, 10);
    fill(f, 25, 1);
    lq_partition_retain(f->partition); /* to 15 */
    assert_int_equal(f->log.count, f->log.applied + 1);
    lq_partition_machine_ops.follow(f->partition, 2, 2);
    free(f->log.at[--f->log.count].payload); /* it was never committed */
    assert_int_equal(lq_partition_start(f->partition), 0);

    fixture_lead(f);
    fill(f, 5, 1);
    lq_partition_retain(f->partition);
    fixture_apply_all(f);

    assert_int_equal(lq_partition_start(f->partition), 20);
}

/* What a client writes into its messages as their time is not looked at: they are opaque bytes of the batch, and the
 * stamps are the leader's. Here the whole batch is the bytes 5a: as times, far in the future. */
static void test_retention_goes_by_the_leaders_stamp_alone(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_config(f, 1000, 0);
    memset(f->slab->bytes, 0, BATCH_BYTES); /* 1970 */
    fill(f, 10, 10);
    lq_partition_retain(f->partition);
    fixture_apply_all(f);
    assert_int_equal(lq_partition_start(f->partition), 0);
    memset(f->slab->bytes, 0x7f, BATCH_BYTES); /* the year of 10^11 */
    fill(f, 10, 10);

    f->clock.wall_ms += 5000;
    lq_partition_retain(f->partition);
    fixture_apply_all(f);

    assert_int_equal(lq_partition_start(f->partition), 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_purge_is_answered_when_it_is_applied),
        TEST(test_purge_again_writes_nothing),
        TEST(test_purge_refuses_what_cannot_be),
        TEST(test_purge_full_window_waits_and_goes_on),
        TEST(test_purge_too_many_are_busy),
        TEST(test_purge_lost_leader_tells_what_is_known),
        TEST(test_purge_refused_by_the_log_says_so),
        TEST(test_purge_free_answers_it),
        TEST(test_retention_replicas_with_other_clocks_agree),
        TEST(test_retention_lost_trim_is_proposed_by_the_next_leader),
        TEST(test_retention_goes_by_the_leaders_stamp_alone),
    };
    return cmocka_run_group_tests_name("purge", tests, NULL, NULL);
}
