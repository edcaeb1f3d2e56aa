/* tests/unit/node/cluster_fixture.c - see cluster_fixture.h. */
#include "tests/unit/node/cluster_fixture.h"

#include "client/base/log.h"
#include "tests/lib/sim_parts.h"

#define PULSE_US      5000
#define PRODUCE_TRIES 400
#define BATCH_BYTES   200
#define CLIENT_PORT   5600 /* node i has i more */
#define PEER_PORT     5700

struct member *member_of(struct cluster *cluster, unsigned id)
{
    return &cluster->members[id - 1];
}

static struct member *of_node(struct sim_node *node)
{
    return node->data;
}

/* ---- events of a node ---- */

static void on_done(void *owner)
{
    ((struct member *)owner)->formed = true;
}

static void on_waiting(void *owner, const struct lq_err *err)
{
    ((struct member *)owner)->waiting = *err;
}

static void on_failed(void *owner, const struct lq_err *err)
{
    struct member *member = owner;
    sim_fail(member->cluster->sim, "node %u cannot write its identity: %s", member->node->id, err->text);
}

static const struct lq_forming_events forming_events = {.done = on_done, .waiting = on_waiting, .failed = on_failed};

/* Addresses are known to everybody here. A connection with who is not, or no longer, the node ends. */
static void on_peer(void *owner, const struct lq_catalog_node *node)
{
    const struct member *member = owner;
    struct cluster *cluster = member->cluster;
    if (node->id > sim_nodes(cluster->sim)) {
        return;
    }
    const struct lq_id *is = &cluster->members[node->id - 1].identity.uuid;
    if (node->state != LQ_NODE_ACTIVE || (!lq_id_is_zero(&node->uuid) && !lq_id_equal(&node->uuid, is))) {
        sim_break(cluster->sim, member->node->id - 1, node->id - 1, false, 0);
    }
}

static void on_ready(void *owner)
{
    ((struct member *)owner)->ready = true;
}

static void on_expelled(void *owner, const struct lq_err *err)
{
    struct member *member = owner;
    member->expelled = true;
    member->expelled_err = *err;
}

static const struct lq_meta_events meta_events = {.peer = on_peer, .ready = on_ready, .expelled = on_expelled};

/* What the transport does with a hello of @other. */
static bool on_admit(struct sim_node *node, struct sim_node *other)
{
    struct member *here = of_node(node);
    struct member *there = of_node(other);
    const struct lq_identity *identity = &there->identity;
    struct lq_err err = {.text = ""};
    struct lq_hello hello = {
        .kind = LQ_HELLO_ASK, .node = other->id, .to = node->id, .uuid = identity->uuid, .boot_count = identity->boot};
    lightq_status status = LIGHTQ_OK;
    if (identity->state == LQ_IDENTITY_MEMBER) {
        hello.cluster = identity->cluster;
        hello.admission = identity->meta_incarnation;
    }
    if (here->meta != NULL) {
        status = lq_meta_check_peer(here->meta, &hello, &err);
    } else if (here->forming != NULL) {
        status = lq_forming_check_peer(here->forming, &hello, &err);
    }
    if (status == LIGHTQ_EREPLACED && there->meta != NULL) {
        lq_meta_replaced(there->meta, node->id, err.text);
    } else if (status != LIGHTQ_OK && there->forming != NULL) {
        lq_forming_rejected(there->forming, node->id, status, err.text);
    }
    return status == LIGHTQ_OK;
}

static lightq_status on_node_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    const struct member *member = of_node(owner);
    return sim_parts_node_frame(member->meta, member->forming, node, frame);
}

static void on_link_changed(void *owner, uint32_t node, bool up)
{
    const struct member *member = of_node(owner);
    sim_parts_link_changed(member->meta, member->forming, node, up);
}

/* ---- starting and stopping ---- */

static void begin_meta(struct member *member)
{
    struct sim_node *node = member->node;
    struct lq_err err = {.text = ""};
    const struct lq_meta_options options = {.identity = &member->identity,
                                            .io = lq_io_mem_io(node->disk),
                                            .clock = &node->clock,
                                            .store = node->store,
                                            .link = &node->link,
                                            .client = sim_parts_endpoint(CLIENT_PORT + member->port_shift + node->id),
                                            .peer = sim_parts_endpoint(PEER_PORT + member->port_shift + node->id),
                                            .transfer_after_ms = 2000,
                                            .retain_ms = 500};
    lightq_status status = lq_meta_new(&options, &meta_events, member, &member->meta, &err);
    assert_int_equal(status, LIGHTQ_OK);
    status = lq_meta_start(member->meta, node->host, &err);
    if (status != LIGHTQ_OK) {
        sim_fail(member->cluster->sim, "node %u does not start: %s", node->id, err.text);
    }
    sim_parts_tell_links(node, member->meta);
}

