/* node/controller.c - changes of the cluster, executed by the node that leads the meta group: judged, one at a time put
 * into its log, answered when they are applied. Part of node/meta.h; the state is in meta_internal.h.
 *
 * One at a time, so that each is judged by the catalog that the one before left: a change takes a commit, and there are
 * few. Nothing here survives the loss of leadership; whoever asked asks the next controller. */
#include "node/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/meta_internal.h"

#define REPLICAS_DEFAULT 3

/* A request taken in, until it is answered. */
struct lq_job {
    struct lq_job *next;
    uint32_t node; /* who asked */
    struct lq_letter_request request;
    struct lq_letter_reply reply;
};

/* ---- planning ---- */

static size_t list_nodes(const struct lq_catalog *catalog, lq_up_cb up, const void *data,
                         struct lq_placement_node *nodes, size_t *up_count)
{
    size_t count = 0;
    *up_count = 0;
    for (size_t i = 0; i < lq_catalog_node_count(catalog) && count < LQ_FOUNDERS_MAX; i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(catalog, i);
        if (node->state == LQ_NODE_ACTIVE) {
            bool is_up = up(data, node->id);
            *up_count += is_up;
            nodes[count++] = (struct lq_placement_node){.id = node->id, .second_choice = !is_up};
        }
    }
    return count;
}

lightq_status lq_plan_replicas(const struct lq_catalog *catalog, uint32_t wanted, lq_up_cb up, const void *data,
                               uint8_t *replicas, struct lq_err *err)
{
    struct lq_placement_node nodes[LQ_FOUNDERS_MAX];
    size_t up_count;
    size_t count = list_nodes(catalog, up, data, nodes, &up_count);
    if (wanted == 0) {
        wanted = count < REPLICAS_DEFAULT ? (uint32_t)count : REPLICAS_DEFAULT;
        wanted -= wanted > 1 && wanted % 2 == 0;
    }
    if (wanted > LQ_REPLICAS_MAX || wanted % 2 == 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a partition has 1, 3 or 5 replicas, not %" PRIu32, wanted);
    }
    if (wanted > count) {
        return lq_err_set(err, LIGHTQ_EUNAVAILABLE, "%" PRIu32 " replicas need as many nodes, and the cluster has %zu",
                          wanted, count);
    }
    if (up_count < wanted / 2 + 1) {
        return lq_err_set(err, LIGHTQ_EUNAVAILABLE,
                          "%zu of %zu nodes are up: partitions of %" PRIu32 " replicas could not elect a leader",
                          up_count, count, wanted);
    }
    *replicas = (uint8_t)wanted;
    return LIGHTQ_OK;
}

/* Leaders by node, as in the list, and shard. */
struct shard_leaders {
    uint32_t at[LQ_FOUNDERS_MAX][LQ_SHARDS_MAX];
    unsigned shards;
};

/* The same on all nodes; founders are written down as having one until they have told the catalog. */
static unsigned count_shards(const struct lq_catalog *catalog)
{
    uint32_t shards = 1;
    for (size_t i = 0; i < lq_catalog_node_count(catalog); i++) {
        uint32_t told = lq_catalog_node_at(catalog, i)->shards;
        shards = told > shards ? told : shards;
    }
    return shards < LQ_SHARDS_MAX ? shards : LQ_SHARDS_MAX;
}

static void count_loads(const struct lq_catalog *catalog, struct lq_placement_node *nodes, size_t count,
                        struct shard_leaders *leaders)
{
    for (size_t t = 0; t < lq_catalog_topic_count(catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            for (unsigned r = 0; r < topic->partitions[p].replica_count; r++) {
                for (size_t i = 0; i < count; i++) {
                    bool here = nodes[i].id == topic->partitions[p].replicas[r].node;
                    nodes[i].replicas += here;
                    nodes[i].leaders += here && r == 0;
                    leaders->at[i][lq_shard_of(topic->partitions[p].group, leaders->shards)] += here && r == 0;
                }
            }
        }
    }
}

