/* tests/unit/base/test_id.c - identities and their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/clock.h"
#include "client/base/id.h"

/* A clock whose randomness gives zeros the first time and then counts. */
struct counting_clock {
    struct lq_clock clock;
    unsigned calls;
};

static void counting_random(struct lq_clock *clock, void *out, size_t size)
{
    struct counting_clock *self = (struct counting_clock *)clock;
    memset(out, (int)self->calls, size);
    self->calls++;
}

static void test_id_format_and_parse_round_trip(void **state)
{
    (void)state;
    struct lq_id id = {{0, 1, 0x7f, 0x80, 0xff, 0xab, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xf0}};
    char text[LQ_ID_TEXT_BYTES];
    struct lq_id parsed;

    lq_id_format(&id, text);

    assert_string_equal(text, "00017f80ffab060708090a0b0c0d0ef0");
    assert_int_equal(lq_id_parse(text, &parsed), LIGHTQ_OK);
    assert_true(lq_id_equal(&id, &parsed));
    assert_int_equal(lq_id_parse("00017F80FFAB060708090A0B0C0D0EF0", &parsed), LIGHTQ_OK);
    assert_true(lq_id_equal(&id, &parsed));
}

static void test_id_parse_of_anything_else_is_einval(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "00",
                                      "00017f80ffab060708090a0b0c0d0ef",
                                      "00017f80ffab060708090a0b0c0d0ef00",
                                      "00017f80ffab060708090a0b0c0d0eg0",
                                      " 0017f80ffab060708090a0b0c0d0ef0",
                                      "00017f80-ffab-0607-0809-0a0b0c0d0"};
    struct lq_id id = {{42}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lq_id_parse(bad[i], &id), LIGHTQ_EINVAL);
    }
    assert_int_equal(id.bytes[0], 42); /* as it was */
}

static void test_id_random_is_never_zero(void **state)
{
    (void)state;
    struct counting_clock clock = {.clock = {.random = counting_random}};

    struct lq_id id = lq_id_random(&clock.clock);

    assert_false(lq_id_is_zero(&id));
    assert_int_equal(clock.calls, 2);
    assert_int_equal(id.bytes[15], 1);
}

static void test_id_equal_looks_at_every_byte(void **state)
{
    (void)state;
    struct lq_id a = {{0}};
    assert_true(lq_id_is_zero(&a));
    for (size_t i = 0; i < sizeof a.bytes; i++) {
        struct lq_id b = a;
        b.bytes[i] = 1;
        assert_false(lq_id_equal(&a, &b));
        assert_false(lq_id_is_zero(&b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_format_and_parse_round_trip),
        cmocka_unit_test(test_id_parse_of_anything_else_is_einval),
        cmocka_unit_test(test_id_random_is_never_zero),
        cmocka_unit_test(test_id_equal_looks_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
