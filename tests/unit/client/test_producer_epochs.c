/* tests/unit/client/test_producer_epochs.c - a producer that gives messages up while their requests are still on their
 * way: it goes on at once, in a new epoch, and what comes late is stored before everything sent later or never. */
#include "tests/unit/client/client_fixture.h"

#include <stdlib.h>

#include "client/base/clock.h"

static void rule(struct fixture *f, unsigned times, enum fake_action action, lightq_status status)
{
    fake_cluster_rule(
        f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = times, .action = action, .status = status});
}

/* Each message is a batch, and is waited for so long. */
static void open_with_timeout(struct fixture *f, const char *delivery_timeout)
{
    fixture_set(f, "window.messages", "4");
    fixture_set(f, "request.timeout.ms", "60s");
    fixture_set(f, "delivery.timeout.ms", delivery_timeout);
    fixture_open(f, true);
}

/* The messages @first to @last are reported as stored where they lie, with their own numbers; the one before as
 * unknown. */
static void assert_reports(struct fixture *f, uintptr_t first, uintptr_t last, int64_t offset)
{
    const struct lightq_report *unknown = fixture_report(f, first - 1);
    assert_int_equal(unknown->status, LIGHTQ_ETIMEDOUT);
    assert_true(unknown->in_doubt);
    for (uintptr_t i = first; i <= last; i++) {
        const struct lightq_report *report = fixture_report(f, i);
        assert_int_equal(report->status, LIGHTQ_OK);
        assert_int_equal(report->offset, offset + (int64_t)(i - first));
        assert_int_equal(report->producer, unknown->producer);
        assert_int_equal(report->sequence, i);
    }
}

static void test_producer_late_batch_is_refused_once_it_went_on(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[8];
    open_with_timeout(f, "150");
    rule(f, 1, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    fixture_send_many(f, 0, 1, 5);
    fixture_wait_reports(f, 6);

    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_reports(f, 1, 5, 0);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 8), 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(stored[i].sequence, i + 1);
        assert_int_equal(stored[i].epoch, 1);
    }
}

static void test_producer_late_batch_before_it_went_on_is_in_order(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "150");
    rule(f, 1, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_OK);

    fixture_send_many(f, 0, 1, 5);
    fixture_wait_reports(f, 6);

    assert_reports(f, 1, 5, 1);
    fixture_assert_log(f, 0, 0, 6);
}

static void test_producer_epoch_that_never_began_is_fenced_too(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[4];
    open_with_timeout(f, "150");
    rule(f, 2, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);

    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);

    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_reports(f, 2, 3, 0);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 4), 2);
    assert_int_equal(stored[0].epoch, 2);
}

static void test_producer_late_batch_of_newer_epoch_fences_the_older(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "150");
    rule(f, 2, FAKE_HOLD, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);

    assert_int_equal(fake_cluster_late(f->cluster, 1), LIGHTQ_OK);
    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);

    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);
    assert_reports(f, 2, 3, 1);
    fixture_assert_log(f, 0, 1, 3);
}

/* The first is given up, and those behind it are not: they are asked for again in the new epoch, and stored once. */
static void test_producer_asks_again_in_new_epoch_for_what_is_stored(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[4];
    open_with_timeout(f, "1000");
    rule(f, 3, FAKE_STORE_DROP, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    for (int i = 0; i < 5; i++) { /* so that the others are younger */
        assert_int_equal(lightq_producer_poll(f->producer, 100, NULL), LIGHTQ_OK);
    }

    fixture_send_many(f, 0, 1, 2);
    fixture_wait_reports(f, 3);

    assert_reports(f, 1, 2, 1);
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 4), 3);
    fixture_send_many(f, 0, 3, 1);
    fixture_wait_reports(f, 4);
    fixture_assert_log(f, 0, 0, 4);
}

/* The same, but nothing was stored, and the first comes late. */
static void test_producer_sends_again_in_new_epoch_what_is_not_stored(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "1000");
    rule(f, 1, FAKE_HOLD, LIGHTQ_OK);
    rule(f, 2, FAKE_DROP, LIGHTQ_OK);
    fixture_send_many(f, 0, 0, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lightq_producer_poll(f->producer, 100, NULL), LIGHTQ_OK);
    }

    fixture_send_many(f, 0, 1, 2);
    fixture_wait_reports(f, 3);

    assert_int_equal(fake_cluster_late(f->cluster, 0), LIGHTQ_EFENCED);
    assert_reports(f, 1, 2, 0);
    fixture_assert_log(f, 0, 1, 2);
}

/* What is behind a refused batch begins an epoch only when everything before that batch is known: it would be fenced.
 */
