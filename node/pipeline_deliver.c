/* node/pipeline_deliver.c - see pipeline.h: finds the batch of what is offered, leases of it what goes, and sends it.
 */
#include <stdlib.h>
#include <utlist.h>
#include <xxhash.h>

#include "client/wire/batch.h"
#include "node/pipeline_internal.h"
#include "storage/store.h"

#define TURN_BYTES_MAX      (4u * 1024 * 1024) /* delivered in one turn of the loop, over all groups */
#define TURN_STEPS_MAX      1024
#define QUANTUM_BYTES_MAX   (512u * 1024) /* delivered to one group before the next has its turn */
#define QUANTUM_STEPS_MAX   64
#define SEEK_AHEAD_MESSAGES 4096 /* further ahead a cursor is placed anew instead of going there */
#define TICK_AGAIN_US       10000
#define LEASES_LITTLE       (64u * 1024) /* bytes of leases that a group has whatever the others hold */

enum outcome {
    MOVED,
    STAYED, /* until something wakes it */
    ENDED,  /* it is gone */
};

/* ---- finding */

static void on_cursor(void *feed)
{
    lq_feed_wake(feed);
}

void lq_reader_place_init(struct lq_reader_place *reader, struct lq_feed *feed)
{
    lq_cursor_init(&reader->cursor, feed->pipeline->service, feed->partition, 0, on_cursor, feed);
    reader->sought = UINT64_MAX;
}

static void place(struct lq_feed *feed, struct lq_reader_place *reader, uint64_t offset)
{
    struct lq_group *group = lq_partition_group(feed->partition);
    uint64_t index =
        group == NULL ? lq_partition_applied(feed->partition) + 1 : lq_rlog_seek_offset(lq_group_log(group), offset);
    lq_cursor_seek(&reader->cursor, index);
    reader->placed = true;
    reader->at = reader->sought = offset;
}

static void give_up(struct lq_feed *feed, const struct lq_cursor *cursor, lightq_status status)
{
    const char *why;
    lightq_status told = lq_cursor_give_up(cursor, status, &why);
    lq_feed_end(feed, told, why);
}

/* There is no entry at the cursor: why, and what follows. */
static enum outcome no_entry(struct lq_feed *feed, struct lq_reader_place *reader, lightq_status status)
{
    switch (status) {
    case LIGHTQ_ENOTFOUND:
    case LIGHTQ_EBUSY:
        return STAYED;
    case LIGHTQ_ENOMEM:
        lq_feed_set_place(feed, LQ_FEED_STARVED);
        return STAYED;
    case LIGHTQ_EOUTOFRANGE: /* trimmed away meanwhile: something else is offered then */
        reader->placed = false;
        lq_feed_set_place(feed, LQ_FEED_STARVED);
        return STAYED;
    default:
        give_up(feed, &reader->cursor, status);
        return ENDED;
    }
}

/* A batch that was found. */
struct found {
    struct lq_entry entry;
    struct lq_slab *slab;
    const uint8_t *bytes;
    uint32_t size;
};

/* One step of the way to the batch that holds @offset. *done: *found is it. */
static enum outcome find(struct lq_feed *feed, struct lq_reader_place *reader, uint64_t offset, struct found *found,
                         bool *done)
{
    if (!reader->placed || offset < reader->at || offset > reader->at + SEEK_AHEAD_MESSAGES) {
        if (!reader->placed || reader->sought != offset) {
            place(feed, reader, offset);
        }
    }
    lightq_status status = lq_cursor_next(&reader->cursor, &found->entry, &found->slab);
    if (status != LIGHTQ_OK) {
        return no_entry(feed, reader, status);
    }
    const struct lq_entry *entry = &found->entry;
    if (!lq_partition_entry_batch(entry, &found->bytes, &found->size) ||
        entry->base_offset + entry->message_count <= offset) {
        lq_cursor_step(&reader->cursor);
        return MOVED;
    }
    if (entry->base_offset > offset) { /* it had gone further than was known; or the message is not there (any more) */
        bool missing = reader->sought == offset;
        reader->placed = false;
        return missing ? no_entry(feed, reader, LIGHTQ_EOUTOFRANGE) : MOVED;
    }
    reader->at = entry->base_offset;
    reader->sought = UINT64_MAX;
    *done = true;
    return MOVED;
}

/* ---- keys */

