/* node/totals.h - what one shard has counted, as plain numbers that can be sent to another and added up. Called by
 * node/metrics.c and node/shard_thread.c. */
#ifndef LQ_NODE_TOTALS_H
#define LQ_NODE_TOTALS_H

#include <stdint.h>

#include "node/counters.h"
#include "raft/host.h"
#include "raft/transport.h"
#include "storage/store.h"

struct lq_shard;

struct lq_totals {
    struct lq_counters counters;
    struct lq_transport_counters transport;
    struct lq_store_counters store;
    struct lq_host_counters host;
    uint64_t leading;       /* groups */
    uint64_t client_queued; /* bytes of payloads not sent yet */
};

/* Of @shard as it is; what it does not have yet is zero. Its thread only. */
void lq_totals_take(struct lq_shard *shard, struct lq_totals *totals);
/* Adds @other. Of ages, the higher counts. */
void lq_totals_add(struct lq_totals *totals, const struct lq_totals *other);

#endif
