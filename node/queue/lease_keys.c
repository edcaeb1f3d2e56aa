/* node/queue/lease_keys.c - see lease_keys.h. */
#include "node/queue/lease_keys.h"

#include <assert.h>

/* A message in the line of its key. */
struct place {
    uint32_t previous, next; /* in the line, by offset */
    uint32_t line;           /* LQ_POOL_NONE: free */
    bool waits, delayed;
    uint64_t offset;
};

struct line {
    uint32_t first, last; /* places */
    uint32_t first_waiting;
    uint32_t held;
    uint32_t holder; /* while held > 0 */
    uint64_t key;
};

void lq_lease_keys_init(struct lq_lease_keys *keys)
{
    *keys = (struct lq_lease_keys){.waiting = 0};
    lq_pool_init(&keys->places, sizeof(struct place));
    lq_pool_init(&keys->lines, sizeof(struct line));
}

void lq_lease_keys_deinit(struct lq_lease_keys *keys)
{
    lq_pool_deinit(&keys->places);
    lq_pool_deinit(&keys->lines);
    lq_offset_map_deinit(&keys->place_of_offset);
    lq_offset_map_deinit(&keys->line_of_key);
    keys->waiting = 0;
}

lightq_status lq_lease_keys_reserve(struct lq_lease_keys *keys, uint32_t more)
{
    lightq_status status = lq_pool_reserve(&keys->places, more);
    if (status == LIGHTQ_OK) {
        status = lq_pool_reserve(&keys->lines, more);
    }
    if (status == LIGHTQ_OK) {
        status = lq_offset_map_reserve(&keys->place_of_offset, more);
    }
    if (status == LIGHTQ_OK) {
        status = lq_offset_map_reserve(&keys->line_of_key, more);
    }
    return status;
}

static struct place *place_at(const struct lq_lease_keys *keys, uint32_t number)
{
    return lq_pool_at(&keys->places, number);
}

static struct line *line_at(const struct lq_lease_keys *keys, uint32_t number)
{
    return lq_pool_at(&keys->lines, number);
}

static struct place *find(const struct lq_lease_keys *keys, uint64_t offset)
{
    uint32_t number = lq_offset_map_find(&keys->place_of_offset, offset);
    return number == LQ_OFFSET_MAP_NONE ? NULL : place_at(keys, number);
}

static uint32_t line_of(struct lq_lease_keys *keys, uint64_t key)
{
    uint32_t number = lq_offset_map_find(&keys->line_of_key, key);
    if (number == LQ_OFFSET_MAP_NONE) {
        number = lq_pool_take(&keys->lines);
        *line_at(keys, number) = (struct line){.first = LQ_POOL_NONE,
                                               .last = LQ_POOL_NONE,
                                               .first_waiting = LQ_POOL_NONE,
                                               .holder = LQ_KEY_NOBODY,
                                               .key = key};
        lq_offset_map_put(&keys->line_of_key, key, number);
    }
    return number;
}

void lq_lease_keys_pass(struct lq_lease_keys *keys, uint64_t offset, uint64_t key)
{
    assert(!lq_lease_keys_has(keys, offset));
    uint32_t line_number = line_of(keys, key);
    struct line *line = line_at(keys, line_number);
    uint32_t number = lq_pool_take(&keys->places);
    *place_at(keys, number) = (struct place){
        .previous = line->last, .next = LQ_POOL_NONE, .line = line_number, .waits = true, .offset = offset};
    *(line->last == LQ_POOL_NONE ? &line->first : &place_at(keys, line->last)->next) = number;
    line->last = number;
    if (line->first_waiting == LQ_POOL_NONE) {
        line->first_waiting = number;
    }
    keys->waiting++;
    lq_offset_map_put(&keys->place_of_offset, offset, number);
}

bool lq_lease_keys_has(const struct lq_lease_keys *keys, uint64_t offset)
{
    return find(keys, offset) != NULL;
}

void lq_lease_keys_delay(struct lq_lease_keys *keys, uint64_t offset, bool delayed)
{
    struct place *place = find(keys, offset);
    if (place != NULL) {
        place->delayed = delayed;
    }
}

