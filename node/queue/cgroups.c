/* node/queue/cgroups.c - see cgroups.h. */
#include "node/queue/cgroups.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/queue/command.h"

#define FIRST_CAPACITY 4

void lq_cgroups_deinit(struct lq_cgroups *cgroups)
{
    for (size_t i = 0; i < cgroups->count; i++) {
        lq_cgroup_free(cgroups->at[i]);
    }
    free(cgroups->at);
    *cgroups = (struct lq_cgroups){.at = NULL};
}

/* The place of the first group whose number is @number or higher. */
static size_t place_of(const struct lq_cgroups *cgroups, uint64_t number)
{
    size_t low = 0;
    size_t high = cgroups->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cgroups->at[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct lq_cgroup *lq_cgroups_find(const struct lq_cgroups *cgroups, uint64_t number)
{
    size_t place = place_of(cgroups, number);
    return place < cgroups->count && cgroups->at[place]->number == number ? cgroups->at[place] : NULL;
}

struct lq_cgroup *lq_cgroups_find_name(const struct lq_cgroups *cgroups, const char *name, size_t size)
{
    for (size_t i = 0; i < cgroups->count; i++) {
        if (strlen(cgroups->at[i]->name) == size && memcmp(cgroups->at[i]->name, name, size) == 0) {
            return cgroups->at[i];
        }
    }
    return NULL;
}

static uint64_t weight_of(const struct lq_cgroup *cgroup)
{
    return cgroup->settled.holes + cgroup->failures.count;
}

/* What a group may have when all the others have @others. */
static uint32_t holes_max_beside(uint64_t others)
{
    uint64_t left = others < LQ_PARTITION_UNSETTLED_MAX ? LQ_PARTITION_UNSETTLED_MAX - others : 0;
    return left < LQ_CGROUP_UNSETTLED_MAX ? (uint32_t)left : LQ_CGROUP_UNSETTLED_MAX;
}

/* Room for one more. */
static lightq_status reserve(struct lq_cgroups *cgroups)
{
    if (cgroups->count < cgroups->capacity) {
        return LIGHTQ_OK;
    }
    size_t capacity = cgroups->capacity == 0 ? FIRST_CAPACITY : cgroups->capacity * 2;
    struct lq_cgroup **at = realloc(cgroups->at, capacity * sizeof *at);
    if (at == NULL) {
        return LIGHTQ_ENOMEM;
    }
    cgroups->at = at;
    cgroups->capacity = capacity;
    return LIGHTQ_OK;
}

static void describe(const struct lq_cgroup *cgroup, struct lq_cgroup_result *result)
{
    result->number = cgroup->number;
    result->generation = cgroup->generation;
    result->position = cgroup->settled.floor;
}

static lightq_status apply_create(struct lq_cgroups *cgroups, const struct lq_cgroup_create *create,
                                  const struct lq_cgroup_at *at, struct lq_cgroup_result *result)
{
    struct lq_cgroup *cgroup = lq_cgroups_find_name(cgroups, create->name, create->name_size);
    if (cgroup != NULL) {
        result->status = lq_id_equal(&cgroup->id, &create->id) ? LIGHTQ_OK : LIGHTQ_EEXISTS;
        describe(cgroup, result);
        return LIGHTQ_OK;
    }
    if (cgroups->count >= LQ_CGROUPS_MAX) {
        result->status = LIGHTQ_ELIMIT;
        return LIGHTQ_OK;
    }
    lightq_status status = reserve(cgroups);
    if (status == LIGHTQ_OK) {
        status = lq_cgroup_new(create, at, &cgroup);
    }
    if (status == LIGHTQ_EOUTOFRANGE) {
        result->status = status;
        return LIGHTQ_OK;
    }
    if (status == LIGHTQ_OK) {
        cgroups->at[cgroups->count++] = cgroup; /* its number is the highest: that of this entry */
        describe(cgroup, result);
    }
    return status;
}

static void apply_delete(struct lq_cgroups *cgroups, struct lq_cgroup *cgroup)
{
    size_t place = place_of(cgroups, cgroup->number);
    cgroups->count--;
    memmove(&cgroups->at[place], &cgroups->at[place + 1], (cgroups->count - place) * sizeof cgroups->at[0]);
    lq_cgroup_free(cgroup);
}

uint64_t lq_cgroups_number_of(const struct lq_command *command)
{
    switch (command->type) {
    case LQ_COMMAND_GROUP_DELETE:
        return command->group_delete.group;
    case LQ_COMMAND_GROUP_SEEK:
        return command->group_seek.group;
    case LQ_COMMAND_GROUP_ALTER:
        return command->group_alter.group;
    case LQ_COMMAND_GROUP_DLQ:
        return command->group_dlq.group;
    case LQ_COMMAND_COMMIT:
        return command->commit.group;
    case LQ_COMMAND_SETTLE:
        return command->settle.group;
    case LQ_COMMAND_DONE:
        return command->done.group;
    default:
        return 0; /* no group has it */
    }
}

static lightq_status apply_to(struct lq_cgroup *cgroup, const struct lq_command *command, const struct lq_cgroup_at *at,
                              struct lq_cgroup_result *result)
{
    switch (command->type) {
    case LQ_COMMAND_GROUP_SEEK:
        return lq_cgroup_seek(cgroup, &command->group_seek, at, result);
    case LQ_COMMAND_GROUP_ALTER:
        lq_cgroup_alter(cgroup, &command->group_alter, result);
        return LIGHTQ_OK;
    case LQ_COMMAND_GROUP_DLQ: {
        const struct lq_cgroup_dlq *dlq = &command->group_dlq;
        bool is_same = dlq->epoch == cgroup->dead.epoch && lq_id_equal(&dlq->topic, &cgroup->dead.topic);
        if (cgroup->options.mode != LQ_CGROUP_PIPELINE) {
            result->status = LIGHTQ_EINVAL;
        } else if (!is_same && !lq_dead_letters_begin(&cgroup->dead, &dlq->topic, dlq->epoch)) {
            result->status = LIGHTQ_EFENCED;
        }
        return LIGHTQ_OK;
    }
    case LQ_COMMAND_COMMIT:
        lq_cgroup_commit(cgroup, &command->commit, at, result);
        return LIGHTQ_OK;
    case LQ_COMMAND_SETTLE:
        return lq_cgroup_settle(cgroup, &command->settle, at, result);
    case LQ_COMMAND_DONE:
        return lq_cgroup_done(cgroup, command->done.number, at, result);
    default:
        assert(false); /* who calls this knows what a group's command is */
        return LIGHTQ_EINTERNAL;
    }
}

lightq_status lq_cgroups_apply(struct lq_cgroups *cgroups, const struct lq_command *command,
                               const struct lq_cgroup_at *at, struct lq_cgroup_result *result)
{
    *result = (struct lq_cgroup_result){.status = LIGHTQ_OK};
    if (command->type == LQ_COMMAND_GROUP_CREATE) {
        return apply_create(cgroups, &command->group_create, at, result);
    }
    struct lq_cgroup *cgroup = lq_cgroups_find(cgroups, lq_cgroups_number_of(command));
    if (cgroup == NULL) {
        result->status = LIGHTQ_ENOTFOUND;
        return LIGHTQ_OK;
    }
    cgroups->weight -= weight_of(cgroup);
    if (command->type == LQ_COMMAND_GROUP_DELETE) {
        describe(cgroup, result);
        apply_delete(cgroups, cgroup);
        return LIGHTQ_OK;
    }
    struct lq_cgroup_at bounded = *at;
    bounded.holes_max = holes_max_beside(cgroups->weight);
    lightq_status status = apply_to(cgroup, command, &bounded, result);
    cgroups->weight += weight_of(cgroup);
    describe(cgroup, result);
    return status;
}

/* ---- trimming */

uint64_t lq_cgroups_clamp_trim(const struct lq_cgroups *cgroups, uint64_t wanted)
{
    for (size_t i = 0; i < cgroups->count; i++) {
        uint64_t lowest = lq_dead_letters_lowest(&cgroups->at[i]->dead);
        wanted = lowest < wanted ? lowest : wanted;
    }
    return wanted;
}

void lq_cgroups_trimmed(struct lq_cgroups *cgroups, uint64_t start)
{
    cgroups->weight = 0;
    for (size_t i = 0; i < cgroups->count; i++) {
        lq_cgroup_trimmed(cgroups->at[i], start);
        cgroups->weight += weight_of(cgroups->at[i]);
    }
}

uint64_t lq_cgroups_needed(const struct lq_cgroups *cgroups, enum lq_retention retention, uint64_t end)
{
    bool is_bounded = retention == LQ_RETENTION_INTEREST;
    uint64_t needed = end;
    for (size_t i = 0; i < cgroups->count; i++) {
        const struct lq_cgroup *cgroup = cgroups->at[i];
        if (retention == LQ_RETENTION_WORKQUEUE && cgroup->options.mode != LQ_CGROUP_PIPELINE) {
            continue;
        }
        is_bounded = true;
        needed = cgroup->settled.floor < needed ? cgroup->settled.floor : needed;
    }
    return is_bounded && retention != LQ_RETENTION_LIMITS ? needed : 0;
}

/* ---- checkpoint */

lightq_status lq_cgroups_save(const struct lq_cgroups *cgroups, struct lq_writer *writer)
{
    lq_write_u32(writer, (uint32_t)cgroups->count);
    for (size_t i = 0; i < cgroups->count; i++) {
        lightq_status status = lq_cgroup_save(cgroups->at[i], writer);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return writer->status;
}

static lightq_status load_one(struct lq_cgroups *cgroups, struct lq_reader *reader, const struct lq_cgroup_at *at)
{
    lightq_status status = reserve(cgroups);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_cgroup_at bounded = *at;
    struct lq_cgroup *cgroup;
    bounded.holes_max = LQ_CGROUP_UNSETTLED_MAX;
    status = lq_cgroup_load(reader, &bounded, &cgroup);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if ((cgroups->count > 0 && cgroups->at[cgroups->count - 1]->number >= cgroup->number) ||
        lq_cgroups_find_name(cgroups, cgroup->name, strlen(cgroup->name)) != NULL) {
        lq_cgroup_free(cgroup);
        return LIGHTQ_ECORRUPT;
    }
    cgroups->at[cgroups->count++] = cgroup;
    cgroups->weight += weight_of(cgroup);
    return cgroups->weight <= 2 * (uint64_t)LQ_PARTITION_UNSETTLED_MAX ? LIGHTQ_OK : LIGHTQ_ECORRUPT;
}

lightq_status lq_cgroups_load(struct lq_cgroups *cgroups, struct lq_reader *reader, const struct lq_cgroup_at *at)
{
    uint32_t count = lq_read_u32(reader);
    if (reader->failed || count > LQ_CGROUPS_MAX) {
        return LIGHTQ_ECORRUPT;
    }
    for (uint32_t i = 0; i < count; i++) {
        lightq_status status = load_one(cgroups, reader, at);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return reader->failed ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}
