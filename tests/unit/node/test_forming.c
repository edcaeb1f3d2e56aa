/* test_forming.c - nodes without a cluster come to exactly one, whatever is lost, whoever crashes at whichever disk
 * operation, and whoever's directory is emptied. The network and the disks are in memory; the clock is set by hand.
 * What the meta group of a formed cluster would say is played by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/log.h"
#include "node/codec.h"
#include "node/forming.h"
#include "node/letter.h"
#include "storage/io_mem.h"

#define NODES_MAX 5
#define QUEUE_MAX 4096
#define PROBE_MS  200
#define STEP_MS   50
#define ERA_STEPS 400

struct world;

struct place { /* a machine: its disk stays when the process is gone */
    struct world *world;
    uint32_t id;
    struct lq_io_mem *disk;
    struct lq_identity identity;
    struct lq_forming *forming;
    struct lq_link link;
    bool running, failed;
    uint32_t expect;
    unsigned seed_count;
    uint64_t life; /* counts starts and connections: frames of an old one are dropped */
    struct lq_err waiting;
    unsigned waits;
};

struct post {
    unsigned from, to;
    uint64_t from_life, to_life;
    struct lq_slab *slab;
};

struct world {
    struct lq_clock clock;
    uint64_t now_ms;
    uint64_t random;
    unsigned count, loss_percent;
    struct place places[NODES_MAX];
    bool linked[NODES_MAX][NODES_MAX];
    struct post queue[QUEUE_MAX];
    unsigned queued;
    unsigned clusters; /* formed ever */
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static bool chance(struct world *w, unsigned percent)
{
    return next_random(&w->random) % 100 < percent;
}

static struct world *world_of_clock(struct lq_clock *clock)
{
    return (struct world *)(void *)((char *)clock - offsetof(struct world, clock));
}

static uint64_t world_us(struct lq_clock *clock)
{
    return world_of_clock(clock)->now_ms * 1000;
}

static uint64_t world_ms(struct lq_clock *clock)
{
    return world_of_clock(clock)->now_ms;
}

static void world_random(struct lq_clock *clock, void *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)out)[i] = (uint8_t)(next_random(&world_of_clock(clock)->random) >> 32);
    }
}

/* ---- the network ---- */

static struct place *place_of_link(struct lq_link *link)
{
    return (struct place *)(void *)((char *)link - offsetof(struct place, link));
}

static void post(struct world *w, unsigned from, unsigned to, const void *bytes, size_t size)
{
    if (w->queued == QUEUE_MAX || chance(w, w->loss_percent)) {
        return;
    }
    struct lq_slab *slab = lq_slab_new(size);
    assert_non_null(slab);
    memcpy(slab->bytes, bytes, size);
    w->queue[w->queued++] = (struct post){
        .from = from, .to = to, .from_life = w->places[from].life, .to_life = w->places[to].life, .slab = slab};
}

static lightq_status link_send(struct lq_link *link, uint32_t node, const struct lq_frame *frame)
{
    struct place *place = place_of_link(link);
    struct world *w = place->world;
    if (!w->linked[place->id - 1][node - 1]) {
        return LIGHTQ_ECONNECT;
    }
    assert_int_equal(frame->type, LQ_FRAME_NODE);
    post(w, place->id - 1, node - 1, frame->body->bytes + frame->body_offset, frame->body_size);
    return LIGHTQ_OK;
}

static bool link_connected(struct lq_link *link, uint32_t node)
{
    struct place *place = place_of_link(link);
    return place->world->linked[place->id - 1][node - 1];
}

static uint64_t link_queued(struct lq_link *link, uint32_t node)
{
    (void)link;
    (void)node;
    return 0;
}

static const struct lq_link_ops link_ops = {.send = link_send, .connected = link_connected, .queued = link_queued};

/* ---- what the cluster's meta group would say ---- */

