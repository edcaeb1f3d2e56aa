/* tests/unit/storage/test_rlog.c - one log: appends and their refusals, borders and sizes, cuts, terms, memory and disk
 * reads, seeks, votes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "store_fixture.h"

static struct lq_rlog *open_one(struct fixture *f, struct told *told)
{
    fixture_open(f);
    return fixture_create(f, 7, told);
}

/* Memory is as small as can be, so that reads go to the disk. */
static struct lq_rlog *open_small(struct fixture *f, struct told *told)
{
    f->options.segment_bytes = 4096;
    f->options.index_stride = 512;
    f->options.cache_bytes = 1;
    return open_one(f, told);
}

static void test_rlog_new_one_is_empty(void **state)
{
    struct lq_rlog *log = open_one(*state, NULL);
    const struct lq_rlog_run *runs;
    struct lq_checkpoint checkpoint;

    assert_int_equal(lq_rlog_first(log), 1);
    assert_int_equal(lq_rlog_last(log), 0);
    assert_int_equal(lq_rlog_term_at(log, 0), 0);
    assert_int_equal(lq_rlog_runs(log, &runs), 0);
    assert_false(lq_rlog_first_checkpoint(log, &checkpoint));
    assert_int_equal(lq_rlog_seek_offset(log, 9), 1);
    assert_int_equal(lq_rlog_first_offset(log), 0);
}

static lightq_status append_ref(struct lq_rlog *log, struct lq_entry_ref ref)
{
    lightq_status status = lq_rlog_append(log, &ref, 1);
    lq_slab_unref(ref.slab);
    return status;
}

static void test_rlog_append_of_what_does_not_follow_is_EINVAL(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_one(f, NULL);
    assert_int_equal(append(log, 3, 4, 10), LIGHTQ_OK);

    assert_int_equal(append_ref(log, make_entry(7, 5, 4, 4, 1, LQ_ENTRY_COMMAND)), LIGHTQ_EINVAL); /* a gap */
    assert_int_equal(append_ref(log, make_entry(7, 3, 4, 4, 1, LQ_ENTRY_COMMAND)), LIGHTQ_EINVAL); /* again */
    assert_int_equal(append_ref(log, make_entry(7, 4, 5, 3, 1, LQ_ENTRY_COMMAND)), LIGHTQ_EINVAL); /* another past */
    assert_int_equal(append_ref(log, make_entry(7, 4, 3, 4, 1, LQ_ENTRY_COMMAND)), LIGHTQ_EINVAL); /* term goes back */
    assert_int_equal(append_ref(log, make_entry(8, 4, 4, 4, 1, LQ_ENTRY_COMMAND)), LIGHTQ_EINVAL); /* another group */
    struct lq_entry_ref cut = make_entry(7, 4, 4, 4, 100, LQ_ENTRY_COMMAND);
    cut.size -= 8;
    assert_int_equal(append_ref(log, cut), LIGHTQ_EINVAL);
    struct lq_entry_ref outside = make_entry(7, 4, 4, 4, 100, LQ_ENTRY_COMMAND);
    outside.offset = 8;
    assert_int_equal(append_ref(log, outside), LIGHTQ_EINVAL);

    assert_int_equal(lq_rlog_last(log), 3);
    assert_int_equal(append(log, 1, 5, 10), LIGHTQ_OK);
    fixture_settle(f);
    check_log(f, log);
}

static void test_rlog_append_takes_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_one(f, NULL);
    struct lq_entry_ref refs[3] = {make_entry(7, 1, 1, 0, 10, LQ_ENTRY_COMMAND),
                                   make_entry(7, 2, 1, 1, 10, LQ_ENTRY_CHANGE),
                                   make_entry(7, 4, 1, 1, 10, LQ_ENTRY_COMMAND)};

    assert_int_equal(lq_rlog_append(log, refs, 3), LIGHTQ_EINVAL);
    assert_int_equal(lq_rlog_last(log), 0);
    assert_int_equal(lq_rlog_append(log, refs, 2), LIGHTQ_OK);

    for (int i = 0; i < 3; i++) {
        lq_slab_unref(refs[i].slab);
    }
    assert_int_equal(lq_rlog_last(log), 2);
}

