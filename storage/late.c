/* storage/late.c - entries that are durable in the shard journal and lie in memory, and are written to their segment
 * later, many with one write: with many groups and small entries, a write for each would cost more than all else. Which
 * logs have such entries, in what order they began, how much there is, and who is to be written soon. Called by the
 * other files of the store on the loop thread; storage/flush_plan.c takes up what is wanted. Why: docs/adr/0004.
 *
 *     appended -> in a frame of the journal, synced: durable, late -> written to the segment -> synced in the
 * background
 *
 * Space is made sure of before: the segment is allocated when the journal takes the entry. All late entries of a log
 * lie in its last segment. The journal file with the oldest of them is kept (late_low) until they are written, then for
 * as long as they are not synced (journal_low). */
#include "storage/store_private.h"

#define LATE_ALL_MAX     (16u * 1024 * 1024) /* bytes, over all logs */
#define LATE_CACHE_SHARE 4                   /* and never more than this part of the cache */

static uint64_t all_max(const struct lq_store *store)
{
    uint64_t share = store->cache.bytes_max / LATE_CACHE_SHARE;
    return share < LATE_ALL_MAX ? share : LATE_ALL_MAX;
}

static void set_bytes(struct lq_rlog *log, uint64_t bytes)
{
    log->store->late_bytes = log->store->late_bytes - log->late_bytes + bytes;
    log->late_bytes = bytes;
}

void lq_late_leave(struct lq_rlog *log)
{
    set_bytes(log, 0);
    log->write_wanted = false;
    if (log->late_low != 0) {
        TAILQ_REMOVE(&log->store->late, log, late_link);
        log->late_low = 0;
    }
}

void lq_late_want(struct lq_rlog *log)
{
    if (log->late_low != 0 && !log->write_wanted) {
        log->write_wanted = true;
        lq_rlog_mark_dirty(log);
    }
}

void lq_late_want_all(struct lq_store *store)
{
    struct lq_rlog *log;
    TAILQ_FOREACH(log, &store->late, late_link)
    {
        lq_late_want(log);
    }
}

/* The oldest go until the rest is within the bound. */
static void keep_bound(struct lq_store *store)
{
    struct lq_rlog *log = TAILQ_FIRST(&store->late);
    uint64_t left = store->late_bytes;
    for (; log != NULL && left > all_max(store); log = TAILQ_NEXT(log, late_link)) {
        left -= log->late_bytes;
        lq_late_want(log);
        store->follow_up = true;
    }
}

void lq_late_join(struct lq_rlog *log, uint64_t bytes)
{
    if (log->late_low == 0) {
        log->late_low = log->store->journal.number;
        TAILQ_INSERT_TAIL(&log->store->late, log, late_link);
    }
    set_bytes(log, log->late_bytes + bytes);
    keep_bound(log->store);
}

void lq_late_keep_journal(struct lq_rlog *log)
{
    if (log->late_low != 0 && (log->journal_low == 0 || log->late_low < log->journal_low)) {
        log->journal_low = log->late_low;
    }
}

void lq_late_settle(struct lq_rlog *log)
{
    uint64_t bytes = 0;
    if (log->late_low == 0) {
        return;
    }
    if (log->written >= log->durable) {
        lq_late_leave(log);
        return;
    }
    for (uint64_t i = log->written + 1; i <= log->durable; i++) {
        bytes += lq_ring_at(&log->ring, i)->size;
    }
    set_bytes(log, bytes);
}

void lq_late_let_go(struct lq_rlog *log)
{
    if (log->late_low != 0) {
        lq_late_keep_journal(log);
        log->released_dirty = true;
    }
}

void lq_store_shrink_cache(struct lq_store *store)
{
    struct lq_ring *blocking = lq_cache_shrink(&store->cache);
    if (blocking != NULL) {
        lq_late_want((struct lq_rlog *)(void *)((char *)blocking - offsetof(struct lq_rlog, ring)));
    }
}
