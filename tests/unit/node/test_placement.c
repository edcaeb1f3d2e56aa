/* test_placement.c - that replicas and leaders are spread evenly, and always in the same way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/placement.h"

#define NODES_MAX 9

struct counts {
    unsigned replicas[NODES_MAX + 1], leaders[NODES_MAX + 1];
};

static void place(unsigned nodes, unsigned partitions, unsigned replicas, struct counts *counts)
{
    struct lq_placement_node loads[NODES_MAX];
    memset(counts, 0, sizeof *counts);
    for (unsigned i = 0; i < nodes; i++) {
        loads[i] = (struct lq_placement_node){.id = i + 1};
    }
    for (unsigned p = 0; p < partitions; p++) {
        uint32_t chosen[LQ_REPLICAS_MAX];
        assert_true(lq_place_partition(loads, nodes, replicas, p, chosen));
        for (unsigned i = 0; i < replicas; i++) {
            counts->replicas[chosen[i]]++;
            for (unsigned k = 0; k < i; k++) {
                assert_int_not_equal(chosen[i], chosen[k]);
            }
        }
        counts->leaders[chosen[0]]++;
    }
}

static void assert_even(unsigned nodes, unsigned partitions, unsigned replicas)
{
    struct counts counts;
    place(nodes, partitions, replicas, &counts);
    for (unsigned i = 1; i <= nodes; i++) {
        double mean_replicas = (double)partitions * replicas / nodes;
        double mean_leaders = (double)partitions / nodes;
        assert_true(counts.replicas[i] >= mean_replicas - 1 && counts.replicas[i] <= mean_replicas + 1);
        assert_true(counts.leaders[i] >= mean_leaders - 1 && counts.leaders[i] <= mean_leaders + 1);
    }
}

static void test_placement_thousand_partitions_are_even(void **state)
{
    (void)state;
    assert_even(3, 1000, 3);
    assert_even(5, 1000, 3);
    assert_even(4, 1000, 3);
    assert_even(7, 999, 5);
    assert_even(9, 1000, 3);
    assert_even(6, 100, 1);
}

static void test_placement_many_small_topics_are_even(void **state)
{
    (void)state;
    struct lq_placement_node loads[5] = {{.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}, {.id = 5}};
    for (unsigned topic = 0; topic < 200; topic++) {
        uint32_t chosen[LQ_REPLICAS_MAX];
        assert_true(lq_place_partition(loads, 5, 3, 0, chosen)); /* each is partition 0 */
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_in_range(loads[i].replicas, 119, 121);
        assert_in_range(loads[i].leaders, 39, 41);
    }
}

static void test_placement_same_input_gives_same_answer(void **state)
{
    (void)state;
    struct lq_placement_node a[5] = {{.id = 5}, {.id = 6}, {.id = 7}, {.id = 8}, {.id = 9}};
    struct lq_placement_node b[5] = {{.id = 9}, {.id = 7}, {.id = 5}, {.id = 8}, {.id = 6}}; /* in another order */
    for (unsigned p = 0; p < 50; p++) {
        uint32_t of_a[LQ_REPLICAS_MAX] = {0};
        uint32_t of_b[LQ_REPLICAS_MAX] = {0};
        assert_true(lq_place_partition(a, 5, 3, p, of_a));
        assert_true(lq_place_partition(b, 5, 3, p, of_b));
        assert_memory_equal(of_a, of_b, sizeof of_a);
    }
}

static void test_placement_does_not_pair_nodes_for_ever(void **state)
{
    (void)state;
    struct lq_placement_node loads[6] = {{.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}, {.id = 5}, {.id = 6}};
    bool together[7][7] = {{false}};
    for (unsigned p = 0; p < 100; p++) {
        uint32_t chosen[LQ_REPLICAS_MAX];
        assert_true(lq_place_partition(loads, 6, 3, p, chosen));
        for (unsigned i = 0; i < 3; i++) {
            for (unsigned k = 0; k < 3; k++) {
                together[chosen[i]][chosen[k]] = true;
            }
        }
    }
    for (unsigned i = 1; i <= 6; i++) {
        for (unsigned k = 1; k <= 6; k++) {
            assert_true(together[i][k]);
        }
    }
}

static void test_placement_too_few_nodes_is_refused(void **state)
{
    (void)state;
    struct lq_placement_node loads[2] = {{.id = 1}, {.id = 2}};
    uint32_t chosen[LQ_REPLICAS_MAX];
    assert_false(lq_place_partition(loads, 2, 3, 0, chosen));
    assert_false(lq_place_partition(loads, 2, 0, 0, chosen));
    assert_int_equal(loads[0].replicas + loads[1].replicas, 0);
}

static void test_placement_prefers_nodes_that_are_up(void **state)
{
    (void)state;
    struct lq_placement_node loads[4] = {{.id = 1, .replicas = 50},
                                         {.id = 2, .second_choice = true},
                                         {.id = 3, .replicas = 50},
                                         {.id = 4, .replicas = 9}};
    uint32_t chosen[LQ_REPLICAS_MAX];

    assert_true(lq_place_partition(loads, 4, 3, 0, chosen));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_not_equal(chosen[i], 2);
    }
    loads[3].second_choice = true;
    assert_true(lq_place_partition(loads, 4, 3, 0, chosen));

    assert_false(chosen[0] == 2 || chosen[0] == 4); /* one that is down is not asked to lead */
}

static void test_placement_one_more_replica_avoids_those_taken(void **state)
{
    (void)state;
    struct lq_placement_node loads[3] = {{.id = 1}, {.id = 2, .replicas = 5}, {.id = 3, .replicas = 4}};
    const uint32_t taken[] = {1, 3};

    assert_int_equal(lq_place_replica(loads, 3, taken, 1, 0), 3);
    assert_int_equal(lq_place_replica(loads, 3, taken, 2, 0), 2);
    const uint32_t all[] = {1, 2, 3};
    assert_int_equal(lq_place_replica(loads, 3, all, 3, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement_thousand_partitions_are_even),
        cmocka_unit_test(test_placement_many_small_topics_are_even),
        cmocka_unit_test(test_placement_same_input_gives_same_answer),
        cmocka_unit_test(test_placement_does_not_pair_nodes_for_ever),
        cmocka_unit_test(test_placement_too_few_nodes_is_refused),
        cmocka_unit_test(test_placement_prefers_nodes_that_are_up),
        cmocka_unit_test(test_placement_one_more_replica_avoids_those_taken),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
