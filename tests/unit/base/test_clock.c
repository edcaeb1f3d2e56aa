/* tests/unit/base/test_clock.c - the machine's clock, and randomness within a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/clock.h"

#define YEAR_2024_MS UINT64_C(1704067200000)

/* A clock that hands out the values it was given. */
struct scripted_clock {
    struct lq_clock clock;
    const uint64_t *values;
    size_t at;
};

static void scripted_random(struct lq_clock *clock, void *out, size_t size)
{
    struct scripted_clock *self = (struct scripted_clock *)clock;
    assert_int_equal(size, sizeof(uint64_t));
    memcpy(out, &self->values[self->at++], size);
}

static void test_clock_monotonic_never_goes_back(void **state)
{
    (void)state;
    struct lq_clock *clock = lq_clock_system();
    uint64_t last = lq_clock_monotonic_us(clock);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = lq_clock_monotonic_us(clock);
        assert_true(now >= last);
        last = now;
    }
    assert_true(lq_clock_monotonic_ms(clock) >= last / 1000);
}

static void test_clock_wall_is_in_our_time(void **state)
{
    (void)state;
    uint64_t ms = lq_clock_wall_ms(lq_clock_system());
    uint64_t us = lq_clock_system_wall_us();
    assert_true(ms > YEAR_2024_MS);
    assert_true(us / 1000 >= ms && us / 1000 - ms < 3600000); /* the same clock, in another unit */
}

static void test_clock_random_fills_all_bytes(void **state)
{
    (void)state;
    enum { SIZE = 1000, ROUNDS = 64 };
    uint8_t seen[SIZE + 2] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[SIZE + 2] = {0};
        lq_clock_system()->random(lq_clock_system(), bytes + 1, SIZE);
        for (size_t j = 0; j < sizeof bytes; j++) {
            seen[j] |= bytes[j];
        }
    }
    assert_int_equal(seen[0], 0);
    assert_int_equal(seen[SIZE + 1], 0);
    for (size_t j = 1; j <= SIZE; j++) {
        assert_int_not_equal(seen[j], 0); /* all 64 rounds zero: once in 2^500 */
    }
}

static void test_clock_random_below_stays_below(void **state)
{
    (void)state;
    bool seen[3] = {false};
    for (int i = 0; i < 200; i++) {
        uint64_t value = lq_clock_random_below(lq_clock_system(), 3);
        assert_true(value < 3);
        seen[value] = true;
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    assert_int_equal(lq_clock_random_below(lq_clock_system(), 1), 0);
    assert_int_equal(lq_clock_random_below(lq_clock_system(), 0), 0);
}

static void test_clock_random_below_draws_unfair_values_again(void **state)
{
    (void)state;
    /* With bound 2^63 + 1 all values below 2^63 - 1 would favour small results. */
    uint64_t bound = (UINT64_C(1) << 63) + 1;
    const uint64_t values[] = {0, (UINT64_C(1) << 63) - 2, (UINT64_C(1) << 63) - 1};
    struct scripted_clock clock = {.clock = {.random = scripted_random}, .values = values};

    uint64_t value = lq_clock_random_below(&clock.clock, bound);

    assert_int_equal(value, (UINT64_C(1) << 63) - 1);
    assert_int_equal(clock.at, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_monotonic_never_goes_back),
        cmocka_unit_test(test_clock_wall_is_in_our_time),
        cmocka_unit_test(test_clock_random_fills_all_bytes),
        cmocka_unit_test(test_clock_random_below_stays_below),
        cmocka_unit_test(test_clock_random_below_draws_unfair_values_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
