/* test_lease.c - the leases of a pipeline group (node/queue/lease*.c) under random histories: consumers that come, go,
 * settle and are slow, leaders that change, trims, seeks, pauses. A slow model remembers of each message who has it;
 * every grant and every verdict is checked against it. The group itself is the real one, which test_cgroup.c tests. */
#include "node/queue/lease.h"

#include "node/queue/lease_internal.h"
#include "node/queue/state.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/node/queue_fixture.h"

#define OFFSETS     4000
#define CONSUMERS   5
#define KEYS        7
#define BATCH       37 /* messages of one batch: no multiple of a block */
#define GRANTS      6
#define ACK_WAIT_MS 400
#define NOBODY      (-1)

enum where {
    UNTOUCHED, /* not delivered by this leader */
    HELD,
    ON_ITS_WAY, /* a result is gathered or proposed */
    AGAIN,      /* to be delivered again, at once or when it is due */
};

struct message {
    enum where where;
    bool fails;   /* of ON_ITS_WAY: it is not an ack */
    int consumer; /* of HELD, and of ON_ITS_WAY who settled it */
    uint64_t until_us, due_us;
};

struct consumer {
    bool is_there;
    lq_lease_consumer number;
    int64_t messages, bytes;
    uint32_t held;
    unsigned joined;
};

/* A SETTLE that was proposed. */
struct proposal {
    uint8_t *bytes;
    size_t size;
};

