/* test_partition.c - producing into a partition: offsets, retries, fencing, waiting, leadership, retention, watchers.
 */
#include "tests/unit/node/queue_fixture.h"

static void test_produce_applied_batch_gets_offset_and_stamp(void **state)
{
    struct fixture *f = *state;
    struct produced a;
    struct produced b;
    fixture_lead(f);

    assert_int_equal(produce(f, &a, 0, 0, 0, 3), LIGHTQ_OK);
    f->clock.wall_ms -= 500; /* a clock that goes back */
    assert_int_equal(produce(f, &b, 0, 0, 0, 2), LIGHTQ_OK);
    assert_int_equal(a.answers + b.answers, 0); /* never inside the call */
    assert_int_equal(lq_partition_end(f->partition), 0);
    fixture_apply_all(f);

    assert_int_equal(a.answers, 1);
    assert_int_equal(a.status, LIGHTQ_OK);
    assert_int_equal(a.request.base_offset, 0);
    assert_int_equal(a.request.term, 1);
    assert_int_equal(a.request.timestamp_ms, 1000000);
    assert_false(a.request.duplicate);
    assert_int_equal(b.request.base_offset, 3);
    assert_int_equal(b.request.timestamp_ms, 1000000); /* stamps never go back */
    assert_int_equal(lq_partition_end(f->partition), 5);
}

static void test_produce_on_follower_is_refused(void **state)
{
    struct fixture *f = *state;
    struct produced p;

    assert_int_equal(produce(f, &p, 0, 0, 0, 1), LIGHTQ_ENOTLEADER);

    assert_int_equal(p.answers, 0);
    assert_int_equal(f->log.count, 0);
}

static void test_produce_bad_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);

    assert_int_equal(produce(f, &p, 0, 0, 0, 0), LIGHTQ_EINVAL);
    assert_int_equal(produce(f, &p, 0, 0, 0, LQ_BATCH_RECORDS_MAX + 1), LIGHTQ_EINVAL);
    assert_int_equal(produce(f, &p, 5, 0, UINT64_MAX, 1), LIGHTQ_EINVAL);
    produced_init(f, &p, 0, 0, 0, 1);
    p.request.size = LQ_ENTRY_BYTES_MAX;
    assert_int_equal(lq_partition_produce(f->partition, &p.request), LIGHTQ_ETOOBIG);

    assert_int_equal(f->log.count, 1);
}

static void test_produce_submit_failure_is_returned_and_forgotten(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);

    f->log.refuse = LIGHTQ_ENOSPC;
    assert_int_equal(produce(f, &p, 9, 0, 0, 2), LIGHTQ_ENOSPC);
    f->log.refuse = LIGHTQ_OK;
    assert_int_equal(produce(f, &p, 9, 0, 0, 2), LIGHTQ_OK); /* not taken for a retry */
    fixture_apply_all(f);

    assert_int_equal(p.status, LIGHTQ_OK);
    assert_false(p.request.duplicate);
    assert_int_equal(lq_partition_end(f->partition), 2);
}

static void test_produce_retry_of_stored_batch_gives_its_offset(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 2), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 9, 0, 2, 4), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_int_equal(produce(f, &p[2], 9, 0, 0, 2), LIGHTQ_OK);
    assert_int_equal(p[2].answers, 0);
    fixture_turn(f);

    assert_int_equal(p[2].answers, 1);
    assert_int_equal(p[2].status, LIGHTQ_OK);
    assert_true(p[2].request.duplicate);
    assert_int_equal(p[2].request.base_offset, 0);
    assert_int_equal(p[2].request.term, p[0].request.term);
    assert_int_equal(lq_partition_end(f->partition), 6);
}

static void test_produce_retry_of_proposed_batch_waits_for_it(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 2), LIGHTQ_OK);

    assert_int_equal(produce(f, &p[1], 9, 0, 0, 2), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[2], 9, 0, 0, 2), LIGHTQ_OK);
    fixture_turn(f);
    assert_int_equal(p[0].answers + p[1].answers + p[2].answers, 0);
    assert_int_equal(f->log.count, 2); /* the barrier, and one proposal */
    fixture_apply_all(f);

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(p[i].answers, 1);
        assert_int_equal(p[i].status, LIGHTQ_OK);
        assert_int_equal(p[i].request.base_offset, 0);
        assert_int_equal(p[i].request.duplicate, i > 0);
    }
}

