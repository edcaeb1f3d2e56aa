/* node/meta.c - the node's part in the cluster: its life, the machine of the meta group, the letters of other nodes,
 * and the turn that gives everybody else theirs. See meta.h; what belongs to it is listed in meta_internal.h. */
#include "node/meta.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/catalog_command.h"
#include "node/codec.h"
#include "node/meta_internal.h"

#define TICK_MS_DEFAULT              100
#define GROUPS_PER_TURN_DEFAULT      16
#define TRANSFER_AFTER_MS_DEFAULT    5000
#define TRANSFERS_PER_SECOND_DEFAULT 50
#define RETAIN_MS_DEFAULT            10000
#define AGAIN_MS                     1000 /* rebuilding or retiring the meta replica, telling new addresses */
#define JOIN_TIMEOUT_MS              3000

uint64_t lq_meta_now_us(const struct lq_meta *meta)
{
    return lq_clock_monotonic_us(meta->options.clock);
}

uint32_t lq_meta_self(const struct lq_meta *meta)
{
    return meta->options.identity->node;
}

void lq_meta_card(const struct lq_meta *meta, struct lq_node_card *card)
{
    const struct lq_identity *identity = meta->options.identity;
    *card = (struct lq_node_card){.node = identity->node,
                                  .shards = identity->shards,
                                  .uuid = identity->uuid,
                                  .boot = identity->boot,
                                  .client = meta->options.client,
                                  .peer = meta->options.peer};
}

/* ---- the machine of the meta group ---- */

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    struct lq_meta *meta = machine;
    uint64_t version = lq_catalog_version(meta->catalog);
    (void)slab;
    if (meta->leading && entry->term != meta->term) {
        meta->leading = false; /* it was lost, and follow() has not come yet */
        lq_controller_drop(meta);
    }
    lightq_status status = lq_catalog_apply(meta->catalog, entry);
    if (status != LIGHTQ_OK) {
        return status;
    }
    meta->catalog_changed |= lq_catalog_version(meta->catalog) != version;
    lq_controller_applied(meta, entry->index);
    return LIGHTQ_OK;
}

static void on_lead(void *machine, uint64_t term)
{
    struct lq_meta *meta = machine;
    lq_controller_drop(meta); /* of an earlier term */
    meta->leading = true;
    meta->term = term;
    meta->leader = lq_replica_make(lq_meta_self(meta), meta->incarnation);
    meta->begin_asked = false;
    meta->unsettled = true;
    meta->requests.work = true;
    meta->neighbours.stale = true;
    lq_log(INFO, "this node is the controller", "term", term);
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    struct lq_meta *meta = machine;
    meta->leading = false;
    meta->term = term;
    meta->leader = leader;
    meta->requests.work = true;
    meta->neighbours.stale = true;
    lq_controller_drop(meta);
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    return lq_catalog_save(((struct lq_meta *)machine)->catalog, writer);
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    struct lq_meta *meta = machine;
    lightq_status status = lq_catalog_load(meta->catalog, bytes, size);
    meta->catalog_changed |= status == LIGHTQ_OK;
    return status;
}

/* A checkpoint holds the whole catalog: nothing before it is needed. */
static uint64_t on_trim_to(void *machine)
{
    return lq_catalog_applied(((struct lq_meta *)machine)->catalog);
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    struct lq_meta *meta = machine;
    meta->leading = false;
    meta->leader = 0;
    meta->state = LQ_META_BROKEN;
    meta->rebuild = status == LIGHTQ_ECORRUPT || status == LIGHTQ_EDAMAGED;
    meta->why = *err;
    meta->why.status = status;
    lq_controller_drop(meta);
    lq_log(ERROR, "the meta group's replica has stopped", "status", lightq_status_name(status), "why", err->text);
}

static void on_servers(void *machine, const struct lq_servers *servers)
{
    struct lq_meta *meta = machine;
    meta->servers = *servers;
    meta->unsettled = true;
}

static const struct lq_machine_ops machine_ops = {
    .apply = on_apply,
    .lead = on_lead,
    .follow = on_follow,
    .save = on_save,
    .load = on_load,
    .trim_to = on_trim_to,
    .stopped = on_stopped,
    .servers = on_servers,
};

