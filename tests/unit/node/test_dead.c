/* tests/unit/node/test_dead.c - node/dead.c, dead_letter.c and carry.c on a real node: messages that are given up go
 * into their topic, once, and what cannot be moved stays. */
#include "tests/unit/node/group_fixture.h"

#include "node/carry.h"
#include "node/dead.h"
#include "node/dead_letter.h"
#include "node/meta_carrier.h"

#define STEPS_MAX 20000
#define REJECT    LIGHTQ__WIRE__SETTLE_KIND__SETTLE_REJECT

static int setup_group(void **state)
{
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    int result = group_setup(state);
    struct fixture *f = *state;
    options.mode = PIPELINE;
    options.max_deliver = 1;
    assert_int_equal(create_with(f, "g", 1, &options, NULL)->status, LIGHTQ_OK);
    return result;
}

static const struct lq_cgroup *group_of(struct fixture *f)
{
    const struct lq_catalog *catalog = lq_meta_catalog(f->solo.meta);
    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog, "t");
    const struct lq_partition *partition = lq_meta_partition(f->solo.meta, topic->partitions[0].group);
    return lq_cgroups_find_name(lq_partition_groups(partition), "g", 1);
}

/* Until @stored letters of the group are stored. */
static void until_moved(struct fixture *f, uint64_t stored)
{
    for (unsigned i = 0; i < STEPS_MAX && group_of(f)->dead.done < stored; i++) {
        lq_dead_tick(f->solo.service.dead);
        solo_node_advance(&f->solo, 1);
    }
    assert_int_equal(group_of(f)->dead.done, stored);
}

static const struct lq_catalog_topic *letters_topic(struct fixture *f)
{
    return lq_catalog_topic(lq_meta_catalog(f->solo.meta), "t.g.dlq");
}

static uint64_t letters_end(struct fixture *f)
{
    return lq_partition_end(lq_meta_partition(f->solo.meta, letters_topic(f)->partitions[0].group));
}

/* The value of a header of a record; it must be there. */
static void assert_header(const struct lq_record *record, const char *name, const char *value)
{
    struct lq_span left = record->headers;
    struct lq_record_header header;
    while (lq_record_header_next(&left, &header)) {
        if (header.name.size == strlen(name) && memcmp(header.name.bytes, name, strlen(name)) == 0) {
            assert_int_equal(header.value.size, strlen(value));
            assert_memory_equal(header.value.bytes, value, strlen(value));
            return;
        }
    }
    fail_msg("header %s is missing", name);
}

static void test_dead_letters_of_a_group_are_stored_in_order_and_settled(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)delivered(f, FIRST);
    assert_int_equal(settle(f, FIRST, NACK, 3, 2)->taken, 2);
    assert_int_equal(settle(f, FIRST, REJECT, 7, 1)->taken, 1);
    assert_int_equal(settle(f, FIRST, ACK, 0, 3)->taken, 3);
    assert_int_equal(describe(f, "g")->dead_open, 3);
    outlet_forget(&f->solo.outlet);

    until_moved(f, 3);

    outlet_forget(&f->solo.outlet);
    assert_non_null(letters_topic(f));
    assert_int_equal(letters_end(f), 3);
    const Lightq__Wire__GroupDescribeAnswer *group = describe(f, "g");
    assert_int_equal(group->dead_open, 0);
    assert_int_equal(group->dead_stored, 3);
    assert_string_equal(group->dead_reason, "");
    assert_int_equal(group->position, 5); /* 0 to 4 are settled */
}

static void test_dead_letters_found_by_a_later_look_go_into_the_same_topic(void **state)
{
    struct fixture *f = *state;
    store(f, 2);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)delivered(f, FIRST);
    (void)delivered(f, FIRST);
    assert_int_equal(settle(f, FIRST, REJECT, 0, 1)->taken, 1);
    until_moved(f, 1);
    struct lq_id topic = letters_topic(f)->uuid;
    outlet_forget(&f->solo.outlet);

    assert_int_equal(settle(f, FIRST, REJECT, 1, 2 * BATCH - 1)->taken, 2 * BATCH - 1);
    until_moved(f, 2 * BATCH);

    assert_true(lq_id_equal(&letters_topic(f)->uuid, &topic));
    assert_int_equal(letters_end(f), 2 * BATCH);
    assert_int_equal(group_of(f)->settled.floor, 2 * BATCH);
    assert_int_equal(group_of(f)->dead.epoch, 1);
}

