/* chaos/sim/wraps.c - functions between the parts that the linker replaces in the simulator (--wrap), so that it sees
 * what passes there and the parts stay as they are shipped:
 *
 *     lq_group_open   every state machine gets a layer that compares what it is given and what becomes of it
 *     lq_rlog_read    reads in flight are known, so that a crash can let go of them
 *
 * One world runs at a time in a process, so the lists are static here. */
#include "chaos/sim/wraps.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

#include "chaos/sim/watch.h"
#include "client/base/crc.h"
#include "node/queue/command.h"
#include "raft/group.h"

#define STATE_EVERY 16 /* entries */
#define STATE_MAX   (64u * 1024 * 1024)

/* ---- state machines */

/* Between a group and its machine. */
struct layer {
    struct world *world;
    struct sim_node *node;
    const struct lq_machine_ops *ops;
    void *machine;
    uint64_t group;
    uint64_t applied; /* 0: not known yet */
    bool loaded;
    uint32_t loaded_state;
    struct layer *next;
};

static struct world *watched;
static struct layer *layers;

static uint32_t state_of(const struct layer *layer)
{
    struct lq_writer writer;
    lq_writer_init(&writer, STATE_MAX);
    lightq_status status = layer->ops->save(layer->machine, &writer);
    uint32_t crc = status == LIGHTQ_OK ? lq_crc32c(0, writer.bytes, writer.size) : 0;
    if (status != LIGHTQ_OK) {
        sim_fail(layer->world->sim, "node %u group %" PRIu64 ": its state cannot be saved: %s", layer->node->id,
                 layer->group, lightq_status_name(status));
    }
    lq_writer_deinit(&writer);
    return crc;
}

/* A partition has applied @entry: where did its batch go? */
static void look_at_partition(struct layer *layer, unsigned number, const struct lq_entry *entry, uint64_t end)
{
    struct world *world = layer->world;
    const struct lq_partition *partition = layer->machine;
    struct truth_log *log = &world->truth.logs[number];
    struct lq_command command;
    if (lq_partition_start(partition) > log->start) {
        struct lq_err err = {.text = ""};
        log->start = lq_partition_start(partition);
        world_noted(world, lq_history_trim(&world->history, world_now(world), world->logs[number], log->start, &err),
                    &err);
    }
    grouper_applied(world->groupers[number], partition);
    if (lq_partition_end(partition) == end) {
        return;
    }
    if (lq_command_decode(entry->payload, entry->payload_size, &command) != LIGHTQ_OK ||
        command.type != LQ_COMMAND_APPEND || entry->base_offset != end ||
        lq_partition_end(partition) != end + entry->message_count) {
        sim_fail(world->sim, "partition %u: entry %" PRIu64 " moves the end from %" PRIu64 " to %" PRIu64, number,
                 entry->index, end, lq_partition_end(partition));
        return;
    }
    const struct truth_batch batch = {.offset = entry->base_offset,
                                      .producer = command.append.producer_id,
                                      .sequence = command.append.sequence,
                                      .index = entry->index,
                                      .term = entry->term,
                                      .crc = command.append.batch_crc,
                                      .count = entry->message_count,
                                      .epoch = command.append.epoch,
                                      .begins_epoch = command.append.begins_epoch};
    truth_batch(world, number, &batch);
}

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    struct layer *layer = machine;
    struct world *world = layer->world;
    struct truth_group *group = truth_group(world, layer->group);
    unsigned number = world_partition(world, layer->group);
    if (layer->applied != 0 && entry->index != layer->applied + 1) {
        sim_fail(world->sim, "node %u group %" PRIu64 ": entry %" PRIu64 " is applied after %" PRIu64, layer->node->id,
                 layer->group, entry->index, layer->applied);
    }
    if (layer->loaded) {
        truth_state(world, group, entry->index - 1, layer->loaded_state);
        layer->loaded = false;
    }
    truth_applied(world, group, entry, lq_get_u32(entry->payload - LQ_ENTRY_HEADER_BYTES));
    uint64_t end = number < WORLD_PARTITIONS ? lq_partition_end(layer->machine) : 0;
    lightq_status status = layer->ops->apply(layer->machine, entry, slab);
    if (status != LIGHTQ_OK) {
        sim_fail(world->sim, "node %u group %" PRIu64 ": entry %" PRIu64 " cannot be applied: %s", layer->node->id,
                 layer->group, entry->index, lightq_status_name(status));
        return status;
    }
    layer->applied = entry->index;
    if (number < WORLD_PARTITIONS) {
        look_at_partition(layer, number, entry, end);
    }
    if (entry->index % STATE_EVERY == 0) {
        truth_state(world, group, entry->index, state_of(layer));
    }
    return LIGHTQ_OK;
}

static void on_lead(void *machine, uint64_t term)
{
    struct layer *layer = machine;
    struct world *world = layer->world;
    unsigned number = world_partition(world, layer->group);
    if (number < WORLD_PARTITIONS) {
        struct lq_err err = {.text = ""};
        char name[16];
        uint32_t node;
        snprintf(name, sizeof name, "n%u", layer->node->id);
        world_noted(world, lq_history_node(&world->history, lq_word_of(name), &node, &err), &err);
        world_noted(world,
                    lq_history_leader(&world->history, world_now(world), node, world->logs[number], term, node, &err),
                    &err);
    }
    layer->ops->lead(layer->machine, term);
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    struct layer *layer = machine;
    layer->ops->follow(layer->machine, leader, term);
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    struct layer *layer = machine;
    size_t from = writer->size;
    lightq_status status = layer->ops->save(layer->machine, writer);
    if (status == LIGHTQ_OK && layer->applied != 0) {
        truth_state(layer->world, truth_group(layer->world, layer->group), layer->applied,
                    lq_crc32c(0, writer->bytes + from, writer->size - from));
    }
    return status;
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    struct layer *layer = machine;
    lightq_status status = layer->ops->load(layer->machine, bytes, size);
    layer->applied = 0;
    layer->loaded = status == LIGHTQ_OK && size != 0;
    layer->loaded_state = size == 0 ? 0 : lq_crc32c(0, bytes, size);
    if (layer->loaded && state_of(layer) != layer->loaded_state) {
        sim_fail(layer->world->sim, "node %u group %" PRIu64 ": a loaded state is saved as another one",
                 layer->node->id, layer->group);
    }
    return status;
}

