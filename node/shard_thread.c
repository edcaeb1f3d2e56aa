/* node/shard_thread.c - the threads of shards 1 and on, and the mail between them and shard 0: orders, notices, totals.
 * See shard.h. Each kind of order and notice exists once in a shard's life, so none is ever refused or lost. Mail is
 * opened in the order of its coming: what a shard sent before it told LQ_SHARD_CLOSED was opened before. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "client/base/log.h"
#include "node/shard.h"

#define THREAD_NAME_BYTES 16

/* ---- the way from shard to shard */

static lightq_status on_offer(struct lq_house *house, unsigned to, struct lq_mail *mail)
{
    return lq_mailbox_offer(&((struct lq_shard *)house)->all[to].box, mail);
}

static void on_put(struct lq_house *house, unsigned to, struct lq_mail *mail)
{
    lq_mailbox_put(&((struct lq_shard *)house)->all[to].box, mail);
}

const struct lq_house_ops lq_shard_house_ops = {.offer = on_offer, .put = on_put};

/* ---- to shard 0 */

static void on_notice(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_shard *zero = (struct lq_shard *)house;
    struct lq_shard *from = &zero->all[mail->home];
    (void)meta;
    for (unsigned i = 0; i < LQ_SHARD_NEWS_COUNT; i++) {
        if (mail == &from->notices[i].mail) {
            zero->events->news(zero->owner, from, from->notices[i].news);
        }
    }
}

void lq_shard_tell(struct lq_shard *shard, enum lq_shard_news news)
{
    if (!shard->threaded) {
        shard->events->news(shard->owner, shard, news);
        return;
    }
    shard->notices[news].news = news;
    shard->notices[news].mail = (struct lq_mail){.open = on_notice, .home = shard->number};
    on_put(&shard->house, 0, &shard->notices[news].mail);
}

static void on_report_home(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    (void)mail;
    (void)meta;
    ((struct lq_shard *)house)->report.away = false;
}

static void on_report(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_shard *from = &((struct lq_shard *)house)->all[mail->home];
    (void)meta;
    from->totals = from->report.totals;
    mail->open = on_report_home;
    on_put(house, mail->home, mail);
}

void lq_shard_thread_tick(struct lq_shard *shard)
{
    if (!shard->report.away && !shard->closing) {
        shard->report.away = true;
        lq_totals_take(shard, &shard->report.totals);
        shard->report.mail = (struct lq_mail){.open = on_report, .home = shard->number};
        on_put(&shard->house, 0, &shard->report.mail);
    }
}

/* ---- from shard 0 */

static void execute(struct lq_shard *shard, enum lq_shard_order order)
{
    switch (order) {
    case LQ_ORDER_START:
        lq_shard_start(shard);
        break;
    case LQ_ORDER_DRAIN:
        lq_shard_drain(shard);
        break;
    case LQ_ORDER_CLOSE:
        if (shard->started) {
            shard->told_to_close = true; /* at the end of a turn */
        } else {
            lq_shard_close(shard);
        }
        break;
    case LQ_ORDER_END:
        lq_mailbox_close(&shard->box);
        break;
    case LQ_ORDER_COUNT:
        break;
    }
}

static void on_order(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta)
{
    struct lq_shard *shard = (struct lq_shard *)house;
    (void)meta;
    execute(shard, (enum lq_shard_order)(mail - shard->orders));
}

void lq_shard_order(struct lq_shard *shard, enum lq_shard_order order)
{
    if (shard->threaded) {
        shard->orders[order] = (struct lq_mail){.open = on_order};
        lq_mailbox_put(&shard->box, &shard->orders[order]);
    } else if (order == LQ_ORDER_CLOSE) {
        /* It has never run, so nobody has sent it anything: what there is of it is closed here and now. */
        lq_shard_close(shard);
        lq_mailbox_close(&shard->box);
        if (shard->prepare.data != NULL) {
            (void)uv_run(&shard->loop, UV_RUN_DEFAULT);
        }
    }
}

void lq_shard_thread_turn(struct lq_shard *shard)
{
    if (shard->told_to_close && !shard->closing) {
        lq_shard_close(shard);
    }
}

/* ---- the thread

 * It begins by waiting for the order to start: until all shards have a thread none takes a turn, and nothing is sent.
 */

static void on_thread(void *data)
{
    struct lq_shard *shard = data;
    char name[THREAD_NAME_BYTES];
    (void)snprintf(name, sizeof name, "shard-%u", shard->number);
    (void)pthread_setname_np(pthread_self(), name);
    (void)uv_run(&shard->loop, UV_RUN_DEFAULT);
}

lightq_status lq_shard_run(struct lq_shard *shard, struct lq_err *err)
{
    shard->threaded = true;
    if (uv_thread_create(&shard->thread, on_thread, shard) != 0) {
        shard->threaded = false;
        return lq_err_set(err, LIGHTQ_ELIMIT, "no thread for shard %u: raise the limit (ulimit -u)", shard->number);
    }
    return LIGHTQ_OK;
}

void lq_shard_join(struct lq_shard *shard)
{
    if (shard->threaded) {
        (void)uv_thread_join(&shard->thread);
        shard->threaded = false;
    }
}
