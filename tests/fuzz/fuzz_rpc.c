/* tests/fuzz/fuzz_rpc.c - any bytes as a frame of any type. Input: type u8, group u8, head size u16, then the payload.
 * With the group's highest bit set, what a fuzzer can hardly guess (ids, versions, head size) is made right first.
 * Must never crash, read outside, or ask for more memory than the payload explains. What decodes must be inside the
 * promises of raft/rpc.h, and what is one group's message must encode again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "raft/rpc.h"

enum { NODE = 2, SELF = 1, PREFIX = 4, ENTRY_BYTES_PER_PAYLOAD_BYTE = 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The fuzzer cannot guess a crc: seal what looks like entries, so that the checks behind the crc are reached too. With
 * @chain they also get the group, index and previous term that they need. */
static void seal_entries(const struct lq_frame_in *in, bool chain)
{
    uint8_t *at = in->slab->bytes + in->head_size;
    uint64_t size = in->size - in->head_size;
    uint64_t index = in->head_size >= 48 ? lq_get_u64(in->slab->bytes + 32) : 0;
    uint64_t term = in->head_size >= 48 ? lq_get_u64(in->slab->bytes + 40) : 0;
    while (size >= LQ_ENTRY_HEADER_BYTES) {
        uint32_t length = lq_get_u32(at + 4);
        if (length < LQ_ENTRY_HEADER_BYTES || length > size) {
            return;
        }
        if (chain) {
            lq_put_u64(at + 8, in->group);
            lq_put_u64(at + 16, ++index);
            lq_put_u64(at + 32, term);
            at[47] = 0; /* base offset and commit index small enough */
            at[63] = 0;
            term = lq_get_u64(at + 24);
        }
        lq_put_u32(at, lq_crc32c(0, at + 4, length - 4));
        uint64_t padded = lq_entry_size(length - LQ_ENTRY_HEADER_BYTES);
        if (padded > size) {
            return;
        }
        at += padded;
        size -= padded;
    }
}

static void make_plausible(struct lq_frame_in *in)
{
    static const uint8_t head_size[16] = {
        [LQ_FRAME_HEARTBEATS] = 8,   [LQ_FRAME_APPEND] = 64,  [LQ_FRAME_APPEND_RESULT] = 48, [LQ_FRAME_VOTE] = 48,
        [LQ_FRAME_VOTE_RESULT] = 32, [LQ_FRAME_INSTALL] = 96, [LQ_FRAME_TIMEOUT_NOW] = 48,   [LQ_FRAME_STATUS] = 24};
    static const uint8_t version[16] = {[LQ_FRAME_VOTE] = 2, [LQ_FRAME_VOTE_RESULT] = 2, [LQ_FRAME_APPEND_RESULT] = 2};
    uint8_t *at = in->slab->bytes;
    if (in->size < head_size[in->type] || head_size[in->type] == 0) {
        return;
    }
    in->head_size = head_size[in->type];
    if (in->type == LQ_FRAME_HEARTBEATS) {
        uint32_t beats = (in->size - 8) / 64;
        uint32_t results = (in->size - 8) % 64 == 56 ? 1 : 0;
        lq_put_u32(at, beats);
        lq_put_u32(at + 4, results);
        for (uint32_t i = 0; i < beats + results; i++) {
            lq_put_u64(at + 8 + 64 * i + 8, lq_replica_make(NODE, 1));
            lq_put_u64(at + 8 + 64 * i + 16, lq_replica_make(SELF, 1));
        }
        return;
    }
    if (in->type == LQ_FRAME_STATUS) {
        return;
    }
    if (in->type == LQ_FRAME_INSTALL && lq_get_u32(at + 92) <= in->size - in->head_size) {
        in->head_size += lq_get_u32(at + 92);
    }
    lq_put_u64(at, lq_replica_make(NODE, 1));
    lq_put_u64(at + 8, lq_replica_make(SELF, 1));
    for (uint32_t word = 16; word < 56 && word + 8 <= in->head_size; word += 8) {
        at[word + 7] = 0; /* small enough for an index */
    }
    at[24] = version[in->type];
    lq_put_u16(at + 30, 0);
}