static void reply_as_member(struct world *w, unsigned member, unsigned to, const struct lq_letter *letter)
{
    const struct lq_identity *self = &w->places[member].identity;
    struct lq_letter answer = {.kind = LQ_LETTER_INFO};
    if (letter->kind == LQ_LETTER_INFO) {
        answer.info = (struct lq_letter_info){
            .card = {.node = self->node, .shards = 1, .uuid = self->uuid, .client = {"m", 1}, .peer = {"m", 2}},
            .expect = w->places[member].expect,
            .state = LQ_IDENTITY_MEMBER,
            .cluster = self->cluster,
            .has_proposal = self->founder,
            .proposal = self->proposal};
    } else if (letter->kind == LQ_LETTER_JOIN && self->founder) {
        const struct lq_founder *there = lq_founder_find(&self->proposal.founders, letter->join.node);
        bool known = there != NULL && lq_id_equal(&there->uuid, &letter->join.uuid);
        answer.kind = LQ_LETTER_JOINED;
        answer.joined = (struct lq_letter_joined){.status = there == NULL || known ? LIGHTQ_OK : LIGHTQ_EIDENTITY,
                                                  .uuid = letter->join.uuid,
                                                  .cluster = self->cluster,
                                                  .incarnation = known ? 1 : 2,
                                                  .text = "say: lightq node replace"};
    } else {
        return;
    }
    lq_letter_send(&w->places[member].link, to + 1, &answer);
}

static void deliver(struct world *w, const struct post *letter)
{
    struct place *to = &w->places[letter->to];
    bool stale = letter->from_life != w->places[letter->from].life || letter->to_life != to->life;
    if (stale || !to->running) {
        return;
    }
    const struct lq_frame_in frame = {
        .type = LQ_FRAME_NODE, .slab = letter->slab, .size = (uint32_t)letter->slab->size};
    if (to->forming != NULL) {
        assert_int_equal(lq_forming_link_events.receive(to->forming, letter->from + 1, &frame), LIGHTQ_OK);
        return;
    }
    struct lq_letter decoded;
    assert_int_equal(lq_letter_decode(letter->slab->bytes, letter->slab->size, &decoded), LIGHTQ_OK);
    reply_as_member(w, letter->to, letter->from, &decoded);
}

/* ---- machines ---- */

static void on_done(void *owner)
{
    struct place *place = owner;
    assert_int_equal(place->identity.state, LQ_IDENTITY_MEMBER);
}

static void on_waiting(void *owner, const struct lq_err *err)
{
    struct place *place = owner;
    place->waiting = *err;
    place->waits++;
}

static void on_failed(void *owner, const struct lq_err *err)
{
    struct place *place = owner;
    (void)err;
    place->failed = true;
}

static const struct lq_forming_events events = {.done = on_done, .waiting = on_waiting, .failed = on_failed};

static void unlink_all(struct world *w, unsigned at)
{
    for (unsigned i = 0; i < w->count; i++) {
        if (w->linked[at][i]) {
            w->linked[at][i] = w->linked[i][at] = false;
            if (w->places[i].forming != NULL) {
                lq_forming_link_events.down(w->places[i].forming, at + 1, true);
            }
        }
    }
}

static void stop(struct world *w, unsigned at)
{
    struct place *place = &w->places[at];
    if (place->running) {
        unlink_all(w, at);
        lq_forming_free(place->forming);
        place->forming = NULL;
        place->running = false;
        place->failed = false;
        place->life++;
    }
}

static void power_off(struct world *w, unsigned at)
{
    stop(w, at);
    enum lq_io_mem_crash_mode mode = (enum lq_io_mem_crash_mode)(next_random(&w->random) % 3);
    assert_int_equal(lq_io_mem_crash(w->places[at].disk, mode, next_random(&w->random)), LIGHTQ_OK);
}

static void wipe(struct world *w, unsigned at)
{
    stop(w, at);
    assert_int_equal(lq_io_mem_crash(w->places[at].disk, LQ_IO_MEM_KEEP, 0), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_remove(w->places[at].disk, ""), LIGHTQ_OK);
}

static bool start(struct world *w, unsigned at)
{
    struct place *place = &w->places[at];
    struct lq_io *io = lq_io_mem_io(place->disk);
    struct lq_err err;
    lightq_status status = lq_identity_load(io, place->id, &place->identity, &err);
    if (status == LIGHTQ_ENOTFOUND) {
        lq_identity_make(place->id, 1, &w->clock, &place->identity);
    } else if (status != LIGHTQ_OK) {
        assert_true(lq_io_mem_crashed(place->disk));
        return false;
    }
    if (lq_identity_boot(io, &place->identity, &err) != LIGHTQ_OK) {
        return false;
    }
    place->running = true;
    place->life++;
    if (place->identity.state != LQ_IDENTITY_MEMBER) {
        const struct lq_forming_options options = {.identity = &place->identity,
                                                   .io = io,
                                                   .clock = &w->clock,
                                                   .link = &place->link,
                                                   .expect = place->expect,
                                                   .seed_count = place->seed_count,
                                                   .client = {"10.0.0.1", (uint16_t)(5600 + at)},
                                                   .peer = {"10.0.0.1", (uint16_t)(5700 + at)},
                                                   .probe_ms = PROBE_MS};
        assert_int_equal(lq_forming_new(&options, &events, place, &place->forming, &err), LIGHTQ_OK);
    }
    return true;
}

