/* tests/unit/node/test_neighbours.c - the shards of one node, in one thread: each a part in the cluster, a host and a
 * store of its own, with mail that the test delivers, keeps back or refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/log.h"
#include "node/house.h"
#include "node/meta_internal.h"
#include "storage/io_mem.h"
#include "tests/unit/node/lone_node.h"

#define SHARDS    3
#define WAIT_MS   20000
#define MAILS_MAX 256

struct node;

struct shard {
    struct lq_house house; /* first */
    struct node *node;
    unsigned number;
    struct lq_mail *box[MAILS_MAX];
    size_t count;
    bool held;    /* its mail waits */
    bool refuses; /* offers */
    struct lq_identity identity;
    struct lq_store *store;
    struct lq_host *host;
    struct lq_meta *meta;
    bool ready, store_closed;
};

struct node {
    struct hand_clock clock;
    struct lq_link link;
    struct lq_io_mem *disk;
    struct shard shards[SHARDS];
};

/* ---- the house */

static void on_put(struct lq_house *house, unsigned to, struct lq_mail *mail)
{
    struct shard *there = &((struct shard *)house)->node->shards[to];
    assert_true(there->count < MAILS_MAX);
    there->box[there->count++] = mail;
}

static lightq_status on_offer(struct lq_house *house, unsigned to, struct lq_mail *mail)
{
    if (((struct shard *)house)->node->shards[to].refuses) {
        return LIGHTQ_EBUSY;
    }
    on_put(house, to, mail);
    return LIGHTQ_OK;
}

static const struct lq_house_ops house_ops = {.offer = on_offer, .put = on_put};

static void deliver(struct shard *shard)
{
    size_t count = shard->count;
    struct lq_mail *box[MAILS_MAX];
    memcpy(box, shard->box, sizeof box);
    shard->count = 0;
    for (size_t i = 0; i < count; i++) {
        box[i]->open(box[i], &shard->house, shard->meta);
    }
}

static void on_store_closed(void *data)
{
    ((struct shard *)data)->store_closed = true;
}

/* ---- life */

static const struct lq_endpoint client = {.host = "127.0.0.1", .port = 1000};
static const struct lq_endpoint peer = {.host = "127.0.0.1", .port = 2000};

static void open_shard(struct node *node, unsigned number)
{
    struct shard *shard = &node->shards[number];
    struct lq_err err;
    char dir[16] = "";
    if (number > 0) {
        (void)snprintf(dir, sizeof dir, "shard-%u", number);
    }
    shard->house.ops = &house_ops;
    shard->node = node;
    shard->number = number;
    shard->identity = node->shards[0].identity;
    const struct lq_store_options store = {
        .dir = dir, .shard = number, .segment_bytes = 1 << 20, .cluster = shard->identity.cluster};
    struct lq_io *io = lq_io_mem_io(node->disk);
    assert_int_equal(lq_store_open(io, &node->clock.clock, &store, &shard->store, &err), LIGHTQ_OK);
    struct lq_meta_options meta = {.identity = &shard->identity,
                                   .io = io,
                                   .store = shard->store,
                                   .client = client,
                                   .peer = peer,
                                   .shard = number,
                                   .shards = SHARDS,
                                   .house = &shard->house};
    lone_open(&node->clock, &node->link, &meta, &shard->ready, &shard->meta, &shard->host);
}

/* What a turn of the shard's loop does. */
static void turn_shard(struct shard *shard)
{
    if (!shard->held) {
        deliver(shard);
    }
    if (shard->meta != NULL) {
        lone_turn(&shard->node->clock, shard->meta, shard->host);
    }
}

static void run_ms(struct node *node, unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        node->clock.now_us += LONE_STEP_US;
        for (unsigned j = 0; j < SHARDS; j++) {
            turn_shard(&node->shards[j]);
        }
        (void)lq_io_mem_run_all(node->disk);
    }
}

static void wait_for(struct node *node, const bool *condition)
{
    for (unsigned i = 0; i < WAIT_MS && !*condition; i++) {
        run_ms(node, 1);
    }
    assert_true(*condition);
}

static int setup(void **state)
{
    struct node *node = calloc(1, sizeof *node);
    assert_non_null(node);
    lq_log_configure(LQ_LOG_OFF, 2);
    hand_clock_init(&node->clock);
    node->link.ops = &lone_link_ops;
    node->disk = lq_io_mem_new();
    assert_non_null(node->disk);
    lone_form(&node->clock, lq_io_mem_io(node->disk), &node->link, SHARDS, &client, &peer, &node->shards[0].identity);
    for (unsigned i = 0; i < SHARDS; i++) {
        open_shard(node, i);
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        wait_for(node, &node->shards[i].ready);
    }
    *state = node;
    return 0;
}

