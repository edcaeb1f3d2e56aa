/* client/cli/consume.c - lightq consume: reads messages of one or all partitions, by itself or as one of a consumer
 * group, prints or logs them, and stops after --count, at the ends of when it began (--until-end), when none came for
 * --idle-exit, or on a signal. */
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
#include "client/cli/print_record.h"
#include "client/cli/settle.h"

#define SUBSCRIBE_MS_DEFAULT 30000
#define WAIT_MS              100 /* at a time, so that a signal is seen */
#define SIGNAL_EVERY         1024
#define US_PER_S             1000000.0
#define US_PER_MS            1000u
#define BYTES_PER_MB         1000000.0

struct consume {
    struct cli *cli;
    struct lightq_consumer *consumer;
    struct lines *log, *print;
    struct history history;
    struct lightq_start start;
    int32_t first_partition, partition_count; /* those that are read */
    int64_t *ends;                            /* --until-end: where each partition stops; NULL otherwise */
    int32_t open;                             /* partitions that have not come to their end */
    uint64_t count, bytes, redelivered;
    uint64_t heard_us;
    struct settle *settle; /* --group; NULL otherwise */
};

/* ---- what is read, and how far */

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
    if (args->group != NULL) {
        return lightq_consumer_join(consume->consumer, args->words[0], args->group, partition, wait_ms(consume),
                                    &error) == LIGHTQ_OK
                   ? CLI_DONE
                   : cli_fail(&error);
    }
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

/* What was read is in the files, and then settled. */
static lightq_status flush_files(struct consume *consume)
{
    lines_flush(consume->log);
    history_flush(&consume->history);
    lines_flush(consume->print);
    if (consume->settle == NULL || consume->log->error != 0 || consume->print->error != 0) {
        return LIGHTQ_OK; /* what could not be written is not settled; it is told at the end */
    }
    return settle_flush(consume->settle);
}

/* The message as it is, or as a JSON object, on a line of its own. False: out of memory. */
static bool write_message(struct consume *consume, const struct lightq_record *record)
{
    if (!consume->cli->json) {
        lines_bytes(consume->print, record->value, record->value_size);
        lines_char(consume->print, '\n');
        return true;
    }
    json_t *object = print_record_object(record);
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (text != NULL) {
        lines_text(consume->print, text);
        lines_char(consume->print, '\n');
    }
    free(text);
    return text != NULL;
}

static lightq_status take_message(struct consume *consume, const struct lightq_record *record)
{
    if (consume->ends != NULL) {
        int64_t end = consume->ends[record->partition - consume->first_partition];
        if (record->offset >= end) {
            return LIGHTQ_OK; /* it came after we began */
        }
        consume->open -= record->offset + 1 == end;
    }
    consume->count++;
    consume->bytes += record->value_size;
    consume->redelivered += record->deliveries > 1;
    history_read(&consume->history, record);
    if (consume->log->fd >= 0) {
        write_log(consume->log, record);
    }
    if (consume->cli->args.print && !write_message(consume, record)) {
        return LIGHTQ_ENOMEM;
    }
    return consume->settle != NULL && settle_take(consume->settle, record) ? flush_files(consume) : LIGHTQ_OK;
}

static bool is_enough(const struct consume *consume)
{
    if (consume->count >= consume->cli->args.count || (consume->ends != NULL && consume->open == 0)) {
        return true;
    }
    return consume->count % SIGNAL_EVERY == 0 && cli_interrupted();
}

/* Whether nothing has come for @ms, when that was given. */
static bool is_silent_for(const struct consume *consume, uint64_t ms)
{
    return cli_given(ms) && pace_now_us() - consume->heard_us >= ms * US_PER_MS;
}

/* Nothing is there at the moment: waits a little for *event. *end: it is time to stop. */
static enum cli_exit wait_more(struct consume *consume, struct lightq_event *event, bool *end)
{
    const struct cli_args *args = &consume->cli->args;
    lightq_status status = flush_files(consume);
    if (status != LIGHTQ_OK) {
        return cli_fail_with(status, "cannot settle what was read");
    }
    *end = cli_interrupted() || is_silent_for(consume, args->idle_exit_ms);
    if (!*end && is_silent_for(consume, args->timeout_ms)) {
        fprintf(stderr, "lightq: ETIMEDOUT: no message came for %" PRIu64 " ms; give it more --timeout\n",
                args->timeout_ms);
        return CLI_FAILED;
    }
    if (!*end && lightq_consumer_poll(consume->consumer, WAIT_MS, event) != LIGHTQ_OK) {
        return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
    }
    return CLI_DONE;
}

