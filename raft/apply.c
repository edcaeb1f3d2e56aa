/* raft/apply.c - committed entries to the machine, in order, each once; checkpoints at segment borders; trimming.
 * Called by the turn only, so that the machine may call back.
 *
 * Applied is what is both committed and stored here. Entries come from the cache, or, a bounded piece ahead, from disk.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "raft/group.h"

enum {
    PEEK_ENTRIES = 64,
    TURN_ENTRIES = 4096, /* of one group in one turn: others wait meanwhile */
    PEEK_BYTES = 1024 * 1024,
    READ_BYTES = 1024 * 1024,
};

/* ---- where the machine stands ---- */

lightq_status lq_apply_set_configuration(struct lq_group *group, uint64_t index, const void *bytes, uint32_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) {
        return LIGHTQ_ENOMEM;
    }
    memcpy(copy, bytes, size);
    free(group->configuration);
    group->configuration = copy;
    group->configuration_size = size;
    group->configuration_index = index;
    return LIGHTQ_OK;
}

lightq_status lq_apply_checkpoint_taken(struct lq_group *group, const struct lq_checkpoint *checkpoint)
{
    group->applied = checkpoint->last_index;
    group->applied_term = checkpoint->last_term;
    group->applied_offset = checkpoint->next_offset;
    group->applied_timestamp_ms = checkpoint->timestamp_ms;
    if (group->committed < group->applied) {
        group->committed = group->applied;
    }
    return lq_apply_set_configuration(group, checkpoint->configuration_index, checkpoint->configuration,
                                      checkpoint->configuration_size);
}

lightq_status lq_apply_load(struct lq_group *group, struct lq_err *err)
{
    struct lq_checkpoint checkpoint;
    struct lq_checkpoint first;
    uint8_t *bytes;
    bool begins_with_one = lq_rlog_first_checkpoint(group->log, &first);
    lightq_status status =
        lq_rlog_load_checkpoint(group->log, lq_rlog_last(group->log), true, &checkpoint, &bytes, err);
    if (status == LIGHTQ_ENOTFOUND && !begins_with_one) {
        status = group->ops->load(group->machine, NULL, 0);
        return status == LIGHTQ_OK
                   ? LIGHTQ_OK
                   : lq_err_set(err, status, "group %" PRIu64 ": the empty state cannot be loaded", group->id);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = group->ops->load(group->machine, checkpoint.state, (size_t)checkpoint.state_size);
    if (status == LIGHTQ_OK) {
        status = lq_apply_checkpoint_taken(group, &checkpoint);
    }
    if (status != LIGHTQ_OK) {
        lq_err_set(err, status, "group %" PRIu64 ": the state after entry %" PRIu64 " cannot be loaded", group->id,
                   checkpoint.last_index);
    }
    free(bytes);
    return status;
}

/* ---- one entry ---- */

static void make_checkpoint(struct lq_group *group)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    lightq_status status = group->ops->save(group->machine, &writer);
    if (status == LIGHTQ_OK) {
        status = writer.status;
    }
    if (status == LIGHTQ_OK) {
        struct lq_checkpoint checkpoint = {.last_index = group->applied,
                                           .last_term = group->applied_term,
                                           .next_offset = group->applied_offset,
                                           .timestamp_ms = group->applied_timestamp_ms,
                                           .configuration_index = group->configuration_index,
                                           .configuration = group->configuration,
                                           .configuration_size = group->configuration_size,
                                           .state = writer.bytes,
                                           .state_size = writer.size};
        lq_group_trace(group, LQ_TRACE_CHECKPOINT, group->applied, writer.size);
        status = lq_rlog_checkpoint(group->log, &checkpoint);
    }
    if (status != LIGHTQ_OK) { /* it only delays trimming, and makes the next start longer */
        lq_log(WARN, "no checkpoint at this segment border", "group", group->id, "index", group->applied, "status",
               lightq_status_name(status));
    }
    lq_writer_deinit(&writer);
}

static lightq_status apply_entry(struct lq_group *group, const struct lq_entry_ref *ref)
{
    struct lq_entry entry;
    uint64_t size;
    lightq_status status = lq_entry_decode(lq_entry_ref_bytes(ref), ref->size, false, &entry, &size, NULL);
    if (status != LIGHTQ_OK || entry.index != group->applied + 1) {
        return LIGHTQ_ECORRUPT;
    }
    if (lq_rlog_wants_checkpoint(group->log, entry.index)) {
        make_checkpoint(group);
    }
    status = group->ops->apply(group->machine, &entry, ref->slab);
    if (status != LIGHTQ_OK) {
        return status;
    }
    group->applied = entry.index;
    group->applied_term = entry.term;
    group->applied_offset = entry.base_offset + entry.message_count;
    group->applied_timestamp_ms = entry.timestamp_ms;
    lq_group_trace(group, LQ_TRACE_APPLY, entry.index, entry.term);
    if (entry.type == LQ_ENTRY_CHANGE) {
        return lq_apply_set_configuration(group, entry.index, entry.payload, entry.payload_size);
    }
    return LIGHTQ_OK;
}

static bool may_apply(const struct lq_group *group)
{
    return group->phase == LQ_PHASE_RUNNING && group->failed == LIGHTQ_OK && !group->closed &&
           !lq_group_installing(group); /* rule 8 */
}

