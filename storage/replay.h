/* storage/replay.h - what the journal files say at start: the groups with their terms, votes and promises, and the
 * entries that the files hold. Reads only. Called by storage/store.c and storage/recover.c while a store opens. Why:
 * docs/adr/0004. */
#ifndef LQ_STORAGE_REPLAY_H
#define LQ_STORAGE_REPLAY_H

#include "storage/store_private.h"

/* An entry in a journal file. */
struct lq_view_entry {
    uint64_t index;
    uint64_t position;
    uint32_t size; /* padded */
    uint32_t crc;
    uint32_t file; /* in replay->files */
    bool bad;      /* announced by a durable frame, but its bytes are damaged */
};

struct lq_replay_group {
    struct lq_journal_group journal;
    struct lq_view_entry *view; /* ascending indexes */
    size_t view_count;
    size_t view_capacity;
    bool seen; /* in the snapshot being applied */
    UT_hash_handle hh;
};

struct lq_replay_known {
    uint64_t group;
    uint32_t incarnation;
    UT_hash_handle hh;
};

struct lq_replay_file {
    uint64_t number;
    uint64_t size;
    uint64_t length; /* that it has had, by its own frames */
    lq_file file;
    struct lq_scan scan;
    bool used; /* false: never completed, or out of date */
};

struct lq_replay {
    struct lq_store *store;
    struct lq_replay_file *files; /* ascending numbers */
    size_t file_count;
    size_t file_capacity;
    struct lq_replay_group *groups;
    struct lq_replay_known *known;
    uint64_t sequence;    /* of the last frame */
    uint64_t oldest;      /* number of the oldest file used; surely durable */
    uint64_t newest;      /* number of the newest file used; 0: none is */
    size_t newest_at;     /* it, in files */
    uint64_t newest_last; /* where its last frame begins */
    uint64_t newest_end;  /* and ends */
    uint64_t newest_salt;
    bool closed;         /* it says that a newer one was begun */
    uint64_t max_number; /* of any file seen */
};

/* OK | EDAMAGED | EIDENTITY | EVERSION | ENOMEM | EIO. */
lightq_status lq_replay_run(struct lq_replay *replay, struct lq_store *store, struct lq_err *err) LQ_MUST_CHECK;
void lq_replay_deinit(struct lq_replay *replay);

struct lq_replay_group *lq_replay_find(const struct lq_replay *replay, uint64_t group);
/* The entry with @index in a group's view; NULL when no journal file has it. */
const struct lq_view_entry *lq_view_find(const struct lq_replay_group *group, uint64_t index);
void lq_view_cut(struct lq_replay_group *group, uint64_t index);
/* Its bytes, until the next call for the same file, and what they say. ECORRUPT | EIO | ENOMEM. */
lightq_status lq_view_read(struct lq_replay *replay, const struct lq_view_entry *view, struct lq_entry *entry,
                           const uint8_t **bytes, struct lq_err *err) LQ_MUST_CHECK;

#endif
