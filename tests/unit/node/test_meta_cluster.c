/* test_meta_cluster.c - three nodes and more as a cluster: topics come and go, nodes die and come back, directories are
 * emptied and damaged, and what was acknowledged is on every replica. */
#include "node/meta_internal.h"
#include "tests/unit/node/cluster_fixture.h"

static struct cluster *up3(uint64_t seed)
{
    const struct cluster_options options = {.nodes = 4, .founders = 3, .seed = seed};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, 3);
    return cluster;
}

static unsigned controller_of(struct cluster *cluster)
{
    for (unsigned id = 1; id <= MEMBERS_MAX; id++) {
        struct member *member = member_of(cluster, id);
        if (member->meta != NULL && lq_meta_leader(member->meta, LQ_META_GROUP).node == id) {
            return id;
        }
    }
    return 0;
}

static unsigned other_than(unsigned id)
{
    return id % 3 + 1;
}

static const struct lq_catalog *catalog_on(struct cluster *cluster, unsigned id)
{
    return lq_meta_catalog(member_of(cluster, id)->meta);
}

static uint64_t group_of(struct cluster *cluster, unsigned id, const char *name, unsigned partition)
{
    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_on(cluster, id), name);
    assert_non_null(topic);
    return topic->partitions[partition].group;
}

static void test_cluster_begins_with_its_founders(void **state)
{
    (void)state;
    struct cluster *cluster = up3(1);

    for (unsigned id = 1; id <= 3; id++) {
        const struct lq_catalog *catalog = catalog_on(cluster, id);
        assert_int_equal(lq_catalog_node_count(catalog), 3);
        assert_int_equal(lq_meta_leader(member_of(cluster, id)->meta, LQ_META_GROUP).node, controller_of(cluster));
    }
    cluster_run_ms(cluster, 3000);
    for (unsigned id = 1; id <= 3; id++) { /* each start is told to the catalog, once */
        assert_int_equal(lq_catalog_node(catalog_on(cluster, 1), id)->boot, 1);
        struct lq_meta_node_load load;
        lq_meta_node_load(member_of(cluster, 1)->meta, id, &load);
        assert_true(load.up && load.total_bytes > 0);
    }
    uint64_t version = lq_catalog_version(catalog_on(cluster, 1));
    cluster_run_ms(cluster, 20000);
    assert_int_equal(lq_catalog_version(catalog_on(cluster, 1)), version); /* idle: nothing is written (H15) */
    cluster_free(cluster);
}

static void test_create_answers_when_every_partition_has_a_leader(void **state)
{
    (void)state;
    struct cluster *cluster = up3(2);
    unsigned id = other_than(controller_of(cluster)); /* it is forwarded */

    assert_int_equal(create_topic(cluster, id, "orders", 8, 3), LIGHTQ_OK);

    for (uint32_t p = 0; p < 8; p++) {
        assert_int_not_equal(lq_meta_leader(member_of(cluster, id)->meta, group_of(cluster, id, "orders", p)).node, 0);
        produce_some(cluster, group_of(cluster, id, "orders", p), 5);
    }
    struct equal equal = {.name = "orders", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 10);
    struct lq_partition_status status;
    lq_partition_status(leader_of(cluster, group_of(cluster, id, "orders", 3), NULL), &status);
    assert_int_equal(status.end_offset, 5);
    assert_int_equal(status.number, 3);
    assert_true(lq_id_equal(&status.topic, &lq_catalog_topic(catalog_on(cluster, id), "orders")->uuid));
    cluster_free(cluster);
}

/* What wants a turn keeps its loop from sleeping. */
static void test_idle_cluster_wants_no_turns(void **state)
{
    (void)state;
    struct cluster *cluster = up3(7);
    assert_int_equal(create_topic(cluster, 1, "idle", 6, 3), LIGHTQ_OK);
    cluster_run_ms(cluster, 3000);
    unsigned wanted = 0;

    for (unsigned i = 0; i < 300; i++) {
        cluster_run_ms(cluster, 10);
        for (unsigned id = 1; id <= 3; id++) {
            lq_meta_turn(member_of(cluster, id)->meta);
            wanted += lq_meta_needs_turn(member_of(cluster, id)->meta);
        }
    }

    assert_int_equal(wanted, 0);
    cluster_free(cluster);
}

static void test_create_three_hundred_partitions_is_quick(void **state)
{
    (void)state;
    struct cluster *cluster = up3(28);
    uint64_t begin = sim_now_us(cluster->sim);

    assert_int_equal(create_topic(cluster, 2, "wide", 300, 3), LIGHTQ_OK);

    assert_true(sim_now_us(cluster->sim) - begin < 6 * SECOND_US); /* simulated */
    cluster_wait(cluster, all_settled, NULL, 10);
    struct lq_meta_counts counts;
    lq_meta_count(member_of(cluster, 1)->meta, &counts);
    assert_int_equal(counts.partitions, 300);
    assert_int_equal(counts.leaderless, 0);
    assert_int_equal(counts.replicas, 300);
    assert_int_equal(counts.replicas_stopped, 0);
    cluster_free(cluster);
}

static void test_create_refusals_are_named(void **state)
{
    (void)state;
    struct cluster *cluster = up3(3);
    assert_int_equal(create_topic(cluster, 1, "a", 1, 0), LIGHTQ_OK);
    assert_int_equal(lq_catalog_topic(catalog_on(cluster, 1), "a")->replicas, 3); /* of three nodes */

    assert_int_equal(create_topic(cluster, 2, "a", 1, 3), LIGHTQ_EEXISTS);
    assert_int_equal(create_topic(cluster, 3, "b", 1, 2), LIGHTQ_EINVAL);
    assert_int_equal(create_topic(cluster, 3, "b", 1, 5), LIGHTQ_EUNAVAILABLE);
    struct lq_meta_request bad = {.verb = LQ_META_TOPIC_CREATE, .name = "no/slash"};
    assert_int_equal(lq_meta_submit(member_of(cluster, 1)->meta, &bad), LIGHTQ_ENAME);
    bad.name = NULL;
    assert_int_equal(lq_meta_submit(member_of(cluster, 1)->meta, &bad), LIGHTQ_EINVAL);
    assert_int_equal(delete_topic(cluster, 2, "nothing"), LIGHTQ_ENOTFOUND);
    assert_int_equal(replace_node(cluster, 2, 3, 3), LIGHTQ_EINVAL); /* it is alive */
    assert_int_equal(replace_node(cluster, 2, 9, 9), LIGHTQ_ENOTFOUND);
    cluster_free(cluster);
}

