/* client/cli/bench.c - lightq bench: measures producing, consuming, or both. In a closed loop the window decides the
 * pace; with --rate messages are due at fixed times and their latency counts from then, whatever held them up, so that
 * a stall shows in the percentiles as long as it was (no coordinated omission). With --spread every partition has one
 * message in flight, whatever the window: many partitions with small batches.
 *
 * `end-to-end` has a second thread with a client of its own for consuming. `pipeline` is in bench_pipeline.c. */
#include "client/cli/bench.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/cli/print.h"

#define COUNT_DEFAULT 1000000
#define SIZE_DEFAULT  100
#define POLL_EVERY    64
#define NUMBER_TEXT   24
#define US_PER_S      1000000.0
#define BYTES_PER_MB  1000000.0
#define P50           500
#define P99           990
#define P999          999
#define SIGNAL_EVERY  4096

/* ---- producing */

static void on_report(void *owner, const struct lightq_report *report)
{
    struct bench *bench = owner;
    if (bench->idle != NULL && report->partition >= 0) {
        bench->idle[bench->idle_count++] = report->partition;
    }
    if (report->status != LIGHTQ_OK && report->status != LIGHTQ_EDUPLICATE) {
        bench->failed++;
        bench->first_failure = bench->first_failure == LIGHTQ_OK ? report->status : bench->first_failure;
        return;
    }
    uint64_t now_us = pace_now_us();
    if (bench->acked++ > 0 && now_us - bench->last_ack_us > bench->max_gap_us) {
        bench->max_gap_us = now_us - bench->last_ack_us;
    }
    bench->last_ack_us = now_us;
    if (!bench->stamped) {
        histogram_add(bench->latency, bench->last_ack_us - (uint64_t)(uintptr_t)report->opaque);
    }
}

/* When the next message is due, after waiting for it. In a closed loop that is now. */
static uint64_t wait_due(struct bench *bench)
{
    if (bench->pace.rate == 0) {
        return pace_now_us();
    }
    uint64_t due_us = pace_due_us(&bench->pace, bench->sent);
    while (pace_now_us() < due_us) {
        pace_wait(bench->fd, due_us);
        lightq_producer_poll(bench->producer, 0, NULL);
    }
    return due_us;
}

/* Where the next message goes; with --spread, a partition that has nothing in flight, after waiting for one. False: it
 * was interrupted. */
static bool next_partition(struct bench *bench, int32_t *partition)
{
    const struct cli_args *args = &bench->cli->args;
    if (bench->idle == NULL) {
        *partition = cli_given(args->partition) ? (int32_t)args->partition : LIGHTQ_PARTITION_ANY;
        return true;
    }
    while (bench->idle_count == 0) {
        if (cli_interrupted()) {
            return false;
        }
        lightq_producer_poll(bench->producer, BENCH_WAIT_MS, NULL);
    }
    *partition = bench->idle[--bench->idle_count];
    return true;
}

/* Latency counts from @due_us: to the report by way of the opaque pointer, to the delivery in the payload. */
static void stamp(struct bench *bench, struct lightq_message *message, uint64_t due_us)
{
    message->opaque = (void *)(uintptr_t)due_us;
    if (bench->stamped) {
        lq_put_u64((uint8_t *)bench->payload, due_us);
    }
}

static lightq_status send_one(struct bench *bench, uint64_t due_us)
{
    const struct cli_args *args = &bench->cli->args;
    struct lightq_message message = {
        .topic = args->words[0],
        .value = bench->payload,
        .value_size = (size_t)bench->size,
        .timestamp_ms = 1,
    };
    if (!next_partition(bench, &message.partition)) {
        return LIGHTQ_EBUSY;
    }
    stamp(bench, &message, due_us);
    lightq_status status = lightq_producer_send(bench->producer, &message);
    while (status == LIGHTQ_EBUSY && !cli_interrupted()) {
        lightq_producer_poll(bench->producer, BENCH_WAIT_MS, NULL);
        if (bench->pace.rate == 0) { /* a closed loop waits for room before it sends */
            due_us = pace_now_us();
            stamp(bench, &message, due_us);
        }
        status = lightq_producer_send(bench->producer, &message);
    }
    return status;
}

