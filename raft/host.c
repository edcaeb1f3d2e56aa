/* raft/host.c - see host.h. Keeps the groups of a shard: a map by group id, a list of those with work, a heap of those
 * that wait for a time, and for each peer node what is gathered for the end of the turn. A turn costs only the groups
 * on the list; a thousand idle ones cost their heartbeats, which travel in one frame a peer. Loop thread only. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "raft/group.h"
#include "raft/heap.h"

enum {
    DEFAULT_ELECTION_MS = 1000,
    DEFAULT_HEARTBEAT_MS = 100,
    DEFAULT_STALL_MS = 1500,
    DEFAULT_FAILOVER_MIN_MS = 20,
    DEFAULT_FAILOVER_MAX_MS = 120,
    TICK_MIN_MS = 10,
    TICK_MAX_MS = 25,
    TICKS_A_HEARTBEAT = 5,
    STATUS_INTERVAL_MS = 200,
    TURN_PASSES_MAX = 4, /* over the list of groups with work, within one turn */
};
#define DEFAULT_WINDOW_BYTES  (UINT64_C(4) << 20)
#define DEFAULT_RESERVE_BYTES (UINT64_C(64) << 20)

void lq_host_now(struct lq_host *host)
{
    uint64_t now = lq_clock_monotonic_ms(host->clock);
    host->now_ms = now > host->now_ms ? now : host->now_ms;
}

/* ---- the list of groups with work ---- */

void lq_group_dirty(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (group->dirty || group->closed) {
        return;
    }
    group->dirty = true;
    group->dirty_next = NULL;
    if (host->dirty_last == NULL) {
        host->dirty_first = group;
    } else {
        host->dirty_last->dirty_next = group;
    }
    host->dirty_last = group;
}

static void undirty(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (!group->dirty) {
        return;
    }
    struct lq_group *before = NULL;
    for (struct lq_group *at = host->dirty_first; at != group; at = at->dirty_next) {
        before = at;
    }
    if (before == NULL) {
        host->dirty_first = group->dirty_next;
    } else {
        before->dirty_next = group->dirty_next;
    }
    if (host->dirty_last == group) {
        host->dirty_last = before;
    }
    group->dirty = false;
}

/* ---- the heap of groups that wait for a time ---- */

static void heap_put(struct lq_host *host, size_t at, struct lq_group *group)
{
    host->heap[at] = group;
    group->heap_at = at;
}

static void heap_up(struct lq_host *host, size_t at)
{
    struct lq_group *group = host->heap[at];
    for (; at > 1 && host->heap[at / 2]->due_ms > group->due_ms; at /= 2) {
        heap_put(host, at, host->heap[at / 2]);
    }
    heap_put(host, at, group);
}

static void heap_down(struct lq_host *host, size_t at)
{
    struct lq_group *group = host->heap[at];
    for (;;) {
        size_t child = at * 2;
        if (child < host->heap_count && host->heap[child + 1]->due_ms < host->heap[child]->due_ms) {
            child++;
        }
        if (child > host->heap_count || host->heap[child]->due_ms >= group->due_ms) {
            break;
        }
        heap_put(host, at, host->heap[child]);
        at = child;
    }
    heap_put(host, at, group);
}

static void heap_remove(struct lq_group *group)
{
    struct lq_host *host = group->host;
    size_t at = group->heap_at;
    if (at == 0) {
        return;
    }
    group->heap_at = 0;
    struct lq_group *last = host->heap[host->heap_count--];
    if (last != group) {
        heap_put(host, at, last);
        heap_up(host, at);
        heap_down(host, last->heap_at);
    }
}

/* The heap holds every group, so that a rearm never allocates. */
static lightq_status heap_reserve(struct lq_host *host)
{
    if (host->heap_count + 1 < host->heap_capacity) {
        return LIGHTQ_OK;
    }
    size_t capacity = host->heap_capacity == 0 ? 16 : host->heap_capacity * 2;
    struct lq_group **heap = realloc(host->heap, capacity * sizeof(struct lq_group *));
    if (heap == NULL) {
        return LIGHTQ_ENOMEM;
    }
    host->heap = heap;
    host->heap_capacity = capacity;
    return LIGHTQ_OK;
}

