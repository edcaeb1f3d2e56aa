/* chaos/check/check_places.c - what lies at each offset by all that was told of it: one value for each place (value),
 * one place for each message (doubled), each producer's messages in order (order). Called by check.c.
 *
 * Acknowledgements and reads are sorted by log and offset; at each place the first one named, an acknowledgement before
 * a read, is taken as what lies there. */
#include <inttypes.h>
#include <stdlib.h>

#include "chaos/check/checkers.h"

/* What a sorted item stands for: its value counts through the acknowledged messages, then moved, then reads. */
struct told {
    uint32_t message;
    uint32_t crc;
    bool has_crc;
};

struct walk {
    struct lq_check *check;
    uint32_t *place_of;      /* of each message: the place where it was seen last, or LQ_INDEX_NONE */
    uint64_t *last_sequence; /* of each producer, in the log last_log */
    uint32_t *last_log;      /* of each producer: LQ_INDEX_NONE at first */
};

static struct told told_of(const struct lq_history *history, uint32_t value)
{
    if (value < history->message_count) {
        return (struct told){.message = value};
    }
    value -= history->message_count;
    if (value < history->moved_count) {
        return (struct told){.message = history->moved[value].message};
    }
    const struct lq_read_event *read = &history->reads[value - history->moved_count];
    return (struct told){.message = read->message, .crc = read->crc, .has_crc = true};
}

/* One item for everything that names a place. */
static lightq_status collect(const struct lq_history *history, struct lq_sort_item **items, size_t *count)
{
    size_t most = (size_t)history->message_count + history->moved_count + history->read_count;
    struct lq_sort_item *all = most > UINT32_MAX ? NULL : lq_check_zeroed(most, sizeof *all);
    if (all == NULL) {
        return LIGHTQ_ENOMEM;
    }
    size_t used = 0;
    for (uint32_t i = 0; i < history->message_count; i++) {
        const struct lq_message *message = &history->messages[i];
        if (message->outcome == LQ_OUTCOME_OK && message->offset != LQ_HISTORY_UNKNOWN) {
            all[used++] = (struct lq_sort_item){.major = message->log, .minor = message->offset, .value = i};
        }
    }
    uint32_t base = history->message_count;
    for (uint32_t i = 0; i < history->moved_count; i++) {
        if (history->moved[i].offset != LQ_HISTORY_UNKNOWN) {
            all[used++] = (struct lq_sort_item){
                .major = history->moved[i].log, .minor = history->moved[i].offset, .value = base + i};
        }
    }
    base += history->moved_count;
    for (uint32_t i = 0; i < history->read_count; i++) {
        const struct lq_read_event *read = &history->reads[i];
        if (read->message != LQ_HISTORY_NONE) {
            all[used++] = (struct lq_sort_item){
                .major = history->tracks.at[read->track].second, .minor = read->offset, .value = base + i};
        }
    }
    *items = all;
    *count = used;
    return lq_sort(all, used);
}

/* The message told for @place; whether it was seen elsewhere before. */
static void check_doubled(struct walk *walk, uint32_t place, uint32_t message)
{
    struct lq_check *check = walk->check;
    uint32_t before = walk->place_of[message];
    walk->place_of[message] = place;
    if (before == LQ_INDEX_NONE || before == place) {
        return;
    }
    char text[LQ_MESSAGE_TEXT_BYTES];
    const struct lq_place *first = &check->places[before], *second = &check->places[place];
    lq_check_found(check, LQ_CHECKER_doubled, "%s at %s offset %" PRIu64 " and %s offset %" PRIu64,
                   lq_check_message_text(check, message, text), lq_check_log_name(check, first->log), first->offset,
                   lq_check_log_name(check, second->log), second->offset);
}

/* Whether @place is where its message is to be ordered: the first one in its log, and in no other log than the one that
 * acknowledged it. So a double is one finding, whichever log comes first. */
static bool belongs_here(const struct walk *walk, const struct lq_place *place)
{
    const struct lq_message *message = &walk->check->history->messages[place->message];
    if (message->outcome == LQ_OUTCOME_OK && message->log != place->log) {
        return false;
    }
    uint32_t before = walk->place_of[place->message];
    return before == LQ_INDEX_NONE || walk->check->places[before].log != place->log;
}

