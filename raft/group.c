/* raft/group.c - the only caller of raft_step(). Gives libraft one event at a time, takes the update it makes in the
 * order that keeps promises (docs/architecture.md, "The Raft host"), and runs what waits at the end of a turn. Called
 * by host.c and the other files of a group. Loop thread only.
 *
 * An update is taken in this order: term and vote (its messages, and every later one, are held until they are durable);
 * entries (cut, then append: durable news comes from the log's events); a checkpoint to install; messages; the commit
 * index. Nothing of the machine is called here: lq_group_turn does that. */
#include "raft/group.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "raft/errmap.h"
#include "raft/heap.h"

/* libraft only carries it; its threshold stays 0 (rule 6: the host itself refuses). */
enum { CAPACITY = UINT16_MAX };

void lq_group_trace(struct lq_group *group, enum lq_trace_kind kind, uint64_t a, uint64_t b)
{
    struct lq_host *host = group->host;
    if (host->trace != NULL) {
        struct lq_trace_event event = {.kind = kind, .group = group->id, .self = group->self, .a = a, .b = b};
        host->trace(host->trace_data, &event);
    }
}

struct lq_group_peer *lq_group_peer(struct lq_group *group, lq_replica_id id)
{
    for (unsigned i = 0; i < group->peer_count; i++) {
        if (group->peers[i].id == id) {
            return &group->peers[i];
        }
    }
    return NULL;
}

/* ---- entries ---- */

void lq_group_take_tail(struct lq_group *group, const struct lq_entry *entry)
{
    group->tail_offset = entry->base_offset + entry->message_count;
    group->tail_timestamp_ms = entry->timestamp_ms;
    group->tail_commit = entry->commit_index;
    group->tail_known = true;
}

lightq_status lq_group_make_entry(struct lq_group *group, enum lq_entry_type type, const void *payload,
                                  uint32_t payload_size, struct lq_entry_ref *ref)
{
    uint64_t last = lq_rlog_last(group->log);
    struct lq_entry entry = {
        .group = group->id,
        .index = last + 1,
        .term = raft_current_term(&group->raft),
        .prev_term = last == 0 ? 0 : lq_rlog_term_at(group->log, last),
        .base_offset = group->tail_offset,
        .timestamp_ms = group->tail_timestamp_ms,
        .commit_index = group->committed,
        .type = type,
        .payload_size = payload_size,
    };
    uint32_t size = (uint32_t)lq_entry_size(payload_size);
    struct lq_slab *slab = lq_slab_new(size);
    if (slab == NULL) {
        return LIGHTQ_ENOMEM;
    }
    if (payload_size != 0) {
        memcpy(slab->bytes + LQ_ENTRY_HEADER_BYTES, payload, payload_size);
    }
    lq_entry_seal(slab->bytes, &entry);
    *ref = (struct lq_entry_ref){.slab = slab, .size = size};
    return LIGHTQ_OK;
}

/* The barrier that libraft adds when it wins: its batch is ours to free. */
static lightq_status take_barrier(struct lq_group *group, struct lq_entry_ref *ref)
{
    raft_free(group->raft.barrier.batch);
    group->raft.barrier.batch = NULL;
    group->raft.barrier.buf.base = NULL;
    return lq_group_make_entry(group, LQ_ENTRY_BARRIER, NULL, 0, ref);
}

static bool cut_log(struct lq_group *group, uint64_t index)
{
    uint64_t last = lq_rlog_last(group->log);
    if (index > last) {
        return true;
    }
    /* Rule 9: applied means committed, and committed entries are never cut. */
    if (index <= group->applied) {
        lq_group_fail(group, LIGHTQ_ECORRUPT,
                      "group %" PRIu64 ": the leader wants entry %" PRIu64 " replaced, but %" PRIu64
                      " are applied here: two histories",
                      group->id, index, group->applied);
        return false;
    }
    lq_group_trace(group, LQ_TRACE_CUT, index, last);
    lq_apply_forget_ready(group); /* read ahead, perhaps beyond the cut */
    lightq_status status = lq_rlog_cut(group->log, index);
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": cannot cut its log at %" PRIu64, group->id, index);
        return false;
    }
    return true;
}

