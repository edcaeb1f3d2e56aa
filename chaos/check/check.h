/* chaos/check/check.h - judges a history: what was promised and did not hold. Called by lightq-check and by
 * simulations; reads history.h. Pure memory; any thread, one at a time for each history. Time grows like the history,
 * but for recovery, which also takes faults times logs; memory is about a hundred bytes an event. What each checker
 * looks at is written in docs/reliability-checkers.md. */
#ifndef LQ_CHECK_CHECK_H
#define LQ_CHECK_CHECK_H

#include "chaos/check/history.h"

/* X(name, sentence): name is also the row in reports. */
#define LQ_CHECKERS(X)                                                                  \
    X(lost, "acknowledged, never read, and its log was read past it or ends before it") \
    X(unproven, "acknowledged, never read, and its log was not read that far")          \
    X(unseen, "acknowledged, and the final reads do not have it")                       \
    X(unexpected, "read, but never attempted, or with another payload")                 \
    X(aborted, "read, although its attempt had failed for certain")                     \
    X(doubled, "one producer and sequence at two places")                               \
    X(value, "one offset with two values")                                              \
    X(order, "a producer's messages in another order than it sent them")                \
    X(skip, "a reader jumped forward over messages that were not trimmed")              \
    X(backward, "a reader went back without a seek")                                    \
    X(missed, "a group is said to be done with a message that none of its readers got") \
    X(recovery, "no acknowledgement after a fault, or too late")                        \
    X(replicas, "two replicas differ")                                                  \
    X(leader, "two leaders in one term")                                                \
    X(term, "a term went back")

enum lq_checker {
#define X(name, sentence) LQ_CHECKER_##name,
    LQ_CHECKERS(X)
#undef X
        LQ_CHECKER_COUNT
};

enum { LQ_CHECK_EXAMPLES_MAX = 16, LQ_CHECK_EXAMPLE_BYTES = 240 };

struct lq_check_options {
    uint64_t recovery_max_us;    /* the longest a fault alone may take; 0: any */
    uint64_t recovery_median_us; /* the longest for half of them; 0: any */
    uint32_t examples;           /* for each checker; at most LQ_CHECK_EXAMPLES_MAX */
    bool reads_are_complete;     /* all logs were read as a whole: what was not read is lost */
    bool allow_unproven;         /* do not fail for what was not read */
};

struct lq_checker_result {
    uint64_t checked;    /* how many things were looked at; 0: the history has nothing for this checker */
    uint64_t violations; /* how many of them were wrong */
    uint32_t example_count;
    char examples[LQ_CHECK_EXAMPLES_MAX][LQ_CHECK_EXAMPLE_BYTES];
};

enum lq_recovery_state {
    LQ_RECOVERY_MEASURED,   /* alone, recovered */
    LQ_RECOVERY_OVERLAPPED, /* recovered, while another fault lasted too: not held against a limit */
    LQ_RECOVERY_UNMEASURED, /* nothing was attempted after it, or it takes a majority and was never healed */
    LQ_RECOVERY_NEVER       /* attempts, but no acknowledgement after it */
};

struct lq_fault_recovery {
    uint64_t from_us;     /* of the fault, or of its heal when it took a majority */
    uint64_t recovery_us; /* MEASURED, OVERLAPPED */
    enum lq_recovery_state state;
};

struct lq_check_report {
    struct lq_checker_result results[LQ_CHECKER_COUNT];
    uint64_t attempted, acknowledged, failed, unknown;
    uint64_t trimmed;                            /* acknowledged, and trimmed before anybody read it */
    uint64_t reads;                              /* by all readers */
    uint64_t messages;                           /* read by at least one */
    uint64_t settled;                            /* confirmed acks */
    uint64_t redelivered, redelivered_after_ack; /* within one group; after a confirmed ack */
    uint64_t recovery_p50_us, recovery_max_us;   /* of the measured */
    uint32_t recovery_measured, recovery_overlapped, recovery_unmeasured, recovery_never;
    struct lq_fault_recovery *faults; /* owned; of each fault of the history */
    uint32_t fault_count;
    bool passed;
    const char *reason; /* why not passed, static; NULL when passed */
};

/* The checker's name and sentence; static. */
const char *lq_checker_name(enum lq_checker checker);
const char *lq_checker_sentence(enum lq_checker checker);

/* Judges @history by all checkers. OK (whatever was found; look at @report->passed) | ENOMEM (then @report needs no
 * deinit). A history without any acknowledgement never passes: it proves nothing. */
lightq_status lq_check_run(const struct lq_history *history, const struct lq_check_options *options,
                           struct lq_check_report *report) LQ_MUST_CHECK;
void lq_check_report_deinit(struct lq_check_report *report);

#endif
