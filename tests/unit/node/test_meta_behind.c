/* test_meta_behind.c - a node was down while others were replaced, so its catalog knows directories that are no more
 * and leaders that it has never heard of (docs/adr/0010-behind-the-catalog.md). It must catch up by itself; and what
 * was replaced must find out, end, and acknowledge nothing. */
#include "node/meta_internal.h"
#include "tests/unit/node/cluster_fixture.h"

static const struct lq_catalog *catalog_on(struct cluster *cluster, unsigned id)
{
    return lq_meta_catalog(member_of(cluster, id)->meta);
}

static uint64_t group_on(struct cluster *cluster, unsigned id, const char *name)
{
    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_on(cluster, id), name);
    assert_non_null(topic);
    return topic->partitions[0].group;
}

static unsigned controller_of(struct cluster *cluster)
{
    for (unsigned id = 1; id <= sim_nodes(cluster->sim); id++) {
        struct member *member = member_of(cluster, id);
        if (member->meta != NULL && member->meta->leading) {
            return id;
        }
    }
    return 0;
}

/* The meta group has the servers that the catalog wants, whatever the one that is away is. */
static bool meta_settled(struct cluster *cluster, void *data)
{
    const unsigned *away = data;
    unsigned id = controller_of(cluster);
    struct lq_group_status status;
    unsigned wanted = 0;
    if (id == 0) {
        return false;
    }
    lq_group_status(lq_host_find(member_of(cluster, id)->node->host, LQ_META_GROUP), &status);
    for (size_t i = 0; i < lq_catalog_node_count(catalog_on(cluster, id)); i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(catalog_on(cluster, id), i);
        bool found = node->state == LQ_NODE_GONE || node->id == *away;
        wanted += !found;
        for (unsigned k = 0; k < status.replica_count; k++) {
            found |= status.replicas[k].id == lq_replica_make(node->id, node->meta_incarnation) &&
                     status.replicas[k].role == (node->meta_voter ? LQ_ROLE_VOTER : LQ_ROLE_STANDBY);
        }
        if (!found) {
            return false;
        }
    }
    return status.replica_count == wanted || (*away != 0 && status.replica_count == wanted + 1);
}

static void settle_but(struct cluster *cluster, unsigned away)
{
    cluster_wait(cluster, all_settled, NULL, 90);
    cluster_wait(cluster, meta_settled, &away, 90);
}

static void settle(struct cluster *cluster)
{
    settle_but(cluster, 0);
}

/* It is emptied, and said to be replaced on @by. */
static void replace_but(struct cluster *cluster, unsigned id, unsigned by, unsigned away)
{
    cluster_kill(cluster, id);
    cluster_wipe(cluster, id);
    cluster_run_ms(cluster, 4000);
    assert_int_equal(replace_node(cluster, by, id, id), LIGHTQ_OK);
    cluster_start(cluster, id);
    settle_but(cluster, away);
}

static void replace(struct cluster *cluster, unsigned id, unsigned by)
{
    replace_but(cluster, id, by, 0);
}

static bool knows_everybody(struct cluster *cluster, void *data)
{
    const unsigned *id = data;
    const struct member *member = member_of(cluster, *id);
    if (!member->ready) {
        return false;
    }
    for (unsigned i = 0; i < member->meta->peers.count; i++) {
        const struct lq_peer *peer = &member->meta->peers.at[i];
        if (peer->is_later || lq_host_is_confined(member->node->host, peer->node)) {
            return false;
        }
    }
    return true;
}

/* Nodes 1 to 3 are founders, 4 (and 5) joined. */
static struct cluster *up(unsigned count, uint64_t seed)
{
    const struct cluster_options options = {.nodes = count, .founders = 3, .seed = seed};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, count);
    settle(cluster);
    cluster_run_ms(cluster, 2000);
    return cluster;
}

static bool is_ready(struct cluster *cluster, void *data)
{
    return member_of(cluster, *(unsigned *)data)->ready;
}

/* Its replica knows a leader long before it has read the catalog on: clients must not be told then that a topic they
 * made a while ago is not there. */
