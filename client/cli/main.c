/* client/cli/main.c - the lightq command: finds the verb, connects, says what went wrong. Everything it does with a
 * cluster goes through liblightq. The manual is docs/man/lightq.1. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/conf.h"
#include "client/cli/cli.h"
#include "client/lib/options.h"

#define CONNECT_MS_DEFAULT 10000
#define CLOSE_MS           1000

/* ---- failing */

enum cli_exit cli_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("lightq: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return CLI_USAGE;
}

const char *cli_remedy(lightq_status status)
{
    switch (status) {
    case LIGHTQ_ENOTFOUND:
        return "`lightq topic list` shows what there is";
    case LIGHTQ_ECONNECT:
        return "check --servers (or $LIGHTQ_SERVERS), and that the nodes run";
    case LIGHTQ_EUNAVAILABLE:
    case LIGHTQ_ENOLEADER:
        return "more than half of the nodes must run: `lightq cluster status` shows which do";
    case LIGHTQ_EAUTH:
        return "check the user and the password (--set username=... --set password=...)";
    case LIGHTQ_EVERSION:
        return "use a client and nodes of versions that know each other";
    case LIGHTQ_EEXISTS:
        return "choose another name, or delete it first";
    case LIGHTQ_ETIMEDOUT:
        return "it may have been done: look before you repeat it, or give it more --timeout";
    case LIGHTQ_ENOSPC:
        return "free disk space on the nodes; writing resumes by itself";
    case LIGHTQ_EOUTOFRANGE:
        return "--from start begins at the oldest message";
    case LIGHTQ_ETOOBIG:
        return "send smaller messages, or raise max.message.bytes of the nodes";
    case LIGHTQ_ENAME:
        return "choose a name of those characters";
    default:
        return lightq_status_retriable(status) ? "try again" : "";
    }
}

static enum cli_exit fail_text(lightq_status status, const char *text)
{
    const char *remedy = cli_remedy(status);
    fprintf(stderr, "lightq: %s: %s%s%s\n", lightq_status_name(status), text, remedy[0] != '\0' ? "; " : "", remedy);
    return CLI_FAILED;
}

enum cli_exit cli_fail(const struct lightq_error *error)
{
    return fail_text(error->status, error->text);
}

