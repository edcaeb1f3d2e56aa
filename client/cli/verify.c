/* client/cli/verify.c - lightq verify: reads what the lines of produce --acked name and compares producer, sequence
 * and the batch's checksum, which the library has computed anew from the bytes that were stored. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/pace.h"
#include "client/cli/print.h"
#include "client/cli/receipts.h"

#define PATIENCE_MS 30000
#define WAIT_MS     100
#define US_PER_MS   1000u
#define EXAMPLES    10

struct verify {
    struct cli *cli;
    struct lightq_consumer *consumer;
    struct receipts receipts;
    size_t found, different, missing;
};

/* The receipts of one partition: those with an offset, sorted by it, and behind them those without, by producer and
 * sequence. */
struct share {
    const char *topic;
    int32_t partition;
    struct receipt *items;
    size_t known, count;
    size_t at; /* known ones below this are decided */
};

static int patience_ms(const struct verify *verify)
{
    return cli_timeout_ms(verify->cli, PATIENCE_MS);
}

/* ---- saying what is wrong */

static void tell(struct verify *verify, const struct share *share, struct receipt *receipt, enum receipt_state state,
                 const char *why)
{
    receipt->state = (uint8_t)state;
    if (verify->different + verify->missing < EXAMPLES) {
        char place[32] = "at an offset not told";
        if (receipt->offset != LIGHTQ_OFFSET_UNKNOWN) {
            snprintf(place, sizeof place, "at offset %" PRId64, receipt->offset);
        }
        fprintf(stderr,
                "lightq: line %" PRIu64 ": producer %" PRIu64 " sequence %" PRIu64 ", acknowledged %s of %s/%d: %s\n",
                receipt->line, receipt->producer, receipt->sequence, place, share->topic, share->partition, why);
    }
    verify->different += state == RECEIPT_DIFFERENT;
    verify->missing += state == RECEIPT_MISSING;
}

static void tell_open(struct verify *verify, const struct share *share, const char *why)
{
    for (size_t i = 0; i < share->count; i++) {
        if (share->items[i].state == RECEIPT_OPEN) {
            tell(verify, share, &share->items[i], RECEIPT_MISSING, why);
        }
    }
}

/* ---- comparing */

static void compare(struct verify *verify, const struct share *share, struct receipt *receipt,
                    const struct lightq_record *record)
{
    char why[160];
    if (receipt->state != RECEIPT_OPEN) {
        return;
    }
    if (record->producer != receipt->producer || record->sequence != receipt->sequence) {
        snprintf(why, sizeof why, "there is the message of producer %" PRIu64 " sequence %" PRIu64, record->producer,
                 record->sequence);
        tell(verify, share, receipt, RECEIPT_DIFFERENT, why);
    } else if (record->batch_crc != receipt->batch_crc) {
        snprintf(why, sizeof why, "the checksum is %" PRIu32 " and not %" PRIu32, record->batch_crc,
                 receipt->batch_crc);
        tell(verify, share, receipt, RECEIPT_DIFFERENT, why);
    } else {
        receipt->state = RECEIPT_FOUND;
        verify->found++;
    }
}

static int compare_name(const void *first, const void *second)
{
    const struct receipt *a = first, *b = second;
    if (a->producer != b->producer) {
        return a->producer < b->producer ? -1 : 1;
    }
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static void take(struct verify *verify, struct share *share, const struct lightq_record *record)
{
    for (; share->at < share->known && share->items[share->at].offset <= record->offset; share->at++) {
        if (share->items[share->at].offset == record->offset) {
            compare(verify, share, &share->items[share->at], record);
        } /* lower: below the start of the log, and told at the end */
    }
    if (share->known < share->count) {
        struct receipt name = {.producer = record->producer, .sequence = record->sequence};
        struct receipt *receipt =
            bsearch(&name, share->items + share->known, share->count - share->known, sizeof name, compare_name);
        if (receipt != NULL) {
            compare(verify, share, receipt, record);
        }
    }
}

/* ---- reading */

/* Reads [@position, @end) of the partition. */
static enum cli_exit read_range(struct verify *verify, struct share *share, int64_t position, int64_t end)
{
    struct lightq_event event;
    uint64_t heard_us = pace_now_us();
    while (position < end) {
        if (lightq_consumer_poll(verify->consumer, WAIT_MS, &event) != LIGHTQ_OK) {
            return cli_fail_with(LIGHTQ_EINTERNAL, "cannot poll");
        }
        if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            take(verify, share, &event.record);
            position = event.record.offset + 1;
            heard_us = pace_now_us();
        } else if (event.kind == LIGHTQ_EVENT_ERROR && !event.error->retriable) {
            return cli_fail(event.error);
        } else if (cli_interrupted()) {
            return cli_fail_with(LIGHTQ_ECANCELED, "interrupted: not all was looked at");
        } else if (pace_now_us() - heard_us > (uint64_t)patience_ms(verify) * US_PER_MS) {
            return cli_fail_with(LIGHTQ_ETIMEDOUT, "%s/%d gives nothing at offset %" PRId64 " of %" PRId64,
                                 share->topic, share->partition, position, end);
        }
    }
    return CLI_DONE;
}