static void append_entries(struct lq_group *group, uint64_t index, const struct lq_entry_ref *refs, size_t count)
{
    lightq_status status = lq_rlog_append(group->log, refs, count);
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": cannot append entries %" PRIu64 " to %" PRIu64 " to its log",
                      group->id, index, index + count - 1);
        return;
    }
    struct lq_entry last;
    uint64_t size;
    status = lq_entry_decode(lq_entry_ref_bytes(&refs[count - 1]), refs[count - 1].size, false, &last, &size, NULL);
    if (status != LIGHTQ_OK || last.index != index + count - 1) {
        lq_group_fail(group, LIGHTQ_EINTERNAL, "group %" PRIu64 ": entry %" PRIu64 " was appended as another",
                      group->id, index);
        return;
    }
    lq_group_take_tail(group, &last);
    lq_group_trace(group, LQ_TRACE_APPEND, index, count);
    lq_stall_appended(group);
    for (size_t i = 0; i < count && group->leader_term != 0; i++) {
        if (lq_group_window_add(group, index + i, refs[i].size) != LIGHTQ_OK) {
            lq_group_fail(group, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory for its window", group->id);
            return;
        }
    }
}

static void take_entries(struct lq_group *group, const struct raft_update *update, const struct lq_step *step)
{
    uint64_t index = update->entries.index;
    unsigned count = update->entries.n;
    if (update->entries.batch == &group->raft.barrier) {
        struct lq_entry_ref barrier;
        if (take_barrier(group, &barrier) != LIGHTQ_OK) {
            lq_group_fail(group, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory for the barrier", group->id);
            return;
        }
        group->barrier_index = index;
        append_entries(group, index, &barrier, 1);
        lq_slab_unref(barrier.slab);
        return;
    }
    /* The array is the one given with the event, from where it holds what is new. */
    assert(step != NULL && update->entries.batch >= step->entries);
    size_t at = (size_t)(update->entries.batch - step->entries);
    assert(at + count <= step->count);
    if (cut_log(group, index)) {
        append_entries(group, index, step->refs + at, count);
    }
}

/* ---- messages ---- */

static bool from_present_leadership(const struct lq_group *group, uint64_t term)
{
    return lq_group_leads(group) && term == raft_current_term(&group->raft);
}

/* libraft answers a pre-vote with the term it was asked about, also when its own is higher (recv_request_vote.c:119).
 * The candidate would never learn of that term, and a group that needs this vote would never elect again. A refusal
 * with the real term is what libraft expects of a peer that is ahead (recv_request_vote_result.c:85). */
static void send_vote_result(struct lq_group *group, const struct raft_message *message)
{
    struct raft_message sent = *message;
    struct raft_request_vote_result *result = &sent.request_vote_result;
    if (result->pre_vote && !result->vote_granted && result->term < raft_current_term(&group->raft)) {
        result->term = raft_current_term(&group->raft);
    }
    lq_host_message(group, &sent);
}

static void dispatch(struct lq_group *group, const struct raft_message *message)
{
    struct lq_heartbeat_result result;
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        if (from_present_leadership(group, message->append_entries.term)) {
            lq_feed_take(group, message);
        }
        return;
    case RAFT_INSTALL_SNAPSHOT:
        if (from_present_leadership(group, message->install_snapshot.term)) {
            lq_install_begin(group, message);
        }
        return;
    case RAFT_TIMEOUT_NOW:
        if (from_present_leadership(group, message->timeout_now.term)) {
            lq_group_transfer_sent(group, message);
            lq_host_message(group, message);
        }
        return;
    case RAFT_APPEND_ENTRIES_RESULT:
        lq_group_trace(group, LQ_TRACE_SEND, message->type, message->server_id);
        lq_heartbeat_result_of(group->id, group->self, message, &result);
        lq_host_result(group->host, &result);
        return;
    case RAFT_REQUEST_VOTE:
        lq_host_message(group, message);
        return;
    case RAFT_REQUEST_VOTE_RESULT:
        send_vote_result(group, message);
        return;
    }
}

/* Rule 3: while a vote is not durable, whatever is said waits behind it. Lost ones are made again by Raft. */
static void hold(struct lq_group *group, const struct raft_message *message)
{
    if (group->held_count == group->held_capacity) {
        unsigned capacity = group->held_capacity == 0 ? 8 : group->held_capacity * 2;
        struct raft_message *held = NULL;
        if (capacity <= LQ_GROUP_HELD_MESSAGES_MAX) {
            held = realloc(group->held, capacity * sizeof *held);
        }
        if (held == NULL) {
            group->host->counters.messages_dropped++;
            return;
        }
        group->held = held;
        group->held_capacity = capacity;
    }
    group->held[group->held_count] = *message;
    group->held[group->held_count++].server_address = NULL; /* libraft's memory */
}

