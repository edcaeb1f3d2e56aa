/* chaos/check/history.h - what happened to a cluster and its clients, as a test saw it: attempts to produce and their
 * outcomes, reads, settles, faults, leaders and digests. Filled by history_text.c (a file), receipts.c (what lightq
 * produce and consume write) or directly by a simulation; read by check.c. Memory only; one thread at a time.
 *
 * What the events must be like, so that the checkers may trust them:
 * - A message is (producer, sequence), once in a whole history. The sequences of a producer grow in the order in which
 *   it asked for them to be stored, and it never asks twice (the client library's own retries are one attempt).
 * - All times are microseconds of one monotonic clock, of the moment on the recorder's side: an attempt just before
 *   the call, an outcome just after.
 * - A read is added when the application gets the message, in the order in which that reader gets them. Offsets count
 *   the messages of a log (a topic's partition) without gaps.
 * - A reader that starts again, or is moved, says so with a seek.
 *
 * Every adding function: OK | ENOMEM | ELIMIT (too many) | EINVAL (contradicts what was said before; @err has the
 * sentence). On any failure no event was added. Names are words of 1 to 255 printable ASCII characters. */
#ifndef LQ_CHECK_HISTORY_H
#define LQ_CHECK_HISTORY_H

#include "chaos/check/names.h"

#define LQ_HISTORY_NONE    LQ_INDEX_NONE /* a log or node that is not known */
#define LQ_HISTORY_UNKNOWN UINT64_MAX    /* an offset or a time that is not known */
/* Offsets, sequences, terms and times are at most this. */
#define LQ_HISTORY_NUMBER_MAX ((uint64_t)1 << 62)

enum lq_outcome {
    LQ_OUTCOME_OPEN /* none told: counts as unknown */,
    LQ_OUTCOME_OK,
    LQ_OUTCOME_FAILED,
    LQ_OUTCOME_UNKNOWN
};

/* A subscriber reads a log in order, alone. A pipeline reader shares a group's messages with others and may see one
 * again. A final reader is a subscriber that reads each log from its start to its end when all is quiet. */
enum lq_reader_kind { LQ_READER_SUBSCRIBER, LQ_READER_FINAL, LQ_READER_PIPELINE };

enum lq_verdict { LQ_VERDICT_ACK, LQ_VERDICT_NACK, LQ_VERDICT_REJECT };

/* How much of the cluster a fault takes: with a minority, writes must come back although the fault lasts; with a
 * majority, when it is healed. */
enum lq_fault_scope { LQ_FAULT_MINORITY, LQ_FAULT_MAJORITY };

struct lq_message {
    uint64_t sequence;
    uint64_t invoked_us;   /* of the attempt */
    uint64_t completed_us; /* of the outcome */
    uint64_t offset;       /* LQ_OUTCOME_OK: where it is, or LQ_HISTORY_UNKNOWN */
    uint64_t term;         /* LQ_OUTCOME_OK: of the leader that answered; 0 unknown */
    uint32_t producer;
    uint32_t target; /* log that the attempt was for, or LQ_HISTORY_NONE */
    uint32_t log;    /* LQ_OUTCOME_OK: log that has it */
    uint32_t crc;    /* of the attempt's payload */
    uint8_t outcome; /* enum lq_outcome */
    bool attempted;  /* false: only read, or only acknowledged (receipts) */
    bool has_crc;
};

struct lq_read_event {
    uint64_t time_us;
    uint64_t offset;  /* of a seek: where to, or LQ_HISTORY_UNKNOWN */
    uint32_t track;   /* place in tracks: reader and log */
    uint32_t message; /* LQ_HISTORY_NONE: not a read but a seek */
    uint32_t crc;
};

struct lq_settle {
    uint64_t time_us, offset;
    uint32_t track;
    uint8_t verdict, outcome; /* enum lq_verdict, enum lq_outcome */
};

