/* raft/feed.c - AppendEntries to the peers of a group that leads. libraft names ranges of entries; here they become
 * frames, from the cache by reference, else read from disk, one read at a time a peer. Called by group.c (what libraft
 * made) and the turn (what waits). A frame that is lost or late is harmless: Raft finds out and sends again.
 *
 * libraft counts on getting all it named sent, except where it probes: then one entry is enough to find out where the
 * logs agree, and a conflicting tail, which goes back one entry a round trip, would else send the whole window every
 * time. */
#include <inttypes.h>

#include "raft/group.h"

void lq_feed_drop(struct lq_group_peer *peer)
{
    if (peer->feed.read != NULL) {
        peer->feed.read->group = NULL;
    }
    peer->feed = (struct lq_feed){.next = 1, .end = 0};
}

static bool waiting(const struct lq_feed *feed)
{
    return feed->next <= feed->end;
}

/* ---- what libraft made ---- */

/* libraft's own state of a peer is not public. It probes a peer it has just met, after a rejection it took notice of,
 * and when it went back; it stops when the peer's match moves on. */
static void update_probing(struct lq_group *group, struct lq_group_peer *peer, const struct raft_append_entries *append)
{
    raft_index match = 0;
    (void)raft_match_index(&group->raft, peer->id, &match);
    if (peer->probing && match > peer->probe_match) {
        peer->probing = false;
    }
    bool back = append->n_entries != 0 && append->prev_log_index + 1 < peer->expected;
    if (!peer->probing && (peer->expected == 0 || back || group->rejected_by == peer->id)) {
        peer->probing = true;
        peer->probe_match = match;
    }
}

static void beat(struct lq_group *group, struct lq_group_peer *peer, const struct raft_message *message)
{
    struct lq_host *host = group->host;
    struct lq_heartbeat beat;
    lq_heartbeat_of(group->id, group->self, message, &beat);
    beat.commit = raft_commit_index(&group->raft);
    if (waiting(&peer->feed)) {
        if (peer->feed.read == NULL && !peer->feed.paused) {
            return; /* entries go out in this turn: they say as much */
        }
        /* Entries before it are still to be read: speak of what the peer is known to have, or it would reject. */
        raft_index match = 0;
        (void)raft_match_index(&group->raft, peer->id, &match);
        beat.prev_index = match;
        beat.prev_term = match == 0 ? 0 : lq_rlog_term_at(group->log, match);
        if (match != 0 && beat.prev_term == 0) {
            return; /* trimmed here: libraft will send the checkpoint */
        }
    }
    /* With a full window libraft makes an empty one for every proposal (replication.c:68). */
    if (peer->sent_ms != 0 && host->now_ms - peer->sent_ms < host->heartbeat_ms / 4) {
        return;
    }
    peer->sent_ms = host->now_ms;
    lq_group_trace(group, LQ_TRACE_SEND, RAFT_APPEND_ENTRIES, peer->id);
    lq_host_beat(host, &beat);
}

void lq_feed_take(struct lq_group *group, const struct raft_message *message)
{
    const struct raft_append_entries *append = &message->append_entries;
    struct lq_group_peer *peer = lq_group_peer(group, message->server_id);
    if (peer == NULL) {
        return;
    }
    peer->emitted_ms = group->step_ms;
    if (group->muted) {
        return;
    }
    update_probing(group, peer, append);
    if (append->n_entries == 0) {
        beat(group, peer, message);
        return;
    }
    uint64_t first = append->prev_log_index + 1;
    uint64_t end = peer->probing ? first : append->prev_log_index + append->n_entries;
    if (waiting(&peer->feed) && first == peer->feed.end + 1) {
        peer->feed.end = end;
    } else {
        lq_feed_drop(peer);
        peer->feed.next = first;
        peer->feed.end = end;
    }
    peer->expected = end + 1;
    lq_group_dirty(group);
}

/* ---- sending ---- */

/* False: not sent, and nothing behind it should be. */
static bool send_entries(struct lq_group *group, struct lq_group_peer *peer, const struct lq_entry_ref *refs,
                         size_t count)
{
    struct lq_host *host = group->host;
    struct lq_rpc_head head;
    struct lq_frame frame;
    uint64_t prev = peer->feed.next - 1;
    uint64_t prev_term = prev == 0 ? 0 : lq_rlog_term_at(group->log, prev);
    if (prev != 0 && prev_term == 0) {
        return false; /* trimmed meanwhile */
    }
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES, .server_id = peer->id};
    message.append_entries = (struct raft_append_entries){.version = 0,
                                                          .term = group->leader_term,
                                                          .prev_log_index = prev,
                                                          .prev_log_term = prev_term,
                                                          .leader_commit = raft_commit_index(&group->raft)};
    if (lq_rpc_encode_append(group->id, group->self, &message, refs, count, &head, &frame) != LIGHTQ_OK ||
        lq_host_send(host, lq_replica_node(peer->id), &frame) != LIGHTQ_OK) {
        return false;
    }
    lq_group_trace(group, LQ_TRACE_SEND, RAFT_APPEND_ENTRIES, peer->id);
    peer->sent_ms = host->now_ms;
    peer->feed.next += count;
    return true;
}

