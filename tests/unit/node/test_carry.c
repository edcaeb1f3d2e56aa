/* tests/unit/node/test_carry.c - node/carry.c between nodes: a batch is stored by whoever leads its partition, once,
 * also when its answer was lost or the leader is another one meanwhile. */
#include "tests/unit/node/cluster_fixture.h"

#include "client/wire/batch.h"
#include "node/carry.h"
#include "node/options.h"

#define NODES 3

struct carriers {
    struct cluster *cluster;
    struct lq_options options[NODES];
    struct lq_service services[NODES];
    struct lq_carry *carries[NODES];
    uint64_t group;
};

struct carried {
    struct lq_carry_request request;
    unsigned answers;
    lightq_status status;
};

static void on_carried(struct lq_carry_request *request, lightq_status status)
{
    struct carried *carried = request->data;
    carried->answers++;
    carried->status = status;
}

static struct carriers *up(uint64_t seed)
{
    const struct cluster_options options = {.nodes = NODES, .founders = NODES, .seed = seed};
    struct carriers *carriers = calloc(1, sizeof *carriers);
    assert_non_null(carriers);
    carriers->cluster = cluster_new(&options);
    cluster_up(carriers->cluster, NODES);
    assert_int_equal(create_topic(carriers->cluster, 1, "t", 1, NODES), LIGHTQ_OK);
    const struct lq_catalog *catalog = lq_meta_catalog(member_of(carriers->cluster, 1)->meta);
    carriers->group = lq_catalog_topic(catalog, "t")->partitions[0].group;
    for (unsigned i = 0; i < NODES; i++) {
        struct member *member = member_of(carriers->cluster, i + 1);
        carriers->options[i] = (struct lq_options){.node_id = i + 1, .shards = 1};
        carriers->services[i] =
            (struct lq_service){.options = &carriers->options[i], .clock = &member->node->clock, .meta = member->meta};
        assert_int_equal(lq_carry_new(&carriers->services[i], &carriers->carries[i]), LIGHTQ_OK);
        lq_carry_tick(carriers->carries[i]);
    }
    return carriers;
}

static void down(struct carriers *carriers)
{
    cluster_free(carriers->cluster);
    for (unsigned i = 0; i < NODES; i++) {
        carriers->services[i].meta = NULL;
        lq_carry_free(carriers->carries[i]);
    }
    free(carriers);
}

static struct lq_slab *batch_of(uint64_t sequence)
{
    struct lq_batch_writer writer;
    struct lq_slab *batch;
    lq_batch_writer_init(&writer, LQ_ENTRY_BYTES_MAX);
    assert_int_equal(lq_batch_writer_add(&writer, 1, lq_span_of(NULL, 0), lq_span_of("v", 1), NULL, 0), LIGHTQ_OK);
    assert_int_equal(lq_batch_writer_seal(&writer, 9, 0, sequence, LQ_BATCH_PLAIN, &batch), LIGHTQ_OK);
    lq_batch_writer_deinit(&writer);
    return batch;
}

static bool is_answered(struct cluster *cluster, void *data)
{
    (void)cluster;
    return ((const struct carried *)data)->answers > 0;
}

static bool has_leader(struct cluster *cluster, void *data)
{
    unsigned id;
    return leader_of(cluster, *(uint64_t *)data, &id) != NULL;
}

/* From node @from, answered. */
static lightq_status carry(struct carriers *carriers, unsigned from, uint64_t sequence)
{
    struct carried carried = {.request = {.group = carriers->group, .slab = batch_of(sequence), .cb = on_carried}};
    carried.request.data = &carried;
    lightq_status status = lq_carry_store(carriers->carries[from - 1], &carried.request);
    if (status == LIGHTQ_OK) {
        cluster_wait(carriers->cluster, is_answered, &carried, 10);
        assert_int_equal(carried.answers, 1);
        status = carried.status;
    }
    lq_slab_unref(carried.request.slab);
    return status;
}

static uint64_t end_at_leader(struct carriers *carriers)
{
    unsigned id;
    struct lq_partition *partition = leader_of(carriers->cluster, carriers->group, &id);
    assert_non_null(partition);
    return lq_partition_end(partition);
}

static void test_carry_from_every_node_stores_each_batch_once(void **state)
{
    (void)state;
    struct carriers *carriers = up(1);
    cluster_wait(carriers->cluster, has_leader, &carriers->group, 20);

    for (unsigned from = 1; from <= NODES; from++) {
        assert_int_equal(carry(carriers, from, from - 1), LIGHTQ_OK);
    }
    assert_int_equal(end_at_leader(carriers), NODES);
    for (unsigned from = 1; from <= NODES; from++) { /* who does not know asks again */
        assert_int_equal(carry(carriers, from, from - 1), LIGHTQ_OK);
    }
    assert_int_equal(end_at_leader(carriers), NODES);
    assert_int_equal(carry(carriers, 1, 77), LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(carry(carriers, 2, 77), LIGHTQ_EOUTOFSEQUENCE);
    assert_int_equal(carry(carriers, 3, 77), LIGHTQ_EOUTOFSEQUENCE);

    down(carriers);
}

static void test_carry_without_an_answer_is_given_up_in_time(void **state)
{
    (void)state;
    struct carriers *carriers = up(2);
    unsigned leader;
    cluster_wait(carriers->cluster, has_leader, &carriers->group, 20);
    (void)leader_of(carriers->cluster, carriers->group, &leader);
    unsigned from = leader % NODES + 1;
    struct carried carried = {.request = {.group = carriers->group, .slab = batch_of(0), .cb = on_carried}};
    carried.request.data = &carried;
    assert_int_equal(lq_carry_store(carriers->carries[from - 1], &carried.request), LIGHTQ_OK);
    carriers->services[leader - 1].meta = NULL;
    cluster_kill(carriers->cluster, leader);

    cluster_run_ms(carriers->cluster, 6000);
    assert_int_equal(carried.answers, 0);
    lq_carry_tick(carriers->carries[from - 1]);

    assert_int_equal(carried.answers, 1);
    assert_int_equal(carried.status, LIGHTQ_ETIMEDOUT);
    lq_slab_unref(carried.request.slab);
    cluster_wait(carriers->cluster, has_leader, &carriers->group, 20);
    assert_int_equal(carry(carriers, from, 0), LIGHTQ_OK); /* by the next leader */
    assert_int_equal(end_at_leader(carriers), 1);

    down(carriers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_carry_from_every_node_stores_each_batch_once),
        cmocka_unit_test(test_carry_without_an_answer_is_given_up_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
