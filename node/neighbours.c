/* node/neighbours.c - the other shards of this node: what each tells the others (bulletins), and requests that another
 * shard must execute. Part of node/meta.h; the state is in meta_internal.h, the way there is node/house.h. Inspections
 * of other shards' replicas are in inspect.c. Why: docs/adr/0009.
 *
 * There is one bulletin for each receiver. It is with its receiver or at home; what is new meanwhile goes with the next
 * one, so nothing queues. News and the catalog's bytes are immutable and shared by reference. */
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/meta_internal.h"

#define NEWS_MS 10 /* at most so often */

struct news_leader {
    uint64_t group, term;
    uint32_t node;
};

/* In a slab. Padding is zero: two of the same content are equal by byte. */
struct news {
    uint64_t version; /* of the shard's catalog */
    uint64_t controller_term;
    uint32_t controller; /* of shard 0's news */
    uint32_t replicas, stopped, leading;
    uint32_t leader_count;
    struct news_leader leaders[]; /* of the shard's groups that have one, by group */
};

static const struct news *news_of(const struct lq_slab *slab)
{
    return slab == NULL ? NULL : (const void *)slab->bytes;
}

static unsigned shard_of(const struct lq_meta *meta, uint64_t group)
{
    return lq_shard_of(group, meta->options.shards);
}

bool lq_meta_is_mine(const struct lq_meta *meta, uint64_t group)
{
    return shard_of(meta, group) == meta->options.shard;
}

/* ---- what the others said ---- */

static int by_group(const void *a, const void *b)
{
    const struct news_leader *left = a;
    const struct news_leader *right = b;
    return (left->group > right->group) - (left->group < right->group);
}

struct lq_leader lq_neighbours_leader(const struct lq_meta *meta, uint64_t group)
{
    const struct news *news = news_of(meta->neighbours.heard[shard_of(meta, group)]);
    if (news == NULL) {
        return (struct lq_leader){.node = 0};
    }
    if (group == LQ_META_GROUP) {
        return (struct lq_leader){.node = news->controller, .term = news->controller_term};
    }
    const struct news_leader key = {.group = group};
    const struct news_leader *found = bsearch(&key, news->leaders, news->leader_count, sizeof key, by_group);
    return found == NULL ? (struct lq_leader){.node = 0} : (struct lq_leader){.node = found->node, .term = found->term};
}

uint64_t lq_neighbours_version(const struct lq_meta *meta)
{
    uint64_t version = lq_catalog_version(meta->catalog);
    for (unsigned i = 0; i < meta->options.shards; i++) {
        const struct news *news = news_of(meta->neighbours.heard[i]);
        uint64_t theirs = news == NULL ? 0 : news->version;
        if (i != meta->options.shard && theirs < version) {
            version = theirs;
        }
    }
    return version;
}

void lq_neighbours_count(const struct lq_meta *meta, struct lq_meta_counts *counts)
{
    for (unsigned i = 0; i < meta->options.shards; i++) {
        const struct news *news = news_of(meta->neighbours.heard[i]);
        if (news != NULL) {
            counts->replicas += news->replicas;
            counts->replicas_stopped += news->stopped;
            counts->leading += news->leading;
        }
    }
}

/* False: no memory; it is sent again. */
static bool hear(struct lq_meta *meta, const struct lq_bulletin *bulletin)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    unsigned from = bulletin->mail.home;
    const struct lq_slab *catalog = bulletin->catalog;
    if (catalog != NULL && bulletin->catalog_version > lq_catalog_version(meta->catalog)) {
        lightq_status status = lq_catalog_load(meta->catalog, catalog->bytes, catalog->size);
        if (status != LIGHTQ_OK) {
            lq_log(ERROR, "a shard cannot take over the catalog yet", "shard", meta->options.shard, "status",
                   lightq_status_name(status));
            return false;
        }
        meta->catalog_changed = true;
        neighbours->stale = true;
    }
    lq_slab_unref(neighbours->heard[from]);
    neighbours->heard[from] = lq_slab_ref(bulletin->news);
    meta->requests.work = true; /* some wait for leaders, or for the others to have the catalog */
    return true;
}

/* ---- what we say ---- */