static void check_rpc(const struct lq_frame_in *in, const struct lq_rpc *rpc)
{
    assert(lq_replica_node(rpc->from) == NODE && lq_replica_node(rpc->to) == SELF);
    assert((uint64_t)rpc->entry_count * LQ_ENTRY_HEADER_BYTES <= in->size);
    for (uint32_t i = 0; i < rpc->entry_count; i++) {
        const struct lq_entry_ref *ref = &rpc->refs[i];
        assert(ref->slab == in->slab && (uint64_t)ref->offset + ref->size <= (uint64_t)in->offset + in->size);
        const struct raft_entry *entry = &rpc->message.append_entries.entries[i];
        assert(entry->term != 0 && entry->term <= rpc->message.append_entries.term);
        if (entry->type == RAFT_CHANGE) { /* libraft's own decoder is safe behind our check */
            struct raft_configuration configuration;
            raft_configuration_init(&configuration);
            assert(raft_configuration_decode(&entry->buf, &configuration) == 0);
            raft_configuration_close(&configuration);
        }
    }
    struct lq_rpc_head head;
    struct lq_frame frame;
    struct raft_message back = rpc->message;
    back.server_id = rpc->to;
    lightq_status status;
    if (rpc->type == LQ_FRAME_APPEND) {
        status = lq_rpc_encode_append(rpc->group, rpc->from, &back, rpc->refs, rpc->entry_count, &head, &frame);
    } else if (rpc->type == LQ_FRAME_INSTALL) {
        uint32_t at = (uint32_t)(rpc->piece.bytes - in->slab->bytes);
        status = lq_rpc_encode_install(rpc->group, rpc->from, &back, &rpc->piece, in->slab, at, &head, &frame);
    } else {
        status = lq_rpc_encode(rpc->group, rpc->from, &back, &head, &frame);
    }
    assert(status == LIGHTQ_OK && frame.type == in->type && frame.head_size == in->head_size);
    assert(memcmp(frame.head, in->slab->bytes + in->offset, in->head_size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX) {
        return 0;
    }
    uint16_t head_size = lq_get_u16(data + 2);
    struct lq_frame_in in = {
        .type = (enum lq_frame_type)(data[0] % 16), .group = data[1] % 4, .size = (uint32_t)(size - PREFIX)};
    in.head_size = head_size <= in.size ? head_size : in.size; /* the link has checked it */
    in.slab = lq_slab_new(in.size == 0 ? 1 : in.size);
    if (in.slab == NULL) {
        return 0;
    }
    memcpy(in.slab->bytes, data + PREFIX, in.size);
    bool plausible = (data[1] & 0x80) != 0;
    if (plausible) {
        make_plausible(&in);
    }
    if (in.type == LQ_FRAME_APPEND) {
        seal_entries(&in, plausible);
    }

    struct lq_rpc_scratch scratch;
    char batch;
    lq_rpc_scratch_init(&scratch, &batch);
    struct lq_rpc rpc;
    struct lq_err err;
    if (lq_rpc_decode(&in, NODE, SELF, &scratch, &rpc, &err) == LIGHTQ_OK) {
        check_rpc(&in, &rpc);
    }
    assert((uint64_t)scratch.capacity * (sizeof *scratch.refs + sizeof *scratch.entries) <=
           (uint64_t)in.size * ENTRY_BYTES_PER_PAYLOAD_BYTE);
    lq_rpc_scratch_deinit(&scratch);

    struct lq_heartbeats heartbeats;
    if (lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, &err) == LIGHTQ_OK) {
        assert(heartbeats.beat_count + heartbeats.result_count <= LQ_PEER_HEARTBEATS_MAX);
    }
    struct lq_node_status status;
    if (lq_rpc_decode_status(&in, &status, &err) == LIGHTQ_OK) {
        assert(status.free_bytes <= status.total_bytes);
    }
    struct lq_servers servers;
    struct raft_buffer whole = {.base = in.slab->bytes, .len = in.size};
    if (lq_rpc_check_configuration(whole.base, whole.len, &servers, &err) == LIGHTQ_OK) {
        struct raft_configuration configuration;
        raft_configuration_init(&configuration);
        assert(raft_configuration_decode(&whole, &configuration) == 0 && configuration.n == servers.count);
        raft_configuration_close(&configuration);
    }
    lq_slab_unref(in.slab);
    return 0;
}