static void test_node_is_ready_when_its_catalog_is_as_new_as_the_controllers(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 7);
    for (unsigned away = 1; away <= 3; away++) {
        unsigned other = away % 3 + 1;
        char name[16];
        (void)snprintf(name, sizeof name, "later-%u", away);
        cluster_kill(cluster, away);
        cluster_run_ms(cluster, 4000);
        for (unsigned i = 0; i < 40; i++) { /* history enough that it is not read on in one step */
            assert_int_equal(create_topic(cluster, other, "passing", 1, 3), LIGHTQ_OK);
            assert_int_equal(delete_topic(cluster, other, "passing"), LIGHTQ_OK);
        }
        assert_int_equal(create_topic(cluster, other, name, 1, 3), LIGHTQ_OK);
        cluster_start(cluster, away);

        cluster_wait(cluster, is_ready, &away, 30);

        assert_non_null(lq_catalog_topic(catalog_on(cluster, away), name));
        settle(cluster);
    }
    cluster_free(cluster);
}

static void test_node_that_knows_nobody_any_more_catches_up(void **state)
{
    (void)state;
    struct cluster *cluster = up(4, 1);
    unsigned away = 4;
    cluster_kill(cluster, away);

    for (unsigned id = 1; id <= 3; id++) { /* all that it could believe */
        replace_but(cluster, id, id % 3 + 1, away);
    }
    assert_int_equal(create_topic(cluster, 1, "later", 1, 3), LIGHTQ_OK);
    produce_some(cluster, group_on(cluster, 1, "later"), 5);
    cluster_start(cluster, away);

    cluster_wait(cluster, knows_everybody, &away, 30);
    settle(cluster);
    assert_non_null(lq_catalog_topic(catalog_on(cluster, away), "later"));
    assert_int_equal(lq_catalog_version(catalog_on(cluster, away)), lq_catalog_version(catalog_on(cluster, 1)));
    cluster_free(cluster);
}

static void test_nodes_that_joined_meanwhile_bring_it_up_to_date(void **state)
{
    (void)state;
    const struct cluster_options options = {.nodes = 7, .founders = 3, .seed = 3};
    struct cluster *cluster = cluster_new(&options);
    unsigned away = 4;
    cluster_up(cluster, 4);
    settle(cluster);
    cluster_run_ms(cluster, 2000);
    cluster_kill(cluster, away);
    for (unsigned id = 5; id <= 7; id++) {
        cluster_start(cluster, id);
        settle_but(cluster, away);
    }
    for (unsigned id = 1; id <= 3; id++) { /* those that it knew are gone, one after the other */
        cluster_kill(cluster, id);
        cluster_run_ms(cluster, 4000);
        assert_int_equal(replace_node(cluster, 7, id, 4 + id), LIGHTQ_OK);
        settle_but(cluster, away);
    }
    assert_int_equal(create_topic(cluster, 7, "later", 1, 3), LIGHTQ_OK);
    cluster_start(cluster, away);

    cluster_wait(cluster, knows_everybody, &away, 30);
    settle(cluster);

    assert_non_null(lq_catalog_topic(catalog_on(cluster, away), "later"));
    assert_int_equal(lq_catalog_node(catalog_on(cluster, away), 1)->state, LQ_NODE_GONE);
    cluster_free(cluster);
}

/* All it has is whom it founded the cluster with, and none of them is there any more. */
static void test_founder_without_a_catalog_is_rebuilt_by_whom_it_does_not_know(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 5);
    unsigned away = 3;
    replace(cluster, 1, 2);
    replace(cluster, 2, 1);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    produce_some(cluster, group_on(cluster, 1, "t"), 5);
    settle(cluster);
    cluster_kill(cluster, away);
    assert_int_equal(lq_io_mem_remove(member_of(cluster, away)->node->disk, "g0-1"), LIGHTQ_OK);
    cluster_start(cluster, away);

    cluster_wait(cluster, knows_everybody, &away, 60);
    settle(cluster);

    assert_true(member_of(cluster, away)->identity.meta_incarnation > 1);
    struct equal equal = {.name = "t", .replicas = 3};
    cluster_wait(cluster, replicas_equal, &equal, 20);
    cluster_free(cluster);
}

