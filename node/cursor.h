/* node/cursor.h - reads a partition's applied entries in order, from memory when they are there, else from disk. Called
 * by consume.c; uses storage/store.h through the partition's group. Loop thread only. */
#ifndef LQ_NODE_CURSOR_H
#define LQ_NODE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/queue/partition.h"
#include "node/service.h"
#include "storage/format.h"

#define LQ_CURSOR_PEEK_MAX 32 /* entries taken from memory at once */

struct lq_cursor_read;

/* Embedded by its user. Members are private to cursor.c. */
struct lq_cursor {
    struct lq_service *service;
    struct lq_partition *partition;
    void (*wake)(void *owner);
    void *owner;
    uint64_t next_index; /* of the entry that lq_cursor_next looks at */
    struct lq_entry_ref peeked[LQ_CURSOR_PEEK_MAX];
    struct lq_entry_ref *refs; /* those ahead: peeked, or an array of their own when they are from disk */
    size_t at, count;          /* each from at on holds a reference to its slab */
    uint64_t generation;       /* of the log when they were read */
    uint64_t held_bytes;       /* from disk: counted in service->memory_used */
    struct lq_cursor_read *read;
    lightq_status failed; /* of the last read */
};

/* At index @index. @wake tells, from the loop and never inside a call, that a read is done: go on with lq_cursor_next.
 */
void lq_cursor_init(struct lq_cursor *cursor, struct lq_service *service, struct lq_partition *partition,
                    uint64_t index, void (*wake)(void *owner), void *owner);
/* At any time, also with a read under way. */
void lq_cursor_deinit(struct lq_cursor *cursor);
/* Goes to another index. */
void lq_cursor_seek(struct lq_cursor *cursor, uint64_t index);

/* The entry at the cursor. OK: *entry and *slab (borrowed) are valid until the next call.
 * ENOTFOUND: nothing more is applied | EBUSY: it is being read, wake() comes | EOUTOFRANGE: trimmed away |
 * ENOMEM (also when memory.max forbids a read: try again later) | EIO | ECORRUPT: it cannot be read here. */
lightq_status lq_cursor_next(struct lq_cursor *cursor, struct lq_entry *entry, struct lq_slab **slab) LQ_MUST_CHECK;
/* Steps behind the entry that lq_cursor_next gave. */
void lq_cursor_step(struct lq_cursor *cursor);
/* Lets go of entries that are in memory anyway: to be called when the cursor rests. */
void lq_cursor_rest(struct lq_cursor *cursor);
/* lq_cursor_next said EIO or ECORRUPT (@status): this replica's data cannot be read; it hands over and stops, and
 * others, who have it too, go on. Gives what whoever is read for is told, and *why: @status when there is no other
 * replica, else ESTOPPED. */
lightq_status lq_cursor_give_up(const struct lq_cursor *cursor, lightq_status status, const char **why);

#endif
