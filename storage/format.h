/* storage/format.h - the entry: the unit of the log, the same bytes on disk and on the peer wire. Little endian.
 *
 *      0  crc32c        u32   over bytes 4 .. length, so over all the rest without the padding
 *      4  length        u32   of header and payload, without padding (72 + payload)
 *      8  group         u64
 *     16  index         u64   Raft index, 1-based
 *     24  term          u64
 *     32  prev_term     u64   the term of index - 1 (0 for index 1)
 *     40  base_offset   u64   queue offset of the first message; for entries without messages the next offset
 *     48  timestamp_ms  u64   the leader's stamp, never lower than that of the entry before
 *     56  commit_index  u64   the leader's commit index when it submitted
 *     64  type          u8    enum lq_entry_type
 *     65  version       u8    1
 *     66  flags         u16   0
 *     68  message_count u32
 *     72  payload ...         padded with zeros to a multiple of 8
 *
 * Decoders refuse (ECORRUPT) a length below 72 or above the limit, an unknown version or type, index 0, term 0, and
 * padding that is not zero. */
#ifndef LQ_STORAGE_FORMAT_H
#define LQ_STORAGE_FORMAT_H

#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"
#include "client/base/slab.h"

#define LQ_ENTRY_HEADER_BYTES 72
#define LQ_ENTRY_VERSION      1
#define LQ_ENTRY_ALIGN        8

enum lq_entry_type {
    LQ_ENTRY_COMMAND = 1, /* RAFT_COMMAND: payload belongs to the state machine */
    LQ_ENTRY_BARRIER = 2, /* RAFT_BARRIER: no payload */
    LQ_ENTRY_CHANGE = 3,  /* RAFT_CHANGE: payload is an encoded configuration */
};

/* A decoded header, with the payload inside the encoded bytes (borrowed). */
struct lq_entry {
    uint64_t group;
    uint64_t index;
    uint64_t term;
    uint64_t prev_term;
    uint64_t base_offset;
    uint64_t timestamp_ms;
    uint64_t commit_index;
    enum lq_entry_type type;
    uint16_t flags;
    uint32_t message_count;
    uint32_t payload_size;
    const uint8_t *payload;
};

/* An encoded entry inside a slab: a view that holds one reference to it. */
struct lq_entry_ref {
    struct lq_slab *slab;
    uint32_t offset; /* of the header in slab->bytes */
    uint32_t size;   /* with padding */
};

/* Encoded bytes, padding included, for a payload of @payload_size bytes. */
static inline uint64_t lq_entry_size(uint64_t payload_size)
{
    return (LQ_ENTRY_HEADER_BYTES + payload_size + (LQ_ENTRY_ALIGN - 1)) & ~(uint64_t)(LQ_ENTRY_ALIGN - 1);
}

/* Writes the header, with its crc, and the padding around a payload that lies already at @at + 72. @at has
 * lq_entry_size(entry->payload_size) bytes; entry->payload is not read. */
void lq_entry_seal(uint8_t *at, const struct lq_entry *entry);

/* Decodes the entry at @at, of which @available bytes are there. OK: *size is its encoded size with padding.
 * ECORRUPT: the bytes are not a whole, sound entry (@err says what). With @check_crc false the crc is not read. */
lightq_status lq_entry_decode(const uint8_t *at, uint64_t available, bool check_crc, struct lq_entry *entry,
                              uint64_t *size, struct lq_err *err) LQ_MUST_CHECK;

static inline const uint8_t *lq_entry_ref_bytes(const struct lq_entry_ref *ref)
{
    return ref->slab->bytes + ref->offset;
}

#endif
