/* test_producers.c - the table of producers and the retention marks, alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/queue/marks.h"
#include "node/queue/producers.h"

static void apply(struct lq_producers *producers, uint64_t id, uint32_t epoch, uint64_t sequence, uint64_t index)
{
    const struct lq_batch_place place = {
        .sequence = sequence, .count = 2, .base_offset = index * 10, .term = 1, .timestamp_ms = 5};
    assert_int_equal(lq_producers_applied(producers, id, epoch, index, &place), LIGHTQ_OK);
}

static enum lq_verdict judge(const struct lq_progress *progress, uint32_t epoch, bool begins, uint64_t sequence,
                             uint32_t count)
{
    const struct lq_numbering batch = {.epoch = epoch, .begins_epoch = begins, .sequence = sequence, .count = count};
    return lq_sequence_judge(progress, &batch);
}

static void test_judge_inside_an_epoch_lets_nothing_out(void **state)
{
    (void)state;
    const struct lq_progress at = {.epoch = 7, .epoch_sequence = 4, .next_sequence = 10};

    assert_int_equal(judge(&at, 7, false, 10, 3), LQ_VERDICT_NEXT);
    assert_int_equal(judge(&at, 7, false, 11, 3), LQ_VERDICT_GAP);
    assert_int_equal(judge(&at, 7, true, 11, 3), LQ_VERDICT_GAP); /* it began at 4, and begins once */
    assert_int_equal(judge(&at, 7, false, 7, 3), LQ_VERDICT_OLD);
    assert_int_equal(judge(&at, 7, false, 4, 6), LQ_VERDICT_OLD);
    assert_int_equal(judge(&at, 7, false, 8, 3), LQ_VERDICT_GAP);     /* two old messages and a new one */
    assert_int_equal(judge(&at, 7, false, 3, 3), LQ_VERDICT_EARLIER); /* from before the epoch */
    assert_int_equal(judge(&at, 7, true, 0, 3), LQ_VERDICT_EARLIER);
}

static void test_judge_of_an_unknown_producer_wants_a_beginning(void **state)
{
    (void)state;

    assert_int_equal(judge(NULL, 7, false, 0, 3), LQ_VERDICT_NEXT);
    assert_int_equal(judge(NULL, 7, false, 1, 3), LQ_VERDICT_GAP);
    assert_int_equal(judge(NULL, 7, true, 1, 3), LQ_VERDICT_NEXT);
}

static void test_judge_of_a_lower_epoch_is_fenced(void **state)
{
    (void)state;
    const struct lq_progress at = {.epoch = 7, .epoch_sequence = 4, .next_sequence = 10};

    assert_int_equal(judge(&at, 6, false, 10, 3), LQ_VERDICT_FENCED); /* what would follow */
    assert_int_equal(judge(&at, 6, true, 20, 3), LQ_VERDICT_FENCED);
    assert_int_equal(judge(&at, 0, false, 4, 3), LQ_VERDICT_FENCED); /* what is stored: ask with the epoch of now */
}

static void test_judge_of_a_new_epoch_may_leave_out_only_where_it_begins(void **state)
{
    (void)state;
    const struct lq_progress at = {.epoch = 7, .epoch_sequence = 4, .next_sequence = 10};

    assert_int_equal(judge(&at, 8, true, 10, 3), LQ_VERDICT_NEXT);
    assert_int_equal(judge(&at, 8, true, 12, 3), LQ_VERDICT_NEXT);
    assert_int_equal(judge(&at, 9, false, 10, 3), LQ_VERDICT_NEXT); /* nothing is left out */
    assert_int_equal(judge(&at, 8, false, 11, 3), LQ_VERDICT_GAP);
    assert_int_equal(judge(&at, 8, true, 7, 3), LQ_VERDICT_EARLIER);
    assert_int_equal(judge(&at, 8, true, 8, 3), LQ_VERDICT_GAP);
    assert_int_equal(judge(&at, 8, false, 0, 3), LQ_VERDICT_EARLIER);
}

static void test_producers_keep_the_last_batches(void **state)
{
    (void)state;
    struct lq_producers producers = {.count = 0};

    for (unsigned i = 0; i < LQ_PRODUCER_BATCHES_KEPT + 2; i++) {
        apply(&producers, 4, 0, i * 2, 100 + i);
    }

    const struct lq_producer *producer = lq_producers_find(&producers, 4);
    assert_int_equal(producer->progress.next_sequence, (LQ_PRODUCER_BATCHES_KEPT + 2) * 2);
    assert_null(lq_producer_batch(producer, 2, 2));
    assert_int_equal(lq_producer_batch(producer, 4, 2)->base_offset, 1020);
    assert_null(lq_producer_batch(producer, 4, 1)); /* another cut is another batch */
    apply(&producers, 4, 3, 50, 200);               /* a new epoch, which leaves something out */
    assert_null(lq_producer_batch(producer, 4, 2));
    assert_int_equal(lq_producer_batch(producer, 6, 2)->base_offset, 1030);
    assert_int_equal(lq_producer_batch(producer, 50, 2)->base_offset, 2000);
    assert_int_equal(producer->progress.epoch, 3);
    assert_int_equal(producer->progress.epoch_sequence, 50);
    assert_int_equal(producer->progress.next_sequence, 52);
    lq_producers_deinit(&producers);
}

