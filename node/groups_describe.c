/* node/groups_describe.c - see groups.h: GROUP_LIST and GROUP_DESCRIBE, from what is applied here and, of a pipeline,
 * from its leases. */
#include <stdlib.h>
#include <string.h>

#include "node/consume.h"
#include "node/dead.h"
#include "node/group_words.h"
#include "node/groups.h"
#include "node/pipeline.h"

#define LISTED_MAX       500  /* groups in one answer */
#define CONSUMERS_MAX    1000 /* in one answer */
#define MICROS_PER_MILLI 1000

static uint64_t lag_of(const struct lq_cgroup *cgroup, uint64_t end)
{
    uint64_t floor = cgroup->settled.floor;
    return floor >= end ? 0 : lq_settled_unsettled(&cgroup->settled, floor, end);
}

/* ---- consumers */

struct listing {
    struct lq_service *service;
    Lightq__Wire__GroupConsumer *consumers; /* CONSUMERS_MAX, or NULL: only counted */
    Lightq__Wire__GroupConsumer **at;
    struct lq_address_text *hosts;
    uint32_t count;
};

/* The next one; NULL: it is only counted. */
static Lightq__Wire__GroupConsumer *add(struct listing *listing, const struct lq_session *session,
                                        uint64_t subscription)
{
    uint32_t number = listing->count++;
    if (listing->consumers == NULL || number >= CONSUMERS_MAX) {
        return NULL;
    }
    Lightq__Wire__GroupConsumer *consumer = &listing->consumers[number];
    listing->at[number] = consumer;
    lightq__wire__group_consumer__init(consumer);
    lq_session_address(listing->service->sessions, session, &listing->hosts[number]);
    consumer->session = session->number;
    consumer->subscription = subscription;
    consumer->client_id = lq_codec_string(session->client_id);
    consumer->host = listing->hosts[number].text;
    return consumer;
}

static void add_subscriber(void *data, const struct lq_consume_view *view)
{
    Lightq__Wire__GroupConsumer *consumer = add(data, view->session, view->subscription);
    if (consumer != NULL) {
        consumer->standby = view->standby;
        consumer->credit_messages = view->credit_messages;
        consumer->credit_bytes = view->credit_bytes;
        consumer->position = view->position;
    }
}

static void list_consumers(struct listing *listing, uint64_t group, const struct lq_cgroup *cgroup)
{
    struct lq_service *service = listing->service;
    struct lq_leases *leases = lq_pipeline_leases(service->pipeline, group, cgroup->number);
    if (cgroup->options.mode == LQ_CGROUP_SUBSCRIBER) {
        lq_consume_each(service->consume, group, cgroup->number, add_subscriber, listing);
    }
    for (uint32_t i = 0; leases != NULL && i < lq_leases_consumer_limit(leases); i++) {
        struct lq_lease_consumer_status status;
        if (!lq_leases_consumer(leases, i, &status)) {
            continue;
        }
        const struct lq_member *member = status.owner;
        Lightq__Wire__GroupConsumer *consumer = add(listing, lq_member_session(member), lq_member_subscription(member));
        if (consumer != NULL) {
            consumer->standby = !status.active;
            consumer->held = status.held;
            consumer->credit_messages = status.credit_messages;
            consumer->credit_bytes = status.credit_bytes;
        }
    }
}

/* ---- list */

static int by_name(const void *a, const void *b)
{
    const struct lq_cgroup *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* The groups behind @after by name. NULL: no memory; the caller frees. */
static const struct lq_cgroup **sorted(const struct lq_cgroups *cgroups, const char *after, size_t *count)
{
    const struct lq_cgroup **at = malloc((cgroups->count + 1) * sizeof *at);
    *count = 0;
    for (size_t i = 0; at != NULL && i < cgroups->count; i++) {
        if (strcmp(cgroups->at[i]->name, after) > 0) {
            at[(*count)++] = cgroups->at[i];
        }
    }
    if (at != NULL) {
        qsort(at, *count, sizeof at[0], by_name);
    }
    return at;
}

struct lists {
    Lightq__Wire__GroupSummary summaries[LISTED_MAX];
    Lightq__Wire__GroupSummary *at[LISTED_MAX];
};

/* A subscriber of a group of the list, or of another. */
static void count_subscriber(void *data, const struct lq_consume_view *view)
{
    Lightq__Wire__GroupListAnswer *body = data;
    for (size_t i = 0; i < body->n_groups; i++) {
        if (body->groups[i]->group_number == view->cgroup) {
            body->groups[i]->consumers++;
            return;
        }
    }
}

static void fill_list(struct lq_service *service, uint64_t group, const struct lq_partition *partition,
                      const struct lq_cgroup **groups, struct lists *lists, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct lq_cgroup *cgroup = groups[i];
        Lightq__Wire__GroupSummary *summary = lists->at[i] = &lists->summaries[i];
        struct listing listing = {.service = service};
        if (cgroup->options.mode == LQ_CGROUP_PIPELINE) {
            list_consumers(&listing, group, cgroup);
        }
        lightq__wire__group_summary__init(summary);
        summary->name = lq_codec_string(cgroup->name);
        summary->group_id = lq_codec_bytes_of(&cgroup->id);
        summary->mode = (Lightq__Wire__GroupMode)cgroup->options.mode;
        summary->paused = cgroup->options.paused;
        summary->group_number = cgroup->number;
        summary->position = cgroup->settled.floor;
        summary->lag = lag_of(cgroup, lq_partition_end(partition));
        summary->consumers = listing.count;
    }
}

