/* node/options.c - see options.h. Flags are read with argp, the file with libinih; both end in lq_conf_set. */
#include "node/options.h"

#include <argp.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#define ENVIRONMENT_PREFIX "LIGHTQ_"
#define ENVIRONMENT_FILE   "LIGHTQ_CONFIG"
#define LINE_SHOWN_MAX     64
#define HEARTBEATS_MIN     3 /* in one election time-out, so that a lost one or two do no harm */

#define X(...) LQ_CONF_ROW(struct lq_options, __VA_ARGS__)
static const struct lq_conf_option rows[] = {LQ_OPTIONS_TABLE(X)};
#undef X
const struct lq_conf_table lq_options_table = LQ_CONF_TABLE("lightqd", rows);

/* Keys of argp for flags that have no letter, above all letters. */
enum { KEY_SET = 256, KEY_CONFIG, KEY_HELP, KEY_VERSION, KEY_MAN, KEY_DOCS, KEY_OPTION };

/* The flags that stand for an option of the table; their key is KEY_OPTION + place. */
static const char *const flag_names[] = {
    "data", "node.id", "seeds", "cluster.expect", "listen", "advertise", "peer.listen", "peer.advertise", "http"};
static const struct argp_option flags[] = {
    {.name = "data", .key = KEY_OPTION + 0, .arg = "DIR"},
    {.name = "node-id", .key = KEY_OPTION + 1, .arg = "N"},
    {.name = "seeds", .key = KEY_OPTION + 2, .arg = "HOST:PEERPORT,..."},
    {.name = "expect", .key = KEY_OPTION + 3, .arg = "N"},
    {.name = "listen", .key = KEY_OPTION + 4, .arg = "HOST:PORT"},
    {.name = "advertise", .key = KEY_OPTION + 5, .arg = "HOST:PORT"},
    {.name = "peer-listen", .key = KEY_OPTION + 6, .arg = "HOST:PORT"},
    {.name = "peer-advertise", .key = KEY_OPTION + 7, .arg = "HOST:PORT"},
    {.name = "http", .key = KEY_OPTION + 8, .arg = "HOST:PORT"},
    {.name = "config", .key = KEY_CONFIG, .arg = "FILE"},
    {.name = "set", .key = KEY_SET, .arg = "NAME=VALUE"},
    {.name = "help", .key = KEY_HELP},
    {.name = "version", .key = KEY_VERSION},
    {.name = "man", .key = KEY_MAN, .flags = OPTION_HIDDEN},
    {.name = "docs", .key = KEY_DOCS, .flags = OPTION_HIDDEN},
    {0},
};

/* Flags are seen twice: first for --config and what is asked for, then, after file and environment, for values. */
struct flag_reader {
    struct lq_options *options; /* NULL the first time */
    const char *file;
    enum lq_options_action action;
    int behind; /* the word behind the one that failed */
    struct lq_err *err;
    lightq_status status;
};

static error_t on_flag(int key, char *value, struct argp_state *state)
{
    struct flag_reader *reader = state->input;
    switch (key) {
    case KEY_CONFIG:
        reader->file = value;
        return 0;
    case KEY_HELP:
        reader->action = LQ_OPTIONS_HELP;
        return 0;
    case KEY_VERSION:
        reader->action = LQ_OPTIONS_VERSION;
        return 0;
    case KEY_MAN:
        reader->action = LQ_OPTIONS_MAN;
        return 0;
    case KEY_DOCS:
        reader->action = LQ_OPTIONS_DOCS;
        return 0;
    case ARGP_KEY_ERROR:
        reader->behind = state->next;
        return 0;
    case ARGP_KEY_ARG:
        reader->status = lq_err_set(reader->err, LIGHTQ_EINVAL, "\"%.*s\" is not a flag: lightqd takes flags only",
                                    LINE_SHOWN_MAX, value);
        return EINVAL;
    default:
        break;
    }
    const int flag_count = sizeof flag_names / sizeof flag_names[0];
    if (key != KEY_SET && (key < KEY_OPTION || key >= KEY_OPTION + flag_count)) {
        return ARGP_ERR_UNKNOWN;
    }
    if (reader->options == NULL) {
        return 0;
    }
    reader->status = key == KEY_SET ? lq_conf_set_pair(&lq_options_table, reader->options, value, reader->err)
                                    : lq_conf_set(&lq_options_table, reader->options, flag_names[key - KEY_OPTION],
                                                  value, reader->err);
    return reader->status == LIGHTQ_OK ? 0 : EINVAL;
}

static lightq_status read_flags(struct flag_reader *reader, int argc, char **argv)
{
    static const struct argp parser = {.options = flags, .parser = on_flag};
    reader->status = LIGHTQ_OK;
    error_t error = argp_parse(&parser, argc, argv, ARGP_SILENT | ARGP_IN_ORDER, NULL, reader);
    if (error == 0 || reader->status != LIGHTQ_OK) {
        return reader->status;
    }
    if (error == ENOMEM) {
        return lq_err_set(reader->err, LIGHTQ_ENOMEM, "out of memory");
    }
    const char *word = reader->behind >= 1 && reader->behind <= argc ? argv[reader->behind - 1] : "";
    return lq_err_set(reader->err, LIGHTQ_EINVAL, "%.*s: no such flag, or its value is missing (lightqd --help)",
                      LINE_SHOWN_MAX, word);
}