/* Its replica of the meta group is not only behind, but out of the group: only a letter can say so. */
static void test_node_whose_meta_replica_was_rebuilt_is_told_by_whom_it_does_not_know(void **state)
{
    (void)state;
    struct cluster *cluster = up(4, 4);
    unsigned away = 4;
    uint32_t old = member_of(cluster, away)->identity.meta_incarnation;
    cluster_kill(cluster, away);
    const struct lq_letter_request letter = {
        .verb = LQ_REQUEST_REBUILD, .group = LQ_META_GROUP, .node = away, .incarnation = old};
    assert_int_equal(lq_requests_errand(member_of(cluster, 1)->meta, &letter, 5000, NULL, NULL), LIGHTQ_OK);
    cluster_run_ms(cluster, 3000);
    for (unsigned id = 1; id <= 3; id++) {
        replace_but(cluster, id, id % 3 + 1, away);
    }
    cluster_start(cluster, away);

    cluster_wait(cluster, knows_everybody, &away, 60);
    settle(cluster);

    assert_true(member_of(cluster, away)->identity.meta_incarnation > old);
    assert_int_equal(lq_catalog_version(catalog_on(cluster, away)), lq_catalog_version(catalog_on(cluster, 1)));
    cluster_free(cluster);
}

/* ---- whom to believe ---- */

static void test_check_peer_tells_later_directories_from_earlier_ones(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 6);
    replace(cluster, 3, 1);
    struct lq_meta *meta = member_of(cluster, 1)->meta;
    const struct lq_identity *present = &member_of(cluster, 3)->identity;
    uint32_t next = lq_catalog_next_admission(catalog_on(cluster, 1));
    struct lq_err err = {.text = ""};
    struct lq_hello hello = {
        .node = 3, .uuid = {.bytes = {3, 0xaa}}, .cluster = present->cluster, .boot_count = 9, .admission = 1};

    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_EREPLACED);
    assert_non_null(strstr(err.text, "node 3 was replaced"));
    hello.admission = 0; /* it does not say: perhaps a node of an earlier version */
    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_EIDENTITY);
    hello.admission = present->meta_incarnation; /* the present one's, with another uuid: nobody was let in so */
    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_EIDENTITY);
    hello.cluster = (struct lq_id){.bytes = {0}}; /* emptied */
    hello.admission = 0;
    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_EIDENTITY);
    assert_non_null(strstr(err.text, "lightq node replace 3 3"));
    assert_false(lq_host_is_confined(member_of(cluster, 1)->node->host, 3));

    hello = (struct lq_hello){
        .node = 3, .uuid = present->uuid, .cluster = present->cluster, .boot_count = present->boot, .admission = 2};
    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_OK);
    hello.boot_count = 0; /* restored from a copy of before its last start */
    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_EREPLACED);
    assert_non_null(strstr(err.text, "restored from an old copy"));

    struct lq_hello later = {
        .node = 3, .uuid = {.bytes = {3, 0xcc}}, .cluster = present->cluster, .boot_count = 1, .admission = next + 1};
    assert_int_equal(lq_meta_check_peer(meta, &later, &err), LIGHTQ_OK);
    assert_true(lq_host_is_confined(member_of(cluster, 1)->node->host, 3));
    hello.boot_count =
        present->boot; /* there is a later one: it was replaced, though our catalog does not say so yet */
    assert_int_equal(lq_meta_check_peer(meta, &hello, &err), LIGHTQ_EIDENTITY);
    later.uuid.bytes[1] = 0xdd;
    later.admission = next; /* later than the catalog, and earlier than what was seen */
    assert_int_equal(lq_meta_check_peer(meta, &later, &err), LIGHTQ_EIDENTITY);
    cluster_free(cluster);
}

