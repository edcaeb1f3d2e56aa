/* chaos/sim/watch.c - see watch.h. */
#include "chaos/sim/watch.h"

#include <assert.h>
#include <inttypes.h>
#include <raft.h>
#include <string.h>

#include "chaos/sim/world.h"
#include "raft/group.h"

enum {
    LOOK_ONE_IN = 64, /* acknowledgements whose bytes are looked for on the disks */
    REFS_MAX = 64,
};

static struct world *world_of_node(const struct sim_node *node)
{
    return sim_data(node->sim);
}

/* ---- entries */

static void entries_stored(struct sim_node *node, struct truth_group *group, uint64_t first, uint64_t count)
{
    struct world *world = world_of_node(node);
    struct lq_rlog *log = lq_store_find(node->store, group->id);
    struct lq_entry_ref refs[REFS_MAX];
    uint64_t index = first;
    while (log != NULL && index < first + count) {
        size_t got = lq_rlog_peek(log, index, UINT64_MAX, REFS_MAX, refs);
        for (size_t i = 0; i < got; i++) {
            struct lq_entry entry;
            uint64_t size;
            const uint8_t *bytes = lq_entry_ref_bytes(&refs[i]);
            if (lq_entry_decode(bytes, refs[i].size, false, &entry, &size, NULL) == LIGHTQ_OK) {
                truth_stored(world, group, &entry, lq_get_u32(bytes));
            }
            lq_slab_unref(refs[i].slab);
        }
        if (got == 0) {
            return; /* fallen out of the cache already */
        }
        index += got;
    }
}

static void committed(struct sim_node *node, struct truth_group *group, lq_replica_id self, uint64_t index)
{
    struct world *world = world_of_node(node);
    struct truth_promise *promise = truth_promise(world, group, self);
    const struct lq_rlog *log = lq_store_find(node->store, group->id);
    if (index < promise->committed) {
        sim_fail(world->sim, "group %" PRIu64 ": the commit index of node %u goes back from %" PRIu64 " to %" PRIu64,
                 group->id, node->id, promise->committed, index);
    }
    promise->committed = index;
    uint64_t term = log == NULL || index > lq_rlog_last(log) ? 0 : lq_rlog_term_at(log, index);
    truth_committed(world, group, index, term);
    const struct lq_group *raft = lq_host_find(node->host, group->id);
    if (raft != NULL && lq_group_leads(raft) && term != 0) {
        if (term != raft_current_term(&raft->raft)) { /* Raft, section 5.4.2 */
            sim_fail(world->sim,
                     "group %" PRIu64 ": node %u counts entry %" PRIu64 " of term %" PRIu64
                     " as committed, and leads term %" PRIu64,
                     group->id, node->id, index, term, (uint64_t)raft_current_term(&raft->raft));
        }
        watch_durable(world, group->id, index, term);
    }
}

/* ---- promises */

/* A replica speaks: what it has written down, it keeps. */
static void promised(struct sim_node *node, struct truth_group *group, lq_replica_id self)
{
    struct truth_promise *promise = truth_promise(world_of_node(node), group, self);
    const struct lq_rlog *log = lq_store_find(node->store, group->id);
    if (log != NULL) {
        lq_rlog_vote(log, &promise->term, &promise->vote);
    }
}

static void durable(struct sim_node *node, struct truth_group *group, lq_replica_id self, uint64_t index)
{
    struct truth_promise *promise = truth_promise(world_of_node(node), group, self);
    const struct lq_rlog *log = lq_store_find(node->store, group->id);
    if (log != NULL) {
        promise->durable = index;
        promise->durable_term = lq_rlog_term_at(log, index);
        ((struct machine *)node->data)->wrote_us = world_now(world_of_node(node));
    }
}