static int teardown(void **state)
{
    struct node *node = *state;
    for (unsigned i = 0; i < SHARDS; i++) {
        node->shards[i].held = false;
        if (node->shards[i].meta != NULL) {
            lq_meta_close(node->shards[i].meta);
        }
    }
    run_ms(node, 10);
    for (unsigned i = 0; i < SHARDS; i++) {
        struct shard *shard = &node->shards[i];
        if (shard->meta != NULL) {
            assert_true(lq_meta_is_quiet(shard->meta));
            lq_meta_free(shard->meta);
        }
        lq_host_free(shard->host);
        lq_store_close(shard->store, on_store_closed, shard);
        (void)lq_io_mem_run_all(node->disk);
        assert_true(shard->store_closed);
        assert_int_equal(shard->count, 0); /* all mail was opened */
    }
    assert_int_equal(lq_io_mem_open_files(node->disk), 0);
    lq_io_mem_free(node->disk);
    free(node);
    return 0;
}

/* ---- requests */

struct asked {
    struct lq_meta_request request;
    bool answered;
    lightq_status status;
};

static void on_answered(struct lq_meta_request *request, lightq_status status)
{
    struct asked *asked = request->data;
    assert_false(asked->answered);
    asked->answered = true;
    asked->status = status;
}

static lightq_status ask(struct node *node, unsigned shard, struct asked *asked, enum lq_meta_verb verb,
                         const char *name)
{
    asked->answered = false;
    asked->request.verb = verb;
    asked->request.name = name;
    asked->request.cb = on_answered;
    asked->request.data = asked;
    return lq_meta_submit(node->shards[shard].meta, &asked->request);
}

static void create(struct node *node, unsigned shard, const char *name, uint32_t partitions)
{
    struct asked asked = {.request = {.partitions = partitions, .replicas = 1}};
    assert_int_equal(ask(node, shard, &asked, LQ_META_TOPIC_CREATE, name), LIGHTQ_OK);
    wait_for(node, &asked.answered);
    assert_int_equal(asked.status, LIGHTQ_OK);
    assert_int_equal(asked.request.count, partitions);
}

static const struct lq_catalog *catalog_of(struct node *node, unsigned shard)
{
    return lq_meta_catalog(node->shards[shard].meta);
}

/* ---- tests */

static void test_neighbours_know_the_catalog_and_all_leaders(void **state)
{
    struct node *node = *state;

    create(node, 2, "t", 7);
    run_ms(node, 300);

    for (unsigned i = 0; i < SHARDS; i++) {
        struct lq_meta *meta = node->shards[i].meta;
        struct lq_meta_counts counts;
        const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_of(node, i), "t");
        assert_non_null(topic);
        assert_int_equal(topic->partition_count, 7);
        assert_true(lq_catalog_version(catalog_of(node, i)) == lq_catalog_version(catalog_of(node, 0)));
        assert_int_equal(lq_meta_leader(meta, LQ_META_GROUP).node, 1);
        for (unsigned p = 0; p < 7; p++) {
            uint64_t group = topic->partitions[p].group;
            struct lq_leader leader = lq_meta_leader(meta, group);
            assert_int_equal(leader.node, 1);
            assert_true(leader.term == lq_meta_leader(node->shards[group % SHARDS].meta, group).term);
            assert_int_equal(lq_meta_is_mine(meta, group), group % SHARDS == i);
            assert_int_equal(lq_meta_partition(meta, group) != NULL, group % SHARDS == i);
        }
        lq_meta_count(meta, &counts);
        assert_int_equal(counts.replicas, 7);
        assert_int_equal(counts.leading, 7);
        assert_int_equal(counts.leaderless, 0);
    }
}

static void test_neighbours_have_files_of_their_own(void **state)
{
    struct node *node = *state;
    create(node, 0, "t", 6);

    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_of(node, 0), "t");
    for (unsigned p = 0; p < 6; p++) {
        uint64_t group = topic->partitions[p].group;
        for (unsigned i = 0; i < SHARDS; i++) {
            assert_int_equal(lq_store_find(node->shards[i].store, group) != NULL, group % SHARDS == i);
        }
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        assert_int_equal(lq_store_find(node->shards[i].store, LQ_META_GROUP) != NULL, i == 0);
    }
}

