/* chaos/sim/machine.c - see machine.h. The order of things is that of node/server.c and node/shard.c. */
#include "chaos/sim/machine.h"

#include <string.h>

#include "chaos/sim/world.h"
#include "chaos/sim/wraps.h"
#include "node/admin.h"
#include "node/consume.h"
#include "node/dead.h"
#include "node/groups.h"
#include "node/pipeline.h"
#include "node/produce.h"
#include "tests/lib/sim_parts.h"

#define MEMORY_BYTES (UINT64_C(2) << 30)

enum {
    ROUNDS_MAX = 4,
    TICK_US = 100000,
    BLOCKED_US = 10000,
    TRANSFER_AFTER_MS = 3000,
    RETAIN_MS = 1000,
};

static struct machine *of_node(struct sim_node *node)
{
    return node->data;
}

/* ---- the end of a process */

static void end_now(struct sim *sim, void *data)
{
    struct machine *machine = data;
    if (machine->ending && sim_is_up(machine->node)) {
        machine_kill(machine);
        keeper_start_later(world_of(sim), machine->node->id - 1, WORLD_SECOND / 2);
    }
}

/* The process would write why and exit. */
static void end_by_itself(struct machine *machine, const char *why)
{
    if (!machine->ending) {
        machine->ending = true;
        world_say(machine->world, "node %u ends: %s", machine->node->id, why);
        sim_plan(machine->world->sim, 0, end_now, machine);
    }
}

void machine_crash(struct machine *machine, enum lq_io_mem_crash_mode mode)
{
    sim_crash(machine->node, mode);
    wraps_cancel_reads(machine);
}

void machine_kill(struct machine *machine)
{
    sim_kill(machine->node);
    wraps_cancel_reads(machine);
}

/* ---- events of its parts */

static void on_done(void *owner)
{
    ((struct machine *)owner)->formed = true;
}

static void on_waiting(void *owner, const struct lq_err *err)
{
    struct machine *machine = owner;
    world_say(machine->world, "node %u waits: %s", machine->node->id, err->text);
}

static void on_failed(void *owner, const struct lq_err *err)
{
    end_by_itself(owner, err->text);
}

static const struct lq_forming_events forming_events = {.done = on_done, .waiting = on_waiting, .failed = on_failed};

/* What raft/transport.c does with it. Everybody has everybody's address. */
static void on_peer(void *owner, const struct lq_catalog_node *node)
{
    struct machine *machine = owner;
    struct world *world = machine->world;
    if (node->id > world->nodes) {
        return;
    }
    struct lq_hello_seen *seen = &machine->seen[node->id - 1];
    bool gone = node->state != LQ_NODE_ACTIVE;
    bool known = !gone && !lq_id_is_zero(&node->uuid);
    if (gone || (known && seen->uuid_known && !lq_id_equal(&seen->uuid, &node->uuid))) {
        *seen = (struct lq_hello_seen){.boot_known = false};
        sim_break(world->sim, machine->node->id - 1, node->id - 1, false, 0);
    }
    if (known) {
        seen->uuid = node->uuid;
        seen->uuid_known = true;
    }
}

static void on_ready(void *owner)
{
    ((struct machine *)owner)->ready = true;
}

static void on_expelled(void *owner, const struct lq_err *err)
{
    struct machine *machine = owner;
    keeper_on_expelled(machine->world, machine->node->id - 1);
    end_by_itself(machine, err->text);
}

static const struct lq_meta_events meta_events = {.peer = on_peer, .ready = on_ready, .expelled = on_expelled};

static lightq_status on_node_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    const struct machine *machine = of_node(owner);
    return sim_parts_node_frame(machine->meta, machine->forming, node, frame);
}

static void on_link_changed(void *owner, uint32_t node, bool up)
{
    const struct machine *machine = of_node(owner);
    sim_parts_link_changed(machine->meta, machine->forming, node, up);
}

const struct lq_host_events machine_host_events = {.node_frame = on_node_frame, .link_changed = on_link_changed};

static void on_session_ended(void *owner, struct lq_session *session)
{
    struct machine *machine = owner;
    lq_consume_session_ended(machine->service.consume, session);
    lq_pipeline_session_ended(machine->service.pipeline, session);
}

static void on_session_unblocked(void *owner, struct lq_session *session)
{
    struct machine *machine = owner;
    lq_consume_session_unblocked(machine->service.consume, session);
    lq_pipeline_session_unblocked(machine->service.pipeline, session);
}

static const struct lq_sessions_events sessions_events = {.ended = on_session_ended, .unblocked = on_session_unblocked};

