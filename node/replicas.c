/* node/replicas.c - the replicas of partitions on this node: opened from what the store has and what the catalog wants,
 * a few in each turn; rebuilt under a new incarnation when they are damaged or lost; removed when their topic is
 * deleted, or when their group's committed servers no longer have them. Part of node/meta.h; the state is in
 * meta_internal.h, with the table of legal moves.
 *
 * Files are removed on evidence only, never because metadata is missing: a topic that the catalog had and has no more
 * (its group's id is below the next one), a damaged replica that the catalog replaced (its files are set aside), or the
 * word of the group's leader that the replica is out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/meta_internal.h"

#define RETRY_MS   5000 /* a replica that could not be opened */
#define REBUILD_MS 2000 /* between two requests for a rebuild */
#define RETIRE_MS  1000 /* between two questions whether a replica is out */

/* ---- what a partition needs of its group ---- */

static lightq_status on_submit(void *owner, const struct lq_proposal *proposal, uint64_t *index)
{
    const struct lq_replica *replica = owner;
    return replica->handle == NULL ? LIGHTQ_ENOTLEADER : lq_group_submit(replica->handle, proposal, index);
}

static uint64_t on_seek_offset(void *owner, uint64_t offset)
{
    const struct lq_replica *replica = owner;
    return replica->handle == NULL ? 0 : lq_rlog_seek_offset(lq_group_log(replica->handle), offset);
}

static void on_wake(void *owner, struct lq_partition *partition)
{
    struct lq_replica *replica = owner;
    (void)partition;
    if (!replica->woken) {
        replica->woken = true;
        replica->next_woken = replica->meta->replicas.woken;
        replica->meta->replicas.woken = replica;
    }
}

static const struct lq_partition_port port = {.submit = on_submit, .seek_offset = on_seek_offset, .wake = on_wake};

/* ---- the table ---- */

struct lq_replica *lq_replicas_find(const struct lq_meta *meta, uint64_t group)
{
    struct lq_replica *replica = NULL;
    HASH_FIND(hh, meta->replicas.table, &group, sizeof group, replica);
    return replica;
}

/* Wants work in a turn. */
static void queue(struct lq_replica *replica)
{
    if (!replica->queued) {
        replica->queued = true;
        replica->next_waiting = replica->meta->replicas.waiting;
        replica->meta->replicas.waiting = replica;
    }
}

static void move_to(struct lq_replica *replica, enum lq_replica_state state)
{
    replica->state = state;
    replica->asked = false;
    replica->again_us = 0;
    if (state == LQ_REPLICA_WAITING || state == LQ_REPLICA_REMOVING) {
        queue(replica);
    }
}

static struct lq_replica *add(struct lq_meta *meta, uint64_t group, uint32_t incarnation)
{
    struct lq_replica *replica = calloc(1, sizeof *replica);
    if (replica == NULL) {
        return NULL;
    }
    replica->group = group;
    replica->incarnation = incarnation;
    replica->meta = meta;
    HASH_ADD(hh, meta->replicas.table, group, sizeof replica->group, replica);
    if (replica->hh.tbl == NULL) {
        free(replica);
        return NULL;
    }
    uint64_t spread = meta->options.retain_ms * LQ_MICROS_PER_MILLI;
    replica->retain_us = lq_meta_now_us(meta) + group * UINT64_C(0x9e3779b97f4a7c15) % spread;
    move_to(replica, LQ_REPLICA_WAITING);
    return replica;
}

static void set_text(struct lq_replica *replica, const char *text)
{
    (void)snprintf(replica->text, sizeof replica->text, "%s", text);
}

/* ---- opening ---- */

static void on_partition(struct lq_partition_watcher *watcher, unsigned events)
{
    struct lq_replica *replica = watcher->data;
    replica->changed |= (events & LQ_PARTITION_LEADERSHIP) != 0;
    replica->unsettled |= (events & LQ_PARTITION_LEADERSHIP) != 0;
    replica->meta->requests.work = true; /* some wait for leaders */
    replica->meta->neighbours.stale = true;
    if ((events & LQ_PARTITION_STOPPED) != 0) {
        struct lq_partition_status status;
        lq_partition_status(replica->partition, &status);
        replica->rebuild = status.stopped_status == LIGHTQ_ECORRUPT || status.stopped_status == LIGHTQ_EDAMAGED;
        set_text(replica, status.stopped_text);
        if (replica->state == LQ_REPLICA_OPEN || replica->state == LQ_REPLICA_RETIRING) {
            move_to(replica, LQ_REPLICA_BROKEN);
            replica->meta->replicas.scan = true;
        }
    }
}