struct world {
    struct lq_queue_state state;
    struct lq_cgroup *cgroup;
    struct lq_leases *leases;
    struct message at[OFFSETS];
    struct consumer consumers[CONSUMERS];
    struct proposal proposals[64];
    unsigned proposed, applied, joined;
    uint64_t random, index, now_us, end;
    uint64_t cursor; /* the first message this leader never delivered */
    bool key_ordered;
    uint64_t grants, redelivered, failures;
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

/* ---- the replicated side */

/* Failures of a SETTLE whose messages have been trimmed since. */
static uint32_t stale_of(const struct world *world, const uint8_t *bytes, size_t size)
{
    struct lq_command command;
    struct lq_settle_failure failure;
    struct lq_settle_range range;
    uint32_t stale = 0;
    assert_int_equal(lq_command_decode(bytes, (uint32_t)size, &command), LIGHTQ_OK);
    if (command.type != LQ_COMMAND_SETTLE) {
        return 0;
    }
    struct lq_settle_reader reader = lq_settle_reader_of(&command.settle);
    while (lq_settle_next_range(&reader, &range)) {
    }
    while (lq_settle_next_failure(&reader, &failure)) {
        stale += failure.offset < world->state.start_offset;
    }
    return stale;
}

static void apply_bytes(struct world *world, const uint8_t *bytes, size_t size, uint32_t messages)
{
    const struct lq_entry entry = {.index = ++world->index,
                                   .term = 1,
                                   .base_offset = world->end,
                                   .timestamp_ms = world->now_us / 1000,
                                   .type = LQ_ENTRY_COMMAND,
                                   .message_count = messages,
                                   .payload_size = (uint32_t)size,
                                   .payload = bytes};
    struct lq_command command;
    struct lq_err err;
    uint32_t stale = stale_of(world, bytes, size);
    assert_int_equal(lq_queue_state_apply(&world->state, &entry, &command, &err), LIGHTQ_OK);
    if (world->leases != NULL && command.type == LQ_COMMAND_SETTLE) {
        assert_int_equal(world->state.outcome.status, LIGHTQ_OK);
        assert_int_equal(world->state.outcome.stale, stale); /* what the leader judged is what comes of it */
        lq_leases_applied(world->leases, &command.settle, world->now_us);
    } else if (world->leases != NULL && command.type != LQ_COMMAND_APPEND) {
        lq_leases_changed(world->leases, world->now_us);
    }
}

static void apply(struct world *world, const struct lq_command *command, uint32_t messages)
{
    struct lq_writer writer;
    lq_writer_init(&writer, 1024);
    lq_command_encode(command, &writer);
    if (command->type == LQ_COMMAND_APPEND) {
        lq_write_u8(&writer, 1);
    }
    apply_bytes(world, writer.bytes, writer.size, messages);
    lq_writer_deinit(&writer);
}

static void append(struct world *world, uint32_t count)
{
    const struct lq_command command = {.type = LQ_COMMAND_APPEND, .append = {.expected_offset = LQ_OFFSET_ANY}};
    count = world->end + count < OFFSETS ? count : (uint32_t)(OFFSETS - world->end);
    if (count > 0) {
        apply(world, &command, count);
        world->end += count;
    }
}

static bool is_settled(const struct world *world, uint64_t offset)
{
    return lq_settled_has(&world->cgroup->settled, offset);
}

static bool is_dead(const struct world *world, uint64_t offset)
{
    const struct lq_failure *failure = lq_failures_find(&world->cgroup->failures, offset);
    return failure != NULL && failure->dead;
}

static uint64_t key_of(uint64_t offset)
{
    return offset * 2654435761u % KEYS;
}

/* ---- the model */

static void model_let_go(struct world *world, uint64_t offset)
{
    struct message *at = &world->at[offset];
    if (at->where == HELD) {
        world->consumers[at->consumer].held--;
    }
}

/* A leader that has just begun. */
static void model_begin(struct world *world)
{
    memset(world->at, 0, sizeof world->at);
    for (unsigned i = 0; i < CONSUMERS; i++) {
        world->consumers[i].held = 0;
    }
    world->cursor = world->cgroup->settled.floor;
}

static void model_result(struct world *world, uint64_t offset, int consumer, bool fails)
{
    model_let_go(world, offset);
    world->at[offset] = (struct message){.where = ON_ITS_WAY, .fails = fails, .consumer = consumer};
}

static void model_again(struct world *world, uint64_t offset, uint64_t due_us)
{
    model_let_go(world, offset);
    world->at[offset] = (struct message){.where = AGAIN, .due_us = due_us};
}

/* Lines of keys: nothing of its key that must come first is neither settled nor with the same consumer. */
static void assert_in_order_of_key(const struct world *world, uint64_t offset, int consumer)
{
    for (uint64_t other = 0; other < world->cursor || other < offset; other++) {
        const struct message *at = &world->at[other];
        if (other == offset || key_of(other) != key_of(offset) || is_settled(world, other) || is_dead(world, other)) {
            continue;
        }
        if (at->where == HELD) {
            assert_int_equal(at->consumer, consumer);
        } else if (other < offset) {
            assert_true(at->where == ON_ITS_WAY && !at->fails);
        }
    }
}

static void check_grant(struct world *world, struct consumer *consumer, uint64_t offset, uint32_t delivery)
{
    struct message *at = &world->at[offset];
    int number = (int)(consumer - world->consumers);
    assert_true(offset < world->end);
    assert_false(is_settled(world, offset));
    assert_false(is_dead(world, offset));
    assert_true(at->where == UNTOUCHED || at->where == AGAIN);
    assert_int_equal(delivery, lq_cgroup_failed(world->cgroup, offset) + 1);
    if (at->where == AGAIN) {
        assert_true(at->due_us <= world->now_us);
        world->redelivered++;
    }
    if (world->key_ordered) {
        assert_in_order_of_key(world, offset, number);
    }
    *at = (struct message){
        .where = HELD, .consumer = number, .until_us = world->now_us + world->cgroup->options.ack_wait_ms * 1000u};
    consumer->held++;
    consumer->messages--;
    world->grants++;
}

/* ---- what happens */

static void lead(struct world *world)
{
    lq_leases_free(world->leases);
    assert_int_equal(lq_leases_new(world->cgroup, world->now_us, world->now_us / 1000, &world->leases), LIGHTQ_OK);
    for (unsigned i = 0; i < CONSUMERS; i++) {
        world->consumers[i] = (struct consumer){.is_there = false};
    }
    for (; world->applied < world->proposed; world->applied++) { /* what was proposed is lost */
        free(world->proposals[world->applied].bytes);
    }
    world->applied = world->proposed = 0;
    model_begin(world);
    for (uint64_t offset = 0; offset < world->end; offset++) { /* nothing before its time, whoever leads */
        const struct lq_failure *failure = lq_failures_find(&world->cgroup->failures, offset);
        if (failure != NULL && failure->not_before_ms * 1000 > world->now_us) {
            world->at[offset] = (struct message){.where = AGAIN, .due_us = failure->not_before_ms * 1000};
        }
    }
}

static void join(struct world *world, struct consumer *consumer)
{
    if (!consumer->is_there) {
        *consumer = (struct consumer){.is_there = true, .joined = world->joined++};
        assert_int_equal(lq_leases_join(world->leases, consumer, &consumer->number), LIGHTQ_OK);
    }
}

static void leave(struct world *world, struct consumer *consumer)
{
    if (!consumer->is_there) {
        return;
    }
    bool clean = below(world, 2) == 0;
    int number = (int)(consumer - world->consumers);
    assert_int_equal(lq_leases_leave(world->leases, consumer->number, clean, world->now_us), LIGHTQ_OK);
    for (uint64_t offset = 0; offset < world->end; offset++) {
        if (world->at[offset].where == HELD && world->at[offset].consumer == number) {
            if (clean) {
                model_again(world, offset, 0);
            } else {
                model_result(world, offset, number, true);
            }
        }
    }
    assert_int_equal(consumer->held, 0);
    consumer->is_there = false;
}

static void credit(struct world *world, struct consumer *consumer)
{
    if (consumer->is_there) {
        uint64_t messages = below(world, 30);
        lq_leases_credit(world->leases, consumer->number, messages, messages * 10);
        consumer->messages += (int64_t)messages;
        consumer->bytes += (int64_t)messages * 10;
    }
}

static void assert_window(const struct world *world)
{
    uint64_t out = 0;
    uint64_t ceiling = world->cgroup->settled.ceiling;
    for (uint64_t offset = 0; offset < world->end; offset++) {
        out += !is_settled(world, offset) && (world->at[offset].where == HELD || world->at[offset].where == AGAIN) &&
               (offset < world->cursor || offset < ceiling);
    }
    uint64_t cursor_out = world->cursor > ceiling ? world->cursor - ceiling + world->cgroup->settled.holes : 0;
    for (uint64_t offset = ceiling; offset < world->cursor; offset++) {
        cursor_out -= is_dead(world, offset); /* passed, not delivered */
    }
    assert_true(cursor_out <= world->cgroup->options.max_unsettled || world->cursor <= ceiling);
    assert_true(out <= world->cgroup->options.max_unsettled + world->cgroup->settled.holes);
}

/* Whose turn may it be? */
static void check_consumer(const struct world *world, const struct consumer *consumer)
{
    assert_true(consumer->is_there && consumer->messages > 0 && consumer->bytes > 0);
    if (!world->cgroup->options.exclusive) {
        return;
    }
    for (unsigned i = 0; i < CONSUMERS; i++) {
        assert_true(!world->consumers[i].is_there || world->consumers[i].joined >= consumer->joined);
    }
}

/* One offer, as far as there is one. False: there was none. */
static bool deliver(struct world *world)
{
    struct lq_lease_offer offer;
    struct lq_lease_offer same;
    struct lq_lease_grant grants[GRANTS];
    uint64_t keys[BATCH];
    uint64_t due_us;
    size_t count;
    enum lq_lease_state now = lq_leases_next(world->leases, world->end, world->now_us, &offer, &due_us);
    world->cursor = world->leases->cursor; /* it passes what is delayed */
    assert_true(due_us > world->now_us);
    if (now != LQ_LEASE_OFFER) {
        return false;
    }
    assert_int_equal(lq_leases_next(world->leases, world->end, world->now_us, &same, &due_us), LQ_LEASE_OFFER);
    assert_true(same.offset == offer.offset && same.consumer == offer.consumer);
    struct consumer *consumer = offer.owner;
    check_consumer(world, consumer);
    struct lq_lease_batch batch = {.base = offer.offset - offer.offset % BATCH, .count = BATCH, .bytes = 100};
    batch.count = batch.base + BATCH > world->end ? (uint32_t)(world->end - batch.base) : BATCH;
    for (uint32_t i = 0; i < BATCH; i++) {
        keys[i] = key_of(batch.base + i);
    }
    batch.keys = world->key_ordered ? keys : NULL;
    assert_int_equal(lq_leases_take(world->leases, &offer, &batch, world->now_us, grants, GRANTS, &count), LIGHTQ_OK);
    assert_true(count <= GRANTS && (count > 0 || world->key_ordered));
    struct lq_leases_status status;
    lq_leases_status(world->leases, &status);
    if (count > 0) {
        consumer->bytes -= 100;
    }
    uint64_t before = 0;
    world->cursor = status.cursor > world->cursor ? status.cursor : world->cursor;
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || grants[i].offset >= before);
        for (uint64_t offset = grants[i].offset; offset < grants[i].offset + grants[i].count; offset++) {
            check_grant(world, consumer, offset, grants[i].delivery);
        }
        before = grants[i].offset + grants[i].count;
    }
    assert_true(consumer->messages >= 0);
    assert_window(world);
    return true;
}

