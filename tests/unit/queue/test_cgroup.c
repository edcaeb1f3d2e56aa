/* test_cgroup.c - consumer groups of a partition (node/queue/cgroup*.c and what they stand on) under random histories,
 * against a slow model that remembers every message; that two replicas are the same byte by byte, one of them restarted
 * from checkpoints; and what is refused. Every command goes through its encoding. */
#include "client/base/crc.h"
#include "node/queue/state.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/node/queue_fixture.h"

#define OFFSETS 3000
#define GROUPS  4
#define STEPS   4000

static const char *const names[GROUPS] = {"a", "orders.eu", "p-2", "Z"};

/* ---- the model */

struct model_message {
    bool settled, dead;
    uint32_t failed, delay_ms;
    uint64_t not_before_ms;
};

struct model_letter {
    uint64_t offset;
    uint32_t failed;
};

struct model {
    bool is_there;
    uint64_t number, generation;
    struct lq_cgroup_options options;
    uint64_t position; /* of a subscriber group */
    struct model_message at[OFFSETS];
    struct model_letter letters[OFFSETS * 4];
    uint64_t letters_done, letters_next;
    uint32_t epoch;
    uint64_t missed;
};

struct world {
    struct lq_queue_state states[2];
    struct model models[GROUPS];
    uint64_t random;
    uint64_t index, now_ms, start, end;
    struct lq_cgroup_result result; /* of the last command */
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

static void apply_bytes(struct world *world, const struct lq_writer *writer, uint32_t messages)
{
    const struct lq_entry entry = {.index = ++world->index,
                                   .term = 1,
                                   .base_offset = world->end,
                                   .timestamp_ms = world->now_ms,
                                   .type = LQ_ENTRY_COMMAND,
                                   .message_count = messages,
                                   .payload_size = (uint32_t)writer->size,
                                   .payload = writer->bytes};
    struct lq_command decoded;
    struct lq_err err;
    for (unsigned i = 0; i < 2; i++) {
        memset(&world->states[i].outcome, 0, sizeof world->states[i].outcome);
        assert_int_equal(lq_queue_state_apply(&world->states[i], &entry, &decoded, &err), LIGHTQ_OK);
    }
    assert_memory_equal(&world->states[0].outcome, &world->states[1].outcome, sizeof world->result);
    world->result = world->states[0].outcome;
}

static void apply(struct world *world, const struct lq_command *command, uint32_t messages)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_SETTLE_BYTES_MAX);
    lq_command_encode(command, &writer);
    if (command->type == LQ_COMMAND_APPEND) {
        lq_write_u8(&writer, 1); /* a batch of one byte: nobody reads it */
    }
    assert_int_equal(writer.status, LIGHTQ_OK);
    apply_bytes(world, &writer, messages);
    lq_writer_deinit(&writer);
}

static void append(struct world *world, uint32_t count)
{
    const struct lq_command command = {.type = LQ_COMMAND_APPEND, .append = {.expected_offset = LQ_OFFSET_ANY}};
    count = world->end + count < OFFSETS ? count : (uint32_t)(OFFSETS - world->end);
    if (count > 0) {
        apply(world, &command, count);
        world->end += count;
    }
}

/* ---- what the model says */

static uint64_t model_floor(const struct world *world, const struct model *model)
{
    uint64_t floor = model->position;
    if (model->options.mode == LQ_CGROUP_PIPELINE) {
        for (floor = 0; floor < world->end && model->at[floor].settled;) {
            floor++;
        }
    }
    return floor;
}

static void model_begin(struct model *model, uint64_t position, uint64_t generation)
{
    memset(model->at, 0, sizeof model->at);
    for (uint64_t offset = 0; offset < position; offset++) {
        model->at[offset].settled = true;
    }
    model->position = position;
    model->generation = generation;
}

static void model_settle(struct model *model, uint64_t offset)
{
    model->at[offset] = (struct model_message){.settled = true};
}

static void model_fail(struct world *world, struct model *model, const struct lq_settle_failure *failure)
{
    struct model_message *at = &model->at[failure->offset];
    if (at->settled || at->dead || failure->delivery != at->failed + 1) {
        return;
    }
    uint32_t backoff = model->options.backoff_count;
    uint32_t place = at->failed < backoff ? at->failed : backoff - 1;
    at->delay_ms = failure->delay_ms != LQ_SETTLE_DELAY_DEFAULT ? failure->delay_ms
                   : backoff == 0                               ? 0
                                                                : model->options.backoff_ms[place];
    at->not_before_ms = world->now_ms + at->delay_ms;
    at->failed++;
    at->dead = failure->reason == LQ_FAILURE_REJECTED ||
               (model->options.max_deliver != 0 && at->failed >= model->options.max_deliver);
    if (at->dead) {
        model->letters[model->letters_next++] = (struct model_letter){.offset = failure->offset, .failed = at->failed};
    }
}