/* A slab with many entries, as a frame from a peer: written from where it lies, given back when it is out of memory. */
static void test_rlog_entries_of_one_slab_are_kept_by_reference(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_small(f, NULL);
    struct lq_slab *slab = lq_slab_new(5 * lq_entry_size(20));
    struct lq_entry_ref refs[5];
    assert_non_null(slab);
    for (uint64_t i = 0; i < 5; i++) {
        struct lq_entry_ref one = make_entry(7, i + 1, 1, i == 0 ? 0 : 1, 20, LQ_ENTRY_COMMAND);
        memcpy(slab->bytes + i * one.size, one.slab->bytes, one.size);
        refs[i] = (struct lq_entry_ref){.slab = slab, .offset = (uint32_t)(i * one.size), .size = one.size};
        lq_slab_unref(one.slab);
    }
    assert_int_equal(lq_rlog_append(log, refs, 5), LIGHTQ_OK);
    assert_int_equal(slab->references, 6);

    fixture_settle(f);

    assert_int_equal(slab->references, 1);
    lq_slab_unref(slab);
    check_log(f, log);
}

/* Case A8: a payload whose length is no multiple of 8 is too much for the next start. */
static void test_rlog_any_payload_size_survives_a_restart(void **state)
{
    static const uint32_t MORE[] = {157, 4023, 4024, 4025, 4095, 4096, 4097, 70000};
    struct fixture *f = *state;
    struct lq_rlog *log = open_one(f, NULL);
    for (uint32_t size = 0; size <= 33; size++) {
        assert_int_equal(append(log, 1, 1, size), LIGHTQ_OK);
    }
    for (size_t i = 0; i < sizeof MORE / sizeof MORE[0]; i++) {
        assert_int_equal(append(log, 1, 1, MORE[i]), LIGHTQ_OK);
        fixture_settle(f);
    }

    fixture_reopen(f);
    log = lq_store_find(f->store, 7);

    assert_int_equal(lq_rlog_last(log), 34 + sizeof MORE / sizeof MORE[0]);
    check_log(f, log);
}

/* Cases B7, J5: what ends exactly at the limit of a file is lost, repeated, or cut in its middle. Entries that end one
 * byte group before, at and behind a segment's limit. */
static void test_rlog_entry_at_the_segment_border_is_there_once(void **state)
{
    struct fixture *f = *state;
    for (int delta = -8; delta <= 8; delta += 8) {
        char path[128];
        f->options.segment_bytes = 4096;
        f->options.cache_bytes = 1;
        fixture_open(f);
        struct lq_rlog *log = fixture_create(f, 7, NULL);
        uint32_t payload = (uint32_t)(4096 - 64 - 2 * 144 - 72 + delta); /* behind two entries of 144 bytes */
        assert_int_equal(append(log, 2, 1, 72), LIGHTQ_OK);
        assert_int_equal(append(log, 1, 1, payload), LIGHTQ_OK);
        fixture_settle(f);
        assert_int_equal(append(log, 2, 1, 72), LIGHTQ_OK);
        fixture_settle(f);

        bool in_first = !lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, 3, ".log"));
        assert_int_equal(in_first, delta <= 0);
        assert_int_equal(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, 4, ".log")), delta <= 0);
        check_log(f, log);
        fixture_reopen(f);
        log = lq_store_find(f->store, 7);
        assert_int_equal(lq_rlog_last(log), 5);
        check_log(f, log);
        fixture_close(f);
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    }
}

static void test_rlog_entry_larger_than_a_segment_has_its_own(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 1, 1, 10), LIGHTQ_OK);
    assert_int_equal(append(log, 1, 1, 100000), LIGHTQ_OK);
    assert_int_equal(append(log, 1, 1, 10), LIGHTQ_OK);
    fixture_settle(f);
    check_log(f, log);

    fixture_reopen(f);

    log = lq_store_find(f->store, 7);
    assert_int_equal(lq_rlog_last(log), 3);
    check_log(f, log);
}

