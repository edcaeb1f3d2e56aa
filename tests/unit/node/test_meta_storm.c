/* test_meta_storm.c - idempotent producers write to a cluster whose nodes crash, lose connections, are cut off,
 * damaged, emptied and replaced, from a seed. In the end every acknowledged batch is in the log once, at the offset
 * that was told, in its producer's order, and all replicas are equal. */
#include "node/queue/command.h"
#include "tests/unit/node/cluster_fixture.h"

#define CLIENTS        6
#define BATCHES_MAX    3000 /* of one client */
#define FLIGHT_MAX     5
#define PARTITIONS     3
#define STORM_MS       20000
#define CLIENT_STEP_MS 7
#define BATCH_BYTES    200

struct client;

struct batch {
    struct lq_partition_request request;
    struct client *client;
    uint64_t sequence;
    uint32_t count;
    bool in_flight, acked;
};

/* Writes to one partition; sends again, in order, what was not acknowledged. */
struct client {
    struct cluster *cluster;
    uint64_t id, group;
    struct batch *batches;
    unsigned made, acked; /* all before are acknowledged */
    unsigned next;        /* to be sent */
    unsigned in_flight;
    bool failed; /* one was refused: wait for those in flight, then go back */
    unsigned duplicates;
};

struct storm {
    struct cluster *cluster;
    struct client clients[CLIENTS];
    uint64_t random;
    unsigned kills, replaced, damaged;
    bool busy; /* a node is being rebuilt: no other harm meanwhile but crashes */
};

static uint64_t below(struct storm *storm, uint64_t bound)
{
    storm->random ^= storm->random >> 12;
    storm->random ^= storm->random << 25;
    storm->random ^= storm->random >> 27;
    return storm->random * UINT64_C(2685821657736338717) % bound;
}

/* ---- clients ---- */

static void on_batch(struct lq_partition_request *request, lightq_status status)
{
    struct batch *batch = request->data;
    struct client *client = batch->client;
    batch->in_flight = false;
    client->in_flight--;
    if (status == LIGHTQ_OK) {
        batch->acked = true;
        client->duplicates += request->duplicate;
    } else {
        client->failed = true;
        assert_true(status == LIGHTQ_ELEADERSHIPLOST || status == LIGHTQ_ENOTLEADER || status == LIGHTQ_ECLOSED ||
                    status == LIGHTQ_EOUTOFSEQUENCE || status == LIGHTQ_ESTOPPED);
    }
}

static bool send_batch(struct client *client, struct batch *batch)
{
    struct lq_partition *partition = leader_of(client->cluster, client->group, NULL);
    batch->request = (struct lq_partition_request){.slab = client->cluster->slab,
                                                   .size = BATCH_BYTES,
                                                   .batch_crc = (uint32_t)(client->id * 1000003 + batch->sequence),
                                                   .message_count = batch->count,
                                                   .producer_id = client->id,
                                                   .base_sequence = batch->sequence,
                                                   .expected_offset = LQ_OFFSET_ANY,
                                                   .cb = on_batch,
                                                   .data = batch};
    if (partition == NULL) {
        return false;
    }
    lightq_status status = lq_partition_produce(partition, &batch->request);
    if (status == LIGHTQ_OK) {
        batch->in_flight = true;
        client->in_flight++;
        return true;
    }
    assert_true(status == LIGHTQ_EOUTOFSEQUENCE || status == LIGHTQ_EBUSY || status == LIGHTQ_ENOTLEADER ||
                status == LIGHTQ_ESTOPPED);
    client->failed = true;
    return false;
}

static void step_client(struct storm *storm, struct client *client, bool more)
{
    while (client->acked < client->made && client->batches[client->acked].acked) {
        client->acked++;
    }
    if (client->failed) {
        if (client->in_flight > 0) {
            return;
        }
        client->failed = false;
        client->next = client->acked;
    }
    if (more && client->made < BATCHES_MAX && client->made - client->acked < FLIGHT_MAX) {
        const struct batch *last = client->made == 0 ? NULL : &client->batches[client->made - 1];
        client->batches[client->made++] = (struct batch){.client = client,
                                                         .sequence = last == NULL ? 0 : last->sequence + last->count,
                                                         .count = (uint32_t)below(storm, 4) + 1};
    }
    while (client->next < client->made && !client->failed && client->in_flight < FLIGHT_MAX) {
        struct batch *batch = &client->batches[client->next];
        if (batch->acked) {
            client->next++;
        } else if (!send_batch(client, batch)) {
            return;
        } else {
            client->next++;
        }
    }
}

static void step_clients(struct storm *storm, bool more)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        step_client(storm, &storm->clients[i], more);
    }
    cluster_run_ms(storm->cluster, CLIENT_STEP_MS);
}

/* ---- harm ---- */

