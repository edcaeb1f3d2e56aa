/* node/dead_letter.h - a dead letter as it is stored: the message as it was, behind headers that say where it comes
 * from and why it was given up. Called by dead.c. Pure functions. */
#ifndef LQ_NODE_DEAD_LETTER_H
#define LQ_NODE_DEAD_LETTER_H

#include "client/base/slab.h"
#include "node/queue/cgroup.h"

struct lq_dead_letter_origin {
    const char *topic;
    uint32_t partition;
    const char *group;
    const struct lq_dead_letter *letter;
};

/* The batch of one message for producer @producer_id, sequence @sequence: made of the message at @letter->offset in the
 * stored batch @bytes, whose first is @base. OK: *batch has one reference. EPROTO: it is not in there | ENOMEM |
 * ETOOBIG. */
lightq_status lq_dead_letter_pack(const struct lq_dead_letter_origin *origin, const uint8_t *bytes, uint32_t size,
                                  uint64_t base, uint64_t producer_id, uint64_t sequence,
                                  struct lq_slab **batch) LQ_MUST_CHECK;

#endif
