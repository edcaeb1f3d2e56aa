/* client/lib/io.c - the loop of a client's one thread. See io.h for who calls what; the sockets are conn.c's. */
#include "client/lib/io.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/error.h"
#include "client/lib/meta.h"
#include "client/lib/wait.h"

#define TICK_FINE_US    10000u  /* while something is waited for */
#define TICK_COARSE_US  100000u /* while nothing is */
#define RECEIVE_ROUNDS  64      /* of one connection before the others have their turn */
#define FRAME_BYTES_MAX (LQ_CLIENT_BODY_BYTES_MAX + LQ_ENVELOPE_BYTES_MAX)
#define US_PER_S        1000000u
#define US_PER_MS       1000u
#define NS_PER_US       1000u

/* ---- the mailbox */

static void wake(struct lq_io *io)
{
    if (atomic_exchange(&io->sleeping, false)) {
        uint64_t one = 1;
        ssize_t written = write(io->wake_fd, &one, sizeof one);
        (void)written; /* a full counter wakes as well */
    }
}

void lq_io_post(struct lq_io *io, struct lq_command *command)
{
    if (atomic_exchange(&command->queued, true)) {
        return;
    }
    struct lq_command *head = atomic_load(&io->mailbox);
    do {
        command->next = head;
    } while (!atomic_compare_exchange_weak(&io->mailbox, &head, command));
    wake(io);
}

static void run_mailbox(struct lq_io *io)
{
    struct lq_command *newest = atomic_exchange(&io->mailbox, NULL);
    struct lq_command *oldest = NULL;
    while (newest != NULL) { /* turn the stack round: first posted, first run */
        struct lq_command *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct lq_command *command = oldest;
        oldest = command->next;
        atomic_store(&command->queued, false);
        command->run(command, io);
    }
}

/* ---- observers */

void lq_io_observe(struct lq_io *io, struct lq_observer *observer)
{
    observer->next = io->observers;
    io->observers = observer;
    if (io->refusal.status != LIGHTQ_OK && observer->on_trouble != NULL && lq_conn_any(io, NULL) == NULL) {
        observer->on_trouble(observer, &io->refusal); /* it was told to the others before */
    }
}

void lq_io_forget(struct lq_io *io, struct lq_observer *observer)
{
    for (struct lq_observer **at = &io->observers; *at != NULL; at = &(*at)->next) {
        if (*at == observer) {
            *at = observer->next;
            return;
        }
    }
}

void lq_io_topic_changed(struct lq_io *io, struct lq_topic *topic)
{
    for (struct lq_observer *observer = io->observers; observer != NULL; observer = observer->next) {
        if (observer->on_topic != NULL) {
            observer->on_topic(observer, topic);
        }
    }
}

static void tell_trouble(struct lq_io *io, const struct lightq_error *error)
{
    for (struct lq_observer *observer = io->observers; observer != NULL; observer = observer->next) {
        if (observer->on_trouble != NULL) {
            observer->on_trouble(observer, error);
        }
    }
}

void lq_io_trouble(struct lq_io *io, lightq_status status, const char *text)
{
    pthread_mutex_lock(&io->lock);
    lq_error_set(&io->trouble, status, "%s", text);
    struct lightq_error told = io->trouble;
    pthread_mutex_unlock(&io->lock);
    if (lq_conn_any(io, NULL) == NULL && !io->trouble_told) {
        io->trouble_told = true; /* until some server is ready again */
        tell_trouble(io, &told);
    }
}

void lq_io_refused(struct lq_io *io, lightq_status status, const char *text)
{
    pthread_mutex_lock(&io->lock);
    bool news = io->refusal.status != status;
    lq_error_set(&io->refusal, status, "%s", text);
    struct lightq_error told = io->refusal;
    pthread_cond_broadcast(&io->changed);
    pthread_mutex_unlock(&io->lock);
    if (news || lq_conn_any(io, NULL) == NULL) {
        tell_trouble(io, &told);
    }
}

void lq_io_connected(struct lq_io *io, struct lq_conn *conn)
{
    pthread_mutex_lock(&io->lock);
    io->connected = true;
    io->refusal.status = LIGHTQ_OK;
    if (io->cluster_text[0] == '\0') {
        lq_id_format(&io->cluster, io->cluster_text);
    }
    pthread_cond_broadcast(&io->changed);
    pthread_mutex_unlock(&io->lock);
    io->trouble_told = false;
    lq_meta_conn_ready(io->meta);
    for (struct lq_observer *observer = io->observers; observer != NULL; observer = observer->next) {
        if (observer->on_conn != NULL) {
            observer->on_conn(observer, conn);
        }
    }
}

