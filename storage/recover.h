/* storage/recover.h - one log at start: what its files and the journal say together is merged, judged (whole, torn tail
 * or damage), and then repaired on disk. Called by storage/store.c while a store opens. Why: docs/adr/0004. */
#ifndef LQ_STORAGE_RECOVER_H
#define LQ_STORAGE_RECOVER_H

#include "storage/replay.h"

/* What is to be done on disk for one log, once all logs are judged. */
struct lq_heal {
    struct lq_rlog *log;
    struct lq_replay_group *group;
    uint64_t rewrite_from; /* entries from here on may be in the page cache only: written again */
    uint64_t watermark;    /* entries up to here were durable, in a segment or the journal */
    bool is_unfinished;    /* a cut or install was under way: what it did may not be durable */
    struct lq_doomed_list remove;
    char **temporary; /* names of files that were never completed */
    size_t temporary_count;
    size_t temporary_capacity;
};

void lq_heal_deinit(struct lq_heal *heal);

/* Reads and judges; fills @log, or gives it the health DAMAGED. Changes nothing on disk. OK | EIDENTITY | EVERSION |
 * ENOMEM | EDAMAGED (for the whole shard: the log knows of a newer journal than there is). */
lightq_status lq_recover_log(struct lq_replay *replay, struct lq_replay_group *group, struct lq_rlog *log,
                             struct lq_heal *heal, struct lq_err *err) LQ_MUST_CHECK;
/* Makes the files be what @log says, durably. Any failure is that of this log. */
lightq_status lq_heal_log(struct lq_replay *replay, struct lq_heal *heal, struct lq_err *err) LQ_MUST_CHECK;

#endif
