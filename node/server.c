/* node/server.c - see server.h. The stages of a node's life:
 *
 *     FORMING   its directory belongs to no cluster yet: seeds are asked, node/forming.c decides
 *     JOINING   it is a member: store, groups and the meta group are open, and it waits for the catalog
 *     SERVING   clients are served
 *     DRAINING  leaderships are handed over; clients are served still
 *     CLOSING   nothing is served; parts are closed one after the other
 *
 * A stage only changes at the end of a turn (on_turn), when no part is in the middle of something: events leave a note.
 */
#include "node/server.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/log.h"
#include "node/gateway/http.h"
#include "node/metrics.h"
#include "node/seeds.h"
#include "node/shard.h"
#include "node/version.h"
#include "storage/io_uv.h"

#define MICROS_PER_MILLI 1000
#define WAITING_LINE_US  (5u * 1000 * 1000)
#define SIGNAL_EXIT_BASE 128 /* as shells tell of a process ended by a signal */

enum stage { STARTING, FORMING, JOINING, SERVING, DRAINING, CLOSING };

struct lq_process {
    const struct lq_options *options;
    struct lq_clock *clock;
    struct lq_endpoint client_told, peer_told; /* with the ports that were bound */
    struct lq_identity identity;
    struct lq_shard shard;
    struct lq_seeds seeds;
    struct lq_http *http;
    uv_signal_t on_term, on_interrupt;
    enum stage stage;
    /* Notes for the end of the turn. */
    bool formed, ready, told_to_end;
    lightq_status failed;
    struct lq_err *err;
    uint64_t drain_until_us;
    uint64_t told_until_us, grave_until_us; /* of the reasons for waiting */
    unsigned closing;                       /* parts that have not called back */
};

/* ---- notes */

/* It cannot go on. The first reason counts. */
static void fail(struct lq_process *process, const struct lq_err *err)
{
    if (process->failed == LIGHTQ_OK) {
        process->failed = err->status == LIGHTQ_OK ? LIGHTQ_EINTERNAL : err->status;
        *process->err = *err;
    }
}

static void on_formed(void *owner)
{
    struct lq_process *process = owner;
    process->formed = true;
}

/* Reasons alternate as the other nodes answer in turn. One line now and then is enough, and what only an operator can
 * change goes before the rest. */
static void on_waiting(void *owner, const struct lq_err *err)
{
    struct lq_process *process = owner;
    uint64_t now_us = lq_clock_monotonic_us(process->clock);
    bool grave = err->status == LIGHTQ_EIDENTITY;
    if (!grave && now_us < process->grave_until_us) {
        return;
    }
    lq_sessions_refuse(process->shard.service.sessions, err->text);
    if (now_us >= process->told_until_us || (grave && process->grave_until_us == 0)) {
        process->told_until_us = now_us + WAITING_LINE_US;
        lq_log(WARN, "the node cannot become part of a cluster yet", "why", err->text);
    }
    process->grave_until_us = grave ? now_us + WAITING_LINE_US : 0;
}

static void on_failed(void *owner, const struct lq_err *err)
{
    fail(owner, err);
}

static const struct lq_forming_events forming_events = {.done = on_formed, .waiting = on_waiting, .failed = on_failed};

static void on_peer(void *owner, const struct lq_catalog_node *node)
{
    struct lq_process *process = owner;
    struct lq_transport *transport = process->shard.transport;
    if (node->state != LQ_NODE_ACTIVE) {
        lq_transport_remove_peer(transport, node->id);
        return;
    }
    const struct lq_id *uuid = lq_id_is_zero(&node->uuid) ? NULL : &node->uuid;
    lightq_status status = lq_transport_set_peer(transport, node->id, node->peer.host, node->peer.port, uuid);
    if (status != LIGHTQ_OK) {
        lq_log(ERROR, "a node of the catalog cannot be connected to", "node", node->id, "host", node->peer.host,
               "status", lightq_status_name(status));
    }
}

