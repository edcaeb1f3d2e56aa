/* tests/lib/fake_broker_group.c - consumer groups of the pretended servers: a simple model, a record per message, as
 * docs/protocol.md says. Runs on a node's thread with the cluster's lock, but for what a test asks. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/clock.h"
#include "client/lib/wait.h"
#include "tests/lib/fake_broker_private.h"

#define US_PER_MS     1000u
#define GRANTS_MAX    64
#define ACK_WAIT_MS   30000u
#define MAX_DELIVER   5u
#define MAX_UNSETTLED 100000u

static uint64_t now_us(void)
{
    return lq_clock_monotonic_us(lq_clock_system());
}

/* ---- groups */

static struct fake_group *find_group(struct fake_cluster *cluster, const struct lq_id *topic, const char *name)
{
    for (size_t i = 0; i < FAKE_GROUPS_MAX; i++) {
        if (lq_id_equal(&cluster->groups[i].topic, topic) && strcmp(cluster->groups[i].name, name) == 0) {
            return &cluster->groups[i];
        }
    }
    return NULL;
}

static struct fake_share *find_share(struct fake_cluster *cluster, const ProtobufCBinaryData *topic, const char *name,
                                     uint32_t partition)
{
    struct lq_id id;
    if (lq_codec_id(topic, &id) != LIGHTQ_OK) {
        return NULL;
    }
    struct fake_group *group = find_group(cluster, &id, name);
    return group != NULL && group->shares[partition].there ? &group->shares[partition] : NULL;
}

static struct fake_share *find_by_number(struct fake_cluster *cluster, uint64_t number)
{
    for (size_t i = 0; i < FAKE_GROUPS_MAX; i++) {
        for (unsigned p = 0; p < FAKE_PARTITIONS_MAX; p++) {
            struct fake_share *share = &cluster->groups[i].shares[p];
            if (share->there && share->number == number) {
                return share;
            }
        }
    }
    return NULL;
}

/* @share begins at @position. */
static void place(struct fake_cluster *cluster, struct fake_share *share, uint64_t position)
{
    share->generation = ++cluster->group_number;
    share->position = position;
    if (share->fates == NULL) {
        share->fates = calloc(FAKE_FATES, sizeof *share->fates);
        assert(share->fates != NULL);
    }
    memset(share->fates, 0, FAKE_FATES * sizeof *share->fates);
    for (uint64_t i = 0; i < position; i++) {
        share->fates[i].settled = true;
    }
}

static struct fake_group *new_group(struct fake_cluster *cluster, const struct lq_id *topic, const char *name)
{
    for (size_t i = 0; i < FAKE_GROUPS_MAX; i++) {
        struct fake_group *group = &cluster->groups[i];
        if (group->name[0] == '\0') {
            snprintf(group->name, sizeof group->name, "%s", name);
            group->topic = *topic;
            return group;
        }
    }
    assert(false);
    return NULL;
}

static void make_share(struct fake_cluster *cluster, struct fake_group *group, uint32_t partition, uint64_t position)
{
    struct fake_share *share = &group->shares[partition];
    share->there = true;
    share->group = group;
    place(cluster, share, position);
    share->number = share->generation;
}

void fake_groups_free(struct fake_cluster *cluster)
{
    for (size_t i = 0; i < FAKE_GROUPS_MAX; i++) {
        for (unsigned p = 0; p < FAKE_PARTITIONS_MAX; p++) {
            free(cluster->groups[i].shares[p].fates);
        }
    }
}

static void put_options(const struct fake_group *group, Lightq__Wire__GroupOptions *options)
{
    lightq__wire__group_options__init(options);
    options->mode =
        group->pipeline ? LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE : LIGHTQ__WIRE__GROUP_MODE__GROUP_SUBSCRIBER;
    options->paused = group->paused;
    options->ack_wait_ms = group->ack_wait_ms;
    options->max_deliver = group->max_deliver;
    options->max_unsettled = MAX_UNSETTLED;
}

/* ---- messages */

static void fail_message(struct fake_share *share, struct fake_fate *fate, uint64_t delay_us)
{
    fate->node = 0;
    fate->failed++;
    fate->before_us = now_us() + delay_us;
    if (fate->failed >= share->group->max_deliver) {
        fate->settled = true;
        fate->dead = true;
    }
}

