/* test_catalog.c - the catalog's commands: what they change, what they refuse, that they can be sent again; and its
 * checkpoint. */
#include "client/base/crc.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/node/catalog_fixture.h"

static const uint16_t on_123[] = {1, 2, 3};

static uint32_t incarnation_on(const struct ledger *ledger, uint64_t group, uint32_t node)
{
    const struct lq_catalog_replica *replica =
        lq_catalog_replica_on(lq_catalog_partition(ledger->catalog, group), node);
    return replica == NULL ? 0 : replica->incarnation;
}

static void test_begin_makes_the_founders_once(void **state)
{
    struct ledger *ledger = *state;
    assert_int_equal(join(ledger, 1, id_of(1, 1), 1), LIGHTQ_ENOTREADY); /* nothing before BEGIN */

    begin(ledger, 3);

    assert_int_equal(lq_catalog_version(ledger->catalog), 2);
    assert_int_equal(lq_catalog_node_count(ledger->catalog), 3);
    const struct lq_catalog_node *node = lq_catalog_node(ledger->catalog, 2);
    assert_int_equal(node->state, LQ_NODE_ACTIVE);
    assert_int_equal(node->meta_incarnation, LQ_INCARNATION_FOUNDER);
    assert_true(node->meta_voter);
    assert_int_equal(node->client.port, 5601);
    begin(ledger, 3); /* the same again changes nothing */
    assert_int_equal(lq_catalog_version(ledger->catalog), 2);
    struct lq_catalog_command other = {.type = LQ_CATALOG_BEGIN, .begin = {.cluster = id_of(98, 1)}};
    other.begin.founders.at[0] =
        (struct lq_founder){.node = 1, .uuid = id_of(1, 1), .client = endpoint_of(1), .peer = endpoint_of(2)};
    other.begin.founders.count = 1;
    assert_int_equal(apply(ledger, &other), LIGHTQ_EEXISTS);
}

static void test_begin_even_number_has_odd_voters(void **state)
{
    struct ledger *ledger = *state;

    begin(ledger, 6);

    unsigned voters = 0;
    for (size_t i = 0; i < 6; i++) {
        voters += lq_catalog_node_at(ledger->catalog, i)->meta_voter;
    }
    assert_int_equal(voters, 5);
    assert_false(lq_catalog_node(ledger->catalog, 6)->meta_voter);
    assert_null(lq_catalog_node_at(ledger->catalog, 6));
}

static void test_join_new_node_gets_an_incarnation(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 1);

    assert_int_equal(join(ledger, 7, id_of(7, 1), 3), LIGHTQ_OK);

    const struct lq_catalog_node *node = lq_catalog_node(ledger->catalog, 7);
    assert_int_equal(node->meta_incarnation, 2);
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 2);
    assert_false(node->meta_voter); /* two voters would be worse than one */
    uint64_t version = lq_catalog_version(ledger->catalog);
    assert_int_equal(join(ledger, 7, id_of(7, 1), 3), LIGHTQ_OK); /* again */
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 2);
    assert_int_equal(lq_catalog_version(ledger->catalog), version);
    assert_int_equal(join(ledger, 8, id_of(8, 1), 1), LIGHTQ_OK);
    assert_true(lq_catalog_node(ledger->catalog, 7)->meta_voter); /* of three, all */
    assert_true(lq_catalog_node(ledger->catalog, 8)->meta_voter);
}

static void test_join_with_other_directory_is_refused(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);

    assert_int_equal(join(ledger, 2, id_of(2, 2), 1), LIGHTQ_EIDENTITY); /* same id, other uuid (F1) */
    assert_non_null(strstr(lq_catalog_outcome(ledger->catalog)->text, "lightq node replace 2 2"));
    assert_int_equal(join(ledger, 9, id_of(2, 1), 1), LIGHTQ_EIDENTITY); /* other id, same uuid */

    assert_int_equal(lq_catalog_version(ledger->catalog), 1);
}

static void test_join_beyond_the_limit_is_refused(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, LQ_FOUNDERS_MAX);

    assert_int_equal(join(ledger, 100, id_of(100, 1), 1), LIGHTQ_ELIMIT);
}

