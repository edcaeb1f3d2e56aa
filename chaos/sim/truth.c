/* chaos/sim/truth.c - see truth.h. */
#include "chaos/sim/truth.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/sim/watch.h"
#include "chaos/sim/world.h"

void truth_deinit(struct truth *truth)
{
    for (unsigned i = 0; i < TRUTH_GROUPS_MAX; i++) {
        free(truth->groups[i].at);
        free(truth->groups[i].leaders);
        free(truth->logs[i].batches);
        free(truth->logs[i].sequences);
    }
}

/* Room for element @at of @array; new ones are zero. */
static void *grown(void *array, size_t *capacity, size_t at, size_t size)
{
    if (at < *capacity) {
        return array;
    }
    size_t more = *capacity == 0 ? 1024 : *capacity * 2;
    more = more <= at ? at + 1 : more;
    array = realloc(array, more * size);
    assert(array != NULL);
    memset((uint8_t *)array + *capacity * size, 0, (more - *capacity) * size);
    *capacity = more;
    return array;
}

struct truth_group *truth_group(struct world *world, uint64_t id)
{
    struct truth *truth = &world->truth;
    for (unsigned i = 0; i < truth->group_count; i++) {
        if (truth->groups[i].id == id) {
            return &truth->groups[i];
        }
    }
    if (truth->group_count == TRUTH_GROUPS_MAX) {
        sim_fail(world->sim, "a group %" PRIu64 " that nobody made", id);
        return &truth->groups[0];
    }
    truth->groups[truth->group_count].id = id;
    return &truth->groups[truth->group_count++];
}

struct truth_index *truth_at(struct truth_group *group, uint64_t index)
{
    group->at = grown(group->at, &group->capacity, index, sizeof *group->at);
    return &group->at[index];
}

/* ---- Raft */

void truth_leads(struct world *world, struct truth_group *group, uint64_t term, lq_replica_id id)
{
    for (size_t i = 0; i < group->leader_count; i++) {
        if (group->leaders[i].term == term && group->leaders[i].id != id) {
            sim_fail(world->sim, "two leaders of group %" PRIu64 " in term %" PRIu64 ": nodes %u and %u", group->id,
                     term, lq_replica_node(group->leaders[i].id), lq_replica_node(id));
        }
    }
    group->leaders = grown(group->leaders, &group->leader_capacity, group->leader_count, sizeof *group->leaders);
    group->leaders[group->leader_count++] = (struct truth_leader){.term = term, .id = id};
    world->result.elections++;
}

void truth_stored(struct world *world, struct truth_group *group, const struct lq_entry *entry, uint32_t crc)
{
    struct truth_index *at = truth_at(group, entry->index);
    for (unsigned i = 0; i < at->variant_count; i++) {
        const struct truth_variant *variant = &at->variants[i];
        if (variant->term == entry->term) {
            if (variant->crc != crc || variant->prev_term != entry->prev_term) {
                sim_fail(world->sim, "group %" PRIu64 ": two entries at index %" PRIu64 " of term %" PRIu64, group->id,
                         entry->index, entry->term);
            }
            return;
        }
    }
    if (at->variant_count < TRUTH_VARIANTS) {
        at->variants[at->variant_count++] =
            (struct truth_variant){.term = entry->term, .prev_term = entry->prev_term, .crc = crc};
    }
}

void truth_committed(struct world *world, struct truth_group *group, uint64_t index, uint64_t term)
{
    struct truth_index *at = truth_at(group, index);
    if (index > group->committed) {
        group->committed = index;
    }
    if (term == 0) {
        return; /* not known here */
    }
    if ((at->committed_term != 0 && at->committed_term != term) ||
        (at->applied_term != 0 && at->applied_term != term)) {
        sim_fail(world->sim,
                 "group %" PRIu64 ": another entry is committed at index %" PRIu64 ", of term %" PRIu64
                 " and not %" PRIu64,
                 group->id, index, term, at->committed_term != 0 ? at->committed_term : at->applied_term);
    }
    at->committed_term = term;
}

void truth_applied(struct world *world, struct truth_group *group, const struct lq_entry *entry, uint32_t crc)
{
    struct truth_index *at = truth_at(group, entry->index);
    if (entry->index > group->committed) {
        sim_fail(world->sim,
                 "group %" PRIu64 ": entry %" PRIu64 " of term %" PRIu64 " is applied, and nobody committed it",
                 group->id, entry->index, entry->term);
    }
    if ((at->applied_term != 0 && (at->applied_term != entry->term || at->applied_crc != crc)) ||
        (at->committed_term != 0 && at->committed_term != entry->term)) {
        sim_fail(world->sim,
                 "group %" PRIu64 ": another entry is applied at index %" PRIu64 " than elsewhere: of term %" PRIu64,
                 group->id, entry->index, entry->term);
    }
    at->applied_term = entry->term;
    at->applied_crc = crc;
}

