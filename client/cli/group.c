/* client/cli/group.c - the verbs about consumer groups. How results look is in print_group.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/cli/cli.h"
#include "client/cli/print.h"
#include "client/cli/print_group.h"

#define CHANGE_MS_DEFAULT 30000
#define LOOK_MS_DEFAULT   10000
#define RADIX             10

/* "100,1000,10000" */
static enum cli_exit parse_backoff(const char *text, struct lightq_group_options *options)
{
    const char *at = text;
    options->backoff_count = 0;
    for (;;) {
        char *end;
        errno = 0;
        unsigned long long ms = strtoull(at, &end, RADIX);
        if (*at < '0' || *at > '9' || errno != 0 || ms > LQ_CGROUP_DELAY_MS_MAX || (*end != ',' && *end != '\0') ||
            options->backoff_count == LIGHTQ_BACKOFF_MAX) {
            return cli_usage("--backoff takes up to %d delays of up to %u ms, as 100,1000,10000, and not '%s'",
                             LIGHTQ_BACKOFF_MAX, LQ_CGROUP_DELAY_MS_MAX, text);
        }
        options->backoff_ms[options->backoff_count++] = (uint32_t)ms;
        if (*end == '\0') {
            return CLI_DONE;
        }
        at = end + 1;
    }
}

/* The options that were given; *which names them. */
static enum cli_exit fill_options(const struct cli_args *args, struct lightq_group_options *options, uint32_t *which)
{
    *which = 0;
    if (cli_given(args->ack_wait_ms)) {
        options->ack_wait_ms = (uint32_t)args->ack_wait_ms;
        *which |= LIGHTQ_GROUP_ACK_WAIT;
    }
    if (cli_given(args->max_deliver)) {
        options->max_deliver = (uint32_t)args->max_deliver;
        *which |= LIGHTQ_GROUP_MAX_DELIVER;
    }
    if (cli_given(args->max_unsettled)) {
        options->max_unsettled = (uint32_t)args->max_unsettled;
        *which |= LIGHTQ_GROUP_MAX_UNSETTLED;
    }
    if (options->ack_wait_ms == 0 || options->max_unsettled == 0) {
        return cli_usage("--ack-wait and --max-unsettled take a number from 1");
    }
    if (args->backoff != NULL) {
        *which |= LIGHTQ_GROUP_BACKOFF;
        return parse_backoff(args->backoff, options);
    }
    return CLI_DONE;
}

/* How a call ended: printed, or told. */
static enum cli_exit finish(struct cli *cli, lightq_status status, const struct lightq_error *error, const char *what)
{
    if (status != LIGHTQ_OK) {
        return cli_fail(error);
    }
    print_group_done(cli->json, what, cli->args.words[0], cli->args.words[1]);
    return CLI_DONE;
}

enum cli_exit cli_group_create(struct cli *cli)
{
    const struct cli_args *args = &cli->args;
    struct lightq_group_options options;
    struct lightq_start start;
    struct lightq_error error;
    uint32_t which;
    bool pipeline = args->mode != NULL && strcmp(args->mode, "pipeline") == 0;
    if (!pipeline && (args->mode == NULL || strcmp(args->mode, "subscriber") != 0)) {
        return cli_usage("--mode takes pipeline or subscriber%s%s", args->mode != NULL ? ", and not " : "",
                         args->mode != NULL ? args->mode : "");
    }
    lightq_group_options_init(&options, pipeline ? LIGHTQ_GROUP_PIPELINE : LIGHTQ_GROUP_SUBSCRIBER);
    options.exclusive = args->exclusive;
    options.key_ordered = args->key_ordered;
    enum cli_exit result = fill_options(args, &options, &which);
    result = result == CLI_DONE ? cli_parse_place("from", args->from, &start) : result;
    if (result == CLI_DONE && options.exclusive && options.key_ordered) {
        result = cli_usage("a group is --exclusive or --key-ordered, and not both");
    }
    if (result == CLI_DONE && !pipeline && (which != 0 || options.key_ordered)) {
        result = cli_usage("--key-ordered, --ack-wait, --max-deliver, --max-unsettled and --backoff go with "
                           "--mode pipeline");
    }
    result = result == CLI_DONE ? cli_connect(cli, NULL) : result;
    if (result != CLI_DONE) {
        return result;
    }
    return finish(cli,
                  lightq_group_create(cli->client, args->words[0], args->words[1], &options, &start,
                                      cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &error),
                  &error, "created");
}

