/* node/queue/command.c - see command.h. */
#include "node/queue/command.h"

#include <string.h>

size_t lq_command_append_head(const struct lq_command *command, uint8_t head[LQ_COMMAND_APPEND_HEAD_MOST])
{
    head[0] = LQ_COMMAND_APPEND;
    head[1] = command->append.has_id ? LQ_COMMAND_APPEND_ID_VERSION : LQ_COMMAND_APPEND_VERSION;
    lq_put_u16(head + 2, 0);
    lq_put_u32(head + 4, command->append.batch_crc);
    lq_put_u64(head + 8, command->append.producer_id);
    lq_put_u64(head + 16, command->append.sequence);
    lq_put_u64(head + 24, command->append.expected_offset);
    lq_put_u32(head + 32, command->append.epoch);
    lq_put_u32(head + 36, command->append.begins_epoch ? LQ_COMMAND_APPEND_BEGINS : 0);
    if (!command->append.has_id) {
        return LQ_COMMAND_APPEND_HEAD_BYTES;
    }
    memcpy(head + LQ_COMMAND_APPEND_HEAD_BYTES, command->append.message_id.bytes,
           sizeof command->append.message_id.bytes);
    return LQ_COMMAND_APPEND_HEAD_MOST;
}

static void encode_skip(const struct lq_command *command, struct lq_writer *writer)
{
    lq_write_u32(writer, command->skip.epoch);
    lq_write_u64(writer, command->skip.producer_id);
    lq_write_u64(writer, command->skip.sequence);
    lq_write_u64(writer, command->skip.base_offset);
    lq_write_u64(writer, command->skip.term);
    lq_write_u64(writer, command->skip.timestamp_ms);
    lq_write_u32(writer, command->skip.count);
    lq_write_u32(writer, command->skip.begins_epoch ? LQ_COMMAND_APPEND_BEGINS : 0);
}

static lightq_status decode_skip(struct lq_reader *reader, struct lq_command *command)
{
    command->skip.epoch = lq_read_u32(reader);
    command->skip.producer_id = lq_read_u64(reader);
    command->skip.sequence = lq_read_u64(reader);
    command->skip.base_offset = lq_read_u64(reader);
    command->skip.term = lq_read_u64(reader);
    command->skip.timestamp_ms = lq_read_u64(reader);
    command->skip.count = lq_read_u32(reader);
    uint32_t bits = lq_read_u32(reader);
    command->skip.begins_epoch = (bits & LQ_COMMAND_APPEND_BEGINS) != 0;
    return reader->failed || (bits & ~LQ_COMMAND_APPEND_BEGINS) != 0 || command->skip.producer_id == 0 ||
                   command->skip.count == 0
               ? LIGHTQ_ECORRUPT
               : LIGHTQ_OK;
}

void lq_command_encode(const struct lq_command *command, struct lq_writer *writer)
{
    if (command->type == LQ_COMMAND_APPEND) {
        uint8_t head[LQ_COMMAND_APPEND_HEAD_MOST];
        lq_write_bytes(writer, head, lq_command_append_head(command, head));
        return;
    }
    lq_write_u8(writer, (uint8_t)command->type);
    bool is_kept = command->type == LQ_COMMAND_TRIM && command->trim.kept_for != LQ_RETENTION_LIMITS;
    lq_write_u8(writer, is_kept ? LQ_COMMAND_TRIM_KEPT_VERSION : LQ_COMMAND_VERSION);
    lq_write_u16(writer, 0);
    switch (command->type) {
    case LQ_COMMAND_TRIM:
        lq_write_u32(writer, command->trim.kept_for);
        lq_write_u64(writer, command->trim.offset);
        break;
    case LQ_COMMAND_CONFIG:
        lq_write_u32(writer, command->config.partition);
        lq_write_bytes(writer, command->config.topic.bytes, sizeof command->config.topic.bytes);
        lq_topic_config_encode(&command->config.config, writer);
        break;
    case LQ_COMMAND_FORGET:
        lq_write_u32(writer, 0);
        lq_write_u64(writer, command->forget.index);
        break;
    case LQ_COMMAND_SKIP:
        encode_skip(command, writer);
        break;
    case LQ_COMMAND_APPEND:
        break;
    case LQ_COMMAND_GROUP_CREATE:
    case LQ_COMMAND_GROUP_DELETE:
    case LQ_COMMAND_GROUP_SEEK:
    case LQ_COMMAND_COMMIT:
    case LQ_COMMAND_SETTLE:
    case LQ_COMMAND_DONE:
    case LQ_COMMAND_GROUP_ALTER:
    case LQ_COMMAND_GROUP_DLQ:
        lq_cgroup_command_encode(command, writer);
        break;
    }
}

