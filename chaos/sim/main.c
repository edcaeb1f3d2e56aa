/* chaos/sim/main.c - the simulator's command line: runs seeds, tells which fail and how to run them again.
 *
 *     lightq-sim --seeds A..B [--time S] [--mode safety|liveness|both]    a range; S seconds at most
 *     lightq-sim --seed N [--trace] [--plan] [--shrink]                   one, told in detail, or with fewer faults
 *     lightq-sim --file PATH                                              the seeds of a file, a line each
 *     lightq-sim --twice ...                                              each one twice: both must be the same
 *
 * Exit status 0: all passed; 1: some failed; 2: it was called wrongly. docs/reliability-sim.md tells more. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos/sim/world.h"
#include "client/base/clock.h"
#include "client/base/log.h"

#define FRESH_STEP 1000 /* seeds that a second of the day stands for, when fresh ones are asked for */

struct settings {
    uint64_t first, last;
    uint64_t seconds; /* 0: any */
    bool safety, liveness, trace, plan, shrink, twice, single, until_failure;
    const char *file;
};

struct totals {
    uint64_t runs, failed, began_us;
    struct world_result sum;
    uint64_t least_operations, least_faults;
};

static const char *mode_name(enum world_mode mode)
{
    return mode == WORLD_SAFETY ? "safety" : "liveness";
}

/* ---- when the code under test ends the process */

static struct world_options now_running;

static void on_signal(int number)
{
    char line[160];
    int size =
        snprintf(line, sizeof line,
                 "seed %" PRIu64 " %s: FAILED: the process ends by signal %d\n  again: chaos/sim/run --seed "
                 "%" PRIu64 " --mode %s --trace\n",
                 now_running.seed, mode_name(now_running.mode), number, now_running.seed, mode_name(now_running.mode));
    fflush(stdout);
    if (write(STDOUT_FILENO, line, (size_t)size) < 0) {
        _exit(1);
    }
    _exit(1);
}

static void catch_signals(void (*how)(int number))
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        signal(numbers[i], how);
    }
}

/* ---- one */

static void add(struct totals *totals, const struct world_result *result)
{
    struct world_result *sum = &totals->sum;
    sum->operations += result->operations;
    sum->acknowledged += result->acknowledged;
    sum->unknown += result->unknown;
    sum->failed += result->failed;
    sum->reads += result->reads;
    sum->faults += result->faults;
    sum->elections += result->elections;
    sum->crashes += result->crashes;
    sum->replaced += result->replaced;
    sum->installs += result->installs;
    sum->trims += result->trims;
    sum->settled += result->settled;
    sum->dead_letters += result->dead_letters;
    sum->groups_moved += result->groups_moved;
    sum->durable_looked_at += result->durable_looked_at;
    sum->virtual_us += result->virtual_us;
    if (totals->runs == 0 || result->operations < totals->least_operations) {
        totals->least_operations = result->operations;
    }
    if (totals->runs == 0 || result->faults < totals->least_faults) {
        totals->least_faults = result->faults;
    }
    totals->runs++;
}

static void print_result(const struct world_options *options, const struct world_result *result)
{
    printf("seed %" PRIu64 " %s: %s hash %016" PRIx64 ", %" PRIu64 " operations, %" PRIu64 " faults, %" PRIu64
           " acknowledged, %" PRIu64 " unknown, %" PRIu64 " refused, %" PRIu64 " read, %" PRIu64 " elections, %" PRIu64
           " crashes, %" PRIu64 " replaced, %" PRIu64 " trims, %" PRIu64 " installs, %.1f s\n",
           options->seed, mode_name(options->mode), result->failure[0] == '\0' ? "passed" : "FAILED", result->hash,
           result->operations, result->faults, result->acknowledged, result->unknown, result->failed, result->reads,
           result->elections, result->crashes, result->replaced, result->trims, result->installs,
           (double)result->virtual_us / 1e6);
}

static void run_one(const struct settings *settings, struct totals *totals, uint64_t seed, enum world_mode mode)
{
    const struct world_options options = {.seed = seed, .mode = mode, .trace = settings->trace};
    struct world_result result;
    now_running = options;
    world_run(&options, &result);
    if (settings->twice && result.failure[0] == '\0') {
        struct world_result again;
        world_run(&options, &again);
        if (again.hash != result.hash) {
            snprintf(result.failure, sizeof result.failure, "the same seed did something else the second time");
        }
    }
    add(totals, &result);
    if (settings->single) {
        print_result(&options, &result);
    }
    if (result.failure[0] != '\0') {
        totals->failed++;
        printf("seed %" PRIu64 " %s: FAILED: %s\n  again: chaos/sim/run --seed %" PRIu64 " --mode %s --trace\n", seed,
               mode_name(mode), result.failure, seed, mode_name(mode));
    }
    fflush(stdout);
}

/* ---- fewer faults */

