/* client/lib/group.c - making and changing groups, of lightq/group.h: each function asks the leaders of a topic's
 * partitions one after the other (call.h), until all have done it. Any thread.
 *
 * Partition 0 decides: a group is made there first and deleted there last, so of two who make it at once one wins in
 * all partitions, and who died half way is finished by the next (docs/protocol.md). */
#include <limits.h>
#include <string.h>

#include "client/lib/error.h"
#include "client/lib/group.h"
#include "client/lib/start.h"
#include "client/lib/wait.h"

#define LIST_PAGES_MAX 65536      /* a server that always says "more" is not believed for ever */
#define NO_BOUND       UINT32_MAX /* of max_deliver, on the wire */

_Static_assert(LIGHTQ_BACKOFF_MAX == LQ_CGROUP_BACKOFF_MAX, "one list, one length");

/* What the body of each request begins with; by lightq.proto. */
struct request_head {
    ProtobufCMessage base;
    ProtobufCBinaryData topic;
    uint32_t partition;
};
#define HAS_HEAD(message)                                                                                        \
    _Static_assert(offsetof(struct request_head, topic) == offsetof(Lightq__Wire__##message, topic) &&           \
                       offsetof(struct request_head, partition) == offsetof(Lightq__Wire__##message, partition), \
                   "requests about groups begin with topic and partition")
HAS_HEAD(GroupCreate);
HAS_HEAD(GroupDelete);
HAS_HEAD(GroupAlter);
HAS_HEAD(GroupSeek);
HAS_HEAD(GroupList);
HAS_HEAD(GroupDescribe);

/* ---- asking */

static void put_topic(struct lq_call *call, const struct lq_topic *topic)
{
    struct request_head *head = (struct request_head *)(void *)call->body;
    head->topic = lq_codec_bytes_of(&topic->id);
}

int lq_group_left_ms(const struct lq_group_work *work)
{
    return lq_deadline_left_ms(work->client->io.clock, work->deadline_us);
}

lightq_status lq_group_begin(struct lq_group_work *work, struct lightq *client, const char *topic, const char *group,
                             int timeout_ms, struct lightq_error *error)
{
    if (lq_client_forked(client)) {
        return lq_error_plain(error, LIGHTQ_EFORK);
    }
    if (lq_topic_name_check(topic) != LIGHTQ_OK || (group != NULL && lq_topic_name_check(group) != LIGHTQ_OK)) {
        return lq_error_plain(error, LIGHTQ_ENAME);
    }
    uint64_t most_ms = client->io.options.request_timeout_ms;
    int wait_ms = timeout_ms >= 0 ? timeout_ms : most_ms < INT_MAX ? (int)most_ms : INT_MAX;
    *work = (struct lq_group_work){.client = client,
                                   .topic = topic,
                                   .group = group,
                                   .deadline_us = lq_deadline_in(client->io.clock, wait_ms),
                                   .error = error};
    return lightq_partition_count(client, topic, wait_ms, &work->partition_count, error);
}

lightq_status lq_group_ask_for(const struct lq_group_work *work, int32_t partition, uint16_t type,
                               ProtobufCMessage *body, lightq_status repeated, int timeout_ms, void **answer,
                               struct lightq_error *said)
{
    struct lq_call call = {.client = work->client,
                           .type = type,
                           .body = body,
                           .topic = work->topic,
                           .partition = partition,
                           .prepare = put_topic,
                           .repeated = repeated,
                           .keep_refusal = true};
    ((struct request_head *)(void *)body)->partition = (uint32_t)partition;
    lightq_status status = lq_call_run(&call, timeout_ms);
    *answer = call.answer;
    *said = call.error;
    return status;
}

lightq_status lq_group_ask(const struct lq_group_work *work, int32_t partition, uint16_t type, ProtobufCMessage *body,
                           lightq_status repeated, void **answer)
{
    struct lightq_error said;
    lightq_status status =
        lq_group_ask_for(work, partition, type, body, repeated, lq_group_left_ms(work), answer, &said);
    if (status == LIGHTQ_OK) {
        return status;
    }
    if (work->group == NULL) {
        return lq_error_set(work->error, status, "topic %s partition %d: %s", work->topic, partition, said.text);
    }
    return lq_error_set(work->error, status, "group %s of topic %s, partition %d: %s", work->group, work->topic,
                        partition, said.text);
}

/* ---- options */

void lightq_group_options_init(struct lightq_group_options *options, enum lightq_group_mode mode)
{
    *options = (struct lightq_group_options){.mode = mode,
                                             .ack_wait_ms = LQ_CGROUP_ACK_WAIT_MS_DEFAULT,
                                             .max_deliver = LQ_CGROUP_MAX_DELIVER_DEFAULT,
                                             .max_unsettled = LQ_CGROUP_UNSETTLED_DEFAULT};
}

/* What can be told to be wrong here; the rest is the server's to say. @which: the options that count. */
static lightq_status check_options(const struct lightq_group_options *options, uint32_t which,
                                   struct lightq_error *error)
{
    if ((which & LIGHTQ_GROUP_ACK_WAIT) != 0 &&
        (options->ack_wait_ms == 0 || options->ack_wait_ms > LQ_CGROUP_ACK_WAIT_MS_MAX)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "ack_wait is 1 ms to a day, and not %u ms", options->ack_wait_ms);
    }
    if ((which & LIGHTQ_GROUP_MAX_UNSETTLED) != 0 &&
        (options->max_unsettled == 0 || options->max_unsettled > LQ_CGROUP_UNSETTLED_MAX)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "max_unsettled is 1 to %u, and not %u", LQ_CGROUP_UNSETTLED_MAX,
                            options->max_unsettled);
    }
    if ((which & LIGHTQ_GROUP_MAX_DELIVER) != 0 && options->max_deliver == NO_BOUND) {
        return lq_error_set(error, LIGHTQ_EINVAL, "max_deliver is less than %u", NO_BOUND);
    }
    bool fit = options->backoff_count <= LIGHTQ_BACKOFF_MAX;
    for (uint32_t i = 0; fit && i < options->backoff_count; i++) {
        fit = options->backoff_ms[i] <= LQ_CGROUP_DELAY_MS_MAX;
    }
    if ((which & LIGHTQ_GROUP_BACKOFF) != 0 && !fit) {
        return lq_error_set(error, LIGHTQ_EINVAL, "the backoff list has at most %d delays of at most %u ms",
                            LIGHTQ_BACKOFF_MAX, LQ_CGROUP_DELAY_MS_MAX);
    }
    return LIGHTQ_OK;
}

