/* node/catalog.c - the catalog's tables: reading them, adding to and removing from them. What commands mean is in
 * catalog_apply.c, the checkpoint in catalog_save.c. See catalog.h. */
#include "node/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "node/catalog_internal.h"
#include "node/queue/name.h"

#define FIRST_CAPACITY 8

/* ---- life ---- */

void lq_catalog_clear(struct lq_catalog *catalog)
{
    *catalog =
        (struct lq_catalog){.next_group = LQ_META_GROUP + 1, .meta_next_incarnation = LQ_INCARNATION_FOUNDER + 1};
}

void lq_catalog_deinit(struct lq_catalog *catalog)
{
    HASH_CLEAR(hh, catalog->by_uuid);
    for (size_t i = 0; i < catalog->topic_count; i++) {
        lq_topic_free(catalog->topics[i]);
    }
    free(catalog->topics);
    free(catalog->nodes);
    free(catalog->ranges);
}

lightq_status lq_catalog_new(struct lq_catalog **catalog)
{
    *catalog = malloc(sizeof **catalog);
    if (*catalog == NULL) {
        return LIGHTQ_ENOMEM;
    }
    lq_catalog_clear(*catalog);
    return LIGHTQ_OK;
}

void lq_catalog_free(struct lq_catalog *catalog)
{
    if (catalog != NULL) {
        lq_catalog_deinit(catalog);
        free(catalog);
    }
}

/* ---- growing arrays ---- */

/* @array with room for one element more than @count; NULL: out of memory, and @array is as it was. */
static void *reserve(void *array, size_t count, size_t *capacity, size_t element_size)
{
    if (count < *capacity) {
        return array;
    }
    size_t wanted = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
    void *grown = realloc(array, wanted * element_size);
    if (grown != NULL) {
        *capacity = wanted;
    }
    return grown;
}

/* ---- nodes ---- */

static size_t seek_node(const struct lq_catalog *catalog, uint32_t id)
{
    size_t at = 0;
    while (at < catalog->node_count && catalog->nodes[at].id < id) {
        at++;
    }
    return at;
}

struct lq_catalog_node *lq_catalog_find_node(const struct lq_catalog *catalog, uint32_t id)
{
    size_t at = seek_node(catalog, id);
    return at < catalog->node_count && catalog->nodes[at].id == id ? &catalog->nodes[at] : NULL;
}

struct lq_catalog_node *lq_catalog_add_node(struct lq_catalog *catalog, uint32_t id)
{
    void *grown = reserve(catalog->nodes, catalog->node_count, &catalog->node_capacity, sizeof *catalog->nodes);
    if (grown == NULL) {
        return NULL;
    }
    catalog->nodes = grown;
    size_t at = seek_node(catalog, id);
    memmove(&catalog->nodes[at + 1], &catalog->nodes[at], (catalog->node_count - at) * sizeof *catalog->nodes);
    catalog->node_count++;
    catalog->nodes[at] = (struct lq_catalog_node){.id = id};
    return &catalog->nodes[at];
}

/* ---- topics ---- */

struct topic *lq_topic_new(uint32_t partition_count)
{
    struct topic *topic = calloc(1, sizeof *topic);
    if (topic == NULL) {
        return NULL;
    }
    topic->partitions = calloc(partition_count, sizeof *topic->partitions);
    if (topic->partitions == NULL) {
        free(topic);
        return NULL;
    }
    topic->shown.partitions = topic->partitions;
    topic->shown.partition_count = partition_count;
    return topic;
}

void lq_topic_free(struct topic *topic)
{
    free(topic->partitions);
    free(topic);
}

struct topic *lq_catalog_find_topic(const struct lq_catalog *catalog, const struct lq_id *uuid)
{
    struct topic *topic = NULL;
    HASH_FIND(hh, catalog->by_uuid, uuid, sizeof *uuid, topic);
    return topic;
}