lightq_status lq_meta_propose(struct lq_meta *meta, const struct lq_catalog_command *command, uint64_t *index)
{
    struct lq_writer writer;
    if (meta->group == NULL) {
        return LIGHTQ_ENOTLEADER;
    }
    lq_writer_init(&writer, LQ_CATALOG_COMMAND_BYTES_MAX);
    lq_catalog_command_encode(command, &writer);
    lightq_status status = writer.status;
    if (status == LIGHTQ_OK) {
        const struct iovec payload = {.iov_base = writer.bytes, .iov_len = writer.size};
        const struct lq_proposal proposal = {
            .payload = &payload, .payload_count = 1, .timestamp_ms = lq_clock_wall_ms(meta->options.clock)};
        status = lq_group_submit(meta->group, &proposal, index);
    }
    lq_writer_deinit(&writer);
    return status;
}

/* ---- the replica of the meta group ---- */

/* The servers the meta group begins with: the founders, the first five at most as voters, an odd number. The same on
 * each, since they promised the same. */
static void founding_servers(const struct lq_identity *identity, struct lq_servers *servers)
{
    const struct lq_founders *founders = &identity->proposal.founders;
    uint32_t voters = founders->count < LQ_META_VOTERS_MAX ? founders->count : LQ_META_VOTERS_MAX;
    voters -= voters % 2 == 0;
    servers->count = founders->count;
    for (uint32_t i = 0; i < founders->count; i++) {
        servers->at[i] = (struct lq_server){.id = lq_replica_make(founders->at[i].node, LQ_INCARNATION_FOUNDER),
                                            .role = i < voters ? LQ_ROLE_VOTER : LQ_ROLE_STANDBY};
    }
}

static lightq_status open_meta_group(struct lq_meta *meta, struct lq_err *err)
{
    const struct lq_identity *identity = meta->options.identity;
    struct lq_servers servers;
    bool founds = identity->founder && identity->meta_incarnation == LQ_INCARNATION_FOUNDER;
    if (founds) {
        founding_servers(identity, &servers);
    }
    meta->incarnation = identity->meta_incarnation;
    lightq_status status = lq_group_open(meta->host, LQ_META_GROUP, meta->incarnation, founds ? &servers : NULL,
                                         &machine_ops, meta, &meta->group, err);
    if (status == LIGHTQ_OK) {
        meta->state = LQ_META_OPEN;
        meta->rebuild = meta->asked = false;
        meta->why.text[0] = '\0';
        return LIGHTQ_OK;
    }
    meta->group = NULL;
    meta->state = LQ_META_BROKEN;
    meta->rebuild = status == LIGHTQ_EDAMAGED || status == LIGHTQ_ECORRUPT;
    meta->why = *err;
    return status;
}

/* Tried again with each tick while the log before it cannot be set aside yet. */
static void open_renewed(struct lq_meta *meta)
{
    struct lq_err err = {.status = LIGHTQ_OK};
    if (!meta->renewing) {
        return;
    }
    lightq_status status = open_meta_group(meta, &err);
    meta->renewing = status == LIGHTQ_EBUSY || status == LIGHTQ_ENOSPC;
    if (status != LIGHTQ_OK && status != LIGHTQ_EBUSY) {
        lq_log(ERROR, "the meta group's replica cannot be made", "status", lightq_status_name(status), "why", err.text);
    }
}

/* The replica here is what the catalog wants: what was set aside for it is not needed any more. */
static void drop_aside(struct lq_meta *meta)
{
    const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, lq_meta_self(meta));
    lq_replica_id self = lq_replica_make(lq_meta_self(meta), meta->incarnation);
    if (!meta->aside || !meta->seen_self || meta->state != LQ_META_OPEN || node == NULL ||
        node->meta_incarnation != meta->incarnation) {
        return;
    }
    for (unsigned i = 0; i < meta->servers.count; i++) {
        if (meta->servers.at[i].id == self && (meta->servers.at[i].role == LQ_ROLE_VOTER) == node->meta_voter) {
            meta->aside = false;
            lq_store_drop_aside(meta->options.store, LQ_META_GROUP);
        }
    }
}

