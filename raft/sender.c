/* raft/sender.c - see sender.h. */
#include "raft/sender.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "raft/frame.h"

#define ARENA_BYTES (64u * 1024)
/* Up to here an entry costs less to copy than to count its slab's references and make a slice of its own. */
#define ENTRY_COPY_BYTES 512

_Static_assert(LQ_FRAME_HEADER_BYTES + LQ_FRAME_HEAD_MAX <= ARENA_BYTES && ENTRY_COPY_BYTES <= ARENA_BYTES,
               "what is copied fits in one arena");

/* ---- the list ---- */

/* Room for one more element behind @count. */
static bool grow(void **array, size_t *capacity, size_t count, size_t element_size)
{
    if (count < *capacity) {
        return true;
    }
    size_t larger = *capacity == 0 ? 64 : *capacity * 2;
    void *moved = realloc(*array, larger * element_size);
    if (moved == NULL) {
        return false;
    }
    *array = moved;
    *capacity = larger;
    return true;
}

/* Takes over the caller's reference to @slab, unless it fails. */
static bool keep_slab(struct lq_gather *gather, struct lq_slab *slab)
{
    if (!grow((void **)&gather->slabs, &gather->slab_capacity, gather->slab_count, sizeof(struct lq_slab *))) {
        return false;
    }
    gather->slabs[gather->slab_count++] = slab;
    return true;
}

static bool add_slice(struct lq_gather *gather, const uint8_t *bytes, size_t size)
{
    if (gather->slice_count > 0) {
        uv_buf_t *last = &gather->slices[gather->slice_count - 1];
        if ((const uint8_t *)last->base + last->len == bytes) { /* goes on where the last one ends */
            last->len += size;
            return true;
        }
    }
    if (!grow((void **)&gather->slices, &gather->slice_capacity, gather->slice_count, sizeof(uv_buf_t))) {
        return false;
    }
    gather->slices[gather->slice_count++] = (uv_buf_t){.base = (char *)(uintptr_t)bytes, .len = size};
    return true;
}

/* @size bytes to be filled at once, in their place in the list; NULL when out of memory. */
static uint8_t *add_space(struct lq_gather *gather, size_t size)
{
    if (gather->arena == NULL || gather->arena->size - gather->arena_used < size) {
        struct lq_slab *arena = lq_slab_new(ARENA_BYTES);
        if (arena == NULL) {
            return NULL;
        }
        if (!keep_slab(gather, arena)) {
            lq_slab_unref(arena);
            return NULL;
        }
        gather->arena = arena;
        gather->arena_used = 0;
    }
    uint8_t *at = gather->arena->bytes + gather->arena_used;
    if (!add_slice(gather, at, size)) {
        return NULL;
    }
    gather->arena_used += size;
    return at;
}

/* A slice of @slab, with a reference of its own; one for neighbours in the same slab. */
static bool add_reference(struct lq_gather *gather, struct lq_slab *slab, uint32_t offset, uint32_t size)
{
    bool held = gather->slab_count > 0 && gather->slabs[gather->slab_count - 1] == slab;
    if (!held) {
        if (!keep_slab(gather, slab)) {
            return false;
        }
        lq_slab_ref(slab);
    }
    return add_slice(gather, slab->bytes + offset, size);
}

/* Forgets everything but the arrays and, when nobody else has it, the arena. */
static void clear(struct lq_gather *gather)
{
    struct lq_slab *arena = gather->arena;
    for (size_t i = 0; i < gather->slab_count; i++) {
        if (gather->slabs[i] != arena) {
            lq_slab_unref(gather->slabs[i]);
        }
    }
    gather->slab_count = 0;
    gather->slice_count = 0;
    gather->bytes = 0;
    gather->arena_used = 0;
    if (arena != NULL) {
        gather->slabs[gather->slab_count++] = arena; /* there was room for at least one */
    }
}

static void gather_deinit(struct lq_gather *gather)
{
    for (size_t i = 0; i < gather->slab_count; i++) {
        lq_slab_unref(gather->slabs[i]);
    }
    free(gather->slabs);
    free(gather->slices);
    *gather = (struct lq_gather){.slices = NULL};
}

/* ---- frames ---- */

