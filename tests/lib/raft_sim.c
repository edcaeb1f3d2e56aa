/* tests/lib/raft_sim.c - see raft_sim.h. */
#include "tests/lib/raft_sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TURN_DELAY_MAX_US = 200,
    STALLED_RETRY_US = 1000,
    STEP_DELAY_MAX_US = 20,
    UP_DELAY_MAX_US = 20000,
    REFUSED_DELAY_MAX_US = 5000,
    ADMIT_AGAIN_US = 200000,
};

enum kind { KIND_DELIVER, KIND_STEP, KIND_TURN, KIND_WAKE, KIND_UP, KIND_DOWN, KIND_PLANNED };

struct event {
    uint64_t at_us;
    enum kind kind;
    unsigned node, boot; /* whom it concerns */
    unsigned from, pair_epoch;
    struct lq_frame_in frame;
    struct lq_io_job *job;
    bool refused;
    void (*run)(struct sim *sim, void *data);
    void *data;
};

/* Of the heap: when first, without a look at the event. */
struct slot {
    uint64_t at_us, sequence;
    struct event *event;
};

struct pair {
    bool up;
    unsigned epoch;
    bool cut[2]; /* from the lower to the higher node, and back */
    uint64_t queued[2], last_us[2];
};

struct sim {
    struct sim_options options;
    struct sim_node nodes[SIM_NODES_MAX];
    struct pair pairs[SIM_NODES_MAX][SIM_NODES_MAX]; /* a < b */
    struct slot *heap;
    size_t count, capacity;
    uint64_t now_us, sequence, random, hash;
    bool failed;
    char failure[512];
};

/* ---- chance, failure, hash ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t sim_random(struct sim *sim)
{
    return next_random(&sim->random);
}

uint64_t sim_random_below(struct sim *sim, uint64_t bound)
{
    return bound == 0 ? 0 : sim_random(sim) % bound;
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    if (sim->failed) {
        return;
    }
    va_list args;
    va_start(args, format);
    sim->failed = true;
    vsnprintf(sim->failure, sizeof sim->failure, format, args);
    va_end(args);
}

const char *sim_failure(const struct sim *sim)
{
    return sim->failed ? sim->failure : NULL;
}

void sim_hash_add(struct sim *sim, uint64_t value)
{
    sim->hash = (sim->hash ^ value) * UINT64_C(0x100000001b3);
    sim->hash ^= sim->hash >> 29;
}

uint64_t sim_hash(const struct sim *sim)
{
    return sim->hash;
}

uint64_t sim_now_us(const struct sim *sim)
{
    return sim->now_us;
}

void *sim_data(const struct sim *sim)
{
    return sim->options.data;
}

/* ---- events ---- */