static lightq_status on_send(struct lq_outlet *outlet, lq_peer peer, const struct lq_packet *packet)
{
    struct machine *machine = (struct machine *)(void *)((char *)outlet - offsetof(struct machine, outlet));
    return machine->dead ? LIGHTQ_ECLOSED : net_send_back(&machine->world->net, machine, peer, packet);
}

static void on_close(struct lq_outlet *outlet, lq_peer peer, enum lq_outlet_close how)
{
    struct machine *machine = (struct machine *)(void *)((char *)outlet - offsetof(struct machine, outlet));
    (void)how;
    if (!machine->dead) {
        net_close_back(&machine->world->net, machine, peer);
    }
}

static uint64_t on_queued_to(struct lq_outlet *outlet, lq_peer peer)
{
    (void)outlet;
    (void)peer;
    return 0;
}

static uint64_t on_queued(struct lq_outlet *outlet)
{
    (void)outlet;
    return 0;
}

/* ---- coming up */

static lightq_status read_identity(struct machine *machine, struct lq_err *err)
{
    struct lq_io *io = lq_io_mem_io(machine->node->disk);
    lightq_status status = lq_identity_load(io, machine->node->id, &machine->identity, err);
    if (status == LIGHTQ_ENOTFOUND && !machine->founded && machine->node->id <= WORLD_FOUNDERS) {
        sim_parts_make_founder(machine->node, WORLD_FOUNDERS, WORLD_PORT, WORLD_PEER_PORT, &machine->identity);
        machine->founded = true;
        status = LIGHTQ_OK;
    } else if (status == LIGHTQ_ENOTFOUND) {
        lq_identity_make(machine->node->id, 1, &machine->node->clock, &machine->identity);
        status = LIGHTQ_OK;
    }
    if (status == LIGHTQ_OK) {
        status = lq_identity_check(&machine->identity, err);
    }
    return status == LIGHTQ_OK ? lq_identity_boot(io, &machine->identity, err) : status;
}

lightq_status machine_prepare(struct sim_node *node, struct lq_store_options *store)
{
    struct machine *machine = of_node(node);
    struct world *world = machine->world;
    struct lq_err err = {.text = ""};
    lightq_status status = read_identity(machine, &err);
    machine->boots++;
    if (status == LIGHTQ_OK) {
        store->must_exist = machine->identity.state == LQ_IDENTITY_MEMBER && machine->identity.stored;
        return LIGHTQ_OK;
    }
    world_say(world, "node %u does not start: %s", node->id, err.text);
    if (status == LIGHTQ_EIO || status == LIGHTQ_ENOSPC) {
        keeper_start_later(world, node->id - 1, WORLD_SECOND / 2);
    } else {
        keeper_condemn(world, node->id - 1, "its identity cannot be read");
    }
    return status;
}

/* Before anything is promised by what is in the store: from now on it cannot be missing. */
static lightq_status note_store(struct machine *machine, struct lq_err *err)
{
    struct lq_identity next = machine->identity;
    next.stored = true;
    if (machine->identity.stored) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_identity_store(lq_io_mem_io(machine->node->disk), &next, err);
    if (status == LIGHTQ_OK) {
        machine->identity = next;
    }
    return status;
}

static void begin_meta(struct machine *machine)
{
    struct sim_node *node = machine->node;
    struct lq_err err = {.text = ""};
    const struct lq_meta_options options = {.identity = &machine->identity,
                                            .io = lq_io_mem_io(node->disk),
                                            .clock = &node->clock,
                                            .store = node->store,
                                            .link = &node->link,
                                            .client = sim_parts_endpoint(WORLD_PORT + node->id),
                                            .peer = sim_parts_endpoint(WORLD_PEER_PORT + node->id),
                                            .transfer_after_ms = TRANSFER_AFTER_MS,
                                            .retain_ms = RETAIN_MS};
    lightq_status status = note_store(machine, &err);
    if (status == LIGHTQ_OK) {
        status = lq_meta_new(&options, &meta_events, machine, &machine->meta, &err);
    }
    if (status == LIGHTQ_OK) {
        machine->service.meta = machine->meta;
        status = lq_meta_start(machine->meta, node->host, &err);
    }
    if (status != LIGHTQ_OK) {
        end_by_itself(machine, err.text);
        if (status == LIGHTQ_EDAMAGED || status == LIGHTQ_ECORRUPT) {
            keeper_condemn(machine->world, node->id - 1, "its meta part does not start");
        }
        return;
    }
    sim_parts_tell_links(node, machine->meta);
}

