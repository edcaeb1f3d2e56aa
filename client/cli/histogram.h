/* client/cli/histogram.h - counts durations so that percentiles come out right to 1/128: buckets that grow with the
 * value, as HdrHistogram does. One thread at a time. */
#ifndef LQ_CLI_HISTOGRAM_H
#define LQ_CLI_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7 /* a value is known to 1/128 of itself */
#define HISTOGRAM_BUCKETS  ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

struct histogram {
    uint64_t count, most;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* All zeros is an empty one. */
void histogram_add(struct histogram *histogram, uint64_t value);
/* The value that @per_mille of all values are not above, 0 to 1000; 0 when it is empty. */
uint64_t histogram_per_mille(const struct histogram *histogram, unsigned per_mille);

#endif
