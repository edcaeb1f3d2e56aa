/* tests/bench/bench_store.c - what one shard's store does on a real disk: each of N groups keeps a window of entries
 * that are appended and not durable. Prints entries a second, MB a second, flushes, and the time from append to
 * durable.
 *
 *     bench_store [--groups N=1] [--window N=128] [--size BYTES=256] [--seconds N=3] [--files N: sync_files_max]
 *                 [--dir DIR=/tmp/lightq-bench-store]
 *
 * The directory must not exist; it is left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "client/base/log.h"
#include "storage/io_uv.h"
#include "storage/store.h"

enum { SAMPLES_MAX = 1 << 20, US = 1000000 };

struct bench;

struct writer {
    struct bench *bench;
    struct lq_rlog *log;
    uint64_t durable;
    uint64_t *sent_us; /* ring by index */
};

struct bench {
    unsigned groups, window, seconds, files;
    uint32_t size;
    const char *dir;
    uv_loop_t loop;
    struct lq_io *io;
    struct lq_store *store;
    struct writer *writers;
    uint64_t started_us, until_us, entries;
    uint32_t *samples;
    size_t sample_count;
    bool stopping, closed;
};

static uint64_t now_us(void)
{
    return lq_clock_monotonic_us(lq_clock_system());
}

static void die(const char *what, const struct lq_err *err)
{
    fprintf(stderr, "bench_store: %s: %s\n", what, err->text);
    exit(1);
}

/* Fills the window again. All entries of one call share a slab, as those of one frame do. */
static void fill(struct writer *writer)
{
    struct bench *bench = writer->bench;
    uint64_t last = lq_rlog_last(writer->log);
    uint64_t count = bench->window - (last - writer->durable);
    uint64_t size = lq_entry_size(bench->size);
    if (count == 0 || bench->stopping) {
        return;
    }
    struct lq_slab *slab = lq_slab_new(count * size);
    struct lq_entry_ref *refs = calloc(count, sizeof *refs);
    if (slab == NULL || refs == NULL) {
        die("append", &(struct lq_err){.text = "no memory"});
    }
    memset(slab->bytes, 'x', slab->size);
    for (uint64_t i = 0; i < count; i++) {
        const struct lq_entry entry = {.group = lq_rlog_group(writer->log),
                                       .index = last + 1 + i,
                                       .term = 1,
                                       .prev_term = last + i == 0 ? 0 : 1,
                                       .base_offset = last + i,
                                       .timestamp_ms = 1,
                                       .type = LQ_ENTRY_COMMAND,
                                       .message_count = 1,
                                       .payload_size = bench->size};
        lq_entry_seal(slab->bytes + i * size, &entry);
        refs[i] = (struct lq_entry_ref){.slab = slab, .offset = (uint32_t)(i * size), .size = (uint32_t)size};
        writer->sent_us[(last + 1 + i) % bench->window] = now_us();
    }
    lightq_status status = lq_rlog_append(writer->log, refs, count);
    if (status != LIGHTQ_OK) {
        die("append", &(struct lq_err){.text = "refused"});
    }
    free(refs);
    lq_slab_unref(slab);
}

static void on_durable(void *owner, uint64_t index)
{
    struct writer *writer = owner;
    struct bench *bench = writer->bench;
    uint64_t now = now_us();
    for (uint64_t i = writer->durable + 1; i <= index; i++) {
        if (bench->sample_count < SAMPLES_MAX) {
            bench->samples[bench->sample_count++] = (uint32_t)(now - writer->sent_us[i % bench->window]);
        }
    }
    bench->entries += index - writer->durable;
    writer->durable = index;
    fill(writer);
}

static void on_failed(void *owner, lightq_status status, const struct lq_err *err)
{
    (void)owner;
    (void)status;
    die("a log failed", err);
}

static const struct lq_rlog_events events = {.durable = on_durable, .failed = on_failed};

static void on_turn(uv_check_t *check)
{
    struct bench *bench = check->data;
    if (now_us() >= bench->until_us) {
        bench->stopping = true;
    }
    lq_store_flush(bench->store);
}

static void on_closed(void *data)
{
    ((struct bench *)data)->closed = true;
}

