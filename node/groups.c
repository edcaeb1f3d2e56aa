/* node/groups.c - see groups.h: changes of consumer groups. */
#include "node/groups.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "node/consume.h"
#include "node/group_words.h"
#include "node/queue/partition_groups.h"

#define TIMEOUT_DEFAULT_MS 30000
#define TIMEOUT_MAX_MS     600000
#define MICROS_PER_MILLI   1000

/* One change on its way. Pinned until its partition calls back, also when its client was answered or left before. */
struct change {
    struct lq_group_request request;
    struct lq_groups *groups;
    uint16_t type; /* of the client's message */
    bool answered;
    uint64_t session, correlation, group;
    uint64_t deadline_us;
    char name[LQ_NAME_BYTES_MAX + 1]; /* what a GROUP_CREATE points to */
    struct change *prev, *next;
};

struct lq_groups {
    struct lq_service *service;
    struct change *under_way;
};

/* What is the same in all five requests. */
struct asked {
    const ProtobufCBinaryData *topic;
    uint32_t partition, timeout_ms;
    const char *name; /* of the group; NULL: it is not named */
    uint64_t number;  /* 0: any */
};

static struct asked asked_of(const struct lq_request *in)
{
    const Lightq__Wire__GroupCreate *create = in->body;
    const Lightq__Wire__GroupDelete *remove = in->body;
    const Lightq__Wire__GroupAlter *alter = in->body;
    const Lightq__Wire__GroupSeek *move = in->body;
    const Lightq__Wire__Commit *commit = in->body;
    switch (in->envelope->type) {
    case LQ_MESSAGE_GROUP_CREATE:
        return (struct asked){&create->topic, create->partition, create->timeout_ms, create->consumer_group, 0};
    case LQ_MESSAGE_GROUP_DELETE:
        return (struct asked){&remove->topic, remove->partition, remove->timeout_ms, remove->consumer_group,
                              remove->group_number};
    case LQ_MESSAGE_GROUP_ALTER:
        return (struct asked){&alter->topic, alter->partition, alter->timeout_ms, alter->consumer_group, 0};
    case LQ_MESSAGE_GROUP_SEEK:
        return (struct asked){&move->topic, move->partition, move->timeout_ms, move->consumer_group, 0};
    default:
        return (struct asked){&commit->topic, commit->partition, commit->timeout_ms, NULL, commit->group_number};
    }
}

/* ---- answers */

static void answer_create(struct lq_sessions *sessions, struct lq_session *session, const struct change *change,
                          lightq_status status, const char *text, Lightq__Wire__Leader *leader,
                          const struct lq_cgroup *cgroup)
{
    struct lq_group_words words;
    Lightq__Wire__GroupCreateAnswer body = LIGHTQ__WIRE__GROUP_CREATE_ANSWER__INIT;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    body.leader = leader;
    if (cgroup != NULL) {
        lq_group_words_fill(&words, cgroup);
        body.group_number = cgroup->number;
        body.generation = cgroup->generation;
        body.position = cgroup->settled.floor;
        body.group_id = lq_codec_bytes_of(&cgroup->id);
        body.options = &words.options;
    }
    lq_session_answer(sessions, session, LQ_MESSAGE_GROUP_CREATE_ANSWER, change->correlation, change->group,
                      &body.base);
}

static void answer_alter(struct lq_sessions *sessions, struct lq_session *session, const struct change *change,
                         lightq_status status, const char *text, Lightq__Wire__Leader *leader,
                         const struct lq_cgroup *cgroup)
{
    struct lq_group_words words;
    Lightq__Wire__GroupAlterAnswer body = LIGHTQ__WIRE__GROUP_ALTER_ANSWER__INIT;
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    body.leader = leader;
    if (cgroup != NULL) {
        lq_group_words_fill(&words, cgroup);
        body.options = &words.options;
    }
    lq_session_answer(sessions, session, LQ_MESSAGE_GROUP_ALTER_ANSWER, change->correlation, change->group, &body.base);
}

