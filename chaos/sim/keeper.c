/* chaos/sim/keeper.c - the operator of the simulated cluster. Does what the documentation tells an operator to do and
 * no more: starts processes that ended, and replaces a node whose data is gone or not to be trusted ("lightq node
 * replace"). Damaged replicas are rebuilt by the cluster itself. Looks every quarter of a second. */
#include <stdlib.h>

#include "chaos/sim/world.h"

enum {
    LOOK_US = 250000,
    REPLACE_MS = 5000,
};

enum care { CARE_NONE, CARE_EMPTY, CARE_REPLACE, CARE_ASKED, CARE_WAIT };

/* Of one node. */
struct care_of {
    struct keeper *keeper;
    unsigned node, by; /* who is to take its place: it itself, or another */
    enum care care;
    bool expelled; /* while it was asked for */
    struct lq_meta_request request;
    uint64_t start_us; /* when it is to be started; 0: not planned */
};

struct keeper {
    struct world *world;
    struct care_of nodes[WORLD_NODES];
};

static struct machine *machine_of(const struct care_of *care)
{
    return &care->keeper->world->machines[care->node];
}

/* ---- starting */

static void start(struct sim *sim, void *data)
{
    struct care_of *care = data;
    if (care->start_us != 0 && sim_now_us(sim) >= care->start_us && !machine_of(care)->retired) {
        care->start_us = 0;
        lq_io_mem_clear_faults(machine_of(care)->node->disk);
        sim_start(machine_of(care)->node);
    }
}

void keeper_start_later(struct world *world, unsigned node, uint64_t delay_us)
{
    struct care_of *care = &world->keeper->nodes[node];
    uint64_t at_us = world_now(world) + delay_us;
    if (care->start_us == 0 || at_us < care->start_us) {
        care->start_us = at_us;
    }
    sim_plan(world->sim, delay_us, start, care);
}

static void restart(struct sim *sim, void *data)
{
    struct care_of *care = data;
    struct machine *machine = machine_of(care);
    (void)sim;
    if (sim_is_up(machine->node)) {
        machine_kill(machine);
        lq_io_mem_clear_faults(machine->node->disk);
        sim_start(machine->node);
    }
}

void keeper_on_stopped(struct world *world, unsigned node, uint64_t group, lightq_status status, const char *why)
{
    struct machine *machine = &world->machines[node];
    world_say(world, "node %u: its replica of group %llu has stopped: %s: %s", node + 1, (unsigned long long)group,
              lightq_status_name(status), why);
    if (!machine->harmed && !machine->rotten) {
        sim_fail(world->sim, "node %u: its replica of group %llu stops, and nothing was done to its disk: %s: %s",
                 node + 1, (unsigned long long)group, lightq_status_name(status), why);
        return;
    }
    sim_plan(world->sim, WORLD_SECOND / 2 + world_below(world, WORLD_SECOND), restart, &world->keeper->nodes[node]);
}

/* ---- replacing */

void keeper_condemn(struct world *world, unsigned node, const char *why)
{
    struct care_of *care = &world->keeper->nodes[node];
    if (!world->machines[node].harmed && !world->machines[node].rotten) {
        sim_fail(world->sim, "node %u cannot go on, and nothing was done to its disk: %s", node + 1, why);
        return;
    }
    if (care->care == CARE_NONE) {
        world_say(world, "node %u is to be replaced: %s", node + 1, why);
        care->care = CARE_EMPTY;
        care->start_us = 0;
    }
}

void keeper_retire(struct world *world, unsigned node, unsigned by)
{
    struct care_of *care = &world->keeper->nodes[node];
    world_say(world, "node %u is gone: node %u is to take its place", node + 1, by + 1);
    world->machines[node].retired = true;
    machine_kill(&world->machines[node]);
    care->by = by;
    care->care = CARE_REPLACE;
}

