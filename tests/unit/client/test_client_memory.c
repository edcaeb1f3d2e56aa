/* tests/unit/client/test_client_memory.c - the client library without memory: each allocation of a session (connect,
 * produce, consume, list topics) fails once. Nothing crashes, hangs or leaks, every message that was taken is reported
 * once, and what is reported as stored is read back. The pretended servers run in a process of their own, so that only
 * the library is short of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <lightq/admin.h>
#include <lightq/consumer.h>
#include <lightq/group.h>
#include <lightq/producer.h>

#include "client/lib/wait.h"
#include "tests/lib/alloc_fail.h"
#include "tests/lib/fake_broker.h"

#define MESSAGES     40
#define WAIT_MS      20000
#define SWEEP_MAX    5000 /* more allocations than a session makes */
#define QUIET_MS     20   /* nothing more seems to come */
#define SILENCE_MS   1000 /* it surely does not */
#define SERVERS_SIZE 512
#define ACK_WAIT_MS  500     /* a session that could not say good-bye holds messages for so long */
#define MAX_DELIVER  1000000 /* and that makes no dead letters */

struct session {
    int quiet_ms;
    uint64_t lag; /* of the group after this session; UINT64_MAX when it could not ask */
    char servers[SERVERS_SIZE];
    size_t taken, reported;
    size_t unread;   /* reported as stored and not read yet */
    int64_t next[2]; /* what is read next of each partition */
};

/* The servers, until the other end of @control is closed. */
static void serve(int control, int answer)
{
    char byte;
    struct fake_cluster *cluster = fake_cluster_new(1);
    fake_cluster_topic(cluster, "t", 2);
    fake_cluster_group(cluster, "t", "g", true, ACK_WAIT_MS, MAX_DELIVER);
    size_t size = strlen(fake_cluster_servers(cluster)) + 1;
    if (write(answer, fake_cluster_servers(cluster), size) != (ssize_t)size) {
        _exit(1);
    }
    while (read(control, &byte, 1) > 0) {
    }
    fake_cluster_free(cluster);
    _exit(0);
}

static void on_report(void *owner, const struct lightq_report *report)
{
    struct session *session = owner;
    session->reported++;
    session->unread += report->status == LIGHTQ_OK;
}

static void produce(struct session *session, struct lightq *client)
{
    struct lightq_error error;
    struct lightq_producer *producer;
    struct lightq_producer_options options = {.on_report = on_report, .owner = session};
    struct lightq_header header = {.name = "n", .name_size = 1};
    if (lightq_producer_new(client, &options, &producer, &error) != LIGHTQ_OK) {
        return;
    }
    for (int i = 0; i < MESSAGES; i++) {
        struct lightq_message message = {
            .topic = "t", .partition = i % 2, .value = "v", .value_size = 1, .headers = &header, .header_count = 1};
        session->taken += lightq_producer_send(producer, &message) == LIGHTQ_OK;
    }
    assert_int_equal(lightq_producer_flush(producer, WAIT_MS), LIGHTQ_OK);
    assert_int_equal(lightq_producer_close(producer, 0), LIGHTQ_OK);
}

static lightq_status subscribe(struct session *session, struct lightq_consumer *consumer)
{
    struct lightq_error error;
    lightq_status status = LIGHTQ_OK;
    for (int32_t p = 0; status == LIGHTQ_OK && p < 2; p++) {
        const struct lightq_start start = {.kind = LIGHTQ_START_OFFSET, .offset = session->next[p]};
        status = lightq_consumer_subscribe(consumer, "t", p, &start, WAIT_MS, &error);
    }
    return status;
}

/* Reads what is new in the topic up to @ends: every message that was reported as stored, and no other. */
static void read_to(struct session *session, struct lightq_consumer *consumer, const int64_t *ends)
{
    struct lightq_event event;
    while (session->next[0] < ends[0] || session->next[1] < ends[1]) {
        if (lightq_consumer_poll(consumer, WAIT_MS, &event) != LIGHTQ_OK) {
            return;
        }
        assert_int_not_equal(event.kind, LIGHTQ_EVENT_NONE); /* it hangs */
        if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            assert_int_equal(event.record.offset, session->next[event.record.partition]);
            session->next[event.record.partition]++;
            assert_true(session->unread > 0);
            session->unread--;
        }
    }
    assert_int_equal(session->unread, 0);
}

