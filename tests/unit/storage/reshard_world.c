/* tests/unit/storage/reshard_world.c - see reshard_world.h. */
#include "reshard_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/reshard_plan.h"

#define NUMBER_NAME "number"

/* Groups are numbered from 0 on, and made the shard's when the history is run. The journal carries most, a log begins
 * with a checkpoint, one was replaced, one is no more, one was made anew; at the end a cut, an install, and entries
 * that only the journal has are under way. */
static const struct step HISTORY[] = {
    {.kind = STEP_CREATE, .group = 0},
    {.kind = STEP_CREATE, .group = 1},
    {.kind = STEP_CREATE, .group = 2},
    {.kind = STEP_CREATE, .group = 3},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 1, .size = 100},
    {.kind = STEP_VOTE_ALL, .term = 1},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 0, .count = 5, .term = 1, .size = 400},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 3, .term = 2, .size = 80},
    {.kind = STEP_CUT, .group = 1, .count = 3},
    {.kind = STEP_APPEND, .group = 1, .count = 2, .term = 3, .size = 60},
    {.kind = STEP_SETTLE},
    {.kind = STEP_CHECKPOINT, .group = 0},
    {.kind = STEP_SETTLE},
    {.kind = STEP_INSTALL, .group = 2, .count = 5},
    {.kind = STEP_TRIM, .group = 0},
    {.kind = STEP_DESTROY, .group = 3},
    {.kind = STEP_SETTLE},
    {.kind = STEP_VOTE_ALL, .term = 6},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 6, .size = 50},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND_ALL, .count = 2, .term = 6, .size = 50},
    {.kind = STEP_CUT, .group = 1, .count = 2},
    {.kind = STEP_INSTALL, .group = 2, .count = 4},
    {.kind = STEP_FLUSH},
    {.kind = STEP_VOTE_ALL, .term = 7},
    {.kind = STEP_FLUSH},
    {.kind = STEP_APPEND, .group = 0, .count = 2, .term = 7, .size = 30},
    {.kind = STEP_STEPS, .count = 3},
};

void world_init(struct world *world, struct fixture *f, unsigned shards)
{
    *world = (struct world){.f = f, .shards = shards};
    f->options = (struct lq_store_options){.dir = "",
                                           .cluster = {.bytes = {9}},
                                           .segment_bytes = 2048,
                                           .journal_bytes = 16384,
                                           .cache_bytes = 4096,
                                           .index_stride = 512};
    for (unsigned i = 0; i < shards; i++) {
        model_init(&world->models[i], f);
    }
}

void world_deinit(struct world *world)
{
    for (unsigned i = 0; i < world->shards; i++) {
        model_deinit(&world->models[i]);
    }
}

static lightq_status note(void *owner, unsigned shards, struct lq_err *err)
{
    struct world *world = owner;
    const uint8_t byte = (uint8_t)shards;
    return lq_reshard_write_file(lq_io_mem_io(world->f->mem), "", NUMBER_NAME ".tmp", NUMBER_NAME, &byte, 1, err);
}

void world_note(struct world *world, unsigned shards)
{
    assert_int_equal(note(world, shards, &world->f->err), LIGHTQ_OK);
}

unsigned world_number(struct world *world)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(lq_io_mem_read_file(world->f->mem, NUMBER_NAME, &bytes, &size), LIGHTQ_OK);
    assert_int_equal(size, 1);
    unsigned number = bytes[0];
    free(bytes);
    return number;
}

static void use_shard(struct world *world, unsigned i, unsigned shards)
{
    lq_shard_dir(world->dir, i);
    world->f->options.dir = world->dir;
    world->f->options.shard = i;
    world->f->options.shards = shards;
}

void world_make(struct world *world, unsigned i, unsigned shards)
{
    use_shard(world, i, shards);
    world->f->options.must_exist = false;
    fixture_open(world->f);
}

