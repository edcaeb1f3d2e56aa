/* node/inspect.c - how replicas are, wherever they are: asked of the nodes that have them, waited for a while. For
 * `topic describe` and `cluster status`. Part of node/meta.h; the state is in meta_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/meta_internal.h"

#define TIMEOUT_MS_DEFAULT 1000

/* ---- this node's own ---- */

static enum lq_replica_role role_of(const struct lq_group_status *status)
{
    if (status->leading) {
        return LQ_REPLICA_LEADER;
    }
    for (unsigned i = 0; i < status->replica_count; i++) {
        if (status->replicas[i].id == status->self) {
            return status->replicas[i].role == LQ_ROLE_VOTER ? LQ_REPLICA_FOLLOWER : LQ_REPLICA_STANDBY;
        }
    }
    return LQ_REPLICA_UNKNOWN;
}

static void report_group(struct lq_group *group, struct lq_replica_report *report)
{
    struct lq_group_status status;
    lq_group_status(group, &status);
    report->role = role_of(&status);
    report->term = status.term;
    report->first_index = status.first;
    report->last_index = status.last;
    report->durable_index = status.durable;
    report->commit_index = status.committed;
    report->applied_index = status.applied;
}

static void report_partition(const struct lq_replica *replica, struct lq_replica_report *report)
{
    report->incarnation = replica->incarnation;
    bool open = replica->state == LQ_REPLICA_OPEN;
    bool broken = replica->state == LQ_REPLICA_BROKEN;
    report->status = (open || broken) && replica->rebuild            ? LIGHTQ_EDAMAGED
                     : open || replica->state == LQ_REPLICA_RETIRING ? LIGHTQ_OK
                     : broken                                        ? LIGHTQ_ESTOPPED
                                                                     : LIGHTQ_ENOTREADY;
    (void)snprintf(report->text, sizeof report->text, "%s", lq_meta_replica_text(replica->meta, replica->group));
    if (replica->handle == NULL) {
        return;
    }
    struct lq_partition_status status;
    report_group(replica->handle, report);
    lq_partition_status(replica->partition, &status);
    report->start_offset = status.start_offset;
    report->end_offset = report->digest_to = status.end_offset;
    report->digest = status.digest;
}

/* False: this node has none of it. */
static bool report_own(const struct lq_meta *meta, uint64_t group, struct lq_replica_report *report)
{
    *report = (struct lq_replica_report){.group = group, .node = lq_meta_self(meta), .answered = true};
    if (group == LQ_META_GROUP) {
        report->incarnation = meta->incarnation;
        report->status = meta->state == LQ_META_OPEN ? LIGHTQ_OK : LIGHTQ_EDAMAGED;
        (void)snprintf(report->text, sizeof report->text, "%.*s", (int)sizeof report->text - 1, meta->why.text);
        if (meta->group != NULL) {
            report_group(meta->group, report);
        }
        return true;
    }
    const struct lq_replica *replica = lq_replicas_find(meta, group);
    if (replica != NULL) {
        report_partition(replica, report);
    }
    return replica != NULL;
}

void lq_inspect_on_ask(struct lq_meta *meta, uint32_t node, const struct lq_letter_inspect *inspect)
{
    uint32_t at = 0;
    while (at < inspect->count) {
        struct lq_writer reports;
        struct lq_letter letter = {.kind = LQ_LETTER_INSPECTED, .inspected = {.correlation = inspect->correlation}};
        lq_writer_init(&reports, LQ_NODE_FRAME_BYTES_MAX);
        for (; at < inspect->count && letter.inspected.count < LQ_INSPECT_REPORTS_MAX; at++) {
            struct lq_replica_report report;
            if (report_own(meta, lq_get_u64(inspect->groups + (size_t)at * 8), &report)) {
                lq_letter_put_report(&report, &reports);
                letter.inspected.count++;
            }
        }
        struct lq_writer writer;
        lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
        lq_letter_encode(&letter, &writer);
        lq_write_bytes(&writer, reports.bytes, reports.size);
        lightq_status status = lq_letter_send_writer(meta->options.link, node, &writer);
        (void)status; /* who asked waits only so long */
        lq_writer_deinit(&reports);
    }
}

/* ---- asking others ---- */

static size_t count_replicas(const struct lq_meta *meta, uint64_t group)
{
    if (group == LQ_META_GROUP) {
        size_t count = 0;
        for (size_t i = 0; i < lq_catalog_node_count(meta->catalog); i++) {
            count += lq_catalog_node_at(meta->catalog, i)->state != LQ_NODE_GONE;
        }
        return count;
    }
    const struct lq_catalog_partition *partition = lq_catalog_partition(meta->catalog, group);
    return partition == NULL ? 0 : partition->replica_count;
}

