/* A big random history that keeps every promise passes, and each of many ways to break it is found by exactly the
 * checkers that it concerns: a checker that cannot fail, or fails for another's reason, is caught here. The history is
 * judged twice, once as it was told and once after it was written to text and read back. Seeds are printed;
 * LIGHTQ_TEST_SEED=N runs that one alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_fixture.h"
#include "history_model.h"

#include "chaos/check/history_text.h"
#include "client/base/clock.h"

enum { MESSAGES = 6000 };

/* Changes the model; returns which checkers must find it. */
typedef unsigned (*mutation)(struct model *model);

/* A log and an offset of it that was acknowledged with its offset, is not trimmed, and has neighbours. */
static struct stored *pick(struct model *model, uint32_t *log, uint64_t *offset)
{
    for (;;) {
        *log = (uint32_t)model_random(model, MODEL_LOGS);
        struct model_log *of = &model->logs[*log];
        *offset = of->trim + 1 + model_random(model, of->end - of->trim - 2);
        if (of->at[*offset].acknowledged) {
            return &of->at[*offset];
        }
    }
}

static bool is_read_of(const struct event *event, uint32_t readers, uint32_t log, uint64_t offset)
{
    return event->kind == EVENT_READ && (readers & 1u << event->reader) != 0 && event->log == log &&
           event->offset == offset;
}

#define ALL_READERS ((1u << MODEL_READERS) - 1)
#define WORKERS     (1u << READER_V | 1u << READER_W)

static void drop_reads(struct model *model, uint32_t readers, uint32_t log, uint64_t offset)
{
    for (uint32_t i = 0; i < model->count; i++) {
        if (is_read_of(&model->events[i], readers, log, offset)) {
            model->events[i].kind = EVENT_NONE;
        }
    }
}

static struct event *find_read(struct model *model, uint32_t reader, uint32_t log, uint64_t offset)
{
    for (uint32_t i = 0; i < model->count; i++) {
        if (is_read_of(&model->events[i], 1u << reader, log, offset)) {
            return &model->events[i];
        }
    }
    fail_msg("reader %u never read offset %" PRIu64, reader, offset);
    return NULL;
}

/* The event of @kind about a message. */
static struct event *find_outcome(struct model *model, enum event_kind kind, const struct stored *stored)
{
    for (uint32_t i = 0; i < model->count; i++) {
        struct event *event = &model->events[i];
        if (event->kind == kind && event->producer == stored->producer && event->sequence == stored->sequence) {
            return event;
        }
    }
    fail_msg("no outcome of p%u %" PRIu64, stored->producer, stored->sequence);
    return NULL;
}

/* The last event of @kind, of @log unless it is LQ_HISTORY_NONE. */
static struct event *find_last(struct model *model, enum event_kind kind, uint32_t log)
{
    for (uint32_t i = model->count; i-- > 0;) {
        struct event *event = &model->events[i];
        if (event->kind == kind && (log == LQ_HISTORY_NONE || event->log == log)) {
            return event;
        }
    }
    fail_msg("no event of kind %d", (int)kind);
    return NULL;
}

static unsigned change_nothing(struct model *model)
{
    (void)model;
    return 0;
}

static unsigned drop_a_final_read(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    drop_reads(model, 1u << READER_F, log, offset);
    return SET(skip) | SET(unseen);
}

static unsigned drop_the_first_final_read(struct model *model)
{
    for (uint32_t log = 0; log < MODEL_LOGS; log++) {
        const struct model_log *of = &model->logs[log];
        if (of->at[of->trim].acknowledged) {
            drop_reads(model, 1u << READER_F, log, of->trim);
            return SET(unseen);
        }
    }
    return 0;
}

static unsigned drop_a_read_of_one_subscriber(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    drop_reads(model, 1u << READER_S, log, offset);
    return SET(skip);
}

static unsigned drop_all_reads_of_a_message(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    drop_reads(model, ALL_READERS, log, offset);
    return SET(lost) | SET(unseen) | SET(skip) | SET(missed);
}

static unsigned drop_a_groups_reads(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    drop_reads(model, WORKERS, log, offset);
    return SET(missed);
}

