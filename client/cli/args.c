/* client/cli/args.c - the command line's grammar: options and verbs are rows of two tables, from which parsing and
 * --help come. Called by main.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/conf.h"
#include "client/base/limits.h"
#include "client/cli/cli.h"
#include "client/lib/options.h"

#define HELP_COLUMN  24
#define RATE_MAX     100000000u
#define TIMEOUT_MAX  86400000u
#define NAME_MAX_CLI 64

enum kind { TEXT, NUMBER, SWITCH, LIST };

struct option_row {
    const char *name;
    enum kind kind;
    size_t field;
    uint64_t most; /* NUMBER */
    const char *argument;
    const char *sentence;
};

#define AT(member) offsetof(struct cli_args, member)

static const struct option_row rows[] = {
    {"servers", TEXT, AT(servers), 0, "LIST", "host:port,... to ask first; or $LIGHTQ_SERVERS; default 127.0.0.1:5600"},
    {"format", TEXT, AT(format), 0, "text|json", "how results are printed (text)"},
    {"set", LIST, AT(settings), 0, "NAME=VALUE", "a setting of the client; --help-settings lists them"},
    {"help", SWITCH, AT(help), 0, NULL, "prints this"},
    {"partitions", NUMBER, AT(partitions), LQ_PARTITIONS_MAX, "P", "number of partitions (1)"},
    {"replicas", NUMBER, AT(replicas), LQ_REPLICAS_MAX, "R", "copies of each partition (3, or the number of nodes)"},
    {"config", LIST, AT(config), 0, "NAME=VALUE", "a setting of the topic; may be given several times"},
    {"transient", SWITCH, AT(transient), 0, NULL,
     "held in memory only, and never stored; nodes that have no such topics refuse it"},
    {"count", NUMBER, AT(count), UINT64_MAX - 1, "N", "number of messages"},
    {"size", NUMBER, AT(size), LQ_MESSAGE_BYTES_MAX, "B", "bytes of each message (100)"},
    {"file", TEXT, AT(file), 0, "F", "send the lines of this file"},
    {"key", TEXT, AT(key), 0, "K", "the key of every message"},
    {"expected-offset", NUMBER, AT(expected_offset), INT64_MAX, "O",
     "stored only if the first message gets this offset, and each of the others the one behind"},
    {"message-id", TEXT, AT(message_id), 0, "ID",
     "not stored when a message of this id was, within dedup.window; further messages are ID-1, ID-2, ..."},
    {"compression", TEXT, AT(compression), 0, "none|lz4|zstd", "how batches are compressed (none)"},
    {"rate", NUMBER, AT(rate), RATE_MAX, "PER_S", "messages per second; without it as many as the window lets"},
    {"spread", SWITCH, AT(spread), 0, NULL, "one message in flight in each partition"},
    {"consumers", NUMBER, AT(consumers), CLI_CONSUMERS_MAX, "N", "consumers of the group, each with a client (2)"},
    {"window", NUMBER, AT(window), UINT32_MAX, "N", "messages without an answer at a time"},
    {"acked", TEXT, AT(acked), 0, "FILE",
     "write a line per stored message: cluster topic partition offset producer sequence term batch_crc"},
    {"timeout", NUMBER, AT(timeout_ms), TIMEOUT_MAX, "MS", "how long to try"},
    {"partition", NUMBER, AT(partition), LQ_PARTITIONS_MAX - 1, "P", "only this partition"},
    {"from", TEXT, AT(from), 0, "PLACE",
     "where to begin: start, end, an offset, or a time as 2026-01-31T23:59:59Z (start)"},
    {"until-end", SWITCH, AT(until_end), 0, NULL, "stop where the log ended when this began"},
    {"print", SWITCH, AT(print), 0, NULL, "print the messages, a line each (json: an object each, as peek does)"},
    {"log", TEXT, AT(log), 0, "FILE",
     "write a line per message: topic partition offset producer sequence payload_crc deliveries"},
    {"history", TEXT, AT(history), 0, "FILE",
     "write what was tried and its outcome, or what was read, with times, for lightq-check"},
    {"wait-equal", SWITCH, AT(wait_equal), 0, NULL, "first wait until all replicas hold the same"},
    {"yes-replace-live-node", SWITCH, AT(replace_live), 0, NULL,
     "also when OLD is up and sound: its data is thrown away, and what no other replica has is lost"},
    {"to", TEXT, AT(to), 0, "WHERE",
     "the node that shall lead; of a group, or what stays in a purge: start, end, an offset, or a time as "
     "2026-01-31T23:59:59Z"},
    {"mode", TEXT, AT(mode), 0, "pipeline|subscriber",
     "each message goes to one consumer, which settles it; or to all, and the position is committed"},
    {"exclusive", SWITCH, AT(exclusive), 0, NULL, "one consumer is active, the others stand by"},
    {"key-ordered", SWITCH, AT(key_ordered), 0, NULL,
     "messages of one key go to one consumer at a time, in order; one that fails keeps back its key only"},
    {"ack-wait", NUMBER, AT(ack_wait_ms), LQ_CGROUP_ACK_WAIT_MS_MAX, "MS",
     "how long a consumer has for a message (30000)"},
    {"max-deliver", NUMBER, AT(max_deliver), UINT32_MAX - 1, "N",
     "failed deliveries that make a message a dead letter; 0: no bound (5)"},
    {"max-unsettled", NUMBER, AT(max_unsettled), LQ_CGROUP_UNSETTLED_MAX, "N",
     "messages of a partition that may be delivered and not settled (100000)"},
    {"backoff", TEXT, AT(backoff), 0, "MS,MS,...",
     "the delay after the 1st, 2nd, ... failure, the last one for all that follow (none)"},
    {"group", TEXT, AT(group), 0, "G",
     "as one of this consumer group, from where it is; of a purge or explain: only this group"},
    {"ack", TEXT, AT(ack), 0, "auto|none|nack",
     "with --group: settle or commit what was read, leave it, or give it back as failed (auto)"},
    {"idle-exit", NUMBER, AT(idle_exit_ms), TIMEOUT_MAX, "MS", "stop when no message came for so long"},
};

