/* raft/rpc.c - see rpc.h. The heads of the frames of one group's messages, little endian. All begin with
 *
 *      0  from       u64  replica id of the sender
 *      8  to         u64  replica id of the receiver
 *     16  term       u64
 *     24  version    u8   of the message, as libraft has it
 *     25  flags      u8   of the message; bits not named below are 0
 *     26  features   u16  results only, else 0
 *     28  capacity   u16  results only, else 0
 *     30  zero       u16
 *
 * and go on, by frame type:
 *
 *     VOTE            32 last_index u64 | 40 last_term u64                    flags: 1 disrupt leader, 2 pre-vote
 *     VOTE_RESULT     nothing                                                 flags: 1 granted, 2 pre-vote
 *     APPEND          32 prev_index u64 | 40 prev_term u64 | 48 commit u64 | 56 count u32 | 60 zero u32
 *                     then count entries (storage/format.h), back to back, to the end of the frame
 *     APPEND_RESULT   32 rejected u64 | 40 last_index u64
 *     INSTALL         32 last_index u64 | 40 last_term u64 | 48 configuration_index u64 | 56 next_offset u64 |
 *                     64 timestamp_ms u64 | 72 state_size u64 | 80 offset u64 | 88 size u32 |
 *                     92 configuration_size u32 | 96 configuration; the piece is the body  flags: 1 last piece
 *     TIMEOUT_NOW     32 last_index u64 | 40 last_term u64
 *
 * The head is exactly as long as drawn. A configuration is in libraft's encoding: format u8 (1) | servers u64 | for
 * each: id u64, address and its zero byte, role u8 | zeros up to a multiple of 8. */
#include "raft/rpc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "raft/rpc_check.h"

enum { COMMON_BYTES = 32, PLACE_BYTES = 48, APPEND_BYTES = 64, INSTALL_BYTES = 96 };
enum { FLAG_VOTE_DISRUPT = 1, FLAG_VOTE_PRE = 2, FLAG_RESULT_GRANTED = 1, FLAG_RESULT_PRE = 2, FLAG_INSTALL_LAST = 1 };

_Static_assert(INSTALL_BYTES + LQ_CONFIGURATION_BYTES_MAX <= LQ_FRAME_HEAD_MAX, "a configuration fits in a head");
_Static_assert((int)RAFT_COMMAND == (int)LQ_ENTRY_COMMAND && (int)RAFT_BARRIER == (int)LQ_ENTRY_BARRIER &&
                   (int)RAFT_CHANGE == (int)LQ_ENTRY_CHANGE,
               "entry types are libraft's");

struct common {
    lq_replica_id from, to;
    uint64_t term;
    uint8_t version, flags;
    uint16_t features, capacity;
};

static const char *const what_of[] = {
    [LQ_FRAME_APPEND] = "AppendEntries", [LQ_FRAME_APPEND_RESULT] = "AppendEntries result",
    [LQ_FRAME_VOTE] = "RequestVote",     [LQ_FRAME_VOTE_RESULT] = "RequestVote result",
    [LQ_FRAME_INSTALL] = "checkpoint",   [LQ_FRAME_TIMEOUT_NOW] = "TimeoutNow",
};

/* ---- encoding ---- */

static void put_common(uint8_t *at, const struct common *common)
{
    lq_put_u64(at, common->from);
    lq_put_u64(at + 8, common->to);
    lq_put_u64(at + 16, common->term);
    at[24] = common->version;
    at[25] = common->flags;
    lq_put_u16(at + 26, common->features);
    lq_put_u16(at + 28, common->capacity);
    lq_put_u16(at + 30, 0);
}

static void put_place(uint8_t *at, uint64_t index, uint64_t term)
{
    lq_put_u64(at + COMMON_BYTES, index);
    lq_put_u64(at + COMMON_BYTES + 8, term);
}

/* The check that the receiver will make, so that a wrong message is refused here instead of closing its connection. */
static lightq_status check_outgoing(lq_replica_id from, const struct raft_message *message)
{
    if (lq_rpc_check_ids("message", from, message->server_id, NULL) != LIGHTQ_OK ||
        lq_rpc_check_message(message, NULL) != LIGHTQ_OK) {
        return LIGHTQ_EINVAL;
    }
    return LIGHTQ_OK;
}