static void begin_forming(struct member *member)
{
    struct sim_node *node = member->node;
    struct lq_err err;
    const struct lq_forming_options options = {.identity = &member->identity,
                                               .io = lq_io_mem_io(node->disk),
                                               .clock = &node->clock,
                                               .link = &node->link,
                                               .expect = member->cluster->founders,
                                               .seed_count = MEMBERS_MAX - 1, /* it only joins */
                                               .client = sim_parts_endpoint(CLIENT_PORT + node->id),
                                               .peer = sim_parts_endpoint(PEER_PORT + node->id)};
    assert_int_equal(lq_forming_new(&options, &forming_events, member, &member->forming, &err), LIGHTQ_OK);
}

static void on_start(struct sim_node *node)
{
    struct member *member = of_node(node);
    struct lq_io *io = lq_io_mem_io(node->disk);
    struct lq_err err;
    if (!lq_io_mem_exists(node->disk, "node")) {
        if (node->id <= member->cluster->founders && !member->formed) {
            sim_parts_make_founder(node, member->cluster->founders, CLIENT_PORT, PEER_PORT, &member->identity);
            member->formed = true;
        } else {
            lq_identity_make(node->id, 1, &node->clock, &member->identity);
        }
    } else {
        assert_int_equal(lq_identity_load(io, node->id, &member->identity, &err), LIGHTQ_OK);
    }
    assert_int_equal(lq_identity_boot(io, &member->identity, &err), LIGHTQ_OK);
    member->ready = member->expelled = false;
    if (member->identity.state == LQ_IDENTITY_MEMBER) {
        begin_meta(member);
    } else {
        member->formed = false;
        begin_forming(member);
    }
}

static void on_stop(struct sim_node *node)
{
    struct member *member = of_node(node);
    lq_meta_free(member->meta);
    lq_forming_free(member->forming);
    member->meta = NULL;
    member->forming = NULL;
}

static void pulse_member(struct member *member)
{
    if (!sim_is_up(member->node)) {
        return;
    }
    if (member->forming != NULL) {
        lq_forming_tick(member->forming);
        if (member->identity.state == LQ_IDENTITY_MEMBER) {
            lq_forming_free(member->forming);
            member->forming = NULL;
            sim_parts_say_hello_again(member->node);
            begin_meta(member);
        }
    }
    if (member->meta != NULL) {
        lq_meta_tick(member->meta);
    }
    if (member->expelled) { /* the process ends, as server.c does it */
        sim_crash(member->node, LQ_IO_MEM_LOSE);
        return;
    }
    sim_touch(member->node);
}

static void pulse(struct sim *sim, void *data)
{
    struct cluster *cluster = data;
    for (unsigned i = 0; i < sim_nodes(sim); i++) {
        pulse_member(&cluster->members[i]);
    }
    sim_plan(sim, PULSE_US, pulse, cluster);
}

struct cluster *cluster_new(const struct cluster_options *options)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    assert_non_null(cluster);
    lq_log_configure(getenv("LQ_TEST_LOG") != NULL ? LQ_LOG_INFO : LQ_LOG_OFF, 2);
    cluster->founders = options->founders;
    const struct sim_options sim = {
        .seed = options->seed,
        .nodes = options->nodes,
        .reorder = options->reorder,
        .drop_per_mille = options->reorder ? 10 : 0,
        .double_per_mille = options->reorder ? 10 : 0,
        .delay_min_us = 50,
        .delay_max_us = 400,
        .store = {.dir = "",
                  .cluster = sim_parts_cluster,
                  .segment_bytes = options->segment_bytes == 0 ? 64 * 1024 : options->segment_bytes,
                  .scrub_bytes_per_second = options->scrub ? 16 * 1024 * 1024 : 0,
                  .scrub_interval_ms = 500},
        .events = {.node_frame = on_node_frame, .link_changed = on_link_changed},
        .admit = on_admit,
        .start = on_start,
        .stop = on_stop,
        .data = cluster,
    };
    cluster->sim = sim_new(&sim);
    cluster->slab = lq_slab_new(BATCH_BYTES);
    assert_non_null(cluster->slab);
    memset(cluster->slab->bytes, 0x42, BATCH_BYTES);
    for (unsigned i = 0; i < options->nodes; i++) {
        cluster->members[i] = (struct member){.cluster = cluster, .node = sim_node_at(cluster->sim, i)};
        cluster->members[i].node->data = &cluster->members[i];
    }
    sim_plan(cluster->sim, PULSE_US, pulse, cluster);
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (sim_failure(cluster->sim) != NULL) {
        fail_msg("%s", sim_failure(cluster->sim));
    }
    sim_free(cluster->sim);
    lq_slab_unref(cluster->slab);
    free(cluster);
}