#define GLOBAL_OPTIONS "servers format set help"

static const struct cli_verb verbs[] = {
    {"topic create", "NAME", 1, "partitions replicas config transient timeout", "makes a topic", cli_topic_create},
    {"topic list", "", 0, "timeout", "names the topics", cli_topic_list},
    {"topic describe", "NAME", 1, "wait-equal timeout", "shows a topic's partitions and replicas", cli_topic_describe},
    {"topic alter", "NAME", 1, "config partitions timeout",
     "changes settings of a topic, or gives it more partitions; keys then go to other partitions", cli_topic_alter},
    {"topic purge", "NAME", 1, "partition to group timeout",
     "drops all messages, or those below --to, for good; with --group only what that group has still to get",
     cli_topic_purge},
    {"topic delete", "NAME", 1, "timeout", "deletes a topic and its messages for good", cli_topic_delete},
    {"cluster status", "", 0, "timeout", "shows nodes, partitions and what is not well", cli_cluster_status},
    {"node replace", "OLD NEW", 2, "yes-replace-live-node timeout",
     "rebuilds on node NEW (it may be OLD) all that OLD had; refused while OLD is up", cli_node_replace},
    {"partition transfer-leader", "TOPIC/P", 1, "to timeout", "hands a partition's leadership to another node",
     cli_partition_transfer},
    {"produce", "TOPIC", 1,
     "count size file key partition expected-offset message-id compression rate window acked history timeout",
     "sends messages: --count numbered ones, the lines of --file, or those of standard input", cli_produce},
    {"group create", "TOPIC GROUP", 2,
     "mode from exclusive key-ordered ack-wait max-deliver max-unsettled backoff timeout",
     "makes a consumer group in every partition", cli_group_create},
    {"group list", "TOPIC", 1, "timeout", "names a topic's consumer groups", cli_group_list},
    {"group describe", "TOPIC GROUP", 2, "timeout", "shows where a group is in each partition, and its consumers",
     cli_group_describe},
    {"group alter", "TOPIC GROUP", 2, "ack-wait max-deliver max-unsettled backoff timeout", "changes how a group works",
     cli_group_alter},
    {"group seek", "TOPIC GROUP", 2, "to partition timeout", "moves a group: what is behind is delivered (again)",
     cli_group_seek},
    {"group pause", "TOPIC GROUP", 2, "timeout", "stops delivering to a group", cli_group_pause},
    {"group resume", "TOPIC GROUP", 2, "timeout", "delivers to it again", cli_group_resume},
    {"group delete", "TOPIC GROUP", 2, "timeout", "deletes a group; the messages stay", cli_group_delete},
    {"consume", "TOPIC", 1, "partition from count until-end group ack idle-exit print log history timeout",
     "reads messages; --timeout gives up when none comes for so long", cli_consume},
    {"dlq list", "TOPIC GROUP", 2, "partition count timeout",
     "shows the dead letters of a group that were not moved back (10 of them)", cli_dlq_list},
    {"dlq redrive", "TOPIC GROUP", 2, "count timeout",
     "moves dead letters back into the partitions they come from: all of them, or --count", cli_dlq_redrive},
    {"peek", "TOPIC", 1, "partition from count timeout",
     "shows messages that are there (10 of them), with all about them; nobody's place changes", cli_peek},
    {"explain", "TOPIC[/PARTITION]", 1, "group timeout",
     "says why a topic's groups are given nothing, and what keeps messages from being dropped", cli_explain},
    {"verify", "", 0, "acked timeout",
     "proves that every message of a file of produce --acked is stored with its checksum, or says which is not",
     cli_verify},
    {"bench produce", "TOPIC", 1, "count size compression window rate spread partition timeout",
     "measures producing; with --rate in an open loop, timed from when each message was due", cli_bench_produce},
    {"bench consume", "TOPIC", 1, "count partition timeout", "measures consuming from the start", cli_bench_consume},
    {"bench end-to-end", "TOPIC", 1, "count size compression window rate partition timeout",
     "measures producing and consuming together, from due to delivered", cli_bench_end_to_end},
    {"bench pipeline", "TOPIC", 1, "count size compression window rate consumers group partition timeout",
     "measures producing, consuming by a pipeline group and settling together; without --group by one made for it",
     cli_bench_pipeline},
};

