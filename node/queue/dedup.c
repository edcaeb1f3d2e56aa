/* node/queue/dedup.c - see dedup.h. */
#include "node/queue/dedup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ENTRY_BYTES 40 /* in a checkpoint */

_Static_assert(sizeof(XXH128_canonical_t) == sizeof(struct lq_id), "a digest has the bytes of an id");

struct lq_id lq_dedup_digest(const void *id, size_t size)
{
    XXH128_canonical_t canonical;
    struct lq_id digest;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(id, size));
    memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    return digest;
}

static struct lq_dedup_entry *find_any(const struct lq_dedup *dedup, const struct lq_id *digest)
{
    struct lq_dedup_entry *entry = NULL;
    HASH_FIND(hh, dedup->table, digest, sizeof *digest, entry);
    return entry;
}

static void drop(struct lq_dedup *dedup, struct lq_dedup_entry *entry)
{
    assert(dedup->table != NULL); /* it holds all that are in the order */
    *(entry->older != NULL ? &entry->older->newer : &dedup->oldest) = entry->newer;
    *(entry->newer != NULL ? &entry->newer->older : &dedup->newest) = entry->older;
    HASH_DEL(dedup->table, entry);
    dedup->count--;
    free(entry);
}

void lq_dedup_deinit(struct lq_dedup *dedup)
{
    while (dedup->oldest != NULL) {
        drop(dedup, dedup->oldest);
    }
}

static bool is_old(const struct lq_dedup_entry *entry, uint64_t now_ms, uint64_t window_ms)
{
    return now_ms >= entry->timestamp_ms && now_ms - entry->timestamp_ms >= window_ms;
}

const struct lq_dedup_entry *lq_dedup_find(const struct lq_dedup *dedup, const struct lq_id *digest, uint64_t now_ms,
                                           uint64_t window_ms)
{
    const struct lq_dedup_entry *entry = find_any(dedup, digest);
    return entry == NULL || is_old(entry, now_ms, window_ms) ? NULL : entry;
}

bool lq_dedup_is_full(const struct lq_dedup *dedup, size_t more, uint64_t now_ms, uint64_t window_ms)
{
    size_t count = dedup->count + more;
    const struct lq_dedup_entry *entry = dedup->oldest;
    while (count > LQ_DEDUP_IDS_MAX && entry != NULL && is_old(entry, now_ms, window_ms)) {
        entry = entry->newer;
        count--;
    }
    return count > LQ_DEDUP_IDS_MAX;
}

/* OK | ENOMEM. */
static lightq_status add(struct lq_dedup *dedup, const struct lq_dedup_entry *with)
{
    struct lq_dedup_entry *entry = malloc(sizeof *entry);
    if (entry == NULL) {
        return LIGHTQ_ENOMEM;
    }
    *entry = *with;
    HASH_ADD(hh, dedup->table, digest, sizeof entry->digest, entry);
    if (entry->hh.tbl == NULL) {
        free(entry);
        return LIGHTQ_ENOMEM;
    }
    entry->older = dedup->newest;
    entry->newer = NULL;
    *(dedup->newest != NULL ? &dedup->newest->newer : &dedup->oldest) = entry;
    dedup->newest = entry;
    dedup->count++;
    return LIGHTQ_OK;
}

lightq_status lq_dedup_applied(struct lq_dedup *dedup, const struct lq_id *digest, uint64_t offset, uint64_t term,
                               uint64_t timestamp_ms)
{
    const struct lq_dedup_entry with = {
        .digest = *digest, .offset = offset, .term = term, .timestamp_ms = timestamp_ms};
    struct lq_dedup_entry *known = find_any(dedup, digest);
    if (known != NULL) {
        drop(dedup, known); /* an old one: it is the newest from now on */
    } else if (dedup->count >= LQ_DEDUP_IDS_MAX) {
        drop(dedup, dedup->oldest);
    }
    return add(dedup, &with);
}

void lq_dedup_expire(struct lq_dedup *dedup, uint64_t now_ms, uint64_t window_ms)
{
    while (dedup->oldest != NULL && is_old(dedup->oldest, now_ms, window_ms)) {
        drop(dedup, dedup->oldest);
    }
}

void lq_dedup_save(const struct lq_dedup *dedup, struct lq_writer *writer)
{
    lq_write_u32(writer, (uint32_t)dedup->count);
    for (const struct lq_dedup_entry *entry = dedup->oldest; entry != NULL; entry = entry->newer) {
        lq_write_bytes(writer, entry->digest.bytes, sizeof entry->digest.bytes);
        lq_write_u64(writer, entry->offset);
        lq_write_u64(writer, entry->term);
        lq_write_u64(writer, entry->timestamp_ms);
    }
}

lightq_status lq_dedup_load(struct lq_dedup *dedup, struct lq_reader *reader, uint64_t offset_end, uint64_t stamp_max)
{
    size_t count = lq_read_u32(reader);
    uint64_t before_ms = 0;
    if (reader->failed || count > LQ_DEDUP_IDS_MAX || lq_reader_left(reader) < count * ENTRY_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    for (size_t i = 0; i < count; i++) {
        struct lq_dedup_entry with = {.offset = 0};
        memcpy(with.digest.bytes, lq_read_bytes(reader, sizeof with.digest.bytes), sizeof with.digest.bytes);
        with.offset = lq_read_u64(reader);
        with.term = lq_read_u64(reader);
        with.timestamp_ms = lq_read_u64(reader);
        if (with.offset >= offset_end || with.timestamp_ms > stamp_max || with.timestamp_ms < before_ms ||
            find_any(dedup, &with.digest) != NULL) {
            return LIGHTQ_ECORRUPT;
        }
        before_ms = with.timestamp_ms;
        lightq_status status = add(dedup, &with);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return LIGHTQ_OK;
}
