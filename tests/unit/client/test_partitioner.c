/* tests/unit/client/test_partitioner.c - the rule for keys is a contract with other clients: the values of
 * docs/protocol.md stand here too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/lib/partitioner.h"

static void test_partitioner_keys_go_where_the_protocol_says(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t of_3, of_7, of_1000;
    } vectors[] = {
        {"", 0, 6, 921}, {"a", 2, 6, 955}, {"abc", 0, 0, 249}, {"order-17", 0, 1, 157}, {"\xc3\xa9", 0, 3, 848},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const char *key = vectors[i].key;
        assert_int_equal(lq_partition_of_key(key, strlen(key), 1), 0);
        assert_int_equal(lq_partition_of_key(key, strlen(key), 3), vectors[i].of_3);
        assert_int_equal(lq_partition_of_key(key, strlen(key), 7), vectors[i].of_7);
        assert_int_equal(lq_partition_of_key(key, strlen(key), 1000), vectors[i].of_1000);
    }
}

static void test_partitioner_round_robin_takes_each_in_turn(void **state)
{
    (void)state;
    uint64_t random = 1;
    assert_int_equal(lq_partition_next(LQ_PARTITIONER_ROUND_ROBIN, &random, 0, 3), 1);
    assert_int_equal(lq_partition_next(LQ_PARTITIONER_ROUND_ROBIN, &random, 1, 3), 2);
    assert_int_equal(lq_partition_next(LQ_PARTITIONER_ROUND_ROBIN, &random, 2, 3), 0);
    assert_int_equal(lq_partition_next(LQ_PARTITIONER_ROUND_ROBIN, &random, 2, 4), 3); /* it has grown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitioner_keys_go_where_the_protocol_says),
        cmocka_unit_test(test_partitioner_round_robin_takes_each_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
