/* test_epochs.c - producer epochs in a partition: what is stored of one fences all lower ones, in what is proposed,
 * what is applied, what a checkpoint holds and over changes of the leader; and a batch that is sent again in a later
 * epoch is stored once. */
#include "tests/unit/node/queue_fixture.h"

static void test_produce_new_epoch_fences_the_old(void **state)
{
    struct fixture *f = *state;
    struct produced p[5];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 1, 0, 4), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_int_equal(produce(f, &p[1], 9, 2, 6, 1), LIGHTQ_EOUTOFSEQUENCE); /* it does not begin the epoch */
    assert_int_equal(produce_beginning(f, &p[1], 9, 2, 6, 1), LIGHTQ_OK);   /* 4 and 5 were given up */
    assert_int_equal(produce(f, &p[2], 9, 1, 4, 2), LIGHTQ_EFENCED);        /* while the new one is proposed */
    assert_int_equal(produce(f, &p[2], 9, 2, 4, 2), LIGHTQ_EOUTOFSEQUENCE); /* nor under the new epoch */
    fixture_apply_all(f);
    assert_int_equal(produce(f, &p[2], 9, 1, 4, 2), LIGHTQ_EFENCED); /* and for ever */
    assert_int_equal(produce(f, &p[2], 9, 1, 7, 1), LIGHTQ_EFENCED);
    assert_int_equal(produce(f, &p[2], 9, 1, 0, 4), LIGHTQ_EFENCED); /* its retries too */
    assert_int_equal(produce(f, &p[3], 9, 2, 7, 1), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_int_equal(lq_partition_end(f->partition), 6);
}

static void test_produce_late_batch_of_old_epoch_is_stored_in_order(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 4), LIGHTQ_OK);

    assert_int_equal(produce(f, &p[1], 9, 0, 4, 2), LIGHTQ_OK); /* late, but before the new epoch's first */
    assert_int_equal(produce_beginning(f, &p[2], 9, 1, 6, 1), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_int_equal(p[1].request.base_offset, 4);
    assert_int_equal(p[2].request.base_offset, 6);
}

/* A batch in doubt is sent again in the next epoch, with its old sequence: once is enough. */
static void test_produce_retry_in_new_epoch_is_stored_once(void **state)
{
    struct fixture *f = *state;
    struct produced p[7];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 4), LIGHTQ_OK); /* given up by its producer */
    assert_int_equal(produce(f, &p[1], 9, 0, 4, 2), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[2], 9, 0, 6, 3), LIGHTQ_OK);

    assert_int_equal(produce_beginning(f, &p[3], 9, 1, 4, 2), LIGHTQ_OK); /* it waits for the proposal */
    fixture_apply_all(f);
    assert_int_equal(produce(f, &p[4], 9, 1, 6, 3), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[5], 9, 1, 9, 1), LIGHTQ_OK); /* new, and nothing is left out */
    assert_int_equal(produce(f, &p[6], 9, 0, 9, 1), LIGHTQ_EFENCED);
    fixture_apply_all(f);
    fixture_turn(f);

    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(p[i].answers, 1);
        assert_int_equal(p[i].status, LIGHTQ_OK);
        assert_int_equal(p[i].request.duplicate, i == 3 || i == 4);
    }
    assert_int_equal(p[3].request.base_offset, 4);
    assert_int_equal(p[4].request.base_offset, 6);
    assert_int_equal(p[5].request.base_offset, 9);
    assert_int_equal(lq_partition_end(f->partition), 10);
}

/* What may lie where an epoch began is never called stored unless it is known to be. */
static void test_produce_old_batch_from_before_the_epoch_is_not_called_stored(void **state)
{
    struct fixture *f = *state;
    struct produced p[10];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 4), LIGHTQ_OK);
    assert_int_equal(produce_beginning(f, &p[1], 9, 1, 8, 2), LIGHTQ_OK); /* 4 to 7 are not stored */
    for (unsigned i = 0; i < LQ_PRODUCER_BATCHES_KEPT; i++) {
        assert_int_equal(produce(f, &p[2 + i], 9, 1, 10 + i * 2, 2), LIGHTQ_OK);
    }
    fixture_apply_all(f);

    assert_int_equal(produce(f, &p[9], 9, 1, 8, 2), LIGHTQ_EDUPLICATE); /* of this epoch */
    assert_int_equal(produce(f, &p[9], 9, 1, 4, 4), LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(produce(f, &p[9], 9, 1, 0, 4), LIGHTQ_EOUTOFSEQUENCE); /* stored, and nobody remembers */
    assert_int_equal(produce_beginning(f, &p[9], 9, 2, 8, 2), LIGHTQ_EOUTOFSEQUENCE);
}

static void test_produce_forgotten_producer_begins_an_epoch(void **state)
{
    struct fixture *f = *state;
    struct produced p[4];
    lq_partition_free(f->partition);
    fixture_partition(f, 1, 0, 0);
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 3, 0, 4), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(produce(f, &p[1], 10, 0, 0, 1), LIGHTQ_OK); /* 9 is forgotten */
    fixture_apply_all(f);

    assert_int_equal(produce(f, &p[2], 9, 3, 4, 1), LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(produce_beginning(f, &p[2], 9, 4, 4, 1), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[3], 9, 3, 4, 1), LIGHTQ_EFENCED);
    fixture_apply_all(f);

    assert_int_equal(p[2].status, LIGHTQ_OK);
    assert_int_equal(lq_partition_end(f->partition), 6);
}

