/* tests/lib/raft_solo.c - see raft_solo.h. */
#include "tests/lib/raft_solo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sure.h"

/* ---- clock ---- */

static struct solo *of_clock(struct lq_clock *clock)
{
    return (struct solo *)(void *)((char *)clock - offsetof(struct solo, clock));
}

static uint64_t on_monotonic(struct lq_clock *clock)
{
    return of_clock(clock)->now_us;
}

static uint64_t on_wall(struct lq_clock *clock)
{
    return of_clock(clock)->now_us / 1000;
}

static void on_random(struct lq_clock *clock, void *out, size_t size)
{
    struct solo *solo = of_clock(clock);
    for (size_t i = 0; i < size; i++) {
        solo->random = solo->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((uint8_t *)out)[i] = (uint8_t)(solo->random >> 56);
    }
}

/* ---- link ---- */

static struct solo *of_link(struct lq_link *link)
{
    return (struct solo *)(void *)((char *)link - offsetof(struct solo, link));
}

/* The bytes of a frame in one slab, as a receiver has them. */
static struct lq_frame_in flatten(const struct lq_frame *frame)
{
    size_t size = frame->head_size + frame->body_size;
    for (size_t i = 0; i < frame->entry_count; i++) {
        size += frame->entries[i].size;
    }
    struct lq_slab *slab = sure_slab(size + 1);
    assert(slab != NULL);
    uint8_t *at = slab->bytes;
    memcpy(at, frame->head, frame->head_size);
    at += frame->head_size;
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

static struct solo_sent *new_sent(struct solo *solo, uint32_t node, enum lq_frame_type type)
{
    assert(solo->sent_count < SOLO_SENT_MAX);
    struct solo_sent *sent = &solo->sent[solo->sent_count++];
    *sent = (struct solo_sent){.node = node, .type = type, .at_ms = solo->now_us / 1000};
    return sent;
}

static void keep_heartbeats(struct solo *solo, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_heartbeats heartbeats;
    struct lq_err err;
    lightq_status status = lq_rpc_decode_heartbeats(frame, 1, node, &heartbeats, &err);
    assert(status == LIGHTQ_OK);
    for (uint32_t i = 0; i < heartbeats.beat_count; i++) {
        struct lq_heartbeat beat;
        lq_heartbeats_beat(&heartbeats, i, &beat);
        lq_heartbeat_message(&beat, &new_sent(solo, node, frame->type)->message);
    }
    for (uint32_t i = 0; i < heartbeats.result_count; i++) {
        struct lq_heartbeat_result result;
        lq_heartbeats_result(&heartbeats, i, &result);
        lq_heartbeat_result_message(&result, &new_sent(solo, node, frame->type)->message);
    }
}

static void keep_message(struct solo *solo, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_rpc_scratch scratch;
    struct lq_rpc rpc;
    struct lq_err err;
    uint8_t token[1];
    lq_rpc_scratch_init(&scratch, token);
    lightq_status status = lq_rpc_decode(frame, 1, node, &scratch, &rpc, &err);
    if (status == LIGHTQ_ENOMEM) {
        status = lq_rpc_decode(frame, 1, node, &scratch, &rpc, &err);
    }
    assert(status == LIGHTQ_OK);
    struct solo_sent *sent = new_sent(solo, node, frame->type);
    sent->message = rpc.message;
    sent->entry_count = rpc.entry_count;
    sent->first_index = rpc.first_index;
    sent->last_index = rpc.first_index + rpc.entry_count - 1;
    sent->piece = rpc.piece;
    sent->message.server_address = NULL;
    if (rpc.entry_count > solo->max_frame_entries) {
        solo->max_frame_entries = rpc.entry_count;
    }
    lq_rpc_scratch_deinit(&scratch);
}

static lightq_status on_send(struct lq_link *link, uint32_t node, const struct lq_frame *frame)
{
    struct solo *solo = of_link(link);
    assert(node < 16);
    if (!solo->connected[node]) {
        return LIGHTQ_ECONNECT;
    }
    if (solo->send_status[node] != LIGHTQ_OK) {
        return solo->send_status[node];
    }
    struct lq_frame_in in = flatten(frame);
    if (frame->type == LQ_FRAME_HEARTBEATS) {
        keep_heartbeats(solo, node, &in);
    } else if (frame->type != LQ_FRAME_STATUS) {
        keep_message(solo, node, &in);
    }
    lq_slab_unref(in.slab);
    return LIGHTQ_OK;
}

static bool on_connected(struct lq_link *link, uint32_t node)
{
    return of_link(link)->connected[node];
}

static uint64_t on_queued(struct lq_link *link, uint32_t node)
{
    return of_link(link)->queued[node];
}

static const struct lq_link_ops link_ops = {.send = on_send, .connected = on_connected, .queued = on_queued};

static lightq_status deliver(struct solo *solo, uint32_t node, const struct lq_frame *frame)
{
    struct lq_frame_in in = flatten(frame);
    lightq_status status = lq_host_link_events.receive(solo->host, node, &in);
    lq_slab_unref(in.slab);
    return status;
}

/* ---- machine ---- */

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    struct solo_machine *m = machine;
    (void)slab;
    assert(m->applied_count < 4096);
    if (m->apply_status != LIGHTQ_OK) {
        return m->apply_status;
    }
    m->applied[m->applied_count++] = entry->index;
    if (entry->type == LQ_ENTRY_COMMAND && entry->payload_size != 0) {
        m->state += entry->payload[0];
    }
    if (m->on_apply != NULL) {
        m->on_apply(m, entry);
    }
    return LIGHTQ_OK;
}

