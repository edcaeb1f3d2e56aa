/* test_partition_state.c - the state machine alone: that it is deterministic, that its checkpoint is the state, and
 * that it refuses entries and checkpoints that cannot be. */
#include "client/base/crc.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/node/queue_fixture.h"

#define RANDOM_STEPS 1500
#define PRODUCERS    12

/* A leader under random load; everything it proposes goes into f->log. */
static void random_step(struct fixture *f, uint64_t *random, struct produced *p, uint64_t *sequences)
{
    uint64_t what = random_below(random, 100);
    f->clock.wall_ms += random_below(random, 700);
    if (what < 80) {
        uint64_t producer = random_below(random, PRODUCERS);
        uint32_t count = (uint32_t)random_below(random, 5) + 1;
        assert_int_equal(produce(f, p, producer, 0, producer == 0 ? 0 : sequences[producer], count), LIGHTQ_OK);
        sequences[producer] += count;
    } else if (what < 90) {
        uint64_t offset = lq_partition_start(f->partition) + random_below(random, 20);
        lightq_status status = lq_partition_trim(f->partition, offset);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_EBUSY);
    } else if (what < 95) {
        struct lq_topic_config config;
        const struct lq_id topic = {.bytes = {(uint8_t)what}};
        lq_topic_config_init(&config);
        config.retention_messages = random_below(random, 1000);
        lq_partition_set_config(f->partition, &topic, (uint32_t)what, &config);
        fixture_turn(f);
    } else {
        lq_partition_retain(f->partition);
    }
}

static void test_machine_same_entries_give_same_bytes(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 20260711;
    struct produced *p = calloc(RANDOM_STEPS, sizeof *p);
    uint64_t sequences[PRODUCERS] = {0};
    struct fixture follower;
    assert_non_null(p);
    print_message("seed %llu\n", (unsigned long long)seed);
    fixture_init(&follower);
    fixture_lead(f);

    for (unsigned i = 0; i < RANDOM_STEPS; i++) {
        random_step(f, &seed, &p[i], sequences);
        if (random_below(&seed, 3) == 0) {
            fixture_apply(f, random_below(&seed, 4));
        }
        while (follower.log.applied < f->log.applied) {
            const struct lq_entry *entry = &f->log.at[follower.log.applied++].entry;
            assert_int_equal(lq_partition_apply(follower.partition, entry), LIGHTQ_OK);
        }
        if (random_below(&seed, 20) == 0) { /* the follower restarts from a checkpoint, in other memory */
            struct lq_writer writer = saved(follower.partition);
            lq_partition_free(follower.partition);
            fixture_partition(&follower, 0, 0, 0);
            assert_int_equal(lq_partition_load(follower.partition, writer.bytes, writer.size), LIGHTQ_OK);
            lq_writer_deinit(&writer);
        }
        if (follower.log.applied == f->log.applied) {
            assert_same_state(f->partition, follower.partition);
        }
    }
    fixture_apply_all(f);

    struct lq_partition_status status;
    lq_partition_status(f->partition, &status);
    assert_true(status.start_offset > 0 && status.producers == PRODUCERS - 1);
    fixture_deinit(&follower);
    lq_partition_free(f->partition);
    f->partition = NULL;
    free(p);
}

/* Some state with producers, marks and a configuration. */
static void make_state(struct fixture *f)
{
    static const struct lq_id topic = {.bytes = {1, 2, 3, 4}};
    struct lq_topic_config config;
    lq_topic_config_init(&config);
    config.retention_ms = 77;
    fixture_lead(f);
    lq_partition_set_config(f->partition, &topic, 3, &config);
    fixture_turn(f);
    for (unsigned i = 0; i < 20; i++) {
        struct produced p;
        f->clock.wall_ms += 1500;
        assert_int_equal(produce_beginning(f, &p, 1 + i % 3, i / 6, i / 3 * 2 + i / 12, 2), LIGHTQ_OK);
        fixture_apply_all(f);
    }
    assert_int_equal(lq_partition_trim(f->partition, 7), LIGHTQ_OK);
    fixture_apply_all(f);
}