static void count_leads(struct cluster *cluster, const char *name, unsigned leads[MEMBERS_MAX + 1])
{
    memset(leads, 0, (MEMBERS_MAX + 1) * sizeof leads[0]);
    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_on(cluster, 1), name);
    for (uint32_t p = 0; p < topic->partition_count; p++) {
        leads[lq_meta_leader(member_of(cluster, 1)->meta, topic->partitions[p].group).node]++;
    }
}

static bool leads_are_even(struct cluster *cluster, void *unused)
{
    unsigned leads[MEMBERS_MAX + 1];
    (void)unused;
    count_leads(cluster, "t", leads);
    return leads[1] == 4 && leads[2] == 4 && leads[3] == 4;
}

static void test_leadership_goes_where_the_catalog_says(void **state)
{
    (void)state;
    struct cluster *cluster = up3(4);
    assert_int_equal(create_topic(cluster, 1, "t", 12, 3), LIGHTQ_OK);
    cluster_wait(cluster, leads_are_even, NULL, 20);

    cluster_kill(cluster, 3);
    cluster_run_ms(cluster, 5000);
    unsigned leads[MEMBERS_MAX + 1];
    count_leads(cluster, "t", leads);
    assert_int_equal(leads[3], 0);
    assert_int_equal(leads[1] + leads[2], 12);
    cluster_start(cluster, 3);

    cluster_wait(cluster, leads_are_even, NULL, 30); /* and they go back, when it is fit again */
    cluster_free(cluster);
}

static bool files_of(struct cluster *cluster, unsigned id, uint64_t group)
{
    return lq_store_find(member_of(cluster, id)->node->store, group) != NULL;
}

static bool deleted_everywhere(struct cluster *cluster, void *data)
{
    const uint64_t *group = data;
    return !files_of(cluster, 1, *group) && !files_of(cluster, 2, *group) && !files_of(cluster, 3, *group);
}

/* A leader that did not know of it yet would go on acknowledging into what is gone. */
static void test_delete_is_answered_when_every_node_has_it(void **state)
{
    (void)state;
    struct cluster *cluster = up3(21);
    for (unsigned round = 0; round < 10; round++) {
        assert_int_equal(create_topic(cluster, 1 + round % 3, "brief", 3, 3), LIGHTQ_OK);

        assert_int_equal(delete_topic(cluster, 1 + round % 3, "brief"), LIGHTQ_OK);

        for (unsigned id = 1; id <= 3; id++) {
            assert_null(lq_catalog_topic(catalog_on(cluster, id), "brief"));
        }
    }
    cluster_free(cluster);
}

static void test_delete_removes_replicas_also_of_who_was_away(void **state)
{
    (void)state;
    struct cluster *cluster = up3(5);
    assert_int_equal(create_topic(cluster, 1, "gone", 2, 3), LIGHTQ_OK);
    assert_int_equal(create_topic(cluster, 1, "kept", 1, 3), LIGHTQ_OK);
    uint64_t gone = group_of(cluster, 1, "gone", 0);
    uint64_t kept = group_of(cluster, 1, "kept", 0);
    produce_some(cluster, gone, 3);
    produce_some(cluster, kept, 3);
    cluster_kill(cluster, 3);

    assert_int_equal(delete_topic(cluster, 2, "gone"), LIGHTQ_OK);
    cluster_run_ms(cluster, 1000);
    assert_false(files_of(cluster, 1, gone));
    assert_int_equal(create_topic(cluster, 1, "gone", 1, 3), LIGHTQ_OK); /* another topic of that name */
    assert_true(group_of(cluster, 1, "gone", 0) > kept);
    cluster_start(cluster, 3);
    cluster_wait(cluster, deleted_everywhere, &gone, 20);
    cluster_wait(cluster, all_settled, NULL, 20);

    assert_true(files_of(cluster, 3, kept));
    struct equal equal = {.name = "kept", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 10);
    equal.name = "gone";
    cluster_wait(cluster, replicas_equal, &equal, 10);
    cluster_free(cluster);
}

/* Case B11: after kills of all nodes a topic is forgotten. */
static void test_restart_of_all_keeps_everything(void **state)
{
    (void)state;
    struct cluster *cluster = up3(6);
    assert_int_equal(create_topic(cluster, 1, "t", 3, 3), LIGHTQ_OK);
    for (uint32_t p = 0; p < 3; p++) {
        produce_some(cluster, group_of(cluster, 1, "t", p), 30);
    }
    uint64_t group = group_of(cluster, 1, "t", 1);

    for (unsigned id = 1; id <= 3; id++) {
        cluster_kill(cluster, id);
    }
    cluster_up(cluster, 3);
    cluster_wait(cluster, all_settled, NULL, 20);

    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 10);
    assert_int_equal(lq_partition_end(leader_of(cluster, group, NULL)), 30);
    produce_some(cluster, group, 5);
    assert_int_equal(lq_partition_end(leader_of(cluster, group, NULL)), 35);
    cluster_free(cluster);
}

static void test_controller_dies_while_topics_are_created(void **state)
{
    (void)state;
    struct cluster *cluster = up3(7);
    struct asked asked[10];
    unsigned controller = controller_of(cluster);
    unsigned id = other_than(controller);
    char names[10][8];

    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%u", i);
        ask_create(cluster, id, &asked[i], names[i], 2, 3);
    }
    cluster_run_ms(cluster, 12);
    cluster_kill(cluster, controller);
    cluster_run_ms(cluster, 15000);
    cluster_start(cluster, controller);
    cluster_wait(cluster, all_settled, NULL, 20);

    for (unsigned i = 0; i < 10; i++) { /* asked again of the next controller: the same topic, once */
        assert_int_equal(asked[i].answers, 1);
        assert_int_equal(asked[i].status, LIGHTQ_OK);
        const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_on(cluster, id), names[i]);
        assert_non_null(topic);
        assert_true(lq_id_equal(&topic->uuid, &asked[i].request.topic));
        assert_int_equal(asked[i].request.count, 2);
    }
    assert_int_equal(lq_catalog_partition_count(catalog_on(cluster, id)), 20);
    cluster_free(cluster);
}