static void on_lead(void *machine, uint64_t term)
{
    struct solo_machine *m = machine;
    m->leads++;
    m->lead_term = term;
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    struct solo_machine *m = machine;
    m->follows++;
    m->leader = leader;
    m->follow_term = term;
    m->lead_term = 0;
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    struct solo_machine *m = machine;
    m->saves++;
    lq_write_u64(writer, m->state);
    return LIGHTQ_OK;
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    struct solo_machine *m = machine;
    m->loads++;
    m->applied_count = 0;
    m->state = size >= 8 ? lq_get_u64(bytes) : 0;
    return LIGHTQ_OK;
}

static uint64_t on_trim_to(void *machine)
{
    return ((struct solo_machine *)machine)->trim_to;
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    struct solo_machine *m = machine;
    assert(err->status == status);
    m->stops++;
    m->stopped = status;
}

static void on_servers(void *machine, const struct lq_servers *servers)
{
    struct solo_machine *m = machine;
    m->server_calls++;
    m->servers = *servers;
}

static const struct lq_machine_ops machine_ops = {.apply = on_apply,
                                                  .lead = on_lead,
                                                  .follow = on_follow,
                                                  .save = on_save,
                                                  .load = on_load,
                                                  .trim_to = on_trim_to,
                                                  .stopped = on_stopped,
                                                  .servers = on_servers};

static void on_unknown(void *owner, uint32_t node, uint64_t group)
{
    struct solo *solo = owner;
    (void)node;
    (void)group;
    solo->unknown_groups++;
}

static const struct lq_host_events host_events = {.unknown_group = on_unknown};

/* ---- life ---- */

static lightq_status open_host(struct solo *solo)
{
    struct lq_err err;
    lightq_status status =
        lq_store_open(fake_disk_io(solo->disk), &solo->clock, &solo->store_options, &solo->store, &err);
    assert(status == LIGHTQ_OK);
    return lq_host_new(&solo->options, &solo->clock, solo->store, &solo->link, &host_events, solo, &solo->host, &err);
}

void solo_prepare(struct solo *solo)
{
    *solo = (struct solo){.now_us = 5000000, .random = 42};
    solo->clock = (struct lq_clock){.monotonic_us = on_monotonic, .wall_ms = on_wall, .random = on_random};
    solo->link.ops = &link_ops;
    solo->options.node = 1;
    solo->store_options = (struct lq_store_options){.dir = "", .segment_bytes = 0};
    for (unsigned i = 0; i < 16; i++) {
        solo->connected[i] = true;
    }
    solo->machine.solo = solo;
    solo->disk = fake_disk_new();
}

