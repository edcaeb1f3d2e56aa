/* tests/unit/node/cluster_fixture.h - whole nodes without their sockets: identity, forming, meta group, catalog and
 * partitions on real Raft hosts and real stores, in one thread under one seed (tests/lib/raft_sim.h). */
#ifndef LQ_TESTS_CLUSTER_FIXTURE_H
#define LQ_TESTS_CLUSTER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/forming.h"
#include "node/letter.h"
#include "node/meta.h"
#include "tests/lib/raft_sim.h"

#define MEMBERS_MAX SIM_NODES_MAX
#define SECOND_US   UINT64_C(1000000)

struct cluster;

struct member {
    struct cluster *cluster;
    struct sim_node *node;
    struct lq_identity identity;
    struct lq_forming *forming;
    struct lq_meta *meta;
    bool formed, ready;
    bool expelled;       /* and down for it */
    unsigned port_shift; /* of its advertised addresses, from its next start on */
    struct lq_err waiting, expelled_err;
};

struct cluster {
    struct sim *sim;
    unsigned founders; /* nodes 1 to this begin it together; others are blank when they first start */
    struct member members[MEMBERS_MAX];
    struct lq_slab *slab;
};

struct cluster_options {
    unsigned nodes, founders;
    uint64_t seed;
    bool reorder;
    uint64_t segment_bytes; /* 0: 64 KiB */
    bool scrub;             /* rot is searched for all the time */
};

struct cluster *cluster_new(const struct cluster_options *options);
void cluster_free(struct cluster *cluster);
/* Starts nodes 1 to @count and waits until all are ready. */
void cluster_up(struct cluster *cluster, unsigned count);

struct member *member_of(struct cluster *cluster, unsigned id);
void cluster_start(struct cluster *cluster, unsigned id);
void cluster_kill(struct cluster *cluster, unsigned id);
/* Its directory is emptied; it must be down. */
void cluster_wipe(struct cluster *cluster, unsigned id);
void cluster_run_ms(struct cluster *cluster, uint64_t ms);

/* Runs until @condition holds; fails the test after @seconds. */
typedef bool (*condition_cb)(struct cluster *cluster, void *data);
#define cluster_wait(cluster, condition, data, seconds) \
    cluster_wait_at(cluster, condition, data, seconds, #condition, __FILE__, __LINE__)
void cluster_wait_at(struct cluster *cluster, condition_cb condition, void *data, unsigned seconds, const char *what,
                     const char *file, int line);

/* ---- changes ---- */

struct asked {
    struct lq_meta_request request;
    unsigned answers;
    lightq_status status;
};
/* On node @id; answered later. */
void ask_create(struct cluster *cluster, unsigned id, struct asked *asked, const char *name, uint32_t partitions,
                uint32_t replicas);
void ask(struct cluster *cluster, unsigned id, struct asked *asked);
/* The same, waited for. */
lightq_status create_topic(struct cluster *cluster, unsigned id, const char *name, uint32_t partitions,
                           uint32_t replicas);
lightq_status delete_topic(struct cluster *cluster, unsigned id, const char *name);
lightq_status replace_node(struct cluster *cluster, unsigned id, uint32_t old_node, uint32_t new_node);
/* Also when it is up. */
lightq_status replace_live_node(struct cluster *cluster, unsigned id, uint32_t old_node, uint32_t new_node);

/* ---- messages ---- */

struct sent {
    struct lq_partition_request request;
    unsigned answers;
    lightq_status status;
};
/* The partition where it is led; NULL when nobody does. */
struct lq_partition *leader_of(struct cluster *cluster, uint64_t group, unsigned *id);
/* Produces @count batches of one message each to the leader, one after the other; each is acknowledged. */
void produce_some(struct cluster *cluster, uint64_t group, unsigned count);
/* Whether all @replicas live replicas of each partition of @name are at one end with one digest. */
struct equal {
    const char *name;
    unsigned replicas;
};
bool replicas_equal(struct cluster *cluster, void *equal);
/* Up, ready, and every replica of its catalog is open under its incarnation. */
bool all_settled(struct cluster *cluster, void *unused);

/* Node @to gets @letter, as from node @from over their connection. */
void cluster_give_letter(struct cluster *cluster, unsigned to, uint32_t from, const struct lq_letter *letter);

#endif
