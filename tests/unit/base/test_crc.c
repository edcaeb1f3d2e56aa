/* tests/unit/base/test_crc.c - CRC32C against known values and a bitwise one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/crc.h"

/* The definition: reflected polynomial 0x1EDC6F41. */
static uint32_t bitwise(uint32_t crc, const uint8_t *bytes, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0x82f63b78u & (0 - (crc & 1)));
        }
    }
    return ~crc;
}

static void test_crc_known_values(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0};
    uint8_t ones[32];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(lq_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(lq_crc32c(0, zeros, sizeof zeros), 0x8a9136aa); /* RFC 3720, B.4 */
    assert_int_equal(lq_crc32c(0, ones, sizeof ones), 0x62a8ab43);
    assert_int_equal(lq_crc32c(0, NULL, 0), 0);
    assert_int_equal(lq_crc32c(7, NULL, 0), 7);
}

static void test_crc_goes_on_over_any_cut_and_alignment(void **state)
{
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 37 + 11);
    }
    for (size_t size = 0; size <= sizeof bytes - 8; size += 7) {
        const uint8_t *at = bytes + size % 8;
        uint32_t whole = lq_crc32c(0, at, size);
        assert_int_equal(whole, bitwise(0, at, size));
        size_t cut = size / 3;
        assert_int_equal(lq_crc32c(lq_crc32c(0, at, cut), at + cut, size - cut), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_known_values),
        cmocka_unit_test(test_crc_goes_on_over_any_cut_and_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
