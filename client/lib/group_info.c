/* client/lib/group_info.c - looking at groups, of lightq/group.h: what the partitions say of one or all groups is put
 * together. Any thread. */
#include <stdio.h>
#include <string.h>

#include <lightq/admin.h>

#include "client/lib/error.h"
#include "client/lib/group.h"
#include "client/lib/result.h"

#define LIST_PAGES_MAX 65536 /* a server that always says "more" is not believed for ever */

static void copy_id(char text[33], const ProtobufCBinaryData *field)
{
    struct lq_id id;
    text[0] = '\0';
    if (lq_codec_id(field, &id) == LIGHTQ_OK) {
        lq_id_format(&id, text);
    }
}

static int64_t offset_of(uint64_t offset)
{
    return offset <= INT64_MAX ? (int64_t)offset : LIGHTQ_OFFSET_UNKNOWN;
}

/* ---- the list */

/* The place of group @id called @name in @list, which is ordered by name; *found: it is there. */
static size_t place_of(const struct lightq_group_list *list, const char *name, const char *id, bool *found)
{
    size_t at = 0;
    for (*found = false; at < list->count; at++) {
        int order = strcmp(list->groups[at].name, name);
        *found = order == 0 && strcmp(list->groups[at].id, id) == 0;
        if (order > 0 || *found) {
            break;
        }
    }
    return at;
}

/* Adds one group of one partition. False: out of memory. */
static bool add_summary(struct lightq_group_list *list, const Lightq__Wire__GroupSummary *from)
{
    struct lightq_group_info made = {.partition_count = 1};
    bool found;
    copy_id(made.id, &from->group_id);
    size_t at = place_of(list, from->name, made.id, &found);
    struct lightq_group_info *groups = (struct lightq_group_info *)(uintptr_t)list->groups;
    if (found) {
        groups[at].partition_count++;
        return true;
    }
    made.name = lq_result_text(list, from->name);
    made.options.mode =
        from->mode == LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE ? LIGHTQ_GROUP_PIPELINE : LIGHTQ_GROUP_SUBSCRIBER;
    made.options.paused = from->paused;
    struct lightq_group_info *more = lq_result_alloc(list, list->count + 1, sizeof *more);
    if (more == NULL || made.name == NULL) {
        return false;
    }
    if (list->count > 0) {
        memcpy(more, groups, at * sizeof *more);
        memcpy(more + at + 1, groups + at, (list->count - at) * sizeof *more);
    }
    more[at] = made;
    list->groups = more;
    list->count++;
    return true;
}

/* The groups of one partition, page by page. */
static lightq_status add_partition(struct lightq_group_list *list, const struct lq_group_work *work, int32_t partition)
{
    char after[LQ_NAME_BYTES_MAX + 1] = "";
    bool more = true;
    lightq_status status = LIGHTQ_OK;
    for (int page = 0; status == LIGHTQ_OK && more && page < LIST_PAGES_MAX; page++) {
        Lightq__Wire__GroupList body = LIGHTQ__WIRE__GROUP_LIST__INIT;
        void *answer = NULL;
        body.after = after;
        status = lq_group_ask(work, partition, LQ_MESSAGE_GROUP_LIST, &body.base, LIGHTQ_OK, &answer);
        const Lightq__Wire__GroupListAnswer *found = answer;
        more = status == LIGHTQ_OK && found->more && found->n_groups > 0;
        for (size_t i = 0; status == LIGHTQ_OK && i < found->n_groups; i++) {
            status = add_summary(list, found->groups[i]) ? LIGHTQ_OK : lq_error_plain(work->error, LIGHTQ_ENOMEM);
        }
        if (more) {
            snprintf(after, sizeof after, "%s", found->groups[found->n_groups - 1]->name);
        }
        lq_codec_free(answer);
    }
    return status;
}

