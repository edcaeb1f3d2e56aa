/* raft/watch.c - what time does to a group: libraft's timeouts with the leader's own rule, fast failover, transfers
 * that are watched, stalled and failed disks. Called by host.c's tick, and where such things begin. Times are the
 * host's monotonic milliseconds; libraft's are shift_ms ahead, which only ever grows. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/base/log.h"
#include "raft/group.h"
#include "raft/rpc_check.h"

#define SILENCE_SPREAD_SHARE 3 /* of libraft's spread of timeouts, what followers of a silent leader use */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- when a group is due ---- */

/* Heartbeats to all followers in one go, as long as none is left out for two: libraft's own rule lets them drift apart,
 * and each of its timeouts marks those that have not just answered as unreachable (timeout.c:120). */
static uint64_t leader_due(const struct lq_group *group)
{
    const struct lq_host *host = group->host;
    uint64_t due = group->raft.election_timer_start + group->raft.election_timeout;
    uint64_t oldest = LQ_NEVER;
    uint64_t newest = 0;
    for (unsigned i = 0; i < group->peer_count; i++) {
        const struct lq_group_peer *peer = &group->peers[i];
        if (peer->replicates) {
            oldest = least(oldest, peer->emitted_ms);
            newest = peer->emitted_ms > newest ? peer->emitted_ms : newest;
        }
    }
    if (oldest != LQ_NEVER) {
        due = least(due, least(newest + host->heartbeat_ms, oldest + 2ull * host->heartbeat_ms));
    }
    return due;
}

/* It stands for election in earnest, and nobody has said anything since: it is cut off, or they are. */
static bool stands_unheard(const struct lq_group *group)
{
    return group->raft.state == RAFT_CANDIDATE && !group->raft.candidate_state.in_pre_vote &&
           group->words == group->stood_words;
}

/* libraft gives a silent leader up after one to two election timeouts, at random, each follower by itself, and no
 * follower votes before it has: the last one of all groups that have lost a node would take twice the timeout. Here the
 * spread is a third of that, still much longer than an election takes. */
static uint64_t follower_due(const struct lq_group *group)
{
    uint64_t due = raft_timeout(&group->raft);
    uint64_t first = group->raft.election_timer_start + group->host->election_ms;
    bool has_leader = group->raft.state == RAFT_FOLLOWER && group->raft.follower_state.current_leader.id != 0;
    return has_leader && due > first ? first + (due - first) / SILENCE_SPREAD_SHARE : due;
}

static uint64_t raft_due(const struct lq_group *group)
{
    if (stands_unheard(group)) {
        return group->stood_ms + group->host->election_ms;
    }
    uint64_t due = lq_group_leads(group) ? leader_due(group) : follower_due(group);
    return due > group->shift_ms ? due - group->shift_ms : 0;
}

static bool transferring(const struct lq_group *group)
{
    return lq_group_leads(group) && group->raft.leader_state.transferee != 0;
}

static uint64_t stall_due(const struct lq_group *group)
{
    if (!lq_group_leads(group) || group->stall_since_ms == 0 || group->peer_count == 0 || group->muted) {
        return LQ_NEVER;
    }
    return group->stalled ? group->stalled_at_ms + group->host->election_ms
                          : group->stall_since_ms + group->host->stall_ms;
}

uint64_t lq_group_due(const struct lq_group *group)
{
    const struct lq_host *host = group->host;
    if (group->phase == LQ_PHASE_FAILING) {
        return least(group->failing_until_ms, group->timeout_now_ms + host->heartbeat_ms);
    }
    if (group->phase == LQ_PHASE_OPENING && group->failed == LIGHTQ_OK) {
        return group->retry_ms;
    }
    if (group->phase != LQ_PHASE_RUNNING || group->failed != LIGHTQ_OK) {
        return LQ_NEVER;
    }
    uint64_t due = least(raft_due(group), least(least(group->failover_ms, group->retry_ms), stall_due(group)));
    if (group->timeout_now.type != 0) {
        due = least(due, group->timeout_now_ms + host->heartbeat_ms);
    }
    if (group->receiving != NULL) {
        due = least(due, group->receiving->last_ms + LQ_INSTALL_TIMEOUT_MS);
    }
    return due;
}

