/* tests/lib/fake_broker_answer.c - what the pretended servers answer. Runs on a node's thread with the cluster's lock.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "client/wire/batch.h"
#include "tests/lib/fake_broker_private.h"

#define OUT_BYTES_MAX (2u * 1024 * 1024)
#define HEARTBEAT_MS  10000
#define GARBAGE_BYTES 40
#define MANY_FRAMES   5
#define NAMES_LOCAL   64

/* ---- sending */

static void release(void *data, void *hint)
{
    (void)data;
    lq_slab_unref(hint);
}

static void send_routing(struct fake_node *node, size_t session)
{
    zmq_send(node->router, node->sessions[session].routing, node->sessions[session].routing_size,
             ZMQ_SNDMORE | ZMQ_DONTWAIT);
}

void fake_send(struct fake_node *node, size_t session, const struct lq_envelope *envelope, const ProtobufCMessage *body,
               struct lq_slab *payload)
{
    struct lq_writer writer;
    struct lq_envelope sent = *envelope;
    if (node->mute) {
        return;
    }
    sent.flags = payload != NULL ? LQ_ENVELOPE_FLAG_PAYLOAD : 0;
    lq_writer_init(&writer, OUT_BYTES_MAX);
    lightq_status status = lq_codec_frame(&sent, body, &writer);
    assert(status == LIGHTQ_OK);
    send_routing(node, session);
    zmq_send(node->router, writer.bytes, writer.size, ZMQ_DONTWAIT | (payload != NULL ? ZMQ_SNDMORE : 0));
    if (payload != NULL) {
        zmq_msg_t message;
        zmq_msg_init_data(&message, payload->bytes, payload->size, release, lq_slab_ref(payload));
        if (zmq_msg_send(&message, node->router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&message);
        }
    }
    lq_writer_deinit(&writer);
}

/* ---- rules */

struct fake_rule fake_take_rule(struct fake_node *node, uint16_t type)
{
    struct fake_cluster *cluster = node->cluster;
    for (size_t i = 0; i < cluster->rule_count; i++) {
        struct fake_rule *rule = &cluster->rules[i];
        if (rule->type != type || (rule->node != 0 && rule->node != node->id)) {
            continue;
        }
        if (rule->after > 0) {
            rule->after--;
            return (struct fake_rule){.action = FAKE_PASS};
        }
        struct fake_rule taken = *rule;
        if (rule->times > 0 && --rule->times == 0) {
            memmove(rule, rule + 1, (cluster->rule_count - i - 1) * sizeof *rule);
            cluster->rule_count--;
        }
        return taken;
    }
    return (struct fake_rule){.action = FAKE_PASS};
}

/* True when @rule says all there is to say. */
static bool obey(struct fake_node *node, size_t session, const struct lq_envelope *request,
                 const struct fake_rule *rule)
{
    uint8_t garbage[GARBAGE_BYTES];
    struct lq_envelope answer = {.type = LQ_MESSAGE_ERROR, .correlation = request->correlation};
    switch (rule->action) {
    case FAKE_DROP:
    case FAKE_STORE_DROP:
    case FAKE_HOLD:
        return true;
    case FAKE_CLOSE:
    case FAKE_STORE_CLOSE:
        node->bounce = true;
        return true;
    case FAKE_GARBAGE:
        memset(garbage, 'x', sizeof garbage);
        send_routing(node, session);
        zmq_send(node->router, garbage, sizeof garbage, ZMQ_DONTWAIT);
        return true;
    case FAKE_MANY_FRAMES:
        send_routing(node, session);
        for (int i = 0; i < MANY_FRAMES; i++) {
            zmq_send(node->router, "x", 1, ZMQ_DONTWAIT | (i + 1 < MANY_FRAMES ? ZMQ_SNDMORE : 0));
        }
        return true;
    case FAKE_OTHER_TYPE: {
        Lightq__Wire__OffsetsAnswer other = LIGHTQ__WIRE__OFFSETS_ANSWER__INIT;
        answer.type = LQ_MESSAGE_OFFSETS_ANSWER;
        fake_send(node, session, &answer, &other.base, NULL);
        return true;
    }
    case FAKE_ANSWER:
    case FAKE_STORE_ANSWER: {
        Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
        Lightq__Wire__Leader leader = LIGHTQ__WIRE__LEADER__INIT;
        error.status = rule->status;
        error.text = lq_codec_string("as the test wants");
        if (rule->leader != 0) {
            leader.node = rule->leader;
            leader.endpoint = node->cluster->nodes[rule->leader].address;
            leader.term = UINT32_MAX;
            error.leader = &leader;
        }
        fake_send(node, session, &answer, &error.base, NULL);
        return true;
    }
    default:
        return false;
    }
}

