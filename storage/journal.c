/* storage/journal.c - the bytes of journal files (storage/journal.h draws them). Called by storage/flusher.c,
 * storage/store.c and storage/replay.c on the loop thread. */
#include "storage/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/crc.h"

#define HEADER_CRC_FROM 16
#define FRAME_CRC_FROM  8
#define AT_VOID         1 /* of the mark in a record */

static const char MAGIC[8] = {'L', 'Q', 'J', 'O', 'U', 'R', 'N', '1'};

int lq_record_fields(unsigned type)
{
    switch (type) {
#define X(name, number, fields) \
    case number:                \
        return fields;
        LQ_RECORD_TABLE(X)
#undef X
    default:
        return -1;
    }
}

void lq_record_write(struct lq_writer *writer, const struct lq_record *record)
{
    lq_write_u8(writer, (uint8_t)record->type);
    lq_write_u8(writer, record->is_void ? 1 : 0);
    lq_write_u16(writer, 0);
    lq_write_u32(writer, record->incarnation);
    lq_write_u64(writer, record->group);
    int fields = lq_record_fields(record->type);
    for (int i = 0; i < fields; i++) {
        lq_write_u64(writer, record->fields[i]);
    }
}

bool lq_record_read(struct lq_reader *reader, struct lq_record *record)
{
    if (lq_reader_left(reader) == 0) {
        return false;
    }
    unsigned type = lq_read_u8(reader);
    unsigned mark = lq_read_u8(reader);
    (void)lq_read_u16(reader);
    *record = (struct lq_record){.type = (enum lq_record_type)type, .is_void = mark != 0};
    record->incarnation = lq_read_u32(reader);
    record->group = lq_read_u64(reader);
    int fields = lq_record_fields(type);
    for (int i = 0; i < fields; i++) {
        record->fields[i] = lq_read_u64(reader);
    }
    if (fields < 0 || mark > 1) {
        reader->failed = true;
    }
    return !reader->failed;
}

void lq_journal_group_write(struct lq_writer *writer, const struct lq_journal_group *group)
{
    const struct lq_record record = {
        .type = LQ_RECORD_GROUP,
        .group = group->group,
        .incarnation = group->incarnation,
        .fields = {group->term, group->voted_for, group->watermark, group->trim, group->cut, group->install_index,
                   group->install_number, group->need},
    };
    lq_record_write(writer, &record);
}

void lq_journal_header_encode(uint8_t at[LQ_JOURNAL_HEADER_BYTES], const struct lq_journal_header *header)
{
    memset(at, 0, LQ_JOURNAL_HEADER_BYTES);
    memcpy(at, MAGIC, sizeof MAGIC);
    lq_put_u32(at + 8, LQ_JOURNAL_VERSION);
    memcpy(at + 16, header->cluster.bytes, sizeof header->cluster.bytes);
    lq_put_u64(at + 32, header->number);
    lq_put_u64(at + 40, header->salt);
    lq_put_u32(at + 48, header->shard);
    lq_put_u32(at + 52, header->shards);
    lq_put_u32(at + 12,
               lq_crc32c(lq_crc32c(0, at + 8, 4), at + HEADER_CRC_FROM, LQ_JOURNAL_HEADER_BYTES - HEADER_CRC_FROM));
}

lightq_status lq_journal_header_decode(const uint8_t at[LQ_JOURNAL_HEADER_BYTES], const char *path,
                                       struct lq_journal_header *header, struct lq_err *err)
{
    if (memcmp(at, MAGIC, sizeof MAGIC) != 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: not a journal: its header does not begin with %.8s", path, MAGIC);
    }
    if (lq_get_u32(at + 12) !=
        lq_crc32c(lq_crc32c(0, at + 8, 4), at + HEADER_CRC_FROM, LQ_JOURNAL_HEADER_BYTES - HEADER_CRC_FROM)) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: the header's crc does not match", path);
    }
    if (lq_get_u32(at + 8) != LQ_JOURNAL_VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION, "%s: journal of format version %" PRIu32 ", this program reads %d",
                          path, lq_get_u32(at + 8), LQ_JOURNAL_VERSION);
    }
    memcpy(header->cluster.bytes, at + 16, sizeof header->cluster.bytes);
    header->number = lq_get_u64(at + 32);
    header->salt = lq_get_u64(at + 40);
    header->shard = lq_get_u32(at + 48);
    header->shards = lq_get_u32(at + 52);
    return LIGHTQ_OK;
}

void lq_frame_begin(struct lq_writer *writer)
{
    uint8_t *at = lq_write_space(writer, LQ_FRAME_HEADER_BYTES);
    if (at != NULL) {
        memset(at, 0, LQ_FRAME_HEADER_BYTES);
    }
}

void lq_frame_end(struct lq_writer *writer)
{
    const struct lq_record record = {.type = LQ_RECORD_END, .group = UINT64_MAX, .incarnation = UINT32_MAX};
    lq_record_write(writer, &record);
}

void lq_frame_seal(struct lq_writer *writer, size_t frame_at, uint64_t entry_bytes, uint64_t sequence, uint64_t salt,
                   enum lq_frame_kind kind)
{
    if (writer->status != LIGHTQ_OK) {
        return;
    }
    assert(writer->size >= frame_at + LQ_FRAME_HEADER_BYTES);
    uint8_t *at = writer->bytes + frame_at;
    size_t head = writer->size - frame_at;
    lq_put_u32(at, LQ_FRAME_MAGIC);
    lq_put_u64(at + 8, head + entry_bytes);
    lq_put_u64(at + 16, sequence);
    lq_put_u64(at + 24, salt);
    lq_put_u32(at + 32, (uint32_t)(head - LQ_FRAME_HEADER_BYTES));
    lq_put_u32(at + 36, (uint32_t)kind);
    lq_put_u32(at + 4, lq_crc32c(0, at + FRAME_CRC_FROM, head - FRAME_CRC_FROM));
}

void lq_frame_length(uint8_t at[LQ_LENGTH_FRAME_BYTES], uint64_t bytes, uint64_t sequence, uint64_t salt)
{
    struct lq_writer writer = {.bytes = at, .capacity = LQ_LENGTH_FRAME_BYTES, .limit = LQ_LENGTH_FRAME_BYTES};
    const struct lq_record length = {.type = LQ_RECORD_LENGTH, .fields = {bytes}};
    lq_frame_begin(&writer);
    lq_record_write(&writer, &length);
    lq_frame_end(&writer);
    lq_frame_seal(&writer, 0, 0, sequence, salt, LQ_JOURNAL_CHANGES);
}

void lq_frame_closed(uint8_t at[LQ_FRAME_HEADER_BYTES], uint64_t sequence, uint64_t salt)
{
    struct lq_writer writer = {.bytes = at, .size = LQ_FRAME_HEADER_BYTES, .status = LIGHTQ_OK};
    memset(at, 0, LQ_FRAME_HEADER_BYTES);
    lq_frame_seal(&writer, 0, 0, sequence, salt, LQ_JOURNAL_CLOSED);
}

void lq_frame_void(struct lq_writer *writer, size_t from, size_t to)
{
    size_t at = from;
    while (at < to) {
        writer->bytes[at + AT_VOID] = 1;
        at += LQ_RECORD_HEADER_BYTES + 8u * (size_t)lq_record_fields(writer->bytes[at]);
    }
}