/* The last message of a log is gone, and the log ends before it. */
static unsigned cut_the_tail(struct model *model)
{
    uint32_t log = (uint32_t)model_random(model, MODEL_LOGS);
    uint64_t last = model->logs[log].end - 1;
    drop_reads(model, ALL_READERS, log, last);
    find_last(model, EVENT_END, log)->offset = last;
    return SET(lost) | SET(unseen) | SET(missed);
}

/* Nobody reads the last message, and nothing says that it should have been. */
static unsigned stop_reading_early(struct model *model)
{
    uint32_t log = (uint32_t)model_random(model, MODEL_LOGS);
    drop_reads(model, ALL_READERS, log, model->logs[log].end - 1);
    find_last(model, EVENT_DRAINED, log)->kind = EVENT_NONE;
    return SET(unproven) | SET(unseen);
}

/* What timed out and was not stored is said to be acknowledged. */
static unsigned acknowledge_what_is_not_stored(struct model *model)
{
    uint32_t log = 1 + (uint32_t)model_random(model, MODEL_LOGS - 1); /* one that was not trimmed */
    for (uint32_t i = 0; i < model->count; i++) {
        struct event *event = &model->events[i];
        if (event->kind == EVENT_FAILED && event->log == log) {
            event->kind = EVENT_OK;
            event->offset = LQ_HISTORY_UNKNOWN;
            return SET(lost) | SET(unseen);
        }
    }
    return 0;
}

static unsigned double_a_message(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    struct event again = *find_read(model, READER_F, log, offset);
    again.offset = model->logs[log].end;
    model_add(model, again);
    return SET(doubled);
}

static unsigned double_a_message_in_another_log(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    struct event again = *find_read(model, READER_F, log, offset);
    again.log = (log + 1) % MODEL_LOGS;
    again.offset = model->logs[again.log].end;
    model_add(model, again);
    return SET(doubled);
}

static unsigned acknowledge_another_offset(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    const struct stored *stored = pick(model, &log, &offset);
    find_outcome(model, EVENT_OK, stored)->offset = model->logs[log].end + 10;
    return SET(doubled);
}

static unsigned swap_two_reads(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    struct event *first = find_read(model, READER_F, log, offset);
    struct event *second = find_read(model, READER_F, log, offset + 1);
    struct event held = *first;
    *first = *second;
    *second = held;
    return SET(skip) | SET(backward);
}

/* Two messages of one producer lie in the wrong order, and everybody says so. */
static unsigned reorder_the_log(struct model *model)
{
    uint32_t log;
    uint64_t first, second;
    const struct stored *one, *two;
    do {
        one = pick(model, &log, &first);
        for (second = first + 1; second < model->logs[log].end; second++) {
            if (model->logs[log].at[second].producer == one->producer) {
                break;
            }
        }
        two = &model->logs[log].at[second];
    } while (second == model->logs[log].end || !two->acknowledged);
    find_outcome(model, EVENT_OK, one)->offset = second;
    find_outcome(model, EVENT_OK, two)->offset = first;
    for (uint32_t i = 0; i < model->count; i++) {
        struct event *event = &model->events[i];
        bool at_first = is_read_of(event, ALL_READERS, log, first);
        if (at_first || is_read_of(event, ALL_READERS, log, second)) {
            event->sequence = at_first ? two->sequence : one->sequence;
            event->crc = at_first ? two->crc : one->crc;
        }
    }
    return SET(order);
}

static unsigned change_a_payload_for_one_reader(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    find_read(model, READER_S, log, offset)->crc ^= 1u << model_random(model, 32);
    return SET(unexpected) | SET(value);
}

static unsigned change_a_payload_for_all(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    pick(model, &log, &offset);
    uint32_t bit = 1u << model_random(model, 32);
    for (uint32_t i = 0; i < model->count; i++) {
        if (is_read_of(&model->events[i], ALL_READERS, log, offset)) {
            model->events[i].crc ^= bit;
        }
    }
    return SET(unexpected);
}

