/* node/catalog_command.c - see catalog_command.h. */
#include "node/catalog_command.h"

#include <string.h>

#include "node/catalog.h"
#include "node/codec.h"

#define NODE_ID_BYTES 2 /* in a placement */

static void encode_create(const struct lq_catalog_command *command, struct lq_writer *writer)
{
    size_t name_size = strlen(command->create.name);
    lq_write_u32(writer, command->create.partitions);
    lq_write_id(writer, &command->create.uuid);
    lq_write_u8(writer, command->create.replicas);
    lq_write_u8(writer, (uint8_t)name_size);
    lq_write_bytes(writer, command->create.name, name_size);
    lq_topic_config_encode(&command->create.config, writer);
    lq_write_bytes(writer, command->create.placement,
                   (size_t)command->create.partitions * command->create.replicas * NODE_ID_BYTES);
}

static void encode_alter(const struct lq_catalog_command *command, struct lq_writer *writer)
{
    lq_write_u32(writer, command->alter.first);
    lq_write_id(writer, &command->alter.uuid);
    lq_write_u32(writer, command->alter.added);
    lq_write_u8(writer, command->alter.replicas);
    lq_write_u64(writer, command->alter.mask);
    lq_topic_config_encode(&command->alter.config, writer);
    if (command->alter.added > 0) {
        lq_write_bytes(writer, command->alter.placement,
                       (size_t)command->alter.added * command->alter.replicas * NODE_ID_BYTES);
    }
}

void lq_catalog_command_encode(const struct lq_catalog_command *command, struct lq_writer *writer)
{
    lq_write_u8(writer, (uint8_t)command->type);
    lq_write_u8(writer, LQ_CATALOG_COMMAND_VERSION);
    lq_write_u16(writer, 0);
    switch (command->type) {
    case LQ_CATALOG_BEGIN:
        lq_write_id(writer, &command->begin.cluster);
        lq_write_founders(writer, &command->begin.founders);
        break;
    case LQ_CATALOG_JOIN:
    case LQ_CATALOG_UPDATE:
        lq_write_u32(writer, command->node.id);
        lq_write_id(writer, &command->node.uuid);
        lq_write_u64(writer, command->node.boot);
        lq_write_u32(writer, command->node.shards);
        lq_write_endpoint(writer, &command->node.client);
        lq_write_endpoint(writer, &command->node.peer);
        break;
    case LQ_CATALOG_REPLACE:
        lq_write_u32(writer, command->replace.old_node);
        lq_write_id(writer, &command->replace.old_uuid);
        lq_write_u32(writer, command->replace.new_node);
        break;
    case LQ_CATALOG_CREATE:
        encode_create(command, writer);
        break;
    case LQ_CATALOG_DELETE:
        lq_write_u32(writer, 0);
        lq_write_id(writer, &command->drop.uuid);
        break;
    case LQ_CATALOG_REBUILD:
        lq_write_u32(writer, command->rebuild.node);
        lq_write_u64(writer, command->rebuild.group);
        lq_write_u32(writer, command->rebuild.incarnation);
        break;
    case LQ_CATALOG_GROW:
        lq_write_u32(writer, command->grow.node);
        lq_write_u64(writer, command->grow.group);
        break;
    case LQ_CATALOG_ALTER:
        encode_alter(command, writer);
        break;
    }
}

static bool node_is_good(uint32_t node)
{
    return node != 0 && node <= LQ_NODES_MAX;
}

static bool decode_node(struct lq_reader *reader, struct lq_catalog_command *command)
{
    command->node.id = lq_read_u32(reader);
    command->node.uuid = lq_read_id(reader);
    command->node.boot = lq_read_u64(reader);
    command->node.shards = lq_read_u32(reader);
    lq_read_endpoint(reader, &command->node.client);
    lq_read_endpoint(reader, &command->node.peer);
    return node_is_good(command->node.id) && !lq_id_is_zero(&command->node.uuid);
}

