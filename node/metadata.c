/* node/metadata.c - see metadata.h. */
#include "node/metadata.h"

#include <string.h>

#define ARENA_BYTES_MAX     (16u * 1024 * 1024)
#define PAGE_BYTES_MAX      (LQ_CLIENT_BODY_BYTES_MAX - 64u * 1024) /* of topics; the rest is for nodes and heads */
#define PAGE_ELEMENTS_MAX   200000 /* below what the codec takes in one METADATA_ANSWER */
#define LIST_TOPICS_MAX     16384  /* in one TOPIC_LIST_ANSWER */
#define NODE_BYTES          64     /* encoded sizes, estimated from above */
#define TOPIC_BYTES         96
#define PARTITION_BYTES     64
#define REPLICA_BYTES       4
#define TOPIC_SUMMARY_BYTES 64

uint32_t lq_metadata_node_state(const struct lq_service *service, const struct lq_catalog_node *node)
{
    struct lq_meta_node_load load;
    if (node->state == LQ_NODE_GONE) {
        return LIGHTQ__WIRE__NODE_STATE__NODE_GONE;
    }
    lq_meta_node_load(service->meta, node->id, &load);
    return node->state == LQ_NODE_ACTIVE && load.up ? LIGHTQ__WIRE__NODE_STATE__NODE_UP
                                                    : LIGHTQ__WIRE__NODE_STATE__NODE_DOWN;
}

uint32_t lq_metadata_partition_state(const struct lq_service *service, const struct lq_catalog_partition *placed)
{
    if (lq_meta_leader(service->meta, placed->group).node == 0) {
        return LIGHTQ__WIRE__PARTITION_STATE__PARTITION_UNAVAILABLE;
    }
    for (unsigned i = 0; i < placed->replica_count; i++) {
        struct lq_meta_node_load load;
        lq_meta_node_load(service->meta, placed->replicas[i].node, &load);
        if (!load.up) {
            return LIGHTQ__WIRE__PARTITION_STATE__PARTITION_DEGRADED;
        }
    }
    return LIGHTQ__WIRE__PARTITION_STATE__PARTITION_OK;
}

char **lq_metadata_endpoints(const struct lq_service *service, struct lq_arena *arena,
                             const struct lq_catalog_node *node, size_t *count)
{
    uint32_t shards = (uint32_t)service->options->shards; /* the same on all nodes */
    char **endpoints = lq_arena_take(arena, shards * sizeof *endpoints);
    *count = 0;
    for (uint32_t i = 0; endpoints != NULL && i < shards; i++) {
        char text[LQ_ENDPOINT_TEXT_BYTES];
        struct lq_endpoint endpoint = node->client;
        endpoint.port = (uint16_t)(endpoint.port + i);
        lq_endpoint_format(&endpoint, text);
        endpoints[i] = lq_arena_text(arena, text);
        *count = i + 1;
    }
    return endpoints;
}

/* ---- METADATA */

struct metadata_page {
    const struct lq_service *service;
    const struct lq_catalog *catalog;
    struct lq_arena arena;
    Lightq__Wire__MetadataAnswer answer;
    size_t bytes, elements; /* of the topics so far, about */
};

static void add_nodes(struct metadata_page *page)
{
    size_t count = lq_catalog_node_count(page->catalog);
    Lightq__Wire__NodeInfo **nodes = lq_arena_take(&page->arena, count * sizeof *nodes);
    for (size_t i = 0; nodes != NULL && i < count; i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(page->catalog, i);
        Lightq__Wire__NodeInfo *info = lq_arena_take(&page->arena, sizeof *info);
        if (info == NULL || node->state == LQ_NODE_GONE) {
            continue;
        }
        lightq__wire__node_info__init(info);
        info->node = node->id;
        info->endpoints = lq_metadata_endpoints(page->service, &page->arena, node, &info->n_endpoints);
        info->state = lq_metadata_node_state(page->service, node);
        nodes[page->answer.n_nodes++] = info;
        page->bytes += NODE_BYTES * (info->n_endpoints + 1);
    }
    page->answer.nodes = nodes;
}

