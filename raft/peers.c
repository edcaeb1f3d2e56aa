/* raft/peers.c - what a host keeps of other nodes: what is gathered for them until the end of the turn, and what they
 * say of their disks. Called by host.c and the files of a group. Loop thread only. */
#include <stdlib.h>

#include "raft/group.h"

enum { STATUS_INTERVAL_MS = 200 };

/* ---- peers ---- */

struct lq_host_peer *lq_host_find_peer(const struct lq_host *host, uint32_t node)
{
    struct lq_host_peer *peer;
    HASH_FIND(hh, host->peers, &node, sizeof node, peer);
    return peer;
}

struct lq_host_peer *lq_host_get_peer(struct lq_host *host, uint32_t node)
{
    struct lq_host_peer *peer = lq_host_find_peer(host, node);
    if (peer == NULL) {
        peer = calloc(1, sizeof *peer);
        if (peer != NULL) {
            peer->node = node;
            HASH_ADD(hh, host->peers, node, sizeof peer->node, peer);
            if (peer->hh.tbl == NULL) {
                free(peer);
                peer = NULL;
            }
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
    struct lq_host_peer *peer = lq_host_get_peer(host, node);
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

void lq_host_flush_gathered(struct lq_host *host)
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
    const struct lq_host_peer *peer = lq_host_find_peer(host, node);
    return peer != NULL && peer->status_known && peer->status.free_bytes < host->reserve_bytes;
}

uint64_t lq_host_free_bytes(const struct lq_host *host, uint32_t node)
{
    if (node == host->node) {
        return host->space.free_bytes;
    }
    const struct lq_host_peer *peer = lq_host_find_peer(host, node);
    return peer != NULL && peer->status_known ? peer->status.free_bytes : 0;
}

void lq_host_status_round(struct lq_host *host)
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
