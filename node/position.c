/* node/position.c - see position.h. */
#include "node/position.h"

#include <string.h>

lightq_status lq_position_resolve(const struct lq_partition *partition, const Lightq__Wire__Start *start,
                                  uint64_t *offset, const char **text)
{
    uint64_t first = lq_partition_start(partition), end_offset = lq_partition_end(partition);
    switch (start == NULL ? LIGHTQ__WIRE__START_KIND__START_FIRST : start->kind) {
    case LIGHTQ__WIRE__START_KIND__START_FIRST:
        *offset = first;
        return LIGHTQ_OK;
    case LIGHTQ__WIRE__START_KIND__START_END:
        *offset = end_offset;
        return LIGHTQ_OK;
    case LIGHTQ__WIRE__START_KIND__START_OFFSET:
        *offset = start->value;
        if (start->value < first || start->value > end_offset) {
            *text = start->value < first ? "the offset is below the first message that is kept"
                                         : "the offset is beyond the end";
            return LIGHTQ_EOUTOFRANGE;
        }
        return LIGHTQ_OK;
    case LIGHTQ__WIRE__START_KIND__START_TIME:
        *offset = first;
        return LIGHTQ_ENOTREADY;
    default:
        *text = "that kind of start is not known here";
        return LIGHTQ_EUNSUPPORTED;
    }
}

lightq_status lq_position_group(const struct lq_partition *partition, const Lightq__Wire__Subscribe *body,
                                const struct lq_cgroup **cgroup, const char **text)
{
    const struct lq_cgroup *found =
        lq_cgroups_find_name(lq_partition_groups(partition), body->consumer_group, strlen(body->consumer_group));
    if (found == NULL) {
        *text = "the partition has no consumer group of that name: create it first";
        return LIGHTQ_ENOTFOUND;
    }
    if (body->generation != 0 && body->generation != found->generation) {
        *text = "the consumer group has been moved";
        return LIGHTQ_EFENCED;
    }
    *cgroup = found;
    return LIGHTQ_OK;
}

lightq_status lq_position_resume(const struct lq_partition *partition, const struct lq_cgroup *cgroup, uint64_t *offset,
                                 const char **text)
{
    *offset = cgroup->settled.floor;
    if (*offset < lq_partition_start(partition)) {
        *text = "messages behind the group's position have been trimmed: go on from a given start, or move the group";
        return LIGHTQ_EOUTOFRANGE;
    }
    return LIGHTQ_OK;
}
