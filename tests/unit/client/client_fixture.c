/* tests/unit/client/client_fixture.c - see client_fixture.h. */
#include "tests/unit/client/client_fixture.h"

#include <stdlib.h>

#include "client/lib/wait.h"

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || lightq_conf_new(&f->conf) != LIGHTQ_OK) {
        free(f);
        return -1;
    }
    f->cluster = fake_cluster_new(3);
    fake_cluster_topic(f->cluster, "t", 1);
    fixture_set(f, "bootstrap.servers", fake_cluster_servers(f->cluster));
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    int failed = 0;
    if (f->producer != NULL) {
        lightq_producer_close(f->producer, 0);
    }
    if (f->client != NULL) {
        failed = lightq_close(f->client, 1000) != LIGHTQ_OK;
    }
    fake_cluster_free(f->cluster);
    lightq_conf_free(f->conf);
    free(f);
    return failed;
}

void fixture_set(struct fixture *f, const char *name, const char *value)
{
    struct lightq_error error;
    assert_int_equal(lightq_conf_set(f->conf, name, value, &error), LIGHTQ_OK);
}

static void on_report(void *owner, const struct lightq_report *report)
{
    struct fixture *f = owner;
    assert_true(f->report_count < REPORTS_MAX);
    assert_string_equal(report->topic, "t");
    f->reports[f->report_count] = *report;
    f->reports[f->report_count++].topic = NULL;
}

static void on_error(void *owner, const struct lightq_error *error)
{
    struct fixture *f = owner;
    if (f->error_count < sizeof f->errors / sizeof f->errors[0]) {
        f->errors[f->error_count++] = *error;
    }
}

void fixture_open(struct fixture *f, bool producer)
{
    struct lightq_error error;
    struct lightq_producer_options options = {.on_report = on_report, .on_error = on_error, .owner = f};
    assert_int_equal(lightq_new(f->conf, &f->client, &error), LIGHTQ_OK);
    if (producer) {
        assert_int_equal(lightq_producer_new(f->client, &options, &f->producer, &error), LIGHTQ_OK);
    }
}

lightq_status fixture_send(struct fixture *f, int32_t partition, uintptr_t opaque)
{
    char value[32];
    int size = snprintf(value, sizeof value, "m%lu", (unsigned long)opaque);
    struct lightq_message message = {
        .topic = "t", .partition = partition, .value = value, .value_size = (size_t)size, .opaque = (void *)opaque};
    return lightq_producer_send(f->producer, &message);
}

void fixture_send_many(struct fixture *f, int32_t partition, uintptr_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lightq_status status = fixture_send(f, partition, first + i);
        while (status == LIGHTQ_EBUSY) {
            lightq_producer_poll(f->producer, 100, NULL);
            status = fixture_send(f, partition, first + i);
        }
        assert_int_equal(status, LIGHTQ_OK);
    }
}

void fixture_wait_reports(struct fixture *f, size_t count)
{
    uint64_t deadline_us = lq_deadline_in(lq_clock_system(), WAIT_MS);
    while (f->report_count < count) {
        int left_ms = lq_deadline_left_ms(lq_clock_system(), deadline_us);
        assert_true(left_ms > 0);
        assert_int_equal(lightq_producer_poll(f->producer, left_ms, NULL), LIGHTQ_OK);
    }
}

const struct lightq_report *fixture_report(const struct fixture *f, uintptr_t opaque)
{
    const struct lightq_report *found = NULL;
    for (size_t i = 0; i < f->report_count; i++) {
        if (f->reports[i].opaque == (void *)opaque) {
            assert_null(found); /* one report a message */
            found = &f->reports[i];
        }
    }
    assert_non_null(found);
    return found;
}

void fixture_assert_log(struct fixture *f, unsigned partition, uintptr_t first, size_t count)
{
    struct fake_message *messages = calloc(count + 1, sizeof *messages);
    assert_non_null(messages);
    assert_int_equal(fake_cluster_log(f->cluster, "t", partition, messages, count + 1), count);
    for (size_t i = 0; i < count; i++) {
        char value[32];
        snprintf(value, sizeof value, "m%lu", (unsigned long)(first + i));
        assert_string_equal(messages[i].value, value);
        assert_int_equal(messages[i].offset, i);
    }
    free(messages);
}