/* In a process of its own, and in silence: the code under test may end it. */
static bool fails(uint64_t seed, enum world_mode mode, const struct plan *plan)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        catch_signals(SIG_DFL);
        const struct world_options options = {.seed = seed, .mode = mode, .plan = plan};
        struct world_result result;
        world_run(&options, &result);
        _exit(result.failure[0] == '\0' ? 0 : 1);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void without(const struct plan *plan, unsigned from, unsigned count, struct plan *out)
{
    out->count = 0;
    for (unsigned i = 0; i < plan->count; i++) {
        if (i < from || i >= from + count) {
            out->at[out->count++] = plan->at[i];
        }
    }
}

/* Leaves out pieces of @size faults, wherever it goes on failing without them; true when some were. */
static bool leave_out(struct plan *plan, unsigned size, uint64_t seed, enum world_mode mode)
{
    unsigned before = plan->count;
    for (unsigned from = 0; from < plan->count;) {
        struct plan fewer;
        without(plan, from, size, &fewer);
        if (fails(seed, mode, &fewer)) {
            *plan = fewer;
        } else {
            from += size;
        }
    }
    return plan->count < before;
}

/* Halves, then quarters, ... then single faults, until every single one is needed. */
static int shrink(const struct settings *settings, uint64_t seed, enum world_mode mode)
{
    struct plan plan;
    plan_make(&plan, seed, world_nodes(seed), WORLD_WORK, mode == WORLD_SAFETY);
    unsigned planned = plan.count;
    if (!fails(seed, mode, &plan)) {
        printf("seed %" PRIu64 " %s passes: nothing to make smaller\n", seed, mode_name(mode));
        return 0;
    }
    for (unsigned size = plan.count / 2; size > 1; size /= 2) {
        (void)leave_out(&plan, size, seed, mode);
    }
    while (leave_out(&plan, 1, seed, mode)) {
    }
    const struct world_options options = {.seed = seed, .mode = mode, .plan = &plan, .trace = settings->trace};
    struct world_result result;
    now_running = options;
    printf("seed %" PRIu64 " %s fails with these %u of its %u faults (times from when the clients start):\n", seed,
           mode_name(mode), plan.count, planned);
    for (unsigned i = 0; i < plan.count; i++) {
        fault_print(&plan.at[i], stdout);
    }
    fflush(stdout);
    world_run(&options, &result);
    printf("%s\n", result.failure);
    return 1;
}

/* ---- many */

static bool is_over(const struct settings *settings, const struct totals *totals)
{
    uint64_t now_us = lq_clock_monotonic_us(lq_clock_system());
    if (settings->until_failure && totals->failed != 0) {
        return true;
    }
    return settings->seconds != 0 && now_us - totals->began_us >= settings->seconds * WORLD_SECOND;
}

static void run_range(const struct settings *settings, struct totals *totals)
{
    for (uint64_t seed = settings->first; seed <= settings->last && !is_over(settings, totals); seed++) {
        if (settings->safety) {
            run_one(settings, totals, seed, WORLD_SAFETY);
        }
        if (settings->liveness && !is_over(settings, totals)) {
            run_one(settings, totals, seed, WORLD_LIVENESS);
        }
    }
}

/* Lines: "NUMBER safety|liveness", whatever follows is a comment; "#" begins one too. */
static int run_file(const struct settings *settings, struct totals *totals)
{
    FILE *file = fopen(settings->file, "r");
    char line[512];
    if (file == NULL) {
        fprintf(stderr, "%s cannot be read\n", settings->file);
        return 2;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        uint64_t seed;
        char mode[16];
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        if (sscanf(line, "%" SCNu64 " %15s", &seed, mode) != 2 ||
            (strcmp(mode, "safety") != 0 && strcmp(mode, "liveness") != 0)) {
            fprintf(stderr, "%s: not \"NUMBER safety|liveness\": %s", settings->file, line);
            fclose(file);
            return 2;
        }
        run_one(settings, totals, seed, strcmp(mode, "safety") == 0 ? WORLD_SAFETY : WORLD_LIVENESS);
    }
    fclose(file);
    return 0;
}

static void print_totals(const struct totals *totals)
{
    double seconds = (double)(lq_clock_monotonic_us(lq_clock_system()) - totals->began_us) / 1e6;
    const struct world_result *sum = &totals->sum;
    printf("%" PRIu64 " runs, %" PRIu64
           " failed, in %.1f s: %.0f a minute. In all %.0f s of the clusters' time, %" PRIu64
           " operations (least %" PRIu64 "), %" PRIu64 " faults (least %" PRIu64 "), %" PRIu64
           " messages acknowledged (%" PRIu64 " looked for on disks), %" PRIu64 " unknown, %" PRIu64 " read, %" PRIu64
           " elections, %" PRIu64 " power cuts, %" PRIu64 " nodes replaced, %" PRIu64 " trims, %" PRIu64
           " installs, %" PRIu64 " messages settled, %" PRIu64 " dead letters, %" PRIu64 " groups moved\n",
           totals->runs, totals->failed, seconds, (double)totals->runs * 60 / seconds, (double)sum->virtual_us / 1e6,
           sum->operations, totals->least_operations, sum->faults, totals->least_faults, sum->acknowledged,
           sum->durable_looked_at, sum->unknown, sum->reads, sum->elections, sum->crashes, sum->replaced, sum->trims,
           sum->installs, sum->settled, sum->dead_letters, sum->groups_moved);
}

