/* node/queue/cgroup.c - see cgroup.h. */
#include "node/queue/cgroup.h"

#include <stdlib.h>
#include <string.h>

#include "node/queue/name.h"

/* ---- where it begins */

static lightq_status resolve(const struct lq_cgroup_start *start, const struct lq_cgroup_at *at, uint64_t *offset)
{
    switch ((enum lq_cgroup_start_kind)start->kind) {
    case LQ_CGROUP_START:
        *offset = at->start_offset;
        return LIGHTQ_OK;
    case LQ_CGROUP_END:
        *offset = at->end_offset;
        return LIGHTQ_OK;
    case LQ_CGROUP_OFFSET:
        *offset = start->offset;
        return *offset < at->start_offset || *offset > at->end_offset ? LIGHTQ_EOUTOFRANGE : LIGHTQ_OK;
    case LQ_CGROUP_TIME:
        *offset = start->offset < at->start_offset ? at->start_offset : start->offset;
        *offset = *offset > at->end_offset ? at->end_offset : *offset;
        return LIGHTQ_OK;
    }
    return LIGHTQ_EOUTOFRANGE;
}

lightq_status lq_cgroup_new(const struct lq_cgroup_create *create, const struct lq_cgroup_at *at,
                            struct lq_cgroup **cgroup)
{
    uint64_t offset;
    lightq_status status = resolve(&create->start, at, &offset);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_cgroup *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return LIGHTQ_ENOMEM;
    }
    made->number = at->index;
    made->generation = at->index;
    made->id = create->id;
    memcpy(made->name, create->name, create->name_size);
    made->options = create->options;
    made->start = create->start;
    made->progress_ms = at->timestamp_ms;
    lq_settled_init(&made->settled, offset);
    *cgroup = made;
    return LIGHTQ_OK;
}

void lq_cgroup_free(struct lq_cgroup *cgroup)
{
    if (cgroup != NULL) {
        lq_settled_deinit(&cgroup->settled);
        lq_failures_deinit(&cgroup->failures);
        lq_dead_letters_deinit(&cgroup->dead);
        free(cgroup);
    }
}

lightq_status lq_cgroup_seek(struct lq_cgroup *cgroup, const struct lq_cgroup_seek *seek, const struct lq_cgroup_at *at,
                             struct lq_cgroup_result *result)
{
    uint64_t offset;
    result->status = resolve(&seek->start, at, &offset);
    if (result->status != LIGHTQ_OK) {
        return LIGHTQ_OK;
    }
    if (cgroup->dead.next - cgroup->dead.done > LQ_CGROUP_SEEK_LETTERS_MAX) {
        result->status = LIGHTQ_ELIMIT; /* those that are dead anew would come on top */
        return LIGHTQ_OK;
    }
    lq_settled_reset(&cgroup->settled, offset);
    lq_failures_deinit(&cgroup->failures);
    cgroup->generation = at->index;
    cgroup->start = seek->start;
    cgroup->progress_ms = at->timestamp_ms;
    return LIGHTQ_OK;
}

/* ---- settling */

/* Why a SETTLE is refused as a whole; OK: it is not. */
static lightq_status judge_settle(const struct lq_cgroup *cgroup, const struct lq_cgroup_settle *settle,
                                  const struct lq_cgroup_at *at)
{
    struct lq_settle_reader reader = lq_settle_reader_of(settle);
    struct lq_settle_range range;
    struct lq_settle_failure failure;
    if (cgroup->options.mode != LQ_CGROUP_PIPELINE) {
        return LIGHTQ_EINVAL;
    }
    if (settle->generation != cgroup->generation) {
        return LIGHTQ_EFENCED;
    }
    while (lq_settle_next_range(&reader, &range)) {
        if (range.first + range.count > at->end_offset) {
            return LIGHTQ_EOUTOFRANGE;
        }
    }
    while (lq_settle_next_failure(&reader, &failure)) {
        if (failure.offset >= at->end_offset) {
            return LIGHTQ_EOUTOFRANGE;
        }
    }
    return LIGHTQ_OK;
}