lightq_status lq_plan_placement(const struct lq_catalog *catalog, uint32_t partitions, uint8_t replicas, lq_up_cb up,
                                const void *data, uint8_t **placement)
{
    struct lq_placement_node nodes[LQ_FOUNDERS_MAX];
    size_t up_count;
    size_t count = list_nodes(catalog, up, data, nodes, &up_count);
    struct shard_leaders leaders = {.shards = count_shards(catalog)};
    count_loads(catalog, nodes, count, &leaders);
    uint8_t *bytes = malloc((size_t)partitions * replicas * 2);
    if (bytes == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t p = 0; p < partitions; p++) {
        uint32_t chosen[LQ_REPLICAS_MAX] = {0};
        uint64_t group = lq_catalog_next_group(catalog) + p;
        unsigned shard = lq_shard_of(group, leaders.shards);
        for (size_t i = 0; i < count; i++) {
            nodes[i].shard_leaders = leaders.at[i][shard];
        }
        bool placed = lq_place_partition(nodes, count, replicas, group, chosen);
        (void)placed; /* as many as there are nodes at most: the plan has said so */
        for (size_t i = 0; i < count; i++) {
            leaders.at[i][shard] += nodes[i].id == chosen[0];
        }
        for (unsigned i = 0; i < replicas; i++) {
            lq_put_u16(bytes + 2 * ((size_t)p * replicas + i), (uint16_t)chosen[i]);
        }
    }
    *placement = bytes;
    return LIGHTQ_OK;
}

static bool is_up(const void *data, uint32_t node)
{
    return lq_peers_up(data, node);
}

/* ---- answers ---- */

static void answer(struct lq_meta *meta, const struct lq_job *job)
{
    struct lq_letter letter = {.kind = LQ_LETTER_REPLY, .reply = job->reply};
    letter.reply.correlation = job->request.correlation;
    if (job->node == lq_meta_self(meta)) {
        lq_requests_on_reply(meta, job->node, &letter.reply);
    } else {
        lq_letter_send(meta->options.link, job->node, &letter);
    }
}

static void settle(struct lq_meta *meta, struct lq_job *job)
{
    struct lq_controller *controller = &meta->controller;
    job->next = NULL;
    if (controller->settled == NULL) {
        controller->settled = job;
    } else {
        controller->settled_last->next = job;
    }
    controller->settled_last = job;
}

static void refuse(struct lq_meta *meta, struct lq_job *job, lightq_status status, const char *text)
{
    job->reply.status = status;
    (void)snprintf(job->reply.text, sizeof job->reply.text, "%s", text);
    settle(meta, job);
}

static void refuse_as_follower(struct lq_meta *meta, struct lq_job *job, lightq_status status)
{
    job->reply.leader = lq_meta_leader(meta, LQ_META_GROUP).node;
    refuse(meta, job, status, "this node is not the controller");
}

/* ---- judging ---- */