static void test_update_takes_addresses_of_the_right_directory(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    struct lq_catalog_command command = {.type = LQ_CATALOG_UPDATE,
                                         .node = {.id = 2,
                                                  .uuid = id_of(2, 1),
                                                  .boot = 5,
                                                  .shards = 1,
                                                  .client = endpoint_of(9000),
                                                  .peer = endpoint_of(9001)}};

    assert_int_equal(apply(ledger, &command), LIGHTQ_OK);

    assert_int_equal(lq_catalog_node(ledger->catalog, 2)->client.port, 9000);
    assert_int_equal(lq_catalog_node(ledger->catalog, 2)->boot, 5);
    uint64_t version = lq_catalog_version(ledger->catalog);
    assert_int_equal(apply(ledger, &command), LIGHTQ_OK); /* nothing new: no new version (H15) */
    assert_int_equal(lq_catalog_version(ledger->catalog), version);
    command.node.uuid = id_of(2, 2);
    assert_int_equal(apply(ledger, &command), LIGHTQ_EIDENTITY);
    command.node.id = 12;
    assert_int_equal(apply(ledger, &command), LIGHTQ_EIDENTITY);
}

static void test_create_gives_groups_in_order(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);

    assert_int_equal(create(ledger, "b", id_of(50, 1), 4, on_123, 3), LIGHTQ_OK);
    assert_int_equal(create(ledger, "a", id_of(50, 2), 2, on_123, 3), LIGHTQ_OK);

    assert_int_equal(lq_catalog_topic_count(ledger->catalog), 2);
    assert_int_equal(lq_catalog_partition_count(ledger->catalog), 6);
    assert_string_equal(lq_catalog_topic_at(ledger->catalog, 0)->name, "a");
    const struct lq_catalog_topic *b = lq_catalog_topic(ledger->catalog, "b");
    assert_ptr_equal(b, lq_catalog_topic_by_id(ledger->catalog, &(struct lq_id){.bytes = {50, 1, 1}}));
    for (uint64_t group = 1; group <= 6; group++) {
        const struct lq_catalog_partition *partition = lq_catalog_partition(ledger->catalog, group);
        assert_non_null(partition);
        assert_int_equal(partition->group, group);
        assert_int_equal(partition->number, group <= 4 ? group - 1 : group - 5);
        assert_int_equal(partition->topic == b, group <= 4);
        assert_int_equal(incarnation_on(ledger, group, 3), LQ_INCARNATION_FOUNDER);
    }
    assert_null(lq_catalog_partition(ledger->catalog, 0));
    assert_null(lq_catalog_partition(ledger->catalog, 7));
    assert_int_equal(lq_catalog_next_group(ledger->catalog), 7);
    assert_null(lq_catalog_topic(ledger->catalog, "c"));
    assert_null(lq_catalog_topic_at(ledger->catalog, 2));
    assert_int_equal(lq_catalog_topic_seek(ledger->catalog, "aa"), 1);
}

static void test_create_refuses_what_cannot_be(void **state)
{
    struct ledger *ledger = *state;
    const uint16_t on_unknown[] = {1, 2, 9};
    const uint16_t twice[] = {1, 2, 1};
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 1, on_123, 3), LIGHTQ_OK);

    assert_int_equal(create(ledger, "a", id_of(50, 1), 1, on_123, 3), LIGHTQ_OK); /* sent again */
    assert_int_equal(create(ledger, "a", id_of(50, 2), 1, on_123, 3), LIGHTQ_EEXISTS);
    assert_int_equal(create(ledger, "b", id_of(50, 1), 1, on_123, 3), LIGHTQ_EEXISTS);
    assert_int_equal(create(ledger, "b", id_of(50, 2), 1, on_unknown, 3), LIGHTQ_ECONFLICT);
    assert_int_equal(create(ledger, "b", id_of(50, 2), 1, twice, 3), LIGHTQ_ECONFLICT);

    assert_int_equal(lq_catalog_topic_count(ledger->catalog), 1);
    assert_int_equal(lq_catalog_next_group(ledger->catalog), 2);
}

