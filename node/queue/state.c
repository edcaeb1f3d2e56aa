/* node/queue/state.c - see state.h. */
#include "node/queue/state.h"

#include <string.h>
#include <xxhash.h>

#include "node/queue/partition.h"
#include "node/queue/sealed.h"

#define STATE_MAGIC             0x5350514cu /* "LQPS" read as little endian */
#define STATE_VERSION           4
#define STATE_VERSION_NO_IDS    3
#define STATE_VERSION_NO_GROUPS 2
#define STATE_VERSION_PLAIN     1 /* producers without epochs */
#define STATE_HEAD_BYTES        8
#define DIGEST_INPUT_BYTES      16

void lq_queue_state_init(struct lq_queue_state *state)
{
    *state = (struct lq_queue_state){.start_offset = 0};
    lq_topic_config_init(&state->config);
    lq_marks_init(&state->marks);
}

void lq_queue_state_deinit(struct lq_queue_state *state)
{
    lq_cgroups_deinit(&state->cgroups);
    lq_dedup_deinit(&state->dedup);
    lq_producers_deinit(&state->producers);
    lq_marks_deinit(&state->marks);
}

/* A running digest: each batch's hash is seeded with the one before it, so its whole state is eight bytes. */
static uint64_t digest_next(uint64_t digest, uint64_t base_offset, uint32_t count, uint32_t batch_crc)
{
    uint8_t input[DIGEST_INPUT_BYTES];
    lq_put_u64(input, base_offset);
    lq_put_u32(input + 8, count);
    lq_put_u32(input + 12, batch_crc);
    return XXH64(input, sizeof input, digest);
}

static lightq_status judge_append(const struct lq_queue_state *state, const struct lq_entry *entry,
                                  const struct lq_command *command, struct lq_err *err)
{
    uint32_t count = entry->message_count;
    uint64_t sequence = command->append.sequence;
    if (count == 0 || count > LQ_BATCH_RECORDS_MAX || state->end_offset > UINT64_MAX - 1 - count ||
        sequence > UINT64_MAX - count) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %llu: a batch of %u messages cannot be at offset %llu",
                          (unsigned long long)entry->index, count, (unsigned long long)state->end_offset);
    }
    uint64_t expected = command->append.expected_offset;
    if (expected != LQ_OFFSET_ANY && expected != state->end_offset) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %llu was proposed for offset %llu, but the end is %llu",
                          (unsigned long long)entry->index, (unsigned long long)expected,
                          (unsigned long long)state->end_offset);
    }
    if (command->append.producer_id == 0) {
        return LIGHTQ_OK;
    }
    const struct lq_producer *producer = lq_producers_find(&state->producers, command->append.producer_id);
    const struct lq_numbering numbering = {.epoch = command->append.epoch,
                                           .begins_epoch = command->append.begins_epoch,
                                           .sequence = sequence,
                                           .count = count};
    if (lq_sequence_judge(producer == NULL ? NULL : &producer->progress, &numbering) != LQ_VERDICT_NEXT) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %llu: sequence %llu of producer %llu, epoch %u, does not follow",
                          (unsigned long long)entry->index, (unsigned long long)sequence,
                          (unsigned long long)command->append.producer_id, command->append.epoch);
    }
    return LIGHTQ_OK;
}

