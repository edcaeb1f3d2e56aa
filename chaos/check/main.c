/* chaos/check/main.c - lightq-check: judges recorded histories, or receipts, and says so. One thread.
 *
 * Exit: 0 all promises held, 1 some did not (or nothing was acknowledged), 2 the arguments or files cannot be used. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/check/history_text.h"
#include "chaos/check/lines.h"
#include "chaos/check/receipts.h"
#include "chaos/check/report.h"

enum { EXIT_PASSED, EXIT_BROKEN, EXIT_UNUSABLE };
enum { DEFAULT_EXAMPLES = 5, US_PER_MS = 1000 };

static const char usage[] =
    "usage: lightq-check [OPTION...] HISTORY...\n"
    "       lightq-check [OPTION...] --acked FILE... --log FILE...\n"
    "Judges what a test recorded, or compares what producers were told is stored with what consumers read.\n"
    "\n"
    "  --acked FILE...            of lightq produce --acked\n"
    "  --log FILE...              of lightq consume --log; together they hold all that is stored\n"
    "  --ordered                  each --log file is one run of one consumer: it must not skip or go back\n"
    "  --recovery-max MS          the longest until writes are back after a fault alone\n"
    "  --recovery-median MS       the same for half of the faults\n"
    "  --allow-unread             do not fail for acknowledged messages that nobody looked for\n"
    "  --examples N               for each checker (5, at most 16)\n"
    "  --json                     the report as one JSON object\n"
    "  --help\n"
    "\n"
    "Exit status: 0 all promises held, 1 some did not, 2 the arguments or files cannot be used.\n"
    "The formats are drawn in chaos/check/history_text.c and receipts.h; docs/reliability-checkers.md explains the "
    "rest.\n";

/* Where a word that is not an option belongs. */
enum place { PLACE_HISTORY, PLACE_ACKED, PLACE_LOG, PLACE_COUNT };

struct arguments {
    const char **files[PLACE_COUNT]; /* owned arrays of borrowed words */
    size_t counts[PLACE_COUNT];
    struct lq_check_options options;
    bool json, ordered, help;
};

static bool complain(const char *what, const char *word)
{
    fprintf(stderr, "lightq-check: %s: %s\n", what, word);
    return false;
}

/* The number behind option @word at @at, which it moves on. */
static bool take_number(int count, char **words, int *at, uint64_t most, uint64_t *number)
{
    if (*at + 1 >= count || !lq_word_number(lq_word_of(words[*at + 1]), most, number)) {
        return complain("a number must follow", words[*at]);
    }
    (*at)++;
    return true;
}

static bool take_option(struct arguments *arguments, int count, char **words, int *at, enum place *place)
{
    const char *word = words[*at];
    uint64_t number = 0;
    if (strcmp(word, "--acked") == 0) {
        *place = PLACE_ACKED;
    } else if (strcmp(word, "--log") == 0) {
        *place = PLACE_LOG;
    } else if (strcmp(word, "--ordered") == 0) {
        arguments->ordered = true;
    } else if (strcmp(word, "--allow-unread") == 0) {
        arguments->options.allow_unproven = true;
    } else if (strcmp(word, "--json") == 0) {
        arguments->json = true;
    } else if (strcmp(word, "--help") == 0) {
        arguments->help = true;
    } else if (strcmp(word, "--examples") == 0) {
        if (!take_number(count, words, at, LQ_CHECK_EXAMPLES_MAX, &number)) {
            return false;
        }
        arguments->options.examples = (uint32_t)number;
    } else if (strcmp(word, "--recovery-max") == 0 || strcmp(word, "--recovery-median") == 0) {
        if (!take_number(count, words, at, UINT32_MAX, &number)) {
            return false;
        }
        bool median = strcmp(word, "--recovery-median") == 0;
        *(median ? &arguments->options.recovery_median_us : &arguments->options.recovery_max_us) = number * US_PER_MS;
    } else {
        return complain("unknown option", word);
    }
    return true;
}