static void on_bulletin_home(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_bulletin *bulletin = (struct lq_bulletin *)mail;
    (void)house;
    meta->neighbours.away--;
    lq_slab_unref(bulletin->news);
    lq_slab_unref(bulletin->catalog);
    bulletin->news = bulletin->catalog = NULL;
    bulletin->away = false;
    if (!bulletin->taken) {
        bulletin->catalog_version = 0; /* again, in a tick */
    }
}

static void on_bulletin_there(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_bulletin *bulletin = (struct lq_bulletin *)mail;
    bulletin->taken = meta != NULL && hear(meta, bulletin);
    mail->open = on_bulletin_home;
    house->ops->put(house, mail->home, mail);
}

static void send(struct lq_meta *meta, unsigned to)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    struct lq_bulletin *bulletin = &neighbours->bulletins[to];
    bulletin->due = false;
    bulletin->away = true;
    bulletin->news = lq_slab_ref(neighbours->news);
    if (bulletin->catalog_version < neighbours->catalog_version) {
        bulletin->catalog = lq_slab_ref(neighbours->catalog);
        bulletin->catalog_version = neighbours->catalog_version;
    }
    bulletin->mail.open = on_bulletin_there;
    bulletin->mail.home = meta->options.shard;
    neighbours->away++;
    meta->options.house->ops->put(meta->options.house, to, &bulletin->mail);
}

static void fill_leaders(const struct lq_meta *meta, struct news *news)
{
    for (size_t t = 0; t < lq_catalog_topic_count(meta->catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(meta->catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            uint64_t group = topic->partitions[p].group;
            struct lq_leader leader = {.node = 0};
            if (lq_meta_is_mine(meta, group)) {
                leader = lq_meta_leader(meta, group);
            }
            if (leader.node != 0) {
                struct news_leader *row = &news->leaders[news->leader_count++];
                row->group = group;
                row->term = leader.term;
                row->node = leader.node;
            }
        }
    }
    qsort(news->leaders, news->leader_count, sizeof news->leaders[0], by_group);
}

static size_t count_mine(const struct lq_meta *meta)
{
    size_t count = 0;
    for (size_t t = 0; t < lq_catalog_topic_count(meta->catalog); t++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(meta->catalog, t);
        for (uint32_t p = 0; p < topic->partition_count; p++) {
            count += lq_meta_is_mine(meta, topic->partitions[p].group);
        }
    }
    return count;
}

/* NULL: no memory. */
static struct lq_slab *compose(const struct lq_meta *meta)
{
    size_t size = sizeof(struct news) + count_mine(meta) * sizeof(struct news_leader);
    struct lq_slab *slab = lq_slab_new(size);
    if (slab == NULL) {
        return NULL;
    }
    memset(slab->bytes, 0, size);
    struct news *news = (void *)slab->bytes;
    news->version = lq_catalog_version(meta->catalog);
    if (meta->options.shard == 0) {
        struct lq_leader controller = lq_meta_leader(meta, LQ_META_GROUP);
        news->controller = controller.node;
        news->controller_term = controller.term;
    }
    for (const struct lq_replica *replica = meta->replicas.table; replica != NULL; replica = replica->hh.next) {
        news->replicas++;
        news->stopped += replica->state != LQ_REPLICA_OPEN;
        news->leading += replica->handle != NULL && lq_partition_leading(replica->partition);
    }
    fill_leaders(meta, news);
    return slab;
}

static void all_are_due(struct lq_meta *meta)
{
    for (unsigned i = 0; i < meta->options.shards; i++) {
        meta->neighbours.bulletins[i].due = i != meta->options.shard;
    }
}

static void refresh_news(struct lq_meta *meta, uint64_t now_us)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    struct lq_slab *news = compose(meta);
    neighbours->next_us = now_us + NEWS_MS * LQ_MICROS_PER_MILLI;
    if (news == NULL) {
        return; /* again, a little later */
    }
    neighbours->stale = false;
    bool same = neighbours->news != NULL && neighbours->news->size == news->size &&
                memcmp(neighbours->news->bytes, news->bytes, news->size) == 0;
    if (same) {
        lq_slab_unref(news);
        return;
    }
    lq_slab_unref(neighbours->news);
    neighbours->news = news;
    all_are_due(meta);
}

