/* storage/journal.h - the shard journal: which groups exist, their terms and votes, cuts, installs, trims, watermarks,
 * and the entries of a flush when syncing the groups' own files would cost more. This part: the format, and frames
 * being made. Reading at start is storage/replay.h. Called by storage/flusher.c and storage/store.c. Loop thread only.
 * Why: docs/adr/0004.
 *
 * File:
 *      0  magic       u8[8]  "LQJOURN1"
 *      8  version     u32    1
 *     12  crc32c      u32    over bytes 8 .. 12 and 16 .. 64
 *     16  cluster     u8[16]
 *     32  number      u64    of the file, in its name too
 *     40  salt        u64    random: every frame of the file carries it, so that no payload can look like a frame
 *     48  shard       u32
 *     52  shards      u32    how many the node had; 0: not known
 *     56  zero        u32[2]
 *     64  frames ...         then zeros. The first frame is the snapshot of all groups.
 * Frame:
 *      0  magic       u32    "LQJF"
 *      4  crc32c      u32    over bytes 8 .. 40 + records size
 *      8  size        u64    of all of it
 *     16  sequence    u64    1 more than the frame before, over all files
 *     24  salt        u64
 *     32  records size u32
 *     36  kind        u32    enum lq_frame_kind
 *     40  records ...        each: type u8 | void u8 | zero u16 | incarnation u32 | group u64 | fields, all u64
 *         entries ...        those that the ENTRIES records announce, in their order, each with its own crc
 *
 * A frame is written only after the one before it was synced: of all frames only the last can be torn. And it is
 * written only within the length that frames before it tell (LENGTH): a file that loses its end is shorter than those
 * that are left say. So there is always room for the frame that tells of more. */
#ifndef LQ_STORAGE_JOURNAL_H
#define LQ_STORAGE_JOURNAL_H

#include "client/base/buf.h"
#include "client/base/id.h"
#include "storage/io.h"

#define LQ_JOURNAL_VERSION      1
#define LQ_JOURNAL_HEADER_BYTES 64
#define LQ_FRAME_HEADER_BYTES   40
#define LQ_FRAME_MAGIC          0x464a514cu /* "LQJF" */
#define LQ_RECORD_HEADER_BYTES  16
#define LQ_LENGTH_FRAME_BYTES   (LQ_FRAME_HEADER_BYTES + LQ_LENGTH_RECORDS_BYTES)
#define LQ_LENGTH_RECORDS_BYTES (LQ_RECORD_HEADER_BYTES + 8 + LQ_RECORD_HEADER_BYTES) /* LENGTH and END */
#define LQ_JOURNAL_RECORDS_MAX  (1024u * 1024 * 1024) /* bytes of the records of one frame */

enum lq_frame_kind {
    LQ_JOURNAL_SNAPSHOT = 1,
    LQ_JOURNAL_CHANGES = 2,
    LQ_JOURNAL_CLOSED = 3, /* the last frame, empty: a newer file was durable when it was written */
};

/* X(name, number, u64 fields) */
#define LQ_RECORD_TABLE(X)                                                                                             \
    X(GROUP, 1, 8) /* snapshot: term, vote, watermark, trim, cut, install index, install number, need */               \
    X(KNOWN, 2, 0) /* snapshot: it existed once, whatever became of it */                                              \
    X(CREATED, 3, 0)                                                                                                   \
    X(DESTROYED, 4, 0)                                                                                                 \
    X(VOTE, 5, 2)          /* term, voted for */                                                                       \
    X(WATERMARK, 6, 1)     /* durable index */                                                                         \
    X(CUT_BEGIN, 7, 1)     /* first index cut */                                                                       \
    X(CUT_DONE, 8, 1)      /* the same */                                                                              \
    X(INSTALL_BEGIN, 9, 2) /* last index of the checkpoint, number of the install */                                   \
    X(INSTALL_DONE, 10, 2) /* the same */                                                                              \
    X(TRIM, 11, 1)         /* last index dropped */                                                                    \
    X(ENTRIES, 12, 3)      /* first index, count, bytes */                                                             \
    X(END, 13, 0)          /* the last of every frame but CLOSED: its last byte is not zero, so it is there in full */ \
    X(LENGTH, 14, 1)       /* bytes: the file is at least this long, and was so durably before this frame (no group) */

