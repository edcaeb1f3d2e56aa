/* client/cli/cli.h - what the files of the lightq command share: its arguments, its verbs, how it fails.
 *
 * main.c takes the arguments apart (args.c) and calls one verb: admin.c, group.c, produce.c, consume.c, verify.c or
 * bench.c. A verb returns the exit code: 0 done, 1 failed, 2 wrong usage. One thread, except in `bench end-to-end` and
 * `bench pipeline`. */
#ifndef LQ_CLI_CLI_H
#define LQ_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lightq/admin.h>
#include <lightq/consumer.h>
#include <lightq/group.h>
#include <lightq/producer.h>

#define CLI_LIST_MAX      64 /* of an option that may be given several times */
#define CLI_CONSUMERS_MAX 64 /* of bench pipeline */

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli_list {
    const char *items[CLI_LIST_MAX];
    size_t count;
};

/* What was said on the command line. Numbers that were not given are UINT64_MAX, texts NULL. */
struct cli_args {
    const char *servers;
    const char *format;
    struct cli_list settings;
    bool help;

    uint64_t partitions, replicas;
    struct cli_list config;
    uint64_t count, size, rate, window, timeout_ms, partition;
    const char *file, *key, *acked, *from, *to, *log, *history;
    bool transient, until_end, print, spread, wait_equal, replace_live;
    const char *message_id, *compression;
    const char *mode, *backoff, *group, *ack;
    uint64_t expected_offset;
    uint64_t consumers, ack_wait_ms, max_deliver, max_unsettled, idle_exit_ms;
    bool exclusive, key_ordered;

    const char *words[4]; /* behind the verb */
    size_t word_count;
};

struct cli {
    struct cli_args args;
    bool json;
    bool patient; /* --timeout is about messages: connecting has its own time */
    struct lightq *client;
};

struct cli_verb {
    const char *name;  /* "topic create" */
    const char *words; /* "NAME" */
    size_t word_count;
    const char *options; /* names between blanks, in the order of --help */
    const char *sentence;
    enum cli_exit (*run)(struct cli *cli);
};

static inline bool cli_given(uint64_t number)
{
    return number != UINT64_MAX;
}

static inline uint64_t cli_or(uint64_t number, uint64_t otherwise)
{
    return cli_given(number) ? number : otherwise;
}

/* The verb that @words begin with, and how many words its name has; NULL: none. */
const struct cli_verb *cli_find_verb(char *const *words, size_t count, size_t *used);
const struct cli_verb *cli_verb_at(size_t index); /* NULL: past the last */

/* Takes the options and words of @verb (NULL: only the global options, up to the first word) from @argv. Returns how
 * many were taken, or -1 after it has said on standard error what is wrong. */
int cli_parse(struct cli_args *args, const struct cli_verb *verb, int argc, char *const *argv);
void cli_args_init(struct cli_args *args);
void cli_print_help(void);
void cli_print_verb_help(const struct cli_verb *verb);
/* The options of all verbs, and one verb with its own, as parts of a manual page; the whole of docs/man/lightq.1; the
 * part about settings of docs/man/liblightq.3. */
void cli_print_manual_options(void);
void cli_print_manual_verb(const struct cli_verb *verb);
void cli_print_manual(void);
void cli_print_manual_settings(void);

/* One sentence on standard error, and 2. */
enum cli_exit cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One sentence on standard error with the status and what to do about it, and 1. */
enum cli_exit cli_fail(const struct lightq_error *error);
enum cli_exit cli_fail_with(lightq_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What to do about @status; "" when there is nothing general to say. */
const char *cli_remedy(lightq_status status);

/* Makes cli->client with the settings of the command line and @extra (name, value, ..., NULL), and waits until a
 * server has greeted it. Says what is wrong itself. */
enum cli_exit cli_connect(struct cli *cli, const char *const *extra);
/* A client of its own, as cli_connect makes. */
enum cli_exit cli_new_client(const struct cli *cli, const char *const *extra, struct lightq **client);
/* --timeout, or @otherwise when it was not given. */
int cli_timeout_ms(const struct cli *cli, int otherwise);
/* At least @least: for what comes before that which --timeout is about. */
int cli_patience_ms(const struct cli *cli, int least);

/* What --@option says, @text (NULL: start): start, end, an offset, or a time. Says itself what is wrong. */
enum cli_exit cli_parse_place(const char *option, const char *text, struct lightq_start *start);

/* From now on SIGINT and SIGTERM do not end the program; a verb that runs for long asks for them and ends in order. */
void cli_hold_signals(void);
bool cli_interrupted(void);

enum cli_exit cli_topic_create(struct cli *cli);
enum cli_exit cli_topic_list(struct cli *cli);
enum cli_exit cli_topic_describe(struct cli *cli);
enum cli_exit cli_topic_alter(struct cli *cli);
enum cli_exit cli_topic_purge(struct cli *cli);
/* topic purge --group: drops what that group has still to get. */
enum cli_exit cli_group_purge(struct cli *cli);
enum cli_exit cli_topic_delete(struct cli *cli);
enum cli_exit cli_cluster_status(struct cli *cli);
enum cli_exit cli_node_replace(struct cli *cli);
enum cli_exit cli_partition_transfer(struct cli *cli);
enum cli_exit cli_produce(struct cli *cli);
enum cli_exit cli_consume(struct cli *cli);
enum cli_exit cli_group_create(struct cli *cli);
enum cli_exit cli_group_list(struct cli *cli);
enum cli_exit cli_group_describe(struct cli *cli);
enum cli_exit cli_group_alter(struct cli *cli);
enum cli_exit cli_group_seek(struct cli *cli);
enum cli_exit cli_group_pause(struct cli *cli);
enum cli_exit cli_group_resume(struct cli *cli);
enum cli_exit cli_group_delete(struct cli *cli);
enum cli_exit cli_peek(struct cli *cli);
enum cli_exit cli_explain(struct cli *cli);
enum cli_exit cli_dlq_list(struct cli *cli);
enum cli_exit cli_dlq_redrive(struct cli *cli);
enum cli_exit cli_verify(struct cli *cli);
enum cli_exit cli_bench_produce(struct cli *cli);
enum cli_exit cli_bench_consume(struct cli *cli);
enum cli_exit cli_bench_end_to_end(struct cli *cli);
enum cli_exit cli_bench_pipeline(struct cli *cli);

#endif