/* What the model says of one message of an item: which count goes up. */
static uint32_t *verdict(struct world *world, const struct lq_settle_item *item, uint64_t offset, int consumer,
                         struct lq_settle_counts *counts)
{
    const struct message *at = &world->at[offset];
    if (offset >= world->end) {
        return &counts->unknown;
    }
    bool is_result = item->kind == LQ_SETTLE_ACK || item->kind == LQ_SETTLE_NACK || item->kind == LQ_SETTLE_REJECT;
    if (is_settled(world, offset) || (is_result && is_dead(world, offset))) {
        return &counts->settled;
    }
    if (at->where == ON_ITS_WAY) {
        return &counts->waiting;
    }
    if (item->kind == LQ_SETTLE_ACK) {
        return &counts->taken;
    }
    bool its = at->where == HELD ? at->consumer == consumer : is_result && offset >= world->cursor;
    its = its && (item->delivery == 0 || item->delivery == lq_cgroup_failed(world->cgroup, offset) + 1);
    return its ? &counts->taken : &counts->not_held;
}

static void take_into_model(struct world *world, const struct lq_settle_item *item, uint64_t offset, int consumer)
{
    switch (item->kind) {
    case LQ_SETTLE_ACK:
    case LQ_SETTLE_NACK:
    case LQ_SETTLE_REJECT:
        model_result(world, offset, consumer, item->kind != LQ_SETTLE_ACK);
        break;
    case LQ_SETTLE_EXTEND:
        world->at[offset].until_us = world->now_us + world->cgroup->options.ack_wait_ms * 1000u;
        break;
    case LQ_SETTLE_RETURN:
        model_again(world, offset, 0);
        break;
    }
}

