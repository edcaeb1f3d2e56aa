/* node/peers.c - the other nodes as this one sees them: whether they are up, where they are (for the transport), and
 * which groups they say they lead. Part of node/meta.h; the state is in meta_internal.h.
 *
 * Reports: news in the next tick; a short one each second, as a sign of life; everything each five seconds and when a
 * connection comes up, in pieces that each cover a range of groups, so that what is not in a piece is known to be over.
 */
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/meta_internal.h"

#define REPORT_MS      1000
#define FULL_REPORT_MS 5000
#define GUEST_MS       30000
#define FORGET_ROWS    4 /* of deleted topics, in one tick */

/* ---- nodes ---- */

struct lq_peer *lq_peers_find(struct lq_meta *meta, uint32_t node)
{
    for (unsigned i = 0; i < meta->peers.count; i++) {
        if (meta->peers.at[i].node == node) {
            return &meta->peers.at[i];
        }
    }
    return NULL;
}

struct lq_peer *lq_peers_note(struct lq_meta *meta, uint32_t node)
{
    struct lq_peer *peer = lq_peers_find(meta, node);
    if (peer == NULL && node != lq_meta_self(meta) && meta->peers.count < LQ_META_PEERS_MAX) {
        peer = &meta->peers.at[meta->peers.count++];
        *peer = (struct lq_peer){.node = node};
    }
    return peer;
}

bool lq_peers_up(const struct lq_meta *meta, uint32_t node)
{
    if (node == lq_meta_self(meta)) {
        return true;
    }
    for (unsigned i = 0; i < meta->peers.count; i++) {
        const struct lq_peer *peer = &meta->peers.at[i];
        if (peer->node == node) {
            return peer->heard_us != 0 && lq_meta_now_us(meta) - peer->heard_us < LQ_META_UP_MS * LQ_MICROS_PER_MILLI;
        }
    }
    return false;
}

bool lq_peers_in_doubt(const struct lq_meta *meta, const struct lq_catalog_node *node)
{
    for (unsigned i = 0; i < meta->peers.count; i++) {
        const struct lq_peer *peer = &meta->peers.at[i];
        if (peer->node == node->id) {
            bool is_new = !lq_id_equal(&peer->named_uuid, &node->uuid) ||
                          lq_meta_now_us(meta) - peer->named_us < LQ_META_UP_MS * LQ_MICROS_PER_MILLI;
            return is_new || (!peer->connected && lq_peers_up(meta, node->id));
        }
    }
    return false;
}

bool lq_peers_have(const struct lq_meta *meta, uint64_t version)
{
    for (unsigned i = 0; i < meta->peers.count; i++) {
        const struct lq_peer *peer = &meta->peers.at[i];
        if (!peer->is_guest && lq_peers_up(meta, peer->node) && peer->version < version) {
            return false;
        }
    }
    return true;
}

void lq_peers_link_changed(struct lq_meta *meta, uint32_t node, bool up)
{
    struct lq_peer *peer = lq_peers_note(meta, node);
    if (peer == NULL) {
        return;
    }
    peer->connected = up;
    peer->full_report_due = up;
    if (!up) {
        peer->draining = false; /* it ends, and comes back anew */
    }
    if (up) { /* it may not know yet who we are, and where */
        struct lq_letter letter = {.kind = LQ_LETTER_INFO,
                                   .info = {.state = LQ_IDENTITY_MEMBER, .cluster = meta->options.identity->cluster}};
        lq_meta_card(meta, &letter.info.card);
        lq_letter_send(meta->options.link, node, &letter);
    }
    bool is_stranger = !peer->is_guest && lq_meta_knows_nodes(meta) && lq_catalog_node(meta->catalog, node) == NULL;
    if (!up && is_stranger) {
        *peer = meta->peers.at[--meta->peers.count];
    }
    meta->requests.work = true; /* somebody else may be asked */
    meta->neighbours.stale = true;
}

/* ---- where they are ---- */

