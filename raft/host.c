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
    TURN_PASSES_MAX = 4, /* over the list of groups with work, within one turn */
};
#define DEFAULT_WINDOW_BYTES  (UINT64_C(4) << 20)
#define DEFAULT_RESERVE_BYTES (UINT64_C(64) << 20)

void lq_host_now(struct lq_host *host)
{
    uint64_t now = lq_clock_monotonic_ms(host->clock);
    host->now_ms = now > host->now_ms ? now : host->now_ms;
}

/* ---- what the link gives ---- */

bool lq_host_is_confined(const struct lq_host *host, uint32_t node)
{
    const struct lq_host_peer *peer = lq_host_find_peer(host, node);
    return peer != NULL && peer->confined;
}

/* True: it is dropped. */
static bool is_beyond(struct lq_host *host, bool confined, uint64_t group)
{
    host->counters.messages_refused += confined && group != 0;
    return confined && group != 0;
}

lightq_status lq_host_confine(struct lq_host *host, uint32_t node, bool confined)
{
    struct lq_host_peer *peer = lq_host_find_peer(host, node);
    if (peer == NULL && confined) {
        peer = lq_host_get_peer(host, node);
    }
    if (peer != NULL) {
        peer->confined = confined;
    }
    return peer != NULL || !confined ? LIGHTQ_OK : LIGHTQ_ENOMEM;
}

static lightq_status on_heartbeats(struct lq_host *host, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_heartbeats heartbeats;
    struct lq_err err;
    struct lq_group *group;
    bool confined = lq_host_is_confined(host, node);
    lightq_status status = lq_rpc_decode_heartbeats(frame, node, host->node, &heartbeats, &err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (uint32_t i = 0; i < heartbeats.beat_count; i++) {
        struct lq_heartbeat beat;
        lq_heartbeats_beat(&heartbeats, i, &beat);
        if (is_beyond(host, confined, beat.group)) {
            continue;
        }
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
        if (is_beyond(host, confined, result.group)) {
            continue;
        }
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
    struct lq_host_peer *peer = lq_host_get_peer(host, node);
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
    if (is_beyond(host, lq_host_is_confined(host, node), rpc.group)) {
        return LIGHTQ_OK;
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
    (void)lq_host_get_peer(host, node); /* without memory it only gets no status */
    if (host->events->link_changed != NULL) {
        host->events->link_changed(host->owner, node, true);
    }
}

static void on_down(void *owner, uint32_t node, bool refused)
{
    struct lq_host *host = owner;
    struct lq_host_peer *peer = lq_host_find_peer(host, node);
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
    lq_host_flush_gathered(host);
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
    uint64_t due = host->heap_count == 0 ? LQ_NEVER : host->heap[1].due_ms;
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
    while (host->heap_count != 0 && host->heap[1].due_ms <= host->now_ms) {
        struct lq_group *group = host->heap[1].group;
        uint64_t due = lq_group_due(group);
        if (due <= host->now_ms) {
            lq_group_tick(group);
            due = lq_group_due(group);
            due = due > host->now_ms ? due : host->now_ms + host->tick_ms; /* never twice in one tick */
        }
        lq_host_put_off(group, due);
    }
    if (host->now_ms >= host->status_ms) {
        lq_host_status_round(host);
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
    lq_host_leave_reads(host, abandoned);
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
