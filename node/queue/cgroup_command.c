/* node/queue/cgroup_command.c - see cgroup_command.h. */
#include "node/queue/cgroup_command.h"

#include <string.h>

#include "node/queue/command.h"
#include "node/queue/failures.h"
#include "node/queue/name.h"

#define FLAG_EXCLUSIVE   1u
#define FLAG_KEY_ORDERED 2u
#define FLAG_PAUSED      4u
#define FLAGS_ALL        7u
#define RANGE_BYTES      2 /* the least a range takes */
#define FAILURE_BYTES    4

/* ---- options and start */

void lq_cgroup_options_init(struct lq_cgroup_options *options, enum lq_cgroup_mode mode)
{
    *options = (struct lq_cgroup_options){.mode = (uint8_t)mode,
                                          .ack_wait_ms = LQ_CGROUP_ACK_WAIT_MS_DEFAULT,
                                          .max_deliver = LQ_CGROUP_MAX_DELIVER_DEFAULT,
                                          .max_unsettled = LQ_CGROUP_UNSETTLED_DEFAULT};
}

lightq_status lq_cgroup_options_check(const struct lq_cgroup_options *options)
{
    bool is_sound = (options->mode == LQ_CGROUP_SUBSCRIBER || options->mode == LQ_CGROUP_PIPELINE) &&
                    !(options->key_ordered && (options->exclusive || options->mode != LQ_CGROUP_PIPELINE)) &&
                    options->ack_wait_ms >= 1 && options->ack_wait_ms <= LQ_CGROUP_ACK_WAIT_MS_MAX &&
                    options->max_unsettled >= 1 && options->max_unsettled <= LQ_CGROUP_UNSETTLED_MAX &&
                    options->backoff_count <= LQ_CGROUP_BACKOFF_MAX;
    for (uint32_t i = 0; is_sound && i < options->backoff_count; i++) {
        is_sound = options->backoff_ms[i] <= LQ_CGROUP_DELAY_MS_MAX;
    }
    return is_sound ? LIGHTQ_OK : LIGHTQ_EINVAL;
}

void lq_cgroup_options_encode(const struct lq_cgroup_options *options, struct lq_writer *writer)
{
    lq_write_u8(writer, options->mode);
    lq_write_u8(writer, (uint8_t)((options->exclusive ? FLAG_EXCLUSIVE : 0) |
                                  (options->key_ordered ? FLAG_KEY_ORDERED : 0) | (options->paused ? FLAG_PAUSED : 0)));
    lq_write_u16(writer, (uint16_t)options->backoff_count);
    lq_write_u32(writer, options->ack_wait_ms);
    lq_write_u32(writer, options->max_deliver);
    lq_write_u32(writer, options->max_unsettled);
    for (uint32_t i = 0; i < options->backoff_count; i++) {
        lq_write_u32(writer, options->backoff_ms[i]);
    }
}

