/* Whole clusters under chance: three to five nodes with three to five groups each, real hosts on real stores, one
 * thread, one seed. Clients submit numbered payloads; leaders are transferred, replicas replaced, logs trimmed;
 * messages are delayed, lost, doubled and reordered, connections cut and broken, disks slow and stalled; nodes crash
 * with what was not synced kept, lost or torn, also all at once. Checked at every step:
 *
 *     one leader a term and group; what is applied at an index is the same everywhere, for ever; no replica commits
 *     another entry there; an acknowledged entry was durable on a majority at that moment and is applied everywhere in
 *     the end; when faults stop, every group agrees and accepts again within a bounded time.
 *
 * Cases A1 to A8, A10, A13. Usage: test_group_seeds [--seed N [--trace]] [--first N] [--count N] */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/crc.h"
#include "client/base/log.h"
#include "raft/group.h"
#include "tests/lib/raft_sim.h"

enum {
    GROUPS_MAX = 5,
    PENDING_MAX = 4096,
    SEEDS_DEFAULT = LQ_GROUP_SEEDS, /* fewer under a sanitizer */
    FAULTS_US = 6000000,
    CONVERGE_STEP_US = 100000,
    CONVERGE_STEPS_MAX = 250, /* 25 s of virtual time */
    CLIENT_MIN_US = 1000,
    LEADERS_MAX = 4096,
};

/* What every replica must agree on about an index, fixed by the first that applies it. */
struct agreed {
    uint64_t hash; /* of all applied up to here */
    uint64_t term, payload_id;
    uint64_t committed_term; /* term of the entry there when some replica said it is committed; 0: none yet */
};

struct sent {
    uint64_t index, term, payload_id;
};

struct replica {
    struct test *test;
    struct sim_node *node;
    unsigned group_at;
    struct lq_group *group;
    uint64_t applied, hash;
    bool stopped, leads;
    struct sent *pending;
    size_t pending_count;
};

enum move { MOVE_NONE, MOVE_REMOVE, MOVE_DESTROY, MOVE_ADD, MOVE_PROMOTE };

struct group_state {
    uint64_t id, keep;
    struct agreed *agreed; /* by index */
    size_t agreed_capacity;
    uint64_t highest_applied, highest_acked, acked_count;
    uint64_t leader_terms[LEADERS_MAX];
    lq_replica_id leaders[LEADERS_MAX];
    unsigned leader_count;
    uint32_t incarnation[SIM_NODES_MAX];      /* present, 0: none */
    uint32_t last_incarnation[SIM_NODES_MAX]; /* ever */
    struct lq_servers founders;
    bool founder[SIM_NODES_MAX];
    bool lost[SIM_NODES_MAX]; /* damaged by a failed disk: to be rebuilt under a new incarnation */
    enum move move;
    unsigned moved_from, moved_to;
    uint64_t move_index;
    uint64_t durable_at_crash[SIM_NODES_MAX];
};

struct test {
    uint64_t seed;
    struct sim *sim;
    bool trace, faults_over;
    unsigned groups;
    struct group_state group[GROUPS_MAX];
    struct replica replicas[SIM_NODES_MAX][GROUPS_MAX];
    unsigned fault_node; /* the one whose disk may fail: a majority stays undamaged */
    bool failure_wanted; /* as soon as no replica is being moved; none begins to be until then */
    bool faulty;         /* it gives EIO: its replicas stop, until it is started again */
    uint64_t next_payload, client_us;
    uint64_t crashes, installs, trims, moves, elections, disk_failures, wipes;
};

static void check_failed(struct test *test, const char *what, const struct replica *replica, uint64_t index)
{
    sim_fail(test->sim, "%s: node %u group %" PRIu64 " index %" PRIu64, what, replica->node->id,
             test->group[replica->group_at].id, index);
}

/* ---- what must agree ---- */

static struct agreed *agreed_at(struct group_state *group, uint64_t index)
{
    if (index >= group->agreed_capacity) {
        size_t capacity = group->agreed_capacity == 0 ? 4096 : group->agreed_capacity * 2;
        while (index >= capacity) {
            capacity *= 2;
        }
        group->agreed = realloc(group->agreed, capacity * sizeof *group->agreed);
        assert_non_null(group->agreed);
        memset(group->agreed + group->agreed_capacity, 0, (capacity - group->agreed_capacity) * sizeof *group->agreed);
        group->agreed_capacity = capacity;
    }
    return &group->agreed[index];
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

static struct replica *replica_of(struct test *test, lq_replica_id id, unsigned group_at)
{
    return &test->replicas[lq_replica_node(id) - 1][group_at];
}

/* ---- acknowledging ---- */

static bool holds(const struct replica *replica, uint64_t index, uint64_t term)
{
    const struct lq_rlog *log = replica->group->log;
    if (lq_rlog_durable(log) < index) {
        return false;
    }
    return index < lq_rlog_first(log) || lq_rlog_term_at(log, index) == term;
}

/* A crashed replica may hold it if its log reached that far. */
static bool may_hold(struct test *test, lq_replica_id id, unsigned group_at, uint64_t index, uint64_t term)
{
    struct group_state *group = &test->group[group_at];
    unsigned node = lq_replica_node(id) - 1;
    const struct replica *replica = replica_of(test, id, group_at);
    if (group->incarnation[node] != lq_replica_incarnation(id)) {
        return false;
    }
    if (replica->group != NULL) {
        return holds(replica, index, term);
    }
    return group->durable_at_crash[node] >= index;
}

static bool majority_holds(struct test *test, unsigned group_at, const struct raft_configuration *configuration,
                           const struct lq_entry *entry)
{
    unsigned voters = 0;
    unsigned holding = 0;
    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].role == RAFT_VOTER) {
            voters++;
            holding += may_hold(test, configuration->servers[i].id, group_at, entry->index, entry->term);
        }
    }
    return holding * 2 > voters;
}

