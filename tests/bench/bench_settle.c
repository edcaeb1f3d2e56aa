/* bench_settle.c - what settling costs: nanoseconds for each ack of a consumer group, with 1k, 100k and 1M messages
 * that are delivered and not settled, acked one at a time in random order.
 *
 *     bench_settle [rounds]      median of rounds (5)
 *
 * settled: only the replicated state of what is settled. whole: a leader's way from the consumer's ack to the applied
 * result (verdict, gathering, one SETTLE for each 1000 acks, encoding, decoding, applying, leases told). deliver: from
 * an offer to leased messages, in batches of 100; acked in ranges as they were delivered. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node/queue/lease.h"
#include "node/queue/state.h"

#define ACKS_OF_ONE_COMMAND 1000
#define BATCH               100
#define GRANTS              8
#define ROUNDS              5
#define ROUNDS_MAX          101

static void must(lightq_status status, const char *what)
{
    if (status != LIGHTQ_OK) {
        fprintf(stderr, "%s: %s\n", what, lightq_status_name(status));
        exit(1);
    }
}

/* Of processor time, so that what else the machine does counts little. */
static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The offsets 1 to @count - 1 in random order: 0 stays, so that the floor does. */
static void shuffle(uint32_t *order, uint32_t count, uint64_t random)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count - 1; i > 1; i--) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t other = 1 + (uint32_t)(random % i);
        uint32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static double settled_ns(uint32_t count, const uint32_t *order)
{
    struct lq_settled settled;
    uint64_t added;
    lq_settled_init(&settled, 0);
    double began = now_ns();
    for (uint32_t i = 1; i < count; i++) {
        must(lq_settled_add(&settled, order[i], 1, UINT64_MAX, &added), "settle");
    }
    double took = now_ns() - began;
    if (settled.floor != 0 || settled.ceiling != count || settled.holes != 1) {
        fprintf(stderr, "not everything is settled\n");
        exit(1);
    }
    lq_settled_deinit(&settled);
    return took / (count - 1);
}

/* ---- a leader with one group */

struct leader {
    struct lq_queue_state state;
    struct lq_leases *leases;
    lq_lease_consumer consumer;
    uint64_t index;
};

static void apply(struct leader *leader, const uint8_t *bytes, size_t size, uint32_t messages)
{
    const struct lq_entry entry = {.index = ++leader->index,
                                   .term = 1,
                                   .base_offset = leader->state.end_offset,
                                   .timestamp_ms = 1,
                                   .type = LQ_ENTRY_COMMAND,
                                   .message_count = messages,
                                   .payload_size = (uint32_t)size,
                                   .payload = bytes};
    struct lq_command command;
    struct lq_err err;
    must(lq_queue_state_apply(&leader->state, &entry, &command, &err), "apply");
    if (command.type == LQ_COMMAND_SETTLE) {
        lq_leases_applied(leader->leases, &command.settle, 0);
    }
}

static void apply_command(struct leader *leader, const struct lq_command *command, uint32_t messages)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_COMMAND_BYTES_MAX);
    lq_command_encode(command, &writer);
    if (command->type == LQ_COMMAND_APPEND) {
        lq_write_u8(&writer, 0);
    }
    apply(leader, writer.bytes, writer.size, messages);
    lq_writer_deinit(&writer);
}

static void apply_results(struct leader *leader)
{
    while (lq_leases_gathered(leader->leases)) {
        struct lq_writer writer;
        lq_writer_init(&writer, LQ_SETTLE_BYTES_MAX);
        must(lq_leases_propose(leader->leases, LQ_SETTLE_BYTES_MAX, &writer), "propose");
        lq_leases_proposed(leader->leases);
        apply(leader, writer.bytes, writer.size, 0);
        lq_writer_deinit(&writer);
    }
}

static void settle(struct leader *leader, enum lq_settle_kind kind, uint64_t first, uint32_t count)
{
    const struct lq_settle_item item = {.kind = kind, .first = first, .count = count};
    struct lq_settle_counts counts = {.taken = 0};
    must(lq_leases_settle(leader->leases, leader->consumer, &item, leader->state.end_offset, 0, &counts), "settle");
    if (counts.taken != count) {
        fprintf(stderr, "%u of %u results taken\n", counts.taken, count);
        exit(1);
    }
}