static void test_create_without_majority_times_out_and_says_why(void **state)
{
    (void)state;
    struct cluster *cluster = up3(8);
    struct asked asked;
    cluster_kill(cluster, 2);
    cluster_kill(cluster, 3);
    cluster_run_ms(cluster, 5000);

    ask_create(cluster, 1, &asked, "t", 1, 3);
    cluster_run_ms(cluster, 25000);

    assert_int_equal(asked.answers, 1);
    assert_int_equal(asked.status, LIGHTQ_ETIMEDOUT);
    assert_non_null(strstr(asked.request.err.text, "majority"));
    cluster_free(cluster);
}

/* Cases F1, F2: the same id comes back with an empty disk. */
static void test_wiped_node_is_refused_until_it_is_replaced(void **state)
{
    (void)state;
    struct cluster *cluster = up3(9);
    assert_int_equal(create_topic(cluster, 1, "t", 4, 3), LIGHTQ_OK);
    for (uint32_t p = 0; p < 4; p++) {
        produce_some(cluster, group_of(cluster, 1, "t", p), 40);
    }
    cluster_kill(cluster, 2);
    cluster_wipe(cluster, 2);
    cluster_start(cluster, 2);
    cluster_run_ms(cluster, 8000);
    struct member *wiped = member_of(cluster, 2);
    assert_int_equal(wiped->identity.state, LQ_IDENTITY_BLANK);
    assert_int_equal(wiped->waiting.status, LIGHTQ_EIDENTITY);
    assert_non_null(strstr(wiped->waiting.text, "lightq node replace 2 2"));

    assert_int_equal(replace_node(cluster, 1, 2, 2), LIGHTQ_OK);
    cluster_wait(cluster, all_settled, NULL, 60);

    assert_int_equal(wiped->identity.state, LQ_IDENTITY_MEMBER);
    assert_int_equal(wiped->identity.meta_incarnation, 2);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    for (uint32_t p = 0; p < 4; p++) {
        const struct lq_catalog_partition *partition =
            lq_catalog_partition(catalog_on(cluster, 1), group_of(cluster, 1, "t", p));
        assert_int_equal(lq_catalog_replica_on(partition, 2)->incarnation, 2);
        produce_some(cluster, partition->group, 1);
    }
    cluster_kill(cluster, 1); /* what was rebuilt counts */
    cluster_run_ms(cluster, 5000);
    produce_some(cluster, group_of(cluster, 2, "t", 0), 5);
    assert_int_equal(lq_partition_end(leader_of(cluster, group_of(cluster, 2, "t", 0), NULL)), 46);
    cluster_free(cluster);
}

/* Entries that change nothing, so that the catalog's history does not travel in one frame. */
static void lengthen_history(struct cluster *cluster, unsigned count)
{
    struct lq_meta *meta = member_of(cluster, controller_of(cluster))->meta;
    const struct lq_catalog_command command = {.type = LQ_CATALOG_DELETE, .drop = {.uuid = {.bytes = {0xdd}}}};
    while (count > 0) {
        uint64_t index;
        if (lq_meta_propose(meta, &command, &index) == LIGHTQ_OK) {
            count--;
        } else {
            cluster_run_ms(cluster, 1);
        }
    }
    cluster_run_ms(cluster, 1000);
}

/* An empty directory under an old id reads the catalog's history from the beginning: that names replicas of the
 * directory before it. Such a replica has forgotten what it acknowledged, and must not come back to vote. */
static void test_replaced_node_makes_no_replica_of_its_predecessor(void **state)
{
    (void)state;
    const struct cluster_options options = {.nodes = 4, .founders = 3, .seed = 10, .segment_bytes = 16 << 20};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, 3);
    unsigned lost = other_than(controller_of(cluster));
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    produce_some(cluster, group, 10);
    cluster_kill(cluster, lost);
    cluster_wipe(cluster, lost);
    lengthen_history(cluster, 24000);
    cluster_run_ms(cluster, 5000);
    assert_int_equal(replace_node(cluster, controller_of(cluster), lost, lost), LIGHTQ_OK);
    cluster_start(cluster, lost);
    struct member *member = member_of(cluster, lost);
    const struct lq_catalog_node *node = NULL;
    uint64_t end_us = sim_now_us(cluster->sim) + 30 * SECOND_US;

    while (node == NULL || lq_catalog_topic(catalog_on(cluster, lost), "t") == NULL) {
        sim_run(cluster->sim, 5);
        node = member->meta == NULL ? NULL : lq_catalog_node(catalog_on(cluster, lost), lost);
        assert_true(sim_now_us(cluster->sim) < end_us);
    }
    assert_false(lq_id_equal(&node->uuid, &member->identity.uuid)); /* it knows the past, and not the present */
    for (unsigned id = 1; id <= 3; id++) {
        sim_cut(cluster->sim, id - 1, lost - 1, true);
    }
    cluster_run_ms(cluster, 500);
    assert_null(lq_store_find(member->node->store, group));
    struct lq_err err; /* nor does it refuse a node that may have been replaced since */
    const struct lq_hello renewed = {
        .node = other_than(lost), .uuid = {.bytes = {9, 0xbb}}, .cluster = {.bytes = {0xc1, 2, 3}}};
    assert_int_equal(lq_meta_check_peer(member->meta, &renewed, &err), LIGHTQ_OK);
    sim_heal(cluster->sim);

    cluster_wait(cluster, all_settled, NULL, 60);
    assert_int_equal(lq_meta_check_peer(member->meta, &renewed, &err), LIGHTQ_EIDENTITY);
    assert_int_equal(lq_rlog_incarnation(lq_store_find(member->node->store, group)), 2);
    cluster_free(cluster);
}