lightq_status lq_cgroup_options_decode(struct lq_reader *reader, struct lq_cgroup_options *options)
{
    *options = (struct lq_cgroup_options){.mode = lq_read_u8(reader)};
    uint8_t flags = lq_read_u8(reader);
    options->exclusive = (flags & FLAG_EXCLUSIVE) != 0;
    options->key_ordered = (flags & FLAG_KEY_ORDERED) != 0;
    options->paused = (flags & FLAG_PAUSED) != 0;
    options->backoff_count = lq_read_u16(reader);
    options->ack_wait_ms = lq_read_u32(reader);
    options->max_deliver = lq_read_u32(reader);
    options->max_unsettled = lq_read_u32(reader);
    if (reader->failed || flags > FLAGS_ALL || options->backoff_count > LQ_CGROUP_BACKOFF_MAX) {
        return LIGHTQ_ECORRUPT;
    }
    for (uint32_t i = 0; i < options->backoff_count; i++) {
        options->backoff_ms[i] = lq_read_u32(reader);
    }
    return reader->failed || lq_cgroup_options_check(options) != LIGHTQ_OK ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

void lq_cgroup_start_encode(const struct lq_cgroup_start *start, struct lq_writer *writer)
{
    lq_write_u64(writer, start->kind); /* and seven bytes of 0 */
    lq_write_u64(writer, start->offset);
    lq_write_u64(writer, start->time_ms);
}

lightq_status lq_cgroup_start_decode(struct lq_reader *reader, struct lq_cgroup_start *start)
{
    uint64_t kind = lq_read_u64(reader);
    *start = (struct lq_cgroup_start){.kind = (uint8_t)kind, .offset = lq_read_u64(reader)};
    start->time_ms = lq_read_u64(reader);
    bool has_offset = kind == LQ_CGROUP_OFFSET || kind == LQ_CGROUP_TIME;
    if (reader->failed || kind < LQ_CGROUP_START || kind > LQ_CGROUP_TIME || (!has_offset && start->offset != 0) ||
        (kind != LQ_CGROUP_TIME && start->time_ms != 0)) {
        return LIGHTQ_ECORRUPT;
    }
    return LIGHTQ_OK;
}

/* ---- settle */

struct lq_settle_reader lq_settle_reader_of(const struct lq_cgroup_settle *settle)
{
    return (struct lq_settle_reader){.reader = lq_reader_of(settle->bytes, settle->size),
                                     .ranges_left = settle->range_count,
                                     .failures_left = settle->failure_count};
}

bool lq_settle_next_range(struct lq_settle_reader *reader, struct lq_settle_range *range)
{
    if (reader->ranges_left == 0) {
        return false;
    }
    uint64_t distance = lq_read_varint(&reader->reader);
    range->count = lq_read_varint(&reader->reader);
    range->first = reader->at + distance;
    reader->at = range->first + range->count;
    if (--reader->ranges_left == 0) {
        reader->at = 0; /* failures begin anew */
    }
    return true;
}

bool lq_settle_next_failure(struct lq_settle_reader *reader, struct lq_settle_failure *failure)
{
    if (reader->failures_left == 0) {
        return false;
    }
    failure->offset = reader->at + lq_read_varint(&reader->reader);
    failure->reason = lq_read_u8(&reader->reader);
    failure->delivery = (uint32_t)lq_read_varint(&reader->reader);
    uint64_t delay = lq_read_varint(&reader->reader);
    failure->delay_ms = delay == 0 ? LQ_SETTLE_DELAY_DEFAULT : (uint32_t)(delay - 1);
    reader->at = failure->offset;
    reader->failures_left--;
    return true;
}

void lq_settle_write(const struct lq_settle_range *ranges, uint32_t range_count,
                     const struct lq_settle_failure *failures, uint32_t failure_count, struct lq_writer *writer)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < range_count; i++) {
        lq_write_varint(writer, ranges[i].first - at);
        lq_write_varint(writer, ranges[i].count);
        at = ranges[i].first + ranges[i].count;
    }
    at = 0;
    for (uint32_t i = 0; i < failure_count; i++) {
        const struct lq_settle_failure *failure = &failures[i];
        lq_write_varint(writer, failure->offset - at);
        lq_write_u8(writer, failure->reason);
        lq_write_varint(writer, failure->delivery);
        lq_write_varint(writer, failure->delay_ms == LQ_SETTLE_DELAY_DEFAULT ? 0 : UINT64_C(1) + failure->delay_ms);
        at = failure->offset;
    }
}

static bool ranges_are_sound(struct lq_reader *reader, uint32_t count)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t distance = lq_read_varint(reader);
        uint64_t length = lq_read_varint(reader);
        if (reader->failed || length == 0 || length > LQ_SETTLE_RANGE_MAX || distance > UINT64_MAX - length ||
            at > UINT64_MAX - distance - length) {
            return false;
        }
        at += distance + length;
    }
    return true;
}

static bool failures_are_sound(struct lq_reader *reader, uint32_t count)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t distance = lq_read_varint(reader);
        uint8_t reason = lq_read_u8(reader);
        uint64_t delivery = lq_read_varint(reader);
        uint64_t delay = lq_read_varint(reader);
        if (reader->failed || (i > 0 && distance == 0) || at > UINT64_MAX - distance || reason < LQ_FAILURE_NACK ||
            reason > LQ_FAILURE_LOST || delivery == 0 || delivery > UINT32_MAX ||
            delay > UINT64_C(1) + LQ_CGROUP_DELAY_MS_MAX) {
            return false;
        }
        at += distance;
    }
    return true;
}

