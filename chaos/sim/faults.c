/* chaos/sim/faults.c - carries out the faults of the plan, and ends them. What may lose data is done to one node at a
 * time, until everything is whole again: more than that no cluster of three survives. A fault that cannot be done at
 * its time (its node is down, or another is being repaired) is left out. */
#include <stdlib.h>
#include <string.h>

#include "chaos/sim/world.h"
#include "storage/store_private.h"

enum {
    BASE_DELAY_MAX_US = 400,
    LITTLE_BYTES = 24 * 1024 * 1024,
    NO_BYTES = 8 * 1024,
    DISK_LATENCY_US = 100,
    CLOCK_SHIFT_MS = 3600 * 1000,
    RESTART_MIN_US = 20000,
    LEADER_CRASH_US = 15000,
    LEADER_ISOLATE_US = 5000,
    VOTE_CRASH_US = 3000,
    FILES_MAX = 64,
    PATH_BYTES = 128,
    EIO_NTH_MAX = 20,
    COPY_RESTART_US = 300000,
    JOIN_WITHIN_US = 25000000,
    QUIET_US = 2500000,
    QUIET_LEAST_US = 1500000, /* a durable watermark is noted within a second */
};

/* One going on. Freed with the world's end. */
struct at_work {
    struct world *world;
    struct fault fault;
    struct lq_io_mem_image *image;
    struct at_work *next;
};

static struct sim_node *node_at(struct world *world, unsigned node)
{
    return sim_node_at(world->sim, node);
}

/* Somebody works with an older copy of its data: whoever saw it newer must stay up to refuse it, and so must the copy,
 * which every start makes look newer (docs/adr/0010). */
static bool must_stay_up(const struct world *world, unsigned node)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        if (world->machines[i].restored || (i != node && world->machines[i].copied)) {
            return true;
        }
    }
    return false;
}

static bool may_harm(const struct world *world, unsigned node)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        if (world->machines[i].harmed || (i != node && world->machines[i].rotten)) {
            return false;
        }
    }
    return !keeper_busy(world) && !must_stay_up(world, node);
}

static void harm(struct world *world, unsigned node, uint64_t lasts_us)
{
    world->machines[node].harmed = true;
    world->harm_until_us = world_now(world) + lasts_us + WORLD_SECOND;
}

/* ---- processes and machines */

static bool crash(struct world *world, unsigned node, unsigned mode, uint64_t down_us)
{
    if (!sim_is_up(node_at(world, node)) || must_stay_up(world, node)) {
        return false;
    }
    world_say(world, "node %u loses power, mode %u", node + 1, mode);
    machine_crash(&world->machines[node], (enum lq_io_mem_crash_mode)mode);
    world->result.crashes++;
    keeper_start_later(world, node, RESTART_MIN_US + down_us);
    return true;
}

static bool kill_process(struct world *world, unsigned node, uint64_t down_us)
{
    if (!sim_is_up(node_at(world, node)) || must_stay_up(world, node)) {
        return false;
    }
    world_say(world, "node %u: its process ends", node + 1);
    machine_kill(&world->machines[node]);
    keeper_start_later(world, node, RESTART_MIN_US + down_us);
    return true;
}

static bool power(struct world *world, const struct fault *fault)
{
    bool any = false;
    for (unsigned i = 0; i < world->nodes; i++) {
        any |= crash(world, i, fault->mode, world_below(world, fault->lasts_us));
    }
    return any;
}

/* ---- connections */

static void part(struct world *world, unsigned a, unsigned b, bool cut)
{
    sim_cut(world->sim, a, b, cut);
    sim_cut(world->sim, b, a, cut);
}

static void isolate(struct world *world, unsigned node, bool cut)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        if (i != node) {
            part(world, node, i, cut);
        }
    }
}

static void cut_clients(struct world *world, const struct fault *fault, bool cut)
{
    uint64_t chosen = fault->number;
    for (struct client *client = world->net.clients; client != NULL; client = client->next) {
        if ((chosen & 1) != 0) {
            client->cut[fault->a] = cut;
        }
        chosen = chosen >> 1 | chosen << 63;
    }
}

