/* tests/unit/storage/dump_world.c - see dump_world.h. */
#include "dump_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TURN_US       5000
#define PAYLOAD_BYTES 300
#define STATE_BYTES   100

static uint64_t on_monotonic(struct lq_clock *clock)
{
    return ((struct dump_world *)clock)->now_us;
}

static uint64_t on_wall(struct lq_clock *clock)
{
    return 1700000000000 + ((struct dump_world *)clock)->now_us / 1000;
}

static void on_random(struct lq_clock *clock, void *out, size_t size)
{
    struct dump_world *world = (struct dump_world *)clock;
    for (size_t i = 0; i < size; i++) {
        world->random = world->random * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(world->random >> 56);
    }
}

struct dump_world *dump_world_new_on(struct lq_io *io, size_t (*run)(struct dump_world *world), void *data)
{
    struct dump_world *world = calloc(1, sizeof *world);
    assert(world != NULL);
    world->clock = (struct lq_clock){.monotonic_us = on_monotonic, .wall_ms = on_wall, .random = on_random};
    world->now_us = 1000000;
    world->random = 42;
    world->io = io;
    world->run = run;
    world->data = data;
    return world;
}

static size_t run_mem(struct dump_world *world)
{
    return lq_io_mem_run_all(world->mem);
}

struct dump_world *dump_world_new(void)
{
    struct lq_io_mem *mem = lq_io_mem_new();
    assert(mem != NULL);
    struct dump_world *world = dump_world_new_on(lq_io_mem_io(mem), run_mem, NULL);
    world->mem = mem;
    return world;
}

void dump_world_free(struct dump_world *world)
{
    dump_world_abandon(world);
    lq_io_mem_free(world->mem);
    free(world);
}

lightq_status dump_world_open(struct dump_world *world)
{
    const struct lq_store_options options = {
        .dir = world->dir != NULL ? world->dir : "",
        .cluster = {.bytes = "cluster of tests"},
        .segment_bytes = 4096,
        .journal_bytes = 6000,
        .cache_bytes = 65536,
        .index_stride = 512,
        .sync_files_max = 1,
        .journal_payload_max = 2048,
    };
    return lq_store_open(world->io, &world->clock, &options, &world->store, &world->err);
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

void dump_world_close(struct dump_world *world)
{
    bool is_closed = false;
    lq_store_close(world->store, on_closed, &is_closed);
    while (!is_closed) {
        size_t count = world->run(world);
        assert(count > 0 || is_closed);
    }
    world->store = NULL;
}

void dump_world_abandon(struct dump_world *world)
{
    if (world->store != NULL) {
        lq_store_abandon(world->store);
        world->store = NULL;
    }
}

/* ---- the workload ---- */

static void turn(struct dump_world *world)
{
    for (unsigned i = 0; i < 8; i++) {
        lq_store_flush(world->store);
        if (world->run(world) == 0 && lq_store_idle(world->store)) {
            break;
        }
    }
    world->now_us += TURN_US;
}

static void checkpoint(struct lq_rlog *log, uint64_t last_index, uint64_t next_offset)
{
    uint8_t state[STATE_BYTES];
    memset(state, 0x5a, sizeof state);
    const struct lq_checkpoint made = {
        .last_index = last_index,
        .last_term = lq_rlog_term_at(log, last_index),
        .next_offset = next_offset,
        .timestamp_ms = 1000 + last_index,
        .configuration_index = 1,
        .configuration = (const uint8_t *)"servers",
        .configuration_size = 7,
        .state = state,
        .state_size = sizeof state,
    };
    (void)!lq_rlog_checkpoint(log, &made);
}

/* One entry after the last one; each holds one message. */
static void append(struct lq_rlog *log, uint64_t term, size_t size)
{
    uint64_t index = lq_rlog_last(log) + 1;
    struct lq_slab *slab = lq_slab_new((size_t)lq_entry_size(size));
    assert(slab != NULL);
    for (size_t i = 0; i < size; i++) {
        slab->bytes[LQ_ENTRY_HEADER_BYTES + i] = (uint8_t)(1 + (index + i) % 255); /* no zeros */
    }
    const struct lq_entry entry = {
        .group = lq_rlog_group(log),
        .index = index,
        .term = term,
        .prev_term = lq_rlog_term_at(log, index - 1),
        .base_offset = index - 1,
        .timestamp_ms = 1000 + index,
        .commit_index = index - 1,
        .type = index == 1 ? LQ_ENTRY_CHANGE : LQ_ENTRY_COMMAND,
        .message_count = 1,
        .payload_size = (uint32_t)size,
    };
    lq_entry_seal(slab->bytes, &entry);
    const struct lq_entry_ref ref = {.slab = slab, .offset = 0, .size = (uint32_t)lq_entry_size(size)};
    (void)!lq_rlog_append(log, &ref, 1);
    lq_slab_unref(slab);
}

static void checkpoint_borders(struct lq_rlog *log)
{
    for (uint64_t index = lq_rlog_first(log) + 1; index <= lq_rlog_durable(log); index++) {
        if (lq_rlog_wants_checkpoint(log, index)) {
            checkpoint(log, index - 1, index - 1);
        }
    }
}

static void trim(struct lq_rlog *log, uint64_t index)
{
    struct lq_checkpoint found;
    uint64_t point = lq_rlog_trim_point(log, index, &found);
    if (point > 0) {
        (void)!lq_rlog_trim(log, point);
    }
}

static void install(struct lq_rlog *log, uint64_t last_index, uint64_t term)
{
    const struct lq_checkpoint made = {
        .last_index = last_index,
        .last_term = term,
        .next_offset = last_index,
        .timestamp_ms = 1000 + last_index,
        .configuration_index = 1,
        .configuration = (const uint8_t *)"servers",
        .configuration_size = 7,
        .state = (const uint8_t *)"state of the leader",
        .state_size = 19,
    };
    (void)!lq_rlog_install(log, &made);
}

static void fill(struct dump_world *world, struct lq_rlog *const *logs, size_t count, unsigned rounds, uint64_t term,
                 size_t size)
{
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            append(logs[i], term, size + i);
        }
        turn(world);
        for (size_t i = 0; i < count; i++) {
            checkpoint_borders(logs[i]);
        }
    }
}