/* ---- fast failover ---- */

/* At random, so that few stand at the same time. */
static void plan_failover(struct lq_group *group)
{
    struct lq_host *host = group->host;
    uint64_t least_ms = group->failover_patient ? host->heartbeat_ms : host->failover_min_ms;
    uint64_t most_ms = group->failover_patient ? 3ull * host->heartbeat_ms : host->failover_max_ms;
    group->failover_ms = host->now_ms + least_ms + lq_clock_random_below(host->clock, most_ms - least_ms + 1);
}

void lq_group_link_down(struct lq_group *group, uint32_t node, bool refused)
{
    struct lq_host *host = group->host;
    for (unsigned i = 0; i < group->peer_count; i++) {
        if (lq_replica_node(group->peers[i].id) == node) {
            lq_feed_drop(&group->peers[i]);
            lq_install_drop(&group->peers[i]);
            if (refused) {
                group->peers[i].heard_ms = 0; /* what is there next has not spoken yet */
            }
        }
    }
    /* Refused or reset: its process is gone. What is only silent is found out by timeout. */
    if (!refused || !host->fast_failover || host->draining || group->phase != LQ_PHASE_RUNNING ||
        group->raft.state != RAFT_FOLLOWER || lq_replica_node(group->raft.follower_state.current_leader.id) != node) {
        return;
    }
    group->leader_heard_ms = 0;
    group->failover_tries = LQ_FAILOVER_TRIES_MAX;
    group->failover_node = node;
    group->failover_patient = false;
    plan_failover(group);
    lq_host_rearm(group);
}

/* A candidate whose election came to nothing (others had not given the leader up yet, or it was behind) need not wait
 * out another timeout. */
static void retry_soon(struct lq_group *group)
{
    if (group->failover_ms == LQ_NEVER) {
        group->failover_tries = LQ_FAILOVER_TRIES_MAX;
        group->failover_node = 0;
        group->failover_patient = true;
        plan_failover(group);
    }
}

static bool failover_still_wanted(const struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (group->failover_tries == 0 || lq_group_leads(group) || stands_unheard(group) ||
        (group->failover_node != 0 && lq_host_connected(host, group->failover_node))) {
        return false;
    }
    /* Each further one after a won pre-vote raises the term: a few are worth it, after a split vote. */
    if (group->failover_patient && group->failover_tries <= LQ_FAILOVER_TRIES_MAX - LQ_FAILOVER_SPLITS_MAX &&
        !(group->raft.state == RAFT_CANDIDATE && group->raft.candidate_state.in_pre_vote)) {
        return false;
    }
    lq_replica_id leader = group->raft.state == RAFT_FOLLOWER ? group->raft.follower_state.current_leader.id : 0;
    return leader == 0 || lq_replica_node(leader) == group->failover_node;
}

/* Makes the clock of a group that does not lead jump to its election timeout. */
static void jump_to_timeout(struct lq_group *group)
{
    uint64_t now = group->host->now_ms + group->shift_ms;
    uint64_t timeout = raft_timeout(&group->raft);
    if (timeout > now) {
        group->shift_ms += timeout - now;
    }
    lq_group_step_timeout(group);
}

/* Others vote for it only when they have lost the leader too (pre-vote), so it tries again a few times. */
static void failover(struct lq_group *group)
{
    group->failover_ms = LQ_NEVER;
    if (!failover_still_wanted(group)) {
        return;
    }
    group->failover_tries--;
    jump_to_timeout(group);
    if (group->failed == LIGHTQ_OK && failover_still_wanted(group)) {
        plan_failover(group);
    }
}

/* ---- transfer ---- */

static bool heard_lately(const struct lq_group *group, const struct lq_group_peer *peer)
{
    return peer->heard_ms != 0 && group->host->now_ms - peer->heard_ms < group->host->election_ms;
}

