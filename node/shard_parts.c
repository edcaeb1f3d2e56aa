/* node/shard_parts.c - opens and closes what is on a shard: peer port, store, groups. See shard.h. Opening is called on
 * the process's first thread, before the shard has one of its own; all else on the shard's. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/log.h"
#include "node/shard.h"
#include "storage/io_uv.h"
#include "storage/reshard.h"

#define MICROS_PER_MILLI 1000

void lq_shard_fail(struct lq_shard *shard, const struct lq_err *err)
{
    if (shard->failed == LIGHTQ_OK) {
        shard->failed = err->status == LIGHTQ_OK ? LIGHTQ_EINTERNAL : err->status;
        shard->err = *err;
        lq_shard_tell(shard, LQ_SHARD_FAILED);
    }
}

/* ---- the peer port */

static lightq_status on_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_shard *shard = owner;
    if (shard->host != NULL) {
        return lq_host_link_events.receive(shard->host, node, frame);
    }
    return shard->forming == NULL ? LIGHTQ_OK : lq_forming_link_events.receive(shard->forming, node, frame);
}

static void on_up(void *owner, uint32_t node)
{
    struct lq_shard *shard = owner;
    if (shard->host != NULL) {
        lq_host_link_events.up(shard->host, node);
    } else if (shard->forming != NULL) {
        lq_forming_link_events.up(shard->forming, node);
    }
}

static void on_down(void *owner, uint32_t node, bool refused)
{
    struct lq_shard *shard = owner;
    if (shard->host != NULL) {
        lq_host_link_events.down(shard->host, node, refused);
    } else if (shard->forming != NULL) {
        lq_forming_link_events.down(shard->forming, node, refused);
    }
}

static lightq_status on_identify(void *owner, const struct lq_hello *hello, struct lq_err *err)
{
    struct lq_shard *shard = owner;
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
    struct lq_shard *shard = owner;
    if (shard->meta != NULL) {
        lq_meta_replaced(shard->meta, node, sentence);
    }
}

/* Another node does not believe that we are who we say. */
static void on_rejected(void *owner, uint32_t node, lightq_status status, const char *sentence)
{
    struct lq_shard *shard = owner;
    if (shard->forming != NULL) {
        shard->events->rejected(shard->owner, node, status, sentence);
        return;
    }
    lq_log(WARN, "a node refuses this one", "node", node, "shard", shard->number, "status", lightq_status_name(status),
           "why", sentence);
    if (!shard->serving && !shard->draining && !shard->closing) {
        lq_sessions_refuse(shard->service.sessions, sentence);
    }
}

lightq_status lq_shard_open_peer_port(struct lq_shard *shard, uint64_t nonce, struct lq_err *err)
{
    const struct lq_options *options = &shard->options;
    struct lq_transport_options transport = {
        .node = (uint32_t)options->node_id,
        .uuid = shard->identity.uuid,
        .cluster = shard->identity.cluster,
        .admission = shard->identity.meta_incarnation,
        .boot_count = shard->identity.boot + 1, /* of this start: counted when nothing can be refused any more */
        .boot_nonce = nonce,
        .shard = (uint16_t)shard->number,
        .shards = (uint16_t)shard->count,
        .queue_bytes_max = options->memory.peer,
    };
    struct lq_transport_events events = {
        .link = {.receive = on_frame, .up = on_up, .down = on_down},
        .link_owner = shard,
        .identify = on_identify,
        .rejected = on_rejected,
        .replaced = on_replaced,
        .owner = shard,
    };
    lightq_status status = lq_transport_new(&transport, &shard->loop, shard->clock, &shard->transport, err);
    if (status == LIGHTQ_OK) {
        status = lq_transport_listen(shard->transport, options->peer.host, options->peer.port, options->peer_insecure,
                                     &events, err);
    }
    if (status == LIGHTQ_EADDRINUSE) {
        char text[LQ_ENDPOINT_TEXT_BYTES];
        lq_endpoint_format(&options->peer, text);
        return lq_err_set(err, status,
                          "the peer port %s is in use: end the other process, or choose another with --peer-listen",
                          text);
    }
    return status;
}

/* ---- store and groups */