static void settle(struct world *world, struct consumer *consumer)
{
    static const enum lq_settle_kind kinds[] = {LQ_SETTLE_ACK,    LQ_SETTLE_ACK,  LQ_SETTLE_ACK,    LQ_SETTLE_ACK,
                                                LQ_SETTLE_NACK,   LQ_SETTLE_NACK, LQ_SETTLE_REJECT, LQ_SETTLE_EXTEND,
                                                LQ_SETTLE_RETURN, LQ_SETTLE_ACK,  LQ_SETTLE_ACK,    LQ_SETTLE_ACK};
    if (!consumer->is_there) {
        return;
    }
    int number = (int)(consumer - world->consumers);
    struct lq_settle_item item = {.kind = kinds[below(world, 12)], .count = (uint32_t)below(world, 6) + 1};
    uint64_t floor = world->cgroup->settled.floor;
    item.first = floor + below(world, 150) - (floor > 10 ? below(world, 10) : 0);
    for (unsigned tries = 0; tries < 50 && below(world, 10) != 0; tries++) { /* mostly what it has */
        uint64_t offset = floor + below(world, 150);
        if (offset < world->end && world->at[offset].where == HELD && world->at[offset].consumer == number) {
            item.first = offset;
            break;
        }
    }
    item.delay_ms = below(world, 2) == 0 ? LQ_SETTLE_DELAY_DEFAULT : (uint32_t)below(world, 300);
    item.delivery = (uint32_t)below(world, 3) == 0 ? (uint32_t)below(world, 3) : 0;
    struct lq_settle_counts expected = {.taken = 0};
    struct lq_settle_counts counts = {.taken = 0};
    uint8_t taken[8] = {0};
    for (uint32_t i = 0; i < item.count; i++) {
        uint32_t *count = verdict(world, &item, item.first + i, number, &expected);
        ++*count;
        taken[i] = count == &expected.taken;
    }

    assert_int_equal(lq_leases_settle(world->leases, consumer->number, &item, world->end, world->now_us, &counts),
                     LIGHTQ_OK);

    assert_memory_equal(&counts, &expected, sizeof counts);
    for (uint32_t i = 0; i < item.count; i++) {
        if (taken[i]) {
            take_into_model(world, &item, item.first + i, number);
        }
    }
}