/* The servers a group begins with, when this replica is one of them and nothing has changed since. */
static bool first_servers(const struct lq_replica *replica, const struct lq_catalog_partition *partition,
                          struct lq_servers *servers)
{
    if (partition == NULL || replica->incarnation != LQ_INCARNATION_FOUNDER ||
        partition->next_incarnation != LQ_INCARNATION_FOUNDER + 1) {
        return false; /* it joins: whoever is there has the first entry */
    }
    servers->count = partition->replica_count;
    for (unsigned i = 0; i < partition->replica_count; i++) {
        servers->at[i] =
            (struct lq_server){.id = lq_replica_make(partition->replicas[i].node, partition->replicas[i].incarnation),
                               .role = LQ_ROLE_VOTER};
    }
    return true;
}

static lightq_status open_group(struct lq_replica *replica, struct lq_err *err)
{
    struct lq_meta *meta = replica->meta;
    const struct lq_catalog_partition *placed = lq_catalog_partition(meta->catalog, replica->group);
    const struct lq_partition_options options = {
        .group = replica->group,
        .self = lq_replica_make(lq_meta_self(meta), replica->incarnation),
        .clock = meta->options.clock,
        .port = &port,
        .port_owner = replica,
    };
    struct lq_servers servers;
    bool founds = first_servers(replica, placed, &servers);
    lightq_status status = lq_partition_new(&options, &replica->partition);
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status, "out of memory");
    }
    if (placed != NULL) {
        lq_partition_set_config(replica->partition, &placed->topic->uuid, placed->number, &placed->topic->config);
    }
    status = lq_group_open(meta->host, replica->group, replica->incarnation, founds ? &servers : NULL,
                           &lq_partition_machine_ops, replica->partition, &replica->handle, err);
    if (status != LIGHTQ_OK) {
        lq_partition_free(replica->partition);
        replica->partition = NULL;
        replica->handle = NULL;
        return status;
    }
    lq_partition_set_group(replica->partition, replica->handle);
    replica->watcher = (struct lq_partition_watcher){.cb = on_partition, .data = replica};
    lq_partition_watch(replica->partition, &replica->watcher);
    return LIGHTQ_OK;
}

static void open_replica(struct lq_replica *replica)
{
    struct lq_err err = {.status = LIGHTQ_OK};
    lightq_status status = open_group(replica, &err);
    if (status == LIGHTQ_OK) {
        move_to(replica, LQ_REPLICA_OPEN);
        replica->text[0] = '\0';
        replica->rebuild = false;
        replica->unsettled = true;
        if (replica->known && replica->wanted != replica->incarnation) {
            replica->meta->replicas.scan = true;
        }
        return;
    }
    move_to(replica, LQ_REPLICA_BROKEN);
    replica->rebuild = status == LIGHTQ_EDAMAGED || status == LIGHTQ_ECORRUPT;
    replica->again_us = replica->rebuild ? 0 : lq_meta_now_us(replica->meta) + RETRY_MS * LQ_MICROS_PER_MILLI;
    replica->meta->replicas.scan = true; /* the catalog may want another one already */
    set_text(replica, err.text);
    lq_log(WARN, "a replica cannot be started", "group", replica->group, "incarnation", replica->incarnation, "status",
           lightq_status_name(status), "why", err.text);
}

/* ---- closing and removing ---- */

static void unlist(struct lq_replica *replica)
{
    struct lq_replica **at = &replica->meta->replicas.woken;
    while (*at != NULL && *at != replica) {
        at = &(*at)->next_woken;
    }
    if (*at == replica) {
        *at = replica->next_woken;
    }
    replica->woken = false;
}

static void close_replica(struct lq_replica *replica, bool destroy)
{
    if (replica->handle != NULL) {
        lq_group_close(replica->handle, destroy);
        replica->handle = NULL;
    } else if (destroy) {
        struct lq_rlog *log = lq_store_find(replica->meta->options.store, replica->group);
        if (log != NULL) {
            lq_rlog_destroy(log);
        }
    }
    if (replica->partition != NULL) {
        lq_partition_unwatch(&replica->watcher);
        lq_partition_set_group(replica->partition, NULL);
        lq_partition_free(replica->partition);
        replica->partition = NULL;
    }
    unlist(replica);
}

