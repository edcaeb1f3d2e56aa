/* raft/heartbeat.c - the frames that speak for all groups between two nodes: heartbeats with their answers, and the
 * node's status. See rpc.h. Little endian; the frame's group is 0.
 *
 * HEARTBEATS: head: 0 beats u32 | 4 results u32. Body: the beats, then the results, nothing behind.
 *
 *     beat, 64 bytes:    0 group u64 | 8 from u64 | 16 to u64 | 24 term u64 | 32 prev_index u64 | 40 prev_term u64 |
 *                       48 commit u64 | 56 version u8 | 57 zeros
 *     result, 56 bytes:  0 group u64 | 8 from u64 | 16 to u64 | 24 term u64 | 32 rejected u64 | 40 last_index u64 |
 *                       48 version u8 | 49 zero u8 | 50 features u16 | 52 capacity u16 | 54 zero u16
 *
 * STATUS: head only: 0 free_bytes u64 | 8 total_bytes u64 | 16 groups u32 | 20 leading u32 */
#include <inttypes.h>
#include <string.h>

#include "client/base/buf.h"
#include "raft/rpc_check.h"

enum { HEAD_BYTES = 8, BEAT_BYTES = 64, RESULT_BYTES = 56, STATUS_BYTES = 24 };

static const char beat_what[] = "heartbeat";
static const char result_what[] = "heartbeat result";

/* ---- to and from libraft ---- */

void lq_heartbeat_of(uint64_t group, lq_replica_id from, const struct raft_message *message, struct lq_heartbeat *beat)
{
    const struct raft_append_entries *append = &message->append_entries;
    *beat = (struct lq_heartbeat){.group = group,
                                  .from = from,
                                  .to = message->server_id,
                                  .term = append->term,
                                  .prev_index = append->prev_log_index,
                                  .prev_term = append->prev_log_term,
                                  .commit = append->leader_commit,
                                  .version = append->version};
}

void lq_heartbeat_result_of(uint64_t group, lq_replica_id from, const struct raft_message *message,
                            struct lq_heartbeat_result *result)
{
    const struct raft_append_entries_result *source = &message->append_entries_result;
    *result = (struct lq_heartbeat_result){.group = group,
                                           .from = from,
                                           .to = message->server_id,
                                           .term = source->term,
                                           .rejected = source->rejected,
                                           .last_index = lq_rpc_tame_index(source->last_log_index),
                                           .features = source->features,
                                           .capacity = source->capacity,
                                           .version = source->version};
}

void lq_heartbeat_message(const struct lq_heartbeat *beat, struct raft_message *message)
{
    *message = (struct raft_message){.type = RAFT_APPEND_ENTRIES, .server_id = beat->from};
    message->append_entries = (struct raft_append_entries){.version = beat->version,
                                                           .term = beat->term,
                                                           .prev_log_index = beat->prev_index,
                                                           .prev_log_term = beat->prev_term,
                                                           .leader_commit = beat->commit};
}

void lq_heartbeat_result_message(const struct lq_heartbeat_result *result, struct raft_message *message)
{
    *message = (struct raft_message){.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = result->from};
    message->append_entries_result = (struct raft_append_entries_result){.version = result->version,
                                                                         .term = result->term,
                                                                         .rejected = result->rejected,
                                                                         .last_log_index = result->last_index,
                                                                         .features = result->features,
                                                                         .capacity = result->capacity};
}

/* ---- one of each ---- */

static void put_beat(uint8_t *at, const struct lq_heartbeat *beat)
{
    memset(at, 0, BEAT_BYTES);
    lq_put_u64(at, beat->group);
    lq_put_u64(at + 8, beat->from);
    lq_put_u64(at + 16, beat->to);
    lq_put_u64(at + 24, beat->term);
    lq_put_u64(at + 32, beat->prev_index);
    lq_put_u64(at + 40, beat->prev_term);
    lq_put_u64(at + 48, beat->commit);
    at[56] = beat->version;
}

static void put_result(uint8_t *at, const struct lq_heartbeat_result *result)
{
    memset(at, 0, RESULT_BYTES);
    lq_put_u64(at, result->group);
    lq_put_u64(at + 8, result->from);
    lq_put_u64(at + 16, result->to);
    lq_put_u64(at + 24, result->term);
    lq_put_u64(at + 32, result->rejected);
    lq_put_u64(at + 40, result->last_index);
    at[48] = result->version;
    lq_put_u16(at + 50, result->features);
    lq_put_u16(at + 52, result->capacity);
}

