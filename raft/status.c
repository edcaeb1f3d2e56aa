/* raft/status.c - what a group says of itself, and its end. See host.h. */
#include <stdlib.h>

#include "raft/group.h"

uint64_t lq_group_id(const struct lq_group *group)
{
    return group->id;
}

struct lq_rlog *lq_group_log(struct lq_group *group)
{
    return group->log;
}

bool lq_group_alone(const struct lq_group *group)
{
    struct lq_servers servers;
    lq_servers_of(&group->raft.configuration, &servers);
    return lq_servers_sole_voter(&servers, group->self);
}

static void replica_status(const struct lq_group *group, const struct raft_server *server,
                           struct lq_replica_status *replica)
{
    *replica = (struct lq_replica_status){.id = server->id, .role = (enum lq_role)server->role};
    if (!lq_group_leads(group)) {
        return;
    }
    raft_index match = 0;
    (void)raft_match_index(&group->raft, server->id, &match);
    replica->match = match;
    replica->online = server->id == group->self;
    for (unsigned i = 0; i < group->peer_count; i++) {
        const struct lq_group_peer *peer = &group->peers[i];
        if (peer->id == server->id) {
            replica->online = peer->heard_ms != 0 && group->host->now_ms - peer->heard_ms < group->host->election_ms;
            replica->lost_data = peer->lost_count >= LQ_PEER_LOST_REJECTIONS;
        }
    }
}

void lq_group_status(const struct lq_group *group, struct lq_group_status *status)
{
    uint64_t term;
    uint64_t voted_for;
    lq_rlog_vote(group->log, &term, &voted_for);
    *status = (struct lq_group_status){.group = group->id,
                                       .term = term,
                                       .self = group->self,
                                       .stopped = group->phase == LQ_PHASE_STOPPED || group->failed != LIGHTQ_OK,
                                       .first = lq_rlog_first(group->log),
                                       .last = lq_rlog_last(group->log),
                                       .durable = lq_rlog_durable(group->log),
                                       .committed = group->committed,
                                       .applied = group->applied};
    if (!group->raft_open) {
        return;
    }
    status->term = raft_current_term(&group->raft);
    if (lq_group_leads(group)) {
        status->leader = group->self;
        status->leading =
            group->failed == LIGHTQ_OK && group->barrier_index != 0 && group->applied >= group->barrier_index;
    } else if (group->raft.state == RAFT_FOLLOWER) {
        status->leader = group->raft.follower_state.current_leader.id;
    }
    for (unsigned i = 0; i < group->raft.configuration.n && i < LQ_SERVERS_MAX; i++) {
        replica_status(group, &group->raft.configuration.servers[i], &status->replicas[status->replica_count++]);
    }
}

static void leave_read(struct lq_read *read)
{
    if (read != NULL) {
        read->group = NULL;
    }
}

void lq_group_free(struct lq_group *group)
{
    leave_read(group->apply_read);
    leave_read(group->tail_read);
    lq_group_drop_peers(group);
    lq_install_forget(group);
    lq_apply_forget_ready(group);
    if (group->raft_open) {
        raft_close(&group->raft, NULL);
    }
    if (group->destroy) {
        lq_rlog_destroy(group->log);
    }
    free(group->held);
    free(group->window_sizes);
    free(group->configuration);
    free(group);
}
