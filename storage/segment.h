/* storage/segment.h - one .log file of a group: a header, then entries back to back. Called by the log, the flusher,
 * recovery and the readers of one store; calls storage/disk.h. Loop thread only. Why: docs/adr/0004.
 *
 *      0  magic         u8[8]  "LQSEGMT1"
 *      8  version       u32    1
 *     12  crc32c        u32    over bytes 8 .. 12 and 16 .. 64
 *     16  cluster       u8[16]
 *     32  group         u64
 *     40  incarnation   u32
 *     44  zero          u32
 *     48  first index   u64
 *     56  journal       u64    the number of the journal file in use when the segment was begun
 *     64  entries ...   then zeros: what is allocated ahead */
#ifndef LQ_STORAGE_SEGMENT_H
#define LQ_STORAGE_SEGMENT_H

#include <sys/queue.h>

#include "client/base/id.h"
#include "storage/format.h"
#include "storage/io.h"

#define LQ_SEGMENT_HEADER_BYTES 64
#define LQ_SEGMENT_VERSION      1
#define LQ_SEGMENT_AHEAD_FIRST  (64u * 1024)
#define LQ_SEGMENT_AHEAD_MAX    (16u * 1024 * 1024)
#define LQ_SEGMENT_OPEN_MAX     256 /* files of a store kept open though nothing needs them, at most */

/* A sparse position in a segment: where the entry @index begins. */
struct lq_point {
    uint64_t index;
    uint64_t position;
    uint64_t base_offset;
    uint64_t timestamp_ms;
};

/* Where a configuration entry of a segment is. */
struct lq_index_change {
    uint64_t index;
    uint64_t position;
};

struct lq_segment {
    uint64_t first;
    uint64_t last;      /* first - 1 when it holds nothing */
    uint64_t prev_term; /* of the entry first - 1 */
    uint64_t last_term;
    uint64_t length;        /* header and entries, written or about to be */
    uint64_t tail_position; /* of the last entry; 0 when not known (after a cut) */
    uint32_t tail_crc;
    uint64_t first_offset; /* base_offset and stamps of its entries */
    uint64_t first_timestamp_ms;
    uint64_t last_timestamp_ms;
    uint64_t allocated;      /* size of the file as far as we made it */
    uint64_t ahead;          /* bytes the next allocation adds */
    struct lq_point *points; /* the first is that of the first entry */
    size_t point_count;
    size_t point_capacity;
    struct lq_index_change *changes; /* for its .idx */
    size_t change_count;
    size_t change_capacity;
    bool points_dropped;                     /* points and changes are in the .idx only, to be loaded when needed */
    lq_file file;                            /* LQ_FILE_NONE when not open */
    unsigned pins;                           /* users of the open file: jobs, reads, bytes not synced */
    unsigned references;                     /* the log, jobs and reads */
    bool on_disk;                            /* the file was created */
    bool closed;                             /* takes no more entries */
    bool indexed;                            /* its .idx is on disk (sealed) */
    bool index_failed;                       /* its .idx could not be written: not tried again */
    bool dirty;                              /* has bytes not synced in this file */
    uint8_t header[LQ_SEGMENT_HEADER_BYTES]; /* as it is being written */
    struct iovec header_iov;
    TAILQ_ENTRY(lq_segment) open_link; /* of store->open_segments while file is open */
};

struct lq_segment_header {
    struct lq_id cluster;
    uint64_t group;
    uint32_t incarnation;
    uint64_t first;
    uint64_t journal;
};

void lq_segment_header_encode(uint8_t at[LQ_SEGMENT_HEADER_BYTES], const struct lq_segment_header *header);
/* OK | ECORRUPT | EVERSION (sound, of another version). */
lightq_status lq_segment_header_decode(const uint8_t at[LQ_SEGMENT_HEADER_BYTES], const char *path,
                                       struct lq_segment_header *header, struct lq_err *err) LQ_MUST_CHECK;

/* An empty segment with one reference; NULL when out of memory. */
struct lq_segment *lq_segment_new(uint64_t first, uint64_t prev_term);
/* Frees it with the last reference; its file must be closed by then. */
void lq_segment_unref(struct lq_segment *segment);
/* Room for one more point and change. False: out of memory. */
bool lq_segment_reserve_point(struct lq_segment *segment);
/* Takes an entry at the segment's end; a point when @stride bytes lie behind the last one (needs the reserve). */
void lq_segment_take(struct lq_segment *segment, const struct lq_entry *entry, uint32_t crc, uint64_t size,
                     uint64_t stride);
/* Forgets the entries from @index on, which begin at @position; @last_term is that of index - 1. */
void lq_segment_cut(struct lq_segment *segment, uint64_t index, uint64_t position, uint64_t last_term);
/* The last point at or before @index; its position is the header's end when there is none. */
struct lq_point lq_segment_point_before(const struct lq_segment *segment, uint64_t index);

/* ---- what lies at a position of a segment being scanned ---- */

enum lq_found {
    LQ_FOUND_ENTRY,  /* whole and sound by itself; whether it chains is for the caller */
    LQ_FOUND_END,    /* nothing: the end of the file, or zeros where an entry would say its length */
    LQ_FOUND_TORN,   /* part of an entry: cut off, or with sectors, or an end, that were never written */
    LQ_FOUND_ROTTEN, /* bytes that no torn write leaves */
};

/* Reads a file forward through a window. */
struct lq_scan {
    struct lq_io *io;
    lq_file file;
    uint64_t file_size;
    size_t ahead; /* bytes read at least, where there are as many */
    uint8_t *window;
    size_t capacity;
    uint64_t window_at;
    size_t window_size;
};

/* ENOMEM | EIO. Takes nothing; @file stays the caller's. */
lightq_status lq_scan_init(struct lq_scan *scan, struct lq_io *io, lq_file file, struct lq_err *err) LQ_MUST_CHECK;
void lq_scan_deinit(struct lq_scan *scan);
/* Makes up to @size bytes at @position readable: *bytes until the next call, *available may be less only at the end. */
lightq_status lq_scan_bytes(struct lq_scan *scan, uint64_t position, size_t size, const uint8_t **bytes,
                            size_t *available, struct lq_err *err) LQ_MUST_CHECK;
/* Judges the bytes at @position. OK whatever is found; EIO | ENOMEM. @entry and @size are set for LQ_FOUND_ENTRY, its
 * payload is valid until the next call, its bytes begin LQ_ENTRY_HEADER_BYTES before it. @text says why for the rest.
 */
lightq_status lq_scan_entry(struct lq_scan *scan, uint64_t position, enum lq_found *found, struct lq_entry *entry,
                            uint64_t *size, struct lq_err *text, struct lq_err *err) LQ_MUST_CHECK;

bool lq_scan_is_zero(const uint8_t *bytes, uint64_t size);
/* True when some piece of [position, position + size), cut at multiples of 512, is all zeros: what an unwritten sector
 * looks like. @bytes are those of the range. */
bool lq_scan_has_zero_piece(const uint8_t *bytes, uint64_t position, uint64_t size);

#endif
