/* raft/schedule.c - which groups of a shard run when: the list of those with work, the heap of those that wait for a
 * time, and reads that may outlive the group that asked for them. Called by host.c and the files of a group. Loop
 * thread only. */
#include <stdlib.h>

#include "raft/group.h"

/* ---- the list of groups with work ---- */

void lq_group_dirty(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (group->dirty || group->closed) {
        return;
    }
    group->dirty = true;
    group->dirty_next = NULL;
    if (host->dirty_last == NULL) {
        host->dirty_first = group;
    } else {
        host->dirty_last->dirty_next = group;
    }
    host->dirty_last = group;
}

static void undirty(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (!group->dirty) {
        return;
    }
    struct lq_group *before = NULL;
    for (struct lq_group *at = host->dirty_first; at != group; at = at->dirty_next) {
        before = at;
    }
    if (before == NULL) {
        host->dirty_first = group->dirty_next;
    } else {
        before->dirty_next = group->dirty_next;
    }
    if (host->dirty_last == group) {
        host->dirty_last = before;
    }
    group->dirty = false;
}

/* ---- the heap of groups that wait for a time ---- */

static void heap_put(struct lq_host *host, size_t at, struct lq_host_time time)
{
    host->heap[at] = time;
    time.group->heap_at = at;
}

static void heap_up(struct lq_host *host, size_t at)
{
    struct lq_host_time time = host->heap[at];
    for (; at > 1 && host->heap[at / 2].due_ms > time.due_ms; at /= 2) {
        heap_put(host, at, host->heap[at / 2]);
    }
    heap_put(host, at, time);
}

static void heap_down(struct lq_host *host, size_t at)
{
    struct lq_host_time time = host->heap[at];
    for (;;) {
        size_t child = at * 2;
        if (child < host->heap_count && host->heap[child + 1].due_ms < host->heap[child].due_ms) {
            child++;
        }
        if (child > host->heap_count || host->heap[child].due_ms >= time.due_ms) {
            break;
        }
        heap_put(host, at, host->heap[child]);
        at = child;
    }
    heap_put(host, at, time);
}

static void heap_remove(struct lq_group *group)
{
    struct lq_host *host = group->host;
    size_t at = group->heap_at;
    if (at == 0) {
        return;
    }
    group->heap_at = 0;
    struct lq_host_time last = host->heap[host->heap_count--];
    if (last.group != group) {
        heap_put(host, at, last);
        heap_up(host, at);
        heap_down(host, last.group->heap_at);
    }
}

/* The heap holds every group, so that a rearm never allocates. */
static lightq_status heap_reserve(struct lq_host *host)
{
    if (host->heap_count + 1 < host->heap_capacity) {
        return LIGHTQ_OK;
    }
    size_t capacity = host->heap_capacity == 0 ? 16 : host->heap_capacity * 2;
    struct lq_host_time *heap = realloc(host->heap, capacity * sizeof *heap);
    if (heap == NULL) {
        return LIGHTQ_ENOMEM;
    }
    host->heap = heap;
    host->heap_capacity = capacity;
    return LIGHTQ_OK;
}

/* Later times are not written: the group is looked at when its old time comes, and put back (most timers of a follower
 * are put off by the next heartbeat). */
void lq_host_rearm(struct lq_group *group)
{
    uint64_t due = lq_group_due(group);
    struct lq_host *host = group->host;
    if (group->heap_at != 0 && due < host->heap[group->heap_at].due_ms) {
        host->heap[group->heap_at].due_ms = due;
        heap_up(host, group->heap_at);
    }
}

void lq_host_put_off(struct lq_group *group, uint64_t due_ms)
{
    struct lq_host *host = group->host;
    host->heap[group->heap_at].due_ms = due_ms;
    heap_down(host, group->heap_at);
}

lightq_status lq_host_remember(struct lq_group *group)
{
    struct lq_host *host = group->host;
    if (heap_reserve(host) != LIGHTQ_OK) {
        return LIGHTQ_ENOMEM;
    }
    HASH_ADD(hh, host->groups, id, sizeof group->id, group);
    if (group->hh.tbl == NULL) {
        return LIGHTQ_ENOMEM;
    }
    heap_put(host, ++host->heap_count, (struct lq_host_time){.due_ms = LQ_NEVER, .group = group});
    return LIGHTQ_OK;
}

void lq_host_forget(struct lq_group *group)
{
    undirty(group);
    heap_remove(group);
    HASH_DEL(group->host->groups, group);
}

/* ---- reads ---- */

static void unlink_read(struct lq_read *read)
{
    if (read->prev != NULL) {
        read->prev->next = read->next;
    } else if (read->host != NULL) {
        read->host->reads = read->next;
    }
    if (read->next != NULL) {
        read->next->prev = read->prev;
    }
}

static void on_read(struct lq_rlog_read *rlog_read, lightq_status status)
{
    struct lq_read *read = rlog_read->data;
    if (read->host != NULL) {
        unlink_read(read);
        lq_host_now(read->host);
        if (read->group != NULL) {
            read->cb(read->group, read, status);
        }
    }
    free(read);
}

lightq_status lq_host_read(struct lq_group *group, uint64_t index, uint64_t bytes_max, lq_replica_id peer,
                           void (*cb)(struct lq_group *group, struct lq_read *read, lightq_status status),
                           struct lq_read **out)
{
    struct lq_host *host = group->host;
    struct lq_read *read = calloc(1, sizeof *read);
    if (read == NULL) {
        return LIGHTQ_ENOMEM;
    }
    read->host = host;
    read->group = group;
    read->cb = cb;
    read->peer = peer;
    read->read = (struct lq_rlog_read){.index = index, .bytes_max = bytes_max, .cb = on_read, .data = read};
    lightq_status status = lq_rlog_read(group->log, &read->read);
    if (status != LIGHTQ_OK) {
        free(read);
        return status;
    }
    read->next = host->reads;
    if (host->reads != NULL) {
        host->reads->prev = read;
    }
    host->reads = read;
    *out = read;
    return LIGHTQ_OK;
}

/* Reads in flight: nobody waits for them any more. @freed: they will never come back. */
void lq_host_leave_reads(struct lq_host *host, bool freed)
{
    struct lq_read *read = host->reads;
    while (read != NULL) {
        struct lq_read *next = read->next;
        if (freed) {
            free(read);
        } else {
            *read = (struct lq_read){.read = read->read};
        }
        read = next;
    }
    host->reads = NULL;
}