static void test_rlog_cut_outside_the_log_is_EINVAL(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_one(f, NULL);
    assert_int_equal(append(log, 3, 1, 10), LIGHTQ_OK);

    assert_int_equal(lq_rlog_cut(log, 0), LIGHTQ_EINVAL);
    assert_int_equal(lq_rlog_cut(log, 5), LIGHTQ_EINVAL);
    uint64_t generation = lq_rlog_generation(log);
    assert_int_equal(lq_rlog_cut(log, 4), LIGHTQ_OK); /* nothing to cut */

    assert_int_equal(lq_rlog_last(log), 3);
    assert_int_equal(lq_rlog_generation(log), generation);
}

static void test_rlog_cut_is_never_told_durable_again(void **state)
{
    struct fixture *f = *state;
    struct told told;
    struct lq_rlog *log = open_one(f, &told);
    assert_int_equal(append(log, 5, 1, 10), LIGHTQ_OK);
    lq_store_flush(f->store); /* all five are in flight */

    assert_int_equal(lq_rlog_cut(log, 3), LIGHTQ_OK);
    assert_int_equal(append(log, 1, 2, 10), LIGHTQ_OK);
    (void)lq_io_mem_run_one(f->mem);

    assert_int_equal(told.durable, 2);
    assert_int_equal(lq_rlog_durable(log), 2);
    fixture_settle(f);
    assert_int_equal(told.durable, 3);
    assert_int_equal(lq_rlog_term_at(log, 3), 2);
    check_log(f, log);
    fixture_reopen(f);
    check_log(f, lq_store_find(f->store, 7));
    assert_int_equal(lq_rlog_last(lq_store_find(f->store, 7)), 3);
    assert_int_equal(lq_rlog_term_at(lq_store_find(f->store, 7), 3), 2);
}

static void test_rlog_cut_of_what_was_never_flushed_touches_no_disk(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_one(f, NULL);
    assert_int_equal(append(log, 2, 1, 10), LIGHTQ_OK);
    fixture_settle(f);
    uint64_t truncations = lq_io_mem_count(f->mem, LQ_IO_TRUNCATE);
    assert_int_equal(append(log, 3, 1, 10), LIGHTQ_OK);

    assert_int_equal(lq_rlog_cut(log, 4), LIGHTQ_OK);
    fixture_settle(f);

    assert_int_equal(lq_io_mem_count(f->mem, LQ_IO_TRUNCATE), truncations);
    assert_int_equal(lq_rlog_durable(log), 3);
    check_log(f, log);
}

/* From an old, sealed segment on; the entry cut at is found on disk. */
static void test_rlog_cut_into_sealed_segments_removes_later_ones(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 60, 1, 200), LIGHTQ_OK);
    fixture_settle(f);
    assert_true(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 7, 1, ".idx")));

    assert_int_equal(lq_rlog_cut(log, 5), LIGHTQ_OK);
    assert_int_equal(lq_rlog_last(log), 4);
    assert_int_equal(append(log, 30, 2, 100), LIGHTQ_OK);
    fixture_settle(f);

    check_log(f, log);
    fixture_reopen(f);
    log = lq_store_find(f->store, 7);
    assert_int_equal(lq_rlog_last(log), 34);
    assert_int_equal(lq_rlog_term_at(log, 4), 1);
    assert_int_equal(lq_rlog_term_at(log, 5), 2);
    check_log(f, log);
}

/* A second cut, into an older segment, while the first is being carried out: the older segment's index must be gone
 * before its entries are, wherever the power goes, or it would promise entries that were cut. */