/* Cases B4, G3: what is known of producers and positions is not in the checkpoint. */
static void test_load_gives_back_what_was_saved(void **state)
{
    struct fixture *f = *state;
    struct fixture other;
    struct lq_partition_status a;
    struct lq_partition_status b;
    make_state(f);
    fixture_init(&other);
    struct lq_writer writer = saved(f->partition);

    assert_int_equal(lq_partition_load(other.partition, writer.bytes, writer.size), LIGHTQ_OK);

    assert_same_state(f->partition, other.partition);
    lq_partition_status(f->partition, &a);
    lq_partition_status(other.partition, &b);
    assert_int_equal(b.start_offset, 7);
    assert_int_equal(b.end_offset, a.end_offset);
    assert_int_equal(b.digest, a.digest);
    assert_int_equal(b.config.retention_ms, 77);
    assert_int_equal(b.producers, 3);
    assert_int_equal(lq_partition_load(other.partition, NULL, 0), LIGHTQ_OK); /* the empty state */
    assert_int_equal(lq_partition_end(other.partition), 0);
    lq_writer_deinit(&writer);
    fixture_deinit(&other);
}

static void test_load_truncated_is_corrupt_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    make_state(f);
    struct lq_writer before = saved(f->partition);
    struct lq_writer writer = saved(f->partition);

    for (size_t size = 1; size < writer.size; size++) {
        assert_int_equal(lq_partition_load(f->partition, writer.bytes, size), LIGHTQ_ECORRUPT);
        lq_put_u32(before.bytes + size - 1, 0); /* the same with a crc that fits, where there is room for one */
        memcpy(before.bytes, writer.bytes, size);
        if (size > 4) {
            lq_put_u32(before.bytes + size - 4, lq_crc32c(0, before.bytes, size - 4));
            assert_int_not_equal(lq_partition_load(f->partition, before.bytes, size), LIGHTQ_OK);
        }
    }

    lq_writer_deinit(&before);
    before = saved(f->partition);
    assert_int_equal(before.size, writer.size);
    assert_memory_equal(before.bytes, writer.bytes, writer.size);
    lq_writer_deinit(&before);
    lq_writer_deinit(&writer);
}

static void test_load_flipped_byte_is_never_a_crash(void **state)
{
    struct fixture *f = *state;
    struct fixture other;
    make_state(f);
    fixture_init(&other);
    struct lq_writer writer = saved(f->partition);
    unsigned accepted = 0;

    for (size_t at = 0; at + 4 < writer.size; at++) {
        uint8_t kept = writer.bytes[at];
        writer.bytes[at] ^= (uint8_t)(1u << at % 8);
        assert_int_equal(lq_partition_load(other.partition, writer.bytes, writer.size), LIGHTQ_ECORRUPT);
        lq_put_u32(writer.bytes + writer.size - 4, lq_crc32c(0, writer.bytes, writer.size - 4));
        lightq_status status = lq_partition_load(other.partition, writer.bytes, writer.size);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION);
        accepted += status == LIGHTQ_OK;
        if (status == LIGHTQ_OK) {
            assert_same_state(other.partition, other.partition);
        }
        writer.bytes[at] = kept;
        lq_put_u32(writer.bytes + writer.size - 4, lq_crc32c(0, writer.bytes, writer.size - 4));
    }

    assert_true(accepted < writer.size); /* numbers may differ, shapes may not */
    lq_writer_deinit(&writer);
    fixture_deinit(&other);
}

static void test_load_of_newer_version_is_eversion(void **state)
{
    struct fixture *f = *state;
    make_state(f);
    struct lq_writer writer = saved(f->partition);
    lq_put_u16(writer.bytes + 4, lq_get_u16(writer.bytes + 4) + 1);
    lq_put_u32(writer.bytes + writer.size - 4, lq_crc32c(0, writer.bytes, writer.size - 4));

    assert_int_equal(lq_partition_load(f->partition, writer.bytes, writer.size), LIGHTQ_EVERSION);

    lq_writer_deinit(&writer);
}

static void test_load_out_of_memory_keeps_the_state(void **state)
{
    struct fixture *f = *state;
    bool failed = true;
    make_state(f);
    struct lq_writer writer = saved(f->partition);
    unsigned swept = 0;

    for (unsigned nth = 1; failed; nth++, swept++) {
        lq_alloc_fail_at(nth);
        lightq_status status = lq_partition_load(f->partition, writer.bytes, writer.size);
        failed = lq_alloc_fail_end();
        assert_int_equal(status, failed ? LIGHTQ_ENOMEM : LIGHTQ_OK);
        struct lq_writer after = saved(f->partition);
        assert_memory_equal(after.bytes, writer.bytes, writer.size);
        lq_writer_deinit(&after);
    }

    assert_true(swept > 3);
    lq_writer_deinit(&writer);
}