static void test_produce_old_batch_is_duplicate_without_offset(void **state)
{
    struct fixture *f = *state;
    struct produced p[8];
    fixture_lead(f);
    for (unsigned i = 0; i < LQ_PRODUCER_BATCHES_KEPT + 1; i++) {
        assert_int_equal(produce(f, &p[i], 9, 0, i * 10, 10), LIGHTQ_OK);
    }
    fixture_apply_all(f);

    assert_int_equal(produce(f, &p[7], 9, 0, 0, 10), LIGHTQ_EDUPLICATE);
    assert_int_equal(produce(f, &p[7], 9, 0, 10, 5), LIGHTQ_EDUPLICATE); /* stored, cut otherwise */
    assert_int_equal(produce(f, &p[7], 9, 0, 10, 10), LIGHTQ_OK);        /* the oldest that is kept */
    fixture_turn(f);

    assert_int_equal(p[7].request.base_offset, 10);
}

static void test_produce_gap_and_overlap_are_out_of_sequence(void **state)
{
    struct fixture *f = *state;
    struct produced p[4];
    fixture_lead(f);

    assert_int_equal(produce(f, &p[0], 9, 0, 1, 1), LIGHTQ_EOUTOFSEQUENCE); /* unknown, and not the beginning */
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 4), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 9, 0, 5, 1), LIGHTQ_EOUTOFSEQUENCE); /* a gap behind what is proposed */
    assert_int_equal(produce(f, &p[1], 9, 0, 2, 4), LIGHTQ_EOUTOFSEQUENCE); /* half old, half new */
    assert_int_equal(produce(f, &p[1], 9, 0, 0, 2), LIGHTQ_EOUTOFSEQUENCE); /* part of what is only proposed */
    fixture_apply_all(f);
    assert_int_equal(produce(f, &p[1], 9, 0, 2, 4), LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(produce(f, &p[1], 9, 0, 4, 1), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_int_equal(lq_partition_end(f->partition), 5);
}

static void test_produce_expected_offset_is_checked(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 0, 0, 0, 4), LIGHTQ_OK);

    produced_init(f, &p[1], 5, 0, 0, 1);
    p[1].request.expected_offset = 3;
    assert_int_equal(lq_partition_produce(f->partition, &p[1].request), LIGHTQ_EEXPECTED);
    p[1].request.expected_offset = 4; /* behind what is only proposed */
    assert_int_equal(lq_partition_produce(f->partition, &p[1].request), LIGHTQ_OK);
    fixture_apply_all(f);
    p[2] = p[1];
    p[2].request.data = &p[2];
    p[2].answers = 0;
    assert_int_equal(lq_partition_produce(f->partition, &p[2].request), LIGHTQ_OK); /* a retry is known, not judged */
    fixture_turn(f);

    assert_int_equal(p[1].request.base_offset, 4);
    assert_int_equal(p[2].status, LIGHTQ_OK);
    assert_true(p[2].request.duplicate);
}

static void test_produce_full_window_queues_in_order(void **state)
{
    struct fixture *f = *state;
    struct produced p[6];
    fixture_lead(f);
    f->log.window = 2;

    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(produce(f, &p[i], 9, 0, i, 1), LIGHTQ_OK);
    }
    assert_int_equal(f->log.count, 3);
    assert_false(lq_partition_needs_turn(f->partition)); /* nothing to do before an apply */
    while (f->log.applied < f->log.count) {
        fixture_apply(f, 1);
        fixture_turn(f);
    }

    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(p[i].answers, 1);
        assert_int_equal(p[i].status, LIGHTQ_OK);
        assert_int_equal(p[i].request.base_offset, i);
    }
}

static void test_produce_too_much_waiting_is_busy(void **state)
{
    struct fixture *f = *state;
    struct produced p[5];
    lq_partition_free(f->partition);
    fixture_partition(f, 0, 3, 2 * BATCH_BYTES);
    fixture_lead(f);
    f->log.window = 1;

    assert_int_equal(produce(f, &p[0], 0, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 0, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[2], 0, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[3], 0, 0, 0, 1), LIGHTQ_EBUSY); /* by count */
    fixture_apply(f, 1);
    assert_int_equal(produce(f, &p[3], 0, 0, 0, 1), LIGHTQ_EBUSY); /* by bytes: two are queued still */
    fixture_turn(f);
    assert_int_equal(produce(f, &p[3], 0, 0, 0, 1), LIGHTQ_OK);
    while (f->log.applied < f->log.count) {
        fixture_apply(f, 1);
        fixture_turn(f);
    }

    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(p[i].answers, 1);
        assert_int_equal(p[i].request.base_offset, i);
    }
}

