/* client/lib/meta.c - asks servers about topics and keeps what they say. See meta.h. I/O thread only.
 *
 * One METADATA request at a time. It names every topic that is wanted, doubted or old, and goes to another server each
 * time: the one that was asked first may be the one that does not know yet. */
#include "client/lib/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US_PER_MS       1000u
#define NAMES_MAX       4096   /* topics in one request: the element bound of METADATA */
#define EAGER_US        500000 /* after trouble began the tempo stays at its fastest for this long */
#define MISSING_VOTES   3      /* servers that must not know a topic before it is said not to be there */
#define ANSWER_LEAST_US 250000 /* a server gets at least this long to answer before another is asked */

struct lq_meta {
    struct lq_io *io;
    struct lq_topic *topics; /* hash by name */
    struct lq_request request;
    struct lq_conn *last; /* who was asked last */
    uint64_t next_us;     /* not before this */
    uint64_t backoff_us;
    uint64_t version;    /* of the newest catalog heard of */
    uint64_t trouble_us; /* since when something is not as it should be; 0: all is well */
};

struct lq_meta *lq_meta_new(struct lq_io *io)
{
    struct lq_meta *meta = calloc(1, sizeof *meta);
    if (meta != NULL) {
        meta->io = io;
    }
    return meta;
}

static void free_topic(struct lq_topic *topic)
{
    free(topic->partitions);
    free(topic->name);
    free(topic);
}

void lq_meta_free(struct lq_meta *meta)
{
    if (meta == NULL) {
        return;
    }
    lq_request_cancel(&meta->request);
    while (meta->topics != NULL) {
        struct lq_topic *topic = meta->topics;
        HASH_DEL(meta->topics, topic);
        free_topic(topic);
    }
    free(meta);
}

struct lq_topic *lq_meta_hold(struct lq_meta *meta, const char *name)
{
    struct lq_topic *topic;
    HASH_FIND_STR(meta->topics, name, topic);
    if (topic != NULL) {
        topic->users++;
        if (topic->status != LIGHTQ_OK) {
            lq_meta_want(meta, topic);
        }
        return topic;
    }
    topic = calloc(1, sizeof *topic);
    if (topic == NULL || (topic->name = strdup(name)) == NULL) {
        free(topic);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, meta->topics, topic->name, strlen(topic->name), topic);
    if (topic->hh.tbl == NULL) {
        free_topic(topic);
        return NULL;
    }
    topic->users = 1;
    topic->status = LIGHTQ_ENOTREADY;
    lq_meta_want(meta, topic);
    return topic;
}

void lq_meta_release(struct lq_meta *meta, struct lq_topic *topic)
{
    if (--topic->users == 0) {
        HASH_DEL(meta->topics, topic);
        free_topic(topic);
    }
}

/* ---- when to ask */

static void in_trouble(struct lq_meta *meta)
{
    if (meta->trouble_us == 0) {
        meta->trouble_us = meta->io->now_us;
        meta->backoff_us = 0;
        meta->next_us = meta->io->now_us;
    }
    if (meta->io->next_tick_us > meta->io->now_us && meta->next_us <= meta->io->now_us) {
        meta->io->next_tick_us = meta->io->now_us; /* now, not at the next tick */
    } else {
        lq_io_hurry(meta->io);
    }
}

void lq_meta_want(struct lq_meta *meta, struct lq_topic *topic)
{
    topic->wanted = true;
    in_trouble(meta);
}

void lq_meta_doubt(struct lq_meta *meta, struct lq_topic *topic, uint32_t partition)
{
    if (partition < topic->partition_count) {
        topic->partitions[partition].doubted = true;
    }
    lq_meta_want(meta, topic);
}

void lq_meta_conn_doubt(struct lq_meta *meta, const struct lq_conn *conn)
{
    for (struct lq_topic *topic = meta->topics; topic != NULL; topic = topic->hh.next) {
        for (uint32_t i = 0; i < topic->partition_count; i++) {
            if (topic->partitions[i].leader_conn == conn) {
                lq_meta_doubt(meta, topic, i);
            }
        }
    }
}

void lq_meta_conn_ready(struct lq_meta *meta)
{
    if (meta->trouble_us != 0) {
        meta->next_us = meta->io->now_us;
        in_trouble(meta);
    }
}

bool lq_meta_busy(const struct lq_meta *meta)
{
    return meta->trouble_us != 0;
}