static lightq_status apply_append(struct lq_queue_state *state, const struct lq_entry *entry,
                                  const struct lq_command *command, struct lq_err *err)
{
    lightq_status status = judge_append(state, entry, command, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct lq_mark mark = {
        .offset = state->end_offset, .bytes = state->bytes, .timestamp_ms = entry->timestamp_ms};
    status = lq_marks_add(&state->marks, &mark);
    if (status == LIGHTQ_OK && command->append.producer_id != 0) {
        const struct lq_batch_place place = {.sequence = command->append.sequence,
                                             .count = entry->message_count,
                                             .base_offset = state->end_offset,
                                             .term = entry->term,
                                             .timestamp_ms = entry->timestamp_ms};
        status = lq_producers_applied(&state->producers, command->append.producer_id, command->append.epoch,
                                      entry->index, &place);
    }
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status == LIGHTQ_ELIMIT ? LIGHTQ_ECORRUPT : status,
                          "entry %llu: producer %llu cannot be remembered: %s", (unsigned long long)entry->index,
                          (unsigned long long)command->append.producer_id, lightq_status_text(status));
    }
    lq_dedup_expire(&state->dedup, entry->timestamp_ms, state->config.dedup_window_ms);
    if (command->append.has_id && lq_dedup_applied(&state->dedup, &command->append.message_id, state->end_offset,
                                                   entry->term, entry->timestamp_ms) != LIGHTQ_OK) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "entry %llu: out of memory for a message id",
                          (unsigned long long)entry->index);
    }
    state->digest = digest_next(state->digest, state->end_offset, entry->message_count, command->append.batch_crc);
    state->end_offset += entry->message_count;
    state->bytes += command->append.batch_size;
    state->append_ms = entry->timestamp_ms;
    return LIGHTQ_OK;
}

/* Messages that are not stored: their producer goes on behind them all the same. */
static lightq_status apply_skip(struct lq_queue_state *state, const struct lq_entry *entry,
                                const struct lq_command *command, struct lq_err *err)
{
    const struct lq_producer *producer = lq_producers_find(&state->producers, command->skip.producer_id);
    const struct lq_numbering numbering = {.epoch = command->skip.epoch,
                                           .begins_epoch = command->skip.begins_epoch,
                                           .sequence = command->skip.sequence,
                                           .count = command->skip.count};
    const struct lq_batch_place place = {.sequence = command->skip.sequence,
                                         .count = command->skip.count,
                                         .base_offset = command->skip.base_offset,
                                         .term = command->skip.term,
                                         .timestamp_ms = command->skip.timestamp_ms};
    lightq_status status = LIGHTQ_ECORRUPT;
    if (place.sequence <= UINT64_MAX - place.count && place.base_offset < state->end_offset &&
        place.count <= state->end_offset - place.base_offset && place.timestamp_ms <= entry->timestamp_ms &&
        lq_sequence_judge(producer == NULL ? NULL : &producer->progress, &numbering) == LQ_VERDICT_NEXT) {
        status = lq_producers_applied(&state->producers, command->skip.producer_id, command->skip.epoch, entry->index,
                                      &place);
    }
    return status == LIGHTQ_OK ? status
                               : lq_err_set(err, status == LIGHTQ_ELIMIT ? LIGHTQ_ECORRUPT : status,
                                            "entry %llu: sequence %llu of producer %llu cannot be skipped",
                                            (unsigned long long)entry->index, (unsigned long long)place.sequence,
                                            (unsigned long long)command->skip.producer_id);
}

static void apply_trim(struct lq_queue_state *state, uint64_t offset, enum lq_retention kept_for)
{
    uint64_t start = offset < state->end_offset ? offset : state->end_offset;
    if (kept_for != LQ_RETENTION_LIMITS) { /* groups may have come since it was proposed */
        uint64_t needed = lq_cgroups_needed(&state->cgroups, kept_for, state->end_offset);
        start = needed < start ? needed : start;
    }
    start = lq_cgroups_clamp_trim(&state->cgroups, start);
    if (start <= state->start_offset) {
        return;
    }
    state->start_offset = start;
    lq_marks_trim(&state->marks, start, state->end_offset);
    const struct lq_mark *mark = lq_marks_find(&state->marks, start);
    state->start_bytes = start == state->end_offset ? state->bytes : mark == NULL ? state->start_bytes : mark->bytes;
    lq_cgroups_trimmed(&state->cgroups, start);
}

static lightq_status apply_to_groups(struct lq_queue_state *state, const struct lq_entry *entry,
                                     const struct lq_command *command, struct lq_err *err)
{
    const struct lq_cgroup_at at = {.index = entry->index,
                                    .timestamp_ms = entry->timestamp_ms,
                                    .start_offset = state->start_offset,
                                    .end_offset = state->end_offset};
    lightq_status status = lq_cgroups_apply(&state->cgroups, command, &at, &state->outcome);
    return status == LIGHTQ_OK ? status
                               : lq_err_set(err, status, "entry %llu: a consumer group cannot be changed: %s",
                                            (unsigned long long)entry->index, lightq_status_text(status));
}

