/* node/queue/purge.c - see purge.h. Called by partition.c as well. Loop thread only.
 *
 * A request is in exactly one of three queues: queued (not proposed yet: the group's window is full, or it came inside
 * a machine call), proposed (it is an entry of the log, by index), decided (it waits to be told). */
#include "node/queue/purge.h"

#include <assert.h>

#include "node/queue/partition_internal.h"

static void push(struct lq_purge_queue *queue, struct lq_purge_request *request)
{
    request->next = NULL;
    if (queue->first == NULL) {
        queue->first = request;
    } else {
        queue->last->next = request;
    }
    queue->last = request;
}

static struct lq_purge_request *pop(struct lq_purge_queue *queue)
{
    struct lq_purge_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
        request->next = NULL;
    }
    return request;
}

static void push_front(struct lq_purge_queue *queue, struct lq_purge_request *request)
{
    if (queue->first == NULL) {
        queue->last = request;
    }
    request->next = queue->first;
    queue->first = request;
}

/* The request is the caller's again; it may be gone afterwards. */
static void finish(struct lq_partition *partition, struct lq_purge_request *request, lightq_status status)
{
    assert(partition->waiting > 0);
    partition->waiting--;
    request->start_offset = partition->state.start_offset;
    request->end_offset = partition->state.end_offset;
    request->term = partition->term;
    request->cb(request, status);
}

static void decide(struct lq_partition *partition, struct lq_purge_request *request, lightq_status status)
{
    request->result = status;
    push(&partition->purges.decided, request);
}

lightq_status lq_partition_purge(struct lq_partition *partition, struct lq_purge_request *request)
{
    if (partition->stopped) {
        return LIGHTQ_ESTOPPED;
    }
    if (!partition->leading) {
        return LIGHTQ_ENOTLEADER;
    }
    if (request->offset > partition->tail.next_offset) {
        return LIGHTQ_EOUTOFRANGE;
    }
    if (partition->waiting >= partition->options.waiting_max) {
        return LIGHTQ_EBUSY;
    }
    partition->waiting++;
    if (request->offset <= partition->state.start_offset) {
        decide(partition, request, LIGHTQ_OK); /* it has happened */
    } else {
        push(&partition->purges.queued, request);
    }
    if (lq_purge_desk_needs_turn(partition)) {
        lq_partition_wake(partition);
    }
    return LIGHTQ_OK;
}

void lq_purge_desk_applied(struct lq_partition *partition, const struct lq_entry *entry)
{
    struct lq_purge_request *request = partition->purges.proposed.first;
    assert(request == NULL || request->index >= entry->index); /* every proposal is applied, or leadership is lost */
    if (request != NULL && request->index == entry->index) {
        (void)pop(&partition->purges.proposed);
        finish(partition, request, LIGHTQ_OK);
    }
    if (lq_purge_desk_needs_turn(partition)) {
        lq_partition_wake(partition);
    }
}

void lq_purge_desk_drop(struct lq_partition *partition, lightq_status status)
{
    struct lq_purge_request *request;
    while ((request = pop(&partition->purges.proposed)) != NULL) {
        finish(partition, request, LIGHTQ_ELEADERSHIPLOST);
    }
    while ((request = pop(&partition->purges.queued)) != NULL) {
        finish(partition, request, status);
    }
}

/* False: the log takes nothing now. */
static bool propose(struct lq_partition *partition, struct lq_purge_request *request)
{
    lightq_status status = lq_intake_trim(partition, request->offset, LQ_RETENTION_LIMITS, &request->index);
    if (!partition->leading) { /* lost inside the call */
        decide(partition, request, status == LIGHTQ_OK ? LIGHTQ_ELEADERSHIPLOST : status);
        return true;
    }
    if (status == LIGHTQ_EBUSY) {
        partition->blocked = true; /* again after the next apply */
        push_front(&partition->purges.queued, request);
        return false;
    }
    if (status == LIGHTQ_OK) {
        push(&partition->purges.proposed, request);
    } else {
        decide(partition, request, status);
    }
    return true;
}

void lq_purge_desk_turn(struct lq_partition *partition)
{
    struct lq_purge_request *request;
    bool taken = true;
    while (taken && partition->leading && !partition->blocked && (request = pop(&partition->purges.queued)) != NULL) {
        taken = propose(partition, request);
    }
    while ((request = pop(&partition->purges.decided)) != NULL) {
        finish(partition, request, request->result);
    }
}

bool lq_purge_desk_needs_turn(const struct lq_partition *partition)
{
    return partition->purges.decided.first != NULL ||
           (partition->leading && !partition->blocked && partition->purges.queued.first != NULL);
}
