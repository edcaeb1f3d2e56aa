/* client/cli/admin.c - the verbs that look at a cluster and change it. How results look is in print.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/cli/cli.h"
#include "client/cli/pace.h"
#include "client/cli/print.h"

#define CHANGE_MS_DEFAULT 60000 /* a thousand partitions want their leaders */
#define LOOK_MS_DEFAULT   10000
#define EQUAL_MS_DEFAULT  60000
#define EQUAL_EVERY_US    100000
#define US_PER_MS         1000u
#define RADIX             10

static enum cli_exit parse_node(const char *text, uint32_t *node)
{
    char *end;
    unsigned long number = strtoul(text, &end, RADIX);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number == 0 || number > LQ_NODES_MAX) {
        return cli_usage("'%s' is not a node's id: 1 to %d", text, LQ_NODES_MAX);
    }
    *node = (uint32_t)number;
    return CLI_DONE;
}

/* Splits "name=value" of --config in place of @memory. */
static enum cli_exit split(const char *pair, char *memory, size_t size, struct lightq_pair *out)
{
    size_t length = strlen(pair);
    char *equals;
    if (length >= size || strchr(pair, '=') == NULL) {
        return cli_usage("--config takes NAME=VALUE, and not '%s'", pair);
    }
    memcpy(memory, pair, length + 1);
    equals = strchr(memory, '=');
    *equals = '\0';
    *out = (struct lightq_pair){.key = memory, .value = equals + 1};
    return CLI_DONE;
}

/* What --partitions, --replicas, --config and --transient say. */
struct settings {
    struct lightq_pair config[CLI_LIST_MAX + 1]; /* and --transient */
    char memory[CLI_LIST_MAX][LQ_CONF_TEXT_BYTES_MAX];
    struct lightq_topic_options options;
};

static enum cli_exit take_settings(const struct cli *cli, struct settings *settings)
{
    enum cli_exit result = CLI_DONE;
    settings->options = (struct lightq_topic_options){.partitions = (uint32_t)cli_or(cli->args.partitions, 0),
                                                      .replicas = (uint32_t)cli_or(cli->args.replicas, 0),
                                                      .config = settings->config,
                                                      .config_count = cli->args.config.count};
    for (size_t i = 0; result == CLI_DONE && i < settings->options.config_count; i++) {
        result =
            split(cli->args.config.items[i], settings->memory[i], sizeof settings->memory[i], &settings->config[i]);
    }
    if (cli->args.transient) {
        settings->config[settings->options.config_count++] = (struct lightq_pair){.key = "transient", .value = "true"};
    }
    if (result == CLI_DONE && (cli->args.partitions == 0 || cli->args.replicas == 0)) {
        result = cli_usage("--partitions and --replicas are at least 1");
    }
    return result;
}

