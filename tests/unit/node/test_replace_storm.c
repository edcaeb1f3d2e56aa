/* test_replace_storm.c - nodes are emptied and replaced, one after the other, while others are down; those come back at
 * random times, alone or together, some with a meta group's replica that is gone; connections break and nodes crash
 * meanwhile. From seeds. In the end everybody knows everybody, and what was acknowledged is there, on equal replicas.
 */
#include "node/meta_internal.h"
#include "tests/unit/node/cluster_fixture.h"

#define NODES  6 /* 1 to 4 have replicas; 5 votes in the meta group, too; 6 only follows it */
#define ROUNDS 6

struct storm {
    struct cluster *cluster;
    uint64_t random;
    uint64_t groups[2];
    unsigned produced[2];
    unsigned replaced, rebuilt, crashes;
};

static uint64_t below(struct storm *storm, uint64_t bound)
{
    storm->random ^= storm->random >> 12;
    storm->random ^= storm->random << 25;
    storm->random ^= storm->random >> 27;
    return storm->random * UINT64_C(2685821657736338717) % bound;
}

static bool is_up(struct cluster *cluster, unsigned id)
{
    return sim_is_up(member_of(cluster, id)->node);
}

/* Every node that is up speaks freely with every other. */
static bool all_known(struct cluster *cluster, void *unused)
{
    (void)unused;
    for (unsigned id = 1; id <= NODES; id++) {
        const struct member *member = member_of(cluster, id);
        if (!is_up(cluster, id)) {
            continue;
        }
        if (!member->ready || member->meta == NULL) {
            return false;
        }
        for (unsigned i = 0; i < member->meta->peers.count; i++) {
            const struct lq_peer *peer = &member->meta->peers.at[i];
            bool there = is_up(cluster, peer->node);
            if (peer->is_later || (there && !peer->connected) || lq_host_is_confined(member->node->host, peer->node)) {
                return false;
            }
        }
    }
    return true;
}

/* The meta group has a leader whose servers are the catalog's, those that are down left out. */
static bool meta_settled(struct cluster *cluster, void *unused)
{
    (void)unused;
    for (unsigned id = 1; id <= NODES; id++) {
        struct member *member = member_of(cluster, id);
        if (member->meta == NULL || !member->meta->leading) {
            continue;
        }
        struct lq_group_status status;
        lq_group_status(lq_host_find(member->node->host, LQ_META_GROUP), &status);
        for (size_t i = 0; i < lq_catalog_node_count(lq_meta_catalog(member->meta)); i++) {
            const struct lq_catalog_node *node = lq_catalog_node_at(lq_meta_catalog(member->meta), i);
            bool found = !is_up(cluster, node->id);
            for (unsigned k = 0; k < status.replica_count; k++) {
                found |= status.replicas[k].id == lq_replica_make(node->id, node->meta_incarnation) &&
                         status.replicas[k].role == (node->meta_voter ? LQ_ROLE_VOTER : LQ_ROLE_STANDBY);
            }
            if (!found) {
                return false;
            }
        }
        return true;
    }
    return false;
}

static void settle(struct storm *storm)
{
    sim_heal(storm->cluster->sim);
    cluster_wait(storm->cluster, all_settled, NULL, 120);
    cluster_wait(storm->cluster, meta_settled, NULL, 120);
}

static void produce(struct storm *storm)
{
    unsigned p = (unsigned)below(storm, 2);
    unsigned count = 1 + (unsigned)below(storm, 8);
    produce_some(storm->cluster, storm->groups[p], count);
    storm->produced[p] += count;
}

/* What happens beside, for a while. */
static void disturb(struct storm *storm)
{
    struct cluster *cluster = storm->cluster;
    for (unsigned i = 0; i < 20; i++) {
        unsigned a = (unsigned)below(storm, NODES);
        unsigned b = (a + 1 + (unsigned)below(storm, NODES - 1)) % NODES;
        switch (below(storm, 6)) {
        case 0:
            sim_break(cluster->sim, a, b, below(storm, 2) == 0, below(storm, 500000));
            break;
        case 1:
            if (is_up(cluster, a + 1)) {
                sim_crash(member_of(cluster, a + 1)->node, (enum lq_io_mem_crash_mode)below(storm, 3));
                cluster_run_ms(cluster, below(storm, 300));
                cluster_start(cluster, a + 1);
                storm->crashes++;
            }
            break;
        default:
            break;
        }
        cluster_run_ms(cluster, below(storm, 400));
    }
}

