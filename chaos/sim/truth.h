/* chaos/sim/truth.h - what must agree in the whole cluster, for ever: kept outside of every node, so that nobody can
 * forget it. Told by watch.c, producer.c and reader.c; a contradiction ends the run. Pure memory.
 *
 *     by group and term            one leader
 *     by group, index and term     one entry, and one entry before it (log matching)
 *     by group and index           one committed entry, once any replica says that it is committed, and one state after
 *                                  it (the bytes that a checkpoint would hold)
 *     by group and replica         what it promised by anything it sent: term, vote, and entries that are durable. It
 *                                  has all of that when it comes back
 *     by partition and offset      one batch
 *     by producer id               one batch a sequence, in order; none left out but where an epoch begins, and none of
 *                                  an epoch after one of a higher epoch */
#ifndef LQ_SIM_TRUTH_H
#define LQ_SIM_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raft/host.h"
#include "storage/format.h"

struct world;

enum { TRUTH_GROUPS_MAX = 8, TRUTH_NODES_MAX = 4, TRUTH_VARIANTS = 4 };

/* An entry that some log had at an index. */
struct truth_variant {
    uint64_t term, prev_term;
    uint32_t crc;
};

struct truth_index {
    struct truth_variant variants[TRUTH_VARIANTS]; /* the later ones are not looked at */
    uint8_t variant_count;
    bool has_state;
    uint32_t state; /* crc of it, after this entry */
    uint64_t committed_term;
    uint64_t applied_term;
    uint32_t applied_crc;
};

/* Of a replica of one incarnation. */
struct truth_promise {
    uint32_t incarnation;
    uint64_t term, vote;
    uint64_t durable, durable_term; /* the entry that ends what is durable */
    uint64_t committed;             /* since it started */
    uint64_t applied;
};

struct truth_leader {
    uint64_t term;
    lq_replica_id id;
};

struct truth_group {
    uint64_t id;
    struct truth_index *at; /* by index */
    size_t capacity;
    uint64_t committed;
    struct truth_leader *leaders;
    size_t leader_count, leader_capacity;
    struct truth_promise promises[TRUTH_NODES_MAX];
    struct truth_promise restored; /* of who works with an older copy: nobody listens */
};

/* A batch at its place. */
struct truth_batch {
    uint64_t offset, producer, sequence, index, term;
    uint32_t crc, count;
    uint32_t epoch;    /* under which it was stored */
    bool begins_epoch; /* its producer said so */
};

/* What a producer id has stored. */
struct truth_sequence {
    uint64_t producer, next;
    uint32_t epoch;
};

struct truth_log {
    struct truth_batch *batches; /* by offset, the same one for each of its messages */
    size_t capacity;
    uint64_t end, start;
    struct truth_sequence *sequences;
    size_t sequence_count, sequence_capacity;
};

struct truth {
    struct truth_group groups[TRUTH_GROUPS_MAX];
    unsigned group_count;
    struct truth_log logs[TRUTH_GROUPS_MAX]; /* of partitions */
};

void truth_deinit(struct truth *truth);
/* Made when it is first named; NULL and a failure when there are too many. */
struct truth_group *truth_group(struct world *world, uint64_t id);
struct truth_index *truth_at(struct truth_group *group, uint64_t index);

void truth_leads(struct world *world, struct truth_group *group, uint64_t term, lq_replica_id id);
/* The log of some replica has @entry, whose encoded bytes have @crc. */
void truth_stored(struct world *world, struct truth_group *group, const struct lq_entry *entry, uint32_t crc);
/* Some replica says that everything up to @index is committed, and has an entry of @term there. */
void truth_committed(struct world *world, struct truth_group *group, uint64_t index, uint64_t term);
/* A replica applies @entry. */
void truth_applied(struct world *world, struct truth_group *group, const struct lq_entry *entry, uint32_t crc);
/* The state after @index of some replica. */
void truth_state(struct world *world, struct truth_group *group, uint64_t index, uint32_t state);

/* The promise of the replica @id; begins anew with a higher incarnation. */
struct truth_promise *truth_promise(struct world *world, struct truth_group *group, lq_replica_id id);

/* @batch is in partition @number from now on. */
void truth_batch(struct world *world, unsigned number, const struct truth_batch *batch);
/* A producer is told so: it must be true, and durable on a majority. */
void truth_acknowledged(struct world *world, unsigned number, const struct truth_batch *said);
/* A reader is given it. */
void truth_read(struct world *world, unsigned number, const struct truth_batch *seen);

#endif