static void add_expected(struct lq_meta_inspect *inspect, uint64_t group, uint32_t node, uint32_t incarnation)
{
    size_t at = inspect->report_count++;
    while (at > 0 && inspect->reports[at - 1].group == group && inspect->reports[at - 1].node > node) {
        inspect->reports[at] = inspect->reports[at - 1];
        at--;
    }
    inspect->reports[at] = (struct lq_replica_report){.group = group, .node = node, .incarnation = incarnation};
}

/* A row for each replica that the catalog has, unanswered. */
static void expect(const struct lq_meta *meta, struct lq_meta_inspect *inspect, uint64_t group)
{
    if (group == LQ_META_GROUP) {
        for (size_t i = 0; i < lq_catalog_node_count(meta->catalog); i++) {
            const struct lq_catalog_node *node = lq_catalog_node_at(meta->catalog, i);
            if (node->state != LQ_NODE_GONE) {
                add_expected(inspect, group, node->id, node->meta_incarnation);
            }
        }
        return;
    }
    const struct lq_catalog_partition *partition = lq_catalog_partition(meta->catalog, group);
    for (unsigned i = 0; partition != NULL && i < partition->replica_count; i++) {
        add_expected(inspect, group, partition->replicas[i].node, partition->replicas[i].incarnation);
    }
}

static void fill_in(struct lq_meta_inspect *inspect, const struct lq_replica_report *report)
{
    for (size_t i = 0; i < inspect->report_count; i++) {
        struct lq_replica_report *row = &inspect->reports[i];
        if (row->group == report->group && row->node == report->node) {
            *row = *report;
            row->answered = true;
        }
    }
}

static void ask_node(struct lq_meta *meta, const struct lq_meta_inspect *inspect, uint32_t node)
{
    struct lq_writer groups;
    struct lq_letter letter = {.kind = LQ_LETTER_INSPECT, .inspect = {.correlation = inspect->correlation}};
    lq_writer_init(&groups, LQ_NODE_FRAME_BYTES_MAX);
    for (size_t i = 0; i < inspect->report_count; i++) {
        if (inspect->reports[i].node == node && lq_meta_is_mine(meta, inspect->reports[i].group)) {
            lq_write_u64(&groups, inspect->reports[i].group);
            letter.inspect.count++;
        }
    }
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letter, &writer);
    lq_write_bytes(&writer, groups.bytes, groups.size);
    if (letter.inspect.count > 0) {
        lightq_status status = lq_letter_send_writer(meta->options.link, node, &writer);
        (void)status; /* it is down: its rows stay unanswered */
    } else {
        lq_writer_deinit(&writer);
    }
    lq_writer_deinit(&groups);
}

/* ---- asking other shards ---- */

/* The groups of one shard, looked at there. */
struct part {
    struct lq_mail mail;
    struct lq_meta_inspect inspect;
    struct lq_meta_inspect *whole;
    struct lq_house *there;
    uint64_t groups[];
};

static void on_part_home(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct part *part = (struct part *)mail;
    (void)house;
    for (size_t i = 0; i < part->inspect.report_count; i++) {
        if (part->inspect.reports[i].answered) {
            fill_in(part->whole, &part->inspect.reports[i]);
        }
    }
    part->whole->parts_away--;
    meta->neighbours.away--;
    meta->inspections.work = true;
    free(part->inspect.reports);
    free(part);
}

static void send_home(struct part *part)
{
    part->mail.open = on_part_home;
    part->there->ops->put(part->there, part->mail.home, &part->mail);
}

static void on_part_done(struct lq_meta_inspect *inspect, lightq_status status)
{
    (void)status; /* what was not answered says so itself */
    send_home(inspect->data);
}

static void on_part_there(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct part *part = (struct part *)mail;
    part->there = house;
    if (meta == NULL || lq_meta_inspect(meta, &part->inspect) != LIGHTQ_OK) {
        part->inspect.report_count = 0;
        send_home(part);
    }
}

/* Without memory, or when too much waits there, the replicas stay unanswered. */
static void ask_shard(struct lq_meta *meta, struct lq_meta_inspect *whole, unsigned shard)
{
    size_t count = 0;
    for (size_t i = 0; i < whole->group_count; i++) {
        count += lq_shard_of(whole->groups[i], meta->options.shards) == shard;
    }
    struct part *part = count == 0 ? NULL : calloc(1, sizeof *part + count * sizeof part->groups[0]);
    if (part == NULL) {
        return;
    }
    for (size_t i = 0; i < whole->group_count; i++) {
        if (lq_shard_of(whole->groups[i], meta->options.shards) == shard) {
            part->groups[part->inspect.group_count++] = whole->groups[i];
        }
    }
    part->mail = (struct lq_mail){.open = on_part_there, .home = meta->options.shard};
    part->whole = whole;
    part->inspect.groups = part->groups;
    part->inspect.timeout_ms = whole->timeout_ms;
    part->inspect.cb = on_part_done;
    part->inspect.data = part;
    part->inspect.is_part = true;
    if (meta->options.house->ops->offer(meta->options.house, shard, &part->mail) != LIGHTQ_OK) {
        free(part);
        return;
    }
    whole->parts_away++;
    meta->neighbours.away++;
}