static lightq_status decode_settle(struct lq_reader *reader, struct lq_cgroup_settle *settle)
{
    settle->group = lq_read_u64(reader);
    settle->generation = lq_read_u64(reader);
    settle->range_count = lq_read_u32(reader);
    settle->failure_count = lq_read_u32(reader);
    size_t left = lq_reader_left(reader);
    if (reader->failed || settle->range_count > left / RANGE_BYTES || settle->failure_count > left / FAILURE_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    settle->bytes = reader->bytes + reader->position;
    settle->size = (uint32_t)left;
    bool is_sound = ranges_are_sound(reader, settle->range_count) && failures_are_sound(reader, settle->failure_count);
    return is_sound ? LIGHTQ_OK : LIGHTQ_ECORRUPT;
}

/* ---- the others */

static lightq_status decode_id(struct lq_reader *reader, struct lq_id *id)
{
    const uint8_t *bytes = lq_read_bytes(reader, sizeof id->bytes);
    if (bytes == NULL) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(id->bytes, bytes, sizeof id->bytes);
    return LIGHTQ_OK;
}

static lightq_status decode_create(struct lq_reader *reader, struct lq_cgroup_create *create)
{
    lightq_status status = decode_id(reader, &create->id);
    if (status == LIGHTQ_OK) {
        status = lq_cgroup_start_decode(reader, &create->start);
    }
    if (status == LIGHTQ_OK) {
        status = lq_cgroup_options_decode(reader, &create->options);
    }
    create->name_size = lq_read_u8(reader);
    create->name = (const char *)lq_read_bytes(reader, create->name_size);
    return status == LIGHTQ_OK && (create->name == NULL || lq_name_check(create->name, create->name_size) != LIGHTQ_OK)
               ? LIGHTQ_ECORRUPT
               : status;
}

lightq_status lq_cgroup_command_decode(struct lq_reader *reader, struct lq_command *command)
{
    uint32_t word = lq_read_u32(reader);
    if (word != 0 && command->type != LQ_COMMAND_GROUP_ALTER && command->type != LQ_COMMAND_GROUP_DLQ) {
        return LIGHTQ_ECORRUPT;
    }
    switch (command->type) {
    case LQ_COMMAND_GROUP_CREATE:
        return decode_create(reader, &command->group_create);
    case LQ_COMMAND_GROUP_DELETE:
        command->group_delete.group = lq_read_u64(reader);
        break;
    case LQ_COMMAND_GROUP_SEEK:
        command->group_seek.group = lq_read_u64(reader);
        return lq_cgroup_start_decode(reader, &command->group_seek.start);
    case LQ_COMMAND_GROUP_ALTER:
        command->group_alter.mask = word;
        command->group_alter.group = lq_read_u64(reader);
        return word > LQ_CGROUP_ALTER_ALL ? LIGHTQ_ECORRUPT
                                          : lq_cgroup_options_decode(reader, &command->group_alter.options);
    case LQ_COMMAND_COMMIT:
        command->commit.group = lq_read_u64(reader);
        command->commit.generation = lq_read_u64(reader);
        command->commit.offset = lq_read_u64(reader);
        break;
    case LQ_COMMAND_SETTLE:
        return decode_settle(reader, &command->settle);
    case LQ_COMMAND_DONE:
        command->done.group = lq_read_u64(reader);
        command->done.number = lq_read_u64(reader);
        break;
    case LQ_COMMAND_GROUP_DLQ:
        command->group_dlq.epoch = word;
        command->group_dlq.group = lq_read_u64(reader);
        return decode_id(reader, &command->group_dlq.topic);
    default:
        return LIGHTQ_ECORRUPT;
    }
    return reader->failed ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}

static void encode_create(const struct lq_cgroup_create *create, struct lq_writer *writer)
{
    lq_write_u32(writer, 0);
    lq_write_bytes(writer, create->id.bytes, sizeof create->id.bytes);
    lq_cgroup_start_encode(&create->start, writer);
    lq_cgroup_options_encode(&create->options, writer);
    lq_write_u8(writer, create->name_size);
    lq_write_bytes(writer, create->name, create->name_size);
}

static void encode_settle(const struct lq_cgroup_settle *settle, struct lq_writer *writer)
{
    lq_write_u32(writer, 0);
    lq_write_u64(writer, settle->group);
    lq_write_u64(writer, settle->generation);
    lq_write_u32(writer, settle->range_count);
    lq_write_u32(writer, settle->failure_count);
    if (settle->size > 0) {
        lq_write_bytes(writer, settle->bytes, settle->size);
    }
}

/* A word and the group's number: how most begin. */
static void encode_head(uint32_t word, uint64_t group, struct lq_writer *writer)
{
    lq_write_u32(writer, word);
    lq_write_u64(writer, group);
}

void lq_cgroup_command_encode(const struct lq_command *command, struct lq_writer *writer)
{
    switch (command->type) {
    case LQ_COMMAND_GROUP_CREATE:
        encode_create(&command->group_create, writer);
        break;
    case LQ_COMMAND_GROUP_DELETE:
        encode_head(0, command->group_delete.group, writer);
        break;
    case LQ_COMMAND_GROUP_SEEK:
        encode_head(0, command->group_seek.group, writer);
        lq_cgroup_start_encode(&command->group_seek.start, writer);
        break;
    case LQ_COMMAND_GROUP_ALTER:
        encode_head(command->group_alter.mask, command->group_alter.group, writer);
        lq_cgroup_options_encode(&command->group_alter.options, writer);
        break;
    case LQ_COMMAND_COMMIT:
        encode_head(0, command->commit.group, writer);
        lq_write_u64(writer, command->commit.generation);
        lq_write_u64(writer, command->commit.offset);
        break;
    case LQ_COMMAND_SETTLE:
        encode_settle(&command->settle, writer);
        break;
    case LQ_COMMAND_DONE:
        encode_head(0, command->done.group, writer);
        lq_write_u64(writer, command->done.number);
        break;
    case LQ_COMMAND_GROUP_DLQ:
        encode_head(command->group_dlq.epoch, command->group_dlq.group, writer);
        lq_write_bytes(writer, command->group_dlq.topic.bytes, sizeof command->group_dlq.topic.bytes);
        break;
    default: /* command.c writes the others */
        break;
    }
}
