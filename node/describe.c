/* node/describe.c - see admin.h: TOPIC_DESCRIBE and CLUSTER_STATUS. The replicas are asked first; what the catalog says
 * is read when they have answered, so that the answer is of one moment. */
#include <stdlib.h>
#include <string.h>

#include "node/admin.h"
#include "node/admin_internal.h"
#include "node/arena.h"
#include "node/metadata.h"
#include "node/version.h"

#define ARENA_BYTES_MAX    (32u * 1024 * 1024)
#define UNHEALTHY_MAX      1000 /* listed in one CLUSTER_STATUS_ANSWER */
#define CONFIG_VALUE_BYTES 64
#define HEALTHY            "ok"
#define SILENT             "no answer from its node"

/* Replicas being asked. Pinned until the meta calls back. */
struct look {
    struct lq_meta_inspect inspect;
    struct lq_admin *admin;
    uint64_t session; /* number */
    uint64_t correlation;
    bool whole_cluster;
    struct lq_id topic; /* when not whole_cluster */
    uint64_t groups[];
};

/* ---- partitions */

static uint32_t role_of(enum lq_replica_role role)
{
    switch (role) {
    case LQ_REPLICA_LEADER:
        return LIGHTQ__WIRE__REPLICA_ROLE__ROLE_LEADER;
    case LQ_REPLICA_FOLLOWER:
        return LIGHTQ__WIRE__REPLICA_ROLE__ROLE_FOLLOWER;
    case LQ_REPLICA_STANDBY:
        return LIGHTQ__WIRE__REPLICA_ROLE__ROLE_STANDBY;
    case LQ_REPLICA_UNKNOWN:
        break;
    }
    return LIGHTQ__WIRE__REPLICA_ROLE__ROLE_UNKNOWN;
}

/* Why a replica does not do its work; NULL when it does. */
static const char *complaint(const struct lq_replica_report *report)
{
    if (!report->answered) {
        return SILENT;
    }
    if (report->status == LIGHTQ_OK) {
        return NULL;
    }
    return report->text[0] != '\0' ? report->text : lightq_status_text(report->status);
}

static Lightq__Wire__ReplicaInfo *replica_info(struct lq_arena *arena, const struct lq_replica_report *report)
{
    Lightq__Wire__ReplicaInfo *info = lq_arena_take(arena, sizeof *info);
    if (info == NULL) {
        return NULL;
    }
    const char *text = complaint(report);
    lightq__wire__replica_info__init(info);
    info->node = report->node;
    info->incarnation = report->incarnation;
    info->online = report->answered;
    info->health = lq_arena_text(arena, text == NULL ? HEALTHY : text);
    if (report->answered) {
        info->role = role_of(report->role);
        info->first_index = report->first_index;
        info->last_index = report->last_index;
        info->durable_index = report->durable_index;
        info->commit_index = report->commit_index;
        info->applied_index = report->applied_index;
        info->log_start = report->start_offset;
        info->log_end = report->end_offset;
        info->digest = report->digest;
        info->digest_to = report->digest_to;
    }
    return info;
}

/* The reports of @group, which are next to each other. */
static const struct lq_replica_report *reports_of(const struct lq_meta_inspect *inspect, uint64_t group, size_t *at,
                                                  size_t *count)
{
    size_t first = *at;
    if (first >= inspect->report_count || inspect->reports[first].group != group) {
        for (first = 0; first < inspect->report_count && inspect->reports[first].group != group;) {
            first++;
        }
    }
    size_t last = first;
    while (last < inspect->report_count && inspect->reports[last].group == group) {
        last++;
    }
    *at = last;
    *count = last - first;
    return inspect->reports + first;
}

