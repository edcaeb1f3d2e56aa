/* client/base/buf.h - bounded reading and writing of little-endian fields. Every decoder of ours stands on the reader:
 * it never reads past its end, remembers the first failure, and gives zeros from then on, so that a decoder may read
 * all its fields and ask once. */
#ifndef LQ_BASE_BUF_H
#define LQ_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"

struct lq_reader {
    const uint8_t *bytes;
    size_t size;
    size_t position;
    bool failed;
};

static inline struct lq_reader lq_reader_of(const void *bytes, size_t size)
{
    return (struct lq_reader){.bytes = bytes, .size = size};
}

uint8_t lq_read_u8(struct lq_reader *reader);
uint16_t lq_read_u16(struct lq_reader *reader);
uint32_t lq_read_u32(struct lq_reader *reader);
uint64_t lq_read_u64(struct lq_reader *reader);
/* LEB128, at most 10 bytes; an overlong or overflowing one fails. */
uint64_t lq_read_varint(struct lq_reader *reader);
/* Zigzag signed varint. */
int64_t lq_read_varint_signed(struct lq_reader *reader);
/* @size bytes inside the buffer (borrowed), or NULL when there are fewer. */
const uint8_t *lq_read_bytes(struct lq_reader *reader, size_t size);
static inline size_t lq_reader_left(const struct lq_reader *reader)
{
    return reader->failed ? 0 : reader->size - reader->position;
}

/* A growing buffer with a bound. Failure (bound reached, or no memory) is remembered; nothing is written after it. */
struct lq_writer {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
    size_t limit;
    lightq_status status; /* OK | ETOOBIG | ENOMEM */
};

void lq_writer_init(struct lq_writer *writer, size_t limit);
void lq_writer_deinit(struct lq_writer *writer);
void lq_write_u8(struct lq_writer *writer, uint8_t value);
void lq_write_u16(struct lq_writer *writer, uint16_t value);
void lq_write_u32(struct lq_writer *writer, uint32_t value);
void lq_write_u64(struct lq_writer *writer, uint64_t value);
void lq_write_varint(struct lq_writer *writer, uint64_t value);
void lq_write_varint_signed(struct lq_writer *writer, int64_t value);
void lq_write_bytes(struct lq_writer *writer, const void *bytes, size_t size);
/* Room for @size more bytes, to be filled by the caller at once; NULL on failure. Advances size. */
uint8_t *lq_write_space(struct lq_writer *writer, size_t size);
/* Writes 0 bytes until size is a multiple of @alignment (a power of two). */
void lq_write_pad(struct lq_writer *writer, size_t alignment);

/* Unaligned little-endian access to memory that is known to be there. */
static inline uint16_t lq_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}
static inline uint32_t lq_get_u32(const uint8_t *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t lq_get_u64(const uint8_t *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
static inline void lq_put_u16(uint8_t *at, uint16_t value)
{
    __builtin_memcpy(at, &value, sizeof value);
}
static inline void lq_put_u32(uint8_t *at, uint32_t value)
{
    __builtin_memcpy(at, &value, sizeof value);
}
static inline void lq_put_u64(uint8_t *at, uint64_t value)
{
    __builtin_memcpy(at, &value, sizeof value);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "LightQ's formats are little endian and read in place");

#endif
