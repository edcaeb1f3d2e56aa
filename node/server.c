/* node/server.c - see server.h. The stages of a node's life:
 *
 *     FORMING   its directory belongs to no cluster yet: seeds are asked, node/forming.c decides
 *     JOINING   it is a member: store, groups and the meta group are open, and it waits for the catalog
 *     SERVING   clients are served
 *     DRAINING  leaderships are handed over; clients are served still
 *     CLOSING   nothing is served; parts are closed one after the other
 *
 * A stage only changes at the end of a turn of shard 0 (on_turn), when no part is in the middle of something: events
 * leave a note. Everything here is on the process's first thread, which is shard 0's; the other shards get theirs once
 * the node is a member, follow by mail, and end first (node/shard_thread.c). */
#include "node/server.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/base/log.h"
#include "node/gateway/http.h"
#include "node/metrics.h"
#include "node/seeds.h"
#include "node/shard.h"
#include "node/version.h"
#include "storage/io_uv.h"
#include "storage/reshard.h"

#define WAITING_LINE_US  (5u * 1000 * 1000)
#define SIGNAL_EXIT_BASE 128 /* as shells tell of a process ended by a signal */

enum stage { STARTING, FORMING, JOINING, SERVING, DRAINING, CLOSING };

struct lq_process {
    const struct lq_options *options;
    struct lq_clock *clock;
    struct lq_endpoint client_told, peer_told; /* with the ports that were bound */
    struct lq_shard *shards;                   /* options->shards of them */
    struct lq_seeds seeds;
    struct lq_http *http;
    uv_signal_t on_term, on_interrupt;
    enum stage stage;
    /* Notes for the end of the turn. */
    bool formed, told_to_end;
    unsigned ready, drained, closed; /* shards that said so */
    lightq_status failed;
    struct lq_err *err;
    uint64_t told_until_us, grave_until_us; /* of the reasons for waiting */
};

static struct lq_shard *zero(struct lq_process *process)
{
    return &process->shards[0];
}

static void end_when_closed(struct lq_process *process);

/* ---- notes */

/* It cannot go on. The first reason counts. */
static void fail(struct lq_process *process, const struct lq_err *err)
{
    if (process->failed == LIGHTQ_OK) {
        process->failed = err->status == LIGHTQ_OK ? LIGHTQ_EINTERNAL : err->status;
        *process->err = *err;
    }
}

static void on_formed(void *owner)
{
    struct lq_process *process = owner;
    process->formed = true;
}

/* Reasons alternate as the other nodes answer in turn. One line now and then is enough, and what only an operator can
 * change goes before the rest. */
static void on_waiting(void *owner, const struct lq_err *err)
{
    struct lq_process *process = owner;
    uint64_t now_us = lq_clock_monotonic_us(process->clock);
    bool grave = err->status == LIGHTQ_EIDENTITY;
    if (!grave && now_us < process->grave_until_us) {
        return;
    }
    lq_sessions_refuse(zero(process)->service.sessions, err->text);
    if (now_us >= process->told_until_us || (grave && process->grave_until_us == 0)) {
        process->told_until_us = now_us + WAITING_LINE_US;
        lq_log(WARN, "the node cannot become part of a cluster yet", "why", err->text);
    }
    process->grave_until_us = grave ? now_us + WAITING_LINE_US : 0;
}

static void on_failed(void *owner, const struct lq_err *err)
{
    fail(owner, err);
}

static const struct lq_forming_events forming_events = {.done = on_formed, .waiting = on_waiting, .failed = on_failed};

/* While the node has no cluster. Another number of shards, or another shard's port, does not mend itself. */
static void on_rejected(void *owner, uint32_t node, lightq_status status, const char *sentence)
{
    struct lq_process *process = owner;
    if (status == LIGHTQ_EUNSUPPORTED) {
        struct lq_err err = {.status = LIGHTQ_OK};
        (void)lq_err_set(&err, status, "%s", sentence);
        fail(process, &err);
        return;
    }
    lq_forming_rejected(zero(process)->forming, node, status, sentence);
}