void lq_shard_store_options(const struct lq_shard *shard, struct lq_store_options *store)
{
    const struct lq_options *options = &shard->options;
    *store = (struct lq_store_options){
        .must_exist = shard->identity.stored,
        .cluster = shard->identity.cluster,
        .shard = shard->number,
        .shards = shard->count,
        .segment_bytes = options->segment_bytes,
        .journal_bytes = options->journal_bytes,
        .cache_bytes = options->cache_bytes,
        .files_max = options->files_max,
        .scrub_bytes_per_second = options->scrub_bytes,
        .scrub_interval_ms = options->scrub_interval_ms,
    };
}

lightq_status lq_shard_advise(const struct lq_shard *shard, struct lq_err *err)
{
    const struct lq_err what = *err;
    int node = (int)shard->options.node_id;
    return lq_err_set(err, what.status,
                      "%s; while a majority of the other nodes is whole, move the data directory away, start "
                      "this node with an empty one, and run 'lightq node replace %d %d'",
                      what.text, node, node);
}

lightq_status lq_shard_open_store(struct lq_shard *shard, struct lq_err *err)
{
    char directory[LQ_SHARD_DIR_BYTES];
    struct lq_store_options store;
    lq_shard_dir(directory, shard->number);
    lq_shard_store_options(shard, &store);
    store.dir = directory;
    lightq_status status = lq_store_open(shard->io, shard->clock, &store, &shard->store, err);
    if (status == LIGHTQ_EDAMAGED) {
        const struct lq_err what = *err;
        (void)lq_err_set(err, status, "%s%s%s", directory, shard->number > 0 ? ": " : "", what.text);
        return lq_shard_advise(shard, err);
    }
    return status;
}

static void on_peer(void *owner, const struct lq_catalog_node *node)
{
    struct lq_shard *shard = owner;
    struct lq_transport *transport = shard->transport;
    if (node->state != LQ_NODE_ACTIVE) {
        lq_transport_remove_peer(transport, node->id);
        return;
    }
    const struct lq_id *uuid = lq_id_is_zero(&node->uuid) ? NULL : &node->uuid;
    uint16_t port = (uint16_t)(node->peer.port + shard->number);
    lightq_status status = lq_transport_set_peer(transport, node->id, node->peer.host, port, uuid);
    if (status != LIGHTQ_OK) {
        lq_log(ERROR, "a node of the catalog cannot be connected to", "node", node->id, "host", node->peer.host,
               "status", lightq_status_name(status));
    }
}

static void on_ready(void *owner)
{
    struct lq_shard *shard = owner;
    if (shard->number > 0 && !shard->draining && !shard->closing) {
        shard->serving = true;
        lq_sessions_serve(shard->service.sessions, &shard->identity.cluster);
    }
    lq_shard_tell(shard, LQ_SHARD_READY);
}

static void on_expelled(void *owner, const struct lq_err *err)
{
    lq_shard_fail(owner, err);
}

static const struct lq_meta_events meta_events = {.peer = on_peer, .ready = on_ready, .expelled = on_expelled};