static lightq_status encode_vote(const struct raft_message *message, struct common *common, uint8_t *at,
                                 struct lq_frame *frame)
{
    const struct raft_request_vote *vote = &message->request_vote;
    if (vote->candidate_id != common->from) {
        return LIGHTQ_EINVAL; /* the receiver takes the sender for the candidate */
    }
    common->term = vote->term;
    common->version = vote->version;
    common->flags = (uint8_t)((vote->disrupt_leader ? FLAG_VOTE_DISRUPT : 0) | (vote->pre_vote ? FLAG_VOTE_PRE : 0));
    put_place(at, vote->last_log_index, vote->last_log_term);
    frame->type = LQ_FRAME_VOTE;
    frame->head_size = PLACE_BYTES;
    return LIGHTQ_OK;
}

static void encode_vote_result(const struct raft_message *message, struct common *common, struct lq_frame *frame)
{
    const struct raft_request_vote_result *result = &message->request_vote_result;
    common->term = result->term;
    common->version = result->version;
    common->flags =
        (uint8_t)((result->vote_granted ? FLAG_RESULT_GRANTED : 0) | (result->pre_vote ? FLAG_RESULT_PRE : 0));
    common->features = result->features;
    common->capacity = result->capacity;
    frame->type = LQ_FRAME_VOTE_RESULT;
    frame->head_size = COMMON_BYTES;
}

static void encode_append_result(const struct raft_message *message, struct common *common, uint8_t *at,
                                 struct lq_frame *frame)
{
    const struct raft_append_entries_result *result = &message->append_entries_result;
    common->term = result->term;
    common->version = result->version;
    common->features = result->features;
    common->capacity = result->capacity;
    put_place(at, result->rejected, result->last_log_index);
    frame->type = LQ_FRAME_APPEND_RESULT;
    frame->head_size = PLACE_BYTES;
}

lightq_status lq_rpc_encode(uint64_t group, lq_replica_id from, const struct raft_message *message,
                            struct lq_rpc_head *head, struct lq_frame *frame)
{
    struct raft_message tame = *message;
    if (tame.type == RAFT_APPEND_ENTRIES_RESULT) {
        tame.append_entries_result.last_log_index = lq_rpc_tame_index(tame.append_entries_result.last_log_index);
    }
    lightq_status status = check_outgoing(from, &tame);
    if (status != LIGHTQ_OK) {
        return status;
    }

    uint8_t *at = head->bytes;
    struct common common = {.from = from, .to = tame.server_id};
    *frame = (struct lq_frame){.group = group, .head = head->bytes};
    switch (tame.type) {
    case RAFT_REQUEST_VOTE:
        status = encode_vote(&tame, &common, at, frame);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        encode_vote_result(&tame, &common, frame);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        encode_append_result(&tame, &common, at, frame);
        break;
    case RAFT_TIMEOUT_NOW:
        common.term = tame.timeout_now.term;
        common.version = tame.timeout_now.version;
        put_place(at, tame.timeout_now.last_log_index, tame.timeout_now.last_log_term);
        frame->type = LQ_FRAME_TIMEOUT_NOW;
        frame->head_size = PLACE_BYTES;
        break;
    default:
        return LIGHTQ_EINVAL;
    }
    put_common(at, &common);
    return status;
}

lightq_status lq_rpc_encode_append(uint64_t group, lq_replica_id from, const struct raft_message *message,
                                   const struct lq_entry_ref *refs, size_t count, struct lq_rpc_head *head,
                                   struct lq_frame *frame)
{
    if (message->type != RAFT_APPEND_ENTRIES || count > LQ_PEER_ENTRIES_MAX ||
        check_outgoing(from, message) != LIGHTQ_OK) {
        return LIGHTQ_EINVAL;
    }
    uint64_t size = APPEND_BYTES;
    for (size_t i = 0; i < count; i++) {
        size += refs[i].size;
    }
    if (size > LQ_PEER_FRAME_BYTES_MAX) {
        return LIGHTQ_EINVAL;
    }

    const struct raft_append_entries *append = &message->append_entries;
    uint8_t *at = head->bytes;
    put_common(
        at, &(struct common){.from = from, .to = message->server_id, .term = append->term, .version = append->version});
    put_place(at, append->prev_log_index, append->prev_log_term);
    lq_put_u64(at + 48, append->leader_commit);
    lq_put_u32(at + 56, (uint32_t)count);
    lq_put_u32(at + 60, 0);
    *frame = (struct lq_frame){.type = LQ_FRAME_APPEND,
                               .group = group,
                               .head = at,
                               .head_size = APPEND_BYTES,
                               .entries = refs,
                               .entry_count = count};
    return LIGHTQ_OK;
}