bool lq_lease_keys_may(const struct lq_lease_keys *keys, uint64_t offset, uint32_t consumer)
{
    const struct place *place = find(keys, offset);
    assert(place != NULL);
    const struct line *line = line_at(keys, place->line);
    return place->waits && !place->delayed && place_at(keys, line->first_waiting) == place &&
           (line->held == 0 || line->holder == consumer);
}

/* @place, which is the first that waits, will not: the next one is. */
static void advance(const struct lq_lease_keys *keys, struct line *line, const struct place *place)
{
    uint32_t next = place->next;
    while (next != LQ_POOL_NONE && !place_at(keys, next)->waits) {
        next = place_at(keys, next)->next;
    }
    line->first_waiting = next;
}

static bool is_first_waiting(const struct lq_lease_keys *keys, const struct line *line, const struct place *place)
{
    return line->first_waiting != LQ_POOL_NONE && place_at(keys, line->first_waiting) == place;
}

static void stop_waiting(struct lq_lease_keys *keys, struct line *line, struct place *place)
{
    if (is_first_waiting(keys, line, place)) {
        advance(keys, line, place);
    }
    place->waits = false;
    keys->waiting--;
}

void lq_lease_keys_hold(struct lq_lease_keys *keys, uint64_t offset, uint32_t consumer)
{
    struct place *place = find(keys, offset);
    if (place == NULL || !place->waits) {
        return;
    }
    struct line *line = line_at(keys, place->line);
    stop_waiting(keys, line, place);
    if (line->held++ == 0) {
        line->holder = consumer;
    }
}

void lq_lease_keys_wait(struct lq_lease_keys *keys, uint64_t offset)
{
    struct place *place = find(keys, offset);
    if (place == NULL || place->waits) {
        return;
    }
    struct line *line = line_at(keys, place->line);
    place->waits = true;
    keys->waiting++;
    if (--line->held == 0) {
        line->holder = LQ_KEY_NOBODY;
    }
    if (line->first_waiting == LQ_POOL_NONE || place_at(keys, line->first_waiting)->offset > offset) {
        line->first_waiting = (uint32_t)(place - place_at(keys, 0));
    }
}

bool lq_lease_keys_leave(struct lq_lease_keys *keys, uint64_t offset, uint64_t *next)
{
    struct place *place = find(keys, offset);
    if (place == NULL) {
        return false;
    }
    uint32_t number = (uint32_t)(place - place_at(keys, 0));
    uint32_t line_number = place->line;
    struct line *line = line_at(keys, line_number);
    if (place->waits) {
        stop_waiting(keys, line, place);
    } else if (--line->held == 0) {
        line->holder = LQ_KEY_NOBODY;
    }
    *(place->previous == LQ_POOL_NONE ? &line->first : &place_at(keys, place->previous)->next) = place->next;
    *(place->next == LQ_POOL_NONE ? &line->last : &place_at(keys, place->next)->previous) = place->previous;
    (void)lq_offset_map_remove(&keys->place_of_offset, offset);
    place->line = LQ_POOL_NONE;
    bool is_last = line->first == LQ_POOL_NONE;
    if (!is_last) {
        *next = place_at(keys, line->first)->offset;
    } else {
        (void)lq_offset_map_remove(&keys->line_of_key, line->key);
        lq_pool_give(&keys->lines, line_number);
    }
    lq_pool_give(&keys->places, number);
    return !is_last;
}

bool lq_lease_keys_first(const struct lq_lease_keys *keys, uint64_t offset, uint64_t *first, uint32_t *holder)
{
    const struct place *place = find(keys, offset);
    const struct line *line = place == NULL ? NULL : line_at(keys, place->line);
    if (line == NULL || line->first_waiting == LQ_POOL_NONE) {
        return false;
    }
    const struct place *waiting = place_at(keys, line->first_waiting);
    *first = waiting->offset;
    *holder = line->holder;
    return !waiting->delayed;
}

void lq_lease_keys_each_below(struct lq_lease_keys *keys, uint64_t end, void (*cb)(void *data, uint64_t offset),
                              void *data)
{
    for (uint32_t number = 0; number < keys->places.high; number++) {
        const struct place *place = place_at(keys, number);
        if (place->line != LQ_POOL_NONE && place->offset < end) {
            cb(data, place->offset);
        }
    }
}
