/* chaos/check/sort.c - radix sort from the lowest byte up. Bytes in which all items agree (most of an offset's) cost
 * nothing; what is sorted already costs one pass. See sort.h. */
#include "chaos/check/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_VALUES = 256, INSERTION_MAX = 32, MINOR_BYTES = 8, MAJOR_BYTES = 4 };

static bool before(const struct lq_sort_item *a, const struct lq_sort_item *b)
{
    return a->major != b->major ? a->major < b->major : a->minor < b->minor;
}

static bool is_sorted(const struct lq_sort_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (before(&items[i], &items[i - 1])) {
            return false;
        }
    }
    return true;
}

static void insertion_sort(struct lq_sort_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct lq_sort_item item = items[i];
        size_t at = i;
        while (at > 0 && before(&item, &items[at - 1])) {
            items[at] = items[at - 1];
            at--;
        }
        items[at] = item;
    }
}

/* Byte @place of an item, counted from the lowest of minor up through major. */
static unsigned byte_of(const struct lq_sort_item *item, unsigned place)
{
    return place < MINOR_BYTES ? (unsigned)(item->minor >> (8 * place)) & 0xff
                               : (item->major >> (8 * (place - MINOR_BYTES))) & 0xff;
}

/* Moves @from to @to in the order of byte @place. */
static void distribute(const struct lq_sort_item *from, struct lq_sort_item *to, size_t count, unsigned place)
{
    size_t starts[BYTE_VALUES] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[byte_of(&from[i], place)]++;
    }
    size_t sum = 0;
    for (size_t i = 0; i < BYTE_VALUES; i++) {
        size_t here = starts[i];
        starts[i] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++) {
        to[starts[byte_of(&from[i], place)]++] = from[i];
    }
}

lightq_status lq_sort(struct lq_sort_item *items, size_t count)
{
    if (is_sorted(items, count)) {
        return LIGHTQ_OK;
    }
    if (count <= INSERTION_MAX) {
        insertion_sort(items, count);
        return LIGHTQ_OK;
    }
    struct lq_sort_item *scratch = malloc(count * sizeof *scratch);
    if (scratch == NULL) {
        return LIGHTQ_ENOMEM;
    }
    struct lq_sort_item differs = {.minor = 0};
    for (size_t i = 1; i < count; i++) {
        differs.minor |= items[i].minor ^ items[0].minor;
        differs.major |= items[i].major ^ items[0].major;
    }
    struct lq_sort_item *from = items, *to = scratch;
    for (unsigned place = 0; place < MINOR_BYTES + MAJOR_BYTES; place++) {
        if (byte_of(&differs, place) != 0) {
            distribute(from, to, count, place);
            struct lq_sort_item *swap = from;
            from = to;
            to = swap;
        }
    }
    if (from != items) {
        memcpy(items, from, count * sizeof *items);
    }
    free(scratch);
    return LIGHTQ_OK;
}

size_t lq_sort_lower(const struct lq_sort_item *items, size_t count, uint32_t major, uint64_t minor)
{
    struct lq_sort_item wanted = {.minor = minor, .major = major};
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (before(&items[middle], &wanted)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