static void release_held(struct lq_group *group)
{
    if (lq_group_vote_pending(group) || group->held_count == 0) {
        return;
    }
    unsigned count = group->held_count;
    for (unsigned i = 0; i < count; i++) {
        dispatch(group, &group->held[i]);
    }
    assert(group->held_count == count); /* dispatch makes no step */
    group->held_count = 0;
    if (group->held_capacity > 8) {
        free(group->held);
        group->held = NULL;
        group->held_capacity = 0;
    }
}

/* ---- taking an update ---- */

static void take_vote(struct lq_group *group)
{
    uint64_t term;
    uint64_t voted_for;
    lq_rlog_vote(group->log, &term, &voted_for);
    if (term == raft_current_term(&group->raft) && voted_for == raft_voted_for(&group->raft)) {
        return; /* granted again: it is durable, or about to be */
    }
    lq_group_trace(group, LQ_TRACE_VOTE, raft_current_term(&group->raft), raft_voted_for(&group->raft));
    group->vote_sequence = lq_rlog_set_vote(group->log, raft_current_term(&group->raft), raft_voted_for(&group->raft));
}

static void sync_peers(struct lq_group *group)
{
    if (lq_group_sync_peers(group) != LIGHTQ_OK) {
        lq_group_fail(group, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory to lead", group->id);
    }
}

static void lead_begin(struct lq_group *group)
{
    group->leader_term = raft_current_term(&group->raft);
    group->barrier_index = 0;
    group->stalled = group->muted = false;
    group->failover_ms = LQ_NEVER;
    lq_group_drop_peers(group);
    lq_group_window_open(group);
    group->stall_since_ms = 0;
    lq_stall_durable(group);
    sync_peers(group);
    lq_log(INFO, "leads", "group", group->id, "term", group->leader_term);
}

static void lead_end(struct lq_group *group)
{
    group->leader_term = 0;
    group->barrier_index = 0;
    group->stalled = group->muted = false;
    group->timeout_now.type = 0;
    group->transfer_to = 0;
    group->transfer_tries = 0;
    lq_group_drop_peers(group);
}

static void take_state(struct lq_group *group, const struct raft_update *update)
{
    if ((update->flags & RAFT_UPDATE_STATE) != 0) {
        lq_group_trace(group, LQ_TRACE_STATE, group->raft.state, raft_current_term(&group->raft));
        lq_group_dirty(group);
    }
    if (lq_group_leads(group)) {
        if (group->leader_term != raft_current_term(&group->raft)) {
            lead_begin(group);
        } else if (group->peers_index != lq_group_configuration_index(group)) {
            sync_peers(group);
        }
    } else if (group->leader_term != 0) {
        lead_end(group);
        lq_group_dirty(group);
    }
}

static void take_commit(struct lq_group *group)
{
    /* libraft's may go back (replication.c:812); what was committed once stays so. */
    uint64_t index = raft_commit_index(&group->raft);
    if (index <= group->committed || group->failed != LIGHTQ_OK) { /* failed: what is stored may be another entry */
        return;
    }
    group->committed = index;
    lq_group_trace(group, LQ_TRACE_COMMIT, index, raft_current_term(&group->raft));
    lq_group_window_advance(group);
    lq_group_dirty(group);
}

static void take_update(struct lq_group *group, struct raft_update *update, const struct lq_step *step)
{
    take_state(group, update);
    if ((update->flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) != 0) {
        take_vote(group);
        if (group->raft.state == RAFT_CANDIDATE && !group->raft.candidate_state.in_pre_vote) {
            group->stood_words = group->words;
            group->stood_ms = group->host->now_ms;
        }
    }
    if ((update->flags & RAFT_UPDATE_ENTRIES) != 0) {
        take_entries(group, update, step);
    }
    if ((update->flags & RAFT_UPDATE_SNAPSHOT) != 0) {
        lq_install_take(group, update);
    }
    if (group->failed == LIGHTQ_OK && (update->flags & RAFT_UPDATE_MESSAGES) != 0) {
        for (unsigned i = 0; i < update->messages.n; i++) {
            if (lq_group_vote_pending(group)) {
                hold(group, &update->messages.batch[i]);
            } else {
                dispatch(group, &update->messages.batch[i]);
            }
        }
    }
    if ((update->flags & RAFT_UPDATE_COMMIT_INDEX) != 0) {
        take_commit(group);
    }
}

/* One event. What libraft refuses without having changed anything (@may_refuse) is the caller's; any other failure
 * means that what libraft holds and what is stored may differ: the group stops, with its term and vote kept. */
static int step(struct lq_group *group, struct raft_event *event, const struct lq_step *step_given, bool may_refuse)
{
    assert(!group->stepping && group->raft_open);
    uint64_t now = group->host->now_ms + group->shift_ms;
    group->step_ms = now > group->step_ms ? now : group->step_ms; /* never back (progress.c:149) */
    event->time = group->step_ms;
    event->capacity = CAPACITY;

    struct raft_update update;
    group->stepping = true;
    int code = raft_step(&group->raft, event, &update);
    group->stepping = false;
    if (code == 0) {
        take_update(group, &update, step_given);
        return 0;
    }
    if ((update.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) != 0) {
        take_vote(group);
    } else if (may_refuse &&
               (code == RAFT_NOTLEADER || code == RAFT_CANTCHANGE || code == RAFT_NOTFOUND || code == RAFT_BADID)) {
        return code;
    }
    lq_group_fail(group, lq_status_from_raft(code), "group %" PRIu64 ": libraft cannot go on: %s", group->id,
                  raft_strerror(code));
    return code;
}

/* ---- events ---- */

static bool may_step(const struct lq_group *group)
{
    return group->raft_open && group->failed == LIGHTQ_OK;
}

lightq_status lq_group_step_start(struct lq_group *group, struct raft_event *event)
{
    lq_group_trace(group, LQ_TRACE_START, event->start.term, lq_rlog_last(group->log));
    return lq_status_from_raft(step(group, event, NULL, false));
}

void lq_group_step_timeout(struct lq_group *group)
{
    if (may_step(group)) {
        lq_group_trace(group, LQ_TRACE_TIMEOUT, group->raft.state, raft_current_term(&group->raft));
        struct raft_event event = {.type = RAFT_TIMEOUT};
        (void)step(group, &event, NULL, false);
    }
}

void lq_group_step_receive(struct lq_group *group, struct raft_message *message, const struct lq_step *step_given)
{
    /* A disk that failed can store no term: only answers of our own term are worth anything now. */
    bool usable = may_step(group) || (group->phase == LQ_PHASE_FAILING && lq_group_leads(group) &&
                                      message->type == RAFT_APPEND_ENTRIES_RESULT &&
                                      message->append_entries_result.term == raft_current_term(&group->raft));
    if (!usable) {
        return;
    }
    static const char address[] = "peer"; /* libraft only keeps and compares it */
    message->server_address = address;
    lq_group_trace(group, LQ_TRACE_RECEIVE, message->type, message->server_id);
    struct raft_event event = {.type = RAFT_RECEIVE, .receive.message = message};
    (void)step(group, &event, step_given, false);
}

lightq_status lq_group_step_submit(struct lq_group *group, const struct lq_entry_ref *ref, enum lq_entry_type type)
{
    if (!may_step(group)) {
        return LIGHTQ_ESTOPPED;
    }
    struct raft_entry entry = {
        .term = raft_current_term(&group->raft), .type = (enum raft_entry_type)type, .batch = lq_raft_token()};
    if (type == LQ_ENTRY_CHANGE) {
        struct lq_entry decoded;
        uint64_t size;
        lightq_status status = lq_entry_decode(lq_entry_ref_bytes(ref), ref->size, false, &decoded, &size, NULL);
        if (status != LIGHTQ_OK) {
            return status;
        }
        entry.buf = (struct raft_buffer){.base = ref->slab->bytes + ref->offset + LQ_ENTRY_HEADER_BYTES,
                                         .len = decoded.payload_size};
    }
    struct lq_step given = {.entries = &entry, .refs = ref, .count = 1};
    struct raft_event event = {.type = RAFT_SUBMIT, .submit = {.entries = &entry, .n = 1}};
    int code = step(group, &event, &given, true);
    if (group->failed != LIGHTQ_OK) {
        return LIGHTQ_ESTOPPED;
    }
    return lq_status_from_raft(code);
}

lightq_status lq_group_step_transfer(struct lq_group *group, lq_replica_id to)
{
    if (!may_step(group)) {
        return LIGHTQ_ESTOPPED;
    }
    struct raft_event event = {.type = RAFT_TRANSFER, .transfer.server_id = to};
    return lq_status_from_raft(step(group, &event, NULL, true));
}

static lightq_status copy_configuration(const struct raft_configuration *from, struct raft_configuration *to)
{
    raft_configuration_init(to);
    for (unsigned i = 0; i < from->n; i++) {
        int code = raft_configuration_add(to, from->servers[i].id, from->servers[i].address, from->servers[i].role);
        if (code != 0) {
            raft_configuration_close(to);
            return lq_status_from_raft(code);
        }
    }
    return LIGHTQ_OK;
}

void lq_group_step_configuration(struct lq_group *group, uint64_t index)
{
    if (!may_step(group)) {
        return;
    }
    struct raft_event event = {.type = RAFT_CONFIGURATION, .configuration.index = index};
    if (copy_configuration(&group->raft.configuration, &event.configuration.conf) != LIGHTQ_OK) {
        lq_group_fail(group, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory for its configuration", group->id);
        return;
    }
    lq_group_trace(group, LQ_TRACE_CHANGE, index, event.configuration.conf.n);
    (void)step(group, &event, NULL, false);
    group->servers_changed = true;
    lq_group_dirty(group);
}

static bool fill_metadata(struct lq_group *group, const struct lq_checkpoint *checkpoint,
                          struct raft_snapshot_metadata *metadata)
{
    *metadata = (struct raft_snapshot_metadata){.index = checkpoint->last_index,
                                                .term = checkpoint->last_term,
                                                .configuration_index = checkpoint->configuration_index};
    lightq_status status =
        lq_servers_configuration(checkpoint->configuration, checkpoint->configuration_size, &metadata->configuration);
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": the configuration of checkpoint %" PRIu64 " cannot be read",
                      group->id, checkpoint->last_index);
        return false;
    }
    return true;
}