/* What libinih hands through while it reads a file. */
struct file_reader {
    struct lq_options *options;
    const char *path;
    FILE *stream;
    struct lq_err err; /* of the first line that failed */
    lightq_status status;
};

/* Gives libinih one line. It would take an indented line for a continuation and a long line for two: so indentation is
 * skipped here, and a line that does not fit fails. */
static char *on_line_wanted(char *line, int size, void *stream)
{
    struct file_reader *reader = stream;
    int c = getc(reader->stream);
    while (c == ' ' || c == '\t') {
        c = getc(reader->stream);
    }
    if (c == EOF || ungetc(c, reader->stream) == EOF || fgets(line, size, reader->stream) == NULL) {
        return NULL;
    }
    size_t length = strlen(line);
    if ((length == 0 || line[length - 1] != '\n') && !feof(reader->stream) && reader->status == LIGHTQ_OK) {
        reader->status =
            lq_err_set(&reader->err, LIGHTQ_EINVAL, "a line is longer than %d characters, or not text", size - 2);
    }
    return reader->status == LIGHTQ_OK ? line : NULL;
}

static int on_line(void *data, const char *section, const char *name, const char *value)
{
    struct file_reader *reader = data;
    if (reader->status == LIGHTQ_OK) {
        reader->status = lq_conf_set_in(&lq_options_table, reader->options, section, name, value, &reader->err);
    }
    return reader->status == LIGHTQ_OK;
}

lightq_status lq_options_load_file(struct lq_options *options, const char *path, struct lq_err *err)
{
    struct file_reader reader = {.options = options, .path = path, .stream = fopen(path, "re")};
    if (reader.stream == NULL) {
        return lq_err_from_errno(
            err, errno, "the configuration file %s cannot be opened: correct --config, or make it readable", path);
    }
    int line = ini_parse_stream(on_line_wanted, &reader, on_line, &reader);
    int error = ferror(reader.stream) ? errno : 0;
    (void)fclose(reader.stream);
    if (error != 0) {
        return lq_err_from_errno(err, error, "the configuration file %s cannot be read", path);
    }
    if (reader.status != LIGHTQ_OK && line > 0) {
        return lq_err_set(err, reader.status, "%s, line %d: %s", path, line, reader.err.text);
    }
    if (reader.status != LIGHTQ_OK) {
        return lq_err_set(err, reader.status, "%s: %s", path, reader.err.text);
    }
    if (line != 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%s, line %d: neither \"name = value\" nor \"[section]\"", path, line);
    }
    return LIGHTQ_OK;
}

lightq_status lq_options_init(struct lq_options *options)
{
    memset(options, 0, sizeof *options);
    return lq_conf_init(&lq_options_table, options);
}

void lq_options_deinit(struct lq_options *options)
{
    lq_conf_deinit(&lq_options_table, options);
}