/* A hash of each message's key in feed->keys; one without a key stands for itself. */
static lightq_status hash_keys(struct lq_feed *feed, const struct found *found)
{
    const struct lq_entry *entry = &found->entry;
    if (feed->keys_count == entry->message_count && feed->keys_base == entry->base_offset) {
        return LIGHTQ_OK;
    }
    feed->keys_count = 0;
    if (feed->keys_capacity < entry->message_count) {
        uint64_t *keys = realloc(feed->keys, entry->message_count * sizeof *keys);
        if (keys == NULL) {
            return LIGHTQ_ENOMEM;
        }
        feed->keys = keys;
        feed->keys_capacity = entry->message_count;
    }
    struct lq_batch batch;
    struct lq_record record;
    lightq_status status = lq_batch_open(&batch, found->bytes, found->size, NULL);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (uint32_t i = 0; i < entry->message_count && status == LIGHTQ_OK; i++) {
        status = lq_batch_next(&batch, &record);
        uint64_t offset = entry->base_offset + i;
        if (status == LIGHTQ_OK) {
            feed->keys[i] = record.key.bytes == NULL ? XXH64(&offset, sizeof offset, 1)
                                                     : XXH64(record.key.bytes, record.key.size, 0);
        }
    }
    lq_batch_close(&batch);
    if (status == LIGHTQ_OK) {
        feed->keys_base = entry->base_offset;
        feed->keys_count = entry->message_count;
    }
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_ECORRUPT : status;
}

/* ---- sending */

static void suspend(struct lq_member *member)
{
    member->suspended = true;
    lq_leases_suspend(member->feed->leases, member->consumer, true);
}

/* What was leased and not sent goes back, and its credit too. */
static void take_back(struct lq_member *member, size_t count, uint64_t bytes, uint64_t now_us)
{
    struct lq_feed *feed = member->feed;
    uint64_t messages = 0;
    for (size_t i = 0; i < count; i++) {
        const struct lq_lease_grant *grant = &feed->pipeline->granted[i];
        struct lq_settle_item item = {.kind = LQ_SETTLE_RETURN, .first = grant->offset, .count = grant->count};
        struct lq_settle_counts counts = {0};
        lightq_status status =
            lq_leases_settle(feed->leases, member->consumer, &item, lq_partition_end(feed->partition), now_us, &counts);
        (void)status; /* ENOMEM: the lease ends by time */
        messages += grant->count;
    }
    lq_leases_credit(feed->leases, member->consumer, messages, bytes);
}

static uint64_t fill_grants(struct lq_pipeline *pipeline, uint64_t base, size_t count)
{
    uint64_t messages = 0;
    uint64_t at = base;
    for (size_t i = 0; i < count; i++) {
        const struct lq_lease_grant *granted = &pipeline->granted[i];
        Lightq__Wire__Grant *grant = &pipeline->grants[i];
        grant->skip = (uint32_t)(granted->offset - at);
        grant->count = granted->count;
        grant->delivery = granted->delivery;
        at = granted->offset + granted->count;
        messages += granted->count;
    }
    return messages;
}

/* Sends the batch with the first @count of pipeline->granted. */
static lightq_status send(struct lq_member *member, const struct found *found, size_t count)
{
    struct lq_feed *feed = member->feed;
    struct lq_pipeline *pipeline = feed->pipeline;
    struct lq_service *service = pipeline->service;
    const struct lq_cgroup *cgroup = lq_cgroups_find(lq_partition_groups(feed->partition), feed->key.number);
    uint64_t messages = fill_grants(pipeline, found->entry.base_offset, count);
    Lightq__Wire__Deliver body = LIGHTQ__WIRE__DELIVER__INIT;
    body.subscription = member->key.number;
    body.base_offset = found->entry.base_offset;
    body.message_count = found->entry.message_count;
    body.timestamp_ms = found->entry.timestamp_ms;
    body.log_end = lq_partition_end(feed->partition);
    body.first_wanted = pipeline->granted[0].offset;
    body.term = lq_partition_term(feed->partition);
    body.n_grants = count;
    body.grants = pipeline->grants_at;
    body.ack_wait_ms = cgroup == NULL ? 0 : cgroup->options.ack_wait_ms;
    lightq_status status = lq_session_deliver(service->sessions, member->session, &body, feed->key.group, found->slab,
                                              (uint32_t)(found->bytes - found->slab->bytes), found->size);
    if (status == LIGHTQ_OK) {
        service->counters->deliveries++;
        service->counters->messages_out += messages;
    }
    return status;
}

/* Whether it may know of more delivered messages: of what is free for all feeds one may take a part only, so that one
 * whose consumers settle nothing leaves room for the others; and each may have a little. */
static bool has_room(const struct lq_feed *feed)
{
    const struct lq_pipeline *pipeline = feed->pipeline;
    uint64_t most = pipeline->service->options->memory.leases;
    uint64_t free_bytes = pipeline->bytes < most ? most - pipeline->bytes : 0;
    return feed->bytes < LEASES_LITTLE || feed->bytes / 2 <= free_bytes;
}

