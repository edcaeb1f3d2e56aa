/* node/carry.c - see carry.h. */
#include "node/carry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/base/buf.h"
#include "client/wire/batch.h"
#include "node/meta_carrier.h"

#define KIND_CARRY    64
#define KIND_CARRIED  65
#define VERSION       1
#define HEAD_BYTES    12
#define CARRY_BYTES   20
#define CARRIED_BYTES 14
#define STATUS_MAX    1024 /* numbers above it are nonsense */
#define ARRIVED_MAX   1024 /* batches of other nodes at work here */
#define PATIENCE_US   UINT64_C(5000000)

/* One that another node sent. Pinned until its partition calls back. */
struct arrived {
    struct lq_partition_request batch;
    struct lq_carry *carry;
    uint64_t correlation;
    uint32_t node;
};

struct lq_carry {
    struct lq_service *service;
    struct lq_meta *meta; /* that has the carrier */
    struct lq_meta_carrier carrier;
    struct lq_carry_request *sent; /* to others */
    uint64_t last_correlation;
    size_t arrived;
};

/* What the queue wants to know of the batch. OK | EPROTO | ETOOBIG | ... */
static lightq_status fill(struct lq_partition_request *batch, struct lq_slab *slab, uint32_t offset, uint32_t size)
{
    struct lq_batch_summary summary;
    lightq_status status = lq_batch_check(slab->bytes + offset, size, NULL, NULL, &summary, NULL);
    *batch = (struct lq_partition_request){.slab = slab,
                                           .offset = offset,
                                           .size = size,
                                           .batch_crc = summary.head.crc,
                                           .message_count = summary.head.record_count,
                                           .epoch = summary.head.epoch,
                                           .producer_id = summary.head.producer_id,
                                           .base_sequence = summary.head.base_sequence,
                                           .expected_offset = LQ_OFFSET_ANY};
    return status;
}

static void put_head(uint8_t *at, uint8_t kind, uint64_t correlation)
{
    at[0] = kind;
    at[1] = VERSION;
    lq_put_u16(at + 2, 0);
    lq_put_u64(at + 4, correlation);
}

/* ---- from other nodes */

static void reply(struct lq_carry *carry, uint32_t node, uint64_t correlation, lightq_status status)
{
    struct lq_slab *slab = lq_slab_new(CARRIED_BYTES);
    if (slab == NULL || carry->service->meta == NULL) {
        lq_slab_unref(slab);
        return; /* it asks again */
    }
    put_head(slab->bytes, KIND_CARRIED, correlation);
    lq_put_u16(slab->bytes + HEAD_BYTES, (uint16_t)status);
    lightq_status sent = lq_meta_carry(carry->service->meta, node, slab);
    (void)sent; /* it asks again */
    lq_slab_unref(slab);
}

static void on_arrived_stored(struct lq_partition_request *batch, lightq_status status)
{
    struct arrived *arrived = batch->data;
    arrived->carry->arrived--;
    reply(arrived->carry, arrived->node, arrived->correlation, status);
    lq_slab_unref(batch->slab);
    free(arrived);
}

static lightq_status take_in(struct lq_carry *carry, uint32_t node, uint64_t correlation,
                             const struct lq_frame_in *frame)
{
    uint64_t group = lq_get_u64(frame->slab->bytes + frame->offset + HEAD_BYTES);
    struct lq_partition *partition = lq_meta_partition(carry->service->meta, group);
    if (partition == NULL || !lq_partition_leading(partition)) {
        return LIGHTQ_ENOTLEADER;
    }
    struct arrived *arrived = carry->arrived < ARRIVED_MAX ? malloc(sizeof *arrived) : NULL;
    if (arrived == NULL) {
        return LIGHTQ_EBUSY;
    }
    lightq_status status = fill(&arrived->batch, frame->slab, frame->offset + CARRY_BYTES, frame->size - CARRY_BYTES);
    arrived->carry = carry;
    arrived->node = node;
    arrived->correlation = correlation;
    arrived->batch.cb = on_arrived_stored;
    arrived->batch.data = arrived;
    if (status == LIGHTQ_OK) {
        status = lq_partition_produce(partition, &arrived->batch);
    }
    if (status != LIGHTQ_OK) {
        free(arrived);
        return status;
    }
    (void)lq_slab_ref(frame->slab);
    carry->arrived++;
    return LIGHTQ_OK;
}

static void finish(struct lq_carry *carry, struct lq_carry_request *request, lightq_status status)
{
    DL_DELETE(carry->sent, request);
    request->cb(request, status);
}