static void on_ready(void *owner)
{
    struct lq_process *process = owner;
    process->ready = true;
}

static const struct lq_meta_events meta_events = {.peer = on_peer, .ready = on_ready, .expelled = on_failed};

/* ---- the peer port */

static lightq_status on_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_shard *shard = &((struct lq_process *)owner)->shard;
    if (shard->host != NULL) {
        return lq_host_link_events.receive(shard->host, node, frame);
    }
    return shard->forming == NULL ? LIGHTQ_OK : lq_forming_link_events.receive(shard->forming, node, frame);
}

static void on_up(void *owner, uint32_t node)
{
    struct lq_shard *shard = &((struct lq_process *)owner)->shard;
    if (shard->host != NULL) {
        lq_host_link_events.up(shard->host, node);
    } else if (shard->forming != NULL) {
        lq_forming_link_events.up(shard->forming, node);
    }
}

static void on_down(void *owner, uint32_t node, bool refused)
{
    struct lq_shard *shard = &((struct lq_process *)owner)->shard;
    if (shard->host != NULL) {
        lq_host_link_events.down(shard->host, node, refused);
    } else if (shard->forming != NULL) {
        lq_forming_link_events.down(shard->forming, node, refused);
    }
}

static lightq_status on_identify(void *owner, const struct lq_hello *hello, struct lq_err *err)
{
    struct lq_shard *shard = &((struct lq_process *)owner)->shard;
    if (shard->meta != NULL) {
        return lq_meta_check_peer(shard->meta, hello, err);
    }
    if (shard->forming != NULL) {
        return lq_forming_check_peer(shard->forming, hello, err);
    }
    return lq_err_set(err, LIGHTQ_ENOTREADY, "this node is starting or ending");
}

static void on_replaced(void *owner, uint32_t node, const char *sentence)
{
    struct lq_process *process = owner;
    (void)sentence;
    if (process->shard.meta != NULL) {
        lq_meta_replaced(process->shard.meta, node);
    }
}

/* Another node does not believe that we are who we say. */
static void on_rejected(void *owner, uint32_t node, lightq_status status, const char *sentence)
{
    struct lq_process *process = owner;
    if (process->shard.forming != NULL) {
        lq_forming_rejected(process->shard.forming, node, status, sentence);
        return;
    }
    lq_log(WARN, "a node refuses this one", "node", node, "status", lightq_status_name(status), "why", sentence);
    if (process->stage == JOINING) {
        lq_sessions_refuse(process->shard.service.sessions, sentence);
    }
}

static lightq_status open_peer_port(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = &process->shard;
    struct lq_transport_options transport = {
        .node = (uint32_t)options->node_id,
        .uuid = process->identity.uuid,
        .cluster = process->identity.cluster,
        .admission = process->identity.meta_incarnation,
        .boot_count = process->identity.boot + 1, /* of this start: counted when nothing can be refused any more */
        .boot_nonce = lq_clock_random_u64(process->clock),
        .shard = 0,
        .shards = (uint16_t)options->shards,
    };
    struct lq_transport_events events = {
        .link = {.receive = on_frame, .up = on_up, .down = on_down},
        .link_owner = process,
        .identify = on_identify,
        .rejected = on_rejected,
        .replaced = on_replaced,
        .owner = process,
    };
    lightq_status status = lq_transport_new(&transport, &shard->loop, process->clock, &shard->transport, err);
    if (status == LIGHTQ_OK) {
        status = lq_transport_listen(shard->transport, options->peer.host, options->peer.port, options->peer_insecure,
                                     &events, err);
    }
    if (status == LIGHTQ_EADDRINUSE) {
        return lq_err_set(err, status,
                          "the peer port %s is in use: end the other process, or choose another with --peer-listen",
                          options->peer_listen);
    }
    return status;
}

/* ---- HTTP */

static bool on_health(void *owner, struct lq_writer *out)
{
    struct lq_process *process = owner;
    return lq_health_write(&process->shard, process->stage == SERVING, out);
}