static void answer_others(struct lq_sessions *sessions, struct lq_session *session, const struct change *change,
                          lightq_status status, const char *text, Lightq__Wire__Leader *leader)
{
    const struct lq_cgroup_result *result = &change->request.result;
    uint16_t type = (uint16_t)(change->type + 1);
    if (change->type == LQ_MESSAGE_GROUP_DELETE) {
        Lightq__Wire__GroupDeleteAnswer body = LIGHTQ__WIRE__GROUP_DELETE_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.leader = leader;
        lq_session_answer(sessions, session, type, change->correlation, change->group, &body.base);
    } else if (change->type == LQ_MESSAGE_GROUP_SEEK) {
        Lightq__Wire__GroupSeekAnswer body = LIGHTQ__WIRE__GROUP_SEEK_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.leader = leader;
        body.group_number = result->number;
        body.generation = result->generation;
        body.position = result->position;
        lq_session_answer(sessions, session, type, change->correlation, change->group, &body.base);
    } else {
        Lightq__Wire__CommitAnswer body = LIGHTQ__WIRE__COMMIT_ANSWER__INIT;
        body.status = (uint32_t)status;
        body.text = lq_codec_string(text);
        body.leader = leader;
        body.position = result->position;
        lq_session_answer(sessions, session, type, change->correlation, change->group, &body.base);
    }
}

static void answer(struct lq_service *service, struct lq_session *session, const struct change *change,
                   lightq_status status, const char *text)
{
    struct lq_leader_hint hint;
    Lightq__Wire__Leader *leader = NULL;
    const struct lq_partition *partition = lq_meta_partition(service->meta, change->group);
    const struct lq_cgroup *cgroup = NULL;
    if (status == LIGHTQ_ENOTLEADER || status == LIGHTQ_ELEADERSHIPLOST) {
        lq_service_hint(service, change->group, &hint);
        leader = &hint.leader;
    }
    if (partition != NULL && (status == LIGHTQ_OK || status == LIGHTQ_EEXISTS)) {
        cgroup = lq_cgroups_find(lq_partition_groups(partition), change->request.result.number);
    }
    switch (change->type) {
    case LQ_MESSAGE_GROUP_CREATE:
        answer_create(service->sessions, session, change, status, text, leader, cgroup);
        return;
    case LQ_MESSAGE_GROUP_ALTER:
        answer_alter(service->sessions, session, change, status, text, leader, cgroup);
        return;
    default:
        answer_others(service->sessions, session, change, status, text, leader);
    }
}

/* It is done, or will not be. */
static void finish(struct change *change, lightq_status status, const char *text)
{
    struct lq_groups *groups = change->groups;
    struct lq_session *session = lq_sessions_find(groups->service->sessions, change->session);
    DL_DELETE(groups->under_way, change);
    if (session != NULL) {
        session->group_requests--;
        if (!change->answered) {
            answer(groups->service, session, change, status, text);
        }
    }
    free(change);
}

static const char *text_of(const struct change *change, lightq_status status)
{
    if (status == LIGHTQ_EFENCED) {
        return "the consumer group has been moved: subscribe again";
    }
    if (status == LIGHTQ_EEXISTS) {
        return "another consumer group has that name";
    }
    if (status == LIGHTQ_ESETTLED && change->type == LQ_MESSAGE_COMMIT) {
        return "the group's position is further already";
    }
    return status == LIGHTQ_OK ? "" : lightq_status_text(status);
}

static void on_changed(struct lq_group_request *request, lightq_status status)
{
    struct change *change = request->data;
    finish(change, status, text_of(change, status));
}

/* ---- requests */

