/* node/catalog_apply.c - what the commands of the meta group's log do to the catalog. Each is judged by the catalog as
 * it is then and nothing else, so every replica comes to the same; one that is refused changes nothing and leaves an
 * outcome for whoever proposed it. All can be sent again: what is done already is OK. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/catalog_command.h"
#include "node/catalog_internal.h"
#include "node/placement.h"

static void refuse(struct lq_catalog *catalog, lightq_status status, const char *format, ...) LQ_PRINTF(3, 4);

static void refuse(struct lq_catalog *catalog, lightq_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    catalog->outcome.status = status;
    (void)vsnprintf(catalog->outcome.text, sizeof catalog->outcome.text, format, arguments);
    va_end(arguments);
}

static void changed(struct lq_catalog *catalog, const struct lq_entry *entry)
{
    catalog->version = entry->index;
    catalog->outcome.version = entry->index;
}

/* ---- nodes ---- */

static size_t count_members(const struct lq_catalog *catalog, bool voters_only)
{
    size_t count = 0;
    assert(catalog->nodes != NULL || catalog->node_count == 0);
    for (size_t i = 0; i < catalog->node_count; i++) {
        const struct lq_catalog_node *node = &catalog->nodes[i];
        count += node->state != LQ_NODE_GONE && (node->meta_voter || !voters_only);
    }
    return count;
}

/* Voters of the meta group: an odd number of the members, at most five; who is one stays one while it is here. Lowest
 * ids first. With voters to spare (members left) nobody is demoted: fewer voters would not be safer. */
static void choose_voters(struct lq_catalog *catalog)
{
    size_t members = count_members(catalog, false);
    size_t wanted = members < LQ_META_VOTERS_MAX ? members : LQ_META_VOTERS_MAX;
    wanted -= wanted > 0 && wanted % 2 == 0;
    size_t voters = count_members(catalog, true);
    assert(catalog->nodes != NULL || catalog->node_count == 0);
    for (size_t i = 0; i < catalog->node_count && voters < wanted; i++) {
        struct lq_catalog_node *node = &catalog->nodes[i];
        if (node->state != LQ_NODE_GONE && !node->meta_voter) {
            node->meta_voter = true;
            voters++;
        }
    }
}

static lightq_status apply_begin(struct lq_catalog *catalog, const struct lq_entry *entry,
                                 const struct lq_catalog_command *command)
{
    if (catalog->version != 0) {
        bool same = lq_id_equal(&catalog->cluster, &command->begin.cluster);
        refuse(catalog, same ? LIGHTQ_OK : LIGHTQ_EEXISTS, "%s", same ? "" : "the cluster exists already");
        return LIGHTQ_OK;
    }
    for (uint32_t i = 0; i < command->begin.founders.count; i++) {
        const struct lq_founder *founder = &command->begin.founders.at[i];
        struct lq_catalog_node *node = lq_catalog_add_node(catalog, founder->node);
        if (node == NULL) {
            return LIGHTQ_ENOMEM;
        }
        node->state = LQ_NODE_ACTIVE;
        node->uuid = founder->uuid;
        node->client = founder->client;
        node->peer = founder->peer;
        node->meta_incarnation = LQ_INCARNATION_FOUNDER;
        node->shards = 1;
    }
    catalog->cluster = command->begin.cluster;
    choose_voters(catalog);
    changed(catalog, entry);
    return LIGHTQ_OK;
}

static const struct lq_catalog_node *find_uuid(const struct lq_catalog *catalog, const struct lq_id *uuid)
{
    for (size_t i = 0; i < catalog->node_count; i++) {
        if (lq_id_equal(&catalog->nodes[i].uuid, uuid)) {
            return &catalog->nodes[i];
        }
    }
    return NULL;
}

