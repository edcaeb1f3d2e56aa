/* node/queue/partition_groups.c - see partition_groups.h: the desk where changes of consumer groups and results of
 * their messages are handed in, proposed and answered. Called by node/ and by partition.c. Loop thread only.
 *
 * Nothing is proposed but in a turn, so all results that came in one turn of the loop for a group become one SETTLE (a
 * few when they are many), and changes go in the order they came. A request for results waits for the last SETTLE that
 * may hold something of it: it is gathered until everything its group has gathered is proposed, then proposed, with the
 * index of that last entry. */
#include "node/queue/partition_groups.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "node/queue/name.h"
#include "node/queue/partition_internal.h"

const struct lq_cgroups *lq_partition_groups(const struct lq_partition *partition)
{
    return &partition->state.cgroups;
}

/* ---- queues */

static void push_change(struct lq_group_request_queue *queue, struct lq_group_request *request)
{
    request->next = NULL;
    *(queue->first == NULL ? &queue->first : &queue->last->next) = request;
    queue->last = request;
}

static struct lq_group_request *pop_change(struct lq_group_request_queue *queue)
{
    struct lq_group_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
    }
    return request;
}

static void push_settle(struct lq_settle_request_queue *queue, struct lq_settle_request *request)
{
    request->next = NULL;
    *(queue->first == NULL ? &queue->first : &queue->last->next) = request;
    queue->last = request;
}

static struct lq_settle_request *pop_settle(struct lq_settle_request_queue *queue)
{
    struct lq_settle_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
    }
    return request;
}

static void decide_change(struct lq_partition *partition, struct lq_group_request *request, lightq_status status)
{
    request->final = status;
    push_change(&partition->desk.decided, request);
    lq_partition_wake(partition);
}

static void decide_settle(struct lq_partition *partition, struct lq_settle_request *request, lightq_status status)
{
    request->result = status;
    push_settle(&partition->desk.settled, request);
    lq_partition_wake(partition);
}

static void decide_all(struct lq_partition *partition, struct lq_settle_request_queue *queue, lightq_status status)
{
    struct lq_settle_request *request;
    while ((request = pop_settle(queue)) != NULL) {
        decide_settle(partition, request, status);
    }
}

/* ---- hubs */

static struct lq_group_hub *find_hub(const struct lq_partition *partition, uint64_t number)
{
    struct lq_group_hub *hub;
    LL_SEARCH_SCALAR(partition->desk.hubs, hub, number, number);
    return hub;
}

static void touch(struct lq_partition *partition, struct lq_group_hub *hub)
{
    hub->can_go_on = true;
    partition->desk.dirty = true;
    lq_partition_wake(partition);
}

/* The leases go; requests that are proposed are answered yet. */
static void close_leases(struct lq_partition *partition, struct lq_group_hub *hub)
{
    while (hub->watchers != NULL) {
        lq_partition_group_unwatch(hub->watchers);
    }
    partition->desk.telling = NULL;
    lq_leases_free(hub->leases);
    hub->leases = NULL;
}

static void free_hub(struct lq_partition *partition, struct lq_group_hub *hub)
{
    assert(hub->leases == NULL && hub->gathered.first == NULL && hub->proposed.first == NULL);
    LL_DELETE(partition->desk.hubs, hub);
    free(hub);
}

static lightq_status judge_leading(const struct lq_partition *partition)
{
    return partition->stopped ? LIGHTQ_ESTOPPED : partition->leading ? LIGHTQ_OK : LIGHTQ_ENOTLEADER;
}

lightq_status lq_partition_leases(struct lq_partition *partition, uint64_t number, struct lq_leases **leases)
{
    lightq_status status = judge_leading(partition);
    const struct lq_cgroup *cgroup = lq_cgroups_find(&partition->state.cgroups, number);
    if (status != LIGHTQ_OK || cgroup == NULL) {
        return status != LIGHTQ_OK ? status : LIGHTQ_ENOTFOUND;
    }
    if (cgroup->options.mode != LQ_CGROUP_PIPELINE) {
        return LIGHTQ_EINVAL;
    }
    struct lq_group_hub *hub = find_hub(partition, number);
    if (hub == NULL) {
        hub = calloc(1, sizeof *hub);
        if (hub == NULL) {
            return LIGHTQ_ENOMEM;
        }
        hub->number = number;
        status = lq_leases_new(cgroup, lq_clock_monotonic_us(partition->options.clock),
                               lq_clock_wall_ms(partition->options.clock), &hub->leases);
        if (status != LIGHTQ_OK) {
            free(hub);
            return status;
        }
        LL_PREPEND(partition->desk.hubs, hub);
    }
    *leases = hub->leases;
    return LIGHTQ_OK;
}

