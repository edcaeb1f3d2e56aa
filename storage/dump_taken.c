/* storage/dump_taken.c - what the journals' records, taken in their order, say of each group (storage/dump_private.h).
 * Called by storage/dump_journal.c, which has judged them, and storage/dump_group.c, which looks for it in the logs. */
#include <string.h>

#include "storage/array.h"
#include "storage/dump_private.h"

/* ---- groups ---- */

static size_t group_search(const struct lq_dump *dump, uint64_t group)
{
    size_t low = 0;
    size_t high = dump->group_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dump->groups[middle].group < group) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct lq_dump_group *lq_dump_group_find(struct lq_dump *dump, uint64_t group, bool make)
{
    size_t i = group_search(dump, group);
    if (i < dump->group_count && dump->groups[i].group == group) {
        return &dump->groups[i];
    }
    if (!make ||
        !lq_array_reserve((void **)&dump->groups, &dump->group_capacity, dump->group_count + 1, sizeof *dump->groups)) {
        return NULL;
    }
    memmove(dump->groups + i + 1, dump->groups + i, (dump->group_count - i) * sizeof *dump->groups);
    dump->group_count++;
    dump->groups[i] = (struct lq_dump_group){.group = group};
    return &dump->groups[i];
}

const struct lq_dump_view *lq_dump_group_view(const struct lq_dump_group *group, uint64_t index)
{
    size_t low = 0;
    size_t high = group->view_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (group->views[middle].entry.index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < group->view_count && group->views[low].entry.index == index ? &group->views[low] : NULL;
}

/* Forgets what journals hold from @index on. */
static void views_cut(struct lq_dump_group *group, uint64_t index)
{
    while (group->view_count > 0 && group->views[group->view_count - 1].entry.index >= index) {
        group->view_count--;
    }
}

/* What older files hold is in the synced segments too, and is not looked for here. */
static void views_drop_files(struct lq_dump_group *group, uint64_t need)
{
    size_t kept = 0;
    for (size_t i = 0; i < group->view_count; i++) {
        if (group->views[i].number >= need) {
            group->views[kept++] = group->views[i];
        }
    }
    group->view_count = kept;
}

/* The sound ones of a record's entries. */
static bool views_add(struct lq_dump_group *group, const struct lq_record *record, const struct lq_dump_view *views,
                      size_t count)
{
    views_cut(group, record->fields[0]);
    if (!lq_array_reserve((void **)&group->views, &group->view_capacity, group->view_count + count,
                          sizeof *group->views)) {
        return false;
    }
    if (count > 0) {
        memcpy(group->views + group->view_count, views, count * sizeof *views);
    }
    group->view_count += count;
    return true;
}

static void group_reset(struct lq_dump_group *group, uint32_t incarnation, bool alive)
{
    group->incarnation = incarnation;
    group->alive = alive;
    group->watermark = 0;
    group->trim = 0;
    group->cut = 0;
    group->install_index = 0;
    group->install_number = 0;
    group->view_count = 0;
}

static void take_snapshot(struct lq_dump_group *group, const struct lq_record *record)
{
    if (group->incarnation != record->incarnation) {
        group_reset(group, record->incarnation, true);
    }
    group->alive = true;
    group->seen = true;
    group->watermark = record->fields[2];
    group->trim = record->fields[3];
    group->cut = record->fields[4];
    group->install_index = record->fields[5];
    group->install_number = record->fields[6];
    views_drop_files(group, record->fields[7]);
}

static void take_change(struct lq_dump_group *group, const struct lq_record *record)
{
    const uint64_t *fields = record->fields;
    switch (record->type) {
    case LQ_RECORD_WATERMARK:
        group->watermark = fields[0];
        break;
    case LQ_RECORD_CUT_BEGIN:
        group->cut = fields[0];
        if (fields[0] > 0 && group->watermark >= fields[0]) {
            group->watermark = fields[0] - 1;
        }
        views_cut(group, fields[0]);
        break;
    case LQ_RECORD_CUT_DONE:
        group->cut = 0;
        break;
    case LQ_RECORD_INSTALL_BEGIN:
        group->install_index = fields[0];
        group->install_number = fields[1];
        break;
    case LQ_RECORD_INSTALL_DONE:
        group->cut = 0;
        group->install_index = 0;
        group->install_number = 0;
        group->view_count = 0;
        group->watermark = fields[0];
        group->trim = fields[0];
        break;
    case LQ_RECORD_TRIM:
        group->trim = fields[0];
        break;
    default: /* nothing that the log's content has to fit */
        break;
    }
}

bool lq_dump_take(struct lq_dump *dump, unsigned shard, const struct lq_record *record,
                  const struct lq_dump_view *views, size_t count)
{
    struct lq_dump_group *group = lq_dump_group_find(dump, record->group, true);
    if (group == NULL) {
        return false;
    }
    group->shard = shard;
    switch (record->type) {
    case LQ_RECORD_GROUP:
        take_snapshot(group, record);
        return true;
    case LQ_RECORD_KNOWN: /* says nothing of whether it is alive: a GROUP record does */
        return true;
    case LQ_RECORD_CREATED:
        group_reset(group, record->incarnation, true);
        return true;
    default:
        break;
    }
    if (!group->alive || group->incarnation != record->incarnation) {
        return true;
    }
    if (record->type == LQ_RECORD_DESTROYED) {
        group_reset(group, record->incarnation, false);
    } else if (record->type == LQ_RECORD_ENTRIES) {
        return views_add(group, record, views, count);
    } else {
        take_change(group, record);
    }
    return true;
}

void lq_dump_snapshot_begin(struct lq_dump *dump)
{
    for (size_t i = 0; i < dump->group_count; i++) {
        dump->groups[i].seen = false;
    }
}

void lq_dump_snapshot_end(struct lq_dump *dump, unsigned shard)
{
    for (size_t i = 0; i < dump->group_count; i++) {
        struct lq_dump_group *group = &dump->groups[i];
        group->alive = group->alive && (group->seen || group->shard != shard);
    }
}