void lq_io_hurry(struct lq_io *io)
{
    if (io->next_tick_us > io->now_us + TICK_FINE_US) {
        io->next_tick_us = io->now_us + TICK_FINE_US;
    }
}

/* ---- the loop */

/* True while something is waited for whose time may come soon. */
static bool is_busy(struct lq_io *io)
{
    if (lq_meta_busy(io->meta)) {
        return true;
    }
    for (struct lq_conn *conn = io->conns; conn != NULL; conn = conn->hh.next) {
        if (conn->requests != NULL || conn->state == LQ_CONN_CONNECTING || conn->state == LQ_CONN_WAITING) {
            return true;
        }
    }
    return false;
}

static void general_tick(struct lq_io *io)
{
    for (struct lq_conn *conn = io->conns; conn != NULL; conn = conn->hh.next) {
        lq_conn_tick(conn);
    }
    lq_meta_tick(io->meta);
    for (struct lq_observer *observer = io->observers, *next; observer != NULL; observer = next) {
        next = observer->next; /* an observer may leave in its own on_tick */
        observer->on_tick(observer);
    }
    io->next_tick_us = io->now_us + (is_busy(io) ? TICK_FINE_US : TICK_COARSE_US);
}

static void observers_tick(struct lq_io *io)
{
    for (struct lq_observer *observer = io->observers, *next; observer != NULL; observer = next) {
        next = observer->next;
        if (observer->deadline_us <= io->now_us) {
            observer->on_tick(observer);
        }
    }
}

static void end_turn(struct lq_io *io)
{
    for (struct lq_observer *observer = io->observers; observer != NULL; observer = observer->next) {
        if (observer->on_turn != NULL) {
            observer->on_turn(observer);
        }
    }
}

static void receive_all(struct lq_io *io)
{
    for (struct lq_conn *conn = io->conns; conn != NULL; conn = conn->hh.next) {
        for (int round = 0; conn->active && round < RECEIVE_ROUNDS; round++) {
            conn->active = lq_conn_receive(conn);
        }
    }
}

static bool has_active(const struct lq_io *io)
{
    for (struct lq_conn *conn = io->conns; conn != NULL; conn = conn->hh.next) {
        if (conn->active) {
            return true;
        }
    }
    return false;
}

static void flush_all(struct lq_io *io)
{
    for (struct lq_conn *conn = io->conns; conn != NULL; conn = conn->hh.next) {
        lq_conn_flush(conn);
    }
}

/* The descriptors to sleep on: ours, then that of each open connection. */
static size_t gather_descriptors(struct lq_io *io)
{
    size_t count = 0;
    io->polled[count++] = (struct pollfd){.fd = io->wake_fd, .events = POLLIN};
    for (struct lq_conn *conn = io->conns; conn != NULL && count < io->polled_capacity; conn = conn->hh.next) {
        if (lq_link_is_open(&conn->link)) {
            io->polled[count++] = (struct pollfd){.fd = conn->link.fd, .events = lq_link_events(&conn->link)};
        }
    }
    return count;
}

static void mark_active(struct lq_io *io)
{
    size_t at = 1;
    for (struct lq_conn *conn = io->conns; conn != NULL && at < io->polled_capacity; conn = conn->hh.next) {
        if (lq_link_is_open(&conn->link)) {
            conn->active = io->polled[at++].revents != 0;
        }
    }
}

static void sleep_until_something(struct lq_io *io)
{
    uint64_t until = io->next_tick_us;
    for (struct lq_observer *observer = io->observers; observer != NULL; observer = observer->next) {
        until = observer->deadline_us < until ? observer->deadline_us : until;
    }
    atomic_store(&io->sleeping, true);
    if (atomic_load(&io->mailbox) != NULL || atomic_load(&io->stopping) || has_active(io) || until <= io->now_us) {
        atomic_store(&io->sleeping, false);
        return;
    }
    size_t count = gather_descriptors(io);
    uint64_t wait_us = until - io->now_us;
    struct timespec wait = {.tv_sec = (time_t)(wait_us / US_PER_S), .tv_nsec = (long)(wait_us % US_PER_S * NS_PER_US)};
    int ready = ppoll(io->polled, count, &wait, NULL);
    atomic_store(&io->sleeping, false);
    if (ready <= 0) {
        return; /* the time has come, or a signal */
    }
    if (io->polled[0].revents != 0) {
        uint64_t drained;
        ssize_t got = read(io->wake_fd, &drained, sizeof drained);
        (void)got; /* nothing there: somebody is about to write, and wakes us once more */
    }
    mark_active(io);
}

static void say_bye(struct lq_io *io)
{
    uint64_t deadline_us = io->now_us + (uint64_t)atomic_load(&io->linger_ms) * US_PER_MS;
    for (struct lq_conn *conn = io->conns; conn != NULL; conn = conn->hh.next) {
        lq_conn_bye(conn, deadline_us);
    }
}

