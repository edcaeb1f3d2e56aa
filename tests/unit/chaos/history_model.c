/* tests/unit/chaos/history_model.c - see history_model.h. */
#include "history_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "check_fixture.h"

enum { FAULTS = 8, READERS_GO_BACK = 200, DIGESTS = 40 };

static const char *const reader_names[] = {"s", "t", "v", "w", "f"};

uint64_t model_random(struct model *model, uint64_t bound)
{
    model->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = model->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
}

void model_add(struct model *model, struct event event)
{
    assert_int_equal(lq_array_reserve((void **)&model->events, &model->capacity, model->count, sizeof *model->events),
                     LIGHTQ_OK);
    model->events[model->count++] = event;
}

uint64_t model_digest(uint32_t log, uint64_t end)
{
    return lq_check_index_hash(log, end);
}

/* All nodes learn of the leader of @log, one after the other. */
static void tell_leader(struct model *model, uint32_t log, uint64_t time_us)
{
    for (uint32_t node = 0; node < MODEL_NODES; node++) {
        model_add(model, (struct event){.kind = EVENT_LEADER,
                                        .time_us = time_us + node,
                                        .reader = node,
                                        .log = log,
                                        .term = model->logs[log].term,
                                        .node = model->logs[log].leader});
    }
}

/* A leader is killed and comes back; another one leads in a higher term. */
static void add_fault(struct model *model, uint64_t number, uint64_t time_us)
{
    uint32_t log = (uint32_t)(number % MODEL_LOGS);
    model_add(model, (struct event){.kind = EVENT_FAULT, .time_us = time_us, .sequence = number});
    model_add(model, (struct event){.kind = EVENT_HEAL, .time_us = time_us + 3, .sequence = number});
    model->logs[log].term += 1 + model_random(model, 2);
    model->logs[log].leader = (model->logs[log].leader + 1) % MODEL_NODES;
    tell_leader(model, log, time_us + 1);
    model->last_fault_us = time_us;
}

static void store(struct model *model, uint32_t log, struct stored stored)
{
    model->logs[log].at[model->logs[log].end++] = stored;
}

/* One attempt with its outcome; @surely: acknowledged with its offset. */
static void add_attempt(struct model *model, uint32_t log, uint32_t producer, uint64_t sequence, uint64_t time_us,
                        bool surely)
{
    struct model_log *to = &model->logs[log];
    struct event event = {.kind = EVENT_ATTEMPT,
                          .time_us = time_us,
                          .producer = producer,
                          .sequence = sequence,
                          .log = producer % 2 == 0 ? log : LQ_HISTORY_NONE,
                          .crc = (uint32_t)model_random(model, UINT32_MAX)};
    uint64_t fate = surely ? 50 : model_random(model, 100);
    struct stored stored = {.sequence = sequence, .producer = producer, .crc = event.crc, .acknowledged = fate >= 10};
    model_add(model, event);
    event.time_us += 1 + model_random(model, 50);
    event.log = log;
    event.term = to->term;
    event.offset = to->end;
    if (fate < 2) {
        event.kind = EVENT_FAILED;
    } else if (fate < 4) {
        event.kind = EVENT_UNKNOWN; /* and not stored */
    } else if (fate < 6) {
        event.kind = EVENT_UNKNOWN;
        store(model, log, stored);
    } else if (fate < 10) {
        event.kind = EVENT_OK;
        event.offset = LQ_HISTORY_UNKNOWN;
        store(model, log, stored);
    } else {
        event.kind = EVENT_OK;
        store(model, log, stored);
    }
    if (fate != 2) { /* fate 2: never told at all */
        model_add(model, event);
    }
}

static uint64_t add_attempts(struct model *model, uint32_t messages)
{
    uint64_t sequences[MODEL_PRODUCERS] = {0};
    uint64_t time_us = 1000, fault = 0;
    for (uint32_t log = 0; log < MODEL_LOGS; log++) {
        model->logs[log].at = calloc(messages + 1, sizeof(struct stored));
        assert_non_null(model->logs[log].at);
        model->logs[log].term = 1 + model_random(model, 3);
        tell_leader(model, log, 1);
    }
    for (uint32_t i = 0; i < messages; i++) {
        bool last = i >= messages - MODEL_LOGS;
        uint32_t log = last ? i % MODEL_LOGS : (uint32_t)model_random(model, MODEL_LOGS);
        uint32_t producer = (uint32_t)model_random(model, MODEL_PRODUCERS);
        if (i == (fault + 1) * (messages / (FAULTS + 2)) && fault < FAULTS) {
            add_fault(model, fault++, time_us);
        }
        add_attempt(model, log, producer, sequences[producer]++, time_us, last);
        time_us += 1 + model_random(model, 5);
    }
    return time_us + 100;
}