/* Later times are not written: the group is looked at when its old time comes, and put back (most timers of a follower
 * are put off by the next heartbeat). */
void lq_host_rearm(struct lq_group *group)
{
    uint64_t due = lq_group_due(group);
    if (group->heap_at != 0 && due < group->due_ms) {
        group->due_ms = due;
        heap_up(group->host, group->heap_at);
    }
}

lightq_status lq_host_remember(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (heap_reserve(host) != LIGHTQ_OK) {
        return LIGHTQ_ENOMEM;
    }
    HASH_ADD(hh, host->groups, id, sizeof group->id, group);
    group->due_ms = LQ_NEVER;
    heap_put(host, ++host->heap_count, group);
    return LIGHTQ_OK;
}

void lq_host_forget(struct lq_group *group)
{
    undirty(group);
    heap_remove(group);
    HASH_DEL(group->host->groups, group);
}

/* ---- reads ---- */

static void unlink_read(struct lq_read *read)
{
    if (read->prev != NULL) {
        read->prev->next = read->next;
    } else if (read->host != NULL) {
        read->host->reads = read->next;
    }
    if (read->next != NULL) {
        read->next->prev = read->prev;
    }
}

static void on_read(struct lq_rlog_read *rlog_read, lightq_status status)
{
    struct lq_read *read = rlog_read->data;
    if (read->host != NULL) {
        unlink_read(read);
        lq_host_now(read->host);
        if (read->group != NULL) {
            read->cb(read->group, read, status);
        }
    }
    free(read);
}

lightq_status lq_host_read(struct lq_group *group, uint64_t index, uint64_t bytes_max, lq_replica_id peer,
                           void (*cb)(struct lq_group *group, struct lq_read *read, lightq_status status),
                           struct lq_read **out)
{
    struct lq_host *host = group->host;
    struct lq_read *read = calloc(1, sizeof *read);
    if (read == NULL) {
        return LIGHTQ_ENOMEM;
    }
    read->host = host;
    read->group = group;
    read->cb = cb;
    read->peer = peer;
    read->read = (struct lq_rlog_read){.index = index, .bytes_max = bytes_max, .cb = on_read, .data = read};
    lightq_status status = lq_rlog_read(group->log, &read->read);
    if (status != LIGHTQ_OK) {
        free(read);
        return status;
    }
    read->next = host->reads;
    if (host->reads != NULL) {
        host->reads->prev = read;
    }
    host->reads = read;
    *out = read;
    return LIGHTQ_OK;
}

/* Reads in flight: nobody waits for them any more. @freed: they will never come back. */
static void leave_reads(struct lq_host *host, bool freed)
{
    struct lq_read *read = host->reads;
    while (read != NULL) {
        struct lq_read *next = read->next;
        if (freed) {
            free(read);
        } else {
            *read = (struct lq_read){.read = read->read};
        }
        read = next;
    }
    host->reads = NULL;
}

/* ---- peers ---- */

static struct lq_host_peer *find_peer(const struct lq_host *host, uint32_t node)
{
    struct lq_host_peer *peer;
    HASH_FIND(hh, host->peers, &node, sizeof node, peer);
    return peer;
}

static struct lq_host_peer *get_peer(struct lq_host *host, uint32_t node)
{
    struct lq_host_peer *peer = find_peer(host, node);
    if (peer == NULL) {
        peer = calloc(1, sizeof *peer);
        if (peer != NULL) {
            peer->node = node;
            HASH_ADD(hh, host->peers, node, sizeof peer->node, peer);
        }
    }
    return peer;
}

lightq_status lq_host_send(struct lq_host *host, uint32_t node, const struct lq_frame *frame)
{
    lightq_status status = host->link->ops->send(host->link, node, frame);
    if (status != LIGHTQ_OK) {
        host->counters.messages_dropped++;
    }
    return status;
}

void lq_host_message(struct lq_group *group, const struct raft_message *message)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    if (lq_rpc_encode(group->id, group->self, message, &head, &frame) != LIGHTQ_OK) {
        group->host->counters.messages_dropped++;
        return;
    }
    lq_group_trace(group, LQ_TRACE_SEND, message->type, message->server_id);
    (void)lq_host_send(group->host, lq_replica_node(message->server_id), &frame); /* Raft asks again */
}

