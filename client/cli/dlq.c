/* client/cli/dlq.c - lightq dlq list and dlq redrive: the dead letters of a group, which are messages of the topic
 * <topic>.<group>.dlq, and their way back into the partitions they come from.
 *
 * What was moved back is settled in a pipeline group of that topic, "redrive", so any number of these may run, end and
 * be run again. A letter is moved before it is settled, under a message id of its own: one that is moved again because
 * nobody knows that it was, is not stored twice as long as the topic's dedup.window remembers it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/pace.h"
#include "client/cli/peek.h"
#include "client/cli/print.h"
#include "client/cli/print_record.h"

#define GROUP             "redrive"
#define SUFFIX            ".dlq"
#define OWN_HEADERS       "lightq."
#define REDRIVEN          "lightq.redriven"
#define NAME_BYTES        520 /* two names and the suffix: longer than any topic's */
#define ID_BYTES          64
#define NUMBER_BYTES      24
#define HEADERS_MAX       256
#define AT_ONCE           100
#define COUNT_DEFAULT     10
#define TIMEOUT_MS        30000
#define POLL_MS           100
#define US_PER_MS         1000u
#define DECIMAL           10
#define REDRIVE_ACK_WAIT  60000
#define REDRIVE_UNSETTLED 1000

/* Where a dead letter comes from, as its headers say. */
struct origin {
    char topic[NAME_BYTES];
    char group[NAME_BYTES];
    char reason[NUMBER_BYTES];
    int64_t partition, offset, deliveries, failed_ms; /* -1: not said */
};

static const char *dlq_name(const struct cli *cli, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s.%s" SUFFIX, cli->args.words[0], cli->args.words[1]);
    return name;
}

static int wait_ms(const struct cli *cli)
{
    return cli_timeout_ms(cli, TIMEOUT_MS);
}

/* ---- the headers of a letter */

static bool is_named(const struct lightq_header *header, const char *name)
{
    return header->name_size == strlen(name) && memcmp(header->name, name, header->name_size) == 0;
}

static void take_text(const struct lightq_header *header, char *text, size_t size)
{
    size_t length = header->value_size < size ? header->value_size : size - 1;
    memcpy(text, header->value, length);
    text[length] = '\0';
}

static int64_t number_of(const struct lightq_header *header)
{
    char text[NUMBER_BYTES];
    char *end;
    take_text(header, text, sizeof text);
    long long number = strtoll(text, &end, DECIMAL);
    return end == text || *end != '\0' || number < 0 ? -1 : (int64_t)number;
}

static void read_origin(const struct lightq_record *record, struct origin *origin)
{
    struct lightq_header header;
    *origin = (struct origin){.partition = -1, .offset = -1, .deliveries = -1, .failed_ms = -1};
    for (size_t i = 0; i < record->header_count && lightq_record_header(record, i, &header) == LIGHTQ_OK; i++) {
        if (header.value == NULL) {
            continue;
        }
        if (is_named(&header, "lightq.topic")) {
            take_text(&header, origin->topic, sizeof origin->topic);
        } else if (is_named(&header, "lightq.group")) {
            take_text(&header, origin->group, sizeof origin->group);
        } else if (is_named(&header, "lightq.reason")) {
            take_text(&header, origin->reason, sizeof origin->reason);
        } else if (is_named(&header, "lightq.partition")) {
            origin->partition = number_of(&header);
        } else if (is_named(&header, "lightq.offset")) {
            origin->offset = number_of(&header);
        } else if (is_named(&header, "lightq.deliveries")) {
            origin->deliveries = number_of(&header);
        } else if (is_named(&header, "lightq.failed")) {
            origin->failed_ms = number_of(&header);
        }
    }
}

/* ---- list */

static void print_letter(bool json, const struct lightq_record *record)
{
    char time[PRINT_TIME_BYTES];
    struct origin origin;
    read_origin(record, &origin);
    if (json) {
        json_t *object =
            json_pack("{s:s, s:I, s:I, s:s, s:I, s:s, s:s, s:I, s:I, s:s, s:I, s:I}", "dlq", record->topic, "partition",
                      (json_int_t)record->partition, "offset", (json_int_t)record->offset, "time",
                      print_time(record->timestamp_ms, time), "time_ms", (json_int_t)record->timestamp_ms, "topic",
                      origin.topic, "group", origin.group, "origin_partition", (json_int_t)origin.partition,
                      "origin_offset", (json_int_t)origin.offset, "reason", origin.reason, "deliveries",
                      (json_int_t)origin.deliveries, "failed_ms", (json_int_t)origin.failed_ms);
        print_set_bytes(object, "key", "key_base64", record->key, record->key_size);
        print_set_bytes(object, "value", "value_base64", record->value, record->value_size);
        print_object(object);
        return;
    }
    printf("%d/%" PRId64 "  %s/%" PRId64 "/%" PRId64 "  %s after %" PRId64 " deliveries  %s", record->partition,
           record->offset, origin.topic, origin.partition, origin.offset, origin.reason, origin.deliveries,
           print_time(record->timestamp_ms, time));
    if (record->key != NULL) {
        fputs("  key ", stdout);
        print_quoted(record->key, record->key_size);
    }
    fputs("  value ", stdout);
    print_quoted(record->value, record->value_size);
    putchar('\n');
}