static void cut_all_clients(struct world *world, unsigned node, bool cut)
{
    for (struct client *client = world->net.clients; client != NULL; client = client->next) {
        client->cut[node] = cut;
    }
}

static void bad_network(struct world *world, const struct fault *fault)
{
    bool reorder = (fault->number & 1) != 0;
    sim_set_network(world->sim, reorder, (unsigned)(fault->number >> 8) % 80, (unsigned)(fault->number >> 16) % 80,
                    BASE_DELAY_MAX_US + (unsigned)((fault->number >> 24) % 60000));
}

/* ---- disks */

static void set_space(struct world *world, unsigned node, uint64_t left)
{
    struct lq_io *io = lq_io_mem_io(node_at(world, node)->disk);
    uint64_t free_bytes = 0;
    uint64_t total = 0;
    struct lq_err err;
    if (io->ops->space(io, &free_bytes, &total, &err) == LIGHTQ_OK) {
        lq_io_mem_set_capacity(node_at(world, node)->disk, total - free_bytes + left);
    }
}

static void restart_failed(struct sim *sim, void *data)
{
    struct at_work *work = data;
    struct world *world = world_of(sim);
    lq_io_mem_clear_faults(node_at(world, work->fault.a)->disk);
    (void)crash(world, work->fault.a, work->fault.mode, RESTART_MIN_US);
}

/* Its process is started again in the end: what failed is not used before. */
static bool fail_io(struct world *world, struct at_work *work)
{
    static const unsigned verbs[] = {LQ_IO_WRITE,    LQ_IO_SYNC, LQ_IO_SYNC,    LQ_IO_SYNC_DIR,
                                     LQ_IO_ALLOCATE, LQ_IO_READ, LQ_IO_TRUNCATE};
    const struct fault *fault = &work->fault;
    const struct lq_io_mem_fault order = {.verb = verbs[fault->number % (sizeof verbs / sizeof verbs[0])],
                                          .nth = 1 + (fault->number >> 8) % EIO_NTH_MAX,
                                          .times = (fault->number >> 16) % 3,
                                          .status = LIGHTQ_EIO,
                                          .partial = (fault->number >> 24) % 2 == 0};
    if (!sim_is_up(node_at(world, fault->a)) || !may_harm(world, fault->a) ||
        lq_io_mem_add_fault(node_at(world, fault->a)->disk, &order) != LIGHTQ_OK) {
        return false;
    }
    harm(world, fault->a, fault->lasts_us);
    sim_plan(world->sim, fault->lasts_us, restart_failed, work);
    return true;
}

struct files {
    struct lq_io *io;
    const char *dir;
    char path[FILES_MAX][PATH_BYTES];
    unsigned count;
    bool directories; /* wanted, instead of files */
};