/* While servers change, the majority is one of the configuration before or of the one after. */
static void acknowledge(struct replica *replica, const struct lq_entry *entry)
{
    struct test *test = replica->test;
    struct group_state *group = &test->group[replica->group_at];
    const struct raft *raft = &replica->group->raft;
    if (!majority_holds(test, replica->group_at, &raft->configuration, entry) &&
        !majority_holds(test, replica->group_at, &raft->configuration_committed, entry)) {
        check_failed(test, "acknowledged, but not durable on a majority", replica, entry->index);
    }
    if (entry->index > group->highest_acked) {
        group->highest_acked = entry->index;
    }
    group->acked_count++;
}

/* ---- the machine ---- */

static uint64_t payload_id(const struct lq_entry *entry)
{
    return entry->type == LQ_ENTRY_COMMAND && entry->payload_size >= 8 ? lq_get_u64(entry->payload) : 0;
}

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    struct replica *replica = machine;
    struct test *test = replica->test;
    struct group_state *group = &test->group[replica->group_at];
    (void)slab;
    if (entry->index != replica->applied + 1) {
        check_failed(test, "applied out of order", replica, entry->index);
    }
    replica->applied = entry->index;
    replica->hash = mix(replica->hash, entry->index << 8 | entry->type);
    replica->hash = mix(replica->hash, entry->term);
    replica->hash = mix(replica->hash, lq_crc32c(0, entry->payload, entry->payload_size));
    struct agreed *agreed = agreed_at(group, entry->index);
    if (agreed->hash == 0) {
        agreed->hash = replica->hash;
        agreed->term = entry->term;
        agreed->payload_id = payload_id(entry);
    } else if (agreed->hash != replica->hash || agreed->term != entry->term) {
        check_failed(test, "applied another entry than elsewhere", replica, entry->index);
    }
    if (entry->index > group->highest_applied) {
        group->highest_applied = entry->index;
    }
    size_t kept = 0;
    for (size_t i = 0; i < replica->pending_count; i++) {
        const struct sent *sent = &replica->pending[i];
        if (sent->index == entry->index && sent->term == entry->term && replica->leads) {
            if (sent->payload_id != payload_id(entry)) {
                check_failed(test, "another payload at the index and term of a submit", replica, entry->index);
            }
            acknowledge(replica, entry);
        } else if (sent->index > entry->index) {
            replica->pending[kept++] = *sent;
        }
    }
    replica->pending_count = kept;
    return LIGHTQ_OK;
}

static void on_lead(void *machine, uint64_t term)
{
    struct replica *replica = machine;
    (void)term;
    replica->leads = true;
    replica->pending_count = 0;
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    struct replica *replica = machine;
    (void)leader;
    (void)term;
    replica->leads = false;
    replica->pending_count = 0;
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    const struct replica *replica = machine;
    lq_write_u64(writer, replica->applied);
    lq_write_u64(writer, replica->hash);
    return LIGHTQ_OK;
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    struct replica *replica = machine;
    struct test *test = replica->test;
    if (size == 0) {
        replica->applied = 0;
        replica->hash = test->seed;
        return LIGHTQ_OK;
    }
    if (size != 16) {
        check_failed(test, "loaded a state of another size", replica, size);
        return LIGHTQ_ECORRUPT;
    }
    replica->applied = lq_get_u64(bytes);
    replica->hash = lq_get_u64(bytes + 8);
    struct agreed *agreed = agreed_at(&test->group[replica->group_at], replica->applied);
    if (agreed->hash != replica->hash) {
        check_failed(test, "loaded another state than was applied", replica, replica->applied);
    }
    return LIGHTQ_OK;
}

