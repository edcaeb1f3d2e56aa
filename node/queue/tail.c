/* node/queue/tail.c - see tail.h. */
#include "node/queue/tail.h"

#include <assert.h>
#include <stdlib.h>

#define IDLE_MAX 64 /* with more producers than that in the tail, idle ones go */

void lq_tail_start(struct lq_tail *tail, const struct lq_queue_state *state)
{
    lq_tail_drop(tail);
    tail->next_offset = state->end_offset;
    tail->timestamp_ms = state->timestamp_ms;
    tail->producer_count = state->producers.count;
}

void lq_tail_drop(struct lq_tail *tail)
{
    struct lq_tail_producer *producer = tail->table;
    HASH_CLEAR(hh, tail->ids);
    HASH_CLEAR(hh, tail->table); /* the elements go on being linked in order */
    while (producer != NULL) {
        struct lq_tail_producer *next = producer->hh.next;
        free(producer);
        producer = next;
    }
    *tail = (struct lq_tail){.table = NULL};
}

static struct lq_tail_producer *find_any(const struct lq_tail *tail, uint64_t id)
{
    struct lq_tail_producer *producer = NULL;
    HASH_FIND(hh, tail->table, &id, sizeof id, producer);
    return producer;
}

/* The producer, when it has a batch in flight. */
static struct lq_tail_producer *find(const struct lq_tail *tail, uint64_t id)
{
    struct lq_tail_producer *producer = find_any(tail, id);
    return producer == NULL || producer->first == NULL ? NULL : producer;
}

/* The applied producer, unless it will be forgotten before anything proposed now is applied. */
static const struct lq_producer *find_applied(const struct lq_tail *tail, const struct lq_queue_state *state,
                                              const struct lq_tail_producer *in_flight, uint64_t id)
{
    const struct lq_producer *producer = lq_producers_find(&state->producers, id);
    if (producer != NULL && in_flight == NULL && producer->last_index <= tail->forget_index) {
        return NULL; /* with a batch in flight it will have a higher index by then */
    }
    return producer;
}

/* All messages of @request come before the next sequence: where are they? They may have been proposed or stored in an
 * earlier epoch. @surely: what is applied and not kept any more is stored. */
static enum lq_tail_verdict judge_old(const struct lq_tail_producer *in_flight, const struct lq_producer *applied,
                                      const struct lq_partition_request *request, bool surely,
                                      struct lq_partition_request **proposed, const struct lq_batch_place **place)
{
    if (in_flight != NULL) {
        for (struct lq_partition_request *at = in_flight->first; at != NULL; at = at->next_of_producer) {
            if (at->base_sequence == request->base_sequence && at->message_count == request->message_count) {
                *proposed = at;
                return LQ_TAIL_PROPOSED;
            }
        }
    }
    if (applied == NULL || request->base_sequence + request->message_count > applied->progress.next_sequence) {
        return LQ_TAIL_GAP; /* it overlaps proposals in another cut: nobody can say that it is stored */
    }
    *place = lq_producer_batch(applied, request->base_sequence, request->message_count);
    return *place != NULL ? LQ_TAIL_STORED : surely ? LQ_TAIL_FORGOTTEN : LQ_TAIL_GAP;
}

enum lq_tail_verdict lq_tail_judge(const struct lq_tail *tail, const struct lq_queue_state *state,
                                   const struct lq_partition_request *request, size_t producers_max,
                                   struct lq_partition_request **proposed, const struct lq_batch_place **place)
{
    if (request->producer_id == 0) {
        return LQ_TAIL_NEXT;
    }
    const struct lq_tail_producer *in_flight = find(tail, request->producer_id);
    const struct lq_producer *applied = find_applied(tail, state, in_flight, request->producer_id);
    const struct lq_progress *progress = in_flight != NULL ? &in_flight->progress
                                         : applied != NULL ? &applied->progress
                                                           : NULL;
    const struct lq_numbering numbering = {.epoch = request->epoch,
                                           .begins_epoch = request->begins_epoch,
                                           .sequence = request->base_sequence,
                                           .count = request->message_count};
    enum lq_verdict verdict = lq_sequence_judge(progress, &numbering);
    switch (verdict) {
    case LQ_VERDICT_NEXT:
        return progress != NULL || tail->producer_count < producers_max ? LQ_TAIL_NEXT : LQ_TAIL_FULL;
    case LQ_VERDICT_OLD:
    case LQ_VERDICT_EARLIER:
        return judge_old(in_flight, applied, request, verdict == LQ_VERDICT_OLD, proposed, place);
    case LQ_VERDICT_FENCED:
        return LQ_TAIL_FENCED;
    case LQ_VERDICT_GAP:
        break;
    }
    return LQ_TAIL_GAP;
}