static void tell(struct lq_meta *meta, struct lq_peer *peer, const struct lq_catalog_node *node)
{
    bool same = peer->told && peer->told_state == node->state && lq_id_equal(&peer->told_uuid, &node->uuid) &&
                peer->told_endpoint.port == node->peer.port && strcmp(peer->told_endpoint.host, node->peer.host) == 0;
    if (same) {
        return;
    }
    peer->told = true;
    peer->told_state = node->state;
    peer->told_uuid = node->uuid;
    peer->told_endpoint = node->peer;
    meta->events.peer(meta->owner, node);
}

static void tell_founders(struct lq_meta *meta)
{
    const struct lq_founders *founders = &meta->options.identity->proposal.founders;
    for (uint32_t i = 0; i < founders->count; i++) {
        const struct lq_founder *founder = &founders->at[i];
        struct lq_peer *peer = lq_peers_note(meta, founder->node);
        if (peer != NULL && !peer->is_later) {
            const struct lq_catalog_node node = {.id = founder->node,
                                                 .state = LQ_NODE_ACTIVE,
                                                 .uuid = founder->uuid,
                                                 .client = founder->client,
                                                 .peer = founder->peer,
                                                 .shards = 1};
            tell(meta, peer, &node);
        }
    }
}

void lq_peers_tell(struct lq_meta *meta)
{
    if (lq_catalog_version(meta->catalog) == 0) {
        if (meta->options.identity->founder) {
            tell_founders(meta);
        }
        return;
    }
    for (size_t i = 0; i < lq_catalog_node_count(meta->catalog); i++) {
        const struct lq_catalog_node *node = lq_catalog_node_at(meta->catalog, i);
        struct lq_peer *peer = lq_peers_note(meta, node->id);
        if (peer != NULL && !lq_id_equal(&peer->named_uuid, &node->uuid)) {
            peer->named_uuid = node->uuid;
            peer->named_us = lq_meta_now_us(meta);
        }
        if (peer != NULL && peer->is_later) {
            if (lq_admission_is_ahead(meta, peer)) {
                continue;
            }
            lq_admission_settle(meta, peer, node);
        }
        if (peer == NULL || (peer->is_guest && node->state != LQ_NODE_ACTIVE)) {
            continue; /* a guest that the catalog awaits is spoken with until it is in */
        }
        peer->is_guest = false;
        if (lq_meta_knows_nodes(meta)) {
            tell(meta, peer, node);
        } else if (node->state == LQ_NODE_ACTIVE && !peer->connected) {
            struct lq_catalog_node was = *node; /* a place to try, no more */
            was.uuid = (struct lq_id){.bytes = {0}};
            tell(meta, peer, &was);
        }
    }
}

void lq_peers_welcome(struct lq_meta *meta, const struct lq_node_card *card)
{
    const struct lq_catalog_node *there = lq_catalog_node(meta->catalog, card->node);
    if (there != NULL && there->state == LQ_NODE_ACTIVE) {
        return; /* known already, and told */
    }
    struct lq_peer *peer = lq_peers_note(meta, card->node);
    if (peer != NULL) {
        const struct lq_catalog_node node = {.id = card->node,
                                             .state = LQ_NODE_ACTIVE,
                                             .uuid = card->uuid,
                                             .boot = card->boot,
                                             .client = card->client,
                                             .peer = card->peer,
                                             .shards = card->shards};
        peer->is_guest = true;
        lq_peers_keep_guest(meta, peer);
        tell(meta, peer, &node);
    }
}

void lq_peers_meet(struct lq_meta *meta, const struct lq_node_card *card)
{
    struct lq_peer *peer = lq_peers_find(meta, card->node);
    if (peer != NULL && peer->is_later && lq_id_equal(&peer->later_uuid, &card->uuid)) {
        const struct lq_catalog_node node = {.id = card->node,
                                             .state = LQ_NODE_ACTIVE,
                                             .uuid = card->uuid,
                                             .boot = card->boot,
                                             .client = card->client,
                                             .peer = card->peer,
                                             .shards = card->shards};
        lq_peers_keep_guest(meta, peer);
        tell(meta, peer, &node);
    }
}

