/* node/queue/intake.c - how batches get into a partition: judged against the tail, proposed, answered when applied.
 * Called by partition.c and, for lq_partition_produce(), by node/produce.c. Loop thread only.
 *
 * A request is in exactly one of these places: proposed (it is an entry of the log), among the retries of a proposed
 * one, queued (nothing is decided), decided (it waits to be told). Nothing is proposed inside a machine call: the group
 * is in the middle of a step then. */
#include <assert.h>
#include <string.h>

#include "node/queue/partition_internal.h"

#define FORGET_SHARE 8 /* an eighth of the producers goes when there is no room for a new one */

static void push(struct lq_request_queue *queue, struct lq_partition_request *request)
{
    request->next = NULL;
    if (queue->first == NULL) {
        queue->first = request;
    } else {
        queue->last->next = request;
    }
    queue->last = request;
}

static struct lq_partition_request *pop(struct lq_request_queue *queue)
{
    struct lq_partition_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
        request->next = NULL;
    }
    return request;
}

static void push_front(struct lq_request_queue *queue, struct lq_partition_request *request)
{
    if (queue->first == NULL) {
        queue->last = request;
    }
    request->next = queue->first;
    queue->first = request;
}

static struct lq_partition_request *pop_queued(struct lq_partition *partition)
{
    struct lq_partition_request *request = pop(&partition->queued);
    if (request != NULL) {
        partition->queued_bytes -= request->size;
    }
    return request;
}

/* The request is the caller's again; it may be gone afterwards. */
static void finish(struct lq_partition *partition, struct lq_partition_request *request, lightq_status status)
{
    assert(partition->waiting > 0);
    partition->waiting--;
    request->cb(request, status);
}

/* The same for a proposal and all that wait for it. */
static void finish_proposed(struct lq_partition *partition, struct lq_partition_request *request, lightq_status status)
{
    struct lq_partition_request *retry = request->retries;
    uint64_t base_offset = request->base_offset;
    uint64_t term = request->term;
    uint64_t timestamp_ms = request->timestamp_ms;
    bool same_id = request->same_id;
    finish(partition, request, status);
    while (retry != NULL) {
        struct lq_partition_request *next = retry->next;
        retry->base_offset = base_offset;
        retry->term = term;
        retry->timestamp_ms = timestamp_ms;
        retry->duplicate = true;
        retry->same_id = same_id;
        finish(partition, retry, status);
        retry = next;
    }
}

static uint64_t stamp(const struct lq_partition *partition)
{
    uint64_t now_ms = lq_clock_wall_ms(partition->options.clock);
    return now_ms > partition->tail.timestamp_ms ? now_ms : partition->tail.timestamp_ms;
}

lightq_status lq_intake_propose(struct lq_partition *partition, const uint8_t *bytes, size_t size, uint64_t *index)
{
    const struct iovec payload = {.iov_base = (void *)bytes, .iov_len = size};
    const struct lq_proposal proposal = {.payload = &payload,
                                         .payload_count = 1,
                                         .base_offset = partition->tail.next_offset,
                                         .timestamp_ms = stamp(partition)};
    lightq_status status = partition->options.port->submit(partition->options.port_owner, &proposal, index);
    if (status == LIGHTQ_OK && partition->leading) { /* not leading: lost inside the call, and the tail with it */
        partition->tail.timestamp_ms = proposal.timestamp_ms;
    }
    return status;
}

static lightq_status propose_command(struct lq_partition *partition, const struct lq_command *command, uint64_t *index)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
    lq_command_encode(command, &writer);
    lightq_status status = writer.status;
    if (status == LIGHTQ_OK) {
        status = lq_intake_propose(partition, writer.bytes, writer.size, index);
    }
    lq_writer_deinit(&writer);
    return status;
}