static void test_check_peer_knows_old_empty_and_forged_directories(void **state)
{
    (void)state;
    struct cluster *cluster = up3(10);
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    cluster_kill(cluster, 3);
    cluster_run_ms(cluster, 5000);
    assert_int_equal(replace_node(cluster, 1, 3, 3), LIGHTQ_OK);

    struct lq_err err;
    const struct lq_hello old = {.node = 3, .uuid = {.bytes = {3, 0xaa}}, .cluster = {.bytes = {0xc1, 2, 3}}};
    const struct lq_hello empty = {.node = 3, .uuid = {.bytes = {3, 0xbb}}};
    const struct lq_hello stranger = {.node = 9, .uuid = {.bytes = {9}}, .cluster = {.bytes = {0xc1, 2, 3}}};
    const struct lq_hello forged = {.node = 2, .uuid = {.bytes = {3, 0xbb}}};
    struct lq_meta *meta = member_of(cluster, 1)->meta;
    assert_int_equal(lq_meta_check_peer(meta, &old, &err), LIGHTQ_EIDENTITY);
    assert_int_equal(lq_meta_check_peer(meta, &empty, &err), LIGHTQ_OK);
    assert_int_equal(lq_meta_check_peer(meta, &stranger, &err), LIGHTQ_EIDENTITY);
    assert_int_equal(lq_meta_check_peer(meta, &forged, &err), LIGHTQ_EIDENTITY);
    cluster_free(cluster);
}

static void on_file(void *data, const char *name, bool is_dir)
{
    char *newest = data;
    if (!is_dir && strstr(name, ".log") != NULL && strcmp(name, newest) > 0) {
        (void)snprintf(newest, 40, "%s", name);
    }
}

/* Bits of what is durable long since, in the segment that is read at start; or all of it. */
static void damage(struct cluster *cluster, unsigned id, const char *folder, bool lose)
{
    struct lq_io_mem *disk = member_of(cluster, id)->node->disk;
    struct lq_err err;
    char newest[40] = "";
    char path[128];
    if (lose) {
        assert_int_equal(lq_io_mem_remove(disk, folder), LIGHTQ_OK);
        return;
    }
    assert_int_equal(lq_io_mem_io(disk)->ops->list(lq_io_mem_io(disk), folder, on_file, newest, &err), LIGHTQ_OK);
    (void)snprintf(path, sizeof path, "%s/%s", folder, newest);
    for (unsigned at = 0; at < 8; at++) {
        assert_int_equal(lq_io_mem_flip(disk, path, 300 + 40 * at, 2), LIGHTQ_OK);
    }
}

static void check_rebuilt(uint64_t seed, bool lose)
{
    struct cluster *cluster = up3(seed);
    char folder[32];
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    produce_some(cluster, group, 1000); /* several segments */
    produce_some(cluster, group_of(cluster, 1, "t", 1), 10);
    cluster_kill(cluster, 2);
    (void)snprintf(folder, sizeof folder, "g%llu-1", (unsigned long long)group);
    damage(cluster, 2, folder, lose);
    cluster_start(cluster, 2);

    cluster_wait(cluster, all_settled, NULL, 60);

    const struct lq_catalog_partition *partition = lq_catalog_partition(catalog_on(cluster, 2), group);
    assert_true(lq_catalog_replica_on(partition, 2)->incarnation > 1);
    assert_int_equal(lq_catalog_replica_on(partition, 1)->incarnation, 1);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    assert_int_equal(lq_partition_end(lq_meta_partition(member_of(cluster, 2)->meta, group)), 1000);
    cluster_free(cluster);
}

static void test_damaged_replica_is_rebuilt_by_itself(void **state)
{
    (void)state;
    check_rebuilt(11, false);
}

static void test_lost_replica_is_rebuilt_and_never_new(void **state)
{
    (void)state;
    check_rebuilt(12, true); /* F3 */
}

static void test_damaged_replica_without_others_stays_as_it_is(void **state)
{
    (void)state;
    struct cluster *cluster = up3(13);
    char folder[32];
    assert_int_equal(create_topic(cluster, 1, "solo", 3, 1), LIGHTQ_OK);
    unsigned id = 0;
    uint64_t group = group_of(cluster, 1, "solo", 0);
    assert_non_null(leader_of(cluster, group, &id));
    produce_some(cluster, group, 10);
    cluster_kill(cluster, id);
    (void)snprintf(folder, sizeof folder, "g%llu-1", (unsigned long long)group);
    damage(cluster, id, folder, true);
    cluster_start(cluster, id);

    cluster_run_ms(cluster, 15000);

    assert_null(leader_of(cluster, group, NULL)); /* nobody pretends that it is empty */
    const struct lq_catalog_partition *partition = lq_catalog_partition(catalog_on(cluster, 1), group);
    assert_int_equal(partition->replicas[0].incarnation, 1);
    assert_string_not_equal(lq_meta_replica_text(member_of(cluster, id)->meta, group), "");
    cluster_free(cluster);
}

static void test_damaged_meta_replica_is_rebuilt(void **state)
{
    (void)state;
    struct cluster *cluster = up3(14);
    assert_int_equal(create_topic(cluster, 1, "t", 2, 3), LIGHTQ_OK);
    produce_some(cluster, group_of(cluster, 1, "t", 0), 10);
    for (unsigned lose = 0; lose < 2; lose++) {
        char folder[32];
        struct member *victim = member_of(cluster, 3);
        cluster_kill(cluster, 3);
        (void)snprintf(folder, sizeof folder, "g0-%u", victim->identity.meta_incarnation);
        damage(cluster, 3, folder, lose == 1);
        cluster_start(cluster, 3);

        cluster_wait(cluster, all_settled, NULL, 60);

        assert_int_equal(victim->identity.meta_incarnation, 2 + lose);
        assert_int_equal(lq_catalog_node(catalog_on(cluster, 3), 3)->meta_incarnation, 2 + lose);
        assert_int_equal(lq_catalog_topic_count(catalog_on(cluster, 3)), 1);
    }
    cluster_run_ms(cluster, 5000);
    cluster_kill(cluster, controller_of(cluster)); /* the rebuilt one votes */
    cluster_run_ms(cluster, 5000);
    assert_int_not_equal(controller_of(cluster), 0);
    cluster_free(cluster);
}

