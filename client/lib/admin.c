/* client/lib/admin.c - lightq/admin.h and lightq_offset: each function asks one question (call.h) and turns the answer
 * into plain structs. Any thread. */
#include <stdio.h>
#include <string.h>

#include <lightq/admin.h>

#include "client/lib/call.h"
#include "client/lib/error.h"
#include "client/lib/result.h"
#include "client/lib/start.h"

#define LIST_PAGES_MAX 65536 /* a server that always says "more" is not believed for ever */

/* ---- asking */

static struct lq_call call_of(struct lightq *client, uint16_t type, ProtobufCMessage *body)
{
    return (struct lq_call){.client = client, .type = type, .body = body};
}

/* Asks, and gives the answer (to be freed with lq_codec_free) or the error. */
static lightq_status ask(struct lq_call *call, int timeout_ms, void **answer, struct lightq_error *error)
{
    lightq_status status = lq_call_run(call, timeout_ms);
    if (status != LIGHTQ_OK) {
        lq_codec_free(call->answer);
        if (error != NULL) {
            *error = call->error;
        }
        return status;
    }
    *answer = call->answer;
    return LIGHTQ_OK;
}

/* Asks for something to be done; the answer says no more than that it is. */
static lightq_status order(struct lq_call *call, int timeout_ms, struct lightq_error *error)
{
    void *answer = NULL;
    lightq_status status = ask(call, timeout_ms, &answer, error);
    lq_codec_free(answer);
    return status;
}

static uint32_t wire_timeout(const struct lightq *client, int timeout_ms)
{
    return timeout_ms < 0 ? (uint32_t)client->io.options.request_timeout_ms : (uint32_t)timeout_ms;
}

