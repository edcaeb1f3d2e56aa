/* client/cli/consume.c - lightq consume: reads messages of one or all partitions, prints or logs them, and stops after
 * --count, at the ends of when it began (--until-end), or on a signal. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/crc.h"
#include "client/cli/cli.h"
#include "client/cli/history.h"
#include "client/cli/lines.h"
#include "client/cli/pace.h"
#include "client/cli/print.h"

#define SUBSCRIBE_MS_DEFAULT 30000
#define WAIT_MS              100 /* at a time, so that a signal is seen */
#define SIGNAL_EVERY         1024
#define US_PER_S             1000000.0
#define US_PER_MS            1000u
#define BYTES_PER_MB         1000000.0
#define RADIX                10

struct consume {
    struct cli *cli;
    struct lightq_consumer *consumer;
    struct lines *log, *print;
    struct history history;
    struct lightq_start start;
    int32_t first_partition, partition_count; /* those that are read */
    int64_t *ends;                            /* --until-end: where each partition stops; NULL otherwise */
    int32_t open;                             /* partitions that have not come to their end */
    uint64_t count, bytes;
    uint64_t heard_us;
};

/* ---- what is read, and how far */

static enum cli_exit parse_from(const char *text, struct lightq_start *start)
{
    char *end;
    *start = (struct lightq_start){.kind = LIGHTQ_START_BEGIN};
    if (text == NULL || strcmp(text, "start") == 0) {
        return CLI_DONE;
    }
    if (strcmp(text, "end") == 0) {
        start->kind = LIGHTQ_START_END;
        return CLI_DONE;
    }
    errno = 0;
    long long offset = strtoll(text, &end, RADIX);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return cli_usage("--from takes start, end or an offset, and not '%s'", text);
    }
    start->kind = LIGHTQ_START_OFFSET;
    start->offset = offset;
    return CLI_DONE;
}

static int wait_ms(const struct consume *consume)
{
    return cli_patience_ms(consume->cli, SUBSCRIBE_MS_DEFAULT);
}