/* Makes room for new producers. EBUSY: none can go now. */
static lightq_status propose_forget(struct lq_partition *partition)
{
    size_t count = partition->options.producers_max / FORGET_SHARE + 1;
    size_t forgotten;
    uint64_t index = lq_tail_forget_below(&partition->tail, &partition->state, count, &forgotten);
    if (index == 0) {
        return LIGHTQ_EBUSY;
    }
    const struct lq_command command = {.type = LQ_COMMAND_FORGET, .forget = {.index = index}};
    uint64_t entry;
    lightq_status status = propose_command(partition, &command, &entry);
    if (status == LIGHTQ_OK) {
        lq_tail_forget_proposed(&partition->tail, index, entry, forgotten);
    }
    return status;
}

static void decide(struct lq_partition *partition, struct lq_partition_request *request, lightq_status result)
{
    request->result = result;
    push(&partition->decided, request);
    lq_partition_wake(partition);
}

/* What becomes of a message with an id. OK: it is to be stored, or, with *known, is there already. EBUSY: one is under
 * way under that id, wait for it. ELIMIT: no more ids can be remembered now. */
static lightq_status judge_id(const struct lq_partition *partition, const struct lq_partition_request *request,
                              const struct lq_dedup_entry **known)
{
    const struct lq_queue_state *state = &partition->state;
    uint64_t window_ms = state->config.dedup_window_ms;
    uint64_t now_ms = stamp(partition);
    if (lq_tail_find_id(&partition->tail, request) != NULL) {
        return LIGHTQ_EBUSY;
    }
    *known = lq_dedup_find(&state->dedup, &request->message_id, now_ms, window_ms);
    bool is_full =
        *known == NULL && lq_dedup_is_full(&state->dedup, lq_tail_id_count(&partition->tail) + 1, now_ms, window_ms);
    return is_full ? LIGHTQ_ELIMIT : LIGHTQ_OK;
}

