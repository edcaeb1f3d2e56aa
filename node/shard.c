/* node/shard.c - see shard.h. */
#include "node/shard.h"

#include <assert.h>
#include <string.h>

#include "node/admin.h"
#include "node/consume.h"
#include "node/dead.h"
#include "node/groups.h"
#include "node/pipeline.h"
#include "node/produce.h"
#include "node/purge.h"
#include "node/router.h"

#define TICK_MS          100 /* sessions' and requests' time-outs; seeds */
#define RETRY_MS         5   /* when a client's connection was full */
#define ROUNDS_MAX       8   /* of cluster part and groups in one turn */
#define MICROS_PER_MILLI 1000
#define FRAME_HEAD_MAX   (LQ_ENVELOPE_BYTES_MAX + LQ_CLIENT_BODY_BYTES_MAX)

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- events of the parts */

static void on_message(void *owner, const struct lq_front_message *message)
{
    struct lq_shard *shard = owner;
    lq_router_receive(&shard->service, message);
}

static void on_connection_closed(void *owner, lq_peer peer)
{
    struct lq_shard *shard = owner;
    lq_sessions_closed(shard->service.sessions, peer);
}

static const struct lq_front_events front_events = {.receive = on_message, .closed = on_connection_closed};

static void on_session_ended(void *owner, struct lq_session *session)
{
    struct lq_shard *shard = owner;
    lq_consume_session_ended(shard->service.consume, session);
    lq_pipeline_session_ended(shard->service.pipeline, session);
}

static void on_session_unblocked(void *owner, struct lq_session *session)
{
    struct lq_shard *shard = owner;
    lq_consume_session_unblocked(shard->service.consume, session);
    lq_pipeline_session_unblocked(shard->service.pipeline, session);
}

static const struct lq_sessions_events sessions_events = {.ended = on_session_ended, .unblocked = on_session_unblocked};

/* ---- turns */

/* When something is due next. */
static uint64_t next_deadline(struct lq_shard *shard, bool blocked)
{
    uint64_t deadline_us = shard->tick_us;
    if (shard->forming != NULL) {
        deadline_us = earlier(deadline_us, lq_forming_deadline_us(shard->forming));
    }
    if (shard->host != NULL) {
        deadline_us = earlier(deadline_us, lq_host_deadline_us(shard->host));
    }
    if (shard->meta != NULL) {
        deadline_us = earlier(deadline_us, lq_meta_deadline_us(shard->meta));
    }
    if (shard->service.pipeline != NULL) {
        deadline_us = earlier(deadline_us, lq_pipeline_deadline_us(shard->service.pipeline));
    }
    if (blocked) {
        deadline_us = earlier(deadline_us, lq_clock_monotonic_us(shard->clock) + RETRY_MS * MICROS_PER_MILLI);
    }
    return deadline_us;
}

static void on_timer(uv_timer_t *timer)
{
    struct lq_shard *shard = timer->data;
    uint64_t now_us = lq_clock_monotonic_us(shard->clock);
    shard->armed_us = UINT64_MAX;
    if (shard->forming != NULL && now_us >= lq_forming_deadline_us(shard->forming)) {
        lq_forming_tick(shard->forming);
    }
    if (shard->meta != NULL && now_us >= lq_meta_deadline_us(shard->meta)) {
        lq_meta_tick(shard->meta);
    }
    if (shard->host != NULL && now_us >= lq_host_deadline_us(shard->host)) {
        lq_host_tick(shard->host);
    }
    if (now_us >= shard->tick_us) {
        shard->tick_us = now_us + TICK_MS * MICROS_PER_MILLI;
        lq_sessions_tick(shard->service.sessions);
        lq_produce_tick(shard->service.produce);
        lq_purges_tick(shard->service.purges);
        lq_groups_tick(shard->service.groups);
        lq_dead_tick(shard->service.dead);
        if (shard->number == 0) {
            shard->events->tick(shard->owner);
        } else {
            lq_shard_thread_tick(shard);
        }
    }
}

static void arm(struct lq_shard *shard, uint64_t deadline_us)
{
    if (deadline_us == shard->armed_us) {
        return;
    }
    uint64_t now_us = lq_clock_monotonic_us(shard->clock);
    uint64_t wait_ms = deadline_us <= now_us ? 0 : (deadline_us - now_us + MICROS_PER_MILLI - 1) / MICROS_PER_MILLI;
    shard->armed_us = deadline_us;
    (void)uv_timer_start(&shard->timer, on_timer, wait_ms, 0);
}

/* The cluster part and the groups, until both are quiet or it is somebody else's turn. */
static bool run_groups(struct lq_shard *shard)
{
    if (shard->host == NULL) {
        return false;
    }
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        lq_meta_turn(shard->meta);
        lq_host_turn(shard->host);
        if (!lq_meta_needs_turn(shard->meta)) {
            return false;
        }
    }
    return true;
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* only keeps the loop from sleeping */
}

/* Only here parts are taken away. */
static void end_of_turn(struct lq_shard *shard)
{
    if (shard->number == 0) {
        shard->events->turn(shard->owner);
    } else {
        lq_shard_thread_turn(shard);
    }
    lq_shard_look_after(shard);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct lq_shard *shard = prepare->data;
    bool more = shard->front != NULL && shard->service.admin != NULL && lq_front_turn(shard->front);
    more |= run_groups(shard);
    bool blocked = lq_sessions_turn(shard->service.sessions);
    more |= lq_consume_turn(shard->service.consume);
    more |= lq_pipeline_turn(shard->service.pipeline);
    if (shard->transport != NULL) {
        lq_transport_turn(shard->transport);
    }
    if (shard->front != NULL) {
        lq_front_flush(shard->front);
    }
    end_of_turn(shard);
    if (shard->stopped) {
        return;
    }
    more |= shard->meta != NULL && lq_meta_needs_turn(shard->meta);
    if (more != shard->idling) {
        shard->idling = more;
        (void)(more ? uv_idle_start(&shard->idle, on_idle) : uv_idle_stop(&shard->idle));
    }
    arm(shard, next_deadline(shard, blocked));
}

