/* client/base/buf.c - bounded reading and writing of little-endian fields. Called by every encoder and decoder; any
 * thread, one at a time for each reader or writer. */
#include "client/base/buf.h"

#include <stdlib.h>
#include <string.h>

#define VARINT_BYTES_MAX  10
#define FIRST_CAPACITY    256u
#define VARINT_LAST_SHIFT 63

/* @size bytes to read, or NULL and the reader has failed for good. */
static const uint8_t *take(struct lq_reader *reader, size_t size)
{
    if (reader->failed || reader->size - reader->position < size) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->bytes + reader->position;
    reader->position += size;
    return at;
}

uint8_t lq_read_u8(struct lq_reader *reader)
{
    const uint8_t *at = take(reader, 1);
    return at == NULL ? 0 : *at;
}

uint16_t lq_read_u16(struct lq_reader *reader)
{
    const uint8_t *at = take(reader, sizeof(uint16_t));
    return at == NULL ? 0 : lq_get_u16(at);
}

uint32_t lq_read_u32(struct lq_reader *reader)
{
    const uint8_t *at = take(reader, sizeof(uint32_t));
    return at == NULL ? 0 : lq_get_u32(at);
}

uint64_t lq_read_u64(struct lq_reader *reader)
{
    const uint8_t *at = take(reader, sizeof(uint64_t));
    return at == NULL ? 0 : lq_get_u64(at);
}

uint64_t lq_read_varint(struct lq_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift <= VARINT_LAST_SHIFT; shift += 7) {
        uint8_t byte = lq_read_u8(reader);
        if (reader->failed) {
            return 0;
        }
        /* The tenth byte has room for one bit; a last byte of 0 after others says nothing: one form per number. */
        if ((shift == VARINT_LAST_SHIFT && byte > 1) || (byte == 0 && shift > 0)) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    reader->failed = true;
    return 0;
}

int64_t lq_read_varint_signed(struct lq_reader *reader)
{
    uint64_t value = lq_read_varint(reader);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

const uint8_t *lq_read_bytes(struct lq_reader *reader, size_t size)
{
    static const uint8_t nothing[1];
    if (size == 0 && !reader->failed && reader->bytes == NULL) {
        return nothing; /* no bytes of no buffer: not a failure */
    }
    return take(reader, size);
}

void lq_writer_init(struct lq_writer *writer, size_t limit)
{
    *writer = (struct lq_writer){.limit = limit};
}

void lq_writer_deinit(struct lq_writer *writer)
{
    free(writer->bytes);
    *writer = (struct lq_writer){.limit = 0};
}

/* Makes room for @size more bytes. False: the writer has failed for good. */
static bool grow(struct lq_writer *writer, size_t size)
{
    if (writer->status != LIGHTQ_OK) {
        return false;
    }
    if (size > writer->limit - writer->size) {
        writer->status = LIGHTQ_ETOOBIG;
        return false;
    }
    size_t needed = writer->size + size;
    if (needed <= writer->capacity && writer->bytes != NULL) {
        return true;
    }
    size_t capacity = writer->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : writer->capacity;
    while (capacity < needed) {
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    }
    if (capacity > writer->limit) {
        capacity = writer->limit > 0 ? writer->limit : 1;
    }
    uint8_t *bytes = realloc(writer->bytes, capacity);
    if (bytes == NULL) {
        writer->status = LIGHTQ_ENOMEM;
        return false;
    }
    writer->bytes = bytes;
    writer->capacity = capacity;
    return true;
}

uint8_t *lq_write_space(struct lq_writer *writer, size_t size)
{
    if (!grow(writer, size)) {
        return NULL;
    }
    uint8_t *at = writer->bytes + writer->size;
    writer->size += size;
    return at;
}

void lq_write_u8(struct lq_writer *writer, uint8_t value)
{
    uint8_t *at = lq_write_space(writer, sizeof value);
    if (at != NULL) {
        *at = value;
    }
}

void lq_write_u16(struct lq_writer *writer, uint16_t value)
{
    uint8_t *at = lq_write_space(writer, sizeof value);
    if (at != NULL) {
        lq_put_u16(at, value);
    }
}

void lq_write_u32(struct lq_writer *writer, uint32_t value)
{
    uint8_t *at = lq_write_space(writer, sizeof value);
    if (at != NULL) {
        lq_put_u32(at, value);
    }
}

void lq_write_u64(struct lq_writer *writer, uint64_t value)
{
    uint8_t *at = lq_write_space(writer, sizeof value);
    if (at != NULL) {
        lq_put_u64(at, value);
    }
}

void lq_write_varint(struct lq_writer *writer, uint64_t value)
{
    uint8_t encoded[VARINT_BYTES_MAX];
    size_t size = 0;
    while (value >= 0x80) {
        encoded[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    encoded[size++] = (uint8_t)value;
    lq_write_bytes(writer, encoded, size);
}

void lq_write_varint_signed(struct lq_writer *writer, int64_t value)
{
    uint64_t sign = value < 0 ? UINT64_MAX : 0;
    lq_write_varint(writer, (uint64_t)value << 1 ^ sign);
}

void lq_write_bytes(struct lq_writer *writer, const void *bytes, size_t size)
{
    uint8_t *at = lq_write_space(writer, size);
    if (at != NULL && size > 0) {
        memcpy(at, bytes, size);
    }
}

void lq_write_pad(struct lq_writer *writer, size_t alignment)
{
    size_t size = (0 - writer->size) & (alignment - 1);
    uint8_t *at = lq_write_space(writer, size);
    if (at != NULL && size > 0) {
        memset(at, 0, size);
    }
}