/* It goes on under a new incarnation, known durably before anything of it is made. */
static void renew_meta_group(struct lq_meta *meta, uint32_t incarnation)
{
    struct lq_err err = {.status = LIGHTQ_OK};
    struct lq_identity next = *meta->options.identity;
    next.meta_incarnation = incarnation;
    lightq_status status = lq_identity_store(meta->options.io, &next, &err);
    if (status != LIGHTQ_OK) {
        lq_log(ERROR, "the identity cannot be written", "why", err.text);
        return; /* tried again */
    }
    lq_log(INFO, "the meta group's replica is made anew", "old", meta->incarnation, "new", incarnation);
    *meta->options.identity = next;
    if (meta->group != NULL) {
        lq_group_close(meta->group, false); /* what it has is set aside when the new one is opened */
        meta->group = NULL;
    }
    meta->state = LQ_META_CLOSED;
    meta->leading = false;
    meta->leader = 0;
    meta->servers.count = 0;
    meta->seen_self = false; /* the catalog begins anew, and says nothing of us for a while */
    meta->renewing = true;
    open_renewed(meta);
}

static void on_meta_rebuilt(struct lq_meta *meta, void *data, const struct lq_letter_reply *reply)
{
    (void)data;
    meta->asked = false;
    meta->again_us = lq_meta_now_us(meta) + AGAIN_MS * LQ_MICROS_PER_MILLI;
    if (reply->status == LIGHTQ_OK && reply->incarnation > meta->options.identity->meta_incarnation) {
        meta->renew_to = reply->incarnation;
    } else if (reply->status != LIGHTQ_OK) {
        lq_log(WARN, "the meta group's replica is not rebuilt yet", "status", lightq_status_name(reply->status), "why",
               reply->text);
    }
}

/* Which incarnation the catalog wants here; 0: not known. */
static uint32_t wanted_incarnation(const struct lq_meta *meta)
{
    const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, lq_meta_self(meta));
    bool is_me =
        node != NULL && node->state == LQ_NODE_ACTIVE && lq_id_equal(&node->uuid, &meta->options.identity->uuid);
    return is_me ? node->meta_incarnation : 0;
}

/* What the search for rot says: as a leader this replica hands over and stops, else it goes on until it is rebuilt. Not
 * in the same moment: that another node is away is known after a while only. */
static void look_for_rot(struct lq_meta *meta, uint64_t now_us)
{
    uint64_t index;
    const struct lq_err *rot = meta->state == LQ_META_OPEN ? lq_rlog_rot(lq_group_log(meta->group), &index) : NULL;
    if (meta->state == LQ_META_OPEN && (rot != NULL) != meta->rebuild) {
        meta->rebuild = rot != NULL;
        meta->again_us = now_us + 2 * AGAIN_MS * LQ_MICROS_PER_MILLI;
        return;
    }
    if (rot != NULL && meta->leading) {
        lq_group_unreadable(meta->group, LIGHTQ_ECORRUPT, index);
    }
}

static void tick_meta_group(struct lq_meta *meta)
{
    uint64_t now_us = lq_meta_now_us(meta);
    if (now_us < meta->again_us || meta->asked) {
        return;
    }
    look_for_rot(meta, now_us);
    if (now_us < meta->again_us) {
        return;
    }
    if (meta->state != LQ_META_CLOSED && meta->rebuild) {
        const struct lq_letter_request letter = {.verb = LQ_REQUEST_REBUILD,
                                                 .group = LQ_META_GROUP,
                                                 .node = lq_meta_self(meta),
                                                 .incarnation = meta->options.identity->meta_incarnation};
        meta->again_us = now_us + AGAIN_MS * LQ_MICROS_PER_MILLI;
        meta->asked = lq_requests_errand(meta, &letter, AGAIN_MS * 5, on_meta_rebuilt, NULL) == LIGHTQ_OK;
    } else if (meta->state == LQ_META_OPEN && wanted_incarnation(meta) > meta->incarnation) {
        const struct lq_letter letter = {.kind = LQ_LETTER_RETIRE,
                                         .retire = {.group = LQ_META_GROUP, .incarnation = meta->incarnation}};
        meta->again_us = now_us + AGAIN_MS * LQ_MICROS_PER_MILLI;
        for (unsigned i = 0; i < meta->peers.count; i++) {
            if (meta->peers.at[i].connected) {
                lq_letter_send(meta->options.link, meta->peers.at[i].node, &letter);
            }
        }
    }
}

/* ---- letters ---- */

static void on_info(struct lq_meta *meta, uint32_t node, const struct lq_letter_info *info)
{
    const struct lq_identity *identity = meta->options.identity;
    if (info->state == LQ_IDENTITY_MEMBER) {
        lq_peers_meet(meta, &info->card);
        return;
    }
    lq_peers_welcome(meta, &info->card);
    struct lq_letter letter = {.kind = LQ_LETTER_INFO,
                               .info = {.expect = info->expect,
                                        .state = LQ_IDENTITY_MEMBER,
                                        .cluster = identity->cluster,
                                        .has_proposal = identity->founder,
                                        .proposal = identity->proposal}};
    lq_meta_card(meta, &letter.info.card);
    lq_letter_send(meta->options.link, node, &letter);
}

