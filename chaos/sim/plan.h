/* chaos/sim/plan.h - which faults happen when: a list, made from the seed and nothing else, so that a run can be made
 * again with fewer of them. Carried out by faults.c. Pure memory. */
#ifndef LQ_SIM_PLAN_H
#define LQ_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* X(name, weight, what). Those from EIO on may lose what a disk holds: one node at a time, until it is whole again. */
#define FAULT_KINDS(X)                                                           \
    X(CRASH, 14, "a node loses power")                                           \
    X(POWER, 4, "all nodes lose power")                                          \
    X(KILL, 6, "a process ends, its machine goes on")                            \
    X(PAUSE, 6, "a process stands still")                                        \
    X(CUT, 6, "nothing gets from one node to another")                           \
    X(PART, 6, "two nodes do not hear each other")                               \
    X(ISOLATE, 8, "a node hears no other")                                       \
    X(RESET, 5, "a connection breaks")                                           \
    X(NETWORK, 6, "messages are lost, doubled, reordered, late")                 \
    X(CLIENT_CUT, 4, "some clients do not reach a node")                         \
    X(CLIENT_SLOW, 3, "some client messages take seconds")                       \
    X(SLOW_DISK, 4, "a disk takes long")                                         \
    X(HUNG_DISK, 4, "a disk does nothing")                                       \
    X(LITTLE_SPACE, 3, "a disk is nearly full")                                  \
    X(NO_SPACE, 3, "a disk is full")                                             \
    X(CLOCK, 2, "a node's wall clock jumps")                                     \
    X(TRANSFER, 8, "a leader hands over")                                        \
    X(VOTE_CRASH, 5, "who votes next loses power at once")                       \
    X(LEADER_CRASH, 5, "who becomes leader next loses power soon")               \
    X(LEADER_ISOLATE, 5, "who becomes leader next is cut off, and then crashes") \
    X(EIO, 5, "writes or syncs fail")                                            \
    X(FLIP, 4, "a bit of a file is wrong when its node starts")                  \
    X(SHORT_FILE, 2, "a file has lost its end")                                  \
    X(LOST_FILE, 2, "a file is missing")                                         \
    X(LOST_DIRECTORY, 4, "a replica's directory is missing")                     \
    X(WIPE, 2, "a data directory is empty")                                      \
    X(OLD_COPY, 2, "a data directory is an older copy of itself")                \
    X(RETIRE, 6, "a node is gone, and the one that joined takes its place")

enum fault_kind {
#define X(name, weight, what) FAULT_##name,
    FAULT_KINDS(X)
#undef X
        FAULT_KIND_COUNT
};

enum { PLAN_FAULTS_MAX = 128 };

struct fault {
    uint64_t at_us; /* after the clients have started */
    uint64_t lasts_us;
    enum fault_kind kind;
    unsigned a, b;   /* nodes from 0, different */
    bool leader;     /* not a, but who leads a partition then */
    unsigned mode;   /* of a crash: enum lq_io_mem_crash_mode */
    uint64_t number; /* whatever else is to be chosen */
};

struct plan {
    struct fault at[PLAN_FAULTS_MAX]; /* by time */
    unsigned count;
};

/* @dense: twice as many. RETIRE only with more than three nodes. */
void plan_make(struct plan *plan, uint64_t seed, unsigned nodes, uint64_t span_us, bool dense);
const char *fault_name(enum fault_kind kind);
void fault_print(const struct fault *fault, FILE *to);

#endif
