/* node/totals.c - see totals.h. */
#include "node/totals.h"

#include <string.h>

#include "node/shard.h"

#define WORDS (sizeof(struct lq_totals) / sizeof(uint64_t))

_Static_assert(sizeof(struct lq_totals) % sizeof(uint64_t) == 0, "totals are numbers of 64 bits and nothing else");

void lq_totals_take(struct lq_shard *shard, struct lq_totals *totals)
{
    *totals = (struct lq_totals){.leading = 0};
    shard->counters.memory_inflight = shard->service.memory_used;
    totals->counters = shard->counters;
    if (shard->front != NULL) {
        totals->client_queued = lq_front_queued_bytes(shard->front);
    }
    if (shard->transport != NULL) {
        lq_transport_count_up(shard->transport, &totals->transport);
    }
    if (shard->store != NULL) {
        lq_store_count_up(shard->store, &totals->store);
    }
    if (shard->host != NULL) {
        lq_host_count_up(shard->host, &totals->host);
        totals->leading = lq_host_leading(shard->host);
    }
}

void lq_totals_add(struct lq_totals *totals, const struct lq_totals *other)
{
    uint64_t sums[WORDS];
    uint64_t more[WORDS];
    uint64_t oldest_us = totals->store.oldest_pending_us > other->store.oldest_pending_us
                             ? totals->store.oldest_pending_us
                             : other->store.oldest_pending_us;
    memcpy(sums, totals, sizeof sums);
    memcpy(more, other, sizeof more);
    for (size_t i = 0; i < WORDS; i++) {
        sums[i] += more[i];
    }
    memcpy(totals, sums, sizeof sums);
    totals->store.oldest_pending_us = oldest_us;
}
