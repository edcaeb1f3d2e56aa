/* chaos/sim/plan.c - see plan.h. */
#include "chaos/sim/plan.h"

#include <stdlib.h>

enum {
    COUNT_MIN = 32, /* some cannot be done at their time: 20 are */
    COUNT_SPREAD = 16,
    LASTS_MIN_US = 50000,
    LASTS_MAX_US = 3000000,
    DENSE_FACTOR = 2,
    MODES = 3,
    FOUNDERS = 3,
};

static const struct {
    const char *name, *what;
    unsigned weight;
} kinds[] = {
#define X(name, weight, what) {#name, what, weight},
    FAULT_KINDS(X)
#undef X
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Each seed has its favourites: of many kinds some never come, so that others come together. */
static enum fault_kind choose(uint64_t *random, uint64_t favourites, unsigned count)
{
    for (;;) {
        unsigned total = 0;
        for (unsigned i = 0; i < count; i++) {
            total += kinds[i].weight;
        }
        uint64_t at = next_random(random) % total;
        unsigned kind = 0;
        while (at >= kinds[kind].weight) {
            at -= kinds[kind++].weight;
        }
        if ((favourites >> kind & 1) != 0) {
            return (enum fault_kind)kind;
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const struct fault *first = a;
    const struct fault *second = b;
    return first->at_us < second->at_us ? -1 : first->at_us > second->at_us;
}

void plan_make(struct plan *plan, uint64_t seed, unsigned nodes, uint64_t span_us, bool dense)
{
    uint64_t random = seed ^ UINT64_C(0x5e9f2d3c4b1a0876);
    uint64_t favourites = next_random(&random) | next_random(&random);
    unsigned factor = dense ? DENSE_FACTOR : 1;
    plan->count = (COUNT_MIN + (unsigned)(next_random(&random) % COUNT_SPREAD)) * factor;
    plan->count = plan->count > PLAN_FAULTS_MAX ? PLAN_FAULTS_MAX : plan->count;
    favourites |= UINT64_C(1) << FAULT_CRASH;  /* there is always something to choose */
    favourites |= UINT64_C(1) << FAULT_RETIRE; /* once, when it can be */
    for (unsigned i = 0; i < plan->count; i++) {
        struct fault *fault = &plan->at[i];
        fault->at_us = next_random(&random) % span_us;
        fault->lasts_us = LASTS_MIN_US + next_random(&random) % (LASTS_MAX_US - LASTS_MIN_US);
        fault->kind = choose(&random, favourites, nodes > FOUNDERS ? FAULT_KIND_COUNT : FAULT_RETIRE);
        fault->a = (unsigned)(next_random(&random) % nodes);
        fault->b = (fault->a + 1 + (unsigned)(next_random(&random) % (nodes - 1))) % nodes;
        fault->leader = next_random(&random) % 2 == 0;
        fault->mode = (unsigned)(next_random(&random) % MODES);
        fault->number = next_random(&random);
    }
    qsort(plan->at, plan->count, sizeof plan->at[0], by_time);
}

const char *fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

void fault_print(const struct fault *fault, FILE *to)
{
    fprintf(to, "%9.3f s  %-14s node %u%s, other %u, mode %u, %.3f s: %s\n", (double)fault->at_us / 1e6,
            kinds[fault->kind].name, fault->a + 1, fault->leader ? " or leader" : "", fault->b + 1, fault->mode,
            (double)fault->lasts_us / 1e6, kinds[fault->kind].what);
}
