/* test_dedup.c - message ids: stored once within dedup.window, by whatever producer, under whatever leader; forgotten
 * by the stamps of the log alone; bounded; and in the checkpoint. */
#include "tests/unit/node/queue_fixture.h"

#define WINDOW_MS 120000

/* A message with @id of @producer (0: without numbers). */
static lightq_status send_id(struct fixture *f, struct produced *p, uint64_t producer, uint64_t sequence,
                             const char *id)
{
    produced_init(f, p, producer, 0, sequence, 1);
    p->request.has_id = true;
    p->request.message_id = lq_dedup_digest(id, strlen(id));
    return lq_partition_produce(f->partition, &p->request);
}

static void stored(struct fixture *f, struct produced *p, uint64_t producer, uint64_t sequence, const char *id)
{
    assert_int_equal(send_id(f, p, producer, sequence, id), LIGHTQ_OK);
    fixture_turn(f);
    fixture_apply_all(f);
    assert_int_equal(p->answers, 1);
    assert_int_equal(p->status, LIGHTQ_OK);
}

static void set_window(struct fixture *f, uint64_t window_ms)
{
    const struct lq_id topic = {.bytes = {9}};
    struct lq_topic_config config;
    lq_topic_config_init(&config);
    assert_int_equal(config.dedup_window_ms, WINDOW_MS);
    config.dedup_window_ms = window_ms;
    lq_partition_set_config(f->partition, &topic, 0, &config);
    fixture_turn(f);
    fixture_apply_all(f);
}

static void test_id_is_stored_once_within_the_window(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);
    stored(f, &p, 1, 0, "a");
    assert_false(p.request.same_id);
    stored(f, &p, 1, 1, "b");
    assert_int_equal(p.request.base_offset, 1);
    uint64_t first_ms = f->clock.wall_ms;
    f->clock.wall_ms += WINDOW_MS - 1;

    stored(f, &p, 2, 0, "a"); /* another producer */

    assert_true(p.request.same_id && p.request.duplicate);
    assert_int_equal(p.request.base_offset, 0);
    assert_int_equal(p.request.timestamp_ms, first_ms);
    assert_int_equal(p.request.term, 1);
    assert_int_equal(lq_partition_end(f->partition), 2);
    stored(f, &p, 2, 1, "c"); /* its numbers go on behind what was not stored */
    assert_int_equal(p.request.base_offset, 2);
    stored(f, &p, 2, 0, "a"); /* the same batch again: what became of it then */
    assert_true(p.request.duplicate);
    assert_int_equal(p.request.base_offset, 0);
    f->clock.wall_ms += 1; /* the window has passed since "a", and "b" */
    stored(f, &p, 1, 2, "a");
    assert_false(p.request.same_id);
    assert_int_equal(p.request.base_offset, 3);
    assert_int_equal(f->partition->state.dedup.count, 2); /* "c" and "a": the others are forgotten */
}

static void test_id_without_producer_needs_no_entry(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);
    stored(f, &p, 0, 0, "a");
    size_t count = f->log.count;

    stored(f, &p, 0, 0, "a");

    assert_true(p.request.same_id);
    assert_int_equal(p.request.base_offset, 0);
    assert_int_equal(f->log.count, count);
}

static void test_id_under_way_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct produced first, second, other;
    fixture_lead(f);
    assert_int_equal(send_id(f, &first, 1, 0, "a"), LIGHTQ_OK);

    assert_int_equal(send_id(f, &second, 2, 0, "a"), LIGHTQ_OK);
    assert_int_equal(send_id(f, &other, 3, 0, "b"), LIGHTQ_OK); /* behind it */
    fixture_turn(f);
    assert_int_equal(second.answers, 0);
    fixture_apply_all(f);
    fixture_turn(f);
    fixture_apply_all(f);

    assert_false(first.request.same_id);
    assert_int_equal(second.answers, 1);
    assert_true(second.request.same_id);
    assert_int_equal(second.request.base_offset, 0);
    assert_int_equal(other.request.base_offset, 1);
    assert_int_equal(lq_partition_end(f->partition), 2);
}

static void test_id_of_a_failed_proposal_is_free_again(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);
    f->log.refuse = LIGHTQ_ENOSPC;
    assert_int_equal(send_id(f, &p, 1, 0, "a"), LIGHTQ_ENOSPC);
    f->log.refuse = LIGHTQ_OK;

    stored(f, &p, 1, 0, "a");

    assert_false(p.request.same_id);
}

