/* node/queue/producers.h - who wrote to a partition: for each producer id its epoch, the sequence that comes next, and
 * where its last batches went, so that a batch sent again is answered and not stored again. Part of the deterministic
 * state; kept in the order of last use, oldest first, which is the order of forgetting and of the checkpoint.
 *
 * A producer's sequences go on over its epochs and are never used again. What is stored of an epoch fences all lower
 * ones. Inside an epoch nothing may be left out; where one begins the sequence may jump forward, over what the producer
 * has given up, never back. docs/adr/0013-producer-epochs.md says why.
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

/* How far a producer has come in a partition. */
struct lq_progress {
    uint32_t epoch;
    uint64_t epoch_sequence; /* of the first message that was stored in this epoch */
    uint64_t next_sequence;
};

/* How a batch is numbered. */
struct lq_numbering {
    uint32_t epoch;
    bool begins_epoch; /* its producer says that nothing before it will come (again) in this epoch or a later one */
    uint64_t sequence; /* of its first message */
    uint32_t count;    /* @sequence + @count does not overflow */
};

struct lq_producer {
    uint64_t id;
    struct lq_progress progress;
    uint64_t last_index; /* of the entry with its last batch */
    uint32_t kept;
    struct lq_batch_place batches[LQ_PRODUCER_BATCHES_KEPT]; /* oldest first; of whatever epoch */
    struct lq_producer *older, *newer;
    UT_hash_handle hh;
};

struct lq_producers {
    struct lq_producer *table;
    struct lq_producer *oldest, *newest;
    size_t count;
};

/* What a batch is to a producer that has come this far. */
enum lq_verdict {
    LQ_VERDICT_NEXT,    /* store it */
    LQ_VERDICT_OLD,     /* all its messages come before the next sequence, and it is stored */
    LQ_VERDICT_EARLIER, /* the same, but it comes before what was stored in its epoch: it is stored if it is kept, or
                           else nobody knows (it may have been left out where an epoch began) */
    LQ_VERDICT_GAP,     /* it leaves messages out, or overlaps */
    LQ_VERDICT_FENCED,  /* something of a higher epoch is stored */
};
/* @progress NULL: this producer has not been seen. */
enum lq_verdict lq_sequence_judge(const struct lq_progress *progress, const struct lq_numbering *batch);
/* What comes of @progress (NULL: not seen) when @batch, which was judged NEXT, is stored. */
struct lq_progress lq_progress_after(const struct lq_progress *progress, uint32_t epoch, uint64_t sequence,
                                     uint32_t count);

void lq_producers_deinit(struct lq_producers *producers); /* zeroed is initialised; so is it afterwards */
struct lq_producer *lq_producers_find(const struct lq_producers *producers, uint64_t id); /* or NULL */
/* The kept batch of exactly these messages, or NULL. */
const struct lq_batch_place *lq_producer_batch(const struct lq_producer *producer, uint64_t sequence, uint32_t count);
/* A batch judged NEXT is applied as entry @index. OK | ENOMEM | ELIMIT (LQ_PRODUCERS_MAX are remembered already). */
lightq_status lq_producers_applied(struct lq_producers *producers, uint64_t id, uint32_t epoch, uint64_t index,
                                   const struct lq_batch_place *batch) LQ_MUST_CHECK;
/* Forgets all whose last index is @index or lower. */
void lq_producers_forget(struct lq_producers *producers, uint64_t index);

/*   0 count u32, then of each, oldest first: id u64 | next_sequence u64 | epoch_sequence u64 | last_index u64 |
 *   epoch u32 | kept u32 | kept times: sequence u64, base_offset u64, term u64, timestamp_ms u64, count u32
 * Without epochs (states of version 1): without epoch_sequence, and epoch 0. */
void lq_producers_save(const struct lq_producers *producers, struct lq_writer *writer);
/* @producers is empty. OK | ECORRUPT | ENOMEM; on failure deinit it. Refuses what lies beyond @index_max and
 * @offset_end. */
lightq_status lq_producers_load(struct lq_producers *producers, struct lq_reader *reader, bool with_epochs,
                                uint64_t index_max, uint64_t offset_end) LQ_MUST_CHECK;

#endif
