/* raft/submit.c - what a leader proposes: the window that bounds it, the disk reserve, and the entry with its stamps.
 * The payload is copied once, into the slab that is stored, cached and sent. Called by node/ through host.h. */
#include <stdlib.h>
#include <string.h>

#include "raft/group.h"

/* ---- the window: bytes proposed and not committed ---- */

void lq_group_window_open(struct lq_group *group)
{
    group->window_low = lq_rlog_last(group->log);
    group->window_bytes = 0;
}

static lightq_status grow_window(struct lq_group *group, uint64_t index)
{
    uint32_t capacity = group->window_sizes == NULL ? 64 : (group->window_mask + 1) * 2;
    while (index - group->window_low > capacity) {
        capacity *= 2;
    }
    uint32_t *sizes = malloc(capacity * sizeof *sizes);
    if (sizes == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint64_t i = group->window_low + 1; i < index; i++) {
        sizes[i & (capacity - 1)] = group->window_sizes[i & group->window_mask];
    }
    free(group->window_sizes);
    group->window_sizes = sizes;
    group->window_mask = capacity - 1;
    return LIGHTQ_OK;
}

/* libraft's window counts entries; ours is bytes: what it is told follows the mean size. */
static void adjust_inflight(struct lq_group *group, uint32_t size)
{
    uint64_t before = group->entry_bytes_mean;
    group->entry_bytes_mean = before == 0 ? size : (before * 63 + size) / 64;
    if (group->entry_bytes_mean == before) {
        return;
    }
    uint64_t entries = group->host->window_bytes / (group->entry_bytes_mean + 1);
    entries = entries < LQ_INFLIGHT_ENTRIES_MIN ? LQ_INFLIGHT_ENTRIES_MIN : entries;
    entries = entries > LQ_INFLIGHT_ENTRIES_MAX ? LQ_INFLIGHT_ENTRIES_MAX : entries;
    raft_set_max_inflight_entries(&group->raft, (unsigned)entries);
}

lightq_status lq_group_window_add(struct lq_group *group, uint64_t index, uint32_t size)
{
    if (group->window_sizes == NULL || index - group->window_low > group->window_mask) {
        lightq_status status = grow_window(group, index);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    group->window_sizes[index & group->window_mask] = size;
    group->window_bytes += size;
    adjust_inflight(group, size);
    return LIGHTQ_OK;
}

void lq_group_window_advance(struct lq_group *group)
{
    if (group->leader_term == 0) {
        return;
    }
    uint64_t last = lq_rlog_last(group->log);
    uint64_t to = group->committed < last ? group->committed : last;
    for (; group->window_low < to; group->window_low++) {
        group->window_bytes -= group->window_sizes[(group->window_low + 1) & group->window_mask];
    }
}

static bool window_full(const struct lq_group *group)
{
    return group->window_bytes >= group->host->window_bytes ||
           lq_rlog_last(group->log) - group->window_low >= group->raft.max_inflight_entries;
}

/* ---- the reserve (rule 6) ---- */

/* A majority of the voters below it could not store what we accept. Those that free space go on: TRIM and SETTLE. */
static bool short_of_space(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (group->space_epoch == host->space_epoch) {
        return group->short_of_space;
    }
    unsigned voters = 0;
    unsigned low = 0;
    for (unsigned i = 0; i < group->raft.configuration.n; i++) {
        const struct raft_server *server = &group->raft.configuration.servers[i];
        if (server->role == RAFT_VOTER) {
            voters++;
            low += lq_host_short_of_space(host, lq_replica_node(server->id));
        }
    }
    group->space_epoch = host->space_epoch;
    group->short_of_space = low * 2 > voters;
    return group->short_of_space;
}

/* ---- submit ---- */

static lightq_status may_submit(struct lq_group *group, const struct lq_proposal *proposal, uint64_t payload_size)
{
    if (group->phase == LQ_PHASE_STOPPED || group->phase == LQ_PHASE_FAILING || group->failed != LIGHTQ_OK) {
        return LIGHTQ_ESTOPPED;
    }
    if (!lq_group_leads(group) || group->barrier_index == 0 || group->applied < group->barrier_index ||
        group->stalled || group->raft.leader_state.transferee != 0) {
        return LIGHTQ_ENOTLEADER;
    }
    if (payload_size > LQ_ENTRY_BYTES_MAX - LQ_ENTRY_HEADER_BYTES) {
        return LIGHTQ_ETOOBIG;
    }
    if (window_full(group)) {
        return LIGHTQ_EBUSY;
    }
    return proposal->is_append && short_of_space(group) ? LIGHTQ_ENOSPC : LIGHTQ_OK;
}

static struct lq_slab *make_entry(struct lq_group *group, const struct lq_proposal *proposal, uint32_t payload_size,
                                  uint64_t index)
{
    struct lq_slab *slab = lq_slab_new(lq_entry_size(payload_size));
    if (slab == NULL) {
        return NULL;
    }
    uint8_t *at = slab->bytes + LQ_ENTRY_HEADER_BYTES;
    for (unsigned i = 0; i < proposal->payload_count; i++) {
        if (proposal->payload[i].iov_len != 0) {
            memcpy(at, proposal->payload[i].iov_base, proposal->payload[i].iov_len);
            at += proposal->payload[i].iov_len;
        }
    }
    struct lq_entry entry = {
        .group = group->id,
        .index = index,
        .term = raft_current_term(&group->raft),
        .prev_term = lq_rlog_term_at(group->log, index - 1),
        .base_offset = proposal->base_offset,
        .timestamp_ms = proposal->timestamp_ms,
        .commit_index = group->committed,
        .type = LQ_ENTRY_COMMAND,
        .message_count = proposal->message_count,
        .payload_size = payload_size,
    };
    lq_entry_seal(slab->bytes, &entry);
    return slab;
}

lightq_status lq_group_submit(struct lq_group *group, const struct lq_proposal *proposal, uint64_t *index)
{
    uint64_t payload_size = 0;
    for (unsigned i = 0; i < proposal->payload_count; i++) {
        payload_size += proposal->payload[i].iov_len;
    }
    lightq_status status = may_submit(group, proposal, payload_size);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t at = lq_rlog_last(group->log) + 1;
    struct lq_slab *slab = make_entry(group, proposal, (uint32_t)payload_size, at);
    if (slab == NULL) {
        return LIGHTQ_ENOMEM;
    }
    lq_host_now(group->host);
    struct lq_entry_ref ref = {.slab = slab, .size = (uint32_t)lq_entry_size(payload_size)};
    status = lq_group_step_submit(group, &ref, LQ_ENTRY_COMMAND);
    lq_slab_unref(slab);
    lq_group_settle(group);
    if (status == LIGHTQ_OK) {
        *index = at;
        lq_group_dirty(group);
    }
    return status;
}
