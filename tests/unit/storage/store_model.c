/* tests/unit/storage/store_model.c - see store_model.h. */
#include "store_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

static void on_durable(void *owner, uint64_t index)
{
    struct model_group *group = owner;
    assert_true(index <= group->now.last);
    group->now.must = index > group->now.must ? index : group->now.must;
    group->now.may_be_absent = false; /* created before anything else of it is told */
}

static void vote_told(struct model_log *log, uint64_t sequence)
{
    for (unsigned i = 0; i < log->vote_count; i++) {
        if (log->vote_sequence[i] != 0 && log->vote_sequence[i] <= sequence && i > log->vote_told) {
            log->vote_told = i;
        }
    }
}

/* A vote is that of the replica, whatever becomes of its entries. */
static void on_voted(void *owner, uint64_t sequence)
{
    struct model_group *group = owner;
    vote_told(&group->now, sequence);
    for (unsigned i = 0; i < group->alt_count; i++) {
        if (group->alts[i].incarnation == group->now.incarnation) {
            vote_told(&group->alts[i], sequence);
        }
    }
    group->now.may_be_absent = false;
}

static void alts_drop(struct model_group *group)
{
    free(group->alts);
    group->alts = NULL;
    group->alt_count = 0;
}

static void on_installed(void *owner, uint64_t last_index)
{
    struct model_group *group = owner;
    assert_int_equal(last_index + 1, group->now.first);
    alts_drop(group);
    group->now.first_count = 0;
    group->now.must = last_index;
    group->now.may_be_absent = false;
}

static void on_failed(void *owner, lightq_status status, const struct lq_err *err)
{
    struct model_group *group = owner;
    (void)status;
    (void)err;
    assert_true(group->model->tolerant || lq_io_mem_crashed(group->model->f->mem));
    group->failed = true;
}

static const struct lq_rlog_events model_events = {
    .durable = on_durable, .voted = on_voted, .installed = on_installed, .failed = on_failed};

/* ---- life ---- */

void model_init(struct model *model, struct fixture *f)
{
    *model = (struct model){.f = f, .random = 88172645463325252u};
    for (unsigned i = 0; i < MODEL_GROUPS; i++) {
        model->groups[i].model = model;
        model->groups[i].group = i;
    }
}

void model_deinit(struct model *model)
{
    for (unsigned i = 0; i < MODEL_GROUPS; i++) {
        alts_drop(&model->groups[i]);
    }
}

/* False: no room, or no memory: the step is not taken. */
static bool alt_reserve(struct model_group *group)
{
    if (group->alt_count == MODEL_ALTS) {
        return false;
    }
    struct model_log *alts = realloc(group->alts, (group->alt_count + 1) * sizeof *alts);
    group->alts = alts != NULL ? alts : group->alts;
    return alts != NULL;
}

static void alt_push(struct model_group *group)
{
    group->alts[group->alt_count++] = group->now;
}

static void votes_reset(struct model_log *log, uint64_t term, uint64_t voted_for)
{
    log->vote_count = 1;
    log->vote_told = 0;
    log->vote_terms[0] = term;
    log->vote_for[0] = voted_for;
    log->vote_sequence[0] = 0;
}

/* Nothing waits any more: all that was asked for is durable. */
static void settled(struct model_group *group)
{
    struct model_log *now = &group->now;
    alts_drop(group);
    if (!group->used) {
        return;
    }
    now->may_be_absent = false;
    now->first_count = 0;
    now->must = now->last;
    for (uint64_t i = 0; i < MODEL_INDEXES; i++) {
        now->possible[i] = i >= now->first && i <= now->last ? 1u << now->term[i] : 0;
    }
    votes_reset(now, now->vote_terms[now->vote_count - 1], now->vote_for[now->vote_count - 1]);
}

/* ---- steps ---- */

/* True when a status is as it should be, or the disk broke. */
static bool ok(struct model *model, lightq_status status)
{
    if (status == LIGHTQ_OK) {
        return true;
    }
    if (lq_io_mem_crashed(model->f->mem)) {
        model->broken = true;
        return false;
    }
    if (model->tolerant) {
        return false;
    }
    fail_msg("%s: %s", model->step, lightq_status_name(status));
    return false;
}

static void step_create(struct model *model, struct model_group *group)
{
    struct lq_err err;
    uint32_t incarnation = group->now.incarnation + 1;
    lightq_status status = lq_rlog_create(model->f->store, group->group, incarnation, &group->log, &err);
    if (!ok(model, status)) {
        return;
    }
    group->used = true;
    group->now = (struct model_log){.incarnation = incarnation, .may_be_absent = true, .first = 1};
    votes_reset(&group->now, 0, 0);
    lq_rlog_set_events(group->log, &model_events, group);
}