static uint64_t on_trim_to(void *machine)
{
    const struct replica *replica = machine;
    uint64_t keep = replica->test->group[replica->group_at].keep;
    return replica->applied > keep ? replica->applied - keep : 0;
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    struct replica *replica = machine;
    replica->stopped = true;
    replica->leads = false;
    bool faulty = replica->test->faulty && replica->node->id - 1 == replica->test->fault_node;
    if (faulty && (status == LIGHTQ_EIO || status == LIGHTQ_ESTOPPED)) {
        return;
    }
    sim_fail(replica->test->sim, "a replica stopped: %s: %s", lightq_status_name(status), err->text);
}

static const struct lq_machine_ops machine_ops = {.apply = on_apply,
                                                  .lead = on_lead,
                                                  .follow = on_follow,
                                                  .save = on_save,
                                                  .load = on_load,
                                                  .trim_to = on_trim_to,
                                                  .stopped = on_stopped};

/* ---- what the hosts tell ---- */

static unsigned group_at(const struct test *test, uint64_t id)
{
    for (unsigned i = 0; i < test->groups; i++) {
        if (test->group[i].id == id) {
            return i;
        }
    }
    return 0;
}

static void check_leader(struct test *test, struct group_state *group, uint64_t term, lq_replica_id id)
{
    for (unsigned i = 0; i < group->leader_count; i++) {
        if (group->leader_terms[i] == term && group->leaders[i] != id) {
            sim_fail(test->sim, "two leaders of group %" PRIu64 " in term %" PRIu64 ": %" PRIu64 " and %" PRIu64,
                     group->id, term, group->leaders[i], id);
        }
    }
    if (group->leader_count < LEADERS_MAX) {
        group->leader_terms[group->leader_count] = term;
        group->leaders[group->leader_count++] = id;
    }
    test->elections++;
}

static void check_commit(struct test *test, struct group_state *group, struct replica *replica, uint64_t index)
{
    struct lq_rlog *log = replica->group == NULL ? NULL : replica->group->log;
    uint64_t term = log == NULL || index > lq_rlog_last(log) ? 0 : lq_rlog_term_at(log, index);
    struct agreed *agreed = agreed_at(group, index);
    if (term == 0) {
        return;
    }
    if ((agreed->hash != 0 && agreed->term != term) ||
        (agreed->committed_term != 0 && agreed->committed_term != term)) {
        check_failed(test, "committed another entry than elsewhere", replica, index);
    }
    agreed->committed_term = term;
}

static void on_trace(void *data, const struct lq_trace_event *event)
{
    struct sim_node *node = data;
    struct test *test = sim_data(node->sim);
    unsigned at = group_at(test, event->group);
    struct group_state *group = &test->group[at];
    sim_hash_add(node->sim, (uint64_t)event->kind << 56 ^ event->group << 48 ^ event->self << 40);
    sim_hash_add(node->sim, event->a);
    sim_hash_add(node->sim, event->b);
    if (test->trace) {
        printf("%10.3f ms  node %u group %" PRIu64 "  %-10s %" PRIu64 " %" PRIu64 "\n",
               (double)sim_now_us(node->sim) / 1000, node->id, event->group, lq_trace_name(event->kind), event->a,
               event->b);
    }
    if (event->kind == LQ_TRACE_STATE && event->a == RAFT_LEADER) {
        check_leader(test, group, event->b, event->self);
    } else if (event->kind == LQ_TRACE_COMMIT) {
        check_commit(test, group, &test->replicas[node->id - 1][at], event->a);
    }
    test->installs += event->kind == LQ_TRACE_INSTALLED;
    test->trims += event->kind == LQ_TRACE_TRIM;
}

/* ---- nodes ---- */

static void open_replica(struct test *test, struct sim_node *node, unsigned at)
{
    struct group_state *group = &test->group[at];
    struct replica *replica = &test->replicas[node->id - 1][at];
    uint32_t incarnation = group->incarnation[node->id - 1];
    struct lq_err err;
    struct sent *pending = replica->pending;
    *replica = (struct replica){.test = test, .node = node, .group_at = at, .pending = pending};
    bool founder = group->founder[node->id - 1] && incarnation == 1;
    lightq_status status = lq_group_open(node->host, group->id, incarnation, founder ? &group->founders : NULL,
                                         &machine_ops, replica, &replica->group, &err);
    if (status == LIGHTQ_OK) {
        return;
    }
    replica->group = NULL;
    if (node->id - 1 == test->fault_node && test->disk_failures != 0 &&
        (status == LIGHTQ_EDAMAGED || (test->faulty && (status == LIGHTQ_ESTOPPED || status == LIGHTQ_EIO)))) {
        group->lost[node->id - 1] = group->lost[node->id - 1] || status == LIGHTQ_EDAMAGED;
    } else {
        sim_fail(test->sim, "group %" PRIu64 " does not open on node %u: %s", group->id, node->id, err.text);
    }
}

static void on_start(struct sim_node *node)
{
    struct test *test = sim_data(node->sim);
    for (unsigned i = 0; i < test->groups; i++) {
        if (test->group[i].incarnation[node->id - 1] != 0 && !test->group[i].lost[node->id - 1]) {
            open_replica(test, node, i);
        }
    }
}