static void cut(struct sim_node *node, struct truth_group *group, lq_replica_id self, uint64_t index)
{
    struct truth_promise *promise = truth_promise(world_of_node(node), group, self);
    const struct lq_rlog *log = lq_store_find(node->store, group->id);
    if (index <= promise->applied) {
        sim_fail(node->sim, "group %" PRIu64 ": node %u cuts its log at %" PRIu64 ", and has applied %" PRIu64,
                 group->id, node->id, index, promise->applied);
    }
    if (log != NULL && promise->durable >= index) {
        promise->durable = index - 1;
        promise->durable_term = lq_rlog_term_at(log, index - 1);
    }
}

/* A replica is back: nothing of what it promised is missing. */
static void started(struct sim_node *node, struct truth_group *group, lq_replica_id self, uint64_t term, uint64_t last)
{
    struct world *world = world_of_node(node);
    struct truth_promise *promise = truth_promise(world, group, self);
    const struct lq_rlog *log = lq_store_find(node->store, group->id);
    uint64_t log_term = 0;
    uint64_t vote = 0;
    promise->committed = promise->applied = 0;
    if (((struct machine *)node->data)->restored || log == NULL) {
        return; /* it has forgotten, by our doing: others must refuse it */
    }
    lq_rlog_vote(log, &log_term, &vote);
    if (term < promise->term) {
        sim_fail(world->sim, "group %" PRIu64 ": node %u starts in term %" PRIu64 ", and spoke in term %" PRIu64,
                 group->id, node->id, term, promise->term);
    } else if (log_term == promise->term && promise->vote != 0 && vote != promise->vote) {
        sim_fail(world->sim, "group %" PRIu64 ": node %u has forgotten its vote of term %" PRIu64, group->id, node->id,
                 promise->term);
    } else if (last < promise->durable) {
        sim_fail(world->sim,
                 "group %" PRIu64 ": node %u starts with entries up to %" PRIu64 ", and had %" PRIu64 " durable",
                 group->id, node->id, last, promise->durable);
    } else if (promise->durable >= lq_rlog_first(log) &&
               lq_rlog_term_at(log, promise->durable) != promise->durable_term) {
        sim_fail(world->sim, "group %" PRIu64 ": node %u starts with another entry %" PRIu64 " than was durable there",
                 group->id, node->id, promise->durable);
    }
    promise->durable = last; /* what is on the disk at a start is what it has: a later one must find it too */
    promise->durable_term = last == 0 ? 0 : lq_rlog_term_at(log, last);
}

/* ---- what is durable */

/* Whether the disk of @node would have that entry after a power cut: in its group's segments or in the journal. */
static bool on_disk(struct world *world, unsigned node, uint64_t group, uint64_t index, uint64_t term)
{
    uint8_t header[24]; /* group, index, term: bytes 8 to 32 of an entry */
    lq_put_u64(header, group);
    lq_put_u64(header + 8, index);
    lq_put_u64(header + 16, term);
    return lq_io_mem_durable_has(sim_node_at(world->sim, node)->disk, header, sizeof header);
}

/* Its disk is not what it was when it spoke, by our doing: then what it told counts. */
static bool is_changed(const struct world *world, unsigned node)
{
    return world->machines[node].harmed || world->machines[node].restored;
}

/* Whether @id has it, as far as it told; a replica that is down is believed. */
static bool holds(struct world *world, struct truth_group *group, lq_replica_id id, uint64_t index, uint64_t term)
{
    unsigned node = lq_replica_node(id) - 1;
    const struct truth_promise *promise = &group->promises[node];
    const struct sim_node *at = sim_node_at(world->sim, node);
    if (promise->incarnation != lq_replica_incarnation(id) || promise->durable < index) {
        return false;
    }
    const struct lq_rlog *log = at->store == NULL ? NULL : lq_store_find(at->store, group->id);
    return log == NULL || is_changed(world, node) || lq_rlog_incarnation(log) != promise->incarnation ||
           index < lq_rlog_first(log) || lq_rlog_term_at(log, index) == term;
}