static void send_gathered(struct lq_host *host, struct lq_host_peer *peer)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    if (peer->beat_count + peer->result_count == 0) {
        return;
    }
    lightq_status status =
        lq_rpc_encode_heartbeats(peer->beats, peer->beat_count, peer->results, peer->result_count, &head, &frame);
    peer->beat_count = peer->result_count = 0;
    if (status != LIGHTQ_OK) {
        host->counters.messages_dropped++;
        return;
    }
    (void)lq_host_send(host, peer->node, &frame);
    lq_slab_unref(frame.body);
}

/* Room for one more in the peer's frame of this turn; NULL when there is none. */
static struct lq_host_peer *gather(struct lq_host *host, uint32_t node)
{
    struct lq_host_peer *peer = get_peer(host, node);
    if (peer == NULL) {
        host->counters.messages_dropped++;
        return NULL;
    }
    if (peer->beat_count + peer->result_count == LQ_PEER_HEARTBEATS_MAX) {
        send_gathered(host, peer);
    }
    if (!peer->gathering) {
        peer->gathering = true;
        peer->gather_next = host->gathering;
        host->gathering = peer;
    }
    return peer;
}

/* Doubles an array of @size-byte things; false when there is no memory. */
static bool grow(void **array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = realloc(*array, wanted * size);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

void lq_host_beat(struct lq_host *host, const struct lq_heartbeat *beat)
{
    struct lq_host_peer *peer = gather(host, lq_replica_node(beat->to));
    if (peer == NULL) {
        return;
    }
    void *beats = peer->beats;
    if (!grow(&beats, peer->beat_count, &peer->beat_capacity, sizeof *beat)) {
        host->counters.messages_dropped++;
        return;
    }
    peer->beats = beats;
    peer->beats[peer->beat_count++] = *beat;
}

void lq_host_result(struct lq_host *host, const struct lq_heartbeat_result *result)
{
    struct lq_host_peer *peer = gather(host, lq_replica_node(result->to));
    if (peer == NULL) {
        return;
    }
    void *results = peer->results;
    if (!grow(&results, peer->result_count, &peer->result_capacity, sizeof *result)) {
        host->counters.messages_dropped++;
        return;
    }
    peer->results = results;
    peer->results[peer->result_count++] = *result;
}

static void flush_gathered(struct lq_host *host)
{
    while (host->gathering != NULL) {
        struct lq_host_peer *peer = host->gathering;
        host->gathering = peer->gather_next;
        peer->gathering = false;
        send_gathered(host, peer);
    }
}

bool lq_host_connected(struct lq_host *host, uint32_t node)
{
    return host->link->ops->connected(host->link, node);
}

/* ---- space and status ---- */

bool lq_host_short_of_space(const struct lq_host *host, uint32_t node)
{
    if (node == host->node) {
        return host->space.total_bytes != 0 && host->space.free_bytes < host->reserve_bytes;
    }
    const struct lq_host_peer *peer = find_peer(host, node);
    return peer != NULL && peer->status_known && peer->status.free_bytes < host->reserve_bytes;
}

uint64_t lq_host_free_bytes(const struct lq_host *host, uint32_t node)
{
    if (node == host->node) {
        return host->space.free_bytes;
    }
    const struct lq_host_peer *peer = find_peer(host, node);
    return peer != NULL && peer->status_known ? peer->status.free_bytes : 0;
}

static void status_round(struct lq_host *host)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    host->status_ms = host->now_ms + STATUS_INTERVAL_MS;
    bool was_short = lq_host_short_of_space(host, host->node);
    if (lq_store_space(host->store, &host->space) != LIGHTQ_OK) {
        host->space.total_bytes = 0; /* not known: nothing is refused for it */
        return;
    }
    host->space_epoch += was_short != lq_host_short_of_space(host, host->node);
    struct lq_node_status status = {.free_bytes = host->space.free_bytes,
                                    .total_bytes = host->space.total_bytes,
                                    .groups = HASH_COUNT(host->groups),
                                    .leading = (uint32_t)lq_host_leading(host)};
    lq_rpc_encode_status(&status, &head, &frame);
    struct lq_host_peer *peer;
    struct lq_host_peer *next;
    HASH_ITER(hh, host->peers, peer, next)
    {
        if (lq_host_connected(host, peer->node)) {
            (void)lq_host_send(host, peer->node, &frame);
        }
    }
}

