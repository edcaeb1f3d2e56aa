/* chaos/sim/reader.c - see reader.h. */
#include "chaos/sim/reader.h"

#include "chaos/sim/world.h"
#include "client/wire/batch.h"

enum {
    STEP_US = 50000,
    ANSWER_US = 1500000,
    SILENCE_US = 4000000,
    BACKOFF_US = 100000,
    CREDIT_MAX = 200,
    CREDIT_BYTES = 4 * 1024 * 1024,
    SEEK_ONE_IN = 400, /* steps of a reader that goes back now and then */
};

static struct world *world_of_reader(const struct reader *reader)
{
    return reader->client.world;
}

static void let_go(struct reader *reader)
{
    reader->state = READER_IDLE;
    reader->retry_us = world_now(world_of_reader(reader)) + world_below(world_of_reader(reader), BACKOFF_US);
}

static void try_another(struct reader *reader, const Lightq__Wire__Leader *hint)
{
    let_go(reader);
    if (hint != NULL && hint->node >= 1 && hint->node <= world_of_reader(reader)->nodes &&
        hint->node - 1 != reader->node) {
        reader->node = hint->node - 1;
    } else {
        reader->node = (reader->node + 1) % world_of_reader(reader)->nodes;
    }
}

static void note_seek(struct reader *reader, uint64_t offset)
{
    struct world *world = world_of_reader(reader);
    struct lq_err err = {.text = ""};
    world_noted(
        world,
        lq_history_seek(&world->history, world_now(world), reader->name, world->logs[reader->partition], offset, &err),
        &err);
}

/* ---- what comes */

static void take_record(struct reader *reader, uint64_t offset, const struct lq_record *record)
{
    struct world *world = world_of_reader(reader);
    struct lq_err err = {.text = ""};
    uint32_t producer;
    char name[16];
    if (record->value.size < 16) {
        sim_fail(world->sim, "a message of %zu bytes that nobody sent at offset %llu", record->value.size,
                 (unsigned long long)offset);
        return;
    }
    snprintf(name, sizeof name, "p%u", (unsigned)lq_get_u64(record->value.bytes));
    world_noted(world, lq_history_producer(&world->history, lq_word_of(name), &producer, &err), &err);
    world_noted(world,
                lq_history_read(&world->history, world_now(world), reader->name, world->logs[reader->partition], offset,
                                producer, lq_get_u64(record->value.bytes + 8), lq_batch_record_crc(record), &err),
                &err);
    world->result.reads++;
    reader->next = offset + 1;
}

static void take_batch(struct reader *reader, const Lightq__Wire__Deliver *deliver, const struct letter *letter)
{
    struct world *world = world_of_reader(reader);
    struct lq_batch batch;
    struct lq_record record;
    struct lq_err err = {.text = ""};
    lightq_status status =
        lq_batch_open(&batch, letter->payload->bytes + letter->payload_offset, letter->payload_size, &err);
    if (status != LIGHTQ_OK) {
        sim_fail(world->sim, "a batch at offset %llu that is not sound is delivered: %s",
                 (unsigned long long)deliver->base_offset, err.text);
        return;
    }
    const struct truth_batch seen = {.offset = deliver->base_offset,
                                     .producer = batch.head.producer_id,
                                     .sequence = batch.head.base_sequence,
                                     .crc = batch.head.crc,
                                     .count = batch.head.record_count};
    truth_read(world, reader->partition, &seen);
    world->result.operations++;
    while ((status = lq_batch_next(&batch, &record)) == LIGHTQ_OK) {
        uint64_t offset = deliver->base_offset + record.index;
        if (offset >= deliver->first_wanted) {
            take_record(reader, offset, &record);
        }
    }
    lq_batch_close(&batch);
    reader->credit -= reader->credit < seen.count ? reader->credit : seen.count;
}

static void give_credit(struct reader *reader)
{
    if (reader->credit < CREDIT_MAX / 2) {
        Lightq__Wire__Credit credit = LIGHTQ__WIRE__CREDIT__INIT;
        credit.subscription = reader->subscription;
        credit.messages = CREDIT_MAX - reader->credit;
        credit.bytes = CREDIT_BYTES / 2;
        reader->credit = CREDIT_MAX;
        (void)client_send(&reader->client, reader->node, LQ_MESSAGE_CREDIT, &credit.base, 0, NULL);
    }
}

static void on_subscribed(struct reader *reader, const Lightq__Wire__SubscribeAnswer *answer)
{
    struct world *world = world_of_reader(reader);
    if (answer->status == LIGHTQ_OK) {
        reader->state = READER_RUNNING;
        reader->term = answer->term > reader->term ? answer->term : reader->term;
        if (reader->from_first) {
            note_seek(reader, answer->offset);
        }
        reader->from_first = false;
        reader->next = answer->offset;
    } else if (answer->status == LIGHTQ_EOUTOFRANGE && reader->next > answer->log_end && answer->term < reader->term) {
        try_another(reader, NULL); /* it does not know yet that it leads no more */
    } else if (answer->status == LIGHTQ_EOUTOFRANGE && reader->next > answer->log_end) {
        sim_fail(world->sim, "partition %u: its leader, node %u, ends at %llu, but %llu was read", reader->partition,
                 reader->node + 1, (unsigned long long)answer->log_end, (unsigned long long)reader->next);
    } else if (answer->status == LIGHTQ_EOUTOFRANGE) {
        reader->from_first = true;
        let_go(reader);
    } else {
        try_another(reader, answer->leader);
    }
}