static bool add_frame(struct lq_gather *gather, const struct lq_frame *frame)
{
    uint8_t *at = add_space(gather, LQ_FRAME_HEADER_BYTES + (size_t)frame->head_size);
    if (at == NULL) {
        return false;
    }
    lq_frame_put(at, frame);
    if (frame->body_size != 0 && !add_reference(gather, frame->body, frame->body_offset, frame->body_size)) {
        return false;
    }
    for (size_t i = 0; i < frame->entry_count; i++) {
        const struct lq_entry_ref *entry = &frame->entries[i];
        if (entry->size > ENTRY_COPY_BYTES) {
            if (!add_reference(gather, entry->slab, entry->offset, entry->size)) {
                return false;
            }
            continue;
        }
        at = add_space(gather, entry->size);
        if (at == NULL) {
            return false;
        }
        memcpy(at, lq_entry_ref_bytes(entry), entry->size);
    }
    return true;
}

lightq_status lq_sender_add(struct lq_sender *sender, const struct lq_frame *frame)
{
    struct lq_gather *gather = &sender->waiting;
    const struct lq_gather before = *gather;
    size_t last_size = before.slice_count > 0 ? before.slices[before.slice_count - 1].len : 0;
    if (!add_frame(gather, frame)) { /* back to where it was; the arrays may have grown and moved */
        while (gather->slab_count > before.slab_count) {
            lq_slab_unref(gather->slabs[--gather->slab_count]);
        }
        gather->slice_count = before.slice_count;
        if (before.slice_count > 0) {
            gather->slices[before.slice_count - 1].len = last_size;
        }
        gather->arena = before.arena;
        gather->arena_used = before.arena_used;
        return LIGHTQ_ENOMEM;
    }
    gather->bytes += lq_frame_wire_size(frame);
    return LIGHTQ_OK;
}

/* ---- writing ---- */

void lq_sender_init(struct lq_sender *sender)
{
    *sender = (struct lq_sender){.writing = false};
    sender->request.data = sender;
}

void lq_sender_deinit(struct lq_sender *sender)
{
    assert(!sender->writing);
    gather_deinit(&sender->waiting);
    gather_deinit(&sender->flying);
}

static void on_written(uv_write_t *request, int rv)
{
    struct lq_sender *sender = request->data;
    sender->writing = false;
    clear(&sender->flying);
    lightq_status status = LIGHTQ_ECONNECT;
    if (rv == 0) {
        status = lq_sender_flush(sender);
    } else {
        sender->error = rv;
    }
    if (sender->written != NULL) {
        sender->written(sender, status);
    }
}

/* Writes without waiting as much as the socket takes; *first is the slice where it stopped, already shortened by what
 * was written of it. */
static lightq_status write_now(struct lq_sender *sender, size_t *first)
{
    struct lq_gather *gather = &sender->waiting;
    while (*first < gather->slice_count) {
        int written = uv_try_write(sender->stream, gather->slices + *first, (unsigned)(gather->slice_count - *first));
        if (written == UV_EAGAIN) {
            return LIGHTQ_OK;
        }
        if (written < 0) {
            sender->error = written;
            return LIGHTQ_ECONNECT;
        }
        size_t left = (size_t)written;
        while (*first < gather->slice_count && left >= gather->slices[*first].len) {
            left -= gather->slices[(*first)++].len;
        }
        if (left > 0) {
            gather->slices[*first].base += left;
            gather->slices[*first].len -= left;
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_sender_flush(struct lq_sender *sender)
{
    if (sender->writing || sender->waiting.slice_count == 0) {
        return LIGHTQ_OK;
    }
    if (uv_is_closing((const uv_handle_t *)sender->stream)) {
        return LIGHTQ_ECONNECT;
    }
    size_t first = 0;
    lightq_status status = write_now(sender, &first);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (first == sender->waiting.slice_count) {
        clear(&sender->waiting);
        return LIGHTQ_OK;
    }
    struct lq_gather empty = sender->flying; /* its arrays, cleared */
    sender->flying = sender->waiting;
    sender->waiting = empty;
    int rv = uv_write(&sender->request, sender->stream, sender->flying.slices + first,
                      (unsigned)(sender->flying.slice_count - first), on_written);
    if (rv != 0) {
        sender->error = rv;
        return LIGHTQ_ECONNECT;
    }
    sender->writing = true;
    return LIGHTQ_OK;
}
