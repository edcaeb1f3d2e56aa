/* raft/install.c - checkpoints between replicas: a leader sends the one its log begins with, in pieces, to a follower
 * that lacks what was trimmed; the follower puts it together, and libraft then says whether it is to replace the log.
 * The entries behind it come as ordinary AppendEntries. Called by group.c, receive.c and the turn.
 *
 * Rule 8: from the moment the log takes a checkpoint until it is durable, nothing is applied, stored counts as 0, and
 * news of the old log is dropped. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "raft/group.h"

/* ---- sending ---- */

static void free_loaded(struct lq_slab *slab, void *context)
{
    (void)slab;
    free(context);
}

void lq_install_drop(struct lq_group_peer *peer)
{
    if (peer->install != NULL) {
        lq_slab_unref(peer->install->bytes);
        free(peer->install);
        peer->install = NULL;
    }
}

/* libraft asks again at every rejected heartbeat; what is under way, or has just gone, is not begun again. */
static bool under_way(const struct lq_group *group, const struct lq_group_peer *peer, uint64_t last_index)
{
    const struct lq_install_out *install = peer->install;
    return install != NULL && install->checkpoint.last_index == last_index &&
           (install->done_ms == 0 || group->host->now_ms - install->done_ms < LQ_INSTALL_RETRY_MS);
}

static struct lq_install_out *load(struct lq_group *group, uint64_t last_index)
{
    uint8_t *bytes;
    struct lq_err err;
    struct lq_install_out *install = calloc(1, sizeof *install);
    if (install == NULL) {
        return NULL;
    }
    lightq_status status = lq_rlog_load_checkpoint(group->log, last_index, false, &install->checkpoint, &bytes, &err);
    if (status != LIGHTQ_OK) {
        free(install);
        if (status == LIGHTQ_EIO || status == LIGHTQ_ECORRUPT) {
            lq_group_fail(group, status, "group %" PRIu64 ": %s", group->id, err.text);
        }
        return NULL;
    }
    const struct lq_checkpoint *checkpoint = &install->checkpoint;
    size_t size = checkpoint->state_size == 0 ? 1 : (size_t)(checkpoint->state - bytes) + checkpoint->state_size;
    install->bytes = lq_slab_wrap(bytes, size, free_loaded, bytes);
    if (install->bytes == NULL || checkpoint->last_index != last_index) {
        if (install->bytes == NULL) {
            free(bytes);
        }
        lq_slab_unref(install->bytes);
        free(install);
        return NULL;
    }
    return install;
}

void lq_install_begin(struct lq_group *group, const struct raft_message *message)
{
    struct lq_group_peer *peer = lq_group_peer(group, message->server_id);
    if (peer == NULL) {
        return;
    }
    peer->emitted_ms = group->step_ms;
    if (group->muted || under_way(group, peer, message->install_snapshot.last_index)) {
        return;
    }
    lq_install_drop(peer);
    lq_feed_drop(peer);
    peer->install = load(group, message->install_snapshot.last_index);
    if (peer->install != NULL) {
        peer->install->term = message->install_snapshot.term;
        lq_log(INFO, "sending a checkpoint", "group", group->id, "replica", peer->id, "last_index",
               peer->install->checkpoint.last_index, "bytes", peer->install->checkpoint.state_size);
        lq_group_dirty(group);
    }
}