static lightq_status check_all_options(const struct lightq_group_options *options, struct lightq_error *error)
{
    if (options->mode != LIGHTQ_GROUP_SUBSCRIBER && options->mode != LIGHTQ_GROUP_PIPELINE) {
        return lq_error_set(error, LIGHTQ_EINVAL, "a group's mode is subscriber or pipeline");
    }
    if (options->exclusive && options->key_ordered) {
        return lq_error_set(error, LIGHTQ_EINVAL, "a group is exclusive or key ordered, and not both");
    }
    if (options->key_ordered && options->mode != LIGHTQ_GROUP_PIPELINE) {
        return lq_error_set(error, LIGHTQ_EINVAL, "only a pipeline group can be key ordered");
    }
    return check_options(options, UINT32_MAX, error);
}

/* @wire points into @options. */
static void put_options(const struct lightq_group_options *options, Lightq__Wire__GroupOptions *wire)
{
    lightq__wire__group_options__init(wire);
    wire->mode = (Lightq__Wire__GroupMode)options->mode;
    wire->exclusive = options->exclusive;
    wire->key_ordered = options->key_ordered;
    wire->paused = options->paused;
    wire->ack_wait_ms = options->ack_wait_ms;
    wire->max_deliver = options->max_deliver == 0 ? NO_BOUND : options->max_deliver;
    wire->max_unsettled = options->max_unsettled;
    wire->backoff_ms = (uint32_t *)(uintptr_t)options->backoff_ms;
    wire->n_backoff_ms = options->backoff_count;
}

void lq_group_options_take(const Lightq__Wire__GroupOptions *wire, struct lightq_group_options *options)
{
    *options = (struct lightq_group_options){.mode = LIGHTQ_GROUP_SUBSCRIBER};
    if (wire == NULL) {
        return;
    }
    options->mode =
        wire->mode == LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE ? LIGHTQ_GROUP_PIPELINE : LIGHTQ_GROUP_SUBSCRIBER;
    options->exclusive = wire->exclusive;
    options->key_ordered = wire->key_ordered;
    options->paused = wire->paused;
    options->ack_wait_ms = wire->ack_wait_ms;
    options->max_deliver = wire->max_deliver == NO_BOUND ? 0 : wire->max_deliver;
    options->max_unsettled = wire->max_unsettled;
    for (size_t i = 0; i < wire->n_backoff_ms && i < LIGHTQ_BACKOFF_MAX; i++) {
        options->backoff_ms[options->backoff_count++] = wire->backoff_ms[i];
    }
}