/* A request that was said to be unknown may have been done, and again when it was repeated. */
void keeper_on_expelled(struct world *world, unsigned node)
{
    struct care_of *care = &world->keeper->nodes[node];
    if (care->care == CARE_NONE) {
        keeper_condemn(world, node, "it was replaced");
    } else if (care->care != CARE_ASKED) {
        care->care = CARE_EMPTY;
    } else {
        care->expelled = true;
    }
}

static void on_replaced(struct lq_meta_request *request, lightq_status status)
{
    struct care_of *care = request->data;
    struct world *world = care->keeper->world;
    world_say(world, "replacing node %u: %s %s", care->node + 1, lightq_status_name(status), request->err.text);
    if (care->care == CARE_ASKED) {
        care->care = care->expelled ? CARE_EMPTY : status == LIGHTQ_OK ? CARE_WAIT : CARE_REPLACE;
        care->expelled = false;
        world->result.replaced += status == LIGHTQ_OK;
    }
}

static void ask_for_replacement(struct care_of *care)
{
    struct world *world = care->keeper->world;
    if (!machine_of(care)->retired && machine_of(care)->serving) { /* an earlier request was done after all */
        care->care = CARE_WAIT;
        return;
    }
    for (unsigned i = 1; i < world->nodes; i++) {
        struct machine *other = &world->machines[(care->node + i) % world->nodes];
        if (other->meta == NULL || !other->serving || other->restored) {
            continue;
        }
        care->request = (struct lq_meta_request){.verb = LQ_META_NODE_REPLACE,
                                                 .old_node = care->node + 1,
                                                 .new_node = care->by + 1,
                                                 .timeout_ms = REPLACE_MS,
                                                 .cb = on_replaced,
                                                 .data = care};
        if (lq_meta_submit(other->meta, &care->request) == LIGHTQ_OK) {
            care->care = CARE_ASKED;
            sim_touch(other->node);
            return;
        }
    }
}

static void empty(struct care_of *care)
{
    struct world *world = care->keeper->world;
    struct machine *machine = machine_of(care);
    machine_kill(machine);
    lq_io_mem_clear_faults(machine->node->disk);
    if (lq_io_mem_remove(machine->node->disk, "") != LIGHTQ_OK) {
        sim_fail(world->sim, "out of memory");
    }
    machine->restored = machine->rotten = false;
    care->care = CARE_REPLACE;
    sim_start(machine->node);
}

static void look_after(struct care_of *care)
{
    struct machine *machine = machine_of(care);
    switch (care->care) {
    case CARE_NONE:
        if (machine->disbelieved && sim_is_up(machine->node)) {
            keeper_condemn(care->keeper->world, care->node, "others do not believe who it is");
        }
        return;
    case CARE_EMPTY:
        empty(care);
        return;
    case CARE_REPLACE:
        ask_for_replacement(care);
        return;
    case CARE_ASKED:
    case CARE_WAIT: /* until all is settled */
        return;
    }
}

/* ---- being whole */

/* Why not, when it is not: the last reason found. */
static bool unsettled(const struct machine *machine, const char *what, uint64_t group)
{
    snprintf(machine->world->unsettled, sizeof machine->world->unsettled, "node %u, group %llu: %s", machine->node->id,
             (unsigned long long)group, what);
    return false;
}

static bool votes(const struct lq_group_status *status, lq_replica_id id)
{
    for (unsigned i = 0; i < status->replica_count; i++) {
        if (status->replicas[i].id == id) {
            return status->replicas[i].role == LQ_ROLE_VOTER;
        }
    }
    return false;
}

