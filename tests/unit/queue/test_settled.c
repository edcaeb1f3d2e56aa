/* test_settled.c - node/queue/settled.c and offset_map.c against slow ones that remember every offset. */
#include "client/base/limits.h"
#include "node/queue/settled.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/node/queue_fixture.h"

#define OFFSETS 6000
#define NO_MAX  UINT64_MAX

/* The slow one: a flag for each offset, and how far anything is settled. */
struct model {
    bool settled[OFFSETS];
    uint64_t ceiling;
};

static uint64_t model_floor(const struct model *model)
{
    uint64_t floor = 0;
    while (floor < model->ceiling && model->settled[floor]) {
        floor++;
    }
    return floor;
}

static uint64_t model_settle(struct model *model, uint64_t first, uint64_t count)
{
    uint64_t added = 0;
    for (uint64_t offset = first; offset < first + count; offset++) {
        added += !model->settled[offset];
        model->settled[offset] = true;
    }
    model->ceiling = first + count > model->ceiling ? first + count : model->ceiling;
    return added;
}

static uint64_t model_unsettled(const struct model *model, uint64_t first, uint64_t end)
{
    uint64_t count = 0;
    for (uint64_t offset = first; offset < end; offset++) {
        count += !model->settled[offset];
    }
    return count;
}

static void assert_like_model(const struct lq_settled *settled, const struct model *model, uint64_t *random)
{
    uint64_t floor = model_floor(model);
    assert_int_equal(settled->floor, floor);
    assert_int_equal(settled->ceiling, model->ceiling > floor ? model->ceiling : floor);
    assert_int_equal(settled->holes, model_unsettled(model, 0, model->ceiling));
    for (unsigned i = 0; i < 20; i++) {
        uint64_t at = random_below(random, OFFSETS - 64);
        uint64_t end = at + random_below(random, OFFSETS - at);
        uint64_t hole = at;
        uint64_t word = 0;
        while (hole < OFFSETS - 1 && model->settled[hole]) {
            hole++;
        }
        assert_int_equal(lq_settled_has(settled, at), model->settled[at]);
        assert_int_equal(lq_settled_next_hole(settled, at), hole);
        assert_int_equal(lq_settled_unsettled(settled, at, end), model_unsettled(model, at, end));
        at &= ~UINT64_C(63);
        for (unsigned bit = 0; bit < 64; bit++) {
            word |= (uint64_t)!model->settled[at + bit] << bit;
        }
        assert_true(lq_settled_word(settled, at) == word);
    }
}

static struct lq_writer bytes_of(const struct lq_settled *settled)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    lq_settled_save(settled, &writer);
    assert_int_equal(writer.status, LIGHTQ_OK);
    return writer;
}

/* Saved and loaded it is the same, and its bytes are. */
static void reload(struct lq_settled *settled)
{
    struct lq_writer before = bytes_of(settled);
    struct lq_reader reader = lq_reader_of(before.bytes, before.size);
    struct lq_settled loaded;
    assert_int_equal(lq_settled_load(&loaded, &reader, settled->ceiling, settled->holes), LIGHTQ_OK);
    assert_int_equal(lq_reader_left(&reader), 0);
    struct lq_writer after = bytes_of(&loaded);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.bytes, before.bytes, before.size);
    lq_writer_deinit(&before);
    lq_writer_deinit(&after);
    lq_settled_deinit(settled);
    *settled = loaded;
}