static enum cli_exit find_partitions(struct consume *consume)
{
    const struct cli_args *args = &consume->cli->args;
    struct lightq_error error;
    int32_t count;
    if (lightq_partition_count(consume->cli->client, args->words[0], wait_ms(consume), &count, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    consume->first_partition = 0;
    consume->partition_count = count;
    if (cli_given(args->partition)) {
        if (args->partition >= (uint64_t)count) {
            return cli_fail_with(LIGHTQ_ENOTFOUND, "topic %s has partitions 0 to %d, and not %" PRIu64, args->words[0],
                                 count - 1, args->partition);
        }
        consume->first_partition = (int32_t)args->partition;
        consume->partition_count = 1;
    }
    return CLI_DONE;
}

static enum cli_exit find_ends(struct consume *consume)
{
    const struct lightq_start end = {.kind = LIGHTQ_START_END};
    struct lightq_error error;
    consume->ends = calloc((size_t)consume->partition_count, sizeof *consume->ends);
    if (consume->ends == NULL) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    for (int32_t i = 0; i < consume->partition_count; i++) {
        if (lightq_offset(consume->cli->client, consume->cli->args.words[0], consume->first_partition + i, &end,
                          wait_ms(consume), &consume->ends[i], &error) != LIGHTQ_OK) {
            return cli_fail(&error);
        }
    }
    return CLI_DONE;
}

static enum cli_exit subscribe(struct consume *consume)
{
    const struct cli_args *args = &consume->cli->args;
    struct lightq_error error;
    int32_t partition = cli_given(args->partition) ? (int32_t)args->partition : LIGHTQ_PARTITION_ANY;
    history_reader(&consume->history, args->until_end && consume->start.kind == LIGHTQ_START_BEGIN);
    if (lightq_consumer_subscribe(consume->consumer, args->words[0], partition, &consume->start, wait_ms(consume),
                                  &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    for (int32_t i = 0; i < consume->partition_count; i++) {
        int64_t position = 0;
        lightq_status status =
            lightq_consumer_position(consume->consumer, args->words[0], consume->first_partition + i, &position);
        if (status == LIGHTQ_OK) {
            history_seek(&consume->history, args->words[0], consume->first_partition + i, position);
        }
        consume->open += consume->ends != NULL && (status != LIGHTQ_OK || position < consume->ends[i]);
    }
    return CLI_DONE;
}

/* ---- messages */

static void write_log(struct lines *lines, const struct lightq_record *record)
{
    lines_text(lines, record->topic);
    lines_char(lines, ' ');
    lines_signed(lines, record->partition);
    lines_char(lines, ' ');
    lines_signed(lines, record->offset);
    lines_char(lines, ' ');
    lines_number(lines, record->producer);
    lines_char(lines, ' ');
    lines_number(lines, record->sequence);
    lines_char(lines, ' ');
    lines_number(lines, record->value_size > 0 ? lq_crc32c(0, record->value, record->value_size) : 0);
    lines_char(lines, ' ');
    lines_number(lines, record->deliveries);
    lines_char(lines, '\n');
}

static void take_message(struct consume *consume, const struct lightq_record *record)
{
    if (consume->ends != NULL) {
        int64_t end = consume->ends[record->partition - consume->first_partition];
        if (record->offset >= end) {
            return; /* it came after we began */
        }
        consume->open -= record->offset + 1 == end;
    }
    consume->count++;
    consume->bytes += record->value_size;
    history_read(&consume->history, record);
    if (consume->log->fd >= 0) {
        write_log(consume->log, record);
    }
    if (consume->cli->args.print) {
        lines_bytes(consume->print, record->value, record->value_size);
        lines_char(consume->print, '\n');
    }
}

static bool is_enough(const struct consume *consume)
{
    if (consume->count >= consume->cli->args.count || (consume->ends != NULL && consume->open == 0)) {
        return true;
    }
    return consume->count % SIGNAL_EVERY == 0 && cli_interrupted();
}

/* Nothing is there at the moment. False: that has been so for --timeout. */
static bool go_on_waiting(struct consume *consume)
{
    lines_flush(consume->log);
    history_flush(&consume->history);
    lines_flush(consume->print);
    return !cli_given(consume->cli->args.timeout_ms) ||
           pace_now_us() - consume->heard_us < consume->cli->args.timeout_ms * US_PER_MS;
}

static enum cli_exit read_all(struct consume *consume)
{
    struct lightq_event event;
    consume->heard_us = pace_now_us();
    while (!is_enough(consume)) {
        if (lightq_consumer_poll(consume->consumer, 0, &event) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_NONE) {
            if (cli_interrupted()) {
                break;
            }
            if (!go_on_waiting(consume)) {
                fprintf(stderr, "lightq: ETIMEDOUT: no message came for %" PRIu64 " ms; give it more --timeout\n",
                        consume->cli->args.timeout_ms);
                return CLI_FAILED;
            }
            if (lightq_consumer_poll(consume->consumer, WAIT_MS, &event) != LIGHTQ_OK) {
                return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
            }
        }
        if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            take_message(consume, &event.record);
            consume->heard_us = cli_given(consume->cli->args.timeout_ms) ? pace_now_us() : 0;
        } else if (event.kind == LIGHTQ_EVENT_ERROR && !event.error->retriable) {
            return cli_fail(event.error);
        }
    }
    return CLI_DONE;
}

/* ---- result */

static void print_result(const struct consume *consume, double seconds)
{
    double per_s = seconds > 0 ? (double)consume->count / seconds : 0;
    double mb_per_s = seconds > 0 ? (double)consume->bytes / seconds / BYTES_PER_MB : 0;
    if (consume->cli->args.print) {
        return; /* standard output has the messages */
    }
    if (consume->cli->json) {
        print_object(json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "topic", consume->cli->args.words[0], "consumed",
                               (json_int_t)consume->count, "bytes", (json_int_t)consume->bytes, "seconds", seconds,
                               "consumed_per_s", per_s, "mb_per_s", mb_per_s));
    } else {
        printf("%" PRIu64 " messages consumed in %.3f s (%.0f/s, %.1f MB/s)\n", consume->count, seconds, per_s,
               mb_per_s);
    }
}

static enum cli_exit close_lines(struct lines *lines, enum cli_exit result)
{
    if (!lines_close(lines) && result == CLI_DONE) {
        return cli_fail_with(LIGHTQ_EIO, "cannot write %s: %s", lines->path, strerror(lines->error));
    }
    return result;
}

static enum cli_exit close_history(struct consume *consume, enum cli_exit result)
{
    int error = 0;
    if (!history_close(&consume->history, &error) && result == CLI_DONE) {
        return cli_fail_with(LIGHTQ_EIO, "cannot write %s: %s", consume->cli->args.history, strerror(error));
    }
    return result;
}

static enum cli_exit run(struct consume *consume)
{
    struct lightq_error error;
    enum cli_exit result = find_partitions(consume);
    if (result == CLI_DONE && consume->cli->args.until_end) {
        result = find_ends(consume);
    }
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_consumer_new(consume->cli->client, &consume->consumer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    cli_hold_signals();
    uint64_t began_us = pace_now_us();
    result = subscribe(consume);
    if (result == CLI_DONE) {
        result = read_all(consume);
        print_result(consume, (double)(pace_now_us() - began_us) / US_PER_S);
    }
    lightq_consumer_close(consume->consumer, WAIT_MS);
    return result;
}

enum cli_exit cli_consume(struct cli *cli)
{
    struct consume consume = {.cli = cli};
    cli->patient = true;
    enum cli_exit result = parse_from(cli->args.from, &consume.start);
    if (result != CLI_DONE) {
        return result;
    }
    consume.log = malloc(sizeof *consume.log);
    consume.print = malloc(sizeof *consume.print);
    if (consume.log == NULL || consume.print == NULL) {
        result = cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    } else if (!lines_open(consume.log, cli->args.log)) {
        result = cli_fail_with(LIGHTQ_EIO, "cannot open %s: %s", cli->args.log, strerror(errno));
    } else if (!history_open(&consume.history, cli->args.history)) {
        result = cli_fail_with(LIGHTQ_EIO, "cannot open %s: %s", cli->args.history, strerror(errno));
    } else {
        lines_use(consume.print, STDOUT_FILENO, "standard output");
        result = cli_connect(cli, NULL);
        if (result == CLI_DONE) {
            result = run(&consume);
        }
        result = close_history(&consume, result);
        result = close_lines(consume.log, result);
        result = close_lines(consume.print, result);
    }
    free(consume.ends);
    free(consume.log);
    free(consume.print);
    return result;
}
