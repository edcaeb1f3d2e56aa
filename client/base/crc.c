/* client/base/crc.c - CRC32C through ISA-L, which picks the fastest code for the processor at its first call.
 * Called by every encoder and decoder, on any thread. */
#include "client/base/crc.h"

#include <isa-l/crc.h>

#define PIECE_BYTES (1u << 30) /* ISA-L counts in an int */

uint32_t lq_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    /* ISA-L neither inverts the start nor the end; the usual CRC32C does both. */
    unsigned char *at = (unsigned char *)(uintptr_t)bytes; /* it reads only, but does not say so */
    crc = ~crc;
    while (size > PIECE_BYTES) {
        crc = crc32_iscsi(at, (int)PIECE_BYTES, crc);
        at += PIECE_BYTES;
        size -= PIECE_BYTES;
    }
    if (size > 0) {
        crc = crc32_iscsi(at, (int)size, crc);
    }
    return ~crc;
}