/* The partitions of the letters' topic. *count 0: no message of the group has become one yet. */
static enum cli_exit find_topic(struct cli *cli, const char *name, int32_t *count)
{
    struct lightq_error error;
    struct lightq_group_info *info;
    *count = 0;
    lightq_status status = lightq_partition_count(cli->client, name, wait_ms(cli), count, &error);
    if (status == LIGHTQ_OK || status != LIGHTQ_ENOTFOUND) {
        return status == LIGHTQ_OK ? CLI_DONE : cli_fail(&error);
    }
    if (lightq_group_describe(cli->client, cli->args.words[0], cli->args.words[1], wait_ms(cli), &info, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error); /* there is no such group, or topic */
    }
    lightq_result_free(info);
    return CLI_DONE;
}

/* Where what was not moved back begins, in each of the @count partitions; to be freed. *left: how many those are. */
static enum cli_exit find_positions(struct cli *cli, const char *name, int32_t count, int64_t **positions,
                                    uint64_t *left)
{
    const struct lightq_start first = {.kind = LIGHTQ_START_BEGIN};
    struct lightq_group_info *info = NULL;
    struct lightq_error error;
    *left = 0;
    *positions = calloc((size_t)count + 1, sizeof **positions);
    if (*positions == NULL) {
        return cli_fail_with(LIGHTQ_ENOMEM, "no memory");
    }
    lightq_status status = lightq_group_describe(cli->client, name, GROUP, wait_ms(cli), &info, &error);
    for (uint32_t p = 0; status == LIGHTQ_OK && p < info->all_count && p < (uint32_t)count; p++) {
        const struct lightq_group_partition *partition = &info->partitions[p];
        int64_t at = partition->position > partition->start ? partition->position : partition->start;
        (*positions)[p] = partition->status == LIGHTQ_OK ? at : 0;
        *left += partition->status == LIGHTQ_OK ? partition->lag : 0;
        status = partition->status == LIGHTQ_ENOTFOUND ? LIGHTQ_ENOTFOUND : status; /* it is half made */
    }
    if (info != NULL) {
        lightq_result_free(info);
    }
    for (int32_t p = 0; status == LIGHTQ_ENOTFOUND && p < count; p++) { /* nothing was ever moved */
        lightq_status looked = lightq_offset(cli->client, name, p, &first, wait_ms(cli), &(*positions)[p], &error);
        status = looked == LIGHTQ_OK ? status : looked;
    }
    return status == LIGHTQ_OK || status == LIGHTQ_ENOTFOUND ? CLI_DONE : cli_fail(&error);
}

enum cli_exit cli_dlq_list(struct cli *cli)
{
    char name[NAME_BYTES];
    struct peek_job job = {
        .topic = dlq_name(cli, name), .count = cli_or(cli->args.count, COUNT_DEFAULT), .print = print_letter};
    int64_t *positions = NULL;
    uint64_t left;
    int32_t count = 0;
    enum cli_exit result = peek_connect(cli, job.count);
    result = result == CLI_DONE ? find_topic(cli, name, &count) : result;
    if (result == CLI_DONE && count > 0) {
        result = find_positions(cli, name, count, &positions, &left);
        job.positions = positions;
        result = result == CLI_DONE ? peek_run(cli, &job) : result;
        free(positions);
    }
    return result;
}

/* ---- redrive */

struct redrive {
    struct cli *cli;
    const char *name; /* of the letters' topic */
    struct lightq_consumer *consumer;
    struct lightq_producer *producer;
    struct lightq_record records[AT_ONCE];
    lightq_status stored[AT_ONCE]; /* of each of them */
    uint64_t moved, left;
};

static void on_report(void *owner, const struct lightq_report *report)
{
    struct redrive *redrive = owner;
    bool done = report->status == LIGHTQ_OK || report->status == LIGHTQ_EDUPLICATE;
    redrive->stored[(size_t)(uintptr_t)report->opaque] = done ? LIGHTQ_OK : report->status;
}