/* Fills the command of a GROUP_CREATE. */
static lightq_status fill_create(struct change *change, const Lightq__Wire__GroupCreate *body, const char **text)
{
    struct lq_cgroup_create *create = &change->request.command.group_create;
    size_t size = strlen(body->consumer_group);
    change->request.command.type = LQ_COMMAND_GROUP_CREATE;
    if (lq_topic_name_check(body->consumer_group, size) != LIGHTQ_OK) {
        *text = lightq_status_text(LIGHTQ_ENAME);
        return LIGHTQ_ENAME;
    }
    if (lq_codec_id(&body->group_id, &create->id) != LIGHTQ_OK || lq_id_is_zero(&create->id)) {
        *text = "a group's id has 16 bytes, not all zero";
        return LIGHTQ_EINVAL;
    }
    memcpy(change->name, body->consumer_group, size);
    create->name = change->name;
    create->name_size = (uint8_t)size;
    lightq_status status = lq_group_start_read(body->start, &create->start);
    if (status != LIGHTQ_OK) {
        *text = "that kind of start is not known here";
        return status;
    }
    return lq_group_options_read(body->options, &create->options, text);
}

/* Fills the command of @in about @cgroup (NULL for GROUP_CREATE and COMMIT). */
static lightq_status fill(struct change *change, const struct lq_request *in, const struct lq_cgroup *cgroup,
                          const char **text)
{
    struct lq_command *command = &change->request.command;
    const Lightq__Wire__GroupAlter *alter = in->body;
    const Lightq__Wire__GroupSeek *move = in->body;
    const Lightq__Wire__Commit *commit = in->body;
    switch (in->envelope->type) {
    case LQ_MESSAGE_GROUP_CREATE:
        return fill_create(change, in->body, text);
    case LQ_MESSAGE_GROUP_DELETE:
        command->type = LQ_COMMAND_GROUP_DELETE;
        command->group_delete.group = cgroup->number;
        return LIGHTQ_OK;
    case LQ_MESSAGE_GROUP_ALTER:
        command->type = LQ_COMMAND_GROUP_ALTER;
        command->group_alter =
            (struct lq_cgroup_alter){.group = cgroup->number, .mask = alter->mask, .options = cgroup->options};
        return lq_group_options_change(alter->options, alter->mask, &command->group_alter.options, text);
    case LQ_MESSAGE_GROUP_SEEK:
        command->type = LQ_COMMAND_GROUP_SEEK;
        command->group_seek.group = cgroup->number;
        *text = "that kind of start is not known here";
        return lq_group_start_read(move->to, &command->group_seek.start);
    default:
        command->type = LQ_COMMAND_COMMIT;
        command->commit = (struct lq_cgroup_commit){
            .group = commit->group_number, .generation = commit->generation, .offset = commit->offset};
        return LIGHTQ_OK;
    }
}

/* The start that has to be looked for by its time, or NULL. */
static struct lq_cgroup_start *timed_start(struct lq_command *command)
{
    struct lq_cgroup_start *start = NULL;
    if (command->type == LQ_COMMAND_GROUP_CREATE) {
        start = &command->group_create.start;
    } else if (command->type == LQ_COMMAND_GROUP_SEEK) {
        start = &command->group_seek.start;
    }
    return start != NULL && start->kind == LQ_CGROUP_TIME ? start : NULL;
}

static void on_located(void *data, lightq_status status, uint64_t offset, const char *text)
{
    struct change *change = data;
    struct lq_partition *partition = lq_meta_partition(change->groups->service->meta, change->group);
    change->answered |= status == LIGHTQ_ECANCELED; /* its client is leaving */
    if (status == LIGHTQ_OK && partition == NULL) {
        status = LIGHTQ_ENOTLEADER;
    }
    if (status == LIGHTQ_OK && !change->answered) {
        timed_start(&change->request.command)->offset = offset;
        status = lq_partition_group_change(partition, &change->request);
        text = lightq_status_text(status);
        if (status == LIGHTQ_OK) {
            return;
        }
    }
    finish(change, status, text);
}

/* OK: it is answered later. */
static lightq_status hand_in(struct change *change, const struct lq_request *in, struct lq_partition *partition,
                             const char **text)
{
    struct lq_service *service = change->groups->service;
    const struct lq_cgroup_start *start = timed_start(&change->request.command);
    lightq_status status;
    if (in->session->group_requests >= service->options->session_requests_max) {
        *text = "too many requests of this client are under way (session.requests.max)";
        return LIGHTQ_EBUSY;
    }
    if (start != NULL) {
        status =
            lq_consume_locate(service->consume, in, change->group, partition, start->time_ms, on_located, change, text);
    } else {
        status = lq_partition_group_change(partition, &change->request);
        *text = lightq_status_text(status);
    }
    if (status == LIGHTQ_OK) {
        DL_APPEND(change->groups->under_way, change);
        in->session->group_requests++;
    }
    return status;
}