size_t lq_catalog_topic_seek(const struct lq_catalog *catalog, const char *name)
{
    size_t low = 0;
    size_t high = catalog->topic_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(catalog->topics[middle]->shown.name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The first range that ends behind @group. */
static size_t seek_range(const struct lq_catalog *catalog, uint64_t group)
{
    size_t low = 0;
    size_t high = catalog->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (catalog->ranges[middle].first_group + catalog->ranges[middle].count <= group) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void remove_ranges(struct lq_catalog *catalog, const struct topic *topic)
{
    size_t kept = 0;
    for (size_t i = 0; i < catalog->range_count; i++) {
        if (catalog->ranges[i].topic != topic) {
            catalog->ranges[kept++] = catalog->ranges[i];
        }
    }
    catalog->range_count = kept;
}

/* OK | ENOMEM. */
static lightq_status add_range(struct lq_catalog *catalog, const struct group_range *range)
{
    void *grown = reserve(catalog->ranges, catalog->range_count, &catalog->range_capacity, sizeof *catalog->ranges);
    if (grown == NULL) {
        return LIGHTQ_ENOMEM;
    }
    catalog->ranges = grown;
    size_t at = seek_range(catalog, range->first_group);
    memmove(&catalog->ranges[at + 1], &catalog->ranges[at], (catalog->range_count - at) * sizeof *catalog->ranges);
    catalog->range_count++;
    catalog->ranges[at] = *range;
    return LIGHTQ_OK;
}

/* A range for each run of partitions whose groups follow one another. */
static lightq_status add_ranges(struct lq_catalog *catalog, struct topic *topic)
{
    uint32_t count = topic->shown.partition_count;
    for (uint32_t first = 0; first < count;) {
        uint32_t end = first + 1;
        while (end < count && topic->partitions[end].group == topic->partitions[end - 1].group + 1) {
            end++;
        }
        const struct group_range range = {
            .first_group = topic->partitions[first].group, .count = end - first, .first_number = first, .topic = topic};
        if (add_range(catalog, &range) != LIGHTQ_OK) {
            remove_ranges(catalog, topic);
            return LIGHTQ_ENOMEM;
        }
        first = end;
    }
    return LIGHTQ_OK;
}

lightq_status lq_catalog_add_topic(struct lq_catalog *catalog, struct topic *topic)
{
    void *grown = reserve(catalog->topics, catalog->topic_count, &catalog->topic_capacity, sizeof(struct topic *));
    if (grown == NULL) {
        return LIGHTQ_ENOMEM;
    }
    catalog->topics = grown;
    lightq_status status = add_ranges(catalog, topic);
    if (status != LIGHTQ_OK) {
        return status;
    }
    HASH_ADD(hh, catalog->by_uuid, shown.uuid, sizeof topic->shown.uuid, topic);
    if (topic->hh.tbl == NULL) {
        remove_ranges(catalog, topic);
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < topic->shown.partition_count; i++) {
        topic->partitions[i].topic = &topic->shown;
    }
    size_t at = lq_catalog_topic_seek(catalog, topic->shown.name);
    memmove(&catalog->topics[at + 1], &catalog->topics[at], (catalog->topic_count - at) * sizeof(struct topic *));
    catalog->topics[at] = topic;
    catalog->topic_count++;
    catalog->partition_count += topic->shown.partition_count;
    return LIGHTQ_OK;
}

lightq_status lq_catalog_grow_topic(struct lq_catalog *catalog, struct topic *topic,
                                    const struct lq_catalog_partition *added, uint32_t count)
{
    uint32_t before = topic->shown.partition_count;
    struct lq_catalog_partition *grown = realloc(topic->partitions, ((size_t)before + count) * sizeof *grown);
    if (grown == NULL) {
        return LIGHTQ_ENOMEM;
    }
    topic->partitions = grown;
    topic->shown.partitions = grown;
    const struct group_range range = {
        .first_group = added[0].group, .count = count, .first_number = before, .topic = topic};
    lightq_status status = add_range(catalog, &range);
    if (status != LIGHTQ_OK) {
        return status;
    }
    memcpy(&grown[before], added, count * sizeof *grown);
    for (uint32_t i = before; i < before + count; i++) {
        grown[i].topic = &topic->shown;
    }
    topic->shown.partition_count += count;
    catalog->partition_count += count;
    return LIGHTQ_OK;
}

void lq_catalog_remove_topic(struct lq_catalog *catalog, struct topic *topic)
{
    size_t at = lq_catalog_topic_seek(catalog, topic->shown.name);
    catalog->topic_count--;
    memmove(&catalog->topics[at], &catalog->topics[at + 1], (catalog->topic_count - at) * sizeof(struct topic *));
    catalog->partition_count -= topic->shown.partition_count;
    remove_ranges(catalog, topic);
    HASH_DEL(catalog->by_uuid, topic);
    lq_topic_free(topic);
}

struct lq_catalog_partition *lq_catalog_find_partition(const struct lq_catalog *catalog, uint64_t group)
{
    size_t at = seek_range(catalog, group);
    if (at == catalog->range_count || catalog->ranges[at].first_group > group) {
        return NULL;
    }
    const struct group_range *range = &catalog->ranges[at];
    return &range->topic->partitions[range->first_number + (group - range->first_group)];
}

/* ---- reading ---- */

uint64_t lq_catalog_version(const struct lq_catalog *catalog)
{
    return catalog->version;
}

uint64_t lq_catalog_applied(const struct lq_catalog *catalog)
{
    return catalog->applied_index;
}

struct lq_id lq_catalog_cluster(const struct lq_catalog *catalog)
{
    return catalog->cluster;
}

uint64_t lq_catalog_next_group(const struct lq_catalog *catalog)
{
    return catalog->next_group;
}

uint32_t lq_catalog_next_admission(const struct lq_catalog *catalog)
{
    return catalog->meta_next_incarnation;
}

size_t lq_catalog_node_count(const struct lq_catalog *catalog)
{
    return catalog->node_count;
}

const struct lq_catalog_node *lq_catalog_node_at(const struct lq_catalog *catalog, size_t i)
{
    return i < catalog->node_count ? &catalog->nodes[i] : NULL;
}

const struct lq_catalog_node *lq_catalog_node(const struct lq_catalog *catalog, uint32_t id)
{
    return lq_catalog_find_node(catalog, id);
}

size_t lq_catalog_topic_count(const struct lq_catalog *catalog)
{
    return catalog->topic_count;
}

size_t lq_catalog_partition_count(const struct lq_catalog *catalog)
{
    return catalog->partition_count;
}

const struct lq_catalog_topic *lq_catalog_topic_at(const struct lq_catalog *catalog, size_t i)
{
    return i < catalog->topic_count ? &catalog->topics[i]->shown : NULL;
}

const struct lq_catalog_topic *lq_catalog_topic(const struct lq_catalog *catalog, const char *name)
{
    size_t at = lq_catalog_topic_seek(catalog, name);
    return at < catalog->topic_count && strcmp(catalog->topics[at]->shown.name, name) == 0 ? &catalog->topics[at]->shown
                                                                                           : NULL;
}

const struct lq_catalog_topic *lq_catalog_topic_by_id(const struct lq_catalog *catalog, const struct lq_id *uuid)
{
    const struct topic *topic = lq_catalog_find_topic(catalog, uuid);
    return topic == NULL ? NULL : &topic->shown;
}

const struct lq_catalog_partition *lq_catalog_partition(const struct lq_catalog *catalog, uint64_t group)
{
    return lq_catalog_find_partition(catalog, group);
}

const struct lq_catalog_replica *lq_catalog_replica_on(const struct lq_catalog_partition *partition, uint32_t node)
{
    for (unsigned i = 0; i < partition->replica_count; i++) {
        if (partition->replicas[i].node == node) {
            return &partition->replicas[i];
        }
    }
    return NULL;
}

const struct lq_catalog_outcome *lq_catalog_outcome(const struct lq_catalog *catalog)
{
    return &catalog->outcome;
}

lightq_status lq_topic_name_check(const char *name, size_t size)
{
    return lq_name_check(name, size);
}