lightq_status lq_options_load(struct lq_options *options, int argc, char **argv, enum lq_options_action *action,
                              bool *usage, struct lq_err *err)
{
    struct flag_reader reader = {.action = LQ_OPTIONS_RUN, .err = err};
    *usage = true;
    lightq_status status = read_flags(&reader, argc, argv);
    *action = reader.action;
    if (status != LIGHTQ_OK || reader.action != LQ_OPTIONS_RUN) {
        return status;
    }
    *usage = false;
    const char *file = reader.file != NULL ? reader.file : getenv(ENVIRONMENT_FILE);
    if (file != NULL && file[0] != '\0') {
        status = lq_options_load_file(options, file, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_conf_environment(&lq_options_table, options, ENVIRONMENT_PREFIX, false, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    *usage = true;
    reader.options = options;
    status = read_flags(&reader, argc, argv);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *usage = false;
    return lq_options_check(options, err);
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* A listening address and what is told of it. */
static lightq_status check_pair(const char *listen_name, const char *listen, const char *told_name, const char *told,
                                struct lq_endpoint *at, struct lq_endpoint *told_at, struct lq_err *err)
{
    lightq_status status = lq_endpoint_parse(listen, listen_name, true, at, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *told_at = *at;
    if (is_set(told)) {
        status = lq_endpoint_parse(told, told_name, false, told_at, err);
    }
    if (status == LIGHTQ_OK && lq_endpoint_is_any(told_at)) {
        return lq_err_set(err, LIGHTQ_EINVAL,
                          "%s = %s is every address of the machine: say with %s which one others can reach",
                          is_set(told) ? told_name : listen_name, is_set(told) ? told : listen, told_name);
    }
    return status;
}

/* Whether this node is one of its seeds. */
static bool names_itself(const struct lq_options *options)
{
    for (unsigned i = 0; i < options->seed_count; i++) {
        const struct lq_endpoint *seed = &options->seed[i];
        if (seed->port == options->peer_told.port && strcmp(seed->host, options->peer_told.host) == 0) {
            return true;
        }
    }
    return false;
}

static lightq_status check_seeds(struct lq_options *options, struct lq_err *err)
{
    options->seed_count = 0;
    const char *at = is_set(options->seeds) ? options->seeds : "";
    while (*at != '\0') {
        char text[LQ_ENDPOINT_TEXT_BYTES];
        size_t size = strcspn(at, ",");
        if (options->seed_count == LQ_SEEDS_MAX) {
            return lq_err_set(err, LIGHTQ_EINVAL, "seeds: more than %d", LQ_SEEDS_MAX);
        }
        if (size >= sizeof text) {
            return lq_err_set(err, LIGHTQ_EINVAL, "seeds: \"%.*s...\" is too long", LINE_SHOWN_MAX, at);
        }
        memcpy(text, at, size);
        text[size] = '\0';
        lightq_status status = lq_endpoint_parse(text, "seeds", false, &options->seed[options->seed_count], err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        options->seed_count++;
        at += size + (at[size] == ',');
    }
    unsigned known = options->seed_count + !names_itself(options);
    options->expect = options->cluster_expect == 0 ? known : (unsigned)options->cluster_expect;
    if (options->expect > known) {
        return lq_err_set(
            err, LIGHTQ_EINVAL,
            "cluster.expect is %u, but seeds and this node are %u: name the peer address of every node that "
            "forms the cluster",
            options->expect, known);
    }
    return LIGHTQ_OK;
}

/* Each shard has ports of its own, which others count up from the node's. */
static lightq_status check_shards(const struct lq_options *options, struct lq_err *err)
{
    const struct {
        const char *name;
        const struct lq_endpoint *at;
    } ports[] = {{"listen", &options->client},
                 {"advertise", &options->client_told},
                 {"peer.listen", &options->peer},
                 {"peer.advertise", &options->peer_told}};
    uint64_t more = options->shards - 1;
    for (size_t i = 0; more > 0 && i < sizeof ports / sizeof ports[0]; i++) {
        if (ports[i].at->port == 0 || ports[i].at->port + more > UINT16_MAX) {
            return lq_err_set(err, LIGHTQ_EINVAL,
                              "shards = %u needs as many ports in a row from that of %s on, which is %u: choose one",
                              (unsigned)options->shards, ports[i].name, ports[i].at->port);
        }
    }
    return LIGHTQ_OK;
}

void lq_options_for_shard(const struct lq_options *options, unsigned number, struct lq_options *shard)
{
    *shard = *options;
    if (number > 0) { /* which is no port 0: checked above */
        shard->client.port = (uint16_t)(shard->client.port + number);
        shard->peer.port = (uint16_t)(shard->peer.port + number);
    }
    lq_options_divide_memory(shard);
    shard->files_max /= (unsigned)shard->shards;
    shard->scrub_bytes = (shard->scrub_bytes + shard->shards - 1) / shard->shards;
    shard->connections_max = (shard->connections_max + shard->shards - 1) / shard->shards;
}

lightq_status lq_options_check(struct lq_options *options, struct lq_err *err)
{
    lightq_status status = check_pair("listen", options->listen, "advertise", options->advertise, &options->client,
                                      &options->client_told, err);
    if (status == LIGHTQ_OK) {
        status = check_pair("peer.listen", options->peer_listen, "peer.advertise", options->peer_advertise,
                            &options->peer, &options->peer_told, err);
    }
    options->serves_http = is_set(options->http);
    if (status == LIGHTQ_OK && options->serves_http) {
        status = lq_endpoint_parse(options->http, "http", true, &options->http_at, err);
    }
    if (status == LIGHTQ_OK) {
        status = check_seeds(options, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (!options->peer_insecure && !lq_endpoint_is_loopback(&options->peer)) {
        return lq_err_set(
            err, LIGHTQ_EINVAL,
            "peer.listen = %s is not loopback, and whoever reaches the peer port is trusted: protect that "
            "network and set peer.insecure = true",
            options->peer_listen);
    }
    status = check_shards(options, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (options->raft_heartbeat_ms * HEARTBEATS_MIN > options->raft_election_ms) {
        return lq_err_set(err, LIGHTQ_EINVAL, "raft.heartbeat.ms must be at most a third of raft.election.ms");
    }
    return lq_options_share_memory(options, err);
}

uint64_t lq_options_batch_bytes_max(const struct lq_options *options)
{
    /* Room for the largest message, and never below what producers gather by default. */
    uint64_t messages =
        options->max_message_bytes > LQ_MESSAGE_BYTES_DEFAULT ? options->max_message_bytes : LQ_MESSAGE_BYTES_DEFAULT;
    return messages + LQ_BATCH_OVERHEAD_BYTES;
}