void lq_partition_group_touch(struct lq_partition *partition, uint64_t number)
{
    struct lq_group_hub *hub = find_hub(partition, number);
    if (hub != NULL) {
        touch(partition, hub);
    }
}

void lq_partition_group_watch(struct lq_partition *partition, uint64_t number, struct lq_group_watcher *watcher)
{
    struct lq_group_hub *hub = find_hub(partition, number);
    assert(hub != NULL && hub->leases != NULL);
    watcher->hub = hub;
    watcher->partition = partition;
    DL_APPEND2(hub->watchers, watcher, previous, next);
}

void lq_partition_group_unwatch(struct lq_group_watcher *watcher)
{
    if (watcher->hub == NULL) {
        return;
    }
    struct lq_group_desk *desk = &watcher->partition->desk;
    if (desk->telling == watcher) {
        desk->telling = watcher->next;
    }
    DL_DELETE2(watcher->hub->watchers, watcher, previous, next);
    watcher->hub = NULL;
}

/* ---- handing in */

static lightq_status judge_change(const struct lq_command *command)
{
    switch (command->type) {
    case LQ_COMMAND_GROUP_CREATE:
        if (lq_name_check(command->group_create.name, command->group_create.name_size) != LIGHTQ_OK) {
            return LIGHTQ_ENAME;
        }
        return lq_cgroup_options_check(&command->group_create.options);
    case LQ_COMMAND_GROUP_ALTER:
        return command->group_alter.mask > LQ_CGROUP_ALTER_ALL ? LIGHTQ_EINVAL
                                                               : lq_cgroup_options_check(&command->group_alter.options);
    case LQ_COMMAND_GROUP_DELETE:
    case LQ_COMMAND_GROUP_SEEK:
    case LQ_COMMAND_GROUP_DLQ:
    case LQ_COMMAND_COMMIT:
    case LQ_COMMAND_DONE:
        return LIGHTQ_OK;
    default:
        return LIGHTQ_EINVAL;
    }
}

/* Would every replica take the command for one? Only bytes that all can decode may be proposed. */
static lightq_status judge_encoding(const struct lq_command *command, struct lq_writer *writer)
{
    struct lq_command decoded;
    lq_command_encode(command, writer);
    if (writer->status != LIGHTQ_OK) {
        return writer->status;
    }
    return lq_command_decode(writer->bytes, (uint32_t)writer->size, &decoded) == LIGHTQ_OK ? LIGHTQ_OK : LIGHTQ_EINVAL;
}