static uint32_t delay_after(const struct lq_cgroup_options *options, uint32_t failed_before)
{
    if (options->backoff_count == 0) {
        return 0;
    }
    uint32_t last = options->backoff_count - 1;
    return options->backoff_ms[failed_before < last ? failed_before : last];
}

static lightq_status apply_failure(struct lq_cgroup *cgroup, const struct lq_settle_failure *failure,
                                   const struct lq_cgroup_at *at, struct lq_cgroup_result *result)
{
    const struct lq_failure *before = lq_failures_find(&cgroup->failures, failure->offset);
    uint32_t failed = before == NULL ? 0 : before->count;
    if (lq_settled_has(&cgroup->settled, failure->offset) || (before != NULL && before->dead) ||
        failure->delivery - 1 != failed || (before == NULL && cgroup->failures.count >= at->holes_max)) {
        result->stale++;
        return LIGHTQ_OK;
    }
    uint32_t delay_ms =
        failure->delay_ms == LQ_SETTLE_DELAY_DEFAULT ? delay_after(&cgroup->options, failed) : failure->delay_ms;
    uint32_t max_deliver = cgroup->options.max_deliver;
    const struct lq_failure after = {.offset = failure->offset,
                                     .not_before_ms = at->timestamp_ms + delay_ms,
                                     .delay_ms = delay_ms,
                                     .count = failed + 1,
                                     .reason = failure->reason,
                                     .dead = failure->reason == LQ_FAILURE_REJECTED ||
                                             (max_deliver != 0 && failed + 1 >= max_deliver)};
    lightq_status status = lq_failures_put(&cgroup->failures, &after);
    if (status == LIGHTQ_OK && after.dead) {
        const struct lq_dead_letter letter = {
            .offset = after.offset, .failed_ms = at->timestamp_ms, .count = after.count, .reason = after.reason};
        status = lq_dead_letters_add(&cgroup->dead, &letter);
        result->dead++;
    }
    cgroup->failed_count++;
    result->failed++;
    return status;
}

/* [first, first + count) is settled. OK | ELIMIT | ENOMEM. */
static lightq_status settle_range(struct lq_cgroup *cgroup, uint64_t first, uint64_t count,
                                  const struct lq_cgroup_at *at, struct lq_cgroup_result *result)
{
    uint64_t added;
    lightq_status status = lq_settled_add(&cgroup->settled, first, count, at->holes_max, &added);
    if (status == LIGHTQ_OK && added > 0) {
        if (cgroup->failures.count > 0) {
            lq_failures_forget(&cgroup->failures, first, first + count);
        }
        cgroup->settled_count += added;
        cgroup->progress_ms = at->timestamp_ms;
        result->settled += added;
    }
    return status;
}

/* What becomes of a status: the limit is an answer, and the rest goes on; anything else stops the replica. */
static lightq_status fatal(lightq_status status, struct lq_cgroup_result *result)
{
    if (status == LIGHTQ_ELIMIT) {
        result->status = status;
        return LIGHTQ_OK;
    }
    return status;
}

lightq_status lq_cgroup_settle(struct lq_cgroup *cgroup, const struct lq_cgroup_settle *settle,
                               const struct lq_cgroup_at *at, struct lq_cgroup_result *result)
{
    result->status = judge_settle(cgroup, settle, at);
    if (result->status != LIGHTQ_OK) {
        return LIGHTQ_OK;
    }
    struct lq_settle_reader reader = lq_settle_reader_of(settle);
    struct lq_settle_range range;
    struct lq_settle_failure failure;
    lightq_status status = LIGHTQ_OK;
    while (status == LIGHTQ_OK && lq_settle_next_range(&reader, &range)) {
        status = fatal(settle_range(cgroup, range.first, range.count, at, result), result);
    }
    while (status == LIGHTQ_OK && lq_settle_next_failure(&reader, &failure)) {
        status = apply_failure(cgroup, &failure, at, result);
    }
    return status;
}

