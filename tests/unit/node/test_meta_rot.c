/* tests/unit/node/test_meta_rot.c - rot in the files of replicas that work: it is found by the search, and the replicas
 * are made anew, one after the other, and never while another is away. */
#include "cluster_fixture.h"

#include "node/meta_internal.h"

static struct cluster *up3(uint64_t seed)
{
    const struct cluster_options options = {
        .nodes = 3, .founders = 3, .seed = seed, .segment_bytes = 4096, .scrub = true};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, 3);
    return cluster;
}

static const struct lq_catalog *catalog_on(struct cluster *cluster, unsigned id)
{
    return lq_meta_catalog(member_of(cluster, id)->meta);
}

struct oldest {
    const char *suffix;
    char name[40];
};

static void on_file(void *data, const char *name, bool is_dir)
{
    struct oldest *oldest = data;
    if (!is_dir && strstr(name, oldest->suffix) != NULL &&
        (oldest->name[0] == '\0' || strcmp(name, oldest->name) < 0)) {
        (void)snprintf(oldest->name, sizeof oldest->name, "%s", name);
    }
}

/* A bit of the oldest sealed segment of a replica, under the running node; the meta group trims all it can: there, of
 * the checkpoint that its log begins with. */
static void rot(struct cluster *cluster, unsigned id, uint64_t group, uint64_t at)
{
    struct lq_io_mem *disk = member_of(cluster, id)->node->disk;
    bool meta = group == LQ_META_GROUP;
    struct oldest oldest = {.suffix = meta ? ".ckpt" : ".idx", .name = ""};
    struct lq_err err;
    char folder[32];
    char path[128];
    (void)snprintf(folder, sizeof folder, "g%llu-1", (unsigned long long)group);
    assert_int_equal(lq_io_mem_io(disk)->ops->list(lq_io_mem_io(disk), folder, on_file, &oldest, &err), LIGHTQ_OK);
    assert_true(oldest.name[0] != '\0');
    (void)snprintf(path, sizeof path, "%s/%.20s%s", folder, oldest.name, meta ? ".ckpt" : ".log");
    assert_int_equal(lq_io_mem_flip(disk, path, at, 2), LIGHTQ_OK);
}

static uint64_t filled_topic(struct cluster *cluster)
{
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = lq_catalog_topic_at(catalog_on(cluster, 1), 0)->partitions[0].group;
    produce_some(cluster, group, 100);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    return group;
}

static uint32_t incarnation_of(struct cluster *cluster, uint64_t group, unsigned id, unsigned seen_by)
{
    const struct lq_catalog *catalog = catalog_on(cluster, seen_by);
    if (group == LQ_META_GROUP) {
        const struct lq_catalog_node *node = lq_catalog_node(catalog, id); /* none: the catalog is read anew */
        return node == NULL ? 0 : node->meta_incarnation;
    }
    const struct lq_catalog_partition *partition = lq_catalog_partition(catalog, group);
    return partition == NULL ? 0 : lq_catalog_replica_on(partition, id)->incarnation;
}

struct wanted {
    uint64_t group;
    unsigned node;
};

static bool is_made_anew(struct cluster *cluster, void *data)
{
    const struct wanted *wanted = data;
    return incarnation_of(cluster, wanted->group, wanted->node, wanted->node) > 1 && all_settled(cluster, NULL);
}

static bool says_it_is_damaged(struct cluster *cluster, void *data)
{
    const struct wanted *wanted = data;
    return lq_meta_replica_text(member_of(cluster, wanted->node)->meta, wanted->group)[0] != '\0';
}

static unsigned leads(struct cluster *cluster, uint64_t group)
{
    for (unsigned id = 1; id <= 3; id++) {
        struct member *member = member_of(cluster, id);
        if (member->meta != NULL && lq_meta_leader(member->meta, group).node == id) {
            return id;
        }
    }
    return 0;
}

static void check_whole(struct cluster *cluster, uint64_t group, uint64_t count)
{
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 30);
    for (unsigned id = 1; id <= 3; id++) {
        assert_int_equal(lq_partition_end(lq_meta_partition(member_of(cluster, id)->meta, group)), count);
    }
}

static void test_rot_in_a_follower_that_works_it_is_made_anew(void **state)
{
    (void)state;
    struct cluster *cluster = up3(31);
    uint64_t group = filled_topic(cluster);
    unsigned leader = leads(cluster, group);
    struct wanted wanted = {.group = group, .node = leader % 3 + 1};

    rot(cluster, wanted.node, group, 2000);

    cluster_wait(cluster, is_made_anew, &wanted, 60);
    assert_int_equal(incarnation_of(cluster, group, leader, leader), 1);
    check_whole(cluster, group, 100);
    cluster_free(cluster);
}

static void test_rot_in_the_leader_it_hands_over_and_is_made_anew(void **state)
{
    (void)state;
    struct cluster *cluster = up3(32);
    uint64_t group = filled_topic(cluster);
    struct wanted wanted = {.group = group, .node = leads(cluster, group)};

    rot(cluster, wanted.node, group, 2000);

    cluster_wait(cluster, is_made_anew, &wanted, 60);
    check_whole(cluster, group, 100);
    cluster_free(cluster);
}

/* C7: each entry has a good copy somewhere, and no replica can be spared until another is whole again. */
static void test_rot_in_every_replica_at_another_place_loses_nothing(void **state)
{
    (void)state;
    struct cluster *cluster = up3(33);
    uint64_t group = filled_topic(cluster);
    for (unsigned id = 1; id <= 3; id++) {
        rot(cluster, id, group, 800 * id);
    }

    for (unsigned id = 1; id <= 3; id++) {
        struct wanted wanted = {.group = group, .node = id};
        cluster_wait(cluster, is_made_anew, &wanted, 120);
    }

    check_whole(cluster, group, 100);
    cluster_free(cluster);
}