static bool queue_full(struct lq_group *group, const struct lq_group_peer *peer)
{
    struct lq_link *link = group->host->link;
    return link->ops->queued(link, lq_replica_node(peer->id)) >= LQ_FEED_PAUSE_BYTES;
}

/* Frames of about LQ_PEER_FRAME_BYTES_SOFT out of entries read together. */
static void send_read(struct lq_group *group, struct lq_group_peer *peer, const struct lq_entry_ref *refs, size_t count)
{
    size_t at = 0;
    while (at < count) {
        size_t end = at;
        uint64_t bytes = 0;
        while (end < count && end - at < LQ_PEER_ENTRIES_MAX &&
               (end == at || bytes + refs[end].size <= LQ_PEER_FRAME_BYTES_SOFT)) {
            bytes += refs[end++].size;
        }
        if (!send_entries(group, peer, refs + at, end - at)) {
            lq_feed_drop(peer);
            return;
        }
        at = end;
    }
}

static void flush_peer(struct lq_group *group, struct lq_group_peer *peer);

/* Rule 4: only if this replica still leads in the term the read was made for (else its peers were dropped, and the read
 * with them), and the log was not cut meanwhile. */
static void on_read(struct lq_group *group, struct lq_read *read, lightq_status status)
{
    struct lq_group_peer *peer = lq_group_peer(group, read->peer);
    if (peer == NULL || peer->feed.read != read) {
        return;
    }
    peer->feed.read = NULL;
    if (status == LIGHTQ_ECORRUPT || status == LIGHTQ_EIO) {
        lq_feed_drop(peer);
        lq_group_unreadable(group, status, read->read.index); /* rule 10 */
        return;
    }
    if (status != LIGHTQ_OK || !lq_group_leads(group) || read->read.index != peer->feed.next ||
        read->read.generation != lq_rlog_generation(group->log)) {
        lq_feed_drop(peer);
        return;
    }
    size_t wanted = (size_t)(peer->feed.end - peer->feed.next + 1);
    send_read(group, peer, read->read.refs, read->read.count < wanted ? read->read.count : wanted);
    flush_peer(group, peer);
    lq_host_rearm(group);
}

static void pause_feed(struct lq_group *group, struct lq_feed *feed)
{
    feed->paused = true;
    group->retry_ms = group->host->now_ms + group->host->tick_ms;
}

static void flush_peer(struct lq_group *group, struct lq_group_peer *peer)
{
    struct lq_feed *feed = &peer->feed;
    struct lq_entry_ref *refs = group->host->refs;
    feed->paused = false;
    while (waiting(feed) && feed->read == NULL) {
        if (queue_full(group, peer)) {
            pause_feed(group, feed);
            return;
        }
        uint64_t wanted = feed->end - feed->next + 1;
        size_t count = lq_rlog_peek(group->log, feed->next, LQ_PEER_FRAME_BYTES_SOFT,
                                    wanted < LQ_PEER_ENTRIES_MAX ? (size_t)wanted : LQ_PEER_ENTRIES_MAX, refs);
        if (count == 0) {
            lightq_status status = lq_host_read(group, feed->next, LQ_FEED_READ_BYTES, peer->id, on_read, &feed->read);
            if (status == LIGHTQ_EBUSY || status == LIGHTQ_ENOMEM) {
                pause_feed(group, feed);
            } else if (status != LIGHTQ_OK) {
                lq_feed_drop(peer);
            }
            return;
        }
        bool sent = send_entries(group, peer, refs, count);
        for (size_t i = 0; i < count; i++) {
            lq_slab_unref(refs[i].slab);
        }
        if (!sent) {
            lq_feed_drop(peer);
        }
    }
}

void lq_feed_flush(struct lq_group *group)
{
    if (!lq_group_leads(group) || lq_group_vote_pending(group) || group->muted) {
        return;
    }
    for (unsigned i = 0; i < group->peer_count; i++) {
        flush_peer(group, &group->peers[i]);
    }
}