static void test_node_that_is_not_named_yet_is_believed_in_little(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 7);
    unsigned controller = controller_of(cluster);
    unsigned other = controller % 3 + 1;
    struct member *member = member_of(cluster, controller);
    assert_int_equal(create_topic(cluster, 1, "t", 6, 3), LIGHTQ_OK);
    settle(cluster);
    struct lq_peer *peer = lq_peers_find(member->meta, other);
    peer->is_later = peer->is_guest = true;
    peer->later_admission = UINT32_MAX; /* the catalog never gets there */
    assert_int_equal(lq_host_confine(member->node->host, other, true), LIGHTQ_OK);
    struct lq_host_counters before;
    struct lq_host_counters after;
    lq_host_count_up(member->node->host, &before);

    struct lq_letter letter = {
        .kind = LQ_LETTER_REQUEST,
        .request = {.verb = LQ_REQUEST_CREATE, .uuid = {.bytes = {9}}, .partitions = 1, .replicas = 1, .name = "x"}};
    lq_topic_config_init(&letter.request.config);
    cluster_give_letter(cluster, controller, other, &letter);
    cluster_run_ms(cluster, 5000);

    lq_host_count_up(member->node->host, &after);
    assert_null(lq_catalog_topic(catalog_on(cluster, controller), "x"));
    assert_true(after.messages_refused > before.messages_refused); /* of partitions */
    assert_int_equal(controller_of(cluster), controller);          /* the meta group goes on with it */
    cluster_free(cluster);
}

/* ---- being replaced ---- */

static bool is_expelled(struct cluster *cluster, void *data)
{
    const unsigned *id = data;
    return member_of(cluster, *id)->expelled;
}

static void cut_off(struct cluster *cluster, unsigned id, bool cut)
{
    for (unsigned other = 0; other < sim_nodes(cluster->sim); other++) {
        if (other + 1 != id) {
            sim_cut(cluster->sim, id - 1, other, cut);
            sim_cut(cluster->sim, other, id - 1, cut);
        }
    }
}

static void on_sent(struct lq_partition_request *request, lightq_status status)
{
    struct sent *sent = request->data;
    sent->answers++;
    sent->status = status;
}

/* Gives it to the replica on @id, whatever that is: false when it does not take it. */
static bool produce_on(struct cluster *cluster, unsigned id, uint64_t group, struct sent *sent)
{
    struct lq_partition *partition = lq_meta_partition(member_of(cluster, id)->meta, group);
    *sent = (struct sent){.request = {.slab = cluster->slab,
                                      .size = (uint32_t)cluster->slab->size,
                                      .message_count = 1,
                                      .expected_offset = LQ_OFFSET_ANY,
                                      .cb = on_sent}};
    sent->request.data = sent;
    return partition != NULL && lq_partition_produce(partition, &sent->request) == LIGHTQ_OK;
}

/* Its process runs on behind a cut while an operator replaces it by node @by. */
static void check_cut_off_and_replaced(uint64_t seed, bool by_itself)
{
    struct cluster *cluster = up(4, seed);
    struct sent sent[64];
    unsigned taken = 0;
    unsigned lost;
    cluster_kill(cluster, 4); /* so that the others get the replicas */
    cluster_run_ms(cluster, 4000);
    assert_int_equal(create_topic(cluster, 1, "t", 1, 3), LIGHTQ_OK);
    uint64_t group = group_on(cluster, 1, "t");
    produce_some(cluster, group, 10);
    cluster_start(cluster, 4);
    settle(cluster);
    assert_non_null(leader_of(cluster, group, &lost));
    cut_off(cluster, lost, true);

    for (unsigned i = 0; i < 32; i++) { /* it leads still, for all it knows */
        taken += produce_on(cluster, lost, group, &sent[taken]);
        cluster_run_ms(cluster, 200);
    }
    assert_true(taken > 0);
    unsigned by = lost % 3 + 1;
    assert_int_equal(replace_node(cluster, by, lost, by_itself ? lost : 4), LIGHTQ_OK);
    cluster_run_ms(cluster, 5000);
    uint64_t end = lq_partition_end(leader_of(cluster, group, NULL));
    cut_off(cluster, lost, false);
    for (unsigned i = 0; i < 32 && !member_of(cluster, lost)->expelled; i++) { /* on its return */
        taken += produce_on(cluster, lost, group, &sent[taken]);
        cluster_run_ms(cluster, 100);
        sim_break(cluster->sim, lost - 1, by - 1, false, 0); /* what waited in the cut arrives over new connections */
    }
    cluster_wait(cluster, is_expelled, &lost, 10);

    assert_int_equal(member_of(cluster, lost)->expelled_err.status, LIGHTQ_EREPLACED);
    assert_non_null(strstr(member_of(cluster, lost)->expelled_err.text, "was replaced"));
    for (unsigned i = 0; i < taken; i++) {
        assert_int_equal(sent[i].answers, 1);
        assert_int_not_equal(sent[i].status, LIGHTQ_OK);
    }
    settle_but(cluster, lost);
    assert_int_equal(lq_partition_end(leader_of(cluster, group, NULL)), end);
    cluster_start(cluster, lost); /* and it does not serve when it is started again */
    cluster_wait(cluster, is_expelled, &lost, 10);
    assert_false(member_of(cluster, lost)->ready);
    cluster_free(cluster);
}