static lightq_status open_group(struct solo *solo, unsigned voters)
{
    struct lq_servers founders = {.count = voters};
    struct lq_err err;
    for (unsigned i = 0; i < voters; i++) {
        /* Ours last, so that it is not the one that starts an election at once. */
        founders.at[i] = (struct lq_server){.id = SOLO_PEER(voters - i), .role = LQ_ROLE_VOTER};
    }
    lightq_status status = lq_group_open(solo->host, SOLO_GROUP, 1, voters == 0 ? NULL : &founders, &machine_ops,
                                         &solo->machine, &solo->group, &err);
    solo->group = status == LIGHTQ_OK ? solo->group : NULL;
    return status;
}

lightq_status solo_try_open(struct solo *solo, unsigned voters)
{
    lightq_status status = open_host(solo);
    return status == LIGHTQ_OK ? open_group(solo, voters) : status;
}

void solo_open(struct solo *solo, unsigned voters)
{
    lightq_status status = solo_try_open(solo, voters);
    assert(status == LIGHTQ_OK);
}

void solo_init(struct solo *solo, unsigned voters)
{
    solo_prepare(solo);
    solo_open(solo, voters);
    solo_turn(solo);
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

void solo_deinit(struct solo *solo)
{
    bool closed = false;
    fake_store_hold_reads(solo->store, false);
    lq_host_free(solo->host);
    lq_store_close(solo->store, on_closed, &closed);
    assert(closed);
    fake_disk_free(solo->disk);
}

lightq_status solo_try_restart(struct solo *solo)
{
    lq_store_abandon(solo->store);
    lq_host_abandon(solo->host);
    unsigned stops = solo->machine.stops;
    solo->host = NULL;
    solo->group = NULL;
    solo->machine = (struct solo_machine){.solo = solo, .stops = stops};
    solo_forget_sent(solo);
    return solo_try_open(solo, 0);
}

void solo_restart(struct solo *solo)
{
    lightq_status status = solo_try_restart(solo);
    assert(status == LIGHTQ_OK);
}

/* ---- time ---- */

void solo_turn_only(struct solo *solo)
{
    lq_host_turn(solo->host);
}

void solo_turn(struct solo *solo)
{
    for (unsigned i = 0; i < 20; i++) {
        lq_host_turn(solo->host);
        fake_store_complete(solo->store);
    }
    lq_host_turn(solo->host);
}

static void advance(struct solo *solo, unsigned ms, bool disk)
{
    uint64_t end = solo->now_us + (uint64_t)ms * 1000;
    while (solo->now_us < end) {
        uint64_t due = lq_host_deadline_us(solo->host);
        uint64_t next = due < solo->now_us + 1000 ? solo->now_us + 1000 : due;
        solo->now_us = next < end ? next : end;
        if (due <= solo->now_us) {
            lq_host_tick(solo->host);
        }
        if (disk) {
            solo_turn(solo);
        } else {
            solo_turn_only(solo);
        }
    }
}

void solo_advance(struct solo *solo, unsigned ms)
{
    advance(solo, ms, true);
}

void solo_advance_only(struct solo *solo, unsigned ms)
{
    advance(solo, ms, false);
}

/* ---- what peers say ---- */

void solo_message(struct solo *solo, lq_replica_id from, const struct raft_message *message)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    struct raft_message to_us = *message;
    to_us.server_id = solo->group == NULL ? SOLO_SELF : solo->group->self;
    lightq_status status = lq_rpc_encode(SOLO_GROUP, from, &to_us, &head, &frame);
    assert(status == LIGHTQ_OK);
    status = deliver(solo, lq_replica_node(from), &frame);
    assert(status == LIGHTQ_OK);
}

struct lq_entry_ref solo_entry(uint64_t index, uint64_t term, uint64_t prev_term, enum lq_entry_type type,
                               const void *payload, uint32_t size)
{
    struct lq_slab *slab = sure_slab(lq_entry_size(size));
    assert(slab != NULL);
    if (size != 0) {
        memcpy(slab->bytes + LQ_ENTRY_HEADER_BYTES, payload, size);
    }
    struct lq_entry entry = {.group = SOLO_GROUP,
                             .index = index,
                             .term = term,
                             .prev_term = prev_term,
                             .base_offset = index,
                             .timestamp_ms = 1000 + index,
                             .type = type,
                             .payload_size = size};
    lq_entry_seal(slab->bytes, &entry);
    return (struct lq_entry_ref){.slab = slab, .size = (uint32_t)lq_entry_size(size)};
}