/* A shard that does not read its mail gets the newest later, not everything. */
static void test_neighbours_queue_nothing_for_a_slow_shard(void **state)
{
    struct node *node = *state;
    node->shards[2].held = true;

    struct asked asked[3] = {0};
    const char *const names[] = {"a", "b", "c"};
    for (unsigned i = 0; i < 3; i++) {
        asked[i].request.partitions = 3;
        assert_int_equal(ask(node, 0, &asked[i], LQ_META_TOPIC_CREATE, names[i]), LIGHTQ_OK);
        run_ms(node, 500);
        assert_false(asked[i].answered); /* the partition on shard 2 has no leader */
    }
    assert_true(node->shards[2].count <= 4); /* a bulletin of each of the others, and its own on the way home */
    assert_null(lq_catalog_topic(catalog_of(node, 2), "a"));
    node->shards[2].held = false;

    for (unsigned i = 0; i < 3; i++) {
        wait_for(node, &asked[i].answered);
        assert_int_equal(asked[i].status, LIGHTQ_OK);
    }
    assert_non_null(lq_catalog_topic(catalog_of(node, 2), "c"));
}

static void test_neighbours_deletion_waits_for_every_shard(void **state)
{
    struct node *node = *state;
    create(node, 0, "t", 3);
    node->shards[2].held = true;
    struct asked asked = {0};
    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_DELETE, "t"), LIGHTQ_OK);

    run_ms(node, 1000);
    assert_null(lq_catalog_topic(catalog_of(node, 0), "t"));
    assert_null(lq_catalog_topic(catalog_of(node, 1), "t"));
    assert_false(asked.answered); /* on shard 2 it goes on taking messages */
    node->shards[2].held = false;
    wait_for(node, &asked.answered);

    assert_int_equal(asked.status, LIGHTQ_OK);
    assert_null(lq_catalog_topic(catalog_of(node, 2), "t"));
    run_ms(node, 300);
    for (unsigned i = 0; i < SHARDS; i++) {
        assert_int_equal(lq_store_count(node->shards[i].store), i == 0 ? 1 : 0);
    }
}

static void test_neighbours_refusals_come_back_as_they_are(void **state)
{
    struct node *node = *state;
    create(node, 0, "t", 3);
    struct asked asked = {.request = {.partitions = 1, .replicas = 1}};

    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_CREATE, "t"), LIGHTQ_OK);
    wait_for(node, &asked.answered);
    assert_int_equal(asked.status, LIGHTQ_EEXISTS);
    assert_non_null(strstr(asked.request.err.text, "exists already"));
    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_CREATE, "no name"), LIGHTQ_ENAME);

    node->shards[0].refuses = true;
    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_DELETE, "t"), LIGHTQ_EBUSY);
    run_ms(node, 100);
    assert_false(asked.answered);
    node->shards[0].refuses = false;
    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_DELETE, "t"), LIGHTQ_OK);
    wait_for(node, &asked.answered);
    assert_int_equal(asked.status, LIGHTQ_OK);
}

static void test_neighbours_hand_leaderships_over_where_the_group_is(void **state)
{
    struct node *node = *state;
    create(node, 0, "t", 3);
    struct asked asked = {.request = {.to = 1}};

    for (uint32_t p = 0; p < 3; p++) {
        asked.request.partition = p;
        for (unsigned i = 0; i < SHARDS; i++) {
            assert_int_equal(ask(node, i, &asked, LQ_META_LEADER_TRANSFER, "t"), LIGHTQ_OK);
            wait_for(node, &asked.answered);
            assert_int_equal(asked.status, LIGHTQ_OK); /* it leads already: only its shard can know */
        }
    }
    asked.request.partition = 3;
    assert_int_equal(ask(node, 2, &asked, LQ_META_LEADER_TRANSFER, "t"), LIGHTQ_OK);
    wait_for(node, &asked.answered);
    assert_int_equal(asked.status, LIGHTQ_ENOTFOUND);
}

/* ---- looking at replicas */

struct look {
    struct lq_meta_inspect inspect;
    uint64_t groups[8];
    bool answered;
    lightq_status status;
    size_t count, leaders;
};

static void on_looked(struct lq_meta_inspect *inspect, lightq_status status)
{
    struct look *look = inspect->data;
    assert_false(look->answered);
    look->answered = true;
    look->status = status;
    look->count = inspect->report_count;
    for (size_t i = 0; i < inspect->report_count; i++) {
        look->leaders += inspect->reports[i].answered && inspect->reports[i].role == LQ_REPLICA_LEADER;
    }
}