/* What the cluster's nodes do with a hello: a directory that is not the one known for its id is refused. */
static bool refuses(const struct place *member, const struct place *guest)
{
    const struct lq_founder *there = lq_founder_find(&member->identity.proposal.founders, guest->id);
    return member->identity.state == LQ_IDENTITY_MEMBER && member->identity.founder && there != NULL &&
           !lq_id_equal(&there->uuid, &guest->identity.uuid);
}

static void connect(struct world *w, unsigned a, unsigned b)
{
    struct place *pa = &w->places[a];
    struct place *pb = &w->places[b];
    if (!pa->running || !pb->running || w->linked[a][b]) {
        return;
    }
    if (refuses(pa, pb) || refuses(pb, pa)) {
        struct place *guest = refuses(pa, pb) ? pb : pa;
        if (guest->forming != NULL) {
            lq_forming_rejected(guest->forming, guest == pb ? a + 1 : b + 1, LIGHTQ_EIDENTITY, "another directory");
        }
        return;
    }
    w->linked[a][b] = w->linked[b][a] = true;
    if (pa->forming != NULL) {
        lq_forming_link_events.up(pa->forming, b + 1);
    }
    if (pb->forming != NULL) {
        lq_forming_link_events.up(pb->forming, a + 1);
    }
}

static void disconnect(struct world *w, unsigned a, unsigned b)
{
    if (!w->linked[a][b]) {
        return;
    }
    w->linked[a][b] = w->linked[b][a] = false;
    for (unsigned i = 0; i < w->queued; i++) { /* what was on the way is gone */
        struct post *letter = &w->queue[i];
        if ((letter->from == a && letter->to == b) || (letter->from == b && letter->to == a)) {
            letter->to_life = UINT64_MAX;
        }
    }
    if (w->places[a].forming != NULL) {
        lq_forming_link_events.down(w->places[a].forming, b + 1, false);
    }
    if (w->places[b].forming != NULL) {
        lq_forming_link_events.down(w->places[b].forming, a + 1, false);
    }
}

/* ---- time ---- */

/* No two clusters on the disks, ever. Gives the number of members. */
static unsigned check_one_cluster(struct world *w)
{
    struct lq_id cluster = {.bytes = {0}};
    unsigned members = 0;
    for (unsigned i = 0; i < w->count; i++) {
        struct lq_identity identity;
        struct lq_err err;
        uint8_t *bytes;
        size_t size;
        if (lq_io_mem_read_file(w->places[i].disk, "node", &bytes, &size) != LIGHTQ_OK) {
            continue;
        }
        assert_int_equal(lq_identity_decode(bytes, size, &identity), LIGHTQ_OK);
        free(bytes);
        (void)err;
        if (identity.state == LQ_IDENTITY_MEMBER) {
            assert_true(members == 0 || lq_id_equal(&cluster, &identity.cluster));
            cluster = identity.cluster;
            members++;
        }
    }
    return members;
}

static void settle(struct world *w, unsigned at)
{
    struct place *place = &w->places[at];
    if (place->running && (place->failed || lq_io_mem_crashed(place->disk))) {
        power_off(w, at);
    } else if (place->running && place->forming != NULL && place->identity.state == LQ_IDENTITY_MEMBER) {
        lq_forming_free(place->forming);
        place->forming = NULL; /* its store and its groups come up now */
        for (unsigned i = 0; i < w->count; i++) {
            if (i != at && refuses(place, &w->places[i])) {
                disconnect(w, at, i);
            }
        }
    }
}

static void step(struct world *w)
{
    w->now_ms += STEP_MS;
    unsigned count = w->queued;
    for (unsigned i = 0; i < count; i++) {
        struct post letter = w->queue[i];
        deliver(w, &letter);
        lq_slab_unref(letter.slab);
    }
    memmove(w->queue, w->queue + count, (w->queued - count) * sizeof w->queue[0]);
    w->queued -= count;
    for (unsigned i = 0; i < w->count; i++) {
        if (w->places[i].running && w->places[i].forming != NULL) {
            lq_forming_tick(w->places[i].forming);
        }
        settle(w, i);
    }
    (void)check_one_cluster(w);
}