enum cli_exit cli_fail_with(lightq_status status, const char *format, ...)
{
    char text[LIGHTQ_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail_text(status, text);
}

/* ---- signals */

static void interruptions(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void cli_hold_signals(void)
{
    sigset_t held;
    interruptions(&held);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
}

bool cli_interrupted(void)
{
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

/* ---- connecting */

int cli_timeout_ms(const struct cli *cli, int otherwise)
{
    return cli_given(cli->args.timeout_ms) ? (int)cli->args.timeout_ms : otherwise;
}

int cli_patience_ms(const struct cli *cli, int least)
{
    int given = cli_timeout_ms(cli, least);
    return given > least ? given : least;
}

static enum cli_exit set(struct lightq_conf *conf, const char *name, const char *value)
{
    struct lightq_error error;
    return lightq_conf_set(conf, name, value, &error) == LIGHTQ_OK ? CLI_DONE : cli_usage("%s", error.text);
}

static enum cli_exit set_pair(struct lightq_conf *conf, const char *pair)
{
    char name[LIGHTQ_CONF_VALUE_BYTES];
    size_t size = strcspn(pair, "=");
    if (pair[size] != '=' || size >= sizeof name) {
        return cli_usage("--set takes NAME=VALUE, and not '%s'", pair);
    }
    memcpy(name, pair, size);
    name[size] = '\0';
    return set(conf, name, pair + size + 1);
}

static enum cli_exit fill_conf(const struct cli *cli, const char *const *extra, struct lightq_conf *conf)
{
    const char *servers = cli->args.servers != NULL ? cli->args.servers : getenv("LIGHTQ_SERVERS");
    enum cli_exit result = CLI_DONE;
    if (servers != NULL && servers[0] != '\0') {
        result = set(conf, "bootstrap.servers", servers);
    }
    if (result == CLI_DONE) {
        result = set(conf, "client.id", "lightq");
    }
    for (size_t i = 0; result == CLI_DONE && extra != NULL && extra[i] != NULL; i += 2) {
        result = set(conf, extra[i], extra[i + 1]);
    }
    for (size_t i = 0; result == CLI_DONE && i < cli->args.settings.count; i++) {
        result = set_pair(conf, cli->args.settings.items[i]);
    }
    return result;
}

enum cli_exit cli_new_client(const struct cli *cli, const char *const *extra, struct lightq **client)
{
    struct lightq_conf *conf;
    struct lightq_error error;
    if (lightq_conf_new(&conf) != LIGHTQ_OK) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory");
    }
    enum cli_exit result = fill_conf(cli, extra, conf);
    if (result == CLI_DONE && lightq_new(conf, client, &error) != LIGHTQ_OK) {
        result = error.status == LIGHTQ_EINVAL ? cli_usage("%s", error.text) : cli_fail(&error);
    }
    lightq_conf_free(conf);
    int wait_ms = cli->patient ? cli_patience_ms(cli, CONNECT_MS_DEFAULT) : cli_timeout_ms(cli, CONNECT_MS_DEFAULT);
    if (result == CLI_DONE && lightq_wait_connected(*client, wait_ms, &error) != LIGHTQ_OK) {
        result = cli_fail(&error);
        lightq_close(*client, 0);
        *client = NULL;
    }
    return result;
}

enum cli_exit cli_connect(struct cli *cli, const char *const *extra)
{
    return cli_new_client(cli, extra, &cli->client);
}

/* ---- */

static enum cli_exit run_verb(struct cli *cli, int argc, char *const *argv)
{
    size_t used;
    if (argc == 0) {
        return cli_usage("a verb is missing; lightq --help lists them");
    }
    const struct cli_verb *verb = cli_find_verb(argv, (size_t)argc, &used);
    if (verb == NULL) {
        return cli_usage("no verb '%s%s%s'; lightq --help lists them", argv[0], argc > 1 ? " " : "",
                         argc > 1 ? argv[1] : "");
    }
    if (cli_parse(&cli->args, verb, argc - (int)used, argv + used) < 0) {
        return CLI_USAGE;
    }
    if (cli->args.help) {
        cli_print_verb_help(verb);
        return CLI_DONE;
    }
    const char *format = cli->args.format != NULL ? cli->args.format : "text";
    cli->json = strcmp(format, "json") == 0;
    if (!cli->json && strcmp(format, "text") != 0) {
        return cli_usage("--format takes text or json, and not '%s'", format);
    }
    enum cli_exit result = verb->run(cli);
    if (cli->client != NULL) {
        lightq_close(cli->client, CLOSE_MS);
    }
    if (result == CLI_DONE && (fflush(stdout) != 0 || ferror(stdout) != 0)) {
        return cli_fail_with(LIGHTQ_EIO, "cannot write to standard output");
    }
    return result;
}

/* What needs no verb and no cluster. True: it was that. */
static bool run_alone(const char *option)
{
    if (strcmp(option, "--version") == 0) {
        printf("lightq %s\n", lightq_version());
    } else if (strcmp(option, "--help-settings") == 0) {
        lq_conf_print_help(lq_client_options_table(), stdout);
    } else if (strcmp(option, "--man") == 0) {
        cli_print_manual();
    } else if (strcmp(option, "--man-settings") == 0) {
        cli_print_manual_settings();
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct cli cli = {.client = NULL};
    cli_args_init(&cli.args);
    if (argc == 2 && run_alone(argv[1])) {
        return CLI_DONE;
    }
    int used = cli_parse(&cli.args, NULL, argc - 1, argv + 1);
    if (used < 0) {
        return CLI_USAGE;
    }
    if (cli.args.help && used == argc - 1) {
        cli_print_help();
        return CLI_DONE;
    }
    return run_verb(&cli, argc - 1 - used, argv + 1 + used);
}
