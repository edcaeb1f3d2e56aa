/* node/main.c - the program lightqd: reads its options, sets up the process, runs the node. docs/man/lightqd.1. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/base/log.h"
#include "node/options.h"
#include "node/server.h"
#include "node/version.h"

#define EXIT_USAGE 2

/* The first touch of memory is dear: what was freed is kept for the next batch instead of given back to the system. */
#define MALLOC_KEEP_BYTES (128 * 1024 * 1024)
#define MALLOC_MAP_BYTES  (32 * 1024 * 1024) /* the most that mallopt takes on a 64-bit system */
#define STORED_FILES_MAX  8192u              /* open at a time, of all shards: more would help nobody */

static void set_up_process(struct lq_options *options)
{
    char threads[16];
    struct rlimit files;
    (void)snprintf(threads, sizeof threads, "%u", (unsigned)options->io_threads);
    (void)setenv("UV_THREADPOOL_SIZE", threads, 1);
    (void)mallopt(M_TRIM_THRESHOLD, MALLOC_KEEP_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, MALLOC_MAP_BYTES);
    (void)signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    /* Half of the descriptors are for files and peers, whatever clients do. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < options->connections_max) {
        options->connections_max = files.rlim_cur / 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* and half of these for files */
        rlim_t half = (files.rlim_cur - options->connections_max) / 2;
        options->files_max = half < STORED_FILES_MAX ? (unsigned)half : STORED_FILES_MAX;
    }
    lq_log_configure((enum lq_log_level)options->log_level, STDERR_FILENO);
}

static int print(enum lq_options_action action)
{
    switch (action) {
    case LQ_OPTIONS_HELP:
        lq_options_print_help(stdout);
        break;
    case LQ_OPTIONS_VERSION:
        (void)printf("lightqd %s\n", LQ_VERSION_TEXT);
        break;
    case LQ_OPTIONS_MAN:
        lq_options_print_man(stdout);
        break;
    case LQ_OPTIONS_DOCS:
        lq_options_print_docs(stdout);
        break;
    case LQ_OPTIONS_RUN:
        break;
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(struct lq_options *options, int argc, char **argv)
{
    struct lq_err err = {0};
    enum lq_options_action action;
    bool usage;
    lightq_status status = lq_options_load(options, argc, argv, &action, &usage, &err);
    if (status != LIGHTQ_OK) {
        (void)fprintf(stderr, "lightqd: %s\n", err.text);
        return usage ? EXIT_USAGE : EXIT_FAILURE;
    }
    if (action != LQ_OPTIONS_RUN) {
        return print(action);
    }
    set_up_process(options);
    status = lq_server_run(options, lq_clock_system(), &err);
    if (status != LIGHTQ_OK) {
        (void)fprintf(stderr, "lightqd: %s (%s)\n", err.text, lightq_status_name(status));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct lq_options options;
    if (lq_options_init(&options) != LIGHTQ_OK) {
        (void)fprintf(stderr, "lightqd: out of memory\n");
        return EXIT_FAILURE;
    }
    int code = run(&options, argc, argv);
    lq_options_deinit(&options);
    return code;
}
