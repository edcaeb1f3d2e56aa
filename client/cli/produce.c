/* client/cli/produce.c - lightq produce: numbered messages, or lines of a file or of standard input. What is
 * acknowledged is counted, and written to --acked. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/clock.h"
#include "client/base/limits.h"
#include "client/cli/cli.h"
#include "client/cli/history.h"
#include "client/cli/input.h"
#include "client/cli/lines.h"
#include "client/cli/pace.h"
#include "client/cli/payload.h"
#include "client/cli/print.h"

#define SIZE_DEFAULT    100
#define POLL_EVERY      256    /* messages between looking for reports */
#define WAIT_MS         100    /* at a time, so that a signal is seen */
#define GIVE_UP_MS      3000   /* for what is under way when a signal came */
#define FLUSH_LINES_US  200000 /* acknowledged lines are on disk after this long */
#define NUMBER_TEXT     24
#define ID_NUMBER_BYTES 24 /* a dash and a number behind --message-id */
#define US_PER_S        1000000.0
#define BYTES_PER_MB    1000000.0

struct produce {
    struct cli *cli;
    struct lightq_producer *producer;
    struct lines *acked_lines;
    struct history history;
    const char *cluster;
    uint64_t acked, failed, in_doubt, bytes;
    uint64_t same; /* of acked: not stored, since others are under their ids */
    lightq_status first_failure;
    uint64_t next; /* number of the next message */
    uint64_t flushed_us;
    int fd;
};

/* ---- reports */

static void write_line(struct produce *produce, const struct lightq_report *report)
{
    struct lines *lines = produce->acked_lines;
    lines_text(lines, produce->cluster);
    lines_char(lines, ' ');
    lines_text(lines, report->topic);
    lines_char(lines, ' ');
    lines_signed(lines, report->partition);
    lines_char(lines, ' ');
    if (report->offset == LIGHTQ_OFFSET_UNKNOWN) {
        lines_char(lines, '-'); /* stored by an earlier try, nobody knows where any more */
    } else {
        lines_signed(lines, report->offset);
    }
    lines_char(lines, ' ');
    lines_number(lines, report->producer);
    lines_char(lines, ' ');
    lines_number(lines, report->sequence);
    lines_char(lines, ' ');
    lines_number(lines, report->term);
    lines_char(lines, ' ');
    lines_number(lines, report->batch_crc);
    lines_char(lines, '\n');
}

static void on_report(void *owner, const struct lightq_report *report)
{
    struct produce *produce = owner;
    history_report(&produce->history, (uint64_t)(uintptr_t)report->opaque, report);
    if (report->status == LIGHTQ_OK || report->status == LIGHTQ_EDUPLICATE) {
        produce->acked++;
        produce->same += report->same_id;
        if (produce->acked_lines->fd >= 0 && !report->same_id) { /* what is stored there is another one */
            write_line(produce, report);
        }
        return;
    }
    produce->failed++;
    produce->in_doubt += report->in_doubt;
    if (produce->first_failure == LIGHTQ_OK) {
        produce->first_failure = report->status;
    }
}

static void run_reports(struct produce *produce, int timeout_ms)
{
    lightq_producer_poll(produce->producer, timeout_ms, NULL);
    uint64_t now_us = pace_now_us();
    if (now_us - produce->flushed_us >= FLUSH_LINES_US) {
        lines_flush(produce->acked_lines);
        history_flush(&produce->history);
        produce->flushed_us = now_us;
    }
}

/* ---- sending */

/* The id of message @number: @given, @given-1, @given-2, ... Gives its size. */
static int id_of(const char *given, uint64_t number, char id[LQ_MESSAGE_ID_BYTES_MAX + ID_NUMBER_BYTES])
{
    size_t size = LQ_MESSAGE_ID_BYTES_MAX + ID_NUMBER_BYTES;
    return number == 0 ? snprintf(id, size, "%s", given) : snprintf(id, size, "%s-%" PRIu64, given, number);
}