/* A leader that stored letters and did not get to say so is followed by one that begins again: so long ago that the
 * partition of the letters does not remember their offsets. */
static void test_dead_letters_stored_by_an_earlier_leader_are_not_stored_again(void **state)
{
    struct fixture *f = *state;
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(f->solo.meta), "t");
    struct lq_partition *partition = lq_meta_partition(f->solo.meta, topic->partitions[0].group);
    store(f, 3);
    subscribe_ok(f, FIRST, "g", MUCH);
    for (int i = 0; i < 3; i++) {
        (void)delivered(f, FIRST);
    }
    assert_int_equal(settle(f, FIRST, REJECT, 0, 3 * BATCH)->taken, 3 * BATCH);
    for (unsigned i = 0; i < STEPS_MAX && (letters_topic(f) == NULL || letters_end(f) < 2 * BATCH); i++) {
        lq_dead_tick(f->solo.service.dead);
        solo_node_advance(&f->solo, 1);
    }
    assert_true(letters_end(f) >= 2 * BATCH);
    assert_int_equal(group_of(f)->dead.done, 0);

    lq_partition_machine_ops.follow(partition, lq_partition_leader(partition), lq_partition_term(partition));
    solo_node_settle(&f->solo);
    lq_partition_machine_ops.lead(partition, lq_partition_term(partition));
    until_moved(f, 3 * BATCH);

    assert_int_equal(letters_end(f), 3 * BATCH);
    assert_int_equal(group_of(f)->dead.epoch, 1);
}

static void test_dead_letter_is_the_message_behind_headers_of_its_origin(void **state)
{
    (void)state;
    struct lq_batch_writer writer;
    struct lq_slab *stored, *letter;
    struct lq_batch batch;
    struct lq_record record;
    const struct lq_record_header own = {.name = lq_span_of("a", 1), .value = lq_span_of("b", 1)};
    const struct lq_dead_letter dead = {.offset = 101, .failed_ms = 77, .count = 5, .reason = LQ_FAILURE_EXPIRED};
    const struct lq_dead_letter_origin origin = {.topic = "t", .partition = 2, .group = "g", .letter = &dead};
    lq_batch_writer_init(&writer, LQ_ENTRY_BYTES_MAX);
    assert_int_equal(lq_batch_writer_add(&writer, 1, lq_span_of("k", 1), lq_span_of("x", 1), NULL, 0), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_add(&writer, 9, lq_span_of("key", 3), lq_span_of("value", 5), &own, 1), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_seal(&writer, 5, 0, 0, LQ_BATCH_ZSTD, &stored), LIGHTQ_OK);
    lq_batch_writer_deinit(&writer);

    assert_int_equal(lq_dead_letter_pack(&origin, stored->bytes, (uint32_t)stored->size, 100, 42, 6, &letter),
                     LIGHTQ_OK);

    assert_int_equal(lq_batch_open(&batch, letter->bytes, letter->size, NULL), LIGHTQ_OK);
    assert_int_equal(batch.head.producer_id, 42);
    assert_int_equal(batch.head.base_sequence, 6);
    assert_int_equal(lq_batch_next(&batch, &record), LIGHTQ_OK);
    assert_memory_equal(record.key.bytes, "key", 3);
    assert_memory_equal(record.value.bytes, "value", 5);
    assert_int_equal(record.timestamp_ms, 9);
    assert_header(&record, "lightq.topic", "t");
    assert_header(&record, "lightq.partition", "2");
    assert_header(&record, "lightq.offset", "101");
    assert_header(&record, "lightq.group", "g");
    assert_header(&record, "lightq.reason", "expired");
    assert_header(&record, "lightq.deliveries", "5");
    assert_header(&record, "lightq.failed", "77");
    assert_header(&record, "a", "b");
    lq_batch_close(&batch);
    const struct lq_dead_letter missing = {.offset = 102};
    const struct lq_dead_letter_origin wrong = {.topic = "t", .group = "g", .letter = &missing};
    lq_slab_unref(letter);
    assert_int_equal(lq_dead_letter_pack(&wrong, stored->bytes, (uint32_t)stored->size, 100, 42, 6, &letter),
                     LIGHTQ_EPROTO);
    lq_slab_unref(stored);
}

