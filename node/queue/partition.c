/* node/queue/partition.c - the machine that a partition's Raft group drives, its watchers and its life. Batches come in
 * through intake.c, what they mean is in state.c. See partition.h. */
#include "node/queue/partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/queue/partition_internal.h"

void lq_partition_wake(struct lq_partition *partition)
{
    if (!partition->woken) {
        partition->woken = true;
        partition->options.port->wake(partition->options.port_owner, partition);
    }
}

static void note(struct lq_partition *partition, unsigned events)
{
    if (events == 0) {
        return;
    }
    partition->events |= events;
    if (partition->watchers != NULL) {
        lq_partition_wake(partition);
    }
}

/* ---- the machine ---- */

static unsigned events_of(const struct lq_partition *partition, const struct lq_command *command,
                          uint64_t start_offset_before)
{
    switch (command->type) {
    case LQ_COMMAND_APPEND:
        return LQ_PARTITION_APPLIED;
    case LQ_COMMAND_TRIM:
        return partition->state.start_offset != start_offset_before ? LQ_PARTITION_TRIMMED : 0;
    case LQ_COMMAND_CONFIG:
        return LQ_PARTITION_CONFIGURED;
    case LQ_COMMAND_FORGET:
    case LQ_COMMAND_SKIP:
        break;
    case LQ_COMMAND_GROUP_CREATE:
    case LQ_COMMAND_GROUP_DELETE:
    case LQ_COMMAND_GROUP_SEEK:
    case LQ_COMMAND_GROUP_ALTER:
    case LQ_COMMAND_GROUP_DLQ:
        return LQ_PARTITION_GROUPS;
    case LQ_COMMAND_SETTLE:
        return partition->state.outcome.dead > 0 ? LQ_PARTITION_DEAD_LETTERS : 0;
    case LQ_COMMAND_COMMIT:
    case LQ_COMMAND_DONE:
        break; /* who delivers watches its group (partition_groups.h), so that a hundred groups do not wake each other
                */
    }
    return 0;
}

/* It does not lead, whatever it thought before. */
static void step_down(struct lq_partition *partition, lightq_status status)
{
    partition->leading = false;
    partition->in_machine++;
    lq_intake_drop(partition, status);
    lq_purge_desk_drop(partition, status);
    lq_group_desk_drop(partition, status);
    partition->in_machine--;
}

lightq_status lq_partition_apply(struct lq_partition *partition, const struct lq_entry *entry)
{
    struct lq_command command;
    struct lq_err err = {.status = LIGHTQ_OK};
    uint64_t start_offset_before = partition->state.start_offset;
    if (partition->leading && entry->term != partition->term) {
        step_down(partition, LIGHTQ_ENOTLEADER); /* it was lost, and follow() has not come yet */
    }
    lightq_status status = lq_queue_state_apply(&partition->state, entry, &command, &err);
    if (status != LIGHTQ_OK) {
        lq_log(ERROR, "a committed entry cannot be applied, this replica stops", "group", partition->options.group,
               "index", entry->index, "why", err.text);
        return status;
    }
    unsigned events = events_of(partition, &command, start_offset_before);
    partition->trim_stale |= (events & LQ_PARTITION_TRIMMED) != 0;
    partition->in_machine++;
    lq_intake_applied(partition, entry, &command);
    lq_purge_desk_applied(partition, entry);
    lq_group_desk_applied(partition, entry, &command);
    partition->in_machine--;
    note(partition, events);
    return LIGHTQ_OK;
}

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    (void)slab;
    return lq_partition_apply(machine, entry);
}

static void on_lead(void *machine, uint64_t term)
{
    struct lq_partition *partition = machine;
    if (partition->leading) {
        step_down(partition, LIGHTQ_ENOTLEADER); /* of an earlier term, that nobody saw end */
    }
    partition->leading = true;
    partition->leader = partition->options.self;
    partition->term = term;
    lq_intake_lead(partition);
    note(partition, LQ_PARTITION_LEADERSHIP);
    if (lq_intake_needs_turn(partition)) {
        lq_partition_wake(partition);
    }
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    struct lq_partition *partition = machine;
    step_down(partition, LIGHTQ_ENOTLEADER);
    partition->leader = leader;
    partition->term = term;
    note(partition, LQ_PARTITION_LEADERSHIP);
}