/* A leader found out that a replica, which thinks itself well, lost what it had acknowledged. */
static void order_rebuild(struct cluster *cluster, uint64_t group, uint32_t node, uint32_t incarnation)
{
    const struct lq_letter_request letter = {
        .verb = LQ_REQUEST_REBUILD, .group = group, .node = node, .incarnation = incarnation};
    assert_int_equal(lq_requests_errand(member_of(cluster, 1)->meta, &letter, 5000, NULL, NULL), LIGHTQ_OK);
}

static void test_replaced_replica_goes_only_when_it_is_out(void **state)
{
    (void)state;
    struct cluster *cluster = up3(23);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    produce_some(cluster, group, 50);
    unsigned leader;
    assert_non_null(leader_of(cluster, group, &leader));
    unsigned other = other_than(leader);
    cluster_run_ms(cluster, 1000);

    cluster_kill(cluster, 6 - leader - other); /* the third: without it the others cannot remove anybody */
    order_rebuild(cluster, group, other, 1);
    if (sim_is_up(member_of(cluster, 1)->node)) {
        cluster_run_ms(cluster, 8000);
        assert_int_equal(lq_rlog_incarnation(lq_store_find(member_of(cluster, other)->node->store, group)), 1);
        assert_string_not_equal(lq_meta_replica_text(member_of(cluster, other)->meta, group), "");
    }
    cluster_start(cluster, 6 - leader - other);
    cluster_wait(cluster, all_settled, NULL, 60);

    assert_int_equal(lq_rlog_incarnation(lq_store_find(member_of(cluster, other)->node->store, group)), 2);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    cluster_free(cluster);
}

/* A replica that could not be opened, or whose disk failed, is not damaged: it may be one of few copies. */
static void test_replaced_replica_that_is_broken_keeps_what_is_sound(void **state)
{
    (void)state;
    struct cluster *cluster = up3(23);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    produce_some(cluster, group, 50);
    unsigned leader;
    assert_non_null(leader_of(cluster, group, &leader));
    unsigned other = other_than(leader);
    unsigned third = 6 - leader - other;
    cluster_run_ms(cluster, 1000);
    struct lq_replica *replica = lq_replicas_find(member_of(cluster, other)->meta, group);
    replica->state = LQ_REPLICA_BROKEN;
    replica->rebuild = true; /* an entry that cannot be applied would break all replicas alike */

    cluster_kill(cluster, third); /* without it the others cannot remove anybody */
    order_rebuild(cluster, group, other, 1);
    cluster_run_ms(cluster, 8000);

    assert_int_not_equal(third, 1); /* it would have taken no orders */
    assert_int_equal(lq_catalog_replica_on(lq_catalog_partition(catalog_on(cluster, other), group), other)->incarnation,
                     2);
    assert_int_equal(lq_rlog_incarnation(lq_store_find(member_of(cluster, other)->node->store, group)), 1);
    cluster_start(cluster, third);
    cluster_wait(cluster, all_settled, NULL, 60);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    cluster_free(cluster);
}

/* A leader may have been away, and read the catalog's past first: it must not remove what was made since. */
static void test_leader_with_an_old_catalog_changes_no_servers(void **state)
{
    (void)state;
    struct cluster *cluster = up3(25);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    unsigned leader;
    assert_non_null(leader_of(cluster, group, &leader));
    unsigned other = other_than(leader);
    order_rebuild(cluster, group, other, 1);
    cluster_run_ms(cluster, 2000);
    cluster_wait(cluster, all_settled, NULL, 60);
    assert_non_null(leader_of(cluster, group, &leader));
    struct lq_catalog_partition *placed =
        (struct lq_catalog_partition *)(uintptr_t)lq_catalog_partition(catalog_on(cluster, leader), group);
    const struct lq_catalog_partition present = *placed;
    for (unsigned i = 0; i < 3; i++) { /* as it was */
        placed->replicas[i].incarnation = 1;
    }
    placed->next_incarnation = 2;

    cluster_run_ms(cluster, 5000);

    const struct lq_servers *servers = lq_partition_servers(leader_of(cluster, group, &leader));
    unsigned voters = 0;
    for (unsigned i = 0; i < servers->count; i++) {
        lq_replica_id id = servers->at[i].id;
        assert_int_equal(lq_replica_incarnation(id), lq_replica_node(id) == other ? 2 : 1);
        voters += servers->at[i].role == LQ_ROLE_VOTER;
    }
    assert_int_equal(voters, 3);
    *placed = present;
    cluster_free(cluster);
}

static void test_leader_that_is_replaced_hands_over_first(void **state)
{
    (void)state;
    struct cluster *cluster = up3(24);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    produce_some(cluster, group, 50);
    unsigned leader;
    assert_non_null(leader_of(cluster, group, &leader));
    struct lq_meta *meta = member_of(cluster, controller_of(cluster))->meta;
    const struct lq_catalog_command command = {.type = LQ_CATALOG_REBUILD,
                                               .rebuild = {.group = group, .node = leader, .incarnation = 1}};
    uint64_t index;

    assert_int_equal(lq_meta_propose(meta, &command, &index), LIGHTQ_OK); /* past the controller, which would refuse */
    cluster_run_ms(cluster, 500);
    cluster_wait(cluster, all_settled, NULL, 60);

    assert_int_equal(lq_rlog_incarnation(lq_store_find(member_of(cluster, leader)->node->store, group)), 2);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    produce_some(cluster, group, 5);
    cluster_free(cluster);
}

static bool meta_renewed(struct cluster *cluster, void *data)
{
    (void)data;
    const struct lq_catalog_node *node = lq_catalog_node(catalog_on(cluster, 3), 3);
    return member_of(cluster, 3)->identity.meta_incarnation == 2 && node != NULL && node->meta_incarnation == 2 &&
           lq_meta_leader(member_of(cluster, 3)->meta, LQ_META_GROUP).node != 0;
}

