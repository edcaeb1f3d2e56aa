/* tests/lib/alloc_fail.c - see alloc_fail.h. The linker's --wrap sends every allocation of our objects here. */
#include "tests/lib/alloc_fail.h"

#include <stddef.h>

static unsigned left; /* allocations until the one that fails; 0: none will. Atomic, as is the next */
static unsigned failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *string);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *string);

static bool fails(void)
{
    unsigned before = __atomic_load_n(&left, __ATOMIC_RELAXED);
    while (before > 0 &&
           !__atomic_compare_exchange_n(&left, &before, before - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    if (before != 1) {
        return false;
    }
    __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *string)
{
    return fails() ? NULL : __real_strdup(string);
}

void lq_alloc_fail_at(unsigned nth)
{
    __atomic_store_n(&failed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&left, nth, __ATOMIC_RELAXED);
}

bool lq_alloc_fail_end(void)
{
    __atomic_store_n(&left, 0, __ATOMIC_RELAXED);
    return __atomic_load_n(&failed, __ATOMIC_RELAXED) != 0;
}
