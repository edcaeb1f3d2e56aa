/* node/queue/producers.c - see producers.h. */
#include "node/queue/producers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCER_BYTES 32 /* less than any one takes in a checkpoint */

enum lq_verdict lq_sequence_judge(const struct lq_progress *progress, const struct lq_numbering *batch)
{
    if (progress == NULL) {
        return batch->sequence == 0 || batch->begins_epoch ? LQ_VERDICT_NEXT : LQ_VERDICT_GAP;
    }
    if (batch->epoch < progress->epoch) {
        return LQ_VERDICT_FENCED;
    }
    if (batch->sequence == progress->next_sequence) {
        return LQ_VERDICT_NEXT;
    }
    if (batch->sequence > progress->next_sequence) {
        return batch->begins_epoch && batch->epoch > progress->epoch ? LQ_VERDICT_NEXT : LQ_VERDICT_GAP;
    }
    if (batch->sequence + batch->count > progress->next_sequence) {
        return LQ_VERDICT_GAP;
    }
    return batch->epoch == progress->epoch && batch->sequence >= progress->epoch_sequence ? LQ_VERDICT_OLD
                                                                                          : LQ_VERDICT_EARLIER;
}

struct lq_progress lq_progress_after(const struct lq_progress *progress, uint32_t epoch, uint64_t sequence,
                                     uint32_t count)
{
    bool same = progress != NULL && progress->epoch == epoch;
    return (struct lq_progress){.epoch = epoch,
                                .epoch_sequence = same ? progress->epoch_sequence : sequence,
                                .next_sequence = sequence + count};
}

static void unlink_from_order(struct lq_producers *producers, struct lq_producer *producer)
{
    *(producer->older != NULL ? &producer->older->newer : &producers->oldest) = producer->newer;
    *(producer->newer != NULL ? &producer->newer->older : &producers->newest) = producer->older;
}

static void link_as_newest(struct lq_producers *producers, struct lq_producer *producer)
{
    producer->older = producers->newest;
    producer->newer = NULL;
    *(producers->newest != NULL ? &producers->newest->newer : &producers->oldest) = producer;
    producers->newest = producer;
}

static void drop_oldest(struct lq_producers *producers)
{
    struct lq_producer *producer = producers->oldest;
    assert(producers->table != NULL); /* it holds all that are in the order */
    producers->oldest = producer->newer;
    if (producers->oldest != NULL) {
        producers->oldest->older = NULL;
    } else {
        producers->newest = NULL;
    }
    HASH_DEL(producers->table, producer);
    producers->count--;
    free(producer);
}

void lq_producers_deinit(struct lq_producers *producers)
{
    while (producers->oldest != NULL) {
        drop_oldest(producers);
    }
}

struct lq_producer *lq_producers_find(const struct lq_producers *producers, uint64_t id)
{
    struct lq_producer *producer = NULL;
    HASH_FIND(hh, producers->table, &id, sizeof id, producer);
    return producer;
}

const struct lq_batch_place *lq_producer_batch(const struct lq_producer *producer, uint64_t sequence, uint32_t count)
{
    for (uint32_t i = 0; i < producer->kept; i++) {
        if (producer->batches[i].sequence == sequence && producer->batches[i].count == count) {
            return &producer->batches[i];
        }
    }
    return NULL;
}

/* A new one, in the table and newest; NULL when out of memory. */
static struct lq_producer *add(struct lq_producers *producers, uint64_t id)
{
    struct lq_producer *producer = calloc(1, sizeof *producer);
    if (producer == NULL) {
        return NULL;
    }
    producer->id = id;
    HASH_ADD(hh, producers->table, id, sizeof producer->id, producer);
    if (producer->hh.tbl == NULL) {
        free(producer);
        return NULL;
    }
    link_as_newest(producers, producer);
    producers->count++;
    return producer;
}

lightq_status lq_producers_applied(struct lq_producers *producers, uint64_t id, uint32_t epoch, uint64_t index,
                                   const struct lq_batch_place *batch)
{
    struct lq_producer *producer = lq_producers_find(producers, id);
    const struct lq_progress *before = producer == NULL ? NULL : &producer->progress;
    if (producer != NULL) {
        unlink_from_order(producers, producer);
        link_as_newest(producers, producer);
    } else if (producers->count >= LQ_PRODUCERS_MAX) {
        return LIGHTQ_ELIMIT;
    } else if ((producer = add(producers, id)) == NULL) {
        return LIGHTQ_ENOMEM;
    }
    if (producer->kept == LQ_PRODUCER_BATCHES_KEPT) {
        memmove(producer->batches, producer->batches + 1, sizeof producer->batches - sizeof producer->batches[0]);
        producer->kept--;
    }
    producer->batches[producer->kept++] = *batch;
    producer->progress = lq_progress_after(before, epoch, batch->sequence, batch->count);
    producer->last_index = index;
    return LIGHTQ_OK;
}