static void test_follow_tells_proposed_and_queued_apart(void **state)
{
    struct fixture *f = *state;
    struct produced p[4];
    fixture_lead(f);
    f->log.window = 1;
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 9, 0, 1, 1), LIGHTQ_OK);

    lq_partition_machine_ops.follow(f->partition, 2, 2);

    assert_int_equal(p[0].status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(p[1].status, LIGHTQ_ENOTLEADER);
    assert_int_equal(p[0].answers + p[1].answers, 2);
    assert_false(lq_partition_leading(f->partition));
    assert_int_equal(lq_partition_leader(f->partition), 2);
    fixture_apply_all(f); /* it was committed after all */
    f->log.window = 0;
    fixture_lead(f);
    assert_int_equal(produce(f, &p[2], 9, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[3], 9, 0, 1, 1), LIGHTQ_OK);
    fixture_turn(f);
    fixture_apply_all(f);
    assert_true(p[2].request.duplicate);
    assert_false(p[3].request.duplicate);
    assert_int_equal(p[3].request.base_offset, 1);
}

/* The group saw leadership end and begin again between two turns: the machine is told only the last. */
static void test_lead_again_without_follow_drops_what_was_proposed(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 9, 0, 1, 1), LIGHTQ_OK);

    while (f->log.count > f->log.applied) { /* they were cut */
        free(f->log.at[--f->log.count].payload);
    }
    fixture_lead(f);

    assert_int_equal(p[0].answers + p[1].answers, 2);
    assert_int_equal(p[0].status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(p[1].status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(produce(f, &p[2], 9, 0, 0, 1), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(p[2].status, LIGHTQ_OK);
    assert_int_equal(p[2].request.base_offset, 0);
    lq_partition_machine_ops.lead(f->partition, 9); /* and once more, with nothing applied between */
    assert_true(lq_partition_leading(f->partition));
}

static void test_stopped_refuses_and_says_why(void **state)
{
    struct fixture *f = *state;
    struct produced p[2];
    struct lq_partition_status status;
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 0, 0, 0, 1), LIGHTQ_OK);

    const struct lq_err err = {.status = LIGHTQ_EIO, .text = "the disk is gone"};
    lq_partition_machine_ops.stopped(f->partition, LIGHTQ_EIO, &err);

    assert_int_equal(p[0].status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(produce(f, &p[1], 0, 0, 0, 1), LIGHTQ_ESTOPPED);
    assert_int_equal(lq_partition_trim(f->partition, 1), LIGHTQ_ESTOPPED);
    lq_partition_status(f->partition, &status);
    assert_true(status.stopped);
    assert_int_equal(status.stopped_status, LIGHTQ_EIO);
    assert_string_equal(status.stopped_text, "the disk is gone");
    assert_int_equal(lq_partition_leader(f->partition), 0); /* else it is not rebuilt: found by chaos/run bit-flip */
    assert_int_equal(status.leader, 0);
}

static void test_free_answers_everything_once(void **state)
{
    struct fixture *f = *state;
    struct produced p[4];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 1), LIGHTQ_OK);
    fixture_apply_all(f);
    f->log.window = 1;
    assert_int_equal(produce(f, &p[1], 9, 0, 0, 1), LIGHTQ_OK); /* decided, to be told */
    assert_int_equal(produce(f, &p[2], 9, 0, 1, 1), LIGHTQ_OK); /* proposed */
    assert_int_equal(produce(f, &p[3], 9, 0, 2, 1), LIGHTQ_OK); /* queued */

    lq_partition_free(f->partition);
    f->partition = NULL;

    assert_int_equal(p[1].answers + p[2].answers + p[3].answers, 3);
    assert_int_equal(p[1].status, LIGHTQ_OK);
    assert_int_equal(p[2].status, LIGHTQ_ELEADERSHIPLOST);
    assert_int_equal(p[3].status, LIGHTQ_ECLOSED);
}

/* An answer that hands in the next batch at once. */
struct chained {
    struct produced first, second;
    struct fixture *f;
    lightq_status taken;
};

static void on_chained(struct lq_partition_request *request, lightq_status status)
{
    struct chained *chain = request->data;
    chain->first.answers++;
    chain->first.status = status;
    chain->taken = produce(chain->f, &chain->second, 9, 0, 1, 1);
}