enum cli_exit cli_group_alter(struct cli *cli)
{
    struct lightq_group_options options;
    struct lightq_error error;
    uint32_t which;
    lightq_group_options_init(&options, LIGHTQ_GROUP_PIPELINE);
    enum cli_exit result = fill_options(&cli->args, &options, &which);
    if (result == CLI_DONE && which == 0) {
        result = cli_usage("lightq group alter needs an option to change");
    }
    result = result == CLI_DONE ? cli_connect(cli, NULL) : result;
    if (result != CLI_DONE) {
        return result;
    }
    return finish(cli,
                  lightq_group_alter(cli->client, cli->args.words[0], cli->args.words[1], which, &options,
                                     cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &error),
                  &error, "altered");
}

enum cli_exit cli_group_seek(struct cli *cli)
{
    struct lightq_start to;
    struct lightq_error error;
    int32_t partition = cli_given(cli->args.partition) ? (int32_t)cli->args.partition : LIGHTQ_PARTITION_ANY;
    if (cli->args.to == NULL) {
        return cli_usage("--to start|end|OFFSET|TIME is missing");
    }
    enum cli_exit result = cli_parse_place("to", cli->args.to, &to);
    result = result == CLI_DONE ? cli_connect(cli, NULL) : result;
    if (result != CLI_DONE) {
        return result;
    }
    return finish(cli,
                  lightq_group_seek(cli->client, cli->args.words[0], cli->args.words[1], partition, &to,
                                    cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &error),
                  &error, "moved");
}

/* What it has still to get counts as settled, up to the end of that moment. Only to the end: that never goes back. */
enum cli_exit cli_group_purge(struct cli *cli)
{
    struct lightq_error error;
    const struct lightq_start end = {.kind = LIGHTQ_START_END};
    const char *topic = cli->args.words[0];
    int32_t partition = cli_given(cli->args.partition) ? (int32_t)cli->args.partition : LIGHTQ_PARTITION_ANY;
    if (cli->args.to != NULL) {
        return cli_usage("--to does not go with --group: all is dropped that the group has still to get; lightq group "
                         "seek moves it elsewhere");
    }
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_group_seek(cli->client, topic, cli->args.group, partition, &end, cli_timeout_ms(cli, CHANGE_MS_DEFAULT),
                          &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_group_done(cli->json, "purged", topic, cli->args.group);
    return CLI_DONE;
}

typedef lightq_status (*change)(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                struct lightq_error *error);

static enum cli_exit run_change(struct cli *cli, change run, const char *what)
{
    struct lightq_error error;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    return finish(
        cli, run(cli->client, cli->args.words[0], cli->args.words[1], cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &error),
        &error, what);
}

enum cli_exit cli_group_pause(struct cli *cli)
{
    return run_change(cli, lightq_group_pause, "paused");
}

enum cli_exit cli_group_resume(struct cli *cli)
{
    return run_change(cli, lightq_group_resume, "resumed");
}

enum cli_exit cli_group_delete(struct cli *cli)
{
    return run_change(cli, lightq_group_delete, "deleted");
}

enum cli_exit cli_group_list(struct cli *cli)
{
    struct lightq_error error;
    struct lightq_group_list *list;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_group_list(cli->client, cli->args.words[0], cli_timeout_ms(cli, LOOK_MS_DEFAULT), &list, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_group_list(cli->json, cli->args.words[0], list);
    lightq_result_free(list);
    return CLI_DONE;
}

enum cli_exit cli_group_describe(struct cli *cli)
{
    struct lightq_error error;
    struct lightq_group_info *info;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_group_describe(cli->client, cli->args.words[0], cli->args.words[1], cli_timeout_ms(cli, LOOK_MS_DEFAULT),
                              &info, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_group(cli->json, cli->args.words[0], info);
    lightq_result_free(info);
    return CLI_DONE;
}