/* @data is the node's id. When the node closes first, it is not answered, and asks another one. */
static void on_join_answered(struct lq_meta *meta, void *data, const struct lq_letter_reply *reply)
{
    uint32_t node = (uint32_t)(uintptr_t)data;
    struct lq_peer *peer = lq_peers_find(meta, node);
    if (peer == NULL || !peer->joining) {
        return;
    }
    struct lq_letter letter = {.kind = LQ_LETTER_JOINED,
                               .joined = {.status = reply->status,
                                          .uuid = peer->joining_uuid,
                                          .cluster = meta->options.identity->cluster,
                                          .incarnation = reply->incarnation}};
    (void)snprintf(letter.joined.text, sizeof letter.joined.text, "%s", reply->text);
    lq_letter_send(meta->options.link, node, &letter);
    peer->joining = false;
}

static void on_join(struct lq_meta *meta, uint32_t node, const struct lq_node_card *card)
{
    lq_peers_welcome(meta, card);
    struct lq_peer *peer = lq_peers_note(meta, node);
    if (peer == NULL || peer->joining || lq_catalog_version(meta->catalog) == 0) {
        return; /* it asks again */
    }
    const struct lq_letter_request letter = {.verb = LQ_REQUEST_JOIN, .card = *card};
    peer->joining_uuid = card->uuid;
    peer->joining =
        lq_requests_errand(meta, &letter, JOIN_TIMEOUT_MS, on_join_answered, (void *)(uintptr_t)node) == LIGHTQ_OK;
}

static void on_retired(struct lq_meta *meta, const struct lq_letter_retire *retire)
{
    if (retire->group != LQ_META_GROUP) {
        lq_replicas_on_retired(meta, retire);
    } else if (meta->state == LQ_META_OPEN && retire->incarnation == meta->incarnation &&
               wanted_incarnation(meta) > meta->incarnation) {
        meta->renew_to = wanted_incarnation(meta);
    }
}

/* The catalog does not reach a replica that is out: its leader says what is wanted. */
static void on_renew(struct lq_meta *meta, const struct lq_letter_retire *renew)
{
    if (renew->group == LQ_META_GROUP && renew->incarnation > meta->options.identity->meta_incarnation) {
        meta->renew_to = renew->incarnation;
    }
}

/* Who is not in the catalog may only say who it is, and ask to be taken in. Who was let in since the catalog here was
 * written may also say what helps it to be read on (docs/adr/0010-behind-the-catalog.md). */
static bool may_say(struct lq_meta *meta, uint32_t node, enum lq_letter_kind kind)
{
    const struct lq_catalog_node *known = lq_catalog_node(meta->catalog, node);
    const struct lq_peer *peer = lq_peers_find(meta, node);
    if (peer != NULL && peer->is_later) {
        return kind == LQ_LETTER_INFO || kind == LQ_LETTER_REPORT || kind == LQ_LETTER_REPLY || kind == LQ_LETTER_RENEW;
    }
    return kind == LQ_LETTER_INFO || kind == LQ_LETTER_JOIN || !lq_meta_knows_nodes(meta) ||
           (known != NULL && known->state == LQ_NODE_ACTIVE);
}

static lightq_status on_letter(struct lq_meta *meta, uint32_t node, const struct lq_letter *letter)
{
    if (!may_say(meta, node, letter->kind)) {
        return LIGHTQ_OK;
    }
    switch (letter->kind) {
    case LQ_LETTER_INFO:
        if (letter->info.card.node != node) {
            return LIGHTQ_EPROTO;
        }
        on_info(meta, node, &letter->info);
        break;
    case LQ_LETTER_JOIN:
        if (letter->join.node != node) {
            return LIGHTQ_EPROTO;
        }
        on_join(meta, node, &letter->join);
        break;
    case LQ_LETTER_REQUEST:
        lq_controller_take(meta, node, &letter->request);
        break;
    case LQ_LETTER_REPLY:
        lq_requests_on_reply(meta, node, &letter->reply);
        break;
    case LQ_LETTER_REPORT:
        lq_peers_on_report(meta, node, &letter->report);
        break;
    case LQ_LETTER_INSPECT:
        lq_inspect_on_ask(meta, node, &letter->inspect);
        break;
    case LQ_LETTER_INSPECTED:
        lq_inspect_on_answer(meta, node, &letter->inspected);
        break;
    case LQ_LETTER_RETIRE:
        lq_replicas_on_retire(meta, node, &letter->retire);
        break;
    case LQ_LETTER_RETIRED:
        on_retired(meta, &letter->retire);
        break;
    case LQ_LETTER_RENEW:
        on_renew(meta, &letter->retire);
        break;
    case LQ_LETTER_JOINED:
        break; /* for a node without a cluster */
    }
    return LIGHTQ_OK;
}