static void test_producers_are_forgotten_by_last_use(void **state)
{
    (void)state;
    struct lq_producers producers = {.count = 0};
    apply(&producers, 1, 0, 0, 10);
    apply(&producers, 2, 0, 0, 11);
    apply(&producers, 3, 0, 0, 12);
    apply(&producers, 1, 0, 2, 13); /* used again */

    lq_producers_forget(&producers, 11);

    assert_int_equal(producers.count, 2);
    assert_null(lq_producers_find(&producers, 2));
    assert_int_equal(producers.oldest->id, 3);
    assert_int_equal(producers.newest->id, 1);
    lq_producers_forget(&producers, UINT64_MAX);
    assert_int_equal(producers.count, 0);
    assert_null(producers.newest);
    apply(&producers, 9, 0, 0, 20); /* it goes on after that */
    assert_int_equal(producers.count, 1);
    lq_producers_deinit(&producers);
}

static void test_producers_are_bounded(void **state)
{
    (void)state;
    struct lq_producers producers = {.count = 0};
    const struct lq_batch_place place = {.count = 1};
    for (uint64_t id = 1; id <= LQ_PRODUCERS_MAX; id++) {
        apply(&producers, id, 0, 0, id);
    }

    assert_int_equal(lq_producers_applied(&producers, UINT64_MAX, 0, LQ_PRODUCERS_MAX + 1, &place), LIGHTQ_ELIMIT);

    apply(&producers, 5, 0, 2, LQ_PRODUCERS_MAX + 1); /* those that are known go on */
    assert_int_equal(producers.count, LQ_PRODUCERS_MAX);
    lq_producers_deinit(&producers);
}

/* Where the fields of the only producer are. */
enum { EPOCH_SEQUENCE_AT = 20, BATCHES_AT = 44, BATCH_BYTES_EACH = 36 };

/* Producer 9: sequences 0 to 3, then epoch 1 with 6 and 7, and 8 and 9. */
static struct lq_writer saved_with_epochs(void)
{
    struct lq_producers producers = {.count = 0};
    struct lq_writer writer;
    apply(&producers, 9, 0, 0, 1);
    apply(&producers, 9, 0, 2, 2);
    apply(&producers, 9, 1, 6, 3);
    apply(&producers, 9, 1, 8, 4);
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    lq_producers_save(&producers, &writer);
    assert_int_equal(writer.status, LIGHTQ_OK);
    lq_producers_deinit(&producers);
    return writer;
}

/* Whether @bytes with @value at @at are loaded; they are @bytes again when that is what they were saved from. */
static lightq_status load_with(struct lq_writer *bytes, size_t at, uint64_t value)
{
    struct lq_producers producers = {.count = 0};
    uint64_t was = lq_get_u64(bytes->bytes + at);
    lq_put_u64(bytes->bytes + at, value);
    struct lq_reader reader = lq_reader_of(bytes->bytes, bytes->size);
    lightq_status status = lq_producers_load(&producers, &reader, true, 10, 100);
    if (status == LIGHTQ_OK) {
        struct lq_writer again;
        lq_writer_init(&again, LQ_CHECKPOINT_BYTES_MAX);
        lq_producers_save(&producers, &again);
        assert_int_equal(again.size, bytes->size);
        assert_memory_equal(again.bytes, bytes->bytes, bytes->size);
        lq_writer_deinit(&again);
    }
    lq_producers_deinit(&producers);
    lq_put_u64(bytes->bytes + at, was);
    return status;
}

static void test_load_of_sequences_left_out_inside_an_epoch_is_corrupt(void **state)
{
    (void)state;
    struct lq_writer saved = saved_with_epochs();

    assert_int_equal(load_with(&saved, EPOCH_SEQUENCE_AT, 6), LIGHTQ_OK); /* as it was */
    assert_int_equal(load_with(&saved, EPOCH_SEQUENCE_AT, 5), LIGHTQ_ECORRUPT);
    assert_int_equal(load_with(&saved, EPOCH_SEQUENCE_AT, 10), LIGHTQ_ECORRUPT); /* nothing of it is there */
    assert_int_equal(load_with(&saved, BATCHES_AT, 1), LIGHTQ_ECORRUPT);         /* an overlap */
    assert_int_equal(load_with(&saved, BATCHES_AT + 2 * BATCH_BYTES_EACH, 7), LIGHTQ_ECORRUPT);
    assert_int_equal(load_with(&saved, BATCHES_AT + 2 * BATCH_BYTES_EACH, 5), LIGHTQ_ECORRUPT);
    lq_writer_deinit(&saved);
}

