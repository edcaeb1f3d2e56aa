/* client/lib/guard.c - see guard.h. */
#include "client/lib/guard.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

lightq_status lq_guard_init(struct lq_guard *guard)
{
    *guard = (struct lq_guard){.process = getpid()};
    void *page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return LIGHTQ_ENOMEM;
    }
    if (madvise(page, page_size(), MADV_WIPEONFORK) != 0) {
        munmap(page, page_size()); /* an older kernel: getpid() decides */
        return LIGHTQ_OK;
    }
    guard->page = page;
    *guard->page = 1;
    return LIGHTQ_OK;
}

void lq_guard_deinit(struct lq_guard *guard)
{
    if (guard->page != NULL) {
        munmap((void *)guard->page, page_size());
        guard->page = NULL;
    }
}

bool lq_guard_forked_slowly(const struct lq_guard *guard)
{
    return getpid() != guard->process;
}
