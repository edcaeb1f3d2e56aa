/* client/cli/peek.h - shows messages that are there, as a subscriber without a name: one partition after the other,
 * each up to where it ended when that one was begun. No group and no place in the cluster is touched. */
#ifndef LQ_CLI_PEEK_H
#define LQ_CLI_PEEK_H

#include "client/cli/cli.h"

struct peek_job {
    const char *topic;
    uint64_t count; /* at most so many */
    struct lightq_start from;
    const int64_t *positions; /* instead of from: where to begin in each partition; NULL */
    void (*print)(bool json, const struct lightq_record *record);
};

/* cli_connect, with no more fetched than is shown, so that looking at a long topic costs little. */
enum cli_exit peek_connect(struct cli *cli, uint64_t count);
/* Of --partition, or of all partitions. Says itself what is wrong. */
enum cli_exit peek_run(struct cli *cli, const struct peek_job *job);

#endif