void lq_group_step_snapshot(struct lq_group *group, const struct lq_checkpoint *checkpoint)
{
    struct raft_event event = {.type = RAFT_SNAPSHOT, .snapshot.trailing = 0};
    if (may_step(group) && fill_metadata(group, checkpoint, &event.snapshot.metadata)) {
        (void)step(group, &event, NULL, false);
    }
}

void lq_group_step_installed(struct lq_group *group, const struct lq_checkpoint *checkpoint)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT, .persisted_snapshot.last = true};
    if (may_step(group) && fill_metadata(group, checkpoint, &event.persisted_snapshot.metadata)) {
        (void)step(group, &event, NULL, false);
        group->servers_changed = true;
    }
}

/* ---- following up ---- */

/* Rule 5: an entry of the leader's own term must be committed before it may stamp anything. libraft adds one only when
 * something is uncommitted (convert.c:181). */
static bool submit_barrier(struct lq_group *group)
{
    struct lq_entry_ref ref;
    if (lq_group_make_entry(group, LQ_ENTRY_BARRIER, NULL, 0, &ref) != LIGHTQ_OK) {
        lq_group_dirty(group); /* again in the next turn */
        return false;
    }
    uint64_t index = lq_rlog_last(group->log) + 1;
    lightq_status status = lq_group_step_submit(group, &ref, LQ_ENTRY_BARRIER);
    lq_slab_unref(ref.slab);
    if (status == LIGHTQ_OK && lq_group_leads(group)) {
        group->barrier_index = index;
    }
    return status == LIGHTQ_OK;
}