/* A new leader knows of no leases; old ones end. */
static void look(struct fake_share *share, const struct fake_partition *partition)
{
    for (uint64_t i = partition->start; i < partition->end && i < FAKE_FATES; i++) {
        struct fake_fate *fate = &share->fates[i];
        if (share->term != partition->term) {
            fate->node = 0;
        } else if (fate->node != 0 && now_us() > fate->until_us) {
            fail_message(share, fate, 0);
        }
    }
    share->term = partition->term;
}

void fake_group_leave(struct fake_node *node, struct fake_stream *stream, bool clean)
{
    if (!stream->open || stream->share == NULL || !stream->share->there || !stream->share->group->pipeline) {
        return;
    }
    for (size_t i = 0; i < FAKE_FATES; i++) {
        struct fake_fate *fate = &stream->share->fates[i];
        if (fate->node == node->id && fate->stream == stream->id) {
            fate->node = 0;
            if (!clean) {
                fail_message(stream->share, fate, 0);
            }
        }
    }
}

struct fake_share *fake_group_subscribe(struct fake_node *node, const struct fake_partition *partition,
                                        const Lightq__Wire__Subscribe *in, Lightq__Wire__SubscribeAnswer *answer,
                                        Lightq__Wire__GroupOptions *options)
{
    struct fake_share *share = find_share(node->cluster, &in->topic, in->consumer_group, in->partition);
    if (share == NULL || (in->generation != 0 && in->generation != share->generation)) {
        answer->status = share == NULL ? LIGHTQ_ENOTFOUND : LIGHTQ_EFENCED;
        return NULL;
    }
    if (share->group->pipeline || in->start == NULL) {
        answer->offset = share->position;
        answer->status = answer->offset < partition->start ? LIGHTQ_EOUTOFRANGE : LIGHTQ_OK;
    }
    put_options(share->group, options);
    answer->group_number = share->number;
    answer->generation = share->generation;
    answer->group_id = lq_codec_bytes_of(&share->group->id);
    answer->options = options;
    return share;
}

/* ---- delivering */

/* Grants what of @batch is free to @stream. Returns how many grants there are. */
static size_t take(struct fake_node *node, struct fake_stream *stream, const struct fake_batch *batch,
                   Lightq__Wire__Grant *grants)
{
    struct fake_share *share = stream->share;
    uint64_t behind = batch->base_offset; /* of the last grant */
    size_t count = 0;
    for (uint64_t at = batch->base_offset; at < batch->base_offset + batch->count && stream->messages > 0; at++) {
        struct fake_fate *fate = &share->fates[at];
        if (fate->settled || fate->node != 0 || fate->before_us > now_us()) {
            continue;
        }
        bool same = count > 0 && at == behind && grants[count - 1].delivery == fate->failed + 1;
        if (!same && count == GRANTS_MAX) {
            break;
        }
        if (!same) {
            lightq__wire__grant__init(&grants[count]);
            grants[count].skip = (uint32_t)(at - behind);
            grants[count++].delivery = fate->failed + 1;
        }
        grants[count - 1].count++;
        behind = at + 1;
        share->redelivered += fate->failed > 0;
        fate->node = node->id;
        fate->stream = stream->id;
        fate->until_us = now_us() + (uint64_t)share->group->ack_wait_ms * US_PER_MS;
        stream->messages--;
    }
    return count;
}

static void push_pipeline(struct fake_node *node, struct fake_stream *stream, const struct fake_partition *partition)
{
    Lightq__Wire__Grant grants[GRANTS_MAX];
    Lightq__Wire__Grant *pointers[GRANTS_MAX];
    struct lq_envelope envelope = {.type = LQ_MESSAGE_DELIVER};
    for (size_t i = 0; i < partition->batch_count && stream->messages > 0 && stream->bytes > 0; i++) {
        const struct fake_batch *batch = &partition->batches[i];
        Lightq__Wire__Deliver out = LIGHTQ__WIRE__DELIVER__INIT;
        size_t count = take(node, stream, batch, grants);
        if (count == 0) {
            continue;
        }
        for (size_t g = 0; g < count; g++) {
            pointers[g] = &grants[g];
        }
        out.subscription = stream->id;
        out.base_offset = batch->base_offset;
        out.message_count = batch->count;
        out.log_end = partition->end;
        out.term = partition->term;
        out.grants = pointers;
        out.n_grants = count;
        out.ack_wait_ms = stream->share->group->ack_wait_ms;
        stream->bytes -= (int64_t)batch->slab->size;
        struct fake_rule rule = fake_take_rule(node, LQ_MESSAGE_DELIVER);
        if (rule.action != FAKE_SKIP) {
            fake_send(node, stream->session, &envelope, &out.base, batch->slab);
            fake_count(node->cluster, LQ_MESSAGE_DELIVER);
        }
        return; /* others have their turn */
    }
}