static void assert_message_like_model(const struct lq_cgroup *cgroup, const struct model *model, uint64_t offset)
{
    const struct model_message *at = &model->at[offset];
    const struct lq_failure *failure = lq_failures_find(&cgroup->failures, offset);
    assert_int_equal(lq_settled_has(&cgroup->settled, offset), at->settled);
    assert_int_equal(lq_cgroup_failed(cgroup, offset), at->failed);
    assert_int_equal(failure != NULL, at->failed > 0);
    if (failure != NULL) {
        assert_int_equal(failure->dead, at->dead);
        assert_int_equal(failure->delay_ms, at->delay_ms);
        assert_int_equal(failure->not_before_ms, at->not_before_ms);
    }
}

static void assert_like_model(struct world *world)
{
    uint64_t clamp = UINT64_MAX;
    uint64_t interest = world->end;
    uint64_t workqueue = UINT64_MAX;
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct model *model = &world->models[i];
        const struct lq_cgroups *cgroups = &world->states[0].cgroups;
        const struct lq_cgroup *cgroup = lq_cgroups_find_name(cgroups, names[i], strlen(names[i]));
        assert_int_equal(cgroup != NULL, model->is_there);
        if (cgroup == NULL) {
            continue;
        }
        uint64_t floor = model_floor(world, model);
        assert_ptr_equal(cgroup, lq_cgroups_find(cgroups, model->number));
        assert_int_equal(cgroup->generation, model->generation);
        assert_int_equal(cgroup->settled.floor, floor);
        assert_int_equal(cgroup->missed_count, model->missed);
        assert_int_equal(cgroup->dead.done, model->letters_done);
        assert_int_equal(cgroup->dead.next, model->letters_next);
        interest = floor < interest ? floor : interest;
        workqueue = model->options.mode == LQ_CGROUP_PIPELINE && floor < workqueue ? floor : workqueue;
        for (uint64_t number = model->letters_done; number < model->letters_next; number++) {
            const struct lq_dead_letter *letter = lq_dead_letters_at(&cgroup->dead, number);
            assert_int_equal(letter->offset, model->letters[number].offset);
            assert_int_equal(letter->count, model->letters[number].failed);
            clamp = letter->offset < clamp ? letter->offset : clamp;
        }
        for (unsigned n = 0; n < 20 && model->options.mode == LQ_CGROUP_PIPELINE; n++) {
            assert_message_like_model(cgroup, model, below(world, world->end + 1 < OFFSETS ? world->end + 1 : OFFSETS));
        }
    }
    assert_int_equal(lq_cgroups_clamp_trim(&world->states[0].cgroups, UINT64_MAX), clamp);
    const struct lq_cgroups *all = &world->states[0].cgroups;
    assert_int_equal(lq_cgroups_needed(all, LQ_RETENTION_LIMITS, world->end), 0);
    assert_int_equal(lq_cgroups_needed(all, LQ_RETENTION_INTEREST, world->end), interest);
    workqueue = workqueue == UINT64_MAX ? 0 : workqueue < world->end ? workqueue : world->end;
    assert_int_equal(lq_cgroups_needed(all, LQ_RETENTION_WORKQUEUE, world->end), workqueue);
    assert_int_equal(world->states[0].start_offset, world->start);
}

/* ---- random commands */

static struct lq_cgroup_start random_start(struct world *world)
{
    static const uint8_t kinds[] = {LQ_CGROUP_START, LQ_CGROUP_END, LQ_CGROUP_OFFSET, LQ_CGROUP_TIME};
    struct lq_cgroup_start start = {.kind = kinds[below(world, 4)]};
    if (start.kind >= LQ_CGROUP_OFFSET) {
        start.offset = below(world, world->end + 20);
        start.time_ms = start.kind == LQ_CGROUP_TIME ? 77 : 0;
    }
    return start;
}

static lightq_status resolve(const struct world *world, const struct lq_cgroup_start *start, uint64_t *offset)
{
    uint64_t wanted = start->offset;
    *offset = start->kind == LQ_CGROUP_START || (start->kind == LQ_CGROUP_TIME && wanted < world->start) ? world->start
              : start->kind == LQ_CGROUP_END || (start->kind == LQ_CGROUP_TIME && wanted > world->end)   ? world->end
                                                                                                         : wanted;
    return *offset < world->start || *offset > world->end ? LIGHTQ_EOUTOFRANGE : LIGHTQ_OK;
}

static void do_create(struct world *world, struct model *model)
{
    unsigned which = (unsigned)(model - world->models);
    struct lq_command command = {.type = LQ_COMMAND_GROUP_CREATE,
                                 .group_create = {.id = {.bytes = {(uint8_t)(world->index % 2)}},
                                                  .start = random_start(world),
                                                  .name = names[which],
                                                  .name_size = (uint8_t)strlen(names[which])}};
    struct lq_cgroup_options *options = &command.group_create.options;
    lq_cgroup_options_init(options, which == 0 ? LQ_CGROUP_SUBSCRIBER : LQ_CGROUP_PIPELINE);
    options->max_deliver = (uint32_t)below(world, 4);
    options->backoff_count = (uint32_t)below(world, 4);
    for (uint32_t i = 0; i < options->backoff_count; i++) {
        options->backoff_ms[i] = (uint32_t)below(world, 100) + 1;
    }
    uint64_t offset;
    const struct lq_cgroup *there = lq_cgroups_find_name(&world->states[0].cgroups, names[which], strlen(names[which]));
    bool is_same = there != NULL && lq_id_equal(&there->id, &command.group_create.id);

    apply(world, &command, 0);

    if (model->is_there) {
        assert_int_equal(world->result.status, is_same ? LIGHTQ_OK : LIGHTQ_EEXISTS);
        assert_int_equal(world->result.number, model->number);
        return;
    }
    assert_int_equal(world->result.status, resolve(world, &command.group_create.start, &offset));
    if (world->result.status == LIGHTQ_OK) {
        memset(model, 0, sizeof *model);
        model->is_there = true;
        model->number = world->index;
        model->options = *options;
        model_begin(model, offset, world->index);
        assert_int_equal(world->result.position, offset);
    }
}

