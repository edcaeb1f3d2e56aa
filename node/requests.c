/* node/requests.c - changes of the cluster that were asked for on this node, by its clients or by itself: sent to the
 * controller (or the group's leader), sent again when it is not, or no longer, who can do it, and answered once. Every
 * command can be executed twice with one effect (catalog_apply.c), so asking again is always right. Part of
 * node/meta.h; the state is in meta_internal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/meta_internal.h"

#define TIMEOUT_MS_DEFAULT 30000
#define TIMEOUT_MS_MAX     600000
#define RETRY_MS           100  /* after a refusal that may pass */
#define PATIENCE_MS        2000 /* for an answer, then it is asked again */
#define SPREAD_MS          5000 /* for the other nodes to have a deletion or an alteration in their catalogs */

/* One the node makes itself. */
struct errand {
    struct lq_meta_request request;
    struct lq_letter_request letter;
    struct lq_letter_reply reply;
    struct lq_meta *meta;
    lq_errand_cb cb;
    void *data;
};

/* ---- taking in ---- */

static void add(struct lq_meta *meta, struct lq_meta_request *request)
{
    uint32_t timeout_ms = request->timeout_ms == 0 ? TIMEOUT_MS_DEFAULT : request->timeout_ms;
    timeout_ms = timeout_ms < TIMEOUT_MS_MAX ? timeout_ms : TIMEOUT_MS_MAX;
    request->deadline_us = lq_meta_now_us(meta) + timeout_ms * LQ_MICROS_PER_MILLI;
    request->retry_us = 0;
    request->correlation = ++meta->requests.next_correlation;
    request->asked = 0;
    request->sent = request->done = false;
    request->err = (struct lq_err){.status = LIGHTQ_OK};
    request->version = 0;
    request->next = NULL;
    struct lq_meta_request **end = &meta->requests.first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = request;
    meta->requests.count++;
    meta->requests.work = true;
}

static lightq_status check_named(const struct lq_meta_request *request)
{
    return request->name == NULL ? LIGHTQ_EINVAL : lq_topic_name_check(request->name, strlen(request->name));
}

/* Here, or where it belongs: leadership is handed over by the shard that has the group, all else is shard 0's. */
static lightq_status hand_in(struct lq_meta *meta, struct lq_meta_request *request)
{
    unsigned shard = 0;
    if (request->letter == NULL && request->verb == LQ_META_LEADER_TRANSFER) {
        const struct lq_catalog_topic *topic = lq_catalog_topic(meta->catalog, request->name);
        bool found = topic != NULL && request->partition < topic->partition_count;
        shard = found ? lq_shard_of(topic->partitions[request->partition].group, meta->options.shards) : 0;
    }
    if (meta->closing) {
        return LIGHTQ_ECLOSED;
    }
    if (shard != meta->options.shard) {
        return lq_neighbours_send(meta, request, shard);
    }
    return lq_requests_take(meta, request);
}

lightq_status lq_requests_take(struct lq_meta *meta, struct lq_meta_request *request)
{
    if (meta->closing) {
        return LIGHTQ_ECLOSED;
    }
    if (meta->requests.count >= LQ_META_REQUESTS_MAX) {
        return LIGHTQ_EBUSY;
    }
    add(meta, request);
    return LIGHTQ_OK;
}

lightq_status lq_meta_submit(struct lq_meta *meta, struct lq_meta_request *request)
{
    lightq_status status = LIGHTQ_OK;
    request->letter = NULL;
    switch (request->verb) {
    case LQ_META_TOPIC_CREATE:
        status = check_named(request);
        if (status == LIGHTQ_OK && request->partitions > LQ_PARTITIONS_MAX) {
            status = LIGHTQ_EINVAL;
        }
        request->uuid = lq_id_random(meta->options.clock); /* chosen here, once: asking again means the same topic */
        break;
    case LQ_META_TOPIC_ALTER:
    case LQ_META_TOPIC_DELETE: {
        status = check_named(request);
        const struct lq_catalog_topic *topic =
            status == LIGHTQ_OK ? lq_catalog_topic(meta->catalog, request->name) : NULL;
        request->uuid = topic == NULL ? (struct lq_id){.bytes = {0}} : topic->uuid;
        break;
    }
    case LQ_META_NODE_REPLACE: {
        const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, request->old_node);
        request->uuid = node == NULL ? (struct lq_id){.bytes = {0}} : node->uuid;
        status = request->old_node == 0 || request->old_node > LQ_NODES_MAX || request->new_node == 0 ||
                         request->new_node > LQ_NODES_MAX
                     ? LIGHTQ_EINVAL
                     : LIGHTQ_OK;
        break;
    }
    case LQ_META_LEADER_TRANSFER:
        status = check_named(request);
        break;
    default:
        status = LIGHTQ_EINVAL;
        break;
    }
    if (meta->closing) {
        return LIGHTQ_ECLOSED;
    }
    return status == LIGHTQ_OK ? hand_in(meta, request) : status;
}

