/* chaos/sim/grouper.c - see grouper.h. */
#include "chaos/sim/grouper.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "chaos/sim/world.h"
#include "node/queue/partition_groups.h"

enum {
    STEP_US = 40000,
    CONSUMERS = 3,
    CREDIT = 40,
    BATCH = 16,
    GRANTS = 4,
    HELD_MAX = 256,
    OFFSETS_MAX = 1 << 20,
    ACK_WAIT_MS = 800,
    MAX_DELIVER = 3,
    LOOKED_AT = 64, /* messages whose state is compared in a step */
};

/* What is known of a message since the group was made or moved. */
struct fate {
    uint8_t failed; /* deliveries, as some leader had them */
    bool attempted; /* somebody wanted it to be settled */
    bool dead;      /* some leader had its dead letter */
    bool settled;   /* somebody was told so */
};

/* A change or a result that was handed in. The memory stays until it is answered, or the world ends. */
struct asked {
    struct grouper *grouper;
    struct lq_group_request change;
    struct lq_settle_request settle;
    struct lq_settle_item item;
    uint64_t generation;
    bool answered;
    struct asked *next;
};

struct held {
    uint64_t offset;
    lq_lease_consumer consumer;
};

struct grouper {
    struct world *world;
    unsigned partition;
    uint64_t random;
    struct fate *fates;
    uint64_t number, generation, floor; /* of the group */
    uint64_t letters, letters_seen;     /* known to be done, and to have been */
    struct asked *asked;
    unsigned open; /* asked and not answered */
    /* At the leader that it works with. */
    unsigned node;
    uint64_t term;
    bool joined;
    lq_lease_consumer consumers[CONSUMERS];
    struct held held[HELD_MAX];
    unsigned held_count;
    bool drained;
};

static uint64_t below(struct grouper *grouper, uint64_t bound)
{
    grouper->random ^= grouper->random >> 12;
    grouper->random ^= grouper->random << 25;
    grouper->random ^= grouper->random >> 27;
    return grouper->random * UINT64_C(2685821657736338717) % bound;
}

/* The replica that leads in the highest term there was; NULL: none. One of a lower term has been deposed. */
static struct lq_partition *find_leader(struct grouper *grouper)
{
    struct world *world = grouper->world;
    struct lq_partition *leader = NULL;
    unsigned node = grouper->node;
    uint64_t term = grouper->term;
    for (unsigned i = 0; i < world->nodes; i++) {
        struct lq_meta *meta = world->machines[i].meta;
        struct lq_partition *partition =
            meta == NULL ? NULL : lq_meta_partition(meta, world->groups[grouper->partition]);
        if (partition != NULL && lq_partition_leading(partition) && lq_partition_term(partition) >= term) {
            leader = partition;
            node = i;
            term = lq_partition_term(partition);
        }
    }
    if (term != grouper->term) {
        grouper->joined = false;
        grouper->held_count = 0;
    }
    grouper->node = node;
    grouper->term = term;
    return leader;
}

/* The group that a replica has, if it is not an older one than is known. False: it is. */
static bool notice(struct grouper *grouper, const struct lq_cgroup *cgroup)
{
    if (cgroup->generation <= grouper->generation) {
        return cgroup->generation == grouper->generation;
    }
    bool is_new = cgroup->number != grouper->number;
    memset(grouper->fates, 0, OFFSETS_MAX * sizeof *grouper->fates);
    grouper->world->result.groups_moved++;
    grouper->number = cgroup->number;
    grouper->generation = cgroup->generation;
    grouper->floor = cgroup->settled.floor;
    grouper->held_count = 0;
    grouper->joined &= !is_new;
    grouper->letters = is_new ? 0 : grouper->letters;
    grouper->letters_seen = cgroup->dead.done;
    return true;
}

void grouper_applied(struct grouper *grouper, const struct lq_partition *partition)
{
    const struct lq_cgroup *cgroup =
        grouper == NULL ? NULL : lq_cgroups_find_name(lq_partition_groups(partition), "sim", 3);
    if (cgroup == NULL || !notice(grouper, cgroup)) {
        return;
    }
    for (uint64_t number = grouper->letters_seen; number < cgroup->dead.next; number++) {
        const struct lq_dead_letter *letter = lq_dead_letters_at(&cgroup->dead, number);
        if (letter != NULL) {
            grouper->fates[letter->offset].dead = true;
            grouper->letters_seen = number + 1;
        }
    }
}

