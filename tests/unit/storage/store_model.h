/* tests/unit/storage/store_model.h - what a store may hold after a crash, given what it was told to do and what it said
 * was durable. A workload of steps is run against store and model together; after any crash the store must match. */
#ifndef LQ_TESTS_STORE_MODEL_H
#define LQ_TESTS_STORE_MODEL_H

#include "store_fixture.h"

#define MODEL_GROUPS  32
#define MODEL_INDEXES 512
#define MODEL_VOTES   64
#define MODEL_ALTS    4
#define MODEL_FIRSTS  16

/* One replica's log. */
struct model_log {
    uint32_t incarnation;
    bool may_be_absent;            /* its creation, or its destruction, is not known to be durable */
    uint64_t first;                /* as last asked for */
    uint64_t firsts[MODEL_FIRSTS]; /* also allowed: what earlier trims left, which may be all that is durable */
    unsigned first_count;
    uint64_t last; /* as last asked for */
    uint64_t must; /* entries up to here must be there, as in term[] */
    uint8_t term[MODEL_INDEXES];
    uint32_t possible[MODEL_INDEXES]; /* bits of the terms an entry may have */
    uint64_t vote_terms[MODEL_VOTES]; /* [told] or any later one is allowed */
    uint64_t vote_for[MODEL_VOTES];
    unsigned vote_count;
    unsigned vote_told;
    uint64_t vote_sequence[MODEL_VOTES];
};

struct model_group {
    struct model *model;
    uint64_t group;
    bool used; /* there is a log as far as was asked for */
    struct model_log now;
    struct model_log *alts; /* what it was before an install or destruction that is not known to be durable */
    unsigned alt_count;
    struct lq_rlog *log; /* NULL: none is open */
    bool failed;
};

struct model {
    struct fixture *f;
    struct model_group groups[MODEL_GROUPS];
    uint64_t random;
    bool broken;      /* the power is gone: the workload ends */
    bool tolerant;    /* faults are injected: calls may fail, and only what is told is known to be durable */
    const char *step; /* for messages */
    uint64_t step_count;
};

enum step_kind {
    STEP_CREATE,     /* group */
    STEP_APPEND,     /* group, count, term, payload size */
    STEP_CUT,        /* group, back: entries from last - back + 1 on */
    STEP_VOTE,       /* group, term */
    STEP_FLUSH,      /* start a flush, run one job */
    STEP_SETTLE,     /* until nothing waits */
    STEP_CHECKPOINT, /* group: at the newest border that wants one */
    STEP_TRIM,       /* group: as far as possible */
    STEP_INSTALL,    /* group, back: a checkpoint that many entries ahead of last */
    STEP_DESTROY,    /* group */
    STEP_APPEND_ALL, /* count, term, payload size: to every log */
    STEP_VOTE_ALL,   /* term */
    STEP_REOPEN,     /* orderly */
    STEP_TICK,       /* 2 s pass */
    STEP_STEPS,      /* start a flush, then @count operations, each of a job chosen by chance */
};

struct step {
    enum step_kind kind;
    uint64_t group;
    uint64_t count;
    uint64_t term;
    uint32_t size;
};

void model_init(struct model *model, struct fixture *f);
void model_deinit(struct model *model);
/* Runs one step; model->broken when the disk broke under it. */
void model_step(struct model *model, const struct step *step);
/* Makes up the next step. */
struct step model_random_step(struct model *model);
void model_run(struct model *model, const struct step *steps, size_t count);
/* The store was opened again: every log must be healthy and allowed; from now on it is what is expected. */
void model_check(struct model *model);
/* The same of one group, when the others are in another store. */
void model_check_group(struct model *model, uint64_t number);
/* All logs take entries and give them back. */
void model_go_on(struct model *model);

#endif