static void test_meta_replica_that_is_replaced_is_made_anew(void **state)
{
    (void)state;
    struct cluster *cluster = up3(25);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    if (controller_of(cluster) == 3) {
        cluster_kill(cluster, 3);
        cluster_run_ms(cluster, 5000);
        cluster_start(cluster, 3);
        cluster_run_ms(cluster, 5000);
    }

    order_rebuild(cluster, LQ_META_GROUP, 3, 1);
    cluster_wait(cluster, meta_renewed, NULL, 30);
    cluster_wait(cluster, all_settled, NULL, 30);

    assert_int_equal(lq_catalog_topic_count(catalog_on(cluster, 3)), 1);
    cluster_kill(cluster, 3); /* and it comes back as that */
    cluster_start(cluster, 3);
    cluster_wait(cluster, all_settled, NULL, 30);
    assert_int_equal(member_of(cluster, 3)->identity.meta_incarnation, 2);
    cluster_free(cluster);
}

static bool address_known(struct cluster *cluster, void *data)
{
    (void)data;
    return lq_catalog_node(catalog_on(cluster, 1), 2)->client.port == 5602 + 1000;
}

/* Case F11: a node that is started under another address. */
static void test_node_under_other_addresses_is_still_that_node(void **state)
{
    (void)state;
    struct cluster *cluster = up3(26);
    cluster_run_ms(cluster, 3000);
    cluster_kill(cluster, 2);
    member_of(cluster, 2)->port_shift = 1000;
    cluster_start(cluster, 2);

    cluster_wait(cluster, address_known, NULL, 20);

    assert_int_equal(lq_catalog_node(catalog_on(cluster, 1), 2)->boot, 2);
    assert_int_equal(lq_catalog_node_count(catalog_on(cluster, 1)), 3);
    cluster_free(cluster);
}

static bool grown(struct cluster *cluster, void *data)
{
    (void)data;
    for (unsigned id = 1; id <= 4; id++) {
        if (!member_of(cluster, id)->ready || lq_catalog_node_count(catalog_on(cluster, id)) != 4) {
            return false;
        }
    }
    struct lq_group_status status;
    unsigned voters = 0;
    lq_group_status(lq_host_find(member_of(cluster, controller_of(cluster))->node->host, LQ_META_GROUP), &status);
    for (unsigned i = 0; i < status.replica_count; i++) {
        voters += status.replicas[i].role == LQ_ROLE_VOTER;
    }
    return voters == 3 && status.replica_count == 4;
}

static void test_cluster_of_one_grows(void **state)
{
    (void)state;
    const struct cluster_options options = {.nodes = 4, .founders = 1, .seed = 27};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, 1);
    assert_int_equal(create_topic(cluster, 1, "solo", 2, 0), LIGHTQ_OK);
    assert_int_equal(lq_catalog_topic(catalog_on(cluster, 1), "solo")->replicas, 1);
    produce_some(cluster, group_of(cluster, 1, "solo", 0), 20);

    for (unsigned id = 2; id <= 4; id++) {
        cluster_start(cluster, id);
    }
    cluster_wait(cluster, grown, NULL, 40);

    assert_int_equal(create_topic(cluster, 4, "wide", 3, 0), LIGHTQ_OK);
    assert_int_equal(lq_catalog_topic(catalog_on(cluster, 4), "wide")->replicas, 3);
    cluster_kill(cluster, 1); /* three of four remember the cluster, and two of three lead it */
    cluster_run_ms(cluster, 8000);
    assert_int_not_equal(controller_of(cluster), 0);
    assert_int_equal(create_topic(cluster, 2, "after", 1, 3), LIGHTQ_OK);
    cluster_free(cluster);
}

static bool has_joined(struct cluster *cluster, void *data)
{
    (void)data;
    return member_of(cluster, 4)->ready;
}

static bool leaders_known(struct cluster *cluster, void *data)
{
    const struct lq_meta *meta = member_of(cluster, 4)->meta;
    (void)data;
    for (uint32_t p = 0; p < 3; p++) {
        if (lq_meta_leader(meta, group_of(cluster, 4, "t", p)).node == 0) {
            return false;
        }
    }
    return true;
}

static void test_new_node_joins_and_knows_every_leader(void **state)
{
    (void)state;
    struct cluster *cluster = up3(15);
    assert_int_equal(create_topic(cluster, 1, "t", 3, 3), LIGHTQ_OK);
    cluster_start(cluster, 4);

    cluster_wait(cluster, has_joined, NULL, 20);

    assert_int_equal(lq_catalog_node_count(catalog_on(cluster, 4)), 4);
    cluster_wait(cluster, leaders_known, NULL, 10); /* of partitions that it has no replica of */
    assert_int_equal(create_topic(cluster, 4, "from4", 4, 3), LIGHTQ_OK);
    cluster_wait(cluster, all_settled, NULL, 20);
    bool on_4 = false;
    for (uint32_t p = 0; p < 4; p++) {
        on_4 |= lq_meta_partition(member_of(cluster, 4)->meta, group_of(cluster, 4, "from4", p)) != NULL;
    }
    assert_true(on_4); /* the one with the fewest replicas gets some */
    cluster_free(cluster);
}

static void test_node_replaced_by_another_takes_its_replicas(void **state)
{
    (void)state;
    struct cluster *cluster = up3(16);
    assert_int_equal(create_topic(cluster, 1, "t", 3, 3), LIGHTQ_OK);
    for (uint32_t p = 0; p < 3; p++) {
        produce_some(cluster, group_of(cluster, 1, "t", p), 20);
    }
    cluster_start(cluster, 4);
    cluster_wait(cluster, has_joined, NULL, 20);
    assert_int_equal(replace_node(cluster, 1, 3, 4), LIGHTQ_EINVAL); /* 3 is alive */
    cluster_kill(cluster, 3);
    cluster_run_ms(cluster, 5000);

    assert_int_equal(replace_node(cluster, 1, 3, 4), LIGHTQ_OK);
    cluster_wait(cluster, all_settled, NULL, 60);

    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    assert_int_equal(lq_catalog_node(catalog_on(cluster, 4), 3)->state, LQ_NODE_GONE);
    assert_int_equal(lq_partition_end(lq_meta_partition(member_of(cluster, 4)->meta, group_of(cluster, 4, "t", 2))),
                     20);
    cluster_free(cluster);
}