static void on_name(void *data, const char *name, bool is_dir)
{
    struct files *files = data;
    char path[PATH_BYTES];
    struct lq_err err;
    snprintf(path, sizeof path, "%s%s%s", files->dir, files->dir[0] == '\0' ? "" : "/", name);
    if (is_dir == files->directories && files->count < FILES_MAX) {
        memcpy(files->path[files->count++], path, sizeof path);
    }
    if (is_dir) {
        const char *dir = files->dir;
        files->dir = path;
        (void)files->io->ops->list(files->io, path, on_name, files, &err);
        files->dir = dir;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* One of the files, or directories, of a node that is down; false when there is none. */
static bool choose_file(struct world *world, const struct fault *fault, bool directory, char path[PATH_BYTES])
{
    struct files *files = calloc(1, sizeof *files);
    struct lq_err err;
    bool found = false;
    if (files != NULL) {
        files->io = lq_io_mem_io(node_at(world, fault->a)->disk);
        files->dir = "";
        files->directories = directory;
        (void)files->io->ops->list(files->io, "", on_name, files, &err);
        qsort(files->path, files->count, sizeof files->path[0], by_name);
        found = files->count != 0;
        if (found) {
            memcpy(path, files->path[fault->number % files->count], PATH_BYTES);
        }
        free(files);
    }
    return found;
}

static void damage_file(struct world *world, const struct fault *fault, const char *path)
{
    struct lq_io_mem *disk = node_at(world, fault->a)->disk;
    struct lq_io *io = lq_io_mem_io(disk);
    struct lq_io_stat stat = {.size = 0};
    struct lq_err err;
    lightq_status status = io->ops->stat(io, path, &stat, &err);
    uint64_t at = stat.size == 0 ? 0 : (fault->number >> 8) % stat.size;
    if (status == LIGHTQ_OK && fault->kind == FAULT_FLIP && stat.size != 0) {
        world->machines[fault->a].rotten = true;
        status = lq_io_mem_flip(disk, path, at, (unsigned)(fault->number >> 40) % 8);
    } else if (status == LIGHTQ_OK && fault->kind == FAULT_SHORT_FILE) {
        world->machines[fault->a].rotten = true;
        status = lq_io_mem_cut_file(disk, path, at);
    } else if (status == LIGHTQ_OK) {
        status = lq_io_mem_remove(disk, path);
    }
    world_say(world, "node %u: %s of %s at %llu: %s", fault->a + 1, fault_name(fault->kind), path,
              (unsigned long long)at, lightq_status_name(status));
}

/* The node is down while its files are harmed. */
static bool damage(struct world *world, const struct fault *fault)
{
    char path[PATH_BYTES];
    if (!crash(world, fault->a, fault->mode, fault->lasts_us)) {
        return false;
    }
    if (fault->kind == FAULT_WIPE) {
        harm(world, fault->a, fault->lasts_us);
        keeper_condemn(world, fault->a, "its directory was emptied");
        return true;
    }
    if (choose_file(world, fault, fault->kind == FAULT_LOST_DIRECTORY, path)) {
        harm(world, fault->a, fault->lasts_us);
        damage_file(world, fault, path);
    }
    return true;
}

/* Whether everything that its logs have is durable, and its journal says so. */
static bool all_noted(struct world *world, unsigned node)
{
    struct lq_store *store = node_at(world, node)->store;
    for (unsigned i = 0; i <= WORLD_PARTITIONS; i++) {
        const struct lq_rlog *log =
            store == NULL ? NULL : lq_store_find(store, i == WORLD_PARTITIONS ? LQ_META_GROUP : world->groups[i]);
        if (log != NULL &&
            (lq_rlog_durable(log) < lq_rlog_last(log) || log->journaled.watermark < lq_rlog_durable(log))) {
            return false;
        }
    }
    return true;
}

static void damage_later(struct sim *sim, void *data)
{
    const struct at_work *work = data;
    struct world *world = world_of(sim);
    isolate(world, work->fault.a, false);
    cut_all_clients(world, work->fault.a, false);
    /* Other faults may have ended the quiet before its time, or kept its disk or its process from using it. */
    uint64_t quiet_us = world_now(world) - world->machines[work->fault.a].wrote_us;
    if (!world->faults_over && quiet_us >= QUIET_LEAST_US && all_noted(world, work->fault.a)) {
        (void)damage(world, &work->fault);
    }
}

/* What rots in, or is missing from, the end of a log that was written within a second before a power cut cannot always
 * be told from what the cut has torn (docs/adr/0004): such a node first gets nothing to write for a while. */
static bool begin_damage(struct world *world, struct at_work *work)
{
    const struct fault *fault = &work->fault;
    if (!may_harm(world, fault->a) || !sim_is_up(node_at(world, fault->a))) {
        return false;
    }
    if (fault->kind == FAULT_WIPE) {
        return damage(world, fault);
    }
    harm(world, fault->a, QUIET_US + fault->lasts_us);
    isolate(world, fault->a, true);
    cut_all_clients(world, fault->a, true);
    sim_plan(world->sim, QUIET_US, damage_later, work);
    return true;
}

/* ---- an older copy */

static bool known_newer(const struct world *world, unsigned node)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        const struct machine *machine = &world->machines[i];
        bool is_there = machine->boots != 0 && !machine->retired;
        if (i != node && is_there &&
            (!sim_is_up(machine->node) || !machine->seen[node].boot_known ||
             machine->seen[node].boot_count < world->machines[node].identity.boot)) {
            return false;
        }
    }
    return true;
}