static void do_delete(struct world *world, struct model *model)
{
    const struct lq_command command = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = model->number}};
    apply(world, &command, 0);
    assert_int_equal(world->result.status, LIGHTQ_OK);
    model->is_there = false;
}

static void do_seek(struct world *world, struct model *model)
{
    const struct lq_command command = {.type = LQ_COMMAND_GROUP_SEEK,
                                       .group_seek = {.group = model->number, .start = random_start(world)}};
    uint64_t offset;
    apply(world, &command, 0);
    assert_int_equal(world->result.status, resolve(world, &command.group_seek.start, &offset));
    if (world->result.status == LIGHTQ_OK) {
        model_begin(model, offset, world->index);
    }
}

static void do_alter(struct world *world, struct model *model)
{
    struct lq_command command = {
        .type = LQ_COMMAND_GROUP_ALTER,
        .group_alter = {.group = model->number, .mask = LQ_CGROUP_ALTER_PAUSED | LQ_CGROUP_ALTER_MAX_DELIVER}};
    lq_cgroup_options_init(&command.group_alter.options, model->options.mode);
    command.group_alter.options.paused = below(world, 2) == 0;
    command.group_alter.options.max_deliver = (uint32_t)below(world, 5);
    command.group_alter.options.ack_wait_ms = 5; /* not in the mask */
    apply(world, &command, 0);
    assert_int_equal(world->result.status, LIGHTQ_OK);
    model->options.paused = command.group_alter.options.paused;
    model->options.max_deliver = command.group_alter.options.max_deliver;
    const struct lq_cgroup *cgroup = lq_cgroups_find(&world->states[0].cgroups, model->number);
    assert_memory_equal(&cgroup->options, &model->options, sizeof model->options);
}

static void do_commit(struct world *world, struct model *model)
{
    uint64_t position = model_floor(world, model);
    struct lq_command command = {.type = LQ_COMMAND_COMMIT,
                                 .commit = {.group = model->number,
                                            .generation = model->generation - (below(world, 10) == 0),
                                            .offset = position + below(world, 30) - (position > 5 ? 5 : 0)}};
    const struct lq_cgroup_commit *commit = &command.commit;
    lightq_status expected = model->options.mode != LQ_CGROUP_SUBSCRIBER ? LIGHTQ_EINVAL
                             : commit->generation != model->generation   ? LIGHTQ_EFENCED
                             : commit->offset > world->end               ? LIGHTQ_EOUTOFRANGE
                             : commit->offset < position                 ? LIGHTQ_ESETTLED
                                                                         : LIGHTQ_OK;
    apply(world, &command, 0);
    assert_int_equal(world->result.status, expected);
    if (expected == LIGHTQ_OK) {
        assert_int_equal(world->result.settled, commit->offset - position);
        model->position = commit->offset;
    }
}

