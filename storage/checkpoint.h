/* storage/checkpoint.h - the .ckpt file: the queue state just before the entry its name says. Called by the log,
 * recovery and the background of one store; calls storage/disk.h. Loop thread only. Why: docs/adr/0004.
 *
 *      0  magic            u8[8]  "LQCKPT01"
 *      8  version          u32    1
 *     12  head crc32c      u32    over bytes 8 .. 12 and 16 .. 128
 *     16  cluster          u8[16]
 *     32  group            u64
 *     40  incarnation      u32
 *     44  body crc32c      u32    over bytes 128 .. end
 *     48  next index       u64    last_index + 1: the number in the file's name
 *     56  last term        u64    of entry last_index
 *     64  next offset      u64
 *     72  timestamp_ms     u64
 *     80  configuration index  u64
 *     88  state size       u64
 *     96  install          u64    the number of the install that wrote it; 0 for one made here
 *    104  configuration size   u32
 *    108  zero             u32[5]
 *    128  configuration, then state */
#ifndef LQ_STORAGE_CHECKPOINT_H
#define LQ_STORAGE_CHECKPOINT_H

#include "storage/store.h"

#define LQ_CHECKPOINT_HEADER_BYTES 128
#define LQ_CHECKPOINT_VERSION      1

/* A checkpoint's header and configuration, in memory. */
struct lq_checkpoint_meta {
    struct lq_checkpoint checkpoint; /* state NULL, size 0; configuration points behind this struct */
    uint64_t file_size;
    uint64_t install;
};

/* One .ckpt of a log. */
struct lq_checkpoint_file {
    uint64_t next_index;
    bool durable;
    struct lq_checkpoint_meta *meta; /* NULL: not read yet */
    uint8_t *blob;                   /* what is to be written, until it is durable */
    size_t blob_size;
    uint64_t install;
};

struct lq_checkpoint_owner {
    struct lq_id cluster;
    uint64_t group;
    uint32_t incarnation;
};

/* The file's bytes: malloc'ed, the caller frees *blob. ENOMEM | ETOOBIG. */
lightq_status lq_checkpoint_encode(const struct lq_checkpoint_owner *owner, const struct lq_checkpoint *checkpoint,
                                   uint64_t install, uint8_t **blob, size_t *size) LQ_MUST_CHECK;
/* Fills *checkpoint with pointers into @bytes. OK | ECORRUPT | EVERSION | EIDENTITY. */
lightq_status lq_checkpoint_decode(const struct lq_checkpoint_owner *owner, uint64_t next_index, const char *path,
                                   const uint8_t *bytes, size_t size, struct lq_checkpoint *checkpoint,
                                   uint64_t *install, struct lq_err *err) LQ_MUST_CHECK;
/* The same for the header alone, of a file of @file_size bytes: it is sound when the crc of what lies behind the header
 * is *@body_crc. */
lightq_status lq_checkpoint_check_head(const struct lq_checkpoint_owner *owner, uint64_t next_index, const char *path,
                                       const uint8_t at[LQ_CHECKPOINT_HEADER_BYTES], uint64_t file_size,
                                       uint32_t *body_crc, struct lq_err *err) LQ_MUST_CHECK;
/* A copy without the state; NULL when out of memory. The caller frees it. */
struct lq_checkpoint_meta *lq_checkpoint_meta_new(const struct lq_checkpoint *checkpoint, uint64_t install);
/* Reads and checks a whole file. *bytes is malloc'ed, the caller frees it. OK | ENOTFOUND | ECORRUPT | EVERSION |
 * EIDENTITY | ENOMEM | EIO. */
lightq_status lq_checkpoint_read(struct lq_io *io, const struct lq_checkpoint_owner *owner, const char *dir,
                                 uint64_t next_index, struct lq_checkpoint *checkpoint, uint64_t *install,
                                 uint8_t **bytes, struct lq_err *err) LQ_MUST_CHECK;

#endif