void truth_state(struct world *world, struct truth_group *group, uint64_t index, uint32_t state)
{
    struct truth_index *at = truth_at(group, index);
    if (at->has_state && at->state != state) {
        sim_fail(world->sim, "group %" PRIu64 ": two states after entry %" PRIu64, group->id, index);
    }
    at->has_state = true;
    at->state = state;
}

struct truth_promise *truth_promise(struct world *world, struct truth_group *group, lq_replica_id id)
{
    struct truth_promise *promise = &group->promises[lq_replica_node(id) - 1];
    uint32_t incarnation = lq_replica_incarnation(id);
    if (world->machines[lq_replica_node(id) - 1].restored) {
        group->restored = (struct truth_promise){.incarnation = incarnation};
        return &group->restored;
    }
    if (incarnation < promise->incarnation) {
        sim_fail(world->sim, "group %" PRIu64 ": node %u works as incarnation %u again, it had become %u", group->id,
                 lq_replica_node(id), incarnation, promise->incarnation);
    } else if (incarnation > promise->incarnation) {
        *promise = (struct truth_promise){.incarnation = incarnation};
    }
    return promise;
}

/* ---- the queue */

static struct truth_sequence *sequence_of(struct truth_log *log, uint64_t producer)
{
    for (size_t i = log->sequence_count; i-- > 0;) {
        if (log->sequences[i].producer == producer) {
            return &log->sequences[i];
        }
    }
    log->sequences = grown(log->sequences, &log->sequence_capacity, log->sequence_count, sizeof *log->sequences);
    log->sequences[log->sequence_count] = (struct truth_sequence){.producer = producer};
    return &log->sequences[log->sequence_count++];
}

static bool same_batch(const struct truth_batch *a, const struct truth_batch *b)
{
    return a->offset == b->offset && a->producer == b->producer && a->sequence == b->sequence && a->crc == b->crc &&
           a->count == b->count;
}

/* Whether its producer may store @batch when it has stored what @sequence says. */
static bool may_follow(const struct truth_sequence *sequence, const struct truth_batch *batch)
{
    bool begins = batch->begins_epoch && batch->epoch > sequence->epoch;
    return batch->epoch >= sequence->epoch &&
           (batch->sequence == sequence->next || (begins && batch->sequence > sequence->next));
}

void truth_batch(struct world *world, unsigned number, const struct truth_batch *batch)
{
    struct truth_log *log = &world->truth.logs[number];
    if (batch->offset < log->end) {
        if (!same_batch(&log->batches[batch->offset], batch)) {
            sim_fail(world->sim, "partition %u: two batches at offset %" PRIu64, number, batch->offset);
        }
        return;
    }
    struct truth_sequence *sequence = sequence_of(log, batch->producer);
    if (batch->offset != log->end) {
        sim_fail(world->sim, "partition %u: a batch at offset %" PRIu64 ", but the log ends at %" PRIu64, number,
                 batch->offset, log->end);
    } else if (!may_follow(sequence, batch)) {
        sim_fail(world->sim,
                 "partition %u: producer %016" PRIx64 " stores sequence %" PRIu64 " in epoch %u behind epoch %u, where "
                 "%" PRIu64 " is next",
                 number, batch->producer, batch->sequence, batch->epoch, sequence->epoch, sequence->next);
    }
    sequence->epoch = batch->epoch;
    sequence->next = batch->sequence + batch->count;
    log->batches = grown(log->batches, &log->capacity, batch->offset + batch->count, sizeof *log->batches);
    for (uint32_t i = 0; i < batch->count; i++) {
        log->batches[batch->offset + i] = *batch;
    }
    log->end = batch->offset + batch->count;
}

static const struct truth_batch *find_batch(struct world *world, unsigned number, const struct truth_batch *claim,
                                            const char *who)
{
    const struct truth_log *log = &world->truth.logs[number];
    if (claim->offset >= log->end || !same_batch(&log->batches[claim->offset], claim)) {
        sim_fail(world->sim,
                 "partition %u: %s batch at offset %" PRIu64 " (producer %016" PRIx64 ", sequence %" PRIu64
                 ") is not what was applied there",
                 number, who, claim->offset, claim->producer, claim->sequence);
        return NULL;
    }
    return &log->batches[claim->offset];
}

void truth_acknowledged(struct world *world, unsigned number, const struct truth_batch *said)
{
    const struct truth_batch *batch = find_batch(world, number, said, "an acknowledged");
    if (batch != NULL) {
        watch_durable(world, world->groups[number], batch->index, batch->term);
    }
}

void truth_read(struct world *world, unsigned number, const struct truth_batch *seen)
{
    (void)find_batch(world, number, seen, "a delivered");
}
