/* node/catalog_save.c - the catalog's checkpoint. Little endian, everything in order of id, name or number:
 *
 *      0  magic u32 "LQCT" | 4 version u16, 1 | 6 flags u16, 0 | 8 cluster, 16 bytes | 24 version u64 |
 *     32  applied_index u64 | 40 applied_term u64 | 48 next_group u64 | 56 meta_next_incarnation u32 | 60 node_count
 * u32 64  nodes: id u32 | state u8 | voter u8 | reserved u16, 0 | uuid, 16 bytes | boot u64 | shards u32 |
 *         meta_incarnation u32 | client | peer (addresses: codec.h)
 *         topic_count u32
 *         topics: uuid, 16 bytes | version u64 | partition_count u32 | replicas u8 | name_length u8 | name |
 *         configuration (queue/topic_config.h) |
 *         partitions: group u64 | next_incarnation u32 | replica_count u8 | replicas: node u16, incarnation u32
 *  end-4  crc32c u32 over all before it */
#include <stdlib.h>
#include <string.h>

#include "node/catalog_internal.h"
#include "node/codec.h"
#include "node/queue/sealed.h"

#define CATALOG_MAGIC   0x5443514cu /* "LQCT" read as little endian */
#define CATALOG_VERSION 1
#define PARTITION_BYTES 13 /* the least one takes */

/* ---- save ---- */

static void save_node(const struct lq_catalog_node *node, struct lq_writer *writer)
{
    lq_write_u32(writer, node->id);
    lq_write_u8(writer, (uint8_t)node->state);
    lq_write_u8(writer, node->meta_voter);
    lq_write_u16(writer, 0);
    lq_write_id(writer, &node->uuid);
    lq_write_u64(writer, node->boot);
    lq_write_u32(writer, node->shards);
    lq_write_u32(writer, node->meta_incarnation);
    lq_write_endpoint(writer, &node->client);
    lq_write_endpoint(writer, &node->peer);
}

static void save_topic(const struct lq_catalog_topic *topic, struct lq_writer *writer)
{
    size_t name_size = strlen(topic->name);
    lq_write_id(writer, &topic->uuid);
    lq_write_u64(writer, topic->version);
    lq_write_u32(writer, topic->partition_count);
    lq_write_u8(writer, topic->replicas);
    lq_write_u8(writer, (uint8_t)name_size);
    lq_write_bytes(writer, topic->name, name_size);
    lq_topic_config_encode(&topic->config, writer);
    for (uint32_t p = 0; p < topic->partition_count; p++) {
        const struct lq_catalog_partition *partition = &topic->partitions[p];
        lq_write_u64(writer, partition->group);
        lq_write_u32(writer, partition->next_incarnation);
        lq_write_u8(writer, partition->replica_count);
        for (unsigned i = 0; i < partition->replica_count; i++) {
            lq_write_u16(writer, (uint16_t)partition->replicas[i].node);
            lq_write_u32(writer, partition->replicas[i].incarnation);
        }
    }
}

lightq_status lq_catalog_save(const struct lq_catalog *catalog, struct lq_writer *writer)
{
    size_t begin = lq_sealed_begin(writer, CATALOG_MAGIC, CATALOG_VERSION);
    lq_write_id(writer, &catalog->cluster);
    lq_write_u64(writer, catalog->version);
    lq_write_u64(writer, catalog->applied_index);
    lq_write_u64(writer, catalog->applied_term);
    lq_write_u64(writer, catalog->next_group);
    lq_write_u32(writer, catalog->meta_next_incarnation);
    lq_write_u32(writer, (uint32_t)catalog->node_count);
    for (size_t i = 0; i < catalog->node_count; i++) {
        save_node(&catalog->nodes[i], writer);
    }
    lq_write_u32(writer, (uint32_t)catalog->topic_count);
    for (size_t i = 0; i < catalog->topic_count; i++) {
        save_topic(&catalog->topics[i]->shown, writer);
    }
    return lq_sealed_end(writer, begin);
}

/* ---- load ---- */