/* Sends one message, waiting while the window is full. OK, or why it cannot be. */
static lightq_status send_one(struct produce *produce, const void *bytes, size_t size)
{
    const struct cli_args *args = &produce->cli->args;
    char id[LQ_MESSAGE_ID_BYTES_MAX + ID_NUMBER_BYTES];
    int id_size = args->message_id != NULL ? id_of(args->message_id, produce->next, id) : 0;
    struct lightq_message message = {
        .topic = args->words[0],
        .partition = cli_given(args->partition) ? (int32_t)args->partition : LIGHTQ_PARTITION_ANY,
        .key = args->key,
        .key_size = args->key != NULL ? strlen(args->key) : 0,
        .value = bytes,
        .value_size = size,
        .opaque = (void *)(uintptr_t)produce->next,
        .has_expected_offset = cli_given(args->expected_offset),
        .expected_offset = (int64_t)(args->expected_offset + produce->next), /* not looked at when it is not given */
    };
    message.message_id = id_size > 0 ? id : NULL;
    message.message_id_size = (size_t)id_size;
    history_attempt(&produce->history, produce->next, message.topic, message.partition, bytes, size);
    lightq_status status = lightq_producer_send(produce->producer, &message);
    while (status == LIGHTQ_EBUSY && !cli_interrupted()) {
        run_reports(produce, WAIT_MS);
        status = lightq_producer_send(produce->producer, &message);
    }
    if (status == LIGHTQ_OK) {
        produce->bytes += size;
        produce->next++;
        if (produce->next % POLL_EVERY == 0) {
            run_reports(produce, 0);
        }
    } else {
        history_refused(&produce->history, produce->next);
    }
    return status;
}

/* Waits until message number produce->next is due. False: a signal came. */
static bool wait_due(struct produce *produce, const struct pace *pace)
{
    uint64_t due_us = pace_due_us(pace, produce->next);
    while (pace->rate > 0 && pace_now_us() < due_us && !cli_interrupted()) {
        pace_wait(produce->fd, due_us);
        run_reports(produce, 0);
    }
    return produce->next % POLL_EVERY != 0 || !cli_interrupted();
}

static lightq_status send_numbered(struct produce *produce, const struct pace *pace)
{
    struct payload payload;
    size_t size = (size_t)cli_or(produce->cli->args.size, SIZE_DEFAULT);
    lightq_status status = LIGHTQ_OK;
    uint64_t self = produce->history.lines != NULL ? produce->history.self : lq_clock_random_u64(lq_clock_system());
    if (!payload_init(&payload, self, size)) {
        return LIGHTQ_ENOMEM;
    }
    while (status == LIGHTQ_OK && produce->next < produce->cli->args.count && wait_due(produce, pace)) {
        payload_make(&payload, produce->next);
        status = send_one(produce, payload.bytes, size);
    }
    payload_deinit(&payload);
    return status;
}

/* A line that is too long fails alone. */
static lightq_status send_line(struct produce *produce, const char *line, size_t size)
{
    lightq_status status = send_one(produce, line, size);
    if (status == LIGHTQ_ETOOBIG) {
        fprintf(stderr, "lightq: ETOOBIG: a line of %zu bytes was not sent; %s\n", size, cli_remedy(status));
        produce->failed++;
        produce->first_failure = status;
        return LIGHTQ_OK;
    }
    return status;
}

static lightq_status send_lines(struct produce *produce, const struct pace *pace, int fd)
{
    struct input input;
    const char *line;
    size_t size;
    lightq_status status = LIGHTQ_OK;
    input_init(&input, fd, LQ_MESSAGE_BYTES_MAX);
    while (status == LIGHTQ_OK && wait_due(produce, pace) && !cli_interrupted()) {
        enum input_result result = input_line(&input, &line, &size, WAIT_MS);
        if (result == INPUT_LINE) {
            status = send_line(produce, line, size);
        } else if (result == INPUT_NOTHING) {
            run_reports(produce, 0);
        } else if (result == INPUT_TOO_LONG) {
            status = LIGHTQ_ETOOBIG;
        } else {
            status = result == INPUT_FAILED ? LIGHTQ_EIO : status;
            break;
        }
    }
    input_deinit(&input);
    return status;
}