/* False after a sentence on standard error. */
static bool parse_arguments(struct arguments *arguments, int count, char **words)
{
    enum place place = PLACE_HISTORY;
    for (int i = 0; i < PLACE_COUNT; i++) {
        arguments->files[i] = calloc((size_t)count, sizeof *arguments->files[i]);
        if (arguments->files[i] == NULL) {
            return complain("out of memory", words[0]);
        }
    }
    for (int i = 1; i < count; i++) {
        if (strncmp(words[i], "--", 2) != 0) {
            arguments->files[place][arguments->counts[place]++] = words[i];
        } else if (!take_option(arguments, count, words, &i, &place)) {
            return false;
        }
    }
    if (arguments->help) {
        return true;
    }
    bool receipts = arguments->counts[PLACE_ACKED] != 0 && arguments->counts[PLACE_LOG] != 0;
    bool any_receipt = arguments->counts[PLACE_ACKED] != 0 || arguments->counts[PLACE_LOG] != 0;
    if ((arguments->counts[PLACE_HISTORY] != 0) == any_receipt || any_receipt != receipts) {
        return complain("give either histories, or both --acked and --log files; see", "lightq-check --help");
    }
    return true;
}

static lightq_status load_file(struct lq_history *history, struct lq_receipts *receipts,
                               const struct arguments *arguments, enum place place, const char *path,
                               struct lq_err *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return lq_err_from_errno(err, errno, "open %s", path);
    }
    lightq_status status;
    if (place == PLACE_HISTORY) {
        status = lq_history_load(history, file, path, err);
    } else if (place == PLACE_ACKED) {
        status = lq_receipts_load_acked(receipts, history, file, path, err);
    } else {
        enum lq_reader_kind kind = arguments->ordered ? LQ_READER_SUBSCRIBER : LQ_READER_PIPELINE;
        status = lq_receipts_load_log(history, kind, file, path, err);
    }
    fclose(file);
    return status;
}

static lightq_status load_files(struct lq_history *history, const struct arguments *arguments, struct lq_err *err)
{
    struct lq_receipts receipts = {.clusters = {.count = 0}};
    lightq_status status = LIGHTQ_OK;
    for (int place = 0; place < PLACE_COUNT; place++) {
        for (size_t i = 0; i < arguments->counts[place] && status == LIGHTQ_OK; i++) {
            status = load_file(history, &receipts, arguments, (enum place)place, arguments->files[place][i], err);
        }
    }
    lq_receipts_deinit(&receipts);
    return status;
}

static int check(const struct arguments *arguments)
{
    struct lq_history history;
    struct lq_check_report *report = malloc(sizeof *report);
    struct lq_err err = {.text = "out of memory"};
    int result = EXIT_UNUSABLE;
    lq_history_init(&history);
    lightq_status status = report == NULL ? LIGHTQ_ENOMEM : load_files(&history, arguments, &err);
    if (status == LIGHTQ_OK) {
        status = lq_check_run(&history, &arguments->options, report);
        snprintf(err.text, sizeof err.text, "%s", lightq_status_text(status));
    }
    if (status == LIGHTQ_OK) {
        result = report->passed ? EXIT_PASSED : EXIT_BROKEN;
        if (arguments->json) {
            status = lq_report_print_json(report, &history, stdout);
        } else {
            lq_report_print(report, stdout);
            status = fflush(stdout) != 0 || ferror(stdout) ? LIGHTQ_EIO : LIGHTQ_OK;
        }
        snprintf(err.text, sizeof err.text, "%s", lightq_status_text(status));
        lq_check_report_deinit(report);
    }
    if (status != LIGHTQ_OK) {
        fprintf(stderr, "lightq-check: %s\n", err.text);
        result = EXIT_UNUSABLE;
    }
    lq_history_deinit(&history);
    free(report);
    return result;
}

int main(int count, char **words)
{
    struct arguments arguments = {.options = {.examples = DEFAULT_EXAMPLES}};
    int result = EXIT_UNUSABLE;
    if (parse_arguments(&arguments, count, words)) {
        if (arguments.help) {
            fputs(usage, stdout);
            result = EXIT_PASSED;
        } else {
            arguments.options.reads_are_complete = arguments.counts[PLACE_LOG] != 0;
            result = check(&arguments);
        }
    }
    for (int i = 0; i < PLACE_COUNT; i++) {
        free(arguments.files[i]);
    }
    return result;
}
