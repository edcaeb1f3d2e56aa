/* client/cli/bench_pipeline.c - lightq bench pipeline: one producer and some consumers of one pipeline group, each with
 * a client and a thread of its own, which settle every message. Latency is from due to delivered. Everything counts
 * as settled when the last consumer's results are on a majority. See bench.c for the producing half. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/base/buf.h"
#include "client/cli/bench.h"

#define CONSUMERS_DEFAULT 2
#define AT_ONCE           512
#define FLUSH_MS          10000
#define GROUP_TEXT        48

struct worker {
    struct pipeline *pipeline;
    struct lightq *client;
    struct lightq_consumer *consumer;
    struct histogram *latency;
    uint64_t consumed, last_us;
    enum cli_exit result;
    pthread_t thread;
    struct lightq_record records[AT_ONCE];
};

struct pipeline {
    struct bench bench;
    struct worker *workers;
    size_t count, running;
    char own_group[GROUP_TEXT]; /* "": it was there before */
    const char *group;
    _Atomic uint64_t consumed;
    _Atomic bool failed;
};

static enum cli_exit settle(struct worker *worker, size_t count)
{
    lightq_status status = lightq_consumer_ack_many(worker->consumer, worker->records, count);
    for (size_t i = 0; status == LIGHTQ_EBUSY && i < count; i++) { /* some were taken: to ack those again is harmless */
        if (lightq_consumer_ack(worker->consumer, &worker->records[i]) == LIGHTQ_EBUSY) {
            status = lightq_consumer_flush(worker->consumer, FLUSH_MS);
            status = status == LIGHTQ_OK ? LIGHTQ_EBUSY : status;
            i--;
        }
    }
    return status == LIGHTQ_OK || status == LIGHTQ_EBUSY ? CLI_DONE : cli_fail_with(status, "messages are not settled");
}

static enum cli_exit take(struct worker *worker, size_t count)
{
    struct pipeline *pipeline = worker->pipeline;
    worker->last_us = pace_now_us();
    for (size_t i = 0; i < count; i++) {
        const struct lightq_record *record = &worker->records[i];
        if (record->value_size >= BENCH_STAMP_BYTES) {
            histogram_add(worker->latency, worker->last_us - lq_get_u64(record->value));
        }
    }
    worker->consumed += count;
    enum cli_exit result = settle(worker, count);
    atomic_fetch_add(&pipeline->consumed, count);
    return result;
}

/* Something that is no message, or nothing. */
static enum cli_exit look(struct worker *worker)
{
    struct lightq_event event;
    if (lightq_consumer_poll(worker->consumer, 0, &event) != LIGHTQ_OK) {
        return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
    }
    if (event.kind == LIGHTQ_EVENT_MESSAGE) {
        worker->records[0] = event.record;
        return take(worker, 1);
    }
    return event.kind == LIGHTQ_EVENT_ERROR && !event.error->retriable ? cli_fail(event.error) : CLI_DONE;
}

static bool has_enough(struct pipeline *pipeline)
{
    return atomic_load(&pipeline->consumed) >= atomic_load(&pipeline->bench.wanted) || atomic_load(&pipeline->failed);
}