/* The voter that has most of the log; 0 when none has answered lately. */
static lq_replica_id best_successor(const struct lq_group *group, uint64_t *match_out)
{
    lq_replica_id best = 0;
    uint64_t best_match = 0;
    for (unsigned i = 0; i < group->peer_count; i++) {
        const struct lq_group_peer *peer = &group->peers[i];
        const struct raft_server *server = lq_configuration_find(&group->raft.configuration, peer->id);
        raft_index match = 0;
        if (server == NULL || server->role != RAFT_VOTER || !heard_lately(group, peer) ||
            raft_match_index(&group->raft, peer->id, &match) != 0) {
            continue;
        }
        if (best == 0 || match > best_match) {
            best = peer->id;
            best_match = match;
        }
    }
    *match_out = best_match;
    return best;
}

lightq_status lq_group_transfer(struct lq_group *group, lq_replica_id to)
{
    uint64_t match;
    lq_host_now(group->host);
    if (group->phase != LQ_PHASE_RUNNING || group->failed != LIGHTQ_OK || !lq_group_leads(group)) {
        return LIGHTQ_ENOTLEADER;
    }
    if (transferring(group)) {
        return LIGHTQ_ECONFLICT;
    }
    lq_replica_id chosen = to != 0 ? to : best_successor(group, &match);
    struct lq_group_peer *peer = lq_group_peer(group, chosen);
    const struct raft_server *server = lq_configuration_find(&group->raft.configuration, chosen);
    if (peer == NULL || server == NULL || server->role != RAFT_VOTER || !heard_lately(group, peer)) {
        return LIGHTQ_EUNAVAILABLE;
    }
    /* Until it has the whole log nothing can be proposed: one that has just come back catches up first. */
    raft_index has = 0;
    if (raft_match_index(&group->raft, chosen, &has) != 0 || has + LQ_PROMOTE_LAG_ENTRIES < lq_rlog_last(group->log)) {
        return LIGHTQ_EBUSY;
    }
    group->transfer_to = to;
    group->transfer_tries = LQ_TRANSFER_TRIES_MAX;
    lightq_status status = lq_group_step_transfer(group, chosen);
    if (status == LIGHTQ_OK) {
        lq_log(INFO, "leadership is handed over", "group", group->id, "term", raft_current_term(&group->raft));
    }
    lq_group_settle(group);
    lq_group_dirty(group);
    return status == LIGHTQ_OK ? LIGHTQ_OK : LIGHTQ_EUNAVAILABLE;
}

/* libraft sends TimeoutNow once: should it be lost, nothing would happen for an election timeout. */
void lq_group_transfer_sent(struct lq_group *group, const struct raft_message *message)
{
    group->timeout_now = *message;
    group->timeout_now.server_address = NULL;
    group->timeout_now_ms = group->host->now_ms;
}

static void watch_transfer(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (transferring(group)) {
        if (group->timeout_now.type != 0 && host->now_ms - group->timeout_now_ms >= host->heartbeat_ms) {
            group->timeout_now_ms = host->now_ms;
            lq_host_message(group, &group->timeout_now);
        }
        return;
    }
    group->timeout_now.type = 0;
    if (group->transfer_tries == 0 || !lq_group_leads(group)) {
        return;
    }
    uint64_t match;
    group->transfer_tries--;
    lq_replica_id to = group->transfer_to != 0 ? group->transfer_to : best_successor(group, &match);
    if (to == 0 || lq_group_step_transfer(group, to) != LIGHTQ_OK) {
        return; /* whoever asked sees who leads */
    }
}

/* ---- a stalled disk ---- */

void lq_stall_appended(struct lq_group *group)
{
    if (group->stall_since_ms == 0) {
        group->stall_index = lq_rlog_durable(group->log) + 1;
        group->stall_since_ms = group->host->now_ms + 1; /* 0 means none */
    }
}

/* Something became durable, or was cut. A disk that moves on, however slowly, does not hang. */
void lq_stall_durable(struct lq_group *group)
{
    uint64_t durable = lq_rlog_durable(group->log);
    if (group->stall_since_ms != 0 && durable < group->stall_index) {
        return;
    }
    group->stall_index = durable + 1;
    group->stall_since_ms = durable < lq_rlog_last(group->log) ? group->host->now_ms + 1 : 0;
    group->stalled = group->muted = false;
}