static void remove_replica(struct lq_replica *replica)
{
    struct lq_meta *meta = replica->meta;
    lq_log(INFO, "a replica is removed", "group", replica->group, "incarnation", replica->incarnation, "wanted",
           replica->wanted);
    close_replica(replica, true);
    if (replica->wanted > replica->incarnation) {
        replica->incarnation = replica->wanted;
        replica->rebuild = replica->catching_up = false;
        replica->text[0] = '\0';
        move_to(replica, LQ_REPLICA_WAITING);
        return;
    }
    HASH_DEL(meta->replicas.table, replica);
    free(replica);
}

/* ---- the catalog ---- */

static bool has_files(const struct lq_replica *replica)
{
    return lq_store_find(replica->meta->options.store, replica->group) != NULL;
}

/* A copy that counts, although this replica does no work. What is damaged is set aside: nothing is waited for. */
static bool has_sound_log(const struct lq_replica *replica)
{
    const struct lq_rlog *log = lq_store_find(replica->meta->options.store, replica->group);
    return log != NULL && lq_rlog_health(log) != LQ_RLOG_DAMAGED && lq_rlog_health(log) != LQ_RLOG_LOST;
}

/* The catalog has read on, and wants it after all. */
static void resume(struct lq_replica *replica)
{
    struct lq_partition_status status = {.stopped = false};
    if (replica->partition != NULL) {
        lq_partition_status(replica->partition, &status);
    }
    move_to(replica, replica->handle == NULL ? LQ_REPLICA_WAITING
                     : status.stopped        ? LQ_REPLICA_BROKEN
                                             : LQ_REPLICA_OPEN);
}

static void compare(struct lq_replica *replica)
{
    bool superseded = replica->known && (replica->wanted == 0 || replica->wanted > replica->incarnation);
    if (!superseded) {
        if (replica->known && replica->state == LQ_REPLICA_RETIRING) {
            resume(replica);
        }
        return;
    }
    switch (replica->state) {
    case LQ_REPLICA_WAITING:
        if (!has_files(replica)) { /* nothing was made yet */
            if (replica->wanted == 0) {
                move_to(replica, LQ_REPLICA_REMOVING);
            } else {
                replica->incarnation = replica->wanted;
            }
        }
        break;
    case LQ_REPLICA_OPEN:
        move_to(replica, LQ_REPLICA_RETIRING);
        break;
    case LQ_REPLICA_BROKEN:
        move_to(replica, has_sound_log(replica) ? LQ_REPLICA_RETIRING : LQ_REPLICA_REMOVING);
        break;
    case LQ_REPLICA_RETIRING:
    case LQ_REPLICA_REMOVING:
        break;
    }
}

/* What the catalog says of one partition. None is made while the catalog does not name this directory: an empty one
 * under an old id reads the history first, with the replicas of the directory before it, which have forgotten what they
 * acknowledged. */
static void scan_partition(struct lq_meta *meta, const struct lq_catalog_partition *placed)
{
    if (!lq_meta_is_mine(meta, placed->group)) {
        return;
    }
    const struct lq_catalog_replica *here = lq_catalog_replica_on(placed, lq_meta_self(meta));
    struct lq_replica *replica = lq_replicas_find(meta, placed->group);
    if (replica == NULL && here != NULL && meta->seen_self) {
        replica = add(meta, placed->group, here->incarnation);
    }
    if (replica == NULL) {
        return;
    }
    replica->known = true;
    replica->unsettled = true;
    replica->wanted = here == NULL ? 0 : here->incarnation;
    if (replica->partition != NULL) {
        lq_partition_set_config(replica->partition, &placed->topic->uuid, placed->number, &placed->topic->config);
    }
}

static void scan(struct lq_meta *meta)
{
    const struct lq_catalog *catalog = meta->catalog;
    for (size_t t = 0; t < lq_catalog_topic_count(catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            scan_partition(meta, &topic->partitions[p]);
        }
    }
    struct lq_replica *replica;
    struct lq_replica *next;
    HASH_ITER(hh, meta->replicas.table, replica, next)
    {
        bool deleted =
            replica->group < lq_catalog_next_group(catalog) && lq_catalog_partition(catalog, replica->group) == NULL;
        if (deleted && replica->state != LQ_REPLICA_REMOVING) {
            replica->wanted = 0;
            move_to(replica, LQ_REPLICA_REMOVING);
        } else {
            compare(replica);
        }
    }
}

/* ---- turns and ticks ---- */