static void test_produce_inside_answer_waits_for_the_turn(void **state)
{
    struct fixture *f = *state;
    struct chained chain = {.f = f};
    fixture_lead(f);
    produced_init(f, &chain.first, 9, 0, 0, 1);
    chain.first.request.cb = on_chained;
    chain.first.request.data = &chain;
    assert_int_equal(lq_partition_produce(f->partition, &chain.first.request), LIGHTQ_OK);

    fixture_apply_all(f);
    assert_int_equal(chain.taken, LIGHTQ_OK);
    assert_int_equal(f->log.count, 2); /* nothing is proposed inside a machine call */
    assert_true(f->log.woken > 0);
    fixture_turn(f);
    fixture_apply_all(f);

    assert_int_equal(chain.second.status, LIGHTQ_OK);
    assert_int_equal(chain.second.request.base_offset, 1);
}

static void test_forget_makes_room_for_new_producers(void **state)
{
    struct fixture *f = *state;
    struct produced p[40];
    struct lq_partition_status status;
    lq_partition_free(f->partition);
    fixture_partition(f, 8, 0, 0);
    fixture_lead(f);

    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(produce(f, &p[i], 100 + i, 0, 0, 1), LIGHTQ_OK);
        fixture_apply_all(f);
    }

    lq_partition_status(f->partition, &status);
    assert_in_range(status.producers, 1, 8);
    assert_int_equal(produce(f, &p[30], 100 + 29, 0, 1, 1), LIGHTQ_OK);        /* the newest is known */
    assert_int_equal(produce(f, &p[31], 100, 0, 1, 1), LIGHTQ_EOUTOFSEQUENCE); /* the oldest is not */
    fixture_apply_all(f);
    assert_int_equal(lq_partition_end(f->partition), 31);
}

static void test_forget_in_flight_counts_as_forgotten(void **state)
{
    struct fixture *f = *state;
    struct produced p[8];
    lq_partition_free(f->partition);
    fixture_partition(f, 3, 0, 0);
    fixture_lead(f);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(produce(f, &p[i], 1 + i, 0, 0, 1), LIGHTQ_OK);
    }
    fixture_apply_all(f);

    assert_int_equal(produce(f, &p[3], 2, 0, 1, 1), LIGHTQ_OK);             /* 2 has a batch in flight: it stays */
    assert_int_equal(produce(f, &p[4], 50, 0, 0, 1), LIGHTQ_OK);            /* proposes FORGET: 1 goes */
    assert_int_equal(produce(f, &p[5], 1, 0, 1, 1), LIGHTQ_EOUTOFSEQUENCE); /* unknown from now on */
    assert_int_equal(produce(f, &p[6], 2, 0, 2, 1), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_int_equal(p[4].status, LIGHTQ_OK);
    assert_int_equal(p[6].status, LIGHTQ_OK);
    assert_int_equal(lq_partition_end(f->partition), 6);
}

static void test_forget_without_idle_producer_waits(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    lq_partition_free(f->partition);
    fixture_partition(f, 1, 0, 0);
    fixture_lead(f);

    assert_int_equal(produce(f, &p[0], 1, 0, 0, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 2, 0, 0, 1), LIGHTQ_OK); /* queued: the only producer is busy */
    assert_int_equal(f->log.count, 2);
    fixture_apply_all(f);
    fixture_turn(f);
    fixture_apply_all(f);

    assert_int_equal(p[1].status, LIGHTQ_OK);
    assert_int_equal(p[1].request.base_offset, 1);
}

static void test_config_is_proposed_once_when_it_differs(void **state)
{
    struct fixture *f = *state;
    const struct lq_id topic = {.bytes = {1, 2, 3}};
    struct lq_topic_config config;
    struct lq_partition_status status;
    lq_topic_config_init(&config);
    config.retention_bytes = 12345;
    fixture_lead(f);

    lq_partition_set_config(f->partition, &topic, 4, &config);
    fixture_turn(f);
    fixture_turn(f);
    assert_int_equal(f->log.count, 2);
    fixture_apply_all(f);
    lq_partition_set_config(f->partition, &topic, 4, &config);
    fixture_turn(f);

    assert_int_equal(f->log.count, 2); /* the same again writes nothing */
    lq_partition_status(f->partition, &status);
    assert_true(lq_id_equal(&status.topic, &topic));
    assert_int_equal(status.number, 4);
    assert_int_equal(status.config.retention_bytes, 12345);
}