/* @placed: NULL for the meta group. @at moves along the reports. */
static Lightq__Wire__PartitionDetail *partition_detail(const struct lq_service *service, struct lq_arena *arena,
                                                       const struct lq_meta_inspect *inspect, size_t *at,
                                                       const struct lq_catalog_partition *placed)
{
    uint64_t group = placed == NULL ? LQ_META_GROUP : placed->group;
    size_t count;
    const struct lq_replica_report *reports = reports_of(inspect, group, at, &count);
    Lightq__Wire__PartitionDetail *detail = lq_arena_take(arena, sizeof *detail);
    Lightq__Wire__ReplicaInfo **replicas = lq_arena_take(arena, count * sizeof *replicas);
    if (detail == NULL || replicas == NULL) {
        return NULL;
    }
    struct lq_leader leader = lq_meta_leader(service->meta, group);
    lightq__wire__partition_detail__init(detail);
    detail->partition = placed == NULL ? 0 : placed->number;
    detail->group = group;
    detail->leader = leader.node;
    detail->term = leader.term;
    detail->state = leader.node == 0 ? LIGHTQ__WIRE__PARTITION_STATE__PARTITION_UNAVAILABLE
                                     : LIGHTQ__WIRE__PARTITION_STATE__PARTITION_OK;
    for (size_t i = 0; i < count; i++) {
        if (reports[i].answered && reports[i].role == LQ_REPLICA_LEADER && reports[i].term >= detail->term) {
            detail->leader = reports[i].node;
            detail->term = reports[i].term;
        }
        if (complaint(&reports[i]) != NULL && leader.node != 0) {
            detail->state = LIGHTQ__WIRE__PARTITION_STATE__PARTITION_DEGRADED;
        }
        replicas[i] = replica_info(arena, &reports[i]);
        if (replicas[i] == NULL) {
            return NULL;
        }
    }
    detail->replicas = replicas;
    detail->n_replicas = count;
    return detail;
}

/* ---- TOPIC_DESCRIBE */

/* The topic's settings as text. */
static void add_config(struct lq_arena *arena, const struct lq_topic_config *config,
                       Lightq__Wire__TopicDescribeAnswer *answer)
{
    size_t count = lq_topic_config_table.count;
    Lightq__Wire__NameValue **values = lq_arena_take(arena, count * sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++) {
        char text[CONFIG_VALUE_BYTES];
        Lightq__Wire__NameValue *value = lq_arena_take(arena, sizeof *value);
        if (value == NULL) {
            return;
        }
        lightq__wire__name_value__init(value);
        value->name = lq_codec_string(lq_topic_config_table.options[i].name);
        value->value =
            lq_arena_text(arena, lq_conf_format(&lq_topic_config_table.options[i], config, text, sizeof text));
        values[i] = value;
    }
    answer->config = values;
    answer->n_config = values == NULL ? 0 : count;
}

static void answer_topic(struct look *look, struct lq_session *session)
{
    struct lq_service *service = look->admin->service;
    const struct lq_catalog_topic *topic = lq_catalog_topic_by_id(lq_meta_catalog(service->meta), &look->topic);
    Lightq__Wire__TopicDescribeAnswer answer = LIGHTQ__WIRE__TOPIC_DESCRIBE_ANSWER__INIT;
    struct lq_arena arena;
    lq_arena_init(&arena, ARENA_BYTES_MAX);
    if (topic == NULL) {
        answer.status = LIGHTQ_ENOTFOUND;
        answer.text = lq_codec_string("the topic has been deleted");
    } else {
        size_t at = 0;
        answer.name = lq_codec_string(topic->name);
        answer.topic = lq_codec_bytes_of(&topic->uuid);
        answer.version = topic->version;
        answer.replicas = topic->replicas;
        add_config(&arena, &topic->config, &answer);
        answer.partitions = lq_arena_take(&arena, topic->partition_count * sizeof *answer.partitions);
        for (uint32_t i = 0; answer.partitions != NULL && i < topic->partition_count && !arena.failed; i++) {
            answer.partitions[i] = partition_detail(service, &arena, &look->inspect, &at, &topic->partitions[i]);
            answer.n_partitions++;
        }
    }
    if (arena.failed) {
        lq_session_error(service->sessions, session, look->correlation, LIGHTQ_ENOMEM, "no memory for the answer");
    } else {
        lq_session_answer(service->sessions, session, LQ_MESSAGE_TOPIC_DESCRIBE_ANSWER, look->correlation, 0,
                          &answer.base);
    }
    lq_arena_deinit(&arena);
}

/* ---- CLUSTER_STATUS */

