/* client/cli/histogram.c - see histogram.h. A value below 2^7 has a bucket of its own; above, each doubling has 2^7. */
#include "client/cli/histogram.h"

#define SUB_COUNT (1u << HISTOGRAM_SUB_BITS)
#define PER_MILLE 1000u

static unsigned bucket_of(uint64_t value)
{
    if (value < SUB_COUNT) {
        return (unsigned)value;
    }
    unsigned top = 63 - (unsigned)__builtin_clzll(value);
    unsigned shift = top - HISTOGRAM_SUB_BITS;
    return (shift + 1) * SUB_COUNT + (unsigned)((value >> shift) - SUB_COUNT);
}

/* The largest value of a bucket. */
static uint64_t value_of(unsigned bucket)
{
    if (bucket < SUB_COUNT) {
        return bucket;
    }
    unsigned shift = bucket / SUB_COUNT - 1;
    uint64_t first = ((uint64_t)(bucket % SUB_COUNT) + SUB_COUNT) << shift;
    return first + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    histogram->most = value > histogram->most ? value : histogram->most;
}

uint64_t histogram_per_mille(const struct histogram *histogram, unsigned per_mille)
{
    uint64_t wanted = histogram->count / PER_MILLE * per_mille + histogram->count % PER_MILLE * per_mille / PER_MILLE;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && seen >= wanted) {
            uint64_t value = value_of(i);
            return value < histogram->most ? value : histogram->most;
        }
    }
    return 0;
}
