/* storage/flush.h - one flush: which logs take part, the program of disk operations, and what it holds until it is
 * done. Private to flush_plan.c (says what goes), flush_job.c
 * (makes it) and flusher.c (runs it and tells of it). Why: docs/adr/0004.
 *
 * The order within a flush: new group directories synced; per log allocate and write, cut, install; the segments synced
 * (unless the journal carries the entries); when the journal file must become longer, that synced, and told by a frame
 * of its own, synced; the journal frame written and synced. Entries that the journal carries may
 * be written to their segment with a later flush: late.c. */
#ifndef LQ_STORAGE_FLUSH_H
#define LQ_STORAGE_FLUSH_H

#include "storage/store_private.h"

/* One log's share. */
struct lq_part {
    struct lq_rlog *log;
    bool create;
    bool destroy;
    bool cut_begin;
    bool cut_do;
    bool install_begin;
    bool install_do;
    bool trim;
    bool journaled; /* the journal carries the entries, and what is written to segments needs no sync now */
    bool late;      /* and nothing is written to segments */
    bool synced_directory;
    bool failed;
    uint64_t first; /* entries [first, last]; last < first: none */
    uint64_t last;
    uint64_t bytes;
    uint64_t write_first; /* of those to be written to segments: late ones before, and they; none as above */
    uint64_t write_last;
    size_t file_count;      /* segments those go to */
    uint64_t vote_sequence; /* 0: no vote */
    uint64_t term;
    uint64_t voted_for;
    uint64_t cut_index;
    uint64_t install_index;
    uint64_t install_number;
    uint64_t trim_to;
    size_t doomed_count;
    size_t records_from; /* bytes of the frame that are its records */
    size_t records_to;
    size_t iov_from; /* its entries */
    size_t iov_to;
    size_t held_from; /* its segments in held */
    size_t held_to;
};

/* A watermark that the frame carries. */
struct lq_mark {
    struct lq_rlog *log;
    uint64_t durable;
};

#define LQ_NOTE_STORE (-1) /* part of an operation that is the journal's */
#define LQ_NO_IOV     SIZE_MAX

/* Beside each operation. */
struct lq_note {
    int part;
    size_t iov_at;              /* in iovs; LQ_NO_IOV: the operation has its own, or none */
    bool may_shrink;            /* an allocation: without space try again with */
    uint64_t least;             /* this many bytes; 0: leave it out */
    struct lq_segment *segment; /* of an allocation or truncation: its new size is noted when done */
};

struct lq_flush {
    struct lq_store *store;
    struct lq_io_job job;
    struct lq_io_op *ops;
    size_t op_count, op_capacity;
    size_t op_next; /* where the job that runs now begins */
    struct lq_note *notes;
    size_t note_count, note_capacity;
    struct iovec *iovs;
    size_t iov_count, iov_capacity;
    struct lq_part *parts;
    size_t part_count, part_capacity;
    struct lq_mark *marks;
    size_t mark_count, mark_capacity;
    struct lq_slab **slabs;
    size_t slab_count, slab_capacity;
    struct lq_segment **held; /* pinned */
    size_t held_count, held_capacity;
    char **paths;
    size_t path_count, path_capacity;
    struct lq_writer frame;
    uint64_t frame_entry_bytes;
    uint8_t length_frame[LQ_LENGTH_FRAME_BYTES];
    uint64_t length_bytes; /* of the frame that tells of a longer journal file, before the frame; 0: there is none */
    bool has_frame;
    bool use_journal;
    bool left_out;      /* more files were to be written than one flush may: the rest goes with the next */
    size_t file_count;  /* that entries are written to */
    size_t dirty_count; /* of them, that become dirty */
    bool is_rotation;
    bool is_final;
    bool out_of_memory;
    bool is_telling;
    bool has_waited; /* for space or a descriptor */
    uint64_t sequence;
    lq_file new_file; /* of a rotation */
    uint64_t new_number;
    uint64_t new_salt;
    uint64_t new_allocated; /* of it, or of the journal file when it becomes longer */
    uint64_t new_need;      /* lowest file that the snapshot says a sound log needs */
};

struct lq_flush *lq_flush_new(struct lq_store *store);
/* Empties it for the next use; gives back what it holds. */
void lq_flush_clear(struct lq_flush *flush);
void lq_flush_free(struct lq_flush *flush);
/* Fills parts with what waits and may go now: see LQ_FILES_DEFAULT for how much. (flush_plan.c) */
void lq_flush_plan(struct lq_flush *flush);
/* Whether the journal carries the entries, and whether there is a frame. (flush_plan.c) */
void lq_flush_choose_path(struct lq_flush *flush);
/* Makes the program for all that waits. False: there is nothing to do. out_of_memory: nothing of it may be used. Logs
 * whose files cannot be opened fail, but for want of a descriptor: those stay as they are, and are tried again. */
bool lq_flush_build(struct lq_flush *flush);
/* Makes the program that begins a new journal file. False: it cannot be (the old one goes on). */
bool lq_flush_build_rotation(struct lq_flush *flush);
/* Once the job is submitted: what it carries is no longer pending. */
void lq_flush_commit(struct lq_flush *flush);
/* The journal file becomes @bytes long with this flush. */
void lq_flush_tell_length(struct lq_flush *flush, uint64_t bytes);
/* A log failed in the middle: its records become void, its other operations are taken out. */
void lq_flush_void_part(struct lq_flush *flush, int part);

#endif