static lightq_status apply_command(struct lq_queue_state *state, const struct lq_entry *entry,
                                   struct lq_command *command, struct lq_err *err)
{
    lightq_status status = lq_command_decode(entry->payload, entry->payload_size, command);
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status, "entry %llu holds no command of this version", (unsigned long long)entry->index);
    }
    if (entry->base_offset != state->end_offset || entry->timestamp_ms < state->timestamp_ms) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %llu is stamped %llu for offset %llu after %llu for offset %llu",
                          (unsigned long long)entry->index, (unsigned long long)entry->timestamp_ms,
                          (unsigned long long)entry->base_offset, (unsigned long long)state->timestamp_ms,
                          (unsigned long long)state->end_offset);
    }
    if (command->type == LQ_COMMAND_APPEND) {
        return apply_append(state, entry, command, err);
    }
    if (entry->message_count != 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %llu counts messages and has none",
                          (unsigned long long)entry->index);
    }
    switch (command->type) {
    case LQ_COMMAND_TRIM:
        apply_trim(state, command->trim.offset, command->trim.kept_for);
        break;
    case LQ_COMMAND_CONFIG:
        state->topic = command->config.topic;
        state->partition = command->config.partition;
        state->config = command->config.config;
        break;
    case LQ_COMMAND_FORGET:
        lq_producers_forget(&state->producers, command->forget.index);
        break;
    case LQ_COMMAND_SKIP:
        return apply_skip(state, entry, command, err);
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
        return apply_to_groups(state, entry, command, err);
    }
    return LIGHTQ_OK;
}

lightq_status lq_queue_state_apply(struct lq_queue_state *state, const struct lq_entry *entry,
                                   struct lq_command *command, struct lq_err *err)
{
    command->type = (enum lq_command_type)0;
    if (entry->index != state->applied_index + 1 || entry->term < state->applied_term) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %llu of term %llu cannot follow entry %llu of term %llu",
                          (unsigned long long)entry->index, (unsigned long long)entry->term,
                          (unsigned long long)state->applied_index, (unsigned long long)state->applied_term);
    }
    if (entry->type == LQ_ENTRY_COMMAND) {
        lightq_status status = apply_command(state, entry, command, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    state->applied_index = entry->index;
    state->applied_term = entry->term;
    if (entry->timestamp_ms > state->timestamp_ms) {
        state->timestamp_ms = entry->timestamp_ms;
    }
    return LIGHTQ_OK;
}

uint64_t lq_queue_state_retained(const struct lq_queue_state *state, uint64_t now_ms)
{
    const struct lq_topic_config *config = &state->config;
    uint64_t start = state->start_offset;
    if (config->retention_ms != 0 && now_ms > config->retention_ms) {
        uint64_t oldest_ms = now_ms - config->retention_ms;
        const struct lq_mark *mark = lq_marks_find_time(&state->marks, oldest_ms);
        if (state->append_ms < oldest_ms) {
            start = state->end_offset;
        } else if (mark != NULL && mark->offset > start) {
            start = mark->offset;
        }
    }
    if (config->retention_bytes != 0 && state->bytes > config->retention_bytes) {
        const struct lq_mark *mark = lq_marks_find_bytes(&state->marks, state->bytes - config->retention_bytes);
        if (mark != NULL && mark->offset > start) {
            start = mark->offset;
        }
    }
    if (config->retention_messages != 0 && state->end_offset > config->retention_messages &&
        state->end_offset - config->retention_messages > start) {
        start = state->end_offset - config->retention_messages;
    }
    return lq_cgroups_clamp_trim(&state->cgroups, start);
}

uint64_t lq_queue_state_consumed(const struct lq_queue_state *state)
{
    enum lq_retention retention = (enum lq_retention)state->config.retention;
    return lq_cgroups_clamp_trim(&state->cgroups, lq_cgroups_needed(&state->cgroups, retention, state->end_offset));
}

lightq_status lq_queue_state_save(const struct lq_queue_state *state, struct lq_writer *writer)
{
    size_t begin = lq_sealed_begin(writer, STATE_MAGIC, STATE_VERSION);
    const uint64_t words[] = {state->start_offset, state->end_offset,   state->applied_index,
                              state->applied_term, state->timestamp_ms, state->digest,
                              state->bytes,        state->start_bytes,  state->append_ms};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        lq_write_u64(writer, words[i]);
    }
    lq_write_bytes(writer, state->topic.bytes, sizeof state->topic.bytes);
    lq_write_u32(writer, state->partition);
    lq_topic_config_encode(&state->config, writer);
    lq_marks_save(&state->marks, writer);
    lq_producers_save(&state->producers, writer);
    lightq_status status = lq_cgroups_save(&state->cgroups, writer);
    lq_dedup_save(&state->dedup, writer);
    return status == LIGHTQ_OK ? lq_sealed_end(writer, begin) : status;
}