void cluster_start(struct cluster *cluster, unsigned id)
{
    sim_start(member_of(cluster, id)->node);
}

void cluster_kill(struct cluster *cluster, unsigned id)
{
    sim_crash(member_of(cluster, id)->node, LQ_IO_MEM_LOSE);
}

void cluster_wipe(struct cluster *cluster, unsigned id)
{
    struct member *member = member_of(cluster, id);
    assert_false(sim_is_up(member->node));
    assert_int_equal(lq_io_mem_remove(member->node->disk, ""), LIGHTQ_OK);
    member->formed = true; /* it founds nothing any more */
}

/* ---- time ---- */

void cluster_run_ms(struct cluster *cluster, uint64_t ms)
{
    sim_run(cluster->sim, ms * 1000);
    if (sim_failure(cluster->sim) != NULL) {
        fail_msg("%s", sim_failure(cluster->sim));
    }
}

void cluster_wait_at(struct cluster *cluster, condition_cb condition, void *data, unsigned seconds, const char *what,
                     const char *file, int line)
{
    uint64_t end = sim_now_us(cluster->sim) + seconds * SECOND_US;
    while (!condition(cluster, data)) {
        cluster_run_ms(cluster, 10);
        if (sim_now_us(cluster->sim) > end) {
            fail_msg("%s:%d: %s is not so after %u s", file, line, what, seconds);
        }
    }
}

static bool is_ready(struct cluster *cluster, void *data)
{
    const unsigned *count = data;
    for (unsigned i = 0; i < *count; i++) {
        if (!cluster->members[i].ready) {
            return false;
        }
    }
    return true;
}

void cluster_up(struct cluster *cluster, unsigned count)
{
    for (unsigned id = 1; id <= count; id++) {
        cluster_start(cluster, id);
    }
    cluster_wait(cluster, is_ready, &count, 20);
}

static bool is_settled(const struct member *member)
{
    const struct lq_catalog *catalog = lq_meta_catalog(member->meta);
    for (size_t t = 0; t < lq_catalog_topic_count(catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            const struct lq_catalog_partition *partition = &topic->partitions[p];
            const struct lq_catalog_replica *here = lq_catalog_replica_on(partition, member->node->id);
            struct lq_partition *open = lq_meta_partition(member->meta, partition->group);
            if (here == NULL ? open != NULL
                             : open == NULL || lq_meta_replica_text(member->meta, partition->group)[0] != '\0') {
                return false;
            }
            struct lq_group_status status;
            if (here == NULL) {
                continue;
            }
            lq_group_status(lq_partition_group(open), &status);
            bool voter = false;
            for (unsigned i = 0; i < status.replica_count; i++) {
                voter |= status.replicas[i].id == lq_replica_make(here->node, here->incarnation) &&
                         status.replicas[i].role == LQ_ROLE_VOTER;
            }
            if (!voter || lq_replica_incarnation(status.self) != here->incarnation || status.stopped ||
                lq_meta_leader(member->meta, partition->group).node == 0) {
                return false;
            }
        }
    }
    return true;
}

bool all_settled(struct cluster *cluster, void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < sim_nodes(cluster->sim); i++) {
        const struct member *member = &cluster->members[i];
        if (sim_is_up(member->node) && (member->meta == NULL || !member->ready || !is_settled(member))) {
            return false;
        }
    }
    return true;
}

/* ---- changes ---- */

static void on_answer(struct lq_meta_request *request, lightq_status status)
{
    struct asked *asked = request->data;
    asked->answers++;
    asked->status = status;
}

void ask(struct cluster *cluster, unsigned id, struct asked *asked)
{
    asked->request.cb = on_answer;
    asked->request.data = asked;
    asked->answers = 0;
    assert_int_equal(lq_meta_submit(member_of(cluster, id)->meta, &asked->request), LIGHTQ_OK);
}

void ask_create(struct cluster *cluster, unsigned id, struct asked *asked, const char *name, uint32_t partitions,
                uint32_t replicas)
{
    *asked = (struct asked){.request = {.verb = LQ_META_TOPIC_CREATE,
                                        .name = name,
                                        .partitions = partitions,
                                        .replicas = replicas,
                                        .timeout_ms = 20000}};
    ask(cluster, id, asked);
}

static bool is_answered(struct cluster *cluster, void *data)
{
    (void)cluster;
    return ((struct asked *)data)->answers > 0;
}

static lightq_status wait_answer(struct cluster *cluster, unsigned id, struct asked *asked)
{
    ask(cluster, id, asked);
    assert_int_equal(asked->answers, 0);
    cluster_wait(cluster, is_answered, asked, 40);
    assert_int_equal(asked->answers, 1);
    if (asked->status != LIGHTQ_OK) {
        assert_true(asked->request.err.text[0] != '\0');
    }
    return asked->status;
}

