/* node/pipeline.h - subscriptions of pipeline groups, and SETTLE: what queue/lease.h offers is found in the log and
 * sent to the consumer it is for, the batch whole and as it is stored, with the messages it is granted (DELIVER).
 * Nothing is polled: a group moves when entries or results are applied, credit comes, a lease or a delay ends, a read
 * is done, or a client takes messages again; the groups that can move have their turns one after the other, and in a
 * group the consumers, as its leases say.
 *
 * All consumers of one group in one partition share a feed: two cursors into the log, however many they are. A consumer
 * whose client takes nothing at the moment is left out until it does, and costs nothing.
 *
 * Called by consume.c (which SUBSCRIBE, UNSUBSCRIBE and CREDIT come to), router.c, shard.c and groups.c. Loop thread
 * only. docs/architecture.md, "Consumer groups". */
#ifndef LQ_NODE_PIPELINE_H
#define LQ_NODE_PIPELINE_H

#include <stdbool.h>

#include "node/queue/partition_groups.h"
#include "node/service.h"

struct lq_pipeline;
struct lq_member;

/* OK | ENOMEM. @service is borrowed. */
lightq_status lq_pipeline_new(struct lq_service *service, struct lq_pipeline **pipeline) LQ_MUST_CHECK;
/* Every session must have ended, every partition be gone, and the store have called back all reads. */
void lq_pipeline_free(struct lq_pipeline *pipeline);

/* SUBSCRIBE, whose group @cgroup is, in the partition that @placed names, which this node leads. Answers it. */
void lq_pipeline_subscribe(struct lq_pipeline *pipeline, const struct lq_request *request,
                           const struct lq_catalog_partition *placed, struct lq_partition *partition,
                           const struct lq_cgroup *cgroup);
/* False: it has no such subscription here. */
bool lq_pipeline_has(const struct lq_pipeline *pipeline, const struct lq_session *session, uint64_t subscription);
bool lq_pipeline_unsubscribe(struct lq_pipeline *pipeline, struct lq_session *session, uint64_t subscription);
bool lq_pipeline_credit(struct lq_pipeline *pipeline, const struct lq_session *session,
                        const Lightq__Wire__Credit *credit);
size_t lq_pipeline_count(const struct lq_pipeline *pipeline); /* of subscriptions */

void lq_pipeline_settle(struct lq_pipeline *pipeline, const struct lq_request *request);

/* Its subscriptions end; what they held failed, unless it said goodbye. */
void lq_pipeline_session_ended(struct lq_pipeline *pipeline, struct lq_session *session);
void lq_pipeline_session_unblocked(struct lq_pipeline *pipeline, struct lq_session *session);

/* Delivers a bounded amount, and lets leases end whose time is over. To be called in each turn. True: there is more to
 * do now. */
bool lq_pipeline_turn(struct lq_pipeline *pipeline);
/* When the next turn is due by time; UINT64_MAX: not by time. */
uint64_t lq_pipeline_deadline_us(const struct lq_pipeline *pipeline);

/* For people: the leases of a group, when it has consumers here; else NULL. */
struct lq_leases *lq_pipeline_leases(const struct lq_pipeline *pipeline, uint64_t group, uint64_t number);
/* Who owns a lease or a place in the group (lease.h). */
const struct lq_session *lq_member_session(const struct lq_member *member);
uint64_t lq_member_subscription(const struct lq_member *member);

#endif