lightq_status lq_partition_save(struct lq_partition *partition, struct lq_writer *writer)
{
    return lq_queue_state_save(&partition->state, writer);
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    return lq_partition_save(machine, writer);
}

lightq_status lq_partition_load(struct lq_partition *partition, const uint8_t *bytes, size_t size)
{
    struct lq_queue_state state;
    lq_queue_state_init(&state);
    lightq_status status = lq_queue_state_load(&state, bytes, size);
    if (status != LIGHTQ_OK) {
        lq_queue_state_deinit(&state);
        return status;
    }
    step_down(partition, LIGHTQ_ENOTLEADER); /* a leader is never given a state: this is for the impossible */
    lq_queue_state_deinit(&partition->state);
    partition->state = state;
    partition->trim_index = 0;
    partition->trim_stale = true;
    note(partition, LQ_PARTITION_RELOADED);
    return LIGHTQ_OK;
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    return lq_partition_load(machine, bytes, size);
}

static uint64_t on_trim_to(void *machine)
{
    struct lq_partition *partition = machine;
    if (partition->trim_stale && partition->state.start_offset > 0) {
        uint64_t index =
            partition->options.port->seek_offset(partition->options.port_owner, partition->state.start_offset);
        /* The log looks among entries that are not committed too, and others may come in their place, with messages:
         * what is not applied counts for nothing, and it is asked again. And until the log knows at all. */
        bool is_applied = index > 0 && index - 1 <= partition->state.applied_index;
        if (index > 0) {
            partition->trim_stale = !is_applied;
            partition->trim_index = is_applied ? index - 1 : partition->state.applied_index;
        }
    }
    return partition->trim_index;
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    struct lq_partition *partition = machine;
    partition->stopped = true;
    partition->why = *err;
    partition->why.status = status;
    partition->leader = 0; /* whoever it is: what this replica knew is no longer true, above all that it is itself */
    step_down(partition, LIGHTQ_ESTOPPED);
    note(partition, LQ_PARTITION_STOPPED | LQ_PARTITION_LEADERSHIP);
}

static void on_servers(void *machine, const struct lq_servers *servers)
{
    struct lq_partition *partition = machine;
    partition->servers = *servers;
    note(partition, LQ_PARTITION_LEADERSHIP);
}

const struct lq_machine_ops lq_partition_machine_ops = {
    .apply = on_apply,
    .lead = on_lead,
    .follow = on_follow,
    .save = on_save,
    .load = on_load,
    .trim_to = on_trim_to,
    .stopped = on_stopped,
    .servers = on_servers,
};

/* ---- watchers ---- */

void lq_partition_watch(struct lq_partition *partition, struct lq_partition_watcher *watcher)
{
    watcher->partition = partition;
    watcher->previous = NULL;
    watcher->next = partition->watchers;
    if (watcher->next != NULL) {
        watcher->next->previous = watcher;
    }
    partition->watchers = watcher;
}

void lq_partition_unwatch(struct lq_partition_watcher *watcher)
{
    struct lq_partition *partition = watcher->partition;
    if (partition == NULL) {
        return;
    }
    if (partition->telling == watcher) {
        partition->telling = watcher->next;
    }
    *(watcher->previous != NULL ? &watcher->previous->next : &partition->watchers) = watcher->next;
    if (watcher->next != NULL) {
        watcher->next->previous = watcher->previous;
    }
    watcher->partition = NULL;
}

static void tell_watchers(struct lq_partition *partition)
{
    unsigned events = partition->events;
    partition->events = 0;
    partition->telling = events != 0 ? partition->watchers : NULL;
    while (partition->telling != NULL) {
        struct lq_partition_watcher *watcher = partition->telling;
        partition->telling = watcher->next;
        watcher->cb(watcher, events);
    }
}

/* ---- life ---- */

lightq_status lq_partition_new(const struct lq_partition_options *options, struct lq_partition **out)
{
    struct lq_partition *partition = calloc(1, sizeof *partition);
    if (partition == NULL) {
        return LIGHTQ_ENOMEM;
    }
    partition->options = *options;
    if (options->producers_max == 0) {
        partition->options.producers_max = LQ_PRODUCERS_MAX;
    }
    if (options->waiting_max == 0) {
        partition->options.waiting_max = LQ_PARTITION_WAITING_MAX;
    }
    if (options->waiting_bytes_max == 0) {
        partition->options.waiting_bytes_max = LQ_PARTITION_WAITING_BYTES_MAX;
    }
    lq_queue_state_init(&partition->state);
    *out = partition;
    return LIGHTQ_OK;
}