static bool partition_is_settled(const struct machine *machine, const struct lq_catalog_partition *placed)
{
    const struct lq_catalog_replica *here = lq_catalog_replica_on(placed, machine->node->id);
    struct lq_partition *partition = lq_meta_partition(machine->meta, placed->group);
    struct lq_group_status status;
    if (here == NULL) {
        return partition == NULL || unsettled(machine, "a replica that should not be", placed->group);
    }
    if (partition == NULL || lq_meta_replica_text(machine->meta, placed->group)[0] != '\0') {
        return unsettled(machine, lq_meta_replica_text(machine->meta, placed->group), placed->group);
    }
    lq_group_status(lq_partition_group(partition), &status);
    if (!votes(&status, lq_replica_make(here->node, here->incarnation)) ||
        lq_replica_incarnation(status.self) != here->incarnation) {
        return unsettled(machine, "its replica does not vote", placed->group);
    }
    return (!status.stopped && lq_meta_leader(machine->meta, placed->group).node != 0) ||
           unsettled(machine, "stopped, or without a leader", placed->group);
}

/* The meta group has the servers that the catalog wants, as far as this node knows, which does what it should. */
static bool meta_is_settled(const struct machine *machine, const struct lq_group_status *status)
{
    const struct lq_catalog *catalog = lq_meta_catalog(machine->meta);
    unsigned wanted = 0;
    for (size_t i = 0; i < lq_catalog_node_count(catalog); i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(catalog, i);
        wanted += node->state != LQ_NODE_GONE;
        if (node->id == machine->node->id && votes(status, status->self) != node->meta_voter) {
            return false;
        }
    }
    return !status->stopped && status->replica_count == wanted;
}

static bool machine_is_settled(const struct machine *machine)
{
    struct lq_group_status status;
    const struct lq_group *meta_group =
        machine->node->host == NULL ? NULL : lq_host_find(machine->node->host, LQ_META_GROUP);
    if (machine->meta == NULL || !machine->serving || meta_group == NULL) {
        return unsettled(machine, "does not serve", LQ_META_GROUP);
    }
    lq_group_status(meta_group, &status);
    if (!meta_is_settled(machine, &status)) {
        return unsettled(machine, "is not what it should be there", LQ_META_GROUP);
    }
    const struct lq_catalog *catalog = lq_meta_catalog(machine->meta);
    for (size_t t = 0; t < lq_catalog_topic_count(catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            if (!partition_is_settled(machine, &topic->partitions[p])) {
                return false;
            }
        }
    }
    return true;
}

bool keeper_settled(struct world *world)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        enum care care = world->keeper->nodes[i].care;
        if (world->machines[i].boots == 0 ||
            (world->machines[i].retired && care != CARE_REPLACE && care != CARE_ASKED)) {
            continue; /* not there yet, or no more */
        }
        if ((care != CARE_NONE && care != CARE_WAIT) || !machine_is_settled(&world->machines[i])) {
            return care == CARE_NONE || care == CARE_WAIT
                       ? false
                       : unsettled(&world->machines[i], "is being replaced", LQ_META_GROUP);
        }
    }
    return true;
}

bool keeper_busy(const struct world *world)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        if (world->machines[i].harmed || world->keeper->nodes[i].care != CARE_NONE) {
            return true;
        }
    }
    return false;
}

static void look(struct sim *sim, void *data)
{
    struct keeper *keeper = data;
    struct world *world = keeper->world;
    for (unsigned i = 0; i < world->nodes; i++) {
        look_after(&keeper->nodes[i]);
    }
    if (keeper_busy(world) && world_now(world) > world->harm_until_us && keeper_settled(world)) {
        for (unsigned i = 0; i < world->nodes; i++) {
            world->machines[i].harmed = world->machines[i].disbelieved = false;
            keeper->nodes[i].care = CARE_NONE;
        }
        world_say(world, "all is whole again");
    }
    sim_plan(sim, LOOK_US, look, keeper);
}

lightq_status keeper_new(struct world *world)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    if (keeper == NULL) {
        return LIGHTQ_ENOMEM;
    }
    keeper->world = world;
    for (unsigned i = 0; i < WORLD_NODES; i++) {
        keeper->nodes[i] = (struct care_of){.keeper = keeper, .node = i, .by = i};
    }
    world->keeper = keeper;
    sim_plan(world->sim, LOOK_US, look, keeper);
    return LIGHTQ_OK;
}

void keeper_free(struct world *world)
{
    free(world->keeper);
}