static void step_append(struct model *model, struct model_group *group, const struct step *step)
{
    struct model_log *now = &group->now;
    struct lq_entry_ref refs[32];
    bool has_memory = true;
    assert_true(step->count <= 32);
    uint64_t prev_term = now->last >= now->first ? now->term[now->last] : lq_rlog_term_at(group->log, now->last);
    uint64_t term = step->term > prev_term ? step->term : prev_term;
    for (uint64_t i = 0; i < step->count; i++) {
        uint64_t index = now->last + 1 + i;
        uint32_t size = step->size + (uint32_t)(index * 7 % 23);
        refs[i] = make_entry(group->group, index, term, i == 0 ? prev_term : term, size, LQ_ENTRY_COMMAND);
        has_memory = has_memory && refs[i].slab != NULL;
    }
    lightq_status status = has_memory ? lq_rlog_append(group->log, refs, step->count) : LIGHTQ_ENOMEM;
    for (uint64_t i = 0; i < step->count; i++) {
        lq_slab_unref(refs[i].slab);
    }
    if (status == LIGHTQ_EBUSY) {
        return; /* an install is under way */
    }
    if (!ok(model, status)) {
        return;
    }
    for (uint64_t i = 0; i < step->count; i++) {
        now->last++;
        assert_true(now->last < MODEL_INDEXES && term < 32);
        now->term[now->last] = (uint8_t)term;
        now->possible[now->last] |= 1u << term;
    }
}

static void step_cut(struct model *model, struct model_group *group, uint64_t back)
{
    struct model_log *now = &group->now;
    uint64_t index = now->last + 1 > now->first + back ? now->last + 1 - back : now->first;
    lightq_status status = lq_rlog_cut(group->log, index);
    if (status == LIGHTQ_EBUSY || !ok(model, status)) {
        return;
    }
    now->last = index - 1;
    now->must = now->must > now->last ? now->last : now->must;
}

static void vote_push(struct model_log *log, uint64_t term, uint64_t voted_for, uint64_t sequence)
{
    if (log->vote_count == MODEL_VOTES) {
        fail_msg("too many votes between two rests");
    }
    log->vote_terms[log->vote_count] = term;
    log->vote_for[log->vote_count] = voted_for;
    log->vote_sequence[log->vote_count] = sequence;
    log->vote_count++;
}

static void step_vote(struct model_group *group, uint64_t term)
{
    uint64_t voted_for = term * 3 + group->group;
    uint64_t sequence = lq_rlog_set_vote(group->log, term, voted_for);
    vote_push(&group->now, term, voted_for, sequence);
    for (unsigned i = 0; i < group->alt_count; i++) {
        if (group->alts[i].incarnation == group->now.incarnation) {
            vote_push(&group->alts[i], term, voted_for, sequence);
        }
    }
}

static void state_text(char text[32], uint64_t last_index)
{
    (void)snprintf(text, 32, "state after %" PRIu64, last_index);
}

static void step_checkpoint(struct model *model, struct model_group *group)
{
    char text[32];
    for (uint64_t i = lq_rlog_durable(group->log) + 1; i > group->now.first; i--) {
        if (lq_rlog_wants_checkpoint(group->log, i)) {
            state_text(text, i - 1);
            struct lq_checkpoint checkpoint =
                make_checkpoint(group->log, i - 1, lq_rlog_term_at(group->log, i - 1), text);
            lightq_status status = lq_rlog_checkpoint(group->log, &checkpoint);
            (void)(status == LIGHTQ_EBUSY || ok(model, status));
            return;
        }
    }
}

static void step_trim(struct model *model, struct model_group *group)
{
    struct lq_checkpoint checkpoint;
    uint64_t point = lq_rlog_trim_point(group->log, lq_rlog_durable(group->log), &checkpoint);
    if (point == 0 || group->now.first_count == MODEL_FIRSTS) {
        return;
    }
    assert_int_equal(checkpoint.last_index, point);
    if (ok(model, lq_rlog_trim(group->log, point))) {
        group->now.firsts[group->now.first_count++] = group->now.first;
        group->now.first = point + 1;
    }
}

