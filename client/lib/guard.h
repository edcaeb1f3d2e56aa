/* client/lib/guard.h - tells a process apart from its forked child without a system call: a page that the kernel
 * gives to a child filled with zeros (madvise(2), MADV_WIPEONFORK). Where the kernel cannot, getpid() decides. Any
 * thread. */
#ifndef LQ_LIB_GUARD_H
#define LQ_LIB_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "client/base/err.h"

struct lq_guard {
    volatile unsigned char *page; /* 1 here, 0 in a child; NULL: the kernel cannot */
    pid_t process;
};

/* OK: undo with lq_guard_deinit. ENOMEM: nothing to undo. */
lightq_status lq_guard_init(struct lq_guard *guard) LQ_MUST_CHECK;
void lq_guard_deinit(struct lq_guard *guard);

bool lq_guard_forked_slowly(const struct lq_guard *guard);

/* True in a child of the process that called init. */
static inline bool lq_guard_forked(const struct lq_guard *guard)
{
    return guard->page != NULL ? *guard->page == 0 : lq_guard_forked_slowly(guard);
}

#endif