static lightq_status on_node_frame(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_meta *meta = owner;
    struct lq_letter letter;
    if (frame->size > 0 && frame->slab->bytes[frame->offset] >= LQ_CARRIER_FIRST) {
        bool passed_on = meta->carrier != NULL && may_say(meta, node, LQ_LETTER_REQUEST);
        return passed_on ? meta->carrier->frame(meta->carrier->owner, node, frame) : LIGHTQ_OK;
    }
    lightq_status status = lq_letter_decode(frame->slab->bytes + frame->offset, frame->size, &letter);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_EVERSION ? LIGHTQ_OK : LIGHTQ_EPROTO;
    }
    return on_letter(meta, node, &letter);
}

void lq_meta_set_carrier(struct lq_meta *meta, const struct lq_meta_carrier *carrier)
{
    meta->carrier = carrier;
}

lightq_status lq_meta_carry(struct lq_meta *meta, uint32_t node, struct lq_slab *slab)
{
    const struct lq_frame frame = {.type = LQ_FRAME_NODE, .body = slab, .body_size = (uint32_t)slab->size};
    return meta->options.link->ops->send(meta->options.link, node, &frame);
}

static void on_link_changed(void *owner, uint32_t node, bool up)
{
    lq_peers_link_changed(owner, node, up);
}

const struct lq_host_events lq_meta_host_events = {.node_frame = on_node_frame, .link_changed = on_link_changed};

/* ---- who this node is to the cluster ---- */

/* A node that is new reads the catalog's history first. By that it cannot judge: one that was replaced since then, and
 * leads the meta group now, would be refused, and the rest of the history with it. */
bool lq_meta_knows_nodes(const struct lq_meta *meta)
{
    return lq_catalog_version(meta->catalog) != 0 && meta->seen_self;
}

/* Once the catalog has named this directory, it must go on doing so. */
static void check_self(struct lq_meta *meta)
{
    const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, lq_meta_self(meta));
    bool is_me =
        node != NULL && node->state == LQ_NODE_ACTIVE && lq_id_equal(&node->uuid, &meta->options.identity->uuid);
    if (is_me) {
        meta->seen_self = true;
    } else if (meta->seen_self) {
        struct lq_err err;
        (void)lq_err_set(&err, LIGHTQ_EREPLACED,
                         "node %" PRIu32 " was replaced: this data directory is no longer part of the cluster. Move "
                         "it away, and start with an empty one",
                         lq_meta_self(meta));
        lq_admission_expel(meta, &err);
    }
}

static void on_update_answered(struct lq_meta *meta, void *data, const struct lq_letter_reply *reply)
{
    (void)data;
    (void)reply; /* what it came to is seen in the catalog */
    meta->update_asked = false;
    meta->update_again_us = lq_meta_now_us(meta) + AGAIN_MS * LQ_MICROS_PER_MILLI;
}

static bool same_endpoint(const struct lq_endpoint *a, const struct lq_endpoint *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* The catalog has this start, and where the node is now. */
static void tell_catalog(struct lq_meta *meta)
{
    const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, lq_meta_self(meta));
    struct lq_letter_request letter = {.verb = LQ_REQUEST_UPDATE};
    lq_meta_card(meta, &letter.card);
    if (meta->options.shard != 0 || !meta->seen_self || meta->expelled || meta->update_asked || node == NULL ||
        lq_meta_now_us(meta) < meta->update_again_us) {
        return;
    }
    bool is_told = node->boot >= letter.card.boot && node->shards == letter.card.shards &&
                   same_endpoint(&node->client, &letter.card.client) && same_endpoint(&node->peer, &letter.card.peer);
    if (!is_told) {
        meta->update_asked = lq_requests_errand(meta, &letter, AGAIN_MS * 5, on_update_answered, NULL) == LIGHTQ_OK;
    }
}

