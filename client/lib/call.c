/* client/lib/call.c - see call.h. The waiting thread sleeps on the call's condition; everything else happens on the I/O
 * thread, which always finishes a call by its deadline. */
#include "client/lib/call.h"

#include <string.h>

#include "client/lib/error.h"

#define US_PER_MS 1000u

static struct lq_call *call_of_observer(struct lq_observer *observer)
{
    return lq_container(observer, struct lq_call, observer);
}

/* The caller may free the call from here on. */
static void finish(struct lq_call *call)
{
    struct lq_io *io = &call->client->io;
    lq_request_cancel(&call->request);
    lq_io_forget(io, &call->observer);
    if (call->held != NULL) {
        lq_meta_release(io->meta, call->held);
    }
    pthread_mutex_lock(&call->lock);
    call->finished = true;
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

static void fail(struct lq_call *call, lightq_status status, const char *text)
{
    lq_error_set(&call->error, status, "%s", text != NULL && text[0] != '\0' ? text : lightq_status_text(status));
    finish(call);
}

/* The time is over: what a server said last, or else what is wrong with the connections. */
static void give_up(struct lq_call *call)
{
    bool on_its_way = call->request.conn != NULL;
    if (call->refused_once && !on_its_way) {
        finish(call);
    } else if (on_its_way || call->in_doubt) {
        fail(call, LIGHTQ_ETIMEDOUT, "no answer in time: it may have been done or may still be");
    } else if (lq_conn_any(&call->client->io, NULL) == NULL) {
        lq_client_trouble(call->client, LIGHTQ_ECONNECT, &call->error);
        finish(call);
    } else {
        fail(call, LIGHTQ_EUNAVAILABLE, "no server could answer in time: the partition has no leader");
    }
}

static void retry_later(struct lq_call *call)
{
    struct lq_io *io = &call->client->io;
    call->observer.deadline_us = io->now_us + io->options.retry_backoff_ms * US_PER_MS;
}

/* To the server that was named, at once, unless we come from it. */
static void follow(struct lq_call *call, const Lightq__Wire__Leader *leader)
{
    struct lq_io *io = &call->client->io;
    struct lq_conn *named = NULL;
    if (leader != NULL && leader->endpoint[0] != '\0') {
        named = lq_conn_get(io, leader->endpoint);
    }
    call->hinted = NULL;
    if (named != NULL && named != call->last) {
        call->hinted = named;
        call->observer.deadline_us = io->now_us;
    }
}

/* Another server may know it. */
static bool is_missed_by_one(struct lq_call *call, const struct lq_reply *reply)
{
    if (!call->any_may_miss || !reply->answered || reply->status != LIGHTQ_ENOTFOUND) {
        return false;
    }
    call->missing++;
    return !lq_meta_enough_miss(call->client->io.meta, call->missing);
}

static void on_reply(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_call *call = lq_container(request, struct lq_call, request);
    struct lq_io *io = &call->client->io;
    if (reply->status == LIGHTQ_OK || (reply->answered && call->in_doubt && reply->status == call->repeated)) {
        call->answer = reply->body;
        reply->body = NULL;
        call->error.status = LIGHTQ_OK;
        finish(call);
        return;
    }
    if (!reply->answered || reply->status == LIGHTQ_ETIMEDOUT || reply->status == LIGHTQ_ELEADERSHIPLOST) {
        call->in_doubt = true;
    }
    bool missed_by_one = is_missed_by_one(call, reply);
    if (reply->answered && !lightq_status_retriable(reply->status) && !missed_by_one) {
        if (call->keep_refusal) {
            call->answer = reply->body;
            reply->body = NULL;
        }
        fail(call, reply->status, reply->text);
        return;
    }
    if (reply->answered) {
        call->refused_once = true;
        lq_error_set(&call->error, reply->status, "%s",
                     reply->text[0] != '\0' ? reply->text : lightq_status_text(reply->status));
    }
    retry_later(call);
    if (missed_by_one) {
        call->observer.deadline_us = lq_meta_next_vote_us(io->meta, call->last);
    } else if (call->held == NULL) {
        follow(call, reply->leader);
    } else if (!lq_meta_hint(io->meta, call->held, (uint32_t)call->partition, reply->leader)) {
        lq_meta_doubt(io->meta, call->held, (uint32_t)call->partition);
    }
}

/* The leader to ask; NULL: not known or not ready, or the call has failed. */
static struct lq_conn *find_leader(struct lq_call *call)
{
    struct lq_topic *topic = call->held;
    if (topic->status == LIGHTQ_ENOTREADY) {
        return NULL;
    }
    if (topic->status != LIGHTQ_OK) {
        lq_error_set(&call->error, topic->status, "topic %s: %s", topic->name, topic->text);
        finish(call);
        return NULL;
    }
    if (call->only_count) {
        call->partition_count = topic->partition_count;
        call->error.status = LIGHTQ_OK;
        finish(call);
        return NULL;
    }
    if (call->partition < 0 || (uint32_t)call->partition >= topic->partition_count) {
        lq_error_set(&call->error, LIGHTQ_ENOTFOUND, "topic %s has partitions 0 to %u, and not %d", topic->name,
                     topic->partition_count - 1, call->partition);
        finish(call);
        return NULL;
    }
    const struct lq_meta_partition *partition = &topic->partitions[call->partition];
    if (partition->leader_conn == NULL) {
        lq_meta_doubt(call->client->io.meta, topic, (uint32_t)call->partition);
        return NULL;
    }
    return lq_conn_want(partition->leader_conn) ? partition->leader_conn : NULL;
}

/* Whom to ask now; NULL: nobody yet, or the call has failed. */
static struct lq_conn *find_server(struct lq_call *call)
{
    if (call->held != NULL) {
        return find_leader(call);
    }
    if (call->hinted != NULL && lq_conn_want(call->hinted)) {
        return call->hinted;
    }
    if (call->hinted != NULL && call->hinted->state == LQ_CONN_CONNECTING) {
        return NULL;
    }
    return lq_conn_any(&call->client->io, call->last);
}

static void attempt(struct lq_call *call)
{
    struct lq_io *io = &call->client->io;
    struct lq_conn *conn = find_server(call);
    if (conn == NULL) {
        return; /* on_conn, on_topic or the tick go on */
    }
    if (call->prepare != NULL) {
        call->prepare(call, call->held);
    }
    call->last = conn;
    call->observer.deadline_us = call->deadline_us;
    lightq_status status = lq_conn_request(conn, &call->request, call->type,
                                           call->held != NULL ? call->held->partitions[call->partition].group : 0,
                                           call->body, NULL, call->deadline_us - io->now_us);
    if (status == LIGHTQ_ETOOBIG || status == LIGHTQ_ENOMEM) {
        fail(call, status, NULL);
    } else if (status != LIGHTQ_OK) {
        retry_later(call);
    }
}

static void go_on(struct lq_call *call)
{
    uint64_t now_us = call->client->io.now_us;
    bool due = now_us >= call->observer.deadline_us;
    if (now_us >= call->deadline_us) {
        give_up(call);
        return;
    }
    if (due) {
        call->observer.deadline_us = call->deadline_us;
    }
    if (call->request.conn == NULL && (due || !call->refused_once)) {
        attempt(call);
    }
}

static void on_tick(struct lq_observer *observer)
{
    go_on(call_of_observer(observer));
}

static void on_topic(struct lq_observer *observer, struct lq_topic *topic)
{
    struct lq_call *call = call_of_observer(observer);
    if (topic == call->held) {
        lq_io_hurry(&call->client->io); /* not from inside: a call that finishes leaves the list of observers */
        call->observer.deadline_us = call->client->io.now_us;
    }
}

static void on_conn(struct lq_observer *observer, struct lq_conn *conn)
{
    (void)conn;
    call_of_observer(observer)->observer.deadline_us = 0;
}

static void on_trouble(struct lq_observer *observer, const struct lightq_error *error)
{
    struct lq_call *call = call_of_observer(observer);
    if (error->fatal && call->request.conn == NULL) {
        call->error = *error;
        call->refused_once = true;
        call->deadline_us = 0; /* the next tick gives up */
        call->observer.deadline_us = 0;
    }
}

static void begin(struct lq_command *command, struct lq_io *io)
{
    struct lq_call *call = lq_container(command, struct lq_call, command);
    call->deadline_us = io->now_us + call->timeout_us;
    call->observer.deadline_us = call->deadline_us;
    lq_io_observe(io, &call->observer);
    lq_io_hurry(io);
    if (call->topic != NULL) {
        call->held = lq_meta_hold(io->meta, call->topic);
        if (call->held == NULL) {
            fail(call, LIGHTQ_ENOMEM, NULL);
            return;
        }
    }
    if (io->refusal.status != LIGHTQ_OK && lq_conn_any(io, NULL) == NULL) {
        lq_client_trouble(call->client, io->refusal.status, &call->error);
        finish(call);
        return;
    }
    attempt(call);
}

lightq_status lq_call_run(struct lq_call *call, int timeout_ms)
{
    struct lq_io *io = &call->client->io;
    if (lq_client_forked(call->client)) {
        return lq_error_plain(&call->error, LIGHTQ_EFORK);
    }
    uint64_t wait_ms = timeout_ms < 0 ? io->options.request_timeout_ms : (uint64_t)timeout_ms;
    call->timeout_us = wait_ms * US_PER_MS;
    call->command.run = begin;
    call->request.done = on_reply;
    call->observer = (struct lq_observer){.deadline_us = UINT64_MAX,
                                          .on_tick = on_tick,
                                          .on_topic = on_topic,
                                          .on_conn = on_conn,
                                          .on_trouble = on_trouble};
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->changed, NULL);
    lq_io_post(io, &call->command);
    pthread_mutex_lock(&call->lock);
    while (!call->finished) {
        pthread_cond_wait(&call->changed, &call->lock);
    }
    pthread_mutex_unlock(&call->lock);
    pthread_cond_destroy(&call->changed);
    pthread_mutex_destroy(&call->lock);
    return call->error.status;
}