void lq_groups_list(struct lq_service *service, const struct lq_request *in)
{
    const Lightq__Wire__GroupList *asked = in->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    const char *text = "";
    struct lq_leader_hint hint;
    Lightq__Wire__GroupListAnswer body = LIGHTQ__WIRE__GROUP_LIST_ANSWER__INIT;
    const struct lq_cgroup **groups = NULL;
    struct lists *lists = NULL;
    size_t count = 0;
    lightq_status status =
        lq_service_lead(service, &asked->topic, asked->partition, in->envelope->group, &placed, &partition, &text);
    uint64_t group = placed == NULL ? in->envelope->group : placed->group;
    if (status == LIGHTQ_OK) {
        groups = sorted(lq_partition_groups(partition), asked->after, &count);
        lists = malloc(sizeof *lists);
        status = groups == NULL || lists == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
        text = status == LIGHTQ_OK ? "" : lightq_status_text(status);
    }
    if (status == LIGHTQ_OK) {
        body.more = count > LISTED_MAX;
        body.n_groups = body.more ? LISTED_MAX : count;
        body.groups = lists->at;
        fill_list(service, group, partition, groups, lists, body.n_groups);
        lq_consume_each(service->consume, group, 0, count_subscriber, &body);
    }
    if (status == LIGHTQ_ENOTLEADER) {
        lq_service_hint(service, group, &hint);
        body.leader = &hint.leader;
    }
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    lq_session_answer(service->sessions, in->session, LQ_MESSAGE_GROUP_LIST_ANSWER, in->envelope->correlation, group,
                      &body.base);
    free(groups);
    free(lists);
}

/* ---- describe */

struct description {
    struct lq_group_words words;
    Lightq__Wire__GroupConsumer consumers[CONSUMERS_MAX];
    Lightq__Wire__GroupConsumer *at[CONSUMERS_MAX];
    struct lq_address_text hosts[CONSUMERS_MAX];
};

static const char *reason_of(Lightq__Wire__GroupState state)
{
    switch (state) {
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_DELIVERING:
        return "messages are being delivered";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_DRAINED:
        return "everything there is has been delivered";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_DELAYED:
        return "everything there is has been delivered; some is to be delivered again when its delay is over";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_PAUSED:
        return "the group is paused";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CONSUMER:
        return "the group has no consumer in this partition";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CREDIT:
        return "no consumer takes more messages at the moment";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_WINDOW_FULL:
        return "as many messages as max.unsettled allows are delivered and not settled";
    default:
        return "";
    }
}

static Lightq__Wire__GroupState state_of_leases(struct lq_leases *leases, uint64_t end, uint64_t now_us)
{
    struct lq_lease_offer offer;
    uint64_t due_us;
    switch (lq_leases_next(leases, end, now_us, &offer, &due_us)) {
    case LQ_LEASE_OFFER:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_DELIVERING;
    case LQ_LEASE_END:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_DRAINED;
    case LQ_LEASE_DELAYED:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_DELAYED;
    case LQ_LEASE_PAUSED:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_PAUSED;
    case LQ_LEASE_NO_CONSUMER:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CONSUMER;
    case LQ_LEASE_NO_CREDIT:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CREDIT;
    case LQ_LEASE_WINDOW:
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_WINDOW_FULL;
    }
    return LIGHTQ__WIRE__GROUP_STATE__GROUP_STATE_UNKNOWN;
}

static Lightq__Wire__GroupState state_without_leases(const struct lq_cgroup *cgroup,
                                                     const Lightq__Wire__GroupDescribeAnswer *body)
{
    if (cgroup->options.paused) {
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_PAUSED;
    }
    if (body->consumer_count == 0) {
        return LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CONSUMER;
    }
    return body->lag == 0 ? LIGHTQ__WIRE__GROUP_STATE__GROUP_DRAINED : LIGHTQ__WIRE__GROUP_STATE__GROUP_DELIVERING;
}

