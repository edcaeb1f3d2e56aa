/* chaos/check/checkers.h - what the checkers share while check.c runs them, in this order. Not for others. */
#ifndef LQ_CHECK_CHECKERS_H
#define LQ_CHECK_CHECKERS_H

#include "chaos/check/check.h"
#include "chaos/check/sort.h"

/* What is known of a log before any checker. */
struct lq_check_log {
    uint64_t trim;        /* the highest start that was told; 0 */
    uint64_t end;         /* the end that was told last, or LQ_HISTORY_UNKNOWN */
    uint64_t end_time_us; /* of end */
};

/* One offset of one log that an acknowledgement or a read names. */
struct lq_place {
    uint64_t offset;
    uint32_t log;
    uint32_t message; /* the first one named there */
};

/* A run of offsets that a reader has passed. */
struct lq_interval {
    uint64_t first, next;
    uint32_t log;
};

enum { LQ_SEEN_READ = 1, LQ_SEEN_FINAL = 2, LQ_SEEN_WRONG = 4 /* with another payload than attempted */ };

struct lq_check {
    const struct lq_history *history;
    const struct lq_check_options *options;
    struct lq_check_report *report;
    struct lq_check_log *logs;     /* of each log */
    uint8_t *seen;                 /* of each message: LQ_SEEN_... */
    struct lq_interval *intervals; /* sorted by log and first, joined where they touch */
    uint32_t interval_count, interval_capacity;
    struct lq_place *places; /* sorted by log and offset, one for each */
    uint32_t place_count, place_capacity;
};

/* Counts a violation and keeps its sentence while there is room for examples. */
void lq_check_found(struct lq_check *check, enum lq_checker checker, const char *format, ...) LQ_PRINTF(3, 4);
void lq_check_looked(struct lq_check *check, enum lq_checker checker, uint64_t count);

/* "PRODUCER SEQUENCE" of a message, in @text. */
enum { LQ_MESSAGE_TEXT_BYTES = LQ_WORD_BYTES_MAX + 24 };
const char *lq_check_message_text(const struct lq_check *check, uint32_t message, char text[LQ_MESSAGE_TEXT_BYTES]);
const char *lq_check_log_name(const struct lq_check *check, uint32_t log);

/* Room for @count elements of @size bytes, zeroed; never NULL for a count of 0. NULL when out of memory. */
void *lq_check_zeroed(size_t count, size_t size);

/* Each: OK | ENOMEM. */

/* skip, backward; fills intervals. */
lightq_status lq_check_readers(struct lq_check *check) LQ_MUST_CHECK;
/* value, doubled, order; fills places. */
lightq_status lq_check_places(struct lq_check *check) LQ_MUST_CHECK;
/* lost, unproven, unseen, unexpected, aborted; needs intervals. */
lightq_status lq_check_messages(struct lq_check *check) LQ_MUST_CHECK;
/* missed and the figures of groups; needs places. */
lightq_status lq_check_groups(struct lq_check *check) LQ_MUST_CHECK;
lightq_status lq_check_recovery(struct lq_check *check) LQ_MUST_CHECK;
/* replicas, leader, term. */
lightq_status lq_check_cluster(struct lq_check *check) LQ_MUST_CHECK;

#endif