static bool same_endpoint(const struct lq_endpoint *a, const struct lq_endpoint *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Takes over what a node says of itself. */
static void describe(struct lq_catalog *catalog, const struct lq_entry *entry, struct lq_catalog_node *node,
                     const struct lq_catalog_command *command)
{
    if (node->boot >= command->node.boot && node->shards == command->node.shards &&
        same_endpoint(&node->client, &command->node.client) && same_endpoint(&node->peer, &command->node.peer)) {
        return; /* nothing new: nothing is written and nobody is told */
    }
    if (node->boot < command->node.boot) {
        node->boot = command->node.boot;
    }
    node->client = command->node.client;
    node->peer = command->node.peer;
    node->shards = command->node.shards;
    changed(catalog, entry);
}

static lightq_status join_new(struct lq_catalog *catalog, const struct lq_entry *entry, struct lq_catalog_node *node,
                              const struct lq_catalog_command *command)
{
    if (count_members(catalog, false) >= LQ_FOUNDERS_MAX || catalog->node_count >= LQ_CATALOG_NODES_MAX) {
        refuse(catalog, LIGHTQ_ELIMIT, "a cluster has at most %d nodes", LQ_FOUNDERS_MAX);
        return LIGHTQ_OK;
    }
    if (node == NULL) {
        node = lq_catalog_add_node(catalog, command->node.id);
        if (node == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    *node = (struct lq_catalog_node){.id = command->node.id,
                                     .state = LQ_NODE_ACTIVE,
                                     .uuid = command->node.uuid,
                                     .boot = command->node.boot,
                                     .client = command->node.client,
                                     .peer = command->node.peer,
                                     .shards = command->node.shards,
                                     .meta_incarnation = catalog->meta_next_incarnation++};
    choose_voters(catalog);
    catalog->outcome.incarnation = node->meta_incarnation;
    changed(catalog, entry);
    return LIGHTQ_OK;
}

static lightq_status apply_join(struct lq_catalog *catalog, const struct lq_entry *entry,
                                const struct lq_catalog_command *command)
{
    struct lq_catalog_node *node = lq_catalog_find_node(catalog, command->node.id);
    const struct lq_catalog_node *owner = find_uuid(catalog, &command->node.uuid);
    if (owner != NULL && (owner != node || owner->state == LQ_NODE_GONE)) {
        refuse(catalog, LIGHTQ_EIDENTITY, "that data directory was node %u's, which %s", owner->id,
               owner->state == LQ_NODE_GONE ? "was replaced; empty it" : "is another one");
        return LIGHTQ_OK;
    }
    if (node == NULL || node->state == LQ_NODE_GONE) {
        return join_new(catalog, entry, node, command);
    }
    if (node->state == LQ_NODE_AWAITED) {
        node->state = LQ_NODE_ACTIVE;
        node->uuid = command->node.uuid;
        node->boot = 0;
        describe(catalog, entry, node, command);
        changed(catalog, entry);
    } else if (owner == node) {
        describe(catalog, entry, node, command);
    } else {
        refuse(catalog, LIGHTQ_EIDENTITY,
               "node %u is known with another data directory; if that one is lost for good, say: lightq node replace "
               "%u %u",
               node->id, node->id, node->id);
        return LIGHTQ_OK;
    }
    catalog->outcome.incarnation = node->meta_incarnation;
    return LIGHTQ_OK;
}

static lightq_status apply_update(struct lq_catalog *catalog, const struct lq_entry *entry,
                                  const struct lq_catalog_command *command)
{
    struct lq_catalog_node *node = lq_catalog_find_node(catalog, command->node.id);
    if (node == NULL || node->state != LQ_NODE_ACTIVE || !lq_id_equal(&node->uuid, &command->node.uuid)) {
        refuse(catalog, LIGHTQ_EIDENTITY, "node %u is not that data directory", command->node.id);
        return LIGHTQ_OK;
    }
    describe(catalog, entry, node, command);
    return LIGHTQ_OK;
}

/* ---- replicas ---- */

static struct lq_catalog_replica *replica_on(struct lq_catalog_partition *partition, uint32_t node)
{
    for (unsigned i = 0; i < partition->replica_count; i++) {
        if (partition->replicas[i].node == node) {
            return &partition->replicas[i];
        }
    }
    return NULL;
}

static size_t count_loads(const struct lq_catalog *catalog, struct lq_placement_node *loads)
{
    size_t count = 0;
    for (size_t i = 0; i < catalog->node_count; i++) {
        if (catalog->nodes[i].state == LQ_NODE_ACTIVE) {
            loads[count++] = (struct lq_placement_node){.id = catalog->nodes[i].id};
        }
    }
    for (size_t t = 0; t < catalog->topic_count; t++) {
        for (uint32_t p = 0; p < catalog->topics[t]->shown.partition_count; p++) {
            for (size_t i = 0; i < count; i++) {
                loads[i].replicas += replica_on(&catalog->topics[t]->partitions[p], loads[i].id) != NULL;
            }
        }
    }
    return count;
}

/* The replica goes from @old to @new, or, when @new has one already, to the node with the fewest, or away. */
static void move_replica(struct lq_catalog_partition *partition, struct lq_catalog_replica *replica, uint32_t new_node,
                         struct lq_placement_node *loads, size_t load_count)
{
    uint32_t target = new_node;
    if (replica_on(partition, new_node) != NULL) {
        uint32_t taken[LQ_REPLICAS_MAX];
        for (unsigned i = 0; i < partition->replica_count; i++) {
            taken[i] = partition->replicas[i].node;
        }
        target = lq_place_replica(loads, load_count, taken, partition->replica_count, partition->group);
    }
    if (target == 0) { /* fewer nodes than wanted replicas */
        struct lq_catalog_replica *last = &partition->replicas[--partition->replica_count];
        memmove(replica, replica + 1, (size_t)(last - replica) * sizeof *replica);
        *last = (struct lq_catalog_replica){.node = 0};
        return;
    }
    *replica = (struct lq_catalog_replica){.node = target, .incarnation = partition->next_incarnation++};
}

static uint32_t replace_replicas(struct lq_catalog *catalog, uint32_t old_node, uint32_t new_node, uint64_t version)
{
    struct lq_placement_node loads[LQ_FOUNDERS_MAX];
    size_t load_count = old_node == new_node ? 0 : count_loads(catalog, loads);
    uint32_t count = 0;
    for (size_t t = 0; t < catalog->topic_count; t++) {
        struct topic *topic = catalog->topics[t];
        for (uint32_t p = 0; p < topic->shown.partition_count; p++) {
            struct lq_catalog_partition *partition = &topic->partitions[p];
            struct lq_catalog_replica *replica = replica_on(partition, old_node);
            if (replica == NULL) {
                continue;
            }
            if (old_node == new_node) {
                replica->incarnation = partition->next_incarnation++;
            } else {
                move_replica(partition, replica, new_node, loads, load_count);
            }
            topic->shown.version = version;
            count++;
        }
    }
    return count;
}

static lightq_status apply_replace(struct lq_catalog *catalog, const struct lq_entry *entry,
                                   const struct lq_catalog_command *command)
{
    uint32_t old_id = command->replace.old_node;
    uint32_t new_id = command->replace.new_node;
    struct lq_catalog_node *old_node = lq_catalog_find_node(catalog, old_id);
    const struct lq_catalog_node *new_node = lq_catalog_find_node(catalog, new_id);
    if (old_node == NULL || new_node == NULL) {
        refuse(catalog, LIGHTQ_ENOTFOUND, "there is no node %u", old_node == NULL ? old_id : new_id);
        return LIGHTQ_OK;
    }
    bool done = !lq_id_equal(&old_node->uuid, &command->replace.old_uuid) || old_node->state == LQ_NODE_GONE;
    if (done) {
        return LIGHTQ_OK; /* sent again: it has happened */
    }
    if (old_id == new_id) {
        if (old_node->state == LQ_NODE_AWAITED) {
            return LIGHTQ_OK;
        }
        old_node->state = LQ_NODE_AWAITED;
        old_node->uuid = (struct lq_id){.bytes = {0}};
        old_node->meta_incarnation = catalog->meta_next_incarnation++;
    } else if (new_node->state != LQ_NODE_ACTIVE) {
        refuse(catalog, LIGHTQ_ECONFLICT, "node %u is not at work: start it first", new_id);
        return LIGHTQ_OK;
    } else {
        old_node->state = LQ_NODE_GONE;
        old_node->meta_incarnation = 0;
        old_node->meta_voter = false;
        choose_voters(catalog);
    }
    catalog->outcome.count = replace_replicas(catalog, old_id, new_id, entry->index);
    changed(catalog, entry);
    return LIGHTQ_OK;
}

static lightq_status apply_rebuild(struct lq_catalog *catalog, const struct lq_entry *entry,
                                   const struct lq_catalog_command *command)
{
    struct lq_catalog_node *node = lq_catalog_find_node(catalog, command->rebuild.node);
    struct lq_catalog_partition *partition = lq_catalog_find_partition(catalog, command->rebuild.group);
    struct lq_catalog_replica *replica = partition == NULL ? NULL : replica_on(partition, command->rebuild.node);
    bool meta = command->rebuild.group == LQ_META_GROUP;
    if (node == NULL || (meta ? node->meta_incarnation == 0 : replica == NULL)) {
        refuse(catalog, LIGHTQ_ENOTFOUND, "node %u has no replica of group %llu", command->rebuild.node,
               (unsigned long long)command->rebuild.group);
        return LIGHTQ_OK;
    }
    uint32_t *incarnation = meta ? &node->meta_incarnation : &replica->incarnation;
    if (*incarnation == command->rebuild.incarnation) {
        *incarnation = meta ? catalog->meta_next_incarnation++ : partition->next_incarnation++;
        if (!meta) {
            lq_catalog_find_topic(catalog, &partition->topic->uuid)->shown.version = entry->index;
        }
        catalog->outcome.count = 1;
        changed(catalog, entry);
    }
    catalog->outcome.incarnation = *incarnation; /* also when it was asked for before */
    return LIGHTQ_OK;
}

static lightq_status apply_grow(struct lq_catalog *catalog, const struct lq_entry *entry,
                                const struct lq_catalog_command *command)
{
    const struct lq_catalog_node *node = lq_catalog_find_node(catalog, command->grow.node);
    struct lq_catalog_partition *partition = lq_catalog_find_partition(catalog, command->grow.group);
    if (node == NULL || node->state != LQ_NODE_ACTIVE || partition == NULL) {
        refuse(catalog, LIGHTQ_ENOTFOUND, "node %u or group %llu is not there", command->grow.node,
               (unsigned long long)command->grow.group);
        return LIGHTQ_OK;
    }
    if (replica_on(partition, node->id) != NULL || partition->replica_count >= partition->topic->replicas) {
        return LIGHTQ_OK; /* sent again: it has happened, or is not needed any more */
    }
    partition->replicas[partition->replica_count++] =
        (struct lq_catalog_replica){.node = node->id, .incarnation = partition->next_incarnation++};
    lq_catalog_find_topic(catalog, &partition->topic->uuid)->shown.version = entry->index;
    catalog->outcome.count = 1;
    changed(catalog, entry);
    return LIGHTQ_OK;
}

/* ---- topics ---- */

/* Node ids of 2 bytes, @replicas for each of @partitions, as commands hold them. */
struct plan {
    const uint8_t *at;
    uint32_t partitions;
    uint8_t replicas;
};

/* The nodes of each partition are different and at work. */
static bool plan_is_good(const struct lq_catalog *catalog, struct plan plan)
{
    for (uint32_t p = 0; p < plan.partitions; p++, plan.at += 2 * (size_t)plan.replicas) {
        for (unsigned i = 0; i < plan.replicas; i++) {
            const struct lq_catalog_node *node = lq_catalog_find_node(catalog, lq_get_u16(plan.at + 2 * (size_t)i));
            if (node == NULL || node->state == LQ_NODE_GONE) {
                return false;
            }
            for (unsigned k = 0; k < i; k++) {
                if (lq_get_u16(plan.at + 2 * (size_t)k) == node->id) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Fills partitions with the next groups, numbers from @first on, and the replicas of @plan. */
static void place(const struct lq_catalog *catalog, struct plan plan, uint32_t first,
                  struct lq_catalog_partition *partitions)
{
    for (uint32_t p = 0; p < plan.partitions; p++) {
        struct lq_catalog_partition *partition = &partitions[p];
        *partition = (struct lq_catalog_partition){.group = catalog->next_group + p,
                                                   .number = first + p,
                                                   .next_incarnation = LQ_INCARNATION_FOUNDER + 1,
                                                   .replica_count = plan.replicas};
        for (unsigned i = 0; i < plan.replicas; i++, plan.at += 2) {
            partition->replicas[i] =
                (struct lq_catalog_replica){.node = lq_get_u16(plan.at), .incarnation = LQ_INCARNATION_FOUNDER};
        }
    }
}

static struct topic *make_topic(const struct lq_catalog *catalog, const struct lq_catalog_command *command,
                                uint64_t version)
{
    struct topic *topic = lq_topic_new(command->create.partitions);
    if (topic == NULL) {
        return NULL;
    }
    topic->shown.uuid = command->create.uuid;
    topic->shown.version = version;
    topic->shown.replicas = command->create.replicas;
    topic->shown.config = command->create.config;
    memcpy(topic->shown.name, command->create.name, sizeof topic->shown.name);
    const struct plan plan = {command->create.placement, command->create.partitions, command->create.replicas};
    place(catalog, plan, 0, topic->partitions);
    return topic;
}

static lightq_status apply_create(struct lq_catalog *catalog, const struct lq_entry *entry,
                                  const struct lq_catalog_command *command)
{
    const struct lq_catalog_topic *there = lq_catalog_topic(catalog, command->create.name);
    const struct plan plan = {command->create.placement, command->create.partitions, command->create.replicas};
    if (there != NULL && lq_id_equal(&there->uuid, &command->create.uuid)) {
        catalog->outcome.count = there->partition_count;
        return LIGHTQ_OK; /* sent again: it has happened */
    }
    if (there != NULL || lq_catalog_find_topic(catalog, &command->create.uuid) != NULL) {
        refuse(catalog, LIGHTQ_EEXISTS, "topic %s exists already", command->create.name);
    } else if (catalog->topic_count >= LQ_TOPICS_MAX ||
               catalog->partition_count + command->create.partitions > LQ_CLUSTER_PARTITIONS_MAX) {
        refuse(catalog, LIGHTQ_ELIMIT, "a cluster has at most %d topics and %u partitions", LQ_TOPICS_MAX,
               LQ_CLUSTER_PARTITIONS_MAX);
    } else if (!plan_is_good(catalog, plan)) {
        refuse(catalog, LIGHTQ_ECONFLICT, "the nodes changed while topic %s was placed: try again",
               command->create.name);
    } else {
        struct topic *topic = make_topic(catalog, command, entry->index);
        if (topic == NULL) {
            return LIGHTQ_ENOMEM;
        }
        lightq_status status = lq_catalog_add_topic(catalog, topic);
        if (status != LIGHTQ_OK) {
            lq_topic_free(topic);
            return status;
        }
        catalog->next_group += command->create.partitions;
        catalog->outcome.count = command->create.partitions;
        changed(catalog, entry);
    }
    return LIGHTQ_OK;
}

static lightq_status apply_delete(struct lq_catalog *catalog, const struct lq_entry *entry,
                                  const struct lq_catalog_command *command)
{
    struct topic *topic = lq_catalog_find_topic(catalog, &command->drop.uuid);
    if (topic == NULL) {
        refuse(catalog, LIGHTQ_ENOTFOUND, "there is no such topic");
        return LIGHTQ_OK;
    }
    catalog->outcome.count = topic->shown.partition_count;
    lq_catalog_remove_topic(catalog, topic);
    changed(catalog, entry);
    return LIGHTQ_OK;
}

/* Whether the partitions that @command adds are still to be added: not when it is sent again. */
static bool adds(const struct topic *topic, const struct lq_catalog_command *command)
{
    return command->alter.added > 0 && topic->shown.partition_count < command->alter.first + command->alter.added;
}

/* Why they cannot be: the outcome says it. */
static bool refuses_growth(struct lq_catalog *catalog, const struct topic *topic,
                           const struct lq_catalog_command *command)
{
    const struct plan plan = {command->alter.placement, command->alter.added, command->alter.replicas};
    if (topic->shown.partition_count != command->alter.first || topic->shown.replicas != command->alter.replicas ||
        !plan_is_good(catalog, plan)) {
        refuse(catalog, LIGHTQ_ECONFLICT, "the cluster changed while partitions of topic %s were placed: try again",
               topic->shown.name);
        return true;
    }
    if (catalog->partition_count + command->alter.added > LQ_CLUSTER_PARTITIONS_MAX) {
        refuse(catalog, LIGHTQ_ELIMIT, "a cluster has at most %u partitions", LQ_CLUSTER_PARTITIONS_MAX);
        return true;
    }
    return false;
}

static lightq_status add_partitions(struct lq_catalog *catalog, struct topic *topic,
                                    const struct lq_catalog_command *command)
{
    const struct plan plan = {command->alter.placement, command->alter.added, command->alter.replicas};
    struct lq_catalog_partition *added = calloc(plan.partitions, sizeof *added);
    if (added == NULL) {
        return LIGHTQ_ENOMEM;
    }
    place(catalog, plan, command->alter.first, added);
    lightq_status status = lq_catalog_grow_topic(catalog, topic, added, plan.partitions);
    free(added);
    if (status == LIGHTQ_OK) {
        catalog->next_group += plan.partitions;
    }
    return status;
}

/* All of it, or nothing. */
static lightq_status apply_alter(struct lq_catalog *catalog, const struct lq_entry *entry,
                                 const struct lq_catalog_command *command)
{
    struct topic *topic = lq_catalog_find_topic(catalog, &command->alter.uuid);
    if (topic == NULL) {
        refuse(catalog, LIGHTQ_ENOTFOUND, "there is no such topic");
        return LIGHTQ_OK;
    }
    bool grows = adds(topic, command);
    if (grows && refuses_growth(catalog, topic, command)) {
        return LIGHTQ_OK;
    }
    if (grows) {
        lightq_status status = add_partitions(catalog, topic, command);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    if (lq_topic_config_merge(&topic->shown.config, &command->alter.config, command->alter.mask) || grows) {
        topic->shown.version = entry->index;
        changed(catalog, entry);
    }
    catalog->outcome.count = topic->shown.partition_count;
    return LIGHTQ_OK;
}

/* ---- all ---- */

static lightq_status apply_command(struct lq_catalog *catalog, const struct lq_entry *entry)
{
    struct lq_catalog_command command;
    lightq_status status = lq_catalog_command_decode(entry->payload, entry->payload_size, &command);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (catalog->version == 0 && command.type != LQ_CATALOG_BEGIN) {
        refuse(catalog, LIGHTQ_ENOTREADY, "the cluster has not begun");
        return LIGHTQ_OK;
    }
    switch (command.type) {
    case LQ_CATALOG_BEGIN:
        return apply_begin(catalog, entry, &command);
    case LQ_CATALOG_JOIN:
        return apply_join(catalog, entry, &command);
    case LQ_CATALOG_UPDATE:
        return apply_update(catalog, entry, &command);
    case LQ_CATALOG_REPLACE:
        return apply_replace(catalog, entry, &command);
    case LQ_CATALOG_CREATE:
        return apply_create(catalog, entry, &command);
    case LQ_CATALOG_DELETE:
        return apply_delete(catalog, entry, &command);
    case LQ_CATALOG_REBUILD:
        return apply_rebuild(catalog, entry, &command);
    case LQ_CATALOG_GROW:
        return apply_grow(catalog, entry, &command);
    case LQ_CATALOG_ALTER:
        return apply_alter(catalog, entry, &command);
    }
    return LIGHTQ_ECORRUPT;
}

lightq_status lq_catalog_apply(struct lq_catalog *catalog, const struct lq_entry *entry)
{
    if (entry->index != catalog->applied_index + 1 || entry->term < catalog->applied_term) {
        return LIGHTQ_ECORRUPT;
    }
    catalog->outcome =
        (struct lq_catalog_outcome){.index = entry->index, .status = LIGHTQ_OK, .version = catalog->version};
    if (entry->type == LQ_ENTRY_COMMAND) {
        lightq_status status = apply_command(catalog, entry);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    catalog->applied_index = entry->index;
    catalog->applied_term = entry->term;
    return LIGHTQ_OK;
}
