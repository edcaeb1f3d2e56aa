/* client/base/id.c - 16-byte identities and their text. Called by everyone, on any thread. */
#include "client/base/id.h"

#include <string.h>

#include "client/base/clock.h"

bool lq_id_is_zero(const struct lq_id *id)
{
    static const struct lq_id zero;
    return memcmp(id, &zero, sizeof zero) == 0;
}

bool lq_id_equal(const struct lq_id *a, const struct lq_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

struct lq_id lq_id_random(struct lq_clock *clock)
{
    struct lq_id id;
    do {
        clock->random(clock, id.bytes, sizeof id.bytes);
    } while (lq_id_is_zero(&id));
    return id;
}

void lq_id_format(const struct lq_id *id, char text[LQ_ID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    text[LQ_ID_TEXT_BYTES - 1] = '\0';
}

/* The value of a hexadecimal digit, or -1. */
static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    if (digit >= 'A' && digit <= 'F') {
        return digit - 'A' + 10;
    }
    return -1;
}

lightq_status lq_id_parse(const char *text, struct lq_id *id)
{
    struct lq_id parsed;
    if (strnlen(text, LQ_ID_TEXT_BYTES) != LQ_ID_TEXT_BYTES - 1) {
        return LIGHTQ_EINVAL;
    }
    for (size_t i = 0; i < sizeof parsed.bytes; i++) {
        int high = digit_value(text[2 * i]);
        int low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return LIGHTQ_EINVAL;
        }
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *id = parsed;
    return LIGHTQ_OK;
}