/* ---- what the link gives ---- */

static lightq_status on_heartbeats(struct lq_host *host, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_heartbeats heartbeats;
    struct lq_err err;
    struct lq_group *group;
    lightq_status status = lq_rpc_decode_heartbeats(frame, node, host->node, &heartbeats, &err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (uint32_t i = 0; i < heartbeats.beat_count; i++) {
        struct lq_heartbeat beat;
        lq_heartbeats_beat(&heartbeats, i, &beat);
        HASH_FIND(hh, host->groups, &beat.group, sizeof beat.group, group);
        if (group != NULL) {
            lq_group_receive_beat(group, &beat);
        } else if (host->events->unknown_group != NULL) {
            host->events->unknown_group(host->owner, node, beat.group);
        }
    }
    for (uint32_t i = 0; i < heartbeats.result_count; i++) {
        struct lq_heartbeat_result result;
        lq_heartbeats_result(&heartbeats, i, &result);
        HASH_FIND(hh, host->groups, &result.group, sizeof result.group, group);
        if (group != NULL) {
            lq_group_receive_result(group, &result);
        }
    }
    return LIGHTQ_OK;
}

static lightq_status on_status(struct lq_host *host, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_node_status status;
    struct lq_err err;
    struct lq_host_peer *peer = get_peer(host, node);
    lightq_status decoded = lq_rpc_decode_status(frame, &status, &err);
    if (decoded != LIGHTQ_OK || peer == NULL) {
        return decoded;
    }
    bool was_short = lq_host_short_of_space(host, node);
    peer->status = status;
    peer->status_known = true;
    host->space_epoch += was_short != lq_host_short_of_space(host, node);
    return LIGHTQ_OK;
}

static lightq_status on_group_frame(struct lq_host *host, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_group *group;
    struct lq_rpc rpc;
    struct lq_err err;
    lightq_status status = lq_rpc_decode(frame, node, host->node, &host->scratch, &rpc, &err);
    if (status == LIGHTQ_ENOMEM) {
        host->counters.messages_dropped++;
        return LIGHTQ_OK;
    }
    if (status != LIGHTQ_OK) {
        lq_log(WARN, "a peer sent what is not a message", "node", node, "why", err.text);
        return status;
    }
    HASH_FIND(hh, host->groups, &rpc.group, sizeof rpc.group, group);
    if (group != NULL) {
        lq_group_receive(group, &rpc);
    } else if (host->events->unknown_group != NULL) {
        host->events->unknown_group(host->owner, node, rpc.group);
    }
    return LIGHTQ_OK;
}

static lightq_status on_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_host *host = owner;
    lq_host_now(host);
    lightq_status status;
    switch (frame->type) {
    case LQ_FRAME_HEARTBEATS:
        status = on_heartbeats(host, node, frame);
        break;
    case LQ_FRAME_STATUS:
        status = on_status(host, node, frame);
        break;
    case LQ_FRAME_NODE:
        status = host->events->node_frame == NULL ? LIGHTQ_OK : host->events->node_frame(host->owner, node, frame);
        break;
    case LQ_FRAME_APPEND:
    case LQ_FRAME_APPEND_RESULT:
    case LQ_FRAME_VOTE:
    case LQ_FRAME_VOTE_RESULT:
    case LQ_FRAME_INSTALL:
    case LQ_FRAME_TIMEOUT_NOW:
        status = on_group_frame(host, node, frame);
        break;
    default:
        status = LIGHTQ_EPROTO;
        break;
    }
    host->counters.frames_malformed += status == LIGHTQ_EPROTO;
    return status;
}

static void on_up(void *owner, uint32_t node)
{
    struct lq_host *host = owner;
    lq_host_now(host);
    (void)get_peer(host, node); /* without memory it only gets no status */
    if (host->events->link_changed != NULL) {
        host->events->link_changed(host->owner, node, true);
    }
}