/* Clients ask a node that says it is ready, and its catalog must not be of the past then: it is at least as new as the
 * controller's was when that last told of it. */
static bool catalog_is_current(struct lq_meta *meta)
{
    uint32_t controller = lq_meta_leader(meta, LQ_META_GROUP).node;
    const struct lq_peer *peer = lq_peers_find(meta, controller);
    if (controller == 0 || controller == lq_meta_self(meta)) {
        return controller != 0;
    }
    return peer != NULL && peer->heard_us != 0 && lq_neighbours_version(meta) >= peer->version;
}

static void check_ready(struct lq_meta *meta)
{
    bool current = meta->options.shard == 0 ? catalog_is_current(meta) : lq_meta_leader(meta, LQ_META_GROUP).node != 0;
    if (!meta->ready && meta->seen_self && current) {
        meta->ready = true;
        meta->events.ready(meta->owner);
    }
}

/* ---- turn and tick ---- */

static void on_catalog_changed(struct lq_meta *meta)
{
    meta->catalog_changed = false;
    meta->replicas.scan = true;
    meta->requests.work = true;
    meta->unsettled = true;
    meta->neighbours.stale = true;
    meta->peers.report_us = 0; /* somebody may wait for all to have it */
    check_self(meta);
    lq_peers_tell(meta);
    if (meta->events.catalog_changed != NULL) {
        meta->events.catalog_changed(meta->owner);
    }
}

void lq_meta_turn(struct lq_meta *meta)
{
    if (meta->host == NULL) {
        return;
    }
    if (meta->renew_to != 0) {
        uint32_t incarnation = meta->renew_to;
        meta->renew_to = 0;
        renew_meta_group(meta, incarnation);
    }
    if (meta->state == LQ_META_BROKEN && meta->group != NULL && meta->rebuild) {
        lq_group_close(meta->group, false); /* what is damaged is set aside when it is made anew */
        meta->group = NULL;
    }
    if (meta->catalog_changed) {
        on_catalog_changed(meta);
    }
    lq_replicas_turn(meta);
    lq_controller_turn(meta);
    lq_requests_turn(meta);
    if (meta->inspections.work) {
        lq_inspect_turn(meta);
    }
    lq_neighbours_turn(meta);
    check_ready(meta);
}

bool lq_meta_needs_turn(const struct lq_meta *meta)
{
    return meta->host != NULL &&
           (meta->catalog_changed || meta->renew_to != 0 || meta->requests.work || meta->inspections.work ||
            lq_replicas_need_turn(meta) || lq_controller_needs_turn(meta) || lq_neighbours_need_turn(meta));
}

uint64_t lq_meta_deadline_us(struct lq_meta *meta)
{
    if (meta->host == NULL || lq_meta_needs_turn(meta)) {
        return meta->host == NULL ? UINT64_MAX : lq_meta_now_us(meta);
    }
    bool news_first = meta->neighbours.stale && meta->options.shards > 1 && meta->neighbours.next_us < meta->tick_us;
    return news_first ? meta->neighbours.next_us : meta->tick_us;
}

void lq_meta_tick(struct lq_meta *meta)
{
    uint64_t now_us = lq_meta_now_us(meta);
    if (meta->host != NULL && now_us >= meta->tick_us) {
        meta->tick_us = now_us + meta->options.tick_ms * LQ_MICROS_PER_MILLI;
        lq_peers_tick(meta);
        lq_controller_tick(meta);
        open_renewed(meta);
        tick_meta_group(meta);
        drop_aside(meta);
        tell_catalog(meta);
        lq_replicas_tick(meta);
        lq_members_tick(meta);
        lq_requests_tick(meta);
        lq_inspect_turn(meta);
        lq_neighbours_tick(meta);
    }
    lq_meta_turn(meta);
}

void lq_meta_drain(struct lq_meta *meta)
{
    meta->draining = true;
    if (meta->host != NULL) {
        lq_peers_report_now(meta);
        lq_host_drain(meta->host);
    }
}

/* ---- life ---- */