/* ---- life */

static lightq_status open_port(struct lq_shard *shard, struct lq_err *err)
{
    const struct lq_options *options = &shard->options;
    struct lq_front_options front = {
        .address = options->client,
        .frame_bytes_max = lq_options_batch_bytes_max(options),
        .queue_out = options->client_queue_out,
        .queue_out_bytes = options->session_bytes_max,
        .queued_bytes_max = options->memory.answers,
        .arriving_bytes_max = options->memory.arriving,
        .connections_max = (unsigned)options->connections_max,
        .counters = &shard->counters,
    };
    if (front.frame_bytes_max < FRAME_HEAD_MAX) {
        front.frame_bytes_max = FRAME_HEAD_MAX;
    }
    return lq_front_new(&shard->loop, &front, &front_events, shard, &shard->front, err);
}

static lightq_status make_parts(struct lq_shard *shard, struct lq_err *err)
{
    struct lq_service *service = &shard->service;
    *service = (struct lq_service){.options = &shard->options, .clock = shard->clock, .counters = &shard->counters};
    lightq_status status = lq_sessions_new(&shard->options, lq_front_outlet(shard->front), shard->clock,
                                           &shard->counters, &sessions_events, shard, &service->sessions);
    if (status == LIGHTQ_OK) {
        status = lq_produce_new(service, &service->produce);
    }
    if (status == LIGHTQ_OK) {
        status = lq_consume_new(service, &service->consume);
    }
    if (status == LIGHTQ_OK) {
        status = lq_pipeline_new(service, &service->pipeline);
    }
    if (status == LIGHTQ_OK) {
        status = lq_groups_new(service, &service->groups);
    }
    if (status == LIGHTQ_OK) {
        status = lq_dead_new(service, &service->dead);
    }
    if (status == LIGHTQ_OK) {
        status = lq_purges_new(service, &service->purges);
    }
    if (status == LIGHTQ_OK) {
        status = lq_admin_new(service, &service->admin);
    }
    return status == LIGHTQ_OK ? status : lq_err_set(err, status, "out of memory");
}

static void on_mail(void *owner, struct lq_mail *mail)
{
    struct lq_shard *shard = owner;
    mail->open(mail, &shard->house, shard->meta);
}

lightq_status lq_shard_init(struct lq_shard *all, unsigned number, const struct lq_options *options,
                            struct lq_clock *clock, const struct lq_shard_events *events, void *owner,
                            struct lq_err *err)
{
    struct lq_shard *shard = &all[number];
    shard->house.ops = &lq_shard_house_ops;
    shard->number = number;
    shard->count = (unsigned)options->shards;
    shard->all = all;
    shard->events = events;
    shard->owner = owner;
    shard->clock = clock;
    shard->armed_us = UINT64_MAX;
    lq_options_for_shard(options, number, &shard->options);
    if (uv_loop_init(&shard->loop) != 0) {
        return lq_err_set(err, LIGHTQ_ELIMIT, "no descriptors left for an event loop: raise the limit (ulimit -n)");
    }
    (void)uv_prepare_init(&shard->loop, &shard->prepare);
    (void)uv_idle_init(&shard->loop, &shard->idle);
    (void)uv_timer_init(&shard->loop, &shard->timer);
    shard->prepare.data = shard->idle.data = shard->timer.data = shard;
    lightq_status status = LIGHTQ_OK;
    if (shard->count > 1) {
        status = lq_mailbox_init(&shard->box, &shard->loop, on_mail, shard, err);
    }
    if (status == LIGHTQ_OK) {
        status = open_port(shard, err);
    }
    return status == LIGHTQ_OK ? make_parts(shard, err) : status;
}

void lq_shard_start(struct lq_shard *shard)
{
    shard->started = true;
    shard->tick_us = lq_clock_monotonic_us(shard->clock);
    (void)uv_prepare_start(&shard->prepare, on_prepare);
}

void lq_shard_stop(struct lq_shard *shard)
{
    if (shard->prepare.data == NULL || shard->stopped) {
        return;
    }
    shard->stopped = true;
    uv_close((uv_handle_t *)&shard->prepare, NULL);
    uv_close((uv_handle_t *)&shard->idle, NULL);
    uv_close((uv_handle_t *)&shard->timer, NULL);
}

void lq_shard_deinit(struct lq_shard *shard)
{
    struct lq_service *service = &shard->service;
    if (service->produce != NULL) {
        lq_produce_free(service->produce);
    }
    if (service->admin != NULL) {
        lq_admin_free(service->admin);
    }
    if (service->sessions != NULL) {
        lq_sessions_free(service->sessions);
    }
    if (service->consume != NULL) {
        lq_consume_free(service->consume);
    }
    if (service->dead != NULL) {
        lq_dead_free(service->dead);
    }
    if (service->purges != NULL) {
        lq_purges_free(service->purges);
    }
    if (service->groups != NULL) {
        lq_groups_free(service->groups);
    }
    if (service->pipeline != NULL) {
        lq_pipeline_free(service->pipeline);
    }
    lq_mailbox_deinit(&shard->box);
    if (shard->prepare.data != NULL) {
        int error = uv_loop_close(&shard->loop);
        assert(error == 0); /* UV_EBUSY: a part was not closed */
        (void)error;
    }
}