/* ---- partitions */

static struct fake_partition *find_by_id(struct fake_cluster *cluster, const struct lq_id *id, uint32_t partition)
{
    for (size_t i = 0; i < cluster->topic_count; i++) {
        if (lq_id_equal(&cluster->topics[i].id, id) && partition < cluster->topics[i].partition_count) {
            return &cluster->topics[i].partitions[partition];
        }
    }
    return NULL;
}

struct fake_partition *fake_find_partition(struct fake_cluster *cluster, const ProtobufCBinaryData *topic,
                                           uint32_t partition)
{
    struct lq_id id;
    if (lq_codec_id(topic, &id) != LIGHTQ_OK || lq_id_is_zero(&id)) {
        return NULL;
    }
    return find_by_id(cluster, &id, partition);
}

void fake_put_leader(const struct fake_cluster *cluster, const struct fake_partition *partition,
                     Lightq__Wire__Leader *leader)
{
    lightq__wire__leader__init(leader);
    leader->node = partition->told_leader;
    leader->term = partition->told_term;
    if (leader->node != 0) {
        leader->endpoint = (char *)(uintptr_t)cluster->nodes[leader->node].address;
    }
}

void fake_store(struct fake_partition *partition, const void *bytes, size_t size, uint32_t epoch)
{
    struct lq_batch_head head;
    lightq_status status = lq_batch_head_decode(bytes, size, &head, NULL);
    assert(status == LIGHTQ_OK);
    partition->batches = realloc(partition->batches, (partition->batch_count + 1) * sizeof *partition->batches);
    struct lq_slab *slab = lq_slab_new(size);
    assert(partition->batches != NULL && slab != NULL);
    memcpy(slab->bytes, bytes, size);
    partition->batches[partition->batch_count++] = (struct fake_batch){
        .slab = slab,
        .base_offset = partition->end,
        .producer = head.producer_id,
        .base_sequence = head.base_sequence,
        .count = head.record_count,
        .epoch = epoch,
    };
    partition->end += head.record_count;
}

/* As the real partition does: known, next, a gap, or fenced (docs/adr/0013-producer-epochs.md). */
static lightq_status judge(const struct fake_partition *partition, const struct lq_batch_head *head, uint32_t epoch,
                           bool begins, uint64_t *offset)
{
    const struct fake_batch *newest = NULL;
    uint64_t epoch_sequence = 0;
    unsigned kept = 0;
    *offset = partition->end;
    for (size_t i = partition->batch_count; i > partition->forgotten; i--) {
        const struct fake_batch *batch = &partition->batches[i - 1];
        if (head->producer_id == 0 || batch->producer != head->producer_id) {
            continue;
        }
        newest = newest == NULL ? batch : newest;
        if (epoch < newest->epoch) {
            return LIGHTQ_EFENCED;
        }
        if (batch->base_sequence == head->base_sequence && batch->count == head->record_count && kept < FAKE_KEPT) {
            *offset = batch->base_offset;
            return LIGHTQ_EEXISTS; /* told apart from OK by the caller */
        }
        epoch_sequence = batch->epoch == newest->epoch ? batch->base_sequence : epoch_sequence;
        kept++;
    }
    if (newest == NULL) {
        return head->producer_id == 0 || head->base_sequence == 0 || begins ? LIGHTQ_OK : LIGHTQ_EOUTOFSEQUENCE;
    }
    uint64_t next = newest->base_sequence + newest->count;
    if (head->base_sequence == next || (head->base_sequence > next && begins && epoch > newest->epoch)) {
        return LIGHTQ_OK;
    }
    bool stored = head->base_sequence + head->record_count <= next && epoch == newest->epoch &&
                  head->base_sequence >= epoch_sequence;
    return stored ? LIGHTQ_EDUPLICATE : LIGHTQ_EOUTOFSEQUENCE;
}

