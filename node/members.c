/* node/members.c - the servers of the groups that are led here follow the catalog, one step at a time: each step is
 * read from the catalog and the group's own servers, so whoever leads next goes on where this one stopped. And
 * leadership goes to the replica that the catalog names first, when it is fit. Part of node/meta.h; the state is in
 * meta_internal.h.
 *
 *     a server that is not wanted, dead or replaced on its own node   is removed at once: its ghost match would count
 *     a replica that is wanted and is no server                        is added as a standby
 *     a standby that should vote, and has caught up                    becomes a voter
 *     a server that is not wanted, and whose node lives                is removed when all that are wanted vote
 *
 * A leader that is itself not wanted hands over first; the next leader removes it. */
#include "client/base/log.h"
#include "node/meta_internal.h"

#define SWEEP_MS          1000
#define CATCHING_UP_MAX   16 /* replicas brought up at the same time by one leader */
#define STEPS_MAX         64 /* groups worked on in one tick */
#define FIT_LAG_ENTRIES   64 /* a replica this close to the end is fit to lead */
#define TOKEN_TENTHS      10
#define MILLIS_PER_SECOND 1000

struct target {
    lq_replica_id id;
    bool voter;
};

struct targets {
    struct target at[LQ_SERVERS_MAX];
    unsigned count;
};

/* A group as it is worked on. */
struct led {
    struct lq_meta *meta;
    struct lq_group *group;
    struct lq_group_status status;
    struct targets targets;
    bool *catching_up;
};

static const struct target *find_target(const struct targets *targets, lq_replica_id id)
{
    for (unsigned i = 0; i < targets->count; i++) {
        if (targets->at[i].id == id) {
            return &targets->at[i];
        }
    }
    return NULL;
}

static const struct lq_replica_status *find_server(const struct lq_group_status *status, lq_replica_id id)
{
    for (unsigned i = 0; i < status->replica_count; i++) {
        if (status->replicas[i].id == id) {
            return &status->replicas[i];
        }
    }
    return NULL;
}

bool lq_members_is_out(const struct lq_servers *committed, const struct lq_group_status *status, lq_replica_id id)
{
    for (unsigned i = 0; i < committed->count; i++) {
        if (committed->at[i].id == id) {
            return false;
        }
    }
    return committed->count > 0 && find_server(status, id) == NULL;
}

/* ---- steps ---- */

static bool node_is_here(const struct lq_meta *meta, uint32_t node)
{
    const struct lq_catalog_node *known = lq_catalog_node(meta->catalog, node);
    return known != NULL && known->state == LQ_NODE_ACTIVE;
}

/* Its node is gone, or has a newer replica: nothing good can come of it. */
static bool is_dead(const struct led *led, lq_replica_id id)
{
    for (unsigned i = 0; i < led->targets.count; i++) {
        if (lq_replica_node(led->targets.at[i].id) == lq_replica_node(id)) {
            return true;
        }
    }
    return !node_is_here(led->meta, lq_replica_node(id));
}

/* Without @id the voters could still commit. */
static bool can_do_without(const struct led *led, lq_replica_id id)
{
    unsigned voters = 0;
    unsigned online = 0;
    for (unsigned i = 0; i < led->status.replica_count; i++) {
        const struct lq_replica_status *server = &led->status.replicas[i];
        if (server->id != id && server->role == LQ_ROLE_VOTER) {
            voters++;
            online += server->online;
        }
    }
    return voters > 0 && online >= voters / 2 + 1;
}

/* A server that is superseded and still works, as one in whose files rot was found: it may have good copies of what
 * others have not. It goes only when, without it, there are as many voters at work as are wanted, but for one; so such
 * servers are replaced one after the other. */
static bool is_time_for(const struct led *led, const struct lq_replica_status *server)
{
    unsigned others = 0;
    if (!server->online || server->lost_data) {
        return true;
    }
    for (unsigned i = 0; i < led->status.replica_count; i++) {
        const struct lq_replica_status *other = &led->status.replicas[i];
        others += other->id != server->id && other->role == LQ_ROLE_VOTER && other->online;
    }
    return others + 1 >= led->targets.count;
}