static void get_beat(const uint8_t *at, struct lq_heartbeat *beat)
{
    *beat = (struct lq_heartbeat){.group = lq_get_u64(at),
                                  .from = lq_get_u64(at + 8),
                                  .to = lq_get_u64(at + 16),
                                  .term = lq_get_u64(at + 24),
                                  .prev_index = lq_get_u64(at + 32),
                                  .prev_term = lq_get_u64(at + 40),
                                  .commit = lq_get_u64(at + 48),
                                  .version = at[56]};
}

static void get_result(const uint8_t *at, struct lq_heartbeat_result *result)
{
    *result = (struct lq_heartbeat_result){.group = lq_get_u64(at),
                                           .from = lq_get_u64(at + 8),
                                           .to = lq_get_u64(at + 16),
                                           .term = lq_get_u64(at + 24),
                                           .rejected = lq_get_u64(at + 32),
                                           .last_index = lq_get_u64(at + 40),
                                           .features = lq_get_u16(at + 50),
                                           .capacity = lq_get_u16(at + 52),
                                           .version = at[48]};
}

static lightq_status check_beat(const struct lq_heartbeat *beat, struct lq_err *err)
{
    struct raft_message message;
    lq_heartbeat_message(beat, &message);
    return lq_rpc_check_append(beat_what, &message.append_entries, err);
}

static lightq_status check_result(const struct lq_heartbeat_result *result, struct lq_err *err)
{
    struct raft_message message;
    lq_heartbeat_result_message(result, &message);
    return lq_rpc_check_append_result(result_what, &message.append_entries_result, err);
}

