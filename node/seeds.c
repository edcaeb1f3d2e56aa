/* node/seeds.c - see seeds.h. */
#include "node/seeds.h"

#include <string.h>

#include "client/base/log.h"

#define MISSED_US (200u * 1000)      /* asked again after nobody answered */
#define FOUND_US  (5u * 1000 * 1000) /* and after somebody did: another node may have the address now */

static void on_answer(void *data, lightq_status status, const struct lq_hello *hello, const struct lq_err *err)
{
    struct lq_seed *seed = data;
    struct lq_seeds *seeds = seed->seeds;
    (void)err;
    seed->asking = false;
    if (seeds->stopped) {
        return;
    }
    seed->due_us = lq_clock_monotonic_us(seeds->clock) + (status == LIGHTQ_OK ? FOUND_US : MISSED_US);
    if (status != LIGHTQ_OK || hello->node == seed->node || hello->node == 0) {
        return;
    }
    if (hello->node == seeds->identity->node) {
        if (!lq_id_equal(&hello->uuid, &seeds->identity->uuid)) {
            lq_log(ERROR, "another node has this node's id: give one of them another --node-id", "node", hello->node,
                   "host", seed->at.host, "port", seed->at.port);
        }
        return;
    }
    status = lq_transport_set_peer(seeds->transport, hello->node, seed->at.host, seed->at.port, NULL);
    if (status != LIGHTQ_OK) {
        lq_log(WARN, "a seed cannot be connected to", "node", hello->node, "status", lightq_status_name(status));
        return;
    }
    seed->node = hello->node;
    lq_log(INFO, "seed found", "node", hello->node, "host", seed->at.host, "port", seed->at.port);
}

void lq_seeds_init(struct lq_seeds *seeds, const struct lq_options *options, const struct lq_endpoint *self,
                   const struct lq_identity *identity, struct lq_clock *clock, struct lq_transport *transport)
{
    memset(seeds, 0, sizeof *seeds);
    seeds->transport = transport;
    seeds->clock = clock;
    seeds->identity = identity;
    for (unsigned i = 0; i < options->seed_count; i++) {
        const struct lq_endpoint *at = &options->seed[i];
        if (at->port != self->port || strcmp(at->host, self->host) != 0) {
            seeds->seed[seeds->count++] = (struct lq_seed){.seeds = seeds, .at = *at};
        }
    }
}

void lq_seeds_tick(struct lq_seeds *seeds)
{
    uint64_t now_us = lq_clock_monotonic_us(seeds->clock);
    for (unsigned i = 0; i < seeds->count && !seeds->stopped; i++) {
        struct lq_seed *seed = &seeds->seed[i];
        if (seed->asking || now_us < seed->due_us) {
            continue;
        }
        seed->due_us = now_us + MISSED_US;
        seed->asking = lq_transport_probe(seeds->transport, seed->at.host, seed->at.port, on_answer, seed) == LIGHTQ_OK;
    }
}

void lq_seeds_stop(struct lq_seeds *seeds)
{
    seeds->stopped = true;
}