static void on_metrics(void *owner, struct lq_writer *out)
{
    struct lq_process *process = owner;
    lq_metrics_write(&process->shard, process->stage == SERVING, out);
}

static const struct lq_http_events http_events = {.health = on_health, .metrics = on_metrics};

/* ---- the directory */

/* The directory's identity as it is, or a new one in memory. Nothing on disk is changed. */
static lightq_status read_identity(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    uint32_t node = (uint32_t)options->node_id;
    lightq_status status = LIGHTQ_ENOTFOUND;
    if (process->shard.io != NULL) {
        status = lq_identity_load(process->shard.io, node, &process->identity, err);
    }
    if (status == LIGHTQ_ENOTFOUND) {
        lq_identity_make(node, (uint32_t)options->shards, process->clock, &process->identity);
        status = LIGHTQ_OK;
    }
    return status;
}

static lightq_status look_at_directory(struct lq_process *process, struct lq_err *err)
{
    struct lq_io_uv_options as_is = {.create = false};
    struct lq_shard *shard = &process->shard;
    lightq_status status = lq_io_uv_new(&shard->loop, process->options->data, &as_is, &shard->io, err);
    return status == LIGHTQ_OK || status == LIGHTQ_ENOTFOUND ? read_identity(process, err) : status;
}

/* The first things that are changed on disk: the lock, and that this start is counted. */
static lightq_status take_directory(struct lq_process *process, struct lq_err *err)
{
    struct lq_io_uv_options made = {.create = true};
    struct lq_shard *shard = &process->shard;
    bool existed = shard->io != NULL;
    lightq_status status = LIGHTQ_OK;
    if (!existed) {
        status = lq_io_uv_new(&shard->loop, process->options->data, &made, &shard->io, err);
        if (status == LIGHTQ_ENOTFOUND) {
            return lq_err_set(
                err, status,
                "the data directory %s cannot be made: make the directory it is in, or choose another with "
                "--data",
                process->options->data);
        }
    }
    if (status == LIGHTQ_OK) {
        status = shard->io->ops->lock(shard->io, err);
        if (status == LIGHTQ_EBUSY) {
            return lq_err_set(err, status,
                              "the data directory %s is in use by another lightqd: end it, or choose another directory "
                              "with --data",
                              process->options->data);
        }
    }
    if (status == LIGHTQ_OK && existed) { /* another lightqd may have had it until a moment ago */
        struct lq_identity now = {0};
        status = lq_identity_load(shard->io, process->identity.node, &now, err);
        if ((status == LIGHTQ_OK || status == LIGHTQ_ENOTFOUND) && now.boot != process->identity.boot) {
            return lq_err_set(err, LIGHTQ_EBUSY, "another lightqd has just used the data directory %s: start again",
                              process->options->data);
        }
        status = status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
    }
    return status == LIGHTQ_OK ? lq_identity_boot(shard->io, &process->identity, err) : status;
}

/* ---- stages */

static lightq_status begin_forming(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = &process->shard;
    struct lq_forming_options forming = {
        .identity = &process->identity,
        .io = shard->io,
        .clock = process->clock,
        .link = lq_transport_link(shard->transport),
        .expect = options->expect,
        .seed_count = process->seeds.count,
        .client = process->client_told,
        .peer = process->peer_told,
    };
    process->stage = FORMING;
    lq_log(INFO, "looking for a cluster", "node", options->node_id, "seeds", options->seed_count, "expect",
           options->expect);
    lq_sessions_refuse(shard->service.sessions, "the node is waiting for its cluster to be made");
    return lq_forming_new(&forming, &forming_events, process, &shard->forming, err);
}

/* Before anything is promised by what is in the store: from now on it cannot be missing. */
static lightq_status note_store(struct lq_process *process, struct lq_err *err)
{
    struct lq_identity next = process->identity;
    next.stored = true;
    if (process->identity.stored) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_identity_store(process->shard.io, &next, err);
    if (status == LIGHTQ_OK) {
        process->identity = next;
    }
    return status;
}