static void test_delete_and_create_again_is_another_topic(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "keep", id_of(50, 9), 2, on_123, 3), LIGHTQ_OK);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 3, on_123, 3), LIGHTQ_OK);

    assert_int_equal(drop(ledger, id_of(50, 1)), LIGHTQ_OK);
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->count, 3);
    assert_int_equal(drop(ledger, id_of(50, 1)), LIGHTQ_ENOTFOUND);
    assert_int_equal(create(ledger, "a", id_of(50, 2), 3, on_123, 3), LIGHTQ_OK);

    assert_null(lq_catalog_partition(ledger->catalog, 3)); /* of the deleted one: never used again */
    assert_non_null(lq_catalog_partition(ledger->catalog, 2));
    assert_int_equal(lq_catalog_topic(ledger->catalog, "a")->partitions[0].group, 6);
    assert_int_equal(lq_catalog_partition_count(ledger->catalog), 5);
}

static void test_replace_by_itself_waits_for_an_empty_directory(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 3, on_123, 3), LIGHTQ_OK);

    assert_int_equal(replace(ledger, 2, id_of(2, 1), 2), LIGHTQ_OK);

    assert_int_equal(lq_catalog_outcome(ledger->catalog)->count, 3);
    const struct lq_catalog_node *node = lq_catalog_node(ledger->catalog, 2);
    assert_int_equal(node->state, LQ_NODE_AWAITED);
    assert_true(lq_id_is_zero(&node->uuid));
    assert_int_equal(node->meta_incarnation, 2);
    assert_true(node->meta_voter);
    for (uint64_t group = 1; group <= 3; group++) {
        assert_int_equal(incarnation_on(ledger, group, 2), 2);
        assert_int_equal(incarnation_on(ledger, group, 1), 1);
    }
    assert_int_equal(replace(ledger, 2, id_of(2, 1), 2), LIGHTQ_OK); /* sent again */
    assert_int_equal(incarnation_on(ledger, 1, 2), 2);
    assert_int_equal(join(ledger, 2, id_of(2, 2), 1), LIGHTQ_OK);
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 2);
    assert_int_equal(lq_catalog_node(ledger->catalog, 2)->state, LQ_NODE_ACTIVE);
    assert_int_equal(replace(ledger, 2, id_of(2, 1), 2), LIGHTQ_OK); /* sent again, late */
    assert_int_equal(lq_catalog_node(ledger->catalog, 2)->state, LQ_NODE_ACTIVE);
    assert_int_equal(replace(ledger, 2, id_of(2, 2), 2), LIGHTQ_OK); /* and once more in earnest */
    assert_int_equal(incarnation_on(ledger, 1, 2), 3);
}

static void test_replace_by_another_moves_its_replicas(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(join(ledger, 4, id_of(4, 1), 1), LIGHTQ_OK);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 2, on_123, 3), LIGHTQ_OK);

    assert_int_equal(replace(ledger, 3, id_of(3, 1), 4), LIGHTQ_OK);

    assert_int_equal(lq_catalog_node(ledger->catalog, 3)->state, LQ_NODE_GONE);
    assert_true(lq_catalog_node(ledger->catalog, 4)->meta_voter);
    assert_int_equal(incarnation_on(ledger, 1, 3), 0);
    assert_int_equal(incarnation_on(ledger, 1, 4), 2);
    assert_int_equal(lq_catalog_partition(ledger->catalog, 1)->replicas[2].node, 4); /* in its place */
    assert_int_equal(replace(ledger, 3, id_of(3, 1), 4), LIGHTQ_OK);                 /* sent again */
    assert_int_equal(join(ledger, 3, id_of(3, 1), 9), LIGHTQ_EIDENTITY); /* its old directory is of no use */
    assert_int_equal(join(ledger, 3, id_of(3, 2), 1), LIGHTQ_OK);        /* an empty one is a new node */
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 3);
}

static lightq_status grow(struct ledger *ledger, uint64_t group, uint32_t node)
{
    const struct lq_catalog_command command = {.type = LQ_CATALOG_GROW, .grow = {.group = group, .node = node}};
    return apply(ledger, &command);
}