static void do_settle(struct world *world, struct model *model)
{
    struct lq_settle_range ranges[8];
    struct lq_settle_failure failures[8];
    uint32_t range_count = 0;
    uint32_t failure_count = 0;
    uint64_t floor = model_floor(world, model);
    uint64_t at = floor > 10 ? floor - 10 : 0;
    uint64_t last = 0;
    for (uint32_t i = below(world, 8); i > 0; i--) {
        struct lq_settle_range *range = &ranges[range_count++];
        *range = (struct lq_settle_range){.first = at + below(world, 30), .count = below(world, 12) + 1};
        last = at = range->first + range->count;
    }
    at = floor;
    for (uint32_t i = below(world, 8); i > 0; i--) {
        struct lq_settle_failure *failure = &failures[failure_count++];
        failure->offset = at + below(world, 20);
        uint32_t failed = failure->offset < OFFSETS ? model->at[failure->offset].failed : 0;
        failure->delivery = failed + 1 + (below(world, 6) == 0);
        failure->delay_ms = below(world, 2) == 0 ? LQ_SETTLE_DELAY_DEFAULT : (uint32_t)below(world, 1000);
        failure->reason = (uint8_t)(below(world, 10) == 0 ? LQ_FAILURE_REJECTED : LQ_FAILURE_NACK);
        at = failure->offset + 1;
        last = at > last ? at : last;
    }
    struct lq_writer body;
    lq_writer_init(&body, 4096);
    lq_settle_write(ranges, range_count, failures, failure_count, &body);
    const struct lq_command command = {.type = LQ_COMMAND_SETTLE,
                                       .settle = {.group = model->number,
                                                  .generation = model->generation - (below(world, 10) == 0),
                                                  .range_count = range_count,
                                                  .failure_count = failure_count,
                                                  .bytes = body.bytes,
                                                  .size = (uint32_t)body.size}};
    apply(world, &command, 0);
    lq_writer_deinit(&body);
    lightq_status expected = model->options.mode != LQ_CGROUP_PIPELINE                     ? LIGHTQ_EINVAL
                             : command.settle.generation != model->generation              ? LIGHTQ_EFENCED
                             : (range_count > 0 || failure_count > 0) && last > world->end ? LIGHTQ_EOUTOFRANGE
                                                                                           : LIGHTQ_OK;
    assert_int_equal(world->result.status, expected);
    uint64_t settled = 0;
    for (uint32_t i = 0; i < range_count && expected == LIGHTQ_OK; i++) {
        for (uint64_t offset = ranges[i].first; offset < ranges[i].first + ranges[i].count; offset++) {
            settled += !model->at[offset].settled;
            model_settle(model, offset);
        }
    }
    uint64_t letters = model->letters_next;
    for (uint32_t i = 0; i < failure_count && expected == LIGHTQ_OK; i++) {
        model_fail(world, model, &failures[i]);
    }
    assert_int_equal(world->result.settled, settled);
    assert_int_equal(world->result.dead, model->letters_next - letters);
    assert_int_equal(world->result.failed + world->result.stale, expected == LIGHTQ_OK ? failure_count : 0);
}

static void do_done(struct world *world, struct model *model)
{
    uint64_t number = model->letters_done + below(world, 4);
    const struct lq_command command = {.type = LQ_COMMAND_DONE, .done = {.group = model->number, .number = number}};
    apply(world, &command, 0);
    if (number > model->letters_next) {
        assert_int_equal(world->result.status, LIGHTQ_EOUTOFRANGE);
        return;
    }
    assert_int_equal(world->result.status, LIGHTQ_OK);
    for (; model->letters_done < number; model->letters_done++) {
        uint64_t offset = model->letters[model->letters_done].offset;
        if (model->at[offset].dead) {
            model_settle(model, offset);
        }
    }
}

static void do_dlq(struct world *world, struct model *model)
{
    const struct lq_command command = {
        .type = LQ_COMMAND_GROUP_DLQ,
        .group_dlq = {.group = model->number,
                      .epoch = model->epoch + (uint32_t)below(world, 3),
                      .topic = {.bytes = {(uint8_t)world->index, (uint8_t)(world->index >> 8), 1}}}};
    uint32_t epoch = command.group_dlq.epoch;
    apply(world, &command, 0);
    assert_int_equal(world->result.status, model->options.mode != LQ_CGROUP_PIPELINE ? LIGHTQ_EINVAL
                                           : epoch == model->epoch + 1               ? LIGHTQ_OK
                                                                                     : LIGHTQ_EFENCED);
    if (world->result.status == LIGHTQ_OK) {
        model->epoch = epoch;
        assert_int_equal(lq_cgroups_find(&world->states[0].cgroups, model->number)->dead.base, model->letters_done);
    }
}

static void do_trim(struct world *world)
{
    uint64_t wanted = world->start + below(world, 40);
    const struct lq_command command = {.type = LQ_COMMAND_TRIM, .trim = {.offset = wanted}};
    wanted = wanted < world->end ? wanted : world->end;
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct model *model = &world->models[i];
        for (uint64_t n = model->letters_done; model->is_there && n < model->letters_next; n++) {
            wanted = model->letters[n].offset < wanted ? model->letters[n].offset : wanted;
        }
    }
    world->start = wanted > world->start ? wanted : world->start;
    for (unsigned i = 0; i < GROUPS; i++) {
        struct model *model = &world->models[i];
        for (uint64_t offset = 0; offset < world->start && model->options.mode == LQ_CGROUP_PIPELINE; offset++) {
            model->missed += !model->at[offset].settled;
            model_settle(model, offset);
        }
    }
    apply(world, &command, 0);
}

static void random_step(struct world *world)
{
    struct model *model = &world->models[below(world, GROUPS)];
    uint64_t what = below(world, 100);
    world->now_ms += below(world, 50);
    if (what < 15) {
        append(world, (uint32_t)below(world, 8) + 1);
    } else if (what < 18) {
        do_trim(world);
    } else if (!model->is_there || what < 20) {
        do_create(world, model);
    } else if (what < 21) {
        do_delete(world, model);
    } else if (what < 22) {
        do_seek(world, model);
    } else if (what < 24) {
        do_alter(world, model);
    } else if (what < 35) {
        do_commit(world, model);
    } else if (what < 45) {
        do_done(world, model);
    } else if (what < 48) {
        do_dlq(world, model);
    } else {
        do_settle(world, model);
    }
}

static struct lq_writer state_bytes(const struct lq_queue_state *state)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    assert_int_equal(lq_queue_state_save(state, &writer), LIGHTQ_OK);
    return writer;
}

