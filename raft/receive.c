/* raft/receive.c - what a message must pass that its frame alone cannot tell, before libraft sees it. rpc.c has checked
 * everything else. Called by host.c.
 *
 * H1 clip: an AppendEntries that begins below our trim point loses what is below, and goes on from there: else a
 * follower that trimmed past what its leader knows would reject it for ever (replication.c:605). H2 refuse: what our
 * own state shows to be wrong, or would make libraft misbehave. H3 split: a CHANGE is the first entry of what libraft
 * is given: it takes the index of the first new entry for the change's own (replication.c:851). And before a second
 * change comes, the first one, which must be committed then (one at a time), is told to be: else a cut of the second
 * would bring back the one before both. */
#include <inttypes.h>

#include "client/base/log.h"
#include "raft/group.h"

static void refuse(struct lq_group *group, enum lq_frame_type type, lq_replica_id from)
{
    group->host->counters.messages_refused++;
    lq_group_trace(group, LQ_TRACE_REFUSE, type, from);
}

static bool takes_messages(const struct lq_group *group)
{
    return (group->phase == LQ_PHASE_RUNNING && group->failed == LIGHTQ_OK) || group->phase == LQ_PHASE_FAILING;
}

/* H2: there is one leader a term. If another one shows up, something is broken that Raft cannot mend. */
static bool second_leader(struct lq_group *group, enum lq_frame_type type, lq_replica_id from, uint64_t term)
{
    if (!lq_group_leads(group) || term != raft_current_term(&group->raft)) {
        return false;
    }
    lq_log(ERROR, "another replica claims to lead our own term", "group", group->id, "term", term, "replica", from);
    refuse(group, type, from);
    return true;
}

/* ---- AppendEntries ---- */

static bool log_has(const struct lq_group *group, uint64_t index, uint64_t term)
{
    return index == 0 || lq_rlog_term_at(group->log, index) == term;
}

/* H3, second half. @prev is known to be in our log. */
static void settle_change_before(struct lq_group *group, uint64_t prev_index, uint64_t prev_term)
{
    uint64_t index = group->raft.configuration_uncommitted_index;
    if (index != 0 && index <= prev_index && log_has(group, prev_index, prev_term)) {
        lq_group_step_configuration(group, index);
        lq_group_settle(group);
    }
}

/* The leader's entries [at, end) of the array, as one AppendEntries. False: the rest is of no use. */
static bool give_piece(struct lq_group *group, const struct raft_message *message, const struct lq_entry_ref *refs,
                       unsigned at, unsigned end)
{
    const struct raft_append_entries *append = &message->append_entries;
    struct raft_message piece = *message;
    piece.append_entries.prev_log_index = append->prev_log_index + at;
    piece.append_entries.prev_log_term = at == 0 ? append->prev_log_term : append->entries[at - 1].term;
    piece.append_entries.entries = append->entries + at;
    piece.append_entries.n_entries = end - at;
    if (append->entries[at].type == RAFT_CHANGE) {
        settle_change_before(group, piece.append_entries.prev_log_index, piece.append_entries.prev_log_term);
    }
    struct lq_step step = {.entries = piece.append_entries.entries, .refs = refs + at, .count = end - at};
    lq_group_step_receive(group, &piece, &step);
    lq_group_settle(group);
    return takes_messages(group) && log_has(group, append->prev_log_index + end, append->entries[end - 1].term);
}

static void give_append(struct lq_group *group, struct raft_message *message, const struct lq_entry_ref *refs)
{
    const struct raft_append_entries *append = &message->append_entries;
    if (append->n_entries == 0) {
        lq_group_step_receive(group, message, NULL);
        lq_group_settle(group);
        return;
    }
    for (unsigned at = 0; at < append->n_entries;) {
        unsigned end = at + 1;
        while (end < append->n_entries && append->entries[end].type != RAFT_CHANGE) {
            end++;
        }
        if (!give_piece(group, message, refs, at, end)) {
            return;
        }
        at = end;
    }
}

/* H1. Everything up to the trim point is committed, so a leader of our term or a later one has it as we have. */
static unsigned clip(const struct lq_group *group, struct raft_append_entries *append)
{
    uint64_t trimmed = lq_rlog_first(group->log) - 1;
    if (append->prev_log_index >= trimmed) {
        return 0;
    }
    uint64_t below = trimmed - append->prev_log_index;
    unsigned skip = below < append->n_entries ? (unsigned)below : append->n_entries;
    append->prev_log_index = trimmed;
    append->prev_log_term = lq_rlog_term_at(group->log, trimmed);
    append->n_entries -= skip;
    append->entries = append->n_entries == 0 ? NULL : append->entries + skip;
    return skip;
}

static void receive_append(struct lq_group *group, struct raft_message *message, const struct lq_entry_ref *refs,
                           enum lq_frame_type type)
{
    struct raft_append_entries *append = &message->append_entries;
    if (second_leader(group, type, message->server_id, append->term)) {
        return;
    }
    unsigned skip = 0;
    if (append->term >= raft_current_term(&group->raft)) {
        group->leader_heard_ms = group->host->now_ms;
        skip = clip(group, append);
    }
    give_append(group, message, append->n_entries == 0 ? NULL : refs + skip);
}

/* ---- answers ---- */

/* A rejection that ends below what the peer has acknowledged: it lost data. Raft would never send it again what it
 * lacks (progress.c:373). One such answer can be an old one; a row of them is not. */