/* The journal is bad, so all that is on the disk is lost: it starts empty, and every replica is to be rebuilt. */
static bool on_damaged(struct sim_node *node, lightq_status status)
{
    struct test *test = sim_data(node->sim);
    if (status != LIGHTQ_EDAMAGED || node->id - 1 != test->fault_node || test->disk_failures == 0) {
        return false;
    }
    for (unsigned i = 0; i < test->groups; i++) {
        test->group[i].lost[node->id - 1] = test->group[i].incarnation[node->id - 1] != 0;
    }
    test->wipes++;
    return true;
}

static void on_stop(struct sim_node *node)
{
    struct test *test = sim_data(node->sim);
    for (unsigned i = 0; i < test->groups; i++) {
        struct replica *replica = &test->replicas[node->id - 1][i];
        if (replica->group != NULL) {
            test->group[i].durable_at_crash[node->id - 1] = lq_rlog_durable(replica->group->log);
        }
        replica->group = NULL;
        replica->pending_count = 0;
        replica->leads = false;
    }
}

/* ---- clients ---- */

static struct replica *leading_replica(struct test *test, unsigned at)
{
    for (unsigned n = 0; n < sim_nodes(test->sim); n++) {
        struct replica *replica = &test->replicas[n][at];
        struct lq_group_status status;
        if (replica->group == NULL || replica->stopped) {
            continue;
        }
        lq_group_status(replica->group, &status);
        if (status.leading) {
            return replica;
        }
    }
    return NULL;
}

static bool submit(struct test *test, struct replica *replica)
{
    uint8_t bytes[20000];
    struct lq_group_status status;
    uint64_t index;
    uint64_t choice = sim_random_below(test->sim, 100);
    size_t size = choice < 80   ? 8 + sim_random_below(test->sim, 200)
                  : choice < 98 ? 8 + sim_random_below(test->sim, 3000)
                                : sizeof bytes;
    uint64_t id = ++test->next_payload;
    memset(bytes, (int)id, size);
    lq_put_u64(bytes, id);
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct lq_proposal proposal = {.payload = &iov,
                                   .payload_count = 1,
                                   .message_count = 1,
                                   .base_offset = replica->group->tail_offset,
                                   .timestamp_ms = sim_now_us(test->sim) / 1000,
                                   .is_append = true};
    if (proposal.timestamp_ms < replica->group->tail_timestamp_ms) {
        proposal.timestamp_ms = replica->group->tail_timestamp_ms;
    }
    if (replica->pending_count == PENDING_MAX || lq_group_submit(replica->group, &proposal, &index) != LIGHTQ_OK) {
        return false;
    }
    lq_group_status(replica->group, &status);
    replica->pending[replica->pending_count++] = (struct sent){.index = index, .term = status.term, .payload_id = id};
    sim_touch(replica->node);
    return true;
}

static void client(struct sim *sim, void *data)
{
    struct test *test = data;
    unsigned at = (unsigned)sim_random_below(sim, test->groups);
    struct replica *replica = leading_replica(test, at);
    uint64_t burst = 1 + (sim_random_below(sim, 10) == 0 ? sim_random_below(sim, 30) : 0);
    for (uint64_t i = 0; replica != NULL && i < burst && submit(test, replica); i++) {
    }
    if (!test->faults_over) {
        sim_plan(sim, CLIENT_MIN_US + sim_random_below(sim, test->client_us), client, test);
    }
}

/* ---- moving replicas ---- */

static bool has_server(const struct raft_configuration *configuration, lq_replica_id id, int role)
{
    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].id == id) {
            return role < 0 || configuration->servers[i].role == role;
        }
    }
    return false;
}

static lq_replica_id replica_id(const struct group_state *group, unsigned node)
{
    return lq_replica_make(node + 1, group->incarnation[node]);
}

static bool take_change(struct replica *leader, enum lq_change change, lq_replica_id id)
{
    bool taken = lq_group_change(leader->group, change, id) == LIGHTQ_OK;
    sim_touch(leader->node);
    return taken;
}

static bool any_lost(const struct test *test)
{
    for (unsigned g = 0; g < test->groups; g++) {
        if (test->group[g].lost[test->fault_node]) {
            return true;
        }
    }
    return test->faulty;
}

static void destroy_replica(struct test *test, unsigned at, unsigned node)
{
    struct group_state *group = &test->group[at];
    struct replica *replica = &test->replicas[node][at];
    if (replica->group != NULL) {
        lq_group_close(replica->group, true);
        replica->group = NULL;
        replica->pending_count = 0;
        replica->leads = false;
    }
    group->incarnation[node] = 0;
}

static void new_replica(struct test *test, unsigned at, unsigned node)
{
    struct group_state *group = &test->group[at];
    group->incarnation[node] = ++group->last_incarnation[node];
    group->durable_at_crash[node] = 0;
    group->lost[node] = false;
    if (sim_is_up(sim_node_at(test->sim, node))) {
        open_replica(test, sim_node_at(test->sim, node), at);
        sim_touch(sim_node_at(test->sim, node));
    }
}

