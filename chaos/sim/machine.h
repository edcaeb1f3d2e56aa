/* chaos/sim/machine.h - a node of the simulation: what lightqd is made of, without its sockets and its process.
 * Started and ended by faults.c and keeper.c through tests/lib/raft_sim.h. */
#ifndef LQ_SIM_MACHINE_H
#define LQ_SIM_MACHINE_H

#include "node/forming.h"
#include "node/meta.h"
#include "node/service.h"
#include "raft/hello.h"
#include "tests/lib/raft_sim.h"

#define MACHINE_NODES_MAX 4

struct world;

struct machine {
    struct world *world;
    struct sim_node *node;
    struct lq_options options;
    struct lq_identity identity;
    uint64_t nonce; /* of this start */
    struct lq_hello_seen seen[MACHINE_NODES_MAX];
    struct lq_forming *forming;
    struct lq_meta *meta;
    struct lq_counters counters;
    struct lq_service service;
    struct lq_outlet outlet;
    uint64_t tick_us;
    uint64_t wrote_us; /* when an entry last became durable here */
    unsigned boots;
    bool founded; /* it began the cluster: its directory is not made again */
    bool formed;  /* forming is done */
    bool ready;   /* serves clients, or will with the next turn */
    bool serving;
    bool ending;      /* its process ends with the next event */
    bool dead;        /* nothing is sent any more */
    bool harmed;      /* its disk may have lost something: not whole until the keeper says so */
    bool rotten;      /* a bit of it may be wrong where nobody has looked yet */
    bool copied;      /* an older copy of it is about to come back */
    bool restored;    /* its directory was replaced by an older copy */
    bool disbelieved; /* another node refuses it for its identity */
    bool retired;     /* another node has taken its place: it never starts again */
};

lightq_status machine_init(struct machine *machine, struct world *world, struct sim_node *node) LQ_MUST_CHECK;
void machine_deinit(struct machine *machine);

/* For struct sim_options. */
lightq_status machine_prepare(struct sim_node *node, struct lq_store_options *store) LQ_MUST_CHECK;
void machine_start(struct sim_node *node);
void machine_stop(struct sim_node *node);
void machine_turn(struct sim_node *node);
void machine_tick(struct sim_node *node);
uint64_t machine_deadline_us(struct sim_node *node);
bool machine_admit(struct sim_node *node, struct sim_node *other);
extern const struct lq_host_events machine_host_events;

/* Power cut of @mode, or (kill) the process alone; what it read is told so. */
void machine_crash(struct machine *machine, enum lq_io_mem_crash_mode mode);
void machine_kill(struct machine *machine);

/* The partition, when it is led here; else NULL. */
struct lq_partition *machine_leads(const struct machine *machine, uint64_t group);

#endif
