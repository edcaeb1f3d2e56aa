/* storage/reshard.h - another number of shards for a data directory: every log goes to the store of the shard that it
 * belongs to from now on, with all that the journals know. Called by node/server.c before any store is opened;
 * blocking. What is done in which order, and why no crash can harm it: docs/adr/0014. */
#ifndef LQ_STORAGE_RESHARD_H
#define LQ_STORAGE_RESHARD_H

#include "storage/store.h"

struct lq_reshard_options {
    struct lq_store_options store; /* of the old stores; shard, shards and dir are filled in */
    unsigned from;                 /* the number that is noted, 1 to LQ_SHARDS_MAX */
    unsigned to;                   /* the number wanted, the same range; may be @from */
};

/* Notes @shards, durably and at one blow, as the directory's number: from then on it is what lq_reshard_options.from
 * has to be. */
typedef lightq_status (*lq_reshard_note_cb)(void *owner, unsigned shards, struct lq_err *err);

/* The directory of a shard's store: "" for shard 0. */
#define LQ_SHARD_DIR_BYTES 16 /* "shard-15" */
void lq_shard_dir(char out[LQ_SHARD_DIR_BYTES], unsigned shard);

/* First goes on with a change that a start before this one left unfinished, to whatever number that was; then changes
 * to @options->to. With neither to do it only looks. Any failure is safe: what was begun goes on with the next call.
 * EDAMAGED (a journal; or the file "reshard") | ECONFLICT (groups or journals where none belong) | EIDENTITY | EVERSION
 * | ENOSPC | EIO | ENOMEM | ELIMIT, and what @note gives. */
lightq_status lq_reshard_run(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_options *options,
                             lq_reshard_note_cb note, void *owner, struct lq_err *err) LQ_MUST_CHECK;

#endif