static unsigned read_what_nobody_attempted(struct model *model)
{
    uint32_t log = (uint32_t)model_random(model, MODEL_LOGS);
    model_add(model, (struct event){.kind = EVENT_READ,
                                    .time_us = 1,
                                    .reader = READER_F,
                                    .log = log,
                                    .offset = model->logs[log].end,
                                    .producer = MODEL_PRODUCERS});
    return SET(unexpected);
}

static unsigned forget_an_attempt(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    const struct stored *stored = pick(model, &log, &offset);
    find_outcome(model, EVENT_ATTEMPT, stored)->kind = EVENT_NONE;
    find_outcome(model, EVENT_OK, stored)->kind = EVENT_NONE;
    return SET(unexpected);
}

static unsigned fail_what_is_stored(struct model *model)
{
    uint32_t log;
    uint64_t offset;
    find_outcome(model, EVENT_OK, pick(model, &log, &offset))->kind = EVENT_FAILED;
    return SET(aborted);
}

static unsigned forget_a_seek(struct model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        if (model->events[i].kind == EVENT_SEEK && model->events[i].reader == READER_S) {
            model->events[i].kind = EVENT_NONE;
            return SET(backward);
        }
    }
    return 0;
}

static unsigned forget_the_trim(struct model *model)
{
    find_last(model, EVENT_TRIM, 0)->kind = EVENT_NONE;
    return SET(unseen);
}

static unsigned add_a_second_leader(struct model *model)
{
    struct event *last = find_last(model, EVENT_LEADER, (uint32_t)model_random(model, MODEL_LOGS));
    struct event other = *last;
    other.node = (other.node + 1) % MODEL_NODES;
    other.time_us++;
    model_add(model, other);
    return SET(leader);
}

/* A node tells of its log's first leader at the end. */
static unsigned send_a_term_back(struct model *model)
{
    struct event again = {.kind = EVENT_NONE};
    for (uint32_t i = 0; i < model->count && again.kind == EVENT_NONE; i++) {
        if (model->events[i].kind == EVENT_LEADER) {
            again = model->events[i];
        }
    }
    again.time_us = find_last(model, EVENT_QUIET, LQ_HISTORY_NONE)->time_us;
    model_add(model, again);
    return SET(term);
}

static unsigned acknowledge_in_an_old_term(struct model *model)
{
    uint32_t log = (uint32_t)model_random(model, MODEL_LOGS);
    const struct model_log *of = &model->logs[log];
    struct event *last = find_outcome(model, EVENT_OK, &of->at[of->end - 1]);
    last->term--;
    return SET(term);
}

static unsigned flip_a_digest(struct model *model)
{
    find_last(model, EVENT_DIGEST, (uint32_t)model_random(model, MODEL_LOGS))->term ^= (uint64_t)1
                                                                                       << model_random(model, 64);
    return SET(replicas);
}

static unsigned leave_a_replica_behind(struct model *model)
{
    uint32_t log = (uint32_t)model_random(model, MODEL_LOGS);
    struct event *digest = find_last(model, EVENT_DIGEST, log);
    digest->offset--;
    digest->term = model_digest(log, digest->offset);
    return SET(replicas);
}

static unsigned acknowledge_nothing_after_the_last_fault(struct model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        struct event *attempt = &model->events[i];
        bool told = attempt->kind == EVENT_ATTEMPT && i + 1 < model->count && model->events[i + 1].kind == EVENT_OK &&
                    model->events[i + 1].sequence == attempt->sequence;
        if (told && attempt->time_us >= model->last_fault_us) {
            model->events[i + 1].kind = EVENT_UNKNOWN;
        }
    }
    return SET(recovery);
}