static void test_rlog_cut_overtaken_by_an_earlier_one_leaves_no_index_behind(void **state)
{
    struct fixture *f = *state;
    for (uint64_t n = 1;; n++) {
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
        struct lq_rlog *log = open_small(f, NULL);
        assert_int_equal(append(log, 60, 1, 200), LIGHTQ_OK);
        fixture_settle(f);
        assert_int_equal(lq_rlog_cut(log, 45), LIGHTQ_OK);
        lq_store_flush(f->store);
        assert_true(lq_io_mem_run_one(f->mem)); /* it has begun: its files are next */
        assert_true(lq_io_mem_pending(f->mem) > 0);
        assert_int_equal(lq_rlog_cut(log, 5), LIGHTQ_OK);
        lq_io_mem_crash_after(f->mem, n);
        for (unsigned i = 0; i < 50 && !lq_io_mem_crashed(f->mem); i++) {
            lq_store_flush(f->store);
            (void)lq_io_mem_run_one(f->mem);
        }
        bool came = lq_io_mem_crashed(f->mem);

        fixture_crash(f, LQ_IO_MEM_KEEP, 0);
        fixture_open(f);

        log = lq_store_find(f->store, 7);
        if (lq_rlog_health(log) != LQ_RLOG_HEALTHY) {
            fail_msg("power cut at change %d: %s", (int)n, lq_rlog_health_text(log));
        }
        assert_true(lq_rlog_last(log) >= 4);
        check_log(f, log);
        fixture_close(f);
        if (!came) {
            assert_true(n > 5);
            break;
        }
    }
}

static void test_rlog_runs_and_changes_follow_appends_and_cuts(void **state)
{
    struct fixture *f = *state;
    const struct lq_rlog_run *runs;
    const struct lq_rlog_change *changes;
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append_ref(log, make_entry(7, 1, 1, 0, 30, LQ_ENTRY_CHANGE)), LIGHTQ_OK);
    assert_int_equal(append(log, 20, 1, 300), LIGHTQ_OK);
    assert_int_equal(append_ref(log, make_entry(7, 22, 3, 1, 31, LQ_ENTRY_CHANGE)), LIGHTQ_OK);
    assert_int_equal(append(log, 20, 3, 300), LIGHTQ_OK);
    assert_int_equal(append_ref(log, make_entry(7, 43, 4, 3, 32, LQ_ENTRY_CHANGE)), LIGHTQ_OK);
    for (int reopened = 0; reopened < 2; reopened++) {
        fixture_settle(f);
        assert_int_equal(lq_rlog_runs(log, &runs), 3);
        assert_int_equal(runs[0].first, 1);
        assert_int_equal(runs[0].last, 21);
        assert_int_equal(runs[1].first, 22);
        assert_int_equal(runs[1].last, 42);
        assert_int_equal(runs[1].term, 3);
        assert_int_equal(runs[2].first, 43);
        assert_int_equal(runs[2].last, 43);
        assert_int_equal(lq_rlog_changes(log, &changes), 3);
        assert_int_equal(changes[1].index, 22);
        assert_int_equal(changes[1].payload_size, 31);
        assert_int_equal(changes[1].payload[5], payload_byte(7, 22, 3, 5));
        assert_int_equal(changes[2].index, 43);
        fixture_reopen(f); /* from the indexes of sealed segments and a scan of the last */
        log = lq_store_find(f->store, 7);
    }

    assert_int_equal(lq_rlog_cut(log, 30), LIGHTQ_OK);

    assert_int_equal(lq_rlog_runs(log, &runs), 2);
    assert_int_equal(runs[1].last, 29);
    assert_int_equal(lq_rlog_changes(log, &changes), 2);
    assert_int_equal(lq_rlog_term_at(log, 30), 0);
}

static void test_rlog_changes_kept_are_bounded_and_the_newest(void **state)
{
    struct fixture *f = *state;
    const struct lq_rlog_change *changes;
    struct lq_rlog *log = open_one(f, NULL);
    for (uint64_t i = 1; i <= 300; i++) {
        assert_int_equal(append_ref(log, make_entry(7, i, 1, i == 1 ? 0 : 1, 20, LQ_ENTRY_CHANGE)), LIGHTQ_OK);
    }

    assert_int_equal(lq_rlog_changes(log, &changes), 256);
    assert_int_equal(changes[255].index, 300);
    assert_int_equal(changes[0].index, 45);
}

