/* node/queue/marks.c - see marks.h. */
#include "node/queue/marks.h"

#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"

#define FIRST_CAPACITY     8
#define INTERVAL_BYTES_MIN (64u * 1024)
#define INTERVAL_MS_MIN    1000u
#define INTERVAL_MAX       (UINT64_C(1) << 62)
#define FEW                (LQ_PARTITION_MARKS_MAX / 8)
#define MARK_BYTES         24

void lq_marks_init(struct lq_marks *marks)
{
    *marks = (struct lq_marks){.interval_bytes = INTERVAL_BYTES_MIN, .interval_ms = INTERVAL_MS_MIN};
}

void lq_marks_deinit(struct lq_marks *marks)
{
    free(marks->at);
    lq_marks_init(marks);
}

static lightq_status reserve(struct lq_marks *marks, size_t count)
{
    if (count <= marks->capacity) {
        return LIGHTQ_OK;
    }
    size_t capacity = marks->capacity == 0 ? FIRST_CAPACITY : marks->capacity;
    while (capacity < count) {
        capacity *= 2;
    }
    struct lq_mark *at = realloc(marks->at, capacity * sizeof *at);
    if (at == NULL) {
        return LIGHTQ_ENOMEM;
    }
    marks->at = at;
    marks->capacity = capacity;
    return LIGHTQ_OK;
}

static void thin(struct lq_marks *marks)
{
    size_t kept = 0;
    for (size_t i = 0; i < marks->count; i += 2) {
        marks->at[kept++] = marks->at[i];
    }
    marks->count = kept;
    if (marks->interval_bytes < INTERVAL_MAX) {
        marks->interval_bytes *= 2;
    }
    if (marks->interval_ms < INTERVAL_MAX) {
        marks->interval_ms *= 2;
    }
}

lightq_status lq_marks_add(struct lq_marks *marks, const struct lq_mark *mark)
{
    if (marks->count > 0) {
        const struct lq_mark *last = &marks->at[marks->count - 1];
        if (mark->bytes - last->bytes < marks->interval_bytes &&
            mark->timestamp_ms - last->timestamp_ms < marks->interval_ms) {
            return LIGHTQ_OK;
        }
    }
    if (marks->count == LQ_PARTITION_MARKS_MAX) {
        thin(marks);
    }
    lightq_status status = reserve(marks, marks->count + 1);
    if (status == LIGHTQ_OK) {
        marks->at[marks->count++] = *mark;
    }
    return status;
}

void lq_marks_trim(struct lq_marks *marks, uint64_t start, uint64_t end)
{
    if (start >= end) {
        lq_marks_deinit(marks);
        return;
    }
    size_t gone = 0;
    while (gone + 1 < marks->count && marks->at[gone + 1].offset <= start) {
        gone++;
    }
    if (gone == 0) {
        return;
    }
    marks->count -= gone;
    memmove(marks->at, marks->at + gone, marks->count * sizeof *marks->at);
    if (marks->count < FEW) {
        marks->interval_bytes =
            marks->interval_bytes / 2 > INTERVAL_BYTES_MIN ? marks->interval_bytes / 2 : INTERVAL_BYTES_MIN;
        marks->interval_ms = marks->interval_ms / 2 > INTERVAL_MS_MIN ? marks->interval_ms / 2 : INTERVAL_MS_MIN;
    }
}

/* The last mark for which @above is false, given that it is false first and then true. */
static const struct lq_mark *last_below(const struct lq_marks *marks, uint64_t value,
                                        uint64_t (*field)(const struct lq_mark *mark))
{
    size_t low = 0;
    size_t high = marks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (field(&marks->at[middle]) <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? NULL : &marks->at[low - 1];
}

static uint64_t offset_of(const struct lq_mark *mark)
{
    return mark->offset;
}

static uint64_t time_of(const struct lq_mark *mark)
{
    return mark->timestamp_ms;
}

static uint64_t bytes_of(const struct lq_mark *mark)
{
    return mark->bytes;
}

const struct lq_mark *lq_marks_find(const struct lq_marks *marks, uint64_t offset)
{
    return last_below(marks, offset, offset_of);
}

const struct lq_mark *lq_marks_find_time(const struct lq_marks *marks, uint64_t timestamp_ms)
{
    return last_below(marks, timestamp_ms, time_of);
}

const struct lq_mark *lq_marks_find_bytes(const struct lq_marks *marks, uint64_t bytes)
{
    return last_below(marks, bytes, bytes_of);
}

void lq_marks_save(const struct lq_marks *marks, struct lq_writer *writer)
{
    lq_write_u64(writer, marks->interval_bytes);
    lq_write_u64(writer, marks->interval_ms);
    lq_write_u32(writer, (uint32_t)marks->count);
    for (size_t i = 0; i < marks->count; i++) {
        lq_write_u64(writer, marks->at[i].offset);
        lq_write_u64(writer, marks->at[i].bytes);
        lq_write_u64(writer, marks->at[i].timestamp_ms);
    }
}

static bool follows(const struct lq_mark *before, const struct lq_mark *mark)
{
    return mark->offset > before->offset && mark->bytes >= before->bytes && mark->timestamp_ms >= before->timestamp_ms;
}

lightq_status lq_marks_load(struct lq_marks *marks, struct lq_reader *reader)
{
    marks->interval_bytes = lq_read_u64(reader);
    marks->interval_ms = lq_read_u64(reader);
    size_t count = lq_read_u32(reader);
    if (count > LQ_PARTITION_MARKS_MAX || lq_reader_left(reader) < count * MARK_BYTES ||
        marks->interval_bytes < INTERVAL_BYTES_MIN || marks->interval_ms < INTERVAL_MS_MIN ||
        marks->interval_bytes > INTERVAL_MAX || marks->interval_ms > INTERVAL_MAX) {
        return LIGHTQ_ECORRUPT;
    }
    lightq_status status = reserve(marks, count);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        struct lq_mark *mark = &marks->at[i];
        mark->offset = lq_read_u64(reader);
        mark->bytes = lq_read_u64(reader);
        mark->timestamp_ms = lq_read_u64(reader);
        if (i > 0 && !follows(&marks->at[i - 1], mark)) {
            return LIGHTQ_ECORRUPT;
        }
    }
    marks->count = count;
    return LIGHTQ_OK;
}
