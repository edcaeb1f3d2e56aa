/* test_meta_alter.c - a topic altered while everything runs: every replica of every partition has the new
 * configuration, new partitions have leaders, and no controller that dies in the middle leaves a half of it. */
#include "node/meta_internal.h"
#include "tests/unit/node/cluster_fixture.h"

static struct cluster *up(uint64_t seed)
{
    const struct cluster_options options = {.nodes = 3, .founders = 3, .seed = seed};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, 3);
    cluster_wait(cluster, all_settled, NULL, 60);
    return cluster;
}

static const struct lq_catalog_topic *topic_on(struct cluster *cluster, unsigned id)
{
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(member_of(cluster, id)->meta), "t");
    assert_non_null(topic);
    return topic;
}

static unsigned controller_of(struct cluster *cluster)
{
    for (unsigned id = 1; id <= 3; id++) {
        if (member_of(cluster, id)->meta != NULL && member_of(cluster, id)->meta->leading) {
            return id;
        }
    }
    return 0;
}

/* What is asked for in every test: 5 partitions, of at most 7 messages. */
static void alteration(struct asked *asked, struct lq_topic_config *config)
{
    lq_topic_config_init(config);
    config->retention_messages = 7;
    *asked = (struct asked){.request = {.verb = LQ_META_TOPIC_ALTER,
                                        .name = "t",
                                        .partitions = 5,
                                        .config = config,
                                        .mask = lq_topic_config_bit("retention.messages"),
                                        .timeout_ms = 20000}};
}

static bool is_answered(struct cluster *cluster, void *data)
{
    (void)cluster;
    return ((const struct asked *)data)->answers > 0;
}

/* On all three nodes the catalog and the applied state of all five partitions. */
static bool is_applied(struct cluster *cluster, void *unused)
{
    (void)unused;
    for (unsigned id = 1; id <= 3; id++) {
        const struct lq_catalog_topic *topic = topic_on(cluster, id);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            struct lq_partition_status status;
            struct lq_partition *partition =
                lq_meta_partition(member_of(cluster, id)->meta, topic->partitions[p].group);
            if (partition == NULL) {
                return false;
            }
            lq_partition_status(partition, &status);
            if (status.config.retention_messages != 7 || status.number != p) {
                return false;
            }
        }
        if (topic->partition_count != 5 || topic->config.retention_messages != 7) {
            return false;
        }
    }
    return true;
}

static void test_alter_reaches_every_replica_of_every_partition(void **state)
{
    (void)state;
    struct cluster *cluster = up(1);
    struct lq_topic_config config;
    struct asked asked;
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    produce_some(cluster, topic_on(cluster, 1)->partitions[0].group, 20);
    uint64_t version = topic_on(cluster, 1)->version;
    unsigned asker = controller_of(cluster) % 3 + 1; /* one that must ask another */
    alteration(&asked, &config);

    ask(cluster, asker, &asked);
    cluster_wait(cluster, is_answered, &asked, 30);

    assert_int_equal(asked.status, LIGHTQ_OK);
    assert_int_equal(asked.request.count, 5);
    for (unsigned id = 1; id <= 3; id++) { /* whichever node a client asks next shows it */
        assert_int_equal(topic_on(cluster, id)->partition_count, 5);
        assert_true(topic_on(cluster, id)->version > version);
    }
    cluster_wait(cluster, is_applied, NULL, 20);
    for (uint32_t p = 0; p < 5; p++) {
        produce_some(cluster, topic_on(cluster, asker)->partitions[p].group, 12);
    }
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 30);
    cluster_free(cluster);
}

/* The controller dies at a moment that the seed chooses: it is asked again, and done once. */
static void check_controller_lost(uint64_t seed)
{
    struct cluster *cluster = up(seed);
    struct lq_topic_config config;
    struct asked asked;
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    cluster_wait(cluster, all_settled, NULL, 30);
    unsigned controller = controller_of(cluster);
    assert_int_not_equal(controller, 0);
    alteration(&asked, &config);
    ask(cluster, controller % 3 + 1, &asked);
    cluster_run_ms(cluster, seed % 12);
    cluster_kill(cluster, controller);
    cluster_run_ms(cluster, 3000);
    cluster_start(cluster, controller);

    cluster_wait(cluster, is_answered, &asked, 60);

    assert_int_equal(asked.status, LIGHTQ_OK);
    cluster_wait(cluster, all_settled, NULL, 60);
    cluster_wait(cluster, is_applied, NULL, 30);
    for (unsigned id = 1; id <= 3; id++) {
        const struct lq_catalog_topic *topic = topic_on(cluster, id);
        assert_int_equal(lq_catalog_next_group(lq_meta_catalog(member_of(cluster, id)->meta)),
                         topic->partitions[4].group + 1); /* none was made twice */
    }
    cluster_free(cluster);
}

static void test_alter_survives_the_loss_of_its_controller(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 112; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        check_controller_lost(seed);
    }
}

/* A node that was away while it was altered catches up, whichever way its catalog comes. */
static void test_alter_reaches_a_node_that_was_away(void **state)
{
    (void)state;
    struct cluster *cluster = up(3);
    struct lq_topic_config config;
    struct asked asked;
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    unsigned away = controller_of(cluster) % 3 + 1;
    unsigned asker = controller_of(cluster);
    cluster_kill(cluster, away);
    cluster_run_ms(cluster, 4000);
    alteration(&asked, &config);
    ask(cluster, asker, &asked);
    cluster_wait(cluster, is_answered, &asked, 30); /* it is not waited for */
    assert_int_equal(asked.status, LIGHTQ_OK);

    cluster_start(cluster, away);

    cluster_wait(cluster, all_settled, NULL, 60);
    cluster_wait(cluster, is_applied, NULL, 30);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alter_reaches_every_replica_of_every_partition),
        cmocka_unit_test(test_alter_survives_the_loss_of_its_controller),
        cmocka_unit_test(test_alter_reaches_a_node_that_was_away),
    };
    return cmocka_run_group_tests_name("meta_alter", tests, NULL, NULL);
}
