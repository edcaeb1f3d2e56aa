/* raft/member.c - the servers of a group: their encoding, which is libraft's, and changes of them, one at a time
 * (docs/architecture.md, "Membership"). Called by node/ through host.h, and by the other files of a group.
 *
 * A new configuration is the present one, in its order, with one server added, removed, or of another role. Never a
 * swap: libraft gives a server that takes another's place the match of the old one (membership.c:131). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/errmap.h"
#include "raft/group.h"

_Static_assert((int)LQ_ROLE_STANDBY == (int)RAFT_STANDBY && (int)LQ_ROLE_VOTER == (int)RAFT_VOTER &&
                   (int)LQ_ROLE_SPARE == (int)RAFT_SPARE,
               "roles are libraft's");

/* ---- encoding ---- */

static lightq_status to_configuration(const struct lq_servers *servers, struct raft_configuration *configuration)
{
    raft_configuration_init(configuration);
    for (unsigned i = 0; i < servers->count; i++) {
        char address[24]; /* libraft wants one, and no two alike: the id serves */
        snprintf(address, sizeof address, "%" PRIu64, servers->at[i].id);
        int code = raft_configuration_add(configuration, servers->at[i].id, address, (int)servers->at[i].role);
        if (code != 0) {
            raft_configuration_close(configuration);
            return lq_status_from_raft(code);
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_servers_encode(const struct lq_servers *servers, void **bytes, size_t *size)
{
    struct raft_configuration configuration;
    struct raft_buffer buffer;
    if (servers->count == 0 || servers->count > LQ_SERVERS_MAX) {
        return LIGHTQ_EINVAL;
    }
    lightq_status status = to_configuration(servers, &configuration);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ENOMEM ? LIGHTQ_ENOMEM : LIGHTQ_EINVAL;
    }
    int code = raft_configuration_encode(&configuration, &buffer);
    raft_configuration_close(&configuration);
    if (code != 0) {
        return lq_status_from_raft(code);
    }
    if (lq_rpc_check_configuration(buffer.base, buffer.len, NULL, NULL) != LIGHTQ_OK) {
        raft_free(buffer.base);
        return LIGHTQ_EINVAL;
    }
    *bytes = buffer.base;
    *size = buffer.len;
    return LIGHTQ_OK;
}

lightq_status lq_servers_configuration(const void *bytes, size_t size, struct raft_configuration *configuration)
{
    union {
        const void *borrowed;
        void *given; /* libraft only reads it */
    } base = {.borrowed = bytes};
    if (lq_rpc_check_configuration(bytes, size, NULL, NULL) != LIGHTQ_OK) {
        return LIGHTQ_ECORRUPT;
    }
    struct raft_buffer buffer = {.base = base.given, .len = size};
    return lq_status_from_raft(raft_configuration_decode(&buffer, configuration));
}

void lq_servers_of(const struct raft_configuration *configuration, struct lq_servers *servers)
{
    servers->count = 0;
    for (unsigned i = 0; i < configuration->n && i < LQ_SERVERS_MAX; i++) {
        servers->at[servers->count++] = (struct lq_server){.id = configuration->servers[i].id,
                                                           .role = (enum lq_role)configuration->servers[i].role};
    }
}

unsigned lq_servers_voters(const struct lq_servers *servers)
{
    unsigned voters = 0;
    for (unsigned i = 0; i < servers->count; i++) {
        voters += servers->at[i].role == LQ_ROLE_VOTER;
    }
    return voters;
}

bool lq_servers_sole_voter(const struct lq_servers *servers, lq_replica_id self)
{
    for (unsigned i = 0; i < servers->count; i++) {
        if (servers->at[i].id == self) {
            return servers->at[i].role == LQ_ROLE_VOTER && lq_servers_voters(servers) == 1;
        }
    }
    return false;
}

const struct raft_server *lq_configuration_find(const struct raft_configuration *configuration, lq_replica_id id)
{
    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].id == id) {
            return &configuration->servers[i];
        }
    }
    return NULL;
}

/* ---- what a leader keeps of the others ---- */

void lq_group_drop_peers(struct lq_group *group)
{
    for (unsigned i = 0; i < group->peer_count; i++) {
        lq_feed_drop(&group->peers[i]);
        lq_install_drop(&group->peers[i]);
    }
    free(group->peers);
    group->peers = NULL;
    group->peer_count = 0;
}

uint64_t lq_group_configuration_index(const struct lq_group *group)
{
    uint64_t index = group->raft.configuration_uncommitted_index;
    return index != 0 ? index : group->raft.configuration_committed_index;
}

lightq_status lq_group_sync_peers(struct lq_group *group)
{
    const struct raft_configuration *configuration = &group->raft.configuration;
    struct lq_group_peer *peers = calloc(configuration->n + 1, sizeof *peers);
    if (peers == NULL) {
        return LIGHTQ_ENOMEM;
    }
    unsigned count = 0;
    for (unsigned i = 0; i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        if (server->id == group->self) {
            continue;
        }
        struct lq_group_peer *known = lq_group_peer(group, server->id);
        if (known != NULL) {
            peers[count] = *known;
            known->feed.read = NULL; /* moved */
            known->install = NULL;
        } else {
            peers[count] = (struct lq_group_peer){.id = server->id, .emitted_ms = group->step_ms};
            peers[count].feed.next = 1;
        }
        peers[count++].replicates = server->role != RAFT_SPARE;
    }
    lq_group_drop_peers(group);
    group->peers = peers;
    group->peer_count = count;
    group->peers_index = lq_group_configuration_index(group);
    group->space_epoch = 0; /* other voters: ask again who has space */
    return LIGHTQ_OK;
}