static unsigned members(const struct test *test, unsigned at)
{
    unsigned count = 0;
    for (unsigned n = 0; n < sim_nodes(test->sim); n++) {
        count += test->group[at].incarnation[n] != 0;
    }
    return count;
}

/* A group of fewer than three takes one in. */
static void begin_growth(struct test *test, unsigned at, struct replica *leader, unsigned to)
{
    struct group_state *group = &test->group[at];
    if (group->incarnation[to] == 0) {
        group->move_index = leader->group->raft.configuration_committed_index;
        group->moved_to = to;
        new_replica(test, at, to);
        group->move = MOVE_ADD;
    }
}

/* A voter is removed first, then a new replica is added and promoted: on a node that has none, else on the same one. */
static void begin_move(struct test *test, unsigned at, struct replica *leader)
{
    struct group_state *group = &test->group[at];
    unsigned nodes = sim_nodes(test->sim);
    unsigned from = (unsigned)sim_random_below(test->sim, nodes);
    unsigned to = (unsigned)sim_random_below(test->sim, nodes);
    if (group->lost[test->fault_node]) {
        from = to = test->fault_node; /* rebuilt before anything else is moved */
    } else if (any_lost(test) || test->faults_over || (test->failure_wanted && members(test, at) >= 3)) {
        return;
    } else if (members(test, at) < 3) {
        begin_growth(test, at, leader, to);
        return;
    }
    if (group->incarnation[from] == 0 || from == leader->node->id - 1) {
        return;
    }
    group->moved_from = from;
    group->moved_to = group->incarnation[to] == 0 ? to : from;
    group->move_index = leader->group->raft.configuration_committed_index;
    if (take_change(leader, LQ_CHANGE_REMOVE, replica_id(group, from))) {
        group->move = MOVE_REMOVE;
    }
}

static void step_move(struct test *test, unsigned at)
{
    struct group_state *group = &test->group[at];
    struct replica *leader = leading_replica(test, at);
    if (leader == NULL || leader->group->raft.configuration_uncommitted_index != 0 ||
        leader->group->raft.configuration_committed_index < group->move_index) {
        return; /* or it does not know the newest configuration */
    }
    const struct raft_configuration *committed = &leader->group->raft.configuration_committed;
    uint64_t index = leader->group->raft.configuration_committed_index;
    switch (group->move) {
    case MOVE_NONE:
        begin_move(test, at, leader);
        return;
    case MOVE_REMOVE:
        if (!has_server(committed, replica_id(group, group->moved_from), -1)) {
            group->move_index = index;
            group->move = MOVE_DESTROY;
        } else if (leader->node->id - 1 == group->moved_from ||
                   !take_change(leader, LQ_CHANGE_REMOVE, replica_id(group, group->moved_from))) {
            group->move = MOVE_NONE; /* it became the leader, or it was lost: another time */
        }
        return;
    case MOVE_DESTROY:
        destroy_replica(test, at, group->moved_from);
        new_replica(test, at, group->moved_to);
        group->move = MOVE_ADD;
        return;
    case MOVE_ADD:
        if (has_server(committed, replica_id(group, group->moved_to), -1)) {
            group->move_index = index;
            group->move = MOVE_PROMOTE;
        } else {
            (void)take_change(leader, LQ_CHANGE_ADD_STANDBY, replica_id(group, group->moved_to));
        }
        return;
    case MOVE_PROMOTE:
        if (has_server(committed, replica_id(group, group->moved_to), RAFT_VOTER)) {
            group->move_index = index;
            group->move = MOVE_NONE;
            test->moves++;
        } else {
            (void)take_change(leader, LQ_CHANGE_PROMOTE, replica_id(group, group->moved_to));
        }
        return;
    }
}

static void mover(struct sim *sim, void *data)
{
    struct test *test = data;
    step_move(test, (unsigned)sim_random_below(sim, test->groups));
    sim_plan(sim, 20000 + sim_random_below(sim, 60000), mover, test);
}

/* ---- faults ---- */

static void start_later(struct sim *sim, void *data)
{
    struct sim_node *node = data;
    struct test *test = sim_data(sim);
    if (!sim_is_up(node)) {
        lq_io_mem_clear_faults(node->disk);
        test->faulty = test->faulty && node->id - 1 != test->fault_node;
        sim_start(node);
    }
}

static void crash(struct test *test, unsigned node, enum lq_io_mem_crash_mode mode)
{
    struct sim *sim = test->sim;
    if (sim_is_up(sim_node_at(sim, node))) {
        test->crashes++;
        if (test->trace) {
            printf("%10.3f ms  node %u crashes, mode %d\n", (double)sim_now_us(sim) / 1000, node + 1, (int)mode);
        }
        sim_crash(sim_node_at(sim, node), mode);
        sim_plan(sim, 10000 + sim_random_below(sim, 1500000), start_later, sim_node_at(sim, node));
    }
}