/* Whether two groups were made alike. Of a subscriber group only some options have a meaning. */
static bool are_alike(const struct lightq_group_options *a, const struct lightq_group_options *b)
{
    bool alike = a->mode == b->mode && a->exclusive == b->exclusive && a->key_ordered == b->key_ordered;
    if (!alike || a->mode == LIGHTQ_GROUP_SUBSCRIBER) {
        return alike;
    }
    return a->ack_wait_ms == b->ack_wait_ms && a->max_deliver == b->max_deliver &&
           a->max_unsettled == b->max_unsettled && a->backoff_count == b->backoff_count &&
           memcmp(a->backoff_ms, b->backoff_ms, a->backoff_count * sizeof a->backoff_ms[0]) == 0;
}

/* ---- making */

static void put_create(const struct lq_group_work *work, const struct lq_id *id, Lightq__Wire__GroupCreate *body)
{
    body->consumer_group = lq_codec_string(work->group);
    body->group_id = lq_codec_bytes_of(id);
    body->timeout_ms = (uint32_t)lq_group_left_ms(work);
}

/* Partition 0 has a group of that name: finishes its making where it is missing. OK: it was. EEXISTS: it was not, or
 * the one that is there is another kind. */
static lightq_status finish_making(const struct lq_group_work *work, Lightq__Wire__GroupCreate *body,
                                   const struct lightq_group_options *options,
                                   const Lightq__Wire__GroupCreateAnswer *there)
{
    struct lightq_group_options has;
    struct lq_id id;
    bool finished = false;
    lightq_status status = LIGHTQ_OK;
    lq_group_options_take(there != NULL ? there->options : NULL, &has);
    bool alike = there != NULL && lq_codec_id(&there->group_id, &id) == LIGHTQ_OK && are_alike(&has, options);
    for (int32_t i = 1; alike && status == LIGHTQ_OK && i < work->partition_count; i++) {
        Lightq__Wire__GroupDescribe question = LIGHTQ__WIRE__GROUP_DESCRIBE__INIT;
        void *answer = NULL;
        question.consumer_group = lq_codec_string(work->group);
        status = lq_group_ask(work, i, LQ_MESSAGE_GROUP_DESCRIBE, &question.base, LIGHTQ_OK, &answer);
        lq_codec_free(answer);
        if (status == LIGHTQ_ENOTFOUND) {
            answer = NULL;
            put_create(work, &id, body);
            status = lq_group_ask(work, i, LQ_MESSAGE_GROUP_CREATE, &body->base, LIGHTQ_OK, &answer);
            lq_codec_free(answer);
            finished = true;
        }
    }
    if (status != LIGHTQ_OK || finished) {
        return status;
    }
    return lq_error_set(work->error, LIGHTQ_EEXISTS, "topic %s has a group %s%s", work->topic, work->group,
                        alike ? "" : ", of other options");
}

lightq_status lightq_group_create(struct lightq *client, const char *topic, const char *group,
                                  const struct lightq_group_options *options, const struct lightq_start *start,
                                  int timeout_ms, struct lightq_error *error)
{
    struct lq_group_work work;
    const struct lightq_start first = {.kind = LIGHTQ_START_BEGIN};
    start = start != NULL ? start : &first;
    lightq_status status = check_all_options(options, error);
    if (status == LIGHTQ_OK && !lq_start_is_good(start)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "not a place to start at");
    }
    status = status == LIGHTQ_OK ? lq_group_begin(&work, client, topic, group, timeout_ms, error) : status;
    if (status == LIGHTQ_OK && start->kind == LIGHTQ_START_OFFSET && work.partition_count > 1) {
        return lq_error_set(error, LIGHTQ_EINVAL, "topic %s has %d partitions: an offset is no place in all of them",
                            topic, work.partition_count);
    }
    Lightq__Wire__GroupCreate body = LIGHTQ__WIRE__GROUP_CREATE__INIT;
    Lightq__Wire__GroupOptions wire_options;
    Lightq__Wire__Start wire_start = LIGHTQ__WIRE__START__INIT;
    struct lq_id id = lq_id_random(client->io.clock);
    put_options(options, &wire_options);
    lq_start_put(start, &wire_start);
    body.options = &wire_options;
    body.start = &wire_start;
    for (int32_t i = 0; status == LIGHTQ_OK && i < work.partition_count; i++) {
        void *answer = NULL;
        put_create(&work, &id, &body);
        status = lq_group_ask(&work, i, LQ_MESSAGE_GROUP_CREATE, &body.base, LIGHTQ_OK, &answer);
        if (status == LIGHTQ_EEXISTS && i == 0) {
            status = finish_making(&work, &body, options, answer);
            lq_codec_free(answer);
            return status;
        }
        lq_codec_free(answer);
    }
    return status;
}