/* The message at @place, which belongs there, against its producer's one before it. */
static void check_order(struct walk *walk, const struct lq_place *place)
{
    const struct lq_message *message = &walk->check->history->messages[place->message];
    uint32_t producer = message->producer;
    lq_check_looked(walk->check, LQ_CHECKER_order, 1);
    bool behind = walk->last_log[producer] == place->log && message->sequence < walk->last_sequence[producer];
    if (behind) {
        char text[LQ_MESSAGE_TEXT_BYTES];
        lq_check_found(walk->check, LQ_CHECKER_order, "%s at %s offset %" PRIu64 " is behind sequence %" PRIu64,
                       lq_check_message_text(walk->check, place->message, text),
                       lq_check_log_name(walk->check, place->log), place->offset, walk->last_sequence[producer]);
    }
    walk->last_log[producer] = place->log;
    walk->last_sequence[producer] = message->sequence;
}

static void found_two_values(struct lq_check *check, const struct lq_place *place, const struct told *first,
                             const struct told *second)
{
    char one[LQ_MESSAGE_TEXT_BYTES], two[LQ_MESSAGE_TEXT_BYTES];
    lq_check_found(check, LQ_CHECKER_value, "%s offset %" PRIu64 ": %s (%08" PRIx32 ") and %s (%08" PRIx32 ")",
                   lq_check_log_name(check, place->log), place->offset,
                   lq_check_message_text(check, first->message, one), first->crc,
                   lq_check_message_text(check, second->message, two), second->crc);
}

/* The @count items of one place. */
static void walk_place(struct walk *walk, const struct lq_sort_item *items, size_t count)
{
    struct lq_check *check = walk->check;
    struct told first = told_of(check->history, items[0].value);
    uint32_t at = check->place_count++;
    struct lq_place *place = &check->places[at];
    *place = (struct lq_place){.offset = items[0].minor, .log = items[0].major, .message = first.message};
    bool counts = belongs_here(walk, place);
    check_doubled(walk, at, first.message);
    if (counts) {
        check_order(walk, place);
    }
    bool differs = false;
    for (size_t i = 1; i < count; i++) {
        struct told other = told_of(check->history, items[i].value);
        bool same = other.message == first.message && !(first.has_crc && other.has_crc && first.crc != other.crc);
        if (!same && !differs) {
            differs = true;
            found_two_values(check, place, &first, &other);
        }
        if (same && !first.has_crc) {
            first = other;
        }
        check_doubled(walk, at, other.message);
    }
    lq_check_looked(check, LQ_CHECKER_value, 1);
    lq_check_looked(check, LQ_CHECKER_doubled, 1);
}

static lightq_status walk_items(struct walk *walk, const struct lq_sort_item *items, size_t count)
{
    struct lq_check *check = walk->check;
    check->places = lq_check_zeroed(count, sizeof *check->places);
    if (check->places == NULL) {
        return LIGHTQ_ENOMEM;
    }
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && items[end].major == items[i].major && items[end].minor == items[i].minor) {
            end++;
        }
        walk_place(walk, items + i, end - i);
        i = end;
    }
    return LIGHTQ_OK;
}

static void fill_none(uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = LQ_INDEX_NONE;
    }
}

lightq_status lq_check_places(struct lq_check *check)
{
    const struct lq_history *history = check->history;
    struct lq_sort_item *items = NULL;
    size_t count = 0;
    lightq_status status = collect(history, &items, &count);
    struct walk walk = {.check = check};
    walk.place_of = lq_check_zeroed(history->message_count, sizeof *walk.place_of);
    walk.last_sequence = lq_check_zeroed(history->producers.count, sizeof *walk.last_sequence);
    walk.last_log = lq_check_zeroed(history->producers.count, sizeof *walk.last_log);
    if (walk.place_of == NULL || walk.last_sequence == NULL || walk.last_log == NULL) {
        status = LIGHTQ_ENOMEM;
    }
    if (status == LIGHTQ_OK) {
        fill_none(walk.place_of, history->message_count);
        fill_none(walk.last_log, history->producers.count);
        status = walk_items(&walk, items, count);
    }
    free(items);
    free(walk.place_of);
    free(walk.last_sequence);
    free(walk.last_log);
    return status;
}