static lightq_status judge_create(const struct lq_meta *meta, struct lq_job *job, struct lq_catalog_command *command,
                                  uint8_t **placement, struct lq_err *err)
{
    const struct lq_letter_request *request = &job->request;
    const struct lq_catalog_topic *there = lq_catalog_topic(meta->catalog, request->name);
    uint8_t replicas = there == NULL ? 0 : there->replicas;
    if (there != NULL && !lq_id_equal(&there->uuid, &request->uuid)) {
        return lq_err_set(err, LIGHTQ_EEXISTS, "topic %s exists already", request->name);
    }
    if (request->partitions == 0 || request->partitions > LQ_PARTITIONS_MAX || lq_id_is_zero(&request->uuid)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a topic has 1 to %d partitions", LQ_PARTITIONS_MAX);
    }
    lightq_status status = LIGHTQ_OK;
    if (there == NULL) {
        status = lq_plan_replicas(meta->catalog, request->replicas, is_up, meta, &replicas, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_plan_placement(meta->catalog, request->partitions, replicas, is_up, meta, placement);
    }
    *command = (struct lq_catalog_command){.type = LQ_CATALOG_CREATE,
                                           .create = {.uuid = request->uuid,
                                                      .partitions = request->partitions,
                                                      .replicas = replicas,
                                                      .config = request->config,
                                                      .placement = *placement}};
    memcpy(command->create.name, request->name, sizeof command->create.name);
    job->reply.replicas = replicas;
    return status;
}

/* What is added to topic @topic, so that it has as many partitions as asked for. */
static lightq_status plan_growth(const struct lq_meta *meta, const struct lq_catalog_topic *topic, uint32_t wanted,
                                 struct lq_catalog_command *command, uint8_t **placement, struct lq_err *err)
{
    uint8_t replicas = 0;
    if (wanted > LQ_PARTITIONS_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a topic has 1 to %d partitions", LQ_PARTITIONS_MAX);
    }
    if (wanted < topic->partition_count) {
        return lq_err_set(err, LIGHTQ_EINVAL,
                          "topic %s has %" PRIu32 " partitions, and their number only grows: %" PRIu32 " is fewer",
                          topic->name, topic->partition_count, wanted);
    }
    command->alter.first = topic->partition_count;
    command->alter.added = wanted - topic->partition_count;
    command->alter.replicas = topic->replicas;
    if (command->alter.added == 0) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_plan_replicas(meta->catalog, topic->replicas, is_up, meta, &replicas, err);
    if (status == LIGHTQ_OK) {
        status = lq_plan_placement(meta->catalog, command->alter.added, replicas, is_up, meta, placement);
    }
    command->alter.placement = *placement;
    return status;
}

static lightq_status judge_alter(const struct lq_meta *meta, struct lq_job *job, struct lq_catalog_command *command,
                                 uint8_t **placement, struct lq_err *err)
{
    const struct lq_letter_request *request = &job->request;
    const struct lq_catalog_topic *topic = lq_catalog_topic(meta->catalog, request->name);
    if (topic == NULL || (!lq_id_is_zero(&request->uuid) && !lq_id_equal(&request->uuid, &topic->uuid))) {
        return lq_err_set(err, LIGHTQ_ENOTFOUND, "there is no topic %s", request->name);
    }
    if (request->mask == 0 && request->partitions == 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "nothing of topic %s is to be altered", request->name);
    }
    *command = (struct lq_catalog_command){
        .type = LQ_CATALOG_ALTER,
        .alter = {.uuid = topic->uuid, .mask = request->mask, .config = request->config, .first = 1}};
    job->reply.uuid = topic->uuid;
    job->reply.replicas = topic->replicas;
    return request->partitions == 0 ? LIGHTQ_OK
                                    : plan_growth(meta, topic, request->partitions, command, placement, err);
}

static lightq_status judge_delete(const struct lq_meta *meta, struct lq_job *job, struct lq_catalog_command *command,
                                  struct lq_err *err)
{
    struct lq_letter_request *request = &job->request;
    const struct lq_catalog_topic *topic = lq_catalog_topic(meta->catalog, request->name);
    if (lq_id_is_zero(&request->uuid)) {
        if (topic == NULL) {
            return lq_err_set(err, LIGHTQ_ENOTFOUND, "there is no topic %s", request->name);
        }
        request->uuid = topic->uuid;
    }
    *command = (struct lq_catalog_command){.type = LQ_CATALOG_DELETE, .drop = {.uuid = request->uuid}};
    job->reply.uuid = request->uuid;
    return LIGHTQ_OK;
}