void fake_produce(struct fake_cluster *cluster, unsigned node, const struct fake_produce *produce,
                  Lightq__Wire__ProduceAnswer *answer, Lightq__Wire__Leader *leader)
{
    struct lq_batch_summary summary;
    struct lq_batch_limits limits = {.message_bytes_max = cluster->message_max};
    struct lq_batch_scratch scratch = {0};
    struct fake_partition *partition = find_by_id(cluster, &produce->topic, produce->partition);
    lightq_status status = lq_batch_check(produce->slab->bytes, produce->slab->size, &limits, &scratch, &summary, NULL);
    lq_batch_scratch_deinit(&scratch);
    if (partition == NULL) {
        status = LIGHTQ_ENOTFOUND;
    } else if (node != 0 && partition->leader != node) {
        status = LIGHTQ_ENOTLEADER;
        fake_put_leader(cluster, partition, leader);
        answer->leader = leader;
    } else if (status == LIGHTQ_OK) {
        uint32_t epoch = produce->epoch > summary.head.epoch ? produce->epoch : summary.head.epoch;
        status = judge(partition, &summary.head, epoch, produce->begins, &answer->base_offset);
        answer->base_sequence = summary.head.base_sequence;
        answer->term = partition->term;
        answer->duplicate = status == LIGHTQ_EEXISTS;
        if (status == LIGHTQ_OK && produce->has_expected && produce->expected != partition->end) {
            status = LIGHTQ_EEXPECTED;
        }
        if (status == LIGHTQ_OK) {
            fake_store(partition, produce->slab->bytes, produce->slab->size, epoch);
        }
        status = status == LIGHTQ_EEXISTS ? LIGHTQ_OK : status;
    }
    answer->status = status;
}

/* ---- requests */