/* @longest: ranges are up to so long; @spread: and begin up to so far above the floor. */
static void run_random(uint64_t seed, uint64_t longest, uint64_t spread)
{
    struct model *model = calloc(1, sizeof *model);
    struct lq_settled settled;
    assert_non_null(model);
    print_message("seed %llu\n", (unsigned long long)seed);
    lq_settled_init(&settled, 0);

    while (settled.floor < OFFSETS - 2 * spread - longest) {
        uint64_t added;
        uint64_t first = settled.floor + random_below(&seed, spread);
        uint64_t count = 1 + random_below(&seed, longest);
        first -= first > 10 ? random_below(&seed, 10) : 0;
        if (random_below(&seed, 40) == 0) {
            uint64_t missed_first = UINT64_MAX;
            uint64_t to = settled.floor + random_below(&seed, spread / 4 + 1);
            uint64_t floor = settled.floor;
            uint64_t expected = model_unsettled(model, 0, to);
            assert_int_equal(lq_settled_raise(&settled, to, &missed_first), expected);
            assert_int_equal(missed_first, expected > 0 ? floor : UINT64_MAX);
            (void)model_settle(model, 0, to);
        } else {
            assert_int_equal(lq_settled_add(&settled, first, count, NO_MAX, &added), LIGHTQ_OK);
            assert_int_equal(added, model_settle(model, first, count));
        }
        assert_like_model(&settled, model, &seed);
        if (random_below(&seed, 8) == 0) {
            reload(&settled);
        }
    }
    lq_settled_deinit(&settled);
    free(model);
}

static void test_settled_single_acks_are_as_in_the_model(void **state)
{
    (void)state;
    run_random(20260701, 1, 100);
    run_random(20260702, 2, 1000);
}

static void test_settled_ranges_are_as_in_the_model(void **state)
{
    (void)state;
    run_random(20260703, 70, 300);
    run_random(20260704, 900, 2000);
}

static void test_settled_all_in_the_end_takes_no_memory(void **state)
{
    (void)state;
    enum { COUNT = 400000 };
    struct lq_settled settled;
    uint64_t added;
    lq_settled_init(&settled, 5);

    for (uint64_t offset = 6; offset < COUNT; offset += 2) { /* every second one, above a stuck one */
        assert_int_equal(lq_settled_add(&settled, offset, 1, NO_MAX, &added), LIGHTQ_OK);
    }
    assert_int_equal(settled.floor, 5);
    assert_true(settled.holes > COUNT / 2 - 10);
    for (uint64_t offset = COUNT; offset-- > 5;) {
        assert_int_equal(lq_settled_add(&settled, offset, 1, NO_MAX, &added), LIGHTQ_OK);
    }

    assert_int_equal(settled.floor, COUNT);
    assert_int_equal(settled.holes, 0);
    assert_null(settled.blocks);
    assert_int_equal(settled.by_number.capacity, 0);
    lq_settled_deinit(&settled);
}

static void test_settled_over_the_limit_changes_nothing(void **state)
{
    (void)state;
    struct lq_settled settled;
    uint64_t added;
    lq_settled_init(&settled, 0);
    assert_int_equal(lq_settled_add(&settled, 100, 10, 100, &added), LIGHTQ_OK);
    struct lq_writer before = bytes_of(&settled);

    assert_int_equal(lq_settled_add(&settled, 111, 1, 100, &added), LIGHTQ_ELIMIT);
    assert_int_equal(lq_settled_add(&settled, 200, LQ_SETTLE_RANGE_MAX + 1, NO_MAX, &added), LIGHTQ_ELIMIT);
    assert_int_equal(lq_settled_add(&settled, UINT64_MAX - 5, 10, NO_MAX, &added), LIGHTQ_ELIMIT);
    assert_int_equal(lq_settled_add(&settled, UINT64_MAX / 2, 10, 100, &added), LIGHTQ_ELIMIT);

    struct lq_writer after = bytes_of(&settled);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.bytes, before.bytes, before.size);
    assert_int_equal(lq_settled_add(&settled, 110, 1, 100, &added), LIGHTQ_OK); /* no hole more */
    lq_writer_deinit(&before);
    lq_writer_deinit(&after);
    lq_settled_deinit(&settled);
}