static bool is_sound(const struct lq_queue_state *state)
{
    if (state->start_offset > state->end_offset || state->end_offset == UINT64_MAX ||
        state->start_bytes > state->bytes || state->append_ms > state->timestamp_ms) {
        return false;
    }
    if (state->marks.count == 0) {
        return true;
    }
    const struct lq_mark *last = &state->marks.at[state->marks.count - 1];
    return last->offset < state->end_offset && last->bytes <= state->bytes && last->timestamp_ms <= state->timestamp_ms;
}

static lightq_status load_fields(struct lq_queue_state *state, struct lq_reader *reader, uint16_t version)
{
    uint64_t *const words[] = {&state->start_offset, &state->end_offset,   &state->applied_index,
                               &state->applied_term, &state->timestamp_ms, &state->digest,
                               &state->bytes,        &state->start_bytes,  &state->append_ms};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *words[i] = lq_read_u64(reader);
    }
    const uint8_t *topic = lq_read_bytes(reader, sizeof state->topic.bytes);
    if (topic == NULL) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(state->topic.bytes, topic, sizeof state->topic.bytes);
    state->partition = lq_read_u32(reader);
    lightq_status status = lq_topic_config_decode(reader, &state->config);
    if (status == LIGHTQ_OK) {
        status = lq_marks_load(&state->marks, reader);
    }
    if (status == LIGHTQ_OK) {
        status = lq_producers_load(&state->producers, reader, version != STATE_VERSION_PLAIN, state->applied_index,
                                   state->end_offset);
    }
    if (status == LIGHTQ_OK && version > STATE_VERSION_NO_GROUPS) {
        const struct lq_cgroup_at at = {.index = state->applied_index,
                                        .timestamp_ms = state->timestamp_ms,
                                        .start_offset = state->start_offset,
                                        .end_offset = state->end_offset};
        status = lq_cgroups_load(&state->cgroups, reader, &at);
    }
    if (status == LIGHTQ_OK && version > STATE_VERSION_NO_IDS) {
        status = lq_dedup_load(&state->dedup, reader, state->end_offset, state->timestamp_ms);
    }
    if (status == LIGHTQ_OK && (reader->failed || lq_reader_left(reader) != 0 || !is_sound(state))) {
        status = LIGHTQ_ECORRUPT;
    }
    return status;
}

lightq_status lq_queue_state_load(struct lq_queue_state *state, const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return LIGHTQ_OK;
    }
    uint16_t version = size < STATE_HEAD_BYTES ? 0 : lq_get_u16(bytes + sizeof(uint32_t));
    bool is_known = version >= STATE_VERSION_PLAIN && version <= STATE_VERSION;
    struct lq_reader reader;
    lightq_status status = lq_sealed_open(bytes, size, STATE_MAGIC, is_known ? version : STATE_VERSION, &reader);
    return status == LIGHTQ_OK ? load_fields(state, &reader, version) : status;
}