enum lq_record_type {
#define X(name, number, fields) LQ_RECORD_##name = number,
    LQ_RECORD_TABLE(X)
#undef X
};
#define LQ_RECORD_FIELDS_MAX 8

struct lq_record {
    enum lq_record_type type;
    bool is_void; /* of a log that failed in the same flush: only the bytes of its entries are to be skipped */
    uint64_t group;
    uint32_t incarnation;
    uint64_t fields[LQ_RECORD_FIELDS_MAX];
};

/* The number of fields; -1 for an unknown type. */
int lq_record_fields(unsigned type);
void lq_record_write(struct lq_writer *writer, const struct lq_record *record);
/* False at the end, and (reader failed) when malformed. */
bool lq_record_read(struct lq_reader *reader, struct lq_record *record);

/* What the journal says of a group: kept beside each log as it is durable, written into each snapshot, and what replay
 * gives. */
struct lq_journal_group {
    uint64_t group;
    uint32_t incarnation;
    uint64_t term;
    uint64_t voted_for;
    uint64_t watermark;
    uint64_t trim;          /* last index dropped; 0: the log begins at 1 */
    uint64_t cut;           /* a cut begun and not done, its first index; 0: none */
    uint64_t install_index; /* an install begun and not done; number 0: none */
    uint64_t install_number;
    uint64_t need; /* entries in files below this number are in the synced segments */
};
void lq_journal_group_write(struct lq_writer *writer, const struct lq_journal_group *group);

struct lq_journal_header {
    struct lq_id cluster;
    uint64_t number;
    uint64_t salt;
    unsigned shard;
    unsigned shards; /* of the node; 0: not known */
};
void lq_journal_header_encode(uint8_t at[LQ_JOURNAL_HEADER_BYTES], const struct lq_journal_header *header);
/* OK | ECORRUPT | EVERSION. */
lightq_status lq_journal_header_decode(const uint8_t at[LQ_JOURNAL_HEADER_BYTES], const char *path,
                                       struct lq_journal_header *header, struct lq_err *err) LQ_MUST_CHECK;

/* A full file, to be given its last frame. */
struct lq_journal_full {
    lq_file file; /* LQ_FILE_NONE: there is none */
    uint64_t position;
    uint64_t sequence;
    uint64_t salt;
};

/* The file being written. */
struct lq_journal {
    lq_file file;
    uint64_t number;
    uint64_t next_number; /* no file ever had it */
    uint64_t salt;
    uint64_t sequence;  /* of the last frame written */
    uint64_t position;  /* where the next frame goes */
    uint64_t allocated; /* its length, durably, as its frames tell */
    uint64_t ahead;     /* by how much it grows next */
    struct lq_journal_full full;
    struct lq_old_journal {
        uint64_t number;
        uint64_t bytes;
    } * old; /* older files still there, ascending */
    size_t old_count;
    size_t old_capacity;
};

/* Begins a frame in @writer (empty): room for its header. */
void lq_frame_begin(struct lq_writer *writer);
/* The END record. */
void lq_frame_end(struct lq_writer *writer);
/* Fills in the header, once all records are written; @entry_bytes follow them. Can be done again after a change. */
void lq_frame_seal(struct lq_writer *writer, size_t frame_at, uint64_t entry_bytes, uint64_t sequence, uint64_t salt,
                   enum lq_frame_kind kind);
/* The whole frame that tells of a longer file, before anything is written there. */
void lq_frame_length(uint8_t at[LQ_LENGTH_FRAME_BYTES], uint64_t bytes, uint64_t sequence, uint64_t salt);
/* The whole last frame of a full file. */
void lq_frame_closed(uint8_t at[LQ_FRAME_HEADER_BYTES], uint64_t sequence, uint64_t salt);
/* Marks the records in [from, to) of a frame as void. */
void lq_frame_void(struct lq_writer *writer, size_t from, size_t to);

#endif