static void begin_forming(struct machine *machine)
{
    struct sim_node *node = machine->node;
    struct lq_err err = {.text = ""};
    const struct lq_forming_options options = {.identity = &machine->identity,
                                               .io = lq_io_mem_io(node->disk),
                                               .clock = &node->clock,
                                               .link = &node->link,
                                               .expect = WORLD_FOUNDERS,
                                               .seed_count = WORLD_FOUNDERS,
                                               .client = sim_parts_endpoint(WORLD_PORT + node->id),
                                               .peer = sim_parts_endpoint(WORLD_PEER_PORT + node->id)};
    if (lq_forming_new(&options, &forming_events, machine, &machine->forming, &err) != LIGHTQ_OK) {
        end_by_itself(machine, err.text);
    }
}

static lightq_status begin_service(struct machine *machine)
{
    struct lq_service *service = &machine->service;
    struct lq_clock *clock = &machine->node->clock;
    *service = (struct lq_service){.options = &machine->options, .clock = clock, .counters = &machine->counters};
    lightq_status status = lq_sessions_new(&machine->options, &machine->outlet, clock, &machine->counters,
                                           &sessions_events, machine, &service->sessions);
    if (status == LIGHTQ_OK) {
        status = lq_produce_new(service, &service->produce);
    }
    if (status == LIGHTQ_OK) {
        status = lq_consume_new(service, &service->consume);
    }
    if (status == LIGHTQ_OK) {
        status = lq_pipeline_new(service, &service->pipeline);
    }
    if (status == LIGHTQ_OK) {
        status = lq_groups_new(service, &service->groups);
    }
    if (status == LIGHTQ_OK) {
        status = lq_dead_new(service, &service->dead);
    }
    return status == LIGHTQ_OK ? lq_admin_new(service, &service->admin) : status;
}

void machine_start(struct sim_node *node)
{
    struct machine *machine = of_node(node);
    machine->ready = machine->serving = machine->ending = machine->dead = machine->formed = false;
    machine->disbelieved = false;
    machine->nonce = lq_clock_random_u64(&node->clock);
    memset(machine->seen, 0, sizeof machine->seen);
    machine->tick_us = world_now(machine->world) + TICK_US;
    world_say(machine->world, "node %u starts, boot %llu", node->id, (unsigned long long)machine->identity.boot);
    if (begin_service(machine) != LIGHTQ_OK) {
        sim_fail(node->sim, "out of memory");
        return;
    }
    if (machine->identity.state == LQ_IDENTITY_MEMBER) {
        begin_meta(machine);
    } else {
        begin_forming(machine);
    }
}

/* As a crash: nobody is told anything. */
void machine_stop(struct sim_node *node)
{
    struct machine *machine = of_node(node);
    struct lq_service *service = &machine->service;
    machine->dead = true;
    machine->ending = false;
    wraps_stop(machine);
    lq_sessions_farewell(service->sessions, LIGHTQ_ECLOSED, "");
    lq_meta_free(machine->meta);
    lq_forming_free(machine->forming);
    machine->meta = NULL;
    machine->forming = NULL;
    lq_produce_free(service->produce);
    lq_admin_free(service->admin);
    lq_sessions_free(service->sessions);
    lq_consume_free(service->consume);
    lq_dead_free(service->dead);
    lq_groups_free(service->groups);
    lq_pipeline_free(service->pipeline);
    machine->service.meta = NULL;
    machine->service.sessions = NULL;
    net_node_gone(&machine->world->net, machine);
}

/* ---- running */

static bool run_groups(struct machine *machine)
{
    if (machine->meta == NULL) {
        lq_host_turn(machine->node->host);
        return false;
    }
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        lq_meta_turn(machine->meta);
        lq_host_turn(machine->node->host);
        if (!lq_meta_needs_turn(machine->meta)) {
            return false;
        }
    }
    return true;
}

void machine_turn(struct sim_node *node)
{
    struct machine *machine = of_node(node);
    if (machine->forming != NULL && machine->formed && machine->identity.state == LQ_IDENTITY_MEMBER) {
        lq_forming_free(machine->forming);
        machine->forming = NULL;
        sim_parts_say_hello_again(node);
        begin_meta(machine);
    }
    bool more = run_groups(machine);
    if (machine->ready && !machine->serving) {
        machine->serving = true;
        lq_sessions_serve(machine->service.sessions, &machine->identity.cluster);
    }
    (void)lq_sessions_turn(machine->service.sessions);
    more |= lq_consume_turn(machine->service.consume);
    more |= lq_pipeline_turn(machine->service.pipeline);
    more |= machine->meta != NULL && lq_meta_needs_turn(machine->meta);
    if (more) {
        sim_touch(node);
    }
}

