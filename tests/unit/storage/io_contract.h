/* tests/unit/storage/io_contract.h - what storage/io.h promises, as tests that every io must pass. test_io_uv.c and
 * test_io_mem.c run them; their state is a struct io_fixture with an empty disk. */
#ifndef LQ_TESTS_IO_CONTRACT_H
#define LQ_TESTS_IO_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/io.h"

struct io_fixture {
    struct lq_io *io;
    void (*settle)(struct io_fixture *f); /* runs pending jobs until none is left */
    struct lq_err err;
    void *disk; /* of the test program's own kind */
};

/* Shorthands, for the programs' own tests too. Each asserts its success. */
lq_file io_create(struct io_fixture *f, const char *path);
void io_write(struct io_fixture *f, lq_file file, uint64_t offset, const void *bytes, size_t size);
/* @bytes and nothing more are in the file. */
void io_assert_content(struct io_fixture *f, const char *path, const void *bytes, size_t size);
/* One op that needs no bytes. */
lightq_status io_op(struct io_fixture *f, enum lq_io_kind kind, lq_file file, uint64_t offset, uint64_t size);
lightq_status io_name_op(struct io_fixture *f, enum lq_io_kind kind, const char *path, const char *path_to);
void io_mkdir(struct io_fixture *f, const char *path);

void test_io_created_file_is_empty_and_found(void **state);
void test_io_create_of_existing_file_is_EEXISTS(void **state);
void test_io_open_of_missing_file_is_ENOTFOUND(void **state);
void test_io_create_in_missing_directory_is_ENOTFOUND(void **state);
void test_io_open_of_directory_is_EIO(void **state);
void test_io_bad_paths_are_EINVAL(void **state);
void test_io_written_bytes_are_read(void **state);
void test_io_write_beyond_end_leaves_zeros_between(void **state);
void test_io_many_iovecs_are_written_and_read(void **state);
void test_io_empty_write_changes_nothing(void **state);
void test_io_read_stops_at_end(void **state);
void test_io_write_to_read_handle_is_EIO(void **state);
void test_io_closed_handle_is_EIO(void **state);
void test_io_stale_handle_is_not_the_new_file(void **state);
void test_io_huge_offset_is_EIO(void **state);
void test_io_allocate_extends_with_zeros_and_keeps_bytes(void **state);
void test_io_truncate_cuts_and_extends(void **state);
void test_io_rename_replaces(void **state);
void test_io_rename_of_missing_is_ENOTFOUND(void **state);
void test_io_renamed_directory_keeps_its_files(void **state);
void test_io_rename_over_full_directory_is_EIO(void **state);
void test_io_unlink_removes_and_missing_is_OK(void **state);
void test_io_unlink_of_directory_is_EIO(void **state);
void test_io_unlinked_file_lives_while_open(void **state);
void test_io_sync_dir_of_missing_is_ENOTFOUND(void **state);
void test_io_mkdir_of_existing_is_EEXISTS(void **state);
void test_io_rmdir_of_full_directory_is_EIO(void **state);
void test_io_list_gives_each_entry_once(void **state);
void test_io_list_of_missing_is_ENOTFOUND(void **state);
void test_io_space_is_told(void **state);
void test_io_second_lock_is_EBUSY(void **state);
void test_io_job_runs_in_order_and_later(void **state);
void test_io_job_stops_at_first_failure(void **state);
void test_io_job_without_ops_calls_back(void **state);
void test_io_job_close_ends_handle(void **state);
void test_io_job_of_closed_handle_is_EIO(void **state);
void test_io_job_callback_may_submit(void **state);
void test_io_unknown_kind_is_EINVAL(void **state);

#define IO_CONTRACT_TESTS(TEST)                                                                                      \
    TEST(test_io_created_file_is_empty_and_found), TEST(test_io_create_of_existing_file_is_EEXISTS),                 \
        TEST(test_io_open_of_missing_file_is_ENOTFOUND), TEST(test_io_create_in_missing_directory_is_ENOTFOUND),     \
        TEST(test_io_open_of_directory_is_EIO), TEST(test_io_bad_paths_are_EINVAL),                                  \
        TEST(test_io_written_bytes_are_read), TEST(test_io_write_beyond_end_leaves_zeros_between),                   \
        TEST(test_io_many_iovecs_are_written_and_read), TEST(test_io_empty_write_changes_nothing),                   \
        TEST(test_io_read_stops_at_end), TEST(test_io_write_to_read_handle_is_EIO),                                  \
        TEST(test_io_closed_handle_is_EIO), TEST(test_io_stale_handle_is_not_the_new_file),                          \
        TEST(test_io_huge_offset_is_EIO), TEST(test_io_allocate_extends_with_zeros_and_keeps_bytes),                 \
        TEST(test_io_truncate_cuts_and_extends), TEST(test_io_rename_replaces),                                      \
        TEST(test_io_rename_of_missing_is_ENOTFOUND), TEST(test_io_renamed_directory_keeps_its_files),               \
        TEST(test_io_rename_over_full_directory_is_EIO), TEST(test_io_unlink_removes_and_missing_is_OK),             \
        TEST(test_io_unlink_of_directory_is_EIO), TEST(test_io_unlinked_file_lives_while_open),                      \
        TEST(test_io_sync_dir_of_missing_is_ENOTFOUND), TEST(test_io_mkdir_of_existing_is_EEXISTS),                  \
        TEST(test_io_rmdir_of_full_directory_is_EIO), TEST(test_io_list_gives_each_entry_once),                      \
        TEST(test_io_list_of_missing_is_ENOTFOUND), TEST(test_io_space_is_told), TEST(test_io_second_lock_is_EBUSY), \
        TEST(test_io_job_runs_in_order_and_later), TEST(test_io_job_stops_at_first_failure),                         \
        TEST(test_io_job_without_ops_calls_back), TEST(test_io_job_close_ends_handle),                               \
        TEST(test_io_job_of_closed_handle_is_EIO), TEST(test_io_job_callback_may_submit),                            \
        TEST(test_io_unknown_kind_is_EINVAL)

#endif