/* ---- handing in */

static struct asked *ask(struct grouper *grouper)
{
    struct asked *asked = calloc(1, sizeof *asked);
    assert(asked != NULL);
    asked->grouper = grouper;
    asked->generation = grouper->generation;
    LL_PREPEND(grouper->asked, asked);
    return asked;
}

static void on_changed(struct lq_group_request *request, lightq_status status)
{
    struct asked *asked = request->data;
    asked->answered = true;
    asked->grouper->open--;
    (void)status; /* what became of it is looked at where it counts: in the group */
}

static void on_settled(struct lq_settle_request *request, lightq_status status)
{
    struct asked *asked = request->data;
    struct grouper *grouper = asked->grouper;
    asked->answered = true;
    grouper->open--;
    if (status != LIGHTQ_OK || asked->item.kind != LQ_SETTLE_ACK || request->counts.taken != 1 ||
        asked->generation != grouper->generation) {
        return;
    }
    for (uint64_t offset = asked->item.first; offset < asked->item.first + asked->item.count; offset++) {
        grouper->fates[offset].settled = true;
        grouper->world->result.settled++;
    }
}

static void change(struct grouper *grouper, struct lq_partition *partition, const struct lq_command *command)
{
    struct asked *asked = ask(grouper);
    asked->change = (struct lq_group_request){.command = *command, .cb = on_changed, .data = asked};
    asked->answered = lq_partition_group_change(partition, &asked->change) != LIGHTQ_OK;
    grouper->open += !asked->answered;
}

static void settle(struct grouper *grouper, struct lq_partition *partition, const struct held *held,
                   enum lq_settle_kind kind)
{
    struct asked *asked = ask(grouper);
    asked->item = (struct lq_settle_item){
        .kind = kind, .first = held->offset, .count = 1, .delay_ms = (uint32_t)below(grouper, 600)};
    asked->settle = (struct lq_settle_request){.group = grouper->number,
                                               .generation = grouper->generation,
                                               .consumer = held->consumer,
                                               .items = &asked->item,
                                               .item_count = 1,
                                               .cb = on_settled,
                                               .data = asked};
    if (kind == LQ_SETTLE_ACK) {
        grouper->fates[held->offset].attempted = true;
    }
    asked->answered = lq_partition_settle(partition, &asked->settle) != LIGHTQ_OK;
    grouper->open += !asked->answered;
}

/* ---- looking */

static void look_at_message(struct grouper *grouper, const struct lq_cgroup *cgroup, uint64_t offset)
{
    struct fate *fate = &grouper->fates[offset];
    struct sim *sim = grouper->world->sim;
    const struct lq_failure *failure = lq_failures_find(&cgroup->failures, offset);
    bool settled = lq_settled_has(&cgroup->settled, offset);
    if (settled) {
        if (!fate->attempted && !fate->dead && offset >= cgroup->missed_end) {
            sim_fail(sim, "partition %u: message %" PRIu64 " is settled in group %" PRIu64 ", and nobody did that",
                     grouper->partition, offset, cgroup->number);
        }
        return;
    }
    uint32_t failed = failure == NULL ? 0 : failure->count;
    fate->dead |= failure != NULL && failure->dead;
    if (fate->settled) {
        sim_fail(sim, "partition %u: message %" PRIu64 " was settled in group %" PRIu64 ", and is not",
                 grouper->partition, offset, cgroup->number);
    } else if (failed < fate->failed) {
        sim_fail(sim, "partition %u: message %" PRIu64 " failed %u times in group %" PRIu64 ", then %u",
                 grouper->partition, offset, fate->failed, cgroup->number, failed);
    }
    fate->failed = (uint8_t)failed;
}

static void look_at_letters(struct grouper *grouper, const struct lq_cgroup *cgroup)
{
    struct sim *sim = grouper->world->sim;
    if (cgroup->dead.done < grouper->letters) {
        sim_fail(sim, "partition %u: %" PRIu64 " dead letters of group %" PRIu64 " were done, then %" PRIu64,
                 grouper->partition, grouper->letters, cgroup->number, cgroup->dead.done);
    }
    grouper->world->result.dead_letters += cgroup->dead.done - grouper->letters;
    grouper->letters = cgroup->dead.done;
}