static void test_grow_gives_a_replica_only_where_one_is_lacking(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 1, on_123, 3), LIGHTQ_OK);
    assert_int_equal(replace(ledger, 3, id_of(3, 1), 2), LIGHTQ_OK); /* nobody is left to take it */
    assert_int_equal(lq_catalog_partition(ledger->catalog, 1)->replica_count, 2);

    assert_int_equal(grow(ledger, 1, 3), LIGHTQ_ENOTFOUND); /* gone */
    assert_int_equal(grow(ledger, 1, 4), LIGHTQ_ENOTFOUND); /* not there yet */
    assert_int_equal(grow(ledger, 9, 2), LIGHTQ_ENOTFOUND);
    assert_int_equal(grow(ledger, 1, 2), LIGHTQ_OK); /* has one */
    assert_int_equal(lq_catalog_partition(ledger->catalog, 1)->replica_count, 2);
    assert_int_equal(join(ledger, 4, id_of(4, 1), 1), LIGHTQ_OK);
    assert_int_equal(join(ledger, 5, id_of(5, 1), 1), LIGHTQ_OK);
    uint64_t version = lq_catalog_version(ledger->catalog);
    assert_int_equal(grow(ledger, 1, 4), LIGHTQ_OK);

    assert_int_equal(incarnation_on(ledger, 1, 4), 2); /* of the partition's, the next one */
    assert_true(lq_catalog_version(ledger->catalog) > version);
    assert_int_equal(lq_catalog_topic(ledger->catalog, "a")->version, lq_catalog_version(ledger->catalog));
    version = lq_catalog_version(ledger->catalog);
    assert_int_equal(grow(ledger, 1, 4), LIGHTQ_OK); /* sent again */
    assert_int_equal(grow(ledger, 1, 5), LIGHTQ_OK); /* late: none is lacking */
    assert_int_equal(lq_catalog_version(ledger->catalog), version);
    assert_int_equal(lq_catalog_partition(ledger->catalog, 1)->replica_count, 3);
}

/* The topic of @uuid gets @added partitions on nodes 1 to 3 behind @first, and @messages as retention.messages unless
 * that is 0. */
static lightq_status alter(struct ledger *ledger, struct lq_id uuid, uint32_t first, uint32_t added, uint64_t messages)
{
    uint8_t placement[64];
    struct lq_catalog_command command = {
        .type = LQ_CATALOG_ALTER,
        .alter = {.uuid = uuid, .first = first, .added = added, .replicas = 3, .placement = placement}};
    lq_topic_config_init(&command.alter.config);
    if (messages != 0) {
        command.alter.config.retention_messages = messages;
        command.alter.mask = lq_topic_config_bit("retention.messages");
    }
    for (size_t i = 0; i < (size_t)added * 3; i++) {
        lq_put_u16(placement + 2 * i, on_123[i % 3]);
    }
    return apply(ledger, &command);
}

static void test_alter_changes_only_the_options_of_the_mask(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 1, on_123, 3), LIGHTQ_OK);
    const struct lq_catalog_topic *topic = lq_catalog_topic(ledger->catalog, "a");
    const struct lq_topic_config before = topic->config;
    struct lq_catalog_command command = {.type = LQ_CATALOG_ALTER,
                                         .alter = {.uuid = id_of(50, 1),
                                                   .mask = lq_topic_config_bit("retention.ms"),
                                                   .config = {.retention_ms = 7, .max_message_bytes = 9}}};

    assert_int_equal(apply(ledger, &command), LIGHTQ_OK);

    assert_int_equal(topic->config.retention_ms, 7);
    assert_int_equal(topic->config.max_message_bytes, before.max_message_bytes);
    assert_int_equal(topic->version, ledger->index);
    assert_int_equal(lq_catalog_version(ledger->catalog), ledger->index);
    uint64_t version = lq_catalog_version(ledger->catalog);
    assert_int_equal(apply(ledger, &command), LIGHTQ_OK); /* sent again: nothing changes */
    assert_int_equal(lq_catalog_version(ledger->catalog), version);
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->count, 1);
    assert_int_equal(alter(ledger, id_of(50, 9), 1, 0, 5), LIGHTQ_ENOTFOUND);
    assert_int_equal(lq_topic_config_bit("no.such"), 0);
}

