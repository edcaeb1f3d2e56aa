/* client/cli/print.c - see print.h. */
#include "client/cli/print.h"

#include <inttypes.h>
#include <stdio.h>

#define DIGEST_BYTES 17
#define MIB          (1024u * 1024)

void print_object(json_t *object)
{
    if (object != NULL) {
        json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
        putchar('\n');
        json_decref(object);
    }
}

void print_done(bool json, const char *what, const char *kind, const char *name)
{
    if (json) {
        print_object(json_pack("{s:s, s:b}", kind, name, what, 1));
    } else {
        printf("%s %s %s\n", kind, name, what);
    }
}

void print_altered(bool json, const char *topic, uint32_t partitions)
{
    if (json) {
        print_object(json_pack("{s:s, s:b, s:I}", "topic", topic, "altered", 1, "partitions", (json_int_t)partitions));
    } else {
        printf("topic %s altered: %u partitions\n", topic, partitions);
    }
}

void print_purged(bool json, const char *topic, int32_t partition, const struct lightq_purged *purged)
{
    bool held = purged->start < purged->offset;
    if (json) {
        print_object(json_pack("{s:s, s:I, s:I, s:I, s:b}", "topic", topic, "partition", (json_int_t)partition,
                               "log_start", (json_int_t)purged->start, "log_end", (json_int_t)purged->end, "held",
                               (int)held));
        return;
    }
    printf("%s/%d begins at offset %" PRId64 " now and ends at %" PRId64 "\n", topic, partition, purged->start,
           purged->end);
    if (held) {
        printf("  messages from there to %" PRId64
               " are held by dead letters that are not stored yet; `lightq group list %s`, and try again\n",
               purged->offset, topic);
    }
}

void print_replaced(bool json, uint32_t old_node, uint32_t new_node, uint32_t replicas)
{
    if (json) {
        print_object(json_pack("{s:I, s:I, s:I}", "old", (json_int_t)old_node, "new", (json_int_t)new_node, "replicas",
                               (json_int_t)replicas));
    } else {
        printf("node %u takes the place of node %u; %u replicas are rebuilt\n", new_node, old_node, replicas);
    }
}

void print_transferred(bool json, const char *topic, uint32_t partition, uint32_t node)
{
    if (json) {
        print_object(json_pack("{s:s, s:I, s:I}", "topic", topic, "partition", (json_int_t)partition, "leader",
                               (json_int_t)node));
    } else {
        printf("node %u leads %s/%u\n", node, topic, partition);
    }
}

/* ---- JSON */

/* 64 bits do not fit into every reader's numbers: 16 hexadecimal digits. */
static const char *digest_text(uint64_t digest, char text[DIGEST_BYTES])
{
    snprintf(text, DIGEST_BYTES, "%016" PRIx64, digest);
    return text;
}

static json_t *replica_object(const struct lightq_replica_info *replica)
{
    char digest[DIGEST_BYTES];
    return json_pack("{s:I, s:I, s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "node",
                     (json_int_t)replica->node, "incarnation", (json_int_t)replica->incarnation, "role", replica->role,
                     "online", (int)replica->online, "health", replica->health, "first_index",
                     (json_int_t)replica->first_index, "last_index", (json_int_t)replica->last_index, "durable_index",
                     (json_int_t)replica->durable_index, "commit_index", (json_int_t)replica->commit_index,
                     "applied_index", (json_int_t)replica->applied_index, "log_start",
                     (json_int_t)replica->start_offset, "log_end", (json_int_t)replica->end_offset, "digest",
                     digest_text(replica->digest, digest), "digest_to", (json_int_t)replica->digest_offset);
}

static json_t *partition_object(const struct lightq_partition_info *partition)
{
    json_t *replicas = json_array();
    for (size_t i = 0; i < partition->replica_count; i++) {
        json_array_append_new(replicas, replica_object(&partition->replicas[i]));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:s, s:o}", "partition", (json_int_t)partition->partition, "group",
                     (json_int_t)partition->group, "leader", (json_int_t)partition->leader, "term",
                     (json_int_t)partition->term, "state", partition->state, "replicas", replicas);
}

static json_t *topic_object(const struct lightq_topic_info *info)
{
    json_t *config = json_object();
    json_t *partitions = json_array();
    for (size_t i = 0; i < info->config_count; i++) {
        json_object_set_new(config, info->config[i].key, json_string(info->config[i].value));
    }
    for (size_t i = 0; info->partitions != NULL && i < info->partition_count; i++) {
        json_array_append_new(partitions, partition_object(&info->partitions[i]));
    }
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "topic", info->name, "id", info->id, "partition_count",
                     (json_int_t)info->partition_count, "replicas", (json_int_t)info->replica_count, "config", config,
                     "partitions", partitions);
}

static json_t *node_object(const struct lightq_node_info *node)
{
    json_t *endpoints = json_array();
    for (size_t i = 0; i < node->endpoint_count; i++) {
        json_array_append_new(endpoints, json_string(node->endpoints[i]));
    }
    return json_pack("{s:I, s:s, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "node", (json_int_t)node->node, "id",
                     node->id, "endpoints", endpoints, "peer_endpoint", node->peer_endpoint, "state", node->state,
                     "version", node->version, "free_bytes", (json_int_t)node->free_bytes, "total_bytes",
                     (json_int_t)node->total_bytes, "partitions", (json_int_t)node->partitions, "leaders",
                     (json_int_t)node->leaders);
}