lightq_status lq_tail_reserve(struct lq_tail *tail, const struct lq_partition_request *request,
                              struct lq_tail_producer **producer)
{
    *producer = NULL;
    if (request->producer_id == 0) {
        return LIGHTQ_OK;
    }
    struct lq_tail_producer *found = find_any(tail, request->producer_id);
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        if (found == NULL) {
            return LIGHTQ_ENOMEM;
        }
        found->id = request->producer_id;
        HASH_ADD(hh, tail->table, id, sizeof found->id, found);
        if (found->hh.tbl == NULL) {
            free(found);
            return LIGHTQ_ENOMEM;
        }
    }
    *producer = found;
    return LIGHTQ_OK;
}

void lq_tail_release(struct lq_tail *tail, struct lq_tail_producer *producer)
{
    if (producer != NULL && producer->first == NULL && HASH_COUNT(tail->table) > IDLE_MAX) {
        HASH_DEL(tail->table, producer);
        free(producer);
    }
}

void lq_tail_proposed(struct lq_tail *tail, const struct lq_queue_state *state, struct lq_tail_producer *producer,
                      struct lq_partition_request *request)
{
    tail->next_offset += request->same_id ? 0 : request->message_count;
    tail->timestamp_ms = request->timestamp_ms;
    if (producer == NULL) {
        return;
    }
    const struct lq_progress *before = &producer->progress;
    if (producer->first == NULL) {
        const struct lq_producer *applied = find_applied(tail, state, NULL, producer->id);
        if (applied == NULL) {
            tail->producer_count++;
        }
        before = applied == NULL ? NULL : &applied->progress;
        producer->first = request;
    } else {
        producer->last->next_of_producer = request;
    }
    producer->last = request;
    request->next_of_producer = NULL;
    producer->progress = lq_progress_after(before, request->epoch, request->base_sequence, request->message_count);
}

const struct lq_partition_request *lq_tail_find_id(const struct lq_tail *tail,
                                                   const struct lq_partition_request *request)
{
    struct lq_partition_request *found = NULL;
    HASH_FIND(hh, tail->ids, &request->message_id, sizeof request->message_id, found);
    return found;
}

lightq_status lq_tail_add_id(struct lq_tail *tail, struct lq_partition_request *request)
{
    HASH_ADD(hh, tail->ids, message_id, sizeof request->message_id, request);
    return request->hh.tbl == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
}

void lq_tail_remove_id(struct lq_tail *tail, struct lq_partition_request *request)
{
    HASH_DEL(tail->ids, request);
}

size_t lq_tail_id_count(const struct lq_tail *tail)
{
    return HASH_COUNT(tail->ids);
}

void lq_tail_applied(struct lq_tail *tail, struct lq_partition_request *request)
{
    if (request->has_id && !request->same_id) {
        lq_tail_remove_id(tail, request);
    }
    if (request->producer_id == 0) {
        return;
    }
    struct lq_tail_producer *producer = find(tail, request->producer_id);
    assert(producer != NULL && producer->first == request);
    producer->first = request->next_of_producer;
    lq_tail_release(tail, producer);
}

uint64_t lq_tail_forget_below(const struct lq_tail *tail, const struct lq_queue_state *state, size_t count,
                              size_t *forgotten)
{
    uint64_t index = 0;
    *forgotten = 0;
    if (tail->forget_entry != 0) {
        return 0; /* one at a time: which producers go is decided when it is proposed */
    }
    for (const struct lq_producer *producer = state->producers.oldest; producer != NULL && *forgotten < count;
         producer = producer->newer) {
        if (find(tail, producer->id) == NULL) {
            index = producer->last_index;
            ++*forgotten;
        }
    }
    return index;
}

void lq_tail_forget_proposed(struct lq_tail *tail, uint64_t index, uint64_t entry, size_t forgotten)
{
    tail->forget_index = index;
    tail->forget_entry = entry;
    tail->producer_count -= forgotten;
}

void lq_tail_forget_applied(struct lq_tail *tail, uint64_t entry)
{
    if (tail->forget_entry == entry) {
        tail->forget_entry = 0;
    }
}