static void step_install(struct model *model, struct model_group *group, uint64_t ahead)
{
    char text[32];
    uint64_t last = group->now.last + ahead;
    if (!alt_reserve(group)) {
        return;
    }
    uint64_t term = (group->now.last >= group->now.first ? group->now.term[group->now.last] : 1) + 1;
    state_text(text, last);
    struct lq_checkpoint checkpoint = make_checkpoint(group->log, last, term, text);
    if (!ok(model, lq_rlog_install(group->log, &checkpoint))) {
        return;
    }
    alt_push(group);
    struct model_log *now = &group->now;
    now->first = last + 1;
    now->first_count = 0;
    now->last = last;
    now->must = last;
    memset(now->possible, 0, sizeof now->possible);
}

static void step_destroy(struct model_group *group)
{
    if (!alt_reserve(group)) {
        return;
    }
    alt_push(group);
    lq_rlog_destroy(group->log);
    group->log = NULL;
    group->used = false;
}

static void flush(struct model *model)
{
    lq_store_flush(model->f->store);
    (void)lq_io_mem_run_one(model->f->mem);
}

static uint64_t below(struct model *model, uint64_t bound)
{
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return model->random % bound;
}

static void steps(struct model *model, uint64_t count)
{
    lq_store_flush(model->f->store);
    for (uint64_t i = 0; i < count && lq_io_mem_pending(model->f->mem) > 0; i++) {
        size_t at = (size_t)below(model, lq_io_mem_pending(model->f->mem));
        (void)lq_io_mem_step_job(model->f->mem, lq_io_mem_job_at(model->f->mem, at));
    }
}

#define SPACE_WAIT_US   200000
#define SPACE_WAITS_MAX 3

static void settle(struct model *model)
{
    unsigned waits = 0;
    for (unsigned i = 0; i < 10000 && !model->broken; i++) {
        lq_store_flush(model->f->store);
        bool ran = lq_io_mem_run_one(model->f->mem);
        bool idle = lq_store_idle(model->f->store);
        if (!ran && !idle && model->tolerant && waits < SPACE_WAITS_MAX) {
            model->f->clock.now_us += SPACE_WAIT_US;
            waits++;
        } else if (!ran && !idle && model->tolerant) {
            return; /* the disk stays full */
        }
        if (!ran && idle) {
            for (unsigned g = 0; g < MODEL_GROUPS && !lq_io_mem_crashed(model->f->mem) && !model->tolerant; g++) {
                settled(&model->groups[g]);
            }
            return;
        }
        model->broken = model->broken || lq_io_mem_crashed(model->f->mem);
    }
    assert_true(model->broken);
}

static void on_model_closed(void *data)
{
    *(bool *)data = true;
}

/* Pending changes may be lost with an orderly close too. */
static void step_reopen(struct model *model)
{
    bool closed = false;
    settle(model);
    if (model->broken || model->tolerant) {
        return;
    }
    lq_store_close(model->f->store, on_model_closed, &closed);
    model->f->store = NULL;
    (void)lq_io_mem_run_all(model->f->mem);
    if (!closed || lq_io_mem_crashed(model->f->mem)) {
        assert_true(lq_io_mem_crashed(model->f->mem));
        model->broken = true;
        return;
    }
    if (ok(model, fixture_try_open(model->f))) {
        if (lq_io_mem_crashed(model->f->mem)) {
            model->broken = true;
            return;
        }
        model_check(model);
    }
}

static void one_group(struct model *model, struct model_group *group, const struct step *step)
{
    if (step->kind == STEP_CREATE) {
        if (!group->used) {
            step_create(model, group);
        }
        return;
    }
    if (!group->used || group->failed) {
        return;
    }
    switch (step->kind) {
    case STEP_APPEND:
    case STEP_APPEND_ALL:
        step_append(model, group, step);
        break;
    case STEP_CUT:
        step_cut(model, group, step->count);
        break;
    case STEP_VOTE:
    case STEP_VOTE_ALL:
        step_vote(group, step->term);
        break;
    case STEP_CHECKPOINT:
        step_checkpoint(model, group);
        break;
    case STEP_TRIM:
        step_trim(model, group);
        break;
    case STEP_INSTALL:
        step_install(model, group, step->count);
        break;
    case STEP_DESTROY:
        step_destroy(group);
        break;
    default:
        break;
    }
}

void model_step(struct model *model, const struct step *step)
{
    switch (step->kind) {
    case STEP_FLUSH:
        flush(model);
        break;
    case STEP_SETTLE:
        settle(model);
        break;
    case STEP_REOPEN:
        step_reopen(model);
        break;
    case STEP_STEPS:
        steps(model, step->count);
        break;
    case STEP_TICK:
        model->f->clock.now_us += 2000000;
        break;
    case STEP_APPEND_ALL:
    case STEP_VOTE_ALL:
        for (unsigned i = 0; i < MODEL_GROUPS && !model->broken; i++) {
            one_group(model, &model->groups[i], step);
        }
        break;
    default:
        one_group(model, &model->groups[step->group], step);
        break;
    }
    if (lq_io_mem_crashed(model->f->mem)) {
        model->broken = true;
    }
}