/* The second replica restarts from its checkpoint, in other memory. */
static void restart(struct world *world)
{
    struct lq_writer writer = state_bytes(&world->states[1]);
    lq_queue_state_deinit(&world->states[1]);
    lq_queue_state_init(&world->states[1]);
    assert_int_equal(lq_queue_state_load(&world->states[1], writer.bytes, writer.size), LIGHTQ_OK);
    lq_writer_deinit(&writer);
}

static void assert_same_bytes(const struct world *world)
{
    struct lq_writer a = state_bytes(&world->states[0]);
    struct lq_writer b = state_bytes(&world->states[1]);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
    lq_writer_deinit(&a);
    lq_writer_deinit(&b);
}

static struct world *world_new(uint64_t seed)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->random = seed;
    world->now_ms = 1000;
    lq_queue_state_init(&world->states[0]);
    lq_queue_state_init(&world->states[1]);
    return world;
}

static void world_free(struct world *world)
{
    lq_queue_state_deinit(&world->states[0]);
    lq_queue_state_deinit(&world->states[1]);
    free(world);
}

static void test_cgroups_random_history_is_as_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 20260720; seed < 20260724; seed++) {
        struct world *world = world_new(seed);
        unsigned letters = 0;
        print_message("seed %llu\n", (unsigned long long)seed);

        for (unsigned i = 0; i < STEPS; i++) {
            random_step(world);
            assert_like_model(world);
            letters += world->result.dead;
            if (below(world, 30) == 0) {
                restart(world);
                assert_same_bytes(world);
            }
        }

        assert_true(letters > 20); /* it went through what it is for */
        assert_same_bytes(world);
        world_free(world);
    }
}

/* ---- single cases */

static uint64_t create(struct world *world, const char *name, const struct lq_cgroup_options *options)
{
    const struct lq_command command = {.type = LQ_COMMAND_GROUP_CREATE,
                                       .group_create = {.id = {.bytes = {1}},
                                                        .start = {.kind = LQ_CGROUP_START},
                                                        .options = *options,
                                                        .name = name,
                                                        .name_size = (uint8_t)strlen(name)}};
    apply(world, &command, 0);
    assert_int_equal(world->result.status, LIGHTQ_OK);
    return world->result.number;
}

static void settle_one(struct world *world, uint64_t group, uint64_t generation, uint64_t offset)
{
    struct lq_writer body;
    const struct lq_settle_range range = {.first = offset, .count = 1};
    lq_writer_init(&body, 64);
    lq_settle_write(&range, 1, NULL, 0, &body);
    const struct lq_command command = {.type = LQ_COMMAND_SETTLE,
                                       .settle = {.group = group,
                                                  .generation = generation,
                                                  .range_count = 1,
                                                  .bytes = body.bytes,
                                                  .size = (uint32_t)body.size}};
    apply(world, &command, 0);
    lq_writer_deinit(&body);
}

static void test_cgroup_made_again_refuses_what_was_meant_for_the_old_one(void **state)
{
    (void)state;
    struct world *world = world_new(1);
    struct lq_cgroup_options options;
    lq_cgroup_options_init(&options, LQ_CGROUP_PIPELINE);
    append(world, 10);
    uint64_t old = create(world, "g", &options);
    const struct lq_command gone = {.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = old}};
    apply(world, &gone, 0);
    uint64_t new = create(world, "g", &options);

    settle_one(world, old, old, 0);
    assert_int_equal(world->result.status, LIGHTQ_ENOTFOUND);
    settle_one(world, new, old, 0);
    assert_int_equal(world->result.status, LIGHTQ_EFENCED);
    assert_int_equal(lq_cgroups_find(&world->states[0].cgroups, new)->settled.floor, 0);
    apply(world, &gone, 0);
    assert_int_equal(world->result.status, LIGHTQ_ENOTFOUND);
    settle_one(world, new, new, 0);
    assert_int_equal(world->result.status, LIGHTQ_OK);
    assert_int_equal(world->result.position, 1);
    world_free(world);
}

static void test_cgroup_trimmed_over_is_told_how_much_it_missed(void **state)
{
    (void)state;
    struct world *world = world_new(1);
    struct lq_cgroup_options options;
    append(world, 100);
    lq_cgroup_options_init(&options, LQ_CGROUP_PIPELINE);
    uint64_t pipeline = create(world, "p", &options);
    lq_cgroup_options_init(&options, LQ_CGROUP_SUBSCRIBER);
    uint64_t subscriber = create(world, "s", &options);
    settle_one(world, pipeline, pipeline, 7);
    const struct lq_command trim = {.type = LQ_COMMAND_TRIM, .trim = {.offset = 20}};

    apply(world, &trim, 0);

    const struct lq_cgroup *p = lq_cgroups_find(&world->states[0].cgroups, pipeline);
    const struct lq_cgroup *s = lq_cgroups_find(&world->states[0].cgroups, subscriber);
    assert_int_equal(p->settled.floor, 20);
    assert_int_equal(p->missed_count, 19);
    assert_int_equal(p->missed_first, 0);
    assert_int_equal(p->missed_end, 20);
    assert_int_equal(s->settled.floor, 0); /* never moved silently: its consumers are told at 0 */
    assert_int_equal(p->settled_count, 1);
    world_free(world);
}