static unsigned count_up(struct cluster *cluster)
{
    unsigned up = 0;
    for (unsigned id = 1; id <= 3; id++) {
        up += sim_is_up(member_of(cluster, id)->node);
    }
    return up;
}

static void kill_some(struct storm *storm)
{
    unsigned id = 1 + (unsigned)below(storm, 3);
    enum lq_io_mem_crash_mode mode = (enum lq_io_mem_crash_mode)below(storm, 3);
    bool all = below(storm, 12) == 0;
    for (unsigned i = 1; i <= 3; i++) {
        if ((i == id || all) && sim_is_up(member_of(storm->cluster, i)->node)) {
            sim_crash(member_of(storm->cluster, i)->node, mode);
            storm->kills++;
        }
    }
}

static void start_some(struct storm *storm)
{
    unsigned id = 1 + (unsigned)below(storm, 3);
    cluster_start(storm->cluster, id);
}

static void part_some(struct storm *storm)
{
    unsigned a = (unsigned)below(storm, 3);
    unsigned b = (a + 1 + (unsigned)below(storm, 2)) % 3;
    if (below(storm, 2) == 0) {
        sim_break(storm->cluster->sim, a, b, below(storm, 2) == 0, below(storm, 500000));
    } else {
        sim_cut(storm->cluster->sim, a, b, below(storm, 2) == 0);
    }
}

/* All is whole: one node is emptied, and said to be replaced. */
static void empty_one(struct storm *storm)
{
    struct cluster *cluster = storm->cluster;
    unsigned id = 1 + (unsigned)below(storm, 3);
    unsigned other = id % 3 + 1;
    cluster_kill(cluster, id);
    cluster_wipe(cluster, id);
    cluster_start(cluster, id);
    for (unsigned i = 0; i < 600; i++) {
        step_clients(storm, true);
    }
    assert_int_equal(replace_node(cluster, other, id, id), LIGHTQ_OK);
    storm->replaced++;
}

static void harm(struct storm *storm)
{
    switch (below(storm, 40)) {
    case 0:
        if (count_up(storm->cluster) == 3) {
            kill_some(storm);
        }
        break;
    case 1:
    case 2:
    case 3:
        start_some(storm);
        break;
    case 4:
        part_some(storm);
        break;
    case 5:
        sim_heal(storm->cluster->sim);
        break;
    default:
        break;
    }
}

static void recover(struct storm *storm)
{
    sim_heal(storm->cluster->sim);
    for (unsigned id = 1; id <= 3; id++) {
        cluster_start(storm->cluster, id);
    }
    for (unsigned i = 0; i < 40 * 1000 / CLIENT_STEP_MS && !all_settled(storm->cluster, NULL); i++) {
        step_clients(storm, false);
    }
    cluster_wait(storm->cluster, all_settled, NULL, 60);
}

/* ---- checks ---- */

struct reader {
    struct lq_rlog_read read;
    unsigned answers;
    lightq_status status;
    struct storm *storm;
    uint64_t next_index, next_offset;
    uint64_t sequences[CLIENTS + 1];
    uint64_t *offsets[CLIENTS + 1]; /* of each batch, by its place with the client */
    unsigned seen[CLIENTS + 1];
};

static void check_entry(struct reader *reader, const struct lq_entry *entry)
{
    struct lq_command command;
    assert_int_equal(entry->index, reader->next_index);
    reader->next_index++;
    if (entry->type != LQ_ENTRY_COMMAND) {
        return;
    }
    assert_int_equal(lq_command_decode(entry->payload, entry->payload_size, &command), LIGHTQ_OK);
    if (command.type != LQ_COMMAND_APPEND) {
        return;
    }
    uint64_t id = command.append.producer_id;
    const struct client *client = &reader->storm->clients[id - 1];
    const struct batch *batch = &client->batches[reader->seen[id]];
    assert_int_equal(entry->base_offset, reader->next_offset);
    assert_int_equal(command.append.sequence, reader->sequences[id]); /* once, in order, without a gap */
    assert_int_equal(batch->sequence, command.append.sequence);
    assert_int_equal(batch->count, entry->message_count);
    if (batch->acked) {
        assert_int_equal(batch->request.base_offset, entry->base_offset);
        assert_int_equal(batch->request.timestamp_ms, entry->timestamp_ms);
    }
    reader->seen[id]++;
    reader->sequences[id] += entry->message_count;
    reader->next_offset += entry->message_count;
}

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    struct reader *reader = read->data;
    reader->answers++;
    reader->status = status;
    for (size_t i = 0; status == LIGHTQ_OK && i < read->count; i++) {
        struct lq_entry entry;
        uint64_t size;
        struct lq_err err;
        assert_int_equal(
            lq_entry_decode(lq_entry_ref_bytes(&read->refs[i]), read->refs[i].size, true, &entry, &size, &err),
            LIGHTQ_OK);
        check_entry(reader, &entry);
    }
}