/* One piece. False: no more now (the queue is full, the connection is gone, or all is sent). */
static bool send_piece(struct lq_group *group, struct lq_group_peer *peer)
{
    struct lq_host *host = group->host;
    struct lq_install_out *install = peer->install;
    const struct lq_checkpoint *checkpoint = &install->checkpoint;
    if (host->link->ops->queued(host->link, lq_replica_node(peer->id)) >= LQ_FEED_PAUSE_BYTES) {
        group->retry_ms = host->now_ms + host->tick_ms;
        return false;
    }
    uint64_t left = checkpoint->state_size - install->offset;
    struct lq_rpc_piece piece = {.checkpoint = *checkpoint,
                                 .offset = install->offset,
                                 .size = left < LQ_CHECKPOINT_PIECE_BYTES ? (uint32_t)left : LQ_CHECKPOINT_PIECE_BYTES};
    piece.last = piece.size == left;
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT, .server_id = peer->id};
    message.install_snapshot = (struct raft_install_snapshot){.version = 0,
                                                              .term = install->term,
                                                              .last_index = checkpoint->last_index,
                                                              .last_term = checkpoint->last_term,
                                                              .conf_index = checkpoint->configuration_index};
    struct lq_rpc_head head;
    struct lq_frame frame;
    uint32_t body = piece.size == 0 ? 0 : (uint32_t)(checkpoint->state - install->bytes->bytes + install->offset);
    if (lq_rpc_encode_install(group->id, group->self, &message, &piece, piece.size == 0 ? NULL : install->bytes, body,
                              &head, &frame) != LIGHTQ_OK ||
        lq_host_send(host, lq_replica_node(peer->id), &frame) != LIGHTQ_OK) {
        lq_install_drop(peer);
        return false;
    }
    lq_group_trace(group, LQ_TRACE_SEND, RAFT_INSTALL_SNAPSHOT, peer->id);
    install->offset += piece.size;
    if (piece.last) {
        install->done_ms = host->now_ms;
    }
    return !piece.last;
}

void lq_install_flush(struct lq_group *group)
{
    if (!lq_group_leads(group) || lq_group_vote_pending(group) || group->muted) {
        return;
    }
    for (unsigned i = 0; i < group->peer_count; i++) {
        struct lq_group_peer *peer = &group->peers[i];
        while (peer->install != NULL && peer->install->done_ms == 0 && send_piece(group, peer)) {
        }
    }
}

/* ---- receiving ---- */

void lq_install_in_free(struct lq_group *group, struct lq_install_in **install)
{
    if (*install != NULL) {
        group->host->receiving_bytes -= (*install)->capacity;
        free((*install)->state);
        free(*install);
        *install = NULL;
    }
}

void lq_install_forget(struct lq_group *group)
{
    lq_install_in_free(group, &group->receiving);
    lq_install_in_free(group, &group->installing);
    group->installed = 0;
}

static struct lq_install_in *begin_receiving(const struct lq_rpc *rpc)
{
    struct lq_install_in *install = calloc(1, sizeof *install);
    if (install != NULL) {
        install->from = rpc->from;
        install->term = rpc->message.install_snapshot.term;
        install->checkpoint = rpc->piece.checkpoint;
        memcpy(install->configuration, rpc->piece.checkpoint.configuration, rpc->piece.checkpoint.configuration_size);
        install->checkpoint.configuration = install->configuration;
    }
    return install;
}

static bool continues(const struct lq_install_in *install, const struct lq_rpc *rpc)
{
    const struct lq_checkpoint *a = &install->checkpoint;
    const struct lq_checkpoint *b = &rpc->piece.checkpoint;
    return install->from == rpc->from && install->term == rpc->message.install_snapshot.term &&
           a->last_index == b->last_index && a->last_term == b->last_term && a->next_offset == b->next_offset &&
           a->timestamp_ms == b->timestamp_ms && a->configuration_index == b->configuration_index &&
           a->state_size == b->state_size && rpc->piece.offset == install->size;
}

/* Room for what has arrived, never for what is only announced. */
static bool make_room(struct lq_group *group, struct lq_install_in *install, uint64_t size)
{
    struct lq_host *host = group->host;
    if (size <= install->capacity) {
        return true;
    }
    uint64_t capacity = install->capacity * 2 > size ? install->capacity * 2 : size;
    capacity = capacity < install->checkpoint.state_size ? capacity : install->checkpoint.state_size;
    if (host->receiving_bytes - install->capacity + capacity > LQ_RECEIVING_BYTES_MAX) {
        return false;
    }
    uint8_t *state = realloc(install->state, capacity);
    if (state == NULL) {
        return false;
    }
    host->receiving_bytes += capacity - install->capacity;
    install->state = state;
    install->capacity = capacity;
    return true;
}

/* True when the checkpoint is whole. */
static bool put_together(struct lq_group *group, const struct lq_rpc *rpc)
{
    if (rpc->piece.offset == 0) {
        lq_install_in_free(group, &group->receiving);
        group->receiving = begin_receiving(rpc);
    }
    struct lq_install_in *install = group->receiving;
    if (install == NULL || !continues(install, rpc) || !make_room(group, install, install->size + rpc->piece.size)) {
        group->host->counters.messages_refused++;
        return false;
    }
    if (rpc->piece.size != 0) {
        memcpy(install->state + install->size, rpc->piece.bytes, rpc->piece.size);
        install->size += rpc->piece.size;
    }
    install->last_ms = group->host->now_ms;
    return rpc->piece.last;
}