static void settle_ranges(struct world *world, uint64_t group, const struct lq_settle_range *ranges, uint32_t count)
{
    struct lq_writer body;
    lq_writer_init(&body, 256);
    lq_settle_write(ranges, count, NULL, 0, &body);
    const struct lq_command command = {.type = LQ_COMMAND_SETTLE,
                                       .settle = {.group = group,
                                                  .generation = group,
                                                  .range_count = count,
                                                  .bytes = body.bytes,
                                                  .size = (uint32_t)body.size}};
    apply(world, &command, 0);
    lq_writer_deinit(&body);
}

static void test_settle_over_the_holes_is_elimit_and_the_floor_goes_on(void **state)
{
    (void)state;
    struct world *world = world_new(1);
    struct lq_cgroup_options options;
    const struct lq_command messages = {.type = LQ_COMMAND_APPEND, .append = {.expected_offset = LQ_OFFSET_ANY}};
    lq_cgroup_options_init(&options, LQ_CGROUP_PIPELINE);
    for (unsigned i = 0; i < 17; i++) {
        apply(world, &messages, LQ_BATCH_RECORDS_MAX);
        world->end += LQ_BATCH_RECORDS_MAX;
    }
    uint64_t group = create(world, "g", &options);
    const struct lq_settle_range far[] = {{LQ_CGROUP_UNSETTLED_MAX + 1, 1}, {LQ_CGROUP_UNSETTLED_MAX + 2, 1}};
    const struct lq_settle_range floor[] = {{0, 10}};
    const struct lq_settle_range near[] = {{LQ_CGROUP_UNSETTLED_MAX + 10, 1}};
    const struct lq_settle_range both[] = {
        {10, 5}, {LQ_CGROUP_UNSETTLED_MAX + 20, 1}, {LQ_CGROUP_UNSETTLED_MAX + 40, 1}};

    settle_ranges(world, group, far, 2);
    assert_int_equal(world->result.status, LIGHTQ_ELIMIT);
    assert_int_equal(world->result.settled, 0);
    settle_ranges(world, group, floor, 1);
    assert_int_equal(world->result.position, 10);
    settle_ranges(world, group, near, 1); /* exactly as many holes as may be */
    assert_int_equal(world->result.status, LIGHTQ_OK);
    assert_int_equal(world->states[0].cgroups.weight, LQ_CGROUP_UNSETTLED_MAX);
    settle_ranges(world, group, both, 3); /* the first makes room for some, not for all */
    assert_int_equal(world->result.status, LIGHTQ_ELIMIT);
    assert_int_equal(world->result.position, 15);
    assert_int_equal(world->result.settled, 5);
    restart(world);
    assert_same_bytes(world);
    world_free(world);
}

static void test_cgroup_over_the_number_is_elimit(void **state)
{
    (void)state;
    struct world *world = world_new(1);
    struct lq_cgroup_options options;
    char name[16];
    lq_cgroup_options_init(&options, LQ_CGROUP_SUBSCRIBER);
    for (unsigned i = 0; i < LQ_CGROUPS_MAX; i++) {
        snprintf(name, sizeof name, "g%u", i);
        (void)create(world, name, &options);
    }

    const struct lq_command one_more = {
        .type = LQ_COMMAND_GROUP_CREATE,
        .group_create = {.start = {.kind = LQ_CGROUP_START}, .options = options, .name = "more", .name_size = 4}};
    apply(world, &one_more, 0);

    assert_int_equal(world->result.status, LIGHTQ_ELIMIT);
    assert_int_equal(world->states[0].cgroups.count, LQ_CGROUPS_MAX);
    restart(world);
    assert_same_bytes(world);
    world_free(world);
}

static void test_cgroup_options_out_of_range_are_einval(void **state)
{
    (void)state;
    struct lq_cgroup_options good;
    lq_cgroup_options_init(&good, LQ_CGROUP_PIPELINE);
    assert_int_equal(lq_cgroup_options_check(&good), LIGHTQ_OK);
    struct lq_cgroup_options bad[10];
    for (unsigned i = 0; i < 10; i++) {
        bad[i] = good;
    }
    bad[0].mode = 3;
    bad[1].exclusive = bad[1].key_ordered = true;
    bad[2].mode = LQ_CGROUP_SUBSCRIBER;
    bad[2].key_ordered = true;
    bad[3].ack_wait_ms = 0;
    bad[4].ack_wait_ms = LQ_CGROUP_ACK_WAIT_MS_MAX + 1;
    bad[5].max_unsettled = 0;
    bad[6].max_unsettled = LQ_CGROUP_UNSETTLED_MAX + 1;
    bad[7].backoff_count = LQ_CGROUP_BACKOFF_MAX + 1;
    bad[8].backoff_count = 1;
    bad[8].backoff_ms[0] = LQ_CGROUP_DELAY_MS_MAX + 1;
    bad[9].mode = 0;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(lq_cgroup_options_check(&bad[i]), LIGHTQ_EINVAL);
    }
}