static enum lq_io_mem_crash_mode any_mode(struct sim *sim)
{
    static const enum lq_io_mem_crash_mode modes[] = {LQ_IO_MEM_KEEP, LQ_IO_MEM_LOSE, LQ_IO_MEM_TEAR};
    return modes[sim_random_below(sim, 3)];
}

static void crash_later(struct sim *sim, void *data)
{
    struct sim_node *node = data;
    crash(sim_data(sim), node->id - 1, any_mode(sim));
}

/* Writes or syncs fail from now on: the replicas on that disk stop, until the node is started again. Not while a
 * replica is being moved: its group could be left without a majority that is whole. */
static void fail_disk(struct test *test)
{
    struct sim *sim = test->sim;
    struct sim_node *node = sim_node_at(sim, test->fault_node);
    struct lq_io_mem_fault fault = {.status = LIGHTQ_EIO};
    fault.verb = sim_random_below(sim, 2) == 0 ? LQ_IO_WRITE : LQ_IO_SYNC; /* one by one: the order is fixed */
    fault.nth = 1 + sim_random_below(sim, 20);
    fault.partial = sim_random_below(sim, 2) == 0;
    for (unsigned g = 0; g < test->groups; g++) {
        bool concerned = test->group[g].incarnation[test->fault_node] != 0;
        if (concerned && (members(test, g) < 3 || test->group[g].move != MOVE_NONE)) {
            return; /* again with the next fault */
        }
    }
    if (!any_lost(test) && sim_is_up(node) && lq_io_mem_add_fault(node->disk, &fault) == LIGHTQ_OK) {
        test->failure_wanted = false;
        test->faulty = true;
        test->disk_failures++;
        sim_plan(sim, 100000 + sim_random_below(sim, 1500000), crash_later, node);
    }
}

/* Little space is left for a while, or plenty again: appends are refused, nothing stops. */
static void change_space(struct test *test, unsigned node)
{
    struct sim *sim = test->sim;
    struct lq_store_space space;
    struct sim_node *at = sim_node_at(sim, node);
    if (sim_is_up(at) && lq_store_space(at->store, &space) == LIGHTQ_OK) {
        uint64_t used = space.total_bytes - space.free_bytes;
        bool little = sim_random_below(sim, 2) == 0;
        lq_io_mem_set_capacity(at->disk, little ? used + (UINT64_C(24) << 20) : LQ_IO_MEM_DISK_BYTES_DEFAULT);
    }
}

static void transfer(struct test *test)
{
    struct replica *replica = leading_replica(test, (unsigned)sim_random_below(test->sim, test->groups));
    if (replica != NULL && lq_group_transfer(replica->group, 0) == LIGHTQ_OK) {
        sim_touch(replica->node);
    }
}

static void cut_some(struct test *test)
{
    struct sim *sim = test->sim;
    unsigned nodes = sim_nodes(sim);
    unsigned a = (unsigned)sim_random_below(sim, nodes);
    bool both = sim_random_below(sim, 2) == 0;
    bool cut = sim_random_below(sim, 2) == 0;
    for (unsigned b = 0; b < nodes; b++) {
        if (b != a && sim_random_below(sim, 3) != 0) {
            sim_cut(sim, a, b, cut);
            if (both) {
                sim_cut(sim, b, a, cut);
            }
        }
    }
}

static void fault(struct sim *sim, void *data)
{
    struct test *test = data;
    unsigned nodes = sim_nodes(sim);
    unsigned a = (unsigned)sim_random_below(sim, nodes);
    unsigned b = (a + 1 + (unsigned)sim_random_below(sim, nodes - 1)) % nodes;
    enum lq_io_mem_crash_mode mode = any_mode(sim);
    bool refused = sim_random_below(sim, 2) == 0;
    if (test->faults_over) {
        return;
    }
    if (test->failure_wanted) {
        fail_disk(test);
    }
    switch (sim_random_below(sim, 20)) {
    case 0:
    case 1:
    case 2:
        crash(test, a, mode);
        break;
    case 3:
        for (unsigned i = 0; i < nodes; i++) { /* the power fails everywhere */
            crash(test, i, mode);
        }
        break;
    case 4:
    case 5:
        cut_some(test);
        break;
    case 6:
        sim_heal(sim);
        break;
    case 7:
    case 8:
        sim_break(sim, a, b, refused, sim_random_below(sim, 300000));
        break;
    case 9:
        sim_node_at(sim, a)->disk_latency_us = 100 + (unsigned)sim_random_below(sim, 30000);
        break;
    case 10:
        lq_io_mem_set_stalled(sim_node_at(sim, a)->disk, sim_random_below(sim, 2) == 0);
        break;
    case 11:
    case 14:
    case 15:
        test->failure_wanted = true;
        break;
    case 12:
    case 13:
        change_space(test, a);
        break;
    default:
        transfer(test);
        break;
    }
    sim_plan(sim, 5000 + sim_random_below(sim, 400000), fault, test);
}