static void lead(struct leader *leader, uint32_t messages)
{
    *leader = (struct leader){.index = 0};
    lq_queue_state_init(&leader->state);
    for (uint32_t appended = 0; appended < messages;) {
        uint32_t count = messages - appended < LQ_BATCH_RECORDS_MAX ? messages - appended : LQ_BATCH_RECORDS_MAX;
        apply_command(
            leader, &(struct lq_command){.type = LQ_COMMAND_APPEND, .append = {.expected_offset = UINT64_MAX}}, count);
        appended += count;
    }
    struct lq_command create = {.type = LQ_COMMAND_GROUP_CREATE,
                                .group_create = {.start = {.kind = LQ_CGROUP_START}, .name = "g", .name_size = 1}};
    lq_cgroup_options_init(&create.group_create.options, LQ_CGROUP_PIPELINE);
    create.group_create.options.max_unsettled = LQ_CGROUP_UNSETTLED_MAX;
    apply_command(leader, &create, 0);
    must(lq_leases_new(leader->state.cgroups.at[0], 0, 0, &leader->leases), "lease");
    must(lq_leases_join(leader->leases, NULL, &leader->consumer), "join");
    lq_leases_credit(leader->leases, leader->consumer, UINT32_MAX, UINT64_MAX);
}

static void resign(struct leader *leader)
{
    lq_leases_free(leader->leases);
    lq_queue_state_deinit(&leader->state);
}

static void deliver(struct leader *leader, uint32_t messages)
{
    struct lq_lease_offer offer;
    struct lq_lease_grant grants[GRANTS];
    uint64_t due_us;
    for (uint32_t delivered = 0; delivered < messages;) {
        size_t count;
        if (lq_leases_next(leader->leases, leader->state.end_offset, 0, &offer, &due_us) != LQ_LEASE_OFFER) {
            fprintf(stderr, "nothing is offered\n");
            exit(1);
        }
        const struct lq_lease_batch batch = {.base = offer.offset - offer.offset % BATCH, .count = BATCH, .bytes = 1};
        must(lq_leases_take(leader->leases, &offer, &batch, 0, grants, GRANTS, &count), "take");
        for (size_t i = 0; i < count; i++) {
            delivered += grants[i].count;
        }
    }
}

static double whole_ns(uint32_t count, const uint32_t *order)
{
    struct leader leader;
    lead(&leader, count);
    deliver(&leader, count);
    double began = now_ns();
    for (uint32_t i = 1; i < count; i++) {
        settle(&leader, LQ_SETTLE_ACK, order[i], 1);
        if (i % ACKS_OF_ONE_COMMAND == 0) {
            apply_results(&leader);
        }
    }
    apply_results(&leader);
    double took = now_ns() - began;
    if (leader.state.cgroups.at[0]->settled_count != count - 1) {
        fprintf(stderr, "not everything is settled\n");
        exit(1);
    }
    resign(&leader);
    return took / (count - 1);
}

static double deliver_ns(uint32_t count)
{
    struct leader leader;
    lead(&leader, count);
    double began = now_ns();
    for (uint32_t at = 0; at < count; at += ACKS_OF_ONE_COMMAND) {
        deliver(&leader, ACKS_OF_ONE_COMMAND);
        for (uint32_t batch = at; batch < at + ACKS_OF_ONE_COMMAND; batch += BATCH) {
            settle(&leader, LQ_SETTLE_ACK, batch, BATCH);
        }
        apply_results(&leader);
    }
    double took = now_ns() - began;
    resign(&leader);
    return took / count;
}

static int by_value(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return *left < *right ? -1 : *left > *right;
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    static const uint32_t counts[] = {1000, 100000, 1000000};
    long wanted = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS;
    unsigned rounds = wanted < 1 ? 1 : wanted > ROUNDS_MAX ? ROUNDS_MAX : (unsigned)wanted;
    printf("%-10s %14s %14s %14s\n", "unsettled", "settled ns/ack", "whole ns/ack", "deliver ns/msg");
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t *order = malloc(counts[i] * sizeof *order);
        if (order == NULL) {
            return 1;
        }
        double settled[ROUNDS_MAX];
        double whole[ROUNDS_MAX];
        double delivered[ROUNDS_MAX];
        for (unsigned round = 0; round < rounds; round++) {
            shuffle(order, counts[i],
                    88172645463325252u + round); /* another one each time: nothing is learnt by heart */
            settled[round] = settled_ns(counts[i], order);
            whole[round] = whole_ns(counts[i], order);
            delivered[round] = deliver_ns(counts[i]);
        }
        printf("%-10u %14.1f %14.1f %14.1f\n", counts[i], median(settled, rounds), median(whole, rounds),
               median(delivered, rounds));
        free(order);
    }
    return 0;
}