static void on_errand_done(struct lq_meta_request *request, lightq_status status)
{
    struct errand *errand = request->data;
    if (status != LIGHTQ_ECLOSED && errand->cb != NULL) {
        errand->reply.status = status;
        (void)snprintf(errand->reply.text, sizeof errand->reply.text, "%s", request->err.text);
        errand->cb(errand->meta, errand->data, &errand->reply);
    }
    free(errand);
}

lightq_status lq_requests_errand(struct lq_meta *meta, const struct lq_letter_request *letter, uint32_t timeout_ms,
                                 lq_errand_cb cb, void *data)
{
    if (meta->closing) {
        return LIGHTQ_EBUSY;
    }
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        return LIGHTQ_ENOMEM;
    }
    errand->letter = *letter;
    errand->meta = meta;
    errand->cb = cb;
    errand->data = data;
    errand->request.letter = &errand->letter;
    errand->request.timeout_ms = timeout_ms;
    errand->request.cb = on_errand_done;
    errand->request.data = errand;
    lightq_status status = hand_in(meta, &errand->request);
    if (status != LIGHTQ_OK) {
        free(errand);
    }
    return status;
}

/* ---- asking ---- */

/* OK | ENOTFOUND: what it names is not there. */
static lightq_status make_letter(const struct lq_meta *meta, const struct lq_meta_request *request,
                                 struct lq_letter_request *letter)
{
    if (request->letter != NULL) {
        *letter = *request->letter;
        letter->correlation = request->correlation;
        return LIGHTQ_OK;
    }
    memset(letter, 0, sizeof *letter);
    letter->correlation = request->correlation;
    letter->verb = (enum lq_request_verb)request->verb;
    letter->uuid = request->uuid;
    if (request->verb == LQ_META_NODE_REPLACE) {
        letter->node = request->old_node;
        letter->live = request->live;
        letter->new_node = request->new_node;
        return LIGHTQ_OK;
    }
    if (request->verb == LQ_META_LEADER_TRANSFER) {
        const struct lq_catalog_topic *topic = lq_catalog_topic(meta->catalog, request->name);
        if (topic == NULL || request->partition >= topic->partition_count) {
            return LIGHTQ_ENOTFOUND;
        }
        letter->group = topic->partitions[request->partition].group;
        letter->node = request->to;
        return LIGHTQ_OK;
    }
    (void)snprintf(letter->name, sizeof letter->name, "%s", request->name);
    bool creates = request->verb == LQ_META_TOPIC_CREATE;
    letter->partitions = creates && request->partitions == 0 ? 1 : request->partitions;
    letter->mask = request->mask;
    letter->replicas = request->replicas;
    if (request->config != NULL) {
        letter->config = *request->config;
    } else {
        lq_topic_config_init(&letter->config);
    }
    return LIGHTQ_OK;
}

/* Another node that is connected, in turn; 0: none. */
static uint32_t anybody(struct lq_meta *meta)
{
    for (unsigned i = 0; i < meta->peers.count; i++) {
        const struct lq_peer *peer = &meta->peers.at[(meta->requests.round_robin + i) % meta->peers.count];
        if (peer->connected && (!peer->is_guest || peer->is_later)) {
            meta->requests.round_robin = (meta->requests.round_robin + i + 1) % meta->peers.count;
            return peer->node;
        }
    }
    return 0;
}

