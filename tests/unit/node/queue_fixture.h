/* tests/unit/node/queue_fixture.h - a partition without a Raft group: a log in memory that takes proposals and gives
 * them back as committed entries when the test says so, a clock that is set by hand, and requests that count their
 * answers. */
#ifndef LQ_TESTS_QUEUE_FIXTURE_H
#define LQ_TESTS_QUEUE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/limits.h"
#include "client/base/log.h"
#include "node/queue/command.h"
#include "node/queue/partition.h"
#include "node/queue/partition_internal.h"

#define BATCH_BYTES 64

struct fake_clock {
    struct lq_clock clock;
    uint64_t wall_ms;
};

static inline uint64_t fake_monotonic_us(struct lq_clock *clock)
{
    return ((struct fake_clock *)clock)->wall_ms * 1000;
}

static inline uint64_t fake_wall_ms(struct lq_clock *clock)
{
    return ((struct fake_clock *)clock)->wall_ms;
}

static inline void fake_random(struct lq_clock *clock, void *out, size_t size)
{
    (void)clock;
    memset(out, 7, size);
}

/* xorshift64*: the tests print their seed. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return next_random(state) % bound;
}

struct log_entry {
    struct lq_entry entry;
    uint8_t *payload;
};

/* A log of one leader; entries [0, applied) were given to the machine. */
struct fake_log {
    struct log_entry *at;
    size_t count, capacity, applied;
    size_t window; /* entries proposed and not applied; above it EBUSY; 0: no bound */
    uint64_t term;
    lightq_status refuse; /* what submit answers, when not OK */
    unsigned woken;
};

static inline void log_push(struct fake_log *log, const struct lq_entry *entry, const struct iovec *iov, unsigned count)
{
    if (log->count == log->capacity) {
        log->capacity = log->capacity == 0 ? 64 : log->capacity * 2;
        log->at = realloc(log->at, log->capacity * sizeof *log->at);
        assert_non_null(log->at);
    }
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        size += iov[i].iov_len;
    }
    uint8_t *payload = malloc(size + 1);
    assert_non_null(payload);
    size_t at = 0;
    for (unsigned i = 0; i < count; i++) {
        memcpy(payload + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    struct log_entry *slot = &log->at[log->count++];
    *slot = (struct log_entry){.entry = *entry, .payload = payload};
    slot->entry.index = log->count;
    slot->entry.term = log->term;
    slot->entry.payload = payload;
    slot->entry.payload_size = (uint32_t)size;
}

static inline void log_barrier(struct fake_log *log)
{
    const struct lq_entry entry = {.type = LQ_ENTRY_BARRIER};
    log_push(log, &entry, NULL, 0);
}

static inline lightq_status fake_submit(void *owner, const struct lq_proposal *proposal, uint64_t *index)
{
    struct fake_log *log = owner;
    if (log->refuse != LIGHTQ_OK) {
        return log->refuse;
    }
    if (log->window != 0 && log->count - log->applied >= log->window) {
        return LIGHTQ_EBUSY;
    }
    const struct lq_entry entry = {.type = LQ_ENTRY_COMMAND,
                                   .base_offset = proposal->base_offset,
                                   .timestamp_ms = proposal->timestamp_ms,
                                   .message_count = proposal->message_count};
    log_push(log, &entry, proposal->payload, proposal->payload_count);
    *index = log->count;
    return LIGHTQ_OK;
}

/* The index of the entry that holds @offset, or would, as the real log finds it: also among entries not committed. */
static inline uint64_t fake_seek_offset(void *owner, uint64_t offset)
{
    const struct fake_log *log = owner;
    uint64_t index = 1;
    uint64_t end = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct lq_entry *entry = &log->at[i].entry;
        end = entry->type == LQ_ENTRY_COMMAND ? entry->base_offset + entry->message_count : end;
    }
    if (offset >= end) {
        return log->count + 1;
    }
    for (size_t i = 0; i < log->count; i++) {
        if (log->at[i].entry.type == LQ_ENTRY_COMMAND && log->at[i].entry.base_offset <= offset) {
            index = i + 1;
        }
    }
    return index;
}

static inline void fake_wake(void *owner, struct lq_partition *partition)
{
    (void)partition;
    ((struct fake_log *)owner)->woken++;
}

static const struct lq_partition_port fake_port = {
    .submit = fake_submit, .seek_offset = fake_seek_offset, .wake = fake_wake};

struct fixture {
    struct fake_clock clock;
    struct fake_log log;
    struct lq_partition *partition;
    struct lq_slab *slab;
};