lightq_status lq_rpc_encode_install(uint64_t group, lq_replica_id from, const struct raft_message *message,
                                    const struct lq_rpc_piece *piece, struct lq_slab *body, uint32_t body_offset,
                                    struct lq_rpc_head *head, struct lq_frame *frame)
{
    const struct lq_checkpoint *checkpoint = &piece->checkpoint;
    if (message->type != RAFT_INSTALL_SNAPSHOT) {
        return LIGHTQ_EINVAL;
    }
    struct raft_message whole = *message; /* libraft's own has neither; the checkpoint's are what goes out */
    whole.install_snapshot.last_index = checkpoint->last_index;
    whole.install_snapshot.last_term = checkpoint->last_term;
    whole.install_snapshot.conf_index = checkpoint->configuration_index;
    struct lq_rpc_piece sent = *piece;
    if (sent.offset != 0) {
        sent.checkpoint.configuration = NULL;
        sent.checkpoint.configuration_size = 0;
    }
    if (check_outgoing(from, &whole) != LIGHTQ_OK || lq_rpc_check_piece(&sent, NULL) != LIGHTQ_OK ||
        (sent.size != 0 && (body == NULL || body_offset > body->size || sent.size > body->size - body_offset))) {
        return LIGHTQ_EINVAL;
    }

    uint8_t *at = head->bytes;
    put_common(at, &(struct common){.from = from,
                                    .to = message->server_id,
                                    .term = message->install_snapshot.term,
                                    .version = message->install_snapshot.version,
                                    .flags = sent.last ? FLAG_INSTALL_LAST : 0});
    put_place(at, checkpoint->last_index, checkpoint->last_term);
    lq_put_u64(at + 48, checkpoint->configuration_index);
    lq_put_u64(at + 56, checkpoint->next_offset);
    lq_put_u64(at + 64, checkpoint->timestamp_ms);
    lq_put_u64(at + 72, checkpoint->state_size);
    lq_put_u64(at + 80, sent.offset);
    lq_put_u32(at + 88, sent.size);
    lq_put_u32(at + 92, sent.checkpoint.configuration_size);
    if (sent.checkpoint.configuration_size != 0) {
        memcpy(at + INSTALL_BYTES, sent.checkpoint.configuration, sent.checkpoint.configuration_size);
    }
    *frame = (struct lq_frame){.type = LQ_FRAME_INSTALL,
                               .group = group,
                               .head = at,
                               .head_size = INSTALL_BYTES + sent.checkpoint.configuration_size,
                               .body = sent.size != 0 ? body : NULL,
                               .body_offset = sent.size != 0 ? body_offset : 0,
                               .body_size = sent.size};
    return LIGHTQ_OK;
}

/* ---- decoding ---- */

void lq_rpc_scratch_init(struct lq_rpc_scratch *scratch, void *batch)
{
    *scratch = (struct lq_rpc_scratch){.batch = batch};
}

void lq_rpc_scratch_deinit(struct lq_rpc_scratch *scratch)
{
    free(scratch->refs);
    free(scratch->entries);
    *scratch = (struct lq_rpc_scratch){.batch = scratch->batch};
}

/* Room for @count; what was in the arrays is not kept. */
static lightq_status scratch_reserve(struct lq_rpc_scratch *scratch, uint32_t count)
{
    if (count <= scratch->capacity) {
        return LIGHTQ_OK;
    }
    lq_rpc_scratch_deinit(scratch);
    scratch->refs = malloc(count * sizeof *scratch->refs);
    scratch->entries = malloc(count * sizeof *scratch->entries);
    if (scratch->refs == NULL || scratch->entries == NULL) {
        lq_rpc_scratch_deinit(scratch);
        return LIGHTQ_ENOMEM;
    }
    scratch->capacity = count;
    return LIGHTQ_OK;
}

/* Whether the head has @size bytes, and the rest of the frame @rest (UINT64_MAX: any). */
static lightq_status check_sizes(const struct lq_frame_in *frame, uint64_t size, uint64_t rest, struct lq_err *err)
{
    if (frame->head_size != size) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: a head of %" PRIu32 " bytes, not %" PRIu64, what_of[frame->type],
                          frame->head_size, size);
    }
    uint64_t found = frame->size - frame->head_size;
    if (rest != UINT64_MAX && found != rest) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: %" PRIu64 " bytes behind its head, not %" PRIu64,
                          what_of[frame->type], found, rest);
    }
    return LIGHTQ_OK;
}