static uint32_t whom_to_ask(struct lq_meta *meta, const struct lq_letter_request *letter)
{
    uint64_t group = letter->verb == LQ_REQUEST_TRANSFER ? letter->group : LQ_META_GROUP;
    uint32_t node = lq_meta_leader(meta, group).node;
    if (node == 0 && group == LQ_META_GROUP) {
        node = meta->requests.controller_hint;
        meta->requests.controller_hint = 0; /* it has its one chance */
    }
    if (node == 0 && group == LQ_META_GROUP && meta->state != LQ_META_OPEN) {
        node = anybody(meta); /* our own replica cannot tell: others can */
    }
    return node;
}

/* It is answered in a turn, never from inside. */
static void settle(struct lq_meta *meta, struct lq_meta_request *request, lightq_status status)
{
    request->done = true;
    request->err.status = status;
    meta->requests.work = true;
}

static void ask(struct lq_meta *meta, struct lq_meta_request *request)
{
    struct lq_letter letter = {.kind = LQ_LETTER_REQUEST};
    uint64_t now_us = lq_meta_now_us(meta);
    lightq_status status = make_letter(meta, request, &letter.request);
    if (status != LIGHTQ_OK) {
        (void)snprintf(request->err.text, sizeof request->err.text, "there is no such partition");
        settle(meta, request, status);
        return;
    }
    uint32_t node = whom_to_ask(meta, &letter.request);
    request->asked = node;
    request->sent = node != 0;
    request->retry_us = now_us + (node != 0 ? PATIENCE_MS : RETRY_MS) * LQ_MICROS_PER_MILLI;
    if (node == lq_meta_self(meta)) {
        lq_controller_take(meta, node, &letter.request);
    } else if (node != 0) {
        lq_letter_send(meta->options.link, node, &letter);
    }
}

/* ---- answers ---- */

static bool may_pass(lightq_status status)
{
    switch (status) {
    case LIGHTQ_ENOTLEADER:
    case LIGHTQ_ENOLEADER:
    case LIGHTQ_ELEADERSHIPLOST:
    case LIGHTQ_EBUSY:
    case LIGHTQ_ENOTREADY:
    case LIGHTQ_ENOMEM:
    case LIGHTQ_ENOSPC:
        return true;
    default:
        return false;
    }
}

static bool is_errand(const struct lq_meta_request *request)
{
    return request->letter != NULL;
}

void lq_requests_on_reply(struct lq_meta *meta, uint32_t node, const struct lq_letter_reply *reply)
{
    struct lq_meta_request *request = meta->requests.first;
    while (request != NULL && (request->correlation != reply->correlation || request->asked != node)) {
        request = request->next;
    }
    if (request == NULL || request->done || request->version != 0) {
        return; /* answered, or given up, before */
    }
    if (may_pass(reply->status)) {
        if (reply->status == LIGHTQ_ENOTLEADER && reply->leader != node) {
            meta->requests.controller_hint = reply->leader;
        }
        request->sent = false;
        request->retry_us = lq_meta_now_us(meta) + RETRY_MS * LQ_MICROS_PER_MILLI;
        (void)snprintf(request->err.text, sizeof request->err.text, "%s", reply->text);
        return;
    }
    (void)snprintf(request->err.text, sizeof request->err.text, "%s", reply->text);
    request->count = reply->count;
    request->replicas_given = reply->replicas;
    request->topic = request->verb == LQ_META_TOPIC_CREATE && !is_errand(request) ? request->uuid : reply->uuid;
    if (is_errand(request)) {
        ((struct errand *)request->data)->reply = *reply;
    }
    if (reply->status != LIGHTQ_OK || is_errand(request) || request->verb == LQ_META_LEADER_TRANSFER) {
        settle(meta, request, reply->status);
        return;
    }
    request->version = reply->version; /* done there; here it is done when the catalogs have it */
    request->spread_us = lq_meta_now_us(meta) + SPREAD_MS * LQ_MICROS_PER_MILLI;
    meta->requests.work = true;
}

static uint32_t count_leaderless(const struct lq_meta *meta, const struct lq_catalog_topic *topic)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        count += lq_meta_leader(meta, topic->partitions[i].group).node == 0;
    }
    return count;
}