static enum cli_exit create(struct cli *cli, const struct lightq_topic_options *options)
{
    struct lightq_error error;
    const char *name = cli->args.words[0];
    if (lightq_topic_create(cli->client, name, options, cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_done(cli->json, "created", "topic", name);
    return CLI_DONE;
}

static enum cli_exit alter(struct cli *cli, const struct lightq_topic_options *options)
{
    struct lightq_error error;
    const char *name = cli->args.words[0];
    uint32_t partitions;
    if (lightq_topic_alter(cli->client, name, options, cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &partitions, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_altered(cli->json, name, partitions);
    return CLI_DONE;
}

/* Connects and does @change with what the command line says. */
static enum cli_exit with_settings(struct cli *cli,
                                   enum cli_exit (*change)(struct cli *cli, const struct lightq_topic_options *options))
{
    struct settings *settings = malloc(sizeof *settings);
    enum cli_exit result =
        settings != NULL ? take_settings(cli, settings) : cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    if (result == CLI_DONE) {
        result = cli_connect(cli, NULL);
    }
    if (result == CLI_DONE) {
        result = change(cli, &settings->options);
    }
    free(settings);
    return result;
}

enum cli_exit cli_topic_create(struct cli *cli)
{
    return with_settings(cli, create);
}

enum cli_exit cli_topic_alter(struct cli *cli)
{
    if (cli->args.config.count == 0 && !cli_given(cli->args.partitions)) {
        return cli_usage("lightq topic alter needs --config NAME=VALUE or --partitions P");
    }
    return with_settings(cli, alter);
}

/* Drops the messages of one partition. */
static enum cli_exit purge(struct cli *cli, int32_t partition, const struct lightq_start *to)
{
    const char *name = cli->args.words[0];
    struct lightq_error error;
    struct lightq_purged purged;
    if (lightq_partition_purge(cli->client, name, partition, to, cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &purged,
                               &error) != LIGHTQ_OK) {
        return cli_fail_with(error.status, "partition %s/%d: %s", name, partition, error.text);
    }
    print_purged(cli->json, name, partition, &purged);
    return CLI_DONE;
}

enum cli_exit cli_topic_purge(struct cli *cli)
{
    struct lightq_start to;
    struct lightq_error error;
    int32_t count = 0;
    bool one = cli_given(cli->args.partition);
    if (cli->args.group != NULL) {
        return cli_group_purge(cli);
    }
    enum cli_exit result = cli_parse_place("to", cli->args.to != NULL ? cli->args.to : "end", &to);
    if (result == CLI_DONE && to.kind == LIGHTQ_START_OFFSET && !one) {
        result = cli_usage("an offset is one of a partition: --to OFFSET goes with --partition P");
    }
    result = result == CLI_DONE ? cli_connect(cli, NULL) : result;
    if (result != CLI_DONE || one) {
        return result != CLI_DONE ? result : purge(cli, (int32_t)cli->args.partition, &to);
    }
    if (lightq_partition_count(cli->client, cli->args.words[0], cli_timeout_ms(cli, LOOK_MS_DEFAULT), &count, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error);
    }
    for (int32_t i = 0; i < count; i++) { /* those that can be, also when one cannot */
        enum cli_exit purged = purge(cli, i, &to);
        result = purged != CLI_DONE ? purged : result;
    }
    return result;
}

enum cli_exit cli_topic_list(struct cli *cli)
{
    struct lightq_error error;
    struct lightq_topic_list *list;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_topic_list(cli->client, cli_timeout_ms(cli, LOOK_MS_DEFAULT), &list, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_topic_list(cli->json, list);
    lightq_result_free(list);
    return CLI_DONE;
}

/* All replicas answer, and show one digest at one end. */
static bool is_equal(const struct lightq_topic_info *info)
{
    for (size_t i = 0; i < info->partition_count; i++) {
        const struct lightq_partition_info *partition = &info->partitions[i];
        if (partition->replica_count != info->replica_count) {
            return false; /* one is coming or going */
        }
        for (size_t j = 0; j < partition->replica_count; j++) {
            const struct lightq_replica_info *replica = &partition->replicas[j], *first = &partition->replicas[0];
            if (!replica->online || replica->digest != first->digest ||
                replica->digest_offset != first->digest_offset) {
                return false;
            }
        }
    }
    return true;
}

/* --wait-equal: describes again and again. The last description is printed whatever it says. */
static enum cli_exit wait_equal(struct cli *cli)
{
    const char *name = cli->args.words[0];
    uint64_t until_us = pace_now_us() + (uint64_t)cli_timeout_ms(cli, EQUAL_MS_DEFAULT) * US_PER_MS;
    struct lightq_topic_info *info = NULL;
    struct lightq_error error = {.status = LIGHTQ_OK};
    bool equal = false;
    while (!equal && pace_now_us() < until_us) {
        struct lightq_topic_info *next;
        lightq_status status = lightq_topic_describe(cli->client, name, LOOK_MS_DEFAULT, &next, &error);
        if (status == LIGHTQ_OK) {
            lightq_result_free(info);
            info = next;
            equal = is_equal(info);
        } else if (!lightq_status_retriable(status)) {
            break;
        }
        if (!equal) {
            pace_wait(-1, pace_now_us() + EQUAL_EVERY_US);
        }
    }
    if (info == NULL) {
        return error.status != LIGHTQ_OK ? cli_fail(&error) : cli_usage("--timeout is too short");
    }
    print_topic(cli->json, info);
    lightq_result_free(info);
    return equal ? CLI_DONE : cli_fail_with(LIGHTQ_ETIMEDOUT, "the replicas of topic %s are not equal", name);
}

enum cli_exit cli_topic_describe(struct cli *cli)
{
    struct lightq_error error;
    struct lightq_topic_info *info;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (cli->args.wait_equal) {
        return wait_equal(cli);
    }
    if (lightq_topic_describe(cli->client, cli->args.words[0], cli_timeout_ms(cli, LOOK_MS_DEFAULT), &info, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_topic(cli->json, info);
    lightq_result_free(info);
    return CLI_DONE;
}

enum cli_exit cli_topic_delete(struct cli *cli)
{
    struct lightq_error error;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    const char *name = cli->args.words[0];
    if (lightq_topic_delete(cli->client, name, cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_done(cli->json, "deleted", "topic", name);
    return CLI_DONE;
}

/* The details of every topic in @list; one that was deleted meanwhile is left out. */
static enum cli_exit describe_all(struct cli *cli, const struct lightq_topic_list *list,
                                  struct lightq_topic_info **topics, size_t *count)
{
    struct lightq_error error;
    for (size_t i = 0; i < list->count; i++) {
        lightq_status status = lightq_topic_describe(cli->client, list->topics[i].name,
                                                     cli_timeout_ms(cli, LOOK_MS_DEFAULT), &topics[*count], &error);
        if (status == LIGHTQ_OK) {
            (*count)++;
        } else if (status != LIGHTQ_ENOTFOUND) {
            return cli_fail(&error);
        }
    }
    return CLI_DONE;
}

static enum cli_exit print_status(struct cli *cli, const struct lightq_cluster_info *info)
{
    struct lightq_error error;
    struct lightq_topic_list *list;
    size_t count = 0;
    if (lightq_topic_list(cli->client, cli_timeout_ms(cli, LOOK_MS_DEFAULT), &list, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    struct lightq_topic_info **topics = calloc(list->count + 1, sizeof(struct lightq_topic_info *));
    enum cli_exit result =
        topics != NULL ? describe_all(cli, list, topics, &count) : cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    if (result == CLI_DONE) {
        print_cluster(cli->json, info, topics, count);
    }
    for (size_t i = 0; i < count; i++) {
        lightq_result_free(topics[i]);
    }
    free(topics);
    lightq_result_free(list);
    return result;
}

enum cli_exit cli_cluster_status(struct cli *cli)
{
    struct lightq_error error;
    struct lightq_cluster_info *info;
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_cluster_status(cli->client, cli_timeout_ms(cli, LOOK_MS_DEFAULT), &info, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    result = print_status(cli, info);
    lightq_result_free(info);
    return result;
}

enum cli_exit cli_node_replace(struct cli *cli)
{
    struct lightq_error error;
    uint32_t old_node = 0, new_node = 0, replicas = 0;
    enum cli_exit result = parse_node(cli->args.words[0], &old_node);
    if (result == CLI_DONE) {
        result = parse_node(cli->args.words[1], &new_node);
    }
    if (result == CLI_DONE) {
        result = cli_connect(cli, NULL);
    }
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_node_replace(cli->client, old_node, new_node, cli->args.replace_live ? LIGHTQ_REPLACE_LIVE_NODE : 0,
                            cli_timeout_ms(cli, CHANGE_MS_DEFAULT), &replicas, &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_replaced(cli->json, old_node, new_node, replicas);
    return CLI_DONE;
}

enum cli_exit cli_partition_transfer(struct cli *cli)
{
    struct lightq_error error;
    char topic[LQ_NAME_BYTES_MAX + 1];
    const char *word = cli->args.words[0];
    const char *slash = strrchr(word, '/');
    char *end;
    unsigned long partition = slash != NULL ? strtoul(slash + 1, &end, RADIX) : 0;
    if (slash == NULL || slash[1] < '0' || slash[1] > '9' || *end != '\0' || partition >= LQ_PARTITIONS_MAX ||
        (size_t)(slash - word) >= sizeof topic) {
        return cli_usage("'%s' is not TOPIC/PARTITION, for example orders/0", word);
    }
    uint32_t node = 0;
    if (cli->args.to == NULL) {
        return cli_usage("--to NODE is missing");
    }
    if (parse_node(cli->args.to, &node) != CLI_DONE) {
        return CLI_USAGE;
    }
    memcpy(topic, word, (size_t)(slash - word));
    topic[slash - word] = '\0';
    enum cli_exit result = cli_connect(cli, NULL);
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_partition_transfer(cli->client, topic, (int32_t)partition, node, cli_timeout_ms(cli, LOOK_MS_DEFAULT),
                                  &error) != LIGHTQ_OK) {
        return cli_fail(&error);
    }
    print_transferred(cli->json, topic, (uint32_t)partition, node);
    return CLI_DONE;
}