static bool start_moved(struct cluster *cluster, void *data)
{
    const uint64_t *group = data;
    for (unsigned id = 1; id <= 3; id++) {
        const struct lq_partition *partition = lq_meta_partition(member_of(cluster, id)->meta, *group);
        if (lq_partition_start(partition) < 400) {
            return false;
        }
    }
    return true;
}

static void test_retention_trims_every_replica_alike(void **state)
{
    (void)state;
    struct cluster *cluster = up3(17);
    struct lq_topic_config config;
    lq_topic_config_init(&config);
    config.retention_bytes = 100 * 1024;
    struct asked asked = {
        .request = {.verb = LQ_META_TOPIC_CREATE, .name = "t", .partitions = 1, .replicas = 3, .config = &config}};
    ask(cluster, 2, &asked);
    cluster_run_ms(cluster, 4000);
    assert_int_equal(asked.status, LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);

    produce_some(cluster, group, 1500); /* 300 KB */
    cluster_wait(cluster, start_moved, &group, 10);

    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 10);
    cluster_run_ms(cluster, 3000);
    produce_some(cluster, group, 3);
    for (unsigned id = 1; id <= 3; id++) { /* and files go with it */
        assert_true(lq_rlog_first(lq_store_find(member_of(cluster, id)->node->store, group)) > 200);
    }
    cluster_free(cluster);
}

struct looked {
    struct lq_meta_inspect inspect;
    unsigned answers;
    size_t count, answered, leaders;
    uint64_t digests[8], ends[8];
};

static void on_looked(struct lq_meta_inspect *inspect, lightq_status status)
{
    struct looked *looked = inspect->data;
    looked->answers++;
    looked->count = inspect->report_count;
    assert_int_equal(status, LIGHTQ_OK);
    for (size_t i = 0; i < inspect->report_count; i++) {
        looked->answered += inspect->reports[i].answered;
        looked->leaders += inspect->reports[i].role == LQ_REPLICA_LEADER;
        looked->digests[i] = inspect->reports[i].digest;
        looked->ends[i] = inspect->reports[i].end_offset;
    }
}

static void test_inspect_sees_replicas_of_all_nodes(void **state)
{
    (void)state;
    struct cluster *cluster = up3(18);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    const uint64_t groups[] = {group_of(cluster, 1, "t", 0), LQ_META_GROUP, 777};
    produce_some(cluster, groups[0], 7);
    cluster_run_ms(cluster, 500);
    struct looked looked = {.inspect = {.groups = groups, .group_count = 3, .cb = on_looked}};
    looked.inspect.data = &looked;

    assert_int_equal(lq_meta_inspect(member_of(cluster, 2)->meta, &looked.inspect), LIGHTQ_OK);
    assert_int_equal(looked.answers, 0);
    cluster_run_ms(cluster, 300);

    assert_int_equal(looked.answers, 1);
    assert_int_equal(looked.count, 6); /* of the unknown group none */
    assert_int_equal(looked.answered, 6);
    assert_int_equal(looked.leaders, 2);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(looked.ends[i], 7);
        assert_int_equal(looked.digests[i], looked.digests[0]);
    }
    cluster_kill(cluster, 3);
    looked.answers = 0;
    looked.answered = 0;
    assert_int_equal(lq_meta_inspect(member_of(cluster, 2)->meta, &looked.inspect), LIGHTQ_OK);
    cluster_run_ms(cluster, 1500);
    assert_int_equal(looked.answers, 1);
    assert_int_equal(looked.answered, 4);
    looked.inspect.group_count = 0;
    assert_int_equal(lq_meta_inspect(member_of(cluster, 2)->meta, &looked.inspect), LIGHTQ_EINVAL);
    cluster_free(cluster);
}

static void test_stranger_can_only_ask_to_join(void **state)
{
    (void)state;
    struct cluster *cluster = up3(29);
    unsigned controller = controller_of(cluster);
    struct lq_letter create = {
        .kind = LQ_LETTER_REQUEST,
        .request = {.verb = LQ_REQUEST_CREATE, .uuid = {.bytes = {9}}, .partitions = 1, .replicas = 1, .name = "x"}};
    lq_topic_config_init(&create.request.config);
    const struct lq_letter report = {.kind = LQ_LETTER_REPORT, .report = {.first_group = 0, .last_group = 99}};

    cluster_give_letter(cluster, controller, 4, &create);
    cluster_give_letter(cluster, controller, 4, &report);
    cluster_run_ms(cluster, 500);

    assert_int_equal(lq_catalog_topic_count(catalog_on(cluster, controller)), 0);
    struct lq_meta_node_load load;
    lq_meta_node_load(member_of(cluster, controller)->meta, 4, &load);
    assert_false(load.up);
    cluster_give_letter(cluster, controller, other_than(controller), &create); /* a member may */
    cluster_run_ms(cluster, 500);
    assert_int_equal(lq_catalog_topic_count(catalog_on(cluster, controller)), 1);
    cluster_free(cluster);
}

static void test_malformed_letters_close_the_connection(void **state)
{
    (void)state;
    struct cluster *cluster = up3(30);
    struct lq_slab *slab = lq_slab_new(64);
    assert_non_null(slab);
    memset(slab->bytes, 0xff, 64);
    struct lq_frame_in frame = {.type = LQ_FRAME_NODE, .slab = slab, .size = 64};

    assert_int_equal(lq_meta_host_events.node_frame(member_of(cluster, 1)->meta, 2, &frame), LIGHTQ_OK);
    slab->bytes[0] = LQ_LETTER_REPLY; /* a kind and a version that are known, and nonsense behind them */
    slab->bytes[1] = LQ_LETTER_VERSION;
    slab->bytes[2] = slab->bytes[3] = 0;
    assert_int_equal(lq_meta_host_events.node_frame(member_of(cluster, 1)->meta, 2, &frame), LIGHTQ_EPROTO);
    frame.size = 1;
    assert_int_equal(lq_meta_host_events.node_frame(member_of(cluster, 1)->meta, 2, &frame), LIGHTQ_EPROTO);

    lq_slab_unref(slab);
    cluster_free(cluster);
}