static void fill_leases(struct lq_leases *leases, uint64_t now_us, Lightq__Wire__GroupDescribeAnswer *body)
{
    struct lq_leases_status status;
    lq_leases_status(leases, &status);
    body->unsettled = status.unsettled;
    body->held = status.held;
    body->settling = status.settling;
    body->returned = status.returned;
    body->delayed = status.delayed;
    body->kept_back = status.kept_back;
    body->redelivered = status.redelivered;
    if (status.held > 0 && status.held_by != NULL) {
        body->held_first = status.held_first;
        body->held_ms_left = status.held_until_us > now_us ? (status.held_until_us - now_us) / MICROS_PER_MILLI : 0;
        body->held_by = lq_codec_string(lq_member_session(status.held_by)->client_id);
    }
}

static void fill_group(struct lq_service *service, uint64_t group, const struct lq_partition *partition,
                       const struct lq_cgroup *cgroup, struct description *description,
                       Lightq__Wire__GroupDescribeAnswer *body)
{
    struct lq_leases *leases = lq_pipeline_leases(service->pipeline, group, cgroup->number);
    uint64_t now_us = lq_clock_monotonic_us(service->clock);
    uint64_t wall_ms = lq_clock_wall_ms(service->clock);
    struct listing listing = {
        .service = service, .consumers = description->consumers, .at = description->at, .hosts = description->hosts};
    lq_group_words_fill(&description->words, cgroup);
    list_consumers(&listing, group, cgroup);
    body->name = lq_codec_string(cgroup->name);
    body->group_id = lq_codec_bytes_of(&cgroup->id);
    body->group_number = cgroup->number;
    body->generation = cgroup->generation;
    body->options = &description->words.options;
    body->start = &description->words.start;
    body->missed = cgroup->missed_count > 0 ? &description->words.missed : NULL;
    body->position = cgroup->settled.floor;
    body->log_start = lq_partition_start(partition);
    body->log_end = lq_partition_end(partition);
    body->lag = lag_of(cgroup, body->log_end);
    body->lag_ms = body->lag == 0 || wall_ms < cgroup->progress_ms ? 0 : wall_ms - cgroup->progress_ms;
    body->settled = cgroup->settled_count;
    body->failed = cgroup->failed_count;
    body->dead_stored = cgroup->dead.done;
    body->dead_open = cgroup->dead.next - cgroup->dead.done;
    body->dead_reason =
        lq_codec_string(body->dead_open == 0 ? "" : lq_dead_reason(service->dead, group, cgroup->number));
    body->unsettled = cgroup->settled.holes;
    body->consumer_count = listing.count;
    body->n_consumers = listing.count < CONSUMERS_MAX ? listing.count : CONSUMERS_MAX;
    body->consumers = description->at;
    body->state = state_without_leases(cgroup, body);
    if (leases != NULL) {
        body->state = state_of_leases(leases, body->log_end, now_us);
        fill_leases(leases, now_us, body);
    }
    body->reason = lq_codec_string(reason_of(body->state));
}

void lq_groups_describe(struct lq_service *service, const struct lq_request *in)
{
    const Lightq__Wire__GroupDescribe *asked = in->body;
    const struct lq_catalog_partition *placed = NULL;
    struct lq_partition *partition = NULL;
    const char *text = "";
    struct lq_leader_hint hint;
    Lightq__Wire__GroupDescribeAnswer body = LIGHTQ__WIRE__GROUP_DESCRIBE_ANSWER__INIT;
    struct description *description = NULL;
    const struct lq_cgroup *cgroup = NULL;
    lightq_status status =
        lq_service_lead(service, &asked->topic, asked->partition, in->envelope->group, &placed, &partition, &text);
    uint64_t group = placed == NULL ? in->envelope->group : placed->group;
    if (status == LIGHTQ_OK) {
        cgroup =
            lq_cgroups_find_name(lq_partition_groups(partition), asked->consumer_group, strlen(asked->consumer_group));
        status = cgroup == NULL ? LIGHTQ_ENOTFOUND : LIGHTQ_OK;
        text = cgroup == NULL ? "the partition has no consumer group of that name" : "";
    }
    if (status == LIGHTQ_OK && (description = malloc(sizeof *description)) == NULL) {
        status = LIGHTQ_ENOMEM;
        text = lightq_status_text(status);
    }
    if (status == LIGHTQ_OK) {
        fill_group(service, group, partition, cgroup, description, &body);
    }
    if (status == LIGHTQ_ENOTLEADER) {
        lq_service_hint(service, group, &hint);
        body.leader = &hint.leader;
    }
    body.status = (uint32_t)status;
    body.text = lq_codec_string(text);
    lq_session_answer(service->sessions, in->session, LQ_MESSAGE_GROUP_DESCRIBE_ANSWER, in->envelope->correlation,
                      group, &body.base);
    free(description);
}
