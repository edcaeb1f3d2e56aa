/* node/admin.c - see admin.h: the changes. What looks at replicas is in describe.c. */
#include "node/admin.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/admin_internal.h"

/* A change under way. Pinned until the meta calls back. */
struct change {
    struct lq_meta_request meta;
    struct lq_admin *admin;
    uint64_t session; /* number */
    uint64_t correlation;
    struct lq_topic_config config;
    char name[LQ_NAME_BYTES_MAX + 1];
};

/* Where the controller is, for an answer with ENOTLEADER, ENOLEADER or EUNAVAILABLE. */
static Lightq__Wire__Leader *controller_of(const struct lq_admin *admin, lightq_status status,
                                           struct lq_leader_hint *hint)
{
    if (status != LIGHTQ_ENOTLEADER && status != LIGHTQ_ENOLEADER && status != LIGHTQ_EUNAVAILABLE) {
        return NULL;
    }
    lq_service_hint(admin->service, LQ_META_GROUP, hint);
    return hint->leader.node == 0 ? NULL : &hint->leader;
}

static void answer(struct lq_admin *admin, struct lq_session *session, const struct change *change,
                   lightq_status status, const char *text)
{
    struct lq_sessions *sessions = admin->service->sessions;
    struct lq_leader_hint hint;
    Lightq__Wire__Leader *controller = controller_of(admin, status, &hint);
    switch (change->meta.verb) {
    case LQ_META_TOPIC_CREATE: {
        Lightq__Wire__TopicCreateAnswer body = LIGHTQ__WIRE__TOPIC_CREATE_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.controller = controller;
        body.topic = lq_codec_bytes_of(&change->meta.topic);
        body.partitions = change->meta.count;
        body.replicas = change->meta.replicas_given;
        body.version = change->meta.version;
        lq_session_answer(sessions, session, LQ_MESSAGE_TOPIC_CREATE_ANSWER, change->correlation, 0, &body.base);
        return;
    }
    case LQ_META_TOPIC_ALTER: {
        Lightq__Wire__TopicAlterAnswer body = LIGHTQ__WIRE__TOPIC_ALTER_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.controller = controller;
        body.topic = lq_codec_bytes_of(&change->meta.topic);
        body.partitions = change->meta.count;
        body.version = change->meta.version;
        lq_session_answer(sessions, session, LQ_MESSAGE_TOPIC_ALTER_ANSWER, change->correlation, 0, &body.base);
        return;
    }
    case LQ_META_TOPIC_DELETE: {
        Lightq__Wire__TopicDeleteAnswer body = LIGHTQ__WIRE__TOPIC_DELETE_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.controller = controller;
        lq_session_answer(sessions, session, LQ_MESSAGE_TOPIC_DELETE_ANSWER, change->correlation, 0, &body.base);
        return;
    }
    case LQ_META_NODE_REPLACE: {
        Lightq__Wire__NodeReplaceAnswer body = LIGHTQ__WIRE__NODE_REPLACE_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.controller = controller;
        body.partitions = change->meta.count;
        lq_session_answer(sessions, session, LQ_MESSAGE_NODE_REPLACE_ANSWER, change->correlation, 0, &body.base);
        return;
    }
    case LQ_META_LEADER_TRANSFER: {
        Lightq__Wire__PartitionTransferAnswer body = LIGHTQ__WIRE__PARTITION_TRANSFER_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        lq_session_answer(sessions, session, LQ_MESSAGE_PARTITION_TRANSFER_ANSWER, change->correlation, 0, &body.base);
        return;
    }
    }
}

static const char *text_of(const struct change *change, lightq_status status)
{
    if (status == LIGHTQ_OK) {
        return "";
    }
    return change->meta.err.text[0] != '\0' ? change->meta.err.text : lightq_status_text(status);
}

static void on_changed(struct lq_meta_request *meta, lightq_status status)
{
    struct change *change = meta->data;
    struct lq_admin *admin = change->admin;
    struct lq_session *session = lq_sessions_find(admin->service->sessions, change->session);
    admin->under_way--;
    if (session != NULL) {
        answer(admin, session, change, status, text_of(change, status));
    }
    free(change);
}

/* A change for @request, to be submitted. NULL: no memory, which the client was told. */
static struct change *make(struct lq_admin *admin, const struct lq_request *request, enum lq_meta_verb verb,
                           uint32_t timeout_ms)
{
    struct change *change = calloc(1, sizeof *change);
    if (change == NULL) {
        lq_session_error(admin->service->sessions, request->session, request->envelope->correlation, LIGHTQ_ENOMEM,
                         lightq_status_text(LIGHTQ_ENOMEM));
        return NULL;
    }
    change->admin = admin;
    change->session = request->session->number;
    change->correlation = request->envelope->correlation;
    change->meta.verb = verb;
    change->meta.timeout_ms = timeout_ms;
    change->meta.cb = on_changed;
    change->meta.data = change;
    return change;
}

/* Answers a change that was not submitted, and frees it. */
static void refuse(struct change *change, struct lq_session *session, lightq_status status)
{
    const char *text = text_of(change, status);
    answer(change->admin, session, change, status, text);
    free(change);
}

static void submit(struct change *change, struct lq_session *session)
{
    lightq_status status = lq_meta_submit(change->admin->service->meta, &change->meta);
    if (status == LIGHTQ_OK) {
        change->admin->under_way++;
    } else {
        refuse(change, session, status);
    }
}