static void on_down(void *owner, uint32_t node, bool refused)
{
    struct lq_host *host = owner;
    struct lq_host_peer *peer = find_peer(host, node);
    struct lq_group *group;
    struct lq_group *next;
    lq_host_now(host);
    if (peer != NULL) {
        peer->beat_count = peer->result_count = 0;
    }
    HASH_ITER(hh, host->groups, group, next)
    {
        lq_group_link_down(group, node, refused);
    }
    if (host->events->link_changed != NULL) {
        host->events->link_changed(host->owner, node, false);
    }
}

const struct lq_link_events lq_host_link_events = {.receive = on_frame, .up = on_up, .down = on_down};

/* ---- turn and tick ---- */

/* One pass over the groups that had work when it began; what they add is for the next pass. */
static void pass(struct lq_host *host)
{
    struct lq_group *last = host->dirty_last;
    while (host->dirty_first != NULL) {
        struct lq_group *group = host->dirty_first;
        bool was_last = group == last;
        host->dirty_first = group->dirty_next;
        if (host->dirty_first == NULL) {
            host->dirty_last = NULL;
        }
        group->dirty = false;
        lq_group_turn(group);
        if (was_last) {
            break;
        }
    }
}

void lq_host_turn(struct lq_host *host)
{
    lq_host_now(host);
    for (unsigned i = 0; i < TURN_PASSES_MAX && host->dirty_first != NULL; i++) {
        pass(host);
    }
    flush_gathered(host);
    lq_store_flush(host->store);
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

uint64_t lq_host_deadline_us(struct lq_host *host)
{
    if (host->dirty_first != NULL) {
        return lq_clock_monotonic_us(host->clock);
    }
    if (host->groups == NULL) {
        return LQ_NEVER;
    }
    uint64_t due = host->heap_count == 0 ? LQ_NEVER : host->heap[1]->due_ms;
    due = due < host->status_ms ? due : host->status_ms;
    return round_up(due, host->tick_ms) * 1000; /* all groups of a tick together */
}

static void drain_tick(struct lq_host *host)
{
    struct lq_group *group;
    struct lq_group *next;
    HASH_ITER(hh, host->groups, group, next)
    {
        if (lq_group_leads(group) && lq_group_transfer(group, 0) != LIGHTQ_OK) {
            continue; /* again in the next tick */
        }
    }
}

void lq_host_tick(struct lq_host *host)
{
    lq_host_now(host);
    while (host->heap_count != 0 && host->heap[1]->due_ms <= host->now_ms) {
        struct lq_group *group = host->heap[1];
        uint64_t due = lq_group_due(group);
        if (due <= host->now_ms) {
            lq_group_tick(group);
            due = lq_group_due(group);
            due = due > host->now_ms ? due : host->now_ms + host->tick_ms; /* never twice in one tick */
        }
        group->due_ms = due;
        heap_down(host, group->heap_at);
    }
    if (host->now_ms >= host->status_ms) {
        status_round(host);
    }
    if (host->draining) {
        drain_tick(host);
    }
    lq_host_turn(host);
}

/* ---- life ---- */

static lightq_status make_arrays(struct lq_host *host)
{
    host->refs = malloc(LQ_PEER_ENTRIES_MAX * sizeof *host->refs);
    return host->refs == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
}

static unsigned or_default(unsigned value, unsigned otherwise)
{
    return value != 0 ? value : otherwise;
}

static void take_options(struct lq_host *host, const struct lq_host_options *options)
{
    host->node = options->node;
    host->election_ms = or_default(options->election_timeout_ms, DEFAULT_ELECTION_MS);
    host->heartbeat_ms = or_default(options->heartbeat_ms, DEFAULT_HEARTBEAT_MS);
    host->stall_ms = or_default(options->stall_ms, DEFAULT_STALL_MS);
    host->window_bytes = options->window_bytes != 0 ? options->window_bytes : DEFAULT_WINDOW_BYTES;
    host->reserve_bytes = options->reserve_bytes != 0 ? options->reserve_bytes : DEFAULT_RESERVE_BYTES;
    host->failover_min_ms = or_default(options->fast_failover_min_ms, DEFAULT_FAILOVER_MIN_MS);
    host->failover_max_ms = or_default(options->fast_failover_max_ms, DEFAULT_FAILOVER_MAX_MS);
    host->fast_failover = !options->no_fast_failover;
    host->tick_ms = host->heartbeat_ms / TICKS_A_HEARTBEAT;
    host->tick_ms = host->tick_ms < TICK_MIN_MS ? TICK_MIN_MS : host->tick_ms;
    host->tick_ms = host->tick_ms > TICK_MAX_MS ? TICK_MAX_MS : host->tick_ms;
}

lightq_status lq_host_new(const struct lq_host_options *options, struct lq_clock *clock, struct lq_store *store,
                          struct lq_link *link, const struct lq_host_events *events, void *owner, struct lq_host **out,
                          struct lq_err *err)
{
    if (options->node == 0 || options->node > LQ_NODES_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "%" PRIu32 " is not a node id: it must be 1 to %d", options->node,
                          LQ_NODES_MAX);
    }
    struct lq_host *host = calloc(1, sizeof *host);
    if (host == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory for the Raft host");
    }
    take_options(host, options);
    if (host->heartbeat_ms * 2 > host->election_ms || host->failover_max_ms < host->failover_min_ms) {
        free(host);
        return lq_err_set(err, LIGHTQ_EINVAL,
                          "the election timeout must be at least two heartbeats, and fast failover's least delay not "
                          "above its greatest");
    }
    if (make_arrays(host) != LIGHTQ_OK) {
        free(host);
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory for the Raft host");
    }
    host->clock = clock;
    host->store = store;
    host->link = link;
    host->events = events;
    host->owner = owner;
    host->space_epoch = 1;
    lq_raft_heap_install();
    lq_rpc_scratch_init(&host->scratch, lq_raft_token());
    lq_host_now(host);
    host->status_ms = host->now_ms;
    *out = host;
    return LIGHTQ_OK;
}

