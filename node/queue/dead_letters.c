/* node/queue/dead_letters.c - see dead_letters.h. */
#include "node/queue/dead_letters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/queue/failures.h"

#define FIRST_CAPACITY 8
#define LITTLE         1024 /* elements: kept when they are all gone */
#define LETTER_BYTES   4    /* the least one takes in a checkpoint */

void lq_dead_letters_deinit(struct lq_dead_letters *letters)
{
    free(letters->ring);
    *letters = (struct lq_dead_letters){.ring = NULL};
}

static struct lq_dead_letter *place_of(const struct lq_dead_letters *letters, uint64_t number)
{
    return &letters->ring[number & (letters->capacity - 1)];
}

const struct lq_dead_letter *lq_dead_letters_at(const struct lq_dead_letters *letters, uint64_t number)
{
    return number < letters->done || number >= letters->next ? NULL : place_of(letters, number);
}

static lightq_status grow(struct lq_dead_letters *letters)
{
    struct lq_dead_letters bigger = *letters;
    bigger.capacity = letters->capacity == 0 ? FIRST_CAPACITY : letters->capacity * 2;
    bigger.ring = malloc(bigger.capacity * sizeof *bigger.ring);
    if (bigger.ring == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (uint64_t number = letters->done; number < letters->next; number++) {
        *place_of(&bigger, number) = *place_of(letters, number);
    }
    free(letters->ring);
    *letters = bigger;
    return LIGHTQ_OK;
}

lightq_status lq_dead_letters_add(struct lq_dead_letters *letters, const struct lq_dead_letter *letter)
{
    if (letters->next - letters->done == letters->capacity) {
        lightq_status status = grow(letters);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    *place_of(letters, letters->next++) = *letter;
    return LIGHTQ_OK;
}

struct lq_dead_letter lq_dead_letters_take(struct lq_dead_letters *letters)
{
    assert(letters->done < letters->next);
    struct lq_dead_letter letter = *place_of(letters, letters->done++);
    if (letters->done == letters->next && letters->capacity > LITTLE) {
        free(letters->ring);
        letters->ring = NULL;
        letters->capacity = 0;
    }
    return letter;
}

bool lq_dead_letters_begin(struct lq_dead_letters *letters, const struct lq_id *topic, uint32_t epoch)
{
    if (epoch == 0 || epoch - 1 != letters->epoch) {
        return false;
    }
    letters->topic = *topic;
    letters->epoch = epoch;
    letters->base = letters->done;
    return true;
}

uint64_t lq_dead_letters_lowest(const struct lq_dead_letters *letters)
{
    uint64_t lowest = UINT64_MAX;
    for (uint64_t number = letters->done; number < letters->next; number++) {
        uint64_t offset = place_of(letters, number)->offset;
        lowest = offset < lowest ? offset : lowest;
    }
    return lowest;
}

void lq_dead_letters_save(const struct lq_dead_letters *letters, struct lq_writer *writer)
{
    lq_write_u64(writer, letters->done);
    lq_write_u64(writer, letters->base);
    lq_write_bytes(writer, letters->topic.bytes, sizeof letters->topic.bytes);
    lq_write_u32(writer, letters->epoch);
    lq_write_u32(writer, (uint32_t)(letters->next - letters->done));
    for (uint64_t number = letters->done; number < letters->next; number++) {
        const struct lq_dead_letter *letter = place_of(letters, number);
        lq_write_varint(writer, letter->offset);
        lq_write_varint(writer, letter->failed_ms);
        lq_write_varint(writer, letter->count);
        lq_write_u8(writer, letter->reason);
    }
}

static lightq_status load_one(struct lq_dead_letters *letters, struct lq_reader *reader, uint64_t end)
{
    struct lq_dead_letter letter = {.offset = lq_read_varint(reader)};
    letter.failed_ms = lq_read_varint(reader);
    uint64_t count = lq_read_varint(reader);
    letter.reason = lq_read_u8(reader);
    if (reader->failed || letter.offset >= end || count == 0 || count > UINT32_MAX || letter.reason < LQ_FAILURE_NACK ||
        letter.reason > LQ_FAILURE_LOST) {
        return LIGHTQ_ECORRUPT;
    }
    letter.count = (uint32_t)count;
    return lq_dead_letters_add(letters, &letter);
}

lightq_status lq_dead_letters_load(struct lq_dead_letters *letters, struct lq_reader *reader, uint64_t end,
                                   uint32_t open_max)
{
    letters->done = lq_read_u64(reader);
    letters->base = lq_read_u64(reader);
    const uint8_t *topic = lq_read_bytes(reader, sizeof letters->topic.bytes);
    letters->epoch = lq_read_u32(reader);
    uint32_t open = lq_read_u32(reader);
    if (topic == NULL || reader->failed || open > open_max || letters->done > UINT64_MAX - open ||
        letters->base > letters->done || lq_reader_left(reader) < (uint64_t)open * LETTER_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    memcpy(letters->topic.bytes, topic, sizeof letters->topic.bytes);
    letters->next = letters->done;
    for (uint32_t i = 0; i < open; i++) {
        lightq_status status = load_one(letters, reader, end);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return LIGHTQ_OK;
}