static enum cli_exit consume(struct worker *worker)
{
    struct pipeline *pipeline = worker->pipeline;
    enum cli_exit result = CLI_DONE;
    uint64_t heard_us = pace_now_us(), seen = 0;
    while (result == CLI_DONE && !has_enough(pipeline) && !cli_interrupted()) {
        size_t count;
        if (lightq_consumer_poll_many(worker->consumer, BENCH_WAIT_MS, worker->records, AT_ONCE, &count) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        result = count > 0 ? take(worker, count) : look(worker);
        uint64_t consumed = atomic_load_explicit(&pipeline->consumed, memory_order_relaxed);
        if (consumed != seen || atomic_load(&pipeline->bench.wanted) == UINT64_MAX) { /* by any of them */
            seen = consumed;
            heard_us = pace_now_us();
        } else if (pace_now_us() - heard_us > BENCH_IDLE_US) {
            return CLI_DONE; /* what is missing is said by the others */
        }
    }
    if (result == CLI_DONE && lightq_consumer_flush(worker->consumer, FLUSH_MS) != LIGHTQ_OK) {
        result = cli_fail_with(LIGHTQ_ETIMEDOUT, "not everything that was read is known to be settled");
    }
    worker->last_us = pace_now_us();
    return result;
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    worker->result = consume(worker);
    if (worker->result != CLI_DONE) {
        atomic_store(&worker->pipeline->failed, true);
    }
    return NULL;
}

/* ---- begin and end */

static enum cli_exit make_group(struct pipeline *pipeline)
{
    const struct cli *cli = pipeline->bench.cli;
    struct lightq_group_options options;
    struct lightq_start end = {.kind = LIGHTQ_START_END};
    struct lightq_error error;
    pipeline->group = cli->args.group;
    if (pipeline->group != NULL) {
        return CLI_DONE;
    }
    snprintf(pipeline->own_group, sizeof pipeline->own_group, "bench-%" PRIu64, pace_now_us());
    pipeline->group = pipeline->own_group;
    lightq_group_options_init(&options, LIGHTQ_GROUP_PIPELINE);
    lightq_status status = lightq_group_create(cli->client, cli->args.words[0], pipeline->group, &options, &end,
                                               cli_patience_ms(cli, BENCH_SUBSCRIBE_MS), &error);
    return status == LIGHTQ_OK ? CLI_DONE : cli_fail(&error);
}

static enum cli_exit join(struct pipeline *pipeline, struct worker *worker)
{
    const struct cli *cli = pipeline->bench.cli;
    const struct cli_args *args = &cli->args;
    struct lightq_error error;
    int32_t partition = cli_given(args->partition) ? (int32_t)args->partition : LIGHTQ_PARTITION_ANY;
    worker->pipeline = pipeline;
    worker->latency = calloc(1, sizeof *worker->latency);
    if (worker->latency == NULL) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    enum cli_exit result = cli_new_client(cli, NULL, &worker->client);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_consumer_new(worker->client, &worker->consumer, &error) != LIGHTQ_OK ||
        lightq_consumer_join(worker->consumer, args->words[0], pipeline->group, partition,
                             cli_patience_ms(cli, BENCH_SUBSCRIBE_MS), &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    return CLI_DONE;
}

static enum cli_exit start(struct pipeline *pipeline)
{
    enum cli_exit result = make_group(pipeline);
    pipeline->workers = calloc(pipeline->count, sizeof *pipeline->workers);
    if (pipeline->workers == NULL) {
        pipeline->count = 0;
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < pipeline->count && result == CLI_DONE; i++) {
        result = join(pipeline, &pipeline->workers[i]);
    }
    for (size_t i = 0; i < pipeline->count && result == CLI_DONE; i++) {
        struct worker *worker = &pipeline->workers[i];
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            atomic_store(&pipeline->failed, true);
            return cli_fail_with(LIGHTQ_ELIMIT, "cannot start a thread");
        }
        pipeline->running++;
    }
    return result;
}

/* Adds up what the consumers measured. */
static enum cli_exit gather(struct pipeline *pipeline, enum cli_exit result)
{
    struct bench *bench = &pipeline->bench;
    for (size_t i = 0; i < pipeline->running; i++) {
        struct worker *worker = &pipeline->workers[i];
        pthread_join(worker->thread, NULL);
        result = result == CLI_DONE ? worker->result : result;
        bench->consumed += worker->consumed;
        bench->settled += worker->consumed;
        bench->consumed_bytes += worker->consumed * bench->size;
        bench->last_message_us = worker->last_us > bench->last_message_us ? worker->last_us : bench->last_message_us;
        bench->latency->count += worker->latency->count;
        bench->latency->most =
            worker->latency->most > bench->latency->most ? worker->latency->most : bench->latency->most;
        for (size_t j = 0; j < HISTOGRAM_BUCKETS; j++) {
            bench->latency->buckets[j] += worker->latency->buckets[j];
        }
    }
    bench->last_settled_us = bench->last_message_us;
    if (result == CLI_DONE && bench->consumed < bench->acked) {
        result = cli_fail_with(LIGHTQ_ETIMEDOUT, "only %" PRIu64 " of %" PRIu64 " messages were consumed",
                               bench->consumed, bench->acked);
    }
    return result;
}

static enum cli_exit stop(struct pipeline *pipeline, enum cli_exit result)
{
    const struct cli *cli = pipeline->bench.cli;
    struct lightq_error error;
    for (size_t i = 0; i < pipeline->count; i++) {
        struct worker *worker = &pipeline->workers[i];
        if (worker->consumer != NULL) {
            lightq_consumer_close(worker->consumer, BENCH_WAIT_MS);
        }
        if (worker->client != NULL) {
            lightq_close(worker->client, BENCH_WAIT_MS);
        }
        free(worker->latency);
    }
    free(pipeline->workers);
    if (pipeline->own_group[0] != '\0' &&
        lightq_group_delete(cli->client, cli->args.words[0], pipeline->group, BENCH_SUBSCRIBE_MS, &error) !=
            LIGHTQ_OK &&
        result == CLI_DONE) {
        return cli_fail(&error);
    }
    return result;
}

enum cli_exit cli_bench_pipeline(struct cli *cli)
{
    struct pipeline pipeline = {.count = (size_t)cli_or(cli->args.consumers, CONSUMERS_DEFAULT)};
    struct bench *bench = &pipeline.bench;
    enum cli_exit result = bench_begin(bench, cli, "pipeline");
    bench->stamped = true;
    if (result == CLI_DONE && bench->size < BENCH_STAMP_BYTES) {
        result = cli_usage("pipeline needs a --size of %d at least", BENCH_STAMP_BYTES);
    }
    if (result == CLI_DONE && pipeline.count == 0) {
        result = cli_usage("--consumers is at least 1");
    }
    if (result == CLI_DONE) {
        result = start(&pipeline);
        if (result == CLI_DONE) {
            result = bench_produce_all(bench);
        }
        if (result != CLI_DONE) {
            atomic_store(&pipeline.failed, true);
        }
        atomic_store(&bench->wanted, bench->acked);
        result = gather(&pipeline, result);
        result = stop(&pipeline, result);
    }
    return bench_end(bench, result);
}