static const struct lq_rlog_events no_events;

static void free_host(struct lq_host *host, bool abandoned)
{
    struct lq_group *group;
    struct lq_group *next_group;
    HASH_ITER(hh, host->groups, group, next_group)
    {
        lq_host_forget(group);
        if (!abandoned) {
            lq_rlog_set_events(group->log, &no_events, NULL);
        }
        group->closed = true;
        lq_group_free(group);
    }
    struct lq_host_peer *peer;
    struct lq_host_peer *next_peer;
    HASH_ITER(hh, host->peers, peer, next_peer)
    {
        HASH_DEL(host->peers, peer);
        free(peer->beats);
        free(peer->results);
        free(peer);
    }
    leave_reads(host, abandoned);
    lq_rpc_scratch_deinit(&host->scratch);
    free(host->refs);
    free(host->heap);
    free(host);
}

void lq_host_free(struct lq_host *host)
{
    if (host != NULL) {
        free_host(host, false);
    }
}

void lq_host_abandon(struct lq_host *host)
{
    if (host != NULL) {
        free_host(host, true);
    }
}

void lq_host_drain(struct lq_host *host)
{
    host->draining = true;
    lq_host_now(host);
    drain_tick(host);
    struct lq_group *group;
    struct lq_group *next;
    HASH_ITER(hh, host->groups, group, next)
    {
        group->failover_ms = LQ_NEVER;
    }
}

size_t lq_host_leading(const struct lq_host *host)
{
    size_t leading = 0;
    const struct lq_group *group;
    for (group = host->groups; group != NULL; group = group->hh.next) {
        /* A sole voter has nobody to hand over to: a drain does not wait for it. */
        leading += lq_group_leads(group) && !(host->draining && lq_group_alone(group));
    }
    return leading;
}

struct lq_group *lq_host_find(struct lq_host *host, uint64_t id)
{
    struct lq_group *group;
    HASH_FIND(hh, host->groups, &id, sizeof id, group);
    return group;
}

void lq_host_count_up(const struct lq_host *host, struct lq_host_counters *counters)
{
    *counters = host->counters;
}

void lq_host_set_trace(struct lq_host *host, lq_trace_cb cb, void *data)
{
    host->trace = cb;
    host->trace_data = data;
}

void lq_group_close(struct lq_group *group, bool destroy)
{
    lq_host_forget(group);
    lq_rlog_set_events(group->log, &no_events, NULL);
    group->closed = true;
    group->destroy = destroy;
    if (!group->in_turn) {
        lq_group_free(group);
    }
}
