/* raft/start.c - how a group begins: from what the store has, from a bootstrap configuration, or empty. Called by
 * host.h's users (lq_group_open) and by the turn.
 *
 * Nothing may be said before what RAFT_START is given is durable: the founders' first entry, and, for a sole voter, the
 * vote it gives itself (it is elected without raising the term, raft.c:244, so each of its starts takes a new one).
 * Until then the group is OPENING and drops what it receives. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "raft/group.h"
#include "raft/start_array.h"

/* A founder's first entry: the same bytes on every founder. */
static lightq_status append_bootstrap(struct lq_group *group, const struct lq_servers *servers, struct lq_err *err)
{
    void *payload;
    size_t size;
    lightq_status status = lq_servers_encode(servers, &payload, &size);
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status, "group %" PRIu64 ": its first configuration is not valid", group->id);
    }
    struct lq_entry entry = {
        .group = group->id, .index = 1, .term = 1, .type = LQ_ENTRY_CHANGE, .payload_size = (uint32_t)size};
    uint32_t entry_size = (uint32_t)lq_entry_size(size);
    struct lq_slab *slab = lq_slab_new(entry_size);
    if (slab == NULL) {
        raft_free(payload);
        return lq_err_set(err, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory for its first entry", group->id);
    }
    memcpy(slab->bytes + LQ_ENTRY_HEADER_BYTES, payload, size);
    raft_free(payload);
    lq_entry_seal(slab->bytes, &entry);
    struct lq_entry_ref ref = {.slab = slab, .size = entry_size};
    status = lq_rlog_append(group->log, &ref, 1);
    lq_slab_unref(slab);
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status, "group %" PRIu64 ": cannot append its first entry", group->id);
    }
    lq_group_take_tail(group, &entry);
    group->fresh = servers->at[0].id == group->self;
    return LIGHTQ_OK;
}

/* Nothing was ever voted or acknowledged here: a founder may still write its first entry (it crashed before that was
 * durable). Term 1 alone is what an earlier attempt left. */
static bool may_bootstrap(const struct lq_group *group)
{
    uint64_t term;
    uint64_t voted_for;
    lq_rlog_vote(group->log, &term, &voted_for);
    return lq_rlog_first(group->log) == 1 && lq_rlog_last(group->log) == 0 && term <= 1 && voted_for == 0;
}

/* The configuration that libraft will go by: the newest in the log, else the first checkpoint's. */
static bool newest_configuration(struct lq_group *group, struct lq_servers *servers)
{
    const struct lq_rlog_change *changes;
    size_t count = lq_rlog_changes(group->log, &changes);
    struct lq_checkpoint first;
    if (count != 0) {
        return lq_rpc_check_configuration(changes[count - 1].payload, changes[count - 1].payload_size, servers, NULL) ==
               LIGHTQ_OK;
    }
    if (lq_rlog_first_checkpoint(group->log, &first)) {
        return lq_rpc_check_configuration(first.configuration, first.configuration_size, servers, NULL) == LIGHTQ_OK;
    }
    servers->count = 0;
    return true;
}

/* The term is at least that of the log's end; a sole voter takes a new one, with its own vote. */
static lightq_status prepare_vote(struct lq_group *group, struct lq_err *err)
{
    uint64_t term;
    uint64_t voted_for;
    uint64_t last = lq_rlog_last(group->log);
    uint64_t last_term = last == 0 ? 0 : lq_rlog_term_at(group->log, last);
    struct lq_servers servers;
    lq_rlog_vote(group->log, &term, &voted_for);
    if (!newest_configuration(group, &servers)) {
        return lq_err_set(err, LIGHTQ_EDAMAGED, "group %" PRIu64 ": the configuration in its log cannot be read",
                          group->id);
    }
    if (term < last_term) {
        term = last_term;
        voted_for = 0;
    }
    if (lq_servers_sole_voter(&servers, group->self)) {
        term++;
        voted_for = group->self;
    }
    uint64_t stored_term;
    uint64_t stored_vote;
    lq_rlog_vote(group->log, &stored_term, &stored_vote);
    if (term != stored_term || voted_for != stored_vote) {
        group->vote_sequence = lq_rlog_set_vote(group->log, term, voted_for);
    }
    return LIGHTQ_OK;
}

