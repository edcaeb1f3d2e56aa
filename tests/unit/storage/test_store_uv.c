/* tests/unit/storage/test_store_uv.c - the store on the real disk: many groups, full segments, journal files that
 * change, cuts, checkpoints, trims and an install; closed in order, and left as a killed process leaves it. */
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/log.h"
#include "storage/io_uv.h"
#include "store_fixture.h"

#define GROUPS 12
#define ROUNDS 30

struct real {
    uv_loop_t loop;
    char root[64];
    struct lq_io *io;
    struct lq_store *store;
    struct lq_err err;
    bool closed;
};

static const struct lq_store_options OPTIONS = {.dir = "shard",
                                                .cluster = {.bytes = {8}},
                                                .segment_bytes = 8192,
                                                .journal_bytes = 32768,
                                                .cache_bytes = 4096,
                                                .index_stride = 1024};

static void on_closed(void *data)
{
    ((struct real *)data)->closed = true;
}

static void open_store(struct real *real)
{
    lightq_status status = lq_store_open(real->io, lq_clock_system(), &OPTIONS, &real->store, &real->err);
    if (status != LIGHTQ_OK) {
        fail_msg("%s: %s", lightq_status_name(status), real->err.text);
    }
}

static void close_store(struct real *real)
{
    real->closed = false;
    lq_store_close(real->store, on_closed, real);
    assert_false(real->closed);
    while (!real->closed) {
        (void)uv_run(&real->loop, UV_RUN_ONCE);
    }
    real->store = NULL;
}

static int setup(void **state)
{
    struct real *real = calloc(1, sizeof *real);
    const struct lq_io_uv_options options = {.create = true};
    assert_non_null(real);
    lq_log_configure(LQ_LOG_ERROR, 2);
    (void)snprintf(real->root, sizeof real->root, "/tmp/lightq-store-XXXXXX");
    assert_non_null(mkdtemp(real->root));
    assert_int_equal(uv_loop_init(&real->loop), 0);
    assert_int_equal(lq_io_uv_new(&real->loop, real->root, &options, &real->io, &real->err), LIGHTQ_OK);
    open_store(real);
    *state = real;
    return 0;
}