static void on_carried(struct lq_carry *carry, uint32_t node, uint64_t correlation, uint16_t status)
{
    struct lq_carry_request *request;
    DL_FOREACH(carry->sent, request)
    {
        if (request->correlation == correlation && request->node == node) {
            finish(carry, request, (lightq_status)status);
            return;
        }
    }
}

static lightq_status on_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_carry *carry = owner;
    const uint8_t *at = frame->slab->bytes + frame->offset;
    if (frame->size < HEAD_BYTES) {
        return LIGHTQ_EPROTO;
    }
    if (at[1] != VERSION) {
        return LIGHTQ_OK; /* of a newer node */
    }
    uint64_t correlation = lq_get_u64(at + 4);
    if (at[0] == KIND_CARRY) {
        if (frame->size <= CARRY_BYTES) {
            return LIGHTQ_EPROTO;
        }
        lightq_status status = take_in(carry, node, correlation, frame);
        if (status != LIGHTQ_OK) {
            reply(carry, node, correlation, status);
        }
    } else if (at[0] == KIND_CARRIED) {
        if (frame->size != CARRIED_BYTES || lq_get_u16(at + HEAD_BYTES) > STATUS_MAX) {
            return LIGHTQ_EPROTO;
        }
        on_carried(carry, node, correlation, lq_get_u16(at + HEAD_BYTES));
    }
    return LIGHTQ_OK;
}

/* ---- our own */

static void on_stored(struct lq_partition_request *batch, lightq_status status)
{
    struct lq_carry_request *request = batch->data;
    request->cb(request, status);
}

static lightq_status send(struct lq_carry *carry, uint32_t node, struct lq_carry_request *request)
{
    size_t size = request->slab->size;
    struct lq_slab *slab = lq_slab_new(CARRY_BYTES + size);
    if (slab == NULL) {
        return LIGHTQ_ENOMEM;
    }
    request->node = node;
    request->correlation = ++carry->last_correlation;
    request->deadline_us = lq_clock_monotonic_us(carry->service->clock) + PATIENCE_US;
    put_head(slab->bytes, KIND_CARRY, request->correlation);
    lq_put_u64(slab->bytes + HEAD_BYTES, request->group);
    memcpy(slab->bytes + CARRY_BYTES, request->slab->bytes, size);
    lightq_status status = lq_meta_carry(carry->service->meta, node, slab);
    lq_slab_unref(slab);
    if (status == LIGHTQ_OK) {
        DL_APPEND(carry->sent, request);
    }
    return status;
}

lightq_status lq_carry_store(struct lq_carry *carry, struct lq_carry_request *request)
{
    struct lq_service *service = carry->service;
    lightq_status status = fill(&request->batch, request->slab, 0, (uint32_t)request->slab->size);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (!lq_meta_is_mine(service->meta, request->group)) {
        return LIGHTQ_EUNSUPPORTED;
    }
    struct lq_partition *partition = lq_meta_partition(service->meta, request->group);
    if (partition != NULL && lq_partition_leading(partition)) {
        request->batch.cb = on_stored;
        request->batch.data = request;
        return lq_partition_produce(partition, &request->batch);
    }
    uint32_t node = lq_meta_leader(service->meta, request->group).node;
    return node == 0 || node == service->options->node_id ? LIGHTQ_ENOLEADER : send(carry, node, request);
}

void lq_carry_tick(struct lq_carry *carry)
{
    uint64_t now_us = lq_clock_monotonic_us(carry->service->clock);
    if (carry->meta != carry->service->meta) {
        carry->meta = carry->service->meta;
        if (carry->meta != NULL) {
            lq_meta_set_carrier(carry->meta, &carry->carrier);
        }
    }
    while (carry->sent != NULL && carry->sent->deadline_us <= now_us) { /* in the order they were sent */
        finish(carry, carry->sent, LIGHTQ_ETIMEDOUT);
    }
}

lightq_status lq_carry_new(struct lq_service *service, struct lq_carry **out)
{
    struct lq_carry *carry = calloc(1, sizeof *carry);
    if (carry == NULL) {
        return LIGHTQ_ENOMEM;
    }
    carry->service = service;
    carry->carrier = (struct lq_meta_carrier){.frame = on_frame, .owner = carry};
    /* An answer to what an earlier start sent must not be taken for another's. */
    carry->last_correlation = lq_clock_random_u64(service->clock) >> 2;
    *out = carry;
    return LIGHTQ_OK;
}

void lq_carry_free(struct lq_carry *carry)
{
    assert(carry->arrived == 0);
    while (carry->sent != NULL) {
        finish(carry, carry->sent, LIGHTQ_ECLOSED);
    }
    free(carry);
}
