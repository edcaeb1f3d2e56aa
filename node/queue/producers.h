/* node/queue/producers.h - who wrote to a partition: for each producer id its epoch, the sequence that comes next, and
 * where its last batches went, so that a batch sent again is answered and not stored again. Part of the deterministic
 * state; kept in the order of last use, oldest first, which is the order of forgetting and of the checkpoint.
 * Called by state.c and tail.c. Pure memory. */
#ifndef LQ_NODE_QUEUE_PRODUCERS_H
#define LQ_NODE_QUEUE_PRODUCERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/limits.h"
#include "node/queue/table.h"

/* A batch as its producer numbers it, and where it was stored. */
struct lq_batch_place {
    uint64_t sequence; /* of its first message */
    uint32_t count;
    uint64_t base_offset, term, timestamp_ms;
};

struct lq_producer {
    uint64_t id;
    uint64_t next_sequence;
    uint64_t last_index; /* of the entry with its last batch */
    uint32_t epoch;
    uint32_t kept;
    struct lq_batch_place batches[LQ_PRODUCER_BATCHES_KEPT]; /* oldest first; all of this epoch */
    struct lq_producer *older, *newer;
    UT_hash_handle hh;
};

struct lq_producers {
    struct lq_producer *table;
    struct lq_producer *oldest, *newest;
    size_t count;
};

/* What a batch is to a producer with this epoch and next sequence. */
enum lq_verdict {
    LQ_VERDICT_NEXT, /* store it */
    LQ_VERDICT_OLD,  /* all its messages come before next */
    LQ_VERDICT_GAP,  /* it leaves messages out, or overlaps, or begins an epoch at another sequence than 0 */
    LQ_VERDICT_FENCED,
};
/* @known false: this producer has not been seen. @sequence + @count does not overflow. */
enum lq_verdict lq_sequence_judge(bool known, uint32_t known_epoch, uint64_t next_sequence, uint32_t epoch,
                                  uint64_t sequence, uint32_t count);

void lq_producers_deinit(struct lq_producers *producers); /* zeroed is initialised; so is it afterwards */
struct lq_producer *lq_producers_find(const struct lq_producers *producers, uint64_t id); /* or NULL */
/* The kept batch of exactly these messages, or NULL. */
const struct lq_batch_place *lq_producer_batch(const struct lq_producer *producer, uint64_t sequence, uint32_t count);
/* A batch judged NEXT is applied as entry @index. OK | ENOMEM | ELIMIT (LQ_PRODUCERS_MAX are remembered already). */
lightq_status lq_producers_applied(struct lq_producers *producers, uint64_t id, uint32_t epoch, uint64_t index,
                                   const struct lq_batch_place *batch) LQ_MUST_CHECK;
/* Forgets all whose last index is @index or lower. */
void lq_producers_forget(struct lq_producers *producers, uint64_t index);

/*   0 count u32, then of each, oldest first: id u64 | next_sequence u64 | last_index u64 | epoch u32 | kept u32 |
 *   kept times: sequence u64, base_offset u64, term u64, timestamp_ms u64, count u32 */
void lq_producers_save(const struct lq_producers *producers, struct lq_writer *writer);
/* @producers is empty. OK | ECORRUPT | ENOMEM; on failure deinit it. Refuses what lies beyond @index_max and
 * @offset_end. */
lightq_status lq_producers_load(struct lq_producers *producers, struct lq_reader *reader, uint64_t index_max,
                                uint64_t offset_end) LQ_MUST_CHECK;

#endif