/* Says what would go with a node that is up. The status is one that nobody tries again. */
static lightq_status refuse_live(const struct lq_meta *meta, uint32_t node, struct lq_err *err)
{
    uint32_t replicas = 0, last = 0;
    for (size_t t = 0; t < lq_catalog_topic_count(meta->catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(meta->catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            const struct lq_catalog_partition *partition = &topic->partitions[p];
            bool has = lq_catalog_replica_on(partition, node) != NULL;
            bool others = false;
            for (unsigned i = 0; i < partition->replica_count; i++) {
                others |= partition->replicas[i].node != node && lq_peers_up(meta, partition->replicas[i].node);
            }
            replicas += has;
            last += has && !others;
        }
    }
    char lost[128] = "";
    if (last != 0) {
        (void)snprintf(lost, sizeof lost,
                       " (no other replica of %" PRIu32 " of them is up: the messages there would be lost)", last);
    }
    return lq_err_set(err, LIGHTQ_EINVAL,
                      "node %" PRIu32
                      " is up with the data it should have: all of it would be thrown away, and its %" PRIu32
                      " replicas built anew from those on other nodes%s; stop it first, or insist with "
                      "--yes-replace-live-node",
                      node, replicas, lost);
}

static lightq_status judge_replace(const struct lq_meta *meta, const struct lq_job *job,
                                   struct lq_catalog_command *command, struct lq_err *err)
{
    const struct lq_letter_request *request = &job->request;
    const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, request->node);
    if (node == NULL) {
        return lq_err_set(err, LIGHTQ_ENOTFOUND, "there is no node %" PRIu32, request->node);
    }
    struct lq_id uuid = lq_id_is_zero(&request->uuid) ? node->uuid : request->uuid;
    bool is_that_one = node->state == LQ_NODE_ACTIVE && lq_id_equal(&uuid, &node->uuid);
    if (is_that_one && !request->live && lq_peers_in_doubt(meta, node)) { /* it is asked again until that is known */
        return lq_err_set(err, LIGHTQ_ENOTREADY,
                          "node %" PRIu32
                          " was here or let in a moment ago, and may be up: ask again in some seconds, or "
                          "insist with --yes-replace-live-node",
                          request->node);
    }
    if (is_that_one && !request->live && lq_peers_up(meta, request->node)) {
        return refuse_live(meta, request->node, err);
    }
    *command = (struct lq_catalog_command){
        .type = LQ_CATALOG_REPLACE,
        .replace = {.old_node = request->node, .old_uuid = uuid, .new_node = request->new_node}};
    return LIGHTQ_OK;
}

/* A replica of the meta group that works, and asks to be rebuilt for rot in its files: it ends as soon as it may, so it
 * may only while every other voter works too. */
static bool is_missed(const struct lq_meta *meta, uint32_t node)
{
    struct lq_group_status status;
    bool works = false;
    bool others_work = true;
    lq_group_status(meta->group, &status);
    for (unsigned i = 0; i < status.replica_count; i++) {
        const struct lq_replica_status *server = &status.replicas[i];
        bool is_it = lq_replica_node(server->id) == node;
        works = works || (is_it && server->online);
        others_work = others_work && (is_it || server->role != LQ_ROLE_VOTER || server->online);
    }
    return works && !others_work;
}

/* Only while the others can do without it: they have a leader, which needs a majority of them. */
static lightq_status judge_rebuild(const struct lq_meta *meta, const struct lq_job *job,
                                   struct lq_catalog_command *command, struct lq_err *err)
{
    const struct lq_letter_request *request = &job->request;
    struct lq_leader leader = lq_meta_leader(meta, request->group);
    if (leader.node == 0 || leader.node == request->node) {
        return lq_err_set(err, LIGHTQ_ENOLEADER,
                          "group %" PRIu64 " has no leader: it cannot do without the replica on node %" PRIu32,
                          request->group, request->node);
    }
    if (request->group == LQ_META_GROUP && is_missed(meta, request->node)) {
        return lq_err_set(err, LIGHTQ_ENOTREADY,
                          "not every other voter of the meta group is at work: the replica on node %" PRIu32
                          " is needed as it is",
                          request->node);
    }
    *command = (struct lq_catalog_command){
        .type = LQ_CATALOG_REBUILD,
        .rebuild = {.group = request->group, .node = request->node, .incarnation = request->incarnation}};
    return LIGHTQ_OK;
}

