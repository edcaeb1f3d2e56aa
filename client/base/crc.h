/* client/base/crc.h - CRC32C (Castagnoli), the only checksum on disk and on the wire. Source: ISA-L's crc32_iscsi. */
#ifndef LQ_BASE_CRC_H
#define LQ_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC32C of @size bytes, going on from @crc (0 to begin). lq_crc32c(lq_crc32c(0, a), b) is that of a followed
 * by b. The check value of "123456789" is 0xe3069283. */
uint32_t lq_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
