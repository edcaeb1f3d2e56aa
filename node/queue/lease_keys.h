/* node/queue/lease_keys.h - the order of messages with the same key, for leases of a key-ordered group: each message
 * that was passed and is not settled stands in the line of its key, by offset. It is held (out with a consumer, or its
 * result is on its way) or it waits.
 *
 *     line of a key:   held  held  held  WAITS  held  waits  waits
 *                                        first of those that wait: the only one that may go next
 *
 * Who holds one of a key holds all of it: a message may go to a consumer when it is the first that waits, and nobody
 * else holds any of the line. A message that failed waits in its place and keeps back those behind it.
 *
 * Keys are hashes; two keys with one hash share a line, which costs speed and no order. Called by the lease files.
 * Pure memory. */
#ifndef LQ_NODE_QUEUE_LEASE_KEYS_H
#define LQ_NODE_QUEUE_LEASE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/err.h"
#include "node/queue/offset_map.h"
#include "node/queue/pool.h"

#define LQ_KEY_NOBODY UINT32_MAX

struct lq_lease_keys {
    struct lq_pool places; /* struct place: of messages */
    struct lq_pool lines;  /* struct line */
    struct lq_offset_map place_of_offset, line_of_key;
    uint32_t waiting; /* places that wait */
};

void lq_lease_keys_init(struct lq_lease_keys *keys);
void lq_lease_keys_deinit(struct lq_lease_keys *keys); /* it may go on being used */
/* Room for @more messages. OK | ENOMEM. */
lightq_status lq_lease_keys_reserve(struct lq_lease_keys *keys, uint32_t more) LQ_MUST_CHECK;

/* A message is passed for the first time: it stands last in the line of @key. */
void lq_lease_keys_pass(struct lq_lease_keys *keys, uint64_t offset, uint64_t key);
bool lq_lease_keys_has(const struct lq_lease_keys *keys, uint64_t offset);
/* It waits, and may not go for a time; then it may. Harmless when it stands in no line. */
void lq_lease_keys_delay(struct lq_lease_keys *keys, uint64_t offset, bool delayed);
/* May that message, which waits, go to @consumer now? */
bool lq_lease_keys_may(const struct lq_lease_keys *keys, uint64_t offset, uint32_t consumer);
/* It goes there. */
void lq_lease_keys_hold(struct lq_lease_keys *keys, uint64_t offset, uint32_t consumer);
/* It waits again: it failed, or was returned. Harmless when it waits, or stands in no line. */
void lq_lease_keys_wait(struct lq_lease_keys *keys, uint64_t offset);
/* It leaves its line: it is settled or dead. True: *next stands in it still. False too when it was in no line. */
bool lq_lease_keys_leave(struct lq_lease_keys *keys, uint64_t offset, uint64_t *next);
/* The first of those in the line of @offset that wait, and who holds the line (LQ_KEY_NOBODY: nobody). False: none
 * waits, or it may not go yet. */
bool lq_lease_keys_first(const struct lq_lease_keys *keys, uint64_t offset, uint64_t *first, uint32_t *holder);
/* Calls @cb for each message below @end that stands in a line; it may take that one out. */
void lq_lease_keys_each_below(struct lq_lease_keys *keys, uint64_t end, void (*cb)(void *data, uint64_t offset),
                              void *data);

#endif