static void test_node_that_was_replaced_by_itself_while_cut_off_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 14; seed++) {
        check_cut_off_and_replaced(seed, true);
    }
}

static void test_node_that_was_replaced_by_another_while_cut_off_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 20; seed < 24; seed++) {
        check_cut_off_and_replaced(seed, false);
    }
}

/* A replica of the meta group that is made anew begins with an empty catalog: that is no word of being replaced. */
static void test_meta_replica_made_anew_does_not_end_the_node(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 30);
    unsigned id = controller_of(cluster) % 3 + 1;
    const struct lq_letter_request letter = {
        .verb = LQ_REQUEST_REBUILD, .group = LQ_META_GROUP, .node = id, .incarnation = 1};
    assert_int_equal(lq_requests_errand(member_of(cluster, id)->meta, &letter, 5000, NULL, NULL), LIGHTQ_OK);

    cluster_run_ms(cluster, 3000);
    settle(cluster);

    assert_false(member_of(cluster, id)->expelled);
    assert_true(member_of(cluster, id)->identity.meta_incarnation > 1);
    cluster_free(cluster);
}

/* A sound replica of the meta group that is made anew is one of few copies until the new one votes. */
static void test_sound_meta_replica_is_kept_until_its_successor_votes(void **state)
{
    (void)state;
    struct cluster *cluster = up(3, 31);
    unsigned id = controller_of(cluster) % 3 + 1;
    const struct member *member = member_of(cluster, id);
    static const char file[] = "removed/g0-1.sound.0/00000000000000000001.log";
    const struct lq_letter_request letter = {
        .verb = LQ_REQUEST_REBUILD, .group = LQ_META_GROUP, .node = id, .incarnation = 1};
    assert_int_equal(lq_requests_errand(member->meta, &letter, 5000, NULL, NULL), LIGHTQ_OK);
    for (unsigned i = 0; i < 100000 && member->meta->incarnation == 1; i++) {
        sim_run(cluster->sim, 50);
    }
    assert_int_not_equal(member->meta->incarnation, 1);
    cut_off(cluster, id, true); /* before it can catch up */
    cluster_run_ms(cluster, 5000);

    assert_int_equal(lq_rlog_incarnation(lq_store_find(member->node->store, LQ_META_GROUP)),
                     member->identity.meta_incarnation);
    assert_true(lq_io_mem_exists(member->node->disk, file));
    sim_crash(member->node, LQ_IO_MEM_KEEP); /* also when the node starts again meanwhile */
    cluster_start(cluster, id);
    cluster_run_ms(cluster, 5000);
    assert_true(lq_io_mem_exists(member->node->disk, file));
    cut_off(cluster, id, false);
    settle(cluster);
    cluster_run_ms(cluster, 1000);

    assert_false(lq_io_mem_exists(member->node->disk, file));
    cluster_free(cluster);
}

static uint64_t last_index_on(struct cluster *cluster, unsigned id, uint64_t group)
{
    struct lq_group_status status;
    lq_group_status(lq_host_find(member_of(cluster, id)->node->host, group), &status);
    return status.last;
}

static void cut_all(struct cluster *cluster, bool cut)
{
    for (unsigned a = 0; a < 3; a++) {
        for (unsigned b = 0; b < 3; b++) {
            if (a != b) {
                sim_cut(cluster->sim, a, b, cut);
            }
        }
    }
}

/* Case D7, a short loss of the network makes a log of metadata grow without end: nobody writes while nobody hears him,
 * and little once they hear one another again. */