void lq_peers_keep_guest(const struct lq_meta *meta, struct lq_peer *peer)
{
    peer->guest_until_us = lq_meta_now_us(meta) + GUEST_MS * LQ_MICROS_PER_MILLI;
}

static void forget_guests(struct lq_meta *meta)
{
    for (unsigned i = 0; i < meta->peers.count; i++) {
        struct lq_peer *peer = &meta->peers.at[i];
        if (peer->is_later && (peer->connected || lq_peers_up(meta, peer->node))) {
            lq_peers_keep_guest(meta, peer);
        }
        if (!peer->is_guest || lq_meta_now_us(meta) < peer->guest_until_us) {
            continue;
        }
        const struct lq_catalog_node *there = lq_catalog_node(meta->catalog, peer->node);
        const struct lq_catalog_node gone = {.id = peer->node, .state = LQ_NODE_GONE};
        peer->is_guest = peer->is_later = false;
        tell(meta, peer, there != NULL ? there : &gone);
        if (there == NULL) {
            *peer = meta->peers.at[--meta->peers.count];
            i--;
        }
    }
}

/* ---- who leads what ---- */

static void note_leader(struct lq_meta *meta, uint32_t node, uint64_t group, uint64_t term)
{
    struct lq_leader_row *row = NULL;
    HASH_FIND(hh, meta->peers.leaders, &group, sizeof group, row);
    if (row == NULL) {
        if (group != LQ_META_GROUP && group >= lq_catalog_next_group(meta->catalog)) {
            return; /* of a catalog that is not here yet: it is said again */
        }
        row = calloc(1, sizeof *row);
        if (row == NULL) {
            return;
        }
        row->group = group;
        HASH_ADD(hh, meta->peers.leaders, group, sizeof row->group, row);
        if (row->hh.tbl == NULL) {
            free(row);
            return;
        }
    } else if (term < row->term) {
        return;
    }
    row->term = term;
    row->node = node;
}

static void note_not_leader(struct lq_meta *meta, uint32_t node, uint64_t group, uint64_t term)
{
    struct lq_leader_row *row = NULL;
    HASH_FIND(hh, meta->peers.leaders, &group, sizeof group, row);
    if (row != NULL && row->node == node && term >= row->term) {
        row->node = 0;
    }
}

/* What @node does not name in a range that it tells all of, it does not lead. Entries are in order of group. */
static void clear_range(struct lq_meta *meta, uint32_t node, const struct lq_letter_report *report)
{
    for (struct lq_leader_row *row = meta->peers.leaders; row != NULL; row = row->hh.next) {
        if (row->group < report->first_group || row->group > report->last_group) {
            continue;
        }
        if (row->node == node) {
            row->node = 0; /* set again below, if it still leads */
        }
    }
}

/* One row of a topic that is deleted. */
static void forget_deleted(struct lq_meta *meta)
{
    struct lq_leader_row *row = meta->peers.leaders;
    while (row != NULL && (row->group == LQ_META_GROUP || lq_catalog_partition(meta->catalog, row->group) != NULL)) {
        row = row->hh.next;
    }
    if (row != NULL) {
        HASH_DEL(meta->peers.leaders, row);
        free(row);
    }
}

void lq_peers_on_report(struct lq_meta *meta, uint32_t node, const struct lq_letter_report *report)
{
    struct lq_peer *peer = lq_peers_note(meta, node);
    if (peer == NULL) {
        return;
    }
    peer->heard_us = lq_meta_now_us(meta);
    peer->draining = report->draining;
    peer->version = report->version;
    peer->load = (struct lq_meta_node_load){.up = true,
                                            .free_bytes = report->free_bytes,
                                            .total_bytes = report->total_bytes,
                                            .replicas = report->replicas,
                                            .leaders = report->leaders};
    if (report->first_group <= report->last_group) {
        clear_range(meta, node, report);
    }
    for (uint32_t i = 0; i < report->count; i++) {
        struct lq_report_entry entry;
        lq_letter_get_entry(report, i, &entry);
        if (entry.leads) {
            note_leader(meta, node, entry.group, entry.term);
        } else {
            note_not_leader(meta, node, entry.group, entry.term);
        }
    }
    meta->requests.work = true; /* some wait for leaders */
    meta->neighbours.stale = true;
}