static void work(struct lq_replica *replica)
{
    if (replica->state == LQ_REPLICA_REMOVING) {
        remove_replica(replica);
    } else if (replica->state == LQ_REPLICA_WAITING) {
        open_replica(replica);
    }
}

static void turn_partitions(struct lq_meta *meta)
{
    struct lq_replica *replica = meta->replicas.woken;
    meta->replicas.woken = NULL;
    while (replica != NULL) {
        struct lq_replica *next = replica->next_woken;
        replica->woken = false;
        if (replica->partition != NULL) {
            lq_partition_turn(replica->partition);
        }
        replica = next;
    }
}

void lq_replicas_turn(struct lq_meta *meta)
{
    turn_partitions(meta);
    if (meta->replicas.scan) {
        meta->replicas.scan = false;
        scan(meta);
    }
    for (unsigned i = 0; i < meta->options.groups_per_turn && meta->replicas.waiting != NULL; i++) {
        struct lq_replica *replica = meta->replicas.waiting;
        meta->replicas.waiting = replica->next_waiting;
        replica->queued = false;
        work(replica);
    }
}

bool lq_replicas_need_turn(const struct lq_meta *meta)
{
    return meta->replicas.woken != NULL || meta->replicas.waiting != NULL || meta->replicas.scan;
}

static void on_rebuild_answered(struct lq_meta *meta, void *data, const struct lq_letter_reply *reply)
{
    struct lq_replica *replica = lq_replicas_find(meta, (uint64_t)(uintptr_t)data);
    if (replica != NULL) {
        replica->asked = false;
        replica->again_us = lq_meta_now_us(meta) + REBUILD_MS * LQ_MICROS_PER_MILLI;
        if (reply->status != LIGHTQ_OK) {
            lq_log(WARN, "a damaged replica is not rebuilt yet", "group", replica->group, "status",
                   lightq_status_name(reply->status), "why", reply->text);
        }
    }
}

/* What the search for rot says: an open replica that is damaged goes on, and is to be rebuilt. Not in the same moment:
 * that another node is away is known after a while only. */
static void look_for_rot(struct lq_replica *replica, uint64_t now_us)
{
    uint64_t index;
    bool some = lq_store_rotten(replica->meta->options.store) > 0;
    if (replica->state != LQ_REPLICA_OPEN || (!some && !replica->rebuild)) {
        return;
    }
    const struct lq_err *rot = lq_rlog_rot(lq_group_log(replica->handle), &index);
    if ((rot != NULL) != replica->rebuild) { /* it may have been trimmed away */
        replica->rebuild = rot != NULL;
        replica->again_us = now_us + REBUILD_MS * LQ_MICROS_PER_MILLI;
        set_text(replica, rot != NULL ? rot->text : "");
    }
}

/* It hands over, and stops when the others can do without it: as when a consumer finds what cannot be read. */
static void stop_leading(struct lq_replica *replica)
{
    uint64_t index;
    struct lq_group_status status;
    if (replica->state != LQ_REPLICA_OPEN) {
        return;
    }
    lq_group_status(replica->handle, &status);
    if (status.leading && lq_rlog_rot(lq_group_log(replica->handle), &index) != NULL) {
        lq_group_unreadable(replica->handle, LIGHTQ_ECORRUPT, index);
    }
}

static void ask_for_rebuild(struct lq_replica *replica)
{
    const struct lq_letter_request letter = {.verb = LQ_REQUEST_REBUILD,
                                             .group = replica->group,
                                             .node = lq_meta_self(replica->meta),
                                             .incarnation = replica->incarnation};
    lightq_status status = lq_requests_errand(replica->meta, &letter, REBUILD_MS * 5, on_rebuild_answered,
                                              (void *)(uintptr_t)replica->group);
    replica->asked = status == LIGHTQ_OK;
    replica->again_us = lq_meta_now_us(replica->meta) + REBUILD_MS * LQ_MICROS_PER_MILLI;
}

static void ask_whether_out(struct lq_replica *replica)
{
    struct lq_meta *meta = replica->meta;
    const struct lq_letter letter = {.kind = LQ_LETTER_RETIRE,
                                     .retire = {.group = replica->group, .incarnation = replica->incarnation}};
    uint32_t leader = lq_meta_leader(meta, replica->group).node;
    if (leader != 0 && leader != lq_meta_self(meta)) {
        lq_letter_send(meta->options.link, leader, &letter);
        return;
    }
    for (unsigned i = 0; leader == 0 && i < meta->peers.count; i++) { /* it hears of no leader if it is out */
        if (meta->peers.at[i].connected) {
            lq_letter_send(meta->options.link, meta->peers.at[i].node, &letter);
        }
    }
}