/* The letter's own headers but for those that made it one. Returns how many. */
static size_t headers_back(const struct redrive *redrive, const struct lightq_record *record,
                           struct lightq_header headers[HEADERS_MAX])
{
    const char *group = redrive->cli->args.words[1];
    size_t count = 0;
    struct lightq_header header;
    for (size_t i = 0; i < record->header_count && lightq_record_header(record, i, &header) == LIGHTQ_OK; i++) {
        bool own =
            header.name_size >= strlen(OWN_HEADERS) && memcmp(header.name, OWN_HEADERS, strlen(OWN_HEADERS)) == 0;
        if (!own && count < HEADERS_MAX - 1) {
            headers[count++] = header;
        }
    }
    headers[count++] = (struct lightq_header){
        .name = REDRIVEN, .name_size = strlen(REDRIVEN), .value = group, .value_size = strlen(group)};
    return count;
}

static lightq_status send_back(struct redrive *redrive, size_t index)
{
    struct lightq_header headers[HEADERS_MAX];
    const struct lightq_record *record = &redrive->records[index];
    struct origin origin;
    char id[NAME_BYTES + ID_BYTES];
    read_origin(record, &origin);
    if (origin.partition < 0 || origin.partition > INT32_MAX ||
        strcmp(origin.topic, redrive->cli->args.words[0]) != 0) {
        return LIGHTQ_EPROTO;
    }
    /* Ids have a bound of 255 bytes: of long names the digest of the batch stands for the name. */
    int size = snprintf(id, sizeof id, "redrive %s/%d/%" PRId64, redrive->name, record->partition, record->offset);
    if (size > UINT8_MAX) {
        size = snprintf(id, sizeof id, "redrive %" PRIx64 "/%" PRIu64 "/%d/%" PRId64, record->producer,
                        record->sequence, record->partition, record->offset);
    }
    const struct lightq_message message = {.topic = origin.topic,
                                           .partition = (int32_t)origin.partition,
                                           .key = record->key,
                                           .key_size = record->key_size,
                                           .value = record->value,
                                           .value_size = record->value_size,
                                           .headers = headers,
                                           .header_count = headers_back(redrive, record, headers),
                                           .timestamp_ms = record->timestamp_ms,
                                           .message_id = id,
                                           .message_id_size = (size_t)size,
                                           .opaque = (void *)(uintptr_t)index};
    return lightq_producer_send(redrive->producer, &message);
}

/* Moves the @count letters that were read, and settles those that are stored. */
static enum cli_exit move(struct redrive *redrive, size_t count)
{
    lightq_status wrong = LIGHTQ_OK;
    for (size_t i = 0; i < count; i++) {
        redrive->stored[i] = LIGHTQ_ETIMEDOUT;
        lightq_status sent = send_back(redrive, i);
        redrive->stored[i] = sent == LIGHTQ_OK ? redrive->stored[i] : sent;
    }
    lightq_status flushed = lightq_producer_flush(redrive->producer, wait_ms(redrive->cli));
    for (size_t i = 0; i < count; i++) {
        lightq_status status = redrive->stored[i];
        status = status == LIGHTQ_OK ? lightq_consumer_ack(redrive->consumer, &redrive->records[i])
                                     : (lightq_consumer_return(redrive->consumer, &redrive->records[i]), status);
        redrive->moved += status == LIGHTQ_OK;
        redrive->left -= status == LIGHTQ_OK;
        wrong = status != LIGHTQ_OK && wrong == LIGHTQ_OK ? status : wrong;
    }
    wrong = wrong == LIGHTQ_OK ? flushed : wrong;
    if (wrong == LIGHTQ_EPROTO) {
        return cli_fail_with(wrong, "%s holds a message without the headers of a dead letter of this group",
                             redrive->name);
    }
    if (wrong == LIGHTQ_OK) {
        wrong = lightq_consumer_flush(redrive->consumer, wait_ms(redrive->cli));
    }
    return wrong == LIGHTQ_OK
               ? CLI_DONE
               : cli_fail_with(wrong, "a dead letter could not be moved back to %s", redrive->cli->args.words[0]);
}