static void back_off(struct lq_meta *meta)
{
    const struct lq_client_options *options = &meta->io->options;
    uint64_t least = options->retry_backoff_ms * US_PER_MS;
    uint64_t most = options->retry_backoff_max_ms * US_PER_MS;
    if (meta->backoff_us == 0 || meta->io->now_us - meta->trouble_us < EAGER_US) {
        meta->backoff_us = least;
    } else {
        meta->backoff_us = meta->backoff_us * 2 < most ? meta->backoff_us * 2 : most;
    }
    meta->next_us = meta->io->now_us + meta->backoff_us;
}

/* ---- what the answer says */

/* Takes over who leads, unless what is known is newer. True: it changed. */
static bool take_leader(struct lq_meta *meta, struct lq_meta_partition *partition, const Lightq__Wire__Leader *leader)
{
    if (leader == NULL || leader->term < partition->term) {
        return false;
    }
    struct lq_conn *conn = NULL;
    if (leader->node != 0 && leader->endpoint[0] != '\0') {
        conn = lq_conn_get(meta->io, leader->endpoint);
    }
    if (conn == NULL && leader->term == partition->term && !partition->doubted) {
        return false; /* this server only does not know */
    }
    bool changed = conn != partition->leader_conn || leader->term != partition->term;
    if (changed && conn != NULL) {
        lq_conn_hasten(conn);
    }
    partition->term = leader->term;
    partition->leader = conn != NULL ? leader->node : 0;
    partition->leader_conn = conn;
    return changed;
}

/* A leader that is in use and cannot be reached or is silent stays in doubt; one nobody has called yet does not. */
static bool is_leader_fine(const struct lq_meta_partition *partition)
{
    const struct lq_conn *conn = partition->leader_conn;
    return conn != NULL && !conn->suspect && conn->state != LQ_CONN_WAITING;
}

static bool resize(struct lq_topic *topic, uint32_t count)
{
    if (count <= topic->partition_count) {
        return true; /* a partition count only grows; an old answer says nothing new */
    }
    struct lq_meta_partition *grown = realloc(topic->partitions, count * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    memset(grown + topic->partition_count, 0, (count - topic->partition_count) * sizeof *grown);
    topic->partitions = grown;
    topic->partition_count = count;
    return true;
}

static void take_partitions(struct lq_meta *meta, struct lq_topic *topic, const Lightq__Wire__TopicInfo *info)
{
    for (size_t i = 0; i < info->n_partitions; i++) {
        const Lightq__Wire__PartitionInfo *said = info->partitions[i];
        if (said->partition >= topic->partition_count) {
            continue;
        }
        struct lq_meta_partition *partition = &topic->partitions[said->partition];
        partition->group = said->group;
        take_leader(meta, partition, said->leader);
        partition->doubted = !is_leader_fine(partition);
    }
}

bool lq_meta_enough_miss(const struct lq_meta *meta, unsigned votes)
{
    unsigned servers = 0;
    for (struct lq_conn *conn = meta->io->conns; conn != NULL; conn = conn->hh.next) {
        bool first_try = conn->state == LQ_CONN_CONNECTING && conn->backoff_us == 0; /* it may know in a moment */
        servers += conn->state == LQ_CONN_READY || first_try;
    }
    return votes >= MISSING_VOTES || votes >= servers;
}

uint64_t lq_meta_next_vote_us(const struct lq_meta *meta, const struct lq_conn *last)
{
    bool is_another = lq_conn_any(meta->io, last) != last;
    return meta->io->now_us + (is_another ? 0 : meta->io->options.retry_backoff_ms * US_PER_MS);
}

/* A server that is behind does not know a new topic yet: one that says so is believed when its catalog is as new as any
 * we have heard of, and, about a topic never seen, when others say so too. */
static bool is_missing_for_sure(struct lq_meta *meta, struct lq_topic *topic, uint64_t version)
{
    if (version < meta->version) {
        return false;
    }
    if (topic->status == LIGHTQ_OK || topic->status == LIGHTQ_ENOTFOUND) {
        return true;
    }
    topic->missing++;
    return lq_meta_enough_miss(meta, topic->missing);
}

static void take_topic(struct lq_meta *meta, const Lightq__Wire__TopicInfo *info, uint64_t version)
{
    struct lq_topic *topic;
    struct lq_id id;
    HASH_FIND_STR(meta->topics, info->name, topic);
    if (topic == NULL) {
        return;
    }
    lightq_status status = (lightq_status)info->status;
    if (status == LIGHTQ_ENOTFOUND && !is_missing_for_sure(meta, topic, version)) {
        topic->wanted = true;
        meta->next_us = lq_meta_next_vote_us(meta, meta->last);
        return;
    }
    topic->missing = 0;
    topic->wanted = false;
    topic->fetched_us = meta->io->now_us;
    if (status == LIGHTQ_OK && (lq_codec_id(&info->topic, &id) != LIGHTQ_OK || info->partition_count == 0 ||
                                info->partition_count > LQ_PARTITIONS_MAX)) {
        status = LIGHTQ_EPROTO;
    }
    snprintf(topic->text, sizeof topic->text, "%s", info->text[0] != '\0' ? info->text : lightq_status_text(status));
    topic->status = status;
    if (status == LIGHTQ_OK) {
        if (!lq_id_equal(&topic->id, &id)) { /* new, or deleted and made again: nothing known of it holds */
            topic->id = id;
            topic->partition_count = 0;
        }
        if (!resize(topic, info->partition_count)) {
            topic->status = LIGHTQ_ENOMEM;
        }
        take_partitions(meta, topic, info);
    }
    topic->wanted = topic->status != LIGHTQ_OK && lightq_status_retriable(topic->status);
    lq_io_topic_changed(meta->io, topic);
}

/* Whether @topic must be asked for. */
static bool is_due(const struct lq_meta *meta, const struct lq_topic *topic)
{
    if (topic->wanted || meta->io->now_us - topic->fetched_us >= meta->io->options.metadata_max_age_ms * US_PER_MS) {
        return true;
    }
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        if (topic->partitions[i].doubted) {
            return true;
        }
    }
    return false;
}