static bool configuration_committed(const struct lq_group *group)
{
    uint64_t index = group->raft.configuration_uncommitted_index;
    return index != 0 && index <= group->committed;
}

void lq_group_settle(struct lq_group *group)
{
    assert(!group->stepping);
    while (group->failed == LIGHTQ_OK && group->phase == LQ_PHASE_RUNNING) {
        if (configuration_committed(group)) {
            lq_group_step_configuration(group, group->raft.configuration_uncommitted_index);
        } else if (!lq_group_leads(group) || group->barrier_index != 0 || !submit_barrier(group)) {
            break;
        }
    }
    if (group->failed != LIGHTQ_OK) {
        lq_group_fail_settle(group);
    }
    lq_host_rearm(group);
}

/* ---- the log's events ---- */

static void on_durable(void *owner, uint64_t index)
{
    (void)index; /* lq_rlog_durable has it, with what was cut meanwhile */
    struct lq_group *group = owner;
    lq_group_dirty(group);
}

static void on_voted(void *owner, uint64_t sequence)
{
    struct lq_group *group = owner;
    group->vote_durable = sequence > group->vote_durable ? sequence : group->vote_durable;
    lq_group_dirty(group);
}

static void on_installed(void *owner, uint64_t last_index)
{
    struct lq_group *group = owner;
    group->installed = last_index;
    lq_group_dirty(group);
}