/* ---- a run ---- */

static void choose_groups(struct test *test, unsigned nodes)
{
    struct sim *sim = test->sim;
    test->groups = 3 + (unsigned)sim_random_below(sim, 3);
    for (unsigned g = 0; g < test->groups; g++) {
        struct group_state *group = &test->group[g];
        uint64_t shape = sim_random_below(sim, 8);
        unsigned voters = shape < 2 ? nodes : shape < 4 ? 1 : 3;
        unsigned first = (unsigned)sim_random_below(sim, nodes);
        group->id = 10 + g;
        group->keep = 20 + sim_random_below(sim, 300);
        for (unsigned i = 0; i < voters; i++) {
            unsigned node = (first + i) % nodes;
            group->incarnation[node] = group->last_incarnation[node] = 1;
            group->founder[node] = true;
            group->founders.at[group->founders.count++] =
                (struct lq_server){.id = lq_replica_make(node + 1, 1), .role = LQ_ROLE_VOTER};
        }
    }
}

static void make_test(struct test *test, uint64_t seed, bool trace)
{
    uint64_t chance = seed;
    struct sim_options options = {.seed = seed,
                                  .start = on_start,
                                  .stop = on_stop,
                                  .damaged = on_damaged,
                                  .trace = on_trace,
                                  .data = test,
                                  .delay_min_us = 50};
    *test = (struct test){.seed = seed, .trace = trace};
    chance = mix(chance, 77);
    options.nodes = 3 + (unsigned)(chance % 3);
    options.reorder = (chance >> 8) % 2 == 0;
    options.drop_per_mille = (chance >> 16) % 60;
    options.double_per_mille = (chance >> 24) % 60;
    options.delay_max_us = 300 + (unsigned)((chance >> 32) % 8000);
    options.store = (struct lq_store_options){.dir = "",
                                              .cluster = {.bytes = {1, 2, 3}},
                                              .segment_bytes = UINT64_C(16384) << (chance >> 40) % 4,
                                              .journal_bytes = UINT64_C(65536) << (chance >> 44) % 3,
                                              .cache_bytes = UINT64_C(32768) << (chance >> 48) % 6,
                                              .index_stride = 4096,
                                              .sync_files_max = 1 + (unsigned)((chance >> 52) % 4)};
    test->sim = sim_new(&options);
    test->client_us = 1000 + sim_random_below(test->sim, 15000);
    test->fault_node = (unsigned)sim_random_below(test->sim, options.nodes);
    choose_groups(test, options.nodes);
    for (unsigned n = 0; n < options.nodes; n++) {
        for (unsigned g = 0; g < test->groups; g++) {
            test->replicas[n][g].pending = malloc(PENDING_MAX * sizeof(struct sent));
            assert_non_null(test->replicas[n][g].pending);
        }
    }
}

static void free_test(struct test *test)
{
    unsigned nodes = sim_nodes(test->sim);
    sim_free(test->sim);
    for (unsigned g = 0; g < test->groups; g++) {
        free(test->group[g].agreed);
        for (unsigned n = 0; n < nodes; n++) {
            free(test->replicas[n][g].pending);
        }
    }
}

/* Every voter of the leader's configuration has applied all that the leader has committed. */
static bool converged(struct test *test, unsigned at, uint64_t target)
{
    struct replica *leader = leading_replica(test, at);
    struct lq_group_status status;
    if (leader == NULL || leader->applied < target || test->group[at].move != MOVE_NONE || any_lost(test)) {
        return false;
    }
    lq_group_status(leader->group, &status);
    for (unsigned i = 0; i < status.replica_count; i++) {
        struct replica *replica = replica_of(test, status.replicas[i].id, at);
        if (replica->group == NULL || replica->group->self != status.replicas[i].id ||
            replica->applied != leader->applied || replica->hash != leader->hash) {
            return false;
        }
    }
    return true;
}

static void converge(struct test *test)
{
    uint64_t targets[GROUPS_MAX] = {0};
    bool asked[GROUPS_MAX] = {false};
    test->faults_over = true;
    sim_heal(test->sim);
    for (unsigned n = 0; n < sim_nodes(test->sim); n++) {
        struct sim_node *node = sim_node_at(test->sim, n);
        lq_io_mem_set_capacity(node->disk, LQ_IO_MEM_DISK_BYTES_DEFAULT);
        if (test->faulty && n == test->fault_node) {
            sim_crash(node, any_mode(test->sim));
        }
        start_later(test->sim, node);
    }
    for (unsigned step = 0; step < CONVERGE_STEPS_MAX && sim_failure(test->sim) == NULL; step++) {
        unsigned done = 0;
        sim_run(test->sim, CONVERGE_STEP_US);
        for (unsigned g = 0; g < test->groups; g++) {
            struct replica *leader = leading_replica(test, g);
            if (!asked[g] && leader != NULL && submit(test, leader)) {
                asked[g] = true; /* it accepts again */
                targets[g] = test->group[g].highest_acked;
            }
            done += asked[g] && converged(test, g, targets[g]);
        }
        if (done == test->groups) {
            return;
        }
    }
    for (unsigned g = 0; g < test->groups && sim_failure(test->sim) == NULL; g++) {
        if (!asked[g] || !converged(test, g, targets[g])) {
            sim_fail(test->sim, "group %" PRIu64 " does not %s after all faults are over", test->group[g].id,
                     asked[g] ? "agree" : "accept");
        }
    }
}