struct step model_random_step(struct model *model)
{
    static const enum step_kind KINDS[] = {
        STEP_APPEND, STEP_APPEND, STEP_APPEND,     STEP_APPEND,     STEP_APPEND_ALL, STEP_APPEND_ALL, STEP_CUT,
        STEP_VOTE,   STEP_STEPS,  STEP_STEPS,      STEP_STEPS,      STEP_STEPS,      STEP_STEPS,      STEP_FLUSH,
        STEP_TRIM,   STEP_TRIM,   STEP_CHECKPOINT, STEP_CHECKPOINT, STEP_CREATE,     STEP_SETTLE,     STEP_TICK,
    };
    struct step step = {.group = 1 + below(model, 6)};
    uint64_t rare = below(model, 60);
    step.kind = rare == 0   ? STEP_REOPEN
                : rare == 1 ? STEP_INSTALL
                : rare == 2 ? STEP_DESTROY
                            : KINDS[below(model, sizeof KINDS / sizeof KINDS[0])];
    step.count = 1 + below(model, step.kind == STEP_STEPS ? 12 : 4);
    step.term = 1 + model->step_count / 6;
    step.size = (uint32_t)(below(model, 10) == 0 ? 1000 + below(model, 1500) : below(model, 250));
    model->step_count++;
    return step;
}

void model_run(struct model *model, const struct step *steps, size_t count)
{
    char text[64];
    model->step = text;
    for (size_t i = 0; i < count && !model->broken; i++) {
        (void)snprintf(text, sizeof text, "step %zu (kind %d, group %" PRIu64 ")", i, (int)steps[i].kind,
                       steps[i].group);
        model_step(model, &steps[i]);
    }
    model->step = "after the steps";
}

/* ---- checking ---- */

static bool vote_allowed(const struct model_log *log, uint64_t term, uint64_t voted_for)
{
    for (unsigned i = log->vote_told; i < log->vote_count; i++) {
        if (log->vote_terms[i] == term && log->vote_for[i] == voted_for) {
            return true;
        }
    }
    return false;
}

static const char *check_base(struct fixture *f, struct lq_rlog *log)
{
    struct lq_checkpoint checkpoint;
    struct lq_err err;
    uint8_t *bytes = NULL;
    char text[32];
    uint64_t first = lq_rlog_first(log);
    (void)f;
    if (first == 1) {
        return lq_rlog_first_checkpoint(log, &checkpoint) ? "has a base that it should not have" : NULL;
    }
    if (!lq_rlog_first_checkpoint(log, &checkpoint) || checkpoint.last_index != first - 1) {
        return "has no base, or another one";
    }
    if (lq_rlog_load_checkpoint(log, UINT64_MAX, false, &checkpoint, &bytes, &err) != LIGHTQ_OK) {
        return "base cannot be loaded";
    }
    state_text(text, first - 1);
    bool same = checkpoint.state_size == strlen(text) && memcmp(checkpoint.state, text, strlen(text)) == 0;
    free(bytes);
    return same ? NULL : "base has another state";
}

