/* test_meta_moves.c - replicas that come, move and go while everything runs: partitions that lack replicas are topped
 * up, a replica leaves a node that is up, and a follower that lost what it had acknowledged is rebuilt. */
#include "node/meta_internal.h"
#include "raft/rpc.h"
#include "raft/rpc_check.h"
#include "tests/unit/node/cluster_fixture.h"

static const struct lq_catalog *catalog_on(struct cluster *cluster, unsigned id)
{
    return lq_meta_catalog(member_of(cluster, id)->meta);
}

static const struct lq_catalog_partition *partition_on(struct cluster *cluster, unsigned id, uint32_t number)
{
    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_on(cluster, id), "t");
    assert_non_null(topic);
    return &topic->partitions[number];
}

static unsigned controller_of(struct cluster *cluster)
{
    for (unsigned id = 1; id <= sim_nodes(cluster->sim); id++) {
        if (member_of(cluster, id)->meta != NULL && member_of(cluster, id)->meta->leading) {
            return id;
        }
    }
    return 0;
}

static struct cluster *up(unsigned nodes, unsigned count, uint64_t seed)
{
    const struct cluster_options options = {.nodes = nodes, .founders = 3, .seed = seed};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, count);
    cluster_wait(cluster, all_settled, NULL, 60);
    return cluster;
}

/* ---- topping up ---- */

static bool is_topped_up(struct cluster *cluster, void *data)
{
    const unsigned *id = data;
    for (uint32_t p = 0; p < 4; p++) {
        if (partition_on(cluster, *id, p)->replica_count != 3) {
            return false;
        }
    }
    return all_settled(cluster, NULL);
}

/* A node goes for good while there is nobody to take its replicas; then somebody comes. */
static void test_partitions_that_lack_a_replica_get_one_when_a_node_comes(void **state)
{
    (void)state;
    struct cluster *cluster = up(4, 3, 1);
    unsigned id = 1;
    assert_int_equal(create_topic(cluster, 1, "t", 4, 3), LIGHTQ_OK);
    for (uint32_t p = 0; p < 4; p++) {
        produce_some(cluster, partition_on(cluster, 1, p)->group, 20);
    }
    cluster_kill(cluster, 3);
    cluster_run_ms(cluster, 5000);
    assert_int_equal(replace_node(cluster, 1, 3, 2), LIGHTQ_OK);
    cluster_run_ms(cluster, 5000);
    for (uint32_t p = 0; p < 4; p++) {
        assert_int_equal(partition_on(cluster, 1, p)->replica_count, 2);
    }
    uint64_t version = lq_catalog_version(catalog_on(cluster, 1));
    cluster_run_ms(cluster, 10000);
    assert_int_equal(lq_catalog_version(catalog_on(cluster, 1)), version); /* nobody is there for it */
    cluster_start(cluster, 4);

    cluster_wait(cluster, is_topped_up, &id, 60);

    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    for (uint32_t p = 0; p < 4; p++) {
        const struct lq_catalog_partition *partition = partition_on(cluster, 4, p);
        assert_non_null(lq_catalog_replica_on(partition, 4));
        assert_true(lq_catalog_replica_on(partition, 4)->incarnation > 1); /* no number is given twice */
        assert_int_equal(lq_partition_end(lq_meta_partition(member_of(cluster, 4)->meta, partition->group)), 20);
    }
    version = lq_catalog_version(catalog_on(cluster, 1));
    cluster_run_ms(cluster, 10000);
    assert_int_equal(lq_catalog_version(catalog_on(cluster, 1)), version); /* and it is enough */
    cluster_free(cluster);
}

