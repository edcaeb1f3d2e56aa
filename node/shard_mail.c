/* node/shard_mail.c - see shard_mail.h. */
#include "node/shard_mail.h"

#include <assert.h>

static struct lq_mail *take_all(struct lq_mailbox *box)
{
    uv_mutex_lock(&box->lock);
    struct lq_mail *first = box->first;
    box->first = NULL;
    box->end = &box->first;
    box->waiting = 0;
    uv_mutex_unlock(&box->lock);
    return first;
}

static void on_wake(uv_async_t *wake)
{
    struct lq_mailbox *box = wake->data;
    struct lq_mail *mail = take_all(box);
    while (mail != NULL) {
        struct lq_mail *next = mail->next; /* it may be somebody else's again in a moment */
        mail->next = NULL;
        box->cb(box->owner, mail);
        mail = next;
    }
}

static lightq_status add(struct lq_mailbox *box, struct lq_mail *mail, size_t most)
{
    uv_mutex_lock(&box->lock);
    bool taken = box->waiting < most;
    bool was_empty = box->first == NULL;
    if (taken) {
        mail->next = NULL;
        *box->end = mail;
        box->end = &mail->next;
        box->waiting++;
    }
    /* Under the lock: who opens the last mail of all may close the box then. */
    if (taken && was_empty) {
        (void)uv_async_send(&box->wake);
    }
    uv_mutex_unlock(&box->lock);
    return taken ? LIGHTQ_OK : LIGHTQ_EBUSY;
}

lightq_status lq_mailbox_init(struct lq_mailbox *box, uv_loop_t *loop, lq_mailbox_cb cb, void *owner,
                              struct lq_err *err)
{
    *box = (struct lq_mailbox){.cb = cb, .owner = owner};
    box->end = &box->first;
    if (uv_async_init(loop, &box->wake, on_wake) != 0) {
        return lq_err_set(err, LIGHTQ_ELIMIT, "no descriptors left for a shard's mailbox: raise the limit (ulimit -n)");
    }
    box->wake.data = box;
    box->open = true;
    if (uv_mutex_init(&box->lock) != 0) {
        lq_mailbox_close(box);
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for a shard's mailbox");
    }
    box->has_lock = true;
    return LIGHTQ_OK;
}

lightq_status lq_mailbox_offer(struct lq_mailbox *box, struct lq_mail *mail)
{
    return add(box, mail, LQ_MAIL_WAITING_MAX);
}

void lq_mailbox_put(struct lq_mailbox *box, struct lq_mail *mail)
{
    lightq_status status = add(box, mail, SIZE_MAX);
    assert(status == LIGHTQ_OK);
    (void)status;
}

void lq_mailbox_close(struct lq_mailbox *box)
{
    if (!box->open) {
        return;
    }
    box->open = false;
    assert(box->first == NULL);
    uv_close((uv_handle_t *)&box->wake, NULL);
}

void lq_mailbox_deinit(struct lq_mailbox *box)
{
    if (box->has_lock) {
        uv_mutex_destroy(&box->lock);
    }
}
