/* tests/unit/base/test_status.c - names, texts and retriability of lightq/status.h, and struct lq_err. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/err.h"

static void test_status_every_row_has_its_name_and_text(void **state)
{
    (void)state;
#define X(name, number, retriable, text_)                                    \
    assert_int_equal(LIGHTQ_##name, number);                                 \
    assert_string_equal(lightq_status_name((lightq_status)(number)), #name); \
    assert_string_equal(lightq_status_text((lightq_status)(number)), text_); \
    assert_int_equal(lightq_status_retriable((lightq_status)(number)), retriable);
    LIGHTQ_STATUS_TABLE(X)
#undef X
}

static void test_status_unknown_number_is_named_so(void **state)
{
    (void)state;
    assert_string_equal(lightq_status_name((lightq_status)9999), "EUNKNOWN");
    assert_non_null(lightq_status_text((lightq_status)9999));
    assert_false(lightq_status_retriable((lightq_status)9999));
}

static void test_err_set_fills_and_returns_the_status(void **state)
{
    (void)state;
    struct lq_err err;

    lightq_status status = lq_err_set(&err, LIGHTQ_EPROTO, "frame %d of %s", 7, "n1");

    assert_int_equal(status, LIGHTQ_EPROTO);
    assert_int_equal(err.status, LIGHTQ_EPROTO);
    assert_string_equal(err.text, "frame 7 of n1");
    assert_int_equal(lq_err_set(NULL, LIGHTQ_EBUSY, "nobody reads this"), LIGHTQ_EBUSY);
}

static void test_err_set_too_long_is_cut(void **state)
{
    (void)state;
    char long_text[2 * LQ_ERR_TEXT_BYTES];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    struct lq_err err;

    (void)lq_err_set(&err, LIGHTQ_EIO, "%s", long_text);

    assert_int_equal(strlen(err.text), LQ_ERR_TEXT_BYTES - 1);
}

static void test_err_from_errno_adds_name_and_reason(void **state)
{
    (void)state;
    struct lq_err err;

    lightq_status status = lq_err_from_errno(&err, ENOSPC, "write %s", "/data/1.log");

    assert_int_equal(status, LIGHTQ_ENOSPC);
    assert_int_equal(err.status, LIGHTQ_ENOSPC);
    assert_string_equal(err.text, "write /data/1.log: ENOSPC (No space left on device)");
    assert_int_equal(lq_err_from_errno(NULL, EIO, "nobody reads this"), LIGHTQ_EIO);
}

static void test_err_from_errno_unknown_number_is_shown(void **state)
{
    (void)state;
    struct lq_err err;

    assert_int_equal(lq_err_from_errno(&err, 99999, "open it"), LIGHTQ_EIO);

    assert_string_equal(err.text, "open it: errno 99999 (no description)");
}

static void test_err_from_errno_too_long_keeps_the_reason(void **state)
{
    (void)state;
    char long_text[2 * LQ_ERR_TEXT_BYTES];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    struct lq_err err;

    (void)lq_err_from_errno(&err, EIO, "%s", long_text);

    const char *end = "xx: EIO (Input/output error)";
    assert_int_equal(strlen(err.text), LQ_ERR_TEXT_BYTES - 1);
    assert_string_equal(err.text + strlen(err.text) - strlen(end), end);
}

static void test_err_errno_values_map_to_statuses(void **state)
{
    (void)state;
    static const struct {
        int errnum;
        lightq_status status;
    } rows[] = {{0, LIGHTQ_OK},
                {ENOSPC, LIGHTQ_ENOSPC},
                {EDQUOT, LIGHTQ_ENOSPC},
                {ENOMEM, LIGHTQ_ENOMEM},
                {ENOENT, LIGHTQ_ENOTFOUND},
                {EEXIST, LIGHTQ_EEXISTS},
                {EADDRINUSE, LIGHTQ_EADDRINUSE},
                {EACCES, LIGHTQ_EAUTH},
                {EPERM, LIGHTQ_EAUTH},
                {EIO, LIGHTQ_EIO},
                {ENXIO, LIGHTQ_EIO}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(lq_status_from_errno(rows[i].errnum), rows[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_every_row_has_its_name_and_text),
        cmocka_unit_test(test_status_unknown_number_is_named_so),
        cmocka_unit_test(test_err_set_fills_and_returns_the_status),
        cmocka_unit_test(test_err_set_too_long_is_cut),
        cmocka_unit_test(test_err_from_errno_adds_name_and_reason),
        cmocka_unit_test(test_err_from_errno_unknown_number_is_shown),
        cmocka_unit_test(test_err_from_errno_too_long_keeps_the_reason),
        cmocka_unit_test(test_err_errno_values_map_to_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