/* True: a step was made or must be waited for. */
static bool change(const struct led *led, enum lq_change what, lq_replica_id id)
{
    lightq_status status = lq_group_change(led->group, what, id);
    if (status == LIGHTQ_OK) {
        static const char *const names[] = {"added as standby", "made a voter", "made a standby", "removed"};
        lq_log(INFO, "a group's servers change", "group", led->status.group, "node", lq_replica_node(id), "incarnation",
               lq_replica_incarnation(id), "what", names[what]);
    }
    return status == LIGHTQ_OK || status == LIGHTQ_ECONFLICT;
}

/* This replica leads, and is not wanted: somebody who is must lead. */
static bool hand_over(const struct led *led)
{
    if (find_target(&led->targets, led->status.self) != NULL) {
        return false;
    }
    for (unsigned i = 0; i < led->targets.count; i++) {
        const struct lq_replica_status *server = find_server(&led->status, led->targets.at[i].id);
        if (server != NULL && server->role == LQ_ROLE_VOTER && server->online) {
            lightq_status status = lq_group_transfer(led->group, server->id);
            return status == LIGHTQ_OK || status == LIGHTQ_ECONFLICT;
        }
    }
    return false;
}

static bool remove_dead(const struct led *led)
{
    for (unsigned i = 0; i < led->status.replica_count; i++) {
        const struct lq_replica_status *server = &led->status.replicas[i];
        if (server->id != led->status.self && find_target(&led->targets, server->id) == NULL &&
            is_dead(led, server->id) &&
            (server->role != LQ_ROLE_VOTER || (can_do_without(led, server->id) && is_time_for(led, server)))) {
            return change(led, LQ_CHANGE_REMOVE, server->id);
        }
    }
    return false;
}

static unsigned count_catching_up(const struct lq_meta *meta)
{
    unsigned count = meta->catching_up;
    for (const struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        count += replica->catching_up;
    }
    return count;
}

/* Another incarnation of the node is a server still: it goes first. */
static bool node_is_server(const struct led *led, uint32_t node)
{
    for (unsigned i = 0; i < led->status.replica_count; i++) {
        if (lq_replica_node(led->status.replicas[i].id) == node) {
            return true;
        }
    }
    return false;
}

static bool add_missing(const struct led *led)
{
    struct lq_link *link = led->meta->options.link;
    for (unsigned i = 0; i < led->targets.count; i++) {
        lq_replica_id id = led->targets.at[i].id;
        uint32_t node = lq_replica_node(id);
        if (!node_is_server(led, node) && node_is_here(led->meta, node) && link->ops->connected(link, node) &&
            count_catching_up(led->meta) < CATCHING_UP_MAX) {
            bool added = change(led, LQ_CHANGE_ADD_STANDBY, id);
            *led->catching_up |= added;
            return added;
        }
    }
    return false;
}

static bool set_roles(const struct led *led)
{
    bool behind = false;
    for (unsigned i = 0; i < led->targets.count; i++) {
        const struct target *target = &led->targets.at[i];
        const struct lq_replica_status *server = find_server(&led->status, target->id);
        if (server == NULL) {
            continue;
        }
        if (target->voter && server->role != LQ_ROLE_VOTER) {
            behind = true;
            if (change(led, LQ_CHANGE_PROMOTE, target->id)) { /* not ready: the others first */
                *led->catching_up = true;
                return true;
            }
        } else if (!target->voter && server->role == LQ_ROLE_VOTER && target->id != led->status.self &&
                   can_do_without(led, target->id)) {
            return change(led, LQ_CHANGE_DEMOTE, target->id);
        }
    }
    *led->catching_up = behind;
    return behind;
}

static bool all_targets_vote(const struct led *led)
{
    for (unsigned i = 0; i < led->targets.count; i++) {
        const struct lq_replica_status *server = find_server(&led->status, led->targets.at[i].id);
        if (led->targets.at[i].voter && (server == NULL || server->role != LQ_ROLE_VOTER || !server->online)) {
            return false;
        }
    }
    return true;
}

