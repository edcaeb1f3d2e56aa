/* node/queue/marks.h - where a partition's messages of a certain age or amount begin, without reading the log: a
 * bounded list of marks (offset, bytes before it, stamp), made as batches are applied. The list is part of the
 * deterministic state: what it holds follows from the entries alone.
 *
 * A mark is set when enough bytes or time passed since the last one; when the list is full every second mark goes and
 * the distances double, when few are left they halve. So retention is exact to a hundredth or so of what is kept.
 * Called by state.c. Pure memory. */
#ifndef LQ_NODE_QUEUE_MARKS_H
#define LQ_NODE_QUEUE_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/err.h"

struct lq_mark {
    uint64_t offset;       /* of a batch's first message */
    uint64_t bytes;        /* of all batches before that one, ever */
    uint64_t timestamp_ms; /* that batch's stamp: no message before it is younger */
};

struct lq_marks {
    struct lq_mark *at; /* ascending */
    size_t count, capacity;
    uint64_t interval_bytes, interval_ms;
};

void lq_marks_init(struct lq_marks *marks);
void lq_marks_deinit(struct lq_marks *marks);
/* A batch is applied. OK | ENOMEM (nothing changed). */
lightq_status lq_marks_add(struct lq_marks *marks, const struct lq_mark *mark) LQ_MUST_CHECK;
/* Everything below @start is dropped; @end: the partition is empty from there on. */
void lq_marks_trim(struct lq_marks *marks, uint64_t start, uint64_t end);
/* The last mark at or below @offset; NULL when there is none. */
const struct lq_mark *lq_marks_find(const struct lq_marks *marks, uint64_t offset);
/* The last mark stamped at or before @timestamp_ms: every message below it is at least that old. NULL: none. */
const struct lq_mark *lq_marks_find_time(const struct lq_marks *marks, uint64_t timestamp_ms);
/* The last mark that has at most @bytes before it. NULL: none. */
const struct lq_mark *lq_marks_find_bytes(const struct lq_marks *marks, uint64_t bytes);

/*   0 interval_bytes u64 | 8 interval_ms u64 | 16 count u32 | 20 count times: offset u64, bytes u64, timestamp_ms u64
 */
void lq_marks_save(const struct lq_marks *marks, struct lq_writer *writer);
/* @marks is initialised. OK | ECORRUPT (not ascending, too many, cut short) | ENOMEM. */
lightq_status lq_marks_load(struct lq_marks *marks, struct lq_reader *reader) LQ_MUST_CHECK;

#endif