/* Where a log begins (a trim) or ends, as told at a time. */
struct lq_border {
    uint64_t time_us, offset;
    uint32_t log;
};

/* A pipeline group had nothing left of [from, end). */
struct lq_drained {
    uint64_t time_us, from, end;
    uint32_t group, log;
};

struct lq_leadership {
    uint64_t time_us, term;
    uint32_t view; /* place in views: observer and log */
    uint32_t node;
};

struct lq_digest {
    uint64_t time_us, end, digest;
    uint32_t log, node;
};

struct lq_fault {
    uint64_t begin_us, heal_us; /* LQ_HISTORY_UNKNOWN: not healed */
    uint32_t kind;              /* place in fault_kinds */
    uint8_t scope;              /* enum lq_fault_scope */
};

/* An acknowledgement that was told twice with another place (receipts only). */
struct lq_moved {
    uint64_t offset;
    uint32_t message, log;
};

struct lq_reader_kind_of {
    uint32_t group; /* place in groups, of a pipeline reader */
    uint8_t kind;   /* enum lq_reader_kind */
};

/* Read freely; changed by the functions below only. A place of a name is its id. */
struct lq_history {
    struct lq_check_names logs, producers, readers, nodes, groups, faults, fault_kinds;
    struct lq_pairs tracks, views;
    struct lq_check_index messages_by_id;
    struct lq_message *messages;
    struct lq_read_event *reads; /* seeks too; in reading order of each reader */
    struct lq_settle *settles;
    struct lq_border *trims, *ends;
    struct lq_drained *drained;
    struct lq_leadership *leaderships;
    struct lq_digest *digests;
    struct lq_fault *fault_times;           /* of each name in faults */
    struct lq_reader_kind_of *reader_kinds; /* of each name in readers */
    struct lq_moved *moved;
    uint32_t message_count, message_capacity;
    uint32_t read_count, read_capacity;
    uint32_t settle_count, settle_capacity;
    uint32_t trim_count, trim_capacity;
    uint32_t end_count, end_capacity;
    uint32_t drained_count, drained_capacity;
    uint32_t leadership_count, leadership_capacity;
    uint32_t digest_count, digest_capacity;
    uint32_t fault_capacity;
    uint32_t reader_capacity;
    uint32_t moved_count, moved_capacity;
    uint32_t attempt_count;
    uint64_t quiet_us; /* from then on nothing is produced and all replicas are equal; LQ_HISTORY_UNKNOWN: never said */
};

void lq_history_init(struct lq_history *history);
void lq_history_deinit(struct lq_history *history);

/* ---- names; the same name gives the same id */

lightq_status lq_history_log(struct lq_history *history, const char *topic, uint32_t partition, uint32_t *log,
                             struct lq_err *err) LQ_MUST_CHECK;