static void test_id_lost_with_its_leader_is_judged_by_the_log(void **state)
{
    struct fixture *f = *state;
    struct produced kept, cut, p;
    fixture_lead(f);
    assert_int_equal(send_id(f, &kept, 1, 0, "kept"), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(send_id(f, &cut, 1, 1, "cut"), LIGHTQ_OK);
    lq_partition_machine_ops.follow(f->partition, 2, 2);
    assert_int_equal(cut.status, LIGHTQ_ELEADERSHIPLOST);
    free(f->log.at[--f->log.count].payload); /* it was never committed */
    fixture_lead(f);

    stored(f, &p, 5, 0, "cut");
    assert_false(p.request.same_id);
    assert_int_equal(p.request.base_offset, 1);
    stored(f, &p, 5, 1, "kept");
    assert_true(p.request.same_id);
    assert_int_equal(p.request.base_offset, 0);
}

static void test_id_comes_before_the_expected_offset(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);
    stored(f, &p, 1, 0, "a");
    stored(f, &p, 1, 1, "b");

    produced_init(f, &p, 2, 0, 0, 1);
    p.request.has_id = true;
    p.request.message_id = lq_dedup_digest("a", 1);
    p.request.expected_offset = 0; /* where it was to go, and went */
    assert_int_equal(lq_partition_produce(f->partition, &p.request), LIGHTQ_OK);
    fixture_apply_all(f);

    assert_true(p.request.same_id);
    p.request.message_id = lq_dedup_digest("c", 1);
    p.request.base_sequence = 1;
    assert_int_equal(lq_partition_produce(f->partition, &p.request), LIGHTQ_EEXPECTED);
}

static void test_id_window_can_be_altered_and_switched_off(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);
    stored(f, &p, 1, 0, "a");
    set_window(f, 1000);
    f->clock.wall_ms += 1000;
    stored(f, &p, 1, 1, "a");
    assert_false(p.request.same_id);

    set_window(f, 0);
    stored(f, &p, 1, 2, "a");

    assert_false(p.request.same_id);
    assert_int_equal(f->partition->state.dedup.count, 0);
}

static void test_id_too_many_are_refused_until_the_window_passes(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    char id[16];
    fixture_lead(f);
    stored(f, &p, 0, 0, "first");
    for (unsigned i = 1; i < LQ_DEDUP_IDS_MAX; i++) {
        (void)snprintf(id, sizeof id, "m%u", i);
        struct lq_id digest = lq_dedup_digest(id, strlen(id));
        assert_int_equal(lq_dedup_applied(&f->partition->state.dedup, &digest, 0, 1, f->clock.wall_ms), LIGHTQ_OK);
    }

    assert_int_equal(send_id(f, &p, 1, 0, "more"), LIGHTQ_ELIMIT);
    stored(f, &p, 1, 0, "m7"); /* known: needs no room */
    assert_true(p.request.same_id);
    f->clock.wall_ms += WINDOW_MS;

    stored(f, &p, 1, 1, "more");
    assert_false(p.request.same_id);
    assert_int_equal(f->partition->state.dedup.count, 1);
}