bool fake_group_push(struct fake_node *node, struct fake_stream *stream, const struct fake_partition *partition)
{
    const struct fake_share *share = stream->share;
    if (!share->there || share->generation != stream->generation) {
        fake_end_stream(node, stream, share->there ? LIGHTQ_EFENCED : LIGHTQ_ENOTFOUND, NULL);
        return true;
    }
    if (share->group->paused) {
        return true;
    }
    if (!share->group->pipeline) {
        return false;
    }
    look(stream->share, partition);
    push_pipeline(node, stream, partition);
    return true;
}

/* ---- settling */

/* Whether @stream of @node, or anybody when nobody holds it, may say that about the message. */
static bool may(const struct fake_fate *fate, const struct fake_node *node, uint64_t stream, uint32_t delivery)
{
    bool holds = fate->node == node->id && fate->stream == stream;
    return (holds || fate->node == 0) && (delivery == 0 || delivery == fate->failed + 1);
}

static void settle_message(struct fake_node *node, const Lightq__Wire__Settle *in, const Lightq__Wire__SettleItem *item,
                           struct fake_share *share, struct fake_fate *fate, Lightq__Wire__SettleAnswer *out)
{
    if (fate->settled) {
        out->settled++;
        return;
    }
    if (item->kind != LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK && !may(fate, node, in->subscription, item->delivery)) {
        out->not_held++;
        return;
    }
    out->taken++;
    switch (item->kind) {
    case LIGHTQ__WIRE__SETTLE_KIND__SETTLE_ACK:
        fate->settled = true;
        fate->node = 0;
        break;
    case LIGHTQ__WIRE__SETTLE_KIND__SETTLE_NACK:
        fail_message(share, fate, item->has_delay ? (uint64_t)item->delay_ms * US_PER_MS : 0);
        break;
    case LIGHTQ__WIRE__SETTLE_KIND__SETTLE_REJECT:
        fate->settled = true;
        fate->dead = true;
        break;
    case LIGHTQ__WIRE__SETTLE_KIND__SETTLE_EXTEND:
        fate->until_us = now_us() + (uint64_t)share->group->ack_wait_ms * US_PER_MS;
        break;
    default:
        fate->node = 0;
        break;
    }
}

/* The share that a COMMIT or SETTLE is about, or why there is none. */
static lightq_status find_for(struct fake_node *node, const struct fake_partition *partition, uint64_t number,
                              uint64_t generation, struct fake_share **share)
{
    *share = find_by_number(node->cluster, number);
    if (partition == NULL || (partition->leader == node->id && *share == NULL)) {
        return LIGHTQ_ENOTFOUND;
    }
    if (partition->leader != node->id) {
        return LIGHTQ_ENOTLEADER;
    }
    return (*share)->generation == generation ? LIGHTQ_OK : LIGHTQ_EFENCED;
}