static Lightq__Wire__PartitionInfo *partition_info(struct metadata_page *page,
                                                   const struct lq_catalog_partition *placed)
{
    Lightq__Wire__PartitionInfo *info = lq_arena_take(&page->arena, sizeof *info);
    struct lq_leader_hint *hint = lq_arena_take(&page->arena, sizeof *hint);
    uint32_t *replicas = lq_arena_take(&page->arena, placed->replica_count * sizeof *replicas);
    if (info == NULL || hint == NULL || replicas == NULL) {
        return NULL;
    }
    lightq__wire__partition_info__init(info);
    lq_service_hint(page->service, placed->group, hint);
    info->partition = placed->number;
    info->group = placed->group;
    info->leader = &hint->leader;
    info->state = lq_metadata_partition_state(page->service, placed);
    for (unsigned i = 0; i < placed->replica_count; i++) {
        replicas[i] = placed->replicas[i].node;
    }
    info->replicas = replicas;
    info->n_replicas = placed->replica_count;
    return info;
}

/* An entry of the answer that says only what became of @name. */
static Lightq__Wire__TopicInfo *topic_status(struct metadata_page *page, const char *name, lightq_status status)
{
    Lightq__Wire__TopicInfo *info = lq_arena_take(&page->arena, sizeof *info);
    if (info != NULL) {
        lightq__wire__topic_info__init(info);
        info->status = (uint32_t)status;
        info->text = lq_codec_string(lightq_status_text(status));
        info->name = lq_codec_string(name);
        page->bytes += TOPIC_BYTES + strlen(name) + strlen(info->text);
        page->elements++;
    }
    return info;
}

static size_t topic_bytes(const struct lq_catalog_topic *topic)
{
    return TOPIC_BYTES + strlen(topic->name) +
           topic->partition_count * (size_t)(PARTITION_BYTES + topic->replicas * REPLICA_BYTES);
}

static size_t topic_elements(const struct lq_catalog_topic *topic)
{
    return 1 + (size_t)topic->partition_count * (1 + topic->replicas);
}

static bool fits(const struct metadata_page *page, const struct lq_catalog_topic *topic)
{
    return page->bytes + topic_bytes(topic) <= PAGE_BYTES_MAX &&
           page->elements + topic_elements(topic) <= PAGE_ELEMENTS_MAX;
}

static Lightq__Wire__TopicInfo *topic_info(struct metadata_page *page, const struct lq_catalog_topic *topic)
{
    if (!fits(page, topic)) {
        return topic_status(page, topic->name, LIGHTQ_ETOOBIG);
    }
    Lightq__Wire__TopicInfo *info = lq_arena_take(&page->arena, sizeof *info);
    Lightq__Wire__PartitionInfo **partitions = lq_arena_take(&page->arena, topic->partition_count * sizeof *partitions);
    if (info == NULL || partitions == NULL) {
        return NULL;
    }
    lightq__wire__topic_info__init(info);
    info->name = lq_codec_string(topic->name);
    info->topic = lq_codec_bytes_of(&topic->uuid);
    info->version = topic->version;
    info->partition_count = topic->partition_count;
    info->partitions = partitions;
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        partitions[i] = partition_info(page, &topic->partitions[i]);
    }
    info->n_partitions = topic->partition_count;
    page->bytes += topic_bytes(topic);
    page->elements += topic_elements(topic);
    return info;
}

static void add_topic(struct metadata_page *page, Lightq__Wire__TopicInfo *info)
{
    if (info != NULL) {
        page->answer.topics[page->answer.n_topics++] = info;
    }
}

static void add_all_topics(struct metadata_page *page, const char *after)
{
    size_t count = lq_catalog_topic_count(page->catalog);
    size_t first = after[0] == '\0' ? 0 : lq_catalog_topic_seek(page->catalog, after);
    page->answer.topics = lq_arena_take(&page->arena, count * sizeof *page->answer.topics);
    for (size_t i = first; page->answer.topics != NULL && i < count; i++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(page->catalog, i);
        if (i == first && strcmp(topic->name, after) == 0) {
            continue;
        }
        /* One that does not fit into an empty page is told as ETOOBIG, or the pages would never end. */
        if (page->answer.n_topics > 0 && !fits(page, topic)) {
            page->answer.more = true;
            return;
        }
        add_topic(page, topic_info(page, topic));
    }
}

static void add_named_topics(struct metadata_page *page, char **names, size_t count)
{
    page->answer.topics = lq_arena_take(&page->arena, count * sizeof *page->answer.topics);
    for (size_t i = 0; page->answer.topics != NULL && i < count; i++) {
        lightq_status status = lq_topic_name_check(names[i], strlen(names[i]));
        const struct lq_catalog_topic *topic = status == LIGHTQ_OK ? lq_catalog_topic(page->catalog, names[i]) : NULL;
        if (topic != NULL) {
            add_topic(page, topic_info(page, topic));
        } else {
            add_topic(page, topic_status(page, names[i], status == LIGHTQ_OK ? LIGHTQ_ENOTFOUND : status));
        }
    }
}