static const struct {
    const char *name;
    mutation change;
} mutations[] = {
#define X(name)     \
    {               \
#name, name \
    }
    X(change_nothing),
    X(drop_a_final_read),
    X(drop_the_first_final_read),
    X(drop_a_read_of_one_subscriber),
    X(drop_all_reads_of_a_message),
    X(drop_a_groups_reads),
    X(cut_the_tail),
    X(stop_reading_early),
    X(acknowledge_what_is_not_stored),
    X(double_a_message),
    X(double_a_message_in_another_log),
    X(acknowledge_another_offset),
    X(swap_two_reads),
    X(reorder_the_log),
    X(change_a_payload_for_one_reader),
    X(change_a_payload_for_all),
    X(read_what_nobody_attempted),
    X(forget_an_attempt),
    X(fail_what_is_stored),
    X(forget_a_seek),
    X(forget_the_trim),
    X(add_a_second_leader),
    X(send_a_term_back),
    X(acknowledge_in_an_old_term),
    X(flip_a_digest),
    X(leave_a_replica_behind),
    X(acknowledge_nothing_after_the_last_fault),
#undef X
};
enum { MUTATIONS = sizeof mutations / sizeof mutations[0] };

/* Writes @history and reads it back. */
static void copy_by_text(const struct lq_history *history, struct lq_history *copy)
{
    char *text = NULL;
    size_t size = 0;
    struct lq_err err;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(lq_history_save(history, file, &err), LIGHTQ_OK);
    fclose(file);
    file = fmemopen(text, size, "r");
    assert_non_null(file);
    lq_history_init(copy);
    if (lq_history_load(copy, file, "saved", &err) != LIGHTQ_OK) {
        fail_msg("%s", err.text);
    }
    fclose(file);
    free(text);
}

static void assert_same_figures(const struct lq_check_report *a, const struct lq_check_report *b)
{
    for (int i = 0; i < LQ_CHECKER_COUNT; i++) {
        assert_int_equal(a->results[i].checked, b->results[i].checked);
        assert_int_equal(a->results[i].violations, b->results[i].violations);
    }
    assert_int_equal(a->attempted, b->attempted);
    assert_int_equal(a->acknowledged, b->acknowledged);
    assert_int_equal(a->failed, b->failed);
    assert_int_equal(a->unknown, b->unknown);
    assert_int_equal(a->reads, b->reads);
    assert_int_equal(a->settled, b->settled);
    assert_int_equal(a->redelivered_after_ack, b->redelivered_after_ack);
    assert_int_equal(a->recovery_p50_us, b->recovery_p50_us);
    assert_int_equal(a->recovery_max_us, b->recovery_max_us);
}

static unsigned run_one(uint64_t seed, size_t at)
{
    struct model model;
    struct lq_history history, copy;
    struct lq_check_report *reports = calloc(2, sizeof *reports);
    char what[128];
    assert_non_null(reports);
    model_init(&model, seed, MESSAGES);
    unsigned expected = mutations[at].change(&model);
    snprintf(what, sizeof what, "seed %" PRIu64 ", %s", seed, mutations[at].name);

    lq_history_init(&history);
    model_play(&model, &history);
    judge_history(&history, NULL, expected, &reports[0], what);
    copy_by_text(&history, &copy);
    judge_history(&copy, NULL, expected, &reports[1], what);
    assert_same_figures(&reports[0], &reports[1]);
    assert_true(reports[0].passed == (expected == 0));

    lq_check_report_deinit(&reports[0]);
    lq_check_report_deinit(&reports[1]);
    free(reports);
    lq_history_deinit(&copy);
    lq_history_deinit(&history);
    model_deinit(&model);
    return expected;
}

static void test_mutations_are_found_by_exactly_their_checkers(void **state)
{
    (void)state;
    uint64_t seeds[] = {1, lq_clock_random_u64(lq_clock_system()) % 1000000};
    size_t count = 2;
    const char *given = getenv("LIGHTQ_TEST_SEED");
    if (given != NULL) {
        seeds[0] = strtoull(given, NULL, 10);
        count = 1;
    }
    for (size_t i = 0; i < count; i++) {
        print_message("seed %" PRIu64 "\n", seeds[i]);
        unsigned found = 0, without_effect = 0;
        for (size_t at = 0; at < MUTATIONS; at++) {
            unsigned expected = run_one(seeds[i], at);
            found |= expected;
            without_effect += expected == 0 ? 1 : 0;
        }
        assert_int_equal(found, (1u << LQ_CHECKER_COUNT) - 1); /* every checker found something */
        assert_true(without_effect <= 3);                      /* nothing changed, and what the seed has not */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations_are_found_by_exactly_their_checkers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