static void refresh_catalog(struct lq_meta *meta)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    uint64_t version = lq_catalog_version(meta->catalog);
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    lightq_status status = lq_catalog_save(meta->catalog, &writer);
    struct lq_slab *slab = status == LIGHTQ_OK ? lq_slab_new(writer.size) : NULL;
    if (slab != NULL) {
        memcpy(slab->bytes, writer.bytes, writer.size);
        lq_slab_unref(neighbours->catalog);
        neighbours->catalog = slab;
        neighbours->catalog_version = version;
        all_are_due(meta);
    } /* else no memory: again, with the next news */
    lq_writer_deinit(&writer);
}

void lq_neighbours_turn(struct lq_meta *meta)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    uint64_t now_us = lq_meta_now_us(meta);
    if (meta->options.shards == 1 || meta->closing) {
        return;
    }
    if (neighbours->stale && now_us >= neighbours->next_us) {
        if (meta->options.shard == 0 && lq_catalog_version(meta->catalog) != neighbours->catalog_version) {
            refresh_catalog(meta);
        }
        refresh_news(meta, now_us);
    }
    for (unsigned i = 0; i < meta->options.shards && neighbours->news != NULL; i++) {
        if (neighbours->bulletins[i].due && !neighbours->bulletins[i].away) {
            send(meta, i);
        }
    }
}

void lq_neighbours_tick(struct lq_meta *meta)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    neighbours->stale = meta->options.shards > 1; /* nodes that fell silent are told by nobody */
    for (unsigned i = 0; i < meta->options.shards; i++) {
        struct lq_bulletin *bulletin = &neighbours->bulletins[i];
        bulletin->due |= i != meta->options.shard && bulletin->catalog_version < neighbours->catalog_version;
    }
}

bool lq_neighbours_need_turn(const struct lq_meta *meta)
{
    const struct lq_neighbours *neighbours = &meta->neighbours;
    bool due = false;
    for (unsigned i = 0; i < meta->options.shards && neighbours->news != NULL; i++) {
        due |= neighbours->bulletins[i].due && !neighbours->bulletins[i].away;
    }
    bool stale = neighbours->stale && lq_meta_now_us(meta) >= neighbours->next_us;
    return meta->options.shards > 1 && !meta->closing && (due || stale);
}

/* ---- requests ---- */

static struct lq_meta_request *request_of(struct lq_mail *mail)
{
    return (void *)((char *)mail - offsetof(struct lq_meta_request, mail));
}

static void on_request_home(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_meta_request *request = request_of(mail);
    (void)house;
    meta->neighbours.away--;
    request->cb = request->home_cb;
    request->cb(request, request->err.status);
}

/* On the thread of the shard that executed it. */
static void on_request_done(struct lq_meta_request *request, lightq_status status)
{
    struct lq_house *there = request->there;
    request->err.status = status;
    request->mail.open = on_request_home;
    there->ops->put(there, request->mail.home, &request->mail);
}

static void on_request_there(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_meta_request *request = request_of(mail);
    request->there = house;
    lightq_status status = meta == NULL ? LIGHTQ_ECLOSED : lq_requests_take(meta, request);
    if (status != LIGHTQ_OK) {
        request->err.text[0] = '\0';
        on_request_done(request, status);
    }
}

lightq_status lq_neighbours_send(struct lq_meta *meta, struct lq_meta_request *request, unsigned to)
{
    struct lq_house *house = meta->options.house;
    request->home_cb = request->cb;
    request->cb = on_request_done;
    request->mail.open = on_request_there;
    request->mail.home = meta->options.shard;
    lightq_status status = house->ops->offer(house, to, &request->mail);
    if (status == LIGHTQ_OK) {
        meta->neighbours.away++;
    } else {
        request->cb = request->home_cb;
    }
    return status;
}

void lq_neighbours_deinit(struct lq_meta *meta)
{
    struct lq_neighbours *neighbours = &meta->neighbours;
    for (unsigned i = 0; i < LQ_SHARDS_MAX; i++) {
        lq_slab_unref(neighbours->heard[i]);
    }
    lq_slab_unref(neighbours->news);
    lq_slab_unref(neighbours->catalog);
}
