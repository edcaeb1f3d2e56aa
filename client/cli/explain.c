/* client/cli/explain.c - explain: why a group is given nothing, and what keeps messages from being dropped, a sentence
 * each, with the command that helps. It asks what group describe and topic describe ask, and changes nothing. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/cli/cli.h"
#include "client/cli/print.h"

#define LOOK_MS_DEFAULT 10000
#define TEXT_BYTES      1024
#define MS_PER_S        1000.0
#define DECIMAL         10
#define ALL             (-1)

/* What is said of one group in one partition, or of one partition (group NULL). */
struct sentence {
    char text[TEXT_BYTES];
    char command[TEXT_BYTES]; /* "": there is none to give */
};

struct explaining {
    struct cli *cli;
    char topic[LQ_NAME_BYTES_MAX + 1];
    int32_t partition; /* ALL, or one */
    struct lightq_topic_info *info;
};

static void say(char *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(char *to, const char *format, ...)
{
    size_t used = strlen(to);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to + used, TEXT_BYTES - used, format, arguments);
    va_end(arguments);
}

/* "TOPIC" or "TOPIC/PARTITION". */
static enum cli_exit parse_place(const char *word, struct explaining *on)
{
    const char *slash = strchr(word, '/');
    size_t size = slash != NULL ? (size_t)(slash - word) : strlen(word);
    on->partition = ALL;
    if (size == 0 || size >= sizeof on->topic) {
        return cli_usage("'%s' is no TOPIC or TOPIC/PARTITION", word);
    }
    memcpy(on->topic, word, size);
    on->topic[size] = '\0';
    if (slash != NULL) {
        char *end;
        unsigned long number = strtoul(slash + 1, &end, DECIMAL);
        if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || number >= LQ_PARTITIONS_MAX) {
            return cli_usage("'%s' is no TOPIC or TOPIC/PARTITION", word);
        }
        on->partition = (int32_t)number;
    }
    return CLI_DONE;
}

static bool is_asked(const struct explaining *on, uint32_t partition)
{
    return on->partition == ALL || (uint32_t)on->partition == partition;
}

static void print_sentence(const struct explaining *on, uint32_t partition, const char *group, const char *state,
                           const struct sentence *said)
{
    if (on->cli->json) {
        json_t *object = json_pack("{s:s, s:I, s:s, s:s, s:s}", "topic", on->topic, "partition", (json_int_t)partition,
                                   "state", state, "reason", said->text, "command", said->command);
        if (object != NULL) {
            json_object_set_new(object, "group", group != NULL ? json_string(group) : json_null());
        }
        print_object(object);
        return;
    }
    printf("%s/%u%s%s: %s%s%s\n", on->topic, partition, group != NULL ? " group " : "", group != NULL ? group : "",
           said->text, said->command[0] != '\0' ? "; try: " : "", said->command);
}

/* ---- delivering */

static void say_who_holds(const struct lightq_group_partition *at, struct sentence *said)
{
    const struct lightq_group_consumer *most = NULL;
    for (size_t i = 0; i < at->consumer_count; i++) {
        if (at->consumers[i].held > 0 && (most == NULL || at->consumers[i].held > most->held)) {
            most = &at->consumers[i];
        }
    }
    if (most != NULL) {
        say(said->text, ", %" PRIu64 " of %" PRIu64 " held by %s at %s", most->held, at->unsettled, most->client_id,
            most->host);
    }
}

static void say_command(const struct explaining *on, const char *group, const struct lightq_group_info *info,
                        const struct lightq_group_partition *at, struct sentence *said)
{
    if (strcmp(at->state, "paused") == 0) {
        say(said->command, "lightq group resume %s %s", on->topic, group);
    } else if (strcmp(at->state, "window-full") == 0) {
        uint64_t twice = (uint64_t)info->options.max_unsettled * 2;
        say(said->command, "lightq group alter %s %s --max-unsettled %" PRIu64, on->topic, group,
            twice < LQ_CGROUP_UNSETTLED_MAX ? twice : LQ_CGROUP_UNSETTLED_MAX);
    } else if (strcmp(at->state, "no-consumer") == 0 || strcmp(at->state, "no-credit") == 0) {
        say(said->command, "lightq consume %s --group %s", on->topic, group);
    }
}