static enum cli_exit take_event(struct consume *consume, const struct lightq_event *event)
{
    const struct cli_args *args = &consume->cli->args;
    if (event->kind == LIGHTQ_EVENT_MESSAGE) {
        bool timed = cli_given(args->timeout_ms) || cli_given(args->idle_exit_ms);
        consume->heard_us = timed ? pace_now_us() : 0;
        lightq_status status = take_message(consume, &event->record);
        return status == LIGHTQ_OK ? CLI_DONE : cli_fail_with(status, "cannot settle what was read");
    }
    if (event->kind == LIGHTQ_EVENT_UNSETTLED) { /* they come again, or were settled by others */
        fprintf(stderr, "lightq: %s: %s\n", lightq_status_name(event->error->status), event->error->text);
    }
    return event->kind == LIGHTQ_EVENT_ERROR && !event->error->retriable ? cli_fail(event->error) : CLI_DONE;
}

static enum cli_exit read_all(struct consume *consume)
{
    struct lightq_event event;
    bool end = false;
    enum cli_exit result = CLI_DONE;
    consume->heard_us = pace_now_us();
    while (result == CLI_DONE && !is_enough(consume)) {
        if (lightq_consumer_poll(consume->consumer, 0, &event) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_NONE) {
            result = wait_more(consume, &event, &end);
        }
        if (end) {
            break;
        }
        result = result == CLI_DONE ? take_event(consume, &event) : result;
    }
    return result;
}

/* Everything that was read is written and settled. */
static enum cli_exit finish_settling(struct consume *consume, enum cli_exit result)
{
    lightq_status status = flush_files(consume);
    if (consume->settle == NULL || result != CLI_DONE || status != LIGHTQ_OK) {
        return status == LIGHTQ_OK || result != CLI_DONE ? result
                                                         : cli_fail_with(status, "cannot settle what was read");
    }
    return settle_finish(consume->settle, wait_ms(consume));
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
        json_t *object = json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "topic", consume->cli->args.words[0], "consumed",
                                   (json_int_t)consume->count, "bytes", (json_int_t)consume->bytes, "seconds", seconds,
                                   "consumed_per_s", per_s, "mb_per_s", mb_per_s);
        if (object != NULL && consume->settle != NULL) {
            json_object_set_new(object, "group", json_string(consume->cli->args.group));
            json_object_set_new(object, "redelivered", json_integer((json_int_t)consume->redelivered));
        }
        print_object(object);
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
    if (consume->settle != NULL) {
        consume->settle->consumer = consume->consumer;
        consume->settle->topic = consume->cli->args.words[0];
    }
    cli_hold_signals();
    uint64_t began_us = pace_now_us();
    result = subscribe(consume);
    if (result == CLI_DONE) {
        result = finish_settling(consume, read_all(consume));
        print_result(consume, (double)(pace_now_us() - began_us) / US_PER_S);
    }
    lightq_consumer_close(consume->consumer, WAIT_MS);
    return result;
}

/* What --group does not go with, and what --ack says. */
static enum cli_exit check_group(struct consume *consume)
{
    const struct cli_args *args = &consume->cli->args;
    enum settle_how how;
    enum cli_exit result = settle_parse(args->ack, &how);
    if (args->group == NULL) {
        return args->ack == NULL ? result : cli_usage("--ack goes with --group");
    }
    if (args->from != NULL || args->until_end || args->history != NULL) {
        return cli_usage("--from, --until-end and --history do not go with --group: it begins where the group is; "
                         "--idle-exit ends it");
    }
    if (result == CLI_DONE) {
        consume->settle = calloc(1, sizeof *consume->settle);
        if (consume->settle == NULL) {
            return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
        }
        consume->settle->how = how;
        consume->settle->committed_us = pace_now_us();
    }
    return result;
}

enum cli_exit cli_consume(struct cli *cli)
{
    static const char *const by_hand[] = {"enable.auto.commit", "false", "enable.auto.ack", "false", NULL};
    struct consume consume = {.cli = cli};
    cli->patient = true;
    enum cli_exit result = cli_parse_place("from", cli->args.from, &consume.start);
    result = result == CLI_DONE ? check_group(&consume) : result;
    if (result != CLI_DONE) {
        free(consume.settle);
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
        result = cli_connect(cli, by_hand);
        if (result == CLI_DONE) {
            result = run(&consume);
        }
        result = close_history(&consume, result);
        result = close_lines(consume.log, result);
        result = close_lines(consume.print, result);
    }
    free(consume.ends);
    free(consume.settle);
    free(consume.log);
    free(consume.print);
    return result;
}