static bool remove_unwanted(const struct led *led)
{
    if (!all_targets_vote(led)) {
        return false;
    }
    for (unsigned i = 0; i < led->status.replica_count; i++) {
        const struct lq_replica_status *server = &led->status.replicas[i];
        if (server->id != led->status.self && find_target(&led->targets, server->id) == NULL) {
            return change(led, server->role == LQ_ROLE_VOTER ? LQ_CHANGE_DEMOTE : LQ_CHANGE_REMOVE, server->id);
        }
    }
    return false;
}

/* A follower that lost what it had acknowledged is rebuilt like a damaged one; it does not know it itself. */
static void rebuild_lost(const struct led *led)
{
    for (unsigned i = 0; i < led->status.replica_count; i++) {
        const struct lq_replica_status *server = &led->status.replicas[i];
        if (server->lost_data && find_target(&led->targets, server->id) != NULL) {
            const struct lq_letter_request letter = {.verb = LQ_REQUEST_REBUILD,
                                                     .group = led->status.group,
                                                     .node = lq_replica_node(server->id),
                                                     .incarnation = lq_replica_incarnation(server->id)};
            lightq_status status = lq_requests_errand(led->meta, &letter, SWEEP_MS, NULL, NULL);
            lq_log(ERROR, "a replica lost entries it had acknowledged: it is rebuilt", "group", led->status.group,
                   "node", lq_replica_node(server->id), "asked", lightq_status_name(status));
        }
    }
}

/* False: nothing is left to do, or nothing can be done now. */
static bool settle_one(const struct led *led)
{
    if (hand_over(led) || remove_dead(led) || add_missing(led) || set_roles(led)) {
        return true;
    }
    return remove_unwanted(led);
}

/* ---- who should lead ---- */

static bool is_draining(struct lq_meta *meta, uint32_t node)
{
    const struct lq_peer *peer = lq_peers_find(meta, node);
    return peer == NULL || peer->draining;
}

static bool is_fit(const struct led *led, lq_replica_id id)
{
    const struct lq_replica_status *server = find_server(&led->status, id);
    return server != NULL && server->role == LQ_ROLE_VOTER && server->online && !server->lost_data &&
           server->match + FIT_LAG_ENTRIES >= led->status.last && lq_peers_up(led->meta, lq_replica_node(id)) &&
           !is_draining(led->meta, lq_replica_node(id));
}

/* Leadership goes to the first target when it has been fit for a while; a bounded number each second. */
static void prefer(const struct led *led, struct lq_replica *replica)
{
    struct lq_meta *meta = led->meta;
    uint64_t now_us = lq_meta_now_us(meta);
    lq_replica_id first = led->targets.count > 0 ? led->targets.at[0].id : 0;
    if (first == 0 || first == led->status.self || !is_fit(led, first)) {
        replica->fit_us = 0;
        return;
    }
    if (replica->fit_us == 0) {
        replica->fit_us = now_us;
    }
    if (now_us - replica->fit_us < meta->options.transfer_after_ms * LQ_MICROS_PER_MILLI ||
        meta->members.transfer_tokens < TOKEN_TENTHS) {
        return;
    }
    if (lq_group_transfer(led->group, first) == LIGHTQ_OK) {
        meta->members.transfer_tokens -= TOKEN_TENTHS;
        replica->fit_us = now_us; /* when it does not come about: again after as long */
    }
}

static void earn_tokens(struct lq_meta *meta)
{
    struct lq_members *members = &meta->members;
    uint64_t now_us = lq_meta_now_us(meta);
    uint64_t most = (uint64_t)meta->options.transfers_per_second * TOKEN_TENTHS;
    uint64_t elapsed_ms = (now_us - members->token_us) / LQ_MICROS_PER_MILLI;
    uint64_t earned = elapsed_ms * most / MILLIS_PER_SECOND;
    if (earned > 0) {
        members->token_us = now_us;
        uint64_t tokens = members->transfer_tokens + earned;
        members->transfer_tokens = (unsigned)(tokens < most ? tokens : most);
    }
}

/* ---- all groups ---- */