static void describe_node(const struct lq_job *job, enum lq_catalog_command_type type,
                          struct lq_catalog_command *command)
{
    const struct lq_node_card *card = &job->request.card;
    *command = (struct lq_catalog_command){.type = type,
                                           .node = {.id = card->node,
                                                    .shards = card->shards,
                                                    .uuid = card->uuid,
                                                    .boot = card->boot,
                                                    .client = card->client,
                                                    .peer = card->peer}};
}

static lightq_status judge(const struct lq_meta *meta, struct lq_job *job, struct lq_catalog_command *command,
                           uint8_t **placement, struct lq_err *err)
{
    switch (job->request.verb) {
    case LQ_REQUEST_CREATE:
        return judge_create(meta, job, command, placement, err);
    case LQ_REQUEST_DELETE:
        return judge_delete(meta, job, command, err);
    case LQ_REQUEST_ALTER:
        return judge_alter(meta, job, command, placement, err);
    case LQ_REQUEST_REPLACE:
        return judge_replace(meta, job, command, err);
    case LQ_REQUEST_REBUILD:
        return judge_rebuild(meta, job, command, err);
    case LQ_REQUEST_JOIN:
        describe_node(job, LQ_CATALOG_JOIN, command);
        return LIGHTQ_OK;
    case LQ_REQUEST_UPDATE:
        describe_node(job, LQ_CATALOG_UPDATE, command);
        return LIGHTQ_OK;
    case LQ_REQUEST_TRANSFER:
        break;
    }
    return lq_err_set(err, LIGHTQ_EUNSUPPORTED, "this node does not know that change");
}

/* ---- executing ---- */

/* Not the controller's: the group's leader does it. */
static void transfer(struct lq_meta *meta, struct lq_job *job)
{
    const struct lq_replica *replica = lq_replicas_find(meta, job->request.group);
    const struct lq_catalog_partition *partition = lq_catalog_partition(meta->catalog, job->request.group);
    if (replica == NULL || replica->handle == NULL || partition == NULL || !lq_partition_leading(replica->partition)) {
        job->reply.leader = lq_meta_leader(meta, job->request.group).node;
        refuse(meta, job, LIGHTQ_ENOTLEADER, "this node does not lead that partition");
        return;
    }
    lq_replica_id to = 0;
    if (job->request.node == lq_meta_self(meta)) {
        settle(meta, job); /* it leads already */
        return;
    }
    if (job->request.node != 0) {
        const struct lq_catalog_replica *target = lq_catalog_replica_on(partition, job->request.node);
        if (target == NULL) {
            refuse(meta, job, LIGHTQ_ENOTFOUND, "that node has no replica of the partition");
            return;
        }
        to = lq_replica_make(target->node, target->incarnation);
    }
    lightq_status status = lq_group_transfer(replica->handle, to);
    if (status == LIGHTQ_OK) {
        settle(meta, job);
    } else {
        refuse(meta, job, status, "leadership cannot be handed over now");
    }
}

/* False: the log takes nothing now; @job waits. */
static bool execute(struct lq_meta *meta, struct lq_job *job)
{
    struct lq_catalog_command command;
    struct lq_err err = {.status = LIGHTQ_OK};
    uint8_t *placement = NULL;
    lightq_status status = judge(meta, job, &command, &placement, &err);
    if (status == LIGHTQ_OK) {
        status = lq_meta_propose(meta, &command, &meta->controller.proposed_index);
        if (status == LIGHTQ_OK) {
            meta->controller.proposed = job;
        } else if (status != LIGHTQ_EBUSY) {
            (void)lq_err_set(&err, status, "the meta group's log takes nothing: %s", lightq_status_text(status));
        }
    }
    free(placement);
    if (status != LIGHTQ_OK && status != LIGHTQ_EBUSY) {
        refuse(meta, job, status, err.text);
    }
    return status != LIGHTQ_EBUSY;
}