static void test_produce_out_of_memory_proposes_nothing(void **state)
{
    struct fixture *f = *state;
    struct produced p;
    fixture_lead(f);

    lq_alloc_fail_at(1);
    lightq_status status = produce(f, &p, 5, 0, 0, 1);
    assert_true(lq_alloc_fail_end());

    assert_int_equal(status, LIGHTQ_ENOMEM);
    assert_int_equal(f->log.count, 1);
    assert_int_equal(produce(f, &p, 5, 0, 0, 1), LIGHTQ_OK);
    fixture_apply_all(f);
    assert_int_equal(p.status, LIGHTQ_OK);
}

/* Applies a copy of the last log entry, changed by @change, as the next one. */
static lightq_status apply_changed(struct fixture *f, void (*change)(struct lq_entry *entry, uint8_t *payload))
{
    struct fixture other;
    fixture_init(&other);
    for (size_t i = 0; i + 1 < f->log.count; i++) {
        assert_int_equal(lq_partition_apply(other.partition, &f->log.at[i].entry), LIGHTQ_OK);
    }
    struct lq_entry entry = f->log.at[f->log.count - 1].entry;
    uint8_t *payload = malloc(entry.payload_size);
    assert_non_null(payload);
    memcpy(payload, entry.payload, entry.payload_size);
    entry.payload = payload;
    change(&entry, payload);
    lightq_status status = lq_partition_apply(other.partition, &entry);
    free(payload);
    fixture_deinit(&other);
    return status;
}

static void nothing(struct lq_entry *entry, uint8_t *payload)
{
    (void)entry;
    (void)payload;
}
static void wrong_offset(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->base_offset++;
}
static void wrong_time(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->timestamp_ms = 5;
}
static void wrong_index(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->index++;
}
static void lower_term(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->term = 0;
}
static void no_messages(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->message_count = 0;
}
static void too_many_messages(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->message_count = LQ_BATCH_RECORDS_MAX + 1;
}
static void wrong_sequence(struct lq_entry *entry, uint8_t *payload)
{
    (void)entry;
    lq_put_u64(payload + 16, 99);
}
static void wrong_expected(struct lq_entry *entry, uint8_t *payload)
{
    (void)entry;
    lq_put_u64(payload + 24, 12);
}
static void unknown_type(struct lq_entry *entry, uint8_t *payload)
{
    (void)entry;
    payload[0] = 99;
    payload[1] = 1;
}
static void newer_version(struct lq_entry *entry, uint8_t *payload)
{
    (void)entry;
    payload[1] = LQ_COMMAND_APPEND_ID_VERSION + 1;
}
static void no_batch(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->payload_size = LQ_COMMAND_APPEND_HEAD_BYTES;
}
static void cut_short(struct lq_entry *entry, uint8_t *payload)
{
    (void)payload;
    entry->payload_size = 3;
}

static void test_apply_impossible_entry_stops_the_replica(void **state)
{
    struct fixture *f = *state;
    struct produced p[2];
    fixture_lead(f);
    assert_int_equal(produce(f, &p[0], 9, 0, 0, 3), LIGHTQ_OK);
    assert_int_equal(produce(f, &p[1], 9, 0, 3, 1), LIGHTQ_OK);

    assert_int_equal(apply_changed(f, nothing), LIGHTQ_OK);
    assert_int_equal(apply_changed(f, wrong_offset), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, wrong_time), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, wrong_index), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, lower_term), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, no_messages), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, too_many_messages), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, wrong_sequence), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, wrong_expected), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, unknown_type), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, newer_version), LIGHTQ_EVERSION);
    assert_int_equal(apply_changed(f, no_batch), LIGHTQ_ECORRUPT);
    assert_int_equal(apply_changed(f, cut_short), LIGHTQ_ECORRUPT);
    fixture_apply_all(f);
}