/* A fence that was only proposed goes with its proposal: what comes then is in order. One that is applied stays. */
static void test_produce_fence_follows_the_log_over_a_leader_change(void **state)
{
    struct fixture *f = *state;
    struct produced p[5];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 4), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(produce_beginning(f, &p[1], 9, 1, 6, 1), LIGHTQ_OK);
    lq_partition_machine_ops.follow(f->partition, 2, f->log.term);
    free(f->log.at[--f->log.count].payload); /* the proposal is cut */
    fixture_lead(f);
    assert_int_equal(p[1].status, LIGHTQ_ELEADERSHIPLOST);

    assert_int_equal(produce(f, &p[2], 9, 0, 4, 2), LIGHTQ_OK); /* the late batch, before the retry */
    assert_int_equal(produce_beginning(f, &p[3], 9, 1, 6, 1), LIGHTQ_OK);
    fixture_apply_all(f);
    lq_partition_machine_ops.follow(f->partition, 2, f->log.term);
    fixture_lead(f);
    assert_int_equal(produce(f, &p[4], 9, 0, 7, 1), LIGHTQ_EFENCED);

    assert_int_equal(p[2].request.base_offset, 4);
    assert_int_equal(p[3].request.base_offset, 6);
    assert_int_equal(lq_partition_end(f->partition), 7);
}

/* The state with a producer 9 in epoch 1, which left 4 and 5 out. */
static void make_fenced(struct fixture *f)
{
    struct produced p[3];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 4), LIGHTQ_OK);
    assert_int_equal(produce_beginning(f, &p[1], 9, 1, 6, 2), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[2], 9, 1, 8, 1), LIGHTQ_OK);
    fixture_apply_all(f);
}

static void test_load_keeps_the_fence_and_what_was_stored_before_it(void **state)
{
    struct fixture *f = *state;
    struct produced p[3];
    make_fenced(f);
    struct lq_writer writer = saved(f->partition);
    lq_partition_free(f->partition);
    fixture_partition(f, 0, 0, 0);

    assert_int_equal(lq_partition_load(f->partition, writer.bytes, writer.size), LIGHTQ_OK);

    lq_writer_deinit(&writer);
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 4, 2), LIGHTQ_EFENCED);
    assert_int_equal(produce(f, &p[0], 9, 1, 4, 2), LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(produce(f, &p[0], 9, 1, 0, 4), LIGHTQ_OK); /* kept, from before the epoch */
    assert_int_equal(produce(f, &p[1], 9, 1, 6, 2), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[2], 9, 1, 9, 1), LIGHTQ_OK);
    fixture_apply_all(f);
    fixture_turn(f);
    assert_true(p[0].request.duplicate && p[0].request.base_offset == 0);
    assert_true(p[1].request.duplicate && p[1].request.base_offset == 4);
    assert_int_equal(p[2].request.base_offset, 7);
}

static void test_apply_of_a_fenced_batch_stops_the_replica(void **state)
{
    struct fixture *f = *state;
    struct fixture follower;
    struct produced p;
    make_fenced(f);
    assert_int_equal(produce(f, &p, 9, 1, 9, 1), LIGHTQ_OK);
    fixture_init(&follower);
    for (size_t i = 0; i + 1 < f->log.count; i++) {
        assert_int_equal(lq_partition_apply(follower.partition, &f->log.at[i].entry), LIGHTQ_OK);
    }
    uint8_t *payload = (uint8_t *)(uintptr_t)f->log.at[f->log.count - 1].entry.payload;

    lq_put_u32(payload + 32, 0); /* as a leader would have it that does not know of the newer epoch */
    assert_int_equal(lq_partition_apply(follower.partition, &f->log.at[f->log.count - 1].entry), LIGHTQ_ECORRUPT);

    lq_put_u32(payload + 32, 1);
    fixture_apply_all(f);
    fixture_deinit(&follower);
}

static void test_append_command_survives_its_bytes(void **state)
{
    (void)state;
    uint8_t bytes[LQ_COMMAND_APPEND_HEAD_MOST] = {0};
    struct lq_command back;
    const struct lq_command append = {
        .append = {.producer_id = 3, .sequence = 4, .expected_offset = 5, .epoch = 6, .batch_crc = 7}};
    assert_int_equal(lq_command_append_head(&append, bytes), LQ_COMMAND_APPEND_HEAD_BYTES);
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_OK);
    assert_true(back.append.producer_id == 3 && back.append.sequence == 4 && back.append.expected_offset == 5);
    assert_true(back.append.epoch == 6 && back.append.batch_crc == 7 && !back.append.begins_epoch);

    bytes[36] = LQ_COMMAND_APPEND_BEGINS;
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_OK);
    assert_true(back.append.begins_epoch);
    bytes[36] |= 2; /* nobody knows what that is */
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_ECORRUPT);
    bytes[1] = 1; /* before epochs */
    bytes[36] = LQ_COMMAND_APPEND_BEGINS;
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_ECORRUPT);
    bytes[36] = 0;
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_OK);
    bytes[1] = 4;
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_EVERSION);
    bytes[1] = 0;
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &back), LIGHTQ_EVERSION);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_produce_new_epoch_fences_the_old),
        CASE(test_produce_late_batch_of_old_epoch_is_stored_in_order),
        CASE(test_produce_retry_in_new_epoch_is_stored_once),
        CASE(test_produce_old_batch_from_before_the_epoch_is_not_called_stored),
        CASE(test_produce_forgotten_producer_begins_an_epoch),
        CASE(test_produce_fence_follows_the_log_over_a_leader_change),
        CASE(test_load_keeps_the_fence_and_what_was_stored_before_it),
        CASE(test_apply_of_a_fenced_batch_stops_the_replica),
        CASE(test_append_command_survives_its_bytes),
    };
    return cmocka_run_group_tests_name("epochs", tests, NULL, NULL);
}
