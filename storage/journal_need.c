/* storage/journal_need.c - which journal files logs still need: those with entries that their segments may have in the
 * page cache only, or not at all yet. Called by the other files of the store on the loop thread. Why: docs/adr/0004. */
#include "storage/store_private.h"

void lq_rlog_settle_need(struct lq_rlog *log)
{
    if (log->dirty_count == 0 && !log->released_dirty && !log->destroyed) {
        log->journal_low = 0;
    }
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a; /* 0: none */
}

uint64_t lq_rlog_need(const struct lq_rlog *log)
{
    return lower(log->late_low, lower(log->journal_low, log->journal_syncing));
}

static bool needs_file(const struct lq_rlog *log, uint64_t number)
{
    if (log->keep_low != 0) {
        return log->keep_low <= number && number <= log->keep_high && !log->destroy_durable;
    }
    uint64_t need = lq_rlog_need(log);
    return need != 0 && need <= number && !log->destroy_durable;
}

bool lq_journal_is_needed(const struct lq_store *store, uint64_t number)
{
    const struct lq_rlog *zombie;
    for (size_t i = 0; i < store->log_count; i++) {
        if (needs_file(store->logs[i], number)) {
            return true;
        }
    }
    TAILQ_FOREACH(zombie, &store->zombies, zombie_link)
    {
        if (needs_file(zombie, number)) {
            return true;
        }
    }
    return false;
}
