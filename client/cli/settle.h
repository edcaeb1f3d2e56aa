/* client/cli/settle.h - what `consume --group` says of the messages it has read. A message is settled only after the
 * files it is written to have it, so that what was settled and is in no file was never read. Used by consume.c. */
#ifndef LQ_CLI_SETTLE_H
#define LQ_CLI_SETTLE_H

#include "client/cli/cli.h"

#define SETTLE_AT_ONCE 512 /* messages that are settled together */

enum settle_how { SETTLE_NOTHING, SETTLE_ACK, SETTLE_NACK };

struct settle {
    struct lightq_consumer *consumer;
    const char *topic;
    enum settle_how how;
    bool uncommitted; /* messages of a subscriber group were read since the last commit */
    uint64_t committed_us;
    size_t count; /* of a pipeline group */
    struct lightq_record records[SETTLE_AT_ONCE];
};

/* What --ack says. Says itself what is wrong. */
enum cli_exit settle_parse(const char *text, enum settle_how *how);
/* @record was read. True: settle_flush is due, after the files have been written. */
bool settle_take(struct settle *settle, const struct lightq_record *record);
/* Settles what was taken. OK, or why not. */
lightq_status settle_flush(struct settle *settle);
/* The same, and waits up to @timeout_ms until everything is on a majority. */
enum cli_exit settle_finish(struct settle *settle, int timeout_ms);

#endif
