/* tests/unit/node/test_arena.c - node/arena.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/arena.h"
#include "tests/lib/alloc_fail.h"

#define LIMIT (1024 * 1024)

static int setup(void **state)
{
    static struct lq_arena arena;
    lq_arena_init(&arena, LIMIT);
    *state = &arena;
    return 0;
}

static int teardown(void **state)
{
    lq_arena_deinit(*state);
    return 0;
}

static void test_arena_takes_are_zero_aligned_and_apart(void **state)
{
    struct lq_arena *arena = *state;
    uint8_t *before = NULL;
    for (size_t size = 1; size < 3000; size += 7) {
        uint8_t *at = lq_arena_take(arena, size);

        assert_non_null(at);
        assert_int_equal((uintptr_t)at % _Alignof(max_align_t), 0);
        assert_true(before == NULL || *before == 0xee);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(at[i], 0);
        }
        memset(at, 0xee, size);
        before = at;
    }
}

static void test_arena_nothing_can_be_taken_first(void **state)
{
    struct lq_arena *arena = *state;

    assert_non_null(lq_arena_take(arena, 0));

    assert_non_null(lq_arena_take(arena, 10));
    assert_false(arena->failed);
}

static void test_arena_large_take_has_a_block_of_its_own(void **state)
{
    struct lq_arena *arena = *state;
    assert_non_null(lq_arena_take(arena, 10));

    uint8_t *at = lq_arena_take(arena, 500000);

    assert_non_null(at);
    memset(at, 1, 500000);
}

static void test_arena_beyond_its_limit_fails_for_good(void **state)
{
    struct lq_arena *arena = *state;
    unsigned taken = 0;
    while (lq_arena_take(arena, 10000) != NULL) {
        taken++;
    }

    assert_in_range(taken, 80, LIMIT / 10000);
    assert_true(arena->failed);
    assert_null(lq_arena_take(arena, 1));
    assert_string_equal(lq_arena_text(arena, "lost"), "");
}

static void test_arena_without_memory_fails_for_good(void **state)
{
    struct lq_arena *arena = *state;
    lq_alloc_fail_at(1);

    assert_null(lq_arena_take(arena, 10));

    assert_true(lq_alloc_fail_end());
    assert_null(lq_arena_take(arena, 10));
}

static void test_arena_text_is_copied(void **state)
{
    struct lq_arena *arena = *state;
    char text[] = "before";

    char *copy = lq_arena_text(arena, text);
    memset(text, 'x', sizeof text - 1);

    assert_string_equal(copy, "before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_arena_takes_are_zero_aligned_and_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arena_nothing_can_be_taken_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arena_large_take_has_a_block_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arena_beyond_its_limit_fails_for_good, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arena_without_memory_fails_for_good, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arena_text_is_copied, setup, teardown),
    };
    return cmocka_run_group_tests_name("node arena", tests, NULL, NULL);
}