static json_t *unhealthy_object(const struct lightq_unhealthy *unhealthy)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:s}", "topic", unhealthy->topic, "partition",
                     (json_int_t)unhealthy->partition, "group", (json_int_t)unhealthy->group, "node",
                     (json_int_t)unhealthy->node, "text", unhealthy->text);
}

static json_t *cluster_object(const struct lightq_cluster_info *info, struct lightq_topic_info *const *topics,
                              size_t topic_count)
{
    json_t *nodes = json_array();
    json_t *unhealthy = json_array();
    json_t *described = json_array();
    for (size_t i = 0; i < info->node_count; i++) {
        json_array_append_new(nodes, node_object(&info->nodes[i]));
    }
    for (size_t i = 0; i < info->unhealthy_count; i++) {
        json_array_append_new(unhealthy, unhealthy_object(&info->unhealthy[i]));
    }
    for (size_t i = 0; i < topic_count; i++) {
        json_array_append_new(described, topic_object(topics[i]));
    }
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:o, s:o}", "cluster", info->id, "controller",
                               (json_int_t)info->controller, "term", (json_int_t)info->term, "version",
                               (json_int_t)info->version, "nodes", nodes, "topic_count", (json_int_t)info->topic_count,
                               "partition_count", (json_int_t)info->partition_count, "partitions_without_leader",
                               (json_int_t)info->leaderless_count, "unhealthy", unhealthy, "topics", described);
    if (object != NULL && info->catalog != NULL) {
        json_object_set_new(object, "catalog", partition_object(info->catalog));
    }
    return object;
}

/* ---- text */

static void text_partitions(const struct lightq_partition_info *partitions, size_t count)
{
    char digest[DIGEST_BYTES];
    printf("  %-9s %-6s %-5s %-11s %-7s %-9s %-7s %12s %12s %12s %12s %12s %12s %12s  %s\n", "partition", "leader",
           "term", "state", "replica", "role", "online", "first", "last", "durable", "committed", "applied", "start",
           "end", "digest");
    for (size_t i = 0; i < count; i++) {
        const struct lightq_partition_info *partition = &partitions[i];
        for (size_t j = 0; j < partition->replica_count; j++) {
            const struct lightq_replica_info *replica = &partition->replicas[j];
            printf("  %-9u %-6u %-5" PRIu64 " %-11s %-7u %-9s %-7s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
                   " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "  %s\n",
                   partition->partition, partition->leader, partition->term, partition->state, replica->node,
                   replica->role, replica->online ? "yes" : "no", replica->first_index, replica->last_index,
                   replica->durable_index, replica->commit_index, replica->applied_index, replica->start_offset,
                   replica->end_offset, digest_text(replica->digest, digest));
        }
    }
}

static void text_topic(const struct lightq_topic_info *info)
{
    printf("topic %s: %u partitions, %u replicas, id %s\n", info->name, info->partition_count, info->replica_count,
           info->id);
    for (size_t i = 0; i < info->config_count; i++) {
        printf("  %s=%s\n", info->config[i].key, info->config[i].value);
    }
    if (info->partitions != NULL) {
        text_partitions(info->partitions, info->partition_count);
    }
}

static void text_cluster(const struct lightq_cluster_info *info, struct lightq_topic_info *const *topics,
                         size_t topic_count)
{
    printf("cluster %s: controller node %u, term %" PRIu64 "; %u topics, %u partitions, %u without a leader\n",
           info->id, info->controller, info->term, info->topic_count, info->partition_count, info->leaderless_count);
    for (size_t i = 0; i < info->node_count; i++) {
        const struct lightq_node_info *node = &info->nodes[i];
        printf("  node %-5u %-8s %-24s peer %-24s leads %u of %u, %" PRIu64 " of %" PRIu64 " MiB free\n", node->node,
               node->state, node->endpoint_count > 0 ? node->endpoints[0] : "", node->peer_endpoint, node->leaders,
               node->partitions, node->free_bytes / MIB, node->total_bytes / MIB);
    }
    if (info->catalog != NULL) {
        printf("catalog\n");
        text_partitions(info->catalog, 1);
    }
    for (size_t i = 0; i < topic_count; i++) {
        text_topic(topics[i]);
    }
    for (size_t i = 0; i < info->unhealthy_count; i++) {
        const struct lightq_unhealthy *unhealthy = &info->unhealthy[i];
        printf("not well: %s/%u on node %u: %s\n", unhealthy->topic[0] != '\0' ? unhealthy->topic : "catalog",
               unhealthy->partition, unhealthy->node, unhealthy->text);
    }
}

/* ---- */

void print_topic_list(bool json, const struct lightq_topic_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct lightq_topic_info *topic = &list->topics[i];
        if (json) {
            print_object(json_pack("{s:s, s:s, s:I, s:I}", "topic", topic->name, "id", topic->id, "partitions",
                                   (json_int_t)topic->partition_count, "replicas", (json_int_t)topic->replica_count));
        } else {
            printf("%s\t%u partitions\t%u replicas\n", topic->name, topic->partition_count, topic->replica_count);
        }
    }
}

void print_topic(bool json, const struct lightq_topic_info *info)
{
    if (json) {
        print_object(topic_object(info));
    } else {
        text_topic(info);
    }
}

void print_cluster(bool json, const struct lightq_cluster_info *info, struct lightq_topic_info *const *topics,
                   size_t topic_count)
{
    if (json) {
        print_object(cluster_object(info, topics, topic_count));
    } else {
        text_cluster(info, topics, topic_count);
    }
}