/* A state as it was before there were epochs. */
static void test_load_of_producers_without_epochs_goes_on_with_them(void **state)
{
    (void)state;
    struct lq_producers producers = {.count = 0};
    struct lq_writer saved;
    struct lq_writer again;
    apply(&producers, 9, 0, 0, 1);
    apply(&producers, 9, 0, 2, 2);
    lq_writer_init(&saved, LQ_CHECKPOINT_BYTES_MAX);
    lq_writer_init(&again, LQ_CHECKPOINT_BYTES_MAX);
    lq_producers_save(&producers, &saved);
    lq_producers_deinit(&producers);
    struct lq_writer old;
    lq_writer_init(&old, LQ_CHECKPOINT_BYTES_MAX);
    lq_write_bytes(&old, saved.bytes, EPOCH_SEQUENCE_AT);
    lq_write_bytes(&old, saved.bytes + EPOCH_SEQUENCE_AT + 8, saved.size - EPOCH_SEQUENCE_AT - 8);

    struct lq_reader reader = lq_reader_of(old.bytes, old.size);
    assert_int_equal(lq_producers_load(&producers, &reader, false, 10, 100), LIGHTQ_OK);

    lq_producers_save(&producers, &again);
    assert_int_equal(again.size, saved.size);
    assert_memory_equal(again.bytes, saved.bytes, saved.size);
    lq_producers_deinit(&producers);
    lq_writer_deinit(&old);
    lq_writer_deinit(&saved);
    lq_writer_deinit(&again);
}

static void add_mark(struct lq_marks *marks, uint64_t i, uint64_t bytes_each, uint64_t ms_each)
{
    const struct lq_mark mark = {.offset = i, .bytes = i * bytes_each, .timestamp_ms = 1000 + i * ms_each};
    assert_int_equal(lq_marks_add(marks, &mark), LIGHTQ_OK);
}

static void test_marks_are_bounded_and_stay_fine(void **state)
{
    (void)state;
    struct lq_marks marks;
    lq_marks_init(&marks);

    for (uint64_t i = 0; i < 1000000; i++) {
        add_mark(&marks, i, 1000, 10);
    }

    assert_in_range(marks.count, LQ_PARTITION_MARKS_MAX / 2 - 1, LQ_PARTITION_MARKS_MAX);
    const struct lq_mark *mark = lq_marks_find_bytes(&marks, 500000 * UINT64_C(1000));
    assert_in_range(mark->offset, 490000, 500000);
    mark = lq_marks_find_time(&marks, 1000 + 250000 * 10);
    assert_in_range(mark->offset, 240000, 250000);
    assert_ptr_equal(lq_marks_find(&marks, 0), &marks.at[0]);
    assert_null(lq_marks_find_time(&marks, 999));
    lq_marks_deinit(&marks);
}

static void test_marks_trim_keeps_the_one_at_the_start(void **state)
{
    (void)state;
    struct lq_marks marks;
    lq_marks_init(&marks);
    for (uint64_t i = 0; i < 100; i++) {
        add_mark(&marks, i, 100000, 5000);
    }
    assert_int_equal(marks.count, 100);

    lq_marks_trim(&marks, 40, 100);
    assert_int_equal(marks.at[0].offset, 40);
    assert_int_equal(lq_marks_find(&marks, 41)->bytes, 41 * UINT64_C(100000));
    assert_null(lq_marks_find(&marks, 39));
    lq_marks_trim(&marks, 100, 100);

    assert_int_equal(marks.count, 0);
    add_mark(&marks, 200, 100000, 5000);
    assert_int_equal(marks.count, 1);
    lq_marks_deinit(&marks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge_inside_an_epoch_lets_nothing_out),
        cmocka_unit_test(test_judge_of_an_unknown_producer_wants_a_beginning),
        cmocka_unit_test(test_judge_of_a_lower_epoch_is_fenced),
        cmocka_unit_test(test_judge_of_a_new_epoch_may_leave_out_only_where_it_begins),
        cmocka_unit_test(test_producers_keep_the_last_batches),
        cmocka_unit_test(test_producers_are_forgotten_by_last_use),
        cmocka_unit_test(test_producers_are_bounded),
        cmocka_unit_test(test_load_of_sequences_left_out_inside_an_epoch_is_corrupt),
        cmocka_unit_test(test_load_of_producers_without_epochs_goes_on_with_them),
        cmocka_unit_test(test_marks_are_bounded_and_stay_fine),
        cmocka_unit_test(test_marks_trim_keeps_the_one_at_the_start),
    };
    return cmocka_run_group_tests_name("producers", tests, NULL, NULL);
}