static lightq_status open_store(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_store_options store = {
        .must_exist = process->identity.stored,
        .dir = "",
        .cluster = process->identity.cluster,
        .shard = 0,
        .segment_bytes = options->segment_bytes,
        .journal_bytes = options->journal_bytes,
        .cache_bytes = options->cache_bytes,
    };
    lightq_status status = lq_store_open(process->shard.io, process->clock, &store, &process->shard.store, err);
    if (status == LIGHTQ_EDAMAGED) {
        const struct lq_err what = *err;
        return lq_err_set(err, status,
                          "%s; while a majority of the other nodes is whole, move the data directory away, start this "
                          "node with an empty one, and run 'lightq node replace %d %d'",
                          what.text, (int)options->node_id, (int)options->node_id);
    }
    return status == LIGHTQ_OK ? note_store(process, err) : status;
}

static lightq_status open_groups(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = &process->shard;
    struct lq_link *link = lq_transport_link(shard->transport);
    struct lq_meta_options meta = {
        .identity = &process->identity,
        .io = shard->io,
        .clock = process->clock,
        .store = shard->store,
        .link = link,
        .client = process->client_told,
        .peer = process->peer_told,
    };
    struct lq_host_options host = {
        .node = (uint32_t)options->node_id,
        .election_timeout_ms = (unsigned)options->raft_election_ms,
        .heartbeat_ms = (unsigned)options->raft_heartbeat_ms,
        .stall_ms = (unsigned)options->raft_stall_ms,
        .window_bytes = options->raft_window_bytes,
        .reserve_bytes = options->disk_reserve_bytes,
        .no_fast_failover = !options->raft_fast_failover,
    };
    lightq_status status = lq_meta_new(&meta, &meta_events, process, &shard->meta, err);
    if (status == LIGHTQ_OK) {
        status = lq_host_new(&host, process->clock, shard->store, link, &lq_meta_host_events, shard->meta, &shard->host,
                             err);
    }
    if (status == LIGHTQ_OK) {
        shard->service.meta = shard->meta;
        status = lq_meta_start(shard->meta, shard->host, err);
    }
    return status;
}

/* The node is a member of a cluster: its replicas come up. */
static lightq_status begin_joining(struct lq_process *process, struct lq_err *err)
{
    char cluster[LQ_ID_TEXT_BYTES];
    process->stage = JOINING;
    lq_id_format(&process->identity.cluster, cluster);
    lq_log(INFO, "member of a cluster", "node", process->options->node_id, "cluster", cluster, "boot",
           process->identity.boot);
    lq_sessions_refuse(process->shard.service.sessions, "the node is starting: it waits for its cluster's catalog");
    lightq_status status = open_store(process, err);
    return status == LIGHTQ_OK ? open_groups(process, err) : status;
}

static void begin_serving(struct lq_process *process)
{
    char cluster[LQ_ID_TEXT_BYTES], client[LQ_ENDPOINT_TEXT_BYTES], peer[LQ_ENDPOINT_TEXT_BYTES];
    process->stage = SERVING;
    process->ready = false;
    lq_seeds_stop(&process->seeds);
    lq_sessions_serve(process->shard.service.sessions, &process->identity.cluster);
    lq_id_format(&process->identity.cluster, cluster);
    lq_endpoint_format(&process->client_told, client);
    lq_endpoint_format(&process->peer_told, peer);
    lq_log(INFO, "serving", "node", process->options->node_id, "client", client, "peer", peer);
    (void)printf("ready node=%u cluster=%s client=%s peer=%s", (unsigned)process->options->node_id, cluster, client,
                 peer);
    if (process->http != NULL) {
        struct lq_endpoint at = process->options->http_at;
        char http[LQ_ENDPOINT_TEXT_BYTES];
        at.port = lq_http_port(process->http);
        lq_endpoint_format(&at, http);
        (void)printf(" http=%s", http);
    }
    (void)printf(" version=%s\n", LQ_VERSION_TEXT);
    (void)fflush(stdout);
}

