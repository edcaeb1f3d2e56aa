/* chaos/sim/run.c - one run: see world.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/check/check.h"
#include "chaos/sim/watch.h"
#include "chaos/sim/world.h"
#include "chaos/sim/wraps.h"
#include "tests/lib/sim_parts.h"

enum {
    STEP_US = 100000,
    UP_SECONDS = 20,
    FINISH_SECONDS = 60, /* after the last fault: everything is answered, whole and equal */
    READ_SECONDS = 30,   /* then: every log is read from its start to its end */
    RETENTION_MIN = 150,
    RETENTION_SPREAD = 400,
    EXAMPLES = 2,
};

void world_say(struct world *world, const char *format, ...)
{
    va_list args;
    if (!world->options.trace) {
        return;
    }
    va_start(args, format);
    printf("%11.3f ms  ", (double)world_now(world) / 1000);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

void world_noted(struct world *world, lightq_status status, const struct lq_err *err)
{
    if (status != LIGHTQ_OK) {
        sim_fail(world->sim, "the history refuses an event: %s", err->text);
    }
}

unsigned world_partition(const struct world *world, uint64_t group)
{
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        if (world->groups[i] == group) {
            return i;
        }
    }
    return WORLD_PARTITIONS;
}

static uint64_t mix(uint64_t seed)
{
    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In some worlds a node joins three others. */
unsigned world_nodes(uint64_t seed)
{
    return (mix(seed) >> 48) % 4 == 0 ? WORLD_NODES : WORLD_FOUNDERS;
}

/* ---- beginning */

static void on_unopened(struct sim_node *node, lightq_status status, const struct lq_err *err)
{
    struct machine *machine = node->data;
    world_say(machine->world, "the store of node %u does not open: %s", node->id, err->text);
    if (status == LIGHTQ_EDAMAGED || status == LIGHTQ_ECORRUPT || status == LIGHTQ_EVERSION ||
        status == LIGHTQ_EIDENTITY) {
        keeper_condemn(machine->world, node->id - 1, err->text);
    } else {
        keeper_start_later(machine->world, node->id - 1, WORLD_SECOND);
    }
}

static void make_sim(struct world *world)
{
    uint64_t chance = mix(world->options.seed);
    struct sim_options options = {
        .seed = world->options.seed,
        .nodes = world->nodes,
        .delay_min_us = 50,
        .delay_max_us = 400,
        .events = machine_host_events,
        .prepare = machine_prepare,
        .start = machine_start,
        .unopened = on_unopened,
        .turn = machine_turn,
        .tick = machine_tick,
        .deadline_us = machine_deadline_us,
        .admit = machine_admit,
        .stop = machine_stop,
        .trace = watch_trace,
        .data = world,
    };
    options.store = (struct lq_store_options){.dir = "",
                                              .cluster = sim_parts_cluster,
                                              .segment_bytes = UINT64_C(16384) << chance % 5,
                                              .journal_bytes = UINT64_C(65536) << (chance >> 8) % 3,
                                              .cache_bytes = UINT64_C(32768) << (chance >> 16) % 6,
                                              .index_stride = 4096,
                                              .sync_files_max = 1 + (unsigned)((chance >> 24) % 4)};
    if ((chance >> 32) % 3 == 0) {
        world->retention_messages = RETENTION_MIN + (chance >> 40) % RETENTION_SPREAD;
    }
    world->retention = (enum lq_retention)((chance >> 56) % 5 % 3); /* two in five: limits, as by default */
    world->sim = sim_new(&options);
}

static lightq_status make_world(struct world *world, const struct world_options *options)
{
    world->options = *options;
    world->nodes = world_nodes(options->seed);
    lq_history_init(&world->history);
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        world->groups[i] = UINT64_MAX; /* none yet */
    }
    make_sim(world);
    wraps_begin(world);
    net_init(&world->net, world);
    lightq_status status = keeper_new(world);
    for (unsigned i = 0; i < world->nodes && status == LIGHTQ_OK; i++) {
        status = machine_init(&world->machines[i], world, sim_node_at(world->sim, i));
    }
    if (options->plan != NULL) {
        world->plan = *options->plan;
    } else {
        plan_make(&world->plan, options->seed, world->nodes, WORLD_WORK, options->mode == WORLD_SAFETY);
    }
    return status;
}

static void free_world(struct world *world)
{
    for (unsigned i = 0; i < world->nodes; i++) {
        machine_kill(&world->machines[i]);
    }
    net_deinit(&world->net);
    for (unsigned i = 0; i < WORLD_PRODUCERS; i++) {
        producer_deinit(&world->producers[i]);
    }
    sim_free(world->sim);
    for (unsigned i = 0; i < world->nodes; i++) {
        machine_deinit(&world->machines[i]);
    }
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        grouper_free(world->groupers[i]);
    }
    faults_free(world);
    keeper_free(world);
    truth_deinit(&world->truth);
    lq_history_deinit(&world->history);
    wraps_end();
}