/* A leader that stores nothing would go on leading through the others. It hands over; should that not work within an
 * election timeout, it falls silent, so that the others elect and libraft steps down for want of answers. */
static void watch_stall(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (host->now_ms < stall_due(group)) {
        return;
    }
    if (group->stalled) {
        group->muted = true;
        for (unsigned i = 0; i < group->peer_count; i++) {
            lq_feed_drop(&group->peers[i]);
            lq_install_drop(&group->peers[i]);
        }
        return;
    }
    uint64_t match;
    lq_replica_id to = best_successor(group, &match);
    if (to == 0) {
        group->stall_since_ms = host->now_ms + 1; /* nobody could take over: look again later */
        return;
    }
    group->stalled = true;
    group->stalled_at_ms = host->now_ms;
    host->counters.stalls++;
    lq_log(WARN, "the disk has stored nothing for too long: handing leadership over", "group", group->id, "index",
           group->stall_index, "to", to);
    lq_group_trace(group, LQ_TRACE_STALL, group->stall_index, lq_rlog_last(group->log));
    group->transfer_tries = 0;
    if (!transferring(group) && lq_group_step_transfer(group, to) != LIGHTQ_OK) {
        group->muted = true;
    }
}

/* ---- a failed disk, and every other end ---- */

void lq_group_fail(struct lq_group *group, lightq_status status, const char *format, ...)
{
    if (group->failed != LIGHTQ_OK || group->closed) {
        return;
    }
    va_list args;
    va_start(args, format);
    group->failed = status;
    group->failed_err.status = status;
    vsnprintf(group->failed_err.text, sizeof group->failed_err.text, format, args);
    va_end(args);
    group->host->counters.groups_failed++;
    lq_log(ERROR, "this replica stops", "group", group->id, "status", lightq_status_name(status), "why",
           group->failed_err.text);
    lq_group_dirty(group);
}

/* Whether the other voters that are heard from are a majority. */
static bool can_be_spared(const struct lq_group *group)
{
    struct lq_group_status status;
    unsigned voters = 0;
    unsigned others = 0;
    lq_group_status(group, &status);
    for (unsigned i = 0; i < status.replica_count; i++) {
        const struct lq_replica_status *server = &status.replicas[i];
        bool is_voter = server->role == LQ_ROLE_VOTER;
        voters += is_voter;
        others += is_voter && server->id != group->self && server->online && !server->lost_data;
    }
    return others > voters / 2;
}

void lq_group_unreadable(struct lq_group *group, lightq_status status, uint64_t index)
{
    if (can_be_spared(group) || !lq_group_leads(group)) {
        lq_group_fail(group, status, "group %" PRIu64 ": entries from %" PRIu64 " on cannot be read", group->id, index);
    } else if (lq_group_transfer(group, 0) == LIGHTQ_OK) {
        lq_log(ERROR, "entries cannot be read: leadership is handed over", "group", group->id, "index", index, "status",
               lightq_status_name(status));
    }
}

static void stop_now(struct lq_group *group)
{
    lq_group_trace(group, LQ_TRACE_STOP, group->failed, group->raft_open ? raft_current_term(&group->raft) : 0);
    lq_group_drop_peers(group);
    lq_install_forget(group);
    lq_apply_forget_ready(group);
    group->leader_term = 0;
    group->phase = LQ_PHASE_STOPPED;
    if (group->raft_open) {
        group->raft_open = false;
        raft_close(&group->raft, NULL);
    }
    lq_group_dirty(group);
}

/* Asks the best follower to stand for election at once. Not by RAFT_TRANSFER: that waits until the follower has the
 * whole log, which this disk may never give. Safety is the voters': they compare logs. */
static void ask_successor(struct lq_group *group)
{
    uint64_t match;
    lq_replica_id to = best_successor(group, &match);
    uint64_t term = to == 0 || match == 0 ? 0 : lq_rlog_term_at(group->log, match);
    group->timeout_now_ms = group->host->now_ms;
    if (term == 0) {
        return;
    }
    struct raft_message message = {.type = RAFT_TIMEOUT_NOW, .server_id = to};
    message.timeout_now = (struct raft_timeout_now){
        .version = 0, .term = raft_current_term(&group->raft), .last_log_index = match, .last_log_term = term};
    lq_host_message(group, &message);
}