static lightq_status find_log(struct lq_host *host, uint64_t id, uint32_t incarnation, struct lq_rlog **log,
                              struct lq_err *err)
{
    *log = lq_store_find(host->store, id);
    if (*log != NULL && lq_rlog_incarnation(*log) < incarnation) {
        /* The catalog has replaced that replica by this one: it was taken out of the group before. What it has is kept
         * until this one has as much. */
        lq_log(WARN, "replica replaced by a newer incarnation", "group", id, "old", lq_rlog_incarnation(*log), "new",
               incarnation);
        lightq_status status = lq_rlog_set_aside(*log, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        *log = NULL;
    }
    if (*log == NULL) {
        lightq_status status = lq_rlog_create(host->store, id, incarnation, log, err);
        if (status == LIGHTQ_ECONFLICT) {
            return lq_err_set(err, LIGHTQ_EDAMAGED,
                              "group %" PRIu64 ": the journal knows replica incarnation %" PRIu32
                              " or a later one, but its log is not here: it must be rebuilt under a new incarnation",
                              id, incarnation);
        }
        return status;
    }
    if (lq_rlog_incarnation(*log) > incarnation) {
        return lq_err_set(err, LIGHTQ_EDAMAGED,
                          "group %" PRIu64 ": incarnation %" PRIu32 " is here, newer than %" PRIu32 " as asked for", id,
                          lq_rlog_incarnation(*log), incarnation);
    }
    if (lq_rlog_health(*log) != LQ_RLOG_HEALTHY) {
        return lq_err_set(err, LIGHTQ_EDAMAGED, "group %" PRIu64 ": %s", id, lq_rlog_health_text(*log));
    }
    return LIGHTQ_OK;
}

static void know_tail(struct lq_group *group)
{
    struct lq_checkpoint first;
    if (group->tail_known || lq_rlog_last(group->log) >= lq_rlog_first(group->log)) {
        return;
    }
    if (lq_rlog_first_checkpoint(group->log, &first)) {
        group->tail_offset = first.next_offset;
        group->tail_timestamp_ms = first.timestamp_ms;
    }
    group->tail_known = true;
}

lightq_status lq_group_open(struct lq_host *host, uint64_t id, uint32_t incarnation, const struct lq_servers *bootstrap,
                            const struct lq_machine_ops *ops, void *machine, struct lq_group **out, struct lq_err *err)
{
    struct lq_group *group;
    HASH_FIND(hh, host->groups, &id, sizeof id, group);
    if (group != NULL) {
        return lq_err_set(err, LIGHTQ_EEXISTS, "group %" PRIu64 " is open already", id);
    }
    struct lq_rlog *log;
    lightq_status status = find_log(host, id, incarnation, &log, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    group = calloc(1, sizeof *group);
    if (group == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory", id);
    }
    group->host = host;
    group->id = id;
    group->self = lq_replica_make(host->node, incarnation);
    group->ops = ops;
    group->machine = machine;
    group->log = log;
    group->failover_ms = group->retry_ms = LQ_NEVER;
    status = lq_apply_load(group, err);
    if (status == LIGHTQ_OK && bootstrap != NULL && may_bootstrap(group)) {
        status = append_bootstrap(group, bootstrap, err);
    }
    if (status == LIGHTQ_OK) {
        status = prepare_vote(group, err);
    }
    if (status == LIGHTQ_OK && lq_host_remember(group) != LIGHTQ_OK) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "group %" PRIu64 ": no memory", id);
    }
    if (status != LIGHTQ_OK) {
        free(group->configuration);
        free(group);
        return status;
    }
    know_tail(group);
    lq_host_now(host);
    lq_rlog_set_events(log, &lq_group_log_events, group);
    lq_group_dirty(group);
    *out = group;
    return LIGHTQ_OK;
}

/* ---- from OPENING to RUNNING ---- */

static void on_tail_read(struct lq_group *group, struct lq_read *read, lightq_status status)
{
    struct lq_entry entry;
    uint64_t size;
    group->tail_read = NULL;
    if (status == LIGHTQ_OK) {
        status = lq_entry_decode(lq_entry_ref_bytes(&read->read.refs[0]), read->read.refs[0].size, false, &entry, &size,
                                 NULL);
    }
    lq_group_dirty(group);
    if (status == LIGHTQ_ENOMEM) {
        return; /* read again in the next turn */
    }
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": the last entry of its log cannot be read", group->id);
        return;
    }
    lq_group_take_tail(group, &entry);
}