static void test_alter_adds_partitions_behind_those_there(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 2, on_123, 3), LIGHTQ_OK); /* groups 1 and 2 */
    assert_int_equal(create(ledger, "b", id_of(50, 2), 1, on_123, 3), LIGHTQ_OK); /* 3 */

    assert_int_equal(alter(ledger, id_of(50, 1), 2, 3, 100), LIGHTQ_OK); /* 4, 5, 6 */

    const struct lq_catalog_topic *topic = lq_catalog_topic(ledger->catalog, "a");
    static const uint64_t groups[] = {1, 2, 4, 5, 6};
    assert_int_equal(topic->partition_count, 5);
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->count, 5);
    assert_int_equal(lq_catalog_partition_count(ledger->catalog), 6);
    assert_int_equal(topic->config.retention_messages, 100);
    for (uint32_t p = 0; p < 5; p++) {
        assert_int_equal(topic->partitions[p].group, groups[p]);
        assert_int_equal(topic->partitions[p].number, p);
        assert_int_equal(topic->partitions[p].replica_count, 3);
        assert_ptr_equal(lq_catalog_partition(ledger->catalog, groups[p]), &topic->partitions[p]);
        assert_ptr_equal(topic->partitions[p].topic, topic);
    }
    assert_string_equal(lq_catalog_partition(ledger->catalog, 3)->topic->name, "b");
    assert_int_equal(lq_catalog_next_group(ledger->catalog), 7);
    uint64_t version = lq_catalog_version(ledger->catalog);
    assert_int_equal(alter(ledger, id_of(50, 1), 2, 3, 100), LIGHTQ_OK); /* sent again */
    assert_int_equal(lq_catalog_version(ledger->catalog), version);
    assert_int_equal(lq_catalog_next_group(ledger->catalog), 7);

    struct lq_writer bytes = catalog_bytes(ledger->catalog); /* and all that is in the checkpoint */
    struct lq_catalog *other;
    assert_int_equal(lq_catalog_new(&other), LIGHTQ_OK);
    assert_int_equal(lq_catalog_load(other, bytes.bytes, bytes.size), LIGHTQ_OK);
    struct lq_writer again = catalog_bytes(other);
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.bytes, bytes.bytes, bytes.size);
    assert_int_equal(lq_catalog_partition(other, 6)->number, 4);
    lq_catalog_free(other);
    lq_writer_deinit(&again);
    lq_writer_deinit(&bytes);
    assert_int_equal(drop(ledger, id_of(50, 1)), LIGHTQ_OK); /* all of its ranges go */
    assert_null(lq_catalog_partition(ledger->catalog, 5));
    assert_int_equal(lq_catalog_partition_count(ledger->catalog), 1);
}

static void test_alter_that_cannot_grow_changes_nothing(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 2, on_123, 3), LIGHTQ_OK);
    assert_int_equal(create(ledger, "solo", id_of(50, 2), 1, on_123, 1), LIGHTQ_OK);

    assert_int_equal(alter(ledger, id_of(50, 1), 1, 3, 100), LIGHTQ_ECONFLICT); /* planned for another number */
    assert_int_equal(alter(ledger, id_of(50, 2), 1, 1, 100), LIGHTQ_ECONFLICT); /* of other replicas */
    assert_int_equal(replace(ledger, 3, id_of(3, 1), 2), LIGHTQ_OK);
    assert_int_equal(alter(ledger, id_of(50, 1), 2, 1, 100), LIGHTQ_ECONFLICT); /* its node is gone */

    assert_non_null(strstr(lq_catalog_outcome(ledger->catalog)->text, "topic a"));
    assert_int_equal(lq_catalog_topic(ledger->catalog, "a")->partition_count, 2);
    assert_int_equal(lq_catalog_topic(ledger->catalog, "a")->config.retention_messages, 0);
    assert_int_equal(lq_catalog_next_group(ledger->catalog), 4);
}

