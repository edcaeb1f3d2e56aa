/* tests/unit/raft/rpc_fixture.h - builds frames as the link would deliver them, entries, and configurations. */
#ifndef LQ_TEST_RPC_FIXTURE_H
#define LQ_TEST_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/buf.h"
#include "raft/rpc.h"

enum { NODE = 2, SELF = 1, GROUP = 77, LEAD_IN = 24 };
#define FROM lq_replica_make(NODE, 3)
#define TO   lq_replica_make(SELF, 1)

/* What link->send makes of @frame and the other side's link gives: everything in one slab, here behind LEAD_IN other
 * bytes. The slab is exactly as large as the frame, so that a sanitizer sees a read past it. */
static inline struct lq_frame_in deliver(const struct lq_frame *frame)
{
    size_t size = frame->head_size + frame->body_size;
    for (size_t i = 0; i < frame->entry_count; i++) {
        size += frame->entries[i].size;
    }
    struct lq_slab *slab = lq_slab_new(LEAD_IN + size);
    assert_non_null(slab);
    memset(slab->bytes, 0xee, LEAD_IN);
    uint8_t *at = slab->bytes + LEAD_IN;
    memcpy(at, frame->head, frame->head_size);
    at += frame->head_size;
    if (frame->body_size != 0) {
        memcpy(at, frame->body->bytes + frame->body_offset, frame->body_size);
        at += frame->body_size;
    }
    for (size_t i = 0; i < frame->entry_count; i++) {
        memcpy(at, lq_entry_ref_bytes(&frame->entries[i]), frame->entries[i].size);
        at += frame->entries[i].size;
    }
    return (struct lq_frame_in){.type = frame->type,
                                .group = frame->group,
                                .slab = slab,
                                .offset = LEAD_IN,
                                .size = (uint32_t)size,
                                .head_size = frame->head_size};
}

/* A slab with the whole entry; @entry->payload may be NULL when its size is 0. */
static inline struct lq_entry_ref make_entry(const struct lq_entry *entry)
{
    uint64_t size = lq_entry_size(entry->payload_size);
    struct lq_slab *slab = lq_slab_new(size);
    assert_non_null(slab);
    if (entry->payload_size != 0) {
        memcpy(slab->bytes + LQ_ENTRY_HEADER_BYTES, entry->payload, entry->payload_size);
    }
    lq_entry_seal(slab->bytes, entry);
    return (struct lq_entry_ref){.slab = slab, .offset = 0, .size = (uint32_t)size};
}

/* libraft's encoding, written by hand: @count servers with ids of nodes 1, 2, ... and addresses "a", "b", ... Returns
 * the size. */
static inline uint32_t make_configuration(uint8_t *bytes, unsigned count)
{
    uint8_t *at = bytes;
    *at++ = 1;
    lq_put_u64(at, count);
    at += 8;
    for (unsigned i = 0; i < count; i++) {
        lq_put_u64(at, lq_replica_make(i + 1, 1));
        at += 8;
        *at++ = (uint8_t)('a' + i);
        *at++ = 0;
        *at++ = RAFT_VOTER;
    }
    while ((at - bytes) % 8 != 0) {
        *at++ = 0;
    }
    return (uint32_t)(at - bytes);
}

#endif
