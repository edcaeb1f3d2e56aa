/* chaos/sim/producer.h - an application with an idempotent producer that writes to one partition, as a model of the
 * client library: numbered batches, at most five in flight, sent again in order with their numbers until their outcome
 * is known or they are given up; what is behind one that was given up goes on in a new epoch (client/lib/sender.c has
 * the rules). Every outcome goes into the history. */
#ifndef LQ_SIM_PRODUCER_H
#define LQ_SIM_PRODUCER_H

#include "chaos/sim/net.h"
#include "client/base/limits.h"

enum batch_state { BATCH_WAITING, BATCH_SENT };

struct batch {
    enum batch_state state;
    uint64_t message; /* number of its first message in the history */
    uint64_t sequence;
    uint64_t number; /* of the batch, from 0 */
    uint32_t count, crc;
    struct lq_slab *slab;
    uint64_t correlation, sent_us, made_us;
    unsigned node;
    unsigned attempts, rejections; /* more attempts than rejections: it may be stored */
    bool begins, begun;            /* a new epoch, and that is the producer's */
};

struct producer {
    struct client client;
    unsigned number, partition;
    uint32_t name; /* in the history */
    uint64_t id, next_sequence, next_message, next_number;
    struct batch batches[LQ_INFLIGHT_BATCHES_MAX]; /* [0, count), oldest first */
    unsigned count;
    unsigned leader; /* where it is thought to be */
    uint64_t retry_us;
    uint64_t rate_us;     /* between batches */
    uint64_t delivery_us; /* after it the application is told that it is not known */
    uint32_t epoch;
    bool begin_next; /* a new epoch, with the next batch */
};

void producer_init(struct producer *producer, struct world *world, unsigned number);
void producer_deinit(struct producer *producer);
/* Nothing is outstanding. */
bool producer_idle(const struct producer *producer);

#endif
