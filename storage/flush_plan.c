/* storage/flush_plan.c - what goes with a flush (storage/flush.h): which logs take part, what of them, and whether the
 * journal carries their entries. Called by storage/flush_job.c on the loop thread; changes nothing but the flush. */
#include "client/base/clock.h"
#include "storage/array.h"
#include "storage/flush.h"

/* ---- which logs, and what of them ---- */

static size_t count_files(const struct lq_rlog *log, uint64_t first, uint64_t last)
{
    size_t from = 0;
    size_t to = 0;
    (void)lq_rlog_segment_at(log, first, &from);
    (void)lq_rlog_segment_at(log, last, &to);
    return to - from + 1;
}

static uint64_t count_bytes(const struct lq_rlog *log, uint64_t first, uint64_t last)
{
    uint64_t bytes = 0;
    for (uint64_t i = first; i <= last; i++) {
        bytes += lq_ring_at(&log->ring, i)->size;
    }
    return bytes;
}

/* Whether the files of entries [@first, @last] are open. */
static bool has_files(const struct lq_rlog *log, uint64_t first, uint64_t last)
{
    size_t at = 0;
    (void)lq_rlog_segment_at(log, first, &at);
    for (; at < log->segment_count && log->segments[at]->first <= last; at++) {
        if (log->segments[at]->file == LQ_FILE_NONE) {
            return false;
        }
    }
    return true;
}

/* The entries of @part, unless there are no descriptors for them now, or others have all that a flush may use. */
static void plan_entries(struct lq_flush *flush, struct lq_part *part, bool short_of_files)
{
    const struct lq_rlog *log = part->log;
    const struct lq_store *store = flush->store;
    size_t files = count_files(log, log->submitted + 1, log->last);
    if (short_of_files && !has_files(log, log->submitted + 1, log->last)) {
        return;
    }
    if (flush->file_count > 0 && flush->file_count + files > store->options.files_max / 4) {
        flush->left_out = true;
        return;
    }
    flush->file_count += files;
    part->first = log->submitted + 1;
    part->last = log->last;
    part->bytes = count_bytes(log, part->first, part->last);
    part->file_count = files;
}

/* What of @log can go with this flush. False: nothing. */
static bool plan(struct lq_flush *flush, struct lq_rlog *log, struct lq_part *part, bool short_of_files)
{
    *part = (struct lq_part){.log = log, .first = 1};
    if (log->destroyed) {
        part->destroy = !log->destroy_durable;
        return part->destroy;
    }
    if (log->health != LQ_RLOG_HEALTHY) {
        return false;
    }
    part->create = !log->created;
    if (log->vote_sequence > log->vote_submitted) {
        part->vote_sequence = log->vote_sequence;
        part->term = log->term;
        part->voted_for = log->voted_for;
    }
    part->cut_begin = log->cut_step == LQ_CUT_BEGIN;
    part->cut_do = log->cut_step == LQ_CUT_DO && !log->background_busy &&
                   (!short_of_files || has_files(log, log->cut_segment, log->cut_segment));
    part->cut_index = log->cut_index;
    part->install_begin = log->install_step == LQ_INSTALL_BEGIN;
    part->install_do = log->install_step == LQ_INSTALL_DO && !log->background_busy;
    part->install_index = log->install.next_index - 1;
    part->install_number = log->install.install;
    part->trim = log->trim_wanted;
    part->trim_to = log->trim_to;
    bool blocked = log->cut_step != LQ_CUT_NONE || log->install_step != LQ_INSTALL_NONE;
    if (log->last > log->submitted && !blocked) {
        plan_entries(flush, part, short_of_files);
    }
    return part->create || part->vote_sequence != 0 || part->cut_begin || part->cut_do || part->install_begin ||
           part->install_do || part->trim || part->last >= part->first;
}

void lq_flush_plan(struct lq_flush *flush)
{
    struct lq_rlog *log;
    struct lq_rlog *next;
    bool short_of_files = lq_clock_monotonic_us(flush->store->clock) < flush->store->files_short_until_us;
    for (log = TAILQ_FIRST(&flush->store->dirty); log != NULL; log = next) {
        next = TAILQ_NEXT(log, dirty_link);
        if (!lq_rlog_has_pending(log)) {
            TAILQ_REMOVE(&flush->store->dirty, log, dirty_link);
            log->is_dirty = false;
            continue;
        }
        if (!lq_array_reserve((void **)&flush->parts, &flush->part_capacity, flush->part_count + 1,
                              sizeof *flush->parts)) {
            flush->out_of_memory = true;
            return;
        }
        if (plan(flush, log, &flush->parts[flush->part_count], short_of_files)) {
            flush->part_count++;
        }
    }
}

static bool has_records(const struct lq_part *part)
{
    return part->create || part->destroy || part->vote_sequence != 0 || part->cut_begin || part->cut_do ||
           part->install_begin || part->install_do || part->trim;
}

void lq_flush_choose_path(struct lq_flush *flush)
{
    const struct lq_store *store = flush->store;
    size_t files = 0;
    size_t logs = 0;
    uint64_t bytes = 0;
    bool records = flush->is_final;
    for (size_t i = 0; i < flush->part_count; i++) {
        const struct lq_part *part = &flush->parts[i];
        records = records || has_records(part);
        if (part->last >= part->first) {
            logs++;
            files += part->file_count;
            bytes += part->bytes;
        }
    }
    if (!TAILQ_EMPTY(&store->watermarks)) {
        uint64_t age = lq_clock_monotonic_us(store->clock) - store->watermark_since_us;
        records = records || store->flushes_since_frame + 1 >= LQ_WATERMARK_FLUSHES_MAX || age >= LQ_WATERMARK_US_MAX;
    }
    bool small = logs > 0 && bytes / logs <= store->options.journal_payload_max;
    flush->use_journal = small && (files > store->options.sync_files_max || records);
    flush->has_frame = flush->use_journal || records;
}