/* ---- flags */

static bool parse_range(const char *text, struct settings *settings)
{
    char *end;
    if (strcmp(text, "fresh") == 0) {
        settings->first = lq_clock_wall_ms(lq_clock_system()) / 1000 * FRESH_STEP;
        settings->last = settings->first + UINT32_MAX;
        printf("fresh seeds from %" PRIu64 " on\n", settings->first);
        return true;
    }
    settings->first = settings->last = strtoull(text, &end, 10);
    if (end != text && strncmp(end, "..", 2) == 0) {
        settings->last = strtoull(end + 2, &end, 10);
    }
    return *end == '\0' && end != text && settings->last >= settings->first;
}

static bool parse_mode(const char *text, struct settings *settings)
{
    settings->safety = strcmp(text, "safety") == 0 || strcmp(text, "both") == 0;
    settings->liveness = strcmp(text, "liveness") == 0 || strcmp(text, "both") == 0;
    return settings->safety || settings->liveness;
}

static bool parse_value(const char *flag, const char *value, struct settings *settings)
{
    char *end;
    if (strcmp(flag, "--seeds") == 0) {
        return parse_range(value, settings);
    }
    if (strcmp(flag, "--seed") == 0) {
        settings->single = true;
        return parse_range(value, settings) && settings->first == settings->last;
    }
    if (strcmp(flag, "--mode") == 0) {
        return parse_mode(value, settings);
    }
    if (strcmp(flag, "--file") == 0) {
        settings->file = value;
        return true;
    }
    if (strcmp(flag, "--time") == 0) {
        settings->seconds = strtoull(value, &end, 10);
        return *end == '\0' && end != value;
    }
    return false;
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    static const char usage[] = "usage: %s --seeds A..B|fresh | --seed N | --file PATH\n"
                                "       [--time SECONDS] [--mode safety|liveness|both] [--trace] [--plan] [--shrink] "
                                "[--twice] [--first]\n";
    bool good = argc > 1;
    for (int i = 1; i < argc && good; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            settings->trace = true;
        } else if (strcmp(argv[i], "--plan") == 0) {
            settings->plan = true;
        } else if (strcmp(argv[i], "--shrink") == 0) {
            settings->shrink = true;
        } else if (strcmp(argv[i], "--twice") == 0) {
            settings->twice = true;
        } else if (strcmp(argv[i], "--first") == 0) {
            settings->until_failure = true;
        } else {
            good = i + 1 < argc && parse_value(argv[i], argv[i + 1], settings);
            i++;
        }
    }
    if (!good) {
        fprintf(stderr, usage, argv[0]);
    }
    return good;
}

static void print_plans(const struct settings *settings)
{
    for (int mode = WORLD_SAFETY; mode <= WORLD_LIVENESS; mode++) {
        struct plan plan;
        if (mode == WORLD_SAFETY ? settings->safety : settings->liveness) {
            plan_make(&plan, settings->first, world_nodes(settings->first), WORLD_WORK, mode == WORLD_SAFETY);
            printf("seed %" PRIu64 " %s:\n", settings->first, mode_name((enum world_mode)mode));
            for (unsigned i = 0; i < plan.count; i++) {
                fault_print(&plan.at[i], stdout);
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct settings settings = {.safety = true, .liveness = true, .last = 0, .first = 1};
    struct totals totals = {.runs = 0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse(argc, argv, &settings)) {
        return 2;
    }
    lq_log_configure(settings.trace ? LQ_LOG_WARN : LQ_LOG_OFF, STDOUT_FILENO);
    catch_signals(on_signal);
    totals.began_us = lq_clock_monotonic_us(lq_clock_system());
    if (settings.plan) {
        print_plans(&settings);
        return 0;
    }
    if (settings.shrink) {
        int failed = settings.safety ? shrink(&settings, settings.first, WORLD_SAFETY) : 0;
        return failed + (settings.liveness ? shrink(&settings, settings.first, WORLD_LIVENESS) : 0) != 0;
    }
    int status = settings.file == NULL ? 0 : run_file(&settings, &totals);
    if (status == 0 && settings.last != 0) {
        run_range(&settings, &totals);
    }
    if (!settings.single) {
        print_totals(&totals);
    }
    return status != 0 ? status : totals.failed == 0 ? 0 : 1;
}