static void explain_group(const struct explaining *on, const struct lightq_group_info *info,
                          const struct lightq_group_partition *at)
{
    struct sentence said = {.text = ""};
    const char *state = at->state;
    if (at->status != LIGHTQ_OK) {
        say(said.text, "%s", at->reason[0] != '\0' ? at->reason : lightq_status_text(at->status));
        say(said.command, "lightq cluster status");
        state = lightq_status_name(at->status);
    } else if (info->options.mode == LIGHTQ_GROUP_SUBSCRIBER && at->position < at->start) {
        say(said.text,
            "it is at offset %" PRId64 ", and the first message that is there is %" PRId64 ": it missed %" PRId64,
            at->position, at->start, at->start - at->position);
        say(said.command, "lightq group seek %s %s --partition %u --to start", on->topic, info->name, at->partition);
        state = "behind-trim-point";
    } else {
        say(said.text, "%s", at->reason);
        say_who_holds(at, &said);
        if (at->lag > 0) {
            say(said.text, ", %" PRIu64 " not settled, the last progress %.1f s ago", at->lag,
                (double)at->lag_ms / MS_PER_S);
        }
        if (at->missed > 0) {
            say(said.text, ", %" PRIu64 " trimmed away before they were settled", at->missed);
        }
        if (at->dead_open > 0) {
            say(said.text, ", %" PRIu64 " dead letters on their way", at->dead_open);
        }
        say_command(on, info->name, info, at, &said);
    }
    print_sentence(on, at->partition, info->name, state, &said);
}

/* ---- dropping */

static const char *retention_of(const struct lightq_topic_info *info)
{
    for (size_t i = 0; i < info->config_count; i++) {
        if (strcmp(info->config[i].key, "retention") == 0) {
            return info->config[i].value;
        }
    }
    return "limits";
}

/* What keeps messages of @partition: the group that is furthest behind of those that count. */
static void explain_trim(const struct explaining *on, struct lightq_group_info *const *groups, size_t count,
                         uint32_t partition)
{
    struct sentence said = {.text = ""};
    const char *retention = retention_of(on->info);
    bool limits = strcmp(retention, "limits") == 0, queue = strcmp(retention, "workqueue") == 0;
    const struct lightq_group_info *holder = NULL;
    const struct lightq_group_partition *lowest = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct lightq_group_partition *at =
            partition < groups[i]->all_count ? &groups[i]->partitions[partition] : NULL;
        bool counts =
            limits ? at != NULL && at->dead_open > 0 : !queue || groups[i]->options.mode == LIGHTQ_GROUP_PIPELINE;
        if (at != NULL && at->status == LIGHTQ_OK && counts && (lowest == NULL || at->position < lowest->position)) {
            holder = groups[i];
            lowest = at;
        }
    }
    if (lowest == NULL) {
        say(said.text, "retention=%s: %s", retention,
            limits  ? "no group keeps anything; the limits alone say what is dropped"
            : queue ? "no pipeline group is there, so all is kept"
                    : "no group is there, so nothing is kept");
    } else if (lowest->position >= lowest->end) {
        say(said.text, "retention=%s: the groups have done with everything", retention);
    } else {
        say(said.text, "retention=%s: messages from offset %" PRId64 " on are kept for group %s%s", retention,
            lowest->position, holder->name, limits ? ", whose dead letters are on their way" : "");
        say(said.command, "lightq group describe %s %s", on->topic, holder->name);
    }
    print_sentence(on, partition, NULL, lowest != NULL && lowest->position < lowest->end ? "held" : "free", &said);
}