static void consume(struct session *session, struct lightq *client)
{
    const struct lightq_start last = {.kind = LIGHTQ_START_END};
    struct lightq_consumer *consumer;
    struct lightq_error error;
    int64_t ends[2] = {0};
    for (int32_t p = 0; p < 2; p++) {
        if (lightq_offset(client, "t", p, &last, WAIT_MS, &ends[p], &error) != LIGHTQ_OK) {
            return;
        }
    }
    if (lightq_consumer_new(client, &consumer, &error) != LIGHTQ_OK) {
        return;
    }
    if (subscribe(session, consumer) == LIGHTQ_OK) {
        read_to(session, consumer, ends);
    }
    assert_int_equal(lightq_consumer_close(consumer, 0), LIGHTQ_OK);
}

/* Works through what is there as one of a group; what cannot be acked now is there again in the next session. */
static void work(struct session *session, struct lightq *client)
{
    struct lightq_consumer *consumer;
    struct lightq_group_info *info;
    struct lightq_error error;
    struct lightq_event event = {.kind = LIGHTQ_EVENT_MESSAGE};
    if (lightq_consumer_new(client, &consumer, &error) != LIGHTQ_OK) {
        return;
    }
    lightq_status status = lightq_consumer_join(consumer, "t", "g", LIGHTQ_PARTITION_ANY, WAIT_MS, &error);
    while (status == LIGHTQ_OK && event.kind != LIGHTQ_EVENT_NONE &&
           lightq_consumer_poll(consumer, session->quiet_ms, &event) == LIGHTQ_OK) {
        if (event.kind == LIGHTQ_EVENT_MESSAGE) {
            lightq_status acked = lightq_consumer_ack(consumer, &event.record);
            assert_true(acked == LIGHTQ_OK || acked == LIGHTQ_ENOMEM);
        }
    }
    assert_int_equal(lightq_consumer_close(consumer, WAIT_MS), LIGHTQ_OK);
    if (lightq_group_describe(client, "t", "g", WAIT_MS, &info, &error) == LIGHTQ_OK) {
        session->lag = info->partitions[0].lag + info->partitions[1].lag;
        lightq_result_free(info);
    }
}

/* One session with the @nth allocation failing. False: no allocation was left to fail. */
static bool run_session(struct session *session, unsigned nth)
{
    struct lightq_conf *conf = NULL;
    struct lightq *client = NULL;
    struct lightq_topic_list *list = NULL;
    struct lightq_error error;
    session->taken = session->reported = 0;
    session->lag = UINT64_MAX;
    lq_alloc_fail_at(nth);
    lightq_status status = lightq_conf_new(&conf);
    if (status == LIGHTQ_OK) {
        status = lightq_conf_set(conf, "bootstrap.servers", session->servers, &error);
    }
    if (status == LIGHTQ_OK) {
        status = lightq_new(conf, &client, &error);
    }
    lightq_conf_free(conf);
    if (status == LIGHTQ_OK) {
        produce(session, client);
        assert_int_equal(session->reported, session->taken);
        consume(session, client);
        work(session, client);
        if (lightq_topic_list(client, WAIT_MS, &list, &error) == LIGHTQ_OK) {
            assert_int_equal(list->count, 1);
            lightq_result_free(list);
        }
        assert_int_equal(lightq_close(client, 100), LIGHTQ_OK);
    } else {
        assert_true(status == LIGHTQ_ENOMEM || status == LIGHTQ_EINVAL || status == LIGHTQ_ELIMIT);
    }
    return lq_alloc_fail_end();
}

/* Sessions in which nothing fails, until the group has settled everything. */
static void finish(struct session *session)
{
    const uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    session->quiet_ms = SILENCE_MS;
    do {
        assert_false(run_session(session, SWEEP_MAX));
    } while (session->lag > 0 && lq_clock_monotonic_us(lq_clock_system()) < deadline_us);
    assert_int_equal(session->lag, 0);
}

static void test_client_every_allocation_may_fail(void **state)
{
    struct session session = {.quiet_ms = QUIET_MS};
    int control[2], answer[2], exit_status = -1;
    (void)state;
    assert_int_equal(pipe(control), 0);
    assert_int_equal(pipe(answer), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(control[1]);
        serve(control[0], answer[1]);
    }
    close(control[0]);
    close(answer[1]);
    assert_true(read(answer[0], session.servers, sizeof session.servers) > 1);

    unsigned nth = 1;
    while (nth < SWEEP_MAX && run_session(&session, nth)) {
        nth++;
    }

    print_message("%u allocations\n", nth - 1);
    assert_in_range(nth, 50, SWEEP_MAX - 1);
    finish(&session);
    close(control[1]);
    close(answer[0]);
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_int_equal(exit_status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