static void connect_all(struct world *w)
{
    for (unsigned a = 0; a < w->count; a++) {
        for (unsigned b = a + 1; b < w->count; b++) {
            connect(w, a, b);
        }
    }
}

/* All is well for a while. */
static void calm(struct world *w, unsigned steps)
{
    w->loss_percent = 0;
    for (unsigned i = 0; i < w->count; i++) {
        lq_io_mem_crash_after(w->places[i].disk, 0);
    }
    for (unsigned i = 0; i < steps; i++) {
        for (unsigned k = 0; k < w->count; k++) {
            if (!w->places[k].running) {
                assert_true(start(w, k));
            }
        }
        connect_all(w);
        step(w);
    }
}

static struct world *world_new(unsigned count, unsigned expect, uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    lq_log_configure(LQ_LOG_OFF, 2);
    w->clock = (struct lq_clock){.monotonic_us = world_us, .wall_ms = world_ms, .random = world_random};
    w->now_ms = 1000;
    w->random = seed * 77 + 1;
    w->count = count;
    for (unsigned i = 0; i < count; i++) {
        w->places[i] = (struct place){
            .world = w, .id = i + 1, .disk = lq_io_mem_new(), .link = {.ops = &link_ops}, .expect = expect};
        w->places[i].seed_count = expect - 1;
        assert_non_null(w->places[i].disk);
    }
    return w;
}

static void world_free(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        stop(w, i);
        lq_io_mem_free(w->places[i].disk);
    }
    for (unsigned i = 0; i < w->queued; i++) {
        lq_slab_unref(w->queue[i].slab);
    }
    free(w);
}

static void start_all(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        assert_true(start(w, i));
    }
    connect_all(w);
}

/* ---- cases ---- */

static void test_forming_alone_without_seeds_is_at_once(void **state)
{
    (void)state;
    struct world *w = world_new(1, 1, 1);
    start_all(w);

    for (unsigned i = 0; i < 20; i++) {
        step(w);
    }

    assert_int_equal(check_one_cluster(w), 1);
    assert_true(w->places[0].identity.founder);
    assert_int_equal(w->places[0].identity.meta_incarnation, 1);
    world_free(w);
}

static void test_forming_three_blank_nodes_make_one(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, 2);
    start_all(w);

    for (unsigned i = 0; i < 40; i++) {
        step(w);
    }

    assert_int_equal(check_one_cluster(w), 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct lq_identity *identity = &w->places[i].identity;
        assert_true(identity->founder);
        assert_int_equal(identity->proposal.founders.count, 3);
        assert_int_equal(identity->proposal.proposer, 1);
        assert_memory_equal(&identity->proposal, &w->places[0].identity.proposal, sizeof identity->proposal);
    }
    world_free(w);
}

static void test_forming_waits_for_all(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, 3);
    assert_true(start(w, 0));
    assert_true(start(w, 2));
    connect(w, 0, 2);

    for (unsigned i = 0; i < 100; i++) {
        step(w);
    }

    assert_int_equal(check_one_cluster(w), 0);
    assert_non_null(strstr(w->places[0].waiting.text, "here: 2 of the 3 nodes"));
    assert_in_range(w->places[0].waits, 1, 3); /* said when it changes, not every time */
    calm(w, 40);
    assert_int_equal(check_one_cluster(w), 3);
    world_free(w);
}

static void test_forming_more_than_expected_make_one_and_join(void **state)
{
    (void)state;
    struct world *w = world_new(4, 3, 4);
    start_all(w);

    calm(w, 100);

    assert_int_equal(check_one_cluster(w), 4);
    unsigned founders = 0;
    for (unsigned i = 0; i < 4; i++) {
        founders += w->places[i].identity.founder;
    }
    assert_int_equal(founders, 3);
    world_free(w);
}

/* One that is to join, and whose seeds are not there yet, does not begin a cluster of its own. */
static void test_forming_expecting_one_with_seeds_only_joins(void **state)
{
    (void)state;
    struct world *w = world_new(4, 3, 14);
    w->places[3].expect = 1;
    w->places[3].seed_count = 3;
    assert_true(start(w, 3));
    for (unsigned i = 0; i < 100; i++) {
        step(w);
    }
    assert_int_equal(check_one_cluster(w), 0);

    w->count = 3;
    start_all(w);
    for (unsigned i = 0; i < 40; i++) {
        step(w);
    }
    assert_int_equal(check_one_cluster(w), 3);
    w->count = 4;
    calm(w, 40);

    assert_int_equal(check_one_cluster(w), 4);
    assert_false(w->places[3].identity.founder);
    world_free(w);
}