static void tick(struct world *world)
{
    world->now_us += below(world, 60000);
    assert_int_equal(lq_leases_tick(world->leases, world->now_us), LIGHTQ_OK);
    for (uint64_t offset = 0; offset < world->end; offset++) {
        if (world->at[offset].where == HELD && world->at[offset].until_us <= world->now_us) {
            model_result(world, offset, world->at[offset].consumer, true);
        }
    }
}

static void propose(struct world *world)
{
    if (!lq_leases_gathered(world->leases) || world->proposed == 64) {
        return;
    }
    struct lq_writer writer;
    size_t limit = below(world, 2) == 0 ? LQ_SETTLE_BYTES_MIN + below(world, 100) : LQ_SETTLE_BYTES_MAX;
    lq_writer_init(&writer, limit);
    assert_int_equal(lq_leases_propose(world->leases, limit, &writer), LIGHTQ_OK);
    if (below(world, 5) == 0) { /* the log has no room: nothing was proposed */
        lq_writer_deinit(&writer);
        return;
    }
    lq_leases_proposed(world->leases);
    world->proposals[world->proposed++] = (struct proposal){.bytes = writer.bytes, .size = writer.size};
}

/* The model after the SETTLE that was applied last: what was on its way and is not settled comes again. */
static void model_applied(struct world *world, const struct lq_cgroup_settle *command)
{
    struct lq_settle_reader reader = lq_settle_reader_of(command);
    struct lq_settle_range range;
    struct lq_settle_failure failure;
    if (command->generation != world->cgroup->generation) {
        return;
    }
    while (lq_settle_next_range(&reader, &range)) {
        for (uint64_t offset = range.first; offset < range.first + range.count; offset++) {
            assert_true(is_settled(world, offset));
            world->at[offset].where = UNTOUCHED;
        }
    }
    while (lq_settle_next_failure(&reader, &failure)) {
        const struct lq_failure *at = lq_failures_find(&world->cgroup->failures, failure.offset);
        assert_true(at != NULL || is_settled(world, failure.offset));
        world->at[failure.offset] = (struct message){.where = AGAIN};
        if (at != NULL) {
            world->at[failure.offset].due_us = world->now_us + at->delay_ms * 1000u;
        }
        world->failures++;
    }
}

static void commit(struct world *world)
{
    if (world->applied == world->proposed) {
        world->applied = world->proposed = 0;
        return;
    }
    struct proposal *proposal = &world->proposals[world->applied++];
    struct lq_command command;
    assert_int_equal(lq_command_decode(proposal->bytes, (uint32_t)proposal->size, &command), LIGHTQ_OK);
    bool is_stale = command.settle.generation != world->cgroup->generation;
    if (!is_stale) {
        apply_bytes(world, proposal->bytes, proposal->size, 0);
        model_applied(world, &command.settle);
    }
    free(proposal->bytes);
}

