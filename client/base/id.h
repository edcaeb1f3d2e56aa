/* client/base/id.h - 16-byte identities: clusters, nodes' uuids, topics. */
#ifndef LQ_BASE_ID_H
#define LQ_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/err.h"

struct lq_id {
    uint8_t bytes[16];
};

#define LQ_ID_TEXT_BYTES 33 /* 32 hexadecimal digits and the zero */

struct lq_clock;

bool lq_id_is_zero(const struct lq_id *id);
bool lq_id_equal(const struct lq_id *a, const struct lq_id *b);
/* A random one from @clock's randomness; never zero. */
struct lq_id lq_id_random(struct lq_clock *clock);
void lq_id_format(const struct lq_id *id, char text[LQ_ID_TEXT_BYTES]);
/* OK | EINVAL when @text is not exactly 32 hexadecimal digits. */
lightq_status lq_id_parse(const char *text, struct lq_id *id) LQ_MUST_CHECK;

#endif