static lightq_status send_all(struct bench *bench)
{
    lightq_status status = LIGHTQ_OK;
    bench->began_us = pace_now_us();
    bench->last_ack_us = bench->began_us;
    pace_start(&bench->pace, cli_or(bench->cli->args.rate, 0));
    while (status == LIGHTQ_OK && bench->sent < bench->count) {
        status = send_one(bench, bench->idle != NULL ? pace_now_us() : wait_due(bench));
        bench->sent += status == LIGHTQ_OK;
        if (bench->sent % POLL_EVERY == 0) {
            lightq_producer_poll(bench->producer, 0, NULL);
        }
        if (bench->sent % SIGNAL_EVERY == 0 && cli_interrupted()) {
            break;
        }
    }
    while (lightq_producer_waiting(bench->producer) > 0 && !cli_interrupted()) {
        lightq_producer_flush(bench->producer, BENCH_WAIT_MS);
    }
    return status;
}

static lightq_status make_idle(struct bench *bench, int32_t partitions)
{
    bench->idle = malloc((size_t)partitions * sizeof *bench->idle);
    if (bench->idle == NULL) {
        return LIGHTQ_ENOMEM;
    }
    while (bench->idle_count < partitions) {
        bench->idle[bench->idle_count] = bench->idle_count;
        bench->idle_count++;
    }
    return LIGHTQ_OK;
}