static lightq_status send_all(struct produce *produce, int fd)
{
    struct pace pace;
    pace_start(&pace, cli_or(produce->cli->args.rate, 0));
    return cli_given(produce->cli->args.count) ? send_numbered(produce, &pace) : send_lines(produce, &pace, fd);
}

/* Waits for the reports of everything. Every message has one after delivery.timeout.ms at the latest. */
static void finish(struct produce *produce)
{
    uint64_t give_up_us = UINT64_MAX;
    while (lightq_producer_waiting(produce->producer) > 0 && pace_now_us() < give_up_us) {
        lightq_producer_flush(produce->producer, WAIT_MS);
        run_reports(produce, 0);
        if (give_up_us == UINT64_MAX && cli_interrupted()) {
            give_up_us = pace_now_us() + GIVE_UP_MS * (uint64_t)1000;
        }
    }
}

/* ---- result */

static void print_result(const struct produce *produce, double seconds)
{
    double per_s = seconds > 0 ? (double)produce->acked / seconds : 0;
    double mb_per_s = seconds > 0 ? (double)produce->bytes / seconds / BYTES_PER_MB : 0;
    if (produce->cli->json) {
        print_object(json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "topic", produce->cli->args.words[0],
                               "acked", (json_int_t)produce->acked, "same_id", (json_int_t)produce->same, "failed",
                               (json_int_t)produce->failed, "in_doubt", (json_int_t)produce->in_doubt, "seconds",
                               seconds, "acked_per_s", per_s, "mb_per_s", mb_per_s));
        return;
    }
    printf("%" PRIu64 " messages acknowledged in %.3f s (%.0f/s, %.1f MB/s)\n", produce->acked, seconds, per_s,
           mb_per_s);
    if (produce->same > 0) {
        printf("%" PRIu64 " of them were there already, under the same ids\n", produce->same);
    }
    if (produce->failed > 0) {
        printf("%" PRIu64 " not acknowledged, of which %" PRIu64 " may be stored\n", produce->failed,
               produce->in_doubt);
    }
}

static enum cli_exit judge(struct produce *produce, lightq_status sent)
{
    int error = 0;
    if (!history_close(&produce->history, &error)) {
        return cli_fail_with(LIGHTQ_EIO, "cannot write %s: %s", produce->cli->args.history, strerror(error));
    }
    if (!lines_close(produce->acked_lines)) {
        return cli_fail_with(LIGHTQ_EIO, "cannot write %s: %s", produce->acked_lines->path,
                             strerror(produce->acked_lines->error));
    }
    if (sent != LIGHTQ_OK && sent != LIGHTQ_EBUSY) {
        return cli_fail_with(sent, "message %" PRIu64 " to topic %s was not taken: %s", produce->next,
                             produce->cli->args.words[0], lightq_status_text(sent));
    }
    if (produce->failed > 0) {
        return cli_fail_with(produce->first_failure, "%" PRIu64 " messages were not acknowledged, the first one: %s",
                             produce->failed, lightq_status_text(produce->first_failure));
    }
    return cli_interrupted() && produce->next < cli_or(produce->cli->args.count, 0) ? CLI_FAILED : CLI_DONE;
}