static void test_alter_nonsense_stops_the_replica(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    struct lq_writer good;
    uint8_t placement[2 * 3] = {1, 0, 2, 0, 3, 0};
    struct lq_catalog_command command = {
        .type = LQ_CATALOG_ALTER,
        .alter = {.uuid = id_of(50, 1), .first = 2, .added = 1, .replicas = 3, .placement = placement}};
    lq_topic_config_init(&command.alter.config);
    lq_writer_init(&good, LQ_CATALOG_COMMAND_BYTES_MAX);
    lq_catalog_command_encode(&command, &good);
    assert_int_equal(lq_catalog_command_decode(good.bytes, (uint32_t)good.size, &command), LIGHTQ_OK);

    for (uint32_t size = 0; size < good.size; size++) {
        assert_int_not_equal(lq_catalog_command_decode(good.bytes, size, &command), LIGHTQ_OK);
    }
    static const struct {
        size_t at;
        uint8_t value;
        lightq_status status;
    } bad[] = {
        {4, 0, LIGHTQ_ECORRUPT},                                  /* first */
        {27, 0xff, LIGHTQ_ECORRUPT},                              /* added */
        {28, 6, LIGHTQ_ECORRUPT},                                 /* replicas */
        {28, 0, LIGHTQ_ECORRUPT},    {36, 0x80, LIGHTQ_EVERSION}, /* an option of a newer node */
        {37, 200, LIGHTQ_EVERSION},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t before = good.bytes[bad[i].at];
        good.bytes[bad[i].at] = bad[i].value;
        assert_int_equal(lq_catalog_command_decode(good.bytes, (uint32_t)good.size, &command), bad[i].status);
        good.bytes[bad[i].at] = before;
    }
    lq_writer_deinit(&good);
}

static void test_replace_by_one_that_has_the_partition_chooses_another(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 4);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 1, on_123, 3), LIGHTQ_OK);
    assert_int_equal(create(ledger, "solo", id_of(50, 2), 1, on_123, 1), LIGHTQ_OK);

    assert_int_equal(replace(ledger, 1, id_of(1, 1), 2), LIGHTQ_OK);

    assert_int_equal(incarnation_on(ledger, 1, 4), 2);
    assert_int_equal(lq_catalog_partition(ledger->catalog, 1)->replicas[0].node, 4);
    assert_int_equal(incarnation_on(ledger, 2, 2), 2);
    assert_int_equal(replace(ledger, 3, id_of(3, 1), 2), LIGHTQ_OK); /* no node is left for it */
    assert_int_equal(lq_catalog_partition(ledger->catalog, 1)->replica_count, 2);
    assert_int_equal(incarnation_on(ledger, 1, 2), 1);
}

static void test_replace_refuses_unknown_and_absent_nodes(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);

    assert_int_equal(replace(ledger, 8, id_of(8, 1), 8), LIGHTQ_ENOTFOUND);
    assert_int_equal(replace(ledger, 1, id_of(1, 1), 8), LIGHTQ_ENOTFOUND);
    assert_int_equal(replace(ledger, 3, id_of(3, 1), 3), LIGHTQ_OK);
    assert_int_equal(replace(ledger, 1, id_of(1, 1), 3), LIGHTQ_ECONFLICT); /* 3 is awaited itself */
}

static void test_rebuild_counts_incarnations_up_once(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "a", id_of(50, 1), 1, on_123, 3), LIGHTQ_OK);

    assert_int_equal(rebuild(ledger, 1, 2, 1), LIGHTQ_OK);
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 2);
    assert_int_equal(rebuild(ledger, 1, 2, 1), LIGHTQ_OK); /* asked again */
    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 2);
    assert_int_equal(rebuild(ledger, 1, 3, 1), LIGHTQ_OK);

    assert_int_equal(lq_catalog_outcome(ledger->catalog)->incarnation, 3); /* never one that was used in the group */
    assert_int_equal(rebuild(ledger, LQ_META_GROUP, 2, 1), LIGHTQ_OK);
    assert_int_equal(lq_catalog_node(ledger->catalog, 2)->meta_incarnation, 2);
    assert_int_equal(rebuild(ledger, 5, 2, 1), LIGHTQ_ENOTFOUND);
    assert_int_equal(rebuild(ledger, 1, 9, 1), LIGHTQ_ENOTFOUND);
}