static enum cli_exit move_all(struct redrive *redrive)
{
    uint64_t until_us = pace_now_us() + (uint64_t)wait_ms(redrive->cli) * US_PER_MS;
    while (redrive->left > 0 && !cli_interrupted()) {
        size_t most = redrive->left < AT_ONCE ? (size_t)redrive->left : AT_ONCE;
        size_t count = 0;
        lightq_status status = lightq_consumer_poll_many(redrive->consumer, POLL_MS, redrive->records, most, &count);
        struct lightq_event event = {.kind = LIGHTQ_EVENT_NONE};
        if (status == LIGHTQ_OK && count == 0) {
            status = lightq_consumer_poll(redrive->consumer, 0, &event);
        }
        if (status != LIGHTQ_OK) {
            return cli_fail_with(status, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_MESSAGE) { /* it came in between */
            redrive->records[count++] = event.record;
        }
        if (event.kind == LIGHTQ_EVENT_ERROR && !lightq_status_retriable(event.error->status)) {
            return cli_fail(event.error);
        }
        if (count > 0) {
            enum cli_exit result = move(redrive, count);
            if (result != CLI_DONE) {
                return result;
            }
            until_us = pace_now_us() + (uint64_t)wait_ms(redrive->cli) * US_PER_MS;
        } else if (pace_now_us() >= until_us) {
            return cli_fail_with(LIGHTQ_ETIMEDOUT,
                                 "%" PRIu64 " dead letters did not come: another redrive may hold them", redrive->left);
        }
    }
    return CLI_DONE;
}

static lightq_status open_group(struct redrive *redrive, struct lightq_error *error)
{
    const struct lightq_start first = {.kind = LIGHTQ_START_BEGIN};
    struct lightq_group_options options;
    lightq_group_options_init(&options, LIGHTQ_GROUP_PIPELINE);
    options.max_deliver = 0; /* a letter does not become one of another topic */
    options.ack_wait_ms = REDRIVE_ACK_WAIT;
    options.max_unsettled = REDRIVE_UNSETTLED;
    lightq_status status =
        lightq_group_create(redrive->cli->client, redrive->name, GROUP, &options, &first, wait_ms(redrive->cli), error);
    return status == LIGHTQ_EEXISTS ? LIGHTQ_OK : status;
}

static enum cli_exit run(struct redrive *redrive)
{
    struct lightq_error error;
    const struct lightq_producer_options options = {.on_report = on_report, .owner = redrive};
    if (lightq_producer_new(redrive->cli->client, &options, &redrive->producer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    enum cli_exit result = CLI_DONE;
    if (lightq_consumer_new(redrive->cli->client, &redrive->consumer, &error) != LIGHTQ_OK) {
        result = cli_fail(&error);
    } else {
        if (lightq_consumer_join(redrive->consumer, redrive->name, GROUP, LIGHTQ_PARTITION_ANY, wait_ms(redrive->cli),
                                 &error) != LIGHTQ_OK) {
            result = cli_fail(&error);
        }
        cli_hold_signals();
        result = result == CLI_DONE ? move_all(redrive) : result;
        lightq_status closed = lightq_consumer_close(redrive->consumer, wait_ms(redrive->cli));
        if (result == CLI_DONE && closed != LIGHTQ_OK) {
            result =
                cli_fail_with(closed, "not every letter that was moved is known to be settled: it may be moved again");
        }
    }
    lightq_status closed = lightq_producer_close(redrive->producer, 0);
    (void)closed; /* every message had its report, or was told of */
    return result;
}

static void print_redriven(const struct redrive *redrive, uint64_t stay)
{
    const char *topic = redrive->cli->args.words[0];
    const char *group = redrive->cli->args.words[1];
    if (redrive->cli->json) {
        print_object(json_pack("{s:s, s:s, s:I, s:I}", "topic", topic, "group", group, "redriven",
                               (json_int_t)redrive->moved, "left", (json_int_t)stay));
    } else {
        printf("%" PRIu64 " dead letters of group %s moved back to topic %s, %" PRIu64 " left\n", redrive->moved, group,
               topic, stay);
    }
}

enum cli_exit cli_dlq_redrive(struct cli *cli)
{
    char name[NAME_BYTES];
    struct redrive redrive = {.cli = cli, .name = dlq_name(cli, name)};
    int64_t *positions = NULL;
    uint64_t there = 0;
    int32_t count = 0;
    struct lightq_error error;
    enum cli_exit result = peek_connect(cli, cli_or(cli->args.count, AT_ONCE));
    result = result == CLI_DONE ? find_topic(cli, name, &count) : result;
    if (result != CLI_DONE) {
        return result;
    }
    if (count > 0) {
        if (open_group(&redrive, &error) != LIGHTQ_OK) {
            return cli_fail(&error);
        }
        result = find_positions(cli, name, count, &positions, &there);
        free(positions);
        redrive.left = cli_or(cli->args.count, UINT64_MAX) < there ? cli->args.count : there;
        result = result == CLI_DONE && redrive.left > 0 ? run(&redrive) : result;
    }
    if (result == CLI_DONE || redrive.moved > 0) {
        print_redriven(&redrive, there - redrive.moved);
    }
    return result;
}