static struct common get_common(const uint8_t *at)
{
    return (struct common){.from = lq_get_u64(at),
                           .to = lq_get_u64(at + 8),
                           .term = lq_get_u64(at + 16),
                           .version = at[24],
                           .flags = at[25],
                           .features = lq_get_u16(at + 26),
                           .capacity = lq_get_u16(at + 28)};
}

static uint8_t flags_of_type(enum lq_frame_type type)
{
    switch (type) {
    case LQ_FRAME_VOTE:
        return FLAG_VOTE_DISRUPT | FLAG_VOTE_PRE;
    case LQ_FRAME_VOTE_RESULT:
        return FLAG_RESULT_GRANTED | FLAG_RESULT_PRE;
    case LQ_FRAME_INSTALL:
        return FLAG_INSTALL_LAST;
    default:
        return 0;
    }
}

static lightq_status check_reserved(const struct lq_frame_in *frame, const uint8_t *at, const struct common *common,
                                    struct lq_err *err)
{
    bool is_result = frame->type == LQ_FRAME_VOTE_RESULT || frame->type == LQ_FRAME_APPEND_RESULT;
    bool zero = lq_get_u16(at + 30) == 0 && (is_result || (common->features == 0 && common->capacity == 0)) &&
                (frame->type != LQ_FRAME_APPEND || lq_get_u32(at + 60) == 0);
    if (!zero || (common->flags & ~flags_of_type(frame->type)) != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: reserved bits are set", what_of[frame->type]);
    }
    return LIGHTQ_OK;
}

static void get_vote(const uint8_t *at, const struct common *common, struct raft_message *message)
{
    message->type = RAFT_REQUEST_VOTE;
    message->request_vote = (struct raft_request_vote){.version = common->version,
                                                       .term = common->term,
                                                       .candidate_id = common->from,
                                                       .last_log_index = lq_get_u64(at + 32),
                                                       .last_log_term = lq_get_u64(at + 40),
                                                       .disrupt_leader = (common->flags & FLAG_VOTE_DISRUPT) != 0,
                                                       .pre_vote = (common->flags & FLAG_VOTE_PRE) != 0};
}

static void get_vote_result(const struct common *common, struct raft_message *message)
{
    message->type = RAFT_REQUEST_VOTE_RESULT;
    message->request_vote_result =
        (struct raft_request_vote_result){.version = common->version,
                                          .term = common->term,
                                          .vote_granted = (common->flags & FLAG_RESULT_GRANTED) != 0,
                                          .pre_vote = (common->flags & FLAG_RESULT_PRE) != 0,
                                          .features = common->features,
                                          .capacity = common->capacity};
}

static void get_append(const uint8_t *at, const struct common *common, struct raft_message *message)
{
    message->type = RAFT_APPEND_ENTRIES;
    message->append_entries = (struct raft_append_entries){.version = common->version,
                                                           .term = common->term,
                                                           .prev_log_index = lq_get_u64(at + 32),
                                                           .prev_log_term = lq_get_u64(at + 40),
                                                           .leader_commit = lq_get_u64(at + 48)};
}

static void get_append_result(const uint8_t *at, const struct common *common, struct raft_message *message)
{
    message->type = RAFT_APPEND_ENTRIES_RESULT;
    message->append_entries_result = (struct raft_append_entries_result){.version = common->version,
                                                                         .term = common->term,
                                                                         .rejected = lq_get_u64(at + 32),
                                                                         .last_log_index = lq_get_u64(at + 40),
                                                                         .features = common->features,
                                                                         .capacity = common->capacity};
}

static void get_install(const uint8_t *at, const struct common *common, struct raft_message *message)
{
    message->type = RAFT_INSTALL_SNAPSHOT;
    message->install_snapshot = (struct raft_install_snapshot){.version = common->version,
                                                               .term = common->term,
                                                               .last_index = lq_get_u64(at + 32),
                                                               .last_term = lq_get_u64(at + 40),
                                                               .conf_index = lq_get_u64(at + 48)};
}

static void get_timeout_now(const uint8_t *at, const struct common *common, struct raft_message *message)
{
    message->type = RAFT_TIMEOUT_NOW;
    message->timeout_now = (struct raft_timeout_now){.version = common->version,
                                                     .term = common->term,
                                                     .last_log_index = lq_get_u64(at + 32),
                                                     .last_log_term = lq_get_u64(at + 40)};
}