/* Done by the controller: whether clients can see it. A deleted topic must be gone on every node that is up, or a
 * leader there would go on acknowledging messages into it; and whichever node is asked next shows what was altered. A
 * node whose catalog stands still is not waited for for ever. */
static bool is_visible(const struct lq_meta *meta, const struct lq_meta_request *request)
{
    if (lq_neighbours_version(meta) < request->version) {
        return false;
    }
    bool alters = request->verb == LQ_META_TOPIC_ALTER;
    if ((alters || request->verb == LQ_META_TOPIC_DELETE) && !lq_peers_have(meta, request->version) &&
        lq_meta_now_us(meta) < request->spread_us) {
        return false;
    }
    if (!alters && request->verb != LQ_META_TOPIC_CREATE) {
        return true;
    }
    const struct lq_catalog_topic *topic = lq_catalog_topic_by_id(meta->catalog, &request->topic);
    return topic == NULL || (alters && request->partitions == 0) ||
           count_leaderless(meta, topic) == 0; /* NULL: deleted again meanwhile */
}

static void explain_timeout(const struct lq_meta *meta, struct lq_meta_request *request)
{
    bool has_topic = request->verb == LQ_META_TOPIC_CREATE || request->verb == LQ_META_TOPIC_ALTER;
    const struct lq_catalog_topic *topic =
        request->version != 0 && has_topic ? lq_catalog_topic_by_id(meta->catalog, &request->topic) : NULL;
    if (topic != NULL) {
        (void)snprintf(request->err.text, sizeof request->err.text,
                       "the topic exists, but %" PRIu32 " of its %" PRIu32 " partitions have no leader yet",
                       count_leaderless(meta, topic), topic->partition_count);
    } else if (request->version != 0) {
        (void)snprintf(request->err.text, sizeof request->err.text,
                       "it is done, but this node has not seen it yet: its catalog is behind");
    } else if (!request->sent && request->err.text[0] == '\0') {
        (void)snprintf(request->err.text, sizeof request->err.text,
                       "no controller is known: a majority of the cluster's nodes is not reachable");
    } else if (request->err.text[0] == '\0') {
        (void)snprintf(request->err.text, sizeof request->err.text,
                       "node %" PRIu32 " did not answer: it is not known whether it was done", request->asked);
    }
}

static void step(struct lq_meta *meta, struct lq_meta_request *request)
{
    uint64_t now_us = lq_meta_now_us(meta);
    if (request->done) {
        return;
    }
    if (request->version != 0) {
        if (is_visible(meta, request)) {
            settle(meta, request, LIGHTQ_OK);
        }
    } else if (now_us >= request->retry_us) {
        ask(meta, request);
    }
    if (!request->done && now_us >= request->deadline_us) {
        explain_timeout(meta, request);
        settle(meta, request, LIGHTQ_ETIMEDOUT);
    }
}

static void answer_done(struct lq_meta *meta)
{
    struct lq_meta_request **at = &meta->requests.first;
    struct lq_meta_request *done = NULL;
    struct lq_meta_request **done_end = &done;
    while (*at != NULL) {
        struct lq_meta_request *request = *at;
        if (!request->done) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        request->next = NULL;
        *done_end = request;
        done_end = &request->next;
        meta->requests.count--;
    }
    while (done != NULL) { /* callbacks may submit again */
        struct lq_meta_request *request = done;
        done = request->next;
        request->next = NULL;
        request->cb(request, request->err.status);
    }
}

void lq_requests_turn(struct lq_meta *meta)
{
    if (!meta->requests.work) {
        return;
    }
    meta->requests.work = false;
    for (struct lq_meta_request *request = meta->requests.first; request != NULL; request = request->next) {
        step(meta, request);
    }
    answer_done(meta);
}

void lq_requests_tick(struct lq_meta *meta)
{
    meta->requests.work |= meta->requests.first != NULL;
    lq_requests_turn(meta);
}

void lq_requests_close(struct lq_meta *meta)
{
    for (struct lq_meta_request *request = meta->requests.first; request != NULL; request = request->next) {
        request->done = true;
        request->err.status = LIGHTQ_ECLOSED;
    }
    answer_done(meta);
}