lightq_status lq_shard_open_groups(struct lq_shard *shard, const struct lq_endpoint *client,
                                   const struct lq_endpoint *peer, struct lq_err *err)
{
    const struct lq_options *options = &shard->options;
    struct lq_link *link = lq_transport_link(shard->transport);
    struct lq_meta_options meta = {
        .identity = &shard->identity,
        .io = shard->io,
        .clock = shard->clock,
        .store = shard->store,
        .link = link,
        .client = *client,
        .peer = *peer,
        .shard = shard->number,
        .shards = shard->count,
        .house = &shard->house,
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
    lq_sessions_refuse(shard->service.sessions, "the node is starting: it waits for its cluster's catalog");
    lightq_status status = lq_meta_new(&meta, &meta_events, shard, &shard->meta, err);
    if (status == LIGHTQ_OK) {
        status =
            lq_host_new(&host, shard->clock, shard->store, link, &lq_meta_host_events, shard->meta, &shard->host, err);
    }
    if (status == LIGHTQ_OK) {
        shard->service.meta = shard->meta;
        status = lq_meta_start(shard->meta, shard->host, err);
    }
    return status;
}

/* ---- draining */

void lq_shard_drain(struct lq_shard *shard)
{
    if (shard->draining || shard->closing) {
        return;
    }
    lq_log(INFO, "ending: leaderships are handed over", "shard", shard->number, "leading",
           shard->host == NULL ? 0 : lq_host_leading(shard->host));
    shard->draining = true;
    shard->serving = false;
    shard->drain_until_us = lq_clock_monotonic_us(shard->clock) + shard->options.drain_timeout_ms * MICROS_PER_MILLI;
    lq_sessions_refuse(shard->service.sessions, "the node is ending");
    if (shard->meta != NULL) {
        lq_meta_drain(shard->meta);
    }
}

/* Whether there is anybody to hand leaderships to. */
static bool has_company(const struct lq_shard *shard)
{
    const struct lq_catalog *catalog = lq_meta_catalog(shard->meta);
    struct lq_link *link = lq_transport_link(shard->transport);
    for (size_t i = 0; i < lq_catalog_node_count(catalog); i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(catalog, i);
        if (node->id != shard->options.node_id && link->ops->connected(link, node->id)) {
            return true;
        }
    }
    return false;
}

static bool is_drained(struct lq_shard *shard)
{
    if (shard->host == NULL || lq_host_leading(shard->host) == 0 || !has_company(shard)) {
        return true;
    }
    if (lq_clock_monotonic_us(shard->clock) < shard->drain_until_us) {
        return false;
    }
    lq_log(WARN, "ending although leaderships were not handed over in time", "shard", shard->number, "leading",
           lq_host_leading(shard->host));
    return true;
}

/* ---- closing */

static void part_closed(struct lq_shard *shard)
{
    if (--shard->parts == 0) {
        lq_shard_tell(shard, LQ_SHARD_CLOSED);
    }
}

static void on_part_closed(void *owner)
{
    part_closed(owner);
}

/* The store is closed: nothing of ours is under way on disk. */
static void on_store_closed(void *owner)
{
    struct lq_shard *shard = owner;
    shard->store = NULL;
    shard->parts = 1;
    if (shard->transport != NULL) {
        shard->parts++;
        lq_transport_close(shard->transport, on_part_closed, shard);
        shard->transport = NULL;
    }
    if (shard->front != NULL) {
        shard->parts++;
        lq_front_close(shard->front, on_part_closed, shard);
        shard->front = NULL;
    }
    if (shard->io != NULL) {
        shard->parts++;
        lq_io_uv_close(shard->io, on_part_closed, shard);
        shard->io = NULL;
    }
    lq_shard_stop(shard);
    part_closed(shard);
}

static void close_parts(struct lq_shard *shard)
{
    shard->parts_closed = true;
    if (shard->meta != NULL) {
        lq_meta_free(shard->meta);
        shard->meta = shard->service.meta = NULL;
    }
    if (shard->host != NULL) {
        lq_host_free(shard->host);
        shard->host = NULL;
    }
    if (shard->store != NULL) {
        lq_store_close(shard->store, on_store_closed, shard);
    } else {
        on_store_closed(shard);
    }
}

void lq_shard_close(struct lq_shard *shard)
{
    if (shard->closing) {
        return;
    }
    shard->closing = true;
    if (shard->service.sessions != NULL) {
        lq_sessions_farewell(shard->service.sessions, LIGHTQ_ECLOSED, "the node is ending");
    }
    if (shard->forming != NULL) {
        lq_forming_free(shard->forming);
        shard->forming = NULL;
    }
    if (shard->meta != NULL) {
        lq_meta_close(shard->meta);
    }
    lq_shard_look_after(shard);
}

void lq_shard_look_after(struct lq_shard *shard)
{
    if (shard->draining && !shard->drained && !shard->closing && is_drained(shard)) {
        shard->drained = true;
        lq_shard_tell(shard, LQ_SHARD_DRAINED);
    }
    /* What others still have of ours comes home first. */
    if (shard->closing && !shard->parts_closed && (shard->meta == NULL || lq_meta_is_quiet(shard->meta))) {
        close_parts(shard);
    }
}
