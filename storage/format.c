/* storage/format.c - seals and decodes entries (the layout is drawn in storage/format.h). Called by whoever makes
 * entries or reads them from disk or a peer, on any thread; calls client/base/crc.c. */
#include "storage/format.h"

#include <inttypes.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/base/limits.h"

enum {
    AT_CRC = 0,
    AT_LENGTH = 4,
    AT_GROUP = 8,
    AT_INDEX = 16,
    AT_TERM = 24,
    AT_PREV_TERM = 32,
    AT_BASE_OFFSET = 40,
    AT_TIMESTAMP = 48,
    AT_COMMIT_INDEX = 56,
    AT_TYPE = 64,
    AT_VERSION = 65,
    AT_FLAGS = 66,
    AT_MESSAGE_COUNT = 68,
};

static bool is_known_type(uint8_t type)
{
    return type == LQ_ENTRY_COMMAND || type == LQ_ENTRY_BARRIER || type == LQ_ENTRY_CHANGE;
}

void lq_entry_seal(uint8_t *at, const struct lq_entry *entry)
{
    uint32_t length = LQ_ENTRY_HEADER_BYTES + entry->payload_size;
    lq_put_u32(at + AT_LENGTH, length);
    lq_put_u64(at + AT_GROUP, entry->group);
    lq_put_u64(at + AT_INDEX, entry->index);
    lq_put_u64(at + AT_TERM, entry->term);
    lq_put_u64(at + AT_PREV_TERM, entry->prev_term);
    lq_put_u64(at + AT_BASE_OFFSET, entry->base_offset);
    lq_put_u64(at + AT_TIMESTAMP, entry->timestamp_ms);
    lq_put_u64(at + AT_COMMIT_INDEX, entry->commit_index);
    at[AT_TYPE] = (uint8_t)entry->type;
    at[AT_VERSION] = LQ_ENTRY_VERSION;
    lq_put_u16(at + AT_FLAGS, entry->flags);
    lq_put_u32(at + AT_MESSAGE_COUNT, entry->message_count);
    lq_put_u32(at + AT_CRC, lq_crc32c(0, at + AT_LENGTH, length - AT_LENGTH));
    memset(at + length, 0, lq_entry_size(entry->payload_size) - length);
}

/* What the header says of itself, once its bytes are known to be those that were sealed (or the caller trusts them). */
static lightq_status fields_check(const uint8_t *at, struct lq_err *err)
{
    if (at[AT_VERSION] != LQ_ENTRY_VERSION) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry of format version %u, this program reads version %u",
                          at[AT_VERSION], LQ_ENTRY_VERSION);
    }
    if (!is_known_type(at[AT_TYPE])) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry of unknown type %u", at[AT_TYPE]);
    }
    if (lq_get_u64(at + AT_INDEX) == 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry with index 0");
    }
    if (lq_get_u64(at + AT_TERM) == 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %" PRIu64 " with term 0", lq_get_u64(at + AT_INDEX));
    }
    return LIGHTQ_OK;
}

static lightq_status padding_check(const uint8_t *at, uint64_t length, uint64_t size, struct lq_err *err)
{
    for (uint64_t i = length; i < size; i++) {
        if (at[i] != 0) {
            return lq_err_set(err, LIGHTQ_ECORRUPT, "entry %" PRIu64 ": padding byte %" PRIu64 " is not zero",
                              lq_get_u64(at + AT_INDEX), i);
        }
    }
    return LIGHTQ_OK;
}

static void fields_take(const uint8_t *at, uint32_t length, struct lq_entry *entry)
{
    *entry = (struct lq_entry){
        .group = lq_get_u64(at + AT_GROUP),
        .index = lq_get_u64(at + AT_INDEX),
        .term = lq_get_u64(at + AT_TERM),
        .prev_term = lq_get_u64(at + AT_PREV_TERM),
        .base_offset = lq_get_u64(at + AT_BASE_OFFSET),
        .timestamp_ms = lq_get_u64(at + AT_TIMESTAMP),
        .commit_index = lq_get_u64(at + AT_COMMIT_INDEX),
        .type = (enum lq_entry_type)at[AT_TYPE],
        .flags = lq_get_u16(at + AT_FLAGS),
        .message_count = lq_get_u32(at + AT_MESSAGE_COUNT),
        .payload_size = length - LQ_ENTRY_HEADER_BYTES,
        .payload = at + LQ_ENTRY_HEADER_BYTES,
    };
}

lightq_status lq_entry_decode(const uint8_t *at, uint64_t available, bool check_crc, struct lq_entry *entry,
                              uint64_t *size, struct lq_err *err)
{
    if (available < LQ_ENTRY_HEADER_BYTES) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry cut short: %" PRIu64 " bytes of a header of %d", available,
                          LQ_ENTRY_HEADER_BYTES);
    }
    uint32_t length = lq_get_u32(at + AT_LENGTH);
    if (length < LQ_ENTRY_HEADER_BYTES || length > LQ_ENTRY_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry length %" PRIu32 " is outside %d to %u", length,
                          LQ_ENTRY_HEADER_BYTES, LQ_ENTRY_BYTES_MAX);
    }
    uint64_t padded = lq_entry_size(length - LQ_ENTRY_HEADER_BYTES);
    if (padded > available) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "entry cut short: %" PRIu64 " bytes of %" PRIu64, available, padded);
    }
    if (check_crc) {
        uint32_t stored = lq_get_u32(at + AT_CRC);
        uint32_t found = lq_crc32c(0, at + AT_LENGTH, length - AT_LENGTH);
        if (stored != found) {
            return lq_err_set(err, LIGHTQ_ECORRUPT,
                              "entry crc mismatch: stored %08" PRIx32 ", computed %08" PRIx32 " over %" PRIu32 " bytes",
                              stored, found, length - AT_LENGTH);
        }
    }
    lightq_status status = fields_check(at, err);
    if (status == LIGHTQ_OK) {
        status = padding_check(at, length, padded, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    fields_take(at, length, entry);
    *size = padded;
    return LIGHTQ_OK;
}