/* A checkpoint with a group of every kind of content. */
static struct lq_writer rich_checkpoint(void)
{
    struct world *world = world_new(20260730);
    for (unsigned i = 0; i < 1500; i++) {
        random_step(world);
    }
    struct lq_writer writer = state_bytes(&world->states[0]);
    world_free(world);
    return writer;
}

static lightq_status load(const uint8_t *bytes, size_t size)
{
    struct lq_queue_state state;
    lq_queue_state_init(&state);
    lightq_status status = lq_queue_state_load(&state, bytes, size);
    if (status == LIGHTQ_OK) {
        struct lq_writer again = state_bytes(&state);
        lq_writer_deinit(&again);
    }
    lq_queue_state_deinit(&state);
    return status;
}

/* What nodes wrote before there were consumer groups. */
static void test_state_of_older_versions_has_no_groups(void **state)
{
    (void)state;
    struct world *world = world_new(1);
    append(world, 7);
    struct lq_writer writer = state_bytes(&world->states[0]);
    size_t size = writer.size - 8; /* without the numbers of groups and of message ids */
    for (uint16_t version = 1; version <= 2; version++) {
        struct lq_queue_state loaded;
        lq_put_u16(writer.bytes + 4, version);
        lq_put_u32(writer.bytes + size - 4, lq_crc32c(0, writer.bytes, size - 4));
        lq_queue_state_init(&loaded);

        assert_int_equal(lq_queue_state_load(&loaded, writer.bytes, size), LIGHTQ_OK);

        assert_int_equal(loaded.end_offset, 7);
        assert_int_equal(loaded.cgroups.count, 0);
        struct lq_writer again = state_bytes(&loaded);
        assert_int_equal(again.size, size + 8);
        lq_writer_deinit(&again);
        lq_queue_state_deinit(&loaded);
    }
    lq_writer_deinit(&writer);
    world_free(world);
}

static void test_cgroups_load_of_changed_bytes_is_never_a_crash(void **state)
{
    (void)state;
    struct lq_writer writer = rich_checkpoint();
    unsigned refused = 0;
    for (size_t at = 0; at + 4 < writer.size; at++) {
        for (unsigned bit = 0; bit < 8; bit += 3) {
            writer.bytes[at] ^= (uint8_t)(1u << bit);
            lq_put_u32(writer.bytes + writer.size - 4, lq_crc32c(0, writer.bytes, writer.size - 4));
            lightq_status status = load(writer.bytes, writer.size);
            assert_true(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION);
            refused += status != LIGHTQ_OK;
            writer.bytes[at] ^= (uint8_t)(1u << bit);
        }
    }
    assert_true(refused > writer.size / 4);
    lq_writer_deinit(&writer);
}

static void test_cgroups_load_out_of_memory_is_enomem(void **state)
{
    (void)state;
    struct lq_writer writer = rich_checkpoint();
    bool failed = true;
    unsigned swept = 0;
    for (unsigned nth = 1; failed; nth++, swept++) {
        struct lq_queue_state loaded;
        lq_queue_state_init(&loaded);
        lq_alloc_fail_at(nth);
        lightq_status status = lq_queue_state_load(&loaded, writer.bytes, writer.size);
        failed = lq_alloc_fail_end();
        assert_int_equal(status, failed ? LIGHTQ_ENOMEM : LIGHTQ_OK);
        lq_queue_state_deinit(&loaded);
    }
    assert_true(swept > 10);
    lq_writer_deinit(&writer);
}

static size_t read_golden(uint8_t *bytes, size_t size)
{
    FILE *file = fopen(LQ_GOLDEN_DIR "/state-v3.bin", "rb");
    assert_non_null(file);
    size_t got = fread(bytes, 1, size, file);
    assert_int_equal(fclose(file), 0);
    assert_true(got < size);
    return got;
}

static void test_state_golden_file_is_read_and_its_groups_written_byte_for_byte(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    size_t size = read_golden(bytes, sizeof bytes);
    struct lq_queue_state loaded;
    lq_queue_state_init(&loaded);
    assert_int_equal(lq_queue_state_load(&loaded, bytes, size), LIGHTQ_OK);

    assert_int_equal(loaded.cgroups.count, 2);
    const struct lq_cgroup *audit = lq_cgroups_find_name(&loaded.cgroups, "audit", 5);
    const struct lq_cgroup *orders = lq_cgroups_find(&loaded.cgroups, 20);
    assert_true(audit != NULL && audit->options.paused && audit->settled.floor == 340 && audit->generation == 12);
    assert_true(orders->settled.floor == 200 && orders->settled.ceiling == 623 && orders->settled.holes == 83);
    assert_true(lq_settled_has(&orders->settled, 499) && !lq_settled_has(&orders->settled, 511));
    assert_true(orders->options.key_ordered && orders->options.backoff_ms[1] == 2000 && orders->missed_end == 160);
    assert_true(lq_cgroup_failed(orders, 200) == 2 && lq_failures_find(&orders->failures, 505)->dead);
    assert_true(orders->dead.done == 4 && orders->dead.next == 5 && orders->dead.base == 2);
    struct lq_writer groups;
    lq_writer_init(&groups, sizeof bytes);
    assert_int_equal(lq_cgroups_save(&loaded.cgroups, &groups), LIGHTQ_OK);
    assert_memory_equal(groups.bytes, bytes + size - 4 - groups.size, groups.size);

    lq_writer_deinit(&groups);
    lq_queue_state_deinit(&loaded);
}