static void test_topic_names_follow_the_rule(void **state)
{
    (void)state;
    char name[LQ_NAME_BYTES_MAX + 2];
    memset(name, 'x', sizeof name);

    assert_int_equal(lq_topic_name_check(name, LQ_NAME_BYTES_MAX), LIGHTQ_OK);
    assert_int_equal(lq_topic_name_check(name, LQ_NAME_BYTES_MAX + 1), LIGHTQ_ENAME);
    assert_int_equal(lq_topic_name_check("A-z_0.9", 7), LIGHTQ_OK);
    assert_int_equal(lq_topic_name_check("...", 3), LIGHTQ_OK);
    static const char *const bad[] = {"", ".", "..", "a b", "a/b", "../x", "\xc3\xa9", "a\n", "*"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lq_topic_name_check(bad[i], strlen(bad[i])), LIGHTQ_ENAME);
    }
    assert_int_equal(lq_topic_name_check("a\0b", 3), LIGHTQ_ENAME);
}

/* Everything a catalog can hold. */
static void fill(struct ledger *ledger)
{
    begin(ledger, 4);
    assert_int_equal(create(ledger, "b", id_of(50, 1), 3, on_123, 3), LIGHTQ_OK);
    assert_int_equal(create(ledger, "gone", id_of(50, 2), 5, on_123, 3), LIGHTQ_OK);
    assert_int_equal(create(ledger, "a", id_of(50, 3), 2, on_123, 1), LIGHTQ_OK);
    assert_int_equal(drop(ledger, id_of(50, 2)), LIGHTQ_OK);
    assert_int_equal(replace(ledger, 2, id_of(2, 1), 2), LIGHTQ_OK);
    assert_int_equal(replace(ledger, 3, id_of(3, 1), 4), LIGHTQ_OK);
    assert_int_equal(join(ledger, 77, id_of(77, 1), 4), LIGHTQ_OK);
}

static void test_load_gives_back_what_was_saved(void **state)
{
    struct ledger *ledger = *state;
    struct lq_catalog *other;
    fill(ledger);
    struct lq_writer writer = catalog_bytes(ledger->catalog);
    assert_int_equal(lq_catalog_new(&other), LIGHTQ_OK);

    assert_int_equal(lq_catalog_load(other, writer.bytes, writer.size), LIGHTQ_OK);

    struct lq_writer again = catalog_bytes(other);
    assert_int_equal(again.size, writer.size);
    assert_memory_equal(again.bytes, writer.bytes, writer.size);
    assert_int_equal(lq_catalog_next_group(other), lq_catalog_next_group(ledger->catalog));
    assert_non_null(lq_catalog_partition(other, 9));
    assert_null(lq_catalog_partition(other, 5));
    assert_int_equal(lq_catalog_load(other, NULL, 0), LIGHTQ_OK); /* the empty one */
    assert_int_equal(lq_catalog_version(other), 0);
    lq_writer_deinit(&again);
    lq_writer_deinit(&writer);
    lq_catalog_free(other);
}

static void test_load_damaged_is_refused_and_changes_nothing(void **state)
{
    struct ledger *ledger = *state;
    fill(ledger);
    struct lq_writer good = catalog_bytes(ledger->catalog);
    uint8_t *bytes = malloc(good.size);
    assert_non_null(bytes);

    for (size_t size = 1; size < good.size; size++) {
        memcpy(bytes, good.bytes, size);
        assert_int_equal(lq_catalog_load(ledger->catalog, bytes, size), LIGHTQ_ECORRUPT);
        if (size > 4) {
            lq_put_u32(bytes + size - 4, lq_crc32c(0, bytes, size - 4));
            assert_int_not_equal(lq_catalog_load(ledger->catalog, bytes, size), LIGHTQ_OK);
        }
    }
    struct lq_catalog *other;
    assert_int_equal(lq_catalog_new(&other), LIGHTQ_OK);
    for (size_t at = 0; at + 4 < good.size; at++) {
        memcpy(bytes, good.bytes, good.size);
        bytes[at] ^= (uint8_t)(1u << at % 8);
        lq_put_u32(bytes + good.size - 4, lq_crc32c(0, bytes, good.size - 4));
        lightq_status status = lq_catalog_load(other, bytes, good.size);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION);
    }

    struct lq_writer after = catalog_bytes(ledger->catalog);
    assert_int_equal(after.size, good.size);
    assert_memory_equal(after.bytes, good.bytes, good.size);
    lq_writer_deinit(&after);
    lq_writer_deinit(&good);
    lq_catalog_free(other);
    free(bytes);
}

