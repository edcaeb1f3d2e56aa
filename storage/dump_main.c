/* storage/dump_main.c - the program lightq-dump: arguments, the real disk, exit status. Calls storage/dump.c. What it
 * does and says: docs/man/lightq-dump.1. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lightq/lightq.h>

#include "storage/dump.h"
#include "storage/io_uv.h"

enum { EXIT_CLEAN = 0, EXIT_DAMAGED = 1, EXIT_USAGE = 2 };

#define OUT_BUFFER_BYTES (64u * 1024)

static const char usage[] =
    "usage: lightq-dump [--verify] DIR\n"
    "Prints the data directory DIR of a node, entry by entry, or checks it. DIR is not changed.\n"
    "\n"
    "      --verify     check every file, print a line for each and a verdict\n"
    "  -h, --help       print this and exit\n"
    "  -V, --version    print the version and exit\n"
    "\n"
    "Exit status: 0 all is whole, 1 damage was found or something could not be read, 2 wrong usage or not a LightQ "
    "data\n"
    "directory.\n";

struct arguments {
    bool verify;
    const char *dir;
};

/* True: go on. False: *status is the program's exit status. */
static bool parse(int argc, char **argv, struct arguments *arguments, int *status)
{
    static const struct option options[] = {
        {"verify", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    *arguments = (struct arguments){.verify = false};
    for (int option; (option = getopt_long(argc, argv, "hV", options, NULL)) != -1;) {
        switch (option) {
        case 'v':
            arguments->verify = true;
            break;
        case 'h':
            fputs(usage, stdout);
            *status = EXIT_CLEAN;
            return false;
        case 'V':
            printf("lightq-dump %d.%d.%d\n", LIGHTQ_VERSION_MAJOR, LIGHTQ_VERSION_MINOR, LIGHTQ_VERSION_PATCH);
            *status = EXIT_CLEAN;
            return false;
        default:
            fputs("Try 'lightq-dump --help'.\n", stderr);
            *status = EXIT_USAGE;
            return false;
        }
    }
    if (argc - optind != 1) {
        fprintf(stderr, "lightq-dump: %s\nTry 'lightq-dump --help'.\n",
                argc == optind ? "which directory?" : "one directory at a time");
        *status = EXIT_USAGE;
        return false;
    }
    arguments->dir = argv[optind];
    return true;
}

/* The node writes while we read: what we say would mean nothing. */
static bool is_running(struct lq_io *io, const struct arguments *arguments)
{
    bool is_locked;
    struct lq_err err;
    if (lq_io_uv_is_locked(io, &is_locked, &err) != LIGHTQ_OK) {
        fprintf(stderr, "lightq-dump: %s\n", err.text);
        return true;
    }
    if (is_locked) {
        fprintf(stderr, "lightq-dump: a node is running on %s: stop it %s\n", arguments->dir,
                arguments->verify ? "first, its files change while they are checked"
                                  : "to see a state that stands still");
    }
    return is_locked;
}

static int run(struct lq_io *io, const struct arguments *arguments)
{
    struct lq_dump_verdict verdict;
    struct lq_err err;
    if (is_running(io, arguments) && arguments->verify) {
        return EXIT_DAMAGED;
    }
    lightq_status status = lq_dump(io, arguments->verify, stdout, &verdict, &err);
    if (status == LIGHTQ_ENOTFOUND) {
        fprintf(stderr, "lightq-dump: %s is %s\n", arguments->dir, err.text);
        return EXIT_USAGE;
    }
    if (status != LIGHTQ_OK) {
        fprintf(stderr, "lightq-dump: %s (%s)\n", err.text, lightq_status_name(status));
        return EXIT_DAMAGED;
    }
    if (arguments->verify && is_running(io, arguments)) { /* it started meanwhile */
        return EXIT_DAMAGED;
    }
    return verdict.damaged > 0 ? EXIT_DAMAGED : EXIT_CLEAN;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    int status = EXIT_USAGE;
    if (!parse(argc, argv, &arguments, &status)) {
        return status;
    }
    struct lq_io *io = NULL;
    struct lq_err err;
    (void)setvbuf(stdout, NULL, _IOFBF, OUT_BUFFER_BYTES);
    lightq_status opened = lq_io_uv_new(NULL, arguments.dir, &(struct lq_io_uv_options){.create = false}, &io, &err);
    if (opened != LIGHTQ_OK) {
        fprintf(stderr, "lightq-dump: %s\n", err.text);
        return opened == LIGHTQ_EAUTH || opened == LIGHTQ_ENOMEM ? EXIT_DAMAGED : EXIT_USAGE;
    }
    status = run(io, &arguments);
    lq_io_uv_free(io);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("lightq-dump: the output could not be written\n", stderr);
        return EXIT_DAMAGED;
    }
    return status;
}