static void test_topping_up_goes_on_with_the_next_controller(void **state)
{
    (void)state;
    struct cluster *cluster = up(5, 3, 2);
    assert_int_equal(create_topic(cluster, 1, "t", 4, 3), LIGHTQ_OK);
    unsigned lost = controller_of(cluster) % 3 + 1;
    cluster_kill(cluster, lost);
    cluster_run_ms(cluster, 5000);
    unsigned rest[2] = {lost % 3 + 1, (lost + 1) % 3 + 1};
    assert_int_equal(replace_node(cluster, rest[0], lost, rest[1]), LIGHTQ_OK);
    cluster_start(cluster, 4);
    cluster_start(cluster, 5);
    cluster_run_ms(cluster, 1200); /* somewhere in the middle of it */
    unsigned controller = controller_of(cluster);
    if (controller != 0) {
        cluster_kill(cluster, controller);
        cluster_run_ms(cluster, 5000);
        cluster_start(cluster, controller);
    }

    cluster_wait(cluster, is_topped_up, &rest[0], 90);

    for (uint32_t p = 0; p < 4; p++) {
        produce_some(cluster, partition_on(cluster, rest[0], p)->group, 3);
    }
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    cluster_free(cluster);
}

/* ---- moving off a live node ---- */

/* No verb does it yet; the catalog can say it, by replacing a node that is up (past the controller, which refuses). */
static void check_moved_off(uint64_t seed, bool leads)
{
    struct cluster *cluster = up(4, 4, seed);
    cluster_kill(cluster, 4);
    cluster_run_ms(cluster, 4000);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = partition_on(cluster, 1, 0)->group;
    produce_some(cluster, group, 200);
    cluster_start(cluster, 4);
    cluster_wait(cluster, all_settled, NULL, 60);
    cluster_run_ms(cluster, 3000);
    unsigned leader;
    assert_non_null(leader_of(cluster, group, &leader));
    unsigned from = leads ? leader : leader % 3 + 1;
    struct lq_catalog_partition *placed = NULL;
    for (unsigned id = 1; id <= 4; id++) { /* the same on all, as a command would */
        placed = (struct lq_catalog_partition *)(uintptr_t)partition_on(cluster, id, 0);
        for (unsigned i = 0; i < 3; i++) {
            if (placed->replicas[i].node == from) {
                placed->replicas[i] = (struct lq_catalog_replica){.node = 4, .incarnation = placed->next_incarnation};
            }
        }
        placed->next_incarnation++;
        member_of(cluster, id)->meta->catalog_changed = true;
    }
    for (unsigned i = 0; i < 40; i++) { /* it is written to all the while */
        produce_some(cluster, group, 5);
        cluster_run_ms(cluster, 50);
    }

    cluster_wait(cluster, all_settled, NULL, 60);

    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    assert_null(lq_store_find(member_of(cluster, from)->node->store, group)); /* its files are gone, at last */
    assert_null(lq_meta_partition(member_of(cluster, from)->meta, group));
    const struct lq_servers *servers = lq_partition_servers(leader_of(cluster, group, &leader));
    assert_int_equal(servers->count, 3);
    for (unsigned i = 0; i < servers->count; i++) {
        assert_int_not_equal(lq_replica_node(servers->at[i].id), from);
        assert_int_equal(servers->at[i].role, LQ_ROLE_VOTER);
    }
    assert_true(lq_partition_end(leader_of(cluster, group, NULL)) >= 400);
    cluster_free(cluster);
}

static void test_replica_moves_off_a_node_that_is_up(void **state)
{
    (void)state;
    check_moved_off(10, false);
}

static void test_leader_moves_off_a_node_that_is_up(void **state)
{
    (void)state;
    check_moved_off(11, true);
}

/* ---- replacing who is at work ---- */

static void wipe_and_replace(struct cluster *cluster, unsigned by, unsigned id)
{
    cluster_kill(cluster, id);
    cluster_wipe(cluster, id);
    cluster_start(cluster, id);
    assert_int_equal(replace_node(cluster, by, id, id), LIGHTQ_OK);
}

struct let_in {
    unsigned id, by;
};

static bool is_let_in(struct cluster *cluster, void *data)
{
    const struct let_in *it = data;
    return lq_catalog_node(catalog_on(cluster, it->by), it->id)->state == LQ_NODE_ACTIVE;
}