static bool all_zero(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (at[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- frames ---- */

lightq_status lq_rpc_encode_heartbeats(const struct lq_heartbeat *beats, size_t beat_count,
                                       const struct lq_heartbeat_result *results, size_t result_count,
                                       struct lq_rpc_head *head, struct lq_frame *frame)
{
    if (beat_count > LQ_PEER_HEARTBEATS_MAX || result_count > LQ_PEER_HEARTBEATS_MAX - beat_count ||
        beat_count + result_count == 0) {
        return LIGHTQ_EINVAL;
    }
    struct lq_slab *body = lq_slab_new(beat_count * BEAT_BYTES + result_count * RESULT_BYTES);
    if (body == NULL) {
        return LIGHTQ_ENOMEM;
    }
    uint8_t *at = body->bytes;
    for (size_t i = 0; i < beat_count; i++, at += BEAT_BYTES) {
        if (lq_rpc_check_ids(beat_what, beats[i].from, beats[i].to, NULL) != LIGHTQ_OK ||
            check_beat(&beats[i], NULL) != LIGHTQ_OK) {
            goto err_after_body;
        }
        put_beat(at, &beats[i]);
    }
    for (size_t i = 0; i < result_count; i++, at += RESULT_BYTES) {
        struct lq_heartbeat_result result = results[i];
        result.last_index = lq_rpc_tame_index(result.last_index);
        if (lq_rpc_check_ids(result_what, result.from, result.to, NULL) != LIGHTQ_OK ||
            check_result(&result, NULL) != LIGHTQ_OK) {
            goto err_after_body;
        }
        put_result(at, &result);
    }
    lq_put_u32(head->bytes, (uint32_t)beat_count);
    lq_put_u32(head->bytes + 4, (uint32_t)result_count);
    *frame = (struct lq_frame){.type = LQ_FRAME_HEARTBEATS,
                               .head = head->bytes,
                               .head_size = HEAD_BYTES,
                               .body = body,
                               .body_size = (uint32_t)body->size};
    return LIGHTQ_OK;

err_after_body:
    lq_slab_unref(body);
    return LIGHTQ_EINVAL;
}

static lightq_status check_beats(const struct lq_heartbeats *heartbeats, uint32_t node, uint32_t self,
                                 struct lq_err *err)
{
    for (uint32_t i = 0; i < heartbeats->beat_count; i++) {
        struct lq_heartbeat beat;
        lq_heartbeats_beat(heartbeats, i, &beat);
        lightq_status status = lq_rpc_check_nodes(beat_what, beat.from, beat.to, node, self, err);
        if (status == LIGHTQ_OK) {
            status = check_beat(&beat, err);
        }
        if (status != LIGHTQ_OK) {
            return status;
        }
        if (!all_zero(heartbeats->beats + (size_t)i * BEAT_BYTES + 57, BEAT_BYTES - 57)) {
            return lq_err_set(err, LIGHTQ_EPROTO, "%s: reserved bits are set", beat_what);
        }
    }
    return LIGHTQ_OK;
}

static lightq_status check_results(const struct lq_heartbeats *heartbeats, uint32_t node, uint32_t self,
                                   struct lq_err *err)
{
    for (uint32_t i = 0; i < heartbeats->result_count; i++) {
        struct lq_heartbeat_result result;
        lq_heartbeats_result(heartbeats, i, &result);
        lightq_status status = lq_rpc_check_nodes(result_what, result.from, result.to, node, self, err);
        if (status == LIGHTQ_OK) {
            status = check_result(&result, err);
        }
        if (status != LIGHTQ_OK) {
            return status;
        }
        const uint8_t *at = heartbeats->results + (size_t)i * RESULT_BYTES;
        if (at[49] != 0 || lq_get_u16(at + 54) != 0) {
            return lq_err_set(err, LIGHTQ_EPROTO, "%s: reserved bits are set", result_what);
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_rpc_decode_heartbeats(const struct lq_frame_in *frame, uint32_t node, uint32_t self,
                                       struct lq_heartbeats *heartbeats, struct lq_err *err)
{
    if (frame->type != LQ_FRAME_HEARTBEATS || frame->group != 0 || frame->head_size != HEAD_BYTES) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "heartbeats: a frame of type %d and group %" PRIu64 " with a head of %" PRIu32 " bytes",
                          (int)frame->type, frame->group, frame->head_size);
    }
    const uint8_t *at = frame->slab->bytes + frame->offset;
    uint64_t beats = lq_get_u32(at);
    uint64_t results = lq_get_u32(at + 4);
    uint64_t rest = frame->size - frame->head_size;
    if (beats + results == 0 || beats + results > LQ_PEER_HEARTBEATS_MAX ||
        beats * BEAT_BYTES + results * RESULT_BYTES != rest) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "heartbeats: %" PRIu64 " heartbeats and %" PRIu64 " results in %" PRIu64 " bytes", beats,
                          results, rest);
    }
    *heartbeats = (struct lq_heartbeats){.beats = at + HEAD_BYTES,
                                         .results = at + HEAD_BYTES + beats * BEAT_BYTES,
                                         .beat_count = (uint32_t)beats,
                                         .result_count = (uint32_t)results};
    lightq_status status = check_beats(heartbeats, node, self, err);
    return status == LIGHTQ_OK ? check_results(heartbeats, node, self, err) : status;
}

void lq_heartbeats_beat(const struct lq_heartbeats *heartbeats, uint32_t i, struct lq_heartbeat *beat)
{
    get_beat(heartbeats->beats + (size_t)i * BEAT_BYTES, beat);
}

void lq_heartbeats_result(const struct lq_heartbeats *heartbeats, uint32_t i, struct lq_heartbeat_result *result)
{
    get_result(heartbeats->results + (size_t)i * RESULT_BYTES, result);
}

void lq_rpc_encode_status(const struct lq_node_status *status, struct lq_rpc_head *head, struct lq_frame *frame)
{
    lq_put_u64(head->bytes, status->free_bytes);
    lq_put_u64(head->bytes + 8, status->total_bytes);
    lq_put_u32(head->bytes + 16, status->groups);
    lq_put_u32(head->bytes + 20, status->leading);
    *frame = (struct lq_frame){.type = LQ_FRAME_STATUS, .head = head->bytes, .head_size = STATUS_BYTES};
}

lightq_status lq_rpc_decode_status(const struct lq_frame_in *frame, struct lq_node_status *status, struct lq_err *err)
{
    if (frame->type != LQ_FRAME_STATUS || frame->group != 0 || frame->head_size != STATUS_BYTES ||
        frame->size != STATUS_BYTES) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "node status: a frame of type %d and group %" PRIu64 " with %" PRIu32 " bytes",
                          (int)frame->type, frame->group, frame->size);
    }
    const uint8_t *at = frame->slab->bytes + frame->offset;
    struct lq_node_status found = {.free_bytes = lq_get_u64(at),
                                   .total_bytes = lq_get_u64(at + 8),
                                   .groups = lq_get_u32(at + 16),
                                   .leading = lq_get_u32(at + 20)};
    if (found.free_bytes > found.total_bytes || found.leading > found.groups) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "node status: %" PRIu64 " of %" PRIu64 " bytes free, %" PRIu32 " of %" PRIu32 " groups led",
                          found.free_bytes, found.total_bytes, found.leading, found.groups);
    }
    *status = found;
    return LIGHTQ_OK;
}
