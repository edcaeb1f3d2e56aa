/* tests/bench/bench_host.c - what the Raft host and the store cost without a network: three hosts in one process and
 * one thread, messages handed over in memory, three directories on a real disk. Each group's leader keeps a window of
 * proposals in flight. Prints entries a second and the time from submit to apply on the leader.
 *
 *     bench_host [--groups N=1] [--window N=128] [--size BYTES=256] [--seconds N=5] [--dir DIR=/tmp/lightq-bench]
 * [--idle]
 *
 * With --idle nothing is proposed: the CPU and memory that idle groups cost. The directory must not exist; it is left.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <uv.h>

#include "client/base/log.h"
#include "raft/host.h"
#include "storage/io_uv.h"
#include "storage/store.h"

enum { NODES = 3, SAMPLES_MAX = 1 << 20 };

struct options {
    unsigned groups, window, seconds;
    size_t size;
    const char *dir;
    bool idle;
};

struct message {
    uint32_t from;
    struct lq_frame_in frame;
    struct message *next;
};

struct bench;

struct node {
    struct bench *bench;
    uint32_t id;
    struct lq_link link;
    struct lq_io *io;
    struct lq_store *store;
    struct lq_host *host;
    struct message *first, **last;
    uint64_t queued;
};

struct replica {
    struct bench *bench;
    struct lq_group *group;
    bool leads;
    uint64_t offset, in_flight, applied;
    uint64_t *sent_us; /* ring by index */
};

struct bench {
    struct options options;
    uv_loop_t loop;
    struct node nodes[NODES];
    struct replica *replicas[NODES];
    uint8_t *payload;
    uint32_t *samples;
    size_t sample_count;
    uint64_t committed, now_us;
    bool running;
};

/* ---- link ---- */

static struct node *of_link(struct lq_link *link)
{
    return (struct node *)(void *)((char *)link - offsetof(struct node, link));
}

static lightq_status on_send(struct lq_link *link, uint32_t to, const struct lq_frame *frame)
{
    struct node *from = of_link(link);
    struct node *node = &from->bench->nodes[to - 1];
    struct message *message = malloc(sizeof *message);
    size_t size = frame->head_size + frame->body_size;
    for (size_t i = 0; i < frame->entry_count; i++) {
        size += frame->entries[i].size;
    }
    struct lq_slab *slab = lq_slab_new(size);
    assert(message != NULL && slab != NULL);
    uint8_t *at = slab->bytes;
    memcpy(at, frame->head, frame->head_size);
    at += frame->head_size;
    if (frame->body_size != 0) {
        memcpy(at, frame->body->bytes + frame->body_offset, frame->body_size);
        at += frame->body_size;
    }
    for (size_t i = 0; i < frame->entry_count; i++) {
        memcpy(at, lq_entry_ref_bytes(&frame->entries[i]), frame->entries[i].size);
        at += frame->entries[i].size;
    }
    *message = (struct message){.from = from->id,
                                .frame = {.type = frame->type,
                                          .group = frame->group,
                                          .slab = slab,
                                          .size = (uint32_t)size,
                                          .head_size = frame->head_size}};
    *node->last = message;
    node->last = &message->next;
    return LIGHTQ_OK;
}

static bool on_connected(struct lq_link *link, uint32_t node)
{
    (void)link;
    (void)node;
    return true;
}

static uint64_t on_queued(struct lq_link *link, uint32_t node)
{
    (void)link;
    (void)node;
    return 0;
}

static const struct lq_link_ops link_ops = {.send = on_send, .connected = on_connected, .queued = on_queued};

static void deliver(struct node *node)
{
    struct message *message = node->first;
    node->first = NULL;
    node->last = &node->first;
    while (message != NULL) {
        struct message *next = message->next;
        lightq_status status = lq_host_link_events.receive(node->host, message->from, &message->frame);
        assert(status == LIGHTQ_OK);
        lq_slab_unref(message->frame.slab);
        free(message);
        message = next;
    }
}

/* ---- machine ---- */

static void fill_window(struct replica *replica)
{
    struct bench *bench = replica->bench;
    const struct iovec iov = {.iov_base = bench->payload, .iov_len = bench->options.size};
    while (bench->running && replica->leads && replica->in_flight < bench->options.window) {
        const struct lq_proposal proposal = {.payload = &iov,
                                             .payload_count = 1,
                                             .message_count = 1,
                                             .base_offset = replica->offset,
                                             .timestamp_ms = bench->now_us / 1000};
        uint64_t index;
        if (lq_group_submit(replica->group, &proposal, &index) != LIGHTQ_OK) {
            return;
        }
        replica->sent_us[index % bench->options.window] = uv_hrtime() / 1000;
        replica->offset++;
        replica->in_flight++;
    }
}

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    struct replica *replica = machine;
    struct bench *bench = replica->bench;
    (void)slab;
    replica->applied++;
    replica->offset = replica->leads ? replica->offset : entry->base_offset + entry->message_count;
    if (replica->leads && entry->type == LQ_ENTRY_COMMAND) {
        replica->in_flight--;
        bench->committed++;
        if (bench->sample_count < SAMPLES_MAX) {
            uint64_t sent = replica->sent_us[entry->index % bench->options.window];
            bench->samples[bench->sample_count++] = (uint32_t)(uv_hrtime() / 1000 - sent);
        }
        fill_window(replica);
    }
    return LIGHTQ_OK;
}