static void test_producer_new_epoch_waits_for_what_is_before_it(void **state)
{
    struct fixture *f = *state;
    struct fake_message stored[4];
    fixture_set(f, "window.messages", "12"); /* three messages are a batch */
    fixture_set(f, "request.timeout.ms", "300");
    fixture_open(f, true);
    rule(f, 1, FAKE_DROP, LIGHTQ_OK);
    rule(f, 1, FAKE_ANSWER, LIGHTQ_ENOSPC);

    fixture_send_many(f, 0, 0, 1);
    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_PRODUCE, 1));
    fixture_send_many(f, 0, 1, 6);
    fixture_wait_reports(f, 7);

    for (uintptr_t i = 0; i < 7; i++) {
        bool refused = i >= 1 && i < 4;
        assert_int_equal(fixture_report(f, i)->status, refused ? LIGHTQ_ENOSPC : LIGHTQ_OK);
        assert_false(fixture_report(f, i)->in_doubt);
    }
    assert_int_equal(fake_cluster_log(f->cluster, "t", 0, stored, 4), 4);
    assert_true(stored[0].epoch == 0 && stored[1].epoch == 1 && stored[1].sequence == 4);
}

/* A batch that says that nothing before it will come, and is refused as out of sequence all the same, fails alone. */
static void test_producer_refused_beginning_of_an_epoch_fails(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "60s");
    rule(f, 1, FAKE_ANSWER, LIGHTQ_ENOSPC);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    rule(f, 1, FAKE_ANSWER, LIGHTQ_EOUTOFSEQUENCE);

    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);
    fixture_send_many(f, 0, 2, 1);
    fixture_wait_reports(f, 3);

    assert_int_equal(fixture_report(f, 0)->status, LIGHTQ_ENOSPC);
    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_EOUTOFSEQUENCE);
    assert_false(fixture_report(f, 0)->in_doubt || fixture_report(f, 1)->in_doubt);
    assert_int_equal(fixture_report(f, 2)->status, LIGHTQ_OK);
    fixture_assert_log(f, 0, 2, 1);
}

static void test_producer_that_is_fenced_fails_what_was_sent_and_goes_on_under_new_id(void **state)
{
    struct fixture *f = *state;
    open_with_timeout(f, "60s");
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    rule(f, 1, FAKE_ANSWER, LIGHTQ_EFENCED);

    fixture_send_many(f, 0, 1, 1);
    fixture_wait_reports(f, 2);
    fixture_send_many(f, 0, 2, 2);
    fixture_wait_reports(f, 4);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_EFENCED);
    assert_false(fixture_report(f, 1)->in_doubt);
    assert_int_equal(fixture_report(f, 3)->status, LIGHTQ_OK);
    assert_true(fixture_report(f, 3)->producer != fixture_report(f, 0)->producer);
    assert_int_equal(fixture_report(f, 3)->sequence, 1);
}

/* ---- everything at once */

#define ROUNDS       150
#define ROUND_MS     20
#define BURST        40
#define HELD_AT_ONCE 8

struct storm {
    struct fixture *f;
    uint64_t random;
    uintptr_t next; /* message */
    size_t held;    /* at most */
    unsigned stored_late, refused_late;
    bool keeps_connections;
};

static uint64_t below(struct storm *storm, uint64_t limit)
{
    storm->random = storm->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (storm->random >> 33) % limit;
}

static void let_in(struct storm *storm, size_t which)
{
    lightq_status status = fake_cluster_late(storm->f->cluster, which);
    if (status == LIGHTQ_ENOTFOUND) {
        storm->held = which; /* at most, once more */
        return;
    }
    storm->held--;
    storm->stored_late += status == LIGHTQ_OK;
    storm->refused_late += status == LIGHTQ_EFENCED;
}

/* Something goes wrong with one or two of the next batches. */
static void break_something(struct storm *storm)
{
    static const struct {
        enum fake_action action;
        lightq_status status;
    } kinds[] = {{FAKE_DROP, LIGHTQ_OK},
                 {FAKE_STORE_DROP, LIGHTQ_OK},
                 {FAKE_HOLD, LIGHTQ_OK},
                 {FAKE_HOLD, LIGHTQ_OK},
                 {FAKE_ANSWER, LIGHTQ_EBUSY},
                 {FAKE_ANSWER, LIGHTQ_ENOSPC},
                 {FAKE_ANSWER, LIGHTQ_EOUTOFSEQUENCE},
                 {FAKE_STORE_ANSWER, LIGHTQ_ELEADERSHIPLOST},
                 {FAKE_CLOSE, LIGHTQ_OK},
                 {FAKE_STORE_CLOSE, LIGHTQ_OK}};
    size_t kind = below(storm, sizeof kinds / sizeof kinds[0] - (storm->keeps_connections ? 2 : 0));
    unsigned times = 1 + (unsigned)below(storm, 2);
    fake_cluster_no_rules(storm->f->cluster);
    if (kinds[kind].action == FAKE_HOLD) {
        while (storm->held + times > HELD_AT_ONCE) {
            let_in(storm, 0);
        }
        storm->held += times;
    }
    fake_cluster_rule(storm->f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE,
                                                            .after = (unsigned)below(storm, 4),
                                                            .times = times,
                                                            .action = kinds[kind].action,
                                                            .status = kinds[kind].status});
}