/* Who asks again, for an answer that was lost, must not throw out the node that has just come. */
static void test_replace_of_a_node_that_was_just_let_in_is_refused(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 3, 30);
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    struct let_in it = {.id = controller_of(cluster) % 3 + 1, .by = controller_of(cluster)};
    wipe_and_replace(cluster, it.by, it.id);
    cluster_wait(cluster, is_let_in, &it, 20);

    assert_int_equal(replace_node(cluster, it.by, it.id, it.id), LIGHTQ_EINVAL);

    cluster_wait(cluster, all_settled, NULL, 60);
    assert_false(member_of(cluster, it.id)->expelled);
    assert_int_equal(member_of(cluster, it.id)->identity.meta_incarnation, 2);
    cluster_free(cluster);
}

/* A node that went down a moment ago may be coming back: it is waited for, and the replacement then done. */
static void test_replace_right_after_a_node_died_is_done_when_that_is_sure(void **state)
{
    (void)state;
    struct cluster *cluster = up(4, 4, 31);
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    unsigned lost = controller_of(cluster) % 4 + 1;
    unsigned by = controller_of(cluster);
    unsigned spare = lost % 4 + 1;
    cluster_kill(cluster, lost);

    assert_int_equal(replace_node(cluster, by, lost, spare), LIGHTQ_OK);

    cluster_wait(cluster, all_settled, NULL, 60);
    assert_int_equal(lq_catalog_node(catalog_on(cluster, by), lost)->state, LQ_NODE_GONE);
    cluster_free(cluster);
}

static void check_live_node(uint64_t seed, bool controller)
{
    struct cluster *cluster = up(4, 4, seed);
    assert_int_equal(create_topic(cluster, 1, "t", 4, 3), LIGHTQ_OK);
    for (uint32_t p = 0; p < 4; p++) {
        produce_some(cluster, partition_on(cluster, 1, p)->group, 20);
    }
    cluster_run_ms(cluster, 4000);
    unsigned leader = controller_of(cluster);
    unsigned id = controller ? leader : leader % 4 + 1;
    unsigned by = id % 4 + 1;
    struct asked asked = {.request = {.verb = LQ_META_NODE_REPLACE, .old_node = id, .new_node = by}};
    ask(cluster, by, &asked);
    cluster_run_ms(cluster, 1000);
    assert_int_equal(asked.answers, 1);
    assert_int_equal(asked.status, LIGHTQ_EINVAL);
    assert_non_null(strstr(asked.request.err.text, "is up"));
    assert_non_null(strstr(asked.request.err.text, "thrown away"));
    assert_non_null(strstr(asked.request.err.text, "--yes-replace-live-node"));
    assert_null(strstr(asked.request.err.text, "would be lost"));
    assert_int_equal(replace_node(cluster, by, id, id), LIGHTQ_EINVAL);
    assert_false(member_of(cluster, id)->expelled);

    assert_int_equal(replace_live_node(cluster, by, id, by), LIGHTQ_OK);
    cluster_wait(cluster, all_settled, NULL, 60);

    assert_true(member_of(cluster, id)->expelled);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    cluster_free(cluster);
}

static void test_replace_of_a_node_that_is_up_wants_to_be_insisted_on(void **state)
{
    (void)state;
    check_live_node(32, false);
    check_live_node(33, true);
}

static void test_replace_of_a_live_node_says_what_would_be_lost(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 3, 34);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 1), LIGHTQ_OK);
    uint32_t home = partition_on(cluster, 1, 0)->replicas[0].node;
    cluster_run_ms(cluster, 4000);
    struct asked asked = {.request = {.verb = LQ_META_NODE_REPLACE, .old_node = home, .new_node = home}};
    ask(cluster, 1, &asked);

    cluster_run_ms(cluster, 1000);

    assert_int_equal(asked.status, LIGHTQ_EINVAL);
    assert_non_null(strstr(asked.request.err.text, "its 1 replicas"));
    assert_non_null(strstr(asked.request.err.text, "no other replica of 1 of them is up"));
    cluster_free(cluster);
}

