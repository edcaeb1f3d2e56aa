/* chaos/sim/world.h - one simulated cluster with its clients: what the files of chaos/sim give one another. Everything
 * runs in one thread, in virtual time, from one seed.
 *
 *     main.c      the command line: seeds, modes, replaying, shrinking
 *     run.c       one seed: the cluster comes up, clients work, faults happen, faults stop, everything is checked
 *     machine.c   a node: identity, forming, store, Raft host, meta part, and what serves clients; all of it real
 *     net.c       the way between clients and nodes
 *     producer.c  the client library's producer, as a model of client/lib/sender*.c
 *     reader.c    its consumer
 *     grouper.c   who uses consumer groups, on the replica that leads
 *     truth.c     what must agree: entries by index and term, states, messages by offset, promises of replicas
 *     watch.c     looks on at every step of every node, and asks truth.c
 *     wraps.c     how it looks on: functions between the parts that the linker replaces
 *     plan.c      which faults happen when: a list made from the seed, so that it can be made shorter
 *     faults.c    carries them out
 *     keeper.c    the operator: starts what ended, replaces what is beyond repair
 *
 * The engine below (events, disks, network between nodes) is tests/lib/raft_sim.h. docs/reliability-sim.md tells what
 * is simulated and what is not. */
#ifndef LQ_SIM_WORLD_H
#define LQ_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/check/history.h"
#include "chaos/sim/grouper.h"
#include "chaos/sim/machine.h"
#include "chaos/sim/net.h"
#include "chaos/sim/plan.h"
#include "chaos/sim/producer.h"
#include "chaos/sim/reader.h"
#include "chaos/sim/truth.h"
#include "tests/lib/raft_sim.h"

enum {
    WORLD_FOUNDERS = 3,
    WORLD_REPLICAS = 3,
    WORLD_NODES = 4, /* at most: in some worlds one joins later */
    WORLD_PARTITIONS = 3,
    WORLD_PRODUCERS = 6,
    WORLD_READERS = 4,
    WORLD_PORT = 5600, /* node i has i more */
    WORLD_PEER_PORT = 5700,
};

#define WORLD_MS     UINT64_C(1000) /* microseconds */
#define WORLD_SECOND UINT64_C(1000000)
#define WORLD_WORK   (60 * WORLD_SECOND) /* clients and faults */

enum world_mode { WORLD_SAFETY, WORLD_LIVENESS };

struct world_options {
    uint64_t seed;
    enum world_mode mode;
    bool trace;
    const struct plan *plan; /* instead of the one made from the seed; may be NULL */
};

/* What a run came to. */
struct world_result {
    char failure[1024]; /* "": it passed */
    uint64_t hash;
    uint64_t operations; /* requests of clients, deliveries taken */
    uint64_t acknowledged, unknown, failed, reads, faults, elections, crashes, replaced, installs, trims, rebuilds;
    uint64_t settled, dead_letters, groups_moved; /* of consumer groups; moved: made, deleted, sought */
    uint64_t durable_looked_at;                   /* acknowledgements whose bytes were looked for on the disks */
    uint64_t virtual_us;
};

struct keeper;
struct at_work;

struct world {
    struct sim *sim;
    struct world_options options;
    struct plan plan;
    unsigned nodes;
    struct machine machines[WORLD_NODES];
    struct net net;
    struct truth truth;
    struct producer producers[WORLD_PRODUCERS];
    struct reader readers[WORLD_READERS];
    struct reader finals[WORLD_PARTITIONS];
    struct grouper *groupers[WORLD_PARTITIONS];
    struct keeper *keeper;
    struct lq_history history;
    struct lq_id topic;
    uint64_t groups[WORLD_PARTITIONS];
    uint32_t logs[WORLD_PARTITIONS]; /* of the history */
    uint64_t retention_messages;     /* 0: all are kept */
    enum lq_retention retention;
    uint64_t began_us; /* the clients' work */
    bool working;      /* new batches are made */
    bool faults_over;
    struct world_result result;
    /* faults.c */
    uint64_t harm_until_us;                                   /* a disk is being harmed until then */
    unsigned vote_crashes, leader_crashes, leader_isolations; /* armed: the next so many votes, new leaders */
    struct at_work *faults;
    char unsettled[256]; /* what is waited for */
};

/* How many nodes the world of @seed has. */
unsigned world_nodes(uint64_t seed);
/* OK, or what failed is in result->failure. */
void world_run(const struct world_options *options, struct world_result *result);

static inline struct world *world_of(struct sim *sim)
{
    return sim_data(sim);
}
static inline uint64_t world_now(const struct world *world)
{
    return sim_now_us(world->sim);
}
static inline uint64_t world_below(struct world *world, uint64_t bound)
{
    return sim_random_below(world->sim, bound);
}
/* The number of a partition's group; WORLD_PARTITIONS when it is none. */
unsigned world_partition(const struct world *world, uint64_t group);
/* A line of the trace, when it is asked for. */
void world_say(struct world *world, const char *format, ...) LQ_PRINTF(2, 3);
/* An adding function of the history failed, or not: that would be our own mistake. */
void world_noted(struct world *world, lightq_status status, const struct lq_err *err);

/* faults.c */
void faults_plan(struct world *world);
void faults_end(struct world *world);
void faults_free(struct world *world);
void faults_on_vote(struct world *world, struct sim_node *node);
void faults_on_leader(struct world *world, struct sim_node *node);

/* keeper.c */
lightq_status keeper_new(struct world *world) LQ_MUST_CHECK;
void keeper_free(struct world *world);
/* The node ended (crash, or by itself): it is started again after @delay_us. */
void keeper_start_later(struct world *world, unsigned node, uint64_t delay_us);
/* Its data is gone or not to be trusted: it is emptied, started, and said to be replaced. */
void keeper_condemn(struct world *world, unsigned node, const char *why);
/* It is gone for good, and node @by takes its replicas. */
void keeper_retire(struct world *world, unsigned node, unsigned by);
/* The cluster tells it that its directory was replaced. */
void keeper_on_expelled(struct world *world, unsigned node);
/* A replica stopped for good: an operator starts the node again. That it stopped without a reason is a failure. */
void keeper_on_stopped(struct world *world, unsigned node, uint64_t group, lightq_status status, const char *why);
/* A replica or a whole node is not whole: nothing else may be harmed so that data is lost. */
bool keeper_busy(const struct world *world);
/* Everything is up, and every replica is where the catalog wants it and votes. */
bool keeper_settled(struct world *world);

#endif