static void bring_back(struct sim *sim, void *data)
{
    struct at_work *work = data;
    struct world *world = world_of(sim);
    unsigned node = work->fault.a;
    struct machine *machine = &world->machines[node];
    machine->copied = false;
    if (!sim_is_up(machine->node) || !known_newer(world, node) || !may_harm(world, node)) {
        return;
    }
    world_say(world, "node %u: its directory becomes an older copy", node + 1);
    harm(world, node, work->fault.lasts_us);
    machine->restored = true;
    machine_kill(machine);
    lq_io_mem_set_stalled(machine->node->disk, false); /* a start that fails makes it look newer, too */
    lq_io_mem_set_capacity(machine->node->disk, LQ_IO_MEM_DISK_BYTES_DEFAULT);
    if (lq_io_mem_restore(machine->node->disk, work->image) != LIGHTQ_OK) {
        sim_fail(sim, "out of memory");
    }
    keeper_start_later(world, node, RESTART_MIN_US);
}

/* The copy is of an earlier start: one of the same start cannot be told apart, and is not promised to be. */
static bool copy(struct world *world, struct at_work *work)
{
    unsigned node = work->fault.a;
    struct machine *machine = &world->machines[node];
    if (!sim_is_up(machine->node) || !may_harm(world, node) || !known_newer(world, node)) {
        return false;
    }
    work->image = lq_io_mem_copy(machine->node->disk);
    if (work->image == NULL || !kill_process(world, node, COPY_RESTART_US)) {
        return false;
    }
    machine->copied = true;
    sim_plan(world->sim, work->fault.lasts_us + 4 * WORLD_SECOND, bring_back, work);
    return true;
}

/* ---- another node */

/* The last node joins at a time that the seed decides. */
static void join(struct sim *sim, void *data)
{
    struct world *world = data;
    (void)sim;
    if (!world->faults_over) {
        world_say(world, "node %u is new", world->nodes);
        sim_start(node_at(world, world->nodes - 1));
    }
}

/* Its process is gone for good; the operator gives its replicas to the node that joined. */
static bool retire(struct world *world, unsigned node)
{
    unsigned by = world->nodes - 1;
    for (unsigned i = 0; i < world->nodes; i++) {
        if (world->machines[i].retired) {
            return false; /* a second one would leave two */
        }
    }
    if (node == by || !world->machines[by].serving || !sim_is_up(node_at(world, node)) || !may_harm(world, node)) {
        return false;
    }
    harm(world, node, 0);
    keeper_retire(world, node, by);
    return true;
}

/* ---- leaders */

static int leading_node(struct world *world, uint64_t group)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        const struct lq_group *raft =
            node_at(world, i)->host == NULL ? NULL : lq_host_find(node_at(world, i)->host, group);
        struct lq_group_status status;
        if (raft != NULL) {
            lq_group_status(raft, &status);
            if (status.leading) {
                return (int)i;
            }
        }
    }
    return -1;
}

static uint64_t some_group(const struct world *world, uint64_t number)
{
    unsigned at = (unsigned)(number % (WORLD_PARTITIONS + 1));
    return at == WORLD_PARTITIONS ? LQ_META_GROUP : world->groups[at];
}

static bool transfer(struct world *world, const struct fault *fault)
{
    uint64_t group = some_group(world, fault->number);
    int node = leading_node(world, group);
    struct lq_group *raft = node < 0 ? NULL : lq_host_find(node_at(world, (unsigned)node)->host, group);
    if (raft == NULL || lq_group_transfer(raft, 0) != LIGHTQ_OK) {
        return false;
    }
    sim_touch(node_at(world, (unsigned)node));
    return true;
}

static void crash_chosen(struct sim *sim, void *data)
{
    struct world *world = world_of(sim);
    unsigned node = (unsigned)(uintptr_t)data;
    (void)crash(world, node, LQ_IO_MEM_LOSE, world_below(world, WORLD_SECOND / 2));
}