static void open_store(struct bench *bench)
{
    struct lq_err err;
    const struct lq_io_uv_options io_options = {.create = true};
    const struct lq_store_options options = {.dir = "", .cluster = {.bytes = {1}}, .sync_files_max = bench->files};
    if (lq_io_uv_new(&bench->loop, bench->dir, &io_options, &bench->io, &err) != LIGHTQ_OK) {
        die("io", &err);
    }
    if (lq_store_open(bench->io, lq_clock_system(), &options, &bench->store, &err) != LIGHTQ_OK) {
        die("open", &err);
    }
    for (unsigned i = 0; i < bench->groups; i++) {
        struct writer *writer = &bench->writers[i];
        *writer = (struct writer){.bench = bench, .sent_us = calloc(bench->window, sizeof *writer->sent_us)};
        if (writer->sent_us == NULL || lq_rlog_create(bench->store, i + 1, 1, &writer->log, &err) != LIGHTQ_OK) {
            die("create", &err);
        }
        lq_rlog_set_events(writer->log, &events, writer);
    }
}

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static void report(struct bench *bench)
{
    struct lq_store_counters counters;
    struct rusage usage;
    double seconds = (double)(now_us() - bench->started_us) / US;
    lq_store_count_up(bench->store, &counters);
    (void)getrusage(RUSAGE_SELF, &usage);
    qsort(bench->samples, bench->sample_count, sizeof *bench->samples, by_value);
    double p50 = bench->sample_count > 0 ? bench->samples[bench->sample_count / 2] / 1000.0 : 0;
    double p99 = bench->sample_count > 0 ? bench->samples[bench->sample_count * 99 / 100] / 1000.0 : 0;
    printf("groups %u window %u size %" PRIu32 ": %.0f entries/s, %.1f MB/s, p50 %.2f ms, p99 %.2f ms\n", bench->groups,
           bench->window, bench->size, (double)bench->entries / seconds,
           (double)bench->entries * bench->size / seconds / 1e6, p50, p99);
    printf("  flushes/s %.0f, segment syncs %" PRIu64 ", journal syncs %" PRIu64
           ", written %.1f MB + journal %.1f MB, cpu "
           "%.1f s of %.1f s\n",
           (double)counters.flushes / seconds, counters.segment_syncs, counters.journal_syncs,
           (double)counters.bytes_written / 1e6, (double)counters.journal_bytes_written / 1e6,
           (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec + (double)usage.ru_utime.tv_usec / US +
               (double)usage.ru_stime.tv_usec / US,
           seconds);
}

static void run(struct bench *bench)
{
    uv_check_t check;
    if (uv_loop_init(&bench->loop) != 0) {
        die("loop", &(struct lq_err){.text = "cannot be made"});
    }
    open_store(bench);
    (void)uv_check_init(&bench->loop, &check);
    check.data = bench;
    (void)uv_check_start(&check, on_turn);
    bench->started_us = now_us();
    bench->until_us = bench->started_us + (uint64_t)bench->seconds * US;
    for (unsigned i = 0; i < bench->groups; i++) {
        fill(&bench->writers[i]);
    }
    lq_store_flush(bench->store);
    while (!(bench->stopping && lq_store_idle(bench->store))) {
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
    }
    report(bench);
    (void)uv_check_stop(&check);
    uint64_t closing_us = now_us();
    lq_store_close(bench->store, on_closed, bench);
    while (!bench->closed) {
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
    }
    uint64_t opening_us = now_us();
    const struct lq_store_options options = {.dir = "", .cluster = {.bytes = {1}}};
    struct lq_err err;
    if (lq_store_open(bench->io, lq_clock_system(), &options, &bench->store, &err) != LIGHTQ_OK) {
        die("reopen", &err);
    }
    printf("  closed in %.1f ms, opened again in %.1f ms\n", (double)(opening_us - closing_us) / 1000,
           (double)(now_us() - opening_us) / 1000);
    lq_store_abandon(bench->store);
}

int main(int argc, char **argv)
{
    struct bench bench = {.groups = 1, .window = 128, .seconds = 3, .size = 256, .dir = "/tmp/lightq-bench-store"};
    lq_log_configure(LQ_LOG_WARN, 2);
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned value = (unsigned)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--groups") == 0) {
            bench.groups = value;
        } else if (strcmp(argv[i], "--window") == 0) {
            bench.window = value;
        } else if (strcmp(argv[i], "--size") == 0) {
            bench.size = value;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            bench.seconds = value;
        } else if (strcmp(argv[i], "--files") == 0) {
            bench.files = value;
        } else if (strcmp(argv[i], "--dir") == 0) {
            bench.dir = argv[i + 1];
        }
    }
    bench.writers = calloc(bench.groups, sizeof *bench.writers);
    bench.samples = calloc(SAMPLES_MAX, sizeof *bench.samples);
    if (bench.writers == NULL || bench.samples == NULL || bench.groups == 0 || bench.window == 0) {
        die("start", &(struct lq_err){.text = "bad arguments, or no memory"});
    }
    run(&bench);
    return 0;
}
