/* chaos/sim/producer.c - see producer.h. */
#include "chaos/sim/producer.h"

#include <assert.h>
#include <string.h>

#include "chaos/sim/world.h"
#include "client/base/crc.h"
#include "client/wire/batch.h"
#include "client/wire/produced.h"

enum {
    STEP_US = 25000,
    RATE_MIN_US = 60000,
    RATE_SPREAD_US = 120000,
    AHEAD_FACTOR = 8,
    OPERATIONS = 3500, /* about so many in a run */
    REQUEST_US = 1500000,
    DELIVERY_MIN_US = 1000000,
    DELIVERY_SPREAD_US = 14000000,
    BACKOFF_US = 80000,
    RECORDS_MAX = 3,
    VALUE_MIN = 16,
    VALUE_SMALL = 200,
    VALUE_MIDDLE = 3000,
    VALUE_LARGE = 16000,
    ONE_AT_ONCE_PERCENT = 60, /* else as many batches as may be in flight */
};

static struct world *world_of_producer(const struct producer *producer)
{
    return producer->client.world;
}

static bool in_doubt(const struct batch *batch)
{
    return batch->attempts > batch->rejections;
}

bool producer_idle(const struct producer *producer)
{
    return producer->count == 0;
}

/* ---- outcomes */

static void remove_batch(struct producer *producer, struct batch *batch)
{
    size_t at = (size_t)(batch - producer->batches);
    lq_slab_unref(batch->slab);
    memmove(batch, batch + 1, (producer->count - at - 1) * sizeof *batch);
    producer->count--;
}

static void note_stored(struct producer *producer, const struct batch *batch, const Lightq__Wire__ProduceAnswer *answer)
{
    struct world *world = world_of_producer(producer);
    struct lq_err err = {.text = ""};
    bool known = answer->status == LIGHTQ_OK;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint64_t offset = known ? answer->base_offset + i : LQ_HISTORY_UNKNOWN;
        world_noted(world,
                    lq_history_ok(&world->history, world_now(world), producer->name, batch->message + i,
                                  world->logs[producer->partition], offset, known ? answer->term : 0, &err),
                    &err);
    }
    world->result.acknowledged += batch->count;
}

/* A new epoch begins with the batch at @at, or with the next one. What is under way from there on is sent again.
 * @certain: what came before is not stored and never will be. */
static void begin_epoch(struct producer *producer, unsigned at, bool certain)
{
    producer->begin_next = producer->begin_next || at == producer->count;
    for (unsigned i = at; i < producer->count; i++) {
        struct batch *batch = &producer->batches[i];
        batch->state = BATCH_WAITING;
        batch->correlation = 0;
        batch->rejections = certain ? batch->attempts : batch->rejections;
        if (i == at) {
            batch->begins = true;
            batch->begun = false;
        }
    }
}

/* The application is told that it is not stored, or that nobody knows. */
static void give_up(struct producer *producer, struct batch *batch)
{
    struct world *world = world_of_producer(producer);
    struct lq_err err = {.text = ""};
    bool certain = !in_doubt(batch);
    enum lq_outcome outcome = certain ? LQ_OUTCOME_FAILED : LQ_OUTCOME_UNKNOWN;
    unsigned at = (unsigned)(batch - producer->batches);
    for (uint32_t i = 0; i < batch->count; i++) {
        world_noted(
            world,
            lq_history_not_ok(&world->history, world_now(world), producer->name, batch->message + i, outcome, &err),
            &err);
    }
    *(certain ? &world->result.failed : &world->result.unknown) += batch->count;
    remove_batch(producer, batch);
    begin_epoch(producer, at, certain);
}

/* The leader does not know what comes before the oldest batch, which does not begin an epoch. */
static void on_gap(struct producer *producer)
{
    if (!in_doubt(&producer->batches[0])) {
        begin_epoch(producer, 0, true);
        return;
    }
    for (unsigned i = 0; i < producer->count;) { /* sent again they could be stored twice */
        if (in_doubt(&producer->batches[i])) {
            give_up(producer, &producer->batches[i]);
        } else {
            i++;
        }
    }
}

/* ---- sending */

static void back_off(struct producer *producer)
{
    producer->retry_us = world_now(world_of_producer(producer)) + world_below(world_of_producer(producer), BACKOFF_US);
}

static void try_another(struct producer *producer, const Lightq__Wire__Leader *hint)
{
    if (hint != NULL && hint->node >= 1 && hint->node <= world_of_producer(producer)->nodes &&
        hint->node - 1 != producer->leader) {
        producer->leader = hint->node - 1;
        return;
    }
    producer->leader = (producer->leader + 1) % world_of_producer(producer)->nodes;
    back_off(producer);
}