/* libraft needs no more than the message's fields: the leader's term is old, or we have what it offers. */
static bool answered_at_once(const struct lq_group *group, const struct raft_install_snapshot *install)
{
    return install->term < raft_current_term(&group->raft) || lq_rlog_first(group->log) > install->last_index ||
           lq_rlog_term_at(group->log, install->last_index) == install->last_term;
}

void lq_install_receive(struct lq_group *group, struct lq_rpc *rpc)
{
    struct raft_install_snapshot *message = &rpc->message.install_snapshot;
    if (lq_group_installing(group)) {
        group->host->counters.messages_refused++; /* libraft would leak it (replication.c:946) */
        return;
    }
    if (answered_at_once(group, message)) {
        if (rpc->piece.offset == 0) {
            lq_group_step_receive(group, &rpc->message, NULL);
            lq_group_settle(group);
        }
        return;
    }
    if (!put_together(group, rpc)) {
        return;
    }
    const struct lq_checkpoint *checkpoint = &group->receiving->checkpoint;
    if (lq_servers_configuration(checkpoint->configuration, checkpoint->configuration_size, &message->conf) ==
        LIGHTQ_OK) {
        lq_group_step_receive(group, &rpc->message, NULL); /* takes the configuration; the state stays with us */
    }
    lq_install_in_free(group, &group->receiving);
    lq_group_settle(group);
}

/* ---- making it ours ---- */

static void drop_apply_read(struct lq_group *group)
{
    if (group->apply_read != NULL) {
        group->apply_read->group = NULL;
        group->apply_read = NULL;
    }
}

void lq_install_take(struct lq_group *group, struct raft_update *update)
{
    uint64_t last_index = update->snapshot.metadata.index;
    raft_configuration_close(&update->snapshot.metadata.configuration);
    struct lq_install_in *install = group->receiving;
    if (install == NULL || install->checkpoint.last_index != last_index || last_index <= group->applied) {
        lq_group_fail(group, LIGHTQ_ECORRUPT,
                      "group %" PRIu64 ": the leader wants the log replaced by a checkpoint of entry %" PRIu64
                      ", but %" PRIu64 " are applied here",
                      group->id, last_index, group->applied);
        return;
    }
    group->receiving = NULL;
    lq_install_in_free(group, &group->installing);
    group->installing = install;
    group->installed = 0;
    drop_apply_read(group);
    lq_apply_forget_ready(group);
    install->checkpoint.state = install->state;
    lq_group_trace(group, LQ_TRACE_INSTALL, last_index, install->checkpoint.state_size);
    lightq_status status = lq_rlog_install(group->log, &install->checkpoint);
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": cannot install the leader's checkpoint", group->id);
        return;
    }
    group->tail_offset = install->checkpoint.next_offset;
    group->tail_timestamp_ms = install->checkpoint.timestamp_ms;
    group->stall_since_ms = 0;
}

void lq_install_turn(struct lq_group *group)
{
    struct lq_install_in *install = group->installing;
    if (install == NULL || group->installed != install->checkpoint.last_index || lq_group_vote_pending(group) ||
        group->failed != LIGHTQ_OK) {
        return;
    }
    group->installed = 0;
    group->installing = NULL;
    lq_group_trace(group, LQ_TRACE_INSTALLED, install->checkpoint.last_index, install->checkpoint.last_term);
    lq_group_step_installed(group, &install->checkpoint);
    lightq_status status = LIGHTQ_OK;
    if (group->failed == LIGHTQ_OK) {
        status = group->ops->load(group->machine, install->state, (size_t)install->size);
    }
    if (status == LIGHTQ_OK) {
        status = lq_apply_checkpoint_taken(group, &install->checkpoint);
    }
    if (status != LIGHTQ_OK) {
        lq_group_fail(group, status, "group %" PRIu64 ": the leader's checkpoint cannot be loaded", group->id);
    } else {
        lq_log(INFO, "checkpoint installed", "group", group->id, "last_index", install->checkpoint.last_index);
    }
    lq_install_in_free(group, &install);
}
