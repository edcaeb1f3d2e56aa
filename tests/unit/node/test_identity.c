/* test_identity.c - the identity file: what it keeps, what it refuses, and that a power cut at any point leaves the old
 * one or the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/crc.h"
#include "node/codec.h"
#include "node/identity.h"
#include "storage/io_mem.h"

static int setup(void **state)
{
    *state = lq_io_mem_new();
    assert_non_null(*state);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(lq_io_mem_open_files(*state), 0);
    lq_io_mem_free(*state);
    return 0;
}

static struct lq_identity promised(uint64_t round)
{
    struct lq_identity identity;
    lq_identity_make(2, 1, lq_clock_system(), &identity);
    identity.state = LQ_IDENTITY_PROMISED;
    identity.proposal = (struct lq_cluster_proposal){
        .cluster = {.bytes = {1, (uint8_t)round}}, .proposer = 1, .proposer_uuid = {.bytes = {9}}, .round = round};
    identity.proposal.founders.count = 2;
    identity.proposal.founders.at[0] =
        (struct lq_founder){.node = 1, .uuid = {.bytes = {9}}, .client = {"a", 1}, .peer = {"a", 2}};
    identity.proposal.founders.at[1] =
        (struct lq_founder){.node = 2, .uuid = identity.uuid, .client = {"b", 1}, .peer = {"b", 2}};
    return identity;
}

static void assert_same(const struct lq_identity *a, const struct lq_identity *b)
{
    struct lq_writer of_a;
    struct lq_writer of_b;
    lq_writer_init(&of_a, 1 << 20);
    lq_writer_init(&of_b, 1 << 20);
    assert_int_equal(lq_identity_encode(a, &of_a), LIGHTQ_OK);
    assert_int_equal(lq_identity_encode(b, &of_b), LIGHTQ_OK);
    assert_int_equal(of_a.size, of_b.size);
    assert_memory_equal(of_a.bytes, of_b.bytes, of_a.size);
    lq_writer_deinit(&of_a);
    lq_writer_deinit(&of_b);
}

static void test_load_empty_directory_is_new(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity;
    struct lq_err err;
    uint64_t before = lq_io_mem_changes(*state);

    assert_int_equal(lq_identity_load(io, 1, &identity, &err), LIGHTQ_ENOTFOUND);

    assert_int_equal(lq_io_mem_changes(*state), before);
}

static void test_load_foreign_directory_is_refused(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity;
    struct lq_err err;
    assert_int_equal(io->ops->mkdir(io, "g12-1", &err), LIGHTQ_OK);

    assert_int_equal(lq_identity_load(io, 1, &identity, &err), LIGHTQ_EIDENTITY);

    assert_non_null(strstr(err.text, "g12-1/"));
}

static void test_boot_counts_up_and_survives(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity;
    struct lq_identity back;
    struct lq_err err;
    lq_identity_make(3, 1, lq_clock_system(), &identity);
    assert_false(lq_id_is_zero(&identity.uuid));

    assert_int_equal(lq_identity_boot(io, &identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_identity_boot(io, &identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_crash(*state, LQ_IO_MEM_LOSE, 1), LIGHTQ_OK);

    assert_int_equal(lq_identity_load(io, 3, &back, &err), LIGHTQ_OK);
    assert_int_equal(back.boot, 2);
    assert_same(&identity, &back);
    assert_int_equal(lq_identity_load(io, 4, &back, &err), LIGHTQ_EIDENTITY); /* another node's */
    assert_non_null(strstr(err.text, "node 3's"));
}

static void test_store_keeps_a_promise(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity = promised(4);
    struct lq_identity back;
    struct lq_err err;

    assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_OK);
    assert_same(&identity, &back);
    identity.state = LQ_IDENTITY_MEMBER;
    identity.cluster = identity.proposal.cluster;
    identity.founder = true;
    identity.meta_incarnation = 1;
    assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);

    assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_OK);
    assert_same(&identity, &back);
}

static void test_store_remembers_that_there_is_a_store(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity = promised(4);
    struct lq_identity back;
    struct lq_err err;

    identity.stored = true;
    assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_ECORRUPT); /* before it is a member */
    identity.state = LQ_IDENTITY_MEMBER;
    identity.cluster = (struct lq_id){.bytes = {7}};
    identity.meta_incarnation = 2;
    assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);

    assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_OK);
    assert_true(back.stored);
    assert_same(&identity, &back);
}

/* However often it is started again: each start counts, and would make an older copy look newer. */
static void test_store_remembers_that_others_have_seen_a_newer_one(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity, back;
    struct lq_err err;
    lq_identity_make(3, 1, lq_clock_system(), &identity);
    identity.state = LQ_IDENTITY_MEMBER;
    identity.cluster = (struct lq_id){.bytes = {7}};
    identity.meta_incarnation = 2;
    assert_int_equal(lq_identity_check(&identity, &err), LIGHTQ_OK);
    identity.outdated = true;

    assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_crash(*state, LQ_IO_MEM_LOSE, 1), LIGHTQ_OK);

    assert_int_equal(lq_identity_load(io, 3, &back, &err), LIGHTQ_OK);
    assert_same(&identity, &back);
    assert_int_equal(lq_identity_check(&back, &err), LIGHTQ_EREPLACED);
    assert_non_null(strstr(err.text, "lightq node replace 3 3"));
}