/* NULL: @log is what @want allows. */
static const char *mismatch(struct fixture *f, struct lq_rlog *log, const struct model_log *want)
{
    uint64_t term = 0;
    uint64_t voted_for = 0;
    uint64_t first = lq_rlog_first(log);
    uint64_t last = lq_rlog_last(log);
    struct lq_checkpoint newest;
    struct lq_err err;
    uint8_t *bytes = NULL;
    char text[32];
    if (lq_rlog_incarnation(log) != want->incarnation) {
        return "another incarnation";
    }
    bool first_ok = first == want->first;
    for (unsigned i = 0; i < want->first_count; i++) {
        first_ok = first_ok || first == want->firsts[i];
    }
    if (!first_ok) {
        return "begins elsewhere";
    }
    if (last < want->must) {
        return "lost durable entries";
    }
    lq_rlog_vote(log, &term, &voted_for);
    if (!vote_allowed(want, term, voted_for)) {
        return "another vote";
    }
    uint64_t prev_term = lq_rlog_term_at(log, first - 1);
    for (uint64_t i = first; i <= last; i++) {
        struct lq_entry entry;
        struct lq_slab *slab = NULL;
        if (read_one(f, log, i, &entry, &slab) != LIGHTQ_OK) {
            return "an entry cannot be read";
        }
        bool good = entry_is_good(&entry, lq_rlog_group(log), i, entry.term) && entry.prev_term == prev_term &&
                    entry.term == lq_rlog_term_at(log, i);
        prev_term = entry.term;
        lq_slab_unref(slab);
        if (!good) {
            return "an entry has other bytes";
        }
        if (i <= want->must ? entry.term != want->term[i] : (want->possible[i] & 1u << entry.term) == 0) {
            return "an entry of another term, or one that was cut";
        }
    }
    if (lq_rlog_load_checkpoint(log, last, true, &newest, &bytes, &err) == LIGHTQ_OK) {
        state_text(text, newest.last_index);
        bool same = newest.state_size == strlen(text) && memcmp(newest.state, text, strlen(text)) == 0;
        bool fits = newest.last_index <= last && newest.last_term == lq_rlog_term_at(log, newest.last_index);
        free(bytes);
        if (!same || !fits) {
            return "the newest checkpoint has another state";
        }
    }
    return check_base(f, log);
}

static void adopt(struct model_group *group, const struct model_log *matched)
{
    struct lq_rlog *log = group->log;
    uint64_t term = 0;
    uint64_t voted_for = 0;
    struct model_log now = *matched;
    now.may_be_absent = false;
    now.first = lq_rlog_first(log);
    now.first_count = 0;
    now.last = lq_rlog_last(log);
    now.must = now.last;
    memset(now.possible, 0, sizeof now.possible);
    for (uint64_t i = now.first; i <= now.last; i++) {
        now.term[i] = (uint8_t)lq_rlog_term_at(log, i);
        now.possible[i] = 1u << now.term[i];
    }
    lq_rlog_vote(log, &term, &voted_for);
    votes_reset(&now, term, voted_for);
    group->now = now;
    group->used = true;
    alts_drop(group);
    lq_rlog_set_events(log, &model_events, group);
}

void model_check_group(struct model *model, uint64_t number)
{
    struct model_group *group = &model->groups[number];
    struct lq_rlog *log = lq_store_find(model->f->store, group->group);
    const char *why = "is there, and should not be";
    group->log = log;
    group->failed = false;
    if (log == NULL) {
        bool absent_ok = !group->used || group->now.may_be_absent;
        for (unsigned i = 0; i < group->alt_count && group->used && !absent_ok; i++) {
            absent_ok = group->alts[i].may_be_absent;
        }
        if (!absent_ok) {
            fail_msg("group %" PRIu64 " is gone", group->group);
        }
        group->used = false;
        alts_drop(group);
        return;
    }
    if (lq_rlog_health(log) != LQ_RLOG_HEALTHY) {
        fail_msg("group %" PRIu64 ": health %d: %s", group->group, (int)lq_rlog_health(log), lq_rlog_health_text(log));
    }
    assert_int_equal(lq_rlog_durable(log), lq_rlog_last(log));
    if (group->used) {
        why = mismatch(model->f, log, &group->now);
        if (why == NULL) {
            adopt(group, &group->now);
            return;
        }
    }
    for (unsigned i = 0; i < group->alt_count; i++) {
        const struct model_log alt = group->alts[i];
        const char *alt_why = mismatch(model->f, log, &alt);
        if (alt_why == NULL) {
            adopt(group, &alt);
            return;
        }
        why = group->used ? why : alt_why;
    }
    fail_msg("group %" PRIu64 " [%" PRIu64 ", %" PRIu64 "] %s (must %" PRIu64 ", first %" PRIu64 ", last %" PRIu64 ")",
             group->group, lq_rlog_first(log), lq_rlog_last(log), why, group->now.must, group->now.first,
             group->now.last);
}

void model_check(struct model *model)
{
    for (unsigned i = 0; i < MODEL_GROUPS; i++) {
        model_check_group(model, i);
    }
    model->broken = false;
}

void model_go_on(struct model *model)
{
    const struct step steps[] = {
        {.kind = STEP_APPEND_ALL, .count = 2, .term = 30, .size = 50},
        {.kind = STEP_VOTE_ALL, .term = 31},
        {.kind = STEP_REOPEN},
        {.kind = STEP_APPEND_ALL, .count = 1, .term = 31, .size = 5},
        {.kind = STEP_REOPEN},
    };
    model_run(model, steps, sizeof steps / sizeof steps[0]);
    assert_false(model->broken);
}