/* How many of them were applied; fewer when the group stopped or was closed in between. */
static size_t apply_entries(struct lq_group *group, const struct lq_entry_ref *refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!may_apply(group)) {
            return i;
        }
        uint64_t index = group->applied + 1;
        lightq_status status = apply_entry(group, &refs[i]);
        if (status != LIGHTQ_OK) {
            lq_group_fail(group, status, "group %" PRIu64 ": entry %" PRIu64 " cannot be applied: %s", group->id, index,
                          lightq_status_text(status));
            return i;
        }
    }
    return count;
}

/* ---- where they come from ---- */

void lq_apply_forget_ready(struct lq_group *group)
{
    for (size_t i = group->ready_at; i < group->ready_count; i++) {
        lq_slab_unref(group->ready[i].slab);
    }
    free(group->ready);
    group->ready = NULL;
    group->ready_at = group->ready_count = 0;
}

static void on_read(struct lq_group *group, struct lq_read *read, lightq_status status)
{
    group->apply_read = NULL;
    lq_group_dirty(group);
    if (status == LIGHTQ_ECANCELED || status == LIGHTQ_ENOMEM ||
        read->read.generation != lq_rlog_generation(group->log)) {
        return; /* cut above us, or installed: asked for again if it is still needed */
    }
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": committed entries from %" PRIu64 " on cannot be read",
                      group->id, read->read.index);
        return;
    }
    struct lq_entry_ref *ready = malloc(read->read.count * sizeof *ready);
    if (ready == NULL || read->read.index != group->applied + 1) {
        free(ready);
        return;
    }
    lq_apply_forget_ready(group);
    for (size_t i = 0; i < read->read.count; i++) {
        ready[i] = read->read.refs[i];
        lq_slab_ref(ready[i].slab);
    }
    group->ready = ready;
    group->ready_count = read->read.count;
}

static size_t apply_ready(struct lq_group *group, uint64_t count_max)
{
    uint64_t left = group->ready_count - group->ready_at;
    size_t count = (size_t)(left < count_max ? left : count_max);
    size_t done = apply_entries(group, group->ready + group->ready_at, count);
    for (size_t i = 0; i < done; i++) {
        lq_slab_unref(group->ready[group->ready_at++].slab);
    }
    if (group->ready_at == group->ready_count) {
        lq_apply_forget_ready(group);
    }
    return done;
}

static size_t apply_cached(struct lq_group *group, uint64_t count_max)
{
    struct lq_entry_ref refs[PEEK_ENTRIES];
    size_t wanted = (size_t)(count_max < PEEK_ENTRIES ? count_max : PEEK_ENTRIES);
    size_t count = lq_rlog_peek(group->log, group->applied + 1, PEEK_BYTES, wanted, refs);
    size_t done = apply_entries(group, refs, count);
    for (size_t i = 0; i < count; i++) {
        lq_slab_unref(refs[i].slab);
    }
    return done;
}

static uint64_t applicable(const struct lq_group *group)
{
    uint64_t stored = lq_group_stored(group);
    return group->committed < stored ? group->committed : stored;
}

void lq_apply_turn(struct lq_group *group)
{
    uint64_t budget = TURN_ENTRIES;
    while (may_apply(group) && group->applied < applicable(group)) {
        uint64_t wanted = applicable(group) - group->applied;
        wanted = wanted < budget ? wanted : budget;
        if (wanted == 0) {
            lq_group_dirty(group);
            return;
        }
        size_t done = group->ready != NULL ? apply_ready(group, wanted) : apply_cached(group, wanted);
        budget -= done;
        if (done == 0) {
            break;
        }
    }
    if (may_apply(group) && group->applied < applicable(group) && group->apply_read == NULL && group->ready == NULL) {
        lightq_status status = lq_host_read(group, group->applied + 1, READ_BYTES, 0, on_read, &group->apply_read);
        if (status == LIGHTQ_ENOMEM || status == LIGHTQ_EBUSY) {
            group->retry_ms = group->host->now_ms + group->host->tick_ms;
        } else if (status != LIGHTQ_OK) {
            lq_group_fail(group, status, "group %" PRIu64 ": committed entry %" PRIu64 " is not in its log", group->id,
                          group->applied + 1);
        }
    }
}

/* ---- trimming ---- */

void lq_apply_trim(struct lq_group *group)
{
    if (!may_apply(group) || group->trim_asked == group->applied) {
        return;
    }
    group->trim_asked = group->applied;
    struct lq_checkpoint checkpoint;
    uint64_t to = group->ops->trim_to(group->machine);
    to = to < group->applied ? to : group->applied;
    uint64_t point = to == 0 || group->closed ? 0 : lq_rlog_trim_point(group->log, to + 1, &checkpoint);
    /* Only what libraft itself knows to be committed and stored: its commit index starts low after a restart. */
    if (point == 0 || point < lq_rlog_first(group->log) || point > raft_commit_index(&group->raft) ||
        point > group->raft.last_stored) {
        return;
    }
    lq_group_trace(group, LQ_TRACE_TRIM, point, raft_commit_index(&group->raft));
    lq_group_step_snapshot(group, &checkpoint); /* rule 7: libraft knows before the files go */
    if (group->failed == LIGHTQ_OK) {
        lightq_status status = lq_rlog_trim(group->log, point);
        if (status != LIGHTQ_OK) {
            lq_group_fail(group, status, "group %" PRIu64 ": cannot trim its log to entry %" PRIu64, group->id, point);
        }
    }
}