static void on_ended(struct reader *reader, const Lightq__Wire__SubscriptionEnded *ended)
{
    if (ended->status == LIGHTQ_EOUTOFRANGE) {
        reader->from_first = true;
        let_go(reader);
    } else {
        try_another(reader, ended->leader);
    }
}

static void on_receive(void *owner, unsigned node, const struct letter *letter)
{
    struct reader *reader = owner;
    if (node != reader->node || reader->stopped) {
        return;
    }
    switch (letter->envelope.type) {
    case LQ_MESSAGE_SUBSCRIBE_ANSWER:
        if (reader->state == READER_ASKED && letter->envelope.correlation == reader->correlation) {
            on_subscribed(reader, letter->body);
        }
        return;
    case LQ_MESSAGE_DELIVER: {
        const Lightq__Wire__Deliver *deliver = letter->body;
        if (reader->state == READER_RUNNING && deliver->subscription == reader->subscription) {
            reader->term = deliver->term > reader->term ? deliver->term : reader->term;
            take_batch(reader, deliver, letter);
            give_credit(reader);
        }
        return;
    }
    case LQ_MESSAGE_SUBSCRIPTION_ENDED: {
        const Lightq__Wire__SubscriptionEnded *ended = letter->body;
        if (reader->state != READER_IDLE && ended->subscription == reader->subscription) {
            on_ended(reader, ended);
        }
        return;
    }
    default:
        return;
    }
}

static void on_lost(void *owner, unsigned node)
{
    struct reader *reader = owner;
    if (reader->node == node) {
        try_another(reader, NULL);
    }
}

static const struct client_ops ops = {.receive = on_receive, .lost = on_lost};

/* ---- time */

static void subscribe(struct reader *reader)
{
    struct world *world = world_of_reader(reader);
    Lightq__Wire__Start start = LIGHTQ__WIRE__START__INIT;
    Lightq__Wire__Subscribe body = LIGHTQ__WIRE__SUBSCRIBE__INIT;
    if (world_now(world) < reader->retry_us || !client_open(&reader->client, reader->node)) {
        if (world_now(world) > reader->retry_us + ANSWER_US) { /* it does not greet */
            try_another(reader, NULL);
        }
        return;
    }
    start.kind = reader->from_first ? LIGHTQ__WIRE__START_KIND__START_FIRST : LIGHTQ__WIRE__START_KIND__START_OFFSET;
    start.value = reader->next;
    body.topic = lq_codec_bytes_of(&world->topic);
    body.partition = reader->partition;
    body.subscription = ++reader->subscription;
    body.start = &start;
    body.credit_messages = CREDIT_MAX;
    body.credit_bytes = CREDIT_BYTES;
    reader->credit = CREDIT_MAX;
    reader->state = READER_ASKED;
    reader->asked_us = world_now(world);
    reader->correlation = client_send(&reader->client, reader->node, LQ_MESSAGE_SUBSCRIBE, &body.base,
                                      world->groups[reader->partition], NULL);
}

/* Back to somewhere before, as an application may. */
static void seek_back(struct reader *reader)
{
    struct world *world = world_of_reader(reader);
    client_close(&reader->client, reader->node);
    reader->next = world_below(world, reader->next + 1);
    note_seek(reader, reader->next);
    let_go(reader);
}

static void step(struct sim *sim, void *data)
{
    struct reader *reader = data;
    uint64_t now_us = sim_now_us(sim);
    if (reader->stopped) {
        return;
    }
    client_beat(&reader->client);
    bool late = (reader->state == READER_ASKED && now_us > reader->asked_us + ANSWER_US) ||
                (reader->state == READER_RUNNING && now_us > reader->client.lines[reader->node].heard_us + SILENCE_US);
    if (late) {
        client_close(&reader->client, reader->node);
        try_another(reader, NULL);
    }
    if (reader->state == READER_IDLE) {
        subscribe(reader);
    } else if (reader->number == WORLD_READERS - 1 && reader->state == READER_RUNNING && world_of(sim)->working &&
               world_below(world_of(sim), SEEK_ONE_IN) == 0) {
        seek_back(reader);
    }
    sim_plan(sim, STEP_US, step, reader);
}

void reader_init(struct reader *reader, struct world *world, unsigned number, unsigned partition, bool final)
{
    struct lq_err err = {.text = ""};
    char name[16];
    *reader = (struct reader){.number = number, .partition = partition, .from_first = final};
    client_init(&reader->client, world, &ops, reader);
    snprintf(name, sizeof name, "%s%u", final ? "final" : "r", number);
    world_noted(world,
                lq_history_reader(&world->history, lq_word_of(name), final ? LQ_READER_FINAL : LQ_READER_SUBSCRIBER,
                                  LQ_HISTORY_NONE, &reader->name, &err),
                &err);
    reader->node = (unsigned)world_below(world, world->nodes);
    sim_plan(world->sim, world_below(world, STEP_US), step, reader);
}

void reader_deinit(struct reader *reader)
{
    reader->stopped = true;
}