static void send_batch(struct producer *producer, struct batch *batch)
{
    struct world *world = world_of_producer(producer);
    Lightq__Wire__Produce produce = LIGHTQ__WIRE__PRODUCE__INIT;
    produce.topic = lq_codec_bytes_of(&world->topic);
    produce.partition = producer->partition;
    if (batch->begins && !batch->begun) {
        producer->epoch++;
        batch->begun = true;
    }
    produce.epoch = producer->epoch;
    produce.begins_epoch = batch->begins;
    batch->state = BATCH_SENT;
    batch->node = producer->leader;
    batch->sent_us = world_now(world);
    batch->attempts++;
    batch->correlation = client_send(&producer->client, producer->leader, LQ_MESSAGE_PRODUCE, &produce.base,
                                     world->groups[producer->partition], batch->slab);
}

static void go_on(struct producer *producer)
{
    if (producer->count == 0 || world_now(world_of_producer(producer)) < producer->retry_us ||
        !client_open(&producer->client, producer->leader)) {
        return;
    }
    for (unsigned i = 0; i < producer->count; i++) {
        if (producer->batches[i].begins && i != 0) {
            break; /* what is before it has no outcome yet */
        }
        if (producer->batches[i].state == BATCH_WAITING) {
            send_batch(producer, &producer->batches[i]);
        }
    }
}

/* ---- answers */

static void on_answer(struct producer *producer, struct batch *batch, const Lightq__Wire__ProduceAnswer *answer)
{
    struct world *world = world_of_producer(producer);
    lightq_status status = (lightq_status)answer->status;
    batch->state = BATCH_WAITING;
    batch->correlation = 0;
    switch (lq_produced_says(status)) {
    case LQ_PRODUCED_STORED:
        if (status == LIGHTQ_OK) {
            const struct truth_batch said = {.offset = answer->base_offset,
                                             .producer = producer->id,
                                             .sequence = batch->sequence,
                                             .crc = batch->crc,
                                             .count = batch->count};
            truth_acknowledged(world, producer->partition, &said);
        }
        note_stored(producer, batch, answer);
        remove_batch(producer, batch);
        return;
    case LQ_PRODUCED_REFUSED:
        batch->rejections++;
        if (status == LIGHTQ_EFENCED) {
            sim_fail(world->sim, "producer p%u is fenced in its newest epoch %u", producer->number, producer->epoch);
        }
        give_up(producer, batch);
        return;
    case LQ_PRODUCED_GAP:
        batch->rejections++;
        if (batch != &producer->batches[0]) {
            return; /* the one before it decides */
        }
        if (batch->begins) {
            sim_fail(world->sim, "producer p%u: the beginning of epoch %u is out of sequence", producer->number,
                     producer->epoch);
        }
        on_gap(producer);
        return;
    case LQ_PRODUCED_NOT_NOW:
        batch->rejections++;
        break;
    case LQ_PRODUCED_NOT_KNOWN:
        break;
    }
    if (status == LIGHTQ_EBUSY || status == LIGHTQ_ELIMIT) {
        back_off(producer);
    } else if (batch->node == producer->leader) { /* else another one is asked already: five batches fail alike */
        try_another(producer, answer->leader);
    }
}

static void on_receive(void *owner, unsigned node, const struct letter *letter)
{
    struct producer *producer = owner;
    (void)node;
    if (letter->envelope.type != LQ_MESSAGE_PRODUCE_ANSWER) {
        sim_fail(world_of_producer(producer)->sim, "a producer is sent a %s", lq_message_name(letter->envelope.type));
        return;
    }
    for (unsigned i = 0; i < producer->count; i++) {
        struct batch *batch = &producer->batches[i];
        if (batch->state == BATCH_SENT && batch->correlation == letter->envelope.correlation) {
            on_answer(producer, batch, letter->body);
            break;
        }
    }
    go_on(producer);
}

static void on_lost(void *owner, unsigned node)
{
    struct producer *producer = owner;
    for (unsigned i = 0; i < producer->count; i++) {
        if (producer->batches[i].node == node) {
            producer->batches[i].state = BATCH_WAITING;
        }
    }
    if (producer->leader == node) {
        try_another(producer, NULL);
    }
}

static const struct client_ops ops = {.receive = on_receive, .lost = on_lost};

/* ---- time */

static void expire(struct producer *producer)
{
    struct world *world = world_of_producer(producer);
    uint64_t now_us = world_now(world);
    for (unsigned i = 0; i < producer->count; i++) {
        struct batch *batch = &producer->batches[i];
        if (batch->state == BATCH_SENT && now_us > batch->sent_us + REQUEST_US) {
            batch->state = BATCH_WAITING;
            if (world_below(world, 2) == 0) { /* or its answer comes late, and is not waited for */
                client_close(&producer->client, batch->node);
                on_lost(producer, batch->node);
            } else {
                try_another(producer, NULL);
            }
        }
    }
    while (producer->count != 0 && now_us > producer->batches[0].made_us + producer->delivery_us &&
           !world->faults_over) {
        give_up(producer, &producer->batches[0]);
    }
}