void dump_world_work(struct dump_world *world)
{
    struct lq_rlog *logs[4];
    for (size_t i = 0; i < 4; i++) {
        if (lq_rlog_create(world->store, 7 + i, 1, &logs[i], &world->err) != LIGHTQ_OK) {
            return;
        }
        (void)lq_rlog_set_vote(logs[i], 1, 1);
    }
    fill(world, logs, 4, 3, 1, PAYLOAD_BYTES);  /* many groups: the journal */
    fill(world, logs, 1, 14, 1, PAYLOAD_BYTES); /* one group: its segments, which roll */
    (void)lq_rlog_set_vote(logs[1], 3, 2);
    (void)!lq_rlog_cut(logs[1], 2);
    turn(world);
    turn(world);
    fill(world, logs, 3, 2, 3, PAYLOAD_BYTES);
    trim(logs[0], lq_rlog_last(logs[0]));
    turn(world);
    install(logs[2], 100, 3);
    turn(world);
    turn(world);
    lq_rlog_destroy(logs[3]);
    turn(world);
    fill(world, logs, 3, 3, 4, PAYLOAD_BYTES);
}

/* ---- judging ---- */

uint64_t dump_world_verify(struct dump_world *world, char **text, struct lq_dump_verdict *verdict)
{
    char *printed = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&printed, &size);
    assert(out != NULL);
    uint64_t changes = lq_io_mem_changes(world->mem);
    lightq_status status = lq_dump(world->io, true, out, verdict, &world->err);
    fclose(out);
    assert(status == LIGHTQ_OK || status == LIGHTQ_ENOTFOUND || verdict->damaged > 0);
    assert(lq_io_mem_changes(world->mem) == changes);
    assert(lq_io_mem_open_files(world->mem) == 0);
    if (text != NULL) {
        *text = printed;
    } else {
        free(printed);
    }
    return verdict->damaged;
}

bool dump_world_is_healthy(struct dump_world *world)
{
    if (dump_world_open(world) != LIGHTQ_OK) {
        return false;
    }
    bool is_healthy = true;
    for (size_t i = 0; i < lq_store_count(world->store); i++) {
        is_healthy = is_healthy && lq_rlog_health(lq_store_at(world->store, i)) == LQ_RLOG_HEALTHY;
    }
    dump_world_close(world);
    return is_healthy;
}
