/* tests/unit/storage/store_fixture.h - a store on an in-memory disk with a clock that stands still until told, and
 * entries whose bytes follow from (group, index, term), so that any test can say what must be there. */
#ifndef LQ_TESTS_STORE_FIXTURE_H
#define LQ_TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/io_mem.h"
#include "storage/store.h"

struct test_clock {
    struct lq_clock clock;
    uint64_t now_us;
    uint64_t random_state;
};

struct fixture {
    struct lq_io_mem *mem;
    struct test_clock clock;
    struct lq_store_options options;
    struct lq_store *store; /* NULL while closed */
    bool closed;
    struct lq_err err;
};

/* What a log's events said last. */
struct told {
    struct fixture *f;
    uint64_t durable;
    uint64_t voted;
    uint64_t installed;
    unsigned durable_count;
    unsigned failed_count;
    lightq_status failed_status;
    char failed_text[LQ_ERR_TEXT_BYTES];
};

extern const struct lq_rlog_events told_events; /* owner: struct told */

int fixture_setup(void **state);
int fixture_teardown(void **state); /* fails on open files or pending jobs */

void fixture_open(struct fixture *f); /* must succeed */
lightq_status fixture_try_open(struct fixture *f);
void fixture_close(struct fixture *f);                                                /* orderly */
void fixture_crash(struct fixture *f, enum lq_io_mem_crash_mode mode, uint64_t seed); /* and not opened again */
void fixture_reopen(struct fixture *f);
/* Flushes and runs jobs until nothing waits. */
void fixture_settle(struct fixture *f);

struct lq_rlog *fixture_create(struct fixture *f, uint64_t group, struct told *told);
struct lq_rlog *fixture_find(struct fixture *f, uint64_t group, struct told *told);

/* Payload bytes of an entry: derived from group, index and term. */
uint8_t payload_byte(uint64_t group, uint64_t index, uint64_t term, uint32_t i);
uint64_t entry_offset(uint64_t index); /* base_offset of the entries made here: 2 messages each */
/* An encoded entry in a slab of its own; slab NULL when out of memory. @type LQ_ENTRY_COMMAND mostly. */
struct lq_entry_ref make_entry(uint64_t group, uint64_t index, uint64_t term, uint64_t prev_term, uint32_t payload_size,
                               enum lq_entry_type type);
/* Appends @count entries of @term with payloads of @payload_size. */
lightq_status append(struct lq_rlog *log, uint64_t count, uint64_t term, uint32_t payload_size);
/* Checks that an entry is what make_entry makes for (group, index, term); false when not. */
bool entry_is_good(const struct lq_entry *entry, uint64_t group, uint64_t index, uint64_t term);
/* Reads entry @index: from memory when it is there (unless @from_disk: through lq_rlog_read). */
lightq_status read_one(struct fixture *f, struct lq_rlog *log, uint64_t index, struct lq_entry *entry,
                       struct lq_slab **slab);
/* Every entry in [first, last] can be read, and is what was appended. */
void check_log(struct fixture *f, struct lq_rlog *log);

struct lq_checkpoint make_checkpoint(struct lq_rlog *log, uint64_t last_index, uint64_t term, const char *state);

/* Puts a file on the disk, durably. */
void fixture_put_file(struct fixture *f, const char *path, const uint8_t *bytes, size_t size);

/* Path of a group's file: "g<group>-1/<number><suffix>"; static per call site buffer of the caller. */
const char *group_path(char *out, size_t size, uint64_t group, uint64_t number, const char *suffix);

#endif