static void test_cluster_cut_to_pieces_for_a_minute_writes_little(void **state)
{
    (void)state;
    enum { NODES = 3, LITTLE = 10 };
    const struct cluster_options options = {.nodes = NODES, .founders = NODES, .seed = 77};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, NODES);
    assert_int_equal(create_topic(cluster, 1, "t", 1, NODES), LIGHTQ_OK);
    settle_but(cluster, 0);
    const uint64_t groups[] = {LQ_META_GROUP, group_on(cluster, 1, "t")};
    uint64_t before[] = {last_index_on(cluster, 1, groups[0]), last_index_on(cluster, 1, groups[1])};

    cut_all(cluster, true);
    cluster_run_ms(cluster, 60000);
    cut_all(cluster, false);
    settle_but(cluster, 0);

    for (unsigned id = 1; id <= NODES; id++) {
        for (unsigned i = 0; i < 2; i++) {
            assert_true(last_index_on(cluster, id, groups[i]) <= before[i] + LITTLE);
        }
    }
    cluster_free(cluster);
}

static bool is_refused(struct cluster *cluster, void *data)
{
    (void)cluster;
    return ((struct asked *)data)->answers > 0;
}

/* Answers find their request by its number. One that comes to a process that has started meanwhile must not be taken
 * for that of a request of its own (found by the simulation: a node was told that it had got in when another request
 * was done). */
static void test_answer_to_the_process_before_answers_nothing(void **state)
{
    (void)state;
    enum { NODES = 3, REQUESTS = 20, BEFORE = 10 };
    const struct cluster_options options = {.nodes = NODES, .founders = NODES, .seed = 78};
    struct cluster *cluster = cluster_new(&options);
    cluster_up(cluster, NODES);
    settle_but(cluster, 0);
    unsigned controller = controller_of(cluster);
    unsigned id = controller % NODES + 1;
    uint64_t last = 0;
    struct asked asked;
    assert_int_equal(create_topic(cluster, id, "t", 1, NODES), LIGHTQ_OK);
    for (unsigned i = 0; i < REQUESTS; i++) {
        ask_create(cluster, id, &asked, "t", 1, NODES);
        last = asked.request.correlation;
        cluster_wait(cluster, is_refused, &asked, 10);
    }
    cluster_kill(cluster, id);
    cluster_start(cluster, id);
    settle_but(cluster, 0);

    sim_cut(cluster->sim, id - 1, controller - 1, true); /* what it asks is never heard */
    ask_create(cluster, id, &asked, "u", 1, NODES);
    cluster_run_ms(cluster, 50);
    for (unsigned i = 0; i < REQUESTS + BEFORE; i++) { /* theirs, and those of the node itself */
        const struct lq_letter late = {.kind = LQ_LETTER_REPLY,
                                       .reply = {.correlation = last - i, .status = LIGHTQ_EEXISTS}};
        cluster_give_letter(cluster, id, controller, &late);
    }
    cluster_run_ms(cluster, 50);

    assert_int_equal(asked.answers, 0);
    sim_cut(cluster->sim, id - 1, controller - 1, false);
    cluster_wait(cluster, is_refused, &asked, 30);
    assert_int_equal(asked.status, LIGHTQ_OK);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_is_ready_when_its_catalog_is_as_new_as_the_controllers),
        cmocka_unit_test(test_node_that_knows_nobody_any_more_catches_up),
        cmocka_unit_test(test_founder_without_a_catalog_is_rebuilt_by_whom_it_does_not_know),
        cmocka_unit_test(test_nodes_that_joined_meanwhile_bring_it_up_to_date),
        cmocka_unit_test(test_node_whose_meta_replica_was_rebuilt_is_told_by_whom_it_does_not_know),
        cmocka_unit_test(test_check_peer_tells_later_directories_from_earlier_ones),
        cmocka_unit_test(test_node_that_is_not_named_yet_is_believed_in_little),
        cmocka_unit_test(test_node_that_was_replaced_by_itself_while_cut_off_ends),
        cmocka_unit_test(test_node_that_was_replaced_by_another_while_cut_off_ends),
        cmocka_unit_test(test_meta_replica_made_anew_does_not_end_the_node),
        cmocka_unit_test(test_sound_meta_replica_is_kept_until_its_successor_votes),
        cmocka_unit_test(test_cluster_cut_to_pieces_for_a_minute_writes_little),
        cmocka_unit_test(test_answer_to_the_process_before_answers_nothing),
    };
    return cmocka_run_group_tests_name("meta behind", tests, NULL, NULL);
}
