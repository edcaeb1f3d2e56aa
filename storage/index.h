/* storage/index.h - the .idx file of a sealed segment: all that a start and a seek need to know of it without reading
 * its entries. Rebuilt from the segment when missing or bad. Called by the background, recovery and seeks of one store.
 * Loop thread only. Why: docs/adr/0004.
 *
 *      0  magic             u8[8]  "LQINDEX1"
 *      8  version           u32    1
 *     12  crc32c            u32    over bytes 8 .. 12 and 16 .. end
 *     16  cluster           u8[16]
 *     32  group             u64
 *     40  incarnation       u32
 *     44  entry crc         u32    crc32c field of the last entry
 *     48  first index       u64
 *     56  last index        u64    also the watermark: the segment was durable before this file was written
 *     64  prev term         u64    of entry first - 1
 *     72  last term         u64
 *     80  segment length    u64    exact size of the .log file
 *     88  tail position     u64    of the last entry
 *     96  next offset       u64    after the last entry
 *    104  last timestamp    u64
 *    112  run count         u32
 *    116  change count      u32
 *    120  point count       u32
 *    124  zero              u32
 *    128  runs              { first u64 | term u64 }
 *         changes           { index u64 | position u64 }
 *         points            { index u64 | position u64 | base offset u64 | timestamp u64 } */
#ifndef LQ_STORAGE_INDEX_H
#define LQ_STORAGE_INDEX_H

#include "storage/checkpoint.h"
#include "storage/segment.h"

#define LQ_INDEX_HEADER_BYTES 128
#define LQ_INDEX_VERSION      1

struct lq_index_run {
    uint64_t first;
    uint64_t term;
};

/* A decoded .idx. All arrays are malloc'ed. */
struct lq_index {
    uint64_t first, last, prev_term, last_term, segment_length, tail_position, next_offset, last_timestamp_ms;
    uint32_t tail_crc;
    struct lq_index_run *runs;
    size_t run_count;
    struct lq_index_change *changes;
    size_t change_count;
    struct lq_point *points;
    size_t point_count;
};

void lq_index_deinit(struct lq_index *index);
/* The bytes of the file; malloc'ed, the caller frees *blob. ENOMEM. */
lightq_status lq_index_encode(const struct lq_checkpoint_owner *owner, const struct lq_index *index, uint8_t **blob,
                              size_t *size) LQ_MUST_CHECK;
/* Whether the header @at is that of the index of segment @first, as far as can be said without the rest; fills the
 * fields of @index but for its arrays. The file is sound when, besides, lq_index_crc of it is *@crc. OK | ECORRUPT |
 * EVERSION | EIDENTITY. */
lightq_status lq_index_check_head(const struct lq_checkpoint_owner *owner, uint64_t first, const char *path,
                                  const uint8_t at[LQ_INDEX_HEADER_BYTES], struct lq_index *index, uint32_t *crc,
                                  struct lq_err *err) LQ_MUST_CHECK;
/* The crc of the header; what lies behind it is added with lq_crc32c. */
uint32_t lq_index_crc_begin(const uint8_t at[LQ_INDEX_HEADER_BYTES]);
/* Reads and checks <dir>/<first>.idx, against its own crc and sense only. OK | ENOTFOUND | ECORRUPT | EVERSION |
 * EIDENTITY | ENOMEM | EIO. @limit: no larger file is believed. */
lightq_status lq_index_read(struct lq_io *io, const struct lq_checkpoint_owner *owner, const char *dir, uint64_t first,
                            uint64_t limit, struct lq_index *index, struct lq_err *err) LQ_MUST_CHECK;

#endif
