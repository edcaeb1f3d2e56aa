/* client/lib/start.h - places in a log, as the application names them and as the wire does. Pure functions. */
#ifndef LQ_LIB_START_H
#define LQ_LIB_START_H

#include <stdbool.h>

#include <lightq/lightq.h>

#include "client/wire/codec.h"

/* Whether @start is one of the kinds, with a value that can be. */
bool lq_start_is_good(const struct lightq_start *start);
/* Fills @wire from @start, which is good. */
void lq_start_put(const struct lightq_start *start, Lightq__Wire__Start *wire);

#endif
