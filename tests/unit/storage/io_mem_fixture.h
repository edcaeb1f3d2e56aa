/* tests/unit/storage/io_mem_fixture.h - the disk in memory under an io_fixture, for test_io_mem.c and
 * test_io_mem_faults.c. */
#ifndef LQ_TESTS_IO_MEM_FIXTURE_H
#define LQ_TESTS_IO_MEM_FIXTURE_H

#include "io_contract.h"
#include "storage/io_mem.h"

#define SEEDS  200
#define SECTOR 512
#define PAGE   4096

int mem_setup(void **state);
int mem_teardown(void **state);
void crash(struct io_fixture *f, enum lq_io_mem_crash_mode mode, uint64_t seed);
void sync_file(struct io_fixture *f, lq_file file);
void sync_dir(struct io_fixture *f, const char *path);
void rename_to(struct io_fixture *f, const char *from, const char *to);
bool exists(struct io_fixture *f, const char *path);
lq_file reopen(struct io_fixture *f, const char *path);
void make_durable(struct io_fixture *f, const char *path, char byte, size_t size);
uint8_t *content(struct io_fixture *f, const char *path, size_t *size);
uint64_t size_of(struct io_fixture *f, const char *path);

#endif
