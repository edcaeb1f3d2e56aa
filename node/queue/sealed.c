/* node/queue/sealed.c - see sealed.h. */
#include "node/queue/sealed.h"

#include "client/base/crc.h"

#define CRC_BYTES 4

size_t lq_sealed_begin(struct lq_writer *writer, uint32_t magic, uint16_t version)
{
    size_t begin = writer->size;
    lq_write_u32(writer, magic);
    lq_write_u16(writer, version);
    lq_write_u16(writer, 0);
    return begin;
}

lightq_status lq_sealed_end(struct lq_writer *writer, size_t begin)
{
    if (writer->status == LIGHTQ_OK) {
        lq_write_u32(writer, lq_crc32c(0, writer->bytes + begin, writer->size - begin));
    }
    return writer->status;
}

lightq_status lq_sealed_open(const uint8_t *bytes, size_t size, uint32_t magic, uint16_t version,
                             struct lq_reader *reader)
{
    if (size < CRC_BYTES || lq_crc32c(0, bytes, size - CRC_BYTES) != lq_get_u32(bytes + size - CRC_BYTES)) {
        return LIGHTQ_ECORRUPT;
    }
    *reader = lq_reader_of(bytes, size - CRC_BYTES);
    uint32_t found_magic = lq_read_u32(reader);
    uint16_t found_version = lq_read_u16(reader);
    uint16_t flags = lq_read_u16(reader);
    if (reader->failed || found_magic != magic) {
        return LIGHTQ_ECORRUPT;
    }
    return found_version != version || flags != 0 ? LIGHTQ_EVERSION : LIGHTQ_OK;
}