static void on_news(void *owner, struct lq_shard *shard, enum lq_shard_news news)
{
    struct lq_process *process = owner;
    switch (news) {
    case LQ_SHARD_READY:
        process->ready++;
        break;
    case LQ_SHARD_FAILED:
        fail(process, &shard->err);
        break;
    case LQ_SHARD_DRAINED:
        process->drained++;
        break;
    case LQ_SHARD_CLOSED:
        process->closed++;
        break;
    }
    end_when_closed(process);
}

/* ---- HTTP */

static bool on_health(void *owner, struct lq_writer *out)
{
    struct lq_process *process = owner;
    return lq_health_write(zero(process), process->stage == SERVING, out);
}

static void on_metrics(void *owner, struct lq_writer *out)
{
    struct lq_process *process = owner;
    lq_metrics_write(zero(process), process->stage == SERVING, out);
}

static const struct lq_http_events http_events = {.health = on_health, .metrics = on_metrics};

/* ---- the directory */

/* The directory's identity as it is, or a new one in memory. Nothing on disk is changed. */
static lightq_status read_identity(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = zero(process);
    uint32_t node = (uint32_t)options->node_id;
    lightq_status status = LIGHTQ_ENOTFOUND;
    if (shard->io != NULL) {
        status = lq_identity_load(shard->io, node, &shard->identity, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_identity_check(&shard->identity, err);
    }
    if (status == LIGHTQ_ENOTFOUND) {
        lq_identity_make(node, (uint32_t)options->shards, process->clock, &shard->identity);
        status = LIGHTQ_OK;
    }
    if (status == LIGHTQ_OK && shard->identity.state != LQ_IDENTITY_MEMBER) {
        shard->identity.shards = (uint32_t)options->shards; /* it holds nothing yet */
    }
    return status;
}

static lightq_status look_at_directory(struct lq_process *process, struct lq_err *err)
{
    struct lq_io_uv_options as_is = {.create = false};
    struct lq_shard *shard = zero(process);
    lightq_status status = lq_io_uv_new(&shard->loop, process->options->data, &as_is, &shard->io, err);
    return status == LIGHTQ_OK || status == LIGHTQ_ENOTFOUND ? read_identity(process, err) : status;
}

/* The first things that are changed on disk: the lock, and that this start is counted. */
static lightq_status take_directory(struct lq_process *process, struct lq_err *err)
{
    struct lq_io_uv_options made = {.create = true};
    struct lq_shard *shard = zero(process);
    bool existed = shard->io != NULL;
    lightq_status status = LIGHTQ_OK;
    if (!existed) {
        status = lq_io_uv_new(&shard->loop, process->options->data, &made, &shard->io, err);
        if (status == LIGHTQ_ENOTFOUND) {
            return lq_err_set(
                err, status,
                "the data directory %s cannot be made: make the directory it is in, or choose another with "
                "--data",
                process->options->data);
        }
    }
    if (status == LIGHTQ_OK) {
        status = shard->io->ops->lock(shard->io, err);
        if (status == LIGHTQ_EBUSY) {
            return lq_err_set(err, status,
                              "the data directory %s is in use by another lightqd: end it, or choose another directory "
                              "with --data",
                              process->options->data);
        }
    }
    if (status == LIGHTQ_OK && existed) { /* another lightqd may have had it until a moment ago */
        struct lq_identity now = {0};
        status = lq_identity_load(shard->io, shard->identity.node, &now, err);
        if ((status == LIGHTQ_OK || status == LIGHTQ_ENOTFOUND) && now.boot != shard->identity.boot) {
            return lq_err_set(err, LIGHTQ_EBUSY, "another lightqd has just used the data directory %s: start again",
                              process->options->data);
        }
        status = status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
    }
    return status == LIGHTQ_OK ? lq_identity_boot(shard->io, &shard->identity, err) : status;
}

/* ---- stages */

static lightq_status begin_forming(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = zero(process);
    struct lq_forming_options forming = {
        .identity = &shard->identity,
        .io = shard->io,
        .clock = process->clock,
        .link = lq_transport_link(shard->transport),
        .expect = options->expect,
        .seed_count = process->seeds.count,
        .client = process->client_told,
        .peer = process->peer_told,
    };
    process->stage = FORMING;
    lq_log(INFO, "looking for a cluster", "node", options->node_id, "seeds", options->seed_count, "expect",
           options->expect);
    for (unsigned i = 0; i < options->shards; i++) {
        lq_sessions_refuse(process->shards[i].service.sessions, "the node is waiting for its cluster to be made");
    }
    return lq_forming_new(&forming, &forming_events, process, &shard->forming, err);
}

/* Before anything is promised by what is in the stores: from now on none can be missing. */
static lightq_status note_stores(struct lq_process *process, struct lq_err *err)
{
    struct lq_shard *shard = zero(process);
    struct lq_identity next = shard->identity;
    next.stored = true;
    if (shard->identity.stored) {
        return LIGHTQ_OK;
    }
    lightq_status status = lq_identity_store(shard->io, &next, err);
    if (status == LIGHTQ_OK) {
        shard->identity = next;
    }
    return status;
}

static lightq_status on_resharded(void *owner, unsigned shards, struct lq_err *err)
{
    struct lq_shard *shard = zero(owner);
    struct lq_identity next = shard->identity;
    next.shards = shards;
    next.stored = true;
    lightq_status status = lq_identity_store(shard->io, &next, err);
    if (status == LIGHTQ_OK) {
        shard->identity = next;
    }
    return status;
}

/* The directory was written by another number of shards, or a start before this one ended while it took one over. */
static lightq_status take_over_shards(struct lq_process *process, struct lq_err *err)
{
    struct lq_shard *shard = zero(process);
    struct lq_reshard_options reshard = {.from = shard->identity.shards, .to = (unsigned)process->options->shards};
    lq_shard_store_options(shard, &reshard.store);
    lightq_status status = lq_reshard_run(shard->io, process->clock, &reshard, on_resharded, process, err);
    return status == LIGHTQ_EDAMAGED ? lq_shard_advise(shard, err) : status;
}

/* The other shards work on the same directory; its lock is shard 0's. */
static lightq_status open_stores(struct lq_process *process, struct lq_err *err)
{
    struct lq_io_uv_options as_is = {.create = false};
    lightq_status status = take_over_shards(process, err);
    if (status == LIGHTQ_OK) {
        status = lq_shard_open_store(zero(process), err);
    }
    for (unsigned i = 1; i < process->options->shards && status == LIGHTQ_OK; i++) {
        struct lq_shard *shard = &process->shards[i];
        shard->identity = zero(process)->identity;
        status = lq_io_uv_new(&shard->loop, process->options->data, &as_is, &shard->io, err);
        if (status == LIGHTQ_OK) {
            status = lq_shard_open_store(shard, err);
        }
    }
    return status == LIGHTQ_OK ? note_stores(process, err) : status;
}

static lightq_status run_shards(struct lq_process *process, struct lq_err *err)
{
    unsigned count = (unsigned)process->options->shards;
    lightq_status status = LIGHTQ_OK;
    for (unsigned i = 0; i < count && status == LIGHTQ_OK; i++) {
        status = lq_shard_open_groups(&process->shards[i], &process->client_told, &process->peer_told, err);
    }
    for (unsigned i = 1; i < count && status == LIGHTQ_OK; i++) {
        status = lq_shard_run(&process->shards[i], err);
    }
    for (unsigned i = 1; i < count && status == LIGHTQ_OK; i++) {
        lq_shard_order(&process->shards[i], LQ_ORDER_START);
    }
    return status;
}

/* The node is a member of a cluster: its replicas come up. */
static lightq_status begin_joining(struct lq_process *process, struct lq_err *err)
{
    const struct lq_identity *identity = &zero(process)->identity;
    char cluster[LQ_ID_TEXT_BYTES];
    process->stage = JOINING;
    lq_id_format(&identity->cluster, cluster);
    lq_log(INFO, "member of a cluster", "node", process->options->node_id, "cluster", cluster, "boot", identity->boot);
    lightq_status status = open_stores(process, err);
    return status == LIGHTQ_OK ? run_shards(process, err) : status;
}

static void begin_serving(struct lq_process *process)
{
    char cluster[LQ_ID_TEXT_BYTES], client[LQ_ENDPOINT_TEXT_BYTES], peer[LQ_ENDPOINT_TEXT_BYTES];
    struct lq_shard *shard = zero(process);
    process->stage = SERVING;
    lq_seeds_stop(&process->seeds);
    shard->serving = true;
    lq_sessions_serve(shard->service.sessions, &shard->identity.cluster);
    lq_id_format(&shard->identity.cluster, cluster);
    lq_endpoint_format(&process->client_told, client);
    lq_endpoint_format(&process->peer_told, peer);
    lq_log(INFO, "serving", "node", process->options->node_id, "client", client, "peer", peer, "shards",
           process->options->shards);
    (void)printf("ready node=%u cluster=%s client=%s peer=%s", (unsigned)process->options->node_id, cluster, client,
                 peer);
    if (process->http != NULL) {
        struct lq_endpoint at = process->options->http_at;
        char http[LQ_ENDPOINT_TEXT_BYTES];
        at.port = lq_http_port(process->http);
        lq_endpoint_format(&at, http);
        (void)printf(" http=%s", http);
    }
    (void)printf(" version=%s\n", LQ_VERSION_TEXT);
    (void)fflush(stdout);
}

static void begin_draining(struct lq_process *process)
{
    process->stage = DRAINING;
    lq_shard_drain(zero(process));
    for (unsigned i = 1; i < process->options->shards; i++) {
        if (process->shards[i].threaded) {
            lq_shard_order(&process->shards[i], LQ_ORDER_DRAIN);
        } else {
            process->drained++; /* it has never led anything */
        }
    }
}

/* ---- closing */

static void on_http_closed(void *owner)
{
    struct lq_process *process = owner;
    process->closed++;
    end_when_closed(process);
}

static void close_signal(uv_signal_t *handle)
{
    if (handle->data != NULL) {
        uv_close((uv_handle_t *)handle, NULL);
    }
}

/* All shards and HTTP are closed, so nobody sends mail any more: the loops can end. */
static void end_when_closed(struct lq_process *process)
{
    if (process->closed < process->options->shards + 1) {
        return;
    }
    for (unsigned i = 1; i < process->options->shards; i++) {
        if (process->shards[i].threaded) {
            lq_shard_order(&process->shards[i], LQ_ORDER_END);
        }
    }
    lq_mailbox_close(&zero(process)->box);
}

/* From the end of a turn, or before the first. */
static void begin_closing(struct lq_process *process)
{
    process->stage = CLOSING;
    lq_seeds_stop(&process->seeds);
    for (unsigned i = 1; i < process->options->shards; i++) {
        if (process->shards[i].all != NULL) {
            lq_shard_order(&process->shards[i], LQ_ORDER_CLOSE);
        } else {
            process->closed++; /* it was not made yet */
        }
    }
    close_signal(&process->on_term);
    close_signal(&process->on_interrupt);
    if (process->http != NULL) {
        lq_http_close(process->http, on_http_closed, process);
        process->http = NULL;
    } else {
        process->closed++;
    }
    lq_shard_close(zero(process));
}

static void become_member(struct lq_process *process)
{
    struct lq_err err = {0};
    process->formed = false;
    lq_forming_free(zero(process)->forming);
    zero(process)->forming = NULL;
    for (unsigned i = 0; i < process->options->shards; i++) {
        lq_transport_set_admission(process->shards[i].transport, zero(process)->identity.meta_incarnation);
        lq_transport_set_cluster(process->shards[i].transport, &zero(process)->identity.cluster);
    }
    if (begin_joining(process, &err) != LIGHTQ_OK) {
        fail(process, &err);
    }
}

static void on_turn(void *owner)
{
    struct lq_process *process = owner;
    if (process->stage == CLOSING) {
        return;
    }
    if (process->formed && process->stage == FORMING && process->failed == LIGHTQ_OK) {
        become_member(process);
    }
    if (process->ready == process->options->shards && process->stage == JOINING) {
        begin_serving(process);
    }
    if (process->told_to_end && process->stage != DRAINING) {
        begin_draining(process);
    }
    if (process->failed != LIGHTQ_OK || (process->stage == DRAINING && process->drained == process->options->shards)) {
        begin_closing(process);
    }
}

static void on_tick(void *owner)
{
    struct lq_process *process = owner;
    lq_seeds_tick(&process->seeds);
}

static const struct lq_shard_events shard_events = {
    .news = on_news, .tick = on_tick, .turn = on_turn, .rejected = on_rejected};

static void on_signal(uv_signal_t *handle, int number)
{
    struct lq_process *process = handle->data;
    if (process->told_to_end) {
        _exit(SIGNAL_EXIT_BASE + number);
    }
    process->told_to_end = true;
}

static lightq_status watch_signal(struct lq_process *process, uv_signal_t *handle, int number, struct lq_err *err)
{
    int error = uv_signal_init(&zero(process)->loop, handle);
    if (error == 0) {
        handle->data = process;
        error = uv_signal_start(handle, on_signal, number);
    }
    return error == 0 ? LIGHTQ_OK : lq_err_set(err, LIGHTQ_EINTERNAL, "watch a signal: %s", uv_strerror(error));
}

/* ---- starting */

/* Client ports first: what is refused then is said of the port that people know. */
static lightq_status open_ports(struct lq_process *process, struct lq_err *err)
{
    unsigned count = (unsigned)process->options->shards;
    uint64_t nonce = lq_clock_random_u64(process->clock);
    lightq_status status = LIGHTQ_OK;
    for (unsigned i = 1; i < count && status == LIGHTQ_OK; i++) {
        status = lq_shard_init(process->shards, i, process->options, process->clock, &shard_events, process, err);
    }
    for (unsigned i = 0; i < count && status == LIGHTQ_OK; i++) {
        process->shards[i].identity = zero(process)->identity;
        status = lq_shard_open_peer_port(&process->shards[i], nonce, err);
    }
    return status;
}

/* What can be refused without having changed anything. */
static lightq_status open_all(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = zero(process);
    lightq_status status = lq_shard_init(process->shards, 0, options, process->clock, &shard_events, process, err);
    if (status == LIGHTQ_OK) {
        status = look_at_directory(process, err);
    }
    if (status == LIGHTQ_OK) {
        status = open_ports(process, err);
    }
    if (status == LIGHTQ_OK && options->serves_http) {
        status =
            lq_http_new(&shard->loop, &options->http_at, &shard->counters, &http_events, process, &process->http, err);
    }
    if (status == LIGHTQ_OK) {
        status = watch_signal(process, &process->on_term, SIGTERM, err);
    }
    return status == LIGHTQ_OK ? watch_signal(process, &process->on_interrupt, SIGINT, err) : status;
}

static lightq_status start(struct lq_process *process, struct lq_err *err)
{
    const struct lq_options *options = process->options;
    struct lq_shard *shard = zero(process);
    lightq_status status = open_all(process, err);
    if (status == LIGHTQ_OK) {
        status = take_directory(process, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    process->client_told = options->client_told;
    process->peer_told = options->peer_told;
    if (process->client_told.port == 0) {
        process->client_told.port = lq_front_port(shard->front);
    }
    if (process->peer_told.port == 0) {
        process->peer_told.port = lq_transport_port(shard->transport);
    }
    lq_seeds_init(&process->seeds, options, &process->peer_told, &shard->identity, process->clock, shard->transport);
    lq_shard_start(shard);
    return shard->identity.state == LQ_IDENTITY_MEMBER ? begin_joining(process, err) : begin_forming(process, err);
}

/* Runs it on this thread until all its loops have ended. */
static void run(struct lq_process *process)
{
    struct lq_err why = {0};
    if (start(process, &why) != LIGHTQ_OK) {
        fail(process, &why);
        begin_closing(process);
    }
    if (zero(process)->prepare.data != NULL) {
        (void)uv_run(&zero(process)->loop, UV_RUN_DEFAULT);
    }
    for (unsigned i = 1; i < process->options->shards; i++) {
        lq_shard_join(&process->shards[i]);
    }
    for (unsigned i = 0; i < process->options->shards; i++) {
        lq_shard_deinit(&process->shards[i]);
    }
}

lightq_status lq_server_run(const struct lq_options *options, struct lq_clock *clock, struct lq_err *err)
{
    struct lq_process *process = calloc(1, sizeof *process);
    struct lq_shard *shards = calloc(options->shards, sizeof *shards);
    lightq_status failed;
    if (process == NULL || shards == NULL) {
        failed = lq_err_set(err, LIGHTQ_ENOMEM, "out of memory");
    } else {
        process->options = options;
        process->clock = clock;
        process->err = err;
        process->shards = shards;
        run(process);
        failed = process->failed;
    }
    free(shards);
    free(process);
    return failed;
}