/* What an entry must be to follow @prev_index and @prev_term in this message. */
static lightq_status check_entry(const struct lq_rpc *rpc, const struct lq_entry *entry, uint64_t prev_index,
                                 uint64_t prev_term, struct lq_err *err)
{
    const char *what = what_of[LQ_FRAME_APPEND];
    if (entry->group != rpc->group) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: an entry of group %" PRIu64 " in a frame of group %" PRIu64, what,
                          entry->group, rpc->group);
    }
    if (entry->index != prev_index + 1 || entry->prev_term != prev_term) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "%s: entry %" PRIu64 " (previous term %" PRIu64 ") does not follow %" PRIu64
                          " of term %" PRIu64,
                          what, entry->index, entry->prev_term, prev_index, prev_term);
    }
    if (entry->term == 0 || entry->term < prev_term || entry->term > rpc->message.append_entries.term) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "%s: entry %" PRIu64 " has term %" PRIu64 ", between %" PRIu64 " and the message's %llu",
                          what, entry->index, entry->term, prev_term, rpc->message.append_entries.term);
    }
    if (entry->index > LQ_RPC_INDEX_MAX || entry->base_offset > LQ_RPC_INDEX_MAX ||
        entry->commit_index >= entry->index) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "%s: entry %" PRIu64 " with offset %" PRIu64 " and commit index %" PRIu64 " is out of range",
                          what, entry->index, entry->base_offset, entry->commit_index);
    }
    if (entry->type == LQ_ENTRY_BARRIER && entry->payload_size != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: entry %" PRIu64 " is a barrier with a payload", what, entry->index);
    }
    if (entry->type == LQ_ENTRY_CHANGE) {
        return lq_rpc_check_configuration(entry->payload, entry->payload_size, NULL, err);
    }
    return LIGHTQ_OK;
}

static lightq_status decode_entries(const struct lq_frame_in *frame, struct lq_rpc_scratch *scratch, struct lq_rpc *rpc,
                                    struct lq_err *err)
{
    struct raft_append_entries *append = &rpc->message.append_entries;
    uint64_t position = (uint64_t)frame->offset + frame->head_size;
    const uint64_t end = (uint64_t)frame->offset + frame->size;
    uint64_t prev_index = append->prev_log_index;
    uint64_t prev_term = append->prev_log_term;

    for (uint32_t i = 0; i < rpc->entry_count; i++) {
        struct lq_entry entry;
        uint64_t size = 0;
        struct lq_err detail;
        if (lq_entry_decode(frame->slab->bytes + position, end - position, true, &entry, &size, &detail) != LIGHTQ_OK) {
            return lq_err_set(err, LIGHTQ_EPROTO, "AppendEntries: entry %" PRIu32 " of the frame: %s", i, detail.text);
        }
        lightq_status status = check_entry(rpc, &entry, prev_index, prev_term, err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        scratch->refs[i] =
            (struct lq_entry_ref){.slab = frame->slab, .offset = (uint32_t)position, .size = (uint32_t)size};
        scratch->entries[i] = (struct raft_entry){
            .term = entry.term,
            .type = (enum raft_entry_type)entry.type,
            .buf = {.base = frame->slab->bytes + position + LQ_ENTRY_HEADER_BYTES, .len = entry.payload_size},
            .batch = scratch->batch};
        prev_index = entry.index;
        prev_term = entry.term;
        position += size;
    }
    if (position != end) {
        return lq_err_set(err, LIGHTQ_EPROTO, "AppendEntries: %" PRIu64 " bytes behind its last entry", end - position);
    }
    append->entries = rpc->entry_count == 0 ? NULL : scratch->entries;
    append->n_entries = rpc->entry_count;
    rpc->refs = scratch->refs;
    return LIGHTQ_OK;
}

static lightq_status decode_append(const struct lq_frame_in *frame, const uint8_t *at, struct lq_rpc_scratch *scratch,
                                   struct lq_rpc *rpc, struct lq_err *err)
{
    uint32_t count = lq_get_u32(at + 56);
    uint64_t rest = frame->size - frame->head_size;
    /* Before anything is allocated: what is claimed must be able to be there. */
    if (count > LQ_PEER_ENTRIES_MAX || (uint64_t)count * LQ_ENTRY_HEADER_BYTES > rest) {
        return lq_err_set(err, LIGHTQ_EPROTO, "AppendEntries: %" PRIu32 " entries in %" PRIu64 " bytes", count, rest);
    }
    lightq_status status = scratch_reserve(scratch, count);
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status, "AppendEntries: no memory for %" PRIu32 " entries", count);
    }
    rpc->entry_count = count;
    rpc->first_index = rpc->message.append_entries.prev_log_index + 1;
    return decode_entries(frame, scratch, rpc, err);
}