void faults_on_vote(struct world *world, struct sim_node *node)
{
    if (world->vote_crashes > 0) {
        world->vote_crashes--;
        sim_plan(world->sim, world_below(world, VOTE_CRASH_US), crash_chosen, (void *)(uintptr_t)(node->id - 1));
    }
}

static void isolate_chosen(struct sim *sim, void *data)
{
    isolate(world_of(sim), (unsigned)(uintptr_t)data, true);
}

static void rejoin_chosen(struct sim *sim, void *data)
{
    isolate(world_of(sim), (unsigned)(uintptr_t)data, false);
}

void faults_on_leader(struct world *world, struct sim_node *node)
{
    void *chosen = (void *)(uintptr_t)(node->id - 1);
    if (world->leader_isolations > 0) {
        uint64_t apart_us = world_below(world, 2 * WORLD_SECOND);
        world->leader_isolations--;
        sim_plan(world->sim, world_below(world, LEADER_ISOLATE_US), isolate_chosen, chosen);
        sim_plan(world->sim, LEADER_ISOLATE_US + apart_us, crash_chosen, chosen);
        sim_plan(world->sim, LEADER_ISOLATE_US + apart_us + 1, rejoin_chosen, chosen);
    } else if (world->leader_crashes > 0) {
        world->leader_crashes--;
        sim_plan(world->sim, world_below(world, LEADER_CRASH_US), crash_chosen, chosen);
    }
}

/* ---- one fault */

static void end(struct sim *sim, void *data)
{
    struct at_work *work = data;
    struct world *world = world_of(sim);
    const struct fault *fault = &work->fault;
    switch (fault->kind) {
    case FAULT_CUT:
        sim_cut(sim, fault->a, fault->b, false);
        break;
    case FAULT_PART:
        part(world, fault->a, fault->b, false);
        break;
    case FAULT_ISOLATE:
        isolate(world, fault->a, false);
        break;
    case FAULT_NETWORK:
        sim_set_network(sim, false, 0, 0, BASE_DELAY_MAX_US);
        break;
    case FAULT_CLIENT_CUT:
        cut_clients(world, fault, false);
        break;
    case FAULT_CLIENT_SLOW:
        world->net.slow_per_mille = 0;
        break;
    case FAULT_SLOW_DISK:
        node_at(world, fault->a)->disk_latency_us = DISK_LATENCY_US;
        break;
    case FAULT_HUNG_DISK:
        lq_io_mem_set_stalled(node_at(world, fault->a)->disk, false);
        break;
    case FAULT_LITTLE_SPACE:
    case FAULT_NO_SPACE:
        lq_io_mem_set_capacity(node_at(world, fault->a)->disk, LQ_IO_MEM_DISK_BYTES_DEFAULT);
        break;
    default:
        break;
    }
}

