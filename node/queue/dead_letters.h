/* node/queue/dead_letters.h - the messages of a consumer group that were given up and are to be put into
 * <topic>.<group>.dlq: a queue in the order they were given up, numbered from 0 for the life of the group.
 *
 * An intent comes into being when the failure that was one too many is applied, so it is as safe as that. The leader
 * appends open intents to the dead letter topic in the order of their numbers, as an idempotent producer whose sequence
 * is the number less the base, and proposes DONE when they are stored there; only then are they settled. A leader that
 * does not know whether an append went through does it again: the sequence makes it stored once.
 *
 * When the dead letter topic is another one (deleted and made again), or it has forgotten the producer, a new epoch is
 * begun by GROUP_DLQ: its base is the first number that is open then.
 *
 * Part of the deterministic state of a group (cgroup.c). Pure memory. */
#ifndef LQ_NODE_QUEUE_DEAD_LETTERS_H
#define LQ_NODE_QUEUE_DEAD_LETTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"

struct lq_dead_letter {
    uint64_t offset;
    uint64_t failed_ms; /* the stamp of the entry that gave it up */
    uint32_t count;     /* of failed deliveries */
    uint8_t reason;     /* enum lq_failure_reason of the last one */
};

struct lq_dead_letters {
    uint64_t done;               /* every intent below this number is stored in the dead letter topic */
    uint64_t next;               /* number of the next one; done to next - 1 are open */
    struct lq_id topic;          /* the dead letter topic of this epoch; zero before the first one */
    uint32_t epoch;              /* 0 before the first one */
    uint64_t base;               /* number that is sequence 0 of this epoch */
    struct lq_dead_letter *ring; /* number n is at n % capacity */
    uint32_t capacity;           /* 0, or a power of two */
};

void lq_dead_letters_deinit(struct lq_dead_letters *letters); /* zeroed is initialised; so is it afterwards */
/* The open intent of that number, or NULL. Valid until the next change. */
const struct lq_dead_letter *lq_dead_letters_at(const struct lq_dead_letters *letters, uint64_t number);
/* A new intent. OK | ENOMEM (nothing changed). */
lightq_status lq_dead_letters_add(struct lq_dead_letters *letters, const struct lq_dead_letter *letter) LQ_MUST_CHECK;
/* Takes out the first open one; there is one. */
struct lq_dead_letter lq_dead_letters_take(struct lq_dead_letters *letters);
/* Begins epoch @epoch, which must be the one after the present. False: it is not, and nothing changed. */
bool lq_dead_letters_begin(struct lq_dead_letters *letters, const struct lq_id *topic, uint32_t epoch);
/* The lowest offset of the open ones; UINT64_MAX when there are none. Looks at all of them. */
uint64_t lq_dead_letters_lowest(const struct lq_dead_letters *letters);

/*   0 done u64 | 8 base u64 | 16 topic, 16 bytes | 32 epoch u32 | 36 open u32 | then of each: offset varint,
 *   failed_ms varint, count varint, reason u8 */
void lq_dead_letters_save(const struct lq_dead_letters *letters, struct lq_writer *writer);
/* @letters is zeroed; on failure deinit it. OK | ECORRUPT (an offset at or beyond @end, more than @open_max) | ENOMEM.
 */
lightq_status lq_dead_letters_load(struct lq_dead_letters *letters, struct lq_reader *reader, uint64_t end,
                                   uint32_t open_max) LQ_MUST_CHECK;

#endif
