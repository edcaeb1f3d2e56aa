/* client/cli/bench.h - what bench.c (produce, consume, end-to-end) and bench_pipeline.c share: a measurement, its
 * producing half, and how its result is printed. */
#ifndef LQ_CLI_BENCH_H
#define LQ_CLI_BENCH_H

#include <stdatomic.h>

#include "client/cli/cli.h"
#include "client/cli/histogram.h"
#include "client/cli/pace.h"

#define BENCH_STAMP_BYTES  8 /* the time a message was due, in front of one whose delivery is timed */
#define BENCH_SUBSCRIBE_MS 30000
#define BENCH_WAIT_MS      100
#define BENCH_IDLE_US      10000000u /* consumers give up when nothing comes for so long */

struct bench {
    struct cli *cli;
    const char *mode;
    uint64_t count, size;
    struct pace pace;
    char *payload;
    bool stamped;

    struct lightq_producer *producer;
    int fd;
    uint64_t sent, acked, failed;
    lightq_status first_failure;
    uint64_t began_us, last_ack_us;
    uint64_t max_gap_us; /* the longest time without an acknowledgement, from the first to the last */
    int32_t *idle;       /* --spread: partitions with nothing in flight, a stack */
    int32_t idle_count;
    struct histogram *latency; /* of acknowledgements; of deliveries when end to end */

    struct lightq_consumer *consumer;
    struct lightq *consumer_client;
    _Atomic uint64_t wanted; /* messages the consumer waits for; UINT64_MAX: not known yet */
    uint64_t consumed, consumed_bytes;
    uint64_t first_message_us, last_message_us;
    bool gave_up;
    uint64_t settled, last_settled_us; /* pipeline: when the last result was on a majority */
};

/* Fills @bench from the arguments, and connects. Whatever it returns, bench_end follows. */
enum cli_exit bench_begin(struct bench *bench, struct cli *cli, const char *mode);
/* Prints the result, if @result is CLI_DONE, and frees. Returns the exit code. */
enum cli_exit bench_end(struct bench *bench, enum cli_exit result);
/* Sends everything and waits until it is acknowledged. */
enum cli_exit bench_produce_all(struct bench *bench);
double bench_per_second(uint64_t count, uint64_t from_us, uint64_t to_us);

#endif