/* The same from "TOPIC/PARTITION". */
lightq_status lq_history_log_word(struct lq_history *history, struct lq_word word, uint32_t *log,
                                  struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_history_producer(struct lq_history *history, struct lq_word name, uint32_t *producer,
                                  struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_history_node(struct lq_history *history, struct lq_word name, uint32_t *node,
                              struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_history_group(struct lq_history *history, struct lq_word name, uint32_t *group,
                               struct lq_err *err) LQ_MUST_CHECK;
/* @group: of a pipeline reader, else LQ_HISTORY_NONE. EINVAL too when the reader is known as another kind. */
lightq_status lq_history_reader(struct lq_history *history, struct lq_word name, enum lq_reader_kind kind,
                                uint32_t group, uint32_t *reader, struct lq_err *err) LQ_MUST_CHECK;
/* A zero-terminated word, for callers with constant names. */
struct lq_word lq_word_of(const char *text);

/* ---- producing */

/* @target: the log it is for, LQ_HISTORY_NONE when the library chooses. @crc: of its payload, NULL when not known. */
lightq_status lq_history_attempt(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                                 uint32_t target, const uint32_t *crc, struct lq_err *err) LQ_MUST_CHECK;
/* @offset: LQ_HISTORY_UNKNOWN when the acknowledgement did not tell it; @term: 0 likewise. */
lightq_status lq_history_ok(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                            uint32_t log, uint64_t offset, uint64_t term, struct lq_err *err) LQ_MUST_CHECK;
/* @outcome: LQ_OUTCOME_FAILED (it is certain that it is not stored and never will be) or LQ_OUTCOME_UNKNOWN. */
lightq_status lq_history_not_ok(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                                enum lq_outcome outcome, struct lq_err *err) LQ_MUST_CHECK;
/* An acknowledgement whose attempt was not recorded. The same one may be told again. */
lightq_status lq_history_receipt(struct lq_history *history, uint32_t producer, uint64_t sequence, uint32_t log,
                                 uint64_t offset, uint64_t term, struct lq_err *err) LQ_MUST_CHECK;

/* ---- consuming */

lightq_status lq_history_read(struct lq_history *history, uint64_t time_us, uint32_t reader, uint32_t log,
                              uint64_t offset, uint32_t producer, uint64_t sequence, uint32_t crc,
                              struct lq_err *err) LQ_MUST_CHECK;
/* @reader begins at @offset, or anywhere when it is LQ_HISTORY_UNKNOWN. */
lightq_status lq_history_seek(struct lq_history *history, uint64_t time_us, uint32_t reader, uint32_t log,
                              uint64_t offset, struct lq_err *err) LQ_MUST_CHECK;
/* @outcome: OK, FAILED or UNKNOWN. */
lightq_status lq_history_settle(struct lq_history *history, uint64_t time_us, uint32_t reader, uint32_t log,
                                uint64_t offset, enum lq_verdict verdict, enum lq_outcome outcome,
                                struct lq_err *err) LQ_MUST_CHECK;
/* @group has nothing pending in [@from, @end) of @log. */
lightq_status lq_history_drained(struct lq_history *history, uint64_t time_us, uint32_t group, uint32_t log,
                                 uint64_t from, uint64_t end, struct lq_err *err) LQ_MUST_CHECK;

/* ---- the cluster */

/* @log begins at @offset: what is below was trimmed. */
lightq_status lq_history_trim(struct lq_history *history, uint64_t time_us, uint32_t log, uint64_t offset,
                              struct lq_err *err) LQ_MUST_CHECK;
/* @log ends before @offset, by what its leader says. */
lightq_status lq_history_end(struct lq_history *history, uint64_t time_us, uint32_t log, uint64_t offset,
                             struct lq_err *err) LQ_MUST_CHECK;
/* @observer (a node, or a client that asks one source) says that @node leads @log in @term, which is not 0. A node
 * that has lost its data by the test's doing is another observer afterwards. */
lightq_status lq_history_leader(struct lq_history *history, uint64_t time_us, uint32_t observer, uint32_t log,
                                uint64_t term, uint32_t node, struct lq_err *err) LQ_MUST_CHECK;
/* @node's replica of @log has @digest over everything below @end. */
lightq_status lq_history_digest(struct lq_history *history, uint64_t time_us, uint32_t log, uint32_t node, uint64_t end,
                                uint64_t digest, struct lq_err *err) LQ_MUST_CHECK;
/* @name is new; @kind is what was done, as "kill-leader". */
lightq_status lq_history_fault(struct lq_history *history, uint64_t time_us, struct lq_word name,
                               enum lq_fault_scope scope, struct lq_word kind, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_history_heal(struct lq_history *history, uint64_t time_us, struct lq_word name,
                              struct lq_err *err) LQ_MUST_CHECK;
/* From now on nothing is produced, and digests must be equal, ends included. The last one told counts. */
lightq_status lq_history_quiet(struct lq_history *history, uint64_t time_us, struct lq_err *err) LQ_MUST_CHECK;

#endif