void lq_producers_forget(struct lq_producers *producers, uint64_t index)
{
    while (producers->oldest != NULL && producers->oldest->last_index <= index) {
        drop_oldest(producers);
    }
}

void lq_producers_save(const struct lq_producers *producers, struct lq_writer *writer)
{
    lq_write_u32(writer, (uint32_t)producers->count);
    for (const struct lq_producer *producer = producers->oldest; producer != NULL; producer = producer->newer) {
        lq_write_u64(writer, producer->id);
        lq_write_u64(writer, producer->progress.next_sequence);
        lq_write_u64(writer, producer->progress.epoch_sequence);
        lq_write_u64(writer, producer->last_index);
        lq_write_u32(writer, producer->progress.epoch);
        lq_write_u32(writer, producer->kept);
        for (uint32_t i = 0; i < producer->kept; i++) {
            const struct lq_batch_place *batch = &producer->batches[i];
            lq_write_u64(writer, batch->sequence);
            lq_write_u64(writer, batch->base_offset);
            lq_write_u64(writer, batch->term);
            lq_write_u64(writer, batch->timestamp_ms);
            lq_write_u32(writer, batch->count);
        }
    }
}

/* Whether a batch may lie behind another one that ends before @end: without a gap, unless an epoch began there. */
static bool follows(const struct lq_producer *producer, uint64_t end, uint64_t sequence)
{
    return sequence == end || (sequence > end && sequence <= producer->progress.epoch_sequence);
}

/* The batches follow one another and end where the producer goes on. At least one is kept. Their offsets need not go
 * up: one that was skipped has that of another message, stored before. */
static bool load_batches(struct lq_producer *producer, struct lq_reader *reader, uint64_t offset_end)
{
    for (uint32_t i = 0; i < producer->kept; i++) {
        struct lq_batch_place *batch = &producer->batches[i];
        batch->sequence = lq_read_u64(reader);
        batch->base_offset = lq_read_u64(reader);
        batch->term = lq_read_u64(reader);
        batch->timestamp_ms = lq_read_u64(reader);
        batch->count = lq_read_u32(reader);
        if (reader->failed || batch->count == 0 || batch->count > LQ_BATCH_RECORDS_MAX ||
            batch->sequence > UINT64_MAX - batch->count || batch->base_offset > offset_end ||
            offset_end - batch->base_offset < batch->count) {
            return false;
        }
        const struct lq_batch_place *before = i > 0 ? batch - 1 : NULL;
        if (before != NULL && !follows(producer, before->sequence + before->count, batch->sequence)) {
            return false;
        }
    }
    const struct lq_batch_place *last = &producer->batches[producer->kept - 1];
    return last->sequence + last->count == producer->progress.next_sequence &&
           last->sequence >= producer->progress.epoch_sequence;
}

lightq_status lq_producers_load(struct lq_producers *producers, struct lq_reader *reader, bool with_epochs,
                                uint64_t index_max, uint64_t offset_end)
{
    size_t count = lq_read_u32(reader);
    if (count > LQ_PRODUCERS_MAX || lq_reader_left(reader) < count * PRODUCER_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    uint64_t last_index = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t id = lq_read_u64(reader);
        if (reader->failed || id == 0 || lq_producers_find(producers, id) != NULL) {
            return LIGHTQ_ECORRUPT;
        }
        struct lq_producer *producer = add(producers, id);
        if (producer == NULL) {
            return LIGHTQ_ENOMEM;
        }
        producer->progress.next_sequence = lq_read_u64(reader);
        producer->progress.epoch_sequence = with_epochs ? lq_read_u64(reader) : 0;
        producer->last_index = lq_read_u64(reader);
        producer->progress.epoch = lq_read_u32(reader);
        uint32_t kept = lq_read_u32(reader);
        if (reader->failed || kept == 0 || kept > LQ_PRODUCER_BATCHES_KEPT || producer->last_index <= last_index ||
            producer->last_index > index_max) {
            return LIGHTQ_ECORRUPT;
        }
        last_index = producer->last_index;
        producer->kept = kept;
        if (!load_batches(producer, reader, offset_end)) {
            return LIGHTQ_ECORRUPT;
        }
    }
    return reader->failed ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}