static bool peer_lost_data(struct lq_group *group, struct lq_group_peer *peer,
                           const struct raft_append_entries_result *result)
{
    raft_index match = 0;
    if (result->rejected == 0) {
        peer->lost_count = 0;
        return false;
    }
    if (raft_match_index(&group->raft, peer->id, &match) != 0 || result->last_log_index >= match) {
        return false;
    }
    peer->lost_count++;
    if (peer->lost_count == LQ_PEER_LOST_REJECTIONS) {
        group->host->counters.peers_lost++;
        lq_log(ERROR, "a replica lost entries it had acknowledged: rebuild it under a new incarnation", "group",
               group->id, "replica", peer->id, "acknowledged", match, "has", result->last_log_index);
    }
    return true;
}

static void receive_result(struct lq_group *group, struct raft_message *message)
{
    const struct raft_append_entries_result *result = &message->append_entries_result;
    lq_replica_id from = message->server_id;
    if (!lq_group_leads(group)) {
        return; /* an answer to what we sent while leading */
    }
    struct lq_group_peer *peer = lq_group_peer(group, from);
    if (peer == NULL || lq_configuration_find(&group->raft.configuration, from) == NULL) {
        refuse(group, LQ_FRAME_APPEND_RESULT, from);
        return;
    }
    if (result->term == raft_current_term(&group->raft)) {
        peer->heard_ms = group->host->now_ms;
        if (peer_lost_data(group, peer, result)) {
            refuse(group, LQ_FRAME_APPEND_RESULT, from);
            return;
        }
        group->rejected_by = result->rejected != 0 ? from : 0;
    }
    lq_group_step_receive(group, message, NULL);
    group->rejected_by = 0;
    lq_group_settle(group);
}

static void receive_vote_result(struct lq_group *group, struct raft_message *message)
{
    /* Only a candidate asks. libraft looks at its candidate state first, whatever its state is
     * (recv_request_vote_result.c:32), and a late pre-vote answer would then raise our term. */
    if (group->raft.state != RAFT_CANDIDATE ||
        lq_configuration_find(&group->raft.configuration, message->server_id) == NULL) {
        return;
    }
    lq_group_step_receive(group, message, NULL);
    lq_group_settle(group);
}

/* A server votes also when its own configuration does not call it a voter (Raft dissertation, section 4.2.1): it may
 * have been promoted by an entry that has not reached it. libraft refuses (election.c:207), and then a group whose
 * newest log needs that vote never elects again, with all its servers alive. Who counts is decided by the candidate's
 * configuration, and the vote is stored like any other. So libraft sees the role of a voter for this one step. It is
 * the only field of its state that is ever written. */
static void receive_vote(struct lq_group *group, struct raft_message *message)
{
    const struct raft_configuration *configuration = &group->raft.configuration;
    int role = RAFT_VOTER;
    unsigned at = 0;
    while (at < configuration->n && configuration->servers[at].id != group->self) {
        at++;
    }
    if (at < configuration->n) {
        role = configuration->servers[at].role;
        configuration->servers[at].role = RAFT_VOTER;
    }
    if (role != RAFT_VOTER && group->host->now_ms - group->leader_heard_ms >= group->host->election_ms) {
        message->request_vote.disrupt_leader = true;
    }
    lq_group_step_receive(group, message, NULL);
    if (at < configuration->n) { /* a vote changes no configuration */
        configuration->servers[at].role = role;
    }
    lq_group_settle(group);
}

/* ---- from host.c ---- */

void lq_group_receive(struct lq_group *group, struct lq_rpc *rpc)
{
    if (!takes_messages(group) || rpc->to != group->self) {
        if (rpc->to != group->self) {
            refuse(group, rpc->type, rpc->from);
        }
        return;
    }
    group->words++;
    switch (rpc->type) {
    case LQ_FRAME_APPEND:
        receive_append(group, &rpc->message, rpc->refs, rpc->type);
        return;
    case LQ_FRAME_APPEND_RESULT:
        receive_result(group, &rpc->message);
        return;
    case LQ_FRAME_INSTALL:
        if (!second_leader(group, rpc->type, rpc->from, rpc->message.install_snapshot.term)) {
            lq_install_receive(group, rpc);
        }
        return;
    case LQ_FRAME_VOTE_RESULT:
        receive_vote_result(group, &rpc->message);
        return;
    case LQ_FRAME_VOTE:
        receive_vote(group, &rpc->message);
        return;
    default: /* TIMEOUT_NOW */
        lq_group_step_receive(group, &rpc->message, NULL);
        lq_group_settle(group);
        return;
    }
}

void lq_group_receive_beat(struct lq_group *group, const struct lq_heartbeat *beat)
{
    struct raft_message message;
    if (!takes_messages(group)) {
        return;
    }
    if (beat->to != group->self) {
        refuse(group, LQ_FRAME_HEARTBEATS, beat->from);
        return;
    }
    group->words++;
    lq_heartbeat_message(beat, &message);
    receive_append(group, &message, NULL, LQ_FRAME_HEARTBEATS);
}

void lq_group_receive_result(struct lq_group *group, const struct lq_heartbeat_result *result)
{
    struct raft_message message;
    if (!takes_messages(group)) {
        return;
    }
    if (result->to != group->self) {
        refuse(group, LQ_FRAME_HEARTBEATS, result->from);
        return;
    }
    group->words++;
    lq_heartbeat_result_message(result, &message);
    receive_result(group, &message);
}