/* The last entry's header says what offset and time the next one has. */
static void read_tail(struct lq_group *group)
{
    struct lq_entry_ref ref;
    struct lq_entry entry;
    uint64_t size;
    uint64_t last = lq_rlog_last(group->log);
    if (group->tail_read != NULL) {
        return;
    }
    if (lq_rlog_peek(group->log, last, 1, 1, &ref) == 1) {
        lightq_status status = lq_entry_decode(lq_entry_ref_bytes(&ref), ref.size, false, &entry, &size, NULL);
        if (status == LIGHTQ_OK) {
            lq_group_take_tail(group, &entry);
        }
        lq_slab_unref(ref.slab);
        if (status == LIGHTQ_OK) {
            return;
        }
    }
    lightq_status status = lq_host_read(group, last, 1, 0, on_tail_read, &group->tail_read);
    if (status == LIGHTQ_ENOMEM || status == LIGHTQ_EBUSY) {
        group->retry_ms = group->host->now_ms + group->host->tick_ms;
    } else if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": the last entry of its log cannot be read", group->id);
    }
}

static lightq_status init_raft(struct lq_group *group)
{
    struct lq_host *host = group->host;
    memset(&group->raft, 0, sizeof group->raft);
    if (raft_init(&group->raft, NULL, NULL, group->self, "self") != 0) {
        return LIGHTQ_ENOMEM;
    }
    group->raft_open = true;
    group->raft.tracer = NULL; /* the default one formats every event into a static buffer */
    raft_seed(&group->raft, (unsigned)lq_clock_random_u64(host->clock));
    raft_set_pre_vote(&group->raft, true);
    raft_set_election_timeout(&group->raft, host->election_ms);
    raft_set_heartbeat_timeout(&group->raft, host->heartbeat_ms);
    raft_set_install_snapshot_timeout(&group->raft, LQ_INSTALL_TIMEOUT_MS);
    raft_set_max_inflight_entries(&group->raft, LQ_INFLIGHT_ENTRIES_START);
    return LIGHTQ_OK;
}

static lightq_status make_array(struct lq_rlog *log, struct lq_start_array *array)
{
    const struct lq_rlog_run *runs;
    const struct lq_rlog_change *changes;
    size_t run_count = lq_rlog_runs(log, &runs);
    size_t change_count = lq_rlog_changes(log, &changes);
    return lq_start_array_fill(lq_rlog_first(log), lq_rlog_last(log), runs, run_count, changes, change_count,
                               LQ_START_MAP_FROM_ENTRIES, array);
}

static lightq_status step_start(struct lq_group *group)
{
    struct lq_start_array array;
    struct lq_checkpoint first;
    struct raft_snapshot_metadata metadata = {.index = 0};
    struct raft_event event = {.type = RAFT_START};
    uint64_t term;
    uint64_t voted_for;
    lq_rlog_vote(group->log, &term, &voted_for);
    event.start.term = term;
    event.start.voted_for = voted_for;
    event.start.start_index = lq_rlog_first(group->log);
    lightq_status status = make_array(group->log, &array);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (lq_rlog_first_checkpoint(group->log, &first)) {
        metadata.index = first.last_index;
        metadata.term = first.last_term;
        metadata.configuration_index = first.configuration_index;
        status = lq_servers_configuration(first.configuration, first.configuration_size, &metadata.configuration);
        if (status != LIGHTQ_OK) {
            lq_start_array_free(&array, false);
            return status;
        }
        event.start.metadata = &metadata; /* libraft takes its configuration */
    }
    event.start.entries = array.entries;
    event.start.n_entries = array.count;
    status = lq_group_step_start(group, &event);
    lq_start_array_free(&array, status != LIGHTQ_OK);
    return status;
}

void lq_group_open_turn(struct lq_group *group)
{
    if (lq_group_vote_pending(group) || lq_rlog_durable(group->log) < lq_rlog_last(group->log)) {
        return;
    }
    if (!group->tail_known) {
        read_tail(group);
        if (!group->tail_known) {
            return;
        }
    }
    lightq_status status = init_raft(group);
    if (status == LIGHTQ_OK) {
        /* What a checkpoint holds is committed, and so is what the leader that made our last entry said of it: our log
         * is that leader's up to there (Raft, Log Matching). Without this a node knows no catalog until a leader speaks
         * with it, and would know the nodes that were replaced only by what they were. */
        group->committed = group->applied > group->tail_commit ? group->applied : group->tail_commit;
        group->phase = LQ_PHASE_RUNNING;
        status = step_start(group);
    }
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": cannot be started from its log", group->id);
        return;
    }
    group->servers_changed = true;
    if (group->fresh && group->raft.state == RAFT_FOLLOWER) {
        /* Nobody leads a new group: its first founder need not wait out an election timeout. */
        group->failover_ms = group->host->now_ms;
        group->failover_tries = LQ_FAILOVER_TRIES_MAX;
        group->failover_node = 0;
    }
}