lightq_status lq_cgroup_done(struct lq_cgroup *cgroup, uint64_t number, const struct lq_cgroup_at *at,
                             struct lq_cgroup_result *result)
{
    if (number > cgroup->dead.next) {
        result->status = LIGHTQ_EOUTOFRANGE;
        return LIGHTQ_OK;
    }
    while (cgroup->dead.done < number) {
        const struct lq_dead_letter *letter = lq_dead_letters_at(&cgroup->dead, cgroup->dead.done);
        const struct lq_failure *failure = lq_failures_find(&cgroup->failures, letter->offset);
        if (failure != NULL && failure->dead) { /* else the group was moved since, and the message is another matter */
            lightq_status status = settle_range(cgroup, letter->offset, 1, at, result);
            if (status != LIGHTQ_OK) {
                return fatal(status, result);
            }
        }
        (void)lq_dead_letters_take(&cgroup->dead);
    }
    return LIGHTQ_OK;
}

void lq_cgroup_commit(struct lq_cgroup *cgroup, const struct lq_cgroup_commit *commit, const struct lq_cgroup_at *at,
                      struct lq_cgroup_result *result)
{
    uint64_t position = cgroup->settled.floor;
    if (cgroup->options.mode != LQ_CGROUP_SUBSCRIBER) {
        result->status = LIGHTQ_EINVAL;
    } else if (commit->generation != cgroup->generation) {
        result->status = LIGHTQ_EFENCED;
    } else if (commit->offset > at->end_offset) {
        result->status = LIGHTQ_EOUTOFRANGE;
    } else if (commit->offset < position) {
        result->status = LIGHTQ_ESETTLED;
    } else if (commit->offset > position) {
        result->settled = commit->offset - position;
        cgroup->settled_count += result->settled;
        cgroup->progress_ms = at->timestamp_ms;
        lq_settled_reset(&cgroup->settled, commit->offset);
    }
}

/* ---- other changes */

void lq_cgroup_alter(struct lq_cgroup *cgroup, const struct lq_cgroup_alter *alter, struct lq_cgroup_result *result)
{
    struct lq_cgroup_options options = cgroup->options;
    const struct lq_cgroup_options *wanted = &alter->options;
    if (alter->mask & LQ_CGROUP_ALTER_PAUSED) {
        options.paused = wanted->paused;
    }
    if (alter->mask & LQ_CGROUP_ALTER_ACK_WAIT) {
        options.ack_wait_ms = wanted->ack_wait_ms;
    }
    if (alter->mask & LQ_CGROUP_ALTER_MAX_DELIVER) {
        options.max_deliver = wanted->max_deliver;
    }
    if (alter->mask & LQ_CGROUP_ALTER_MAX_UNSETTLED) {
        options.max_unsettled = wanted->max_unsettled;
    }
    if (alter->mask & LQ_CGROUP_ALTER_BACKOFF) {
        options.backoff_count = wanted->backoff_count;
        memcpy(options.backoff_ms, wanted->backoff_ms, sizeof options.backoff_ms);
    }
    if (alter->mask & LQ_CGROUP_ALTER_EXCLUSIVE) {
        options.exclusive = wanted->exclusive;
    }
    result->status = lq_cgroup_options_check(&options);
    if (result->status == LIGHTQ_OK) {
        cgroup->options = options;
    }
}

void lq_cgroup_trimmed(struct lq_cgroup *cgroup, uint64_t start)
{
    if (cgroup->options.mode != LQ_CGROUP_PIPELINE || start <= cgroup->settled.floor) {
        return;
    }
    uint64_t missed = lq_settled_raise(&cgroup->settled, start, &cgroup->missed_first);
    lq_failures_forget(&cgroup->failures, 0, start);
    cgroup->missed_count += missed;
    cgroup->missed_end = start;
}

uint32_t lq_cgroup_failed(const struct lq_cgroup *cgroup, uint64_t offset)
{
    const struct lq_failure *failure = lq_failures_find(&cgroup->failures, offset);
    return failure == NULL ? 0 : failure->count;
}

/* ---- checkpoint */