static void test_transfer_goes_to_the_named_node(void **state)
{
    (void)state;
    struct cluster *cluster = up3(19);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    unsigned id;
    assert_non_null(leader_of(cluster, group, &id));
    cluster_run_ms(cluster, 1000);
    struct asked asked = {
        .request = {.verb = LQ_META_LEADER_TRANSFER, .name = "t", .to = other_than(id), .timeout_ms = 5000}};

    ask(cluster, id == 1 ? 2 : 1, &asked);
    cluster_run_ms(cluster, 1000);

    assert_int_equal(asked.status, LIGHTQ_OK);
    unsigned now = 0;
    assert_non_null(leader_of(cluster, group, &now));
    assert_int_equal(now, other_than(id));
    asked.request.partition = 5;
    ask(cluster, 1, &asked);
    cluster_run_ms(cluster, 500);
    assert_int_equal(asked.status, LIGHTQ_ENOTFOUND);
    cluster_free(cluster);
}

/* A replica that led before and leads again lets the one that should lead be fit for a while anew, before it hands
 * over: what it had seen of it when it led last is of the past. */
static void test_transfer_back_waits_in_every_leadership_anew(void **state)
{
    (void)state;
    struct cluster *cluster = up3(21);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_of(cluster, 1, "t", 0);
    unsigned first, now = 0;
    cluster_run_ms(cluster, 5000);
    assert_non_null(leader_of(cluster, group, &first)); /* where the catalog wants it */
    struct asked asked = {
        .request = {.verb = LQ_META_LEADER_TRANSFER, .name = "t", .to = other_than(first), .timeout_ms = 5000}};
    for (int turn = 0; turn < 2; turn++) {
        ask(cluster, 1, &asked);
        cluster_run_ms(cluster, 1500);

        assert_non_null(leader_of(cluster, group, &now));
        assert_int_equal(now, other_than(first));

        cluster_run_ms(cluster, 6000);
        assert_non_null(leader_of(cluster, group, &now));
        assert_int_equal(now, first);
    }
    cluster_free(cluster);
}

static void test_drain_hands_everything_over_and_nothing_back(void **state)
{
    (void)state;
    struct cluster *cluster = up3(20);
    assert_int_equal(create_topic(cluster, 1, "t", 12, 3), LIGHTQ_OK);
    cluster_wait(cluster, leads_are_even, NULL, 20);

    lq_meta_drain(member_of(cluster, 2)->meta);
    cluster_run_ms(cluster, 10000);

    unsigned leads[MEMBERS_MAX + 1];
    count_leads(cluster, "t", leads);
    assert_int_equal(leads[2], 0);
    assert_int_equal(leads[1] + leads[3], 12);
    assert_int_equal(lq_host_leading(member_of(cluster, 2)->node->host), 0);
    cluster_free(cluster);
}

static void test_free_answers_what_waits(void **state)
{
    (void)state;
    struct cluster *cluster = up3(21);
    struct asked asked;
    cluster_kill(cluster, 2);
    cluster_kill(cluster, 3);
    ask_create(cluster, 1, &asked, "t", 1, 3);
    cluster_run_ms(cluster, 100);

    cluster_kill(cluster, 1);

    assert_int_equal(asked.answers, 1);
    assert_int_equal(asked.status, LIGHTQ_ECLOSED);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_begins_with_its_founders),
        cmocka_unit_test(test_create_answers_when_every_partition_has_a_leader),
        cmocka_unit_test(test_idle_cluster_wants_no_turns),
        cmocka_unit_test(test_create_three_hundred_partitions_is_quick),
        cmocka_unit_test(test_create_refusals_are_named),
        cmocka_unit_test(test_leadership_goes_where_the_catalog_says),
        cmocka_unit_test(test_delete_is_answered_when_every_node_has_it),
        cmocka_unit_test(test_delete_removes_replicas_also_of_who_was_away),
        cmocka_unit_test(test_restart_of_all_keeps_everything),
        cmocka_unit_test(test_controller_dies_while_topics_are_created),
        cmocka_unit_test(test_create_without_majority_times_out_and_says_why),
        cmocka_unit_test(test_wiped_node_is_refused_until_it_is_replaced),
        cmocka_unit_test(test_replaced_node_makes_no_replica_of_its_predecessor),
        cmocka_unit_test(test_check_peer_knows_old_empty_and_forged_directories),
        cmocka_unit_test(test_damaged_replica_is_rebuilt_by_itself),
        cmocka_unit_test(test_lost_replica_is_rebuilt_and_never_new),
        cmocka_unit_test(test_damaged_replica_without_others_stays_as_it_is),
        cmocka_unit_test(test_damaged_meta_replica_is_rebuilt),
        cmocka_unit_test(test_replaced_replica_goes_only_when_it_is_out),
        cmocka_unit_test(test_replaced_replica_that_is_broken_keeps_what_is_sound),
        cmocka_unit_test(test_leader_that_is_replaced_hands_over_first),
        cmocka_unit_test(test_leader_with_an_old_catalog_changes_no_servers),
        cmocka_unit_test(test_meta_replica_that_is_replaced_is_made_anew),
        cmocka_unit_test(test_node_under_other_addresses_is_still_that_node),
        cmocka_unit_test(test_cluster_of_one_grows),
        cmocka_unit_test(test_new_node_joins_and_knows_every_leader),
        cmocka_unit_test(test_node_replaced_by_another_takes_its_replicas),
        cmocka_unit_test(test_retention_trims_every_replica_alike),
        cmocka_unit_test(test_inspect_sees_replicas_of_all_nodes),
        cmocka_unit_test(test_stranger_can_only_ask_to_join),
        cmocka_unit_test(test_malformed_letters_close_the_connection),
        cmocka_unit_test(test_transfer_goes_to_the_named_node),
        cmocka_unit_test(test_transfer_back_waits_in_every_leadership_anew),
        cmocka_unit_test(test_drain_hands_everything_over_and_nothing_back),
        cmocka_unit_test(test_free_answers_what_waits),
    };
    return cmocka_run_group_tests_name("meta cluster", tests, NULL, NULL);
}