static void check_acknowledged(struct test *test)
{
    for (unsigned g = 0; g < test->groups && sim_failure(test->sim) == NULL; g++) {
        struct replica *leader = leading_replica(test, g);
        if (leader == NULL || leader->applied < test->group[g].highest_acked) {
            sim_fail(test->sim, "group %" PRIu64 " lost acknowledged entries", test->group[g].id);
        }
    }
}

/* NULL, or what failed (caller frees). */
static char *run_seed(uint64_t seed, bool trace, uint64_t *hash, bool verbose)
{
    struct test *test = calloc(1, sizeof *test);
    assert_non_null(test);
    make_test(test, seed, trace);
    for (unsigned n = 0; n < sim_nodes(test->sim); n++) {
        sim_start(sim_node_at(test->sim, n));
    }
    sim_run(test->sim, 2500000);
    sim_plan(test->sim, 0, client, test);
    sim_plan(test->sim, 0, mover, test);
    sim_plan(test->sim, 0, fault, test);
    sim_run(test->sim, FAULTS_US);
    if (sim_failure(test->sim) == NULL) {
        converge(test);
        check_acknowledged(test);
    }
    uint64_t acked = 0;
    for (unsigned g = 0; g < test->groups; g++) {
        acked += test->group[g].acked_count;
    }
    if (verbose) {
        printf("seed %" PRIu64 ": %u nodes, %u groups, %" PRIu64 " acknowledged, %" PRIu64 " crashes, %" PRIu64
               " elections, %" PRIu64 " trims, %" PRIu64 " installs, %" PRIu64 " moves, %" PRIu64
               " failed disks, %" PRIu64 " wiped, hash %016" PRIx64 "\n",
               seed, sim_nodes(test->sim), test->groups, acked, test->crashes, test->elections, test->trims,
               test->installs, test->moves, test->disk_failures, test->wipes, sim_hash(test->sim));
    }
    if (sim_failure(test->sim) == NULL && acked == 0) {
        sim_fail(test->sim, "nothing was ever acknowledged");
    }
    char *failure = sim_failure(test->sim) == NULL ? NULL : strdup(sim_failure(test->sim));
    *hash = sim_hash(test->sim);
    free_test(test);
    free(test);
    return failure;
}

struct range {
    uint64_t first, count;
};

static void test_seeds_keep_every_invariant(void **state)
{
    const struct range *range = *state;
    unsigned failed = 0;
    for (uint64_t seed = range->first; seed < range->first + range->count; seed++) {
        uint64_t hash;
        char *failure = run_seed(seed, false, &hash, false);
        if (failure != NULL) {
            printf("seed %" PRIu64 ": %s\n", seed, failure);
            free(failure);
            failed++;
        }
    }
    printf("seeds %" PRIu64 " to %" PRIu64 ": %u failed\n", range->first, range->first + range->count - 1, failed);
    assert_int_equal(failed, 0);
}

static void test_same_seed_runs_the_same_twice(void **state)
{
    (void)state;
    uint64_t first;
    uint64_t second;
    char *failure = run_seed(7, false, &first, false);
    free(failure);
    failure = run_seed(7, false, &second, false);
    free(failure);
    assert_int_equal(first, second);
}

int main(int argc, char **argv)
{
    struct range range = {.first = 1, .count = SEEDS_DEFAULT};
    uint64_t seed = 0;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[++i], NULL, 0);
        } else if (i + 1 < argc && strcmp(argv[i], "--first") == 0) {
            range.first = strtoull(argv[++i], NULL, 0);
        } else if (i + 1 < argc && strcmp(argv[i], "--count") == 0) {
            range.count = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--seed N [--trace]] [--first N] [--count N]\n", argv[0]);
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    lq_log_configure(trace ? LQ_LOG_WARN : LQ_LOG_OFF, 2);
    if (seed != 0) {
        uint64_t hash;
        char *failure = run_seed(seed, trace, &hash, true);
        printf("%s\n", failure == NULL ? "every invariant held" : failure);
        int code = failure == NULL ? 0 : 1;
        free(failure);
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_seeds_keep_every_invariant, &range),
        cmocka_unit_test(test_same_seed_runs_the_same_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
