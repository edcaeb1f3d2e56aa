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

/* The entries of @part up to @last, the late ones first, unless there are no descriptors for them now, or others have
 * all that a flush may use. */
static void plan_entries(struct lq_flush *flush, struct lq_part *part, uint64_t last, bool short_of_files)
{
    const struct lq_rlog *log = part->log;
    const struct lq_store *store = flush->store;
    uint64_t first = log->written + 1;
    size_t most = store->options.files_max / 4;
    size_t files = count_files(log, first, last);
    if (files > most) { /* more than any flush may write to: a part of them */
        size_t at = 0;
        (void)lq_rlog_segment_at(log, first, &at);
        last = log->segments[at + most - 1]->last;
        files = most;
        flush->left_out = true;
    }
    if (short_of_files && !has_files(log, first, last)) {
        return;
    }
    if (flush->file_count > 0 && flush->file_count + files > most) {
        flush->left_out = true;
        return;
    }
    flush->file_count += files;
    part->write_first = first;
    part->write_last = last;
    part->file_count = files;
    if (last > log->submitted) {
        part->first = log->submitted + 1;
        part->last = last;
        part->bytes = count_bytes(log, part->first, last);
    }
}

/* Whether the segment can do without what the journal carries, for now: all is in its last segment, and not much. */
static bool may_be_late(const struct lq_part *part)
{
    const struct lq_rlog *log = part->log;
    return part->last >= part->first && part->file_count == 1 && !log->write_wanted && !part->cut_do &&
           log->late_bytes + part->bytes <= log->store->options.late_bytes_max;
}

/* What of @log can go with this flush. False: nothing. */
static bool plan(struct lq_flush *flush, struct lq_rlog *log, struct lq_part *part, bool short_of_files)
{
    *part = (struct lq_part){.log = log, .first = 1, .write_first = 1};
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
    if (!blocked && (log->last > log->submitted || log->write_wanted)) {
        plan_entries(flush, part, log->last, short_of_files);
    } else if (part->cut_do && log->late_low != 0) { /* what is left before the cut is there before it is made */
        plan_entries(flush, part, log->submitted, short_of_files);
        part->cut_do = part->write_last >= part->write_first;
    }
    return part->create || part->vote_sequence != 0 || part->cut_begin || part->cut_do || part->install_begin ||
           part->install_do || part->trim || part->write_last >= part->write_first;
}

/* Room for one more part. NULL: out of memory. */
static struct lq_part *next_part(struct lq_flush *flush)
{
    if (!lq_array_reserve((void **)&flush->parts, &flush->part_capacity, flush->part_count + 1, sizeof *flush->parts)) {
        flush->out_of_memory = true;
        return NULL;
    }
    return &flush->parts[flush->part_count];
}

/* The store closes: what is late is written, so that the segments are whole without the journal. */
static void plan_last(struct lq_flush *flush)
{
    struct lq_rlog *log;
    TAILQ_FOREACH(log, &flush->store->late, late_link)
    {
        if (log->cut_step != LQ_CUT_NONE) {
            continue;
        }
        struct lq_part *part = next_part(flush);
        if (part == NULL) {
            return;
        }
        *part = (struct lq_part){.log = log,
                                 .first = 1,
                                 .write_first = log->written + 1,
                                 .write_last = log->durable,
                                 .file_count = count_files(log, log->written + 1, log->durable)};
        flush->part_count++;
    }
}

void lq_flush_plan(struct lq_flush *flush)
{
    struct lq_rlog *log;
    struct lq_rlog *next;
    if (flush->is_final) {
        plan_last(flush);
        return;
    }
    bool short_of_files = lq_clock_monotonic_us(flush->store->clock) < flush->store->files_short_until_us;
    for (log = TAILQ_FIRST(&flush->store->dirty); log != NULL; log = next) {
        next = TAILQ_NEXT(log, dirty_link);
        if (!lq_rlog_has_pending(log)) {
            TAILQ_REMOVE(&flush->store->dirty, log, dirty_link);
            log->is_dirty = false;
            continue;
        }
        struct lq_part *part = next_part(flush);
        if (part == NULL) {
            return;
        }
        if (plan(flush, log, part, short_of_files)) {
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
    for (size_t i = 0; i < flush->part_count && flush->use_journal; i++) {
        flush->parts[i].late = may_be_late(&flush->parts[i]);
    }
}
