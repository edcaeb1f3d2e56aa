/* raft/start_array: the array for RAFT_START, small and mapped, and the memory libraft frees or leaves alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raft/errmap.h"
#include "raft/heap.h"
#include "raft/start_array.h"

static int setup(void **state)
{
    (void)state;
    lq_raft_heap_install();
    return 0;
}

/* Three runs and two changes over @last entries, checked entry by entry. */
static void check_array(uint64_t first, uint64_t last, uint64_t map_from, size_t *shared)
{
    uint64_t a = first + (last - first) / 3;
    uint64_t b = first + (last - first) * 2 / 3;
    const struct lq_rlog_run runs[] = {{.first = 1, .last = a, .term = 3},
                                       {.first = a + 1, .last = b, .term = 4},
                                       {.first = b + 1, .last = last, .term = 9}};
    const uint8_t payload[16] = {1};
    const struct lq_rlog_change changes[] = {
        {.index = 1, .payload = payload, .payload_size = 16},
        {.index = a, .payload = payload, .payload_size = 16},
        {.index = last, .payload = payload, .payload_size = 8},
    };
    struct lq_start_array array;

    assert_int_equal(lq_start_array_fill(first, last, runs, 3, changes, 3, map_from, &array), LIGHTQ_OK);

    assert_int_equal(array.count, last - first + 1);
    for (uint64_t i = first; i <= last; i++) {
        const struct raft_entry *entry = &array.entries[i - first];
        uint64_t term = i <= a ? 3 : i <= b ? 4 : 9;
        bool is_change = i == 1 || i == a || i == last;
        if (entry->term != term || entry->type != (is_change ? RAFT_CHANGE : RAFT_COMMAND) ||
            entry->batch != lq_raft_token() || entry->buf.len != (is_change ? (i == last ? 8u : 16u) : 0u)) {
            fail_msg("entry %llu is wrong", (unsigned long long)i);
        }
    }
    *shared = array.shared_blocks;
    lq_start_array_free(&array, false);
}

static void test_start_array_small_is_plain_memory(void **state)
{
    (void)state;
    size_t shared;
    check_array(1, 1000, UINT64_MAX, &shared);
    assert_int_equal(shared, 0);
    check_array(500, 1700, UINT64_MAX, &shared);
}

static void test_start_array_large_shares_blocks(void **state)
{
    (void)state;
    size_t shared;
    check_array(1, 1000000, 1, &shared);
    assert_in_range(shared, 9, 16);
    check_array(77777, 1234567, 1, &shared);
    assert_in_range(shared, 9, 18);
    check_array(1, 10, 1, &shared); /* mapped, and smaller than a block */
    assert_int_equal(shared, 0);
}

static void test_start_array_of_an_empty_log_is_empty(void **state)
{
    (void)state;
    struct lq_start_array array;
    assert_int_equal(lq_start_array_fill(7, 6, NULL, 0, NULL, 0, 1, &array), LIGHTQ_OK);
    assert_null(array.entries);
    assert_int_equal(array.count, 0);
}

static void test_start_array_runs_with_a_hole_are_corrupt(void **state)
{
    (void)state;
    struct lq_start_array array;
    const struct lq_rlog_run hole[] = {{.first = 1, .last = 5, .term = 1}, {.first = 7, .last = 9, .term = 2}};
    const struct lq_rlog_run brief[] = {{.first = 1, .last = 5, .term = 1}};
    const struct lq_rlog_run zero[] = {{.first = 1, .last = 9, .term = 0}};
    assert_int_equal(lq_start_array_fill(1, 9, hole, 2, NULL, 0, UINT64_MAX, &array), LIGHTQ_ECORRUPT);
    assert_int_equal(lq_start_array_fill(1, 9, brief, 1, NULL, 0, 1, &array), LIGHTQ_ECORRUPT);
    assert_int_equal(lq_start_array_fill(1, 9, zero, 1, NULL, 0, UINT64_MAX, &array), LIGHTQ_ECORRUPT);
}

static void test_start_array_more_than_libraft_counts_is_refused(void **state)
{
    (void)state;
    struct lq_start_array array;
    const struct lq_rlog_run run = {.first = 1, .last = UINT64_C(1) << 40, .term = 1};
    assert_int_equal(lq_start_array_fill(1, UINT64_C(1) << 40, &run, 1, NULL, 0, 1, &array), LIGHTQ_ELIMIT);
}

static void test_heap_token_and_foreign_memory_survive_free(void **state)
{
    (void)state;
    _Alignas(16) uint8_t foreign[64];
    lq_raft_heap_mark_foreign(foreign);
    memset(foreign + LQ_RAFT_HEAD_BYTES, 7, 16);

    raft_free(lq_raft_token());
    raft_free(lq_raft_token());
    raft_free(foreign + LQ_RAFT_HEAD_BYTES);
    raft_free(NULL);

    assert_int_equal(foreign[LQ_RAFT_HEAD_BYTES], 7);
    uint8_t *block = raft_calloc(4, 25);
    assert_non_null(block);
    assert_int_equal(block[99], 0);
    block = raft_realloc(block, 5000);
    assert_non_null(block);
    raft_free(block);
    assert_null(raft_malloc(SIZE_MAX));
    assert_null(raft_calloc(SIZE_MAX / 2, 4));
    assert_null(raft_aligned_alloc(4096, 4096));
}

static void test_errmap_translates_every_code(void **state)
{
    (void)state;
    assert_int_equal(lq_status_from_raft(0), LIGHTQ_OK);
    assert_int_equal(lq_status_from_raft(RAFT_NOMEM), LIGHTQ_ENOMEM);
    assert_int_equal(lq_status_from_raft(RAFT_NOTLEADER), LIGHTQ_ENOTLEADER);
    assert_int_equal(lq_status_from_raft(RAFT_LEADERSHIPLOST), LIGHTQ_ENOTLEADER);
    assert_int_equal(lq_status_from_raft(RAFT_CANTCHANGE), LIGHTQ_ECONFLICT);
    assert_int_equal(lq_status_from_raft(RAFT_BADID), LIGHTQ_ENOTFOUND);
    assert_int_equal(lq_status_from_raft(RAFT_DUPLICATEID), LIGHTQ_EEXISTS);
    assert_int_equal(lq_status_from_raft(RAFT_BADROLE), LIGHTQ_EINVAL);
    assert_int_equal(lq_status_from_raft(RAFT_MALFORMED), LIGHTQ_ECORRUPT);
    assert_int_equal(lq_status_from_raft(RAFT_SHUTDOWN), LIGHTQ_ECORRUPT);
    assert_int_equal(lq_status_from_raft(RAFT_NOSPACE), LIGHTQ_ENOSPC);
    assert_int_equal(lq_status_from_raft(RAFT_BUSY), LIGHTQ_EBUSY);
    assert_int_equal(lq_status_from_raft(9999), LIGHTQ_EINTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_array_small_is_plain_memory),
        cmocka_unit_test(test_start_array_large_shares_blocks),
        cmocka_unit_test(test_start_array_of_an_empty_log_is_empty),
        cmocka_unit_test(test_start_array_runs_with_a_hole_are_corrupt),
        cmocka_unit_test(test_start_array_more_than_libraft_counts_is_refused),
        cmocka_unit_test(test_heap_token_and_foreign_memory_survive_free),
        cmocka_unit_test(test_errmap_translates_every_code),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