void world_build(struct world *world)
{
    struct fixture *f = world->f;
    for (unsigned i = 0; i < world->shards; i++) {
        struct step steps[sizeof HISTORY / sizeof HISTORY[0]];
        memcpy(steps, HISTORY, sizeof steps);
        for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
            steps[k].group = steps[k].group * world->shards + i;
        }
        world_make(world, i, world->shards);
        model_run(&world->models[i], steps, sizeof steps / sizeof steps[0]);
        lq_store_abandon(f->store);
        f->store = NULL;
        lq_io_mem_kill(f->mem);
    }
    world_note(world, world->shards);
}

lightq_status world_reshard(struct world *world, unsigned to)
{
    struct fixture *f = world->f;
    struct lq_reshard_options options = {.store = f->options, .from = world_number(world), .to = to};
    options.store.must_exist = true;
    f->err = (struct lq_err){.text = ""};
    return lq_reshard_run(lq_io_mem_io(f->mem), &f->clock.clock, &options, note, world, &f->err);
}

void world_open(struct world *world, unsigned i, unsigned shards)
{
    use_shard(world, i, shards);
    world->f->options.must_exist = true;
    fixture_open(world->f);
}

/* A group that is no more must not be made again as it was. */
static void check_known(struct world *world, const struct model_group *group)
{
    uint32_t incarnation = 0;
    if (group->now.incarnation == 0 || group->alt_count > 0 || group->now.may_be_absent) {
        return;
    }
    assert_true(lq_store_knows(world->f->store, group->group, &incarnation));
    assert_true(incarnation >= group->now.incarnation);
}

static void check_store(struct world *world, unsigned i, unsigned shards)
{
    for (unsigned g = 0; g < world->shards * WORLD_GROUPS; g++) {
        struct model *model = &world->models[g % world->shards];
        if (g % shards == i) {
            model_check_group(model, g);
            check_known(world, &model->groups[g]);
        } else {
            assert_null(lq_store_find(world->f->store, g));
        }
    }
}

/* What goes on is no part of the models. */
static void go_on(struct world *world)
{
    struct fixture *f = world->f;
    for (size_t i = 0; i < lq_store_count(f->store); i++) {
        struct lq_rlog *log = lq_store_at(f->store, i);
        lq_rlog_set_events(log, NULL, NULL);
        uint64_t term = lq_rlog_term_at(log, lq_rlog_last(log)) + 1;
        assert_int_equal(append(log, 2, term, 40), LIGHTQ_OK);
        (void)lq_rlog_set_vote(log, term + 10, 77);
    }
    fixture_settle(f);
}

static void check_gone_on(struct world *world)
{
    struct fixture *f = world->f;
    for (size_t i = 0; i < lq_store_count(f->store); i++) {
        struct lq_rlog *log = lq_store_at(f->store, i);
        uint64_t term = 0;
        uint64_t voted_for = 0;
        lq_rlog_vote(log, &term, &voted_for);
        assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
        assert_int_equal(voted_for, 77);
        assert_int_equal(term, lq_rlog_term_at(log, lq_rlog_last(log)) + 10);
        check_log(f, log);
    }
}

void world_check(struct world *world)
{
    struct fixture *f = world->f;
    unsigned shards = world_number(world);
    size_t counts[LQ_SHARDS_MAX] = {0};
    assert_false(lq_io_mem_exists(f->mem, LQ_RESHARD_NAME));
    for (unsigned i = 0; i < shards; i++) {
        world_open(world, i, shards);
        check_store(world, i, shards);
        go_on(world);
        counts[i] = lq_store_count(f->store);
        lq_store_abandon(f->store);
        f->store = NULL;
        lq_io_mem_kill(f->mem);
    }
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    for (unsigned i = 0; i < shards; i++) {
        world_open(world, i, shards);
        assert_int_equal(lq_store_count(f->store), counts[i]);
        check_gone_on(world);
        fixture_close(f);
    }
}