static bool node_is_good(const struct lq_catalog *catalog, const struct lq_catalog_node *node, uint8_t voter,
                         uint16_t reserved)
{
    bool gone = node->state == LQ_NODE_GONE;
    return node->state >= LQ_NODE_ACTIVE && node->state <= LQ_NODE_GONE && voter <= 1 && reserved == 0 &&
           lq_id_is_zero(&node->uuid) == (node->state == LQ_NODE_AWAITED) && (node->meta_incarnation == 0) == gone &&
           node->meta_incarnation < catalog->meta_next_incarnation && !(gone && voter != 0);
}

static lightq_status load_nodes(struct lq_catalog *catalog, struct lq_reader *reader)
{
    uint32_t count = lq_read_u32(reader);
    uint32_t before = 0;
    size_t members = 0;
    if (count > LQ_CATALOG_NODES_MAX) {
        return LIGHTQ_ECORRUPT;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = lq_read_u32(reader);
        if (reader->failed || id <= before || id > LQ_NODES_MAX) {
            return LIGHTQ_ECORRUPT;
        }
        before = id;
        struct lq_catalog_node *node = lq_catalog_add_node(catalog, id);
        if (node == NULL) {
            return LIGHTQ_ENOMEM;
        }
        node->state = (enum lq_node_state)lq_read_u8(reader);
        uint8_t voter = lq_read_u8(reader);
        uint16_t reserved = lq_read_u16(reader);
        node->uuid = lq_read_id(reader);
        node->boot = lq_read_u64(reader);
        node->shards = lq_read_u32(reader);
        node->meta_incarnation = lq_read_u32(reader);
        node->meta_voter = voter == 1;
        lq_read_endpoint(reader, &node->client);
        lq_read_endpoint(reader, &node->peer);
        members += node->state != LQ_NODE_GONE;
        if (reader->failed || !node_is_good(catalog, node, voter, reserved) || members > LQ_FOUNDERS_MAX) {
            return LIGHTQ_ECORRUPT;
        }
    }
    return LIGHTQ_OK;
}

static bool load_partition(const struct lq_catalog *catalog, struct lq_catalog_partition *partition, uint32_t number,
                           struct lq_reader *reader)
{
    partition->number = number;
    partition->group = lq_read_u64(reader);
    partition->next_incarnation = lq_read_u32(reader);
    partition->replica_count = lq_read_u8(reader);
    if (reader->failed || partition->replica_count == 0 || partition->replica_count > LQ_REPLICAS_MAX ||
        partition->group == LQ_META_GROUP || partition->group >= catalog->next_group) {
        return false;
    }
    for (unsigned i = 0; i < partition->replica_count; i++) {
        struct lq_catalog_replica *replica = &partition->replicas[i];
        replica->node = lq_read_u16(reader);
        replica->incarnation = lq_read_u32(reader);
        if (reader->failed || replica->incarnation == 0 || replica->incarnation >= partition->next_incarnation ||
            lq_catalog_find_node(catalog, replica->node) == NULL) {
            return false;
        }
        for (unsigned k = 0; k < i; k++) {
            if (partition->replicas[k].node == replica->node) {
                return false;
            }
        }
    }
    return true;
}

/* Everything of a topic but its partitions; NULL with *status. */
static struct topic *load_topic_head(struct lq_reader *reader, lightq_status *status)
{
    struct lq_id uuid = lq_read_id(reader);
    uint64_t version = lq_read_u64(reader);
    uint32_t partition_count = lq_read_u32(reader);
    uint8_t replicas = lq_read_u8(reader);
    size_t name_size = lq_read_u8(reader);
    const uint8_t *name = lq_read_bytes(reader, name_size);
    struct lq_topic_config config;
    *status = LIGHTQ_ECORRUPT;
    if (reader->failed || lq_topic_name_check((const char *)name, name_size) != LIGHTQ_OK || lq_id_is_zero(&uuid) ||
        replicas == 0 || replicas > LQ_REPLICAS_MAX) {
        return NULL;
    }
    lightq_status decoded = lq_topic_config_decode(reader, &config);
    if (decoded != LIGHTQ_OK) {
        *status = decoded;
        return NULL;
    }
    if (partition_count == 0 || partition_count > LQ_PARTITIONS_MAX ||
        lq_reader_left(reader) < (size_t)partition_count * PARTITION_BYTES) {
        return NULL;
    }
    struct topic *topic = lq_topic_new(partition_count);
    if (topic == NULL) {
        *status = LIGHTQ_ENOMEM;
        return NULL;
    }
    topic->shown.uuid = uuid;
    topic->shown.version = version;
    topic->shown.replicas = replicas;
    topic->shown.config = config;
    memcpy(topic->shown.name, name, name_size);
    *status = LIGHTQ_OK;
    return topic;
}

