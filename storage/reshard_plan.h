/* storage/reshard_plan.h - the file "reshard" in a data directory: a change of the number of shards that is under way,
 * with all that the old journals knew. While it is there it is the truth, and journals are not. Called by reshard.c.
 * The bytes, little endian:
 *
 *      0  magic         u8[8]  "LQRESHA1"
 *      8  version       u32    1
 *     12  crc32c        u32    over bytes 8 .. 12 and 16 .. end
 *     16  cluster       u8[16]
 *     32  from          u32    shards before
 *     36  to            u32    shards after
 *     40  number        u64    of the journal file that each new shard begins with: no shard had a higher one
 *     48  sequence      u64    of that file's first frame
 *     56  kept          u32    bit i: the journal files of old shard i go to removed/journal, for a damaged log's sake
 *     60  damaged       u32    how many logs
 *     64  records size  u64
 *     72  records ...          GROUP and KNOWN records as in a journal (storage/journal.h), of all shards
 *         damaged ...          each: group u64 | incarnation u32 | size u32 | text, what is wrong with the log */
#ifndef LQ_STORAGE_RESHARD_PLAN_H
#define LQ_STORAGE_RESHARD_PLAN_H

#include "storage/store_private.h"

#define LQ_RESHARD_NAME     "reshard"
#define LQ_RESHARD_NAME_TMP "reshard.tmp"
#define LQ_DAMAGED_NAME_TMP LQ_DAMAGED_NAME ".tmp"

struct lq_damaged {
    uint64_t group;
    uint32_t incarnation;
    char text[LQ_ERR_TEXT_BYTES];
};

struct lq_reshard_plan {
    struct lq_id cluster;
    unsigned from, to;
    uint64_t number;
    uint64_t sequence;
    uint32_t kept;
    struct lq_writer records;
    struct lq_damaged *damaged;
    size_t damaged_count;
    size_t damaged_capacity;
};

void lq_reshard_plan_init(struct lq_reshard_plan *plan, const struct lq_id *cluster, unsigned from, unsigned to);
void lq_reshard_plan_deinit(struct lq_reshard_plan *plan);
/* False: out of memory. */
bool lq_reshard_plan_add_damaged(struct lq_reshard_plan *plan, const struct lq_rlog *log) LQ_MUST_CHECK;
/* Writes the file, durably. ENOMEM | ENOSPC | EIO: then there is none, or it may be there: the next start sees. */
lightq_status lq_reshard_plan_store(struct lq_io *io, const struct lq_reshard_plan *plan,
                                    struct lq_err *err) LQ_MUST_CHECK;
/* OK: @plan (initialised inside) is to be freed by deinit | ENOTFOUND: no change is under way | EDAMAGED | EVERSION |
 * EIDENTITY: of another cluster than @cluster, unless that is NULL | ENOMEM | EIO. */
lightq_status lq_reshard_plan_load(struct lq_io *io, const struct lq_id *cluster, struct lq_reshard_plan *plan,
                                   struct lq_err *err) LQ_MUST_CHECK;

/* A small file under @tmp in @dir, synced, renamed to @name, and @dir synced. */
lightq_status lq_reshard_write_file(struct lq_io *io, const char *dir, const char *tmp, const char *name,
                                    const void *bytes, size_t size, struct lq_err *err) LQ_MUST_CHECK;

#endif