static bool before(const struct slot *a, const struct slot *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void push(struct sim *sim, struct event event, uint64_t delay_us)
{
    struct event *copy = malloc(sizeof *copy);
    assert(copy != NULL);
    *copy = event;
    copy->at_us = sim->now_us + delay_us;
    const struct slot slot = {.at_us = copy->at_us, .sequence = sim->sequence++, .event = copy};
    if (sim->count == sim->capacity) {
        sim->capacity = sim->capacity == 0 ? 1024 : sim->capacity * 2;
        sim->heap = realloc(sim->heap, sim->capacity * sizeof *sim->heap);
        assert(sim->heap != NULL);
    }
    size_t at = sim->count++;
    for (; at > 0 && before(&slot, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        sim->heap[at] = sim->heap[(at - 1) / 2];
    }
    sim->heap[at] = slot;
}

static struct event *pop(struct sim *sim)
{
    struct event *top = sim->heap[0].event;
    const struct slot last = sim->heap[--sim->count];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child + 1 < sim->count && before(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (child >= sim->count || !before(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    if (sim->count != 0) {
        sim->heap[at] = last;
    }
    return top;
}

void sim_plan(struct sim *sim, uint64_t delay_us, void (*run)(struct sim *sim, void *data), void *data)
{
    push(sim, (struct event){.kind = KIND_PLANNED, .run = run, .data = data}, delay_us);
}

/* ---- clock ---- */

static struct sim_node *of_clock(struct lq_clock *clock)
{
    return (struct sim_node *)(void *)((char *)clock - offsetof(struct sim_node, clock));
}

static uint64_t on_monotonic(struct lq_clock *clock)
{
    return of_clock(clock)->sim->now_us;
}

static uint64_t on_wall(struct lq_clock *clock)
{
    const struct sim_node *node = of_clock(clock);
    return (uint64_t)((int64_t)(node->sim->now_us / 1000) + node->wall_shift_ms);
}

static void on_random(struct lq_clock *clock, void *out, size_t size)
{
    struct sim_node *node = of_clock(clock);
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)out)[i] = (uint8_t)next_random(&node->random);
    }
}

/* ---- network ---- */

static struct pair *pair_of(struct sim *sim, unsigned a, unsigned b)
{
    return a < b ? &sim->pairs[a][b] : &sim->pairs[b][a];
}

static struct sim_node *of_link(struct lq_link *link)
{
    return (struct sim_node *)(void *)((char *)link - offsetof(struct sim_node, link));
}

static struct lq_frame_in flatten(const struct lq_frame *frame)
{
    size_t size = frame->head_size + frame->body_size;
    for (size_t i = 0; i < frame->entry_count; i++) {
        size += frame->entries[i].size;
    }
    struct lq_slab *slab = lq_slab_new(size + 1);
    assert(slab != NULL);
    uint8_t *at = slab->bytes;
    if (frame->head_size != 0) {
        memcpy(at, frame->head, frame->head_size);
        at += frame->head_size;
    }
    if (frame->body_size != 0) {
        memcpy(at, frame->body->bytes + frame->body_offset, frame->body_size);
        at += frame->body_size;
    }
    for (size_t i = 0; i < frame->entry_count; i++) {
        memcpy(at, lq_entry_ref_bytes(&frame->entries[i]), frame->entries[i].size);
        at += frame->entries[i].size;
    }
    return (struct lq_frame_in){.type = frame->type,
                                .group = frame->group,
                                .slab = slab,
                                .size = (uint32_t)size,
                                .head_size = frame->head_size};
}

static uint64_t delay(struct sim *sim)
{
    uint64_t spread = sim->options.delay_max_us - sim->options.delay_min_us + 1;
    return sim->options.delay_min_us + sim_random_below(sim, spread);
}

static lightq_status on_send(struct lq_link *link, uint32_t to_id, const struct lq_frame *frame)
{
    struct sim_node *node = of_link(link);
    struct sim *sim = node->sim;
    unsigned from = node->id - 1;
    unsigned to = to_id - 1;
    assert(to < sim->options.nodes && to != from);
    struct pair *pair = pair_of(sim, from, to);
    unsigned way = from < to ? 0 : 1;
    if (!pair->up) {
        return LIGHTQ_ECONNECT;
    }
    if (pair->cut[way]) {
        return LIGHTQ_OK; /* gone, and nobody knows */
    }
    unsigned copies = 1;
    if (sim->options.reorder) {
        copies -= sim_random_below(sim, 1000) < sim->options.drop_per_mille;
        copies += copies != 0 && sim_random_below(sim, 1000) < sim->options.double_per_mille;
    }
    for (unsigned i = 0; i < copies; i++) {
        struct event event = {
            .kind = KIND_DELIVER, .node = to, .boot = sim->nodes[to].boot, .from = from, .pair_epoch = pair->epoch};
        event.frame = flatten(frame);
        uint64_t after = delay(sim);
        if (!sim->options.reorder && sim->now_us + after < pair->last_us[way]) {
            after = pair->last_us[way] - sim->now_us;
        }
        pair->last_us[way] = sim->now_us + after;
        pair->queued[way] += event.frame.size;
        push(sim, event, after);
    }
    return LIGHTQ_OK;
}

static bool on_connected(struct lq_link *link, uint32_t to_id)
{
    struct sim_node *node = of_link(link);
    return pair_of(node->sim, node->id - 1, to_id - 1)->up;
}

static uint64_t on_queued(struct lq_link *link, uint32_t to_id)
{
    struct sim_node *node = of_link(link);
    return pair_of(node->sim, node->id - 1, to_id - 1)->queued[node->id < to_id ? 0 : 1];
}

static const struct lq_link_ops link_ops = {.send = on_send, .connected = on_connected, .queued = on_queued};

static void deliver(struct sim *sim, struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct pair *pair = pair_of(sim, event->from, event->node);
    unsigned way = event->from < event->node ? 0 : 1;
    if (pair->up && pair->epoch == event->pair_epoch) {
        pair->queued[way] -= event->frame.size;
        if (node->host != NULL && node->boot == event->boot && !pair->cut[way]) {
            lightq_status status = lq_host_link_events.receive(node->host, event->from + 1, &event->frame);
            if (status != LIGHTQ_OK) {
                sim_fail(sim, "node %u calls a frame of type %d from node %u malformed", node->id,
                         (int)event->frame.type, event->from + 1);
            }
            sim_touch(node);
        }
    }
    lq_slab_unref(event->frame.slab);
}

static void plan_up(struct sim *sim, unsigned a, unsigned b, uint64_t delay_us)
{
    push(sim, (struct event){.kind = KIND_UP, .node = a, .from = b}, delay_us);
}

static void connection_up(struct sim *sim, unsigned a, unsigned b)
{
    struct pair *pair = pair_of(sim, a, b);
    if (pair->up || !sim_is_up(&sim->nodes[a]) || !sim_is_up(&sim->nodes[b])) {
        return;
    }
    if (sim->options.admit != NULL &&
        (!sim->options.admit(&sim->nodes[a], &sim->nodes[b]) || !sim->options.admit(&sim->nodes[b], &sim->nodes[a]))) {
        plan_up(sim, a, b, ADMIT_AGAIN_US);
        return;
    }
    pair->up = true;
    pair->epoch++;
    memset(pair->queued, 0, sizeof pair->queued);
    lq_host_link_events.up(sim->nodes[a].host, b + 1);
    lq_host_link_events.up(sim->nodes[b].host, a + 1);
    sim_touch(&sim->nodes[a]);
    sim_touch(&sim->nodes[b]);
}

static void plan_down(struct sim *sim, unsigned node, unsigned other, bool refused)
{
    push(sim,
         (struct event){
             .kind = KIND_DOWN, .node = node, .boot = sim->nodes[node].boot, .from = other, .refused = refused},
         sim_random_below(sim, REFUSED_DELAY_MAX_US));
}

void sim_break(struct sim *sim, unsigned a, unsigned b, bool refused, uint64_t back_after_us)
{
    struct pair *pair = pair_of(sim, a, b);
    if (!pair->up) {
        return;
    }
    pair->up = false;
    pair->epoch++;
    plan_down(sim, a, b, refused);
    plan_down(sim, b, a, refused);
    plan_up(sim, a, b, REFUSED_DELAY_MAX_US + back_after_us);
}

void sim_cut(struct sim *sim, unsigned from, unsigned to, bool cut)
{
    pair_of(sim, from, to)->cut[from < to ? 0 : 1] = cut;
}

void sim_set_network(struct sim *sim, bool reorder, unsigned drop_per_mille, unsigned double_per_mille,
                     unsigned delay_max_us)
{
    sim->options.reorder = reorder;
    sim->options.drop_per_mille = drop_per_mille;
    sim->options.double_per_mille = double_per_mille;
    sim->options.delay_max_us = delay_max_us;
}

void sim_heal(struct sim *sim)
{
    for (unsigned a = 0; a < sim->options.nodes; a++) {
        sim->nodes[a].disk_latency_us = 100;
        lq_io_mem_set_stalled(sim->nodes[a].disk, false);
        for (unsigned b = a + 1; b < sim->options.nodes; b++) {
            memset(sim->pairs[a][b].cut, 0, sizeof sim->pairs[a][b].cut);
        }
    }
    sim->options.drop_per_mille = 0;
    sim->options.double_per_mille = 0;
}

/* ---- nodes ---- */

unsigned sim_nodes(const struct sim *sim)
{
    return sim->options.nodes;
}

struct sim_node *sim_node_at(struct sim *sim, unsigned i)
{
    return &sim->nodes[i];
}

bool sim_is_up(const struct sim_node *node)
{
    return node->host != NULL;
}

static struct event for_node(const struct sim_node *node, enum kind kind)
{
    return (struct event){.kind = kind, .node = node->id - 1, .boot = node->boot};
}

void sim_touch(struct sim_node *node)
{
    if (!node->turn_planned && node->host != NULL) {
        node->turn_planned = true;
        push(node->sim, for_node(node, KIND_TURN), sim_random_below(node->sim, TURN_DELAY_MAX_US));
    }
}

static void rearm(struct sim_node *node)
{
    uint64_t due = lq_host_deadline_us(node->host);
    if (node->sim->options.deadline_us != NULL) {
        uint64_t other = node->sim->options.deadline_us(node);
        due = other < due ? other : due;
    }
    if (due <= node->sim->now_us) { /* work is left, or a tick is overdue */
        due = node->sim->now_us + 1 + sim_random_below(node->sim, TURN_DELAY_MAX_US);
    }
    if (due != UINT64_MAX && due != node->wake_us) {
        node->wake_us = due;
        push(node->sim, for_node(node, KIND_WAKE), due - node->sim->now_us);
    }
}

static void on_submitted(void *data, struct lq_io_job *job)
{
    struct sim_node *node = data;
    struct event event = for_node(node, KIND_STEP);
    event.job = job;
    push(node->sim, event, sim_random_below(node->sim, 2 * node->disk_latency_us + 1));
}

static void step_job(struct sim *sim, struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct event again = *event;
    switch (lq_io_mem_step_job(node->disk, event->job)) {
    case LQ_IO_MEM_MORE:
        push(sim, again, sim_random_below(sim, STEP_DELAY_MAX_US));
        break;
    case LQ_IO_MEM_STALLED:
        push(sim, again, STALLED_RETRY_US);
        break;
    case LQ_IO_MEM_DONE:
        sim_touch(node);
        break;
    case LQ_IO_MEM_UNKNOWN:
        break;
    }
}

/* The process is gone. What becomes of its disk is the caller's. */
static void end_process(struct sim_node *node)
{
    struct sim *sim = node->sim;
    unsigned me = node->id - 1;
    if (sim->options.stop != NULL) {
        sim->options.stop(node);
    }
    lq_store_abandon(node->store);
    lq_host_abandon(node->host);
    node->store = NULL;
    node->host = NULL;
    node->boot++;
    node->turn_planned = false;
    node->wake_us = 0;
    node->paused_until_us = 0;
    for (unsigned other = 0; other < sim->options.nodes; other++) {
        struct pair *pair = pair_of(sim, me, other);
        if (other != me && pair->up) {
            pair->up = false;
            pair->epoch++;
            plan_down(sim, other, me, true);
        }
    }
}

void sim_crash(struct sim_node *node, enum lq_io_mem_crash_mode mode)
{
    if (node->host != NULL) {
        end_process(node);
        lightq_status status = lq_io_mem_crash(node->disk, mode, sim_random(node->sim));
        assert(status == LIGHTQ_OK);
    }
}

void sim_kill(struct sim_node *node)
{
    if (node->host != NULL) {
        end_process(node);
        lq_io_mem_kill(node->disk);
    }
}

void sim_pause(struct sim_node *node, uint64_t us)
{
    node->paused_until_us = node->sim->now_us + us;
}

/* False: it stays down. */
static bool open_store(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct lq_err err = {.text = ""};
    struct lq_store_options options = sim->options.store;
    if (sim->options.prepare != NULL && sim->options.prepare(node, &options) != LIGHTQ_OK) {
        return false;
    }
    lightq_status status = lq_store_open(lq_io_mem_io(node->disk), &node->clock, &options, &node->store, &err);
    if (status != LIGHTQ_OK && sim->options.damaged != NULL && sim->options.damaged(node, status)) {
        status = lq_io_mem_remove(node->disk, "");
        assert(status == LIGHTQ_OK);
        status = lq_store_open(lq_io_mem_io(node->disk), &node->clock, &options, &node->store, &err);
    }
    if (status == LIGHTQ_OK) {
        return true;
    }
    node->store = NULL;
    if (sim->options.unopened != NULL) {
        sim->options.unopened(node, status, &err);
    } else {
        sim_fail(sim, "the store of node %u does not open: %s", node->id, err.text);
    }
    return false;
}

void sim_start(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct lq_err err = {.text = ""};
    if (node->host != NULL || !open_store(node)) {
        return;
    }
    struct lq_host_options options = sim->options.host;
    options.node = node->id;
    lightq_status status =
        lq_host_new(&options, &node->clock, node->store, &node->link, &sim->options.events, node, &node->host, &err);
    assert(status == LIGHTQ_OK);
    if (sim->options.trace != NULL) {
        lq_host_set_trace(node->host, sim->options.trace, node);
    }
    sim->options.start(node);
    for (unsigned other = 0; other < sim->options.nodes; other++) {
        if (other != node->id - 1) {
            plan_up(sim, node->id - 1, other, sim_random_below(sim, UP_DELAY_MAX_US));
        }
    }
    rearm(node);
    sim_touch(node);
}

/* ---- running ---- */

static void turn(struct sim_node *node)
{
    const struct sim_options *options = &node->sim->options;
    node->turn_planned = false;
    if (options->turn != NULL) {
        options->turn(node);
    } else {
        lq_host_turn(node->host);
    }
    rearm(node);
}

static void wake(struct sim_node *node)
{
    const struct sim_options *options = &node->sim->options;
    node->wake_us = 0;
    if (options->tick != NULL) {
        options->tick(node);
    } else {
        lq_host_tick(node->host);
    }
    rearm(node);
}

/* What a process that stands still does when it goes on. Its disk and its connections are the machine's. */
static bool put_off(struct sim *sim, struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    bool concerned =
        event->kind == KIND_DELIVER || event->kind == KIND_TURN || event->kind == KIND_WAKE || event->kind == KIND_DOWN;
    if (!concerned || node->host == NULL || node->boot != event->boot || node->paused_until_us <= sim->now_us) {
        return false;
    }
    if (event->kind == KIND_WAKE && node->wake_us == event->at_us) {
        node->wake_us = node->paused_until_us;
    } else if (event->kind == KIND_WAKE) {
        return false;
    }
    push(sim, *event, node->paused_until_us - sim->now_us);
    return true;
}

static void run_event(struct sim *sim, struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    bool present = node->host != NULL && node->boot == event->boot;
    if (put_off(sim, event)) {
        return;
    }
    switch (event->kind) {
    case KIND_DELIVER:
        deliver(sim, event);
        return;
    case KIND_STEP:
        if (present) {
            step_job(sim, event);
        }
        return;
    case KIND_TURN:
        if (present) {
            turn(node);
        }
        return;
    case KIND_WAKE:
        if (present && node->wake_us == event->at_us) {
            wake(node);
        }
        return;
    case KIND_UP:
        connection_up(sim, event->node, event->from);
        return;
    case KIND_DOWN:
        if (present && !pair_of(sim, event->node, event->from)->up) {
            lq_host_link_events.down(node->host, event->from + 1, event->refused);
            sim_touch(node);
        }
        return;
    case KIND_PLANNED:
        event->run(sim, event->data);
        return;
    }
}

void sim_run(struct sim *sim, uint64_t us)
{
    uint64_t end = sim->now_us + us;
    while (!sim->failed && sim->count != 0 && sim->heap[0].at_us <= end) {
        struct event *event = pop(sim);
        sim->now_us = event->at_us;
        sim_hash_add(sim, event->at_us << 8 | (uint64_t)event->kind << 4 | event->node);
        run_event(sim, event);
        free(event);
    }
    if (!sim->failed) {
        sim->now_us = end;
    }
}

struct sim *sim_new(const struct sim_options *options)
{
    struct sim *sim = calloc(1, sizeof *sim);
    assert(sim != NULL && options->nodes <= SIM_NODES_MAX);
    sim->options = *options;
    sim->random = options->seed;
    sim->now_us = 1000000;
    sim->hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned i = 0; i < options->nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        node->sim = sim;
        node->id = i + 1;
        node->clock = (struct lq_clock){.monotonic_us = on_monotonic, .wall_ms = on_wall, .random = on_random};
        node->link.ops = &link_ops;
        node->disk = lq_io_mem_new();
        assert(node->disk != NULL);
        node->random = sim_random(sim);
        node->disk_latency_us = 100;
        lq_io_mem_set_submitted(node->disk, on_submitted, node);
    }
    return sim;
}

void sim_free(struct sim *sim)
{
    for (unsigned i = 0; i < sim->options.nodes; i++) {
        sim_crash(&sim->nodes[i], LQ_IO_MEM_KEEP);
        lq_io_mem_free(sim->nodes[i].disk);
    }
    while (sim->count != 0) {
        struct event *event = pop(sim);
        if (event->kind == KIND_DELIVER) {
            lq_slab_unref(event->frame.slab);
        }
        free(event);
    }
    free(sim->heap);
    free(sim);
}