void lq_group_fail_settle(struct lq_group *group)
{
    if (group->phase == LQ_PHASE_STOPPED || group->phase == LQ_PHASE_FAILING) {
        return;
    }
    if (group->phase == LQ_PHASE_RUNNING && lq_group_leads(group) && group->peer_count != 0 &&
        !lq_group_vote_pending(group)) {
        group->phase = LQ_PHASE_FAILING;
        group->failing_until_ms = group->host->now_ms + group->host->election_ms / 2;
        ask_successor(group);
        lq_group_dirty(group);
        return;
    }
    stop_now(group);
}

static void tick_failing(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (host->now_ms >= group->failing_until_ms || !lq_group_leads(group)) {
        stop_now(group);
    } else if (host->now_ms - group->timeout_now_ms >= host->heartbeat_ms) {
        ask_successor(group);
    }
}

/* libraft would take a new term with every timeout (timeout.c:98): a replica that was cut off between pre-vote and vote
 * would come back with a term far above that of a leader elected meanwhile, and depose it. So, as long as it hears
 * nothing, it asks for the votes of the same term again, as lost requests may be. Once it hears of anybody the next
 * timeout is libraft's again: others that wait for its vote, or are candidates too, speak. */
static void ask_again(struct lq_group *group)
{
    uint64_t last = group->raft.last_stored;
    group->stood_ms = group->host->now_ms;
    if (lq_group_vote_pending(group)) {
        return; /* the first requests have not gone yet */
    }
    for (unsigned i = 0; i < group->raft.configuration.n; i++) {
        const struct raft_server *server = &group->raft.configuration.servers[i];
        if (server->id == group->self || server->role != RAFT_VOTER) {
            continue;
        }
        struct raft_message message = {.type = RAFT_REQUEST_VOTE, .server_id = server->id};
        message.request_vote =
            (struct raft_request_vote){.version = LQ_RPC_VERSION_VOTE,
                                       .term = raft_current_term(&group->raft),
                                       .candidate_id = group->self,
                                       .last_log_index = last,
                                       .last_log_term = last == 0 ? 0 : lq_rlog_term_at(group->log, last),
                                       .disrupt_leader = group->raft.candidate_state.disrupt_leader};
        lq_host_message(group, &message);
    }
}

static void time_out(struct lq_group *group)
{
    bool stood = group->raft.state == RAFT_CANDIDATE;
    if (stands_unheard(group)) {
        ask_again(group);
        return;
    }
    if (lq_group_leads(group)) {
        lq_group_step_timeout(group);
    } else {
        jump_to_timeout(group);
    }
    if (group->failed == LIGHTQ_OK && !stood && group->raft.state == RAFT_CANDIDATE) {
        retry_soon(group);
    }
}

/* ---- tick ---- */

void lq_group_tick(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (group->phase == LQ_PHASE_FAILING) {
        tick_failing(group);
        lq_host_rearm(group);
        return;
    }
    if (group->phase == LQ_PHASE_OPENING && group->failed == LIGHTQ_OK && host->now_ms >= group->retry_ms) {
        group->retry_ms = LQ_NEVER;
        lq_group_dirty(group); /* reads its last entry again */
    }
    if (group->phase != LQ_PHASE_RUNNING || group->failed != LIGHTQ_OK) {
        return;
    }
    if (group->receiving != NULL && host->now_ms - group->receiving->last_ms >= LQ_INSTALL_TIMEOUT_MS) {
        lq_install_in_free(group, &group->receiving);
    }
    if (host->now_ms >= group->retry_ms) {
        group->retry_ms = LQ_NEVER;
        lq_group_dirty(group);
    }
    if (host->now_ms >= group->failover_ms) {
        failover(group);
    }
    if (group->failed == LIGHTQ_OK && host->now_ms >= raft_due(group)) {
        time_out(group);
    }
    if (group->failed == LIGHTQ_OK) {
        watch_transfer(group);
    }
    if (group->failed == LIGHTQ_OK) {
        watch_stall(group);
    }
    lq_group_settle(group);
}