static void look(struct grouper *grouper, const struct lq_partition *partition, const struct lq_cgroup *cgroup)
{
    if (cgroup->missed_count > 0 && grouper->world->retention_messages == 0) {
        sim_fail(grouper->world->sim,
                 "partition %u: group %" PRIu64 " missed %" PRIu64
                 " messages, and nothing was to be dropped for a limit",
                 grouper->partition, cgroup->number, cgroup->missed_count);
        return;
    }
    if (cgroup->settled.floor < grouper->floor) {
        sim_fail(grouper->world->sim,
                 "partition %u: the floor of group %" PRIu64 " goes back from %" PRIu64 " to %" PRIu64,
                 grouper->partition, cgroup->number, grouper->floor, cgroup->settled.floor);
        return;
    }
    look_at_letters(grouper, cgroup);
    uint64_t end = lq_partition_end(partition);
    for (uint64_t offset = grouper->floor; offset < cgroup->settled.floor; offset++) { /* nothing is passed unsettled */
        look_at_message(grouper, cgroup, offset);
    }
    grouper->floor = cgroup->settled.floor;
    for (unsigned i = 0; i < LOOKED_AT && end > grouper->floor; i++) {
        look_at_message(grouper, cgroup, grouper->floor + below(grouper, end - grouper->floor));
    }
}

/* ---- working */

static void make(struct grouper *grouper, struct lq_partition *partition)
{
    struct lq_command command = {.type = LQ_COMMAND_GROUP_CREATE,
                                 .group_create = {.id = {.bytes = {(uint8_t)grouper->partition, 1}},
                                                  .start = {.kind = LQ_CGROUP_START},
                                                  .name = "sim",
                                                  .name_size = 3}};
    struct lq_cgroup_options *options = &command.group_create.options;
    lq_cgroup_options_init(options, LQ_CGROUP_PIPELINE);
    options->ack_wait_ms = ACK_WAIT_MS;
    options->max_deliver = MAX_DELIVER;
    options->max_unsettled = 100 + (uint32_t)below(grouper, 100);
    options->exclusive = below(grouper, 4) == 0;
    if (grouper->open == 0) {
        change(grouper, partition, &command);
    }
}

static void move(struct grouper *grouper, struct lq_partition *partition, const struct lq_cgroup *cgroup)
{
    uint64_t floor = cgroup->settled.floor;
    struct lq_command command = {.type = LQ_COMMAND_GROUP_SEEK, .group_seek = {.group = cgroup->number}};
    command.group_seek.start = (struct lq_cgroup_start){
        .kind = LQ_CGROUP_TIME, .offset = floor > 50 ? floor - below(grouper, 50) : floor, .time_ms = 1};
    if (below(grouper, 4) == 0) {
        command = (struct lq_command){.type = LQ_COMMAND_GROUP_DELETE, .group_delete = {.group = cgroup->number}};
    } else if (below(grouper, 2) == 0) {
        command = (struct lq_command){
            .type = LQ_COMMAND_GROUP_ALTER,
            .group_alter = {.group = cgroup->number, .mask = LQ_CGROUP_ALTER_EXCLUSIVE, .options = cgroup->options}};
        command.group_alter.options.exclusive = !cgroup->options.exclusive;
    }
    change(grouper, partition, &command);
}

static void deliver(struct grouper *grouper, struct lq_partition *partition, struct lq_leases *leases)
{
    uint64_t now_us = lq_clock_monotonic_us(&sim_node_at(grouper->world->sim, grouper->node)->clock);
    uint64_t end = lq_partition_end(partition);
    struct lq_lease_offer offer;
    struct lq_lease_grant grants[GRANTS];
    uint64_t due_us;
    size_t count;
    while (grouper->held_count + BATCH <= HELD_MAX &&
           lq_leases_next(leases, end, now_us, &offer, &due_us) == LQ_LEASE_OFFER) {
        struct lq_lease_batch batch = {.base = offer.offset, .count = BATCH, .bytes = 1};
        batch.count = end - offer.offset < BATCH ? (uint32_t)(end - offer.offset) : BATCH;
        if (lq_leases_take(leases, &offer, &batch, now_us, grants, GRANTS, &count) != LIGHTQ_OK) {
            sim_fail(grouper->world->sim, "out of memory");
            return;
        }
        for (size_t i = 0; i < count; i++) {
            for (uint32_t n = 0; n < grants[i].count; n++) {
                grouper->held[grouper->held_count++] =
                    (struct held){.offset = grants[i].offset + n, .consumer = offer.consumer};
            }
        }
    }
}