static void on_failed(void *owner, lightq_status status, const struct lq_err *err)
{
    struct lq_group *group = owner;
    lq_group_fail(group, status, "group %" PRIu64 ": its log failed: %s", group->id, err == NULL ? "" : err->text);
}

const struct lq_rlog_events lq_group_log_events = {
    .durable = on_durable,
    .voted = on_voted,
    .installed = on_installed,
    .failed = on_failed,
};

/* ---- a turn ---- */

/* Rule 1 and rule 3: only what the log says is durable, only while no vote waits, and of what is still there. */
static void take_durable(struct lq_group *group)
{
    if (group->phase != LQ_PHASE_RUNNING || group->failed != LIGHTQ_OK || lq_group_vote_pending(group) ||
        lq_group_installing(group)) {
        return;
    }
    uint64_t index = lq_rlog_durable(group->log);
    uint64_t last = lq_rlog_last(group->log);
    index = index < last ? index : last;
    if (index <= group->raft.last_stored || raft_last_index(&group->raft) < index) {
        return;
    }
    lq_stall_durable(group);
    lq_group_trace(group, LQ_TRACE_DURABLE, index, raft_current_term(&group->raft));
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES, .persisted_entries.index = index};
    (void)step(group, &event, NULL, false);
    lq_group_dirty(group);
}

static lq_replica_id leader_of(const struct lq_group *group)
{
    return group->raft.state == RAFT_FOLLOWER ? group->raft.follower_state.current_leader.id : 0;
}

/* Tells the machine who leads. lead() comes only once the barrier of the term is applied. */
static void tell_role(struct lq_group *group)
{
    if (group->phase != LQ_PHASE_RUNNING || group->failed != LIGHTQ_OK || group->closed) {
        return;
    }
    uint64_t term = raft_current_term(&group->raft);
    if (lq_group_leads(group)) {
        if (group->told_lead != term && group->barrier_index != 0 && group->applied >= group->barrier_index) {
            group->told_lead = term;
            group->told_follow = false;
            lq_group_trace(group, LQ_TRACE_LEAD, term, group->barrier_index);
            group->ops->lead(group->machine, term);
        }
        return;
    }
    lq_replica_id leader = leader_of(group);
    if (group->told_follow && group->told_leader == leader && group->told_term == term) {
        return;
    }
    group->told_lead = 0;
    group->told_follow = true;
    group->told_leader = leader;
    group->told_term = term;
    lq_group_trace(group, LQ_TRACE_FOLLOW, term, leader);
    group->ops->follow(group->machine, leader, term);
}

static void tell_servers(struct lq_group *group)
{
    if (!group->servers_changed || group->closed || group->phase != LQ_PHASE_RUNNING) {
        return;
    }
    group->servers_changed = false;
    if (group->ops->servers != NULL && group->raft.configuration_committed.n != 0) {
        struct lq_servers servers;
        lq_servers_of(&group->raft.configuration_committed, &servers);
        group->ops->servers(group->machine, &servers);
    }
}

static void tell_stopped(struct lq_group *group)
{
    if (group->phase == LQ_PHASE_STOPPED && !group->told_stopped && !group->closed) {
        group->told_stopped = true;
        group->ops->stopped(group->machine, group->failed, &group->failed_err);
    }
}

void lq_group_turn(struct lq_group *group)
{
    assert(!group->in_turn);
    group->in_turn = true;
    if (group->phase == LQ_PHASE_OPENING && group->failed == LIGHTQ_OK) {
        lq_group_open_turn(group);
    }
    if (group->phase == LQ_PHASE_RUNNING || group->phase == LQ_PHASE_FAILING) {
        release_held(group);
        take_durable(group);
        lq_install_turn(group);
        lq_group_settle(group);
        tell_role(group);
        lq_apply_turn(group);
        lq_group_settle(group);
        tell_role(group);
        tell_servers(group);
    }
    if (!group->closed && (group->phase == LQ_PHASE_RUNNING || group->phase == LQ_PHASE_FAILING)) {
        lq_apply_trim(group);
        lq_feed_flush(group);
        lq_install_flush(group);
    }
    if (!group->closed) {
        lq_group_settle(group);
        tell_stopped(group);
    }
    group->in_turn = false;
    if (group->closed) {
        lq_group_free(group);
    }
}