static void trim(struct world *world)
{
    const struct lq_command command = {.type = LQ_COMMAND_TRIM,
                                       .trim = {.offset = world->state.start_offset + below(world, 60)}};
    apply(world, &command, 0);
    uint64_t floor = world->cgroup->settled.floor;
    for (uint64_t offset = 0; offset < floor; offset++) {
        model_let_go(world, offset);
        world->at[offset].where = UNTOUCHED;
    }
    for (unsigned i = world->applied; i < world->proposed;
         i++) { /* results of what is gone would be stale: drop them */
        free(world->proposals[i].bytes);
    }
    if (world->applied < world->proposed) {
        world->applied = world->proposed = 0;
        lead(world);
    }
    world->cursor = world->cursor < floor ? floor : world->cursor;
}

static void seek(struct world *world)
{
    const struct lq_command command = {
        .type = LQ_COMMAND_GROUP_SEEK,
        .group_seek = {.group = world->cgroup->number,
                       .start = {.kind = LQ_CGROUP_TIME,
                                 .offset = world->cgroup->settled.floor - below(world, 20) % (world->end + 1)}}};
    apply(world, &command, 0);
    model_begin(world);
}

static void dead_letters(struct world *world)
{
    const struct lq_command command = {.type = LQ_COMMAND_DONE,
                                       .done = {.group = world->cgroup->number, .number = world->cgroup->dead.next}};
    apply(world, &command, 0);
    assert_int_equal(world->state.outcome.status, LIGHTQ_OK);
}

static void assert_counts(const struct world *world)
{
    struct lq_leases_status status;
    struct lq_lease_consumer_status consumer;
    uint32_t held = 0;
    uint32_t on_its_way = 0;
    for (uint64_t offset = 0; offset < world->end; offset++) {
        held += world->at[offset].where == HELD;
        on_its_way += world->at[offset].where == ON_ITS_WAY;
    }
    lq_leases_status(world->leases, &status);
    assert_int_equal(status.held, held);
    assert_int_equal(status.settling, on_its_way);
    if (held > 0) {
        assert_int_equal(world->at[status.held_first].where, HELD);
        assert_ptr_equal(status.held_by, &world->consumers[world->at[status.held_first].consumer]);
        assert_int_equal(status.held_until_us, world->at[status.held_first].until_us);
    }
    for (unsigned i = 0; i < CONSUMERS; i++) {
        if (world->consumers[i].is_there) {
            assert_true(lq_leases_consumer(world->leases, world->consumers[i].number, &consumer));
            assert_int_equal(consumer.held, world->consumers[i].held);
            assert_int_equal(consumer.credit_messages, world->consumers[i].messages);
            assert_int_equal(consumer.credit_bytes, world->consumers[i].bytes);
        }
    }
}

static void random_step(struct world *world)
{
    struct consumer *consumer = &world->consumers[below(world, CONSUMERS)];
    uint64_t what = below(world, 1000);
    if (what < 60) {
        append(world, (uint32_t)below(world, 20) + 1);
    } else if (what < 100) {
        join(world, consumer);
    } else if (what < 108) {
        leave(world, consumer);
    } else if (what < 250) {
        credit(world, consumer);
    } else if (what < 450) {
        (void)deliver(world);
    } else if (what < 780) {
        settle(world, consumer);
    } else if (what < 820) {
        tick(world);
    } else if (what < 890) {
        propose(world);
    } else if (what < 980) {
        commit(world);
    } else if (what < 984) {
        trim(world);
    } else if (what < 985) {
        seek(world);
    } else if (what < 995) {
        dead_letters(world);
    } else if (what < 998) {
        lead(world);
    }
}

