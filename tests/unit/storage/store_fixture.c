/* tests/unit/storage/store_fixture.c - see store_fixture.h. */
#include "store_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"

static uint64_t now_us(struct lq_clock *clock)
{
    return ((struct test_clock *)clock)->now_us;
}

static uint64_t wall_ms(struct lq_clock *clock)
{
    return 1700000000000u + ((struct test_clock *)clock)->now_us / 1000;
}

static void random_bytes(struct lq_clock *clock, void *out, size_t size)
{
    struct test_clock *own = (struct test_clock *)clock;
    for (size_t i = 0; i < size; i++) {
        own->random_state = own->random_state * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(own->random_state >> 56);
    }
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    lq_log_configure(LQ_LOG_OFF, 2);
    f->mem = lq_io_mem_new();
    assert_non_null(f->mem);
    f->clock = (struct test_clock){.clock = {.monotonic_us = now_us, .wall_ms = wall_ms, .random = random_bytes},
                                   .random_state = 7};
    f->options = (struct lq_store_options){.dir = "", .cluster = {.bytes = {1, 2, 3}}};
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    if (f->store != NULL) {
        fixture_close(f);
    }
    assert_int_equal(lq_io_mem_open_files(f->mem), 0);
    assert_int_equal(lq_io_mem_pending(f->mem), 0);
    lq_io_mem_free(f->mem);
    free(f);
    return 0;
}

lightq_status fixture_try_open(struct fixture *f)
{
    assert_null(f->store);
    f->err = (struct lq_err){.text = ""};
    return lq_store_open(lq_io_mem_io(f->mem), &f->clock.clock, &f->options, &f->store, &f->err);
}

void fixture_open(struct fixture *f)
{
    lightq_status status = fixture_try_open(f);
    if (status != LIGHTQ_OK) {
        fail_msg("open: %s: %s", lightq_status_name(status), f->err.text);
    }
}

static void on_closed(void *data)
{
    ((struct fixture *)data)->closed = true;
}

void fixture_close(struct fixture *f)
{
    f->closed = false;
    lq_store_close(f->store, on_closed, f);
    f->store = NULL;
    assert_false(f->closed); /* never inside the call */
    (void)lq_io_mem_run_all(f->mem);
    assert_true(f->closed);
}

void fixture_crash(struct fixture *f, enum lq_io_mem_crash_mode mode, uint64_t seed)
{
    if (f->store != NULL) {
        lq_store_abandon(f->store);
        f->store = NULL;
    }
    assert_int_equal(lq_io_mem_crash(f->mem, mode, seed), LIGHTQ_OK);
}

void fixture_reopen(struct fixture *f)
{
    fixture_close(f);
    fixture_open(f);
}

void fixture_settle(struct fixture *f)
{
    for (unsigned i = 0; i < 10000; i++) {
        lq_store_flush(f->store);
        if (!lq_io_mem_run_one(f->mem) && lq_store_idle(f->store)) {
            return;
        }
    }
    fail_msg("the store never comes to rest");
}

static void on_durable(void *owner, uint64_t index)
{
    struct told *told = owner;
    told->durable = index;
    told->durable_count++;
}

static void on_voted(void *owner, uint64_t sequence)
{
    ((struct told *)owner)->voted = sequence;
}

static void on_installed(void *owner, uint64_t last_index)
{
    ((struct told *)owner)->installed = last_index;
}

static void on_failed(void *owner, lightq_status status, const struct lq_err *err)
{
    struct told *told = owner;
    told->failed_count++;
    told->failed_status = status;
    (void)snprintf(told->failed_text, sizeof told->failed_text, "%s", err->text);
}

const struct lq_rlog_events told_events = {
    .durable = on_durable, .voted = on_voted, .installed = on_installed, .failed = on_failed};

struct lq_rlog *fixture_create(struct fixture *f, uint64_t group, struct told *told)
{
    struct lq_rlog *log = NULL;
    lightq_status status = lq_rlog_create(f->store, group, 1, &log, &f->err);
    if (status != LIGHTQ_OK) {
        fail_msg("create: %s", f->err.text);
    }
    if (told != NULL) {
        *told = (struct told){.f = f};
        lq_rlog_set_events(log, &told_events, told);
    }
    return log;
}

struct lq_rlog *fixture_find(struct fixture *f, uint64_t group, struct told *told)
{
    struct lq_rlog *log = lq_store_find(f->store, group);
    assert_non_null(log);
    if (told != NULL) {
        *told = (struct told){.f = f};
        lq_rlog_set_events(log, &told_events, told);
    }
    return log;
}

uint8_t payload_byte(uint64_t group, uint64_t index, uint64_t term, uint32_t i)
{
    return (uint8_t)(1 + (group * 131 + index * 31 + term * 17 + i * 7 + (i >> 8)) % 251); /* never 0 */
}

uint64_t entry_offset(uint64_t index)
{
    return (index - 1) * 2;
}

struct lq_entry_ref make_entry(uint64_t group, uint64_t index, uint64_t term, uint64_t prev_term, uint32_t payload_size,
                               enum lq_entry_type type)
{
    uint64_t size = lq_entry_size(payload_size);
    struct lq_slab *slab = lq_slab_new(size);
    if (slab == NULL) {
        return (struct lq_entry_ref){.slab = NULL};
    }
    for (uint32_t i = 0; i < payload_size; i++) {
        slab->bytes[LQ_ENTRY_HEADER_BYTES + i] = payload_byte(group, index, term, i);
    }
    const struct lq_entry entry = {.group = group,
                                   .index = index,
                                   .term = term,
                                   .prev_term = prev_term,
                                   .base_offset = entry_offset(index),
                                   .timestamp_ms = 1000 + index * 10,
                                   .commit_index = index - 1,
                                   .type = type,
                                   .message_count = 2,
                                   .payload_size = payload_size};
    lq_entry_seal(slab->bytes, &entry);
    return (struct lq_entry_ref){.slab = slab, .offset = 0, .size = (uint32_t)size};
}