static void *thread_main(void *context)
{
    struct lq_io *io = context;
    while (!atomic_load(&io->stopping)) {
        io->now_us = lq_clock_monotonic_us(io->clock);
        run_mailbox(io);
        receive_all(io);
        if (io->now_us >= io->next_tick_us) {
            general_tick(io);
        }
        observers_tick(io);
        flush_all(io); /* before the application is told of what came, which takes a while */
        end_turn(io);
        flush_all(io);
        sleep_until_something(io);
    }
    run_mailbox(io);
    say_bye(io);
    return NULL;
}

/* ---- life */

/* Takes "host:port,host:port" apart and makes the connections known. */
static lightq_status add_servers(struct lq_io *io, struct lightq_error *error)
{
    const char *at = io->options.bootstrap_servers;
    while (*at != '\0') {
        size_t size = strcspn(at, ", ");
        char address[LQ_ADDRESS_BYTES];
        if (size >= sizeof address) {
            return lq_error_set(error, LIGHTQ_EINVAL, "bootstrap.servers: an address of %zu bytes is too long", size);
        }
        if (size > 0) {
            memcpy(address, at, size);
            address[size] = '\0';
            struct lq_conn *conn = lq_conn_get(io, address);
            if (conn == NULL) {
                return lq_error_set(error, LIGHTQ_EINVAL,
                                    "bootstrap.servers: '%s' is not host:port, for example 127.0.0.1:5600", address);
            }
            conn->bootstrap = true;
        }
        at += size;
        at += strspn(at, ", ");
    }
    if (io->conns == NULL) {
        return lq_error_set(error, LIGHTQ_EINVAL, "bootstrap.servers names no server; give host:port,...");
    }
    return LIGHTQ_OK;
}

static lightq_status start_thread(struct lq_io *io, struct lightq_error *error)
{
    sigset_t all, before; /* the application's signals are not for this thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&io->thread, NULL, thread_main, io);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return lq_error_set(error, LIGHTQ_ELIMIT, "cannot start a thread: %s", strerror(failed));
    }
    return LIGHTQ_OK;
}

static void release(struct lq_io *io)
{
    lq_meta_free(io->meta);
    lq_conns_free(io);
    if (io->wake_fd >= 0) {
        close(io->wake_fd);
    }
    lq_writer_deinit(&io->frame);
    free(io->polled);
    pthread_cond_destroy(&io->changed);
    pthread_mutex_destroy(&io->lock);
    lq_conf_deinit(lq_client_options_table(), &io->options);
}

static lightq_status prepare(struct lq_io *io, struct lightq_error *error)
{
    io->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (io->wake_fd < 0) {
        return lq_error_set(error, LIGHTQ_ELIMIT, "cannot make an eventfd: %s", strerror(errno));
    }
    io->polled_capacity = LQ_CONNS_MAX + 1;
    io->polled = calloc(io->polled_capacity, sizeof *io->polled);
    io->meta = lq_meta_new(io);
    if (io->polled == NULL || io->meta == NULL) {
        return lq_error_plain(error, LIGHTQ_ENOMEM);
    }
    return add_servers(io, error);
}

lightq_status lq_io_start(struct lq_io *io, const struct lq_client_options *options, struct lq_clock *clock,
                          struct lightq_error *error)
{
    *io = (struct lq_io){.clock = clock, .wake_fd = -1};
    lightq_status status = lq_client_options_copy(&io->options, options);
    if (status != LIGHTQ_OK) {
        return lq_error_plain(error, status);
    }
    pthread_mutex_init(&io->lock, NULL);
    lq_cond_init(&io->changed);
    lq_writer_init(&io->frame, FRAME_BYTES_MAX);
    atomic_init(&io->mailbox, NULL);
    atomic_init(&io->sleeping, false);
    atomic_init(&io->stopping, false);
    atomic_init(&io->message_bytes_max, io->options.message_bytes_max);
    atomic_init(&io->batch_bytes_max, LQ_ENTRY_BYTES_MAX);
    io->now_us = lq_clock_monotonic_us(clock);
    io->next_tick_us = io->now_us;
    status = prepare(io, error);
    if (status == LIGHTQ_OK) {
        status = start_thread(io, error);
    }
    if (status != LIGHTQ_OK) {
        release(io);
    }
    return status;
}

void lq_io_stop(struct lq_io *io, int linger_ms)
{
    atomic_store(&io->linger_ms, linger_ms);
    atomic_store(&io->stopping, true);
    uint64_t one = 1;
    ssize_t written = write(io->wake_fd, &one, sizeof one);
    (void)written;
    pthread_join(io->thread, NULL);
    release(io);
}
