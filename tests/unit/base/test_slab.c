/* tests/unit/base/test_slab.c - counted references, also from many threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/slab.h"
#include "tests/lib/alloc_fail.h"

#define THREADS 4
#define ROUNDS  5000

struct released {
    int calls;
    struct lq_slab *slab;
};

static void on_release(struct lq_slab *slab, void *context)
{
    struct released *released = context;
    released->calls++;
    released->slab = slab;
}

static void test_slab_new_is_aligned_and_writable(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct lq_slab *slab = lq_slab_new(sizes[i]);
        assert_non_null(slab);
        assert_int_equal(slab->size, sizes[i]);
        assert_int_equal((uintptr_t)slab->bytes % 64, 0);
        memset(slab->bytes, 0xa5, sizes[i]);
        lq_slab_unref(slab);
    }
}

static void test_slab_new_without_memory_is_null(void **state)
{
    (void)state;
    assert_null(lq_slab_new(SIZE_MAX));

    lq_alloc_fail_at(1);
    struct lq_slab *slab = lq_slab_new(10);

    assert_true(lq_alloc_fail_end());
    assert_null(slab);
}

static void test_slab_wrap_releases_once_at_the_last_reference(void **state)
{
    (void)state;
    char bytes[] = "foreign";
    struct released released = {0};
    struct lq_slab *slab = lq_slab_wrap(bytes, sizeof bytes, on_release, &released);
    assert_ptr_equal(slab->bytes, bytes);
    assert_int_equal(slab->size, sizeof bytes);
    assert_ptr_equal(lq_slab_ref(slab), slab);

    lq_slab_unref(slab);
    assert_int_equal(released.calls, 0);
    lq_slab_unref(slab);

    assert_int_equal(released.calls, 1);
    assert_ptr_equal(released.slab, slab);
}

static void test_slab_wrap_without_memory_releases_nothing(void **state)
{
    (void)state;
    char bytes[8];
    struct released released = {0};

    lq_alloc_fail_at(1);
    struct lq_slab *slab = lq_slab_wrap(bytes, sizeof bytes, on_release, &released);

    assert_true(lq_alloc_fail_end());
    assert_null(slab);
    assert_int_equal(released.calls, 0);
}

static void test_slab_unref_of_null_is_nothing(void **state)
{
    (void)state;
    lq_slab_unref(NULL);
}

static void *on_thread(void *argument)
{
    struct lq_slab *slab = argument;
    for (int i = 0; i < ROUNDS; i++) {
        lq_slab_unref(lq_slab_ref(slab));
    }
    lq_slab_unref(slab);
    return NULL;
}

static void test_slab_references_of_threads_are_all_counted(void **state)
{
    (void)state;
    char bytes[8];
    struct released released = {0};
    struct lq_slab *slab = lq_slab_wrap(bytes, sizeof bytes, on_release, &released);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, on_thread, lq_slab_ref(slab)), 0);
    }
    lq_slab_unref(slab);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }

    assert_int_equal(released.calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slab_new_is_aligned_and_writable),
        cmocka_unit_test(test_slab_new_without_memory_is_null),
        cmocka_unit_test(test_slab_wrap_releases_once_at_the_last_reference),
        cmocka_unit_test(test_slab_wrap_without_memory_releases_nothing),
        cmocka_unit_test(test_slab_unref_of_null_is_nothing),
        cmocka_unit_test(test_slab_references_of_threads_are_all_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
