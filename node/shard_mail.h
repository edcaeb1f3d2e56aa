/* node/shard_mail.h - a shard's mailbox: the only thing that more than one thread of a node's own touches, and the only
 * lock. Made and closed by node/shard.c on the thread of the loop it belongs to; mail is put on any thread, and opened
 * on the loop's. What mail is: node/house.h. Why: docs/adr/0009. */
#ifndef LQ_NODE_SHARD_MAIL_H
#define LQ_NODE_SHARD_MAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "node/house.h"

/* For each mail, on the loop's thread, in the order of their coming. It may be put elsewhere inside. */
typedef void (*lq_mailbox_cb)(void *owner, struct lq_mail *mail);

struct lq_mailbox {
    uv_async_t wake;
    uv_mutex_t lock; /* of the members up to the next comment */
    struct lq_mail *first, **end;
    size_t waiting;
    /* set once */
    lq_mailbox_cb cb;
    void *owner;
    bool open, has_lock;
};

/* Before the loop's thread runs. OK | ELIMIT: no descriptors left | ENOMEM. On failure too: close, then deinit. */
lightq_status lq_mailbox_init(struct lq_mailbox *box, uv_loop_t *loop, lq_mailbox_cb cb, void *owner,
                              struct lq_err *err) LQ_MUST_CHECK;
/* OK: it will be opened. EBUSY: LQ_MAIL_WAITING_MAX wait already; nothing was taken. */
lightq_status lq_mailbox_offer(struct lq_mailbox *box, struct lq_mail *mail) LQ_MUST_CHECK;
/* Never refused: for answers, and for mail of which there is a fixed number. */
void lq_mailbox_put(struct lq_mailbox *box, struct lq_mail *mail);
/* On the loop's thread, when nobody will put anything any more and all that was put has been opened. A box of zeros, or
 * one that is closed, may be closed too. */
void lq_mailbox_close(struct lq_mailbox *box);
/* When the loop has ended, and so have all threads that put mail into it. */
void lq_mailbox_deinit(struct lq_mailbox *box);

#endif