#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

const struct cli_verb *cli_verb_at(size_t index)
{
    return index < VERB_COUNT ? &verbs[index] : NULL;
}

const struct cli_verb *cli_find_verb(char *const *words, size_t count, size_t *used)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        const char *blank = strchr(verbs[i].name, ' ');
        size_t first_size = blank != NULL ? (size_t)(blank - verbs[i].name) : strlen(verbs[i].name);
        if (count == 0 || strlen(words[0]) != first_size || strncmp(words[0], verbs[i].name, first_size) != 0) {
            continue;
        }
        if (blank == NULL || (count > 1 && strcmp(words[1], blank + 1) == 0)) {
            *used = blank == NULL ? 1 : 2;
            return &verbs[i];
        }
    }
    return NULL;
}

void cli_args_init(struct cli_args *args)
{
    *args = (struct cli_args){.servers = NULL};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].kind == NUMBER) {
            *(uint64_t *)(void *)((char *)args + rows[i].field) = UINT64_MAX;
        }
    }
}

/* ---- parsing */

/* Whether the blank-separated @names hold the @size bytes of @name. */
static bool is_among(const char *names, const char *name, size_t size)
{
    for (const char *at = names; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (length == size && strncmp(at, name, size) == 0) {
            return true;
        }
        at += length + (at[length] == ' ');
    }
    return false;
}

static const struct option_row *find_row(const struct cli_verb *verb, const char *name, size_t size)
{
    if (!is_among(GLOBAL_OPTIONS, name, size) && (verb == NULL || !is_among(verb->options, name, size))) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].name) == size && strncmp(rows[i].name, name, size) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool set_number(struct cli_args *args, const struct option_row *row, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > row->most) {
        cli_usage("--%s takes a number up to %" PRIu64 ", and not '%s'", row->name, row->most, text);
        return false;
    }
    *(uint64_t *)(void *)((char *)args + row->field) = number;
    return true;
}

static bool set_option(struct cli_args *args, const struct option_row *row, const char *value)
{
    void *field = (char *)args + row->field;
    struct cli_list *list = field;
    switch (row->kind) {
    case SWITCH:
        *(bool *)field = true;
        return true;
    case TEXT:
        *(const char **)field = value;
        return true;
    case NUMBER:
        return set_number(args, row, value);
    case LIST:
        if (list->count == CLI_LIST_MAX) {
            cli_usage("--%s is given more than %d times", row->name, CLI_LIST_MAX);
            return false;
        }
        list->items[list->count++] = value;
        return true;
    }
    return false;
}

/* Takes argv[at], an option, and its value. Returns how many arguments that were, or -1. */
static int take_option(struct cli_args *args, const struct cli_verb *verb, int at, int argc, char *const *argv)
{
    const char *name = argv[at] + 2;
    size_t size = strcspn(name, "=");
    bool short_help = strcmp(argv[at], "-h") == 0;
    const struct option_row *row = short_help                        ? find_row(verb, "help", strlen("help"))
                                   : strncmp(argv[at], "--", 2) == 0 ? find_row(verb, name, size)
                                                                     : NULL;
    if (row == NULL) {
        cli_usage("no option %s here; lightq %s%s--help lists them", argv[at], verb != NULL ? verb->name : "",
                  verb != NULL ? " " : "");
        return -1;
    }
    const char *value = !short_help && name[size] == '=' ? name + size + 1 : NULL;
    if (row->kind == SWITCH) {
        if (value != NULL) {
            cli_usage("--%s takes no value", row->name);
            return -1;
        }
        return set_option(args, row, NULL) ? 1 : -1;
    }
    int taken = 1;
    if (value == NULL) {
        if (at + 1 >= argc) {
            cli_usage("--%s needs a value: %s", row->name, row->argument);
            return -1;
        }
        value = argv[at + 1];
        taken = 2;
    }
    return set_option(args, row, value) ? taken : -1;
}

