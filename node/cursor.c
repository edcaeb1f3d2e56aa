/* node/cursor.c - see cursor.h. */
#include "node/cursor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store.h"

#define PEEK_BYTES_MAX (1024u * 1024)
#define READ_BYTES_MAX (512u * 1024) /* read ahead from disk, unless one entry alone is larger */

/* Pinned until its callback, also when its cursor is gone. */
struct lq_cursor_read {
    struct lq_rlog_read read;
    struct lq_service *service;
    struct lq_cursor *cursor; /* NULL: nobody waits any more */
};

static struct lq_rlog *log_of(const struct lq_cursor *cursor)
{
    struct lq_group *group = lq_partition_group(cursor->partition);
    return group == NULL ? NULL : lq_group_log(group);
}

static void let_go(struct lq_cursor *cursor)
{
    for (; cursor->at < cursor->count; cursor->at++) {
        lq_slab_unref(cursor->refs[cursor->at].slab);
    }
    if (cursor->refs != cursor->peeked) {
        free(cursor->refs);
    }
    cursor->refs = cursor->peeked;
    cursor->at = cursor->count = 0;
    cursor->service->memory_used -= cursor->held_bytes;
    cursor->held_bytes = 0;
}

void lq_cursor_init(struct lq_cursor *cursor, struct lq_service *service, struct lq_partition *partition,
                    uint64_t index, void (*wake)(void *owner), void *owner)
{
    memset(cursor, 0, sizeof *cursor);
    cursor->service = service;
    cursor->partition = partition;
    cursor->wake = wake;
    cursor->owner = owner;
    cursor->next_index = index;
    cursor->refs = cursor->peeked;
}

void lq_cursor_seek(struct lq_cursor *cursor, uint64_t index)
{
    let_go(cursor);
    if (cursor->read != NULL) {
        cursor->read->cursor = NULL;
        cursor->read = NULL;
    }
    cursor->failed = LIGHTQ_OK;
    cursor->next_index = index;
}

void lq_cursor_deinit(struct lq_cursor *cursor)
{
    lq_cursor_seek(cursor, 0);
}

void lq_cursor_rest(struct lq_cursor *cursor)
{
    if (cursor->refs == cursor->peeked) {
        let_go(cursor);
    }
}

/* Keeps what was read. False: no memory. */
static bool keep(struct lq_cursor *cursor, const struct lq_rlog_read *read)
{
    struct lq_entry_ref *refs = malloc(read->count * sizeof *refs);
    if (refs == NULL) {
        return false;
    }
    memcpy(refs, read->refs, read->count * sizeof *refs);
    for (size_t i = 0; i < read->count; i++) {
        (void)lq_slab_ref(refs[i].slab);
    }
    cursor->refs = refs;
    cursor->at = 0;
    cursor->count = read->count;
    cursor->generation = read->generation;
    cursor->held_bytes = read->slab->size;
    cursor->service->memory_used += cursor->held_bytes;
    return true;
}

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    struct lq_cursor_read *request = (struct lq_cursor_read *)read;
    struct lq_cursor *cursor = request->cursor;
    struct lq_service *service = request->service;
    service->memory_used -= READ_BYTES_MAX;
    if (cursor != NULL) {
        assert(cursor->read == request && cursor->count == 0);
        cursor->read = NULL;
        if (status == LIGHTQ_OK && read->count > 0 && !keep(cursor, read)) {
            status = LIGHTQ_ENOMEM;
        }
        cursor->failed = status == LIGHTQ_ECANCELED ? LIGHTQ_OK : status; /* canceled: it is read again */
    }
    if (status == LIGHTQ_EIO || status == LIGHTQ_ECORRUPT) {
        service->counters->reads_failed++;
    }
    free(request);
    if (cursor != NULL) {
        cursor->wake(cursor->owner);
    }
}

static lightq_status start_read(struct lq_cursor *cursor, struct lq_rlog *log)
{
    struct lq_service *service = cursor->service;
    if (service->memory_used + READ_BYTES_MAX > service->options->memory.requests) {
        return LIGHTQ_ENOMEM;
    }
    struct lq_cursor_read *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return LIGHTQ_ENOMEM;
    }
    request->service = service;
    request->cursor = cursor;
    request->read = (struct lq_rlog_read){.index = cursor->next_index, .bytes_max = READ_BYTES_MAX, .cb = on_read};
    lightq_status status = lq_rlog_read(log, &request->read);
    if (status != LIGHTQ_OK) {
        free(request);
        return status == LIGHTQ_EBUSY ? LIGHTQ_ENOMEM : status; /* EBUSY would say that a read is under way */
    }
    service->memory_used += READ_BYTES_MAX;
    service->counters->reads_disk++;
    cursor->read = request;
    return LIGHTQ_EBUSY;
}

/* Gets entries from the cursor on. OK: there is at least one. */
static lightq_status fill(struct lq_cursor *cursor, struct lq_rlog *log)
{
    let_go(cursor);
    if (cursor->failed != LIGHTQ_OK) {
        lightq_status failed = cursor->failed;
        cursor->failed = LIGHTQ_OK;
        return failed;
    }
    if (cursor->next_index < lq_rlog_first(log)) {
        return LIGHTQ_EOUTOFRANGE;
    }
    cursor->count = lq_rlog_peek(log, cursor->next_index, PEEK_BYTES_MAX, LQ_CURSOR_PEEK_MAX, cursor->peeked);
    if (cursor->count == 0) {
        return start_read(cursor, log);
    }
    cursor->generation = lq_rlog_generation(log);
    cursor->service->counters->reads_memory += cursor->count;
    return LIGHTQ_OK;
}

lightq_status lq_cursor_next(struct lq_cursor *cursor, struct lq_entry *entry, struct lq_slab **slab)
{
    struct lq_rlog *log = log_of(cursor);
    if (log == NULL || cursor->next_index > lq_partition_applied(cursor->partition)) {
        return LIGHTQ_ENOTFOUND;
    }
    if (cursor->read != NULL) {
        return LIGHTQ_EBUSY;
    }
    /* What was cut since is not what was read: look again. */
    if (cursor->at == cursor->count || cursor->generation != lq_rlog_generation(log)) {
        lightq_status status = fill(cursor, log);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    const struct lq_entry_ref *ref = &cursor->refs[cursor->at];
    uint64_t size;
    lightq_status status = lq_entry_decode(lq_entry_ref_bytes(ref), ref->size, false, entry, &size, NULL);
    if (status == LIGHTQ_OK && entry->index != cursor->next_index) {
        status = LIGHTQ_ECORRUPT;
    }
    *slab = ref->slab;
    return status;
}

void lq_cursor_step(struct lq_cursor *cursor)
{
    assert(cursor->at < cursor->count);
    lq_slab_unref(cursor->refs[cursor->at].slab);
    cursor->at++;
    cursor->next_index++;
    if (cursor->at == cursor->count) {
        let_go(cursor);
    }
}

lightq_status lq_cursor_give_up(const struct lq_cursor *cursor, lightq_status status, const char **why)
{
    struct lq_group *group = lq_partition_group(cursor->partition);
    struct lq_group_status replicas = {0};
    if (group != NULL) {
        lq_group_unreadable(group, status, cursor->next_index);
        lq_group_status(group, &replicas);
    }
    if (replicas.replica_count == 1) {
        *why = "the messages cannot be read, and there is no other replica";
        return status;
    }
    *why = "the messages cannot be read on this node";
    return LIGHTQ_ESTOPPED;
}