void lq_controller_take(struct lq_meta *meta, uint32_t node, const struct lq_letter_request *request)
{
    struct lq_controller *controller = &meta->controller;
    struct lq_job *job = controller->count < LQ_META_REQUESTS_MAX ? calloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        return; /* it is asked again */
    }
    controller->count++;
    job->node = node;
    job->request = *request;
    job->reply.uuid = request->uuid;
    if (controller->first == NULL) {
        controller->first = job;
    } else {
        controller->last->next = job;
    }
    controller->last = job;
}

void lq_controller_applied(struct lq_meta *meta, uint64_t index)
{
    struct lq_controller *controller = &meta->controller;
    struct lq_job *job = controller->proposed;
    controller->blocked = false;
    if (index >= controller->grow_index) {
        controller->grow_index = 0;
    }
    if (job == NULL || controller->proposed_index != index) {
        return;
    }
    const struct lq_catalog_outcome *outcome = lq_catalog_outcome(meta->catalog);
    controller->proposed = NULL;
    job->reply.version = outcome->version;
    job->reply.count = outcome->count;
    job->reply.incarnation = outcome->incarnation;
    refuse(meta, job, outcome->status, outcome->text); /* or not: OK is a status too */
}

void lq_controller_drop(struct lq_meta *meta)
{
    struct lq_controller *controller = &meta->controller;
    if (controller->proposed != NULL) {
        refuse_as_follower(meta, controller->proposed, LIGHTQ_ELEADERSHIPLOST);
        controller->proposed = NULL;
    }
    controller->blocked = false;
    controller->grow_index = 0;
}

static struct lq_job *pop(struct lq_controller *controller)
{
    struct lq_job *job = controller->first;
    if (job != NULL) {
        controller->first = job->next;
        job->next = NULL;
    }
    return job;
}

static void put_back(struct lq_controller *controller, struct lq_job *job)
{
    if (controller->first == NULL) {
        controller->last = job;
    }
    job->next = controller->first;
    controller->first = job;
}

static void execute_all(struct lq_meta *meta)
{
    struct lq_controller *controller = &meta->controller;
    while (controller->first != NULL && controller->proposed == NULL && !controller->blocked) {
        struct lq_job *job = pop(controller);
        if (job->request.verb == LQ_REQUEST_TRANSFER) {
            transfer(meta, job);
        } else if (!meta->leading) {
            refuse_as_follower(meta, job, LIGHTQ_ENOTLEADER);
        } else if (lq_catalog_version(meta->catalog) == 0) {
            refuse(meta, job, LIGHTQ_ENOTREADY, "the cluster is just being made");
        } else if (!execute(meta, job)) {
            put_back(controller, job);
            controller->blocked = true;
        }
    }
}

void lq_controller_turn(struct lq_meta *meta)
{
    struct lq_controller *controller = &meta->controller;
    execute_all(meta);
    while (controller->settled != NULL) {
        struct lq_job *job = controller->settled;
        controller->settled = job->next;
        controller->count--;
        answer(meta, job);
        free(job);
    }
}

bool lq_controller_needs_turn(const struct lq_meta *meta)
{
    const struct lq_controller *controller = &meta->controller;
    return controller->settled != NULL ||
           (controller->first != NULL && controller->proposed == NULL && !controller->blocked);
}

/* ---- what nobody asks for ---- */

