/* node/queue/failures.c - see failures.h. */
#include "node/queue/failures.h"

#include <stdlib.h>

#define FIRST_CAPACITY 8
#define LITTLE         1024 /* elements: kept when they are all gone */
#define FAILURE_BYTES  6    /* the least one takes in a checkpoint */

void lq_failures_deinit(struct lq_failures *failures)
{
    lq_offset_map_deinit(&failures->by_offset);
    free(failures->at);
    *failures = (struct lq_failures){.at = NULL};
}

struct lq_failure *lq_failures_find(const struct lq_failures *failures, uint64_t offset)
{
    uint32_t place = lq_offset_map_find(&failures->by_offset, offset);
    return place == LQ_OFFSET_MAP_NONE ? NULL : &failures->at[place];
}

static lightq_status reserve_one(struct lq_failures *failures)
{
    lightq_status status = lq_offset_map_reserve(&failures->by_offset, 1);
    if (status != LIGHTQ_OK || failures->count < failures->capacity) {
        return status;
    }
    uint32_t capacity = failures->capacity == 0 ? FIRST_CAPACITY : failures->capacity * 2;
    struct lq_failure *at = realloc(failures->at, capacity * sizeof *at);
    if (at == NULL) {
        return LIGHTQ_ENOMEM;
    }
    failures->at = at;
    failures->capacity = capacity;
    return LIGHTQ_OK;
}

lightq_status lq_failures_put(struct lq_failures *failures, const struct lq_failure *failure)
{
    struct lq_failure *found = lq_failures_find(failures, failure->offset);
    if (found != NULL) {
        *found = *failure;
        return LIGHTQ_OK;
    }
    lightq_status status = reserve_one(failures);
    if (status == LIGHTQ_OK) {
        lq_offset_map_put(&failures->by_offset, failure->offset, failures->count);
        failures->at[failures->count++] = *failure;
    }
    return status;
}

/* The last one takes its place. */
static void remove_at(struct lq_failures *failures, uint32_t place)
{
    (void)lq_offset_map_remove(&failures->by_offset, failures->at[place].offset);
    failures->count--;
    if (place != failures->count) {
        failures->at[place] = failures->at[failures->count];
        lq_offset_map_put(&failures->by_offset, failures->at[place].offset, place);
    }
    if (failures->count == 0 && failures->capacity > LITTLE) {
        lq_failures_deinit(failures);
    }
}

void lq_failures_forget(struct lq_failures *failures, uint64_t first, uint64_t end)
{
    if (end - first < failures->count) {
        for (uint64_t offset = first; offset < end && failures->count > 0; offset++) {
            uint32_t place = lq_offset_map_find(&failures->by_offset, offset);
            if (place != LQ_OFFSET_MAP_NONE) {
                remove_at(failures, place);
            }
        }
        return;
    }
    for (uint32_t place = failures->count;
         place-- > 0;) { /* backwards: the one that takes a place has been looked at */
        if (failures->at[place].offset >= first && failures->at[place].offset < end) {
            remove_at(failures, place);
        }
    }
}

static int by_offset(const void *a, const void *b)
{
    const struct lq_failure *const *left = a;
    const struct lq_failure *const *right = b;
    return (*left)->offset < (*right)->offset ? -1 : (*left)->offset > (*right)->offset;
}

lightq_status lq_failures_save(const struct lq_failures *failures, uint64_t floor, struct lq_writer *writer)
{
    lq_write_u32(writer, failures->count);
    if (failures->count == 0) {
        return writer->status;
    }
    const struct lq_failure **sorted = malloc(failures->count * sizeof *sorted);
    if (sorted == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint32_t i = 0; i < failures->count; i++) {
        sorted[i] = &failures->at[i];
    }
    qsort(sorted, failures->count, sizeof *sorted, by_offset);
    uint64_t expected = floor;
    for (uint32_t i = 0; i < failures->count; i++) {
        lq_write_varint(writer, sorted[i]->offset - expected);
        lq_write_varint(writer, sorted[i]->not_before_ms);
        lq_write_varint(writer, sorted[i]->delay_ms);
        lq_write_varint(writer, sorted[i]->count);
        lq_write_u8(writer, sorted[i]->reason);
        lq_write_u8(writer, sorted[i]->dead);
        expected = sorted[i]->offset + 1;
    }
    free(sorted);
    return writer->status;
}

static lightq_status load_one(struct lq_failures *failures, struct lq_reader *reader, uint64_t expected, uint64_t end)
{
    uint64_t distance = lq_read_varint(reader);
    struct lq_failure failure = {.not_before_ms = lq_read_varint(reader)};
    uint64_t delay_ms = lq_read_varint(reader);
    uint64_t count = lq_read_varint(reader);
    failure.reason = lq_read_u8(reader);
    uint8_t dead = lq_read_u8(reader);
    if (reader->failed || expected > end || distance >= end - expected || delay_ms > UINT32_MAX || count == 0 ||
        count > UINT32_MAX || failure.reason < LQ_FAILURE_NACK || failure.reason > LQ_FAILURE_LOST || dead > 1) {
        return LIGHTQ_ECORRUPT;
    }
    failure.offset = expected + distance;
    failure.delay_ms = (uint32_t)delay_ms;
    failure.count = (uint32_t)count;
    failure.dead = dead == 1;
    return lq_failures_put(failures, &failure);
}

lightq_status lq_failures_load(struct lq_failures *failures, struct lq_reader *reader, uint64_t floor, uint64_t end,
                               uint32_t count_max)
{
    uint32_t count = lq_read_u32(reader);
    if (reader->failed || count > count_max || lq_reader_left(reader) < (uint64_t)count * FAILURE_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    uint64_t expected = floor;
    for (uint32_t i = 0; i < count; i++) {
        lightq_status status = load_one(failures, reader, expected, end);
        if (status != LIGHTQ_OK) {
            return status;
        }
        expected = failures->at[failures->count - 1].offset + 1;
    }
    return LIGHTQ_OK;
}