static inline void fixture_partition(struct fixture *f, size_t producers_max, size_t waiting_max,
                                     uint64_t waiting_bytes_max)
{
    const struct lq_partition_options options = {.group = 7,
                                                 .self = 1,
                                                 .clock = &f->clock.clock,
                                                 .port = &fake_port,
                                                 .port_owner = &f->log,
                                                 .producers_max = producers_max,
                                                 .waiting_max = waiting_max,
                                                 .waiting_bytes_max = waiting_bytes_max};
    assert_int_equal(lq_partition_new(&options, &f->partition), LIGHTQ_OK);
}

static inline void fixture_init(struct fixture *f)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    *f = (struct fixture){
        .clock = {.clock = {.monotonic_us = fake_monotonic_us, .wall_ms = fake_wall_ms, .random = fake_random},
                  .wall_ms = 1000000}};
    f->slab = lq_slab_new(BATCH_BYTES);
    assert_non_null(f->slab);
    memset(f->slab->bytes, 0x5a, BATCH_BYTES);
    fixture_partition(f, 0, 0, 0);
}

static inline void fixture_deinit(struct fixture *f)
{
    lq_partition_free(f->partition);
    for (size_t i = 0; i < f->log.count; i++) {
        free(f->log.at[i].payload);
    }
    free(f->log.at);
    lq_slab_unref(f->slab);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture_deinit(*state);
    free(*state);
    return 0;
}

/* Commits and applies the next @count entries (or all there are). */
static inline void fixture_apply(struct fixture *f, size_t count)
{
    while (count-- > 0 && f->log.applied < f->log.count) {
        const struct lq_entry *entry = &f->log.at[f->log.applied++].entry;
        assert_int_equal(lq_partition_machine_ops.apply(f->partition, entry, NULL), LIGHTQ_OK);
    }
}

static inline void fixture_apply_all(struct fixture *f)
{
    fixture_apply(f, SIZE_MAX);
}

static inline void fixture_lead(struct fixture *f)
{
    f->log.term++;
    log_barrier(&f->log);
    fixture_apply_all(f);
    lq_partition_machine_ops.lead(f->partition, f->log.term);
}

/* Everything that wants a turn gets it. */
static inline void fixture_turn(struct fixture *f)
{
    do {
        lq_partition_turn(f->partition);
    } while (lq_partition_needs_turn(f->partition));
}

struct produced {
    struct lq_partition_request request;
    unsigned answers;
    lightq_status status;
};

static inline void on_produced(struct lq_partition_request *request, lightq_status status)
{
    struct produced *produced = request->data;
    produced->answers++;
    produced->status = status;
}

static inline void produced_init(struct fixture *f, struct produced *p, uint64_t producer, uint32_t epoch,
                                 uint64_t sequence, uint32_t count)
{
    *p = (struct produced){.request = {.slab = f->slab,
                                       .size = BATCH_BYTES,
                                       .batch_crc = (uint32_t)(producer * 31 + sequence),
                                       .message_count = count,
                                       .epoch = epoch,
                                       .producer_id = producer,
                                       .base_sequence = sequence,
                                       .expected_offset = LQ_OFFSET_ANY,
                                       .cb = on_produced,
                                       .data = p}};
}

static inline lightq_status produce(struct fixture *f, struct produced *p, uint64_t producer, uint32_t epoch,
                                    uint64_t sequence, uint32_t count)
{
    produced_init(f, p, producer, epoch, sequence, count);
    return lq_partition_produce(f->partition, &p->request);
}

/* The same for a batch that begins its epoch. */
static inline lightq_status produce_beginning(struct fixture *f, struct produced *p, uint64_t producer, uint32_t epoch,
                                              uint64_t sequence, uint32_t count)
{
    produced_init(f, p, producer, epoch, sequence, count);
    p->request.begins_epoch = true;
    return lq_partition_produce(f->partition, &p->request);
}

/* The bytes of the state; the caller frees. */
static inline struct lq_writer saved(struct lq_partition *partition)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    assert_int_equal(lq_partition_save(partition, &writer), LIGHTQ_OK);
    return writer;
}

static inline void assert_same_state(struct lq_partition *a, struct lq_partition *b)
{
    struct lq_writer of_a = saved(a);
    struct lq_writer of_b = saved(b);
    assert_int_equal(of_a.size, of_b.size);
    assert_memory_equal(of_a.bytes, of_b.bytes, of_a.size);
    lq_writer_deinit(&of_a);
    lq_writer_deinit(&of_b);
}

#endif