static void test_rlog_peek_keeps_its_bounds(void **state)
{
    struct fixture *f = *state;
    struct lq_entry_ref refs[20];
    struct lq_rlog *log = open_one(f, NULL);
    assert_int_equal(append(log, 10, 1, 28), LIGHTQ_OK); /* 104 bytes each */

    size_t all = lq_rlog_peek(log, 3, UINT64_MAX, 20, refs);
    assert_int_equal(all, 8);
    for (size_t i = 0; i < all; i++) {
        assert_int_equal(lq_get_u64(lq_entry_ref_bytes(&refs[i]) + 16), 3 + i);
        lq_slab_unref(refs[i].slab);
    }
    assert_int_equal(lq_rlog_peek(log, 3, 208, 20, refs), 2);
    lq_slab_unref(refs[0].slab);
    lq_slab_unref(refs[1].slab);
    assert_int_equal(lq_rlog_peek(log, 3, 1, 20, refs), 1); /* at least one */
    lq_slab_unref(refs[0].slab);
    assert_int_equal(lq_rlog_peek(log, 3, UINT64_MAX, 3, refs), 3);
    for (size_t i = 0; i < 3; i++) {
        lq_slab_unref(refs[i].slab);
    }
    assert_int_equal(lq_rlog_peek(log, 11, UINT64_MAX, 20, refs), 0);
    assert_int_equal(lq_rlog_peek(log, 0, UINT64_MAX, 20, refs), 0);
}

static void test_rlog_cache_drops_the_oldest_of_all_logs_but_nothing_unwritten(void **state)
{
    struct fixture *f = *state;
    struct lq_entry_ref ref;
    struct lq_store_counters counters;
    f->options.cache_bytes = 10 * 104;
    fixture_open(f);
    struct lq_rlog *a = fixture_create(f, 1, NULL);
    struct lq_rlog *b = fixture_create(f, 2, NULL);
    assert_int_equal(append(a, 8, 1, 28), LIGHTQ_OK);
    assert_int_equal(append(b, 8, 1, 28), LIGHTQ_OK);
    assert_int_equal(lq_rlog_peek(a, 1, 1, 1, &ref), 1); /* over the bound, but not on disk yet */
    lq_slab_unref(ref.slab);

    fixture_settle(f);

    lq_store_count_up(f->store, &counters);
    assert_true(counters.cache_bytes <= 10 * 104);
    assert_int_equal(lq_rlog_peek(a, 1, 1, 1, &ref), 0); /* the oldest went */
    assert_int_equal(lq_rlog_peek(b, 8, 1, 1, &ref), 1);
    lq_slab_unref(ref.slab);
    check_log(f, a);
    check_log(f, b);
}

/* ---- reads from disk ---- */

struct read_many {
    struct lq_rlog_read read;
    struct lq_rlog *log;
    bool done;
    lightq_status status;
    uint64_t next;
    size_t count;
    uint64_t bytes;
};

static void on_read_many(struct lq_rlog_read *read, lightq_status status)
{
    struct read_many *many = read->data;
    many->done = true;
    many->status = status;
    many->count = 0;
    many->bytes = 0;
    for (size_t i = 0; i < read->count; i++) {
        struct lq_entry entry;
        uint64_t size = 0;
        assert_int_equal(
            lq_entry_decode(lq_entry_ref_bytes(&read->refs[i]), read->refs[i].size, true, &entry, &size, NULL),
            LIGHTQ_OK);
        assert_int_equal(size, read->refs[i].size);
        assert_true(entry_is_good(&entry, 7, many->next, lq_rlog_term_at(many->log, many->next)));
        many->next++;
        many->count++;
        many->bytes += size;
    }
}

static lightq_status read_many(struct fixture *f, struct read_many *many, uint64_t index, uint64_t bytes_max)
{
    many->done = false;
    many->next = index;
    many->read = (struct lq_rlog_read){.index = index, .bytes_max = bytes_max, .cb = on_read_many, .data = many};
    lightq_status status = lq_rlog_read(many->log, &many->read);
    if (status != LIGHTQ_OK) {
        return status;
    }
    assert_false(many->done);
    (void)lq_io_mem_run_all(f->mem);
    assert_true(many->done);
    return many->status;
}

