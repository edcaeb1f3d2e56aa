/* client/cli/print_group.c - see print_group.h. */
#include "client/cli/print_group.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/cli/print.h"

#define MS_PER_S   1000.0
#define CELL_BYTES 32

static const char *mode_text(enum lightq_group_mode mode)
{
    return mode == LIGHTQ_GROUP_PIPELINE ? "pipeline" : "subscriber";
}

void print_group_done(bool json, const char *what, const char *topic, const char *group)
{
    if (json) {
        print_object(json_pack("{s:s, s:s, s:b}", "topic", topic, "group", group, what, 1));
    } else {
        printf("group %s of topic %s %s\n", group, topic, what);
    }
}

void print_group_list(bool json, const char *topic, const struct lightq_group_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct lightq_group_info *group = &list->groups[i];
        if (json) {
            print_object(json_pack("{s:s, s:s, s:s, s:s, s:b, s:I}", "group", group->name, "topic", topic, "id",
                                   group->id, "mode", mode_text(group->options.mode), "paused", group->options.paused,
                                   "partitions", (json_int_t)group->partition_count));
        } else {
            printf("%s\t%s\t%u partitions%s\n", group->name, mode_text(group->options.mode), group->partition_count,
                   group->options.paused ? "\tpaused" : "");
        }
    }
}

/* ---- JSON */

static json_t *consumer_object(const struct lightq_group_consumer *consumer)
{
    return json_pack("{s:s, s:s, s:I, s:b, s:I, s:I, s:I}", "consumer", consumer->client_id, "host", consumer->host,
                     "session", (json_int_t)consumer->session, "standby", consumer->standby, "held",
                     (json_int_t)consumer->held, "credit", (json_int_t)consumer->credit, "position",
                     (json_int_t)consumer->position);
}

static json_t *partition_object(const struct lightq_group_partition *partition)
{
    if (partition->status != LIGHTQ_OK) {
        return json_pack("{s:I, s:s, s:s}", "partition", (json_int_t)partition->partition, "status",
                         lightq_status_name(partition->status), "reason", partition->reason);
    }
    json_t *consumers = json_array();
    for (size_t i = 0; i < partition->consumer_count; i++) {
        json_array_append_new(consumers, consumer_object(&partition->consumers[i]));
    }
    json_t *object = json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}",
                               "partition", (json_int_t)partition->partition, "status", "OK", "position",
                               (json_int_t)partition->position, "start", (json_int_t)partition->start, "end",
                               (json_int_t)partition->end, "lag", (json_int_t)partition->lag, "lag_ms",
                               (json_int_t)partition->lag_ms, "state", partition->state, "reason", partition->reason,
                               "unsettled", (json_int_t)partition->unsettled, "held", (json_int_t)partition->held,
                               "returned", (json_int_t)partition->returned, "delayed", (json_int_t)partition->delayed,
                               "redelivered", (json_int_t)partition->redelivered, "consumers", consumers);
    if (object != NULL) {
        json_object_set_new(object, "settled", json_integer((json_int_t)partition->settled));
        json_object_set_new(object, "failed", json_integer((json_int_t)partition->failed));
        json_object_set_new(object, "missed", json_integer((json_int_t)partition->missed));
        json_object_set_new(object, "dead", json_integer((json_int_t)partition->dead));
        json_object_set_new(object, "dead_open", json_integer((json_int_t)partition->dead_open));
    }
    return object;
}

static json_t *group_object(const char *topic, const struct lightq_group_info *info)
{
    json_t *partitions = json_array();
    json_t *backoff = json_array();
    for (uint32_t i = 0; i < info->all_count; i++) {
        json_array_append_new(partitions, partition_object(&info->partitions[i]));
    }
    for (uint32_t i = 0; i < info->options.backoff_count; i++) {
        json_array_append_new(backoff, json_integer((json_int_t)info->options.backoff_ms[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:o, s:o}", "group", info->name, "topic",
                     topic, "id", info->id, "mode", mode_text(info->options.mode), "exclusive", info->options.exclusive,
                     "key_ordered", info->options.key_ordered, "paused", info->options.paused, "ack_wait_ms",
                     (json_int_t)info->options.ack_wait_ms, "max_deliver", (json_int_t)info->options.max_deliver,
                     "max_unsettled", (json_int_t)info->options.max_unsettled, "backoff_ms", backoff, "partitions",
                     partitions);
}

/* ---- text */

static void print_row(const char *topic, const char *group, const struct lightq_group_partition *partition,
                      const char *consumer, const char *host)
{
    char lag[CELL_BYTES];
    snprintf(lag, sizeof lag, "%.1fs", (double)partition->lag_ms / MS_PER_S);
    printf("%-16s %-16s %-9u %12" PRId64 " %12" PRId64 " %10" PRIu64 " %9s %9" PRIu64 " %11" PRIu64 " %-20s %s\n",
           group, topic, partition->partition, partition->position, partition->end, partition->lag, lag,
           partition->unsettled, partition->redelivered, consumer, host);
}

static void print_partition(const char *topic, const char *group, const struct lightq_group_partition *partition)
{
    if (partition->status != LIGHTQ_OK) {
        printf("%-16s %-16s %-9u %12s %12s %10s %9s %9s %11s %-20s %s\n", group, topic, partition->partition, "-", "-",
               "-", "-", "-", "-", lightq_status_name(partition->status), "-");
        return;
    }
    for (size_t i = 0; i < partition->consumer_count; i++) {
        print_row(topic, group, partition, partition->consumers[i].client_id, partition->consumers[i].host);
    }
    if (partition->consumer_count == 0) {
        print_row(topic, group, partition, "-", "-");
    }
}

void print_group(bool json, const char *topic, const struct lightq_group_info *info)
{
    if (json) {
        print_object(group_object(topic, info));
        return;
    }
    printf("%-16s %-16s %-9s %12s %12s %10s %9s %9s %11s %-20s %s\n", "GROUP", "TOPIC", "PARTITION", "POSITION", "END",
           "LAG", "LAG-TIME", "UNSETTLED", "REDELIVERED", "CONSUMER", "HOST");
    for (uint32_t i = 0; i < info->all_count; i++) {
        print_partition(topic, info->name, &info->partitions[i]);
    }
    for (uint32_t i = 0; i < info->all_count; i++) {
        const struct lightq_group_partition *partition = &info->partitions[i];
        if (partition->reason[0] != '\0') {
            printf("partition %u: %s\n", partition->partition, partition->reason);
        }
    }
}