/* Leaders with clocks hours apart; a replica with another clock, and one that begins with a checkpoint, agree. */
static void test_ids_replicas_with_other_clocks_agree(void **state)
{
    struct fixture *f = *state;
    struct fixture other, late;
    uint64_t random = 20261130;
    uint64_t sequence = 0;
    struct lq_writer checkpoint = {.bytes = NULL};
    size_t middle = 0;
    fixture_init(&other);
    fixture_init(&late);
    other.clock.wall_ms = 5;
    print_message("seed %llu\n", (unsigned long long)random);

    for (unsigned i = 0; i < 2000; i++) {
        struct produced p;
        char id[16];
        if (i % 500 == 0) {
            fixture_lead(f);
            f->clock.wall_ms = 1000 + random_below(&random, 10000000);
        }
        f->clock.wall_ms += random_below(&random, 2000);
        (void)snprintf(id, sizeof id, "m%u", (unsigned)random_below(&random, 200));
        stored(f, &p, 1, sequence++, id);
        if (i == 1100) {
            checkpoint = saved(f->partition);
            middle = f->log.applied;
        }
    }
    for (size_t i = 0; i < f->log.applied; i++) {
        assert_int_equal(lq_partition_apply(other.partition, &f->log.at[i].entry), LIGHTQ_OK);
    }
    assert_int_equal(lq_partition_load(late.partition, checkpoint.bytes, checkpoint.size), LIGHTQ_OK);
    for (size_t i = middle; i < f->log.applied; i++) {
        assert_int_equal(lq_partition_apply(late.partition, &f->log.at[i].entry), LIGHTQ_OK);
    }

    assert_same_state(f->partition, other.partition);
    assert_same_state(f->partition, late.partition);
    assert_true(f->partition->state.dedup.count > 10);
    assert_in_range(lq_partition_end(f->partition), 200, 1999); /* some were stored again later, many were not */
    for (size_t size = 0; size < checkpoint.size; size += 97) {
        assert_int_not_equal(lq_partition_load(late.partition, checkpoint.bytes, size == 0 ? 1 : size), LIGHTQ_OK);
    }
    lq_writer_deinit(&checkpoint);
    fixture_deinit(&other);
    fixture_deinit(&late);
}

/* Made by tests/golden/make_state_v4.py from the description of the format. */
static void test_ids_golden_file_is_read_and_written_byte_for_byte(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[4096];
    FILE *file = fopen(LQ_GOLDEN_DIR "/state-v4.bin", "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);

    assert_int_equal(lq_partition_load(f->partition, bytes, size), LIGHTQ_OK);

    const struct lq_dedup *dedup = &f->partition->state.dedup;
    assert_int_equal(dedup->count, 2);
    assert_true(dedup->oldest->digest.bytes[15] == 15 && dedup->oldest->offset == 998 && dedup->oldest->term == 2);
    assert_true(dedup->newest->digest.bytes[0] == 0xee && dedup->newest->timestamp_ms == 1700000000000);
    struct lq_writer section;
    lq_writer_init(&section, sizeof bytes);
    lq_dedup_save(dedup, &section);
    assert_memory_equal(section.bytes, bytes + size - 4 - section.size, section.size);
    lq_writer_deinit(&section);
}

static void test_skip_that_cannot_be_stops_the_replica(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    struct fixture other;
    fixture_init(&other);
    fixture_lead(f);
    stored(f, &p, 1, 0, "a");
    stored(f, &p, 2, 0, "a");
    uint8_t *payload = f->log.at[f->log.count - 1].payload;
    for (size_t i = 0; i + 1 < f->log.count; i++) {
        assert_int_equal(lq_partition_apply(other.partition, &f->log.at[i].entry), LIGHTQ_OK);
    }

    lq_put_u64(payload + 24, 1); /* nothing is there */
    assert_int_equal(lq_partition_apply(other.partition, &f->log.at[f->log.count - 1].entry), LIGHTQ_ECORRUPT);
    lq_put_u64(payload + 24, 0);
    lq_put_u64(payload + 16, 1); /* its producer has sent nothing before */
    assert_int_equal(lq_partition_apply(other.partition, &f->log.at[f->log.count - 1].entry), LIGHTQ_ECORRUPT);
    lq_put_u64(payload + 16, 0);
    assert_int_equal(lq_partition_apply(other.partition, &f->log.at[f->log.count - 1].entry), LIGHTQ_OK);
    assert_same_state(f->partition, other.partition);
    fixture_deinit(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_id_is_stored_once_within_the_window),
        TEST(test_id_without_producer_needs_no_entry),
        TEST(test_id_under_way_is_waited_for),
        TEST(test_id_of_a_failed_proposal_is_free_again),
        TEST(test_id_lost_with_its_leader_is_judged_by_the_log),
        TEST(test_id_comes_before_the_expected_offset),
        TEST(test_id_window_can_be_altered_and_switched_off),
        TEST(test_id_too_many_are_refused_until_the_window_passes),
        TEST(test_ids_replicas_with_other_clocks_agree),
        TEST(test_ids_golden_file_is_read_and_written_byte_for_byte),
        TEST(test_skip_that_cannot_be_stops_the_replica),
    };
    return cmocka_run_group_tests_name("dedup", tests, NULL, NULL);
}