/* ---- changes ---- */

static bool online(const struct lq_group *group, lq_replica_id id)
{
    for (unsigned i = 0; i < group->peer_count; i++) {
        if (group->peers[i].id == id) {
            return group->peers[i].heard_ms != 0 &&
                   group->host->now_ms - group->peers[i].heard_ms < group->host->election_ms;
        }
    }
    return id == group->self;
}

/* Promoted far behind, or while another voter is away, it could keep a group from committing. And it must know that it
 * is a server at all, or it would vote for nobody (receive.c). */
static lightq_status may_promote(struct lq_group *group, const struct lq_servers *servers, lq_replica_id id)
{
    raft_index match = 0;
    if (raft_match_index(&group->raft, id, &match) != 0 || match + LQ_PROMOTE_LAG_ENTRIES < lq_rlog_last(group->log) ||
        match < group->raft.configuration_committed_index || !online(group, id)) {
        return LIGHTQ_ENOTREADY;
    }
    for (unsigned i = 0; i < servers->count; i++) {
        if (servers->at[i].role == LQ_ROLE_VOTER && !online(group, servers->at[i].id)) {
            return LIGHTQ_ENOTREADY;
        }
    }
    return LIGHTQ_OK;
}

static lightq_status add_standby(struct lq_servers *servers, lq_replica_id id)
{
    for (unsigned i = 0; i < servers->count; i++) {
        /* Another incarnation of the same node is to be removed first: its match would count for commit. */
        if (lq_replica_node(servers->at[i].id) == lq_replica_node(id)) {
            return LIGHTQ_EEXISTS;
        }
    }
    if (servers->count == LQ_SERVERS_MAX || lq_replica_node(id) == 0 || lq_replica_node(id) > LQ_NODES_MAX) {
        return LIGHTQ_EINVAL;
    }
    servers->at[servers->count++] = (struct lq_server){.id = id, .role = LQ_ROLE_STANDBY};
    return LIGHTQ_OK;
}

static lightq_status edit(struct lq_group *group, enum lq_change change, lq_replica_id id, struct lq_servers *servers)
{
    unsigned at = 0;
    if (change == LQ_CHANGE_ADD_STANDBY) {
        return add_standby(servers, id);
    }
    while (at < servers->count && servers->at[at].id != id) {
        at++;
    }
    if (at == servers->count) {
        return LIGHTQ_ENOTFOUND;
    }
    lightq_status status = LIGHTQ_OK;
    switch (change) {
    case LQ_CHANGE_PROMOTE:
        status = servers->at[at].role == LQ_ROLE_VOTER ? LIGHTQ_EINVAL : may_promote(group, servers, id);
        servers->at[at].role = LQ_ROLE_VOTER;
        break;
    case LQ_CHANGE_DEMOTE:
        status = servers->at[at].role == LQ_ROLE_VOTER ? LIGHTQ_OK : LIGHTQ_EINVAL;
        servers->at[at].role = LQ_ROLE_STANDBY;
        break;
    case LQ_CHANGE_REMOVE:
        servers->count--;
        memmove(&servers->at[at], &servers->at[at + 1], (servers->count - at) * sizeof servers->at[0]);
        break;
    default:
        return LIGHTQ_EINVAL;
    }
    return status;
}

/* A sole voter elects itself at once: others that follow could diverge. Nobody is left without a voter. */
static bool leaves_voters(const struct lq_servers *before, const struct lq_servers *after)
{
    unsigned voters = lq_servers_voters(after);
    return voters > 1 || (voters == 1 && (after->count == 1 || lq_servers_voters(before) == 1));
}

static lightq_status propose(struct lq_group *group, const struct lq_servers *servers)
{
    void *payload;
    size_t size;
    struct lq_entry_ref ref;
    lightq_status status = lq_servers_encode(servers, &payload, &size);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_group_make_entry(group, LQ_ENTRY_CHANGE, payload, (uint32_t)size, &ref);
    raft_free(payload);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_group_step_submit(group, &ref, LQ_ENTRY_CHANGE);
    lq_slab_unref(ref.slab);
    lq_group_settle(group);
    lq_group_dirty(group);
    return status;
}

lightq_status lq_group_change(struct lq_group *group, enum lq_change change, lq_replica_id id)
{
    struct lq_servers servers;
    struct lq_servers before;
    lq_host_now(group->host);
    if (group->phase != LQ_PHASE_RUNNING || group->failed != LIGHTQ_OK || !lq_group_leads(group) ||
        group->barrier_index == 0 || group->applied < group->barrier_index || group->stalled) {
        return LIGHTQ_ENOTLEADER;
    }
    if (group->raft.configuration_uncommitted_index != 0 || group->raft.leader_state.transferee != 0) {
        return LIGHTQ_ECONFLICT;
    }
    lq_servers_of(&group->raft.configuration, &servers);
    before = servers;
    lightq_status status = edit(group, change, id, &servers);
    if (status != LIGHTQ_OK) {
        return status;
    }
    return leaves_voters(&before, &servers) ? propose(group, &servers) : LIGHTQ_EINVAL;
}