/* The bytes that docs/format/commands.md shows. */
static void test_settle_bytes_are_as_documented(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x14, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7,    0, 0, 0,
                                    0,    0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, 3, 1, 1, 0x0a, 2, 1, 0};
    struct lq_command command;
    struct lq_settle_range range;
    struct lq_settle_failure failure;
    assert_int_equal(lq_command_decode(bytes, sizeof bytes, &command), LIGHTQ_OK);
    assert_true(command.type == LQ_COMMAND_SETTLE && command.settle.group == 7 && command.settle.generation == 7);
    struct lq_settle_reader reader = lq_settle_reader_of(&command.settle);
    assert_true(lq_settle_next_range(&reader, &range) && range.first == 5 && range.count == 3);
    assert_true(lq_settle_next_range(&reader, &range) && range.first == 9 && range.count == 1);
    assert_false(lq_settle_next_range(&reader, &range));
    assert_true(lq_settle_next_failure(&reader, &failure) && failure.offset == 10 && failure.delivery == 1);
    assert_true(failure.reason == LQ_FAILURE_EXPIRED && failure.delay_ms == LQ_SETTLE_DELAY_DEFAULT);
    assert_false(lq_settle_next_failure(&reader, &failure));

    struct lq_writer writer;
    lq_writer_init(&writer, sizeof bytes);
    lq_command_encode(&command, &writer);
    assert_int_equal(writer.size, sizeof bytes);
    assert_memory_equal(writer.bytes, bytes, sizeof bytes);
    lq_writer_deinit(&writer);
}

static void test_command_cut_or_changed_is_refused_or_another_one(void **state)
{
    (void)state;
    struct lq_writer body;
    const struct lq_settle_range ranges[] = {{5, 3}, {9, 1000}};
    const struct lq_settle_failure failures[] = {{70000, 1, 9, LQ_FAILURE_NACK},
                                                 {70001, 300, LQ_SETTLE_DELAY_DEFAULT, LQ_FAILURE_EXPIRED}};
    lq_writer_init(&body, 256);
    lq_settle_write(ranges, 2, failures, 2, &body);
    const struct lq_command command = {.type = LQ_COMMAND_SETTLE,
                                       .settle = {.group = 1,
                                                  .generation = 2,
                                                  .range_count = 2,
                                                  .failure_count = 2,
                                                  .bytes = body.bytes,
                                                  .size = (uint32_t)body.size}};
    struct lq_writer writer;
    lq_writer_init(&writer, 512);
    lq_command_encode(&command, &writer);
    struct lq_command decoded;
    assert_int_equal(lq_command_decode(writer.bytes, (uint32_t)writer.size, &decoded), LIGHTQ_OK);

    for (uint32_t size = 0; size < writer.size; size++) {
        assert_int_equal(lq_command_decode(writer.bytes, size, &decoded), LIGHTQ_ECORRUPT);
    }
    for (size_t at = 4; at < writer.size; at++) {
        for (unsigned value = 0; value < 256; value += 5) {
            uint8_t kept = writer.bytes[at];
            writer.bytes[at] = (uint8_t)value;
            if (lq_command_decode(writer.bytes, (uint32_t)writer.size, &decoded) == LIGHTQ_OK) {
                struct lq_settle_reader reader = lq_settle_reader_of(&decoded.settle);
                struct lq_settle_range range;
                struct lq_settle_failure failure;
                while (lq_settle_next_range(&reader, &range)) {
                    assert_true(range.count >= 1 && range.first <= UINT64_MAX - range.count);
                }
                while (lq_settle_next_failure(&reader, &failure)) {
                    assert_true(failure.delivery >= 1);
                }
                assert_false(reader.reader.failed);
            }
            writer.bytes[at] = kept;
        }
    }
    lq_writer_deinit(&body);
    lq_writer_deinit(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cgroups_random_history_is_as_the_model),
        cmocka_unit_test(test_cgroup_made_again_refuses_what_was_meant_for_the_old_one),
        cmocka_unit_test(test_cgroup_trimmed_over_is_told_how_much_it_missed),
        cmocka_unit_test(test_settle_over_the_holes_is_elimit_and_the_floor_goes_on),
        cmocka_unit_test(test_cgroup_over_the_number_is_elimit),
        cmocka_unit_test(test_cgroup_options_out_of_range_are_einval),
        cmocka_unit_test(test_state_of_older_versions_has_no_groups),
        cmocka_unit_test(test_cgroups_load_of_changed_bytes_is_never_a_crash),
        cmocka_unit_test(test_cgroups_load_out_of_memory_is_enomem),
        cmocka_unit_test(test_state_golden_file_is_read_and_its_groups_written_byte_for_byte),
        cmocka_unit_test(test_settle_bytes_are_as_documented),
        cmocka_unit_test(test_command_cut_or_changed_is_refused_or_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