static void on_lead(void *machine, uint64_t term)
{
    (void)term;
    struct replica *replica = machine;
    replica->leads = true;
    replica->in_flight = 0;
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    (void)leader;
    (void)term;
    ((struct replica *)machine)->leads = false;
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    lq_write_u64(writer, ((struct replica *)machine)->offset);
    return LIGHTQ_OK;
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    ((struct replica *)machine)->offset = size == 8 ? lq_get_u64(bytes) : 0;
    return LIGHTQ_OK;
}

static uint64_t on_trim_to(void *machine)
{
    struct replica *replica = machine;
    return replica->applied > 1000000 ? replica->applied - 1000000 : 0;
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    (void)machine;
    fprintf(stderr, "a replica stopped: %s: %s\n", lightq_status_name(status), err->text);
    exit(1);
}

static const struct lq_machine_ops machine_ops = {.apply = on_apply,
                                                  .lead = on_lead,
                                                  .follow = on_follow,
                                                  .save = on_save,
                                                  .load = on_load,
                                                  .trim_to = on_trim_to,
                                                  .stopped = on_stopped};

static const struct lq_host_events host_events;

/* ---- life ---- */

static void fail(const char *what, const struct lq_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static void open_node(struct bench *bench, struct node *node)
{
    struct lq_err err = {.text = ""};
    char path[512];
    const struct lq_host_options host_options = {.node = node->id, .reserve_bytes = 1};
    const struct lq_store_options store_options = {.dir = "", .cluster = {.bytes = {1}}};
    const struct lq_io_uv_options io_options = {.create = true};
    snprintf(path, sizeof path, "%s/%u", bench->options.dir, node->id);
    if (lq_io_uv_new(&bench->loop, path, &io_options, &node->io, &err) != LIGHTQ_OK ||
        lq_store_open(node->io, lq_clock_system(), &store_options, &node->store, &err) != LIGHTQ_OK ||
        lq_host_new(&host_options, lq_clock_system(), node->store, &node->link, &host_events, node, &node->host,
                    &err) != LIGHTQ_OK) {
        fail(path, &err);
    }
}

static void open_groups(struct bench *bench, unsigned n)
{
    struct node *node = &bench->nodes[n];
    bench->replicas[n] = calloc(bench->options.groups, sizeof *bench->replicas[n]);
    assert(bench->replicas[n] != NULL);
    for (unsigned g = 0; g < bench->options.groups; g++) {
        struct replica *replica = &bench->replicas[n][g];
        struct lq_servers founders = {.count = NODES};
        struct lq_err err;
        for (unsigned i = 0; i < NODES; i++) {
            founders.at[i] = (struct lq_server){.id = lq_replica_make((g + i) % NODES + 1, 1), .role = LQ_ROLE_VOTER};
        }
        replica->bench = bench;
        if (!bench->options.idle) {
            replica->sent_us = calloc(bench->options.window, sizeof *replica->sent_us);
            assert(replica->sent_us != NULL);
        }
        if (lq_group_open(node->host, 100 + g, 1, &founders, &machine_ops, replica, &replica->group, &err) !=
            LIGHTQ_OK) {
            fail("group", &err);
        }
    }
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* One round: messages, ticks and turns, then the disk's news. @wait: sleep until something happens. */
static bool round_of(struct bench *bench, uv_timer_t *timer, bool wait)
{
    bool delivered = false;
    uint64_t next = UINT64_MAX;
    bench->now_us = lq_clock_monotonic_us(lq_clock_system());
    for (unsigned n = 0; n < NODES; n++) {
        struct node *node = &bench->nodes[n];
        delivered = delivered || node->first != NULL;
        deliver(node);
        if (lq_host_deadline_us(node->host) <= bench->now_us) {
            lq_host_tick(node->host);
        } else {
            lq_host_turn(node->host);
        }
        uint64_t due = lq_host_deadline_us(node->host);
        next = due < next ? due : next;
    }
    for (unsigned n = 0; n < NODES; n++) {
        delivered = delivered || bench->nodes[n].first != NULL;
    }
    if (!wait || delivered || next <= bench->now_us) {
        uv_run(&bench->loop, UV_RUN_NOWAIT);
    } else {
        uv_timer_start(timer, on_timer, (next - bench->now_us) / 1000 + 1, 0);
        uv_run(&bench->loop, UV_RUN_ONCE);
    }
    return delivered;
}

static size_t leading(const struct bench *bench)
{
    size_t count = 0;
    for (unsigned n = 0; n < NODES; n++) {
        for (unsigned g = 0; g < bench->options.groups; g++) {
            count += bench->replicas[n][g].leads;
        }
    }
    return count;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 + (double)usage.ru_stime.tv_sec +
           (double)usage.ru_stime.tv_usec / 1e6;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void report(struct bench *bench, double seconds, double cpu)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (bench->options.idle) {
        printf("%u idle groups: %.2f %% CPU a node, %ld MiB for three nodes\n", bench->options.groups,
               cpu / seconds / NODES * 100, usage.ru_maxrss / 1024);
        return;
    }
    qsort(bench->samples, bench->sample_count, sizeof *bench->samples, compare);
    double rate = (double)bench->committed / seconds;
    printf("groups %u window %u size %zu: %.0f entries/s, %.1f MB/s, p50 %.3f ms, p99 %.3f ms, %.2f us CPU an entry\n",
           bench->options.groups, bench->options.window, bench->options.size, rate,
           rate * (double)bench->options.size / 1e6, bench->samples[bench->sample_count / 2] / 1e3,
           bench->samples[bench->sample_count * 99 / 100] / 1e3, cpu / (double)bench->committed * 1e6);
}

static void run(struct bench *bench)
{
    uv_timer_t timer;
    uv_timer_init(&bench->loop, &timer);
    uint64_t begun = uv_hrtime();
    while (leading(bench) < bench->options.groups) {
        round_of(bench, &timer, true);
        if (uv_hrtime() - begun > UINT64_C(60000000000)) {
            fprintf(stderr, "only %zu of %u groups have a leader after a minute\n", leading(bench),
                    bench->options.groups);
            exit(1);
        }
    }
    printf("%u groups have leaders after %.3f s\n", bench->options.groups, (double)(uv_hrtime() - begun) / 1e9);
    bench->running = !bench->options.idle;
    begun = uv_hrtime();
    uint64_t end = begun + (uint64_t)bench->options.seconds * UINT64_C(1000000000);
    double cpu = cpu_seconds();
    for (unsigned n = 0; n < NODES && bench->running; n++) {
        for (unsigned g = 0; g < bench->options.groups; g++) {
            fill_window(&bench->replicas[n][g]);
        }
    }
    while (uv_hrtime() < end) {
        round_of(bench, &timer, true);
    }
    report(bench, (double)(uv_hrtime() - begun) / 1e9, cpu_seconds() - cpu);
}

static void take_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){.groups = 1, .window = 128, .seconds = 5, .size = 256, .dir = "/tmp/lightq-bench"};
    for (int i = 1; i < argc; i++) {
        unsigned value = i + 1 < argc ? (unsigned)strtoul(argv[i + 1], NULL, 0) : 0;
        if (strcmp(argv[i], "--idle") == 0) {
            options->idle = true;
            continue;
        }
        if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc) {
            options->dir = argv[i + 1];
        } else if (strcmp(argv[i], "--groups") == 0 && value != 0) {
            options->groups = value;
        } else if (strcmp(argv[i], "--window") == 0 && value != 0) {
            options->window = value;
        } else if (strcmp(argv[i], "--seconds") == 0 && value != 0) {
            options->seconds = value;
        } else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            options->size = value;
        } else {
            fprintf(stderr, "usage: %s [--groups N] [--window N] [--size BYTES] [--seconds N] [--dir DIR] [--idle]\n",
                    argv[0]);
            exit(2);
        }
        i++;
    }
}

int main(int argc, char **argv)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert(bench != NULL);
    take_options(&bench->options, argc, argv);
    lq_log_configure(LQ_LOG_WARN, 2);
    if (mkdir(bench->options.dir, 0700) != 0) {
        perror(bench->options.dir);
        return 1;
    }
    uv_loop_init(&bench->loop);
    bench->payload = calloc(1, bench->options.size + 1);
    bench->samples = malloc(SAMPLES_MAX * sizeof *bench->samples);
    assert(bench->payload != NULL && bench->samples != NULL);
    for (unsigned n = 0; n < NODES; n++) {
        struct node *node = &bench->nodes[n];
        node->bench = bench;
        node->id = n + 1;
        node->link.ops = &link_ops;
        node->last = &node->first;
        open_node(bench, node);
    }
    for (unsigned n = 0; n < NODES; n++) {
        open_groups(bench, n);
    }
    run(bench);
    return 0; /* the process ends: nothing is closed */
}