static void tick_replica(struct lq_replica *replica)
{
    struct lq_meta *meta = replica->meta;
    uint64_t now_us = lq_meta_now_us(meta);
    if (replica->handle != NULL && now_us >= replica->retain_us) {
        replica->retain_us = now_us + meta->options.retain_ms * LQ_MICROS_PER_MILLI;
        lq_partition_retain(replica->partition);
    }
    look_for_rot(replica, now_us);
    if (now_us < replica->again_us || replica->asked) {
        return;
    }
    if (replica->state == LQ_REPLICA_RETIRING) {
        replica->again_us = now_us + RETIRE_MS * LQ_MICROS_PER_MILLI;
        ask_whether_out(replica);
    } else if ((replica->state == LQ_REPLICA_BROKEN || replica->state == LQ_REPLICA_OPEN) && replica->rebuild &&
               replica->known) {
        stop_leading(replica);
        ask_for_rebuild(replica);
    } else if (replica->state == LQ_REPLICA_BROKEN && !replica->rebuild && replica->handle == NULL) {
        move_to(replica, LQ_REPLICA_WAITING);
    }
}

void lq_replicas_tick(struct lq_meta *meta)
{
    for (struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        tick_replica(replica);
    }
}

/* ---- being out ---- */

void lq_replicas_on_retire(struct lq_meta *meta, uint32_t node, const struct lq_letter_retire *retire)
{
    const struct lq_replica *replica = lq_replicas_find(meta, retire->group);
    bool meta_group = retire->group == LQ_META_GROUP;
    struct lq_group *group = meta_group ? meta->group : replica == NULL ? NULL : replica->handle;
    struct lq_group_status status;
    if (group == NULL) {
        return;
    }
    lq_group_status(group, &status);
    const struct lq_servers *committed = meta_group ? &meta->servers : lq_partition_servers(replica->partition);
    lq_replica_id id = lq_replica_make(node, retire->incarnation);
    if (status.leading && lq_members_is_out(committed, &status, id)) {
        const struct lq_letter letter = {.kind = LQ_LETTER_RETIRED, .retire = *retire};
        lq_letter_send(meta->options.link, node, &letter);
    }
}

void lq_replicas_on_retired(struct lq_meta *meta, const struct lq_letter_retire *retire)
{
    struct lq_replica *replica = lq_replicas_find(meta, retire->group);
    if (replica != NULL && replica->state == LQ_REPLICA_RETIRING && replica->incarnation == retire->incarnation) {
        move_to(replica, LQ_REPLICA_REMOVING);
    }
}

/* ---- life and reading ---- */

lightq_status lq_replicas_start(struct lq_meta *meta)
{
    for (size_t i = 0; i < lq_store_count(meta->options.store); i++) {
        const struct lq_rlog *log = lq_store_at(meta->options.store, i);
        if (lq_rlog_group(log) != LQ_META_GROUP && add(meta, lq_rlog_group(log), lq_rlog_incarnation(log)) == NULL) {
            return LIGHTQ_ENOMEM;
        }
    }
    return LIGHTQ_OK;
}

void lq_replicas_close(struct lq_meta *meta)
{
    struct lq_replica *replica;
    struct lq_replica *next;
    HASH_ITER(hh, meta->replicas.table, replica, next)
    {
        close_replica(replica, false);
        HASH_DEL(meta->replicas.table, replica);
        free(replica);
    }
}

struct lq_partition *lq_meta_partition(const struct lq_meta *meta, uint64_t group)
{
    const struct lq_replica *replica = lq_replicas_find(meta, group);
    return replica == NULL || replica->handle == NULL ? NULL : replica->partition;
}

const char *lq_meta_replica_text(const struct lq_meta *meta, uint64_t group)
{
    const struct lq_replica *replica = lq_replicas_find(meta, group);
    if (replica == NULL) {
        return "";
    }
    switch (replica->state) {
    case LQ_REPLICA_WAITING:
        return "opening";
    case LQ_REPLICA_OPEN: /* with a text when it is damaged all the same */
    case LQ_REPLICA_BROKEN:
        return replica->text;
    case LQ_REPLICA_RETIRING:
        return "superseded: waiting to be out of its group";
    case LQ_REPLICA_REMOVING:
        return "being removed";
    }
    return "";
}