lightq_status lq_partition_group_change(struct lq_partition *partition, struct lq_group_request *request)
{
    lightq_status status = judge_leading(partition);
    if (status == LIGHTQ_OK) {
        status = judge_change(&request->command);
    }
    if (status == LIGHTQ_OK && partition->desk.waiting >= LQ_CGROUP_REQUESTS_MAX) {
        status = LIGHTQ_EBUSY;
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    request->result = (struct lq_cgroup_result){.status = LIGHTQ_OK};
    push_change(&partition->desk.queued, request);
    partition->desk.waiting++;
    if (!partition->blocked) {
        lq_partition_wake(partition);
    }
    return LIGHTQ_OK;
}

lightq_status lq_partition_settle(struct lq_partition *partition, struct lq_settle_request *request)
{
    lightq_status status = judge_leading(partition);
    if (status == LIGHTQ_OK && partition->desk.waiting >= LQ_CGROUP_REQUESTS_MAX) {
        status = LIGHTQ_EBUSY;
    }
    struct lq_leases *leases;
    if (status == LIGHTQ_OK) {
        status = lq_partition_leases(partition, request->group, &leases);
    }
    if (status == LIGHTQ_OK &&
        lq_cgroups_find(&partition->state.cgroups, request->group)->generation != request->generation) {
        status = LIGHTQ_EFENCED;
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_group_hub *hub = find_hub(partition, request->group);
    uint64_t now_us = lq_clock_monotonic_us(partition->options.clock);
    request->counts = (struct lq_settle_counts){.taken = 0};
    for (size_t i = 0; i < request->item_count && status == LIGHTQ_OK; i++) {
        status = lq_leases_settle(leases, request->consumer, &request->items[i], partition->state.end_offset, now_us,
                                  &request->counts);
    }
    touch(partition, hub); /* also after a failure: some may be gathered */
    if (status != LIGHTQ_OK) {
        return status;
    }
    partition->desk.waiting++;
    if (lq_leases_gathered(leases)) {
        push_settle(&hub->gathered, request);
    } else if (hub->last_index > partition->state.applied_index) {
        request->index = hub->last_index;
        push_settle(&hub->proposed, request);
    } else {
        decide_settle(partition, request, LIGHTQ_OK);
    }
    return LIGHTQ_OK;
}

/* ---- time */

uint64_t lq_partition_groups_deadline_us(const struct lq_partition *partition)
{
    uint64_t deadline_us = UINT64_MAX;
    for (const struct lq_group_hub *hub = partition->desk.hubs; hub != NULL; hub = hub->next) {
        uint64_t of_hub_us = hub->leases == NULL ? UINT64_MAX : lq_leases_deadline_us(hub->leases);
        deadline_us = of_hub_us < deadline_us ? of_hub_us : deadline_us;
    }
    return deadline_us;
}

void lq_partition_groups_tick(struct lq_partition *partition)
{
    uint64_t now_us = lq_clock_monotonic_us(partition->options.clock);
    for (struct lq_group_hub *hub = partition->desk.hubs; hub != NULL; hub = hub->next) {
        if (hub->leases != NULL && lq_leases_deadline_us(hub->leases) <= now_us) {
            lightq_status status = lq_leases_tick(hub->leases, now_us);
            (void)status; /* ENOMEM: its deadline stays, and it is ticked again */
            touch(partition, hub);
        }
    }
}

/* ---- proposing */

/* False: nothing more can be proposed now. */
static bool propose_change(struct lq_partition *partition)
{
    struct lq_group_request *request = pop_change(&partition->desk.queued);
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
    lightq_status status = judge_encoding(&request->command, &writer);
    if (status == LIGHTQ_OK) {
        status = lq_intake_propose(partition, writer.bytes, writer.size, &request->index);
    }
    lq_writer_deinit(&writer);
    if (status == LIGHTQ_EBUSY && partition->leading) {
        request->next = partition->desk.queued.first;
        if (partition->desk.queued.first == NULL) {
            partition->desk.queued.last = request;
        }
        partition->desk.queued.first = request;
        partition->blocked = true;
        return false;
    }
    if (status == LIGHTQ_OK && partition->leading) {
        push_change(&partition->desk.proposed, request);
        return true;
    }
    decide_change(partition, request, status == LIGHTQ_OK ? LIGHTQ_ELEADERSHIPLOST : status);
    return partition->leading;
}

/* Proposes what the group has gathered. False: nothing more can be proposed now; when leadership was lost inside, the
 * hub is gone. */
static bool propose_results(struct lq_partition *partition, struct lq_group_hub *hub)
{
    while (lq_leases_gathered(hub->leases)) {
        struct lq_writer writer;
        uint64_t index = 0;
        lq_writer_init(&writer, LQ_SETTLE_BYTES_MAX);
        lightq_status status = lq_leases_propose(hub->leases, LQ_SETTLE_BYTES_MAX, &writer);
        if (status == LIGHTQ_OK) {
            status = lq_intake_propose(partition, writer.bytes, writer.size, &index);
        }
        lq_writer_deinit(&writer);
        if (!partition->leading) {
            return false;
        }
        if (status != LIGHTQ_OK) {
            partition->blocked = true; /* again after the next apply */
            return false;
        }
        lq_leases_proposed(hub->leases);
        hub->last_index = index;
    }
    struct lq_settle_request *request;
    while ((request = pop_settle(&hub->gathered)) != NULL) {
        request->index = hub->last_index;
        push_settle(&hub->proposed, request);
    }
    return true;
}

static bool hub_is_dirty(const struct lq_group_hub *hub)
{
    return hub->leases != NULL && (hub->can_go_on || lq_leases_gathered(hub->leases));
}

static void propose(struct lq_partition *partition)
{
    struct lq_group_desk *desk = &partition->desk;
    while (partition->leading && !partition->blocked && desk->queued.first != NULL && propose_change(partition)) {
    }
    for (struct lq_group_hub *hub = desk->dirty ? desk->hubs : NULL;
         hub != NULL && partition->leading && !partition->blocked; hub = hub->next) {
        if (hub->leases != NULL && !propose_results(partition, hub)) {
            return;
        }
    }
}

/* ---- telling */

static void tell_watchers(struct lq_partition *partition, struct lq_group_hub *hub)
{
    struct lq_group_desk *desk = &partition->desk;
    hub->can_go_on = false;
    desk->telling = hub->watchers;
    while (desk->telling != NULL) {
        struct lq_group_watcher *watcher = desk->telling;
        desk->telling = watcher->next;
        watcher->cb(watcher);
    }
}

static void tell(struct lq_partition *partition)
{
    struct lq_group_desk *desk = &partition->desk;
    struct lq_group_request *change;
    struct lq_settle_request *settle;
    while ((change = pop_change(&desk->decided)) != NULL) {
        desk->waiting--;
        change->cb(change, change->final);
    }
    while ((settle = pop_settle(&desk->settled)) != NULL) {
        desk->waiting--;
        settle->cb(settle, settle->result);
    }
    if (!desk->dirty) {
        return;
    }
    desk->dirty = false;
    struct lq_group_hub *hub;
    struct lq_group_hub *next;
    uint64_t drops = desk->drops;
    LL_FOREACH_SAFE(desk->hubs, hub, next)
    {
        if (hub->leases == NULL && hub->proposed.first == NULL) {
            free_hub(partition, hub);
            continue;
        }
        if (hub->can_go_on) {
            tell_watchers(partition, hub);
        }
        if (desk->drops != drops) {
            return; /* leadership was lost inside, and all hubs with it */
        }
        desk->dirty |= hub_is_dirty(hub); /* what could not be proposed, or was handed in by a watcher */
    }
}

void lq_group_desk_turn(struct lq_partition *partition)
{
    propose(partition);
    tell(partition);
}

bool lq_group_desk_needs_turn(const struct lq_partition *partition)
{
    const struct lq_group_desk *desk = &partition->desk;
    bool can_propose = partition->leading && !partition->blocked;
    return desk->decided.first != NULL || desk->settled.first != NULL ||
           (can_propose && (desk->queued.first != NULL || desk->dirty));
}

/* ---- applied, and lost */

/* Requests of the hub that wait for @index or an earlier entry are decided. */
static void answer_settles(struct lq_partition *partition, struct lq_group_hub *hub, uint64_t index,
                           lightq_status status)
{
    while (hub->proposed.first != NULL && hub->proposed.first->index <= index) {
        decide_settle(partition, pop_settle(&hub->proposed), status);
    }
    partition->desk.dirty |= hub->leases == NULL && hub->proposed.first == NULL;
}

/* The group of @hub may have been changed by a command that is no SETTLE. */
static void look_again(struct lq_partition *partition, struct lq_group_hub *hub, uint64_t now_us)
{
    const struct lq_cgroup *cgroup = lq_cgroups_find(&partition->state.cgroups, hub->number);
    if (cgroup == NULL) {
        close_leases(partition, hub);
        decide_all(partition, &hub->gathered, LIGHTQ_ENOTFOUND);
    } else {
        uint64_t generation = lq_leases_generation(hub->leases);
        lq_leases_changed(hub->leases, now_us);
        if (lq_leases_generation(hub->leases) != generation) {
            decide_all(partition, &hub->gathered, LIGHTQ_EFENCED);
        }
    }
    touch(partition, hub);
}

static void changed(struct lq_partition *partition, const struct lq_command *command)
{
    uint64_t now_us = lq_clock_monotonic_us(partition->options.clock);
    struct lq_group_hub *hub;
    if (command->type == LQ_COMMAND_TRIM) {
        LL_FOREACH(partition->desk.hubs, hub)
        {
            if (hub->leases != NULL) {
                look_again(partition, hub, now_us);
            }
        }
        return;
    }
    hub = find_hub(partition, lq_cgroups_number_of(command));
    if (hub == NULL || hub->leases == NULL) {
        return;
    }
    if (command->type == LQ_COMMAND_SETTLE) {
        lq_leases_applied(hub->leases, &command->settle, now_us);
        touch(partition, hub);
    } else {
        look_again(partition, hub, now_us);
    }
}

void lq_group_desk_applied(struct lq_partition *partition, const struct lq_entry *entry,
                           const struct lq_command *command)
{
    struct lq_group_desk *desk = &partition->desk;
    bool concerns = lq_command_is_of_groups(command->type);
    if (desk->hubs != NULL && (concerns || command->type == LQ_COMMAND_TRIM)) {
        changed(partition, command);
    }
    if (command->type == LQ_COMMAND_SETTLE) {
        struct lq_group_hub *hub = find_hub(partition, command->settle.group);
        if (hub != NULL) {
            answer_settles(partition, hub, entry->index, partition->state.outcome.status);
        }
    } else if (concerns && desk->proposed.first != NULL && desk->proposed.first->index == entry->index) {
        struct lq_group_request *request = pop_change(&desk->proposed);
        request->result = partition->state.outcome;
        decide_change(partition, request, request->result.status);
    }
    if (desk->queued.first != NULL || desk->dirty) {
        lq_partition_wake(partition);
    }
}

void lq_group_desk_drop(struct lq_partition *partition, lightq_status status)
{
    struct lq_group_desk *desk = &partition->desk;
    struct lq_group_request *request;
    desk->drops++;
    while ((request = pop_change(&desk->proposed)) != NULL) {
        decide_change(partition, request, LIGHTQ_ELEADERSHIPLOST);
    }
    while ((request = pop_change(&desk->queued)) != NULL) {
        decide_change(partition, request, status);
    }
    while (desk->hubs != NULL) {
        struct lq_group_hub *hub = desk->hubs;
        close_leases(partition, hub);
        decide_all(partition, &hub->proposed, LIGHTQ_ELEADERSHIPLOST);
        decide_all(partition, &hub->gathered, status);
        free_hub(partition, hub);
    }
    desk->dirty = false;
}