static void add_read(struct model *model, uint32_t reader, uint32_t log, uint64_t offset, uint64_t time_us)
{
    const struct stored *stored = &model->logs[log].at[offset];
    model_add(model, (struct event){.kind = EVENT_READ,
                                    .time_us = time_us,
                                    .reader = reader,
                                    .log = log,
                                    .offset = offset,
                                    .producer = stored->producer,
                                    .sequence = stored->sequence,
                                    .crc = stored->crc});
}

static void add_seek(struct model *model, uint32_t reader, uint32_t log, uint64_t offset, uint64_t time_us)
{
    model_add(model,
              (struct event){.kind = EVENT_SEEK, .time_us = time_us, .reader = reader, .log = log, .offset = offset});
}

/* s reads everything and now and then a stretch again; t reads from somewhere, told or not. */
static void add_subscribers(struct model *model, uint32_t log, uint64_t time_us)
{
    uint64_t end = model->logs[log].end;
    for (uint64_t at = 0; at < end; at++) {
        add_read(model, READER_S, log, at, time_us);
        if (at > 20 && model_random(model, READERS_GO_BACK) == 0) {
            at -= 1 + model_random(model, 20);
            add_seek(model, READER_S, log, at + 1, time_us);
        }
    }
    uint64_t from = model_random(model, end);
    if (model_random(model, 2) == 0) {
        add_seek(model, READER_T, log, from, time_us);
    }
    for (uint64_t at = from; at < end; at++) {
        add_read(model, READER_T, log, at, time_us);
    }
}

/* v and w take turns, and some messages come again, confirmed or not. */
static void add_group(struct model *model, uint32_t log, uint64_t time_us)
{
    for (uint64_t at = 0; at < model->logs[log].end; at++) {
        do {
            uint32_t reader = READER_V + (uint32_t)model_random(model, 2);
            add_read(model, reader, log, at, time_us);
            model_add(model,
                      (struct event){
                          .kind = EVENT_SETTLE, .time_us = time_us + 1, .reader = reader, .log = log, .offset = at});
        } while (model_random(model, 20) == 0);
    }
    model_add(model, (struct event){
                         .kind = EVENT_DRAINED, .time_us = time_us + 2, .log = log, .offset = model->logs[log].end});
}

/* The first log is trimmed; the final reader begins there. */
static void add_final(struct model *model, uint32_t log, uint64_t time_us)
{
    struct model_log *of = &model->logs[log];
    if (log == 0) {
        of->trim = 1 + model_random(model, of->end / 2);
        model_add(model, (struct event){.kind = EVENT_TRIM, .time_us = time_us, .log = log, .offset = of->trim});
    }
    for (uint64_t at = of->trim; at < of->end; at++) {
        add_read(model, READER_F, log, at, time_us);
    }
    model_add(model, (struct event){.kind = EVENT_END, .time_us = time_us, .log = log, .offset = of->end});
}

static void add_digest(struct model *model, uint32_t log, uint32_t node, uint64_t end, uint64_t time_us)
{
    model_add(model, (struct event){.kind = EVENT_DIGEST,
                                    .time_us = time_us,
                                    .log = log,
                                    .reader = node,
                                    .offset = end,
                                    .term = model_digest(log, end)});
}

void model_init(struct model *model, uint64_t seed, uint32_t messages)
{
    *model = (struct model){.random = seed};
    uint64_t time_us = add_attempts(model, messages);
    for (uint32_t log = 0; log < MODEL_LOGS; log++) {
        add_subscribers(model, log, time_us);
        add_group(model, log, time_us);
        add_final(model, log, time_us);
        for (int i = 0; i < DIGESTS; i++) {
            uint64_t end = model_random(model, 10);
            add_digest(model, log, (uint32_t)model_random(model, MODEL_NODES), end, time_us);
        }
    }
    model_add(model, (struct event){.kind = EVENT_QUIET, .time_us = time_us + 1});
    for (uint32_t i = 0; i < MODEL_LOGS * MODEL_NODES; i++) {
        add_digest(model, i / MODEL_NODES, i % MODEL_NODES, model->logs[i / MODEL_NODES].end, time_us + 2);
    }
}

void model_deinit(struct model *model)
{
    for (uint32_t log = 0; log < MODEL_LOGS; log++) {
        free(model->logs[log].at);
    }
    free(model->events);
}

/* ---- telling it to a history */

struct player {
    struct lq_history *history;
    uint32_t producers[MODEL_PRODUCERS + 1], logs[MODEL_LOGS], nodes[MODEL_NODES], readers[MODEL_READERS];
    uint32_t group;
    struct lq_err err;
};