/* The whole log of one replica, from its disk. */
static void check_log(struct storm *storm, unsigned id, uint64_t group)
{
    struct lq_partition *partition = lq_meta_partition(member_of(storm->cluster, id)->meta, group);
    struct lq_rlog *log = lq_group_log(lq_partition_group(partition));
    struct reader reader = {.storm = storm, .next_index = 1};
    uint64_t last = lq_partition_applied(partition);
    assert_int_equal(lq_rlog_first(log), 1);
    while (reader.next_index <= last) {
        reader.read =
            (struct lq_rlog_read){.index = reader.next_index, .bytes_max = 64 * 1024, .cb = on_read, .data = &reader};
        reader.answers = 0;
        assert_int_equal(lq_rlog_read(log, &reader.read), LIGHTQ_OK);
        for (unsigned i = 0; i < 100 && reader.answers == 0; i++) {
            cluster_run_ms(storm->cluster, 5);
        }
        assert_int_equal(reader.answers, 1);
        assert_int_equal(reader.status, LIGHTQ_OK);
    }
    for (unsigned i = 0; i < CLIENTS; i++) { /* nothing acknowledged is missing */
        const struct client *client = &storm->clients[i];
        if (client->group == group) {
            assert_true(reader.seen[client->id] >= client->acked);
        }
    }
}

static bool all_acked(const struct storm *storm)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (storm->clients[i].acked < storm->clients[i].made) {
            return false;
        }
    }
    return true;
}

static void run_storm(uint64_t seed, bool reorder, bool empties)
{
    const struct cluster_options options = {
        .nodes = 3, .founders = 3, .seed = seed, .reorder = reorder, .segment_bytes = 32 * 1024};
    struct storm storm = {.cluster = cluster_new(&options), .random = seed * 7919 + 1};
    struct equal equal = {.name = "t", .replicas = 3};
    unsigned duplicates = 0;
    cluster_up(storm.cluster, 3);
    assert_int_equal(create_topic(storm.cluster, 1, "t", PARTITIONS, 3), LIGHTQ_OK);
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(member_of(storm.cluster, 1)->meta), "t");
    for (unsigned i = 0; i < CLIENTS; i++) {
        storm.clients[i] = (struct client){.cluster = storm.cluster,
                                           .id = i + 1,
                                           .group = topic->partitions[i % PARTITIONS].group,
                                           .batches = calloc(BATCHES_MAX, sizeof(struct batch))};
        assert_non_null(storm.clients[i].batches);
    }
    uint64_t groups[PARTITIONS];
    print_message("seed %llu: ", (unsigned long long)seed);
    for (unsigned p = 0; p < PARTITIONS; p++) {
        groups[p] = topic->partitions[p].group;
    }

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned ms = 0; ms < STORM_MS / 3; ms += CLIENT_STEP_MS) {
            step_clients(&storm, true);
            harm(&storm);
        }
        recover(&storm);
        if (empties) {
            empty_one(&storm);
            recover(&storm);
        }
    }
    for (unsigned i = 0; i < 5000 && !all_acked(&storm); i++) {
        step_clients(&storm, false);
    }

    assert_true(all_acked(&storm));
    cluster_wait(storm.cluster, replicas_equal, &equal, 20);
    for (unsigned p = 0; p < PARTITIONS; p++) {
        for (unsigned id = 1; id <= 3; id++) {
            check_log(&storm, id, groups[p]);
        }
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        duplicates += storm.clients[i].duplicates;
        assert_true(storm.clients[i].acked > 100);
    }
    print_message("%u kills, %u replaced, %u duplicates answered\n", storm.kills, storm.replaced, duplicates);
    assert_true(storm.kills > 2);
    cluster_free(storm.cluster);
    for (unsigned i = 0; i < CLIENTS; i++) {
        free(storm.clients[i].batches);
    }
}

/* LQ_STORM_FROM=n runs other seeds, for a search. */
static uint64_t first_seed(uint64_t otherwise)
{
    const char *from = getenv("LQ_STORM_FROM");
    return from == NULL ? otherwise : otherwise + strtoull(from, NULL, 10) * 1000;
}

/* Cases B4, G1, G3, G5: state and index part, a retry is stored twice or overtaken, after restarts too. */
static void test_storm_of_crashes_and_cuts_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        run_storm(first_seed(1) + i, false, false);
    }
}

static void test_storm_with_lost_and_doubled_messages_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        run_storm(first_seed(101) + i, true, false);
    }
}

static void test_storm_with_emptied_nodes_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        run_storm(first_seed(201) + i, false, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storm_of_crashes_and_cuts_loses_nothing),
        cmocka_unit_test(test_storm_with_lost_and_doubled_messages_loses_nothing),
        cmocka_unit_test(test_storm_with_emptied_nodes_loses_nothing),
    };
    return cmocka_run_group_tests_name("meta storm", tests, NULL, NULL);
}