static void look_at(struct node *node, unsigned shard, struct look *look, const char *name)
{
    const struct lq_catalog_topic *topic = lq_catalog_topic(catalog_of(node, shard), name);
    *look = (struct look){.answered = false};
    look->inspect = (struct lq_meta_inspect){.groups = look->groups, .cb = on_looked, .data = look};
    look->groups[look->inspect.group_count++] = LQ_META_GROUP;
    for (uint32_t p = 0; p < topic->partition_count; p++) {
        look->groups[look->inspect.group_count++] = topic->partitions[p].group;
    }
    assert_int_equal(lq_meta_inspect(node->shards[shard].meta, &look->inspect), LIGHTQ_OK);
}

static void test_neighbours_see_each_others_replicas(void **state)
{
    struct node *node = *state;
    create(node, 0, "t", 7);
    run_ms(node, 300);

    for (unsigned i = 0; i < SHARDS; i++) {
        struct look look;
        look_at(node, i, &look, "t");
        wait_for(node, &look.answered);

        assert_int_equal(look.status, LIGHTQ_OK);
        assert_int_equal(look.count, 8);
        assert_int_equal(look.leaders, 8);
    }
}

static void test_neighbours_replicas_of_a_shard_that_is_too_busy_are_unanswered(void **state)
{
    struct node *node = *state;
    struct look look;
    create(node, 0, "t", 6);
    run_ms(node, 300);
    node->shards[1].refuses = true;

    look_at(node, 0, &look, "t");
    wait_for(node, &look.answered);

    assert_int_equal(look.count, 7);
    assert_int_equal(look.leaders, 5);
}

/* What others have of a shard's is waited for, however long; its memory cannot go before. */
static void test_neighbours_wait_for_their_mail_before_they_go(void **state)
{
    struct node *node = *state;
    struct look look;
    struct asked asked = {.request = {.partitions = 3, .replicas = 1}};
    create(node, 0, "t", 6);
    run_ms(node, 300);
    node->shards[0].held = true;
    look_at(node, 1, &look, "t");
    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_CREATE, "u"), LIGHTQ_OK);
    run_ms(node, 5000); /* beyond the time of looking */
    assert_false(look.answered);

    lq_meta_close(node->shards[1].meta);
    struct asked late = {0};
    assert_int_equal(ask(node, 1, &late, LQ_META_TOPIC_DELETE, "t"), LIGHTQ_ECLOSED);
    run_ms(node, 100);
    assert_false(lq_meta_is_quiet(node->shards[1].meta));
    node->shards[0].held = false;
    wait_for(node, &look.answered);
    lq_meta_close(node->shards[0].meta); /* what it holds for others is answered */
    wait_for(node, &asked.answered);
    run_ms(node, 10);

    assert_int_equal(look.status, LIGHTQ_ECLOSED);
    assert_int_equal(asked.status, LIGHTQ_ECLOSED);
    assert_true(lq_meta_is_quiet(node->shards[1].meta));
}

static void test_neighbours_that_are_gone_answer_that_they_are(void **state)
{
    struct node *node = *state;
    struct asked asked = {.request = {.partitions = 1, .replicas = 1}};
    struct look look;
    create(node, 0, "t", 6);
    run_ms(node, 300);
    lq_meta_close(node->shards[0].meta);
    run_ms(node, 10);
    assert_true(lq_meta_is_quiet(node->shards[0].meta));
    lq_meta_free(node->shards[0].meta);
    node->shards[0].meta = NULL;

    assert_int_equal(ask(node, 1, &asked, LQ_META_TOPIC_CREATE, "u"), LIGHTQ_OK);
    wait_for(node, &asked.answered);
    assert_int_equal(asked.status, LIGHTQ_ECLOSED);
    look_at(node, 1, &look, "t");
    wait_for(node, &look.answered);
    assert_int_equal(look.leaders, 4); /* of shards 1 and 2 */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_neighbours_know_the_catalog_and_all_leaders),
        TEST(test_neighbours_have_files_of_their_own),
        TEST(test_neighbours_queue_nothing_for_a_slow_shard),
        TEST(test_neighbours_deletion_waits_for_every_shard),
        TEST(test_neighbours_refusals_come_back_as_they_are),
        TEST(test_neighbours_hand_leaderships_over_where_the_group_is),
        TEST(test_neighbours_see_each_others_replicas),
        TEST(test_neighbours_replicas_of_a_shard_that_is_too_busy_are_unanswered),
        TEST(test_neighbours_wait_for_their_mail_before_they_go),
        TEST(test_neighbours_that_are_gone_answer_that_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
