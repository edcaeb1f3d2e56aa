/* node/queue/lease.h - who has which message of a pipeline group at the moment. Memory of the leader: made when the
 * first consumer of a group comes, dropped when leadership ends; what must survive is in the group (cgroup.h), which
 * this reads and never changes. Pure logic: time is given, messages are found by the caller, nothing is sent.
 *
 * How it goes:
 *
 *   1. lq_leases_next() says which message is to go out next, and to whom, or why none is.
 *   2. The caller finds the batch that holds it and calls lq_leases_take(), which leases as much of that batch to the
 *      consumer as is due and its credit allows, as grants. The caller sends them with the batch. Again from 1.
 *   3. lq_leases_settle() takes what consumers say; lq_leases_tick() what time says. Both gather results.
 *   4. lq_leases_propose() writes what gathered as one SETTLE command; the caller proposes it.
 *   5. When it is applied, lq_leases_applied() opens the window and plans deliveries again.
 *
 * The speculative tail of a group is in here: a message whose result is gathered or proposed is settling, and a second
 * result for it waits for the first.
 *
 * Messages are delivered in the order of their offsets; what is to be delivered again goes first, lowest offset first,
 * when its delay is over. Consumers take turns, each that has credit; in an exclusive group the one that has been there
 * longest gets everything. In a key-ordered group a key belongs to the consumer that holds messages of it, until it
 * holds none; a message that failed keeps back those of its key behind it, and no others.
 *
 * Cost: a few instructions per message for contiguous ranges (a block of 64 messages is one look-up); no allocation
 * but when a pool grows. Bounded by the group's max.unsettled: over it lq_leases_next says WINDOW.
 *
 * Called by partition_groups.c and node/. Loop thread only; docs/architecture.md, "Consumer groups". */
#ifndef LQ_NODE_QUEUE_LEASE_H
#define LQ_NODE_QUEUE_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "node/queue/cgroup.h"

struct lq_leases;

/* @cgroup is borrowed and must outlive it. @wall_ms is the wall clock at @now_us (monotonic), to turn the stamps of
 * delays into times of this node; a delay never becomes longer than it was when it was set. OK | ENOMEM. */
lightq_status lq_leases_new(const struct lq_cgroup *cgroup, uint64_t now_us, uint64_t wall_ms,
                            struct lq_leases **leases) LQ_MUST_CHECK;
/* Consumers need not leave first; they are gone with it. NULL is allowed. */
void lq_leases_free(struct lq_leases *leases);

/* That of the group as it was looked at last: another one than before lq_leases_changed() when the group was moved. */
uint64_t lq_leases_generation(const struct lq_leases *leases);

/* ---- consumers */

#define LQ_LEASE_NOBODY UINT32_MAX

/* A consumer's place in the group, small numbers, used again after it left. */
typedef uint32_t lq_lease_consumer;

/* @owner is the caller's and comes back in offers. It has no credit yet. OK | ENOMEM | ELIMIT
 * (LQ_CGROUP_CONSUMERS_MAX). */
lightq_status lq_leases_join(struct lq_leases *leases, void *owner, lq_lease_consumer *consumer) LQ_MUST_CHECK;
/* It goes. @clean: it said goodbye, and what it holds is delivered again as if it had never been; else (its session
 * timed out) each message it holds failed, and that is gathered. OK | ENOMEM (it has left; some failures are not
 * counted, their messages are delivered again all the same). */
lightq_status lq_leases_leave(struct lq_leases *leases, lq_lease_consumer consumer, bool clean,
                              uint64_t now_us) LQ_MUST_CHECK;
/* More credit. A consumer is given something as long as both are above 0; the last may bring the bytes below. */
void lq_leases_credit(struct lq_leases *leases, lq_lease_consumer consumer, uint64_t messages, uint64_t bytes);

/* A suspended consumer is given nothing, whatever its credit, until it is not any more: for one that cannot be sent
 * anything at the moment. */