static void replace(struct storm *storm, unsigned id)
{
    struct cluster *cluster = storm->cluster;
    struct asked asked = {
        .request = {.verb = LQ_META_NODE_REPLACE, .old_node = id, .new_node = id, .timeout_ms = 30000}};
    unsigned by = id % 4 + 1;
    cluster_kill(cluster, id);
    cluster_wipe(cluster, id);
    if (below(storm, 2) == 0) {
        cluster_start(cluster, id); /* it waits for the operator */
    }
    cluster_run_ms(cluster, 4000);
    ask(cluster, by, &asked);
    for (unsigned i = 0; i < 400 && asked.answers == 0; i++) {
        cluster_run_ms(cluster, 100);
    }
    assert_int_equal(asked.answers, 1);
    assert_int_equal(asked.status, LIGHTQ_OK);
    cluster_start(cluster, id);
    storm->replaced++;
}

/* It comes back without its replica of the meta group: all it has is whom it founded the cluster with, if that. */
static void lose_meta_replica(struct storm *storm, unsigned id)
{
    struct member *member = member_of(storm->cluster, id);
    char folder[24];
    (void)snprintf(folder, sizeof folder, "g0-%u", member->identity.meta_incarnation);
    storm->rebuilt += lq_io_mem_remove(member->node->disk, folder) == LIGHTQ_OK;
}

static void round_of_replacing(struct storm *storm)
{
    struct cluster *cluster = storm->cluster;
    bool five_too = below(storm, 3) == 0;
    cluster_kill(cluster, 6);
    if (five_too) {
        cluster_kill(cluster, 5);
    }
    /* While a voter of the meta group is away nobody becomes one: a second loss would leave no majority. */
    unsigned count = five_too ? 1 : 1 + (unsigned)below(storm, 4);
    unsigned first = (unsigned)below(storm, 4);
    for (unsigned i = 0; i < count; i++) {
        replace(storm, (first + i) % 4 + 1);
        if (!five_too) {
            settle(storm);
            disturb(storm);
            settle(storm);
        }
        produce(storm);
    }
    cluster_kill(cluster, 6); /* disturbing may have started it */
    if (below(storm, 3) == 0) {
        lose_meta_replica(storm, 6);
    }
    cluster_start(cluster, 6);
    if (five_too) {
        cluster_run_ms(cluster, below(storm, 4000));
        cluster_start(cluster, 5);
    }
    disturb(storm);
    settle(storm);
    cluster_wait(cluster, all_known, NULL, 60);
    produce(storm);
}

static void run_storm(uint64_t seed)
{
    const struct cluster_options options = {
        .nodes = NODES, .founders = 3, .seed = seed, .segment_bytes = seed % 2 == 0 ? 64 * 1024 : 1024 * 1024};
    struct storm storm = {.cluster = cluster_new(&options), .random = seed * 7919 + 1};
    struct cluster *cluster = storm.cluster;
    struct equal equal = {.name = "t", .replicas = 3};
    print_message("seed %llu: ", (unsigned long long)seed);
    cluster_up(cluster, 4);
    settle(&storm);
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    for (unsigned p = 0; p < 2; p++) {
        storm.groups[p] = lq_catalog_topic(lq_meta_catalog(member_of(cluster, 1)->meta), "t")->partitions[p].group;
    }
    cluster_start(cluster, 5); /* the fifth that joins votes, the sixth does not */
    settle(&storm);
    cluster_start(cluster, 6);
    settle(&storm);

    for (unsigned i = 0; i < ROUNDS; i++) {
        round_of_replacing(&storm);
    }

    cluster_wait(cluster, replicas_equal, &equal, 60);
    for (unsigned p = 0; p < 2; p++) { /* what was sent again by produce_some may be there twice */
        assert_true(lq_partition_end(leader_of(cluster, storm.groups[p], NULL)) >= storm.produced[p]);
    }
    print_message("%u replaced, %u meta replicas rebuilt, %u crashes\n", storm.replaced, storm.rebuilt, storm.crashes);
    cluster_free(cluster);
}

/* Case F7: all nodes are replaced one by one. LQ_STORM_FROM=n runs other seeds, for a search. */
static void test_storm_of_replacing_while_others_are_down(void **state)
{
    const char *from = getenv("LQ_STORM_FROM");
    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        run_storm((from == NULL ? 0 : strtoull(from, NULL, 10) * 100) + 1 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storm_of_replacing_while_others_are_down),
    };
    return cmocka_run_group_tests_name("replace storm", tests, NULL, NULL);
}