static void begin_draining(struct lq_process *process)
{
    lq_log(INFO, "ending: leaderships are handed over", "leading",
           process->shard.host == NULL ? 0 : lq_host_leading(process->shard.host));
    process->stage = DRAINING;
    process->drain_until_us =
        lq_clock_monotonic_us(process->clock) + process->options->drain_timeout_ms * MICROS_PER_MILLI;
    lq_sessions_refuse(process->shard.service.sessions, "the node is ending");
    if (process->shard.meta != NULL) {
        lq_meta_drain(process->shard.meta);
    }
}

/* Whether there is anybody to hand leaderships to. */
static bool has_company(const struct lq_process *process)
{
    const struct lq_catalog *catalog = lq_meta_catalog(process->shard.meta);
    struct lq_link *link = lq_transport_link(process->shard.transport);
    for (size_t i = 0; i < lq_catalog_node_count(catalog); i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(catalog, i);
        if (node->id != process->options->node_id && link->ops->connected(link, node->id)) {
            return true;
        }
    }
    return false;
}

static bool is_drained(struct lq_process *process)
{
    if (process->shard.host == NULL || lq_host_leading(process->shard.host) == 0 || !has_company(process)) {
        return true;
    }
    if (lq_clock_monotonic_us(process->clock) < process->drain_until_us) {
        return false;
    }
    lq_log(WARN, "ending although leaderships were not handed over in time", "leading",
           lq_host_leading(process->shard.host));
    return true;
}

/* ---- closing */

static void on_part_closed(void *owner)
{
    struct lq_process *process = owner;
    process->closing--;
}

static void close_signal(uv_signal_t *handle)
{
    if (handle->data != NULL) {
        uv_close((uv_handle_t *)handle, NULL);
    }
}

/* The store is closed: nothing of ours is under way on disk. */
static void on_store_closed(void *owner)
{
    struct lq_process *process = owner;
    struct lq_shard *shard = &process->shard;
    shard->store = NULL;
    if (shard->transport != NULL) {
        process->closing++;
        lq_transport_close(shard->transport, on_part_closed, process);
        shard->transport = NULL;
    }
    if (shard->front != NULL) {
        process->closing++;
        lq_front_close(shard->front, on_part_closed, process);
        shard->front = NULL;
    }
    if (process->http != NULL) {
        process->closing++;
        lq_http_close(process->http, on_part_closed, process);
        process->http = NULL;
    }
    if (shard->io != NULL) {
        process->closing++;
        lq_io_uv_close(shard->io, on_part_closed, process);
        shard->io = NULL;
    }
    close_signal(&process->on_term);
    close_signal(&process->on_interrupt);
    lq_shard_stop(shard);
}

/* From the end of a turn, or before the first. */
static void begin_closing(struct lq_process *process)
{
    struct lq_shard *shard = &process->shard;
    process->stage = CLOSING;
    lq_seeds_stop(&process->seeds);
    if (shard->service.sessions != NULL) {
        lq_sessions_farewell(shard->service.sessions, LIGHTQ_ECLOSED, "the node is ending");
    }
    if (shard->forming != NULL) {
        lq_forming_free(shard->forming);
        shard->forming = NULL;
    }
    if (shard->meta != NULL) {
        lq_meta_free(shard->meta);
        shard->meta = shard->service.meta = NULL;
    }
    if (shard->host != NULL) {
        lq_host_free(shard->host);
        shard->host = NULL;
    }
    if (shard->store != NULL) {
        lq_store_close(shard->store, on_store_closed, process);
    } else {
        on_store_closed(process);
    }
}