static void test_rlog_read_gives_whole_entries_within_its_bytes(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_small(f, NULL);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(append(log, 1, 1, (uint32_t)(i * 37 % 700)), LIGHTQ_OK);
    }
    fixture_settle(f);
    for (int reopened = 0; reopened < 2; reopened++) {
        struct read_many many = {.log = log};
        for (uint64_t bytes = 0; bytes < 5000; bytes += 613) {
            for (uint64_t index = 1; index <= 100;) {
                assert_int_equal(read_many(f, &many, index, bytes), LIGHTQ_OK);
                assert_true(many.count >= 1);
                assert_true(many.count == 1 || many.bytes <= bytes);
                index += many.count;
            }
        }
        for (uint64_t index = 100; index > 3; index -= 3) { /* backwards: no hint helps */
            assert_int_equal(read_many(f, &many, index, 1), LIGHTQ_OK);
            assert_int_equal(many.count, 1);
        }
        assert_int_equal(read_many(f, &many, 0, 1), LIGHTQ_EOUTOFRANGE);
        assert_int_equal(read_many(f, &many, 101, 1), LIGHTQ_EOUTOFRANGE);
        fixture_reopen(f);
        log = lq_store_find(f->store, 7);
    }
}

static void test_rlog_read_of_what_is_only_in_memory_is_given(void **state)
{
    struct fixture *f = *state;
    struct read_many many = {.log = open_one(f, NULL)};
    assert_int_equal(append(many.log, 5, 1, 50), LIGHTQ_OK);

    assert_int_equal(read_many(f, &many, 2, 1000), LIGHTQ_OK);

    assert_int_equal(many.count, 4);
    assert_int_equal(lq_rlog_durable(many.log), 0);
}