lightq_status lq_meta_inspect(struct lq_meta *meta, struct lq_meta_inspect *inspect)
{
    size_t count = 0;
    if (inspect->group_count == 0 || inspect->group_count > LQ_INSPECT_GROUPS_MAX) {
        return LIGHTQ_EINVAL;
    }
    if (meta->closing) {
        return LIGHTQ_ECLOSED;
    }
    for (size_t i = 0; i < inspect->group_count; i++) {
        count += count_replicas(meta, inspect->groups[i]);
    }
    inspect->reports = calloc(count + 1, sizeof *inspect->reports);
    if (inspect->reports == NULL) {
        return LIGHTQ_ENOMEM;
    }
    inspect->report_count = 0;
    inspect->correlation = ++meta->inspections.next_correlation;
    uint32_t timeout_ms = inspect->timeout_ms == 0 ? TIMEOUT_MS_DEFAULT : inspect->timeout_ms;
    inspect->deadline_us = lq_meta_now_us(meta) + timeout_ms * LQ_MICROS_PER_MILLI;
    for (size_t i = 0; i < inspect->group_count; i++) {
        struct lq_replica_report own;
        expect(meta, inspect, inspect->groups[i]);
        if (lq_meta_is_mine(meta, inspect->groups[i]) && report_own(meta, inspect->groups[i], &own)) {
            fill_in(inspect, &own);
        }
    }
    for (unsigned i = 0; i < meta->peers.count; i++) {
        if (meta->peers.at[i].connected) {
            ask_node(meta, inspect, meta->peers.at[i].node);
        }
    }
    inspect->parts_away = 0;
    for (unsigned i = 0; i < meta->options.shards; i++) {
        if (i != meta->options.shard) {
            ask_shard(meta, inspect, i);
        }
    }
    inspect->next = meta->inspections.first;
    meta->inspections.first = inspect;
    meta->inspections.work = true;
    return LIGHTQ_OK;
}

void lq_inspect_on_answer(struct lq_meta *meta, uint32_t node, const struct lq_letter_inspected *inspected)
{
    struct lq_meta_inspect *inspect = meta->inspections.first;
    while (inspect != NULL && inspect->correlation != inspected->correlation) {
        inspect = inspect->next;
    }
    struct lq_reader reader = lq_reader_of(inspected->reports, inspected->reports_size);
    for (uint32_t i = 0; inspect != NULL && i < inspected->count; i++) {
        struct lq_replica_report report;
        if (lq_letter_next_report(&reader, &report) == LIGHTQ_OK && report.node == node) {
            fill_in(inspect, &report);
        }
    }
    meta->inspections.work = true;
}

/* The other shards have, and every node that is connected has answered, or the time is over. */
static bool is_done(struct lq_meta *meta, const struct lq_meta_inspect *inspect)
{
    if (inspect->parts_away > 0) {
        return false;
    }
    if (meta->closing || lq_meta_now_us(meta) >= inspect->deadline_us) {
        return true;
    }
    for (size_t i = 0; i < inspect->report_count; i++) {
        const struct lq_peer *peer = lq_peers_find(meta, inspect->reports[i].node);
        if (lq_meta_is_mine(meta, inspect->reports[i].group) && !inspect->reports[i].answered && peer != NULL &&
            peer->connected) {
            return false;
        }
    }
    return true;
}

static void finish(struct lq_meta_inspect *inspect, lightq_status status)
{
    struct lq_replica_report *reports = inspect->reports;
    bool is_part = inspect->is_part;
    inspect->cb(inspect, status); /* a part is another shard's from here on */
    if (!is_part) {
        free(reports);
    }
}

void lq_inspect_turn(struct lq_meta *meta)
{
    meta->inspections.work = false;
    struct lq_meta_inspect **at = &meta->inspections.first;
    struct lq_meta_inspect *done = NULL;
    while (*at != NULL) {
        struct lq_meta_inspect *inspect = *at;
        if (is_done(meta, inspect)) {
            *at = inspect->next;
            inspect->next = done;
            done = inspect;
        } else {
            at = &inspect->next;
        }
    }
    while (done != NULL) {
        struct lq_meta_inspect *inspect = done;
        done = inspect->next;
        finish(inspect, meta->closing ? LIGHTQ_ECLOSED : LIGHTQ_OK);
    }
}