void lq_leases_suspend(struct lq_leases *leases, lq_lease_consumer consumer, bool suspended);

struct lq_lease_consumer_status {
    void *owner;
    int64_t credit_messages, credit_bytes;
    uint32_t held; /* messages */
    bool active;   /* false: it stands by, in an exclusive group */
};
/* False: nobody is there. For @consumer from 0 below lq_leases_consumer_limit(). */
bool lq_leases_consumer(const struct lq_leases *leases, lq_lease_consumer consumer,
                        struct lq_lease_consumer_status *status);
uint32_t lq_leases_consumer_limit(const struct lq_leases *leases);

/* ---- delivering */

enum lq_lease_state {
    LQ_LEASE_OFFER,       /* something is to be delivered */
    LQ_LEASE_END,         /* everything there is has been delivered */
    LQ_LEASE_DELAYED,     /* everything there is has been delivered, some is to be again at *due_us */
    LQ_LEASE_PAUSED,      /* the group is paused */
    LQ_LEASE_NO_CONSUMER, /* nobody is there */
    LQ_LEASE_NO_CREDIT,   /* nobody who may have it has credit */
    LQ_LEASE_WINDOW,      /* max.unsettled messages are delivered and not settled */
};

struct lq_lease_offer {
    uint64_t offset;
    lq_lease_consumer consumer;
    void *owner; /* of that consumer */
};

/* What is next when the partition has messages below @end. OFFER: *offer is filled. END and DELAYED: *due_us is when to
 * ask again (UINT64_MAX: not by time). It changes nothing but what time does; asked twice it says the same. */
enum lq_lease_state lq_leases_next(struct lq_leases *leases, uint64_t end, uint64_t now_us,
                                   struct lq_lease_offer *offer, uint64_t *due_us);

/* The batch that holds an offered message. */
struct lq_lease_batch {
    uint64_t base;
    uint32_t count;       /* messages of it below the end that was asked for */
    uint64_t bytes;       /* charged to the consumer's credit when it gets anything of it */
    const uint64_t *keys; /* key-ordered groups: a hash of each message's key, by its place in the batch (a message
                             without a key: its offset, mixed); else NULL */
};

/* Messages in a row of one delivery. */
struct lq_lease_grant {
    uint64_t offset;
    uint32_t count;
    uint32_t delivery; /* which one it is, of these messages: from 1 */
};

/* Leases messages of @batch to the consumer of @offer, which lq_leases_next gave and nothing changed since. At most
 * @grants_max (1 or more) grants; what does not fit is offered again. OK: *count grants; 0 of them when none may go to
 * that consumer now (a key belongs to another): ask again, something else will be offered. ENOMEM: nothing is leased.
 */
lightq_status lq_leases_take(struct lq_leases *leases, const struct lq_lease_offer *offer,
                             const struct lq_lease_batch *batch, uint64_t now_us, struct lq_lease_grant *grants,
                             size_t grants_max, size_t *count) LQ_MUST_CHECK;

/* ---- settling */

enum lq_settle_kind {
    LQ_SETTLE_ACK = 1,    /* done. Taken from anybody, also after the lease has expired: done is done */
    LQ_SETTLE_NACK = 2,   /* failed: again after the delay */
    LQ_SETTLE_REJECT = 3, /* failed, and never again: to the dead letters */
    LQ_SETTLE_EXTEND = 4, /* the lease begins anew now. Nothing is proposed */
    LQ_SETTLE_RETURN = 5, /* deliver it again, to anybody; it did not fail. Nothing is proposed */
};

struct lq_settle_item {
    enum lq_settle_kind kind;
    uint64_t first;
    uint32_t count;    /* 1 to LQ_SETTLE_RANGE_MAX */
    uint32_t delivery; /* that it is about, of each; 0: the present one. Not looked at in an ACK */
    uint32_t delay_ms; /* of NACK, or LQ_SETTLE_DELAY_DEFAULT */
};

