/* tests/bench/bench_transport.c - how fast the peer links are: two transports in one process, each on a loop and thread
 * of its own, over loopback TCP. Prints a line per kind of traffic. Not a test: docs/performance.md has the figures.
 *
 *     bench_transport [seconds per line, default 2]
 *
 * "link": the receiver looks at nothing. "decode": it checks everything as the host does, entry crcs included. The last
 * line is the time of one small frame there and one back. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/clock.h"
#include "client/base/log.h"
#include "raft/rpc.h"
#include "raft/transport.h"

enum { SENDER = 1, RECEIVER = 2, GROUP = 9, QUEUE_AHEAD_BYTES = 4 * 1024 * 1024, ROUND_TRIPS = 20000 };

struct kind {
    const char *name;
    uint32_t payload, entries; /* of a frame; 0 entries: an AppendEntries result */
    bool decode;
};

struct end {
    uv_loop_t loop;
    uv_async_t wake; /* to be looked at: stop */
    struct lq_transport *transport;
    uint32_t node;
    bool decode, echo, closed;
    bool stop;                   /* atomic */
    uint64_t frames, bytes, bad; /* read by the other thread only after it has joined, but for frames (atomic) */
    struct lq_rpc_scratch scratch;
    pthread_t thread;
};

static uint64_t now_us(void)
{
    return lq_clock_monotonic_us(lq_clock_system());
}

/* ---- events ---- */

static lightq_status on_receive(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct end *end = owner;
    end->bytes += frame->size;
    __atomic_fetch_add(&end->frames, 1, __ATOMIC_RELAXED);
    if (end->decode) {
        struct lq_rpc rpc;
        end->bad += lq_rpc_decode(frame, node, end->node, &end->scratch, &rpc, NULL) != LIGHTQ_OK;
    }
    if (end->echo) {
        struct lq_frame back = {.type = frame->type,
                                .group = frame->group,
                                .head = frame->slab->bytes + frame->offset,
                                .head_size = frame->head_size};
        struct lq_link *link = lq_transport_link(end->transport);
        end->bad += link->ops->send(link, node, &back) != LIGHTQ_OK;
    }
    return LIGHTQ_OK;
}

static void on_up(void *owner, uint32_t node)
{
    (void)owner;
    (void)node;
}

static void on_down(void *owner, uint32_t node, bool refused)
{
    (void)owner;
    (void)node;
    (void)refused;
}

static void on_wake(uv_async_t *wake)
{
    (void)wake;
}

static void on_closed(void *data)
{
    struct end *end = data;
    end->closed = true;
}

/* ---- ends ---- */