static void on_hello(struct fake_node *node, size_t session, struct lq_envelope *answer, const Lightq__Wire__Hello *in,
                     const struct fake_rule *rule)
{
    struct fake_cluster *cluster = node->cluster;
    Lightq__Wire__HelloAnswer out = LIGHTQ__WIRE__HELLO_ANSWER__INIT;
    out.version = rule->version != 0 ? rule->version : LQ_PROTOCOL_VERSION_MAX;
    out.cluster = lq_codec_bytes_of(&cluster->id);
    out.node = node->id;
    out.session = session + 1;
    out.heartbeat_ms = HEARTBEAT_MS;
    out.message_bytes_max = cluster->message_max;
    out.inflight_batches_max = FAKE_KEPT;
    if (cluster->password[0] != '\0' && strcmp(cluster->password, in->password) != 0) {
        out.status = LIGHTQ_EAUTH;
        out.text = lq_codec_string("wrong user or password");
    } else {
        node->sessions[session].greeted = true;
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void put_topic(struct fake_node *node, const char *name, Lightq__Wire__TopicInfo *info,
                      Lightq__Wire__PartitionInfo *partitions, Lightq__Wire__Leader *leaders,
                      Lightq__Wire__PartitionInfo **pointers)
{
    struct fake_topic *topic = fake_find_topic(node->cluster, name);
    lightq__wire__topic_info__init(info);
    info->name = lq_codec_string(name);
    if (topic == NULL) {
        info->status = LIGHTQ_ENOTFOUND;
        return;
    }
    info->topic = lq_codec_bytes_of(&topic->id);
    info->partition_count = topic->partition_count;
    for (unsigned i = 0; i < topic->partition_count; i++) {
        lightq__wire__partition_info__init(&partitions[i]);
        fake_put_leader(node->cluster, &topic->partitions[i], &leaders[i]);
        partitions[i].partition = i;
        partitions[i].group = i + 1;
        partitions[i].leader = &leaders[i];
        pointers[i] = &partitions[i];
    }
    info->partitions = pointers;
    info->n_partitions = topic->partition_count;
}

static void on_metadata(struct fake_node *node, size_t session, struct lq_envelope *answer,
                        const Lightq__Wire__Metadata *in)
{
    Lightq__Wire__MetadataAnswer out = LIGHTQ__WIRE__METADATA_ANSWER__INIT;
    static _Thread_local Lightq__Wire__TopicInfo infos[FAKE_TOPICS_MAX];
    static _Thread_local Lightq__Wire__PartitionInfo partitions[FAKE_TOPICS_MAX][FAKE_PARTITIONS_MAX];
    static _Thread_local Lightq__Wire__Leader leaders[FAKE_TOPICS_MAX][FAKE_PARTITIONS_MAX];
    Lightq__Wire__PartitionInfo *pointers[FAKE_TOPICS_MAX][FAKE_PARTITIONS_MAX];
    Lightq__Wire__TopicInfo *topics[FAKE_TOPICS_MAX];
    assert(in->n_names <= FAKE_TOPICS_MAX);
    for (size_t i = 0; i < in->n_names; i++) {
        put_topic(node, in->names[i], &infos[i], partitions[i], leaders[i], pointers[i]);
        topics[i] = &infos[i];
    }
    out.cluster = lq_codec_bytes_of(&node->cluster->id);
    out.version = node->cluster->version;
    out.topics = topics;
    out.n_topics = in->n_names;
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_produce(struct fake_node *node, size_t session, struct lq_envelope *answer,
                       const Lightq__Wire__Produce *in, const void *payload, size_t size, enum fake_action action)
{
    Lightq__Wire__ProduceAnswer out = LIGHTQ__WIRE__PRODUCE_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    struct fake_cluster *cluster = node->cluster;
    struct lq_slab *slab = lq_slab_new(size);
    struct fake_produce produce = {
        .partition = in->partition, .epoch = in->epoch, .begins = in->begins_epoch, .slab = slab};
    produce.has_expected = in->has_expected_offset;
    produce.expected = in->expected_offset;
    assert(slab != NULL);
    memcpy(slab->bytes, payload, size);
    lightq_status status = lq_codec_id(&in->topic, &produce.topic);
    assert(status == LIGHTQ_OK);
    if (action == FAKE_HOLD) {
        assert(cluster->held_count < FAKE_HELD_MAX);
        cluster->held[cluster->held_count++] = produce;
        return;
    }
    fake_produce(cluster, node->id, &produce, &out, &leader);
    fake_send(node, session, answer, &out.base, NULL);
    lq_slab_unref(slab);
}

uint64_t fake_resolve(const struct fake_partition *partition, const Lightq__Wire__Start *start)
{
    if (start == NULL) {
        return partition->start;
    }
    switch (start->kind) {
    case LIGHTQ__WIRE__START_KIND__START_END:
        return partition->end;
    case LIGHTQ__WIRE__START_KIND__START_OFFSET:
        return start->value;
    default:
        return partition->start;
    }
}

static struct fake_stream *free_stream(struct fake_node *node)
{
    for (size_t i = 0; i < node->stream_count; i++) {
        if (!node->streams[i].open) {
            return &node->streams[i];
        }
    }
    assert(node->stream_count < FAKE_STREAMS_MAX);
    return &node->streams[node->stream_count++];
}

static void on_bye(struct fake_node *node, size_t session)
{
    for (size_t i = 0; i < node->stream_count; i++) {
        if (node->streams[i].open && node->streams[i].session == session) {
            fake_group_leave(node, &node->streams[i], true);
            node->streams[i].open = false;
        }
    }
    node->sessions[session].routing_size = 0; /* its place may be taken */
}

static void on_subscribe(struct fake_node *node, size_t session, struct lq_envelope *answer,
                         const Lightq__Wire__Subscribe *in, enum fake_action action)
{
    Lightq__Wire__SubscribeAnswer out = LIGHTQ__WIRE__SUBSCRIBE_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    struct fake_share *share = NULL;
    Lightq__Wire__GroupOptions options;
    if (partition == NULL) {
        out.status = LIGHTQ_ENOTFOUND;
    } else if (action == FAKE_DEPOSED) {
        out.status = LIGHTQ_EOUTOFRANGE;
        out.subscription = in->subscription;
        out.term = 1; /* the first */
    } else if (partition->leader != node->id) {
        out.status = LIGHTQ_ENOTLEADER;
        fake_put_leader(node->cluster, partition, &leader);
        out.leader = &leader;
    } else {
        out.offset = fake_resolve(partition, in->start);
        out.term = partition->term;
        out.log_start = partition->start;
        out.log_end = partition->end;
        out.subscription = in->subscription;
        if (out.offset < partition->start || out.offset > partition->end) {
            out.status = LIGHTQ_EOUTOFRANGE;
        }
        if (in->consumer_group[0] != '\0') {
            share = fake_group_subscribe(node, partition, in, &out, &options);
        }
    }
    fake_send(node, session, answer, &out.base, NULL);
    if (out.status == LIGHTQ_OK) {
        struct fake_stream *stream = free_stream(node);
        *stream = (struct fake_stream){.session = session,
                                       .id = in->subscription,
                                       .partition = in->partition,
                                       .next = out.offset,
                                       .messages = (int64_t)in->credit_messages,
                                       .bytes = (int64_t)in->credit_bytes,
                                       .share = share,
                                       .generation = out.generation,
                                       .open = true};
        lightq_status status = lq_codec_id(&in->topic, &stream->topic);
        assert(status == LIGHTQ_OK);
        if (stream->messages > node->cluster->most_credit) {
            node->cluster->most_credit = stream->messages;
        }
    }
}

static struct fake_stream *find_stream(struct fake_node *node, size_t session, uint64_t id)
{
    for (size_t i = 0; i < node->stream_count; i++) {
        if (node->streams[i].open && node->streams[i].session == session && node->streams[i].id == id) {
            return &node->streams[i];
        }
    }
    return NULL;
}

static void on_offsets(struct fake_node *node, size_t session, struct lq_envelope *answer,
                       const Lightq__Wire__Offsets *in)
{
    Lightq__Wire__OffsetsAnswer out = LIGHTQ__WIRE__OFFSETS_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    if (partition == NULL) {
        out.status = LIGHTQ_ENOTFOUND;
    } else if (partition->leader != node->id) {
        out.status = LIGHTQ_ENOTLEADER;
        fake_put_leader(node->cluster, partition, &leader);
        out.leader = &leader;
    } else {
        out.offset = fake_resolve(partition, in->at);
        out.log_start = partition->start;
        out.log_end = partition->end;
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_create(struct fake_node *node, size_t session, struct lq_envelope *answer,
                      const Lightq__Wire__TopicCreate *in)
{
    Lightq__Wire__TopicCreateAnswer out = LIGHTQ__WIRE__TOPIC_CREATE_ANSWER__INIT;
    if (fake_find_topic(node->cluster, in->name) != NULL) {
        out.status = LIGHTQ_EEXISTS;
        out.text = lq_codec_string("it is there");
    } else if (in->n_config > 0 && strcmp(in->config[0]->name, "transient") == 0) {
        out.status = LIGHTQ_EUNSUPPORTED;
        out.text = lq_codec_string("transient: the nodes have no such topics");
    } else {
        pthread_mutex_unlock(&node->cluster->lock); /* it takes the lock itself */
        fake_cluster_topic(node->cluster, in->name, in->partitions > 0 ? in->partitions : 1);
        pthread_mutex_lock(&node->cluster->lock);
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_alter(struct fake_node *node, size_t session, struct lq_envelope *answer,
                     const Lightq__Wire__TopicAlter *in)
{
    Lightq__Wire__TopicAlterAnswer out = LIGHTQ__WIRE__TOPIC_ALTER_ANSWER__INIT;
    struct fake_topic *topic = fake_find_topic(node->cluster, in->name);
    if (topic == NULL) {
        out.status = LIGHTQ_ENOTFOUND;
        out.text = lq_codec_string("there is no such topic");
    } else if (in->partitions != 0 && in->partitions < topic->partition_count) {
        out.status = LIGHTQ_EINVAL;
        out.text = lq_codec_string("their number only grows");
    } else {
        for (size_t i = 0; i < in->n_config; i++) {
            snprintf(topic->set_name, sizeof topic->set_name, "%s", in->config[i]->name);
            snprintf(topic->set_value, sizeof topic->set_value, "%s", in->config[i]->value);
        }
        pthread_mutex_unlock(&node->cluster->lock); /* it takes the lock itself */
        fake_cluster_grow(node->cluster, in->name, in->partitions);
        pthread_mutex_lock(&node->cluster->lock);
        out.partitions = topic->partition_count;
        out.version = node->cluster->version;
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_purge(struct fake_node *node, size_t session, struct lq_envelope *answer,
                     const Lightq__Wire__PartitionPurge *in)
{
    Lightq__Wire__PartitionPurgeAnswer out = LIGHTQ__WIRE__PARTITION_PURGE_ANSWER__INIT;
    Lightq__Wire__Leader leader;
    struct fake_partition *partition = fake_find_partition(node->cluster, &in->topic, in->partition);
    if (partition == NULL) {
        out.status = LIGHTQ_ENOTFOUND;
    } else if (partition->leader != node->id) {
        out.status = LIGHTQ_ENOTLEADER;
        fake_put_leader(node->cluster, partition, &leader);
        out.leader = &leader;
    } else if (in->offset > partition->end) {
        out.status = LIGHTQ_EOUTOFRANGE;
        out.text = lq_codec_string("the partition ends below that");
    } else {
        partition->start = in->offset > partition->start ? in->offset : partition->start;
        out.log_start = partition->start;
        out.log_end = partition->end;
        out.term = partition->term;
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_list(struct fake_node *node, size_t session, struct lq_envelope *answer,
                    const Lightq__Wire__TopicList *in)
{
    Lightq__Wire__TopicListAnswer out = LIGHTQ__WIRE__TOPIC_LIST_ANSWER__INIT;
    Lightq__Wire__TopicSummary summary = LIGHTQ__WIRE__TOPIC_SUMMARY__INIT;
    Lightq__Wire__TopicSummary *pointer = &summary;
    const struct fake_topic *next = NULL; /* one a page, so that paging is tested */
    for (size_t i = 0; i < node->cluster->topic_count; i++) {
        const struct fake_topic *topic = &node->cluster->topics[i];
        if (strcmp(topic->name, in->after) > 0 && (next == NULL || strcmp(topic->name, next->name) < 0)) {
            next = topic;
        }
    }
    if (next != NULL) {
        summary.name = lq_codec_string(next->name);
        summary.topic = lq_codec_bytes_of(&next->id);
        summary.partitions = next->partition_count;
        summary.replicas = node->cluster->node_count;
        out.topics = &pointer;
        out.n_topics = 1;
        out.more = true;
    }
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_describe(struct fake_node *node, size_t session, struct lq_envelope *answer,
                        const Lightq__Wire__TopicDescribe *in)
{
    Lightq__Wire__TopicDescribeAnswer out = LIGHTQ__WIRE__TOPIC_DESCRIBE_ANSWER__INIT;
    Lightq__Wire__PartitionDetail detail = LIGHTQ__WIRE__PARTITION_DETAIL__INIT;
    Lightq__Wire__PartitionDetail *details = &detail;
    Lightq__Wire__ReplicaInfo infos[FAKE_NODES_MAX];
    Lightq__Wire__ReplicaInfo *replicas[FAKE_NODES_MAX];
    Lightq__Wire__NameValue setting = LIGHTQ__WIRE__NAME_VALUE__INIT;
    Lightq__Wire__NameValue *settings = &setting;
    const struct fake_topic *topic = fake_find_topic(node->cluster, in->name);
    if (topic == NULL) {
        out.status = LIGHTQ_ENOTFOUND;
        out.text = lq_codec_string("no such topic");
        fake_send(node, session, answer, &out.base, NULL);
        return;
    }
    /* The leader first, then the others; one that was killed is not there. */
    for (unsigned i = 0; i < node->cluster->node_count; i++) {
        unsigned leader = topic->partitions[0].leader;
        unsigned id = 1 + ((leader != 0 ? leader - 1 : 0) + i) % node->cluster->node_count;
        infos[i] = (Lightq__Wire__ReplicaInfo)LIGHTQ__WIRE__REPLICA_INFO__INIT;
        infos[i].node = id;
        infos[i].role =
            id == leader ? LIGHTQ__WIRE__REPLICA_ROLE__ROLE_LEADER : LIGHTQ__WIRE__REPLICA_ROLE__ROLE_FOLLOWER;
        infos[i].online = node->cluster->nodes[id].running;
        infos[i].health = lq_codec_string("ok");
        infos[i].log_end = topic->partitions[0].end;
        infos[i].digest = UINT64_MAX;
        replicas[i] = &infos[i];
    }
    detail.leader = topic->partitions[0].leader;
    detail.term = topic->partitions[0].term;
    detail.state = LIGHTQ__WIRE__PARTITION_STATE__PARTITION_OK;
    detail.replicas = replicas;
    detail.n_replicas = node->cluster->node_count;
    setting.name = lq_codec_string(topic->set_name[0] != '\0' ? topic->set_name : "retention.ms");
    setting.value = lq_codec_string(topic->set_name[0] != '\0' ? topic->set_value : "1000");
    out.name = lq_codec_string(topic->name);
    out.topic = lq_codec_bytes_of(&topic->id);
    out.replicas = node->cluster->node_count;
    out.config = &settings;
    out.n_config = 1;
    out.partitions = &details;
    out.n_partitions = 1;
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_status(struct fake_node *node, size_t session, struct lq_envelope *answer)
{
    Lightq__Wire__ClusterStatusAnswer out = LIGHTQ__WIRE__CLUSTER_STATUS_ANSWER__INIT;
    Lightq__Wire__NodeDetail detail = LIGHTQ__WIRE__NODE_DETAIL__INIT;
    Lightq__Wire__NodeDetail *details = &detail;
    char *endpoint = node->address;
    detail.node = node->id;
    detail.uuid = lq_codec_bytes_of(&node->cluster->id);
    detail.endpoints = &endpoint;
    detail.n_endpoints = 1;
    detail.state = LIGHTQ__WIRE__NODE_STATE__NODE_UP;
    out.cluster = lq_codec_bytes_of(&node->cluster->id);
    out.controller = node->id;
    out.nodes = &details;
    out.n_nodes = 1;
    out.topics = (uint32_t)node->cluster->topic_count;
    fake_send(node, session, answer, &out.base, NULL);
}

static void on_credit(struct fake_node *node, size_t session, const Lightq__Wire__Credit *credit)
{
    struct fake_stream *stream = find_stream(node, session, credit->subscription);
    if (stream != NULL) {
        stream->messages += (int64_t)credit->messages;
        stream->bytes += (int64_t)credit->bytes;
        if (stream->messages > node->cluster->most_credit) {
            node->cluster->most_credit = stream->messages;
        }
    }
}

static void answer_it(struct fake_node *node, size_t session, const struct lq_envelope *request, const void *body,
                      const void *payload, size_t payload_size, const struct fake_rule *rule)
{
    struct lq_envelope answer = {.type = request->type + 1, .correlation = request->correlation};
    struct fake_stream *stream;
    switch (request->type) {
    case LQ_MESSAGE_HELLO:
        on_hello(node, session, &answer, body, rule);
        break;
    case LQ_MESSAGE_HEARTBEAT: {
        Lightq__Wire__HeartbeatAnswer out = LIGHTQ__WIRE__HEARTBEAT_ANSWER__INIT;
        fake_send(node, session, &answer, &out.base, NULL);
        break;
    }
    case LQ_MESSAGE_METADATA:
        on_metadata(node, session, &answer, body);
        break;
    case LQ_MESSAGE_PRODUCE:
        on_produce(node, session, &answer, body, payload, payload_size, rule->action);
        break;
    case LQ_MESSAGE_SUBSCRIBE:
        on_subscribe(node, session, &answer, body, rule->action);
        break;
    case LQ_MESSAGE_UNSUBSCRIBE:
        stream = find_stream(node, session, ((const Lightq__Wire__Unsubscribe *)body)->subscription);
        if (stream != NULL) {
            fake_group_leave(node, stream, true);
            stream->open = false;
        }
        break;
    case LQ_MESSAGE_BYE:
        on_bye(node, session);
        break;
    case LQ_MESSAGE_CREDIT:
        on_credit(node, session, body);
        break;
    case LQ_MESSAGE_OFFSETS:
        on_offsets(node, session, &answer, body);
        break;
    case LQ_MESSAGE_TOPIC_CREATE:
        on_create(node, session, &answer, body);
        break;
    case LQ_MESSAGE_TOPIC_ALTER:
        on_alter(node, session, &answer, body);
        break;
    case LQ_MESSAGE_PARTITION_PURGE:
        on_purge(node, session, &answer, body);
        break;
    case LQ_MESSAGE_TOPIC_LIST:
        on_list(node, session, &answer, body);
        break;
    case LQ_MESSAGE_TOPIC_DESCRIBE:
        on_describe(node, session, &answer, body);
        break;
    case LQ_MESSAGE_CLUSTER_STATUS:
        on_status(node, session, &answer);
        break;
    default:
        fake_group_answer(node, session, &answer, request->type, body);
        break;
    }
}

void fake_take(struct fake_node *node, size_t session, const void *frame, size_t frame_size, const void *payload,
               size_t payload_size)
{
    struct lq_envelope envelope;
    const uint8_t *bytes;
    void *body = NULL;
    lightq_status status = lq_frame_decode(frame, frame_size, &envelope, &bytes, NULL);
    assert(status == LIGHTQ_OK); /* the client never sends anything else */
    status = lq_codec_unpack(envelope.type, bytes, envelope.body_size, &body, NULL);
    assert(status == LIGHTQ_OK);
    struct fake_rule rule = fake_take_rule(node, envelope.type);
    if (rule.action == FAKE_STORE_ANSWER || rule.action == FAKE_STORE_DROP || rule.action == FAKE_STORE_CLOSE ||
        rule.action == FAKE_HOLD) {
        node->mute = true;
        answer_it(node, session, &envelope, body, payload, payload_size, &rule);
        node->mute = false;
        obey(node, session, &envelope, &rule);
    } else if (!obey(node, session, &envelope, &rule)) {
        assert(node->sessions[session].greeted || envelope.type == LQ_MESSAGE_HELLO);
        answer_it(node, session, &envelope, body, payload, payload_size, &rule);
    }
    fake_count(node->cluster, envelope.type);
    lq_codec_free(body);
}

/* ---- deliveries */

static void deliver(struct fake_node *node, struct fake_stream *stream, const struct fake_partition *partition,
                    const struct fake_batch *batch, enum fake_action action)
{
    Lightq__Wire__Deliver out = LIGHTQ__WIRE__DELIVER__INIT;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_DELIVER};
    struct lq_slab *slab = lq_slab_new(batch->slab->size);
    assert(slab != NULL);
    memcpy(slab->bytes, batch->slab->bytes, slab->size);
    if (action == FAKE_BAD_CRC) {
        slab->bytes[slab->size - 1] ^= 1;
    }
    out.subscription = stream->id;
    out.base_offset = batch->base_offset;
    out.message_count = batch->count;
    out.log_end = partition->end;
    out.first_wanted = stream->next > batch->base_offset ? stream->next : batch->base_offset;
    out.term = partition->term;
    if (action != FAKE_SKIP) {
        for (int i = 0; i < (action == FAKE_TWICE ? 2 : 1); i++) {
            fake_send(node, stream->session, &envelope, &out.base, slab);
            fake_count(node->cluster, LQ_MESSAGE_DELIVER);
        }
        stream->messages -= batch->count;
        stream->bytes -= (int64_t)batch->slab->size;
    }
    stream->next = batch->base_offset + batch->count;
    lq_slab_unref(slab);
}

void fake_end_stream(struct fake_node *node, struct fake_stream *stream, lightq_status status,
                     const struct fake_partition *partition)
{
    Lightq__Wire__SubscriptionEnded out = LIGHTQ__WIRE__SUBSCRIPTION_ENDED__INIT;
    Lightq__Wire__Leader leader;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_SUBSCRIPTION_ENDED};
    out.subscription = stream->id;
    out.status = status;
    out.next_offset = stream->next;
    if (partition != NULL) {
        fake_put_leader(node->cluster, partition, &leader);
        out.leader = &leader;
    }
    fake_send(node, stream->session, &envelope, &out.base, NULL);
    stream->open = false;
}

static void push_stream(struct fake_node *node, struct fake_stream *stream)
{
    ProtobufCBinaryData id = lq_codec_bytes_of(&stream->topic);
    const struct fake_partition *partition = fake_find_partition(node->cluster, &id, stream->partition);
    if (partition == NULL || partition->leader != node->id) {
        fake_end_stream(node, stream, partition == NULL ? LIGHTQ_ENOTFOUND : LIGHTQ_ENOTLEADER, partition);
        return;
    }
    if (stream->share != NULL && fake_group_push(node, stream, partition)) {
        return;
    }
    if (stream->next < partition->start) {
        fake_end_stream(node, stream, LIGHTQ_EOUTOFRANGE, NULL);
        return;
    }
    for (size_t i = 0; i < partition->batch_count; i++) {
        const struct fake_batch *batch = &partition->batches[i];
        if (batch->base_offset + batch->count <= stream->next) {
            continue;
        }
        if (stream->messages <= 0 || stream->bytes <= 0) {
            return;
        }
        struct fake_rule rule = fake_take_rule(node, LQ_MESSAGE_DELIVER);
        deliver(node, stream, partition, batch, rule.action);
    }
}

void fake_push(struct fake_node *node)
{
    for (size_t i = 0; i < node->stream_count; i++) {
        if (node->streams[i].open) {
            push_stream(node, &node->streams[i]);
        }
    }
}