static uint64_t on_trim_to(void *machine)
{
    struct layer *layer = machine;
    return layer->ops->trim_to(layer->machine);
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    struct layer *layer = machine;
    layer->ops->stopped(layer->machine, status, err);
    keeper_on_stopped(layer->world, layer->node->id - 1, layer->group, status, err->text);
}

static void on_servers(void *machine, const struct lq_servers *servers)
{
    struct layer *layer = machine;
    if (layer->ops->servers != NULL) {
        layer->ops->servers(layer->machine, servers);
    }
}

static const struct lq_machine_ops layer_ops = {.apply = on_apply,
                                                .lead = on_lead,
                                                .follow = on_follow,
                                                .save = on_save,
                                                .load = on_load,
                                                .trim_to = on_trim_to,
                                                .stopped = on_stopped,
                                                .servers = on_servers};

lightq_status __real_lq_group_open(struct lq_host *host, uint64_t group, uint32_t incarnation,
                                   const struct lq_servers *bootstrap, const struct lq_machine_ops *ops, void *machine,
                                   struct lq_group **out, struct lq_err *err);
lightq_status __wrap_lq_group_open(struct lq_host *host, uint64_t group, uint32_t incarnation,
                                   const struct lq_servers *bootstrap, const struct lq_machine_ops *ops, void *machine,
                                   struct lq_group **out, struct lq_err *err);

lightq_status __wrap_lq_group_open(struct lq_host *host, uint64_t group, uint32_t incarnation,
                                   const struct lq_servers *bootstrap, const struct lq_machine_ops *ops, void *machine,
                                   struct lq_group **out, struct lq_err *err)
{
    struct layer *layer = calloc(1, sizeof *layer);
    assert(layer != NULL);
    layer->node = host->owner;
    layer->world = world_of(layer->node->sim);
    layer->ops = ops;
    layer->machine = machine;
    layer->group = group;
    LL_PREPEND(layers, layer);
    return __real_lq_group_open(host, group, incarnation, bootstrap, &layer_ops, layer, out, err);
}

/* ---- reads */

struct reading {
    struct lq_rlog_read *read;
    unsigned node;
    void (*cb)(struct lq_rlog_read *read, lightq_status status);
    struct reading *prev, *next;
};

static struct reading *readings;

static unsigned node_of(struct lq_rlog *log)
{
    for (unsigned i = 0; i < watched->nodes; i++) {
        const struct sim_node *node = sim_node_at(watched->sim, i);
        if (node->store != NULL && lq_store_find(node->store, lq_rlog_group(log)) == log) {
            return i;
        }
    }
    return watched->nodes;
}

static struct reading *find_reading(const struct lq_rlog_read *read)
{
    struct reading *at;
    DL_FOREACH(readings, at)
    {
        if (at->read == read) {
            break;
        }
    }
    return at;
}

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    struct reading *reading = find_reading(read);
    void (*cb)(struct lq_rlog_read * read, lightq_status status) = reading->cb;
    DL_DELETE(readings, reading);
    free(reading);
    read->cb = cb;
    cb(read, status);
}

lightq_status __real_lq_rlog_read(struct lq_rlog *log, struct lq_rlog_read *read);
lightq_status __wrap_lq_rlog_read(struct lq_rlog *log, struct lq_rlog_read *read);

lightq_status __wrap_lq_rlog_read(struct lq_rlog *log, struct lq_rlog_read *read)
{
    struct reading *reading = calloc(1, sizeof *reading);
    assert(reading != NULL);
    *reading = (struct reading){.read = read, .node = node_of(log), .cb = read->cb};
    read->cb = on_read;
    lightq_status status = __real_lq_rlog_read(log, read);
    if (status != LIGHTQ_OK) {
        read->cb = reading->cb;
        free(reading);
        return status;
    }
    DL_APPEND(readings, reading);
    return LIGHTQ_OK;
}

void wraps_stop(struct machine *machine)
{
    for (struct lq_read *read = machine->node->host->reads; read != NULL; read = read->next) {
        struct reading *reading = find_reading(&read->read);
        if (reading != NULL) {
            DL_DELETE(readings, reading);
            free(reading);
        }
    }
}

void wraps_cancel_reads(struct machine *machine)
{
    struct reading *reading;
    struct reading *next;
    DL_FOREACH_SAFE(readings, reading, next)
    {
        if (reading->node == machine->node->id - 1) {
            on_read(reading->read, LIGHTQ_ECANCELED);
        }
    }
}

/* ---- life */

void wraps_begin(struct world *world)
{
    watched = world;
}

void wraps_end(void)
{
    while (layers != NULL) {
        struct layer *layer = layers;
        LL_DELETE(layers, layer);
        free(layer);
    }
    assert(readings == NULL);
    watched = NULL;
}