static void end_init(struct end *end, uint32_t node)
{
    struct lq_transport_options options = {.node = node, .boot_count = 1, .boot_nonce = node, .shards = 1};
    struct lq_transport_events events = {.link = {.receive = on_receive, .up = on_up, .down = on_down},
                                         .link_owner = end};
    struct lq_err err;
    memset(options.uuid.bytes, (int)node, sizeof options.uuid.bytes);
    memset(options.cluster.bytes, 7, sizeof options.cluster.bytes);
    *end = (struct end){.node = node};
    lq_rpc_scratch_init(&end->scratch, NULL);
    int rv = uv_loop_init(&end->loop);
    assert(rv == 0);
    rv = uv_async_init(&end->loop, &end->wake, on_wake);
    assert(rv == 0);
    if (lq_transport_new(&options, &end->loop, lq_clock_system(), &end->transport, &err) != LIGHTQ_OK ||
        lq_transport_listen(end->transport, "127.0.0.1", 0, false, &events, &err) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

static void end_join(struct end *end, const struct end *other)
{
    lightq_status status =
        lq_transport_set_peer(end->transport, other->node, "127.0.0.1", lq_transport_port(other->transport), NULL);
    assert(status == LIGHTQ_OK);
    (void)status;
}

static void end_deinit(struct end *end)
{
    lq_transport_close(end->transport, on_closed, end);
    uv_close((uv_handle_t *)&end->wake, NULL);
    uv_run(&end->loop, UV_RUN_DEFAULT);
    assert(end->closed);
    int rv = uv_loop_close(&end->loop);
    assert(rv == 0);
    lq_rpc_scratch_deinit(&end->scratch);
}

static void *run_receiver(void *data)
{
    struct end *end = data;
    while (!__atomic_load_n(&end->stop, __ATOMIC_ACQUIRE)) {
        uv_run(&end->loop, UV_RUN_ONCE);
        lq_transport_turn(end->transport);
    }
    return NULL;
}

static void stop_receiver(struct end *end)
{
    __atomic_store_n(&end->stop, true, __ATOMIC_RELEASE);
    uv_async_send(&end->wake);
    pthread_join(end->thread, NULL);
}

static bool is_connected(struct end *end, uint32_t node)
{
    struct lq_link *link = lq_transport_link(end->transport);
    return link->ops->connected(link, node);
}

/* ---- traffic ---- */

/* The entries of one frame, each in a slab of its own as the host makes them. */
static struct lq_entry_ref *make_entries(const struct kind *kind)
{
    struct lq_entry_ref *refs = calloc(kind->entries + 1, sizeof *refs);
    assert(refs != NULL);
    for (uint32_t i = 0; i < kind->entries; i++) {
        uint64_t size = lq_entry_size(kind->payload);
        struct lq_slab *slab = lq_slab_new(size);
        assert(slab != NULL);
        memset(slab->bytes, (int)i, size);
        struct lq_entry entry = {.group = GROUP,
                                 .index = i + 1,
                                 .term = 1,
                                 .prev_term = i == 0 ? 0 : 1,
                                 .commit_index = i,
                                 .type = LQ_ENTRY_COMMAND,
                                 .payload_size = kind->payload};
        lq_entry_seal(slab->bytes, &entry);
        refs[i] = (struct lq_entry_ref){.slab = slab, .size = (uint32_t)size};
    }
    return refs;
}

static lightq_status send_one(struct lq_link *link, const struct kind *kind, const struct lq_entry_ref *refs)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    lightq_status status;
    struct raft_message message = {.server_id = lq_replica_make(RECEIVER, 1)};
    if (kind->entries == 0) {
        message.type = RAFT_APPEND_ENTRIES_RESULT;
        message.append_entries_result = (struct raft_append_entries_result){.version = 2, .term = 1};
        status = lq_rpc_encode(GROUP, lq_replica_make(SENDER, 1), &message, &head, &frame);
    } else {
        message.type = RAFT_APPEND_ENTRIES;
        message.append_entries = (struct raft_append_entries){.term = 1};
        status = lq_rpc_encode_append(GROUP, lq_replica_make(SENDER, 1), &message, refs, kind->entries, &head, &frame);
    }
    return status == LIGHTQ_OK ? link->ops->send(link, RECEIVER, &frame) : status;
}

static void bench(const struct kind *kind, uint64_t duration_us)
{
    struct end sender, receiver;
    end_init(&sender, SENDER);
    end_init(&receiver, RECEIVER);
    receiver.decode = kind->decode;
    end_join(&sender, &receiver);
    end_join(&receiver, &sender);
    struct lq_entry_ref *refs = make_entries(kind);
    struct lq_link *link = lq_transport_link(sender.transport);
    pthread_create(&receiver.thread, NULL, run_receiver, &receiver);
    while (!is_connected(&sender, RECEIVER)) {
        uv_run(&sender.loop, UV_RUN_ONCE);
    }

    uint64_t begin = now_us(), end = begin + duration_us, sent = 0;
    while (now_us() < end) {
        while (link->ops->queued(link, RECEIVER) < QUEUE_AHEAD_BYTES) {
            if (send_one(link, kind, refs) != LIGHTQ_OK) {
                fprintf(stderr, "a frame was refused\n");
                exit(1);
            }
            sent++;
        }
        lq_transport_turn(sender.transport);
        uv_run(&sender.loop, UV_RUN_NOWAIT);
    }
    while (__atomic_load_n(&receiver.frames, __ATOMIC_RELAXED) < sent) {
        lq_transport_turn(sender.transport);
        uv_run(&sender.loop, UV_RUN_NOWAIT);
    }
    double seconds = (double)(now_us() - begin) / 1e6;
    stop_receiver(&receiver);
    printf("%-34s %-7s %9.0f MB/s %10.0f frames/s %10.0f entries/s%s\n", kind->name, kind->decode ? "decode" : "link",
           (double)receiver.bytes / 1e6 / seconds, (double)sent / seconds, (double)sent * kind->entries / seconds,
           receiver.bad != 0 ? "  BAD FRAMES" : "");
    end_deinit(&sender);
    end_deinit(&receiver);
    for (uint32_t i = 0; i < kind->entries; i++) {
        assert(refs[i].slab->references == 1);
        lq_slab_unref(refs[i].slab);
    }
    free(refs);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void bench_round_trip(void)
{
    struct end sender, receiver;
    end_init(&sender, SENDER);
    end_init(&receiver, RECEIVER);
    receiver.echo = true;
    end_join(&sender, &receiver);
    end_join(&receiver, &sender);
    while (!is_connected(&sender, RECEIVER) || !is_connected(&receiver, SENDER)) {
        uv_run(&sender.loop, UV_RUN_NOWAIT);
        uv_run(&receiver.loop, UV_RUN_NOWAIT);
    }
    pthread_create(&receiver.thread, NULL, run_receiver, &receiver);
    double *times = calloc(ROUND_TRIPS, sizeof *times);
    assert(times != NULL);
    struct lq_link *link = lq_transport_link(sender.transport);
    const struct kind kind = {.entries = 0};
    for (size_t i = 0; i < ROUND_TRIPS; i++) {
        uint64_t begin = now_us();
        lightq_status status = send_one(link, &kind, NULL);
        assert(status == LIGHTQ_OK);
        (void)status;
        lq_transport_turn(sender.transport);
        while (sender.frames <= i) {
            uv_run(&sender.loop, UV_RUN_ONCE);
        }
        times[i] = (double)(now_us() - begin);
    }
    stop_receiver(&receiver);
    qsort(times, ROUND_TRIPS, sizeof *times, compare);
    printf("round trip of a small frame: p50 %.0f us, p99 %.0f us\n", times[ROUND_TRIPS / 2],
           times[ROUND_TRIPS * 99 / 100]);
    free(times);
    end_deinit(&sender);
    end_deinit(&receiver);
}

int main(int argc, char **argv)
{
    const struct kind kinds[] = {
        {"1 MiB entries, 1 a frame", 1024 * 1024, 1, false},
        {"64 KiB entries, 4 a frame", 64 * 1024, 4, false},
        {"64 KiB entries, 4 a frame", 64 * 1024, 4, true},
        {"4 KiB entries, 64 a frame", 4096, 64, false},
        {"4 KiB entries, 64 a frame", 4096, 64, true},
        {"256 B entries, 512 a frame", 256, 512, false},
        {"256 B entries, 512 a frame", 256, 512, true},
        {"256 B entries, 1 a frame", 256, 1, true},
        {"append results", 0, 0, false},
        {"append results", 0, 0, true},
    };
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    lq_log_configure(LQ_LOG_OFF, 2);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bench(&kinds[i], (uint64_t)(seconds * 1e6));
    }
    bench_round_trip();
    return 0;
}