static void player_init(struct player *player, struct lq_history *history)
{
    struct lq_err *err = &player->err;
    char name[16];
    *player = (struct player){.history = history};
    for (uint32_t i = 0; i <= MODEL_PRODUCERS; i++) {
        snprintf(name, sizeof name, "p%u", i);
        assert_int_equal(lq_history_producer(history, lq_word_of(name), &player->producers[i], err), LIGHTQ_OK);
    }
    for (uint32_t i = 0; i < MODEL_LOGS; i++) {
        assert_int_equal(lq_history_log(history, "topic", i, &player->logs[i], err), LIGHTQ_OK);
    }
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        snprintf(name, sizeof name, "n%u", i + 1);
        assert_int_equal(lq_history_node(history, lq_word_of(name), &player->nodes[i], err), LIGHTQ_OK);
    }
    assert_int_equal(lq_history_group(history, lq_word_of("g"), &player->group, err), LIGHTQ_OK);
    for (uint32_t i = 0; i < MODEL_READERS; i++) {
        bool shares = i == READER_V || i == READER_W;
        enum lq_reader_kind kind = shares ? LQ_READER_PIPELINE : i == READER_F ? LQ_READER_FINAL : LQ_READER_SUBSCRIBER;
        assert_int_equal(lq_history_reader(history, lq_word_of(reader_names[i]), kind,
                                           shares ? player->group : LQ_HISTORY_NONE, &player->readers[i], err),
                         LIGHTQ_OK);
    }
}

static lightq_status play_producing(struct player *player, const struct event *event)
{
    struct lq_history *history = player->history;
    uint32_t producer = player->producers[event->producer];
    uint32_t log = event->log == LQ_HISTORY_NONE ? LQ_HISTORY_NONE : player->logs[event->log];
    switch (event->kind) {
    case EVENT_ATTEMPT:
        return lq_history_attempt(history, event->time_us, producer, event->sequence, log, &event->crc, &player->err);
    case EVENT_OK:
        return lq_history_ok(history, event->time_us, producer, event->sequence, log, event->offset, event->term,
                             &player->err);
    case EVENT_FAILED:
        return lq_history_not_ok(history, event->time_us, producer, event->sequence, LQ_OUTCOME_FAILED, &player->err);
    default:
        return lq_history_not_ok(history, event->time_us, producer, event->sequence, LQ_OUTCOME_UNKNOWN, &player->err);
    }
}

static lightq_status play_consuming(struct player *player, const struct event *event)
{
    struct lq_history *history = player->history;
    uint32_t reader = player->readers[event->reader], log = player->logs[event->log];
    switch (event->kind) {
    case EVENT_READ:
        return lq_history_read(history, event->time_us, reader, log, event->offset, player->producers[event->producer],
                               event->sequence, event->crc, &player->err);
    case EVENT_SEEK:
        return lq_history_seek(history, event->time_us, reader, log, event->offset, &player->err);
    case EVENT_SETTLE:
        return lq_history_settle(history, event->time_us, reader, log, event->offset, LQ_VERDICT_ACK, LQ_OUTCOME_OK,
                                 &player->err);
    default:
        return lq_history_drained(history, event->time_us, player->group, log, 0, event->offset, &player->err);
    }
}

static lightq_status play_cluster(struct player *player, const struct event *event)
{
    struct lq_history *history = player->history;
    uint32_t log = player->logs[event->log], node = player->nodes[event->reader];
    char name[16];
    snprintf(name, sizeof name, "fault-%u", (unsigned)event->sequence);
    switch (event->kind) {
    case EVENT_TRIM:
        return lq_history_trim(history, event->time_us, log, event->offset, &player->err);
    case EVENT_END:
        return lq_history_end(history, event->time_us, log, event->offset, &player->err);
    case EVENT_LEADER:
        return lq_history_leader(history, event->time_us, node, log, event->term, player->nodes[event->node],
                                 &player->err);
    case EVENT_DIGEST:
        return lq_history_digest(history, event->time_us, log, node, event->offset, event->term, &player->err);
    case EVENT_FAULT:
        return lq_history_fault(history, event->time_us, lq_word_of(name), LQ_FAULT_MINORITY, lq_word_of("kill"),
                                &player->err);
    case EVENT_HEAL:
        return lq_history_heal(history, event->time_us, lq_word_of(name), &player->err);
    default:
        return lq_history_quiet(history, event->time_us, &player->err);
    }
}

void model_play(const struct model *model, struct lq_history *history)
{
    struct player player;
    player_init(&player, history);
    for (uint32_t i = 0; i < model->count; i++) {
        const struct event *event = &model->events[i];
        lightq_status status = LIGHTQ_OK;
        if (event->kind >= EVENT_TRIM) {
            status = play_cluster(&player, event);
        } else if (event->kind >= EVENT_READ) {
            status = play_consuming(&player, event);
        } else if (event->kind != EVENT_NONE) {
            status = play_producing(&player, event);
        }
        if (status != LIGHTQ_OK) {
            fail_msg("event %u: %s", i, player.err.text);
        }
    }
}