lightq_status append(struct lq_rlog *log, uint64_t count, uint64_t term, uint32_t payload_size)
{
    lightq_status status = LIGHTQ_OK;
    for (uint64_t i = 0; i < count && status == LIGHTQ_OK; i++) {
        uint64_t last = lq_rlog_last(log);
        struct lq_entry_ref ref =
            make_entry(lq_rlog_group(log), last + 1, term, lq_rlog_term_at(log, last), payload_size, LQ_ENTRY_COMMAND);
        status = lq_rlog_append(log, &ref, 1);
        lq_slab_unref(ref.slab);
    }
    return status;
}

bool entry_is_good(const struct lq_entry *entry, uint64_t group, uint64_t index, uint64_t term)
{
    bool good = entry->group == group && entry->index == index && entry->term == term &&
                entry->base_offset == entry_offset(index) && entry->timestamp_ms == 1000 + index * 10;
    for (uint32_t i = 0; i < entry->payload_size && good; i++) {
        good = entry->payload[i] == payload_byte(group, index, term, i);
    }
    return good;
}

struct read_one {
    struct lq_rlog_read read;
    bool done;
    lightq_status status;
    struct lq_slab *slab;
    struct lq_entry_ref ref;
};

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    struct read_one *one = read->data;
    one->done = true;
    one->status = status;
    if (status == LIGHTQ_OK) {
        assert_true(read->count >= 1);
        one->ref = read->refs[0];
        one->slab = lq_slab_ref(read->slab);
    }
}

lightq_status read_one(struct fixture *f, struct lq_rlog *log, uint64_t index, struct lq_entry *entry,
                       struct lq_slab **slab)
{
    struct read_one one = {.read = {.index = index, .bytes_max = 1, .cb = on_read}};
    uint64_t size = 0;
    one.read.data = &one;
    struct lq_entry_ref ref;
    if (lq_rlog_peek(log, index, 1, 1, &ref) == 1) {
        assert_int_equal(lq_entry_decode(lq_entry_ref_bytes(&ref), ref.size, true, entry, &size, NULL), LIGHTQ_OK);
        *slab = ref.slab;
        return LIGHTQ_OK;
    }
    lightq_status status = lq_rlog_read(log, &one.read);
    if (status != LIGHTQ_OK) {
        return status;
    }
    assert_false(one.done);
    for (unsigned i = 0; i < 1000 && !one.done; i++) {
        (void)lq_io_mem_run_one(f->mem);
    }
    assert_true(one.done);
    if (one.status == LIGHTQ_OK) {
        assert_int_equal(lq_entry_decode(lq_entry_ref_bytes(&one.ref), one.ref.size, true, entry, &size, NULL),
                         LIGHTQ_OK);
        *slab = one.slab;
    }
    return one.status;
}

void check_log(struct fixture *f, struct lq_rlog *log)
{
    uint64_t prev_term = lq_rlog_term_at(log, lq_rlog_first(log) - 1);
    for (uint64_t i = lq_rlog_first(log); i <= lq_rlog_last(log); i++) {
        struct lq_entry entry;
        struct lq_slab *slab = NULL;
        assert_int_equal(read_one(f, log, i, &entry, &slab), LIGHTQ_OK);
        assert_true(entry_is_good(&entry, lq_rlog_group(log), i, lq_rlog_term_at(log, i)));
        assert_int_equal(entry.prev_term, prev_term);
        prev_term = entry.term;
        lq_slab_unref(slab);
    }
}

struct lq_checkpoint make_checkpoint(struct lq_rlog *log, uint64_t last_index, uint64_t term, const char *state)
{
    (void)log;
    return (struct lq_checkpoint){.last_index = last_index,
                                  .last_term = term,
                                  .next_offset = entry_offset(last_index + 1),
                                  .timestamp_ms = 1000 + last_index * 10,
                                  .configuration_index = 1,
                                  .configuration = (const uint8_t *)"configuration",
                                  .configuration_size = 13,
                                  .state = (const uint8_t *)state,
                                  .state_size = strlen(state)};
}

void fixture_put_file(struct fixture *f, const char *path, const uint8_t *bytes, size_t size)
{
    struct lq_io *io = lq_io_mem_io(f->mem);
    lq_file file;
    struct lq_io_op sync = {.kind = LQ_IO_SYNC};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    assert_int_equal(io->ops->open(io, path, LQ_OPEN_CREATE, &file, &f->err), LIGHTQ_OK);
    struct lq_io_op write = {.kind = LQ_IO_WRITE, .file = file, .size = size, .iov = &iov, .iov_count = 1};
    sync.file = file;
    assert_int_equal(io->ops->run(io, &write, &f->err), LIGHTQ_OK);
    assert_int_equal(io->ops->run(io, &sync, &f->err), LIGHTQ_OK);
    io->ops->close(io, file);
}

const char *group_path(char *out, size_t size, uint64_t group, uint64_t number, const char *suffix)
{
    (void)snprintf(out, size, "g%" PRIu64 "-1/%020" PRIu64 "%s", group, number, suffix);
    return out;
}
