/* node/queue/dedup.h - the message ids of a partition that were stored lately, so that a message sent again under its
 * id, by whatever producer, is not stored again. Part of the deterministic state: an id is forgotten when the stamp of
 * an entry is dedup.window behind its own, so all replicas forget the same at the same entry, whatever their clocks
 * say.
 *
 * Kept is a digest of the id of 16 bytes (lq_dedup_digest), in the order of storing. Called by state.c, tail.c and
 * intake.c. Pure memory. */
#ifndef LQ_NODE_QUEUE_DEDUP_H
#define LQ_NODE_QUEUE_DEDUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/limits.h"
#include "node/queue/table.h"

struct lq_dedup_entry {
    struct lq_id digest;
    uint64_t offset, term, timestamp_ms; /* of the message */
    struct lq_dedup_entry *older, *newer;
    UT_hash_handle hh;
};

struct lq_dedup {
    struct lq_dedup_entry *table;
    struct lq_dedup_entry *oldest, *newest;
    size_t count; /* at most LQ_DEDUP_IDS_MAX */
};

/* XXH3, 128 bits, of an id of 1 to LQ_MESSAGE_ID_BYTES_MAX bytes. */
struct lq_id lq_dedup_digest(const void *id, size_t size);

void lq_dedup_deinit(struct lq_dedup *dedup); /* zeroed is initialised; so is it afterwards */
/* The message that was stored with it less than @window_ms before @now_ms, or NULL. */
const struct lq_dedup_entry *lq_dedup_find(const struct lq_dedup *dedup, const struct lq_id *digest, uint64_t now_ms,
                                           uint64_t window_ms);
/* Whether @more ids would be too many at @now_ms. */
bool lq_dedup_is_full(const struct lq_dedup *dedup, size_t more, uint64_t now_ms, uint64_t window_ms);
/* A message with it is stored at @offset; known or not, that is what the id stands for from now on. With too many the
 * oldest goes. OK | ENOMEM (nothing changed). */
lightq_status lq_dedup_applied(struct lq_dedup *dedup, const struct lq_id *digest, uint64_t offset, uint64_t term,
                               uint64_t timestamp_ms) LQ_MUST_CHECK;
/* Forgets what is @window_ms or more before @now_ms. */
void lq_dedup_expire(struct lq_dedup *dedup, uint64_t now_ms, uint64_t window_ms);

/*   0 count u32, then of each, oldest first: digest, 16 bytes | offset u64 | term u64 | timestamp_ms u64 */
void lq_dedup_save(const struct lq_dedup *dedup, struct lq_writer *writer);
/* @dedup is empty. OK | ECORRUPT | ENOMEM; on failure deinit it. Refuses what lies beyond @offset_end and @stamp_max.
 */
lightq_status lq_dedup_load(struct lq_dedup *dedup, struct lq_reader *reader, uint64_t offset_end,
                            uint64_t stamp_max) LQ_MUST_CHECK;

#endif