static size_t value_size(struct world *world)
{
    uint64_t choice = world_below(world, 100);
    return choice < 85   ? VALUE_MIN + world_below(world, VALUE_SMALL)
           : choice < 99 ? VALUE_MIN + world_below(world, VALUE_MIDDLE)
                         : VALUE_LARGE;
}

/* A value says whose it is. */
static void add_record(struct producer *producer, struct lq_batch_writer *writer, uint64_t message)
{
    struct world *world = world_of_producer(producer);
    struct lq_err err = {.text = ""};
    uint8_t value[VALUE_LARGE];
    size_t size = value_size(world);
    memset(value, (int)(message * 31 + producer->number), size);
    lq_put_u64(value, producer->number);
    lq_put_u64(value + 8, message);
    uint32_t crc = lq_crc32c(0, value, size);
    lightq_status status =
        lq_batch_writer_add(writer, world_now(world) / 1000, lq_span_of(NULL, 0), lq_span_of(value, size), NULL, 0);
    assert(status == LIGHTQ_OK);
    world_noted(world,
                lq_history_attempt(&world->history, world_now(world), producer->name, message,
                                   world->logs[producer->partition], &crc, &err),
                &err);
}

/* Five from the oldest without an outcome on, whatever became of those behind it: the leader keeps so many. */
static bool has_room(const struct producer *producer)
{
    return producer->count == 0 || producer->next_number - producer->batches[0].number < LQ_INFLIGHT_BATCHES_MAX;
}

static void make_batch(struct producer *producer)
{
    struct world *world = world_of_producer(producer);
    struct batch *batch = &producer->batches[producer->count++];
    struct lq_batch_writer writer;
    struct lq_batch_head head;
    *batch = (struct batch){.message = producer->next_message,
                            .sequence = producer->next_sequence,
                            .number = producer->next_number++,
                            .count = 1 + (uint32_t)world_below(world, RECORDS_MAX),
                            .begins = producer->begin_next,
                            .made_us = world_now(world)};
    lq_batch_writer_init(&writer, LQ_ENTRY_BYTES_MAX);
    for (uint32_t i = 0; i < batch->count; i++) {
        add_record(producer, &writer, batch->message + i);
    }
    lightq_status status =
        lq_batch_writer_seal(&writer, producer->id, producer->epoch, batch->sequence, LQ_BATCH_PLAIN, &batch->slab);
    assert(status == LIGHTQ_OK);
    lq_batch_writer_deinit(&writer);
    status = lq_batch_head_decode(batch->slab->bytes, batch->slab->size, &head, NULL);
    assert(status == LIGHTQ_OK);
    batch->crc = head.crc;
    producer->begin_next = false;
    producer->next_sequence += batch->count;
    producer->next_message += batch->count;
}

static void step(struct sim *sim, void *data)
{
    struct producer *producer = data;
    expire(producer);
    client_beat(&producer->client);
    go_on(producer);
    sim_plan(sim, STEP_US, step, producer);
}

/* Where everything works, fewer operations do: their number decides what a run costs. */
static bool is_ahead(const struct world *world)
{
    uint64_t wanted = OPERATIONS * (world_now(world) - world->began_us) / WORLD_WORK;
    return world->result.operations > wanted;
}

static void produce(struct sim *sim, void *data)
{
    struct producer *producer = data;
    struct world *world = world_of(sim);
    bool many = world_below(world, 100) >= ONE_AT_ONCE_PERCENT;
    while (world->working && has_room(producer)) {
        make_batch(producer);
        if (!many) {
            break;
        }
    }
    go_on(producer);
    if (world->working) {
        uint64_t slower = is_ahead(world) ? AHEAD_FACTOR : 1;
        sim_plan(sim, world_below(world, 2 * slower * producer->rate_us), produce, producer);
    }
}

void producer_init(struct producer *producer, struct world *world, unsigned number)
{
    struct lq_err err = {.text = ""};
    char name[16];
    *producer = (struct producer){.number = number, .partition = number % WORLD_PARTITIONS};
    client_init(&producer->client, world, &ops, producer);
    snprintf(name, sizeof name, "p%u", number);
    world_noted(world, lq_history_producer(&world->history, lq_word_of(name), &producer->name, &err), &err);
    producer->rate_us = RATE_MIN_US + world_below(world, RATE_SPREAD_US);
    producer->leader = (unsigned)world_below(world, world->nodes);
    producer->id = sim_random(world->sim) | 1;
    producer->delivery_us = DELIVERY_MIN_US + world_below(world, DELIVERY_SPREAD_US);
    sim_plan(world->sim, world_below(world, STEP_US), step, producer);
    sim_plan(world->sim, world_below(world, producer->rate_us), produce, producer);
}

void producer_deinit(struct producer *producer)
{
    while (producer->count != 0) {
        lq_slab_unref(producer->batches[--producer->count].slab);
    }
}