static void test_settled_without_memory_changes_nothing(void **state)
{
    (void)state;
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        struct lq_settled settled;
        uint64_t added;
        lq_settled_init(&settled, 0);
        lq_alloc_fail_at(nth);
        lightq_status status = lq_settled_add(&settled, 10000, 1, NO_MAX, &added);
        failed = lq_alloc_fail_end();
        assert_int_equal(status, failed ? LIGHTQ_ENOMEM : LIGHTQ_OK);
        assert_int_equal(settled.ceiling, failed ? 0 : 10001);
        assert_int_equal(settled.holes, failed ? 0 : 10000);
        lq_settled_deinit(&settled);
    }
}

static void test_settled_load_of_what_cannot_be_is_corrupt(void **state)
{
    (void)state;
    static const struct {
        uint64_t floor;
        uint8_t runs, bytes[8], size;
    } bad[] = {
        {9, 0, {1}, 1},             /* something settled behind no holes */
        {9, 1, {1, 1, 1}, 3},       /* the floor is not a hole */
        {9, 1, {0, 0, 1}, 3},       /* an empty run */
        {9, 1, {0, 1, 0}, 3},       /* nothing settled behind the last run */
        {9, 2, {0, 1, 0, 1, 1}, 5}, /* two runs that are one */
        {9, 1, {0, 99, 1}, 3},      /* beyond the end */
        {9, 1, {0, 60, 99}, 3},     /* the ceiling beyond the end */
        {9, 1, {0, 51, 1}, 3},      /* more holes than allowed */
        {9, 9, {0, 1}, 2},          /* more runs than bytes */
        {101, 0, {0}, 1},           /* the floor beyond the end */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t bytes[24];
        struct lq_settled settled;
        lq_put_u64(bytes, bad[i].floor);
        lq_put_u32(bytes + 8, bad[i].runs);
        memcpy(bytes + 12, bad[i].bytes, bad[i].size);
        struct lq_reader reader = lq_reader_of(bytes, 12u + bad[i].size);
        assert_int_equal(lq_settled_load(&settled, &reader, 100, 50), LIGHTQ_ECORRUPT);
    }
}

/* ---- the table */

#define KEYS 300

static void test_offset_map_is_as_the_model(void **state)
{
    (void)state;
    uint64_t seed = 20260705;
    struct lq_offset_map map = {.keys = NULL};
    uint32_t model[KEYS];
    uint32_t count = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    memset(model, 0xff, sizeof model);

    for (unsigned i = 0; i < 200000; i++) {
        uint64_t place = random_below(&seed, KEYS);
        uint64_t key = place % 2 == 0 ? place : place << 40;
        bool was_there = model[place] != LQ_OFFSET_MAP_NONE;
        assert_int_equal(lq_offset_map_find(&map, key), model[place]);
        if (random_below(&seed, 1000) == 0) {
            lq_offset_map_clear(&map);
            memset(model, 0xff, sizeof model);
            count = 0;
        } else if (random_below(&seed, 2) == 0) {
            assert_int_equal(lq_offset_map_reserve(&map, 1), LIGHTQ_OK);
            lq_offset_map_put(&map, key, i);
            model[place] = i;
            count += !was_there;
        } else {
            assert_int_equal(lq_offset_map_remove(&map, key), was_there);
            model[place] = LQ_OFFSET_MAP_NONE;
            count -= was_there;
        }
        assert_int_equal(map.count, count);
    }
    lq_offset_map_deinit(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settled_single_acks_are_as_in_the_model),
        cmocka_unit_test(test_settled_ranges_are_as_in_the_model),
        cmocka_unit_test(test_settled_all_in_the_end_takes_no_memory),
        cmocka_unit_test(test_settled_over_the_limit_changes_nothing),
        cmocka_unit_test(test_settled_without_memory_changes_nothing),
        cmocka_unit_test(test_settled_load_of_what_cannot_be_is_corrupt),
        cmocka_unit_test(test_offset_map_is_as_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