/* The group that is named. OK | ENOTFOUND. */
static lightq_status find_group(const struct lq_partition *partition, const struct asked *asked,
                                const struct lq_cgroup **cgroup, const char **text)
{
    *cgroup = lq_cgroups_find_name(lq_partition_groups(partition), asked->name, strlen(asked->name));
    if (*cgroup == NULL || (asked->number != 0 && asked->number != (*cgroup)->number)) {
        *text = "the partition has no consumer group of that name";
        return LIGHTQ_ENOTFOUND;
    }
    return LIGHTQ_OK;
}

static lightq_status start_change(struct lq_groups *groups, const struct lq_request *in, const struct asked *asked,
                                  struct lq_partition *partition, const struct change *with, const char **text)
{
    const struct lq_cgroup *cgroup = NULL;
    struct change *change = NULL;
    lightq_status status = LIGHTQ_OK;
    if (asked->name != NULL && in->envelope->type != LQ_MESSAGE_GROUP_CREATE) {
        status = find_group(partition, asked, &cgroup, text);
    }
    if (status == LIGHTQ_OK && (change = malloc(sizeof *change)) == NULL) {
        status = LIGHTQ_ENOMEM;
        *text = lightq_status_text(status);
    }
    if (status == LIGHTQ_OK) {
        uint64_t wait_ms = asked->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : asked->timeout_ms;
        wait_ms = wait_ms < TIMEOUT_MAX_MS ? wait_ms : TIMEOUT_MAX_MS;
        *change = *with;
        change->session = in->session->number;
        change->deadline_us = lq_clock_monotonic_us(groups->service->clock) + wait_ms * MICROS_PER_MILLI;
        change->request.cb = on_changed;
        change->request.data = change;
        status = fill(change, in, cgroup, text);
    }
    if (status == LIGHTQ_OK) {
        status = hand_in(change, in, partition, text);
    }
    if (status != LIGHTQ_OK) {
        free(change);
    }
    return status;
}

void lq_groups_change(struct lq_groups *groups, const struct lq_request *in)
{
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    const char *text = "";
    struct asked asked = asked_of(in);
    struct change with = {.groups = groups,
                          .type = in->envelope->type,
                          .correlation = in->envelope->correlation,
                          .group = in->envelope->group};
    lightq_status status =
        lq_service_lead(groups->service, asked.topic, asked.partition, in->envelope->group, &placed, &partition, &text);
    with.group = placed == NULL ? with.group : placed->group;
    if (status == LIGHTQ_OK) {
        status = start_change(groups, in, &asked, partition, &with, &text);
    }
    if (status != LIGHTQ_OK) {
        answer(groups->service, in->session, &with, status, text);
    }
}

void lq_groups_tick(struct lq_groups *groups)
{
    uint64_t now_us = lq_clock_monotonic_us(groups->service->clock);
    struct change *change;
    DL_FOREACH(groups->under_way, change)
    {
        struct lq_session *session = lq_sessions_find(groups->service->sessions, change->session);
        if (!change->answered && now_us >= change->deadline_us) {
            change->answered = true;
            if (session != NULL) {
                answer(groups->service, session, change, LIGHTQ_ETIMEDOUT,
                       "not durable on a majority within the request's time; it may still be");
            }
        }
    }
}

/* ---- life */

lightq_status lq_groups_new(struct lq_service *service, struct lq_groups **out)
{
    struct lq_groups *groups = calloc(1, sizeof *groups);
    if (groups == NULL) {
        return LIGHTQ_ENOMEM;
    }
    groups->service = service;
    *out = groups;
    return LIGHTQ_OK;
}

void lq_groups_free(struct lq_groups *groups)
{
    assert(groups->under_way == NULL);
    free(groups);
}