static void on_answer(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_meta *meta = lq_container(request, struct lq_meta, request);
    const Lightq__Wire__MetadataAnswer *answer = reply->body;
    back_off(meta);
    if (reply->status == LIGHTQ_OK && answer != NULL) {
        for (size_t i = 0; i < answer->n_topics; i++) {
            take_topic(meta, answer->topics[i], answer->version);
        }
        meta->version = answer->version > meta->version ? answer->version : meta->version;
    } else if (!reply->answered) {
        meta->next_us = meta->io->now_us; /* another one, at once */
    }
    bool more = false;
    for (struct lq_topic *topic = meta->topics; topic != NULL && !more; topic = topic->hh.next) {
        more = is_due(meta, topic);
    }
    if (!more) {
        meta->trouble_us = 0;
    }
}

/* ---- asking */

/* Nobody who could tell is there: whoever we know may be. */
static void want_everybody(struct lq_meta *meta)
{
    for (struct lq_conn *conn = meta->io->conns; conn != NULL; conn = conn->hh.next) {
        lq_conn_want(conn);
    }
}

static size_t due_names(const struct lq_meta *meta, char **names)
{
    size_t count = 0;
    for (struct lq_topic *topic = meta->topics; topic != NULL && count < NAMES_MAX; topic = topic->hh.next) {
        if (is_due(meta, topic)) {
            names[count++] = topic->name;
        }
    }
    return count;
}

static void ask(struct lq_meta *meta, char **names, size_t count)
{
    struct lq_conn *conn = lq_conn_any(meta->io, meta->last);
    if (conn == NULL || conn->suspect) {
        want_everybody(meta);
    }
    if (conn == NULL) {
        back_off(meta);
        return;
    }
    Lightq__Wire__Metadata body = LIGHTQ__WIRE__METADATA__INIT;
    body.names = names;
    body.n_names = count;
    meta->last = conn;
    meta->request.done = on_answer;
    uint64_t wait_us = meta->io->options.heartbeat_interval_ms * US_PER_MS;
    wait_us = wait_us > ANSWER_LEAST_US ? wait_us : ANSWER_LEAST_US;
    if (lq_conn_request(conn, &meta->request, LQ_MESSAGE_METADATA, 0, &body.base, NULL, wait_us) != LIGHTQ_OK) {
        back_off(meta);
    }
}

void lq_meta_tick(struct lq_meta *meta)
{
    if (meta->request.conn != NULL || meta->io->now_us < meta->next_us || meta->topics == NULL) {
        return;
    }
    size_t topics = HASH_COUNT(meta->topics);
    char **names = malloc((topics < NAMES_MAX ? topics : NAMES_MAX) * sizeof *names);
    if (names == NULL) {
        back_off(meta);
        return;
    }
    size_t count = due_names(meta, names);
    if (count > 0) {
        in_trouble(meta);
        ask(meta, names, count);
    } else {
        meta->trouble_us = 0;
    }
    free(names);
}

bool lq_meta_hint(struct lq_meta *meta, struct lq_topic *topic, uint32_t partition, const Lightq__Wire__Leader *leader)
{
    if (partition >= topic->partition_count || leader == NULL || leader->node == 0) {
        return false;
    }
    if (!take_leader(meta, &topic->partitions[partition], leader)) {
        return false;
    }
    topic->partitions[partition].doubted = !is_leader_fine(&topic->partitions[partition]);
    lq_io_topic_changed(meta->io, topic);
    return true;
}
