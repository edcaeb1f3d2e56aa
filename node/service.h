/* node/service.h - what the parts that serve clients (router, produce, consume, metadata, admin) stand on, and the
 * questions that all of them ask: which partition does a request mean, and who leads it. Loop thread only. */
#ifndef LQ_NODE_SERVICE_H
#define LQ_NODE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/wire/codec.h"
#include "node/counters.h"
#include "node/endpoint.h"
#include "node/meta.h"
#include "node/options.h"
#include "node/session.h"

struct lq_produce;
struct lq_consume;
struct lq_pipeline;
struct lq_groups;
struct lq_dead;
struct lq_purges;
struct lq_admin;

/* Everything is borrowed from node/shard.c. */
struct lq_service {
    const struct lq_options *options;
    struct lq_clock *clock;
    struct lq_counters *counters;
    struct lq_sessions *sessions;
    struct lq_meta *meta;
    struct lq_produce *produce;
    struct lq_consume *consume;
    struct lq_pipeline *pipeline;
    struct lq_groups *groups;
    struct lq_dead *dead;
    struct lq_purges *purges;
    struct lq_admin *admin;
    uint64_t memory_used; /* by requests being worked on and entries read ahead; bounded by memory.max */
};

/* A message of a session, while it is handled. Everything is borrowed during the call. */
struct lq_request {
    struct lq_session *session;
    const struct lq_envelope *envelope;
    const void *body; /* unpacked: the struct of envelope->type */
    struct lq_slab *payload;
};

/* A Leader field, and the text it points at. */
struct lq_leader_hint {
    Lightq__Wire__Leader leader;
    char endpoint[LQ_ENDPOINT_TEXT_BYTES];
};
/* Who leads @group as far as this node knows, and where the shard is that does; node 0 when it does not know. */
void lq_service_hint(const struct lq_service *service, uint64_t group, struct lq_leader_hint *hint);

/* The partition a request names. OK: *placed is in the catalog. EPROTO: not a topic id. ENOTFOUND: the topic was
 * deleted, or has fewer partitions. ENOTREADY: this node has not heard of it yet. *text says it in a sentence. */
lightq_status lq_service_place(const struct lq_service *service, const ProtobufCBinaryData *topic, uint32_t number,
                               uint64_t group, const struct lq_catalog_partition **placed,
                               const char **text) LQ_MUST_CHECK;
/* The same, and this node leads it: OK, *partition can be used during this turn. Also ENOTLEADER | ENOLEADER |
 * ESTOPPED; *placed is set with these. */
lightq_status lq_service_lead(const struct lq_service *service, const ProtobufCBinaryData *topic, uint32_t number,
                              uint64_t group, const struct lq_catalog_partition **placed,
                              struct lq_partition **partition, const char **text) LQ_MUST_CHECK;
/* Why @group cannot be served here: ENOTLEADER (somebody else leads, see lq_service_hint) | ENOLEADER | ESTOPPED. */
lightq_status lq_service_not_leading(const struct lq_service *service, uint64_t group, const char **text);

#endif