static void test_digest_follows_every_batch(void **state)
{
    struct fixture *f = *state;
    struct fixture other;
    struct lq_partition_status a;
    struct lq_partition_status b;
    struct produced p;
    fixture_init(&other);
    fixture_lead(f);
    fixture_lead(&other);

    assert_int_equal(produce(f, &p, 0, 0, 0, 2), LIGHTQ_OK);
    fixture_apply_all(f);
    produced_init(&other, &p, 0, 0, 0, 2);
    p.request.batch_crc++; /* the same offsets, another batch */
    assert_int_equal(lq_partition_produce(other.partition, &p.request), LIGHTQ_OK);
    fixture_apply_all(&other);

    lq_partition_status(f->partition, &a);
    lq_partition_status(other.partition, &b);
    assert_int_equal(a.end_offset, b.end_offset);
    assert_true(a.digest != 0 && a.digest != b.digest);
    fixture_deinit(&other);
}

static void test_commands_survive_their_bytes(void **state)
{
    (void)state;
    struct lq_command config = {.type = LQ_COMMAND_CONFIG, .config = {.topic = {.bytes = {8}}, .partition = 11}};
    lq_topic_config_init(&config.config.config);
    const struct lq_command commands[] = {{.type = LQ_COMMAND_TRIM, .trim = {.offset = UINT64_MAX}},
                                          {.type = LQ_COMMAND_FORGET, .forget = {.index = 12}},
                                          {.type = LQ_COMMAND_SKIP,
                                           .skip = {.producer_id = 1,
                                                    .sequence = 2,
                                                    .base_offset = 3,
                                                    .term = 4,
                                                    .timestamp_ms = 5,
                                                    .epoch = 6,
                                                    .count = 1,
                                                    .begins_epoch = true}},
                                          config};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct lq_writer writer, again;
        struct lq_command back;
        lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
        lq_writer_init(&again, LQ_COMMAND_BYTES_MAX);
        lq_command_encode(&commands[i], &writer);
        assert_int_equal(writer.status, LIGHTQ_OK);

        assert_int_equal(lq_command_decode(writer.bytes, (uint32_t)writer.size, &back), LIGHTQ_OK);

        assert_int_equal(back.type, commands[i].type);
        lq_command_encode(&back, &again); /* what the structs have between their fields is not compared */
        assert_int_equal(again.size, writer.size);
        assert_memory_equal(again.bytes, writer.bytes, writer.size);
        for (uint32_t size = 0; size < writer.size; size++) {
            assert_int_equal(lq_command_decode(writer.bytes, size, &back), LIGHTQ_ECORRUPT);
        }
        lq_write_u8(&writer, 0);
        assert_int_equal(lq_command_decode(writer.bytes, (uint32_t)writer.size, &back), LIGHTQ_ECORRUPT);
        lq_writer_deinit(&writer);
        lq_writer_deinit(&again);
    }
}

static void test_topic_config_out_of_bounds_is_refused(void **state)
{
    (void)state;
    struct lq_topic_config config;
    struct lq_topic_config back;
    struct lq_writer writer;
    lq_topic_config_init(&config);
    lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
    config.max_message_bytes = 0; /* below the least */
    lq_topic_config_encode(&config, &writer);

    struct lq_reader reader = lq_reader_of(writer.bytes, writer.size);
    assert_int_equal(lq_topic_config_decode(&reader, &back), LIGHTQ_ECORRUPT);

    writer.bytes[0]++; /* a value of a newer version */
    reader = lq_reader_of(writer.bytes, writer.size);
    assert_int_equal(lq_topic_config_decode(&reader, &back), LIGHTQ_EVERSION);
    writer.bytes[0] = 1; /* an older version knew one */
    reader = lq_reader_of(writer.bytes, 9);
    assert_int_equal(lq_topic_config_decode(&reader, &back), LIGHTQ_OK);
    assert_int_equal(back.max_message_bytes, LQ_MESSAGE_BYTES_DEFAULT);
    lq_writer_deinit(&writer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_machine_same_entries_give_same_bytes),
        CASE(test_load_gives_back_what_was_saved),
        CASE(test_load_truncated_is_corrupt_and_changes_nothing),
        CASE(test_load_flipped_byte_is_never_a_crash),
        CASE(test_load_of_newer_version_is_eversion),
        CASE(test_load_out_of_memory_keeps_the_state),
        CASE(test_produce_out_of_memory_proposes_nothing),
        CASE(test_apply_impossible_entry_stops_the_replica),
        CASE(test_digest_follows_every_batch),
        cmocka_unit_test(test_commands_survive_their_bytes),
        cmocka_unit_test(test_topic_config_out_of_bounds_is_refused),
    };
    return cmocka_run_group_tests_name("partition state", tests, NULL, NULL);
}