static lightq_status decode_piece(const struct lq_frame_in *frame, const uint8_t *at, const struct common *common,
                                  struct lq_rpc *rpc, struct lq_err *err)
{
    struct lq_rpc_piece *piece = &rpc->piece;
    uint32_t configuration_size = lq_get_u32(at + 92);
    *piece = (struct lq_rpc_piece){
        .checkpoint = {.last_index = rpc->message.install_snapshot.last_index,
                       .last_term = rpc->message.install_snapshot.last_term,
                       .configuration_index = rpc->message.install_snapshot.conf_index,
                       .next_offset = lq_get_u64(at + 56),
                       .timestamp_ms = lq_get_u64(at + 64),
                       .configuration = configuration_size != 0 ? at + INSTALL_BYTES : NULL,
                       .configuration_size = configuration_size,
                       .state_size = lq_get_u64(at + 72)},
        .offset = lq_get_u64(at + 80),
        .size = lq_get_u32(at + 88),
        .last = (common->flags & FLAG_INSTALL_LAST) != 0,
        .bytes = at + frame->head_size,
    };
    lightq_status status = check_sizes(frame, (uint64_t)INSTALL_BYTES + configuration_size, piece->size, err);
    return status == LIGHTQ_OK ? lq_rpc_check_piece(piece, err) : status;
}

static uint32_t least_head_bytes(enum lq_frame_type type)
{
    switch (type) {
    case LQ_FRAME_VOTE_RESULT:
        return COMMON_BYTES;
    case LQ_FRAME_APPEND:
        return APPEND_BYTES;
    case LQ_FRAME_INSTALL:
        return INSTALL_BYTES;
    default:
        return PLACE_BYTES;
    }
}

/* Sizes, so that the fixed part of the head can be read. */
static lightq_status check_frame(const struct lq_frame_in *frame, struct lq_err *err)
{
    if (frame->type >= sizeof what_of / sizeof what_of[0] || what_of[frame->type] == NULL) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a frame of type %d is not a message of one group", (int)frame->type);
    }
    if (frame->type == LQ_FRAME_INSTALL) { /* its head has no fixed size: see decode_piece */
        if (frame->head_size < INSTALL_BYTES) {
            return check_sizes(frame, INSTALL_BYTES, UINT64_MAX, err);
        }
        return LIGHTQ_OK;
    }
    return check_sizes(frame, least_head_bytes(frame->type), frame->type == LQ_FRAME_APPEND ? UINT64_MAX : 0, err);
}

static void get_message(const struct lq_frame_in *frame, const uint8_t *at, const struct common *common,
                        struct raft_message *message)
{
    *message = (struct raft_message){.server_id = common->from};
    switch (frame->type) {
    case LQ_FRAME_VOTE:
        get_vote(at, common, message);
        break;
    case LQ_FRAME_VOTE_RESULT:
        get_vote_result(common, message);
        break;
    case LQ_FRAME_APPEND:
        get_append(at, common, message);
        break;
    case LQ_FRAME_APPEND_RESULT:
        get_append_result(at, common, message);
        break;
    case LQ_FRAME_INSTALL:
        get_install(at, common, message);
        break;
    default: /* the last that check_frame lets through */
        get_timeout_now(at, common, message);
        break;
    }
}

lightq_status lq_rpc_decode(const struct lq_frame_in *frame, uint32_t node, uint32_t self,
                            struct lq_rpc_scratch *scratch, struct lq_rpc *rpc, struct lq_err *err)
{
    lightq_status status = check_frame(frame, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    const uint8_t *at = frame->slab->bytes + frame->offset;
    struct common common = get_common(at);
    status = check_reserved(frame, at, &common, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_rpc_check_nodes(what_of[frame->type], common.from, common.to, node, self, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *rpc = (struct lq_rpc){.type = frame->type, .group = frame->group, .from = common.from, .to = common.to};
    get_message(frame, at, &common, &rpc->message);
    status = lq_rpc_check_message(&rpc->message, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (frame->type == LQ_FRAME_APPEND) {
        return decode_append(frame, at, scratch, rpc, err);
    }
    return frame->type == LQ_FRAME_INSTALL ? decode_piece(frame, at, &common, rpc, err) : LIGHTQ_OK;
}