lightq_status solo_append(struct solo *solo, const struct solo_append *append)
{
    struct lq_entry_ref refs[64];
    uint64_t prev_term = append->prev_term;
    void *change = NULL;
    size_t change_size = 0;
    if (append->servers.count != 0) {
        lightq_status status = lq_servers_encode(&append->servers, &change, &change_size);
        if (status == LIGHTQ_ENOMEM) {
            status = lq_servers_encode(&append->servers, &change, &change_size);
        }
        assert(status == LIGHTQ_OK);
    }
    for (unsigned i = 0; i < append->count; i++) {
        enum lq_entry_type type = append->types[i] == 0 ? LQ_ENTRY_COMMAND : append->types[i];
        uint64_t term = append->terms[i] == 0 ? append->term : append->terms[i];
        const void *payload = type == LQ_ENTRY_CHANGE ? change : &append->fill;
        uint32_t size = type == LQ_ENTRY_CHANGE ? (uint32_t)change_size : type == LQ_ENTRY_COMMAND;
        refs[i] = solo_entry(append->prev + 1 + i, term, prev_term, type, payload, size);
        prev_term = term;
    }
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES, .server_id = solo->group->self};
    message.append_entries.term = append->term;
    message.append_entries.prev_log_index = append->prev;
    message.append_entries.prev_log_term = append->prev_term;
    message.append_entries.leader_commit = append->commit;
    struct lq_rpc_head head;
    struct lq_frame frame;
    lightq_status status = lq_rpc_encode_append(SOLO_GROUP, append->from, &message, refs, append->count, &head, &frame);
    assert(status == LIGHTQ_OK);
    status = deliver(solo, lq_replica_node(append->from), &frame);
    for (unsigned i = 0; i < append->count; i++) {
        lq_slab_unref(refs[i].slab);
    }
    raft_free(change);
    return status;
}

static void deliver_heartbeats(struct solo *solo, uint32_t node, const struct lq_heartbeat *beat,
                               const struct lq_heartbeat_result *result)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    lightq_status status = lq_rpc_encode_heartbeats(beat, beat != NULL, result, result != NULL, &head, &frame);
    if (status == LIGHTQ_ENOMEM) {
        status = lq_rpc_encode_heartbeats(beat, beat != NULL, result, result != NULL, &head, &frame);
    }
    assert(status == LIGHTQ_OK);
    status = deliver(solo, node, &frame);
    assert(status == LIGHTQ_OK);
    lq_slab_unref(frame.body);
}

void solo_beat(struct solo *solo, lq_replica_id from, uint64_t term, uint64_t prev, uint64_t prev_term, uint64_t commit)
{
    struct lq_heartbeat beat = {.group = SOLO_GROUP,
                                .from = from,
                                .to = solo->group->self,
                                .term = term,
                                .prev_index = prev,
                                .prev_term = prev_term,
                                .commit = commit};
    deliver_heartbeats(solo, lq_replica_node(from), &beat, NULL);
}

void solo_result(struct solo *solo, lq_replica_id from, uint64_t term, uint64_t rejected, uint64_t last)
{
    struct lq_heartbeat_result result = {.group = SOLO_GROUP,
                                         .from = from,
                                         .to = solo->group->self,
                                         .term = term,
                                         .rejected = rejected,
                                         .last_index = last,
                                         .features = 1,
                                         .capacity = 1,
                                         .version = 2};
    deliver_heartbeats(solo, lq_replica_node(from), NULL, &result);
}

lightq_status solo_install(struct solo *solo, lq_replica_id from, uint64_t term, const struct lq_rpc_piece *piece,
                           const uint8_t *bytes)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    struct lq_slab *body = sure_slab(piece->size + 1);
    assert(body != NULL);
    memcpy(body->bytes, bytes, piece->size);
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT, .server_id = solo->group->self};
    message.install_snapshot.term = term;
    message.install_snapshot.last_index = piece->checkpoint.last_index;
    message.install_snapshot.last_term = piece->checkpoint.last_term;
    message.install_snapshot.conf_index = piece->checkpoint.configuration_index;
    lightq_status status =
        lq_rpc_encode_install(SOLO_GROUP, from, &message, piece, piece->size == 0 ? NULL : body, 0, &head, &frame);
    assert(status == LIGHTQ_OK);
    status = deliver(solo, lq_replica_node(from), &frame);
    lq_slab_unref(body);
    return status;
}