/* ---- */

static bool explain_leaders(const struct explaining *on)
{
    bool all_led = true;
    for (uint32_t i = 0; i < on->info->partition_count; i++) {
        if (is_asked(on, i) && on->info->partitions[i].leader == 0) {
            struct sentence said = {.text =
                                        "no leader: too few of its replicas are there, or an election is under way"};
            say(said.command, "lightq cluster status");
            print_sentence(on, i, NULL, "no-leader", &said);
            all_led = false;
        }
    }
    return all_led;
}

static void explain_all(const struct explaining *on, struct lightq_group_info *const *groups, size_t count)
{
    for (uint32_t i = 0; i < on->info->partition_count; i++) {
        for (size_t j = 0; is_asked(on, i) && j < count; j++) {
            if (i < groups[j]->all_count) {
                explain_group(on, groups[j], &groups[j]->partitions[i]);
            }
        }
        if (is_asked(on, i) && on->cli->args.group == NULL && on->info->partitions[i].leader != 0) {
            explain_trim(on, groups, count, i);
        }
    }
}

/* @names: of the groups. */
static enum cli_exit explain_groups(const struct explaining *on, const char *const *names, size_t count)
{
    struct lightq_error error;
    enum cli_exit result = CLI_DONE;
    struct lightq_group_info **groups = calloc(count + 1, sizeof(struct lightq_group_info *));
    size_t found = 0;
    if (groups == NULL) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    for (size_t i = 0; result == CLI_DONE && i < count; i++) {
        if (lightq_group_describe(on->cli->client, on->topic, names[i], cli_timeout_ms(on->cli, LOOK_MS_DEFAULT),
                                  &groups[found], &error) == LIGHTQ_OK) {
            found++;
        } else if (error.status != LIGHTQ_ENOTFOUND || on->cli->args.group != NULL) {
            result = cli_fail(&error);
        }
    }
    if (result == CLI_DONE) {
        explain_all(on, groups, found);
    }
    for (size_t i = 0; i < found; i++) {
        lightq_result_free(groups[i]);
    }
    free(groups);
    return result;
}

static enum cli_exit explain_listed(const struct explaining *on)
{
    struct lightq_error error;
    struct lightq_group_list *list;
    if (lightq_group_list(on->cli->client, on->topic, cli_timeout_ms(on->cli, LOOK_MS_DEFAULT), &list, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error);
    }
    const char **names = calloc(list->count + 1, sizeof(const char *));
    for (size_t i = 0; names != NULL && i < list->count; i++) {
        names[i] = list->groups[i].name;
    }
    enum cli_exit result =
        names != NULL ? explain_groups(on, names, list->count) : cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    free(names);
    lightq_result_free(list);
    return result;
}

enum cli_exit cli_explain(struct cli *cli)
{
    struct lightq_error error;
    struct explaining on = {.cli = cli};
    enum cli_exit result = parse_place(cli->args.words[0], &on);
    result = result == CLI_DONE ? cli_connect(cli, NULL) : result;
    if (result != CLI_DONE) {
        return result;
    }
    if (lightq_topic_describe(cli->client, on.topic, cli_timeout_ms(cli, LOOK_MS_DEFAULT), &on.info, &error) !=
        LIGHTQ_OK) {
        return cli_fail(&error);
    }
    if (on.partition != ALL && (uint32_t)on.partition >= on.info->partition_count) {
        result = cli_fail_with(LIGHTQ_ENOTFOUND, "topic %s has %u partitions", on.topic, on.info->partition_count);
    } else if (cli->args.group != NULL) {
        (void)explain_leaders(&on);
        result = explain_groups(&on, &cli->args.group, 1);
    } else {
        result = explain_leaders(&on) || on.partition == ALL ? explain_listed(&on) : CLI_DONE;
    }
    lightq_result_free(on.info);
    return result;
}