static void set_retention(struct fixture *f, uint64_t bytes, uint64_t ms, uint64_t messages)
{
    const struct lq_id topic = {.bytes = {9}};
    struct lq_topic_config config;
    lq_topic_config_init(&config);
    config.retention_bytes = bytes;
    config.retention_ms = ms;
    config.retention_messages = messages;
    lq_partition_set_config(f->partition, &topic, 0, &config);
    fixture_turn(f);
    fixture_apply_all(f);
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

static void test_retain_by_age_drops_only_what_is_old(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_retention(f, 0, 60000, 0);
    fill(f, 100, 1000); /* message i is 100 - 1 - i seconds old */

    lq_partition_retain(f->partition);
    lq_partition_retain(f->partition); /* one at a time */
    fixture_apply_all(f);

    uint64_t start = lq_partition_start(f->partition);
    assert_in_range(start, 35, 40); /* 39 messages are 60 s old or older */
    f->clock.wall_ms += 120000;
    lq_partition_retain(f->partition);
    fixture_apply_all(f);
    assert_int_equal(lq_partition_start(f->partition), 100);
    assert_int_equal(lq_partition_end(f->partition), 100);
    struct lq_partition_status status;
    lq_partition_status(f->partition, &status);
    assert_int_equal(status.bytes, 0);
}

static void test_retain_by_bytes_keeps_at_least_that_much(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_retention(f, 1000 * BATCH_BYTES, 0, 0);
    fill(f, 5000, 500);

    lq_partition_retain(f->partition);
    fixture_apply_all(f);

    uint64_t kept = 5000 - lq_partition_start(f->partition);
    assert_in_range(kept, 1000, 1100);
    struct lq_partition_status status;
    lq_partition_status(f->partition, &status);
    assert_in_range(status.bytes, 1000 * BATCH_BYTES, 1100 * BATCH_BYTES);
}

static void test_retain_by_messages_is_exact(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_retention(f, 0, 0, 10);
    fill(f, 25, 1);

    lq_partition_retain(f->partition);
    fixture_apply_all(f);

    assert_int_equal(lq_partition_start(f->partition), 15);
}

static void test_retain_without_limits_keeps_all(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    fill(f, 50, 100000);
    size_t before = f->log.count;

    lq_partition_retain(f->partition);

    assert_int_equal(f->log.count, before);
}

static void test_trim_moves_start_and_trim_point(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    fill(f, 10, 1);
    assert_int_equal(lq_partition_machine_ops.trim_to(f->partition), 0);

    assert_int_equal(lq_partition_trim(f->partition, 4), LIGHTQ_OK);
    assert_int_equal(lq_partition_trim(f->partition, 5), LIGHTQ_EBUSY);
    fixture_apply_all(f);

    assert_int_equal(lq_partition_start(f->partition), 4);
    /* Entry 1 is the barrier, offset 4 is entry 6: entries up to 5 may go. */
    assert_int_equal(lq_partition_machine_ops.trim_to(f->partition), 5);
    assert_int_equal(lq_partition_trim(f->partition, 2), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(lq_partition_start(f->partition), 4); /* never back */
    assert_int_equal(lq_partition_trim(f->partition, LQ_OFFSET_ANY), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(lq_partition_start(f->partition), 10);
    lq_partition_machine_ops.follow(f->partition, 2, 2);
    assert_int_equal(lq_partition_trim(f->partition, 5), LIGHTQ_ENOTLEADER);
}

/* The log ends in entries without messages that are not committed, as those of a leader who failed: where the start is
 * to be found depends on what comes in their place. */
static void test_trim_point_never_counts_entries_that_may_be_cut(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    fill(f, 3, 1);
    assert_int_equal(lq_partition_trim(f->partition, LQ_OFFSET_ANY), LIGHTQ_OK);
    for (unsigned i = 0; i < 3; i++) {
        log_barrier(&f->log); /* entries 6 to 8 */
    }
    fixture_apply(f, 1);
    assert_int_equal(lq_partition_applied(f->partition), 5);
    assert_int_equal(lq_partition_machine_ops.trim_to(f->partition), 5);
    while (f->log.count > f->log.applied) {
        free(f->log.at[--f->log.count].payload);
    }

    fixture_lead(f);
    fill(f, 2, 1);

    assert_int_equal(lq_partition_start(f->partition), 3);
    assert_int_equal(lq_partition_applied(f->partition), 8);
    /* Entry 6 is the new leader's barrier, entry 7 has offset 3, which consumers may want. */
    assert_true(lq_partition_machine_ops.trim_to(f->partition) < 7);
}

struct seen {
    struct lq_partition_watcher watcher;
    unsigned calls, events;
    bool remove;
};

static void on_watch(struct lq_partition_watcher *watcher, unsigned events)
{
    struct seen *seen = watcher->data;
    seen->calls++;
    seen->events |= events;
    if (seen->remove) {
        lq_partition_unwatch(watcher);
    }
}

static void test_watchers_are_told_once_a_turn(void **state)
{
    struct fixture *f = *state;
    struct seen seen[3] = {{.calls = 0}};
    for (unsigned i = 0; i < 3; i++) {
        seen[i].watcher = (struct lq_partition_watcher){.cb = on_watch, .data = &seen[i]};
        lq_partition_watch(f->partition, &seen[i].watcher);
    }
    seen[1].remove = true;
    fixture_lead(f);
    fixture_turn(f);
    assert_int_equal(seen[0].events, LQ_PARTITION_LEADERSHIP);

    fill(f, 5, 1);
    assert_int_equal(seen[0].calls, 1);
    assert_true(lq_partition_needs_turn(f->partition));
    fixture_turn(f);

    assert_int_equal(seen[0].calls, 2);
    assert_int_equal(seen[0].events, LQ_PARTITION_LEADERSHIP | LQ_PARTITION_APPLIED);
    assert_int_equal(seen[1].calls, 1);
    assert_int_equal(seen[2].calls, 2);
    lq_partition_unwatch(&seen[1].watcher); /* harmless */
    lq_partition_free(f->partition);
    f->partition = NULL;
    assert_true((seen[0].events & LQ_PARTITION_CLOSED) != 0);
    assert_true((seen[1].events & LQ_PARTITION_CLOSED) == 0);
}

static void test_entry_batch_gives_appends_only(void **state)
{
    struct fixture *f = *state;
    const uint8_t *batch;
    uint32_t size;
    fixture_lead(f);
    fill(f, 1, 1);
    assert_int_equal(lq_partition_trim(f->partition, 1), LIGHTQ_OK);

    assert_false(lq_partition_entry_batch(&f->log.at[0].entry, &batch, &size)); /* the barrier */
    assert_true(lq_partition_entry_batch(&f->log.at[1].entry, &batch, &size));
    assert_int_equal(size, BATCH_BYTES);
    assert_memory_equal(batch, f->slab->bytes, size);
    assert_false(lq_partition_entry_batch(&f->log.at[2].entry, &batch, &size));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_produce_applied_batch_gets_offset_and_stamp),
        CASE(test_produce_on_follower_is_refused),
        CASE(test_produce_bad_arguments_are_refused),
        CASE(test_produce_submit_failure_is_returned_and_forgotten),
        CASE(test_produce_retry_of_stored_batch_gives_its_offset),
        CASE(test_produce_retry_of_proposed_batch_waits_for_it),
        CASE(test_produce_old_batch_is_duplicate_without_offset),
        CASE(test_produce_gap_and_overlap_are_out_of_sequence),
        CASE(test_produce_expected_offset_is_checked),
        CASE(test_produce_full_window_queues_in_order),
        CASE(test_produce_too_much_waiting_is_busy),
        CASE(test_follow_tells_proposed_and_queued_apart),
        CASE(test_lead_again_without_follow_drops_what_was_proposed),
        CASE(test_stopped_refuses_and_says_why),
        CASE(test_free_answers_everything_once),
        CASE(test_produce_inside_answer_waits_for_the_turn),
        CASE(test_forget_makes_room_for_new_producers),
        CASE(test_forget_in_flight_counts_as_forgotten),
        CASE(test_forget_without_idle_producer_waits),
        CASE(test_config_is_proposed_once_when_it_differs),
        CASE(test_retain_by_age_drops_only_what_is_old),
        CASE(test_retain_by_bytes_keeps_at_least_that_much),
        CASE(test_retain_by_messages_is_exact),
        CASE(test_retain_without_limits_keeps_all),
        CASE(test_trim_moves_start_and_trim_point),
        CASE(test_trim_point_never_counts_entries_that_may_be_cut),
        CASE(test_watchers_are_told_once_a_turn),
        CASE(test_entry_batch_gives_appends_only),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