static void settle_some(struct grouper *grouper, struct lq_partition *partition)
{
    bool draining = !grouper->world->working;
    unsigned kept = 0;
    for (unsigned i = 0; i < grouper->held_count; i++) {
        uint64_t what = below(grouper, 100);
        if (draining || what < 50) {
            settle(grouper, partition, &grouper->held[i], LQ_SETTLE_ACK);
        } else if (what < 60) {
            settle(grouper, partition, &grouper->held[i], LQ_SETTLE_NACK);
        } else if (what < 61) {
            settle(grouper, partition, &grouper->held[i], LQ_SETTLE_REJECT);
        } else if (what < 64) {
            settle(grouper, partition, &grouper->held[i], LQ_SETTLE_RETURN);
        } else if (what < 94) {
            grouper->held[kept++] = grouper->held[i]; /* later, or it expires */
        }                                             /* else it is forgotten */
    }
    grouper->held_count = kept;
}

static void join(struct grouper *grouper, struct lq_leases *leases)
{
    for (unsigned i = 0; i < CONSUMERS; i++) {
        if (!grouper->joined && lq_leases_join(leases, NULL, &grouper->consumers[i]) != LIGHTQ_OK) {
            sim_fail(grouper->world->sim, "out of memory");
            return;
        }
        lq_leases_credit(leases, grouper->consumers[i], CREDIT, CREDIT);
    }
    grouper->joined = true;
}

static void work(struct grouper *grouper, struct lq_partition *partition, const struct lq_cgroup *cgroup)
{
    struct lq_leases *leases;
    if (lq_partition_leases(partition, cgroup->number, &leases) != LIGHTQ_OK) {
        return;
    }
    join(grouper, leases);
    lq_partition_groups_tick(partition);
    deliver(grouper, partition, leases);
    settle_some(grouper, partition);
    if (grouper->world->working && below(grouper, 200) == 0) {
        move(grouper, partition, cgroup);
    }
}

static void forget_answered(struct grouper *grouper)
{
    struct asked *asked;
    struct asked *next;
    LL_FOREACH_SAFE(grouper->asked, asked, next)
    {
        if (asked->answered) {
            LL_DELETE(grouper->asked, asked);
            free(asked);
        }
    }
}

static void step(struct sim *sim, void *data)
{
    struct grouper *grouper = data;
    struct lq_partition *partition = find_leader(grouper);
    forget_answered(grouper);
    sim_plan(sim, STEP_US, step, grouper);
    if (partition == NULL || lq_partition_end(partition) >= OFFSETS_MAX ||
        sim_node_at(sim, grouper->node)->paused_until_us > sim_now_us(sim)) {
        return; /* a process that stands still is told nothing */
    }
    const struct lq_cgroup *cgroup = lq_cgroups_find_name(lq_partition_groups(partition), "sim", 3);
    if (cgroup == NULL) {
        make(grouper, partition);
        grouper->drained = false;
    } else if (notice(grouper, cgroup)) {
        look(grouper, partition, cgroup);
        work(grouper, partition, cgroup);
        grouper->drained = grouper->open == 0 && cgroup->settled.floor == lq_partition_end(partition);
    }
    sim_touch(sim_node_at(sim, grouper->node));
}

struct grouper *grouper_new(struct world *world, unsigned partition)
{
    struct grouper *grouper = calloc(1, sizeof *grouper);
    assert(grouper != NULL);
    grouper->fates = calloc(OFFSETS_MAX, sizeof *grouper->fates);
    assert(grouper->fates != NULL);
    grouper->world = world;
    grouper->partition = partition;
    grouper->random = world->options.seed * 3 + partition + UINT64_C(0x9e3779b97f4a7c15);
    sim_plan(world->sim, STEP_US, step, grouper);
    return grouper;
}

void grouper_free(struct grouper *grouper)
{
    if (grouper == NULL) {
        return;
    }
    while (grouper->asked != NULL) {
        struct asked *asked = grouper->asked;
        LL_DELETE(grouper->asked, asked);
        free(asked);
    }
    free(grouper->fates);
    free(grouper);
}

bool grouper_drained(const struct grouper *grouper)
{
    return grouper->drained;
}
