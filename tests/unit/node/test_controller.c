/* test_controller.c - what the controller plans for a new topic: how many replicas, and where. */
#include "node/controller.h"
#include "node/house.h"
#include "tests/unit/node/catalog_fixture.h"

static bool all_up(const void *data, uint32_t node)
{
    (void)data;
    (void)node;
    return true;
}

/* Nodes above *data are down. */
static bool first_up(const void *data, uint32_t node)
{
    return node <= *(const uint32_t *)data;
}

static void test_plan_default_replicas_follow_the_nodes(void **state)
{
    struct ledger *ledger = *state;
    static const uint8_t wanted[] = {0, 1, 1, 3, 3, 3, 3};
    struct lq_err err;
    uint8_t replicas;
    for (unsigned nodes = 1; nodes <= 6; nodes++) {
        lq_catalog_free(ledger->catalog);
        ledger->index = 0;
        assert_int_equal(lq_catalog_new(&ledger->catalog), LIGHTQ_OK);
        begin(ledger, nodes);

        assert_int_equal(lq_plan_replicas(ledger->catalog, 0, all_up, NULL, &replicas, &err), LIGHTQ_OK);

        assert_int_equal(replicas, wanted[nodes]);
    }
}

static void test_plan_refuses_what_cannot_work(void **state)
{
    struct ledger *ledger = *state;
    struct lq_err err;
    uint8_t replicas;
    uint32_t up = 1;
    begin(ledger, 3);

    assert_int_equal(lq_plan_replicas(ledger->catalog, 2, all_up, NULL, &replicas, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_plan_replicas(ledger->catalog, 7, all_up, NULL, &replicas, &err), LIGHTQ_EINVAL);
    assert_int_equal(lq_plan_replicas(ledger->catalog, 5, all_up, NULL, &replicas, &err), LIGHTQ_EUNAVAILABLE);
    assert_int_equal(lq_plan_replicas(ledger->catalog, 3, first_up, &up, &replicas, &err), LIGHTQ_EUNAVAILABLE);
    assert_non_null(strstr(err.text, "1 of 3 nodes are up"));
    up = 2; /* a majority can elect */
    assert_int_equal(lq_plan_replicas(ledger->catalog, 3, first_up, &up, &replicas, &err), LIGHTQ_OK);
    up = 1;
    assert_int_equal(lq_plan_replicas(ledger->catalog, 1, first_up, &up, &replicas, &err), LIGHTQ_OK);
}

static void test_plan_places_thousand_partitions_evenly(void **state)
{
    struct ledger *ledger = *state;
    unsigned leaders[4] = {0};
    unsigned count[4] = {0};
    uint8_t *placement;
    begin(ledger, 3);

    assert_int_equal(lq_plan_placement(ledger->catalog, 1000, 3, all_up, NULL, &placement), LIGHTQ_OK);

    for (unsigned p = 0; p < 1000; p++) {
        for (unsigned r = 0; r < 3; r++) {
            count[lq_get_u16(placement + 2 * (p * 3 + r))]++;
        }
        leaders[lq_get_u16(placement + 2 * (size_t)p * 3)]++;
    }
    for (unsigned node = 1; node <= 3; node++) {
        assert_int_equal(count[node], 1000);
        assert_in_range(leaders[node], 333, 334);
    }
    free(placement);
}

/* Which shard a partition falls to follows from its group's id, so only who leads can spread the work. */
static void test_plan_spreads_leaders_over_the_shards_of_every_node(void **state)
{
    struct ledger *ledger = *state;
    uint8_t *placement;
    begin(ledger, 3);
    for (uint32_t shards = 1; shards <= 4; shards++) {
        unsigned leaders[4][4] = {{0}};
        const struct lq_catalog_command update = {.type = LQ_CATALOG_UPDATE,
                                                  .node = {.id = 1,
                                                           .uuid = id_of(1, 1),
                                                           .boot = shards,
                                                           .shards = shards,
                                                           .client = endpoint_of(5600),
                                                           .peer = endpoint_of(5700)}};
        assert_int_equal(apply(ledger, &update), LIGHTQ_OK);
        unsigned partitions = 12 * shards; /* four of each shard for each node to lead */

        assert_int_equal(lq_plan_placement(ledger->catalog, partitions, 3, all_up, NULL, &placement), LIGHTQ_OK);

        for (unsigned p = 0; p < partitions; p++) {
            unsigned shard = lq_shard_of(lq_catalog_next_group(ledger->catalog) + p, shards);
            leaders[lq_get_u16(placement + 2 * (size_t)p * 3)][shard]++;
        }
        for (unsigned node = 1; node <= 3; node++) {
            for (unsigned shard = 0; shard < shards; shard++) {
                assert_in_range(leaders[node][shard], 3, 5);
            }
        }
        free(placement);
    }
}

static void test_plan_counts_what_is_there(void **state)
{
    struct ledger *ledger = *state;
    const uint16_t on_1[] = {1};
    uint8_t *placement;
    begin(ledger, 3);
    assert_int_equal(create(ledger, "heavy", id_of(50, 1), 20, on_1, 1), LIGHTQ_OK);

    assert_int_equal(lq_plan_placement(ledger->catalog, 20, 1, all_up, NULL, &placement), LIGHTQ_OK);

    for (unsigned p = 0; p < 20; p++) {
        assert_int_not_equal(lq_get_u16(placement + 2 * (size_t)p), 1);
    }
    free(placement);
}

static void test_plan_avoids_nodes_that_are_down(void **state)
{
    struct ledger *ledger = *state;
    uint32_t up = 2;
    uint8_t *placement;
    begin(ledger, 4);

    assert_int_equal(lq_plan_placement(ledger->catalog, 10, 1, first_up, &up, &placement), LIGHTQ_OK);

    for (unsigned p = 0; p < 10; p++) {
        assert_in_range(lq_get_u16(placement + 2 * (size_t)p), 1, 2);
    }
    free(placement);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ledger_setup, ledger_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_plan_default_replicas_follow_the_nodes),
        CASE(test_plan_refuses_what_cannot_work),
        CASE(test_plan_places_thousand_partitions_evenly),
        CASE(test_plan_spreads_leaders_over_the_shards_of_every_node),
        CASE(test_plan_counts_what_is_there),
        CASE(test_plan_avoids_nodes_that_are_down),
    };
    return cmocka_run_group_tests_name("controller", tests, NULL, NULL);
}
