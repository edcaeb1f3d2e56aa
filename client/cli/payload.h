/* client/cli/payload.h - numbered payloads: "<producer>-<sequence>", filled up with dots to the size wanted. When that
 * is too small for the number, the last digits are kept; 0 bytes are an empty message. */
#ifndef LQ_CLI_PAYLOAD_H
#define LQ_CLI_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

struct payload {
    uint64_t producer;
    char *bytes;
    size_t size;
    size_t filled; /* of the last one, so that only what changes is written */
};

/* False: out of memory. */
_Bool payload_init(struct payload *payload, uint64_t producer, size_t size);
void payload_deinit(struct payload *payload);
/* payload->bytes becomes that of number @sequence. */
void payload_make(struct payload *payload, uint64_t sequence);

#endif
