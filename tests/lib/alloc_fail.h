/* tests/lib/alloc_fail.h - makes one allocation of our code fail. Link lq_alloc_fail: it puts itself between our
 * objects and malloc, calloc, realloc, aligned_alloc, strdup (not between shared libraries and theirs). Any thread may
 * allocate; one thread at a time asks for failures. */
#ifndef LQ_TESTS_ALLOC_FAIL_H
#define LQ_TESTS_ALLOC_FAIL_H

#include <stdbool.h>

/* The @nth allocation from now on (1 is the next) gives NULL, and no other. */
void lq_alloc_fail_at(unsigned nth);
/* No allocation fails from now on. True when one did since lq_alloc_fail_at: a sweep is over when it did not. */
bool lq_alloc_fail_end(void);

#endif
