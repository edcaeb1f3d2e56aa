/* node/outlet.c - see outlet.h. */
#include "node/outlet.h"

#include <stdlib.h>

struct lq_account *lq_account_new(void)
{
    struct lq_account *account = calloc(1, sizeof *account);
    if (account != NULL) {
        account->references = 1;
    }
    return account;
}

void lq_account_unref(struct lq_account *account)
{
    if (account != NULL && __atomic_sub_fetch(&account->references, 1, __ATOMIC_ACQ_REL) == 0) {
        free(account);
    }
}

uint64_t lq_account_bytes(const struct lq_account *account)
{
    return __atomic_load_n(&account->bytes, __ATOMIC_RELAXED);
}

void lq_account_take(struct lq_account *account, uint64_t bytes)
{
    (void)__atomic_add_fetch(&account->references, 1, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&account->bytes, bytes, __ATOMIC_RELAXED);
}

void lq_account_give(struct lq_account *account, uint64_t bytes)
{
    (void)__atomic_sub_fetch(&account->bytes, bytes, __ATOMIC_RELAXED);
    lq_account_unref(account);
}
