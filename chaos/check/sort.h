/* chaos/check/sort.h - one sort for all checkers: stable, by two numbers, in linear time. */
#ifndef LQ_CHECK_SORT_H
#define LQ_CHECK_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"

struct lq_sort_item {
    uint64_t minor;
    uint32_t major;
    uint32_t value; /* whatever it stands for */
};

/* By major, then minor; equal ones stay in their order. OK | ENOMEM (then the order is any). */
lightq_status lq_sort(struct lq_sort_item *items, size_t count) LQ_MUST_CHECK;
/* The first of sorted @items whose (major, minor) is not below the given one; @count when there is none. */
size_t lq_sort_lower(const struct lq_sort_item *items, size_t count, uint32_t major, uint64_t minor);

#endif