/* What became of the messages of an item, by number of messages. */
struct lq_settle_counts {
    uint32_t taken;    /* gathered; or extended, or returned */
    uint32_t waiting;  /* a result for it is on its way already, this one is dropped */
    uint32_t settled;  /* it had been settled before: harmless */
    uint32_t not_held; /* another consumer or nobody holds it, or the delivery is another one (not for ACK) */
    uint32_t unknown;  /* not a message of this partition, or the window has no room for it */
};

/* Takes one item of @consumer (LQ_LEASE_NOBODY: one whose leases were another leader's). After ACK, NACK and REJECT the
 * outcome is known when everything gathered so far is applied. A message that no leader's lease is known for (it was
 * delivered before this leader came, and is not delivered again yet) may be settled by anybody.
 * Adds to *counts. OK | EINVAL (count or delay out of range) | ENOMEM (some of it may be gathered). @end is the
 * partition's. */
lightq_status lq_leases_settle(struct lq_leases *leases, lq_lease_consumer consumer, const struct lq_settle_item *item,
                               uint64_t end, uint64_t now_us, struct lq_settle_counts *counts) LQ_MUST_CHECK;

/* Lets leases expire (their messages failed, and that is gathered) and delays end. OK | ENOMEM: call it again. */
lightq_status lq_leases_tick(struct lq_leases *leases, uint64_t now_us) LQ_MUST_CHECK;
/* When lq_leases_tick or lq_leases_next has something to do by time; UINT64_MAX: never. */
uint64_t lq_leases_deadline_us(const struct lq_leases *leases);
/* The memory of what it knows of delivered messages; tables that grow have up to twice that. Its cost is constant. */
uint64_t lq_leases_bytes(const struct lq_leases *leases);

/* ---- proposing */

bool lq_leases_gathered(const struct lq_leases *leases);
/* Writes the oldest of what gathered as a SETTLE command (command.h) of at most @limit bytes (LQ_SETTLE_BYTES_MIN or
 * more). It goes on counting as gathered until lq_leases_proposed(). OK | ENOMEM. */
lightq_status lq_leases_propose(struct lq_leases *leases, size_t limit, struct lq_writer *writer) LQ_MUST_CHECK;
/* What lq_leases_propose wrote last is in the log. */
void lq_leases_proposed(struct lq_leases *leases);

/* A SETTLE of this group was applied; the group shows it. */
void lq_leases_applied(struct lq_leases *leases, const struct lq_cgroup_settle *settle, uint64_t now_us);
/* The group was changed in another way (trimmed, moved, altered, dead letters done): looks at it again. After a seek
 * every lease is gone; results that were gathered are dropped. */
void lq_leases_changed(struct lq_leases *leases, uint64_t now_us);

/* ---- for people */

struct lq_leases_status {
    uint64_t cursor;    /* the first message never delivered by this leader */
    uint64_t unsettled; /* delivered and not settled, as max.unsettled counts it */
    uint32_t held;      /* leased now */
    uint32_t settling;  /* a result is on its way */
    uint32_t returned;  /* to be delivered again now */
    uint32_t delayed;   /* to be delivered again later */
    uint32_t kept_back; /* waiting for a message of the same key */
    uint32_t consumers;
    uint64_t held_first;    /* the lowest message that is leased, when held > 0 ... */
    uint64_t held_until_us; /* ... when that lease ends ... */
    void *held_by;          /* ... and the owner of the consumer that has it */
    uint64_t redelivered;   /* deliveries of messages that had failed before, by this leader */
};
void lq_leases_status(const struct lq_leases *leases, struct lq_leases_status *status);
/* Who holds @offset: the consumer's owner, and until when. False: nobody. */
bool lq_leases_holder(const struct lq_leases *leases, uint64_t offset, void **owner, uint64_t *until_us);

#endif