/* Leases of the batch what goes to the consumer of @offer, and sends it. */
static enum outcome give(struct lq_feed *feed, const struct lq_lease_offer *offer, const struct found *found,
                         uint64_t now_us, uint64_t *bytes)
{
    struct lq_pipeline *pipeline = feed->pipeline;
    struct lq_member *member = offer->owner;
    struct lq_lease_batch batch = {
        .base = found->entry.base_offset, .count = found->entry.message_count, .bytes = found->size};
    const struct lq_cgroup *cgroup = lq_cgroups_find(lq_partition_groups(feed->partition), feed->key.number);
    lightq_status status = LIGHTQ_OK;
    size_t count = 0;
    if (cgroup != NULL && cgroup->options.key_ordered) {
        status = hash_keys(feed, found);
        batch.keys = feed->keys;
    }
    if (status == LIGHTQ_OK) {
        status = lq_leases_take(feed->leases, offer, &batch, now_us, pipeline->granted, LQ_DELIVER_GRANTS_MAX, &count);
    }
    if (status == LIGHTQ_OK && count > 0) {
        status = send(member, found, count);
        if (status == LIGHTQ_OK) {
            *bytes += found->size;
        } else {
            take_back(member, count, found->size, now_us);
        }
    }
    if (status == LIGHTQ_EBUSY) { /* the session tells when it takes messages again */
        suspend(member);
        return MOVED;
    }
    if (status == LIGHTQ_ENOMEM) {
        lq_feed_set_place(feed, LQ_FEED_STARVED);
        return STAYED;
    }
    if (status != LIGHTQ_OK) {
        give_up(feed, &feed->fresh.cursor, status);
        return ENDED;
    }
    return MOVED;
}

static enum outcome step(struct lq_feed *feed, uint64_t now_us, uint64_t *bytes)
{
    struct lq_lease_offer offer;
    uint64_t due_us;
    if (!lq_feed_is_alive(feed) || lq_leases_generation(feed->leases) != feed->generation) {
        return STAYED; /* its end is told */
    }
    if (lq_leases_next(feed->leases, lq_partition_end(feed->partition), now_us, &offer, &due_us) != LQ_LEASE_OFFER) {
        return STAYED;
    }
    struct lq_member *member = offer.owner;
    if (!has_room(feed)) { /* until something is settled, here or elsewhere */
        feed->pipeline->service->counters->deliveries_held++;
        lq_feed_set_place(feed, LQ_FEED_STARVED);
        return STAYED;
    }
    if (!lq_session_takes(feed->pipeline->service->sessions, member->session)) {
        suspend(member);
        return MOVED;
    }
    struct found found;
    bool done = false;
    struct lq_reader_place *reader =
        !feed->fresh.placed || offer.offset >= feed->fresh.at ? &feed->fresh : &feed->again;
    enum outcome outcome = find(feed, reader, offer.offset, &found, &done);
    return done ? give(feed, &offer, &found, now_us, bytes) : outcome;
}

/* One quantum. @feed may be gone afterwards. */
static unsigned move(struct lq_feed *feed, uint64_t now_us, uint64_t *bytes)
{
    uint64_t moved_bytes = 0;
    unsigned steps = 0;
    enum outcome outcome = MOVED;
    lq_feed_set_place(feed, LQ_FEED_RESTING);
    while (outcome == MOVED && steps < QUANTUM_STEPS_MAX && moved_bytes < QUANTUM_BYTES_MAX) {
        outcome = step(feed, now_us, &moved_bytes);
        steps++;
    }
    *bytes += moved_bytes;
    if (outcome == ENDED) {
        return steps;
    }
    lq_feed_count_bytes(feed);
    if (lq_feed_is_alive(feed)) {
        lq_feed_note_deadline(feed);
    }
    if (outcome == MOVED) {
        lq_feed_wake(feed);
    } else {
        lq_cursor_rest(&feed->fresh.cursor);
        lq_cursor_rest(&feed->again.cursor);
    }
    return steps;
}

/* ---- time */

static void tick(struct lq_pipeline *pipeline, uint64_t now_us)
{
    struct lq_feed *feed, *next;
    pipeline->deadline_us = UINT64_MAX;
    HASH_ITER(hh, pipeline->feeds, feed, next)
    {
        if (!lq_feed_is_alive(feed)) {
            continue;
        }
        if (lq_leases_deadline_us(feed->leases) <= now_us) {
            lq_partition_groups_tick(feed->partition);
            lq_feed_wake(feed);
        }
        lq_feed_note_deadline(feed);
    }
    if (pipeline->deadline_us <= now_us) { /* for want of memory; or delivering is what is due */
        pipeline->deadline_us = now_us + TICK_AGAIN_US;
    }
}

uint64_t lq_pipeline_deadline_us(const struct lq_pipeline *pipeline)
{
    return pipeline->deadline_us;
}

bool lq_pipeline_turn(struct lq_pipeline *pipeline)
{
    uint64_t bytes = 0;
    unsigned steps = 0;
    if (pipeline->feeds == NULL) {
        return false;
    }
    uint64_t now_us = lq_clock_monotonic_us(pipeline->service->clock);
    if (pipeline->deadline_us <= now_us) {
        tick(pipeline, now_us);
    }
    struct lq_feed *starved = pipeline->starved;
    while (starved != NULL) {
        struct lq_feed *next = starved->next;
        lq_feed_wake(starved);
        starved = next;
    }
    while (pipeline->ready != NULL && bytes < TURN_BYTES_MAX && steps < TURN_STEPS_MAX) {
        steps += move(pipeline->ready, now_us, &bytes);
    }
    return pipeline->ready != NULL;
}