void solo_status(struct solo *solo, uint32_t node, uint64_t free_bytes)
{
    struct lq_rpc_head head;
    struct lq_frame frame;
    struct lq_node_status status = {.free_bytes = free_bytes, .total_bytes = UINT64_C(1) << 40};
    lq_rpc_encode_status(&status, &head, &frame);
    lightq_status delivered = deliver(solo, node, &frame);
    assert(delivered == LIGHTQ_OK);
}

/* ---- what was sent ---- */

const struct solo_sent *solo_last(const struct solo *solo, enum raft_message_type type, uint32_t node)
{
    for (unsigned i = solo->sent_count; i > 0; i--) {
        const struct solo_sent *sent = &solo->sent[i - 1];
        if (sent->message.type == type && (node == 0 || sent->node == node)) {
            return sent;
        }
    }
    return NULL;
}

unsigned solo_count(const struct solo *solo, enum raft_message_type type, uint32_t node)
{
    unsigned count = 0;
    for (unsigned i = 0; i < solo->sent_count; i++) {
        count += solo->sent[i].message.type == type && (node == 0 || solo->sent[i].node == node);
    }
    return count;
}

void solo_forget_sent(struct solo *solo)
{
    solo->sent_count = 0;
    solo->max_frame_entries = 0;
}

/* ---- roles ---- */

static void grant(struct solo *solo)
{
    struct raft_request_vote asked = {.term = 0};
    uint32_t nodes[16];
    unsigned count = 0;
    for (unsigned i = 0; i < solo->sent_count; i++) {
        if (solo->sent[i].message.type == RAFT_REQUEST_VOTE && count < 16) {
            asked = solo->sent[i].message.request_vote;
            nodes[count++] = solo->sent[i].node;
        }
    }
    solo_forget_sent(solo);
    for (unsigned i = 0; i < count; i++) {
        struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT};
        message.request_vote_result = (struct raft_request_vote_result){
            .version = 2, .term = asked.term, .vote_granted = true, .pre_vote = asked.pre_vote, .features = 1};
        solo_message(solo, SOLO_PEER(nodes[i]), &message);
    }
}

void solo_acknowledge(struct solo *solo)
{
    struct lq_group_status status;
    lq_group_status(solo->group, &status);
    for (unsigned i = 0; i < status.replica_count; i++) {
        if (status.replicas[i].id != solo->group->self) {
            solo_result(solo, status.replicas[i].id, status.term, 0, status.last);
        }
    }
    solo_turn(solo);
}

void solo_lead(struct solo *solo)
{
    struct lq_group_status status;
    lq_group_status(solo->group, &status);
    for (unsigned i = 0; i < 200 && !status.leading; i++) {
        solo_advance(solo, 100);
        grant(solo);
        solo_turn(solo);
        grant(solo);
        solo_turn(solo);
        lq_group_status(solo->group, &status);
        if (status.leader == solo->group->self) {
            solo_acknowledge(solo);
            lq_group_status(solo->group, &status);
        }
    }
    assert(status.leading);
    solo_forget_sent(solo);
}

void solo_follow(struct solo *solo, lq_replica_id leader, uint64_t term)
{
    struct lq_group_status status;
    lq_group_status(solo->group, &status);
    uint64_t prev_term = status.last == 0 ? 0 : lq_rlog_term_at(solo->group->log, status.last);
    solo_beat(solo, leader, term, status.last, prev_term, 0);
    solo_turn(solo);
    solo_forget_sent(solo);
}

lightq_status solo_submit(struct solo *solo, uint8_t fill, uint32_t size, uint64_t *index)
{
    uint8_t *bytes = sure_malloc(size + 1);
    assert(bytes != NULL);
    memset(bytes, fill, size + 1);
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct lq_proposal proposal = {.payload = &iov,
                                   .payload_count = 1,
                                   .message_count = 1,
                                   .base_offset = solo->group->tail_offset,
                                   .timestamp_ms = solo->now_us / 1000,
                                   .is_append = true};
    lightq_status status = lq_group_submit(solo->group, &proposal, index);
    free(bytes);
    return status;
}