static Lightq__Wire__NodeDetail *node_detail(const struct lq_service *service, struct lq_arena *arena,
                                             const struct lq_catalog_node *node)
{
    char text[LQ_ENDPOINT_TEXT_BYTES];
    struct lq_meta_node_load load;
    Lightq__Wire__NodeDetail *detail = lq_arena_take(arena, sizeof *detail);
    if (detail == NULL) {
        return NULL;
    }
    lq_meta_node_load(service->meta, node->id, &load);
    lightq__wire__node_detail__init(detail);
    detail->node = node->id;
    detail->uuid = lq_codec_bytes_of(&node->uuid);
    detail->endpoints = lq_metadata_endpoints(service, arena, node, &detail->n_endpoints);
    lq_endpoint_format(&node->peer, text);
    detail->peer_endpoint = lq_arena_text(arena, text);
    detail->state = lq_metadata_node_state(service, node);
    detail->version = lq_codec_string(node->id == service->options->node_id ? LQ_VERSION_TEXT : "");
    detail->free_bytes = load.free_bytes;
    detail->total_bytes = load.total_bytes;
    detail->partitions = load.replicas;
    detail->leaders = load.leaders;
    return detail;
}

static void add_nodes(const struct lq_service *service, struct lq_arena *arena,
                      Lightq__Wire__ClusterStatusAnswer *answer)
{
    const struct lq_catalog *catalog = lq_meta_catalog(service->meta);
    size_t count = lq_catalog_node_count(catalog);
    answer->nodes = lq_arena_take(arena, count * sizeof *answer->nodes);
    for (size_t i = 0; answer->nodes != NULL && i < count && !arena->failed; i++) {
        answer->nodes[i] = node_detail(service, arena, lq_catalog_node_at(catalog, i));
        answer->n_nodes++;
    }
}

static void add_unhealthy(const struct lq_service *service, struct lq_arena *arena,
                          const struct lq_meta_inspect *inspect, Lightq__Wire__ClusterStatusAnswer *answer)
{
    const struct lq_catalog *catalog = lq_meta_catalog(service->meta);
    answer->unhealthy = lq_arena_take(arena, UNHEALTHY_MAX * sizeof *answer->unhealthy);
    for (size_t i = 0; answer->unhealthy != NULL && i < inspect->report_count; i++) {
        const struct lq_replica_report *report = &inspect->reports[i];
        const char *text = complaint(report);
        if (text == NULL) {
            continue;
        }
        Lightq__Wire__Unhealthy *unhealthy = lq_arena_take(arena, sizeof *unhealthy);
        if (unhealthy == NULL || answer->n_unhealthy == UNHEALTHY_MAX) {
            return;
        }
        const struct lq_catalog_partition *placed = lq_catalog_partition(catalog, report->group);
        lightq__wire__unhealthy__init(unhealthy);
        unhealthy->name = placed == NULL ? lq_codec_string("") : lq_codec_string(placed->topic->name);
        unhealthy->partition = placed == NULL ? 0 : placed->number;
        unhealthy->group = report->group;
        unhealthy->node = report->node;
        unhealthy->text = lq_arena_text(arena, text);
        answer->unhealthy[answer->n_unhealthy++] = unhealthy;
    }
}

static void answer_cluster(struct look *look, struct lq_session *session)
{
    struct lq_service *service = look->admin->service;
    const struct lq_catalog *catalog = lq_meta_catalog(service->meta);
    struct lq_id cluster = lq_catalog_cluster(catalog);
    struct lq_leader controller = lq_meta_leader(service->meta, LQ_META_GROUP);
    Lightq__Wire__ClusterStatusAnswer answer = LIGHTQ__WIRE__CLUSTER_STATUS_ANSWER__INIT;
    struct lq_meta_counts counts;
    struct lq_arena arena;
    size_t at = 0;
    lq_arena_init(&arena, ARENA_BYTES_MAX);
    lq_meta_count(service->meta, &counts);
    answer.cluster = lq_codec_bytes_of(&cluster);
    answer.controller = controller.node;
    answer.term = controller.term;
    answer.version = lq_catalog_version(catalog);
    answer.topics = counts.topics;
    answer.partitions = counts.partitions;
    answer.partitions_without_leader = counts.leaderless;
    add_nodes(service, &arena, &answer);
    add_unhealthy(service, &arena, &look->inspect, &answer);
    answer.meta = partition_detail(service, &arena, &look->inspect, &at, NULL);
    if (arena.failed) {
        lq_session_error(service->sessions, session, look->correlation, LIGHTQ_ENOMEM, "no memory for the answer");
    } else {
        lq_session_answer(service->sessions, session, LQ_MESSAGE_CLUSTER_STATUS_ANSWER, look->correlation, 0,
                          &answer.base);
    }
    lq_arena_deinit(&arena);
}