static void test_forming_other_expectations_make_none(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, 5);
    w->places[2].expect = 2;
    start_all(w);

    for (unsigned i = 0; i < 100; i++) {
        step(w);
    }

    assert_int_equal(check_one_cluster(w), 0);
    assert_non_null(strstr(w->places[0].waiting.text, "node 3 expects 2 nodes and this one 3"));
    world_free(w);
}

/* F2: the first node's directory is emptied; it must not begin a second cluster. F1: it is refused. */
static void test_forming_wiped_node_never_makes_a_second_cluster(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, 6);
    start_all(w);
    calm(w, 40);
    struct lq_id cluster = w->places[1].identity.cluster;

    wipe(w, 0);
    calm(w, 100);
    assert_int_equal(w->places[0].identity.state, LQ_IDENTITY_BLANK);
    assert_int_equal(w->places[0].waiting.status, LIGHTQ_EIDENTITY);
    stop(w, 1);
    for (unsigned i = 0; i < 100; i++) { /* one that knows is enough */
        connect_all(w);
        step(w);
    }
    stop(w, 2);
    for (unsigned i = 0; i < 100; i++) { /* and nobody is not all */
        step(w);
    }

    assert_int_equal(w->places[0].identity.state, LQ_IDENTITY_BLANK);
    calm(w, 20);
    assert_true(lq_id_equal(&w->places[1].identity.cluster, &cluster));
    world_free(w);
}

static void test_forming_newcomer_joins(void **state)
{
    (void)state;
    struct world *w = world_new(4, 3, 7);
    w->count = 3;
    start_all(w);
    calm(w, 40);

    w->count = 4;
    assert_true(start(w, 3));
    calm(w, 40);

    assert_int_equal(check_one_cluster(w), 4);
    assert_false(w->places[3].identity.founder);
    assert_int_equal(w->places[3].identity.meta_incarnation, 2);
    world_free(w);
}

static void test_forming_emptied_before_it_is_made_begins_anew(void **state)
{
    (void)state;
    for (unsigned victim = 0; victim < 3; victim++) {
        struct world *w = world_new(3, 3, 8 + victim);
        start_all(w);
        while (w->places[1].identity.state != LQ_IDENTITY_PROMISED) {
            step(w);
        }
        assert_int_equal(w->places[0].identity.state, LQ_IDENTITY_PROMISED);

        wipe(w, victim);
        calm(w, 100);

        assert_int_equal(check_one_cluster(w), 3);
        world_free(w);
    }
}

static void test_forming_promised_nodes_wait_for_a_lost_proposer(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, 12);
    start_all(w);
    while (w->places[1].identity.state != LQ_IDENTITY_PROMISED) {
        step(w);
    }

    stop(w, 0);
    for (unsigned i = 0; i < 100; i++) {
        step(w);
    }

    assert_int_equal(check_one_cluster(w), 0); /* it may have made the cluster: nobody else can know */
    assert_non_null(strstr(w->places[1].waiting.text, "waiting for node 1"));
    calm(w, 40);
    assert_int_equal(check_one_cluster(w), 3);
    world_free(w);
}

static void test_forming_failed_disk_is_told(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, 13);
    start_all(w);
    const struct lq_io_mem_fault fault = {.verb = LQ_IO_SYNC, .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(w->places[1].disk, &fault), LIGHTQ_OK);

    while (!w->places[1].failed && w->places[1].running) {
        step(w);
    }

    assert_int_equal(check_one_cluster(w), 0);
    lq_io_mem_clear_faults(w->places[1].disk);
    calm(w, 40);
    assert_int_equal(check_one_cluster(w), 3);
    world_free(w);
}

static void test_forming_bad_options_are_refused(void **state)
{
    (void)state;
    struct lq_identity identity;
    struct lq_forming *forming;
    struct lq_err err;
    lq_identity_make(1, 1, lq_clock_system(), &identity);
    struct lq_forming_options options = {.identity = &identity, .clock = lq_clock_system()};

    assert_int_equal(lq_forming_new(&options, &events, NULL, &forming, &err), LIGHTQ_EINVAL);
    options.expect = LQ_FOUNDERS_MAX + 1;
    assert_int_equal(lq_forming_new(&options, &events, NULL, &forming, &err), LIGHTQ_EINVAL);
    options.expect = 3;
    assert_int_equal(lq_forming_new(&options, &events, NULL, &forming, &err), LIGHTQ_OK);

    struct lq_hello hello = {.node = 1, .uuid = {.bytes = {5}}};
    assert_int_equal(lq_forming_check_peer(forming, &hello, &err), LIGHTQ_EIDENTITY);
    hello.node = 2;
    assert_int_equal(lq_forming_check_peer(forming, &hello, &err), LIGHTQ_OK);
    hello.uuid = identity.uuid;
    assert_int_equal(lq_forming_check_peer(forming, &hello, &err), LIGHTQ_EIDENTITY);
    lq_forming_free(forming);
}