/* Everything is acked or becomes a dead letter in the end, and nothing is left. */
static void drain(struct world *world)
{
    join(world, &world->consumers[0]);
    for (unsigned round = 0; world->cgroup->settled.floor < world->end; round++) {
        assert_true(round < 20000);
        for (unsigned i = 0; i < CONSUMERS; i++) {
            struct consumer *consumer = &world->consumers[i];
            if (consumer->is_there) {
                lq_leases_credit(world->leases, consumer->number, 50, 5000);
                consumer->messages += 50;
                consumer->bytes += 5000;
            }
        }
        while (deliver(world)) {
        }
        for (uint64_t offset = world->cgroup->settled.floor; offset < world->end; offset++) {
            const struct message *at = &world->at[offset];
            if (at->where == HELD && below(world, 2) == 0) {
                struct lq_settle_item item = {.kind = LQ_SETTLE_ACK, .first = offset, .count = 1};
                struct lq_settle_counts counts = {.taken = 0};
                assert_int_equal(lq_leases_settle(world->leases, world->consumers[at->consumer].number, &item,
                                                  world->end, world->now_us, &counts),
                                 LIGHTQ_OK);
                assert_int_equal(counts.taken, 1);
                model_result(world, offset, at->consumer, false);
            }
        }
        tick(world);
        propose(world);
        commit(world);
        dead_letters(world);
    }
}

static struct world *world_new(uint64_t seed, const struct lq_cgroup_options *options)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->random = seed;
    world->now_us = 5000000;
    world->key_ordered = options->key_ordered;
    lq_queue_state_init(&world->state);
    const struct lq_command command = {
        .type = LQ_COMMAND_GROUP_CREATE,
        .group_create = {.start = {.kind = LQ_CGROUP_START}, .options = *options, .name = "g", .name_size = 1}};
    apply(world, &command, 0);
    world->cgroup = world->state.cgroups.at[0];
    lead(world);
    return world;
}

static void world_free(struct world *world)
{
    for (; world->applied < world->proposed; world->applied++) {
        free(world->proposals[world->applied].bytes);
    }
    lq_leases_free(world->leases);
    lq_queue_state_deinit(&world->state);
    free(world);
}

static void run(uint64_t seed, const struct lq_cgroup_options *options)
{
    struct world *world = world_new(seed, options);
    print_message("seed %llu\n", (unsigned long long)seed);

    for (unsigned i = 0; i < 12000; i++) {
        random_step(world);
        if (i % 16 == 0) {
            assert_counts(world);
        }
    }
    assert_true(world->grants > 1000 && world->redelivered > 50 && world->failures > 50);
    drain(world);

    assert_counts(world);
    assert_int_equal(world->leases->held, 0);
    assert_int_equal(world->leases->settling, 0);
    assert_int_equal(world->leases->extents.count, 0);
    assert_int_equal(world->leases->keys.places.count, 0);
    assert_int_equal(world->leases->keys.lines.count, 0);
    assert_int_equal(lq_lease_first_ready(world->leases), UINT64_MAX);
    assert_int_equal(world->leases->blocks.count, 0);
    world_free(world);
}

static struct lq_cgroup_options usual(void)
{
    struct lq_cgroup_options options;
    lq_cgroup_options_init(&options, LQ_CGROUP_PIPELINE);
    options.ack_wait_ms = ACK_WAIT_MS;
    options.max_deliver = 4;
    options.max_unsettled = 120;
    options.backoff_count = 2;
    options.backoff_ms[1] = 50;
    return options;
}

static void test_leases_random_history_is_as_the_model(void **state)
{
    (void)state;
    struct lq_cgroup_options options = usual();
    for (uint64_t seed = 20260801; seed < 20260807; seed++) {
        run(seed, &options);
    }
}

static void test_leases_exclusive_history_is_as_the_model(void **state)
{
    (void)state;
    struct lq_cgroup_options options = usual();
    options.exclusive = true;
    for (uint64_t seed = 20260811; seed < 20260814; seed++) {
        run(seed, &options);
    }
}

static void test_leases_key_ordered_history_is_as_the_model(void **state)
{
    (void)state;
    struct lq_cgroup_options options = usual();
    options.key_ordered = true;
    for (uint64_t seed = 20260821; seed < 20260827; seed++) {
        run(seed, &options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leases_random_history_is_as_the_model),
        cmocka_unit_test(test_leases_exclusive_history_is_as_the_model),
        cmocka_unit_test(test_leases_key_ordered_history_is_as_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
