/* test_retention.c - retention=workqueue and interest: what groups have done with is dropped, and nothing that one of
 * them still needs, also when it came after the drop was proposed. */
#include "tests/unit/queue/groups_fixture.h"

static void set_retention(struct fixture *f, enum lq_retention retention, uint64_t messages)
{
    const struct lq_id topic = {.bytes = {9}};
    struct lq_topic_config config;
    lq_topic_config_init(&config);
    config.retention = retention;
    config.retention_messages = messages;
    lq_partition_set_config(f->partition, &topic, 0, &config);
    settle_turns(f);
}

static void retain(struct fixture *f)
{
    lq_partition_retain(f->partition);
    settle_turns(f);
}

static void ack(struct fixture *f, uint64_t group, uint64_t first, uint32_t count)
{
    struct settled settled;
    assert_int_equal(settle(f, &settled, group, 0, LQ_SETTLE_ACK, first, count), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(settled.status, LIGHTQ_OK);
}

static void commit(struct fixture *f, uint64_t group, uint64_t offset)
{
    struct changed changed;
    const struct lq_command command = {.type = LQ_COMMAND_COMMIT,
                                       .commit = {.group = group, .generation = group, .offset = offset}};
    assert_int_equal(change(f, &changed, &command), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_OK);
}

static void drop(struct fixture *f, uint64_t group)
{
    struct changed changed;
    const struct lq_command command = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = group}};
    assert_int_equal(change(f, &changed, &command), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_OK);
}

static void test_workqueue_drops_what_every_pipeline_group_settled(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_retention(f, LQ_RETENTION_WORKQUEUE, 0);
    produce_some(f, 100);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 0); /* nobody works on it yet: all is kept */

    uint64_t a = create(f, "a", LQ_CGROUP_PIPELINE);
    uint64_t b = create(f, "b", LQ_CGROUP_PIPELINE);
    (void)create(f, "s", LQ_CGROUP_SUBSCRIBER); /* holds nothing */
    ack(f, a, 0, 60);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 0);
    ack(f, b, 10, 40);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 0); /* 0 to 9 are not done */
    ack(f, b, 0, 10);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 50);

    drop(f, b);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 60);
    drop(f, a);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 60);
}

/* A purge of one group: what it alone still needed goes, what another one needs stays. */
static void test_workqueue_drops_what_a_purged_group_alone_needed(void **state)
{
    struct fixture *f = *state;
    struct changed changed;
    fixture_lead(f);
    set_retention(f, LQ_RETENTION_WORKQUEUE, 0);
    uint64_t a = create(f, "a", LQ_CGROUP_PIPELINE);
    uint64_t b = create(f, "b", LQ_CGROUP_PIPELINE);
    produce_some(f, 100);
    ack(f, a, 0, 60);

    const struct lq_command purge = {
        .type = LQ_COMMAND_GROUP_SEEK,
        .group_seek = {.group = b, .start = {.kind = LQ_CGROUP_END}},
    };
    assert_int_equal(change(f, &changed, &purge), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(changed.status, LIGHTQ_OK);
    retain(f);

    assert_int_equal(lq_partition_start(f->partition), 60);
    const struct lq_cgroups *groups = lq_partition_groups(f->partition);
    for (size_t i = 0; i < groups->count; i++) {
        assert_int_equal(groups->at[i]->settled.floor, groups->at[i]->number == b ? 100 : 60);
        assert_int_equal(groups->at[i]->missed_count, 0);
    }
}

static void test_interest_drops_what_no_group_needs(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_retention(f, LQ_RETENTION_INTEREST, 0);
    produce_some(f, 10);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 10); /* there is no group */

    uint64_t a = create(f, "a", LQ_CGROUP_PIPELINE);
    uint64_t s = create(f, "s", LQ_CGROUP_SUBSCRIBER);
    produce_some(f, 10);
    ack(f, a, 10, 10);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 10);
    commit(f, s, 15);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 15);
    drop(f, s);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 20);
    drop(f, a);
    produce_some(f, 5);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 25);
}

/* The drop is decided when it is applied, by the groups that are there then. */
static void test_group_made_while_a_drop_is_under_way_keeps_its_messages(void **state)
{
    struct fixture *f = *state;
    struct changed made;
    struct lq_command command = {
        .type = LQ_COMMAND_GROUP_CREATE,
        .group_create = {.id = {.bytes = {9}}, .start = {.kind = LQ_CGROUP_START}, .name = "g", .name_size = 1}};
    lq_cgroup_options_init(&command.group_create.options, LQ_CGROUP_PIPELINE);
    fixture_lead(f);
    set_retention(f, LQ_RETENTION_INTEREST, 0);
    produce_some(f, 10);

    assert_int_equal(change(f, &made, &command), LIGHTQ_OK);
    fixture_turn(f); /* it is in the log, not applied */
    lq_partition_retain(f->partition);
    settle_turns(f);

    assert_int_equal(made.status, LIGHTQ_OK);
    assert_int_equal(lq_partition_start(f->partition), 0);
    ack(f, made.request.result.number, 0, 10);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 10);
}

static void test_limits_hold_for_a_workqueue_too(void **state)
{
    struct fixture *f = *state;
    fixture_lead(f);
    set_retention(f, LQ_RETENTION_WORKQUEUE, 20);
    uint64_t a = create(f, "a", LQ_CGROUP_PIPELINE);
    produce_some(f, 50);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 30);
    const struct lq_cgroup *cgroup = lq_cgroups_find(lq_partition_groups(f->partition), a);
    assert_int_equal(cgroup->missed_count, 30); /* it is told how many it missed */
    set_retention(f, LQ_RETENTION_LIMITS, 0);
    ack(f, a, 30, 20);
    retain(f);
    assert_int_equal(lq_partition_start(f->partition), 30);
}

static void test_trim_command_keeps_its_bytes(void **state)
{
    static const uint8_t plain[] = {2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t kept[] = {2, 2, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t *const bytes[] = {plain, kept};
    struct lq_command command;
    struct lq_writer writer;
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(lq_command_decode(bytes[i], sizeof plain, &command), LIGHTQ_OK);
        assert_int_equal(command.trim.offset, 7);
        assert_int_equal(command.trim.kept_for, i == 0 ? LQ_RETENTION_LIMITS : LQ_RETENTION_WORKQUEUE);
        lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
        lq_command_encode(&command, &writer);
        assert_int_equal(writer.size, sizeof plain);
        assert_memory_equal(writer.bytes, bytes[i], sizeof plain);
        lq_writer_deinit(&writer);
    }
    for (unsigned version = 1; version <= 3; version++) { /* what no program writes */
        for (unsigned kept_for = 0; kept_for <= 3; kept_for++) {
            const uint8_t made[] = {2, (uint8_t)version, 0, 0, (uint8_t)kept_for, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0};
            bool is_good = (version == 1 && kept_for == 0) || (version == 2 && (kept_for == 1 || kept_for == 2));
            lightq_status bad = version == 3 ? LIGHTQ_EVERSION : LIGHTQ_ECORRUPT;
            assert_int_equal(lq_command_decode(made, sizeof made, &command), is_good ? LIGHTQ_OK : bad);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_workqueue_drops_what_every_pipeline_group_settled),
        TEST(test_workqueue_drops_what_a_purged_group_alone_needed),
        TEST(test_interest_drops_what_no_group_needs),
        TEST(test_group_made_while_a_drop_is_under_way_keeps_its_messages),
        TEST(test_limits_hold_for_a_workqueue_too),
        TEST(test_trim_command_keeps_its_bytes),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