static void take_options(struct lq_meta *meta, const struct lq_meta_options *options)
{
    struct lq_meta_options *own = &meta->options;
    *own = *options;
    own->tick_ms = own->tick_ms != 0 ? own->tick_ms : TICK_MS_DEFAULT;
    own->groups_per_turn = own->groups_per_turn != 0 ? own->groups_per_turn : GROUPS_PER_TURN_DEFAULT;
    own->transfer_after_ms = own->transfer_after_ms != 0 ? own->transfer_after_ms : TRANSFER_AFTER_MS_DEFAULT;
    own->transfers_per_second =
        own->transfers_per_second != 0 ? own->transfers_per_second : TRANSFERS_PER_SECOND_DEFAULT;
    own->retain_ms = own->retain_ms != 0 ? own->retain_ms : RETAIN_MS_DEFAULT;
    own->shards = own->shards != 0 ? own->shards : 1;
}

lightq_status lq_meta_new(const struct lq_meta_options *options, const struct lq_meta_events *events, void *owner,
                          struct lq_meta **out, struct lq_err *err)
{
    struct lq_meta *meta = calloc(1, sizeof *meta);
    if (meta == NULL || lq_catalog_new(&meta->catalog) != LIGHTQ_OK) {
        free(meta);
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for the catalog");
    }
    take_options(meta, options);
    meta->events = *events;
    meta->owner = owner;
    /* Answers to the process before must not find requests of this one. */
    meta->requests.next_correlation = lq_clock_random_u64(options->clock);
    meta->inspections.next_correlation = lq_clock_random_u64(options->clock);
    *out = meta;
    return LIGHTQ_OK;
}

lightq_status lq_meta_start(struct lq_meta *meta, struct lq_host *host, struct lq_err *err)
{
    meta->host = host;
    meta->tick_us = lq_meta_now_us(meta);
    meta->aside = true;
    meta->members.token_us = meta->tick_us;
    lightq_status status = meta->options.shard == 0 ? open_meta_group(meta, err) : LIGHTQ_OK;
    const struct lq_identity *identity = meta->options.identity;
    bool others = !identity->founder || identity->proposal.founders.count > 1;
    if (status == LIGHTQ_EBUSY) { /* one of an earlier incarnation is about to be set aside */
        meta->renewing = true;
        status = LIGHTQ_OK;
    }
    if (status == LIGHTQ_EDAMAGED && others) {
        lq_log(ERROR, "the meta group's replica is damaged: it is rebuilt from the others", "why", err->text);
        status = LIGHTQ_OK;
    }
    if (status == LIGHTQ_OK && lq_replicas_start(meta) != LIGHTQ_OK) {
        status = lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for the replicas");
    }
    if (status == LIGHTQ_OK) {
        meta->catalog_changed = true;
    }
    return status;
}

void lq_meta_close(struct lq_meta *meta)
{
    meta->closing = true;
    lq_requests_close(meta);
    lq_inspect_turn(meta); /* what other shards still look at is told when they are done */
}

bool lq_meta_is_quiet(const struct lq_meta *meta)
{
    return meta->closing && meta->neighbours.away == 0;
}

void lq_meta_free(struct lq_meta *meta)
{
    if (meta == NULL) {
        return;
    }
    lq_meta_close(meta);
    assert(lq_meta_is_quiet(meta)); /* others have what lies in our memory */
    if (meta->host != NULL) {
        lq_replicas_close(meta);
        if (meta->group != NULL) {
            lq_group_close(meta->group, false);
        }
    }
    lq_controller_deinit(meta);
    lq_peers_deinit(meta);
    lq_neighbours_deinit(meta);
    lq_catalog_free(meta->catalog);
    free(meta);
}

const struct lq_catalog *lq_meta_catalog(const struct lq_meta *meta)
{
    return meta->catalog;
}

void lq_meta_count(const struct lq_meta *meta, struct lq_meta_counts *counts)
{
    *counts = (struct lq_meta_counts){.topics = (uint32_t)lq_catalog_topic_count(meta->catalog),
                                      .partitions = (uint32_t)lq_catalog_partition_count(meta->catalog),
                                      .requests_waiting = (uint32_t)meta->requests.count};
    for (size_t t = 0; t < lq_catalog_topic_count(meta->catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(meta->catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            counts->leaderless += lq_meta_leader(meta, topic->partitions[p].group).node == 0;
        }
    }
    for (const struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        counts->replicas++;
        counts->replicas_stopped += replica->state != LQ_REPLICA_OPEN;
        counts->leading += replica->handle != NULL && lq_partition_leading(replica->partition);
    }
    lq_neighbours_count(meta, counts);
}