/* Proposes @request as @payload. */
static lightq_status submit(struct lq_partition *partition, struct lq_partition_request *request,
                            const struct iovec *payload, unsigned payload_count, struct lq_tail_producer *producer)
{
    const struct lq_proposal proposal = {.payload = payload,
                                         .payload_count = payload_count,
                                         .message_count = request->same_id ? 0 : request->message_count,
                                         .base_offset = partition->tail.next_offset,
                                         .timestamp_ms = stamp(partition),
                                         .is_append = !request->same_id};
    uint64_t term = partition->term;
    lightq_status status = partition->options.port->submit(partition->options.port_owner, &proposal, &request->index);
    if (!partition->leading) { /* lost inside the call, and the tail with it */
        if (status == LIGHTQ_OK) {
            decide(partition, request, LIGHTQ_ELEADERSHIPLOST);
        }
        return status;
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    request->proposed_term = term;
    if (!request->same_id) {
        request->term = term;
        request->base_offset = proposal.base_offset;
    }
    request->timestamp_ms = proposal.timestamp_ms;
    push(&partition->proposed, request);
    lq_tail_proposed(&partition->tail, &partition->state, producer, request);
    return LIGHTQ_OK;
}

/* Its message is there as @known: the producer goes on behind it, and nothing is stored. */
static lightq_status propose_skip(struct lq_partition *partition, struct lq_partition_request *request,
                                  const struct lq_dedup_entry *known)
{
    request->same_id = true;
    request->duplicate = true;
    request->base_offset = known->offset;
    request->term = known->term;
    request->known_ms = known->timestamp_ms;
    if (request->producer_id == 0) {
        request->timestamp_ms = request->known_ms;
        decide(partition, request, LIGHTQ_OK);
        return LIGHTQ_OK;
    }
    struct lq_tail_producer *producer;
    lightq_status status = lq_tail_reserve(&partition->tail, request, &producer);
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct lq_command command = {.type = LQ_COMMAND_SKIP,
                                       .skip = {.producer_id = request->producer_id,
                                                .sequence = request->base_sequence,
                                                .count = request->message_count,
                                                .epoch = request->epoch,
                                                .begins_epoch = request->begins_epoch,
                                                .base_offset = known->offset,
                                                .term = known->term,
                                                .timestamp_ms = known->timestamp_ms}};
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
    lq_command_encode(&command, &writer);
    const struct iovec payload = {.iov_base = writer.bytes, .iov_len = writer.size};
    status = writer.status == LIGHTQ_OK ? submit(partition, request, &payload, 1, producer) : writer.status;
    lq_writer_deinit(&writer);
    if (status != LIGHTQ_OK && partition->leading) {
        lq_tail_release(&partition->tail, producer);
    }
    return status;
}

static lightq_status propose_append(struct lq_partition *partition, struct lq_partition_request *request, bool has_id)
{
    struct lq_tail_producer *producer;
    lightq_status status = lq_tail_reserve(&partition->tail, request, &producer);
    if (status == LIGHTQ_OK && has_id) {
        status = lq_tail_add_id(&partition->tail, request);
        if (status != LIGHTQ_OK) {
            lq_tail_release(&partition->tail, producer);
        }
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct lq_command command = {.append = {.producer_id = request->producer_id,
                                                  .sequence = request->base_sequence,
                                                  .expected_offset = request->expected_offset,
                                                  .epoch = request->epoch,
                                                  .begins_epoch = request->begins_epoch,
                                                  .has_id = has_id,
                                                  .message_id = request->message_id,
                                                  .batch_crc = request->batch_crc}};
    uint8_t head[LQ_COMMAND_APPEND_HEAD_MOST];
    size_t head_size = lq_command_append_head(&command, head);
    const struct iovec payload[] = {{.iov_base = head, .iov_len = head_size},
                                    {.iov_base = request->slab->bytes + request->offset, .iov_len = request->size}};
    status = submit(partition, request, payload, 2, producer);
    if (status != LIGHTQ_OK && partition->leading) {
        if (has_id) {
            lq_tail_remove_id(&partition->tail, request);
        }
        lq_tail_release(&partition->tail, producer);
    }
    return status;
}

static lightq_status propose_batch(struct lq_partition *partition, struct lq_partition_request *request)
{
    const struct lq_dedup_entry *known = NULL;
    request->same_id = false;
    if (request->has_id && partition->state.config.dedup_window_ms != 0) {
        lightq_status status = judge_id(partition, request, &known);
        if (status != LIGHTQ_OK) {
            return status;
        }
    } else {
        request->has_id = false; /* ids are not looked at */
    }
    if (known != NULL) {
        return propose_skip(partition, request, known);
    }
    if (request->expected_offset != LQ_OFFSET_ANY && request->expected_offset != partition->tail.next_offset) {
        return LIGHTQ_EEXPECTED;
    }
    return propose_append(partition, request, request->has_id);
}

/* OK: @request has found its place, and is answered later. Anything else: it is in none. */
static lightq_status judge(struct lq_partition *partition, struct lq_partition_request *request)
{
    struct lq_partition_request *proposed = NULL;
    const struct lq_batch_place *place = NULL;
    enum lq_tail_verdict verdict = lq_tail_judge(&partition->tail, &partition->state, request,
                                                 partition->options.producers_max, &proposed, &place);
    if (verdict == LQ_TAIL_FULL) {
        lightq_status status = propose_forget(partition);
        return status == LIGHTQ_OK ? propose_batch(partition, request) : status;
    }
    switch (verdict) {
    case LQ_TAIL_NEXT:
        return propose_batch(partition, request);
    case LQ_TAIL_PROPOSED:
        request->next = proposed->retries;
        proposed->retries = request;
        return LIGHTQ_OK;
    case LQ_TAIL_STORED:
        request->base_offset = place->base_offset;
        request->term = place->term;
        request->timestamp_ms = place->timestamp_ms;
        request->duplicate = true;
        decide(partition, request, LIGHTQ_OK);
        return LIGHTQ_OK;
    case LQ_TAIL_FORGOTTEN:
        return LIGHTQ_EDUPLICATE;
    case LQ_TAIL_FENCED:
        return LIGHTQ_EFENCED;
    case LQ_TAIL_GAP:
    case LQ_TAIL_FULL:
        break;
    }
    return LIGHTQ_EOUTOFSEQUENCE;
}

static lightq_status check(const struct lq_partition *partition, const struct lq_partition_request *request)
{
    if (partition->stopped) {
        return LIGHTQ_ESTOPPED;
    }
    if (!partition->leading) {
        return LIGHTQ_ENOTLEADER;
    }
    if (request->message_count == 0 || request->message_count > LQ_BATCH_RECORDS_MAX || request->size == 0 ||
        request->base_sequence > UINT64_MAX - request->message_count) {
        return LIGHTQ_EINVAL;
    }
    if (request->size > LQ_ENTRY_BYTES_MAX - LQ_COMMAND_APPEND_HEAD_MOST) {
        return LIGHTQ_ETOOBIG;
    }
    return partition->waiting >= partition->options.waiting_max ? LIGHTQ_EBUSY : LIGHTQ_OK;
}

static lightq_status enqueue(struct lq_partition *partition, struct lq_partition_request *request)
{
    if (request->size > partition->options.waiting_bytes_max - partition->queued_bytes) {
        return LIGHTQ_EBUSY;
    }
    partition->queued_bytes += request->size;
    push(&partition->queued, request);
    if (!partition->blocked) {
        lq_partition_wake(partition);
    }
    return LIGHTQ_OK;
}

lightq_status lq_partition_produce(struct lq_partition *partition, struct lq_partition_request *request)
{
    lightq_status status = check(partition, request);
    if (status != LIGHTQ_OK) {
        return status;
    }
    request->retries = NULL;
    request->next_of_producer = NULL;
    request->duplicate = false;
    request->same_id = false;
    if (partition->in_machine == 0 && partition->queued.first == NULL) {
        status = judge(partition, request);
        if (status != LIGHTQ_EBUSY) {
            partition->waiting += status == LIGHTQ_OK ? 1 : 0;
            return status;
        }
        partition->blocked = true;
    }
    status = enqueue(partition, request);
    partition->waiting += status == LIGHTQ_OK ? 1 : 0;
    return status;
}

void lq_intake_lead(struct lq_partition *partition)
{
    lq_tail_start(&partition->tail, &partition->state);
    partition->blocked = false;
    partition->trim_entry = 0;
    partition->config_entry = 0;
}

void lq_intake_drop(struct lq_partition *partition, lightq_status status)
{
    lq_tail_drop(&partition->tail);
    partition->trim_entry = 0;
    partition->config_entry = 0;
    struct lq_partition_request *request;
    while ((request = pop(&partition->proposed)) != NULL) {
        finish_proposed(partition, request, LIGHTQ_ELEADERSHIPLOST);
    }
    while ((request = pop_queued(partition)) != NULL) {
        finish(partition, request, status);
    }
}

void lq_intake_applied(struct lq_partition *partition, const struct lq_entry *entry, const struct lq_command *command)
{
    partition->blocked = false;
    if (partition->queued.first != NULL) {
        lq_partition_wake(partition);
    }
    if (partition->trim_entry == entry->index) {
        partition->trim_entry = 0;
    }
    if (partition->config_entry == entry->index) {
        partition->config_entry = 0;
    }
    if (command->type == LQ_COMMAND_FORGET) {
        lq_tail_forget_applied(&partition->tail, entry->index);
    }
    struct lq_partition_request *request = partition->proposed.first;
    assert(request == NULL || request->index >= entry->index); /* every proposal is applied, or leadership is lost */
    if (request != NULL && request->index == entry->index) {
        (void)pop(&partition->proposed);
        lq_tail_applied(&partition->tail, request);
        bool is_it = request->proposed_term == entry->term;
        request->timestamp_ms = request->same_id ? request->known_ms : request->timestamp_ms;
        finish_proposed(partition, request, is_it ? LIGHTQ_OK : LIGHTQ_ELEADERSHIPLOST);
    }
}

static void drain(struct lq_partition *partition)
{
    while (partition->leading && !partition->blocked && partition->queued.first != NULL) {
        struct lq_partition_request *request = pop_queued(partition);
        lightq_status status = judge(partition, request);
        if (status == LIGHTQ_EBUSY && partition->leading) {
            push_front(&partition->queued, request);
            partition->queued_bytes += request->size;
            partition->blocked = true;
            return;
        }
        if (status != LIGHTQ_OK) {
            finish(partition, request, status);
        }
    }
}

static bool config_differs(const struct lq_partition *partition)
{
    return partition->has_wanted &&
           (!lq_id_equal(&partition->wanted_topic, &partition->state.topic) ||
            partition->wanted_number != partition->state.partition ||
            memcmp(&partition->wanted_config, &partition->state.config, sizeof partition->wanted_config) != 0);
}

static bool wants_config(const struct lq_partition *partition)
{
    return partition->leading && !partition->blocked && partition->config_entry == 0 && config_differs(partition);
}

static void propose_config(struct lq_partition *partition)
{
    const struct lq_command command = {.type = LQ_COMMAND_CONFIG,
                                       .config = {.topic = partition->wanted_topic,
                                                  .partition = partition->wanted_number,
                                                  .config = partition->wanted_config}};
    lightq_status status = propose_command(partition, &command, &partition->config_entry);
    if (status != LIGHTQ_OK) {
        partition->config_entry = 0;
        partition->blocked = true; /* again after the next apply */
    }
}

void lq_intake_turn(struct lq_partition *partition)
{
    if (wants_config(partition)) {
        propose_config(partition);
    }
    drain(partition);
    struct lq_partition_request *request;
    while ((request = pop(&partition->decided)) != NULL) {
        finish(partition, request, request->result);
    }
}

bool lq_intake_needs_turn(const struct lq_partition *partition)
{
    return partition->decided.first != NULL || wants_config(partition) ||
           (partition->leading && !partition->blocked && partition->queued.first != NULL);
}

lightq_status lq_intake_trim(struct lq_partition *partition, uint64_t offset, enum lq_retention kept_for,
                             uint64_t *index)
{
    const struct lq_command command = {.type = LQ_COMMAND_TRIM, .trim = {.offset = offset, .kept_for = kept_for}};
    return propose_command(partition, &command, index);
}

static lightq_status trim(struct lq_partition *partition, uint64_t offset, enum lq_retention kept_for)
{
    if (partition->stopped) {
        return LIGHTQ_ESTOPPED;
    }
    if (!partition->leading) {
        return LIGHTQ_ENOTLEADER;
    }
    if (partition->in_machine != 0 || partition->trim_entry != 0) {
        return LIGHTQ_EBUSY;
    }
    lightq_status status = lq_intake_trim(partition, offset, kept_for, &partition->trim_entry);
    if (status != LIGHTQ_OK) {
        partition->trim_entry = 0; /* it is looked at again soon */
    }
    return status;
}

lightq_status lq_partition_trim(struct lq_partition *partition, uint64_t offset)
{
    return trim(partition, offset, LQ_RETENTION_LIMITS);
}

void lq_partition_retain(struct lq_partition *partition)
{
    if (!partition->leading || partition->trim_entry != 0) {
        return;
    }
    const struct lq_queue_state *state = &partition->state;
    uint64_t start = lq_queue_state_retained(state, lq_clock_wall_ms(partition->options.clock));
    uint64_t consumed = lq_queue_state_consumed(state);
    if (consumed > start) {
        (void)trim(partition, consumed, (enum lq_retention)state->config.retention);
    } else if (start > state->start_offset) {
        (void)trim(partition, start, LQ_RETENTION_LIMITS);
    }
}