static enum cli_exit run(struct produce *produce, int fd)
{
    struct lightq_error error;
    struct lightq_producer_options options = {.on_report = on_report, .owner = produce};
    if (lightq_producer_new(produce->cli->client, &options, &produce->producer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    cli_hold_signals();
    lightq_status status = lightq_producer_fd(produce->producer, &produce->fd);
    produce->cluster = lightq_cluster_id(produce->cli->client);
    uint64_t began_us = pace_now_us();
    produce->flushed_us = began_us;
    if (status == LIGHTQ_OK) {
        status = send_all(produce, fd);
    }
    finish(produce);
    double seconds = (double)(pace_now_us() - began_us) / US_PER_S;
    lightq_producer_close(produce->producer, 0);
    print_result(produce, seconds);
    return judge(produce, status);
}

static enum cli_exit check(const struct cli_args *args)
{
    if (cli_given(args->count) && args->file != NULL) {
        return cli_usage("--count and --file do not go together");
    }
    if (cli_given(args->size) && !cli_given(args->count)) {
        return cli_usage("--size needs --count");
    }
    if (args->history != NULL && (!cli_given(args->count) || cli_or(args->size, SIZE_DEFAULT) < HISTORY_SIZE_LEAST)) {
        return cli_usage("--history needs --count, and --size of at least %d", HISTORY_SIZE_LEAST);
    }
    if (cli_given(args->expected_offset) && !cli_given(args->partition)) {
        return cli_usage("an offset is one of a partition: --expected-offset goes with --partition P");
    }
    if (args->message_id != NULL &&
        (args->message_id[0] == '\0' || strlen(args->message_id) > LQ_MESSAGE_ID_BYTES_MAX)) {
        return cli_usage("--message-id takes 1 to %d bytes", LQ_MESSAGE_ID_BYTES_MAX);
    }
    if (args->message_id != NULL && args->history != NULL) {
        return cli_usage("--message-id and --history do not go together");
    }
    if (args->window == 0 || args->rate == 0) {
        return cli_usage("--window and --rate are at least 1");
    }
    return CLI_DONE;
}

/* Connects with the settings that the options mean. */
static enum cli_exit connect_for(struct cli *cli)
{
    char window[NUMBER_TEXT], timeout[NUMBER_TEXT], most[NUMBER_TEXT];
    const char *extra[9] = {NULL};
    size_t count = 0;
    if (cli_given(cli->args.window)) {
        snprintf(window, sizeof window, "%" PRIu64, cli->args.window);
        extra[count++] = "window.messages";
        extra[count++] = window;
    }
    if (cli_given(cli->args.timeout_ms)) {
        snprintf(timeout, sizeof timeout, "%" PRIu64, cli->args.timeout_ms);
        extra[count++] = "delivery.timeout.ms";
        extra[count++] = timeout;
    }
    if (cli->args.compression != NULL) {
        extra[count++] = "compression";
        extra[count++] = cli->args.compression;
    }
    snprintf(most, sizeof most, "%u", LQ_MESSAGE_BYTES_MAX); /* the cluster's limit is the one that counts */
    extra[count++] = "message.bytes.max";
    extra[count++] = most;
    return cli_connect(cli, extra);
}

enum cli_exit cli_produce(struct cli *cli)
{
    int fd = STDIN_FILENO;
    struct produce produce = {.cli = cli, .acked_lines = malloc(sizeof *produce.acked_lines)};
    enum cli_exit result = check(&cli->args);
    cli->patient = true;
    if (produce.acked_lines == NULL) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    if (result == CLI_DONE && cli->args.file != NULL) {
        fd = open(cli->args.file, O_RDONLY | O_CLOEXEC);
        result = fd >= 0 ? CLI_DONE : cli_fail_with(LIGHTQ_EIO, "cannot open %s: %s", cli->args.file, strerror(errno));
    }
    if (result == CLI_DONE && !lines_open(produce.acked_lines, cli->args.acked)) {
        result = cli_fail_with(LIGHTQ_EIO, "cannot open %s: %s", cli->args.acked, strerror(errno));
    }
    if (result == CLI_DONE && !history_open(&produce.history, cli->args.history)) {
        result = cli_fail_with(LIGHTQ_EIO, "cannot open %s: %s", cli->args.history, strerror(errno));
    }
    if (result == CLI_DONE) {
        result = connect_for(cli);
    }
    if (result == CLI_DONE) {
        result = run(&produce, fd);
    }
    if (fd > STDERR_FILENO) {
        close(fd);
    }
    free(produce.acked_lines);
    return result;
}
