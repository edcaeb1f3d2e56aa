/* test_produced.c - what answers to PRODUCE say: each status, so that a new one is thought about. Where this errs to
 * "stored" or "not stored", an acknowledged message is lost or stored twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/wire/produced.h"

static const struct {
    lightq_status status;
    enum lq_produced says;
} wanted[] = {
    {LIGHTQ_OK, LQ_PRODUCED_STORED},
    {LIGHTQ_EINVAL, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ENOMEM, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EIO, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ENOSPC, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ECORRUPT, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EPROTO, LQ_PRODUCED_REFUSED},
    {LIGHTQ_EVERSION, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ECANCELED, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ETIMEDOUT, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EBUSY, LQ_PRODUCED_NOT_NOW},
    {LIGHTQ_ETOOBIG, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ENOTFOUND, LQ_PRODUCED_NOT_NOW},
    {LIGHTQ_EEXISTS, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ENOTLEADER, LQ_PRODUCED_NOT_NOW},
    {LIGHTQ_ENOLEADER, LQ_PRODUCED_NOT_NOW},
    {LIGHTQ_EUNAVAILABLE, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EOUTOFSEQUENCE, LQ_PRODUCED_GAP},
    {LIGHTQ_EDUPLICATE, LQ_PRODUCED_STORED},
    {LIGHTQ_EFENCED, LQ_PRODUCED_REFUSED},
    {LIGHTQ_EOUTOFRANGE, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EIDENTITY, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EAUTH, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ESTOPPED, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EDAMAGED, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ECLOSED, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ECONNECT, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ENAME, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ECONFLICT, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EUNSUPPORTED, LQ_PRODUCED_REFUSED},
    {LIGHTQ_ELEADERSHIPLOST, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ENOTREADY, LQ_PRODUCED_NOT_NOW},
    {LIGHTQ_EEXPECTED, LQ_PRODUCED_REFUSED},
    {LIGHTQ_EFORK, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ELIMIT, LQ_PRODUCED_NOT_NOW},
    {LIGHTQ_EADDRINUSE, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EINTERNAL, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_EREPLACED, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ESETTLED, LQ_PRODUCED_NOT_KNOWN},
    {LIGHTQ_ENOTHELD, LQ_PRODUCED_NOT_KNOWN},
};

static void test_produced_says_of_every_status(void **state)
{
    static const lightq_status all[] = {
#define X(name, number, retriable, text) LIGHTQ_##name,
        LIGHTQ_STATUS_TABLE(X)
#undef X
    };
    const size_t count = sizeof wanted / sizeof wanted[0];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t at = 0;
        while (at < count && wanted[at].status != all[i]) {
            at++;
        }
        if (at == count) {
            fail_msg("nothing is wanted for %s", lightq_status_name(all[i]));
        }
        assert_int_equal(lq_produced_says(all[i]), wanted[at].says);
    }
}

static void test_produced_says_of_a_status_of_tomorrow_is_not_known(void **state)
{
    (void)state;
    assert_int_equal(lq_produced_says((lightq_status)10000), LQ_PRODUCED_NOT_KNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_produced_says_of_every_status),
        cmocka_unit_test(test_produced_says_of_a_status_of_tomorrow_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