static void become_member(struct lq_process *process)
{
    struct lq_err err = {0};
    process->formed = false;
    lq_forming_free(process->shard.forming);
    process->shard.forming = NULL;
    lq_transport_set_admission(process->shard.transport, process->identity.meta_incarnation);
    lq_transport_set_cluster(process->shard.transport, &process->identity.cluster);
    if (begin_joining(process, &err) != LIGHTQ_OK) {
        fail(process, &err);
    }
}

static void on_turn(void *owner)
{
    struct lq_process *process = owner;
    if (process->stage == CLOSING) {
        return;
    }
    if (process->formed && process->stage == FORMING) {
        become_member(process);
    }
    if (process->ready && process->stage == JOINING) {
        begin_serving(process);
    }
    if (process->told_to_end && process->stage != DRAINING) {
        begin_draining(process);
    }
    if (process->failed != LIGHTQ_OK || (process->stage == DRAINING && is_drained(process))) {
        begin_closing(process);
    }
}

static void on_tick(void *owner)
{
    struct lq_process *process = owner;
    lq_seeds_tick(&process->seeds);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct lq_process *process = handle->data;
    if (process->told_to_end) {
        _exit(SIGNAL_EXIT_BASE + number);
    }
    process->told_to_end = true;
}

static lightq_status watch_signal(struct lq_process *process, uv_signal_t *handle, int number, struct lq_err *err)
{
    int error = uv_signal_init(&process->shard.loop, handle);
    if (error == 0) {
        handle->data = process;
        error = uv_signal_start(handle, on_signal, number);
    }
    return error == 0 ? LIGHTQ_OK : lq_err_set(err, LIGHTQ_EINTERNAL, "watch a signal: %s", uv_strerror(error));
}

/* ---- starting */

/* What can be refused without having changed anything. */
static lightq_status open_all(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = &process->shard;
    lightq_status status = lq_shard_init(shard, options, process->clock, err);
    shard->on_tick = on_tick;
    shard->on_turn = on_turn;
    shard->owner = process;
    if (status == LIGHTQ_OK) {
        status = look_at_directory(process, err);
    }
    if (status == LIGHTQ_OK) {
        status = open_peer_port(process, err);
    }
    if (status == LIGHTQ_OK && options->serves_http) {
        status =
            lq_http_new(&shard->loop, &options->http_at, &shard->counters, &http_events, process, &process->http, err);
    }
    if (status == LIGHTQ_OK) {
        status = watch_signal(process, &process->on_term, SIGTERM, err);
    }
    return status == LIGHTQ_OK ? watch_signal(process, &process->on_interrupt, SIGINT, err) : status;
}

static lightq_status start(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    lightq_status status = open_all(process, err);
    if (status == LIGHTQ_OK) {
        status = take_directory(process, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    process->client_told = options->client_told;
    process->peer_told = options->peer_told;
    if (process->client_told.port == 0) {
        process->client_told.port = lq_front_port(process->shard.front);
    }
    if (process->peer_told.port == 0) {
        process->peer_told.port = lq_transport_port(process->shard.transport);
    }
    lq_seeds_init(&process->seeds, options, &process->peer_told, &process->identity, process->clock,
                  process->shard.transport);
    lq_shard_start(&process->shard);
    return process->identity.state == LQ_IDENTITY_MEMBER ? begin_joining(process, err) : begin_forming(process, err);
}

lightq_status lq_server_run(const struct lq_options *options, struct lq_clock *clock, struct lq_err *err)
{
    struct lq_process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory");
    }
    process->options = options;
    process->clock = clock;
    process->err = err;
    struct lq_err why = {0};
    if (start(process, &why) != LIGHTQ_OK) {
        fail(process, &why);
        begin_closing(process);
    }
    if (process->shard.prepare.data != NULL) {
        (void)uv_run(&process->shard.loop, UV_RUN_DEFAULT);
    }
    assert(process->closing == 0);
    lq_shard_deinit(&process->shard);
    lightq_status failed = process->failed;
    free(process);
    return failed;
}