void lq_partition_free(struct lq_partition *partition)
{
    if (partition == NULL) {
        return;
    }
    partition->woken = true; /* nobody is to be woken for it any more */
    step_down(partition, LIGHTQ_ECLOSED);
    partition->stopped = true; /* what callbacks hand in now is refused */
    lq_intake_turn(partition);
    lq_purge_desk_turn(partition);
    lq_group_desk_turn(partition);
    assert(partition->waiting == 0 && partition->desk.waiting == 0);
    while (partition->watchers != NULL) {
        struct lq_partition_watcher *watcher = partition->watchers;
        lq_partition_unwatch(watcher);
        watcher->cb(watcher, LQ_PARTITION_CLOSED);
    }
    lq_queue_state_deinit(&partition->state);
    free(partition);
}

void lq_partition_set_group(struct lq_partition *partition, struct lq_group *group)
{
    partition->group = group;
}

void lq_partition_turn(struct lq_partition *partition)
{
    partition->woken = false;
    lq_group_desk_turn(partition); /* results first: they make room */
    lq_intake_turn(partition);
    lq_purge_desk_turn(partition);
    tell_watchers(partition);
    if (lq_partition_needs_turn(partition)) {
        lq_partition_wake(partition);
    }
}

bool lq_partition_needs_turn(const struct lq_partition *partition)
{
    return lq_intake_needs_turn(partition) || lq_purge_desk_needs_turn(partition) ||
           lq_group_desk_needs_turn(partition) || (partition->events != 0 && partition->watchers != NULL);
}

void lq_partition_set_config(struct lq_partition *partition, const struct lq_id *topic, uint32_t number,
                             const struct lq_topic_config *config)
{
    partition->has_wanted = true;
    partition->wanted_topic = *topic;
    partition->wanted_number = number;
    partition->wanted_config = *config;
    if (lq_intake_needs_turn(partition)) {
        lq_partition_wake(partition);
    }
}

/* ---- reading ---- */

void lq_partition_status(const struct lq_partition *partition, struct lq_partition_status *status)
{
    const struct lq_queue_state *state = &partition->state;
    *status = (struct lq_partition_status){
        .group = partition->options.group,
        .start_offset = state->start_offset,
        .end_offset = state->end_offset,
        .applied_index = state->applied_index,
        .applied_term = state->applied_term,
        .timestamp_ms = state->timestamp_ms,
        .digest = state->digest,
        .bytes = state->bytes - state->start_bytes,
        .term = partition->term,
        .leader = partition->leader,
        .leading = partition->leading,
        .stopped = partition->stopped,
        .stopped_status = partition->why.status,
        .stopped_text = partition->why.text,
        .topic = state->topic,
        .number = state->partition,
        .config = state->config,
        .producers = state->producers.count,
        .waiting = partition->waiting,
    };
}

uint64_t lq_partition_start(const struct lq_partition *partition)
{
    return partition->state.start_offset;
}

uint64_t lq_partition_end(const struct lq_partition *partition)
{
    return partition->state.end_offset;
}

uint64_t lq_partition_applied(const struct lq_partition *partition)
{
    return partition->state.applied_index;
}

bool lq_partition_leading(const struct lq_partition *partition)
{
    return partition->leading;
}

uint64_t lq_partition_term(const struct lq_partition *partition)
{
    return partition->term;
}

lq_replica_id lq_partition_leader(const struct lq_partition *partition)
{
    return partition->leader;
}

const struct lq_servers *lq_partition_servers(const struct lq_partition *partition)
{
    return &partition->servers;
}

struct lq_group *lq_partition_group(const struct lq_partition *partition)
{
    return partition->group;
}

bool lq_partition_entry_batch(const struct lq_entry *entry, const uint8_t **batch, uint32_t *size)
{
    struct lq_command command;
    if (entry->type != LQ_ENTRY_COMMAND ||
        lq_command_decode(entry->payload, entry->payload_size, &command) != LIGHTQ_OK ||
        command.type != LQ_COMMAND_APPEND) {
        return false;
    }
    *batch = command.append.batch;
    *size = command.append.batch_size;
    return true;
}
