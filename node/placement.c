/* node/placement.c - see placement.h. */
#include "node/placement.h"

/* splitmix64's finisher: spreads ties, nothing else. */
static uint64_t mix(uint64_t seed, uint32_t id)
{
    uint64_t value = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)id * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static bool is_among(uint32_t id, const uint32_t *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static bool is_better(const struct lq_placement_node *a, const struct lq_placement_node *b, uint64_t seed)
{
    if (a->second_choice != b->second_choice) {
        return b->second_choice;
    }
    if (a->replicas != b->replicas) {
        return a->replicas < b->replicas;
    }
    uint64_t mixed_a = mix(seed, a->id);
    uint64_t mixed_b = mix(seed, b->id);
    return mixed_a != mixed_b ? mixed_a < mixed_b : a->id < b->id;
}

static struct lq_placement_node *best_of(struct lq_placement_node *nodes, size_t node_count, const uint32_t *taken,
                                         unsigned taken_count, uint64_t seed)
{
    struct lq_placement_node *best = NULL;
    for (size_t i = 0; i < node_count; i++) {
        if (!is_among(nodes[i].id, taken, taken_count) && (best == NULL || is_better(&nodes[i], best, seed))) {
            best = &nodes[i];
        }
    }
    return best;
}

uint32_t lq_place_replica(struct lq_placement_node *nodes, size_t node_count, const uint32_t *taken,
                          unsigned taken_count, uint64_t seed)
{
    struct lq_placement_node *best = best_of(nodes, node_count, taken, taken_count, seed);
    if (best == NULL) {
        return 0;
    }
    best->replicas++;
    return best->id;
}

static bool leads_less(const struct lq_placement_node *a, const struct lq_placement_node *b)
{
    return a->leaders != b->leaders ? a->leaders < b->leaders : a->shard_leaders < b->shard_leaders;
}

bool lq_place_partition(struct lq_placement_node *nodes, size_t node_count, unsigned replicas, uint64_t seed,
                        uint32_t chosen[LQ_REPLICAS_MAX])
{
    if (replicas == 0 || replicas > LQ_REPLICAS_MAX || replicas > node_count) {
        return false;
    }
    struct lq_placement_node *places[LQ_REPLICAS_MAX];
    unsigned first = 0;
    for (unsigned i = 0; i < replicas; i++) {
        places[i] = best_of(nodes, node_count, chosen, i, seed);
        places[i]->replicas++;
        chosen[i] = places[i]->id;
        const struct lq_placement_node *leader = places[first];
        if (places[i]->second_choice == leader->second_choice && leads_less(places[i], leader)) {
            first = i;
        }
    }
    places[first]->leaders++;
    uint32_t leader = chosen[first];
    chosen[first] = chosen[0];
    chosen[0] = leader;
    return true;
}