lightq_status lq_cgroup_save(const struct lq_cgroup *cgroup, struct lq_writer *writer)
{
    size_t name_size = strlen(cgroup->name);
    lq_write_u64(writer, cgroup->number);
    lq_write_u64(writer, cgroup->generation);
    lq_write_bytes(writer, cgroup->id.bytes, sizeof cgroup->id.bytes);
    lq_cgroup_start_encode(&cgroup->start, writer);
    const uint64_t counts[] = {cgroup->settled_count, cgroup->failed_count, cgroup->missed_count,
                               cgroup->missed_first,  cgroup->missed_end,   cgroup->progress_ms};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        lq_write_u64(writer, counts[i]);
    }
    lq_cgroup_options_encode(&cgroup->options, writer);
    lq_write_u8(writer, (uint8_t)name_size);
    lq_write_bytes(writer, cgroup->name, name_size);
    lq_settled_save(&cgroup->settled, writer);
    lightq_status status = lq_failures_save(&cgroup->failures, cgroup->settled.floor, writer);
    lq_dead_letters_save(&cgroup->dead, writer);
    return status == LIGHTQ_OK ? writer->status : status;
}

static lightq_status load_head(struct lq_cgroup *cgroup, struct lq_reader *reader, const struct lq_cgroup_at *at)
{
    cgroup->number = lq_read_u64(reader);
    cgroup->generation = lq_read_u64(reader);
    const uint8_t *id = lq_read_bytes(reader, sizeof cgroup->id.bytes);
    if (id == NULL || cgroup->number == 0 || cgroup->generation < cgroup->number || cgroup->generation > at->index) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(cgroup->id.bytes, id, sizeof cgroup->id.bytes);
    lightq_status status = lq_cgroup_start_decode(reader, &cgroup->start);
    uint64_t *const counts[] = {&cgroup->settled_count, &cgroup->failed_count, &cgroup->missed_count,
                                &cgroup->missed_first,  &cgroup->missed_end,   &cgroup->progress_ms};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        *counts[i] = lq_read_u64(reader);
    }
    if (status == LIGHTQ_OK) {
        status = lq_cgroup_options_decode(reader, &cgroup->options);
    }
    uint8_t name_size = lq_read_u8(reader);
    const uint8_t *name = lq_read_bytes(reader, name_size);
    if (status != LIGHTQ_OK || name == NULL || lq_name_check((const char *)name, name_size) != LIGHTQ_OK) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(cgroup->name, name, name_size);
    return LIGHTQ_OK;
}

static bool is_sound(const struct lq_cgroup *cgroup)
{
    if (cgroup->options.mode == LQ_CGROUP_SUBSCRIBER &&
        (cgroup->settled.holes > 0 || cgroup->failures.count > 0 || cgroup->dead.next > 0)) {
        return false;
    }
    for (uint32_t i = 0; i < cgroup->failures.count; i++) {
        if (lq_settled_has(&cgroup->settled, cgroup->failures.at[i].offset)) {
            return false;
        }
    }
    return true;
}

static lightq_status load_body(struct lq_cgroup *cgroup, struct lq_reader *reader, const struct lq_cgroup_at *at)
{
    lightq_status status = lq_settled_load(&cgroup->settled, reader, at->end_offset, at->holes_max);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_failures_load(&cgroup->failures, reader, cgroup->settled.floor, at->end_offset, at->holes_max);
    if (status == LIGHTQ_OK) {
        status = lq_dead_letters_load(&cgroup->dead, reader, at->end_offset,
                                      LQ_CGROUP_SEEK_LETTERS_MAX + LQ_CGROUP_UNSETTLED_MAX);
    }
    return status == LIGHTQ_OK && !is_sound(cgroup) ? LIGHTQ_ECORRUPT : status;
}

lightq_status lq_cgroup_load(struct lq_reader *reader, const struct lq_cgroup_at *at, struct lq_cgroup **cgroup)
{
    struct lq_cgroup *loaded = calloc(1, sizeof *loaded);
    if (loaded == NULL) {
        return LIGHTQ_ENOMEM;
    }
    lq_settled_init(&loaded->settled, 0);
    lightq_status status = load_head(loaded, reader, at);
    if (status == LIGHTQ_OK) {
        status = load_body(loaded, reader, at);
    }
    if (status != LIGHTQ_OK) {
        lq_cgroup_free(loaded);
        return status;
    }
    *cgroup = loaded;
    return LIGHTQ_OK;
}