static lightq_status decode_create(struct lq_reader *reader, struct lq_catalog_command *command)
{
    command->create.partitions = lq_read_u32(reader);
    command->create.uuid = lq_read_id(reader);
    command->create.replicas = lq_read_u8(reader);
    size_t name_size = lq_read_u8(reader);
    const uint8_t *name = lq_read_bytes(reader, name_size);
    if (reader->failed || name_size > LQ_NAME_BYTES_MAX ||
        lq_topic_name_check((const char *)name, name_size) != LIGHTQ_OK) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(command->create.name, name, name_size);
    lightq_status status = lq_topic_config_decode(reader, &command->create.config);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (command->create.partitions == 0 || command->create.partitions > LQ_PARTITIONS_MAX ||
        command->create.replicas == 0 || command->create.replicas > LQ_REPLICAS_MAX ||
        lq_id_is_zero(&command->create.uuid)) {
        return LIGHTQ_ECORRUPT;
    }
    command->create.placement =
        lq_read_bytes(reader, (size_t)command->create.partitions * command->create.replicas * NODE_ID_BYTES);
    return command->create.placement == NULL ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

static lightq_status decode_alter(struct lq_reader *reader, struct lq_catalog_command *command)
{
    command->alter.first = lq_read_u32(reader);
    command->alter.uuid = lq_read_id(reader);
    command->alter.added = lq_read_u32(reader);
    command->alter.replicas = lq_read_u8(reader);
    command->alter.mask = lq_read_u64(reader);
    if (reader->failed || lq_id_is_zero(&command->alter.uuid)) {
        return LIGHTQ_ECORRUPT;
    }
    if (!lq_topic_config_knows(command->alter.mask)) {
        return LIGHTQ_EVERSION;
    }
    lightq_status status = lq_topic_config_decode(reader, &command->alter.config);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint32_t added = command->alter.added;
    if (added > LQ_PARTITIONS_MAX ||
        (added > 0 && (command->alter.replicas == 0 || command->alter.replicas > LQ_REPLICAS_MAX))) {
        return LIGHTQ_ECORRUPT;
    }
    if (added > 0 && (command->alter.first == 0 || command->alter.first > LQ_PARTITIONS_MAX - added)) {
        return LIGHTQ_ECORRUPT;
    }
    command->alter.placement = lq_read_bytes(reader, (size_t)added * command->alter.replicas * NODE_ID_BYTES);
    return reader->failed ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

static lightq_status decode_body(struct lq_reader *reader, struct lq_catalog_command *command)
{
    bool good = false;
    switch (command->type) {
    case LQ_CATALOG_BEGIN:
        command->begin.cluster = lq_read_id(reader);
        lq_read_founders(reader, &command->begin.founders);
        good = !lq_id_is_zero(&command->begin.cluster) && command->begin.founders.count > 0;
        break;
    case LQ_CATALOG_JOIN:
    case LQ_CATALOG_UPDATE:
        good = decode_node(reader, command);
        break;
    case LQ_CATALOG_REPLACE:
        command->replace.old_node = lq_read_u32(reader);
        command->replace.old_uuid = lq_read_id(reader);
        command->replace.new_node = lq_read_u32(reader);
        good = node_is_good(command->replace.old_node) && node_is_good(command->replace.new_node);
        break;
    case LQ_CATALOG_CREATE:
        return decode_create(reader, command);
    case LQ_CATALOG_DELETE:
        good = lq_read_u32(reader) == 0;
        command->drop.uuid = lq_read_id(reader);
        break;
    case LQ_CATALOG_REBUILD:
        command->rebuild.node = lq_read_u32(reader);
        command->rebuild.group = lq_read_u64(reader);
        command->rebuild.incarnation = lq_read_u32(reader);
        good = node_is_good(command->rebuild.node) && command->rebuild.incarnation != 0;
        break;
    case LQ_CATALOG_GROW:
        command->grow.node = lq_read_u32(reader);
        command->grow.group = lq_read_u64(reader);
        good = node_is_good(command->grow.node) && command->grow.group != LQ_META_GROUP;
        break;
    case LQ_CATALOG_ALTER:
        return decode_alter(reader, command);
    }
    return good ? LIGHTQ_OK : LIGHTQ_ECORRUPT;
}

lightq_status lq_catalog_command_decode(const uint8_t *payload, uint32_t size, struct lq_catalog_command *command)
{
    struct lq_reader reader = lq_reader_of(payload, size);
    *command = (struct lq_catalog_command){.type = (enum lq_catalog_command_type)lq_read_u8(&reader)};
    uint8_t version = lq_read_u8(&reader);
    uint16_t flags = lq_read_u16(&reader);
    if (reader.failed) {
        return LIGHTQ_ECORRUPT;
    }
    if (version != LQ_CATALOG_COMMAND_VERSION || flags != 0) {
        return LIGHTQ_EVERSION;
    }
    lightq_status status = decode_body(&reader, command);
    if (status == LIGHTQ_OK && (reader.failed || lq_reader_left(&reader) != 0)) {
        status = LIGHTQ_ECORRUPT;
    }
    return status;
}