/* Now and then one that no server takes: its batch is taken apart. A client that connected again knows the limit. */
static void send_burst(struct storm *storm)
{
    char big[300] = {0};
    for (uint64_t left = below(storm, BURST); left > 0; left--) {
        if (!storm->keeps_connections || below(storm, 50) != 0) {
            fixture_send_many(storm->f, 0, storm->next++, 1);
            continue;
        }
        struct lightq_message message = {
            .topic = "t", .value = big, .value_size = sizeof big, .opaque = (void *)storm->next++};
        lightq_status status;
        while ((status = lightq_producer_send(storm->f->producer, &message)) == LIGHTQ_EBUSY) {
            lightq_producer_poll(storm->f->producer, ROUND_MS, NULL);
        }
        assert_int_equal(status, LIGHTQ_OK);
    }
}

/* All that is stored lies in the order of sending, once, under numbers that go up; reports tell the truth. */
static void check_storm(const struct storm *storm)
{
    const struct fixture *f = storm->f;
    struct fake_message *stored = calloc(storm->next, sizeof *stored);
    int64_t *offsets = malloc(storm->next * sizeof *offsets); /* by message */
    assert_true(stored != NULL && offsets != NULL);
    memset(offsets, 0xff, storm->next * sizeof *offsets);
    size_t count = fake_cluster_log(f->cluster, "t", 0, stored, storm->next);
    assert_true(count <= storm->next);
    long last = -1;
    for (size_t i = 0; i < count; i++) {
        long message = strtol(stored[i].value + 1, NULL, 10);
        assert_true(message > last);
        assert_int_equal(stored[i].producer, stored[0].producer);
        assert_true(i == 0 || (stored[i].sequence > stored[i - 1].sequence && stored[i].epoch >= stored[i - 1].epoch));
        offsets[message] = (int64_t)i;
        last = message;
    }
    unsigned too_big = 0;
    assert_int_equal(f->report_count, storm->next);
    for (size_t i = 0; i < f->report_count; i++) {
        const struct lightq_report *report = &f->reports[i];
        int64_t offset = offsets[(uintptr_t)report->opaque];
        assert_int_equal((uintptr_t)report->opaque, i); /* reports come in order too */
        too_big += report->status == LIGHTQ_ETOOBIG;
        if (report->status == LIGHTQ_OK) {
            assert_int_equal(report->offset, offset);
            assert_int_equal(report->sequence, stored[offset].sequence);
        } else if (report->status == LIGHTQ_EDUPLICATE) {
            assert_true(offset >= 0);
        } else if (!report->in_doubt) {
            assert_int_equal(offset, -1);
        }
    }
    assert_true(!storm->keeps_connections || too_big > 0);
    free(offsets);
    free(stored);
}

static void random_faults(struct fixture *f, bool keeps_connections)
{
    struct storm storm = {
        .f = f, .random = lq_clock_random_u64(lq_clock_system()), .keeps_connections = keeps_connections};
    print_message("seed %llu\n", (unsigned long long)storm.random);
    fixture_set(f, "window.messages", "60");
    fixture_set(f, "request.timeout.ms", "40");
    fixture_set(f, "delivery.timeout.ms", "150");
    fixture_open(f, true);
    fixture_send_many(f, 0, storm.next++, 1);
    fixture_wait_reports(f, 1); /* the limit was told; now it changes */
    fake_cluster_message_max(f->cluster, 200);

    for (unsigned i = 0; i < ROUNDS; i++) {
        break_something(&storm);
        send_burst(&storm);
        assert_int_equal(lightq_producer_poll(f->producer, (int)below(&storm, ROUND_MS), NULL), LIGHTQ_OK);
        if (below(&storm, 3) == 0) {
            let_in(&storm, below(&storm, HELD_AT_ONCE));
        }
    }
    fake_cluster_no_rules(f->cluster);
    fixture_send_many(f, 0, storm.next, BURST);
    storm.next += BURST;
    fixture_wait_reports(f, storm.next);
    while (fake_cluster_late(f->cluster, 0) != LIGHTQ_ENOTFOUND) {
    }

    check_storm(&storm);
    print_message("%u stored late, %u fenced\n", storm.stored_late, storm.refused_late);
}

static void test_producer_random_faults_keep_order_and_store_once(void **state)
{
    random_faults(*state, false);
}

static void test_producer_random_faults_and_refused_messages_keep_order(void **state)
{
    random_faults(*state, true);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_producer_late_batch_is_refused_once_it_went_on),
        WITH_FIXTURE(test_producer_late_batch_before_it_went_on_is_in_order),
        WITH_FIXTURE(test_producer_epoch_that_never_began_is_fenced_too),
        WITH_FIXTURE(test_producer_late_batch_of_newer_epoch_fences_the_older),
        WITH_FIXTURE(test_producer_asks_again_in_new_epoch_for_what_is_stored),
        WITH_FIXTURE(test_producer_sends_again_in_new_epoch_what_is_not_stored),
        WITH_FIXTURE(test_producer_new_epoch_waits_for_what_is_before_it),
        WITH_FIXTURE(test_producer_refused_beginning_of_an_epoch_fails),
        WITH_FIXTURE(test_producer_that_is_fenced_fails_what_was_sent_and_goes_on_under_new_id),
        WITH_FIXTURE(test_producer_random_faults_keep_order_and_store_once),
        WITH_FIXTURE(test_producer_random_faults_and_refused_messages_keep_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