void lq_metadata_request(const struct lq_service *service, const struct lq_request *request)
{
    const Lightq__Wire__Metadata *body = request->body;
    struct metadata_page page = {.service = service, .catalog = lq_meta_catalog(service->meta)};
    struct lq_id cluster = lq_catalog_cluster(page.catalog);
    lq_arena_init(&page.arena, ARENA_BYTES_MAX);
    lightq__wire__metadata_answer__init(&page.answer);
    page.answer.cluster = lq_codec_bytes_of(&cluster);
    page.answer.controller = lq_meta_leader(service->meta, LQ_META_GROUP).node;
    page.answer.version = lq_catalog_version(page.catalog);
    add_nodes(&page);
    if (body->all) {
        add_all_topics(&page, body->after);
    } else {
        add_named_topics(&page, body->names, body->n_names);
    }
    if (page.arena.failed) {
        lq_session_error(service->sessions, request->session, request->envelope->correlation, LIGHTQ_ENOMEM,
                         "no memory for the answer");
    } else {
        lq_session_answer(service->sessions, request->session, LQ_MESSAGE_METADATA_ANSWER,
                          request->envelope->correlation, 0, &page.answer.base);
    }
    lq_arena_deinit(&page.arena);
}

/* ---- TOPIC_LIST */

void lq_metadata_topic_list(const struct lq_service *service, const struct lq_request *request)
{
    const Lightq__Wire__TopicList *body = request->body;
    const struct lq_catalog *catalog = lq_meta_catalog(service->meta);
    Lightq__Wire__TopicListAnswer answer = LIGHTQ__WIRE__TOPIC_LIST_ANSWER__INIT;
    struct lq_arena arena;
    size_t bytes = 0, count = lq_catalog_topic_count(catalog);
    size_t at = body->after[0] == '\0' ? 0 : lq_catalog_topic_seek(catalog, body->after);
    if (at < count && strcmp(lq_catalog_topic_at(catalog, at)->name, body->after) == 0) {
        at++;
    }
    lq_arena_init(&arena, ARENA_BYTES_MAX);
    size_t most = count - at < LIST_TOPICS_MAX ? count - at : LIST_TOPICS_MAX;
    answer.topics = lq_arena_take(&arena, most * sizeof *answer.topics);
    for (; answer.n_topics < most && bytes < PAGE_BYTES_MAX && !arena.failed; at++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, at);
        Lightq__Wire__TopicSummary *summary = lq_arena_take(&arena, sizeof *summary);
        if (summary == NULL) {
            break;
        }
        lightq__wire__topic_summary__init(summary);
        summary->name = lq_codec_string(topic->name);
        summary->topic = lq_codec_bytes_of(&topic->uuid);
        summary->partitions = topic->partition_count;
        summary->replicas = topic->replicas;
        answer.topics[answer.n_topics++] = summary;
        bytes += TOPIC_SUMMARY_BYTES + strlen(topic->name);
    }
    answer.more = at < count;
    if (arena.failed) {
        lq_session_error(service->sessions, request->session, request->envelope->correlation, LIGHTQ_ENOMEM,
                         "no memory for the answer");
    } else {
        lq_session_answer(service->sessions, request->session, LQ_MESSAGE_TOPIC_LIST_ANSWER,
                          request->envelope->correlation, 0, &answer.base);
    }
    lq_arena_deinit(&arena);
}

/* ---- STATS */

enum {
#define X(kind, member, name, sentence) COUNTER_##member,
    LQ_COUNTERS(X)
#undef X
        COUNTER_COUNT
};

void lq_metadata_stats(const struct lq_service *service, const struct lq_request *request)
{
    Lightq__Wire__StatsAnswer answer = LIGHTQ__WIRE__STATS_ANSWER__INIT;
    Lightq__Wire__Counter counters[COUNTER_COUNT];
    Lightq__Wire__Counter *list[COUNTER_COUNT];
    for (size_t i = 0; i < COUNTER_COUNT; i++) {
        lightq__wire__counter__init(&counters[i]);
        list[i] = &counters[i];
    }
#define X(kind, member, name_, sentence)                         \
    counters[COUNTER_##member].name = lq_codec_string("" name_); \
    counters[COUNTER_##member].value = service->counters->member;
    LQ_COUNTERS(X)
#undef X
    answer.node = (uint32_t)service->options->node_id;
    answer.counters = list;
    answer.n_counters = COUNTER_COUNT;
    lq_session_answer(service->sessions, request->session, LQ_MESSAGE_STATS_ANSWER, request->envelope->correlation, 0,
                      &answer.base);
}