/* A node that is up and has no replica of it: the one with the fewest; 0: none. */
static uint32_t spare_node(const struct lq_meta *meta, const struct lq_catalog_partition *partition)
{
    struct lq_placement_node nodes[LQ_FOUNDERS_MAX];
    uint32_t taken[LQ_REPLICAS_MAX];
    size_t up_count;
    size_t count = list_nodes(meta->catalog, is_up, meta, nodes, &up_count);
    struct shard_leaders leaders = {.shards = count_shards(meta->catalog)};
    count_loads(meta->catalog, nodes, count, &leaders);
    for (unsigned i = 0; i < partition->replica_count; i++) {
        taken[i] = partition->replicas[i].node;
    }
    uint32_t node = lq_place_replica(nodes, count, taken, partition->replica_count, partition->group);
    return node != 0 && lq_peers_up(meta, node) ? node : 0;
}

/* The first that has fewer replicas than wanted, and a leader, so that one can be added. A topic a tick is looked at
 * from where the last search ended. */
static const struct lq_catalog_partition *find_lacking(struct lq_meta *meta)
{
    struct lq_controller *controller = &meta->controller;
    size_t topics = lq_catalog_topic_count(meta->catalog);
    if (topics == 0) {
        return NULL;
    }
    const struct lq_catalog_topic *topic = lq_catalog_topic_at(meta->catalog, controller->grow_topic % topics);
    for (uint32_t p = 0; p < topic->partition_count; p++) {
        const struct lq_catalog_partition *partition = &topic->partitions[p];
        if (partition->replica_count < topic->replicas && lq_meta_leader(meta, partition->group).node != 0) {
            return partition;
        }
    }
    controller->grow_topic = (controller->grow_topic + 1) % topics;
    return NULL;
}

/* One replica at a time: the next when the one before is in the catalog. That it comes into its group, one step after
 * the other and not too many at once, is members.c's business. */
static void top_up(struct lq_meta *meta)
{
    struct lq_controller *controller = &meta->controller;
    if (controller->grow_index != 0 || controller->proposed != NULL || controller->first != NULL ||
        lq_catalog_version(meta->catalog) == 0) {
        return;
    }
    const struct lq_catalog_partition *partition = find_lacking(meta);
    uint32_t node = partition == NULL ? 0 : spare_node(meta, partition);
    if (node == 0) {
        controller->grow_topic += partition != NULL; /* nobody is there for it: another topic */
        return;
    }
    const struct lq_catalog_command command = {.type = LQ_CATALOG_GROW,
                                               .grow = {.group = partition->group, .node = node}};
    uint64_t index;
    if (lq_meta_propose(meta, &command, &index) == LIGHTQ_OK) {
        controller->grow_index = index;
        lq_log(INFO, "a partition lacks a replica and gets one", "group", partition->group, "node", node);
    }
}

/* The first command, from the founders; then replicas that are lacking. That servers follow the catalog is members.c's
 * business. */
void lq_controller_tick(struct lq_meta *meta)
{
    const struct lq_identity *identity = meta->options.identity;
    if (meta->leading && !meta->draining) {
        top_up(meta);
    }
    if (!meta->leading || lq_catalog_version(meta->catalog) != 0 || !identity->founder || meta->begin_asked) {
        return;
    }
    const struct lq_catalog_command command = {
        .type = LQ_CATALOG_BEGIN, .begin = {.cluster = identity->cluster, .founders = identity->proposal.founders}};
    uint64_t index;
    lightq_status status = lq_meta_propose(meta, &command, &index);
    if (status == LIGHTQ_OK) {
        meta->begin_asked = true;
        lq_log(INFO, "the cluster begins", "founders", identity->proposal.founders.count);
    }
}

void lq_controller_deinit(struct lq_meta *meta)
{
    struct lq_controller *controller = &meta->controller;
    struct lq_job *job;
    free(controller->proposed);
    while ((job = pop(controller)) != NULL) {
        free(job);
    }
    while ((job = controller->settled) != NULL) {
        controller->settled = job->next;
        free(job);
    }
}
