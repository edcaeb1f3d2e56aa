/* tests/lib/raft_sim.h - a cluster of real Raft hosts on real stores in one thread: fake clock, disks in memory, and a
 * network that delays, drops, doubles, reorders, cuts one way and breaks connections, all from one seed. The test
 * decides what happens and checks; this runs it. The same seed gives the same events.
 *
 * Time moves from event to event. Every event of a node is followed by a turn of its host, a little later. */
#ifndef LQ_TESTS_RAFT_SIM_H
#define LQ_TESTS_RAFT_SIM_H

#include "raft/host.h"
#include "raft/trace.h"
#include "storage/io_mem.h"
#include "storage/store.h"

#define SIM_NODES_MAX 8

struct sim;

struct sim_node {
    struct sim *sim;
    uint32_t id; /* 1 and on */
    struct lq_clock clock;
    struct lq_link link;
    struct lq_io_mem *disk;
    struct lq_store *store; /* NULL while it is down */
    struct lq_host *host;
    unsigned boot; /* events of an earlier one are void */
    uint64_t random;
    bool turn_planned;
    uint64_t wake_us; /* of the wake event that counts */
    unsigned disk_latency_us;
    uint64_t paused_until_us; /* its process stands still: what comes waits */
    int64_t wall_shift_ms;    /* its wall clock is wrong by so much */
    void *data;               /* the test's */
};

struct sim_options {
    uint64_t seed;
    unsigned nodes;
    bool reorder; /* messages of one connection may overtake, be lost one by one, and come twice */
    unsigned drop_per_mille, double_per_mille;
    unsigned delay_min_us, delay_max_us;
    struct lq_host_options host;
    struct lq_store_options store;
    struct lq_host_events events;
    /* Before the store is opened; may change its options. Not OK: the node stays down. May be NULL. */
    lightq_status (*prepare)(struct sim_node *node, struct lq_store_options *store);
    /* Opens the node's groups; called after each start. */
    void (*start)(struct sim_node *node);
    /* The store does not open: the node stays down. NULL: that is a failure, or damaged() decides. */
    void (*unopened)(struct sim_node *node, lightq_status status, const struct lq_err *err);
    /* Instead of the host's own turn and tick, when there is more than a host; with the time of the next tick. All
     * three or none. */
    void (*turn)(struct sim_node *node);
    void (*tick)(struct sim_node *node);
    uint64_t (*deadline_us)(struct sim_node *node);
    /* Whether @node believes that @other is who it says. False: no connection, and tried again. NULL: always. */
    bool (*admit)(struct sim_node *node, struct sim_node *other);
    /* The store does not open: true wipes the disk and tries again. NULL: that is a failure. */
    bool (*damaged)(struct sim_node *node, lightq_status status);
    /* Before a crash: the machines are gone. */
    void (*stop)(struct sim_node *node);
    lq_trace_cb trace;
    void *data;
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim);
void *sim_data(const struct sim *sim);

uint64_t sim_now_us(const struct sim *sim);
uint64_t sim_random(struct sim *sim);
uint64_t sim_random_below(struct sim *sim, uint64_t bound);
/* Stops sim_run; the first sentence counts. */
void sim_fail(struct sim *sim, const char *format, ...) LQ_PRINTF(2, 3);
const char *sim_failure(const struct sim *sim); /* NULL: none */
/* Over all events so far. */
uint64_t sim_hash(const struct sim *sim);
void sim_hash_add(struct sim *sim, uint64_t value);

/* Runs events for @us, or until a failure. */
void sim_run(struct sim *sim, uint64_t us);
/* @run is called at its time unless the simulation ends before. */
void sim_plan(struct sim *sim, uint64_t delay_us, void (*run)(struct sim *sim, void *data), void *data);

struct sim_node *sim_node_at(struct sim *sim, unsigned i);
unsigned sim_nodes(const struct sim *sim);
bool sim_is_up(const struct sim_node *node);
/* Something was done to a node from outside: plan its turn. */
void sim_touch(struct sim_node *node);
void sim_crash(struct sim_node *node, enum lq_io_mem_crash_mode mode);
/* The process ends, the machine goes on: what was written is there, synced or not, until a later crash. */
void sim_kill(struct sim_node *node);
void sim_pause(struct sim_node *node, uint64_t us);
void sim_start(struct sim_node *node);
/* Nothing gets from @from to @to. */
void sim_cut(struct sim *sim, unsigned from, unsigned to, bool cut);
void sim_break(struct sim *sim, unsigned a, unsigned b, bool refused, uint64_t back_after_us);
/* What the network does from now on. */
void sim_set_network(struct sim *sim, bool reorder, unsigned drop_per_mille, unsigned double_per_mille,
                     unsigned delay_max_us);
/* All cuts and slow disks end. */
void sim_heal(struct sim *sim);

#endif