/* ---- a follower that lost what it had ---- */

static void give_result(struct cluster *cluster, unsigned to, const struct lq_heartbeat_result *result)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    assert_int_equal(lq_rpc_encode_heartbeats(NULL, 0, result, 1, &head, &frame), LIGHTQ_OK);
    struct lq_slab *slab = lq_slab_new(frame.head_size + frame.body_size);
    assert_non_null(slab);
    memcpy(slab->bytes, frame.head, frame.head_size);
    memcpy(slab->bytes + frame.head_size, frame.body->bytes + frame.body_offset, frame.body_size);
    const struct lq_frame_in in = {.type = LQ_FRAME_HEARTBEATS,
                                   .slab = slab,
                                   .size = frame.head_size + frame.body_size,
                                   .head_size = frame.head_size};
    assert_int_equal(
        lq_host_link_events.receive(member_of(cluster, to)->node->host, lq_replica_node(result->from), &in), LIGHTQ_OK);
    lq_slab_unref(frame.body);
    lq_slab_unref(slab);
}

/* Its disk is put back to an earlier day behind the process's back: the store cannot know, only its leader can. */
static void test_follower_that_lost_acknowledged_entries_is_rebuilt(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 3, 20);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = partition_on(cluster, 1, 0)->group;
    produce_some(cluster, group, 100);
    cluster_run_ms(cluster, 8000); /* leadership is where it should be */
    unsigned leader;
    assert_non_null(leader_of(cluster, group, &leader));
    unsigned victim = leader % 3 + 1;
    struct lq_group *at = lq_partition_group(leader_of(cluster, group, NULL));
    lq_replica_id id = lq_replica_make(victim, 1);
    struct lq_host_counters before;
    struct lq_host_counters after;
    lq_host_count_up(member_of(cluster, leader)->node->host, &before);
    struct lq_group_status status;
    lq_group_status(at, &status);
    cluster_kill(cluster, victim);

    for (unsigned i = 0; i < 40; i++) { /* what it says after that */
        const struct lq_heartbeat_result result = {.group = group,
                                                   .from = id,
                                                   .to = status.self,
                                                   .term = status.term,
                                                   .version = LQ_RPC_VERSION_APPEND_RESULT,
                                                   .rejected = status.last,
                                                   .last_index = 2};
        give_result(cluster, leader, &result);
        cluster_run_ms(cluster, 100);
    }
    cluster_start(cluster, victim);
    cluster_run_ms(cluster, 2000);
    cluster_wait(cluster, all_settled, NULL, 60);

    lq_host_count_up(member_of(cluster, leader)->node->host, &after);
    assert_int_equal(after.peers_lost, before.peers_lost + 1);
    assert_true(lq_catalog_replica_on(partition_on(cluster, leader, 0), victim)->incarnation > 1);
    assert_true(lq_rlog_incarnation(lq_store_find(member_of(cluster, victim)->node->store, group)) > 1);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    assert_int_equal(lq_partition_end(leader_of(cluster, group, NULL)), 100);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitions_that_lack_a_replica_get_one_when_a_node_comes),
        cmocka_unit_test(test_topping_up_goes_on_with_the_next_controller),
        cmocka_unit_test(test_replica_moves_off_a_node_that_is_up),
        cmocka_unit_test(test_leader_moves_off_a_node_that_is_up),
        cmocka_unit_test(test_replace_of_a_node_that_was_just_let_in_is_refused),
        cmocka_unit_test(test_replace_right_after_a_node_died_is_done_when_that_is_sure),
        cmocka_unit_test(test_replace_of_a_node_that_is_up_wants_to_be_insisted_on),
        cmocka_unit_test(test_replace_of_a_live_node_says_what_would_be_lost),
        cmocka_unit_test(test_follower_that_lost_acknowledged_entries_is_rebuilt),
    };
    return cmocka_run_group_tests_name("meta moves", tests, NULL, NULL);
}
