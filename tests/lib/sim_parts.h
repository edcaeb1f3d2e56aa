/* tests/lib/sim_parts.h - what a simulated node (raft_sim.h) has beside its store and host: forming until it belongs to
 * a cluster, the meta part from then on. Both may be NULL. For chaos/sim and tests/unit/node. */
#ifndef LQ_TESTS_SIM_PARTS_H
#define LQ_TESTS_SIM_PARTS_H

#include "node/forming.h"
#include "node/meta.h"
#include "tests/lib/raft_sim.h"

extern const struct lq_id sim_parts_cluster;

struct lq_endpoint sim_parts_endpoint(unsigned port);
/* What forming leaves on a founder's disk, when nodes 1 to @founders have begun the cluster. Node i has the ports
 * @client_port + i and @peer_port + i. */
void sim_parts_make_founder(struct sim_node *node, unsigned founders, unsigned client_port, unsigned peer_port,
                            struct lq_identity *identity);
/* The meta part has just begun: which links came up before. */
void sim_parts_tell_links(struct sim_node *node, struct lq_meta *meta);
/* Forming is done: it says hello again, as a member. */
void sim_parts_say_hello_again(struct sim_node *node);

/* For lq_host_events. */
lightq_status sim_parts_node_frame(struct lq_meta *meta, struct lq_forming *forming, uint32_t from,
                                   const struct lq_frame_in *frame) LQ_MUST_CHECK;
void sim_parts_link_changed(struct lq_meta *meta, struct lq_forming *forming, uint32_t node, bool up);

#endif