/* Until @holds, or the time is over; false then, and a failure. */
static bool wait_for(struct world *world, bool (*holds)(struct world *world), unsigned seconds, const char *what)
{
    uint64_t end = world_now(world) + seconds * WORLD_SECOND;
    while (sim_failure(world->sim) == NULL && !holds(world)) {
        if (world_now(world) >= end) {
            sim_fail(world->sim, "after %u s without a fault: %s (%s)", seconds, what, world->unsettled);
            return false;
        }
        sim_run(world->sim, STEP_US);
    }
    return sim_failure(world->sim) == NULL;
}

struct creation {
    struct lq_meta_request request;
    bool answered;
    lightq_status status;
};

static void on_created(struct lq_meta_request *request, lightq_status status)
{
    struct creation *creation = request->data;
    creation->answered = true;
    creation->status = status;
}

static void create_topic(struct world *world)
{
    struct lq_topic_config config;
    struct creation creation = {.answered = false};
    lq_topic_config_init(&config);
    config.retention_messages = world->retention_messages;
    config.retention = world->retention;
    creation.request = (struct lq_meta_request){.verb = LQ_META_TOPIC_CREATE,
                                                .name = "t",
                                                .partitions = WORLD_PARTITIONS,
                                                .replicas = WORLD_REPLICAS,
                                                .config = &config,
                                                .cb = on_created,
                                                .data = &creation};
    if (lq_meta_submit(world->machines[0].meta, &creation.request) != LIGHTQ_OK) {
        sim_fail(world->sim, "the topic cannot be asked for");
        return;
    }
    sim_touch(world->machines[0].node);
    for (unsigned i = 0; i < UP_SECONDS * 10 && !creation.answered && sim_failure(world->sim) == NULL; i++) {
        sim_run(world->sim, STEP_US);
    }
    if (!creation.answered || creation.status != LIGHTQ_OK) {
        sim_fail(world->sim, "the topic is not made: %s", creation.request.err.text);
        return;
    }
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(world->machines[0].meta), "t");
    world->topic = topic->uuid;
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        struct lq_err err = {.text = ""};
        world->groups[i] = topic->partitions[i].group;
        world_noted(world, lq_history_log(&world->history, "t", i, &world->logs[i], &err), &err);
    }
}

static bool all_serve(struct world *world)
{
    for (unsigned i = 0; i < WORLD_FOUNDERS; i++) {
        if (!world->machines[i].serving) {
            return false;
        }
    }
    return true;
}

static void come_up(struct world *world)
{
    for (unsigned i = 0; i < WORLD_FOUNDERS; i++) {
        sim_start(sim_node_at(world->sim, i));
    }
    if (wait_for(world, all_serve, UP_SECONDS, "a new cluster does not serve")) {
        create_topic(world);
    }
    (void)wait_for(world, keeper_settled, UP_SECONDS, "a new topic does not settle");
}

static void work(struct world *world)
{
    world->working = true;
    world->began_us = world_now(world);
    for (unsigned i = 0; i < WORLD_PRODUCERS; i++) {
        producer_init(&world->producers[i], world, i);
    }
    for (unsigned i = 0; i < WORLD_READERS; i++) {
        reader_init(&world->readers[i], world, i, i % WORLD_PARTITIONS, false);
    }
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        world->groupers[i] = grouper_new(world, i);
    }
    faults_plan(world);
    sim_run(world->sim, WORLD_WORK);
    world->working = false;
}

/* ---- ending */

static bool waiting(struct world *world, const char *what, unsigned number)
{
    snprintf(world->unsettled, sizeof world->unsettled, "%s %u", what, number);
    return false;
}

/* NULL where the node has none. */
static struct lq_partition *replica_on(struct world *world, unsigned node, unsigned partition)
{
    struct lq_meta *meta = world->machines[node].meta;
    return meta == NULL ? NULL : lq_meta_partition(meta, world->groups[partition]);
}

static bool replicas_equal(struct world *world)
{
    for (unsigned p = 0; p < WORLD_PARTITIONS; p++) {
        struct lq_partition_status first = {.group = 0};
        unsigned count = 0;
        for (unsigned i = 0; i < world->nodes; i++) {
            struct lq_partition_status status;
            struct lq_partition *partition = replica_on(world, i, p);
            if (partition == NULL) {
                continue;
            }
            lq_partition_status(partition, &status);
            first = count++ == 0 ? status : first;
            if (status.applied_index != first.applied_index || status.end_offset != first.end_offset) {
                return waiting(world, "unequal replicas of partition", p);
            }
        }
        if (count != WORLD_REPLICAS) {
            return waiting(world, "more or fewer replicas than there should be of partition", p);
        }
    }
    return true;
}