lightq_status lightq_group_list(struct lightq *client, const char *topic, int timeout_ms,
                                struct lightq_group_list **list, struct lightq_error *error)
{
    struct lq_group_work work;
    lightq_status status = lq_group_begin(&work, client, topic, NULL, timeout_ms, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lightq_group_list *made = lq_result_new(sizeof *made);
    status = made != NULL ? LIGHTQ_OK : lq_error_plain(error, LIGHTQ_ENOMEM);
    for (int32_t i = 0; status == LIGHTQ_OK && i < work.partition_count; i++) {
        status = add_partition(made, &work, i);
    }
    if (status != LIGHTQ_OK) {
        lightq_result_free(made);
        return status;
    }
    *list = made;
    return LIGHTQ_OK;
}

/* ---- one group */

static const char *state_text(Lightq__Wire__GroupState state)
{
    switch (state) {
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_DELIVERING:
        return "delivering";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_DRAINED:
        return "drained";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_DELAYED:
        return "delayed";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_PAUSED:
        return "paused";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CONSUMER:
        return "no-consumer";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_NO_CREDIT:
        return "no-credit";
    case LIGHTQ__WIRE__GROUP_STATE__GROUP_WINDOW_FULL:
        return "window-full";
    default:
        return "unknown";
    }
}

static bool copy_consumer(void *result, struct lightq_group_consumer *to, const Lightq__Wire__GroupConsumer *from)
{
    *to = (struct lightq_group_consumer){
        .client_id = lq_result_text(result, from->client_id),
        .host = lq_result_text(result, from->host),
        .session = from->session,
        .standby = from->standby,
        .held = from->held,
        .credit = from->credit_messages,
        .position = offset_of(from->position),
    };
    return to->client_id != NULL && to->host != NULL;
}

/* Fills @to from what the partition's leader said. False: out of memory. */
static bool copy_partition(void *result, struct lightq_group_partition *to,
                           const Lightq__Wire__GroupDescribeAnswer *from)
{
    struct lightq_group_consumer *consumers = lq_result_alloc(result, from->n_consumers, sizeof *consumers);
    bool copied = consumers != NULL;
    for (size_t i = 0; copied && i < from->n_consumers; i++) {
        copied = copy_consumer(result, &consumers[i], from->consumers[i]);
    }
    *to = (struct lightq_group_partition){
        .partition = to->partition,
        .status = LIGHTQ_OK,
        .position = offset_of(from->position),
        .start = offset_of(from->log_start),
        .end = offset_of(from->log_end),
        .lag = from->lag,
        .lag_ms = from->lag_ms,
        .state = state_text(from->state),
        .reason = lq_result_text(result, from->reason),
        .unsettled = from->unsettled,
        .held = from->held,
        .returned = from->returned,
        .delayed = from->delayed,
        .redelivered = from->redelivered,
        .settled = from->settled,
        .failed = from->failed,
        .missed = from->missed != NULL ? from->missed->count : 0,
        .dead = from->dead_stored,
        .dead_open = from->dead_open,
        .consumers = consumers,
        .consumer_count = from->n_consumers,
    };
    return copied && to->reason != NULL;
}

/* Asks one partition. One that cannot be asked is described by its status. */
static lightq_status describe(const struct lq_group_work *work, struct lightq_group_info *made,
                              struct lightq_group_partition *partition, struct lightq_error *said)
{
    Lightq__Wire__GroupDescribe body = LIGHTQ__WIRE__GROUP_DESCRIBE__INIT;
    void *answer = NULL;
    int32_t left = work->partition_count - (int32_t)partition->partition; /* time for the others is kept */
    body.consumer_group = lq_codec_string(work->group);
    lightq_status status = lq_group_ask_for(work, (int32_t)partition->partition, LQ_MESSAGE_GROUP_DESCRIBE, &body.base,
                                            LIGHTQ_OK, lq_group_left_ms(work) / left, &answer, said);
    partition->status = status;
    partition->state = "unknown";
    partition->reason = "";
    if (status == LIGHTQ_OK) {
        const Lightq__Wire__GroupDescribeAnswer *found = answer;
        if (made->partition_count++ == 0) {
            copy_id(made->id, &found->group_id);
            lq_group_options_take(found->options, &made->options);
        }
        status = copy_partition(made, partition, found) ? LIGHTQ_OK : LIGHTQ_ENOMEM;
    } else {
        partition->reason = lq_result_text(made, said->text);
        status = partition->reason == NULL ? LIGHTQ_ENOMEM : LIGHTQ_OK;
    }
    lq_codec_free(answer);
    return status;
}

/* No partition knows the group: why not. */
static lightq_status fail_unknown(const struct lq_group_work *work, const struct lightq_group_partition *partitions,
                                  const struct lightq_error *said)
{
    for (int32_t i = 0; i < work->partition_count; i++) {
        if (partitions[i].status != LIGHTQ_ENOTFOUND) {
            return lq_error_set(work->error, said->status, "%s", said->text);
        }
    }
    return lq_error_set(work->error, LIGHTQ_ENOTFOUND, "topic %s has no group %s", work->topic, work->group);
}

lightq_status lightq_group_describe(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                    struct lightq_group_info **info, struct lightq_error *error)
{
    struct lq_group_work work;
    struct lightq_error said, last = {.status = LIGHTQ_OK};
    lightq_status status = lq_group_begin(&work, client, topic, group, timeout_ms, error);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lightq_group_info *made = lq_result_new(sizeof *made);
    struct lightq_group_partition *partitions =
        made != NULL ? lq_result_alloc(made, (size_t)work.partition_count, sizeof *partitions) : NULL;
    if (partitions == NULL || (made->name = lq_result_text(made, group)) == NULL) {
        lightq_result_free(made);
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    made->partitions = partitions;
    made->all_count = (uint32_t)work.partition_count;
    for (int32_t i = 0; status == LIGHTQ_OK && i < work.partition_count; i++) {
        partitions[i].partition = (uint32_t)i;
        status = describe(&work, made, &partitions[i], &said);
        last = partitions[i].status != LIGHTQ_OK && partitions[i].status != LIGHTQ_ENOTFOUND ? said : last;
    }
    if (status != LIGHTQ_OK) {
        lq_error_plain(error, status);
    } else if (made->partition_count == 0) {
        status = fail_unknown(&work, partitions, &last);
    }
    if (status != LIGHTQ_OK) {
        lightq_result_free(made);
        return status;
    }
    *info = made;
    return LIGHTQ_OK;
}