lightq_status create_topic(struct cluster *cluster, unsigned id, const char *name, uint32_t partitions,
                           uint32_t replicas)
{
    struct asked asked = {.request = {.verb = LQ_META_TOPIC_CREATE,
                                      .name = name,
                                      .partitions = partitions,
                                      .replicas = replicas,
                                      .timeout_ms = 20000}};
    return wait_answer(cluster, id, &asked);
}

lightq_status delete_topic(struct cluster *cluster, unsigned id, const char *name)
{
    struct asked asked = {.request = {.verb = LQ_META_TOPIC_DELETE, .name = name}};
    return wait_answer(cluster, id, &asked);
}

lightq_status replace_node(struct cluster *cluster, unsigned id, uint32_t old_node, uint32_t new_node)
{
    struct asked asked = {.request = {.verb = LQ_META_NODE_REPLACE, .old_node = old_node, .new_node = new_node}};
    return wait_answer(cluster, id, &asked);
}

lightq_status replace_live_node(struct cluster *cluster, unsigned id, uint32_t old_node, uint32_t new_node)
{
    struct asked asked = {
        .request = {.verb = LQ_META_NODE_REPLACE, .old_node = old_node, .new_node = new_node, .live = true}};
    return wait_answer(cluster, id, &asked);
}

/* ---- messages ---- */

static void on_sent(struct lq_partition_request *request, lightq_status status)
{
    struct sent *sent = request->data;
    sent->answers++;
    sent->status = status;
}

struct lq_partition *leader_of(struct cluster *cluster, uint64_t group, unsigned *id)
{
    for (unsigned i = 0; i < sim_nodes(cluster->sim); i++) {
        struct member *member = &cluster->members[i];
        struct lq_partition *partition = member->meta == NULL ? NULL : lq_meta_partition(member->meta, group);
        if (partition != NULL && lq_partition_leading(partition)) {
            if (id != NULL) {
                *id = i + 1;
            }
            return partition;
        }
    }
    return NULL;
}

static bool is_sent(struct cluster *cluster, void *data)
{
    (void)cluster;
    return ((struct sent *)data)->answers > 0;
}

void produce_some(struct cluster *cluster, uint64_t group, unsigned count)
{
    for (unsigned done = 0, tries = 0; done < count; tries++) {
        struct lq_partition *partition = leader_of(cluster, group, NULL);
        struct sent sent = {.request = {.slab = cluster->slab,
                                        .size = BATCH_BYTES,
                                        .batch_crc = done,
                                        .message_count = 1,
                                        .expected_offset = LQ_OFFSET_ANY,
                                        .cb = on_sent}};
        sent.request.data = &sent;
        assert_true(tries < count + PRODUCE_TRIES);
        if (partition == NULL || lq_partition_produce(partition, &sent.request) != LIGHTQ_OK) {
            cluster_run_ms(cluster, 20);
            continue;
        }
        cluster_wait(cluster, is_sent, &sent, 10);
        done += sent.status == LIGHTQ_OK;
    }
}

static bool partition_is_equal(struct cluster *cluster, uint64_t group, unsigned replicas)
{
    struct lq_partition_status first = {.group = 0};
    unsigned found = 0;
    for (unsigned i = 0; i < sim_nodes(cluster->sim); i++) {
        struct lq_partition *partition =
            cluster->members[i].meta == NULL ? NULL : lq_meta_partition(cluster->members[i].meta, group);
        struct lq_partition_status status;
        if (partition == NULL) {
            continue;
        }
        lq_partition_status(partition, &status);
        if (found++ == 0) {
            first = status;
        }
        if (status.end_offset != first.end_offset || status.start_offset != first.start_offset ||
            status.digest != first.digest) {
            return false;
        }
    }
    return found == replicas;
}

bool replicas_equal(struct cluster *cluster, void *data)
{
    const struct equal *equal = data;
    for (unsigned i = 0; i < sim_nodes(cluster->sim); i++) {
        if (cluster->members[i].meta == NULL) {
            continue;
        }
        const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(cluster->members[i].meta), equal->name);
        if (topic == NULL) {
            return false;
        }
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            if (!partition_is_equal(cluster, topic->partitions[p].group, equal->replicas)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

void cluster_give_letter(struct cluster *cluster, unsigned to, uint32_t from, const struct lq_letter *letter)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(letter, &writer);
    struct lq_slab *slab = lq_slab_new(writer.size);
    assert_non_null(slab);
    memcpy(slab->bytes, writer.bytes, writer.size);
    const struct lq_frame_in frame = {.type = LQ_FRAME_NODE, .slab = slab, .size = (uint32_t)writer.size};
    assert_int_equal(lq_meta_host_events.node_frame(member_of(cluster, to)->meta, from, &frame), LIGHTQ_OK);
    lq_slab_unref(slab);
    lq_writer_deinit(&writer);
}
