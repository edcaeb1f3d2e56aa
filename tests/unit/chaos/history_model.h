/* tests/unit/chaos/history_model.h - a made-up cluster that keeps every promise, as a list of events that a test can
 * change before it is judged. */
#ifndef LQ_TESTS_HISTORY_MODEL_H
#define LQ_TESTS_HISTORY_MODEL_H

#include "chaos/check/history.h"

enum { MODEL_LOGS = 3, MODEL_PRODUCERS = 5, MODEL_NODES = 3 };

/* Readers by number: s reads everything and goes back by seeks, t begins anywhere, v and w share group g, f is final.
 */
enum model_reader { READER_S, READER_T, READER_V, READER_W, READER_F, MODEL_READERS };

enum event_kind {
    EVENT_NONE, /* taken out */
    EVENT_ATTEMPT,
    EVENT_OK,
    EVENT_FAILED,
    EVENT_UNKNOWN,
    EVENT_READ,
    EVENT_SEEK,
    EVENT_SETTLE,
    EVENT_DRAINED,
    EVENT_TRIM,
    EVENT_END,
    EVENT_LEADER,
    EVENT_DIGEST,
    EVENT_FAULT,
    EVENT_HEAL,
    EVENT_QUIET
};

struct event {
    uint64_t time_us;
    uint64_t sequence; /* of the message; number of the fault */
    uint64_t offset;   /* or end */
    uint64_t term;     /* or digest */
    uint32_t crc;
    uint32_t producer; /* MODEL_PRODUCERS: one that attempts nothing */
    uint32_t log;      /* or LQ_HISTORY_NONE */
    uint32_t reader;   /* or observer, or node */
    uint32_t node;     /* that leads */
    enum event_kind kind;
};

struct stored {
    uint64_t sequence;
    uint32_t producer, crc;
    bool acknowledged; /* with its offset */
};

struct model_log {
    struct stored *at; /* owned; by offset */
    uint64_t end, trim;
    uint64_t term;
    uint32_t leader;
};

struct model {
    struct event *events; /* owned */
    uint32_t count, capacity;
    struct model_log logs[MODEL_LOGS];
    uint64_t last_fault_us;
    uint64_t random; /* state */
};

/* About @messages messages, all from @seed. */
void model_init(struct model *model, uint64_t seed, uint32_t messages);
void model_deinit(struct model *model);
uint64_t model_random(struct model *model, uint64_t bound);
/* Adds @event behind all others. */
void model_add(struct model *model, struct event event);
/* Tells @history everything. */
void model_play(const struct model *model, struct lq_history *history);
/* The digest that every replica has of @log below @end. */
uint64_t model_digest(uint32_t log, uint64_t end);

#endif