/* A crash at every disk operation of each node in turn, in each mode of losing what was not synced. */
static void test_forming_crash_at_every_disk_operation_ends_in_one(void **state)
{
    (void)state;
    for (unsigned victim = 0; victim < 3; victim++) {
        bool crashed = true;
        for (uint64_t n = 1; crashed; n++) {
            struct world *w = world_new(3, 3, n * 3 + victim);
            start_all(w);
            lq_io_mem_crash_after(w->places[victim].disk, n);
            crashed = false;
            for (unsigned i = 0; i < 40; i++) {
                bool before = w->places[victim].running;
                step(w);
                crashed |= before && !w->places[victim].running;
            }
            calm(w, 100);
            assert_int_equal(check_one_cluster(w), 3);
            world_free(w);
        }
    }
}

/* Anything, for a while; then calm. Emptied directories make it possible that a node stays outside, and only that. */
static void storm(uint64_t seed, bool wipes)
{
    struct world *w = world_new(3 + seed % 3, 3 + seed % 3, seed);
    unsigned wiped = 0;
    start_all(w);
    for (unsigned i = 0; i < ERA_STEPS; i++) {
        unsigned a = (unsigned)(next_random(&w->random) % w->count);
        unsigned b = (unsigned)(next_random(&w->random) % w->count);
        w->loss_percent = (unsigned)(seed % 4) * 20;
        if (chance(w, 3)) {
            power_off(w, a);
        }
        if (chance(w, 3)) {
            lq_io_mem_crash_after(w->places[a].disk, 1 + next_random(&w->random) % 6);
        }
        if (wipes && chance(w, 1)) {
            wipe(w, a);
            wiped++;
        }
        if (!w->places[b].running && chance(w, 30)) {
            if (!start(w, b)) {
                power_off(w, b);
            }
        }
        if (a != b && chance(w, 10)) {
            disconnect(w, a, b);
        }
        if (a != b && chance(w, 40)) {
            connect(w, a, b);
        }
        step(w);
    }
    calm(w, 200);
    unsigned members = check_one_cluster(w);
    if (!wipes) {
        assert_int_equal(members, w->count);
    }
    for (unsigned i = 0; i < w->count; i++) { /* who is not in knows why */
        const struct lq_identity *identity = &w->places[i].identity;
        assert_true(identity->state == LQ_IDENTITY_MEMBER || w->places[i].waiting.text[0] != '\0');
        assert_true(identity->state == LQ_IDENTITY_MEMBER || wiped > 0);
    }
    world_free(w);
}

static void test_forming_storms_end_in_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        storm(seed, false);
    }
}

static void test_forming_storms_with_emptied_directories_never_make_two(void **state)
{
    (void)state;
    for (uint64_t seed = 1001; seed <= 1060; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        storm(seed, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forming_alone_without_seeds_is_at_once),
        cmocka_unit_test(test_forming_three_blank_nodes_make_one),
        cmocka_unit_test(test_forming_waits_for_all),
        cmocka_unit_test(test_forming_more_than_expected_make_one_and_join),
        cmocka_unit_test(test_forming_expecting_one_with_seeds_only_joins),
        cmocka_unit_test(test_forming_other_expectations_make_none),
        cmocka_unit_test(test_forming_wiped_node_never_makes_a_second_cluster),
        cmocka_unit_test(test_forming_newcomer_joins),
        cmocka_unit_test(test_forming_emptied_before_it_is_made_begins_anew),
        cmocka_unit_test(test_forming_promised_nodes_wait_for_a_lost_proposer),
        cmocka_unit_test(test_forming_failed_disk_is_told),
        cmocka_unit_test(test_forming_bad_options_are_refused),
        cmocka_unit_test(test_forming_crash_at_every_disk_operation_ends_in_one),
        cmocka_unit_test(test_forming_storms_end_in_one),
        cmocka_unit_test(test_forming_storms_with_emptied_directories_never_make_two),
    };
    return cmocka_run_group_tests_name("forming", tests, NULL, NULL);
}