/* ---- asking */

static void on_inspected(struct lq_meta_inspect *inspect, lightq_status status)
{
    struct look *look = inspect->data;
    struct lq_session *session = lq_sessions_find(look->admin->service->sessions, look->session);
    look->admin->under_way--;
    if (session != NULL && status == LIGHTQ_OK) {
        if (look->whole_cluster) {
            answer_cluster(look, session);
        } else {
            answer_topic(look, session);
        }
    }
    free(look);
}

/* Asks for the replicas of @count groups. NULL: no memory. */
static struct look *make(struct lq_admin *admin, const struct lq_request *request, size_t count)
{
    struct look *look = calloc(1, sizeof *look + count * sizeof look->groups[0]);
    if (look != NULL) {
        look->admin = admin;
        look->session = request->session->number;
        look->correlation = request->envelope->correlation;
        look->inspect.groups = look->groups;
        look->inspect.cb = on_inspected;
        look->inspect.data = look;
    }
    return look;
}

static void submit(struct look *look, struct lq_session *session)
{
    struct lq_admin *admin = look->admin;
    lightq_status status = lq_meta_inspect(admin->service->meta, &look->inspect);
    if (status == LIGHTQ_OK) {
        admin->under_way++;
        return;
    }
    lq_session_error(admin->service->sessions, session, look->correlation, status, lightq_status_text(status));
    free(look);
}

void lq_admin_describe(struct lq_admin *admin, const struct lq_request *request)
{
    const Lightq__Wire__TopicDescribe *body = request->body;
    struct lq_service *service = admin->service;
    lightq_status status = lq_topic_name_check(body->name, strlen(body->name));
    const struct lq_catalog_topic *topic = NULL;
    const char *text = lightq_status_text(status);
    if (status == LIGHTQ_OK && (topic = lq_catalog_topic(lq_meta_catalog(service->meta), body->name)) == NULL) {
        status = LIGHTQ_ENOTFOUND;
        text = "there is no topic of that name";
    } else if (topic != NULL && topic->partition_count > LQ_INSPECT_GROUPS_MAX) {
        status = LIGHTQ_ETOOBIG;
        text = "the topic has too many partitions to be described in one answer";
    }
    struct look *look = NULL;
    if (status == LIGHTQ_OK && (look = make(admin, request, topic->partition_count)) == NULL) {
        status = LIGHTQ_ENOMEM;
        text = lightq_status_text(status);
    }
    if (status != LIGHTQ_OK) {
        Lightq__Wire__TopicDescribeAnswer answer = LIGHTQ__WIRE__TOPIC_DESCRIBE_ANSWER__INIT;
        answer.status = (uint32_t)status;
        answer.text = lq_codec_string(text);
        answer.name = lq_codec_string(body->name);
        lq_session_answer(service->sessions, request->session, LQ_MESSAGE_TOPIC_DESCRIBE_ANSWER,
                          request->envelope->correlation, 0, &answer.base);
        return;
    }
    look->topic = topic->uuid;
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        look->groups[look->inspect.group_count++] = topic->partitions[i].group;
    }
    submit(look, request->session);
}

void lq_admin_cluster_status(struct lq_admin *admin, const struct lq_request *request)
{
    const struct lq_catalog *catalog = lq_meta_catalog(admin->service->meta);
    struct look *look = make(admin, request, LQ_INSPECT_GROUPS_MAX);
    if (look == NULL) {
        lq_session_error(admin->service->sessions, request->session, request->envelope->correlation, LIGHTQ_ENOMEM,
                         lightq_status_text(LIGHTQ_ENOMEM));
        return;
    }
    look->whole_cluster = true;
    look->groups[look->inspect.group_count++] = LQ_META_GROUP;
    for (size_t i = 0; i < lq_catalog_topic_count(catalog); i++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, i);
        for (uint32_t j = 0; j < topic->partition_count && look->inspect.group_count < LQ_INSPECT_GROUPS_MAX; j++) {
            look->groups[look->inspect.group_count++] = topic->partitions[j].group;
        }
    }
    submit(look, request->session);
}