enum cli_exit bench_produce_all(struct bench *bench)
{
    struct lightq_error error;
    struct lightq_producer_options options = {.on_report = on_report, .owner = bench};
    int32_t partitions;
    if (lightq_producer_new(bench->cli->client, &options, &bench->producer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    lightq_status status = lightq_producer_fd(bench->producer, &bench->fd);
    if (status == LIGHTQ_OK) { /* so that finding the topic is not measured */
        status = lightq_producer_partitions(bench->producer, bench->cli->args.words[0],
                                            cli_patience_ms(bench->cli, BENCH_SUBSCRIBE_MS), &partitions);
    }
    if (status == LIGHTQ_OK && bench->cli->args.spread) {
        status = make_idle(bench, partitions);
    }
    if (status == LIGHTQ_OK) {
        status = send_all(bench);
    }
    lightq_producer_close(bench->producer, 0);
    free(bench->idle);
    if (status != LIGHTQ_OK && status != LIGHTQ_EBUSY) {
        return cli_fail_with(status, "topic %s: %s", bench->cli->args.words[0], lightq_status_text(status));
    }
    if (bench->failed > 0) {
        return cli_fail_with(bench->first_failure, "%" PRIu64 " messages were not acknowledged", bench->failed);
    }
    return CLI_DONE;
}

/* ---- consuming */

static void take_message(struct bench *bench, const struct lightq_record *record)
{
    if (bench->stamped) {
        bench->last_message_us = pace_now_us();
        if (record->value_size >= BENCH_STAMP_BYTES) {
            histogram_add(bench->latency, bench->last_message_us - lq_get_u64(record->value));
        }
    }
    bench->consumed++;
    bench->consumed_bytes += record->value_size;
}

static bool has_enough(const struct bench *bench)
{
    return bench->consumed >= atomic_load_explicit(&bench->wanted, memory_order_relaxed);
}

static enum cli_exit consume_all(struct bench *bench)
{
    struct lightq_event event;
    uint64_t heard_us = pace_now_us();
    while (!has_enough(bench)) {
        if (lightq_consumer_poll(bench->consumer, BENCH_WAIT_MS, &event) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            bench->first_message_us = bench->consumed == 0 ? pace_now_us() : bench->first_message_us;
            take_message(bench, &event.record);
            heard_us = bench->consumed % POLL_EVERY == 0 ? pace_now_us() : heard_us;
        } else if (event.kind == LIGHTQ_EVENT_ERROR && !event.error->retriable) {
            return cli_fail(event.error);
        } else if (event.kind == LIGHTQ_EVENT_NONE) {
            bool known = atomic_load(&bench->wanted) != UINT64_MAX;
            bench->gave_up = cli_interrupted() || (known && pace_now_us() - heard_us > BENCH_IDLE_US);
            if (bench->gave_up) {
                break;
            }
        }
    }
    if (!bench->stamped) {
        bench->last_message_us = pace_now_us();
    }
    return CLI_DONE;
}

static enum cli_exit subscribe(struct bench *bench, struct lightq *client, enum lightq_start_kind from)
{
    const struct cli_args *args = &bench->cli->args;
    struct lightq_error error;
    struct lightq_start start = {.kind = from};
    int32_t partition = cli_given(args->partition) ? (int32_t)args->partition : LIGHTQ_PARTITION_ANY;
    if (lightq_consumer_new(client, &bench->consumer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    if (lightq_consumer_subscribe(bench->consumer, args->words[0], partition, &start,
                                  cli_patience_ms(bench->cli, BENCH_SUBSCRIBE_MS), &error) != LIGHTQ_OK) {
        lightq_consumer_close(bench->consumer, 0);
        return cli_fail(&error);
    }
    return CLI_DONE;
}

static void *consumer_main(void *context)
{
    struct bench *bench = context;
    return (void *)(uintptr_t)consume_all(bench);
}

/* ---- result */

double bench_per_second(uint64_t count, uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? (double)count / ((double)(to_us - from_us) / US_PER_S) : 0;
}

static void print_json(const struct bench *bench, double acked_per_s, double consumed_per_s, double mb_per_s)
{
    const struct histogram *latency = bench->latency;
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:I, s:I}", "bench", bench->mode, "topic", bench->cli->args.words[0], "size",
                  (json_int_t)bench->size, "acked", (json_int_t)bench->acked, "consumed", (json_int_t)bench->consumed);
    if (object == NULL) {
        return;
    }
    json_object_set_new(object, "acked_per_s", json_real(acked_per_s));
    json_object_set_new(object, "consumed_per_s", json_real(consumed_per_s));
    if (bench->settled > 0) {
        json_object_set_new(object, "settled", json_integer((json_int_t)bench->settled));
        json_object_set_new(object, "settled_per_s",
                            json_real(bench_per_second(bench->settled, bench->began_us, bench->last_settled_us)));
    }
    json_object_set_new(object, "mb_per_s", json_real(mb_per_s));
    json_object_set_new(object, "p50_us", json_integer((json_int_t)histogram_per_mille(latency, P50)));
    json_object_set_new(object, "p99_us", json_integer((json_int_t)histogram_per_mille(latency, P99)));
    json_object_set_new(object, "p999_us", json_integer((json_int_t)histogram_per_mille(latency, P999)));
    json_object_set_new(object, "max_us", json_integer((json_int_t)latency->most));
    json_object_set_new(object, "max_gap_us", json_integer((json_int_t)bench->max_gap_us));
    print_object(object);
}

static void print_result(const struct bench *bench)
{
    const struct histogram *latency = bench->latency;
    double acked_per_s = bench_per_second(bench->acked, bench->began_us, bench->last_ack_us);
    double consumed_per_s = bench_per_second(
        bench->consumed, bench->producer != NULL ? bench->began_us : bench->first_message_us, bench->last_message_us);
    double mb_per_s =
        bench->producer != NULL
            ? acked_per_s * (double)bench->size / BYTES_PER_MB
            : bench_per_second(bench->consumed_bytes, bench->first_message_us, bench->last_message_us) / BYTES_PER_MB;
    if (bench->cli->json) {
        print_json(bench, acked_per_s, consumed_per_s, mb_per_s);
        return;
    }
    printf("%s: ", bench->mode);
    if (bench->producer != NULL) {
        printf("%" PRIu64 " acknowledged, %.0f/s, ", bench->acked, acked_per_s);
    }
    if (bench->consumer != NULL || bench->settled > 0) {
        printf("%" PRIu64 " consumed, %.0f/s, ", bench->consumed, consumed_per_s);
    }
    if (bench->settled > 0) {
        printf("%" PRIu64 " settled, %.0f/s, ", bench->settled,
               bench_per_second(bench->settled, bench->began_us, bench->last_settled_us));
    }
    printf("%.1f MB/s", mb_per_s);
    if (latency->count > 0) {
        printf("; latency p50 %" PRIu64 " us, p99 %" PRIu64 " us, p99.9 %" PRIu64 " us, max %" PRIu64 " us",
               histogram_per_mille(latency, P50), histogram_per_mille(latency, P99), histogram_per_mille(latency, P999),
               latency->most);
    }
    printf("\n");
}

/* ---- verbs */

enum cli_exit bench_begin(struct bench *bench, struct cli *cli, const char *mode)
{
    char window[NUMBER_TEXT];
    const char *extra[5] = {NULL};
    size_t count = 0;
    *bench = (struct bench){.cli = cli, .mode = mode};
    cli->patient = true;
    bench->count = cli_or(cli->args.count, COUNT_DEFAULT);
    bench->size = cli_or(cli->args.size, SIZE_DEFAULT);
    atomic_init(&bench->wanted, UINT64_MAX);
    if (cli->args.window == 0 || cli->args.rate == 0) {
        return cli_usage("--window and --rate are at least 1");
    }
    if (cli->args.spread && (cli_given(cli->args.rate) || cli_given(cli->args.partition))) {
        return cli_usage("--spread goes with neither --rate nor --partition");
    }
    bench->payload = malloc(bench->size + BENCH_STAMP_BYTES);
    bench->latency = calloc(1, sizeof *bench->latency);
    if (bench->payload == NULL || bench->latency == NULL) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    memset(bench->payload, 'x', bench->size + BENCH_STAMP_BYTES);
    if (cli_given(cli->args.window)) {
        snprintf(window, sizeof window, "%" PRIu64, cli->args.window);
        extra[count++] = "window.messages";
        extra[count++] = window;
    }
    if (cli->args.compression != NULL) {
        extra[count++] = "compression";
        extra[count++] = cli->args.compression;
    }
    enum cli_exit result = cli_connect(cli, extra);
    if (result == CLI_DONE) {
        cli_hold_signals();
    }
    return result;
}

enum cli_exit bench_end(struct bench *bench, enum cli_exit result)
{
    if (result == CLI_DONE) {
        print_result(bench);
    }
    free(bench->payload);
    free(bench->latency);
    return result == CLI_DONE && cli_interrupted() ? CLI_FAILED : result;
}

enum cli_exit cli_bench_produce(struct cli *cli)
{
    struct bench bench;
    enum cli_exit result = bench_begin(&bench, cli, "produce");
    if (result == CLI_DONE) {
        result = bench_produce_all(&bench);
    }
    return bench_end(&bench, result);
}

/* How many messages there are to consume, if --count does not say less. */
static enum cli_exit count_messages(struct bench *bench)
{
    const struct cli_args *args = &bench->cli->args;
    const struct lightq_start start = {.kind = LIGHTQ_START_BEGIN}, last = {.kind = LIGHTQ_START_END};
    struct lightq_error error;
    int32_t partitions;
    uint64_t total = 0;
    int wait_ms = cli_patience_ms(bench->cli, BENCH_SUBSCRIBE_MS);
    if (lightq_partition_count(bench->cli->client, args->words[0], wait_ms, &partitions, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    for (int32_t i = 0; i < partitions; i++) {
        int64_t first, behind;
        if (cli_given(args->partition) && args->partition != (uint64_t)i) {
            continue;
        }
        if (lightq_offset(bench->cli->client, args->words[0], i, &start, wait_ms, &first, &error) != LIGHTQ_OK ||
            lightq_offset(bench->cli->client, args->words[0], i, &last, wait_ms, &behind, &error) != LIGHTQ_OK) {
            return cli_fail(&error);
        }
        total += (uint64_t)(behind - first);
    }
    bool less = cli_given(args->count) && args->count < total;
    atomic_store(&bench->wanted, less ? args->count : total);
    return CLI_DONE;
}

enum cli_exit cli_bench_consume(struct cli *cli)
{
    struct bench bench;
    enum cli_exit result = bench_begin(&bench, cli, "consume");
    if (result == CLI_DONE) {
        result = count_messages(&bench);
    }
    if (result == CLI_DONE) {
        uint64_t began_us = pace_now_us();
        result = subscribe(&bench, cli->client, LIGHTQ_START_BEGIN);
        if (result == CLI_DONE) {
            result = consume_all(&bench);
            bench.first_message_us = began_us; /* the first batch belongs to the work */
            lightq_consumer_close(bench.consumer, 0);
        }
    }
    return bench_end(&bench, result);
}

static enum cli_exit run_both(struct bench *bench)
{
    pthread_t thread;
    void *consumed;
    if (pthread_create(&thread, NULL, consumer_main, bench) != 0) {
        return cli_fail_with(LIGHTQ_ELIMIT, "cannot start a thread");
    }
    enum cli_exit result = bench_produce_all(bench);
    atomic_store(&bench->wanted, bench->acked);
    pthread_join(thread, &consumed);
    if (result == CLI_DONE) {
        result = (enum cli_exit)(uintptr_t)consumed;
    }
    if (result == CLI_DONE && bench->consumed < bench->acked) {
        result = cli_fail_with(LIGHTQ_ETIMEDOUT, "only %" PRIu64 " of %" PRIu64 " messages were consumed",
                               bench->consumed, bench->acked);
    }
    return result;
}

enum cli_exit cli_bench_end_to_end(struct cli *cli)
{
    struct bench bench;
    enum cli_exit result = bench_begin(&bench, cli, "end-to-end");
    bench.stamped = true;
    if (result == CLI_DONE && bench.size < BENCH_STAMP_BYTES) {
        result = cli_usage("end-to-end needs a --size of %d at least", BENCH_STAMP_BYTES);
    }
    if (result == CLI_DONE) {
        result = cli_new_client(cli, NULL, &bench.consumer_client);
    }
    if (result == CLI_DONE) {
        result = subscribe(&bench, bench.consumer_client, LIGHTQ_START_END);
        if (result == CLI_DONE) {
            result = run_both(&bench);
            lightq_consumer_close(bench.consumer, 0);
        }
        lightq_close(bench.consumer_client, BENCH_WAIT_MS);
    }
    return bench_end(&bench, result);
}