struct lq_leader lq_meta_leader(const struct lq_meta *meta, uint64_t group)
{
    struct lq_leader leader = {.node = 0};
    if (!lq_meta_is_mine(meta, group)) {
        return lq_neighbours_leader(meta, group);
    }
    if (group == LQ_META_GROUP) {
        leader = (struct lq_leader){.node = meta->leading ? lq_meta_self(meta) : lq_replica_node(meta->leader),
                                    .term = meta->term};
    } else {
        const struct lq_replica *replica = lq_replicas_find(meta, group);
        if (replica != NULL && replica->handle != NULL) {
            leader.node = lq_replica_node(lq_partition_leader(replica->partition));
            leader.term = lq_partition_term(replica->partition);
        }
    }
    if (leader.node != 0) {
        return leader; /* Raft itself says so */
    }
    const struct lq_leader_row *row = NULL;
    HASH_FIND(hh, meta->peers.leaders, &group, sizeof group, row);
    if (row != NULL && row->term >= leader.term && row->node != 0 && lq_peers_up(meta, row->node)) {
        leader = (struct lq_leader){.node = row->node, .term = row->term};
    }
    return leader;
}

void lq_meta_node_load(const struct lq_meta *meta, uint32_t node, struct lq_meta_node_load *load)
{
    *load = (struct lq_meta_node_load){.up = false};
    if (node == lq_meta_self(meta)) {
        struct lq_meta_counts counts;
        struct lq_store_space space;
        lq_meta_count(meta, &counts);
        load->up = true;
        load->replicas = counts.replicas;
        load->leaders = counts.leading;
        if (lq_store_space(meta->options.store, &space) == LIGHTQ_OK) {
            load->free_bytes = space.free_bytes;
            load->total_bytes = space.total_bytes;
        }
        return;
    }
    for (unsigned i = 0; i < meta->peers.count; i++) {
        if (meta->peers.at[i].node == node) {
            *load = meta->peers.at[i].load;
            load->up = lq_peers_up(meta, node);
        }
    }
}

/* ---- reporting ---- */

static void begin_report(struct lq_meta *meta, struct lq_letter *letter)
{
    struct lq_meta_node_load load;
    lq_meta_node_load(meta, lq_meta_self(meta), &load);
    *letter = (struct lq_letter){.kind = LQ_LETTER_REPORT,
                                 .report = {.draining = meta->draining,
                                            .free_bytes = load.free_bytes,
                                            .total_bytes = load.total_bytes,
                                            .replicas = load.replicas,
                                            .leaders = load.leaders,
                                            .version = lq_neighbours_version(meta),
                                            .first_group = 1,
                                            .last_group = 0}};
}

static void send_report(struct lq_meta *meta, uint32_t node, const struct lq_letter *letter,
                        const struct lq_report_entry *entries)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(letter, &writer);
    for (uint32_t i = 0; i < letter->report.count; i++) {
        lq_letter_put_entry(&entries[i], &writer);
    }
    lightq_status status = lq_letter_send_writer(meta->options.link, node, &writer);
    (void)status; /* said again */
}

static bool leads(const struct lq_replica *replica)
{
    return replica->handle != NULL && lq_partition_leading(replica->partition);
}

static int by_group(const void *a, const void *b)
{
    const struct lq_report_entry *left = a;
    const struct lq_report_entry *right = b;
    return (left->group > right->group) - (left->group < right->group);
}

/* Everything this node leads, in order; *count of them. NULL: none, or out of memory (then nothing is said now). */
static struct lq_report_entry *list_led(const struct lq_meta *meta, uint32_t *count)
{
    *count = 0;
    struct lq_report_entry *entries = malloc((HASH_COUNT(meta->replicas.table) + 1) * sizeof *entries);
    if (entries == NULL) {
        return NULL;
    }
    if (meta->leading) {
        entries[(*count)++] = (struct lq_report_entry){.group = LQ_META_GROUP, .term = meta->term, .leads = true};
    }
    for (const struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        if (leads(replica)) {
            entries[(*count)++] = (struct lq_report_entry){
                .group = replica->group, .term = lq_partition_term(replica->partition), .leads = true};
        }
    }
    qsort(entries, *count, sizeof *entries, by_group);
    return entries;
}