/* What is over after a while, or at once. False: it could not be done. */
static bool begin(struct world *world, struct at_work *work)
{
    const struct fault *fault = &work->fault;
    struct sim_node *node = node_at(world, fault->a);
    switch (fault->kind) {
    case FAULT_CRASH:
        return crash(world, fault->a, fault->mode, fault->lasts_us);
    case FAULT_POWER:
        return power(world, fault);
    case FAULT_KILL:
        return kill_process(world, fault->a, fault->lasts_us);
    case FAULT_PAUSE:
        sim_pause(node, fault->lasts_us);
        return true;
    case FAULT_CUT:
        sim_cut(world->sim, fault->a, fault->b, true);
        return true;
    case FAULT_PART:
        part(world, fault->a, fault->b, true);
        return true;
    case FAULT_ISOLATE:
        isolate(world, fault->a, true);
        return true;
    case FAULT_RESET:
        sim_break(world->sim, fault->a, fault->b, fault->number % 2 == 0, fault->lasts_us / 8);
        return true;
    case FAULT_NETWORK:
        bad_network(world, fault);
        return true;
    case FAULT_CLIENT_CUT:
        cut_clients(world, fault, true);
        return true;
    case FAULT_CLIENT_SLOW:
        world->net.slow_per_mille = 50;
        return true;
    case FAULT_SLOW_DISK:
        node->disk_latency_us = DISK_LATENCY_US + (unsigned)(fault->number % 60000);
        return true;
    case FAULT_HUNG_DISK:
        lq_io_mem_set_stalled(node->disk, true);
        return true;
    case FAULT_LITTLE_SPACE:
        set_space(world, fault->a, LITTLE_BYTES);
        return true;
    case FAULT_NO_SPACE:
        set_space(world, fault->a, NO_BYTES);
        return true;
    case FAULT_CLOCK:
        node->wall_shift_ms += (int64_t)(fault->number % (2 * CLOCK_SHIFT_MS)) - CLOCK_SHIFT_MS;
        return true;
    case FAULT_TRANSFER:
        return transfer(world, fault);
    case FAULT_VOTE_CRASH:
        world->vote_crashes += 1 + fault->number % 3;
        return true;
    case FAULT_LEADER_CRASH:
        world->leader_crashes += 1 + fault->number % 3;
        return true;
    case FAULT_LEADER_ISOLATE:
        world->leader_isolations += 1 + fault->number % 3;
        return true;
    case FAULT_EIO:
        return fail_io(world, work);
    case FAULT_OLD_COPY:
        return copy(world, work);
    case FAULT_FLIP:
    case FAULT_SHORT_FILE:
    case FAULT_LOST_FILE:
    case FAULT_LOST_DIRECTORY:
    case FAULT_WIPE:
        return begin_damage(world, work);
    case FAULT_RETIRE:
        return retire(world, fault->a);
    case FAULT_KIND_COUNT:
        break;
    }
    return false;
}

static void run_fault(struct sim *sim, void *data)
{
    struct at_work *work = data;
    struct world *world = world_of(sim);
    struct fault *fault = &work->fault;
    if (world->faults_over) {
        return;
    }
    int leader = leading_node(world, some_group(world, fault->number));
    if (fault->leader && leader >= 0) {
        fault->a = (unsigned)leader;
        fault->b = fault->b == fault->a ? (fault->a + 1) % world->nodes : fault->b;
    }
    bool done = !world->machines[fault->a].restored && begin(world, work);
    world_say(world, "fault %s on node %u%s", fault_name(fault->kind), fault->a + 1, done ? "" : ": left out");
    if (done) {
        world->result.faults++;
        sim_plan(sim, fault->lasts_us, end, work);
    }
}

void faults_plan(struct world *world)
{
    if (world->nodes > WORLD_FOUNDERS) {
        sim_plan(world->sim, world_below(world, JOIN_WITHIN_US), join, world);
    }
    for (unsigned i = 0; i < world->plan.count; i++) {
        struct at_work *work = calloc(1, sizeof *work);
        if (work == NULL) {
            sim_fail(world->sim, "out of memory");
            return;
        }
        work->world = world;
        work->fault = world->plan.at[i];
        work->next = world->faults;
        world->faults = work;
        sim_plan(world->sim, work->fault.at_us, run_fault, work);
    }
}

void faults_end(struct world *world)
{
    world->faults_over = true;
    world->vote_crashes = world->leader_crashes = world->leader_isolations = 0;
    world->net.slow_per_mille = 0;
    sim_heal(world->sim);
    sim_set_network(world->sim, false, 0, 0, BASE_DELAY_MAX_US);
    for (struct client *client = world->net.clients; client != NULL; client = client->next) {
        memset(client->cut, 0, sizeof client->cut);
    }
    for (unsigned i = 0; i < world->nodes; i++) {
        lq_io_mem_set_capacity(node_at(world, i)->disk, LQ_IO_MEM_DISK_BYTES_DEFAULT);
        node_at(world, i)->paused_until_us = 0;
    }
}

void faults_free(struct world *world)
{
    while (world->faults != NULL) {
        struct at_work *work = world->faults;
        world->faults = work->next;
        lq_io_mem_image_free(work->image);
        free(work);
    }
}
