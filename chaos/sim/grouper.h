/* chaos/sim/grouper.h - who uses the consumer groups of one partition: makes, moves, alters and deletes them, delivers
 * to consumers, and settles in every way; dead letters are moved by the nodes. It works on the replica that leads,
 * whichever that is, through node/queue/partition_groups.h.
 *
 * What it checks, of whatever leader it meets: the floor of a group never goes back but by a seek; nothing is settled
 * that nobody settled, and everything is that was told to be; the failed deliveries of a message never become fewer;
 * dead letters come in the order of their numbers, and no message twice; in the end every message is settled. That the
 * state is the same on all replicas is truth.c's. */
#ifndef LQ_SIM_GROUPER_H
#define LQ_SIM_GROUPER_H

#include <stdbool.h>
#include <stdint.h>

struct grouper;
struct lq_partition;
struct world;

/* Works from now on; stops proposing anything new but what drains the group when the world's clients stop. */
struct grouper *grouper_new(struct world *world, unsigned partition);
void grouper_free(struct grouper *grouper);
/* Some replica of the partition has applied an entry: are there new dead letters? @grouper NULL is allowed. */
void grouper_applied(struct grouper *grouper, const struct lq_partition *partition);
/* Every message is settled, and nothing is under way. */
bool grouper_drained(const struct grouper *grouper);

#endif