static void send_full(struct lq_meta *meta, uint32_t node, const struct lq_report_entry *entries, uint32_t count)
{
    struct lq_letter letter;
    begin_report(meta, &letter);
    uint64_t first = 0;
    uint32_t at = 0;
    do {
        uint32_t piece = count - at < LQ_REPORT_ENTRIES_MAX ? count - at : LQ_REPORT_ENTRIES_MAX;
        bool last = at + piece == count;
        letter.report.first_group = first;
        letter.report.last_group = last ? UINT64_MAX : entries[at + piece - 1].group;
        letter.report.count = piece;
        send_report(meta, node, &letter, entries + at);
        first = letter.report.last_group + 1;
        at += piece;
    } while (at < count);
}

/* News since the last report; NULL: none, or out of memory (they stay news). */
static struct lq_report_entry *list_news(struct lq_meta *meta, uint32_t *count)
{
    *count = 0;
    struct lq_report_entry *entries = NULL;
    for (struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        if (!replica->changed || *count == LQ_REPORT_ENTRIES_MAX) {
            continue;
        }
        if (entries == NULL && (entries = malloc(LQ_REPORT_ENTRIES_MAX * sizeof *entries)) == NULL) {
            return NULL;
        }
        bool now = leads(replica);
        uint64_t term = replica->handle != NULL ? lq_partition_term(replica->partition) : replica->reported_term;
        replica->changed = false;
        if (now || replica->reported_leading) {
            entries[(*count)++] = (struct lq_report_entry){.group = replica->group, .term = term, .leads = now};
        }
        replica->reported_leading = now;
        replica->reported_term = term;
    }
    return entries;
}

static void report_full(struct lq_meta *meta, bool all)
{
    uint32_t count;
    struct lq_report_entry *led = list_led(meta, &count);
    for (unsigned i = 0; led != NULL && i < meta->peers.count; i++) {
        struct lq_peer *peer = &meta->peers.at[i];
        if (peer->connected && (all || peer->full_report_due)) {
            peer->full_report_due = false;
            send_full(meta, peer->node, led, count);
        }
    }
    free(led);
}

void lq_peers_report_now(struct lq_meta *meta)
{
    report_full(meta, true);
}

void lq_peers_tick(struct lq_meta *meta)
{
    uint64_t now_us = lq_meta_now_us(meta);
    bool some_due = false;
    forget_guests(meta);
    for (unsigned i = 0; i < FORGET_ROWS; i++) {
        forget_deleted(meta);
    }
    for (unsigned i = 0; i < meta->peers.count; i++) {
        some_due |= meta->peers.at[i].full_report_due;
    }
    uint32_t count;
    struct lq_report_entry *news = list_news(meta, &count);
    if (count > 0 || now_us >= meta->peers.report_us) {
        struct lq_letter letter;
        begin_report(meta, &letter);
        letter.report.count = count;
        for (unsigned i = 0; i < meta->peers.count; i++) {
            if (meta->peers.at[i].connected) {
                send_report(meta, meta->peers.at[i].node, &letter, news);
            }
        }
        meta->peers.report_us = now_us + REPORT_MS * LQ_MICROS_PER_MILLI;
    }
    free(news);
    if (now_us >= meta->peers.full_report_us) {
        meta->peers.full_report_us = now_us + FULL_REPORT_MS * LQ_MICROS_PER_MILLI;
        report_full(meta, true);
    } else if (some_due) {
        report_full(meta, false);
    }
}

void lq_peers_deinit(struct lq_meta *meta)
{
    struct lq_leader_row *row = meta->peers.leaders;
    HASH_CLEAR(hh, meta->peers.leaders); /* the elements go on being linked in order */
    while (row != NULL) {
        struct lq_leader_row *next = row->hh.next;
        free(row);
        row = next;
    }
}
