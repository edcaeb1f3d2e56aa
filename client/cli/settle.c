/* client/cli/settle.c - see settle.h. */
#include "client/cli/settle.h"

#include <string.h>

#include "client/cli/pace.h"

#define COMMIT_EVERY_US 1000000u
#define BUSY_WAIT_MS    1000

enum cli_exit settle_parse(const char *text, enum settle_how *how)
{
    *how = SETTLE_ACK;
    if (text == NULL || strcmp(text, "auto") == 0) {
        return CLI_DONE;
    }
    if (strcmp(text, "none") == 0) {
        *how = SETTLE_NOTHING;
        return CLI_DONE;
    }
    if (strcmp(text, "nack") == 0) {
        *how = SETTLE_NACK;
        return CLI_DONE;
    }
    return cli_usage("--ack takes auto, none or nack, and not '%s'", text);
}

bool settle_take(struct settle *settle, const struct lightq_record *record)
{
    if (settle->how == SETTLE_NOTHING) {
        return false;
    }
    if (record->grant == 0) { /* of a subscriber group */
        settle->uncommitted = true;
        return settle->count == 0 && pace_now_us() - settle->committed_us >= COMMIT_EVERY_US;
    }
    settle->records[settle->count++] = *record;
    return settle->count == SETTLE_AT_ONCE;
}

static lightq_status settle_one(struct settle *settle, const struct lightq_record *record)
{
    lightq_status status;
    do {
        status = settle->how == SETTLE_ACK ? lightq_consumer_ack(settle->consumer, record)
                                           : lightq_consumer_nack(settle->consumer, record, LIGHTQ_DELAY_DEFAULT);
    } while (status == LIGHTQ_EBUSY && lightq_consumer_flush(settle->consumer, BUSY_WAIT_MS) == LIGHTQ_OK);
    return status == LIGHTQ_EFENCED ? LIGHTQ_OK : status; /* it was moved: they are delivered again if they shall */
}

lightq_status settle_flush(struct settle *settle)
{
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; i < settle->count && status == LIGHTQ_OK; i++) {
        status = settle_one(settle, &settle->records[i]);
    }
    settle->count = 0;
    if (settle->uncommitted && settle->how == SETTLE_ACK && status == LIGHTQ_OK) {
        settle->uncommitted = false;
        settle->committed_us = pace_now_us();
        status = lightq_consumer_commit(settle->consumer, settle->topic, LIGHTQ_PARTITION_ANY, 0, 0, NULL);
    }
    return status;
}

enum cli_exit settle_finish(struct settle *settle, int timeout_ms)
{
    bool commits = settle->uncommitted && settle->how == SETTLE_ACK;
    struct lightq_error error;
    lightq_status status = settle_flush(settle);
    if (status == LIGHTQ_OK && commits &&
        lightq_consumer_commit(settle->consumer, settle->topic, LIGHTQ_PARTITION_ANY, 0, timeout_ms, &error) !=
            LIGHTQ_OK) {
        return cli_fail(&error);
    }
    status = status == LIGHTQ_OK ? lightq_consumer_flush(settle->consumer, timeout_ms) : status;
    return status == LIGHTQ_OK
               ? CLI_DONE
               : cli_fail_with(status, "not everything that was read is known to be settled: some may come again");
}
