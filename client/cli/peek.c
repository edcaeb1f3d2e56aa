/* client/cli/peek.c - see peek.h; and lightq peek, which shows messages with all that is known of them. */
#include <inttypes.h>
#include <stdio.h>

#include "client/cli/cli.h"
#include "client/cli/pace.h"
#include "client/cli/peek.h"
#include "client/cli/print_record.h"

#define COUNT_DEFAULT   10
#define WAIT_MS_DEFAULT 30000
#define POLL_MS         100 /* at a time, so that a signal is seen */
#define US_PER_MS       1000u
#define COUNT_BYTES     24
#define FETCHED_MOST    UINT64_C(100000)

struct peek {
    struct cli *cli;
    const struct peek_job *job;
    struct lightq_consumer *consumer;
    uint64_t left; /* messages to be shown */
};

static int wait_ms(const struct peek *peek)
{
    return cli_timeout_ms(peek->cli, WAIT_MS_DEFAULT);
}

/* Up to @end, or until enough was shown. */
static enum cli_exit show(struct peek *peek, int32_t partition, int64_t end)
{
    uint64_t until_us = pace_now_us() + (uint64_t)wait_ms(peek) * US_PER_MS;
    int64_t position = 0;
    while (peek->left > 0 && !cli_interrupted()) {
        struct lightq_event event;
        if (lightq_consumer_position(peek->consumer, peek->job->topic, partition, &position) == LIGHTQ_OK &&
            position >= end) {
            return CLI_DONE;
        }
        if (lightq_consumer_poll(peek->consumer, POLL_MS, &event) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_MESSAGE && event.record.offset < end) {
            peek->job->print(peek->cli->json, &event.record);
            peek->left--;
            until_us = pace_now_us() + (uint64_t)wait_ms(peek) * US_PER_MS;
        } else if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            return CLI_DONE; /* it came after we began */
        } else if (event.kind == LIGHTQ_EVENT_ERROR && !lightq_status_retriable(event.error->status)) {
            return cli_fail(event.error);
        } else if (pace_now_us() >= until_us) {
            return cli_fail_with(LIGHTQ_ETIMEDOUT, "nothing came of %s/%d", peek->job->topic, partition);
        }
    }
    return CLI_DONE;
}

static enum cli_exit peek_partition(struct peek *peek, int32_t partition)
{
    const struct lightq_start last = {.kind = LIGHTQ_START_END};
    const struct peek_job *job = peek->job;
    struct lightq_start from = job->from;
    struct lightq_error error;
    int64_t end;
    if (job->positions != NULL) {
        from = (struct lightq_start){.kind = LIGHTQ_START_OFFSET, .offset = job->positions[partition]};
    }
    if (lightq_offset(peek->cli->client, job->topic, partition, &last, wait_ms(peek), &end, &error) != LIGHTQ_OK ||
        lightq_consumer_subscribe(peek->consumer, job->topic, partition, &from, wait_ms(peek), &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    enum cli_exit result = show(peek, partition, end);
    lightq_status left = lightq_consumer_unsubscribe(peek->consumer, job->topic, partition);
    (void)left; /* it was read */
    return result;
}

static enum cli_exit peek_all(struct peek *peek)
{
    const struct cli_args *args = &peek->cli->args;
    struct lightq_error error;
    int32_t count;
    if (lightq_partition_count(peek->cli->client, peek->job->topic, wait_ms(peek), &count, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    if (cli_given(args->partition)) {
        return peek_partition(peek, (int32_t)args->partition);
    }
    if (peek->job->positions == NULL && peek->job->from.kind == LIGHTQ_START_OFFSET && count > 1) {
        return cli_usage("an offset is one of a partition: --from OFFSET goes with --partition P");
    }
    enum cli_exit result = CLI_DONE;
    for (int32_t i = 0; result == CLI_DONE && peek->left > 0 && i < count; i++) {
        result = peek_partition(peek, i);
    }
    return result;
}

enum cli_exit peek_connect(struct cli *cli, uint64_t count)
{
    char fetched[COUNT_BYTES];
    const char *const extra[] = {"fetch.messages", fetched, NULL};
    snprintf(fetched, sizeof fetched, "%" PRIu64, count == 0 ? 1 : count < FETCHED_MOST ? count : FETCHED_MOST);
    return cli_connect(cli, extra);
}

enum cli_exit peek_run(struct cli *cli, const struct peek_job *job)
{
    struct peek peek = {.cli = cli, .job = job, .left = job->count};
    struct lightq_error error;
    if (lightq_consumer_new(cli->client, &peek.consumer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    cli_hold_signals();
    enum cli_exit result = peek_all(&peek);
    lightq_status closed = lightq_consumer_close(peek.consumer, 0);
    (void)closed; /* nothing is kept by it */
    return result;
}

enum cli_exit cli_peek(struct cli *cli)
{
    struct peek_job job = {
        .topic = cli->args.words[0], .count = cli_or(cli->args.count, COUNT_DEFAULT), .print = print_record};
    enum cli_exit result = cli_parse_place("from", cli->args.from, &job.from);
    result = result == CLI_DONE ? peek_connect(cli, job.count) : result;
    return result == CLI_DONE ? peek_run(cli, &job) : result;
}