uint64_t machine_deadline_us(struct sim_node *node)
{
    struct machine *machine = of_node(node);
    uint64_t due = machine->tick_us;
    if (machine->service.pipeline != NULL) {
        uint64_t pipeline = lq_pipeline_deadline_us(machine->service.pipeline);
        due = pipeline < due ? pipeline : due;
    }
    if (machine->forming != NULL) {
        uint64_t forming = lq_forming_deadline_us(machine->forming);
        due = forming < due ? forming : due;
    }
    if (machine->meta != NULL) {
        uint64_t meta = lq_meta_deadline_us(machine->meta);
        due = meta < due ? meta : due;
    }
    return due;
}

void machine_tick(struct sim_node *node)
{
    struct machine *machine = of_node(node);
    uint64_t now_us = world_now(machine->world);
    if (machine->forming != NULL && now_us >= lq_forming_deadline_us(machine->forming)) {
        lq_forming_tick(machine->forming);
    }
    if (machine->meta != NULL && now_us >= lq_meta_deadline_us(machine->meta)) {
        lq_meta_tick(machine->meta);
    }
    if (now_us >= lq_host_deadline_us(node->host)) {
        lq_host_tick(node->host);
    }
    if (now_us >= machine->tick_us) {
        machine->tick_us = now_us + TICK_US;
        lq_sessions_tick(machine->service.sessions);
        lq_produce_tick(machine->service.produce);
        lq_groups_tick(machine->service.groups);
        lq_dead_tick(machine->service.dead);
    }
    sim_touch(node);
}

/* ---- who is it? */

static struct lq_hello hello_of(const struct machine *machine, uint32_t to)
{
    return (struct lq_hello){.kind = LQ_HELLO_ASK,
                             .version_min = LQ_PEER_VERSION_MIN,
                             .version_max = LQ_PEER_VERSION_MAX,
                             .shards = 1,
                             .node = machine->node->id,
                             .to = to,
                             .cluster = machine->identity.cluster,
                             .uuid = machine->identity.uuid,
                             .admission =
                                 machine->identity.state == LQ_IDENTITY_MEMBER ? machine->identity.meta_incarnation : 0,
                             .boot_count = machine->identity.boot,
                             .boot_nonce = machine->nonce};
}

/* What raft/transport_conn.c does with a hello. */
bool machine_admit(struct sim_node *node, struct sim_node *other_node)
{
    struct machine *machine = of_node(node);
    struct machine *other = of_node(other_node);
    struct lq_hello self = hello_of(machine, other_node->id);
    struct lq_hello hello = hello_of(other, node->id);
    struct lq_hello_seen *seen = &machine->seen[other_node->id - 1];
    struct lq_err err = {.text = ""};
    lightq_status status = lq_hello_judge(&self, &hello, &err);
    if (status == LIGHTQ_OK && !lq_hello_is_another(seen, &hello)) {
        status = lq_hello_compare(seen, &hello, &err);
    }
    if (status == LIGHTQ_OK && machine->meta != NULL) {
        status = lq_meta_check_peer(machine->meta, &hello, &err);
    } else if (status == LIGHTQ_OK && machine->forming != NULL) {
        status = lq_forming_check_peer(machine->forming, &hello, &err);
    }
    if (status == LIGHTQ_OK) {
        lq_hello_remember(seen, &hello);
        return true;
    }
    if (status == LIGHTQ_EREPLACED && other->meta != NULL) {
        lq_meta_replaced(other->meta, node->id, err.text);
    } else if (other->forming != NULL) {
        lq_forming_rejected(other->forming, node->id, status, err.text);
    }
    if (!other->disbelieved) {
        world_say(machine->world, "node %u refuses node %u: %s", node->id, other_node->id, err.text);
    }
    /* Who has only just started, and goes by the founders still, says it again when it has read on, or takes it back.
     */
    other->disbelieved |= status == LIGHTQ_EREPLACED || (status == LIGHTQ_EIDENTITY && machine->serving);
    return false;
}

struct lq_partition *machine_leads(const struct machine *machine, uint64_t group)
{
    struct lq_partition *partition = machine->meta == NULL ? NULL : lq_meta_partition(machine->meta, group);
    return partition != NULL && lq_partition_leading(partition) ? partition : NULL;
}

lightq_status machine_init(struct machine *machine, struct world *world, struct sim_node *node)
{
    struct lq_err err;
    *machine = (struct machine){.world = world, .node = node};
    machine->outlet =
        (struct lq_outlet){.send = on_send, .close = on_close, .queued_to = on_queued_to, .queued = on_queued};
    node->data = machine;
    lightq_status status = lq_options_init(&machine->options);
    if (status == LIGHTQ_OK) {
        machine->options.node_id = node->id;
        machine->options.memory_max = MEMORY_BYTES; /* not what this machine has */
        status = lq_options_check(&machine->options, &err);
    }
    return status;
}

void machine_deinit(struct machine *machine)
{
    lq_options_deinit(&machine->options);
}