/* Refused before anything is sent. */
static lightq_status check(const struct lightq *client, const char *topic, struct lightq_error *error)
{
    if (lq_client_forked(client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    if (topic != NULL && lq_topic_name_check(topic) != LIGHTQ_OK) {
        return lq_error_plain(error, LIGHTQ_ENAME);
    }
    return LIGHTQ_OK;
}

/* ---- from the wire to plain structs. NULL or false: out of memory. */

static void copy_id(char text[33], const ProtobufCBinaryData *field)
{
    struct lq_id id;
    text[0] = '\0';
    if (lq_codec_id(field, &id) == LIGHTQ_OK) {
        lq_id_format(&id, text);
    }
}

static const char *role_text(uint32_t role)
{
    switch (role) {
    case LIGHTQ__WIRE__REPLICA_ROLE__ROLE_LEADER:
        return "leader";
    case LIGHTQ__WIRE__REPLICA_ROLE__ROLE_FOLLOWER:
        return "follower";
    case LIGHTQ__WIRE__REPLICA_ROLE__ROLE_CANDIDATE:
        return "candidate";
    case LIGHTQ__WIRE__REPLICA_ROLE__ROLE_STANDBY:
        return "standby";
    default:
        return "unknown";
    }
}

static const char *partition_state_text(uint32_t state)
{
    switch (state) {
    case LIGHTQ__WIRE__PARTITION_STATE__PARTITION_OK:
        return "ok";
    case LIGHTQ__WIRE__PARTITION_STATE__PARTITION_DEGRADED:
        return "degraded";
    case LIGHTQ__WIRE__PARTITION_STATE__PARTITION_UNAVAILABLE:
        return "unavailable";
    default:
        return "unknown";
    }
}

static const char *node_state_text(uint32_t state)
{
    switch (state) {
    case LIGHTQ__WIRE__NODE_STATE__NODE_UP:
        return "up";
    case LIGHTQ__WIRE__NODE_STATE__NODE_DOWN:
        return "down";
    case LIGHTQ__WIRE__NODE_STATE__NODE_DRAINING:
        return "draining";
    case LIGHTQ__WIRE__NODE_STATE__NODE_GONE:
        return "gone";
    default:
        return "unknown";
    }
}

static bool copy_replica(void *result, struct lightq_replica_info *to, const Lightq__Wire__ReplicaInfo *from)
{
    *to = (struct lightq_replica_info){
        .node = from->node,
        .incarnation = from->incarnation,
        .role = role_text(from->role),
        .online = from->online,
        .health = lq_result_text(result, from->health),
        .first_index = from->first_index,
        .last_index = from->last_index,
        .durable_index = from->durable_index,
        .commit_index = from->commit_index,
        .applied_index = from->applied_index,
        .start_offset = from->log_start,
        .end_offset = from->log_end,
        .digest = from->digest,
        .digest_offset = from->digest_to,
    };
    return to->health != NULL;
}

static bool copy_partition(void *result, struct lightq_partition_info *to, const Lightq__Wire__PartitionDetail *from)
{
    struct lightq_replica_info *replicas = lq_result_alloc(result, from->n_replicas, sizeof *replicas);
    bool copied = replicas != NULL;
    for (size_t i = 0; copied && i < from->n_replicas; i++) {
        copied = copy_replica(result, &replicas[i], from->replicas[i]);
    }
    *to = (struct lightq_partition_info){
        .partition = from->partition,
        .group = from->group,
        .leader = from->leader,
        .term = from->term,
        .state = partition_state_text(from->state),
        .replicas = replicas,
        .replica_count = from->n_replicas,
    };
    return copied;
}

static const struct lightq_partition_info *copy_partitions(void *result, size_t count,
                                                           Lightq__Wire__PartitionDetail **from)
{
    struct lightq_partition_info *partitions = lq_result_alloc(result, count, sizeof *partitions);
    bool copied = partitions != NULL;
    for (size_t i = 0; copied && i < count; i++) {
        copied = copy_partition(result, &partitions[i], from[i]);
    }
    return copied ? partitions : NULL;
}

static const struct lightq_pair *copy_config(void *result, size_t count, Lightq__Wire__NameValue **from)
{
    struct lightq_pair *pairs = lq_result_alloc(result, count, sizeof *pairs);
    bool copied = pairs != NULL;
    for (size_t i = 0; copied && i < count; i++) {
        pairs[i].key = lq_result_text(result, from[i]->name);
        pairs[i].value = lq_result_text(result, from[i]->value);
        copied = pairs[i].key != NULL && pairs[i].value != NULL;
    }
    return copied ? pairs : NULL;
}

static bool copy_node(void *result, struct lightq_node_info *to, const Lightq__Wire__NodeDetail *from)
{
    const char **endpoints = lq_result_alloc(result, from->n_endpoints, sizeof *endpoints);
    bool copied = endpoints != NULL;
    for (size_t i = 0; copied && i < from->n_endpoints; i++) {
        endpoints[i] = lq_result_text(result, from->endpoints[i]);
        copied = endpoints[i] != NULL;
    }
    *to = (struct lightq_node_info){
        .node = from->node,
        .endpoints = endpoints,
        .endpoint_count = from->n_endpoints,
        .peer_endpoint = lq_result_text(result, from->peer_endpoint),
        .state = node_state_text(from->state),
        .version = lq_result_text(result, from->version),
        .free_bytes = from->free_bytes,
        .total_bytes = from->total_bytes,
        .partitions = from->partitions,
        .leaders = from->leaders,
    };
    copy_id(to->id, &from->uuid);
    return copied && to->peer_endpoint != NULL && to->version != NULL;
}

static bool copy_unhealthy(void *result, struct lightq_unhealthy *to, const Lightq__Wire__Unhealthy *from)
{
    *to = (struct lightq_unhealthy){
        .topic = lq_result_text(result, from->name),
        .partition = from->partition,
        .group = from->group,
        .node = from->node,
        .text = lq_result_text(result, from->text),
    };
    return to->topic != NULL && to->text != NULL;
}

/* ---- topics */

static lightq_status check_options(const struct lightq_topic_options *options, struct lightq_error *error)
{
    for (size_t i = 0; i < options->config_count; i++) {
        if (options->config[i].key == NULL || options->config[i].value == NULL) {
            return lq_error_set(error, LIGHTQ_EINVAL, "a setting of the topic has no name or no value");
        }
    }
    return LIGHTQ_OK;
}

/* The settings of @options as the wire has them; *memory holds them. */
static lightq_status make_pairs(const struct lightq_topic_options *options, void **memory,
                                Lightq__Wire__NameValue ***pointers, struct lightq_error *error)
{
    Lightq__Wire__NameValue *pairs = NULL;
    *memory = lq_result_new(1);
    *pointers = NULL;
    if (*memory != NULL) {
        pairs = lq_result_alloc(*memory, options->config_count, sizeof *pairs);
        *pointers = lq_result_alloc(*memory, options->config_count, sizeof **pointers);
    }
    if (pairs == NULL || *pointers == NULL) {
        lightq_result_free(*memory);
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    for (size_t i = 0; i < options->config_count; i++) {
        lightq__wire__name_value__init(&pairs[i]);
        pairs[i].name = lq_codec_string(options->config[i].key);
        pairs[i].value = lq_codec_string(options->config[i].value);
        (*pointers)[i] = &pairs[i];
    }
    return LIGHTQ_OK;
}

lightq_status lightq_topic_create(struct lightq *client, const char *topic, const struct lightq_topic_options *options,
                                  int timeout_ms, struct lightq_error *error)
{
    const struct lightq_topic_options defaults = {.partitions = 0};
    options = options != NULL ? options : &defaults;
    lightq_status status = check(client, topic, error);
    if (status == LIGHTQ_OK) {
        status = check_options(options, error);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    Lightq__Wire__TopicCreate body = LIGHTQ__WIRE__TOPIC_CREATE__INIT;
    void *memory;
    status = make_pairs(options, &memory, &body.config, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    body.name = lq_codec_string(topic);
    body.n_config = options->config_count;
    body.partitions = options->partitions;
    body.replicas = options->replicas;
    body.timeout_ms = wire_timeout(client, timeout_ms);
    struct lq_call call = call_of(client, LQ_MESSAGE_TOPIC_CREATE, &body.base);
    call.repeated = LIGHTQ_EEXISTS;
    status = order(&call, timeout_ms, error);
    lightq_result_free(memory);
    return status;
}

lightq_status lightq_topic_alter(struct lightq *client, const char *topic, const struct lightq_topic_options *options,
                                 int timeout_ms, uint32_t *partitions, struct lightq_error *error)
{
    lightq_status status = check(client, topic, error);
    if (status == LIGHTQ_OK) {
        status = check_options(options, error);
    }
    if (status == LIGHTQ_OK && options->replicas != 0) {
        status = lq_error_set(error, LIGHTQ_EINVAL, "the number of replicas of a topic cannot be altered");
    }
    Lightq__Wire__TopicAlter body = LIGHTQ__WIRE__TOPIC_ALTER__INIT;
    void *memory = NULL;
    if (status == LIGHTQ_OK) {
        status = make_pairs(options, &memory, &body.config, error);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    void *answer = NULL;
    body.name = lq_codec_string(topic);
    body.n_config = options->config_count;
    body.partitions = options->partitions;
    body.timeout_ms = wire_timeout(client, timeout_ms);
    struct lq_call call = call_of(client, LQ_MESSAGE_TOPIC_ALTER, &body.base);
    status = ask(&call, timeout_ms, &answer, error);
    if (status == LIGHTQ_OK && partitions != NULL) {
        *partitions = ((const Lightq__Wire__TopicAlterAnswer *)answer)->partitions;
    }
    lq_codec_free(answer);
    lightq_result_free(memory);
    return status;
}

lightq_status lightq_topic_delete(struct lightq *client, const char *topic, int timeout_ms, struct lightq_error *error)
{
    lightq_status status = check(client, topic, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    Lightq__Wire__TopicDelete body = LIGHTQ__WIRE__TOPIC_DELETE__INIT;
    body.name = lq_codec_string(topic);
    body.timeout_ms = wire_timeout(client, timeout_ms);
    struct lq_call call = call_of(client, LQ_MESSAGE_TOPIC_DELETE, &body.base);
    call.repeated = LIGHTQ_ENOTFOUND;
    return order(&call, timeout_ms, error);
}

/* Appends the topics of one page to @list. False: out of memory. */
static bool append_page(struct lightq_topic_list *list, const Lightq__Wire__TopicListAnswer *page)
{
    struct lightq_topic_info *topics = lq_result_alloc(list, list->count + page->n_topics, sizeof *topics);
    if (topics == NULL) {
        return false;
    }
    if (list->count > 0) {
        memcpy(topics, list->topics, list->count * sizeof *topics);
    }
    for (size_t i = 0; i < page->n_topics; i++) {
        const Lightq__Wire__TopicSummary *from = page->topics[i];
        struct lightq_topic_info *to = &topics[list->count + i];
        to->name = lq_result_text(list, from->name);
        if (to->name == NULL) {
            return false;
        }
        copy_id(to->id, &from->topic);
        to->partition_count = from->partitions;
        to->replica_count = from->replicas;
    }
    list->topics = topics;
    list->count += page->n_topics;
    return true;
}

lightq_status lightq_topic_list(struct lightq *client, int timeout_ms, struct lightq_topic_list **list,
                                struct lightq_error *error)
{
    lightq_status status = check(client, NULL, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lightq_topic_list *made = lq_result_new(sizeof *made);
    bool more = made != NULL;
    status = made != NULL ? LIGHTQ_OK : lq_error_plain(error, LIGHTQ_ENOMEM);
    for (int page = 0; status == LIGHTQ_OK && more && page < LIST_PAGES_MAX; page++) {
        Lightq__Wire__TopicList body = LIGHTQ__WIRE__TOPIC_LIST__INIT;
        void *answer = NULL;
        body.after = lq_codec_string(made->count > 0 ? made->topics[made->count - 1].name : "");
        struct lq_call call = call_of(client, LQ_MESSAGE_TOPIC_LIST, &body.base);
        status = ask(&call, timeout_ms, &answer, error);
        if (status == LIGHTQ_OK) {
            const Lightq__Wire__TopicListAnswer *found = answer;
            more = found->more && found->n_topics > 0;
            status = append_page(made, found) ? LIGHTQ_OK : lq_error_plain(error, LIGHTQ_ENOMEM);
        }
        lq_codec_free(answer);
    }
    if (status != LIGHTQ_OK) {
        lightq_result_free(made);
        return status;
    }
    *list = made;
    return LIGHTQ_OK;
}

static struct lightq_topic_info *make_topic(const Lightq__Wire__TopicDescribeAnswer *answer)
{
    struct lightq_topic_info *made = lq_result_new(sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    made->name = lq_result_text(made, answer->name);
    copy_id(made->id, &answer->topic);
    made->partition_count = (uint32_t)answer->n_partitions;
    made->replica_count = answer->replicas;
    made->config = copy_config(made, answer->n_config, answer->config);
    made->config_count = answer->n_config;
    made->partitions = copy_partitions(made, answer->n_partitions, answer->partitions);
    if (made->name == NULL || made->config == NULL || made->partitions == NULL) {
        lightq_result_free(made);
        return NULL;
    }
    return made;
}

lightq_status lightq_topic_describe(struct lightq *client, const char *topic, int timeout_ms,
                                    struct lightq_topic_info **info, struct lightq_error *error)
{
    lightq_status status = check(client, topic, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    Lightq__Wire__TopicDescribe body = LIGHTQ__WIRE__TOPIC_DESCRIBE__INIT;
    void *answer = NULL;
    body.name = lq_codec_string(topic);
    struct lq_call call = call_of(client, LQ_MESSAGE_TOPIC_DESCRIBE, &body.base);
    call.any_may_miss = true;
    status = ask(&call, timeout_ms, &answer, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *info = make_topic(answer);
    lq_codec_free(answer);
    return *info != NULL ? LIGHTQ_OK : lq_error_plain(error, LIGHTQ_ENOMEM);
}

/* ---- the cluster */

static bool fill_cluster(struct lightq_cluster_info *made, const Lightq__Wire__ClusterStatusAnswer *answer)
{
    struct lightq_node_info *nodes = lq_result_alloc(made, answer->n_nodes, sizeof *nodes);
    struct lightq_unhealthy *unhealthy = lq_result_alloc(made, answer->n_unhealthy, sizeof *unhealthy);
    bool copied = nodes != NULL && unhealthy != NULL;
    for (size_t i = 0; copied && i < answer->n_nodes; i++) {
        copied = copy_node(made, &nodes[i], answer->nodes[i]);
    }
    for (size_t i = 0; copied && i < answer->n_unhealthy; i++) {
        copied = copy_unhealthy(made, &unhealthy[i], answer->unhealthy[i]);
    }
    if (copied && answer->meta != NULL) {
        made->catalog = copy_partitions(made, 1, (Lightq__Wire__PartitionDetail **)(uintptr_t)&answer->meta);
        copied = made->catalog != NULL;
    }
    made->nodes = nodes;
    made->node_count = answer->n_nodes;
    made->unhealthy = unhealthy;
    made->unhealthy_count = answer->n_unhealthy;
    return copied;
}

static struct lightq_cluster_info *make_cluster(const Lightq__Wire__ClusterStatusAnswer *answer)
{
    struct lightq_cluster_info *made = lq_result_new(sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    copy_id(made->id, &answer->cluster);
    made->controller = answer->controller;
    made->term = answer->term;
    made->version = answer->version;
    made->topic_count = answer->topics;
    made->partition_count = answer->partitions;
    made->leaderless_count = answer->partitions_without_leader;
    if (!fill_cluster(made, answer)) {
        lightq_result_free(made);
        return NULL;
    }
    return made;
}

lightq_status lightq_cluster_status(struct lightq *client, int timeout_ms, struct lightq_cluster_info **info,
                                    struct lightq_error *error)
{
    lightq_status status = check(client, NULL, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    Lightq__Wire__ClusterStatus body = LIGHTQ__WIRE__CLUSTER_STATUS__INIT;
    void *answer = NULL;
    struct lq_call call = call_of(client, LQ_MESSAGE_CLUSTER_STATUS, &body.base);
    status = ask(&call, timeout_ms, &answer, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *info = make_cluster(answer);
    lq_codec_free(answer);
    return *info != NULL ? LIGHTQ_OK : lq_error_plain(error, LIGHTQ_ENOMEM);
}

lightq_status lightq_node_replace(struct lightq *client, uint32_t old_node, uint32_t new_node, unsigned flags,
                                  int timeout_ms, uint32_t *replicas, struct lightq_error *error)
{
    lightq_status status = check(client, NULL, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if ((flags & ~LIGHTQ_REPLACE_LIVE_NODE) != 0) {
        return lq_error_plain(error, LIGHTQ_EINVAL);
    }
    Lightq__Wire__NodeReplace body = LIGHTQ__WIRE__NODE_REPLACE__INIT;
    void *answer = NULL;
    body.old_node = old_node;
    body.new_node = new_node;
    body.live = (flags & LIGHTQ_REPLACE_LIVE_NODE) != 0;
    body.timeout_ms = wire_timeout(client, timeout_ms);
    struct lq_call call = call_of(client, LQ_MESSAGE_NODE_REPLACE, &body.base);
    status = ask(&call, timeout_ms, &answer, error);
    if (status == LIGHTQ_OK && replicas != NULL) {
        *replicas = ((const Lightq__Wire__NodeReplaceAnswer *)answer)->partitions;
    }
    lq_codec_free(answer);
    return status;
}

lightq_status lightq_partition_transfer(struct lightq *client, const char *topic, int32_t partition, uint32_t node,
                                        int timeout_ms, struct lightq_error *error)
{
    lightq_status status = check(client, topic, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (partition < 0) {
        return lq_error_set(error, LIGHTQ_EINVAL, "a partition has a number from 0");
    }
    Lightq__Wire__PartitionTransfer body = LIGHTQ__WIRE__PARTITION_TRANSFER__INIT;
    body.name = lq_codec_string(topic);
    body.partition = (uint32_t)partition;
    body.to = node;
    body.timeout_ms = wire_timeout(client, timeout_ms);
    struct lq_call call = call_of(client, LQ_MESSAGE_PARTITION_TRANSFER, &body.base);
    call.topic = topic;
    call.partition = partition;
    return order(&call, timeout_ms, error);
}

/* ---- partitions and offsets */

lightq_status lightq_partition_count(struct lightq *client, const char *topic, int timeout_ms, int32_t *count,
                                     struct lightq_error *error)
{
    lightq_status status = check(client, topic, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_call call = {.client = client, .topic = topic, .only_count = true};
    status = order(&call, timeout_ms, error);
    if (status == LIGHTQ_OK) {
        *count = (int32_t)call.partition_count;
    }
    return status;
}

static void put_topic(struct lq_call *call, const struct lq_topic *topic)
{
    Lightq__Wire__Offsets *body = (Lightq__Wire__Offsets *)(void *)call->body;
    body->topic = lq_codec_bytes_of(&topic->id);
}

lightq_status lightq_offset(struct lightq *client, const char *topic, int32_t partition,
                            const struct lightq_start *start, int timeout_ms, int64_t *offset,
                            struct lightq_error *error)
{
    lightq_status status = check(client, topic, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    Lightq__Wire__Offsets body = LIGHTQ__WIRE__OFFSETS__INIT;
    Lightq__Wire__Start at = LIGHTQ__WIRE__START__INIT;
    void *answer = NULL;
    if (partition < 0 || !lq_start_is_good(start)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "not a partition, or not a place in a log");
    }
    lq_start_put(start, &at);
    body.partition = (uint32_t)partition;
    body.at = &at;
    struct lq_call call = call_of(client, LQ_MESSAGE_OFFSETS, &body.base);
    call.topic = topic;
    call.partition = partition;
    call.prepare = put_topic;
    status = ask(&call, timeout_ms, &answer, error);
    if (status == LIGHTQ_OK) {
        uint64_t found = ((const Lightq__Wire__OffsetsAnswer *)answer)->offset;
        if (found > INT64_MAX) {
            status = lq_error_set(error, LIGHTQ_EPROTO, "the leader answered an offset that cannot be");
        } else {
            *offset = (int64_t)found;
        }
    }
    lq_codec_free(answer);
    return status;
}

static void put_purged_topic(struct lq_call *call, const struct lq_topic *topic)
{
    Lightq__Wire__PartitionPurge *body = (Lightq__Wire__PartitionPurge *)(void *)call->body;
    body->topic = lq_codec_bytes_of(&topic->id);
}

/* Everything below @offset. */
static lightq_status purge(struct lightq *client, const char *topic, int32_t partition, int64_t offset, int timeout_ms,
                           struct lightq_purged *purged, struct lightq_error *error)
{
    Lightq__Wire__PartitionPurge body = LIGHTQ__WIRE__PARTITION_PURGE__INIT;
    void *answer = NULL;
    body.partition = (uint32_t)partition;
    body.offset = (uint64_t)offset;
    body.timeout_ms = wire_timeout(client, timeout_ms);
    struct lq_call call = call_of(client, LQ_MESSAGE_PARTITION_PURGE, &body.base);
    call.topic = topic;
    call.partition = partition;
    call.prepare = put_purged_topic;
    lightq_status status = ask(&call, timeout_ms, &answer, error);
    if (status == LIGHTQ_OK) {
        const Lightq__Wire__PartitionPurgeAnswer *said = answer;
        if (said->log_start > said->log_end || said->log_end > INT64_MAX) {
            status = lq_error_set(error, LIGHTQ_EPROTO, "the leader answered offsets that cannot be");
        } else if (purged != NULL) {
            *purged = (struct lightq_purged){
                .offset = offset, .start = (int64_t)said->log_start, .end = (int64_t)said->log_end};
        }
    }
    lq_codec_free(answer);
    return status;
}

/* The offset is known before anything is dropped, so that an attempt whose answer is lost can be repeated: it never
 * drops what came after it. */
lightq_status lightq_partition_purge(struct lightq *client, const char *topic, int32_t partition,
                                     const struct lightq_start *to, int timeout_ms, struct lightq_purged *purged,
                                     struct lightq_error *error)
{
    const struct lightq_start end = {.kind = LIGHTQ_START_END};
    to = to != NULL ? to : &end;
    int64_t offset = to->kind == LIGHTQ_START_OFFSET ? to->offset : 0;
    lightq_status status = check(client, topic, error);
    if (status == LIGHTQ_OK && (partition < 0 || !lq_start_is_good(to))) {
        status = lq_error_set(error, LIGHTQ_EINVAL, "not a partition, or not a place in a log");
    }
    if (status == LIGHTQ_OK && to->kind != LIGHTQ_START_OFFSET) {
        status = lightq_offset(client, topic, partition, to, timeout_ms, &offset, error);
    }
    return status == LIGHTQ_OK ? purge(client, topic, partition, offset, timeout_ms, purged, error) : status;
}