static lightq_status decode_append(struct lq_reader *reader, uint8_t version, struct lq_command *command)
{
    command->append.batch_crc = lq_read_u32(reader);
    command->append.producer_id = lq_read_u64(reader);
    command->append.sequence = lq_read_u64(reader);
    command->append.expected_offset = lq_read_u64(reader);
    command->append.epoch = lq_read_u32(reader);
    uint32_t bits = lq_read_u32(reader);
    uint32_t bits_known = version >= LQ_COMMAND_APPEND_VERSION ? LQ_COMMAND_APPEND_BEGINS : 0;
    command->append.begins_epoch = (bits & LQ_COMMAND_APPEND_BEGINS) != 0;
    command->append.has_id = version == LQ_COMMAND_APPEND_ID_VERSION;
    if (command->append.has_id) {
        const uint8_t *digest = lq_read_bytes(reader, sizeof command->append.message_id.bytes);
        if (digest == NULL) {
            return LIGHTQ_ECORRUPT;
        }
        memcpy(command->append.message_id.bytes, digest, sizeof command->append.message_id.bytes);
    }
    command->append.batch_size = (uint32_t)lq_reader_left(reader);
    command->append.batch = lq_read_bytes(reader, command->append.batch_size);
    return reader->failed || (bits & ~bits_known) != 0 || command->append.batch_size == 0 ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

static lightq_status decode_config(struct lq_reader *reader, struct lq_command *command)
{
    command->config.partition = lq_read_u32(reader);
    const uint8_t *topic = lq_read_bytes(reader, sizeof command->config.topic.bytes);
    if (topic == NULL) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(command->config.topic.bytes, topic, sizeof command->config.topic.bytes);
    return lq_topic_config_decode(reader, &command->config.config);
}

static lightq_status decode_trim(struct lq_reader *reader, uint8_t version, struct lq_command *command)
{
    uint32_t kept_for = lq_read_u32(reader);
    bool is_kept = kept_for == LQ_RETENTION_WORKQUEUE || kept_for == LQ_RETENTION_INTEREST;
    command->trim.kept_for = (enum lq_retention)kept_for;
    command->trim.offset = lq_read_u64(reader);
    bool is_known = version == LQ_COMMAND_TRIM_KEPT_VERSION ? is_kept : kept_for == LQ_RETENTION_LIMITS;
    return reader->failed || !is_known ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

static lightq_status decode_forget(struct lq_reader *reader, struct lq_command *command)
{
    uint32_t reserved = lq_read_u32(reader);
    command->forget.index = lq_read_u64(reader);
    return reader->failed || reserved != 0 ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

static uint8_t newest_version(enum lq_command_type type)
{
    return type == LQ_COMMAND_APPEND ? LQ_COMMAND_APPEND_ID_VERSION
           : type == LQ_COMMAND_TRIM ? LQ_COMMAND_TRIM_KEPT_VERSION
                                     : LQ_COMMAND_VERSION;
}

lightq_status lq_command_decode(const uint8_t *payload, uint32_t size, struct lq_command *command)
{
    struct lq_reader reader = lq_reader_of(payload, size);
    *command = (struct lq_command){.type = (enum lq_command_type)lq_read_u8(&reader)};
    uint8_t version = lq_read_u8(&reader);
    uint16_t flags = lq_read_u16(&reader);
    if (reader.failed) {
        return LIGHTQ_ECORRUPT;
    }
    if (version < LQ_COMMAND_VERSION || version > newest_version(command->type) || flags != 0) {
        return LIGHTQ_EVERSION;
    }
    lightq_status status = LIGHTQ_ECORRUPT;
    switch (command->type) {
    case LQ_COMMAND_APPEND:
        status = decode_append(&reader, version, command);
        break;
    case LQ_COMMAND_TRIM:
        status = decode_trim(&reader, version, command);
        break;
    case LQ_COMMAND_CONFIG:
        status = decode_config(&reader, command);
        break;
    case LQ_COMMAND_FORGET:
        status = decode_forget(&reader, command);
        break;
    case LQ_COMMAND_SKIP:
        status = decode_skip(&reader, command);
        break;
    default:
        status = lq_cgroup_command_decode(&reader, command);
        break;
    }
    if (status == LIGHTQ_OK && lq_reader_left(&reader) != 0) {
        status = LIGHTQ_ECORRUPT;
    }
    return status;
}