/* ---- changing */

lightq_status lightq_group_delete(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                  struct lightq_error *error)
{
    struct lq_group_work work;
    bool some = false;
    lightq_status status = lq_group_begin(&work, client, topic, group, timeout_ms, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (int32_t i = work.partition_count - 1; i >= 0; i--) {
        Lightq__Wire__GroupDelete body = LIGHTQ__WIRE__GROUP_DELETE__INIT;
        void *answer = NULL;
        body.consumer_group = lq_codec_string(group);
        body.timeout_ms = (uint32_t)lq_group_left_ms(&work);
        status = lq_group_ask(&work, i, LQ_MESSAGE_GROUP_DELETE, &body.base, LIGHTQ_ENOTFOUND, &answer);
        lq_codec_free(answer);
        some = some || status == LIGHTQ_OK;
        if (status != LIGHTQ_OK && status != LIGHTQ_ENOTFOUND) {
            return status;
        }
    }
    return some ? LIGHTQ_OK : lq_error_set(error, LIGHTQ_ENOTFOUND, "topic %s has no group %s", topic, group);
}

lightq_status lightq_group_alter(struct lightq *client, const char *topic, const char *group, uint32_t which,
                                 const struct lightq_group_options *options, int timeout_ms, struct lightq_error *error)
{
    struct lq_group_work work;
    Lightq__Wire__GroupOptions wire;
    lightq_status status = check_options(options, which, error);
    status = status == LIGHTQ_OK ? lq_group_begin(&work, client, topic, group, timeout_ms, error) : status;
    put_options(options, &wire);
    for (int32_t i = 0; status == LIGHTQ_OK && i < work.partition_count; i++) {
        Lightq__Wire__GroupAlter body = LIGHTQ__WIRE__GROUP_ALTER__INIT;
        void *answer = NULL;
        body.consumer_group = lq_codec_string(group);
        body.mask = which;
        body.options = &wire;
        body.timeout_ms = (uint32_t)lq_group_left_ms(&work);
        status = lq_group_ask(&work, i, LQ_MESSAGE_GROUP_ALTER, &body.base, LIGHTQ_OK, &answer);
        lq_codec_free(answer);
    }
    return status;
}

static lightq_status set_paused(struct lightq *client, const char *topic, const char *group, bool paused,
                                int timeout_ms, struct lightq_error *error)
{
    struct lightq_group_options options;
    lightq_group_options_init(&options, LIGHTQ_GROUP_PIPELINE);
    options.paused = paused;
    return lightq_group_alter(client, topic, group, LIGHTQ_GROUP_PAUSED, &options, timeout_ms, error);
}

lightq_status lightq_group_pause(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                 struct lightq_error *error)
{
    return set_paused(client, topic, group, true, timeout_ms, error);
}

lightq_status lightq_group_resume(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                  struct lightq_error *error)
{
    return set_paused(client, topic, group, false, timeout_ms, error);
}

lightq_status lightq_group_seek(struct lightq *client, const char *topic, const char *group, int32_t partition,
                                const struct lightq_start *start, int timeout_ms, struct lightq_error *error)
{
    struct lq_group_work work;
    if (partition < LIGHTQ_PARTITION_ANY || !lq_start_is_good(start)) {
        return lq_error_set(error, LIGHTQ_EINVAL, "not a partition, or not a place in a log");
    }
    lightq_status status = lq_group_begin(&work, client, topic, group, timeout_ms, error);
    bool all = partition == LIGHTQ_PARTITION_ANY;
    if (status == LIGHTQ_OK && all && start->kind == LIGHTQ_START_OFFSET && work.partition_count > 1) {
        return lq_error_set(error, LIGHTQ_EINVAL, "topic %s has %d partitions: say in which one to go to that offset",
                            topic, work.partition_count);
    }
    Lightq__Wire__Start to = LIGHTQ__WIRE__START__INIT;
    lq_start_put(start, &to);
    int32_t end = status != LIGHTQ_OK ? 0 : all ? work.partition_count : partition + 1;
    for (int32_t i = all ? 0 : partition; status == LIGHTQ_OK && i < end; i++) {
        Lightq__Wire__GroupSeek body = LIGHTQ__WIRE__GROUP_SEEK__INIT;
        void *answer = NULL;
        body.consumer_group = lq_codec_string(group);
        body.to = &to;
        body.timeout_ms = (uint32_t)lq_group_left_ms(&work);
        status = lq_group_ask(&work, i, LQ_MESSAGE_GROUP_SEEK, &body.base, LIGHTQ_OK, &answer);
        lq_codec_free(answer);
    }
    return status;
}
