/* client/cli/payload.c - see payload.h. */
#include "client/cli/payload.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/lines.h"

#define TEXT_BYTES 48 /* two numbers of 20 digits and a dash */

bool payload_init(struct payload *payload, uint64_t producer, size_t size)
{
    *payload = (struct payload){.producer = producer, .size = size, .bytes = malloc(size + 1)};
    if (payload->bytes != NULL) {
        memset(payload->bytes, '.', size + 1);
    }
    return payload->bytes != NULL;
}

void payload_deinit(struct payload *payload)
{
    free(payload->bytes);
}

void payload_make(struct payload *payload, uint64_t sequence)
{
    char text[TEXT_BYTES];
    size_t length = lines_put_number(text, payload->producer);
    text[length++] = '-';
    length += lines_put_number(text + length, sequence);
    size_t kept = length < payload->size ? length : payload->size;
    memcpy(payload->bytes, text + length - kept, kept);
    if (payload->filled > kept) {
        memset(payload->bytes + kept, '.', payload->filled - kept);
    }
    payload->filled = kept;
}