/* Takes the topic's name. ENAME: it is not one. */
static lightq_status take_name(struct change *change, const char *name)
{
    lightq_status status = lq_topic_name_check(name, strlen(name));
    if (status == LIGHTQ_OK) {
        memcpy(change->name, name, strlen(name) + 1);
        change->meta.name = change->name;
    }
    return status;
}

/* What belongs to topics that are only in memory (docs/adr/0019-transient-topics.md): known by name, so that nobody
 * takes a topic that is stored for one that is not, or looks for a misspelt word. */
static bool is_of_transient(const char *name)
{
    static const char *const names[] = {"transient", "max.bytes", "full"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* An age at which messages end is proposed and not built (docs/adr/0020-time-of-messages.md). A topic that took it and
 * delivered for ever would be worse than none. */
static bool is_of_expiry(const char *name)
{
    return strcmp(name, "message.ttl.ms") == 0;
}

/* Takes what is set in @config, over the defaults; meta.mask says what that is. */
static lightq_status take_config(struct change *change, Lightq__Wire__NameValue **config, size_t count)
{
    uint64_t node_max = change->admin->service->options->max_message_bytes;
    lq_topic_config_init(&change->config);
    if (change->config.max_message_bytes > node_max) {
        change->config.max_message_bytes = node_max;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_of_transient(config[i]->name)) {
            return lq_err_set(&change->meta.err, LIGHTQ_EUNSUPPORTED,
                              "%s: the nodes have no transient topics; each topic is stored on disk", config[i]->name);
        }
        if (is_of_expiry(config[i]->name)) {
            return lq_err_set(&change->meta.err, LIGHTQ_EUNSUPPORTED,
                              "%s: the nodes end no message by its age; retention.ms drops old ones from the start",
                              config[i]->name);
        }
        lightq_status status =
            lq_conf_set(&lq_topic_config_table, &change->config, config[i]->name, config[i]->value, &change->meta.err);
        if (status != LIGHTQ_OK) {
            return LIGHTQ_EINVAL;
        }
        change->meta.mask |= lq_topic_config_bit(config[i]->name);
    }
    if (change->config.max_message_bytes > node_max) {
        return lq_err_set(&change->meta.err, LIGHTQ_EINVAL,
                          "max.message.bytes: the nodes take messages of up to %llu bytes (their max.message.bytes)",
                          (unsigned long long)node_max);
    }
    change->meta.config = &change->config;
    return LIGHTQ_OK;
}

void lq_admin_topic_create(struct lq_admin *admin, const struct lq_request *request)
{
    const Lightq__Wire__TopicCreate *body = request->body;
    struct change *change = make(admin, request, LQ_META_TOPIC_CREATE, body->timeout_ms);
    if (change == NULL) {
        return;
    }
    change->meta.partitions = body->partitions;
    change->meta.replicas = body->replicas;
    lightq_status status = take_name(change, body->name);
    if (status == LIGHTQ_OK) {
        status = take_config(change, body->config, body->n_config);
    }
    if (status != LIGHTQ_OK) {
        refuse(change, request->session, status);
        return;
    }
    submit(change, request->session);
}

void lq_admin_topic_alter(struct lq_admin *admin, const struct lq_request *request)
{
    const Lightq__Wire__TopicAlter *body = request->body;
    struct change *change = make(admin, request, LQ_META_TOPIC_ALTER, body->timeout_ms);
    if (change == NULL) {
        return;
    }
    change->meta.partitions = body->partitions;
    lightq_status status = take_name(change, body->name);
    if (status == LIGHTQ_OK) {
        status = take_config(change, body->config, body->n_config);
    }
    if (status != LIGHTQ_OK) {
        refuse(change, request->session, status);
        return;
    }
    submit(change, request->session);
}

void lq_admin_topic_delete(struct lq_admin *admin, const struct lq_request *request)
{
    const Lightq__Wire__TopicDelete *body = request->body;
    struct change *change = make(admin, request, LQ_META_TOPIC_DELETE, body->timeout_ms);
    if (change == NULL) {
        return;
    }
    lightq_status status = take_name(change, body->name);
    if (status != LIGHTQ_OK) {
        refuse(change, request->session, status);
        return;
    }
    submit(change, request->session);
}

void lq_admin_node_replace(struct lq_admin *admin, const struct lq_request *request)
{
    const Lightq__Wire__NodeReplace *body = request->body;
    struct change *change = make(admin, request, LQ_META_NODE_REPLACE, body->timeout_ms);
    if (change == NULL) {
        return;
    }
    change->meta.old_node = body->old_node;
    change->meta.new_node = body->new_node;
    change->meta.live = body->live;
    submit(change, request->session);
}

void lq_admin_transfer(struct lq_admin *admin, const struct lq_request *request)
{
    const Lightq__Wire__PartitionTransfer *body = request->body;
    struct change *change = make(admin, request, LQ_META_LEADER_TRANSFER, body->timeout_ms);
    if (change == NULL) {
        return;
    }
    change->meta.partition = body->partition;
    change->meta.to = body->to;
    lightq_status status = take_name(change, body->name);
    if (status != LIGHTQ_OK) {
        refuse(change, request->session, status);
        return;
    }
    submit(change, request->session);
}

lightq_status lq_admin_new(struct lq_service *service, struct lq_admin **out)
{
    struct lq_admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL) {
        return LIGHTQ_ENOMEM;
    }
    admin->service = service;
    *out = admin;
    return LIGHTQ_OK;
}

void lq_admin_free(struct lq_admin *admin)
{
    assert(admin->under_way == 0);
    free(admin);
}
