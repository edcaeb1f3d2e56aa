/* chaos/sim/watch.h - looks on: at what the hosts trace, at every call of a state machine, and at the disks, and tells
 * truth.c. Called by raft/trace.h's callback, by wraps.c, truth.c and machine.c. */
#ifndef LQ_SIM_WATCH_H
#define LQ_SIM_WATCH_H

#include "chaos/sim/machine.h"
#include "raft/trace.h"

struct world;

/* For struct sim_options; data is the struct sim_node. */
void watch_trace(void *data, const struct lq_trace_event *event);

/* Entry @index of @term of @group is said to be safe: it is durable on a majority of its voters, by what they told and,
 * for some, by the bytes that a power cut would leave. */
void watch_durable(struct world *world, uint64_t group, uint64_t index, uint64_t term);

#endif