static void test_store_power_cut_leaves_old_or_new(void **state)
{
    struct lq_io_mem *mem = *state;
    struct lq_io *io = lq_io_mem_io(mem);
    struct lq_err err;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        for (unsigned mode = LQ_IO_MEM_KEEP; mode <= LQ_IO_MEM_TEAR; mode++) {
            struct lq_identity before = promised(1);
            struct lq_identity after = before;
            struct lq_identity back;
            assert_int_equal(lq_io_mem_remove(mem, ""), LIGHTQ_OK);
            assert_int_equal(lq_identity_store(io, &before, &err), LIGHTQ_OK);
            after.boot = 77;
            lq_io_mem_crash_after(mem, n);
            lightq_status status = lq_identity_store(io, &after, &err);
            done = !lq_io_mem_crashed(mem);
            assert_int_equal(lq_io_mem_crash(mem, (enum lq_io_mem_crash_mode)mode, n), LIGHTQ_OK);

            assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_OK);
            assert_true(back.boot == 77 || (back.boot == before.boot && status != LIGHTQ_OK));
            assert_same(&back, back.boot == 77 ? &after : &before);
            assert_int_equal(lq_identity_store(io, &after, &err), LIGHTQ_OK); /* the leftovers are no hindrance */
        }
    }
}

static void test_store_failed_write_is_told(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity = promised(1);
    struct lq_err err;
    const struct lq_io_mem_fault full = {.verb = LQ_IO_WRITE, .status = LIGHTQ_ENOSPC};
    assert_int_equal(lq_io_mem_add_fault(*state, &full), LIGHTQ_OK);

    assert_int_equal(lq_identity_boot(io, &identity, &err), LIGHTQ_ENOSPC);

    assert_int_equal(identity.boot, 0);
    lq_io_mem_clear_faults(*state);
    const struct lq_io_mem_fault bad = {.verb = LQ_IO_SYNC, .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(*state, &bad), LIGHTQ_OK);
    assert_int_equal(lq_identity_boot(io, &identity, &err), LIGHTQ_EIO);
}

static void test_load_damaged_file_is_corrupt(void **state)
{
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity = promised(1);
    struct lq_identity back;
    struct lq_err err;
    assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_flip(*state, "node", 44, 3), LIGHTQ_OK);

    assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_ECORRUPT);

    assert_int_equal(lq_io_mem_cut_file(*state, "node", 3), LIGHTQ_OK);
    assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_ECORRUPT);
}

static void test_load_shards_that_no_node_has_is_corrupt(void **state)
{
    static const uint32_t NUMBERS[] = {0, LQ_SHARDS_MAX + 1, UINT32_MAX};
    struct lq_io *io = lq_io_mem_io(*state);
    struct lq_identity identity = promised(1);
    struct lq_identity back;
    struct lq_err err;
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        identity.shards = NUMBERS[i];
        assert_int_equal(lq_identity_store(io, &identity, &err), LIGHTQ_OK);

        assert_int_equal(lq_identity_load(io, 2, &back, &err), LIGHTQ_ECORRUPT);
    }
}

/* Every byte of a good file changed, with a crc that fits. */
static void test_decode_changed_bytes_never_pass_unsound(void **state)
{
    (void)state;
    struct lq_identity identity = promised(1);
    struct lq_identity back;
    struct lq_writer writer;
    lq_writer_init(&writer, 1 << 20);
    assert_int_equal(lq_identity_encode(&identity, &writer), LIGHTQ_OK);

    for (size_t at = 0; at + 4 < writer.size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            writer.bytes[at] ^= (uint8_t)(1u << bit);
            lq_put_u32(writer.bytes + writer.size - 4, lq_crc32c(0, writer.bytes, writer.size - 4));
            lightq_status status = lq_identity_decode(writer.bytes, writer.size, &back);
            if (status == LIGHTQ_OK) {
                const struct lq_founder *self = lq_founder_find(&back.proposal.founders, back.node);
                assert_non_null(self);
                assert_true(lq_id_equal(&self->uuid, &back.uuid));
            } else {
                assert_true(status == LIGHTQ_ECORRUPT || (status == LIGHTQ_EVERSION && at >= 8 && at < 12));
            }
            writer.bytes[at] ^= (uint8_t)(1u << bit);
        }
    }
    for (size_t size = 0; size < writer.size; size++) {
        assert_int_not_equal(lq_identity_decode(writer.bytes, size, &back), LIGHTQ_OK);
    }
    lq_writer_deinit(&writer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_load_empty_directory_is_new),
        CASE(test_load_foreign_directory_is_refused),
        CASE(test_boot_counts_up_and_survives),
        CASE(test_store_keeps_a_promise),
        CASE(test_store_remembers_that_there_is_a_store),
        CASE(test_store_remembers_that_others_have_seen_a_newer_one),
        CASE(test_store_power_cut_leaves_old_or_new),
        CASE(test_store_failed_write_is_told),
        CASE(test_load_damaged_file_is_corrupt),
        CASE(test_load_shards_that_no_node_has_is_corrupt),
        cmocka_unit_test(test_decode_changed_bytes_never_pass_unsound),
    };
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