static bool is_quiet(struct world *world)
{
    if (!keeper_settled(world) || !replicas_equal(world)) {
        return false;
    }
    for (unsigned i = 0; i < WORLD_PRODUCERS; i++) {
        if (!producer_idle(&world->producers[i])) {
            return waiting(world, "no answer for producer", i);
        }
    }
    for (unsigned i = 0; i < WORLD_READERS; i++) {
        const struct reader *reader = &world->readers[i];
        if (reader->state != READER_RUNNING || reader->next < world->truth.logs[reader->partition].end) {
            return waiting(world, "not at the end: reader", i);
        }
    }
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        if (!grouper_drained(world->groupers[i])) {
            return waiting(world, "not settled: the group of partition", i);
        }
    }
    return !keeper_busy(world) || waiting(world, "the operator is busy", 0);
}

static void note_replicas(struct world *world)
{
    struct lq_err err = {.text = ""};
    for (unsigned p = 0; p < WORLD_PARTITIONS; p++) {
        bool told = false;
        for (unsigned i = 0; i < world->nodes; i++) {
            struct lq_partition_status status;
            char name[16];
            uint32_t node;
            if (replica_on(world, i, p) == NULL) {
                continue;
            }
            lq_partition_status(replica_on(world, i, p), &status);
            snprintf(name, sizeof name, "n%u", i + 1);
            world_noted(world, lq_history_node(&world->history, lq_word_of(name), &node, &err), &err);
            world_noted(world,
                        lq_history_digest(&world->history, world_now(world), world->logs[p], node, status.end_offset,
                                          status.digest, &err),
                        &err);
            if (!told) {
                told = true;
                world_noted(world,
                            lq_history_end(&world->history, world_now(world), world->logs[p], status.end_offset, &err),
                            &err);
            }
        }
    }
}

static bool finals_done(struct world *world)
{
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        const struct reader *reader = &world->finals[i];
        if (reader->state != READER_RUNNING || reader->next < world->truth.logs[i].end) {
            return false;
        }
    }
    return true;
}

static void finish(struct world *world)
{
    struct lq_err err = {.text = ""};
    faults_end(world);
    if (!wait_for(world, is_quiet, FINISH_SECONDS, "not everything is answered, whole and equal")) {
        return;
    }
    world_noted(world, lq_history_quiet(&world->history, world_now(world), &err), &err);
    note_replicas(world);
    for (unsigned i = 0; i < WORLD_READERS; i++) {
        reader_deinit(&world->readers[i]);
    }
    for (unsigned i = 0; i < WORLD_PARTITIONS; i++) {
        reader_init(&world->finals[i], world, i, i, true);
    }
    (void)wait_for(world, finals_done, READ_SECONDS, "a log is not read to its end");
}

static void check_history(struct world *world)
{
    const struct lq_check_options options = {.examples = EXAMPLES,
                                             .allow_unproven = world->options.mode == WORLD_SAFETY};
    struct lq_check_report report;
    if (lq_check_run(&world->history, &options, &report) != LIGHTQ_OK) {
        sim_fail(world->sim, "out of memory");
        return;
    }
    for (int i = 0; i < LQ_CHECKER_COUNT && !report.passed; i++) {
        const struct lq_checker_result *result = &report.results[i];
        if (result->violations != 0 && !(i == LQ_CHECKER_unproven && options.allow_unproven)) {
            sim_fail(world->sim, "history: %s: %" PRIu64 " times, %s", lq_checker_name((enum lq_checker)i),
                     result->violations, result->example_count == 0 ? "" : result->examples[0]);
        }
    }
    if (!report.passed) {
        sim_fail(world->sim, "history: %s", report.reason);
    }
    lq_check_report_deinit(&report);
}

void world_run(const struct world_options *options, struct world_result *result)
{
    struct world *world = calloc(1, sizeof *world);
    assert(world != NULL);
    if (make_world(world, options) != LIGHTQ_OK) {
        sim_fail(world->sim, "out of memory");
    }
    come_up(world);
    if (sim_failure(world->sim) == NULL) {
        work(world);
    }
    if (sim_failure(world->sim) == NULL && options->mode == WORLD_LIVENESS) {
        finish(world);
    }
    if (sim_failure(world->sim) == NULL) {
        check_history(world);
    }
    *result = world->result;
    result->hash = sim_hash(world->sim);
    result->virtual_us = world_now(world);
    snprintf(result->failure, sizeof result->failure, "%s",
             sim_failure(world->sim) == NULL ? "" : sim_failure(world->sim));
    free_world(world);
    free(world);
}
