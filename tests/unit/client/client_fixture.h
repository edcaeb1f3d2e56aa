/* tests/unit/client/client_fixture.h - a pretended cluster, a client on it, and what a producer's reports said, for the
 * tests of client/lib. */
#ifndef LQ_TESTS_CLIENT_FIXTURE_H
#define LQ_TESTS_CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <lightq/admin.h>
#include <lightq/consumer.h>
#include <lightq/producer.h>

#include "tests/lib/fake_broker.h"

#define REPORTS_MAX 20000
#define WAIT_MS     10000
#define SHORT_MS    1000 /* runs out; what must happen within it does, on a busy machine too */

struct fixture {
    struct fake_cluster *cluster;
    struct lightq_conf *conf;
    struct lightq *client;
    struct lightq_producer *producer;
    struct lightq_report reports[REPORTS_MAX]; /* topic is not kept */
    size_t report_count;
    struct lightq_error errors[16];
    size_t error_count;
};

/* A cluster of three with the topic "t" of one partition, led by node 1; no client yet. */
int fixture_setup(void **state);
/* Closes what is open; fails when something cannot be closed. */
int fixture_teardown(void **state);
void fixture_set(struct fixture *f, const char *name, const char *value);
/* The client, and with @producer a producer whose reports are kept. */
void fixture_open(struct fixture *f, bool producer);
/* Sends "m<opaque>" to partition @partition of "t". */
lightq_status fixture_send(struct fixture *f, int32_t partition, uintptr_t opaque);
void fixture_send_many(struct fixture *f, int32_t partition, uintptr_t first, size_t count);
/* Polls until there are @count reports. */
void fixture_wait_reports(struct fixture *f, size_t count);
/* The report of one message. */
const struct lightq_report *fixture_report(const struct fixture *f, uintptr_t opaque);
/* The log of "t" partition @partition is "m<first>".. in order, once each, @count of them. */
void fixture_assert_log(struct fixture *f, unsigned partition, uintptr_t first, size_t count);

#endif