static void test_dead_letters_that_cannot_be_moved_stay_with_a_reason(void **state)
{
    struct fixture *f = *state;
    char name[LQ_NAME_BYTES_MAX + 1] = {0};
    memset(name, 'n', LQ_NAME_BYTES_MAX);
    Lightq__Wire__GroupOptions options = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    options.mode = PIPELINE;
    store(f, 1);
    assert_int_equal(create_with(f, name, 1, &options, NULL)->status, LIGHTQ_OK); /* too long for another name */
    subscribe_ok(f, FIRST, name, MUCH);
    (void)delivered(f, FIRST);
    assert_int_equal(settle(f, FIRST, REJECT, 0, 1)->taken, 1);

    for (int i = 0; i < 100; i++) {
        lq_dead_tick(f->solo.service.dead);
        solo_node_advance(&f->solo, 1);
    }

    outlet_forget(&f->solo.outlet);
    const Lightq__Wire__GroupDescribeAnswer *group = describe(f, name);
    assert_int_equal(group->dead_open, 1);
    assert_int_equal(group->dead_stored, 0);
    assert_int_equal(group->position, 0);
    assert_true(strstr(group->dead_reason, "too long") != NULL);
}

/* A group that is deleted takes its letters with it, also in the middle of moving them. */
static void test_dead_letters_of_a_deleted_group_are_dropped_with_it(void **state)
{
    struct fixture *f = *state;
    store(f, 1);
    subscribe_ok(f, FIRST, "g", MUCH);
    (void)delivered(f, FIRST);
    assert_int_equal(settle(f, FIRST, REJECT, 0, BATCH)->taken, BATCH);
    lq_dead_tick(f->solo.service.dead);

    remove_group(f, "g");
    for (int i = 0; i < 3000; i++) {
        lq_dead_tick(f->solo.service.dead);
        solo_node_advance(&f->solo, 1);
    }

    assert_null(group_of(f));
    assert_string_equal(lq_dead_reason(f->solo.service.dead, 1, f->number), "");
}

/* What another node may send instead of a batch. */
static void test_carried_frames_of_nonsense_are_refused(void **state)
{
    struct fixture *f = *state;
    struct lq_slab *slab = lq_slab_new(64);
    assert_non_null(slab);
    lq_dead_tick(f->solo.service.dead); /* it takes such frames from now on */
    const struct lq_host_events *host = &lq_meta_host_events;
    memset(slab->bytes, 0, slab->size);
    slab->bytes[0] = 64;
    slab->bytes[1] = 1;
    uint32_t self = (uint32_t)f->solo.options.node_id;

    for (uint32_t size = 0; size <= 64; size++) {
        struct lq_frame_in frame = {.type = LQ_FRAME_NODE, .slab = slab, .size = size};
        lightq_status status = host->node_frame(f->solo.meta, self, &frame);
        assert_int_equal(status, size <= 20 ? LIGHTQ_EPROTO : LIGHTQ_OK);
    }
    slab->bytes[0] = 65;
    struct lq_frame_in late = {.type = LQ_FRAME_NODE, .slab = slab, .size = 14};
    assert_int_equal(host->node_frame(f->solo.meta, self, &late), LIGHTQ_OK); /* nobody waits for it */
    slab->bytes[12] = slab->bytes[13] = 0xff;
    assert_int_equal(host->node_frame(f->solo.meta, self, &late), LIGHTQ_EPROTO);
    slab->bytes[1] = 9;
    assert_int_equal(host->node_frame(f->solo.meta, self, &late), LIGHTQ_OK); /* a newer node's */
    lq_slab_unref(slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_group, group_teardown)
        TEST(test_dead_letters_of_a_group_are_stored_in_order_and_settled),
        TEST(test_dead_letters_found_by_a_later_look_go_into_the_same_topic),
        TEST(test_dead_letters_stored_by_an_earlier_leader_are_not_stored_again),
        TEST(test_dead_letter_is_the_message_behind_headers_of_its_origin),
        TEST(test_dead_letters_that_cannot_be_moved_stay_with_a_reason),
        TEST(test_dead_letters_of_a_deleted_group_are_dropped_with_it),
        TEST(test_carried_frames_of_nonsense_are_refused),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