static bool check_words(const struct cli_args *args, const struct cli_verb *verb)
{
    if (!args->help && args->word_count < verb->word_count) {
        cli_usage("lightq %s needs %s", verb->name, verb->words);
        return false;
    }
    return true;
}

int cli_parse(struct cli_args *args, const struct cli_verb *verb, int argc, char *const *argv)
{
    int at = 0;
    bool only_words = false;
    while (at < argc) {
        if (!only_words && strcmp(argv[at], "--") == 0) {
            only_words = true;
            at++;
            continue;
        }
        if (!only_words && argv[at][0] == '-' && argv[at][1] != '\0') {
            int taken = take_option(args, verb, at, argc, argv);
            if (taken < 0) {
                return -1;
            }
            at += taken;
            continue;
        }
        if (verb == NULL) {
            return at; /* the verb begins */
        }
        if (args->word_count >= verb->word_count) {
            cli_usage("lightq %s takes %s, and not '%s' too", verb->name,
                      verb->word_count > 0 ? verb->words : "no more words", argv[at]);
            return -1;
        }
        args->words[args->word_count++] = argv[at++];
    }
    return verb == NULL || check_words(args, verb) ? at : -1;
}

/* ---- help and manual */

/* Text for a manual page: a dash there is a minus. */
static void print_roff(const char *text)
{
    for (; *text != '\0'; text++) {
        printf("%s%c", *text == '-' || *text == '\\' ? "\\" : "", *text);
    }
}

static void print_manual_rows(const char *names)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!is_among(names, rows[i].name, strlen(rows[i].name))) {
            continue;
        }
        printf(".TP\n\\fB\\-\\-");
        print_roff(rows[i].name);
        printf("\\fR");
        if (rows[i].argument != NULL) {
            printf(" \\fI");
            print_roff(rows[i].argument);
            printf("\\fR");
        }
        printf("\n");
        print_roff(rows[i].sentence);
        printf("\n");
    }
}

void cli_print_manual_options(void)
{
    print_manual_rows(GLOBAL_OPTIONS);
}

void cli_print_manual_verb(const struct cli_verb *verb)
{
    printf(".SS lightq %s %s\n", verb->name, verb->words);
    print_roff(verb->sentence);
    printf(".\n");
    print_manual_rows(verb->options);
}

static void print_row(const struct option_row *row)
{
    char left[NAME_MAX_CLI];
    snprintf(left, sizeof left, "--%s%s%s", row->name, row->argument != NULL ? " " : "",
             row->argument != NULL ? row->argument : "");
    printf("  %-*s %s\n", HELP_COLUMN, left, row->sentence);
}

static void print_rows(const char *names)
{
    for (const char *at = names; *at != '\0';) {
        size_t length = strcspn(at, " ");
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            if (strlen(rows[i].name) == length && strncmp(rows[i].name, at, length) == 0) {
                print_row(&rows[i]);
            }
        }
        at += length + (at[length] == ' ');
    }
}

void cli_print_help(void)
{
    printf("lightq - works with a LightQ cluster\n\nusage: lightq [OPTION]... VERB ...\n\n");
    for (size_t i = 0; i < VERB_COUNT; i++) {
        char left[NAME_MAX_CLI];
        snprintf(left, sizeof left, "%s %s", verbs[i].name, verbs[i].words);
        printf("  %-33s %s\n", left, verbs[i].sentence);
    }
    printf("\nlightq VERB --help lists a verb's options. Options of all verbs:\n");
    print_rows(GLOBAL_OPTIONS);
    printf("\nExit code: 0 done, 1 failed, 2 wrong usage.\n");
}

void cli_print_verb_help(const struct cli_verb *verb)
{
    printf("lightq %s - %s\n\nusage: lightq %s %s%s[OPTION]...\n\n", verb->name, verb->sentence, verb->name,
           verb->words, verb->words[0] != '\0' ? " " : "");
    print_rows(verb->options);
    print_rows(GLOBAL_OPTIONS);
}