static bool trimmed(struct world *world, unsigned node, uint64_t group, uint64_t index)
{
    const struct sim_node *at = sim_node_at(world->sim, node);
    const struct lq_rlog *log = at->store == NULL ? NULL : lq_store_find(at->store, group);
    return log != NULL && index < lq_rlog_first(log);
}

/* More than half of the voters of @configuration. */
static bool majority(struct world *world, struct truth_group *group, const struct raft_configuration *configuration,
                     uint64_t index, uint64_t term, bool look)
{
    unsigned voters = 0;
    unsigned holding = 0;
    for (unsigned i = 0; i < configuration->n; i++) {
        lq_replica_id id = configuration->servers[i].id;
        unsigned node = lq_replica_node(id) - 1;
        if (configuration->servers[i].role != RAFT_VOTER) {
            continue;
        }
        voters++;
        holding += holds(world, group, id, index, term) &&
                   (!look || is_changed(world, node) || trimmed(world, node, group->id, index) ||
                    on_disk(world, node, group->id, index, term));
    }
    return holding * 2 > voters;
}

void watch_durable(struct world *world, uint64_t id, uint64_t index, uint64_t term)
{
    struct truth_group *group = truth_group(world, id);
    bool look = world_below(world, LOOK_ONE_IN) == 0;
    for (unsigned i = 0; i < world->nodes; i++) {
        const struct sim_node *node = sim_node_at(world->sim, i);
        const struct lq_group *raft = node->host == NULL ? NULL : lq_host_find(node->host, id);
        if (raft == NULL || !lq_group_leads(raft) || raft->committed < index) {
            continue;
        }
        world->result.durable_looked_at += look;
        if (!majority(world, group, &raft->raft.configuration, index, term, look) &&
            !majority(world, group, &raft->raft.configuration_committed, index, term, look)) {
            sim_fail(world->sim,
                     "group %" PRIu64 ": entry %" PRIu64 " of term %" PRIu64
                     " counts as safe, and is not durable on a majority",
                     id, index, term);
        }
        return;
    }
}

/* ---- the trace */

static void on_state(struct sim_node *node, struct truth_group *group, const struct lq_trace_event *event)
{
    struct world *world = world_of_node(node);
    if (event->a == RAFT_LEADER) {
        truth_leads(world, group, event->b, event->self);
        faults_on_leader(world, node);
    }
}

void watch_trace(void *data, const struct lq_trace_event *event)
{
    struct sim_node *node = data;
    struct world *world = world_of_node(node);
    struct truth_group *group = truth_group(world, event->group);
    sim_hash_add(node->sim, (uint64_t)event->kind << 56 ^ event->group << 48 ^ event->self << 40);
    sim_hash_add(node->sim, event->a);
    sim_hash_add(node->sim, event->b);
    if (world->options.trace) {
        world_say(world, "node %u group %" PRIu64 "  %-10s %" PRIu64 " %" PRIu64, node->id, event->group,
                  lq_trace_name(event->kind), event->a, event->b);
    }
    switch (event->kind) {
    case LQ_TRACE_START:
        started(node, group, event->self, event->a, event->b);
        break;
    case LQ_TRACE_STATE:
        on_state(node, group, event);
        break;
    case LQ_TRACE_VOTE:
        faults_on_vote(world, node);
        break;
    case LQ_TRACE_CUT:
        cut(node, group, event->self, event->a);
        break;
    case LQ_TRACE_APPEND:
        entries_stored(node, group, event->a, event->b);
        break;
    case LQ_TRACE_DURABLE:
        durable(node, group, event->self, event->a);
        break;
    case LQ_TRACE_COMMIT:
        committed(node, group, event->self, event->a);
        break;
    case LQ_TRACE_APPLY:
        truth_promise(world, group, event->self)->applied = event->a;
        break;
    case LQ_TRACE_SEND:
        promised(node, group, event->self);
        break;
    case LQ_TRACE_INSTALLED:
        durable(node, group, event->self, event->a);
        world->result.installs++;
        break;
    case LQ_TRACE_TRIM:
        world->result.trims++;
        break;
    default:
        break;
    }
}