static int on_tree(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct real *real = *state;
    if (real->store != NULL) {
        close_store(real);
    }
    assert_int_equal(lq_io_uv_open_files(real->io), 0);
    real->closed = false;
    lq_io_uv_close(real->io, on_closed, real);
    (void)uv_run(&real->loop, UV_RUN_DEFAULT);
    assert_true(real->closed);
    assert_int_equal(uv_loop_close(&real->loop), 0);
    assert_int_equal(nftw(real->root, on_tree, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(real);
    return 0;
}

/* Turns of the loop until nothing waits; a hang is the test's time-out. */
static void settle(struct real *real)
{
    lq_store_flush(real->store);
    while (!lq_store_idle(real->store)) {
        (void)uv_run(&real->loop, UV_RUN_ONCE);
        lq_store_flush(real->store);
    }
}

struct waiting {
    struct lq_rlog_read read;
    struct lq_rlog *log;
    bool done;
    uint64_t next;
};

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    struct waiting *waiting = read->data;
    assert_int_equal(status, LIGHTQ_OK);
    for (size_t i = 0; i < read->count; i++, waiting->next++) {
        struct lq_entry entry;
        uint64_t size = 0;
        assert_int_equal(
            lq_entry_decode(lq_entry_ref_bytes(&read->refs[i]), read->refs[i].size, true, &entry, &size, NULL),
            LIGHTQ_OK);
        assert_true(entry_is_good(&entry, lq_rlog_group(waiting->log), waiting->next,
                                  lq_rlog_term_at(waiting->log, waiting->next)));
    }
    waiting->done = true;
}

static void read_log(struct real *real, struct lq_rlog *log)
{
    struct waiting waiting = {.log = log, .next = lq_rlog_first(log)};
    while (waiting.next <= lq_rlog_last(log)) {
        waiting.done = false;
        waiting.read = (struct lq_rlog_read){.index = waiting.next, .bytes_max = 3000, .cb = on_read, .data = &waiting};
        assert_int_equal(lq_rlog_read(log, &waiting.read), LIGHTQ_OK);
        while (!waiting.done) {
            (void)uv_run(&real->loop, UV_RUN_ONCE);
        }
    }
}

static void take_checkpoint(struct lq_rlog *log)
{
    for (uint64_t i = lq_rlog_durable(log) + 1; i > lq_rlog_first(log); i--) {
        if (lq_rlog_wants_checkpoint(log, i)) {
            struct lq_checkpoint checkpoint = make_checkpoint(log, i - 1, lq_rlog_term_at(log, i - 1), "state");
            assert_int_equal(lq_rlog_checkpoint(log, &checkpoint), LIGHTQ_OK);
            return;
        }
    }
}

static void work(struct real *real, uint64_t last[GROUPS + 1])
{
    struct lq_checkpoint checkpoint;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint64_t group = 1; group <= GROUPS; group++) {
            struct lq_rlog *log = lq_store_find(real->store, group);
            if (log == NULL) {
                assert_int_equal(lq_rlog_create(real->store, group, 1, &log, &real->err), LIGHTQ_OK);
            }
            assert_int_equal(append(log, 2, 1 + round / 10, (uint32_t)(50 + group * 20)), LIGHTQ_OK);
            if (round % 10 == 7 && group % 3 == 0) {
                assert_int_equal(lq_rlog_cut(log, lq_rlog_last(log) - 2), LIGHTQ_OK);
            }
            if (round % 7 == 6) {
                take_checkpoint(log);
                (void)lq_rlog_set_vote(log, 10 + round, group);
            }
        }
        settle(real);
    }
    struct lq_rlog *log = lq_store_find(real->store, 2);
    uint64_t point = lq_rlog_trim_point(log, lq_rlog_last(log), &checkpoint);
    assert_true(point > 0);
    assert_int_equal(lq_rlog_trim(log, point), LIGHTQ_OK);
    checkpoint = make_checkpoint(lq_store_find(real->store, 1), 500, 9, "installed");
    assert_int_equal(lq_rlog_install(lq_store_find(real->store, 1), &checkpoint), LIGHTQ_OK);
    settle(real);
    for (uint64_t group = 1; group <= GROUPS; group++) {
        last[group] = lq_rlog_last(lq_store_find(real->store, group));
        assert_int_equal(lq_rlog_durable(lq_store_find(real->store, group)), last[group]);
    }
}

static void check(struct real *real, const uint64_t last[GROUPS + 1])
{
    assert_int_equal(lq_store_count(real->store), GROUPS);
    for (uint64_t group = 1; group <= GROUPS; group++) {
        struct lq_rlog *log = lq_store_find(real->store, group);
        uint64_t term = 0;
        uint64_t voted_for = 0;
        assert_string_equal(lq_rlog_health_text(log), "");
        assert_int_equal(lq_rlog_last(log), last[group]);
        lq_rlog_vote(log, &term, &voted_for);
        assert_int_equal(term, 37);
        assert_int_equal(voted_for, group);
        read_log(real, log);
    }
    assert_int_equal(lq_rlog_first(lq_store_find(real->store, 1)), 501);
    assert_true(lq_rlog_first(lq_store_find(real->store, 2)) > 1);
}

static void test_store_uv_closed_in_order_has_all_again(void **state)
{
    struct real *real = *state;
    uint64_t last[GROUPS + 1];
    work(real, last);
    check(real, last);

    close_store(real);
    open_store(real);

    check(real, last);
    settle(real);
    check(real, last);
}

/* Nothing is in flight, and nothing was closed: as after kill -9. */
static void test_store_uv_killed_has_all_again(void **state)
{
    struct real *real = *state;
    const struct lq_io_uv_options options = {.create = false};
    uint64_t last[GROUPS + 1];
    work(real, last);
    for (int i = 0; i < 2; i++) {
        lq_store_abandon(real->store);
        real->closed = false;
        lq_io_uv_close(real->io, on_closed, real); /* closes the files that the kernel would */
        (void)uv_run(&real->loop, UV_RUN_DEFAULT);
        assert_true(real->closed);
        assert_int_equal(lq_io_uv_new(&real->loop, real->root, &options, &real->io, &real->err), LIGHTQ_OK);

        open_store(real);

        check(real, last);
    }
    settle(real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_store_uv_closed_in_order_has_all_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store_uv_killed_has_all_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