static void on_settle(struct fake_node *node, size_t session, struct lq_envelope *answer,
                      const Lightq__Wire__Settle *in)
{
    Lightq__Wire__SettleAnswer out = LIGHTQ__WIRE__SETTLE_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    struct fake_share *share;
    const struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    out.status = find_for(node, partition, in->group_number, in->generation, &share);
    if (out.status == LIGHTQ_ENOTLEADER) {
        fake_put_leader(node->cluster, partition, &leader);
        out.leader = &leader;
    }
    if (out.status == LIGHTQ_OK) {
        look(share, partition);
        for (size_t i = 0; i < in->n_items; i++) {
            const Lightq__Wire__SettleItem *item = in->items[i];
            for (uint64_t at = item->offset; at < item->offset + item->count; at++) {
                if (at >= partition->end) {
                    out.unknown++;
                } else {
                    settle_message(node, in, item, share, &share->fates[at], &out);
                }
            }
        }
        while (share->position < partition->end && share->fates[share->position].settled) {
            share->position++;
        }
        pthread_cond_broadcast(&node->cluster->changed);
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_commit(struct fake_node *node, size_t session, struct lq_envelope *answer,
                      const Lightq__Wire__Commit *in)
{
    Lightq__Wire__CommitAnswer out = LIGHTQ__WIRE__COMMIT_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    struct fake_share *share;
    const struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    out.status = find_for(node, partition, in->group_number, in->generation, &share);
    if (out.status == LIGHTQ_ENOTLEADER) {
        fake_put_leader(node->cluster, partition, &leader);
        out.leader = &leader;
    } else if (out.status == LIGHTQ_OK && in->offset > partition->end) {
        out.status = LIGHTQ_EOUTOFRANGE;
    } else if (out.status == LIGHTQ_OK && in->offset <= share->position) {
        out.status = LIGHTQ_ESETTLED;
    } else if (out.status == LIGHTQ_OK) {
        share->position = in->offset;
        pthread_cond_broadcast(&node->cluster->changed);
    }
    fake_send(node, session, answer, &out.base, NULL);
}

/* ---- administration */

static void on_create(struct fake_node *node, size_t session, struct lq_envelope *answer,
                      const Lightq__Wire__GroupCreate *in)
{
    Lightq__Wire__GroupCreateAnswer out = LIGHTQ__WIRE__GROUP_CREATE_ANSWER__INIT;
    Lightq__Wire__GroupOptions options;
    struct lq_id topic, id;
    struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    lightq_status status = lq_codec_id(&in->topic, &topic);
    assert(status == LIGHTQ_OK);
    status = lq_codec_id(&in->group_id, &id);
    assert(status == LIGHTQ_OK);
    struct fake_group *group = find_group(node->cluster, &topic, in->consumer_group);
    uint64_t position = fake_resolve(partition, in->start);
    if (group != NULL && group->shares[in->partition].there && !lq_id_equal(&group->id, &id)) {
        out.status = LIGHTQ_EEXISTS;
    } else if (position < partition->start || position > partition->end) {
        out.status = LIGHTQ_EOUTOFRANGE;
    } else {
        group = group != NULL ? group : new_group(node->cluster, &topic, in->consumer_group);
        group->id = id;
        group->pipeline = in->options->mode == LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE;
        group->ack_wait_ms = in->options->ack_wait_ms;
        group->max_deliver = in->options->max_deliver;
        if (!group->shares[in->partition].there) {
            make_share(node->cluster, group, in->partition, position);
        }
    }
    if (group != NULL) {
        put_options(group, &options);
        out.options = &options;
        out.group_id = lq_codec_bytes_of(&group->id);
    }
    fake_send(node, session, answer, &out.base, NULL);
}

/* GROUP_DELETE, _ALTER and _SEEK of a group that is there. */
static void on_change(struct fake_node *node, size_t session, struct lq_envelope *answer, uint16_t type,
                      const void *body, struct fake_share *share)
{
    Lightq__Wire__GroupDeleteAnswer out = LIGHTQ__WIRE__GROUP_DELETE_ANSWER__INIT;
    Lightq__Wire__GroupAlterAnswer altered = LIGHTQ__WIRE__GROUP_ALTER_ANSWER__INIT;
    Lightq__Wire__GroupSeekAnswer moved = LIGHTQ__WIRE__GROUP_SEEK_ANSWER__INIT;
    ProtobufCMessage *message = &out.base;
    if (type == LQ_MESSAGE_GROUP_DELETE) {
        share->there = false;
    } else if (type == LQ_MESSAGE_GROUP_ALTER) {
        const Lightq__Wire__GroupAlter *in = body;
        share->group->paused = (in->mask & LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_PAUSED) != 0 ? in->options->paused
                                                                                                 : share->group->paused;
        message = &altered.base;
    } else {
        const Lightq__Wire__GroupSeek *in = body;
        const struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
        uint64_t position = fake_resolve(partition, in->to);
        if (position < partition->start || position > partition->end) {
            moved.status = LIGHTQ_EOUTOFRANGE;
        } else {
            place(node->cluster, share, position);
        }
        message = &moved.base;
    }
    fake_send(node, session, answer, message, NULL);
}

static void on_list(struct fake_node *node, size_t session, struct lq_envelope *answer,
                    const Lightq__Wire__GroupList *in)
{
    Lightq__Wire__GroupListAnswer out = LIGHTQ__WIRE__GROUP_LIST_ANSWER__INIT;
    Lightq__Wire__GroupSummary summary = LIGHTQ__WIRE__GROUP_SUMMARY__INIT;
    Lightq__Wire__GroupSummary *pointer = &summary;
    const struct fake_group *next = NULL; /* one a page, so that paging is tested */
    for (size_t i = 0; i < FAKE_GROUPS_MAX; i++) {
        const struct fake_group *group = &node->cluster->groups[i];
        if (group->shares[in->partition].there && strcmp(group->name, in->after) > 0 &&
            (next == NULL || strcmp(group->name, next->name) < 0)) {
            next = group;
        }
    }
    if (next != NULL) {
        summary.name = lq_codec_string(next->name);
        summary.group_id = lq_codec_bytes_of(&next->id);
        summary.mode =
            next->pipeline ? LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE : LIGHTQ__WIRE__GROUP_MODE__GROUP_SUBSCRIBER;
        summary.paused = next->paused;
        out.groups = &pointer;
        out.n_groups = 1;
        out.more = true;
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_describe(struct fake_node *node, size_t session, struct lq_envelope *answer,
                        const Lightq__Wire__GroupDescribe *in, const struct fake_share *share)
{
    Lightq__Wire__GroupDescribeAnswer out = LIGHTQ__WIRE__GROUP_DESCRIBE_ANSWER__INIT;
    Lightq__Wire__GroupOptions options;
    Lightq__Wire__GroupConsumer consumer = LIGHTQ__WIRE__GROUP_CONSUMER__INIT;
    Lightq__Wire__GroupConsumer *consumers = &consumer;
    const struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    put_options(share->group, &options);
    for (uint64_t i = share->position; i < partition->end; i++) {
        out.lag += share->group->pipeline ? !share->fates[i].settled : 1;
        out.held += share->group->pipeline && share->fates[i].node != 0;
    }
    for (size_t i = 0; i < node->stream_count; i++) {
        if (node->streams[i].open && node->streams[i].share == share) {
            consumer.client_id = lq_codec_string("somebody");
            consumer.host = lq_codec_string("127.0.0.1:9");
            consumer.session = node->streams[i].session;
            out.consumers = &consumers;
            out.n_consumers = 1;
        }
    }
    out.name = lq_codec_string(share->group->name);
    out.group_id = lq_codec_bytes_of(&share->group->id);
    out.options = &options;
    out.position = share->position;
    out.log_start = partition->start;
    out.log_end = partition->end;
    out.unsettled = out.held;
    out.redelivered = share->redelivered;
    out.state =
        share->group->paused ? LIGHTQ__WIRE__GROUP_STATE__GROUP_PAUSED : LIGHTQ__WIRE__GROUP_STATE__GROUP_DELIVERING;
    fake_send(node, session, answer, &out.base, NULL);
}

/* What requests about a group by name begin with. */
struct named {
    ProtobufCMessage base;
    ProtobufCBinaryData topic;
    uint32_t partition;
    char *group;
};

/* Administration of groups: refused here when this node does not lead, or there is no such group. */
static void on_named(struct fake_node *node, size_t session, struct lq_envelope *answer, uint16_t type,
                     const void *body)
{
    Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
    Lightq__Wire__Leader leader;
    struct lq_envelope refusal = {.type = LQ_MESSAGE_ERROR, .correlation = answer->correlation};
    const struct named *named = body;
    const struct fake_partition *partition = fake_find_partition(node->cluster, &named->topic, named->partition);
    bool about_one = type != LQ_MESSAGE_GROUP_CREATE && type != LQ_MESSAGE_GROUP_LIST;
    struct fake_share *share =
        about_one ? find_share(node->cluster, &named->topic, named->group, named->partition) : NULL;
    if (partition == NULL || (about_one && partition->leader == node->id && share == NULL)) {
        error.status = LIGHTQ_ENOTFOUND;
    } else if (partition->leader != node->id) {
        error.status = LIGHTQ_ENOTLEADER;
        fake_put_leader(node->cluster, partition, &leader);
        error.leader = &leader;
    }
    if (error.status != LIGHTQ_OK) {
        fake_send(node, session, &refusal, &error.base, NULL);
    } else if (type == LQ_MESSAGE_GROUP_CREATE) {
        on_create(node, session, answer, body);
    } else if (type == LQ_MESSAGE_GROUP_LIST) {
        on_list(node, session, answer, body);
    } else if (type == LQ_MESSAGE_GROUP_DESCRIBE) {
        on_describe(node, session, answer, body, share);
    } else {
        on_change(node, session, answer, type, body, share);
    }
}

void fake_group_answer(struct fake_node *node, size_t session, struct lq_envelope *answer, uint16_t type,
                       const void *body)
{
    switch (type) {
    case LQ_MESSAGE_SETTLE:
        on_settle(node, session, answer, body);
        break;
    case LQ_MESSAGE_COMMIT:
        on_commit(node, session, answer, body);
        break;
    case LQ_MESSAGE_GROUP_CREATE:
    case LQ_MESSAGE_GROUP_DELETE:
    case LQ_MESSAGE_GROUP_ALTER:
    case LQ_MESSAGE_GROUP_SEEK:
    case LQ_MESSAGE_GROUP_LIST:
    case LQ_MESSAGE_GROUP_DESCRIBE:
        on_named(node, session, answer, type, body);
        break;
    default:
        break;
    }
}

/* ---- what a test asks */

static struct fake_group *group_of(struct fake_cluster *cluster, const char *topic, const char *group)
{
    return find_group(cluster, &fake_find_topic(cluster, topic)->id, group);
}

void fake_cluster_group(struct fake_cluster *cluster, const char *topic, const char *group, bool pipeline,
                        uint32_t ack_wait_ms, uint32_t max_deliver)
{
    pthread_mutex_lock(&cluster->lock);
    const struct fake_topic *found = fake_find_topic(cluster, topic);
    struct fake_group *made = new_group(cluster, &found->id, group);
    made->id = lq_id_random(lq_clock_system());
    made->pipeline = pipeline;
    made->ack_wait_ms = ack_wait_ms != 0 ? ack_wait_ms : ACK_WAIT_MS;
    made->max_deliver = max_deliver != 0 ? max_deliver : MAX_DELIVER;
    for (unsigned p = 0; p < found->partition_count; p++) {
        make_share(cluster, made, p, found->partitions[p].start);
    }
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_group_seek(struct fake_cluster *cluster, const char *topic, const char *group, unsigned partition,
                             uint64_t offset)
{
    pthread_mutex_lock(&cluster->lock);
    place(cluster, &group_of(cluster, topic, group)->shares[partition], offset);
    pthread_mutex_unlock(&cluster->lock);
}

void fake_cluster_group_drop(struct fake_cluster *cluster, const char *topic, const char *group, unsigned partition)
{
    pthread_mutex_lock(&cluster->lock);
    group_of(cluster, topic, group)->shares[partition].there = false;
    pthread_mutex_unlock(&cluster->lock);
}

static uint64_t count_settled(const struct fake_group *group)
{
    uint64_t count = 0;
    for (unsigned p = 0; p < FAKE_PARTITIONS_MAX; p++) {
        const struct fake_share *share = &group->shares[p];
        if (share->there && !group->pipeline) {
            count += share->position;
        }
        for (size_t i = 0; share->there && group->pipeline && i < FAKE_FATES; i++) {
            count += share->fates[i].settled;
        }
    }
    return count;
}

bool fake_cluster_wait_settled(struct fake_cluster *cluster, const char *topic, const char *group, uint64_t count)
{
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), FAKE_WAIT_MS);
    bool in_time = true;
    pthread_mutex_lock(&cluster->lock);
    const struct fake_group *found = group_of(cluster, topic, group);
    while (count_settled(found) < count && in_time) {
        in_time = lq_cond_wait(&cluster->changed, &cluster->lock, deadline_us);
    }
    bool reached = count_settled(found) == count;
    pthread_mutex_unlock(&cluster->lock);
    return reached;
}

struct fake_outcome fake_cluster_outcome(struct fake_cluster *cluster, const char *topic, const char *group,
                                         unsigned partition, uint64_t offset)
{
    pthread_mutex_lock(&cluster->lock);
    const struct fake_fate *fate = &group_of(cluster, topic, group)->shares[partition].fates[offset];
    struct fake_outcome outcome = {
        .failed = fate->failed, .settled = fate->settled, .dead = fate->dead, .held = fate->node != 0};
    pthread_mutex_unlock(&cluster->lock);
    return outcome;
}