static enum cli_exit read_share(struct verify *verify, struct share *share, int64_t begin, int64_t end)
{
    struct lightq_error error;
    int64_t first = share->known > 0 ? share->items[0].offset : end;
    int64_t behind = share->known > 0 ? share->items[share->known - 1].offset + 1 : 0;
    if (share->known < share->count) {
        first = begin;
        behind = end;
    }
    first = first < begin ? begin : first;
    behind = behind < end ? behind : end;
    if (first >= behind) {
        return CLI_DONE;
    }
    struct lightq_start start = {.kind = LIGHTQ_START_OFFSET, .offset = first};
    if (lightq_consumer_subscribe(verify->consumer, share->topic, share->partition, &start, patience_ms(verify),
                                  &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    enum cli_exit result = read_range(verify, share, first, behind);
    (void)lightq_consumer_unsubscribe(verify->consumer, share->topic, share->partition);
    return result;
}

static enum cli_exit verify_share(struct verify *verify, struct share *share)
{
    const struct lightq_start start = {.kind = LIGHTQ_START_BEGIN}, last = {.kind = LIGHTQ_START_END};
    struct lightq *client = verify->cli->client;
    struct lightq_error error;
    int64_t begin, end;
    char why[160];
    lightq_status status =
        lightq_offset(client, share->topic, share->partition, &start, patience_ms(verify), &begin, &error);
    if (status == LIGHTQ_OK) {
        status = lightq_offset(client, share->topic, share->partition, &last, patience_ms(verify), &end, &error);
    }
    if (status == LIGHTQ_ENOTFOUND) {
        tell_open(verify, share, "there is no such topic or partition");
        return CLI_DONE;
    }
    enum cli_exit result = status == LIGHTQ_OK ? read_share(verify, share, begin, end) : cli_fail(&error);
    if (result == CLI_DONE) {
        snprintf(why, sizeof why, "it is not stored; the log has offsets %" PRId64 " to %" PRId64, begin, end);
        tell_open(verify, share, why);
    }
    return result;
}

/* The receipts from @from on that are of one partition. */
static struct share share_at(const struct receipts *receipts, size_t from)
{
    struct receipt *items = receipts->items + from;
    struct share share = {.topic = receipts->topics[items->topic], .partition = items->partition, .items = items};
    while (from + share.count < receipts->count && items[share.count].topic == items->topic &&
           items[share.count].partition == items->partition) {
        share.known += items[share.count].offset != LIGHTQ_OFFSET_UNKNOWN;
        share.count++;
    }
    return share;
}

/* ---- result */

static enum cli_exit judge(const struct verify *verify)
{
    size_t wrong = verify->different + verify->missing;
    if (wrong > EXAMPLES) {
        fprintf(stderr, "lightq: and %zu more\n", wrong - EXAMPLES);
    }
    if (verify->cli->json) {
        print_object(json_pack("{s:I, s:I, s:I, s:I}", "receipts", (json_int_t)verify->receipts.count, "verified",
                               (json_int_t)verify->found, "different", (json_int_t)verify->different, "missing",
                               (json_int_t)verify->missing));
    } else {
        printf("%zu receipts: %zu stored with their checksum, %zu different, %zu missing\n", verify->receipts.count,
               verify->found, verify->different, verify->missing);
    }
    return wrong == 0 ? CLI_DONE : CLI_FAILED;
}

static enum cli_exit run(struct verify *verify)
{
    const struct receipts *receipts = &verify->receipts;
    struct lightq_error error;
    enum cli_exit result = CLI_DONE;
    if (strcmp(receipts->cluster, lightq_cluster_id(verify->cli->client)) != 0) {
        return cli_fail_with(LIGHTQ_EINVAL, "the receipts are of cluster %s, and this is cluster %s", receipts->cluster,
                             lightq_cluster_id(verify->cli->client));
    }
    if (lightq_consumer_new(verify->cli->client, &verify->consumer, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    cli_hold_signals();
    for (size_t at = 0; result == CLI_DONE && at < receipts->count;) {
        struct share share = share_at(receipts, at);
        result = verify_share(verify, &share);
        at += share.count;
    }
    lightq_consumer_close(verify->consumer, WAIT_MS);
    return result == CLI_DONE ? judge(verify) : result;
}

enum cli_exit cli_verify(struct cli *cli)
{
    struct verify verify = {.cli = cli};
    cli->patient = true;
    if (cli->args.acked == NULL) {
        return cli_usage("lightq verify needs --acked FILE");
    }
    enum cli_exit result = receipts_load(&verify.receipts, cli->args.acked);
    if (result == CLI_DONE && verify.receipts.count == 0) {
        result = cli_fail_with(LIGHTQ_EINVAL, "%s has no receipts, so nothing is proven", cli->args.acked);
    }
    if (result == CLI_DONE) {
        receipts_sort(&verify.receipts);
        result = cli_connect(cli, NULL);
    }
    if (result == CLI_DONE) {
        result = run(&verify);
    }
    receipts_deinit(&verify.receipts);
    return result;
}