static bool groups_are_new(const struct lq_catalog *catalog, const struct topic *topic)
{
    for (uint32_t p = 0; p < topic->shown.partition_count; p++) {
        if (lq_catalog_find_partition(catalog, topic->partitions[p].group) != NULL ||
            (p > 0 && topic->partitions[p].group <= topic->partitions[p - 1].group)) {
            return false;
        }
    }
    return true;
}

static lightq_status load_topic(struct lq_catalog *catalog, struct lq_reader *reader)
{
    lightq_status status;
    struct topic *topic = load_topic_head(reader, &status);
    if (topic == NULL) {
        return status;
    }
    bool good = true;
    for (uint32_t p = 0; p < topic->shown.partition_count && good; p++) {
        good = load_partition(catalog, &topic->partitions[p], p, reader);
    }
    size_t last = catalog->topic_count;
    good = good && groups_are_new(catalog, topic) && lq_catalog_find_topic(catalog, &topic->shown.uuid) == NULL &&
           (last == 0 || strcmp(catalog->topics[last - 1]->shown.name, topic->shown.name) < 0);
    status = good ? lq_catalog_add_topic(catalog, topic) : LIGHTQ_ECORRUPT;
    if (status != LIGHTQ_OK) {
        lq_topic_free(topic);
    }
    return status;
}

static lightq_status load_fields(struct lq_catalog *catalog, struct lq_reader *reader)
{
    catalog->cluster = lq_read_id(reader);
    catalog->version = lq_read_u64(reader);
    catalog->applied_index = lq_read_u64(reader);
    catalog->applied_term = lq_read_u64(reader);
    catalog->next_group = lq_read_u64(reader);
    catalog->meta_next_incarnation = lq_read_u32(reader);
    if (reader->failed || catalog->version > catalog->applied_index || catalog->next_group == 0) {
        return LIGHTQ_ECORRUPT;
    }
    lightq_status status = load_nodes(catalog, reader);
    uint32_t topics = status == LIGHTQ_OK ? lq_read_u32(reader) : 0;
    if (topics > LQ_TOPICS_MAX) {
        return LIGHTQ_ECORRUPT;
    }
    for (uint32_t i = 0; i < topics && status == LIGHTQ_OK; i++) {
        status = load_topic(catalog, reader);
    }
    bool begun = catalog->version != 0;
    if (status == LIGHTQ_OK && (reader->failed || lq_reader_left(reader) != 0 || begun == (catalog->node_count == 0) ||
                                begun == lq_id_is_zero(&catalog->cluster))) {
        status = LIGHTQ_ECORRUPT;
    }
    return status;
}

static lightq_status load_all(struct lq_catalog *catalog, const uint8_t *bytes, size_t size)
{
    struct lq_reader reader;
    lightq_status status = lq_sealed_open(bytes, size, CATALOG_MAGIC, CATALOG_VERSION, &reader);
    return status == LIGHTQ_OK ? load_fields(catalog, &reader) : status;
}

lightq_status lq_catalog_load(struct lq_catalog *catalog, const uint8_t *bytes, size_t size)
{
    struct lq_catalog loaded;
    lq_catalog_clear(&loaded);
    lightq_status status = size == 0 ? LIGHTQ_OK : load_all(&loaded, bytes, size);
    if (status != LIGHTQ_OK) {
        lq_catalog_deinit(&loaded);
        return status;
    }
    lq_catalog_deinit(catalog);
    *catalog = loaded;
    return LIGHTQ_OK;
}