/* As the leader sees it; 0: none leads here. */
static unsigned voters_of(struct cluster *cluster, uint64_t group)
{
    unsigned id = 0;
    struct lq_partition *partition = leader_of(cluster, group, &id);
    struct lq_group_status status;
    unsigned voters = 0;
    if (partition == NULL) {
        return 0;
    }
    lq_group_status(lq_partition_group(partition), &status);
    for (unsigned i = 0; i < status.replica_count; i++) {
        voters += status.replicas[i].role == LQ_ROLE_VOTER;
    }
    return voters;
}

/* The second is not taken out before the first one's successor votes. */
static void test_rot_in_two_followers_they_are_made_anew_in_turn(void **state)
{
    (void)state;
    struct cluster *cluster = up3(37);
    uint64_t group = filled_topic(cluster);
    unsigned leader = leads(cluster, group);
    struct wanted one = {.group = group, .node = leader % 3 + 1};
    struct wanted two = {.group = group, .node = 6 - leader - one.node};
    rot(cluster, one.node, group, 800);
    rot(cluster, two.node, group, 2000);

    for (unsigned i = 0; i < 3000 && !(is_made_anew(cluster, &one) && is_made_anew(cluster, &two)); i++) {
        cluster_run_ms(cluster, 20);
        unsigned voters = voters_of(cluster, group);
        assert_true(voters == 0 || voters >= 2);
    }

    assert_true(is_made_anew(cluster, &one) && is_made_anew(cluster, &two));
    check_whole(cluster, group, 100);
    cluster_free(cluster);
}

/* With one node away the other two are needed, rot or not. */
static void test_rot_while_another_node_is_away_waits_for_it(void **state)
{
    (void)state;
    struct cluster *cluster = up3(34);
    uint64_t group = filled_topic(cluster);
    unsigned leader = leads(cluster, group);
    struct wanted wanted = {.group = group, .node = leader % 3 + 1};
    unsigned away = 6 - leader - wanted.node;
    cluster_kill(cluster, away);
    rot(cluster, wanted.node, group, 2000);
    cluster_wait(cluster, says_it_is_damaged, &wanted, 30);

    cluster_run_ms(cluster, 20000);

    char folder[32];
    (void)snprintf(folder, sizeof folder, "g%llu-1", (unsigned long long)group);
    assert_true(lq_io_mem_exists(member_of(cluster, wanted.node)->node->disk, folder));
    produce_some(cluster, group, 20); /* it acknowledges still */
    cluster_start(cluster, away);
    cluster_wait(cluster, is_made_anew, &wanted, 60);
    check_whole(cluster, group, 120);
    cluster_free(cluster);
}

/* Topics until the meta group has sealed segments. */
static void fill_meta(struct cluster *cluster)
{
    for (unsigned i = 0; i < 40; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "m%u", i);
        assert_int_equal(create_topic(cluster, 1, name, 1, 1), LIGHTQ_OK);
    }
    cluster_run_ms(cluster, 1000);
}

static void test_rot_in_the_meta_group_it_is_made_anew(void **state)
{
    (void)state;
    struct cluster *cluster = up3(35);
    fill_meta(cluster);
    unsigned controller = leads(cluster, LQ_META_GROUP);
    struct wanted wanted = {.group = LQ_META_GROUP, .node = controller % 3 + 1};
    unsigned other = 6 - controller - wanted.node;

    rot(cluster, wanted.node, LQ_META_GROUP, 200);
    cluster_wait(cluster, is_made_anew, &wanted, 60);
    wanted.node = controller;
    rot(cluster, wanted.node, LQ_META_GROUP, 200);
    cluster_wait(cluster, is_made_anew, &wanted, 60);

    assert_int_equal(incarnation_of(cluster, LQ_META_GROUP, other, other), 1);
    for (unsigned id = 1; id <= 3; id++) {
        assert_int_equal(lq_catalog_topic_count(catalog_on(cluster, id)), 40);
    }
    cluster_free(cluster);
}

static void test_rot_in_the_meta_group_while_another_node_is_away_waits_for_it(void **state)
{
    (void)state;
    struct cluster *cluster = up3(36);
    fill_meta(cluster);
    unsigned controller = leads(cluster, LQ_META_GROUP);
    struct wanted wanted = {.group = LQ_META_GROUP, .node = controller % 3 + 1};
    unsigned away = 6 - controller - wanted.node;
    cluster_kill(cluster, away);
    rot(cluster, wanted.node, LQ_META_GROUP, 200);

    cluster_run_ms(cluster, 20000);

    assert_int_equal(leads(cluster, LQ_META_GROUP), controller); /* it takes both */
    assert_int_equal(incarnation_of(cluster, LQ_META_GROUP, wanted.node, controller), 1);
    cluster_start(cluster, away);
    cluster_wait(cluster, is_made_anew, &wanted, 60);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rot_in_a_follower_that_works_it_is_made_anew),
        cmocka_unit_test(test_rot_in_the_leader_it_hands_over_and_is_made_anew),
        cmocka_unit_test(test_rot_in_every_replica_at_another_place_loses_nothing),
        cmocka_unit_test(test_rot_in_two_followers_they_are_made_anew_in_turn),
        cmocka_unit_test(test_rot_while_another_node_is_away_waits_for_it),
        cmocka_unit_test(test_rot_in_the_meta_group_it_is_made_anew),
        cmocka_unit_test(test_rot_in_the_meta_group_while_another_node_is_away_waits_for_it),
    };
    return cmocka_run_group_tests_name("meta rot", tests, NULL, NULL);
}