static void test_rlog_read_overtaken_by_a_cut_is_ECANCELED(void **state)
{
    struct fixture *f = *state;
    struct read_many many = {.log = open_small(f, NULL)};
    assert_int_equal(append(many.log, 20, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    many.read = (struct lq_rlog_read){.index = 2, .bytes_max = 500, .cb = on_read_many, .data = &many};
    assert_int_equal(lq_rlog_read(many.log, &many.read), LIGHTQ_OK);

    assert_int_equal(lq_rlog_cut(many.log, 10), LIGHTQ_OK);
    (void)lq_io_mem_run_all(f->mem);

    assert_true(many.done);
    assert_int_equal(many.status, LIGHTQ_ECANCELED);
}

static void test_rlog_read_of_a_destroyed_or_closed_log_is_ECANCELED(void **state)
{
    struct fixture *f = *state;
    for (int by_close = 0; by_close < 2; by_close++) {
        struct read_many many = {.log = open_small(f, NULL)};
        assert_int_equal(append(many.log, 20, 1, 100), LIGHTQ_OK);
        fixture_settle(f);
        many.read = (struct lq_rlog_read){.index = 2, .bytes_max = 500, .cb = on_read_many, .data = &many};
        assert_int_equal(lq_rlog_read(many.log, &many.read), LIGHTQ_OK);
        if (!by_close) {
            lq_rlog_destroy(many.log);
            (void)lq_io_mem_run_all(f->mem);
            assert_true(many.done);
            fixture_settle(f);
        }

        fixture_close(f);

        assert_true(many.done);
        assert_int_equal(many.status, LIGHTQ_ECANCELED);
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    }
}

static void test_rlog_read_that_fails_is_EIO(void **state)
{
    struct fixture *f = *state;
    struct read_many many = {.log = open_small(f, NULL)};
    const struct lq_io_mem_fault fault = {.verb = LQ_IO_READ, .times = 1, .status = LIGHTQ_EIO};
    assert_int_equal(append(many.log, 20, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_io_mem_add_fault(f->mem, &fault), LIGHTQ_OK);

    assert_int_equal(read_many(f, &many, 2, 500), LIGHTQ_EIO);

    assert_int_equal(read_many(f, &many, 2, 500), LIGHTQ_OK);
}

static void test_rlog_read_of_rot_is_ECORRUPT(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct read_many many = {.log = open_small(f, NULL)};
    assert_int_equal(append(many.log, 8, 1, 100), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(lq_io_mem_flip(f->mem, group_path(path, sizeof path, 7, 1, ".log"), 64 + 176 * 3 + 90, 4),
                     LIGHTQ_OK); /* entry 4 */

    assert_int_equal(read_many(f, &many, 2, 300), LIGHTQ_OK);
    assert_int_equal(many.count, 1);
    assert_int_equal(read_many(f, &many, 4, 300), LIGHTQ_ECORRUPT);
    assert_int_equal(read_many(f, &many, 5, 300), LIGHTQ_OK);
}

/* ---- seeks ---- */

static void test_rlog_seek_finds_a_place_at_or_just_before(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = open_small(f, NULL);
    assert_int_equal(append(log, 100, 1, 100), LIGHTQ_OK); /* 2 messages each, stamped 1010, 1020, ... */
    fixture_settle(f);
    for (int reopened = 0; reopened < 2; reopened++) {
        for (uint64_t index = 1; index <= 100; index++) {
            uint64_t by_offset = lq_rlog_seek_offset(log, entry_offset(index) + 1);
            uint64_t by_time = lq_rlog_seek_time(log, 1000 + index * 10);
            assert_in_range(by_offset, index > 6 ? index - 6 : 1, index);
            assert_in_range(by_time, index > 6 ? index - 6 : 1, index);
        }
        assert_int_equal(lq_rlog_seek_offset(log, 0), 1);
        assert_int_equal(lq_rlog_seek_offset(log, 200), 101);
        assert_int_equal(lq_rlog_seek_offset(log, UINT64_MAX), 101);
        assert_int_equal(lq_rlog_seek_time(log, 0), 1);
        assert_in_range(lq_rlog_seek_time(log, UINT64_MAX), 95, 101);
        fixture_reopen(f);
        log = lq_store_find(f->store, 7);
    }
}

/* More files than are kept open: the points of sealed segments are loaded again when they are needed. */
static void test_rlog_many_segments_are_read_with_few_open_files(void **state)
{
    struct fixture *f = *state;
    f->options.segment_bytes = 256;
    f->options.cache_bytes = 1;
    struct lq_rlog *log = open_one(f, NULL);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(append(log, 20, 1, 72), LIGHTQ_OK);
        fixture_settle(f);
    }

    check_log(f, log);
    assert_true(lq_io_mem_open_files(f->mem) < 300);
    assert_int_equal(lq_rlog_seek_offset(log, entry_offset(3)), 3);
    assert_int_equal(lq_rlog_cut(log, 3), LIGHTQ_OK);
    assert_int_equal(append(log, 3, 2, 72), LIGHTQ_OK);
    fixture_settle(f);

    fixture_reopen(f);
    log = lq_store_find(f->store, 7);
    assert_int_equal(lq_rlog_last(log), 5);
    check_log(f, log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rlog_new_one_is_empty, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_append_of_what_does_not_follow_is_EINVAL, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_append_takes_all_or_nothing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_entries_of_one_slab_are_kept_by_reference, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_any_payload_size_survives_a_restart, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_entry_at_the_segment_border_is_there_once, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_entry_larger_than_a_segment_has_its_own, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_cut_outside_the_log_is_EINVAL, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_cut_is_never_told_durable_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_cut_of_what_was_never_flushed_touches_no_disk, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_cut_into_sealed_segments_removes_later_ones, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_cut_overtaken_by_an_earlier_one_leaves_no_index_behind, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_runs_and_changes_follow_appends_and_cuts, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_changes_kept_are_bounded_and_the_newest, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_peek_keeps_its_bounds, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_cache_drops_the_oldest_of_all_logs_but_nothing_unwritten,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_read_gives_whole_entries_within_its_bytes, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_read_of_what_is_only_in_memory_is_given, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_read_overtaken_by_a_cut_is_ECANCELED, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_read_of_a_destroyed_or_closed_log_is_ECANCELED, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_read_that_fails_is_EIO, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_read_of_rot_is_ECORRUPT, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_seek_finds_a_place_at_or_just_before, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rlog_many_segments_are_read_with_few_open_files, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
