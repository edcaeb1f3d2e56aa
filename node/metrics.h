/* node/metrics.h - what /health and /metrics say. Called by node/server.c; on shard 0's thread. */
#ifndef LQ_NODE_METRICS_H
#define LQ_NODE_METRICS_H

#include <stdbool.h>

#include "client/base/buf.h"
#include "node/shard.h"

/* True: this node serves, knows a controller, and every replica that should be here works. A line for each reason why
 * not, or "ok". */
bool lq_health_write(const struct lq_shard *shard, bool serving, struct lq_writer *out);
/* Everything that is counted, over all shards, in Prometheus' text format; every name begins with "lightq_". @shard is
 * shard 0. */
void lq_metrics_write(struct lq_shard *shard, bool serving, struct lq_writer *out);

#endif