static void test_load_out_of_memory_keeps_the_catalog(void **state)
{
    struct ledger *ledger = *state;
    bool failed = true;
    fill(ledger);
    struct lq_writer good = catalog_bytes(ledger->catalog);

    for (unsigned nth = 1; failed; nth++) {
        lq_alloc_fail_at(nth);
        lightq_status status = lq_catalog_load(ledger->catalog, good.bytes, good.size);
        failed = lq_alloc_fail_end();
        assert_int_equal(status, failed ? LIGHTQ_ENOMEM : LIGHTQ_OK);
        struct lq_writer after = catalog_bytes(ledger->catalog);
        assert_memory_equal(after.bytes, good.bytes, good.size);
        lq_writer_deinit(&after);
    }

    lq_writer_deinit(&good);
}

static void test_apply_nonsense_stops_the_replica(void **state)
{
    struct ledger *ledger = *state;
    begin(ledger, 1);
    const uint8_t unknown[] = {99, 1, 0, 0};
    const uint8_t newer[] = {1, 2, 0, 0};
    const uint8_t short_one[] = {1};

    assert_int_equal(apply_payload(ledger, unknown, sizeof unknown), LIGHTQ_ECORRUPT);
    ledger->index--;
    assert_int_equal(apply_payload(ledger, newer, sizeof newer), LIGHTQ_EVERSION);
    ledger->index--;
    assert_int_equal(apply_payload(ledger, short_one, sizeof short_one), LIGHTQ_ECORRUPT);
    const struct lq_entry gap = {.index = ledger->index + 5, .term = 1, .type = LQ_ENTRY_BARRIER};
    assert_int_equal(lq_catalog_apply(ledger->catalog, &gap), LIGHTQ_ECORRUPT);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ledger_setup, ledger_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_begin_makes_the_founders_once),
        CASE(test_begin_even_number_has_odd_voters),
        CASE(test_join_new_node_gets_an_incarnation),
        CASE(test_join_with_other_directory_is_refused),
        CASE(test_join_beyond_the_limit_is_refused),
        CASE(test_update_takes_addresses_of_the_right_directory),
        CASE(test_create_gives_groups_in_order),
        CASE(test_create_refuses_what_cannot_be),
        CASE(test_delete_and_create_again_is_another_topic),
        CASE(test_replace_by_itself_waits_for_an_empty_directory),
        CASE(test_replace_by_another_moves_its_replicas),
        CASE(test_grow_gives_a_replica_only_where_one_is_lacking),
        CASE(test_alter_changes_only_the_options_of_the_mask),
        CASE(test_alter_adds_partitions_behind_those_there),
        CASE(test_alter_that_cannot_grow_changes_nothing),
        CASE(test_alter_nonsense_stops_the_replica),
        CASE(test_replace_by_one_that_has_the_partition_chooses_another),
        CASE(test_replace_refuses_unknown_and_absent_nodes),
        CASE(test_rebuild_counts_incarnations_up_once),
        cmocka_unit_test(test_topic_names_follow_the_rule),
        CASE(test_load_gives_back_what_was_saved),
        CASE(test_load_damaged_is_refused_and_changes_nothing),
        CASE(test_load_out_of_memory_keeps_the_catalog),
        CASE(test_apply_nonsense_stops_the_replica),
    };
    return cmocka_run_group_tests_name("catalog", tests, NULL, NULL);
}