static void partition_targets(const struct lq_catalog_partition *partition, struct targets *targets)
{
    targets->count = partition->replica_count;
    for (unsigned i = 0; i < partition->replica_count; i++) {
        targets->at[i] = (struct target){
            .id = lq_replica_make(partition->replicas[i].node, partition->replicas[i].incarnation), .voter = true};
    }
}

static void meta_targets(const struct lq_catalog *catalog, struct targets *targets)
{
    targets->count = 0;
    for (size_t i = 0; i < lq_catalog_node_count(catalog) && targets->count < LQ_SERVERS_MAX; i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(catalog, i);
        if (node->state != LQ_NODE_GONE) {
            targets->at[targets->count++] =
                (struct target){.id = lq_replica_make(node->id, node->meta_incarnation), .voter = node->meta_voter};
        }
    }
}

/* A node whose replica of the meta group was replaced cannot read that in the catalog: it is told. */
static void tell_renewed(const struct led *led)
{
    for (unsigned i = 0; i < led->targets.count; i++) {
        lq_replica_id id = led->targets.at[i].id;
        const struct lq_replica_status *server = find_server(&led->status, id);
        if (server != NULL && !server->online && lq_replica_incarnation(id) != LQ_INCARNATION_FOUNDER) {
            const struct lq_letter letter = {
                .kind = LQ_LETTER_RENEW, .retire = {.group = LQ_META_GROUP, .incarnation = lq_replica_incarnation(id)}};
            lq_letter_send(led->meta->options.link, lq_replica_node(id), &letter);
        }
    }
}

static void work_meta_group(struct lq_meta *meta, bool sweep)
{
    struct led led = {.meta = meta, .group = meta->group, .catching_up = &meta->catching_up};
    if (meta->group == NULL || !meta->leading || lq_catalog_version(meta->catalog) == 0 ||
        (!meta->unsettled && !sweep)) {
        meta->catching_up &= meta->leading;
        return;
    }
    lq_group_status(meta->group, &led.status);
    if (led.status.leading) {
        meta_targets(meta->catalog, &led.targets);
        meta->unsettled = settle_one(&led);
        rebuild_lost(&led);
        if (sweep) {
            tell_renewed(&led);
        }
    }
}

/* A server has an incarnation that the catalog here has not given yet: what it wants is of the past. */
static bool is_behind(const struct lq_catalog_partition *placed, const struct lq_group_status *status)
{
    for (unsigned i = 0; i < status->replica_count; i++) {
        if (lq_replica_incarnation(status->replicas[i].id) >= placed->next_incarnation) {
            return true;
        }
    }
    return false;
}

static void work_partition(struct lq_meta *meta, struct lq_replica *replica)
{
    const struct lq_catalog_partition *placed = lq_catalog_partition(meta->catalog, replica->group);
    struct led led = {.meta = meta, .group = replica->handle, .catching_up = &replica->catching_up};
    replica->unsettled = false;
    if (placed == NULL) {
        return;
    }
    lq_group_status(replica->handle, &led.status);
    if (!led.status.leading || is_behind(placed, &led.status)) {
        return; /* the catalog's next change sets it to work again */
    }
    partition_targets(placed, &led.targets);
    replica->unsettled = settle_one(&led);
    if (!replica->unsettled) {
        rebuild_lost(&led);
        prefer(&led, replica);
    }
}

void lq_members_tick(struct lq_meta *meta)
{
    uint64_t now_us = lq_meta_now_us(meta);
    bool sweep = now_us >= meta->members.sweep_us;
    unsigned steps = 0;
    if (meta->draining) {
        return; /* the others will see to it */
    }
    if (sweep) {
        meta->members.sweep_us = now_us + SWEEP_MS * LQ_MICROS_PER_MILLI;
    }
    earn_tokens(meta);
    work_meta_group(meta, sweep);
    for (struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        bool leads = replica->handle != NULL && lq_partition_leading(replica->partition);
        replica->catching_up &= leads;
        replica->fit_us = leads ? replica->fit_us : 0; /* what was seen while it led is of the past */
        replica->unsettled |= sweep;
        if (leads && replica->unsettled && (sweep || steps < STEPS_MAX)) {
            steps++;
            work_partition(meta, replica);
        }
    }
}
